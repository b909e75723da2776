//! Databases that are removed, renamed or replaced while results are stored in them.

use std::fs;
use std::path::PathBuf;

use super::sample;
use super::*;
use crate::model::Advice;

fn run(round: u32) -> Vec<Event> {
    sample::run(RunKey { round, cell: 0 }, 2, round as usize + 1)
}

/// A store with a run of a plan.
fn begun() -> (tempfile::TempDir, Store) {
    let (folder, mut store) = super::begun(1);
    apply_all(&mut store, &run(0));
    (folder, store)
}

/// Stores one run more, which is to fail.
fn lost(store: &mut Store) -> (Loss, Kept) {
    let events = run(1);
    let (last, before) = events.split_last().unwrap();
    apply_all(store, before);
    let error = store.apply(last).unwrap_err();
    let StoreError::Lost { lost, kept, .. } = &error else { panic!("{error:?}") };
    assert!(error.to_string().contains(&*store.path().to_string_lossy()), "{error}");
    (lost.clone(), kept.clone())
}

/// Both runs are there, and the plan goes on.
fn assert_whole(path: &Path) {
    let mut store = Store::open(path).unwrap();
    assert_sound(&store);
    let all: Vec<Event> =
        [vec![sample::start("plan", 1)], run(0), run(1)].into_iter().flatten().collect();
    assert_eq!(store.record("plan").unwrap(), fold(&all));
    apply_all(&mut store, &[sample::start("plan", 1)]);
    apply_all(&mut store, &run(2));
    assert_eq!(store.finished_runs("plan").unwrap().len(), 3);
}

fn next_to(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(name)
}

#[test]
fn what_was_stored_in_a_file_that_was_removed_is_copied_next_to_it() {
    let (_folder, mut store) = begun();
    let path = store.path().to_path_buf();
    fs::write(next_to(&path, "schedlab.kept-1.db"), "mine").unwrap();
    fs::remove_file(&path).unwrap();
    let copy = next_to(&path, "schedlab.kept-2.db");
    assert_eq!(lost(&mut store), (Loss::Removed, Kept::At(copy.clone())));
    drop(store);
    assert_whole(&copy);
    assert_eq!(fs::read_to_string(next_to(&path, "schedlab.kept-1.db")).unwrap(), "mine");
    assert!(!path.exists());
}

#[test]
fn runs_that_wait_for_others_are_in_the_copy() {
    let (_folder, mut store) = begun();
    let path = store.path().to_path_buf();
    fs::remove_file(&path).unwrap();
    let day = std::time::Duration::from_secs(86_400);
    run(1).iter().for_each(|event| store.apply_within(event, day).unwrap());
    let error = store.settle().unwrap_err();
    assert!(matches!(error, StoreError::Lost { lost: Loss::Removed, .. }), "{error:?}");
    drop(store);
    assert_whole(&next_to(&path, "schedlab.kept-1.db"));
}

#[test]
fn a_file_that_was_renamed_has_all_under_its_new_name() {
    let (_folder, mut store) = begun();
    let (path, new) = (store.path().to_path_buf(), next_to(store.path(), "renamed.db"));
    fs::rename(&path, &new).unwrap();
    assert_eq!(lost(&mut store), (Loss::Removed, Kept::At(new.clone())));
    drop(store);
    assert_whole(&new);
    assert!(!next_to(&path, "schedlab.kept-1.db").exists(), "it needs no copy");
}

#[test]
fn another_store_that_was_moved_in_stays_as_it_is() {
    let (_folder, mut store) = begun();
    let path = store.path().to_path_buf();
    let moved = next_to(&path, "other.db");
    let mut other = Store::open(&moved).unwrap();
    apply_all(&mut other, &[sample::start("other", 1)]);
    apply_all(&mut other, &run(5));
    let whole = export(&other);
    drop(other);
    let bytes = fs::read(&moved).unwrap();
    fs::rename(&moved, &path).unwrap();
    let copy = next_to(&path, "schedlab.kept-1.db");
    assert_eq!(lost(&mut store), (Loss::Replaced, Kept::At(copy.clone())));
    drop(store);
    assert!(fs::read(&path).unwrap() == bytes, "it was written to");
    let other = Store::open(&path).unwrap();
    assert_sound(&other);
    assert_eq!(export(&other), whole);
    assert_whole(&copy);
}

