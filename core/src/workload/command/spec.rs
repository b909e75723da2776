//! The parameters and metrics of `command`. Plain data.

use crate::model::{Direction, Field, Importance, Kind, MetricSpec, Statistic, Unit};
use crate::workload::{Role, Spec};

const WORDS: Kind = Kind::List(&Kind::Word);

pub const SPEC: Spec = Spec {
    name: "command",
    about: "any program, executed until the run's duration is over, but at least once",
    params: &[
        Field {
            name: "command",
            kind: WORDS,
            default: None,
            about: "the program and its arguments, which no shell reads; {NAME} is the parameter of \
                    this name",
        },
        Field {
            name: "setup",
            kind: WORDS,
            default: None,
            about: "executed once, before the server is started",
        },
        Field {
            name: "server",
            kind: WORDS,
            default: None,
            about: "a program that goes on until all executions are over, then gets SIGTERM",
        },
        Field {
            name: "ready",
            kind: Kind::Text,
            default: None,
            about: "how the server shows that it is ready: tcp:PORT of 127.0.0.1, unix:PATH of a \
                    socket, or output:REGULAR EXPRESSION",
        },
        Field {
            name: "fill",
            kind: WORDS,
            default: None,
            about: "executed once, after the server is ready",
        },
        Field {
            name: "prepare",
            kind: WORDS,
            default: None,
            about: "executed before each execution, and not timed",
        },
        Field {
            name: "cleanup",
            kind: WORDS,
            default: None,
            about: "executed after the last execution",
        },
        Field {
            name: "version",
            kind: WORDS,
            default: None,
            about: "executed once: the first line that it writes is the program's version, kept with the results",
        },
        Field {
            name: "environment",
            kind: WORDS,
            default: None,
            about: "variables for all of these programs, NAME=VALUE each",
        },
        Field {
            name: "user",
            kind: Kind::Text,
            default: None,
            about: "who executes them where schedlab is root, in a folder of their own",
        },
        Field {
            name: "folders",
            kind: WORDS,
            default: None,
            about: "where programs are looked for before the folders of PATH; `*` is the last that there is",
        },
        Field {
            name: "files",
            kind: WORDS,
            default: None,
            about: "in the lab: paths of what else it executes and reads, for guests to have, too",
        },
        Field {
            name: "failure",
            kind: WORDS,
            default: None,
            about: "regular expressions: an execution of which the output matches one has failed, \
                    whatever its exit status",
        },
        Field {
            name: "needs",
            kind: WORDS,
            default: None,
            about: "what else has to be there: names of programs, and paths",
        },
        Field {
            name: "package",
            kind: Kind::Text,
            default: None,
            about: "what to install where the program is missing, separated by blanks: Debian's, or a \
                    table by distribution",
        },
        Field {
            name: "warmups",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            default: Some("0"),
            about: "executions before the first that counts",
        },
        Field {
            name: "exit",
            kind: Kind::Int { min: 0, max: 255 },
            default: Some("0"),
            about: "the exit status of success: with another one the run is failed",
        },
    ],
    roles: &[Role { name: "command", counts: true }],
    ops: "executions",
    throughput: Importance::Explaining,
    runs_programs: true,
    histograms: &[],
    counters: &[],
    metrics: METRICS,
};

/// The parameter with the metrics of the output, a [`Value::Outputs`].
pub const METRIC: &str = "metric";
pub const METRICS: &[MetricSpec] = &[
    MetricSpec {
        importance: Importance::Headline,
        ..time(
            "time",
            Statistic::Mean,
            "of an execution, from its start until its end is collected",
        )
    },
    time("time_min", Statistic::Quantile(0), "of the shortest execution"),
    time("time_max", Statistic::Max, "of the longest execution"),
    time("user", Statistic::Mean, "CPU time of an execution in its own code"),
    time("system", Statistic::Mean, "CPU time of an execution in the kernel"),
    explaining("cpus", Unit::Cpus, Statistic::Count, "CPU time over time"),
    explaining(
        "voluntary_switches",
        Unit::PerS,
        Statistic::VoluntarySwitches,
        "of its tasks, while an execution goes on",
    ),
    explaining(
        "involuntary_switches",
        Unit::PerS,
        Statistic::InvoluntarySwitches,
        "of its tasks, while an execution goes on",
    ),
    explaining("executions", Unit::Count, Statistic::Count, "that were timed"),
];

const fn time(name: &'static str, statistic: Statistic, about: &'static str) -> MetricSpec {
    let spec = explaining(name, Unit::Ns, statistic, about);
    MetricSpec { direction: Direction::LowerIsBetter, ..spec }
}

const fn explaining(
    name: &'static str,
    unit: Unit,
    statistic: Statistic,
    about: &'static str,
) -> MetricSpec {
    let (direction, importance) = (Direction::Neutral, Importance::Explaining);
    MetricSpec { name, unit, direction, about, statistic, importance }
}
