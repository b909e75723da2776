//! A program that is run for the user: with our standard files, our signals and our terminal.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::abandoned;
use super::call::checked;
use super::fork;

const PASSED_ON: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];

/// A running program. Signals that ask us to end are passed on to it: it decides.
pub struct Foreground {
    child: Child,
    signals: Arc<AtomicUsize>,
}

impl Foreground {
    pub fn start(words: &[String]) -> io::Result<Foreground> {
        let signals = Arc::new(AtomicUsize::new(0));
        for (bit, signal) in PASSED_ON.into_iter().enumerate() {
            let signals = Arc::clone(&signals);
            // SAFETY: an atomic operation is async-signal-safe, and the counter lives as long.
            unsafe {
                signal_hook::low_level::register(signal, move || {
                    signals.fetch_or(1 << bit, SeqCst);
                })
            }?;
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        own(&mut command);
        Ok(Foreground { child: command.spawn()?, signals })
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// How it ended, `None` while it runs. Passes on signals that came.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.pass_on();
        self.child.try_wait()
    }

    fn pass_on(&self) {
        let came = self.signals.swap(0, SeqCst);
        for (bit, signal) in PASSED_ON.into_iter().enumerate() {
            if came & (1 << bit) != 0 {
                // SAFETY: no memory is passed; the child is not collected yet, so the pid is its.
                unsafe { libc::kill(self.pid(), signal) };
            }
        }
    }
}

impl Foreground {
    /// Whether it has ended, without collecting it: /proc still has its numbers. Passes signals
    /// on.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        self.pass_on();
        has_ended(&self.child)
    }

    /// Waits for its end, passing signals on.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// The exit code of a shell: 128 and the signal for a program that a signal ended.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.wrapping_add(signal as u8),
        (None, None) => 1,
    }
}

/// Whether a signal ended a program that no fault of its own sends: somebody, or the kernel for want of
/// memory, ended it.
pub fn is_ended_from_outside(status: ExitStatus) -> bool {
    let signal = status.signal();
    signal.is_some_and(|signal| signal == SIGKILL || PASSED_ON.contains(&signal))
}

/// Has the kernel kill the program when the thread that starts it ends, for whatever reason. Processes that the
/// program starts are in its process group.
pub fn bind(command: &mut Command) {
    command.process_group(0);
    end_with_us(command, SIGKILL);
}

/// Has the kernel give the program no huge pages: it clears each one whole when a byte of it is touched first. A kernel
/// that cannot do so gives it some, and the program is slower.
pub fn without_huge_pages(command: &mut Command) {
    // SAFETY: between fork and exec only prctl is called.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
            Ok(())
        });
    }
}

/// Like [`bind`], for a command of the user: in our process group, as in a shell, and its programs carry our mark
/// ([`abandoned`]).
pub fn own(command: &mut Command) {
    let (name, mark) = abandoned::command_mark();
    command.env(name, mark);
    end_with_us(command, SIGKILL);
}

/// Has the kernel send the program this signal when the thread that starts it ends.
pub(super) fn end_with_us(command: &mut Command, signal: i32) {
    let parent = std::process::id() as i32;
    // SAFETY: between fork and exec only prctl, getppid and _exit are called.
    unsafe {
        command.pre_exec(move || {
            fork::signal_with_parent(parent, signal);
            Ok(())
        });
    }
}

/// Whether a program has ended, without collecting it: /proc still has its numbers.
pub fn has_ended(child: &Child) -> io::Result<bool> {
    // SAFETY: a siginfo_t is plain data, and zeros are a valid one.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for writing.
    checked(unsafe { libc::waitid(libc::P_PID, child.id(), &mut info, options) })?;
    // SAFETY: waitid has filled it in, or left the zeros where nothing has happened.
    Ok(unsafe { info.si_pid() } != 0)
}

/// Asks a process to end and waits for that; returns its number if it runs on.
pub fn end_within(child: &mut Child, patience: Duration) -> Option<u32> {
    terminate(child);
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(child.id())
}

/// Asks a program to end.
pub fn terminate(child: &Child) {
    // SAFETY: no memory is passed; the child is not collected yet, so the pid is its.
    unsafe { libc::kill(child.id() as i32, SIGTERM) };
}
