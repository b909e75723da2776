//! Steps of a set as phases and events of rt-app. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{CgroupPath, CpuSet, ValueError, clean};
use crate::workload::{self, Step, StepPhase, StepScript, StepTimes, TimerPlace};

use super::text::{Members, Out, number, text};
use super::unheld::{unheld, us};
use crate::plan::rt_app::task::policy_name;

const STEPS: &str = workload::STEPS;
/// Timers whose names begin so are of each thread.
const UNIQUE: &str = "unique";
/// The reader of rt-app's files shortens longer names.
const MAX_NAME_BYTES: usize = workload::MAX_STEP_NAME_BYTES - 8;

/// The things that sets of one workload have in common.
#[derive(Default)]
pub struct Common<'a> {
    /// The names of tasks, those that are only forked included.
    pub tasks: Vec<&'a str>,
    /// For each barrier the number of workers that name it.
    pub barriers: BTreeMap<&'a str, u64>,
    /// Shared timers that an `absolute` step names, and those that another one names.
    pub absolute: BTreeSet<&'a str>,
    pub relative: BTreeSet<&'a str>,
}

/// The steps of one set.
pub struct Steps<'a> {
    /// Names the set in messages.
    pub place: &'a str,
    /// The name of its task.
    pub task: &'a str,
    pub script: &'a StepScript,
    pub common: &'a Common<'a>,
}

