//! A line on standard error that the next one replaces, where the terminal can; elsewhere nothing is shown of it.

use std::io;

use super::terminal;

pub struct StatusLine {
    pub redraws: bool,
}

impl StatusLine {
    pub fn new() -> StatusLine {
        StatusLine { redraws: terminal::redraws(&io::stderr()) }
    }

    /// Whether it is shown.
    pub fn passing(&self, text: &str) -> bool {
        if self.redraws {
            terminal::status(text);
        }
        self.redraws
    }

    /// Stays on the screen.
    pub fn lasting(&self, text: &str) {
        self.clear();
        terminal::message(text);
    }

    pub fn clear(&self) {
        self.passing("");
    }
}
