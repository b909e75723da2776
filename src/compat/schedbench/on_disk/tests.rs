//! Tests of the file on disk: what others wrote and what was measured both stay.

use super::super::testing::{THREE_RUNS, parse, usage};
use super::*;
use crate::compat::Whose;
use crate::model::clean_path;

fn here<T: std::fmt::Debug>(result: Result<T, CompatError>) -> String {
    result.unwrap_err().text(Whose::Machine)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bench");
    assert!(usage(read_text(&path)).contains("there is no file"));
    fs::write(&path, b"{\n\"Pool\":\"\xff\"}").unwrap();
    assert!(usage(read_text(&path)).contains("a.bench:2:9: not UTF-8"));
    usage(read_text(folder.path()));
}

#[test]
fn what_nobody_else_touched_is_saved_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bench");
    fs::write(&path, "{}").unwrap();
    let (mut disk, text) = OnDisk::read(&path, None).unwrap();
    assert_eq!(text, "{}");
    let file = parse(THREE_RUNS).unwrap();
    disk.probe(&file).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}", "a probe writes nothing");
    for _ in 0..3 {
        disk.save(&file).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), THREE_RUNS);
    }
    fs::remove_file(&path).unwrap();
    disk.save(&file).unwrap();
    assert_eq!(names(folder.path()), ["a.bench"]);
}

#[test]
fn what_another_wrote_is_left_and_our_results_go_next_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bench");
    let file = parse(THREE_RUNS).unwrap();
    let next_to = format!("a.bench.new-{}-1", std::process::id());
    let change_inode = |path: &Path| {
        let other = folder.path().join("other");
        fs::write(&other, "{}").unwrap();
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
        fs::rename(&other, path).unwrap();
    };
    let touch = |path: &Path| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    };
    let append = |path: &Path| {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        fs::write(path, "{} ").unwrap();
        File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    };
    let changes: [&dyn Fn(&Path); 3] = [&change_inode, &touch, &append];
    for change in changes {
        fs::write(&path, "{}").unwrap();
        let (mut disk, _) = OnDisk::read(&path, None).unwrap();
        change(&path);
        let theirs = fs::read_to_string(&path).unwrap();
        let why = here(disk.save(&file));
        assert!(why.contains("changed by somebody else") && why.contains(&next_to), "{why}");
        assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
        assert_eq!(fs::read_to_string(folder.path().join(&next_to)).unwrap(), THREE_RUNS);
        assert_eq!(names(folder.path()), ["a.bench", &next_to]);
        fs::remove_file(folder.path().join(&next_to)).unwrap();
    }
}

/// The name fits, but the temporary file's name does not: no save can succeed.
#[test]
fn what_cannot_be_saved_is_found_before_a_run_and_kept_after_one() {
    let folder = tempfile::tempdir().unwrap();
    let refuge = folder.path().join("state/schedlab");
    let path = folder.path().join("x".repeat(250));
    fs::write(&path, "{}").unwrap();
    let (mut disk, _) = OnDisk::read(&path, Some(refuge.clone())).unwrap();
    let file = parse(THREE_RUNS).unwrap();
    let why = here(disk.probe(&file));
    assert!(why.starts_with("nothing was run") && why.contains("hint: a shorter name"), "{why}");
    assert!(!refuge.exists());
    let number = std::process::id();
    for at in 1..=2 {
        let why = here(disk.save(&file));
        let kept = refuge.join(format!("unsaved.bench-{number}-{at}"));
        assert!(why.contains(&clean_path(&kept)) && why.contains("hint: a shorter name"), "{why}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), THREE_RUNS);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    disk.refuge = Some(path.join("no-folder"));
    assert!(here(disk.save(&file)).contains("results of the last run are lost"));
}
