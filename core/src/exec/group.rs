//! All workers of a run: their memory, their threads and processes, their failures.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::{
    Advice, Cell, CgroupPath, CpuSet, MemoryPlacement, Phase, SetChange, Value, WorkerKind,
    WorkerSet, clean,
};
use crate::stats::Histogram;
use crate::sys::host::error_text;
use crate::sys::{Host, clock, fork, interleave, sched, shared, thread, topology};
use crate::variant;
use crate::workload::{
    self, Burst, Control, Lanes, Load, Pool, Recorders, Request, Slot, Spec, Speed, Things, Turn,
    UnderWay, Worker, WorkloadError,
};

use super::ExecError;

/// Stack of a worker thread: workloads keep their buffers elsewhere.
const STACK_BYTES: usize = 128 * 1024;
/// The time in which workers have to reach the barrier that run no programs.
const ARRIVAL_LIMIT_NS: u64 = 60_000_000_000;
/// How often workers are checked for failures while they come to the barrier.
const ARRIVAL_POLL_NS: u64 = 50_000_000;

/// Until when a run has to have ended, and how long that is.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub at_ns: u64,
    pub limit_ns: u64,
}

impl Limit {
    pub const NONE: Limit = Limit { at_ns: u64::MAX, limit_ns: u64::MAX };

    pub fn from_now(limit_ns: u64) -> Limit {
        Limit { at_ns: clock::monotonic_ns().saturating_add(limit_ns), limit_ns }
    }
}

/// For each cgroup of worker sets the files that take a thread.
type Cgroups = BTreeMap<CgroupPath, Vec<PathBuf>>;

/// One worker as the runner sees it.
#[derive(Clone)]
pub struct Member {
    /// Index of its worker set.
    pub set: usize,
    /// Index within the set.
    pub index: usize,
    /// Index into the workload's roles.
    pub role: usize,
    pub kind: WorkerKind,
    pub slot: &'static Slot,
    /// 0 for threads.
    pub pid: i32,
    /// Its counts by variant, where variants take turns.
    pub lanes: Option<Lanes>,
}

pub struct WorkerGroup {
    /// The CPUs on which its workers may run.
    pool: Pool,
    members: Vec<Member>,
    sets: Vec<Set>,
    /// Where variants take turns: whose it is, and how many there are.
    turn: Option<(&'static Turn, usize)>,
}

/// One worker set, prepared.
pub struct Set {
    pub name: String,
    pub control: &'static Control,
    /// One for each worker.
    pub slots: &'static [Slot],
    pub spec: &'static Spec,
    pub load: Arc<dyn Load>,
    pub recorders: Recorders,
    /// Where variants take turns, one for each of them, in place of `recorders`.
    pub variant_recorders: &'static [Recorders],
    /// The variant's, each replaced by the set's own of its name.
    pub knobs: Arc<BTreeMap<String, Value>>,
    changes: Vec<SetChange>,
    cgroup: Arc<[PathBuf]>,
    pub phase: Option<Phase>,
    pub is_background: bool,
    workers: u32,
    /// Workers whose operations count.
    counting: u32,
    seed: u64,
}

impl Set {
    /// Whether the operations of a member of it count.
    pub fn counts(&self, member: &Member) -> bool {
        self.spec.roles[member.role].counts
    }

