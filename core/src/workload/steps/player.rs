//! Does the steps of one worker, one after the other, on a machine that a test can replace.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::model::{CgroupPath, CpuSet};
use crate::sys::clock;
use crate::sys::sched::{self, Attr, Policy};
use crate::workload::things::{Taken, Thing, Things, Use};
use crate::workload::{Burner, Worker, WorkloadError};

use super::language::{Phase, RUN_CGROUP, STEPS, Script, Step, TimerPlace};
use super::order::{Cursor, Order};

/// The histograms and counters of a worker.
pub const WAKEUP: usize = 0;
pub const PASS: usize = 1;
/// Only workers that may end chains have it.
pub const CHAIN: usize = 2;
pub const TIMERS: usize = 0;
pub const MISSED: usize = 1;
/// The times by which workers came before their timers, and after them.
pub const EARLY_NS: usize = 2;
pub const LATE_NS: usize = 3;
/// The times of burns and spins, as the steps have them.
pub const RUN_NS: usize = 4;

/// Multiples of these, modulo 2^64, fill a square evenly: M. Roberts, "The unreasonable effectiveness of quasirandom
/// sequences", R2.
const BURN_STRIDE: u64 = 0xc13f_a9a9_02a6_328f;
const SLEEP_STRIDE: u64 = 0x91e1_0da5_c79e_7b1d;

/// The clock and the CPU of a worker.
pub trait Machine {
    fn now_ns(&self) -> u64;
    fn sleep_until(&mut self, due_ns: u64);
    /// Work that takes so long at full speed.
    fn burn(&mut self, ns: u64);
    fn burn_until(&mut self, end_ns: u64);
}

impl Machine for Burner {
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    #[inline]
    fn sleep_until(&mut self, due_ns: u64) {
        clock::sleep_until(due_ns);
    }

    #[inline]
    fn burn(&mut self, ns: u64) {
        Burner::burn(self, crate::workload::BurnWork::Ns(ns));
    }

    #[inline]
    fn burn_until(&mut self, end_ns: u64) {
        Burner::burn_until(self, end_ns);
    }
}

/// All that a worker needs, made before the barrier.
pub struct Player<'a, M> {
    pub machine: M,
    worker: &'a Worker,
    script: &'a Script,
    things: &'a [&'static Thing],
    how: Use,
    pool: &'a CpuSet,
    /// For each cgroup of the script the files that take its thread.
    cgroups: &'a [Vec<File>],
    ends_chains: bool,
    /// The last expiry of each of its own timers; 0: not used yet.
    timers: Vec<AtomicU64>,
    /// The things that it holds as locks.
    held: Vec<bool>,
    /// Its pipes of the things that it reads.
    pipes: Vec<Option<u32>>,
    memory: Vec<u8>,
    /// `None`: no step writes to it.
    output: Option<File>,
    tid: i32,
    seed: u64,
    /// The number of this pass, from which times are drawn.
    pass: u64,
    /// Where all times of this pass are drawn, if its number does not say it.
    place: Option<u64>,
    /// When its first step begins, from which timers count.
    first_ns: u64,
    /// The times of burns and spins in this pass.
    run_ns: u64,
    chain: Chain,
}

/// A worker's place in a chain of wakeups, which a timer began.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    /// When the timer was due; 0: it is in no chain.
    begun_ns: u64,
    /// When this worker went on after it was woken; 0: the chain began here.
    edge_ns: u64,
    /// Whether it has woken another one since.
    goes_on: bool,
}

/// The files that take a thread into each cgroup of the script, open.
pub fn open_cgroups(script: &Script, things: &Things) -> Result<Vec<Vec<File>>, WorkloadError> {
    let open = |path: &Option<CgroupPath>| {
        let files = things.cgroup_files(path.as_ref()).ok_or_else(|| {
            let problem = format!("nobody made the cgroup {}, which a step names", name_of(path));
            WorkloadError::conflict(problem, format!("a plan with [cgroup.{}]", name_of(path)))
        })?;
        let opened = files.iter().map(|file| File::options().write(true).open(file));
        opened.collect::<std::io::Result<_>>().map_err(|source| {
            WorkloadError::system(format!("open the cgroup {}", name_of(path)), source)
        })
    };
    script.cgroups.iter().map(open).collect()
}

fn name_of(cgroup: &Option<CgroupPath>) -> &str {
    cgroup.as_ref().map_or(RUN_CGROUP, CgroupPath::as_str)
}

/// The parts that all workers of a set share.
pub struct Parts<'a> {
    pub script: &'a Script,
    pub things: &'a [&'static Thing],
    pub how: Use,
    pub pool: &'a CpuSet,
    pub cgroups: &'a [Vec<File>],
    pub memory_bytes: u64,
    /// Whether chains of wakeups may end at its workers.
    pub ends_chains: bool,
}

