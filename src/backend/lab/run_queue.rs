//! Announced runs, and the threads that make them: one for each CPU of the host, each with one
//! guest at a time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::model::RunSpec;
use crate::sys::lock;

use super::error::GuestError;
use super::guests::Measured;

/// Interval between checks of a waiting plan for a cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub struct RunQueue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    runs: Mutex<Vec<QueuedRun>>,
    changed: Condvar,
    /// Ends the guests of runs that are not done.
    stop: AtomicBool,
    measure: Box<Measure>,
}

/// Makes one run; polls whether to stop.
type Measure = dyn Fn(&RunSpec, &AtomicBool) -> Result<Measured, GuestError> + Send + Sync;

struct QueuedRun {
    spec: RunSpec,
    state: State,
}

enum State {
    Waiting,
    Running,
    Done(Box<Result<Measured, GuestError>>),
}

impl RunQueue {
    pub fn start(measure: Box<Measure>) -> RunQueue {
        let shared = Arc::new(Shared {
            runs: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            measure,
        });
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let worker = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work())
        };
        let threads = (0..cpus).map(worker).collect();
        RunQueue { shared, threads }
    }

    /// Adds runs at the end.
    pub fn add(&self, specs: Vec<RunSpec>) {
        let new = specs.into_iter().map(|spec| QueuedRun { spec, state: State::Waiting });
        self.shared.runs().extend(new);
        self.shared.changed.notify_all();
    }

    /// Waits for the result of `spec`, which is the next to be made if nobody announced it: it may be one that is made
    /// again.
    /// `on_poll` is called now and then, and when the run has ended. Panics where a thread has, in a process that this did not end.
    pub fn wait(
        &self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_poll: &mut dyn FnMut(),
    ) -> Result<Measured, GuestError> {
        {
            let mut runs = self.shared.runs();
            if !runs.iter().any(|run| run.spec == *spec) {
                runs.insert(0, QueuedRun { spec: spec.clone(), state: State::Waiting });
                self.shared.changed.notify_all();
            }
        }
        loop {
            let mut runs = self.shared.runs();
            let is_done =
                |run: &QueuedRun| run.spec == *spec && matches!(run.state, State::Done(_));
            if let Some(at) = runs.iter().position(is_done)
                && let State::Done(result) = runs.remove(at).state
            {
                drop(runs);
                // It may have ended before it was waited for.
                on_poll();
                return *result;
            }
            if cancel.load(Relaxed) {
                return Err(GuestError::Cancelled);
            }
            let waited = self.shared.changed.wait_timeout(runs, POLL_INTERVAL);
            drop(waited);
            let has_ended = self.threads.iter().any(JoinHandle::is_finished);
            assert!(!has_ended, "a thread that makes runs has panicked");
            on_poll();
        }
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        {
            // The lock ensures that no thread is between checking `stop` and going to sleep.
            let _runs = self.shared.runs();
            self.shared.stop.store(true, Relaxed);
        }
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
    }
}

