//! What each set of a work was entitled to and what it got, where the record has solo runs to
//! tell what the sets want: the same variant, the same round.
//!
//! Input: the runs of a record by cell. Output borrows from it. Pure.

use std::collections::BTreeMap;

use crate::model::{
    CpuSet, Direction, Environment, Metric, Outcome, Placement, Reading, Record, RecordedRun,
    RunResult, SetResult, Unit, Value, Variant, Work, WorkerResult, WorkerSet, merged_knobs,
};
use crate::stats::{self, Competitor, Share};

use super::summary::{CellRuns, MetricSummary};
use super::weight::SchedPriority;

/// CPUs that a worker of a background set is taken to want where it has no solo run.
const ASSUMED_WANT: f64 = 1.0;

/// Fairness of one work that is no solo run itself.
pub struct WorkFairness<'a> {
    /// Variants with a round that has all it takes, in the plan's order.
    pub variants: Vec<VariantFairness<'a>>,
    /// Foreground sets of which the plan has no solo run; then there are no variants above.
    pub missing: Vec<&'a WorkerSet>,
    /// Variants that were measured here, but in no round together with all solo runs.
    pub incomplete: Vec<&'a Variant>,
    /// Background sets of which the plan has no solo run: taken to want a CPU a worker, and
    /// left out of Jain's index.
    pub assumed: Vec<&'a WorkerSet>,
}

pub struct VariantFairness<'a> {
    pub variant: &'a Variant,
    /// Those that have all it takes, ascending.
    pub rounds: Vec<u32>,
    /// `cpus` that the sets may use, and `jain` over what workers got of what they were entitled to.
    pub metrics: Vec<MetricSummary<'a>>,
    /// Of all sets, the background's too, in the order of the work.
    pub sets: Vec<SetFairness<'a>>,
}

pub struct SetFairness<'a> {
    pub set: &'a WorkerSet,
    /// [`PER_SET`], in that order.
    pub metrics: Vec<MetricSummary<'a>>,
}

type Described = (&'static str, Unit, Direction);

const PER_WORK: [Described; 2] =
    [("cpus", Unit::Count, Direction::Neutral), ("jain", Unit::Ratio, Direction::HigherIsBetter)];

/// `want`, `entitled` and `got` are CPUs, the mean over the set's workers; `weight` is that of
/// each of them.
pub const PER_SET: [Described; 7] = [
    ("want", Unit::Cpus, Direction::Neutral),
    ("entitled", Unit::Cpus, Direction::Neutral),
    ("got", Unit::Cpus, Direction::Neutral),
    ("got_over_entitled", Unit::Ratio, Direction::Neutral),
    ("throughput_vs_solo", Unit::Ratio, Direction::HigherIsBetter),
    ("max_over_min", Unit::Ratio, Direction::LowerIsBetter),
    ("weight", Unit::Count, Direction::Neutral),
];

/// The cells of solo runs, by the solo_key of their set.
pub struct Solos<'c, 'a>(BTreeMap<String, Vec<&'c CellRuns<'a>>>);

impl<'c, 'a> Solos<'c, 'a> {
    pub fn of(cells: &'c [CellRuns<'a>]) -> Self {
        let mut solos: BTreeMap<String, Vec<&CellRuns>> = BTreeMap::new();
        for cell in cells {
            if let Some(set) = cell.cell.work.solo() {
                solos.entry(set.solo_key()).or_default().push(cell);
            }
        }
        Solos(solos)
    }

    fn cells(&self, set: &WorkerSet) -> &[&'c CellRuns<'a>] {
        self.0.get(&set.solo_key()).map_or(&[], Vec::as_slice)
    }
}

/// `None` for a work that is a solo run.
pub fn fairness<'a>(
    record: &'a Record,
    work: &'a Work,
    members: &[&CellRuns<'a>],
    solos: &Solos<'_, 'a>,
) -> Option<WorkFairness<'a>> {
    if work.solo().is_some() {
        return None;
    }
    let without = |background| {
        let sets = work.sets.iter().filter(move |set| set.background == background);
        sets.filter(|set| solos.cells(set).is_empty()).collect()
    };
    let mut fairness = WorkFairness {
        variants: Vec::new(),
        missing: without(false),
        incomplete: Vec::new(),
        assumed: without(true),
    };
    if !fairness.missing.is_empty() {
        return Some(fairness);
    }
    let of_sets: Vec<&[&CellRuns]> = work.sets.iter().map(|set| solos.cells(set)).collect();
    for member in members {
        let rounds = rounds(record, member, &of_sets);
        let variant = &member.cell.variant;
        if !rounds.is_empty() {
            fairness.variants.push(over_rounds(variant, work, rounds));
        } else if member.results().next().is_some() {
            fairness.incomplete.push(variant);
        }
    }
    Some(fairness)
}

/// What one round tells: the readings of [`PER_WORK`], and of [`PER_SET`] for each set.
struct Round {
    round: u32,
    work: [Reading<f64>; 2],
    sets: Vec<[Reading<f64>; PER_SET.len()]>,
}

