//! The words of the plan format that belong to no workload and no knob, and its limits.
//! Flat tables; the parser and the JSON Schema both derive from them.

use crate::model::{
    Claim, CpuClocks, Field, Kind, MemoryPlacement, OFF, OUTPUT_UNITS, Params, ProbeSpec, fields,
};
use crate::variant;
use crate::workload::{self, Workload};

/// More cells than this is a typing error: at a second each, one round takes a day.
pub const MAX_CELLS: u64 = 100_000;
pub const MAX_RUNS: u64 = 10_000_000;
/// Workers of one cell, in all its worker sets together.
pub const MAX_WORKERS: usize = 100_000;
/// Cgroups of one plan.
pub const MAX_CGROUPS: usize = 64;
/// Worker sets of one workload, background sets included.
pub const MAX_SETS: usize = 256;
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Rounds of a plan that is measured until it is decided and gives no number.
pub const MAX_DECIDING_ROUNDS: u32 = 1_000;
pub const MAX_NAME_CHARS: usize = 64;
pub const MAX_TITLE_CHARS: usize = 200;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * S;

/// A shorter block could be less than a tick of a kernel with 100 Hz.
pub const MIN_TURNS_NS: u64 = 10 * MS;
pub const MAX_TURNS_NS: u64 = HOUR;

pub const MEASURE: &[Field] = fields! {
    "rounds": Kind::Int { min: 1, max: 100_000 }, "10" =>
        "passes over all cells; each gives one sample per cell";
    "duration": DURATION, "5s" => "measured time of one run";
    "warmup": Kind::Duration { min_ns: 0, max_ns: 24 * HOUR }, "1s" =>
        "time before it in which workers run and nothing counts";
    "window": Kind::Duration { min_ns: 10 * MS, max_ns: 24 * HOUR }, "1s" =>
        "reporting interval inside a run; the default yields to a shorter duration";
    "seed": Kind::Int { min: 0, max: i64::MAX }, "1" =>
        "shuffles the order of cells and seeds what workers draw";
    "budget": Kind::Duration { min_ns: S, max_ns: 720 * HOUR } =>
        "no further round begins that would end after this; no limit unless given";
    "until-decided": Kind::Bool, "false" =>
        "measure each workload until its headline metrics have their verdicts, in `rounds` at \
         most, 1000 unless given; needs a budget, which is 2 min in the lab unless given";
    "repeat-spoilt": Kind::Bool, "true" =>
        "measure a workload's round again if load from outside or steal spoilt a run of it";
    "turns": Kind::Duration { min_ns: MIN_TURNS_NS, max_ns: MAX_TURNS_NS } =>
        "variants take turns of this length inside one run, `duration` of each, where all knobs \
         that differ can change on a running thread; separate runs unless given";
    "grace": Kind::Duration { min_ns: 100 * MS, max_ns: 24 * HOUR }, "30s" =>
        "a run that has not ended this long after its time is killed and failed";
};

/// For all workloads in `[placement]`, for one in its own table. A list is an axis.
pub const LLCS: Field = Field::new("llcs", Kind::Int { min: 1, max: 1024 }).about(
    "workers run on the CPUs of the first so many last-level caches alone; a list is an axis",
);

pub const PLACEMENT: &[Field] = &[
    Field::new("cpus", Kind::Cpus).about(
        "the CPUs that workers may use; all of the pool, or all that the process may \
         use, unless given",
    ),
    Field::new("pool", Kind::PoolName).about(
        "the cpuset that runs are put into: one that is there and has these CPUs, or \
         one made for each run",
    ),
    Field::new("memory", Kind::Choice(MemoryPlacement::WORDS))
        .about(
            "where workers' pages lie: as the kernel does it, or spread over the NUMA nodes \
             of the CPUs",
        )
        .default("kernel"),
    LLCS,
];

