//! Latencies that had begun and not ended when a worker set was read for the last time, with the
//! age that they had. Pure.

use crate::stats::Histogram;

pub struct UnderWay {
    end_ns: u64,
    /// Ages by histogram.
    ages: Vec<Histogram>,
}

impl UnderWay {
    /// Begins with so many histograms, at this moment.
    pub fn new(histograms: usize, end_ns: u64) -> UnderWay {
        UnderWay { end_ns, ages: vec![Histogram::default(); histograms] }
    }

    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// A latency that began at `begin_ns`; none that begins later than the end.
    pub fn add(&mut self, histogram: usize, begin_ns: u64) {
        let age_ns = self.end_ns.checked_sub(begin_ns).filter(|age_ns| *age_ns > 0);
        if let (Some(ages), Some(age_ns)) = (self.ages.get_mut(histogram), age_ns) {
            ages.add(age_ns, 1);
        }
    }

    /// Latencies that began at `first_ns` and at every `period_ns` from then on.
    pub fn add_each(&mut self, histogram: usize, first_ns: u64, period_ns: u64) {
        let all = (first_ns..self.end_ns).step_by(period_ns as usize);
        all.for_each(|begin_ns| self.add(histogram, begin_ns));
    }

    /// The ages by histogram.
    pub fn into_ages(self) -> Vec<Histogram> {
        self.ages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_at_the_end_of_what_began_before_it() {
        let mut found = UnderWay::new(2, 100);
        [10, 99, 100, 101].into_iter().for_each(|begin_ns| found.add(1, begin_ns));
        found.add_each(1, 40, 25);
        found.add(2, 10);
        let ages = found.into_ages();
        assert_eq!((ages.len(), ages[0].total()), (2, 0));
        // 90 and 1; 60, 35 and 10.
        assert_eq!(ages[1].sparse(), [(1, 1), (10, 1), (35, 1), (60, 1), (90, 1)]);
    }
}