#[test]
fn a_journal_that_was_removed_is_written_back_and_begun_anew() {
    for end in ["-wal", "-shm"] {
        let (_folder, mut store) = begun();
        let path = store.path().to_path_buf();
        fs::remove_file(next_to(&path, &format!("schedlab.db{end}"))).unwrap();
        apply_all(&mut store, &run(1));
        // Others read what is stored.
        assert_eq!(Store::open(&path).unwrap().finished_runs("plan").unwrap().len(), 2, "{end}");
        drop(store);
        assert_whole(&path);
    }
}

/// SQLite has the journal next to the file, not next to a link to it.
#[test]
fn readers_at_the_same_time_leave_no_journal() {
    let (_folder, store) = begun();
    let path = store.path().to_path_buf();
    drop(store);
    let link = next_to(&path, "link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for other in [&path, &link] {
        let readers = [&path, other].map(|path| Store::open_read_only(path).unwrap());
        for reader in &readers {
            assert_eq!(reader.finished_runs("plan").unwrap().len(), 1);
        }
        for reader in readers {
            drop(reader);
        }
        for end in ["-wal", "-shm"] {
            assert!(!next_to(&path, &format!("schedlab.db{end}")).exists(), "{end}");
        }
    }
}

#[test]
fn where_others_have_the_database_open_a_lost_journal_is_copied() {
    let (_folder, mut store) = begun();
    let path = store.path().to_path_buf();
    let reader = Store::open_read_only(&path).unwrap();
    assert_eq!(reader.finished_runs("plan").unwrap().len(), 1);
    let journal = next_to(&path, "schedlab.db-wal");
    fs::remove_file(&journal).unwrap();
    let copy = next_to(&path, "schedlab.kept-1.db");
    assert_eq!(lost(&mut store), (Loss::Journal(journal), Kept::At(copy.clone())));
    assert!(pragma(&store.conn, "busy_timeout").unwrap() > 0, "it waits for others again");
    drop((reader, store));
    assert_whole(&copy);
}

#[test]
fn a_store_whose_folder_is_gone_is_copied_elsewhere() {
    let (folder, mut store) = begun();
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    let (Loss::Removed, Kept::At(copy)) = lost(&mut store) else { panic!("it is not kept") };
    assert_eq!(copy.parent(), Some(Path::new("/var/tmp")));
    drop(store);
    assert_whole(&copy);
    fs::remove_file(copy).unwrap();
}

#[test]
fn a_hint_has_commands_that_can_be_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sp ace/it's.db");
    let mut store = Store::open(&path).unwrap();
    let quoted = crate::model::quoted(&path.to_string_lossy());
    apply_all(&mut store, &[sample::start("plan", 1)]);
    store.conn.execute("UPDATE plan SET title = 'Other'", []).unwrap();
    let of_plan = store.record("plan").unwrap_err().problem().hint.unwrap();
    let at = || path.clone();
    let action = || "store".to_string();
    let full = StoreError::Full { action: action(), path: at() }.problem().hint.unwrap();
    let busy = StoreError::Busy { action: action(), path: at() }.problem().hint.unwrap();
    let read_only = StoreError::ReadOnly { action: action(), path: at() }.problem().hint.unwrap();
    let stored = StoreError::PlanStored { id: "a".to_string(), path: at() }.problem().hint.unwrap();
    for hint in [of_plan, full, busy, read_only, stored] {
        assert!(hint.contains(&quoted), "{hint}");
    }
}

