//! Helpers for tests of sources: threads that act while a session counts, and the kernel's own counts.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use crate::model::{CpuSet, PairKind, PairScore, TaskScore};
use crate::sys::sched::{self as policy, Attr, Policy};
use crate::sys::{clock, topology};

use super::{Counted, Session};

/// One session at a time: each counts what the others' tests do, too.
pub static ONE: Mutex<()> = Mutex::new(());

/// A thread that runs its task between two rests, in which nothing happens to it.
pub struct Actor {
    pub tid: i32,
    pub go: Sender<()>,
    rested: Receiver<()>,
    pub thread: JoinHandle<()>,
}

impl Actor {
    pub fn new(name: &str, act: impl FnOnce() + Send + 'static) -> Actor {
        Actor::prepared(name, || (), act)
    }

    /// On this CPU under SCHED_FIFO before it rests: an ordinary task that is still to become one would wait behind the
    /// others, for a second, with what the machine's ordinary tasks then get.
    fn real_time(
        name: &str,
        cpu: u32,
        priority: u32,
        act: impl FnOnce() + Send + 'static,
    ) -> Actor {
        let prepare = move || {
            fifo(priority);
            pin(cpu);
        };
        Actor::prepared(name, prepare, act)
    }

    fn prepared(
        name: &str,
        prepare: impl FnOnce() + Send + 'static,
        act: impl FnOnce() + Send + 'static,
    ) -> Actor {
        let (go, start) = channel::<()>();
        let (say, rested) = channel();
        let act = move || {
            prepare();
            say.send(policy::own_tid()).unwrap();
            start.recv().unwrap();
            act();
            say.send(0).unwrap();
            let _ = start.recv();
        };
        let thread = std::thread::Builder::new().name(name.to_string()).spawn(act).unwrap();
        let tid = rested.recv().unwrap();
        let (done, ended) = channel();
        std::thread::spawn(move || {
            while rested.recv().is_ok() {
                let _ = done.send(());
            }
        });
        Actor { tid, go, rested: ended, thread }
    }

    /// Waits until it has acted and rests again.
    pub fn rest(&self) {
        self.rested.recv().unwrap();
        await_sleep(self.tid);
    }

    /// The kernel's counts of it while it rests.
    pub fn kernel(&self) -> Kernel {
        await_sleep(self.tid);
        let read = |file: &str| {
            std::fs::read_to_string(format!("/proc/self/task/{}/{file}", self.tid)).unwrap()
        };
        let status = read("status");
        let count = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line.rsplit('\t').next().unwrap().parse().unwrap()
        };
        let schedstat: Vec<u64> =
            read("schedstat").split_whitespace().map(|word| word.parse().unwrap()).collect();
        Kernel {
            voluntary: count("voluntary_ctxt_switches"),
            involuntary: count("nonvoluntary_ctxt_switches"),
            run_ns: schedstat[0],
            wait_ns: schedstat[1],
        }
    }
}

#[derive(Debug, PartialEq)]
pub struct Kernel {
    pub voluntary: u64,
    pub involuntary: u64,
    pub run_ns: u64,
    pub wait_ns: u64,
}

impl Kernel {
    pub fn since(&self, before: &Kernel) -> Kernel {
        Kernel {
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
            run_ns: self.run_ns - before.run_ns,
            wait_ns: self.wait_ns - before.wait_ns,
        }
    }

    pub fn from_task(task: &TaskScore) -> Kernel {
        Kernel {
            voluntary: task.voluntary.unwrap(),
            involuntary: task.involuntary.unwrap(),
            run_ns: task.run_ns.unwrap(),
            wait_ns: task.wait.as_ref().unwrap().total_ns,
        }
    }
}

/// Until the thread sleeps: then nothing of it is counted any more.
pub fn await_sleep(tid: i32) {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
        if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')) {
            return;
        }
        std::thread::yield_now();
    }
}

/// Counts while actors act, of whom the last is sent first: one that spins may keep this thread from its CPU. Returns the
/// session's counts, and the kernel's differences in the order of the actors.
pub fn count(session: &mut dyn Session, actors: &[Actor]) -> (Counted, Vec<Kernel>) {
    let before: Vec<Kernel> = actors.iter().map(Actor::kernel).collect();
    session.begin().unwrap();
    actors.iter().rev().for_each(|actor| actor.go.send(()).unwrap());
    actors.iter().for_each(Actor::rest);
    let counted = session.end().unwrap();
    let after = actors.iter().map(Actor::kernel).zip(&before);
    (counted, after.map(|(after, before)| after.since(before)).collect())
}

