//! Turns events in the order of their times into a scoreboard's rows. Pure.
//!
//! A task's run time goes from the switch to it to the switch from it; its wait from the wakeup, or from the switch
//! that took its CPU, to the next switch to it. A wait is charged to those who had the CPU meanwhile. If an event
//! is missing, times that depend on it are left out.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::model::{
    CpuScore, IDLE, INTERRUPT, OTHER, PairKind, PairScore, TaskScore, Topology, Turn, WorstWait,
    task_name,
};

use super::record::{Comm, Event, What};
use super::task::{State, Task};
use crate::probe::sched::Counted;
use crate::probe::sched::turns::Turns;

/// How many names and pairs of names are distinguished.
const MAX_NAMES: usize = 4000;
const MAX_PAIRS: usize = 1 << 14;
const OTHER_NAME: u32 = 0;
const INTERRUPT_NAME: u32 = 1;
const IDLE_NAME: u32 = 2;
/// Kernel threads are made by this task.
const KTHREADD: i32 = 2;
/// States of the tracepoint in which a task sleeps; preemption adds higher bits.
const ASLEEP: u64 = 0xff;
/// The states among these in which it has ended.
const DEAD: u64 = 0x10 | 0x20;

/// The tasks and events to be counted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub full: bool,
    pub max_tasks: usize,
    /// Ended tasks are kept for the next reading.
    pub readings: bool,
    /// Ended tasks are not kept until the end.
    pub forgets: bool,
    /// Processes whose tasks are watched, including the tasks that these make.
    pub asked: BTreeSet<i32>,
    /// Children of this process are, too.
    pub children_of: Option<i32>,
}

impl Wanted {
    /// Nothing in particular is watched.
    fn is_everything(&self) -> bool {
        self.asked.is_empty() && self.children_of.is_none()
    }
}

pub struct Fold {
    pub wanted: Wanted,
    distances: Distances,
    /// The time when counting began; `u64::MAX`: not yet. Before, the states of tasks are only followed.
    began_ns: u64,
    /// Tasks that live, and tasks that ended without an event.
    tasks: HashMap<i32, Task>,
    ended: Vec<TaskScore>,
    /// Tasks that ended since the last reading.
    unread: Vec<TaskScore>,
    /// Sums over tasks that ended when there were many already, by name and whether they are watched.
    together: BTreeMap<(String, bool), TaskScore>,
    cpus: BTreeMap<u32, Cpu>,
    names: Names,
    pairs: BTreeMap<Pair, (u64, u64)>,
    /// The longest wait of watched tasks; its time is the clock's.
    worst: Option<WorstWait>,
    pub missed: Missed,
}

/// Events that had no room, or were not seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Records.
    pub lost: u64,
    /// Records that cannot be read.
    pub unreadable: u64,
    /// Switches that must have been.
    unseen: u64,
    tasks: u64,
    together: u64,
    untracked: u64,
    pairs: u64,
}

/// Kind, who, whom.
type Pair = (PairKind, u32, u32);

/// Turns that each CPU remembers, for who had it during a wait.
const TURNS: usize = 1 << 14;

struct Cpu {
    /// `None`: the running task is not known.
    current: Option<i32>,
    /// The time since when it runs; `None` after a loss.
    since_ns: Option<u64>,
    switches: u64,
    idle_entries: u64,
    idle_ns: u64,
    /// Nothing of it is missing.
    whole: bool,
    /// The tasks that came, and when; the newest last.
    turns: VecDeque<(Holder, u64)>,
}

impl Fold {
    pub fn new(wanted: Wanted, topology: &Topology) -> Fold {
        let idle = |cpu| {
            let fresh = Cpu {
                current: None,
                since_ns: Some(0),
                switches: 0,
                idle_entries: 0,
                idle_ns: 0,
                whole: true,
                turns: VecDeque::new(),
            };
            (cpu, fresh)
        };
        Fold {
            wanted,
            distances: Distances::from_topology(topology),
            began_ns: u64::MAX,
            tasks: HashMap::new(),
            ended: Vec::new(),
            unread: Vec::new(),
            together: BTreeMap::new(),
            cpus: topology.online.iter().map(idle).collect(),
            names: Names::default(),
            pairs: BTreeMap::new(),
            worst: None,
            missed: Missed::default(),
        }
    }

