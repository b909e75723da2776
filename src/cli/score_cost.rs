//! `schedlab score --cost`, and the figure that each scoreboard states: measured once for each
//! kernel, source and level, and kept in the state folder.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{ProbeCost, Score};
use crate::probe::sched::cost::{self, Effort, End, Pair};
use crate::probe::sched::{self, CostError, Level, SessionConfig};
use crate::probe::{Ahead, Telemetry};
use crate::sys::replace::replace;
use crate::sys::{self, Host, clock, input};

use super::Failure;

const FILE: &str = "score-cost.json";
/// The length of a trace whose lines fill no cache.
const TRACE_NS: u64 = 5_000_000_000;

#[derive(Serialize, Deserialize)]
struct Known {
    kernel: String,
    source: String,
    level: String,
    cost: ProbeCost,
}

/// Measures at length, prints, and keeps the result.
pub fn print(only: Option<&str>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "ping-pong of two threads through pipes on one CPU, with and without in turns")?;
    let mut any = false;
    for level in [Level::Full, Level::Light, Level::Events] {
        let (config, word) = (config(level), word(level));
        let Some(source) = best(&config, only) else { continue };
        match cost::measure(&cost::session(&config, source), cost::THOROUGH) {
            Ok(pairs) => {
                any = true;
                writeln!(out, "{}", describe(&format!("{source}, {word}"), &pairs))?;
                keep(source, level, &pairs);
            }
            Err(error) => writeln!(out, "{source}, {word}: {error}")?,
        }
    }
    if only.is_none() {
        for probe in ["counters", "counters-by-role"] {
            let pairs = cost::measure(&|tasks| counters(probe, tasks), cost::THOROUGH);
            match pairs {
                Ok(pairs) => writeln!(out, "{}", describe(&format!("probe {probe}"), &pairs))?,
                Err(error) => writeln!(out, "probe {probe}: {error}")?,
            }
        }
    }
    if any {
        Ok(())
    } else {
        Err(Failure::here("no source whose cost could be measured", "schedlab doctor"))
    }
}

/// As much of it as there is on this machine.
fn counters(probe: &str, tasks: &[i32]) -> Result<End, CostError> {
    let mut telemetry = Telemetry::open(&[probe.to_string()], tasks, Ahead::default());
    telemetry.begin();
    Ok(Box::new(move || {
        telemetry.end();
        Ok(())
    }))
}

/// `bpf, full: 1520 ns a switch, 1670 with: +9.9 % (+8.1 to +11.2, 9 pairs), 150 ns a switch`.
fn describe(what: &str, pairs: &[Pair]) -> String {
    let Some(cost) = cost::summary(pairs, 0) else { return format!("{what}: nothing measured") };
    let slowdowns = pairs.iter().map(|pair| 100.0 * (pair.with_ns / pair.plain_ns - 1.0));
    let (min, max) = slowdowns
        .fold((f64::MAX, f64::MIN), |(min, max), slowdown| (min.min(slowdown), max.max(slowdown)));
    format!(
        "{what}: {:+.1} % ({min:+.1} to {max:+.1} in {} pairs), {:.0} ns a switch",
        100.0 * cost.slowdown,
        pairs.len(),
        cost.switch_ns,
    )
}

/// The first source that opens.
fn best(config: &SessionConfig, only: Option<&str>) -> Option<&'static str> {
    sched::open(config, only).ok().map(|opened| opened.source)
}

/// The cost of a scoreboard's source on this kernel. Pictures of /proc cost nothing at a switch,
/// but take time of their own.
pub fn of_score(score: &Score, level: Level) -> Option<ProbeCost> {
    score
        .source
        .as_deref()
        .filter(|source| *source != "procfs")
        .and_then(|source| source_cost(source, level))
}

/// The stored cost of this source on this kernel; without one it is measured now, for a second.
fn source_cost(source: &str, level: Level) -> Option<ProbeCost> {
    let kernel = kernel()?;
    let is_it = |known: &Known| {
        known.kernel == kernel && known.source == source && known.level == word(level)
    };
    if let Some(known) = read().into_iter().find(is_it).filter(|known| is_known(&known.cost)) {
        return Some(known.cost);
    }
    let pairs = measure_shortly(&config(level), source)?;
    keep(source, level, &pairs);
    cost::summary(&pairs, clock::unix_ns())
}

fn config(level: Level) -> SessionConfig {
    let trace_ns = if level == Level::Events { TRACE_NS } else { 0 };
    SessionConfig { level, trace_ns, ..SessionConfig::default() }
}

/// As the user knows it: `score`, its `--light`, and `capture`.
fn word(level: Level) -> &'static str {
    match level {
        Level::Full => "full",
        Level::Light => "light",
        Level::Events => "capture",
    }
}

fn measure_shortly(config: &SessionConfig, source: &str) -> Option<Vec<Pair>> {
    const EFFORT: Effort = cost::SHORT;
    cost::measure(&cost::session(config, source), EFFORT).ok().filter(|pairs| !pairs.is_empty())
}

/// Telemetry takes time; where it seems to take none, noise was larger, and it is measured again.
fn is_known(cost: &ProbeCost) -> bool {
    cost.switch_ns > 0.0
}

fn kernel() -> Option<String> {
    let host = Host::default();
    let release = host.read("/proc/sys/kernel/osrelease").ok()?;
    let version = host.read("/proc/sys/kernel/version").ok()?;
    Some(format!("{} {}", release.trim(), version.trim()))
}

fn path() -> Option<PathBuf> {
    sys::state_dir().ok().map(|folder| folder.join(FILE))
}

fn read() -> Vec<Known> {
    let text = path().and_then(|path| input::read_text_file(path, input::MAX_OWN_FILE_BYTES).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The newest of each kind. What cannot be written is measured again next time.
fn keep(source: &str, level: Level, pairs: &[Pair]) {
    let (Some(kernel), Some(path)) = (kernel(), path()) else { return };
    let Some(cost) = cost::summary(pairs, clock::unix_ns()) else { return };
    let level = word(level).to_string();
    let mut all = read();
    all.retain(|known| known.kernel != kernel || known.source != source || known.level != level);
    all.push(Known { kernel, source: source.to_string(), level, cost });
    let Ok(text) = serde_json::to_string(&all) else { return };
    if path.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok()) {
        let _ = replace(&path, |out| out.write_all(text.as_bytes()));
    }
}
