//! How much the works of a plan scattered on this machine before: from what is stored.

use std::collections::BTreeSet;

use crate::analysis::{self, Power};
use crate::model::{Environment, Judged, PlanHead, PlanStarted, SampledPlan};
use crate::store::Store;

use super::{Database, SessionError, sides};

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