impl Steps<'_> {
    /// The events of the task, or its phases.
    pub fn members(&self) -> Result<Members, ValueError> {
        self.check_length()?;
        for name in self.script.things.iter().map(|(_, name)| name).chain(&self.script.timers) {
            check_name(self.place, STEPS, name)?;
        }
        match &self.script.phases[..] {
            [phase] if phase.times == Some(1) => self.events(&phase.steps),
            phases => {
                let mut all = Members::default();
                for (at, phase) in phases.iter().enumerate() {
                    all.add(&format!("phase{}", at + 1), Out::Object(self.phase(phase)?));
                }
                let mut members = Members::default();
                members.add("phases", Out::Object(all));
                Ok(members)
            }
        }
    }

    /// Refuses steps that would be too many to be read back, since each post is an event.
    fn check_length(&self) -> Result<(), ValueError> {
        let events = |step: &Step| if let Step::Post { times, .. } = step { *times } else { 1 };
        let words = match &self.script.phases[..] {
            [phase] if phase.times == Some(1) => 0,
            phases => phases.len(),
        };
        let all = words + self.script.steps().map(|step| events(step) as usize).sum::<usize>();
        if all > workload::MAX_STEPS {
            let why = format!("the plan is too long: {all} events, since each post is one");
            let hint = format!("at most {}: fewer posts of `post NAME N`", workload::MAX_STEPS);
            return Err(self.unheld(why, &hint));
        }
        Ok(())
    }

    fn unheld(&self, why: String, hint: &str) -> ValueError {
        unheld(self.place, STEPS, why, hint)
    }

    fn phase(&self, phase: &StepPhase) -> Result<Members, ValueError> {
        let mut members = Members::default();
        members.add("loop", phase.times.map_or_else(|| number(-1), number));
        let is_setting =
            |step: &&Step| matches!(step, Step::Policy { .. } | Step::Cpus(_) | Step::Cgroup(_));
        let settings = phase.steps.iter().take_while(is_setting).count();
        let (settings, steps) = phase.steps.split_at(settings);
        if !settings.is_empty() && self.script.phases.len() == 1 {
            let why = "the settings of its only phase are those of the task".to_string();
            return Err(self.unheld(why, "knobs = { policy = \"fifo\", priority = 50 }"));
        }
        let moves =
            |phase: &StepPhase| phase.steps.iter().any(|step| matches!(step, Step::Cpus(_)));
        if moves_somewhere(self.script) && !moves(phase) {
            let why =
                "a phase without CPUs of its own has those of the task, not of the phase before it";
            return Err(
                self.unheld(why.to_string(), "\"cpus all\" or CPUs at the begin of each phase")
            );
        }
        let (mut policies, mut cpus, mut cgroups) = (0, 0, 0);
        for step in settings {
            match step {
                Step::Policy { policy, priority } => {
                    policies += 1;
                    let policy = policy.map(|policy| policy.word());
                    policy.iter().for_each(|word| members.add("policy", text(policy_name(word))));
                    if policy != Some("idle") || *priority != 0 {
                        members.add("priority", number(*priority));
                    }
                }
                Step::Cpus(set) => {
                    cpus += 1;
                    set.iter().for_each(|set| members.add("cpus", cpu_list(set)));
                }
                Step::Cgroup(cgroup) => {
                    cgroups += 1;
                    let path = self.script.cgroups[*cgroup].as_ref();
                    members.add("taskgroup", task_group(path));
                }
                _ => {}
            }
        }
        if policies.max(cpus).max(cgroups) > 1 {
            let why = "a phase has one policy, one priority, one list of CPUs and one task group";
            let why = why.to_string();
            return Err(self.unheld(why, "\"phase 1\" before the second one"));
        }
        members.append(self.events(steps)?);
        Ok(members)
    }

    fn events(&self, steps: &[Step]) -> Result<Members, ValueError> {
        let mut members = Members::default();
        for step in steps {
            let times = if let Step::Post { times, .. } = step { *times } else { 1 };
            for _ in 0..times {
                let (event, value) = self.event(step)?;
                members.add_event(event, value);
            }
        }
        Ok(members)
    }

    fn event(&self, step: &Step) -> Result<(&'static str, Out), ValueError> {
        let name = |thing: &usize| self.script.things[*thing].1.as_str();
        let named = |event: &'static str, thing: &usize| Ok((event, text(name(thing))));
        match step {
            Step::Burn(times) => self.drawn("run", times, "burn"),
            Step::Spin(ns) => Ok(("runtime", number(us(self.place, STEPS, *ns)?))),
            Step::Sleep(times) => self.drawn("sleep", times, "sleep"),
            Step::Timer { timer, period_ns, absolute } => self.timer(*timer, *period_ns, *absolute),
            Step::Lock(lock) => named("lock", lock),
            Step::Unlock(lock) => named("unlock", lock),
            Step::Wait { condition, lock } => {
                let members = [("ref", name(condition)), ("mutex", name(lock))];
                Ok(("wait", Members::inline(&members, None)))
            }
            Step::Signal(condition) => named("signal", condition),
            Step::Broadcast(condition) => named("broad", condition),
            Step::Suspend(task) if name(task) == self.task => named("suspend", task),
            Step::Suspend(task) => {
                let why =
                    format!("a thread suspends itself, `{}`, not `{}`", self.task, name(task));
                Err(self.unheld(why, "semaphores: \"post NAME\" and \"take NAME\""))
            }
            Step::Resume(task) => self.started("resume", name(task)),
            Step::Post { semaphore, .. } | Step::Take(semaphore)
                if self.script.is_pipe(*semaphore) =>
            {
                let why = format!("`{}` is written and read, as a pipe", name(semaphore));
                Err(self.unheld(why, "semaphores: \"post NAME\" and \"take NAME\""))
            }
            Step::Post { semaphore, .. } => named("sem_post", semaphore),
            Step::Take(semaphore) => named("sem_wait", semaphore),
            Step::Barrier { barrier, workers } => self.barrier(name(barrier), *workers),
            Step::Fork { fork, .. } => self.started("fork", name(fork)),
            Step::Yield => Ok(("yield", text(""))),
            Step::Memory(bytes) => Ok(("mem", number(bytes))),
            Step::Output(bytes) => Ok(("iorun", number(bytes))),
            Step::Cpus(_) | Step::Policy { .. } | Step::Cgroup(_) => {
                let why = "`cpus`, `policy`, `priority` and `cgroup` come at the begin of one of several phases";
                Err(self.unheld(why.to_string(), "\"phase 1\" before it, or knobs of the set"))
            }
        }
    }

    /// A step with one time, or with several of which it draws one.
    fn drawn(
        &self,
        event: &'static str,
        times: &StepTimes,
        word: &str,
    ) -> Result<(&'static str, Out), ValueError> {
        let ns = times.only_ns().ok_or_else(|| {
            self.unheld(
                format!("its times are fixed, and a `{word}` draws one of several"),
                "one time",
            )
        })?;
        Ok((event, number(us(self.place, STEPS, ns)?)))
    }

    fn timer(
        &self,
        timer: TimerPlace,
        period_ns: u64,
        is_absolute: bool,
    ) -> Result<(&'static str, Out), ValueError> {
        let name = match timer {
            TimerPlace::Own(own) => own_timer(&self.script.timers[own]),
            TimerPlace::Shared(shared) => self.script.things[shared].1.clone(),
        };
        let is_shared = matches!(timer, TimerPlace::Shared(_));
        if is_shared && name.starts_with(UNIQUE) {
            let why = format!("timers whose names begin with `{UNIQUE}` are not shared: `{name}`");
            return Err(self.unheld(why, "another name"));
        }
        let own = self.script.timers.iter().filter(|own| own_timer(own) == name);
        if !is_shared && own.count() > 1 {
            let why = format!("two of its timers would have the name `{name}`");
            return Err(self.unheld(why, "another name"));
        }
        let others = if is_absolute { &self.common.relative } else { &self.common.absolute };
        let is_both = is_shared && others.contains(name.as_str());
        if is_both || self.has_timer(timer, !is_absolute) {
            let why =
                format!("a timer is `absolute` or not in all its steps, and `{name}` is both");
            return Err(self.unheld(why, "two timers, each with its name"));
        }
        let mut members = vec![("ref", name.as_str())];
        members.extend(is_absolute.then_some(("mode", "absolute")));
        let period_us = us(self.place, STEPS, period_ns)?;
        Ok(("timer", Members::inline(&members, Some(("period", period_us)))))
    }

    /// Whether it has a step of this own timer that is absolute, or one that is not.
    fn has_timer(&self, timer: TimerPlace, is_absolute: bool) -> bool {
        let is_one = |step: &Step| match step {
            Step::Timer { timer: other, absolute, .. } => {
                *other == timer && *absolute == is_absolute
            }
            _ => false,
        };
        self.script.steps().any(is_one)
    }

    /// An event that goes to the threads of a task.
    fn started(&self, event: &'static str, task: &str) -> Result<(&'static str, Out), ValueError> {
        if self.common.tasks.contains(&task) {
            return Ok((event, text(task)));
        }
        let why = format!("`{event} {task}` names no set");
        Err(self.unheld(why, "the name of a set; of a fork, one with this name under `forked`"))
    }

    fn barrier(&self, name: &str, workers: u32) -> Result<(&'static str, Out), ValueError> {
        let named = self.common.barriers.get(name).copied().unwrap_or_default();
        if named == u64::from(workers) {
            return Ok(("barrier", text(name)));
        }
        let why = format!("`barrier {name} {workers}` is for {named}: as many workers name it");
        Err(self.unheld(why, &format!("\"barrier {name} {named}\"")))
    }
}

