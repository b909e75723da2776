//! Events of perf in the workers of a run or on their CPUs: each is opened in every place and read twice.

use std::io;

use crate::model::Reading;
use crate::sys::perf::{Count, Countable, Counter, Place};
use crate::sys::{Host, process};

use super::error::CounterError;

const UNITS: &str = "/sys/bus/event_source/devices";
/// The name of the CPUs' unit where all CPUs are alike.
const ALIKE: &str = "cpu";

/// One event.
pub struct Event {
    counters: Vec<Counter>,
    /// The place and count of each counter: the count at `begin`, or the one since then after `end`.
    counts: Vec<(Place, Count)>,
}

impl Event {
    /// `units`: the result of [`cpu_units`]. Opens the event at all of the places or none.
    pub fn open(what: Countable, places: &[Place], units: &[u32]) -> Result<Event, CounterError> {
        let kinds: Vec<Countable> = match what.is_hardware() && units.len() > 1 {
            true => units.iter().map(|unit| what.on_cpus_of(*unit)).collect(),
            // If all CPUs are alike, the kernel finds their unit.
            false => vec![what],
        };
        let mut event = Event { counters: Vec::new(), counts: Vec::new() };
        for place in places {
            let opened = kinds.iter().map(|what| open(*what, *place));
            // A CPU is of one kind, and the others do not take it.
            let opened: io::Result<Vec<Counter>> = match place {
                Place::Task(_) => opened.collect(),
                Place::Cpu(_) => match opened.reduce(Result::or) {
                    Some(counter) => counter.map(|counter| vec![counter]),
                    None => Ok(Vec::new()),
                },
            };
            let opened = opened.map_err(|source| CounterError::refused(*place, source))?;
            event.counts.extend(opened.iter().map(|_| (*place, Count::default())));
            event.counters.extend(opened);
        }
        Ok(event)
    }

    #[cfg(test)]
    pub fn from_counts(counts: &[(Place, Count)]) -> Event {
        Event { counters: Vec::new(), counts: counts.to_vec() }
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

    /// The sum over these places. On CPUs of several kinds, counters of all kinds are enabled for a task all the
    /// time, and one of them counts it at any moment.
    pub fn count(&self, is_of: impl Fn(Place) -> bool) -> Count {
        let mut sum = Count::default();
        let mut last = None;
        for (place, count) in self.counts.iter().filter(|(place, _)| is_of(*place)) {
            let enabled_ns = if last == Some(*place) { 0 } else { count.enabled_ns };
            sum = sum.plus(&Count { enabled_ns, ..*count });
            last = Some(*place);
        }
        sum
    }
}

/// A counter is a file. Programs get the raised limit, too, so it is raised only where it must be.
fn open(what: Countable, place: Place) -> io::Result<Counter> {
    match Counter::open(what, place) {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            process::raise_open_files()?;
            Counter::open(what, place)
        }
        opened => opened,
    }
}

/// Extrapolates the count to all of the time, as perf(1) does: the count times the time in which it was enabled
/// over the time in which it was counted.
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

/// The numbers of the units that count events of CPUs: several where CPUs are of several kinds, none where the
/// machine shows none.
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
