//! `run`: the runs of a file that are not completed, each stored in the file in its turn. A backend
//! whose runs do not disturb each other makes several at once.
//!
//! A run that this machine cannot do as the file asks (no Xen, a pool that does not match) is skipped with
//! its reason and stays unchanged; the next `run` tries it again.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::backend::{Backend, RunNews};
use crate::model::{
    Advice, Cell, CpuSet, Lab, MemoryPlacement, Outcome, Placement, RunEnd, RunResult, RunSpec,
    Value, Variant, Window, Work, WorkerKind, WorkerSet, clean_path,
};
use crate::report::clean;
use crate::report::disturbance;
use crate::sys::sched::Policy;
use crate::sys::xen;

use super::super::CompatError;
use super::args;
use super::error::CannotRun;
use super::expand::{Pending, PendingSet};
use super::file::{BenchFile, Conditions, Report};
use super::on_disk::OnDisk;

const NS_PER_S: u64 = 1_000_000_000;
const WINDOW_NS: u64 = NS_PER_S;
/// Time after the end of its duration when a run that has not ended is killed.
const GRACE_NS: u64 = 60 * NS_PER_S;
/// Draws the start offsets of workers; the same for all runs of a file.
const SEED: u64 = 1;
/// [`super::file::Plan::worker_type`].
pub(super) const PROCESSES: i64 = 0;
pub(super) const GUESTS: i64 = 1;
/// The machine in the lab for a file whose workers are guests.
const XEN: &str = "xen:4.17";
/// CPUs of a file that names none, with that of the first domain.
const XEN_CPUS: u32 = 5;
/// Memory of Xen itself, and its memory for each guest in addition to the guest's own.
const XEN_BYTES: u64 = 192 << 20;
const BESIDE_GUEST_BYTES: u64 = 16 << 20;
/// Maximum memory of a machine in the lab.
const MAX_BYTES: u64 = 64 << 30;
/// The priority of `fifo` and `rr`, which need one: the lowest.
const PRIORITY: i64 = 1;

/// The outcomes of the runs that were still to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub completed: usize,
    pub skipped: usize,
    pub failed: usize,
    /// A signal came: what is missing may be run later.
    pub interrupted: bool,
}

/// The machine in the lab for all pending runs of `file`: if its workers are guests, Xen with the file's CPUs
/// and memory for its largest run.
pub fn machine(file: &BenchFile) -> Result<Lab, CompatError> {
    if file.plan.worker_type != GUESTS {
        return Ok(Lab::default());
    }
    Ok(machine_of(&file.pending()?, xen::guest_memory_bytes()))
}

/// A machine with Xen, the CPUs that `runs` name, and memory for the largest of them if each guest has `guest_bytes`.
pub(super) fn machine_of(runs: &[Pending], guest_bytes: u64) -> Lab {
    let last = runs.iter().filter_map(|run| run.cpus.as_ref()?.iter().max()).max();
    let cpus = last.map_or(XEN_CPUS, |last| last.saturating_add(1).clamp(2, 64));
    let guests = |run: &Pending| run.sets.iter().map(|set| u64::from(set.count)).sum::<u64>();
    let guests = runs.iter().map(guests).max().unwrap_or(0);
    Lab {
        kernel: XEN.to_string(),
        cpus,
        // So that NumaDisable has something to disable.
        nodes: if cpus % 2 == 0 && cpus > 2 { 2 } else { 1 },
        memory_bytes: (XEN_BYTES + guests * (guest_bytes + BESIDE_GUEST_BYTES)).min(MAX_BYTES),
        ..Lab::default()
    }
}

