//! Tests of the file: what is kept, and that a save loses nothing.

use std::os::unix::fs::symlink;

use super::super::testing::{THREE_RUNS, parse, usage};
use super::*;

#[test]
fn a_file_of_the_originals_is_written_back_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bench");
    parse(THREE_RUNS).unwrap().save(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), THREE_RUNS);
}

#[test]
fn unknown_fields_survive_anywhere() {
    let text = r#"{"Input":{"WorkerPresets":{"A":{"Args":[],"u":1.50}},"SimpleMatrix":{"Schedulers":null,"Workers":null,"Count":null,"NumaDisable":null,"u":2},"u":3},"Pool":"","SoftAffinity":"","WorkerConfig":{"Pool":"p","SoftAffinity":"","u":4},"RunConfig":{"Scheduler":"","Pool":"","Cpus":null,"u":5},"Runs":[{"Label":"","WorkerSets":[{"Params":{"Args":null,"u":6},"Config":{"Pool":"","SoftAffinity":"","u":7},"Count":1,"u":8}],"SoftAffinity":"","Scheduler":"","Pool":"own","Cpus":null,"RuntimeSeconds":0,"Completed":true,"Results":{"Raw":[{"Id":{"Set":0,"Id":0,"u":9},"Now":1,"u":10}],"Summary":[{"u":11}],"u":12},"u":13}],"u":18446744073709551616}"#;
    let mut out = Vec::new();
    json::write(&mut out, &parse(text).unwrap().plan).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), text);
}

#[test]
fn a_file_that_cannot_be_read_says_where() {
    let cut = &THREE_RUNS[..2_000];
    let why = usage(parse(cut));
    assert!(why.starts_with("t.bench:1:2000: `Runs[2].Results.Raw`: the text is cut off"), "{why}");
    let why = usage(parse("{\"Runs\":[{\"WorkerSets\":[{\n\"Count\":\"\\u001b[1m\"}]}]}"));
    assert!(why.starts_with("t.bench:2:"), "{why}");
    assert!(why.contains("`Runs[0].WorkerSets[0].Count`: invalid type: string"), "{why}");
    assert!(!why.contains('\u{1b}') && why.contains("\nhint: "), "{why}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bench");
    assert!(usage(read_text(&path)).contains("there is no file"));
    fs::write(&path, b"{\n\"Pool\":\"\xff\"}").unwrap();
    assert!(usage(read_text(&path)).contains("a.bench:2:9: not UTF-8"));
    assert!(matches!(read_text(folder.path()), Err(CompatError::Here(_))));
}

#[test]
fn a_save_keeps_permissions_and_links_and_leaves_nothing_beside() {
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
        assert_eq!(fs::read_to_string(&path).unwrap(), "old", "written beside it");
        Err(io::Error::other("disk full"))
    };
    replace(&path, &half_way).unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let circle = folder.path().join("circle.bench");
    symlink("circle.bench", &circle).unwrap();
    let Err(CompatError::Here(why)) = parse("{}").unwrap().save(&circle) else { panic!("saved") };
    assert!(why.contains("too many symbolic links") && why.contains("\nhint: "), "{why}");
    let folder_itself = parse("{}").unwrap().save(folder.path());
    assert!(matches!(folder_itself, Err(CompatError::Here(_))));
}
