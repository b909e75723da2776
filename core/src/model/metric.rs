//! Metrics: named numbers with a unit, a direction and a statistic, and readings that may be
//! unknown. Pure.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds; reports choose us, ms or s for the eye.
    Ns,
    /// Completed operations per second; the workload's `ops` names them.
    OpsPerS,
    BytesPerS,
    /// Context switches, migrations or misses per second.
    PerS,
    /// CPUs kept busy: CPU time over wall time.
    Cpus,
    /// A share or an index between 0 and 1.
    Ratio,
    /// Energy.
    Joules,
    Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    HigherIsBetter,
    LowerIsBetter,
    /// Says what happened, not how well (a switch rate).
    Neutral,
}

/// The statistical meaning of a metric's number. Nobody parses a metric's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// Completed things per second.
    Rate,
    Mean,
    Max,
    /// A quantile of a latency, or of a rate over windows, in parts per million: p99.9 is 999_000.
    Quantile(u32),
    /// Between 0 and 1; also indices (Jain's).
    Share,
    /// A coefficient of variation.
    Variation,
    /// Context switches of a role or a set, per second.
    VoluntarySwitches,
    InvoluntarySwitches,
    /// Anything else that is counted or summed.
    Count,
}

/// The number of samples beyond a quantile, on average, that it needs: then in 95 % of the runs at least one sample
/// lies beyond the true quantile (0.99^300 is 5 %), and it is never the maximum.
const MIN_BEYOND: u64 = 3;

impl Statistic {
    /// Fewer samples do not give its value.
    pub fn samples_needed(self) -> u64 {
        match self {
            Statistic::Quantile(ppm @ 1..1_000_000) => {
                (MIN_BEYOND * 1_000_000).div_ceil(ppm.min(1_000_000 - ppm).into())
            }
            _ => 1,
        }
    }

    /// Why this number of samples, called `name` in the plural, does not give its value, if there are any.
    pub fn too_few(self, samples: u64, name: &str) -> Option<String> {
        let (needed, Statistic::Quantile(ppm)) = (self.samples_needed(), self) else { return None };
        let percent = f64::from(ppm) / 1e4;
        let name = if samples == 1 { name.trim_end_matches('s') } else { name };
        (1..needed).contains(&samples).then(|| {
            // A quarter more, since runs are not alike.
            let times = (5 * needed).div_ceil(4 * samples);
            format!(
                "{samples} {name}, and a p{percent} takes {needed}: a duration {times} times as \
                 long has them"
            )
        })
    }
}

/// Whether a metric belongs to the primary family of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Importance {
    /// One of the one to four metrics that the users of a workload argue about.
    Headline,
    Explaining,
}

/// One metric of its own as a workload declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricSpec {
    pub name: &'static str,
    pub unit: Unit,
    pub direction: Direction,
    pub about: &'static str,
    pub statistic: Statistic,
    pub importance: Importance,
}

/// A reading, or why there is none. Unknown is never zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    Known(T),
    Unknown(String),
}

impl<T> Reading<T> {
    /// `why`: the reason where there is none.
    pub fn from_option(value: Option<T>, why: impl Into<String>) -> Reading<T> {
        value.map_or_else(|| Reading::Unknown(why.into()), Reading::Known)
    }

    pub fn known(self) -> Option<T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Unknown(_) => None,
        }
    }

    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Reading::Known(value) => Reading::Known(value),
            Reading::Unknown(why) => Reading::Unknown(why.clone()),
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Reading::Known(value) => Reading::Known(f(value)),
            Reading::Unknown(why) => Reading::Unknown(why),
        }
    }

    /// `f` makes the reason more of it.
    pub fn map_unknown(self, f: impl FnOnce(String) -> String) -> Reading<T> {
        match self {
            Reading::Unknown(why) => Reading::Unknown(f(why)),
            known => known,
        }
    }

    /// Both, or the first reason.
    pub fn zip<U>(self, other: Reading<U>) -> Reading<(T, U)> {
        self.and_then(|own| other.map(|other| (own, other)))
    }

    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Known(value) => f(value),
            Reading::Unknown(why) => Reading::Unknown(why),
        }
    }
}

/// Known where every part is; else the first reason.
impl<T> FromIterator<Reading<T>> for Reading<Vec<T>> {
    fn from_iter<I: IntoIterator<Item = Reading<T>>>(parts: I) -> Self {
        let parts = parts.into_iter().map(|part| match part {
            Reading::Known(value) => Ok(value),
            Reading::Unknown(why) => Err(why),
        });
        parts.collect::<Result<Vec<T>, String>>().map_or_else(Reading::Unknown, Reading::Known)
    }
}

/// The largest rounding error of sums and quotients that should be 0 or 1.
const SLACK: f64 = 1e-6;

/// A metric's name and properties, without a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MetricKind {
    pub name: String,
    pub unit: Unit,
    pub direction: Direction,
    /// The latency (`wakeup`) or the role (`worker`) that it is of; `None`: the worker set.
    pub subject: Option<String>,
    pub statistic: Statistic,
    pub importance: Importance,
}

