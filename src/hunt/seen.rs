//! A run as the rules see it: its tasks with their CPUs and weights, and the windows of the measured section. Changes in
//! mid-run divide it into parts in which nothing changes. Pure.

use crate::analysis::{SchedPriority, allowed_cpus, competing_cgroups};
use crate::model::{
    Cell, CpuSet, Outcome, Reading, RunResult, SetChange, Value, Window, Work, WorkerWindow,
    merged_knobs, show_duration,
};
use crate::stats::CompetingCgroup;

/// Workloads whose workers never sleep: they want a CPU at every moment of their phase.
const NEVER_SLEEP: &[&str] = &["spin"];
/// One that sleeps in some of its steps.
const STEPS: &str = "steps";
const YIELD: &str = "yield";
/// A step that sleeps until another worker's signal. The last signal counts, whoever it woke: a wait is at least as long.
const WAIT: &str = "wait ";
const SIGNAL: &str = "signal ";
/// Workloads whose children have CPU time that nobody counts.
const FORK: &[&str] = &["forkexec"];
/// Workloads whose windows have the longest time from a wakeup to its task's CPU.
const TIME_WAKEUPS: &[&str] = &["burnwait"];
/// A task that is there for this part of a window is there for all of it, in thousandths: it is not read at the very
/// end.
const WHOLE: u64 = 980;
/// Tasks that ask for no slice have this one: EEVDF's on up to eight CPUs.
pub const SLICE_NS: u64 = 3_000_000;

/// After a CPU has gone or come the kernel balances in other domains.
const CPU_TURN_NS: u64 = 100_000_000;

#[derive(Clone)]
pub struct Seen {
    pub work: Work,
    /// The CPUs that are online.
    pub cpus: Vec<u32>,
    /// All, from 0 on.
    pub machine_cpus: u32,
    /// In the order of the workers.
    pub tasks: Vec<Task>,
    pub windows: Vec<SeenWindow>,
    /// The end of the last window of the run.
    pub run_end_ns: u64,
    pub cgroups: Vec<CompetingCgroup>,
    /// A scheduler of sched_ext runs all fair tasks.
    pub is_sched_ext: bool,
    /// Why there is no result.
    pub failure: Option<String>,
}

#[derive(Clone)]
pub struct Task {
    /// Position in [`Work::sets`].
    pub set: usize,
    pub tid: i32,
    pub cpus: CpuSet,
    pub priority: SchedPriority,
    /// Its weight against all others, its cgroup's share included.
    pub weight: f64,
    /// It wants a CPU all the time, and may have one.
    pub never_sleeps: bool,
    /// It wants one all the time, but a cgroup's limit may take it away.
    pub is_limited: bool,
    /// It sleeps, no limit holds it back when it wakes, and its windows say how long it waited then.
    pub has_wakeups: bool,
    /// It gives its CPU away, and with it a part of its share.
    pub yields: bool,
    /// It sleeps again and again, at a lock, at a barrier, in a chain or for its child: a CPU may idle meanwhile.
    pub sleeps_briefly: bool,
    /// It wakes one task of its set and waits to be woken by another one: one of them sleeps at a time, and the others
    /// that have no CPU wait for one.
    pub is_in_chain: bool,
    /// While it sleeps, a child of its own wants a CPU.
    pub forks: bool,
    /// The length of its slices.
    pub slice_ns: u64,
    /// Position in [`Seen::cgroups`].
    pub cgroup: Option<usize>,
    /// In all windows of the run.
    pub run_cpu_ns: u64,
}

#[derive(Clone)]
pub struct SeenWindow {
    pub from_ns: u64,
    pub to_ns: u64,
    /// By task.
    pub readings: Vec<WorkerWindow>,
}

impl SeenWindow {
    pub fn wall_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    pub fn used_ns(&self) -> u64 {
        self.readings.iter().map(|reading| reading.cpu_ns).sum()
    }

    /// Whether the task was there from its begin to its end.
    pub fn is_whole(&self, task: usize) -> bool {
        self.readings[task].wall_ns.saturating_mul(1000) >= self.wall_ns().saturating_mul(WHOLE)
    }
}

