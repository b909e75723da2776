//! A scenario: sets of tasks on a machine, as a value that is drawn, changed and written as a plan. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::CpuSet;

/// Each run's length, but of one that shows what lasts, and the length of its windows.
pub const DURATION_MS: u32 = 2000;
pub const LONG_MS: u32 = 4000;
pub const WINDOW_MS: u32 = 100;
/// More CPUs make a scenario too slow to be one of many.
const MAX_CPUS: u32 = 32;
/// A warning of the kernel ends its guest, so that it is seen in every run.
const KERNEL_ARGS: &str = "panic_on_warn=1 oops=panic";

/// The CPUs of a guest and their last-level caches, written `4x2`; `8x4n2t2` has two NUMA nodes and cores of two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    pub cpus: u32,
    pub llcs: u32,
    pub nodes: u32,
    /// CPUs of a core.
    pub threads: u32,
}

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Machine, String> {
        let machine = parse_machine(text).filter(|own| (2..=MAX_CPUS).contains(&own.cpus));
        let Machine { cpus, llcs, nodes, threads } = machine.ok_or_else(|| {
            format!(
                "CPUs and the last-level caches that divide them, as 4x2, or with 2 NUMA nodes and \
                 cores of 2 CPUs, as 8x4n2t2: 2 to {MAX_CPUS} CPUs"
            )
        })?;
        let divisors = |all: u32| (1..=all).filter(move |part| all.is_multiple_of(*part));
        for (all, word, part, name) in [
            (cpus, "CPUs", llcs, "caches"),
            (cpus, "CPUs", nodes, "nodes"),
            (llcs, "caches", nodes, "nodes"),
            (cpus / llcs.max(1), "CPUs of a cache", threads, "CPUs of a core"),
            (cpus / nodes.max(1), "CPUs of a node", threads, "CPUs of a core"),
        ] {
            if !divisors(all).any(|own| own == part) {
                let possible: Vec<String> = divisors(all).map(|own| own.to_string()).collect();
                let possible = possible.join(", ");
                return Err(format!("{part} {name} do not divide {all} {word}: {possible}"));
            }
        }
        Ok(Machine { cpus, llcs, nodes, threads })
    }
}

fn parse_machine(text: &str) -> Option<Machine> {
    let (text, threads) = text.split_once('t').unwrap_or((text, "1"));
    let (text, nodes) = text.split_once('n').unwrap_or((text, "1"));
    let (cpus, llcs) = text.split_once('x')?;
    Some(Machine {
        cpus: cpus.parse().ok()?,
        llcs: llcs.parse().ok()?,
        nodes: nodes.parse().ok()?,
        threads: threads.parse().ok()?,
    })
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.cpus, self.llcs)?;
        for (letter, number) in [("n", self.nodes), ("t", self.threads)] {
            if number > 1 {
                write!(f, "{letter}{number}")?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Load {
    /// It never sleeps.
    Spin,
    /// Bursts with sleeps between them that are a little longer.
    Burnwait,
    /// Bursts that are longer than a slice, with short sleeps between them.
    Nap,
    /// Bursts, after each of which all of the set wait for each other.
    Barrier,
    /// It never sleeps, and yields its CPU after each burst.
    Yield,
    /// Bursts, most of each with a lock that all sets with this load share.
    Lock,
    /// The same, and who has the lock inherits the priority of those that wait for it.
    InheritingLock,
    /// Bursts, after each of which it wakes the one of its set that waits, and waits to be woken.
    Chain,
    /// It forks a child that ends at once, and waits for its end.
    Fork,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Policy {
    Other,
    Batch,
    Idle,
    Fifo,
}

impl Policy {
    fn word(self) -> &'static str {
        match self {
            Policy::Other => "other",
            Policy::Batch => "batch",
            Policy::Idle => "idle",
            Policy::Fifo => "fifo",
        }
    }

    /// Whether nice values and slices mean something to its tasks.
    pub fn has_nice(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch)
    }
}

/// A bound on the utilisation that the kernel assumes of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Clamp {
    AtMost,
    AtLeast,
}

