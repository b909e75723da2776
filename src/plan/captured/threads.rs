//! Threads as pieces, from the events of a trace: each is a wait and the work after it. Pure.
//!
//! A thread works until it sleeps, and sleeps until it is woken. Work is its time on CPUs: the time in which it waited
//! for one is left out, since the scheduler that is tried makes its own. A long stretch of work is cut into pieces, each to
//! the next wakeup of another thread, where it has many of them, or where its begin or end was not seen: else a thread that
//! never sleeps would wake nobody, and one that works to the end of the trace would do nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Left, Message, Trace, TraceWhat, Waker};

/// A waker may be seen this long before the task that it wakes is seen to leave its CPU.
const EARLY_NS: u64 = 100_000;
/// A stretch of work with more wakeups of others is better read in pieces.
const MANY_POSTS: u64 = 20;
/// A thread that does not sleep works in pieces of this, up to twice as long.
pub const PIECE_NS: u64 = 10_000_000;
/// In a long trace these pieces are longer: a thread has no more.
const MAX_CUTS: u64 = 1_000;
/// A trace of many CPUs has no more pieces that are cut so.
const MAX_CUT_PIECES: usize = 1_000_000;

/// Intervals of timers differ by no more, from the tenth to the ninetieth of a hundred.
const TIMER_SPREAD: f64 = 0.05;
const MIN_INTERVALS: usize = 20;
/// Timers of all threads of a role wake them so often, where each has one.
const TIMER_PART: f64 = 0.9;

/// A wait and the work after it, of one thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Piece {
    pub tid: i32,
    pub role: usize,
    /// `None`: before the trace, or it has just been born.
    pub slept_at_ns: Option<u64>,
    pub woken_at_ns: u64,
    /// The piece during which another of these threads woke it; `None`: a timer, an interrupt or somebody else.
    pub by: Option<usize>,
    pub work_ns: u64,
    /// The pieces that it woke, and how much of its work was done by then.
    pub posts: Vec<(u64, usize)>,
    /// Whether its thread was woken by a write or a send.
    pub is_sync: bool,
    /// Whether its end was seen.
    pub is_whole: bool,
    /// Whether the thread did not wait before it.
    pub goes_on: bool,
    /// Whether the thread was not seen before, and none of these woke it.
    pub is_first: bool,
}

impl Piece {
    pub fn sleep_ns(&self) -> Option<u64> {
        self.slept_at_ns.map(|slept_at_ns| self.woken_at_ns.saturating_sub(slept_at_ns))
    }
}

/// One thread over the whole trace.
#[derive(Debug, Default)]
pub struct Thread {
    pub role: usize,
    pub work_ns: u64,
    pub switches: u64,
    pub wakeups: u64,
    /// How many messages it had for which it did not sleep.
    pub received: u64,
    /// How often it woke others.
    pub posts: u64,
    pub first_ns: Option<u64>,
    /// Its end, if that was seen.
    pub dead_ns: Option<u64>,
    /// Whether the end of a piece was.
    pub has_whole: bool,
    /// The kernel's priority under which it worked most; 120 is nice 0.
    pub prio: u16,
    /// How much more it worked under that than under others, and the priority it runs with.
    prio_ns: u64,
    runs_prio: u16,
    pub has_slept: bool,
    stretch: Option<Stretch>,
    is_awake: bool,
    asleep_since_ns: Option<u64>,
    runs_since_ns: Option<u64>,
    /// Where it ran last.
    cpu: u32,
    piece: Option<usize>,
    /// A wakeup that came while it ran.
    early: Option<Wakeup>,
}

impl Thread {
    /// The majority vote of Boyer and Moore (1981), each nanosecond a voice: who holds a lock has another priority for a while.
    fn weigh_priority(&mut self, ran_ns: u64) {
        if self.prio == self.runs_prio {
            self.prio_ns += ran_ns;
        } else if ran_ns > self.prio_ns {
            (self.prio, self.prio_ns) = (self.runs_prio, ran_ns - self.prio_ns);
        } else {
            self.prio_ns -= ran_ns;
        }
    }
}

