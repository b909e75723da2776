//! Plans that the null backend runs, as events.

use std::collections::BTreeMap;

use super::testing::{parsed, started};
use super::*;
use crate::backend::lab::LabError;
use crate::backend::{BackendError, News, Null};
use crate::model::{Calibration, CpuSet, Cut, Plan, Sharding, Topology, WorkerWindow};
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
    job_of(PLAN)
}

fn job_of(text: &str) -> Job {
    Job::new(started(parsed(text), text))
}

/// The runs of the first `rounds` rounds of all works.
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
    (events, end.expect("no sink fails").stored())
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

    fn run(&mut self, spec: &RunSpec, cancel: &AtomicBool, on_news: &mut News) -> RunEnd {
        let mut end = self.null.run(spec, cancel, on_news);
        let round = (0..100).find(|round| self.plan.measure.seed_of(*round) == spec.seed);
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
    assert!(matches!(&events[0], Event::PlanStarted(started) if started.id == "test"));
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
    assert_eq!(outcomes(&both), outcomes(&whole));
}

#[test]
fn runs_that_were_lost_are_made_again_whatever_ends_the_plan() {
    for until_decided in [false, true] {
        let mut job = job();
        job.started.plan.measure.until_decided = until_decided;
        let all = order(&job, 4);
        // One cell lacks its last rounds, which looks would not have passed over.
        let last_of_one: Vec<RunKey> =
            all.iter().filter(|key| key.cell == 0 && key.round >= 2).copied().collect();
        let some = [vec![all[1]], vec![all[4], all[7]], vec![all[7]], vec![all[all.len() - 1]]];
        for lost in some.into_iter().chain((!until_decided).then_some(last_of_one)) {
            let done = all.iter().filter(|key| !lost.contains(key)).map(|key| (*key, false));
            let resumed = Job::resumed(job.started.clone(), done);
            let made = ended(&collect(&resumed, &mut Null::default(), usize::MAX).0);
            assert_eq!(made, lost, "{until_decided}");
        }
    }
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
        let ended =
            |event: &&Event| matches!(event, Event::RunEnded { outcome, .. } if wanted(outcome));
        events.iter().filter(ended).count()
    };
    assert_eq!(count(|outcome| matches!(outcome, Outcome::Failed { .. })), 4);
    assert_eq!(count(|outcome| matches!(outcome, Outcome::Skipped { .. })), 8);
    assert_eq!(count(|outcome| matches!(outcome, Outcome::Done { .. })), 12);
}

/// A command that cannot work fails in each of a hundred rounds.
#[test]
fn a_plan_whose_first_runs_all_fail_ends_there() {
    let fails = |cells: std::ops::Range<u32>| Null {
        faults: cells.map(|cell| (cell, "exit status 1".to_string())).collect(),
        ..Null::default()
    };
    let job = job();
    let cells = job.started.cells.len() as u32;
    let (events, end) = collect(&job, &mut fails(0..cells), usize::MAX);
    assert_eq!((ended(&events), end), (order(&job, 1), PlanEnd::Complete));
    let (events, _) = collect(&job, &mut fails(1..cells), usize::MAX);
    assert_eq!(ended(&events), order(&job, 4), "one of them is measured");
    // One failure alone may be chance.
    let mut lone = job.clone();
    lone.started.plan.works.truncate(1);
    lone.started.plan.variants.truncate(1);
    lone.started.cells = plan::cells(&lone.started.plan);
    let (events, _) = collect(&Job::new(lone.started), &mut fails(0..1), usize::MAX);
    assert_eq!(ended(&events).len(), 2);
}

#[test]
fn a_budget_that_is_used_up_ends_after_the_round() {
    let mut job = job();
    job.budget = Some(Duration::ZERO);
    let (events, end) = collect(&job, &mut Null::default(), usize::MAX);
    assert_eq!(end, PlanEnd::Budget);
    assert_eq!(ended(&events), order(&job, 1));
}

