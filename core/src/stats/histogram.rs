//! Latency histograms over the whole range of 64-bit nanoseconds.
//!
//! [`Recorder`] is the measuring side: fixed size, no allocation, no lock; any number of
//! threads may record, and it is meant for those of one CPU, so that its cache lines stay
//! there. [`Histogram`] is the merged side, with quantiles. Both use the same buckets: exact
//! below 128 ns, then 128 per octave up to 2^32 ns (4.3 s), so a bucket is at most 0.8 % wide;
//! 8 per octave above that. Minimum, maximum and sum are exact. Pure: no clock is read here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::Zeroable;

const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;
/// Values from `1 << FINE_BITS` ns on are counted in the coarse buckets.
const FINE_BITS: u32 = 32;
const FINE: usize = (FINE_BITS - SUB_BITS + 1) as usize * SUB;
const COARSE_SUB_BITS: u32 = 3;
const COARSE: usize = (64 - FINE_BITS as usize) << COARSE_SUB_BITS;
const BUCKETS: usize = FINE + COARSE;

/// The bucket that counts `value_ns`.
#[inline]
pub fn bucket_of(value_ns: u64) -> usize {
    if value_ns < SUB as u64 {
        return value_ns as usize;
    }
    let octave = 63 - value_ns.leading_zeros();
    if octave < FINE_BITS {
        let shift = octave - SUB_BITS;
        (shift as usize + 1) * SUB + ((value_ns >> shift) as usize - SUB)
    } else {
        let sub = (value_ns >> (octave - COARSE_SUB_BITS)) as usize & ((1 << COARSE_SUB_BITS) - 1);
        FINE + (((octave - FINE_BITS) as usize) << COARSE_SUB_BITS) + sub
    }
}

/// The smallest and the largest value that `bucket` counts, in ns.
pub fn bucket_range(bucket: usize) -> (u64, u64) {
    if bucket < SUB {
        return (bucket as u64, bucket as u64);
    }
    let (low, shift) = if bucket < FINE {
        let shift = (bucket / SUB - 1) as u32;
        ((SUB + bucket % SUB) as u64, shift)
    } else {
        let coarse = bucket - FINE;
        let shift = (coarse >> COARSE_SUB_BITS) as u32 + FINE_BITS - COARSE_SUB_BITS;
        let sub = 1 << COARSE_SUB_BITS;
        ((sub + (coarse & (sub - 1))) as u64, shift)
    };
    (low << shift, (low << shift) + ((1u64 << shift) - 1))
}

/// The measuring side. Others may read while threads record: each bucket then has its value of some moment of the
/// reading.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Recorder {
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
    /// `u64::MAX - min`, so that zeroed memory is an empty recorder.
    min_inverted: AtomicU64,
    counts: [AtomicU64; BUCKETS],
}

impl Recorder {
    /// Counts one sample.
    #[inline]
    pub fn record(&self, value_ns: u64) {
        self.counts[bucket_of(value_ns)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(value_ns, Relaxed);
        if value_ns > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(value_ns, Relaxed);
        }
        if !value_ns > self.min_inverted.load(Relaxed) {
            self.min_inverted.fetch_max(!value_ns, Relaxed);
        }
    }

    /// Touches the pages that count up to a second, so that the timed section takes no page
    /// fault here. A latency beyond that meets one, which it hides.
    pub fn prefault(&self) {
        const PAGE_WORDS: usize = 4096 / size_of::<AtomicU64>();
        let touched = &self.counts[..bucket_of(1_000_000_000)];
        for count in touched.iter().step_by(PAGE_WORDS).chain(touched.last()) {
            count.fetch_add(0, Relaxed);
        }
        self.sum_ns.fetch_add(0, Relaxed);
    }

    /// Makes minimum and maximum those of samples from now on; the counts stay. With [`Histogram::since`] this
    /// begins a new period while threads record. A sample that is being recorded at this moment may count in the
    /// new period and be in neither extreme.
    pub fn forget_extremes(&self) {
        self.max_ns.store(0, Relaxed);
        self.min_inverted.store(0, Relaxed);
    }
}

/// The merged side: counts of any number of recorders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

/// Values, each with how many times it came.
impl FromIterator<(u64, u64)> for Histogram {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(samples: I) -> Self {
        let mut histogram = Histogram::default();
        samples.into_iter().for_each(|(value_ns, times)| histogram.add(value_ns, times));
        histogram
    }
}

