//! Worker processes: forks of a runner that has one thread still.

use std::io;

/// How a forked process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signalled(i32),
}

/// Forks; the child runs `body` and exits with its result, and is killed when the parent
/// ends, however that happens. Refused in a process that has several threads, where a child
/// could find a lock held by a thread that it does not have.
pub fn spawn(body: impl FnOnce() -> i32) -> io::Result<i32> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("{threads} threads run already; fork needs one")));
    }
    // SAFETY: getpid has no preconditions.
    let parent = unsafe { libc::getpid() };
    // SAFETY: this process has one thread, so the child has a whole copy of it.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            die_with_parent(parent);
            let code = body();
            // SAFETY: ends this process only; nothing of the parent's is flushed or dropped.
            unsafe { libc::_exit(code) }
        }
        pid => Ok(pid),
    }
}

/// Has the kernel kill the calling process when the thread that made it ends. `parent` is
/// that process: if it has ended already, so does the caller.
pub fn die_with_parent(parent: i32) {
    // SAFETY: sets a flag of the calling process; getppid and _exit have no preconditions.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
    }
}

/// Collects this child if it has ended. Others are left alone: workloads have children, too.
pub fn ended(pid: i32) -> Option<Ended> {
    let mut status = 0;
    // SAFETY: `status` is valid; WNOHANG returns at once.
    let collected = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
    (collected == pid).then(|| {
        let signalled = libc::WIFSIGNALED(status).then(|| Ended::Signalled(libc::WTERMSIG(status)));
        signalled.unwrap_or(Ended::Exited(libc::WEXITSTATUS(status)))
    })
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

/// Sends SIGKILL to a process group that this process has made.
pub fn kill_group(leader: i32) {
    if leader > 1 {
        // SAFETY: a negative pid above 1 names one group; killing has no memory effects.
        unsafe {
            libc::kill(-leader, libc::SIGKILL);
        }
    }
}
