//! `schedlab schbench` compared with `schbench`, if that is on the PATH: pairs of fresh processes with the
//! same options, in alternating order. Both are read by the same parser, from the text that they print.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use schedlab::sys::sched;

use super::{Figure, Figures, Reach, Row, alternating, of_status};

// Starts of the program differ by 2.5 % either way at 256 KiB, pairs by 3 %: the median of 15
// of them by less than 1 %.

pub const RATIOS: [Row; 6] = [
    Row::pairs(
        "schbench -C: request p50 / the program's, 15 pairs",
        "",
        Reach::NearOne(0.02),
        || calibrate("-C -t 1 -r 2"),
    ),
    Row::pairs("schbench -C -F 128: the same", "", Reach::NearOne(0.02), || {
        calibrate("-C -t 1 -r 2 -F 128")
    }),
    Row::pairs("schbench -C -F 32 -n 50: the same", "", Reach::NearOne(0.02), || {
        calibrate("-C -t 1 -r 2 -F 32 -n 50")
    }),
    Row::pairs(
        "schbench: saturated RPS / the program's, 10 pairs",
        "",
        Reach::NearOne(0.01),
        || pairs(10, "-r 4", None, |text| after(text, "", "average rps:")),
    ),
    Row::pairs(
        "schbench -L -F 128 -n 2 -t 8: RPS / the program's, 10 pairs",
        "",
        Reach::NearOne(0.01),
        || pairs(10, "-L -F 128 -n 2 -t 8 -r 4", None, |text| after(text, "", "average rps:")),
    ),
    Row::pairs(
        "schbench -p 64 -t 1 on one CPU: ops/s / the program's, 10 pairs",
        "",
        Reach::AtLeast(1.0),
        || pairs(10, "-p 64 -t 1 -r 2", Some(0), |text| after(text, "", "avg worker transfer:")),
    ),
];

pub const SIZES: [Row; 4] = [
    Row::once("schbench -m 4 -t 256 -F 16 -n 1: peak memory", "MB", Reach::Below(30.0), || {
        peak_mb(env!("CARGO_BIN_EXE_schedlab"), &["schbench"])
    }),
    Row::once("schbench, the program: the same", "MB", Reach::None, || peak_mb("schbench", &[])),
    Row::once("schbench -t 2000 -r 3: time beyond 3 s", "s", Reach::Below(1.0), || {
        late_s(env!("CARGO_BIN_EXE_schedlab"), &["schbench"])
    }),
    Row::once("schbench, the program: the same", "s", Reach::None, || late_s("schbench", &[])),
];

fn calibrate(options: &str) -> Figures {
    pairs(15, options, None, |text| after(text, "Request Latencies", "50.0th:"))
}

/// The ratios of our figure to the program's.
fn pairs(
    count: usize,
    options: &str,
    cpu: Option<u32>,
    figure: fn(&str) -> Option<f64>,
) -> Figures {
    let ours = || figure_of(env!("CARGO_BIN_EXE_schedlab"), &["schbench"], options, cpu, figure);
    let theirs = || figure_of("schbench", &[], options, cpu, figure);
    alternating(count, ours, theirs)
}

/// Makes one run, pinned to `cpu` if one is given, and reads a figure from its output.
fn figure_of(
    program: &str,
    first: &[&str],
    options: &str,
    cpu: Option<u32>,
    figure: fn(&str) -> Option<f64>,
) -> Figure {
    let mut command = Command::new(program);
    command.args(first).args(options.split(' ')).stdin(Stdio::null());
    // A child begins with the CPUs of the thread that makes it.
    let run = move || -> Result<std::process::Output, String> {
        if let Some(cpu) = cpu {
            sched::set_affinity(0, &[cpu].into_iter().collect())
                .map_err(|error| format!("cannot pin to CPU {cpu}: {error}"))?;
        }
        command.output().map_err(|error| missing(&error))
    };
    let output = std::thread::spawn(run).join().map_err(|_| "a panic".to_string())??;
    let text = String::from_utf8_lossy(&output.stderr);
    figure(&text).ok_or_else(|| format!("{program} {options} printed no such figure: {text}"))
}

/// The number after `label`, searched from the first line that begins with `heading`.
fn after(text: &str, heading: &str, label: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(heading));
    let found = lines.find_map(|line| line.trim().trim_start_matches("* ").strip_prefix(label))?;
    found.split_whitespace().next()?.parse().ok()
}

fn missing(error: &std::io::Error) -> String {
    format!("no `schbench` on the PATH ({error})")
}

/// The largest resident size of one run, as the kernel keeps it.
fn peak_mb(program: &str, first: &[&str]) -> Figure {
    let mut command = Command::new(program);
    command.args(first).args("-m 4 -t 256 -F 16 -n 1 -r 3".split(' '));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| missing(&error))?;
    let mut peak_kib = 0.0f64;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        peak_kib = peak_kib.max(of_status(child.id(), "VmHWM:").unwrap_or(0.0));
        std::thread::sleep(Duration::from_millis(20));
    }
    if peak_kib > 0.0 { Ok(peak_kib / 1000.0) } else { Err("it was never seen".to_string()) }
}

/// 2,000 workers of one lock for each CPU may take minutes to let go of it, also the program's.
const PATIENCE: Duration = Duration::from_secs(60);

fn late_s(program: &str, first: &[&str]) -> Figure {
    let mut command = Command::new(program);
    command.args(first).args("-t 2000 -r 3".split(' ')).stdin(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().map_err(|error| missing(&error))?;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
            return Err(format!("it had not ended after {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(began.elapsed().as_secs_f64() - 3.0)
}
