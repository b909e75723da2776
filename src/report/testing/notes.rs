//! One note of each kind.

use crate::analysis::{
    Difference, HostKind, NoValue, Note, Pooled, Unheeded, UselessKnob, Weights,
};
use crate::model::{Disturbance, DisturbanceFact, DisturbanceKind, KnobReading, Reading, Value};
use crate::stats::NoEffect;

/// One of each, about things of this name; a new one does not compile until it is here.
pub fn notes(name: &str) -> Vec<Note> {
    let name = || name.to_string();
    let names = || vec![name(), name()];
    let value = || Value::Text(name());
    let mismatch = || KnobReading { knob: name(), asked: value(), got: Reading::Known(value()) };
    let disturbance = Disturbance {
        share: Some(0.3),
        fact: DisturbanceFact::Text { kind: DisturbanceKind::Steal, detail: name() },
    };
    let mut all = vec![
        Note::CoarseTimers { sides: vec![(name(), 4_000_000)] },
        Note::Failed {
            side: name(),
            work: name(),
            runs: 3,
            of: 10,
            reason: format!("{}\nhint: schedlab doctor", name()),
            others: 1,
        },
        Note::Skipped { sides: names(), works: names(), reason: name() },
        Note::NoValue(NoValue {
            side: name(),
            work: name(),
            set: name(),
            metrics: names(),
            runs: 1,
            of: 1,
            reason: Some(name()),
        }),
        Note::NoRatio {
            sides: names(),
            work: name(),
            set: name(),
            metrics: names(),
            why: NoEffect::NotFinite { round: 2, value: f64::INFINITY },
        },
        Note::KnobNeverTook { side: name(), knob: name(), asked: value(), works: names() },
        Note::OnlyOn { works: names(), sides: names() },
        Note::KnobsDiffer { work: name(), side: name(), variant: name() },
        Note::MixedVariants { work: name(), side: name(), variants: names() },
        Note::UnitChanged { work: name(), set: name(), metric: name() },
        Note::Disturbed {
            kind: DisturbanceKind::Steal,
            runs: vec![(name(), 1, 10), (name(), 0, 10)],
            worst: disturbance.clone(),
        },
        Note::BoundElsewhere { runs: vec![(name(), 1, 10)], worst: disturbance },
        Note::SpoiltRounds { works: vec![(name(), 1, 10)] },
        Note::AllSpoilt { works: vec![(name(), 9, 10)] },
        Note::Knob { side: name(), mismatch: mismatch(), runs: 1, of: 10 },
        Note::KnobWithoutEffect(UselessKnob {
            side: name(),
            knob: name(),
            works: names(),
            scheduler: Some(name()),
            own_of_sets: false,
        }),
        Note::Unpaired,
        Note::UnpairedExact { same_seeds: false, emulators: names() },
        Note::SpreadsDiffer { metrics: 1 },
        Note::MachinesDiffer { sides: vec![(name(), names()), (name(), names())] },
        Note::Pooled { sides: vec![name()], what: Pooled::Kernels, names: names() },
        Note::ResumedElsewhere { plan: name(), places: vec![(name(), name()), (name(), name())] },
        Note::FewBoots { baseline: (name(), 1), other: (name(), 2), needed: 3 },
        Note::Repeated { side: name(), runs: 1 },
        Note::Rebuilt { plan: name(), variant: name(), kernels: names() },
        Note::VersionsDiffer { set: name(), versions: vec![(name(), names()), (name(), names())] },
        Note::LooseCalibration { plan: name(), spread: 0.12 },
        Note::CalibrationsDiffer { plans: [name(), name()], share: 0.05 },
        Note::CalibrationDrift { plan: name(), slower: -0.02 },
        Note::HostAndLab,
        Note::NotExact { side: name(), runs: 1, of: 10, why: name() },
        Note::TwoSpeeds {
            work: name(),
            set: name(),
            low: 61_000.0,
            high: 224_000.0,
            in_high: vec![(name(), 0.34), (name(), 0.8)],
        },
        Note::CarryOver { work: name(), set: name(), sides: vec![(name(), 0.93), (name(), 1.04)] },
        Note::Builds { release: name(), digests: names() },
        Note::Invented,
        Note::Unfinished { plans: names(), missing: Vec::new() },
        Note::GoneRuns { plan: name(), runs: 9, of: 10 },
        Note::OtherRuns { side: name(), runs: 1, plans: names() },
        Note::ProbeSilent { probe: name() },
        Note::NoSolo { work: name(), sets: names() },
        Note::NotAtOneTime { work: name(), sets: names() },
        Note::WeightsUnheeded {
            work: name(),
            of: Unheeded {
                variant: name(),
                scheduler: name(),
                weights: Weights::Cgroups,
                is_known: true,
            },
        },
        Note::OtherPlan { plans: vec![(name(), name())], why: Difference::Machines },
        Note::TooFewHosts { hosts: 2, least: 6 },
        Note::HostKinds {
            kinds: vec![HostKind {
                cpu_model: Reading::Known(name()),
                kernels: names(),
                hosts: names(),
            }],
        },
        Note::HostDiffers {
            host: name(),
            side: name(),
            work: name(),
            set: name(),
            metrics: names(),
        },
    ];
    all.extend(differences(&name).map(|difference| Note::NotSameWork {
        works: names(),
        sides: names(),
        others: names(),
        why: difference,
    }));
    all.sort_by_key(Note::severity);
    assert!(all.iter().map(position).collect::<std::collections::BTreeSet<_>>().len() == NOTES);
    all
}

