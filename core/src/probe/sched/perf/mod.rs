//! The source `perf`: tracepoints of the scheduler, recorded by the kernel's perf subsystem.
//!
//! Each online CPU has a ring that all of its records go to. A thread of its own is woken when one
//! fills, merges them by time and counts; nothing is read of a task in between. When counting begins
//! the tasks that live are read from /proc, and when it ends the cgroups of those that still do.
//!
//! Input: tracefs, perf_event_open, /proc, the topology in /sys.

mod fold;
mod record;
mod task;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::model::Reading;
use crate::sys::load::{self, Process};
use crate::sys::perf::{self, Occasion};
use crate::sys::perf_ring::{Ring, Waiter};
use crate::sys::task::TaskReader;
use crate::sys::{FileError, Host, cgroup, clock, eventfd, thread, topology, tracefs};

use super::family::processes;
use super::since::Since;
use super::{Counted, Level, Session, SessionConfig, SourceError};
use fold::{Fold, Wanted};
use record::{Event, Layout, TRACEPOINTS};

/// The ring of one CPU, where CPUs are few: a tenth of a second of the fastest ping-pong.
const MAX_RING_BYTES: usize = 2 << 20;
const MIN_RING_BYTES: usize = 256 << 10;
/// The rings of all CPUs, unless each would have less than the least.
const ALL_RINGS_BYTES: usize = 64 << 20;
/// Smaller rings are tried where the kernel does not lock that much memory for this user.
const SMALLEST_RING_BYTES: usize = 64 << 10;
/// The reader wakes when this share of a ring is full.
const WATERMARK_SHARE: usize = 4;
/// An event that is younger may yet be overtaken by one that is recorded on another CPU.
const SETTLED_NS: u64 = 2_000_000;
/// How often a CPU is sampled for the task that runs on it, in case nothing is switched. Not a divisor of any tick.
const CLOCK_PERIOD_NS: u64 = 101_010_101;
/// Number of the pid namespace that the machine starts with. Tracepoints have its numbers of tasks.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

pub fn open(config: &SessionConfig) -> Result<Box<dyn Session>, SourceError> {
    let host = Host::default();
    let path = Path::new("/proc/self/ns/pid");
    let namespace = std::fs::read_link(host.path(path))
        .map_err(|source| FileError { path: path.to_path_buf(), source })?;
    if namespace.as_os_str() != FIRST_NAMESPACE {
        return Err(SourceError::PidNamespace);
    }
    let layout = layout(&host)?;
    let online = match topology::online(&host) {
        Reading::Known(cpus) => cpus,
        Reading::Unknown(why) => return Err(SourceError::CpusOnline(why)),
    };
    let full = config.level == Level::Full;
    let cpus: Vec<u32> = online.iter().collect();
    let mut events = Vec::new();
    let mut owners = Vec::new();
    let mut rings = Vec::new();
    for cpu in &cpus {
        let (owner, ring) = watch_cpu(*cpu, &layout, full, cpus.len(), &mut events)?;
        owners.push(owner);
        rings.push((*cpu, ring));
    }
    let affinity = topology::affinity().unwrap_or_default();
    let wanted = Wanted {
        full,
        max_tasks: config.max_tasks as usize,
        readings: config.readings,
        forgets: !config.totals,
        ..Wanted::default()
    };
    let fold = Fold::new(wanted, &topology::topology(&host, affinity));
    let reader = Reader {
        layout,
        queues: rings.iter().map(|_| VecDeque::new()).collect(),
        rings,
        buffer: Vec::new(),
        fold,
        until_ns: u64::MAX,
    };
    let reader = Arc::new(Mutex::new(reader));
    Ok(Box::new(Perf {
        host,
        reader,
        owners: Arc::new(owners),
        events,
        running: None,
        began_ns: 0,
        since: Since::default(),
    }))
}

fn layout(host: &Host) -> Result<Layout, SourceError> {
    let [switch, waking, new, migrate] = TRACEPOINTS;
    let read = |name| tracefs::sched(host, name);
    Ok(Layout::new(&[read(switch)?, read(waking)?, read(new)?, read(migrate)?])?)
}