/// The fields of `[lab]`. A test compares the defaults with [`crate::model::Lab`]. A measured machine
/// provides some of the values.
pub const LAB: &[Field] = fields! {
    "kernel": Kind::Text, "debian:6.18" =>
        "of variants that name none: one of schedlab kernel list, or a bzImage";
    "kernel-args": Kind::Text =>
        "words for every kernel's command line: preempt=none; a variant's own follow them";
    "cpus": Kind::Int { min: 1, max: 64 }, "4" => "virtual CPUs of each guest";
    "sockets": Kind::Int { min: 1, max: 8 }, "1" => "sockets that the CPUs are spread over";
    "llcs": Kind::Int { min: 1, max: 32 }, "1" =>
        "last-level caches of the machine: at least one for each socket";
    "threads": Kind::Int { min: 1, max: 8 }, "1" =>
        "SMT siblings of each core; each of them runs at its full speed";
    "nodes": Kind::Int { min: 1, max: 8 }, "1" => "NUMA nodes that CPUs and memory are spread over";
    "node-distance": Kind::Int { min: 11, max: 254 } =>
        "distance between two nodes, where each is 10 from itself; 20 for kernels unless given; \
         above 30 no task moves between them when it begins or wakes";
    "memory": Kind::Size { min_bytes: 128 << 20, max_bytes: 64 << 30 }, "512MiB" =>
        "memory of each guest";
    "speed": Kind::Picoseconds { min_ps: 250, max_ps: 8000 }, "0.5ns" =>
        "virtual time of one instruction";
    "clocks": Kind::Choice(CpuClocks::WORDS), "own" =>
        "each virtual CPU has a clock of its own and runs at its full speed, or all share one and \
         its speed; a shared one takes 1, 2, 4 or 8 ns an instruction";
    "skew": Kind::Duration { min_ns: 50, max_ns: 100_000 }, "500ns" =>
        "how far a virtual CPU may run ahead of the next one: less is slower, and with more than a \
         microsecond one may see what another has not yet done";
    "burn": Kind::Choice(&["skipped", "executed"]), "skipped" =>
        "work that is given as a time only moves a CPU's clock on, or is executed as on a host";
    "seeds": Kind::Int { min: 1, max: 100_000 }, "8" =>
        "trajectories of each cell, in place of rounds";
    "machine": Kind::Text =>
        "a machine that `schedlab twin` measured: a file next to the plan, or `twin`, this one; \
         what this section leaves out is taken from it";
};

const US: u64 = 1_000;

/// `[lab.model]`: the properties of a real machine that are added to virtual time.
pub const LAB_MODEL: &[Field] = fields! {
    "idle-exit": Kind::DurationOrOff { max_ns: 10 * MS }, OFF =>
        "from an interrupt to the first instruction of a CPU that was idle";
    "idle-exit-short": Kind::DurationOrOff { max_ns: 10 * MS } =>
        "of a CPU that was idle for less than `idle-short`; as idle-exit unless given";
    "idle-short": Kind::Duration { min_ns: US, max_ns: 1000 * MS }, "200us" =>
        "an idling that is shorter than this ends with `idle-exit-short`";
    "ipi-near": Kind::DurationOrOff { max_ns: MS }, OFF =>
        "what an interrupt takes to another CPU of the same last-level cache";
    "ipi-far": Kind::DurationOrOff { max_ns: MS } =>
        "what an interrupt takes to a CPU of another last-level cache; as ipi-near unless given";
    "migration-cost": Kind::DurationOrOff { max_ns: 10 * MS }, OFF =>
        "what a worker loses with its first work in another last-level cache";
    "timer-slack": Kind::DurationOrOff { max_ns: 100_000 * US }, OFF =>
        "of workers without the knob of this name; off: what the kernel leaves to them";
    "slowdown": Kind::Percent { min: 0.0, max: MAX_SLOWDOWN }, NONE =>
        "work that is given as a time takes so much longer than on a CPU at full speed";
    "jitter": Kind::Percent { min: 0.0, max: MAX_JITTER }, NONE =>
        "each piece of such work takes up to so much more or less";
};

const NONE: &str = "0%";
pub const MAX_SLOWDOWN: f64 = 900.0;
/// No work takes no time.
pub const MAX_JITTER: f64 = 90.0;

/// `[report]`, where a plan may name these formats.
pub const fn report(formats: &'static [&'static str]) -> [Field; 1] {
    [Field::new("format", Kind::Choice(formats))
        .about("how the plan is reported where the command line does not say; text unless given")]
}

/// The maximum of `count`.
pub const MAX_COUNT: i64 = 100_000;

/// The values of `workers`.
pub const WORKERS: Kind = Kind::Choice(&["threads", "processes", "guests", "guests-or-processes"]);

