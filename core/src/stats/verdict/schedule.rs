//! When to look at data that are still coming in, and the share of alpha that each look may spend.
//!
//! Input: rounds done. Output: the looks and the part of alpha that each may spend. Pure. Source: the union bound
//! over looks fixed beforehand (Bonferroni; Lan and DeMets, Biometrika 70, 1983, spend more cleverly under normal
//! noise). Docs: docs/verdicts.md.

use crate::model::{LookRule, Measure};

/// The shares, by [`LookRule::Even`], of the error rate that earlier looks left: of a planned look, and of the look
/// at an end. The rest is for rounds that are added after the end.
const SPENT_BY_LOOK: f64 = 0.1;
const SPENT_BY_END: f64 = 0.9;

/// The looks of a plan: those of its rule, and one at each end after which rounds were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    pub rule: LookRule,
    /// How many rounds were done at each end, ascending. [`LookRule::Early`] allows none.
    pub ends: Vec<u32>,
}

/// One look: after how many rounds, and which share of alpha it may spend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    pub rounds: u32,
    pub share: f64,
}

impl Schedule {
    /// The looks of a plan that is measured until it is decided.
    pub fn from_measure(measure: &Measure) -> Schedule {
        Schedule { rule: measure.looks, ends: measure.ends.clone() }
    }

    /// The numbers of rounds after which the rule looks, up to the largest number.
    fn planned(&self) -> impl Iterator<Item = u32> {
        let (first, tenths) = match self.rule {
            LookRule::Early => (8, 13),
            LookRule::Even => (10, 15),
        };
        std::iter::successors(Some(first), move |rounds: &u32| {
            u32::try_from((u64::from(*rounds) * tenths + 5) / 10).ok()
        })
    }

    /// The first planned look after more than `rounds_done` rounds.
    pub fn next_look(&self, rounds_done: u32) -> Option<u32> {
        self.planned().find(|rounds| *rounds > rounds_done)
    }

    /// Whether a plan looks after this number of rounds, whatever happens later.
    pub fn is_look(&self, rounds_done: u32) -> bool {
        rounds_done > 0 && self.next_look(rounds_done - 1) == Some(rounds_done)
    }

    /// The looks at `rounds_done` rounds in turn. `has_ended`: measuring has ended, and not because of a look's
    /// verdicts; the last look is then at all rounds.
    pub fn looks_at(&self, rounds_done: u32, has_ended: bool) -> Vec<Look> {
        let mut rounds: Vec<u32> =
            self.planned().take_while(|rounds| *rounds <= rounds_done).collect();
        let ends = self.ends.iter().copied().filter(|end| (1..=rounds_done).contains(end));
        let ends: Vec<u32> =
            ends.chain((has_ended && rounds_done > 0).then_some(rounds_done)).collect();
        rounds.extend(&ends);
        rounds.sort_unstable();
        rounds.dedup();
        let mut left = 1.0;
        let looks = rounds.into_iter().zip(1u32..).map(|(rounds, k)| {
            let part = match (self.rule, ends.contains(&rounds)) {
                // The k-th has 1 / (k (k + 1)); before it 1 / k was left.
                (LookRule::Early, false) => 1.0 / (f64::from(k) + 1.0),
                (LookRule::Early, true) => 1.0,
                (LookRule::Even, false) => SPENT_BY_LOOK,
                (LookRule::Even, true) => SPENT_BY_END,
            };
            let share = left * part;
            left -= share;
            Look { rounds, share }
        });
        looks.collect()
    }

