//! Decides which rounds of a work count: those that load from outside did not spoil.
//!
//! Input: what disturbed the runs. Output: rounds. Pure; the engine, which measures spoilt rounds again, and the
//! analysis, which leaves them out, both decide by this.
//!
//! The rule looks at disturbances alone, never at values, and a round of a work counts for all of its variants or
//! for none. Swapping the labels of two variants changes nothing in it, so tests that flip signs within rounds stay
//! exact. docs/verdicts.md says more.

use std::collections::{BTreeMap, BTreeSet};

use super::DisturbanceKind;

/// A run is spoilt where others used this share of the pool's CPU time: a saturated workload loses as much of its
/// throughput, more than the 2 % by which SAME is judged. The background load of an idle machine stays below it, in
/// runs of half a second, too.
pub const SPOILT_BY_LOAD: f64 = 0.05;
/// Like [`SPOILT_BY_LOAD`], for time that the hypervisor took. Stolen time stops a CPU for whole slices of the
/// host, so it reaches a 99th percentile sooner than a competing task does.
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

/// The measured rounds of one work, and whether each is spoilt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkRounds(BTreeMap<u32, bool>);

/// How many rounds a work gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundLimits {
    /// Clean ones that are asked for.
    pub rounds: u32,
    /// The most rounds in all, including those that replace spoilt ones.
    pub max_rounds: u32,
    /// Clean rounds that any verdict needs; 0: not known.
    pub needed: u32,
}

/// After this number of spoilt rounds in a row the load from outside is taken to stay.
const MIN_SPOILT_IN_A_ROW: u32 = 3;

/// The rounds of a work that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountedRounds {
    /// All rounds but these.
    Clean { spoilt: BTreeSet<u32> },
    /// All, these spoilt ones too: most are, and without them nothing could be said, or the plan counts all.
    TooFewClean { spoilt: BTreeSet<u32> },
}

impl WorkRounds {
    /// A run of the work, of any variant: one that is spoilt spoils its round.
    pub fn add(&mut self, round: u32, is_spoilt: bool) {
        *self.0.entry(round).or_default() |= is_spoilt;
    }

    /// Whether a further round is wanted after `done` of them, which have numbers below `next`.
    pub fn wants(&self, done: u32, next: u32, limits: RoundLimits) -> bool {
        Tally::count(self.0.range(..next).map(|(_, is_spoilt)| *is_spoilt)).wants(done, limits)
    }

    /// The number of rounds in the end if no further one is spoilt.
    pub fn total(&self, limits: RoundLimits) -> u32 {
        let (mut tally, mut total) = (Tally::count(self.0.values().copied()), self.0.len() as u32);
        while tally.wants(total, limits) {
            tally.add(false);
            total += 1;
        }
        total
    }

    /// The number of rounds in the end if the further ones are spoilt as often as so far.
    pub fn expected(&self, limits: RoundLimits) -> f64 {
        let tally = Tally::count(self.0.values().copied());
        let done = self.0.len() as u32;
        if done == 0 {
            return f64::from(limits.rounds);
        }
        let spoilt = f64::from(tally.spoilt) / f64::from(done);
        let planned = limits.rounds.max(done);
        let of_planned = f64::from(planned) * spoilt;
        let at_end = Tally {
            clean: planned - of_planned.round() as u32,
            spoilt: of_planned.round() as u32,
            in_a_row: if tally.clean == 0 { planned } else { tally.in_a_row },
        };
        if !at_end.wants(planned, limits) {
            return f64::from(planned);
        }
        let clean = f64::from(planned) - of_planned;
        let more = (f64::from(limits.rounds) - clean).max(0.0) / (1.0 - spoilt).max(f64::EPSILON);
        (f64::from(planned) + more).min(f64::from(limits.max_rounds))
    }

    /// Clean rounds count. If in the end fewer than half are clean, and fewer than `needed` for any verdict, all
    /// do. Before the end only clean ones count, so that a look's data do not change.
    pub fn counted(&self, needed: u32, has_ended: bool) -> CountedRounds {
        let spoilt: BTreeSet<u32> =
            self.0.iter().filter(|(_, is_spoilt)| **is_spoilt).map(|(round, _)| *round).collect();
        let clean = (self.0.len() - spoilt.len()) as u32;
        if has_ended && are_too_few(clean, spoilt.len() as u32, needed) {
            CountedRounds::TooFewClean { spoilt }
        } else {
            CountedRounds::Clean { spoilt }
        }
    }

