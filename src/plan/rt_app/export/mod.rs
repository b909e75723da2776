//! A plan's worker sets as a file of rt-app, where its language can hold them. Pure.
//!
//! The file has the load and its duration. Rounds, warm-up, variants and probes are the way to measure it, which rt-app
//! has no words for; all that belongs to the load and has none is an error.

mod events;
mod same;
mod scheduling;
mod text;
mod unheld;

use crate::model::{
    Cgroup, MemoryPlacement, Placement, Plan, Value, ValueError, Work, WorkerKind, WorkerSet,
    clean, show_duration,
};
use crate::plan::fields::{AT, CHANGE, FOR, MAX_TEXT_BYTES, OFFLINE, OPS};
use crate::variant::CGROUP_KNOB;
use crate::workload::{self, Step, StepScript, TimerPlace};

use events::{Common, Steps, check_name};
use text::{Members, Out, number};
use unheld::{unheld, us};

pub use same::difference;

const SECOND_NS: u64 = 1_000_000_000;

/// A set with its steps.
struct Task<'a> {
    set: &'a WorkerSet,
    script: StepScript,
    /// The name of its task in the file.
    name: &'a str,
    /// Its workers only come into being by forks.
    is_forked: bool,
}

/// The file of rt-app with the load of this plan.
pub fn to_rt_app(plan: &Plan) -> Result<String, ValueError> {
    let work = only_work(plan)?;
    check_placement(&plan.placement)?;
    work.cgroups.iter().try_for_each(check_cgroup)?;
    let tasks = work.sets.iter().map(Task::new).collect::<Result<Vec<_>, _>>()?;
    let mut common = Common::default();
    tasks.iter().for_each(|task| task.note(&mut common));
    let mut members = Members::default();
    for task in &tasks {
        // The forks of a task that has workers from the begin on need no task of their own.
        let is_there = |other: &Task| !other.is_forked && other.name == task.name;
        if !task.is_forked || !tasks.iter().any(is_there) {
            members.add(task.name, Out::Object(task.members(&common)?));
        }
    }
    let mut file = Members::default();
    file.add("global", Out::Object(global(plan, &tasks)?));
    file.add("tasks", Out::Object(members));
    let text = file.write(0) + "\n";
    if text.len() > MAX_TEXT_BYTES {
        let message =
            format!("the plan is too long for rt-app: its file would have {} bytes", text.len());
        let hint =
            format!("at most {MAX_TEXT_BYTES}: fewer steps, or fewer posts of `post NAME N`");
        return Err(ValueError { message, hint });
    }
    Ok(text)
}

fn only_work(plan: &Plan) -> Result<&Work, ValueError> {
    if let [work] = &plan.works[..] {
        if work.llcs.is_some() {
            let hint = "knobs = { affinity = \"0-3\" } of each set";
            return Err(unheld("[placement]", "llcs", "a task has a list of CPUs", hint));
        }
        if !work.offline.is_empty() {
            let (why, hint) = ("CPUs are not its own", "leave it out");
            return Err(unheld("[[workload]]", OFFLINE, why, hint));
        }
        return Ok(work);
    }
    let labels: Vec<String> = plan.works.iter().map(|work| format!("`{}`", work.label())).collect();
    let message = format!("a file of rt-app has one load, and the plan {}", labels.len());
    let hint =
        format!("a plan with one of {}: schedlab run PLAN --print > one.toml", labels.join(", "));
    Err(ValueError { message, hint })
}

fn check_placement(placement: &Placement) -> Result<(), ValueError> {
    let key = match placement {
        Placement { pool: Some(_), .. } => "pool",
        Placement { memory: MemoryPlacement::Interleave, .. } => "memory",
        Placement { cpus: Some(_), .. } => "cpus",
        Placement { cpus: None, .. } => return Ok(()),
    };
    let hint = "without it; CPUs by knobs = { affinity = \"0-1\" } of each set, or `taskset -c 0-1 rt-app`";
    Err(unheld("[placement]", key, "it has no word for all tasks", hint))
}

fn check_cgroup(cgroup: &Cgroup) -> Result<(), ValueError> {
    let place = format!("[cgroup.{}]", cgroup.path.as_str().replace('/', "."));
    let knob = cgroup.knobs.keys().next().map(|knob| knob.trim_start_matches(CGROUP_KNOB));
    let key = knob.or(cgroup.cpus.as_ref().map(|_| "cpus"));
    match key.or(cgroup.changes.first().map(|_| CHANGE)) {
        None => Ok(()),
        Some(key) => {
            let hint = "without it, and set before rt-app starts: its task groups are those of the machine";
            Err(unheld(&place, key, "a task group has a name alone", hint))
        }
    }
}

fn global(plan: &Plan, tasks: &[Task]) -> Result<Members, ValueError> {
    let mut members = Members::default();
    let duration_ns = plan.measure.duration_ns;
    if !duration_ns.is_multiple_of(SECOND_NS) {
        let why = format!("it has whole seconds, not {}", show_duration(duration_ns));
        let hint = format!("duration = \"{}s\"", duration_ns.div_ceil(SECOND_NS));
        return Err(unheld("[measure]", "duration", why, hint));
    }
    members.add("duration", number(duration_ns / SECOND_NS));
    let uses_memory = |task: &&Task| same::uses_memory(&task.script);
    let memory = common_value(tasks.iter().filter(uses_memory), "memory")?;
    if let Some(Value::Bytes(bytes)) = memory {
        members.add("mem_buffer_size", number(bytes));
    }
    if common_value(tasks.iter(), "inherit")? == Some(&Value::Bool(true)) {
        members.add("pi_enabled", Out::Plain("true".to_string()));
    }
    Ok(members)
}

