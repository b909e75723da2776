//! Invented plans with a known spread.

use std::collections::BTreeMap;

use super::*;
use crate::analysis::testing;
use crate::model::*;

/// One work `web` of one set without parameters.
fn plan(variants: &[&str], aa: bool) -> SampledPlan {
    let variants: Vec<Variant> = variants
        .iter()
        .map(|name| Variant { name: name.to_string(), knobs: BTreeMap::new() })
        .collect();
    let set = WorkerSet {
        name: "web".to_string(),
        workload: "schbench".to_string(),
        count: 2,
        ..Default::default()
    };
    let work = Work { name: "web".to_string(), sets: vec![set], ..Default::default() };
    let measure = testing::measure();
    let cells = variants.iter().zip(0..).map(|(variant, index)| Cell {
        index,
        variant: variant.clone(),
        work: work.clone(),
        placement: Placement::default(),
    });
    let metric =
        |name: &str, direction, statistic| testing::metric(name, Unit::Ns, direction, statistic);
    SampledPlan {
        id: "invented".to_string(),
        backend: "local".to_string(),
        cells: cells.collect(),
        plan: Plan {
            title: "invented".to_string(),
            measure,
            variants,
            works: vec![work],
            aa,
            ..Plan::default()
        },
        environments: vec![testing::environment("6.12.0", "big", None)],
        ended: Some(PlanEnd::Complete),
        metrics: vec![
            metric("wakeup_p99", Direction::LowerIsBetter, Statistic::Quantile(990_000)),
            metric("wakeup_max", Direction::LowerIsBetter, Statistic::Max),
            metric("switches", Direction::Neutral, Statistic::Count),
        ],
        ..SampledPlan::default()
    }
}

/// Rounds whose log-ratios are, in turn, `mean + by` and `mean - by`: all metrics alike. The
/// machine drifts, and that is in no ratio.
fn rounds(mut plan: SampledPlan, count: u32, mean: f64, by: f64) -> SampledPlan {
    for round in 0..count {
        let drift = 1000.0 * f64::from(1 + round);
        let sign = if round % 2 == 0 { 1.0 } else { -1.0 };
        for cell in 0..plan.cells.len() as u32 {
            let log = f64::from(cell) * (mean + sign * by);
            let values = (0..3).map(|metric| (metric, drift * log.exp())).collect();
            let run = testing::sampled_run(&plan, RunKey { round, cell });
            plan.runs.push(SampledRun { values, ..run });
        }
    }
    plan
}

/// 3 % are to be found with a probability of 95 %.
fn asked(planned: &SampledPlan, stored: &[SampledPlan], metrics: &[&str]) -> Power {
    let metrics = metrics.iter().map(|metric| metric.to_string()).collect();
    let question = Question { metrics, ..Question::new(Vec::new(), String::new()) };
    power(planned, stored, &question, 0.03, 0.95)
}

fn near(got: f64, expected: f64) -> bool {
    (got - expected).abs() < 1e-9
}

/// The standard deviation of as many +by as -by.
fn sd(count: f64, by: f64) -> f64 {
    by * (count / (count - 1.0)).sqrt()
}

#[test]
fn the_spread_is_that_of_ratios_and_not_of_the_machine_or_the_effect() {
    for mean in [0.0, 0.5] {
        let stored = [rounds(plan(&["a", "b"], false), 10, mean, 0.02)];
        let power = asked(&plan(&["a", "b"], false), &stored, &[]);
        let rows: Vec<&MetricPower> = power.rows().collect();
        let names: Vec<&str> = rows.iter().map(|row| row.metric.as_str()).collect();
        assert_eq!(names, ["wakeup_p99"], "neither what explains nor what is neutral");
        assert!(near(rows[0].sd_ln, sd(10.0, 0.02)), "{} {mean}", rows[0].sd_ln);
        assert_eq!((rows[0].ratios, rows[0].aa), (10, false));
        assert_eq!((power.comparisons, power.variants), (1, 1));
    }
}

