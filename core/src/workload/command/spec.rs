//! The parameters and metrics of `command`. Plain data.

use crate::model::{Direction, Importance, Kind, MetricSpec, Statistic, Unit, fields};
use crate::workload::{Role, Spec};

const WORDS: Kind = Kind::List(&Kind::Word);

pub const SPEC: Spec = Spec {
    name: "command",
    about: "any program, executed until the run's duration is over, but at least once",
    params: fields! {
        "command": WORDS =>
            "the program and its arguments, which no shell reads; {NAME} is the parameter of this \
             name";
        "setup": WORDS => "executed once, before the server is started";
        "server": WORDS =>
            "a program that goes on until all executions are over, then gets SIGTERM";
        "ready": Kind::Text =>
            "how the server shows that it is ready: tcp:PORT of 127.0.0.1, unix:PATH of a socket, \
             or output:REGULAR EXPRESSION";
        "fill": WORDS => "executed once, after the server is ready";
        "prepare": WORDS => "executed before each execution, and not timed";
        "cleanup": WORDS => "executed after the last execution";
        "version": WORDS =>
            "executed once: the first line that it writes is the program's version, kept with the \
             results";
        "environment": WORDS => "variables for all of these programs, NAME=VALUE each";
        "user": Kind::Text => "who executes them where schedlab is root, in a folder of their own";
        "folders": WORDS =>
            "where programs are looked for before the folders of PATH; `*` is the last that there \
             is";
        "files": WORDS =>
            "in the lab: paths of what else it executes and reads, for guests to have, too";
        "failure": WORDS =>
            "regular expressions: an execution of which the output matches one has failed, \
             whatever its exit status";
        "needs": WORDS => "what else has to be there: names of programs, and paths";
        "package": Kind::Text =>
            "what to install where the program is missing, separated by blanks: Debian's, or a \
             table by distribution";
        "warmups": Kind::Int { min: 0, max: 1_000_000 }, "0" =>
            "executions before the first that counts";
        "exit": Kind::Int { min: 0, max: 255 }, "0" =>
            "the exit status of success: with another one the run is failed";
    },
    roles: &[Role { name: "command", counts: true }],
    ops: "executions",
    throughput: Importance::Explaining,
    runs_programs: true,
    metrics: METRICS,
    ..Spec::PLAIN
};

/// The parameter with the metrics of the output, a [`Value::Outputs`].
pub const METRIC: &str = "metric";
pub const METRICS: &[MetricSpec] = &[
    time("time", Statistic::Mean)
        .about("of an execution, from its start until its end is collected")
        .headline(),
    time("time_min", Statistic::Quantile(0)).about("of the shortest execution"),
    time("time_max", Statistic::Max).about("of the longest execution"),
    time("user", Statistic::Mean).about("CPU time of an execution in its own code"),
    time("system", Statistic::Mean).about("CPU time of an execution in the kernel"),
    neutral("cpus", Unit::Cpus, Statistic::Count).about("CPU time over time"),
    neutral("voluntary_switches", Unit::PerS, Statistic::VoluntarySwitches)
        .about("of its tasks, while an execution goes on"),
    neutral("involuntary_switches", Unit::PerS, Statistic::InvoluntarySwitches)
        .about("of its tasks, while an execution goes on"),
    neutral("executions", Unit::Count, Statistic::Count).about("that were timed"),
];

const fn time(name: &'static str, statistic: Statistic) -> MetricSpec {
    MetricSpec::new(name, Unit::Ns, Direction::LowerIsBetter, statistic)
}

const fn neutral(name: &'static str, unit: Unit, statistic: Statistic) -> MetricSpec {
    MetricSpec::new(name, unit, Direction::Neutral, statistic)
}
