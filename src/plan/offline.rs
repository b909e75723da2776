//! `[[workload.offline]]`: CPUs that are taken off in mid-run and put back. Pure.
//!
//! ```toml
//! [[workload.offline]]
//! at = "500ms"
//! for = "700ms"             # to the end unless given
//! cpus = "2-3"
//! ```

use std::collections::BTreeMap;

use crate::model::{CpuSet, Offline, Value, Work};
use crate::variant;
use crate::workload::{self, STEPS, Step, StepScript};

use super::error::Faults;
use super::fields::{AT, FOR, OFFLINE, OFFLINE_CPUS, OFFLINE_FOR};
use super::moments::timed;
use super::table::{Span, Table};

/// Takes those of a workload, in the order of their moments, each with its place.
pub fn take(table: &mut Table, duration_ns: u64, faults: &mut Faults) -> Vec<(Offline, Span)> {
    let path = format!("workload.{OFFLINE}");
    let mut all: Vec<(Offline, Span)> = Vec::new();
    for (at_ns, table) in timed(table, OFFLINE, &path, duration_ns, faults) {
        let Some((offline, span)) = one(at_ns, table, faults) else { continue };
        let is_off = |(other, _): &&(Offline, Span)| {
            other.is_at(at_ns) && other.cpus.minus(&offline.cpus) != other.cpus
        };
        if let Some((other, _)) = all.iter().find(is_off) {
            let message =
                format!("some of the CPUs {} are off by then: {}", offline.cpus, other.cpus);
            faults.add(&span, message, "off twice", "others, or `for` in the one before");
        }
        all.push((offline, span));
    }
    all
}

fn one(at_ns: u64, mut table: Table, faults: &mut Faults) -> Option<(Offline, Span)> {
    let place = table.span.clone();
    let for_ns =
        table.take_value(&OFFLINE_FOR, faults).and_then(|(value, _)| value.as_duration_ns());
    let had_cpus = table.has(OFFLINE_CPUS.name);
    let cpus = table.take_value(&OFFLINE_CPUS, faults);
    table.finish(&[AT, FOR, OFFLINE_CPUS.name], "CPUs that are taken off", faults);
    if !had_cpus {
        let hint = "cpus = \"1\"";
        return faults.refuse(&place, "no `cpus` to take off".to_string(), "this one", hint);
    }
    let (value, span) = cpus?;
    let cpus = value.as_cpus()?.clone();
    if cpus.contains(0) || cpus.is_empty() {
        let message = format!("CPUs {cpus} cannot be taken off: kernels keep CPU 0");
        return faults.refuse(&span, message, "not these", "cpus = \"1\", or others from 1 on");
    }
    Some((Offline { at_ns, for_ns, cpus }, span))
}

/// Notes workers that at some moment may use CPUs alone that are off: the kernel would give them all others, for good.
pub fn check_affinity<'k>(
    offline: &[(Offline, Span)],
    knobs: impl Iterator<Item = &'k BTreeMap<String, Value>>,
    pool: Option<&CpuSet>,
    faults: &mut Faults,
) {
    let wanted = knobs.filter_map(|knobs| knobs.get(variant::AFFINITY)?.as_cpus()).chain(pool);
    check(offline, &wanted.collect::<Vec<_>>(), faults);
}

/// Does the same with the CPUs of cgroups and of steps. Whether there are such workers at no moment.
pub fn check_work(offline: &[(Offline, Span)], work: &Work, faults: &mut Faults) -> bool {
    if offline.is_empty() {
        return true;
    }
    let of_cgroups = work.cgroups.iter().flat_map(|cgroup| {
        let later = cgroup.changes.iter().filter_map(|change| change.cpus.as_ref());
        cgroup.cpus.iter().chain(later)
    });
    let steps = work.sets.iter().filter(|set| set.workload == STEPS);
    let scripts: Vec<StepScript> =
        steps.filter_map(|set| workload::step_script(&set.params).ok()).collect();
    let of_steps = scripts.iter().flat_map(StepScript::steps).filter_map(|step| match step {
        Step::Cpus(cpus) => cpus.as_ref(),
        _ => None,
    });
    check(offline, &of_cgroups.chain(of_steps).collect::<Vec<_>>(), faults)
}

