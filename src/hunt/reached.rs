//! How much of the scheduler's code the scenarios of a hunt have executed. Pure.

use std::collections::VecDeque;

use crate::model::Coverage;

/// Scenarios of which it is said what was new.
const LAST: usize = 100;

/// The code of kernel/sched that a kernel's scenarios executed.
#[derive(Default)]
pub struct Reached {
    all: Coverage,
    /// The bytes that were new in each of the last scenarios.
    last: VecDeque<u64>,
}

impl Reached {
    /// Adds the code that the next scenario executed. Returns how many bytes of it no scenario executed before.
    pub fn add(&mut self, coverage: &Coverage) -> u64 {
        let new = self.all.add(coverage);
        self.last.push_back(new);
        if self.last.len() > LAST {
            self.last.pop_front();
        }
        new
    }

    /// `131.2 of 379.0 KiB of kernel/sched executed, 0.4 KiB first in the last 100 scenarios`; `None`: it is not known.
    pub fn describe(&self) -> Option<String> {
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        let (executed, all) = (kib(self.all.executed()), kib(8 * self.all.0.len() as u64));
        let text = format!("{executed:.1} of {all:.1} KiB of kernel/sched executed");
        let new = kib(self.last.iter().sum());
        match self.last.len() {
            0 => None,
            LAST => Some(format!("{text}, {new:.1} KiB first in the last {LAST} scenarios")),
            _ => Some(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_new_once_and_what_the_last_scenarios_added_is_said() {
        let mut reached = Reached::default();
        assert_eq!(reached.describe(), None);
        let executes = |bytes: usize| Coverage([vec![0xff; bytes], vec![0; 1024 - bytes]].concat());
        assert_eq!([128, 64, 192].map(|bytes| reached.add(&executes(bytes))), [1024, 0, 512]);
        let text = "1.5 of 8.0 KiB of kernel/sched executed";
        assert_eq!(reached.describe().unwrap(), text);
        (0..98).for_each(|_| _ = reached.add(&executes(1)));
        let last = ", 0.5 KiB first in the last 100 scenarios";
        assert_eq!(reached.describe().unwrap(), format!("{text}{last}"));
    }
}
