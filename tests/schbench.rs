//! The drop-in for schbench as a script calls it: arguments, streams, exit codes, signals.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use regex::Regex;

use serde_json::Value;

use crate::home::Home;
use crate::support::{done, signal, stderr, stdout};

/// The smallest load that shows all of the output.
const SMALL: &str = "schbench -t 1 -F 16 -n 1";

/// All that a regular expression finds, its first group as a number.
fn numbers(pattern: &str, text: &str) -> Vec<f64> {
    let pattern = Regex::new(pattern).unwrap();
    pattern.captures_iter(text).map(|found| found[1].parse().unwrap()).collect()
}

#[test]
fn a_wrong_command_line_is_refused_with_what_was_seen() {
    let cases: &[(&[&str], i32, &str)] = &[
        (&["-r"], 2, "--runtime <SECONDS>"),
        (&["-r", ""], 2, "--runtime <SECONDS>"),
        (&["-r", "-3"], 2, "'-3' for '--runtime <SECONDS>'"),
        (&["-t", "two"], 2, "'two' for '--threads <N>'"),
        (&["-m", "0"], 2, "message-threads"),
        (&["-x"], 2, "unexpected argument '-x'"),
        (&["left"], 2, "unexpected argument 'left'"),
        (&["--split", "101"], 2, "split"),
        (&["-p", "64", "-R", "10"], 2, "-p passes bytes, not requests"),
        (&["--arrivals", "poisson"], 2, "arrivals"),
        (&["-M", "0-"], 2, "--message-cpus <CPUS>"),
        (&["-M", "4090"], 3, "4090"),
        (&["-W", "0,4090"], 3, "4090"),
        (&["-m", "4000", "-M", "auto"], 3, "4000"),
        (&["-j", "no/such/folder/x.json"], 3, "cannot write JSON to no/such/folder/x.json"),
        (&["-j", "/"], 3, "cannot write JSON to /"),
    ];
    let home = Home::new();
    for (arguments, code, expected) in cases {
        // Long enough to notice a run that begins although it should not.
        let output = home.ends(*code, &[&["schbench", "-r", "600"], *arguments].concat());
        let text = stderr(&output);
        assert!(text.contains(expected), "{arguments:?}: {text}");
        assert!(
            text.starts_with("error: ") && !text.contains("Latencies"),
            "{arguments:?}: {text}"
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn text_and_json_of_a_run_are_schbenchs() {
    let home = Home::new();
    let output = home.ends(0, format!("{SMALL} -r 2 -i 1 -j - -J \"a\""));
    let text = stderr(&output);
    // Two intervals and the end: wakeups and requests each time.
    assert_eq!(numbers(r"(?m)^\s*\*?\s*99\.0th: (\d+)", &text).len(), 6, "{text}");
    assert_eq!(numbers(r"current rps: ([\d.]+)", &text).len(), 2, "{text}");
    let average = numbers(r"average rps: ([\d.]+)", &text);
    assert!(average.len() == 1 && average[0] > 0.0, "{text}");
    assert!(numbers(r"RPS percentiles \(requests\) runtime 2 \(s\) \((\d+)", &text).contains(&2.0));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["normal"]["jobname"], "\"a\"");
    assert_eq!(json["int"]["runtime"], 2);
    let rows: Vec<f64> = numbers(r"(?m)^\t\* 99\.0th: (\d+)", &text);
    assert_eq!(json["int"]["request_latency_pct99.0"].as_f64(), rows.last().copied());
    let p50_ns = json["schedlab"]["request"]["p50_ns"].as_f64().unwrap();
    assert_eq!(json["int"]["request_latency_pct50.0"].as_f64(), Some((p50_ns / 1e3).round()));
}

#[test]
fn at_a_rate_schbenchs_own_lines_stay_and_ours_come_before_them() {
    let home = Home::new();
    let output = home.ends(0, format!("{SMALL} -r 2 -R 2000 -i 5 -j -"));
    let text = stderr(&output);
    assert_eq!(numbers(r"(?m)^\s*\*?\s*99\.0th: (\d+)", &text).len(), 2, "{text}");
    let ours = text.find("response (usec").unwrap();
    assert!(ours < text.find("Wakeup Latencies").unwrap(), "{text}");
    assert!(text.lines().last().unwrap().starts_with("sched delay: "), "{text}");
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    // A burst of 2,000 does not fit the queue of one worker.
    let dropped = json["schedlab"]["dropped"].as_u64().unwrap();
    assert_eq!(numbers(r"dropped: (\d+) requests", &text), [dropped as f64], "{text}");
    assert!(json["schedlab"]["response"]["samples"].as_u64() > Some(0), "{json}");
}

#[test]
fn zeroing_leaves_each_period_its_own_samples() {
    let home = Home::new();
    let text = home.says(0, "schbench -r 3 -t 1 -F 16 -z 1 -i 1");
    let samples = numbers(r"RPS percentiles \(requests\) runtime \d+ \(s\) \((\d+) total", &text);
    assert!(samples.len() > 2 && samples.iter().all(|&count| count == 1.0), "{text}");
    let requests = numbers(r"Request Latencies .* \((\d+) total samples", &text);
    let rps = numbers(r"average rps: ([\d.]+)", &text);
    // Without zeroing, the first period would count three times and the second twice.
    assert!(requests[..3].iter().sum::<f64>() < 1.3 * 3.0 * rps[0], "{text}");
}

#[test]
fn the_binary_called_schbench_is_schbench() {
    let home = Home::new();
    let link = home.at("schbench");
    symlink(env!("CARGO_BIN_EXE_schedlab"), &link).unwrap();
    let mut command = Command::new(&link);
    let text = stderr(&done(command.args(["-p", "64", "-t", "2", "-r", "1"])));
    let transfers = numbers(r"avg worker transfer: ([\d.]+) ops/sec [\d.]+[KMG]?B/s", &text);
    // The figure of one worker; the samples are those of both.
    let samples = numbers(r"runtime 1 \(s\) \((\d+) total samples", &text);
    assert!((0.5..1.5).contains(&(transfers[0] * 2.0 / samples[0])), "{text}");
    let help = Command::new(&link).arg("--help").output().unwrap();
    assert!(stdout(&help).contains("Usage: schbench"), "{}", stdout(&help));
}

#[test]
fn a_file_keeps_what_it_holds_until_the_run_has_ended() {
    let home = Home::new();
    let long = "x".repeat(100_000);
    home.write("kept.json", &long);
    // This is refused after the file was opened: the CPUs to pin to do not exist.
    for name in ["kept.json", "fresh.json"] {
        let refused = home.call(format!("schbench -r 1 -t 60000 -m 3 -j {name}"));
        assert_ne!(refused.status.code(), Some(0), "{refused:?}");
    }
    assert_eq!(home.read("kept.json"), long);
    assert!(!home.at("fresh.json").exists(), "a file without a result is left behind");
    home.ok(format!("{SMALL} -r 1 -j kept.json"));
    // Nothing of the old is left, so it is JSON.
    assert_eq!(home.document("kept.json")["int"]["runtime"], 1);
}

/// Starts a run, sends it SIGINT after its first interval is printed, and waits.
fn interrupted(home: &Home, more: &str) -> (Option<i32>, String) {
    let file = std::fs::File::create(home.at("log")).unwrap();
    let mut command = home.command(format!("{SMALL} -i 1 -j out.json {more}"));
    let mut child = command.stderr(file).stdout(Stdio::null()).spawn().unwrap();
    let log = || home.read("log");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !log().contains("current rps") {
        assert!(Instant::now() < deadline, "no interval was printed: {}", log());
        std::thread::yield_now();
    }
    signal(child.id(), "-INT");
    let status = child.wait().unwrap();
    (status.code(), log())
}

#[test]
fn a_signal_ends_a_run_and_its_figures_are_printed() {
    for (runtime, code) in [("0", 0), ("600", 130)] {
        let home = Home::new();
        let (status, text) = interrupted(&home, &format!("-r {runtime} -w 1"));
        assert_eq!(status, Some(code), "{text}");
        assert!(text.contains("average rps: "), "{text}");
        // The first second was the warm-up: the figures of the second cover that alone.
        assert!(text.contains("warmup done, zeroing stats\nWakeup"), "{text}");
        let samples = numbers(r"RPS percentiles .* \((\d+) total", &text);
        assert_eq!(samples.first(), Some(&1.0), "{text}");
        let seconds = home.document("out.json")["int"]["runtime"].as_u64().unwrap();
        assert!((1..600).contains(&seconds), "{seconds}");
    }
}

/// schbench waits for them without a limit.
#[test]
fn requests_that_have_begun_are_waited_for() {
    let home = Home::new();
    let output = home.ends(0, "schbench -r 1 -t 3 -F 16 -n 1 -s 1300000 -j -");
    let text = stderr(&output);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let request = &json["schedlab"]["request"];
    assert_eq!((&request["samples"], &json["schedlab"]["under_way"]), (&3.into(), &0.into()));
    assert!(request["min_ns"].as_u64() >= Some(1_300_000_000), "{text}");
    // None ended within the second.
    assert!(text.contains("average rps: 0.00"), "{text}");
}

#[test]
fn requests_that_a_signal_cuts_off_count_with_their_age() {
    let home = Home::new();
    // Half an hour.
    let (status, text) = interrupted(&home, "-r 600 -t 3 -s 1800000000");
    assert_eq!(status, Some(130), "{text}");
    assert_eq!(numbers(r"under way: (\d+) latencies", &text), [3.0], "{text}");
    let json = home.document("out.json");
    let request = &json["schedlab"]["request"];
    assert_eq!((&request["samples"], &json["schedlab"]["under_way"]), (&3.into(), &3.into()));
    // The signal came after the first second.
    assert!(request["p50_ns"].as_u64() > Some(500_000_000), "{text}");
}
