//! Guests that are workers: created by `xl`, spoken to by their consoles, destroyed at the end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::exec::group::Limit;
use crate::model::{CpuSet, GUEST_INIT, GuestMessage, GuestSize, GuestSpec, Value, XEN_GUEST};
use crate::sys::clock;
use crate::sys::xen::{self as hypervisor, Affinity, Machine, Xen};
use crate::variant::{self, XenSetting};

use super::channel::{self, Line};
use super::error::XenError;
use super::pool::{FIRST_POOL, OwnPool, PoolSettings};
use super::ramdisk;
use super::tools::{tool, xenstore};
use crate::model::MAX_LINE_BYTES;
use crate::model::clean;
use crate::sys::input;

/// The memory that Xen needs for a guest beyond the guest's own: its page tables, its structures.
const OVERHEAD_BYTES: u64 = 8 << 20;
/// The guests' kernel on a machine in the lab; elsewhere it is the kernel that runs.
const LAB_KERNEL: &str = "/xen/guest-kernel";
const FILES: &str = "/tmp/schedlab-xen";
/// The arguments of the lab's kernels, with the console of a guest of Xen.
const ARGUMENTS: &str = "console=hvc0 panic=-1 oops=panic quiet mitigations=off nokaslr norandmaps rootfstype=ramfs rodata=off \
    cryptomgr.notests random.trust_cpu=off audit=0 lsm= init_on_alloc=0 \
    initcall_blacklist=jent_mod_init,crypto_kdf108_init,load_system_certificate_list,trace_eval_init";
const POLL: Duration = Duration::from_millis(100);
/// Kept of a console; where a kernel gives up, from its words on.
const MAX_CONSOLE_LINES: usize = 8;
const GAVE_UP: &str = "Kernel panic";
/// For the first domain's own work, and for each guest, until it has booted.
const BOOT_LIMIT_NS: u64 = 30_000_000_000;
const CONSOLE_POLL_NS: u64 = 10_000_000;
/// How long a guest's console may take to be there.
const CONSOLE_LIMIT_NS: u64 = 10_000_000_000;

/// The settings that knobs ask for, for each guest of a set.
#[derive(Debug, Clone)]
pub struct Settings {
    weight: Option<u16>,
    cap: Option<u16>,
    affinity: Option<CpuSet>,
    soft_affinity: Option<CpuSet>,
    pub size: GuestSize,
    pub asked: Vec<(&'static str, Value, XenSetting)>,
}

impl Settings {
    pub fn from_knobs(knobs: &BTreeMap<String, Value>) -> Settings {
        let asked = variant::of_xen(knobs);
        let mut settings = Settings {
            weight: None,
            cap: None,
            affinity: None,
            soft_affinity: None,
            size: GuestSize { memory_bytes: hypervisor::guest_memory_bytes(), cpus: 1 },
            asked: Vec::new(),
        };
        for (_, _, setting) in &asked {
            match setting {
                XenSetting::Weight(weight) => settings.weight = Some(*weight),
                XenSetting::Cap(cap) => settings.cap = Some(*cap),
                XenSetting::Affinity(cpus) => settings.affinity = Some(cpus.clone()),
                XenSetting::SoftAffinity(cpus) => settings.soft_affinity = Some(cpus.clone()),
                XenSetting::MemoryBytes(bytes) => settings.size.memory_bytes = *bytes,
                XenSetting::Cpus(cpus) => settings.size.cpus = *cpus,
                XenSetting::Scheduler(_)
                | XenSetting::TimesliceNs(_)
                | XenSetting::RatelimitNs(_) => {}
            }
        }
        Settings { asked, ..settings }
    }

