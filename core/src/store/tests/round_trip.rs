//! Stored events come out as they went in.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::sample;
use super::*;
use crate::model::{
    Outcome, PlanEnd, PlanHead, PlanStarted, ProgramRecord, RunKey, SampledPlan, Window,
    WorkerWindows,
};
use crate::store::windows::Windows;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn replaying_what_is_stored_gives_the_same_record_and_the_same_bytes(
        first in sample::any_plan("first"),
        second in sample::any_plan("second"),
    ) {
        let (_folder, mut store) = fresh();
        apply_all(&mut store, &first);
        apply_all(&mut store, &second);
        prop_assert_eq!(&store.record("first").unwrap(), &fold(&first));
        prop_assert_eq!(&store.record("second").unwrap(), &fold(&second));

        let exported = export(&store);
        let lines: Vec<String> =
            first.iter().chain(&second).map(|event| serde_json::to_string(event).unwrap()).collect();
        prop_assert_eq!(exported.lines().collect::<Vec<_>>(), lines);

        let (_folder, mut copy) = fresh();
        let imported = import(&mut copy, &exported).unwrap();
        prop_assert_eq!(imported.plans, 2);
        prop_assert_eq!(export(&copy), exported);
        prop_assert_eq!(copy.record("first").unwrap(), fold(&first));
        assert_sound(&copy);
    }
}

#[test]
fn plans_are_listed_newest_first_with_how_they_ended() {
    let (_folder, mut store) = fresh();
    let key = RunKey { round: 0, cell: 1 };
    let ends = [None, Some(PlanEnd::Interrupted), Some(PlanEnd::Budget), Some(PlanEnd::Complete)];
    for (number, end) in ends.into_iter().enumerate() {
        let mut started = sample::started(&format!("plan-{number}"), 2);
        started.started_unix_ns += number as u64;
        store.apply(&Event::PlanStarted(Box::new(started))).unwrap();
        apply_all(&mut store, &sample::run(key, 1, 2));
        if let Some(reason) = end {
            store.apply(&Event::PlanEnded { reason, calibration: None }).unwrap();
        }
    }
    let plans = store.plan_heads().unwrap();
    let ids: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
    assert_eq!(ids, ["plan-3", "plan-2", "plan-1", "plan-0"]);
    assert_eq!((plans[0].runs.done, plans[0].runs.total), (1, 20));
    assert_eq!(plans[1].ended, Some(PlanEnd::Budget));
    let unfinished = |plans: &[PlanHead]| -> Vec<String> {
        plans.iter().filter(|plan| plan.is_unfinished()).map(|plan| plan.id.clone()).collect()
    };
    assert_eq!(unfinished(&plans), ["plan-1", "plan-0"]);

    apply_all(&mut store, &[sample::start("plan-1", 2)]);
    store.apply(&Event::PlanEnded { reason: PlanEnd::Complete, calibration: None }).unwrap();
    assert_eq!(unfinished(&store.plan_heads().unwrap()), ["plan-0"], "killed");
    assert_eq!(store.finished_runs("plan-0").unwrap(), BTreeSet::from([key]));
}

#[test]
fn one_plan_of_several_is_exported_alone() {
    let (_folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("a", 1), sample::start("b", 1)]);
    let mut out = Vec::new();
    store.export(Some(&["b".to_string()]), &mut out).unwrap();
    let expected = serde_json::to_string(&sample::start("b", 1)).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), expected + "\n");
}

/// Windows of an interrupted run belong to no result.
#[test]
fn a_run_that_is_begun_again_keeps_only_its_own_windows() {
    let (_folder, mut store) = fresh();
    let [key, other] = [0, 1].map(|cell| RunKey { round: 0, cell });
    let window = |key, index| Event::Window { key, window: sample::window(index, 2) };
    apply_all(&mut store, &[sample::start("plan", 2), window(key, 0), window(key, 1)]);
    apply_all(&mut store, &[window(other, 7)]);
    apply_all(&mut store, &sample::run(key, 1, 2));
    let windows = |store: &Store| {
        let text = export(store);
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let windows = events.filter_map(|event| match event {
            Event::Window { key, window: Window { index, .. } } => Some((key.cell, index)),
            _ => None,
        });
        windows.collect::<Vec<_>>()
    };
    assert_eq!(windows(&store), [(0, 0)]);
    let outcome = sample::outcome(other, 2);
    apply_all(&mut store, &[Event::RunEnded { key: other, outcome }]);
    assert_eq!(windows(&store), [(0, 0), (1, 7)], "runs side by side do not mix");
    let key = RunKey { round: 1, cell: 0 };
    apply_all(&mut store, &[window(key, 3), sample::start("other", 2)]);
    let outcome = sample::outcome(key, 2);
    apply_all(&mut store, &[Event::RunEnded { key, outcome }]);
    assert_eq!(windows(&store), [(0, 0), (1, 7)], "nor do those of two plans");
}