impl<'a, M: Machine> Player<'a, M> {
    pub fn new(machine: M, worker: &'a Worker, parts: &Parts<'a>) -> Result<Self, WorkloadError> {
        let is_output = |step: &Step| matches!(step, Step::Output(_));
        let open = || File::options().write(true).open("/dev/null");
        let output = parts.script.steps().any(is_output).then(open).transpose();
        let output = output.map_err(|source| WorkloadError::system("open /dev/null", source))?;
        let needs = |step: &Step| matches!(step, Step::Memory(_) | Step::Output(_));
        let bytes = if parts.script.steps().any(needs) { parts.memory_bytes } else { 0 };
        let &Parts { script, things, how, pool, cgroups, ends_chains, .. } = parts;
        Ok(Player {
            machine,
            worker,
            script,
            things,
            how,
            pool,
            cgroups,
            ends_chains,
            timers: script.timers.iter().map(|_| AtomicU64::new(0)).collect(),
            held: vec![false; things.len()],
            pipes: (0..things.len())
                .map(|at| if script.reads(at) { things[at].take_pipe() } else { None })
                .collect(),
            // Not zeros, so that the pages are touched here.
            memory: vec![0x5a; bytes as usize],
            output,
            tid: sched::own_tid(),
            seed: worker.seed(),
            pass: 0,
            place: None,
            first_ns: 0,
            run_ns: 0,
            chain: Chain::default(),
        })
    }

    /// Begins after `delay_ns`, counted from `started_ns`.
    pub fn begin(&mut self, started_ns: u64, delay_ns: u64) {
        self.first_ns = started_ns + delay_ns;
        self.timers.iter().for_each(|last_ns| last_ns.store(0, Relaxed));
        if delay_ns > 0 {
            self.sleep_until(self.first_ns);
        }
    }

    /// Does all phases so often; `None`: without end. `false`: the run ended first.
    pub fn play(&mut self, loops: Option<u64>) -> Result<bool, WorkloadError> {
        let (script, mut done) = (self.script, 0);
        while loops.is_none_or(|loops| done < loops) {
            for phase in &script.phases {
                if !self.play_phase(phase)? {
                    return Ok(false);
                }
            }
            done += 1;
        }
        self.leave_chain();
        Ok(true)
    }

    fn play_phase(&mut self, phase: &Phase) -> Result<bool, WorkloadError> {
        let mut done = 0;
        while phase.times.is_none_or(|times| done < times) {
            if !self.running() {
                return Ok(false);
            }
            self.pass += 1;
            let begun_ns = self.machine.now_ns();
            self.worker.begin(PASS, begun_ns);
            phase.steps.iter().try_for_each(|step| self.act(step))?;
            self.end_pass(begun_ns);
            done += 1;
        }
        Ok(true)
    }

    /// Does parts in an order that all workers of the set share, until the run ends. The seed is the set's.
    pub fn play_order(
        &mut self,
        order: &Order,
        cursors: &[Cursor],
        seed: u64,
    ) -> Result<(), WorkloadError> {
        self.seed = seed;
        while self.running() {
            let begun_ns = self.machine.now_ns();
            self.worker.begin(PASS, begun_ns);
            let mut next = order.next(cursors);
            let mut steps = &self.script.phases[next.part].steps[..];
            if let Some((semaphore, place)) = order.takes_first(next.part) {
                self.take(semaphore, begun_ns);
                // Whoever was woken first goes on as the one who was woken first, whichever worker it is.
                next = order.next_taken(cursors, place);
                steps = &self.script.phases[next.part].steps[1..];
            }
            (self.pass, self.place) = (next.number, next.draw);
            steps.iter().try_for_each(|step| self.act(step))?;
            self.end_pass(begun_ns);
        }
        Ok(())
    }

    /// Whether it goes on with another pass. No chain goes on over a rest.
    #[inline]
    fn running(&mut self) -> bool {
        let goes_on = self.worker.running();
        if self.chain.begun_ns < self.worker.rest_ended_ns() {
            self.chain = Chain::default();
        }
        goes_on
    }

    #[inline]
    fn end_pass(&mut self, begun_ns: u64) {
        let end_ns = self.machine.now_ns();
        self.worker.record(PASS, end_ns, end_ns - begun_ns);
        self.worker.count(RUN_NS, std::mem::take(&mut self.run_ns));
        self.worker.add_ops(1);
    }