pub fn task(counted: &Counted, tid: i32) -> &TaskScore {
    counted.tasks.iter().find(|task| task.tid == tid).unwrap()
}

pub fn pairs<'a>(counted: &'a Counted, kind: PairKind, name: &str) -> Vec<&'a PairScore> {
    counted.pairs.iter().flatten().filter(|pair| pair.kind == kind && pair.name == name).collect()
}

pub fn on_one_cpu() {
    pin(first_cpu());
}

fn first_cpu() -> u32 {
    topology::affinity().unwrap().iter().next().unwrap()
}

/// Two that wake each other so many times on one CPU.
pub fn ping_pong([ping, pong]: [&str; 2], times: u32) -> [Actor; 2] {
    let ((ping_out, ping_in), (pong_out, pong_in)) = (pipe().unwrap(), pipe().unwrap());
    [
        Actor::new(ping, move || strike(ping_in, pong_out, times, true)),
        Actor::new(pong, move || strike(pong_in, ping_out, times, false)),
    ]
}

fn strike(mut to: PipeWriter, mut from: PipeReader, times: u32, first: bool) {
    on_one_cpu();
    let mut ball = [0u8];
    for _ in 0..times {
        if first {
            to.write_all(&ball).unwrap();
            from.read_exact(&mut ball).unwrap();
        } else {
            from.read_exact(&mut ball).unwrap();
            to.write_all(&ball).unwrap();
        }
    }
}

fn pin(cpu: u32) {
    policy::set_affinity(0, &[cpu].into_iter().collect::<CpuSet>()).unwrap();
}

fn fifo(priority: u32) {
    let attr = Attr { policy: Policy::Fifo.number(), priority, ..Attr::default() };
    policy::set_attr(0, &attr).unwrap();
}

/// Two CPUs, and the right to SCHED_FIFO; else the test is skipped.
pub fn has_real_time(test: &str) -> bool {
    let attr = Attr { policy: Policy::Fifo.number(), priority: 1, ..Attr::default() };
    let is_allowed = policy::set_attr(0, &attr).is_ok();
    let _ = policy::set_attr(0, &Attr::default());
    let has_cpus = topology::affinity().unwrap().iter().count() > 1;
    if !is_allowed || !has_cpus {
        println!("skipped: {test} needs privilege for SCHED_FIFO and hardware with two CPUs");
    }
    is_allowed && has_cpus
}

/// The tasks that ran while `name` waited, and for how long: nanoseconds.
fn delays(counted: &Counted, name: &str) -> Vec<(String, u64)> {
    let found = pairs(counted, PairKind::Delayed, name).into_iter();
    found.map(|pair| (pair.by.clone(), pair.lost_ns.unwrap())).collect()
}

fn delay_by(counted: &Counted, name: &str, by: &str) -> u64 {
    delays(counted, name).into_iter().filter(|delay| delay.0 == by).map(|delay| delay.1).sum()
}

/// Has a task spin until it is to stop, and knows its CPU time so far.
#[derive(Clone, Default)]
struct Spinner {
    stop: Arc<AtomicBool>,
    ran_ns: Arc<AtomicU64>,
}

impl Spinner {
    /// A task that spins.
    fn actor(&self, name: &str, cpu: u32, priority: u32) -> Actor {
        let own = self.clone();
        Actor::real_time(name, cpu, priority, move || own.spin())
    }

    fn spin(&self) {
        let start_ns = clock::own_thread_cpu_ns();
        while !self.stop.load(SeqCst) {
            self.ran_ns.store(clock::own_thread_cpu_ns() - start_ns, SeqCst);
        }
    }

    /// Waits until it has run for `more_ns` from now. The caller's limits bound the wait.
    fn await_ns(&self, more_ns: u64) {
        let goal_ns = self.ran_ns.load(SeqCst) + more_ns;
        while self.ran_ns.load(SeqCst) < goal_ns {
            sleep(Duration::from_micros(200));
        }
    }
}

/// The priority of a victim, which only those take the CPU from that a test has made for it: an ordinary one would
/// wait for any task of a busy machine, too.
const VICTIM: u32 = 1;

const ROUNDS: u64 = 10;
const STOLEN_NS: u64 = 8_000_000;