/// Executes a job whose host ends `times` runs of a cell: the events, and the end.
fn ended_by_host(job: &Job, times: u32) -> (Vec<Event>, JobEnd, Vec<HostNews>) {
    let mut null = Null { host_ends: [(4, times)].into(), ..Null::default() };
    let (mut events, mut news, cancel) = (Vec::new(), Vec::new(), AtomicBool::new(false));
    let mut emit = |emitted: Emitted| {
        match emitted {
            Emitted::Event(event) => events.push(event.clone()),
            Emitted::Host(of) => news.push(of.clone()),
            Emitted::Pause | Emitted::Console(_) | Emitted::Covered(_) => {}
        }
        Ok::<(), ()>(())
    };
    let end = execute(job.clone(), &mut null, &cancel, &mut emit, &mut |_| None).unwrap();
    (events, end, news)
}

#[test]
fn a_run_that_the_host_ends_is_made_again_and_gives_what_it_would_have_given() {
    let whole = outcomes(&collect(&job(), &mut Null::default(), usize::MAX).0);
    let (events, end, news) = ended_by_host(&job(), 1);
    assert!(outcomes(&events) == whole);
    assert_eq!((end.stored(), end.host_ended.len()), (PlanEnd::Complete, 0));
    let key = ended(&events).into_iter().find(|key| key.cell == 4).unwrap();
    let reason = "killed".to_string();
    assert_eq!(news, [HostNews::Ended { key, reason, is_made_again: true }]);
    // Sinks forget the run's earlier events.
    let of_run = events
        .iter()
        .filter(|event| matches!(event, Event::RunStarted { key: own } if *own == key));
    assert_eq!(of_run.count(), 2);
}

#[test]
fn a_run_that_the_host_ends_twice_is_missing_and_made_when_the_plan_is_resumed() {
    let whole = outcomes(&collect(&job(), &mut Null::default(), usize::MAX).0);
    let (events, end, news) = ended_by_host(&job(), 2);
    assert_eq!((end.end, end.stored()), (PlanEnd::Complete, PlanEnd::Interrupted));
    assert_eq!(end.host_ended, ["killed"]);
    let is_made_again = |news: &HostNews| match news {
        HostNews::Ended { is_made_again, .. } => *is_made_again,
        other => panic!("{other:?}"),
    };
    assert_eq!(news.iter().map(is_made_again).collect::<Vec<_>>(), [true, false]);
    let stored = Event::PlanEnded { reason: PlanEnd::Interrupted, calibration: None };
    assert_eq!(events.last(), Some(&stored));
    let mut all = outcomes(&events);
    assert_eq!(all.len(), whole.len() - 1, "the others are made");
    let done = ended(&events).into_iter().map(|key| (key, false));
    let resumed = Job::resumed(job().started, done);
    let (rest, end) = collect(&resumed, &mut Null::default(), usize::MAX);
    assert_eq!((ended(&rest).len(), end), (1, PlanEnd::Complete));
    all.extend(outcomes(&rest));
    assert!(all == whole);
    // No further round replaces missing runs.
    let mut one = job();
    one.started.plan.measure.repeat_spoilt = true;
    one.started.plan.measure.rounds = 1;
    let mut null =
        Null { host_ends: (0..6).map(|cell| (cell, u32::MAX)).collect(), ..Null::default() };
    let mut emit = |_: Emitted| Ok::<(), ()>(());
    let end = execute(one, &mut null, &AtomicBool::new(false), &mut emit, &mut |_| None).unwrap();
    assert_eq!(end.host_ended.len(), 6);
}

