//! A trace in Perfetto's format: a protocol buffer of packets, with ftrace's events one by one or in compact arrays.
//!
//! Input: the bytes of the file. Pure. Only what is used of the messages is here, as numbers of their fields in
//! Perfetto's public definition (protos/perfetto/trace); those never change their meaning.

use std::collections::BTreeMap;

use crate::compat::CompatError;
use crate::model::protobuf::{self, Broken, Fields, Wire, numbers, packed};
use crate::model::{Left, TraceEvent, TraceTask, TraceWhat, Waker};

use super::seen::{ForeignTrace, MAX_EVENTS, RECORD, Seen, priority};

/// A task that the events do not name: the one that its CPU ran before.
const BEFORE: i32 = i32::MIN;
/// The parent of all kernel threads.
const KTHREADD: u64 = 2;
/// Names of one packet: Perfetto begins a new table long before.
const MAX_NAMES: usize = 1 << 16;
/// Flags of ftrace: a hard or a soft interrupt, or an NMI.
const IN_INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

pub fn read(bytes: &[u8]) -> Result<ForeignTrace, CompatError> {
    let mut reader = Reader::default();
    let mut is_cut_off = false;
    for field in Fields::new(bytes) {
        match field {
            Ok((1, Wire::Bytes(packet))) => reader.packet(packet).map_err(Fault::error)?,
            // The beginning of a packet, or of a file of another kind.
            Err(Broken) if reader.packets > 0 => is_cut_off = true,
            _ => return Err(Fault::Foreign.error()),
        }
    }
    reader.finish(is_cut_off)
}

enum Fault {
    Foreign,
    Broken,
    Compressed,
    Lost,
    TooMany,
}

impl From<Broken> for Fault {
    fn from(_: Broken) -> Fault {
        Fault::Broken
    }
}

impl Fault {
    fn error(self) -> CompatError {
        let (text, hint) = match self {
            Fault::Foreign => ("the file is neither text nor a trace of Perfetto", RECORD),
            Fault::Broken => {
                ("a packet of the file is broken", "record it again, or copy it again")
            }
            Fault::Compressed => (
                "its packets are compressed",
                "record it without compression_type in the configuration",
            ),
            Fault::Lost => {
                ("events were lost", "a larger buffer: ftrace_config { buffer_size_kb: 65536 }")
            }
            Fault::TooMany => {
                ("it has more than 4 million switches and wakeups", "a shorter trace")
            }
        };
        CompatError::usage(text, hint)
    }
}

#[derive(Default)]
struct Reader {
    seen: Seen,
    packets: u64,
    /// The processes of threads.
    processes: BTreeMap<i32, i32>,
    kernel_threads: Vec<i32>,
    knows_interrupts: bool,
}

impl Reader {
    fn packet(&mut self, packet: &[u8]) -> Result<(), Fault> {
        self.packets += 1;
        for field in Fields::new(packet) {
            match field? {
                (1, Wire::Bytes(bundle)) => self.bundle(bundle)?,
                (2, Wire::Bytes(tree)) => self.tree(tree)?,
                (50, _) => return Err(Fault::Compressed),
                _ => {}
            }
        }
        Ok(())
    }

