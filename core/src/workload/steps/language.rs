//! The steps of a worker in a plan: `burn 10ms`, `timer 30ms`, `lock m`. Pure.

use std::time::Duration;

use crate::model::{CgroupPath, CpuSet, duration_ns, size_bytes};
use crate::sys::sched::Policy;
use crate::workload::WorkloadError;
use crate::workload::things::Sort;

pub const STEPS: &str = "steps";
pub const MAX_STEPS: usize = 10_000;
pub const MAX_STEP_NS: u64 = 24 * 3_600_000_000_000;
pub const MAX_TIMES: u64 = 1_000_000_000;
pub const MAX_BYTES: u64 = 1 << 40;
pub const MAX_NAME_BYTES: usize = 64;
/// Times of which a step draws one.
const MAX_DRAWN: usize = 64;
const MAX_POSTS: u64 = 10_000;
const MAX_BARRIER: u64 = 100_000;

/// The cgroup of the run, in which all others are.
pub const RUN_CGROUP: &str = "/";

const HINT: &str = "\"burn 10ms\", \"timer 30ms\", \"lock m\", \"phase 10\": schedlab help rt-app";

/// Things are indices into [`Script::things`].
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// CPU work of this time at full speed.
    Burn(Times),
    /// CPU work until so much time has passed.
    Spin(u64),
    Sleep(Times),
    Timer {
        timer: TimerPlace,
        period_ns: u64,
        absolute: bool,
    },
    Lock(usize),
    Unlock(usize),
    Wait {
        condition: usize,
        lock: usize,
    },
    Signal(usize),
    Broadcast(usize),
    Suspend(usize),
    Resume(usize),
    Post {
        semaphore: usize,
        times: u32,
    },
    Take(usize),
    Barrier {
        barrier: usize,
        workers: u32,
    },
    Fork {
        fork: usize,
        free: usize,
    },
    Yield,
    /// Bytes written to memory.
    Memory(u64),
    /// Bytes written to /dev/null.
    Output(u64),
    /// `None`: all of the pool.
    Cpus(Option<CpuSet>),
    /// Another policy, or the same one; a nice value, or a priority where the policy has them.
    Policy {
        policy: Option<Policy>,
        priority: i32,
    },
    /// An index into [`Script::cgroups`].
    Cgroup(usize),
}

/// A time, or several of which each use draws one, all equally often.
#[derive(Debug, Clone, PartialEq)]
pub struct Times(Vec<u64>);

impl Times {
    /// `draw`: from all of 64 bits.
    #[inline]
    pub fn ns(&self, draw: u64) -> u64 {
        match self.0[..] {
            [ns] => ns,
            ref all => all[((u128::from(draw) * all.len() as u128) >> 64) as usize],
        }
    }

    fn map(&mut self, change: impl Fn(u64) -> u64) {
        self.0.iter_mut().for_each(|ns| *ns = change(*ns));
    }

    pub fn shortest_ns(&self) -> u64 {
        self.0.iter().copied().min().unwrap_or_default()
    }

    /// The time, where there is one alone.
    pub fn only_ns(&self) -> Option<u64> {
        if let [ns] = self.0[..] { Some(ns) } else { None }
    }
}

