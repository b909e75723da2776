//! Digests of rows: what is stored is read back as it was written, or it is noticed. They find faults of disks,
//! memory and copies, not forgeries. XXH3, 64 bits. Pure.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use twox_hash::XxHash3_64;

use crate::model::words;

/// Longer content is digested in stretches, so that memory does not grow with a run.
const STRETCH_BYTES: usize = 64 << 10;

/// Values one after the other.
#[derive(Default)]
pub(super) struct Digest(Vec<u8>);

impl Digest {
    pub fn add(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.0.push(0),
            ValueRef::Integer(number) => {
                self.0.push(1);
                self.add_number(number as u64);
            }
            ValueRef::Real(number) => {
                self.0.push(2);
                self.add_number(number.to_bits());
            }
            ValueRef::Text(bytes) => self.add_bytes(3, bytes),
            ValueRef::Blob(bytes) => self.add_bytes(4, bytes),
        }
        if self.0.len() > STRETCH_BYTES {
            let stretch = self.take();
            self.add_number(stretch);
        }
    }

    fn add_bytes(&mut self, kind: u8, bytes: &[u8]) {
        self.0.push(kind);
        self.add_number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub fn add_number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// The columns from `first` to before `end`.
    pub fn add_columns(&mut self, row: &Row<'_>, first: usize, end: usize) -> rusqlite::Result<()> {
        for column in first..end {
            self.add(row.get_ref(column)?);
        }
        Ok(())
    }

    pub fn add_text(&mut self, text: Option<&str>) {
        self.add(text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes())));
    }

    pub fn add_integer(&mut self, number: Option<i64>) {
        self.add(number.map_or(ValueRef::Null, ValueRef::Integer));
    }

    /// The digest of all that was added; begins anew.
    pub fn take(&mut self) -> u64 {
        let digest = XxHash3_64::oneshot(&self.0);
        self.0.clear();
        digest
    }
}

words! {
    /// The tables that hang on a run, each with a digest of its own: most readers read some of them.
    #[derive(PartialOrd, Ord)]
    pub(super) enum Part {
        Sets = "worker sets",
        Metrics = "metrics",
        Histograms = "histograms",
        Workers = "workers",
        Windows = "windows",
        Knobs = "knobs",
        Disturbances = "disturbances",
        Programs = "programs",
    }
}

/// The digests of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Digests {
    /// It covers the row of the run and all parts.
    pub run: u64,
    parts: [u64; Part::ALL.len()],
}

impl Digests {
    pub fn part(&self, part: Part) -> u64 {
        self.parts[part as usize]
    }

    pub fn set(&mut self, part: Part, digest: u64) {
        self.parts[part as usize] = digest;
    }

    pub fn parts(&self) -> impl Iterator<Item = u64> {
        self.parts.into_iter()
    }

    /// Makes a column of them.
    pub fn to_bytes(self) -> Vec<u8> {
        let all = std::iter::once(self.run).chain(self.parts());
        all.flat_map(u64::to_le_bytes).collect()
    }

    /// Bytes of another form match no run.
    pub fn from_bytes(bytes: &[u8]) -> Digests {
        let (numbers, rest) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        match (numbers.split_first(), rest) {
            (Some((run, parts)), []) if parts.len() == Part::ALL.len() => {
                let mut digests = Digests { run: *run, ..Digests::default() };
                digests.parts.copy_from_slice(parts);
                digests
            }
            _ => Digests::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(fill: impl FnOnce(&mut Digest)) -> u64 {
        let mut digest = Digest::default();
        fill(&mut digest);
        digest.take()
    }

    #[test]
    fn no_two_values_have_one_digest() {
        let values = [
            ValueRef::Null,
            ValueRef::Integer(97),
            ValueRef::Integer(-97),
            ValueRef::Real(97.0),
            ValueRef::Real(f64::from_bits(97)),
            ValueRef::Text(b"a"),
            ValueRef::Text(b""),
            ValueRef::Blob(b"a"),
            ValueRef::Blob(b""),
        ];
        let digests: Vec<u64> = values.iter().map(|value| digest(|all| all.add(*value))).collect();
        for (at, one) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(one), "{:?}", values[at]);
        }
        // Stores have it: another one would call all of their runs damaged.
        let all = digest(|all| values.iter().for_each(|value| all.add(*value)));
        assert_eq!(all, 0xbd65_20cb_8887_5134);
        let texts = [None, Some("a"), Some("")].map(|text| digest(|all| all.add_text(text)));
        assert_eq!(texts, [digests[0], digests[5], digests[6]]);
        let numbers = [None, Some(97)].map(|number| digest(|all| all.add_integer(number)));
        assert_eq!(numbers, [digests[0], digests[1]]);
        let bytes = Digests { run: 7, parts: [1, 2, 3, 4, 5, 6, 7, 8] }.to_bytes();
        assert_eq!(Digests::from_bytes(&bytes).to_bytes(), bytes);
        for other in [&bytes[1..], &bytes[8..], &[&bytes[..], &[0; 8]].concat(), &[]] {
            assert_eq!(Digests::from_bytes(other), Digests::default(), "{}", other.len());
        }
        // Where one value ends and the next begins counts, too.
        let pair = |one: &str, other: &str| {
            digest(|all| [one, other].iter().for_each(|text| all.add_text(Some(text))))
        };
        assert_ne!(pair("ab", "c"), pair("a", "bc"));
    }
}
