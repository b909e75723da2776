//! Runs that will be asked for, and the threads that work ahead on them: one for each CPU of the
//! host, each with one guest at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::model::RunSpec;

use super::guests::Answer;

/// How often a cancelled plan is noticed while its guests are at work.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub struct RunQueue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Ends guests that are at work.
    stop: AtomicBool,
    ask: Box<Ask>,
}

/// Who answers; looks often at whether the answer is still wanted.
type Ask = dyn Fn(&RunSpec, &AtomicBool) -> Answer + Send + Sync;

#[derive(Default)]
struct Queue {
    /// In the order in which they are wanted.
    offers: Vec<Offer>,
}

struct Offer {
    spec: RunSpec,
    state: State,
}

enum State {
    Waiting,
    AtWork,
    Answered(Box<Answer>),
}

impl RunQueue {
    pub fn begin(ask: Box<Ask>) -> RunQueue {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            ask,
        });
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let worker = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work())
        };
        let threads = (0..cpus).map(worker).collect();
        RunQueue { shared, threads }
    }

    pub fn add(&self, specs: Vec<RunSpec>) {
        let new = specs.into_iter().map(|spec| Offer { spec, state: State::Waiting });
        self.shared.queue().offers.extend(new);
        self.shared.changed.notify_all();
    }

    /// The answer to `spec`, which is asked for now if nobody announced it.
    pub fn await_answer(&self, spec: &RunSpec, cancel: &AtomicBool) -> Answer {
        if !self.shared.queue().offers.iter().any(|offer| offer.spec == *spec) {
            self.add(vec![spec.clone()]);
        }
        let mut queue = self.shared.queue();
        loop {
            let found = queue
                .offers
                .iter()
                .position(|offer| offer.spec == *spec && matches!(offer.state, State::Answered(_)));
            if let Some(at) = found {
                match queue.offers.remove(at).state {
                    State::Answered(answer) => return *answer,
                    State::Waiting | State::AtWork => unreachable!("it was answered above"),
                }
            }
            if cancel.load(Relaxed) {
                return Answer::Cancelled;
            }
            queue = self
                .shared
                .changed
                .wait_timeout(queue, POLL_INTERVAL)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(queue, _)| queue);
        }
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        {
            // Held, so that nobody is between asking and going to sleep.
            let _queue = self.shared.queue();
            self.shared.stop.store(true, Relaxed);
        }
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has said so on standard error.
            _ = thread.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes offers in order until the end.
    fn work(&self) {
        while let Some(spec) = self.next() {
            let asked = AssertUnwindSafe(|| (self.ask)(&spec, &self.stop));
            let answer = catch_unwind(asked)
                .unwrap_or_else(|_| Answer::Failed("schedlab itself panicked".to_string()));
            let mut queue = self.queue();
            let asked = queue
                .offers
                .iter_mut()
                .find(|offer| offer.spec == spec && matches!(offer.state, State::AtWork));
            if let Some(offer) = asked {
                offer.state = State::Answered(Box::new(answer));
            }
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<RunSpec> {
        let mut queue = self.queue();
        loop {
            if self.stop.load(Relaxed) {
                return None;
            }
            let waiting = |offer: &&mut Offer| matches!(offer.state, State::Waiting);
            if let Some(offer) = queue.offers.iter_mut().find(waiting) {
                offer.state = State::AtWork;
                return Some(offer.spec.clone());
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::lab::tests::spec;

    fn failed(answer: Answer) -> String {
        match answer {
            Answer::Failed(why) => why,
            Answer::Cancelled => "cancelled".to_string(),
            Answer::Said { .. } => panic!("nobody says anything here"),
        }
    }

    #[test]
    fn each_gets_its_own_answer_whatever_the_order_and_though_one_panics() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let order = Arc::clone(&asked);
        let offers = RunQueue::begin(Box::new(move |spec, _| {
            order.lock().unwrap().push(spec.seed);
            // The first ends after another that began later, where two can be at work.
            let is_alone = std::thread::available_parallelism().map_or(1, usize::from) < 2;
            while spec.seed == 0 && !is_alone && order.lock().unwrap().len() < 3 {
                std::thread::yield_now();
            }
            assert!(spec.seed != 2, "on purpose");
            Answer::Failed(format!("seed {}", spec.seed))
        }));
        let cancel = AtomicBool::new(false);
        offers.add((0..5).map(|seed| spec("v", seed)).collect());
        for seed in [4, 0, 3, 1] {
            let answer = offers.await_answer(&spec("v", seed), &cancel);
            assert_eq!(failed(answer), format!("seed {seed}"));
        }
        let panicked = failed(offers.await_answer(&spec("v", 2), &cancel));
        assert_eq!(panicked, "schedlab itself panicked");
        let unannounced = failed(offers.await_answer(&spec("v", 9), &cancel));
        assert_eq!(unannounced, "seed 9");
        drop(offers);
        let mut asked = asked.lock().unwrap().clone();
        assert_eq!(asked.last(), Some(&9));
        asked.sort();
        assert_eq!(asked, [0, 1, 2, 3, 4, 9], "each was asked once");
    }

    #[test]
    fn a_cancelled_plan_waits_for_nobody_and_its_guests_are_told() {
        let offers = RunQueue::begin(Box::new(|_, stop| {
            while !stop.load(Relaxed) {
                std::thread::yield_now();
            }
            Answer::Cancelled
        }));
        let cancel = AtomicBool::new(true);
        assert_eq!(failed(offers.await_answer(&spec("v", 1), &cancel)), "cancelled");
        // Ends, because whoever is at work is told to.
        drop(offers);
    }
}