impl Step {
    /// How long it lasts at least, where it is done for the first time.
    pub fn shortest_ns(&self) -> u64 {
        match self {
            Step::Burn(times) | Step::Sleep(times) => times.shortest_ns(),
            Step::Spin(ns) | Step::Timer { period_ns: ns, .. } => *ns,
            _ => 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerPlace {
    /// An index into the worker's own.
    Own(usize),
    Shared(usize),
}

/// Steps that are done one after the other, so many times; `None`: without end.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// The name by which an [`Order`] finds it.
    pub part: Option<String>,
    pub times: Option<u64>,
    pub steps: Vec<Step>,
}

impl Phase {
    /// Whether no worker depends on one that sleeps between two passes of it: none waits for another one but for a
    /// lock, and each lock is free again at the end. An absolute timer would make up for all that it missed.
    pub fn is_free(&self) -> bool {
        let mut held = Vec::new();
        let is_free = self.steps.iter().all(|step| {
            match step {
                Step::Lock(lock) => held.push(*lock),
                Step::Unlock(lock) => held.retain(|own| own != lock),
                Step::Wait { .. }
                | Step::Suspend(_)
                | Step::Take(_)
                | Step::Barrier { .. }
                | Step::Fork { .. }
                | Step::Timer { absolute: true, .. } => return false,
                _ => {}
            }
            true
        });
        is_free && held.is_empty()
    }
}

/// The way of a worker to its steps and from them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Course {
    /// A fork starts it.
    pub is_forked: bool,
    /// It sleeps before its first step.
    pub is_delayed: bool,
    /// The number of its loops is given.
    pub has_loops: bool,
}

/// All steps of a worker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    pub phases: Vec<Phase>,
    pub things: Vec<(Sort, String)>,
    /// The worker's own timers.
    pub timers: Vec<String>,
    /// The cgroups that it moves to; `None`: that of the run.
    pub cgroups: Vec<Option<CgroupPath>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("is not a step")]
    Unknown,
    #[error("has no time with its unit")]
    Time,
    #[error("has a time above {} h", Duration::from_nanos(MAX_STEP_NS).as_secs() / 3_600)]
    TooLong,
    #[error("has more than {MAX_DRAWN} times")]
    Drawn,
    #[error("has no name of letters, digits and -_.")]
    Name,
    #[error("has no number from {0} to {1}")]
    Number(i64, u64),
    #[error("has no size with its unit, up to 1024 GiB")]
    Size,
    #[error("has no list of CPUs")]
    Cpus,
    #[error("has no policy other, batch, idle, fifo or rr")]
    Policy,
    #[error("has neither the path of a cgroup nor /")]
    Cgroup,
    #[error("begins a phase without steps")]
    Empty,
    #[error("is one step too many: {MAX_STEPS} are possible")]
    TooMany,
}

impl Script {
    pub fn read(steps: &[&str]) -> Result<Script, WorkloadError> {
        let refuse = |text: &str, problem: Problem| WorkloadError::Param {
            param: STEPS,
            value: text.to_string(),
            problem: problem.to_string(),
            hint: HINT,
        };
        if let Some(text) = steps.get(MAX_STEPS) {
            return Err(refuse(text, Problem::TooMany));
        }
        let mut script = Script::default();
        // The text that began the last phase.
        let mut begun: Option<&str> = None;
        for text in steps {
            let words: Vec<&str> = text.split_whitespace().collect();
            if let Some(phase) = phase(&words).map_err(|problem| refuse(text, problem))? {
                script.close(begun).map_err(|text| refuse(text, Problem::Empty))?;
                script.phases.push(phase);
                begun = Some(text);
                continue;
            }
            let step = script.step(&words).map_err(|problem| refuse(text, problem))?;
            match script.phases.last_mut() {
                Some(phase) => phase.steps.push(step),
                None => script.phases.push(Phase { part: None, times: Some(1), steps: vec![step] }),
            }
        }
        script.close(begun.or(Some(""))).map_err(|text| refuse(text, Problem::Empty))?;
        Ok(script)
    }

