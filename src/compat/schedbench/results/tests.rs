//! Tests of the figures: by hand, and what is refused.

use super::super::testing::{THREE_RUNS, parse, usage};
use super::*;

fn report(set: usize, id: usize, now_ns: i64, kops: i64, cputime_ns: i64) -> Report {
    Report { set, id, now_ns, kops, max_delta_ns: 0, cputime_ns: Some(cputime_ns) }
}

/// One run: two workers of set 0, one of set 1.
const EMPTY: &str = r#"{"Runs":[{"Label":"r\u001b","WorkerSets":[{"Params":{"Args":["burnwait","1","1"]},"Count":2},{"Count":1}],"Results":{"Raw":[RAW]}}]}"#;

fn figures(reports: &[Report], averages: Averages) -> Vec<SetFigures> {
    let text = EMPTY.replace("RAW", "");
    let mut file = parse(&text).unwrap();
    file.plan.runs[0].results.raw = Reports::Measured(reports.to_vec());
    file.figures(averages).unwrap().remove(0).sets
}

fn notes_of(reports: &[Report], averages: Averages) -> Vec<String> {
    let text = EMPTY.replace("RAW", "");
    let mut file = parse(&text).unwrap();
    file.plan.runs[0].results.raw = Reports::Measured(reports.to_vec());
    file.figures(averages).unwrap().remove(0).notes
}

const S: i64 = 1_000_000_000;

#[test]
fn averages_count_from_the_first_report_unless_the_originals_are_wanted() {
    let reports = [
        report(0, 0, S, 1_000, S / 4),
        report(0, 1, S / 2, 0, S / 10),
        report(0, 0, 2 * S, 2_000, S),
        report(0, 1, S / 2 + S, 0, S / 10),
        report(0, 0, 5 * S, 8_000, 2 * S + S / 4),
        report(0, 1, S / 2 + 2 * S, 300, S / 10 + S / 2),
    ];
    let right = &figures(&reports, Averages::Right)[0];
    let (first, second) = (&right.workers[0], &right.workers[1]);
    assert_eq!((first.kops, first.time_ns, first.cputime_ns), (8_000, 4 * S, Some(2 * S)));
    assert_eq!((first.throughput, second.throughput), (7_000.0 / 4.0, 150.0));
    assert_eq!((first.throughputs.min, first.throughputs.max), (1_000.0, 2_000.0));
    assert_eq!((first.utilisation, second.utilisation), (0.5, 0.25));
    assert_eq!(
        (second.throughputs.min, second.utilisations.min),
        (0.0, 0.0),
        "a window of nothing"
    );
    let spread = right.throughput;
    assert_eq!((spread.total, spread.mean, spread.deviation), (1_900.0, 950.0, 800.0));
    assert_eq!((spread.of_means.min, spread.of_means.max), (150.0, 1_750.0));
    assert_eq!((spread.of_windows.min, spread.of_windows.max), (0.0, 2_000.0));

    let original = &figures(&reports, Averages::Original)[0];
    assert_eq!(original.workers[0].throughput, 2_000.0, "all since 0, by the time since the first");
    assert_eq!(original.throughput.of_windows.min, 300.0, "its 0 is not a minimum");
    assert_eq!(original.utilisation.mean, right.utilisation.mean);
}

#[test]
fn cpu_time_that_could_not_be_read_counts_for_no_figure() {
    let cpu = |at: i64, ns: i64| report(0, 0, at * S, 100 * at, ns);
    let reports =
        [cpu(1, S / 2), cpu(2, S), cpu(3, 0), cpu(4, 2 * S), cpu(5, 5 * S / 2), cpu(6, 0)];
    let worker = &figures(&reports, Averages::Right)[0].workers[0];
    assert_eq!((worker.utilisations.min, worker.utilisations.max), (0.5, 0.5));
    assert!(worker.utilisation.is_nan(), "the last one could not be read");
    assert_eq!(worker.cputime_ns, None);
    assert_eq!((worker.throughput, worker.throughputs.min), (100.0, 100.0));

    // A first one of 0 after operations could not be read either; other workers of the set keep their mean.
    let other = |at: i64, ns: i64| report(0, 1, at * S, 100 * at, ns);
    let all = [cpu(1, 0), cpu(2, S), cpu(3, 2 * S), other(1, S), other(2, S + S / 4)];
    let set = &figures(&all, Averages::Right)[0];
    let [first, second] = &set.workers[..] else { panic!("{set:?}") };
    assert!(first.utilisation.is_nan());
    assert_eq!((first.utilisations.min, first.utilisations.max), (1.0, 1.0));
    assert_eq!((second.utilisation, set.utilisation.mean), (0.25, 0.25));
    assert!(set.utilisation.total.is_nan(), "it lacks one");
    let notes = notes_of(&all, Averages::Right);
    assert!(notes[0].starts_with("1 worker of set 0 has a CPU time that could not be read"));
    let none = &figures(&[cpu(1, 0), cpu(2, 0)], Averages::Right)[0].utilisation;
    assert!(
        [none.total, none.mean, none.of_means.max, none.of_windows.min]
            .iter()
            .all(|of| of.is_nan())
    );
    let original = &figures(&all, Averages::Original)[0];
    assert_eq!(original.workers[0].utilisation, 1.0, "its 0 is a time");
}

