//! One guest: a QEMU process from its start to its last line of output.
//!
//! It is bound to the thread that waits for it: when schedlab ends for any reason, the kernel ends QEMU. The
//! guest's output is read when it has ended; meanwhile its console is watched for a kernel that gives up.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::model::{Coverage, EXIT_CODE, GUEST_WIRE, GuestFacts, GuestMessage, Outcome, Window};
use crate::sys::{child, fork, lock};

use super::console::{self, Console};
use super::error::{Difference, GuestError, GuestFault, LabError};
use super::patience::{MAX_WITHOUT_CPU, Meter};
use super::qmp::{Monitor, Progress};
use super::template::Copy;
use crate::backend::SlowBoot;
use crate::model::MAX_LINE_BYTES;
use crate::model::{clean, clean_on_one_line};
use crate::sys::input;

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for a guest that gives up to print the reason, counted like its patience.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// QEMU's standard error, in a guest's folder.
const COMPLAINTS: &str = "complaints";
/// A kernel starts its first process sooner, unless the host is very busy.
const SLOW_BOOT: Duration = Duration::from_secs(20);
const SLOW_BOOT_AGAIN: Duration = Duration::from_secs(60);
const KVM_GAVE_UP: &[u8] = b"KVM internal error";

/// The command line and the files of a guest's QEMU.
pub struct Start<'a> {
    pub program: &'a Path,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(&'static str, OsString)>,
    /// QEMU's working folder: relative paths in its arguments start here.
    pub folder: PathBuf,
    pub results: PathBuf,
    pub console: PathBuf,
    /// The folder for consoles of guests that failed.
    pub failed: &'a Path,
    /// A [`Meter`] counts it.
    pub patience: Duration,
    /// The part of it until the guest's first line, if that is expected.
    pub patience_to_start: Option<Duration>,
    pub slow: &'a SlowGuests,
}

/// News of guests that are slow, until somebody takes them.
#[derive(Default)]
pub struct SlowGuests {
    /// The small share of a CPU that the host recently gave one.
    pub share: Newest<f64>,
    pub boot: Newest<SlowBoot>,
}

pub struct Newest<T>(Mutex<Option<T>>);

impl<T> Default for Newest<T> {
    fn default() -> Newest<T> {
        Newest(Mutex::new(None))
    }
}

impl<T> Newest<T> {
    fn put(&self, new: T) {
        *lock(&self.0) = Some(new);
    }

    pub fn take(&self) -> Option<T> {
        lock(&self.0).take()
    }
}

/// A machine that was booted and stopped.
pub struct Booted {
    pub facts: GuestFacts,
    /// The number of its process.
    pub pid: u32,
    /// Time until its first process ran, by the host's clock.
    pub started_after: Duration,
}

/// All that a guest reported.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestOutput {
    pub facts: Option<Box<GuestFacts>>,
    pub windows: Vec<Window>,
    pub outcome: Outcome,
    /// Where the console of a run that failed is kept.
    pub console: Option<PathBuf>,
    /// The code of kernel/sched that it executed, where that was asked for and is known.
    pub coverage: Option<Coverage>,
    /// Unchanged, for comparing two runs to the bit.
    pub bytes: Vec<u8>,
}

impl GuestOutput {
    /// The output for a guest that is not started because its run could not begin.
    pub fn not_started(outcome: Outcome) -> GuestOutput {
        let (windows, bytes) = (Vec::new(), Vec::new());
        GuestOutput { facts: None, windows, outcome, console: None, coverage: None, bytes }
    }
}

/// Runs a guest to its end. Also gives the number of its process.
pub fn run(start: &Start, cancel: &AtomicBool) -> Result<(GuestOutput, u32), GuestError> {
    let qemu = Qemu::start(start, Stdio::null(), Stdio::null())?;
    to_its_end(qemu, start, cancel)
}

/// Like [`run`], for a guest that runs already.
pub fn run_copy(
    copy: Copy,
    start: &Start,
    cancel: &AtomicBool,
) -> Result<(GuestOutput, u32), GuestError> {
    to_its_end(Qemu::attached(Process::Copy(copy), start), start, cancel)
}

