//! The words of the plan format that belong to no workload and no knob, and its limits.
//! Flat tables; the parser and the JSON Schema both derive from them.

use crate::model::{
    Claim, CpuClocks, Field, Kind, MemoryPlacement, OFF, OUTPUT_UNITS, Params, ProbeSpec,
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

pub const MEASURE: &[Field] = &[
    Field {
        name: "rounds",
        kind: Kind::Int { min: 1, max: 100_000 },
        default: Some("10"),
        about: "passes over all cells; each gives one sample per cell",
    },
    Field {
        name: "duration",
        kind: Kind::Duration { min_ns: 10 * MS, max_ns: 24 * HOUR },
        default: Some("5s"),
        about: "measured time of one run",
    },
    Field {
        name: "warmup",
        kind: Kind::Duration { min_ns: 0, max_ns: 24 * HOUR },
        default: Some("1s"),
        about: "time before it in which workers run and nothing counts",
    },
    Field {
        name: "window",
        kind: Kind::Duration { min_ns: 10 * MS, max_ns: 24 * HOUR },
        default: Some("1s"),
        about: "reporting interval inside a run; the default yields to a shorter duration",
    },
    Field {
        name: "seed",
        kind: Kind::Int { min: 0, max: i64::MAX },
        default: Some("1"),
        about: "shuffles the order of cells and seeds what workers draw",
    },
    Field {
        name: "budget",
        kind: Kind::Duration { min_ns: S, max_ns: 720 * HOUR },
        default: None,
        about: "no further round begins that would end after this; no limit unless given",
    },
    Field {
        name: "until-decided",
        kind: Kind::Bool,
        default: Some("false"),
        about: "measure each workload until its headline metrics have their verdicts, in `rounds` \
                at most, 1000 unless given; needs a budget",
    },
    Field {
        name: "repeat-spoilt",
        kind: Kind::Bool,
        default: Some("true"),
        about: "measure a workload's round again if load from outside or steal spoilt a run of it",
    },
    Field {
        name: "turns",
        kind: Kind::Duration { min_ns: MIN_TURNS_NS, max_ns: MAX_TURNS_NS },
        default: None,
        about: "variants take turns of this length inside one run, `duration` of each, where all knobs \
                that differ can change on a running thread; separate runs unless given",
    },
    Field {
        name: "grace",
        kind: Kind::Duration { min_ns: 100 * MS, max_ns: 24 * HOUR },
        default: Some("30s"),
        about: "a run that has not ended this long after its time is killed and failed",
    },
];

/// For all workloads in `[placement]`, for one in its own table. A list is an axis.
pub const LLCS: Field = Field {
    name: "llcs",
    kind: Kind::Int { min: 1, max: 1024 },
    default: None,
    about: "workers run on the CPUs of the first so many last-level caches alone; a list is an axis",
};

pub const PLACEMENT: &[Field] = &[
    Field {
        name: "cpus",
        kind: Kind::Cpus,
        default: None,
        about: "the CPUs that workers may use; all of the pool, or all that the process may use, \
                unless given",
    },
    Field {
        name: "pool",
        kind: Kind::PoolName,
        default: None,
        about: "the cpuset that runs are put into: one that is there and has these CPUs, or one \
                made for each run",
    },
    Field {
        name: "memory",
        kind: Kind::Choice(MemoryPlacement::WORDS),
        default: Some("kernel"),
        about: "where workers' pages lie: as the kernel does it, or spread over the NUMA nodes of \
                the CPUs",
    },
    LLCS,
];

/// The fields of `[lab]`. A test compares the defaults with [`crate::model::Lab`]. A measured machine
/// provides some of the values.
pub const LAB: &[Field] = &[
    Field {
        name: "kernel",
        kind: Kind::Text,
        default: Some("debian:6.18"),
        about: "of variants that name none: one of schedlab kernel list, or a bzImage",
    },
    Field {
        name: "kernel-args",
        kind: Kind::Text,
        default: None,
        about: "words for every kernel's command line: preempt=none; a variant's own follow them",
    },
    Field {
        name: "cpus",
        kind: Kind::Int { min: 1, max: 64 },
        default: Some("4"),
        about: "virtual CPUs of each guest",
    },
    Field {
        name: "sockets",
        kind: Kind::Int { min: 1, max: 8 },
        default: Some("1"),
        about: "sockets that the CPUs are spread over",
    },
    Field {
        name: "llcs",
        kind: Kind::Int { min: 1, max: 32 },
        default: Some("1"),
        about: "last-level caches of the machine: at least one for each socket",
    },
    Field {
        name: "nodes",
        kind: Kind::Int { min: 1, max: 8 },
        default: Some("1"),
        about: "NUMA nodes that CPUs and memory are spread over",
    },
    Field {
        name: "memory",
        kind: Kind::Size { min_bytes: 128 << 20, max_bytes: 64 << 30 },
        default: Some("512MiB"),
        about: "memory of each guest",
    },
    Field {
        name: "speed",
        kind: Kind::Picoseconds { min_ps: 250, max_ps: 8000 },
        default: Some("0.5ns"),
        about: "virtual time of one instruction",
    },
    Field {
        name: "clocks",
        kind: Kind::Choice(CpuClocks::WORDS),
        default: Some("own"),
        about: "each virtual CPU has a clock of its own and runs at its full speed, or all share \
                one and its speed; a shared one takes 1, 2, 4 or 8 ns an instruction",
    },
    Field {
        name: "skew",
        kind: Kind::Duration { min_ns: 50, max_ns: 100_000 },
        default: Some("500ns"),
        about: "how far a virtual CPU may run ahead of the next one: less is slower, and with \
                more than a microsecond one may see what another has not yet done",
    },
    Field {
        name: "burn",
        kind: Kind::Choice(&["skipped", "executed"]),
        default: Some("skipped"),
        about: "work that is given as a time only moves a CPU's clock on, or is executed as on a host",
    },
    Field {
        name: "seeds",
        kind: Kind::Int { min: 1, max: 100_000 },
        default: Some("8"),
        about: "trajectories of each cell, in place of rounds",
    },
    Field {
        name: "machine",
        kind: Kind::Text,
        default: None,
        about: "a machine that `schedlab twin` measured: a file next to the plan, or `twin`, this \
                one; what this section leaves out is taken from it",
    },
];

const US: u64 = 1_000;

/// `[lab.model]`: the properties of a real machine that are added to virtual time.
pub const LAB_MODEL: &[Field] = &[
    Field {
        name: "idle-exit",
        kind: Kind::DurationOrOff { max_ns: 10 * MS },
        default: Some(OFF),
        about: "from an interrupt to the first instruction of a CPU that was idle",
    },
    Field {
        name: "idle-exit-short",
        kind: Kind::DurationOrOff { max_ns: 10 * MS },
        default: None,
        about: "of a CPU that was idle for less than `idle-short`; as idle-exit unless given",
    },
    Field {
        name: "idle-short",
        kind: Kind::Duration { min_ns: US, max_ns: 1000 * MS },
        default: Some("200us"),
        about: "an idling that is shorter than this ends with `idle-exit-short`",
    },
    Field {
        name: "ipi-near",
        kind: Kind::DurationOrOff { max_ns: MS },
        default: Some(OFF),
        about: "what an interrupt takes to another CPU of the same last-level cache",
    },
    Field {
        name: "ipi-far",
        kind: Kind::DurationOrOff { max_ns: MS },
        default: None,
        about: "what an interrupt takes to a CPU of another last-level cache; as ipi-near unless given",
    },
    Field {
        name: "migration-cost",
        kind: Kind::DurationOrOff { max_ns: 10 * MS },
        default: Some(OFF),
        about: "what a worker loses with its first work in another last-level cache",
    },
    Field {
        name: "timer-slack",
        kind: Kind::DurationOrOff { max_ns: 100_000 * US },
        default: Some(OFF),
        about: "of workers without the knob of this name; off: what the kernel leaves to \
                them",
    },
    Field {
        name: "slowdown",
        kind: Kind::Percent { min: 0.0, max: MAX_SLOWDOWN },
        default: Some(NONE),
        about: "work that is given as a time takes so much longer than on a CPU at full speed",
    },
    Field {
        name: "jitter",
        kind: Kind::Percent { min: 0.0, max: MAX_JITTER },
        default: Some(NONE),
        about: "each piece of such work takes up to so much more or less",
    },
];

const NONE: &str = "0%";
pub const MAX_SLOWDOWN: f64 = 900.0;
/// No work takes no time.
pub const MAX_JITTER: f64 = 90.0;

/// `[report]`, where a plan may name these formats.
pub const fn report(formats: &'static [&'static str]) -> [Field; 1] {
    [Field {
        name: "format",
        kind: Kind::Choice(formats),
        default: None,
        about: "how the plan is reported where the command line does not say; text unless given",
    }]
}

