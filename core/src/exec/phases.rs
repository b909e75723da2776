//! When the worker sets of a run begin and end: with the run, or with a phase of their own.
//!
//! The moments of the plan become edges on the monotonic clock, in the order in which the
//! measuring thread crosses them. A phase that ends with a window ends before it is read, one
//! that begins there begins after it: a set has nothing in windows outside of its phase. Pure.

use std::collections::VecDeque;

use crate::model::Phase;
use crate::workload::{Burst, Opening};

use super::group::Set;

/// The phase of a set ends or begins. Ends come first of those at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    End,
    Begin,
}

/// Moments of the monotonic clock.
pub struct Phases {
    started_ns: u64,
    /// The measured section.
    from_ns: u64,
    until_ns: u64,
    /// Programs of sets without an end of their own are executed again until then, and no run ends before.
    repeat_until_ns: u64,
    /// Edges still to be crossed, ascending.
    edges: VecDeque<(u64, Turn, usize)>,
}

impl Phases {
    /// `until_ns`: the largest there is where the run ends with its programs.
    pub fn new(
        phases: impl Iterator<Item = Option<Phase>>,
        started_ns: u64,
        from_ns: u64,
        until_ns: u64,
        repeat_until_ns: u64,
    ) -> Phases {
        let mut edges = Vec::new();
        for (set, phase) in phases.enumerate() {
            let Some(phase) = phase else { continue };
            edges.push((from_ns + phase.at_ns, Turn::Begin, set));
            edges.extend(phase.end_ns().map(|end_ns| (from_ns + end_ns, Turn::End, set)));
        }
        edges.sort_unstable();
        Phases { started_ns, from_ns, until_ns, repeat_until_ns, edges: edges.into() }
    }

    /// The parameters with which a set that begins now is opened.
    pub fn opening(&self, set: &Set, now_ns: u64) -> Opening {
        self.opening_of(set.phase, set.is_background, set.burst(), now_ns)
    }

    fn opening_of(
        &self,
        phase: Option<Phase>,
        is_background: bool,
        burst: Option<Burst>,
        now_ns: u64,
    ) -> Opening {
        let end_ns = phase.and_then(|phase| phase.end_ns()).map(|end_ns| self.from_ns + end_ns);
        // In the background they go on as long as others are measured.
        let repeat_until_ns = if is_background { u64::MAX } else { self.repeat_until_ns };
        Opening {
            started_ns: if phase.is_some() { now_ns } else { self.started_ns },
            from_ns: self.from_ns + phase.map_or(0, |phase| phase.at_ns),
            until_ns: end_ns.unwrap_or(u64::MAX).min(self.until_ns),
            repeat_until_ns: end_ns.unwrap_or(u64::MAX).min(repeat_until_ns),
            burst,
        }
    }

    pub fn repeat_until_ns(&self) -> u64 {
        self.repeat_until_ns
    }

    /// The moment of the next edge that comes before a window is read that ends at `end_ns`.
    pub fn next_ns(&self, end_ns: u64) -> Option<u64> {
        let (at_ns, turn, _) = *self.edges.front()?;
        (at_ns < end_ns || at_ns == end_ns && turn == Turn::End).then_some(at_ns)
    }

    /// The next edge: the set, and whether its phase begins or ends.
    pub fn cross(&mut self) -> Option<(usize, Turn)> {
        self.edges.pop_front().map(|(_, turn, set)| (set, turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(at_ns: u64, for_ns: Option<u64>) -> Option<Phase> {
        Some(Phase { at_ns, for_ns, ops: None })
    }

    #[test]
    fn edges_lie_inside_the_windows_of_their_phase() {
        let of = [None, phase(100, Some(100)), phase(200, None), phase(50, Some(50))];
        let mut phases = Phases::new(of.into_iter(), 0, 1000, 1300, 1300);
        let mut windows = Vec::new();
        for end_ns in [1100, 1200, 1300] {
            let mut crossed = Vec::new();
            while let Some(at_ns) = phases.next_ns(end_ns) {
                crossed.extend(phases.cross().map(|(set, turn)| (at_ns - 1000, set, turn)));
            }
            windows.push(crossed);
        }
        let expected = [
            vec![(50, 3, Turn::Begin), (100, 3, Turn::End)],
            vec![(100, 1, Turn::Begin), (200, 1, Turn::End)],
            vec![(200, 2, Turn::Begin)],
        ];
        assert_eq!(windows, expected);
        assert_eq!(phases.cross(), None);
    }

    #[test]
    fn a_phase_has_a_section_of_its_own() {
        let phases = Phases::new(std::iter::empty(), 7, 1000, u64::MAX, 1300);
        let opened = |phase, is_background| {
            let Opening { started_ns, from_ns, until_ns, repeat_until_ns, .. } =
                phases.opening_of(phase, is_background, None, 1234);
            [started_ns, from_ns, until_ns, repeat_until_ns]
        };
        assert_eq!(opened(None, false), [7, 1000, u64::MAX, 1300]);
        assert_eq!(opened(None, true), [7, 1000, u64::MAX, u64::MAX]);
        assert_eq!(opened(phase(200, Some(50)), false), [1234, 1200, 1250, 1250]);
        assert_eq!(opened(phase(200, Some(50)), true), [1234, 1200, 1250, 1250]);
        assert_eq!(opened(phase(200, None), true), [1234, 1200, u64::MAX, u64::MAX]);
    }
}
