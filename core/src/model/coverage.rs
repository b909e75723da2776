//! The code of a guest's kernel that its runs executed. Plain data.

use serde::{Deserialize, Serialize};

/// A part of a kernel's code, from the address of its first byte to the one after its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRange {
    pub from: u64,
    pub to: u64,
}

/// The bytes of some code that were executed: a bit for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage(pub Vec<u8>);

impl Coverage {
    /// The number of bytes of code that were executed.
    pub fn executed(&self) -> u64 {
        self.0.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Adds what was executed elsewhere. Returns how many bytes of it are new here.
    pub fn add(&mut self, other: &Coverage) -> u64 {
        let before = self.executed();
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
        self.executed() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_counted_once() {
        let mut all = Coverage::default();
        for (bits, new, executed) in [
            (&[0b11][..], 2, 2),
            (&[0b11], 0, 2),
            (&[0b101, 0b1], 2, 4),
            (&[], 0, 4),
            (&[0b1000], 1, 5),
        ] {
            assert_eq!((all.add(&Coverage(bits.to_vec())), all.executed()), (new, executed));
        }
    }
}
