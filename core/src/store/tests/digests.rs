//! Stores that are not what was written any more: each value that is read is right, or its damage is reported.

use std::fs;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::record::RecordedRun;
use super::*;
use crate::model::{Advice, Outcome};

const FLIPS: u32 = 200;

/// It counts as failed, with the reason, and its damage is reported.
pub(super) fn assert_run_is_lost(store: &Store, run: &RecordedRun) {
    let Outcome::Failed { reason } = &run.outcome else { panic!("{run:?}") };
    let begins =
        format!("the store is damaged: round {} of cell {}: ", run.key.round, run.key.cell);
    assert!(
        reason.starts_with(&begins) && reason.ends_with(" is not what was written"),
        "{reason}"
    );
    let reported = reported(store);
    assert!(matches!(&reported[..], [Damage::Run { .. }]), "{reported:?}");
    assert!(store.has_damage());
}

/// Two plans and three runs, with all that hangs on them.
fn filled() -> (tempfile::TempDir, Store) {
    let (folder, mut store) = begun(2);
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
        ("UPDATE run SET round = 7 WHERE run = 2", "row"),
        ("UPDATE run SET digests = x'00' WHERE run = 2", "row"),
        ("UPDATE run SET digests = NULL WHERE run = 2", "row"),
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
        let (_folder, mut copy) = fresh();
        import(&mut copy, &export(&store)).unwrap();
        assert_eq!(copy.record("plan").unwrap().runs, after.runs, "{sql}");
    }
}

#[test]
fn what_belongs_to_no_run_is_checked_too() {
    let changes = [
        "UPDATE plan SET title = 'Other' WHERE plan = 1",
        "UPDATE cell SET variant = 'x' WHERE plan = 1",
        "UPDATE tag SET name = 'after'",
        "UPDATE run SET plan = 1, round = 7 WHERE run = 3",
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
    let (_folder, mut store) = filled();
    apply_all(&mut store, &[sample::start("plan", 2)]);
    assert_eq!(store.record("plan").unwrap().runs.len(), 2);
    store.conn.execute_batch("UPDATE run SET environment = 1 WHERE run = 2").unwrap();
    let error = store.record("plan").unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "the session of a run: {error:?}");
}

/// Rounds and cells of a plan with two cells, in the order in which they end.
fn keys(rounds: std::ops::Range<u32>) -> impl Iterator<Item = RunKey> {
    rounds.flat_map(|round| (0..2).map(move |cell| RunKey { round, cell }))
}

/// A plan of which four rounds are stored.
fn four_rounds() -> (tempfile::TempDir, Store) {
    let (folder, mut store) = begun(2);
    keys(0..4).for_each(|key| apply_all(&mut store, &sample::run(key, 1, 1)));
    (folder, store)
}

/// The plan asks for ten rounds: what was never measured is not missed.
#[test]
fn runs_that_are_gone_are_named_and_cost_themselves_alone() {
    let key = |round, cell| RunKey { round, cell };
    let cases = [
        ("round = 1 AND cell = 0", vec![key(1, 0)]),
        ("round IN (0, 2) AND cell = 1", vec![key(0, 1), key(2, 1)]),
        ("round = 3 AND cell = 1", vec![key(3, 1)]),
        ("round = 3", vec![key(3, 0), key(3, 1)]),
        ("round < 9", keys(0..4).collect()),
    ];
    for (which, gone) in cases {
        let (_folder, store) = four_rounds();
        let before = store.record("plan").unwrap();
        store.conn.execute_batch(&format!("DELETE FROM run WHERE {which}")).unwrap();
        let after = store.record("plan").unwrap();
        let (lost, left): (Vec<_>, Vec<_>) =
            after.runs.iter().cloned().partition(|run| gone.contains(&run.key));
        let sound = before.runs.iter().filter(|run| !gone.contains(&run.key)).cloned();
        assert_eq!(left, sound.collect::<Vec<_>>(), "{which}");
        assert_eq!(lost.iter().map(|run| run.key).collect::<Vec<_>>(), gone, "{which}");
        let is_lost = |outcome: &Outcome| matches!(outcome, Outcome::Failed { reason } if reason.ends_with("is not there"));
        assert!(lost.iter().all(|run| is_lost(&run.outcome)), "{lost:?}");
        let sampled = store.sampled("plan").unwrap();
        let unmeasured = sampled.unmeasured.iter().map(|run| run.key).collect::<Vec<_>>();
        assert_eq!((unmeasured, sampled.runs.len()), (gone.clone(), left.len()), "{which}");
        let counts = store.plan_heads().unwrap()[0].runs;
        assert_eq!((counts.done, counts.failed), (left.len() as u64, gone.len() as u64), "{which}");
        let finished = store.finished_runs("plan").unwrap();
        assert_eq!(finished, left.iter().map(|run| run.key).collect(), "{which}");
        let (_folder, mut copy) = fresh();
        import(&mut copy, &export(&store)).unwrap();
        assert_eq!(copy.record("plan").unwrap().runs, after.runs, "{which}");
        let (plan, count) = ("plan".to_string(), gone.len() as u64);
        assert_eq!(reported(&store), [Damage::Runs { plan, gone: count, known: gone }], "{which}");
    }
}