    pub fn begin(&mut self, at_ns: u64) {
        self.began_ns = at_ns;
    }

    /// A task that lives, found otherwise than by events.
    pub fn meet(
        &mut self,
        tid: i32,
        pid: i32,
        name: &[u8],
        kernel: bool,
        cgroup: Option<&Arc<str>>,
    ) {
        if !self.tasks.contains_key(&tid) && self.is_full() {
            self.missed.tasks += 1;
            return;
        }
        if let Some(task) = self.task(tid, Some(pid), Some(super::record::padded(name))) {
            task.kernel_thread = kernel;
            task.cgroup = cgroup.cloned().or(task.cgroup.take());
        }
    }

    /// Watches the process's tasks from now on.
    pub fn watch(&mut self, pid: i32) {
        self.wanted.asked.insert(pid);
        let of_it = self.tasks.values_mut().filter(|task| task.pid == Some(pid));
        of_it.for_each(|task| task.watched = true);
    }

    /// Processes that have living tasks to which something happened.
    pub fn processes(&self) -> BTreeSet<i32> {
        self.tasks.values().filter_map(|task| task.pid).collect()
    }

    pub fn place(&mut self, pid: i32, cgroup: &Arc<str>) {
        let of_it = self.tasks.values_mut().filter(|task| task.pid == Some(pid));
        of_it.for_each(|task| task.cgroup = Some(Arc::clone(cgroup)));
    }

    pub fn event(&mut self, event: &Event) {
        match event.what {
            What::Switch { prev, state, next, comm } => {
                self.switch(event, (prev, state), (next, comm));
            }
            What::Waking { tid, by_interrupt } => self.waking(event, tid, by_interrupt),
            What::New { tid } => {
                if let Some(task) = self.task(tid, None, None) {
                    task.state = State::Waits { since_ns: event.at_ns };
                }
            }
            What::Migrate { tid, from, to } => {
                let distance = self.distances.between(from, to);
                self.charge_waiting(tid, from, event.at_ns);
                let counts = u64::from(self.counts(event));
                if let Some(task) = self.task(tid, None, None) {
                    task.counts.migrations[distance] += counts;
                    (task.cpu, task.moved_ns) = (Some(to), event.at_ns);
                }
            }
            What::Fork { pid, tid, parent_pid, parent_tid } => {
                self.fork((pid, tid), (parent_pid, parent_tid));
            }
            What::Exit { tid } => {
                self.tasks.entry(tid).and_modify(|task| task.ended = true);
            }
            What::Renamed { tid, comm } => {
                self.task(tid, None, Some(comm));
            }
            What::Runs => self.runs(event),
            What::Lost { count } => self.lose(event, count),
        }
    }

    fn counts(&self, event: &Event) -> bool {
        event.at_ns >= self.began_ns
    }

    fn is_full(&self) -> bool {
        self.tasks.len() >= self.wanted.max_tasks
    }

    /// The task, updated from an event. `None`: there is no room for it.
    fn task(&mut self, tid: i32, pid: Option<i32>, comm: Option<Comm>) -> Option<&mut Task> {
        if !self.tasks.contains_key(&tid) {
            if self.is_full() || tid <= 0 {
                return None;
            }
            let name = self.names.number(&Comm::default());
            self.tasks.insert(tid, Task::new(None, Comm::default(), name));
        }
        let task = self.tasks.get_mut(&tid)?;
        if let Some(comm) = comm.filter(|comm| *comm != task.comm) {
            (task.comm, task.name) = (comm, self.names.number(&comm));
        }
        if let (None, Some(pid)) = (task.pid, pid.filter(|pid| *pid > 0)) {
            task.pid = Some(pid);
            task.watched |= self.wanted.asked.contains(&pid);
        }
        Some(task)
    }

    fn name(&self, tid: i32) -> u32 {
        match tid {
            0 => IDLE_NAME,
            tid => self.tasks.get(&tid).map_or(OTHER_NAME, |task| task.name),
        }
    }

