//! schbench's parameters and metrics. A table; pure.

use crate::model::{Direction, Kind, MetricSpec, Statistic, Unit, fields};
use crate::workload::{Latency, Role, Spec, WORK_TIME};

use super::arrivals::{MAX_PER_S, Pattern};
use super::shape::Mode;

pub const MESSAGE: usize = 0;
pub const WORKER: usize = 1;
pub const GOVERNOR: usize = 2;
pub const WAKEUP: usize = 0;
pub const REQUEST: usize = 1;
pub const RESPONSE: usize = 2;
pub const DROPPED: usize = 0;
pub const SETTLED: usize = 1;

pub const SPEC: Spec = Spec {
    name: "schbench",
    about: "message and worker threads: a wake-up, a sleep and matrix math under a per-CPU \
            lock, as schbench v1.0",
    params: fields! {
        "message-threads": Kind::Int { min: 1, max: 4096 } =>
            "threads that hand out turns or requests, each to workers of its own; unset: 1, or \
             with numa one a node";
        "threads": Kind::Int { min: 1, max: 65_536 } =>
            "workers per message thread; unset: CPUs divided by message threads, rounded up";
        "cache-footprint": Kind::Size { min_bytes: 0, max_bytes: 1 << 30 }, "256KiB" =>
            "size of the three matrices of a worker";
        "operations": Kind::Int { min: 0, max: 1 << 32 }, "5" =>
            "matrix multiplications of one request";
        "request": WORK_TIME =>
            "CPU time of one request's work at full speed, over 64 KiB, in place of matrices";
        "sleep": Kind::Duration { min_ns: 0, max_ns: 3_600_000_000_000 }, "100us" =>
            "sleep of each request, before the math: simulated network or disk";
        "no-locking": Kind::Bool, "false" =>
            "no spinlock of the current CPU during the math, which makes preemption hurt";
        "calibrate": Kind::Bool, "false" =>
            "time the math alone: the request leaves out the sleep, and nothing is locked";
        "rps": Kind::Int { min: 0, max: MAX_PER_S as i64 }, "0" =>
            "requests per second that arrive at one copy; 0: as many as it can do";
        "auto-rps": Kind::Percent { min: 0.1, max: 100.0 } =>
            "change the rate each second until the CPUs are that busy, beginning with rps or, \
             where that is 0, with 10; unset: off";
        "arrivals": Kind::Choice(Pattern::WORDS), "burst" =>
            "with rps or auto-rps: each second's requests at once, evenly spaced, or at random";
        "split": Kind::Percent { min: 0.0, max: 100.0 } =>
            "share of footprint and operations on matrices of the worker's own; the rest is on \
             matrices that all share; unset: all its own";
        "pipe": Kind::Size { min_bytes: 1, max_bytes: 1 << 20 } =>
            "no requests: message thread and worker fill a buffer of this size in turn; unset: off";
        "message-cpus": Kind::CpusOrAuto =>
            "CPUs that message threads are pinned to, one each in turn; auto: the first ones, and \
             for the workers all the rest; unset: all";
        "worker-cpus": Kind::CpusOrAuto =>
            "CPUs that workers may use, and message threads that have no list; auto: those that \
             message threads leave; unset: all";
        "numa": Kind::Bool, "false" =>
            "pin each message thread and its workers to a NUMA node, memory with them";
    },
    roles: &[
        Role { name: "schbench-msg", counts: false },
        Role { name: "schbench-worker", counts: true },
        Role { name: "schbench-rate", counts: false },
    ],
    ops: "requests",
    histograms: &[
        Latency::headline("wakeup", "from the start of the waker's pass to running"),
        Latency::headline("request", "sleep and math; when calibrating, the math"),
        Latency::explaining("response", "at a rate: from the intended arrival to the end"),
    ],
    counters: &["dropped", "settled"],
    metrics: &[
        rps(
            "rps_p20",
            Statistic::Quantile(200_000),
            "20 % of windows had at most as many requests per second",
        ),
        rps(
            "rps_p50",
            Statistic::Quantile(500_000),
            "the median of requests per second over windows",
        ),
        rps(
            "rps_p90",
            Statistic::Quantile(900_000),
            "90 % of windows had at most as many requests per second",
        ),
        MetricSpec::new("dropped", Unit::PerS, Direction::LowerIsBetter, Statistic::Count)
            .about("at a rate: requests that found a full queue"),
        rps("rps_goal", Statistic::Rate, "with auto-rps: the rate of arrivals at the end"),
    ],
    ..Spec::PLAIN
};

/// The quantiles of requests per second among [`SPEC`]'s metrics, in thousandths.
pub const RPS_QUANTILES: [u32; 3] = [200, 500, 900];
const DROPPED_PER_S: usize = RPS_QUANTILES.len();
const RPS_GOAL: usize = DROPPED_PER_S + 1;

const fn rps(name: &'static str, statistic: Statistic, about: &'static str) -> MetricSpec {
    MetricSpec::new(name, Unit::OpsPerS, Direction::HigherIsBetter, statistic).about(about)
}

/// The latencies recorded in this mode.
pub fn histograms(mode: Mode) -> &'static [Latency] {
    match mode {
        Mode::Pipe { .. } => &SPEC.histograms[..=WAKEUP],
        Mode::Saturate => &SPEC.histograms[..=REQUEST],
        Mode::Rate { .. } => SPEC.histograms,
    }
}

/// The metrics of a run in this mode.
pub fn metrics(mode: Mode) -> &'static [MetricSpec] {
    match mode {
        Mode::Pipe { .. } => &[],
        Mode::Rate { target_percent: Some(_), .. } => SPEC.metrics,
        Mode::Rate { .. } => &SPEC.metrics[..RPS_GOAL],
        Mode::Saturate => &SPEC.metrics[..DROPPED_PER_S],
    }
}