/// The rounds of a cell in which all its sets that have solo runs at all have them.
fn rounds(record: &Record, member: &CellRuns, of_sets: &[&[&CellRuns]]) -> Vec<Round> {
    let of_round = |(&round, run): (&u32, &&RecordedRun)| {
        let Outcome::Done { result } = &run.outcome else { return None };
        let environment = record.environments.get(run.environment as usize);
        let environment = environment.unwrap_or(&record.started.environment);
        let placement = &member.cell.placement;
        let pool = pool_cpus(placement, environment, result);
        let mut sets = Vec::new();
        for (set, solos) in member.cell.work.sets.iter().zip(of_sets) {
            let result = result.sets.iter().find(|found| found.name == set.name)?;
            let solo = solos.iter().find_map(|solo| solo_of(solo, member, round));
            if solo.is_none() && !solos.is_empty() {
                return None;
            }
            let variant = &member.cell.variant;
            let standing = SchedPriority::of(variant, set);
            let cpus = pool.clone().and_then(|pool| held_to(pool, placement, variant, set));
            sets.push(Competing { set, result, solo, standing, cpus });
        }
        Some(judge(round, &sets))
    };
    member.runs.iter().filter_map(of_round).collect()
}

/// The solo run of the same variant, placement and round.
fn solo_of<'a>(solo: &CellRuns<'a>, member: &CellRuns, round: u32) -> Option<&'a SetResult> {
    let alike = solo.cell.variant.name == member.cell.variant.name
        && solo.cell.placement == member.cell.placement;
    match &solo.runs.get(&round).filter(|_| alike)?.outcome {
        Outcome::Done { result } => result.sets.first(),
        Outcome::Failed { .. } | Outcome::Skipped { .. } => None,
    }
}

/// The CPUs that the workers of a run compete for. The error is why that is not known.
fn pool_cpus(
    placement: &Placement,
    environment: &Environment,
    result: &RunResult,
) -> Result<CpuSet, String> {
    match (&placement.cpus, &placement.pool) {
        (Some(cpus), _) => Ok(cpus.clone()),
        (None, None) => Ok(environment.topology.usable().clone()),
        (None, Some(pool)) => result
            .pool_cpus
            .clone()
            .ok_or_else(|| format!("the CPUs of the pool {pool} are not known")),
    }
}

/// The CPUs of `pool` that the workers of a set may use under a variant.
fn held_to(
    pool: CpuSet,
    placement: &Placement,
    variant: &Variant,
    set: &WorkerSet,
) -> Result<CpuSet, String> {
    let knobs = merged_knobs(&variant.knobs, &set.knobs);
    let Some(affinity) = knobs.get("affinity").and_then(Value::as_cpus) else { return Ok(pool) };
    if placement.cpus.is_none() && placement.pool.is_none() {
        // Nothing holds workers but this: what schedlab was started with is theirs to leave.
        return Ok(affinity.clone());
    }
    let cpus: CpuSet = pool.iter().filter(|cpu| affinity.contains(*cpu)).collect();
    if cpus.is_empty() {
        return Err(format!("of the pool's CPUs {pool} none is in the affinity {affinity}"));
    }
    Ok(cpus)
}

/// A set in a run beside others, and its solo run where it has one.
struct Competing<'r> {
    set: &'r WorkerSet,
    result: &'r SetResult,
    solo: Option<&'r SetResult>,
    standing: SchedPriority,
    /// Which its workers may use, or why that is not known.
    cpus: Result<CpuSet, String>,
}

impl Competing<'_> {
    /// What a worker wants: the mean over the workers of its role alone, at most a CPU.
    fn want(&self, worker: &WorkerResult) -> f64 {
        let Some(solo) = self.solo else { return ASSUMED_WANT };
        let alike = solo.workers.iter().filter(|alone| alone.role == worker.role);
        let used: Vec<f64> = alike.map(used).collect();
        // A role that is not there alone wants nothing that is known.
        stats::mean(&used).map_or(f64::NAN, |used| used.min(1.0))
    }
}

/// CPUs that a worker used; not a number where it was measured for no time.
fn used(worker: &WorkerResult) -> f64 {
    worker.cpu_ns as f64 / worker.wall_ns as f64
}

fn judge(round: u32, sets: &[Competing]) -> Round {
    let competitors: Vec<Vec<Competitor>> = sets
        .iter()
        .map(|set| {
            let compete = |own: &WorkerResult| Competitor {
                claim: set.standing.claim(set.want(own)),
                got: used(own),
            };
            set.result.workers.iter().map(compete).collect()
        })
        .collect();
    let shares = shares(sets, &competitors);
    let mut told = Vec::new();
    for (at, (set, competitors)) in sets.iter().zip(&competitors).enumerate() {
        let own = shares.as_ref().map(|shares| shares[at].as_slice());
        told.push(set_readings(set, competitors, own.map_err(String::as_str)));
    }
    let jain = match &shares {
        Ok(shares) => or(jain(sets, shares), "no worker got what can be compared"),
        Err(why) => Reading::Unknown(why.clone()),
    };
    let cpus = match all_cpus(sets) {
        Ok(cpus) => Reading::Known(cpus.len() as f64),
        Err(why) => Reading::Unknown(why),
    };
    Round { round, work: [cpus, jain], sets: told }
}

