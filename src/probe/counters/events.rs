//! Events of perf in the workers of a run: each is opened for every worker and read twice.

use std::collections::BTreeSet;
use std::io;

use crate::model::Reading;
use crate::sys::perf::{Count, Countable, Counter};
use crate::sys::{Host, process};

use super::error::CounterError;

const UNITS: &str = "/sys/bus/event_source/devices";
/// What a unit of CPUs is called where all CPUs are alike.
const ALIKE: &str = "cpu";
/// The level at which a user may count the kernel's part of tasks.
const PARANOID: i32 = 1;

/// One event.
pub struct Event {
    counters: Vec<Counter>,
    /// For each counter its task, and what it has counted: at `begin`, since then after `end`.
    counts: Vec<(i32, Count)>,
    /// A task has a counter for each of so many kinds of CPUs.
    kinds: u64,
}

impl Event {
    /// `units`: those of [`cpu_units`]. All of them or none.
    pub fn open(what: Countable, workers: &[i32], units: &[u32]) -> Result<Event, CounterError> {
        // Where all CPUs are alike the kernel finds their unit.
        let kinds = match what.is_hardware() && units.len() > 1 {
            true => units.iter().map(|unit| what.on_cpus_of(*unit)).collect(),
            false => vec![what],
        };
        let tasks = workers.iter().flat_map(|tid| kinds.iter().map(move |what| (*what, *tid)));
        let counters: io::Result<_> = tasks.clone().map(|(what, tid)| of_task(what, tid)).collect();
        let counters =
            counters.map_err(|source| CounterError::Refused { paranoid: PARANOID, source })?;
        let counts = tasks.map(|(_, tid)| (tid, Count::default())).collect();
        Ok(Event { counters, counts, kinds: kinds.len() as u64 })
    }

    #[cfg(test)]
    pub fn of(counts: &[(i32, Count)], kinds: u64) -> Event {
        Event { counters: Vec::new(), counts: counts.to_vec(), kinds }
    }

    pub fn begin(&mut self) -> Reading<()> {
        self.read(|count, now| *count = now)
    }

    pub fn end(&mut self) -> Reading<()> {
        self.read(|count, now| *count = now.since(count))
    }

    fn read(&mut self, keep: impl Fn(&mut Count, Count)) -> Reading<()> {
        for (counter, (_, count)) in self.counters.iter().zip(&mut self.counts) {
            match counter.read() {
                Ok(now) => keep(count, now),
                Err(error) => return Reading::Unknown(CounterError::Read(error).to_string()),
            }
        }
        Reading::Known(())
    }

    /// Of these workers together. On CPUs of several kinds a worker is to be counted by each of
    /// them all the time, and is counted by one.
    pub fn count(&self, tids: &BTreeSet<i32>) -> Count {
        let own = self.counts.iter().filter(|(tid, _)| tids.contains(tid));
        let sum = own.fold(Count::default(), |sum, (_, count)| sum.plus(count));
        Count { enabled_ns: sum.enabled_ns / self.kinds, ..sum }
    }
}

/// A counter is a file. Programs get the raised limit, too, so it is raised only where it must be.
fn of_task(what: Countable, tid: i32) -> io::Result<Counter> {
    match Counter::of_task(what, tid) {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            process::raise_open_files()?;
            Counter::of_task(what, tid)
        }
        opened => opened,
    }
}

/// What it would be if it had been counted all the time, as perf(1) has it: the count times the
/// time in which it was to be counted over the time in which it was.
pub fn total(what: Countable, count: &Count) -> Reading<f64> {
    let Count { value, enabled_ns, running_ns } = *count;
    let never_none = [Countable::CYCLES, Countable::INSTRUCTIONS].contains(&what);
    let why = match (value, enabled_ns, running_ns) {
        (_, 0, _) => return Reading::Known(value as f64),
        (_, _, 0) => "the CPU had no counter free for it",
        (0, _, _) if never_none => "the CPU shows a counter that counts nothing",
        _ => return Reading::Known(value as f64 * enabled_ns as f64 / running_ns as f64),
    };
    Reading::Unknown(why.to_string())
}

/// The numbers of the units that count what CPUs do: several where CPUs are of several kinds, none
/// where the machine shows none.
pub fn cpu_units(host: &Host) -> Vec<u32> {
    let Ok(folder) = std::fs::read_dir(host.path(UNITS)) else { return Vec::new() };
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_of_cpus =
        |name: &String| name == ALIKE || host.path(format!("{UNITS}/{name}/cpus")).exists();
    let number = |name: String| host.read(format!("{UNITS}/{name}/type")).ok()?.trim().parse().ok();
    let mut units: Vec<u32> = names.filter(is_of_cpus).filter_map(number).collect();
    units.sort_unstable();
    units
}
