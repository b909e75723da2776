//! The source `bpf`: the programs of `../bpf/sched.bpf.c`, loaded into the running kernel.
//!
//! They count in the kernel; this side loads them, says when counting begins and ends, takes
//! over tasks that end, and reads the rest at the end. Everything that was loaded goes with the
//! last descriptor of it, so a killed schedlab leaves nothing behind.

mod fold;
mod layout;
mod recorder;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::{BufReader, ErrorKind, Read};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use bytemuck::Zeroable;
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{
    Iter, Link, Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, RingBuffer,
    RingBufferBuilder,
};

use crate::model::{Clocks, Kernel, TaskScore, Trace, TracedTask};
use crate::sys::environment::Identity;
use crate::sys::{Host, clock, command, libbpf, perf, topology};

use super::error::BpfError;
use super::{Counted, Level, Session, SessionConfig, SourceError};
use fold::{Fold, Now};
use layout::{Control, Counters, Cpu, Live, MAX_CPUS, Past, Settings, Task};
use recorder::{Recorder, Window, meanwhile};

/// Compiled from `sched.bpf.c` by `make bpf`.
const PROGRAMS: &[u8] = include_bytes!("../../bpf/sched.bpf.o");

/// Not a divisor of any tick, so that samples do not coincide with work at ticks.
const SAMPLE_PERIOD_NS: u64 = 10_101_010;
/// How long programs are measured to run at least.
const TIMING_NS: u64 = 900_000_000;
/// The iterator: its time is our own.
const WALK: &str = "walk";
/// The largest number of names that are distinguished.
const MAX_NAMES: u32 = 4000;
/// Read of the tasks at once.
const WALK_BYTES: usize = 1 << 16;
/// The system calls through which a task wakes readers of pipes and sockets.
const SENDERS: [i64; layout::SENDERS] = [
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
];
/// Programs that see sends and receives, on kernels that have these tracepoints: since 6.3.
const MESSAGE_PROGRAMS: [&str; 2] = ["on_sent", "on_received"];
const UNSEEN: &str = "sends that wake nobody, which this kernel does not show: sk_data_ready and sock_recv_length \
                      are there since Linux 6.3";
/// Programs that light telemetry does without.
const FULL_ONLY: [&str; 3] = ["on_waking", "on_migrate", "on_sample"];

pub fn open(config: &SessionConfig) -> Result<Box<dyn Session>, SourceError> {
    Ok(Box::new(start(config)?))
}

fn start(config: &SessionConfig) -> Result<Bpf, SourceError> {
    let object = load(config)?;
    let mut links = Vec::new();
    // New tasks are known before the others are listed, and all before one is switched to.
    attach(&object, &["on_fork", "on_rename"], &mut links)?;
    let walk = program(&object, "walk")?
        .attach_iter_with_opts(libbpf_rs::IterOpts::None)
        .map_err(BpfError::Walk)?;
    let fold = Rc::new(RefCell::new(Fold::new(config)));
    let dead = dead(&object, &fold)?;
    let mut session = Bpf {
        control: Control::default(),
        began_ns: 0,
        began_boot_ns: 0,
        lost_before: 0,
        trace_ns: config.trace_ns,
        sampled: false,
        object,
        links,
        walk,
        dead,
        fold,
        level: config.level,
        timed: config.timed || config.readings,
        readings: config.readings,
        timing: Timing::Not,
        known: HashMap::new(),
    };
    session.walk(layout::WALK_FIRST)?;
    session.attach_all()?;
    Ok(session)
}

struct Bpf {
    object: Object,
    links: Vec<Link>,
    walk: Link,
    dead: RingBuffer<'static>,
    /// Shared with the callback of `dead`.
    fold: Rc<RefCell<Fold>>,
    control: Control,
    began_ns: u64,
    began_boot_ns: u64,
    /// Tasks without room until then: the walk at the begin makes room for them, or counts them again.
    lost_before: u64,
    trace_ns: u64,
    /// Run-queue lengths are.
    sampled: bool,
    level: Level,
    /// How long programs run is to be measured.
    timed: bool,
    readings: bool,
    timing: Timing,
    /// For traces: tasks that readings had, and when they last did.
    known: HashMap<i32, (TracedTask, u64)>,
}

