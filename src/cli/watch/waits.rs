//! A histogram of waits for the eye: a row for each doubling, or for several where there is less room.
//! Pure.

use crate::model::Times;

/// One row: waits from `low_ns` to the next row's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    pub low_ns: u64,
    pub count: u64,
}

/// Shorter ones share the first row.
const FIRST_NS: u64 = 1 << 10;

/// The rows from the shortest wait to the longest, at most `max`.
pub fn bars(waits: &Times, max: usize) -> Vec<Bar> {
    let octave = |low_ns: u64| low_ns.max(FIRST_NS / 2).ilog2();
    let counted = waits.buckets.iter().filter(|bucket| bucket.count > 0);
    let octaves: Vec<(u32, u64)> =
        counted.map(|bucket| (octave(bucket.low_ns), bucket.count)).collect();
    let (Some(first), Some(last)) = (octaves.first(), octaves.last()) else { return Vec::new() };
    let (first, last) = (first.0, last.0);
    let in_row = (last - first + 1).div_ceil(max.max(1) as u32);
    let low_ns = |octave: u32| if octave < FIRST_NS.ilog2() { 0 } else { 1 << octave };
    let rows = (first..=last).step_by(in_row as usize);
    let mut bars: Vec<Bar> = rows.map(|octave| Bar { low_ns: low_ns(octave), count: 0 }).collect();
    for (octave, count) in octaves {
        bars[((octave - first) / in_row) as usize].count += count;
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Bucket;

    fn waits(counts: &[(u64, u64)]) -> Times {
        let bucket = |&(low_ns, count): &(u64, u64)| Bucket { low_ns, high_ns: 2 * low_ns, count };
        Times { buckets: counts.iter().map(bucket).collect(), ..Times::default() }
    }

    #[test]
    fn doublings_between_the_shortest_and_the_longest_have_rows_also_empty_ones() {
        let shown = |counts: &[(u64, u64)], max| {
            let bars = bars(&waits(counts), max);
            bars.iter().map(|bar| (bar.low_ns, bar.count)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&[], 5), []);
        assert_eq!(shown(&[(0, 3)], 5), [(0, 3)]);
        let all = [(0, 1), (256, 2), (1024, 3), (1152, 4), (4096, 5)];
        assert_eq!(shown(&all, 9), [(0, 3), (1024, 7), (2048, 0), (4096, 5)]);
        assert_eq!(shown(&all, 2), [(0, 10), (2048, 5)]);
        assert_eq!(shown(&all, 3), [(0, 10), (2048, 5)]);
        assert_eq!(shown(&all[2..], 9), [(1024, 7), (2048, 0), (4096, 5)]);
    }
}