impl Seen {
    /// The parts of a run on a guest with so many CPUs, each with at least one window. Windows that end in the warm-up
    /// and those in which something changes are left out. A run without a result is one part without windows.
    pub fn parts(
        cell: &Cell,
        cpus: u32,
        warmup_ns: u64,
        windows: &[Window],
        outcome: &Outcome,
    ) -> Vec<Seen> {
        let result = match outcome {
            Outcome::Done { result } => result,
            Outcome::Failed { reason } | Outcome::Skipped { reason } => {
                return vec![Seen { failure: Some(reason.clone()), ..Seen::new(cell, cpus) }];
            }
        };
        let tasks = result.sets.iter().map(|set| set.workers.len()).sum();
        let windows = seen_windows(windows, warmup_ns, tasks);
        let run_end_ns = windows.last().map_or(warmup_ns, |window| window.to_ns);
        let moments = moments(&cell.work);
        let begins = std::iter::once(None).chain(moments.iter().copied().map(Some));
        let ends = moments.iter().map(|at_ns| warmup_ns + at_ns).chain([u64::MAX]);
        let parts = begins.zip(ends).map(|(begin_ns, to_ns)| {
            let from_ns =
                begin_ns.map_or(0, |at_ns| warmup_ns + settled_ns(&cell.work, result, at_ns));
            let cell = changed(cell, begin_ns);
            let mut seen = Seen::new(&cell, cpus);
            seen.run_end_ns = run_end_ns;
            seen.add_tasks(&cell, result);
            for (at, task) in seen.tasks.iter_mut().enumerate() {
                task.run_cpu_ns = windows.iter().map(|window| window.readings[at].cpu_ns).sum();
            }
            let is_within =
                |window: &&SeenWindow| window.from_ns >= from_ns && window.to_ns <= to_ns;
            seen.windows = windows.iter().filter(is_within).cloned().collect();
            seen
        });
        parts.filter(|seen| !seen.windows.is_empty()).collect()
    }

    fn new(cell: &Cell, cpus: u32) -> Seen {
        Seen {
            work: cell.work.clone(),
            cpus: (0..cpus).filter(|cpu| !cell.work.offline_cpus().contains(*cpu)).collect(),
            machine_cpus: cpus,
            tasks: Vec::new(),
            windows: Vec::new(),
            run_end_ns: 0,
            cgroups: competing_cgroups(&cell.work),
            is_sched_ext: cell.variant.scx().is_some(),
            failure: None,
        }
    }

    fn add_tasks(&mut self, cell: &Cell, result: &RunResult) {
        let all: CpuSet = self.cpus.iter().copied().collect();
        let offline = cell.work.offline_cpus();
        let work = self.work.clone();
        for (at, (set, measured)) in work.sets.iter().zip(&result.sets).enumerate() {
            // An affinity of which nothing is known holds nobody.
            let cpus = match allowed_cpus(&all, cell, set) {
                Reading::Known(cpus) => cpus,
                Reading::Unknown(_) => all.clone(),
            };
            let priority = SchedPriority::from_knobs(&cell.variant, set);
            let cgroup = set
                .cgroup
                .as_ref()
                .and_then(|own| work.cgroups.iter().position(|cgroup| cgroup.path == *own));
            let workload = set.workload.as_str();
            let yields = set.steps().any(|step| step == YIELD);
            let times_wakeups =
                TIME_WAKEUPS.contains(&workload) || set.steps().any(|step| step.starts_with(WAIT));
            let forks = FORK.contains(&workload);
            let mut waits = set.steps().filter_map(|step| step.strip_prefix(WAIT));
            let is_in_chain = waits.any(|wait| {
                let condition = wait.split_whitespace().next();
                set.steps().any(|step| step.strip_prefix(SIGNAL).map(str::trim) == condition)
            });
            let never_sleeps =
                NEVER_SLEEP.contains(&workload) || yields && set.steps().all(stays_awake);
            // Limits are those of fair tasks, and schedulers of sched_ext need not keep them.
            let has_limits =
                matches!(priority, SchedPriority::Fair { .. }) && cell.variant.scx().is_none();
            let is_limited = has_limits && cgroup.is_some_and(|own| self.limit(own).is_finite());
            let slice = cell.variant.knobs.get("slice");
            let slice = set.knobs.get("slice").or(slice).and_then(Value::as_duration_ns);
            // One of several items also waits for the burns of the others.
            let queue = set.params.get("queue").and_then(Value::as_list);
            let has_wakeups =
                times_wakeups && queue.is_none_or(|items| items.len() == 1) && !is_limited;
            self.tasks.extend(measured.workers.iter().map(|worker| Task {
                set: at,
                tid: worker.tid,
                cpus: cpus.minus(&offline),
                weight: priority.priority().weight,
                priority: priority.clone(),
                never_sleeps: never_sleeps && !is_limited,
                is_limited: never_sleeps && is_limited,
                has_wakeups,
                yields,
                sleeps_briefly: forks || workload == STEPS && !never_sleeps,
                is_in_chain,
                forks,
                slice_ns: slice.unwrap_or(SLICE_NS),
                cgroup,
                run_cpu_ns: 0,
            }));
        }
        let weights = self.weights(|_| true);
        self.tasks.iter_mut().zip(weights).for_each(|(task, weight)| task.weight = weight);
    }

