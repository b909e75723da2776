//! `schedlab score` under much load: switches as fast as possible, and thousands of tasks. Needs the right to
//! load BPF programs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::Value;

use schedlab::sys::{sched, topology};

use super::{Figure, Reach, Row, Shared, of_status};

pub const RATE: Row = Row::once(
    "score: switches counted, yields of 4 threads on each CPU",
    "/s",
    Reach::None,
    || FULL_RATE.get(full_rate).map(|seen| seen.per_s),
);

pub const LOST: Row = Row::once(
    "score: events lost at full switch rate, not reported",
    "",
    Reach::Below(1.0),
    || FULL_RATE.get(full_rate).map(|seen| seen.lost),
);

pub const MEMORY: Row = Row::once(
    "score: memory at 10,000 tasks, of the kernel and its own",
    "MB",
    Reach::Below(32.0),
    || memory_mb("RssAnon:"),
);

pub const MEMORY_AND_FILES: Row = Row::once(
    "score: memory at 10,000 tasks, its program and shared maps too",
    "MB",
    Reach::Below(32.0),
    || memory_mb("VmHWM:"),
);

const THREADS_BY_CPU: usize = 4;
const TASKS: usize = 10_000;

#[derive(Clone)]
struct Seen {
    per_s: f64,
    /// Counted by the kernel and not by the score.
    lost: f64,
}

static FULL_RATE: Shared<Result<Seen, String>> = Shared::empty();

/// Threads that yield to each other, counted by the kernel and by the score over the same switches:
/// both begin and end while they sleep.
fn full_rate() -> Result<Seen, String> {
    let cpus = topology::affinity().map_err(|error| error.to_string())?;
    let cpus: Vec<u32> = cpus.iter().flat_map(|cpu| [cpu; THREADS_BY_CPU]).collect();
    let (gate, stop) = (Arc::new(Barrier::new(cpus.len() + 1)), Arc::new(AtomicBool::new(false)));
    let threads = cpus.into_iter().map(|cpu| {
        let (gate, stop) = (Arc::clone(&gate), Arc::clone(&stop));
        let run = move || {
            let pinned = sched::set_affinity(0, &[cpu].into_iter().collect());
            gate.wait();
            while !stop.load(Relaxed) {
                std::thread::yield_now();
            }
            gate.wait();
            pinned
        };
        std::thread::Builder::new().name("bench-yield".into()).spawn(run)
    });
    let threads: Vec<_> = threads.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    await_sleep("bench-yield", threads.len());
    let mut score = start(&["--pid", &std::process::id().to_string(), "--duration", "10s"])?;
    await_handlers(&mut score)?;
    let before = switches();
    gate.wait();
    std::thread::sleep(Duration::from_secs(5));
    stop.store(true, Relaxed);
    await_sleep("bench-yield", threads.len());
    let after = switches();
    let score = result(score)?;
    gate.wait();
    for thread in threads {
        let pinned = thread.join().map_err(|_| "a thread panicked".to_string())?;
        pinned.map_err(|error| format!("cannot pin: {error}"))?;
    }
    let kernel: u64 = after.iter().map(|(tid, sum)| sum - before.get(tid).unwrap_or(&0)).sum();
    let tasks = score["tasks"].as_array().into_iter().flatten();
    let of = |task: &Value, key: &str| task[key].as_u64().unwrap_or(0);
    let counted: u64 = tasks
        .filter(|task| task["name"] == "bench-yield")
        .map(|task| of(task, "voluntary") + of(task, "involuntary"))
        .sum();
    eprintln!("{kernel} by the kernel, {counted} counted; reported as lost: {}", score["lost"]);
    Ok(Seen { per_s: counted as f64 / 5.0, lost: kernel.abs_diff(counted) as f64 })
}

