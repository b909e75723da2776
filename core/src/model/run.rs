//! The input and the result of one run: plain data, also on the wire between schedlab and its runner (a child
//! process here, the agent in a lab guest).
//!
//! Times are nanoseconds of the monotonic clock; `_at_ns` counts from the start barrier.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::knob::legacy_pool_cpus;
use super::metric::WrittenMetric;
use super::{
    Cell, CgroupPath, CpuSet, Disturbance, Guest, KnobReading, Metric, Reading, RunModel, Trace,
    Turns,
};

/// The version of [`RunSpec`] and [`RunnerMessage`], checked at both ends.
pub const WIRE_VERSION: u32 = 3;
/// A longer line, sent or stored, cannot be schedlab's: 100,000 workers take 25 MB.
pub const MAX_LINE_BYTES: u64 = 128 << 20;

/// Everything a runner needs, as one line of JSON on its standard input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    pub wire: u32,
    pub cell: Cell,
    pub warmup_ns: u64,
    pub duration_ns: u64,
    pub window_ns: u64,
    /// The runner ends by itself a little after this, whatever its threads do.
    pub limit_ns: u64,
    /// The seed of the workers' draws: arrivals, offsets. The same for all variants of a round.
    pub seed: u64,
    /// Names of probes.
    #[serde(default)]
    pub probes: Vec<String>,
    /// The time that a thousand operations take here at full speed; `None`: whoever executes the run measures it,
    /// if work is given as a time.
    #[serde(default)]
    pub kop_ps: Option<u64>,
    /// Work of a time is executed also where it need not be.
    #[serde(default)]
    pub executed: bool,
    /// Delays of a real machine that workers add: in the lab alone.
    #[serde(default)]
    pub model: RunModel,
    /// When the start barrier opens, by the wall clock; `None`: as soon as all workers are there. Guests of
    /// one Xen have one wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_unix_ns: Option<u64>,
    /// The cgroups of the work's sets. Whoever makes them fills it in.
    #[serde(default, skip_serializing_if = "RunCgroups::is_empty")]
    pub cgroups: RunCgroups,
    /// The variants that take turns; the cell's own has the knobs that are the same in all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
}

impl RunSpec {
    /// A run of `cell` that has no time, seed or probes yet.
    pub fn new(cell: Cell) -> RunSpec {
        RunSpec { wire: WIRE_VERSION, cell, ..RunSpec::default() }
    }
}

/// The files of the cgroups that were made for the sets of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunCgroups {
    /// For each cgroup the files to which a thread is written to join it.
    pub joins: BTreeMap<CgroupPath, Vec<PathBuf>>,
    /// Changes in mid-run, those of one moment in the order in which they are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<CgroupWrite>,
}

impl RunCgroups {
    fn is_empty(&self) -> bool {
        self.joins.is_empty()
    }
}

/// One setting of a cgroup, written in mid-run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CgroupWrite {
    /// The time since the begin of the measured section.
    pub at_ns: u64,
    pub cgroup: CgroupPath,
    /// `weight`, as in the cgroup's table.
    pub setting: String,
    /// The files to write in this order, and their texts.
    pub files: Vec<(PathBuf, String)>,
}

impl CgroupWrite {
    /// The setting that says which CPUs its workers use.
    pub const CPUS: &str = "cpus";
}

/// The messages of a runner, one line of JSON each on its standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunnerMessage {
    /// A runner that was started before its run waits for it.
    Waiting,
    /// All workers have started and passed the barrier.
    Started {
        wire: u32,
        workers: u32,
    },
    Window(Window),
    /// The last line of a run that was measured.
    Done(Box<RunResult>),
    /// The last line of one that was not.
    Failed {
        reason: String,
        /// The host ended a part of it.
        #[serde(default)]
        is_of_host: bool,
    },
}

/// One reporting interval: the work of each worker in it, in worker order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub index: u32,
    pub workers: Vec<WorkerWindow>,
}

/// One worker in one window. A worker is read at its own moment, so that a controller
/// that the scheduler delays between two workers does not falsify the second's rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerWindow {
    /// When the worker was read, since the start barrier.
    pub end_at_ns: u64,
    /// Since the worker's previous reading, or the begin of its set's phase; 0: it was not active.
    pub wall_ns: u64,
    pub ops: u64,
    pub cpu_ns: u64,
    /// The largest delay that the worker saw in this window; 0 where it measures none.
    pub peak_ns: u64,
}

/// One worker through the windows of a run, warm-up included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerWindows {
    pub set: String,
    pub role: String,
    pub windows: Vec<WorkerWindow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct RunResult {
    /// Wall clock at the start barrier, for people; nothing is computed from it.
    pub started_unix_ns: u64,
    pub measured_ns: u64,
    pub sets: Vec<SetResult>,
    /// The value that each knob read back as, where it can be read.
    pub knobs: Vec<KnobReading>,
    pub disturbances: Vec<Disturbance>,
    /// The guest that it was made in; `None`: it was made on this machine, without a guest.
    pub guest: Option<Guest>,
    /// The CPUs of the pool, where the plan names one.
    pub pool_cpus: Option<CpuSet>,
    /// CPU time of everything that is not the workload: the measuring thread, and schedlab
    /// itself with its store and its progress.
    pub overhead_cpu_ns: Reading<u64>,
    /// The results of a run in turns, until [`RunResult::by_variant`] divides it: nothing stores it like this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_turns: Vec<VariantResult>,
    /// The scheduler's actions, where [`TRACE_PROBE`] recorded them: nothing stores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<Trace>>,
}

