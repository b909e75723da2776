//! Tasks of rt-app as worker sets. Pure.

use std::ops::Range;

use toml::Value;

use crate::model::{
    CgroupPath, CpuSet, MAX_CGROUP_DEPTH, MAX_CGROUP_NAME_BYTES, MAX_CPU, Raw, show_duration,
};
use crate::plan::error::Faults;
use crate::plan::fields::MAX_COUNT;
use crate::plan::table::quoted_start;
use crate::variant;
use crate::workload::{self, RUN_CGROUP};

use super::event::{Common, EVENTS, Place, absolute_timers, event_of};
use super::json::{Json, Member, Node};
use super::object::{self, Object, Placed};

const TASK_KEYS: &[&str] = &[
    "instance",
    "delay",
    "loop",
    "phases",
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "util_min",
    "util_max",
    "cpus",
    "taskgroup",
];
const PHASE_KEYS: &[&str] = &["loop", "policy", "priority", "cpus", "taskgroup"];
/// The beginning of a step that moves its thread to a cgroup.
pub const CGROUP_STEP: &str = "cgroup ";
/// Policies without task groups.
const REAL_TIME: &[&str] = &["fifo", "rr", "deadline"];
const MAX_US: i64 = (workload::MAX_STEP_TIME_NS / 1_000) as i64;
/// rt-app's own for real-time tasks.
const DEFAULT_PRIORITY: i64 = 10;
pub const FULL_CAPACITY: i64 = 1_024;

/// The parts of `global` that say something about tasks.
#[derive(Default)]
pub struct Defaults {
    pub policy: Option<&'static str>,
    pub inherit: bool,
    pub memory_bytes: Option<i64>,
}

/// A task as a worker set.
pub struct Set {
    /// By this name other tasks resume and fork it: each has one of its own.
    pub task: String,
    /// The name in the file, which several may have.
    pub written: String,
    /// The place in the file.
    pub span: Range<usize>,
    pub name: String,
    pub count: i64,
    pub delay_us: i64,
    pub loops: Option<i64>,
    /// `barrier NAME` lacks its number.
    pub steps: Vec<String>,
    /// Knobs, in the words of a plan.
    pub knobs: Vec<(&'static str, Value)>,
    /// Other keys.
    pub keys: Vec<(&'static str, Value)>,
}

/// The policies that a task may name, with the words of plans.
const POLICIES: &[(&str, &str)] = &[
    ("SCHED_OTHER", "other"),
    ("SCHED_BATCH", "batch"),
    ("SCHED_IDLE", "idle"),
    ("SCHED_RR", "rr"),
    ("SCHED_FIFO", "fifo"),
    ("SCHED_DEADLINE", "deadline"),
];

pub fn policy(written: &Placed<&str>, faults: &mut Faults) -> Option<&'static str> {
    let (name, span) = written;
    let found = POLICIES.iter().find(|(own, _)| own == name);
    if found.is_none() {
        let known: Vec<&str> = POLICIES.iter().map(|(own, _)| *own).collect();
        let message = format!("there is no policy {}", quoted_start(name));
        faults.add(span, message, "this policy", known.join(", "));
    }
    found.map(|(_, word)| *word)
}

/// The name of a policy by its word in plans.
pub fn policy_name(word: &str) -> &'static str {
    POLICIES.iter().find(|(_, own)| *own == word).map_or("SCHED_OTHER", |(name, _)| name)
}

/// The scheduling of a task or a phase.
#[derive(Default)]
struct Scheduling {
    policy: Option<&'static str>,
    priority: Option<Placed<i64>>,
    runtime: Option<Placed<i64>>,
    period: Option<Placed<i64>>,
    deadline: Option<Placed<i64>>,
    util_min: Option<Placed<i64>>,
    util_max: Option<Placed<i64>>,
    cpus: Option<CpuSet>,
    taskgroup: Option<Placed<String>>,
    /// Whether a part of it is wrong, which is noted: then nothing else is missed.
    is_wrong: bool,
}