    /// `ProcessTree`.
    fn tree(&mut self, tree: &[u8]) -> Result<(), Fault> {
        for field in Fields::new(tree) {
            match field? {
                (1, Wire::Bytes(process)) => {
                    let process = numbers(process)?;
                    if process.get(&2) == Some(&KTHREADD) {
                        self.kernel_threads.push(int(&process, 1));
                    }
                }
                (2, Wire::Bytes(thread)) => {
                    let thread = numbers(thread)?;
                    self.processes.insert(int(&thread, 1), int(&thread, 3));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `FtraceEventBundle`.
    fn bundle(&mut self, bundle: &[u8]) -> Result<(), Fault> {
        let fields = numbers(bundle)?;
        if fields.get(&3).is_some_and(|lost| *lost != 0) {
            return Err(Fault::Lost);
        }
        let cpu = int(&fields, 1).unsigned_abs();
        for field in Fields::new(bundle) {
            match field? {
                (2, Wire::Bytes(event)) => self.event(event, cpu)?,
                (4, Wire::Bytes(compact)) => self.compact(compact, cpu)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// `FtraceEvent`: a switch, a wakeup or the first wakeup of a new task.
    fn event(&mut self, event: &[u8], cpu: u32) -> Result<(), Fault> {
        let header = numbers(event)?;
        for field in Fields::new(event) {
            let what = match field? {
                (4, Wire::Bytes(switch)) => {
                    let fields = numbers(switch)?;
                    let left_prio = fields.get(&3).map(|prio| priority(*prio as i32));
                    let prio = priority(int(&fields, 7));
                    let from = self.seen.task(int(&fields, 2), &name(switch, 1)?, left_prio);
                    let to = self.seen.task(int(&fields, 6), &name(switch, 5)?, Some(prio));
                    let left = left(fields.get(&4).copied().unwrap_or_default());
                    TraceWhat::Switch { from, left, to, prio }
                }
                (number @ (20 | 114), Wire::Bytes(waking)) => {
                    self.seen.has_waking |= number == 20;
                    let fields = numbers(waking)?;
                    let prio = priority(int(&fields, 3));
                    let task = self.seen.task(int(&fields, 2), &name(waking, 1)?, Some(prio));
                    let waker = int(&header, 2);
                    let by = if waker == 0 { Waker::Interrupt } else { Waker::Task(waker) };
                    let last_cpu = int(&fields, 5).unsigned_abs();
                    TraceWhat::Waking { by, task, prio, last_cpu, is_sync: false }
                }
                _ => continue,
            };
            self.push(*header.get(&1).ok_or(Fault::Broken)?, cpu, what)?;
        }
        Ok(())
    }

    /// `CompactSched`: arrays, a value for each event, of switches and of wakeups. Times are differences.
    fn compact(&mut self, compact: &[u8], cpu: u32) -> Result<(), Fault> {
        let mut names: Vec<String> = Vec::new();
        let mut arrays: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for field in Fields::new(compact) {
            match field? {
                (5, Wire::Bytes(name)) if names.len() < MAX_NAMES => {
                    names.push(String::from_utf8_lossy(name).into_owned());
                }
                (field @ (1..=4 | 6..=12), Wire::Bytes(bytes)) => {
                    extend(arrays.entry(field).or_default(), packed(bytes))?;
                }
                (field @ (1..=4 | 6..=12), Wire::Number(number)) => {
                    extend(arrays.entry(field).or_default(), [Ok(number)])?;
                }
                _ => {}
            }
        }
        let array = |field: u64| arrays.get(&field).map_or(&[][..], Vec::as_slice);
        let value = |field: u64, at: usize| array(field).get(at).copied().ok_or(Fault::Broken);
        let named = |field: u64, at: usize| {
            names.get(value(field, at)? as usize).map(String::as_str).ok_or(Fault::Broken)
        };
        let before = TraceTask { tid: BEFORE, name: None };
        let mut at_ns = 0_u64;
        for (at, delta) in array(1).iter().enumerate() {
            at_ns = at_ns.wrapping_add(*delta);
            let (left, prio) = (left(value(2, at)?), priority(value(4, at)? as i32));
            let to = self.seen.task(value(3, at)? as i32, named(6, at)?, Some(prio));
            self.push(at_ns, cpu, TraceWhat::Switch { from: before, left, to, prio })?;
        }
        self.seen.has_waking |= !array(7).is_empty();
        at_ns = 0;
        for (at, delta) in array(7).iter().enumerate() {
            at_ns = at_ns.wrapping_add(*delta);
            let (last_cpu, prio) = (value(9, at)? as u32, priority(value(10, at)? as i32));
            let task = self.seen.task(value(8, at)? as i32, named(11, at)?, Some(prio));
            let flags = array(12).get(at);
            self.knows_interrupts |= flags.is_some();
            let is_interrupt = flags.is_some_and(|flags| flags & IN_INTERRUPT != 0);
            let by = if is_interrupt { Waker::Interrupt } else { Waker::Task(BEFORE) };
            self.push(at_ns, cpu, TraceWhat::Waking { by, task, prio, last_cpu, is_sync: false })?;
        }
        Ok(())
    }

    fn push(&mut self, at_ns: u64, cpu: u32, what: TraceWhat) -> Result<(), Fault> {
        if self.seen.events.len() >= MAX_EVENTS {
            return Err(Fault::TooMany);
        }
        self.seen.events.push(TraceEvent { at_ns, cpu, what });
        Ok(())
    }

    /// Fills in the tasks that compact events do not name.
    fn finish(mut self, is_cut_off: bool) -> Result<ForeignTrace, CompatError> {
        // Each CPU has packets of its own.
        self.seen.events.sort_by_key(|event| event.at_ns);
        let mut runs: BTreeMap<u32, TraceTask> = BTreeMap::new();
        for event in &mut self.seen.events {
            let before = runs.get(&event.cpu).copied();
            match &mut event.what {
                TraceWhat::Switch { from, to, .. } => {
                    if let Some(before) = before.filter(|_| from.tid == BEFORE) {
                        *from = before;
                    }
                    runs.insert(event.cpu, *to);
                }
                TraceWhat::Waking { by, .. } if *by == Waker::Task(BEFORE) => {
                    let waker = before.filter(|before| before.tid != 0);
                    *by = waker.map_or(Waker::Interrupt, |waker| Waker::Task(waker.tid));
                }
                // Waker 0 is the idle task, or, in traces of this program, an interrupt whoever it hit.
                TraceWhat::Waking { by: Waker::Interrupt, .. } => {
                    self.knows_interrupts |= before.is_some_and(|before| before.tid > 0);
                }
                _ => {}
            }
        }
        self.processes.iter().for_each(|(tid, pid)| self.seen.process(*tid, *pid));
        self.kernel_threads.iter().for_each(|tid| self.seen.kernel_thread(*tid));
        self.seen.finish(self.knows_interrupts, is_cut_off)
    }
}

fn int(fields: &BTreeMap<u64, u64>, field: u64) -> i32 {
    fields.get(&field).copied().unwrap_or_default() as i32
}

fn extend(
    array: &mut Vec<u64>,
    numbers: impl IntoIterator<Item = Result<u64, Broken>>,
) -> Result<(), Fault> {
    for number in numbers {
        if array.len() >= MAX_EVENTS {
            return Err(Fault::TooMany);
        }
        array.push(number?);
    }
    Ok(())
}

fn name(message: &[u8], field: u64) -> Result<String, Broken> {
    let name = protobuf::bytes(message, field)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The state as ftrace has it since Linux 4.14.
fn left(state: u64) -> Left {
    let states = [
        (0x30, Left::Dead),
        (0x40, Left::Parked),
        (0x80, Left::Idle),
        (0x08, Left::Traced),
        (0x04, Left::Stopped),
        (0x02, Left::Uninterruptible),
        (0x01, Left::Sleeping),
        (!0xff, Left::Preempted),
    ];
    let found = states.into_iter().find(|(bits, _)| state & bits != 0);
    found.map_or(Left::Runnable, |(_, left)| left)
}
