//! Tests of the figures: by hand, and what is refused.

use super::super::testing::{THREE_RUNS, parse, usage};
use super::*;

fn report(set: usize, id: usize, now_ns: i64, kops: i64, cputime_ns: i64) -> Report {
    Report { set, id, now_ns, kops, max_delta_ns: 0, cputime_ns }
}

/// One run: two workers of set 0, one of set 1.
const EMPTY: &str = r#"{"Runs":[{"Label":"r\u001b","WorkerSets":[{"Params":{"Args":["burnwait","1","1"]},"Count":2},{"Count":1}],"Results":{"Raw":[RAW]}}]}"#;

fn figures(reports: &[Report], averages: Averages) -> Vec<SetFigures> {
    let text = EMPTY.replace("RAW", "");
    let mut file = parse(&text).unwrap();
    file.plan.runs[0].results.raw = Reports::Measured(reports.to_vec());
    file.figures(averages).unwrap().remove(0).sets
}

const S: i64 = 1_000_000_000;

#[test]
fn averages_count_from_the_first_report_unless_the_originals_are_wanted() {
    let reports = [
        report(0, 0, S, 1_000, 0),
        report(0, 1, S / 2, 0, S / 10),
        report(0, 0, 2 * S, 2_000, S),
        report(0, 1, S / 2 + S, 0, S / 10),
        report(0, 0, 5 * S, 8_000, 2 * S),
        report(0, 1, S / 2 + 2 * S, 300, S / 10 + S / 2),
    ];
    let right = &figures(&reports, Averages::Right)[0];
    let (first, second) = (&right.workers[0], &right.workers[1]);
    assert_eq!((first.kops, first.time_ns, first.cputime_ns), (8_000, 4 * S, 2 * S));
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
    assert_eq!(original.throughput.of_windows.min, 300.0, "its 0 is no minimum");
    assert_eq!(original.utilisation.mean, right.utilisation.mean);
}

#[test]
fn workers_that_say_little_are_unknown_and_those_that_say_nothing_got_nothing() {
    let reports = [report(0, 0, S, 0, 0), report(0, 0, 2 * S, 100, S)];
    let sets = figures(&reports, Averages::Right);
    assert_eq!((sets[0].throughput.total, sets[0].throughput.mean), (100.0, 50.0));
    assert_eq!(sets[0].throughput.of_means.min, 100.0, "only of those that reported");
    assert!(sets[1].workers.is_empty() && sets[1].throughput.mean.is_nan());
    let once = figures(&[report(1, 0, S, 5, 5)], Averages::Right);
    assert!(once[1].throughput.total.is_nan() && once[1].utilisation.total.is_nan());
    assert_eq!(
        figures(&[report(1, 0, S, 5, 5)], Averages::Original)[1].throughput.total,
        f64::INFINITY
    );
}

#[test]
fn reports_that_make_no_sense_are_told_by_run_index_and_worker() {
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
        (good.replace(":5", ":-5"), "0]`: worker 0:1: `Now` and `Kops` are counted from 0"),
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

#[test]
fn a_count_that_would_take_all_memory_is_refused() {
    let text = EMPTY.replace("\"Count\":2", "\"Count\":9000000000").replace("RAW", "");
    let why = usage(parse(&text).unwrap().figures(Averages::Right));
    assert!(why.contains("`WorkerSets[0].Count`: 9000000000 is above"), "{why}");
}

#[test]
fn what_is_stored_is_reported_and_written_in_the_order_of_its_moments() {
    let mut file = parse(THREE_RUNS).unwrap();
    file.store(1, vec![report(0, 0, S, 50, S / 4), report(0, 0, 0, 0, 0)]);
    assert!(file.pending().unwrap().is_empty());
    let mut out = Vec::new();
    super::super::json::write(&mut out, &file.plan.runs[1].results).unwrap();
    let expected = concat!(
        r#"{"Raw":[{"Id":{"Set":0,"Id":0},"Now":1,"Kops":0,"MaxDelta":0,"Cputime":0},"#,
        r#"{"Id":{"Set":0,"Id":0},"Now":1000000000,"Kops":50,"MaxDelta":0,"Cputime":250000000}]}"#
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    for averages in [Averages::Right, Averages::Original] {
        let run = &file.figures(averages).unwrap()[1];
        assert!((run.sets[0].throughput.total - 50.0).abs() < 1e-3 && run.completed);
    }
    file.store(99, Vec::new());
}
