//! The store from outside: what goes in comes out, and what goes wrong loses nothing.

mod annotations;
mod digests;
mod faults;
mod join;
mod kill;
mod migrate;
#[cfg(feature = "parquet")]
mod parquet;
mod place;
mod record;
mod round_trip;
mod sample;
mod sampled;
mod scores;

use std::io::{BufReader, Read};
use std::path::Path;
use std::process::Command;

use super::migrate::MIGRATIONS;
use super::open::{APPLICATION_ID, pragma};
use super::*;
use crate::model::{Advice, Event, RunKey};
use record::{Record, fold};

/// A store in a folder of its own.
fn fresh() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("data/schedlab.db")).unwrap();
    (folder, store)
}

/// A store with a plan `plan` of so many cells.
fn begun(cells: u32) -> (tempfile::TempDir, Store) {
    let (folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("plan", cells)]);
    (folder, store)
}

fn apply_all(store: &mut Store, events: &[Event]) {
    for event in events {
        store.apply(event).unwrap();
    }
}

fn export(store: &Store) -> String {
    let mut out = Vec::new();
    store.export(None, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn import(store: &mut Store, text: &str) -> Result<Imported, StoreError> {
    store.import(BufReader::new(text.as_bytes()))
}

/// Imports all of another store.
fn import_store(store: &mut Store, other: &Store) -> Result<Imported, StoreError> {
    let content = Content::Store(Box::new(Store::open_foreign(other.path())?));
    store.import_all([Source { name: "other".to_string(), content }])
}

/// Makes it a store that an older schedlab wrote.
fn forget_digests(store: &Store) {
    let sql = "UPDATE run SET digests = NULL; DELETE FROM plan_digest; DELETE FROM score_digest";
    store.conn.execute_batch(sql).unwrap();
}

/// Lists the damage that a store has reported.
fn reported(store: &Store) -> Vec<Damage> {
    store.reporter.reported.borrow().iter().cloned().collect()
}

/// The way out that an error names.
fn assert_hint(error: &StoreError, part: &str) {
    let hint = error.problem().hint.unwrap();
    assert!(hint.contains(part), "{error}: {hint}");
}

/// The database as SQLite itself judges it.
fn assert_sound(store: &Store) {
    let verdict: String =
        store.conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let mut orphans = store.conn.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(!orphans.exists([]).unwrap());
}

/// This test binary, to run one test of this module alone in another process.
fn myself(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("store::tests::{test}"), "--exact", "--nocapture"]);
    command
}

#[test]
fn migrations_are_numbered_files_and_all_are_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/migrations");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, MIGRATIONS.iter().map(|one| one.name).collect::<Vec<_>>());
    for (position, name) in files.iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}_", position + 1)), "{name}");
    }
}

#[test]
fn a_new_database_is_durable_marked_and_found_again() {
    let (folder, store) = fresh();
    let text = |sql| store.conn.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(text("PRAGMA journal_mode"), "wal");
    let number = |name| pragma(&store.conn, name).unwrap();
    assert_eq!(number("synchronous"), 2, "FULL");
    assert_eq!(number("foreign_keys"), 1);
    assert_eq!(number("application_id"), APPLICATION_ID);
    assert_eq!(number("user_version"), MIGRATIONS.len() as i64);
    assert!(number("busy_timeout") > 0);
    assert_eq!(number("wal_autocheckpoint"), 0, "the store does it itself");
    assert_eq!(number("journal_size_limit"), 64 << 20);
    let path = store.path().to_path_buf();
    assert_eq!(path, folder.path().join("data/schedlab.db"));
    drop(store);
    assert_eq!(Store::open(&path).unwrap().plan_heads().unwrap(), []);
    assert_eq!(Store::open_read_only(&path).unwrap().plan_heads().unwrap(), []);
}

#[test]
fn many_may_open_a_new_database_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schedlab.db");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| Store::open(&path))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().unwrap().plan_heads().unwrap(), []);
        }
    });
}

#[test]
fn paths_that_a_uri_would_misread_are_taken_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a b?mode=ro#x%20.db", "file:x.db", "ünï.db", ":memory:"] {
        let path = folder.path().join(name);
        drop(Store::open(&path).unwrap());
        assert!(path.is_file(), "{name}");
    }
}

#[test]
fn results_lie_where_xdg_says() {
    if std::env::var_os("SCHEDLAB_TEST_SHOW_PATH").is_some() {
        println!("path={}", default_path().unwrap().display());
        return;
    }
    let cases = [
        ("/data", "/data/schedlab/schedlab.db"),
        ("relative", "/h/.local/share/schedlab/schedlab.db"),
    ];
    for (data_home, expected) in cases {
        let output = myself("results_lie_where_xdg_says")
            .envs([("SCHEDLAB_TEST_SHOW_PATH", "1"), ("HOME", "/h"), ("XDG_DATA_HOME", data_home)])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(&format!("path={expected}\n")), "{said}");
    }
}
