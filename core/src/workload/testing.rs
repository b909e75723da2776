//! Runs one worker set in threads of the test process until a condition holds. No time is
//! measured and nothing sleeps in place of a condition; workers that wait for others when
//! the test ends are left behind with the test process.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::model::{Params, Raw, Value, WorkerKind};
use crate::stats::Histogram;
use crate::sys::{clock, shared};

use super::{
    Control, Load, MAX_COUNTERS, Measured, Opening, Pool, Recorders, Request, Slot, Speed, Things,
    UnderWay, Worker, WorkerCounts, Workload,
};

/// Parameters with the defaults filled in, as the plan parser does it. A parameter that must be given gets a value
/// that works.
pub fn params(workload: &dyn Workload, given: &[(&str, Raw)]) -> Params {
    let mut params = Params::new();
    for field in workload.spec().params {
        let raw = given.iter().find(|(name, _)| *name == field.name).map(|(_, raw)| raw);
        let value = raw.map(|raw| field.kind.parse(raw).expect(field.name));
        let needed = (workload.spec().runs_programs && field.name == "command")
            .then(|| Value::List(vec![Value::Text("true".to_string())]));
        params.extend(
            value.or(field.default_value()).or(needed).map(|value| (field.name.to_string(), value)),
        );
    }
    params
}

/// A set of `count` threads on two CPUs.
pub fn request(params: &Params, count: u32) -> Request<'_> {
    static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::first(2));
    Request {
        params,
        count,
        kind: WorkerKind::Threads,
        pool: &POOL,
        seed: 1,
        speed: Speed::default(),
    }
}

/// The memory of a set's workers, which the test plays itself or starts.
#[derive(Clone, Copy)]
pub struct SetMemory {
    control: &'static Control,
    pub slots: &'static [Slot],
    pub recorders: Recorders,
}

impl SetMemory {
    pub fn new(workers: usize, histograms: usize) -> SetMemory {
        SetMemory {
            control: shared::leak().expect("memory"),
            slots: shared::leak_slice(workers).expect("memory"),
            recorders: Recorders::new(histograms).expect("memory"),
        }
    }

    /// The barrier is open: samples count from this moment on.
    pub fn opened(workers: usize, histograms: usize, from_ns: u64) -> SetMemory {
        let memory = SetMemory::new(workers, histograms);
        memory.control.open(&Opening::endless(from_ns));
        memory
    }

    pub fn stop(&self) {
        self.control.stop();
    }

    pub fn worker(&self, index: usize) -> Worker {
        let after = self.slots.len() - 1 - index;
        Worker::new(self.control, &self.slots[index], self.recorders, index as u64 + 1)
            .before(after as u32)
    }

    /// By histogram, the ages of latencies that have begun and not ended.
    pub fn under_way(&self, load: &dyn Load, now_ns: u64) -> Vec<Histogram> {
        let mut found = UnderWay::new(self.recorders.kinds(), now_ns);
        let slots = self.slots.iter().enumerate();
        slots.for_each(|(index, slot)| load.under_way(index, slot, &mut found));
        found.into_ages()
    }
}

/// A set of workers at work, and their counts so far.
pub struct WorkerGroup {
    memory: SetMemory,
    load: Arc<dyn Load>,
    children: Vec<libc::pid_t>,
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        for &pid in &self.children {
            // SAFETY: an own child that nobody else waits for, so the pid is still its own.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

fn fork(body: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child allocates, which glibc allows after a fork, runs the body and exits
    // without running the test harness's code.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            body();
            libc::_exit(0);
        }
        pid
    }
}

impl WorkerGroup {
    pub fn start(workload: &'static dyn Workload, params: &Params, count: u32) -> WorkerGroup {
        WorkerGroup::start_as(workload, params, count, WorkerKind::Threads)
    }

    /// Processes are killed when the group is dropped, or with the thread that started it.
    pub fn start_as(
        workload: &'static dyn Workload,
        params: &Params,
        count: u32,
        kind: WorkerKind,
    ) -> WorkerGroup {
        WorkerGroup::start_among(workload, params, count, kind, &Things::default())
    }

    /// Shares things with other groups.
    pub fn start_among(
        workload: &'static dyn Workload,
        params: &Params,
        count: u32,
        kind: WorkerKind,
        things: &Things,
    ) -> WorkerGroup {
        let request = Request { kind, ..request(params, count) };
        let roles = workload.layout(&request).expect("layout");
        let load: Arc<dyn Load> = workload.prepare(&request).expect("prepare").into();
        load.meet(things).expect("meet");
        let histograms = workload.histograms(params).len();
        let memory = SetMemory::new(roles.len(), histograms);
        let mut children = Vec::new();
        for (index, slot) in memory.slots.iter().enumerate() {
            let load = Arc::clone(&load);
            let body = move || match load.work(index, &memory.worker(index)) {
                Ok(()) => slot.end(),
                Err(why) => slot.fail(&why.to_string()),
            };
            match kind {
                WorkerKind::Threads | WorkerKind::Guests | WorkerKind::GuestsOrProcesses => {
                    drop(std::thread::spawn(body))
                }
                WorkerKind::Processes => children.push(fork(body)),
            }
        }
        load.serve().expect("serve");
        let group = WorkerGroup { memory, load, children };
        group.wait_until("all workers at the barrier", |group| {
            group.memory.control.arrived() as usize == group.slots().len()
        });
        memory.control.open(&Opening::endless(clock::monotonic_ns()));
        group
    }

    /// Polls until `condition` holds; panics with `what` after a minute, or at a worker's failure.
    pub fn wait_until(&self, what: &str, condition: impl Fn(&WorkerGroup) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !condition(self) {
            if let Some(why) = self.slots().iter().find_map(Slot::failure) {
                panic!("a worker failed while waiting for {what}: {why}");
            }
            assert!(Instant::now() < deadline, "waited a minute for {what}");
            std::thread::yield_now();
        }
    }

    pub fn stop(&self) {
        self.memory.stop();
    }

    /// The first workers go on, the others rest.
    pub fn set_present(&self, present: u32) {
        self.memory.control.set_present(present, self.memory.slots);
    }

    pub fn slots(&self) -> &[Slot] {
        self.memory.slots
    }

    pub fn load(&self) -> &dyn Load {
        &*self.load
    }

    /// By histogram, the ages of latencies that have begun and not ended.
    pub fn under_way(&self) -> Vec<Histogram> {
        self.memory.under_way(&*self.load, clock::monotonic_ns())
    }

    pub fn measured(&self) -> Measured {
        let measured_ns = 1_000_000_000;
        let counts = |slot: &Slot| WorkerCounts {
            wall_ns: measured_ns,
            ops: slot.ops(),
            counters: slot.counters(),
        };
        let workers: Vec<WorkerCounts> = self.slots().iter().map(counts).collect();
        let mut counters = [0; MAX_COUNTERS];
        for worker in &workers {
            counters.iter_mut().zip(worker.counters).for_each(|(sum, own)| *sum += own);
        }
        let histograms = self.memory.recorders.all_merged();
        let ops = workers.iter().map(|worker| worker.ops).sum();
        let window_ops_per_s = vec![ops as f64];
        Measured { measured_ns, gaps: 0, ops, window_ops_per_s, counters, histograms, workers }
    }
}
