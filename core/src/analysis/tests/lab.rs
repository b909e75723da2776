//! Runs in the lab: their kernels, their clock, and what may differ between exact ones.

use super::*;
use crate::analysis::testing::{guest, heads, lab};
use crate::model::{EnvironmentHead, Guest, GuestTime, Plan, PlanHead, Reading};

/// From this round on, runs of `new` are of another guest.
fn from(mut plan: SampledPlan, round: u32, guest: Guest) -> SampledPlan {
    plan.guests.push(guest);
    let last = plan.guests.len() as u32 - 1;
    let runs = plan.runs.iter_mut();
    runs.filter(|run| run.key.cell == 1 && run.key.round >= round)
        .for_each(|run| run.guest = Some(last));
    plan
}

fn variants(plan: SampledPlan) -> Analysis {
    let question = of_variants(&plan);
    analyse(&[plan], &[], &question)
}

fn plans(plans: [SampledPlan; 2]) -> Analysis {
    let sides = plans.iter().map(|plan| Selection::of_plan(&plan.id)).collect();
    analyse(&plans, &[], &Question::new(sides, String::new()))
}

fn has(analysis: &Analysis, is: fn(&Note) -> bool) -> bool {
    analysis.notes.iter().any(is)
}

fn exact(same_seeds: bool, emulators: &[&str]) -> Note {
    let emulators = emulators.iter().map(|name| name.to_string()).collect();
    Note::UnpairedExact { same_seeds, emulators }
}

/// A failure of the exact lab repeats to the bit, as its values do.
#[test]
fn a_failure_that_ran_again_counts_once() {
    let failing = |id: &str| {
        let mut plan = lab(id, 1);
        plan.runs.retain(|run| run.key.cell == 0 || run.key.round > 1);
        (0..2).for_each(|round| lose(&mut plan, round, 1, false, "it stalled"));
        plan
    };
    let lacking = |plans: &[SampledPlan]| {
        let found = analysed(plans, &["variant=old,all", "variant=new,all"]);
        let (.., row) = found.rows().next().unwrap();
        (row.cells[1].lacking, row.cells[1].runs)
    };
    assert_eq!(lacking(&[failing("p1"), failing("p2")]), (2, 10));
}

#[test]
fn a_side_has_the_kernel_that_was_booted_for_it_and_its_clock_and_no_boots() {
    let found = variants(lab("p", 1));
    let side = &found.sides[1];
    assert_eq!(side.kernels, ["debian:6.12 (6.12.0, digest b1)"]);
    assert_eq!((side.boots, side.runs, side.times.exact), (None, 10, 10));
    assert_eq!(found.plans[0].took_ns, None, "a guest's clock says nothing of the host's time");
    assert!(found.is_exact());
    assert_eq!(found.notes, []);
    let not = GuestTime::NotExact("out of step".to_string());
    let found = variants(from(lab("p", 1), 9, Guest { time: not, ..guest("6.12.0", "b1") }));
    let times = &found.sides[1].times;
    assert_eq!((times.exact, times.not_exact), (9, 1));
    assert!(found.sides[0].is_exact() && !found.is_exact());
    assert_eq!(found.sides[1].kernels.len(), 1, "time makes no other kernel");
    let (side, why) = ("new".to_string(), "out of step".to_string());
    assert_eq!(found.notes, [Note::NotExact { side, runs: 1, of: 10, why }]);
}

#[test]
fn exact_plans_owe_nothing_to_the_state_of_a_host() {
    let found = plans([lab("p1", 1), lab("p2", 2)]);
    // Nor boots, nor pooled kernels: each variant is compared with itself.
    assert_eq!(found.notes, [exact(true, &[])]);
    let mut other = lab("p2", 2);
    other.plan.measure.seed = 2;
    other.environments[0].cpu_model = Reading::Known("QEMU 11".to_string());
    let mut first = lab("p1", 1);
    first.environments[0].cpu_model = Reading::Known("QEMU 10".to_string());
    assert_eq!(plans([first, other]).notes, [exact(false, &["QEMU 10", "QEMU 11"])]);
    let real = Guest { time: GuestTime::Real, ..guest("6.12.0", "b1") };
    let found = plans([lab("p1", 1), from(lab("p2", 2), 0, real)]);
    assert!(found.notes.contains(&Note::Unpaired), "{:?}", found.notes);
    assert!(!has(&found, |note| matches!(note, Note::UnpairedExact { .. })));
}