/// The fields of every table that describes worker sets, in addition to a workload's own parameters.
pub const SET: &[Field] = fields! {
    "count": Kind::Int { min: 1, max: MAX_COUNT }, "1" => "how many times the set has its workers";
    "load": Kind::Times { max: MAX_COUNT as f64 } =>
        "in place of count: so many times the CPUs of the pool, to the nearest, at least 1";
    "workers": WORKERS, "threads" =>
        "what a worker is; guests: virtual machines of Xen; guests-or-processes: guests under Xen, \
         processes under other kernels";
    AT: Kind::Duration { min_ns: 0, max_ns: 24 * HOUR } =>
        "its workers sleep until so long after the begin of the measured section; unless given \
         they run from the warm-up on";
    FOR: Kind::Duration { min_ns: MS, max_ns: 24 * HOUR } =>
        "its workers stop so long after they began (`at`, else 0s); to the end unless given";
    OPS: Kind::Int { min: 1, max: 1_000_000_000_000 } =>
        "a burst: each worker does so many operations once, from `at`, else 0s, on; its metric is \
         `time`";
};

/// The fields of [`SET`] that say when its workers run.
pub const AT: &str = "at";
pub const FOR: &str = "for";
pub const OPS: &str = "ops";

/// The fields of `[[expect]]`, in addition to its texts.
pub const EXPECT: &[Field] = fields! {
    "is": Kind::Choice(Claim::WORDS) =>
        "what the verdict on the metric is to be, against the baseline";
    "from": Kind::Times { max: 1000.0 } =>
        "in place of `is`: the ratio to the baseline is at least this, with its whole interval";
    "to": Kind::Times { max: 1000.0 } =>
        "in place of `is`: the ratio to the baseline is at most this, with its whole interval";
};

/// The fields of `[[workload]]`, in addition to those of its sets.
pub const WORKLOAD: &[Field] = &[
    Field::new("solo", Kind::Bool)
        .about("adds before it a run of each set alone, one of it: what fairness is computed from")
        .default("false"),
    LLCS,
    OWN_DURATION,
    LAB_DURATION,
];

/// The length of a run.
const DURATION: Kind = Kind::Duration { min_ns: 10 * MS, max_ns: 24 * HOUR };

/// In [`WORKLOAD`].
pub const OWN_DURATION: Field = Field::new("duration", DURATION)
    .about("in place of that of [measure] for runs of this workload");
pub const LAB_DURATION: Field =
    Field::new("lab-duration", DURATION).about(
        "in place of `duration` in the lab, where a virtual second takes as long as what is executed in it",
    );

/// The fields of `[finding]`.
pub const FINDING: &[Field] = &[
    text_field("source", "a commit, a message's id or an address"),
    text_field("published", "the published figures, in a sentence"),
    text_field("load", "the load as published, and what was made of it here"),
    text_field("kernels", "with which it was found"),
    text_field("learned", "from what differs between the publication and here"),
    text_field("not-modelled", "why virtual time cannot show it; it is not run then"),
];
pub const REQUIRED_OF_FINDING: &[&str] = &["source", "published", "load"];

const fn text_field(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Text).about(about)
}

/// Keys of the top level, of `[[variant]]`, of a worker set and of `[[workload]]` that are not
/// fields. No knob and no parameter may have such a name; a test walks the registries.
pub const TOP_KEYS: &[&str] = &[
    "schema",
    "title",
    "measure",
    "variant",
    "workload",
    "placement",
    "report",
    "probes",
    "lab",
    "expect",
    "finding",
    CGROUP,
    PROGRAMS,
    SCALE,
];
/// Keys whose values are not tables.
pub const OF_TOP: [&str; 3] = ["schema", "title", "probes"];
pub const VARIANT_KEYS: &[&str] = &["name"];
pub const SET_KEYS: &[&str] = &["name", "use", "knobs", CGROUP, CHANGE];
pub const WORKLOAD_KEYS: &[&str] =
    &["name", "use", "knobs", CGROUP, CHANGE, OFFLINE, "set", "background"];

/// In a table of a workload that runs programs: how to read a metric from their output.
pub const OUTPUT: &[Field] = fields! {
    "pattern": Kind::Text =>
        "a regular expression that matches once in the output of an execution; its first group, \
         else all of it, is the number";
    "json": Kind::Text =>
        "in place of a pattern: the path of the number in the last JSON document that begins a \
         line of the output and has it, as /jobs/0/rate";
    "unit": Kind::Choice(&UNITS) => "what is printed";
    "better": Kind::Choice(BETTER) => "which of two numbers is the better one";
    "headline": Kind::Bool, "true" =>
        "whether it is one of those that are judged first; then `time` is none";
};

const BETTER: &[&str] = &["higher", "lower", "neither"];

const UNITS: [&str; OUTPUT_UNITS.len()] = {
    let mut words = [""; OUTPUT_UNITS.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = OUTPUT_UNITS[at].0;
        at += 1;
    }
    words
};