    /// Sets whose workers meet have one role, and are known by their own names.
    fn thread_name(&self, role: usize) -> String {
        let role = self.spec.roles[role].name;
        if role == workload::STEPS { self.name.clone() } else { role.to_string() }
    }
}

/// Applied by each worker to itself before it works.
struct WorkerSetup {
    /// The files of its set's cgroup that take its thread.
    cgroup: Arc<[PathBuf]>,
    pool: Option<CpuSet>,
    knobs: Arc<BTreeMap<String, Value>>,
}

impl WorkerGroup {
    /// Prepares all sets and starts all workers: processes first, while the runner has one
    /// thread, then threads. They wait at the barrier. `variants`: how many take turns, 0 if none do.
    pub fn assemble(
        cell: &Cell,
        cgroups: &Cgroups,
        seed: u64,
        speed: Speed,
        variants: usize,
    ) -> Result<WorkerGroup, ExecError> {
        let placed = cell.placement.cpus.as_ref();
        let allowed = sched::affinity(0).map_err(ExecError::system("read the CPU affinity"))?;
        let cpus = placed.unwrap_or(&allowed).clone();
        let host = Host::default();
        if cell.placement.memory == MemoryPlacement::Interleave {
            // This comes before anything is allocated; workers inherit it.
            interleave(&topology::node_numbers(&host, &cpus)).map_err(ExecError::refused)?;
        }
        let nodes = topology::numa_nodes(&host, &cpus);
        let pool = Pool::new(cpus, &nodes);
        let turn = if variants > 0 { Some((allocated(shared::leak())?, variants)) } else { None };
        let mut group = WorkerGroup { pool, members: Vec::new(), sets: Vec::new(), turn };
        for set in &cell.work.sets {
            let knobs = variant::merged(&cell.variant.knobs, &set.knobs);
            let cgroup = files_of(set, cgroups)?;
            group.prepare(set, knobs, cgroup, seed, speed)?;
        }
        let things = Things::with_cgroups(cgroups.clone());
        for (set, prepared) in cell.work.sets.iter().zip(&group.sets) {
            prepared.load.meet(&things).map_err(|source| unable(set, source))?;
        }
        if let Some(pool) = placed {
            let outside = allowed.minus(pool);
            let measurer = if outside.is_empty() { pool } else { &outside };
            move_to(measurer)?;
        }
        group.start(placed)?;
        for (set, prepared) in cell.work.sets.iter().zip(&group.sets) {
            prepared.load.serve().map_err(|source| unable(set, source))?;
        }
        Ok(group)
    }

    fn prepare(
        &mut self,
        set: &WorkerSet,
        knobs: BTreeMap<String, Value>,
        cgroup: Arc<[PathBuf]>,
        seed: u64,
        speed: Speed,
    ) -> Result<(), ExecError> {
        let named = |source| unable(set, source);
        let workload = workload::find(&set.workload).ok_or_else(|| ExecError::NoWorkload {
            set: set.name.clone(),
            workload: set.workload.clone(),
        })?;
        let seed = mix(seed, self.sets.len() as u64);
        let (params, pool) = (&set.params, &self.pool);
        let request = Request { params, count: set.max_count(), kind: set.kind, pool, seed, speed };
        let roles = workload.layout(&request).map_err(named)?;
        let load = Arc::from(workload.prepare(&request).map_err(named)?);
        let spec = workload.spec();
        let kinds = workload.histograms(params).len();
        let recorders = allocated(Recorders::new(kinds))?;
        let of_variants = (0..self.turn.map_or(0, |(_, variants)| variants))
            .map(|_| allocated(Recorders::new(kinds)))
            .collect::<Result<Vec<Recorders>, ExecError>>()?;
        let variant_recorders: &'static [Recorders] = of_variants.leak();
        let slots: &'static [Slot] = allocated(shared::leak_slice(roles.len()))?;
        let (position, workers) = (self.sets.len(), roles.len() as u32);
        let counting = roles.iter().filter(|&&role| spec.roles[role].counts).count() as u32;
        for (index, role) in roles.into_iter().enumerate() {
            let lanes = self.turn.map(|(turn, _)| Lanes::new(turn, variant_recorders));
            let lanes = allocated(lanes.transpose())?;
            let (kind, slot) = (set.kind, &slots[index]);
            self.members.push(Member { set: position, index, role, kind, slot, pid: 0, lanes });
        }
        let control: &'static Control = allocated(shared::leak())?;
        if set.counts().next().is_some() {
            control.set_present(set.count, slots);
        }
        self.sets.push(Set {
            name: set.name.clone(),
            control,
            slots,
            spec,
            load,
            recorders,
            variant_recorders,
            knobs: Arc::new(knobs),
            changes: set.changes.clone(),
            cgroup,
            phase: set.phase,
            is_background: set.background,
            workers,
            counting,
            seed,
        });
        Ok(())
    }

