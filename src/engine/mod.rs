//! Runs an ordered plan and emits events. Never prints, never stores: sinks do. Time is read
//! only for the budget.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::model::{
    Cell, CpuSet, Event, Outcome, Plan, PlanEnd, PlanStarted, RunEnd, RunKey, RunSpec, Topology,
    Value, WIRE_VERSION, merged_knobs,
};

/// A plan in order, with what has been done of it already.
pub struct Job {
    pub started: PlanStarted,
    pub order: Vec<RunKey>,
    pub done: BTreeSet<RunKey>,
}

/// Why a cell cannot run: what the backend misses, or an affinity beyond the CPUs of its machine,
/// which nobody can try on a machine that is yet to be booted.
pub fn check(backend: &dyn Backend, cell: &Cell, machine: &Topology) -> Result<(), String> {
    backend.check(cell).map_err(|error| error.reason())?;
    match beyond(cell, &machine.online) {
        Some(cpus) => {
            let there = &machine.online;
            Err(format!("affinity {cpus}: this machine has CPUs {there}; hint: choose among them"))
        }
        None => Ok(()),
    }
}

/// The affinity of a cell's workers that has CPUs which are not there.
fn beyond(cell: &Cell, there: &CpuSet) -> Option<CpuSet> {
    let variant = &cell.variant.knobs;
    let sets = cell.work.sets.iter().map(|set| merged_knobs(variant, &set.knobs));
    let asked = sets.filter_map(|knobs| knobs.get("affinity").and_then(Value::as_cpus).cloned());
    let mut beyond = asked.filter(|cpus| !cpus.minus(there).is_empty());
    // What a machine does not tell is not held against a plan.
    if there.is_empty() { None } else { beyond.next() }
}

/// Executes what is missing of a job. The first missing round runs whatever the budget; a
/// further one begins only if it can end within it, judged by the longest so far. `emit` gets
/// every event as it happens; its error ends the plan at once (a result that cannot be stored
/// must not be followed by others). `is_decided` is asked after each round, with the number of
/// rounds that are done: whether no further one is needed.
pub fn execute<E>(
    job: &Job,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut dyn FnMut(&Event) -> Result<(), E>,
    is_decided: &mut dyn FnMut(u32) -> bool,
) -> Result<PlanEnd, E> {
    emit(&Event::PlanStarted(Box::new(job.started.clone())))?;
    let reason = execute_rounds(job, backend, cancel, emit, is_decided)?;
    emit(&Event::PlanEnded { reason })?;
    Ok(reason)
}

fn execute_rounds<E>(
    job: &Job,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut dyn FnMut(&Event) -> Result<(), E>,
    is_decided: &mut dyn FnMut(u32) -> bool,
) -> Result<PlanEnd, E> {
    let started = Instant::now();
    let mut longest_round = Duration::ZERO;
    for round in job.order.chunk_by(|a, b| a.round == b.round) {
        let missing: Vec<RunKey> =
            round.iter().copied().filter(|key| !job.done.contains(key)).collect();
        if missing.is_empty() {
            continue;
        }
        let budget = job.started.plan.measure.budget_ns.map(Duration::from_nanos);
        let over = budget.is_some_and(|budget| started.elapsed() + longest_round > budget);
        if over && !longest_round.is_zero() {
            return Ok(PlanEnd::Budget);
        }
        let machine = &job.started.environment.topology;
        let cells = missing.iter().map(|key| (key, &job.started.cells[key.cell as usize]));
        let specs = cells
            .filter(|(_, cell)| check(backend, cell, machine).is_ok())
            .map(|(key, cell)| order_run(cell, *key, &job.started.plan))
            .collect();
        backend.announce(specs);
        let round_started = Instant::now();
        for key in missing {
            if !execute_run(job, key, backend, cancel, emit)? {
                return Ok(PlanEnd::Interrupted);
            }
        }
        longest_round = longest_round.max(round_started.elapsed());
        if is_decided(round[0].round + 1) {
            return Ok(PlanEnd::Decided);
        }
    }
    Ok(PlanEnd::Complete)
}