/// In a table of a workload that runs programs: the package that installs the program, or a table of packages.
pub const PACKAGE: &str = "package";

pub fn package_of(distribution: &'static str) -> Field {
    let about = "what it calls the package";
    Field::new(distribution, Kind::Text).about(about)
}

/// In a table of a workload that runs programs: the values of `{NAME}`.
pub const PARAMETERS: &str = "parameters";

/// The table of a plan's cgroups, and the key by which a worker set names one.
pub const CGROUP: &str = "cgroup";

/// The tables of changes in mid-run, of a worker set and of a cgroup.
pub const CHANGE: &str = "change";
/// Changes of one worker set or cgroup.
pub const MAX_CHANGES: usize = 100;

pub const CHANGE_AT: Field = Field::new(AT, Kind::Duration { min_ns: 0, max_ns: 24 * HOUR })
    .about("when it happens: so long after the begin of the measured section");

/// A key of changes of worker sets.
pub const CHANGE_COUNT: Field = Field::new("count", Kind::Int { min: 1, max: MAX_COUNT })
    .about("how many of its workers there are from then on; the others sleep");

/// Tables of a workload: CPUs that are taken off in mid-run.
pub const OFFLINE: &str = "offline";

pub const OFFLINE_CPUS: Field = Field::new("cpus", Kind::Cpus)
    .about("no task has these CPUs, not CPU 0, by the kernel's hotplug: in the lab alone");

pub const OFFLINE_FOR: Field = Field::new(FOR, Kind::Duration { min_ns: MS, max_ns: 24 * HOUR })
    .about("they are put back so long after they were taken off; at the end unless given");

/// The setting of a cgroup that is not also a knob.
pub const CGROUP_CPUS: Field =
    Field::new("cpus", Kind::Cpus).about("its workers use these CPUs alone");

/// The fields of `[cgroup.NAME]`.
pub fn cgroup_fields() -> Vec<Field> {
    let mut fields = variant::cgroup_fields();
    fields.push(CGROUP_CPUS);
    fields
}

/// Names from the registries above this room that a plan may use; the caller passes them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    pub probes: &'static [&'static ProbeSpec],
    pub formats: &'static [&'static str],
}

/// The workload that runs programs.
pub const PROGRAM: &str = "command";
/// The table of a plan's own programs.
pub const PROGRAMS: &str = "program";
/// The table of a plan's changes for other sizes.
pub const SCALE: &str = "scale";
/// Each is read as a plan of its own.
pub const MAX_SCALES: usize = 16;
/// The ending of a program's name if the program does not come with schedlab.
pub const OWN_PROGRAM: &str = ".toml";

/// A program as data: the values in the table of a [`PROGRAM`], which a plan may replace.
#[derive(Debug, Clone)]
pub struct Program {
    /// The name for `use`.
    pub name: String,
    pub about: String,
    /// Values of the workload's parameters, `parameters` included.
    pub params: Params,
}

impl Program {
    /// The name of its work if the plan gives none: without the folder and the ending of a file.
    pub fn short_name(&self) -> &str {
        let file = self.name.rsplit('/').next().unwrap_or(&self.name);
        file.strip_suffix(OWN_PROGRAM).filter(|stem| !stem.is_empty()).unwrap_or(file)
    }
}

/// All names that a plan may use. Tests bring their own.
#[derive(Clone)]
pub struct Words {
    pub known: Known,
    pub knobs: Vec<Field>,
    /// The `knobs` that a worker set may have for itself.
    pub task_knobs: Vec<Field>,
    pub workloads: &'static [&'static dyn Workload],
    /// Other names of the workload `command`.
    pub programs: Vec<Program>,
    /// Names of programs that cannot be read, for which there are faults.
    pub refused: Vec<String>,
}

impl Words {
    pub fn registered(known: Known, programs: &[Program]) -> Self {
        Words {
            known,
            programs: programs.to_vec(),
            refused: Vec::new(),
            knobs: variant::fields(),
            task_knobs: variant::set_fields(),
            workloads: workload::registry(),
        }
    }

    pub fn workload(&self, name: &str) -> Option<&'static dyn Workload> {
        self.workloads.iter().copied().find(|workload| workload.spec().name == name)
    }

    pub fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.name == name)
    }
}

/// The names of `fields`.
pub fn names(fields: &[Field]) -> Vec<&'static str> {
    fields.iter().map(|field| field.name).collect()
}
