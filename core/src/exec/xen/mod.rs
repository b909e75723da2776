//! A run whose workers are guests of Xen, from its first domain.
//!
//! Order of a run: create a guest for each worker in Xen's first pool, and wait until all have booted. In the lab the
//! machine is saved here, so that runs of other pools, schedulers, weights and seeds go on from here, after a
//! rehearsal. Then make the pool with its scheduler and CPUs, move the guests into it, give each its part of the run
//! and the moment at which all begin, read the guests' CPU time at the windows' ends, and take their results. Elsewhere
//! than in the lab, whose machine ends here, destroy them and put the CPUs back. CPU time is what Xen counted: a
//! guest's own clocks count the time in which it waited for a CPU, too.

mod channel;
mod error;
mod guest;
mod merge;
mod pool;
mod ramdisk;
mod tools;

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::model::{
    Cell, GUEST_WIRE, GuestMessage, GuestSize, GuestSpec, KnobReading, Lab, Outcome, Reading,
    RunEnd, RunSpec, Value, Window, WorkerKind, WorkerSet,
};
use crate::sys::xen::{self as hypervisor, Machine, Xen};
use crate::sys::{Host, clock};
use crate::variant::{self, XenSetting};

use super::group::Limit;

pub use channel::GuestChannel;
pub use error::XenError;
use guest::{Guest, Guests, Settings};
use merge::{Moment, Part, merged};
use pool::{OwnPool, PoolSettings};

/// Time for the workers of all guests to start, for each guest that a CPU of the pool has.
const START_NS: u64 = 400_000_000;
/// By how much a guest may begin later than planned, for each guest that a CPU of the pool has: all begin at once, and a
/// time slice of credit is 30 ms.
const LATE_NS: u64 = 50_000_000;
/// How often a cancelled plan is noticed.
const POLL_NS: u64 = 100_000_000;

/// Why the cell cannot run here; changes nothing.
pub fn check(cell: &Cell, host: &Host) -> Result<(), XenError> {
    if !hypervisor::is_control(host) {
        return Err(XenError::NoXen);
    }
    let machine = Xen::open().and_then(|xen| xen.machine()).map_err(XenError::call("look"))?;
    check_on(cell, &machine)
}

/// Why a cell whose workers are guests cannot run on a machine of the lab, as far as that is known before it boots.
/// `lab`: `None` without Xen.
pub fn check_guests(cell: &Cell, lab: Option<&Lab>) -> Result<(), XenError> {
    if !cell.work.has_guests(true) {
        return Ok(());
    }
    let Some(lab) = lab else { return Err(XenError::NoXen) };
    let machine = Machine { cpus: lab.cpus, free_bytes: lab.memory_bytes };
    guest::check_memory(&machine, &guest_sizes(cell))?;
    check_on(cell, &machine)
}

fn check_on(cell: &Cell, machine: &Machine) -> Result<(), XenError> {
    let is_other =
        |set: &&WorkerSet| matches!(set.kind, WorkerKind::Threads | WorkerKind::Processes);
    if let Some(set) = cell.work.sets.iter().find(is_other) {
        return Err(XenError::Mixed(set.name.clone()));
    }
    if !cell.work.cgroups.is_empty() {
        return Err(XenError::Cgroups);
    }
    let pool = PoolSettings::for_machine(cell, machine)?;
    let mut settings = cell.work.sets.iter().map(|set| Settings::from_knobs(&knobs(cell, set)));
    settings.try_for_each(|settings| settings.check(&pool))
}

/// The guests that a cell has on Xen, in the order of their sets.
pub fn guest_sizes(cell: &Cell) -> Vec<GuestSize> {
    if !cell.work.has_guests(true) {
        return Vec::new();
    }
    let sets = cell.work.sets.iter();
    let sizes = sets.map(|set| (Settings::from_knobs(&knobs(cell, set)).size, set.count as usize));
    sizes.flat_map(|(size, count)| std::iter::repeat_n(size, count)).collect()
}

