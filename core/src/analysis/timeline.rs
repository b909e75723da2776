//! A trace as who ran where and who waited: the stretches of each CPU, the waits of each task, and the time in which a
//! CPU idled next to a task that waited and could have had it, once others had moved where it may not run there. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::model::{CpuSet, Left, Trace, TraceEvent, TraceWhat};

/// A CPU is idle for less until a task that was woken for it runs.
const MIN_IDLE_NS: u64 = 1_000_000;

/// A task that is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimelineTask {
    pub tid: i32,
    /// The position and the name of its set.
    pub set: usize,
    pub name: String,
    pub cpus: CpuSet,
    /// It wants a CPU as long as it is there.
    pub never_sleeps: bool,
    /// Its CPU time in the run: one alone on its CPU may be in no event.
    pub cpu_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupant {
    Idle,
    /// Position in [`Timeline::tasks`].
    Task(usize),
    /// A task that is not looked at.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub from_ns: u64,
    pub to_ns: u64,
    pub occupant: Occupant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub from_ns: u64,
    pub to_ns: u64,
    pub task: usize,
}

/// Time in which a CPU idled while tasks waited that could have had it, by themselves or once others had moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleSpan {
    pub cpu: u32,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Positions of those that waited for most of the time: another one may be there for a moment only.
    pub waiting: Vec<usize>,
    /// None of them may run there: this task may, and runs on a CPU that it would leave for them, or for the next one that
    /// moves.
    pub first: Option<usize>,
}

/// Tasks that wait, and the one that would have to move for them.
type Waiting = (Vec<usize>, Option<usize>);

/// An [`IdleSpan`] that goes on.
#[derive(Debug, Clone)]
struct Idle {
    from_ns: u64,
    /// The tasks that wait now, and the moment since which they do.
    since_ns: u64,
    now: Option<Waiting>,
    times: BTreeMap<Waiting, u64>,
}

impl Idle {
    fn enter(&mut self, at_ns: u64, next: Option<Waiting>) {
        if self.now == next {
            return;
        }
        if let Some(before) = std::mem::replace(&mut self.now, next) {
            *self.times.entry(before).or_default() += at_ns - self.since_ns;
        }
        self.since_ns = at_ns;
    }

    fn end(mut self, cpu: u32, to_ns: u64) -> Option<IdleSpan> {
        self.enter(to_ns, None);
        let longest = self.times.into_iter().max_by_key(|(_, time_ns)| *time_ns);
        let ((waiting, first), _) = longest?;
        Some(IdleSpan { cpu, from_ns: self.from_ns, to_ns, waiting, first })
    }
}

/// A task moved to a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    pub at_ns: u64,
    pub task: usize,
    pub to_cpu: u32,
}

/// Times count from its begin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// When it begins in its run, where that is known.
    pub begin_ns: u64,
    pub length_ns: u64,
    pub tasks: Vec<TimelineTask>,
    /// By CPU, without gaps.
    pub cpus: Vec<Vec<Stretch>>,
    pub waits: Vec<Wait>,
    pub idle: Vec<IdleSpan>,
    pub moves: Vec<Move>,
}

impl Timeline {
    /// The last `length_ns` of a trace, all of it if it is shorter.
    pub fn new(trace: &Trace, length_ns: u64, cpus: u32, tasks: Vec<TimelineTask>) -> Timeline {
        let mut sweep = Sweep::begin(trace, cpus, &tasks);
        for event in &trace.events {
            sweep.pass(event);
        }
        let whole_ns = trace.to_ns - trace.from_ns;
        let mut timeline = sweep.finish(whole_ns);
        timeline.tasks = tasks;
        timeline.cut(whole_ns.saturating_sub(length_ns));
        timeline
    }

    /// Leaves out the first `cut_ns`.
    fn cut(&mut self, cut_ns: u64) {
        let cut = |from_ns: &mut u64, to_ns: &mut u64| {
            (*from_ns, *to_ns) = (from_ns.saturating_sub(cut_ns), to_ns.saturating_sub(cut_ns));
            from_ns < to_ns
        };
        self.length_ns -= cut_ns;
        for cpu in &mut self.cpus {
            cpu.retain_mut(|own| cut(&mut own.from_ns, &mut own.to_ns));
        }
        self.waits.retain_mut(|own| cut(&mut own.from_ns, &mut own.to_ns));
        self.idle.retain_mut(|own| cut(&mut own.from_ns, &mut own.to_ns));
        self.moves.retain(|own| own.at_ns >= cut_ns);
        self.moves.iter_mut().for_each(|own| own.at_ns -= cut_ns);
    }

