//! QEMU's monitor, by its standard input and output: asks whether the machine has stopped, and has
//! its state written.
//!
//! The machine goes on beside it and does not notice: QEMU answers when its virtual CPUs sleep.
//! Shapes: the QEMU machine protocol, one JSON document a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

/// Bytes a second: as fast as it goes.
const BANDWIDTH: u64 = 100_000_000_000;

pub struct Monitor {
    stdin: Box<dyn Write>,
    answers: Receiver<Value>,
    /// Whether the answer to the last command is still to come.
    is_waiting: bool,
    step: Step,
}

enum Step {
    /// It runs still, as far as is known.
    Running,
    Saving,
}

/// What is known of the machine.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    Going,
    Saved,
    Failed(String),
}

impl Monitor {
    pub fn new(stdin: impl Write + 'static, stdout: impl Read + Send + 'static) -> Monitor {
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(answer) = serde_json::from_str(&line) else { continue };
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        let stdin = Box::new(stdin);
        let mut monitor = Monitor { stdin, answers, is_waiting: false, step: Step::Running };
        // Answered like all others; a QEMU that has ended is noticed by who waits for it.
        monitor.say("qmp_capabilities", json!({}));
        monitor
    }

    fn say(&mut self, command: &str, arguments: Value) {
        let line = json!({ "execute": command, "arguments": arguments });
        // As above.
        _ = writeln!(self.stdin, "{line}");
        self.is_waiting = true;
    }

    /// Takes what QEMU has said, and asks on. `state` is where a stopped machine is written to.
    pub fn go_on(&mut self, state: &Path) -> Progress {
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
            self.say(question, json!({}));
        }
        Progress::Going
    }

    fn save(&mut self, state: &Path) {
        self.step = Step::Saving;
        self.say("migrate-set-parameters", json!({ "max-bandwidth": BANDWIDTH }));
        self.say("migrate", json!({ "uri": format!("file:{}", state.display()) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, sink};

    /// What comes of a machine that gives these answers, and then complains.
    fn outcome(answers: &[&str]) -> Progress {
        let answers = [answers, &[r#"{"error": "that was all"}"#]].concat().join("\n");
        let mut monitor = Monitor::new(sink(), Cursor::new(answers));
        loop {
            match monitor.go_on(Path::new("/s")) {
                // The thread that reads them has more.
                Progress::Going => std::thread::yield_now(),
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
    fn a_machine_is_saved_when_it_has_stopped_and_its_state_is_whole() {
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
