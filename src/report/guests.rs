//! What a report tells of lab guests: which kernel each variant ran on, whether time was exact,
//! and what speed the CPUs had. Input: a record. Pure.

use std::collections::BTreeMap;

use crate::model::{Guest, GuestKernel, GuestTimes, Outcome, Record, SampledPlan, Variant};

use super::clean;

/// Lines for the head of a report; `None` for plans of no guests.
pub struct Guests {
    pub kernels: String,
    /// `None` where nothing was measured.
    pub time: Option<String>,
    /// Variants whose rounds were not all on one kernel, a line each.
    pub rebuilt: Vec<String>,
}

pub fn guests(record: &Record) -> Option<Guests> {
    if record.started.backend != SampledPlan::LAB {
        return None;
    }
    let booted_by_runs: Vec<(&str, Guest)> = record
        .runs
        .iter()
        .filter_map(|run| match &run.outcome {
            Outcome::Done { result } => {
                let variant = &record.started.cells.get(run.key.cell as usize)?.variant;
                Some((variant.name.as_str(), result.guest.clone().unwrap_or_default()))
            }
            _ => None,
        })
        .collect();
    let variants = record.started.plan.variants.iter();
    let booted: Vec<(&Variant, Vec<&GuestKernel>)> =
        variants.map(|variant| (variant, kernels_of(variant, &booted_by_runs))).collect();
    let rebuilt = booted.iter().filter(|(_, kernels)| kernels.len() > 1);
    let rebuilt = rebuilt.map(|(variant, kernels)| {
        let kernels = listed(kernels);
        format!("kernel rebuilt between rounds of {}: {kernels}", clean(&variant.name))
    });
    let mut times = GuestTimes::default();
    booted_by_runs.iter().for_each(|(_, guest)| times.add(&guest.time, 1));
    let speed = speed(&booted_by_runs).unwrap_or_default();
    let timers = timers(&booted_by_runs);
    Some(Guests {
        rebuilt: rebuilt.collect(),
        kernels: kernels(record, &booted),
        time: (times.runs() > 0)
            .then(|| format!("lab, {}{speed}{timers}", clean(&times.to_string()))),
    })
}

/// The kernels that a variant's runs were really on, each once; mostly there is one.
fn kernels_of<'g>(variant: &Variant, told: &'g [(&str, Guest)]) -> Vec<&'g GuestKernel> {
    let of_it = told.iter().filter(|(of, _)| *of == variant.name);
    GuestKernel::each_once(of_it.map(|(_, guest)| &guest.kernel))
}

fn listed(kernels: &[&GuestKernel]) -> String {
    let kernels: Vec<String> = kernels.iter().map(|kernel| clean(&kernel.to_string())).collect();
    kernels.join(", then ")
}

/// One kernel, or each variant's own; of a variant that was not measured what it asked for.
fn kernels(record: &Record, booted: &[(&Variant, Vec<&GuestKernel>)]) -> String {
    let told = |(variant, kernels): &(&Variant, Vec<&GuestKernel>)| match kernels.is_empty() {
        true => format!("{}, not measured", clean(record.started.plan.lab.kernel_of(variant))),
        false => format!("Linux {}", listed(kernels)),
    };
    let all: Vec<String> = booted.iter().map(told).collect();
    match all.split_first() {
        Some((first, others)) if others.iter().all(|other| other == first) => first.clone(),
        _ => {
            let of = booted.iter().zip(&all);
            let lines = of.map(|((variant, _), told)| format!("{}: {told}", clean(&variant.name)));
            lines.collect::<Vec<_>>().join("; ")
        }
    }
}

fn speed(guests: &[(&str, Guest)]) -> Option<String> {
    let known = guests.iter().filter_map(|(_, guest)| guest.capacity.clone().known());
    let mut shares: Vec<f64> = known.collect();
    shares.sort_by(f64::total_cmp);
    let percent = |share: &f64| format!("{:.1}%", 100.0 * share);
    let (min, max) = (percent(shares.first()?), percent(shares.last()?));
    let range = if min == max { min } else { format!("{min} to {max}") };
    Some(format!("; CPUs had {range} of their speed before the runs"))
}

