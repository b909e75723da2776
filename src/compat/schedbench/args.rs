//! `burnwait KOPS WAIT_NS`, repeated: converts between the words of a worker in a `.bench` file and the queue
//! of the workload `burnwait`. Pure.
//!
//! The original's controller puts `kHZ N` before the words when it runs them, and its worker
//! knows `report_interval MS`; files with results have the first. Both are read,
//! and neither is part of the queue.

use std::ops::RangeInclusive;

use crate::workload::{BurnItem, BurnWork, MAX_BURN_KOPS, MAX_BURN_WAIT_NS};

use super::error::{ArgsError, WrongWord};

/// The queue of `Args` as they stand in a file; else the first word that is wrong.
pub fn parse(words: &[String]) -> Result<Vec<BurnItem>, ArgsError> {
    let (mut queue, mut at) = (Vec::new(), 0);
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "burnwait" => {
                let kops = number(words, at, 1, "KOPS", 1..=MAX_BURN_KOPS)?;
                let wait_ns = number(words, at, 2, "WAIT_NS", 0..=MAX_BURN_WAIT_NS)?;
                queue.push(BurnItem { work: BurnWork::Kops(kops), wait_ns });
                at += 3;
            }
            "kHZ" => {
                number(words, at, 1, "a clock rate in kHz", 1..=u64::MAX)?;
                at += 2;
            }
            "report_interval" => {
                number(words, at, 1, "milliseconds", 1..=u64::MAX)?;
                at += 2;
            }
            other => {
                return Err(ArgsError { at, wrong: WrongWord::Unknown(other.to_string()) });
            }
        }
    }
    if queue.is_empty() {
        return Err(ArgsError { at: words.len(), wrong: WrongWord::NoWork });
    }
    Ok(queue)
}

/// Whether the original's worker would take these words: it reads numbers in more forms than
/// [`parse`] accepts. The errors are the same.
pub fn check_words(words: &[String]) -> Result<(), ArgsError> {
    let (mut at, mut has_work) = (0, false);
    while let Some(word) = words.get(at) {
        let numbers: &[&'static str] = match word.as_str() {
            "burnwait" => &["KOPS", "WAIT_NS"],
            "kHZ" | "report_interval" => &["number"],
            other => {
                return Err(ArgsError { at, wrong: WrongWord::Unknown(other.to_string()) });
            }
        };
        has_work |= word == "burnwait";
        for (after, &what) in (1..).zip(numbers) {
            if words.get(at + after).is_none() {
                let wrong = WrongWord::NoNumber { word: word.clone(), what };
                return Err(ArgsError { at, wrong });
            }
        }
        at += 1 + numbers.len();
    }
    let no_work = || ArgsError { at: words.len(), wrong: WrongWord::NoWork };
    has_work.then_some(()).ok_or_else(no_work)
}

/// The parameter `queue` of the workload.
pub fn to_queue(queue: &[BurnItem]) -> Vec<String> {
    let steps =
        |item: &BurnItem| [format!("burn {}", item.work), format!("wait {}ns", item.wait_ns)];
    queue.iter().flat_map(steps).collect()
}

/// Parses the whole number that stands `after` words behind the one at `at`.
fn number(
    words: &[String],
    at: usize,
    after: usize,
    what: &'static str,
    range: RangeInclusive<u64>,
) -> Result<u64, ArgsError> {
    let Some(text) = words.get(at + after) else {
        return Err(ArgsError { at, wrong: WrongWord::NoNumber { word: words[at].clone(), what } });
    };
    // The original would read 010 as eight and 0x10 as sixteen, which a person hardly means.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    let text = text.clone();
    let wrong = match text.parse() {
        Ok(number) if is_plain && range.contains(&number) => return Ok(number),
        Ok(_) if is_plain => {
            let (min, max) = range.into_inner();
            WrongWord::OutOfRange { text, what, min, max }
        }
        _ => WrongWord::NotWhole { text, what },
    };
    Err(ArgsError { at: at + after, wrong })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::parse_burn_queue;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn words_are_read_and_refused_with_their_place() {
        let item = |kops, wait_ns| BurnItem { work: BurnWork::Kops(kops), wait_ns };
        let good = [
            ("burnwait 70 200000", vec![item(70, 200_000)]),
            ("burnwait 1 0 burnwait 2 5", vec![item(1, 0), item(2, 5)]),
            ("kHZ 2261062 report_interval 500 burnwait 70 1", vec![item(70, 1)]),
        ];
        for (text, expected) in good {
            assert_eq!(parse(&words(text)), Ok(expected), "{text}");
            assert_eq!(check_words(&words(text)), Ok(()), "{text}");
        }
        let bad = [
            ("", 0, "there is no `burnwait"),
            ("kHZ 5", 2, "there is no `burnwait"),
            ("burnwait", 0, "`burnwait` has no KOPS after it"),
            ("burnwait 70", 0, "`burnwait` has no WAIT_NS after it"),
            (
                "burnwait 70 1 deadline 3",
                3,
                "`deadline` is not a kind of work; there is `burnwait`",
            ),
            ("burnwait 70 -1", 2, "`-1`, WAIT_NS, is not a whole number"),
            ("burnwait 7e1 1", 1, "`7e1`, KOPS, is not a whole number"),
            ("burnwait 0x10 1", 1, "`0x10`, KOPS, is not a whole number"),
            ("burnwait 010 1", 1, "`010`, KOPS, is not a whole number"),
            ("burnwait +7 1", 1, "`+7`, KOPS, is not a whole number"),
            ("burnwait 0 1", 1, "`0`, KOPS, is not in 1 to 1000000000"),
            ("burnwait 1 3600000000001", 2, "is not in 0 to 3600000000000"),
            ("burnwait 1 99999999999999999999", 2, "is not a whole number"),
            ("burnwait 1 1 70", 3, "`70` is not a kind of work"),
            ("\u{1b}[31m", 0, "`\\u{1b}[31m` is not a kind of work"),
        ];
        for (text, at, expected) in bad {
            let error = parse(&words(text)).unwrap_err();
            let why = error.wrong.to_string();
            assert!(error.at == at && why.contains(expected), "{text}: {error:?} {why}");
            // The original's worker accepts such words if only their numbers are wrong.
            let is_number =
                matches!(error.wrong, WrongWord::NotWhole { .. } | WrongWord::OutOfRange { .. });
            let shape = check_words(&words(text));
            assert_eq!(shape, if is_number { Ok(()) } else { Err(error) }, "{text}");
        }
    }

    proptest! {
        #[test]
        fn words_and_queues_are_the_same_work(
            items in proptest::collection::vec((1u64..=1_000_000_000, 0u64..=3_600_000_000_000), 1..9),
        ) {
            let queue: Vec<BurnItem> =
                items.iter().map(|&(kops, wait_ns)| BurnItem { work: BurnWork::Kops(kops), wait_ns }).collect();
            let text: String = items.iter().map(|(kops, ns)| format!("burnwait {kops} {ns} ")).collect();
            prop_assert_eq!(&parse(&words(&text)).unwrap(), &queue);
            let steps = to_queue(&queue);
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            prop_assert_eq!(parse_burn_queue(&steps).unwrap(), queue);
        }
    }
}