#[test]
fn a_run_of_a_round_that_was_added_is_named_too() {
    let (_folder, mut store) = begun(2);
    keys(0..12).for_each(|key| apply_all(&mut store, &sample::run(key, 1, 1)));
    store.conn.execute_batch("DELETE FROM run WHERE round = 11 AND cell = 1").unwrap();
    store.plan_heads().unwrap();
    let (plan, known) = ("plan".to_string(), vec![RunKey { round: 11, cell: 1 }]);
    assert_eq!(reported(&store), [Damage::Runs { plan, gone: 1, known }]);
}

/// An index that has lost its entries hides runs that are there: nobody may measure them again.
#[test]
fn runs_that_a_broken_index_hides_are_not_called_gone() {
    let (folder, store) = four_rounds();
    let page = |sql: &str| store.conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let size = page("PRAGMA page_size");
    let root = page("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_run_1'");
    store.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(store);
    let path = folder.path().join("data/schedlab.db");
    let mut bytes = fs::read(&path).unwrap();
    // The number of cells of its root.
    let at = ((root - 1) * size) as usize + 3;
    bytes[at..at + 2].fill(0);
    fs::write(&path, bytes).unwrap();
    let store = Store::open(&path).unwrap();
    let reads = [
        store.record("plan").map(drop),
        store.finished_runs("plan").map(drop),
        store.plan_heads().map(drop),
    ];
    for read in reads {
        let refused = read.unwrap_err();
        assert!(refused.to_string().contains("is damaged: "), "{refused}");
        assert_hint(&refused, "integrity_check");
    }
}

#[test]
fn more_runs_are_gone_than_the_plan_asks_for() {
    let (_folder, store) = four_rounds();
    store.conn.execute_batch("UPDATE plan_digest SET runs = 1 << 40").unwrap();
    assert_eq!(store.record("plan").unwrap().runs.len(), 20);
    let text = reported(&store)[0].to_string();
    assert!(
        text.starts_with("1099511627768 runs stored of plan `plan` are not there: round 4 "),
        "{text}"
    );
    assert!(text.ends_with("of cell 1, and 1099511627760 more"), "{text}");
    store.conn.execute_batch("UPDATE plan_digest SET runs = 7").unwrap();
    assert!(matches!(store.record("plan").unwrap_err(), StoreError::Damaged { .. }));
}