#[test]
fn a_plan_that_goes_on_with_more_rounds_has_these() {
    let (_folder, mut store) = begun(2);
    let mut more = sample::started("plan", 2);
    more.plan = more.plan.extended(10, 3);
    apply_all(&mut store, &[Event::PlanStarted(Box::new(more.clone()))]);
    assert_eq!(store.plan_started("plan").unwrap().plan, more.plan);
    assert_eq!(store.plan_heads().unwrap()[0].runs.total, 26);
}

#[test]
fn the_windows_of_another_run_do_not_count() {
    let mut windows = Windows::default();
    let keys = [0, 1].map(|round| RunKey { round, cell: 0 });
    for key in keys {
        (0..5).for_each(|index| windows.add(key, &sample::window(index, 1), 0));
        let Outcome::Done { result } = sample::outcome(key, 1) else { panic!("no result") };
        assert!(!windows.contradict(key, &result), "{key:?}");
    }
    (5..7).for_each(|index| windows.add(keys[1], &sample::window(index, 1), 0));
    let [one, other] = keys.map(|key| {
        let Outcome::Done { result } = sample::outcome(key, 1) else { panic!("no result") };
        windows.contradict(key, &result)
    });
    assert!(!one && other, "the last run has seven windows of a second in five seconds");
}

/// Pages show runs that were measured, one after the other.
#[test]
fn latencies_windows_and_outputs_are_read_by_run() {
    let (_folder, mut store) = begun(1);
    let key = RunKey { round: 1, cell: 0 };
    let mut events = sample::run(key, 2, 2);
    let program = ProgramRecord { version: Some("7".to_string()), output: "done".to_string() };
    if let Some(Event::RunEnded { outcome: Outcome::Done { result }, .. }) = events.last_mut() {
        result.sets[0].program = Some(program.clone());
    }
    apply_all(&mut store, &events);
    let failed = RunKey { round: 2, cell: 0 };
    let outcome = Outcome::Failed { reason: "hung".to_string() };
    apply_all(&mut store, &[Event::RunEnded { key: failed, outcome }]);
    let mut latencies = Vec::new();
    let take = |key, (set, name): (&str, &str), counts: &[(u64, u64)]| {
        latencies.push((key, format!("{set}/{name}"), counts.to_vec()));
    };
    store.each_latency("plan", take).unwrap();
    let counts = vec![(1_000, 1), (1_001_003, 40), (9_001_001, 1)];
    assert_eq!(latencies, [(key, "web/wakeup".to_string(), counts)]);
    let windows: Vec<_> = (0..2).map(|index| sample::window(index, 1).workers[0]).collect();
    let (set, role) = ("web".to_string(), "worker".to_string());
    let workers = vec![WorkerWindows { set, role, windows }; 2];
    assert_eq!(store.windows("plan", key).unwrap(), workers);
    assert_eq!(store.windows("plan", failed).unwrap(), []);
    let mut all = Vec::new();
    store.each_windows("plan", |key, workers| all.push((key, workers))).unwrap();
    assert_eq!(all, [(key, workers)]);
    let outputs = store.outputs("plan").unwrap();
    let outputs = outputs.iter();
    let outputs = outputs.map(|kept| (kept.round, &*kept.variant, &*kept.set, &kept.record));
    assert_eq!(outputs.collect::<Vec<_>>(), [(1, "default", "web", &program)]);
    let damage = "UPDATE program SET version = 'x'; UPDATE worker SET cpu_ns = 0";
    store.conn.execute_batch(damage).unwrap();
    assert!(
        store.outputs("plan").unwrap().is_empty() && store.windows("plan", key).unwrap().is_empty()
    );
}

#[test]
fn the_database_is_not_locked_while_a_run_is_measured() {
    let (_folder, mut store) = fresh();
    let key = RunKey { round: 0, cell: 0 };
    apply_all(&mut store, &[sample::start("plan", 1), Event::RunStarted { key }]);
    apply_all(&mut store, &[Event::Window { key, window: sample::window(0, 100) }]);
    let other = rusqlite::Connection::open(store.path()).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    store.apply(&Event::Window { key, window: sample::window(1, 100) }).unwrap();
    other.execute_batch("COMMIT").unwrap();
    apply_all(&mut store, &[Event::RunEnded { key, outcome: sample::outcome(key, 100) }]);
    let stored: i64 =
        other.query_row("SELECT count(*) FROM worker_window", [], |row| row.get(0)).unwrap();
    assert_eq!(stored, 200);
}

