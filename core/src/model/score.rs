//! A scoreboard: how the scheduler treated tasks and CPUs over a period. No I/O.
//!
//! A value that a source does not count is `None`, never 0: [`Score::sources`] says why. Times are nanoseconds.

use serde::{Deserialize, Serialize};

use super::CpuSet;

/// How a scoreboard was asked for and made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Score {
    /// The source that was used, `None`: no source could be had.
    pub source: Option<String>,
    /// Better sources that could not be used, each with the reason.
    pub missed: Vec<(String, String)>,
    pub watched: Watched,
    /// How long was counted.
    pub wall_ns: u64,
    /// All tasks that ran, also those that are not watched.
    pub tasks: Vec<TaskScore>,
    pub cpus: Vec<CpuScore>,
    /// Between names: who woke whom, who ran while whom waited. `None`: not counted by the source.
    pub pairs: Option<Vec<PairScore>>,
    /// CPUs that share a last-level cache, each group. `None`: not known.
    #[serde(default)]
    pub llcs: Option<Vec<CpuSet>>,
    /// The longest wait of watched tasks. `None`: there was none, or the source does not see it.
    #[serde(default)]
    pub worst: Option<WorstWait>,
    /// Load balancing. `None`: the kernel does not count it, and [`Score::lost`] says why.
    #[serde(default)]
    pub domains: Option<Vec<DomainScore>>,
    /// Counts that were lost, and counts that could not be made, a sentence each.
    pub lost: Vec<String>,
    /// The cost of the probes here; `None`: not measured.
    pub cost: Option<ProbeCost>,
}

/// A wait for a CPU that was longer than all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstWait {
    pub wait_ns: u64,
    /// When it ended, since counting began.
    pub at_ns: u64,
    /// The CPU on which the task then ran.
    pub cpu: u32,
    pub tid: i32,
    pub name: String,
    /// The task that had that CPU until then, and for how long at a stretch.
    pub before: Turn,
    /// The tasks that had it during the wait, most time first. `None`: the source did not record it.
    pub meanwhile: Option<Vec<Turn>>,
    /// How much of the wait `meanwhile` covers.
    pub known_ns: u64,
}

impl WorstWait {
    /// How far a record of the wait may be off, because a clock is read twice for each end.
    pub fn tolerance_ns(&self) -> u64 {
        self.wait_ns / 100
    }
}

/// A task's time on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// `None`: the idle task, or the source recorded no number.
    #[serde(deserialize_with = "nonzero")]
    pub tid: Option<i32>,
    pub name: String,
    pub run_ns: u64,
}

/// Scores of earlier versions have 0 for `None`.
fn nonzero<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<i32>, D::Error> {
    Ok(Option::deserialize(from)?.filter(|tid| *tid != 0))
}

/// A stored scoreboard and the tasks that it covers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SavedScore {
    pub id: String,
    pub started_unix_ns: u64,
    pub hostname: String,
    pub kernel_release: String,
    pub score: Score,
}

/// The facts about a scoreboard that a list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreHead {
    pub id: String,
    /// See [`Watched::title`].
    pub title: String,
    pub started_unix_ns: u64,
    pub hostname: String,
    pub kernel_release: String,
    pub source: Option<String>,
    pub wall_ns: u64,
    /// Tags in alphabetical order.
    pub tags: Vec<String>,
}

/// The time that telemetry adds to a switch and the wakeup before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbeCost {
    pub switch_ns: f64,
    /// The slowdown of a ping-pong on one CPU: 0.1 is a tenth.
    pub slowdown: f64,
    pub measured_unix_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    Command(Vec<String>),
    Processes(Vec<i32>),
    #[default]
    System,
}