    /// All rounds count, whatever spoilt them.
    pub fn all(&self) -> CountedRounds {
        match self.counted(u32::MAX, true) {
            CountedRounds::Clean { .. } => CountedRounds::Clean { spoilt: BTreeSet::new() },
            most => most,
        }
    }
}

fn are_too_few(clean: u32, spoilt: u32, needed: u32) -> bool {
    clean < spoilt && clean < needed
}

/// The numbers of clean and of spoilt rounds.
#[derive(Default)]
struct Tally {
    clean: u32,
    spoilt: u32,
    /// Spoilt ones since the last clean one.
    in_a_row: u32,
}

impl Tally {
    fn count(rounds: impl Iterator<Item = bool>) -> Tally {
        let mut tally = Tally::default();
        rounds.for_each(|is_spoilt| tally.add(is_spoilt));
        tally
    }

    fn add(&mut self, is_spoilt: bool) {
        if is_spoilt {
            self.spoilt += 1;
            self.in_a_row += 1;
        } else {
            self.clean += 1;
            self.in_a_row = 0;
        }
    }

    /// Whether a work needs another round: all planned rounds, then one for each clean one that is missing; but no
    /// rounds that could not make the clean ones count, and none where half of the plan's rounds in a row were
    /// spoilt.
    fn wants(&self, done: u32, limits: RoundLimits) -> bool {
        if done < limits.rounds {
            return true;
        }
        let left = limits.max_rounds.saturating_sub(done);
        let in_a_row = limits.rounds.div_ceil(2).max(MIN_SPOILT_IN_A_ROW);
        left > 0
            && self.clean < limits.rounds
            && self.in_a_row < in_a_row
            && !are_too_few(self.clean + left, self.spoilt, limits.needed)
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

    const TEN: RoundLimits = RoundLimits { rounds: 10, max_rounds: 15, needed: 8 };

    /// Rounds in order: `#` is spoilt.
    fn drawn(text: &str) -> WorkRounds {
        let mut rounds = WorkRounds::default();
        (0..).zip(text.chars()).for_each(|(round, of)| rounds.add(round, of == '#'));
        rounds
    }

    #[test]
    fn rounds_are_repeated_as_long_as_that_can_give_clean_ones() {
        let cases = [
            ("..........", false, "all are clean"),
            (".........", true, "one is not done"),
            ("#########", true, "planned rounds are done whatever spoils them"),
            ("##########", false, "what spoils them stays"),
            (".....#####", false, "it came and stays"),
            ("......####", true, "it may have gone"),
            ("......#####", false, "it has not"),
            ("#####.....", true, "it has gone"),
            ("#.#.#.#.#.#.#", true, "half of them"),
            ("##.##.##.##.##", false, "five more could not make the clean ones count"),
            ("#.........", true, "one lacks"),
            ("#..........", false, "none lacks any more"),
            ("#.#.#.#.#.#.#.#", false, "half as many again are the limit"),
        ];
        for (text, expected, why) in cases {
            let (rounds, done) = (drawn(text), text.len() as u32);
            assert_eq!(rounds.wants(done, done, TEN), expected, "{text}: {why}");
        }
        // From this number on clean rounds count, however many are spoilt.
        let many = RoundLimits { rounds: 100, max_rounds: 150, needed: 8 };
        let most = drawn(&"##.".repeat(34));
        assert!(most.wants(102, 102, many));
        assert!(drawn(&"##.".repeat(4)).wants(12, 12, RoundLimits { needed: 0, ..TEN }));
    }

    #[test]
    fn a_total_ends_where_rounds_are_wanted_no_more() {
        for (text, total, expected) in [
            ("", 10, 10.0),
            ("....", 10, 10.0),
            ("#...", 11, 13.0),
            ("####", 14, 10.0),
            ("##########", 10, 10.0),
            ("#.#.#.#.", 14, 15.0),
            ("..........", 10, 10.0),
            ("#..........", 11, 11.0),
        ] {
            let rounds = drawn(text);
            let is_near = (rounds.expected(TEN) - expected).abs() < 1.0;
            assert_eq!(
                (rounds.total(TEN), is_near),
                (total, true),
                "{text}: {}",
                rounds.expected(TEN)
            );
        }
    }
}
