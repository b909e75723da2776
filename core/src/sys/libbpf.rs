//! Takes the messages of libbpf while programs are loaded, in place of standard error: the reason of a failure.
//! Also how long programs run.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Object, PrintLevel, Program};

/// Its messages since this was made. They are the process's: two loads at once mix theirs.
pub struct Log(());

static MESSAGES: Mutex<String> = Mutex::new(String::new());

impl Log {
    pub fn listen() -> Log {
        if let Ok(mut messages) = MESSAGES.lock() {
            messages.clear();
        }
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
            if let Ok(mut messages) = MESSAGES.lock() {
                messages.push_str(text.trim());
                messages.push('\n');
            }
        })));
        Log(())
    }

    /// The reason of a failure, in brackets and with a space before it; empty without messages.
    pub fn reason(&self) -> String {
        let messages = MESSAGES.lock().map(|messages| messages.clone()).unwrap_or_default();
        reason(&messages).map_or(String::new(), |reason| format!(" ({reason})"))
    }

    /// Whether the verifier has rejected a program, often with EACCES, which is not a matter of privilege.
    pub fn has_rejection(&self) -> bool {
        MESSAGES.lock().is_ok_and(|messages| messages.contains("PROG LOAD LOG"))
    }
}

/// The last line that says more than that something failed; of a program also its name. The kernel's own
/// reason stands before its statistics.
fn reason(messages: &str) -> Option<String> {
    let is_result = |line: &str| {
        let sum = ["processed ", "-- ", "libbpf: failed to load object"];
        sum.iter().any(|begin| line.starts_with(begin)) || line.contains("': failed to load: ")
    };
    let lines = || messages.lines().map(str::trim).filter(|line| !line.is_empty());
    let reason = lines().rfind(|line| !is_result(line)).or_else(|| lines().next_back())?;
    let program = lines().rfind(|line| line.contains(": BPF program load failed"));
    Some(match program.filter(|line| *line != reason) {
        Some(program) => format!("{program}: {reason}"),
        None => reason.to_string(),
    })
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

/// How long the kernel has measured the programs of an object to run, without this one.
pub fn run_ns(object: &Object, without: &str) -> u64 {
    let wanted = object.progs().filter(|program| program.autoload() && program.name() != without);
    let ids: Vec<u32> =
        wanted.filter_map(|program| Program::id_from_fd(program.as_fd()).ok()).collect();
    let all = ProgInfoIter::default().filter(|program| ids.contains(&program.id));
    all.map(|program| program.run_time_ns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_the_kernel_says_and_not_that_it_failed() {
        let refused = "libbpf: prog 'on_switch': BPF program load failed: -EINVAL\n\
                       libbpf: prog 'on_switch': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\n\
                       R2 invalid mem access 'scalar'\nprocessed 9 insns\n-- END PROG LOAD LOG --\n\
                       libbpf: prog 'on_switch': failed to load: -EINVAL\n\
                       libbpf: failed to load object 'x'\n";
        let cases = [
            ("", None),
            (
                refused,
                Some(
                    "libbpf: prog 'on_switch': BPF program load failed: -EINVAL: R2 invalid mem \
                     access 'scalar'",
                ),
            ),
            (
                "libbpf: map 'tasks': failed to create: -EINVAL\nlibbpf: failed to load object 'x'\n",
                Some("libbpf: map 'tasks': failed to create: -EINVAL"),
            ),
            ("libbpf: failed to load object 'x'\n", Some("libbpf: failed to load object 'x'")),
        ];
        for (messages, expected) in cases {
            assert_eq!(reason(messages).as_deref(), expected, "{messages}");
        }
    }
}
