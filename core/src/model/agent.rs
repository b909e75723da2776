//! Names, ports and messages that schedlab and its agent in a guest of the lab exchange. Plain data on the wire.

use serde::{Deserialize, Serialize};

use super::{CodeRange, Outcome, Reading, RunSpec, Topology, Window};

/// The version of [`GuestSpec`] and [`GuestMessage`], checked at both ends.
pub const GUEST_WIRE: u32 = 6;

/// The name by which a kernel starts this program as a guest's first process.
pub const GUEST_INIT: &str = "/schedlab-guest";

/// The variable in the environment of a guest's first process where the guest is a worker on Xen: a kernel makes it
/// of a word of its command line.
pub const XEN_GUEST: &str = "SCHEDLAB_XEN_GUEST";
/// The CPU that the first domain of Xen has to itself.
pub const FIRST_DOMAIN_CPU: u32 = 0;

/// The names under which the agent finds its [`GuestBoot`] and, later, its [`GuestSpec`] among
/// the machine's firmware files.
pub const GUEST_BOOT_FILE: &str = "opt/schedlab/boot";
pub const GUEST_SPEC_FILE: &str = "opt/schedlab/run";
/// A [`GuestSpec`] that a machine with clocks of its own executes before, without a result.
pub const GUEST_REHEARSAL_FILE: &str = "opt/schedlab/rehearsal";
/// An archive of the files that a run needs in addition to those that its machine was booted with; a machine has it where
/// there are some.
pub const GUEST_FILES_FILE: &str = "opt/schedlab/files";

/// The virtual time in which a scheduler forgets what was before: averages of load halve every 32 ms.
pub const GUEST_SETTLE_NS: u64 = 400_000_000;

/// The port that takes the guest's lines (the firmware's is 0x402), and the one that ends the machine.
pub const RESULTS_PORT: u16 = 0xe9;
pub const EXIT_PORT: u16 = 0x501;

/// The byte that the guest writes to the exit port, and the exit status that QEMU makes of it: no failure has this
/// status.
pub const EXIT_VALUE: u8 = 0x10;
pub const EXIT_CODE: i32 = 2 * EXIT_VALUE as i32 + 1;

/// The port of a device for kernels that panic: it stops the machine at this very instruction.
pub const STOP_PORT: u16 = 0x505;
pub const STOP_VALUE: u8 = 1;

/// Everything an agent needs to make its machine ready, as one JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestBoot {
    pub wire: u32,
    /// The time that one instruction should take by the guest's clock.
    pub instruction_ps: u64,
    /// Virtual time: the agent waits until boot work has died down, compares capacity with its expected value, and
    /// stops the machine, whose copies go on from there.
    pub is_virtual: bool,
    /// The guests that the first domain of Xen boots before it is ready.
    pub guests: Vec<GuestSize>,
}

/// The size of a guest of Xen, which is fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSize {
    pub memory_bytes: u64,
    pub cpus: u32,
}

/// Everything an agent needs to execute the run, as a second document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestSpec {
    pub wire: u32,
    /// Without the knobs that the machine was booted with.
    pub run: RunSpec,
    /// Slept before the run begins, to shift it against the kernel's ticks.
    pub offset_ns: u64,
}

/// The messages of a guest, one line of JSON each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GuestMessage {
    /// The kernel has started its first process.
    Started,
    /// The kernel is up and quiet.
    Ready(Box<GuestFacts>),
    Window(Window),
    /// The last line.
    Ended {
        outcome: Outcome,
    },
}

/// The guest as its agent finds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestFacts {
    pub wire: u32,
    pub kernel_release: String,
    pub kernel_version: String,
    /// The scheduler of ordinary tasks, before the knobs of a run.
    pub scheduler: Reading<String>,
    /// The topology that the guest's kernel sees. It must be the one that was asked for.
    pub topology: Topology,
    /// How many sockets its kernel sees.
    #[serde(default)]
    pub sockets: Option<u32>,
    /// The largest distance between two NUMA nodes that its kernel sees.
    #[serde(default)]
    pub node_distance: Option<u32>,
    /// Virtual time since the kernel began, at the end of the wait for quiet.
    pub quiet_at_ns: u64,
    /// The instructions per nanosecond that one CPU has while the others are idle, as a ratio to the expected
    /// number: 1 is exact.
    pub capacity: Reading<f64>,
    /// How exactly timers go off: a nanosecond, or a tick; 0: not known.
    pub timer_resolution_ns: u64,
    /// The code of kernel/sched, or the parts of it that are known.
    #[serde(default)]
    pub sched_code: Vec<CodeRange>,
}
