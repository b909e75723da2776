//! The likeness of two cases: the same rule, and sets of the same kinds, whatever their numbers of tasks and CPUs, on a
//! guest with or without SMT and NUMA. It is no proof of one cause. Pure.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::model::{Cgroup, Phase, Plan, Value, Work, WorkerSet};

/// The weight of a cgroup that has none of its own.
const USUAL_WEIGHT: i64 = 100;

#[derive(Debug, PartialEq)]
pub struct Likeness {
    rule: String,
    /// Its guest has cores of several CPUs, and several nodes.
    place: [bool; 2],
    /// CPUs are taken off in mid-run.
    has_offline: bool,
    kinds: BTreeSet<Kind>,
}

/// How one set differs from a single task that never sleeps and has no settings.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    workload: String,
    /// The verbs of its steps.
    steps: BTreeSet<String>,
    inherits: bool,
    policy: Option<String>,
    /// Against 0.
    nice: Ordering,
    has_slice: bool,
    has_clamp: bool,
    reach: Reach,
    cgroups: Vec<CgroupKind>,
    has_phase: bool,
    /// The knobs that change in mid-run, `cgroup`, and `count` where the number of tasks does.
    changes: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    One,
    Some,
    All,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CgroupKind {
    is_idle: bool,
    /// Against the usual one.
    weight: Ordering,
    has_limit: bool,
    changes: bool,
}

impl Likeness {
    /// The likeness of a case that breaks this rule.
    pub fn new(rule: &str, plan: &Plan) -> Likeness {
        let of_work = |work: &Work| {
            let kind = |set| Kind::new(set, work, plan.lab.cpus);
            work.sets.iter().map(kind).collect::<Vec<Kind>>()
        };
        Likeness {
            rule: rule.to_string(),
            place: [plan.lab.threads, plan.lab.nodes].map(|number| number > 1),
            has_offline: plan.works.iter().any(|work| !work.offline.is_empty()),
            kinds: plan.works.iter().flat_map(of_work).collect(),
        }
    }
}

impl Kind {
    fn new(set: &WorkerSet, work: &Work, cpus: u32) -> Kind {
        let verbs = set.steps().filter_map(|step| step.split_whitespace().next());
        let nice = set.knobs.get("nice").and_then(Value::as_int).unwrap_or(0);
        let reach = match set.knobs.get("affinity").and_then(Value::as_cpus) {
            Some(own) if own.len() == 1 => Reach::One,
            Some(own) if own.len() < cpus as usize => Reach::Some,
            _ => Reach::All,
        };
        let is_above = |own: &&Cgroup| {
            set.cgroup.as_ref().is_some_and(|path| {
                let (path, own) = (path.to_string(), own.path.to_string());
                path == own || path.starts_with(&format!("{own}/"))
            })
        };
        let changes = set.changes.iter().flat_map(|change| {
            let group = change.cgroup.as_ref().map(|_| "cgroup".to_string());
            let count = change.count.map(|_| "count".to_string());
            change.knobs.keys().cloned().chain(group).chain(count)
        });
        Kind {
            workload: set.workload.clone(),
            steps: verbs.map(str::to_string).collect(),
            inherits: set.params.get("inherit").and_then(Value::as_bool) == Some(true),
            policy: set.knobs.get("policy").and_then(Value::as_text).map(str::to_string),
            nice: nice.cmp(&0),
            has_slice: set.knobs.contains_key("slice"),
            has_clamp: set.knobs.keys().any(|name| name.starts_with("uclamp-")),
            reach,
            cgroups: work.cgroups.iter().filter(is_above).map(CgroupKind::new).collect(),
            has_phase: set.phase.is_some_and(|own| own != Phase::default()),
            changes: changes.collect(),
        }
    }
}

impl CgroupKind {
    fn new(cgroup: &Cgroup) -> CgroupKind {
        let weight = cgroup.knobs.get("cgroup-weight").and_then(Value::as_int);
        CgroupKind {
            is_idle: cgroup.knobs.get("cgroup-idle") == Some(&Value::Bool(true)),
            weight: weight.unwrap_or(USUAL_WEIGHT).cmp(&USUAL_WEIGHT),
            has_limit: cgroup.knobs.contains_key("cgroup-max"),
            changes: !cgroup.changes.is_empty(),
        }
    }
}
