//! `[[workload.offline]]`: CPUs that are taken off in mid-run and put back. Pure.
//!
//! ```toml
//! [[workload.offline]]
//! at = "500ms"
//! for = "700ms"             # to the end unless given
//! cpus = "2-3"
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{CpuSet, Offline, Value, ValueError, Work, show_duration};
use crate::variant;
use crate::workload::{self, STEPS, Step, StepScript};

use super::error::Faults;
use super::fields::{AT, FOR, OFFLINE, OFFLINE_CPUS, OFFLINE_FOR};
use super::moments::{come_back, timed};
use super::table::{Span, Table};

/// Takes those of a workload, in the order of their moments, each with its place.
pub fn take(table: &mut Table, duration_ns: u64, faults: &mut Faults) -> Vec<(Offline, Span)> {
    let path = format!("workload.{OFFLINE}");
    let mut all: Vec<(Offline, Span)> = Vec::new();
    for (at_ns, table) in timed(table, OFFLINE, &path, duration_ns, faults) {
        let Some((offline, span)) = one(at_ns, table, duration_ns, faults) else { continue };
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

fn one(
    at_ns: u64,
    mut table: Table,
    duration_ns: u64,
    faults: &mut Faults,
) -> Option<(Offline, Span)> {
    let place = table.span.clone();
    let length = table.take_value(&OFFLINE_FOR, faults);
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
    let for_ns = length.as_ref().and_then(|(value, _)| value.as_duration_ns());
    let offline = Offline { at_ns, for_ns, cpus };
    // Where they go after the run, that is the fault.
    if let Some((_, place)) = length.filter(|_| at_ns < duration_ns)
        && let Err(ValueError { message, hint }) = come_back(&offline, duration_ns)
    {
        faults.add(&place, message, "not in the run", hint);
    }
    Some((offline, span))
}

/// CPUs that workers may use alone, from a moment to another, both included: CPUs go before workers move.
struct Wanted<'c> {
    from_ns: u64,
    to_ns: u64,
    cpus: &'c CpuSet,
}

impl<'c> Wanted<'c> {
    fn always(cpus: &'c CpuSet) -> Wanted<'c> {
        Wanted { from_ns: 0, to_ns: u64::MAX, cpus }
    }

    /// CPUs of workers that begin with `first`, each set of them until the next comes.
    fn in_turn(
        first: Option<&'c CpuSet>,
        later: impl Iterator<Item = (u64, &'c CpuSet)>,
    ) -> Vec<Wanted<'c>> {
        let mut all: Vec<Wanted> = first.map(Wanted::always).into_iter().collect();
        for (from_ns, cpus) in later {
            if let Some(before) = all.last_mut() {
                before.to_ns = from_ns;
            }
            all.push(Wanted { from_ns, to_ns: u64::MAX, cpus });
        }
        all
    }

    fn is_at(&self, at_ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&at_ns)
    }
}

/// Notes variants and a pool whose CPUs are all off at some moment: the kernel would give workers others, for good.
pub fn check_affinity<'k>(
    offline: &[(Offline, Span)],
    knobs: impl Iterator<Item = &'k BTreeMap<String, Value>>,
    pool: Option<&'k CpuSet>,
    faults: &mut Faults,
) {
    let wanted = knobs.filter_map(affinity).chain(pool).map(Wanted::always);
    check(offline, &wanted.collect::<Vec<_>>(), faults);
}

fn affinity(knobs: &BTreeMap<String, Value>) -> Option<&CpuSet> {
    knobs.get(variant::AFFINITY)?.as_cpus()
}

/// Does the same with a work's sets, cgroups and steps. Whether all have a CPU at each moment.
pub fn check_work(offline: &[(Offline, Span)], work: &Work, faults: &mut Faults) -> bool {
    if offline.is_empty() {
        return true;
    }
    let mut wanted = Vec::new();
    for set in &work.sets {
        let later = set.changes.iter().filter_map(|own| Some((own.at_ns, affinity(&own.knobs)?)));
        wanted.extend(Wanted::in_turn(affinity(&set.knobs), later));
    }
    for cgroup in &work.cgroups {
        let later = cgroup.changes.iter().filter_map(|own| Some((own.at_ns, own.cpus.as_ref()?)));
        wanted.extend(Wanted::in_turn(cgroup.cpus.as_ref(), later));
    }
    let steps = work.sets.iter().filter(|set| set.workload == STEPS);
    let scripts: Vec<StepScript> =
        steps.filter_map(|set| workload::step_script(&set.params).ok()).collect();
    let of_steps = scripts.iter().flat_map(StepScript::steps).filter_map(|step| match step {
        Step::Cpus(cpus) => cpus.as_ref(),
        _ => None,
    });
    wanted.extend(of_steps.map(Wanted::always));
    check(offline, &wanted, faults)
}