/// Those that one of the sets may use.
fn all_cpus(sets: &[Competing]) -> Result<CpuSet, String> {
    let each = sets.iter().map(|set| set.cpus.clone());
    Ok(each.collect::<Result<Vec<CpuSet>, String>>()?.iter().flat_map(CpuSet::iter).collect())
}

/// Of the workers of each set. The error is why there are none.
fn shares(sets: &[Competing], competitors: &[Vec<Competitor>]) -> Result<Vec<Vec<Share>>, String> {
    let mut held_to: Vec<&CpuSet> = Vec::new();
    for (set, own) in sets.iter().zip(competitors) {
        let cpus = set.cpus.as_ref().map_err(String::clone)?;
        held_to.extend(own.iter().map(|_| cpus));
    }
    let shares = stats::shares(&competitors.concat(), &held_to)
        .ok_or("sets are held to different CPUs in more ways than are reckoned with")?;
    let mut rest = shares.as_slice();
    let of_sets = competitors.iter().map(|own| {
        let (own, others) = rest.split_at(own.len());
        rest = others;
        own.to_vec()
    });
    Ok(of_sets.collect())
}

/// Of all workers whose want was measured.
fn jain(sets: &[Competing], shares: &[Vec<Share>]) -> Option<f64> {
    let measured = sets.iter().zip(shares).filter(|(set, _)| set.solo.is_some());
    // Who is entitled to nothing has no part in how evenly it was kept.
    let shares = measured.flat_map(|(_, own)| own).filter(|share| share.entitled > 0.0);
    let kept: Option<Vec<f64>> = shares.map(|share| share.got_over_entitled).collect();
    stats::jain(&kept?)
}

/// `shares`: of its workers, or why nobody's is known.
fn set_readings(
    set: &Competing,
    own: &[Competitor],
    shares: Result<&[Share], &str>,
) -> [Reading<f64>; PER_SET.len()] {
    let mean = |values: Vec<f64>| stats::mean(&values);
    let want = mean(own.iter().map(|worker| worker.claim.want).collect());
    let got = mean(own.iter().map(|worker| worker.got).collect());
    let (entitled, kept) = match shares {
        Ok(shares) => {
            let due = mean(shares.iter().map(|share| share.entitled).collect());
            // What is no number is entitled to nothing, which says nothing of it.
            let entitled = want.and(due);
            let due = entitled.filter(|entitled| *entitled > 0.0);
            let kept = got.zip(due).map(|(got, due)| got / due);
            (
                or(entitled, "the solo run does not tell what it wants"),
                or(kept, "it is entitled to nothing that is known"),
            )
        }
        Err(why) => (Reading::Unknown(why.to_string()), Reading::Unknown(why.to_string())),
    };
    [
        or(want, "the solo run does not tell it"),
        entitled,
        or(got, "a worker was measured for no time"),
        kept,
        throughput_vs_solo(set),
        max_over_min(&set.result.workers),
        set.standing.weight(),
    ]
}

fn or(value: Option<f64>, why: &str) -> Reading<f64> {
    value.map_or(Reading::Unknown(why.to_string()), Reading::Known)
}

/// Of one of the set, as the solo run is of one.
fn throughput_vs_solo(set: &Competing) -> Reading<f64> {
    let Some(solo) = set.solo else {
        return Reading::Unknown("it has no solo run".to_string());
    };
    match (throughput(set.result), throughput(solo)) {
        (Reading::Known(beside), Reading::Known(alone)) if alone > 0.0 => {
            Reading::Known(beside / f64::from(set.set.count) / alone)
        }
        (Reading::Known(_), Reading::Known(_)) => {
            Reading::Unknown("no operations in its solo run".to_string())
        }
        (Reading::Unknown(why), _) => Reading::Unknown(why),
        (_, Reading::Unknown(why)) => Reading::Unknown(format!("solo run: {why}")),
    }
}

fn throughput(set: &SetResult) -> Reading<f64> {
    let found = set.metrics.iter().find(|metric| metric.kind.name == "throughput");
    let value = found.map(|Metric { value, .. }| value.clone());
    value.unwrap_or(Reading::Unknown("no throughput is reported".to_string()))
}

/// Of the rates of workers that are all alike.
fn max_over_min(workers: &[WorkerResult]) -> Reading<f64> {
    let [first, others @ ..] = workers else {
        return Reading::Unknown("no worker".to_string());
    };
    if others.is_empty() {
        return Reading::Unknown("one worker: nothing to compare".to_string());
    }
    if others.iter().any(|worker| worker.role != first.role) {
        return Reading::Unknown("its workers have several roles".to_string());
    }
    let rates: Vec<f64> =
        workers.iter().map(|worker| worker.ops as f64 / worker.wall_ns as f64).collect();
    or(stats::max_over_min(&rates), "a worker completed nothing")
}

