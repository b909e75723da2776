//! Tests of saving: nothing is lost, and a hint helps.

use std::os::unix::fs::symlink;

use super::super::testing::{THREE_RUNS, parse};
use super::*;
use crate::compat::Whose;

#[test]
fn a_save_that_fails_leaves_the_old_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bench");
    let file = parse(THREE_RUNS).unwrap();
    fs::write(&path, "old").unwrap();
    file.rehearse(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    file.save(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), THREE_RUNS);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let folder_itself = parse("{}").unwrap().save(folder.path());
    assert_eq!(folder_itself.unwrap_err().whose, Whose::Machine);
}

#[test]
fn a_hint_fits_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let why = |path: &Path| parse("{}").unwrap().save(path).unwrap_err().text(Whose::Machine);
    let circle = folder.path().join("circle");
    symlink("circle", &circle).unwrap();
    let cases = [
        (circle, "hint: a link leads back to itself: readlink "),
        (folder.path().join("x".repeat(250)), "hint: a shorter name"),
        (folder.path().join("no/a.bench"), "hint: its folder must be there: mkdir -p "),
        (folder.path().to_path_buf(), "hint: is it the right file? ls -ld "),
    ];
    for (path, expected) in cases {
        let why = why(&path);
        assert!(why.contains(expected) && why.matches("hint: ").count() == 1, "{why}");
    }
}
