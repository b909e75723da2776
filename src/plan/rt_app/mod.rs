//! Files of rt-app as plans: the text of a plan whose worker sets do what the file's tasks do, step by step.
//!
//! The meaning of each key is that of rt-app's own manual. A key that it does not have is an error, and so is one that
//! cannot be done here; those about rt-app's logs are left out, since what is measured is stored anyway. Pure.

mod event;
mod export;
mod json;
mod object;
mod origin;
mod task;
mod within;

use std::collections::BTreeSet;
use std::fmt::Write;

use toml::Value;

use crate::model::{PLAN_SCHEMA, clean, show_duration};

use super::error::{Faults, PlanErrors};
use super::fields::{MAX_SETS, MAX_TEXT_BYTES};
use super::table::toml_text as quoted;
use crate::workload::RUN_CGROUP;
use event::Common;
pub use export::{difference as rt_app_difference, to_rt_app};
use json::{Json, Member, Node};
use object::Object;
pub use origin::at_rt_app;
use task::{Defaults, Set};
pub use within::{rt_app_files, with_rt_app_files};

/// Keys that say how rt-app calibrates, logs and keeps its memory, and one of its oldest files.
const IGNORED: &[&str] = &[
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "cumulative_slack",
    "frag",
];
const GLOBAL_KEYS: &[&str] =
    &["duration", "default_policy", "pi_enabled", "io_device", "mem_buffer_size"];
const MAX_SECONDS: i64 = 24 * 3_600;
const MAX_MEMORY: i64 = 1 << 30;
/// Workers for forks whose number is not known, and the most for those whose number is.
const FORKED: u64 = 100;
const MAX_FORKED: u64 = 1_000;

/// How files of rt-app end.
pub const RT_APP: &str = ".json";

/// Whether this is meant as a file of rt-app. No plan begins so.
pub fn is_rt_app(name: &str, text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    name.ends_with(RT_APP) || ["{", "/*", "//"].iter().any(|begin| text.starts_with(begin))
}

/// The plan that does what the file says.
pub fn from_rt_app(name: &str, text: &str) -> Result<String, PlanErrors> {
    let (duration_s, sets) = read(name, text)?;
    Ok(plan_text(name, duration_s, &sets))
}

/// The duration in seconds, and the sets.
fn read(name: &str, text: &str) -> Result<(Option<i64>, Vec<Set>), PlanErrors> {
    let mut faults = Faults::default();
    match read_noting(text, &mut faults) {
        Some(read) if faults.is_empty() => Ok(read),
        _ => Err(faults.into_errors(name, text)),
    }
}

fn read_noting(text: &str, faults: &mut Faults) -> Option<(Option<i64>, Vec<Set>)> {
    if text.len() > MAX_TEXT_BYTES {
        let hint = format!("at most {MAX_TEXT_BYTES} bytes are read: is this the right file?");
        faults.add_of_all(format!("the file has {} bytes", text.len()), hint);
        return None;
    }
    let root = json::read(text).map_err(|fault| *faults = fault).ok()?;
    let mut top = Object::read(&root, "the file", faults)?;
    let (global, tasks) = (top.take("global", faults), top.take("tasks", faults));
    // Older files have resources, which are made where they are named.
    top.ignore(&["resources"]);
    top.finish(&["tasks", "global", "resources"], faults);
    let (duration_s, defaults) = global.map_or(Default::default(), |node| globals(node, faults));
    let Some(tasks) = tasks else {
        if !faults.is_empty() {
            return None;
        }
        let hint = "{ \"tasks\" : { \"thread0\" : { \"run\" : 10000, \"sleep\" : 90000 } } }";
        return faults.refuse(&(0..1), "there are no `tasks`", "in this object", hint);
    };
    Some((duration_s, sets(tasks, &defaults, faults)?))
}