    /// Refuses a last phase without steps.
    fn close<'t>(&self, begun: Option<&'t str>) -> Result<(), &'t str> {
        match (begun, self.phases.last()) {
            (Some(text), None) => Err(text),
            (Some(text), Some(phase)) if phase.steps.is_empty() => Err(text),
            _ => Ok(()),
        }
    }

    fn step(&mut self, words: &[&str]) -> Result<Step, Problem> {
        Ok(match *words {
            ["burn", times] => Step::Burn(times_ns(times)?),
            ["spin", time] => Step::Spin(time_ns(time)?),
            ["sleep", times] => Step::Sleep(times_ns(times)?),
            ["timer" | "shared-timer", ..] => self.timer(words)?,
            ["lock", name] => Step::Lock(self.thing(Sort::Lock, name)?),
            ["unlock", name] => Step::Unlock(self.thing(Sort::Lock, name)?),
            ["wait", condition, lock] => Step::Wait {
                condition: self.thing(Sort::Condition, condition)?,
                lock: self.thing(Sort::Lock, lock)?,
            },
            ["signal", name] => Step::Signal(self.thing(Sort::Condition, name)?),
            ["broadcast", name] => Step::Broadcast(self.thing(Sort::Condition, name)?),
            ["suspend", name] => Step::Suspend(self.thing(Sort::Suspension, name)?),
            ["resume", name] => Step::Resume(self.thing(Sort::Suspension, name)?),
            [word @ ("post" | "write"), name] => {
                Step::Post { semaphore: self.thing(semaphore(word), name)?, times: 1 }
            }
            [word @ ("post" | "write"), name, times] => Step::Post {
                semaphore: self.thing(semaphore(word), name)?,
                times: number(times, 1, MAX_POSTS)? as u32,
            },
            [word @ ("take" | "read"), name] => Step::Take(self.thing(semaphore(word), name)?),
            ["barrier", name, workers] => Step::Barrier {
                barrier: self.thing(Sort::Barrier, name)?,
                workers: number(workers, 1, MAX_BARRIER)? as u32,
            },
            ["fork", name] => Step::Fork {
                fork: self.thing(Sort::Fork, name)?,
                free: self.thing(Sort::Free, name)?,
            },
            ["yield"] => Step::Yield,
            ["memory", size] => Step::Memory(bytes(size)?),
            ["output", size] => Step::Output(bytes(size)?),
            ["cpus", "all"] => Step::Cpus(None),
            ["cpus", cpus] => Step::Cpus(Some(cpus.parse().map_err(|_| Problem::Cpus)?)),
            ["policy", word] => policy_step(policy(word)?, "0")?,
            ["policy", word, of] => policy_step(policy(word)?, of)?,
            ["cgroup", path] => {
                let path = cgroup(path)?;
                Step::Cgroup(place_in(&mut self.cgroups, |own| *own == path, || path.clone()))
            }
            ["priority", of] => Step::Policy { policy: None, priority: signed(of, -20, 98)? },
            _ => return Err(Problem::Unknown),
        })
    }

    /// `timer [NAME] TIME [absolute]`, `shared-timer NAME TIME [absolute]`.
    fn timer(&mut self, words: &[&str]) -> Result<Step, Problem> {
        let (absolute, words) = match words {
            [words @ .., "absolute"] => (true, words),
            _ => (false, words),
        };
        let (timer, time) = match *words {
            ["timer", time] => (self.own_timer(""), time),
            ["timer", name, time] => (self.own_timer(checked_name(name)?), time),
            ["shared-timer", name, time] => {
                (TimerPlace::Shared(self.thing(Sort::Timer, name)?), time)
            }
            _ => return Err(Problem::Unknown),
        };
        Ok(Step::Timer { timer, period_ns: time_ns(time)?, absolute })
    }

    fn own_timer(&mut self, name: &str) -> TimerPlace {
        TimerPlace::Own(place_in(&mut self.timers, |own| own == name, || name.to_string()))
    }

    fn thing(&mut self, sort: Sort, name: &str) -> Result<usize, Problem> {
        let name = checked_name(name)?;
        let is_it = |(own, named): &(Sort, String)| *own == sort && named == name;
        Ok(place_in(&mut self.things, is_it, || (sort, name.to_string())))
    }

    /// With its wakeups by time so many times as often: sleeps and periods are as much shorter.
    pub fn at_rate(mut self, rate: f64) -> Script {
        let shorter = |ns: u64| (ns as f64 / rate).round().min(MAX_STEP_NS as f64) as u64;
        for step in self.phases.iter_mut().flat_map(|phase| &mut phase.steps) {
            match step {
                Step::Sleep(times) => times.map(shorter),
                Step::Timer { period_ns, .. } => *period_ns = shorter(*period_ns),
                _ => {}
            }
        }
        self
    }

    /// Whether a chain of wakeups may end at its workers: one is woken by a post, or by a fork that starts it, and then
    /// waits again, or has done its loops, without waking another one.
    pub fn ends_chains(&self, course: Course) -> bool {
        let Course { is_forked, is_delayed, has_loops } = course;
        // It sleeps before its first step.
        if is_forked && is_delayed {
            return true;
        }
        let has_parts = self.phases.iter().any(|phase| phase.part.is_some());
        let ends = |steps: &mut dyn Iterator<Item = &Step>, comes_again: bool| {
            let mut is_woken = is_forked;
            for step in steps {
                match step {
                    Step::Take(_) | Step::Sleep(_) | Step::Timer { .. } => {
                        if is_woken {
                            return true;
                        }
                        is_woken = matches!(step, Step::Take(_));
                    }
                    Step::Post { .. } | Step::Fork { .. } => is_woken = false,
                    _ => {}
                }
            }
            is_woken && !comes_again
        };
        if has_parts {
            return self.phases.iter().any(|part| ends(&mut part.steps.iter(), false));
        }
        ends(&mut self.steps().chain(self.steps()), !is_forked && !has_loops)
    }

    /// Whether its workers read this thing, as a pipe.
    pub fn reads(&self, thing: usize) -> bool {
        self.is_pipe(thing) && self.steps().any(|step| *step == Step::Take(thing))
    }

    /// Whether a thing is a semaphore that is read and written.
    pub fn is_pipe(&self, thing: usize) -> bool {
        self.things[thing].0 == Sort::Pipe
    }

    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.phases.iter().flat_map(|phase| &phase.steps)
    }
}

