//! A command that is executed and timed, from just before its start until its end is collected.
//!
//! Also a command that goes on as a server until it is ended.
//!
//! It has no input; its output goes to one pipe. It dies with the thread that started it. The time includes no copy
//! of this process's memory: the child borrows it until it executes (vfork).

use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::{Duration, Instant};

use super::abandoned;
use super::clock;
use super::fork::Ending;

const STACK_BYTES: usize = 64 * 1024;
/// How long a server that was asked to end may take.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A program and its arguments, ready to be executed.
pub struct Command {
    path: CString,
    words: Vec<CString>,
    /// `NAME=VALUE`, all of them.
    environment: Vec<CString>,
    user: Option<User>,
    /// The working folder of the program.
    folder: Option<CString>,
    null: File,
    /// The stack of the child until it executes.
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
    /// `words`: the program's own name for itself, then its arguments. An error where one has a zero.
    pub fn new(path: &Path, words: &[String]) -> io::Result<Command> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let words = words.iter().map(|word| CString::new(word.as_bytes()));
        let null = File::open("/dev/null")?;
        let stack = vec![0; STACK_BYTES / size_of::<u128>()];
        Ok(Command {
            path,
            words: words.collect::<Result<_, _>>()?,
            environment: environment(&[])?,
            user: None,
            folder: None,
            null,
            stack,
        })
    }

    /// Adds these variables to those of this process, or replaces them.
    pub fn with_environment(self, given: &[(String, String)]) -> io::Result<Command> {
        Ok(Command { environment: environment(given)?, ..self })
    }

    pub fn in_folder(self, folder: &Path) -> io::Result<Command> {
        Ok(Command { folder: Some(CString::new(folder.as_os_str().as_bytes())?), ..self })
    }

    /// Sets the user that executes it. Only root can become another one.
    pub fn as_user(self, user: User) -> Command {
        Command { user: Some(user), ..self }
    }

    /// Executes it and waits for its end.
    pub fn execute(&mut self, output: impl AsFd) -> io::Result<Executed> {
        let (pid, begin_ns) = self.start(output)?;
        collect(pid, begin_ns)
    }

    /// Executes it and lets it go on.
    pub fn serve(&mut self, output: impl AsFd) -> io::Result<Server> {
        let (pid, _) = self.start(output)?;
        Ok(Server { pid, ended: None })
    }

    /// The process, and when it began.
    fn start(&mut self, output: impl AsFd) -> io::Result<(i32, u64)> {
        let words = pointers(&self.words);
        let environment = pointers(&self.environment);
        let mut start = Start {
            path: self.path.as_ptr(),
            words: words.as_ptr(),
            environment: environment.as_ptr(),
            folder: self.folder.as_ref().map_or(ptr::null(), |folder| folder.as_ptr()),
            user: self.user,
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
        // SAFETY: a signal set; the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
        match (cloned, start.errno) {
            (Ok(pid), 0) => Ok((pid, begin_ns)),
            (Ok(pid), errno) => {
                collect(pid, begin_ns)?;
                Err(io::Error::from_raw_os_error(errno))
            }
            (Err(error), _) => Err(error),
        }
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// The environment of this process, its mark, and the given variables.
fn environment(given: &[(String, String)]) -> io::Result<Vec<CString>> {
    let mark = abandoned::mark();
    let is_given =
        |name: &OsStr| name == mark.0 || given.iter().any(|(own, _)| name == OsStr::new(own));
    let inherited = std::env::vars_os().filter(|(name, _)| !is_given(name));
    let given = given.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let pair = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    Ok(inherited.chain(given).chain([mark.clone()]).map(pair).collect::<Result<_, _>>()?)
}

/// A user by numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// A line of /etc/passwd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub user: User,
    name: String,
    home: String,
    shell: String,
}

impl Account {
    /// Finds a user in the text of /etc/passwd.
    pub fn find(name: &str, passwd: &str) -> Option<Account> {
        let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = fields.into_iter().find(|fields| fields[0] == name)?;
        let number = |at: usize| fields.get(at)?.parse().ok();
        let text = |at: usize| fields.get(at).copied().unwrap_or_default().to_string();
        let user = User { uid: number(2)?, gid: number(3)? };
        Some(Account { user, name: name.to_string(), home: text(5), shell: text(6) })
    }

    /// The variables that su(1) sets.
    pub fn environment(&self) -> [(String, String); 4] {
        let Account { name, home, shell, .. } = self;
        let shell = if shell.is_empty() { "/bin/sh" } else { shell };
        [("HOME", home.as_str()), ("SHELL", shell), ("USER", name), ("LOGNAME", name)]
            .map(|(name, value)| (name.to_string(), value.to_string()))
    }
}

/// A program that goes on. Dropped, it is ended: by SIGTERM, and by SIGKILL where that takes too
/// long.
pub struct Server {
    pid: i32,
    /// Once it is collected.
    ended: Option<Ending>,
}

impl Server {
    /// How it ended, `None` while it goes on.
    pub fn ended(&mut self) -> Option<Ending> {
        let mut status = 0;
        // SAFETY: the status is valid for writing; the number is our child's until it is collected.
        if self.ended.is_none()
            && unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == self.pid
        {
            self.ended = Some(Ending::from_status(status));
        }
        self.ended
    }

    fn end(&mut self) {
        let deadline = Instant::now() + END_LIMIT;
        let signal = |server: &Server, whom: i32, signal| {
            if server.ended.is_none() {
                // SAFETY: no memory is passed; it is not collected, so the number is its own.
                unsafe { libc::kill(whom, signal) };
            }
        };
        _ = self.ended();
        signal(self, self.pid, libc::SIGTERM);
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        signal(self, -self.pid, libc::SIGKILL);
        while self.ended().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The input of the child, in memory that it shares with its parent.
struct Start {
    path: *const c_char,
    words: *const *const c_char,
    environment: *const *const c_char,
    /// Null: where this process is.
    folder: *const c_char,
    user: Option<User>,
    input: c_int,
    output: c_int,
    parent: i32,
    /// The signal mask that the command starts with.
    signals: libc::sigset_t,
    /// Why it could not be executed.
    errno: c_int,
}

/// Runs between the start and the execution: only calls that are async-signal-safe.
extern "C" fn child(start: *mut c_void) -> c_int {
    // SAFETY: `start` is the caller's, which sleeps meanwhile; all calls are async-signal-safe,
    // descriptors and strings are valid, and the list of words ends in null. Rust ignores SIGPIPE,
    // which a command would inherit; dispositions are the child's own.
    unsafe {
        let start = &mut *start.cast::<Start>();
        let entered = become_user(start.user).and_then(|()| enter(start.folder));
        if let Err(errno) = entered {
            start.errno = errno;
            libc::_exit(127);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != start.parent {
            libc::_exit(127);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        // Signals to the command's own group must not reach this process.
        libc::setpgid(0, 0);
        for (from, to) in [(start.input, 0), (start.output, 1), (start.output, 2)] {
            libc::dup2(from, to);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &start.signals, ptr::null_mut());
        libc::execve(start.path, start.words, start.environment);
        start.errno = *libc::__errno_location();
        libc::_exit(127)
    }
}

/// Uses system calls: the C library's functions would change all threads of the parent, too. Changing the user
/// makes the kernel forget the signal to be sent with the parent's death.
fn become_user(user: Option<User>) -> Result<(), c_int> {
    let Some(User { uid, gid }) = user else { return Ok(()) };
    let checked = |result: libc::c_long| match result {
        // SAFETY: errno of this thread.
        -1 => Err(unsafe { *libc::__errno_location() }),
        _ => Ok(()),
    };
    // SAFETY: numbers alone; the empty list of groups has no address.
    unsafe {
        checked(libc::syscall(libc::SYS_setgroups, 0, ptr::null::<libc::gid_t>()))?;
        checked(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        checked(libc::syscall(libc::SYS_setresuid, uid, uid, uid))
    }
}

/// # Safety
/// A C string, or null.
unsafe fn enter(folder: *const c_char) -> Result<(), c_int> {
    // SAFETY: the caller's; errno is of this thread.
    unsafe {
        if folder.is_null() || libc::chdir(folder) == 0 {
            Ok(())
        } else {
            Err(*libc::__errno_location())
        }
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
    // SAFETY: plain data, for which zero is valid.
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
        ending: stopped.map_or_else(|| Ending::from_status(status), Ending::Stopped),
        wall_ns: end_ns - begin_ns,
        user_ns: ns(used.ru_utime),
        system_ns: ns(used.ru_stime),
        voluntary_switches: used.ru_nvcsw as u64,
        involuntary_switches: used.ru_nivcsw as u64,
    })
}

/// The file of a program, given as a path or as a name in one of the folders of `PATH`; errors as of execvp(3),
/// but for a folder: EISDIR.
pub fn find(name: &str) -> io::Result<PathBuf> {
    if name.contains('/') {
        if Path::new(name).is_dir() {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
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

/// Does the same in a folder, in whose path one part may be `*`.
pub fn find_below(folder: &str, name: &str) -> Option<PathBuf> {
    let mut files = matching(folder).into_iter().map(|folder| folder.join(name));
    files.find(|file| executable(file).is_ok())
}

/// The paths that match, where one `*` stands for any text without `/`: the last in the order of names and numbers
/// first.
pub fn matching(path: &str) -> Vec<PathBuf> {
    let Some((before, after)) = path.split_once('*') else { return vec![path.into()] };
    let (folder, prefix) = before.rsplit_once('/').unwrap_or((".", before));
    let (suffix, below) = after.split_at(after.find('/').unwrap_or(after.len()));
    let mut names: Vec<String> = std::fs::read_dir(format!("{folder}/"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.len() >= prefix.len() + suffix.len())
        .filter(|name| name.starts_with(prefix) && name.ends_with(suffix))
        .collect();
    // 9 before 10.
    names.sort_by_key(|name| (name.len(), name.clone()));
    let paths = names.iter().rev().map(|name| PathBuf::from(format!("{folder}/{name}{below}")));
    paths.filter(|path| path.exists()).collect()
}

pub fn is_root() -> bool {
    // SAFETY: reads a number.
    unsafe { libc::geteuid() == 0 }
}

fn executable(path: &Path) -> io::Result<()> {
    let about = std::fs::metadata(path)?;
    if about.is_file() && about.permissions().mode() & 0o111 != 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EACCES))
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

    fn command(script: &str) -> Command {
        let words = ["sh", "-c", script].map(str::to_string);
        Command::new(&find("sh").unwrap(), &words).unwrap()
    }

    fn read(mut reader: impl Read) -> String {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_command_has_its_environment_and_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let given = [("HOME".to_string(), "a=b".to_string()), ("EMPTY".to_string(), String::new())];
        let command = command("echo \"$HOME|${EMPTY-unset}|${PATH:+kept}\"; pwd");
        let command = command.with_environment(&given).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        command.in_folder(folder.path()).unwrap().execute(&writer).unwrap();
        drop(writer);
        assert_eq!(read(reader), format!("a=b||kept\n{}\n", folder.path().display()));
        let (_reader, writer) = io::pipe().unwrap();
        let got = self::command("true").in_folder(Path::new("/no/such")).unwrap().execute(&writer);
        assert_eq!(got.unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_user_is_found_and_only_the_command_is_that_user() {
        let passwd = "root:x:0:0::/:/bin/sh\nbad:x\nnobody:x:65534:65533:n:/:/bin/false\n";
        let user = User { uid: 65534, gid: 65533 };
        let nobody = Account::find("nobody", passwd).unwrap();
        let variables = nobody.environment().map(|(name, value)| format!("{name}={value}"));
        let expected = ["HOME=/", "SHELL=/bin/false", "USER=nobody", "LOGNAME=nobody"];
        assert_eq!((nobody.user, variables), (user, expected.map(str::to_string)));
        assert_eq!((Account::find("bad", passwd), Account::find("x", passwd)), (None, None));
        // SAFETY: reads a number.
        let own = unsafe { libc::geteuid() };
        let (reader, writer) = io::pipe().unwrap();
        let executed = command("id -u; id -g; id -G").as_user(user).execute(&writer);
        drop(writer);
        match own {
            0 => {
                executed.unwrap();
                assert_eq!(read(reader), "65534\n65533\n65533\n");
            }
            _ => assert_eq!(executed.unwrap_err().raw_os_error(), Some(libc::EPERM)),
        }
        // SAFETY: reads a number.
        assert_eq!(unsafe { libc::geteuid() }, own);
    }

    #[test]
    fn a_server_goes_on_until_it_is_dropped() {
        let (reader, writer) = io::pipe().unwrap();
        let script = "trap 'echo end; exit 3' TERM; echo begin; while :; do sleep 0.01; done";
        let mut server = command(script).serve(&writer).unwrap();
        drop(writer);
        let mut reader = io::BufReader::new(reader);
        let mut line = String::new();
        io::BufRead::read_line(&mut reader, &mut line).unwrap();
        assert_eq!((line.as_str(), server.ended()), ("begin\n", None));
        drop(server);
        assert_eq!(read(reader), "end\n");
        let (_reader, writer) = io::pipe().unwrap();
        let mut short = command("exit 3").serve(&writer).unwrap();
        while short.ended().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(short.ended(), Some(Ending::Exited(3)));
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
    fn the_last_of_several_folders_has_the_program() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "10", "11"] {
            std::fs::create_dir_all(root.path().join(version).join("bin")).unwrap();
        }
        for version in ["9", "10"] {
            let program = root.path().join(version).join("bin/x");
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let folder = format!("{}/*/bin", root.path().display());
        assert_eq!(find_below(&folder, "x"), Some(root.path().join("10/bin/x")));
        assert_eq!(find_below(&folder, "y"), None);
        let part = root.path().join("1*1").display().to_string();
        assert_eq!(matching(&part), [root.path().join("11")]);
        assert_eq!(find_below(&folder.replace('*', "9"), "x"), Some(root.path().join("9/bin/x")));
    }

    #[test]
    fn what_cannot_be_executed_says_why() {
        for (word, errno) in [
            ("no-such-program-here", libc::ENOENT),
            ("/no/such/file", libc::ENOENT),
            ("/etc/passwd", libc::EACCES),
            ("/etc", libc::EISDIR),
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