/// The work of a thread since its last sleep.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from_ns: u64,
    /// The work of the thread before it.
    before_ns: u64,
    /// Whether the wakeup was seen, and also the sleep before it, or who woke the thread.
    is_woken: bool,
    is_awaited: bool,
    /// How often the thread woke others.
    posts: u64,
    is_cut: bool,
}

/// A stretch by its thread and its begin.
pub type Place = (i32, u64);

#[derive(Debug, Clone, Copy)]
struct Wakeup {
    at_ns: u64,
    /// The piece of the waker, and the work that was done by then.
    by: Option<(usize, u64)>,
    is_sync: bool,
}

/// The sends and the receives of messages that woke nobody, each in the order of its times.
struct Messages<'a> {
    received: std::slice::Iter<'a, Message>,
    sent: std::vec::IntoIter<Message>,
    /// The pieces of the senders of what is on its way, and the work that was done by then; by receiver.
    on_way: BTreeMap<(i32, u64, i32), (usize, u64)>,
}

impl Messages<'_> {
    fn new(trace: &Trace) -> Messages<'_> {
        let mut sent = trace.messages.clone();
        sent.sort_by_key(|message| message.sent_ns);
        let received = trace.messages.iter();
        Messages { received, sent: sent.into_iter(), on_way: BTreeMap::new() }
    }

    /// Hands over all that was sent and received before this time.
    fn until(&mut self, at_ns: u64, threads: &mut Threads) {
        loop {
            let next = |time: Option<u64>| time.filter(|time_ns| *time_ns < at_ns);
            let sent_ns = next(self.sent.as_slice().first().map(|message| message.sent_ns));
            let received = self.received.as_slice().first();
            let received_ns = next(received.map(|message| message.received_ns));
            // Whatever is received was sent before.
            if sent_ns.is_some_and(|sent_ns| received_ns.is_none_or(|ns| sent_ns <= ns)) {
                let Some(Message { sent_ns, by, to, .. }) = self.sent.next() else { return };
                let place = threads.place(by, sent_ns);
                place.map(|place| self.on_way.insert((by, sent_ns, to), place));
            } else if let (Some(received_ns), Some(message)) = (received_ns, received) {
                self.received.next();
                let &Message { sent_ns, by, to, .. } = message;
                if let Some(place) = self.on_way.remove(&(by, sent_ns, to)) {
                    threads.receive(to, place, received_ns);
                }
            } else {
                return;
            }
        }
    }
}

/// All threads of some roles.
#[derive(Debug, Default)]
pub struct Threads {
    pub by_tid: BTreeMap<i32, Thread>,
    /// A piece stands behind the one that woke its thread.
    pub pieces: Vec<Piece>,
    /// By role the work from each wakeup to the next sleep, whether it was cut or not.
    pub bursts: Vec<(usize, u64)>,
    /// Stretches that are to be cut if they are long, with their work.
    to_cut: Vec<(Place, u64, u64)>,
    cut: BTreeSet<Place>,
    /// The thread that each CPU went to last.
    on_cpu: BTreeMap<u32, i32>,
    /// How long pieces of a thread are that does not sleep.
    piece_ns: u64,
    /// Pieces that begin with a message that woke nobody, each with the one before it.
    received: Vec<(usize, usize)>,
}