/// The sort of semaphore that this word posts or takes.
fn semaphore(word: &str) -> Sort {
    if matches!(word, "write" | "read") { Sort::Pipe } else { Sort::Semaphore }
}

/// The phase that these words begin, without steps.
fn phase(words: &[&str]) -> Result<Option<Phase>, Problem> {
    let (part, times) = match *words {
        ["phase", "endless"] => (None, None),
        ["phase", times] => (None, Some(number(times, 1, MAX_TIMES)?)),
        ["part", name] => (Some(checked_name(name)?.to_string()), Some(1)),
        _ => return Ok(None),
    };
    Ok(Some(Phase { part, times, steps: Vec::new() }))
}

/// Where it stands in the list; it is added if it is not there.
pub fn place_in<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, make: impl Fn() -> T) -> usize {
    list.iter().position(is_it).unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    })
}

pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(fits)
}

fn checked_name(name: &str) -> Result<&str, Problem> {
    Some(name).filter(|name| is_name(name)).ok_or(Problem::Name)
}

fn time_ns(text: &str) -> Result<u64, Problem> {
    let ns = duration_ns(text).map_err(|_| Problem::Time)?;
    if ns > MAX_STEP_NS { Err(Problem::TooLong) } else { Ok(ns) }
}

/// `10us|20us|1ms`.
fn times_ns(text: &str) -> Result<Times, Problem> {
    let times: Vec<u64> = text.split('|').map(time_ns).collect::<Result<_, _>>()?;
    if times.len() > MAX_DRAWN { Err(Problem::Drawn) } else { Ok(Times(times)) }
}

fn number(text: &str, min: u64, max: u64) -> Result<u64, Problem> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or(Problem::Number(min as i64, max))
}

fn signed(text: &str, min: i32, max: i32) -> Result<i32, Problem> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or(Problem::Number(min.into(), max as u64))
}

fn bytes(text: &str) -> Result<u64, Problem> {
    size_bytes(text).ok().filter(|bytes| *bytes <= MAX_BYTES).ok_or(Problem::Size)
}

/// `None`: that of the run.
fn cgroup(path: &str) -> Result<Option<CgroupPath>, Problem> {
    match path {
        RUN_CGROUP => Ok(None),
        path => path.parse().map(Some).map_err(|_| Problem::Cgroup),
    }
}

fn policy(word: &str) -> Result<Policy, Problem> {
    let policy = Policy::from_word(word).filter(|policy| *policy != Policy::Deadline);
    policy.ok_or(Problem::Policy)
}