fn to_its_end(
    mut qemu: Qemu,
    start: &Start,
    cancel: &AtomicBool,
) -> Result<(GuestOutput, u32), GuestError> {
    let ended = qemu.attend(start, cancel, &mut || Ok(false));
    let ended = ended.and_then(|_| Ok(read_output(start)?));
    let mut output = ended.map_err(|error| qemu.with_console(error, start))?;
    if let Outcome::Failed { reason } = &mut output.outcome {
        let console = qemu.console.end(start.failed);
        // The agent has reported its reason; the console may add one.
        if !console.last_lines.is_empty() {
            reason.push_str(&console.to_string());
            output.console = console.path().map(Path::to_path_buf);
        }
    }
    Ok((output, qemu.process.id()))
}

/// Runs a guest until it stops the machine, and saves the machine's state.
pub fn stop_and_save(
    start: &Start,
    state: &Path,
    cancel: &AtomicBool,
) -> Result<Booted, GuestError> {
    let mut qemu = Qemu::start(start, Stdio::piped(), Stdio::piped())?;
    let (Some(stdin), Some(stdout)) = qemu.process.pipes() else {
        return Err(GuestFault::NoPipes.into());
    };
    let mut monitor = Monitor::new(stdin, stdout);
    let attended = qemu.attend(start, cancel, &mut || match monitor.poll(state) {
        Progress::Running => Ok(false),
        Progress::Saved => Ok(true),
        Progress::Failed(why) => Err(GuestFault::NotSaved(why)),
    });
    let facts = attended.and_then(|end| match end {
        Attended::Satisfied => Ok(read_facts(start)?),
        // The guest ended instead of stopping, and reports why.
        Attended::Exited => Err(match read_output(start)?.outcome {
            Outcome::Failed { reason } | Outcome::Skipped { reason } => GuestFault::Agent(reason),
            Outcome::Done { .. } => GuestFault::UnexpectedRun,
        }
        .into()),
    });
    let facts = facts.map_err(|error| qemu.with_console(error, start))?;
    let started_after = qemu.started_after.unwrap_or_else(|| qemu.meter.elapsed());
    Ok(Booted { facts, pid: qemu.process.id(), started_after })
}

/// A process of QEMU: one that was started, or a copy of another.
enum Process {
    Own(Child),
    Copy(Copy),
}

impl Process {
    fn id(&self) -> u32 {
        match self {
            Process::Own(child) => child.id(),
            Process::Copy(copy) => copy.pid,
        }
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Process::Own(child) => child.try_wait(),
            Process::Copy(copy) => Ok(copy.try_wait()),
        }
    }

    fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>) {
        match self {
            Process::Own(child) => (child.stdin.take(), child.stdout.take()),
            Process::Copy(_) => (None, None),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A copy ends itself.
        if let Process::Own(child) = self {
            // Ends QEMU if it still runs, and all processes of a script in its place.
            fork::kill_group(child.id() as i32);
            _ = child.wait();
        }
    }
}

struct Qemu {
    process: Process,
    console: Console,
    meter: Meter,
    started_after: Option<Duration>,
    /// A boot that has lasted for so long is slow.
    slow_after: Duration,
}

enum Attended {
    /// The guest ended the machine.
    Exited,
    /// The caller needs no more of it.
    Satisfied,
}

impl Qemu {
    fn start(start: &Start, stdin: Stdio, stdout: Stdio) -> Result<Qemu, LabError> {
        let mut command = command(start)?;
        command.stdin(stdin).stdout(stdout);
        let child = command.spawn().map_err(LabError::io("start", start.program))?;
        Ok(Qemu::attached(Process::Own(child), start))
    }

    fn attached(process: Process, start: &Start) -> Qemu {
        let console = Console::new(start.console.clone());
        let meter = Meter::new(process.id(), POLL_INTERVAL);
        Qemu { process, console, meter, started_after: None, slow_after: SLOW_BOOT }
    }

