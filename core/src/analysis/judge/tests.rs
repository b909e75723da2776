//! Floors: what the A/A plans of a machine resolve.

use super::*;
use crate::analysis::testing::{asked, plan, rounds, tens};
use crate::analysis::tests::aa;

fn floor(floors: &[SampledPlan], plan: &SampledPlan, metric: &str) -> f64 {
    let question = asked(std::slice::from_ref(plan), &["default", "batch"]);
    let works = gather(std::slice::from_ref(plan), &question.sides, false, false);
    match Floors::from_plans(floors).of_metric(&works[0], "web", metric) {
        Some((Distance::Ratio(floor), _)) => floor,
        other => {
            assert!(other.is_none(), "a floor of differences");
            0.0
        }
    }
}

#[test]
fn floors_are_of_the_newest_aa_plan_of_the_same_work() {
    let near = |floor: f64, expected: f64| (floor - expected).abs() < 0.001;
    let own = tens(1.1);
    let [old, new] = [aa("p2", 2, 1.05), aa("p3", 3, 1.03)];
    assert_eq!(floor(&[], &own, "throughput"), 0.0);
    assert!(near(floor(std::slice::from_ref(&old), &own, "throughput"), 0.05));
    let two = [old.clone(), new.clone()];
    assert!(near(floor(&two, &own, "throughput"), 0.03), "{}", floor(&two, &own, "throughput"));
    assert!(near(floor(&two, &own, "wakeup_p99"), 0.03));
    assert_eq!(floor(&two, &own, "nonesuch"), 0.0);
    // Below 1 it is as far from it as above.
    let down = floor(&[aa("p2", 2, 1.0 / 1.05)], &own, "throughput");
    assert!(near(down, 0.05), "{down}");
    // The newer one did other work.
    let mut other = new;
    other.plan.measure.duration_ns *= 2;
    assert!(near(floor(&[old, other], &own, "throughput"), 0.05));
}

#[test]
fn an_aa_plan_of_few_rounds_has_no_floor() {
    let own = tens(1.1);
    let of_rounds = |at, count| {
        let mut made = plan(&format!("a{at}"), at, &["default", "default-again"]);
        made.plan.aa = true;
        rounds(made, 0..count, &[1.0, 1.05])
    };
    assert_eq!(floor(&[of_rounds(2, 7)], &own, "throughput"), 0.0);
    assert!(floor(&[of_rounds(2, 8)], &own, "throughput") > 0.049);
    let [older, short] = [of_rounds(2, 8), of_rounds(3, 7)];
    assert!(floor(&[older, short], &own, "throughput") > 0.049, "the one before it counts");
}