/// How long the programs run.
enum Timing {
    Not,
    /// The kernel measures it while this is held.
    Measured {
        _held: OwnedFd,
        before_ns: u64,
    },
    /// The time of each switch.
    Known(f64),
}

impl Session for Bpf {
    fn watch(&mut self, pid: i32) -> Result<(), SourceError> {
        self.control.watch_pid = pid;
        self.control.only_watched = 1;
        Ok(self.walk(layout::WALK_WATCH)?)
    }

    fn watch_children(&mut self) -> Result<(), SourceError> {
        self.control.only_watched = 1;
        self.control.watch_children_of = std::process::id() as i32;
        Ok(self.put_control()?)
    }

    fn begin(&mut self) -> Result<(), SourceError> {
        // At the end those that have gone away by then are not there to be read.
        self.fold.borrow_mut().learn_cgroups();
        self.compare_clocks()?;
        self.lost_before = self.counters()?.0.tasks_lost;
        self.walk(layout::WALK_BEGIN)?;
        // One after the other: a wait is found in the trace by their difference.
        self.began_ns = clock::monotonic_ns();
        self.began_boot_ns = clock::boot_ns();
        self.control.began_ns = self.began_ns;
        self.control.counting = 1;
        self.put_control()?;
        if self.timed {
            let before_ns = libbpf::run_ns(&self.object, WALK);
            self.timing = libbpf::measure_run_times()
                .map_or(Timing::Not, |held| Timing::Measured { _held: held, before_ns });
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), SourceError> {
        self.dead.consume().map_err(BpfError::map("dead"))?;
        if self.timed && !self.readings && matches!(self.timing, Timing::Measured { .. }) {
            let (_, cpus) = self.counters()?;
            self.time_programs(&cpus);
        }
        Ok(self.fold.borrow_mut().take_stays(&map(&self.object, "stays")?, false)?)
    }

    fn reading(&mut self) -> Result<Counted, SourceError> {
        self.poll()?;
        // In the long run the clocks do not go alike.
        self.compare_clocks()?;
        self.walk(layout::WALK_PEEK)?;
        let now = self.now(clock::monotonic_ns());
        let (counters, cpus) = self.counters()?;
        self.time_programs(&cpus);
        let mut fold = self.fold.borrow_mut();
        fold.take_names(&map(&self.object, "names")?)?;
        let counted = fold.reading(&counters, &cpus, &now, &map(&self.object, "pairs")?)?;
        drop(fold);
        self.know(&counted.tasks);
        Ok(counted)
    }

    fn trace(&mut self) -> Result<Option<Trace>, SourceError> {
        if self.trace_ns == 0 {
            return Ok(None);
        }
        let ended_ns = clock::boot_ns();
        let (_, cpus) = self.counters()?;
        let tasks = self.known.values().map(|(task, _)| task.clone()).collect();
        let mut fold = self.fold.borrow_mut();
        fold.take_names(&map(&self.object, "names")?)?;
        Ok(Some(self.read_trace(tasks, fold.names(), &cpus, ended_ns)?.0))
    }

    fn switch_ns(&self) -> Option<f64> {
        if let Timing::Known(ns) = self.timing { Some(ns) } else { None }
    }

    fn end(&mut self) -> Result<Counted, SourceError> {
        self.compare_clocks()?;
        // Each task counts until it is read: the time after its last switch is then read, too.
        self.walk(layout::WALK_READ)?;
        let ended_ns = clock::monotonic_ns();
        let ended_boot_ns = clock::boot_ns();
        self.control.counting = 0;
        self.put_control()?;
        self.poll()?;
        let mut fold = self.fold.borrow_mut();
        fold.take_stays(&map(&self.object, "stays")?, true)?;
        fold.take_pairs(&map(&self.object, "pairs")?)?;
        fold.take_names(&map(&self.object, "names")?)?;
        let (counters, cpus) = self.counters()?;
        let mut counted = fold.finish(&counters, &cpus, &self.now(ended_ns));
        if let Some(worst) = counted.worst.as_mut().filter(|_| self.level == Level::Full) {
            fold.meanwhile(&self.past(worst.cpu)?, worst);
        }
        if self.trace_ns > 0 {
            let tasks = counted.tasks.iter().map(recorder::traced).collect();
            match self.read_trace(tasks, fold.names(), &cpus, ended_boot_ns) {
                Ok((trace, lost)) => {
                    if let Some(worst) = &mut counted.worst {
                        let to_ns = self.began_boot_ns + worst.at_ns;
                        meanwhile(&trace, worst, to_ns);
                    }
                    counted.trace = Some(trace);
                    counted.lost.extend(lost);
                    counted.lost.extend(self.unseen_messages());
                }
                Err(error) => counted.lost.push(format!("the trace: {error}")),
            }
        }
        Ok(counted)
    }
}

impl Bpf {
    fn put_control(&self) -> Result<(), BpfError> {
        map(&self.object, ".data.control")?
            .update(&0u32.to_ne_bytes(), bytemuck::bytes_of(&self.control), MapFlags::ANY)
            .map_err(BpfError::map(".data.control"))
    }

