//! An order of parts: the workers of a set take its entries in turn, whoever is free. Pure, but for the cursor.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::Zeroable;

use crate::workload::WorkloadError;

use super::language::{Phase, Script, Step, place_in};

pub const ORDER: &str = "order";
/// Entries of an order, repeated ones included.
pub const MAX_ENTRIES: usize = 1_000_000;

const HINT: &str = "order = \"a*17 b a\", where the steps have \"part a\" and \"part b\"";

/// How far the workers of a set are, in the order or among its entries that take from one semaphore. All workers share it.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Cursor(AtomicU64);

impl Cursor {
    /// The number of the next entry since the begin of the run, and its part.
    #[inline]
    fn next(&self, list: &[u16]) -> (u64, usize) {
        let number = self.0.fetch_add(1, Relaxed);
        (number, usize::from(list[(number % list.len() as u64) as usize]))
    }
}

/// Parts are indices into [`Script::phases`].
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    entries: Vec<u16>,
    /// By semaphore the entries whose part begins with a take from it.
    taken: Vec<(usize, Vec<u16>)>,
    /// By part: the index into `taken`.
    takes: Vec<Option<usize>>,
}

impl Order {
    /// From `a*17 b a`.
    pub fn read(text: &str, script: &Script) -> Result<Order, WorkloadError> {
        let refuse = |word: &str, problem: String| WorkloadError::Param {
            param: ORDER,
            value: word.to_string(),
            problem,
            hint: HINT,
        };
        let parts: Vec<Option<String>> = script.phases.iter().map(|of| of.part.clone()).collect();
        if parts.contains(&None) {
            return Err(refuse(text_start(text), "needs steps that begin with a part".to_string()));
        }
        let mut entries: Vec<u16> = Vec::new();
        for word in text.split_whitespace() {
            let (name, times) = word.split_once('*').unwrap_or((word, "1"));
            let times = times.parse().ok().filter(|times| (1..=MAX_ENTRIES).contains(times));
            let times = times.ok_or_else(|| {
                refuse(word, format!("has no number from 1 to {MAX_ENTRIES} behind its *"))
            })?;
            let part = parts.iter().position(|part| part.as_deref() == Some(name));
            let part =
                part.ok_or_else(|| refuse(word, "is not a part of the steps".to_string()))?;
            if entries.len() + times > MAX_ENTRIES {
                return Err(refuse(word, format!("is above {MAX_ENTRIES} entries")));
            }
            entries.extend(std::iter::repeat_n(part as u16, times));
        }
        if entries.is_empty() {
            return Err(refuse("", "has no entry".to_string()));
        }
        let mut taken: Vec<(usize, Vec<u16>)> = Vec::new();
        let mut place = |phase: &Phase| {
            let Some(Step::Take(semaphore)) = phase.steps.first() else { return None };
            let is_it = |(other, _): &(usize, Vec<u16>)| other == semaphore;
            Some(place_in(&mut taken, is_it, || (*semaphore, Vec::new())))
        };
        let takes: Vec<Option<usize>> = script.phases.iter().map(&mut place).collect();
        for part in &entries {
            if let Some(place) = takes[usize::from(*part)] {
                taken[place].1.push(*part);
            }
        }
        Ok(Order { entries, taken, takes })
    }

    /// How many cursors its workers need.
    pub fn cursors(&self) -> usize {
        1 + self.taken.len()
    }

    /// The number of the next entry, and its part.
    #[inline]
    pub fn next(&self, cursors: &[Cursor]) -> (u64, usize) {
        cursors[0].next(&self.entries)
    }

    /// The semaphore from which a part takes first, and its place among those.
    #[inline]
    pub fn takes_first(&self, part: usize) -> Option<(usize, usize)> {
        self.takes[part].map(|place| (self.taken[place].0, place))
    }

    /// The next of the entries that take from this semaphore, for a worker that has taken.
    #[inline]
    pub fn next_taken(&self, cursors: &[Cursor], place: usize) -> (u64, usize) {
        cursors[1 + place].next(&self.taken[place].1)
    }
}

fn text_start(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        let texts = ["part a", "take s", "burn 1ms", "part b", "sleep 1ms", "part c", "take s"];
        Script::read(&[&texts[..], &["part d", "take t"]].concat()).unwrap()
    }

    #[test]
    fn entries_come_in_turn_and_those_that_take_in_a_turn_of_their_own() {
        let order = Order::read("a*2 b\nd c a", &script()).unwrap();
        let cursors: Vec<Cursor> = (0..order.cursors()).map(|_| Cursor::zeroed()).collect();
        let parts: Vec<usize> = (0..7).map(|_| order.next(&cursors).1).collect();
        assert_eq!(parts, [0, 0, 1, 3, 2, 0, 0]);
        assert_eq!(
            [0, 1, 2, 3].map(|part| order.takes_first(part)),
            [Some((0, 0)), None, Some((0, 0)), Some((1, 1))]
        );
        let taken: Vec<usize> = (0..5).map(|_| order.next_taken(&cursors, 0).1).collect();
        assert_eq!(taken, [0, 0, 2, 0, 0]);
        assert_eq!(order.next_taken(&cursors, 1), (0, 3));
    }

    #[test]
    fn a_wrong_order_is_refused_with_its_word() {
        let cases = [
            ("", "", "has no entry"),
            ("a x", "x", "is not a part"),
            ("a*0", "a*0", "has no number from 1"),
            ("a*x", "a*x", "has no number from 1"),
            ("a*1000000 b", "b", "is above 1000000 entries"),
        ];
        for (text, word, problem) in cases {
            let error = Order::read(text, &script()).unwrap_err();
            assert_eq!(error.place(), Some((ORDER, Some(word))), "{text}");
            assert!(error.to_string().contains(problem), "{text}: {error}");
        }
        let unnamed = Script::read(&["burn 1ms"]).unwrap();
        assert!(Order::read("a", &unnamed).unwrap_err().to_string().contains("begin with a part"));
    }
}