impl Clamp {
    /// The knob and its value.
    fn knob(self) -> (&'static str, &'static str) {
        match self {
            Clamp::AtMost => ("uclamp-max", "10%"),
            Clamp::AtLeast => ("uclamp-min", "80%"),
        }
    }
}

/// A cgroup of tasks: its weight, and its limit in percent of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group {
    /// The weight of the cgroup that it lies in; `None`: it lies in none.
    pub outer: Option<u32>,
    /// `None`: `cpu.idle`, which makes its tasks as those of SCHED_IDLE.
    pub weight: Option<u32>,
    pub max: Option<u32>,
    /// Not of an idle one.
    pub later: Option<LaterWeight>,
}

/// The weight of a cgroup from a moment of the run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LaterWeight {
    pub at_ms: u32,
    pub weight: u32,
}

/// The CPUs, the nice value, the policy, the slices and the number of tasks from a moment of the run on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Change {
    pub at_ms: u32,
    /// `None`: all.
    pub cpus: Option<CpuSet>,
    pub nice: i32,
    /// `None`: as many as before.
    pub count: Option<u32>,
    /// `None`: the same as before, as for slices.
    pub policy: Option<Policy>,
    pub slice_us: Option<u32>,
}

/// Tasks alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tasks {
    pub load: Load,
    pub count: u32,
    /// `None`: all.
    pub cpus: Option<CpuSet>,
    pub nice: i32,
    pub policy: Policy,
    /// The length of its slices; `None`: the kernel's.
    pub slice_us: Option<u32>,
    pub clamp: Option<Clamp>,
    pub at_ms: u32,
    /// `None`: to the end.
    pub for_ms: Option<u32>,
    /// The cgroup that they are in.
    pub cgroup: Option<Group>,
    pub change: Option<Change>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Case {
    pub sets: Vec<Tasks>,
    pub offline: Option<OffCpus>,
}

/// CPUs that are taken off in the run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OffCpus {
    pub cpus: CpuSet,
    pub at_ms: u32,
    /// `None`: to the end.
    pub for_ms: Option<u32>,
}

impl Case {
    /// Without CPUs that are off where the kernel keeps one of them or tasks would have no other: it would move these
    /// for good.
    pub fn with_possible_offline(mut self) -> Case {
        let cpus = |set: &Tasks| {
            let later = set.change.as_ref().map(|change| change.cpus.clone());
            [Some(set.cpus.clone()), later].into_iter().flatten().flatten()
        };
        let is_possible = |off: &OffCpus| {
            let is_left = |cpus: CpuSet| !cpus.minus(&off.cpus).is_empty();
            !off.cpus.is_empty()
                && !off.cpus.contains(0)
                && self.sets.iter().flat_map(cpus).all(is_left)
        };
        self.offline = self.offline.take().filter(is_possible);
        self
    }
}

/// The machine and the scheduler that cases run on.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub kernel: &'a str,
    /// A sched_ext scheduler, as the knob has it.
    pub scx: Option<&'a str>,
    pub place: Place,
}

/// The guest of a case, and the length of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub machine: Machine,
    pub duration_ms: u32,
}

impl Place {
    pub fn new(machine: Machine) -> Place {
        Place { machine, duration_ms: DURATION_MS }
    }
}

/// `debian:6.18 with ./my_sched`.
impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel)?;
        self.scx.map_or(Ok(()), |scx| write!(f, " with {scx}"))
    }
}

