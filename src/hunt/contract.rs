//! The trait `Rule`, and the judgement of one over one run. Traits and plain data.

use super::seen::{Seen, SeenWindow, ns};

/// Something that every scheduler keeps, or every one of a named class.
pub trait Rule: Sync {
    /// As in the table of its page.
    fn name(&self) -> &'static str;

    /// `None`: it has nothing to say of this run.
    fn judge(&self, seen: &Seen) -> Option<Judgement>;

    /// Whether a run of which it has nothing to say is far from its bound. `false`: it could not judge the run.
    fn silence_is_far(&self) -> bool {
        true
    }

    /// A broken rule, as a sentence without its full stop.
    fn explain(&self, seen: &Seen, judgement: &Judgement) -> String;
}

/// How near a run came to the bound of a rule, and where.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// The figure in units of the bound: 1 and more breaks the rule.
    pub distance: f64,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Positions in [`Seen::tasks`].
    pub tasks: Vec<usize>,
    /// CPUs, or the factor that the rule is about.
    pub figure: f64,
}

impl Judgement {
    /// A task that waited from one moment to another: the bound is how long it may wait.
    pub fn from_wait(task: usize, (from_ns, to_ns): (u64, u64), bound_ns: f64) -> Judgement {
        Judgement {
            distance: (to_ns - from_ns) as f64 / bound_ns,
            from_ns,
            to_ns,
            tasks: vec![task],
            figure: bound_ns / 1e9,
        }
    }

    /// Successive windows that are not as the rule wants them, for so long that `bound_ns` is the limit: the tasks are
    /// those that are runnable in the first one, the figure is how many CPUs `missed_ns` are. `None`: no windows.
    pub fn from_windows(
        seen: &Seen,
        windows: &[SeenWindow],
        bound_ns: u64,
        missed_ns: impl Fn(&SeenWindow) -> u64,
    ) -> Option<Judgement> {
        let (first, last) = (windows.first()?, windows.last()?);
        let missed_ns: u64 = windows.iter().map(missed_ns).sum();
        Some(Judgement {
            distance: ns(windows) as f64 / bound_ns as f64,
            from_ns: first.from_ns,
            to_ns: last.to_ns,
            tasks: seen.runnable(first).collect(),
            figure: missed_ns as f64 / ns(windows) as f64,
        })
    }

    /// The judgement that is nearest to its bound, or furthest beyond it.
    pub fn worst(judgements: impl Iterator<Item = Judgement>) -> Option<Judgement> {
        judgements.max_by(|left, right| left.distance.total_cmp(&right.distance))
    }

    pub fn is_broken(&self) -> bool {
        self.distance >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_judgement_is_the_one_with_the_largest_distance() {
        let judgement = |distance| Judgement { distance, ..Judgement::default() };
        let worst = Judgement::worst([0.5, 1.5, 1.0].map(judgement).into_iter());
        assert_eq!(worst, Some(judgement(1.5)));
        assert_eq!(Judgement::worst(std::iter::empty()), None);
    }
}
