//! The conditions under which two runs are the same work, so that their figures may be compared. Pure.

use crate::model::{
    Cell, Cgroup, CgroupPath, Lab, Offline, Params, Phase, Placement, SampledPlan, Variant,
    WorkerSet, show_duration,
};

use super::notes::Difference;

/// A longer value is no part of a label.
const MAX_FACT_CHARS: usize = 40;

/// Everything about a run but the side that it is of. Runs that differ in it did different work.
#[derive(Debug, Clone, Copy)]
pub struct WorkKey<'a> {
    pub plan: &'a SampledPlan,
    pub cell: &'a Cell,
    /// The variant, where it does not distinguish the sides.
    pub variant: Option<&'a Variant>,
    /// Whether the user compares runs of different backends: a host and a lab.
    pub mixed: bool,
}

impl WorkKey<'_> {
    /// `web threads=4`, and `web threads=4 [batch]` where the variant is a part of it.
    pub fn label(&self) -> String {
        match self.variant {
            None => self.cell.work.label(),
            Some(variant) => format!("{} [{}]", self.cell.work.label(), variant.name),
        }
    }

    pub fn is_solo_run(&self) -> bool {
        self.plan.plan.is_solo_run(&self.cell.work)
    }

    /// The first difference between two works of one label; `None` where they are the same.
    pub fn difference(&self, other: &WorkKey) -> Option<Difference> {
        let (plan, others) = (&self.plan.plan, &other.plan.plan);
        let times = [
            ("duration", self.duration_ns(other), other.duration_ns(self)),
            ("warm-up", plan.measure.warmup_ns, others.measure.warmup_ns),
            ("window", plan.measure.window_ns, others.measure.window_ns),
            ("turns", plan.measure.turns_ns.unwrap_or(0), others.measure.turns_ns.unwrap_or(0)),
        ];
        let time = times.into_iter().find(|(_, own, others)| own != others);
        let [own, other_sets] = [self, other].map(|key| &key.cell.work.sets);
        let knobs = [self, other].map(|key| key.variant.map(|variant| &variant.knobs));
        match (self.place_differs(other), time) {
            (Some(place), _) => Some(place),
            (None, Some((what, own_ns, other_ns))) => {
                Some(Difference::Time { what, own_ns, other_ns })
            }
            _ if plan.probes != others.probes => {
                Some(Difference::Probes(plan.probes.clone(), others.probes.clone()))
            }
            _ if self.place() != other.place() => Some(Difference::Placement),
            _ if knobs[0] != knobs[1] => Some(Difference::VariantKnobs),
            _ if own.len() != other_sets.len() => {
                Some(Difference::Sets(own.len(), other_sets.len()))
            }
            _ => own.iter().zip(other_sets).find_map(|(own, other)| set_differs(own, other)),
        }
    }

    /// The fact that makes this work another one than `other` of the same label, as an axis and its point; where
    /// that is too long, the plan.
    pub fn fact_against(&self, other: &WorkKey) -> Option<(String, String)> {
        let (name, own) = match self.difference(other)? {
            Difference::Backend(own, _) => ("backend".to_string(), own),
            Difference::Time { what, own_ns: 0, .. } => (what.to_string(), "none".to_string()),
            Difference::Time { what, own_ns, .. } => (what.to_string(), show_duration(own_ns)),
            Difference::Probes(own, _) if own.is_empty() => {
                ("probes".to_string(), "none".to_string())
            }
            Difference::Probes(own, _) => ("probes".to_string(), own.join("+")),
            Difference::Sets(own, _) => ("sets".to_string(), own.to_string()),
            Difference::Field { own, .. } if own.chars().count() > MAX_FACT_CHARS => {
                self.own_plan()
            }
            Difference::Field { set, field, own, .. } if set == self.cell.work.name => (field, own),
            Difference::Field { set, field, own, .. } => (format!("{set}.{field}"), own),
            Difference::Guests
            | Difference::Placement
            | Difference::VariantKnobs
            | Difference::SetKnobs(_)
            | Difference::OnlyOne(_)
            | Difference::Machines => self.own_plan(),
        };
        Some((name, own))
    }

    /// The time that is compared: in the lab a work may have another one than on a host.
    fn duration_ns(&self, other: &WorkKey) -> u64 {
        let plan = &self.plan.plan;
        let is_mixed = self.mixed && self.plan.backend != other.plan.backend;
        let work = &self.cell.work;
        if is_mixed { plan.host_duration_ns(work) } else { plan.duration_ns(work) }
    }

    fn own_plan(&self) -> (String, String) {
        ("plan".to_string(), self.plan.id.clone())
    }

    /// Where its workers may run.
    fn place(&self) -> (&Placement, Option<u32>, &[Cgroup], &[Offline]) {
        let work = &self.cell.work;
        (&self.cell.placement, work.llcs, &work.cgroups, &work.offline)
    }

    /// The backend, and in the lab the guests' machine. The kernel is a side's.
    fn place_differs(&self, other: &WorkKey) -> Option<Difference> {
        if self.mixed {
            return None;
        }
        let (own, others) = (&self.plan.backend, &other.plan.backend);
        if own != others {
            return Some(Difference::Backend(own.clone(), others.clone()));
        }
        let [own, others] = [self, other].map(|key| Lab {
            kernel: String::new(),
            seeds: 0,
            ..key.plan.plan.lab.clone()
        });
        (self.plan.has_guests() && own != others).then_some(Difference::Guests)
    }
}

