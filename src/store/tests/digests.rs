//! Stores that are not what was written any more: each value that is read is right, or its damage is reported.

use std::fs;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::model::{Outcome, RecordedRun};

const FLIPS: u32 = 200;

/// It counts as failed, with the reason, and its damage is reported.
pub(super) fn assert_run_is_lost(store: &Store, run: &RecordedRun) {
    let Outcome::Failed { reason } = &run.outcome else { panic!("{run:?}") };
    assert!(reason.starts_with("the store is damaged: round "), "{reason}");
    let reported = reported(store);
    assert!(matches!(&reported[..], [Damage::Run { .. }]), "{reported:?}");
}

/// Two plans and three runs, with all that hangs on them.
fn filled() -> (tempfile::TempDir, Store) {
    let (folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("plan", 2)]);
    for cell in 0..2 {
        apply_all(&mut store, &sample::run(RunKey { round: 0, cell }, 2, 3));
    }
    store.tag("plan", "before").unwrap();
    apply_all(&mut store, &[sample::start("other", 1)]);
    apply_all(&mut store, &sample::run(RunKey { round: 0, cell: 0 }, 1, 2));
    (folder, store)
}

#[test]
fn a_value_of_a_run_that_was_changed_costs_this_run_alone() {
    let changes = [
        ("UPDATE metric SET value = value + 1 WHERE run = 2", "metrics"),
        ("UPDATE histogram SET max_ns = max_ns + 1 WHERE run = 2", "histograms"),
        ("UPDATE worker_window SET ops = ops + 64 WHERE run = 2", "windows"),
        ("DELETE FROM worker_window WHERE run = 2 AND window_index = 1", "windows"),
        ("UPDATE worker SET cpu_ns = cpu_ns + 1 WHERE run = 2", "workers"),
        ("UPDATE worker_set SET name = 'x' WHERE run = 2", "worker sets"),
        ("UPDATE run SET measured_ns = measured_ns + 1 WHERE run = 2", "row"),
        ("UPDATE run SET started_unix_ns = 0 WHERE run = 2", "row"),
    ];
    for (sql, what) in changes {
        let (_folder, store) = filled();
        let before = store.record("plan").unwrap();
        store.conn.execute_batch(sql).unwrap();
        let after = store.record("plan").unwrap();
        assert_eq!(after.runs[0], before.runs[0], "{sql}");
        assert_run_is_lost(&store, &after.runs[1]);
        let Damage::Run { what: part, .. } = &reported(&store)[0] else { unreachable!() };
        assert_eq!(*part, what, "{sql}");
        assert_eq!(store.sampled("other").unwrap().runs.len(), 1, "{sql}");
    }
}

#[test]
fn what_belongs_to_no_run_is_checked_too() {
    let changes = [
        "UPDATE plan SET title = 'Other' WHERE plan = 1",
        "UPDATE cell SET variant = 'x' WHERE plan = 1",
        "UPDATE tag SET name = 'after'",
        "DELETE FROM run WHERE run = 1",
        "UPDATE run SET plan = 2, round = 7 WHERE run = 1",
        "UPDATE environment SET kernel_release = '6.18.0' WHERE plan = 1",
    ];
    for sql in changes {
        let (_folder, store) = filled();
        store.conn.execute_batch(sql).unwrap();
        let error = store.record("plan").unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{sql}: {error:?}");
        let heads = store.plan_heads().unwrap();
        assert!(heads.iter().all(|head| head.id != "plan"), "{sql}");
        assert!(reported(&store).contains(&Damage::Plan { id: "plan".to_string() }), "{sql}");
    }
}

#[test]
fn a_plan_that_is_gone_is_missed_and_one_that_was_removed_is_not() {
    let (_folder, mut store) = filled();
    store.remove("other").unwrap();
    assert_eq!((store.plan_heads().unwrap().len(), reported(&store)), (1, Vec::new()));
    store.conn.pragma_update(None, "foreign_keys", false).unwrap();
    store.conn.execute("DELETE FROM plan", []).unwrap();
    assert_eq!(store.plan_heads().unwrap(), []);
    assert_eq!(reported(&store), [Damage::Plans(1)]);
}

/// Returns the export and the samples of both plans, and whether damage was reported.
fn read(path: &Path) -> Result<(String, String, bool), StoreError> {
    let store = Store::open_read_only(path)?;
    let mut lines = Vec::new();
    store.export(None, &mut lines)?;
    let mut samples = String::new();
    for head in store.plan_heads()? {
        samples += &format!("{:?}", store.sampled(&head.id)?);
    }
    let is_reported = !reported(&store).is_empty();
    Ok((String::from_utf8_lossy(&lines).into_owned(), samples, is_reported))
}

#[test]
fn after_a_flip_all_is_as_before_or_it_is_reported() {
    let (folder, store) = filled();
    let path = store.path().to_path_buf();
    drop(store);
    let (lines, samples, false) = read(&path).unwrap() else { panic!("it is whole") };
    let whole = fs::read(&path).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(34);
    let flipped = folder.path().join("flipped.db");
    let mut noticed = 0;
    for _ in 0..FLIPS {
        let (at, bit) = (random.random_range(0..whole.len()), random.random_range(0..8));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        fs::write(&flipped, bytes).unwrap();
        match read(&flipped) {
            Ok((_, _, true)) | Err(_) => noticed += 1,
            Ok(read) => {
                let is_right = (&read.0, &read.1) == (&lines, &samples);
                assert!(is_right, "bit {bit} of byte {at} changed what is read");
            }
        }
    }
    assert!(noticed > 0, "no flip met anything");
}
