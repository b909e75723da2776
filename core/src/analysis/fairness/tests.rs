//! Tests of fairness tables: invented runs with answers by hand, and what is refused.

use super::super::{Note, testing};
use super::*;
use crate::model::{
    Direction, DisturbanceKind, Placement, RunKey, SampledMetric, SetChange, Statistic, Unit,
    WorkerKind,
};

#[test]
fn rounds_of_which_a_solo_run_was_disturbed_are_counted() {
    let mut invented = Invented::same(0.5, &[0.5, 0.5]);
    let spoilt = |plan: &SampledPlan| fairness(plan)[0].variants[0].spoilt;
    assert_eq!(spoilt(&invented.plan), 0);
    for (at, kind, share, expected) in [
        (0, DisturbanceKind::UnderWay, 0.9, 0),
        (0, DisturbanceKind::OutsideLoad, 0.001, 0),
        (0, DisturbanceKind::OutsideLoad, 0.3, 1),
        (1, DisturbanceKind::Steal, 0.3, 1),
    ] {
        testing::disturb(&mut invented.plan, at, kind, Some(share));
        assert_eq!(spoilt(&invented.plan), expected, "{kind:?} of {share}");
        let shown = serde_json::to_value(fairness(&invented.plan)).unwrap();
        let shown = shown[0]["variants"][0]["spoilt"].as_u64();
        assert_eq!(
            shown,
            Some(expected as u64).filter(|count| *count > 0),
            "only where there are some"
        );
        if expected > 0 {
            invented.plan.runs[at].disturbances.clear();
        }
    }
}

/// A plan of one round or more, with the workers of its runs.
struct Invented {
    plan: SampledPlan,
}

/// CPU seconds and operations of each worker, in a run of one second.
type Workers<'a> = &'a [(f64, u64)];

fn set(name: &str, workload: &str, count: u32) -> WorkerSet {
    WorkerSet {
        name: name.to_string(),
        workload: workload.to_string(),
        count,
        ..Default::default()
    }
}

impl Invented {
    fn new(variants: &[&str], works: &[(&str, &[WorkerSet])]) -> Self {
        let mut plan = testing::plan("p", 0, variants);
        (plan.cells, plan.metrics) = (Vec::new(), Vec::new());
        for (name, sets) in works {
            let work = Work { name: name.to_string(), sets: sets.to_vec(), ..Default::default() };
            for variant in plan.plan.variants.clone() {
                let index = plan.cells.len() as u32;
                let placement =
                    Placement { cpus: Some("0-3".parse().unwrap()), ..Placement::default() };
                plan.cells.push(Cell { index, variant, work: work.clone(), placement });
            }
        }
        Invented { plan }
    }

    /// One set `w` with its solo run: `count` workers that want `want` CPUs and got `got` each.
    fn same(want: f64, got: &[f64]) -> Self {
        let mut plan = Invented::new(
            &["default"],
            &[
                ("w solo", &[set("w", "burnwait", 1)]),
                ("w", &[set("w", "burnwait", got.len() as u32)]),
            ],
        );
        plan.done(0, 0, &[&[(want, (1000.0 * want) as u64)]]);
        let got: Vec<(f64, u64)> = got.iter().map(|&got| (got, (1000.0 * got) as u64)).collect();
        plan.done(1, 0, &[&got]);
        plan
    }

    fn done(&mut self, cell: u32, round: u32, sets: &[Workers]) {
        let plan = &mut self.plan;
        let work = plan.cells[cell as usize].work.clone();
        let mut run = testing::sampled_run(plan, RunKey { round, cell });
        for (at, (set, own)) in work.sets.iter().zip(sets).enumerate() {
            run.workers.extend(own.iter().map(|&(cpus, ops)| SampledWorker {
                set: at as u16,
                role: "worker".into(),
                ops,
                wall_ns: 1_000_000_000,
                cpu_ns: (cpus * 1e9).round() as u64,
            }));
            if !set.background {
                let value = own.iter().map(|(_, ops)| *ops as f64).sum();
                let metric = plan.metrics.len() as u32;
                let (unit, direction) = (Unit::OpsPerS, Direction::HigherIsBetter);
                let throughput = testing::metric("throughput", unit, direction, Statistic::Rate);
                plan.metrics.push(SampledMetric { set: set.name.clone(), ..throughput });
                run.values.push((metric, value));
            }
        }
        plan.runs.push(run);
    }