    /// Whether Xen takes them for guests in a pool of these CPUs.
    pub fn check(&self, pool: &PoolSettings) -> Result<(), XenError> {
        let scheduler = pool.scheduler();
        let weights = [("xen-weight", self.weight), ("xen-cap", self.cap)];
        if let Some((parameter, _)) = weights.into_iter().find(|(_, value)| value.is_some())
            && !scheduler.has_weights()
        {
            return Err(XenError::Parameter { parameter, scheduler: scheduler.word() });
        }
        let pool = &pool.cpus;
        if let Some(cap) = self.cap.filter(|cap| u32::from(*cap) > 100 * self.size.cpus) {
            return Err(XenError::Cap { cap, guest_cpus: self.size.cpus });
        }
        // A soft one is only a wish.
        match &self.affinity {
            Some(cpus) if cpus.minus(pool) == *cpus => {
                let (cpus, pool) = (cpus.clone(), pool.clone());
                Err(XenError::Affinity { knob: "xen-affinity", cpus, pool })
            }
            _ => Ok(()),
        }
    }
}

/// A guest's configuration, as `xl` reads it. Every word is ours or a number.
fn configuration(size: GuestSize, name: &str, kernel: &Path, ramdisk: &Path) -> String {
    let lines = [
        format!("name = \"{name}\""),
        "type = \"pv\"".to_string(),
        format!("kernel = \"{}\"", kernel.display()),
        format!("ramdisk = \"{}\"", ramdisk.display()),
        format!("extra = \"{ARGUMENTS} rdinit={GUEST_INIT} {XEN_GUEST}=1\""),
        format!("memory = {}", size.memory_bytes >> 20),
        format!("vcpus = {}", size.cpus),
        // The guest reads the machine's own counter, which the lab's bursts need.
        "tsc_mode = \"native\"".to_string(),
        "on_poweroff = \"destroy\"".to_string(),
        "on_reboot = \"destroy\"".to_string(),
        "on_crash = \"destroy\"".to_string(),
    ];
    lines.join("\n") + "\n"
}

pub struct Guest {
    pub cpus: u32,
    pub domain: u16,
    pub name: String,
    console: File,
    index: usize,
}

/// The guests of a run, in the first pool until they are moved. Dropping a guest destroys it.
pub struct Guests {
    xen: Arc<Xen>,
    kernel: PathBuf,
    /// Their kernel's release, once a guest has reported it.
    release: String,
    ramdisk: PathBuf,
    all: Vec<Guest>,
    /// Lines of all consoles, each with the position of its guest.
    sender: Sender<(usize, String)>,
    lines: Receiver<(usize, String)>,
    /// The end of each console.
    consoles: Vec<Vec<String>>,
    /// Messages of each guest that are still to be taken.
    messages: Vec<Vec<GuestMessage>>,
}

impl Guests {
    /// Creates guests of these sizes, and waits until all have booted.
    pub fn boot(sizes: &[GuestSize], cancel: &AtomicBool) -> Result<Guests, XenError> {
        let xen = Arc::new(Xen::open().map_err(XenError::call("open its control device"))?);
        check_memory(&xen.machine().map_err(XenError::call("look"))?, sizes)?;
        fs::create_dir_all(FILES).map_err(XenError::system("make a folder"))?;
        let ramdisk = Path::new(FILES).join("root.cpio");
        ramdisk::write(&ramdisk).map_err(XenError::system("write the guests' root"))?;
        let (sender, lines) = channel();
        let mut guests = Guests {
            xen,
            kernel: kernel()?,
            release: String::new(),
            ramdisk,
            all: Vec::new(),
            sender,
            lines,
            consoles: Vec::new(),
            messages: Vec::new(),
        };
        let limit = Limit::from_now(BOOT_LIMIT_NS * (1 + sizes.len() as u64));
        for size in sizes {
            guests.create(*size, cancel)?;
        }
        let is_ready = |message: &GuestMessage| matches!(message, GuestMessage::Ready(_));
        for message in guests.await_all(limit, cancel, is_ready)?.into_iter().flatten() {
            if let GuestMessage::Ready(facts) = message {
                guests.release = facts.kernel_release;
            }
        }
        Ok(guests)
    }

    pub fn xen(&self) -> Arc<Xen> {
        Arc::clone(&self.xen)
    }

    pub fn kernel(&self) -> &str {
        &self.release
    }

    pub fn all(&self) -> &[Guest] {
        &self.all
    }