/// The variant's knobs, each replaced by the set's own of its name.
fn knobs(cell: &Cell, set: &WorkerSet) -> BTreeMap<String, Value> {
    variant::merged(&cell.variant.knobs, &set.knobs)
}

/// Guests that have booted and wait for their parts of a run, or why there are none.
pub struct BootedGuests(Result<Guests, XenError>);

impl BootedGuests {
    pub fn boot(sizes: &[GuestSize]) -> BootedGuests {
        BootedGuests(Guests::boot(sizes, &AtomicBool::new(false)))
    }

    /// The release of their kernel.
    pub fn kernel(&self) -> Option<&str> {
        self.0.as_ref().ok().map(Guests::kernel)
    }

    /// Executes a short run without a result, after which QEMU has translated the code that runs execute. The guests are
    /// the workers of the first set of `spec`; when this returns, all are back in the first pool, and its schedulers
    /// have forgotten the run. A Xen that cannot have such a pool has no rehearsal.
    pub fn rehearse(self, spec: &GuestSpec) -> BootedGuests {
        BootedGuests(self.0.and_then(|mut guests| {
            let mut run = spec.run.clone();
            let count = guests.all().len();
            run.limit_ns += START_NS * (1 + count as u64);
            run.cell.work.sets.truncate(1);
            run.cell.work.sets.iter_mut().for_each(|set| set.count = count as u32);
            let wanted = PoolSettings::from_cell(&run.cell, &guests.xen())?;
            let Ok(pool) = OwnPool::make(guests.xen(), &wanted) else { return Ok(guests) };
            let measured = measure(&run, &mut guests, &pool, &AtomicBool::new(false));
            let left = measured.and_then(|_| guests.leave_pool()).and_then(|()| pool.end());
            left.map_err(|error| XenError::Rehearsal(error.into()))?;
            clock::sleep_until(clock::monotonic_ns() + spec.offset_ns);
            Ok(guests)
        }))
    }

    /// Executes a run with them. Guests and pool stay as they are: the machine ends with it.
    pub fn run(self, spec: &RunSpec, on_window: &mut dyn FnMut(Window)) -> RunEnd {
        let BootedGuests(guests) = self;
        let run = || {
            let mut guests = ManuallyDrop::new(guests?);
            let wanted = PoolSettings::from_cell(&spec.cell, &guests.xen())?;
            let pool = ManuallyDrop::new(OwnPool::make(guests.xen(), &wanted)?);
            measure(spec, &mut guests, &pool, &AtomicBool::new(false))
        };
        end(run(), on_window)
    }
}

/// Executes one run on this machine. `on_window` gets its windows at its end.
pub fn run(spec: &RunSpec, cancel: &AtomicBool, on_window: &mut dyn FnMut(Window)) -> RunEnd {
    let run = || {
        let mut guests = Guests::boot(&guest_sizes(&spec.cell), cancel)?;
        let wanted = PoolSettings::from_cell(&spec.cell, &guests.xen())?;
        let pool = OwnPool::make(guests.xen(), &wanted)?;
        let measured = measure(spec, &mut guests, &pool, cancel);
        // A pool with guests cannot be removed.
        drop(guests);
        pool.end().and(measured)
    };
    end(run(), on_window)
}

fn end(run: Result<(Vec<Window>, Outcome), XenError>, on_window: &mut dyn FnMut(Window)) -> RunEnd {
    match run {
        Ok((windows, outcome)) => {
            windows.into_iter().for_each(on_window);
            RunEnd::Finished(outcome)
        }
        Err(XenError::Cancelled) => RunEnd::Interrupted,
        Err(error @ XenError::Memory { .. }) => {
            RunEnd::Finished(Outcome::Skipped { reason: error.to_string() })
        }
        Err(error) => RunEnd::Finished(Outcome::Failed { reason: error.to_string() }),
    }
}