impl Watched {
    /// A title in a few words, with names unchanged.
    pub fn title(&self) -> String {
        match self {
            Watched::Command(words) => words.join(" "),
            Watched::System => "the whole system".to_string(),
            Watched::Processes(pids) => {
                let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
                format!("pid {}", pids.join(", "))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskScore {
    pub tid: i32,
    pub pid: i32,
    pub name: String,
    /// The process's name: that of its first thread.
    pub process: String,
    /// Path below the cgroup root.
    pub cgroup: Option<String>,
    /// Whether it was asked for.
    pub watched: bool,
    pub kernel_thread: bool,
    pub ended: bool,
    pub run_ns: Option<u64>,
    pub wait: Option<Times>,
    pub slice: Option<Times>,
    pub voluntary: Option<u64>,
    pub involuntary: Option<u64>,
    pub wakeups: Option<u64>,
    pub migrations: Option<Migrations>,
    /// Run time by CPU, ascending. In a reading of the source `bpf` all of it is on the last one.
    pub cpus: Option<Vec<(u32, u64)>>,
    /// How long it has been waiting for a CPU, if it does when it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_ns: Option<u64>,
}

/// Samples of a time: how many, how long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Times {
    pub count: u64,
    pub total_ns: u64,
    pub max_ns: Option<u64>,
    /// Empty where a source has no histogram. Ascending; empty buckets are left out.
    pub buckets: Vec<Bucket>,
}

/// Samples from `low_ns` to below `high_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    pub low_ns: u64,
    pub high_ns: u64,
    pub count: u64,
}

/// Moves to another CPU, by how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Migrations {
    pub total: u64,
    /// `None`: the source counts moves, but not where to.
    pub by_distance: Option<Distances>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Distances {
    pub within_llc: u64,
    pub across_llc: u64,
    pub across_node: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuScore {
    pub cpu: u32,
    /// The time in which it was not idle.
    pub busy_ns: Option<u64>,
    pub switches: Option<u64>,
    pub idle_entries: Option<u64>,
    /// How often each run-queue length was seen at evenly spaced moments, from 0.
    pub lengths: Option<Vec<u64>>,
}

/// One CPU's view of one scheduling domain. Names are those of /proc/schedstat's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DomainScore {
    pub cpu: u32,
    /// 0: the closest.
    pub domain: u32,
    /// `SMT`, `MC`, `PKG`, `NUMA`... `None` before version 17.
    pub name: Option<String>,
    pub cpus: CpuSet,
    /// Three balances, for the CPU's state when it looked for load to take over.
    pub busy: Balance,
    pub idle: Balance,
    pub newly_idle: Balance,
    pub alb_count: u64,
    pub alb_failed: u64,
    pub alb_pushed: u64,
    pub sbe_count: u64,
    pub sbe_balanced: u64,
    pub sbe_pushed: u64,
    pub sbf_count: u64,
    pub sbf_balanced: u64,
    pub sbf_pushed: u64,
    pub ttwu_wake_remote: u64,
    pub ttwu_move_affine: u64,
    pub ttwu_move_balance: u64,
}

/// For one kind of idleness: how often load was balanced, and with which results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Balance {
    pub lb_count: u64,
    pub lb_balanced: u64,
    pub lb_failed: u64,
    /// Only before version 17.
    pub lb_imbalance: Option<u64>,
    /// These four only from version 17 on.
    pub lb_imbalance_load: Option<u64>,
    pub lb_imbalance_util: Option<u64>,
    pub lb_imbalance_task: Option<u64>,
    pub lb_imbalance_misfit: Option<u64>,
    /// Tasks that were pulled.
    pub lb_gained: u64,
    pub lb_hot_gained: u64,
    pub lb_nobusyq: u64,
    pub lb_nobusyg: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairKind {
    /// `count`: wakeups.
    Woke,
    /// `by` ran while `name` waited. `count`: how often it took the CPU from it.
    Delayed,
    /// Like `Delayed`, in scoreboards of an earlier schedlab: `lost_ns` is the whole wait that followed, whoever
    /// ran meanwhile.
    Preempted,
}

/// `by` has done it to `name`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairScore {
    pub kind: PairKind,
    pub by: String,
    pub name: String,
    pub count: u64,
    /// How long `by` had the CPU that `name` waited for; `None` for wakeups.
    pub lost_ns: Option<u64>,
}

impl PairScore {
    /// The name of both sides where neither is watched: all such pairs are one.
    pub const UNWATCHED: &str = "(unwatched)";

