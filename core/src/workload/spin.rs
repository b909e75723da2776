//! `spin`: pure CPU. Solo runs and background load.

use std::hint::black_box;

use crate::model::{Kind, Params, fields};

use super::burn::{Burner, Speed, Work};
use super::{Load, Request, Role, Spec, WORK_TIME, Worker, Workload, WorkloadError, params};

pub struct Spin;

const SPEC: Spec = Spec {
    name: "spin",
    about: "pure CPU: a dependent chain of integer operations, never sleeping",
    params: fields! {
        "batch": Kind::Int { min: 1, max: 1 << 32 }, "10000" =>
            "steps of the chain in one operation";
        "work": WORK_TIME => "CPU time of one operation at full speed, in place of the chain";
    },
    roles: &[Role { name: "spin", counts: true }],
    ops: "batches",
    ..Spec::PLAIN
};

impl Workload for Spin {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        Ok(match params::optional_work(request.params, "work") {
            Some(work) => Box::new(Bursts { work, speed: request.speed }),
            None => Box::new(Chain { batch: params::int(request.params, "batch")? }),
        })
    }

    fn can_rest(&self, _params: &Params) -> bool {
        true
    }

    fn is_timed(&self, params: &Params) -> bool {
        params.contains_key("work")
    }

    /// Throughput is what counts, so it is no other load on another machine.
    fn is_executed(&self, params: &Params) -> bool {
        !self.is_timed(params)
    }

    fn max_samples_per_s(&self, request: &Request) -> Option<f64> {
        let work = params::optional_work(request.params, "work")?;
        request.max_per_s(request.count.into(), work.ns(), 0)
    }
}

struct Bursts {
    work: Work,
    speed: Speed,
}

impl Load for Bursts {
    fn work(&self, _index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let mut burner = Burner::new(self.speed);
        worker.start();
        while worker.running() {
            burner.burn(self.work);
            worker.add_ops(1);
        }
        Ok(())
    }
}

struct Chain {
    batch: u64,
}

impl Load for Chain {
    fn work(&self, _index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let mut state = worker.seed() | 1;
        worker.start();
        while worker.running() {
            for _ in 0..self.batch {
                state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            worker.add_ops(1);
        }
        Ok(())
    }
}