    /// Has the programs see how far the clock of the run queues is ahead of the monotonic one: at a switch, which
    /// happens if this thread sleeps for longer than it takes to set a timer.
    fn compare_clocks(&mut self) -> Result<(), BpfError> {
        self.control.clock_wanted = 1;
        self.put_control()?;
        std::thread::sleep(Duration::from_micros(50));
        self.control.clock_wanted = 0;
        self.put_control()
    }

    fn now(&self, at_ns: u64) -> Now {
        Now { online: online(), began_ns: self.began_ns, at_ns, sampled: self.sampled }
    }

    fn counters(&self) -> Result<(Counters, Vec<Cpu>), BpfError> {
        let counters = map(&self.object, ".bss")?
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(BpfError::map(".bss"))?
            .ok_or_else(|| lacks("value of", ".bss"))?;
        let (first, cpus) = counters.split_at(size_of::<Counters>());
        let cpus = cpus.chunks_exact(size_of::<Cpu>()).map(bytemuck::pod_read_unaligned);
        let mut counters: Counters = bytemuck::pod_read_unaligned(first);
        counters.tasks_lost = counters.tasks_lost.saturating_sub(self.lost_before);
        Ok((counters, cpus.collect()))
    }

    /// The tasks that had a CPU, as far as they are read.
    fn past(&self, cpu: u32) -> Result<Past, BpfError> {
        let value = map(&self.object, "pasts")?
            .lookup(&cpu.to_ne_bytes(), MapFlags::ANY)
            .map_err(BpfError::map("pasts"))?;
        let past = value.as_deref().and_then(|value| value.get(..size_of::<Past>()));
        past.map(bytemuck::pod_read_unaligned).ok_or_else(|| lacks("value of", "pasts"))
    }

