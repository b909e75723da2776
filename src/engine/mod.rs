//! Runs a plan round by round and emits events. Never prints, never stores: sinks do. Time is
//! read only for the budget.
//!
//! A round is a pass over the works that are still wanted: those that are not decided and lack
//! clean rounds. A work's round holds all of its variants. A part of a plan has some of its rounds, or in the
//! lab runs of one boot after the other, some of which are a step.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::backend::Backend;
use crate::model::{
    Cell, CpuSet, Cut, Division, Event, Outcome, Plan, PlanEnd, PlanStarted, RunEnd, RunKey,
    RunSpec, Topology, Value, WIRE_VERSION, WorkRounds, merged_knobs,
};
use crate::plan;

/// Specs are larger than what a backend keeps of them.
const ANNOUNCED_AT_ONCE: usize = 256;

/// A plan, with what has been done of it already.
#[derive(Clone)]
pub struct Job {
    pub started: PlanStarted,
    /// The plan's own, unless rounds are added to it.
    pub budget: Option<Duration>,
    /// So many rounds are done whatever the budget.
    pub min_rounds: u32,
    done: BTreeSet<RunKey>,
    /// By work.
    rounds: Vec<WorkRounds>,
    /// The number of the part that it is, and which runs parts have.
    part: Option<(u32, Division)>,
}

/// Runs of a part of the lab that are announced together: they are started in order, as many at once as there are
/// CPUs.
const RUNS_OF_A_STEP: usize = 64;

/// Asked after each round, and when a plan is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Only these count: of the next one some runs may be done already.
    pub rounds_done: u32,
    /// The plan is resumed: the works that earlier looks decided are needed, too.
    pub is_resumed: bool,
}

/// Answers a [`Poll`]: the positions of the works that are still open, or `None` where that is
/// not looked at now.
pub type OpenWorks<'a> = dyn FnMut(Poll) -> Option<BTreeSet<usize>> + 'a;

/// Why a cell cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CannotRun {
    #[error("{0}")]
    Backend(String),
    /// The backend cannot try this on a machine that is yet to be booted.
    #[error("affinity {asked}: this machine has CPUs {online}; hint: choose among them")]
    NoSuchCpus { asked: CpuSet, online: CpuSet },
    #[error(
        "llcs = {asked}: the CPUs {cpus} {}; hint: guests of the lab have as many as [lab] llcs says",
        describe_llcs(*.has)
    )]
    NoSuchLlcs { asked: u32, cpus: CpuSet, has: usize },
}

fn describe_llcs(has: usize) -> String {
    match has {
        0 => "do not say which of them share a last-level cache".to_string(),
        1 => "have 1 last-level cache".to_string(),
        has => format!("have {has} last-level caches"),
    }
}

impl Job {
    pub fn new(started: PlanStarted) -> Job {
        Job::resumed(started, [])
    }

    /// `done`: the runs that are stored, and whether load from outside spoilt them.
    pub fn resumed(started: PlanStarted, done: impl IntoIterator<Item = (RunKey, bool)>) -> Job {
        let mut job = Job {
            budget: started.plan.measure.budget_ns.map(Duration::from_nanos),
            min_rounds: 1,
            rounds: vec![WorkRounds::default(); started.plan.works.len()],
            done: BTreeSet::new(),
            part: started.sharding.as_ref().and_then(|sharding| {
                sharding.part.map(|part| (part, sharding.division(&started.plan)))
            }),
            started,
        };
        for (key, is_spoilt) in done {
            job.add(key, is_spoilt);
        }
        job
    }

    /// A run that has ended, and whether it was spoilt.
    pub fn add(&mut self, key: RunKey, is_spoilt: bool) {
        let plan = &self.started.plan;
        if let Some(rounds) = self.rounds.get_mut(plan.work_of(key.cell)) {
            rounds.add(key.round, is_spoilt && plan.measure.repeat_spoilt);
            self.done.insert(key);
        }
    }

    /// Whether rounds follow each other: not in a part that has some of the runs of each.
    pub fn has_rounds(&self) -> bool {
        self.part.as_ref().is_none_or(|(_, division)| division.cut == Cut::Rounds)
    }

    /// Runs that the plan's rounds ask for, if all works take all of them and none is spoilt; of a part
    /// its own.
    pub fn planned_runs(&self) -> u64 {
        self.started.planned_runs()
    }

    /// Of these the ones of some cells.
    pub fn planned_runs_of(&self, cells: &BTreeSet<u32>) -> u64 {
        match &self.part {
            Some((part, division)) if division.cut == Cut::Boots => {
                let own = division.runs_from(*part, 0);
                own.filter(|key| cells.contains(&key.cell)).count() as u64
            }
            _ => cells.len() as u64 * u64::from(self.rounds()),
        }
    }

