//! A machine as `schedlab twin` measured it, and the text of its file, which the lab reads. Plain data; text in,
//! text out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Advice;
use super::clean;
use super::{Environment, Reading};

/// The version of the file.
pub const TWIN_VERSION: i64 = 1;
/// The largest time in the file, either way: a difference of two may be below 0, and on a busy machine a thread
/// waits for seconds.
const MAX_NS: f64 = 100e9;
/// The most that others may keep busy, in CPUs, while a machine is measured.
const MAX_OTHER_LOAD: f64 = 0.1;

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Twin {
    pub version: i64,
    pub cpu_model: Reading<String>,
    pub kernel_release: String,
    pub virtualisation: Reading<String>,
    pub tick_hz: Reading<u32>,
    pub preemption: Reading<String>,
    pub timer_slack_ns: Reading<u64>,
    /// CPUs that others kept busy meanwhile.
    pub other_load: Reading<f64>,
    pub topology: TwinTopology,
    pub costs: BTreeMap<Cost, Reading<Spread>>,
}

/// The size of the machine that it was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwinTopology {
    pub cpus: u32,
    pub sockets: u32,
    pub llcs: u32,
    pub nodes: u32,
    pub threads_per_core: Reading<u32>,
}

/// Samples of a time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub median_ns: f64,
    pub p10_ns: f64,
    pub p90_ns: f64,
    pub samples: u32,
}

/// A time that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    SystemCall,
    Switch,
    WakeHere,
    WakeBusyNear,
    WakeBusyFar,
    WakeIdleNear,
    WakeIdleFar,
    WakeIdleShort,
    TimerBusy,
    TimerIdle,
    IdleExit,
    IdleExitShort,
    IpiNear,
    IpiFar,
    MigrationNear,
    MigrationFar,
    WorkAlone,
    WorkBusy,
    Instruction,
}

/// Every cost in the order of tables, with its name in tables and its exact meaning.
pub const COSTS: &[(Cost, &str, &str)] = &[
    (Cost::SystemCall, "system call", "one that does nothing: getppid"),
    (
        Cost::Switch,
        "switch on one CPU",
        "half of a round of two threads on one CPU that wake each other by futexes: a wake, a wait, a switch",
    ),
    (
        Cost::WakeHere,
        "wake, same CPU",
        "from the wake of a thread, by one under SCHED_IDLE on the same CPU, to its first instruction",
    ),
    (
        Cost::WakeBusyNear,
        "wake, busy CPU near",
        "the same on another CPU of the same last-level cache, which runs a thread under SCHED_IDLE",
    ),
    (Cost::WakeBusyFar, "wake, busy CPU far", "the same on a CPU of another last-level cache"),
    (
        Cost::WakeIdleNear,
        "wake, idle CPU near",
        "the same on a CPU of the same last-level cache that has been idle for a millisecond",
    ),
    (Cost::WakeIdleFar, "wake, idle CPU far", "the same on a CPU of another last-level cache"),
    (
        Cost::WakeIdleShort,
        "wake, CPU just idle",
        "the same on a CPU of the same last-level cache that has been idle for 100 us, as before",
    ),
    (
        Cost::TimerBusy,
        "timer, busy CPU",
        "from the time of a timer to the first instruction of its thread, on a CPU that runs a \
         thread under SCHED_IDLE",
    ),
    (Cost::TimerIdle, "timer, idle CPU", "the same on a CPU that has been idle for a millisecond"),
    (Cost::IdleExit, "exit from idle", "timer-idle less timer-busy, measured in turn"),
    (
        Cost::IdleExitShort,
        "exit from short idle",
        "wake-idle-short less wake-busy-near, measured in turn",
    ),
    (Cost::IpiNear, "interrupt, CPU near", "wake-busy-near less wake-here, measured in turn"),
    (Cost::IpiFar, "interrupt, CPU far", "wake-busy-far less wake-here, measured in turn"),
    (
        Cost::MigrationNear,
        "migration, near",
        "how much longer 64 KiB of work take first on another CPU of the same last-level cache",
    ),
    (Cost::MigrationFar, "migration, far", "the same on a CPU of another last-level cache"),
    (
        Cost::WorkAlone,
        "1 ms of work, alone",
        "work of a millisecond on a CPU at full speed, while the other CPUs do nothing",
    ),
    (Cost::WorkBusy, "1 ms of work, busy", "the same while all other CPUs work, too"),
    (
        Cost::Instruction,
        "instruction",
        "time over instructions, kernel included, of two threads that wake each other on one CPU",
    ),
];

impl Cost {
    /// The key in the file.
    fn key(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(key)) => key,
            _ => String::new(),
        }
    }
}

