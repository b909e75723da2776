//! Events of the kernel's perf subsystem.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::descriptor;

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_CACHE: u32 = 3;
const SOFTWARE_CPU_CLOCK: u64 = 0;
/// In the event of a cache: reads that miss.
const READ_MISS: u64 = 1 << 16;
const FLAG_CLOEXEC: u64 = 8;
const READ_ENABLED: u64 = 1;
const READ_RUNNING: u64 = 1 << 1;
const FLAG_INHERIT: u64 = 1 << 1;
/// The third published size, which every kernel of today knows.
const ATTRIBUTES_BYTES: u32 = size_of::<Attributes>() as u32;

/// The kernel's `perf_event_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    /// Events, or bytes with the flag for a watermark.
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
}

/// An event that fires on a CPU each `period_ns`, whatever runs there, idle included.
pub fn sample_cpu_clock(cpu: u32, period_ns: u64) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: TYPE_SOFTWARE,
        size: ATTRIBUTES_BYTES,
        config: SOFTWARE_CPU_CLOCK,
        sample_period: period_ns,
        ..Attributes::default()
    };
    open(&attributes, -1, cpu as i32)
}

/// An event that can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Countable {
    kind: u32,
    config: u64,
}

impl Countable {
    pub const CYCLES: Countable = Countable { kind: TYPE_HARDWARE, config: 0 };
    pub const INSTRUCTIONS: Countable = Countable { kind: TYPE_HARDWARE, config: 1 };
    /// References to the last-level cache, on nearly all CPUs.
    pub const CACHE_REFERENCES: Countable = Countable { kind: TYPE_HARDWARE, config: 2 };
    pub const CACHE_MISSES: Countable = Countable { kind: TYPE_HARDWARE, config: 3 };
    pub const BRANCHES: Countable = Countable { kind: TYPE_HARDWARE, config: 4 };
    pub const BRANCH_MISSES: Countable = Countable { kind: TYPE_HARDWARE, config: 5 };
    pub const DTLB_MISSES: Countable = Countable { kind: TYPE_CACHE, config: 3 | READ_MISS };
    pub const ITLB_MISSES: Countable = Countable { kind: TYPE_CACHE, config: 4 | READ_MISS };
    pub const PAGE_FAULTS: Countable = Countable { kind: TYPE_SOFTWARE, config: 2 };
    pub const CONTEXT_SWITCHES: Countable = Countable { kind: TYPE_SOFTWARE, config: 3 };
    pub const CPU_MIGRATIONS: Countable = Countable { kind: TYPE_SOFTWARE, config: 4 };

    /// An event of the unit with the number `kind` in /sys/bus/event_source/devices.
    pub const fn of_unit(kind: u32, config: u64) -> Countable {
        Countable { kind, config }
    }

    /// Counted by the CPU, not by the kernel.
    pub fn is_hardware(self) -> bool {
        self.kind != TYPE_SOFTWARE
    }

    /// On the CPUs of this unit alone: a machine may have CPUs of several kinds.
    pub fn on_cpus_of(self, unit: u32) -> Countable {
        Countable { config: self.config | u64::from(unit) << 32, ..self }
    }
}

/// Counts from when it is opened, in the kernel, too. The counter of a task is stored and loaded where the task is
/// switched.
pub struct Counter(OwnedFd);

/// The count so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub value: u64,
    /// So long it was to be counted: of a task, while it was on a CPU.
    pub enabled_ns: u64,
    /// And so long it was: a CPU has few counters, which events take in turns.
    pub running_ns: u64,
}

impl Count {
    pub fn since(&self, earlier: &Count) -> Count {
        let Count { value, enabled_ns, running_ns } = earlier;
        Count {
            value: self.value.saturating_sub(*value),
            enabled_ns: self.enabled_ns.saturating_sub(*enabled_ns),
            running_ns: self.running_ns.saturating_sub(*running_ns),
        }
    }

    pub fn plus(&self, other: &Count) -> Count {
        Count {
            value: self.value + other.value,
            enabled_ns: self.enabled_ns + other.enabled_ns,
            running_ns: self.running_ns + other.running_ns,
        }
    }
}

/// The place where events are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A task, 0 for the calling one, and all that it starts from now on.
    Task(i32),
    /// A CPU, whatever runs there.
    Cpu(u32),
}

impl Counter {
    pub fn open(what: Countable, place: Place) -> io::Result<Counter> {
        let (flags, tid, cpu) = match place {
            Place::Task(tid) => (FLAG_INHERIT, tid, -1),
            Place::Cpu(cpu) => (0, -1, cpu as i32),
        };
        let attributes = Attributes {
            kind: what.kind,
            size: ATTRIBUTES_BYTES,
            config: what.config,
            read_format: READ_ENABLED | READ_RUNNING,
            flags,
            ..Attributes::default()
        };
        open(&attributes, tid, cpu).map(Counter)
    }

    pub fn read(&self) -> io::Result<Count> {
        let mut numbers = [0u64; 3];
        let bytes = size_of_val(&numbers);
        // SAFETY: the descriptor is open, and the kernel writes at most so many bytes.
        let read = unsafe { libc::read(self.0.as_raw_fd(), numbers.as_mut_ptr().cast(), bytes) };
        match read {
            read if read == bytes as isize => {
                let [value, enabled_ns, running_ns] = numbers;
                Ok(Count { value, enabled_ns, running_ns })
            }
            0.. => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn open(attributes: &Attributes, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    const NO_GROUP: i32 = -1;
    // SAFETY: the attributes are valid for the size that they carry, and the descriptor is new.
    unsafe {
        let call = libc::SYS_perf_event_open;
        descriptor(libc::syscall(call, attributes, pid, cpu, NO_GROUP, FLAG_CLOEXEC))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_size_of_the_kernels_third_version() {
        assert_eq!(ATTRIBUTES_BYTES, 96, "PERF_ATTR_SIZE_VER3");
    }

    #[test]
    fn events_have_the_numbers_of_the_kernel() {
        let numbers = |what: Countable| (what.kind, what.config);
        assert_eq!(numbers(Countable::DTLB_MISSES), (3, 0x1_0003), "L1 and LL come before");
        assert_eq!(numbers(Countable::ITLB_MISSES), (3, 0x1_0004));
        assert_eq!(numbers(Countable::CYCLES.on_cpus_of(10)), (0, 0xa_0000_0000));
        assert!(Countable::CACHE_MISSES.is_hardware() && Countable::DTLB_MISSES.is_hardware());
        assert!(!Countable::PAGE_FAULTS.is_hardware());
    }
}
