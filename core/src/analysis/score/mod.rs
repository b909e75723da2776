//! Two saved scoreboards side by side: what changed between them, and by how much.
//!
//! One score each is one sample: there is no interval and so no verdict. Input: two scoreboards. Pure.

mod interval;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::model::{
    CpuScore, CpuSet, PairKind, PairScore, SavedScore, Score, TaskScore, Times, Watched,
};

pub use interval::{Interval, interval};
pub use rows::{By, TaskRow, rows};

/// Lengths that differ by more are different: what is compared is then per second.
const SAME_LENGTH: f64 = 0.01;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreComparison {
    pub before: ScoreSide,
    pub after: ScoreSide,
    /// The lengths differ: counts and sums of times are those of a second.
    pub per_second: bool,
    pub by: By,
    /// Watched tasks, with the rows whose run time and waits changed most first.
    pub rows: Vec<RowChange>,
    /// Between names, those that changed most first; wakeups last.
    pub pairs: Vec<PairChange>,
    pub cpus: Vec<RowChange>,
    /// CPUs that share a last-level cache.
    pub llcs: Vec<RowChange>,
    /// Load balancing, a row for each kind of domain and of idleness.
    pub domains: Vec<RowChange>,
}

/// The identity of a scoreboard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreSide {
    pub id: String,
    pub tags: Vec<String>,
    pub watched: Watched,
    pub started_unix_ns: u64,
    pub hostname: String,
    pub kernel_release: String,
    pub source: Option<String>,
    pub cpus: usize,
    pub wall_ns: u64,
    pub lost: Vec<String>,
}

/// One thing, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowChange {
    pub label: String,
    /// Only what at least one side counts, and is not 0 on both.
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairChange {
    pub kind: PairKind,
    pub by: String,
    pub name: String,
    pub changes: Vec<Change>,
}

/// One quantity. `None`: that side does not count it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub name: &'static str,
    pub unit: Unit,
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// After minus before.
    pub difference: Option<f64>,
    /// The difference as a share of before: 0.1 is a tenth more. `None` also where before is 0.
    pub relative: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Count,
    CountPerS,
    Ns,
    NsPerS,
    /// 1: all of it.
    Share,
    /// A mean of numbers.
    Mean,
}

impl Change {
    fn new(name: &'static str, unit: Unit, before: Option<f64>, after: Option<f64>) -> Change {
        let difference = before.zip(after).map(|(before, after)| after - before);
        let relative = difference.zip(before.filter(|before| *before != 0.0));
        let relative = relative.map(|(difference, before)| difference / before);
        Change { name, unit, before, after, difference, relative }
    }

    fn is_anything(&self) -> bool {
        [self.before, self.after].into_iter().flatten().any(|value| value != 0.0)
    }
}

/// Both sides' lengths, by which counts become comparable.
struct Scale {
    per_second: bool,
    seconds: [f64; 2],
}

impl Scale {
    fn between(before: &Score, after: &Score) -> Scale {
        let seconds = [before, after].map(|score| score.wall_ns.max(1) as f64 / 1e9);
        let per_second = (seconds[1] / seconds[0]).ln().abs() > SAME_LENGTH.ln_1p();
        Scale { per_second, seconds }
    }

    /// A count.
    fn count(&self, name: &'static str, values: [Option<u64>; 2]) -> Change {
        self.sum(name, [Unit::Count, Unit::CountPerS], values)
    }

    /// A sum of times.
    fn time(&self, name: &'static str, values: [Option<u64>; 2]) -> Change {
        self.sum(name, [Unit::Ns, Unit::NsPerS], values)
    }

    fn sum(&self, name: &'static str, units: [Unit; 2], values: [Option<u64>; 2]) -> Change {
        let unit = units[usize::from(self.per_second)];
        let seconds = if self.per_second { self.seconds } else { [1.0; 2] };
        let [before, after] = [0, 1].map(|at| values[at].map(|value| value as f64 / seconds[at]));
        Change::new(name, unit, before, after)
    }

    /// How far two sums of times are from each other, in nanoseconds a second.
    fn distance(&self, values: [Option<u64>; 2]) -> f64 {
        let [before, after] = [0, 1].map(|at| values[at].unwrap_or(0) as f64 / self.seconds[at]);
        (after - before).abs()
    }
}

