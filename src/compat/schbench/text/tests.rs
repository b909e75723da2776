//! The layout, line by line, and what others' expressions find in it.

use insta::assert_snapshot;
use proptest::prelude::*;
use regex::Regex;

use super::super::testing::{any_closing, any_figures, closing, figures, histogram};
use super::*;

/// The text with visible tabs and trailing spaces.
fn shown(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("a Vec takes everything");
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.ends_with('\n'));
    text.lines().map(|line| line.replace('\t', "|-->") + "$\n").collect()
}

#[test]
fn a_summary_of_requests() {
    assert_snapshot!(shown(|out| summary(out, &figures(), &closing())));
}

#[test]
fn an_interval_of_requests() {
    let delays = closing().delays;
    assert_snapshot!(shown(|out| interval(out, &figures(), 10, &delays, 5315.504)));
}

#[test]
fn a_rate_that_was_sought_with_responses_and_a_delay_that_is_not_known() {
    let mut figures = figures();
    figures.response = Some(histogram(&[(180_000, 9), (11_000_000, 1)]));
    let delays = Reading::Unknown("/proc/1/schedstat: ENOENT, not there".to_string());
    let closing = Closing { goal: Some(90), delays, ..closing() };
    assert_snapshot!(shown(|out| summary(out, &figures, &closing)));
}

#[test]
fn a_summary_of_pipe_mode() {
    let closing = Closing {
        seconds: 30,
        mode: Mode::Pipe { bytes: 65_536 },
        worker_ops_per_s: 21_924.84,
        ..closing()
    };
    assert_snapshot!(shown(|out| summary(out, &figures(), &closing)));
}

#[test]
fn nothing_measured_is_printed_as_schbench_prints_it() {
    let closing = Closing { seconds: 0, average_rps: 0.0, ..closing() };
    assert_snapshot!(shown(|out| summary(out, &Figures::default(), &closing)));
}

/// Values from the README of schbench: 64 KiB, 21924.84 times a second.
#[test]
fn sizes_are_shown_by_powers_of_1024() {
    let cases = [
        (0.0, "0.00B"),
        (1023.0, "1023.00B"),
        (1024.0, "1.00KB"),
        (23_862.1 * 64.0, "1.46MB"),
        (21_924.84 * 65_536.0, "1.34GB"),
        (2f64.powi(40), "1.00TB"),
        (2f64.powi(50), "1.00PB"),
        (2f64.powi(75), "32768.00EB"),
    ];
    for (bytes, expected) in cases {
        let (size, unit) = pretty_size(bytes);
        assert_eq!(format!("{size:.2}{unit}"), expected);
    }
}

#[test]
fn expressions_that_read_schbench_read_this() {
    let mut out = Vec::new();
    summary(&mut out, &figures(), &closing()).expect("a Vec takes everything");
    let text = String::from_utf8(out).expect("UTF-8");
    let found = |expression: &str| -> Vec<String> {
        let expression = Regex::new(expression).expect("an expression");
        text.lines().filter_map(|line| Some(expression.captures(line)?[1].to_string())).collect()
    };
    assert_eq!(found(r"^\s*\*?\s*99\.0th: (\d+)"), ["19", "210"]);
    assert_eq!(found(r"^\s*\*?\s*99\.9th: (\d+)"), ["19", "210"]);
    assert_eq!(found(r"^\s*\*?\s*50\.0th: (\d+)"), ["2", "180", "5296"]);
    assert_eq!(found(r"average rps: ([\d.]+)"), ["5307.50"]);
    assert_eq!(found(r"min=\d+, max=(\d+)"), ["796", "1346", "5316"]);
    assert_eq!(found(r"\((\d+) total samples\)"), ["10000", "10000", "2"]);
    assert_eq!(found(r"worker (\d+) \(usec\)"), ["3"]);
}

proptest! {
    #[test]
    fn any_figures_can_be_printed(figures in any_figures(), closing in any_closing()) {
        let mut out = Vec::new();
        summary(&mut out, &figures, &closing).unwrap();
        interval(&mut out, &figures, closing.seconds, &closing.delays, 0.0).unwrap();
        prop_assert!(String::from_utf8(out).unwrap().contains("99.0th: "));
    }
}

#[test]
fn the_samples_of_the_percentiles_add_up_to_those_below_the_last() {
    let block = Block::of_latencies(&figures().wakeup);
    let added: u64 = block.rows.iter().map(|row| row.samples).sum();
    assert_eq!((added, block.samples), (9_999, 10_000));
}