#[test]
fn no_look_sees_a_round_in_which_a_run_is_missing() {
    let mut job = job();
    job.started.plan.measure.until_decided = true;
    let mut null = Null { host_ends: [(4, 2)].into(), ..Null::default() };
    let (events, end) = collect_open(&job, &mut null, usize::MAX, &mut |poll| panic!("{poll:?}"));
    assert_eq!((ended(&events).len(), end), (5, PlanEnd::Interrupted));
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

/// The backend does not know of the failure, and reports further windows of its run.
#[test]
fn a_sink_that_fails_in_a_run_gets_nothing_further() {
    let mut job = job();
    job.started.plan.measure.window_ns = 100_000_000;
    let mut windows = 0;
    let cancel = AtomicBool::new(false);
    let mut emit = |emitted: Emitted| {
        if let Emitted::Event(Event::Window { .. }) = emitted {
            windows += 1;
            if windows == 1 {
                return Err("disk full");
            }
        }
        Ok(())
    };
    let end = execute(job, &mut Null::default(), &cancel, &mut emit, &mut |_| None);
    assert_eq!((end, windows), (Err("disk full"), 1));
}

#[test]
fn a_round_begins_if_it_can_end_within_the_budget() {
    let mut pace = Pace { started: Instant::now(), slowest_run: Duration::ZERO };
    assert!(pace.leaves_time_for(61, Some(Duration::ZERO)), "nothing is known yet");
    pace.add(Duration::from_secs(600), 10);
    pace.add(Duration::from_secs(500), 10);
    let budget = Some(Duration::from_secs(3600));
    assert!(pace.leaves_time_for(30, budget));
    assert!(!pace.leaves_time_for(61, budget));
    assert!(pace.leaves_time_for(61, None));
}

#[test]
fn an_affinity_beyond_the_machine_costs_its_own_runs_only() {
    let with =
        |knobs: &str| job_of(&PLAN.replace("name = \"c\"", &format!("name = \"c\"\n{knobs}")));
    let skipped = |knobs: &str| {
        let (events, _) = collect(&with(knobs), &mut Null::default(), usize::MAX);
        let reason = |event: &Event| match event {
            Event::RunEnded { outcome: Outcome::Skipped { reason }, .. } => Some(reason.clone()),
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
    let cell = &with("affinity = \"0-99\"").started.cells[2];
    let unknown = Topology::default();
    assert_eq!(check(&Null::default(), cell, &unknown).as_ref(), Ok(cell), "CPUs are not known");
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
            let of_each = (0..6).map(|cell| job.planned_runs_of(&[cell].into()));
            assert_eq!(of_each.sum::<u64>(), job.planned_runs());
            assert_eq!(job.expected_runs(), job.planned_runs() as f64);
            if own.len() > 1 {
                let (first, end) = collect(&job, &mut Null::default(), 1);
                assert_eq!((end, ended(&first).len()), (PlanEnd::Interrupted, 1));
                let done = ended(&first).into_iter().map(|key| (key, false));
                let resumed = Job::resumed(job.started.clone(), done);
                let rest = outcomes(&collect(&resumed, &mut Null::default(), usize::MAX).0);
                assert_eq!(rest.len(), own.len() - 1);
                let last = *ended(&events).last().expect("it has runs");
                let done = own.keys().filter(|key| **key != last).map(|key| (*key, false));
                let resumed = Job::resumed(job.started.clone(), done);
                let rest = collect(&resumed, &mut Null::default(), usize::MAX).0;
                assert_eq!(ended(&rest), [last]);
            }
            let had = all.len();
            all.extend(own.clone());
            assert_eq!(all.len(), had + own.len(), "no run is in two parts");
        }
        assert!(all == whole, "{cut:?} {parts}");
    }
}

/// Steps of such a part are no rounds.
#[test]
fn a_part_of_one_cell_goes_on_where_it_was_interrupted() {
    let mut started = job().started;
    started.cells.truncate(1);
    started.plan.works.truncate(1);
    started.plan.variants.truncate(1);
    started.plan.measure.rounds = 5;
    let cut = Cut::Boots;
    started.sharding = Some(Sharding { plan: "0".repeat(64), parts: 1, part: Some(1), cut });
    let done = (0..3).map(|round| (RunKey { round, cell: 0 }, false));
    let (events, end) = collect(&Job::resumed(started, done), &mut Null::default(), usize::MAX);
    let rounds: Vec<u32> = ended(&events).iter().map(|key| key.round).collect();
    assert_eq!((end, rounds), (PlanEnd::Complete, vec![3, 4]));
}

#[test]
fn a_part_looks_at_nothing() {
    let mut job = part(1, 2, Cut::Rounds);
    job.started.plan.measure.until_decided = true;
    let null = &mut Null::default();
    let (events, _) = collect_open(&job, null, usize::MAX, &mut |poll| panic!("{poll:?}"));
    assert_eq!(ended(&events).len() as u64, job.planned_runs());
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
    // Killed in the third round: the decisions of the second are made again.
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
    // Half as many again are the limit, and as many again where a budget ends it.
    let every_other: Vec<(u32, u32)> = (0..50).step_by(2).map(|round| (round, 4)).collect();
    let rounds_of_second = |job: &Job, spoilt: &[(u32, u32)]| {
        let (events, end) = collect(job, &mut Disturbed::new(job, spoilt), usize::MAX);
        assert_eq!(end, PlanEnd::Complete);
        by_work(job, &ended(&events))[1].len()
    };
    assert_eq!(rounds_of_second(&job, &every_other), 6);
    job.budget = Some(Duration::from_secs(3600));
    assert_eq!(rounds_of_second(&job, &every_other), 8);
    // A thing that is always there would spoil these, too.
    let always: Vec<(u32, u32)> = (0..50).map(|round| (round, 4)).collect();
    assert_eq!(rounds_of_second(&job, &always), 4);
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
    let every_other: Vec<(u32, u32)> = (0..50).step_by(2).map(|round| (round, 4)).collect();
    for spoilt in [&[][..], &[(1, 0), (1, 2), (4, 1)], &always, &every_other] {
        let (events, _) = collect(&job, &mut Disturbed::new(&job, spoilt), usize::MAX);
        let mut seen = job.clone();
        for key in ended(&events) {
            seen.add(key, spoilt.contains(&(key.round, key.cell)));
            assert!(seen.runs_done() <= seen.total_runs(), "{spoilt:?} {key:?}");
        }
        assert_eq!(seen.runs_done(), seen.total_runs(), "{spoilt:?}");
        assert_eq!(seen.expected_runs(), seen.total_runs() as f64, "{spoilt:?}");
    }
}

#[test]
fn variants_of_a_round_share_their_seed_and_rounds_do_not() {
    let job = job();
    let plan = &job.started.plan;
    let seed = |round, cell: usize| {
        let cells = vec![job.started.cells[cell].clone()];
        turns::order(cells, round, plan, None).unwrap().seed
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
    let skipped = events
        .iter()
        .filter(|event| matches!(event, Event::RunEnded { outcome: Outcome::Skipped { .. }, .. }));
    assert_eq!((skipped.count(), end), (24, PlanEnd::Complete));
    // A run that is made has the CPUs.
    job.started.cells.iter_mut().for_each(|cell| cell.work.llcs = Some(1));
    let mut seen = Seen::default();
    collect(&job, &mut seen, 1);
    let placed = |spec: &RunSpec| spec.cell.placement.cpus.clone();
    assert_eq!(seen.specs.iter().map(placed).collect::<Vec<_>>(), [Some(cpus("0,2"))]);
}

#[test]
fn a_plan_is_wrong_where_it_names_a_file_that_is_not_there() {
    let no_file = LabError::input(Path::new("/bzImage"))(std::io::ErrorKind::NotFound.into());
    assert!(matches!(CannotRun::from(BackendError::from(no_file)), CannotRun::Wrong(_)));
    assert!(matches!(CannotRun::from(BackendError::Busy), CannotRun::Backend(_)));
}

#[test]
fn a_backend_is_given_rounds_that_are_sure_as_far_ahead_as_it_likes() {
    let announced = |job: &Job, runs_ahead| {
        let mut seen = Seen { runs_ahead, ..Seen::default() };
        collect(job, &mut seen, 1);
        seen.announced
    };
    let mut job = job();
    assert_eq!(announced(&job, 0), [6]);
    assert_eq!(announced(&job, 6), [6]);
    assert_eq!(announced(&job, 7), [6, 6]);
    assert_eq!(announced(&job, usize::MAX), [6, 6, 6, 6]);
    job.budget = Some(Duration::from_secs(1));
    assert_eq!(announced(&job, usize::MAX), [6], "the budget decides whether there are others");
    job.min_rounds = 2;
    assert_eq!(announced(&job, usize::MAX), [6, 6]);
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
                Emitted::Event(_)
                | Emitted::Host(_)
                | Emitted::Console(_)
                | Emitted::Covered(_) => {}
            }
            Ok::<(), ()>(())
        };
        execute(job.clone(), backend, &cancel, &mut emit, &mut |_| None).unwrap();
        seen.join(" ")
    };
    let round = |each: &str| [each; 6].join(" ") + " pause";
    let rounds = |each: &str| [round(each), round(each), round(each), round(each)].join(" ");
    assert_eq!(pauses(&mut Seen::default()), rounds("run pause pause"));
    let fleet = |has_answers| Seen { runs_ahead: usize::MAX, has_answers, ..Seen::default() };
    assert_eq!(pauses(&mut fleet(true)), rounds("run"));
    assert_eq!(pauses(&mut fleet(false)), rounds("run pause"));
}