    fn knob(&mut self, variant: &str, knob: &str, value: Value) {
        for cell in self.plan.cells.iter_mut().filter(|cell| cell.variant.name == variant) {
            cell.variant.knobs.insert(knob.to_string(), value.clone());
        }
    }

    fn place(&mut self, cpus: Option<&str>) {
        let cpus: Option<CpuSet> = cpus.map(|cpus| cpus.parse().unwrap());
        self.plan.cells.iter_mut().for_each(|cell| cell.placement.cpus.clone_from(&cpus));
    }

    fn tables(&self) -> Vec<FairnessTable> {
        fairness(&self.plan)
    }

    /// The only variant of the only table.
    fn only(&self) -> VariantFairness {
        let [table] = self.tables().try_into().expect("one table");
        let [variant] = table.variants.try_into().expect("one variant");
        variant
    }
}

/// The figure of this name.
fn figure<'s>(set: &'s SetFairness, name: &str) -> &'s PerRound {
    &set.figures.iter().find(|(own, _)| *own == name).expect("a figure").1
}

/// In the order of [`SetFairness::figures`].
fn medians(set: &SetFairness) -> [Option<f64>; 7] {
    set.figures.each_ref().map(|(.., figure)| figure.median().known())
}

fn close(found: &[Option<f64>], expected: &[Option<f64>]) -> bool {
    let close = |(found, expected): (&Option<f64>, &Option<f64>)| match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < 1e-6,
        (found, expected) => found == expected,
    };
    found.len() == expected.len() && found.iter().zip(expected).all(close)
}

/// Ten guests that want half a CPU each, on a machine of whose five CPUs the first domain has one.
#[test]
fn guests_of_xen_share_the_cpus_that_the_first_domain_has_not() {
    for (kind, entitled) in [(WorkerKind::Guests, 0.4), (WorkerKind::Processes, 0.5)] {
        let mut invented = Invented::same(0.5, &[0.4; 10]);
        invented.place(None);
        for topology in invented.plan.environments.iter_mut().map(|of| &mut of.topology) {
            topology.online = "0-4".parse().unwrap();
            topology.allowed = topology.online.clone();
        }
        let sets = invented.plan.cells.iter_mut().flat_map(|cell| &mut cell.work.sets);
        sets.for_each(|set| set.kind = kind);
        let found = invented.only();
        let got = figure(&found.sets[0], "entitled").median().known();
        assert!(close(&[got], &[Some(entitled)]), "{kind:?}: {got:?}");
    }
}

/// The worked examples of schedbench's README: competitors that want half a CPU each, on four
/// CPUs. Five are entitled to that, ten to 40 %.
#[test]
fn five_that_want_half_a_cpu_of_four_are_entitled_to_it_and_ten_to_four_tenths() {
    let cases = [
        // count, got by each, entitled, got / entitled, throughput / solo
        (5, 0.5, 0.5, 1.0, 1.0),
        (5, 0.4, 0.5, 0.8, 0.8),
        (10, 0.4, 0.4, 1.0, 0.8),
        (10, 0.2, 0.4, 0.5, 0.4),
    ];
    for (count, got, entitled, ratio, vs_solo) in cases {
        let found = Invented::same(0.5, &vec![got; count]).only();
        let expected = [0.5, entitled, got, ratio, vs_solo, 1.0, 1024.0].map(Some);
        assert!(close(&medians(&found.sets[0]), &expected), "{count} got {got}: {found:?}");
        assert!(close(&[found.jain.median().known()], &[Some(1.0)]), "{found:?}");
        assert_eq!(found.cpus.median(), Reading::Known(4.0));
    }
    let got: Vec<f64> = (0..10).map(|at| if at < 5 { 0.5 } else { 0.3 }).collect();
    let found = Invented::same(0.5, &got).only();
    let jain =
        [found.jain.median().known(), figure(&found.sets[0], "max_over_min").median().known()];
    assert!(close(&jain, &[Some(16.0 / 17.0), Some(5.0 / 3.0)]), "4^2 / (10 * 1.7): {jain:?}");
}