    /// The CPUs that the tasks of a cgroup may have, by its own limit and those above it.
    pub fn limit(&self, cgroup: usize) -> f64 {
        self.with_above(cgroup).map(|own| self.cgroups[own].max).fold(f64::INFINITY, f64::min)
    }

    /// A cgroup and those that it lies in.
    pub fn with_above(&self, cgroup: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(cgroup), |own| self.cgroups[*own].parent)
    }

    /// The weights of tasks against all others, if those alone are there that `is_there` says: the tasks and cgroups in a
    /// cgroup have its weight together.
    pub fn weights(&self, is_there: impl Fn(usize) -> bool) -> Vec<f64> {
        let there = || self.tasks.iter().enumerate().filter(|(at, _)| is_there(*at));
        let has_tasks = |cgroup: usize| {
            let mut own = there().filter_map(|(_, task)| task.cgroup);
            own.any(|own| self.with_above(own).any(|above| above == cgroup))
        };
        let weight = |task: &Task| task.priority.priority().weight;
        let mut sums = vec![0.0; self.cgroups.len()];
        for (_, task) in there() {
            task.cgroup.iter().for_each(|cgroup| sums[*cgroup] += weight(task));
        }
        for cgroup in (0..self.cgroups.len()).filter(|cgroup| has_tasks(*cgroup)) {
            let own = &self.cgroups[cgroup];
            own.parent.iter().for_each(|parent| sums[*parent] += own.weight);
        }
        let part = |cgroup: usize| self.cgroups[cgroup].weight / sums[cgroup];
        let shared = |task: &Task| {
            let part: Option<f64> = task.cgroup.map(|own| self.with_above(own).map(part).product());
            weight(task) * part.unwrap_or(1.0)
        };
        self.tasks.iter().map(shared).collect()
    }

    /// Real-time tasks with several CPUs, which the kernel does not move to make room for lower classes.
    pub fn has_free_real_time(&self) -> bool {
        self.tasks.iter().any(|task| task.priority.priority().rank > 0 && task.cpus.len() > 1)
    }

    /// Tasks that want a CPU during all of a window.
    pub fn runnable<'a>(&'a self, window: &'a SeenWindow) -> impl Iterator<Item = usize> + 'a {
        (0..self.tasks.len())
            .filter(|task| self.tasks[*task].never_sleeps && window.is_whole(*task))
    }

    /// The longest wait of a task after a wakeup, which ended in its window. One that may have begun before this part of
    /// the run had other weights.
    pub fn longest_wakeup_ns(&self, task: usize) -> Option<(u64, u64)> {
        let begin_ns = self.windows.first()?.from_ns;
        let waits = self.windows.iter().filter_map(|window| {
            let wait_ns = window.readings[task].peak_ns;
            let first_ns = window.from_ns.checked_sub(wait_ns)?;
            (first_ns >= begin_ns).then_some((window.to_ns - wait_ns, window.to_ns))
        });
        let waits = waits.filter(|(from_ns, to_ns)| from_ns < to_ns);
        waits.max_by_key(|(from_ns, to_ns)| to_ns - from_ns)
    }

    /// The longest sequence of windows that are `bad`, as a range of positions.
    pub fn longest(&self, bad: impl Fn(&SeenWindow) -> bool) -> &[SeenWindow] {
        let runs = self.windows.chunk_by(|left, right| bad(left) == bad(right));
        let bad_runs = runs.filter(|run| bad(&run[0]));
        // The first of equals: Rust's `max_by_key` gives the last.
        let longest = bad_runs.reduce(|best, run| if ns(run) > ns(best) { run } else { best });
        longest.unwrap_or_default()
    }

    /// `2 tasks of the third set on CPUs 0-3 and 1 task of set `one` on CPU 0`: how many of `tasks` each set has.
    pub fn describe(&self, tasks: &[usize]) -> String {
        let sets = self.work.sets.iter().enumerate().filter_map(|(at, set)| {
            let own: Vec<&usize> =
                tasks.iter().filter(|task| self.tasks[**task].set == at).collect();
            let cpus = &self.tasks[**own.first()?].cpus;
            let which = if cpus.len() == 1 { "CPU" } else { "CPUs" };
            let tasks = if own.len() == 1 { "task" } else { "tasks" };
            let set = set_words(set_name(&set.name));
            Some(format!("{} {tasks} of {set} on {which} {cpus}", own.len()))
        });
        let sets: Vec<String> = sets.collect();
        match sets.split_last() {
            Some((last, others @ [_, ..])) => format!("{} and {last}", others.join(", ")),
            _ => sets.concat(),
        }
    }
}

