//! The trait `Rule`, and the judgement of one over one run. Traits and plain data.

use super::seen::Seen;

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
    pub fn is_broken(&self) -> bool {
        self.distance >= 1.0
    }
}