impl Scheduling {
    fn take(object: &mut Object, faults: &mut Faults) -> Scheduling {
        let before = faults.len();
        let written = object.text("policy", faults);
        let policy = written.and_then(|written| policy(&written, faults));
        for key in ["nodes_membind", "membind_nodes"] {
            if let Some(node) = object.take(key, faults) {
                let hint =
                    "memory is placed for all workers: [placement] with memory = \"interleave\"";
                faults.add(
                    &node.span,
                    "tasks have no memory nodes of their own here",
                    "this key",
                    hint,
                );
            }
        }
        let mut us = |key: &str, faults: &mut Faults| object.int(key, 0, MAX_US, faults);
        let [runtime, period, deadline] =
            ["dl-runtime", "dl-period", "dl-deadline"].map(|key| us(key, faults));
        let util = |key: &str, object: &mut Object, faults: &mut Faults| {
            object.int(key, -1, FULL_CAPACITY, faults).filter(|(util, _)| *util >= 0)
        };
        let before_cpus = faults.len();
        let cpus = object.numbers("cpus", MAX_CPU, faults);
        let is_read = faults.len() == before_cpus;
        if let Some((_, span)) = cpus.as_ref().filter(|(cpus, _)| is_read && cpus.is_empty()) {
            faults.add(span, "no CPU is left", "an empty list", "\"cpus\" : [0, 1]");
        }
        let taskgroup = object.text("taskgroup", faults);
        Scheduling {
            policy,
            priority: object.int("priority", -20, 98, faults),
            runtime,
            period,
            deadline,
            util_min: util("util_min", object, faults),
            util_max: util("util_max", object, faults),
            cpus: cpus
                .map(|(cpus, _)| cpus.into_iter().collect())
                .filter(|cpus: &CpuSet| !cpus.is_empty()),
            taskgroup: taskgroup
                .filter(|(name, _)| !name.is_empty())
                .and_then(|(name, span)| Some((cgroup(name, &span, faults)?, span))),
            is_wrong: faults.len() > before,
        }
    }

    /// With all that `other` has in place of its own.
    fn replaced_by(self, other: Scheduling) -> Scheduling {
        Scheduling {
            policy: other.policy.or(self.policy),
            priority: other.priority.or(self.priority),
            runtime: other.runtime.or(self.runtime),
            period: other.period.or(self.period),
            deadline: other.deadline.or(self.deadline),
            util_min: other.util_min.or(self.util_min),
            util_max: other.util_max.or(self.util_max),
            cpus: other.cpus.or(self.cpus),
            taskgroup: other.taskgroup.or(self.taskgroup),
            is_wrong: other.is_wrong || self.is_wrong,
        }
    }