fn over_rounds<'a>(
    variant: &'a Variant,
    work: &'a Work,
    rounds: Vec<Round>,
) -> VariantFairness<'a> {
    let sets = work.sets.iter().enumerate().map(|(position, set)| {
        let metrics = PER_SET.iter().enumerate().map(|(at, described)| {
            let values = rounds.iter().map(|round| (round.round, &round.sets[position][at]));
            summary(described, values)
        });
        SetFairness { set, metrics: metrics.collect() }
    });
    let metrics = PER_WORK.iter().enumerate().map(|(at, described)| {
        summary(described, rounds.iter().map(|round| (round.round, &round.work[at])))
    });
    VariantFairness {
        variant,
        metrics: metrics.collect(),
        sets: sets.collect(),
        rounds: rounds.iter().map(|round| round.round).collect(),
    }
}

fn summary<'r>(
    (name, unit, direction): &Described,
    values: impl Iterator<Item = (u32, &'r Reading<f64>)>,
) -> MetricSummary<'static> {
    let values = values.map(|(round, value)| (round, Some(value)));
    MetricSummary::over_rounds(name, *unit, *direction, values)
}

impl<'a> VariantFairness<'a> {
    /// The metric of this name.
    pub fn metric(&self, name: &str) -> Option<&MetricSummary<'a>> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

impl<'a> SetFairness<'a> {
    /// The metric of this name.
    pub fn metric(&self, name: &str) -> Option<&MetricSummary<'a>> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::summarise;
    use crate::report::testing::{self, PlanBuilder, RunBuilder};
    use proptest::prelude::*;

    /// One set beside itself on four CPUs, with its solo run: `count` workers that want
    /// `want` CPUs and got `got` each.
    fn alike(count: u32, want: f64, got: &[f64]) -> PlanBuilder {
        let set = ("w", "burnwait", false);
        let mut plan = PlanBuilder::without_works(1, &["default"])
            .work("w solo", &[], &[set])
            .work("w", &[], &[set])
            .counts(0, &[1])
            .counts(1, &[count])
            .placed("0-3");
        plan.done_in(0, 0, "default", |run| run.workers(0, &[(want, 1000.0 * want)]));
        let workers: Vec<(f64, f64)> = got.iter().map(|&got| (got, 1000.0 * got)).collect();
        plan.done_in(1, 0, "default", |run| run.workers(0, &workers));
        plan
    }

    /// The medians of the last work's first variant: of its first set, and Jain's index.
    fn medians(plan: PlanBuilder) -> (Vec<Option<f64>>, Option<f64>) {
        let record = plan.record();
        let summary = summarise(&record);
        let fairness = summary.works.last().and_then(|work| work.fairness.as_ref()).unwrap();
        let variant = &fairness.variants[0];
        let set = variant.sets[0].metrics.iter().map(|metric| metric.median).collect();
        (set, variant.metric("jain").and_then(|jain| jain.median))
    }

    fn close(got: &[Option<f64>], expected: &[Option<f64>]) -> bool {
        let alike = |(got, expected): (&Option<f64>, &Option<f64>)| match (got, expected) {
            (Some(got), Some(expected)) => (got - expected).abs() < 1e-6,
            (got, expected) => got == expected,
        };
        got.len() == expected.len() && got.iter().zip(expected).all(alike)
    }

    /// The worked examples of schedbench's README: competitors that want half a CPU each, on
    /// four CPUs. Five are entitled to that, ten to 40 %.
    #[test]
    fn five_who_want_half_a_cpu_of_four_are_due_it_and_ten_four_tenths() {
        let cases = [
            // count, got by each, entitled, got / entitled, throughput / solo
            (5, 0.5, 0.5, 1.0, 1.0),
            (5, 0.4, 0.5, 0.8, 0.8),
            (10, 0.4, 0.4, 1.0, 0.8),
            (10, 0.2, 0.4, 0.5, 0.4),
        ];
        for (count, got, entitled, ratio, vs_solo) in cases {
            let (set, jain) = medians(alike(count, 0.5, &vec![got; count as usize]));
            let expected = [0.5, entitled, got, ratio, vs_solo, 1.0, 1024.0].map(Some);
            assert!(close(&set, &expected), "{count} got {got}: {set:?}");
            assert!(close(&[jain], &[Some(1.0)]), "all alike: {jain:?}");
        }
        // Half of them have all that there is.
        let got: Vec<f64> = (0..10).map(|at| if at < 5 { 0.5 } else { 0.3 }).collect();
        let (set, jain) = medians(alike(10, 0.5, &got));
        assert!(close(&set[1..4], &[Some(0.4), Some(0.4), Some(1.0)]), "{set:?}");
        assert!(close(&set[5..6], &[Some(5.0 / 3.0)]), "{set:?}");
        assert!(close(&[jain], &[Some(16.0 / 17.0)]), "4^2 / (10 * 1.7): {jain:?}");
    }

