//! Work conservation: no CPU idles for long while a task that may run there waits. Source: the load balancer's own
//! times. An idle CPU balances each domain every 1 to 2 ms for each CPU of it (`sd_init` of kernel/sched/topology.c,
//! `get_sd_balance_interval` of fair.c), and moves even a running task after `cache_nice_tries` + 3 passes in vain:
//! 80 ms in a domain of 8 CPUs. Tolerance: a quarter of a CPU for 500 ms. The CPU time of a window is compared with the
//! largest that its runnable tasks can have on their CPUs, a maximum flow. As much may idle as tasks with locks and
//! barriers lack, which sleep often and for so short that an idle CPU asks no balancer (`sched_balance_newidle` of
//! fair.c); as those lack that fork, whose children have that time; and a CPU for each set in a chain, of which one task
//! sleeps at a time: what its others lack they wait for, in the queue of a CPU. Not judged: tasks next to real-time ones
//! with several CPUs, which the kernel does not move to make room for lower classes.

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::flow::max_flow;
use crate::hunt::seen::{Seen, SeenWindow, seconds};

const BOUND_NS: u64 = 500_000_000;
/// The part of a CPU that idles.
const PART: u64 = 4;

pub struct WorkConservation;

fn idle_ns(seen: &Seen, window: &SeenWindow) -> u64 {
    let wanted = seen.runnable(window).map(|task| (window.wall_ns(), &seen.tasks[task].cpus));
    let possible_ns = max_flow(wanted, &seen.cpus, window.wall_ns());
    let mut slept_ns = vec![0; seen.work.sets.len()];
    let sleepers = seen.tasks.iter().zip(&window.readings).filter(|(task, _)| task.sleeps_briefly);
    for (task, own) in sleepers {
        let slept = &mut slept_ns[task.set];
        *slept += own.wall_ns.saturating_sub(own.cpu_ns);
        if task.is_in_chain {
            *slept = window.wall_ns().min(*slept);
        }
    }
    possible_ns.saturating_sub(window.used_ns() + slept_ns.iter().sum::<u64>())
}

/// The CPUs that can have idled for so long: by the CPU time of each task, and the CPUs where it can have had it.
fn idle_cpus(seen: &Seen, found: &Judgement) -> Vec<u32> {
    let windows = seen.windows.iter();
    let windows: Vec<&SeenWindow> = windows
        .filter(|window| window.from_ns >= found.from_ns && window.to_ns <= found.to_ns)
        .collect();
    let time_ns = found.to_ns - found.from_ns;
    let used_ns = |task: usize| windows.iter().map(|window| window.readings[task].cpu_ns).sum();
    let used: Vec<(u64, usize)> = (0..seen.tasks.len()).map(|task| (used_ns(task), task)).collect();
    let all_ns: u64 = used.iter().map(|(used, _)| used).sum();
    // Half of what idles may be on another one.
    let idle_ns = (found.figure * time_ns as f64 / 2.0) as u64;
    let can_idle = |cpu: &u32| {
        let others: Vec<u32> = seen.cpus.iter().copied().filter(|other| other != cpu).collect();
        let demands = used.iter().map(|(used, task)| (*used, &seen.tasks[*task].cpus));
        let busy_ns = all_ns.saturating_sub(max_flow(demands, &others, time_ns));
        time_ns.saturating_sub(busy_ns) >= idle_ns
    };
    let reached = |cpu: &u32| found.tasks.iter().any(|task| seen.tasks[*task].cpus.contains(*cpu));
    seen.cpus.iter().copied().filter(reached).filter(can_idle).collect()
}

impl Rule for WorkConservation {
    fn name(&self) -> &'static str {
        "work conservation"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        if seen.has_free_real_time() {
            return None;
        }
        let bad = seen.longest(|window| idle_ns(seen, window) * PART >= window.wall_ns());
        Judgement::from_windows(seen, bad, BOUND_NS, |window| idle_ns(seen, window))
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        let time = seconds(found.to_ns - found.from_ns);
        let cpus = idle_cpus(seen, found);
        let which = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let whose = match cpus.as_slice() {
            [cpu] => format!("CPU {cpu} idles"),
            some if some.len() < seen.cpus.len() => {
                idle_words(found.figure, &format!("CPUs {}", which(some)))
            }
            _ => idle_words(found.figure, &format!("{} CPUs", seen.cpus.len())),
        };
        format!("for {time} {whose} while {}", waiting_words(seen, found, &cpus))
    }
}

