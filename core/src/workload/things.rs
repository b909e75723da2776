//! Locks, conditions, semaphores and barriers, which the worker sets of one run share by name.
//!
//! All of them are words of memory that threads and forked workers share, with futexes. POSIX says what each
//! does; a condition wakes one of those that wait, or all.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use bytemuck::Zeroable;

use crate::model::CgroupPath;
use crate::sys::futex::{self, Scope};
use crate::sys::lock;
use crate::sys::shared;
use crate::sys::wake_pipe::WakePipe;

use super::WorkloadError;

/// The sorts of things, each of which has names of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    Lock,
    Condition,
    /// Where workers suspend themselves until others resume them.
    Suspension,
    Semaphore,
    /// A semaphore whose posts wake as pipes do.
    Pipe,
    Barrier,
    Timer,
    /// Where workers sleep until a fork starts them.
    Fork,
    /// How many of them do.
    Free,
}

/// How its workers use a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    pub scope: Scope,
    /// A lock lends the priority of those that wait to its holder.
    pub inherits: bool,
}

/// One of any [`Sort`]; zero is its state before anybody came.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Thing {
    /// A lock's state or, where it lends priorities, its holder; how often a condition was signalled, or a
    /// semaphore posted; those that are at a barrier.
    word: AtomicU32,
    /// How often a semaphore was taken or is waited for; how often a barrier has opened.
    other: AtomicU32,
    /// When somebody was woken last, or a timer's last expiry.
    pub moment_ns: AtomicU64,
    /// Each sleeper at a semaphore has one of these for itself, as long as there are no more of them.
    places: [AtomicU32; PLACES],
    /// A [`Sort::Pipe`] has one for each worker that sleeps here; so many are open, and so many have a worker.
    pipes: [WakePipe; MAX_READERS],
    open_pipes: AtomicU32,
    given_pipes: AtomicU32,
    /// When the chain of wakeups began that the post of this number goes on with, above the [`round`] of the number.
    chains: [AtomicU64; PLACES],
    /// Whether a set counts the chains of posts that nobody takes.
    counted: AtomicU32,
}

/// A post that a worker has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Whether the worker slept until it came.
    pub slept: bool,
    /// When its chain of wakeups began; 0: it is in none.
    pub chain_ns: u64,
}

/// The most workers that sleep at a pipe at once.
pub const MAX_READERS: usize = 1024;
const PLACES: usize = 1024;
/// Rounds through the places that differ: 8 million posts may be pending. The bits that are left hold a chain of 6 days.
const ROUND_BITS: u32 = 14;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WANTED: u32 = 2;

impl Thing {
    #[inline]
    pub fn lock(&self, how: Use, tid: i32) {
        if how.inherits {
            return futex::lock_inheriting(&self.word, tid, how.scope);
        }
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() {
            return;
        }
        while self.word.swap(WANTED, Acquire) != FREE {
            futex::wait(&self.word, WANTED, None, how.scope);
        }
    }

    /// By its holder alone.
    #[inline]
    pub fn unlock(&self, how: Use, tid: i32) {
        match how.inherits {
            true => futex::unlock_inheriting(&self.word, tid, how.scope),
            false if self.word.swap(FREE, Release) == WANTED => {
                futex::wake(&self.word, 1, how.scope);
            }
            false => {}
        }
    }

    /// How often a condition or a suspension was signalled.
    #[inline]
    pub fn signals(&self) -> u32 {
        self.word.load(SeqCst)
    }

    /// Sleeps until there are other [`Thing::signals`] than these.
    #[inline]
    pub fn await_signal(&self, seen: u32, how: Use) {
        while self.signals() == seen {
            futex::wait(&self.word, seen, None, how.scope);
        }
    }

    #[inline]
    pub fn signal(&self, how: Use, now_ns: u64, sleepers: i32) {
        self.moment_ns.store(now_ns, Relaxed);
        self.word.fetch_add(1, SeqCst);
        futex::wake(&self.word, sleepers, how.scope);
    }

