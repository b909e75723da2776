//! `schbench`: message threads hand out turns, workers sleep a little and multiply matrices under a per-CPU lock.
//! The semantics of schbench v1.0; each place says where it measures and how it differs.
//!
//! A set is N copies of the whole; in each, every message thread has workers of its own. A message thread hands out
//! one of three things, depending on the mode: [`turns`], requests at a [`rate`], or bytes ([`transfer`]).

mod arrivals;
mod buffers;
mod governor;
mod group;
mod locks;
mod matrix;
mod pins;
mod rate;
mod request;
mod shape;
mod spec;
mod transfer;
mod turns;

use crate::model::{CpuSet, Metric, MetricKind, MetricSpec, Params, Reading, Statistic};
use crate::stats::nearest_rank;
use crate::sys::{futex::Scope, shared};
use crate::workload::burn::{Burner, Speed, Work};

use super::{
    Latency, Load, Measured, Request, Slot, Spec, UnderWay, Worker, Workload, WorkloadError,
};
use arrivals::{Arrivals, Pattern};
use governor::Governor;
use group::Group;
use locks::CpuLocks;
use matrix::Matrices;
use pins::Pins;
use rate::Pace;
use request::{Job, Rules};
use shape::{Mode, Place, Shape};
use spec::{GOVERNOR, MESSAGE, RESPONSE, RPS_QUANTILES, SPEC, WAKEUP, WORKER};

pub struct Schbench;

impl Workload for Schbench {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        let shape = Shape::from_request(request)?;
        Pins::choose(request.params, request.pool, &shape)?;
        let role = |place| match place {
            Place::Message { .. } => MESSAGE,
            Place::Worker { .. } => WORKER,
            Place::Governor { .. } => GOVERNOR,
        };
        Ok(shape.places().map(role).collect())
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let shape = Shape::from_request(request)?;
        let pins = Pins::choose(request.params, request.pool, &shape)?;
        let rules = Rules::from_params(request.params)?;
        let arrivals = shape::pattern(request.params)?;
        let scope = request.scope();
        let in_bursts = request.speed.is_spent_in_bursts();
        let copies = (0..shape.copies)
            .map(|_| Instance::new(&shape, &rules, (scope, in_bursts)))
            .collect::<std::io::Result<_>>()
            .map_err(|source| WorkloadError::system("allocate what workers share", source))?;
        Ok(Box::new(Running { shape, pins, rules, arrivals, scope, copies, speed: request.speed }))
    }

    fn is_timed(&self, params: &Params) -> bool {
        params.contains_key("request")
    }

    /// Multiplications of matrices.
    fn is_counted(&self, params: &Params) -> bool {
        let has_requests = !matches!(Mode::from_params(params), Ok(Mode::Pipe { .. }));
        let is_counted = |rules: Rules| rules.own_operations + rules.shared_operations > 0;
        has_requests && !self.is_timed(params) && Rules::from_params(params).is_ok_and(is_counted)
    }

    fn max_samples_per_s(&self, request: &Request) -> Option<f64> {
        let (shape, rules) =
            (Shape::from_request(request).ok()?, Rules::from_params(request.params).ok()?);
        match shape.mode {
            Mode::Rate { rps, target_percent: None } => Some((shape.copies as u64 * rps) as f64),
            Mode::Saturate => {
                let workers = (shape.copies * shape.groups * shape.threads) as u64;
                let work_ns = rules.timed.map_or(0, Work::ns);
                request.max_per_s(workers, work_ns, rules.sleep.as_nanos() as u64)
            }
            Mode::Rate { .. } | Mode::Pipe { .. } => None,
        }
    }

    fn histograms(&self, params: &Params) -> &'static [Latency] {
        Mode::from_params(params).map_or(SPEC.histograms, spec::histograms)
    }

    fn metrics(&self, params: &Params) -> Vec<MetricKind> {
        let specs = Mode::from_params(params).map_or(SPEC.metrics, spec::metrics);
        specs.iter().map(MetricSpec::kind).collect()
    }
}

/// The state that the workers of one copy share.
struct Instance {
    groups: Vec<Group>,
    locks: Option<CpuLocks>,
    shared: Matrices,
    /// The pace, at a rate only.
    pace: Option<&'static Pace>,
}

impl Instance {
    fn new(
        shape: &Shape,
        rules: &Rules,
        (scope, in_bursts): (Scope, bool),
    ) -> std::io::Result<Instance> {
        let requests = !matches!(shape.mode, Mode::Pipe { .. });
        let at_a_rate = matches!(shape.mode, Mode::Rate { .. });
        let shared_width = if requests { rules.shared_width } else { 0 };
        let pace = at_a_rate.then(shared::leak::<Pace>).transpose()?;
        pace.inspect(|pace| pace.set_per_s(shape.first_rps()));
        Ok(Instance {
            groups: (0..shape.groups)
                .map(|_| Group::new(shape, scope))
                .collect::<Result<_, _>>()?,
            locks: (requests && rules.locking).then(|| CpuLocks::new(in_bursts)).transpose()?,
            shared: match scope {
                Scope::Private => Matrices::private(shared_width)?,
                Scope::Shared => Matrices::shared(shared_width)?,
            },
            pace,
        })
    }
}