    /// Creates and starts a guest, and listens to it.
    fn create(&mut self, size: GuestSize, cancel: &AtomicBool) -> Result<(), XenError> {
        if cancel.load(Relaxed) {
            return Err(XenError::Cancelled);
        }
        let index = self.all.len();
        let name = format!("schedlab-{}", index + 1);
        let text = configuration(size, &name, &self.kernel, &self.ramdisk);
        let path = Path::new(FILES).join(format!("{name}.cfg"));
        fs::write(&path, text).map_err(XenError::system("write a guest's configuration"))?;
        tool("xl", &["create", "-q", &path.to_string_lossy()])?;
        let domain = self.newest()?;
        let console = self.console_of(domain, &name)?;
        let reader = console.try_clone().map_err(XenError::system("listen to a guest"))?;
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            for line in input::lines(BufReader::new(reader), MAX_LINE_BYTES).map_while(Result::ok) {
                if sender.send((index, line)).is_err() {
                    return;
                }
            }
        });
        self.all.push(Guest { cpus: size.cpus, domain, name, console, index });
        self.consoles.push(Vec::new());
        self.messages.push(Vec::new());
        Ok(())
    }

    /// Moves a guest into a pool, and applies the settings of its set.
    pub fn place(
        &self,
        guest: &Guest,
        settings: &Settings,
        pool: &OwnPool,
    ) -> Result<(), XenError> {
        let wishes = (settings.affinity.as_ref(), settings.soft_affinity.as_ref());
        self.move_into(pool.id(), guest, wishes)?;
        if settings.weight.is_some() || settings.cap.is_some() {
            let (domain, scheduler) = (guest.domain, pool.scheduler());
            let (weight, cap) =
                self.xen.weight(domain, scheduler).map_err(XenError::call("read a weight"))?;
            let wanted = (settings.weight.unwrap_or(weight), settings.cap.unwrap_or(cap));
            self.xen
                .set_weight(domain, scheduler, wanted)
                .map_err(XenError::call("set a weight and a cap"))?;
        }
        Ok(())
    }

    /// Moves all guests back into the first pool.
    pub fn leave_pool(&self) -> Result<(), XenError> {
        self.all.iter().try_for_each(|guest| self.move_into(FIRST_POOL, guest, (None, None)))
    }

    fn move_into(
        &self,
        pool: u32,
        guest: &Guest,
        (hard, soft): (Option<&CpuSet>, Option<&CpuSet>),
    ) -> Result<(), XenError> {
        let Guest { domain, cpus, .. } = *guest;
        // A scheduler begins with no wishes: on a machine with several nodes `xl` has chosen some.
        let chosen = self.xen.soft_affinity(domain).map_err(XenError::call("read an affinity"))?;
        self.xen.move_domain(domain, pool).map_err(XenError::call("move a guest"))?;
        let soft = soft.or(Some(&chosen).filter(|_| hard.is_none()));
        for cpu in 0..cpus {
            let set = |kind, wanted: Option<&CpuSet>| match wanted {
                Some(wanted) => self.xen.set_affinity(domain, cpu, kind, wanted),
                None => Ok(()),
            };
            set(Affinity::Hard, hard)
                .and_then(|()| set(Affinity::Soft, soft))
                .map_err(XenError::call("set an affinity"))?;
        }
        Ok(())
    }

    /// The domain with the highest number: they are given in ascending order.
    fn newest(&self) -> Result<u16, XenError> {
        let mut last = self.all.last().map_or(0, |guest| guest.domain);
        while let Some(domain) =
            self.xen.domain(last + 1).map_err(XenError::call("look for a guest"))?
        {
            last = domain.id;
        }
        Ok(last)
    }

    fn console_of(&self, domain: u16, name: &str) -> Result<File, XenError> {
        let until_ns = clock::monotonic_ns() + CONSOLE_LIMIT_NS;
        let key = format!("/local/domain/{domain}/console/tty");
        loop {
            let path = xenstore("read", &[&key]).unwrap_or_default();
            if path.starts_with("/dev/pts/") {
                let opened = channel::open(Path::new(path.trim()));
                return opened.map_err(XenError::system("open a guest's console"));
            }
            if clock::monotonic_ns() > until_ns {
                let (guest, limit_ns) = (name.to_string(), CONSOLE_LIMIT_NS);
                return Err(XenError::Silent { guest, limit_ns, console: String::new() });
            }
            clock::sleep_until(clock::monotonic_ns() + CONSOLE_POLL_NS);
        }
    }

    /// Waits until each guest has sent a message like this, and takes all up to it.
    pub fn await_all(
        &mut self,
        limit: Limit,
        cancel: &AtomicBool,
        is_last: impl Fn(&GuestMessage) -> bool,
    ) -> Result<Vec<Vec<GuestMessage>>, XenError> {
        let is_done =
            |messages: &Vec<Vec<GuestMessage>>| messages.iter().all(|own| own.iter().any(&is_last));
        while !is_done(&self.messages) {
            if cancel.load(Relaxed) {
                return Err(XenError::Cancelled);
            }
            match self.lines.recv_timeout(POLL) {
                Ok((index, line)) => match Line::parse(&line) {
                    Line::Message(message) => self.messages[index].push(*message),
                    Line::Text(text) if text.is_empty() => {}
                    Line::Text(text) => {
                        let console = &mut self.consoles[index];
                        console.push(clean(&text));
                        keep_end(console);
                    }
                },
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.check(limit, &is_last)?;
                }
            }
        }
        Ok(self.messages.iter_mut().map(std::mem::take).collect())
    }

    /// Whether the awaited guests are still there, and time is left.
    fn check(
        &self,
        limit: Limit,
        is_last: &impl Fn(&GuestMessage) -> bool,
    ) -> Result<(), XenError> {
        let waiting =
            self.all.iter().filter(|guest| !self.messages[guest.index].iter().any(is_last));
        let is_late = clock::monotonic_ns() > limit.at_ns;
        for guest in waiting {
            let (name, console) = (guest.name.clone(), self.console(guest));
            let found =
                self.xen.domain(guest.domain).map_err(XenError::call("look for a guest"))?;
            if found.is_none_or(|domain| domain.id != guest.domain) {
                return Err(XenError::Gone { guest: name, console });
            }
            if is_late {
                return Err(XenError::Silent { guest: name, limit_ns: limit.limit_ns, console });
            }
        }
        Ok(())
    }

    /// The end of a guest's console, on one line.
    pub fn console(&self, guest: &Guest) -> String {
        self.consoles[guest.index].join(" | ")
    }

    /// Gives a guest its part of the run.
    pub fn give(&self, guest: &Guest, spec: &GuestSpec) -> Result<(), XenError> {
        let mut line = serde_json::to_vec(spec)
            .map_err(std::io::Error::from)
            .map_err(XenError::system("write a guest's run"))?;
        line.push(b'\n');
        (&guest.console).write_all(&line).map_err(XenError::system("write to a guest's console"))
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        for guest in &self.all {
            // A guest that is gone already cannot be destroyed.
            _ = tool("xl", &["destroy", &guest.domain.to_string()]);
        }
    }
}

