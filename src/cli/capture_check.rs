//! `schedlab capture --check`: the plan is run here and captured again, and both are compared.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::model::{Trace, TraceWhat, TracedTask, Watched, quoted, show_duration};
use crate::plan::{self, Captured, Fit, Likeness};
use crate::sys::{child, sched, scratch};

use super::capture_record::{INTERRUPTED, Recorded, interrupted, part_of, record};
use super::score::Ended;
use super::{Failure, table, terminal};

/// Below it a replay is not the load.
const MIN_SCORE: f64 = 0.80;
/// After the start of its last worker the replay has a beginning of its own.
const SETTLE_NS: u64 = 500_000_000;
/// Replays that show what a replay needs.
const FITS: usize = 5;
const FIT_NS: u64 = 3_000_000_000;
const UNCHECKED: &str =
    "interrupted: the plan is written, and nobody knows how like the load it is";
const MAX_REPLAY_NS: u64 = 10_000_000_000;

/// Fails where the load takes more CPUs than there are here, which a trace of another machine may. Where it had more, a
/// replay here is under other conditions, which is said before it runs.
pub fn find_room(path: &Path, captured: &Captured, trace: &Trace) -> Result<(), Failure> {
    let had: BTreeSet<u32> = trace.events.iter().map(|event| event.cpu).collect();
    let here = sched::affinity(0).map_or(0, |cpus| cpus.len());
    let threads: u32 = captured.roles.iter().map(|role| role.threads).sum();
    // Fewer threads than CPUs never need more of them.
    if had.len() <= here || threads as usize <= here {
        return Ok(());
    }
    let text = format!("the trace has {} CPUs, and here are {here}", had.len());
    let path = quoted(&path.display().to_string());
    let hint = format!(
        "in a lab with as many: [lab] with cpus = {} in the plan, and schedlab run {path} --backend lab",
        had.len()
    );
    let taken: f64 = captured.roles.iter().map(|role| role.profile.cpus).sum();
    if taken > here as f64 {
        let text =
            format!("{text}, and the load takes {taken:.2} of them: no replay here is like it");
        return Err(Failure::here(format!("{text}; the plan is written"), hint));
    }
    terminal::message(&format!("note: {text}: more threads wait for each of them here; {hint}"));
    Ok(())
}