/// Whatever is done in which order, and where it is interrupted.
#[test]
fn runs_that_are_damaged_or_gone_are_made_again() {
    let (_folder, mut store) = four_rounds();
    let whole = store.record("plan").unwrap();
    assert!(store.stored_runs("plan").unwrap().is_whole);
    let damage = "UPDATE metric SET value = value + 1 WHERE run IN (1, 4);
        UPDATE run SET measured_ns = 7 WHERE run = 6; DELETE FROM run WHERE run IN (2, 8)";
    store.conn.execute_batch(damage).unwrap();
    assert!(!store.stored_runs("plan").unwrap().is_whole);
    let finished = store.finished_runs("plan").unwrap();
    let lost: Vec<RunKey> = keys(0..4).filter(|key| !finished.contains(key)).collect();
    assert_eq!(lost.len(), 5);
    for (done, key) in lost.iter().enumerate() {
        apply_all(&mut store, &[sample::start("plan", 2)]);
        apply_all(&mut store, &sample::run(*key, 1, 1));
        let again = Store::open(store.path()).unwrap();
        assert_eq!(again.finished_runs("plan").unwrap().len(), 4 + done, "{key:?}");
    }
    // Others follow.
    apply_all(&mut store, &sample::run(RunKey { round: 4, cell: 0 }, 1, 1));
    let again = Store::open(store.path()).unwrap();
    let mut outcomes: Vec<_> = again.record("plan").unwrap().runs;
    outcomes.sort_by_key(|run| run.key);
    assert_eq!(outcomes.pop().unwrap().key, RunKey { round: 4, cell: 0 });
    let outcomes = outcomes.into_iter().map(|run| run.outcome);
    assert!(outcomes.eq(whole.runs.into_iter().map(|run| run.outcome)));
    assert_eq!((again.plan_heads().unwrap().len(), reported(&again)), (1, Vec::new()));
    assert_sound(&again);
    let twice = store.apply(&sample::run(lost[0], 1, 1)[2]);
    assert!(matches!(twice.unwrap_err(), StoreError::RunStored { .. }));
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

#[test]
fn a_store_is_sound_while_runs_are_stored() {
    let (_folder, mut store) = fresh();
    let path = store.path().to_path_buf();
    let run = |round| sample::run(RunKey { round, cell: 0 }, 1, 1);
    apply_all(&mut store, &[sample::start("plan", 1)]);
    // A reader needs longer for them than a writer for one more.
    (0..400).flat_map(run).for_each(|event| store.apply_in_group(&event).unwrap());
    store.settle().unwrap();
    let reader = Store::open_read_only(&path).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            (400..460).for_each(|round| apply_all(&mut store, &run(round)));
        });
        while !writer.is_finished() {
            reader.each_latency("plan", |_, _, _| {}).unwrap();
            reader.outputs("plan").unwrap();
            reader.plan_started("plan").unwrap();
        }
        writer.join().unwrap();
    });
    assert_eq!(reported(&reader), []);
}

