//! A command that is executed and timed, from just before its start until its end is collected.
//!
//! It has no input; what it writes goes to one pipe. It dies with the thread that started it. The
//! time holds no copy of this process's memory: the child borrows it until it executes (vfork).

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::ptr;

use super::clock;
use super::process::Ending;

const STACK_BYTES: usize = 64 * 1024;

/// A program and its arguments, ready to be executed.
pub struct Command {
    path: CString,
    words: Vec<CString>,
    null: File,
    /// Of the child until it executes.
    stack: Vec<u128>,
}

/// One execution, its children included as far as it has waited for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    pub ending: Ending,
    pub wall_ns: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

impl Command {
    /// `words`: the program's name as it sees it, then its arguments. An error where one has a zero.
    pub fn new(path: &Path, words: &[String]) -> io::Result<Command> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let words = words.iter().map(|word| CString::new(word.as_bytes()));
        let null = File::open("/dev/null")?;
        let stack = vec![0; STACK_BYTES / size_of::<u128>()];
        Ok(Command { path, words: words.collect::<Result<_, _>>()?, null, stack })
    }

    /// Executes it and waits for its end.
    pub fn execute(&mut self, output: impl AsFd) -> io::Result<Executed> {
        let words = self.words.iter().map(|word| word.as_ptr());
        let words: Vec<*const c_char> = words.chain([ptr::null()]).collect();
        let mut start = Start {
            path: self.path.as_ptr(),
            words: words.as_ptr(),
            input: self.null.as_raw_fd(),
            output: output.as_fd().as_raw_fd(),
            parent: std::process::id() as i32,
            signals: all_signals(),
            errno: 0,
        };
        let top = self.stack.as_mut_ptr_range().end.cast::<c_void>();
        let all = start.signals;
        // SAFETY: both are signal sets. No handler may run in the child, which has our memory.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut start.signals) };
        let before = start.signals;
        let begin_ns = clock::monotonic_ns();
        // SAFETY: the calling thread sleeps until the child has executed or ended, so its stack,
        // `start` and all that `start` points to live long enough and are not used twice.
        let pid = unsafe {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            libc::clone(child, top, flags, (&raw mut start).cast())
        };
        let cloned = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) };
        let executed = cloned.and_then(|pid| collect(pid, begin_ns));
        // SAFETY: a signal set; the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
        match start.errno {
            0 => executed,
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// What the child needs; it is in memory that both have.
struct Start {
    path: *const c_char,
    words: *const *const c_char,
    input: c_int,
    output: c_int,
    parent: i32,
    /// What the command may be sent.
    signals: libc::sigset_t,
    /// Why it could not be executed.
    errno: c_int,
}

/// Between the start and the execution: only what is async-signal-safe.
extern "C" fn child(start: *mut c_void) -> c_int {
    // SAFETY: `start` is the caller's, which sleeps meanwhile; all calls are async-signal-safe,
    // descriptors and strings are valid, and the list of words ends in null. Rust ignores SIGPIPE,
    // which a command would inherit; dispositions are the child's own.
    unsafe {
        let start = &mut *start.cast::<Start>();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != start.parent {
            libc::_exit(127);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        // What signals its own group does not mean us.
        libc::setpgid(0, 0);
        for (from, to) in [(start.input, 0), (start.output, 1), (start.output, 2)] {
            libc::dup2(from, to);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &start.signals, ptr::null_mut());
        libc::execv(start.path, start.words);
        start.errno = *libc::__errno_location();
        libc::_exit(127)
    }
}

fn all_signals() -> libc::sigset_t {
    // SAFETY: a signal set is plain data, and sigfillset fills it in.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        set
    }
}

fn collect(pid: i32, begin_ns: u64) -> io::Result<Executed> {
    let mut status = 0;
    // SAFETY: plain data, of which zeros are a valid one.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    let mut stopped = None;
    loop {
        // SAFETY: both are valid for writing.
        let waited = unsafe { libc::wait4(pid, &mut status, libc::WUNTRACED, &mut used) };
        let error = io::Error::last_os_error();
        if waited != pid && error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        if waited == pid && !libc::WIFSTOPPED(status) {
            break;
        }
        if waited == pid {
            stopped = Some(libc::WSTOPSIG(status));
            // SAFETY: the child is not collected, so the number is its and its group's.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
    }
    let end_ns = clock::monotonic_ns();
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok(Executed {
        ending: match (stopped, libc::WIFSIGNALED(status)) {
            (Some(signal), _) => Ending::Stopped(signal),
            (None, true) => Ending::Killed(libc::WTERMSIG(status)),
            (None, false) => Ending::Exited(libc::WEXITSTATUS(status)),
        },
        wall_ns: end_ns - begin_ns,
        user_ns: ns(used.ru_utime),
        system_ns: ns(used.ru_stime),
        voluntary_switches: used.ru_nvcsw as u64,
        involuntary_switches: used.ru_nivcsw as u64,
    })
}

/// The file of a program, a path or a name in one of the folders of `PATH`; the error is that of
/// execvp(3).
pub fn find(name: &str) -> io::Result<PathBuf> {
    if name.contains('/') {
        executable(Path::new(name))?;
        return std::path::absolute(name);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut refused = io::Error::from_raw_os_error(libc::ENOENT);
    for folder in path.as_bytes().split(|byte| *byte == b':') {
        let file = Path::new(OsStr::from_bytes(folder)).join(name);
        match executable(&file) {
            Ok(()) => return std::path::absolute(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

fn executable(path: &Path) -> io::Result<()> {
    let about = std::fs::metadata(path)?;
    match about.is_file() && about.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn executed(words: &[&str]) -> (Executed, String) {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let (mut reader, writer) = io::pipe().unwrap();
        let executed = Command::new(&find(words[0].as_str()).unwrap(), &words)
            .unwrap()
            .execute(&writer)
            .unwrap();
        drop(writer);
        let mut output = String::new();
        reader.read_to_string(&mut output).unwrap();
        (executed, output)
    }

    #[test]
    fn a_command_has_its_words_no_input_and_one_output() {
        let script = "printf '%s|' \"$@\"; cat; echo err >&2; exit 3";
        let (executed, output) = executed(&["sh", "-c", script, "sh", "a b", "$(x)", ""]);
        assert_eq!(executed.ending, Ending::Exited(3));
        assert_eq!(output, "a b|$(x)||err\n");
        assert!(executed.wall_ns > 0 && executed.voluntary_switches > 0, "{executed:?}");
    }

    #[test]
    fn cpu_time_is_that_of_the_command_and_of_what_it_waited_for() {
        let busy = "i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done";
        let (alone, _) = executed(&["sh", "-c", busy]);
        let (below, _) = executed(&["sh", "-c", &format!("sh -c '{busy}'; :")]);
        for executed in [alone, below] {
            assert!(executed.user_ns > 1_000_000, "{executed:?}");
        }
    }

    #[test]
    fn who_stops_is_ended_and_who_signals_its_group_means_itself() {
        let (stopped, _) = executed(&["sh", "-c", "kill -STOP $$; exit 0"]);
        assert_eq!(stopped.ending, Ending::Stopped(libc::SIGSTOP));
        let (killed, _) = executed(&["sh", "-c", "kill -TERM 0; exit 0"]);
        assert_eq!(killed.ending, Ending::Killed(libc::SIGTERM));
    }

    #[test]
    fn a_pipe_that_closes_ends_a_command_as_in_a_shell() {
        let (executed, _) = executed(&["sh", "-c", "kill -PIPE $$; exit 0"]);
        assert_eq!(executed.ending, Ending::Killed(libc::SIGPIPE));
    }

    #[test]
    fn what_cannot_be_executed_says_why() {
        for (word, errno) in [
            ("no-such-program-here", libc::ENOENT),
            ("/no/such/file", libc::ENOENT),
            ("/etc/passwd", libc::EACCES),
            ("/etc", libc::EACCES),
        ] {
            assert_eq!(find(word).err().unwrap().raw_os_error(), Some(errno), "{word}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        std::fs::write(&file, "\u{7f}neither").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        let got = Command::new(&file, &["x".to_string()]).unwrap().execute(&writer);
        assert_eq!(got.unwrap_err().raw_os_error(), Some(libc::ENOEXEC));
        // SAFETY: asks for children of this thread's process without collecting any.
        let left = unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG | libc::__WNOTHREAD) };
        assert!(left <= 0, "nobody is left to be collected");
    }
}
