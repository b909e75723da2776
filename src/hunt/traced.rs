//! The trace of a run: its tasks on a timeline, and a sentence about them. Pure.

use std::collections::BTreeMap;

use crate::analysis::{IdleSpan, Occupant, Stretch, Timeline, TimelineTask, Wait};
use crate::model::{DomainScore, Trace, times};

use super::passes::passes;
use super::seen::{Seen, seconds, set_name, set_words};

/// Less says nothing.
const MIN_NS: u64 = 100_000_000;
const MIN_PERCENT: f64 = 3.0;
/// A kernel thread is done by then.
const MOMENT_NS: u64 = 2_000_000;
const MAX_CPUS: usize = 8;

/// A part of a run, and what followed it.
pub fn timeline(seen: &Seen, trace: &Trace) -> Timeline {
    let is_there = |at: usize| seen.windows.iter().any(|window| window.readings[at].wall_ns > 0);
    let tasks = seen.tasks.iter().enumerate().map(|(at, task)| TimelineTask {
        tid: task.tid,
        set: task.set,
        name: set_name(&seen.work.sets[task.set].name).to_string(),
        cpus: task.cpus.clone(),
        never_sleeps: task.never_sleeps && is_there(at),
        cpu_ns: task.run_cpu_ns,
    });
    let (Some(first), Some(last)) = (seen.windows.first(), seen.windows.last()) else {
        return Timeline::new(trace, u64::MAX, seen.machine_cpus, tasks.collect());
    };
    let length_ns = seen.run_end_ns - first.from_ns;
    let mut timeline = Timeline::new(trace, length_ns, seen.machine_cpus, tasks.collect());
    // The trace ends with the run, and may begin later than the part.
    timeline.begin_ns = seen.run_end_ns.saturating_sub(timeline.length_ns);
    // Other CPUs and limits hold after it.
    let end_ns = timeline.length_ns.saturating_sub(seen.run_end_ns - last.to_ns);
    timeline.waits.iter_mut().for_each(|wait| wait.to_ns = wait.to_ns.min(end_ns));
    timeline.waits.retain(|wait| wait.from_ns < wait.to_ns);
    timeline.idle.iter_mut().for_each(|span| span.to_ns = span.to_ns.min(end_ns));
    timeline.idle.retain(|span| span.from_ns < span.to_ns);
    timeline
}

