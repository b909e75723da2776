//! The console of a guest: lines of [`GuestMessage`] come out of it, a [`GuestSpec`] goes in.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::path::Path;

use crate::model::MAX_LINE_BYTES;
use crate::model::{GuestMessage, GuestSpec};
use crate::sys::input;
use crate::sys::tty;

/// The console of a guest of Xen, as the guest has it.
const CONSOLE: &str = "/dev/hvc0";
/// How a line with a message begins. The kernel writes to the console, too.
const MESSAGE: &str = "{\"type\":";

/// The guest's end.
pub struct GuestChannel {
    console: File,
}

impl GuestChannel {
    pub fn open() -> io::Result<GuestChannel> {
        open(Path::new(CONSOLE)).map(|console| GuestChannel { console })
    }

    /// Errors are ignored: the other end waits in vain, and reports that.
    pub fn send(&self, message: &GuestMessage) {
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        _ = (&self.console).write_all(&line);
    }

    /// Waits for the guest's part of the run.
    pub fn spec(&self) -> io::Result<GuestSpec> {
        let line = input::lines(BufReader::new(&self.console), MAX_LINE_BYTES).next();
        Ok(serde_json::from_str(&line.transpose()?.unwrap_or_default())?)
    }
}

/// A terminal as a pipe: nothing is echoed and no byte changed.
pub fn open(path: &Path) -> io::Result<File> {
    let terminal = OpenOptions::new().read(true).write(true).open(path)?;
    tty::make_raw(&terminal)?;
    Ok(terminal)
}

/// The contents of a line of the console.
pub enum Line {
    Message(Box<GuestMessage>),
    /// A line of the kernel, or of another writer.
    Text(String),
}

impl Line {
    pub fn parse(line: &str) -> Line {
        let line = line.trim();
        let message = line.find(MESSAGE).and_then(|at| serde_json::from_str(&line[at..]).ok());
        match message {
            Some(message) => Line::Message(Box::new(message)),
            None => Line::Text(line.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stand_among_other_lines() {
        let is_started = |line: &str| matches!(Line::parse(line), Line::Message(message) if *message == GuestMessage::Started);
        assert!(is_started("{\"type\":\"started\"}\r"));
        assert!(is_started("[    1.5] x{\"type\":\"started\"}"), "after a line without an end");
        assert!(
            matches!(Line::parse("[    0.0] Linux"), Line::Text(text) if text == "[    0.0] Linux")
        );
        assert!(matches!(Line::parse("{\"type\":\"star"), Line::Text(_)));
    }
}
