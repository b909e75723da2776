//! Which rounds of a work count: those that load from outside did not spoil.
//!
//! Input: what disturbed the runs. Output: rounds. Pure; the engine, which measures spoilt rounds
//! again, and the analysis, which leaves them out, both decide by this.
//!
//! The rule looks at disturbances alone, never at values, and a round of a work counts for all of
//! its variants or for none. Swapping the labels of two variants changes nothing of it, so tests
//! that flip signs within rounds stay exact. docs/verdicts.md says more.

use std::collections::{BTreeMap, BTreeSet};

use super::DisturbanceKind;

/// A run is spoilt where others used this share of the pool's CPU time: a saturated workload
/// loses as much of its throughput, more than the 2 % by which SAME is judged. What an idle
/// machine does by itself stays below it, in runs of half a second, too.
pub const SPOILT_BY_LOAD: f64 = 0.05;
/// As [`SPOILT_BY_LOAD`], of time that the hypervisor took. Stolen time stops a CPU for whole
/// slices of the host, so it reaches a 99th percentile sooner than a competing task does.
pub const SPOILT_BY_STEAL: f64 = 0.02;

/// Whether these disturbances of a run, each with its share of the pool's CPU time, spoilt it.
pub fn is_spoilt(disturbances: impl IntoIterator<Item = (DisturbanceKind, Option<f64>)>) -> bool {
    disturbances.into_iter().any(|(kind, share)| {
        let limit = match kind {
            DisturbanceKind::OutsideLoad => SPOILT_BY_LOAD,
            DisturbanceKind::Steal => SPOILT_BY_STEAL,
            _ => return false,
        };
        share.is_some_and(|share| share >= limit)
    })
}

/// The rounds of one work that were measured, and which of them are spoilt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkRounds(BTreeMap<u32, bool>);

/// Which rounds of a work count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountedRounds {
    /// All but these.
    Clean { spoilt: BTreeSet<u32> },
    /// All, these spoilt ones too: so few are clean that nothing could be said without them.
    TooFewClean { spoilt: BTreeSet<u32> },
}

impl WorkRounds {
    /// A run of the work, of any variant: one that is spoilt spoils its round.
    pub fn add(&mut self, round: u32, is_spoilt: bool) {
        *self.0.entry(round).or_default() |= is_spoilt;
    }

    /// Clean rounds of those before `round`.
    pub fn clean_before(&self, round: u32) -> u32 {
        self.0.range(..round).filter(|(_, is_spoilt)| !**is_spoilt).count() as u32
    }

    pub fn spoilt(&self) -> u32 {
        self.0.values().filter(|is_spoilt| **is_spoilt).count() as u32
    }

    /// Clean rounds count. If in the end fewer than half are clean, and fewer than `needed` for
    /// any verdict, all do. Not before the end: what a look saw must stay what it was.
    pub fn counted(&self, needed: u32, has_ended: bool) -> CountedRounds {
        let spoilt: BTreeSet<u32> =
            self.0.iter().filter(|(_, is_spoilt)| **is_spoilt).map(|(round, _)| *round).collect();
        let clean = self.0.len() - spoilt.len();
        match has_ended && clean < spoilt.len() && clean < needed as usize {
            true => CountedRounds::TooFewClean { spoilt },
            false => CountedRounds::Clean { spoilt },
        }
    }
}

impl CountedRounds {
    pub fn counts(&self, round: u32) -> bool {
        match self {
            CountedRounds::Clean { spoilt } => !spoilt.contains(&round),
            CountedRounds::TooFewClean { .. } => true,
        }
    }

    pub fn spoilt(&self) -> &BTreeSet<u32> {
        match self {
            CountedRounds::Clean { spoilt } | CountedRounds::TooFewClean { spoilt } => spoilt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_and_steal_from_their_limits_on_spoil_a_run() {
        use DisturbanceKind::*;
        type Shares = &'static [(DisturbanceKind, Option<f64>)];
        let cases: &[(Shares, bool)] = &[
            (&[], false),
            (&[(OutsideLoad, Some(0.049))], false),
            (&[(OutsideLoad, Some(0.05))], true),
            (&[(Steal, Some(0.019)), (OutsideLoad, Some(0.03))], false),
            (&[(Steal, Some(0.02))], true),
            (&[(Throttling, None), (CpuHotplug, Some(0.5))], false),
            (&[(OutsideLoad, None), (Steal, Some(f64::NAN))], false),
            (&[(ClockStep, None), (OutsideLoad, Some(1.0))], true),
        ];
        for (disturbances, expected) in cases {
            assert_eq!(is_spoilt(disturbances.iter().copied()), *expected, "{disturbances:?}");
        }
    }

    fn rounds(clean: u32, spoilt: u32) -> WorkRounds {
        let mut rounds = WorkRounds::default();
        (0..clean + spoilt).for_each(|round| rounds.add(round, round < spoilt));
        rounds
    }

    #[test]
    fn one_spoilt_run_spoils_the_round_of_all_variants() {
        let mut rounds = rounds(3, 0);
        for is_spoilt in [false, true, false] {
            rounds.add(1, is_spoilt);
        }
        assert_eq!((rounds.clean_before(3), rounds.clean_before(2)), (2, 1));
        let counted = rounds.counted(6, true);
        assert_eq!([0, 1, 2].map(|round| counted.counts(round)), [true, false, true]);
        assert_eq!(counted.spoilt().iter().collect::<Vec<_>>(), [&1]);
    }

    #[test]
    fn all_rounds_count_where_the_clean_ones_say_nothing() {
        // Clean, spoilt, whether it has ended, whether the spoilt ones count.
        let cases = [
            (5, 5, true, false),
            (5, 6, true, true),
            (5, 6, false, false),
            (6, 60, true, false),
            (0, 1, true, true),
            (0, 0, true, false),
        ];
        for (clean, spoilt, has_ended, expected) in cases {
            let counted = rounds(clean, spoilt).counted(6, has_ended);
            let is_all = matches!(counted, CountedRounds::TooFewClean { .. });
            assert_eq!(is_all, expected, "{clean} {spoilt} {has_ended}");
            assert_eq!(counted.spoilt().len(), spoilt as usize);
            assert_eq!(counted.counts(0), expected || spoilt == 0);
        }
    }
}