impl Threads {
    /// `roles`: by the number of the thread. `cut`: the stretches of work that are cut into pieces.
    pub fn watch(trace: &Trace, roles: &BTreeMap<i32, usize>, cut: BTreeSet<Place>) -> Threads {
        let thread = |(tid, role): (&i32, &usize)| {
            (*tid, Thread { role: *role, prio: 120, ..Thread::default() })
        };
        let wall_ns = trace.to_ns.saturating_sub(trace.from_ns);
        let piece_ns = PIECE_NS.max(wall_ns / MAX_CUTS);
        let by_tid = roles.iter().map(thread).collect();
        let mut threads = Threads { by_tid, cut, piece_ns, ..Threads::default() };
        for running in &trace.running {
            threads.come(running.cpu, running.task.tid, running.prio, trace.from_ns);
        }
        let mut messages = Messages::new(trace);
        for event in &trace.events {
            messages.until(event.at_ns, &mut threads);
            match event.what {
                TraceWhat::Switch { from, left, to, prio } => {
                    threads.leave(event.cpu, from.tid, left, event.at_ns);
                    threads.come(event.cpu, to.tid, prio, event.at_ns);
                }
                TraceWhat::Waking { by, task, is_sync, .. } => {
                    threads.wake(by, task.tid, is_sync, event.at_ns);
                }
                TraceWhat::Migrate { .. } => {}
            }
        }
        for tid in roles.keys() {
            threads.work_until(*tid, trace.to_ns);
            let piece = threads.by_tid.get(tid).and_then(|thread| thread.piece);
            let last = piece.and_then(|piece| threads.pieces.get_mut(piece));
            if let Some(piece) = last.filter(|piece| piece.goes_on) {
                piece.is_whole = piece.work_ns > 0;
            }
            threads.end_stretch(*tid, false);
        }
        threads.share_posts();
        threads
    }

    /// Divides what a thread did in a stretch of several messages among their pieces. A thread that reads all that is
    /// there before it answers would else wait for as many messages in the replay, where those who send them wait for its
    /// answers. No post comes later than it came.
    fn share_posts(&mut self) {
        let mut runs: Vec<Vec<usize>> = Vec::new();
        let mut run_of: BTreeMap<usize, usize> = BTreeMap::new();
        for (number, before) in &self.received {
            let run = *run_of.entry(*before).or_insert_with(|| {
                runs.push(vec![*before]);
                runs.len() - 1
            });
            runs[run].push(*number);
            run_of.insert(*number, run);
        }
        // A message is a post when it is received.
        self.pieces.iter_mut().for_each(|piece| piece.posts.sort_by_key(|(done_ns, _)| *done_ns));
        for run in runs {
            let work_ns: u64 = run.iter().map(|number| self.pieces[*number].work_ns).sum();
            let count = run.len();
            let posts: Vec<(usize, usize)> = run
                .iter()
                .enumerate()
                .flat_map(|(at, number)| {
                    let posts = std::mem::take(&mut self.pieces[*number].posts);
                    posts.into_iter().map(move |(_, woken)| (at, woken))
                })
                .collect();
            for number in &run {
                self.pieces[*number].work_ns = work_ns / count as u64;
            }
            let all = posts.len();
            for (number, (at, woken)) in posts.into_iter().enumerate() {
                let piece = run[at.min(number * count / all)];
                let done_ns = self.pieces[piece].work_ns;
                self.pieces[piece].posts.push((done_ns, woken));
                self.pieces[woken].by = Some(piece);
            }
        }
    }

    /// The thread has a message for which it did not sleep, which another one sent during that piece: the work that
    /// follows is a piece of its own.
    fn receive(&mut self, tid: i32, (by, done_ns): (usize, u64), at_ns: u64) {
        self.work_until(tid, at_ns);
        let Some(piece) = self.by_tid.get(&tid).and_then(|thread| thread.piece) else { return };
        self.pieces[piece].is_whole = true;
        if let Some(thread) = self.by_tid.get_mut(&tid) {
            thread.received += 1;
        }
        let number = self.pieces.len();
        self.pieces[by].posts.push((done_ns, number));
        self.received.push((number, piece));
        self.go_on(tid, at_ns);
        if let Some(next) = self.pieces.last_mut() {
            (next.by, next.is_sync) = (Some(by), true);
        }
    }