impl Histogram {
    /// Counts `times` samples of one value.
    pub fn add(&mut self, value_ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.counts[bucket_of(value_ns)] += times;
        self.total += times;
        self.sum_ns += u128::from(value_ns) * u128::from(times);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Counts all samples of another histogram.
    pub fn add_all(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn merge(&mut self, recorder: &Recorder) {
        let mut added = 0u64;
        for (sum, count) in self.counts.iter_mut().zip(&recorder.counts) {
            let count = count.load(Relaxed);
            *sum += count;
            added += count;
        }
        self.total += added;
        if added > 0 {
            self.sum_ns += u128::from(recorder.sum_ns.load(Relaxed));
            self.min_ns = self.min_ns.min(!recorder.min_inverted.load(Relaxed));
            self.max_ns = self.max_ns.max(recorder.max_ns.load(Relaxed));
            if self.min_ns > self.max_ns {
                self.fit_extremes();
            }
        }
    }

    /// A sample whose recording is under way, or was while extremes were forgotten, may be in
    /// neither of them: then the buckets bound them.
    fn fit_extremes(&mut self) {
        let counted = |count: &u64| *count > 0;
        let first = self.counts.iter().position(counted).map(bucket_range);
        let last = self.counts.iter().rposition(counted).map(bucket_range);
        let (Some((low, high)), Some((last_low, last_high))) = (first, last) else { return };
        if !(low..=high).contains(&self.min_ns) {
            self.min_ns = low;
        }
        if !(last_low..=last_high).contains(&self.max_ns) {
            self.max_ns = last_high;
        }
    }

    /// The counts since `earlier`, a reading of the same recorders after which [`Recorder::forget_extremes`] was
    /// called on them.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let counts = self.counts.iter().zip(&earlier.counts);
        let counts: Vec<u64> = counts.map(|(now, before)| now.saturating_sub(*before)).collect();
        let mut new = Histogram {
            total: counts.iter().sum(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            counts,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
        };
        match new.total {
            0 => Histogram::default(),
            _ => {
                new.fit_extremes();
                new
            }
        }
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn max_ns(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max_ns)
    }

    pub fn min_ns(&self) -> Option<u64> {
        (self.total > 0).then_some(self.min_ns)
    }

    pub fn mean_ns(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum_ns as f64 / self.total as f64)
    }

    /// How many samples lie in the buckets up to that of `value_ns`, itself included.
    pub fn count_through(&self, value_ns: u64) -> u64 {
        self.counts[..=bucket_of(value_ns)].iter().sum()
    }

    /// The nearest-rank quantile, `0 < q <= 1`: at least `q` of the samples are at most
    /// this. Inside a bucket samples are taken as evenly spread; the error is at most one
    /// bucket's width (0.8 % below 4.3 s, 12.5 % above). `None` without samples.
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((q * self.total as f64).ceil() as u64).clamp(1, self.total);
        if rank == self.total {
            return Some(self.max_ns as f64);
        }
        let mut below = 0;
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            if below + count >= rank {
                let (low, high) = bucket_range(bucket);
                let into = ((rank - below) as f64 - 0.5) / count as f64;
                let value = low as f64 + (high - low) as f64 * into;
                return Some(value.clamp(self.min_ns as f64, self.max_ns as f64));
            }
            below += count;
        }
        Some(self.max_ns as f64)
    }

    /// Ascending `(value, count)`: the middle of each bucket that is not empty, with the
    /// first and the last moved to the exact minimum and maximum.
    pub fn sparse(&self) -> Vec<(u64, u64)> {
        let mut sparse: Vec<(u64, u64)> = Vec::new();
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (low, high) = bucket_range(bucket);
            let middle = (low + (high - low) / 2).clamp(self.min_ns, self.max_ns);
            sparse.push((middle, count));
        }
        move_end(&mut sparse, 0, self.min_ns);
        let last = sparse.len();
        move_end(&mut sparse, last, self.max_ns);
        sparse
    }
}