/// The sets that a hunt draws, by their places in the case.
const PLACES: [&str; 4] = ["first set", "second set", "third set", "fourth set"];

/// `third set` for `set2`; a name that is not a hunt's stays.
pub fn set_name(name: &str) -> &str {
    let at = name.strip_prefix("set").and_then(|at| at.parse::<usize>().ok());
    at.and_then(|at| PLACES.get(at)).copied().unwrap_or(name)
}

/// `the third set`, or `set `one``, in a sentence. `name` is from [`set_name`].
pub fn set_words(name: &str) -> String {
    if PLACES.contains(&name) { format!("the {name}") } else { format!("set `{name}`") }
}

/// Whether a worker wants its CPU all through this step.
fn stays_awake(step: &str) -> bool {
    step == YIELD || step.starts_with("burn ")
}

fn seen_windows(windows: &[Window], warmup_ns: u64, tasks: usize) -> Vec<SeenWindow> {
    let mut from_ns = warmup_ns;
    let windows = windows.iter().filter(|window| window.workers.len() == tasks);
    let seen = windows.filter_map(|window| {
        let to_ns = window.workers.iter().map(|own| own.end_at_ns).max().unwrap_or(0);
        let seen = SeenWindow { from_ns, to_ns, readings: window.workers.clone() };
        from_ns = from_ns.max(to_ns);
        Some(seen).filter(|seen| seen.to_ns > seen.from_ns)
    });
    seen.collect()
}

