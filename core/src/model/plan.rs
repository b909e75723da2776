//! A plan after parsing and checking, and the cells that it expands to. Plain data.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Cgroup, CgroupPath, CpuSet, Expectation, Finding, Lab, Params, PoolName, Value, words,
};

/// The version of the plan format that this program reads and writes.
pub const PLAN_SCHEMA: i64 = 1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub title: String,
    pub measure: Measure,
    /// In the order written; the first is the baseline.
    pub variants: Vec<Variant>,
    /// Everything but the variant: one entry per workload and point of its axes.
    pub works: Vec<Work>,
    pub placement: Placement,
    /// The format of this plan's reports unless another is asked for. Older stored plans have none, and keep their
    /// text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_format: Option<String>,
    /// Telemetry during the runs, by the names of probes in the order written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
    /// The guests of backend `lab`. Older plans that are stored without it had its first defaults.
    #[serde(default = "Lab::first_default", skip_serializing_if = "Lab::is_first_default")]
    pub lab: Lab,
    /// It runs in virtual time, where works may have durations of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_lab_durations: bool,
    /// The plan's claims about its variants, in the order written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// The publication that they are taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// Both variants do the same, to learn what this machine resolves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aa: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    pub rounds: u32,
    pub duration_ns: u64,
    pub warmup_ns: u64,
    pub window_ns: u64,
    pub seed: u64,
    /// A round that would end after this does not begin; `None`: no limit.
    pub budget_ns: Option<u64>,
    /// A run that has not ended after warm-up, duration and this is killed and failed.
    pub grace_ns: u64,
    /// A work is measured until its headline metrics have their verdicts from looks, in `rounds` at most.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_decided: bool,
    /// Only meaningful with `until_decided`.
    #[serde(default, skip_serializing_if = "LookRule::is_early")]
    pub looks: LookRule,
    /// Rounds done at each end after which rounds were added, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<u32>,
    /// A work's round that load from outside spoilt does not count and is measured again. Plans
    /// stored before this was done count all rounds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat_spoilt: bool,
    /// The length of a block: the variants of a work take turns inside one run. `None`: each run has one variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_ns: Option<u64>,
}

impl Measure {
    /// The seed for the workers of a round. It depends on plan and round alone, so all variants of a round draw the
    /// same.
    pub fn seed_of(&self, round: u32) -> u64 {
        self.seed.wrapping_add(u64::from(round).wrapping_mul(0x9e37_79b9))
    }

    /// How much of a duration a variant has in turns: whole blocks. Without turns all of it.
    pub fn whole_blocks_ns(&self, duration_ns: u64) -> u64 {
        duration_ns - self.turns_ns.map_or(0, |block_ns| duration_ns % block_ns.max(1))
    }

    /// Whether the look at an end leaves something of the error rate to spend, so that rounds may
    /// be added. Fixed rounds have spent it all, as has the early rule.
    pub fn leaves_a_look(&self) -> bool {
        self.until_decided && self.looks != LookRule::Early
    }
}

/// The rule for looks at a plan's verdicts before its end, and for the part of the error rate that each may spend:
/// `stats::Schedule` has the numbers. A stored plan keeps its rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookRule {
    /// Half at the first look, all at the end: no rounds can be added. Plans stored before there
    /// was another rule have this one.
    #[default]
    Early,
    /// A part of the remaining error rate at each look, and a larger one at the end: rounds can be added.
    Even,
}

impl LookRule {
    fn is_early(&self) -> bool {
        *self == LookRule::Early
    }
}

/// One scheduler configuration under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    pub name: String,
    pub knobs: BTreeMap<String, Value>,
}

/// The work of a cell, the same for every variant: worker sets that compete, or one alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The workload's name in the plan.
    pub name: String,
    /// The chosen point of each axis, in the order written: `threads` = `4`.
    pub axes: Vec<(String, String)>,
    /// The number of last-level caches, from the first, on whose CPUs its workers run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llcs: Option<u32>,
    /// The length of its runs; `None`: the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// The length of its runs where [`Plan::has_lab_durations`]; `None`: as elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab_duration_ns: Option<u64>,
    /// The cgroups of its sets and all above them, each after the one that it lies in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<Cgroup>,
    /// CPUs that are taken off in mid-run, in the order of their moments; none twice at a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offline: Vec<Offline>,
    pub sets: Vec<WorkerSet>,
}