    fn switch(&mut self, event: &Event, prev: (i32, u64), next: (i32, Option<Comm>)) {
        let ran_ns = self.leave(event, prev.0);
        if next.0 != 0 {
            self.come(event, next.0, next.1);
        }
        if prev.0 != 0 {
            self.go(event, prev, ran_ns, self.name(next.0));
        }
        let counts = self.counts(event);
        let holder = (next.0, self.name(next.0));
        let Some(cpu) = self.cpus.get_mut(&event.cpu) else { return };
        cpu.current = Some(next.0);
        cpu.since_ns = Some(event.at_ns);
        if cpu.turns.len() == TURNS {
            cpu.turns.pop_front();
        }
        cpu.turns.push_back((holder, event.at_ns));
        cpu.switches += u64::from(counts);
        cpu.idle_entries += u64::from(counts && next.0 == 0);
    }

    /// The run time of a task that leaves the CPU, idle or not, as far as it is counted.
    fn leave(&mut self, event: &Event, prev: i32) -> Option<u64> {
        let (began_ns, counts) = (self.began_ns, self.counts(event));
        let holder = (prev, self.name(prev));
        let cpu = self.cpus.get_mut(&event.cpu)?;
        // The task that leaves at the first switch has had the CPU until then.
        if let (None, Some(since_ns)) = (cpu.turns.back(), cpu.since_ns) {
            cpu.turns.push_back((holder, since_ns));
        }
        if let Some(current) = cpu.current.filter(|current| *current != prev) {
            // A switch between the two was not seen: some machines hide some. Between two tasks the CPU
            // was busy, whoever had it.
            cpu.since_ns = None;
            cpu.whole &= current != 0 && prev != 0;
            cpu.turns.back_mut().into_iter().for_each(|turn| turn.0 = (0, OTHER_NAME));
            self.missed.unseen += u64::from(counts);
        }
        let since_ns = cpu.since_ns.filter(|_| counts)?.max(began_ns);
        let ran_ns = event.at_ns.saturating_sub(since_ns);
        if prev == 0 {
            cpu.idle_ns += ran_ns;
        }
        Some(ran_ns)
    }

    fn go(&mut self, event: &Event, (tid, state): (i32, u64), ran_ns: Option<u64>, by: u32) {
        let (counts, full) = (self.counts(event), self.wanted.full);
        let Some(task) = self.task(tid, Some(event.pid), None) else { return };
        if let Some(ran_ns) = ran_ns.filter(|ran_ns| *ran_ns > 0) {
            task.counts.ran(event.cpu, ran_ns);
            if full {
                task.counts.slice(ran_ns);
            }
        }
        let can_run = state & ASLEEP == 0;
        if counts {
            task.counts.involuntary += u64::from(can_run);
            task.counts.voluntary += u64::from(!can_run);
        }
        task.cpu = Some(event.cpu);
        let name = task.name;
        match can_run {
            true => task.state = State::Waits { since_ns: event.at_ns },
            false => task.state = State::Sleeps { since_ns: event.at_ns },
        }
        if counts && full && can_run {
            self.pair((PairKind::Delayed, by, name), 1, 0);
        }
        if state & DEAD != 0 {
            self.retire(tid);
        }
    }

    fn come(&mut self, event: &Event, tid: i32, comm: Option<Comm>) {
        let counts = self.counts(event);
        let Some(task) = self.task(tid, None, comm) else {
            self.missed.untracked += u64::from(counts);
            return;
        };
        let since_ns = match task.state {
            State::Waits { since_ns } => Some(since_ns),
            // Woken while it was about to go, and nothing has woken it since.
            State::Sleeps { since_ns } if task.woken_early => Some(since_ns),
            _ => None,
        };
        (task.state, task.woken_early, task.cpu) = (State::Runs, false, Some(event.cpu));
        let Some(since_ns) = since_ns.filter(|_| counts) else { return };
        let wait_ns = event.at_ns.saturating_sub(since_ns);
        let (queued_ns, charged_ns) = (since_ns.max(task.moved_ns), since_ns.max(task.charged_ns));
        task.counts.waited(wait_ns);
        let is_watched = task.watched || self.wanted.is_everything();
        if is_watched && self.worst.as_ref().is_none_or(|worst| wait_ns > worst.wait_ns) {
            self.worst = self.waited_longest(event, tid, wait_ns, queued_ns);
        }
        self.charge(tid, event.cpu, (charged_ns, event.at_ns));
    }