    #[inline]
    fn act(&mut self, step: &Step) -> Result<(), WorkloadError> {
        let now_ns = self.machine.now_ns();
        let things = self.things;
        match *step {
            Step::Burn(ref times) => {
                let ns = times.ns(self.draw(BURN_STRIDE));
                self.run_ns += ns;
                self.machine.burn(ns);
            }
            Step::Spin(ns) => {
                self.run_ns += ns;
                self.machine.burn_until(now_ns + ns);
            }
            Step::Sleep(ref times) => {
                let ns = times.ns(self.draw(SLEEP_STRIDE));
                if ns > 0 {
                    self.sleep_until(now_ns + ns);
                }
            }
            Step::Timer { timer, period_ns, absolute } => {
                self.await_timer(timer, period_ns, absolute, now_ns);
            }
            Step::Lock(lock) if self.held[lock] => return Err(self.misused(lock, "locks", "has")),
            Step::Lock(lock) => self.lock(lock),
            Step::Unlock(lock) => self.unlock(lock)?,
            Step::Wait { condition, lock } => {
                let seen = things[condition].signals();
                self.unlock(lock)?;
                self.await_signal(condition, seen);
                self.lock(lock);
            }
            Step::Suspend(place) => self.await_signal(place, things[place].signals()),
            Step::Signal(condition) => things[condition].signal(self.how, now_ns, 1),
            Step::Broadcast(all) | Step::Resume(all) => {
                things[all].signal(self.how, now_ns, i32::MAX);
            }
            Step::Post { semaphore, times } => {
                (0..times).for_each(|_| self.post(semaphore, now_ns));
            }
            Step::Take(semaphore) => self.take(semaphore, now_ns),
            Step::Barrier { barrier, workers } => {
                let slept = things[barrier].meet(workers, self.how, now_ns);
                self.note_wakeup(barrier, slept, now_ns);
            }
            Step::Fork { fork, free } => self.fork(fork, free, now_ns)?,
            Step::Yield => std::thread::yield_now(),
            Step::Memory(bytes) => self.in_pieces(bytes, |memory, _| {
                black_box(memory).fill(0);
                Ok(())
            })?,
            Step::Output(bytes) => {
                self.in_pieces(bytes, |memory, output| match output {
                    Some(mut output) => output.write_all(memory),
                    None => Ok(()),
                })?;
            }
            Step::Cpus(ref cpus) => self.move_to(cpus.as_ref())?,
            Step::Policy { policy, priority } => set_policy(policy, priority)?,
            Step::Cgroup(cgroup) => self.enter(cgroup)?,
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, semaphore: usize, now_ns: u64) {
        self.leave_chain();
        let thing = self.things[semaphore];
        let taken = match self.pipes[semaphore] {
            Some(pipe) => thing.read(pipe),
            None => thing.take(self.how),
        };
        self.note_wakeup(semaphore, taken.slept, now_ns);
        self.join_chain(taken);
    }

    #[inline]
    fn post(&mut self, place: usize, now_ns: u64) {
        self.chain.goes_on = true;
        self.things[place].post(self.how, now_ns, self.chain.begun_ns);
    }

    /// The worker has a post and goes on with its chain, if it is in one.
    #[inline]
    pub fn join_chain(&mut self, taken: Taken) {
        if taken.chain_ns > 0 {
            let edge_ns = self.machine.now_ns();
            self.chain = Chain { begun_ns: taken.chain_ns, edge_ns, goes_on: false };
            self.worker.begin(CHAIN, taken.chain_ns);
        }
    }

    /// The worker waits for something else: the chain has ended here, unless another worker was woken.
    #[inline]
    fn leave_chain(&mut self) {
        let Chain { begun_ns, edge_ns, goes_on } = std::mem::take(&mut self.chain);
        if edge_ns > 0 && !goes_on && self.ends_chains {
            self.worker.record(CHAIN, edge_ns, edge_ns.saturating_sub(begun_ns));
        } else if edge_ns > 0 {
            self.worker.forget(CHAIN);
        }
    }

    /// A timer that was due at this moment begins a chain.
    #[inline]
    pub fn begin_chain(&mut self, due_ns: u64) {
        self.chain = Chain { begun_ns: due_ns, ..Chain::default() };
    }

    /// The same for all steps of this kind in one pass; over many passes each number comes equally often.
    #[inline]
    fn draw(&self, stride: u64) -> u64 {
        self.place.unwrap_or_else(|| self.pass.wrapping_mul(stride).wrapping_add(self.seed))
    }

    #[inline]
    fn sleep_until(&mut self, due_ns: u64) {
        self.leave_chain();
        self.worker.begin(WAKEUP, due_ns);
        self.machine.sleep_until(due_ns);
        self.record_wakeup(due_ns);
        self.begin_chain(due_ns);
    }

    /// A timer whose expiry has passed is missed: it counts from here, unless it is absolute. One that expired in a rest
    /// of its worker counts from the rest's end, as at first from the worker's start.
    #[inline]
    fn await_timer(&mut self, timer: TimerPlace, period_ns: u64, absolute: bool, now_ns: u64) {
        let last_ns = match timer {
            TimerPlace::Own(own) => &self.timers[own],
            TimerPlace::Shared(shared) => &self.things[shared].moment_ns,
        };
        _ = last_ns.compare_exchange(0, self.first_ns, Relaxed, Relaxed);
        let mut due_ns = last_ns.fetch_add(period_ns, Relaxed) + period_ns;
        let rest_ended_ns = self.worker.rest_ended_ns();
        if due_ns < rest_ended_ns {
            due_ns = rest_ended_ns + period_ns;
            last_ns.store(due_ns, Relaxed);
        }
        self.worker.count(TIMERS, 1);
        if now_ns < due_ns {
            self.worker.count(EARLY_NS, due_ns - now_ns);
            return self.sleep_until(due_ns);
        }
        self.worker.count(MISSED, 1);
        self.worker.count(LATE_NS, now_ns - due_ns);
        if !absolute {
            last_ns.store(now_ns, Relaxed);
        }
        self.leave_chain();
        self.begin_chain(due_ns);
    }

    fn lock(&mut self, lock: usize) {
        self.things[lock].lock(self.how, self.tid);
        self.held[lock] = true;
    }

    fn unlock(&mut self, lock: usize) -> Result<(), WorkloadError> {
        if !std::mem::take(&mut self.held[lock]) {
            return Err(self.misused(lock, "unlocks", "does not have"));
        }
        self.things[lock].unlock(self.how, self.tid);
        Ok(())
    }

    #[inline]
    fn await_signal(&mut self, place: usize, seen: u32) {
        let begun_ns = self.machine.now_ns();
        self.things[place].await_signal(seen, self.how);
        self.note_wakeup(place, true, begun_ns);
    }

    /// Records the time since somebody woke this worker, which began to wait at `begun_ns`.
    #[inline]
    fn note_wakeup(&self, place: usize, slept: bool, begun_ns: u64) {
        let woken_ns = self.things[place].moment_ns.load(Relaxed);
        if slept && woken_ns >= begun_ns {
            self.record_wakeup(woken_ns);
        }
    }

    #[inline]
    fn record_wakeup(&self, due_ns: u64) {
        let now_ns = self.machine.now_ns();
        let delay_ns = now_ns.saturating_sub(due_ns);
        self.worker.note_delay(delay_ns);
        self.worker.record(WAKEUP, now_ns, delay_ns);
    }

    fn fork(&mut self, fork: usize, free: usize, now_ns: u64) -> Result<(), WorkloadError> {
        if !self.things[free].try_take() {
            let problem = format!("no worker of the fork `{}` is free", self.script.things[fork].1);
            let hint = "a larger `count` in the set of the fork's name".to_string();
            return Err(WorkloadError::conflict(problem, hint));
        }
        self.post(fork, now_ns);
        Ok(())
    }

    fn in_pieces(
        &mut self,
        bytes: u64,
        act: impl Fn(&mut [u8], Option<&File>) -> std::io::Result<()>,
    ) -> Result<(), WorkloadError> {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(self.memory.len() as u64);
            act(&mut self.memory[..piece as usize], self.output.as_ref())
                .map_err(|source| WorkloadError::system("write to /dev/null", source))?;
            left -= piece;
        }
        Ok(())
    }