/// Parameters that say what a program is and where it comes from, not what it does.
const NO_WORK: [&str; 3] = ["package", "needs", "version"];

fn set_differs(own: &WorkerSet, other: &WorkerSet) -> Option<Difference> {
    let WorkerSet { name, workload, params, count, kind, phase, background, .. } = own;
    let WorkerSet { knobs, cgroup, changes, .. } = own;
    let show = |params: &Params, key: &str| {
        params.get(key).map_or("not there".to_string(), |value| value.to_string())
    };
    let shown = |cgroup: &Option<CgroupPath>| {
        cgroup.as_ref().map_or("none".to_string(), CgroupPath::to_string)
    };
    let fields = [
        ("cgroup", shown(cgroup), shown(&other.cgroup)),
        ("name", name.clone(), other.name.clone()),
        ("workload", workload.clone(), other.workload.clone()),
        ("count", count.to_string(), other.count.to_string()),
        ("phase", show_phase(phase), show_phase(&other.phase)),
    ];
    let keys =
        params.keys().chain(other.params.keys()).filter(|key| !NO_WORK.contains(&key.as_str()));
    let params = keys.map(|key| (key.as_str(), show(params, key), show(&other.params, key)));
    let differs = fields.into_iter().chain(params).find(|(_, own, other)| own != other);
    if let Some((field, own, other)) = differs {
        return Some(Difference::Field { set: name.clone(), field: field.to_string(), own, other });
    }
    let rest = (&other.kind, &other.background, &other.knobs, &other.changes);
    let same = (kind, background, knobs, changes) == rest;
    (!same).then(|| Difference::SetKnobs(name.clone()))
}

/// As a plan writes it.
fn show_phase(phase: &Option<Phase>) -> String {
    let Some(Phase { at_ns, for_ns, ops }) = phase else { return "none".to_string() };
    let at = Some(format!("at {}", show_duration(*at_ns)));
    let lasts = for_ns.map(|for_ns| format!("for {}", show_duration(for_ns)));
    let ops = ops.map(|ops| format!("ops {ops}"));
    at.into_iter().chain(lasts).chain(ops).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::testing::plan;
    use super::*;
    use crate::model::Value;

    /// A plan in whose lab the work takes as long.
    fn in_lab(backend: &str, lab_duration_ns: u64) -> SampledPlan {
        let mut plan = plan("p1", 1, &["default"]);
        plan.backend = backend.to_string();
        plan.plan.has_lab_durations = backend == SampledPlan::LAB;
        plan.cells[0].work.lab_duration_ns = Some(lab_duration_ns);
        plan
    }

    #[test]
    fn a_work_that_is_shorter_in_the_lab_is_the_same_on_a_host_and_not_in_another_lab() {
        let key = |plan| WorkKey { plan, cell: &plan.cells[0], variant: None, mixed: true };
        let plans = [
            in_lab(SampledPlan::LAB, 40_000_000),
            in_lab(SampledPlan::LAB, 50_000_000),
            in_lab(SampledPlan::LOCAL, 40_000_000),
        ];
        let [lab, other_lab, host] = plans.each_ref().map(key);
        assert_eq!(lab.difference(&host), None);
        let (own_ns, other_ns) = (40_000_000, 50_000_000);
        let time = Difference::Time { what: "duration", own_ns, other_ns };
        assert_eq!(lab.difference(&other_lab), Some(time));
    }

    #[test]
    fn a_fact_is_an_axis_and_its_point_or_the_plan() {
        fn set_operations(plan: &mut SampledPlan, text: String) {
            let operations = ("operations".to_string(), Value::Text(text));
            plan.cells[0].work.sets[0].params.extend([operations]);
        }
        type Change = fn(&mut SampledPlan);
        let cases: [(Change, [&str; 2]); 7] = [
            (|plan| plan.backend = "lab".to_string(), ["backend", "lab"]),
            (|plan| plan.plan.measure.warmup_ns = 0, ["warm-up", "none"]),
            (|plan| plan.cells[0].work.sets.clear(), ["sets", "0"]),
            (|plan| plan.cells[0].work.sets[0].count = 5, ["count", "5"]),
            (
                |plan| {
                    plan.cells[0].work.name = "mail".to_string();
                    plan.cells[0].work.sets[0].count = 5;
                },
                ["web.count", "5"],
            ),
            (|plan| set_operations(plan, "x".repeat(41)), ["plan", "p1"]),
            (|plan| plan.cells[0].work.llcs = Some(1), ["plan", "p1"]),
        ];
        let plain = plan("p2", 2, &["default"]);
        for (change, [axis, point]) in cases {
            let mut changed = plan("p1", 1, &["default"]);
            change(&mut changed);
            let key = |plan| WorkKey { plan, cell: &plan.cells[0], variant: None, mixed: false };
            let fact = (axis.to_string(), point.to_string());
            assert_eq!(key(&changed).fact_against(&key(&plain)), Some(fact));
        }
    }
}