    /// Rounds that are asked for, of a part that has whole ones its own.
    fn rounds(&self) -> u32 {
        match &self.part {
            Some((part, division)) => division.rounds_of(*part),
            None => self.started.plan.measure.rounds,
        }
    }

    /// Runs that there are in the end if all works take all rounds and none of those that are left
    /// is spoilt: a round that is measured again counts twice.
    pub fn total_runs(&self) -> u64 {
        let plan = &self.started.plan;
        if !self.has_rounds() {
            return self.planned_runs();
        }
        let of_work = |rounds: &WorkRounds| {
            self.rounds().saturating_add(rounds.spoilt()).min(self.max_rounds())
        };
        let rounds: u64 = self.rounds.iter().map(|rounds| u64::from(of_work(rounds))).sum();
        rounds * plan.variants.len() as u64
    }

    pub fn runs_done(&self) -> u64 {
        self.done.len() as u64
    }

    fn kop_ps(&self) -> Option<u64> {
        self.started.environment.calibration.map(|measured| measured.kop_ps)
    }

    /// Steps that are done whatever looks and the budget decide.
    fn sure_steps(&self) -> u32 {
        match self.started.plan.measure.until_decided || self.budget.is_some() {
            true => self.min_rounds,
            false => self.rounds(),
        }
    }

    /// What is not done of the runs that a step wants.
    fn missing(&self, step: u32, open: &BTreeSet<usize>) -> Vec<RunKey> {
        let mut missing = self.wanted(step, open);
        missing.retain(|key| !self.done.contains(key));
        missing
    }

    /// With the rounds that replace spoilt ones: half as many again, and as many again where a
    /// budget ends it anyway.
    fn max_rounds(&self) -> u32 {
        let rounds = self.rounds();
        let more = if self.budget.is_some() { rounds } else { rounds.div_ceil(2) };
        rounds.saturating_add(more)
    }

    /// The runs of a step: of a round of those of the `open` works that lack clean rounds.
    fn wanted(&self, step: u32, open: &BTreeSet<usize>) -> Vec<RunKey> {
        let (plan, rounds) = (&self.started.plan, self.rounds());
        let round = match &self.part {
            Some((part, division)) if division.cut == Cut::Boots => {
                let first = u64::from(step) * RUNS_OF_A_STEP as u64;
                return division.runs_from(*part, first).take(RUNS_OF_A_STEP).collect();
            }
            Some((part, division)) => division.round(*part, step),
            None => step,
        };
        let lacks = |work: &&usize| {
            step < rounds
                || step < self.max_rounds() && self.rounds[**work].clean_before(round) < rounds
        };
        let works: BTreeSet<usize> = open.iter().filter(lacks).copied().collect();
        if works.is_empty() {
            return Vec::new();
        }
        let mut runs = plan::round_order(plan, round);
        runs.retain(|key| works.contains(&plan.work_of(key.cell)));
        runs
    }
}

/// A cell as it runs on this backend and machine, or why it cannot.
pub fn check(backend: &dyn Backend, cell: &Cell, machine: &Topology) -> Result<Cell, CannotRun> {
    let cell = placed(cell, machine)?;
    backend.check(&cell).map_err(|error| CannotRun::Backend(error.reason()))?;
    match beyond(&cell, &machine.online) {
        Some(asked) => Err(CannotRun::NoSuchCpus { asked, online: machine.online.clone() }),
        None => Ok(cell),
    }
}

/// The cell with the CPUs of its last-level caches for a placement.
fn placed(cell: &Cell, machine: &Topology) -> Result<Cell, CannotRun> {
    let mut cell = cell.clone();
    if let Some(asked) = cell.work.llcs {
        let cpus = cell.placement.cpus.as_ref().unwrap_or(machine.usable());
        let first = machine.first_llcs(asked, cpus);
        let first =
            first.map_err(|has| CannotRun::NoSuchLlcs { asked, cpus: cpus.clone(), has })?;
        cell.placement.cpus = Some(first);
    }
    Ok(cell)
}

/// The affinity of a cell's workers that has CPUs which are not there.
fn beyond(cell: &Cell, there: &CpuSet) -> Option<CpuSet> {
    let variant = &cell.variant.knobs;
    let sets = cell.work.sets.iter().map(|set| merged_knobs(variant, &set.knobs));
    let asked = sets.filter_map(|knobs| knobs.get("affinity").and_then(Value::as_cpus).cloned());
    let mut beyond = asked.filter(|cpus| !cpus.minus(there).is_empty());
    // A machine whose CPUs are not known refuses nothing.
    if there.is_empty() { None } else { beyond.next() }
}