    fn move_to(&self, cpus: Option<&CpuSet>) -> Result<(), WorkloadError> {
        let cpus = cpus.unwrap_or(self.pool);
        sched::set_affinity(0, cpus)
            .map_err(|source| WorkloadError::system(format!("move to CPUs {cpus}"), source))
    }

    /// 0 names the calling thread. The kernel moves it without holding up forks and exits of all others.
    fn enter(&self, cgroup: usize) -> Result<(), WorkloadError> {
        let entered = self.cgroups[cgroup].iter().try_for_each(|mut file| file.write_all(b"0"));
        entered.map_err(|source| {
            let name = name_of(&self.script.cgroups[cgroup]);
            WorkloadError::system(format!("move to the cgroup {name}"), source)
        })
    }

    fn misused(&self, lock: usize, does: &str, state: &str) -> WorkloadError {
        let problem = format!("a worker {does} `{}`, which it {state}", self.script.things[lock].1);
        WorkloadError::conflict(problem, "lock, then unlock".to_string()).at(STEPS)
    }
}

/// Sets that of the calling thread. The slice stays the kernel's own.
fn set_policy(policy: Option<Policy>, priority: i32) -> Result<(), WorkloadError> {
    let set = || {
        let number = match policy {
            Some(policy) => policy.number(),
            None => sched::attr(0)?.policy,
        };
        let takes = Policy::from_number(number).is_some_and(Policy::takes_priority);
        let (nice, priority) = if takes { (0, priority as u32) } else { (priority, 0) };
        sched::set_attr(0, &Attr { policy: number, nice, priority, ..Attr::default() })
    };
    set().map_err(|source| WorkloadError::system("set the policy of a step", source))
}
