//! What the machines of the lab are like. Plain data.

use serde::{Deserialize, Serialize};

/// The machine of every guest of a plan: `[lab]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lab {
    /// Of variants that name none.
    pub kernel: String,
    pub cpus: u32,
    pub sockets: u32,
    /// Last-level caches of the whole machine.
    pub llcs: u32,
    pub nodes: u32,
    pub memory_bytes: u64,
    /// Virtual nanoseconds that an instruction takes: a power of two.
    pub instruction_ns: u32,
    /// The guests' clock runs as many times slower as there are CPUs, so that each has the speed
    /// of a machine of one.
    pub slow_clock: bool,
    /// Trajectories of each cell.
    pub seeds: u32,
    /// By the host's clock: what is asked on the command line, as it is no property of a plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub realtime: bool,
}

impl Default for Lab {
    fn default() -> Self {
        Lab {
            kernel: "debian:6.18".to_string(),
            cpus: 4,
            sockets: 1,
            llcs: 1,
            nodes: 1,
            memory_bytes: 512 << 20,
            instruction_ns: 2,
            slow_clock: false,
            seeds: 8,
            realtime: false,
        }
    }
}

impl Lab {
    pub fn is_default(&self) -> bool {
        *self == Lab::default()
    }

    /// What one instruction takes by the clock of a guest, in millionths of a nanosecond.
    pub fn instruction_fs(&self) -> u64 {
        let slower = if self.slow_clock { u64::from(self.cpus) } else { 1 };
        u64::from(self.instruction_ns) * 1_000_000 / slower
    }
}
