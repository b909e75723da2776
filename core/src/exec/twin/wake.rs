//! From the wake of a thread to its first instruction: on the same CPU, on another one that is busy,
//! and on another one that is idle.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::exec::ExecError;
use crate::model::Cost;
use crate::sys::clock;
use crate::sys::futex::{self, Scope};

use super::pinned::{self, Busy, Pair, joined, pin, pin_idle};
use super::samples::{Costs, difference, of_ns};

/// How long the other CPU has been busy or idle before a wake.
const BUSY_NS: u64 = 50_000;
const IDLE_NS: u64 = 1_000_000;
/// And after a short idling, which a CPU only expects after some others.
const SHORT_IDLE_NS: u64 = 100_000;
const SHORT_IDLINGS: usize = 4;
/// How long a thread may take to run, which another load can keep from it for seconds.
const LIMIT_NS: u64 = 30_000_000_000;

pub fn measure(
    pair: Pair,
    is_near: bool,
    samples: usize,
    costs: &mut Costs,
) -> Result<(), ExecError> {
    let wakes = wakes(pair, samples)?;
    let (busy, idle, ipi) = if is_near {
        (Cost::WakeBusyNear, Cost::WakeIdleNear, Cost::IpiNear)
    } else {
        (Cost::WakeBusyFar, Cost::WakeIdleFar, Cost::IpiFar)
    };
    costs.insert(busy, of_ns(&wakes.busy));
    costs.insert(idle, of_ns(&wakes.idle));
    costs.insert(ipi, difference(&wakes.busy, &wakes.here));
    if is_near {
        costs.insert(Cost::WakeIdleShort, of_ns(&wakes.idle_short));
        costs.insert(Cost::IdleExitShort, difference(&wakes.idle_short, &wakes.busy));
    }
    costs.entry(Cost::WakeHere).or_insert_with(|| of_ns(&wakes.here));
    Ok(())
}

/// Samples, in turn.
struct Wakes {
    here: Vec<u64>,
    busy: Vec<u64>,
    idle: Vec<u64>,
    idle_short: Vec<u64>,
}

fn wakes(Pair { from, to }: Pair, samples: usize) -> Result<Wakes, ExecError> {
    let (here, there, busy) = (Sleeper::default(), Sleeper::default(), Busy::default());
    std::thread::scope(|threads| {
        let others = [
            threads.spawn(|| here.sleep(from)),
            threads.spawn(|| there.sleep(to)),
            threads.spawn(|| busy.work(to)),
        ];
        let waker = threads.spawn(|| {
            let wakes = pin_idle(from).and_then(|()| wake_in_turn(samples, &here, &there, &busy));
            here.end();
            there.end();
            busy.end();
            wakes
        });
        let wakes = joined(waker);
        others.into_iter().try_for_each(joined)?;
        wakes
    })
}

fn wake_in_turn(
    samples: usize,
    here: &Sleeper,
    there: &Sleeper,
    busy: &Busy,
) -> Result<Wakes, ExecError> {
    let room = || Vec::with_capacity(samples);
    let mut wakes = Wakes { here: room(), busy: room(), idle: room(), idle_short: room() };
    // Code that runs for the first time is slower.
    here.wake()?;
    there.wake()?;
    for _ in pinned::samples(samples) {
        wakes.here.push(here.wake()?);
        busy.set(true);
        spin(BUSY_NS);
        wakes.busy.push(there.wake()?);
        busy.set(false);
        spin(IDLE_NS);
        wakes.idle.push(there.wake()?);
        for idling in 1..=SHORT_IDLINGS {
            spin(SHORT_IDLE_NS);
            let wake_ns = there.wake()?;
            if idling == SHORT_IDLINGS {
                wakes.idle_short.push(wake_ns);
            }
        }
    }
    Ok(wakes)
}

/// Keeps this CPU awake.
fn spin(ns: u64) {
    let until_ns = clock::monotonic_ns() + ns;
    while clock::monotonic_ns() < until_ns {
        std::hint::spin_loop();
    }
}

const ENDED: u32 = u32::MAX;

/// A thread that sleeps until it is woken, notes when it ran, and sleeps again.
#[derive(Default)]
struct Sleeper {
    /// The number of the wake, or [`ENDED`].
    turn: AtomicU32,
    /// The last wake that it took, and when it ran.
    taken: AtomicU32,
    ran_at_ns: AtomicU64,
}

impl Sleeper {
    fn sleep(&self, cpu: u32) -> Result<(), ExecError> {
        pin(cpu)?;
        let mut taken = 0;
        loop {
            while self.turn.load(SeqCst) == taken {
                futex::wait(&self.turn, taken, None, Scope::Private);
            }
            let now_ns = clock::monotonic_ns();
            taken = self.turn.load(SeqCst);
            if taken == ENDED {
                return Ok(());
            }
            self.ran_at_ns.store(now_ns, SeqCst);
            self.taken.store(taken, SeqCst);
        }
    }

    /// The time of one wake, in nanoseconds.
    fn wake(&self) -> Result<u64, ExecError> {
        let turn = self.turn.load(SeqCst) + 1;
        let began_ns = clock::monotonic_ns();
        self.turn.store(turn, SeqCst);
        futex::wake(&self.turn, 1, Scope::Private);
        while self.taken.load(SeqCst) != turn {
            if clock::monotonic_ns() - began_ns > LIMIT_NS {
                return Err(ExecError::NoWake { limit_ns: LIMIT_NS });
            }
            std::hint::spin_loop();
        }
        Ok(self.ran_at_ns.load(SeqCst).saturating_sub(began_ns))
    }

    fn end(&self) {
        self.turn.store(ENDED, SeqCst);
        futex::wake(&self.turn, 1, Scope::Private);
    }
}