    /// Posts and takes are numbered, and a post is for the take of its number. So a worker that posts and then takes
    /// leaves its posts to those whom they wake. `chain_ns`: as [`Taken`] has it.
    #[inline]
    pub fn post(&self, how: Use, now_ns: u64, chain_ns: u64) {
        self.moment_ns.store(now_ns, Relaxed);
        let number = self.word.fetch_add(1, SeqCst);
        // A worker that comes between these two lines finds no chain: it is not counted, and nothing waits for it.
        self.note_chain(number, chain_ns);
        if is_before(number, self.other.load(SeqCst)) {
            if self.open_pipes.load(Relaxed) > 0 {
                // A sleeper looks for its post once more after it has left its pipe here.
                let left = self.place(number).load(SeqCst);
                return self.pipes.get(left as usize).map_or((), WakePipe::wake);
            }
            let place = self.place(number);
            place.fetch_add(1, SeqCst);
            futex::wake(place, i32::MAX, how.scope);
        }
    }

    /// Takes a post of a semaphore for which nobody waits, if there is one.
    #[inline]
    pub fn try_take(&self) -> bool {
        let posts = self.word.load(SeqCst);
        let next = |number: u32| is_before(number, posts).then(|| number.wrapping_add(1));
        self.other.fetch_update(SeqCst, SeqCst, next).is_ok()
    }

    /// Takes a post of a semaphore, and sleeps until there is one behind those who wait already.
    #[inline]
    pub fn take(&self, how: Use) -> Taken {
        let number = self.other.fetch_add(1, SeqCst);
        let place = self.place(number);
        let mut slept = false;
        loop {
            let seen = place.load(SeqCst);
            if is_before(number, self.word.load(SeqCst)) {
                return Taken { slept, chain_ns: self.chain_ns(number) };
            }
            futex::wait(place, seen, None, how.scope);
            slept = true;
        }
    }

    /// As [`Thing::take`], by the worker that has this pipe.
    #[inline]
    pub fn read(&self, pipe: u32) -> Taken {
        let number = self.other.fetch_add(1, SeqCst);
        let mut slept = false;
        loop {
            let before = self.place(number).swap(pipe, SeqCst);
            if is_before(number, self.word.load(SeqCst)) {
                // Others went round all places meanwhile: whoever waits at this one has to say so again.
                if self.other.load(SeqCst).wrapping_sub(number) > PLACES as u32 {
                    self.pipes[before as usize].wake();
                }
                return Taken { slept, chain_ns: self.chain_ns(number) };
            }
            // It may have a byte left of a post that its worker found before it slept.
            self.pipes[pipe as usize].wait();
            slept = true;
        }
    }

    /// Opens pipes for so many more workers, before any of them begins. `false`: there is no room for so many.
    pub fn add_pipes(&self, workers: u32) -> io::Result<bool> {
        let open = self.open_pipes.load(Relaxed) as usize;
        let Some(pipes) = self.pipes.get(open..open + workers as usize) else { return Ok(false) };
        pipes.iter().try_for_each(WakePipe::open)?;
        self.open_pipes.fetch_add(workers, Relaxed);
        Ok(true)
    }

    /// The number of a pipe that no other worker has; `None`: there is none.
    pub fn take_pipe(&self) -> Option<u32> {
        let pipe = self.given_pipes.fetch_add(1, Relaxed);
        (pipe < self.open_pipes.load(Relaxed)).then_some(pipe)
    }

    fn place(&self, number: u32) -> &AtomicU32 {
        &self.places[number as usize % PLACES]
    }

    #[inline]
    fn note_chain(&self, number: u32, chain_ns: u64) {
        let chain = chain_ns << ROUND_BITS | u64::from(round(number));
        self.chains[number as usize % PLACES].store(chain, SeqCst);
    }

    /// When the chain of this post began; 0: it is in none. More posts than there are places for, which nobody has
    /// taken, share these: then the later chain stays. An earlier one is left from a post that was taken.
    #[inline]
    fn chain_ns(&self, number: u32) -> u64 {
        let chain = self.chains[number as usize % PLACES].load(SeqCst);
        let ahead = (chain as u32).wrapping_sub(round(number)) << (u32::BITS - ROUND_BITS);
        if chain >> ROUND_BITS == 0 || (ahead as i32) < 0 {
            return 0;
        }
        // The bits of the time that have no room are those of the last post.
        let last_ns = self.moment_ns.load(Relaxed);
        let since_ns = (chain.wrapping_sub(last_ns << ROUND_BITS) as i64) >> ROUND_BITS;
        last_ns.wrapping_add_signed(since_ns)
    }