struct Running {
    shape: Shape,
    pins: Pins,
    rules: Rules,
    arrivals: Pattern,
    scope: Scope,
    copies: Vec<Instance>,
    speed: Speed,
}

impl Load for Running {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        match self.shape.place(index) {
            Place::Message { copy, group } => {
                self.message(&self.copies[copy], group, worker);
                Ok(())
            }
            Place::Worker { copy, group, seat } => {
                self.worker(&self.copies[copy], group, seat, worker)
            }
            Place::Governor { copy } => self.govern(&self.copies[copy], worker),
        }
    }

    fn cpus(&self, index: usize) -> Option<CpuSet> {
        let number = |copy: usize, group: usize| copy * self.shape.groups + group;
        match self.shape.place(index) {
            Place::Message { copy, group } => self.pins.message(number(copy, group)).cloned(),
            Place::Worker { copy, group, .. } => self.pins.worker(number(copy, group)).cloned(),
            Place::Governor { .. } => None,
        }
    }

    fn under_way(&self, index: usize, slot: &Slot, found: &mut UnderWay) {
        let Place::Worker { copy, group, seat } = self.shape.place(index) else { return };
        let group = &self.copies[copy].groups[group];
        for (histogram, begun_ns) in slot.begun() {
            let begun_ns = match histogram {
                // Message threads may still post to a worker that has ended, and nobody wakes.
                WAKEUP if slot.has_ended() => None,
                WAKEUP => group.seats[seat].posted_since(begun_ns),
                _ => Some(begun_ns),
            };
            begun_ns.into_iter().for_each(|begun_ns| found.add(histogram, begun_ns));
        }
        let waiting = group.inboxes.get(seat).map(|inbox| inbox.not_done(slot.ops()));
        waiting.into_iter().flatten().for_each(|arrived_ns| found.add(RESPONSE, arrived_ns));
    }

    fn release(&self) {
        for Group { message, seats, .. } in self.copies.iter().flat_map(|copy| &copy.groups) {
            message.release(self.scope);
            seats.iter().for_each(|seat| seat.release(self.scope));
        }
    }

    fn metrics(&self, measured: &Measured) -> Vec<Metric> {
        let mut windows = measured.window_ops_per_s.clone();
        windows.sort_by(f64::total_cmp);
        let quantiles = RPS_QUANTILES.map(|permille| {
            let statistic = Statistic::Quantile(1_000 * permille);
            match statistic.too_few(windows.len() as u64, "windows") {
                Some(why) => Reading::Unknown(why),
                None => {
                    Reading::from_option(nearest_rank(&windows, permille), "no window was measured")
                }
            }
        });
        let dropped = measured.counters[spec::DROPPED] as f64 * 1e9 / measured.measured_ns as f64;
        let goal = self.copies.iter().filter_map(|copy| copy.pace).map(|pace| pace.per_s());
        let goal = Reading::Known(goal.sum::<u64>() as f64);
        let values = quantiles.into_iter().chain([Reading::Known(dropped), goal]);
        let specs = spec::metrics(self.shape.mode).iter();
        specs.zip(values).map(|(spec, value)| spec.reading(value)).collect()
    }
}

impl Running {
    fn message(&self, copy: &Instance, index: usize, worker: &Worker) {
        let group = &copy.groups[index];
        match (&group.buffers, copy.pace) {
            (Some(buffers), _) => transfer::send(group, buffers, self.scope, worker),
            (None, None) => turns::hand_out(group, self.scope, worker),
            (None, Some(pace)) => {
                let of = self.shape.groups as u64;
                let arrivals = Arrivals::new(self.arrivals, index as u64, of, worker.seed());
                rate::hand_out(group, pace, arrivals, self.scope, worker)
            }
        }
    }

    fn worker(
        &self,
        copy: &Instance,
        group: usize,
        index: usize,
        worker: &Worker,
    ) -> Result<(), WorkloadError> {
        let group = &copy.groups[group];
        if let Some(buffers) = &group.buffers {
            transfer::answer(group, buffers, index, self.scope, worker);
            return Ok(());
        }
        let own = Matrices::private(self.rules.own_width)
            .map_err(|source| WorkloadError::system("allocate a worker's matrices", source))?;
        let mut job = Job {
            rules: &self.rules,
            own,
            shared: copy.shared,
            locks: copy.locks.as_ref(),
            timed: self.rules.timed.map(|work| (Burner::new(self.speed), work)),
        };
        job.prefault();
        match copy.pace {
            None => turns::take(group, index, self.scope, &mut job, worker),
            Some(_) => rate::take(group, index, self.scope, &mut job, worker),
        }
        Ok(())
    }

    fn govern(&self, copy: &Instance, worker: &Worker) -> Result<(), WorkloadError> {
        let (Mode::Rate { target_percent: Some(target_percent), .. }, Some(pace)) =
            (self.shape.mode, copy.pace)
        else {
            return Err(WorkloadError::Unset("auto-rps"));
        };
        let min_per_s = self.shape.groups as u64;
        Governor { pace, target_percent, min_per_s }.govern(worker)
    }
}

#[cfg(test)]
mod tests;
