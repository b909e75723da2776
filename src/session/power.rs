//! How much the works of a plan scattered on this machine before: from what is stored.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::{self, Power, Question, RunWindows};
use crate::model::{
    Environment, Importance, Judged, MetricKind, PlanHead, PlanStarted, RunKey, SampledPlan,
    SampledRun, Work, is_spoilt,
};
use crate::stats::HEADLINE_QUANTILE;
use crate::store::Store;

use super::{Database, SessionError, sides, states};

/// Where nobody asks for another one: what is to be found, and with which probability.
pub const DIFFERENCE: f64 = 0.03;
pub const POWER: f64 = 0.95;
/// Plans that are looked through, the newest, of A/A and of others each.
const MAX_PLANS: usize = 20;

/// The stored plans with works of a plan that is to run; `None`: nothing that can be read.
pub fn power(started: &PlanStarted, judged: &Judged, db: &Database) -> Option<Power> {
    let PlanStarted { plan, environment, backend, .. } = started;
    let stored = similar_plans(&db.open_read_only().ok()?, environment, backend).ok()?;
    let environments = vec![environment.clone()];
    let planned =
        SampledPlan::without_runs(backend, plan.clone(), started.cells.clone(), environments);
    let question = sides::question(judged, Vec::new(), String::new(), false, db);
    Some(analysis::power(&planned, &stored, &question, DIFFERENCE, POWER))
}

/// The windows of stored runs of these works that load from outside did not spoil, and how many samples the judged 99th
/// percentiles had: for the lengths of runs. `plans` are the newest first, and so many have theirs read as a report reads.
pub fn windows(
    store: &Store,
    plans: &[SampledPlan],
    works: &[Work],
    question: &Question,
) -> Result<Vec<RunWindows>, SessionError> {
    let mut left = states::MAX_RUNS;
    let same = plans.iter().filter(|plan| plan.plan.works.iter().any(|work| works.contains(work)));
    let newest = same.take_while(|plan| {
        let fits = plan.runs.len() <= left;
        left = left.saturating_sub(plan.runs.len());
        fits
    });
    let mut windows = Vec::new();
    let mut samples: BTreeMap<(&str, RunKey), u64> = BTreeMap::new();
    for plan in newest {
        let found = |run: &SampledRun| {
            is_spoilt(run.disturbances.iter().map(|found| (found.kind(), found.share)))
        };
        let spoilt: BTreeSet<RunKey> =
            plan.runs.iter().filter(|run| found(run)).map(|run| run.key).collect();
        let mut own = states::windows(store, std::slice::from_ref(plan), question)?;
        own.retain(|run| !spoilt.contains(&run.key));
        windows.extend(own);
        let is_judged = |set: &str, latency: &str| {
            plan.metrics.iter().any(|metric| {
                let MetricKind { name, importance, statistic, .. } = &metric.kind;
                metric.set == set
                    && (*importance, *statistic) == (Importance::Headline, HEADLINE_QUANTILE)
                    && name.strip_suffix("_p99") == Some(latency)
            })
        };
        store.each_latency(&plan.id, |key, (set, latency), counts| {
            if is_judged(set, latency) {
                let all = counts.iter().map(|(_, count)| count).sum();
                let fewest = samples.entry((&plan.id, key)).or_insert(all);
                *fewest = all.min(*fewest);
            }
        })?;
    }
    for run in &mut windows {
        run.judged_samples = samples.get(&(run.plan.as_str(), run.key)).copied();
    }
    Ok(windows)
}

/// The newest plans of this machine and backend with something to compare, newest first.
pub fn similar_plans(
    store: &Store,
    environment: &Environment,
    backend: &str,
) -> Result<Vec<SampledPlan>, SessionError> {
    let is_here = |head: &PlanHead| {
        let mut machines = head.environments.iter().map(|of| &of.hostname);
        head.backend == backend
            && head.variants.len() > 1
            && machines.all(|hostname| *hostname == environment.hostname)
    };
    let heads: Vec<PlanHead> = store.plan_heads()?.into_iter().filter(is_here).collect();
    let newest = |aa: bool| heads.iter().filter(move |head| head.aa == aa).take(MAX_PLANS);
    let chosen: BTreeSet<&str> =
        newest(true).chain(newest(false)).map(|head| head.id.as_str()).collect();
    let heads = heads.iter().filter(|head| chosen.contains(head.id.as_str()));
    Ok(heads.map(|head| store.sampled(&head.id)).collect::<Result<_, _>>()?)
}
