//! Parts of a plan that are measured in one store.

use super::super::join::what_differs;
use super::*;
use crate::model::{
    Cut, Guest, GuestKernel, GuestTime, Outcome, PlanEnd, PlanStarted, Reading, Sharding,
};

fn started(part: u32) -> (Sharding, PlanStarted) {
    let sharding = Sharding { plan: "a".repeat(64), parts: 2, part: Some(part), cut: Cut::Rounds };
    let started = sample::started(&sharding.id(), 1);
    (sharding.clone(), PlanStarted { sharding: Some(sharding), ..started })
}

/// Measures a part, but does not end it.
fn measure(store: &mut Store, part: u32) {
    measure_in(store, part, None);
}

/// The same in guests of the lab.
fn measure_in(store: &mut Store, part: u32, guest: Option<&Guest>) {
    let (sharding, started) = started(part);
    let division = sharding.division(&started.plan);
    let keys = (0..started.plan.measure.rounds).map(|round| RunKey { round, cell: 0 });
    let own: Vec<RunKey> = keys.filter(|key| division.part_of(*key) == Some(part)).collect();
    store.apply(&Event::PlanStarted(Box::new(started))).unwrap();
    for key in own {
        let mut events = sample::run(key, 1, 1);
        if let Some(Event::RunEnded { outcome: Outcome::Done { result }, .. }) = events.last_mut() {
            result.guest = guest.cloned();
        }
        apply_all(store, &events);
    }
}

#[test]
fn parts_are_joined_once_each_has_ended() {
    let (_folder, mut store) = fresh();
    let (sharding, started) = started(2);
    let end = |reason| Event::PlanEnded { reason, calibration: None };
    measure(&mut store, 1);
    store.apply(&end(PlanEnd::Complete)).unwrap();
    assert_eq!(store.join_stored(&sharding).unwrap(), None, "a part is missing");
    measure(&mut store, 2);
    assert_eq!(store.join_stored(&sharding).unwrap(), None, "a part is being measured");
    store.apply(&end(PlanEnd::Interrupted)).unwrap();
    assert_eq!(store.join_stored(&sharding).unwrap(), None, "a part can go on");
    apply_all(&mut store, &[Event::PlanStarted(Box::new(started)), end(PlanEnd::Budget)]);
    let joined = store.join_stored(&sharding).unwrap().expect("all parts are there");
    assert_eq!((joined.runs, joined.planned, joined.missing), (10, 10, Vec::new()));
    let ids: Vec<String> = store.plan_heads().unwrap().into_iter().map(|head| head.id).collect();
    assert_eq!(ids, [sharding.whole_id()]);
}

#[test]
fn a_part_with_a_run_of_another_part_is_not_joined() {
    let (_folder, mut store) = fresh();
    let end = Event::PlanEnded { reason: PlanEnd::Complete, calibration: None };
    let (sharding, started) = started(1);
    let division = sharding.division(&started.plan);
    let mut keys = (0..started.plan.measure.rounds).map(|round| RunKey { round, cell: 0 });
    let other = keys.find(|key| division.part_of(*key) == Some(2)).unwrap();
    measure(&mut store, 1);
    apply_all(&mut store, &sample::run(other, 1, 1));
    store.apply(&end).unwrap();
    measure(&mut store, 2);
    store.apply(&end).unwrap();
    let refused = store.join_stored(&sharding).unwrap_err();
    assert!(matches!(refused, StoreError::NotOfPart { key, .. } if key == other), "{refused}");
}

#[test]
fn a_run_of_a_part_that_is_gone_is_one_of_its_own() {
    let (_folder, mut store) = fresh();
    measure(&mut store, 2);
    let keys = |store: &Store| {
        let runs = store.record(&started(2).0.id()).unwrap().runs;
        runs.iter().map(|run| run.key).collect::<std::collections::BTreeSet<_>>()
    };
    let before = keys(&store);
    store.conn.execute_batch("DELETE FROM run WHERE run = 1").unwrap();
    assert_eq!(keys(&store), before, "{:?}", reported(&store));
}

#[test]
fn plans_that_differ_say_in_what() {
    let (_, first) = started(1);
    let title = format!("the title (`{}` and `other`)", first.plan.title);
    let backend = format!("the backend ({} and lab)", first.backend);
    let seed = format!("the seed ({} and 77)", first.plan.measure.seed);
    let rounds = format!("the number of rounds ({} and 99)", first.plan.measure.rounds);
    type Change = fn(&mut PlanStarted);
    let cases: [(Change, &str); 10] = [
        (|other| other.plan.title = "other".to_string(), &title),
        (|other| other.backend = "lab".to_string(), &backend),
        (|other| other.source.push('#'), "the text of the plan"),
        (|other| other.plan.measure.seed = 77, &seed),
        (|other| other.plan.measure.rounds = 99, &rounds),
        (|other| other.plan.measure.warmup_ns += 1, "what is measured in a round"),
        (|other| other.plan.variants.clear(), "the variants"),
        (|other| other.plan.lab.cpus += 1, "the machine of the lab"),
        (|other| other.plan.works.clear(), "what the text of the plan means on the machine"),
        (|_| (), "the version of schedlab"),
    ];
    for (change, expected) in cases {
        let mut other = first.clone();
        change(&mut other);
        assert_eq!(what_differs(&first, &other), expected);
    }
    let (_folder, mut store) = fresh();
    apply_all(&mut store, &[Event::PlanStarted(Box::new(first.clone()))]);
    let other = PlanStarted { sharding: started(2).1.sharding, ..first };
    let refused = store.apply(&Event::PlanStarted(Box::new(other))).unwrap_err();
    assert!(refused.to_string().contains("the part of the plan"), "{refused}");
}

#[test]
fn a_part_that_comes_is_joined_with_those_that_are_stored() {
    let end = Event::PlanEnded { reason: PlanEnd::Complete, calibration: None };
    let part = |part| {
        let (folder, mut store) = fresh();
        measure(&mut store, part);
        store.apply(&end).unwrap();
        (folder, store)
    };
    let (_folder, mut store) = part(1);
    let (_other_folder, other) = part(2);
    let imported = import_store(&mut store, &other).unwrap();
    assert_eq!((imported.plans, imported.joined.len()), (1, 1));
    assert_eq!(store.sampled(&started(1).0.whole_id()).unwrap().environments.len(), 2);
    let heads = store.plan_heads().unwrap();
    let ids: Vec<&str> = heads.iter().map(|head| head.id.as_str()).collect();
    assert_eq!(ids, [started(1).0.whole_id()]);
    let rounds = store.record(ids[0]).unwrap().runs.len();
    assert_eq!(rounds, 10);
}

#[test]
fn variants_with_more_than_one_kernel_are_named() {
    let guest = |digest: &str| Guest {
        kernel: GuestKernel { digest: Some(digest.to_string()), ..GuestKernel::default() },
        time: GuestTime::Exact,
        capacity: Reading::Known(1.0),
        coarse_timers_ns: None,
    };
    let kernels = |digests: [&str; 2]| {
        let (_folder, mut store) = fresh();
        for (part, digest) in (1..).zip(digests) {
            measure_in(&mut store, part, Some(&guest(digest)));
            store
                .apply(&Event::PlanEnded { reason: PlanEnd::Complete, calibration: None })
                .unwrap();
        }
        store.join_stored(&started(1).0).unwrap().expect("all parts are there").kernels
    };
    assert_eq!(kernels(["a1", "a1"]), []);
    let both = ["a1", "b2"].map(|digest| guest(digest).kernel).to_vec();
    assert_eq!(kernels(["a1", "b2"]), [("default".to_string(), both)]);
}
