//! The first process of a lab guest: makes the machine ready, waits until it is quiet, executes
//! one run, reports the result and ends the machine.
//!
//! It reads its task from the machine's firmware and reports through a port, without driver,
//! interrupt or terminal. It is this program, started by a kernel.

mod error;
mod host_channel;
mod machine;
mod quiet;
mod xen;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::exec::BootedGuests;
use crate::model::{GUEST_INIT, GUEST_WIRE, GuestFacts, GuestMessage, Outcome, Reading};
use crate::sys::{self, Host, boot, burst, clock, environment, fork, thread, topology};
use crate::workload;

use error::AgentError;
use host_channel::HostChannel;

/// Whether this is the first process of a guest.
pub fn is_init() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == GUEST_INIT)
}

/// The whole life of a guest. Panics on a machine without the lab's channel: this is no init.
pub fn init() -> ! {
    if xen::is_guest() {
        xen::live()
    }
    let host = HostChannel::open().unwrap_or_else(|why| panic!("no channel to the lab: {why}"));
    host.send(&GuestMessage::Started);
    let outcome = match catch_unwind(AssertUnwindSafe(|| live(&host))) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(reason)) => Outcome::Failed { reason: format!("in the guest: {reason}") },
        Err(_) => Outcome::Failed { reason: "the guest's agent panicked".to_string() },
    };
    host.send(&GuestMessage::Ended { outcome });
    host.leave()
}

fn live(channel: &HostChannel) -> Result<Outcome, AgentError> {
    machine::mount_all();
    thread::serve_promptly();
    fork::adopt_orphans();
    boot::begin_session().map_err(AgentError::system("the session"))?;
    boot::set_hostname("lab").map_err(AgentError::system("the host name"))?;
    if let Err(error) = boot::loopback_up() {
        // A kernel may have no INET.
        eprintln!("the loopback interface cannot be switched on: {error}");
    }
    let has_xen = xen::begin()?;
    let boot = channel.boot()?;
    let host = Host::default();
    let guests = (!boot.guests.is_empty()).then(|| BootedGuests::boot(&boot.guests));
    if boot.is_virtual && guests.is_some() {
        // A kernel works on after it has started its first process.
        clock::sleep_until(clock::monotonic_ns() + quiet::EARLIEST_NS);
    }
    let capacity = match boot.is_virtual {
        true => quiet::wait(boot.instruction_ps)?,
        false => Reading::Unknown("real time: not measured".to_string()),
    };
    let mut facts = facts(&host, capacity);
    if has_xen {
        (facts.topology, facts.scheduler) =
            xen::machine(guests.as_ref().and_then(BootedGuests::kernel))?;
    }
    channel.send(&GuestMessage::Ready(Box::new(facts)));
    if boot.is_virtual {
        channel.stop();
    }
    // From here on this may be a copy of the machine that was booted.
    let spec = channel.spec()?;
    let is_skipped = boot.is_virtual && !spec.run.executed && workload::is_timed(&spec.run.cell);
    if is_skipped && !burst::is_possible() {
        return Err(AgentError::CannotSkip);
    }
    clock::sleep_until(clock::monotonic_ns() + spec.offset_ns);
    machine::run(&|window| channel.send(&GuestMessage::Window(window)), &spec, &host, guests)
}

fn facts(host: &Host, capacity: Reading<f64>) -> GuestFacts {
    let system = environment::Identity::here();
    GuestFacts {
        wire: GUEST_WIRE,
        kernel_release: system.kernel_release,
        kernel_version: system.kernel_version,
        scheduler: sys::scheduler(host),
        topology: topology::topology(host, system.affinity),
        quiet_at_ns: clock::monotonic_ns(),
        capacity,
        timer_resolution_ns: clock::timer_resolution_ns(),
    }
}