    /// Charges a piece of a task's wait to those who had the CPU while the task was in its run queue.
    fn charge(&mut self, tid: i32, cpu: u32, (from_ns, to_ns): (u64, u64)) {
        let Some(task) = self.tasks.get_mut(&tid).filter(|_| self.wanted.full) else { return };
        task.charged_ns = to_ns;
        let name = task.name;
        let mut rest_ns = to_ns.saturating_sub(from_ns);
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for ((_, by), ns) in
            self.cpus.get(&cpu).into_iter().flat_map(|cpu| cpu.held(from_ns, to_ns))
        {
            *held.entry(by).or_default() += ns;
            rest_ns -= ns;
        }
        if rest_ns > 0 {
            *held.entry(OTHER_NAME).or_default() += rest_ns;
        }
        held.into_iter().for_each(|(by, ns)| self.pair((PairKind::Delayed, by, name), 0, ns));
    }

    /// Charges the part of a wait under way until now.
    fn charge_waiting(&mut self, tid: i32, cpu: u32, until_ns: u64) {
        let Some(task) = self.tasks.get(&tid).filter(|_| until_ns >= self.began_ns) else { return };
        if let State::Waits { since_ns } = task.state {
            self.charge(tid, cpu, (since_ns.max(task.charged_ns), until_ns));
        }
    }

    fn charge_all_waiting(&mut self, until_ns: u64) {
        let queued = |(tid, task): (&i32, &Task)| Some((*tid, task.cpu?));
        let queued: Vec<(i32, u32)> = self.tasks.iter().filter_map(queued).collect();
        queued.into_iter().for_each(|(tid, cpu)| self.charge_waiting(tid, cpu, until_ns));
    }

    /// `from_ns`: since when it was in this CPU's run queue. `None`: the CPU is not known.
    fn waited_longest(
        &self,
        event: &Event,
        tid: i32,
        wait_ns: u64,
        from_ns: u64,
    ) -> Option<WorstWait> {
        let cpu = self.cpus.get(&event.cpu)?;
        let mut turns = Turns::default();
        for ((tid, name), ns) in cpu.held(from_ns, event.at_ns) {
            turns.add(tid, self.names.text(name), ns);
        }
        let (known_ns, meanwhile) = turns.finish();
        let ((before, name), since_ns) = *cpu.turns.back()?;
        let run_ns = event.at_ns.saturating_sub(since_ns);
        Some(WorstWait {
            wait_ns,
            at_ns: event.at_ns,
            cpu: event.cpu,
            tid,
            name: self.names.text(self.name(tid)),
            before: Turn { tid: before, name: self.names.text(name), run_ns },
            meanwhile,
            known_ns,
        })
    }

    /// The worst wait, with its time since counting began.
    fn worst(&self) -> Option<WorstWait> {
        let worst = self.worst.clone()?;
        Some(WorstWait { at_ns: worst.at_ns.saturating_sub(self.began_ns), ..worst })
    }

    fn waking(&mut self, event: &Event, tid: i32, by_interrupt: bool) {
        let (counts, full) = (self.counts(event), self.wanted.full);
        let by = if by_interrupt { INTERRUPT_NAME } else { self.name(event.tid) };
        let Some(task) = self.task(tid, None, None) else { return };
        match task.state {
            State::Runs => task.woken_early = true,
            State::Waits { .. } => {}
            State::Sleeps { .. } | State::Unknown => {
                task.state = State::Waits { since_ns: event.at_ns }
            }
        }
        if counts && full {
            task.counts.wakeups += 1;
            let name = task.name;
            self.pair((PairKind::Woke, by, name), 1, 0);
        }
    }

    fn pair(&mut self, pair: Pair, count: u64, ns: u64) {
        if count == 0 && ns == 0 {
            return;
        }
        if !self.pairs.contains_key(&pair) && self.pairs.len() >= MAX_PAIRS {
            self.missed.pairs += 1;
            return;
        }
        let sum = self.pairs.entry(pair).or_default();
        sum.0 += count;
        sum.1 += ns;
    }