/// A score alone was measured.
#[test]
fn there_is_nothing_to_go_on_with_where_no_plan_was_measured() {
    let hint = |measure: fn(&mut Store) -> StoreError| {
        let (_folder, mut store) = fresh();
        fs::remove_file(store.path()).unwrap();
        let error = measure(&mut store);
        assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
        error.problem().hint.unwrap()
    };
    let of_score = hint(|store| store.save_score(&scores::saved("s1", 5)).unwrap_err());
    assert!(
        !of_score.contains("--resume") && of_score.contains("list scores --db /"),
        "{of_score}"
    );
    let of_plan = hint(|store| store.apply(&sample::start("plan", 1)).unwrap_err());
    assert!(of_plan.contains("run --resume --db /"), "{of_plan}");
    let of_import = hint(|store| {
        let line = serde_json::to_string(&sample::start("plan", 1)).unwrap();
        import(store, &line).unwrap_err()
    });
    assert!(!of_import.contains("--resume"), "{of_import}");
}

/// All is in the database, and the journal is short.
fn checkpointed() -> (tempfile::TempDir, Store) {
    let (folder, store) = begun();
    drop(store);
    let mut store = Store::open(&folder.path().join("data/schedlab.db")).unwrap();
    apply_all(&mut store, &[sample::start("plan", 1)]);
    (folder, store)
}

#[test]
fn a_file_that_was_emptied_is_not_stored_in() {
    for end in ["", "-wal"] {
        let (_folder, mut store) = checkpointed();
        let path = store.path().to_path_buf();
        let emptied = next_to(&path, &format!("schedlab.db{end}"));
        fs::File::options().write(true).open(emptied).unwrap().set_len(0).unwrap();
        let (Loss::Overwritten, kept) = lost(&mut store) else { panic!("{end}: it is not missed") };
        drop(store);
        // The pages that this process had read are there still, or it says that they are not.
        if let Kept::At(copy) = kept {
            assert_sound(&Store::open(&copy).unwrap());
        }
    }
}

#[test]
fn a_journal_that_was_written_over_is_missed() {
    let (_folder, mut store) = checkpointed();
    let journal = next_to(store.path(), "schedlab.db-wal");
    let bytes = fs::metadata(&journal).unwrap().len() as usize;
    fs::write(&journal, vec![0; bytes + 4096]).unwrap();
    let (Loss::Overwritten, _) = lost(&mut store) else { panic!("it is not missed") };
}

#[test]
fn runs_that_wait_for_others_are_kept_where_the_journal_is_written_over() {
    let (_folder, mut store) = begun();
    let journal = next_to(store.path(), "schedlab.db-wal");
    let day = std::time::Duration::from_secs(86_400);
    run(1).iter().for_each(|event| store.apply_within(event, day).unwrap());
    let bytes = fs::metadata(&journal).unwrap().len() as usize;
    fs::write(&journal, vec![0; bytes + 4096]).unwrap();
    let error = store.settle().unwrap_err();
    let StoreError::Lost { lost: Loss::Overwritten, kept: Kept::At(copy), .. } = &error else {
        panic!("{error:?}")
    };
    drop(store);
    assert_whole(copy);
}

#[test]
fn the_end_of_a_plan_reads_all_that_is_stored() {
    let (_folder, mut store) = checkpointed();
    store.check_whole().unwrap();
    let path = store.path().to_path_buf();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0x5a);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, bytes).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(modified).unwrap();
    store.check_place().unwrap();
    assert!(matches!(store.check_whole(), Err(StoreError::Lost { lost: Loss::Overwritten, .. })));
}

#[test]
fn another_store_that_was_copied_over_it_stays_as_it_is() {
    let (_folder, mut store) = checkpointed();
    let path = store.path().to_path_buf();
    let copied = next_to(&path, "other.db");
    let mut other = Store::open(&copied).unwrap();
    apply_all(&mut other, &[sample::start("other", 1)]);
    (0..9).for_each(|round| apply_all(&mut other, &run(round)));
    drop(other);
    fs::write(&path, fs::read(&copied).unwrap()).unwrap();
    let (Loss::Overwritten, _) = lost(&mut store) else { panic!("it is not missed") };
    drop(store);
    assert!(fs::read(&path).unwrap() == fs::read(&copied).unwrap(), "it was written to");
}

#[test]
fn a_journal_that_others_wrote_back_is_no_loss() {
    let (_folder, mut store) = begun();
    let path = store.path().to_path_buf();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    apply_all(&mut store, &run(1));
    drop((other, store));
    assert_whole(&path);
}
