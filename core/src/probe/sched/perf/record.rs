//! From the bytes of perf records to events. Pure: where fields lie is asked of tracefs before.

use crate::probe::sched::error::FieldError;
use crate::sys::tracefs::{Field, Tracepoint};

/// Kinds of records, as the kernel numbers them.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const HEADER_BYTES: usize = 8;
/// Task, time and CPU, at the end of records that are not samples.
const TRAILER_BYTES: usize = 24;
/// In `common_flags` of a tracepoint: the CPU's work, if it was not running the task.
const IN_INTERRUPT: u8 = 0x08;
const IN_SOFT_INTERRUPT: u8 = 0x10;
const IN_NMI: u8 = 0x40;

/// A task's name with zeros behind it.
pub type Comm = [u8; 16];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub at_ns: u64,
    pub cpu: u32,
    /// The process and the task that ran there; -1 where the kernel no longer knows.
    pub pid: i32,
    pub tid: i32,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Switch {
        prev: i32,
        /// The tracepoint's state: 0, or a bit of its own where the task was preempted, can run.
        state: u64,
        next: i32,
        comm: Option<Comm>,
    },
    Waking {
        tid: i32,
        by_interrupt: bool,
    },
    /// A new task can run.
    New {
        tid: i32,
    },
    Migrate {
        tid: i32,
        from: u32,
        to: u32,
    },
    Fork {
        pid: i32,
        tid: i32,
        parent_pid: i32,
        parent_tid: i32,
    },
    Exit {
        tid: i32,
    },
    Renamed {
        tid: i32,
        comm: Comm,
    },
    /// The task of the event is running.
    Runs,
    /// Before this record there was no room for some.
    Lost {
        count: u64,
    },
}

/// The place of a number in a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    offset: usize,
    bytes: usize,
}

impl Number {
    fn find(
        tracepoint: &Tracepoint,
        of: &'static str,
        name: &'static str,
    ) -> Result<Number, FieldError> {
        match tracepoint.field(name) {
            Some(field) if matches!(field.bytes, 1 | 2 | 4 | 8) => {
                Ok(Number { offset: field.offset, bytes: field.bytes })
            }
            Some(&Field { bytes, .. }) => {
                Err(FieldError::Size { tracepoint: of, field: name, bytes })
            }
            None => Err(FieldError::None { tracepoint: of, field: name }),
        }
    }

    fn read(self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..self.offset + self.bytes)?;
        Some(match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }

    fn tid(self, raw: &[u8]) -> Option<i32> {
        Some(self.read(raw)? as u32 as i32)
    }
}

/// The tracepoints, and the fields that are read of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    kind: Number,
    flags: Number,
    switch: [Number; 3],
    comm: Option<usize>,
    waking: Number,
    new: Number,
    migrate: [Number; 3],
    /// Numbers of the four, in this order.
    ids: [u64; 4],
}

/// The tracepoints in the order of [`Layout::ids`].
pub const TRACEPOINTS: [&str; 4] =
    ["sched_switch", "sched_waking", "sched_wakeup_new", "sched_migrate_task"];

impl Layout {
    /// `found`: by [`TRACEPOINTS`].
    pub fn new(found: &[Tracepoint; 4]) -> Result<Layout, FieldError> {
        let number = |at: usize, name| Number::find(&found[at], TRACEPOINTS[at], name);
        let comm = found[0].field("next_comm").filter(|comm| comm.bytes == size_of::<Comm>());
        Ok(Layout {
            kind: number(0, "common_type")?,
            flags: number(1, "common_flags")?,
            switch: [number(0, "prev_pid")?, number(0, "prev_state")?, number(0, "next_pid")?],
            comm: comm.map(|comm| comm.offset),
            waking: number(1, "pid")?,
            new: number(2, "pid")?,
            migrate: [number(3, "pid")?, number(3, "orig_cpu")?, number(3, "dest_cpu")?],
            ids: std::array::from_fn(|at| found[at].id),
        })
    }