    /// A new task has its parent's name and is watched if its parent is.
    fn fork(&mut self, (pid, tid): (i32, i32), parent: (i32, i32)) {
        // It may have been met in /proc before its own event; else the end of one that had the same
        // number was not seen.
        let is_met = |task: &&Task| task.pid == Some(pid) && !task.ended && task.counts.is_empty();
        let was_watched = self.tasks.get(&tid).filter(is_met).is_some_and(|task| task.watched);
        self.retire(tid);
        if self.is_full() {
            self.missed.tasks += 1;
            return;
        }
        let from = self.tasks.get(&parent.1);
        let comm = from.map(|from| from.comm);
        let is_watched = from.is_some_and(|from| from.watched);
        let cgroup = from.and_then(|from| from.cgroup.clone());
        let of_us = self.wanted.children_of == Some(parent.0) && pid != parent.0;
        let is_watched = is_watched || of_us || was_watched;
        // A thread that calls exec goes on under the number of its process, which may have ended.
        match pid == tid {
            true if is_watched => _ = self.wanted.asked.insert(pid),
            true => _ = self.wanted.asked.remove(&pid),
            false => {}
        }
        if let Some(task) = self.task(tid, Some(pid), comm) {
            task.watched |= is_watched;
            task.kernel_thread = parent.1 == KTHREADD;
            task.cgroup = cgroup;
        }
    }

    fn retire(&mut self, tid: i32) {
        let Some(mut task) = self.tasks.remove(&tid) else { return };
        task.ended = true;
        let Some(score) = task.score(tid, self.wanted.full, 0) else { return };
        if self.wanted.readings {
            self.unread.extend(task.reading(tid, self.wanted.full, 0));
        }
        if self.wanted.forgets {
            return;
        }
        if self.ended.len() < self.wanted.max_tasks {
            self.ended.push(score);
            return;
        }
        self.missed.together += 1;
        match self.together.entry((score.name.clone(), score.watched)) {
            Entry::Vacant(place) => _ = place.insert(score),
            Entry::Occupied(mut place) => join(place.get_mut(), &score),
        }
    }

    /// A sample: the task on a CPU on which nothing has been switched yet.
    fn runs(&mut self, event: &Event) {
        let Some(cpu) = self.cpus.get_mut(&event.cpu) else { return };
        if cpu.current.is_none() {
            cpu.current = Some(event.tid);
            cpu.since_ns = cpu.since_ns.or(Some(event.at_ns));
            if let Some(task) = self.task(event.tid, Some(event.pid), None) {
                task.state = State::Runs;
            }
        }
    }

    fn lose(&mut self, event: &Event, count: u64) {
        self.missed.lost += count;
        let Some(cpu) = self.cpus.get_mut(&event.cpu) else { return };
        (cpu.since_ns, cpu.whole) = (None, false);
        cpu.turns.clear();
        // The next state of the task that ran there, the next task, and wakeups are unknown.
        let current = cpu.current.take().and_then(|tid| self.tasks.get_mut(&tid));
        if let Some(task) = current {
            (task.state, task.woken_early) = (State::Unknown, false);
        }
    }

    /// Everything that was counted until `ended_ns`.
    pub fn finish(&mut self, ended_ns: u64) -> Counted {
        let wall_ns = ended_ns.saturating_sub(self.began_ns);
        let cpus = self.cpu_scores(ended_ns);
        for (cpu, tid, ran_ns) in self.running(ended_ns) {
            self.tasks.entry(tid).and_modify(|task| task.counts.ran(cpu, ran_ns));
        }
        self.charge_all_waiting(ended_ns);
        let full = self.wanted.full;
        let mut tasks = std::mem::take(&mut self.ended);
        tasks.extend(std::mem::take(&mut self.together).into_values());
        let living = std::mem::take(&mut self.tasks);
        tasks.extend(living.iter().filter_map(|(tid, task)| task.score(*tid, full, ended_ns)));
        tasks.sort_by_key(|task| (task.pid, task.tid));
        let leaders = living.iter().filter(|(tid, task)| task.pid == Some(**tid));
        let mut processes: HashMap<i32, String> =
            leaders.map(|(tid, task)| (*tid, task_name(&task.comm))).collect();
        let ended = tasks.iter().filter(|task| task.tid == task.pid);
        processes.extend(ended.map(|task| (task.pid, task.name.clone())).collect::<Vec<_>>());
        for task in &mut tasks {
            let leader = processes.get(&task.pid).filter(|_| task.tid != task.pid);
            task.process = leader.unwrap_or(&task.name).clone();
        }
        let pairs = full.then(|| self.named_pairs());
        let (worst, lost) = (self.worst(), self.describe_lost());
        Counted { wall_ns, tasks, cpus, pairs, worst, trace: None, lost }
    }

