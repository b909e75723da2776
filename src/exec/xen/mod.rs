//! A run whose workers are guests of Xen, from its first domain.
//!
//! Order of a run: make the pool with its scheduler and CPUs, create a guest for each worker, wait until all
//! have booted, give each its part of the run and the moment at which all begin, read the guests' CPU time
//! at the windows' ends, take their results, destroy them, and put the CPUs back. CPU time is what Xen
//! counted: a guest's own clocks count the time in which it waited for a CPU, too.

mod channel;
mod error;
mod guest;
mod merge;
mod pool;
mod ramdisk;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::model::{
    Cell, GUEST_WIRE, GuestMessage, GuestSpec, KnobReading, Outcome, Reading, RunEnd, RunSpec,
    Value, Window, WorkerKind, WorkerSet,
};
use crate::sys::xen::{self as hypervisor, Xen};
use crate::sys::{Host, clock};
use crate::variant::{self, XenSetting};

pub use channel::GuestChannel;
pub use error::XenError;
use guest::{Guest, Guests, Settings};
use merge::{Part, merged};
use pool::{OwnPool, PoolSettings};

/// Time for the workers of all guests to start, for each guest that a CPU of the pool has.
const START_NS: u64 = 400_000_000;
/// By how much a guest may begin later than planned.
const LATE_NS: u64 = 50_000_000;
/// How often a cancelled plan is noticed.
const POLL_NS: u64 = 100_000_000;

/// Why the cell cannot run here; changes nothing.
pub fn check(cell: &Cell, host: &Host) -> Result<(), XenError> {
    if !hypervisor::is_control(host) {
        return Err(XenError::NoXen);
    }
    let is_other =
        |set: &&WorkerSet| matches!(set.kind, WorkerKind::Threads | WorkerKind::Processes);
    if let Some(set) = cell.work.sets.iter().find(is_other) {
        return Err(XenError::Mixed(set.name.clone()));
    }
    if !cell.work.cgroups.is_empty() {
        return Err(XenError::Cgroups);
    }
    let machine = Xen::open().and_then(|xen| xen.machine()).map_err(XenError::call("look"))?;
    let needed = cell.work.sets.iter().map(|set| {
        let bytes = Settings::of(&knobs(cell, set)).memory_bytes;
        (u64::from(set.count), bytes + guest::OVERHEAD_BYTES)
    });
    let needed_bytes: u64 = needed.clone().map(|(count, bytes)| count * bytes).sum();
    let largest = needed.clone().map(|(_, bytes)| bytes).max().unwrap_or(1);
    match needed_bytes > machine.free_bytes {
        true => Err(XenError::Memory {
            needed_bytes,
            free_bytes: machine.free_bytes,
            guests: needed.map(|(count, _)| count).sum(),
            fit: machine.free_bytes / largest,
        }),
        false => {
            let pool = pool::check(cell, &machine)?;
            let settings = cell.work.sets.iter().map(|set| Settings::of(&knobs(cell, set)));
            settings.into_iter().try_for_each(|settings| settings.check(&pool))
        }
    }
}

/// The variant's knobs, each replaced by the set's own of its name.
fn knobs(cell: &Cell, set: &WorkerSet) -> BTreeMap<String, Value> {
    variant::merged(&cell.variant.knobs, &set.knobs)
}

/// Executes one run. `on_window` gets its windows at its end.
pub fn run(spec: &RunSpec, cancel: &AtomicBool, on_window: &mut dyn FnMut(Window)) -> RunEnd {
    match measure(spec, cancel) {
        Ok((windows, outcome)) => {
            windows.into_iter().for_each(on_window);
            RunEnd::Finished(outcome)
        }
        Err(XenError::Cancelled) => RunEnd::Interrupted,
        Err(error) => RunEnd::Finished(Outcome::Failed { reason: error.to_string() }),
    }
}

fn measure(spec: &RunSpec, cancel: &AtomicBool) -> Result<(Vec<Window>, Outcome), XenError> {
    let xen = Xen::open().map_err(XenError::call("open its control device"))?;
    let limit_ns = clock::monotonic_ns().saturating_add(spec.limit_ns);
    let wanted = PoolSettings::of(&spec.cell)?;
    let pool = OwnPool::make(&xen, &wanted)?;
    let mut knobs = pool.readings(&xen)?;
    let mut guests = Guests::begin(&xen, limit_ns, cancel)?;
    for (position, set) in spec.cell.work.sets.iter().enumerate() {
        let settings = Settings::of(&self::knobs(&spec.cell, set));
        for _ in 0..set.count {
            guests.create(position, &settings, pool.name())?;
        }
        knobs.extend(weights(&xen, set, &settings, guests.last(), &pool)?);
    }
    guests.await_all(|message| matches!(message, GuestMessage::Started))?;
    let each = guests.all().len().div_ceil(wanted.cpus.len()) as u64;
    let start_unix_ns = clock::unix_ns() + START_NS * (1 + each);
    for (index, guest) in guests.all().iter().enumerate() {
        guests.give(guest, &part_of(spec, guest, index, start_unix_ns)?)?;
    }
    let begin_ns = clock::monotonic_ns() + start_unix_ns.saturating_sub(clock::unix_ns());
    let readings = read_cpu_times(&xen, spec, &guests, begin_ns, cancel)?;
    let parts = collect(&mut guests)?;
    for part in &parts {
        let late_ns = part.result.started_unix_ns.saturating_sub(start_unix_ns);
        if late_ns > LATE_NS {
            return Err(XenError::LateStart { late_ns });
        }
    }
    guests.end();
    pool.end()?;
    let (windows, mut result) = merged(&spec.cell.work, parts, &readings);
    result.started_unix_ns = start_unix_ns;
    result.measured_ns = spec.duration_ns;
    result.knobs = knobs;
    result.pool_cpus = Some(wanted.cpus);
    Ok((windows, Outcome::Done { result: Box::new(result) }))
}

