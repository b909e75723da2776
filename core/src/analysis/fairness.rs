//! The CPU time that each worker set was entitled to and got, in plans with solo runs of their sets:
//! same variant, same placement, same round. Method: docs/method.md, "Fairness between sets".
//!
//! Input: a sampled plan and the workers of its runs. Output: a table for each work. Pure.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

use crate::model::{
    ABOVE_WALL, Cell, Cgroup, CgroupPath, CpuSet, FIRST_DOMAIN_CPU, Heeded, Phase, Reading,
    SampledPlan, SampledWorker, Value, Work, WorkerKind, WorkerSet, are_above_wall, is_spoilt,
    merged_knobs,
};
use crate::stats::{self, CompetingCgroup, CompetingSet, Competitor, Fairness, SetShare};

use super::lists::grouped;
use super::priority::{OF_IDLE, SchedPriority};

/// CPUs that a worker of a background set is assumed to want where it has no solo run.
const ASSUMED_WANT: f64 = 1.0;

/// Fairness of one work that is not a solo run itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FairnessTable {
    pub work: String,
    /// Variants that have at least one complete round, in the plan's order.
    pub variants: Vec<VariantFairness>,
    /// Foreground sets without a solo run in the plan. If there are any, there are no variants.
    pub missing: Vec<String>,
    /// Background sets without a solo run: assumed to want a CPU per worker, not in Jain's index.
    pub assumed: Vec<String>,
    /// Sets of a work that are not all active at the same time: what they want and get is then that
    /// of different moments. If there are any, there are no variants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phased: Vec<String>,
    /// Variants that were measured, but in no round together with all solo runs.
    pub incomplete: Vec<String>,
    /// Variants whose scheduler does not heed weights that the sets differ in, or of which that is not known:
    /// nothing is known of what sets are entitled to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unheeded: Vec<Unheeded>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unheeded {
    pub variant: String,
    /// The sched_ext scheduler.
    pub scheduler: String,
    pub weights: Weights,
    /// Whether it is known not to heed them; otherwise nothing is known.
    pub is_known: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    Nice,
    Cgroups,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantFairness {
    pub variant: String,
    /// Rounds with the work and all of its solo runs, ascending.
    pub rounds: Vec<u32>,
    /// How many of these rounds have load from outside or steal in the work's run or in a solo run.
    #[serde(skip_serializing_if = "is_zero")]
    pub spoilt: usize,
    /// CPUs that at least one set may use.
    pub cpus: PerRound,
    pub jain: PerRound,
    /// Background sets too, in the order of the work.
    pub sets: Vec<SetFairness>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetFairness {
    pub set: String,
    pub workload: String,
    pub background: bool,
    /// By name: `want`, `entitled` and `got` are CPUs, the mean over workers; `weight` is that of
    /// each worker, all others are ratios.
    #[serde(flatten, serialize_with = "by_name")]
    pub figures: [(&'static str, PerRound); 7],
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn by_name<S: Serializer>(figures: &[(&str, PerRound)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(name, rounds)| (name, rounds)))
}

/// The readings of one figure, in the order of [`VariantFairness::rounds`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PerRound(pub Vec<Reading<f64>>);

impl PerRound {
    pub fn values(&self) -> Vec<f64> {
        self.0.iter().filter_map(|reading| reading.clone().known()).collect()
    }

    /// The median of the known readings; without one, the first reason.
    pub fn median(&self) -> Reading<f64> {
        let none =
            || self.0.first().cloned().unwrap_or_else(|| Reading::from_option(None, "no round"));
        stats::median(&self.values()).map_or_else(none, Reading::Known)
    }
}

/// A table for each work that is not a solo run, in the plan's order.
pub fn fairness(plan: &SampledPlan) -> Vec<FairnessTable> {
    let plan = Runs::from_plan(plan);
    let cells = plan.sampled.cells.iter().filter(|cell| cell.work.solo().is_none());
    grouped(cells.map(|cell| (&cell.work, cell)))
        .into_iter()
        .map(|(work, cells)| plan.table(work, &cells))
        .collect()
}

/// The runs of a plan, found by what they are of.
struct Runs<'p> {
    sampled: &'p SampledPlan,
    /// Positions in [`SampledPlan::runs`], ascending in rounds.
    of_cell: HashMap<u32, BTreeMap<u32, usize>>,
    /// Cells of solo runs, by the solo key of their set.
    solos: HashMap<String, Vec<&'p Cell>>,
}

impl<'p> Runs<'p> {
    fn from_plan(sampled: &'p SampledPlan) -> Self {
        let mut of_cell: HashMap<u32, BTreeMap<u32, usize>> = HashMap::new();
        for (at, run) in sampled.runs.iter().enumerate() {
            of_cell.entry(run.key.cell).or_default().insert(run.key.round, at);
        }
        let mut solos: HashMap<String, Vec<&Cell>> = HashMap::new();
        for cell in &sampled.cells {
            if let Some(set) = cell.work.solo() {
                solos.entry(set.solo_key()).or_default().push(cell);
            }
        }
        Runs { sampled, of_cell, solos }
    }

    fn has_solo(&self, set: &WorkerSet) -> bool {
        self.solos.contains_key(&set.solo_key())
    }

    fn table(&self, work: &Work, cells: &[&Cell]) -> FairnessTable {
        let without = |background: bool| {
            let sets = work.sets.iter().filter(|set| set.background == background);
            sets.filter(|set| !self.has_solo(set)).map(|set| set.name.clone()).collect()
        };
        let mut table = FairnessTable {
            work: work.label(),
            variants: Vec::new(),
            missing: without(false),
            assumed: without(true),
            phased: phased(work),
            incomplete: Vec::new(),
            unheeded: Vec::new(),
        };
        if !table.missing.is_empty() || !table.phased.is_empty() {
            return table;
        }
        for cell in cells {
            let Some(runs) = self.of_cell.get(&cell.index) else { continue };
            let unheeded = runs.values().find_map(|&at| self.unheeded(cell, at));
            let judged = |fairness: Fairness| match &unheeded {
                Some(_) => fairness.without_entitlements("its scheduler need not heed the weights"),
                None => fairness,
            };
            let rounds = runs.iter().filter_map(|(&round, &at)| {
                let fairness =
                    stats::fairness(&self.competing(cell, at)?, &competing_cgroups(work));
                Some((round, judged(fairness)))
            });
            let rounds: Vec<(u32, Fairness)> = rounds.collect();
            table.unheeded.extend(unheeded);
            if rounds.is_empty() {
                table.incomplete.push(cell.variant.name.clone())
            } else {
                let spoilt = |(round, _): &&(u32, Fairness)| self.is_spoilt(cell, runs[round]);
                let spoilt = rounds.iter().filter(spoilt).count();
                table.variants.push(VariantFairness { spoilt, ..over_rounds(cell, rounds) })
            }
        }
        table
    }

    /// Whether load from outside or steal spoilt a run, or the solo run of one of its sets.
    fn is_spoilt(&self, cell: &Cell, run: usize) -> bool {
        let round = self.sampled.runs[run].key.round;
        let sets = cell.work.sets.iter();
        let solos = sets.filter_map(|set| self.solo_run(set, cell, round)).map(|(run, _)| run);
        [run].into_iter().chain(solos).any(|run| {
            let disturbances = self.sampled.runs[run].disturbances.iter();
            is_spoilt(disturbances.map(|of| (of.kind(), of.share)))
        })
    }

    /// The weights that sets of a run differ in and that its scheduler does not heed, as far as is known.
    fn unheeded(&self, cell: &Cell, run: usize) -> Option<Unheeded> {
        let machine = self.sampled.environments.get(self.sampled.runs[run].environment as usize);
        let of_machine = machine.and_then(|machine| machine.scx());
        let scheduler = cell.variant.scx().or(of_machine.filter(|_| !self.sampled.has_guests()))?;
        let heeded = Heeded::by(Some(scheduler));
        let unheeded = [
            (Weights::Nice, heeded.nice, differ_in_nice(cell)),
            (Weights::Cgroups, heeded.cgroups, differ_in_cgroups(&cell.work)),
        ];
        let found =
            unheeded.into_iter().find(|(_, heeded, matters)| *matters && *heeded != Some(true));
        found.map(|(weights, heeded, _)| Unheeded {
            variant: cell.variant.name.clone(),
            scheduler: scheduler.to_string(),
            weights,
            is_known: heeded.is_some(),
        })
    }

    /// The sets of a run. `None` where a set or a solo run is not there in this round.
    fn competing(&self, cell: &Cell, run: usize) -> Option<Vec<CompetingSet>> {
        let round = self.sampled.runs[run].key.round;
        let pool = self.pool_cpus(cell, run);
        let reach = pool.as_ref().and_then(|pool| in_reach(pool, cell));
        let counted = self.counted(run, &reach);
        let sets = cell.work.sets.iter().enumerate().map(|(at, set)| {
            let workers = self.workers(run, at);
            let solo =
                if self.has_solo(set) { Some(self.solo_run(set, cell, round)?) } else { None };
            let alone = solo.map(|(run, _)| self.workers(run, 0));
            let alone_counted = solo.map(|(run, _)| self.counted(run, &reach));
            let has_several = workers.len() != set.count as usize;
            let shared = Reading::from_option((!has_several).then_some(()), SEVERAL_IN_A_GUEST);
            let alone_counted = match set.kind {
                WorkerKind::Guests => alone_counted.map(|counted| counted.and_then(|()| shared)),
                _ => alone_counted,
            };
            if workers.is_empty() || alone.as_ref().is_some_and(Vec::is_empty) {
                return None;
            }
            Some(CompetingSet {
                cpus: pool.as_ref().and_then(|pool| allowed_cpus(pool, cell, set)),
                priority: SchedPriority::from_knobs(&cell.variant, set).priority(),
                cgroup: set.cgroup.as_ref().and_then(|own| position(&cell.work.cgroups, own)),
                workers: competitors(
                    &workers,
                    &counted,
                    alone.as_deref().zip(alone_counted.as_ref()),
                ),
                rate: self.throughput(run, at, set).map(|rate| rate / f64::from(set.count)),
                solo_rate: match solo {
                    Some((run, set)) => {
                        let rate = self.throughput(run, 0, set);
                        rate.map_unknown(|why| format!("in its solo run {why}"))
                    }
                    None => Reading::from_option(None, "it has no solo run"),
                },
                is_want_measured: solo.is_some(),
            })
        });
        sets.collect()
    }

    /// Whether CPU time of a run may be computed with: not where there cannot be so much.
    fn counted(&self, run: usize, reach: &Reading<CpuSet>) -> Reading<()> {
        let workers = self.sampled.runs[run].workers.iter();
        let times = workers.map(|worker| (worker.cpu_ns, worker.wall_ns));
        let cpus = reach.as_ref().known().map(|cpus| cpus.len());
        Reading::from_option((!are_above_wall(times, cpus)).then_some(()), ABOVE_WALL)
    }

    fn workers(&self, run: usize, set: usize) -> Vec<&'p SampledWorker> {
        let workers = self.sampled.runs[run].workers.iter();
        workers.filter(|worker| usize::from(worker.set) == set).collect()
    }

    /// The solo run of a set for the same variant, placement and round, and the set there.
    fn solo_run(&self, of: &WorkerSet, cell: &Cell, at: u32) -> Option<(usize, &'p WorkerSet)> {
        let same = |solo: &&&Cell| {
            solo.variant.name == cell.variant.name
                && (&solo.placement, solo.work.llcs) == (&cell.placement, cell.work.llcs)
        };
        let run = |cell: u32| self.of_cell.get(&cell)?.get(&at).copied();
        let mut solos = self.solos.get(&of.solo_key())?.iter().filter(same);
        solos.find_map(|solo| Some((run(solo.index)?, solo.work.solo()?)))
    }

    /// Operations per second. Plans keep none of background sets: computed where all have one role.
    fn throughput(&self, run: usize, at: usize, set: &WorkerSet) -> Reading<f64> {
        let is_throughput = |metric: u32| {
            let metric = &self.sampled.metrics[metric as usize];
            metric.set == set.name && metric.kind.name == "throughput"
        };
        let mut values = self.sampled.runs[run].values.iter();
        let value = values.find(|(metric, _)| is_throughput(*metric)).map(|(_, value)| *value);
        match value {
            None if set.background => rate_of_all(&self.workers(run, at)),
            value => Reading::from_option(value, "its throughput is not known"),
        }
    }

    /// The CPUs of a run: those of its placement, of its pool, or all that schedlab may use.
    fn pool_cpus(&self, cell: &Cell, run: usize) -> Reading<CpuSet> {
        let (placement, run) = (&cell.placement, &self.sampled.runs[run]);
        let environments = &self.sampled.environments;
        let machine = environments.get(run.environment as usize).or(environments.first());
        let machine = machine.map(|of| &of.topology);
        let all = match (&placement.cpus, &placement.pool) {
            (Some(cpus), _) => Reading::Known(cpus.clone()),
            (None, Some(pool)) => {
                let why = format!(
                    "the CPUs of the pool {pool} are not known: the run did not read it back"
                );
                let read_back = run.pool.map(|pool| &self.sampled.pools[pool as usize]);
                Reading::from_option(read_back.and_then(|pool| pool.cpus.clone()), &why)
            }
            (None, None) => {
                let is_first_domain =
                    |cpu: &u32| cell.work.has_guests(false) && *cpu == FIRST_DOMAIN_CPU;
                let usable = machine.map(|of| of.usable().iter());
                let usable = usable.map(|cpus| cpus.filter(|cpu| !is_first_domain(cpu)).collect());
                Reading::from_option(usable, "the machine's CPUs are not known")
            }
        };
        let Some(llcs) = cell.work.llcs else { return all };
        all.and_then(|cpus| {
            let first = machine.and_then(|machine| machine.first_llcs(llcs, &cpus).ok());
            Reading::from_option(first, "the machine's last-level caches are not known")
        })
    }
}

fn position(cgroups: &[Cgroup], path: &CgroupPath) -> Option<usize> {
    cgroups.iter().position(|cgroup| cgroup.path == *path)
}

/// A plan's weight of 100 is that of a worker of nice 0.
pub fn competing_cgroups(work: &Work) -> Vec<CompetingCgroup> {
    let of = |cgroup: &Cgroup| {
        let is_idle = cgroup.knobs.get("cgroup-idle").and_then(Value::as_bool) == Some(true);
        let weight = cgroup.knobs.get("cgroup-weight").and_then(Value::as_int).unwrap_or(100);
        let max = cgroup.knobs.get("cgroup-max").and_then(Value::as_percent);
        CompetingCgroup {
            parent: cgroup.path.parent().and_then(|above| position(&work.cgroups, &above)),
            weight: if is_idle { f64::from(OF_IDLE) } else { weight as f64 * 10.24 },
            max: max.map_or(f64::INFINITY, |percent| percent / 100.0),
        }
    };
    work.cgroups.iter().map(of).collect()
}

/// Whether sets of ordinary tasks have different weights by their nice values and policies.
fn differ_in_nice(cell: &Cell) -> bool {
    let tasks = cell.work.sets.iter().filter(|set| set.kind != WorkerKind::Guests);
    let fair = tasks.map(|set| SchedPriority::from_knobs(&cell.variant, set));
    let fair: Vec<_> = fair.filter(|own| matches!(own, SchedPriority::Fair { .. })).collect();
    fair.windows(2).any(|pair| pair[0] != pair[1])
}

/// Whether cgroups share the CPUs in another way than their tasks would by themselves.
fn differ_in_cgroups(work: &Work) -> bool {
    let limits = work.cgroups.iter().any(|cgroup| cgroup.knobs.contains_key("cgroup-max"));
    limits || work.sets.windows(2).any(|pair| pair[0].cgroup != pair[1].cgroup)
}

/// The sets that have a phase, unless all have the same and none ends it by its work, or those that change in mid-run.
fn phased(work: &Work) -> Vec<String> {
    let changed = work.sets.iter().filter(|set| work.changes_in_mid_run(set));
    let changed: Vec<String> = changed.map(|set| set.name.clone()).collect();
    if !changed.is_empty() {
        return changed;
    }
    let phases = || work.sets.iter().map(|set| set.phase);
    let is_burst = |phase: Option<Phase>| phase.is_some_and(|phase| phase.ops.is_some());
    let first = phases().next().flatten();
    if !is_burst(first) && phases().all(|phase| phase == first) {
        return Vec::new();
    }
    let phased = work.sets.iter().filter(|set| set.phase.is_some());
    phased.map(|set| set.name.clone()).collect()
}

/// Why nobody knows what a worker in a guest with others wants: the guest has one weight for all.
const SEVERAL_IN_A_GUEST: &str = "its guests have several workers each";
const SEVERAL_ROLES: &str = "its workers have several roles";

/// The workers of a run, and whether their CPU time may be computed with.
type Alone<'a> = (&'a [&'a SampledWorker], &'a Reading<()>);

/// `alone`: those of the solo run, where there is one.
fn competitors(
    workers: &[&SampledWorker],
    counted: &Reading<()>,
    alone: Option<Alone>,
) -> Vec<Competitor> {
    let roles_differ = workers.iter().any(|worker| worker.role != workers[0].role);
    let mut wants: BTreeMap<&str, Reading<f64>> = BTreeMap::new();
    let competitors = workers.iter().map(|worker| Competitor {
        want: wants
            .entry(&worker.role)
            .or_insert_with(|| want_of_role(&worker.role, alone))
            .clone(),
        got: counted.clone().and_then(|()| per_ns(worker, worker.cpu_ns)),
        rate: if roles_differ {
            Reading::from_option(None, SEVERAL_ROLES)
        } else {
            per_ns(worker, worker.ops)
        },
    });
    competitors.collect()
}

fn per_ns(worker: &SampledWorker, count: u64) -> Reading<f64> {
    let rate = (worker.wall_ns > 0).then(|| count as f64 / worker.wall_ns as f64);
    Reading::from_option(rate, "a worker was measured for no time")
}

/// The mean over the workers of that role alone. `alone` is `None` where there is no solo run.
fn want_of_role(role: &str, alone: Option<Alone>) -> Reading<f64> {
    let Some((alone, counted)) = alone else { return Reading::Known(ASSUMED_WANT) };
    if let Reading::Unknown(why) = counted {
        return Reading::Unknown(format!("in its solo run {why}"));
    }
    let same_role = alone.iter().filter(|worker| *worker.role == *role);
    let used: Option<Vec<f64>> =
        same_role.map(|worker| per_ns(worker, worker.cpu_ns).known()).collect();
    let mean = used.and_then(|used| stats::mean(&used));
    Reading::from_option(mean, "the solo run does not say what it wants")
}

fn rate_of_all(workers: &[&SampledWorker]) -> Reading<f64> {
    if workers.iter().any(|worker| worker.role != workers[0].role) {
        return Reading::from_option(None, SEVERAL_ROLES);
    }
    workers.iter().fold(Reading::Known(0.0), |sum, worker| {
        sum.and_then(|sum| per_ns(worker, worker.ops).map(|rate| sum + 1e9 * rate))
    })
}

/// The CPUs of `pool`, and those to which knobs of the cell move workers.
fn in_reach(pool: &CpuSet, cell: &Cell) -> Reading<CpuSet> {
    let knobs = cell.work.sets.iter().map(|set| merged_knobs(&cell.variant.knobs, &set.knobs));
    let own = knobs.filter_map(|knobs| knobs.get("affinity").and_then(Value::as_cpus).cloned());
    let own: Vec<CpuSet> = own.collect();
    Reading::Known(pool.iter().chain(own.iter().flat_map(CpuSet::iter)).collect())
}

/// The CPUs of `pool` that the workers of a set may use under the cell's variant.
pub fn allowed_cpus(pool: &CpuSet, cell: &Cell, set: &WorkerSet) -> Reading<CpuSet> {
    let of_cgroups = cell.work.cgroups.iter().filter_map(|cgroup| {
        let holds = set.cgroup.as_ref().is_some_and(|own| own.is_within(&cgroup.path));
        cgroup.cpus.as_ref().filter(|_| holds)
    });
    let held = |cpus: CpuSet, by: &CpuSet| cpus.iter().filter(|cpu| by.contains(*cpu)).collect();
    let pool = &of_cgroups.fold(pool.clone(), held);
    let knobs = merged_knobs(&cell.variant.knobs, &set.knobs);
    let affinity = if set.kind == WorkerKind::Guests { "xen-affinity" } else { "affinity" };
    let Some(affinity) = knobs.get(affinity).and_then(Value::as_cpus) else {
        return Reading::Known(pool.clone());
    };
    if cell.placement.cpus.is_none() && cell.placement.pool.is_none() {
        // Workers may leave the CPUs that schedlab was started with.
        return Reading::Known(affinity.clone());
    }
    let cpus: CpuSet = pool.iter().filter(|cpu| affinity.contains(*cpu)).collect();
    let why = format!("no CPU of the pool ({pool}) is in the affinity {affinity}");
    Reading::from_option(Some(cpus).filter(|cpus| !cpus.is_empty()), &why)
}

fn over_rounds(cell: &Cell, rounds: Vec<(u32, Fairness)>) -> VariantFairness {
    let each = |read: &dyn Fn(&Fairness) -> Reading<f64>| {
        PerRound(rounds.iter().map(|(_, fairness)| read(fairness)).collect())
    };
    let set = |(at, set): (usize, &WorkerSet)| {
        let of = |read: fn(&SetShare) -> &Reading<f64>| {
            each(&|fairness: &Fairness| read(&fairness.sets[at]).clone())
        };
        let weight = SchedPriority::from_knobs(&cell.variant, set).weight();
        SetFairness {
            set: set.name.clone(),
            workload: set.workload.clone(),
            background: set.background,
            figures: [
                ("want", of(|share| &share.want)),
                ("entitled", of(|share| &share.entitled)),
                ("got", of(|share| &share.got)),
                ("got_over_entitled", of(|share| &share.got_over_entitled)),
                ("throughput_vs_solo", of(|share| &share.throughput_vs_solo)),
                ("max_over_min", of(|share| &share.max_over_min)),
                ("weight", each(&|_| weight.clone())),
            ],
        }
    };
    VariantFairness {
        variant: cell.variant.name.clone(),
        rounds: rounds.iter().map(|(round, _)| *round).collect(),
        spoilt: 0,
        cpus: each(&|fairness| fairness.cpus.clone().map(|cpus| cpus as f64)),
        jain: each(&|fairness| fairness.jain.clone()),
        sets: cell.work.sets.iter().enumerate().map(set).collect(),
    }
}

#[cfg(test)]
mod tests;
