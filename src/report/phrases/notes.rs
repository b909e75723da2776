//! A sentence for each note, and the word that it begins with. Pure.

use crate::analysis::{
    Analysis, Difference, FairnessTable, HostKind, NoValue, Note, Pooled, Unheeded, UselessKnob,
    VariantFairness, Weights,
};
use crate::model::{MissingPart, Reading, Unit, show_duration};
use crate::report::layout::clean;
use crate::report::numbers::{Scale, counted};

use super::disturbance::disturbance;
use super::verdicts::{SPOILT, each, no_effect};
use super::words::{MAX_NAMED, first_of, joined, listed};

/// A clean word for the kind of note, and a clean sentence. Whether a note is of one plan's
/// variants decides nothing here: sides are labels.
pub fn note(analysis: &Analysis, note: &Note) -> (&'static str, String) {
    let word = match note {
        Note::Failed { .. } => "failed",
        Note::Skipped { .. } => "skipped",
        Note::NoValue { .. } | Note::NoRatio { .. } => "missing",
        Note::KnobNeverTook { .. } => "knob",
        Note::AllSpoilt { .. } => "spoilt",
        Note::TwoSpeeds { .. } => "states",
        Note::CarryOver { .. } => "turns",
        note if note.is_refusal() => "refused",
        _ => "note",
    };
    (word, clean(&sentence(analysis, note)))
}

/// A reason, clean, with the hint that some carry on a line of its own.
pub fn one_line(reason: &str) -> String {
    clean(&reason.replace("\nhint: ", "; hint: "))
}

/// ` (2 for other reasons)`; empty without any.
pub fn other_reasons(runs: usize) -> String {
    if runs == 0 { String::new() } else { format!(" ({runs} for other reasons)") }
}

pub fn place(work: &str, set: &str) -> String {
    if work == set { work.to_string() } else { format!("{work}/{set}") }
}

/// With the command that runs them where the others are.
fn missing_parts(analysis: &Analysis, missing: &[(String, MissingPart)]) -> String {
    let parts: Vec<String> = missing.iter().map(|(_, part)| part.to_string()).collect();
    let shard = match missing {
        [] => return String::new(),
        [(_, part)] => format!(" --shard {}", part.shard),
        _ => String::new(),
    };
    let (parts, id) = (first_of(&parts, MAX_NAMED), &missing[0].0);
    format!("; missing: {parts}: schedlab run --resume {id}{shard}{}", analysis.store)
}

fn sentence(analysis: &Analysis, note: &Note) -> String {
    match note {
        Note::Failed { side, work, runs, of, reason, others } => {
            let (of, reason) = (counted(*of, "run"), one_line(reason));
            format!("{side}: {runs} of {of} of {work}: {reason}{}", other_reasons(*others))
        }
        Note::Skipped { sides, works, reason } => {
            format!("{} ({}): {}", listed(sides), listed(works), one_line(reason))
        }
        Note::NoValue(NoValue { side, work, set, metrics, runs, of, reason }) => {
            let reason = reason.as_ref().map(|why| format!(": {}", one_line(why)));
            let (reason, metrics) = (reason.unwrap_or_default(), listed(metrics));
            let (place, of) = (place(work, set), counted(*of, "run"));
            format!("{side}: no value of {metrics} ({place}) in {runs} of {of}{reason}")
        }
        Note::NoRatio { sides, work, set, metrics, why } => {
            let (sides, metrics, place) = (listed(sides), listed(metrics), place(work, set));
            let why = no_effect(why, each(analysis));
            format!("{sides}: {metrics} ({place}) cannot be compared: {why}")
        }
        Note::KnobNeverTook { side, knob, asked, works } => {
            format!("{side}: {knob} was never {asked} in {}", listed(works))
        }
        Note::NotSameWork { works, sides, others, why } => {
            let (works, sides, others) = (listed(works), listed(sides), listed(others));
            format!("{works}: {sides} did other work than {others}: {}", differs(why))
        }
        Note::OnlyOn { works, sides } => {
            let verb = if sides.len() == 1 { "has" } else { "have" };
            format!("{}: only {} {verb} runs of it", listed(works), listed(sides))
        }
        Note::KnobsDiffer { work, side, variant } => {
            format!("{work} of {side}: the knobs of {variant} differ from plan to plan")
        }
        Note::MixedVariants { work, side, variants } => {
            format!("{work} of {side} mixes the variants {}: name one of them", listed(variants))
        }
        Note::UnitChanged { work, set, metric } => {
            format!("{}, {metric}: its unit or its direction changed", place(work, set))
        }
        Note::OtherPlan { plans, why } => {
            let plans = plans.iter().map(|(host, id)| format!("{host} ({id})"));
            let plans = listed(&plans.collect::<Vec<_>>());
            format!("{plans}: not the plan of the other hosts: {}", differs(why))
        }
        other => remark(analysis, other),
    }
}

