//! The words of schedlab as types: plans, cells, runs, metrics, events and the wire format.
//! No I/O: everything else imports this, this imports nothing.

mod advice;
mod agent;
mod cgroup;
mod checked_text;
mod clean;
mod coverage;
mod cpu_time;
mod cpuset;
mod disturbance;
mod environment;
mod event;
mod expect;
mod feature;
mod finding;
mod guest;
mod judged;
mod knob;
mod lab;
mod metric;
mod mistyped;
mod nodes;
mod output;
mod plan;
mod poolname;
mod probe;
pub mod protobuf;
mod run;
mod sample;
mod scheduler;
mod score;
mod sharding;
mod shared_cache;
mod shell;
mod spoilt;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trace;
mod turns;
mod twin;
mod value;
mod word_enum;

pub use advice::{Advice, Problem};
pub use agent::{
    EXIT_CODE, EXIT_PORT, EXIT_VALUE, FIRST_DOMAIN_CPU, GUEST_BOOT_FILE, GUEST_FILES_FILE,
    GUEST_INIT, GUEST_REHEARSAL_FILE, GUEST_SETTLE_NS, GUEST_SPEC_FILE, GUEST_WIRE, GuestBoot,
    GuestFacts, GuestMessage, GuestSize, GuestSpec, RESULTS_PORT, STOP_PORT, STOP_VALUE, XEN_GUEST,
};
pub use cgroup::{
    Cgroup, CgroupChange, CgroupPath, CgroupPathError, MAX_CGROUP_DEPTH, MAX_CGROUP_NAME_BYTES,
};
pub use clean::{
    clean, clean_lines, clean_on_one_line, clean_path, clean_start, is_active, replaced,
};
pub use coverage::{CodeRange, Coverage};
pub use cpu_time::{ABOVE_WALL, are_above_wall, is_above_wall};
pub use cpuset::{CpuSet, CpuSetError, MAX_CPU};
pub use disturbance::{
    CpuTimeOf, Disturbance, DisturbanceFact, DisturbanceKind, Interference, MissedSource,
    OtherProcesses, SettingChange, Throttled, ThrottledPart,
};
pub use environment::{Calibration, Environment, Topology};
pub use event::{EVENT_SCHEMA, Event, PlanEnd, PlanStarted};
pub use expect::{Claim, Expectation};
pub use feature::MissingFeature;
pub use finding::Finding;
pub use guest::{Guest, GuestKernel, GuestTime, GuestTimes};
pub use judged::{Judged, MARGIN, MARGIN_PARTS};
pub use knob::{KnobReading, legacy_pool_cpus};
pub use lab::{CpuClocks, FidelityClass, Lab, LabModel, Migration, RunModel, ShortIdle, Stretch};
pub use metric::{Direction, Importance, Metric, MetricKind, MetricSpec, Reading, Statistic, Unit};
pub use mistyped::mistyped;
pub use nodes::{json_nodes, json_objects};
pub use output::{OUTPUT_UNITS, OutputMetric, OutputPlace};
pub use plan::{
    Cell, LookRule, Measure, MemoryPlacement, Offline, PLAN_SCHEMA, Phase, Placement, Plan, RunKey,
    SOLO, SetChange, Variant, Work, WorkerKind, WorkerSet, cgroup_of_step, merged_knobs, solo_name,
    solo_names,
};
pub use poolname::{MAX_POOL_NAME_BYTES, PoolName, PoolNameError};
pub use probe::{
    CPUS, INVOLUNTARY, OTHER_TASKS, PREEMPTED_BY, ProbeMetric, ProbeSpec, QUEUE_WAIT, SCHED_PROBES,
    SLICE, Scope, TRACE_PROBE, VOLUNTARY, WAITED_FOR, partner, role_in_metrics,
};
pub use run::{
    CgroupWrite, MAX_LINE_BYTES, MEANWHILE, NamedHistogram, Outcome, ProgramRecord, RunCgroups,
    RunEnd, RunResult, RunSpec, RunnerMessage, SetResult, VariantResult, WIRE_VERSION, Window,
    WorkerResult, WorkerWindow, WorkerWindows,
};
pub use sample::{
    EnvironmentHead, PlanHead, Progress, RunCounts, SampledMetric, SampledPlan, SampledPool,
    SampledRun, SampledVersion, SampledWorker, Unmeasured, place_of,
};
pub use scheduler::{Heeded, OWN_SCHEDULERS, SCHED_EXT};
pub use score::{
    Balance, Bucket, CpuScore, Distances, DomainScore, IDLE, INTERRUPT, Migrations, OTHER,
    PairKind, PairScore, ProbeCost, SavedScore, Score, ScoreHead, TaskScore, Times, Turn, Watched,
    WorstWait, task_name,
};
pub use sharding::{Cut, Division, MAX_PARTS, MissingPart, Shard, Sharding};
pub use shared_cache::{CacheUrl, CacheUrlError, SharedCache};
pub use shell::quoted;
pub use spoilt::{
    CountedRounds, RoundLimits, SPOILT_BY_LOAD, SPOILT_BY_STEAL, WorkRounds, is_spoilt,
};
pub use trace::{
    Clocks, Kernel, Left, Message, Running, Trace, TraceEvent, TraceTask, TraceWhat, TracedTask,
    Waker,
};
pub use turns::Turns;
#[cfg(any(test, feature = "testing"))]
pub use twin::testing as twin_testing;
pub use twin::{COSTS, Cost, Spread, TWIN_VERSION, Twin, TwinError, TwinTopology};
pub use value::{
    AUTO, Field, Kind, OFF, Params, Raw, Value, ValueError, duration_ns, fields, rounded_down,
    rounded_up, show_bytes, show_duration, size_bytes, times,
};
pub use word_enum::words;