/// Prints how like the load, which took so long, the replay of its plan is. Short replays before it show what the replay
/// itself needs of a CPU, and which wakeups it lacks; `write` writes the plan that makes up for that to a file. `more`
/// says how to see more of the load. It ends soon after `asked` says so.
pub fn check(
    path: &Path,
    captured: &Captured,
    wall_ns: u64,
    more: &str,
    asked: &AtomicBool,
    write: impl Fn(&Path, &[Fit]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let checked = fit_and_compare(path, captured, wall_ns, more, asked, write);
    // A replay that was interrupted has an error of its own, or seems to be unlike the load.
    if asked.load(SeqCst) { Err(interrupted(UNCHECKED)) } else { checked }
}

fn fit_and_compare(
    path: &Path,
    captured: &Captured,
    wall_ns: u64,
    more: &str,
    asked: &AtomicBool,
    write: impl Fn(&Path, &[Fit]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let replay_ns = wall_ns.clamp(1_000_000_000, MAX_REPLAY_NS) / 1_000_000 * 1_000_000;
    write(path, &best_fits(captured, replay_ns.min(FIT_NS), asked, &write)?)?;
    terminal::message(&format!("check: the plan runs here for {}", show_duration(replay_ns)));
    let rows = compare(path, captured, replay_ns, asked)?;
    if asked.load(SeqCst) {
        return Ok(());
    }
    let score = plan::likeness_score(&rows);
    let (table, time) = (render(&rows), show_duration(replay_ns));
    let least = plan::worst_role(&rows).map_or(String::new(), |row| {
        format!("; least like it: {} with {:.2}", row.load.name, row.score())
    });
    writeln!(io::stdout().lock(), "{table}likeness {score:.2} of 1, from {time} of replay{least}")?;
    if score < MIN_SCORE {
        let text = format!("the replay is not the load: {score:.2} is below {MIN_SCORE}");
        return Err(Failure::here(text, format!("the table says where; {more}")));
    }
    Ok(())
}

/// The fits, one for each role, whose replay was most like the load.
fn best_fits(
    captured: &Captured,
    replay_ns: u64,
    asked: &AtomicBool,
    write: &impl Fn(&Path, &[Fit]) -> Result<(), Failure>,
) -> Result<Vec<Fit>, Failure> {
    let folder = scratch::Folder::new(None)?;
    let path = folder.path().join("fit.toml");
    let mut fits = vec![Fit::USUAL; captured.roles.len()];
    let (mut best, mut best_score) = (fits.clone(), 0.0);
    for number in 1..=FITS {
        let time = show_duration(replay_ns);
        terminal::message(&format!("check: fit {number} of {FITS}, a replay of {time}"));
        write(&path, &fits)?;
        let rows = compare(&path, captured, replay_ns, asked)?;
        let score = plan::likeness_score(&rows);
        terminal::message(&format!("check: fit {number} is {score:.2} like the load"));
        if score > best_score {
            (best, best_score) = (fits.clone(), score);
        }
        fits = Fit::after(&fits, &rows, number == 1);
    }
    Ok(best)
}

/// Runs the plan, and compares each role.
fn compare(
    path: &Path,
    captured: &Captured,
    replay_ns: u64,
    asked: &AtomicBool,
) -> Result<Vec<Likeness>, Failure> {
    let folder = scratch::Folder::new(None)?;
    let Recorded { trace, score, .. } = replay(path, folder.path(), replay_ns, asked)?;
    let named = |name: &String| captured.roles.iter().any(|role| role.profile.name == *name);
    // Workers are threads of the runner, and never its first one.
    let tasks = score.tasks.iter().filter(|task| task.tid != task.pid && named(&task.name));
    let tasks: Vec<TracedTask> = tasks
        .map(|task| TracedTask { tid: task.tid, name: task.name.clone(), ..TracedTask::default() })
        .collect();
    let trace = settled(trace, &tasks, replay_ns).ok_or_else(|| {
        Failure::here("no worker of the replay was seen", "schedlab run FILE says why")
    })?;
    let replayed = plan::replayed(&trace, &tasks, &captured.roles);
    let pairs = captured.roles.iter().zip(replayed);
    Ok(pairs.map(|(role, replay)| Likeness::new(role.profile.clone(), replay)).collect())
}

fn replay(
    path: &Path,
    folder: &Path,
    replay_ns: u64,
    asked: &AtomicBool,
) -> Result<Recorded, Failure> {
    let own = std::env::current_exe()?;
    let store = folder.join("check.db");
    let words = [
        own.display().to_string(),
        "run".to_string(),
        "--db".to_string(),
        store.display().to_string(),
        "--rounds=1".to_string(),
        "--quiet".to_string(),
        format!("--duration={}", show_duration(replay_ns)),
        path.display().to_string(),
    ];
    let limit_ns = replay_ns + 20_000_000_000;
    let shorter = |_| "fewer threads, or without --check: the plan is written".to_string();
    let watched = Watched::Command(words.to_vec());
    let (recorded, ended) = record(&watched, limit_ns, asked, |_| Ok(()), shorter)?;
    match ended {
        Ended::Command(status) if child::exit_code(status) == INTERRUPTED => {
            Err(interrupted(UNCHECKED))
        }
        _ => Ok(recorded),
    }
}

/// The time from when all workers are there.
fn settled(trace: Trace, tasks: &[TracedTask], replay_ns: u64) -> Option<Trace> {
    let mut born: std::collections::BTreeMap<i32, u64> = Default::default();
    for event in &trace.events {
        let tids = match event.what {
            TraceWhat::Switch { to, .. } => to.tid,
            TraceWhat::Waking { task, .. } => task.tid,
            TraceWhat::Migrate { .. } => continue,
        };
        if tasks.iter().any(|task| task.tid == tids) {
            born.entry(tids).or_insert(event.at_ns);
        }
    }
    let from_ns = born.into_values().max()? + SETTLE_NS;
    Some(part_of(trace, from_ns, from_ns + replay_ns))
}

fn render(rows: &[Likeness]) -> String {
    let header = [
        "role",
        "CPUs",
        "replay",
        "switches/s",
        "replay",
        "wakeups/s",
        "replay",
        "KS work",
        "KS waits",
    ];
    let ks = |distance: Option<f64>| distance.map_or("-".to_string(), |ks| format!("{ks:.3}"));
    let pair = |load: f64, replay: f64, digits: usize| {
        let change = 100.0 * (replay / load - 1.0);
        let again =
            if load > 0.0 { format!("{change:+.1} %") } else { format!("{replay:.digits$}") };
        [format!("{load:.digits$}"), again]
    };
    let row = |row: &Likeness| {
        let (load, replay) = (&row.load, &row.replay);
        let mut cells = vec![load.name.clone()];
        cells.extend(pair(load.cpus, replay.cpus, 3));
        cells.extend(pair(load.switches_per_s, replay.switches_per_s, 1));
        cells.extend(pair(load.wakeups_per_s, replay.wakeups_per_s, 1));
        cells.extend([ks(row.bursts_ks), ks(row.waits_ks)]);
        cells
    };
    let rows = rows.iter().map(row).collect();
    table::rows(
        &header,
        rows,
        &table::Columns { fixed: &header, ..Default::default() },
        terminal::width(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_is_to_end_runs_no_replay_and_says_what_is_there() {
        let captured = Captured { window_ns: 1, ..Captured::default() };
        let writes = std::cell::Cell::new(0);
        let write = |_: &Path, _: &[Fit]| {
            writes.set(writes.get() + 1);
            Ok(())
        };
        let asked = AtomicBool::new(true);
        let path = Path::new("load.toml");
        let ended = check(path, &captured, 1_000_000_000, "more", &asked, write).unwrap_err();
        assert!(matches!(ended, Failure::Command { code: INTERRUPTED, .. }), "{ended}");
        assert_eq!(writes.get(), 1, "the first fit alone");
    }
}
