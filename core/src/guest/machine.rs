//! The work of an agent on any machine of its own, QEMU's or Xen's: it mounts file systems and executes one run.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::exec::{self, BootedGuests, Runner};
use crate::model::{Advice, GuestSpec, Outcome, RunEnd, Window};
use crate::sys::{Host, boot};
use crate::variant::Journal;

use super::error::AgentError;

/// In the order in which they are mounted. A kernel may lack some: only cells that need them fail.
const FILE_SYSTEMS: &[(&str, &str)] = &[
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("bpf", "/sys/fs/bpf"),
    ("tmpfs", "/tmp"),
];

/// The folder of this machine's journal of changes, which ends with the machine.
const STATE: &str = "/tmp/schedlab";

pub fn mount_all() {
    for (kind, at) in FILE_SYSTEMS.iter().filter(|(kind, at)| !hides(kind, at)) {
        // A cell that needs it fails with the path in its reason.
        if let Err(error) = boot::mount(kind, at) {
            eprintln!("{at}: {kind} cannot be mounted: {error}");
        }
    }
}

/// Whether files of a program were packed where an empty file system would be mounted: the root is in
/// memory, too.
fn hides(kind: &str, at: &str) -> bool {
    kind == "tmpfs" && std::fs::read_dir(at).is_ok_and(|mut files| files.next().is_some())
}

/// Executes the run, in the process that waits for it, if one does, and with the guests that were booted for it if its
/// workers are guests.
pub fn run(
    ahead: Option<Runner>,
    send: &dyn Fn(Window),
    spec: &GuestSpec,
    host: &Host,
    guests: Option<BootedGuests>,
) -> Result<Outcome, AgentError> {
    std::fs::create_dir_all(STATE).map_err(AgentError::system(STATE))?;
    let journal = Journal::open(Path::new(STATE)).map_err(AgentError::system(STATE))?;
    if let Err(error) = exec::check_here(&spec.run.cell, host) {
        return Ok(Outcome::Skipped { reason: error.reason() });
    }
    let on_window = &mut |window: Window| send(window);
    let ended = match guests {
        Some(guests) => guests.run(&spec.run, on_window),
        None => {
            let cancel = AtomicBool::new(false);
            exec::run_here(
                &spec.run,
                ahead,
                &exec::Own::Machine,
                host,
                &journal,
                &cancel,
                on_window,
            )
        }
    };
    match ended {
        RunEnd::Finished(outcome) => Ok(outcome),
        // A copy of this machine would do the same again.
        RunEnd::HostEnded { reason } => Ok(Outcome::Failed { reason }),
        RunEnd::Interrupted => Err(AgentError::Interrupted),
    }
}