    #[test]
    fn a_background_without_a_solo_run_competes_for_a_cpu_and_has_no_part_in_jains_index() {
        let record = testing::competing().record();
        let summary = summarise(&record);
        let fairness = summary.works[2].fairness.as_ref().unwrap();
        assert!(fairness.missing.is_empty() && fairness.incomplete.is_empty());
        assert_eq!(fairness.assumed[0].name, "hog");
        let [default, greedy] = fairness.variants.as_slice() else { panic!("two variants") };
        assert_eq!((&*default.rounds, &*greedy.rounds), (&[0, 1][..], &[0, 1][..]));
        let medians = |found: &SetFairness| -> Vec<Option<f64>> {
            found.metrics.iter().map(|metric| metric.median).collect()
        };
        let third = 1.0 / 3.0;
        let b = [1.0, 2.0 * third, 0.9, 1.35, 0.9, 11.0 / 9.0, 1024.0].map(Some);
        assert!(close(&medians(&greedy.sets[1]), &b), "{:?}", medians(&greedy.sets[1]));
        let due = Some(2.0 * third);
        let hog = [Some(1.0), due, due, Some(1.0), None, None, Some(1024.0)];
        assert!(close(&medians(&default.sets[2]), &hog), "{:?}", medians(&default.sets[2]));
        // Four got 0.6 of their due and two 1.35: 5.1^2 / (6 * 5.085).
        let jain = greedy.metric("jain").and_then(|jain| jain.median);
        assert!(close(&[jain], &[Some(26.01 / 30.51)]), "{jain:?}");
        // With a solo run it is a competitor like others.
        let mut record = record.clone();
        let of_hog = |work: &mut Work| {
            if work.name == "mix solo b" {
                work.sets[0] = WorkerSet { workload: "spin".into(), ..work.sets[0].clone() };
            }
            work.sets.retain(|set| set.name != "b" || work.name != "mix");
        };
        record.started.cells.iter_mut().for_each(|cell| of_hog(&mut cell.work));
        record.started.plan.works.iter_mut().for_each(of_hog);
        let summary = summarise(&record);
        let fairness = summary.works[2].fairness.as_ref().unwrap();
        assert!(fairness.assumed.is_empty());
        assert!(fairness.variants[0].sets[1].metrics[4].median.is_some(), "against its solo run");
    }

    /// `spin` beside `spin` on one CPU, each with knobs of its own, under a variant of nice 10.
    fn beside(a: &[(&str, Value)], b: &[(&str, Value)], got: [f64; 2]) -> PlanBuilder {
        let sets = [("a", "spin", false), ("b", "burnwait", false)];
        let mut plan = PlanBuilder::without_works(1, &["nice-10"])
            .work("a solo", &[], &sets[..1])
            .work("b solo", &[], &sets[1..])
            .work("both", &[], &sets)
            .placed("0");
        for (at, own) in [(0, a), (1, b)] {
            plan = plan.counts(at, &[1]).counts(2, &[1, 1]);
            plan = plan.own_knobs(at, 0, own).own_knobs(2, at, own);
        }
        plan.set_knob("nice-10", "nice", Value::Int(10));
        plan.done_in(0, 0, "nice-10", |run| run.workers(0, &[(1.0, 100.0)]));
        plan.done_in(1, 0, "nice-10", |run| run.workers(0, &[(0.75, 100.0)]));
        plan.done_in(2, 0, "nice-10", |run| {
            run.workers(0, &[(got[0], 1.0)]).workers(1, &[(got[1], 1.0)])
        });
        plan
    }

    /// Entitled, got / entitled and weight of both sets, and Jain's index.
    fn by_weight(plan: PlanBuilder) -> Vec<Option<f64>> {
        let record = plan.record();
        let summary = summarise(&record);
        let variant = &summary.works[2].fairness.as_ref().unwrap().variants[0];
        let mut told = Vec::new();
        for set in &variant.sets {
            let metrics = ["entitled", "got_over_entitled", "weight"];
            told.extend(metrics.map(|name| set.metric(name).and_then(|metric| metric.median)));
        }
        told.push(variant.metric("jain").and_then(|jain| jain.median));
        told
    }