#[test]
fn an_exact_run_that_another_plan_of_the_side_has_already_counts_once() {
    let pooled = |seed| {
        let mut again = lab("p2", 2);
        again.plan.measure.seed = seed;
        let plans = [lab("p1", 1), again];
        let mut sides = ["old", "new"].map(|name| Selection::of_variant("p1", name));
        sides.iter_mut().for_each(|side| side.plans.push("p2".to_string()));
        analyse(&plans, &[], &Question::new(sides.to_vec(), String::new()))
    };
    let found = pooled(1);
    let repeated = |side: &str| Note::Repeated { side: side.to_string(), runs: 10 };
    assert_eq!(found.notes, [repeated("old"), repeated("new")]);
    assert_eq!(found.sides.iter().map(|side| side.runs).collect::<Vec<_>>(), [10, 10]);
    assert_eq!(row(&found, "throughput").cells[0].values.len(), 10);
    let found = pooled(2);
    assert_eq!((found.notes.len(), found.sides[0].runs), (0, 20), "{:?}", found.notes);
}

#[test]
fn a_kernel_of_the_lab_is_known_by_its_name_and_by_what_was_booted() {
    let head = PlanHead {
        environments: vec![EnvironmentHead {
            hostname: "lab".to_string(),
            kernel_release: "debian:6.1, debian:6.12".to_string(),
            boot_id: Reading::Known("lab".to_string()),
        }],
        booted: ["6.1.0-56-amd64", "6.12.111-1"].map(str::to_string).to_vec(),
        ..heads(&[lab("p", 1)]).remove(0)
    };
    let selected = |sides: [&str; 2], more: &str| {
        let sides = sides.map(|side| format!("kernel={side}{more}"));
        select(&sides, std::slice::from_ref(&head), 0)
    };
    for sides in [["debian:6.1", "debian:6.12"], ["6.1", "6.12"], ["6.1.*", "6.12.*"]] {
        let question = Question::new(selected(sides, ",variant=*").unwrap(), String::new());
        let found = analyse(&[lab("p", 1)], &[], &question);
        let runs: Vec<usize> = found.sides.iter().map(|side| side.runs).collect();
        assert_eq!(runs, [10, 10], "{sides:?}");
        assert!(found.sides[0].kernels[0].starts_with("debian:6.1 (6.1.0-56"), "{sides:?}");
    }
    for other in ["debian:6.18", "6.18.44", "6.18*", "9.9.9", "*9"] {
        assert!(selected([other, "debian:6.12"], ",variant=*").is_err(), "{other}");
    }
    // A word alone means the same.
    let sides = ["debian:6.1", "6.12.1*"].map(str::to_string);
    let sides = select(&sides, std::slice::from_ref(&head), 0).unwrap();
    assert!(sides.iter().all(|side| side.plans == ["p"]));
    let question = Question::new(selected(["6.1.*", "6.12.*"], "").unwrap(), String::new());
    let found = analyse(&[lab("p", 1)], &[], &question);
    assert!(found.works.is_empty(), "each variant is a work of its own");
    assert!(!has(&found, |note| matches!(note, Note::FewBoots { .. } | Note::Unpaired)));
}

