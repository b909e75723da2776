//! burnwait as `schedlab schedbench` runs it: the evenness of its throughput compared with schedbench's own
//! worker (`worker-proc`, if it is on the PATH), its CPU time compared with the kernel's, and the use of an
//! overcommitted pool.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use schedlab::sys::{clock, sched};
use serde_json::Value;

use crate::{Figure, Figures, Reach, Row, Shared, end, schedlab};

pub const CALIBRATION: Row =
    Row::once("burnwait 70 200000 alone: CV of throughput, 10 runs", "%", Reach::None, || {
        CALIBRATED.get(calibrate).map(|both| both.0)
    });

pub const CALIBRATION_TO_THE_PROGRAM: Row =
    Row::once("burnwait: the same / that of schedbench's worker", "", Reach::Below(1.0), || {
        let (ours, theirs) = CALIBRATED.get(calibrate)?;
        Ok(ours / theirs?)
    });

pub const CPU_TIME: Row = Row::once(
    "burnwait: CPU time from schedstat's, the worst of 7 workers",
    "%",
    Reach::Below(0.5),
    || ACCOUNTED.get(account).map(|both| both.0),
);

pub const CPU_TIME_OF_THE_FAMILY: Row =
    Row::once("burnwait: the same of all, with overhead, from rusage's", "%", Reach::None, || {
        ACCOUNTED.get(account).map(|both| both.1)
    });

pub const OVERCOMMITTED: Row = Row::once(
    "burnwait 70 0, N CPUs overcommitted 2x: CPUs used / N",
    "",
    Reach::AtLeast(0.99),
    || used("0"),
);

pub const OVERCOMMITTED_SAMPLE: Row =
    Row::once("burnwait 70 200000: the same", "", Reach::AtLeast(0.99), || used("200000"));

const RUNS: usize = 10;

type Calibrated = Result<(f64, Result<f64, String>), String>;

static CALIBRATED: Shared<Calibrated> = Shared::empty();
static ACCOUNTED: Shared<Result<(f64, f64), String>> = Shared::empty();

/// The variation of ours and of the program's throughput, in the same minute: alternating runs of a second.
fn calibrate() -> Calibrated {
    let sets = [set(&["burnwait", "70", "200000"], 1)];
    let mut ours = Vec::new();
    let mut theirs = Ok(Vec::new());
    for _ in 0..RUNS {
        ours.push(rates(&schedbench(&sets, Some(0), 1)?)?.iter().sum());
        theirs = theirs.and_then(|mut list| {
            list.push(program(0)?);
            Ok(list)
        });
    }
    Ok((variation_percent(&ours), theirs.map(|list: Vec<f64>| variation_percent(&list))))
}

fn variation_percent(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt() / mean * 100.0
}

/// Throughput of one run of schedbench's worker, from its first report to the next.
fn program(cpu: u32) -> Figure {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
    let mhz = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"));
    let mhz: Option<f64> = mhz.and_then(|line| line.split(": ").nth(1)?.trim().parse().ok());
    let khz = (mhz.ok_or("no clock rate in /proc/cpuinfo")? * 1e3) as u64;
    let mut command = Command::new("worker-proc");
    command.args(["kHZ", &khz.to_string(), "report_interval", "1000"]);
    command.args(["burnwait", "70", "200000"]).stdin(Stdio::null()).stdout(Stdio::piped());
    // A child begins with the CPUs of the thread that makes it.
    let spawn = move || -> Result<Child, String> {
        let cpus = [cpu].into_iter().collect();
        sched::set_affinity(0, &cpus).map_err(|error| format!("CPU {cpu}: {error}"))?;
        command.spawn().map_err(|error| format!("no `worker-proc` on the PATH ({error})"))
    };
    let mut child = std::thread::spawn(spawn).join().map_err(|_| "a panic".to_string())??;
    let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let reports = lines.map_while(Result::ok).filter(|line| line.starts_with('{')).take(2);
    let reports: Vec<Value> = reports.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    let ended = child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string());
    match &reports[..] {
        [first, last] => Ok(rate(first, last)),
        _ => Err(format!("`worker-proc` made no two reports: {ended:?}")),
    }
}

fn number(report: &Value, key: &str) -> f64 {
    report[key].as_f64().unwrap_or(f64::NAN)
}

/// Thousand operations per second.
fn rate(first: &Value, last: &Value) -> f64 {
    let passed = |key| number(last, key) - number(first, key);
    passed("Kops") / passed("Now") * 1e9
}

fn set(args: &[&str], count: usize) -> Value {
    serde_json::json!({ "Params": { "Args": args }, "Count": count })
}

/// The reports of each worker of one run.
type Reports = BTreeMap<(u64, u64), Vec<Value>>;

fn rates(workers: &Reports) -> Figures {
    let ends = workers.values().map(|reports| reports.first().zip(reports.last()));
    let rates = ends.map(|ends| ends.map(|(first, last)| rate(first, last)));
    rates.collect::<Option<_>>().ok_or("no reports".to_string())
}

