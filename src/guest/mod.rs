//! The first process of a lab guest: makes the machine ready, waits until it is quiet, executes
//! one run, says what came of it and ends the machine.
//!
//! What it is given it reads from the machine's firmware, what it says goes out by a port: no
//! driver, no interrupt and no terminal stands between. It is this program, started by a kernel.

mod door;
mod quiet;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::exec;
use crate::model::{
    Cell, GUEST_INIT, GUEST_WIRE, GuestFacts, GuestMessage, GuestSpec, Outcome, Reading, RunEnd,
    Window,
};
use crate::sys::{Host, boot, clock, environment, fork, thread, topology};
use crate::variant::Journal;

use door::Door;

/// In the order in which they are mounted. What a kernel lacks, a cell that needs it will miss.
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

/// Where this machine's journal of changes lies: it ends with the machine.
const STATE: &str = "/tmp/schedlab";

/// Whether this process is a guest's first.
pub fn is_init() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == GUEST_INIT)
}

/// The whole life of a guest. A machine without the door of the lab panics: this is no init.
pub fn init() -> ! {
    let door = Door::open().unwrap_or_else(|why| panic!("no door to the lab: {why}"));
    door.say(&GuestMessage::Started);
    let life = catch_unwind(AssertUnwindSafe(|| live(&door)));
    let outcome = match life {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(reason)) => Outcome::Failed { reason: format!("in the guest: {reason}") },
        Err(_) => Outcome::Failed { reason: "the guest's agent panicked".to_string() },
    };
    door.say(&GuestMessage::Ended { outcome });
    door.leave()
}

fn live(door: &Door) -> Result<Outcome, String> {
    for (kind, at) in FILE_SYSTEMS {
        // What is not there is missed by the cell that needs it, with the path in its words.
        if let Err(error) = boot::mount(kind, at) {
            eprintln!("{at}: {kind} cannot be mounted: {error}");
        }
    }
    thread::serve_promptly();
    fork::adopt_orphans();
    boot::set_hostname("lab").map_err(|error| format!("the host name: {error}"))?;
    if let Err(error) = boot::loopback_up() {
        // As with file systems: a kernel may have no INET.
        eprintln!("the loopback interface cannot be switched on: {error}");
    }
    std::fs::create_dir_all(STATE).map_err(|error| format!("{STATE}: {error}"))?;
    let boot = door.boot()?;
    let host = Host::default();
    let capacity = match boot.is_virtual {
        true => quiet::wait(boot.instruction_fs)?,
        false => Reading::Unknown("real time: not measured".to_string()),
    };
    door.say(&GuestMessage::Ready(facts(&host, capacity)));
    if boot.is_virtual {
        door.stop();
    }
    // From here on this may be a copy of the machine that was booted.
    let spec = door.spec()?;
    clock::sleep_until(clock::monotonic_ns() + spec.offset_ns);
    run(door, &spec, &host)
}

fn facts(host: &Host, capacity: Reading<f64>) -> GuestFacts {
    let told = environment::Identity::here();
    GuestFacts {
        wire: GUEST_WIRE,
        kernel_release: told.kernel_release,
        kernel_version: told.kernel_version,
        topology: topology::topology(host, told.affinity),
        quiet_at_ns: clock::monotonic_ns(),
        capacity,
        timer_resolution_ns: clock::timer_resolution_ns(),
    }
}

fn run(door: &Door, spec: &GuestSpec, host: &Host) -> Result<Outcome, String> {
    let journal = Journal::open(Path::new(STATE)).map_err(|error| format!("{STATE}: {error}"))?;
    let cell: &Cell = &spec.run.cell;
    if let Err(reason) = exec::check_here(cell, host) {
        return Ok(Outcome::Skipped { reason });
    }
    let on_window = &mut |window: Window| door.say(&GuestMessage::Window(window));
    match exec::run_here(&spec.run, host, &journal, &AtomicBool::new(false), on_window) {
        RunEnd::Finished(outcome) => Ok(outcome),
        RunEnd::Interrupted => Err("interrupted, though nobody asked for it".to_string()),
    }
}
