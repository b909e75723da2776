//! The committed object of the BPF programs is what their source compiles to.

use std::process::Command;

#[test]
fn the_object_is_compiled_from_its_source() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("clang-19") || !has("llvm-strip-19") {
        println!("skipped: the_object_is_compiled_from_its_source needs clang-19 and llvm-19");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("sched.bpf.o");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/bpf.sh");
    let made = Command::new("sh").arg(script).arg(&object).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/src/probe/bpf/sched.bpf.o");
    let (made, committed) = (std::fs::read(&object).unwrap(), std::fs::read(committed).unwrap());
    assert!(made == committed, "the object is not that of its source: make bpf, and commit it");
}