fn cpu_seconds(reports: &[Value]) -> f64 {
    let passed = |key| match (reports.first(), reports.last()) {
        (Some(first), Some(last)) => number(last, key) - number(first, key),
        _ => f64::NAN,
    };
    passed("Cputime") / 1e9
}

/// One run to its end.
fn schedbench(sets: &[Value], cpu: Option<u32>, seconds: u32) -> Result<Reports, String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let child = start(scratch.path(), sets, cpu, seconds)?;
    finish(scratch.path(), child)
}

fn start(home: &Path, sets: &[Value], cpu: Option<u32>, seconds: u32) -> Result<Child, String> {
    let file = serde_json::json!({ "Runs": [{
        "Label": "bench", "WorkerSets": sets, "Cpus": cpu.map(|cpu| [cpu]),
        "RuntimeSeconds": seconds }] });
    std::fs::write(home.join("test.bench"), file.to_string()).map_err(|e| e.to_string())?;
    let mut command = schedlab(home, &["schedbench", "run"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| e.to_string())
}

fn finish(home: &Path, child: Child) -> Result<Reports, String> {
    end(child)?;
    let text = std::fs::read_to_string(home.join("test.bench")).map_err(|e| e.to_string())?;
    let file: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let raw = file["Runs"][0]["Results"]["Raw"].as_array().ok_or("no results")?;
    let mut workers = Reports::new();
    for report in raw {
        let id = |key| report["Id"][key].as_u64().unwrap_or_default();
        workers.entry((id("Set"), id("Id"))).or_default().push(report.clone());
    }
    Ok(workers)
}

/// The largest relative difference of a worker, and the difference of all together, in percent.
fn account() -> Result<(f64, f64), String> {
    let queues: [&[&str]; 3] = [
        &["burnwait", "70", "200000"],
        &["burnwait", "10", "300000", "burnwait", "20", "300000", "burnwait", "30", "300000"],
        &["burnwait", "70", "0"],
    ];
    let counts = [3, 3, 1];
    let sets: Vec<Value> =
        queues.iter().zip(counts).map(|(args, count)| set(args, count)).collect();
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let before_ns = descendants_cpu_ns()?;
    let mut child = start(scratch.path(), &sets, None, 8)?;
    let mut seen: BTreeMap<u32, f64> = BTreeMap::new();
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        for worker in children(child.id()).into_iter().flat_map(children) {
            let stat = std::fs::read_to_string(format!("/proc/{worker}/schedstat"));
            let ns = stat.ok().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
            // A process that has ended shows zero.
            if let Some(ns) = ns.filter(|&ns| ns > 0.0) {
                seen.insert(worker, ns / 1e9);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let reports = finish(scratch.path(), child)?;
    let family = (descendants_cpu_ns()? - before_ns) as f64 / 1e9;
    if seen.len() != reports.len() {
        return Err(format!("{} workers seen of {}", seen.len(), reports.len()));
    }
    // Workers are made in the order of their sets, so their numbers have this order, unless they wrap.
    let ours: Vec<f64> = reports.values().map(|reports| cpu_seconds(reports)).collect();
    let far = |ours: f64, kernel: f64| (ours / kernel - 1.0).abs() * 100.0;
    let worst = ours.iter().zip(seen.values()).map(|(&ours, &kernel)| far(ours, kernel));
    Ok((worst.fold(0.0, f64::max), far(ours.iter().sum(), family)))
}

/// CPU time of descendants that have ended, without this process's own time for watching them.
fn descendants_cpu_ns() -> Result<u64, String> {
    let family_ns = clock::family_cpu_ns();
    let own_ns = clock::process_cpu_ns(std::process::id() as i32).ok_or("no own CPU time")?;
    Ok(family_ns.saturating_sub(own_ns))
}

fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
    let lists: Vec<String> = lists.map_while(Result::ok).collect();
    lists
        .iter()
        .flat_map(|list| list.split_whitespace())
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// The share of all CPUs used by workers that want twice as many.
fn used(wait_ns: &str) -> Figure {
    let args = ["burnwait", "70", wait_ns];
    let cpus = std::thread::available_parallelism().map_err(|error| error.to_string())?.get();
    let want: f64 = utilisations(&schedbench(&[set(&args, 1)], Some(0), 1)?).sum();
    let workers = (2.0 * cpus as f64 / want).ceil() as usize;
    let used: f64 = utilisations(&schedbench(&[set(&args, workers)], None, 5)?).sum();
    Ok(used / cpus as f64)
}

fn utilisations(workers: &Reports) -> impl Iterator<Item = f64> {
    workers.values().map(|reports| {
        let now = |report: Option<&Value>| report.map_or(f64::NAN, |report| number(report, "Now"));
        cpu_seconds(reports) / (now(reports.last()) - now(reports.first())) * 1e9
    })
}