/// Another process, as old as the plan, may still measure it.
#[test]
fn a_plan_from_before_digests_gets_none_by_what_is_written_about_it() {
    let (_folder, mut store) = fresh();
    let run = |round| sample::run(RunKey { round, cell: 0 }, 1, 1);
    apply_all(&mut store, &[sample::start("plan", 1)]);
    apply_all(&mut store, &run(0));
    forget_digests(&store);
    let lines = export(&store);
    store.tag("plan", "x").unwrap();
    store.add_note("plan", &Note { written_unix_ns: 7, text: "fan off".to_string() }).unwrap();
    assert_eq!(import(&mut store, &lines).unwrap().known, 1);
    let (runs, sum): (i64, i64) = store
        .conn
        .query_row("SELECT count(*), coalesce(sum(digest), 0) FROM plan_digest", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!((runs, sum), (0, 0));
    // A session that goes on with it now gives digests to runs alone.
    apply_all(&mut store, &[sample::start("plan", 1)]);
    apply_all(&mut store, &run(1));
    store.conn.execute("UPDATE run SET digests = NULL WHERE round = 1", []).unwrap();
    apply_all(&mut store, &run(2));
    assert_eq!(store.record("plan").unwrap().runs.len(), 3);
    assert_eq!((store.plan_heads().unwrap().len(), reported(&store)), (1, Vec::new()));
}

#[test]
fn what_is_stored_next_takes_nothing_of_what_is_gone() {
    let key = RunKey { round: 0, cell: 0 };
    let (_folder, mut store) = filled();
    store.tag("other", "lost").unwrap();
    store.save_score(&scores::saved("lost", 5)).unwrap();
    store.tag(Subject::Score("lost"), "lost").unwrap();
    store.conn.pragma_update(None, "foreign_keys", false).unwrap();
    let loss =
        "DELETE FROM plan WHERE id = 'other'; DELETE FROM run WHERE run = 3; DELETE FROM score";
    store.conn.execute_batch(loss).unwrap();
    store.conn.pragma_update(None, "foreign_keys", true).unwrap();

    apply_all(&mut store, &[sample::start("new", 1)]);
    assert_eq!(store.record("new").unwrap().runs, []);
    assert_eq!(store.annotations("new").unwrap(), Annotations::default());
    apply_all(&mut store, &sample::run(key, 1, 2));
    let record = store.record("new").unwrap();
    assert_eq!(record.runs[0].outcome, sample::outcome(key, 2));
    store.save_score(&scores::saved("new", 6)).unwrap();
    let of_score = store.annotations(Subject::Score("new")).unwrap();
    assert_eq!(of_score, Annotations::default());
    assert_eq!(store.plan_heads().unwrap().len(), 2);
    assert_eq!(reported(&store), [Damage::Plans(1)]);
}

#[test]
fn what_is_damaged_can_be_removed_and_replaced() {
    let (_folder, mut store) = filled();
    let plans = export(&store);
    store.save_score(&scores::saved("s1", 5)).unwrap();
    let lines = export(&store);
    let damage =
        "UPDATE plan SET title = 'Other' WHERE id = 'plan'; UPDATE score SET title = 'Other'";
    store.conn.execute_batch(damage).unwrap();
    let error = import(&mut store, &plans).unwrap_err();
    for error in [error, store.record("plan").unwrap_err(), store.tag("plan", "x").unwrap_err()] {
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        assert_hint(&error, "schedlab rm plan --db /");
    }
    let hint = store.score("s1").unwrap_err().problem().hint.unwrap();
    assert!(hint.contains("schedlab rm s1 --db /"), "{hint}");
    let damaged = store.damaged().unwrap();
    let ids: Vec<_> = damaged.iter().map(|own| (own.id.as_str(), own.is_plan)).collect();
    assert_eq!(ids, [("plan", true), ("s1", false)]);
    damaged.iter().for_each(|own| store.remove_damaged(own).unwrap());
    assert_sound(&store);
    let imported = import(&mut store, &lines).unwrap();
    assert_eq!((imported.plans, imported.scores, imported.known), (1, 1, 1));
    assert_eq!((store.damaged().unwrap(), store.plan_heads().unwrap().len()), (Vec::new(), 2));
}

#[test]
fn an_id_that_is_no_text_any_more_costs_its_plan_alone() {
    let (_folder, mut store) = filled();
    let change = "UPDATE plan SET id = CAST(x'70ff' AS TEXT) WHERE id = 'plan'";
    store.conn.execute_batch(change).unwrap();
    let damaged = store.damaged().unwrap();
    assert_eq!(damaged.iter().map(|own| own.id.as_str()).collect::<Vec<_>>(), ["p\u{fffd}"]);
    store.remove_damaged(&damaged[0]).unwrap();
    assert_eq!((store.damaged().unwrap(), store.plan_heads().unwrap().len()), (Vec::new(), 1));
    assert_sound(&store);
}

#[test]
fn what_is_gone_is_missed_until_somebody_removes_something() {
    let (_folder, mut store) = filled();
    store.save_score(&scores::saved("s1", 5)).unwrap();
    store.conn.pragma_update(None, "foreign_keys", false).unwrap();
    store.conn.execute_batch("DELETE FROM plan WHERE id = 'other'; DELETE FROM score").unwrap();
    store.damaged().unwrap();
    assert_eq!(reported(&store), [Damage::Plans(1), Damage::Scores(1)]);
    assert_eq!(store.forget_missing().unwrap(), 2);
    let again = Store::open(store.path()).unwrap();
    assert_eq!((again.damaged().unwrap(), reported(&again)), (Vec::new(), Vec::new()));
}

#[test]
fn a_store_of_which_something_is_lost_is_not_imported_in_silence() {
    let changes = [
        ("DELETE FROM plan WHERE id = 'other'", "a plan that was stored is not there"),
        ("DELETE FROM score", "a score that was stored is not there"),
        ("UPDATE score SET title = 'Other'", "score `s1`"),
        ("UPDATE tag SET name = 'after'", "plan `plan`"),
    ];
    for (sql, why) in changes {
        let (_folder, mut store) = filled();
        store.save_score(&scores::saved("s1", 5)).unwrap();
        store.conn.pragma_update(None, "foreign_keys", false).unwrap();
        store.conn.execute_batch(sql).unwrap();
        let (_folder, mut copy) = fresh();
        let error = import_store(&mut copy, &store).unwrap_err();
        assert!(error.to_string().contains(why), "{sql}: {error}");
        assert_hint(&error, &store.path().to_string_lossy());
        assert_eq!((copy.plan_heads().unwrap(), copy.score_heads().unwrap().len()), (vec![], 0));
    }
}

#[test]
fn a_time_that_cannot_be_is_no_overflow() {
    let (_folder, store) = filled();
    forget_digests(&store);
    store.conn.execute("UPDATE run SET measured_ns = -1", []).unwrap();
    assert_eq!(store.detail("plan").unwrap().measured_until_unix_ns, Some(u64::MAX));
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
