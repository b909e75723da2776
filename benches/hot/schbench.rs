//! The time of schbench's work, by itself and side by side with the program: at 32 and 128 KiB,
//! where malloc gives the program heap (the matrices fill a little less than 128 KiB), and at
//! 256 KiB, where it gives a mapping. And its pipe mode, both on one CPU.

use std::process::Command;
use std::time::Duration;

use schedlab::model::Raw;

use super::{Reach, Row, crew, median};

pub const OPERATION: Row = Row {
    name: "schbench: one operation at 256 KiB, median",
    unit: "us",
    reach: Reach::None,
    measure: || calibrate(256, 1, Duration::from_secs(1)),
};

pub const CALIBRATE_32_KIB: Row = Row {
    name: "schbench: calibrate p50 at 32 KiB x 20 / the program's",
    unit: "",
    reach: Reach::NearOne(0.03),
    measure: || against_the_program(32, 20),
};

pub const CALIBRATE_128_KIB: Row = Row {
    name: "schbench: calibrate p50 at 128 KiB x 5 / the program's",
    unit: "",
    reach: Reach::NearOne(0.03),
    measure: || against_the_program(128, 5),
};

pub const CALIBRATE_256_KIB: Row = Row {
    name: "schbench: calibrate p50 at 256 KiB x 5 / the program's",
    unit: "",
    reach: Reach::NearOne(0.03),
    measure: || against_the_program(256, 5),
};

pub const PIPE: Row = Row {
    name: "schbench: pipe mode of 64 B on one CPU, ops/s / the program's",
    unit: "",
    reach: Reach::AtLeast(1.0),
    measure: pipe_against_the_program,
};

const CPU: usize = 0;
const PAIRS: usize = 7;

/// The median request of one worker of ours, in us.
fn calibrate(footprint_kib: u32, operations: u32, section: Duration) -> Result<f64, String> {
    let given = [
        ("calibrate", Raw::Bool(true)),
        ("cache-footprint", Raw::Text(format!("{footprint_kib}KiB"))),
        ("operations", Raw::Int(operations.into())),
        ("threads", Raw::Int(1)),
    ];
    let done = crew::run("schbench", &given, None, section)?;
    let p50_ns = done.histograms[1].quantile_ns(0.5).ok_or("no request ended")?;
    Ok(p50_ns / 1e3)
}

/// The median over pairs of runs of our median request to the program's.
fn against_the_program(footprint_kib: u32, operations: u32) -> Result<f64, String> {
    let mut ratios = Vec::with_capacity(PAIRS);
    for pair in 0..PAIRS {
        let ours = || calibrate(footprint_kib, operations, Duration::from_secs(2));
        let theirs = || program(footprint_kib, operations);
        let (ours, theirs) = if pair % 2 == 0 {
            let ours = ours()?;
            (ours, theirs()?)
        } else {
            let theirs = theirs()?;
            (ours()?, theirs)
        };
        ratios.push(ours / theirs);
    }
    Ok(median(ratios))
}

/// The median over pairs of runs of our rate of transfers to the program's, at `-p 64 -t 1`.
fn pipe_against_the_program() -> Result<f64, String> {
    let section = Duration::from_secs(1);
    let given = [("pipe", Raw::Text("64B".to_string())), ("threads", Raw::Int(1))];
    let ours = || crew::run("schbench", &given, Some(CPU), section).map(|done| done.ops_per_s);
    let mut ratios = Vec::with_capacity(PAIRS);
    for pair in 0..PAIRS {
        let (ours, theirs) = if pair % 2 == 0 {
            let ours = ours()?;
            (ours, program_in_pipe_mode()?)
        } else {
            let theirs = program_in_pipe_mode()?;
            (ours()?, theirs)
        };
        ratios.push(ours / theirs);
    }
    Ok(median(ratios))
}

/// What `schbench` on the PATH says of its transfers per second, on the same CPU.
fn program_in_pipe_mode() -> Result<f64, String> {
    // A child has the affinity of the thread that starts it.
    let child = || {
        crew::pin(CPU)?;
        let output = Command::new("schbench").args("-p 64 -t 1 -r 1".split(' ')).output();
        output.map_err(|error| format!("no `schbench` on the PATH ({error})"))
    };
    let child = std::thread::spawn(child).join();
    let output = child.map_err(|_| "a thread panicked".to_string())??;
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .find_map(|line| line.trim().strip_prefix("avg worker transfer:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| format!("`schbench` printed no transfers: {text}"))
}

/// The same from `schbench` on the PATH: in its text, the first 50th percentile below
/// `Request Latencies`.
fn program(footprint_kib: u32, operations: u32) -> Result<f64, String> {
    let output = Command::new("schbench")
        .args("-C -t 1 -r 2".split(' '))
        .args([format!("-F{footprint_kib}"), format!("-n{operations}")])
        .output()
        .map_err(|error| format!("no `schbench` on the PATH ({error})"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .skip_while(|line| !line.starts_with("Request Latencies"))
        .find_map(|line| line.trim().strip_prefix("50.0th:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| format!("`schbench` printed no 50th percentile of requests: {text}"))
}
