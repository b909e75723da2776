//! The histograms of one worker set: one of each kind for every CPU.
//!
//! A worker records into those of the CPU that it runs on. Their lines stay in that CPU's
//! cache, and their memory does not grow with the number of workers: a thousand workers with
//! histograms of their own would push each other's out of the caches, and the workload's data
//! with them. A worker may be moved or preempted between reading the CPU's number and
//! recording; counts are added atomically, so no sample is dropped, and the line moves once.
//!
//! A histogram is 29 KiB. Its pages are touched before the start by a thread on that CPU, so
//! that they are on its NUMA node, except the two at its ends, which neighbours may share.

use std::io;

use crate::stats::{Histogram, Recorder};
use crate::sys::{sched, shared, topology};

#[derive(Clone, Copy)]
pub struct Recorders {
    /// CPU after CPU: its histograms.
    all: &'static [Recorder],
    kinds: usize,
    cpus: usize,
}

impl Recorders {
    /// Empty, shared with processes that are forked later.
    pub fn new(kinds: usize) -> io::Result<Recorders> {
        let cpus = topology::configured_cpus();
        Ok(Recorders { all: shared::leak_slice(kinds * cpus)?, kinds, cpus })
    }

    /// Histogram `kind` of the CPU that the caller runs on.
    #[inline]
    pub fn here(&self, kind: usize) -> &'static Recorder {
        &self.all[self.first_of(sched::current_cpu()) + kind]
    }

    #[inline]
    fn first_of(&self, cpu: usize) -> usize {
        // Numbers may have holes and exceed the count; then two CPUs share. The division is
        // left out where it is not needed: this is the hot path.
        let position = if cpu < self.cpus { cpu } else { cpu % self.cpus };
        position * self.kinds
    }

    /// Takes the page faults of the histograms of the CPU that the caller is on.
    pub fn prefault_here(&self) {
        (0..self.kinds).for_each(|kind| self.here(kind).prefault());
    }

    /// The number of histograms that a CPU has.
    pub fn kinds(&self) -> usize {
        self.kinds
    }

    /// Histogram `kind`, over all CPUs.
    pub fn merged(&self, kind: usize) -> Histogram {
        let mut merged = Histogram::default();
        self.all.iter().skip(kind).step_by(self.kinds).for_each(|own| merged.merge(own));
        merged
    }

    /// The histograms of all kinds, in order.
    pub fn all_merged(&self) -> Vec<Histogram> {
        (0..self.kinds).map(|kind| self.merged(kind)).collect()
    }

    /// See [`Recorder::forget_extremes`].
    pub fn forget_extremes(&self) {
        self.all.iter().for_each(Recorder::forget_extremes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_merged_over_the_cpus() {
        let recorders = Recorders::new(2).unwrap();
        for cpu in topology::affinity().unwrap().iter() {
            std::thread::spawn(move || {
                sched::set_affinity(0, &[cpu].into_iter().collect()).unwrap();
                recorders.prefault_here();
                recorders.here(0).record(u64::from(cpu) + 1);
                recorders.here(1).record(50);
            })
            .join()
            .unwrap();
        }
        let cpus = topology::affinity().unwrap();
        let merged = recorders.all_merged();
        assert_eq!(merged.iter().map(Histogram::total).collect::<Vec<_>>(), [cpus.len() as u64; 2]);
        assert_eq!(merged[0].max_ns(), cpus.iter().last().map(|cpu| u64::from(cpu) + 1));
        assert_eq!(merged[1].min_ns(), Some(50));
        let touched = |recorder: &&Recorder| {
            let mut own = Histogram::default();
            own.merge(recorder);
            own.total() > 0
        };
        let used = recorders.all.iter().filter(touched).count();
        assert_eq!(used, 2 * cpus.len().min(recorders.cpus), "each CPU has its own");
    }
}