/// CPUs that no task has for a part of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offline {
    /// The time since the begin of the measured section.
    pub at_ns: u64,
    /// `None`: to the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ns: Option<u64>,
    pub cpus: CpuSet,
}

impl Offline {
    /// Since the begin of the measured section; `None`: the end of the run.
    pub fn end_ns(&self) -> Option<u64> {
        self.for_ns.map(|for_ns| self.at_ns.saturating_add(for_ns))
    }

    /// Whether they are off at this moment.
    pub fn is_at(&self, at_ns: u64) -> bool {
        self.at_ns <= at_ns && self.end_ns().is_none_or(|end_ns| at_ns < end_ns)
    }
}

impl Work {
    /// Whether workers of it are guests of Xen, on a machine where it is or is not.
    pub fn has_guests(&self, on_xen: bool) -> bool {
        self.sets.iter().any(|set| match set.kind {
            WorkerKind::Guests => true,
            WorkerKind::GuestsOrProcesses => on_xen,
            WorkerKind::Threads | WorkerKind::Processes => false,
        })
    }
}

/// N workers alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerSet {
    pub name: String,
    /// The workload's name in the registry.
    pub workload: String,
    /// Complete: defaults are filled in.
    pub params: Params,
    pub count: u32,
    pub kind: WorkerKind,
    /// `None`: its workers run from the barrier to the end, as in plans stored before sets had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Background sets load the machine and have no rows in the table.
    pub background: bool,
    /// Task knobs of this set's workers alone; each replaces the variant's of its name.
    /// Plans stored before sets had knobs have none.
    #[serde(default)]
    pub knobs: BTreeMap<String, Value>,
    /// One of [`Work::cgroups`]; `None`: the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupPath>,
    /// Changes of its workers in mid-run, in the order in which they happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SetChange>,
}

/// When the workers of a set run. They are asleep before and after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The time since the begin of the measured section.
    pub at_ns: u64,
    /// `None`: to the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ns: Option<u64>,
    /// A burst: each worker whose operations count does this number, and is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
}

impl Phase {
    /// Since the begin of the measured section; `None`: with the run.
    pub fn end_ns(&self) -> Option<u64> {
        self.for_ns.map(|for_ns| self.at_ns.saturating_add(for_ns))
    }
}

/// A change to all workers of a set in mid-run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetChange {
    /// The time since the begin of the measured section.
    pub at_ns: u64,
    /// Task knobs; each replaces the one of its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, Value>,
    /// The cgroup that they move to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupPath>,
    /// How many of them there are from then on: the others sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

impl SetChange {
    /// The knobs after each change of workers that have `knobs` before the first one. Those that the policy by then
    /// does not take come back with a later one that does.
    pub fn knobs_after<'c>(
        changes: &'c [SetChange],
        mut knobs: BTreeMap<String, Value>,
    ) -> impl Iterator<Item = BTreeMap<String, Value>> + 'c {
        changes.iter().map(move |change| {
            knobs.extend(change.knobs.clone());
            let policy = knobs.get("policy").and_then(Value::as_text).unwrap_or("other");
            let is_taken = |knob: &str| {
                let own = OF_POLICIES.iter().find(|(name, _)| *name == knob);
                own.is_none_or(|(_, policies)| policies.contains(&policy))
            };
            let own = knobs.iter().filter(|(knob, _)| {
                // A knob that the change itself names is there to be refused.
                is_taken(knob) || change.knobs.contains_key(*knob)
            });
            own.map(|(knob, value)| (knob.clone(), value.clone())).collect()
        })
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerKind {
    #[default]
    Threads,
    Processes,
    /// Paravirtual guests of Xen, each with one worker.
    Guests,
    /// Guests where Xen is, and processes elsewhere: one plan for both.
    GuestsOrProcesses,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// `None`: every CPU of the pool, or that the process may use.
    pub cpus: Option<CpuSet>,
    /// The cpuset that the run's processes are put into. Plans stored before there were pools
    /// have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    #[serde(default, skip_serializing_if = "MemoryPlacement::is_kernel")]
    pub memory: MemoryPlacement,
}