/// The kernel's memory for tasks and the programs' maps, and the maximum of this key in the status of the score.
fn memory_mb(key: &str) -> Figure {
    let end = Arc::new(Barrier::new(TASKS + 1));
    let threads = (0..TASKS).map(|_| {
        let end = Arc::clone(&end);
        std::thread::Builder::new().stack_size(16 << 10).name("bench-many".into()).spawn(
            move || {
                end.wait();
            },
        )
    });
    let threads: Vec<_> = threads.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    await_sleep("bench-many", TASKS);
    let before = slab_bytes();
    let mut score = start(&["--system", "--duration", "5s"])?;
    await_handlers(&mut score)?;
    let (maps, tasks) = (maps_bytes(score.id()), slab_bytes() - before);
    end.wait();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked".to_string())?;
    }
    let mut peak = 0.0f64;
    while score.try_wait().map_err(|error| error.to_string())?.is_none() {
        peak = peak.max(of_status(score.id(), key).unwrap_or(0.0) * 1024.0);
        std::thread::sleep(Duration::from_millis(5));
    }
    let counted = result(score)?["tasks"].as_array().map_or(0, Vec::len);
    let [maps, tasks, peak] = [maps, tasks, peak].map(|bytes| bytes / 1e6);
    eprintln!("{counted} tasks: {tasks:.1} MB, maps {maps:.1} MB, itself {peak:.1} MB");
    Ok(maps + tasks + peak)
}

pub fn start(options: &[&str]) -> Result<Child, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["score", "--source", "bpf", "--format", "json", "--output", &output()]);
    command.args(options).stdout(Stdio::null());
    command.spawn().map_err(|error| format!("cannot start schedlab: {error}"))
}

pub fn output() -> String {
    let path = std::env::temp_dir().join(format!("schedlab-bench-{}.json", std::process::id()));
    path.to_string_lossy().into_owned()
}

fn result(mut score: Child) -> Result<Value, String> {
    score.wait().map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(output()).map_err(|error| error.to_string())?;
    let _ = std::fs::remove_file(output());
    let score: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    match score["source"].as_str() {
        Some(_) => Ok(score),
        None => Err(format!("no telemetry: {}", score["missed"])),
    }
}

/// Waits until the score catches signals: it counts right after that.
pub fn await_handlers(score: &mut Child) -> Result<(), String> {
    let path = format!("/proc/{}/status", score.id());
    loop {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.is_some_and(|caught| caught & (1 << (15 - 1)) != 0) {
            // Its beginning cannot be seen from outside, so wait.
            std::thread::sleep(Duration::from_secs(1));
            return Ok(());
        }
        if score.try_wait().map_err(|error| error.to_string())?.is_some() {
            return Err("the score ended before it counted".to_string());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn number(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The threads of this process by their number, with the kernel's status of each.
fn statuses() -> Vec<(i32, String)> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let status = |path: &Path| std::fs::read_to_string(path.join("status")).ok();
    threads
        .filter_map(|thread| {
            let tid = thread.file_name().to_string_lossy().parse().ok()?;
            Some((tid, status(&thread.path())?))
        })
        .collect()
}

/// Switches of all threads that yield.
fn switches() -> BTreeMap<i32, u64> {
    let yields = statuses().into_iter().filter(|(_, status)| status.contains("bench-yield"));
    let sum = |status: &str| {
        let of = |key| number(status, key).unwrap_or(0);
        of("voluntary_ctxt_switches:") + of("nonvoluntary_ctxt_switches:")
    };
    yields.map(|(tid, status)| (tid, sum(&status))).collect()
}

/// Waits until `count` threads of this name sleep.
fn await_sleep(name: &str, count: usize) {
    let sleeps = |status: &str| status.contains(name) && status.contains("State:\tS");
    while statuses().iter().filter(|(_, status)| sleeps(status)).count() < count {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Size of all maps that the process has open, as the kernel reports it.
fn maps_bytes(pid: u32) -> f64 {
    let files = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let of = |text: String| number(&text, "map_id:").zip(number(&text, "memlock:"));
    let maps = files.filter_map(|file| of(std::fs::read_to_string(file.path()).ok()?));
    maps.collect::<BTreeMap<u64, u64>>().values().sum::<u64>() as f64
}

/// Size of the kernel's unreclaimable slabs, which hold the storage of tasks.
fn slab_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    number(&text, "SUnreclaim:").unwrap_or(0) as f64 * 1024.0
}