/// Whether all sets of CPUs have one that is on at each moment; notes the first that has none.
fn check(offline: &[(Offline, Span)], wanted: &[&CpuSet], faults: &mut Faults) -> bool {
    for (own, span) in offline {
        let off = offline.iter().filter(|(other, _)| other.is_at(own.at_ns));
        let off: CpuSet = off.flat_map(|(other, _)| other.cpus.iter()).collect();
        if let Some(cpus) = wanted.iter().find(|cpus| cpus.minus(&off).is_empty()) {
            let message =
                format!("workers may use CPUs {cpus} alone, all of which are off by then");
            let hint = "the kernel would give them all other CPUs, for good: leave them one";
            faults.add(span, message, "not these", hint);
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::model::{Offline, Plan};
    use crate::plan::{Known, parse, scaled};

    fn read(rest: &str) -> Result<Plan, String> {
        let text = format!(
            "schema = 1\n[measure]\nduration = \"3s\"\n[[workload]]\nname = \"mix\"\n{rest}\n\
             [[workload.set]]\nuse = \"spin\"\nknobs = {{ affinity = \"1-2\" }}\n\
             [scale.small.measure]\nduration = \"3s\"\n"
        );
        let plan = parse("p.toml", &text, None, Known::default());
        let plan = plan.map_err(|errors| errors.to_string())?;
        assert_eq!(
            parse("p.toml", &scaled(&text, "small").unwrap(), None, Known::default()).unwrap(),
            plan
        );
        Ok(plan)
    }

    #[test]
    fn cpus_are_taken_off_in_the_order_of_their_moments() {
        let plan = read(
            "[[workload.offline]]\nat = \"2s\"\ncpus = \"1,3\"\n\
             [[workload.offline]]\nat = \"1s\"\nfor = \"1s\"\ncpus = \"1\"",
        );
        let plan = plan.unwrap();
        let off = |at_s: u64, for_s: Option<u64>, cpus: &str| Offline {
            at_ns: at_s * 1_000_000_000,
            for_ns: for_s.map(|for_s| for_s * 1_000_000_000),
            cpus: cpus.parse().unwrap(),
        };
        assert_eq!(plan.works[0].offline, [off(1, Some(1), "1"), off(2, None, "1,3")]);
        assert!(plan.works[0].changes_in_mid_run(&plan.works[0].sets[0]), "no fairness, no turns");
        let two = "[[workload.offline]]\nat = \"1s\"\nfor = \"1s\"\ncpus = \"1\"\n\
                     [[workload.offline]]\nat = \"2s\"\ncpus = \"2\"";
        assert_eq!(read(two).unwrap().works[0].offline.len(), 2, "each worker always has a CPU");
        let stored = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
        assert!(!serde_json::to_string(&read("").unwrap()).unwrap().contains("offline"));
    }

    #[test]
    fn cgroups_and_steps_keep_a_cpu() {
        let read = |cgroup: &str, steps: &str| {
            let text = format!(
                "schema = 1\n[measure]\nduration = \"3s\"\n[cgroup.own]\n{cgroup}\n[[workload]]\nname = \"mix\"\n\
                 [[workload.offline]]\nat = \"1s\"\ncpus = \"2-3\"\n[[workload.set]]\nuse = \"steps\"\n\
                 cgroup = \"own\"\nsteps = [{steps}]\n"
            );
            parse("p.toml", &text, None, Known::default()).map_err(|errors| errors.to_string())
        };
        assert!(read("cpus = \"1-2\"", "\"burn 1ms\", \"cpus 1-3\"").is_ok());
        for (cgroup, steps) in [
            ("cpus = \"3\"", "\"burn 1ms\""),
            ("[[cgroup.own.change]]\nat = \"1s\"\ncpus = \"2-3\"", "\"burn 1ms\""),
            ("weight = 50", "\"cpus 2\", \"burn 1ms\", \"cpus all\", \"burn 1ms\""),
        ] {
            let errors = read(cgroup, steps).expect_err(cgroup);
            assert!(errors.contains("alone, all of which are off by then"), "{errors}");
        }
    }

    #[test]
    fn cpus_that_cannot_be_taken_off_are_refused() {
        let off = |text: &str| format!("[[workload.offline]]\n{text}");
        for (text, message) in [
            (off("cpus = \"1\""), "a change without `at`"),
            (off("at = \"3s\"\ncpus = \"1\""), "a change at 3s, and a run has 3s"),
            (off("at = \"1s\""), "no `cpus` to take off"),
            (off("at = \"1s\"\ncpus = \"0-1\""), "CPUs 0-1 cannot be taken off"),
            (off("at = \"1s\"\ncpus = 1"), "8:8: `1` does not fit here"),
            (off("at = \"1s\"\ncpus = \"3\"\nfor = \"0s\""), "0ns is below"),
            (off("at = \"1s\"\ncpus = \"3\"\nonline = false"), "unknown key `online`"),
            (off("at = \"1s\"\ncpus = \"1-2\""), "workers may use CPUs 1-2 alone"),
            (
                off("at = \"1s\"\ncpus = \"1\"\n") + &off("at = \"2s\"\ncpus = \"2\""),
                "11:8: workers may use CPUs 1-2 alone",
            ),
            (
                off("at = \"1s\"\ncpus = \"3\"\n") + &off("at = \"2s\"\ncpus = \"3-4\""),
                "some of the CPUs 3-4 are off by then: 3",
            ),
            (off("at = \"1s\"\ncpus = \"3\"\n").repeat(101), "101 changes"),
            ("offline = 1".to_string(), "`offline` is a number"),
        ] {
            let errors = read(&text).expect_err(message);
            assert!(errors.contains(message), "{message}\n{errors}");
        }
    }
}