words! {
    /// On which NUMA nodes the pages of workers lie, with the words of plans and reports.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MemoryPlacement {
        /// The kernel decides.
        #[default]
        Kernel = "kernel",
        /// Spread over the nodes of the CPUs.
        Interleave = "interleave",
    }
}

impl MemoryPlacement {
    fn is_kernel(&self) -> bool {
        *self == Self::Kernel
    }
}

/// One variant x work x placement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Position in the plan's expansion.
    pub index: u32,
    pub variant: Variant,
    pub work: Work,
    pub placement: Placement,
}

impl Cell {
    /// `web threads=4 / batch`.
    pub fn place(&self) -> String {
        format!("{} / {}", self.work.label(), self.variant.name)
    }
}

/// One execution of a cell that the order asks for.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct RunKey {
    pub round: u32,
    /// [`Cell::index`].
    pub cell: u32,
}

impl Plan {
    /// The length of a work's runs without their warm-up.
    pub fn duration_ns(&self, work: &Work) -> u64 {
        let in_lab = work.lab_duration_ns.filter(|_| self.has_lab_durations);
        in_lab.unwrap_or_else(|| self.host_duration_ns(work))
    }

    /// The length of a work's runs outside virtual time.
    pub fn host_duration_ns(&self, work: &Work) -> u64 {
        work.duration_ns.unwrap_or(self.measure.duration_ns)
    }

    /// The lengths of its runs, each once.
    pub fn durations_ns(&self) -> BTreeSet<u64> {
        self.works.iter().map(|work| self.duration_ns(work)).collect()
    }

    /// The times of a run of each work, warm-up included; in turns, a variant's share of the run that all have together.
    pub fn run_times_ns(&self) -> impl Iterator<Item = u64> {
        let shares =
            if self.measure.turns_ns.is_some() { self.variants.len().max(1) as u64 } else { 1 };
        self.works.iter().map(move |work| {
            let own_ns = self.measure.whole_blocks_ns(self.duration_ns(work));
            own_ns.saturating_add(self.measure.warmup_ns / shares)
        })
    }

    /// The mean of [`Plan::run_times_ns`].
    pub fn mean_run_ns(&self) -> u64 {
        self.run_times_ns().fold(0, u64::saturating_add) / self.works.len().max(1) as u64
    }

    /// The position in [`Plan::works`] of a cell's work.
    pub fn work_of(&self, cell: u32) -> usize {
        cell as usize / self.variants.len().max(1)
    }

    /// The cells of `cells` that the others are compared with: one for each work.
    pub fn cells_of_baseline(&self, cells: &[Cell]) -> Vec<Cell> {
        cells.iter().step_by(self.variants.len().max(1)).cloned().collect()
    }

    /// This plan with `more` rounds, added after an end with `rounds_done` rounds.
    pub fn extended(&self, rounds_done: u32, more: u32) -> Plan {
        let mut plan = self.clone();
        plan.measure.rounds = rounds_done.saturating_add(more);
        plan.measure.ends.push(rounds_done);
        plan
    }

    /// Whether this is `before` with rounds added, as [`Plan::extended`] does it.
    pub fn extends(&self, before: &Plan) -> bool {
        let [done @ .., last] = self.measure.ends.as_slice() else { return false };
        done == before.measure.ends
            && *self == before.extended(*last, self.measure.rounds.saturating_sub(*last))
    }
}

impl Variant {
    /// The kernel that its guests are to have, by the name under which it was asked for.
    pub fn kernel_in<'a>(&'a self, lab: &'a Lab) -> &'a str {
        let named = self.knobs.get("kernel").and_then(Value::as_text);
        named.unwrap_or(&lab.kernel)
    }
}

impl Work {
    /// `web threads=4`: the workload and the chosen point of each axis.
    pub fn label(&self) -> String {
        let mut label = self.name.clone();
        for (axis, point) in &self.axes {
            label.push_str(&format!(" {axis}={point}"));
        }
        label
    }

    /// The cgroup of a set, after those that contain it.
    pub fn cgroups_of(&self, set: &WorkerSet) -> Vec<Cgroup> {
        Cgroup::needed(&self.cgroups, set.cgroup.as_slice())
    }

