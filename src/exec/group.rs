//! All workers of a run: their memory, their threads and processes, their failures.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::model::{Cell, CpuSet, MemoryPlacement, Value, WorkerKind, WorkerSet};
use crate::sys::{Host, clock, fork, interleave, sched, shared, thread, topology};
use crate::variant;
use crate::workload::{self, Control, Load, Pool, Recorders, Request, Slot, Spec, Worker};

/// Stack of a worker thread: workloads keep their buffers elsewhere.
const STACK_BYTES: usize = 128 * 1024;
/// Workers that have not all reached the barrier by then never will.
const ARRIVAL_LIMIT_NS: u64 = 60_000_000_000;
/// How often failures are looked for while waiting for the barrier.
const ARRIVAL_LOOK_NS: u64 = 50_000_000;

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
}

pub struct WorkerGroup {
    control: &'static Control,
    /// Where its workers may run.
    pool: Pool,
    members: Vec<Member>,
    sets: Vec<Set>,
}

/// One worker set, prepared.
pub struct Set {
    pub spec: &'static Spec,
    pub load: Arc<dyn Load>,
    pub recorders: Recorders,
    /// The variant's, each replaced by the set's own of its name.
    pub knobs: Arc<BTreeMap<String, Value>>,
    seed: u64,
}

/// What each worker does to itself before it works.
struct WorkerSetup {
    pool: Option<CpuSet>,
    knobs: Arc<BTreeMap<String, Value>>,
}

impl WorkerGroup {
    /// Prepares all sets and starts all workers: processes first, while the runner has one
    /// thread, then threads. They wait at the barrier.
    pub fn assemble(cell: &Cell, seed: u64) -> Result<WorkerGroup, String> {
        let placed = cell.placement.cpus.as_ref();
        let allowed = sched::affinity(0).map_err(|error| format!("sched_getaffinity: {error}"))?;
        let cpus = placed.unwrap_or(&allowed).clone();
        let host = Host::default();
        if cell.placement.memory == MemoryPlacement::Interleave {
            // Before anything is allocated; whoever is started from here on inherits it.
            interleave(&topology::node_numbers(&host, &cpus)).map_err(|error| error.to_string())?;
        }
        let nodes = topology::numa_nodes(&host, &cpus);
        let pool = Pool::new(cpus, &nodes);
        let control: &'static Control = shared::leak().map_err(no_memory)?;
        let mut crew = WorkerGroup { control, pool, members: Vec::new(), sets: Vec::new() };
        for set in &cell.work.sets {
            let knobs = variant::merged(&cell.variant.knobs, &set.knobs);
            crew.prepare(set, knobs, seed)?;
        }
        if let Some(pool) = placed {
            let outside = allowed.minus(pool);
            let measurer = if outside.is_empty() { pool } else { &outside };
            sched::set_affinity(0, measurer)
                .map_err(|error| format!("CPUs {measurer}: {error}"))?;
        }
        crew.start(placed)?;
        Ok(crew)
    }

    fn prepare(
        &mut self,
        set: &WorkerSet,
        knobs: BTreeMap<String, Value>,
        seed: u64,
    ) -> Result<(), String> {
        let named = |why: String| format!("worker set `{}`: {why}", set.name);
        let workload = workload::find(&set.workload)
            .ok_or_else(|| named(format!("there is no workload `{}`", set.workload)))?;
        let seed = mix(seed, self.sets.len() as u64);
        let (params, pool) = (&set.params, &self.pool);
        let request = Request { params, count: set.count, kind: set.kind, pool, seed };
        let roles = workload.layout(&request).map_err(named)?;
        let load = Arc::from(workload.prepare(&request).map_err(named)?);
        let spec = workload.spec();
        let recorders = Recorders::new(workload.histograms(params).len()).map_err(no_memory)?;
        let slots: &'static [Slot] = shared::leak_slice(roles.len()).map_err(no_memory)?;
        let position = self.sets.len();
        self.members.extend(roles.into_iter().enumerate().map(|(index, role)| Member {
            set: position,
            index,
            role,
            kind: set.kind,
            slot: &slots[index],
            pid: 0,
        }));
        let knobs = Arc::new(knobs);
        self.sets.push(Set { spec, load, recorders, knobs, seed });
        Ok(())
    }

    fn start(&mut self, pool: Option<&CpuSet>) -> Result<(), String> {
        for kind in [WorkerKind::Processes, WorkerKind::Threads] {
            for position in 0..self.members.len() {
                if self.members[position].kind == kind {
                    self.start_member(position, pool).map_err(|error| {
                        format!(
                            "worker {} of {} cannot start: {error}; limits: ulimit -u, \
                             /proc/sys/kernel/threads-max, vm.max_map_count (some 5 a thread), \
                             pids.max of the cgroup",
                            position + 1,
                            self.members.len()
                        )
                    })?;
                }
            }
        }
        Ok(())
    }