/// The plan of these cases, a work each. `seeds` are the trajectories of each from `seed` on.
pub fn plan_text(target: &Target, title: &str, cases: &[Case], seed: u64, seeds: u32) -> String {
    let Target { kernel, scx, place: Place { machine, duration_ms } } = *target;
    let mut text = format!(
        "schema = 1\ntitle = {}\n\n[measure]\nduration = \"{duration_ms}ms\"\nwarmup = \"0s\"\n\
         window = \"{WINDOW_MS}ms\"\nseed = {seed}\n\n[lab]\nkernel = {}\nkernel-args = \"{KERNEL_ARGS}\"\n\
         cpus = {}\nllcs = {}\nnodes = {}\nthreads = {}\nseeds = {seeds}\n\n[[variant]]\nname = \"hunt\"\n",
        toml::Value::from(title),
        toml::Value::from(kernel),
        machine.cpus,
        machine.llcs,
        machine.nodes,
        machine.threads
    );
    if let Some(scx) = scx {
        text.push_str(&format!("scx = {}\n", toml::Value::from(scx)));
    }
    write_groups(cases, &mut text);
    for (at, case) in cases.iter().enumerate() {
        text.push_str(&format!("\n[[workload]]\nname = \"case{at}\"\n"));
        if let Some(OffCpus { cpus, at_ms, for_ms }) = &case.offline {
            let length = for_ms.map_or(String::new(), |ms| format!("for = \"{ms}ms\"\n"));
            text.push_str(&format!(
                "[[workload.offline]]\nat = \"{at_ms}ms\"\n{length}cpus = \"{cpus}\"\n"
            ));
        }
        for (at, set) in case.sets.iter().enumerate() {
            set.write(at, machine, &mut text);
        }
    }
    text
}

/// The cgroups of all cases, each after the one that it lies in.
fn write_groups(cases: &[Case], text: &mut String) {
    let sets = cases.iter().flat_map(|case| &case.sets);
    let groups: BTreeSet<Group> = sets.filter_map(|set| set.cgroup).collect();
    let outer: BTreeSet<u32> = groups.iter().filter_map(|group| group.outer).collect();
    for weight in outer {
        text.push_str(&format!("\n[cgroup.{}]\nweight = {weight}\n", outer_name(weight)));
    }
    for group in groups {
        let name = group.to_string().replace('/', ".");
        let share =
            group.weight.map_or("idle = true".to_string(), |weight| format!("weight = {weight}"));
        text.push_str(&format!("\n[cgroup.{name}]\n{share}\n"));
        if let Some(max) = group.max {
            text.push_str(&format!("max = \"{max}%\"\n"));
        }
        if let Some(LaterWeight { at_ms, weight }) = group.later {
            text.push_str(&format!(
                "[[cgroup.{name}.change]]\nat = \"{at_ms}ms\"\nweight = {weight}\n"
            ));
        }
    }
}

impl Tasks {
    /// Whether one of them may sleep and the others go on: at a barrier and in a chain they would wait for it.
    pub fn may_be_fewer(&self) -> bool {
        !matches!(self.load, Load::Barrier | Load::Chain)
    }

    /// The fewest of them that do not wait without end.
    pub fn min_count(&self) -> u32 {
        if self.load == Load::Chain { 2 } else { 1 }
    }

    /// Whether a change is one of their CPUs: it has to be one of something.
    pub fn moves(&self, change: &Change) -> bool {
        let has_other = change.count.or(change.slice_us).is_some() || change.policy.is_some();
        !has_other || change.cpus != self.cpus
    }

    /// The largest number of them.
    pub fn max_count(&self) -> u32 {
        let later = self.change.as_ref().and_then(|change| change.count);
        later.map_or(self.count, |later| later.max(self.count))
    }

