//! Plans of a host and of the lab whose ratios are given.

use super::*;
use crate::analysis::testing::{self, asked, lose, metric, plan, run_of};
use crate::analysis::{Question, analyse};
use crate::model::*;
use crate::stats::Interval;

/// Factors of `throughput`, `wakeup_p50` and `wakeup_p99`.
type Factors = [f64; 3];

const BASE: [(&str, f64); 3] =
    [("throughput", 1000.0), ("wakeup_p50", 5000.0), ("wakeup_p99", 20_000.0)];
const VARIANTS: [&str; 3] = ["default", "batch", "slice"];

/// Ten rounds; each variant's values are the base times its factors, with some noise where
/// `noise` is above 0.
fn measured(id: &str, backend: &str, factors: [Factors; 3], noise: f64) -> SampledPlan {
    let mut made = plan(id, 1, &VARIANTS);
    made.backend = backend.to_string();
    let p50 = Statistic::Quantile(500_000);
    made.metrics.push(metric("wakeup_p50", Unit::Ns, Direction::LowerIsBetter, p50));
    for round in 0..10 {
        for (cell, factors) in factors.iter().enumerate() {
            let sway = 1.0 + noise * f64::from((round * 7 + cell as u32 * 3) % 5);
            let values = BASE.iter().zip(factors);
            let values: Vec<(&str, f64)> =
                values.map(|((name, base), factor)| (*name, base * factor * sway)).collect();
            run_of(&mut made, round, cell as u32, &values);
        }
    }
    if backend == SampledPlan::LAB {
        made.guests = vec![testing::guest("6.18.15", "a1")];
        made.runs.iter_mut().for_each(|run| run.guest = Some(0));
    }
    made
}

fn analysed(made: &SampledPlan) -> Analysis {
    let plans = std::slice::from_ref(made);
    let side = Selection::of_plan(&made.id);
    let question = Question::new(variants_of(&side, plans), String::new());
    analyse(plans, &[], &Question { fidelity: true, ..question })
}

fn compared(host: &SampledPlan, lab: &SampledPlan) -> Fidelity {
    fidelity(analysed(host), analysed(lab))
}

const EVEN: Factors = [1.0; 3];

#[test]
fn rows_are_matched_and_summed_up() {
    // On the host batch has less throughput and a longer p50, slice a shorter p99.
    let host = measured("h", "local", [EVEN, [0.8, 1.5, 1.0], [1.0, 1.0, 0.5]], 0.0);
    // The lab agrees on the first, contradicts the second, calls the third SAME.
    let lab = measured("l", "lab", [EVEN, [0.9, 0.75, 1.0], [1.0, 1.0, 1.0]], 0.0);
    let found = compared(&host, &lab);
    let rows: Vec<(&str, &str, Option<Prediction>)> = found
        .rows
        .iter()
        .map(|row| (row.metric.as_str(), row.variant.as_str(), row.prediction))
        .collect();
    let (agrees, contradicts, differs) =
        (Some(Prediction::Agrees), Some(Prediction::Contradicts), Some(Prediction::Differs));
    let expected = [
        ("throughput", "batch", agrees),
        ("throughput", "slice", agrees),
        ("wakeup_p50", "batch", contradicts),
        ("wakeup_p50", "slice", agrees),
        ("wakeup_p99", "batch", agrees),
        ("wakeup_p99", "slice", differs),
    ];
    assert_eq!(rows, expected);
    assert!(found.rows.iter().all(|row| row.set.is_none()), "the work has one set");
    let Summary { decided, agree, contradict, differ, open, signs, deviations, .. } =
        &found.summary;
    assert_eq!((decided, agree, contradict, differ, open), (&6, &4, &1, &1, &0));
    // The host has three differences, and the lab has the sign of one: a ratio of 1 has none.
    assert_eq!(*signs, Share { count: 1, of: 3 });
    let median = |at: usize, ratios: [f64; 2]| {
        let Deviation { rows, median_abs_ln, .. } = deviations[at];
        let expected = ratios.map(|ratio| ratio.ln().abs()).iter().sum::<f64>() / 2.0;
        assert_eq!(rows, 2);
        assert!((median_abs_ln - expected).abs() < 1e-12, "{median_abs_ln} for {expected}");
    };
    median(0, [0.9 / 0.8, 1.0]);
    median(1, [0.75 / 1.5, 1.0]);
    median(2, [1.0, 1.0 / 0.5]);
    let measured: Vec<Measured> = deviations.iter().map(|of| of.measured).collect();
    assert_eq!(measured, Measured::ALL);
    assert_eq!(found.only, []);
}