/// A time of one wait, not a sum.
fn of_one(name: &'static str, values: [Option<u64>; 2]) -> Change {
    let [before, after] = values.map(|value| value.map(|ns| ns as f64));
    Change::new(name, Unit::Ns, before, after)
}

/// Each with the tags that it has.
pub fn compare(
    before: &SavedScore,
    after: &SavedScore,
    tags: [&[String]; 2],
    by: By,
) -> ScoreComparison {
    let scores = [&before.score, &after.score];
    let scale = Scale::between(scores[0], scores[1]);
    ScoreComparison {
        before: side(before, tags[0]),
        after: side(after, tags[1]),
        per_second: scale.per_second,
        by,
        rows: row_changes(scores, by, &scale),
        pairs: pair_changes(scores, &scale),
        cpus: cpu_changes(scores, &scale),
        llcs: llc_changes(scores),
        domains: domain_changes(scores, &scale),
    }
}

fn side(saved: &SavedScore, tags: &[String]) -> ScoreSide {
    let score = &saved.score;
    ScoreSide {
        id: saved.id.clone(),
        tags: tags.to_vec(),
        watched: score.watched.clone(),
        started_unix_ns: saved.started_unix_ns,
        hostname: saved.hostname.clone(),
        kernel_release: saved.kernel_release.clone(),
        source: score.source.clone(),
        cpus: score.cpus.len(),
        wall_ns: score.wall_ns,
        lost: score.lost.clone(),
    }
}

/// The watched rows of a scoreboard that another one may have too: no process numbers.
fn comparable(score: &Score, by: By) -> BTreeMap<String, TaskScore> {
    let is_all = score.watched == Watched::System;
    let watched = score.tasks.iter().filter(|task| is_all || task.watched);
    let named: Vec<TaskScore> = watched
        .map(|task| match by {
            By::Process => TaskScore { name: task.process.clone(), ..task.clone() },
            _ => task.clone(),
        })
        .collect();
    let by = if by == By::Cgroup { By::Cgroup } else { By::Name };
    rows(named.iter(), by).into_iter().map(|row| (row.label, row.sum)).collect()
}

fn row_changes(scores: [&Score; 2], by: By, scale: &Scale) -> Vec<RowChange> {
    let both = scores.map(|score| comparable(score, by));
    let labels: BTreeSet<&String> = both.iter().flat_map(BTreeMap::keys).collect();
    let mut changes: Vec<(f64, RowChange)> = labels
        .into_iter()
        .map(|label| {
            let rows = [0, 1].map(|at| both[at].get(label));
            // One that is not there did nothing, of what the source counts at all.
            let other = both.iter().find_map(|rows| rows.get(label));
            let nothing = other.map(none_of).unwrap_or_default();
            let rows = rows.map(|sum| sum.unwrap_or(&nothing));
            let wait = |sum: &TaskScore| sum.wait.as_ref().map(|wait| wait.total_ns);
            let moved = scale.distance(rows.map(|sum| sum.run_ns)) + scale.distance(rows.map(wait));
            (moved, RowChange { label: label.clone(), changes: of_rows(rows, scale) })
        })
        .collect();
    changes.retain(|(_, row)| !row.changes.is_empty());
    changes.sort_by(|a, b| b.0.total_cmp(&a.0));
    changes.into_iter().map(|(_, row)| row).collect()
}

/// Zeros where this row has numbers.
fn none_of(row: &TaskScore) -> TaskScore {
    let zero = |value: Option<u64>| value.map(|_| 0);
    TaskScore {
        run_ns: zero(row.run_ns),
        wait: row.wait.as_ref().map(|_| Times::default()),
        voluntary: zero(row.voluntary),
        involuntary: zero(row.involuntary),
        wakeups: zero(row.wakeups),
        migrations: row.migrations.map(|_| Default::default()),
        ..TaskScore::default()
    }
}

