//! One worker wakes another: a futex word next to the time of the post.
//!
//! The word is BLOCKED or RUNNING. A sleeper takes RUNNING back to BLOCKED and goes on; a
//! waker turns BLOCKED into RUNNING and then always calls FUTEX_WAKE, as schbench does: no
//! count of sleepers is kept that could save the call. Word and time share a cache line, so
//! one line moves between the two CPUs; no two seats share one.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use bytemuck::Zeroable;

use crate::sys::futex::{self, Scope};

/// So that zeroed memory is a seat whose worker has not been woken.
const BLOCKED: u32 = 0;
const RUNNING: u32 = 1;
/// No moment of a post: workers are to stop.
pub const STOPPED: u64 = 0;

/// The place where one worker sleeps. It alone waits here; any number of others may post.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Seat {
    word: AtomicU32,
    /// For lists of seats: an index plus one, 0 at the end.
    link: AtomicU32,
    posted_ns: AtomicU64,
}

impl Seat {
    /// Announces that the worker will [`Seat::wait`]. Afterwards it either finds work (in a
    /// list, say), or the worker that adds work later sees the word and posts.
    pub fn block(&self) {
        self.word.store(BLOCKED, SeqCst);
    }

    /// [`Seat::block`] for a worker that then takes the list that begins here or enlists
    /// elsewhere: that orders the two, and this costs nothing.
    #[inline]
    pub fn block_for_list(&self) {
        self.word.store(BLOCKED, Relaxed);
    }

    /// Takes [`Seat::block`] back: there was work, no post is needed.
    pub fn resume(&self) {
        self.word.store(RUNNING, SeqCst);
    }

    /// Wakes the worker, or lets its next wait return at once; nothing if that was done.
    #[inline]
    pub fn post(&self, scope: Scope) {
        if self.word.compare_exchange(BLOCKED, RUNNING, SeqCst, Relaxed).is_ok() {
            futex::wake(&self.word, 1, scope);
        }
    }

    /// [`Seat::post`] on behalf of the moment `now_ns`. A worker that was posted before
    /// and has not run since keeps the earlier time: that is when its wait began.
    #[inline]
    pub fn post_at(&self, now_ns: u64, scope: Scope) {
        if self.word.load(SeqCst) == BLOCKED {
            self.posted_ns.store(now_ns, Relaxed);
            self.post(scope);
        }
    }

    /// Sleeps until posted. Returns the moment given to that post.
    #[inline]
    pub fn wait(&self, scope: Scope) -> u64 {
        while self.word.load(Acquire) != RUNNING {
            futex::wait(&self.word, BLOCKED, None, scope);
        }
        let posted_ns = self.posted_ns.load(Relaxed);
        // Only this worker writes to a word that is RUNNING. Once it is BLOCKED the next post may
        // change the time, so the time is read before.
        self.word.store(BLOCKED, Release);
        posted_ns
    }

    /// The moment given to the last post, or to [`Seat::set_posted_ns`].
    #[inline]
    pub fn posted_ns(&self) -> u64 {
        self.posted_ns.load(Relaxed)
    }

    /// When the wake-up of a worker began that waits since `waiting_ns`, if it has.
    pub fn posted_since(&self, waiting_ns: u64) -> Option<u64> {
        Some(self.posted_ns()).filter(|posted_ns| *posted_ns > waiting_ns)
    }

    /// Lets the worker's next [`Seat::wait`] return [`STOPPED`], unless it was posted before.
    pub fn release(&self, scope: Scope) {
        self.post_at(STOPPED, scope);
    }

    /// Notes when the worker's wake-up by other means than [`Seat::post`] begins.
    #[inline]
    pub fn set_posted_ns(&self, now_ns: u64) {
        self.posted_ns.store(now_ns, Relaxed);
    }

