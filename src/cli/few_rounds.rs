//! Plans with fewer rounds than any verdict takes, and how many would do: known before they run.

use std::collections::BTreeSet;

use crate::analysis::{self, Power};
use crate::engine::Job;
use crate::model::{Environment, Plan, PlanHead, PlanStarted, SampledPlan};
use crate::plan;
use crate::report::{power, rough_time};
use crate::store::Store;

use super::judging::Judging;
use super::{Database, Failure};

/// Where nobody asks for another one: what is to be found, and with which probability.
pub const DIFFERENCE: f64 = 0.03;
pub const POWER: f64 = 0.95;
/// Plans that are looked through, the newest, of A/A and of others each.
const MAX_PLANS: usize = 20;

/// `power`: from what is stored of these works.
pub fn describe(job: &Job, is_virtual: bool, power: Option<&Power>) -> Option<String> {
    let plan = &job.started.plan;
    let round_ns = analysis::round_ns(plan).max(1);
    let budget = job.budget.filter(|_| plan.measure.until_decided && !is_virtual);
    let in_budget = budget.map_or(u64::MAX, |budget| budget.as_nanos() as u64 / round_ns);
    let rounds = in_budget.min(plan.measure.rounds.into());
    let needed = u64::from(job.needed_rounds);
    if plan.variants.len() < 2 || job.started.sharding.is_some() || rounds >= needed {
        return None;
    }
    let noun = if rounds == 1 { "round decides" } else { "rounds decide" };
    let time = match is_virtual {
        true => String::new(),
        false => format!(" ({})", rough_time(needed.saturating_mul(round_ns))),
    };
    let known = power.and_then(power::in_short);
    let more = known.unwrap_or_else(|| "small differences take more".to_string());
    Some(format!(
        "too few: {rounds} {noun} nothing, any verdict takes at least {needed}{time}; {more}"
    ))
}

/// The stored plans with works of a plan that is to run; `None`: nothing that can be read.
pub fn known(started: &PlanStarted, judging: &Judging, db: &Database) -> Option<Power> {
    let PlanStarted { plan, environment, backend, .. } = started;
    let stored = stored(&db.open_read_only().ok()?, environment, backend).ok()?;
    let planned = planned(plan.clone(), environment.clone(), backend);
    let question = judging.question(Vec::new(), String::new(), false, db);
    Some(analysis::power(&planned, &stored, &question, DIFFERENCE, POWER))
}

/// The plan as if it were stored and had no run yet.
pub fn planned(plan: Plan, environment: Environment, backend: &str) -> SampledPlan {
    SampledPlan {
        id: String::new(),
        backend: backend.to_string(),
        started_unix_ns: 0,
        cells: plan::cells(&plan),
        plan,
        sharding: None,
        environments: vec![environment],
        ended: None,
        metrics: Vec::new(),
        runs: Vec::new(),
        guests: Vec::new(),
        pools: Vec::new(),
        values: Vec::new(),
        workers: Vec::new(),
        versions: Vec::new(),
        issues: Default::default(),
    }
}

/// The newest plans of this machine and backend with something to compare, newest first.
pub fn stored(
    store: &Store,
    environment: &Environment,
    backend: &str,
) -> Result<Vec<SampledPlan>, Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, Null};
    use crate::model::EVENT_SCHEMA;

    fn described(measure: &str, variants: &[&str], is_virtual: bool) -> Option<String> {
        let variants = variants.iter().map(|name| format!("[[variant]]\nname = \"{name}\"\n"));
        let text = format!(
            "schema = 1\n[measure]\nduration = \"9s\"\nwarmup = \"1s\"\n{measure}\n{}\
             [[workload]]\nuse = \"spin\"\n",
            variants.collect::<String>()
        );
        let plan = plan::parse("test.toml", &text, None, plan::Known::default()).expect(&text);
        let needed_rounds = analysis::needed_rounds(&plan);
        let started = PlanStarted {
            schema: EVENT_SCHEMA,
            id: "test".to_string(),
            backend: "null".to_string(),
            started_unix_ns: 0,
            source: text,
            cells: plan::cells(&plan),
            plan,
            judged: Default::default(),
            sharding: None,
            environment: Null::default().environment(),
        };
        let mut job = Job::new(started);
        job.needed_rounds = needed_rounds;
        describe(&job, is_virtual, None)
    }

    #[test]
    fn too_few_rounds_are_said_with_those_that_would_do_and_their_time() {
        let of = |rounds, time| {
            Some(format!(
                "too few: {rounds} nothing, any verdict takes at least 6{time}; small differences \
                 take more"
            ))
        };
        let two = &["a", "b"][..];
        let cases = [
            ("rounds = 3", two, false, of("3 rounds decide", " (2 min)")),
            ("rounds = 1", two, true, of("1 round decides", "")),
            ("rounds = 6", two, false, None),
            ("rounds = 3", &["a"], false, None),
            (
                "until-decided = true\nbudget = \"1min\"",
                two,
                false,
                of("3 rounds decide", " (2 min)"),
            ),
            ("until-decided = true\nbudget = \"1min\"", two, true, None),
            ("until-decided = true\nbudget = \"1h\"", two, false, None),
        ];
        for (measure, variants, is_virtual, expected) in cases {
            assert_eq!(described(measure, variants, is_virtual), expected, "{measure}");
        }
    }
}
