//! A sentence for each note, and the word that it begins with. Pure.

use crate::analysis::{Difference, Note, Pooled};
use crate::model::{Reading, Value, show_duration};
use crate::report::layout::clean;
use crate::report::numbers::counted;

use super::disturbance::{disturbance, kind};
use super::{listed, no_ratio};

/// A clean word for the kind of note, and a clean sentence. Whether a note is of one plan's
/// variants decides nothing here: sides are labels.
pub fn note(note: &Note) -> (&'static str, String) {
    let text = |label: &str| clean(label);
    match note {
        Note::Failed { side, work, runs, of, reason, others } => {
            let others = match others {
                0 => String::new(),
                others => format!(" ({others} for other reasons)"),
            };
            let (side, work, reason) = (text(side), text(work), one_line(reason));
            let of = counted(*of, "run");
            ("failed", format!("{side}: {runs} of {of} of {work}: {reason}{others}"))
        }
        Note::Skipped { side, works, reason } => {
            ("skipped", format!("{} ({}): {}", text(side), listed(works), one_line(reason)))
        }
        Note::NoValue { side, work, set, metrics, runs, of, reason } => {
            let reason = reason.as_ref().map(|why| format!(": {}", one_line(why)));
            let (reason, metrics) = (reason.unwrap_or_default(), listed(metrics));
            let place = place(work, set);
            let side = text(side);
            let of = counted(*of, "run");
            let text = format!("{side}: no value of {metrics} ({place}) in {runs} of {of}{reason}");
            ("missing", text)
        }
        Note::NoRatio { side, work, set, metric, why } => {
            let (side, metric, place) = (text(side), text(metric), place(work, set));
            ("missing", format!("{side}: no ratio of {metric} ({place}): {}", no_ratio(why)))
        }
        Note::KnobNeverTook { side, knob, asked, works } => {
            let (side, knob, works) = (text(side), text(knob), listed(works));
            ("knob", format!("{side}: {knob} was never {} in {works}", value(asked)))
        }
        refusal if refusal.is_refusal() => ("refused", refused(refusal)),
        other => ("note", remark(other)),
    }
}

/// A reason, clean, with the hint that some carry on a line of its own.
pub fn one_line(reason: &str) -> String {
    clean(&reason.replace("\nhint: ", "; hint: "))
}

fn place(work: &str, set: &str) -> String {
    match work == set {
        true => clean(work),
        false => format!("{}, {}", clean(work), clean(set)),
    }
}

fn value(value: &Value) -> String {
    clean(&value.to_string())
}

fn refused(note: &Note) -> String {
    match note {
        Note::NotSameWork { work, sides, others, difference } => {
            let (sides, others) = (listed(sides), listed(others));
            format!(
                "{}: {sides} did other work than {others}: {}",
                clean(work),
                differs(difference)
            )
        }
        Note::OnlyOn { work, sides } => {
            let verb = if sides.len() == 1 { "has" } else { "have" };
            format!("{}: only {} {verb} runs of it", clean(work), listed(sides))
        }
        Note::KnobsDiffer { work, side, variant } => {
            let [work, side, variant] = [work, side, variant].map(|name| clean(name));
            format!("{work} of {side}: the knobs of {variant} differ from plan to plan")
        }
        Note::MixedVariants { work, side, variants } => {
            let (work, side, variants) = (clean(work), clean(side), listed(variants));
            format!("{work} of {side} mixes the variants {variants}: name one of them")
        }
        Note::UnitChanged { work, set, metric } => {
            let metric = clean(metric);
            format!("{}, {metric}: its unit or its direction changed", place(work, set))
        }
        _ => String::new(),
    }
}

/// What differs between two works: `the duration is 5s and 10s`.
pub fn differs(difference: &Difference) -> String {
    let both = |what: &str, own: &str, other: &str| {
        format!("{what} is {} and {}", clean(own), clean(other))
    };
    let probes = |probes: &[String]| match probes {
        [] => "none".to_string(),
        some => some.join(", "),
    };
    match difference {
        Difference::Backend(own, other) => {
            format!("{} (--mixed compares them all the same)", both("the backend", own, other))
        }
        Difference::Guests => {
            "the guests' machine, speed or clock differs ([lab], --realtime)".to_string()
        }
        Difference::Time { what, own_ns, other_ns } => {
            both(&format!("the {what}"), &show_duration(*own_ns), &show_duration(*other_ns))
        }
        Difference::Probes(own, other) => both("the probe", &probes(own), &probes(other)),
        Difference::Placement => "the placement differs".to_string(),
        Difference::VariantKnobs => "the variant's knobs differ".to_string(),
        Difference::Sets(own, other) => format!("it has {own} and {other} worker sets"),
        Difference::Field { set, field, own, other } => {
            both(&format!("{} of {}", clean(field), clean(set)), own, other)
        }
        Difference::SetKnobs(set) => format!("the kind or the knobs of {} differ", clean(set)),
    }
}

