//! QEMU's monitor, on its standard input and output: asks whether the machine has stopped, and
//! saves its state.
//!
//! The machine continues meanwhile and does not notice: QEMU answers when its virtual CPUs sleep.
//! Shapes: the QEMU machine protocol, one JSON document a line.

use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use crate::model::MAX_LINE_BYTES;
use crate::sys::input;
use serde_json::{Value, json};

/// Bytes a second: no limit in practice.
const BANDWIDTH: u64 = 100_000_000_000;

pub struct Monitor {
    stdin: Box<dyn Write>,
    answers: Receiver<Value>,
    /// Whether the answer to the last command is still to come.
    is_waiting: bool,
    step: Step,
}

enum Step {
    Running,
    Saving,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    Running,
    Saved,
    /// With QEMU's own words.
    Failed(String),
}

impl Monitor {
    pub fn new(stdin: impl Write + 'static, stdout: impl Read + Send + 'static) -> Monitor {
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in input::lines(BufReader::new(stdout), MAX_LINE_BYTES).map_while(Result::ok) {
                let Ok(answer) = serde_json::from_str(&line) else { continue };
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        let stdin = Box::new(stdin);
        let mut monitor = Monitor { stdin, answers, is_waiting: false, step: Step::Running };
        // A failed write is ignored: the code that waits for QEMU notices that it has ended.
        monitor.send("qmp_capabilities", json!({}));
        monitor
    }

    fn send(&mut self, command: &str, arguments: Value) {
        let line = json!({ "execute": command, "arguments": arguments });
        _ = writeln!(self.stdin, "{line}");
        self.is_waiting = true;
    }

    /// Reads QEMU's answers, and asks again. `state`: the file for the state of a stopped machine.
    pub fn poll(&mut self, state: &Path) -> Progress {
        while let Ok(message) = self.answers.try_recv() {
            if let Some(error) = message.get("error") {
                return Progress::Failed(error.to_string());
            }
            let Some(answer) = message.get("return") else { continue };
            self.is_waiting = false;
            let status = answer.get("status").and_then(Value::as_str);
            match (&self.step, status) {
                (Step::Running, Some("guest-panicked")) => self.save(state),
                (Step::Saving, Some("completed")) => return Progress::Saved,
                (Step::Saving, Some(end @ ("failed" | "cancelled"))) => {
                    let why = answer.get("error-desc").and_then(Value::as_str).unwrap_or(end);
                    return Progress::Failed(why.to_string());
                }
                _ => {}
            }
        }
        if !self.is_waiting {
            let question = match self.step {
                Step::Running => "query-status",
                Step::Saving => "query-migrate",
            };
            self.send(question, json!({}));
        }
        Progress::Running
    }

    fn save(&mut self, state: &Path) {
        self.step = Step::Saving;
        self.send("migrate-set-parameters", json!({ "max-bandwidth": BANDWIDTH }));
        self.send("migrate", json!({ "uri": format!("file:{}", state.display()) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, sink};

    /// The outcome of a machine that gives these answers, and then an error.
    fn outcome(answers: &[&str]) -> Progress {
        let answers = [answers, &[r#"{"error": "that was all"}"#]].concat().join("\n");
        let mut monitor = Monitor::new(sink(), Cursor::new(answers));
        loop {
            match monitor.poll(Path::new("/s")) {
                // The thread that reads them has not passed all of them on.
                Progress::Running => std::thread::yield_now(),
                ended => return ended,
            }
        }
    }

    const STOPPED: &[&str] = &[
        r#"{"QMP": {"version": {}}}"#,
        "no JSON",
        r#"{"return": {}}"#,
        r#"{"event": "GUEST_PANICKED"}"#,
        r#"{"return": {"status": "guest-panicked"}}"#,
        r#"{"return": {}}"#,
    ];

    #[test]
    fn a_machine_is_saved_when_it_has_stopped_and_its_state_is_complete() {
        let after = |answers: &[&'static str]| outcome(&[STOPPED, answers].concat());
        let active = r#"{"return": {"status": "active"}}"#;
        let completed = r#"{"return": {"status": "completed"}}"#;
        let failed = r#"{"return": {"status": "failed", "error-desc": "disk full"}}"#;
        assert_eq!(after(&[active, completed]), Progress::Saved);
        assert_eq!(after(&[failed]), Progress::Failed("disk full".to_string()));
        let cancelled = Progress::Failed("cancelled".to_string());
        assert_eq!(after(&[r#"{"return": {"status": "cancelled"}}"#]), cancelled);
        let refused = after(&[r#"{"error": {"desc": "no such file"}}"#]);
        assert!(matches!(refused, Progress::Failed(why) if why.contains("no such file")));
        let running = r#"{"return": {"status": "running"}}"#;
        let never_stopped = outcome(&[r#"{"return": {}}"#, running, completed]);
        assert_eq!(never_stopped, Progress::Failed("\"that was all\"".to_string()));
    }
}
