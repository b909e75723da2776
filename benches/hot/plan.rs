//! Whole runs of the binary: the cost of measuring in addition to the workload, in CPU time, memory and time,
//! with many workers.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::{Figure, Reach, Row, end, of_status, schedlab};

pub const OVERHEAD: Row =
    Row::once("CPU of schedlab itself, 1,000 workers", "%", Reach::Below(1.0), || {
        overhead_percent(1_000, 10)
    });

pub const MEMORY: Row = Row::once(
    "memory of a worker, without stack and working set",
    "KiB",
    Reach::Below(32.0),
    memory_of_a_worker,
);

pub const CONSTANT_MEMORY: Row = Row::once(
    "peak memory of a 12 s run over that of a 3 s run",
    "ratio",
    Reach::NearOne(0.02),
    memory_by_length,
);

pub const MANY: Row = Row::once(
    "4,000 busy threads: time beyond the nominal 6 s",
    "s",
    Reach::Below(10.0),
    four_thousand_threads,
);

pub const START: Row =
    Row::once("schedlab --help: time, the best of 20", "ms", Reach::Below(5.0), start_ms);

/// Ten 1 s windows of workers that sleep most of the time.
fn overhead_percent(workers: u32, seconds: u32) -> Figure {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let set =
        format!("use = \"burnwait\"\nqueue = [\"burn 1\", \"wait 20ms\"]\ncount = {workers}\n");
    end(start(scratch.path(), &set, seconds)?)?;
    let export =
        schedlab(scratch.path(), &["export"]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&export.stdout);
    let ended = text.lines().find(|line| line.contains("\"run_ended\"")).ok_or("no run ended")?;
    let event: serde_json::Value =
        serde_json::from_str(ended).map_err(|error| error.to_string())?;
    let used_ns = event["outcome"]["result"]["overhead_cpu_ns"]["known"].as_f64();
    let used_ns = used_ns.ok_or_else(|| format!("no overhead in {ended:.300}"))?;
    Ok(used_ns / (f64::from(seconds + 1) * 1e9) * 100.0)
}

/// The matrices of a schbench worker at their smallest size: one page.
const MATRIX_KIB: f64 = 4.0;

fn memory_of_a_worker() -> Figure {
    let few = peak_of_runner_kib(500, 2, resident_besides_stacks_kib)?;
    let many = peak_of_runner_kib(2_500, 2, resident_besides_stacks_kib)?;
    Ok((many - few) / 2_000.0 - MATRIX_KIB)
}

fn memory_by_length() -> Figure {
    Ok(peak_of_runner_kib(1_000, 12, high_water_kib)?
        / peak_of_runner_kib(1_000, 3, high_water_kib)?)
}

fn high_water_kib(runner: &str) -> Option<f64> {
    of_status(runner, "VmHWM:")
}

/// All mappings but nameless ones of the size of a worker's stack.
fn resident_besides_stacks_kib(runner: &str) -> Option<f64> {
    let smaps = std::fs::read_to_string(format!("/proc/{runner}/smaps")).ok()?;
    let mut total_kib = 0.0;
    let (mut is_named, mut is_stack) = (false, false);
    for line in smaps.lines() {
        if line.starts_with(|c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase()) {
            is_named = line.split_whitespace().count() > 5;
        } else if let Some(size) = line.strip_prefix("Size:") {
            is_stack = !is_named && (128.0..=144.0).contains(&kib(size)?);
        } else if let Some(resident) = line.strip_prefix("Rss:") {
            total_kib += if is_stack { 0.0 } else { kib(resident)? };
        }
    }
    Some(total_kib)
}

fn kib(text: &str) -> Option<f64> {
    text.trim().trim_end_matches(" kB").parse().ok()
}

/// The largest reading of the process that holds the workers, here schbench's with matrices
/// of nothing.
fn peak_of_runner_kib(workers: u32, seconds: u32, read: fn(&str) -> Option<f64>) -> Figure {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let set = format!(
        "use = \"schbench\"\nthreads = {workers}\ncache-footprint = \"0B\"\noperations = 0\n\
         sleep = \"50ms\"\n"
    );
    let mut child = start(scratch.path(), &set, seconds)?;
    let mut peak_kib = 0.0f64;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        let pid = child.id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        for runner in children.split_whitespace() {
            peak_kib = peak_kib.max(read(runner).unwrap_or(0.0));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    end(child)?;
    if peak_kib > 0.0 { Ok(peak_kib) } else { Err("the runner was never seen".to_string()) }
}

fn four_thousand_threads() -> Figure {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let began = Instant::now();
    end(start(scratch.path(), "use = \"spin\"\ncount = 4000\n", 5)?)?;
    Ok(began.elapsed().as_secs_f64() - 6.0)
}

fn start_ms() -> Figure {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        let output = schedlab(scratch.path(), &["--help"]).output();
        output.map_err(|error| error.to_string())?;
        best = best.min(began.elapsed());
    }
    Ok(best.as_secs_f64() * 1e3)
}

/// Starts a plan of one run: a second of warm-up, then `seconds`.
fn start(scratch: &Path, set: &str, seconds: u32) -> Result<Child, String> {
    let plan = format!(
        "schema = 1\n[measure]\nrounds = 1\nduration = \"{seconds}s\"\nwarmup = \"1s\"\n\
         [[workload]]\n{set}"
    );
    std::fs::write(scratch.join("plan.toml"), plan).map_err(|error| error.to_string())?;
    let mut command = schedlab(scratch, &["run", "./plan.toml", "--quiet", "--strict"]);
    command.spawn().map_err(|error| error.to_string())
}
