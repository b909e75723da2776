//! An order of parts: the workers of a set take its entries in turn, whoever is free. Pure, but for the cursor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::Zeroable;

use crate::workload::WorkloadError;

use super::language::{Phase, Script, Step, place_in};

pub const ORDER: &str = "order";
/// Entries of one part that have places of their own.
const FEW: u64 = 20;
/// Entries of an order, repeated ones included.
pub const MAX_ENTRIES: usize = 1_000_000;

const HINT: &str = "order = \"a*17 b a\", where the steps have \"part a\" and \"part b\"";

/// How far the workers of a set are, in the order or among its entries that take from one semaphore. All workers share it.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Cursor(AtomicU64);

impl Cursor {
    #[inline]
    fn next(&self, list: &[Entry]) -> Next {
        let number = self.0.fetch_add(1, Relaxed);
        let Entry { part, draw } = list[(number % list.len() as u64) as usize];
        Next { number, part: usize::from(part), draw }
    }
}

/// The next entry of a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Next {
    /// Since the begin of the run.
    pub number: u64,
    pub part: usize,
    /// Times of a part with few entries are not drawn: each entry has a place of its own.
    pub draw: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    part: u16,
    draw: Option<u64>,
}

/// Each entry with its place among those of its part.
fn placed(parts: &[u16]) -> Vec<Entry> {
    let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
    parts.iter().for_each(|part| *counts.entry(*part).or_default() += 1);
    let mut seen: BTreeMap<u16, u64> = BTreeMap::new();
    let entry = |part: &u16| {
        let at = seen.entry(*part).or_default();
        *at += 1;
        let count = counts[part];
        let draw = (count <= FEW).then(|| (2 * *at - 1) * (u64::MAX / (2 * count)));
        Entry { part: *part, draw }
    };
    parts.iter().map(entry).collect()
}

/// Parts are indices into [`Script::phases`].
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    entries: Vec<Entry>,
    /// By semaphore the entries whose part begins with a take from it.
    taken: Vec<(usize, Vec<Entry>)>,
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
        let entries = placed(&entries);
        let mut taken: Vec<(usize, Vec<Entry>)> = Vec::new();
        let mut place = |phase: &Phase| {
            let Some(Step::Take(semaphore)) = phase.steps.first() else { return None };
            let is_it = |(other, _): &(usize, Vec<Entry>)| other == semaphore;
            Some(place_in(&mut taken, is_it, || (*semaphore, Vec::new())))
        };
        let takes: Vec<Option<usize>> = script.phases.iter().map(&mut place).collect();
        for entry in &entries {
            if let Some(place) = takes[usize::from(entry.part)] {
                taken[place].1.push(*entry);
            }
        }
        Ok(Order { entries, taken, takes })
    }

    /// How many cursors its workers need.
    pub fn cursors(&self) -> usize {
        1 + self.taken.len()
    }

    #[inline]
    pub fn next(&self, cursors: &[Cursor]) -> Next {
        cursors[0].next(&self.entries)
    }

    /// The semaphore from which a part takes first, and its place among those.
    #[inline]
    pub fn takes_first(&self, part: usize) -> Option<(usize, usize)> {
        self.takes[part].map(|place| (self.taken[place].0, place))
    }

    /// The next of the entries that take from this semaphore, for a worker that has taken.
    #[inline]
    pub fn next_taken(&self, cursors: &[Cursor], place: usize) -> Next {
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
        let parts: Vec<usize> = (0..7).map(|_| order.next(&cursors).part).collect();
        assert_eq!(parts, [0, 0, 1, 3, 2, 0, 0]);
        assert_eq!(
            [0, 1, 2, 3].map(|part| order.takes_first(part)),
            [Some((0, 0)), None, Some((0, 0)), Some((1, 1))]
        );
        let taken: Vec<usize> = (0..5).map(|_| order.next_taken(&cursors, 0).part).collect();
        assert_eq!(taken, [0, 0, 2, 0, 0]);
        let draw = Some(u64::MAX / 2);
        assert_eq!(order.next_taken(&cursors, 1), Next { number: 0, part: 3, draw });
        let quarter = |entry: &Entry| entry.draw.map(|draw| draw / (u64::MAX / 4));
        let quarters: Vec<Option<u64>> = placed(&[7, 8, 7]).iter().map(quarter).collect();
        assert_eq!(quarters, [Some(1), Some(2), Some(3)]);
        assert_eq!(placed(&[7; 21])[0].draw, None);
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
