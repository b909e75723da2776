//! A plan says each thing of the cache once.

use std::mem::discriminant;

use crate::backend::NotSaved;

/// Why machines and results are of no use to other plans: each machine that cannot be taken, and the first of each kind
/// that could not be kept.
#[derive(Default)]
pub struct AllNotSaved {
    all: Vec<NotSaved>,
    /// How many of them were taken.
    taken: usize,
}

impl AllNotSaved {
    pub fn add(&mut self, why: NotSaved) {
        let is_known = |known: &NotSaved| match (known, &why) {
            (NotSaved::NotKept(_) | NotSaved::NoResult(_) | NotSaved::NoCoverage(_), why) => {
                discriminant(known) == discriminant(why)
            }
            (known, why) => known == why,
        };
        if !self.all.iter().any(is_known) {
            self.all.push(why);
        }
    }

    /// Takes the ones that were added since the last call.
    pub fn take(&mut self) -> Vec<NotSaved> {
        let new = self.all.split_at(self.taken).1.to_vec();
        self.taken = self.all.len();
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_said_and_of_a_full_disk_the_first_of_each_kind() {
        let mut all = AllNotSaved::default();
        let text = |number: u32| number.to_string();
        for number in [1, 2, 2] {
            all.add(NotSaved::NotKept(text(number)));
            all.add(NotSaved::NoResult(text(number)));
            all.add(NotSaved::NoCoverage(text(number)));
            all.add(NotSaved::Damaged(text(number).into()));
            all.add(NotSaved::Unreadable(text(number)));
        }
        let expected = [
            NotSaved::NotKept(text(1)),
            NotSaved::NoResult(text(1)),
            NotSaved::NoCoverage(text(1)),
            NotSaved::Damaged(text(1).into()),
            NotSaved::Unreadable(text(1)),
            NotSaved::Damaged(text(2).into()),
            NotSaved::Unreadable(text(2)),
        ];
        assert_eq!(all.take(), expected);
        assert_eq!(all.take(), []);
    }
}
