//! Metrics: named numbers with a unit and a direction, and readings that may be unknown. Pure.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds; reports choose us, ms or s for the eye.
    Ns,
    /// Completed operations per second; the workload's `ops` says of what.
    OpsPerS,
    BytesPerS,
    /// Context switches, migrations or misses per second.
    PerS,
    /// CPUs kept busy: CPU time over wall time.
    Cpus,
    /// A share or an index between 0 and 1.
    Ratio,
    Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    HigherIsBetter,
    LowerIsBetter,
    /// Says what happened, not how well (a switch rate).
    Neutral,
}

/// One metric as a workload declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricSpec {
    pub name: &'static str,
    pub unit: Unit,
    pub direction: Direction,
    pub about: &'static str,
}

/// A reading, or why there is none. Unknown is never zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    Known(T),
    Unknown(String),
}

impl<T> Reading<T> {
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
}

/// One metric of one worker set in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    pub name: String,
    pub unit: Unit,
    pub direction: Direction,
    pub value: Reading<f64>,
}

impl MetricSpec {
    pub fn reading(&self, value: Reading<f64>) -> Metric {
        let MetricSpec { name, unit, direction, .. } = *self;
        Metric { name: name.to_string(), unit, direction, value }
    }
}