    #[test]
    fn who_has_more_weight_is_entitled_to_more() {
        let nice = |n| [("nice", Value::Int(n))];
        let policy = |word: &str| [("policy", Value::Text(word.to_string()))];
        let (heavy, light) = (1024.0 / 1359.0, 335.0 / 1359.0);
        // As the weights say: each got its due.
        let told = by_weight(beside(&nice(0), &nice(5), [heavy, light]));
        let due = [heavy, 1.0, 1024.0, light, 1.0, 335.0, 1.0].map(Some);
        assert!(close(&told, &due), "{told:?}");
        // Halves are not.
        let told = by_weight(beside(&nice(0), &nice(5), [0.5, 0.5]));
        let (a, b) = (0.5 / heavy, 0.5 / light);
        let jain = (a + b).powi(2) / (2.0 * (a * a + b * b));
        let even = [heavy, a, 1024.0, light, b, 335.0, jain].map(Some);
        assert!(close(&told, &even), "{told:?}");
        // The variant's nice holds for a set with none of its own, but not beside a policy.
        let told = by_weight(beside(&[], &policy("idle"), [0.5, 0.5]));
        assert!(close(&[told[2], told[5]], &[Some(110.0), Some(3.0)]), "{told:?}");
        let told = by_weight(beside(&[], &policy("batch"), [0.5, 0.5]));
        assert!(close(&[told[2], told[5]], &[Some(110.0), Some(1024.0)]), "{told:?}");
        // Who wants less than its weight gives leaves the rest.
        let told = by_weight(beside(&nice(19), &nice(-20), [0.25, 0.75]));
        let due = [0.25, 1.0, 15.0, 0.75, 1.0, 88761.0, 1.0].map(Some);
        assert!(close(&told, &due), "{told:?}");
    }

    #[test]
    fn real_time_sets_are_entitled_to_their_wants_and_leave_the_rest_to_fair_ones() {
        let policy = |word: &str| [("policy", Value::Text(word.to_string()))];
        for word in ["fifo", "rr", "deadline"] {
            let told = by_weight(beside(&[], &policy(word), [0.25, 0.75]));
            let due = [Some(0.25), Some(1.0), Some(110.0), Some(0.75), Some(1.0), None, Some(1.0)];
            assert!(close(&told, &due), "{word}: {told:?}");
        }
        let told = by_weight(beside(&policy("fifo"), &[], [0.5, 0.5]));
        let due = [Some(1.0), Some(0.5), None, Some(0.0), None, Some(110.0), Some(1.0)];
        assert!(close(&told, &due), "nothing is left: {told:?}");
    }

    #[test]
    fn a_solo_run_is_of_the_same_workers_variant_and_round_whoever_wrote_it() {
        let whole = alike(2, 0.5, &[0.5; 2]);
        let told = |plan: PlanBuilder| {
            let record = plan.record();
            let summary = summarise(&record);
            assert!(summary.works[0].fairness.is_none() || summary.works.len() == 1);
            let fairness = summary.works.last().unwrap().fairness.as_ref().unwrap();
            let variants = (fairness.variants.len(), fairness.incomplete.len());
            (variants, fairness.missing.len())
        };
        assert_eq!(told(whole.clone()), ((1, 0), 0));
        // Another parameter in the solo run, or more than one worker: it is none.
        let other = |plan: PlanBuilder| {
            let mut plan = plan;
            plan.done_in(1, 0, "default", |run| run);
            plan
        };
        let set = [("w", "burnwait", false)];
        let works = || {
            let plan = PlanBuilder::without_works(2, &["default"]);
            plan.work("solo", &[], &set).work("w", &[], &set).counts(0, &[1])
        };
        let param = works().param(0, "operations", Value::Int(6));
        let missing = summarise_missing(&other(param));
        assert_eq!(missing, ["w"]);
        // The plan has it, but no run of it in this round.
        assert_eq!(told(other(works())), ((0, 1), 0));
        let mut late = other(works());
        late.done_in(0, 1, "default", |run| run);
        assert_eq!(told(late), ((0, 1), 0));
        let mut failed = works();
        failed.failed(0, "default", "died");
        assert_eq!(told(other(failed)), ((0, 1), 0));
        // Nothing of the work was measured: nothing to say of it.
        assert_eq!(told(works()), ((0, 0), 0));
    }

    fn summarise_missing(plan: &PlanBuilder) -> Vec<String> {
        let record = plan.clone().record();
        let summary = summarise(&record);
        let fairness = summary.works.last().unwrap().fairness.as_ref().unwrap();
        assert!(fairness.variants.is_empty() && fairness.incomplete.is_empty());
        fairness.missing.iter().map(|set| set.name.clone()).collect()
    }

    #[test]
    fn workers_of_a_role_want_what_that_role_wants_alone() {
        let set = [("w", "schbench", false)];
        let mut plan = PlanBuilder::without_works(1, &["default"])
            .work("solo", &[], &set)
            .work("w", &[], &set)
            .counts(0, &[1])
            .placed("0-3");
        let fill = |run: RunBuilder| run.workers(0, &[(0.1, 0.0), (0.9, 10.0)]).role(0, "message");
        plan.done_in(0, 0, "default", fill);
        plan.done_in(1, 0, "default", fill);
        let (set, jain) = medians(plan);
        let half = Some(0.5);
        let expected = [half, half, half, Some(1.0), half, None, Some(1024.0)];
        assert!(close(&set, &expected), "{set:?}");
        assert!(close(&[jain], &[Some(1.0)]), "a mean of both would be 0.61: {jain:?}");
    }

