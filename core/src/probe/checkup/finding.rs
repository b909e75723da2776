//! The results of checks. Plain data.

/// Levels from harmless to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Good,
    /// Worth knowing when results are compared with those of other machines, or a limit of the measurement.
    Note,
    /// Widens the spread of results, or moves them in ways that are not the scheduler's.
    Disturbs,
    /// Results would not be about the scheduler at all.
    Blocks,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub name: &'static str,
    pub level: Level,
    /// The observation, on one line.
    pub what: String,
    /// Why it matters to a measurement.
    pub why: String,
    /// A command for a shell. Most last until the next boot.
    pub fix: Option<String>,
}

/// The result of a check; the registry adds its name.
pub struct Seen {
    pub level: Level,
    pub what: String,
    pub why: &'static str,
    pub fix: Option<String>,
}

impl Seen {
    pub fn new(level: Level, what: impl Into<String>, why: &'static str) -> Seen {
        Seen { level, what: what.into(), why, fix: None }
    }

    pub fn good(what: impl Into<String>) -> Seen {
        Seen::new(Level::Good, what, "")
    }

    /// A fact that could not be read, with the reason in its place.
    pub fn unknown(reason: impl Into<String>, why: &'static str) -> Seen {
        Seen::new(Level::Note, format!("not known: {}", reason.into()), why)
    }

    pub fn fix(mut self, command: String) -> Seen {
        self.fix = Some(command);
        self
    }
}