/// What one guest is to do: the run with one worker of its set, as a thread.
fn part_of(
    spec: &RunSpec,
    guest: &Guest,
    index: usize,
    start_unix_ns: u64,
) -> Result<GuestSpec, XenError> {
    let mut run = spec.clone();
    let work = &mut run.cell.work;
    let set = work.sets.swap_remove(guest.set);
    work.sets = vec![WorkerSet { count: 1, kind: WorkerKind::Threads, ..set }];
    let no_xen = |knobs: &mut BTreeMap<String, Value>| {
        let of_xen: Vec<&str> = variant::of_xen(knobs).into_iter().map(|(name, ..)| name).collect();
        knobs.retain(|name, _| !of_xen.contains(&name.as_str()));
    };
    no_xen(&mut run.cell.variant.knobs);
    no_xen(&mut work.sets[0].knobs);
    run.cell.placement = Default::default();
    run.seed = spec.seed.wrapping_add(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    run.start_unix_ns = Some(start_unix_ns);
    Ok(GuestSpec { wire: GUEST_WIRE, run, offset_ns: 0 })
}

/// CPU time of each guest at the begin of the measured section and at the end of each window.
fn read_cpu_times(
    xen: &Xen,
    spec: &RunSpec,
    guests: &Guests,
    begin_ns: u64,
    cancel: &AtomicBool,
) -> Result<Vec<Vec<u64>>, XenError> {
    let from_ns = begin_ns + spec.warmup_ns;
    let until_ns = from_ns + spec.duration_ns;
    let mut at_ns = from_ns;
    let mut readings = Vec::new();
    loop {
        while clock::monotonic_ns() < at_ns {
            clock::sleep_until(at_ns.min(clock::monotonic_ns() + POLL_NS));
            if cancel.load(Relaxed) {
                return Err(XenError::Cancelled);
            }
        }
        let read = |guest: &Guest| {
            let domain = xen.domain(guest.domain).map_err(XenError::call("read CPU time"))?;
            let own = domain.filter(|domain| domain.id == guest.domain);
            own.map(|domain| domain.cpu_ns).ok_or_else(|| XenError::Gone {
                guest: guest.name.clone(),
                console: guests.console(guest),
            })
        };
        readings.push(guests.all().iter().map(read).collect::<Result<_, _>>()?);
        if at_ns == until_ns {
            return Ok(readings);
        }
        at_ns = (at_ns + spec.window_ns).min(until_ns);
    }
}

/// The windows and the result of each guest.
fn collect(guests: &mut Guests) -> Result<Vec<Part>, XenError> {
    let messages = guests.await_all(|message| matches!(message, GuestMessage::Ended { .. }))?;
    let parts = guests.all().iter().zip(messages).map(|(guest, messages)| {
        let (mut windows, mut done) = (Vec::new(), None);
        for message in messages {
            match message {
                GuestMessage::Window(window) => windows.push(window),
                GuestMessage::Ended { outcome: Outcome::Done { result } } => done = Some(*result),
                GuestMessage::Ended {
                    outcome: Outcome::Failed { reason } | Outcome::Skipped { reason },
                } => return Err(XenError::InGuest { guest: guest.name.clone(), reason }),
                GuestMessage::Started | GuestMessage::Ready(_) => {}
            }
        }
        let gone = || XenError::Gone { guest: guest.name.clone(), console: String::new() };
        Ok(Part { set: guest.set, cpus: guest.cpus, windows, result: done.ok_or_else(gone)? })
    });
    parts.collect()
}

/// Weight and cap of a set's guests, as Xen has them.
fn weights(
    xen: &Xen,
    set: &WorkerSet,
    settings: &Settings,
    guest: Option<&Guest>,
    pool: &OwnPool,
) -> Result<Vec<KnobReading>, XenError> {
    let (Some(guest), Some(scheduler)) = (guest, pool.scheduler()) else { return Ok(Vec::new()) };
    if !scheduler.has_weights() {
        return Ok(Vec::new());
    }
    let (weight, cap) =
        xen.weight(guest.domain, scheduler).map_err(XenError::call("read a weight"))?;
    let reading = |(name, asked, setting): &(&'static str, Value, XenSetting)| {
        let got = match setting {
            XenSetting::Weight(_) => weight,
            XenSetting::Cap(_) => cap,
            _ => return None,
        };
        let knob = format!("{}: {name}", set.name);
        Some(KnobReading {
            knob,
            asked: asked.clone(),
            got: Reading::Known(Value::Int(got.into())),
        })
    };
    Ok(settings.asked.iter().filter_map(reading).collect())
}