/// `bell` takes the CPU of `victim` and wakes `thief`, which then keeps the CPU: the victim's time went to the
/// thief.
pub fn thief_is_charged(session: &mut dyn Session) {
    let cpu = first_cpu();
    let (mut read, mut write) = pipe().unwrap();
    let victim = Spinner::default();
    let [spinning, stop] = [victim.clone(), victim.clone()];
    let actors = [
        Actor::real_time("victim", cpu, VICTIM, move || victim.spin()),
        Actor::real_time("thief", cpu, 5, move || {
            for _ in 0..ROUNDS {
                read.read_exact(&mut [0]).unwrap();
                let start_ns = clock::own_thread_cpu_ns();
                while clock::own_thread_cpu_ns() - start_ns < STOLEN_NS {}
            }
            stop.stop.store(true, SeqCst);
        }),
        Actor::real_time("bell", cpu, 30, move || {
            for _ in 0..ROUNDS {
                // The victim has the CPU before each round.
                spinning.await_ns(100_000);
                write.write_all(&[0]).unwrap();
            }
        }),
    ];
    let (counted, _) = count(session, &actors);
    let victim = task(&counted, actors[0].tid);
    let all: u64 = delays(&counted, "victim").iter().map(|delay| delay.1).sum();
    let [thief, bell, other] =
        ["thief", "bell", "(other)"].map(|by| delay_by(&counted, "victim", by));
    let seen = format!("{:?}: {:?}", victim.wait, delays(&counted, "victim"));
    assert_eq!(all, victim.wait.as_ref().unwrap().total_ns, "{seen}");
    // Some machines hide switches: who ran meanwhile is then not known.
    assert!(thief + other >= ROUNDS * STOLEN_NS, "{seen}");
    assert!(bell > 0 && bell < thief / 4 && other < thief / 4, "{seen}");
    // A wait after a wakeup.
    assert!(delay_by(&counted, "thief", "bell") > 0, "{:?}", delays(&counted, "thief"));
    let preempted = pairs(&counted, PairKind::Delayed, "victim");
    let by_bell = preempted.iter().find(|pair| pair.by == "bell").map(|pair| pair.count);
    assert!(by_bell >= Some(ROUNDS), "{preempted:?}");
    actors.into_iter().for_each(|actor| drop(actor.go));
}

const BALLS: u32 = 5_000;

/// Two that wake each other keep a third one from its CPU for far more turns than are remembered one by
/// one.
pub fn long_wait_is_charged(session: &mut dyn Session) {
    let cpu = first_cpu();
    let ((ping_out, ping_in), (pong_out, pong_in)) = (pipe().unwrap(), pipe().unwrap());
    let victim = Spinner::default();
    let [spinning, stop] = [victim.clone(), victim.clone()];
    let played_ns = Arc::new(AtomicU64::new(0));
    let played = [Arc::clone(&played_ns), Arc::clone(&played_ns)];
    let [first_ns, second_ns] = played;
    let actors = [
        Actor::real_time("victim", cpu, VICTIM, move || victim.spin()),
        Actor::real_time("pong", cpu, 5, move || {
            let start_ns = clock::own_thread_cpu_ns();
            strike(pong_in, ping_out, BALLS, false);
            second_ns.fetch_add(clock::own_thread_cpu_ns() - start_ns, SeqCst);
        }),
        Actor::real_time("ping", cpu, 5, move || {
            spinning.await_ns(1_000_000);
            let start_ns = clock::own_thread_cpu_ns();
            strike(ping_in, pong_out, BALLS, true);
            first_ns.fetch_add(clock::own_thread_cpu_ns() - start_ns, SeqCst);
            stop.stop.store(true, SeqCst);
        }),
    ];
    let (counted, _) = count(session, &actors);
    let wait = task(&counted, actors[0].tid).wait.clone().unwrap();
    let [ping, pong, other] =
        ["ping", "pong", "(other)"].map(|by| delay_by(&counted, "victim", by));
    let seen = format!("{wait:?}: {:?}", delays(&counted, "victim"));
    let all: u64 = delays(&counted, "victim").iter().map(|delay| delay.1).sum();
    assert_eq!(all, wait.total_ns, "{seen}");
    assert!(other <= wait.total_ns / 10, "{seen}");
    assert!(ping + pong + other >= played_ns.load(SeqCst) * 9 / 10, "{seen}");
    assert!(ping.min(pong) > ping.max(pong) / 20, "{seen}");
    actors.into_iter().for_each(|actor| drop(actor.go));
}

const HELD_NS: u64 = 5_000_000;

