//! Whether two plans have the same load, however it is written. Pure.

use crate::model::{Plan, Value, ValueError, WorkerSet};
use crate::workload::{self, Step, StepPhase, StepScript};

use super::scheduling::complete;
use super::unheld::unheld;

/// The first thing that a plan has otherwise after it was read back from a file of rt-app.
pub fn difference(plan: &Plan, again: &Plan) -> Option<ValueError> {
    let (work, read) = (plan.works.first()?, again.works.first()?);
    for set in &work.sets {
        let place = format!("set `{}`", set.name);
        let differs = |key: &str, why: String| {
            let why = format!("it would be read back {why}");
            Some(unheld(&place, key, why, "schedlab help rt-app says how its keys are read"))
        };
        let twins: Vec<&WorkerSet> = read.sets.iter().filter(|of| name(of) == name(set)).collect();
        let [twin] = twins[..] else { return differs("name", format!("{} times", twins.len())) };
        if twin.count != set.count {
            return differs("count", format!("as {}", twin.count));
        }
        for key in ["loops", "delay", "inherit", "memory"] {
            let is_used = key != "memory" || steps(set).is_some_and(|own| uses_memory(&own));
            let [own, other] = [set, twin].map(|of| of.params.get(key));
            if is_used && own != other {
                return differs(
                    key,
                    format!("as {}", other.map_or("none".into(), Value::to_string)),
                );
            }
        }
        if steps(set).map(plain) != steps(twin).map(plain) {
            return differs(workload::STEPS, "as another list".to_string());
        }
        if complete(&set.knobs) != complete(&twin.knobs) {
            return differs("knobs", "otherwise".to_string());
        }
        if set.cgroup != twin.cgroup {
            return differs("cgroup", "as another one".to_string());
        }
    }
    let lengths = [work, read].map(|of| of.sets.len());
    (lengths[0] != lengths[1]).then(|| ValueError {
        message: format!("the {} sets would be read back as {}", lengths[0], lengths[1]),
        hint: "a set that forks start has its own name under `forked`".to_string(),
    })
}

/// The name of a set, or that of its forks: the file has none for a set that is only forked.
fn name(set: &WorkerSet) -> (Option<&Value>, &str) {
    match set.params.get("forked") {
        None => (None, &set.name),
        forked => (forked, ""),
    }
}

fn steps(set: &WorkerSet) -> Option<StepScript> {
    workload::step_script(&set.params).ok()
}

pub fn uses_memory(script: &StepScript) -> bool {
    script.steps().any(|step| matches!(step, Step::Memory(_) | Step::Output(_)))
}

/// The same steps without names of parts and timers, and with one post each.
fn plain(script: StepScript) -> StepScript {
    let one_by_one = |step: Step| match step {
        Step::Post { semaphore, times } => {
            vec![Step::Post { semaphore, times: 1 }; times as usize]
        }
        step => vec![step],
    };
    let phase = |phase: StepPhase| StepPhase {
        part: None,
        steps: phase.steps.into_iter().flat_map(one_by_one).collect(),
        ..phase
    };
    StepScript {
        phases: script.phases.into_iter().map(phase).collect(),
        timers: vec![String::new(); script.timers.len()],
        ..script
    }
}