/// `1 of 4 CPUs idles`, `1.53 of CPUs 0,2 idle`. Windows of tasks end at slightly different moments, so a figure has errors
/// of about one percent.
fn idle_words(figure: f64, cpus: &str) -> String {
    let whole = figure.round();
    match whole {
        1.0 if (figure - whole).abs() < ERROR => format!("1 of {cpus} idles"),
        2.0.. if (figure - whole).abs() < ERROR => format!("{whole:.0} of {cpus} idle"),
        _ => format!("{figure:.2} of {cpus} idle"),
    }
}

const ERROR: f64 = 0.02;

/// Tasks with less wait.
const NEARLY: f64 = 0.9;

/// The tasks that wait and may run on the idle CPU; where that is not sure, the ways in which they could have it.
fn waiting_words(seen: &Seen, found: &Judgement, idle: &[u32]) -> String {
    let windows = seen.windows.iter();
    let windows = windows.filter(|own| own.from_ns >= found.from_ns && own.to_ns <= found.to_ns);
    let windows: Vec<&SeenWindow> = windows.collect();
    let used_ns = |task: &usize| windows.iter().map(|own| own.readings[*task].cpu_ns).sum::<u64>();
    let enough_ns = ((found.to_ns - found.from_ns) as f64 * NEARLY) as u64;
    let (waiting, others): (Vec<usize>, Vec<usize>) =
        found.tasks.iter().partition(|task| used_ns(task) < enough_ns);
    let may_run = |task: &usize| {
        let cpus = &seen.tasks[*task].cpus;
        idle.iter().filter(|cpu| cpus.contains(**cpu)).count()
    };
    let (certain, possible): (Vec<usize>, Vec<usize>) = waiting
        .iter()
        .filter(|task| may_run(task) > 0)
        .partition(|task| may_run(task) == idle.len());
    if !certain.is_empty() {
        return format!("{} and may run there", wait(seen, &certain));
    }
    let movers: Vec<usize> = others.into_iter().filter(|task| may_run(task) > 0).collect();
    let possible = (!possible.is_empty())
        .then(|| format!("{} may run on one of these", seen.describe(&possible)));
    let moves = (!movers.is_empty())
        .then(|| format!("one of {} may move there and leave its CPU", seen.describe(&movers)));
    let ways: Vec<String> = possible.into_iter().chain(moves).collect();
    match waiting.is_empty() || ways.is_empty() {
        // Each task has nearly a CPU.
        true => format!("{} want a CPU each", seen.describe(&found.tasks)),
        false => format!("{}: {}", wait(seen, &waiting), ways.join(", or ")),
    }
}

