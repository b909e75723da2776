//! Typed facts about a run: influences from outside on its numbers, and anything else that a reader has to know
//! about how they were counted. Plain data; `report` puts them into English.

use serde::{Deserialize, Serialize};

use super::{CpuSet, words};

/// Something from outside that touched a run's numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenDisturbance")]
pub struct Disturbance {
    /// The share of the pool's CPU time, if the disturbance has such a size.
    pub share: Option<f64>,
    pub fact: DisturbanceFact,
}

words! {
    /// Disturbances, with the words of reasons and reports.
    #[derive(Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DisturbanceKind {
        Steal = "steal",
        OutsideLoad = "load from outside",
        Throttling = "throttling",
        FrequencyChange = "changed frequency setting",
        ClockSourceChange = "changed clock source",
        ClockStep = "clock step",
        CpuHotplug = "CPU hotplug",
        StarvedWorkers = "starved workers",
        UnderWay = "latencies under way at the end",
        Cut = "cut by switches",
        CountedWork = "work in operations",
        CpuTimeAboveWall = "CPU time above wall time",
        ProbeSource = "lesser source of a probe",
        LateChange = "late change",
        LateBlocks = "late blocks",
    }
}

/// Shares are of the pool's CPU time, `cpu_share` of one CPU's time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DisturbanceFact {
    /// The hypervisor gave the CPUs to others.
    Steal {
        share: f64,
        /// The CPU that it took most from.
        worst_cpu: u32,
        worst_cpu_share: f64,
    },
    OutsideLoad {
        /// The share of all other processes together; `None`: too little to name any.
        named_share: Option<f64>,
        /// The processes that used most, in descending order.
        interferences: Vec<Interference>,
        others: Option<OtherProcesses>,
        /// The share that the CPUs were busy with and no process accounts for: short-lived or hidden processes.
        unnamed_share: Option<f64>,
    },
    Throttling {
        parts: Vec<Throttled>,
    },
    FrequencyChange {
        changes: Vec<SettingChange>,
    },
    ClockSourceChange {
        before: String,
        after: String,
    },
    ClockStep {
        /// The step of the wall clock, forwards or backwards; 0: it was not stepped.
        stepped_ns: i64,
        /// 0: the machine was not suspended.
        suspended_ns: i64,
    },
    CpuHotplug {
        pool_cpus: u32,
        lost_from_pool: CpuSet,
        lost_elsewhere: CpuSet,
        came: CpuSet,
    },
    /// Workers that were there to do operations and did none.
    StarvedWorkers {
        set: String,
        idle: u32,
        workers: u32,
    },
    /// Latencies that had begun and not ended when the run ended. They count with the age that they
    /// had, so these metrics of the latency are lower bounds.
    UnderWay {
        set: String,
        latency: String,
        under_way: u64,
        /// The number of all latencies: these, and the ended ones.
        of: u64,
        oldest_ns: u64,
        #[serde(rename = "quantiles")]
        bounds: Vec<String>,
        /// Only a guest of Xen has them, until the results of all guests are merged: ages, and how many have
        /// each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ages: Vec<(u64, u64)>,
    },
    /// In turns: latencies, or operations, that began before a switch and ended after it. They count for no variant, so
    /// these metrics are lower bounds.
    Cut {
        set: String,
        /// `None`: operations.
        latency: Option<String>,
        /// Latencies: those between any two variants, by the number of variants. Operations: those that ended while the
        /// variant counted.
        cut: u64,
        /// These, and the variant's own.
        of: u64,
        /// 0 for operations, whose lengths are not known.
        longest_ns: u64,
        bounds: Vec<String>,
    },
    /// In the lab, where operations take another time than on a machine: sets whose work is a number of operations.
    CountedWork {
        sets: Vec<String>,
    },
    /// The kernel counted more CPU time than there was. Values that are computed from it are left out.
    CpuTimeAboveWall {
        of: CpuTimeOf,
        /// CPU time a second.
        counted_cpus: f64,
        cpus: u32,
    },
    /// A probe counted by another source than its best.
    ProbeSource {
        probe: String,
        source: String,
        /// Better ones, the best first.
        missed: Vec<MissedSource>,
    },
    /// A change in mid-run that was made late; `None`: the run ended before it.
    LateChange {
        at_ns: u64,
        late_ns: Option<u64>,
    },
    /// In turns: blocks of a variant that lost a part of the time that counts, or all of it, because the measuring
    /// thread ran late or a switch took long.
    LateBlocks {
        shorter: u64,
        left_out: u64,
        of: u64,
    },
    /// A text of stores before format 2.
    Text {
        #[serde(rename = "of")]
        kind: DisturbanceKind,
        detail: String,
    },
}

