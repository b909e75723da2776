//! Tests of saving: nothing is lost, no temporary file stays.

use std::os::unix::fs::symlink;

use super::super::testing::{THREE_RUNS, parse};
use super::*;
use crate::compat::Whose;

#[test]
fn a_save_keeps_permissions_and_links_and_leaves_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.bench"), folder.path().join("link.bench"));
    fs::write(&real, "old").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.bench", &link).unwrap();
    let file = parse(THREE_RUNS).unwrap();
    file.save(&link).unwrap();
    assert_eq!(fs::read_to_string(&real).unwrap(), THREE_RUNS);
    assert_eq!(fs::metadata(&real).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real.bench"));

    // A link to a file that is not there yet makes that file.
    let (dangling, to) = (folder.path().join("dangling.bench"), folder.path().join("new.bench"));
    symlink("new.bench", &dangling).unwrap();
    file.save(&dangling).unwrap();
    assert_eq!(fs::read_to_string(&to).unwrap(), THREE_RUNS);
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 4, "real, link, dangling, new");
}

#[test]
fn a_save_that_fails_leaves_the_old_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bench");
    fs::write(&path, "old").unwrap();
    let half_way = |out: &mut dyn Write| {
        out.write_all(b"half")?;
        out.flush()?;
        assert_eq!(fs::read_to_string(&path).unwrap(), "old", "written to another file");
        Err(io::Error::other("disk full"))
    };
    replace(&path, &half_way).unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    rehearse(&path, &half_way).unwrap_err();
    rehearse(&path, &|out| out.write_all(b"new")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let circle = folder.path().join("circle.bench");
    symlink("circle.bench", &circle).unwrap();
    let why = parse("{}").unwrap().save(&circle).unwrap_err().text(Whose::Machine);
    assert!(why.contains("too many symbolic links"), "{why}");
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
        (folder.path().to_path_buf(), "hint: -f FILE names an ordinary file: ls -ld "),
    ];
    for (path, expected) in cases {
        let why = why(&path);
        assert!(why.contains(expected) && why.matches("hint: ").count() == 1, "{why}");
    }
    let of = |kind: ErrorKind| hint(Path::new("f/a.bench"), &kind.into());
    assert!(of(ErrorKind::StorageFull).ends_with("room for a second copy: df f"));
    assert!(of(ErrorKind::PermissionDenied).ends_with("must be writable: ls -ld f"));
}