    /// How long one side ran while the other waited; `None`: not known, or a wakeup.
    pub fn delay_ns(&self) -> Option<u64> {
        self.lost_ns.filter(|_| self.kind == PairKind::Delayed)
    }
}

/// Names that sources use for entries that are not tasks, or not distinguished.
pub const OTHER: &str = "(other)";
pub const INTERRUPT: &str = "(interrupt)";
pub const IDLE: &str = "(idle)";

/// A task's name in the kernel, up to the first zero. A name that only a source may use gets a backslash before it.
pub fn task_name(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
    if [OTHER, INTERRUPT, IDLE, PairScore::UNWATCHED].contains(&name.as_str()) {
        format!("\\{name}")
    } else {
        name
    }
}

impl TaskScore {
    /// Adds the counts of another task. The sum does not know what either of them does not count.
    pub fn add(&mut self, other: &TaskScore) {
        let sum = |own: &mut Option<u64>, more: Option<u64>| {
            *own = own.zip(more).map(|(a, b)| a.saturating_add(b))
        };
        sum(&mut self.run_ns, other.run_ns);
        sum(&mut self.voluntary, other.voluntary);
        sum(&mut self.involuntary, other.involuntary);
        sum(&mut self.wakeups, other.wakeups);
        merge(&mut self.wait, &other.wait, Times::merge);
        merge(&mut self.slice, &other.slice, Times::merge);
        merge(&mut self.migrations, &other.migrations, Migrations::merge);
        merge(&mut self.cpus, &other.cpus, |own, more| {
            for &(cpu, ns) in more {
                match own.binary_search_by_key(&cpu, |(own, _)| *own) {
                    Ok(at) => own[at].1 += ns,
                    Err(at) => own.insert(at, (cpu, ns)),
                }
            }
        });
    }
}

fn merge<T>(own: &mut Option<T>, more: &Option<T>, with: impl Fn(&mut T, &T)) {
    match (own.as_mut(), more) {
        (Some(own), Some(more)) => with(own, more),
        _ => *own = None,
    }
}

impl Times {
    /// The value that a share `q` of the samples does not exceed, within its bucket by rank. `None` without
    /// samples or histogram.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let all: u64 = self.buckets.iter().map(|bucket| bucket.count).sum();
        let rank = (q * all as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for bucket in &self.buckets {
            if below + bucket.count >= rank {
                let inside = (rank - below) as f64 / bucket.count as f64;
                let width = (bucket.high_ns - bucket.low_ns) as f64;
                let value = bucket.low_ns + (inside * width) as u64;
                return Some(self.max_ns.map_or(value, |max| value.min(max)));
            }
            below += bucket.count;
        }
        None
    }

    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ns as f64 / self.count as f64)
    }

    /// The samples of both.
    pub fn merge(&mut self, other: &Times) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        for bucket in &other.buckets {
            match self.buckets.binary_search_by_key(&bucket.low_ns, |own| own.low_ns) {
                Ok(at) => self.buckets[at].count += bucket.count,
                Err(at) => self.buckets.insert(at, *bucket),
            }
        }
    }
}

impl Migrations {
    pub fn merge(&mut self, other: &Migrations) {
        self.total += other.total;
        self.by_distance = match (self.by_distance, other.by_distance) {
            (Some(a), Some(b)) => Some(Distances {
                within_llc: a.within_llc + b.within_llc,
                across_llc: a.across_llc + b.across_llc,
                across_node: a.across_node + b.across_node,
            }),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_of_no_known_task_has_no_number() {
        let tid = |tid: &str| {
            let json = format!(r#"{{"tid":{tid},"name":"make","run_ns":5}}"#);
            serde_json::from_str::<Turn>(&json).unwrap().tid
        };
        assert_eq!([tid("7"), tid("null"), tid("0")], [Some(7), None, None]);
    }

    #[test]
    fn a_task_cannot_take_the_name_of_what_is_none() {
        let cases: &[(&[u8], &str)] = &[
            (b"sh\0\0", "sh"),
            (b"(idle)\0", "\\(idle)"),
            (b"(unwatched)", "\\(unwatched)"),
            (b"(sd-pam)", "(sd-pam)"),
            (b"\xff\0x", "\u{fffd}"),
        ];
        for (bytes, name) in cases {
            assert_eq!(task_name(bytes), *name);
        }
    }

    fn times(buckets: &[(u64, u64, u64)], max_ns: u64) -> Times {
        let buckets: Vec<Bucket> = buckets
            .iter()
            .map(|&(low_ns, high_ns, count)| Bucket { low_ns, high_ns, count })
            .collect();
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        Times { count, total_ns: 0, max_ns: Some(max_ns), buckets }
    }

    #[test]
    fn quantiles_lie_in_their_bucket_by_rank_and_never_above_the_maximum() {
        let seen = times(&[(0, 256, 4), (1024, 1152, 4), (4096, 8192, 2)], 5000);
        let cases = [(0.0, 64), (0.4, 256), (0.5, 1056), (0.8, 1152), (0.99, 5000), (1.0, 5000)];
        for (q, expected) in cases {
            assert_eq!(seen.quantile_ns(q), Some(expected), "{q}");
        }
        assert_eq!(Times::default().quantile_ns(0.5), None);
        assert_eq!(Times::default().mean_ns(), None);
    }

    #[test]
    fn merged_times_have_the_samples_of_both_in_order() {
        let mut sum = times(&[(256, 288, 1), (1024, 1152, 2)], 1100);
        sum.merge(&times(&[(0, 256, 5), (1024, 1152, 1), (2048, 2304, 1)], 2100));
        let expected = times(&[(0, 256, 5), (256, 288, 1), (1024, 1152, 3), (2048, 2304, 1)], 2100);
        assert_eq!(sum, expected);
    }

    #[test]
    fn distances_of_migrations_are_unknown_where_one_side_does_not_know_them() {
        let near = Distances { within_llc: 2, ..Distances::default() };
        let mut sum = Migrations { total: 2, by_distance: Some(near) };
        sum.merge(&Migrations { total: 2, by_distance: Some(near) });
        assert_eq!(sum.by_distance.map(|d| d.within_llc), Some(4));
        sum.merge(&Migrations { total: 3, by_distance: None });
        assert_eq!(sum, Migrations { total: 7, by_distance: None });
    }
}