/// 99 is the priority of the thread that measures.
fn policy_step(policy: Policy, of: &str) -> Result<Step, Problem> {
    let priority = if policy.takes_priority() { signed(of, 1, 98)? } else { signed(of, -20, 19)? };
    Ok(Step::Policy { policy: Some(policy), priority })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn steps_are_read_and_names_are_of_their_sort() {
        let script = Script::read(&[
            "burn 1.5ms",
            "timer 30ms",
            "phase 3",
            "lock m",
            "wait m m",
            "unlock m",
            "shared-timer tick 6ms absolute",
            "phase endless",
            "barrier m 2",
            "timer a 1h",
            "policy fifo 50",
            "cpus 0-1",
            "burn 1ms|2ms",
            "post s 3",
            "read s",
            "write s",
            "cgroup a/b",
            "cgroup /",
            "cgroup a/b",
        ])
        .unwrap();
        let [first, second, third] = &script.phases[..] else { panic!("{script:?}") };
        let own = Step::Timer { timer: TimerPlace::Own(0), period_ns: 30 * MS, absolute: false };
        assert_eq!(
            *first,
            Phase {
                part: None,
                times: Some(1),
                steps: vec![Step::Burn(Times(vec![3 * MS / 2])), own]
            }
        );
        let tick = Step::Timer { timer: TimerPlace::Shared(2), period_ns: 6 * MS, absolute: true };
        let wait = Step::Wait { condition: 1, lock: 0 };
        assert_eq!(second.steps, [Step::Lock(0), wait, Step::Unlock(0), tick]);
        assert_eq!((second.times, third.times), (Some(3), None));
        assert_eq!(third.steps[0], Step::Barrier { barrier: 3, workers: 2 });
        let sorts: Vec<Sort> = script.things.iter().map(|(sort, _)| *sort).collect();
        use Sort::{Barrier, Condition, Lock, Pipe, Semaphore, Timer};
        assert_eq!(sorts, [Lock, Condition, Timer, Barrier, Semaphore, Pipe]);
        assert_eq!(script.timers, ["", "a"]);
        let drawn = Times(vec![MS, 2 * MS]);
        assert_eq!(
            [0, u64::MAX / 2, u64::MAX / 2 + 1].map(|draw| drawn.ns(draw)),
            [MS, MS, 2 * MS]
        );
        let post = |semaphore, times| Step::Post { semaphore, times };
        assert_eq!(third.steps[4..8], [Step::Burn(drawn), post(4, 3), Step::Take(5), post(5, 1)]);
        assert_eq!(third.steps[8..], [0, 1, 0].map(Step::Cgroup));
        assert_eq!(script.cgroups, ["a/b".parse().ok(), None]);
        assert_eq!(third.steps[2], Step::Policy { policy: Some(Policy::Fifo), priority: 50 });
    }

    #[test]
    fn a_rate_divides_the_times_that_pass_without_work() {
        let script = |steps: &[&str]| Script::read(steps).unwrap();
        let written = ["burn 2ms|4ms", "sleep 2ms|5ms", "spin 2ms", "phase 2", "timer t 3ms"];
        let twice = ["burn 2ms|4ms", "sleep 1ms|2500us", "spin 2ms", "phase 2", "timer t 1500us"];
        assert_eq!(script(&written).at_rate(2.0), script(&twice));
        assert_eq!(script(&twice).at_rate(0.5), script(&written));
        assert_eq!(script(&["sleep 1h"]).at_rate(1e-300), script(&["sleep 24h"]));
    }

    #[test]
    fn a_wrong_step_is_refused_with_its_text() {
        let cases: &[(&[&str], &str, &str)] = &[
            (&[], "", "begins a phase without steps"),
            (&["burn 1ms", "phase 2"], "phase 2", "begins a phase without steps"),
            (&["phase 2", "phase 3", "burn 1ms"], "phase 2", "begins a phase without steps"),
            (&["phase 0", "burn 1ms"], "phase 0", "has no number from 1 to 1000000000"),
            (&["burn 10"], "burn 10", "has no time with its unit"),
            (&["burn 25h"], "burn 25h", "has a time above 24 h"),
            (&["jump"], "jump", "is not a step"),
            (&["burn"], "burn", "is not a step"),
            (&["lock a/b"], "lock a/b", "has no name"),
            (&["wait c"], "wait c", "is not a step"),
            (&["timer"], "timer", "is not a step"),
            (&["memory 2048GiB"], "memory 2048GiB", "has no size"),
            (&["policy deadline"], "policy deadline", "has no policy"),
            (&["policy other 20"], "policy other 20", "has no number from -20 to 19"),
            (&["policy rr"], "policy rr", "has no number from 1 to 98"),
            (&["policy fifo 99"], "policy fifo 99", "has no number from 1 to 98"),
            (&["priority 99"], "priority 99", "has no number from -20 to 98"),
            (&["burn 1ms|2"], "burn 1ms|2", "has no time with its unit"),
            (&["post s 0"], "post s 0", "has no number from 1 to 10000"),
            (&["part a/b"], "part a/b", "has no name"),
            (&["part a"], "part a", "begins a phase without steps"),
            (&["cpus x"], "cpus x", "has no list of CPUs"),
            (&["cgroup"], "cgroup", "is not a step"),
            (&["cgroup /a"], "cgroup /a", "has neither the path of a cgroup nor /"),
            (&["cgroup ../x"], "cgroup ../x", "has neither the path"),
        ];
        for (steps, text, problem) in cases {
            let error = Script::read(steps).unwrap_err();
            assert_eq!(error.place(), Some((STEPS, Some(*text))), "{steps:?}");
            assert!(error.to_string().contains(problem), "{steps:?}: {error}");
        }
        let many = vec!["yield"; MAX_STEPS + 1];
        assert!(Script::read(&many[1..]).is_ok());
        assert!(Script::read(&many).unwrap_err().to_string().contains("one step too many"));
    }
}
