//! Xen in the lab. In its first domain the agent is that of the machine; in the guests that are workers it reports
//! through the console.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::exec::{GuestChannel, Runner};
use crate::model::{CpuSet, GuestMessage, GuestSpec, Outcome, Reading, Topology, XEN_GUEST};
use crate::sys::xen::Xen;
use crate::sys::{Host, boot, clock, fork, thread};

use super::error::AgentError;
use super::facts::facts;
use super::machine::{mount_all, run};

/// Drivers that the first domain needs, in their order.
const MODULES: &str = "/xen/modules";
/// The folders that Xen's daemons write to.
const FOLDERS: &[&str] = &[
    "/run/xen",
    "/run/xenstored",
    "/var/lib/xen",
    "/var/lib/xenstored",
    "/var/log/xen",
    "/var/lock",
];
const DAEMON_LIMIT_NS: u64 = 20_000_000_000;
const POLL_NS: u64 = 5_000_000;

/// Whether this machine is a guest of Xen that is a worker.
pub fn is_guest() -> bool {
    std::env::var_os(XEN_GUEST).is_some()
}

/// The whole life of a guest: its part of each run, once it knows it.
pub fn live() -> ! {
    mount_all();
    let channel = GuestChannel::open().unwrap_or_else(|why| panic!("no console: {why}"));
    channel.send(&GuestMessage::Started);
    thread::serve_promptly();
    fork::adopt_orphans();
    // The processes of the run and of the rehearsal before it, since starting one takes longer than most runs. The run's
    // begins first: when the rehearsal has ended, all that began after its process is killed.
    let mut ahead = Vec::from([(); 2].map(|()| Runner::ahead(&[])));
    let capacity = Reading::Unknown("a guest of Xen: not measured".to_string());
    channel.send(&GuestMessage::Ready(Box::new(facts(&Host::default(), capacity, Vec::new()))));
    let error = loop {
        match work(&channel, ahead.pop().flatten()) {
            Ok(outcome) => channel.send(&GuestMessage::Ended { outcome }),
            Err(error) => break error,
        }
    };
    channel.send(&GuestMessage::Ended { outcome: Outcome::Failed { reason: error.to_string() } });
    // Xen destroys this guest.
    loop {
        std::thread::park();
    }
}

fn work(channel: &GuestChannel, ahead: Option<Runner>) -> Result<Outcome, AgentError> {
    let spec: GuestSpec = channel.spec().map_err(AgentError::system("the run"))?;
    let windows = std::cell::RefCell::new(Vec::new());
    let outcome =
        run(ahead, &|window| windows.borrow_mut().push(window), &spec, &Host::default(), None);
    // Windows are sent after the run: writing takes time.
    for window in windows.into_inner() {
        channel.send(&GuestMessage::Window(window));
    }
    outcome
}

/// Starts the services of Xen's first domain. Returns whether this is one.
pub fn begin() -> Result<bool, AgentError> {
    if !Path::new(MODULES).is_dir() {
        return Ok(false);
    }
    // Names of domains and pools are drawn at random and have to be the same in each boot.
    boot::seed_random(&[0x5c; 64]).map_err(AgentError::system("the random number generator"))?;
    let mut modules: Vec<PathBuf> = fs::read_dir(MODULES)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(AgentError::system(MODULES))?;
    modules.sort();
    for module in modules {
        boot::load_module(&module).map_err(AgentError::system("a driver of Xen"))?;
    }
    boot::mount("xenfs", "/proc/xen").map_err(AgentError::system("/proc/xen"))?;
    boot::mount("devpts", "/dev/pts").map_err(AgentError::system("/dev/pts"))?;
    for folder in FOLDERS {
        fs::create_dir_all(folder).map_err(AgentError::system(folder))?;
    }
    _ = symlink("/run", "/var/run");
    fs::create_dir_all("/etc/xen").map_err(AgentError::system("/etc/xen"))?;
    fs::write("/etc/xen/xl.conf", "autoballoon=\"off\"\n")
        .map_err(AgentError::system("/etc/xen"))?;
    daemon("xenstored", &["--pid-file", "/run/xenstored.pid"])?;
    until_there("/run/xenstored/socket")?;
    let status = command("xen-init-dom0").status().map_err(AgentError::system("xen-init-dom0"))?;
    if !status.success() {
        return Err(AgentError::XenTool { tool: "xen-init-dom0", status });
    }
    daemon("xenconsoled", &["--pid-file=/run/xenconsoled.pid"])?;
    until_there("/run/xenconsoled.pid")?;
    Ok(true)
}

/// A tool of the version of Xen that was packed.
fn command(name: &str) -> Command {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut paths = folders.map(|entry| entry.path().join("bin").join(name));
    let path = paths.find(|path| path.is_file());
    Command::new(path.unwrap_or_else(|| name.into()))
}

fn daemon(name: &'static str, words: &[&str]) -> Result<(), AgentError> {
    let mut command = command(name);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().map_err(AgentError::system(name))?;
    if status.success() { Ok(()) } else { Err(AgentError::XenTool { tool: name, status }) }
}

fn until_there(path: &'static str) -> Result<(), AgentError> {
    let until_ns = clock::monotonic_ns() + DAEMON_LIMIT_NS;
    while !Path::new(path).exists() {
        if clock::monotonic_ns() > until_ns {
            return Err(AgentError::NotThere(path));
        }
        clock::sleep_until(clock::monotonic_ns() + POLL_NS);
    }
    Ok(())
}

/// The CPUs of the machine, most of which this domain does not see, and the scheduler of guests on them. Caches and
/// nodes are Xen's. `kernel`: the release of the guests' kernel.
pub fn machine(kernel: Option<&str>) -> Result<(Topology, Reading<String>), AgentError> {
    let read = |xen: Xen| Ok((xen.machine()?, xen.version()?));
    let (machine, version) = Xen::open().and_then(read).map_err(AgentError::system("Xen"))?;
    let online: CpuSet = (0..machine.cpus).collect();
    let topology = Topology { allowed: online.clone(), online, ..Default::default() };
    let guests = kernel.map_or(String::new(), |release| format!(" with guests of {release}"));
    Ok((topology, Reading::Known(format!("Xen {version}{guests}"))))
}