#[test]
fn figures_are_medians_over_rounds_that_have_work_and_solo_runs() {
    let mut plan = Invented::same(0.5, &[0.5; 2]);
    for (round, want) in [(1, 0.3), (2, 0.9), (4, 0.1)] {
        plan.done(0, round, &[&[(want, 100)]]);
        plan.done(1, round, &[&[(want, 100); 2]]);
    }
    plan.done(1, 3, &[&[(0.5, 100); 2]]);
    plan.done(0, 5, &[&[(0.5, 100)]]);
    let found = plan.only();
    assert_eq!(found.rounds, [0, 1, 2, 4]);
    let want = figure(&found.sets[0], "want");
    assert_eq!(want.values(), [0.5, 0.3, 0.9, 0.1]);
    assert_eq!(want.median(), Reading::Known(0.4));
    let unknown = |why: &str| Reading::Unknown(why.to_string());
    let some = PerRound(vec![unknown("first"), Reading::Known(2.0), unknown("second")]);
    assert_eq!((some.median(), some.values()), (Reading::Known(2.0), vec![2.0]));
    assert_eq!(PerRound(vec![unknown("first"), unknown("second")]).median(), unknown("first"));
}

#[test]
fn a_background_set_without_a_solo_run_competes_for_a_cpu_and_is_not_in_jains_index() {
    let hog = WorkerSet { background: true, ..set("hog", "spin", 2) };
    let works = |solo_of_hog: bool| {
        let mut works = vec![
            ("a solo", vec![set("a", "burnwait", 1)]),
            ("mix", vec![set("a", "burnwait", 1), hog.clone()]),
        ];
        if solo_of_hog {
            works.push(("hog solo", vec![set("h", "spin", 1)]));
        }
        works
    };
    let invented = |solo_of_hog| {
        let works = works(solo_of_hog);
        let works: Vec<(&str, &[WorkerSet])> =
            works.iter().map(|(name, sets)| (*name, sets.as_slice())).collect();
        let mut plan = Invented::new(&["default"], &works);
        plan.place(Some("0-1"));
        plan.done(0, 0, &[&[(1.0, 100)]]);
        plan.done(1, 0, &[&[(0.5, 50)], &[(0.75, 30), (0.75, 60)]]);
        if solo_of_hog {
            plan.done(2, 0, &[&[(0.5, 90)]]);
        }
        plan
    };
    let plan = invented(false);
    let [table] = plan.tables().try_into().unwrap();
    assert_eq!((&table.work[..], &table.assumed[..]), ("mix", &["hog".to_string()][..]));
    let found = plan.only();
    let entitled = 2.0 / 3.0;
    let a = [1.0, entitled, 0.5, 0.75, 0.5].map(Some);
    assert!(close(&medians(&found.sets[0])[..5], &a), "{found:?}");
    let hog = [Some(1.0), Some(entitled), Some(0.75), Some(1.125), None, Some(2.0), Some(1024.0)];
    assert!(close(&medians(&found.sets[1]), &hog) && found.sets[1].background, "{found:?}");
    assert_eq!(found.jain.median(), Reading::Known(1.0), "of one worker");
    // With a solo run it is measured like the others.
    let found = invented(true).only();
    let hog = [0.5, 0.5, 0.75, 1.5, 0.5].map(Some);
    assert!(close(&medians(&found.sets[1])[..5], &hog), "{found:?}");
}