fn moves_somewhere(script: &StepScript) -> bool {
    script.steps().any(|step| matches!(step, Step::Cpus(_)))
}

/// The name of a thread's own timer.
fn own_timer(name: &str) -> String {
    match name {
        "" => UNIQUE.to_string(),
        name if name.starts_with(UNIQUE) => name.to_string(),
        name => format!("{UNIQUE}-{name}"),
    }
}

/// `None`: that of the run.
pub fn task_group(path: Option<&CgroupPath>) -> Out {
    text(&format!("/{}", path.map_or("", CgroupPath::as_str)))
}

pub fn cpu_list(cpus: &CpuSet) -> Out {
    let cpus: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
    Out::Plain(format!("[{}]", cpus.join(", ")))
}

/// Refuses a name that would be read back as another one.
pub fn check_name(place: &str, key: &str, name: &str) -> Result<(), ValueError> {
    const MAX_BYTES: usize = MAX_NAME_BYTES - UNIQUE.len() - 1;
    let fits = |c: &char| workload::is_step_name(&c.to_string());
    let wrong = if let Some(bad) = name.chars().find(|c| !fits(c)) {
        format!("has `{bad}` in it, and a name has letters, digits and -_. alone")
    } else if name.starts_with('-') {
        "begins with `-`, and a name does not".to_string()
    } else if name.len() > MAX_BYTES {
        format!("has {} characters, and a name has {MAX_BYTES} at most", name.len())
    } else {
        return Ok(());
    };
    let other: String = name.chars().map(|c| if fits(&c) { c } else { '-' }).collect();
    let other: String = other.trim_matches('-').chars().take(MAX_BYTES).collect();
    let hint = match other.as_str() {
        "" => "give it another name".to_string(),
        other => format!("rename it, for example to `{other}`"),
    };
    Err(unheld(place, key, format!("`{}` {wrong}", clean(name)), hint))
}