    fn write(&self, at: usize, machine: Machine, text: &mut String) {
        let load = match self.load {
            Load::Spin => "use = \"spin\"\nwork = \"100us\"".to_string(),
            Load::Burnwait => "use = \"burnwait\"\nqueue = [\"burn 2ms, wait 3ms\"]".to_string(),
            Load::Nap => "use = \"burnwait\"\nqueue = [\"burn 10ms, wait 1ms\"]".to_string(),
            Load::Barrier => format!(
                "use = \"steps\"\nsteps = [\"burn 500us\", \"barrier set{at} {}\"]",
                self.count
            ),
            Load::Yield => "use = \"steps\"\nsteps = [\"burn 200us\", \"yield\"]".to_string(),
            Load::Lock => lock_steps("one"),
            Load::InheritingLock => lock_steps("inheriting") + "\ninherit = true",
            Load::Chain => format!(
                "use = \"steps\"\nsteps = [\"burn 200us\", \"lock set{at}\", \"signal set{at}\", \
                 \"wait set{at} set{at}\", \"unlock set{at}\"]"
            ),
            // Threads would share the lock of their memory with the one that measures, also while a fork waits for a CPU.
            Load::Fork => "use = \"forkexec\"\nhow = \"fork\"\nworkers = \"processes\"".to_string(),
        };
        let mut line = |line: String| text.push_str(&format!("{line}\n"));
        line(format!("\n[[workload.set]]\nname = \"set{at}\"\n{load}\ncount = {}", self.count));
        if self.at_ms > 0 {
            line(format!("at = \"{}ms\"", self.at_ms));
        }
        if let Some(for_ms) = self.for_ms {
            line(format!("for = \"{for_ms}ms\""));
        }
        if let Some(group) = self.cgroup {
            line(format!("cgroup = \"{group}\""));
        }
        let cpus = self.cpus.as_ref().map(|cpus| format!("affinity = \"{cpus}\""));
        let nice = (self.nice != 0).then(|| format!("nice = {}", self.nice));
        let policy = self.policy_words().map(|words| {
            let priority = if self.policy == Policy::Fifo { "\npriority = 10" } else { "" };
            format!("policy = \"{words}\"{priority}")
        });
        let slice = self.slice_us.map(slice_knob);
        let clamp = self.clamp.map(|own| {
            let (name, value) = own.knob();
            format!("{name} = \"{value}\"")
        });
        let knobs: Vec<String> = [cpus, nice, policy, slice, clamp].into_iter().flatten().collect();
        if !knobs.is_empty() {
            line(format!("[workload.set.knobs]\n{}", knobs.join("\n")));
        }
        if let Some(change) = &self.change {
            self.write_change(change, machine, text);
        }
    }

    fn write_change(&self, change: &Change, machine: Machine, text: &mut String) {
        text.push_str(&format!("[[workload.set.change]]\nat = \"{}ms\"\n", change.at_ms));
        if let Some(count) = change.count {
            text.push_str(&format!("count = {count}\n"));
        }
        let all: CpuSet = (0..machine.cpus).collect();
        let cpus = change.cpus.as_ref().unwrap_or(&all);
        let cpus = self.moves(change).then(|| format!("affinity = \"{cpus}\""));
        let nice = (change.nice != self.nice).then(|| format!("nice = {}", change.nice));
        let policy = change.policy.map(|policy| format!("policy = \"{}\"", policy.word()));
        let slice = change.slice_us.map(slice_knob);
        let knobs: Vec<String> = [cpus, nice, policy, slice].into_iter().flatten().collect();
        if !knobs.is_empty() {
            text.push_str(&format!("[workload.set.change.knobs]\n{}\n", knobs.join("\n")));
        }
    }

    fn policy_words(&self) -> Option<&'static str> {
        (self.policy != Policy::Other).then(|| self.policy.word())
    }
}

fn slice_knob(us: u32) -> String {
    format!("slice = \"{us}us\"")
}

/// A lock is held for three of four parts of the time.
fn lock_steps(name: &str) -> String {
    format!(
        "use = \"steps\"\nsteps = [\"lock {name}\", \"burn 600us\", \"unlock {name}\", \"burn 200us\"]"
    )
}