/// Two sets on one CPU, each with its own knobs, under a variant of nice 10: entitled and weight.
fn by_weight(a: &[(&str, Value)], b: &[(&str, Value)]) -> [Option<f64>; 4] {
    let own = |name: &str, workload: &str, knobs: &[(&str, Value)]| WorkerSet {
        knobs: knobs.iter().map(|(knob, value)| (knob.to_string(), value.clone())).collect(),
        ..set(name, workload, 1)
    };
    let (a, b) = (own("a", "spin", a), own("b", "burnwait", b));
    let works: [(&str, &[WorkerSet]); 3] = [
        ("a solo", std::slice::from_ref(&a)),
        ("b solo", std::slice::from_ref(&b)),
        ("both", &[a.clone(), b.clone()]),
    ];
    let mut plan = Invented::new(&["nice-10"], &works);
    plan.knob("nice-10", "nice", Value::Int(10));
    plan.place(Some("0"));
    plan.done(0, 0, &[&[(1.0, 100)]]);
    plan.done(1, 0, &[&[(0.75, 100)]]);
    plan.done(2, 0, &[&[(0.5, 50)], &[(0.5, 50)]]);
    let found = plan.only();
    let of = |set: &SetFairness| {
        [figure(set, "entitled").median().known(), figure(set, "weight").median().known()]
    };
    let ([a, a_weight], [b, b_weight]) = (of(&found.sets[0]), of(&found.sets[1]));
    [a, b, a_weight, b_weight]
}

#[test]
fn more_weight_is_entitled_to_more_and_real_time_sets_to_their_wants() {
    let nice = |nice| [("nice", Value::Int(nice))];
    let policy = |word: &str| [("policy", Value::Text(word.to_string()))];
    let (heavy, light) = (1024.0 / 1359.0, 335.0 / 1359.0);
    let found = by_weight(&nice(0), &nice(5));
    assert!(close(&found, &[heavy, light, 1024.0, 335.0].map(Some)), "{found:?}");
    // The variant's nice holds for a set with none of its own, but not next to a policy.
    let found = by_weight(&[], &policy("idle"));
    assert!(close(&found[2..], &[Some(110.0), Some(3.0)]), "{found:?}");
    for word in ["fifo", "rr", "deadline"] {
        let found = by_weight(&[], &policy(word));
        assert!(close(&found, &[Some(0.25), Some(0.75), Some(110.0), None]), "{word}: {found:?}");
    }
    let found = by_weight(&policy("fifo"), &[]);
    assert!(close(&found, &[Some(1.0), Some(0.0), None, Some(110.0)]), "{found:?}");
}

#[test]
fn a_solo_run_is_of_the_same_workers_variant_placement_and_round() {
    let counts = |plan: &Invented| {
        let [table] = plan.tables().try_into().expect("one table");
        (table.variants.len(), table.incomplete.len(), table.missing.len())
    };
    assert_eq!(counts(&Invented::same(0.5, &[0.5; 2])), (1, 0, 0));
    let mut other_parameter = Invented::same(0.5, &[0.5; 2]);
    let params = &mut other_parameter.plan.cells[0].work.sets[0].params;
    params.insert("operations".to_string(), Value::Int(6));
    assert_eq!(counts(&other_parameter), (0, 0, 1));
    let mut late = Invented::same(0.5, &[0.5; 2]);
    late.plan.runs[0].key.round = 1;
    assert_eq!(counts(&late), (0, 1, 0));
    let mut placed = Invented::same(0.5, &[0.5; 2]);
    placed.plan.cells[0].placement.cpus = Some("0".parse().unwrap());
    assert_eq!(counts(&placed), (0, 1, 0));
    let mut on_one_cache = Invented::same(0.5, &[0.5; 2]);
    on_one_cache.plan.cells[0].work.llcs = Some(1);
    assert_eq!(counts(&on_one_cache), (0, 1, 0));
    let mut nothing = Invented::same(0.5, &[0.5; 2]);
    nothing.plan.runs.clear();
    assert_eq!(counts(&nothing), (0, 0, 0), "no run of the work was measured");
}