/// All events of one CPU, and the ring that they go to. The first of them has the ring.
fn watch_cpu(
    cpu: u32,
    layout: &Layout,
    full: bool,
    cpus: usize,
    events: &mut Vec<OwnedFd>,
) -> Result<(OwnedFd, Ring), SourceError> {
    let wrong = |what, source| SourceError::PerfEvent { what, cpu, cpus, source };
    let max_bytes = MAX_RING_BYTES.min((ALL_RINGS_BYTES / cpus.max(1)).max(MIN_RING_BYTES));
    // A power of two, as rings are.
    let mut bytes = 1usize << max_bytes.ilog2();
    let [switch, waking, new, migrate] = layout.ids();
    let watermark = |bytes: usize| (bytes / WATERMARK_SHARE) as u32;
    let (owner, ring) = loop {
        let owner = perf::record(cpu, Occasion::Tracepoint(switch), true, watermark(bytes))
            .map_err(|error| wrong("perf_event_open", error))?;
        match Ring::new(&owner, bytes) {
            Ok(ring) => break (owner, ring),
            Err(_) if bytes > SMALLEST_RING_BYTES => bytes /= 2,
            Err(error) => return Err(wrong("no memory for records", error)),
        }
    };
    let mut occasions = vec![
        Occasion::Tracepoint(waking),
        Occasion::Tracepoint(new),
        Occasion::Clock { period_ns: CLOCK_PERIOD_NS },
    ];
    occasions.extend(full.then_some(Occasion::Tracepoint(migrate)));
    for occasion in occasions {
        let event = perf::record(cpu, occasion, false, watermark(bytes))
            .map_err(|error| wrong("perf_event_open", error))?;
        perf::redirect(&event, &owner).map_err(|error| wrong("perf events", error))?;
        events.push(event);
    }
    Ok((owner, ring))
}

struct Perf {
    host: Host,
    reader: Arc<Mutex<Reader>>,
    /// The events that own the rings, one for each CPU.
    owners: Arc<Vec<OwnedFd>>,
    events: Vec<OwnedFd>,
    running: Option<Running>,
    began_ns: u64,
    since: Since,
}

/// The thread, and the file that ends it.
struct Running {
    stop: File,
    thread: JoinHandle<()>,
}

impl Session for Perf {
    fn watch(&mut self, pid: i32) -> Result<(), SourceError> {
        let process = load::process(&self.host, pid);
        let mut reader = lock(&self.reader);
        // Its tasks with events up to now are known after this; others become known with their process.
        reader.drain(clock::monotonic_ns());
        reader.fold.watch(pid);
        if let Some(process) = process.filter(|_| self.running.is_some()) {
            meet(&mut reader.fold, &self.host, &process);
        }
        Ok(())
    }

    fn watch_children(&mut self) -> Result<(), SourceError> {
        lock(&self.reader).fold.wanted.children_of = Some(std::process::id() as i32);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), SourceError> {
        for event in self.all() {
            perf::enable(event).map_err(SourceError::PerfEnable)?;
        }
        self.running = Some(self.start().map_err(SourceError::NoReader)?);
        let processes = processes(&self.host)?;
        let mut reader = lock(&self.reader);
        for process in processes.values() {
            meet(&mut reader.fold, &self.host, process);
        }
        self.began_ns = clock::monotonic_ns();
        reader.fold.begin(self.began_ns);
        Ok(())
    }

    /// The thread does it.
    fn poll(&mut self) -> Result<(), SourceError> {
        match self.running.as_ref().is_some_and(|running| running.thread.is_finished()) {
            true => Err(SourceError::ReaderEnded),
            false => Ok(()),
        }
    }

    fn reading(&mut self) -> Result<Counted, SourceError> {
        self.poll()?;
        let now_ns = clock::monotonic_ns();
        let mut reader = lock(&self.reader);
        reader.drain(now_ns);
        let (gone, so_far) = reader.fold.so_far(now_ns.saturating_sub(SETTLED_NS));
        Ok(self.since.step(gone, so_far))
    }

