//! The machine as checks see it, and commands for it. Reads; changes nothing.

use crate::model::{Disturbance, Environment, Reading, clean};
use crate::sys::Host;

use super::capabilities;

/// The machine as checks see it.
pub struct Machine<'a> {
    pub host: &'a Host,
    pub environment: Environment,
    /// Disturbances while it was watched.
    pub disturbances: Vec<Disturbance>,
    pub swapped_pages: Reading<u64>,
}

impl Machine<'_> {
    /// A number of /proc or /sys.
    pub fn number(&self, path: &str) -> Reading<i64> {
        self.host.reading(path).and_then(|text| {
            let why = format!("{path}: `{}` is not a number", clean(&text));
            Reading::from_option(text.trim().parse().ok(), why)
        })
    }

    /// The command that sets a sysctl.
    pub fn sysctl(&self, name: &str, value: i64) -> String {
        format!("{}sysctl -w {name}={value}", self.sudo())
    }

    /// The command that writes a word to a file, or to all that a pattern matches.
    pub fn echo(&self, word: &str, path: &str) -> String {
        format!("echo {word} | {}tee {path}", self.sudo())
    }

    /// Before commands that need root: nothing where this is root already.
    pub fn sudo(&self) -> &'static str {
        if capabilities::has_all(self.host) { "" } else { "sudo " }
    }
}