    /// Waits for the end, or until `is_enough` returns true; each poll calls it.
    fn attend(
        &mut self,
        start: &Start,
        cancel: &AtomicBool,
        is_enough: &mut dyn FnMut() -> Result<bool, GuestFault>,
    ) -> Result<Attended, GuestError> {
        let mut gives_up: Option<(GuestFault, Duration)> = None;
        loop {
            if let Some(status) = self.process.try_wait().map_err(GuestFault::Wait)? {
                if status.code() == Some(EXIT_CODE) {
                    return Ok(Attended::Exited);
                }
                self.console.poll()?;
                return Err(GuestFault::Ended { status, complaint: complaint(start) }.into());
            }
            if cancel.load(Relaxed) {
                return Err(GuestError::Cancelled);
            }
            if kvm_gave_up(start) {
                return Err(GuestFault::Kvm { complaint: complaint(start) }.into());
            }
            if is_enough()? {
                return Ok(Attended::Satisfied);
            }
            gives_up = match gives_up {
                Some((fault, since)) if self.meter.used() > since + LAST_WORDS => {
                    return Err(fault.into());
                }
                None => self.console.poll().err().map(|fault| (fault, self.meter.used())),
                waiting => waiting,
            };
            self.check_time(start)?;
            std::thread::sleep(POLL_INTERVAL);
            if let Some(share) = self.meter.poll() {
                start.slow.share.put(share);
            }
        }
    }

    fn check_time(&mut self, start: &Start) -> Result<(), GuestFault> {
        let used = self.meter.used();
        if self.started_after.is_none() && fs::metadata(&start.results).is_ok_and(|f| f.len() > 0) {
            self.started_after = Some(self.meter.elapsed());
        }
        let elapsed = self.meter.elapsed();
        let boots = start.patience_to_start.filter(|_| self.started_after.is_none());
        if let Some(limit) = boots.filter(|_| elapsed >= self.slow_after) {
            self.slow_after = elapsed + SLOW_BOOT_AGAIN;
            start.slow.boot.put(SlowBoot { elapsed, used, limit });
        }
        match start.patience_to_start {
            Some(limit) if self.started_after.is_none() && used > limit => {
                Err(GuestFault::Late { what: "start its first process", limit })
            }
            _ if used > start.patience => {
                Err(GuestFault::Late { what: "become quiet or end", limit: start.patience })
            }
            _ if self.meter.is_without_cpu() => {
                Err(GuestFault::NoCpu { minutes: MAX_WITHOUT_CPU.as_secs() / 60 })
            }
            _ => Ok(()),
        }
    }

    fn with_console(&self, error: GuestError, start: &Start) -> GuestError {
        match error {
            GuestError::Failed { fault, .. } => {
                GuestError::Failed { fault, console: Some(self.console.end(start.failed)) }
            }
            GuestError::Cancelled => GuestError::Cancelled,
        }
    }
}

/// QEMU with its arguments, its environment and a file for its complaints; it ends with the thread that starts it.
pub fn command(start: &Start) -> Result<Command, LabError> {
    let complaints = start.folder.join(COMPLAINTS);
    let complaints = File::create(&complaints).map_err(LabError::io("write", &complaints))?;
    let mut command = Command::new(start.program);
    command
        .current_dir(&start.folder)
        .args(&start.arguments)
        .envs(start.environment.iter().map(|(k, v)| (k, v)))
        .stderr(complaints);
    child::bind(&mut command);
    // A guest touches a part of its memory.
    child::without_huge_pages(&mut command);
    Ok(command)
}

/// Whether KVM could not go on: QEMU then stops the guest and waits for somebody to look at it.
fn kvm_gave_up(start: &Start) -> bool {
    let path = start.folder.join(COMPLAINTS);
    fs::metadata(&path).is_ok_and(|file| file.len() > 0)
        && input::read_file(&path, input::MAX_OWN_FILE_BYTES)
            .is_ok_and(|text| text.windows(KVM_GAVE_UP.len()).any(|words| words == KVM_GAVE_UP))
}

/// QEMU's own complaints, on one line.
fn complaint(start: &Start) -> String {
    let text = console::end(&start.folder.join(COMPLAINTS)).unwrap_or_default();
    clean_on_one_line(&String::from_utf8_lossy(&text))
}

/// Reads what a guest wrote; its kernel may be anybody's.
fn read_results(start: &Start) -> Result<Vec<u8>, LabError> {
    input::read_file(&start.results, MAX_LINE_BYTES).map_err(LabError::io("read", &start.results))
}

fn read_output(start: &Start) -> Result<GuestOutput, GuestFault> {
    parse(read_results(start)?)
}