/// Events of older versions have the guest, and the CPUs of the pool, among the knobs.
impl<'de> Deserialize<'de> for RunResult {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RunResult, D::Error> {
        let mut result = RunResult::deserialize(from)?;
        result.guest = result.guest.or_else(|| Guest::take_legacy(&mut result.knobs));
        result.pool_cpus = result.pool_cpus.or_else(|| legacy_pool_cpus(&result.knobs));
        Ok(result)
    }
}

impl Serialize for RunResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        RunResult::serialize(self, to)
    }
}

/// The result of one variant of a run in turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantResult {
    /// The time in its blocks that counts.
    pub measured_ns: u64,
    pub sets: Vec<SetResult>,
    pub knobs: Vec<KnobReading>,
    pub disturbances: Vec<Disturbance>,
}

impl RunResult {
    /// The results of sets, of which nothing else is known.
    pub fn new(measured_ns: u64, sets: Vec<SetResult>, overhead_cpu_ns: Reading<u64>) -> RunResult {
        RunResult {
            started_unix_ns: 0,
            measured_ns,
            sets,
            knobs: Vec::new(),
            disturbances: Vec::new(),
            guest: None,
            pool_cpus: None,
            overhead_cpu_ns,
            in_turns: Vec::new(),
            trace: None,
        }
    }

    /// A result for each variant of a run in turns, as if each had had a run of its own. What was seen from outside
    /// of the workers is of all of them. One result of any other run.
    pub fn by_variant(mut self) -> Vec<RunResult> {
        let variants = std::mem::take(&mut self.in_turns);
        if variants.is_empty() {
            return vec![self];
        }
        let share = variants.len() as u64;
        if let Reading::Known(overhead_ns) = &mut self.overhead_cpu_ns {
            *overhead_ns /= share;
        }
        let divided = |own: VariantResult| {
            let mut result =
                RunResult { measured_ns: own.measured_ns, sets: own.sets, ..self.clone() };
            result.knobs.extend(own.knobs);
            result.disturbances.extend(own.disturbances);
            result
        };
        variants.into_iter().map(divided).collect()
    }
}

impl Outcome {
    /// Whether load from outside spoilt the run.
    pub fn is_spoilt(&self) -> bool {
        let Outcome::Done { result } = self else { return false };
        super::is_spoilt(result.disturbances.iter().map(|found| (found.kind(), found.share)))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenSet")]
pub struct SetResult {
    pub name: String,
    pub workload: String,
    /// The name of its operations, in the plural (`requests`): the unit of its throughput.
    pub ops: String,
    pub background: bool,
    pub metrics: Vec<Metric>,
    pub histograms: Vec<NamedHistogram>,
    pub workers: Vec<WorkerResult>,
    /// The programs of a set that runs some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramRecord>,
}

/// The record of the programs that a set ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRecord {
    /// The output of the command for it; `None`: there is no such command.
    pub version: Option<String>,
    /// The end of the output of each worker's last execution, one after the other.
    pub output: String,
}

/// A set as events of any version have it: kinds of old metrics depend on the workload.
#[derive(Deserialize)]
struct WrittenSet {
    name: String,
    workload: String,
    ops: String,
    background: bool,
    metrics: Vec<WrittenMetric>,
    histograms: Vec<NamedHistogram>,
    workers: Vec<WorkerResult>,
    #[serde(default)]
    program: Option<ProgramRecord>,
}

impl From<WrittenSet> for SetResult {
    fn from(written: WrittenSet) -> SetResult {
        let WrittenSet { name, workload, ops, background, histograms, workers, program, .. } =
            written;
        let metrics =
            written.metrics.into_iter().map(|metric| metric.of_workload(&workload)).collect();
        SetResult { name, workload, ops, background, metrics, histograms, workers, program }
    }
}

/// Sparse counts of a latency histogram: ascending values in ns, each with its count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedHistogram {
    pub name: String,
    pub counts: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerResult {
    pub role: String,
    pub tid: i32,
    /// Operations in the measured section, as `wall_ns` and `cpu_ns`.
    pub ops: u64,
    pub wall_ns: u64,
    pub cpu_ns: u64,
    /// The time that the counts below cover: from the barrier, warm-up included, to just after the measured
    /// section. They come from procfs, which is too slow to be read inside it. For a set with a phase: as
    /// `wall_ns`.
    pub counted_wall_ns: u64,
    pub voluntary_switches: Reading<u64>,
    pub involuntary_switches: Reading<u64>,
    pub migrations: Reading<u64>,
    pub run_queue_wait_ns: Reading<u64>,
}

/// In the reason of a failed run, before each kind of what disturbed it.
pub const MEANWHILE: &str = "; meanwhile: ";

/// The end of a run. Only these three are stored; an interrupted run is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    Done {
        result: Box<RunResult>,
    },
    /// It ran and gave no result that can be used. Its disturbances stand behind [`MEANWHILE`].
    Failed {
        reason: String,
    },
    /// It cannot run here; nothing was started.
    Skipped {
        reason: String,
    },
}

/// How an ordered run ended.
#[derive(Debug)]
pub enum RunEnd {
    Finished(Outcome),
    /// The host ended it, or had no room for it: no result, to be run again.
    HostEnded {
        reason: String,
    },
    /// It was cancelled: no result, to be run again.
    Interrupted,
}
