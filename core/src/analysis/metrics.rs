//! How a user names metrics: `--metric`, `--margin`, and what a comparison of host and lab is about. Pure.

use serde::Serialize;

use super::select::matches;
use crate::model::{Direction, MetricKind, SOLO, Statistic, Unit};

pub const THROUGHPUT: &str = "throughput";

/// The quantities that are judged where a host and the lab are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    Throughput,
    /// The median of a latency.
    P50,
    P99,
}

impl Measured {
    pub const ALL: [Measured; 3] = [Measured::Throughput, Measured::P50, Measured::P99];

    pub fn from_kind(kind: &MetricKind) -> Option<Measured> {
        let is_latency = kind.unit == Unit::Ns && kind.direction == Direction::LowerIsBetter;
        match kind.statistic {
            Statistic::Rate if kind.name == THROUGHPUT => Some(Measured::Throughput),
            Statistic::Quantile(500_000) if is_latency => Some(Measured::P50),
            Statistic::Quantile(990_000) if is_latency => Some(Measured::P99),
            _ => None,
        }
    }
}

/// Whether `pattern` names this metric: as `NAME`, `SET/NAME`, `WORK/NAME` or `WORK/SET/NAME`.
/// `work` is a label, `web threads=4 [batch]`; WORK may be its beginning alone: `web`.
pub fn metric_matches(pattern: &str, work: &str, set: &str, name: &str) -> bool {
    let of_work = |rest: &str| works(work).any(|work| matches(pattern, &format!("{work}/{rest}")));
    match pattern.matches('/').count() {
        0 => matches(pattern, name),
        1 => matches(pattern, &format!("{set}/{name}")) || of_work(name),
        _ => of_work(&format!("{set}/{name}")),
    }
}

/// Whether `pattern` takes this metric into the headline family. One of a solo run only explains, unless the pattern
/// has the name of a solo run: else `throughput` would spend a part of the error rate on it.
pub fn takes_metric(
    pattern: &str,
    (work, is_solo_run): (&str, bool),
    set: &str,
    name: &str,
) -> bool {
    may_take(pattern, is_solo_run) && metric_matches(pattern, work, set, name)
}

/// Whether `pattern` may take some metric of such a work.
pub fn may_take(pattern: &str, is_solo_run: bool) -> bool {
    !is_solo_run || pattern.contains(SOLO)
}

/// Below which a change of a metric of this work and set is SAME: `usual` are the margin and that of
/// tail latencies, where no pattern of `margins` fits.
pub fn margin_of(
    margins: &[(String, f64)],
    usual: [f64; 2],
    (work, set, kind): (&str, &str, &MetricKind),
) -> f64 {
    let fits = |(pattern, _): &&(String, f64)| metric_matches(pattern, work, set, &kind.name);
    let usual = usual[usize::from(kind.is_tail_latency())];
    margins.iter().rev().find(fits).map_or(usual, |(_, margin)| *margin)
}

/// A label, and the words that it begins with: `web threads=4` is `web`, too.
fn works(label: &str) -> impl Iterator<Item = &str> {
    let begins = label.match_indices(' ').map(|(at, _)| &label[..at]);
    begins.chain([label])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_held_against_work_and_latencies_alone() {
        use Direction::{HigherIsBetter, LowerIsBetter};
        let of = |name, unit, direction, statistic| {
            Measured::from_kind(&MetricKind::explaining(name, unit, direction, statistic))
        };
        let [p50, p99] = [500_000, 990_000].map(Statistic::Quantile);
        let throughput = of(THROUGHPUT, Unit::OpsPerS, HigherIsBetter, Statistic::Rate);
        assert_eq!(throughput, Some(Measured::Throughput));
        assert_eq!(of("switches", Unit::PerS, LowerIsBetter, Statistic::Rate), None);
        assert_eq!(of("wakeup_p50", Unit::Ns, LowerIsBetter, p50), Some(Measured::P50));
        assert_eq!(of("wakeup_p99", Unit::Ns, LowerIsBetter, p99), Some(Measured::P99));
        assert_eq!(of("queue_p99", Unit::Count, LowerIsBetter, p99), None);
        assert_eq!(of("sleep_p50", Unit::Ns, HigherIsBetter, p50), None);
    }

    #[test]
    fn a_metric_is_named_alone_or_by_its_place() {
        let is = |pattern| metric_matches(pattern, "web threads=4 [batch]", "load", "wakeup_p99");
        for pattern in [
            "wakeup_p99",
            "wakeup_*",
            "load/wakeup_p99",
            "web/wakeup_p99",
            "web threads=4/*",
            "web threads=*/load/*p99",
            "web/load/wakeup_p99",
            "web threads=4/load/wakeup_p99",
            "web threads=4 [batch]/load/wakeup_p99",
            "*",
            "*/*/*",
        ] {
            assert!(is(pattern), "{pattern}");
        }
        for pattern in [
            "wakeup",
            "chat/wakeup_p99",
            "we/wakeup_p99",
            "web threads=/wakeup_p99",
            "threads=4/wakeup_p99",
            "web/chat/wakeup_p99",
            "load/web/wakeup_p99",
            "web/load",
            "",
        ] {
            assert!(!is(pattern), "{pattern}");
        }
    }
}
