//! The recording of `schedlab capture`: every switch and wakeup of some seconds, or why there is none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::model::{CpuSet, Score, Trace, Watched};
use crate::plan::Settings;
use crate::probe::sched::{Level, SessionConfig};
use crate::report::clean;
use crate::sys::sched::{self, Policy};

use super::score::{self, Ended, Telemetry};
use super::{Failure, score_cost};
use crate::report::numbers::counted;

/// The part of the time of which events may be lost.
const MAX_LOST: f64 = 0.001;
/// The only source that sees who wakes whom.
const SOURCE: &str = "bpf";
/// How much more room for events there is than a usual load needs.
const ROOM: u64 = 16;

/// The exit code of what Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// All that was seen of a time.
pub struct Recorded {
    pub trace: Trace,
    pub score: Score,
    /// How the threads are set that are there at its end.
    pub settings: BTreeMap<i32, Settings>,
}

pub fn interrupted(text: &str) -> Failure {
    let why = Failure::here(text, "schedlab help capture");
    Failure::Command { code: INTERRUPTED, why: Some(Box::new(why)) }
}

/// Records events for a time, at most until what is watched has ended; nothing where `asked` says to end before it
/// begins. `check` refuses what would be too much for a
/// shorter time, too; `shorter` is the hint where too many events come, from the time that there is room for.
pub fn record(
    watched: &Watched,
    period_ns: u64,
    asked: &AtomicBool,
    check: impl Fn(&Score) -> Result<(), Failure>,
    shorter: impl Fn(u64) -> String,
) -> Result<(Recorded, Ended), Failure> {
    let trace_ns = period_ns.saturating_mul(ROOM);
    let config =
        SessionConfig { level: Level::Events, trace_ns, timed: true, ..SessionConfig::default() };
    let mut telemetry = Telemetry::open(&config, Some(SOURCE));
    if !telemetry.board.is_counting() {
        return Err(no_source(&telemetry.board.score(watched.clone())));
    }
    if asked.load(SeqCst) {
        return Err(interrupted("interrupted: nothing was recorded"));
    }
    let ended = score::count(watched, Some(period_ns), &mut telemetry)?;
    let switch_ns = telemetry.board.with(|session| Ok(session.switch_ns())).flatten();
    let trace = telemetry.board.counted.trace.take();
    let lost_tasks = telemetry.board.counted.lost_tasks;
    // A plan has no load balancing in it.
    let mut score = telemetry.board.without_domains().score(watched.clone());
    // Before the command goes on to its end, and its threads with it.
    let usual = usual();
    let there = score.tasks.iter().filter(|task| !task.ended && !task.kernel_thread);
    let settings =
        there.filter_map(|task| Some((task.tid, settings_of(task.tid, &usual)?))).collect();
    let ended = ended.wait()?;
    let Some(trace) = trace else { return Err(no_source(&score)) };
    check(&score)?;
    score.cost = score_cost::of_score(&score, Level::Events);
    if let (Some(cost), Some(switch_ns)) = (&mut score.cost, switch_ns) {
        // Messages cost something where nothing switches.
        cost.switch_ns = switch_ns;
    }
    let seen_ns = trace.to_ns.saturating_sub(trace.from_ns);
    let lost = score.wall_ns.saturating_sub(seen_ns) as f64 / score.wall_ns.max(1) as f64;
    if lost > MAX_LOST {
        let text = format!(
            "events of {:.1} % of the time were lost: more came than are kept",
            lost * 100.0
        );
        return Err(Failure::here(text, shorter(seen_ns)));
    }
    if lost_tasks as f64 > MAX_LOST * score.tasks.len() as f64 {
        return Err(no_room(lost_tasks, score.tasks.len() as u64, config.max_tasks));
    }
    Ok((Recorded { trace, score, settings }, ended))
}

/// Tasks that nothing is known of: too many, or the kernel refused room for them.
fn no_room(lost: u64, known: u64, max: u32) -> Failure {
    let lost_tasks = counted(lost, "task");
    if lost + known > u64::from(max) {
        let text = format!("there was no room for {lost_tasks} next to {known}");
        return Failure::here(text, "fewer tasks at one time: schedlab watch shows them");
    }
    let text = format!("the kernel refused room for {lost_tasks} next to {known}");
    Failure::here(text, "the same again: it has no memory for them, mostly for a moment")
}

fn no_source(score: &Score) -> Failure {
    let why = score
        .missed
        .iter()
        .map(|(_, why)| why.as_str())
        .chain(score.lost.iter().map(String::as_str));
    let why = why.collect::<Vec<_>>().join("; ");
    let why = if why.is_empty() { "it records no events".to_string() } else { clean(&why) };
    let hint =
        "as root, on a kernel with BTF (/sys/kernel/btf/vmlinux): schedlab doctor says what lacks";
    Failure::here(format!("who wakes whom is not seen without the source bpf: {why}"), hint)
}

/// The events and the tasks of a trace as if it had begun and ended at other times.
pub fn part_of(trace: Trace, from_ns: u64, to_ns: u64) -> Trace {
    let Trace { mut events, mut messages, .. } = trace;
    events.retain(|event| (from_ns..to_ns).contains(&event.at_ns));
    messages.retain(|message| (from_ns..to_ns).contains(&message.received_ns));
    Trace { from_ns, to_ns, events, messages, running: Vec::new(), ..trace }
}

/// The slice and the CPUs of a thread that was not set otherwise.
fn usual() -> (Option<u64>, Option<CpuSet>) {
    (sched::attr(0).ok().map(|attr| attr.runtime_ns), sched::affinity(0).ok())
}

/// `None`: it has ended.
fn settings_of(tid: i32, (slice_ns, cpus): &(Option<u64>, Option<CpuSet>)) -> Option<Settings> {
    let attr = sched::attr(tid).ok()?;
    let policy = Policy::from_number(attr.policy);
    let is_other = policy == Some(Policy::Other);
    let has_slice = policy.is_some_and(Policy::is_fair) && Some(attr.runtime_ns) != *slice_ns;
    Some(Settings {
        policy: policy.filter(|of| !is_other && *of != Policy::Deadline).map(Policy::word),
        slice_ns: Some(attr.runtime_ns).filter(|ns| has_slice && *ns > 0),
        affinity: sched::affinity(tid).ok().filter(|own| Some(own) != cpus.as_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_may_refuse_room_where_there_is_enough() {
        let text = |lost, known| no_room(lost, known, 16).to_string();
        assert!(
            text(1, 49).contains("no room for 1 task next to 49\nhint: fewer tasks"),
            "{}",
            text(1, 49)
        );
        assert!(
            text(1, 15).contains("the kernel refused room for 1 task next to 15"),
            "{}",
            text(1, 15)
        );
    }
}
