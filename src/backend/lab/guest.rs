//! One guest: a QEMU process from start to last word.
//!
//! It is bound to the thread that waits for it: whatever ends schedlab, the kernel ends QEMU.
//! What the guest says is read when it has ended; meanwhile its console is watched for a kernel
//! that gives up.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::model::{EXIT_CODE, GUEST_WIRE, GuestFacts, GuestMessage, Outcome, Window};
use crate::sys::{child, fork};

use super::console::{self, Console, one_line};
use super::qmp::{Monitor, Progress};

/// How often a guest is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A guest that gives up is given this long to say why.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What QEMU itself complains of, in a guest's folder.
const COMPLAINTS: &str = "complaints";

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
    /// Of it, until the guest says a first word, where it is to say one.
    pub patience_to_start: Option<Duration>,
}

/// A machine that was booted and stopped.
pub struct Booted {
    pub facts: GuestFacts,
    /// Of its process.
    pub pid: u32,
    /// When its first process was at work, by the host's clock.
    pub started_after: Duration,
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
    let mut said = ended.map_err(|why| qemu.with_console(why, start))?;
    if let Outcome::Failed { reason } = &mut said.outcome {
        reason.push_str(&qemu.console.told(start.failed));
    }
    Ok((said, qemu.child.id()))
}

/// Runs a guest until it stops the machine, and has its state written.
pub fn stop_and_save(
    start: &Start,
    state: &Path,
    cancel: &AtomicBool,
) -> Result<Booted, Unanswered> {
    let qemu = Qemu::start(start, Stdio::piped(), Stdio::piped());
    let mut qemu = qemu.map_err(Unanswered::Failed)?;
    let (Some(stdin), Some(stdout)) = (qemu.child.stdin.take(), qemu.child.stdout.take()) else {
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
    let facts = facts.map_err(|why| qemu.with_console(why, start))?;
    let started_after = qemu.started_after.unwrap_or_else(|| qemu.began.elapsed());
    Ok(Booted { facts, pid: qemu.child.id(), started_after })
}

struct Qemu {
    child: Child,
    console: Console,
    began: Instant,
    started_after: Option<Duration>,
}

enum Attended {
    /// The guest ended it.
    Exited,
    /// Whoever asked has what it wanted.
    Enough,
}

impl Qemu {
    fn start(start: &Start, stdin: Stdio, stdout: Stdio) -> Result<Qemu, String> {
        let complaints = start.folder.join(COMPLAINTS);
        let complaints = File::create(&complaints)
            .map_err(|error| format!("{} cannot be written: {error}", complaints.display()))?;
        let mut command = Command::new(start.program);
        command
            .current_dir(&start.folder)
            .args(&start.arguments)
            .envs(start.environment.iter().map(|(k, v)| (k, v)));
        command.stdin(stdin).stdout(stdout).stderr(complaints);
        child::bind(&mut command);
        let child = command
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", start.program.display()))?;
        let console = Console::new(start.console.clone());
        Ok(Qemu { child, console, began: Instant::now(), started_after: None })
    }

    /// Waits for the end, or until `is_enough`, which is asked at each look.
    fn attend(
        &mut self,
        start: &Start,
        cancel: &AtomicBool,
        is_enough: &mut dyn FnMut() -> Result<bool, String>,
    ) -> Result<Attended, Unanswered> {
        let mut gives_up: Option<(String, Instant)> = None;
        let failed = |why: String| Err(Unanswered::Failed(why));
        loop {
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) if status.code() == Some(EXIT_CODE) => {
                    return Ok(Attended::Exited);
                }
                Ok(Some(status)) => {
                    let why = self.console.look();
                    let complaints = || format!("QEMU ended with {status}{}", complaints(start));
                    return failed(why.unwrap_or_else(complaints));
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
                gives_up = self.console.look().map(|why| (why, Instant::now()));
            }
            if let Some((why, since)) = &gives_up
                && since.elapsed() > LAST_WORDS
            {
                return failed(why.clone());
            }
            self.is_in_time(start).map_err(Unanswered::Failed)?;
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn is_in_time(&mut self, start: &Start) -> Result<(), String> {
        let elapsed = self.began.elapsed();
        if self.started_after.is_none() && fs::metadata(&start.results).is_ok_and(|f| f.len() > 0) {
            self.started_after = Some(elapsed);
        }
        let late = |what: &str, limit: Duration| {
            Err(format!("the guest did not {what} within {} s of the host's time", limit.as_secs()))
        };
        match start.patience_to_start {
            Some(limit) if self.started_after.is_none() && elapsed > limit => {
                late("start its first process", limit)
            }
            _ if elapsed > start.patience => late("become quiet or end", start.patience),
            _ => Ok(()),
        }
    }

    fn with_console(&self, why: Unanswered, start: &Start) -> Unanswered {
        match why {
            Unanswered::Failed(why) => Unanswered::Failed(why + &self.console.told(start.failed)),
            Unanswered::Cancelled => Unanswered::Cancelled,
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // Ended already, or ended now; with it what a script in its place started.
        fork::kill_group(self.child.id() as i32);
        _ = self.child.wait();
    }
}

/// What QEMU itself complained of, as the end of a sentence.
fn complaints(start: &Start) -> String {
    let text = console::end(&start.folder.join(COMPLAINTS)).unwrap_or_default();
    match String::from_utf8_lossy(&text).trim() {
        "" => String::new(),
        text => format!(": {}", one_line(text)),
    }
}

fn heard(start: &Start) -> Result<Said, Unanswered> {
    let bytes = fs::read(&start.results).map_err(|error| error.to_string());
    bytes.and_then(understand).map_err(Unanswered::Failed)
}

/// What a guest that has stopped said before.
fn facts(start: &Start) -> Result<GuestFacts, Unanswered> {
    let bytes = fs::read(&start.results).map_err(|error| Unanswered::Failed(error.to_string()))?;
    let mut words = bytes.split(|byte| *byte == b'\n').map(serde_json::from_slice);
    match (words.next(), words.next()) {
        (Some(Ok(GuestMessage::Started)), Some(Ok(GuestMessage::Ready(facts))))
            if facts.wire == GUEST_WIRE =>
        {
            Ok(facts)
        }
        _ => Err(Unanswered::Failed("the guest stopped before it was ready".to_string())),
    }
}

/// Lines of [`GuestMessage`], of which the last tells the end.
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
            GuestMessage::Started => {}
            GuestMessage::Ready(facts) if facts.wire != GUEST_WIRE => {
                return Err(format!("the guest speaks wire version {}", facts.wire));
            }
            GuestMessage::Ready(facts) => said.facts = Some(Box::new(facts)),
            GuestMessage::Window(window) => said.windows.push(window),
            GuestMessage::Ended { outcome } => (said.outcome, has_ended) = (outcome, true),
        }
    }
    if !has_ended {
        return Err("the guest ended without a last word".to_string());
    }
    said.bytes = bytes;
    Ok(said)
}

