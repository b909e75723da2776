//! The steps of a queue in a plan: `burn N` and `wait TIME` in turns. Pure.

use crate::model::{ValueError, clean, duration_ns, show_duration};
use crate::workload::burn::Work;

pub const MAX_KOPS: u64 = 1_000_000_000;
/// Shorter work is lost in the cost of beginning and ending it.
pub const MIN_BURN_NS: u64 = 1_000;
pub const MAX_WAIT_NS: u64 = 3_600_000_000_000;

/// One burn and the wait after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    pub work: Work,
    pub wait_ns: u64,
}

/// A wrong step of a queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("queue: step {step}, `{}`, {problem}", clean(text))]
pub struct QueueError {
    /// The number of the step, from 1.
    pub step: usize,
    pub text: String,
    pub problem: StepProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepProblem {
    #[error("is missing")]
    Missing,
    #[error("has no wait after it")]
    WithoutWait,
    #[error("is not a {0}")]
    Not(&'static str),
    #[error("burns neither a whole number of kops nor a time, `{0}`")]
    Number(String),
    #[error("burns {0} kops, not 1 to {MAX_KOPS}")]
    Range(u64),
    #[error("has a wrong time: {}", .0.message)]
    Time(ValueError),
    #[error("burns {}, not 1us to {}", show_duration(*.0), show_duration(MAX_WAIT_NS))]
    BurnTime(u64),
    #[error("burns {}, where others of the queue do not", if *.0 { "a time" } else { "kops" })]
    Mixed(bool),
    #[error("waits longer than {}", show_duration(MAX_WAIT_NS))]
    TooLong,
}

impl QueueError {
    pub const HINT: &str = "burns and waits in turns: queue = [\"burn 60us\", \"wait 200us\"]";
}

/// Reads `burn N` and `wait TIME` in turns.
pub fn parse_queue(steps: &[&str]) -> Result<Vec<Item>, QueueError> {
    let wrong = |index: usize, problem: StepProblem| {
        let text = steps.get(index).copied().unwrap_or_default().to_string();
        QueueError { step: index + 1, text, problem }
    };
    if steps.is_empty() {
        return Err(wrong(0, StepProblem::Missing));
    }
    let items = steps.chunks(2).zip((0..).step_by(2)).map(|(pair, first)| {
        let work = parse_burn(pair[0]).map_err(|problem| wrong(first, problem))?;
        let wait = pair.get(1).ok_or_else(|| wrong(first, StepProblem::WithoutWait))?;
        let wait_ns = parse_wait(wait).map_err(|problem| wrong(first + 1, problem))?;
        Ok(Item { work, wait_ns })
    });
    let items: Vec<Item> = items.collect::<Result<_, _>>()?;
    let is_time = |item: &Item| matches!(item.work, Work::Ns(_));
    match items.iter().position(|item| is_time(item) != is_time(&items[0])) {
        Some(at) => Err(wrong(2 * at, StepProblem::Mixed(is_time(&items[at])))),
        None => Ok(items),
    }
}

/// A whole number of kops, or a time.
fn parse_burn(step: &str) -> Result<Work, StepProblem> {
    let amount = argument(step, "burn").ok_or(StepProblem::Not("burn"))?;
    match (amount.parse(), duration_ns(amount)) {
        (Ok(kops @ 1..=MAX_KOPS), _) => Ok(Work::Kops(kops)),
        (Ok(kops), _) => Err(StepProblem::Range(kops)),
        (Err(_), Ok(ns @ MIN_BURN_NS..=MAX_WAIT_NS)) => Ok(Work::Ns(ns)),
        (Err(_), Ok(ns)) => Err(StepProblem::BurnTime(ns)),
        (Err(_), Err(_)) => Err(StepProblem::Number(amount.to_string())),
    }
}

fn parse_wait(step: &str) -> Result<u64, StepProblem> {
    let time = argument(step, "wait").ok_or(StepProblem::Not("wait"))?;
    let wait_ns = duration_ns(time).map_err(StepProblem::Time)?;
    if wait_ns > MAX_WAIT_NS { Err(StepProblem::TooLong) } else { Ok(wait_ns) }
}

fn argument<'a>(step: &'a str, word: &str) -> Option<&'a str> {
    let rest = step.strip_prefix(word)?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kops: u64, wait_us: u64) -> Item {
        Item { work: Work::Kops(kops), wait_ns: wait_us * 1_000 }
    }

    #[test]
    fn queues_are_read_in_either_form_and_refused_with_their_step() {
        let good: &[(&[&str], &[Item])] = &[
            (&["burn 70", "wait 200us"], &[item(70, 200)]),
            (&["burn 10", "wait 1ms", "burn  20", "wait 0.3 ms"], &[item(10, 1000), item(20, 300)]),
            (&["burn 1", "wait 0ns"], &[item(1, 0)]),
            (&["burn 1.5 ms", "wait 0ns"], &[Item { work: Work::Ns(1_500_000), wait_ns: 0 }]),
        ];
        for (steps, expected) in good {
            assert_eq!(parse_queue(steps).unwrap(), *expected, "{steps:?}");
        }
        let bad: &[(&[&str], &str)] = &[
            (&[], "step 1, ``, is missing"),
            (&["burn 70"], "step 1, `burn 70`, has no wait after it"),
            (&["wait 1us", "burn 70"], "step 1, `wait 1us`, is not a burn"),
            (&["burn 70", "burn 70"], "step 2, `burn 70`, is not a wait"),
            (&["burn70", "wait 1us"], "step 1, `burn70`, is not a burn"),
            (&["burn 0", "wait 1us"], "step 1, `burn 0`, burns 0 kops, not 1 to 1000000000"),
            (&["burn 7 eggs", "wait 1us"], "step 1, `burn 7 eggs`, burns neither a whole number"),
            (&["burn 999ns", "wait 1us"], "step 1, `burn 999ns`, burns 999ns, not 1us to 1h"),
            (&["burn 7", "wait 1us", "burn 7us", "wait 1us"], "step 3, `burn 7us`, burns a time,"),
            (&["burn 1", "wait 200"], "step 2, `wait 200`, has a wrong time: `200` has no unit"),
            (&["burn 1", "wait 61min"], "step 2, `wait 61min`, waits longer than 1h"),
            (&["burn 1", "wait 1s", "sleep 1", "wait 1s"], "step 3, `sleep 1`, is not a burn"),
        ];
        for (steps, expected) in bad {
            let why = parse_queue(steps).unwrap_err().to_string();
            assert!(why.contains(expected), "{steps:?}: {why}");
        }
    }
}