/// The maximum of `count`.
pub const MAX_COUNT: i64 = 100_000;

/// The values of `workers`.
pub const WORKERS: Kind = Kind::Choice(&["threads", "processes", "guests", "guests-or-processes"]);

/// The fields of every table that describes worker sets, in addition to a workload's own parameters.
pub const SET: &[Field] = &[
    Field {
        name: "count",
        kind: Kind::Int { min: 1, max: MAX_COUNT },
        default: Some("1"),
        about: "how many times the set has its workers",
    },
    Field {
        name: "load",
        kind: Kind::Times { max: MAX_COUNT as f64 },
        default: None,
        about: "in place of count: so many times the CPUs of the pool, to the nearest, at least 1",
    },
    Field {
        name: "workers",
        kind: WORKERS,
        default: Some("threads"),
        about: "what a worker is; guests: virtual machines of Xen; guests-or-processes: guests under Xen, \
                processes under other kernels",
    },
    Field {
        name: AT,
        kind: Kind::Duration { min_ns: 0, max_ns: 24 * HOUR },
        default: None,
        about: "its workers sleep until so long after the begin of the measured section; unless \
                given they run from the warm-up on",
    },
    Field {
        name: FOR,
        kind: Kind::Duration { min_ns: MS, max_ns: 24 * HOUR },
        default: None,
        about: "its workers stop so long after they began (`at`, else 0s); to the end unless given",
    },
    Field {
        name: OPS,
        kind: Kind::Int { min: 1, max: 1_000_000_000_000 },
        default: None,
        about: "a burst: each worker does so many operations once, from `at`, else 0s, on; its \
                metric is `time`",
    },
];