/// The facts of a guest that has stopped.
fn read_facts(start: &Start) -> Result<GuestFacts, GuestFault> {
    let bytes = read_results(start)?;
    let mut lines =
        bytes.split(|byte| *byte == b'\n').map_while(|line| serde_json::from_slice(line).ok());
    // A machine that is booted also says that it has started.
    match lines.find(|message| *message != GuestMessage::Started) {
        Some(GuestMessage::Ready(facts)) if facts.wire == GUEST_WIRE => Ok(*facts),
        _ => Err(GuestFault::NotReady),
    }
}

/// Lines of [`GuestMessage`], of which the last is the end.
pub fn parse(bytes: Vec<u8>) -> Result<GuestOutput, GuestFault> {
    let (mut facts, mut windows, mut end) = (None, Vec::new(), None);
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let message = serde_json::from_slice(line)
            .map_err(|source| GuestFault::Line { line: at + 1, source })?;
        match message {
            GuestMessage::Started => {}
            GuestMessage::Ready(ready) if ready.wire != GUEST_WIRE => {
                return Err(GuestFault::Wire(ready.wire));
            }
            GuestMessage::Ready(ready) => facts = Some(ready),
            GuestMessage::Window(window) => windows.push(window),
            GuestMessage::Ended { outcome } => end = Some(outcome),
        }
    }
    let outcome = end.ok_or(GuestFault::NoEnd)?;
    Ok(GuestOutput { facts, windows, outcome, console: None, coverage: None, bytes })
}

/// The first difference between two guests that should be equal.
pub fn difference(first: &GuestOutput, second: &GuestOutput) -> Option<Difference> {
    if first.facts != second.facts {
        return Some(Difference::Boots([first.facts.clone(), second.facts.clone()]));
    }
    bytes_difference(&first.bytes, &second.bytes)
}

