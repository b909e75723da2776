//! When to look at data that are still coming in, and what each look may spend.
//!
//! Input: rounds done. Output: the next look and its part of alpha. Pure.
//! Source: the union bound over looks fixed beforehand (Bonferroni; Lan and DeMets, Biometrika
//! 70, 1983, spend more cleverly under normal noise). Docs: docs/verdicts.md.

/// Looks at growing numbers of rounds: the first, then each about 1.3 times the one before. The
/// k-th has the share 1 / (k (k + 1)) of alpha; all shares together are 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    pub first: u32,
}

/// One look: after how many rounds, and which share of alpha it may spend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    pub rounds: u32,
    pub share: f64,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { first: 8 }
    }
}

impl Schedule {
    /// All looks, without end but that of the numbers.
    pub fn looks(self) -> impl Iterator<Item = Look> {
        // At least one round more each time, so that a small first look moves on.
        let grown = |rounds: &u32| {
            let next = (u64::from(*rounds) * 13 + 5) / 10;
            u32::try_from(next.max(u64::from(*rounds) + 1)).ok()
        };
        let rounds = std::iter::successors(Some(self.first.max(1)), grown);
        rounds.zip(1u32..).map(|(rounds, k)| {
            let k = f64::from(k);
            Look { rounds, share: 1.0 / (k * (k + 1.0)) }
        })
    }

    /// The first look after more than `rounds_done` rounds.
    pub fn next_look(self, rounds_done: u32) -> Option<Look> {
        self.looks().find(|look| look.rounds > rounds_done)
    }

    /// The looks at `rounds_done` rounds in turn. Where measuring has ended for good between
    /// two looks, the last is at all rounds and has what is left: 1 / (k + 1) after k looks.
    /// That is valid if what ended it (a budget of time) did not look at the labels.
    pub fn looks_at(self, rounds_done: u32, has_ended: bool) -> Vec<Look> {
        let mut looks: Vec<Look> =
            self.looks().take_while(|look| look.rounds <= rounds_done).collect();
        let left = 1.0 / (looks.len() as f64 + 1.0);
        match looks.last().map(|look| look.rounds) {
            Some(last) if has_ended && last == rounds_done => {
                // It was the last: what the later ones would have had is its own.
                if let Some(look) = looks.last_mut() {
                    look.share += left;
                }
            }
            _ if has_ended && rounds_done > 0 => {
                looks.push(Look { rounds: rounds_done, share: left });
            }
            _ => {}
        }
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_and_share_alpha() {
        let looks: Vec<Look> = Schedule::default().looks().take(10).collect();
        let rounds: Vec<u32> = looks.iter().map(|look| look.rounds).collect();
        assert_eq!(rounds, [8, 10, 13, 17, 22, 29, 38, 49, 64, 83]);
        assert_eq!((looks[0].share, looks[1].share), (1.0 / 2.0, 1.0 / 6.0));
        let all: f64 = Schedule { first: 1 }.looks().map(|look| look.share).sum();
        assert!(all < 1.0 && all > 0.98, "{all}");
        let small: Vec<u32> = Schedule { first: 0 }.looks().take(6).map(|l| l.rounds).collect();
        assert_eq!(small, [1, 2, 3, 4, 5, 7]);
    }

    #[test]
    fn the_next_look_is_after_the_rounds_that_are_done() {
        let next = |rounds| Schedule::default().next_look(rounds).unwrap().rounds;
        let cases = [(0, 8), (7, 8), (8, 10), (9, 10), (38, 49), (82, 83), (83, 108)];
        for (done, expected) in cases {
            assert_eq!(next(done), expected, "{done}");
        }
    }

    #[test]
    fn looks_that_are_done_spend_alpha_once() {
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
            let rounds: Vec<u32> = looks.iter().map(|look| look.rounds).collect();
            let shares: f64 = looks.iter().map(|look| look.share).sum();
            assert_eq!(rounds, *expected, "{done} {has_ended}");
            assert!((shares - spent).abs() < 1e-12, "{done} {has_ended}: {shares}");
        }
    }
}