    /// Whether a set is the first one that asks: it counts [`Thing::pending_chains`], and no other one does.
    pub fn is_first_to_count(&self) -> bool {
        self.counted.swap(1, Relaxed) == 0
    }

    /// When the chains began whose posts nobody has taken yet.
    pub fn pending_chains(&self) -> impl Iterator<Item = u64> {
        let (taken, posted) = (self.other.load(SeqCst), self.word.load(SeqCst));
        let pending = if is_before(taken, posted) { posted.wrapping_sub(taken) } else { 0 };
        let numbers = (0..pending.min(PLACES as u32)).map(move |at| posted.wrapping_sub(at + 1));
        numbers.map(|number| self.chain_ns(number)).filter(|chain_ns| *chain_ns > 0)
    }

    /// Takes the page faults of what posts and takes write to.
    pub fn touch(&self) {
        self.places.iter().for_each(|place| _ = place.fetch_add(0, Relaxed));
        self.chains.iter().for_each(|chain| _ = chain.fetch_add(0, Relaxed));
    }

    /// Sleeps until so many are here, of which the last one wakes all. Whether it slept.
    #[inline]
    pub fn meet(&self, workers: u32, how: Use, now_ns: u64) -> bool {
        let opened = self.other.load(SeqCst);
        if self.word.fetch_add(1, SeqCst) + 1 >= workers {
            self.word.store(0, SeqCst);
            self.moment_ns.store(now_ns, Relaxed);
            self.other.fetch_add(1, SeqCst);
            futex::wake(&self.other, i32::MAX, how.scope);
            return false;
        }
        while self.other.load(SeqCst) == opened {
            futex::wait(&self.other, opened, None, how.scope);
        }
        true
    }
}

/// Whether a number comes before another one, of counts that wrap.
fn is_before(number: u32, other: u32) -> bool {
    (other.wrapping_sub(number) as i32) > 0
}

/// How often the places were gone through before this number, as far as [`ROUND_BITS`] say it.
#[inline]
fn round(number: u32) -> u32 {
    number / PLACES as u32 % (1 << ROUND_BITS)
}

