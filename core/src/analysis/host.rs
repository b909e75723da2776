//! The hosts of an analysis, and the results of each. Plain data.

use serde::Serialize;

use crate::model::Reading;
use crate::stats::{self, Draw, Effect, Interval, Ratio};

/// A machine that plans were measured on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Host {
    /// As it names itself; where several do so alike, with a number.
    pub name: String,
    pub cpu_model: Reading<String>,
    /// Each once.
    pub kernels: Vec<String>,
    /// Ids, oldest first.
    pub plans: Vec<String>,
    /// Rounds of which some run was measured.
    pub rounds: usize,
}

impl Host {
    /// Hosts of one processor and kernel are of one kind.
    pub fn kind(&self) -> (Option<&str>, &[String]) {
        (self.cpu_model.as_ref().known().map(String::as_str), &self.kernels)
    }
}

/// The results of the hosts for one metric of a side, against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverHosts {
    /// The hosts that have a ratio.
    pub hosts: Vec<HostRatio>,
    /// Where the ratio of a further host lies with a probability of 95 %; `None` below two hosts.
    pub further: Option<Interval>,
    /// The ratio over the hosts of each kind, in the order of [`Host::kind`]; empty if all are of one kind.
    pub kinds: Vec<Option<Ratio>>,
    /// The ratio of each host by its position, or its mean difference where a host has no ratio.
    #[serde(skip)]
    pub(super) draws: Vec<(u32, f64)>,
    /// The draws of a variant that changes nothing: 1 or 0.
    #[serde(skip)]
    pub(super) unchanged: Vec<(u32, f64)>,
}

impl OverHosts {
    /// Over all hosts.
    pub(super) fn effect(&self) -> Option<Effect> {
        stats::paired_effect(&self.unchanged, &self.draws).ok()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HostRatio {
    /// Position in the list of hosts.
    pub host: usize,
    /// Over its rounds.
    pub ratio: Ratio,
    /// Whether it differs from the other hosts, by more than they and its own rounds scatter.
    pub differs: bool,
    #[serde(skip)]
    pub(super) draw: Draw,
}

/// Hosts of one processor and kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostKind {
    pub cpu_model: Reading<String>,
    pub kernels: Vec<String>,
    pub hosts: Vec<String>,
}
