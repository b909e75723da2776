//! The configuration of a fleet, and who hears about it.

use std::path::PathBuf;

use super::slurm::SlurmOptions;

pub struct FleetConfig {
    /// That of the plan, or of the hosts' fleet.
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
    /// Gets lines, escaped.
    pub say: Box<dyn Fn(&str)>,
    /// Only warnings.
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