/// Why a text is not a machine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TwinError {
    #[error("it is not TOML, or has no `version`: {0}")]
    NotTwin(String),
    #[error("it is a machine of version {0}; this schedlab reads version {TWIN_VERSION}")]
    Version(i64),
    #[error("{0}")]
    Misfit(String),
    #[error("`{key}` has {value}: {range}")]
    OutOfRange { key: String, value: String, range: String },
}

impl Advice for TwinError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            TwinError::NotTwin(_) | TwinError::Version(_) => {
                "is it the right file? To measure this machine: schedlab twin -o NEW.toml"
            }
            TwinError::Misfit(_) | TwinError::OutOfRange { .. } => {
                "schedlab help twin --all has every key; or measure again: schedlab twin -o NEW.toml"
            }
        }))
    }
}

/// The field that every version has.
#[derive(Deserialize)]
struct Versioned {
    version: i64,
}

impl Twin {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Twin, TwinError> {
        let versioned: Versioned =
            toml::from_str(text).map_err(|error| TwinError::NotTwin(one_line(&error, text)))?;
        if versioned.version != TWIN_VERSION {
            return Err(TwinError::Version(versioned.version));
        }
        let twin: Twin =
            toml::from_str(text).map_err(|error| TwinError::Misfit(one_line(&error, text)))?;
        twin.check().map(|()| twin)
    }

    fn check(&self) -> Result<(), TwinError> {
        let wrong = |key: &str, value: String, range: &str| TwinError::OutOfRange {
            key: key.to_string(),
            value,
            range: range.to_string(),
        };
        let TwinTopology { cpus, sockets, llcs, nodes, .. } = self.topology;
        let parts = [("cpus", cpus), ("sockets", sockets), ("llcs", llcs), ("nodes", nodes)];
        for (key, count) in parts {
            if !(1..=cpus.max(1)).contains(&count) {
                return Err(wrong(key, count.to_string(), "a number from 1 to that of CPUs"));
            }
        }
        for (cost, reading) in &self.costs {
            let Reading::Known(Spread { median_ns, p10_ns, p90_ns, .. }) = reading else {
                continue;
            };
            for ns in [median_ns, p10_ns, p90_ns] {
                if !(-MAX_NS..=MAX_NS).contains(ns) {
                    return Err(wrong(&cost.key(), format!("{ns} ns"), "times are below 100 s"));
                }
            }
            if p10_ns > median_ns || median_ns > p90_ns {
                let value = format!("{p10_ns}, {median_ns} and {p90_ns} ns");
                return Err(wrong(&cost.key(), value, "p10, median and p90 ascend"));
            }
        }
        Ok(())
    }

    /// The file's text, which [`Twin::parse`] reads.
    pub fn text(&self) -> String {
        let mut text = String::from(HEAD);
        let mut line = |key: &str, value: Result<toml::Value, toml::ser::Error>| {
            // Plain data always has a form in TOML.
            _ = value.map(|value| writeln!(text, "{key} = {value}"));
        };
        line("version", toml::Value::try_from(self.version));
        line("cpu_model", toml::Value::try_from(&self.cpu_model));
        line("kernel_release", toml::Value::try_from(&self.kernel_release));
        line("virtualisation", toml::Value::try_from(&self.virtualisation));
        line("tick_hz", toml::Value::try_from(&self.tick_hz));
        line("preemption", toml::Value::try_from(&self.preemption));
        line("timer_slack_ns", toml::Value::try_from(&self.timer_slack_ns));
        line("other_load", toml::Value::try_from(&self.other_load));
        let TwinTopology { cpus, sockets, llcs, nodes, threads_per_core } = &self.topology;
        text.push_str("\n# Of the whole machine.\n[topology]\n");
        for (key, count) in [("cpus", cpus), ("sockets", sockets), ("llcs", llcs), ("nodes", nodes)]
        {
            _ = writeln!(text, "{key} = {count}");
        }
        if let Ok(threads) = toml::Value::try_from(threads_per_core) {
            _ = writeln!(text, "threads_per_core = {threads}");
        }
        text.push_str("\n[costs]\n");
        for (cost, _, about) in COSTS {
            // A file without it stays one without it.
            let value = self.costs.get(cost).map(toml::Value::try_from);
            if let Some(Ok(value)) = value {
                _ = writeln!(text, "# {about}\n{} = {value}", cost.key());
            }
        }
        text
    }

    pub fn cost(&self, cost: Cost) -> Reading<Spread> {
        let missing = || Reading::Unknown("the file does not have it".to_string());
        self.costs.get(&cost).cloned().unwrap_or_else(missing)
    }

    pub fn median_ns(&self, cost: Cost) -> Option<f64> {
        self.cost(cost).known().map(|spread| spread.median_ns)
    }