/// The shares of each CPU, the CPU that idles longest next to waiting tasks, the longest wait, where it is long, and what
/// CPUs that looked for load found.
pub fn describe(timeline: &Timeline, domains: &[DomainScore]) -> String {
    let idle = idle(timeline);
    let cpu = idle.as_ref().map(|(cpu, _)| *cpu);
    let idle = idle.map(|(_, text)| text);
    let parts = [places(timeline), idle, wait(timeline), passes(cpu, domains)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// `CPU 0: 50 % first set, 50 % second set; CPU 1: 98 % idle`. `None`: too many CPUs for a sentence.
fn places(timeline: &Timeline) -> Option<String> {
    let of_cpu = |(cpu, stretches): (usize, &Vec<Stretch>)| {
        let mut shares: BTreeMap<&str, u64> = BTreeMap::new();
        for stretch in stretches {
            let name = match stretch.occupant {
                Occupant::Idle => "idle",
                Occupant::Other => "others",
                Occupant::Task(task) => timeline.tasks[task].name.as_str(),
            };
            *shares.entry(name).or_default() += stretch.to_ns - stretch.from_ns;
        }
        let shares = shares.into_iter().map(|(name, ns)| {
            (name, (ns as f64 * 100.0 / timeline.length_ns.max(1) as f64).round())
        });
        let shares = shares.filter(|(_, percent)| *percent >= MIN_PERCENT);
        let shares: Vec<String> =
            shares.map(|(name, percent)| format!("{percent} % {name}")).collect();
        format!("CPU {cpu}: {}", shares.join(", "))
    };
    let cpus = timeline.cpus.len() <= MAX_CPUS;
    cpus.then(|| timeline.cpus.iter().enumerate().map(of_cpu).collect::<Vec<_>>().join("; "))
}

/// The CPU that idles longest next to waiting tasks, and a text about it.
fn idle(timeline: &Timeline) -> Option<(u32, String)> {
    let length_ns = |span: &IdleSpan| span.to_ns - span.from_ns;
    let spans = (0..timeline.cpus.len() as u32).map(|cpu| idle_spans(timeline, cpu));
    let spans = spans.max_by_key(|spans| spans.iter().map(length_ns).sum::<u64>())?;
    let all_ns: u64 = spans.iter().map(length_ns).sum();
    let (first, longest) = (spans.first()?, spans.iter().max_by_key(|span| length_ns(span))?);
    let is_within = |at_ns: u64| spans.iter().any(|own| (own.from_ns..own.to_ns).contains(&at_ns));
    let moves = timeline.moves.iter();
    let moves = moves.filter(|own| own.to_cpu == first.cpu && is_within(own.at_ns));
    let (waiting, one) = (longest.waiting.len(), longest.waiting.len() == 1);
    let tasks = if one { "task that waits" } else { "tasks that wait" };
    let names = names(timeline, &longest.waiting);
    let how = match longest.first.map(|first| &timeline.tasks[first].name) {
        None => format!("and may run there ({names})"),
        Some(first) => format!(
            "({names}) and may not run there, but one of {} may, and would leave its CPU{}",
            set_words(first),
            if one { " for it" } else { " for them" }
        ),
    };
    let moved = match moves.count() {
        0 => "no task is moved to it".to_string(),
        count => format!("a task is moved to it {}", times(count as u64)),
    };
    (all_ns >= MIN_NS).then(|| {
        let text = format!(
            "CPU {} idles for {} in all, up to {} at a time, next to {waiting} {tasks} {how}; {moved} meanwhile",
            first.cpu,
            seconds(all_ns),
            seconds(length_ns(longest)),
        );
        (first.cpu, text)
    })
}

/// The sets of these tasks, each once.
fn names(timeline: &Timeline, tasks: &[usize]) -> String {
    let mut names: Vec<&str> =
        tasks.iter().map(|task| timeline.tasks[*task].name.as_str()).collect();
    names.dedup();
    names.join(", ")
}

/// The idle times of a CPU next to waiting tasks; what runs for a moment between two of them does not divide them.
fn idle_spans(timeline: &Timeline, cpu: u32) -> Vec<IdleSpan> {
    let mut spans: Vec<IdleSpan> = Vec::new();
    for own in timeline.idle.iter().filter(|span| span.cpu == cpu) {
        match spans.last_mut().filter(|last| own.from_ns <= last.to_ns + MOMENT_NS) {
            Some(last) => {
                last.to_ns = own.to_ns;
                if own.waiting.len() > last.waiting.len() {
                    (last.waiting, last.first) = (own.waiting.clone(), own.first);
                }
            }
            None => spans.push(own.clone()),
        }
    }
    spans
}

fn wait(timeline: &Timeline) -> Option<String> {
    let wait = timeline.longest_wait().filter(|wait| wait.to_ns - wait.from_ns >= MIN_NS)?;
    let task = &timeline.tasks[wait.task];
    Some(format!(
        "a task of {} waits for {} from {} on{}",
        set_words(&task.name),
        seconds(wait.to_ns - wait.from_ns),
        seconds(timeline.begin_ns + wait.from_ns),
        meanwhile(timeline, wait).map(|who| format!(", while {who}")).unwrap_or_default()
    ))
}

/// The set that had most of the CPUs of a task that waited: `the first set has 98 % of CPUs 1,3`.
fn meanwhile(timeline: &Timeline, wait: Wait) -> Option<String> {
    let cpus = &timeline.tasks[wait.task].cpus;
    let stretches = cpus.iter().filter_map(|cpu| timeline.cpus.get(cpu as usize)).flatten();
    let mut sets: Vec<(usize, u64)> = Vec::new();
    for stretch in stretches {
        let Occupant::Task(task) = stretch.occupant else { continue };
        let until_ns = stretch.to_ns.min(wait.to_ns);
        let own_ns = until_ns.saturating_sub(stretch.from_ns.max(wait.from_ns));
        match sets.iter_mut().find(|(set, _)| *set == timeline.tasks[task].set) {
            Some((_, sum)) => *sum += own_ns,
            None => sets.push((timeline.tasks[task].set, own_ns)),
        }
    }
    let (set, set_ns) = sets.into_iter().max_by_key(|(_, sum)| *sum)?;
    let all_ns = (wait.to_ns - wait.from_ns) * cpus.len() as u64;
    let name = &timeline.tasks.iter().find(|task| task.set == set)?.name;
    let which = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    let name = set_words(name);
    Some(format!("{name} has {:.0} % of {which} {cpus}", set_ns as f64 * 100.0 / all_ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Move;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_sentence_has_the_cpu_that_idles_and_the_task_that_waits() {
        let task = |name: &str, set| TimelineTask {
            name: name.to_string(),
            set,
            cpus: "0-1".parse().unwrap(),
            ..TimelineTask::default()
        };
        let stretch = |from, to, occupant| Stretch { from_ns: from * MS, to_ns: to * MS, occupant };
        let idle = |from, to| {
            let (from_ns, to_ns) = (from * MS, to * MS);
            IdleSpan { cpu: 1, from_ns, to_ns, waiting: vec![1], first: None }
        };
        let mut timeline = Timeline {
            begin_ns: 500 * MS,
            length_ns: 1000 * MS,
            tasks: vec![task("one", 0), task("two", 1)],
            cpus: vec![
                vec![stretch(0, 1000, Occupant::Task(0))],
                vec![stretch(0, 1000, Occupant::Idle)],
            ],
            waits: vec![Wait { from_ns: 200 * MS, to_ns: 1000 * MS, task: 1 }],
            idle: vec![idle(200, 700), idle(701, 900), idle(960, 1000)],
            moves: [700, 930].map(|ms| Move { at_ns: ms * MS, task: 1, to_cpu: 1 }).to_vec(),
        };
        let text = describe(&timeline, &[]);
        for part in [
            "CPU 0: 100 % one; CPU 1: 100 % idle; ",
            "CPU 1 idles for 0.7 s in all, up to 0.7 s at a time, next to 1 task that waits and may run there (two)",
            "a task is moved to it once meanwhile",
            "a task of set `two` waits for 0.8 s from 0.7 s on, while set `one` has 50 % of CPUs 0-1",
        ] {
            assert!(text.contains(part), "{text}");
        }
        timeline.idle.iter_mut().for_each(|span| span.first = Some(0));
        let text = describe(&timeline, &[]);
        let two_steps = "next to 1 task that waits (two) and may not run there, but one of set `one` may, and would leave its \
                         CPU for it";
        assert!(text.contains(two_steps), "{text}");
        (timeline.waits, timeline.idle) = (Vec::new(), Vec::new());
        assert_eq!(describe(&timeline, &[]), "CPU 0: 100 % one; CPU 1: 100 % idle");
    }
}
