//! Latency histograms as others read them: HdrHistogram, V2 encoding, compressed (the form
//! of HdrHistogram's logs, which its Java, C, Go, Python and JavaScript libraries decode).
//!
//! An HdrHistogram of three digits rounds a value by up to 0.1 %. It is read back, as its
//! libraries do, as the highest value of its bucket; the middles of our own buckets are
//! such values, so of what `stats` records only the exact minimum and maximum are rounded.
//! Those samples are named next to it, whoever made the counts, and nothing is lost.
//! Pure: docs/formats.md describes the format.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

const DIGITS: u8 = 3;
/// Other libraries count in signed 64-bit integers. What lies above is counted at this
/// value, and named exactly.
const LARGEST: u64 = i64::MAX as u64;

/// A histogram as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encoded {
    pub hdr: Vec<u8>,
    /// The samples that `hdr` rounds: ascending `(value, count)`.
    pub exact: Vec<(u64, u64)>,
    pub samples: u64,
}

/// Encodes ascending `(value, count)` entries; fails with what is wrong with others.
pub(super) fn encode(counts: &[(u64, u64)]) -> Result<Encoded, String> {
    if let Some(pair) = counts.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("values do not ascend: {} comes before {}", pair[0].0, pair[1].0));
    }
    let mut samples = 0u64;
    for &(value, count) in counts {
        samples = samples.saturating_add(count);
        if count == 0 || samples > LARGEST {
            return Err(format!("the count {count} of {value} ns is not from 1 to 2^63-1 in all"));
        }
    }
    let top = counts.last().map_or(2, |&(value, _)| value.clamp(2, LARGEST));
    let mut hdr =
        Histogram::<u64>::new_with_bounds(1, top, DIGITS).map_err(|why| why.to_string())?;
    let mut exact = Vec::new();
    for &(value, count) in counts {
        hdr.record_n(value.min(LARGEST), count).map_err(|why| why.to_string())?;
        if carrier(&hdr, value) != value {
            exact.push((value, count));
        }
    }
    let mut bytes = Vec::new();
    let encoded = V2DeflateSerializer::new().serialize(&hdr, &mut bytes);
    encoded.map_err(|why| format!("{why:?}"))?;
    Ok(Encoded { hdr: bytes, exact, samples })
}

/// The inverse of [`encode`]; `samples` is how many there must be.
pub(super) fn decode(
    bytes: &[u8],
    exact: &[(u64, u64)],
    samples: u64,
) -> Result<Vec<(u64, u64)>, String> {
    // The decoder stops where the counts end and would not miss the rest.
    let named = bytes.get(4..8).and_then(|named| named.try_into().ok()).map(u32::from_be_bytes);
    if named.map(|named| named as usize + 8) != Some(bytes.len()) {
        return Err(format!("{} bytes are not the length that it names", bytes.len()));
    }
    let hdr: Histogram<u64> =
        Deserializer::new().deserialize(&mut &bytes[..]).map_err(|why| format!("{why:?}"))?;
    let mut counts: BTreeMap<u64, u64> =
        hdr.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
    for &(value, count) in exact {
        let rounded = carrier(&hdr, value);
        let left = counts.get(&rounded).and_then(|all| all.checked_sub(count));
        let left =
            left.ok_or_else(|| format!("{count} exact samples of {value} ns are missing"))?;
        if left == 0 {
            counts.remove(&rounded);
        } else {
            counts.insert(rounded, left);
        }
        counts.insert(value, count);
    }
    let found: u128 = counts.values().map(|count| u128::from(*count)).sum();
    if found != u128::from(samples) {
        return Err(format!("it has {found} samples, and should have {samples}"));
    }
    Ok(counts.into_iter().collect())
}

/// The value as which `hdr` gives `value` back.
fn carrier(hdr: &Histogram<u64>, value: u64) -> u64 {
    hdr.highest_equivalent(value.min(LARGEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats;
    use proptest::prelude::*;

    fn round_trip(counts: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let encoded = encode(counts).unwrap();
        decode(&encoded.hdr, &encoded.exact, encoded.samples).unwrap()
    }

    #[test]
    fn edges_of_the_range_come_back() {
        let largest = i64::MAX as u64;
        let cases: &[&[(u64, u64)]] = &[
            &[],
            &[(0, 1)],
            &[(1, 1), (2, 1)],
            &[(0, largest)],
            &[(2047, 3), (2048, 1), (2049, 2)],
            &[(largest - 1, 1), (largest, 2), (largest + 1, 3), (u64::MAX, 4)],
        ];
        for counts in cases {
            assert_eq!(round_trip(counts), *counts);
        }
    }

    #[test]
    fn what_is_no_histogram_is_refused_with_the_reason() {
        let cases: &[(&[(u64, u64)], &str)] = &[
            (&[(5, 1), (5, 1)], "values do not ascend: 5 comes before 5"),
            (&[(6, 1), (5, 1)], "values do not ascend: 6 comes before 5"),
            (&[(5, 0)], "the count 0 of 5 ns"),
            (&[(5, i64::MAX as u64), (6, 1)], "the count 1 of 6 ns"),
            (&[(5, u64::MAX), (6, u64::MAX)], "the count"),
        ];
        for (counts, why) in cases {
            let refused = encode(counts).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let Encoded { hdr, exact, samples } = encode(&[(1, 1), (1_000_003, 7)]).unwrap();
        for end in 0..hdr.len() {
            assert!(decode(&hdr[..end], &exact, samples).is_err(), "cut at {end}");
        }
        assert!(decode(&hdr, &[(1_000_003, 8)], samples).is_err());
        assert!(decode(&hdr, &[(77_777, 1)], samples).is_err());
        assert!(decode(&hdr, &exact, samples + 1).is_err());
    }

    /// The standard part has all of a histogram that `stats` made but the minimum and the maximum:
    /// a reader of it alone is off by at most 0.1 % at the two ends.
    #[test]
    fn only_the_ends_of_our_own_histograms_need_exact_samples() {
        for bucket in (0..).take_while(|&bucket| stats::bucket_range(bucket).1 < LARGEST) {
            let (low, high) = stats::bucket_range(bucket);
            let encoded = encode(&[(low + (high - low) / 2, 5)]).unwrap();
            assert_eq!(encoded.exact, [], "bucket {bucket}");
        }
    }

    proptest! {
        #[test]
        fn any_counts_come_back_exactly(
            counts in proptest::collection::btree_map(any::<u64>(), 1u64..1 << 40, 0..200),
            near in proptest::collection::btree_map(1_000_000u64..1_010_000, 1u64..9, 0..200),
        ) {
            for counts in [counts, near] {
                let counts: Vec<(u64, u64)> = counts.into_iter().collect();
                prop_assert_eq!(round_trip(&counts), counts);
            }
        }

        #[test]
        fn measured_histograms_come_back_exactly(
            samples in proptest::collection::vec((0u64..1 << 36, 1u64..1000), 1..300),
        ) {
            let counts = stats::Histogram::from_iter(samples).sparse();
            prop_assert!(encode(&counts).unwrap().exact.len() <= 2);
            prop_assert_eq!(round_trip(&counts), counts);
        }
    }
}