/// Which variants had no timers but those of ticks, as the end of a sentence.
fn timers(guests: &[(&str, Guest)]) -> String {
    let coarse = guests.iter().filter_map(|(variant, guest)| {
        Some((*variant, format!("{}ms", guest.coarse_timers_ns? as f64 / 1e6)))
    });
    let by_variant: BTreeMap<&str, String> = coarse.collect();
    let each = by_variant.iter().map(|(variant, tick)| format!("{} ({tick})", clean(variant)));
    match each.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        each => format!("; timers go off at ticks alone in {}", each.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Reading, Value};
    use crate::report::testing::{PlanBuilder, render};
    use crate::report::{Options, formats};

    /// Two rounds; the second of `new` has this kernel's digest, and this fault of its time.
    fn plan(digest: &str, not: Option<&str>) -> PlanBuilder {
        let mut plan = PlanBuilder::new(2, &["old", "new"]).in_the_lab();
        plan.set_knob("old", "kernel", Value::Text("debian:6.1".to_string()));
        for round in 0..2 {
            plan.done(round, "old", |run| {
                run.metric("throughput", 10.0).guest("6.1.0-56", "a1", None)
            });
            let (digest, not) = if round == 0 { ("b1", None) } else { (digest, not) };
            plan.done(round, "new", |run| {
                run.metric("throughput", 11.0).guest("6.18.15", digest, not)
            });
        }
        plan
    }

    #[test]
    fn the_head_tells_what_was_booted_and_by_what_clock() {
        let told = guests(&plan("b1", None).record()).unwrap();
        assert_eq!(told.kernels, "old: Linux 6.1.0-56 (digest a1); new: Linux 6.18.15 (digest b1)");
        let speed = "CPUs had 99.9% of their speed before the runs";
        let time = format!("lab, virtual time, exact in all 4 runs; {speed}");
        assert_eq!((told.time, told.rebuilt.len()), (Some(time), 0));
        let told = guests(&plan("b2", Some("out of step")).record()).unwrap();
        let time = format!("lab, virtual time, NOT exact in 1 of 4 runs: out of step; {speed}");
        assert_eq!(told.time, Some(time));
        let kernels = "Linux 6.18.15 (digest b1), then 6.18.15 (digest b2)";
        assert!(told.kernels.ends_with(&format!("; new: {kernels}")), "{}", told.kernels);
        assert_eq!(
            told.rebuilt,
            ["kernel rebuilt between rounds of new: 6.18.15 (digest b1), then 6.18.15 (digest b2)"]
        );
    }

    #[test]
    fn where_nothing_was_measured_it_is_told_what_was_asked_for() {
        let mut plan = PlanBuilder::new(1, &["old", "new"]).in_the_lab();
        plan.set_knob("old", "kernel", Value::Text("debian:6.1".to_string()));
        plan.failed(0, "old", "the kernel panicked");
        let mut half = plan.clone();
        plan.failed(0, "new", "the kernel panicked");
        let told = guests(&plan.record()).unwrap();
        assert_eq!(told.kernels, "old: debian:6.1, not measured; new: debian:6.18, not measured");
        assert_eq!(told.time, None);
        half.done(0, "new", |run| run.metric("throughput", 1.0).guest("6.18.15", "b1", None));
        let told = guests(&half.record()).unwrap().kernels;
        assert_eq!(told, "old: debian:6.1, not measured; new: Linux 6.18.15 (digest b1)");
        assert!(guests(&PlanBuilder::new(1, &["old"]).record()).is_none(), "on a host");
    }

    /// Whoever reads figures that were mailed has to know by what clock they were measured.
    #[test]
    fn every_format_says_by_what_clock_the_lab_measured_and_names_the_kernels() {
        for format in formats() {
            let shown = |not| {
                let text = render(*format, &[plan("b1", not).record()], Options::default());
                text.split_whitespace().collect::<Vec<_>>().join(" ")
            };
            let name = format.name();
            let (exact, not) = match name {
                "json" => ("\"time\": \"exact\"", "\"not_exact\": \"out of step\""),
                "csv" => (",exact,", ",not_exact,"),
                "lkml" => ("exact in all 4 runs", "NOT exact in 1 of 4 runs"),
                _ => ("virtual time, exact in all 4 runs", "NOT exact in 1 of 4 runs: out of step"),
            };
            assert!(shown(None).contains(exact), "{name}: {}", shown(None));
            assert!(!shown(None).contains(not), "{name}: {}", shown(None));
            assert!(shown(Some("out of step")).contains(not), "{name}");
            for kernel in ["6.1.0-56", "6.18.15"] {
                assert!(shown(None).contains(kernel), "{name}: {}", shown(None));
            }
            let is_json = name == "json";
            assert!(is_json || !shown(None).contains("of each variant"), "{name}");
        }
    }

    #[test]
    fn speeds_and_coarse_timers_are_of_guests() {
        let guest = |share, coarse_timers_ns| Guest {
            capacity: Reading::Known(share),
            coarse_timers_ns,
            ..Guest::default()
        };
        let (fine, tick) = (guest(0.987, None), guest(1.0, Some(4_000_000)));
        let guests = [("mine", fine.clone()), ("yours", tick.clone()), ("yours", tick)];
        assert!(speed(&guests).unwrap().contains("CPUs had 98.7% to 100.0% of their speed"));
        assert_eq!(timers(&guests), "; timers go off at ticks alone in yours (4ms)");
        assert_eq!((speed(&[]), timers(&guests[..1])), (None, String::new()));
    }
}