/// A task waits before counting begins, and gets a CPU while it lasts.
pub fn early_wait_counts_from_the_beginning(session: &mut dyn Session) {
    let cpu = first_cpu();
    let [victim, hog] = [(); 2].map(|()| Spinner::default());
    let actors = [victim.actor("victim", cpu, VICTIM), hog.actor("hog", cpu, 5)];
    // The hog has the CPU that this thread might need.
    fifo(20);
    actors[0].go.send(()).unwrap();
    victim.await_ns(100_000);
    actors[1].go.send(()).unwrap();
    hog.await_ns(2 * HELD_NS);
    let began_ns = clock::monotonic_ns();
    session.begin().unwrap();
    hog.await_ns(HELD_NS);
    hog.stop.store(true, SeqCst);
    victim.await_ns(100_000);
    let counted = session.end().unwrap();
    let lasted_ns = clock::monotonic_ns() - began_ns;
    victim.stop.store(true, SeqCst);
    policy::set_attr(0, &Attr::default()).unwrap();
    actors.iter().for_each(Actor::rest);

    let wait = task(&counted, actors[0].tid).wait.clone().unwrap();
    let seen = format!("{wait:?} in {lasted_ns} ns: {:?}", delays(&counted, "victim"));
    assert!(wait.total_ns >= HELD_NS && wait.total_ns <= lasted_ns, "{seen}");
    assert!(wait.max_ns <= Some(lasted_ns), "{seen}");
    let all: u64 = delays(&counted, "victim").iter().map(|delay| delay.1).sum();
    assert_eq!(all, wait.total_ns, "{seen}");
    actors.into_iter().for_each(|actor| drop(actor.go));
}

/// A task waits for one CPU and is then moved to where it waits for another one, and it still waits when
/// counting ends.
pub fn each_cpu_is_charged(session: &mut dyn Session) {
    let cpus: Vec<u32> = topology::affinity().unwrap().iter().collect();
    let [here, there] = [cpus[0], cpus[1]];
    let [victim, first, second] = [(); 3].map(|()| Spinner::default());
    let actors = [
        victim.actor("victim", here, VICTIM),
        first.actor("hog-here", here, 5),
        second.actor("hog-there", there, 5),
    ];
    session.begin().unwrap();
    // Both hogs have every CPU that this thread might need.
    fifo(20);
    actors[0].go.send(()).unwrap();
    victim.await_ns(100_000);
    actors[1].go.send(()).unwrap();
    first.await_ns(100_000);
    first.await_ns(HELD_NS);
    actors[2].go.send(()).unwrap();
    second.await_ns(100_000);
    policy::set_affinity(actors[0].tid, &[there].into_iter().collect::<CpuSet>()).unwrap();
    second.await_ns(HELD_NS);
    let so_far = session.reading();
    second.await_ns(HELD_NS);
    let counted = session.end().unwrap();
    [victim, first, second].iter().for_each(|spinner| spinner.stop.store(true, SeqCst));
    policy::set_attr(0, &Attr::default()).unwrap();
    actors.iter().for_each(Actor::rest);

    let row = task(&counted, actors[0].tid);
    let [here_ns, there_ns, other_ns] =
        ["hog-here", "hog-there", "(other)"].map(|by| delay_by(&counted, "victim", by));
    let seen = format!("{row:?}: {:?}", delays(&counted, "victim"));
    assert!(here_ns + other_ns >= HELD_NS && there_ns + other_ns >= 2 * HELD_NS, "{seen}");
    assert!(here_ns > other_ns && there_ns > other_ns, "{seen}");
    // The wait is one, however many run queues it was in: none of it is among those that ended.
    assert!(row.waiting_ns >= Some(3 * HELD_NS), "{seen}");
    let ended = row.wait.as_ref().unwrap();
    assert!(ended.total_ns <= ended.count * ended.max_ns.unwrap(), "{seen}");
    let all: u64 = delays(&counted, "victim").iter().map(|delay| delay.1).sum();
    let wait_ns = row.wait.as_ref().unwrap().total_ns + row.waiting_ns.unwrap();
    assert!(all <= wait_ns && all >= wait_ns - wait_ns / 20, "{seen}, {all} of {wait_ns}");
    // A view shows it while it lasts.
    let so_far = so_far.unwrap();
    let there_ns = ["hog-there", "(other)"].map(|by| delay_by(&so_far, "victim", by));
    assert!(there_ns.iter().sum::<u64>() >= HELD_NS, "{:?}", delays(&so_far, "victim"));
    actors.into_iter().for_each(|actor| drop(actor.go));
}