/// Whether all have a CPU that is on at each moment; notes the first that has none.
fn check(offline: &[(Offline, Span)], wanted: &[Wanted], faults: &mut Faults) -> bool {
    let moments = offline.iter().map(|(own, _)| own.at_ns);
    let moments: BTreeSet<u64> = moments.chain(wanted.iter().map(|own| own.from_ns)).collect();
    for at_ns in moments {
        let are_off = || offline.iter().filter(|(own, _)| own.is_at(at_ns));
        let off: CpuSet = are_off().flat_map(|(own, _)| own.cpus.iter()).collect();
        let has_none = |own: &&Wanted| own.is_at(at_ns) && own.cpus.minus(&off).is_empty();
        if let Some(Wanted { cpus, .. }) = wanted.iter().find(has_none)
            && let Some((_, span)) = are_off().next_back()
        {
            let at = show_duration(at_ns);
            let message =
                format!("workers may use CPUs {cpus} alone, all of which are off at {at}");
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
            assert!(errors.contains("alone, all of which are off at 1s"), "{errors}");
        }
    }

    #[test]
    fn workers_have_a_cpu_at_each_moment() {
        // CPU 3 is off from 1 to 2 s, and CPU 2 from 2 s on.
        let read = |changes: &[(&str, &str)]| {
            let changes = changes.iter().map(|(at, cpus)| {
                format!(
                    "[[workload.set.change]]\nat = \"{at}\"\nknobs = {{ affinity = \"{cpus}\" }}\n"
                )
            });
            let text = format!(
                "schema = 1\n[measure]\nduration = \"3s\"\n[[workload]]\nname = \"mix\"\n\
                 [[workload.offline]]\nat = \"1s\"\nfor = \"1s\"\ncpus = \"3\"\n\
                 [[workload.offline]]\nat = \"2s\"\ncpus = \"2\"\n[[workload.set]]\nuse = \"spin\"\n{}",
                changes.collect::<String>()
            );
            let plan = parse("p.toml", &text, None, Known::default());
            plan.map_err(|errors| errors.to_string()).map(|_| ())
        };
        for right in [&[("2s", "3")][..], &[("2500ms", "3")], &[("500ms", "3"), ("900ms", "0")]] {
            assert_eq!(read(right), Ok(()), "{right:?}");
        }
        // The last: CPU 3 goes before its worker moves.
        for (wrong, at, line) in [
            (&[("1500ms", "3")][..], "off at 1500ms", "9:8"),
            (&[("2500ms", "2")], "off at 2500ms", "12:8"),
            (&[("500ms", "3"), ("1s", "0")], "off at 1s", "9:8"),
        ] {
            let errors = read(wrong).expect_err(at);
            assert!(errors.contains(at) && errors.contains(line), "{wrong:?}: {errors}");
        }
    }

    #[test]
    fn cpus_that_cannot_be_taken_off_are_refused() {
        let off = |text: &str| format!("[[workload.offline]]\n{text}");
        for (text, message) in [
            (off("cpus = \"1\""), "a change without `at`"),
            (off("at = \"3s\"\ncpus = \"1\""), "a change at 3s, and a run has 3s"),
            (
                off("at = \"1s\"\nfor = \"2001ms\"\ncpus = \"3\""),
                "8:7: CPUs that come back at 3001ms, and a run has 3s",
            ),
            (off("at = \"1s\""), "no `cpus` to take off"),
            (off("at = \"1s\"\ncpus = \"0-1\""), "CPUs 0-1 cannot be taken off"),
            (off("at = \"1s\"\ncpus = 1"), "8:8: `1` does not fit here"),
            (off("at = \"1s\"\ncpus = \"3\"\nfor = \"0s\""), "0s is below"),
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
