//! What makes two runs the same work, so that their figures may be compared. Pure.

use crate::model::{Cell, Lab, SampledPlan, Variant, WorkerSet, show_duration};

/// Everything about a run but the side that it is of. Runs that differ in it did different work.
#[derive(Debug, Clone, Copy)]
pub struct WorkKey<'a> {
    pub plan: &'a SampledPlan,
    pub cell: &'a Cell,
    /// The variant, where sides are not told apart by it.
    pub variant: Option<&'a Variant>,
    /// Whether where it ran makes no difference: a host and a lab, by the wish of who asks.
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

    /// What differs between two works of one label, the first found; `None` where they are the
    /// same: `the duration is 5s and 10s`.
    pub fn difference(&self, other: &WorkKey) -> Option<String> {
        let told = |what: &str, own: String, others: String| {
            (own != others).then(|| format!("{what} is {own} and {others}"))
        };
        let time = |what: &str, own: u64, others: u64| {
            told(what, show_duration(own), show_duration(others))
        };
        let (own, others) = (&self.plan.plan.measure, &other.plan.plan.measure);
        self.place_differs(other)
            .or_else(|| time("the duration", own.duration_ns, others.duration_ns))
            .or_else(|| time("the warm-up", own.warmup_ns, others.warmup_ns))
            .or_else(|| time("the window", own.window_ns, others.window_ns))
            .or_else(|| {
                let probes = |key: &WorkKey| match key.plan.plan.probes.as_slice() {
                    [] => "none".to_string(),
                    probes => probes.join(", "),
                };
                told("the probe", probes(self), probes(other))
            })
            .or_else(|| {
                let (own, others) = (&self.cell.placement, &other.cell.placement);
                (own != others).then(|| "the placement differs".to_string())
            })
            .or_else(|| {
                let knobs = |key: &WorkKey| key.variant.map(|variant| variant.knobs.clone());
                let differ = knobs(self) != knobs(other);
                differ.then(|| "the variant's knobs differ".to_string())
            })
            .or_else(|| sets_differ(&self.cell.work.sets, &other.cell.work.sets))
    }

    /// The backend, and of the lab what its guests were like. Which kernel they ran is a side's.
    fn place_differs(&self, other: &WorkKey) -> Option<String> {
        if self.mixed {
            return None;
        }
        let (own, others) = (&self.plan.backend, &other.plan.backend);
        if own != others {
            return Some(format!(
                "the backend is {own} and {others} (--mixed compares them all the same)"
            ));
        }
        let guests =
            |key: &WorkKey| Lab { kernel: String::new(), seeds: 0, ..key.plan.plan.lab.clone() };
        (own == "lab" && guests(self) != guests(other)).then(|| {
            "the guests' machine, its speed or its time differs ([lab], --realtime)".to_string()
        })
    }
}

fn sets_differ(own: &[WorkerSet], others: &[WorkerSet]) -> Option<String> {
    if own.len() != others.len() {
        return Some(format!("it has {} and {} worker sets", own.len(), others.len()));
    }
    own.iter().zip(others).find_map(|(own, other)| set_differs(own, other))
}

fn set_differs(own: &WorkerSet, other: &WorkerSet) -> Option<String> {
    let WorkerSet { name, workload, params, count, kind, background, knobs } = own;
    if name != &other.name {
        return Some(format!("a worker set is called {name} and {}", other.name));
    }
    if workload != &other.workload {
        return Some(format!("the workload of {name} is {workload} and {}", other.workload));
    }
    if count != &other.count {
        return Some(format!("the count of {name} is {count} and {}", other.count));
    }
    let keys = params.keys().chain(other.params.keys());
    for key in keys {
        let show = |params: &crate::model::Params| {
            params.get(key).map_or("not there".to_string(), |value| value.to_string())
        };
        let (own, others) = (show(params), show(&other.params));
        if own != others {
            return Some(format!("{key} of {name} is {own} and {others}"));
        }
    }
    let alike = (kind, background, knobs) == (&other.kind, &other.background, &other.knobs);
    (!alike).then(|| format!("the kind or the knobs of {name} differ"))
}