#[test]
fn two_builds_of_one_release_are_noted() {
    let found = plans([lab("p1", 1), from(lab("p2", 2), 0, guest("6.12.0", "b2"))]);
    let digests = vec!["b1".to_string(), "b2".to_string()];
    let builds = Note::Builds { release: "6.12.0".to_string(), digests };
    assert!(found.notes.contains(&builds), "{:?}", found.notes);
    assert!(!has(&found, |note| matches!(note, Note::Rebuilt { .. })));
    let unknown = plans([lab("p1", 1), from(lab("p2", 2), 0, guest("6.12.0", ""))]);
    let is_builds = |note: &Note| matches!(note, Note::Builds { .. });
    assert!(!has(&unknown, is_builds), "an unknown digest is no other: {:?}", unknown.notes);
}

#[test]
fn a_kernel_that_was_rebuilt_between_rounds_is_noted() {
    let found = variants(from(lab("p", 1), 5, guest("6.12.0", "b2")));
    let kernels = ["6.12.0 (digest b1)", "6.12.0 (digest b2)"].map(str::to_string).to_vec();
    let rebuilt = Note::Rebuilt { plan: "p".to_string(), variant: "new".to_string(), kernels };
    assert!(found.notes.contains(&rebuilt), "{:?}", found.notes);
    let pooled = |note: &Note| matches!(note, Note::Pooled { what: Pooled::Kernels, sides, .. } if *sides == ["new"]);
    assert!(found.notes.iter().any(pooled), "{:?}", found.notes);
    let found = variants(from(lab("p", 1), 5, guest("6.12.0", "")));
    assert!(!has(&found, |note| matches!(note, Note::Rebuilt { .. })), "{:?}", found.notes);
}

#[test]
fn a_host_next_to_the_lab_is_noted() {
    let mut host = rounds(plan("p1", 1, &["old", "new"]), 0..10, &[1.0, 1.1]);
    host.plan.variants = lab("p2", 2).plan.variants;
    host.cells = lab("p2", 2).cells;
    let sides = vec![Selection::of_plan("p1"), Selection::of_plan("p2")];
    let question = Question { mixed: true, ..Question::new(sides, String::new()) };
    let found = analyse(&[host, lab("p2", 2)], &[], &question);
    assert_eq!(found.works.len(), 2);
    assert!(found.notes.contains(&Note::HostAndLab), "{:?}", found.notes);
}

/// Half a second for each run and seven for each virtual second, or the budget where that is longer.
#[test]
fn a_plan_of_a_host_has_the_time_that_the_lab_takes_for_it() {
    let mut plan = tens(1.0);
    plan.plan.lab.seeds = 8;
    let time_s = |plan: &SampledPlan| {
        let found = analysed(std::slice::from_ref(plan), &["default", "batch"]);
        let whole_s = |ns| (ns % 1_000_000_000 == 0).then_some(ns / 1_000_000_000);
        found.plans[0].in_lab_ns.map(|ns| whole_s(ns).unwrap_or_else(|| panic!("{ns}")))
    };
    // Two cells, runs of 5 s and a second of warm-up, and the machine is measured.
    assert_eq!(time_s(&plan), Some(16 * 42 + 8 + 30));
    for (lab_s, run_s) in [(1, 2 * 7), (9, 42)] {
        plan.plan.works[0].lab_duration_ns = Some(lab_s * 1_000_000_000);
        assert_eq!(time_s(&plan), Some(16 * run_s + 8 + 30), "the shorter length counts");
    }
    plan.plan.measure.budget_ns = Some(3_600_000_000_000);
    assert_eq!(time_s(&plan), Some(710), "rounds are fixed");
    plan.plan.measure.until_decided = true;
    assert_eq!(time_s(&plan), Some(3_630));
    let aa = SampledPlan { plan: Plan { aa: true, ..plan.plan.clone() }, ..plan.clone() };
    assert_eq!(time_s(&aa), None, "equal variants are equal to the bit in the lab");
    let mut program = plan.clone();
    let command = ("command".to_string(), Value::Text("sort".to_string()));
    program.plan.works[0].sets[0].params.extend([command]);
    assert_eq!(time_s(&program), None, "nobody knows how long a program takes there");
    plan.backend = SampledPlan::NULL.to_string();
    assert_eq!(time_s(&plan), None);
}
