//! What a plan claims of its variants: tested by verdicts. Plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// As a plan writes them.
    pub const WORDS: &'static [&'static str] =
        &["better", "worse", "same", "not-better", "not-worse", "more", "less"];

    pub fn from_word(word: &str) -> Option<Claim> {
        Some(match word {
            "better" => Claim::Better,
            "worse" => Claim::Worse,
            "same" => Claim::Same,
            "not-better" => Claim::NotBetter,
            "not-worse" => Claim::NotWorse,
            "more" => Claim::More,
            "less" => Claim::Less,
            _ => return None,
        })
    }

    /// Whether both can hold of one metric that has this sign of better, if any.
    pub fn agrees_with(&self, other: &Claim) -> bool {
        use Claim::*;
        let contradicts = |one: &Claim, other: &Claim| match (one, other) {
            (Better, Worse | Same | NotBetter) | (Worse, Same | NotWorse) | (More, Less | Same) => {
                true
            }
            (Less, Same) => true,
            (Ratio { from: Some(from), .. }, Ratio { to: Some(to), .. }) => from > to,
            _ => false,
        };
        !contradicts(self, other) && !contradicts(other, self)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Claim::Better => "better",
            Claim::Worse => "worse",
            Claim::Same => "same",
            Claim::NotBetter => "not-better",
            Claim::NotWorse => "not-worse",
            Claim::More => "more",
            Claim::Less => "less",
            Claim::Ratio { from, to } => {
                return match (from, to) {
                    (Some(from), Some(to)) => write!(f, "{from}x to {to}x"),
                    (Some(from), None) => write!(f, "at least {from}x"),
                    (None, Some(to)) => write!(f, "at most {to}x"),
                    (None, None) => f.write_str("any ratio"),
                };
            }
        };
        f.write_str(word)
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
        assert_eq!(Claim::from_word("faster"), None);
    }

    #[test]
    fn claims_that_cannot_both_hold_are_known() {
        let ratio = |from: f64, to: f64| Claim::Ratio { from: Some(from), to: Some(to) };
        let cases = [
            (Claim::Better, Claim::Worse, false),
            (Claim::Better, Claim::NotWorse, true),
            (Claim::NotWorse, Claim::Worse, false),
            (Claim::Same, Claim::More, false),
            (Claim::More, Claim::Less, false),
            (Claim::Better, Claim::More, true),
            (ratio(0.5, 0.9), ratio(0.8, 1.2), true),
            (ratio(0.5, 0.7), ratio(0.8, 1.2), false),
        ];
        for (one, other, agree) in cases {
            assert_eq!(one.agrees_with(&other), agree, "{one} {other}");
            assert_eq!(other.agrees_with(&one), agree, "{other} {one}");
        }
    }
}
