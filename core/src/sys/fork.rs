//! Worker processes: forks of a runner that has one thread still.

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::call::checked;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Killed(i32),
    /// By this signal; it was killed then. A program that wants the terminal stops.
    Stopped(i32),
}

impl Ending {
    /// Reads the status that waitpid(2) gives for a child that did not stop.
    pub(super) fn from_status(status: libc::c_int) -> Ending {
        if libc::WIFSIGNALED(status) {
            Ending::Killed(libc::WTERMSIG(status))
        } else {
            Ending::Exited(libc::WEXITSTATUS(status))
        }
    }
}

/// Forks a child, which gets the parent's pid, makes only async-signal-safe calls, and returns the exit status.
pub(super) fn fork(child: impl FnOnce(i32) -> i32) -> io::Result<i32> {
    let parent = std::process::id() as i32;
    // SAFETY: the child makes only async-signal-safe calls, or this process has one thread, as the callers see to.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: ends the child without the exit handlers of the process it is a copy of.
        0 => unsafe { libc::_exit(child(parent)) },
        pid => Ok(pid),
    }
}

/// Forks; the child runs `body` and exits with its result, and is killed when the parent
/// ends, however that happens. Refused in a process that has several threads, where a child
/// could find a lock held by a thread that it does not have.
pub fn spawn(body: impl FnOnce() -> i32) -> io::Result<i32> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("{threads} threads run already; fork needs one")));
    }
    // This process has one thread, so the child has a whole copy of it, and may do anything.
    fork(|parent| {
        die_with_parent(parent);
        body()
    })
}

/// Has the kernel kill the calling process when the thread that made it ends. `parent` is
/// that process: if it has ended already, so does the caller.
pub fn die_with_parent(parent: i32) {
    signal_with_parent(parent, libc::SIGKILL);
}

/// Like [`die_with_parent`], by another signal.
pub(super) fn signal_with_parent(parent: i32, signal: i32) {
    // SAFETY: sets a flag of the calling process; getppid and _exit have no preconditions.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, signal);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
    }
}

/// Leaves a file open in all programs that this process starts from now on.
pub fn inherit(file: &std::fs::File) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` lives; no memory is passed.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) })
}

/// Collects this child if it has ended. Others are left alone: workloads have children, too.
pub fn ended(pid: i32) -> Option<Ending> {
    let mut status = 0;
    // SAFETY: `status` is valid; WNOHANG returns at once.
    let collected = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
    (collected == pid).then(|| Ending::from_status(status))
}

/// Ends a child of this process and collects it.
pub fn end(pid: i32) {
    if pid > 0 {
        // SAFETY: a positive pid names one process, which is ours until it is collected; no
        // status is asked for.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Processes below this one whose parents end become its children, so that it can collect
/// them. An init that is late with that, or that never does it, would leave the dead to count
/// against the limit of processes.
pub fn adopt_orphans() {
    // SAFETY: sets a flag of the calling process. Kernels that have pools have it, and without
    // it orphans go to init.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    }
}

/// Waits until nobody is left of a process group that this process has made and killed,
/// collecting those that are its children; at most for `patience`. Whether that came true.
pub fn await_end_of_group(leader: i32, patience: Duration) -> bool {
    if leader <= 1 {
        return false;
    }
    let deadline = Instant::now() + patience;
    loop {
        // SAFETY: only this process's children in the group are collected, no status is asked
        // for, and WNOHANG returns at once.
        while unsafe { libc::waitpid(-leader, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        // SAFETY: signal 0 is never sent; it asks whether the group has a member, dead or alive.
        let has_member = unsafe { libc::kill(-leader, 0) } == 0
            || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH);
        if !has_member || Instant::now() > deadline {
            return !has_member;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends SIGKILL to a process group that this process has made.
pub fn kill_group(leader: i32) {
    signal_group(leader, libc::SIGKILL);
}

/// Asks a process group that this process has made to end.
pub fn terminate_group(leader: i32) {
    signal_group(leader, libc::SIGTERM);
}

fn signal_group(leader: i32, signal: i32) {
    if leader > 1 {
        // SAFETY: a negative pid above 1 names one group; a signal has no memory effects here.
        unsafe {
            libc::kill(-leader, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn nobody_is_left_of_a_group_whose_leader_died_before_its_children() {
        adopt_orphans();
        let mut command = Command::new("/bin/sh");
        // Says that its children are there once they are.
        command.args(["-c", "sleep 60 & sleep 60 & echo; exec sleep 60"]);
        let mut leader = command.process_group(0).stdout(Stdio::piped()).spawn().expect("a shell");
        leader.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let group = leader.id() as i32;
        assert!(!await_end_of_group(group, Duration::ZERO), "they live");
        kill_group(group);
        leader.wait().unwrap();
        assert!(await_end_of_group(group, Duration::from_secs(60)));
        // SAFETY: signal 0 only asks; the group's number is free for a moment at least.
        assert_eq!(unsafe { libc::kill(-group, 0) }, -1, "not even a zombie");
        assert!(!await_end_of_group(1, Duration::ZERO), "1 is not a group of ours");
    }
}