/// Makes the pending runs of `file`, and saves it after each run; a trial before the first one shows that it
/// can be saved. A scheduler's name is looked up in `variants`, then among policies. `report` gets a line of
/// progress now and then.
pub fn run(
    file: &mut BenchFile,
    disk: &mut OnDisk,
    variants: &[Variant],
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    report: &mut dyn FnMut(&str),
) -> Result<Tally, CompatError> {
    let pending = file.pending()?;
    let specs: Vec<Result<RunSpec, CannotRun>> =
        pending.iter().map(|run| planned(file, run, variants, backend)).collect();
    let possible: Vec<RunSpec> = specs.iter().flatten().cloned().collect();
    if !possible.is_empty() {
        disk.probe(file)?;
    }
    backend.announce(possible);
    let mut tally = Tally::default();
    for (number, (run, spec)) in pending.iter().zip(&specs).enumerate() {
        let head = format!("[{} of {}] {}", number + 1, pending.len(), clean(run.label.trim_end()));
        let spec = match spec {
            Ok(spec) => spec,
            Err(why) => {
                report(&format!("{head}: skipped: {}", clean(&why.to_string())));
                tally.skipped += 1;
                continue;
            }
        };
        report(&format!("{head}: {} s", run.runtime_seconds));
        let placed = placed(&spec.cell, backend);
        let mut reports = Reports::new(&run.sets);
        let mut on_news = |news| match news {
            RunNews::Window(window) => reports.add(&window),
            RunNews::Again { .. } => reports = Reports::new(&run.sets),
            RunNews::Starved { .. }
            | RunNews::SlowBoot(_)
            | RunNews::NotSaved(_)
            | RunNews::ConsoleKept { .. }
            | RunNews::Covered(_) => {}
        };
        match backend.run_again_if_ended(spec, cancel, &mut on_news) {
            RunEnd::Interrupted => {
                tally.interrupted = true;
                return Ok(tally);
            }
            RunEnd::Finished(Outcome::Done { result }) => {
                let found = conditions(&result, placed);
                for line in found.lines() {
                    report(&format!("  {}", clean(&line)));
                }
                file.store(run.index, reports.list, found);
                disk.save(file)?;
                tally.completed += 1;
            }
            RunEnd::Finished(Outcome::Failed { reason } | Outcome::Skipped { reason })
            | RunEnd::HostEnded { reason } => {
                report(&format!("{head}: failed: {}", clean(&reason)));
                tally.failed += 1;
            }
        }
    }
    if pending.is_empty() {
        let name = clean_path(disk.path());
        report(&match file.plan.runs.len() {
            0 => format!("{name}: no runs yet: schedlab schedbench -f {name} plan"),
            _ => format!("{name}: every run is completed"),
        });
    }
    Ok(tally)
}

/// A run in the backend's form, or why the backend cannot make it.
fn planned(
    file: &BenchFile,
    run: &Pending,
    variants: &[Variant],
    backend: &dyn Backend,
) -> Result<RunSpec, CannotRun> {
    let cell = cell(file.plan.worker_type, run, variants)?;
    backend.check(&cell).map_err(|error| CannotRun::Backend(error.reason()))?;
    Ok(spec(cell, run))
}

/// Notes on the figures: the values of knobs and pool that were read back, the disturbances, and the CPUs
/// that the run was placed on.
fn conditions(result: &RunResult, cpus: Option<CpuSet>) -> Conditions<'static> {
    let knobs = result.knobs.iter().map(|reading| match reading.got.as_ref().known() {
        Some(got) => format!("{} {}: {got}", reading.knob, reading.asked),
        None => format!("{} {}: cannot be read back", reading.knob, reading.asked),
    });
    Conditions {
        disturbances: result.disturbances.iter().map(|found| disturbance(&found.fact)).collect(),
        knobs: knobs.collect(),
        cpus: cpus.map(|cpus| cpus.iter().map(i64::from).collect()),
        rest: Vec::new(),
    }
}

/// The CPUs of a run without a pool. The CPUs of a pool are known only if the run names them.
fn placed(cell: &Cell, backend: &dyn Backend) -> Option<CpuSet> {
    let Placement { cpus, pool, .. } = &cell.placement;
    match (cpus, pool) {
        (Some(cpus), _) => Some(cpus.clone()),
        (None, None) => Some(backend.environment().topology.usable().clone()),
        (None, Some(_)) => None,
    }
    .filter(|cpus| !cpus.is_empty())
}

/// The run as a cell, or why this machine cannot do it.
fn cell(worker_type: i64, run: &Pending, variants: &[Variant]) -> Result<Cell, CannotRun> {
    let scheduler = run.scheduler.as_deref();
    let soft = run.sets.iter().find_map(|set| set.soft_affinity.as_ref());
    let kind = match (worker_type, soft) {
        (PROCESSES, Some(soft)) => return Err(CannotRun::SoftAffinity(soft.clone())),
        (PROCESSES, None) => WorkerKind::Processes,
        (GUESTS, _) => WorkerKind::Guests,
        (other, _) => return Err(CannotRun::WorkerType(other)),
    };
    let variant = variant(scheduler, variants, kind)?;
    let mut placement = placement(run)?;
    let mut sets: Vec<WorkerSet> =
        run.sets.iter().enumerate().map(|(at, set)| worker_set(at, set, kind)).collect();
    if kind == WorkerKind::Guests {
        let of_pool = placement.cpus.clone().filter(|_| run.numa_disable);
        for (set, own) in sets.iter_mut().zip(&run.sets) {
            let soft = own.soft_affinity.as_ref().map(|text| text.parse()).transpose();
            let soft: Option<CpuSet> = soft.map_err(CannotRun::Soft)?.or(of_pool.clone());
            set.knobs.extend(soft.map(|cpus| (XEN_SOFT.to_string(), Value::Cpus(cpus))));
        }
        placement.memory = MemoryPlacement::Kernel;
    }
    let work = Work { name: run.label.clone(), sets, ..Default::default() };
    Ok(Cell { index: 0, variant, work, placement })
}