const NOTES: usize = 47;

/// The position of each kind of note in its enum.
fn position(note: &Note) -> usize {
    use Note::*;
    match note {
        CoarseTimers { .. } => 32,
        LooseCalibration { .. } => 33,
        CalibrationsDiffer { .. } => 35,
        CalibrationDrift { .. } => 34,
        Failed { .. } => 0,
        Skipped { .. } => 1,
        NoValue { .. } => 2,
        NoRatio { .. } => 3,
        KnobNeverTook { .. } => 4,
        NotSameWork { .. } => 5,
        OnlyOn { .. } => 6,
        KnobsDiffer { .. } => 7,
        MixedVariants { .. } => 8,
        UnitChanged { .. } => 9,
        Disturbed { .. } => 10,
        SpoiltRounds { .. } => 11,
        AllSpoilt { .. } => 12,
        Knob { .. } => 13,
        KnobWithoutEffect { .. } => 14,
        Unpaired => 15,
        UnpairedExact { .. } => 16,
        SpreadsDiffer { .. } => 17,
        MachinesDiffer { .. } => 18,
        Pooled { .. } => 19,
        ResumedElsewhere { .. } => 20,
        FewBoots { .. } => 21,
        Repeated { .. } => 22,
        Rebuilt { .. } => 23,
        HostAndLab => 24,
        NotExact { .. } => 25,
        Builds { .. } => 26,
        Invented => 27,
        Unfinished { .. } => 28,
        OtherRuns { .. } => 29,
        ProbeSilent { .. } => 30,
        NoSolo { .. } => 31,
        NotAtOneTime { .. } => 37,
        VersionsDiffer { .. } => 36,
        OtherPlan { .. } => 38,
        TooFewHosts { .. } => 39,
        HostKinds { .. } => 40,
        HostDiffers { .. } => 41,
        WeightsUnheeded { .. } => 42,
        BoundElsewhere { .. } => 43,
        GoneRuns { .. } => 44,
        TwoSpeeds { .. } => 45,
        CarryOver { .. } => 46,
    }
}

fn differences(name: &dyn Fn() -> String) -> [Difference; 11] {
    [
        Difference::Backend(name(), name()),
        Difference::Guests,
        Difference::Time { what: "duration", own_ns: 1, other_ns: 2 },
        Difference::Probes(Vec::new(), vec![name()]),
        Difference::Placement,
        Difference::VariantKnobs,
        Difference::Sets(1, 2),
        Difference::Field { set: name(), field: name(), own: name(), other: name() },
        Difference::SetKnobs(name()),
        Difference::OnlyOne(name()),
        Difference::Machines,
    ]
}