/// Describes the difference of two works, clean: `the duration is 5s and 10s`.
pub fn differs(difference: &Difference) -> String {
    let probes = |probes: &[String]| match probes {
        [] => "none".to_string(),
        some => some.join(", "),
    };
    let text = match difference {
        Difference::Backend(own, other) => {
            format!("the backend is {own} and {other} (--mixed compares them all the same)")
        }
        Difference::Guests => {
            "the guests' machine, speed or clock differs ([lab], --realtime)".to_string()
        }
        Difference::Time { what: "turns", own_ns, other_ns } => {
            let runs = |ns: u64| match ns {
                0 => "separate runs".to_string(),
                ns => format!("turns of {}", show_duration(ns)),
            };
            format!("variants have {} and {}", runs(*own_ns), runs(*other_ns))
        }
        Difference::Time { what, own_ns, other_ns } => {
            format!("the {what} is {} and {}", show_duration(*own_ns), show_duration(*other_ns))
        }
        Difference::Probes(own, other) => {
            format!("the probe is {} and {}", probes(own), probes(other))
        }
        Difference::Placement => "the placement differs".to_string(),
        Difference::VariantKnobs => "the variant's knobs differ".to_string(),
        Difference::Sets(own, other) => format!("it has {own} and {other} worker sets"),
        Difference::Field { set, field, own, other } => {
            format!("{field} of {set} is {own} and {other}")
        }
        Difference::SetKnobs(set) => format!("the kind or the knobs of {set} differ"),
        Difference::OnlyOne(work) => format!("only one of them has {work}"),
        Difference::Machines => "it was measured on several machines".to_string(),
    };
    clean(&text)
}

/// The first word and the sentence of what load from outside spoilt, where it spoilt most rounds; `has_mark`: it
/// explains the mark.
pub fn spoilt(analysis: &Analysis, has_mark: bool) -> Option<(&'static str, String)> {
    let of = analysis.notes.iter().find(|note| matches!(note, Note::AllSpoilt { .. }))?;
    let (word, text) = note(analysis, of);
    let legend = if has_mark {
        format!("; verdicts with {SPOILT} are about that load, too")
    } else {
        String::new()
    };
    Some((word, text + &legend))
}

/// The meaning of the mark of variants in a table of fairness, where one has it.
pub fn spoilt_fairness(table: &FairnessTable) -> Option<String> {
    let spoilt: Vec<_> = table.variants.iter().filter(|of| of.spoilt > 0).collect();
    let rounds = |of: &&VariantFairness| format!("{} of {}", of.spoilt, of.rounds.len());
    let rounds = listed(&spoilt.iter().map(rounds).collect::<Vec<_>>());
    let why = "load from outside or steal spoilt a run or a solo run";
    (!spoilt.is_empty()).then(|| format!("{SPOILT} {why} in {rounds} rounds"))
}

/// Why spoilt rounds count.
fn why_all_count(analysis: &Analysis) -> &'static str {
    if analysis.plans.iter().all(|plan| plan.measure.repeat_spoilt) {
        "so none is left out"
    } else {
        "and `repeat-spoilt = false` leaves none out"
    }
}