/// Runs are given this.
#[derive(Default)]
struct Seen {
    specs: Vec<RunSpec>,
    /// The number of runs in each announcement.
    announced: Vec<usize>,
    runs_ahead: usize,
    has_answers: bool,
    /// Results of each run that were known.
    looked_up: usize,
    /// Number of runs that the host ends after their windows.
    host_ends: usize,
}

impl Backend for Seen {
    fn environment(&self) -> crate::model::Environment {
        Null::default().environment()
    }

    fn check(&self, cell: &Cell) -> Result<(), crate::backend::BackendError> {
        Null::default().check(cell)
    }

    fn runs_ahead(&self) -> usize {
        self.runs_ahead
    }

    fn has_answer(&mut self, _spec: &RunSpec) -> bool {
        self.has_answers
    }

    fn looked_up(&self) -> usize {
        self.looked_up * self.specs.len()
    }

    fn announce(&mut self, specs: Vec<RunSpec>) {
        self.announced.push(specs.len());
    }

    fn run(&mut self, spec: &RunSpec, cancel: &AtomicBool, on_news: &mut News) -> RunEnd {
        self.specs.push(spec.clone());
        let end = Null::default().run(spec, cancel, on_news);
        if self.specs.len() > self.host_ends {
            return end;
        }
        RunEnd::HostEnded { reason: "killed".to_string() }
    }
}