#[test]
fn sets_that_are_not_active_at_the_same_time_have_no_fairness() {
    let phase = |at_ns, ops| Some(Phase { at_ns, for_ns: None, ops });
    let found_of = |sets: &[WorkerSet]| {
        let solo = set("w", "burnwait", 1);
        let mut plan = Invented::new(&["default"], &[("w solo", &[solo]), ("w", sets)]);
        plan.done(0, 0, &[&[(0.5, 9)]]);
        let workers: [&[_]; 2] = [&[(0.5, 9), (0.5, 9)], &[(0.5, 9)]];
        plan.done(1, 0, &workers[..sets.len()]);
        let [table] = plan.tables().try_into().expect("one table");
        (table.variants.len(), table.phased)
    };
    let found = |phases: [Option<Phase>; 2]| {
        let own = WorkerSet { phase: phases[0], ..set("w", "burnwait", 2) };
        let other = WorkerSet { phase: phases[1], ..set("o", "burnwait", 1) };
        found_of(&[own, other])
    };
    let changes = vec![SetChange { at_ns: 5, knobs: BTreeMap::new(), cgroup: None, count: None }];
    let changed = found_of(&[WorkerSet { changes, ..set("w", "burnwait", 2) }]);
    assert_eq!(changed, (0, vec!["w".to_string()]), "its weight is not the same all the time");
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(found([None, None]), (1, Vec::new()));
    assert_eq!(found([phase(5, None); 2]), (1, Vec::new()), "they compete all their time");
    assert_eq!(found([None, phase(5, None)]), (0, names(&["o"])));
    assert_eq!(found([phase(4, None), phase(5, None)]), (0, names(&["w", "o"])));
    assert_eq!(found([phase(5, Some(3)); 2]), (0, names(&["w", "o"])), "one is done first");
}

#[test]
fn workers_of_a_role_want_what_that_role_wants_alone() {
    let mut plan = Invented::new(
        &["default"],
        &[("solo", &[set("w", "schbench", 1)]), ("w", &[set("w", "schbench", 2)])],
    );
    plan.place(Some("0-7"));
    plan.done(0, 0, &[&[(0.1, 0), (0.9, 10)]]);
    plan.done(1, 0, &[&[(0.1, 0), (0.9, 10), (0.1, 0), (0.9, 10)]]);
    let messages = plan.plan.runs.iter_mut().flat_map(|run| &mut run.workers).step_by(2);
    messages.for_each(|worker| worker.role = "message".into());
    let found = plan.only();
    let half = Some(0.5);
    let expected = [half, half, half, Some(1.0), Some(1.0), None, Some(1024.0)];
    assert!(close(&medians(&found.sets[0]), &expected), "{found:?}");
    let jain = found.jain.median().known();
    assert!(close(&[jain], &[Some(1.0)]), "one want for both roles would give 0.61: {jain:?}");
}

/// Two hogs with their solo run: entitled, CPUs.
fn of_cpus(plan: &Invented) -> [Reading<f64>; 2] {
    let found = plan.only();
    [figure(&found.sets[0], "entitled").median(), found.cpus.median()]
}

#[test]
fn the_cpus_are_those_of_the_placement_of_the_pool_or_of_the_process() {
    let known = |entitled, cpus| [Reading::Known(entitled), Reading::Known(cpus)];
    let mut plan = Invented::same(1.0, &[0.5; 2]);
    assert_eq!(of_cpus(&plan), known(1.0, 4.0));
    plan.place(None);
    plan.plan.environments[0].topology.online = "0-1".parse().unwrap();
    assert_eq!(of_cpus(&plan), known(1.0, 2.0), "all that are online");
    plan.plan.environments[0].topology.allowed = "1".parse().unwrap();
    assert_eq!(of_cpus(&plan), known(0.5, 1.0));
    plan.plan.environments[0].topology = crate::model::Topology {
        online: "0-5".parse().unwrap(),
        llcs: ["0-2", "3-5"].map(|cpus| cpus.parse().unwrap()).to_vec(),
        ..Default::default()
    };
    plan.plan.cells.iter_mut().for_each(|cell| cell.work.llcs = Some(1));
    assert_eq!(of_cpus(&plan), known(1.0, 3.0), "those of the first last-level cache");
    plan.plan.cells.iter_mut().for_each(|cell| cell.work.llcs = None);
    for cell in &mut plan.plan.cells {
        cell.placement.pool = Some("bench".to_string().try_into().unwrap());
    }
    for reading in of_cpus(&plan) {
        let Reading::Unknown(why) = reading else { panic!("{reading:?}") };
        assert!(why.contains("pool bench"), "{why}");
    }
    plan.plan.pools = vec![testing::pool("3")];
    plan.plan.runs[1].pool = Some(0);
    assert_eq!(of_cpus(&plan), known(0.5, 1.0));
}