/// An exception for a knob that cannot make a difference, and why it cannot.
fn without_effect(
    analysis: &Analysis,
    scheduler: Option<&str>,
    own_of_sets: bool,
) -> (&'static str, String) {
    match scheduler {
        None if own_of_sets => {
            ("", "each of its worker sets has its own value or policy".to_string())
        }
        Some(scheduler) => ("", format!("the scheduler scx {scheduler} does not heed it")),
        None if analysis.notes.iter().any(Note::is_outside_load) => (
            " but against load from outside",
            "nothing of the plan with another value competes there".to_string(),
        ),
        None => ("", "nothing with another value competes there".to_string()),
    }
}

fn remark(analysis: &Analysis, note: &Note) -> String {
    match note {
        Note::Disturbed { runs, worst, .. } | Note::BoundElsewhere { runs, worst } => {
            let touched: usize = runs.iter().map(|(_, runs, _)| runs).sum();
            let all = counted(runs.iter().map(|(.., of)| of).sum::<usize>(), "run");
            let text = disturbance(&worst.fact);
            format!("{} in {touched} of {all}; the worst: {text}", worst.kind().word())
        }
        Note::SpoiltRounds { works } => format!(
            "rounds that load from outside or steal spoilt are left out, all variants of them: {}{}",
            of_works(analysis, works),
            measured_again(analysis)
        ),
        Note::AllSpoilt { works } => format!(
            "load from outside or steal spoilt most rounds, {}: {}{}; quiet the machine and measure \
             again: schedlab doctor",
            why_all_count(analysis),
            of_works(analysis, works),
            measured_again(analysis)
        ),
        Note::Knob { side, mismatch, runs, of } => {
            let (knob, asked, of) = (&mismatch.knob, &mismatch.asked, counted(*of, "run"));
            let got = match &mismatch.got {
                Reading::Known(got) => got.to_string(),
                Reading::Unknown(why) => format!("unknown ({why})"),
            };
            format!("{side}: {knob} was asked to be {asked} and was {got} in {runs} of {of}")
        }
        Note::KnobWithoutEffect(UselessKnob { side, knob, works, scheduler, own_of_sets }) => {
            let (but, why) = without_effect(analysis, scheduler.as_deref(), *own_of_sets);
            format!("{side}: {knob} changes nothing in {}{but}: {why}", listed(works))
        }
        Note::Unpaired => "the sides were not measured in the same rounds: what changed on the \
                           machine between them (load, heat, settings) is in the ratio and in no \
                           interval"
            .to_string(),
        Note::UnpairedExact { same_seeds, emulators } => {
            let other = "other seeds, which the intervals cover";
            let seeds = if *same_seeds { "the same seeds" } else { other };
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
             approximate there (schedlab help verdicts)",
            counted(*metrics, "metric")
        ),
        Note::MachinesDiffer { sides } => {
            let sides = sides.iter().map(|(side, on)| format!("{side} on {}", listed(on)));
            format!("the sides differ in machine too: {}", joined(sides, "; "))
        }
        Note::Pooled { sides, what, names } => {
            let what = if *what == Pooled::Machines { "machines" } else { "kernels" };
            let verb = if sides.len() == 1 { "pools" } else { "pool" };
            format!("{} {verb} the {what} {}", listed(sides), listed(names))
        }
        Note::ResumedElsewhere { plan, places } => {
            let places = places.iter().map(|(kernel, host)| format!("{kernel} on {host}"));
            format!("{plan} was resumed elsewhere: {}", joined(places, ", then "))
        }
        other => over_hosts(analysis, other),
    }
}

