//! What the machines of the lab are like. Plain data.

use serde::{Deserialize, Serialize};

/// The machine of every guest of a plan: `[lab]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredLab")]
pub struct Lab {
    /// Of variants that name none.
    pub kernel: String,
    pub cpus: u32,
    pub sockets: u32,
    /// Last-level caches of the whole machine.
    pub llcs: u32,
    pub nodes: u32,
    pub memory_bytes: u64,
    /// Virtual time that an instruction takes; of one shared clock a power of two in nanoseconds.
    pub instruction_ps: u32,
    pub clocks: CpuClocks,
    /// How far a CPU may run ahead of the next one.
    pub skew_ns: u32,
    /// Work that is given as a time is executed, too: on a shared clock always.
    pub executed: bool,
    /// Trajectories of each cell.
    pub seeds: u32,
    /// By the host's clock: what is asked on the command line, as it is no property of a plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub realtime: bool,
}

/// By what the virtual CPUs of a guest know the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuClocks {
    /// Each has a clock of its own and runs at its full speed.
    #[default]
    Own,
    /// The instructions of all are counted together: each of N busy ones has 1/N of the speed.
    Shared,
}

impl CpuClocks {
    pub const WORDS: &[&str] = &["own", "shared"];
}

/// As plans are stored: those before clocks of their own have whole nanoseconds and one clock.
#[derive(Deserialize)]
struct StoredLab {
    kernel: String,
    cpus: u32,
    sockets: u32,
    llcs: u32,
    nodes: u32,
    memory_bytes: u64,
    instruction_ns: Option<u32>,
    #[serde(default)]
    slow_clock: bool,
    instruction_ps: Option<u32>,
    clocks: Option<CpuClocks>,
    #[serde(default)]
    skew_ns: u32,
    #[serde(default)]
    executed: bool,
    seeds: u32,
    #[serde(default)]
    realtime: bool,
}

impl From<StoredLab> for Lab {
    fn from(stored: StoredLab) -> Lab {
        let StoredLab { kernel, cpus, sockets, llcs, nodes, memory_bytes, .. } = stored;
        // What a slow clock divided, an instruction's time does.
        let slower = if stored.slow_clock { cpus.max(1) } else { 1 };
        let stored_ps = stored.instruction_ns.map(|ns| ns.saturating_mul(1000) / slower);
        Lab {
            kernel,
            cpus,
            sockets,
            llcs,
            nodes,
            memory_bytes,
            instruction_ps: stored.instruction_ps.or(stored_ps).unwrap_or_default(),
            clocks: stored.clocks.unwrap_or(CpuClocks::Shared),
            skew_ns: stored.skew_ns,
            executed: stored.executed || stored.clocks.is_none(),
            seeds: stored.seeds,
            realtime: stored.realtime,
        }
    }
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
            instruction_ps: 500,
            clocks: CpuClocks::Own,
            skew_ns: 500,
            executed: false,
            seeds: 8,
            realtime: false,
        }
    }
}

impl Lab {
    pub fn is_default(&self) -> bool {
        *self == Lab::default()
    }

    /// The nearest machine whose virtual CPUs share one clock.
    pub fn with_shared_clock(&self) -> Lab {
        let instruction_ps = self.instruction_ps.next_multiple_of(1000);
        let instruction_ps = (instruction_ps / 1000).next_power_of_two() * 1000;
        Lab { clocks: CpuClocks::Shared, instruction_ps, executed: true, ..self.clone() }
    }

    /// What one instruction takes, in nanoseconds.
    pub fn instruction_ns(&self) -> f64 {
        f64::from(self.instruction_ps) / 1e3
    }
}