type ByName = BTreeMap<(Sort, String), (Use, &'static Thing)>;

/// All things of one run.
#[derive(Default)]
pub struct Things {
    named: Mutex<ByName>,
    /// For each cgroup of the run the files that take a thread.
    cgroups: BTreeMap<CgroupPath, Vec<PathBuf>>,
}

impl Things {
    pub fn with_cgroups(cgroups: BTreeMap<CgroupPath, Vec<PathBuf>>) -> Things {
        Things { cgroups, ..Things::default() }
    }

    /// The files that take a thread into this cgroup, or into the run's own, in which all others are. `None`: nobody
    /// made it.
    pub fn cgroup_files(&self, path: Option<&CgroupPath>) -> Option<Vec<PathBuf>> {
        if let Some(path) = path {
            return self.cgroups.get(path).cloned();
        }
        let Some((path, files)) = self.cgroups.first_key_value() else { return Some(Vec::new()) };
        let depth = path.as_path().components().count();
        let of_run =
            |file: &PathBuf| Some(file.ancestors().nth(depth + 1)?.join(file.file_name()?));
        files.iter().map(of_run).collect()
    }

    /// The thing of this name, which all sets use alike.
    pub fn named(&self, sort: Sort, name: &str, how: Use) -> Result<&'static Thing, WorkloadError> {
        let mut all = lock(&self.named);
        if let Some((first, thing)) = all.get(&(sort, name.to_string())) {
            return if *first == how {
                Ok(thing)
            } else {
                Err(WorkloadError::conflict(
                    format!(
                        "sets use `{name}` in two ways: as threads and processes, or with and without `inherit`"
                    ),
                    "the same `workers` and `inherit` in all sets that meet".to_string(),
                ))
            };
        }
        let other = match sort {
            Sort::Pipe => Sort::Semaphore,
            Sort::Semaphore => Sort::Pipe,
            sort => sort,
        };
        if all.contains_key(&(other, name.to_string())) {
            return Err(WorkloadError::conflict(
                format!("`{name}` is posted or taken in one step, and written or read in another"),
                "`post` and `take` meet, as do `write` and `read`".to_string(),
            ));
        }
        let made: &Thing = shared::leak()
            .map_err(|source| WorkloadError::system("allocate what workers share", source))?;
        all.insert((sort, name.to_string()), (how, made));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const HOWS: [Use; 2] = [
        Use { scope: Scope::Private, inherits: false },
        Use { scope: Scope::Shared, inherits: true },
    ];

    #[test]
    fn a_lock_lets_one_in_and_loses_nobody() {
        for how in HOWS {
            let (lock, count) = (Thing::zeroed(), AtomicU64::new(0));
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        let tid = crate::sys::sched::own_tid();
                        for _ in 0..2_000 {
                            lock.lock(how, tid);
                            let seen = count.load(Relaxed);
                            std::hint::spin_loop();
                            count.store(seen + 1, Relaxed);
                            lock.unlock(how, tid);
                        }
                    });
                }
            });
            assert_eq!(count.into_inner(), 8_000, "{how:?}");
        }
    }

    #[test]
    fn posts_are_remembered_and_a_signal_is_not() {
        let [how, _] = HOWS;
        let semaphore = Thing::zeroed();
        semaphore.post(how, 1, 0);
        semaphore.post(how, 2, 7);
        assert_eq!(semaphore.pending_chains().collect::<Vec<_>>(), [7]);
        let taken = [0, 7].map(|chain_ns| Taken { slept: false, chain_ns });
        assert_eq!(taken, [semaphore.take(how), semaphore.take(how)]);
        assert!(!semaphore.try_take() && semaphore.pending_chains().next().is_none());
        let condition = Thing::zeroed();
        condition.signal(how, 1, 1);
        let seen = condition.signals();
        let (entered, woken) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                entered.store(true, SeqCst);
                condition.await_signal(seen, how);
                assert!(woken.load(SeqCst), "the signal before it wakes nobody");
            });
            while !entered.load(SeqCst) {
                std::thread::yield_now();
            }
            woken.store(true, SeqCst);
            condition.signal(how, 3, i32::MAX);
        });
        assert_eq!(condition.moment_ns.into_inner(), 3);
    }

    #[test]
    fn a_post_has_no_chain_of_one_that_was_taken() {
        let [how, _] = HOWS;
        for first in [0, u32::MAX - 1024, u32::MAX - (1024 << ROUND_BITS)] {
            for is_pipe in [false, true] {
                let thing = Thing::zeroed();
                [&thing.word, &thing.other]
                    .into_iter()
                    .for_each(|count| count.store(first, SeqCst));
                assert!(!is_pipe || thing.add_pipes(1).unwrap());
                let take = || if is_pipe { thing.read(0) } else { thing.take(how) }.chain_ns;
                // An uptime of 3 years.
                let now_ns = 94_608_000_000_000_007;
                (0..1024).for_each(|_| thing.post(how, now_ns, now_ns - 5));
                assert!((0..1024).all(|_| take() == now_ns - 5), "{first}");
                // A poster is late with its chain: the next one who comes finds that of the post 1024 before.
                let late = thing.word.fetch_add(1, SeqCst);
                assert_eq!((take(), thing.pending_chains().count()), (0, 0), "{first}");
                // Then it comes, and the post 1024 behind it is late, too.
                thing.note_chain(late, now_ns);
                (0..1023).for_each(|_| thing.post(how, now_ns, now_ns));
                assert!((0..1023).all(|_| take() == now_ns), "{first}");
                thing.word.fetch_add(1, SeqCst);
                assert_eq!((take(), thing.pending_chains().count()), (0, 0), "{first}");
            }
        }
    }

    #[test]
    fn posts_without_a_place_of_their_own_have_the_later_chain() {
        let [how, _] = HOWS;
        let thing = Thing::zeroed();
        (1..=3000).for_each(|at| thing.post(how, at, at));
        assert_eq!(thing.pending_chains().count(), 1024);
        let taken: Vec<u64> = (0..3000).map(|_| thing.take(how).chain_ns).collect();
        assert_eq!([taken[0], taken[951], taken[952], taken[2999]], [2049, 3000, 1977, 3000]);
    }

    #[test]
    fn a_post_is_for_who_waits_and_not_for_who_posted_it() {
        let [how, _] = HOWS;
        let semaphore = Thing::zeroed();
        // Counts wrap in long runs.
        semaphore.word.store(u32::MAX, SeqCst);
        semaphore.other.store(u32::MAX, SeqCst);
        let waits = |number: u32| {
            while semaphore.other.load(SeqCst) != number {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|threads| {
            let first = threads.spawn(|| semaphore.take(how));
            waits(0);
            let second = threads.spawn(|| semaphore.take(how));
            waits(1);
            semaphore.post(how, 1, 5);
            assert!(!semaphore.try_take());
            assert_eq!(first.join().unwrap().chain_ns, 5);
            assert!(!second.is_finished());
            semaphore.post(how, 2, 6);
            assert_eq!(second.join().unwrap().chain_ns, 6);
        });
        assert!(!semaphore.try_take());
    }

    #[test]
    fn what_is_read_is_a_semaphore_whose_sleepers_have_a_pipe_each() {
        let [how, _] = HOWS;
        let thing = Thing::zeroed();
        assert_eq!(thing.take_pipe(), None);
        assert!(!thing.add_pipes(MAX_READERS as u32 + 1).unwrap());
        let thing = Thing::zeroed();
        assert!(thing.add_pipes(2).unwrap() && thing.add_pipes(1).unwrap());
        thing.post(how, 1, 9);
        let pipes = [0; 3].map(|_| thing.take_pipe().unwrap());
        assert_eq!((pipes, thing.take_pipe()), ([0, 1, 2], None));
        let unslept = Taken { slept: false, chain_ns: 9 };
        assert_eq!(thing.read(0), unslept, "nobody waited for it");
        // As a post leaves it that comes between a reader's number and its sleep.
        thing.pipes[1].wake();
        let (posts, reads) = (30_000, AtomicU64::new(0));
        std::thread::scope(|threads| {
            for pipe in pipes {
                let (thing, reads) = (&thing, &reads);
                threads.spawn(move || {
                    while reads.fetch_add(1, SeqCst) < posts {
                        thing.read(pipe);
                    }
                });
            }
            (0..posts).for_each(|_| thing.post(how, 1, 0));
        });
        assert!(!thing.try_take());
    }

    #[test]
    fn nobody_leaves_a_barrier_before_all_are_there_and_it_opens_again() {
        let [how, _] = HOWS;
        let (barrier, arrived) = (Thing::zeroed(), AtomicU64::new(0));
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    for round in 1..=500 {
                        arrived.fetch_add(1, SeqCst);
                        barrier.meet(3, how, 1);
                        assert!(arrived.load(SeqCst) >= 3 * round);
                    }
                });
            }
        });
        assert_eq!(arrived.into_inner(), 1_500);
    }

    #[test]
    fn a_name_is_one_thing_of_each_sort_and_is_used_in_one_way() {
        let things = Things::default();
        let [how, other] = HOWS;
        let first = things.named(Sort::Lock, "a", how).unwrap();
        assert!(std::ptr::eq(first, things.named(Sort::Lock, "a", how).unwrap()));
        assert!(!std::ptr::eq(first, things.named(Sort::Semaphore, "a", how).unwrap()));
        let error = things.named(Sort::Pipe, "a", how).err().unwrap().to_string();
        assert!(error.contains("`a` is posted or taken"), "{error}");
        let error = things.named(Sort::Lock, "a", other).err().unwrap().to_string();
        assert!(error.contains("sets use `a` in two ways"), "{error}");
    }
}