/// Describes the hosts, and how they differ.
fn over_hosts(analysis: &Analysis, note: &Note) -> String {
    match note {
        Note::TooFewHosts { hosts, least } => format!(
            "{}, and no data of fewer than {least} decide over hosts: measure on more, or ask of one: \
             schedlab compare plan=ID",
            counted(*hosts, "host")
        ),
        Note::HostKinds { kinds } => {
            let kinds = kinds.iter().map(|HostKind { cpu_model, kernels, hosts }| {
                let model = cpu_model.as_ref().known().map_or("processor unknown", |model| model);
                format!("{model}, Linux {} ({})", kernels.join(" and "), listed(hosts))
            });
            format!(
                "hosts are not of one kind, and verdicts hold for such a mixture: {}",
                joined(kinds, "; ")
            )
        }
        Note::HostDiffers { host, side, work, set, metrics } => {
            let (place, metrics) = (place(work, set), listed(metrics));
            format!("{host} differs from the other hosts: {metrics} of {side} ({place})")
        }
        other => information(analysis, other),
    }
}

/// Plans that lack runs, and the command that makes those of a single plan.
fn unfinished(analysis: &Analysis, plans: &[String], missing: &[(String, MissingPart)]) -> String {
    let names = listed(plans);
    let missing = missing_parts(analysis, missing);
    let go_on = match plans {
        [plan] if missing.is_empty() => {
            format!("; to go on: schedlab run --resume {plan}{}", analysis.store)
        }
        _ => String::new(),
    };
    format!("not ended, or interrupted, and analysed as far as it went: {names}{missing}{go_on}")
}

fn information(analysis: &Analysis, note: &Note) -> String {
    match note {
        Note::FewBoots { baseline, other, needed } => {
            let [own, others] = [baseline, other]
                .map(|(side, boots)| format!("{side} has {}", counted(*boots, "boot")));
            format!(
                "boot-to-boot variation is not covered ({own}, {others}): reboot into each in \
                 turn, {needed} times or more, run the plan each time and compare all of these \
                 plans"
            )
        }
        Note::Repeated { side, runs } => format!(
            "{side}: exact runs that its other plans have too count once ({}); give each plan a \
             --seed of its own for other trajectories",
            counted(*runs, "run")
        ),
        Note::Rebuilt { plan, variant, kernels } => {
            let kernels = kernels.join(", then ");
            format!("{plan}: the kernel of {variant} was rebuilt between rounds: {kernels}")
        }
        Note::VersionsDiffer { set, versions } => {
            let versions = versions.iter().map(|(of, sides)| format!("{of} in {}", listed(sides)));
            format!("{set}: the program is not of one version: {}", joined(versions, "; "))
        }
        Note::HostAndLab => "virtual time and a host's clock stand next to each other (--mixed): \
                             in the lab an instruction takes a fixed time and there are no caches"
            .to_string(),
        Note::NotExact { side, runs, of, why } => {
            format!("{side}: NOT exact in {runs} of {}: {}", counted(*of, "run"), one_line(why))
        }
        Note::Invented => "the backend invents its figures".to_string(),
        Note::CoarseTimers { sides } => {
            let sides = sides.iter().map(|(side, ns)| format!("{side} ({})", show_duration(*ns)));
            format!("timers go off at ticks alone in {}", listed(&sides.collect::<Vec<_>>()))
        }
        Note::Builds { release, digests } => {
            format!("several builds of kernel {release} (digests {})", listed(digests))
        }
        Note::Unfinished { plans, missing } => unfinished(analysis, plans, missing),
        Note::GoneRuns { plan, runs, of } => {
            format!("plan {plan} ended complete after {of} runs, of which {runs} are here")
        }
        Note::OtherRuns { side, runs, plans } => {
            let (runs, plans) = (counted(*runs, "further run"), listed(plans));
            format!("{side}: {runs} of work that was not compared ({plans})")
        }
        Note::ProbeSilent { probe } => {
            format!("the probe {probe} counted no switches of some worker sets")
        }
        Note::NoSolo { work, sets } => {
            format!(
                "{work}: no fairness, since the plan has no solo run of {}: solo = true in its \
                 [[workload]] (schedlab help method)",
                listed(sets)
            )
        }
        Note::NotAtOneTime { work, sets } => {
            let sets = listed(sets);
            format!("{work}: no fairness, since sets begin, end or change in mid-run: {sets}")
        }
        Note::WeightsUnheeded { work, of } => weights_unheeded(work, of),
        other => two_speeds(other),
    }
}