/// When something changes, since the begin of the measured section.
fn moments(work: &Work) -> Vec<u64> {
    let sets = work.sets.iter().flat_map(|set| &set.changes).map(|change| change.at_ns);
    let cgroups = work.cgroups.iter().flat_map(|own| &own.changes).map(|change| change.at_ns);
    let mut all: Vec<u64> = sets.chain(cgroups).chain(turns(work)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// When CPUs go or come.
fn turns(work: &Work) -> impl Iterator<Item = u64> + '_ {
    work.offline.iter().flat_map(|off| [Some(off.at_ns), off.end_ns()]).flatten()
}

/// When all changes until then have been made: a CPU that goes or comes waits for threads of the kernel on it.
fn settled_ns(work: &Work, result: &RunResult, at_ns: u64) -> u64 {
    let made_ns = |turn_ns: u64| {
        let name = format!("change at {}", show_duration(turn_ns));
        let made = result.knobs.iter().find(|own| own.knob == name);
        made.and_then(|own| own.asked.as_duration_ns()).unwrap_or(turn_ns)
    };
    let settled = turns(work).filter(|own| *own <= at_ns).map(|own| made_ns(own) + CPU_TURN_NS);
    settled.fold(at_ns, u64::max)
}

/// The cell as it is after all changes until then; `None`: before the first.
fn changed(cell: &Cell, until_ns: Option<u64>) -> Cell {
    let mut cell = cell.clone();
    cell.work.offline.retain(|off| until_ns.is_some_and(|until_ns| off.is_at(until_ns)));
    let Some(until_ns) = until_ns else { return cell };
    for set in &mut cell.work.sets {
        let made = set.changes.iter().take_while(|change| change.at_ns <= until_ns).count();
        let before = merged_knobs(&cell.variant.knobs, &set.knobs);
        let after = SetChange::knobs_after(&set.changes[..made], before).last();
        set.knobs = after.unwrap_or_else(|| std::mem::take(&mut set.knobs));
        for change in &set.changes[..made] {
            set.cgroup = change.cgroup.clone().or(set.cgroup.take());
        }
    }
    for cgroup in &mut cell.work.cgroups {
        for change in cgroup.changes.iter().filter(|change| change.at_ns <= until_ns) {
            cgroup.knobs.extend(change.knobs.clone());
            cgroup.cpus = change.cpus.clone().or(cgroup.cpus.take());
        }
    }
    cell
}

/// The time of windows that follow each other.
pub fn ns(windows: &[SeenWindow]) -> u64 {
    match (windows.first(), windows.last()) {
        (Some(first), Some(last)) => last.to_ns - first.from_ns,
        _ => 0,
    }
}

/// `1.8 s`.
pub fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::{cell, parts};
    use crate::model::{Cgroup, CgroupChange, CgroupPath, Offline, SetChange};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_set_of_a_case_is_called_by_its_place() {
        let sets = [("set0", "0", 1), ("one", "0-1", 2), ("set2", "1", 1), ("set9", "0", 1)];
        let seen = crate::hunt::testing::seen(2, &sets, &[[0; 5]; 4]);
        assert_eq!(
            seen.describe(&[0, 1, 2, 3, 4]),
            "1 task of the first set on CPU 0, 2 tasks of set `one` on CPUs 0-1, \
             1 task of the third set on CPU 1 and 1 task of set `set9` on CPU 0"
        );
    }

    #[test]
    fn a_change_begins_a_part_with_what_holds_then() {
        let mut cell = cell(&[("moved", "0", 1), ("grouped", "0-1", 2)]);
        let knobs = [
            ("affinity".to_string(), Value::Cpus("1".parse().unwrap())),
            ("nice".to_string(), Value::Int(5)),
        ];
        cell.work.sets[0].changes =
            vec![SetChange { at_ns: 450 * MS, knobs: knobs.into(), cgroup: None, count: None }];
        let path: CgroupPath = "g".parse().unwrap();
        cell.work.sets[1].cgroup = Some(path.clone());
        let limit = |percent| [("cgroup-max".to_string(), Value::Percent(percent))].into();
        let change = CgroupChange { at_ns: 1000 * MS, knobs: limit(50.0), cpus: None };
        cell.work.cgroups =
            vec![Cgroup { path, knobs: Default::default(), cpus: None, changes: vec![change] }];
        let parts = parts(2, &cell, &[[100, 50, 50]; 20]);
        let spans: Vec<[u64; 2]> = parts
            .iter()
            .map(|seen| [seen.windows[0].from_ns / MS, seen.windows.last().unwrap().to_ns / MS])
            .collect();
        assert_eq!(spans, [[0, 400], [500, 1000], [1000, 2000]], "the window of the change is out");
        let cpus: Vec<String> = parts.iter().map(|seen| seen.tasks[0].cpus.to_string()).collect();
        assert_eq!(cpus, ["0", "1", "1"]);
        assert!(parts[0].tasks[0].weight > parts[1].tasks[0].weight, "nice 5");
        assert_eq!(parts[1].limit(0), f64::INFINITY);
        assert_eq!(parts[2].limit(0), 0.5);
        let limited = |seen: &Seen| (seen.tasks[1].never_sleeps, seen.tasks[1].is_limited);
        assert_eq!((limited(&parts[1]), limited(&parts[2])), ((true, false), (false, true)));
        assert!(parts.iter().all(|seen| seen.run_end_ns == 2000 * MS));
    }

    #[test]
    fn a_cpu_that_is_off_is_nobodys_and_a_turn_takes_a_window() {
        let mut cell = cell(&[("some", "0-1", 2), ("other", "2", 1)]);
        let cpus = "1".parse().unwrap();
        cell.work.offline = vec![Offline { at_ns: 500 * MS, for_ns: Some(700 * MS), cpus }];
        let parts = parts(3, &cell, &[[50, 50, 100]; 20]);
        let shown = parts.iter().map(|seen| {
            let ms = |ns: u64| ns / MS;
            let (first, last) = (&seen.windows[0], seen.windows.last().unwrap());
            (ms(first.from_ns), ms(last.to_ns), seen.cpus.clone(), seen.tasks[0].cpus.to_string())
        });
        let expected = [
            (0, 500, vec![0, 1, 2], "0-1".to_string()),
            (600, 1200, vec![0, 2], "0".to_string()),
            (1300, 2000, vec![0, 1, 2], "0-1".to_string()),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn steps_that_burn_and_yield_never_sleep() {
        for (steps, expected) in [
            (&["burn 200us", "yield"][..], (true, true)),
            (&["burn 200us, yield"], (true, true)),
            (&["burn 200us", "yield", "barrier b 2"], (true, false)),
            (&["burn 200us"], (false, false)),
        ] {
            let mut cell = cell(&[("own", "0", 1)]);
            cell.work.sets[0].workload = "steps".to_string();
            let steps = steps.iter().map(|step| Value::Text(step.to_string())).collect();
            cell.work.sets[0].params.insert("steps".to_string(), Value::List(steps));
            let task = parts(1, &cell, &[[50]; 4]).swap_remove(0).tasks.swap_remove(0);
            assert_eq!((task.yields, task.never_sleeps), expected);
        }
    }

    #[test]
    fn a_chain_has_wakeups_and_children_are_not_seen() {
        let chain = "burn 1ms, lock l, signal c, wait c l, unlock l";
        let other = "burn 1ms, lock l, signal d, wait c l, unlock l";
        for (workload, steps, expected) in [
            ("steps", chain, (true, true, true, false)),
            ("steps", other, (true, true, false, false)),
            ("steps", "lock l, burn 1ms, unlock l", (false, true, false, false)),
            ("forkexec", "", (false, true, false, true)),
            ("spin", "", (false, false, false, false)),
        ] {
            let mut cell = cell(&[("own", "0", 1)]);
            cell.work.sets[0].workload = workload.to_string();
            let steps = Value::List(vec![Value::Text(steps.to_string())]);
            cell.work.sets[0].params.insert("steps".to_string(), steps);
            let task = parts(1, &cell, &[[50]; 4]).swap_remove(0).tasks.swap_remove(0);
            let Task { has_wakeups, sleeps_briefly, is_in_chain, forks, .. } = task;
            let seen = (has_wakeups, sleeps_briefly, is_in_chain, forks);
            assert_eq!(seen, expected, "{workload}");
        }
    }

    #[test]
    fn cgroups_share_the_weight_of_the_one_above() {
        let mut cell = cell(&[("free", "0", 1), ("heavy", "0", 2), ("light", "0", 1)]);
        let weight = |weight| [("cgroup-weight".to_string(), Value::Int(weight))].into();
        for (set, path, own) in [(0, "o", 100), (1, "o/heavy", 300), (2, "o/light", 100)] {
            let path: CgroupPath = path.parse().unwrap();
            cell.work.sets[set].cgroup = Some(path.clone()).filter(|_| set > 0);
            cell.work.cgroups.push(Cgroup {
                path,
                knobs: weight(own),
                cpus: None,
                changes: Vec::new(),
            });
        }
        cell.work.sets[2].workload = "burnwait".to_string();
        let sleeps = |cell: &Cell| parts(1, cell, &[[25; 4]; 4])[0].tasks[3].has_wakeups;
        let queue =
            |items: usize| Value::List(vec![Value::Text("burn 1ms, wait 1ms".to_string()); items]);
        for (items, expected) in [(1, true), (2, false)] {
            cell.work.sets[2].params.insert("queue".to_string(), queue(items));
            assert_eq!(sleeps(&cell), expected, "{items}");
        }
        let seen = parts(1, &cell, &[[25; 4]; 4]).swap_remove(0);
        let weights: Vec<f64> = seen.tasks.iter().map(|task| task.weight).collect();
        assert_eq!(weights, [1024.0, 384.0, 384.0, 256.0]);
    }
}