    /// Looks to come after `rounds_done` rounds, up to `limit` rounds: those of the rule, or,
    /// where measuring has ended, a look at any number of rounds to which some are added.
    pub(super) fn later_looks(&self, rounds_done: u32, has_ended: bool, limit: u32) -> Vec<Look> {
        if !has_ended || self.rule == LookRule::Early {
            let looks = self.looks_at(limit, false).into_iter();
            return looks.filter(|look| look.rounds > rounds_done).collect();
        }
        let mut ends = self.ends.clone();
        ends.push(rounds_done);
        let extended = Schedule { ends, ..self.clone() };
        let added = rounds_done.saturating_add(1)..=limit;
        added.filter_map(|rounds| extended.looks_at(rounds, true).pop()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(ends: &[u32]) -> Schedule {
        Schedule { rule: LookRule::Even, ends: ends.to_vec() }
    }

    fn rounds_of(looks: &[Look]) -> Vec<u32> {
        looks.iter().map(|look| look.rounds).collect()
    }

    #[test]
    fn looks_grow_and_share_alpha() {
        let early = Schedule::default().looks_at(83, false);
        assert_eq!(rounds_of(&early), [8, 10, 13, 17, 22, 29, 38, 49, 64, 83]);
        assert_eq!((early[0].share, early[1].share), (1.0 / 2.0, 1.0 / 6.0));
        let even = even(&[]).looks_at(60, false);
        assert_eq!(rounds_of(&even), [10, 15, 23, 35, 53]);
        assert!(even.windows(2).all(|pair| pair[1].share < pair[0].share), "{even:?}");
        for schedule in [Schedule::default(), self::even(&[]), self::even(&[20, 21, 400])] {
            for has_ended in [false, true] {
                let looks = schedule.looks_at(100_000, has_ended);
                let all: f64 = looks.iter().map(|look| look.share).sum();
                assert!(all <= 1.0 + 1e-12 && all > 0.9, "{schedule:?}: {all}");
            }
        }
    }

    #[test]
    fn the_next_look_is_after_the_rounds_that_are_done() {
        let cases = [(0, 8), (7, 8), (8, 10), (9, 10), (38, 49), (82, 83), (83, 108)];
        for (done, expected) in cases {
            assert_eq!(Schedule::default().next_look(done), Some(expected), "{done}");
            assert!(
                Schedule::default().is_look(expected) && !Schedule::default().is_look(expected + 1)
            );
        }
        assert!(!Schedule::default().is_look(0));
    }

    #[test]
    fn looks_of_the_early_rule_spend_alpha_once() {
        let cases: &[(u32, bool, &[u32], f64)] = &[
            (0, false, &[], 0.0),
            (0, true, &[], 0.0),
            (7, false, &[], 0.0),
            (7, true, &[7], 1.0),
            (8, false, &[8], 0.5),
            (8, true, &[8], 1.0),
            (12, false, &[8, 10], 2.0 / 3.0),
            (12, true, &[8, 10, 12], 1.0),
            (13, true, &[8, 10, 13], 1.0),
        ];
        for (done, has_ended, expected, spent) in cases {
            let looks = Schedule::default().looks_at(*done, *has_ended);
            let shares: f64 = looks.iter().map(|look| look.share).sum();
            assert_eq!(rounds_of(&looks), *expected, "{done} {has_ended}");
            assert!((shares - spent).abs() < 1e-12, "{done} {has_ended}: {shares}");
        }
    }

    #[test]
    fn an_end_leaves_something_for_rounds_that_are_added() {
        let ended = even(&[]).looks_at(19, true);
        assert_eq!(rounds_of(&ended), [10, 15, 19]);
        // Earlier looks stay the same, whatever is added.
        let more = even(&[19]).looks_at(40, true);
        assert_eq!(more[..3], ended);
        assert_eq!(rounds_of(&more[3..]), [23, 35, 40]);
        assert!(more.iter().all(|look| look.share > 0.0), "{more:?}");
        let later = even(&[]).later_looks(19, true, 40);
        assert_eq!((later[0].rounds, later.len()), (20, 21));
        assert_eq!(later.last(), more.last());
        assert_eq!(rounds_of(&even(&[]).later_looks(19, false, 40)), [23, 35]);
        assert_eq!(rounds_of(&Schedule::default().later_looks(9, true, 20)), [10, 13, 17]);
    }
}