    /// Has the iterator go through all tasks. Takes over the tasks that it lists, one by one: all together are
    /// large.
    fn walk(&mut self, to: u32) -> Result<(), BpfError> {
        self.control.walk_to = to;
        self.put_control()?;
        let walk = Iter::new(&self.walk).map_err(BpfError::Walk)?;
        let mut walk = BufReader::with_capacity(WALK_BYTES, walk);
        let mut record = [0; size_of::<Task>() + size_of::<Live>()];
        let mut fold = self.fold.borrow_mut();
        loop {
            match walk.read_exact(&mut record) {
                Ok(()) => {
                    let (task, live) = record.split_at(size_of::<Task>());
                    let task = bytemuck::pod_read_unaligned(task);
                    let live: Live = bytemuck::pod_read_unaligned(live);
                    match to {
                        layout::WALK_PEEK => fold.living(&task, &live),
                        _ => fold.task(&task, live.waiting_ns),
                    }
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(BpfError::Read(error)),
            }
        }
    }

    /// After the first second: from then on the kernel measures no program.
    fn time_programs(&mut self, cpus: &[Cpu]) {
        let Timing::Measured { before_ns, .. } = &self.timing else { return };
        if clock::monotonic_ns() < self.began_ns + TIMING_NS {
            return;
        }
        let switches: u64 = cpus.iter().map(|cpu| cpu.switches).sum();
        let run_ns = libbpf::run_ns(&self.object, WALK).saturating_sub(*before_ns);
        self.timing = Timing::Known(run_ns as f64 / switches.max(1) as f64);
    }

    /// Learns tasks for a trace. Ended ones are forgotten with the last of their events.
    fn know(&mut self, tasks: &[TaskScore]) {
        if self.trace_ns == 0 {
            return;
        }
        let now_ns = clock::monotonic_ns();
        let oldest_ns = now_ns.saturating_sub(2 * self.trace_ns);
        for task in tasks {
            let until_ns = if task.ended { now_ns } else { u64::MAX };
            self.known.insert(task.tid, (recorder::traced(task), until_ns));
        }
        self.known.retain(|_, (_, until_ns)| *until_ns >= oldest_ns);
    }

    /// Reads the flight recorder's state at that time, with a sentence if the trace does not go back as far as was
    /// asked for.
    fn read_trace(
        &self,
        tasks: Vec<TracedTask>,
        names: &BTreeMap<u32, String>,
        cpus: &[Cpu],
        ended_ns: u64,
    ) -> Result<(Trace, Option<String>), BpfError> {
        let window = Window { began_ns: self.began_boot_ns, ended_ns, trace_ns: self.trace_ns };
        let traced = traced_cpus();
        let slots = recorder::slots(self.trace_ns, traced);
        let mut recorder = Recorder::new(slots, traced, window);
        recorder.read(&map(&self.object, "traces")?, cpus, || Ok(self.counters()?.1))?;
        let clocks = Clocks {
            boot_ns: clock::boot_ns(),
            monotonic_ns: clock::monotonic_ns(),
            unix_ns: clock::unix_ns(),
        };
        let own = Identity::here();
        let kernel = Kernel { release: own.kernel_release, version: own.kernel_version };
        Ok(recorder.finish(tasks, names, clocks, kernel))
    }

    /// A sentence where sends are to be in the trace and the kernel does not show them.
    fn unseen_messages(&self) -> Option<String> {
        let is_loaded = |name| program(&self.object, name).is_ok_and(|program| program.autoload());
        let is_lacking =
            self.level == Level::Events && !MESSAGE_PROGRAMS.into_iter().all(is_loaded);
        is_lacking.then(|| UNSEEN.to_string())
    }

    /// Everything that was loaded and is not attached yet.
    fn attach_all(&mut self) -> Result<(), BpfError> {
        let names: Vec<String> = self
            .object
            .progs()
            .filter(|program| program.section().as_encoded_bytes().starts_with(b"tp_btf/"))
            .filter(|program| program.autoload())
            .map(|program| program.name().to_string_lossy().into_owned())
            .filter(|name| !["on_fork", "on_rename"].contains(&name.as_str()))
            .collect();
        // Ends of interrupts before beginnings: an interrupt whose end would not be seen is not entered.
        let (ends, others): (Vec<&str>, Vec<&str>) =
            names.iter().map(String::as_str).partition(|name| name.ends_with("_leaves"));
        attach(&self.object, &ends, &mut self.links)?;
        attach(&self.object, &others, &mut self.links)?;
        if self.level != Level::Full {
            return Ok(());
        }
        for cpu in online() {
            // Without samples the lengths are unknown, and nothing else.
            let Ok(event) = perf::sample_cpu_clock(cpu, SAMPLE_PERIOD_NS) else { continue };
            let sampler = program(&self.object, "on_sample")?;
            // The link closes the event with itself.
            if let Ok(link) = sampler.attach_perf_event(event.into_raw_fd()) {
                self.links.push(link);
                self.sampled = true;
            }
        }
        Ok(())
    }
}

fn lacks(what: &'static str, name: &str) -> BpfError {
    BpfError::Lacks { what, name: name.to_string() }
}

fn online() -> Vec<u32> {
    topology::online(&Host::default()).known().map_or(Vec::new(), |cpus| cpus.iter().collect())
}

/// CPUs that the flight recorder has room for. One with a higher number that is switched on later
/// leaves no lines.
fn traced_cpus() -> u32 {
    online().into_iter().max().map_or(1, |cpu| cpu.saturating_add(1)).min(MAX_CPUS as u32)
}

fn load(config: &SessionConfig) -> Result<Object, BpfError> {
    let log = &libbpf::Log::listen();
    let wrong = |what: &'static str| {
        move |source: libbpf_rs::Error| match source.kind() {
            _ if log.has_rejection() => BpfError::Load { what, source, log: log.reason() },
            libbpf_rs::ErrorKind::PermissionDenied if command::is_root() => {
                BpfError::RefusedToRoot { what }
            }
            libbpf_rs::ErrorKind::PermissionDenied => BpfError::NotPermitted { what },
            libbpf_rs::ErrorKind::Unsupported => BpfError::NoSyscall,
            _ => BpfError::Load { what, source, log: log.reason() },
        }
    };
    let btf = kernel_types(&Host::default())?;
    let mut open = ObjectBuilder::default()
        .open_memory(PROGRAMS)
        .map_err(wrong("cannot read the programs"))?;
    choose_programs(&mut open, &btf, config);
    set_up_maps(&mut open, config)?;
    open.load().map_err(wrong("the kernel refuses the programs"))
}

/// The kernel's types, where it has all that the programs need.
fn kernel_types(host: &Host) -> Result<Btf<'static>, BpfError> {
    let path = "/sys/kernel/btf/vmlinux";
    if !host.path(path).exists() {
        return Err(BpfError::NoBtf { path });
    }
    let btf = Btf::from_vmlinux().map_err(|source| BpfError::Btf { path, source })?;
    // A type of each tracepoint, which the kernel has only where BPF programs can be attached to it.
    let has_events = btf.type_by_name::<types::Typedef>("btf_trace_sched_switch").is_some();
    if !has_events {
        return Err(BpfError::NoEvents);
    }
    let kinds = btf.type_by_name::<types::Enum>("bpf_map_type");
    let is_storage = |name: &OsStr| name == "BPF_MAP_TYPE_TASK_STORAGE";
    // If the types of maps are not listed, loading shows whether the kernel has this one.
    if kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind.name.is_some_and(is_storage))) {
        Ok(btf)
    } else {
        Err(BpfError::NoTaskStorage)
    }
}