/// Whose CPU time was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuTimeOf {
    /// The time of CPUs, in /proc/stat.
    Cpus,
    /// The time of workers, by their clocks.
    Workers,
}

/// A source of telemetry that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedSource {
    pub source: String,
    pub why: String,
}

/// A process that used the pool's CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    pub who: String,
    pub pid: i32,
    pub is_kernel_thread: bool,
    /// The time of children that it has collected is included.
    pub with_children: bool,
    pub cpu_ns: u64,
    pub cpu_share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherProcesses {
    pub processes: u32,
    pub cpu_ns: u64,
    pub cpu_share: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttled {
    pub part: ThrottledPart,
    pub events: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThrottledPart {
    /// The CPU that was throttled.
    Core(u32),
    Package(u32),
    /// The path of a cgroup with a CPU limit.
    Cgroup(String),
}

/// A frequency limit or governor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    pub setting: String,
    /// Empty: a setting of the machine.
    pub cpus: CpuSet,
    pub before: String,
    pub after: String,
}

impl Disturbance {
    pub fn kind(&self) -> DisturbanceKind {
        self.fact.kind()
    }

    /// How much it touched: the worst of several has the largest share.
    pub fn size(&self) -> f64 {
        match &self.fact {
            DisturbanceFact::UnderWay { under_way: part, of, .. }
            | DisturbanceFact::Cut { cut: part, of, .. } => *part as f64 / *of as f64,
            DisturbanceFact::LateBlocks { shorter, left_out, of } => {
                (shorter + left_out) as f64 / *of as f64
            }
            DisturbanceFact::CountedWork { sets } => sets.len() as f64,
            DisturbanceFact::LateChange { late_ns, .. } => late_ns.map_or(f64::MAX, |ns| ns as f64),
            _ => self.share.unwrap_or(0.0),
        }
    }
}

impl DisturbanceFact {
    pub fn kind(&self) -> DisturbanceKind {
        match self {
            DisturbanceFact::Steal { .. } => DisturbanceKind::Steal,
            DisturbanceFact::OutsideLoad { .. } => DisturbanceKind::OutsideLoad,
            DisturbanceFact::Throttling { .. } => DisturbanceKind::Throttling,
            DisturbanceFact::FrequencyChange { .. } => DisturbanceKind::FrequencyChange,
            DisturbanceFact::ClockSourceChange { .. } => DisturbanceKind::ClockSourceChange,
            DisturbanceFact::ClockStep { .. } => DisturbanceKind::ClockStep,
            DisturbanceFact::CpuHotplug { .. } => DisturbanceKind::CpuHotplug,
            DisturbanceFact::StarvedWorkers { .. } => DisturbanceKind::StarvedWorkers,
            DisturbanceFact::UnderWay { .. } => DisturbanceKind::UnderWay,
            DisturbanceFact::Cut { .. } => DisturbanceKind::Cut,
            DisturbanceFact::CountedWork { .. } => DisturbanceKind::CountedWork,
            DisturbanceFact::CpuTimeAboveWall { .. } => DisturbanceKind::CpuTimeAboveWall,
            DisturbanceFact::ProbeSource { .. } => DisturbanceKind::ProbeSource,
            DisturbanceFact::LateChange { .. } => DisturbanceKind::LateChange,
            DisturbanceFact::LateBlocks { .. } => DisturbanceKind::LateBlocks,
            DisturbanceFact::Text { kind, .. } => *kind,
        }
    }
}

/// A disturbance as events of any version have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenDisturbance {
    Fact { share: Option<f64>, fact: DisturbanceFact },
    Text { share: Option<f64>, kind: DisturbanceKind, detail: String },
}

impl From<WrittenDisturbance> for Disturbance {
    fn from(written: WrittenDisturbance) -> Disturbance {
        match written {
            WrittenDisturbance::Fact { share, fact } => Disturbance { share, fact },
            WrittenDisturbance::Text { share, kind, detail } => {
                Disturbance { share, fact: DisturbanceFact::Text { kind, detail } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_of_format_1_is_read_as_text() {
        let line = r#"{"kind":"steal","share":0.5,"detail":"half of it"}"#;
        let read: Disturbance = serde_json::from_str(line).unwrap();
        let detail = "half of it".to_string();
        let fact = DisturbanceFact::Text { kind: DisturbanceKind::Steal, detail };
        assert_eq!(read, Disturbance { share: Some(0.5), fact });
        assert_eq!(read.kind(), DisturbanceKind::Steal);
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Disturbance>(&again).unwrap(), read);
    }
}
