//! Facts that are known of the sched_ext schedulers under which runs were made. Plain data.

use super::{Environment, Reading, Value, Variant};

/// schedlab's own schedulers, by name, and whether they heed the weight that a nice value gives a task. None of
/// them has an operation for cgroups.
pub const OWN_SCHEDULERS: [(&str, bool); 6] = [
    ("fifo", false),
    ("vtime", true),
    ("bad", false),
    ("lossy", false),
    ("stray", false),
    ("haughty", true),
];

/// Begins the name of a machine's scheduler where that is a sched_ext one.
pub const SCHED_EXT: &str = "sched_ext ";

/// The weights that a scheduler heeds; `None`: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heeded {
    pub nice: Option<bool>,
    pub cgroups: Option<bool>,
}

impl Heeded {
    /// `scx`: the sched_ext scheduler. The kernel's own heeds both, schedlab's own what [`OWN_SCHEDULERS`]
    /// says; nothing is known of others.
    pub fn by(scx: Option<&str>) -> Heeded {
        let Some(scx) = scx else { return Heeded { nice: Some(true), cgroups: Some(true) } };
        match OWN_SCHEDULERS.iter().find(|(name, _)| *name == scx) {
            Some((_, nice)) => Heeded { nice: Some(*nice), cgroups: Some(false) },
            None => Heeded { nice: None, cgroups: None },
        }
    }
}

impl Variant {
    /// The sched_ext scheduler that it asks for.
    pub fn scx(&self) -> Option<&str> {
        self.knobs.get("scx").and_then(Value::as_text)
    }
}

impl Environment {
    /// The sched_ext scheduler that the machine had already.
    pub fn scx(&self) -> Option<&str> {
        match self.scheduler.as_ref()? {
            Reading::Known(name) => name.strip_prefix(SCHED_EXT),
            Reading::Unknown(_) => None,
        }
    }
}
