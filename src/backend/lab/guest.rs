//! One guest: a QEMU process from start to last word.
//!
//! It is bound to the thread that waits for it: whatever ends schedlab, the kernel ends QEMU.
//! What the guest says is read when it has ended; meanwhile its console is watched for a kernel
//! that gives up.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::model::{EXIT_CODE, FromGuest, GUEST_WIRE, GuestFacts, Outcome, Window};
use crate::sys::child;

use super::failed;
use super::qmp::{Monitor, Progress};

/// How often a guest is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// What a kernel says when it gives up. Its QEMU may go on for ever.
const GIVING_UP: &str = "Kernel panic - not syncing";
/// A guest that gives up is given this long to say why.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Of the console, in the reason of a failure.
const CONSOLE_LINES: usize = 6;

/// What a guest needs to run.
pub struct Start<'a> {
    pub program: &'a Path,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(&'static str, OsString)>,
    /// Where it runs: names of files in its arguments begin here.
    pub folder: PathBuf,
    pub results: PathBuf,
    pub console: PathBuf,
    /// Where consoles of guests that failed are kept.
    pub failed: &'a Path,
    /// By the host's clock.
    pub patience: Duration,
}

/// What a guest said, all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub facts: Option<Box<GuestFacts>>,
    pub windows: Vec<Window>,
    pub outcome: Outcome,
    /// As they came, for comparing two runs to the bit.
    pub bytes: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    Failed(String),
    Cancelled,
}

/// Runs a guest to its end. Also gives the number of its process.
pub fn run(start: &Start, cancel: &AtomicBool) -> Result<(Said, u32), Unanswered> {
    let mut qemu = Qemu::start(start, Stdio::null(), Stdio::null()).map_err(Unanswered::Failed)?;
    let ended = qemu.attend(start, cancel, &mut || Ok(false)).and_then(|_| heard(start));
    let mut said = ended.map_err(|why| with_console(why, start))?;
    if let Outcome::Failed { reason } = &mut said.outcome {
        reason.push_str(&console_told(start));
    }
    Ok((said, qemu.0.id()))
}

/// Runs a guest until it stops the machine, and has its state written. Gives what it said of
/// itself, and the number of its process.
pub fn stop_and_save(
    start: &Start,
    state: &Path,
    cancel: &AtomicBool,
) -> Result<(GuestFacts, u32), Unanswered> {
    let qemu = Qemu::start(start, Stdio::piped(), Stdio::piped());
    let mut qemu = qemu.map_err(Unanswered::Failed)?;
    let (Some(stdin), Some(stdout)) = (qemu.0.stdin.take(), qemu.0.stdout.take()) else {
        return Err(Unanswered::Failed("QEMU has no pipes".to_string()));
    };
    let mut monitor = Monitor::new(stdin, stdout);
    let saved = qemu.attend(start, cancel, &mut || match monitor.go_on(state) {
        Progress::Going => Ok(false),
        Progress::Saved => Ok(true),
        Progress::Failed(why) => Err(format!("the machine's state cannot be kept: {why}")),
    });
    let facts = saved.and_then(|end| match end {
        Attended::Enough => facts(start),
        // It ended in place of stopping, and says why.
        Attended::Exited => heard(start).and_then(|said| match said.outcome {
            Outcome::Failed { reason } | Outcome::Skipped { reason } => {
                Err(Unanswered::Failed(reason))
            }
            Outcome::Done { .. } => Err(Unanswered::Failed("a run without a spec".to_string())),
        }),
    });
    facts.map(|facts| (facts, qemu.0.id())).map_err(|why| with_console(why, start))
}

fn with_console(why: Unanswered, start: &Start) -> Unanswered {
    match why {
        Unanswered::Failed(why) => Unanswered::Failed(why + &console_told(start)),
        Unanswered::Cancelled => Unanswered::Cancelled,
    }
}

struct Qemu(Child);

enum Attended {
    /// The guest ended it.
    Exited,
    /// Whoever asked has what it wanted.
    Enough,
}

