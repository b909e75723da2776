//! A worker's work for each request: a sleep, then math under a lock.

use std::time::Duration;

use crate::model::{Params, Value};
use crate::sys::clock;
use crate::workload::burn::{Burner, Work};
use crate::workload::params::{bytes, duration_ns, flag, int, optional_work};
use crate::workload::{Worker, WorkloadError};

use super::locks::CpuLocks;
use super::matrix::{self, Matrices};
use super::spec::REQUEST;

/// The parts of a request.
pub struct Rules {
    pub own_width: usize,
    pub shared_width: usize,
    pub own_operations: u64,
    pub shared_operations: u64,
    pub sleep: Duration,
    pub locking: bool,
    pub calibrate: bool,
    /// Work in place of matrices.
    pub timed: Option<Work>,
}

impl Rules {
    pub fn from_params(params: &Params) -> Result<Rules, WorkloadError> {
        let footprint = bytes(params, "cache-footprint")?;
        let operations = int(params, "operations")?;
        let calibrate = flag(params, "calibrate")?;
        let mut rules = Rules {
            own_width: matrix::width(footprint),
            shared_width: 0,
            own_operations: operations,
            shared_operations: 0,
            sleep: Duration::from_nanos(duration_ns(params, "sleep")?),
            locking: !flag(params, "no-locking")? && !calibrate,
            calibrate,
            timed: optional_work(params, "request"),
        };
        if let Some(own) = params.get("split").and_then(Value::as_percent) {
            // In whole KiB and whole operations, rounded down, as schbench does.
            let kib = |percent: f64| ((footprint >> 10) as f64 * percent / 100.0) as u64;
            rules.own_width = matrix::width(kib(own) << 10);
            rules.shared_width = matrix::width(kib(100.0 - own) << 10);
            rules.own_operations = (operations as f64 * own / 100.0) as u64;
            rules.shared_operations = operations - rules.own_operations;
        }
        Ok(rules)
    }
}

pub struct Job<'a> {
    pub rules: &'a Rules,
    pub own: Matrices,
    pub shared: Matrices,
    pub locks: Option<&'a CpuLocks>,
    pub timed: Option<(Burner, Work)>,
}

impl Job<'_> {
    /// Takes the page faults of the first request.
    pub fn prefault(&self) {
        self.own.prefault();
        self.shared.prefault();
    }

    /// Returns the time of its end.
    #[inline]
    pub fn request(&mut self, worker: &Worker) -> u64 {
        let mut begin_ns = clock::monotonic_ns();
        if !self.rules.calibrate {
            worker.begin(REQUEST, begin_ns);
        }
        if !self.rules.sleep.is_zero() {
            std::thread::sleep(self.rules.sleep);
        }
        if self.rules.calibrate {
            begin_ns = clock::monotonic_ns();
            worker.begin(REQUEST, begin_ns);
        }
        let held = self.locks.map(CpuLocks::hold);
        match &mut self.timed {
            Some((burner, work)) => burner.burn(*work),
            None => {
                (0..self.rules.shared_operations).for_each(|_| self.shared.multiply());
                (0..self.rules.own_operations).for_each(|_| self.own.multiply());
            }
        }
        drop(held);
        let end_ns = clock::monotonic_ns();
        worker.record(REQUEST, end_ns, end_ns - begin_ns);
        worker.add_ops(1);
        end_ns
    }
}
