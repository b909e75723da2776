//! Histograms of times: buckets of equal ratio, the same whichever source fills them. Pure.

use crate::model::Bucket;

const FIRST_BIT: u32 = 8;
const LAST_BIT: u32 = 35;
/// Waits have 2^3 buckets for each doubling from 256 ns, slices 2^2.
pub const WAIT_BITS: u32 = 3;
pub const SLICE_BITS: u32 = 2;
pub const WAIT_BUCKETS: usize = buckets(WAIT_BITS);
pub const SLICE_BUCKETS: usize = buckets(SLICE_BITS);

const fn buckets(bits: u32) -> usize {
    2 + (((LAST_BIT - FIRST_BIT) as usize) << bits)
}

/// The smallest time that a bucket counts, and the smallest that it no longer does.
pub fn bucket_range(bucket: usize, bits: u32) -> (u64, u64) {
    let octaves = (LAST_BIT - FIRST_BIT) as usize;
    let low = |bucket: usize| match bucket {
        0 => 0,
        _ if bucket > octaves << bits => 1 << LAST_BIT,
        _ => {
            let (octave, part) = ((bucket - 1) >> bits, (bucket - 1) & ((1 << bits) - 1));
            ((1u64 << bits) + part as u64) << (octave as u32 + FIRST_BIT - bits)
        }
    };
    (low(bucket), if bucket > octaves << bits { u64::MAX } else { low(bucket + 1) })
}

/// The buckets that have counted something.
pub fn counted<T: Copy + Into<u64>>(counts: &[T], bits: u32) -> Vec<Bucket> {
    let counts = counts.iter().map(|count| (*count).into()).enumerate();
    let mut buckets: Vec<Bucket> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(bucket, count)| {
            let (low_ns, high_ns) = bucket_range(bucket, bits);
            Bucket { low_ns, high_ns, count }
        })
        .collect();
    // There may be many thousands of them.
    buckets.shrink_to_fit();
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_as_narrow_as_reported() {
        for (bits, count) in [(WAIT_BITS, WAIT_BUCKETS), (SLICE_BITS, SLICE_BUCKETS)] {
            let ranges: Vec<(u64, u64)> =
                (0..count).map(|bucket| bucket_range(bucket, bits)).collect();
            assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0), "{ranges:?}");
            assert_eq!((ranges[0], ranges[1].0), ((0, 256), 256));
            assert_eq!(ranges[count - 1], (1 << 35, u64::MAX));
            for (low, high) in &ranges[1..count - 1] {
                assert!((high - low) << bits <= *low, "{low} to {high}");
            }
        }
    }
}