fn of_rows(rows: [&TaskScore; 2], scale: &Scale) -> Vec<Change> {
    let of = |value: fn(&TaskScore) -> Option<u64>| rows.map(value);
    let changes = vec![
        scale.time("run", of(|row| row.run_ns)),
        scale.count("waits", of(|row| row.wait.as_ref().map(|wait| wait.count))),
        scale.time("waited", of(|row| row.wait.as_ref().map(|wait| wait.total_ns))),
        of_one("wait p50", of(|row| row.wait.as_ref()?.quantile_ns(0.5))),
        of_one("wait p99", of(|row| row.wait.as_ref()?.quantile_ns(0.99))),
        of_one("wait max", of(|row| row.wait.as_ref()?.max_ns)),
        scale.count("voluntary", of(|row| row.voluntary)),
        scale.count("involuntary", of(|row| row.involuntary)),
        scale.count("migrations", of(|row| row.migrations.map(|moves| moves.total))),
        scale.count("wakeups", of(|row| row.wakeups)),
    ];
    changes.into_iter().filter(Change::is_anything).collect()
}

/// With whether it is a wakeup.
type PairKey<'a> = (bool, &'a str, &'a str);

fn keyed(pairs: &[PairScore]) -> BTreeMap<PairKey<'_>, &PairScore> {
    let key = |pair: &PairScore| pair.kind == PairKind::Woke;
    pairs.iter().map(|pair| ((key(pair), pair.by.as_str(), pair.name.as_str()), pair)).collect()
}

fn pair_changes(scores: [&Score; 2], scale: &Scale) -> Vec<PairChange> {
    // Pairs of one side alone cannot be compared.
    let [Some(before), Some(after)] = scores.map(|score| score.pairs.as_deref()) else {
        return Vec::new();
    };
    // An earlier schedlab did not measure who ran meanwhile.
    let is_known = |pairs: &[PairScore]| pairs.iter().all(|pair| pair.kind != PairKind::Preempted);
    let known = [is_known(before), is_known(after)];
    let both = [keyed(before), keyed(after)];
    let keys: BTreeSet<PairKey<'_>> = both.iter().flat_map(|pairs| pairs.keys().copied()).collect();
    let mut changes: Vec<(bool, bool, f64, PairChange)> = keys
        .into_iter()
        .map(|key| {
            let pairs = [0, 1].map(|at| both[at].get(&key));
            let is_wakeup = key.0;
            let count = pairs.map(|pair| Some(pair.map_or(0, |pair| pair.count)));
            let ran = [0, 1].map(|at| {
                let ran_ns = pairs[at].and_then(|pair| pair.delay_ns()).unwrap_or(0);
                known[at].then_some(ran_ns)
            });
            let (kind, changes, moved) = if is_wakeup {
                (PairKind::Woke, vec![scale.count("times", count)], scale.distance(count))
            } else {
                let changes = vec![scale.time("ran", ran), scale.count("preempted", count)];
                (PairKind::Delayed, changes, scale.distance(ran))
            };
            let changes = changes.into_iter().filter(Change::is_anything).collect();
            let is_folded = key.1 == PairScore::UNWATCHED && key.2 == PairScore::UNWATCHED;
            let (by, name) = (key.1.to_string(), key.2.to_string());
            (is_wakeup, is_folded, moved, PairChange { kind, by, name, changes })
        })
        .collect();
    changes.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2)));
    changes.into_iter().map(|(.., pair)| pair).collect()
}

fn cpu_changes(scores: [&Score; 2], scale: &Scale) -> Vec<RowChange> {
    let both = scores.map(|score| -> BTreeMap<u32, &CpuScore> {
        score.cpus.iter().map(|cpu| (cpu.cpu, cpu)).collect()
    });
    let numbers: BTreeSet<u32> = both.iter().flat_map(|cpus| cpus.keys().copied()).collect();
    let change = |number: u32| {
        let cpus = [0, 1].map(|at| both[at].get(&number).copied());
        let share = |at: usize| busy(scores[at], cpus[at]?);
        let changes = vec![
            Change::new("busy", Unit::Share, share(0), share(1)),
            scale.count("switches", cpus.map(|cpu| cpu?.switches)),
            scale.count("idle entries", cpus.map(|cpu| cpu?.idle_entries)),
            {
                let [before, after] = cpus.map(|cpu| queue_mean(cpu?));
                Change::new("queue mean", Unit::Mean, before, after)
            },
        ];
        let changes = changes.into_iter().filter(Change::is_anything).collect();
        RowChange { label: format!("CPU {number}"), changes }
    };
    let mut rows: Vec<RowChange> = numbers.into_iter().map(change).collect();
    let moved = |row: &RowChange| {
        let busy = row.changes.iter().find(|change| change.name == "busy");
        busy.and_then(|busy| busy.difference).map_or(0.0, f64::abs)
    };
    rows.sort_by(|a, b| moved(b).total_cmp(&moved(a)));
    rows
}