/// `4 tasks on CPUs 0,2-3, nice 5, from 200 ms on`.
impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = self.count == 1;
        write!(f, "{} task{}", self.count, if one { "" } else { "s" })?;
        let sleep = if one { "sleeps" } else { "sleep" };
        match self.load {
            Load::Spin => {}
            Load::Burnwait => write!(f, " that {sleep} at times")?,
            Load::Nap => write!(f, " that {sleep} for 1 ms after each 10 ms")?,
            Load::Barrier if one => write!(f, " that passes a barrier alone after each 500 us")?,
            Load::Barrier => write!(f, " that wait for each other after each 500 us")?,
            Load::Yield if one => write!(f, " that yields after each 200 us")?,
            Load::Yield => write!(f, " that yield after each 200 us")?,
            Load::Lock => write!(f, " with a lock")?,
            Load::InheritingLock => write!(f, " with a lock whose holder inherits priorities")?,
            Load::Chain => write!(f, " that wake each other, one after each 200 us")?,
            Load::Fork if one => write!(f, " that forks children, one after the other")?,
            Load::Fork => write!(f, " that fork children, one after the other")?,
        }
        write!(f, " on {}", cpus_words(&self.cpus))?;
        if self.nice != 0 {
            write!(f, ", nice {}", self.nice)?;
        }
        if let Some(policy) = self.policy_words() {
            write!(f, ", policy {policy}")?;
        }
        self.slice_us.map_or(Ok(()), |us| write!(f, ", slices of {us} us"))?;
        if let Some((name, value)) = self.clamp.map(Clamp::knob) {
            write!(f, ", {name} {value}")?;
        }
        if let Some(Group { outer, weight, max, later }) = self.cgroup {
            match weight {
                None => write!(f, ", in an idle cgroup")?,
                Some(weight) => write!(f, ", in the cgroup of weight {weight}")?,
            }
            if let Some(LaterWeight { at_ms, weight }) = later {
                write!(f, " ({weight} from {at_ms} ms on)")?;
            }
            outer.map_or(Ok(()), |outer| write!(f, " within one of weight {outer}"))?;
            max.map_or(Ok(()), |max| write!(f, " that may have {max} % of a CPU"))?;
        }
        if self.at_ms > 0 {
            write!(f, ", from {} ms on", self.at_ms)?;
        }
        self.for_ms.map_or(Ok(()), |for_ms| write!(f, ", for {for_ms} ms"))?;
        let Some(change) = &self.change else { return Ok(()) };
        write!(f, ", from {} ms on", change.at_ms)?;
        change.count.map_or(Ok(()), |count| write!(f, " {count} of them"))?;
        if self.moves(change) {
            write!(f, " held to {}", cpus_words(&change.cpus))?;
        }
        if change.nice != self.nice {
            write!(f, " with nice {}", change.nice)?;
        }
        change.policy.map_or(Ok(()), |policy| write!(f, " under policy {}", policy.word()))?;
        change.slice_us.map_or(Ok(()), |us| write!(f, " with slices of {us} us"))
    }
}

fn cpus_words(cpus: &Option<CpuSet>) -> String {
    match cpus {
        None => "any CPU".to_string(),
        Some(cpus) if cpus.len() == 1 => format!("CPU {cpus}"),
        Some(cpus) => format!("CPUs {cpus}"),
    }
}

/// The path of the cgroup in plans: `o400/w25m50t500w400` has all that one can have, `im50` is idle.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outer.map_or(Ok(()), |outer| write!(f, "{}/", outer_name(outer)))?;
        match self.weight {
            None => f.write_str("i")?,
            Some(weight) => write!(f, "w{weight}")?,
        }
        self.max.map_or(Ok(()), |max| write!(f, "m{max}"))?;
        self.later.map_or(Ok(()), |later| write!(f, "t{}w{}", later.at_ms, later.weight))
    }
}

/// The name of a cgroup that holds others.
fn outer_name(weight: u32) -> String {
    format!("o{weight}")
}