    pub fn ids(&self) -> [u64; 4] {
        self.ids
    }

    /// Decodes whole records. Returns how many were of an unknown kind or too short.
    pub fn decode(&self, mut bytes: &[u8], mut take: impl FnMut(Event)) -> u64 {
        let mut unknown = 0;
        while let Some((kind, size)) = header(bytes) {
            let (record, rest) = bytes.split_at(size);
            match self.event(kind, &record[HEADER_BYTES..]) {
                Some(event) => take(event),
                None => unknown += 1,
            }
            bytes = rest;
        }
        unknown + u64::from(!bytes.is_empty())
    }

    fn event(&self, kind: u32, body: &[u8]) -> Option<Event> {
        if kind == SAMPLE {
            let (who, raw) = (identity(body)?, body.get(TRAILER_BYTES..)?);
            let length = u32::from_ne_bytes(raw.get(..4)?.try_into().ok()?) as usize;
            let what = self.sample(raw.get(4..4 + length)?)?;
            return Some(Event { what, ..who });
        }
        let at = body.len().checked_sub(TRAILER_BYTES)?;
        let (body, trailer) = body.split_at(at);
        let number = |at: usize| Some(i32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
        let what = match kind {
            FORK => What::Fork {
                pid: number(0)?,
                parent_pid: number(4)?,
                tid: number(8)?,
                parent_tid: number(12)?,
            },
            EXIT => What::Exit { tid: number(8)? },
            COMM => What::Renamed { tid: number(4)?, comm: padded(body.get(8..)?) },
            LOST => What::Lost { count: u64::from_ne_bytes(body.get(8..16)?.try_into().ok()?) },
            _ => return None,
        };
        Some(Event { what, ..identity(trailer)? })
    }

    fn sample(&self, raw: &[u8]) -> Option<What> {
        let [switch, waking, new, migrate] = self.ids;
        let kind = match self.kind.read(raw).filter(|_| raw.len() > 4) {
            Some(kind) => kind,
            // The clock, which is not a tracepoint.
            None => return Some(What::Runs),
        };
        match kind {
            kind if kind == switch => Some(What::Switch {
                prev: self.switch[0].tid(raw)?,
                state: self.switch[1].read(raw)?,
                next: self.switch[2].tid(raw)?,
                comm: self.comm.and_then(|at| raw.get(at..at + 16)?.try_into().ok()),
            }),
            kind if kind == waking => Some(What::Waking {
                tid: self.waking.tid(raw)?,
                by_interrupt: self.flags.read(raw)? as u8
                    & (IN_INTERRUPT | IN_SOFT_INTERRUPT | IN_NMI)
                    != 0,
            }),
            kind if kind == new => Some(What::New { tid: self.new.tid(raw)? }),
            kind if kind == migrate => Some(What::Migrate {
                tid: self.migrate[0].tid(raw)?,
                from: self.migrate[1].read(raw)? as u32,
                to: self.migrate[2].read(raw)? as u32,
            }),
            _ => None,
        }
    }
}

/// The kind of the next record and its size, header included.
fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let size = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    (size >= HEADER_BYTES && size <= bytes.len()).then_some((kind, size))
}

/// Process, task, time, CPU.
fn identity(bytes: &[u8]) -> Option<Event> {
    let number = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let at_ns = u64::from_ne_bytes(bytes.get(8..16)?.try_into().ok()?);
    let (pid, tid, cpu) = (number(0)?, number(4)?, number(16)? as u32);
    Some(Event { at_ns, cpu, pid, tid, what: What::Runs })
}

/// A name up to its first NUL, at most as long as a task's.
pub fn padded(name: &[u8]) -> Comm {
    let mut comm = Comm::default();
    let bytes = name.iter().take_while(|byte| **byte != 0).take(comm.len() - 1);
    comm.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    comm
}