    #[test]
    fn nobody_wants_more_than_a_cpu() {
        let (set, _) = medians(alike(2, 1.2, &[1.2; 2]));
        assert!(close(&set[..3], &[Some(1.0), Some(1.0), Some(1.2)]), "{set:?}");
    }

    #[test]
    fn the_pool_is_the_placement_or_what_the_process_may_use() {
        let cpus = |record: &Record| {
            let summary = summarise(record);
            let fairness = summary.works[1].fairness.as_ref().unwrap();
            fairness.variants[0].metric("cpus").and_then(|cpus| cpus.median)
        };
        let mut record = alike(2, 0.5, &[0.5; 2]).record();
        assert_eq!(cpus(&record), Some(4.0));
        record.started.cells.iter_mut().for_each(|cell| cell.placement.cpus = None);
        record.environments[0].topology.allowed = "1".parse().unwrap();
        assert_eq!(cpus(&record), Some(1.0));
        record.environments[0].topology.allowed = Default::default();
        assert_eq!(cpus(&record), Some(2.0), "all that are online");
    }

    /// Two hogs beside themselves in a pool that the plan gives no CPUs; the whole work's
    /// metrics, then the set's.
    fn in_pool(cpus: Option<&str>) -> Vec<(String, Reading<f64>)> {
        let mut record = alike(2, 1.0, &[0.5; 2]).record();
        for cell in &mut record.started.cells {
            cell.placement.cpus = None;
            cell.placement.pool = Some("bench".to_string().try_into().unwrap());
        }
        let run = record.runs.iter_mut().find(|run| run.key.cell == 1).unwrap();
        let Outcome::Done { result } = &mut run.outcome else { panic!("it is done") };
        result.pool_cpus = cpus.map(|cpus| cpus.parse().unwrap());
        let summary = summarise(&record);
        let fairness = summary.works[1].fairness.as_ref().unwrap();
        assert!(fairness.incomplete.is_empty());
        let [variant] = fairness.variants.as_slice() else { panic!("there is one") };
        let metrics = variant.metrics.iter().chain(&variant.sets[0].metrics);
        let reading = |metric: &MetricSummary| match metric.median {
            Some(median) => Reading::Known(median),
            None => Reading::Unknown(metric.unknown[0].0.clone()),
        };
        metrics.map(|metric| (metric.name.to_string(), reading(metric))).collect()
    }

    #[test]
    fn the_cpus_of_a_pool_count_or_the_entitlement_is_unknown() {
        for (cpus, number, entitled) in [("3", 1.0, 0.5), ("0-1,8", 3.0, 1.0), ("2,4", 2.0, 1.0)] {
            let found = in_pool(Some(cpus));
            let known =
                |name: &str, value| found.contains(&(name.to_string(), Reading::Known(value)));
            assert!(known("cpus", number) && known("entitled", entitled), "{cpus}: {found:?}");
            assert!(known("got_over_entitled", 0.5 / entitled) && known("jain", 1.0), "{found:?}");
        }
        let why = "the CPUs of the pool bench are not known".to_string();
        for (name, reading) in in_pool(None) {
            let of_entitlement = ["cpus", "jain", "entitled", "got_over_entitled"];
            let unknown = reading == Reading::Unknown(why.clone());
            assert_eq!(unknown, of_entitlement.contains(&name.as_str()), "{name}: {reading:?}");
        }
    }

    /// Two sets of two hogs on CPUs 0-1 with these affinities, or without any; what each is
    /// entitled to and the CPUs of both.
    fn held(
        variant: Option<&str>,
        own: [Option<&str>; 2],
        placed: Option<&str>,
    ) -> [Reading<f64>; 3] {
        let affinity = |cpus: &str| ("affinity", Value::Cpus(cpus.parse().unwrap()));
        let sets = [("a", "spin", false), ("b", "burnwait", false)];
        let mut plan = PlanBuilder::without_works(1, &["v"])
            .work("a solo", &[], &sets[..1])
            .work("b solo", &[], &sets[1..])
            .work("both", &[], &sets)
            .counts(0, &[1])
            .counts(1, &[1]);
        for (at, own) in own.into_iter().enumerate() {
            let own: Vec<(&str, Value)> = own.into_iter().map(affinity).collect();
            plan = plan.own_knobs(at, 0, &own).own_knobs(2, at, &own);
        }
        if let Some(cpus) = placed {
            plan = plan.placed(cpus);
        }
        if let Some(cpus) = variant {
            let (knob, value) = affinity(cpus);
            plan.set_knob("v", knob, value);
        }
        plan.done_in(0, 0, "v", |run| run.workers(0, &[(1.0, 1.0)]));
        plan.done_in(1, 0, "v", |run| run.workers(0, &[(1.0, 1.0)]));
        plan.done_in(2, 0, "v", |run| {
            run.workers(0, &[(0.5, 1.0); 2]).workers(1, &[(0.5, 1.0); 2])
        });
        let record = plan.record();
        let summary = summarise(&record);
        let variant = &summary.works[2].fairness.as_ref().unwrap().variants[0];
        let entitled = |at: usize| variant.sets[at].metric("entitled").unwrap();
        [entitled(0), entitled(1), variant.metric("cpus").unwrap()].map(|metric| {
            match metric.median {
                Some(median) => Reading::Known(median),
                None => Reading::Unknown(metric.unknown[0].0.clone()),
            }
        })
    }