fn shows_messages(btf: &Btf) -> bool {
    let has = |name| btf.type_by_name::<types::Typedef>(name).is_some();
    has("btf_trace_sk_data_ready") && has("btf_trace_sock_recv_length")
}

/// Leaves out programs that are not wanted, and those whose tracepoint this kernel does not have.
fn choose_programs(open: &mut OpenObject, btf: &Btf, config: &SessionConfig) {
    let is_interrupt = |section: &str| section.ends_with("_entry") || section.ends_with("_exit");
    let has_messages = config.trace_ns > 0 && config.level == Level::Events && shows_messages(btf);
    for mut program in open.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        let tracepoint = section.strip_prefix("tp_btf/").unwrap_or_default();
        let named = format!("btf_trace_{tracepoint}");
        let is_known = btf.type_by_name::<types::Typedef>(&named).is_some();
        let name = program.name().to_string_lossy().into_owned();
        let is_extra = FULL_ONLY.contains(&name.as_str()) || is_interrupt(&section);
        let is_traced = config.trace_ns > 0 && name != "on_sample";
        let is_wanted = config.level == Level::Full || is_traced || !is_extra;
        let is_wanted =
            if MESSAGE_PROGRAMS.contains(&name.as_str()) { has_messages } else { is_wanted };
        program.set_autoload(is_wanted && (is_known || !is_interrupt(&section)));
    }
}

