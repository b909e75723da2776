//! Claims that a plan makes about its variants, tested by verdicts. Plain data.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Direction;

/// One `[[expect]]` of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Compared with the baseline.
    pub variant: String,
    /// A pattern, as `--metric` takes it.
    pub metric: String,
    pub claim: Claim,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The bytes of the plan's text that say so; empty of a stored plan.
    #[serde(skip)]
    pub at: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    Better,
    Worse,
    Same,
    NotBetter,
    NotWorse,
    /// The value itself, whether or not that is good.
    More,
    Less,
    /// The ratio to the baseline lies between these; `None`: no limit.
    Ratio {
        from: Option<f64>,
        to: Option<f64>,
    },
}

impl Claim {
    /// The claims that a plan makes by a word.
    const NAMED: [(&str, Claim); 7] = [
        ("better", Claim::Better),
        ("worse", Claim::Worse),
        ("same", Claim::Same),
        ("not-better", Claim::NotBetter),
        ("not-worse", Claim::NotWorse),
        ("more", Claim::More),
        ("less", Claim::Less),
    ];
    /// These words.
    pub const WORDS: &'static [&'static str] = &{
        let (mut words, mut at) = ([""; Claim::NAMED.len()], 0);
        while at < words.len() {
            words[at] = Claim::NAMED[at].0;
            at += 1;
        }
        words
    };

    pub fn from_word(word: &str) -> Option<Claim> {
        Claim::NAMED.into_iter().find(|(own, _)| *own == word).map(|(_, claim)| claim)
    }

    /// Whether the claim makes sense for a metric of this direction: more of a counter is neither better
    /// nor worse.
    pub fn is_of(&self, direction: Direction) -> bool {
        let is_directed =
            matches!(self, Claim::Better | Claim::Worse | Claim::NotBetter | Claim::NotWorse);
        !is_directed || direction != Direction::Neutral
    }

    /// Whether both can hold for one metric. A range of ratios does not contradict SAME while both have a ratio in
    /// common.
    pub fn agrees_with(&self, other: &Claim, direction: Direction, margin: f64) -> bool {
        let [one, two] = [self, other].map(|claim| claim.allows(direction, margin));
        let has_ratio = match (self.range(), other.range()) {
            (Some(one), Some(two)) => one.0.max(two.0) <= one.1.min(two.1),
            _ => true,
        };
        has_ratio && (0..3).any(|at| one[at] && two[at])
    }

    /// The ratios in which a range holds; `None`: the claim is not a range.
    pub fn range(&self) -> Option<(f64, f64)> {
        let Claim::Ratio { from, to } = self else { return None };
        Some((from.unwrap_or(0.0), to.unwrap_or(f64::INFINITY)))
    }

    /// Whether the value may be less, the same, and more.
    fn allows(&self, direction: Direction, margin: f64) -> [bool; 3] {
        let more_is_better = direction == Direction::HigherIsBetter;
        let (worse, better) = (!more_is_better, more_is_better);
        match self {
            Claim::Better => [worse, false, better],
            Claim::Worse => [better, false, worse],
            Claim::Same => [false, true, false],
            Claim::NotBetter => [better, true, worse],
            Claim::NotWorse => [worse, true, better],
            Claim::More => [false, false, true],
            Claim::Less => [true, false, false],
            Claim::Ratio { .. } => {
                let (from, to) = self.range().unwrap_or((0.0, f64::INFINITY));
                let has_same = from <= 1.0 + margin && to >= 1.0 / (1.0 + margin);
                [from < 1.0, has_same, to > 1.0]
            }
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim::Ratio { from, to } = self else {
            let named = Claim::NAMED.iter().find(|(_, claim)| claim == self);
            return f.write_str(named.map_or("", |(word, _)| word));
        };
        match (from, to) {
            (Some(from), Some(to)) => write!(f, "{from}x to {to}x"),
            (Some(from), None) => write!(f, "at least {from}x"),
            (None, Some(to)) => write!(f, "at most {to}x"),
            (None, None) => f.write_str("any ratio"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for word in Claim::WORDS {
            assert_eq!(Claim::from_word(word).unwrap().to_string(), *word);
        }
        let claims = ["better", "not-worse", "less"].map(Claim::from_word);
        assert_eq!(claims, [Claim::Better, Claim::NotWorse, Claim::Less].map(Some));
        assert_eq!(Claim::from_word("faster"), None);
    }

    #[test]
    fn claims_that_cannot_both_hold_are_known() {
        let ratio = |from: f64, to: f64| Claim::Ratio { from: Some(from), to: Some(to) };
        let cases = [
            (Claim::Better, Claim::Worse, [false, false]),
            (Claim::Better, Claim::NotWorse, [true, true]),
            (Claim::Better, Claim::NotBetter, [false, false]),
            (Claim::Worse, Claim::NotBetter, [true, true]),
            (Claim::NotWorse, Claim::Worse, [false, false]),
            (Claim::NotWorse, Claim::NotBetter, [true, true]),
            (Claim::Same, Claim::More, [false, false]),
            (Claim::Same, Claim::NotWorse, [true, true]),
            (Claim::More, Claim::Less, [false, false]),
            // For a throughput, and for a latency.
            (Claim::Better, Claim::More, [true, false]),
            (Claim::NotBetter, Claim::More, [false, true]),
            (Claim::Worse, Claim::Less, [true, false]),
            (Claim::Better, ratio(0.5, 0.9), [false, true]),
            (Claim::NotWorse, ratio(1.2, 2.0), [true, false]),
            (Claim::More, ratio(0.5, 1.0), [false, false]),
            (Claim::Less, ratio(0.9, 1.5), [true, true]),
            (Claim::Same, ratio(1.2, 1.5), [false, false]),
            (Claim::Same, ratio(1.05, 1.5), [true, true]),
            (ratio(0.5, 0.9), ratio(0.8, 1.2), [true, true]),
            (ratio(0.5, 0.7), ratio(0.8, 1.2), [false, false]),
            (
                Claim::Ratio { from: None, to: Some(0.7) },
                Claim::Ratio { from: Some(0.8), to: None },
                [false, false],
            ),
        ];
        for (one, other, agree) in cases {
            let directions = [Direction::HigherIsBetter, Direction::LowerIsBetter];
            let both = directions.map(|direction| one.agrees_with(&other, direction, 0.1));
            assert_eq!(both, agree, "{one} {other}");
            assert_eq!(
                directions.map(|of| other.agrees_with(&one, of, 0.1)),
                agree,
                "{other} {one}"
            );
        }
    }
}
