//! The tables of changes in mid-run, each with its moment. Pure.

use crate::model::{Offline, ValueError, Work, show_duration};

use super::error::Faults;
use super::fields::{AT, CHANGE, CHANGE_AT, MAX_CHANGES};
use super::table::{Table, sections};

/// The tables of changes below `table`, whose name in brackets is `path`, each with its moment.
pub fn changes<'t>(
    table: &mut Table<'t>,
    path: &str,
    duration_ns: u64,
    faults: &mut Faults,
) -> Vec<(u64, Table<'t>)> {
    timed(table, CHANGE, &format!("{path}.{CHANGE}"), duration_ns, faults)
}

/// The same of tables under another key; `path` is their own.
pub fn timed<'t>(
    table: &mut Table<'t>,
    key: &str,
    path: &str,
    duration_ns: u64,
    faults: &mut Faults,
) -> Vec<(u64, Table<'t>)> {
    let tables = sections(table, key, path, faults);
    if let Some(first) = tables.get(MAX_CHANGES) {
        let message = format!("{} changes", tables.len());
        faults.add(&first.span, message, "too many", format!("at most {MAX_CHANGES} of each"));
    }
    let timed = tables.into_iter().filter_map(|mut table| {
        let at_ns = moment(&mut table, duration_ns, faults)?;
        Some((at_ns, table))
    });
    let mut timed: Vec<(u64, Table)> = timed.collect();
    // Changes of one moment stay in the order written.
    timed.sort_by_key(|(at_ns, _)| *at_ns);
    timed
}

/// `None`: a fault was noted.
fn moment(table: &mut Table, duration_ns: u64, faults: &mut Faults) -> Option<u64> {
    let Some(span) = table.key_span(AT) else {
        let hint = "a moment of the measured section: at = \"1s\"";
        return faults.refuse(&table.span, format!("a change without `{AT}`"), "this one", hint);
    };
    let (value, _) = table.take_value(&CHANGE_AT, faults)?;
    let at_ns = value.as_duration_ns()?;
    if let Err(ValueError { message, hint }) = fits(at_ns, duration_ns) {
        faults.add(&span, message, "not in the run", hint);
    }
    Some(at_ns)
}

fn fits(at_ns: u64, duration_ns: u64) -> Result<(), ValueError> {
    if at_ns < duration_ns {
        return Ok(());
    }
    let (at, run) = (show_duration(at_ns), show_duration(duration_ns));
    let message = format!("a change at {at}, and a run has {run}");
    let hint = "change earlier, or lengthen `duration`, which is without the warm-up".to_string();
    Err(ValueError { message, hint })
}

/// Checks that CPUs that are to come back do so within the run.
pub fn come_back(off: &Offline, duration_ns: u64) -> Result<(), ValueError> {
    match off.end_ns() {
        Some(end_ns) if end_ns > duration_ns => {
            let (back, run) = (show_duration(end_ns), show_duration(duration_ns));
            let message = format!("CPUs that come back at {back}, and a run has {run}");
            let hint = "leave `for` out: they are off to the end, and back after the run";
            Err(ValueError { message, hint: hint.to_string() })
        }
        _ => Ok(()),
    }
}

/// Checks the changes of a plan whose duration is replaced.
pub fn changes_fit(work: &Work, duration_ns: u64) -> Result<(), ValueError> {
    let of_sets = work.sets.iter().flat_map(|set| &set.changes).map(|change| change.at_ns);
    let of_cgroups = work.cgroups.iter().flat_map(|of| &of.changes).map(|change| change.at_ns);
    let of_cpus = work.offline.iter().map(|off| off.at_ns);
    of_sets.chain(of_cgroups).chain(of_cpus).try_for_each(|at_ns| fits(at_ns, duration_ns))?;
    work.offline.iter().try_for_each(|off| come_back(off, duration_ns))
}
