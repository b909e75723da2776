//! The time of schbench's work, by itself and side by side with the program: at 32 and 128 KiB,
//! where malloc gives the program heap (the matrices fill a little less than 128 KiB), and at
//! 256 KiB, where it gives a mapping.

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
    reach: Reach::NearOne(0.02),
    measure: || against_the_program(256, 5),
};

/// Starts of the program differ by 2.5 % either way at 256 KiB, pairs by 3 %: the median of 15
/// of them by less than 1 %.
const PAIRS: usize = 15;

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