/// Splits one sample off the first (`at` = 0) or last entry and gives it its exact value.
fn move_end(sparse: &mut Vec<(u64, u64)>, at: usize, exact: u64) {
    let entry = if at == 0 { sparse.first_mut() } else { sparse.last_mut() };
    let Some(entry) = entry else { return };
    if entry.1 == 1 {
        entry.0 = exact;
    } else if entry.0 != exact {
        entry.1 -= 1;
        sparse.insert(at, (exact, 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorder() -> Box<Recorder> {
        bytemuck::zeroed_box()
    }

    #[test]
    fn buckets_join_without_gap_or_overlap_over_the_whole_range() {
        let mut next = 0u64;
        for bucket in 0..BUCKETS {
            let (low, high) = bucket_range(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert_eq!(bucket_of(low), bucket);
            assert_eq!(bucket_of(high), bucket);
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at u64::MAX");
    }

    #[test]
    fn extremes_are_counted_and_exact() {
        let recorder = recorder();
        for value in [0, u64::MAX, 1] {
            recorder.record(value);
        }
        let mut merged = Histogram::default();
        merged.merge(&recorder);
        assert_eq!(
            (merged.total(), merged.min_ns(), merged.max_ns()),
            (3, Some(0), Some(u64::MAX))
        );
        assert_eq!(merged.quantile_ns(0.5), Some(1.0));
        assert_eq!(merged.sparse(), vec![(0, 1), (1, 1), (u64::MAX, 1)]);
    }

    #[test]
    fn threads_that_record_at_once_lose_no_sample() {
        const EACH: u64 = 50_000;
        let recorder = recorder();
        std::thread::scope(|threads| {
            for first in 0..4 {
                let recorder = &recorder;
                threads.spawn(move || {
                    (0..EACH).for_each(|n| recorder.record(1_000 + (first + n) % 100));
                });
            }
        });
        let mut merged = Histogram::default();
        merged.merge(&recorder);
        assert_eq!(merged.total(), 4 * EACH);
        assert_eq!((merged.min_ns(), merged.max_ns()), (Some(1_000), Some(1_099)));
        assert_eq!(merged.mean_ns(), Some(1_049.5));
    }

    #[test]
    fn a_new_period_has_its_own_counts_and_extremes() {
        let recorder = recorder();
        let merged = || {
            let mut merged = Histogram::default();
            merged.merge(&recorder);
            merged
        };
        [3, 1_000_000].into_iter().for_each(|value| recorder.record(value));
        let before = merged();
        recorder.forget_extremes();
        assert_eq!(merged().since(&before), Histogram::default(), "an empty period");
        [700, 501, 599].into_iter().for_each(|value| recorder.record(value));
        let period = merged().since(&before);
        assert_eq!((period.total(), period.mean_ns()), (3, Some(600.0)));
        assert_eq!((period.min_ns(), period.max_ns()), (Some(501), Some(700)));
        // A sample caught between the reading and the forgetting is in no extreme.
        recorder.forget_extremes();
        let (_, high) = bucket_range(bucket_of(700));
        assert_eq!(merged().since(&before).max_ns(), Some(high));
        assert_eq!(merged().since(&before).min_ns(), Some(500), "where its bucket begins");
        let before = merged();
        [5_000, 5_001].into_iter().for_each(|value| recorder.record(value));
        recorder.forget_extremes();
        let lost = merged().since(&before);
        let (low, high) = bucket_range(bucket_of(5_000));
        assert_eq!((lost.min_ns(), lost.max_ns()), (Some(low), Some(high)));
        assert!(lost.quantile_ns(0.5).is_some_and(|p50| (low as f64..=high as f64).contains(&p50)));
    }

    #[test]
    fn samples_are_counted_through_a_bucket_and_no_further() {
        let samples = [(0, 1), (127, 2), (1 << 20, 4), ((1 << 20) + 1, 8), (u64::MAX, 16)];
        let histogram = Histogram::from_iter(samples);
        let cases = [(0, 1), (126, 1), (127, 3), (1 << 19, 3), (1 << 20, 15), (u64::MAX, 31)];
        for (value, expected) in cases {
            assert_eq!(histogram.count_through(value), expected, "{value}");
        }
        assert_eq!(Histogram::default().count_through(u64::MAX), 0);
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        let empty = Histogram::default();
        assert_eq!((empty.quantile_ns(0.5), empty.mean_ns(), empty.max_ns()), (None, None, None));
        assert!(empty.sparse().is_empty());
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_bucket_of_the_sorted_samples(
            mut samples in proptest::collection::vec(0u64..1 << 32, 1..300),
            q in 0.001f64..=1.0,
        ) {
            let recorder = recorder();
            samples.iter().for_each(|&value| recorder.record(value));
            let mut merged = Histogram::default();
            merged.merge(&recorder);
            samples.sort_unstable();
            let rank = ((q * samples.len() as f64).ceil() as usize).clamp(1, samples.len());
            let exact = samples[rank - 1];
            let (low, high) = bucket_range(bucket_of(exact));
            let got = merged.quantile_ns(q).unwrap();
            prop_assert!(got >= low as f64 && got <= high as f64, "{got} not in {low}..={high}");
            prop_assert!((high - low) as f64 <= 0.008 * low as f64);
        }

        #[test]
        fn sparse_counts_keep_total_minimum_and_maximum(
            samples in proptest::collection::vec(any::<u64>(), 1..200),
        ) {
            let recorder = recorder();
            samples.iter().for_each(|&value| recorder.record(value));
            let mut merged = Histogram::default();
            merged.merge(&recorder);
            let sparse = merged.sparse();
            let count: u64 = sparse.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(count, samples.len() as u64);
            prop_assert_eq!(sparse.first().unwrap().0, *samples.iter().min().unwrap());
            prop_assert_eq!(sparse.last().unwrap().0, *samples.iter().max().unwrap());
            prop_assert!(sparse.is_sorted_by_key(|(value, _)| *value));
            let again: Histogram = sparse.into_iter().collect();
            prop_assert!(again.counts == merged.counts, "a value is not in its bucket");
        }
    }
}