/// The job with variants that take turns, and the same job in separate runs.
fn in_turns() -> [Job; 2] {
    let text = PLAN.replace("name = \"b\"", "name = \"b\"\npolicy = \"batch\"");
    let text = text.replace("name = \"c\"", "name = \"c\"\nnice = 3");
    let turns = text.replace("rounds = 4", "rounds = 4\nturns = \"100ms\"");
    [turns, text].map(|text| job_of(&text))
}

/// The windows of each run, and its outcome, by run; each run has started before.
fn by_run(events: &[Event]) -> BTreeMap<RunKey, (Vec<Window>, Outcome)> {
    let (mut open, mut runs) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        match event {
            Event::RunStarted { key } => _ = open.insert(*key, Vec::new()),
            Event::Window { key, window } => open.get_mut(key).unwrap().push(window.clone()),
            Event::RunEnded { key, outcome: Outcome::Skipped { reason } } => {
                runs.insert(*key, (Vec::new(), Outcome::Skipped { reason: reason.clone() }));
            }
            Event::RunEnded { key, outcome } => {
                let windows = open.remove(key).expect("it has started");
                assert!(runs.insert(*key, (windows, outcome.clone())).is_none(), "{key:?} twice");
            }
            _ => {}
        }
    }
    runs
}

#[test]
fn variants_that_take_turns_give_a_run_each_and_share_one_of_the_backend() {
    let [turns, separate] = in_turns();
    let [(events, end), (expected, _)] =
        [&turns, &separate].map(|job| collect(job, &mut Null::default(), usize::MAX));
    assert_eq!(end, PlanEnd::Complete);
    // The null backend invents the same figures for a variant in a run of its own, but for the one that turns alone have.
    let mut runs = by_run(&events);
    for (_, outcome) in runs.values_mut() {
        let Outcome::Done { result } = outcome else { panic!("{outcome:?}") };
        for set in &mut result.sets {
            let metric = set.metrics.pop().expect("a set has metrics");
            assert_eq!(metric.kind.name, "late_to_early");
        }
    }
    assert!(runs == by_run(&expected));
    // A variant that cannot be had costs itself alone.
    let mut null =
        Null { missing: [("b".to_string(), "no".to_string())].into(), ..Null::default() };
    let runs = by_run(&collect(&turns, &mut null, usize::MAX).0);
    let skipped = runs.values().filter(|(_, outcome)| matches!(outcome, Outcome::Skipped { .. }));
    assert_eq!((runs.len(), skipped.count()), (24, 8));
    // Each round of a work is one run.
    let mut seen = Seen::default();
    collect(&turns, &mut seen, usize::MAX);
    assert_eq!(seen.specs.len(), 8);
    let spec = &seen.specs[0];
    assert_eq!((spec.duration_ns, spec.turns.as_ref().unwrap().variants.len()), (3_000_000_000, 3));
}