fn remark(note: &Note) -> String {
    match note {
        Note::Disturbed { kind: found, runs, worst } => {
            let touched: usize = runs.iter().map(|(_, runs, _)| runs).sum();
            let all: usize = runs.iter().map(|(.., of)| of).sum();
            let worst = clean(&disturbance(&worst.fact));
            let all = counted(all, "run");
            format!("{} in {touched} of {all}; the worst: {worst}", kind(*found))
        }
        Note::SpoiltRounds { works } => format!(
            "rounds that load from outside or steal spoilt are left out, all variants of them: {}",
            of_works(works)
        ),
        Note::AllSpoilt { works } => format!(
            "load from outside or steal spoilt most rounds, so none is left out: {}; quiet the \
             machine and measure again: schedlab doctor",
            of_works(works)
        ),
        Note::Knob { side, mismatch, runs, of } => {
            let (side, knob, asked) = (clean(side), clean(&mismatch.knob), value(&mismatch.asked));
            let got = match &mismatch.got {
                Reading::Known(got) => value(got),
                Reading::Unknown(why) => format!("unknown ({})", clean(why)),
            };
            let of = counted(*of, "run");
            format!("{side}: {knob} was asked to be {asked} and was {got} in {runs} of {of}")
        }
        Note::KnobWithoutEffect { side, knob, works } => format!(
            "{}: {} changes nothing in {}: nothing with another value competes there",
            clean(side),
            clean(knob),
            listed(works)
        ),
        Note::Unpaired => "the sides were not measured in the same rounds: what changed on the \
                           machine between them (load, heat, settings) is in the ratio and in no \
                           interval"
            .to_string(),
        Note::UnpairedExact { same_seeds, emulators } => {
            let seeds = match same_seeds {
                true => "the same seeds",
                false => "other seeds, which the intervals cover",
            };
            let emulators = match emulators.as_slice() {
                [] => String::new(),
                several => format!("; QEMU differs too: {}", listed(several)),
            };
            format!(
                "the sides are exact runs of different plans with {seeds}: only kernel, variant \
                 and schedlab itself can differ{emulators}"
            )
        }
        Note::SpreadsDiffer { metrics } => format!(
            "in {} one side scatters more than twice as much as another: BETTER and WORSE are \
             approximate there (docs/verdicts.md)",
            counted(*metrics, "metric")
        ),
        other => about_sides(other),
    }
}

fn about_sides(note: &Note) -> String {
    match note {
        Note::MachinesDiffer { sides } => {
            let sides = sides.iter().map(|(side, on)| format!("{} on {}", clean(side), listed(on)));
            let sides: Vec<String> = sides.collect();
            format!("the sides differ in machine too: {}", sides.join("; "))
        }
        Note::Pooled { sides, what, names } => {
            let what = match what {
                Pooled::Machines => "machines",
                Pooled::Kernels => "kernels",
            };
            let verb = if sides.len() == 1 { "pools" } else { "pool" };
            format!("{} {verb} the {what} {}", listed(sides), listed(names))
        }
        Note::ResumedElsewhere { plan, places } => {
            let places = places.iter().map(|(kernel, host)| format!("{kernel} on {host}"));
            let places: Vec<String> = places.map(|place| clean(&place)).collect();
            format!("{} was resumed elsewhere: {}", clean(plan), places.join(", then "))
        }
        Note::FewBoots { baseline, other, needed } => {
            let of = |(side, boots): &(String, usize)| {
                format!("{} has {}", clean(side), counted(*boots, "boot"))
            };
            format!(
                "boot-to-boot variation is not covered ({}, {}): reboot into each in turn, \
                 {needed} times or more, run the plan each time and compare all of these plans",
                of(baseline),
                of(other)
            )
        }
        other => information(other),
    }
}

fn information(note: &Note) -> String {
    match note {
        Note::Repeated { side, runs } => format!(
            "{}: exact runs that its other plans have too count once ({}); give each plan a \
             --seed of its own for other trajectories",
            clean(side),
            counted(*runs, "run")
        ),
        Note::Rebuilt { plan, variant, kernels } => {
            let (plan, variant) = (clean(plan), clean(variant));
            let kernels: Vec<String> = kernels.iter().map(|name| clean(name)).collect();
            format!(
                "{plan}: the kernel of {variant} was rebuilt between rounds: {}",
                kernels.join(", then ")
            )
        }
        Note::HostAndLab => "virtual time and a host's clock stand next to each other (--mixed): \
                             in the lab an instruction takes a fixed time and there are no caches"
            .to_string(),
        Note::NotExact { side, runs, of, why } => {
            let of = counted(*of, "run");
            format!("{}: NOT exact in {runs} of {of}: {}", clean(side), one_line(why))
        }
        Note::Invented => "the backend invents its figures".to_string(),
        Note::CoarseTimers { sides } => {
            let of = |(side, ns): &(String, u64)| format!("{side} ({})", show_duration(*ns));
            let sides: Vec<String> = sides.iter().map(of).collect();
            format!("timers go off at ticks alone in {}", listed(&sides))
        }
        Note::Builds { release, digests } => {
            format!("several builds of kernel {} (digests {})", clean(release), listed(digests))
        }
        Note::Unfinished { plans } => {
            format!("not ended, or interrupted, and analysed as far as it went: {}", listed(plans))
        }
        Note::OtherRuns { side, runs, plans } => format!(
            "{}: {} of work that was not compared ({})",
            clean(side),
            counted(*runs, "further run"),
            listed(plans)
        ),
        Note::ProbeSilent { probe } => {
            format!("the probe {} counted no switches of some worker sets", clean(probe))
        }
        Note::NoSolo { work, sets } => format!(
            "{}: no fairness, since the plan has no solo run of {}",
            clean(work),
            listed(sets)
        ),
        _ => String::new(),
    }
}

/// `web (3 of 9)`.
fn of_works(works: &[(String, usize, usize)]) -> String {
    let works: Vec<String> =
        works.iter().map(|(work, rounds, of)| format!("{work} ({rounds} of {of})")).collect();
    listed(&works)
}
