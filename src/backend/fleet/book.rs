//! The controller's state of each run: whether it was announced, where its answer is, or why it has none. If
//! two copies of a task answered, the later one counts until its answer is taken. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use super::answers::Place;
use super::folder::Copy;
use super::wire::RunName;

/// An answer that is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub place: Place,
    pub copy: Copy,
    /// The begin of its digest.
    sum: u64,
}

impl Found {
    pub fn new(place: Place, copy: Copy, sum: &str) -> Found {
        let sum = sum.get(..16).and_then(|hex| u64::from_str_radix(hex, 16).ok());
        Found { place, copy, sum: sum.unwrap_or_default() }
    }
}

#[derive(Debug, Default)]
struct Entry {
    found: Option<Found>,
    is_announced: bool,
    is_taken: bool,
    failed: Option<Arc<str>>,
}

#[derive(Debug, Default)]
pub struct Book {
    entries: HashMap<RunName, Entry>,
    announced: usize,
    answered: usize,
}

impl Book {
    /// False if it was announced before.
    pub fn announce(&mut self, name: RunName) -> bool {
        let entry = self.entries.entry(name).or_default();
        let is_new = !entry.is_announced;
        entry.is_announced = true;
        self.announced += usize::from(is_new);
        self.answered += usize::from(is_new && entry.found.is_some());
        is_new
    }

    /// Adds an answer. Returns an earlier one that differs.
    pub fn add(&mut self, name: RunName, found: Found) -> Option<Found> {
        let entry = self.entries.entry(name).or_default();
        let Some(before) = entry.found.clone() else {
            self.answered += usize::from(entry.is_announced);
            entry.found = Some(found);
            return None;
        };
        let differs = before.sum != found.sum;
        if !entry.is_taken && found.copy > before.copy {
            entry.found = Some(found);
        }
        differs.then_some(before)
    }

    /// An answer that counts no more.
    pub fn forget(&mut self, name: RunName) {
        if let Some(entry) = self.entries.get_mut(&name)
            && entry.found.take().is_some()
        {
            self.answered -= usize::from(entry.is_announced);
        }
    }

    pub fn found(&self, name: RunName) -> Option<&Found> {
        self.entries.get(&name)?.found.as_ref()
    }

    /// Takes the answer; later ones do not replace it.
    pub fn take(&mut self, name: RunName) -> Option<Found> {
        let entry = self.entries.get_mut(&name)?;
        entry.is_taken |= entry.found.is_some();
        entry.found.clone()
    }

    pub fn fail(&mut self, name: RunName, reason: &Arc<str>) {
        self.entries.entry(name).or_default().failed = Some(Arc::clone(reason));
    }

    pub fn failed(&self, name: RunName) -> Option<&str> {
        self.entries.get(&name)?.failed.as_deref()
    }

    /// Whether a task is still to answer it.
    pub fn is_missing(&self, name: RunName) -> bool {
        self.found(name).is_none() && self.failed(name).is_none()
    }

    /// `12 of 40 runs`.
    pub fn progress(&self) -> String {
        format!("{} of {} runs", self.answered, self.announced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_copy_counts_until_one_is_taken() {
        let name = RunName { spec: 1, seed: 2 };
        let found = |array, restart, sum: &str| {
            let copy = Copy { array, restart, task: 0 };
            Found::new(Place::default(), copy, &sum.repeat(32))
        };
        let mut book = Book::default();
        assert!(book.is_missing(name) && book.announce(name) && !book.announce(name));
        assert_eq!(book.add(name, found(1, 0, "aa")), None);
        assert_eq!(book.progress(), "1 of 1 runs");
        assert_eq!(book.add(name, found(1, 2, "aa")), None, "both are equal");
        assert_eq!(book.add(name, found(1, 1, "bb")), Some(found(1, 2, "aa")));
        assert_eq!(book.found(name), Some(&found(1, 2, "aa")), "an earlier copy was late");
        assert_eq!(book.add(name, found(2, 0, "cc")), Some(found(1, 2, "aa")));
        assert_eq!(book.take(name), Some(found(2, 0, "cc")));
        assert_eq!(book.add(name, found(3, 0, "dd")), Some(found(2, 0, "cc")));
        assert_eq!(book.take(name), Some(found(2, 0, "cc")), "it is stored already");
        book.forget(name);
        assert!(book.is_missing(name));
        book.fail(name, &"no".into());
        assert_eq!((book.failed(name), book.is_missing(name)), (Some("no"), false));
    }
}