fn measure(
    spec: &RunSpec,
    guests: &mut Guests,
    pool: &OwnPool,
    cancel: &AtomicBool,
) -> Result<(Vec<Window>, Outcome), XenError> {
    let (work, xen) = (&spec.cell.work, guests.xen());
    let limit = Limit::from_now(spec.limit_ns);
    let mut knobs = pool.readings()?;
    let sets = work.sets.iter().enumerate();
    let sets = sets.flat_map(|(at, set)| std::iter::repeat_n(at, set.count as usize));
    let sets: Vec<usize> = sets.collect();
    for (at, set) in work.sets.iter().enumerate() {
        let settings = Settings::from_knobs(&self::knobs(&spec.cell, set));
        let of_set = || guests.all().iter().zip(&sets).filter(|(_, of)| **of == at);
        for (guest, _) in of_set() {
            guests.place(guest, &settings, pool)?;
        }
        if let Some((guest, _)) = of_set().next_back() {
            knobs.extend(weights(&xen, set, &settings, guest, pool)?);
        }
    }
    let each = sets.len().div_ceil(pool.cpus().len()) as u64;
    let start_unix_ns = clock::unix_ns() + START_NS * (1 + each);
    for (index, (guest, set)) in guests.all().iter().zip(&sets).enumerate() {
        guests.give(guest, &part_of(spec, *set, index, start_unix_ns)?)?;
    }
    let begin_ns = clock::monotonic_at(start_unix_ns);
    let readings = read_cpu_times(&xen, spec, guests, begin_ns, cancel)?;
    let parts = collect(guests, &sets, limit, cancel)?;
    for part in &parts {
        let late_ns = part.result.started_unix_ns.saturating_sub(start_unix_ns);
        if late_ns > LATE_NS * each {
            return Err(XenError::LateStart { late_ns });
        }
    }
    let (windows, mut result) = merged(work, parts, &readings);
    result.started_unix_ns = start_unix_ns;
    result.measured_ns = spec.duration_ns;
    result.knobs = knobs;
    result.pool_cpus = Some(pool.cpus().clone());
    Ok((windows, Outcome::Done { result: Box::new(result) }))
}

/// The part of one guest: the run with one worker of its set, as a thread.
fn part_of(
    spec: &RunSpec,
    set: usize,
    index: usize,
    start_unix_ns: u64,
) -> Result<GuestSpec, XenError> {
    let mut run = spec.clone();
    let work = &mut run.cell.work;
    let set = work.sets.swap_remove(set);
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
) -> Result<Vec<Moment>, XenError> {
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
        let cpu_ns = guests.all().iter().map(read).collect::<Result<_, _>>()?;
        readings.push(Moment { at_ns, cpu_ns });
        if at_ns == until_ns {
            return Ok(readings);
        }
        at_ns = (at_ns + spec.window_ns).min(until_ns);
    }
}

/// The windows and the result of each guest.
fn collect(
    guests: &mut Guests,
    sets: &[usize],
    limit: Limit,
    cancel: &AtomicBool,
) -> Result<Vec<Part>, XenError> {
    let is_end = |message: &GuestMessage| matches!(message, GuestMessage::Ended { .. });
    let messages = guests.await_all(limit, cancel, is_end)?;
    let parts = guests.all().iter().zip(sets).zip(messages).map(|((guest, set), messages)| {
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
        Ok(Part { set: *set, cpus: guest.cpus, windows, result: done.ok_or_else(gone)? })
    });
    parts.collect()
}

/// Weight and cap of a set's guests, as Xen has them.
fn weights(
    xen: &Xen,
    set: &WorkerSet,
    settings: &Settings,
    guest: &Guest,
    pool: &OwnPool,
) -> Result<Vec<KnobReading>, XenError> {
    let scheduler = pool.scheduler();
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