    /// The knobs of a set. `span` is the task's.
    fn knobs(
        &self,
        default: Option<&'static str>,
        span: &Range<usize>,
        faults: &mut Faults,
    ) -> Vec<(&'static str, Value)> {
        let policy = self.policy.or(default);
        let mut keys: Vec<(&'static str, Raw, Range<usize>)> = Vec::new();
        let mut add = |key, raw, placed: &Range<usize>| keys.push((key, raw, placed.clone()));
        let text = |text: String| Raw::Text(text);
        if let Some(word) = policy {
            add("policy", text(word.to_string()), span);
        }
        match (policy, &self.priority) {
            (Some("fifo" | "rr"), priority) => {
                let (number, span) =
                    priority.as_ref().map_or((DEFAULT_PRIORITY, span), |(of, at)| (*of, at));
                add("priority", Raw::Int(number), span);
            }
            // Without a meaning under these policies.
            (Some("idle" | "deadline"), _) | (_, None) => {}
            (_, Some((nice, span))) => add("nice", Raw::Int(*nice), span),
        }
        let us = |us: i64| text(show_duration(us as u64 * 1_000));
        match (policy, &self.runtime) {
            (Some("deadline"), None) if !self.is_wrong => {
                let hint = "\"dl-runtime\" : 10000, in microseconds";
                faults.add(span, "SCHED_DEADLINE needs a runtime", "no `dl-runtime`", hint);
            }
            (Some("deadline"), Some((runtime, at))) => {
                let (runtime, at) = (*runtime, at.clone());
                let (period, period_at) = self.period.clone().unwrap_or((runtime, at.clone()));
                let (deadline, deadline_at) =
                    self.deadline.clone().unwrap_or((period, period_at.clone()));
                add("runtime", us(runtime), &at);
                add("deadline", us(deadline), &deadline_at);
                add("period", us(period), &period_at);
            }
            (None | Some("other" | "batch"), Some((slice, span))) => add("slice", us(*slice), span),
            _ => {}
        }
        let percent = |util: i64| text(format!("{}%", util as f64 * 100.0 / FULL_CAPACITY as f64));
        let utils = [("uclamp-min", &self.util_min), ("uclamp-max", &self.util_max)];
        for (key, util) in utils {
            if let Some((util, span)) = util {
                add(key, percent(*util), span);
            }
        }
        if let Some(cpus) = &self.cpus {
            add("affinity", text(cpus.to_string()), span);
        }
        checked(keys, span, self.is_wrong, faults)
    }

    /// Notes a priority that this policy does not have. That of a phase under SCHED_IDLE is left out.
    fn check_priority(&self, policy: &str, faults: &mut Faults) {
        let range = priorities(policy);
        if let Some((priority, span)) = &self.priority
            && !range.contains(priority)
            && self.policy != Some("idle")
        {
            let message =
                format!("`priority` {priority} means nothing under {}", policy_name(policy));
            faults.add(
                span,
                message,
                "this value",
                format!("{} to {}", range.start(), range.end()),
            );
        }
    }

    /// The steps that begin a phase. `cpus`: where it runs unless it says so; `None`: nobody says so.
    fn steps(&self, cpus: Option<&str>, faults: &mut Faults) -> Vec<String> {
        let budget = [&self.runtime, &self.period, &self.deadline, &self.util_min, &self.util_max];
        let places = budget.into_iter().flatten().map(|(_, span)| span);
        for span in places {
            let hint = "a phase has policy, priority, cpus and taskgroup of its own";
            faults.add(
                span,
                "a task cannot change this from phase to phase here",
                "of a phase",
                hint,
            );
        }
        let priority = self.priority.as_ref().map(|(number, _)| *number);
        let policy = match (self.policy, priority) {
            (Some("fifo"), None) => Some(format!("policy fifo {DEFAULT_PRIORITY}")),
            (Some("rr"), None) => Some(format!("policy rr {DEFAULT_PRIORITY}")),
            (Some("idle"), _) => Some("policy idle".to_string()),
            (Some(word), None) => Some(format!("policy {word}")),
            (Some(word), Some(number)) => Some(format!("policy {word} {number}")),
            (None, Some(number)) => Some(format!("priority {number}")),
            (None, None) => None,
        };
        let own = self.cpus.as_ref().map(CpuSet::to_string);
        let cpus = cpus.map(|default| format!("cpus {}", own.as_deref().unwrap_or(default)));
        // Without one a thread stays where it is.
        let cgroup = self.taskgroup.as_ref().map(|(path, _)| format!("{CGROUP_STEP}{path}"));
        policy.into_iter().chain(cpus).chain(cgroup).collect()
    }
}

/// The priorities of a policy. 99 is that of the thread that measures.
fn priorities(policy: &str) -> std::ops::RangeInclusive<i64> {
    if matches!(policy, "fifo" | "rr") { 1..=98 } else { -20..=19 }
}

/// Notes a task group that real-time threads cannot be in.
fn check_group(policy: &str, group: Option<&(String, Range<usize>)>, faults: &mut Faults) {
    if let Some((_, span)) = group.filter(|(path, _)| path != RUN_CGROUP)
        && REAL_TIME.contains(&policy)
    {
        let message = format!("a task group has no tasks of {}", policy_name(policy));
        faults.add(span, message, "this group", "\"policy\" : \"SCHED_OTHER\"");
    }
}

/// Notes what phases cannot have under the policy and in the group that are in force: their own, or else those of the
/// last one before them that has one.
fn check_phases(own: &Scheduling, usual: &str, phases: &[Phase], faults: &mut Faults) {
    let mut policy = own.policy.unwrap_or(usual);
    let mut group = own.taskgroup.as_ref();
    let mut is_new = true;
    for (_, phase, _) in phases {
        is_new |= phase.policy.is_some() || phase.taskgroup.is_some();
        policy = phase.policy.unwrap_or(policy);
        group = phase.taskgroup.as_ref().or(group);
        if own.is_wrong || phase.is_wrong {
            return;
        }
        phase.check_priority(policy, faults);
        if is_new {
            check_group(policy, group, faults);
        }
        is_new = false;
    }
}

/// As values of a plan. Values that do not fit are noted at their places, and so are those that do not go together, unless
/// one of them is missing here because it is wrong.
fn checked(
    keys: Vec<(&'static str, Raw, Range<usize>)>,
    span: &Range<usize>,
    is_wrong: bool,
    faults: &mut Faults,
) -> Vec<(&'static str, Value)> {
    let fields = variant::fields();
    let before = faults.len();
    let mut knobs = std::collections::BTreeMap::new();
    for (key, raw, span) in &keys {
        let Some(field) = fields.iter().find(|field| field.name == *key) else { continue };
        match field.kind.parse(raw) {
            Ok(value) => _ = knobs.insert(key.to_string(), value),
            Err(wrong) => faults.add(span, wrong.message, "this value", wrong.hint),
        }
    }
    if faults.len() == before && !is_wrong {
        for (knob, message, hint) in variant::validate(&knobs) {
            let place =
                keys.iter().find(|(key, ..)| *key == knob).map_or(span, |(.., place)| place);
            faults.add(place, message, "not in this task", hint);
        }
    }
    let written = |raw: Raw| match raw {
        Raw::Int(number) => Value::from(number),
        Raw::Text(text) => Value::from(text),
        _ => Value::from(false),
    };
    keys.into_iter().map(|(key, raw, _)| (key, written(raw))).collect()
}

/// The path of a cgroup in a plan; `/` is that of the run.
fn cgroup(taskgroup: &str, span: &Range<usize>, faults: &mut Faults) -> Option<String> {
    if taskgroup == RUN_CGROUP {
        return Some(taskgroup.to_string());
    }
    let path = taskgroup.strip_prefix('/').map(|path| path.trim_end_matches('/'));
    let path = path.filter(|path| path.parse::<CgroupPath>().is_ok());
    if path.is_none() {
        let hint = format!(
            "a path that begins with /, of A-Z a-z 0-9 - _, at most {MAX_CGROUP_DEPTH} names of \
             {MAX_CGROUP_NAME_BYTES}"
        );
        faults.add(
            span,
            format!("{} is not a task group", quoted_start(taskgroup)),
            "this path",
            hint,
        );
    }
    path.map(str::to_string)
}

/// The set of one task; `None`: it has no workers at the start.
pub fn set(
    member: &Member,
    defaults: &Defaults,
    common: &mut Common,
    faults: &mut Faults,
) -> Option<Set> {
    let mut object = Object::read(&member.node, "a task", faults)?;
    let name = common.word(&member.key);
    let count = object.int("instance", 0, MAX_COUNT, faults).map_or(1, |(count, _)| count);
    let delay_us = object.int("delay", 0, MAX_US, faults).map_or(0, |(delay_us, _)| delay_us);
    let loops = loops(&mut object, -1, faults);
    let phases = object.take("phases", faults);
    let is_deadline = matches!(member_text(&member.node, "policy"), Some("SCHED_DEADLINE"))
        || defaults.policy == Some("deadline");
    let mut own = Scheduling::take(&mut object, faults);
    if is_deadline {
        own.take_older(&mut object, phases.is_some(), faults);
    }
    let absolute = absolute_timers(&member.node).into_iter().collect();
    let is_forked = common.forked.contains(&member.key);
    let instances = count as u64;
    let place = Place { task: &name, instances, is_forked, absolute: &absolute, times: None };
    let usual = defaults.policy.unwrap_or("other");
    let steps = match phases {
        None => {
            let place = Place { times: times(&[loops, Some(count)]), ..place };
            let known = [TASK_KEYS, EVENTS].concat();
            let steps = events(object.rest(), "a task", &known, &place, common, faults);
            note_size(&steps, member, faults);
            check_group(own.policy.unwrap_or(usual), own.taskgroup.as_ref(), faults);
            steps
        }
        Some(node) => {
            object.finish(TASK_KEYS, faults);
            let mut phases = Vec::new();
            for phase in phase_members(node, faults) {
                phases.extend(read_phase(phase, loops, &place, common, faults));
            }
            if let [(_, scheduling, _)] = &mut phases[..] {
                own = own.replaced_by(std::mem::take(scheduling));
            }
            check_phases(&own, usual, &phases, faults);
            let steps = phase_steps(&phases, &own, faults);
            note_size(&steps, member, faults);
            steps
        }
    };
    let knobs = own.knobs(defaults.policy, &member.span, faults);
    let mut keys = defaults.keys(&steps);
    let taskgroup = own.taskgroup.filter(|(path, _)| path != RUN_CGROUP);
    keys.extend(taskgroup.map(|(path, _)| ("cgroup", Value::from(path))));
    let (task, written, span) = (member.key.clone(), member.key.clone(), member.span.clone());
    Some(Set { task, written, span, name, count, delay_us, loops, steps, knobs, keys })
}

/// How often, with which scheduling, and the steps of its events.
type Phase = (Option<i64>, Scheduling, Vec<String>);

/// `loops`: of the task.
fn read_phase(
    member: &Member,
    loops: Option<i64>,
    task: &Place,
    common: &mut Common,
    faults: &mut Faults,
) -> Option<Phase> {
    let mut object = Object::read(&member.node, "a phase", faults)?;
    let repeat = self::loops(&mut object, 1, faults);
    let scheduling = Scheduling::take(&mut object, faults);
    let place = Place { times: times(&[repeat, loops, Some(task.instances as i64)]), ..*task };
    let known = [PHASE_KEYS, EVENTS].concat();
    let steps = events(object.rest(), "a phase", &known, &place, common, faults);
    note_size(&steps, member, faults);
    Some((repeat, scheduling, steps))
}

impl Defaults {
    fn keys(&self, steps: &[String]) -> Vec<(&'static str, Value)> {
        let uses = |words: &[&str]| {
            steps.iter().any(|step| words.iter().any(|word| step.starts_with(word)))
        };
        let memory = self.memory_bytes.filter(|_| uses(&["memory ", "output "]));
        let memory = memory.map(|bytes| ("memory", Value::from(format!("{bytes}B"))));
        let inherit = self.inherit.then(|| ("inherit", Value::from(true)));
        memory.into_iter().chain(inherit).collect()
    }
}

impl Scheduling {
    /// The keys of older files. `runtime` is an event where events stand in the task.
    fn take_older(&mut self, object: &mut Object, has_phases: bool, faults: &mut Faults) {
        let before = faults.len();
        let mut us = |key: &str| object.int(key, 0, MAX_US, faults);
        self.period = self.period.take().or_else(|| us("period"));
        self.deadline = self.deadline.take().or_else(|| us("deadline"));
        if has_phases {
            self.runtime = self.runtime.take().or_else(|| us("runtime"));
        }
        self.is_wrong |= faults.len() > before;
    }
}

fn member_text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let Json::Object(members) = &node.value else { return None };
    match &members.iter().find(|member| member.key == key)?.node.value {
        Json::Text(text) => Some(text),
        _ => None,
    }
}

/// The product, if all are known.
fn times(factors: &[Option<i64>]) -> Option<u64> {
    factors.iter().try_fold(1u64, |product, factor| Some(product.saturating_mul((*factor)? as u64)))
}

/// How often; `None`: without end.
fn loops(object: &mut Object, default: i64, faults: &mut Faults) -> Option<i64> {
    let written = object.int("loop", -1, workload::MAX_STEP_TIMES as i64, faults);
    if let Some((0, span)) = &written {
        faults.add(span, "`loop` is 0", "never", "-1 is without end");
    }
    Some(written.map_or(default, |(loops, _)| loops)).filter(|loops| *loops >= 0)
}

fn phase_members<'a>(node: &'a Node, faults: &mut Faults) -> Vec<&'a Member> {
    Object::read(node, "`phases`", faults).map(Object::rest).unwrap_or_default()
}