    /// All CPUs that are off at some time.
    pub fn offline_cpus(&self) -> CpuSet {
        self.offline.iter().flat_map(|off| off.cpus.iter()).collect()
    }

    /// Whether workers of the set, their cgroup or one around it, or CPUs change in mid-run.
    pub fn changes_in_mid_run(&self, set: &WorkerSet) -> bool {
        !set.changes.is_empty()
            || set.moves_by_steps()
            || !self.offline.is_empty()
            || self.cgroups_of(set).iter().any(|of| !of.changes.is_empty())
    }

    /// The set that is all of this work, one of it, no background, and active all the time: a run
    /// of this work is a solo run of every set of the same [`WorkerSet::solo_key`].
    pub fn solo(&self) -> Option<&WorkerSet> {
        match self.sets.as_slice() {
            [set] if set.count == 1 && !set.background && set.phase.is_none() => {
                Some(set).filter(|set| !self.changes_in_mid_run(set))
            }
            _ => None,
        }
    }
}

impl Plan {
    /// Whether this work shows what a set of another one does alone: fairness needs it, and nobody
    /// argues about it.
    pub fn is_solo_run(&self, work: &Work) -> bool {
        // Most works need no search.
        work.name.contains(SOLO) && solo_names(&self.works).any(|name| name == work.name)
    }
}

/// In the name of each solo run.
pub const SOLO: &str = " solo ";

/// The name of the solo run of a set.
pub fn solo_name(workload: &str, set: &str) -> String {
    format!("{workload}{SOLO}{set}")
}

/// The names that solo runs of the sets of these works have, if there are any.
pub fn solo_names<'w>(works: impl IntoIterator<Item = &'w Work>) -> impl Iterator<Item = String> {
    let sets = works.into_iter().flat_map(|of| of.sets.iter().map(move |set| (of, set)));
    sets.map(|(of, set)| solo_name(&of.name, &set.name))
}

/// The cgroup that a step moves its worker to, as it is written: `web/front`, or `/`.
pub fn cgroup_of_step(step: &str) -> Option<&str> {
    let mut words = step.split_whitespace();
    words.next().filter(|word| *word == "cgroup").and_then(|_| words.next())
}

impl WorkerSet {
    /// Whether steps of its workers move them to other cgroups.
    pub fn moves_by_steps(&self) -> bool {
        self.steps().any(|step| cgroup_of_step(step).is_some())
    }

    /// The steps of its workers, where its workload is that of steps.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        let own = self.params.get("steps").filter(|_| self.workload == "steps");
        let texts = own.and_then(Value::as_list).unwrap_or_default();
        let texts = texts.iter().filter_map(Value::as_text);
        texts.flat_map(|text| text.split(',').map(str::trim))
    }

    /// The largest number of workers at any moment.
    pub fn max_count(&self) -> u32 {
        self.counts().fold(self.count, u32::max)
    }

    /// How many there are after each change of their number.
    pub fn counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.changes.iter().filter_map(|change| change.count)
    }

    /// A key that is the same for sets whose workers do the same, however many they are, whenever they run and
    /// whatever their names.
    pub fn solo_key(&self) -> String {
        let WorkerSet { name: _, workload, params, count: _, kind, phase: _, .. } = self;
        let WorkerSet { background: _, knobs, cgroup, .. } = self;
        format!("{:?}", (workload, params, kind, knobs, cgroup))
    }
}

/// Knobs that mean something under these policies only: a set with a policy of its own does not take the variant's.
const OF_POLICIES: [(&str, &[&str]); 6] = [
    ("priority", &["fifo", "rr"]),
    ("runtime", &["deadline"]),
    ("deadline", &["deadline"]),
    ("period", &["deadline"]),
    ("nice", &["other", "batch"]),
    ("slice", &["other", "batch"]),
];