#[test]
fn an_affinity_leaves_its_workers_these_cpus_and_others_to_the_rest() {
    type Case<'a> = (Option<&'a str>, [Option<&'a str>; 2], Option<&'a str>, [f64; 3]);
    let cases: &[Case] = &[
        (None, [None, None], Some("0-1"), [0.5, 0.5, 2.0]),
        // All on one CPU of the two.
        (Some("0"), [None, None], Some("0-1"), [0.25, 0.25, 1.0]),
        (None, [Some("1"), Some("1")], Some("0-1"), [0.25, 0.25, 1.0]),
        // The set's own replaces the variant's.
        (Some("0"), [None, Some("1")], Some("0-1"), [0.5, 0.5, 2.0]),
        (None, [Some("0"), None], Some("0-2"), [0.5, 1.0, 3.0]),
        // A pool has no CPUs that it lacks. Without any, an affinity replaces the process's.
        (Some("1-9"), [None, None], Some("0-1"), [0.25, 0.25, 1.0]),
        (Some("1-3"), [None, None], None, [0.75, 0.75, 3.0]),
        (None, [Some("0"), Some("0-2")], None, [0.5, 1.0, 3.0]),
        (Some("0-1"), [Some("1"), Some("0")], Some("0-1"), [0.5, 0.5, 2.0]),
    ];
    for (variant, own, placed, expected) in cases {
        let found = held(*variant, *own, *placed).map(|reading| reading.known());
        assert!(close(&found, &expected.map(Some)), "{variant:?} {own:?} {placed:?}: {found:?}");
    }
    for reading in held(None, [Some("4"), None], Some("0-1")) {
        let Reading::Unknown(why) = reading else { panic!("{reading:?}") };
        assert!(why.contains("0-1") && why.contains("affinity 4"), "{why}");
    }
}

/// Two sets of two hogs with these affinities, or without any; what each is entitled to and the
/// CPUs of both.
fn held(variant: Option<&str>, own: [Option<&str>; 2], placed: Option<&str>) -> [Reading<f64>; 3] {
    let affinity = |cpus: &str| Value::Cpus(cpus.parse().unwrap());
    let of = |name: &str, workload: &str, count, own: Option<&str>| WorkerSet {
        knobs: own.map(|cpus| ("affinity".to_string(), affinity(cpus))).into_iter().collect(),
        ..set(name, workload, count)
    };
    let [a, b] = own;
    let works: [(&str, &[WorkerSet]); 3] = [
        ("a solo", &[of("a", "spin", 1, a)]),
        ("b solo", &[of("b", "burnwait", 1, b)]),
        ("both", &[of("a", "spin", 2, a), of("b", "burnwait", 2, b)]),
    ];
    let mut plan = Invented::new(&["v"], &works);
    plan.place(placed);
    if let Some(cpus) = variant {
        plan.knob("v", "affinity", affinity(cpus));
    }
    plan.done(0, 0, &[&[(1.0, 1)]]);
    plan.done(1, 0, &[&[(1.0, 1)]]);
    plan.done(2, 0, &[&[(0.5, 1); 2], &[(0.5, 1); 2]]);
    let found = plan.only();
    [
        figure(&found.sets[0], "entitled").median(),
        figure(&found.sets[1], "entitled").median(),
        found.cpus.median(),
    ]
}