fn phase_steps(read: &[Phase], own: &Scheduling, faults: &mut Faults) -> Vec<String> {
    let all = own.cpus.as_ref().map_or("all".to_string(), CpuSet::to_string);
    let moves = read.iter().any(|(_, scheduling, _)| scheduling.cpus.is_some());
    let cpus = moves.then_some(all.as_str());
    let mut steps = Vec::new();
    for (repeat, scheduling, events) in read {
        steps.push(match repeat {
            Some(times) => format!("phase {times}"),
            None => "phase endless".to_string(),
        });
        steps.extend(scheduling.steps(cpus, faults));
        steps.extend(events.iter().cloned());
    }
    // One phase that is done once needs no word.
    if read.len() == 1 && steps.first().is_some_and(|step| step == "phase 1") {
        steps.remove(0);
    }
    steps
}

/// The steps of all events. A key that is none is noted.
fn events(
    members: Vec<&Member>,
    what: &str,
    known: &[&str],
    place: &Place,
    common: &mut Common,
    faults: &mut Faults,
) -> Vec<String> {
    let mut steps = Vec::new();
    for member in members {
        match event_of(&member.key) {
            Some(event) => {
                let own = common.steps(member, event, place, faults).unwrap_or_default();
                match &own[..] {
                    // rt-app's own examples lock around a `sync`, which its manual says locks by itself.
                    [lock, within @ .., _] if event == "sync" && is_held(lock, &steps) => {
                        steps.extend_from_slice(within);
                    }
                    _ => steps.extend(own),
                }
            }
            None => object::unknown(member, what, known, faults),
        }
    }
    steps
}

/// Whether these steps end with the lock that this step locks.
fn is_held(lock: &str, steps: &[String]) -> bool {
    let last = |is_it: &dyn Fn(&str) -> bool| steps.iter().rposition(|step| is_it(step));
    let unlock = format!("un{lock}");
    last(&|step| step == lock) > last(&|step| step == unlock)
}

fn note_size(steps: &[String], member: &Member, faults: &mut Faults) {
    if steps.is_empty() && faults.is_empty() {
        let message = format!("{} has no events", quoted_start(&member.key));
        faults.add(&member.span, message, "nothing to do", "\"run\" : 10000");
    }
    if let Some(more) = steps.len().checked_sub(workload::MAX_STEPS).filter(|more| *more > 0) {
        let hint = format!("at most {}", workload::MAX_STEPS);
        faults.add(&member.span, format!("{more} events too many"), "this one", hint);
    }
}
