//! The committed objects of the BPF programs are what their sources compile to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::checkout;

/// Every file below `folder` whose name ends so.
fn find(folder: &Path, end: &str, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, end, found);
        } else if path.to_string_lossy().ends_with(end) {
            found.insert(path);
        }
    }
}

#[test]
fn every_object_is_compiled_from_its_source() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("clang-19") || !has("llvm-strip-19") {
        println!("skipped: every_object_is_compiled_from_its_source needs clang-19 and llvm-19");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = checkout().join("scripts/bpf.sh");
    let made = Command::new("sh").arg(script).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (mut sources, mut objects) = (BTreeSet::new(), BTreeSet::new());
    find(&checkout().join("core/src"), ".bpf.c", &mut sources);
    find(&checkout().join("core/src"), ".bpf.o", &mut objects);
    let expected: BTreeSet<PathBuf> = sources.iter().map(|path| path.with_extension("o")).collect();
    assert_eq!(objects, expected, "a source without its object, or the reverse");
    assert!(objects.len() >= 4, "{objects:?}");
    let made_count = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(made_count, objects.len(), "scripts/bpf.sh does not compile all");
    for committed in objects {
        let made = std::fs::read(folder.path().join(committed.file_name().unwrap())).unwrap();
        let is_same = made == std::fs::read(&committed).unwrap();
        assert!(is_same, "{} is not that of its source: make bpf", committed.display());
    }
}