/// The columns answer questions in plain SQL, where unknown is not 0.
#[test]
fn the_example_of_the_page_answers() {
    const PAGE: &str = include_str!("../../../../docs/formats.md");
    let (_folder, mut store) = begun(2);
    apply_all(&mut store, &sample::run(RunKey { round: 0, cell: 1 }, 2, 3));
    let (_, example) = PAGE.split_once("```sql\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let unit: String = store.conn.query_row(example, [], |row| row.get(4)).unwrap();
    assert_eq!(unit, "ops_per_s");
}

#[test]
fn rounds_with_any_run_are_counted() {
    let (_folder, mut store) = begun(4);
    for (round, cell) in [(0, 0), (0, 1), (1, 1)] {
        apply_all(&mut store, &sample::run(RunKey { round, cell }, 2, 3));
    }
    let runs = store.plan_heads().unwrap()[0].runs;
    assert_eq!((runs.done, runs.rounds), (3, 2));
}

#[test]
fn columns_answer_in_sql() {
    let (_folder, mut store) = fresh();
    let key = RunKey { round: 0, cell: 1 };
    apply_all(&mut store, &[sample::start("plan", 2)]);
    apply_all(&mut store, &sample::run(key, 2, 3));
    let cases = [
        ("SELECT kernel_release || ' ' || hostname FROM environment", "6.18.1 first"),
        ("SELECT virtualisation IS NULL FROM environment", "1"),
        ("SELECT work || ' / ' || variant FROM cell WHERE cell = 1", "web threads=1 / default"),
        (
            "SELECT unit || ' ' || statistic || ' ' || importance
             FROM metric JOIN metric_kind USING (metric_kind)",
            "ops_per_s rate headline",
        ),
        ("SELECT min_ns || ' ' || max_ns || ' ' || samples FROM histogram", "1 9000002 42"),
        ("SELECT sum(voluntary_switches) FROM worker", "21"),
        ("SELECT sum(migrations) IS NULL FROM worker", "1"),
        ("SELECT unknown ->> 'migrations' FROM worker LIMIT 1", "no schedstat"),
        ("SELECT sum(w.ops) FROM worker_window w JOIN worker USING (run, worker)", "600"),
    ];
    for (sql, expected) in cases {
        let sql = format!("SELECT CAST(({sql}) AS TEXT)");
        let got: String = store.conn.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(got, expected, "{sql}");
    }
}

#[test]
fn runs_that_end_at_once_are_stored_together() {
    let (_folder, mut store) = fresh();
    let mut events = vec![sample::start("plan-1", 2)];
    for cell in 0..2 {
        events.extend(sample::run(RunKey { round: 0, cell }, 1, 2));
    }
    let at = events.iter().position(|event| matches!(event, Event::RunEnded { .. })).unwrap();
    let stored = |path: &Path| {
        let conn = rusqlite::Connection::open(path).unwrap();
        conn.query_row("SELECT count(*) FROM run", [], |row| row.get::<_, u32>(0)).unwrap()
    };
    for event in &events[..=at] {
        store.apply_within(event, Duration::MAX).unwrap();
    }
    assert_eq!(stored(store.path()), 0, "it waits for others");
    store.settle().unwrap();
    assert_eq!(stored(store.path()), 1);
    for event in &events[at + 1..] {
        store.apply_within(event, Duration::ZERO).unwrap();
    }
    assert_eq!(stored(store.path()), 2, "it has waited long enough");
    let path = store.path().to_path_buf();
    drop(store);
    let store = Store::open(&path).unwrap();
    let (_other, mut singly) = fresh();
    apply_all(&mut singly, &events);
    assert_eq!(export(&store), export(&singly), "as without groups");
    assert_sound(&store);
}

#[test]
fn events_of_a_newer_schedlab_are_left_out_and_counted() {
    let (_folder, mut store) = begun(1);
    apply_all(&mut store, &sample::run(RunKey { round: 0, cell: 0 }, 1, 1));
    apply_all(&mut store, &[Event::PlanEnded { reason: PlanEnd::Budget, calibration: None }]);
    let known = export(&store);
    let newer = "{\"event\":\"dance\",\"key\":{\"round\":[0]}}\n";
    let lines = known.lines().map(|line| format!("{newer}{line}\n"));
    let mixed: String = lines.chain([newer.to_string()]).collect();
    let (_folder, mut copy) = fresh();
    let unknown_events = known.lines().count() as u64 + 1;
    assert_eq!(
        import(&mut copy, &mixed).unwrap(),
        Imported { plans: 1, runs: 1, unknown_events, ..Imported::default() }
    );
    assert_eq!(export(&copy), known);
}

#[test]
fn a_plan_without_its_end_is_named_with_the_runs_that_came() {
    let (_folder, mut store) = begun(2);
    apply_all(&mut store, &sample::run(RunKey { round: 0, cell: 0 }, 1, 1));
    apply_all(&mut store, &[Event::PlanEnded { reason: PlanEnd::Budget, calibration: None }]);
    let all = export(&store);
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    let total = store.plan_heads().unwrap()[0].runs.total;
    for (cut, runs) in [(1, 0), (2, 0), (lines.len() - 1, 1)] {
        let (_folder, mut copy) = fresh();
        let unended = vec![("plan".to_string(), runs, total)];
        assert_eq!(
            import(&mut copy, &lines[..cut].concat()).unwrap(),
            Imported { plans: 1, runs: runs as usize, unended, ..Imported::default() }
        );
    }
    let (_folder, mut copy) = fresh();
    assert_eq!(import(&mut copy, &all).unwrap().unended, []);
}

#[test]
fn a_plan_of_fixed_rounds_that_ended_with_fewer_is_named() {
    type Change = fn(&mut PlanStarted);
    let cases: [(Change, u32, bool); 6] = [
        (|_| (), 3, true),
        (|_| (), 1, true),
        (|_| (), 0, false),
        (|_| (), 10, false),
        (|started| started.backend = "imported".to_string(), 3, false),
        (|started| started.plan.measure.until_decided = true, 3, false),
    ];
    for (change, rounds, is_named) in cases {
        let (_folder, mut store) = fresh();
        let mut started = sample::started("plan", 1);
        change(&mut started);
        let is_imported = started.backend == SampledPlan::IMPORTED;
        apply_all(&mut store, &[Event::PlanStarted(Box::new(started))]);
        for round in 0..rounds {
            let mut events = sample::run(RunKey { round, cell: 0 }, 1, 1);
            if let Some(Event::RunEnded { outcome: Outcome::Done { result }, .. }) =
                events.last_mut()
            {
                // Other tools do not say how long they measured.
                result.measured_ns *= u64::from(!is_imported);
            }
            apply_all(&mut store, &events);
        }
        apply_all(&mut store, &[Event::PlanEnded { reason: PlanEnd::Complete, calibration: None }]);
        let (_folder, mut copy) = fresh();
        let imported = import(&mut copy, &export(&store)).unwrap();
        let named = ("plan".to_string(), u64::from(rounds), 10);
        assert_eq!(imported.incomplete, Vec::from_iter(is_named.then_some(named)), "{rounds}");
    }
}

#[test]
fn the_lines_before_one_that_was_cut_are_taken() {
    let (_folder, mut store) = begun(2);
    apply_all(&mut store, &sample::run(RunKey { round: 0, cell: 0 }, 1, 1));
    apply_all(&mut store, &[Event::PlanEnded { reason: PlanEnd::Budget, calibration: None }]);
    let all = export(&store);
    let ends: Vec<usize> = all.match_indices('\n').map(|(at, _)| at + 1).collect();
    // Within the last line, within one of a run, before the newline alone, and between two lines.
    let last = ends[ends.len() - 2];
    let cases = [
        (last + 7, Some((ends.len() as u64, 7))),
        (ends[2] + 20, Some((4, 20))),
        (all.len() - 1, None),
        (last, None),
    ];
    for (bytes, expected) in cases {
        let (_folder, mut copy) = fresh();
        let imported = import(&mut copy, &all[..bytes]).unwrap();
        let cut = expected.map(|(line, bytes)| (String::new(), line, bytes));
        assert_eq!(imported.cut, cut.into_iter().collect::<Vec<_>>(), "{bytes}");
        assert_eq!(imported.unended.is_empty(), bytes == all.len() - 1, "{bytes}");
    }
    let (_folder, mut copy) = fresh();
    assert!(import(&mut copy, &all[..20]).is_err(), "no line is whole");
    let wrong = format!("{}{}", &all[..ends[0]], "{\"event\":\n");
    assert!(import(&mut copy, &wrong).is_err(), "a line that ends is not cut");
    // The bytes of one character.
    let cut = [&all.as_bytes()[..ends[0]], b"{\"\xc3"].concat();
    assert_eq!(copy.import(&cut[..]).unwrap().cut, [(String::new(), 2, 3)]);
}