#[test]
fn figures_of_a_worker_that_was_measured_for_no_time_are_unknown() {
    let mut plan = Invented::same(0.5, &[0.5; 2]);
    for run in 0..plan.plan.runs.len() {
        plan.plan.runs[run].workers[0].wall_ns = 0;
    }
    let found = plan.only();
    for (name, .., figure) in &found.sets[0].figures {
        let known = ["throughput_vs_solo", "weight"].contains(name);
        assert_eq!(figure.median().known().is_some(), known, "{name}");
    }
}

/// Two sets in cgroups of weights 1 and 10000, or with nice values 0 and 19, under each scheduler.
fn weighed(own: &[(&str, Value)], in_cgroups: bool) -> FairnessTable {
    let mut sets = [set("light", "spin", 2), set("heavy", "spin", 2)];
    sets[0].knobs = own.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    let cgroup = |path: &str, weight| Cgroup {
        path: path.parse().unwrap(),
        knobs: [("cgroup-weight".to_string(), Value::Int(weight))].into(),
        cpus: None,
        changes: Vec::new(),
    };
    let cgroups = [cgroup("light", 1), cgroup("heavy", 10_000)];
    if in_cgroups {
        for (set, cgroup) in sets.iter_mut().zip(&cgroups) {
            set.cgroup = Some(cgroup.path.clone());
        }
    }
    let solos = ["light solo", "heavy solo"];
    let alone = sets.each_ref().map(|set| WorkerSet { count: 1, ..set.clone() });
    let works: Vec<(&str, &[WorkerSet])> =
        vec![(solos[0], &alone[..1]), (solos[1], &alone[1..]), ("shares", &sets)];
    let schedulers = ["kernel", "fifo", "vtime", "./lavd"];
    let mut invented = Invented::new(&schedulers, &works);
    for scheduler in &schedulers[1..] {
        invented.knob(scheduler, "scx", Value::Text(scheduler.to_string()));
    }
    for cell in 0..invented.plan.cells.len() {
        invented.plan.cells[cell].work.cgroups = if in_cgroups { cgroups.to_vec() } else { vec![] };
        let sets = invented.plan.cells[cell].work.sets.len();
        invented.done(cell as u32, 0, &vec![&[(1.0, 100), (1.0, 100)][..]; sets]);
    }
    let [table] = invented.tables().try_into().expect("one table");
    table
}

#[test]
fn nothing_is_judged_by_weights_that_a_scheduler_does_not_heed() {
    let unheeded = |table: &FairnessTable| -> Vec<(String, Weights, bool)> {
        table.unheeded.iter().map(|of| (of.variant.clone(), of.weights, of.is_known)).collect()
    };
    let is_judged = |table: &FairnessTable| -> Vec<bool> {
        let entitled = |set: &SetFairness| figure(set, "entitled").median().known().is_some();
        let judged = table.variants.iter().map(|variant| {
            let jain = variant.jain.median().known().is_some();
            assert!(variant.sets.iter().all(|set| entitled(set) == jain), "{variant:?}");
            assert!(variant.sets.iter().all(|set| !figure(set, "got").values().is_empty()));
            jain
        });
        judged.collect()
    };
    let of = |name: &str, weights, is_known| (name.to_string(), weights, is_known);
    use Weights::{Cgroups, Nice};

    let in_cgroups = weighed(&[], true);
    let expected = [of("fifo", Cgroups, true), of("vtime", Cgroups, true)];
    assert_eq!(unheeded(&in_cgroups), [&expected[..], &[of("./lavd", Cgroups, false)]].concat());
    assert_eq!(is_judged(&in_cgroups), [true, false, false, false]);

    // The second serves by the weights of tasks.
    let by_nice = weighed(&[("nice", Value::Int(19))], false);
    assert_eq!(unheeded(&by_nice), [of("fifo", Nice, true), of("./lavd", Nice, false)]);
    assert_eq!(is_judged(&by_nice), [true, false, true, false]);

    let alike = weighed(&[], false);
    assert_eq!((unheeded(&alike), is_judged(&alike)), (Vec::new(), vec![true; 4]));
    // Real time is served before any weight, whatever serves the others.
    let real_time = weighed(&[("policy", Value::Text("fifo".to_string()))], false);
    assert_eq!(unheeded(&real_time), []);
}

