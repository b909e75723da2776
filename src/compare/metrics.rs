//! Which metrics a comparison judges. Each verdict more makes the others harder to reach, so
//! what only explains is left out unless asked for. Pure.

use crate::model::{Direction, Unit};

use super::select::matches;

/// Metrics that explain another one of their set.
const EXPLAINING: [&str; 5] = ["spread", "window_cv", "rps_p20", "rps_p50", "rps_p90"];

/// Whether a metric says how well a set did, in short: not what it consists of, not an extreme
/// or a mean beside the quantiles of the same latency.
pub fn is_headline(name: &str, unit: Unit, direction: Direction) -> bool {
    let beside_quantiles = unit == Unit::Ns && (name.ends_with("_max") || name.ends_with("_mean"));
    direction != Direction::Neutral && !EXPLAINING.contains(&name) && !beside_quantiles
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

/// A label, and the words that it begins with: `web threads=4` is `web`, too.
fn works(label: &str) -> impl Iterator<Item = &str> {
    let begins = label.match_indices(' ').map(|(at, _)| &label[..at]);
    begins.chain([label])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_explains_is_no_headline() {
        use Direction::{HigherIsBetter, LowerIsBetter, Neutral};
        let cases = [
            ("throughput", Unit::OpsPerS, HigherIsBetter, true),
            ("wakeup_p99.9", Unit::Ns, LowerIsBetter, true),
            ("fairness", Unit::Ratio, HigherIsBetter, true),
            ("wakeup_max", Unit::Ns, LowerIsBetter, false),
            ("wakeup_mean", Unit::Ns, LowerIsBetter, false),
            ("spread", Unit::Ratio, LowerIsBetter, false),
            ("cpus", Unit::Cpus, Neutral, false),
        ];
        for (name, unit, direction, expected) in cases {
            assert_eq!(is_headline(name, unit, direction), expected, "{name}");
        }
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