#[test]
fn runs_that_failed_or_that_something_spoilt_are_counted() {
    let mut stored = rounds(plan(&["a", "b"], false), 10, 0.0, 0.02);
    let flaws = |stored: &SampledPlan| {
        asked(&plan(&["a", "b"], false), std::slice::from_ref(stored), &[]).works[0].flaws
    };
    assert_eq!(flaws(&stored), Flaws { runs: 20, ..Flaws::default() });
    testing::lose(&mut stored, 10, 0, false, "it ended");
    assert_eq!(flaws(&stored), Flaws { runs: 20, failed: 1, ..Flaws::default() });
}

#[test]
fn rounds_and_smallest_difference_are_those_of_the_verdicts_power() {
    let stored = [rounds(plan(&["a", "b"], true), 10, 0.0, 0.02)];
    let planned = plan(&["a", "b", "c"], false);
    let power = asked(&planned, &stored, &[]);
    let row = power.rows().next().unwrap();
    assert_eq!(power.variants, 2);
    let alpha = Family::new(2, 1).alpha;
    // With 0.8 chi-square of 9 degrees of freedom exceeds 5.380.
    let sd_ln = sd(10.0, 0.02);
    let cautious = stats::deviation_at_most(9.0 * sd_ln * sd_ln, 9, 0.8).unwrap();
    assert!((cautious / sd_ln - (9.0f64 / 5.380).sqrt()).abs() < 1e-3, "{cautious} {sd_ln}");
    let experiment =
        Experiment { spread: paired(cautious), comparisons: 1, variants: 2, alpha, power: 0.95 };
    assert_eq!(row.for_difference, stats::rounds_needed(&experiment, 1.03f64.ln()));
    assert_eq!(row.for_same, stats::rounds_for_same(&experiment, 0.0, 1.1f64.ln()));
    let smallest = row.smallest.unwrap().ln_1p();
    let needed = |difference| stats::rounds_needed(&experiment, difference);
    assert_eq!(needed(smallest * 1.0001), Rounds::Number(10));
    assert_eq!(needed(smallest * 0.9999), Rounds::Number(11));
    // Three cells of six seconds.
    assert_eq!((power.round_ns, power.time_ns(4)), (18_000_000_000, 72_000_000_000));
    assert_eq!(power.for_all(), Some(row.for_difference.max(row.for_same)));
}

#[test]
fn works_of_which_nothing_is_stored_are_counted_as_the_largest_known() {
    let stored = [rounds(plan(&["a", "b"], true), 10, 0.0, 0.02)];
    let mut planned = plan(&["a", "b"], false);
    for (name, count) in [("new", 5), ("newer", 6)] {
        let mut work = Work { name: name.to_string(), ..planned.plan.works[0].clone() };
        work.sets[0].count = count;
        let mut cells = planned.cells[..2].to_vec();
        cells.iter_mut().for_each(|cell| cell.work = work.clone());
        planned.plan.works.push(work);
        planned.cells.extend(cells);
    }
    let known = asked(&plan(&["a", "b"], false), &stored, &["wakeup_*"]);
    let power = asked(&planned, &stored, &["wakeup_*"]);
    let missing = power.works.iter().filter(|work| work.rows.is_err()).count();
    assert_eq!((missing, known.comparisons, power.comparisons), (2, 2, 6));
    assert!(power.min_rounds > known.min_rounds);
    let row = |power: &Power| power.rows().next().unwrap().smallest.unwrap();
    assert!(row(&power) > row(&known), "{} {}", row(&power), row(&known));
}

#[test]
fn aa_goes_before_other_plans_where_there_is_enough_of_it() {
    let other = || rounds(plan(&["a", "b"], false), 10, 0.3, 0.08);
    let cases = [(4, 4, true, 0.02), (3, 10, false, 0.08)];
    for (aa_rounds, ratios, aa, by) in cases {
        let stored = [other(), rounds(plan(&["a", "a-again"], true), aa_rounds, 0.0, 0.02)];
        let power = asked(&plan(&["a", "b"], false), &stored, &[]);
        let row = power.rows().next().unwrap();
        assert_eq!((row.ratios, row.aa), (ratios, aa), "{aa_rounds}");
        assert!(near(row.sd_ln, sd(f64::from(ratios as u32), by)), "{} {aa_rounds}", row.sd_ln);
    }
}

