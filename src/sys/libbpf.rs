//! What libbpf reports while programs are loaded, in place of standard error: the reason of a failure;
//! and how long programs run.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Object, PrintLevel, Program};

/// Its messages since this was made. They are the process's: two loads at once mix theirs.
pub struct Log(());

static MESSAGE: Mutex<String> = Mutex::new(String::new());

impl Log {
    pub fn listen() -> Log {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
            if let Ok(mut message) = MESSAGE.lock() {
                *message = text.trim().to_string();
            }
        })));
        Log(())
    }

    /// The last line, in brackets and with a space before it; empty without messages.
    pub fn last(&self) -> String {
        let message = MESSAGE.lock().map(|message| message.clone()).unwrap_or_default();
        message.lines().last().map_or(String::new(), |line| format!(" ({line})"))
    }
}

/// While this is held the kernel measures how long BPF programs run: all of the machine, so not for
/// long.
pub fn measure_run_times() -> io::Result<OwnedFd> {
    let what = libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME;
    // SAFETY: no memory is passed.
    let descriptor = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(what) };
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // SAFETY: the call has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// How long the kernel has measured the programs of an object to run, but for these.
pub fn run_ns(object: &Object, without: &[&str]) -> u64 {
    let wanted = object.progs().filter(|program| {
        let is_left_out = without.iter().any(|name| program.name() == *name);
        program.autoload() && !is_left_out
    });
    let ids: Vec<u32> =
        wanted.filter_map(|program| Program::id_from_fd(program.as_fd()).ok()).collect();
    let all = ProgInfoIter::default().filter(|program| ids.contains(&program.id));
    all.map(|program| program.run_time_ns).sum()
}
