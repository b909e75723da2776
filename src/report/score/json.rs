//! Scoreboards, intervals and comparisons as JSON, as docs/score.md describes them. Pure.

use std::io::{self, Write};

use serde::Serialize;

use crate::report::json::{Document, escaped};

/// Raised where a key changes its name, meaning or type.
const VERSION: u32 = 2;

/// One document, on one line.
pub fn line(schema: &'static str, of: &impl Serialize) -> serde_json::Result<String> {
    let line = serde_json::to_string(&Document { schema, version: VERSION, of })?;
    Ok(escaped(&line) + "\n")
}

pub fn write(schema: &'static str, of: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(line(schema, of)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TaskScore;

    /// Anybody names a task.
    #[test]
    fn a_name_acts_on_no_terminal_and_is_read_back_as_it_was() {
        let name = "a\u{9b}2J\u{202e}\u{1b}b\u{7f}";
        let task = TaskScore { name: name.to_string(), ..TaskScore::default() };
        let line = line("test", &task).unwrap();
        assert!(!line.trim_end().contains(crate::report::layout::is_active), "{line}");
        let read: TaskScore = serde_json::from_str(&line).unwrap();
        assert_eq!(read.name, name);
    }
}