#[test]
fn the_floor_is_that_of_the_newest_aa_plan_and_of_no_other() {
    let of = |stored: &[SampledPlan]| {
        let power = asked(&plan(&["a", "b"], false), stored, &[]);
        power.rows().next().unwrap().floor
    };
    let aa = |by| rounds(plan(&["a", "a-again"], true), 10, 0.0, by);
    let other = rounds(plan(&["a", "b"], false), 10, 0.3, 0.5);
    // There are 1,024 sets of five values 0.02 below and five as far above; 31 of them hold only low values.
    let floor = 0.02f64.exp_m1();
    let got = of(&[other.clone(), aa(0.02), aa(0.3)]);
    assert!((got - floor).abs() < 1e-6, "{got} {floor}");
    assert_eq!(of(&[other]), 0.0);
}

#[test]
fn plans_are_pooled_each_about_its_own_mean() {
    let stored = [
        rounds(plan(&["a", "b"], false), 2, 0.9, 0.02),
        rounds(plan(&["a", "b"], false), 4, -0.9, 0.02),
    ];
    let power = asked(&plan(&["a", "b"], false), &stored, &[]);
    let row = power.rows().next().unwrap();
    assert_eq!(row.ratios, 6);
    assert!(near(row.sd_ln, 0.02 * (6.0f64 / 4.0).sqrt()), "{}", row.sd_ln);
}

#[test]
fn other_work_too_few_rounds_and_nothing_are_different_reasons() {
    let mut longer = rounds(plan(&["a", "b"], true), 10, 0.0, 0.02);
    longer.plan.measure.duration_ns *= 2;
    let (own_ns, other_ns) = (5_000_000_000, 10_000_000_000);
    let duration = Difference::Time { what: "duration", own_ns, other_ns };
    let mut of_other_name = longer.clone();
    of_other_name.plan.works[0].name = "mail".to_string();
    of_other_name.cells.iter_mut().for_each(|cell| cell.work.name = "mail".to_string());
    let cases = [
        (vec![], NotKnown::NotStored),
        (vec![of_other_name], NotKnown::NotStored),
        (vec![rounds(plan(&["a"], false), 9, 0.0, 0.1)], NotKnown::NotStored),
        (vec![longer], NotKnown::OtherWork(duration)),
        (vec![rounds(plan(&["a", "b"], true), 3, 0.0, 0.1)], NotKnown::TooFewRounds { needed: 4 }),
    ];
    for (stored, expected) in cases {
        let power = asked(&plan(&["a", "b"], false), &stored, &[]);
        assert_eq!(power.works[0].rows, Err(expected));
        assert_eq!((power.comparisons, power.for_all()), (0, None));
    }
}

#[test]
fn a_work_without_the_metric_that_is_asked_for_is_left_out() {
    let stored = [rounds(plan(&["a", "b"], true), 10, 0.0, 0.02)];
    assert_eq!(asked(&plan(&["a", "b"], false), &stored, &["web/no_such"]).works.len(), 0);
    assert_eq!(asked(&plan(&["a", "b"], false), &stored, &["web/wakeup_p99"]).works.len(), 1);
    assert_eq!(asked(&plan(&["a", "b"], false), &[], &["web/no_such"]).works.len(), 1);
}

#[test]
fn a_value_without_logarithm_gives_no_spread() {
    let mut stored = rounds(plan(&["a", "b"], true), 10, 0.0, 0.02);
    stored.runs[0].values[0].1 = 0.0;
    let power = asked(&plan(&["a"], false), &[stored], &["wakeup_*"]);
    let names: Vec<&str> = power.rows().map(|row| row.metric.as_str()).collect();
    assert_eq!(names, ["wakeup_max"], "of wakeup_p99 the first value is 0");
    let left_out = BTreeSet::from([("web".to_string(), "wakeup_p99".to_string())]);
    assert_eq!((&power.works[0].by_differences, power.comparisons), (&left_out, 2));
    assert_eq!(power.round_ns, 12_000_000_000, "one variant is taken for two");
}