/// What a sink gets.
#[derive(Debug, Clone, Copy)]
pub enum Emitted<'a> {
    Event(&'a Event),
    /// No event follows soon: what may wait for others must not wait any longer.
    Pause,
}

type Emit<'a, E> = dyn FnMut(Emitted) -> Result<(), E> + 'a;

/// Executes what is missing of a job. The first missing round runs whatever the budget, as do
/// [`Job::min_rounds`]; a further one begins only if it can end within it, judged by the slowest round so far. `emit`
/// gets every event as it happens, and a pause before anything that takes time; its error ends the plan at once (a result
/// that cannot be stored must not be followed by others).
pub fn execute<E>(
    job: Job,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
    open_works: &mut OpenWorks,
) -> Result<PlanEnd, E> {
    emit(Emitted::Event(&Event::PlanStarted(Box::new(job.started.clone()))))?;
    let has_timed_work = job.started.environment.calibration.is_some();
    let reason = execute_rounds(job, backend, cancel, emit, open_works)?;
    let may_calibrate = has_timed_work && reason != PlanEnd::Interrupted;
    let calibration = may_calibrate.then(|| backend.calibrate()).flatten();
    emit(Emitted::Event(&Event::PlanEnded { reason, calibration }))?;
    Ok(reason)
}

fn execute_rounds<E>(
    mut job: Job,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
    open_works: &mut OpenWorks,
) -> Result<PlanEnd, E> {
    let mut pace = Pace { started: Instant::now(), slowest_run: Duration::ZERO };
    let mut open: BTreeSet<usize> = (0..job.started.plan.works.len()).collect();
    // A part alone decides nothing.
    let is_part = job.part.is_some();
    let mut look = |poll| if is_part { None } else { open_works(poll) };
    // Looks have seen what came before the last round, so all of that is done.
    let last = job.done.last().map(|key| key.round);
    let first = if job.started.plan.measure.until_decided { last.unwrap_or(0) } else { 0 };
    let resumed = Poll { rounds_done: first, is_resumed: true };
    if let Some(still_open) = last.and_then(|_| look(resumed)) {
        open = still_open;
    }
    let announced = if backend.takes_all_rounds() { job.sure_steps() } else { first };
    for step in first..announced {
        announce(&job, &job.missing(step, &open), backend);
    }
    for step in first.. {
        if job.wanted(step, &open).is_empty() {
            break;
        }
        let missing = job.missing(step, &open);
        if !missing.is_empty() {
            let is_owed = step < job.min_rounds;
            if !is_owed && !pace.leaves_time_for(missing.len(), job.budget) {
                return Ok(PlanEnd::Budget);
            }
            let round_started = Instant::now();
            let runs = missing.len();
            if step >= announced {
                announce(&job, &missing, backend);
            }
            if !execute_round(&mut job, missing, backend, cancel, emit)? {
                return Ok(PlanEnd::Interrupted);
            }
            pace.slowest_run = pace.slowest_run.max(round_started.elapsed() / runs as u32);
        }
        if let Some(still_open) = look(Poll { rounds_done: step + 1, is_resumed: false }) {
            open = still_open;
        }
    }
    Ok(if open.is_empty() { PlanEnd::Decided } else { PlanEnd::Complete })
}

/// How long rounds take.
struct Pace {
    started: Instant,
    /// The mean of its round, so that runs at the same time count once.
    slowest_run: Duration,
}

impl Pace {
    fn leaves_time_for(&self, runs: usize, budget: Option<Duration>) -> bool {
        let needed = self.slowest_run.saturating_mul(runs as u32);
        let fits = budget.is_none_or(|budget| self.started.elapsed() + needed <= budget);
        fits || self.slowest_run.is_zero()
    }
}

fn announce(job: &Job, missing: &[RunKey], backend: &mut dyn Backend) {
    let machine = &job.started.environment.topology;
    for missing in missing.chunks(ANNOUNCED_AT_ONCE) {
        let cells = missing.iter().map(|key| (key, &job.started.cells[key.cell as usize]));
        let specs = cells.filter_map(|(key, cell)| {
            let cell = check(backend, cell, machine).ok()?;
            Some(order_run(cell, *key, &job.started.plan, job.kop_ps()))
        });
        let specs = specs.collect();
        backend.announce(specs);
    }
}