/// The knobs of the workers of a set: the variant's, each replaced by the set's own of that name.
/// `variant::validate` checks which of them may be combined.
pub fn merged_knobs(
    variant: &BTreeMap<String, Value>,
    own: &BTreeMap<String, Value>,
) -> BTreeMap<String, Value> {
    let mut knobs = variant.clone();
    if own.contains_key("policy") {
        knobs.retain(|knob, _| !OF_POLICIES.iter().any(|(own, _)| own == knob));
    }
    knobs.extend(own.clone());
    knobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_in_turns_have_one_warm_up_together() {
        let measure = Measure { duration_ns: 1050, warmup_ns: 600, ..Measure::default() };
        let variant = |name: &str| Variant { name: name.to_string(), ..Variant::default() };
        let mut plan = Plan {
            measure,
            variants: ["a", "b", "c"].map(variant).to_vec(),
            works: vec![Work::default()],
            ..Plan::default()
        };
        assert_eq!(plan.mean_run_ns(), 1650);
        plan.measure.turns_ns = Some(100);
        assert_eq!(3 * plan.mean_run_ns(), 600 + 3 * 1000);
    }

    #[test]
    fn a_knob_that_a_policy_does_not_take_comes_back_with_one_that_does() {
        let knobs = |written: &[(&str, Value)]| -> BTreeMap<String, Value> {
            written.iter().map(|(knob, value)| (knob.to_string(), value.clone())).collect()
        };
        let policy = |word: &str| ("policy", Value::Text(word.to_string()));
        let (nice, slice) = (("nice", Value::Int(7)), ("slice", Value::DurationNs(300_000)));
        let clamp = ("uclamp-min", Value::Percent(25.0));
        let priority = ("priority", Value::Int(3));
        let steps = [
            (vec![policy("batch")], vec![policy("batch"), nice.clone(), clamp.clone()]),
            (
                vec![slice.clone()],
                vec![policy("batch"), nice.clone(), clamp.clone(), slice.clone()],
            ),
            (vec![policy("fifo"), priority.clone()], vec![policy("fifo"), priority, clamp.clone()]),
            (vec![policy("idle")], vec![policy("idle"), clamp.clone()]),
            (vec![policy("other")], vec![policy("other"), nice.clone(), slice, clamp.clone()]),
        ];
        let change = |(change, _): &(Vec<_>, _)| SetChange {
            at_ns: 1,
            knobs: knobs(change),
            cgroup: None,
            count: None,
        };
        let changes: Vec<SetChange> = steps.iter().map(change).collect();
        let after = SetChange::knobs_after(&changes, knobs(&[nice, clamp]));
        let expected: Vec<_> = steps.iter().map(|(_, after)| knobs(after)).collect();
        assert_eq!(after.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_rounds_are_added_to_a_plan() {
        let measure = r#"{"rounds":9,"duration_ns":1,"warmup_ns":1,"window_ns":1,"seed":1,"budget_ns":null,"grace_ns":1}"#;
        let text = format!(
            r#"{{"title":"","measure":{measure},"variants":[],"works":[],"placement":{{"cpus":null}}}}"#
        );
        let plan: Plan = serde_json::from_str(&text).unwrap();
        // Stored before there were looks or spoilt rounds: it keeps its way to judge.
        let of_old = (plan.measure.looks, plan.measure.until_decided, plan.measure.repeat_spoilt);
        assert_eq!(of_old, (LookRule::Early, false, false));
        assert_eq!(serde_json::to_string(&plan.measure).unwrap(), measure);
        let more = plan.extended(9, 20).extended(29, 5);
        assert_eq!((more.measure.rounds, &more.measure.ends[..]), (34, &[9, 29][..]));
        assert!(more.extends(&plan.extended(9, 20)) && plan.extended(9, 20).extends(&plan));
        let mut other = plan.extended(9, 20);
        other.measure.seed = 2;
        assert!(!more.extends(&plan) && !plan.extends(&plan) && !other.extends(&plan));
    }

    #[test]
    fn a_placement_stored_before_there_were_pools_loads_and_is_stored_as_it_was() {
        let stored = r#"{"cpus":"0-1"}"#;
        let placement: Placement = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&placement).unwrap(), stored);
        assert_eq!((placement.pool, placement.memory), (None, MemoryPlacement::Kernel));
        assert!(serde_json::from_str::<Placement>(r#"{"cpus":null,"pool":"../x"}"#).is_err());
    }

    #[test]
    fn every_word_for_memory_is_understood() {
        for word in MemoryPlacement::WORDS {
            assert_eq!(MemoryPlacement::from_word(word).map(MemoryPlacement::word), Some(*word));
        }
    }
}
