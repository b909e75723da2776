//! Histograms of waits in text, a line for each doubling, as runqlat prints them. Pure.

use std::collections::BTreeMap;

use crate::analysis::TaskRow;
use crate::model::Times;
use crate::report::layout::{Page, Tone, clean};

use super::page::time;
use crate::report::numbers::counted;

/// The length of the longest bar.
const BAR: usize = 40;
/// Shorter waits are in the first row.
const FIRST_NS: u64 = 256;

/// The histogram of all rows together.
pub fn all(rows: &[TaskRow], page: &mut Page) {
    let mut sum = Times::default();
    rows.iter().filter_map(|row| row.sum.wait.as_ref()).for_each(|wait| sum.merge(wait));
    bars("all that is watched", &sum, page);
}

pub fn of_row(row: &TaskRow, page: &mut Page) {
    if let Some(wait) = &row.sum.wait {
        bars(&clean(&row.label), wait, page);
    }
}

/// Counts from each power of two nanoseconds to below the next.
fn doublings(wait: &Times) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for bucket in &wait.buckets {
        let low_ns = if bucket.low_ns < FIRST_NS { 0 } else { 1 << bucket.low_ns.ilog2() };
        *counts.entry(low_ns).or_insert(0) += bucket.count;
    }
    counts
}

fn bars(of: &str, wait: &Times, page: &mut Page) {
    let counts = doublings(wait);
    let (Some(first), Some(last)) = (counts.keys().next(), counts.keys().next_back()) else {
        return;
    };
    page.gap();
    let title = format!("{} for a CPU, of {of}", counted(wait.count, "wait"));
    page.wrapped(Tone::Bold, "", &title);
    let most = counts.values().copied().max().unwrap_or(1).max(1);
    let mut low_ns = *first;
    while low_ns <= *last {
        let high_ns = if low_ns == 0 { FIRST_NS } else { low_ns.saturating_mul(2) };
        let count = counts.get(&low_ns).copied().unwrap_or(0);
        // Rounded up: what was there is seen.
        let bar = (u128::from(count) * BAR as u128).div_ceil(u128::from(most)) as usize;
        let from = if low_ns == 0 { "0".to_string() } else { time(low_ns) };
        let line = format!(
            "{from:>7} - {:>7}{count:>11} |{:<BAR$}|",
            time(high_ns),
            "*".repeat(bar.min(BAR))
        );
        page.line(Tone::Plain, &line);
        low_ns = high_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bucket, TaskScore};
    use crate::report::Options;

    #[test]
    fn buckets_of_a_doubling_are_one_line_and_empty_lines_are_between() {
        let bucket = |low_ns, high_ns, count| Bucket { low_ns, high_ns, count };
        let wait = Times {
            count: 131,
            buckets: vec![
                bucket(0, 256, 10),
                bucket(256, 288, 50),
                bucket(480, 512, 30),
                bucket(1 << 20, (1 << 20) + (1 << 17), 1),
                bucket(1 << 21, 1 << 22, 40),
            ],
            ..Times::default()
        };
        let mut page = Page::new(&Options { width: 80, ..Options::default() });
        let sum = TaskScore { wait: Some(wait), ..TaskScore::default() };
        of_row(&TaskRow { label: "we\u{1b}b".into(), tasks: 1, sum }, &mut page);
        insta::assert_snapshot!(page.text(), @r#"
131 waits for a CPU, of we\u{1b}b
      0 -   256ns         10 |*****                                   |
  256ns -   512ns         80 |****************************************|
  512ns -  1.02us          0 |                                        |
 1.02us -  2.05us          0 |                                        |
 2.05us -  4.10us          0 |                                        |
 4.10us -  8.19us          0 |                                        |
 8.19us -  16.4us          0 |                                        |
 16.4us -  32.8us          0 |                                        |
 32.8us -  65.5us          0 |                                        |
 65.5us -   131us          0 |                                        |
  131us -   262us          0 |                                        |
  262us -   524us          0 |                                        |
  524us -  1.05ms          0 |                                        |
 1.05ms -  2.10ms          1 |*                                       |
 2.10ms -  4.19ms         40 |********************                    |
"#);
        assert!(page.text().lines().all(|line| line.len() <= 80));
        let mut nothing = Page::new(&Options::default());
        all(&[TaskRow::default()], &mut nothing);
        assert_eq!(nothing.text(), "", "a source without histograms");
    }
}