impl Qemu {
    fn start(start: &Start, stdin: Stdio, stdout: Stdio) -> Result<Qemu, String> {
        let mut command = Command::new(start.program);
        command
            .current_dir(&start.folder)
            .args(&start.arguments)
            .envs(start.environment.iter().map(|(k, v)| (k, v)));
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        child::bind(&mut command);
        command
            .spawn()
            .map(Qemu)
            .map_err(|error| format!("{} cannot be started: {error}", start.program.display()))
    }

    /// Waits for the end, or until `is_enough`, which is asked at each look.
    fn attend(
        &mut self,
        start: &Start,
        cancel: &AtomicBool,
        is_enough: &mut dyn FnMut() -> Result<bool, String>,
    ) -> Result<Attended, Unanswered> {
        let began = Instant::now();
        let mut gives_up: Option<(String, Instant)> = None;
        let failed = |why: String| Err(Unanswered::Failed(why));
        loop {
            match self.0.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) if status.code() == Some(EXIT_CODE) => {
                    return Ok(Attended::Exited);
                }
                Ok(Some(status)) => {
                    let why = panicked(&start.console);
                    return failed(
                        why.unwrap_or_else(|| format!("QEMU ended with {status}{}", self.words())),
                    );
                }
                Err(error) => return failed(format!("QEMU cannot be waited for: {error}")),
            }
            if cancel.load(Relaxed) {
                return Err(Unanswered::Cancelled);
            }
            if is_enough().map_err(Unanswered::Failed)? {
                return Ok(Attended::Enough);
            }
            if gives_up.is_none() {
                gives_up = panicked(&start.console).map(|why| (why, Instant::now()));
            }
            if let Some((why, since)) = &gives_up
                && since.elapsed() > LAST_WORDS
            {
                return failed(why.clone());
            }
            if began.elapsed() > start.patience {
                let seconds = start.patience.as_secs();
                return failed(format!(
                    "the guest did not end within {seconds} s of the host's time"
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What QEMU itself complained of.
    fn words(&mut self) -> String {
        let Some(stderr) = self.0.stderr.take() else { return String::new() };
        let text = io::read_to_string(stderr).unwrap_or_default();
        match text.trim() {
            "" => String::new(),
            text => format!(": {}", one_line(text)),
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // Ended already, or ended now.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// That a kernel gave up, with its own words for it.
fn panicked(console: &Path) -> Option<String> {
    let text = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let said = text.lines().find_map(|line| line.find(GIVING_UP).map(|at| &line[at..]))?;
    Some(format!("the guest's kernel gave up: {}", one_line(said)))
}

/// Keeps the console of a guest that failed, and tells of it as the end of a sentence.
fn console_told(start: &Start) -> String {
    let kept = match failed::keep(start.failed, &start.console) {
        Ok(Some(path)) => format!("; all of it: {}", path.display()),
        Ok(None) => String::new(),
        Err(error) => format!("; it cannot be kept: {error}"),
    };
    last_lines(&start.console) + &kept
}

/// What others wrote, on one line and without a terminal's commands.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.escape_debug().to_string()).collect::<Vec<_>>().join(" / ")
}

/// The end of the console, as the end of a sentence.
fn last_lines(console: &Path) -> String {
    let text = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "; its console is empty".to_string();
    }
    let kept = lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n");
    format!("; the end of its console: {}", one_line(&kept))
}

fn heard(start: &Start) -> Result<Said, Unanswered> {
    let bytes = fs::read(&start.results).map_err(|error| error.to_string());
    bytes.and_then(understand).map_err(Unanswered::Failed)
}

/// What a guest that has stopped said before.
fn facts(start: &Start) -> Result<GuestFacts, Unanswered> {
    let bytes = fs::read(&start.results).map_err(|error| Unanswered::Failed(error.to_string()))?;
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice(first) {
        Ok(FromGuest::Ready(facts)) if facts.wire == GUEST_WIRE => Ok(facts),
        _ => Err(Unanswered::Failed("the guest stopped before it was ready".to_string())),
    }
}

/// Lines of [`FromGuest`], of which the last tells the end.
pub fn understand(bytes: Vec<u8>) -> Result<Said, String> {
    let mut said = Said {
        facts: None,
        windows: Vec::new(),
        outcome: Outcome::Failed { reason: String::new() },
        bytes: Vec::new(),
    };
    let mut has_ended = false;
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let message = serde_json::from_slice(line)
            .map_err(|error| format!("line {} of the guest's words: {error}", at + 1))?;
        match message {
            FromGuest::Ready(facts) if facts.wire != GUEST_WIRE => {
                return Err(format!("the guest speaks wire version {}", facts.wire));
            }
            FromGuest::Ready(facts) => said.facts = Some(Box::new(facts)),
            FromGuest::Window(window) => said.windows.push(window),
            FromGuest::Ended { outcome } => (said.outcome, has_ended) = (outcome, true),
        }
    }
    if !has_ended {
        return Err("the guest ended without a last word".to_string());
    }
    said.bytes = bytes;
    Ok(said)
}

/// Where two guests that should have said the same differ first.
pub fn difference(first: &[u8], second: &[u8]) -> Option<String> {
    if first == second {
        return None;
    }
    let same = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    let line = first[..same].iter().filter(|byte| **byte == b'\n').count() + 1;
    let around = |bytes: &[u8]| {
        let from = same.saturating_sub(40);
        let shown = &bytes[from.min(bytes.len())..(same + 20).min(bytes.len())];
        String::from_utf8_lossy(shown).escape_debug().to_string()
    };
    Some(format!(
        "two runs differ at byte {same} (line {line}): `{}` and `{}`",
        around(first),
        around(second)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str = r#"{"say":"ready","wire":1,"kernel_release":"6.1","kernel_version":"x","topology":{"online":"0-3","allowed":"0-3","llcs":[],"numa_nodes":[],"cores":[]},"quiet_at_ns":7,"capacity":{"known":0.99}}"#;
    const ENDED: &str = r#"{"say":"ended","outcome":{"status":"failed","reason":"no"}}"#;

    #[test]
    fn a_guests_words_are_whole_or_refused() {
        let bytes = format!("{READY}\n{ENDED}\n").into_bytes();
        let said = understand(bytes.clone()).unwrap();
        assert_eq!(said.facts.unwrap().topology.online.to_string(), "0-3");
        assert_eq!(said.outcome, Outcome::Failed { reason: "no".to_string() });
        assert_eq!(said.bytes, bytes);
        let cases: &[(String, &str)] = &[
            (format!("{READY}\n"), "without a last word"),
            (String::new(), "without a last word"),
            (format!("{READY}\n{}", &ENDED[..20]), "line 2 of the guest's words"),
            (READY.replace("\"wire\":1", "\"wire\":9"), "wire version 9"),
        ];
        for (text, why) in cases {
            let told = understand(text.clone().into_bytes()).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference(b"a\nb", b"a\nb"), None);
        let told = difference(b"one\ntwo 123\n", b"one\ntwo 124\n").unwrap();
        assert!(told.starts_with("two runs differ at byte 10 (line 2): "), "{told}");
        assert!(difference(b"one", b"one more").unwrap().contains("byte 3 (line 1)"));
    }

    #[test]
    fn the_console_tells_why_a_kernel_gave_up() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("console");
        assert_eq!(panicked(&console), None);
        assert_eq!(last_lines(&console), "; its console is empty");
        fs::write(&console, "[1] x\r\n[2] Kernel panic - not syncing: no init\u{1b}[31m\r\n")
            .unwrap();
        let why = panicked(&console).unwrap();
        assert_eq!(
            why,
            r"the guest's kernel gave up: Kernel panic - not syncing: no init\u{1b}[31m"
        );
        let told = last_lines(&console);
        assert!(told.contains("[1] x / [2] Kernel panic"), "{told}");
        assert!(!told.contains('\u{1b}'), "{told}");
    }
}