    fn start(&mut self, pool: Option<&CpuSet>) -> Result<(), ExecError> {
        let all = self.members.len();
        let threads = self.members.iter().filter(|member| member.kind == WorkerKind::Threads);
        check_room(threads.count() as u64, &Host::default())?;
        for kind in [
            WorkerKind::Guests,
            WorkerKind::Processes,
            WorkerKind::GuestsOrProcesses,
            WorkerKind::Threads,
        ] {
            for position in 0..all {
                if self.members[position].kind == kind {
                    self.start_member(position, pool).map_err(|source| ExecError::Start {
                        position: position + 1,
                        all,
                        source,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn start_member(&mut self, position: usize, pool: Option<&CpuSet>) -> std::io::Result<()> {
        let member = self.members[position].clone();
        let set = &self.sets[member.set];
        let (control, load, recorders) = (set.control, Arc::clone(&set.load), set.recorders);
        let (knobs, cgroup) = (Arc::clone(&set.knobs), Arc::clone(&set.cgroup));
        let setup = WorkerSetup { cgroup, pool: pool.cloned(), knobs };
        let seed = mix(set.seed, member.index as u64);
        let (name, after) = (set.thread_name(member.role), set.workers - 1 - member.index as u32);
        let body = {
            let member = member.clone();
            move || {
                let worker = Worker::new(control, member.slot, recorders, seed).before(after);
                let worker = || worker.in_turns(member.lanes);
                live(&member, control, &*load, &setup, worker);
            }
        };
        match member.kind {
            // `exec::xen` starts them, and they have threads.
            WorkerKind::Guests => return Err(std::io::ErrorKind::Unsupported.into()),
            WorkerKind::Threads => {
                std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(body)?;
            }
            WorkerKind::Processes | WorkerKind::GuestsOrProcesses => {
                let pid = fork::spawn(|| {
                    thread::set_name(&name);
                    body();
                    i32::from(member.slot.failure().is_some())
                })?;
                self.members[position].pid = pid;
            }
        }
        Ok(())
    }

    /// Waits until every worker is at the barrier.
    pub fn await_arrival(&self, limit: Limit) -> Result<(), ExecError> {
        let deadline_ns = clock::monotonic_ns() + ARRIVAL_LIMIT_NS;
        loop {
            let waiting = self.sets.iter().map(|set| (set, set.control.arrived()));
            let mut waiting = waiting.filter(|(set, arrived)| *arrived < set.workers);
            let Some((set, seen)) = waiting.next() else { return self.prefault() };
            self.check()?;
            if self.runs_programs() {
                // Set-up and warm-ups come before the barrier, too.
                self.check_time(limit)?;
            } else if clock::monotonic_ns() > deadline_ns {
                let arrived = self.sets.iter().map(|set| set.control.arrived()).sum();
                let (all, limit_ns) = (self.members.len(), ARRIVAL_LIMIT_NS);
                return Err(ExecError::Arrival { arrived, all, limit_ns });
            }
            set.control.wait_for_arrival(seen, ARRIVAL_POLL_NS);
        }
    }

    /// Touches each CPU's histograms from that CPU. A CPU that went offline is left out; one
    /// that goes later fails the run.
    fn prefault(&self) -> Result<(), ExecError> {
        let own = sched::affinity(0).map_err(ExecError::system("read the CPU affinity"))?;
        for cpu in self.pool.cpus.iter() {
            if sched::set_affinity(0, &[cpu].into_iter().collect()).is_ok() {
                let sets = self.sets.iter();
                let all = sets.flat_map(|set| set.variant_recorders.iter().chain([&set.recorders]));
                all.for_each(Recorders::prefault_here);
            }
        }
        move_to(&own)
    }

    /// Fails with the first worker that has failed or ended.
    pub fn check(&self) -> Result<(), ExecError> {
        if let Some((member, why)) =
            self.members.iter().find_map(|member| Some((member, member.slot.failure()?)))
        {
            let output = self.sets[member.set].load.last_output(member.index);
            return Err(ExecError::WorkerFailed { worker: self.describe(member), why, output });
        }
        for member in self.members.iter().filter(|member| member.pid > 0) {
            let Some(ended) = fork::ended(member.pid) else { continue };
            let worker = self.describe(member);
            return Err(ExecError::WorkerProcess { worker, pid: member.pid, ended });
        }
        Ok(())
    }

    /// Fails with the first worker that waits for a program, where the run's time is over.
    pub fn check_time(&self, limit: Limit) -> Result<(), ExecError> {
        if clock::monotonic_ns() < limit.at_ns {
            return Ok(());
        }
        let waits = self.members.iter().find_map(|member| {
            let load = &self.sets[member.set].load;
            let what = load.waits_for(member.index).filter(|_| !member.slot.has_finished())?;
            Some((self.describe(member), what, load.last_output(member.index)))
        });
        let limit_ns = limit.limit_ns;
        Err(match waits {
            Some((worker, what, output)) => ExecError::Hangs { worker, what, limit_ns, output },
            None => ExecError::Limit { limit_ns },
        })
    }

    /// Names a worker in a message.
    pub fn describe(&self, member: &Member) -> String {
        let set = &self.sets[member.set];
        let role = set.spec.roles[member.role].name;
        // A set without a name of its own has that of its workload.
        format!("worker {} ({role}) of {}", member.index, clean(&set.name))
    }

    /// Ends and collects worker processes, so that their CPU time counts as this run's.
    pub fn end_processes(&self) {
        self.members.iter().for_each(|member| fork::end(member.pid));
    }

    /// Whether workers have something to do that ends, and that the run waits for.
    pub fn has_finishing(&self) -> bool {
        self.sets.iter().any(Set::is_finishing)
    }

    /// Sleeps until one more of these workers has finished, `timeout_ns` at most. Whether all have.
    pub fn wait_for_finish(&self, timeout_ns: u64) -> bool {
        let finishing = || self.sets.iter().filter(|set| set.is_finishing());
        let mut open = finishing().map(|set| (set, set.control.finished()));
        let Some((set, seen)) = open.find(|(set, finished)| *finished < set.workers) else {
            return true;
        };
        set.control.wait_for_finish(seen, timeout_ns);
        finishing().all(|set| set.control.finished() == set.workers)
    }

    fn runs_programs(&self) -> bool {
        self.sets.iter().any(|set| set.spec.runs_programs)
    }

    /// The ages of the latencies of a set that have begun and not ended, one histogram each.
    pub fn under_way(&self, position: usize) -> Vec<Histogram> {
        let set = &self.sets[position];
        let end_ns = set.control.last_ns(clock::monotonic_ns());
        let mut found = UnderWay::new(set.recorders.kinds(), end_ns);
        for member in self.members.iter().filter(|member| member.set == position) {
            set.load.under_way(member.index, member.slot, &mut found);
        }
        found.into_ages()
    }

    /// Asks running workers to return, so that they leave the CPUs; those that are asleep end
    /// with the process.
    pub fn stop(&self) {
        self.sets.iter().for_each(|set| set.control.stop());
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Where variants take turns: whose it is.
    pub fn turn(&self) -> Option<&'static Turn> {
        self.turn.map(|(turn, _)| turn)
    }

    pub fn sets(&self) -> &[Set] {
        &self.sets
    }

    /// The CPUs on which its workers may run: the pool, and those that knobs and changes of a set name.
    pub fn cpus(&self) -> CpuSet {
        let own = self.sets.iter().flat_map(Set::all_knobs);
        let own = own.filter_map(|knobs| knobs.get(variant::AFFINITY)?.as_cpus());
        self.pool.cpus.iter().chain(own.flat_map(CpuSet::iter)).collect()
    }
}

impl Set {
    /// Its knobs, and those of its changes in mid-run.
    fn all_knobs(&self) -> impl Iterator<Item = &BTreeMap<String, Value>> {
        self.changes.iter().map(|change| &change.knobs).chain([&*self.knobs])
    }

    fn is_finishing(&self) -> bool {
        self.spec.runs_programs && !self.is_background
    }

    /// The operations that each of its counting workers does once.
    pub fn burst(&self) -> Option<Burst> {
        Some(Burst { ops: self.phase?.ops?, workers: self.counting })
    }
}

/// A worker's life, in its own thread or process.
fn live(
    member: &Member,
    control: &'static Control,
    load: &dyn Load,
    setup: &WorkerSetup,
    worker: impl FnOnce() -> Worker,
) {
    member.slot.set_tid(sched::own_tid());
    let work = || -> Result<(), ExecError> {
        // First: a cpuset takes from an affinity that it is given, not from one that was there.
        setup.cgroup.iter().try_for_each(|file| enter(file))?;
        setup.pool.as_ref().map_or(Ok(()), move_to)?;
        variant::apply_to_self(&setup.knobs).map_err(ExecError::refused)?;
        load.cpus(member.index).as_ref().map_or(Ok(()), move_to)?;
        load.work(member.index, &worker())?;
        let slot = member.slot;
        slot.end();
        let may_end = control.stopped() || slot.has_finished() || slot.done_ns().is_some();
        if may_end { Ok(()) } else { Err(ExecError::EndedEarly) }
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        // It stays, asleep, so that the kernel's counts of it can be read.
        Ok(Ok(())) => control.stay(),
        Ok(Err(error)) => member.slot.fail(&error.reason()),
        // In a process that a panic does not end: that of a test, or of a program with this library.
        Err(_) => member.slot.fail("panicked"),
    }
}

/// Refuses threads that a process has no room for. std ends the process where one has no stack for its signals.
fn check_room(threads: u64, host: &Host) -> Result<(), ExecError> {
    /// A stack and one for signals, each with a guard.
    const MAPS_A_THREAD: u64 = 4;
    /// The program, its libraries and its memory have fewer.
    const MAPS_OF_ALL: u64 = 1000;
    let Some(max) = host.read("/proc/sys/vm/max_map_count").ok().and_then(|text| text.parse().ok())
    else {
        return Ok(());
    };
    let maps = threads * MAPS_A_THREAD + MAPS_OF_ALL;
    if threads > 0 && maps > max { Err(ExecError::Mappings { threads, maps, max }) } else { Ok(()) }
}

fn unable(set: &WorkerSet, source: WorkloadError) -> ExecError {
    ExecError::Workload { set: set.name.clone(), source }
}

/// The files that take the threads of a set's workers.
fn files_of(set: &WorkerSet, cgroups: &Cgroups) -> Result<Arc<[PathBuf]>, ExecError> {
    let Some(cgroup) = &set.cgroup else { return Ok(Arc::default()) };
    let files = cgroups.get(cgroup).ok_or_else(|| {
        ExecError::refused(format!("nobody made the cgroup {cgroup} of worker set `{}`", set.name))
    })?;
    Ok(files.as_slice().into())
}

/// Puts the calling thread into the cgroup that the file is of.
fn enter(file: &Path) -> Result<(), ExecError> {
    let refused = |error| format!("{} takes no thread ({})", file.display(), error_text(&error));
    Host::default().write(file, "0").map_err(|error| ExecError::refused(refused(error)))
}

/// The calling thread.
fn move_to(cpus: &CpuSet) -> Result<(), ExecError> {
    sched::set_affinity(0, cpus)
        .map_err(|source| ExecError::Affinity { cpus: cpus.clone(), source })
}

fn allocated<T>(memory: std::io::Result<T>) -> Result<T, ExecError> {
    memory.map_err(ExecError::system("allocate memory for the workers"))
}

/// Steps of SplitMix64 (Steele, Lea, Flood 2014): distinct, well-spread seeds from a seed
/// and an index.
fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
pub mod testing {
    //! Workers that spin.

    use super::*;
    use crate::model::{Placement, Variant, Work};

    /// A cell with this set, which spins.
    pub fn spinning(set: WorkerSet) -> Cell {
        let params = workload::testing::params(workload::find("spin").unwrap(), &[]);
        let set = WorkerSet { workload: "spin".to_string(), params, ..set };
        let variant = Variant { name: "v".to_string(), knobs: BTreeMap::new() };
        let work = Work { sets: vec![set], ..Default::default() };
        Cell { index: 0, variant, work, placement: Placement::default() }
    }

    /// Its workers at the barrier.
    pub fn waiting(cell: &Cell, cgroups: &Cgroups) -> WorkerGroup {
        let group = WorkerGroup::assemble(cell, cgroups, 1, Speed::default(), 0).unwrap();
        group.await_arrival(Limit::from_now(60_000_000_000)).unwrap();
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_without_room_for_their_stacks_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::below(dir.path());
        assert!(check_room(100_000, &host).is_ok(), "unknown is not zero");
        let file = dir.path().join("proc/sys/vm/max_map_count");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "65530\n").unwrap();
        assert!(check_room(16_000, &host).is_ok());
        let error = check_room(20_000, &host).unwrap_err();
        assert_eq!(
            crate::model::Advice::reason(&error),
            "20000 threads take 81000 mappings, and vm.max_map_count is 65530; hint: sysctl \
             vm.max_map_count=81000, or fewer workers"
        );
    }
}