/// The missing runs of a round; `false` if it was interrupted.
fn execute_round<E>(
    job: &mut Job,
    missing: Vec<RunKey>,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
) -> Result<bool, E> {
    for key in missing {
        match execute_run(job, key, backend, cancel, emit)? {
            Some(is_spoilt) => job.add(key, is_spoilt),
            None => return Ok(false),
        }
    }
    emit(Emitted::Pause)?;
    Ok(true)
}

/// One run: whether it was spoilt; `None` if it was interrupted.
fn execute_run<E>(
    job: &Job,
    key: RunKey,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
) -> Result<Option<bool>, E> {
    if cancel.load(Relaxed) {
        return Ok(None);
    }
    let cell = &job.started.cells[key.cell as usize];
    let cell = match check(backend, cell, &job.started.environment.topology) {
        Ok(cell) => cell,
        Err(reason) => {
            let reason = reason.to_string();
            emit(Emitted::Event(&Event::RunEnded { key, outcome: Outcome::Skipped { reason } }))?;
            return Ok(Some(false));
        }
    };
    emit(Emitted::Event(&Event::RunStarted { key }))?;
    let mut emitted = Ok(());
    let spec = order_run(cell, key, &job.started.plan, job.kop_ps());
    if !backend.has_answer(&spec) {
        emit(Emitted::Pause)?;
    }
    let ended = backend.run(&spec, cancel, &mut |window| {
        if emitted.is_ok() {
            emitted = emit(Emitted::Event(&Event::Window { key, window }));
        }
    });
    emitted?;
    match ended {
        RunEnd::Interrupted => Ok(None),
        RunEnd::Finished(outcome) => {
            let is_spoilt = outcome.is_spoilt();
            emit(Emitted::Event(&Event::RunEnded { key, outcome }))?;
            // Only a fleet may have the next answer by now.
            if !backend.takes_all_rounds() {
                emit(Emitted::Pause)?;
            }
            Ok(Some(is_spoilt))
        }
    }
}