#[test]
fn a_metric_without_values_is_named_with_its_reason() {
    let mut stored = rounds(plan(&["a", "b"], true), 10, 0.0, 0.02);
    for run in &mut stored.runs {
        run.values.remove(0);
        run.unknown = vec![(0, "189 samples".to_string())];
    }
    let named = BTreeMap::from([(
        ("web".to_string(), "wakeup_p99".to_string()),
        "189 samples".to_string(),
    )]);
    for (metrics, rows) in [(&["wakeup_p99"][..], 0), (&["wakeup_*"], 1)] {
        let power = asked(&plan(&["a", "b"], false), std::slice::from_ref(&stored), metrics);
        assert_eq!((&power.works[0].without_values, power.rows().count()), (&named, rows));
        assert_eq!(power.comparisons, rows + 1);
    }
    let both = [rounds(plan(&["a", "b"], true), 10, 0.0, 0.02), stored];
    let power = asked(&plan(&["a", "b"], false), &both, &[]);
    assert!(power.works[0].without_values.is_empty());
}

fn in_lab(mut plan: SampledPlan, time: GuestTime) -> SampledPlan {
    plan.backend = SampledPlan::LAB.to_string();
    plan.guests = vec![Guest { time, ..testing::guest("6.12.0", "b1") }];
    plan
}

#[test]
fn an_exact_plan_that_ran_again_says_nothing_new() {
    let planned = in_lab(plan(&["a", "b"], false), GuestTime::Exact);
    for (time, ratios) in [(GuestTime::Exact, 16), (GuestTime::Real, 26)] {
        let stored =
            |count| in_lab(rounds(plan(&["a", "b"], false), count, 0.0, 0.02), time.clone());
        let power = asked(&planned, &[stored(10), stored(10), stored(6)], &[]);
        assert!(power.rows().all(|row| row.ratios == ratios), "{power:?}");
    }
}

/// Its time is virtual, so nobody knows how many seeds a budget has time for after the first.
#[test]
fn an_exact_plan_until_decided_is_planned_with_its_first_seeds() {
    let mut planned = in_lab(plan(&["a", "b"], false), GuestTime::Exact);
    (planned.plan.lab.seeds, planned.plan.measure.rounds) = (8, 1000);
    planned.plan.measure.budget_ns = Some(60_000_000_000);
    for (until_decided, rounds) in [(true, 8), (false, 1000)] {
        planned.plan.measure.until_decided = until_decided;
        let power = asked(&planned, &[], &[]);
        assert_eq!((power.rounds, power.planned_rounds, power.budget_ns), (rounds, 1000, None));
    }
}

#[test]
fn equal_variants_of_the_exact_lab_show_no_noise() {
    let [equal, real] = [0.0, 0.02].map(|by| rounds(plan(&["a", "b"], by == 0.0), 10, 0.0, by));
    let planned = in_lab(plan(&["a", "b"], false), GuestTime::Exact);
    for (time, aa) in [(GuestTime::Exact, false), (GuestTime::Real, true)] {
        let stored = [in_lab(equal.clone(), time.clone()), in_lab(real.clone(), time)];
        let power = asked(&planned, &stored, &[]);
        assert!(power.is_exact && power.rows().all(|row| row.aa == aa), "{power:?}");
        assert_eq!(power.rows().all(|row| row.sd_ln > 0.0), !aa);
    }
}

#[test]
fn more_than_the_most_rounds_is_more_than_any_number() {
    let (more, some) = (Rounds::MoreThan(1000), Rounds::Number(7));
    assert_eq!(some.max(Rounds::Number(9)), Rounds::Number(9));
    assert_eq!((more.max(some), some.max(more)), (more, more));
    assert_eq!(more.max(Rounds::Number(2000)), more);
    let stored = [rounds(plan(&["a", "b"], true), 10, 0.0, 2.0)];
    let power = asked(&plan(&["a", "b"], false), &stored, &[]);
    assert_eq!(power.for_all(), Some(more));
    assert_eq!(power.found_as_planned(), 0);
}