    #[test]
    fn an_affinity_leaves_its_workers_these_cpus_and_to_others_theirs() {
        type Case<'a> = (Option<&'a str>, [Option<&'a str>; 2], Option<&'a str>, [f64; 3]);
        let cases: &[Case] = &[
            (None, [None, None], Some("0-1"), [0.5, 0.5, 2.0]),
            // All on one CPU of the two.
            (Some("0"), [None, None], Some("0-1"), [0.25, 0.25, 1.0]),
            (None, [Some("1"), Some("1")], Some("0-1"), [0.25, 0.25, 1.0]),
            // The set's own replaces the variant's.
            (Some("0"), [None, Some("1")], Some("0-1"), [0.5, 0.5, 2.0]),
            (None, [Some("0"), None], Some("0-2"), [0.5, 1.0, 3.0]),
            // A pool has no CPUs that it lacks; without any an affinity leaves the process's.
            (Some("1-9"), [None, None], Some("0-1"), [0.25, 0.25, 1.0]),
            (Some("1-3"), [None, None], None, [0.75, 0.75, 3.0]),
            (None, [Some("0"), Some("0-2")], None, [0.5, 1.0, 3.0]),
            (Some("0-1"), [Some("1"), Some("0")], Some("0-1"), [0.5, 0.5, 2.0]),
        ];
        for (variant, own, placed, expected) in cases {
            let told = held(*variant, *own, *placed);
            let close = |(told, expected): (&Reading<f64>, &f64)| matches!(told, Reading::Known(told) if (told - expected).abs() < 1e-9);
            let all = told.iter().zip(expected).all(close);
            assert!(all, "{variant:?} {own:?} {placed:?}: {told:?}");
        }
        let why = "of the pool's CPUs 0-1 none is in the affinity 4";
        let unknown = Reading::Unknown(why.to_string());
        assert_eq!(held(None, [Some("4"), None], Some("0-1")), [(); 3].map(|()| unknown.clone()));
    }

    #[test]
    fn what_was_measured_for_no_time_is_unknown() {
        let mut record = alike(2, 0.5, &[0.5; 2]).record();
        for run in &mut record.runs {
            if let Outcome::Done { result } = &mut run.outcome {
                result.sets[0].workers[0].wall_ns = 0;
                result.sets[0].workers[0].cpu_ns = 0;
            }
        }
        let summary = summarise(&record);
        let fairness = summary.works[1].fairness.as_ref().unwrap();
        for metric in &fairness.variants[0].sets[0].metrics {
            let known = ["throughput_vs_solo", "weight"].contains(&metric.name);
            assert_eq!(metric.median.is_some(), known, "{}", metric.name);
        }
    }

    proptest! {
        #[test]
        fn who_got_what_they_are_entitled_to_have_a_jain_of_one(
            wants in proptest::collection::vec((0.01f64..1.0, 1u32..8), 1..5),
        ) {
            let workloads = ["schbench", "burnwait", "pipe", "spin", "messaging"];
            let sets: Vec<(&str, &str, bool)> =
                wants.iter().zip(workloads).map(|(_, name)| (name, name, false)).collect();
            let mut plan = PlanBuilder::without_works(1, &["default"]);
            for (at, set) in sets.iter().enumerate() {
                plan = plan.work(&format!("solo {at}"), &[], &[*set]).counts(at, &[1]);
            }
            // More than one of something, so that the last work is no solo run.
            let mut counts: Vec<u32> = wants.iter().map(|(_, count)| *count).collect();
            counts[0] += 1;
            plan = plan.work("all", &[], &sets).counts(sets.len(), &counts).placed("0-3");
            for (at, (want, _)) in wants.iter().enumerate() {
                plan.done_in(at, 0, "default", |run| run.workers(0, &[(*want, 1.0)]));
            }
            let claim = |want| stats::Claim { want, weight: 1024.0, rank: 0 };
            let all: Vec<stats::Claim> = wants.iter().zip(&counts)
                .flat_map(|((want, _), &count)| vec![claim(*want); count as usize]).collect();
            let due = stats::entitlements(&all, 4.0);
            plan.done_in(sets.len(), 0, "default", |mut run| {
                let mut from = 0;
                for (at, &count) in counts.iter().enumerate() {
                    let own = &due[from..from + count as usize];
                    let workers: Vec<(f64, f64)> = own.iter().map(|&due| (due, 1.0)).collect();
                    run = run.workers(at, &workers);
                    from += count as usize;
                }
                run
            });
            let (_, jain) = medians(plan);
            prop_assert!(jain.is_some_and(|jain| jain > 1.0 - 1e-9), "{:?}", jain);
        }
    }
}