    /// The stretches that are to be cut, and have so much work or so many posts.
    pub fn to_cut(&self, min_ns: u64, min_posts: u64) -> BTreeSet<Place> {
        let is_long =
            |(_, work_ns, posts): &&(Place, u64, u64)| *work_ns >= min_ns || *posts >= min_posts;
        self.to_cut.iter().filter(is_long).map(|(place, ..)| *place).collect()
    }

    /// The thread works from now on.
    fn stretch(&mut self, tid: i32, from_ns: u64, is_woken: bool, is_awaited: bool) -> bool {
        let Some(thread) = self.by_tid.get_mut(&tid) else { return false };
        let is_cut = self.cut.contains(&(tid, from_ns));
        let before_ns = thread.work_ns;
        thread.stretch =
            Some(Stretch { from_ns, before_ns, is_woken, is_awaited, posts: 0, is_cut });
        is_cut
    }

    /// The thread sleeps, or the trace ends.
    fn end_stretch(&mut self, tid: i32, is_seen: bool) {
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        let Some(stretch) = thread.stretch.take() else { return };
        let work_ns = thread.work_ns - stretch.before_ns;
        if stretch.is_woken && is_seen {
            thread.has_whole = true;
            self.bursts.push((thread.role, work_ns));
        }
        // One that neither slept nor wakes anybody is read as busy.
        let is_cut = if stretch.is_awaited && is_seen {
            stretch.posts > MANY_POSTS
        } else {
            stretch.posts > 0 || thread.has_slept
        };
        if is_cut {
            self.to_cut.push(((tid, stretch.from_ns), work_ns, stretch.posts));
        }
    }

    /// The thread gets a CPU.
    fn come(&mut self, cpu: u32, tid: i32, prio: u16, at_ns: u64) {
        self.on_cpu.insert(cpu, tid);
        self.lose(tid);
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        (thread.runs_prio, thread.cpu) = (prio, cpu);
        thread.first_ns.get_or_insert(at_ns);
        thread.runs_since_ns = Some(at_ns);
        if thread.asleep_since_ns.is_some() {
            let wakeup = thread.early.take().unwrap_or(Wakeup { at_ns, by: None, is_sync: false });
            self.begin(tid, wakeup);
        }
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        thread.is_awake = true;
        if thread.stretch.is_none() && self.stretch(tid, at_ns, false, false) {
            self.go_on(tid, at_ns);
        }
    }

    fn leave(&mut self, cpu: u32, tid: i32, left: Left, at_ns: u64) {
        let before = self.on_cpu.get(&cpu).copied().filter(|before| *before != tid);
        if let Some(before) = before
            && self.by_tid.get(&before).is_some_and(|thread| thread.cpu == cpu)
        {
            self.lose(before);
        }
        if self.by_tid.get(&tid).is_some_and(|thread| thread.cpu != cpu) {
            self.lose(tid);
        }
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        thread.first_ns.get_or_insert(at_ns);
        thread.switches += 1;
        self.work_until(tid, at_ns);
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        thread.runs_since_ns = None;
        if matches!(left, Left::Preempted | Left::Runnable) {
            thread.early = None;
            return;
        }
        if let Some(piece) = thread.piece.take().and_then(|piece| self.pieces.get_mut(piece)) {
            piece.is_whole = piece.work_ns > 0 || !piece.goes_on;
        }
        thread.early = thread.early.filter(|early| at_ns - early.at_ns.min(at_ns) < EARLY_NS);
        thread.is_awake = false;
        match left {
            Left::Dead => thread.dead_ns = Some(at_ns),
            _ => {
                thread.has_slept = true;
                thread.asleep_since_ns = Some(at_ns);
            }
        }
        self.end_stretch(tid, true);
    }

    /// The thread no longer runs where it was last seen to, but when it left, and how, is not in the trace: that work
    /// is not known, and it may have slept since.
    fn lose(&mut self, tid: i32) {
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        if thread.runs_since_ns.take().is_none() {
            return;
        }
        (thread.piece, thread.early, thread.is_awake) = (None, None, false);
        self.end_stretch(tid, false);
    }