/// Whether a machine has memory for all of them.
pub fn check_memory(machine: &Machine, sizes: &[GuestSize]) -> Result<(), XenError> {
    let free_bytes = machine.free_bytes;
    let needed = sizes.iter().map(|size| size.memory_bytes + OVERHEAD_BYTES);
    let needed_bytes: u64 = needed.clone().sum();
    if needed_bytes > free_bytes {
        Err(XenError::Memory {
            needed_bytes,
            free_bytes,
            guests: sizes.len(),
            fit: free_bytes / needed.max().unwrap_or(1),
        })
    } else {
        Ok(())
    }
}

/// The kernel of guests.
fn kernel() -> Result<PathBuf, XenError> {
    let lab = Path::new(LAB_KERNEL);
    if lab.is_file() {
        return Ok(lab.to_path_buf());
    }
    let release = input::kernel_text("/proc/sys/kernel/osrelease")
        .map_err(XenError::system("read the kernel's release"))?;
    Ok(Path::new("/boot").join(format!("vmlinuz-{}", release.trim())))
}

/// The end of a console, or the part from where the kernel gave up: the trace follows there.
fn keep_end(console: &mut Vec<String>) {
    let excess = console.len().saturating_sub(MAX_CONSOLE_LINES);
    let from = console.iter().position(|line| line.contains(GAVE_UP)).unwrap_or(excess);
    console.drain(..from.min(excess));
    console.truncate(MAX_CONSOLE_LINES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cell, Placement, Variant, Work};

    #[test]
    fn what_xen_would_refuse_is_refused_before() {
        let of = |knobs: &[(&str, Value)]| {
            let knobs = knobs.iter().map(|(name, value)| (name.to_string(), value.clone()));
            let knobs: BTreeMap<String, Value> = knobs.collect();
            let cell = Cell {
                index: 0,
                variant: Variant { name: "v".to_string(), knobs: knobs.clone() },
                work: Work::default(),
                placement: Placement { cpus: Some("1-2".parse().unwrap()), ..Default::default() },
            };
            let machine = Machine { cpus: 3, free_bytes: 0 };
            let pool = PoolSettings::for_machine(&cell, &machine).unwrap();
            Settings::from_knobs(&knobs).check(&pool).map_err(|error| error.to_string())
        };
        let cpus = |text: &str| Value::Cpus(text.parse().unwrap());
        assert_eq!(of(&[("xen-cap", Value::Int(200)), ("guest-cpus", Value::Int(2))]), Ok(()));
        assert_eq!(of(&[("xen-affinity", cpus("2-5"))]), Ok(()));
        assert_eq!(of(&[("xen-soft-affinity", cpus("5"))]), Ok(()));
        let error = of(&[("xen-cap", Value::Int(101))]).unwrap_err();
        assert!(error.contains("xen-cap is 101") && error.contains("at most 100"), "{error}");
        let error = of(&[("xen-affinity", cpus("0,5"))]).unwrap_err();
        assert!(error.contains("0,5") && error.contains("it has 1-2"), "{error}");
        for (knob, is_refused) in [("xen-weight", true), ("xen-cap", true), ("guest-cpus", false)] {
            let null = ("xen-scheduler", Value::Text("null".to_string()));
            let error = of(&[null, (knob, Value::Int(2))]).err().unwrap_or_default();
            assert_eq!(error.contains(&format!("{knob} is not a parameter of null")), is_refused);
        }
    }

    #[test]
    fn of_a_console_that_ends_in_a_panic_its_words_are_kept() {
        let mut console = Vec::new();
        for at in 0..30 {
            console.push(if at == 10 { "Kernel panic - not".to_string() } else { format!("{at}") });
            keep_end(&mut console);
        }
        assert_eq!(console.len(), MAX_CONSOLE_LINES);
        assert_eq!(console[0], "Kernel panic - not");
        let mut console: Vec<String> = (0..30).map(|at| at.to_string()).collect();
        keep_end(&mut console);
        assert_eq!((console.len(), console[0].as_str()), (MAX_CONSOLE_LINES, "22"));
    }

    #[test]
    fn a_guest_is_configured_as_its_knobs_say() {
        let knobs = [
            ("xen-weight", Value::Int(512)),
            ("xen-cap", Value::Int(50)),
            ("xen-soft-affinity", Value::Cpus("1-3".parse().unwrap())),
            ("guest-cpus", Value::Int(2)),
            ("guest-memory", Value::Bytes(192 << 20)),
            ("nice", Value::Int(5)),
        ];
        let knobs = knobs.map(|(name, value)| (name.to_string(), value)).into();
        let settings = Settings::from_knobs(&knobs);
        assert_eq!((settings.weight, settings.cap), (Some(512), Some(50)));
        assert_eq!(settings.soft_affinity.as_ref().unwrap().to_string(), "1-3");
        let text = configuration(settings.size, "g", Path::new("/k"), Path::new("/r"));
        let has = |line: &str| assert!(text.lines().any(|own| own == line), "{line}: {text}");
        has("name = \"g\"");
        has("memory = 192");
        has("vcpus = 2");
    }
}
