//! The first process of a lab guest: makes the machine ready, waits until it is quiet, executes
//! one run, reports the result and ends the machine.
//!
//! It reads its task from the machine's firmware and reports through a port, without driver,
//! interrupt or terminal. It is this program, started by a kernel.

mod error;
mod facts;
mod files;
mod host_channel;
mod machine;
mod quiet;
mod xen;

use std::hint::black_box;
use std::path::Path;

use crate::exec::{BootedGuests, Runner};
use crate::model::{
    GUEST_INIT, GUEST_SETTLE_NS, GuestMessage, GuestSpec, Outcome, Reading, RunSpec,
};
use crate::sys::{Host, balancing, boot, burst, clock, fork, symbols, thread};
use crate::workload;

use error::AgentError;
use facts::facts;
use host_channel::HostChannel;

/// Whether this is the first process of a guest.
pub fn is_init() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == GUEST_INIT)
}

/// The whole life of a guest. Panics on a machine without the lab's channel: it must not be the init there.
pub fn init() -> ! {
    if xen::is_guest() {
        xen::live()
    }
    let host = HostChannel::open().unwrap_or_else(|why| panic!("no channel to the lab: {why}"));
    host.send(&GuestMessage::Started);
    let failed = |reason| Outcome::Failed { reason: format!("in the guest: {reason}") };
    let outcome = live(&host).unwrap_or_else(failed);
    host.send(&GuestMessage::Ended { outcome });
    host.leave()
}

/// The processes that wait for the rehearsal and for the run after it, which has the probes: loading these takes longer
/// than most runs, and so does starting a process.
struct Waiting {
    rehearsal: Option<Runner>,
    run: Option<Runner>,
}

impl Waiting {
    /// Starts them, and waits until the scheduler has forgotten that.
    fn begin(rehearsal: &GuestSpec) -> Waiting {
        // The run's begins first: when the rehearsal has ended, all that began after its process is killed.
        let run = Runner::ahead(&rehearsal.run.probes);
        let waiting = Waiting { rehearsal: Runner::ahead(&[]), run };
        clock::sleep_until(clock::monotonic_ns() + rehearsal.offset_ns);
        waiting
    }

    /// Executes the rehearsal up to the text of its result, so that QEMU has translated all code of a run, and waits
    /// until the scheduler has forgotten it. Returns the process for the run.
    fn rehearse(self, spec: &GuestSpec, host: &Host) -> Result<Option<Runner>, AgentError> {
        let send = |window| _ = black_box(host_channel::line(&GuestMessage::Window(window)));
        let run = RunSpec { probes: Vec::new(), ..spec.run.clone() };
        let without_probes = GuestSpec { run, ..spec.clone() };
        let outcome = machine::run(self.rehearsal, &send, &without_probes, host, None)?;
        black_box(host_channel::line(&GuestMessage::Ended { outcome }));
        clock::sleep_until(clock::monotonic_ns() + spec.offset_ns);
        Ok(self.run)
    }
}

/// Makes the files that the run needs in addition, and says whether there are some.
fn take_files(channel: &HostChannel) -> Result<bool, AgentError> {
    let files = channel.files()?;
    let has_files = files.is_some();
    files.map_or(Ok(()), |files| files::unpack(files, Path::new("/")))?;
    Ok(has_files)
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
    balancing::show_domains(&host);
    let mut guests = (!boot.guests.is_empty()).then(|| BootedGuests::boot(&boot.guests));
    if boot.is_virtual && guests.is_some() {
        // A kernel works on after it has started its first process.
        clock::sleep_until(clock::monotonic_ns() + quiet::EARLIEST_NS);
    }
    // Before the wait, which forgets it.
    let sched_code = if boot.is_virtual { symbols::sched_code(&host) } else { Vec::new() };
    let capacity = if boot.is_virtual {
        quiet::wait(boot.instruction_ps)?
    } else {
        Reading::Unknown("real time: not measured".to_string())
    };
    let mut facts = facts(&host, capacity, sched_code);
    if has_xen {
        (facts.topology, facts.scheduler) =
            xen::machine(guests.as_ref().and_then(BootedGuests::kernel))?;
    }
    let ready = GuestMessage::Ready(Box::new(facts));
    channel.send(&ready);
    if boot.is_virtual {
        channel.stop();
    }
    // From here on this may be a copy of the machine that was booted.
    let ahead = match channel.rehearsal()? {
        // Their processes wait in the machine that was booted.
        Some(rehearsal) if guests.is_some() => {
            guests = guests.map(|guests| guests.rehearse(&rehearsal));
            None
        }
        Some(rehearsal) => {
            let waiting = Waiting::begin(&rehearsal);
            channel.send(&ready);
            channel.stop();
            // And from here on one of the machine whose probes are loaded: another QEMU, which has translated nothing.
            take_files(channel)?;
            waiting.rehearse(&rehearsal, &host)?
        }
        None => {
            if take_files(channel)? {
                clock::sleep_until(clock::monotonic_ns() + GUEST_SETTLE_NS);
            }
            None
        }
    };
    burst::say_ready();
    let spec = channel.spec()?;
    let is_skipped = boot.is_virtual && !spec.run.executed && workload::is_timed(&spec.run.cell);
    if is_skipped && !burst::is_possible() {
        return Err(AgentError::CannotSkip);
    }
    clock::sleep_until(clock::monotonic_ns() + spec.offset_ns);
    machine::run(ahead, &|window| channel.send(&GuestMessage::Window(window)), &spec, &host, guests)
}