#[test]
fn absolute_values_are_of_every_cell() {
    let host = measured("h", "local", [EVEN; 3], 0.0);
    // Near up to 1.15 in throughput and 1.5 in the median of wakeups, either way.
    let lab = [[1.14, 1.49, 9.0], [1.0 / 1.16, 1.0 / 1.51, 1.0], [1.0 / 1.14, 1.51, 1.0]];
    let found = compared(&host, &measured("l", "lab", lab, 0.0));
    let near: Vec<(&str, &str, bool)> = found
        .absolutes
        .iter()
        .map(|of| (of.metric.as_str(), of.variant.as_str(), of.is_near))
        .collect();
    let expected = [
        ("throughput", "default", true),
        ("throughput", "batch", false),
        ("throughput", "slice", true),
        ("wakeup_p50", "default", true),
        ("wakeup_p50", "batch", false),
        ("wakeup_p50", "slice", false),
    ];
    assert_eq!(near, expected);
    assert_eq!(found.summary.throughput, Share { count: 2, of: 3 });
    assert_eq!(found.summary.wakeup_p50, Share { count: 1, of: 3 });
    assert_eq!((found.absolutes[0].host, found.absolutes[0].lab), (1000.0, 1140.0));
}

#[test]
fn what_a_host_does_not_decide_says_nothing() {
    let host = measured("h", "local", [EVEN, [0.97, 1.0, 1.0], EVEN], 0.2);
    let found = compared(&host, &measured("l", "lab", [EVEN, [0.5, 1.0, 1.0], EVEN], 0.0));
    let first = &found.rows[0];
    assert!(matches!(first.host.verdict, Some(Verdict::Inconclusive { .. })), "{first:?}");
    assert_eq!(first.lab.verdict, Some(Verdict::Worse));
    assert_eq!(first.prediction, None);
    assert_eq!(found.summary.signs, Share::default());
    // And the lab, where it does not decide what the host does.
    let found = compared(&measured("h", "local", [EVEN, [0.5, 1.0, 1.0], EVEN], 0.0), &{
        let mut lab = host;
        lab.backend = SampledPlan::LAB.to_string();
        lab
    });
    assert_eq!(found.rows[0].prediction, Some(Prediction::Open));
    assert_eq!(found.summary.signs, Share { count: 1, of: 1 });
}

#[test]
fn metrics_that_are_asked_for_are_judged_in_place_of_others() {
    let [host, lab] = ["local", "lab"].map(|backend| {
        let mut made = measured(backend, backend, [EVEN; 3], 0.0);
        made.metrics.iter_mut().for_each(|metric| metric.set = "web".to_string());
        let side = Selection::of_plan(&made.id);
        let sides = variants_of(&side, std::slice::from_ref(&made));
        let question = Question::new(sides, String::new());
        let metrics = vec!["*_p99".to_string()];
        analyse(&[made], &[], &Question { fidelity: true, metrics, ..question })
    });
    let found = fidelity(host, lab);
    let asked: Vec<&str> = found
        .rows
        .iter()
        .filter(|row| row.prediction.is_some())
        .map(|row| row.metric.as_str())
        .collect();
    assert_eq!(asked, ["wakeup_p99", "wakeup_p99"]);
}

#[test]
fn what_one_has_alone_is_named_once() {
    let mut host = measured("h", "local", [EVEN; 3], 0.0);
    // The host may not have the slice, and no run of the first work under batch.
    host = testing::work(host, "mix", 2);
    let cells = host.cells.len() as u32;
    let values: Vec<(&str, f64)> = BASE.to_vec();
    for cell in 3..cells {
        (0..10).for_each(|round| run_of(&mut host, round, cell, &values));
    }
    host.runs.retain(|run| run.key.cell % 3 != 2 && run.key.cell != 1);
    for cell in [2, 5] {
        lose(&mut host, 0, cell, true, "no slices here");
    }
    let lab = measured("l", "lab", [EVEN; 3], 0.0);
    let only = compared(&host, &lab).only;
    let work = "web threads=4".to_string();
    let expected = [
        Only { on: Instrument::Host, what: Lone::Work("mix threads=2".into()), reason: None },
        Only {
            on: Instrument::Lab,
            what: Lone::Cell { work, variant: "batch".into() },
            reason: None,
        },
        Only {
            on: Instrument::Lab,
            what: Lone::Variant("slice".into()),
            reason: Some("no slices here".into()),
        },
    ];
    assert_eq!(only, expected);
}

