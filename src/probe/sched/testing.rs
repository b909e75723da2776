//! What tests of sources share: threads that act while a session counts, and the kernel's own counts.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::model::{CpuSet, PairKind, PairScore, TaskScore};
use crate::sys::sched as policy;

use super::{Counted, Session};

/// One session at a time: each counts what the others' tests do, too.
pub static ONE: Mutex<()> = Mutex::new(());

/// A thread that runs what it is given between two rests, in which nothing happens to it.
pub struct Actor {
    pub tid: i32,
    pub go: Sender<()>,
    rested: Receiver<()>,
    pub thread: JoinHandle<()>,
}

impl Actor {
    pub fn new(name: &str, act: impl FnOnce() + Send + 'static) -> Actor {
        let (go, start) = channel::<()>();
        let (say, rested) = channel();
        let act = move || {
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

    /// Until it has acted and rests again.
    pub fn rest(&self) {
        self.rested.recv().unwrap();
        await_sleep(self.tid);
    }

    /// What the kernel says of it while it rests.
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

    pub fn of(task: &TaskScore) -> Kernel {
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

/// Counts while actors act. What was counted, and the kernel's differences, in their order.
pub fn count(session: &mut dyn Session, actors: &[Actor]) -> (Counted, Vec<Kernel>) {
    let before: Vec<Kernel> = actors.iter().map(Actor::kernel).collect();
    session.begin().unwrap();
    actors.iter().for_each(|actor| actor.go.send(()).unwrap());
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
    let cpu = crate::sys::topology::affinity().unwrap().iter().next().unwrap();
    policy::set_affinity(0, &[cpu].into_iter().collect::<CpuSet>()).unwrap();
}

pub fn strike(mut to: PipeWriter, mut from: PipeReader, times: u32, first: bool) {
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