/// The seed depends on plan and round alone: in one round all variants draw the same.
fn order_run(cell: Cell, key: RunKey, plan: &Plan, kop_ps: Option<u64>) -> RunSpec {
    let measure = &plan.measure;
    let section_ns = measure.warmup_ns.saturating_add(measure.duration_ns);
    RunSpec {
        wire: WIRE_VERSION,
        cell,
        warmup_ns: measure.warmup_ns,
        duration_ns: measure.duration_ns,
        window_ns: measure.window_ns,
        limit_ns: section_ns.saturating_add(measure.grace_ns),
        seed: measure.seed_of(key.round),
        probes: plan.probes.clone(),
        kop_ps,
        executed: plan.lab.executed,
        model: Default::default(),
        start_unix_ns: None,
        cgroups: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::backend::Null;
    use crate::model::{Calibration, Record, Sharding};
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
        Job::new(PlanStarted {
            schema: crate::model::EVENT_SCHEMA,
            id: "test".to_string(),
            backend: "null".to_string(),
            started_unix_ns: 0,
            source: PLAN.to_string(),
            cells: plan::cells(&plan),
            plan,
            judged: Default::default(),
            sharding: None,
            environment: Null::default().environment(),
        })
    }

    /// The runs of so many rounds of all works.
    fn order(job: &Job, rounds: u32) -> Vec<RunKey> {
        (0..rounds).flat_map(|round| plan::round_order(&job.started.plan, round)).collect()
    }

    /// Executes until `stop_after` runs have ended, then cancels.
    fn collect(job: &Job, null: &mut dyn Backend, stop_after: usize) -> (Vec<Event>, PlanEnd) {
        collect_open(job, null, stop_after, &mut |_| None)
    }

    fn collect_open(
        job: &Job,
        null: &mut dyn Backend,
        stop_after: usize,
        open_works: &mut OpenWorks,
    ) -> (Vec<Event>, PlanEnd) {
        let cancel = AtomicBool::new(false);
        let mut events = Vec::new();
        let mut ended = 0;
        let mut emit = |emitted: Emitted| {
            let Emitted::Event(event) = emitted else { return Ok(()) };
            events.push(event.clone());
            ended += usize::from(matches!(event, Event::RunEnded { .. }));
            cancel.store(ended >= stop_after, Relaxed);
            Ok::<(), ()>(())
        };
        let end = execute(job.clone(), null, &cancel, &mut emit, open_works);
        (events, end.expect("no sink fails"))
    }

    /// Runs of some cells in some rounds are spoilt.
    struct Disturbed {
        null: Null,
        plan: Plan,
        spoilt: Vec<RunKey>,
    }

    impl Disturbed {
        fn new(job: &Job, spoilt: &[(u32, u32)]) -> Disturbed {
            let spoilt = spoilt.iter().map(|(round, cell)| RunKey { round: *round, cell: *cell });
            let (null, plan) = (Null::default(), job.started.plan.clone());
            Disturbed { null, plan, spoilt: spoilt.collect() }
        }
    }

    impl Backend for Disturbed {
        fn environment(&self) -> crate::model::Environment {
            self.null.environment()
        }

        fn calibrate(&self) -> Option<Calibration> {
            Some(Calibration { kop_ps: 9, spread: 0.0 })
        }

        fn check(&self, cell: &Cell) -> Result<(), crate::backend::BackendError> {
            self.null.check(cell)
        }

        fn run(
            &mut self,
            spec: &RunSpec,
            cancel: &AtomicBool,
            on_window: &mut dyn FnMut(crate::model::Window),
        ) -> RunEnd {
            let mut end = self.null.run(spec, cancel, on_window);
            let round = (0..100).find(|round| {
                let key = RunKey { round: *round, cell: spec.cell.index };
                order_run(spec.cell.clone(), key, &self.plan, None).seed == spec.seed
            });
            let key = RunKey { round: round.expect("a seed of the plan"), cell: spec.cell.index };
            if let RunEnd::Finished(Outcome::Done { result }) = &mut end
                && self.spoilt.contains(&key)
            {
                result.disturbances.push(crate::model::Disturbance {
                    share: Some(0.3),
                    fact: crate::model::DisturbanceFact::Text {
                        kind: crate::model::DisturbanceKind::OutsideLoad,
                        detail: String::new(),
                    },
                });
            }
            end
        }
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
        assert_eq!(job.planned_runs(), 24);
        assert_eq!(ended(&events), order(&job, 4));
        assert_eq!(
            events.last(),
            Some(&Event::PlanEnded { reason: PlanEnd::Complete, calibration: None })
        );
    }

    #[test]
    fn a_plan_with_work_in_time_is_calibrated_again_when_it_ends() {
        let measured = |kop_ps| Some(Calibration { kop_ps, spread: 0.0 });
        let at_end = |first, stop_after| {
            let mut job = job();
            job.started.environment.calibration = first;
            let mut backend = Disturbed::new(&job, &[]);
            match collect(&job, &mut backend, stop_after).0.pop() {
                Some(Event::PlanEnded { calibration, .. }) => calibration,
                other => panic!("the plan did not end: {other:?}"),
            }
        };
        assert_eq!(at_end(measured(7), usize::MAX), measured(9));
        assert_eq!(at_end(None, usize::MAX), None, "no work in time");
        assert_eq!(at_end(measured(7), 7), None, "interrupted");
    }

    #[test]
    fn an_interrupted_plan_resumes_with_what_is_missing_and_ends_the_same() {
        let job = job();
        let whole = collect(&job, &mut Null::default(), usize::MAX).0;
        let (first, end) = collect(&job, &mut Null::default(), 7);
        assert_eq!(end, PlanEnd::Interrupted);
        assert_eq!(ended(&first), order(&job, 4)[..7]);
        let done = ended(&first).into_iter().map(|key| (key, false));
        let resumed = Job::resumed(job.started.clone(), done);
        assert_eq!(resumed.runs_done(), 7);
        let (second, end) = collect(&resumed, &mut Null::default(), usize::MAX);
        assert_eq!(end, PlanEnd::Complete);
        let both: Vec<Event> = first.into_iter().chain(second).collect();
        assert_eq!(ended(&both), order(&job, 4));
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
        job.budget = Some(Duration::ZERO);
        let (events, end) = collect(&job, &mut Null::default(), usize::MAX);
        assert_eq!(end, PlanEnd::Budget);
        assert_eq!(ended(&events), order(&job, 1));
    }

    #[test]
    fn a_sink_that_fails_ends_the_plan_at_once() {
        let job = job();
        let mut seen = 0;
        let cancel = AtomicBool::new(false);
        let mut emit = |emitted: Emitted| {
            seen += usize::from(matches!(emitted, Emitted::Event(Event::RunEnded { .. })));
            if seen == 2 { Err("disk full") } else { Ok(()) }
        };
        let end = execute(job, &mut Null::default(), &cancel, &mut emit, &mut |_| None);
        assert_eq!((end, seen), (Err("disk full"), 2));
    }

    #[test]
    fn an_affinity_beyond_the_machine_costs_its_own_runs_only() {
        let job_of = |knobs: &str| {
            let text = PLAN.replace("name = \"c\"", &format!("name = \"c\"\n{knobs}"));
            let plan = plan::parse("test.toml", &text, None, plan::Known::default())
                .expect("the plan is right");
            Job::new(PlanStarted { cells: plan::cells(&plan), plan, ..job().started })
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
        let expected = format!("affinity 0-{}: this machine has CPUs {online}; hint", last + 1);
        assert!(reasons[0].starts_with(&expected), "{reasons:?}");
    }

    /// Rounds by work, of runs in order.
    fn by_work(job: &Job, runs: &[RunKey]) -> Vec<Vec<u32>> {
        let plan = &job.started.plan;
        let rounds = |work: usize| {
            let own = runs.iter().filter(|key| plan.work_of(key.cell) == work);
            let mut rounds: Vec<u32> = own.map(|key| key.round).collect();
            let runs = rounds.len();
            rounds.dedup();
            assert_eq!(runs, rounds.len() * plan.variants.len(), "a round has all variants");
            rounds
        };
        (0..plan.works.len()).map(rounds).collect()
    }

    fn part(part: u32, parts: u32, cut: Cut) -> Job {
        let mut started = job().started;
        started.sharding = Some(Sharding { plan: "0".repeat(64), parts, part: Some(part), cut });
        Job::new(started)
    }

    fn outcomes(events: &[Event]) -> BTreeMap<RunKey, Outcome> {
        let outcome = |event: &Event| match event {
            Event::RunEnded { key, outcome } => Some((*key, outcome.clone())),
            _ => None,
        };
        events.iter().filter_map(outcome).collect()
    }

    #[test]
    fn parts_together_are_the_plan_also_where_they_were_interrupted() {
        let whole = outcomes(&collect(&job(), &mut Null::default(), usize::MAX).0);
        for (cut, parts) in [(Cut::Rounds, 3), (Cut::Boots, 3), (Cut::Boots, 100)] {
            let mut all = BTreeMap::new();
            for number in 1..=parts {
                let job = part(number, parts, cut);
                let (events, end) = collect(&job, &mut Null::default(), usize::MAX);
                let own = outcomes(&events);
                assert_eq!((end, own.len() as u64), (PlanEnd::Complete, job.planned_runs()));
                assert_eq!(job.total_runs(), job.planned_runs());
                let cells = (0..6).collect();
                assert_eq!(job.planned_runs_of(&cells), job.planned_runs());
                if own.len() > 1 {
                    let (first, end) = collect(&job, &mut Null::default(), 1);
                    assert_eq!((end, ended(&first).len()), (PlanEnd::Interrupted, 1));
                    let done = ended(&first).into_iter().map(|key| (key, false));
                    let resumed = Job::resumed(job.started.clone(), done);
                    let rest = outcomes(&collect(&resumed, &mut Null::default(), usize::MAX).0);
                    assert_eq!(rest.len(), own.len() - 1);
                }
                let had = all.len();
                all.extend(own.clone());
                assert_eq!(all.len(), had + own.len(), "no run is in two parts");
            }
            assert!(all == whole, "{cut:?} {parts}");
        }
    }

    #[test]
    fn a_part_measures_its_spoilt_rounds_again_in_rounds_of_its_own() {
        let mut job = part(2, 2, Cut::Rounds);
        job.started.plan.measure.repeat_spoilt = true;
        let mut disturbed = Disturbed::new(&job, &[(1, 0)]);
        let (events, end) = collect(&job, &mut disturbed, usize::MAX);
        assert_eq!(end, PlanEnd::Complete);
        assert_eq!(by_work(&job, &ended(&events)), [vec![1, 3, 5], vec![1, 3]]);
    }

    #[test]
    fn rounds_that_are_owed_are_done_whatever_the_budget() {
        let mut job = job();
        job.budget = Some(Duration::ZERO);
        let done = |job: &Job| {
            let (events, end) = collect(job, &mut Null::default(), usize::MAX);
            (by_work(job, &ended(&events))[0].len(), end)
        };
        assert_eq!(done(&job), (1, PlanEnd::Budget));
        job.min_rounds = 3;
        assert_eq!(done(&job), (3, PlanEnd::Budget));
    }

    #[test]
    fn a_work_that_is_decided_is_not_measured_any_more() {
        let mut job = job();
        job.started.plan.measure.until_decided = true;
        let mut polls = Vec::new();
        let mut open_works = |poll: Poll| {
            polls.push(poll.rounds_done);
            match poll.rounds_done {
                1 => None,
                2 => Some([1].into()),
                3 => Some(BTreeSet::new()),
                _ => panic!("{poll:?}"),
            }
        };
        let null = &mut Null::default();
        let (events, end) = collect_open(&job, null, usize::MAX, &mut open_works);
        assert_eq!(end, PlanEnd::Decided);
        assert_eq!(by_work(&job, &ended(&events)), [vec![0, 1], vec![0, 1, 2]]);
        assert_eq!(polls, [1, 2, 3]);
        // Killed in the third round: what the second had decided is asked for again.
        let done: Vec<RunKey> = ended(&events)[..13].to_vec();
        let done = done.into_iter().map(|key| (key, false));
        let resumed = Job::resumed(job.started.clone(), done);
        let mut polls = Vec::new();
        let mut open_works = |poll: Poll| {
            polls.push(poll);
            Some(if poll.rounds_done == 2 { [1].into() } else { BTreeSet::new() })
        };
        let (rest, end) = collect_open(&resumed, null, usize::MAX, &mut open_works);
        assert_eq!((end, ended(&rest)), (PlanEnd::Decided, ended(&events)[13..].to_vec()));
        assert!(polls[0].is_resumed && polls[0].rounds_done == 2 && polls.len() == 2, "{polls:?}");
    }

    #[test]
    fn a_spoilt_round_of_a_work_is_measured_again_with_all_variants() {
        let mut job = job();
        // Cells 0 to 2 are of the first work. The round that replaces one is spoilt as well.
        let spoilt = [(1, 0), (1, 2), (4, 1)];
        job.started.plan.measure.repeat_spoilt = false;
        let of_old = collect(&job, &mut Disturbed::new(&job, &spoilt), usize::MAX).0;
        assert_eq!(by_work(&job, &ended(&of_old)), [[0, 1, 2, 3]; 2]);
        job.started.plan.measure.repeat_spoilt = true;
        let (events, end) = collect(&job, &mut Disturbed::new(&job, &spoilt), usize::MAX);
        assert_eq!(end, PlanEnd::Complete);
        let rounds = [vec![0, 1, 2, 3, 4, 5], vec![0, 1, 2, 3]];
        assert_eq!(by_work(&job, &ended(&events)), rounds);
        // Half as many again are the limit.
        let always: Vec<(u32, u32)> = (0..50).map(|round| (round, 4)).collect();
        let (events, end) = collect(&job, &mut Disturbed::new(&job, &always), usize::MAX);
        assert_eq!(end, PlanEnd::Complete);
        let rounds = [vec![0, 1, 2, 3], vec![0, 1, 2, 3, 4, 5]];
        assert_eq!(by_work(&job, &ended(&events)), rounds);
        job.budget = Some(Duration::from_secs(3600));
        let (events, _) = collect(&job, &mut Disturbed::new(&job, &always), usize::MAX);
        assert_eq!(by_work(&job, &ended(&events))[1], (0..8).collect::<Vec<_>>());
        // A plan that is resumed knows which rounds were spoilt.
        job.budget = None;
        let keys = order(&job, 4);
        let done = keys.into_iter().map(|key| (key, spoilt[..1].contains(&(key.round, key.cell))));
        let resumed = Job::resumed(job.started.clone(), done);
        let (events, _) = collect(&resumed, &mut Null::default(), usize::MAX);
        assert_eq!(by_work(&job, &ended(&events)), [vec![4], vec![]]);
    }

    #[test]
    fn the_total_has_the_rounds_that_are_measured_again() {
        let mut job = job();
        job.started.plan.measure.repeat_spoilt = true;
        let always: Vec<(u32, u32)> = (0..50).map(|round| (round, 4)).collect();
        for spoilt in [&[][..], &[(1, 0), (1, 2), (4, 1)], &always] {
            let (events, _) = collect(&job, &mut Disturbed::new(&job, spoilt), usize::MAX);
            let mut seen = job.clone();
            for key in ended(&events) {
                seen.add(key, spoilt.contains(&(key.round, key.cell)));
                assert!(seen.runs_done() <= seen.total_runs(), "{spoilt:?} {key:?}");
            }
            assert_eq!(seen.runs_done(), seen.total_runs(), "{spoilt:?}");
        }
    }

    #[test]
    fn variants_of_a_round_share_their_seed_and_rounds_do_not() {
        let job = job();
        let plan = &job.started.plan;
        let seed = |round, cell| {
            let key = RunKey { round, cell };
            order_run(job.started.cells[cell as usize].clone(), key, plan, None).seed
        };
        assert_eq!(seed(0, 0), seed(0, 1));
        assert_ne!(seed(0, 0), seed(1, 0));
    }

    #[test]
    fn a_work_runs_on_its_last_level_caches_or_is_skipped() {
        let mut job = job();
        let cpus = |cpus: &str| -> CpuSet { cpus.parse().unwrap() };
        job.started.environment.topology = Topology {
            online: cpus("0-3"),
            llcs: vec![cpus("0,2"), cpus("1,3")],
            ..Topology::default()
        };
        let machine = job.started.environment.topology.clone();
        let mut cell = job.started.cells[0].clone();
        let mut placed = |llcs, within: Option<&str>| {
            (cell.work.llcs, cell.placement.cpus) = (llcs, within.map(cpus));
            check(&Null::default(), &cell, &machine).map(|cell| cell.placement.cpus)
        };
        assert_eq!(placed(Some(1), None), Ok(Some(cpus("0,2"))));
        assert_eq!(placed(Some(2), Some("1-2")), Ok(Some(cpus("1-2"))));
        assert_eq!(placed(None, Some("1-2")), Ok(Some(cpus("1-2"))));
        let why = placed(Some(4), None).unwrap_err().to_string();
        assert!(why.starts_with("llcs = 4: the CPUs 0-3 have 2 last-level caches; hint:"), "{why}");
        let none = check(&Null::default(), &cell, &Topology::default()).unwrap_err().to_string();
        assert!(none.contains("do not say which of them share"), "{none}");
        job.started.cells.iter_mut().for_each(|cell| cell.work.llcs = Some(3));
        let (events, end) = collect(&job, &mut Null::default(), usize::MAX);
        let skipped = events.iter().filter(|event| {
            matches!(event, Event::RunEnded { outcome: Outcome::Skipped { .. }, .. })
        });
        assert_eq!((skipped.count(), end), (24, PlanEnd::Complete));
        // A run that is made has the CPUs.
        job.started.cells.iter_mut().for_each(|cell| cell.work.llcs = Some(1));
        let mut seen = Seen::default();
        collect(&job, &mut seen, 1);
        assert_eq!(seen.cpus, [Some(cpus("0,2"))]);
    }

    #[test]
    fn a_backend_that_takes_all_rounds_is_given_those_that_are_sure() {
        let announced = |job: &Job, takes_all_rounds| {
            let mut seen = Seen { takes_all_rounds, ..Seen::default() };
            collect(job, &mut seen, 1);
            seen.announced
        };
        let mut job = job();
        assert_eq!(announced(&job, false), [6]);
        assert_eq!(announced(&job, true), [6, 6, 6, 6]);
        job.budget = Some(Duration::from_secs(1));
        assert_eq!(announced(&job, true), [6], "the budget decides whether there are others");
        job.min_rounds = 2;
        assert_eq!(announced(&job, true), [6, 6]);
    }

    #[test]
    fn a_pause_comes_before_what_takes_time() {
        let job = job();
        let pauses = |backend: &mut Seen| {
            let (mut seen, cancel) = (Vec::new(), AtomicBool::new(false));
            let mut emit = |emitted: Emitted| {
                match emitted {
                    Emitted::Pause => seen.push("pause"),
                    Emitted::Event(Event::RunStarted { .. }) => seen.push("run"),
                    Emitted::Event(_) => {}
                }
                Ok::<(), ()>(())
            };
            execute(job.clone(), backend, &cancel, &mut emit, &mut |_| None).unwrap();
            seen.join(" ")
        };
        let round = |each: &str| [each; 6].join(" ") + " pause";
        let rounds = |each: &str| [round(each), round(each), round(each), round(each)].join(" ");
        assert_eq!(pauses(&mut Seen::default()), rounds("run pause pause"));
        let fleet = |has_answers| Seen { takes_all_rounds: true, has_answers, ..Seen::default() };
        assert_eq!(pauses(&mut fleet(true)), rounds("run"));
        assert_eq!(pauses(&mut fleet(false)), rounds("run pause"));
    }

    /// What runs are given.
    #[derive(Default)]
    struct Seen {
        cpus: Vec<Option<CpuSet>>,
        /// So many runs at a time.
        announced: Vec<usize>,
        takes_all_rounds: bool,
        has_answers: bool,
    }

    impl Backend for Seen {
        fn environment(&self) -> crate::model::Environment {
            Null::default().environment()
        }

        fn check(&self, cell: &Cell) -> Result<(), crate::backend::BackendError> {
            Null::default().check(cell)
        }

        fn takes_all_rounds(&self) -> bool {
            self.takes_all_rounds
        }

        fn has_answer(&mut self, _spec: &RunSpec) -> bool {
            self.has_answers
        }

        fn announce(&mut self, specs: Vec<RunSpec>) {
            self.announced.push(specs.len());
        }

        fn run(
            &mut self,
            spec: &RunSpec,
            cancel: &AtomicBool,
            on_window: &mut dyn FnMut(crate::model::Window),
        ) -> RunEnd {
            self.cpus.push(spec.cell.placement.cpus.clone());
            Null::default().run(spec, cancel, on_window)
        }
    }
}
