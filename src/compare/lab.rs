//! What a reader has to know of runs in the lab: what may differ between exact ones, and which
//! builds of a kernel they ran on. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{GuestKernel, Reading, SampledPlan};

use super::Side;
use super::gather::{Boots, Gathered, asked_kernel, guests, sessions};
use super::remarks::{Basis, listed};

/// Of sides that were not measured in the same rounds, all of exact runs: what is in the ratio.
/// No load, heat or boot of a host is.
pub fn apart(basis: &Basis) -> String {
    let seeds: Vec<BTreeSet<(u64, u32)>> =
        (0..basis.sides.len()).map(|at| seeds(basis, at)).collect();
    let seeds = match seeds.windows(2).all(|pair| pair[0] == pair[1]) {
        true => "the same seeds",
        false => "other seeds, which the intervals cover",
    };
    let emulators: Vec<String> = emulators(basis).into_iter().collect();
    let emulators = match emulators.as_slice() {
        [] | [_] => String::new(),
        several => format!(" So is QEMU, which differs: {}.", listed(several)),
    };
    format!(
        "The sides are exact runs in the lab, of other plans with {seeds}: no load, heat or reboot \
         of a host is in the ratio, only what differs in kernel, variant and schedlab itself.\
         {emulators}"
    )
}

/// The seeds of the runs of a side: those of its plans' first rounds, and the number of rounds.
fn seeds(basis: &Basis, side: usize) -> BTreeSet<(u64, u32)> {
    let plans = sessions(basis.shown, side).into_keys().map(|(plan, _)| &basis.plans[plan]);
    plans.map(|plan| (plan.plan.measure.seed, plan.plan.measure.rounds)).collect()
}

/// Sides of which several plans have the same exact runs.
pub fn repeated(basis: &Basis) -> Vec<String> {
    let of_side = |side: usize| -> usize {
        let values = basis.shown.iter().filter_map(|work| work.sides[side].as_ref());
        values.map(|values| values.repeated).sum()
    };
    let told = basis.sides.iter().enumerate().filter_map(|(at, (side, _))| match of_side(at) {
        0 => None,
        runs => Some(format!(
            "{}: {runs} runs are exact runs of its other plans once more, and no further evidence: \
             each counts once. Other trajectories: give each plan a --seed of its own.",
            side.label
        )),
    });
    told.collect()
}

fn emulators(basis: &Basis) -> BTreeSet<String> {
    let all = (0..basis.sides.len()).flat_map(|side| sessions(basis.shown, side).into_keys());
    let told = all.filter_map(|(plan, session)| {
        match &basis.plans[plan].environments[session as usize].cpu_model {
            Reading::Known(told) => Some(told.clone()),
            Reading::Unknown(_) => None,
        }
    });
    told.collect()
}

/// Rounds of one variant on kernels that are not one and the same.
pub fn rebuilt(plans: &[SampledPlan], works: &[Gathered], sides: usize) -> Vec<String> {
    let mut kernels: BTreeMap<(usize, &str), Vec<&GuestKernel>> = BTreeMap::new();
    for (plan, variant, guest) in (0..sides).flat_map(|side| guests(works, side).into_keys()) {
        let kernel = &plans[plan].guests[guest as usize].kernel;
        kernels.entry((plan, variant)).or_default().push(kernel);
    }
    let once = kernels.into_iter().map(|(of, kernels)| (of, GuestKernel::each_once(kernels)));
    let several = once.filter(|(_, kernels)| kernels.len() > 1);
    let told = several.map(|((plan, variant), kernels)| {
        let kernels: Vec<String> = kernels.iter().map(|kernel| kernel.to_string()).collect();
        let (id, kernels) = (&plans[plan].id, kernels.join(", then "));
        format!("{id}: kernel rebuilt between rounds of {variant}: {kernels}.")
    });
    told.collect()
}

/// Whether some work of a side has runs on several kernels. Sides that are whole plans have one for
/// each variant, and each variant is compared with itself.
pub fn pools(basis: &Basis, side: usize) -> bool {
    let values = basis.shown.iter().filter_map(|work| work.sides[side].as_ref());
    let mut kernels = values.map(|values| {
        let keys = values.guests.keys();
        let kernel = |(plan, variant, guest): &(usize, &str, u32)| {
            let plan = &basis.plans[*plan];
            (asked_kernel(plan, variant), &plan.guests[*guest as usize].kernel)
        };
        keys.map(kernel).collect::<BTreeSet<_>>().len()
    });
    kernels.any(|kernels| kernels > 1)
}