/// One metric of one worker set in one run. It is read as a part of its set, which knows the
/// workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    #[serde(flatten)]
    pub kind: MetricKind,
    pub value: Reading<f64>,
}

impl MetricKind {
    /// A 99th percentile of a latency, or a statistic further out: few samples of a run make it.
    pub fn is_tail_latency(&self) -> bool {
        let is_far_out = match self.statistic {
            Statistic::Quantile(parts) => parts >= 990_000,
            Statistic::Max => true,
            _ => false,
        };
        is_far_out && self.unit == Unit::Ns && self.direction == Direction::LowerIsBetter
    }

    /// A metric that explains, of the whole worker set.
    pub fn explaining(
        name: impl Into<String>,
        unit: Unit,
        direction: Direction,
        statistic: Statistic,
    ) -> MetricKind {
        let (name, importance) = (name.into(), Importance::Explaining);
        MetricKind { name, unit, direction, subject: None, statistic, importance }
    }

    pub fn with_subject(self, subject: impl Into<String>) -> MetricKind {
        MetricKind { subject: Some(subject.into()), ..self }
    }

    pub fn with_importance(self, importance: Importance) -> MetricKind {
        MetricKind { importance, ..self }
    }

    pub fn reading(self, value: Reading<f64>) -> Metric {
        Metric { kind: self, value }
    }

    /// A value that was read, unless no metric of this kind can have it: then it is damaged or made up.
    pub fn possible(&self, value: f64) -> Reading<f64> {
        let is_share = self.statistic == Statistic::Share;
        let why = match () {
            () if !value.is_finite() => "is not a finite number",
            () if is_share && !(-SLACK..=1.0 + SLACK).contains(&value) => {
                "is not a share from 0 to 1"
            }
            () if value < -SLACK && !self.may_be_negative() => "is below 0, which this cannot be",
            () => return Reading::Known(value),
        };
        Reading::Unknown(format!("{value} {why}"))
    }

    /// Programs may print what they call a time, a percentage or a count and is a difference, and slack is one.
    fn may_be_negative(&self) -> bool {
        let is_printed = self.subject.is_none()
            && matches!(
                (self.unit, self.statistic),
                (Unit::Ns, Statistic::Mean) | (Unit::Ratio, Statistic::Count)
            );
        is_printed || self.unit == Unit::Count
    }

    /// The kind of a metric that was stored before kinds were: by its name, as schedlab named
    /// metrics then. Only the migration of old stores and the import of old exports call this.
    pub fn legacy(workload: &str, name: &str, unit: Unit, direction: Direction) -> MetricKind {
        let (statistic, subject) = legacy_statistic(name);
        let headline: &[&str] = match workload {
            "schbench" => &["throughput", "wakeup_p99", "request_p99"],
            "service-chain" => &["throughput", "request_p99"],
            "deadline" => &["miss_ratio", "tolerance"],
            _ => &["throughput", "wakeup_p99"],
        };
        let importance =
            if headline.contains(&name) { Importance::Headline } else { Importance::Explaining };
        let subject = subject.map(str::to_string);
        MetricKind { name: name.to_string(), unit, direction, subject, statistic, importance }
    }
}

fn legacy_statistic(name: &str) -> (Statistic, Option<&str>) {
    const BY_NAME: [(&str, Statistic); 13] = [
        ("throughput", Statistic::Rate),
        ("rps_goal", Statistic::Rate),
        ("rps_p20", Statistic::Quantile(200_000)),
        ("rps_p50", Statistic::Quantile(500_000)),
        ("rps_p90", Statistic::Quantile(900_000)),
        ("fairness", Statistic::Share),
        ("met_ratio", Statistic::Share),
        ("miss_ratio", Statistic::Share),
        ("spread", Statistic::Variation),
        ("window_cv", Statistic::Variation),
        ("lateness_max", Statistic::Max),
        ("voluntary_switches", Statistic::VoluntarySwitches),
        ("involuntary_switches", Statistic::InvoluntarySwitches),
    ];
    const BY_ENDING: [(&str, Statistic); 9] = [
        ("_p50", Statistic::Quantile(500_000)),
        ("_p99", Statistic::Quantile(990_000)),
        ("_p99.9", Statistic::Quantile(999_000)),
        ("_max", Statistic::Max),
        ("_mean", Statistic::Mean),
        ("_involuntary_switches", Statistic::InvoluntarySwitches),
        ("_voluntary_switches", Statistic::VoluntarySwitches),
        ("_wakeups", Statistic::Count),
        ("_migrations", Statistic::Count),
    ];
    if let Some((_, statistic)) = BY_NAME.iter().find(|(known, _)| *known == name) {
        return (*statistic, None);
    }
    let by_ending = |(ending, statistic): &(&str, Statistic)| {
        Some((*statistic, Some(name.strip_suffix(ending)?)))
    };
    let partner = || Some((Statistic::Count, Some(name.split_once("_preempted_by_")?.0)));
    BY_ENDING.iter().find_map(by_ending).or_else(partner).unwrap_or((Statistic::Count, None))
}