#[test]
fn a_set_may_use_what_the_cgroups_above_it_leave() {
    let sets = ["light", "heavy", "free"].map(|name| set(name, "spin", 1));
    let mut cell = Invented::new(&["default"], &[("w", &sets)]).plan.cells.remove(0);
    let cgroup = |path: &str, cpus: &str| Cgroup {
        path: path.parse().unwrap(),
        knobs: BTreeMap::new(),
        cpus: Some(cpus.parse().unwrap()),
        changes: Vec::new(),
    };
    cell.work.cgroups = vec![cgroup("a", "1-3"), cgroup("a/inner", "2-3"), cgroup("b", "0")];
    let pool = "0-2".parse().unwrap();
    let cases = [(0, Some("a/inner"), "2"), (1, Some("a"), "1-2"), (2, None, "0-2")];
    for (at, path, expected) in cases {
        let cgroup = path.map(|path| path.parse().unwrap());
        let set = WorkerSet { cgroup, ..sets[at].clone() };
        let expected: CpuSet = expected.parse().unwrap();
        assert_eq!(allowed_cpus(&pool, &cell, &set), Reading::Known(expected), "{}", set.name);
    }
}

#[test]
fn cgroups_compete_by_their_weight_below_the_one_above() {
    let cgroup = |path: &str, knobs: &[(&str, Value)]| Cgroup {
        path: path.parse().unwrap(),
        knobs: knobs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
        cpus: None,
        changes: Vec::new(),
    };
    let weight = ("cgroup-weight", Value::Int(200));
    let idle = |is_idle| ("cgroup-idle", Value::Bool(is_idle));
    let cgroups = vec![
        cgroup("batch", &[weight.clone(), idle(true)]),
        cgroup("web", &[weight, idle(false)]),
        cgroup("web/db", &[("cgroup-max", Value::Percent(50.0))]),
        cgroup("batch/cron", &[]),
    ];
    let of = |parent, weight, max| CompetingCgroup { parent, weight, max };
    let expected = [
        of(None, 3.0, f64::INFINITY),
        of(None, 2048.0, f64::INFINITY),
        of(Some(1), 1024.0, 0.5),
        of(Some(0), 1024.0, f64::INFINITY),
    ];
    assert_eq!(competing_cgroups(&Work { cgroups, ..Work::default() }), expected);
}

#[test]
fn sets_without_their_solo_runs_are_noted() {
    let mut invented = Invented::same(0.5, &[0.5; 2]);
    let works = invented.plan.cells.iter().map(|cell| cell.work.clone());
    invented.plan.plan.works = works.collect();
    let variants = ["default"];
    let notes = |invented: &Invented| {
        testing::analysed(std::slice::from_ref(&invented.plan), &variants).notes
    };
    let is_it = |note: &Note| matches!(note, Note::NoSolo { .. });
    assert!(!notes(&invented).iter().any(is_it));
    let params = &mut invented.plan.cells[0].work.sets[0].params;
    params.insert("operations".to_string(), Value::Int(6));
    let (work, sets) = ("w".to_string(), vec!["w".to_string()]);
    assert!(notes(&invented).contains(&Note::NoSolo { work, sets }));
}

#[test]
fn a_set_whose_throughput_is_lost_has_no_part_of_its_solo_run() {
    let mut invented = Invented::same(0.5, &[0.5; 2]);
    invented.plan.runs[1].values.clear();
    let part = medians(&invented.only().sets[0])[4];
    assert_eq!(part, None);
}
