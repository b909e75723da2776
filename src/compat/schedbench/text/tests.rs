//! Tests of the text: against what the original's program printed of the same file.

use super::super::testing::{ORIGINAL, THREE_RUNS, parse};
use super::*;

fn text(source: &str, verbosity: u32, averages: Averages) -> String {
    let figures = parse(source).unwrap().figures(averages).unwrap();
    let mut out = Vec::new();
    write(&mut out, &figures, verbosity, averages).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn with_its_averages_the_text_is_the_originals_to_the_byte() {
    for (verbosity, expected) in (0..).zip(ORIGINAL) {
        assert_eq!(text(THREE_RUNS, verbosity, Averages::Original), expected);
    }
    assert_eq!(text(THREE_RUNS, 9, Averages::Original), ORIGINAL[2]);
}

/// Only averages of throughput, and minima of 0, differ from the original's.
#[test]
fn right_averages_change_their_own_columns_alone() {
    let right = text(THREE_RUNS, 0, Averages::Right);
    let table = right.strip_prefix(&format!("{NOTE}\n\n")).unwrap();
    let more =
        "\nfairness: no solo run of set 1: run 1 `B baseline credit NumaOn` is not completed\n";
    assert_eq!(table.matches(more).count(), 1, "{table}");
    let table = &table.replace(more, "");
    assert_eq!(table.lines().count(), ORIGINAL[0].lines().count());
    let mut changed = Vec::new();
    for (ours, theirs) in table.lines().zip(ORIGINAL[0].lines()) {
        let columns = ours.split_whitespace().zip(theirs.split_whitespace()).enumerate().skip(1);
        let differ = columns.filter(|(_, (ours, theirs))| ours != theirs);
        changed.extend(differ.map(|(at, _)| COLUMNS[at - 1]));
    }
    changed.sort_unstable();
    changed.dedup();
    let allowed = ["tavgavg", "tavgmax", "tavgmin", "tstdev", "ttotal", "ttotmin", "utotmin"];
    assert_eq!(changed, allowed);
    assert!(table.contains(" 110017.96 110017.96     0.00 110017.96"), "440160 kops in 4.0008 s");
}

/// One of two workers has reported: only it has a row, and the other has a line.
#[test]
fn who_is_silent_has_a_line_and_no_row_but_the_originals_zeros() {
    let of = |now: i64| {
        format!(r#"{{"Id":{{"Set":0,"Id":1}},"Now":{now},"Kops":9,"MaxDelta":0,"Cputime":5}}"#)
    };
    let source = format!(
        r#"{{"Runs":[{{"Label":"l","WorkerSets":[{{"Params":{{"Args":["burnwait","1","1"]}},"Count":2}}],"Completed":true,"Results":{{"Raw":[{},{}],"Schedlab":{{"Disturbances":["\u001b[1m x"]}}}}}}]}}"#,
        of(1),
        of(2)
    );
    let right = text(&source, 1, Averages::Right);
    assert!(
        right.contains("\n1 worker of set 0 has no window\ndisturbed: \\u{1b}[1m x\n"),
        "{right}"
    );
    assert!(right.contains("\n 0: 1 ") && !right.contains("\n 0: 0 "), "{right}");
    let original = text(&source, 1, Averages::Original);
    assert!(original.contains("\n 0: 0             0     0.00"), "{original}");
    assert!(!original.contains("window") && !original.contains("disturbed"), "{original}");
}

#[test]
fn labels_and_words_act_on_no_terminal() {
    let source = r#"{"Runs":[{"Label":"\u001b[2Ja","WorkerSets":[{"Params":{"Args":["\u202ex"]},"Count":1}]}]}"#;
    let text = text(source, 2, Averages::Right);
    assert!(
        text.contains("Test [0] \\u{1b}[2Ja not run\n== RUN \\u{1b}[2Ja ==\nSet 0:  \\u{202e}x\n")
    );
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
}

#[test]
fn numbers_are_written_as_go_writes_them() {
    let cases = [
        (f64::NAN, "NaN"),
        (-f64::NAN, "NaN"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
        (0.125, "0.12"),
        (0.375, "0.38"),
        (1e21, "1000000000000000000000.00"),
    ];
    for (value, expected) in cases {
        assert_eq!(fixed(value, 2), expected);
    }
}
