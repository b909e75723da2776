//! The configuration of a fleet, and who hears about it.

use std::path::PathBuf;

use super::slurm::SlurmOptions;

pub struct FleetConfig {
    /// The plan's id, or the id of a measurement of hosts.
    pub id: String,
    /// The folder of the journal.
    pub state: PathBuf,
    /// The parent of the fleets' folders.
    pub folder: PathBuf,
    pub slurm: SlurmOptions,
    pub user: User,
}

/// The user, who gets messages.
pub struct User {
    /// Prints one line, which is escaped.
    pub say: Box<dyn Fn(&str)>,
    /// Whether only warnings are printed.
    pub quiet: bool,
}

impl User {
    pub fn warn(&self, text: &str) {
        (self.say)(text);
    }

    pub fn inform(&self, text: &str) {
        if !self.quiet {
            (self.say)(text);
        }
    }
}