/// The fields of [`SET`] that say when its workers run.
pub const AT: &str = "at";
pub const FOR: &str = "for";
pub const OPS: &str = "ops";

/// The fields of `[[expect]]`, in addition to its texts.
pub const EXPECT: &[Field] = &[
    Field {
        name: "is",
        kind: Kind::Choice(Claim::WORDS),
        default: None,
        about: "what the verdict on the metric is to be, against the baseline",
    },
    Field {
        name: "from",
        kind: Kind::Times { max: 1000.0 },
        default: None,
        about: "in place of `is`: the ratio to the baseline is at least this, with its whole interval",
    },
    Field {
        name: "to",
        kind: Kind::Times { max: 1000.0 },
        default: None,
        about: "in place of `is`: the ratio to the baseline is at most this, with its whole interval",
    },
];

/// The fields of `[[workload]]`, in addition to those of its sets.
pub const WORKLOAD: &[Field] = &[
    Field {
        name: "solo",
        kind: Kind::Bool,
        default: Some("false"),
        about: "adds before it a run of each set alone, one of it: what fairness is computed from",
    },
    LLCS,
];

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
    Field { name, kind: Kind::Text, default: None, about }
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
pub const WORKLOAD_KEYS: &[&str] = &["name", "use", "knobs", CGROUP, CHANGE, "set", "background"];

/// In a table of a workload that runs programs: how to read a metric from their output.
pub const OUTPUT: &[Field] = &[
    Field {
        name: "pattern",
        kind: Kind::Text,
        default: None,
        about: "a regular expression that matches once in the output of an execution; its first \
                group, else all of it, is the number",
    },
    Field {
        name: "json",
        kind: Kind::Text,
        default: None,
        about: "in place of a pattern: the path of the number in the last JSON document that \
                begins a line of the output and has it, as /jobs/0/rate",
    },
    Field { name: "unit", kind: Kind::Choice(&UNITS), default: None, about: "what is printed" },
    Field {
        name: "better",
        kind: Kind::Choice(BETTER),
        default: None,
        about: "which of two numbers is the better one",
    },
    Field {
        name: "headline",
        kind: Kind::Bool,
        default: Some("true"),
        about: "whether it is one of those that are judged first; then `time` is none",
    },
];

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
    Field { name: distribution, kind: Kind::Text, default: None, about }
}

/// In a table of a workload that runs programs: the values of `{NAME}`.
pub const PARAMETERS: &str = "parameters";

/// The table of a plan's cgroups, and the key by which a worker set names one.
pub const CGROUP: &str = "cgroup";

/// The tables of changes in mid-run, of a worker set and of a cgroup.
pub const CHANGE: &str = "change";
/// Changes of one worker set or cgroup.
pub const MAX_CHANGES: usize = 100;

pub const CHANGE_AT: Field = Field {
    name: AT,
    kind: Kind::Duration { min_ns: 0, max_ns: 24 * HOUR },
    default: None,
    about: "when it happens: so long after the begin of the measured section",
};

/// The setting of a cgroup that is not also a knob.
pub const CGROUP_CPUS: Field = Field {
    name: "cpus",
    kind: Kind::Cpus,
    default: None,
    about: "its workers use these CPUs alone",
};

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