/// The part of the time in which a CPU did not idle.
fn busy(score: &Score, cpu: &CpuScore) -> Option<f64> {
    Some(cpu.busy_ns? as f64 / score.wall_ns.max(1) as f64)
}

/// Mean run-queue length.
pub fn queue_mean(cpu: &CpuScore) -> Option<f64> {
    let lengths = cpu.lengths.as_ref()?;
    let samples: u64 = lengths.iter().sum();
    let sum: u64 = lengths.iter().zip(0..).map(|(count, length)| length * count).sum();
    (samples > 0).then(|| sum as f64 / samples as f64)
}

/// `None` where a CPU of the group is unknown.
fn llc_busy(score: &Score, cpus: &CpuSet) -> Option<f64> {
    let is_known = score.llcs.as_ref()?.contains(cpus);
    let shares = cpus.iter().map(|number| {
        busy(score, score.cpus.iter().find(|cpu| cpu.cpu == number).filter(|_| is_known)?)
    });
    let shares: Vec<f64> = shares.collect::<Option<_>>()?;
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

fn llc_changes(scores: [&Score; 2]) -> Vec<RowChange> {
    let groups: BTreeSet<String> = scores
        .iter()
        .flat_map(|score| score.llcs.iter().flatten())
        .map(CpuSet::to_string)
        .collect();
    let groups = groups.into_iter().filter_map(|text| Some((text.parse::<CpuSet>().ok()?, text)));
    let mut groups: Vec<(CpuSet, String)> = groups.collect();
    groups.sort_by_key(|(cpus, _)| cpus.iter().next());
    let change = |(cpus, text): (CpuSet, String)| {
        let [before, after] = scores.map(|score| llc_busy(score, &cpus));
        let changes = vec![Change::new("busy", Unit::Share, before, after)];
        let changes = changes.into_iter().filter(Change::is_anything).collect();
        RowChange { label: format!("cache of CPUs {text}"), changes }
    };
    groups.into_iter().map(change).collect()
}

/// The CPU's state when it looked for load, and the outcomes of the search.
pub const IDLENESS: [&str; 3] = ["newly idle", "idle", "busy"];
pub const BALANCE: [&str; 5] =
    ["lb_count", "lb_balanced", "lb_failed", "lb_gained", "lb_hot_gained"];

/// Counts of load balancing, summed over the CPUs: by domain, idleness and kind.
pub fn domain_sums(score: &Score) -> BTreeMap<(u32, Option<&str>), [[u64; 5]; 3]> {
    let mut sums: BTreeMap<(u32, Option<&str>), [[u64; 5]; 3]> = BTreeMap::new();
    for domain in score.domains.iter().flatten() {
        let sums = sums.entry((domain.domain, domain.name.as_deref())).or_default();
        for (sum, of) in sums.iter_mut().zip([&domain.newly_idle, &domain.idle, &domain.busy]) {
            let counts =
                [of.lb_count, of.lb_balanced, of.lb_failed, of.lb_gained, of.lb_hot_gained];
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    sums
}

fn domain_changes(scores: [&Score; 2], scale: &Scale) -> Vec<RowChange> {
    let both = scores.map(domain_sums);
    let keys: BTreeSet<(u32, Option<&str>)> =
        both.iter().flat_map(|sums| sums.keys().copied()).collect();
    let mut rows = Vec::new();
    for key in keys {
        for (kind, idleness) in IDLENESS.iter().enumerate() {
            let changes = BALANCE.iter().enumerate().map(|(at, name)| {
                scale.count(name, [0, 1].map(|side| Some(both[side].get(&key)?[kind][at])))
            });
            let changes: Vec<Change> = changes.filter(Change::is_anything).collect();
            let name = key.1.unwrap_or_default();
            let label = format!("domain{} {name}", key.0).trim_end().to_string();
            if !changes.is_empty() {
                rows.push(RowChange { label: format!("{label}, {idleness}"), changes });
            }
        }
    }
    rows
}