    fn wake(&mut self, by: Waker, tid: i32, is_sync: bool, at_ns: u64) {
        let waker = match by {
            Waker::Task(waker) if waker != tid => Some(waker),
            _ => None,
        };
        let by_interrupt = by == Waker::Interrupt;
        let by = waker.and_then(|waker| self.place(waker, at_ns));
        let wakeup = Wakeup { at_ns, by, is_sync };
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        match thread.runs_since_ns {
            Some(_) => thread.early = Some(wakeup),
            None if thread.is_awake => return,
            None => {
                // Births are by tasks.
                thread.has_slept |= by_interrupt;
                self.begin(tid, wakeup);
            }
        }
        waker.into_iter().for_each(|waker| self.cut(waker, at_ns));
    }

    /// Ends the piece of a thread that woke another one, if it is cut.
    fn cut(&mut self, tid: i32, at_ns: u64) {
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        thread.posts += 1;
        let Some(stretch) = &mut thread.stretch else { return };
        stretch.posts += 1;
        let Some(piece) = thread.piece.filter(|_| stretch.is_cut) else { return };
        self.pieces[piece].is_whole = true;
        self.go_on(tid, at_ns);
    }

    /// Adds the work of a thread until now. That of a stretch that is cut becomes pieces.
    fn work_until(&mut self, tid: i32, at_ns: u64) {
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        let Some(since_ns) = &mut thread.runs_since_ns else { return };
        let ran_ns = at_ns.saturating_sub(*since_ns);
        let began_ns = std::mem::replace(since_ns, at_ns.max(*since_ns));
        thread.work_ns += ran_ns;
        thread.weigh_priority(ran_ns);
        let is_cut = thread.stretch.is_some_and(|stretch| stretch.is_cut);
        let Some(mut number) = thread.piece else { return };
        self.pieces[number].work_ns += ran_ns;
        let piece_ns = self.piece_ns;
        while is_cut
            && self.pieces[number].work_ns / 2 >= piece_ns
            && self.pieces.len() < MAX_CUT_PIECES
        {
            let piece = &mut self.pieces[number];
            let rest_ns = piece.work_ns - piece_ns;
            (piece.work_ns, piece.is_whole) = (piece_ns, true);
            number = self.pieces.len();
            self.go_on(tid, at_ns.saturating_sub(rest_ns).max(began_ns));
            self.pieces[number].work_ns = rest_ns;
        }
    }

    /// The next piece of a thread that did not wait.
    fn go_on(&mut self, tid: i32, at_ns: u64) {
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        thread.piece = Some(self.pieces.len());
        let (role, woken_at_ns) = (thread.role, at_ns);
        self.pieces.push(Piece { tid, role, woken_at_ns, goes_on: true, ..Piece::default() });
    }

    /// The piece that a thread is at, and how much of its work is done.
    fn place(&mut self, tid: i32, at_ns: u64) -> Option<(usize, u64)> {
        self.work_until(tid, at_ns);
        let piece = self.by_tid.get(&tid)?.piece?;
        Some((piece, self.pieces[piece].work_ns))
    }

    /// The thread is awake from now on.
    fn begin(&mut self, tid: i32, Wakeup { at_ns, by, is_sync }: Wakeup) {
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        let number = self.pieces.len();
        let slept_at_ns = thread.asleep_since_ns.take();
        let is_awaited = slept_at_ns.is_some() || by.is_some();
        let role = thread.role;
        let is_first = thread.first_ns.is_none() && by.is_none();
        let goes_on = self.stretch(tid, at_ns, true, is_awaited) && !is_awaited;
        self.pieces.push(Piece {
            tid,
            role,
            slept_at_ns,
            woken_at_ns: at_ns.max(slept_at_ns.unwrap_or(0)),
            by: by.map(|(piece, _)| piece),
            is_sync,
            goes_on,
            is_first,
            ..Piece::default()
        });
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        thread.first_ns.get_or_insert(at_ns);
        thread.is_awake = true;
        thread.early = None;
        thread.piece = Some(number);
        thread.wakeups += 1;
        if let Some((waker, done_ns)) = by {
            self.pieces[waker].posts.push((done_ns, number));
        }
    }