    /// `AMD EPYC, 2 CPUs, 6.18.44`, and the load next to which it was measured.
    pub fn name(&self) -> String {
        let cpu = self.cpu_model.as_ref().known().map_or("an unknown CPU", String::as_str);
        let name = format!("{cpu}, {} CPUs, {}", self.topology.cpus, self.kernel_release);
        match self.other_cpus() {
            Some(cpus) => format!("{name}, while others kept {cpus:.2} CPUs busy"),
            None => name,
        }
    }

    /// The CPUs that others kept busy, where it lengthened what was measured.
    pub fn other_cpus(&self) -> Option<f64> {
        self.other_load.as_ref().known().copied().filter(|cpus| *cpus > MAX_OTHER_LOAD)
    }

    /// Whether it is this machine with this kernel, as far as is known.
    pub fn is_of(&self, machine: &Environment) -> bool {
        self.cpu_model == machine.cpu_model
            && self.kernel_release == machine.kernel_release
            && self.virtualisation == machine.virtualisation
            && self.topology.cpus as usize == machine.topology.online.len()
    }
}

const HEAD: &str = "\
# A machine, measured by `schedlab twin`, for `machine = \"FILE\"` in the [lab] of a plan: schedlab help twin.
# Times are nanoseconds, each with its median, 10th and 90th percentile and number of samples. What
# could not be measured is unknown, with the reason. tick_hz: ticks a second; other_load: CPUs that
# others kept busy while it was measured.
";

/// The first line of the error, with its place.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let line =
        error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let place = line.map_or(String::new(), |line| format!("line {line}: "));
    let message: Vec<&str> = error.message().split_whitespace().collect();
    format!("{place}{}", clean(&message.join(" ")))
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::*;

    /// A machine of two caches with every cost known but one.
    pub fn twin() -> Twin {
        let spread = |at: usize| {
            let ns = 1000.5 * (at + 1) as f64;
            Spread { median_ns: ns, p10_ns: ns - 0.125, p90_ns: 2.0 * ns, samples: 100 }
        };
        let costs = COSTS.iter().enumerate();
        let mut costs: BTreeMap<_, _> =
            costs.map(|(at, (cost, ..))| (*cost, Reading::Known(spread(at)))).collect();
        let why = "the kernel does not count \"instructions\"".to_string();
        costs.insert(Cost::Instruction, Reading::Unknown(why));
        Twin {
            version: TWIN_VERSION,
            cpu_model: Reading::Known("A \"CPU\"".to_string()),
            kernel_release: "6.18".to_string(),
            virtualisation: Reading::Known("none".to_string()),
            tick_hz: Reading::Known(250),
            preemption: Reading::Known("lazy".to_string()),
            timer_slack_ns: Reading::Known(50_000),
            other_load: Reading::Known(0.02),
            topology: TwinTopology {
                cpus: 8,
                sockets: 1,
                llcs: 2,
                nodes: 1,
                threads_per_core: Reading::Known(2),
            },
            costs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::twin;
    use super::*;

    #[test]
    fn a_machine_reads_back_as_it_was_written() {
        let twin = twin();
        assert_eq!(Twin::parse(&twin.text()), Ok(twin.clone()));
        assert_eq!(COSTS.len(), twin.costs.len(), "each cost once");
        let text = twin.text();
        for (cost, _, about) in COSTS {
            assert!(text.contains(&format!("# {about}\n{} = {{ ", cost.key())), "{text}");
        }
    }

    #[test]
    fn a_cost_that_a_file_leaves_out_is_unknown() {
        let mut twin = twin();
        twin.costs.remove(&Cost::Switch);
        let read = Twin::parse(&twin.text()).unwrap();
        assert!(matches!(read.cost(Cost::Switch), Reading::Unknown(_)));
        assert_eq!(read.median_ns(Cost::SystemCall), Some(1000.5));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let with = |from: &str, to: &str| {
            let text = twin().text();
            assert!(text.contains(from), "{from}: {text}");
            Twin::parse(&text.replacen(from, to, 1)).unwrap_err().to_string()
        };
        let cases = [
            ("version = 1", "version = 2", "version 2; this schedlab reads version 1"),
            ("version = 1", "", "no `version`"),
            ("cpus = 8", "cpus = 0", "`cpus` has 0"),
            ("llcs = 2", "llcs = 9", "`llcs` has 9: a number from 1 to that of CPUs"),
            ("llcs = 2", "llc = 2", ": unknown field `llc`"),
            ("switch = ", "swich = ", "unknown variant `swich`"),
            ("median_ns = 1000.5", "median_ns = 1e12", "`system-call` has 1000000000000 ns"),
            ("median_ns = 1000.5", "median_ns = nan", "`system-call` has NaN ns"),
            ("median_ns = 1000.5", "median_ns = 5.0", "p10, median and p90 ascend"),
            ("[topology]", "[topology", "it is not TOML"),
        ];
        for (from, to, says) in cases {
            let error = with(from, to);
            assert!(error.contains(says) && !error.contains('\n'), "{error}");
        }
    }
}