fn weights_unheeded(work: &str, of: &Unheeded) -> String {
    let weights = match of.weights {
        Weights::Nice => "nice values",
        Weights::Cgroups => "weights and limits of cgroups",
    };
    let why = if of.is_known {
        format!("{weights} have no effect under its scheduler, scx {}", of.scheduler)
    } else {
        format!("whether its scheduler, scx {}, heeds {weights} is not known", of.scheduler)
    };
    format!("{work}: no fairness under {}: {why}", of.variant)
}

/// Describes the states between which runs switch.
fn two_speeds(note: &Note) -> String {
    let Note::TwoSpeeds { work, set, low, high, in_high } = note else { return carry_over(note) };
    let scale = Scale::for_values(Unit::OpsPerS, Some(*high));
    let [low, high] = [*low, *high].map(|rate| scale.with_suffix(Some(rate)));
    let shares = in_high.iter().map(|(side, share)| format!("{side} {:.0} %", 100.0 * share));
    let (place, shares) = (place(work, set), joined(shares, ", "));
    format!(
        "{place}: runs switch between two speeds, {low} and {high}; time at the higher one: {shares}"
    )
}

/// Describes the sides for which blocks are too short.
fn carry_over(note: &Note) -> String {
    let Note::CarryOver { work, set, sides } = note else { return calibration(note) };
    let change = |(side, ratio): &(String, f64)| format!("{side} {:+.1} %", 100.0 * (ratio - 1.0));
    format!(
        "{}: blocks are too short: from their early to their late halves the throughput against the baseline \
         changes: {}; take longer turns, or separate runs",
        place(work, set),
        joined(sides.iter().map(change), ", ")
    )
}

/// Describes why work in time may be off.
fn calibration(note: &Note) -> String {
    match note {
        Note::LooseCalibration { plan, spread } => format!(
            "{plan}: the machine was busy or changed its speed while it was calibrated (the median \
             sample took {:.0} % longer than the fastest): work in time may be off by as much",
            100.0 * spread
        ),
        Note::CalibrationsDiffer { plans: [least, most], share } => format!(
            "work in time is {:.1} % more work in {most} than in {least}: by so much the machine was \
             faster, or the calibration less disturbed",
            100.0 * share
        ),
        Note::CalibrationDrift { plan, slower } => {
            let (how, much) = if *slower > 0.0 { ("slower", "more") } else { ("faster", "less") };
            format!(
                "{plan}: the machine became {:.1} % {how} while it ran: bursts took up to that \
                 much {much} time than the plan gives them",
                100.0 * slower.abs(),
            )
        }
        _ => String::new(),
    }
}

/// `web threads=4 (3 of 9)`; runs that failed are in none of these rounds.
fn of_works(analysis: &Analysis, works: &[(String, usize, usize)]) -> String {
    let fails = analysis.plans.iter().any(|plan| plan.rounds_failed > 0);
    let measured = if fails { " measured" } else { "" };
    let shown =
        works.iter().map(|(work, rounds, of)| format!("{work} ({rounds} of {of}{measured})"));
    listed(&shown.collect::<Vec<_>>())
}

/// `; asked for: 5 rounds, measured again: 3`.
fn measured_again(analysis: &Analysis) -> String {
    let plans = analysis.plans.iter().filter(|plan| plan.measured_again() > 0);
    let (asked, again) = plans.fold((0, 0), |(asked, again), plan| {
        (asked + plan.measure.rounds as usize, again + plan.measured_again() as usize)
    });
    match again {
        0 => String::new(),
        _ => format!("; asked for: {}, measured again: {again}", counted(asked, "round")),
    }
}