fn wait(seen: &Seen, tasks: &[usize]) -> String {
    let wait = if tasks.len() == 1 { "waits" } else { "wait" };
    format!("{} {wait}", seen.describe(tasks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::{cell, parts, seen, with_policy};
    use crate::model::{Cell, Offline};

    #[test]
    fn an_idle_cpu_next_to_waiting_tasks_is_found_with_its_number() {
        let sets = [("one", "1,3", 1), ("four", "0,2-3", 4)];
        let judge = |windows: &[[u64; 5]]| {
            let seen = seen(4, &sets, windows);
            WorkConservation.judge(&seen).map(|found| {
                let text = WorkConservation.explain(&seen, &found);
                (found, text)
            })
        };
        let (idle, busy) = ([40, 65, 65, 65, 65], [100, 75, 75, 75, 75]);
        assert_eq!(judge(&[busy; 20]), None);
        let (found, text) = judge(&[[busy; 2].as_slice(), &[idle; 18]].concat()).unwrap();
        assert_eq!((found.from_ns, found.to_ns), (200_000_000, 2_000_000_000));
        assert_eq!((found.distance, found.figure), (3.6, 1.0));
        assert_eq!(
            text,
            "for 1.8 s CPU 1 idles while 1 task of set `one` on CPUs 1,3 waits and may run there"
        );
        let (found, _) = judge(&[[idle; 4].as_slice(), &[busy], &[idle; 4]].concat()).unwrap();
        assert_eq!((found.distance, found.from_ns), (0.8, 0), "never for long");
    }

    #[test]
    fn a_task_that_would_have_to_move_first_is_named() {
        let sets = [("held", "0", 1), ("some", "0,3", 1), ("free", "0-3", 2)];
        let seen = seen(4, &sets, &[[60, 50, 100, 90]; 10]);
        let found = WorkConservation.judge(&seen).unwrap();
        let text = WorkConservation.explain(&seen, &found);
        let waits = "1 of CPUs 1,2,3 idles while 1 task of set `held` on CPU 0 and 1 task of set `some` on CPUs 0,3 wait: \
                     1 task of set `some` on CPUs 0,3 may run on one of these, \
                     or one of 2 tasks of set `free` on CPUs 0-3 may move there and leave its CPU";
        assert!(text.ends_with(waits), "{text}");
    }

    #[test]
    fn a_figure_within_its_error_is_a_whole_number_of_cpus() {
        let words = |figure| idle_words(figure, "4 CPUs");
        for (figure, expected) in [
            (1.01, "1 of 4 CPUs idles"),
            (0.99, "1 of 4 CPUs idles"),
            (2.01, "2 of 4 CPUs idle"),
            (1.53, "1.53 of 4 CPUs idle"),
            (0.25, "0.25 of 4 CPUs idle"),
        ] {
            assert_eq!(words(figure), expected);
        }
    }

    #[test]
    fn real_time_tasks_are_not_moved_for_others() {
        let fifo = |cpus: &str| {
            let seen = seen(2, &[("real-time", cpus, 1), ("other", "0", 1)], &[[100, 0]; 20]);
            WorkConservation.judge(&with_policy(seen, 0, "fifo"))
        };
        assert_eq!(fifo("0-1"), None);
        assert_eq!(fifo("1").map(|found| found.is_broken()), Some(true));
    }

    #[test]
    fn a_cpu_may_idle_while_tasks_with_a_lock_sleep() {
        let judge = |ms: [u64; 5]| {
            let mut seen = seen(3, &[("spins", "0-2", 3), ("locks", "0-2", 2)], &[ms; 20]);
            for task in &mut seen.tasks[3..] {
                (task.never_sleeps, task.sleeps_briefly) = (false, true);
            }
            WorkConservation.judge(&seen).is_some_and(|found| found.is_broken())
        };
        assert!(!judge([50, 50, 50, 45, 45]), "60 of 300 ms idle, and they sleep for 110");
        assert!(judge([20, 20, 20, 90, 90]), "60 ms idle, and they sleep for 20");
    }

    #[test]
    fn a_chain_has_one_task_that_sleeps_and_the_others_wait_for_a_cpu() {
        let judge = |is_in_chain: bool, ms: [u64; 7]| {
            let mut seen = seen(4, &[("spins", "0-3", 4), ("chain", "0", 3)], &[ms; 20]);
            for task in &mut seen.tasks[4..] {
                (task.never_sleeps, task.sleeps_briefly) = (false, true);
                task.is_in_chain = is_in_chain;
            }
            WorkConservation.judge(&seen).is_some_and(|found| found.is_broken())
        };
        let idle = [60, 60, 60, 60, 10, 10, 10];
        assert!(judge(true, idle), "130 of 400 ms idle: one sleeps for 100 of them");
        assert!(!judge(false, idle), "they lack 270");
        assert!(!judge(true, [70, 70, 70, 70, 10, 10, 10]), "90 ms idle");
    }

    #[test]
    fn a_cpu_that_is_off_does_not_idle() {
        let mut cell = cell(&[("some", "0-1", 2)]);
        let broken = |cell: &Cell| {
            let parts = parts(2, cell, &[[50, 50]; 20]);
            let found = parts.iter().filter_map(|seen| WorkConservation.judge(seen));
            found
                .filter(|found| found.is_broken())
                .map(|found| found.from_ns / 1_000_000)
                .collect::<Vec<_>>()
        };
        assert_eq!(broken(&cell), [0]);
        let (at_ns, for_ns) = (400_000_000, Some(900_000_000));
        cell.work.offline = vec![Offline { at_ns, for_ns, cpus: "1".parse().unwrap() }];
        assert_eq!(broken(&cell), [1400], "before it goes there are 400 ms");
    }

    #[test]
    fn a_cpu_that_no_task_may_use_may_idle() {
        let judge = |ms: [u64; 2]| WorkConservation.judge(&seen(4, &[("a", "0", 2)], &[ms; 10]));
        assert_eq!(judge([50, 50]), None);
        assert_eq!(judge([50, 30]), None, "within the tolerance");
        assert_eq!(judge([40, 30]).map(|found| found.is_broken()), Some(true));
    }
}