impl Shared {
    fn runs(&self) -> MutexGuard<'_, Vec<QueuedRun>> {
        lock(&self.runs)
    }

    /// Makes runs in order until the end.
    fn work(&self) {
        while let Some(spec) = self.next() {
            let result = (self.measure)(&spec, &self.stop);
            let mut runs = self.runs();
            let is_own =
                |run: &&mut QueuedRun| run.spec == spec && matches!(run.state, State::Running);
            if let Some(run) = runs.iter_mut().find(is_own) {
                run.state = State::Done(Box::new(result));
            }
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<RunSpec> {
        let mut runs = self.runs();
        loop {
            if self.stop.load(Relaxed) {
                return None;
            }
            let is_waiting = |run: &&mut QueuedRun| matches!(run.state, State::Waiting);
            if let Some(run) = runs.iter_mut().find(is_waiting) {
                run.state = State::Running;
                return Some(run.spec.clone());
            }
            runs = self.changed.wait(runs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::GuestFault;
    use super::*;
    use crate::backend::lab::tests::spec;

    fn failed(result: Result<Measured, GuestError>) -> String {
        result.err().expect("no run is measured here").to_string()
    }

    #[test]
    fn each_spec_gets_its_own_result_in_any_order() {
        let made = Arc::new(Mutex::new(Vec::new()));
        let order = Arc::clone(&made);
        let queue = RunQueue::start(Box::new(move |spec, _| {
            order.lock().unwrap().push(spec.seed);
            // The first run ends after a later one has started, if two can run at once.
            let is_alone = std::thread::available_parallelism().map_or(1, usize::from) < 2;
            while spec.seed == 0 && !is_alone && order.lock().unwrap().len() < 3 {
                std::thread::yield_now();
            }
            Err(GuestFault::Agent(format!("seed {}", spec.seed)).into())
        }));
        let cancel = AtomicBool::new(false);
        queue.add((0..5).map(|seed| spec("v", seed)).collect());
        for seed in [4, 0, 3, 1, 2] {
            assert_eq!(
                failed(queue.wait(&spec("v", seed), &cancel, &mut || ())),
                format!("seed {seed}")
            );
        }
        assert_eq!(
            failed(queue.wait(&spec("v", 9), &cancel, &mut || ())),
            "seed 9",
            "not announced"
        );
        drop(queue);
        let mut made = made.lock().unwrap().clone();
        assert_eq!(made.last(), Some(&9));
        made.sort();
        assert_eq!(made, [0, 1, 2, 3, 4, 9], "each was made once");
    }

    #[test]
    fn who_waits_for_a_run_that_has_ended_before_is_polled_too() {
        let queue = RunQueue::start(Box::new(|_, _| Err(GuestFault::NotReady.into())));
        queue.add(vec![spec("v", 1)]);
        while !matches!(queue.shared.runs()[0].state, State::Done(_)) {
            std::thread::yield_now();
        }
        let mut polls = 0;
        failed(queue.wait(&spec("v", 1), &AtomicBool::new(false), &mut || polls += 1));
        assert_eq!(polls, 1);
    }

    #[test]
    #[should_panic(expected = "a thread that makes runs has panicked")]
    fn who_waits_for_a_run_that_panics_does_not_wait_for_ever() {
        let queue = RunQueue::start(Box::new(|_, _| panic!("on purpose")));
        _ = queue.wait(&spec("v", 0), &AtomicBool::new(false), &mut || ());
    }

    #[test]
    fn a_run_that_is_made_again_is_the_next_one() {
        let (made, is_open) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (order, open) = (Arc::clone(&made), Arc::clone(&is_open));
        let queue = RunQueue::start(Box::new(move |spec, _| {
            order.lock().unwrap().push(spec.seed);
            while !open.load(Relaxed) {
                std::thread::yield_now();
            }
            Err(GuestError::Cancelled)
        }));
        let threads = queue.threads.len();
        queue.add((0..3 * threads as u64).map(|seed| spec("v", seed)).collect());
        let until = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                std::thread::yield_now();
            }
        };
        until(&|| made.lock().unwrap().len() == threads);
        std::thread::scope(|scope| {
            scope.spawn(|| queue.wait(&spec("v", 99), &AtomicBool::new(false), &mut || ()));
            until(&|| queue.shared.runs()[0].spec.seed == 99);
            is_open.store(true, Relaxed);
        });
        assert_eq!(made.lock().unwrap()[threads], 99);
    }

    #[test]
    fn a_cancelled_plan_does_not_wait_and_its_guests_are_stopped() {
        let queue = RunQueue::start(Box::new(|_, stop| {
            while !stop.load(Relaxed) {
                std::thread::yield_now();
            }
            Err(GuestError::Cancelled)
        }));
        let cancel = AtomicBool::new(true);
        assert_eq!(failed(queue.wait(&spec("v", 1), &cancel, &mut || ())), "cancelled");
        // Ends because a running guest is stopped.
        drop(queue);
    }
}