pub(super) const XEN_SOFT: &str = "xen-soft-affinity";
const XEN_SCHEDULER: &str = "xen-scheduler";

/// A scheduler's name as a variant: one of `variants`, else one of Xen's where workers are guests, else a policy.
pub(super) fn variant(
    scheduler: Option<&str>,
    variants: &[Variant],
    kind: WorkerKind,
) -> Result<Variant, CannotRun> {
    if let Some(variant) = variants.iter().find(|variant| Some(&*variant.name) == scheduler) {
        return Ok(variant.clone());
    }
    let knobs = match (scheduler, kind) {
        (None, _) => BTreeMap::new(),
        (Some(name), WorkerKind::Guests) => {
            let known = xen::Scheduler::from_word(name);
            let known = known.ok_or_else(|| CannotRun::NotOfXen(name.to_string()))?;
            BTreeMap::from([(XEN_SCHEDULER.to_string(), Value::Text(known.word().to_string()))])
        }
        (Some(name), _) => policy(name)?,
    };
    Ok(Variant { name: scheduler.unwrap_or("as found").to_string(), knobs })
}

fn policy(name: &str) -> Result<BTreeMap<String, Value>, CannotRun> {
    let Some(policy) = Policy::from_word(name).filter(|policy| *policy != Policy::Deadline) else {
        return Err(match name {
            "credit" | "credit2" => CannotRun::XenScheduler(name.to_string()),
            _ => CannotRun::UnknownScheduler(name.to_string()),
        });
    };
    let word = Value::Text(policy.word().to_string());
    let priority = policy.takes_priority().then(|| ("priority".to_string(), Value::Int(PRIORITY)));
    Ok([("policy".to_string(), word)].into_iter().chain(priority).collect())
}

fn worker_set(at: usize, set: &PendingSet, kind: WorkerKind) -> WorkerSet {
    let queue = args::to_queue(&set.queue).into_iter().map(Value::Text).collect();
    WorkerSet {
        name: format!("set {at}"),
        workload: "burnwait".to_string(),
        params: BTreeMap::from([("queue".to_string(), Value::List(queue))]),
        count: set.count,
        kind,
        ..Default::default()
    }
}

fn placement(run: &Pending) -> Result<Placement, CannotRun> {
    let mut pools = run.sets.iter().map(|set| set.pool.as_deref());
    let pool = pools.next().flatten();
    if let Some(other) = pools.find(|other| *other != pool) {
        let [pool, other] = [pool, other].map(|pool| pool.map(str::to_string));
        return Err(CannotRun::TwoPools(pool, other));
    }
    let cpus = run.cpus.as_ref().map(|cpus| cpus.iter().copied().collect::<CpuSet>());
    let pool = pool.map(|name| name.parse()).transpose().map_err(CannotRun::Pool)?;
    let memory =
        if run.numa_disable { MemoryPlacement::Interleave } else { MemoryPlacement::Kernel };
    Ok(Placement { cpus, pool, memory })
}

fn spec(cell: Cell, run: &Pending) -> RunSpec {
    let duration_ns = run.runtime_seconds * NS_PER_S;
    RunSpec {
        duration_ns,
        window_ns: WINDOW_NS,
        limit_ns: duration_ns + GRACE_NS,
        seed: SEED,
        ..RunSpec::new(cell)
    }
}

/// The reports of a run in the units of the file, from its windows.
struct Reports {
    /// The latest report of each worker, in the order of windows.
    last: Vec<Report>,
    list: Vec<Report>,
}

impl Reports {
    fn new(sets: &[PendingSet]) -> Reports {
        let workers = sets.iter().enumerate().flat_map(|(set, of)| {
            (0..of.count as usize).map(move |id| Report {
                set,
                id,
                cputime_ns: Some(0),
                ..Report::default()
            })
        });
        Reports { last: workers.collect(), list: Vec::new() }
    }

    fn add(&mut self, window: &Window) {
        for (last, seen) in self.last.iter_mut().zip(&window.workers) {
            if window.index == 0 {
                last.now_ns = (seen.end_at_ns - seen.wall_ns) as i64;
                self.list.push(*last);
            }
            last.now_ns = seen.end_at_ns as i64;
            last.kops += seen.ops as i64;
            last.cputime_ns = last.cputime_ns.map(|ns| ns + seen.cpu_ns as i64);
            last.max_delta_ns = seen.peak_ns as i64;
            self.list.push(*last);
        }
    }
}