/// The sets, with semicolons between them, and `CPU 2 is off from 500 ms on, for 300 ms`.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sets: Vec<String> = self.sets.iter().map(ToString::to_string).collect();
        f.write_str(&sets.join("; "))?;
        let Some(OffCpus { cpus, at_ms, for_ms }) = &self.offline else { return Ok(()) };
        let be = if cpus.len() == 1 { "is" } else { "are" };
        write!(f, "; {} {be} off from {at_ms} ms on", cpus_words(&Some(cpus.clone())))?;
        for_ms.map_or(Ok(()), |for_ms| write!(f, ", for {for_ms} ms"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::{change, tasks};

    #[test]
    fn one_task_sleeps_and_two_sleep() {
        let words = |load: Load, count: u32| Tasks { load, count, ..tasks() }.to_string();
        assert_eq!(words(Load::Nap, 1), "1 task that sleeps for 1 ms after each 10 ms on any CPU");
        assert_eq!(words(Load::Burnwait, 2), "2 tasks that sleep at times on any CPU");
        assert_eq!(words(Load::Yield, 1), "1 task that yields after each 200 us on any CPU");
    }

    #[test]
    fn a_change_says_what_changes() {
        let cpus = |text: &str| Some(text.parse::<CpuSet>().unwrap());
        let set = Tasks { count: 2, cpus: cpus("0-1"), ..tasks() };
        let changed = |later: &str, nice: i32, count: Option<u32>| {
            let change = Change { cpus: cpus(later), nice, count, ..change() };
            let set = Tasks { change: Some(change), ..set.clone() };
            let mut text = String::new();
            set.write(0, "4x2".parse().unwrap(), &mut text);
            let (_, text) = text.split_once("at = \"500ms\"\n").unwrap();
            (set.to_string(), text.replace('\n', ";"))
        };
        let knobs = "[workload.set.change.knobs];";
        for ((later, nice, count), words, text) in [
            (("2", 0, None), "held to CPU 2", format!("{knobs}affinity = \"2\";")),
            (("0-1", 0, Some(4)), "4 of them", "count = 4;".to_string()),
            (("0-1", 5, Some(1)), "1 of them with nice 5", format!("count = 1;{knobs}nice = 5;")),
            (
                ("2", 0, Some(1)),
                "1 of them held to CPU 2",
                format!("count = 1;{knobs}affinity = \"2\";"),
            ),
        ] {
            let words = format!("2 tasks on CPUs 0-1, from 500 ms on {words}");
            assert_eq!(changed(later, nice, count), (words, text));
        }
        let later = (Some(Policy::Idle), Some(100));
        let change = Change { cpus: cpus("0-1"), policy: later.0, slice_us: later.1, ..change() };
        let set = Tasks { change: Some(change), ..set };
        let mut text = String::new();
        set.write(0, "4x2".parse().unwrap(), &mut text);
        assert!(
            text.ends_with(
                &format!("{knobs}policy = \"idle\";slice = \"100us\";").replace(';', "\n")
            )
        );
        let words = ", from 500 ms on under policy idle with slices of 100 us";
        assert!(set.to_string().ends_with(words), "{set}");
    }

    #[test]
    fn a_machine_is_cpus_and_caches_that_divide_them() {
        assert_eq!("4x2".parse(), Ok(Machine { cpus: 4, llcs: 2, nodes: 1, threads: 1 }));
        for text in ["4x2", "8x4n2t2", "8x2t4", "6x3n3"] {
            assert_eq!(text.parse::<Machine>().unwrap().to_string(), text);
        }
        for wrong in [
            "", "4", "4x", "x2", "4x3", "1x1", "4x0", "64x2", "-4x2", "4x2x1", "4x2n0", "4x2n3",
            "4x2n", "4x2t", "4x1n2", "4x2n4", "6x2n3", "6x3n2", "4x2t0", "4x4t2", "4x2n4t2",
            "4x2t2n2", "4n2",
        ] {
            assert!(wrong.parse::<Machine>().is_err(), "{wrong}");
        }
        let why = "6x4".parse::<Machine>().unwrap_err();
        assert!(why.ends_with("4 caches do not divide 6 CPUs: 1, 2, 3, 6"), "{why}");
    }
}