fn globals(node: &Node, faults: &mut Faults) -> (Option<i64>, Defaults) {
    let mut defaults = Defaults::default();
    let Some(mut global) = Object::read(node, "`global`", faults) else { return (None, defaults) };
    let duration = global.int("duration", -1, MAX_SECONDS, faults);
    if let Some((0, span)) = &duration {
        faults.add(span, "`duration` is 0", "no time", "a number of seconds, or -1");
    }
    let policy = global.text("default_policy", faults);
    let policy = policy.and_then(|written| task::policy(&written, faults));
    defaults.policy = policy.filter(|word| *word != "other");
    defaults.inherit = global.flag("pi_enabled", faults).unwrap_or(false);
    let memory = global.int("mem_buffer_size", 1, MAX_MEMORY, faults);
    defaults.memory_bytes = memory.map(|(bytes, _)| bytes);
    if let Some((device, span)) = global.text("io_device", faults)
        && device != "/dev/null"
    {
        let message = format!("no file but /dev/null is written, not `{}`", clean(device));
        faults.add(&span, message, "this file", "\"io_device\" : \"/dev/null\"");
    }
    global.ignore(IGNORED);
    global.finish(&[GLOBAL_KEYS, IGNORED].concat(), faults);
    (duration.map(|(seconds, _)| seconds).filter(|seconds| *seconds > 0), defaults)
}

/// The sets of all tasks, and one more for each task that is forked.
fn sets(tasks: &Node, defaults: &Defaults, faults: &mut Faults) -> Option<Vec<Set>> {
    let members = match &tasks.value {
        Json::Object(members) => members,
        _ => {
            Object::read(tasks, "`tasks`", faults);
            return None;
        }
    };
    check_count(members.len(), tasks, faults)?;
    let mut named = members.clone();
    let mut common = Common::of_tasks(tasks);
    for member in &mut named {
        // rt-app's own tool numbers keys that repeat, too. A name in the file stays that of its first task, since
        // others resume and fork it by this name.
        let is_written = |name: &String| members.iter().any(|member| member.key == *name);
        if common.tasks.contains(&member.key) {
            let mut names = (1..).map(|number| format!("{}{number}", member.key));
            let is_free = |name: &String| !is_written(name) && !common.tasks.contains(name);
            member.key = names.find(is_free).unwrap_or_default();
        }
        common.tasks.push(member.key.clone());
        common.word(&member.key);
    }
    let mut all: Vec<Set> = Vec::new();
    for (member, Member { key, .. }) in named.iter().zip(members) {
        let set = task::set(member, defaults, &mut common, faults);
        all.extend(set.map(|set| Set { written: key.clone(), ..set }));
    }
    for set in &mut all {
        for step in &mut set.steps {
            let workers = step.strip_prefix("barrier ").and_then(|of| common.barriers.get(of));
            if let Some(workers) = workers {
                write!(step, " {workers}").ok()?;
            }
        }
    }
    // A fork that forks does so an unknown number of times.
    let forks_itself = |set: &Set| {
        common.forks.contains_key(&set.task)
            && set.steps.iter().any(|step| step.starts_with("fork "))
    };
    let is_known = !all.iter().any(forks_itself);
    let all = all.into_iter().flat_map(|set| with_forks(set, &common, is_known));
    let all: Vec<Set> = all.collect();
    check_count(all.len(), tasks, faults);
    if all.is_empty() && faults.is_empty() {
        let hint = "\"thread0\" : { \"run\" : 10000 }, with \"instance\" above 0";
        faults.add(&tasks.span, "no task has a thread", "nothing to run", hint);
    }
    Some(all)
}

fn check_count(count: usize, tasks: &Node, faults: &mut Faults) -> Option<()> {
    if count <= MAX_SETS {
        return Some(());
    }
    let hint = format!("at most {MAX_SETS}: tasks alike are one task with \"instance\"");
    faults.refuse(&tasks.span, format!("{count} tasks"), "too many", hint)
}