    /// Puts seat `index` of `seats` in front of the list that begins here. No lock: the list
    /// is only ever taken whole, so a stale head cannot come back.
    #[inline]
    pub fn enlist(&self, seats: &[Seat], index: usize) {
        let mut head = self.link.load(Relaxed);
        loop {
            seats[index].link.store(head, Relaxed);
            match self.link.compare_exchange_weak(head, index as u32 + 1, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes the whole list that begins here, posts all its seats, the latest first, and returns
    /// their number. `now_ns` is called once, after the list was taken and before the first post.
    pub fn post_list(&self, seats: &[Seat], scope: Scope, now_ns: impl Fn() -> u64) -> usize {
        let enlisted = self.take_list(seats);
        let now_ns = now_ns();
        enlisted.map(|index| seats[index].post_at(now_ns, scope)).count()
    }

    /// Takes the whole list that begins here: indices of seats, the latest first. A seat may
    /// be posted as soon as its index is out.
    #[inline]
    pub fn take_list<'a>(&self, seats: &'a [Seat]) -> impl Iterator<Item = usize> + use<'a> {
        let mut link = self.link.swap(0, SeqCst);
        std::iter::from_fn(move || {
            let index = (link as usize).checked_sub(1)?;
            // Read before the post: once awake, the worker may enlist itself again.
            link = seats[index].link.load(Relaxed);
            Some(index)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(count: usize) -> &'static [Seat] {
        crate::sys::shared::leak_slice(count).expect("memory")
    }

    #[test]
    fn a_seat_fills_its_cache_lines() {
        assert_eq!(size_of::<Seat>(), 128);
    }

    #[test]
    fn a_post_before_the_wait_is_not_lost_and_counts_once() {
        let seat = &seats(1)[0];
        seat.block();
        seat.post_at(7, Scope::Private);
        seat.post_at(9, Scope::Private);
        seat.wait(Scope::Private);
        assert_eq!(seat.posted_ns(), 7, "the wait began with the first post");
        assert_eq!(seat.word.load(SeqCst), BLOCKED, "the next wait sleeps");
        seat.resume();
        seat.post_at(11, Scope::Private);
        assert_eq!(seat.posted_ns(), 7, "a running worker is not woken");
    }

    #[test]
    fn a_list_is_taken_whole_latest_first_and_timed_once() {
        let seats = seats(4);
        let (head, seats) = seats.split_first().unwrap();
        [0, 2, 1].iter().for_each(|&index| head.enlist(seats, index));
        let order: Vec<u32> = std::iter::successors(Some(head.link.load(SeqCst)), |&link| {
            (link != 0).then(|| seats[link as usize - 1].link.load(SeqCst))
        })
        .collect();
        assert_eq!(order, [2, 3, 1, 0]);
        let asked = std::cell::Cell::new(0);
        let clock = || {
            asked.set(asked.get() + 1);
            asked.get()
        };
        assert_eq!(head.post_list(seats, Scope::Private, clock), 3);
        assert_eq!(asked.get(), 1);
        assert!(seats.iter().all(|seat| seat.posted_ns() == 1));
        assert_eq!(head.post_list(seats, Scope::Private, clock), 0);
    }

    #[test]
    fn seats_enlisted_at_once_are_all_on_the_list() {
        const EACH: usize = 20_000;
        let seats = seats(1 + 4 * EACH);
        let (head, seats) = seats.split_first().unwrap();
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let barrier = &barrier;
                threads.spawn(move || {
                    barrier.wait();
                    (0..EACH).for_each(|index| head.enlist(seats, thread * EACH + index));
                });
            }
        });
        assert_eq!(head.post_list(seats, Scope::Private, || 1), 4 * EACH);
    }

    #[test]
    fn sleepers_and_a_waker_pass_turns_without_losing_one() {
        const TURNS: usize = 20_000;
        for scope in [Scope::Private, Scope::Shared] {
            let seats = seats(4);
            let (head, seats) = seats.split_first().unwrap();
            std::thread::scope(|threads| {
                for (index, seat) in seats.iter().enumerate() {
                    threads.spawn(move || {
                        for _ in 0..TURNS {
                            seat.block();
                            head.enlist(seats, index);
                            head.post(scope);
                            seat.wait(scope);
                        }
                    });
                }
                let mut served = 0;
                while served < 3 * TURNS {
                    head.block();
                    let posted = head.post_list(seats, scope, || 1);
                    served += posted;
                    if posted == 0 && served < 3 * TURNS {
                        head.wait(scope);
                    }
                }
                assert_eq!(served, 3 * TURNS);
            });
        }
    }
}
