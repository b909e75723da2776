//! At a rate: the message thread queues requests to its workers in turn as they arrive, and
//! wakes those that sleep.
//!
//! It works second by second, so that a governor can change the rate in between. A request for a
//! full queue is dropped and counted, as in schbench.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytemuck::Zeroable;

use crate::sys::clock;
use crate::sys::futex::Scope;
use crate::workload::Worker;

use super::arrivals::{Arrivals, NS_PER_S};
use super::group::{Group, await_post};
use super::request::Job;
use super::spec::{DROPPED, RESPONSE, WAKEUP};

/// How long a message thread pauses after a request that found its worker's queue full.
const FULL_PAUSE: Duration = Duration::from_micros(100);

/// Requests that are left of a second count as dropped at its end, and this long before the counts are read.
const COUNTED_BEFORE_NS: u64 = 2_000_000;

/// The rate of one copy. Its governor writes it, its message threads read it.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Pace {
    per_s: AtomicU64,
}

impl Pace {
    pub fn per_s(&self) -> u64 {
        self.per_s.load(Relaxed)
    }

    pub fn set_per_s(&self, per_s: u64) {
        self.per_s.store(per_s, Relaxed);
    }
}

/// The message thread.
pub fn hand_out(group: &Group, pace: &Pace, mut arrivals: Arrivals, scope: Scope, worker: &Worker) {
    let seats = group.seats;
    let mut turns = (0..seats.len()).cycle();
    let started_ns = worker.start();
    for second in 0.. {
        let ends_ns = started_ns + (second + 1) * NS_PER_S;
        sleep_until(started_ns + second * NS_PER_S);
        arrivals.begin(second, pace.per_s());
        while let Some(after_ns) = arrivals.next_ns() {
            let arrives_ns = started_ns + after_ns;
            let now_ns = sleep_until(arrives_ns);
            if !worker.running() {
                return;
            }
            let Some(next) = turns.next() else { return };
            if group.inboxes[next].push(arrives_ns) {
                seats[next].post_at(now_ns, scope);
                continue;
            }
            std::thread::sleep(FULL_PAUSE);
            // The next second begins on time, even if this one has requests left.
            let now_ns = clock::monotonic_ns();
            let read_ns = read_at_ns(worker.measure_until_ns(), now_ns, ends_ns);
            let is_over = now_ns >= ends_ns || now_ns + COUNTED_BEFORE_NS >= read_ns;
            let left = if is_over { arrivals.end(ends_ns.min(read_ns) - started_ns) } else { 0 };
            worker.count(DROPPED, 1 + left);
        }
        if !worker.running() {
            break;
        }
    }
}

/// When the counts are read: at the end of the run; where that is not known, at the end of each second.
fn read_at_ns(until_ns: u64, now_ns: u64, second_ends_ns: u64) -> u64 {
    if until_ns == u64::MAX || until_ns <= now_ns { second_ends_ns } else { until_ns }
}

/// Returns at once if the moment has passed. Returns the time.
fn sleep_until(moment_ns: u64) -> u64 {
    let now_ns = clock::monotonic_ns();
    if now_ns >= moment_ns {
        return now_ns;
    }
    clock::sleep_until(moment_ns);
    clock::monotonic_ns()
}

/// A worker: does all queued requests, and sleeps if there are none.
pub fn take(group: &Group, index: usize, scope: Scope, job: &mut Job, worker: &Worker) {
    let (seat, inbox) = (&group.seats[index], &group.inboxes[index]);
    inbox.prefault();
    let mut waiting_ns = worker.start();
    while worker.running() {
        worker.begin(WAKEUP, waiting_ns);
        // Blocked before the queue is read, so that a later request posts.
        seat.block();
        let requests = inbox.take();
        if requests.len() == 0 {
            let Some(now_ns) = await_post(seat, scope, worker) else { return };
            waiting_ns = now_ns;
            continue;
        }
        seat.resume();
        worker.forget(WAKEUP);
        for arrived_ns in requests {
            waiting_ns = job.request(worker);
            worker.record(RESPONSE, waiting_ns, waiting_ns.saturating_sub(arrived_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_at_the_end_of_the_run_or_of_a_second_where_that_is_not_known() {
        let (now_ns, second_ends_ns) = (5, 10);
        for (until_ns, expected) in [(20, 20), (8, 8), (u64::MAX, 10), (3, 10)] {
            assert_eq!(read_at_ns(until_ns, now_ns, second_ends_ns), expected);
        }
    }
}