/// One run; `false` if it was interrupted.
fn execute_run<E>(
    job: &Job,
    key: RunKey,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut dyn FnMut(&Event) -> Result<(), E>,
) -> Result<bool, E> {
    if cancel.load(Relaxed) {
        return Ok(false);
    }
    let cell = &job.started.cells[key.cell as usize];
    if let Err(reason) = check(backend, cell, &job.started.environment.topology) {
        emit(&Event::RunEnded { key, outcome: Outcome::Skipped { reason } })?;
        return Ok(true);
    }
    emit(&Event::RunStarted { key })?;
    let mut unsaid = Ok(());
    let spec = order_run(cell, key, &job.started.plan);
    let ended = backend.run(&spec, cancel, &mut |window| {
        if unsaid.is_ok() {
            unsaid = emit(&Event::Window { key, window });
        }
    });
    unsaid?;
    match ended {
        RunEnd::Interrupted => Ok(false),
        RunEnd::Finished(outcome) => {
            emit(&Event::RunEnded { key, outcome })?;
            Ok(true)
        }
    }
}

/// The seed depends on plan and round alone: in one round all variants draw the same.
fn order_run(cell: &Cell, key: RunKey, plan: &Plan) -> RunSpec {
    let measure = &plan.measure;
    let section_ns = measure.warmup_ns.saturating_add(measure.duration_ns);
    RunSpec {
        wire: WIRE_VERSION,
        cell: cell.clone(),
        warmup_ns: measure.warmup_ns,
        duration_ns: measure.duration_ns,
        window_ns: measure.window_ns,
        limit_ns: section_ns.saturating_add(measure.grace_ns),
        seed: measure.seed.wrapping_add(u64::from(key.round).wrapping_mul(0x9e37_79b9)),
        probes: plan.probes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Null;
    use crate::model::Record;
    use crate::plan;

    const PLAN: &str = r#"
        schema = 1
        title = "three variants, two works"
        [measure]
        rounds = 4
        duration = "1s"
        [[variant]]
        name = "a"
        [[variant]]
        name = "b"
        [[variant]]
        name = "c"
        [[workload]]
        use = "spin"
        batch = [10, 20]
    "#;

    fn job() -> Job {
        let plan = plan::parse("test.toml", PLAN, None, plan::Known::default())
            .expect("the plan is right");
        let order = plan::order(&plan);
        let started = PlanStarted {
            schema: crate::model::EVENT_SCHEMA,
            id: "test".to_string(),
            backend: "null".to_string(),
            started_unix_ns: 0,
            source: PLAN.to_string(),
            cells: plan::cells(&plan),
            plan,
            environment: Null::default().environment(),
        };
        Job { started, order, done: BTreeSet::new() }
    }

    /// Executes until `stop_after` runs have ended, then cancels.
    fn collect(job: &Job, null: &mut Null, stop_after: usize) -> (Vec<Event>, PlanEnd) {
        let cancel = AtomicBool::new(false);
        let mut events = Vec::new();
        let mut ended = 0;
        let mut emit = |event: &Event| {
            events.push(event.clone());
            ended += usize::from(matches!(event, Event::RunEnded { .. }));
            cancel.store(ended >= stop_after, Relaxed);
            Ok::<(), ()>(())
        };
        let end = execute(job, null, &cancel, &mut emit, &mut |_| false);
        (events, end.expect("no sink fails"))
    }

    fn ended(events: &[Event]) -> Vec<RunKey> {
        let key = |event: &Event| match event {
            Event::RunEnded { key, .. } => Some(*key),
            _ => None,
        };
        events.iter().filter_map(key).collect()
    }

    #[test]
    fn every_run_ends_once_in_the_plans_order() {
        let job = job();
        let (events, end) = collect(&job, &mut Null::default(), usize::MAX);
        assert_eq!(end, PlanEnd::Complete);
        assert_eq!(job.order.len(), 24);
        assert_eq!(ended(&events), job.order);
        assert_eq!(events.last(), Some(&Event::PlanEnded { reason: PlanEnd::Complete }));
    }

    #[test]
    fn an_interrupted_plan_resumes_with_what_is_missing_and_ends_the_same() {
        let mut job = job();
        let whole = collect(&job, &mut Null::default(), usize::MAX).0;
        let (first, end) = collect(&job, &mut Null::default(), 7);
        assert_eq!(end, PlanEnd::Interrupted);
        assert_eq!(ended(&first), job.order[..7]);
        job.done = ended(&first).into_iter().collect();
        let (second, end) = collect(&job, &mut Null::default(), usize::MAX);
        assert_eq!(end, PlanEnd::Complete);
        let both: Vec<Event> = first.into_iter().chain(second).collect();
        assert_eq!(ended(&both), job.order);
        let outcomes = |events: &[Event]| {
            let mut record = Record::new(job.started.clone());
            events[1..].iter().for_each(|event| record.apply(event));
            record.runs.into_iter().map(|run| (run.key, run.outcome)).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&both), outcomes(&whole));
    }

    #[test]
    fn a_fault_or_a_missing_knob_costs_its_own_runs_only() {
        let job = job();
        let mut null = Null::default();
        null.faults.insert(0, "the worker died".to_string());
        null.missing.insert("c".to_string(), "no such knob".to_string());
        let (events, end) = collect(&job, &mut null, usize::MAX);
        assert_eq!(end, PlanEnd::Complete);
        let count = |wanted: fn(&Outcome) -> bool| {
            let ended = |event: &&Event| matches!(event, Event::RunEnded { outcome, .. } if wanted(outcome));
            events.iter().filter(ended).count()
        };
        assert_eq!(count(|outcome| matches!(outcome, Outcome::Failed { .. })), 4);
        assert_eq!(count(|outcome| matches!(outcome, Outcome::Skipped { .. })), 8);
        assert_eq!(count(|outcome| matches!(outcome, Outcome::Done { .. })), 12);
    }

    #[test]
    fn a_budget_that_is_used_up_ends_after_the_round() {
        let mut job = job();
        job.started.plan.measure.budget_ns = Some(0);
        let (events, end) = collect(&job, &mut Null::default(), usize::MAX);
        assert_eq!(end, PlanEnd::Budget);
        assert_eq!(ended(&events), job.order[..6]);
    }

    #[test]
    fn a_sink_that_fails_ends_the_plan_at_once() {
        let job = job();
        let mut seen = 0;
        let cancel = AtomicBool::new(false);
        let mut emit = |event: &Event| {
            seen += usize::from(matches!(event, Event::RunEnded { .. }));
            if seen == 2 { Err("disk full") } else { Ok(()) }
        };
        let end = execute(&job, &mut Null::default(), &cancel, &mut emit, &mut |_| false);
        assert_eq!((end, seen), (Err("disk full"), 2));
    }

    #[test]
    fn an_affinity_beyond_the_machine_costs_its_own_runs_only() {
        let job_of = |knobs: &str| {
            let text = PLAN.replace("name = \"c\"", &format!("name = \"c\"\n{knobs}"));
            let plan = plan::parse("test.toml", &text, None, plan::Known::default())
                .expect("the plan is right");
            let (order, cells) = (plan::order(&plan), plan::cells(&plan));
            Job { started: PlanStarted { cells, plan, ..job().started }, order, ..job() }
        };
        let skipped = |knobs: &str| {
            let (events, _) = collect(&job_of(knobs), &mut Null::default(), usize::MAX);
            let reason = |event: &Event| match event {
                Event::RunEnded { outcome: Outcome::Skipped { reason }, .. } => {
                    Some(reason.clone())
                }
                _ => None,
            };
            events.iter().filter_map(reason).collect::<Vec<_>>()
        };
        let online = Null::default().environment().topology.online;
        let last = online.iter().last().expect("it has CPUs");
        assert_eq!(skipped(&format!("affinity = \"{last}\"")), [""; 0]);
        let reasons = skipped(&format!("affinity = \"0-{}\"", last + 1));
        assert_eq!(reasons.len(), 8, "{reasons:?}");
        let told = format!("affinity 0-{}: this machine has CPUs {online}; hint", last + 1);
        assert!(reasons[0].starts_with(&told), "{reasons:?}");
    }

    #[test]
    fn variants_of_a_round_share_their_seed_and_rounds_do_not() {
        let job = job();
        let plan = &job.started.plan;
        let seed = |round, cell| {
            let key = RunKey { round, cell };
            order_run(&job.started.cells[cell as usize], key, plan).seed
        };
        assert_eq!(seed(0, 0), seed(0, 1));
        assert_ne!(seed(0, 0), seed(1, 0));
    }
}