#[test]
fn a_variant_whose_result_is_lost_is_measured_in_turns_with_all_others() {
    let [job, _] = in_turns();
    let whole = by_run(&collect(&job, &mut Null::default(), usize::MAX).0);
    let lost = RunKey { round: 2, cell: 4 };
    let done = whole.keys().filter(|key| **key != lost).map(|key| (*key, false));
    let resumed = Job::resumed(job.started.clone(), done);
    let mut seen = Seen::default();
    let (events, _) = collect(&resumed, &mut seen, usize::MAX);
    assert_eq!(ended(&events), [lost]);
    assert!(by_run(&events)[&lost] == whole[&lost]);
    assert_eq!(seen.specs[0].turns.as_ref().unwrap().variants.len(), 3);
}

#[test]
fn a_variant_that_has_its_result_keeps_it_where_it_cannot_be_had_any_longer() {
    let [job, _] = in_turns();
    let whole = by_run(&collect(&job, &mut Null::default(), usize::MAX).0);
    let lost = RunKey { round: 2, cell: 3 };
    let done = whole.keys().filter(|key| **key != lost).map(|key| (*key, false));
    let resumed = Job::resumed(job.started.clone(), done);
    let missing = [("b".to_string(), "no".to_string())].into();
    let mut null = Null { missing, ..Null::default() };
    let (events, _) = collect(&resumed, &mut null, usize::MAX);
    assert_eq!(ended(&events), [lost]);
    // If its own result is the one that is lost, nothing runs.
    let lost = RunKey { round: 2, cell: 4 };
    let done = whole.keys().filter(|key| **key != lost).map(|key| (*key, false));
    let (events, _) = collect(&Job::resumed(job.started.clone(), done), &mut null, usize::MAX);
    assert_eq!(ended(&events), [lost]);
    assert!(!events.iter().any(|event| matches!(event, Event::RunStarted { .. })));
}

