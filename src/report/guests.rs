//! What a report tells of lab guests: which kernel each variant ran on, whether time was exact,
//! and what speed the CPUs had. Input: a record. Pure.

use std::collections::BTreeMap;

use crate::model::{
    Guest, GuestKernel, GuestTimes, KnobReading, Outcome, Reading, Record, SampledPlan, Variant,
    told,
};

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
    let runs: Vec<(&str, &[KnobReading])> = record
        .runs
        .iter()
        .filter_map(|run| match &run.outcome {
            Outcome::Done { result } => {
                let variant = &record.started.cells.get(run.key.cell as usize)?.variant;
                Some((variant.name.as_str(), result.knobs.as_slice()))
            }
            _ => None,
        })
        .collect();
    let told: Vec<(&str, Guest)> =
        runs.iter().map(|(variant, knobs)| (*variant, Guest::of(knobs))).collect();
    let variants = record.started.plan.variants.iter();
    let booted: Vec<(&Variant, Vec<&GuestKernel>)> =
        variants.map(|variant| (variant, kernels_of(variant, &told))).collect();
    let rebuilt = booted.iter().filter(|(_, kernels)| kernels.len() > 1);
    let rebuilt = rebuilt.map(|(variant, kernels)| {
        let kernels = listed(kernels);
        format!("kernel rebuilt between rounds of {}: {kernels}", clean(&variant.name))
    });
    let mut times = GuestTimes::default();
    told.iter().for_each(|(_, guest)| times.add(&guest.time, 1));
    let speed = speed(runs.iter().flat_map(|(_, knobs)| *knobs)).unwrap_or_default();
    let timers = timers(&runs);
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

fn speed<'a>(readings: impl Iterator<Item = &'a KnobReading>) -> Option<String> {
    let shares = readings.filter(|reading| reading.knob == told::CAPACITY);
    let mut shares: Vec<String> = shares.map(|reading| clean(&shown(&reading.got))).collect();
    // What is no number stands last.
    let number = |text: &str| text.trim_end_matches('%').parse().unwrap_or(f64::INFINITY);
    shares.sort_by(|one, other| number(one).total_cmp(&number(other)));
    let (least, most) = (shares.first()?, shares.last()?);
    let range = if least == most { least.clone() } else { format!("{least} to {most}") };
    Some(format!("; CPUs had {range} of their speed before the runs"))
}

/// Which variants had no timers but those of ticks, as the end of a sentence.
fn timers(runs: &[(&str, &[KnobReading])]) -> String {
    let mut by_variant: BTreeMap<&str, String> = BTreeMap::new();
    for (variant, knobs) in runs {
        let coarse = knobs.iter().filter(|reading| reading.knob == told::TIMERS);
        by_variant.extend(coarse.map(|reading| (*variant, clean(&shown(&reading.got)))));
    }
    let each = by_variant.iter().map(|(variant, tick)| format!("{} ({tick})", clean(variant)));
    match each.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        each => format!("; timers go off at ticks alone in {}", each.join(", ")),
    }
}

fn shown(reading: &Reading<String>) -> String {
    match reading {
        Reading::Known(text) => text.clone(),
        Reading::Unknown(why) => format!("unknown ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;
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
                "json" => ("\"got\": { \"known\": \"exact\" }", "\"unknown\": \"out of step\""),
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
    fn speeds_are_numbers() {
        let share = |text: &str| KnobReading {
            knob: told::CAPACITY.to_string(),
            asked: text.to_string(),
            got: Reading::Known(text.to_string()),
        };
        let shares = ["99.9%", "100.0%", "98.7%"].map(share);
        assert!(speed(shares.iter()).unwrap().contains("CPUs had 98.7% to 100.0% of their speed"));
    }

    #[test]
    fn coarse_timers_are_told_with_their_variants() {
        assert_eq!(timers(&[("mine", &[])]), "");
        let tick = [KnobReading {
            knob: told::TIMERS.to_string(),
            asked: "4ms".to_string(),
            got: Reading::Known("4ms".to_string()),
        }];
        let told = timers(&[("mine", &tick), ("mine", &tick), ("yours", &tick)]);
        assert_eq!(told, "; timers go off at ticks alone in mine (4ms), yours (4ms)");
    }
}