impl MetricSpec {
    /// One that explains, until `headline` says otherwise.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        direction: Direction,
        statistic: Statistic,
    ) -> MetricSpec {
        let importance = Importance::Explaining;
        MetricSpec { name, unit, direction, about: "", statistic, importance }
    }

    pub const fn about(self, about: &'static str) -> MetricSpec {
        MetricSpec { about, ..self }
    }

    pub const fn headline(self) -> MetricSpec {
        MetricSpec { importance: Importance::Headline, ..self }
    }

    pub fn kind(&self) -> MetricKind {
        let MetricSpec { name, unit, direction, about: _, statistic, importance } = *self;
        MetricKind::explaining(name, unit, direction, statistic).with_importance(importance)
    }

    pub fn reading(&self, value: Reading<f64>) -> Metric {
        self.kind().reading(value)
    }
}

/// A metric as events of any version have it.
#[derive(Deserialize)]
pub(super) struct WrittenMetric {
    name: String,
    unit: Unit,
    direction: Direction,
    subject: Option<String>,
    statistic: Option<Statistic>,
    importance: Option<Importance>,
    value: Reading<f64>,
}

impl WrittenMetric {
    pub(super) fn of_workload(self, workload: &str) -> Metric {
        let WrittenMetric { name, unit, direction, subject, statistic, importance, value } = self;
        let kind = match (statistic, importance) {
            (Some(statistic), Some(importance)) => {
                MetricKind { name, unit, direction, subject, statistic, importance }
            }
            _ => MetricKind::legacy(workload, &name, unit, direction),
        };
        Metric { kind, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kind_cannot_have_is_unknown_with_the_value() {
        use Statistic::{Count, Mean, Rate, Share, Variation};
        type Case = (Unit, Statistic, Option<&'static str>, f64, Option<&'static str>);
        let cases: &[Case] = &[
            (Unit::Ratio, Share, None, 0.0, None),
            (Unit::Ratio, Share, None, 1.0 + 1e-12, None),
            (Unit::Ratio, Share, None, -0.3, Some("-0.3 is not a share from 0 to 1")),
            (Unit::Ratio, Share, None, 1.01, Some("1.01 is not a share from 0 to 1")),
            (Unit::Ratio, Variation, None, 7.0, None),
            (Unit::Ratio, Variation, None, -7.0, Some("-7 is below 0, which this cannot be")),
            (Unit::Ns, Mean, Some("wakeup"), -1.0, Some("-1 is below 0, which this cannot be")),
            (Unit::Ns, Count, None, -1.0, Some("-1 is below 0, which this cannot be")),
            (Unit::OpsPerS, Rate, None, -1.0, Some("-1 is below 0, which this cannot be")),
            // A program prints the offset of a clock, 400 % of a CPU, and how much less it is.
            (Unit::Ns, Mean, None, -1.0, None),
            (Unit::Ratio, Count, None, 4.0, None),
            (Unit::Ratio, Count, None, -0.5, None),
            (Unit::Count, Count, None, -3.0, None),
            (Unit::Count, Count, None, f64::NAN, Some("NaN is not a finite number")),
        ];
        for (unit, statistic, subject, value, why) in cases {
            let subject = subject.map(str::to_string);
            let kind = MetricKind::explaining("x", *unit, Direction::Neutral, *statistic);
            let found = MetricKind { subject, ..kind }.possible(*value);
            let expected = why.map_or(Reading::Known(*value), |why| Reading::Unknown(why.into()));
            assert_eq!(found, expected, "{unit:?} {statistic:?} {value}");
        }
    }

    #[test]
    fn a_quantile_takes_three_samples_beyond_it() {
        let cases = [
            (Statistic::Quantile(500_000), 6),
            (Statistic::Quantile(990_000), 300),
            (Statistic::Quantile(999_000), 3_000),
            // The few rates lie below.
            (Statistic::Quantile(200_000), 15),
            (Statistic::Quantile(900_000), 30),
            (Statistic::Quantile(1_000_000), 1),
            (Statistic::Max, 1),
            (Statistic::Mean, 1),
        ];
        for (statistic, needed) in cases {
            assert_eq!(statistic.samples_needed(), needed, "{statistic:?}");
            assert_eq!(statistic.too_few(needed, "samples"), None);
            assert_eq!(statistic.too_few(needed - 1, "samples").is_some(), needed > 1);
            // Nothing was measured: that has a reason of its own.
            assert_eq!(statistic.too_few(0, "samples"), None);
        }
        // 95 % of the runs have one beyond the true quantile.
        assert!(0.99f64.powi(300) < 0.05 && 0.99f64.powi(290) > 0.05);
        let why = Statistic::Quantile(999_000).too_few(14, "samples").unwrap();
        assert_eq!(
            why,
            "14 samples, and a p99.9 takes 3000: a duration 268 times as long has them"
        );
        let why = Statistic::Quantile(990_000).too_few(252, "samples").unwrap();
        assert!(why.ends_with(": a duration 2 times as long has them"), "{why}");
        let why = Statistic::Quantile(999_000).too_few(1, "samples").unwrap();
        assert!(why.starts_with("1 sample, and"), "{why}");
    }
}