    fn end(&mut self) -> Result<Counted, SourceError> {
        let ended_ns = clock::monotonic_ns();
        for event in self.all() {
            // Disabling fails for a CPU that has been switched off: its events are off already.
            let _ = perf::disable(event);
        }
        self.stop();
        let lost: Option<u64> = self.all().map(perf::lost).sum();
        let mut reader = lock(&self.reader);
        reader.until_ns = ended_ns;
        reader.drain(u64::MAX);
        let fold = &mut reader.fold;
        // Records of a loss are written with the next event, which may not come.
        fold.missed.lost = lost.unwrap_or(0).max(fold.missed.lost);
        for pid in fold.processes() {
            if let Some(path) = cgroup::path_of(&self.host, pid) {
                fold.place(pid, &Arc::from(path));
            }
        }
        let mut counted = fold.finish(ended_ns);
        let online = topology::online(&self.host).known().unwrap_or_default();
        let is_seen = |cpu: u32| reader.rings.iter().any(|(seen, _)| *seen == cpu);
        let unseen = online.iter().filter(|cpu| !is_seen(*cpu)).map(|cpu| {
            format!("CPU {cpu} was switched on meanwhile: what happened on it is not counted")
        });
        counted.lost.extend(unseen);
        Ok(counted)
    }
}

impl Perf {
    fn all(&self) -> impl Iterator<Item = &OwnedFd> {
        self.owners.iter().chain(&self.events)
    }

    fn start(&self) -> io::Result<Running> {
        let stop = eventfd()?;
        let stopped = stop.try_clone()?;
        let (owners, reader) = (Arc::clone(&self.owners), Arc::clone(&self.reader));
        let thread =
            std::thread::Builder::new().name("schedlab-perf".to_string()).spawn(move || {
                // Records that are not read in time are lost, and this thread sleeps except for one pass over the
                // rings.
                thread::serve_promptly();
                let mut waiter = Waiter::new(owners.iter().chain([&stopped]));
                while !waiter.wait() {
                    lock(&reader).drain(clock::monotonic_ns());
                }
            })?;
        Ok(Running { stop: File::from(stop), thread })
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // An eventfd takes this as long as nobody has written 2^64 to it.
            let _ = running.stop.write_all(&1u64.to_ne_bytes());
            let _ = running.thread.join();
        }
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A thread that panicked leaves a valid reader.
fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that lives, and its tasks.
fn meet(fold: &mut Fold, host: &Host, process: &Process) {
    let cgroup: Option<Arc<str>> = cgroup::path_of(host, process.pid).map(Arc::from);
    let mut one = |tid: i32, name: &str| {
        let kernel = process.is_kernel_thread;
        fold.meet(tid, process.pid, name.as_bytes(), kernel, cgroup.as_ref());
    };
    one(process.pid, &process.name);
    if process.threads < 2 {
        return;
    }
    let mut reader = TaskReader::new(host.clone());
    for tid in load::tids(host, process.pid).into_iter().filter(|tid| *tid != process.pid) {
        let identity = reader.identity(process.pid, tid);
        one(tid, identity.as_ref().map_or(&process.name, |task| &task.name));
    }
}

/// The rings, and the counts from them.
struct Reader {
    layout: Layout,
    rings: Vec<(u32, Ring)>,
    /// For each ring, events that are not counted yet, in the order of their times.
    queues: Vec<VecDeque<Event>>,
    buffer: Vec<u8>,
    fold: Fold,
    /// Counting ended then.
    until_ns: u64,
}

impl Reader {
    /// Takes over the records in the rings, and counts those older than `now_ns`, a moment before that.
    fn drain(&mut self, now_ns: u64) {
        for ((_, ring), queue) in self.rings.iter_mut().zip(&mut self.queues) {
            self.buffer.clear();
            ring.take(&mut self.buffer);
            self.fold.missed.unreadable +=
                self.layout.decode(&self.buffer, |event| queue.push_back(event));
        }
        let (fold, until_ns) = (&mut self.fold, self.until_ns);
        merge(&mut self.queues, now_ns.saturating_sub(SETTLED_NS), |event| {
            if event.at_ns <= until_ns {
                fold.event(event);
            }
        });
    }
}

/// Hands on events of all queues, the oldest first, until `horizon_ns`.
fn merge(queues: &mut [VecDeque<Event>], horizon_ns: u64, mut take: impl FnMut(&Event)) {
    // The next of each queue that has one: few CPUs are busy, and most of the time one goes on.
    let head = |queue: &VecDeque<Event>, at: usize| queue.front().map(|event| (event.at_ns, at));
    let mut heads: BTreeSet<(u64, usize)> =
        queues.iter().enumerate().filter_map(|(at, queue)| head(queue, at)).collect();
    while let Some((at_ns, at)) = heads.pop_first() {
        if at_ns > horizon_ns {
            return;
        }
        if let Some(event) = queues[at].pop_front() {
            take(&event);
        }
        heads.extend(head(&queues[at], at));
    }
}