/// Where two guests that should be the same differ first: as their machines were when they were
/// quiet, or in what they said since.
pub fn difference(first: &Said, second: &Said) -> Option<String> {
    if first.facts != second.facts {
        let (first, second) = (&first.facts, &second.facts);
        return Some(format!("two boots differ: {first:?} and {second:?}"));
    }
    bytes_difference(&first.bytes, &second.bytes)
}

fn bytes_difference(first: &[u8], second: &[u8]) -> Option<String> {
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

    const READY: &str = r#"{"type":"ready","wire":4,"kernel_release":"6.1","kernel_version":"x","topology":{"online":"0-3","allowed":"0-3","llcs":[],"numa_nodes":[],"cores":[]},"quiet_at_ns":7,"capacity":{"known":0.99},"timer_resolution_ns":1}"#;
    const ENDED: &str = r#"{"type":"ended","outcome":{"status":"failed","reason":"no"}}"#;

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
            (READY.replace(&format!("\"wire\":{GUEST_WIRE}"), "\"wire\":9"), "wire version 9"),
        ];
        for (text, why) in cases {
            let told = understand(text.clone().into_bytes()).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(bytes_difference(b"a\nb", b"a\nb"), None);
        let told = bytes_difference(b"one\ntwo 123\n", b"one\ntwo 124\n").unwrap();
        assert!(told.starts_with("two runs differ at byte 10 (line 2): "), "{told}");
        assert!(bytes_difference(b"one", b"one more").unwrap().contains("byte 3 (line 1)"));
    }

    #[test]
    fn boots_that_differ_are_no_two_runs_of_one_machine() {
        let said = |ready: &str| understand(format!("{ready}\n{ENDED}\n").into_bytes()).unwrap();
        let first = said(READY);
        assert_eq!(difference(&first, &said(READY)), None);
        let later = Said { bytes: first.bytes.clone(), ..said(&READY.replace(":7,", ":8,")) };
        let told = difference(&first, &later).unwrap();
        assert!(
            told.starts_with("two boots differ: ") && told.contains("quiet_at_ns: 8"),
            "{told}"
        );
    }

    /// A shell in QEMU's place, whose first process is awaited for `to_start`.
    fn in_its_place(script: &str, folder: &Path, to_start: Option<Duration>) -> Unanswered {
        let start = Start {
            program: Path::new("/bin/sh"),
            arguments: ["-c", script].map(OsString::from).into(),
            environment: Vec::new(),
            folder: folder.to_path_buf(),
            results: folder.join("results"),
            console: folder.join("console"),
            failed: folder,
            patience: Duration::from_secs(if to_start.is_none() { 60 } else { 2 }),
            patience_to_start: to_start,
        };
        run(&start, &AtomicBool::new(false)).unwrap_err()
    }

    #[test]
    fn whatever_ends_a_guest_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let told = |script, to_start| match in_its_place(script, dir.path(), to_start) {
            Unanswered::Failed(why) => why,
            Unanswered::Cancelled => panic!("nobody cancelled it"),
        };
        // More than a pipe holds.
        let complains = "head -c 300000 /dev/zero | tr '\\0' '\\n' >&2; echo no disk >&2; exit 3";
        assert_eq!(
            told(complains, None),
            "QEMU ended with exit status: 3: no disk; its console is empty"
        );
        let silent = told("exec sleep 60", Some(Duration::from_millis(50)));
        assert!(silent.contains("did not start its first process within 0 s"), "{silent}");
        let started = told("echo x > results; exec sleep 60", Some(Duration::from_secs(1)));
        assert!(started.contains("did not become quiet or end within 2 s"), "{started}");
        let panics = told("echo 'Kernel panic - not syncing: x' > console; exec sleep 60", None);
        assert!(panics.starts_with("the guest's kernel gave up: Kernel panic"), "{panics}");
    }
}