fn set_up_maps(open: &mut OpenObject, config: &SessionConfig) -> Result<(), BpfError> {
    let cpus = traced_cpus();
    let mut settings = Settings::zeroed();
    settings.full = u32::from(config.level == Level::Full);
    settings.events_only = u32::from(config.level == Level::Events);
    settings.trace_slots = recorder::slots(config.trace_ns, cpus);
    settings.max_tasks = config.max_tasks;
    settings.max_names = MAX_NAMES;
    settings.senders = SENDERS.map(|number| number as u32);
    place_cpus(&mut settings);
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.ends_with(".rodata.settings") {
            let value = map.initial_value_mut().ok_or_else(|| lacks("value of", &name))?;
            let settings = bytemuck::bytes_of(&settings);
            value
                .get_mut(..settings.len())
                .ok_or_else(|| lacks("room in", &name))?
                .copy_from_slice(settings);
        } else if name == "traces" && settings.trace_slots > 0 {
            map.set_max_entries(cpus.saturating_mul(settings.trace_slots))
                .map_err(BpfError::map("traces"))?;
        } else if name == "pasts" && settings.full > 0 {
            map.set_max_entries(cpus).map_err(BpfError::map("pasts"))?;
        } else if name == "messages" && config.level != Level::Events {
            map.set_max_entries(1).map_err(BpfError::map("messages"))?;
        }
    }
    Ok(())
}

/// Numbers for the groups of CPUs that share a last-level cache or a node.
fn place_cpus(settings: &mut Settings) {
    let affinity = topology::affinity().unwrap_or_default();
    let topology = topology::topology(&Host::default(), affinity);
    for (groups, numbers) in
        [(&topology.llcs, &mut settings.llc_of), (&topology.numa_nodes, &mut settings.node_of)]
    {
        for (number, group) in groups.iter().enumerate() {
            let in_reach = group.iter().filter(|cpu| (*cpu as usize) < MAX_CPUS);
            in_reach.for_each(|cpu| numbers[cpu as usize] = number as u16);
        }
    }
}

fn program<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::ProgramMut<'a>, BpfError> {
    object.progs_mut().find(|program| program.name() == name).ok_or_else(|| lacks("program", name))
}

fn attach(object: &Object, names: &[&str], links: &mut Vec<Link>) -> Result<(), BpfError> {
    for name in names {
        let link = program(object, name)?
            .attach_trace()
            .map_err(|source| BpfError::Attach { program: name.to_string(), source })?;
        links.push(link);
    }
    Ok(())
}

/// Finds a map by the end of its name: libbpf puts the object's name before those of sections.
fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>, BpfError> {
    object
        .maps()
        .find(|map| map.name().to_string_lossy().ends_with(name))
        .ok_or_else(|| lacks("map", name))
}

/// Tasks that end go straight into the fold.
fn dead(object: &Object, fold: &Rc<RefCell<Fold>>) -> Result<RingBuffer<'static>, BpfError> {
    let wrong = || BpfError::map("dead");
    let ring = MapHandle::try_from(&map(object, "dead")?).map_err(wrong())?;
    let fold = Rc::clone(fold);
    let mut builder = RingBufferBuilder::new();
    let take = move |record: &[u8]| {
        if let Some(record) = record.get(..size_of::<Task>()) {
            fold.borrow_mut().task(&bytemuck::pod_read_unaligned(record), 0);
        }
        0
    };
    builder.add(&ring, take).map_err(wrong())?;
    builder.build().map_err(wrong())
}