    /// Tasks that ended since the last reading, and the counts of living tasks until `at_ns`. Maxima cover the time
    /// since the last reading.
    pub fn so_far(&mut self, at_ns: u64) -> (Vec<TaskScore>, Counted) {
        self.charge_all_waiting(at_ns);
        let mut gone = std::mem::take(&mut self.unread);
        let mut tasks = Vec::new();
        let full = self.wanted.full;
        let running: HashMap<i32, (u32, u64)> =
            self.running(at_ns).into_iter().map(|(cpu, tid, ns)| (tid, (cpu, ns))).collect();
        for (tid, task) in &mut self.tasks {
            let Some(mut score) = task.reading(*tid, full, at_ns) else { continue };
            if let Some((cpu, ns)) = running.get(tid) {
                score.run_ns = score.run_ns.map(|run_ns| run_ns + ns);
                let mut cpus: BTreeMap<u32, u64> = score.cpus.into_iter().flatten().collect();
                *cpus.entry(*cpu).or_default() += ns;
                score.cpus = Some(cpus.into_iter().collect());
            }
            tasks.push(score);
        }
        for task in gone.iter_mut().chain(&mut tasks) {
            let leader = self.tasks.get(&task.pid).filter(|_| task.tid != task.pid);
            task.process = leader.map_or(task.name.clone(), |task| task_name(&task.comm));
        }
        let so_far = Counted {
            wall_ns: at_ns.saturating_sub(self.began_ns),
            tasks,
            cpus: self.cpu_scores(at_ns),
            pairs: full.then(|| self.named_pairs()),
            worst: self.worst(),
            trace: None,
            lost: self.describe_lost(),
        };
        (gone, so_far)
    }

    /// The task on each CPU at a moment, and how long it has had the CPU: no switch has counted that yet.
    fn running(&self, at_ns: u64) -> Vec<(u32, i32, u64)> {
        let ran_ns = |since_ns: u64| at_ns.saturating_sub(since_ns.max(self.began_ns));
        let of = |(number, cpu): (&u32, &Cpu)| Some((*number, cpu.current?, ran_ns(cpu.since_ns?)));
        self.cpus.iter().filter_map(of).collect()
    }

    fn cpu_scores(&self, at_ns: u64) -> Vec<CpuScore> {
        let wall_ns = at_ns.saturating_sub(self.began_ns);
        let running = self.running(at_ns);
        let idles: HashMap<u32, u64> = running
            .iter()
            .filter(|(_, tid, _)| *tid == 0)
            .map(|(cpu, _, ns)| (*cpu, *ns))
            .collect();
        let score = |(number, cpu): (&u32, &Cpu)| {
            let idle_ns = cpu.idle_ns + idles.get(number).unwrap_or(&0);
            let is_known = cpu.whole && cpu.current.is_some();
            CpuScore {
                cpu: *number,
                busy_ns: is_known.then(|| wall_ns.saturating_sub(idle_ns)),
                switches: Some(cpu.switches),
                idle_entries: Some(cpu.idle_entries),
                lengths: None,
            }
        };
        self.cpus.iter().map(score).collect()
    }

    fn named_pairs(&self) -> Vec<PairScore> {
        let pair = |(&(kind, by, name), &(count, ns)): (&Pair, &(u64, u64))| PairScore {
            kind,
            by: self.names.text(by),
            name: self.names.text(name),
            count,
            lost_ns: (kind == PairKind::Delayed).then_some(ns),
        };
        let mut pairs: Vec<PairScore> = self.pairs.iter().map(pair).collect();
        pairs.sort_by(|a, b| (a.kind, &a.by, &a.name).cmp(&(b.kind, &b.by, &b.name)));
        pairs
    }

