//! A run as the rules see it: its tasks with their CPUs and weights, and the windows of the measured section. Pure.

use crate::analysis::{SchedPriority, allowed_cpus, competing_cgroups};
use crate::model::{Cell, CpuSet, Outcome, Reading, Window, Work, WorkerWindow};
use crate::stats::CompetingCgroup;

/// Workloads whose workers never sleep: they want a CPU at every moment of their phase.
const NEVER_SLEEP: &[&str] = &["spin"];
/// A task that is there for this part of a window is there for all of it, in thousandths: it is not read at the very
/// end.
const WHOLE: u64 = 980;

pub struct Seen {
    pub work: Work,
    pub cpus: Vec<u32>,
    /// In the order of the workers.
    pub tasks: Vec<Task>,
    pub windows: Vec<SeenWindow>,
    pub cgroups: Vec<CompetingCgroup>,
    /// Why there is no result.
    pub failure: Option<String>,
}

pub struct Task {
    /// Position in [`Work::sets`].
    pub set: usize,
    pub tid: i32,
    pub cpus: CpuSet,
    pub priority: SchedPriority,
    /// Its weight against all others, its cgroup's share included.
    pub weight: f64,
    pub never_sleeps: bool,
    /// Position in [`Seen::cgroups`].
    pub cgroup: Option<usize>,
}

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
    /// `cpus` are those of the guest. Windows that end in the warm-up are left out.
    pub fn new(
        cell: &Cell,
        cpus: u32,
        warmup_ns: u64,
        windows: &[Window],
        outcome: &Outcome,
    ) -> Seen {
        let all: CpuSet = (0..cpus).collect();
        let work = &cell.work;
        let mut seen = Seen {
            work: work.clone(),
            cpus: (0..cpus).collect(),
            tasks: Vec::new(),
            windows: Vec::new(),
            cgroups: competing_cgroups(work),
            failure: None,
        };
        let result = match outcome {
            Outcome::Done { result } => result,
            Outcome::Failed { reason } | Outcome::Skipped { reason } => {
                seen.failure = Some(reason.clone());
                return seen;
            }
        };
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
            seen.tasks.extend(measured.workers.iter().map(|worker| Task {
                set: at,
                tid: worker.tid,
                cpus: cpus.clone(),
                weight: priority.priority().weight,
                priority: priority.clone(),
                never_sleeps: NEVER_SLEEP.contains(&set.workload.as_str()),
                cgroup,
            }));
        }
        seen.share_cgroups();
        seen.add_windows(windows, warmup_ns);
        seen
    }

    /// The tasks of a cgroup have its weight together.
    fn share_cgroups(&mut self) {
        let mut sums = vec![0.0; self.cgroups.len()];
        for task in &self.tasks {
            task.cgroup.iter().for_each(|cgroup| sums[*cgroup] += task.weight);
        }
        for task in &mut self.tasks {
            if let Some(cgroup) = task.cgroup {
                task.weight *= self.cgroups[cgroup].weight / sums[cgroup];
            }
        }
    }

    fn add_windows(&mut self, windows: &[Window], warmup_ns: u64) {
        let mut from_ns = warmup_ns;
        for window in windows.iter().filter(|window| window.workers.len() == self.tasks.len()) {
            let to_ns = window.workers.iter().map(|own| own.end_at_ns).max().unwrap_or(0);
            if to_ns > from_ns {
                self.windows.push(SeenWindow { from_ns, to_ns, readings: window.workers.clone() });
                from_ns = to_ns;
            }
        }
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

    /// The longest sequence of windows that are `bad`, as a range of positions.
    pub fn longest(&self, bad: impl Fn(&SeenWindow) -> bool) -> &[SeenWindow] {
        let runs = self.windows.chunk_by(|left, right| bad(left) == bad(right));
        let bad_runs = runs.filter(|run| bad(&run[0]));
        // The first of equals: Rust's `max_by_key` gives the last.
        let longest = bad_runs.reduce(|best, run| if ns(run) > ns(best) { run } else { best });
        longest.unwrap_or_default()
    }

    /// The name of the set of a task, and how many tasks of `tasks` it has.
    pub fn describe(&self, tasks: &[usize]) -> String {
        let sets = self.work.sets.iter().enumerate().filter_map(|(at, set)| {
            let own: Vec<&usize> =
                tasks.iter().filter(|task| self.tasks[**task].set == at).collect();
            let cpus = &self.tasks[**own.first()?].cpus;
            Some(format!("{} of {} on {cpus}", own.len(), set.name))
        });
        sets.collect::<Vec<_>>().join(", ")
    }
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