/// The value of a parameter that all these sets have in common.
fn common_value<'a>(
    mut tasks: impl Iterator<Item = &'a Task<'a>>,
    key: &str,
) -> Result<Option<&'a Value>, ValueError> {
    let Some(first) = tasks.next() else { return Ok(None) };
    let value = first.set.params.get(key);
    match tasks.find(|task| task.set.params.get(key) != value) {
        None => Ok(value),
        Some(other) => {
            let why = format!("it is the same for all tasks, and set `{}` differs", first.set.name);
            Err(unheld(&other.place(), key, why, format!("`{key}` alike in all sets")))
        }
    }
}

impl<'a> Task<'a> {
    fn new(set: &'a WorkerSet) -> Result<Task<'a>, ValueError> {
        let place = format!("set `{}`", set.name);
        check_keys(&place, set)?;
        let script = workload::step_script(&set.params).map_err(|error| ValueError {
            message: format!("{place}: {error}"),
            hint: "schedlab help rt-app".to_string(),
        })?;
        // Whoever is free does the one part, as without an order.
        if set.params.contains_key("order") && script.phases.len() > 1 {
            let why = "its threads share no order of several parts";
            let hint = "steps without parts, as `schedlab help rt-app` shows them";
            return Err(unheld(&place, "order", why, hint));
        }
        let forked = set.params.get("forked").and_then(Value::as_text);
        let name = forked.unwrap_or(&set.name);
        check_name(&place, "name", name)?;
        Ok(Task { set, script, name, is_forked: forked.is_some() })
    }

    fn place(&self) -> String {
        format!("set `{}`", self.set.name)
    }

    /// Notes all that it shares with other tasks.
    fn note(&'a self, common: &mut Common<'a>) {
        common.tasks.push(self.name);
        let name = |thing: &usize| self.script.things[*thing].1.as_str();
        for step in self.script.steps() {
            match step {
                Step::Barrier { barrier, .. } if !self.is_forked => {
                    *common.barriers.entry(name(barrier)).or_default() += u64::from(self.set.count);
                }
                Step::Timer { timer: TimerPlace::Shared(timer), absolute: true, .. } => {
                    common.absolute.insert(name(timer));
                }
                Step::Timer { timer: TimerPlace::Shared(timer), .. } => {
                    common.relative.insert(name(timer));
                }
                _ => {}
            }
        }
    }

    fn members(&self, common: &Common) -> Result<Members, ValueError> {
        let place = self.place();
        let mut members = Members::default();
        let count = if self.is_forked { 0 } else { self.set.count };
        if count != 1 {
            members.add("instance", number(count));
        }
        let param = |key: &str| self.set.params.get(key);
        match param("delay").and_then(Value::as_duration_ns) {
            Some(delay_ns) if delay_ns > 0 => {
                members.add("delay", number(us(&place, "delay", delay_ns)?));
            }
            _ => {}
        }
        if let Some(loops) = param("loops").and_then(Value::as_int) {
            members.add("loop", number(loops));
        }
        members.append(scheduling::members(&place, &self.set.knobs)?);
        if let Some(path) = &self.set.cgroup {
            members.add("taskgroup", events::task_group(Some(path)));
        }
        let steps = Steps { place: &place, task: self.name, script: &self.script, common };
        members.append(steps.members()?);
        Ok(members)
    }
}

/// Refuses sets whose workers do something else than a list of steps, or at other times.
fn check_keys(place: &str, set: &WorkerSet) -> Result<(), ValueError> {
    let steps = workload::STEPS;
    if set.workload != steps {
        let why = format!("a task is a list of steps, and `{}` is not", clean(&set.workload));
        return Err(unheld(place, "use", why, format!("use = \"{steps}\": schedlab help rt-app")));
    }
    let phase = set.phase.unwrap_or_default();
    let when = "delay = \"1s\" from the start; without an end, or with `loops`";
    let cases = [
        (
            set.kind != WorkerKind::Threads,
            "workers",
            "its tasks are threads",
            "workers = \"threads\"",
        ),
        (set.background, "background", "all its tasks count", "[[workload.set]] in its place"),
        (phase.ops.is_some(), OPS, "a burst is not one of its words", when),
        (phase.for_ns.is_some(), FOR, "its tasks go on to the end", when),
        (set.phase.is_some(), AT, "its tasks begin with the run", when),
        (
            !set.changes.is_empty(),
            CHANGE,
            "it changes settings by phases alone",
            "\"phase 10\", \"priority 5\"",
        ),
    ];
    match cases.into_iter().find(|(is_so, ..)| *is_so) {
        None => Ok(()),
        Some((_, key, why, hint)) => Err(unheld(place, key, why, hint)),
    }
}

#[cfg(test)]
mod tests;