    /// A sentence each.
    fn describe_lost(&self) -> Vec<String> {
        let Missed { lost, unreadable, unseen, tasks, together, untracked, pairs } = self.missed;
        let cases = [
            (lost, "events without room in the rings, so that counts are too low"),
            (unreadable, "records that could not be read"),
            (unseen, "switches that the tracepoint did not show, with their run times and waits"),
            (tasks, "tasks without room (raise --max-tasks)"),
            (
                together,
                "ended tasks that share a row with others of their name (raise --max-tasks)",
            ),
            (untracked, "switches to tasks without room"),
            (self.names.lost, "names without room, counted as (other)"),
            (pairs, "wakeups or preemptions without room among the pairs"),
        ];
        let lost = cases.into_iter().filter(|(count, _)| *count > 0);
        lost.map(|(count, what)| format!("{what}: {count}")).collect()
    }
}

/// A task that has a CPU, and the number of its name then; the idle task has the number 0.
type Holder = (i32, u32);

impl Cpu {
    /// The tasks that had it in a period, the latest first, as far back as is remembered.
    fn held(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (Holder, u64)> {
        let mut until_ns = to_ns;
        self.turns.iter().rev().map_while(move |(holder, since_ns)| {
            let ns = until_ns.checked_sub((*since_ns).max(from_ns))?;
            until_ns = *since_ns;
            Some((*holder, ns))
        })
    }
}

/// Adds the counts of `other` to those of `task`.
fn join(task: &mut TaskScore, other: &TaskScore) {
    let add = |to: &mut Option<u64>, from: Option<u64>| *to = to.zip(from).map(|(a, b)| a + b);
    add(&mut task.run_ns, other.run_ns);
    add(&mut task.voluntary, other.voluntary);
    add(&mut task.involuntary, other.involuntary);
    add(&mut task.wakeups, other.wakeups);
    for (to, from) in [(&mut task.wait, &other.wait), (&mut task.slice, &other.slice)] {
        if let (Some(to), Some(from)) = (to, from) {
            to.merge(from);
        }
    }
    if let (Some(to), Some(from)) = (&mut task.migrations, &other.migrations) {
        to.merge(from);
    }
    let mut cpus: BTreeMap<u32, u64> = task.cpus.take().into_iter().flatten().collect();
    for (cpu, ns) in other.cpus.iter().flatten() {
        *cpus.entry(*cpu).or_default() += ns;
    }
    task.cpus = Some(cpus.into_iter().collect());
}

/// Numbers for names.
#[derive(Default)]
struct Names {
    numbers: HashMap<Comm, u32>,
    texts: Vec<String>,
    lost: u64,
}

impl Names {
    fn number(&mut self, comm: &Comm) -> u32 {
        if let Some(number) = self.numbers.get(comm) {
            return *number;
        }
        if self.texts.len() >= MAX_NAMES {
            self.lost += 1;
            return OTHER_NAME;
        }
        self.texts.push(task_name(comm));
        let number = IDLE_NAME + self.texts.len() as u32;
        self.numbers.insert(*comm, number);
        number
    }

    fn text(&self, number: u32) -> String {
        match number {
            OTHER_NAME => OTHER.to_string(),
            INTERRUPT_NAME => INTERRUPT.to_string(),
            IDLE_NAME => IDLE.to_string(),
            number => self.texts[(number - IDLE_NAME - 1) as usize].clone(),
        }
    }
}

/// Groups of CPUs by shared parts.
struct Distances {
    llcs: Vec<usize>,
    nodes: Vec<usize>,
}

impl Distances {
    fn from_topology(topology: &Topology) -> Distances {
        let numbers = |groups: &[crate::model::CpuSet]| {
            let mut numbers = Vec::new();
            for (number, cpu) in
                groups.iter().enumerate().flat_map(|(at, cpus)| cpus.iter().map(move |c| (at, c)))
            {
                numbers.resize(numbers.len().max(cpu as usize + 1), 0);
                numbers[cpu as usize] = number;
            }
            numbers
        };
        Distances { llcs: numbers(&topology.llcs), nodes: numbers(&topology.numa_nodes) }
    }

    /// 0: within the last-level cache, 1: within the node, 2: farther.
    fn between(&self, from: u32, to: u32) -> usize {
        let differ = |of: &[usize]| match (of.get(from as usize), of.get(to as usize)) {
            (Some(from), Some(to)) => from != to,
            _ => false,
        };
        match () {
            () if differ(&self.nodes) => 2,
            () if differ(&self.llcs) => 1,
            () => 0,
        }
    }
}