    fn start_member(&mut self, position: usize, pool: Option<&CpuSet>) -> std::io::Result<()> {
        let member = self.members[position].clone();
        let set = &self.sets[member.set];
        let (control, load, recorders) = (self.control, Arc::clone(&set.load), set.recorders);
        let dress = WorkerSetup { pool: pool.cloned(), knobs: Arc::clone(&set.knobs) };
        let seed = mix(set.seed, member.index as u64);
        let name = set.spec.roles[member.role].name.to_string();
        let body = {
            let member = member.clone();
            move || {
                let worker = || Worker::new(control, member.slot, recorders, seed);
                live(&member, control, &*load, &dress, worker);
            }
        };
        match member.kind {
            WorkerKind::Threads => {
                std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(body)?;
            }
            WorkerKind::Processes => {
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
    pub fn await_arrival(&self) -> Result<(), String> {
        let deadline_ns = clock::monotonic_ns() + ARRIVAL_LIMIT_NS;
        loop {
            let arrived = self.control.arrived();
            if arrived as usize == self.members.len() {
                return self.prefault();
            }
            self.look_for_failures()?;
            if clock::monotonic_ns() > deadline_ns {
                let all = self.members.len();
                return Err(format!("only {arrived} of {all} workers were ready after 60 s"));
            }
            self.control.wait_for_arrival(arrived, ARRIVAL_LOOK_NS);
        }
    }

    /// Touches each CPU's histograms from that CPU. A CPU that went offline is left out; one
    /// that goes later fails the run.
    fn prefault(&self) -> Result<(), String> {
        let failed = |error| format!("sched_setaffinity: {error}");
        let own = sched::affinity(0).map_err(failed)?;
        for cpu in self.pool.cpus.iter() {
            if sched::set_affinity(0, &[cpu].into_iter().collect()).is_ok() {
                self.sets.iter().for_each(|set| set.recorders.prefault_here());
            }
        }
        sched::set_affinity(0, &own).map_err(failed)
    }

    /// The first worker that has failed or ended, in words.
    pub fn look_for_failures(&self) -> Result<(), String> {
        if let Some((member, why)) =
            self.members.iter().find_map(|member| Some((member, member.slot.failure()?)))
        {
            return Err(format!("{}: {why}", self.describe(member)));
        }
        let processes = self.members.iter().filter(|member| member.pid > 0);
        for member in processes {
            let how = match fork::ended(member.pid) {
                None => continue,
                Some(fork::Ended::Exited(code)) => format!("exited with {code}"),
                Some(fork::Ended::Signalled(signal)) => format!("was killed by signal {signal}"),
            };
            return Err(format!("{} (pid {}) {how}", self.describe(member), member.pid));
        }
        Ok(())
    }

    fn describe(&self, member: &Member) -> String {
        let spec = self.sets[member.set].spec;
        format!("worker {} ({}) of {}", member.index, spec.roles[member.role].name, spec.name)
    }

    /// Ends and collects worker processes, so that their CPU time counts as this run's.
    pub fn end_processes(&self) {
        self.members.iter().for_each(|member| fork::end(member.pid));
    }

    pub fn control(&self) -> &'static Control {
        self.control
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn sets(&self) -> &[Set] {
        &self.sets
    }
}

/// A worker's life, in its own thread or process.
fn live(
    member: &Member,
    control: &'static Control,
    load: &dyn Load,
    dress: &WorkerSetup,
    worker: impl FnOnce() -> Worker,
) {
    member.slot.set_tid(sched::own_tid());
    let work = || -> Result<(), String> {
        if let Some(pool) = &dress.pool {
            sched::set_affinity(0, pool).map_err(|error| format!("CPUs {pool}: {error}"))?;
        }
        variant::apply_to_self(&dress.knobs).map_err(|error| error.to_string())?;
        if let Some(cpus) = load.cpus(member.index) {
            sched::set_affinity(0, &cpus).map_err(|error| format!("CPUs {cpus}: {error}"))?;
        }
        load.work(member.index, &worker())?;
        if !control.stopped() { Err("ended before the run did".to_string()) } else { Ok(()) }
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        // It stays, asleep, so that what the kernel counted of it can be read.
        Ok(Ok(())) => control.stay(),
        Ok(Err(why)) => member.slot.fail(&why),
        Err(_) => member.slot.fail("panicked"),
    }
}

fn no_memory(error: std::io::Error) -> String {
    format!("no memory for the workers: {error}")
}

/// Steps of SplitMix64 (Steele, Lea, Flood 2014): distinct, well-spread seeds from a seed
/// and an index.
fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
