//! Children and threads that live for a moment, and the limit of open files.
//!
//! A child forked from a process with several threads may only make calls that are safe in a signal handler: here
//! it reads a clock, stores to shared memory, and exits or executes.

use std::ffi::{CString, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{
    AtomicI32, AtomicU64,
    Ordering::{Acquire, Release},
};

use std::time::{Duration, Instant};

use bytemuck::Zeroable;

use super::call::checked;
use super::clock;
use super::fork::{Ending, die_with_parent, fork};
use super::input;

/// A child's report of its first moments. Lies in memory from [`super::shared`].
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Birth {
    born_ns: AtomicU64,
    exec_errno: AtomicI32,
}

impl Birth {
    /// Forgets the last child; also touches the page.
    pub fn expect(&self) {
        self.born_ns.store(0, Release);
        self.exec_errno.store(0, Release);
    }

    /// The monotonic time of the child's first instructions; 0 before them.
    pub fn born_ns(&self) -> u64 {
        self.born_ns.load(Acquire)
    }

    /// Why the child could not execute its program.
    pub fn exec_error(&self) -> Option<io::Error> {
        match self.exec_errno.load(Acquire) {
            0 => None,
            errno => Some(io::Error::from_raw_os_error(errno)),
        }
    }

    fn now(&self) {
        self.born_ns.store(clock::monotonic_ns(), Release);
    }
}

/// A program without arguments whose input and output go nowhere, ready to be executed
/// without allocation.
pub struct Program {
    path: CString,
    null: File,
}

impl Program {
    pub fn new(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        Ok(Program { path, null })
    }
}

/// Forks a child that notes its birth and exits at once. Returns its pid.
pub fn fork_and_exit(birth: &Birth) -> io::Result<i32> {
    fork(|parent| {
        birth.now();
        die_with_parent(parent);
        0
    })
}

/// Forks a child that notes its birth and executes `program`. Returns its pid. A failure of
/// the execution is in [`Birth::exec_error`] once the child is collected.
///
/// Not vfork or posix_spawn: these have no place to ask for death with the parent.
pub fn fork_and_exec(birth: &Birth, program: &Program) -> io::Result<i32> {
    let null = program.null.as_raw_fd();
    let arguments = [program.path.as_ptr(), ptr::null()];
    fork(|parent| {
        birth.now();
        die_with_parent(parent);
        // SAFETY: all are async-signal-safe; the path and the arguments are C strings that
        // the child has its own copy of, the list ends in null.
        unsafe {
            (0..3).for_each(|standard| {
                libc::dup2(null, standard);
            });
            libc::execv(arguments[0], arguments.as_ptr());
            birth.exec_errno.store(*libc::__errno_location(), Release);
        }
        127
    })
}

/// Whether a process of this number exists, including one that nobody has collected yet.
pub fn exists(pid: i32) -> bool {
    // SAFETY: no memory is passed, and signal 0 only checks.
    let failed = unsafe { libc::kill(pid, 0) } != 0;
    pid > 0 && (!failed || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
}

/// Whether all threads of a process sleep: none runs, waits for a CPU or a disk, or is stopped. `None`: the process
/// does not exist.
pub fn is_asleep(pid: i32) -> Option<bool> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let stats = threads.filter_map(|thread| input::kernel_file(thread.path().join("stat")).ok());
    // Behind the name, which may have any bytes.
    let state = |stat: Vec<u8>| stat.get(stat.iter().rposition(|byte| *byte == b')')? + 2).copied();
    let states: Vec<u8> = stats.filter_map(state).collect();
    (!states.is_empty()).then(|| !states.iter().any(|state| b"RDTt".contains(state)))
}

/// The children of this process, including dead ones that nobody has collected. Empty where the kernel does not
/// list them (CONFIG_PROC_CHILDREN).
pub fn children() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| input::kernel_text(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Ends and collects the children of this process but for `spared`, and theirs in turn if it adopts them
/// ([`super::fork::adopt_orphans`]). Processes with other rights than this one, as after `sudo`, are left after
/// `patience`.
pub fn end_children(spared: &[i32], patience: Duration) {
    let deadline = Instant::now() + patience;
    loop {
        let mut others = children();
        others.retain(|pid| !spared.contains(pid));
        if others.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in others {
            // SAFETY: a child that nobody else collects, so the pid is its own; no status is asked
            // for, and WNOHANG returns at once.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Collects a child of this process, whichever thread forked it.
pub fn wait(pid: i32) -> io::Result<Ending> {
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    while unsafe { libc::waitpid(pid, &mut status, 0) } != pid {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(Ending::from_status(status))
}

/// Creates a thread that notes its birth and ends, and joins it. Straight through pthreads:
/// the standard library would allocate for each.
pub fn thread_and_join(birth: &Birth) -> io::Result<()> {
    extern "C" fn born(birth: *mut c_void) -> *mut c_void {
        // SAFETY: the pointer is the `&Birth` below, borrowed until the thread is joined.
        unsafe { &*birth.cast::<Birth>() }.now();
        ptr::null_mut()
    }
    let argument = ptr::from_ref(birth).cast_mut().cast::<c_void>();
    // SAFETY: a pthread_t is a plain handle, filled in by pthread_create.
    let mut thread: libc::pthread_t = unsafe { std::mem::zeroed() };
    // SAFETY: `thread` is valid for writing, the attributes are the defaults, `born` takes
    // what `argument` is, and the join below keeps `birth` borrowed for long enough.
    match unsafe { libc::pthread_create(&mut thread, ptr::null(), born, argument) } {
        0 => {}
        errno => return Err(io::Error::from_raw_os_error(errno)),
    }
    // SAFETY: the thread was created joinable just now and is joined only here.
    match unsafe { libc::pthread_join(thread, ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Raises the soft limit of open files to the hard one and returns it.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is valid; up to the hard limit no privilege is needed.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::shared;
    use std::io::Read;

    fn birth() -> &'static Birth {
        let birth: &'static Birth = shared::leak().unwrap();
        birth.expect();
        birth
    }

    /// An executable file in a folder that lives as long as the returned value. Written by another process:
    /// children that other tests fork meanwhile would inherit a descriptor open for writing, and executing would
    /// fail with ETXTBSY.
    fn executable(text: &str) -> (tempfile::TempDir, Program) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let mut shell = std::process::Command::new("/bin/sh");
        let status = shell.args(["-c", write, "sh", text]).arg(&path).status().unwrap();
        assert!(status.success());
        (folder, Program::new(&path).unwrap())
    }

    #[test]
    fn a_forked_child_is_born_after_the_call_and_collected_once() {
        let birth = birth();
        let before_ns = clock::monotonic_ns();
        let pid = fork_and_exit(birth).unwrap();
        assert_eq!(wait(pid).unwrap(), Ending::Exited(0));
        assert!(birth.born_ns() >= before_ns && birth.born_ns() <= clock::monotonic_ns());
        assert_eq!(wait(pid).unwrap_err().raw_os_error(), Some(libc::ECHILD), "no zombie is left");
    }

    #[test]
    fn a_thread_is_born_between_creation_and_join() {
        let birth = birth();
        let before_ns = clock::monotonic_ns();
        thread_and_join(birth).unwrap();
        assert!(birth.born_ns() >= before_ns && birth.born_ns() <= clock::monotonic_ns());
    }

    #[test]
    fn a_program_runs_silently_and_its_exit_status_comes_back() {
        let birth = birth();
        // Succeeds only if all three standard files are the null device.
        let script = "#!/bin/sh\nfor f in 0 1 2; do\n\
                      [ /dev/fd/$f -ef /dev/null ] || exit 9\ndone\necho noise\nexit 3\n";
        let (_folder, program) = executable(script);
        let pid = fork_and_exec(birth, &program).unwrap();
        assert_eq!(wait(pid).unwrap(), Ending::Exited(3));
        assert!(birth.exec_error().is_none() && birth.born_ns() > 0);
    }

    #[test]
    fn a_program_that_cannot_be_executed_says_why() {
        let birth = birth();
        let (_folder, program) = executable("\u{7f}neither a script nor a binary");
        let pid = fork_and_exec(birth, &program).unwrap();
        assert_eq!(wait(pid).unwrap(), Ending::Exited(127));
        assert_eq!(birth.exec_error().unwrap().raw_os_error(), Some(libc::ENOEXEC));
        birth.expect();
        assert!(birth.exec_error().is_none() && birth.born_ns() == 0);
    }

    #[test]
    fn a_child_dies_with_its_parent() {
        // SAFETY: no memory arguments. Orphans come to this process, so that the test sees
        // how the orphan ended.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }, 0);
        let orphan = shared::leak::<AtomicI32>().unwrap();
        let birth = birth();
        let (_folder, program) = executable("#!/bin/sh\nexec sleep 30\n");
        let middle = fork(|_| {
            // The writing end is closed by the execution, or by the end of the orphan.
            if let Ok((mut reader, writer)) = io::pipe() {
                orphan.store(fork_and_exec(birth, &program).unwrap_or(-1), Release);
                drop(writer);
                let _ = reader.read(&mut [0]);
            }
            0
        });
        assert_eq!(wait(middle.unwrap()).unwrap(), Ending::Exited(0));
        assert_eq!(wait(orphan.load(Acquire)).unwrap(), Ending::Killed(libc::SIGKILL));
    }

    #[test]
    fn the_limit_of_open_files_is_raised_to_the_hard_one() {
        let mut lower = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `lower` is valid for both. One file less disturbs no other test.
        let lowered = unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut lower);
            lower.rlim_cur = lower.rlim_max - 1;
            libc::setrlimit(libc::RLIMIT_NOFILE, &lower)
        };
        assert_eq!(lowered, 0);
        let limit = raise_open_files().unwrap();
        let limits = input::kernel_text("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        assert_eq!(numbers, [limit, limit], "{line}");
    }
}