    pub fn longest_wait(&self) -> Option<Wait> {
        self.waits.iter().copied().max_by_key(|wait| wait.to_ns - wait.from_ns)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Sleeping,
    Waiting { since_ns: u64 },
    Running,
}

struct Sweep<'a> {
    trace: &'a Trace,
    tasks: &'a [TimelineTask],
    by_tid: HashMap<i32, usize>,
    states: Vec<State>,
    /// By CPU: who has it, and since when.
    current: Vec<(Occupant, u64)>,
    /// By CPU: the open span of idling next to a waiting task.
    idle: Vec<Option<Idle>>,
    timeline: Timeline,
}

impl<'a> Sweep<'a> {
    fn begin(trace: &'a Trace, cpus: u32, tasks: &'a [TimelineTask]) -> Sweep<'a> {
        let by_tid: HashMap<i32, usize> =
            tasks.iter().enumerate().map(|(at, task)| (task.tid, at)).collect();
        let mut sweep = Sweep {
            trace,
            tasks,
            by_tid,
            states: Vec::new(),
            current: Vec::new(),
            idle: vec![None; cpus as usize],
            timeline: Timeline { cpus: vec![Vec::new(); cpus as usize], ..Timeline::default() },
        };
        sweep.states = (0..tasks.len()).map(|task| sweep.first_state(task)).collect();
        let known: Vec<Option<Occupant>> = (0..cpus).map(|cpu| sweep.first_occupant(cpu)).collect();
        sweep.current = known.iter().map(|known| (known.unwrap_or(Occupant::Idle), 0)).collect();
        sweep.place_silent(&known);
        sweep.look_for_idle(0);
        sweep
    }

    fn occupant(&self, tid: i32) -> Occupant {
        match (tid, self.by_tid.get(&tid)) {
            (0, _) => Occupant::Idle,
            (_, Some(task)) => Occupant::Task(*task),
            (_, None) => Occupant::Other,
        }
    }

    /// By its first event. One without any waited all the time, if it never sleeps.
    fn first_state(&self, task: usize) -> State {
        let waiting = State::Waiting { since_ns: 0 };
        let tid = self.tasks[task].tid;
        let first = self.trace.events.iter().find_map(|event| match event.what {
            TraceWhat::Switch { from, .. } if from.tid == tid => Some(State::Running),
            TraceWhat::Switch { to, .. } if to.tid == tid => Some(waiting),
            TraceWhat::Waking { task, .. } if task.tid == tid => Some(State::Sleeping),
            TraceWhat::Migrate { task, .. } if task.tid == tid => Some(waiting),
            _ => None,
        });
        let silent = if self.tasks[task].never_sleeps { waiting } else { State::Sleeping };
        first.unwrap_or(silent)
    }

    fn first_occupant(&self, cpu: u32) -> Option<Occupant> {
        let own = self.trace.events.iter().filter(|event| event.cpu == cpu);
        let first = own.into_iter().find_map(|event| match event.what {
            TraceWhat::Switch { from, .. } => Some(from.tid),
            _ => None,
        });
        let running = self.trace.running.iter().find(|running| running.cpu == cpu);
        first.or(running.map(|running| running.task.tid)).map(|tid| self.occupant(tid))
    }

    /// A task that had CPU time and is in no event had a CPU that is in none, either.
    fn place_silent(&mut self, known: &[Option<Occupant>]) {
        let length_ns = self.trace.to_ns - self.trace.from_ns;
        let mut free: Vec<u32> =
            (0..known.len() as u32).filter(|cpu| known[*cpu as usize].is_none()).collect();
        for (at, task) in self.tasks.iter().enumerate() {
            let is_silent = self.states[at] == State::Waiting { since_ns: 0 }
                && task.cpu_ns > length_ns / 2
                && !self.current.iter().any(|(own, _)| *own == Occupant::Task(at));
            let place = free.iter().position(|cpu| task.cpus.contains(*cpu));
            if let Some(place) = place.filter(|_| is_silent && !self.is_in_events(task.tid)) {
                self.current[free.remove(place) as usize].0 = Occupant::Task(at);
            }
        }
        for (occupant, _) in &self.current {
            if let Occupant::Task(task) = occupant {
                self.states[*task] = State::Running;
            }
        }
    }

    fn is_in_events(&self, tid: i32) -> bool {
        self.trace.events.iter().any(|event| match event.what {
            TraceWhat::Switch { from, to, .. } => from.tid == tid || to.tid == tid,
            TraceWhat::Waking { task, .. } | TraceWhat::Migrate { task, .. } => task.tid == tid,
        })
    }

    fn pass(&mut self, event: &TraceEvent) {
        let at_ns = event.at_ns - self.trace.from_ns;
        match event.what {
            TraceWhat::Switch { from, left, to, .. } => {
                if let Some(task) = self.by_tid.get(&from.tid) {
                    let goes_on = matches!(left, Left::Preempted | Left::Runnable);
                    let waits = State::Waiting { since_ns: at_ns };
                    self.states[*task] = if goes_on { waits } else { State::Sleeping };
                }
                if let Some(task) = self.by_tid.get(&to.tid).copied() {
                    self.end_wait(task, at_ns);
                    self.states[task] = State::Running;
                }
                self.switch(event.cpu, self.occupant(to.tid), at_ns);
            }
            TraceWhat::Waking { task, .. } => {
                let state = self.by_tid.get(&task.tid).map(|task| &mut self.states[*task]);
                if let Some(state) = state.filter(|state| **state == State::Sleeping) {
                    *state = State::Waiting { since_ns: at_ns };
                }
            }
            TraceWhat::Migrate { task, to_cpu, .. } => {
                let task = self.by_tid.get(&task.tid);
                let moves = task.map(|task| Move { at_ns, task: *task, to_cpu });
                self.timeline.moves.extend(moves);
            }
        }
        self.look_for_idle(at_ns);
    }

    fn switch(&mut self, cpu: u32, to: Occupant, at_ns: u64) {
        let Some(current) = self.current.get_mut(cpu as usize) else { return };
        let (occupant, from_ns) = std::mem::replace(current, (to, at_ns));
        if at_ns > from_ns {
            let stretch = Stretch { from_ns, to_ns: at_ns, occupant };
            self.timeline.cpus[cpu as usize].push(stretch);
        }
    }

    fn end_wait(&mut self, task: usize, at_ns: u64) {
        if let State::Waiting { since_ns } = self.states[task]
            && at_ns > since_ns
        {
            self.timeline.waits.push(Wait { from_ns: since_ns, to_ns: at_ns, task });
        }
    }

    /// Opens and closes the spans of idling, after what happened at this moment.
    fn look_for_idle(&mut self, at_ns: u64) {
        let waits = self.states.iter().any(|state| matches!(state, State::Waiting { .. }));
        for cpu in 0..self.current.len() {
            let is_idle = waits && self.current[cpu].0 == Occupant::Idle;
            let (waiting, first) = if is_idle { self.could_have(cpu) } else { (Vec::new(), None) };
            if waiting.is_empty() {
                self.close_idle(cpu, at_ns);
            } else {
                let begin =
                    || Idle { from_ns: at_ns, since_ns: at_ns, now: None, times: BTreeMap::new() };
                self.idle[cpu].get_or_insert_with(begin).enter(at_ns, Some((waiting, first)));
            }
        }
    }

    /// The waiting tasks that could have an idle CPU with the fewest moves of others, and the task that moves there first.
    fn could_have(&self, idle: usize) -> (Vec<usize>, Option<usize>) {
        let mut is_seen = vec![false; self.current.len()];
        is_seen[idle] = true;
        // CPUs that could be left, each with the task that has moved to the idle one.
        let mut queue = VecDeque::from([(idle, None)]);
        while let Some((cpu, first)) = queue.pop_front() {
            let may_run = |task: &usize| self.tasks[*task].cpus.contains(cpu as u32);
            let waits = |task: &usize| matches!(self.states[*task], State::Waiting { .. });
            let own = (0..self.tasks.len()).filter(may_run);
            let waiting: Vec<usize> = own.filter(waits).collect();
            if !waiting.is_empty() {
                return (waiting, first);
            }
            for (other, (occupant, _)) in self.current.iter().enumerate() {
                if let Occupant::Task(task) = occupant
                    && !is_seen[other]
                    && may_run(task)
                {
                    is_seen[other] = true;
                    queue.push_back((other, first.or(Some(*task))));
                }
            }
        }
        (Vec::new(), None)
    }

    fn close_idle(&mut self, cpu: usize, to_ns: u64) {
        let span = self.idle[cpu].take().and_then(|idle| idle.end(cpu as u32, to_ns));
        self.timeline.idle.extend(span.filter(|span| to_ns - span.from_ns >= MIN_IDLE_NS));
    }

    fn finish(mut self, length_ns: u64) -> Timeline {
        for cpu in 0..self.current.len() {
            self.switch(cpu as u32, Occupant::Idle, length_ns);
            self.close_idle(cpu, length_ns);
        }
        for task in 0..self.tasks.len() {
            self.end_wait(task, length_ns);
        }
        Timeline { length_ns, ..self.timeline }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{TraceTask, Waker};

    const MS: u64 = 1_000_000;

    fn task(tid: i32, cpus: &str, cpu_ms: u64) -> TimelineTask {
        let cpus = cpus.parse().unwrap();
        let name = format!("set{tid}");
        TimelineTask { tid, name, cpus, never_sleeps: true, cpu_ns: cpu_ms * MS, set: 0 }
    }

    fn traced(tid: i32) -> TraceTask {
        TraceTask { tid, name: None }
    }

    fn switch(at_ms: u64, cpu: u32, from: i32, left: Left, to: i32) -> TraceEvent {
        let what = TraceWhat::Switch { from: traced(from), left, to: traced(to), prio: 120 };
        TraceEvent { at_ns: 1000 + at_ms * MS, cpu, what }
    }

    fn waking(at_ms: u64, tid: i32) -> TraceEvent {
        let (by, task) = (Waker::Interrupt, traced(tid));
        let what = TraceWhat::Waking { by, task, prio: 120, last_cpu: 1, is_sync: false };
        TraceEvent { at_ns: 1000 + at_ms * MS, cpu: 0, what }
    }

    fn migrate(at_ms: u64, tid: i32) -> TraceEvent {
        let what = TraceWhat::Migrate { task: traced(tid), prio: 120, from_cpu: 0, to_cpu: 1 };
        TraceEvent { at_ns: 1000 + at_ms * MS, cpu: 1, what }
    }

    fn trace(events: Vec<TraceEvent>) -> Trace {
        Trace { from_ns: 1000, to_ns: 1000 + 100 * MS, events, ..Trace::default() }
    }

    #[test]
    fn a_cpu_idles_next_to_tasks_that_wait_and_may_run_there() {
        let events = vec![
            // 1 runs on CPU 0, 2 waits for it; 3 leaves CPU 1 idle.
            switch(10, 1, 3, Left::Sleeping, 0),
            switch(20, 0, 1, Left::Preempted, 2),
            waking(60, 3),
            switch(60, 1, 0, Left::Runnable, 3),
            switch(90, 1, 3, Left::Sleeping, 0),
            migrate(95, 2),
        ];
        let tasks = vec![task(1, "0-1", 0), task(2, "0", 0), task(3, "1", 0)];
        let timeline = Timeline::new(&trace(events.clone()), 100 * MS, 2, tasks.clone());
        let idle = |from, to, waiting, first| {
            let (cpu, from_ns, to_ns) = (1, from * MS, to * MS);
            IdleSpan { cpu, from_ns, to_ns, waiting: vec![waiting], first }
        };
        // Until 20 ms only task 2 waits, for which task 1 could leave CPU 0; then task 1 waits for longer.
        assert_eq!(timeline.idle, [idle(10, 60, 0, None), idle(90, 100, 0, None)]);
        let wait = |task, from, to| Wait { task, from_ns: from * MS, to_ns: to * MS };
        assert_eq!(timeline.waits, [wait(1, 0, 20), wait(0, 20, 100)]);
        assert_eq!(timeline.longest_wait(), Some(wait(0, 20, 100)));
        assert_eq!(timeline.moves, [Move { at_ns: 95 * MS, task: 1, to_cpu: 1 }]);
        let first: Vec<(Occupant, u64)> =
            timeline.cpus[1].iter().map(|own| (own.occupant, own.to_ns / MS)).collect();
        let (three, none) = (Occupant::Task(2), Occupant::Idle);
        assert_eq!(first, [(three, 10), (none, 60), (three, 90), (none, 100)]);
        let last = Timeline::new(&trace(events), 50 * MS, 2, tasks);
        assert_eq!(last.idle, [idle(0, 10, 0, None), idle(40, 50, 0, None)]);
        let own = last.cpus[1].iter().map(|own| (own.occupant, own.from_ns / MS, own.to_ns / MS));
        assert_eq!(own.collect::<Vec<_>>(), [(none, 0, 10), (three, 10, 40), (none, 40, 50)]);
        assert_eq!(last.waits, [wait(0, 0, 50)]);
        assert_eq!((last.moves[0].at_ns, last.length_ns), (45 * MS, 50 * MS));
    }

    #[test]
    fn the_first_event_of_a_task_says_how_it_began() {
        let events = vec![waking(10, 1), migrate(20, 2), switch(30, 0, 5, Left::Preempted, 3)];
        // 4 and 6 are in no event: 4 had a CPU all the time, as 2 cannot have had; 3 and 6 may sleep.
        let mut tasks: Vec<_> = (1..=6).map(|tid| task(tid, "0", 0)).collect();
        (tasks[1], tasks[3]) = (task(2, "0-1", 100), task(4, "0-1", 100));
        for at in [2, 5] {
            tasks[at].never_sleeps = false;
        }
        let timeline = Timeline::new(&trace(events), 100 * MS, 2, tasks);
        let wait = |task, from, to| Wait { task, from_ns: from * MS, to_ns: to * MS };
        let later = [wait(0, 10, 100), wait(1, 0, 100), wait(4, 30, 100)];
        assert_eq!(timeline.waits, [&[wait(2, 0, 30)], &later[..]].concat());
        let first = |cpu: usize| timeline.cpus[cpu][0].occupant;
        assert_eq!([first(0), first(1)], [Occupant::Task(4), Occupant::Task(3)]);
    }

    #[test]
    fn a_cpu_idles_next_to_a_task_for_which_two_others_would_have_to_move() {
        let tasks = |third: &str| {
            let cpus = ["0", "0-1", "1-2", third];
            (1..).zip(cpus).map(|(tid, cpus)| task(tid, cpus, 0)).collect::<Vec<_>>()
        };
        // 2 has CPU 0 and 1 waits for it, 3 has CPU 1; 4 leaves CPU 2 idle.
        let events = vec![
            switch(0, 0, 1, Left::Preempted, 2),
            switch(0, 1, 0, Left::Runnable, 3),
            switch(10, 2, 4, Left::Sleeping, 0),
            switch(90, 0, 2, Left::Sleeping, 1),
        ];
        let idle = |tasks| Timeline::new(&trace(events.clone()), 100 * MS, 3, tasks).idle;
        let (from_ns, to_ns) = (10 * MS, 90 * MS);
        let span = IdleSpan { cpu: 2, from_ns, to_ns, waiting: vec![0], first: Some(2) };
        assert_eq!(idle(tasks("2")), [span]);
        let mut held = tasks("2");
        held[2].cpus = "1".parse().unwrap();
        assert_eq!(idle(held), [], "nobody may move to CPU 2");
    }

    #[test]
    fn an_idle_cpu_names_who_waited_for_most_of_the_time() {
        let tasks = vec![task(1, "0", 0), task(2, "0-1", 0), task(3, "1", 0)];
        let events = vec![
            switch(0, 0, 2, Left::Preempted, 1),
            // 2 waits for 10 ms and could have CPU 1; then it runs, and 1 waits for its CPU.
            switch(10, 1, 3, Left::Sleeping, 0),
            switch(20, 0, 1, Left::Preempted, 2),
        ];
        let timeline = Timeline::new(&trace(events), 100 * MS, 2, tasks);
        let (from_ns, to_ns) = (10 * MS, 100 * MS);
        let span = IdleSpan { cpu: 1, from_ns, to_ns, waiting: vec![0], first: Some(1) };
        assert_eq!(timeline.idle, [span]);
    }

    #[test]
    fn who_is_in_no_event_ran_if_it_had_cpu_time_and_waited_otherwise() {
        let tasks = vec![task(1, "0", 0), task(2, "0-1", 100)];
        let timeline = Timeline::new(&trace(Vec::new()), 100 * MS, 2, tasks);
        let all: Vec<Occupant> = timeline.cpus.iter().map(|cpu| cpu[0].occupant).collect();
        assert_eq!(all, [Occupant::Task(1), Occupant::Idle]);
        assert_eq!(timeline.waits, [Wait { from_ns: 0, to_ns: 100 * MS, task: 0 }]);
        // Task 2 could leave CPU 0.
        let (from_ns, to_ns) = (0, 100 * MS);
        let span = IdleSpan { cpu: 1, from_ns, to_ns, waiting: vec![0], first: Some(1) };
        assert_eq!(timeline.idle, [span]);
    }
}