pub fn bytes_difference(first: &[u8], second: &[u8]) -> Option<Difference> {
    if first == second {
        return None;
    }
    let byte = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    let line = first[..byte].iter().filter(|byte| **byte == b'\n').count() + 1;
    let around = |bytes: &[u8]| {
        let from = byte.saturating_sub(40);
        let shown = &bytes[from.min(bytes.len())..(byte + 20).min(bytes.len())];
        clean(&String::from_utf8_lossy(shown))
    };
    Some(Difference::Output { byte, line, around: [around(first), around(second)] })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const READY: &str = r#"{"type":"ready","wire":6,"kernel_release":"6.1","kernel_version":"x","scheduler":{"known":"CFS"},"topology":{"online":"0-3","allowed":"0-3","llcs":[],"numa_nodes":[],"cores":[]},"quiet_at_ns":7,"capacity":{"known":0.99},"timer_resolution_ns":1}"#;
    const ENDED: &str = r#"{"type":"ended","outcome":{"status":"failed","reason":"no"}}"#;

    #[test]
    fn incomplete_output_is_refused() {
        let bytes = format!("{READY}\n{ENDED}\n").into_bytes();
        let output = parse(bytes.clone()).unwrap();
        assert_eq!(output.facts.unwrap().topology.online.to_string(), "0-3");
        assert_eq!(output.outcome, Outcome::Failed { reason: "no".to_string() });
        assert_eq!(output.bytes, bytes);
        let fault = |text: String| parse(text.into_bytes()).unwrap_err();
        assert!(matches!(fault(format!("{READY}\n")), GuestFault::NoEnd));
        assert!(matches!(fault(String::new()), GuestFault::NoEnd));
        let cut = fault(format!("{READY}\n{}", &ENDED[..20]));
        assert!(matches!(cut, GuestFault::Line { line: 2, .. }), "{cut}");
        let newer = fault(READY.replace(&format!("\"wire\":{GUEST_WIRE}"), "\"wire\":9"));
        assert!(matches!(newer, GuestFault::Wire(9)), "{newer}");
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(bytes_difference(b"a\nb", b"a\nb"), None);
        let found = bytes_difference(b"one\ntwo 123\n", b"one\ntwo 124\n").unwrap();
        let text = found.to_string();
        assert!(text.starts_with("two runs differ at byte 10 (line 2): "), "{text}");
        let longer = bytes_difference(b"one", b"one more").unwrap();
        assert!(matches!(longer, Difference::Output { byte: 3, line: 1, .. }), "{longer}");
    }

    #[test]
    fn two_runs_of_boots_that_differ_are_not_the_same() {
        let output = |ready: &str| parse(format!("{ready}\n{ENDED}\n").into_bytes()).unwrap();
        let first = output(READY);
        assert_eq!(difference(&first, &output(READY)), None);
        let later = output(&READY.replace(":7,", ":8,"));
        let later = GuestOutput { bytes: first.bytes.clone(), ..later };
        let text = difference(&first, &later).unwrap().to_string();
        assert!(text.starts_with("two boots differ: "), "{text}");
        assert!(text.contains("quiet_at_ns: 8"), "{text}");
    }

    /// A shell in QEMU's place.
    fn in_a_shell<'a>(script: &str, folder: &'a Path, slow: &'a SlowGuests) -> Start<'a> {
        Start {
            program: Path::new("/bin/sh"),
            arguments: ["-c", script].map(OsString::from).into(),
            environment: Vec::new(),
            folder: folder.to_path_buf(),
            results: folder.join("results"),
            console: folder.join("console"),
            failed: folder,
            patience: Duration::from_secs(60),
            patience_to_start: None,
            slow,
        }
    }

    /// Runs a shell in QEMU's place. `to_start`: the patience until its first line.
    fn ended(script: &str, folder: &Path, to_start: Option<Duration>) -> GuestError {
        let slow = SlowGuests::default();
        let start = Start {
            patience: Duration::from_secs(if to_start.is_none() { 60 } else { 2 }),
            patience_to_start: to_start,
            ..in_a_shell(script, folder, &slow)
        };
        run(&start, &AtomicBool::new(false)).unwrap_err()
    }

    #[test]
    fn what_the_host_ended_may_run_another_time() {
        let dir = tempfile::tempdir().unwrap();
        let is_of_host = |script: &str| ended(script, dir.path(), None).is_of_host();
        assert!(is_of_host("kill -KILL $$") && is_of_host("kill -TERM $$"));
        assert!(is_of_host("kill -BUS $$"), "memory that is mapped from a file could not be read");
        assert!(is_of_host("echo 'terminating on signal 15 from pid 1' >&2"));
        assert!(!is_of_host("kill -SEGV $$") && !is_of_host("exit 3"));
        let too_much = format!("truncate -s {} results; exit {EXIT_CODE}", MAX_LINE_BYTES + 1);
        assert!(!is_of_host(&too_much), "a guest wrote it");
    }

    #[test]
    fn a_boot_that_takes_long_is_news_until_the_first_process_runs() {
        let dir = tempfile::tempdir().unwrap();
        let slow = SlowGuests::default();
        let limit = Duration::from_secs(90);
        let to_start = Some(limit);
        let start =
            Start { patience_to_start: to_start, ..in_a_shell("exec sleep 60", dir.path(), &slow) };
        let mut qemu = Qemu::start(&start, Stdio::null(), Stdio::null()).unwrap();
        let mut news = |slow_after| {
            qemu.slow_after = slow_after;
            qemu.check_time(&start).unwrap();
            start.slow.boot.take().map(|boot| boot.limit)
        };
        assert_eq!(news(limit), None, "not yet");
        assert_eq!(news(Duration::ZERO), Some(limit));
        fs::write(&start.results, "started").unwrap();
        assert_eq!(news(Duration::ZERO), None, "it has started");
    }

    #[test]
    fn the_reason_of_every_end_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let reason = |script, to_start| ended(script, dir.path(), to_start).to_string();
        // More than a pipe holds.
        let complains = "head -c 300000 /dev/zero | tr '\\0' '\\n' >&2; echo no disk >&2; exit 3";
        assert_eq!(
            reason(complains, None),
            "QEMU ended with exit status: 3: no disk; its console is empty"
        );
        let silent = reason("exec sleep 60", Some(Duration::from_millis(50)));
        assert!(
            silent.contains("did not start its first process within 0 s of CPU time"),
            "{silent}"
        );
        let started = reason("echo x > results; exec sleep 60", Some(Duration::from_secs(1)));
        assert!(
            started.contains("did not become quiet or end within 2 s of CPU time"),
            "{started}"
        );
        let panics = reason("echo 'Kernel panic - not syncing: x' > console; exec sleep 60", None);
        assert!(panics.starts_with("the guest's kernel gave up: Kernel panic"), "{panics}");
        let stops = reason("echo 'KVM internal error. Suberror: 1' >&2; exec sleep 60", None);
        assert!(stops.starts_with("KVM cannot run the guest: KVM internal error"), "{stops}");
    }
}