#[test]
fn sides_that_say_nothing_are_refused() {
    let [host, lab] = ["local", "lab"].map(|id| measured(id, id, [EVEN; 3], 0.0));
    let check = |host: &[SampledPlan], lab: &[SampledPlan]| {
        let sides = [host, lab].map(|plans| Selection::of_plan(&plans[0].id));
        check([&sides[0], &sides[1]], [host, lab])
    };
    let one = std::slice::from_ref;
    assert_eq!(check(one(&host), one(&lab)), Ok(()));
    let backend = |side: &str, wanted| {
        let [side, plan, backend] = [side; 3].map(str::to_string);
        Err(FidelityError::Backend { side, wanted, plan, backend })
    };
    assert_eq!(check(one(&lab), one(&host)), backend("lab", Instrument::Host));
    assert_eq!(check(one(&host), one(&host)), backend("local", Instrument::Lab));
    let invented = measured("null", "null", [EVEN; 3], 0.0);
    assert_eq!(check(one(&invented), one(&lab)), backend("null", Instrument::Host));

    let changed = |change: fn(&mut SampledPlan)| {
        let mut other = lab.clone();
        change(&mut other);
        check(one(&host), one(&other)).unwrap_err()
    };
    let longer = changed(|plan| plan.plan.measure.duration_ns *= 2);
    assert!(matches!(longer, FidelityError::NotSameWork { .. }), "{longer:?}");
    let mut own = lab.clone();
    own.plan.has_lab_durations = true;
    own.cells.iter_mut().for_each(|cell| cell.work.lab_duration_ns = Some(1));
    assert_eq!(check(one(&host), one(&own)), Ok(()), "a work may have another duration in the lab");
    let knobs = changed(|plan| {
        plan.cells[1].variant.knobs.insert("nice".to_string(), Value::Int(5));
    });
    let FidelityError::NotSameWork { work, difference, .. } = knobs else { panic!("{knobs:?}") };
    assert_eq!((work.as_str(), *difference), ("web threads=4 [batch]", Difference::VariantKnobs));
    let other = changed(|plan| {
        plan.cells.iter_mut().for_each(|cell| cell.work.name = "other".to_string());
    });
    assert_eq!(other, FidelityError::NothingInCommon);
    let reversed = changed(|plan| plan.plan.variants.reverse());
    let (host_name, lab_name) = ("default".to_string(), "slice".to_string());
    assert_eq!(reversed, FidelityError::Baselines { host: host_name, lab: lab_name });

    let variant = asked(std::slice::from_ref(&host), &["default", "batch"]).sides;
    let whole = Selection::of_plan("lab");
    let named = super::check([&variant[0], &whole], [one(&host), one(&lab)]);
    assert_eq!(named, Err(FidelityError::NamesVariants { side: "default".to_string() }));
}

#[test]
fn plans_of_a_host_have_one_calibration() {
    let lab = measured("l", "lab", [EVEN; 3], 0.0);
    let of = |id: &str, kop_ps| {
        let mut host = measured(id, "local", [EVEN; 3], 0.0);
        host.environments[0].calibration = Some(Calibration { kop_ps, spread: 0.0 });
        host
    };
    let check = |kop_ps| {
        let (hosts, side) = ([of("a", 1_000_000), of("b", kop_ps)], Selection::of_plan("a"));
        super::check([&side, &Selection::of_plan("l")], [&hosts, std::slice::from_ref(&lab)])
    };
    assert_eq!(check(1_009_000), Ok(()));
    let Err(FidelityError::Calibrations { plans, share }) = check(1_020_000) else { panic!() };
    assert_eq!(plans, ["b", "a"].map(str::to_string));
    assert!((share - 0.02).abs() < 1e-12, "{share}");
    assert!(matches!(check(980_000), Err(FidelityError::Calibrations { .. })));
}

#[test]
fn intervals_that_do_not_overlap_disagree_where_the_host_decides_nothing() {
    let even = measured("h", "local", [EVEN; 3], 0.0);
    let row = compared(&even, &measured("l", "lab", [EVEN; 3], 0.0)).rows.remove(0);
    let found = |ends: Option<(f64, f64)>| Found {
        ratio: Some(Ratio {
            ratio: 1.0,
            interval: ends.map(|(low, high)| Interval { low, high }),
            pairs: 10,
        }),
        ..row.host
    };
    let disagree = |host, lab| disagree(None, [found(host), found(lab)]);
    assert!(disagree(Some((0.8, 0.9)), Some((0.95, 1.1))));
    assert!(disagree(Some((0.95, 1.1)), Some((0.8, 0.9))));
    assert!(!disagree(Some((0.8, 1.0)), Some((0.95, 1.1))));
    assert!(!disagree(Some((0.8, 0.9)), None), "nobody knows");
}