    /// The time that the threads of a role were away: before their first event, from a sleep without an end on, or dead. A role has always
    /// as many threads as it had at most.
    pub fn absence_ns(&self, role: usize, from_ns: u64, to_ns: u64) -> u64 {
        let own = self.by_tid.values().filter(|thread| thread.role == role);
        let there_ns = own.filter_map(|thread| {
            let end_ns = thread.dead_ns.or(thread.asleep_since_ns).unwrap_or(to_ns);
            Some(end_ns.saturating_sub(thread.first_ns?))
        });
        let all_ns = u64::from(self.count(role)) * to_ns.saturating_sub(from_ns);
        all_ns.saturating_sub(there_ns.sum())
    }

    /// The time from the first event of a role's threads to the last one.
    pub fn there_ns(&self, role: usize, to_ns: u64) -> u64 {
        let own = self.by_tid.values().filter(|thread| thread.role == role);
        let times = own.filter_map(|thread| {
            let end_ns = thread.dead_ns.or(thread.asleep_since_ns).unwrap_or(to_ns);
            Some((thread.first_ns?, end_ns))
        });
        let (first, last): (Vec<u64>, Vec<u64>) = times.unzip();
        let [first, last] = [first.into_iter().min(), last.into_iter().max()];
        last.unwrap_or(0).saturating_sub(first.unwrap_or(0))
    }

    /// The period, where all that wakes the threads of a role are timers of one period, which each of them has for as long as
    /// the role is there. Who is born is woken by another one.
    pub fn timer_ns(&self, role: usize, to_ns: u64) -> Option<u64> {
        let own = || self.pieces.iter().filter(|piece| piece.role == role && !piece.goes_on);
        if own().any(|piece| piece.by.is_some() && piece.slept_at_ns.is_some()) {
            return None;
        }
        let mut before_ns: BTreeMap<i32, u64> = BTreeMap::new();
        let since_last = |piece: &Piece| {
            let before_ns = before_ns.insert(piece.tid, piece.woken_at_ns)?;
            Some(piece.woken_at_ns.saturating_sub(before_ns))
        };
        // A birth is at no time of the timer.
        let timed = own().filter(|piece| piece.by.is_none());
        let mut intervals: Vec<u64> = timed.filter_map(since_last).collect();
        intervals.sort_unstable();
        let at = |percent: usize| intervals[intervals.len() * percent / 100];
        let is_even = intervals.len() >= MIN_INTERVALS
            && (at(90) - at(10)) as f64 <= TIMER_SPREAD * at(50) as f64
            && intervals.len() as f64 * at(50) as f64
                >= TIMER_PART * self.there_ns(role, to_ns) as f64 * f64::from(self.count(role));
        is_even.then(|| (at(50) + 500) / 1_000 * 1_000)
    }

    /// The largest number of threads of a role that there were at one time.
    pub fn count(&self, role: usize) -> u32 {
        let own = self.by_tid.values().filter(|thread| thread.role == role);
        let mut changes: Vec<(u64, i64)> = Vec::new();
        for thread in own {
            let Some(first_ns) = thread.first_ns else { continue };
            changes.push((first_ns, 1));
            changes.extend(thread.dead_ns.map(|dead_ns| (dead_ns, -1)));
        }
        // An end at this time makes room.
        changes.sort_unstable();
        let (mut now, mut max) = (0, 0);
        for (_, change) in changes {
            now += change;
            max = now.max(max);
        }
        max as u32
    }
}