/// The set if it has workers, and the set that forks start.
fn with_forks(set: Set, common: &Common, is_known: bool) -> Vec<Set> {
    let forks = common.forks.get(&set.task).map(|forks| {
        let fits = |forks: &u64| is_known && *forks <= MAX_FORKED;
        let count = forks.filter(fits).unwrap_or(FORKED).max(1);
        let mut keys = set.keys.clone();
        keys.push(("forked", Value::from(set.name.clone())));
        let name = common.free(&format!("{}-forks", set.name));
        let (task, written) = (set.task.clone(), set.written.clone());
        let (steps, knobs) = (set.steps.clone(), set.knobs.clone());
        let span = set.span.clone();
        Set { task, written, span, name, count: count as i64, steps, knobs, keys, ..set }
    });
    Some(set).filter(|set| set.count > 0).into_iter().chain(forks).collect()
}

fn plan_text(file: &str, duration_s: Option<i64>, sets: &[Set]) -> String {
    let file = file.rsplit('/').next().unwrap_or(file);
    let stem = file.strip_suffix(".json").unwrap_or(file);
    let name = Common::default().word(stem);
    let mut text = format!(
        "# {}, a file of rt-app: schedlab help rt-app\nschema = {PLAN_SCHEMA}\ntitle = {}\n\n[measure]\n",
        clean(file),
        quoted(&clean(stem).chars().take(200).collect::<String>()),
    );
    match duration_s {
        Some(seconds) => {
            let duration = show_duration(seconds as u64 * 1_000_000_000);
            text += &format!("duration = {}\n", quoted(&duration));
        }
        None => text += "# The file says no duration: --duration gives one.\n",
    }
    text += &format!("warmup = \"0s\"\n\n[[workload]]\nname = {}\n", quoted(&name));
    for set in sets {
        text += "\n[[workload.set]]\n";
        if set.written != set.name {
            text += &format!("# {}\n", clean(&set.written));
        }
        text += &(set_text(set, true) + "\n");
    }
    for path in groups(sets) {
        text += &format!("\n[cgroup.{}]\n", path.replace('/', "."));
    }
    text
}

/// The keys of a set with their values. `is_wide`: each step has a line.
fn keys(set: &Set, is_wide: bool) -> Vec<String> {
    let mut keys = vec![format!("name = {}", quoted(&set.name)), "use = \"steps\"".to_string()];
    keys.extend((set.count != 1).then(|| format!("count = {}", set.count)));
    keys.extend(set.loops.map(|loops| format!("loops = {loops}")));
    let delay = || format!("delay = {}", quoted(&show_duration(set.delay_us as u64 * 1_000)));
    keys.extend((set.delay_us > 0).then(delay));
    if !set.knobs.is_empty() {
        let knob = |(knob, value): &(&str, Value)| format!("{knob} = {value}");
        let knobs: Vec<String> = set.knobs.iter().map(knob).collect();
        keys.push(format!("knobs = {{ {} }}", knobs.join(", ")));
    }
    keys.extend(set.keys.iter().map(|(key, value)| format!("{key} = {value}")));
    let steps: Vec<String> = set.steps.iter().map(|step| quoted(step)).collect();
    keys.push(if is_wide {
        format!("steps = [\n  {},\n]", steps.join(",\n  "))
    } else {
        format!("steps = [{}]", steps.join(", "))
    });
    keys
}

/// A set as it stands in a plan.
fn set_text(set: &Set, is_wide: bool) -> String {
    if is_wide {
        keys(set, true).join("\n")
    } else {
        format!("{{ {} }}", keys(set, false).join(", "))
    }
}

/// The paths of the cgroups that sets are in, and of those that their threads move to.
fn groups(sets: &[Set]) -> BTreeSet<&str> {
    let keys = sets.iter().flat_map(|set| &set.keys).filter(|(key, _)| *key == "cgroup");
    let steps = sets.iter().flat_map(|set| &set.steps);
    let moved = steps.filter_map(|step| step.strip_prefix(task::CGROUP_STEP));
    let paths = keys.filter_map(|(_, value)| value.as_str()).chain(moved);
    paths.filter(|path| *path != RUN_CGROUP).collect()
}

#[cfg(test)]
mod tests;
