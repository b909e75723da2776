//! Lines of bounded width, with colour where it is wanted. Pure.

use unicode_width::UnicodeWidthStr;

use super::{Options, show};

/// How a line is coloured, where lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Bold,
    /// Touches the numbers.
    Warning,
    /// A run gave no numbers.
    Bad,
}

pub struct Page {
    width: usize,
    color: bool,
    text: String,
}

impl Page {
    pub fn new(options: &Options) -> Self {
        Page { width: options.columns(), color: options.color, text: String::new() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// One line that fits: cutting it here would lose numbers without a word.
    pub fn line(&mut self, tone: Tone, line: &str) {
        let sequence = match tone {
            _ if !self.color || line.is_empty() => "",
            Tone::Plain => "",
            Tone::Bold => "\x1b[1m",
            Tone::Warning => "\x1b[33m",
            Tone::Bad => "\x1b[31m",
        };
        let reset = if sequence.is_empty() { "" } else { "\x1b[0m" };
        self.text.push_str(&format!("{sequence}{line}{reset}\n"));
    }

    /// `label`, then `text` in as many lines as it takes, all beside the label.
    pub fn wrapped(&mut self, tone: Tone, label: &str, text: &str) {
        let indent = label.width();
        for (at, line) in show::wrap(text, self.width - indent).iter().enumerate() {
            let line = match at {
                0 => format!("{label}{line}"),
                _ => format!("{:indent$}{line}", ""),
            };
            self.line(tone, line.trim_end());
        }
    }

    pub fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Parts one record from the next.
    pub fn rule(&mut self) {
        self.gap();
        self.line(Tone::Plain, &"=".repeat(self.width));
        self.gap();
    }
}