#[test]
fn a_window_of_turns_has_the_workers_of_each_variant_in_turn() {
    let worker = |ops| WorkerWindow { end_at_ns: 9, wall_ns: 9, ops, cpu_ns: 9, peak_ns: 0 };
    let window =
        |ops: &[u64]| Window { index: 3, workers: ops.iter().copied().map(worker).collect() };
    let divided = |ops: &[u64], variants| turns::divided_window(window(ops), variants);
    assert_eq!(
        divided(&[1, 2, 3, 4, 5, 6], 3),
        [window(&[1, 2]), window(&[3, 4]), window(&[5, 6])]
    );
    assert_eq!(divided(&[1, 2], 1), [window(&[1, 2])]);
    assert_eq!(divided(&[], 3), []);
}

#[test]
fn turns_that_the_host_ends_give_their_windows_once_or_are_all_missing() {
    let [job, _] = in_turns();
    let whole = by_run(&collect(&job, &mut Null::default(), usize::MAX).0);
    let (events, end) = collect(&job, &mut Seen { host_ends: 1, ..Seen::default() }, usize::MAX);
    assert_eq!(end, PlanEnd::Complete);
    assert!(by_run(&events) == whole);
    // The variant that was not in the run is not missing: it was skipped.
    let missing = [("b".to_string(), "no".to_string())].into();
    let mut null = Null { missing, host_ends: [(0, 2)].into(), ..Null::default() };
    let mut emit = |_: Emitted| Ok::<(), ()>(());
    let cancel = AtomicBool::new(false);
    let end = execute(job, &mut null, &cancel, &mut emit, &mut |_| None).unwrap();
    assert_eq!(end.host_ended, ["killed", "killed"]);
}

#[test]
fn the_calibration_goes_into_each_run() {
    let mut job = job();
    job.started.environment.calibration = Some(Calibration { kop_ps: 7, spread: 0.0 });
    let mut seen = Seen::default();
    collect(&job, &mut seen, 1);
    assert_eq!(seen.specs[0].kop_ps, Some(7));
}

#[test]
fn a_run_is_as_long_as_its_work_is_in_the_lab() {
    let text = PLAN.replace("use = \"spin\"", "use = \"spin\"\nlab-duration = \"40ms\"");
    let mut job = job_of(&text);
    job.started.plan.has_lab_durations = true;
    let mut seen = Seen::default();
    let (events, _) = collect(&job, &mut seen, usize::MAX);
    assert!(!events.is_empty());
    for spec in &seen.specs {
        let own_ns = spec.cell.work.lab_duration_ns;
        let expected_ns = own_ns.unwrap_or(1_000_000_000);
        let window_ns = expected_ns.min(job.started.plan.measure.window_ns);
        assert_eq!((spec.duration_ns, spec.window_ns), (expected_ns, window_ns));
        assert_eq!(spec.limit_ns, spec.warmup_ns + expected_ns + job.started.plan.measure.grace_ns);
    }
    assert!(seen.specs.iter().any(|spec| spec.duration_ns == 40_000_000));
}

#[test]
fn time_is_that_of_a_plan_whose_runs_were_all_made_now() {
    let job = job_of(PLAN);
    let took = |job: &Job, looked_up| {
        let mut backend = Seen { looked_up, ..Seen::default() };
        let end = execute(
            job.clone(),
            &mut backend,
            &AtomicBool::new(false),
            &mut |_| Ok::<(), ()>(()),
            &mut |_| None,
        );
        end.unwrap().took
    };
    assert!(took(&job, 0).is_some());
    assert_eq!(took(&job, 1), None, "a result was known");
    let done = [(order(&job, 1)[0], false)];
    assert_eq!(took(&Job::resumed(job.started.clone(), done), 0), None);
}