#[test]
fn workers_without_a_window_are_left_out_of_averages() {
    let reports = [report(0, 0, S, 0, 0), report(0, 0, 2 * S, 100, S)];
    let once = report(0, 1, S, 5, 5);
    for more in [vec![], vec![once]] {
        let all = [&reports[..], &more].concat();
        let sets = figures(&all, Averages::Right);
        let spread = sets[0].throughput;
        assert_eq!((spread.total, spread.mean, spread.deviation), (100.0, 100.0, 0.0));
        assert_eq!((spread.of_means.min, spread.of_means.max), (100.0, 100.0));
        assert_eq!((sets[0].utilisation.total, sets[0].utilisation.mean), (1.0, 1.0));
        assert!(sets[1].workers.is_empty() && sets[1].throughput.mean.is_nan());
        let notes = notes_of(&all, Averages::Right);
        assert_eq!(notes, ["1 worker of set 0 has no window", "1 worker of set 1 has no window"]);
        assert!(notes_of(&all, Averages::Original).is_empty());
    }
    // The original divides by all workers of a set as soon as one has reported.
    let original = &figures(&reports, Averages::Original)[0];
    let spread = original.throughput;
    assert_eq!((spread.total, spread.mean, spread.deviation), (100.0, 50.0, 50.0));
    assert_eq!(original.rows().map(|row| row.1.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(notes_of(&[], Averages::Right), [""; 0], "it has not begun");
    let two = notes_of(&[report(1, 0, S, 5, 5), report(1, 0, 2 * S, 5, 5)], Averages::Right);
    assert_eq!(two, ["2 workers of set 0 have no window"]);
    assert_eq!(
        figures(&[report(1, 0, S, 5, 5)], Averages::Original)[1].throughput.total,
        f64::INFINITY
    );
}

#[test]
fn reports_that_make_no_sense_are_named_by_run_index_and_worker() {
    let good = r#"{"Id":{"Set":0,"Id":1},"Now":5,"Kops":7,"MaxDelta":0,"Cputime":0}"#;
    let second = |change: &str, by: &str| format!("{good},{}", good.replace(change, by));
    let cases = [
        (
            second("\"Set\":0", "\"Set\":2"),
            "1]`: worker 2:1: its `Set` is not one of the 2 worker sets",
        ),
        (second("\"Set\":0", "\"Set\":-1"), "1]`: worker -1:1: its `Set`"),
        (
            second("\"Id\":1", "\"Id\":2"),
            "1]`: worker 0:2: its `Id` is not one of the 2 workers of set 0",
        ),
        (second("\"Set\":0", "\"Set\":1"), "1]`: worker 1:1: its `Id` is not one of the 1 workers"),
        (second("\"Now\":5", "\"Now\":4"), "1]`: worker 0:1: `Now` is 4 after 5: it must grow"),
        (second("\"Now\":5", "\"Now\":5"), "1]`: worker 0:1: `Now` is 5 after 5"),
        (second("\"Now\":5,\"Kops\":7", "\"Now\":6,\"Kops\":6"), "`Kops` is 6 after 7"),
        (good.replace(":5", ":-5"), "0]`: worker 0:1: `Now`, `Kops` and `Cputime` are counted"),
        (
            good.replace("e\":0", "e\":-5"),
            "0]`: worker 0:1: `Now`, `Kops` and `Cputime` are counted",
        ),
        (good.replace("\"Now\":5,", ""), "0]`: worker 0:1: `Now` is missing"),
        (good.replace("\"Kops\":7,", ""), "`Kops` is missing"),
        (good.replace("\"MaxDelta\":0,", ""), "`MaxDelta` is missing"),
        (good.replace(",\"Cputime\":0", ""), "`Cputime` is missing"),
        (good.replace("\"Set\":0,", ""), "0]`: worker ?:1: `Id.Set` is missing"),
        (good.replace("\"Id\":{\"Set\":0,\"Id\":1},", ""), "0]`: `Id` is missing"),
    ];
    for (raw, expected) in cases {
        let text = EMPTY.replace("RAW", &raw);
        let why = usage(parse(&text).unwrap().figures(Averages::Right));
        assert!(why.starts_with("t.bench: run 0 `r\\u{1b}`: `Results.Raw["), "{why}");
        assert!(why.contains(expected), "{raw}: {why}");
    }
    let text = EMPTY.replace("RAW", "{\"Id\":{\"Set\":\"x\"}}");
    let why = usage(parse(&text).unwrap().figures(Averages::Right));
    assert!(
        why.starts_with("t.bench:1:") && why.contains("`Runs[0].Results.Raw[0].Id.Set`: "),
        "{why}"
    );
}

/// One report each of two sets with a million workers: rows for all of them would take 300 MB.
#[test]
fn figures_are_of_what_was_reported_whatever_count_says() {
    let raw = |set: usize| {
        format!(r#"{{"Id":{{"Set":{set},"Id":49999}},"Now":5,"Kops":7,"MaxDelta":0,"Cputime":0}}"#)
    };
    let text = |count: i64| {
        let text = EMPTY.replace("\"Count\":2", &format!("\"Count\":{count}"));
        text.replace("\"Count\":1}", "\"Count\":50000}").replace("RAW", &[raw(0), raw(1)].join(","))
    };
    for averages in [Averages::Right, Averages::Original] {
        let run = parse(&text(50_000)).unwrap().figures(averages).unwrap().remove(0);
        assert_eq!(run.sets.iter().map(|set| set.workers.len()).collect::<Vec<_>>(), [1, 1]);
        assert_eq!((run.sets[0].workers[0].id, run.sets[0].rows().count()), (49_999, 50_000));
        assert!(run.sets[0].rows().last().unwrap().1.is_some());
    }
    for count in [50_001, 9_000_000_000, i64::MAX] {
        let why = usage(parse(&text(count)).unwrap().figures(Averages::Right));
        assert!(why.contains(".Count`: ") && why.contains("has more than 100000 workers"), "{why}");
        assert!(why.starts_with("t.bench: run 0 ") && why.contains("hint: "), "{why}");
    }
    let not_run = EMPTY.replace("\"Count\":2", "\"Count\":9000000000").replace("RAW", "");
    let run = parse(&not_run).unwrap().figures(Averages::Original).unwrap().remove(0);
    assert_eq!(run.sets[0].rows().count(), 0);
}

#[test]
fn what_is_stored_is_reported_and_written_in_the_order_of_its_moments() {
    let mut file = parse(THREE_RUNS).unwrap();
    let conditions = Conditions {
        disturbances: vec!["a\u{1b}".to_string()],
        knobs: vec!["policy batch: batch".to_string(), "pool p: affinity".to_string()],
        cpus: Some(vec![0, 2]),
        rest: Vec::new(),
    };
    file.store(1, vec![report(0, 0, S, 50, S / 4), report(0, 0, 0, 0, 0)], conditions);
    assert!(file.pending().unwrap().is_empty());
    let mut out = Vec::new();
    super::super::json::write(&mut out, &file.plan.runs[1].results).unwrap();
    let expected = concat!(
        r#"{"Raw":[{"Id":{"Set":0,"Id":0},"Now":1,"Kops":0,"MaxDelta":0,"Cputime":0},"#,
        r#"{"Id":{"Set":0,"Id":0},"Now":1000000000,"Kops":50,"MaxDelta":0,"Cputime":250000000}],"#,
        r#""Schedlab":{"Disturbances":["a\u001b"],"Knobs":["policy batch: batch","pool p: affinity"],"#,
        r#""Cpus":[0,2]}}"#
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    for averages in [Averages::Right, Averages::Original] {
        let run = &file.figures(averages).unwrap()[1];
        assert!((run.sets[0].throughput.total - 50.0).abs() < 1e-3 && run.completed);
        let notes =
            ["knobs read back: policy batch: batch; pool p: affinity", "disturbed: a\u{1b}"];
        let notes = if averages == Averages::Right { &notes[..] } else { &[] };
        assert_eq!(run.notes, notes);
    }
    file.store(99, Vec::new(), Conditions::default());
}

#[test]
fn a_completed_run_that_cannot_have_been_run_is_refused_and_a_pending_one_shown() {
    let set = |args: &str, count: i64| format!(r#"{{"Params":{{"Args":{args}}},"Count":{count}}}"#);
    let good = r#"["kHZ","2261062","burnwait","0x10","010"]"#;
    let run = |sets: &str, completed: bool| {
        format!(r#"{{"Runs":[{{"Label":"l","WorkerSets":[{sets}],"Completed":{completed}}}]}}"#)
    };
    let bad = [
        (String::new(), "`WorkerSets`: there is no worker set"),
        (set(good, 0), "`WorkerSets[0].Count`: 0 workers, and it is `Completed`"),
        ([set(good, 1), set(good, -1)].join(","), "`WorkerSets[1].Count`: -1 workers"),
        (set("null", 1), "`WorkerSets[0].Params.Args[0]`: there is no `burnwait"),
        (set(r#"["bogus"]"#, 1), "`WorkerSets[0].Params.Args[0]`: `bogus` is not a kind of work"),
        (set(r#"["burnwait","1"]"#, 1), "Args[0]`: `burnwait` has no WAIT_NS after it"),
        (set(good, 100_001), "`WorkerSets[0].Count`: 100001: the run has more than 100000"),
    ];
    for (sets, expected) in bad {
        let text = run(&sets, true);
        let file = parse(&text).unwrap();
        for averages in [Averages::Right, Averages::Original] {
            let why = usage(file.figures(averages));
            assert!(why.starts_with("t.bench: run 0 `l`: ") && why.contains(expected), "{why}");
        }
        assert!(usage(file.check_results()).contains(expected));
        let text = run(&sets, false);
        assert_eq!(parse(&text).unwrap().figures(Averages::Right).unwrap().len(), 1, "{text}");
    }
    // Without a report the original could run the same files.
    let text = run(&set(good, 2), true);
    assert!(parse(&text).unwrap().figures(Averages::Right).is_ok());
}