/// Where sides ran on several builds of one release.
pub fn builds(sides: &[(Side, Boots)]) -> Vec<String> {
    let mut builds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, kernel) in sides.iter().flat_map(|(side, _)| &side.guests) {
        if let (Some(release), Some(digest)) = (&kernel.release, &kernel.digest) {
            let known = builds.entry(release).or_default();
            if !known.contains(&digest.as_str()) {
                known.push(digest);
            }
        }
    }
    let several = builds.into_iter().filter(|(_, digests)| digests.len() > 1);
    let told = several.map(|(release, digests)| {
        let number = match digests.len() {
            2 => "two".to_string(),
            more => more.to_string(),
        };
        let digests = digests.join(", ");
        format!("The runs are of {number} builds of the kernel {release} (digests {digests}).")
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{plan, rounds};
    use crate::compare::{Comparison, Question, Selection, compare, select};
    use crate::model::{EnvironmentHead, Guest, GuestTime, PlanHead, Value};

    /// A plan of ten rounds on debian:6.1 and debian:6.12.
    fn lab(id: &str, started_unix_ns: u64) -> SampledPlan {
        let mut plan = plan(id, started_unix_ns, &["old", "new"]);
        plan.backend = SampledPlan::LAB.to_string();
        for (variant, kernel) in plan.plan.variants.iter_mut().zip(["debian:6.1", "debian:6.12"]) {
            variant.knobs.insert("kernel".to_string(), Value::Text(kernel.to_string()));
        }
        let variants = plan.plan.variants.clone();
        plan.cells.iter_mut().zip(variants).for_each(|(cell, variant)| cell.variant = variant);
        plan.environments[0].kernel_release = "debian:6.1, debian:6.12".to_string();
        plan.environments[0].hostname = "lab".to_string();
        let mut plan = rounds(plan, 0..10, &[1.0, 1.1]);
        plan.guests = vec![guest("6.1.0-56", "a1"), guest("6.12.0", "b1")];
        plan.runs.iter_mut().for_each(|run| run.guest = Some(run.key.cell));
        plan
    }

    fn guest(release: &str, digest: &str) -> Guest {
        let told = |text: &str| (!text.is_empty()).then(|| text.to_string());
        let (release, version, digest) = (told(release), None, told(digest));
        let kernel = GuestKernel { release, version, digest };
        Guest { kernel, time: GuestTime::Exact, ..Guest::default() }
    }

    /// From this round on, runs of `new` are of another guest.
    fn from(mut plan: SampledPlan, round: u32, guest: Guest) -> SampledPlan {
        plan.guests.push(guest);
        let last = plan.guests.len() as u32 - 1;
        let runs = plan.runs.iter_mut();
        runs.filter(|run| run.key.cell == 1 && run.key.round >= round)
            .for_each(|run| run.guest = Some(last));
        plan
    }

    fn variants(plan: SampledPlan) -> Comparison {
        let sides = ["old", "new"].map(|name| Selection::of_variant(&plan.id, name));
        compare(&[plan], &[], &Question::new(sides.to_vec(), String::new()))
    }

    fn plans(plans: [SampledPlan; 2]) -> Comparison {
        let sides = plans.iter().map(|plan| Selection::of_plan(&plan.id)).collect();
        compare(&plans, &[], &Question::new(sides, String::new()))
    }

    fn noted(comparison: &Comparison, what: &str) -> bool {
        comparison.remarks.iter().any(|remark| remark.contains(what))
    }

    #[test]
    fn a_side_has_the_kernel_that_was_booted_for_it_and_its_clock_and_no_boots() {
        let found = variants(lab("p", 1));
        let side = &found.sides[1];
        assert_eq!(side.kernels, ["debian:6.12 (6.12.0, digest b1)"]);
        assert_eq!((side.boots, side.runs, side.times.exact), (None, 10, 10));
        assert!(found.is_exact());
        assert_eq!(found.remarks, [""; 0]);
        let not = GuestTime::NotExact("out of step".to_string());
        let loose = Guest { time: not, ..guest("6.12.0", "b1") };
        let found = variants(from(lab("p", 1), 9, loose));
        let times = &found.sides[1].times;
        assert_eq!((times.exact, times.not_exact), (9, 1));
        assert!(found.sides[0].is_exact() && !found.is_exact());
        assert_eq!(found.sides[1].kernels.len(), 1, "time makes no other kernel");
    }

    #[test]
    fn exact_plans_owe_nothing_to_the_state_of_a_host() {
        let found = plans([lab("p1", 1), lab("p2", 2)]);
        assert!(found.refused.is_empty(), "{:?}", found.refused);
        assert!(noted(
            &found,
            "exact runs in the lab, of other plans with the same seeds: no load"
        ));
        assert!(!noted(&found, "its load, heat, settings") && !noted(&found, "reboot into each"));
        assert!(!noted(&found, "pool the kernels"), "each variant is compared with itself");
        assert!(!noted(&found, "QEMU"), "{:?}", found.remarks);
        assert_eq!(found.remarks.len(), 1, "{:?}", found.remarks);
        let mut other = lab("p2", 2);
        other.plan.measure.seed = 2;
        other.environments[0].cpu_model = Reading::Known("QEMU 11".to_string());
        let mut first = lab("p1", 1);
        first.environments[0].cpu_model = Reading::Known("QEMU 10".to_string());
        let found = plans([first, other]);
        assert!(noted(&found, "with other seeds, which the intervals cover"));
        assert!(noted(&found, "So is QEMU, which differs: QEMU 10 and QEMU 11."));
        let real = Guest { time: GuestTime::Real, ..guest("6.12.0", "b1") };
        let found = plans([lab("p1", 1), from(lab("p2", 2), 0, real)]);
        assert!(noted(&found, "its load, heat, settings"), "{:?}", found.remarks);
    }

    #[test]
    fn exact_plans_of_one_seed_on_one_side_are_told_to_be_the_same_again() {
        let pooled = |seed| {
            let mut again = lab("p2", 2);
            again.plan.measure.seed = seed;
            let plans = [lab("p1", 1), again];
            let mut sides = ["old", "new"].map(|name| Selection::of_variant("p1", name));
            sides.iter_mut().for_each(|side| side.plans.push("p2".to_string()));
            compare(&plans, &[], &Question::new(sides.to_vec(), String::new()))
        };
        assert!(noted(&pooled(1), "old: 10 runs are exact runs of its other plans once more"));
        assert_eq!(pooled(1).sides.iter().map(|side| side.runs).collect::<Vec<_>>(), [10, 10]);
        assert!(!noted(&pooled(2), "once more"), "{:?}", pooled(2).remarks);
        assert_eq!(pooled(2).sides[0].runs, 20);
        assert!(!noted(&variants(lab("p", 1)), "once more"));
    }

    #[test]
    fn a_kernel_of_the_lab_is_known_by_its_name_and_by_what_was_booted() {
        let head = PlanHead {
            id: "p".to_string(),
            title: String::new(),
            backend: SampledPlan::LAB.to_string(),
            started_unix_ns: 1,
            ended: None,
            environments: vec![EnvironmentHead {
                hostname: "lab".to_string(),
                kernel_release: "debian:6.1, debian:6.12".to_string(),
                boot_id: Reading::Known("lab".to_string()),
            }],
            variants: vec!["old".to_string(), "new".to_string()],
            aa: false,
        };
        let selected = |sides: [&str; 2]| {
            select(
                &sides.map(|side| format!("kernel={side},variant=*")),
                std::slice::from_ref(&head),
            )
        };
        let of_variants: Vec<usize> = vec![10, 10];
        for sides in [["debian:6.1", "debian:6.12"], ["6.1", "6.12"], ["6.1.*", "6.12.*"]] {
            let plans = [lab("p", 1)];
            let found =
                compare(&plans, &[], &Question::new(selected(sides).unwrap(), String::new()));
            let runs: Vec<usize> = found.sides.iter().map(|side| side.runs).collect();
            assert_eq!(runs, of_variants, "{sides:?}");
            assert!(found.sides[0].kernels[0].starts_with("debian:6.1 (6.1.0-56"), "{sides:?}");
        }
        assert!(selected(["debian:6.18", "debian:6.12"]).is_err());
        let sides = ["kernel=6.1.*", "kernel=6.12.*"].map(str::to_string);
        let sides = select(&sides, std::slice::from_ref(&head)).unwrap();
        let apart = compare(&[lab("p", 1)], &[], &Question::new(sides, String::new()));
        assert!(apart.works.is_empty(), "each variant is a work of its own");
        assert!(!noted(&apart, "reboot") && !noted(&apart, "heat"), "{:?}", apart.remarks);
    }

    #[test]
    fn two_builds_of_one_release_are_told() {
        let found = plans([lab("p1", 1), from(lab("p2", 2), 0, guest("6.12.0", "b2"))]);
        let told = "The runs are of two builds of the kernel 6.12.0 (digests b1, b2).";
        assert!(found.remarks.contains(&told.to_string()), "{:?}", found.remarks);
        assert!(!noted(&found, "rebuilt") && !noted(&found, "6.1.0-56"));
        let untold = plans([lab("p1", 1), from(lab("p2", 2), 0, guest("6.12.0", ""))]);
        assert!(!noted(&untold, "builds"), "an unknown digest is no other: {:?}", untold.remarks);
    }

    #[test]
    fn a_kernel_that_was_rebuilt_between_rounds_is_told() {
        let found = variants(from(lab("p", 1), 5, guest("6.12.0", "b2")));
        let told = "p: kernel rebuilt between rounds of new: 6.12.0 (digest b1), then 6.12.0 \
                    (digest b2).";
        assert!(found.remarks.contains(&told.to_string()), "{:?}", found.remarks);
        assert!(noted(&found, "new pools the kernels"), "{:?}", found.remarks);
        let found = variants(from(lab("p", 1), 5, guest("6.12.0", "")));
        assert!(!noted(&found, "rebuilt"), "{:?}", found.remarks);
    }
}
