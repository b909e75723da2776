//! Real kernels in QEMU under virtual time: each run is a guest of its own, a copy of a machine
//! that was booted once and stopped when it was quiet.
//!
//! Guests cannot disturb each other, so as many run at once as the host has CPUs: announced runs
//! are started in order, and [`Backend::run`] waits for its own. An exact run is not made again.
//! How a guest is made: docs/lab.md.

pub mod checkup;
mod console;
mod emulator;
mod error;
mod failed;
mod files;
mod guest;
mod guests;
mod initrd;
pub mod kernel;
mod kvm;
mod lockstep;
mod machine;
mod qmp;
mod results;
mod run_queue;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::model::{
    Cell, CpuSet, Environment, Guest, GuestFacts, GuestKernel, GuestTime, Lab as LabTable, Outcome,
    Reading, RunEnd, RunSpec, Topology, Window,
};

use super::{Backend, BackendConfig, BackendError, Capabilities, Entry};
use error::{GuestError, Mismatch};
use guest::GuestOutput;
use guests::{GuestManager, Measured};
use machine::Time;
use run_queue::RunQueue;

pub use error::LabError;

pub const ENTRY: Entry = Entry {
    name: "lab",
    about: "real kernels in QEMU under virtual time: the same to the last bit",
    capabilities: Capabilities {
        virtual_time: true,
        own_kernels: true,
        guests: true,
        ..Capabilities::NONE
    },
    make: |config| Ok(Box::new(Lab::new(config)?)),
};

/// The knobs that a machine is booted with. Its agent does not see them.
const KERNEL: &str = "kernel";
const KERNEL_ARGUMENTS: &str = "kernel-args";

/// Letters of a kernel's digest in reports: enough to distinguish two builds of a release, and short
/// enough for a mail.
const DIGEST_LETTERS: usize = 12;

pub struct Lab {
    table: LabTable,
    guests: Arc<GuestManager>,
    queue: RunQueue,
}

impl Lab {
    pub fn new(config: &BackendConfig) -> Result<Lab, LabError> {
        let guests = Arc::new(GuestManager::open(config)?);
        let manager = Arc::clone(&guests);
        let queue = RunQueue::start(Box::new(move |spec, cancel| manager.measure(spec, cancel)));
        Ok(Lab { table: config.lab.clone(), guests, queue })
    }
}

impl Backend for Lab {
    fn environment(&self) -> Environment {
        environment(&self.table, self.guests.time(), self.guests.emulator())
    }

    fn prepare(&self, cells: &[Cell]) -> Result<(), BackendError> {
        Ok(self.guests.check_kernels(cells)?)
    }

    fn check(&self, cell: &Cell) -> Result<(), BackendError> {
        Ok(self.guests.check(cell)?)
    }

    fn announce(&mut self, specs: Vec<RunSpec>) {
        self.queue.add(specs);
    }

    fn run(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> RunEnd {
        let Measured { output, asked } = match self.queue.wait(spec, cancel) {
            Ok(measured) => measured,
            Err(GuestError::Cancelled) => return RunEnd::Interrupted,
            Err(error) => {
                return RunEnd::Finished(Outcome::Failed { reason: error.to_string() });
            }
        };
        let GuestOutput { facts, windows, outcome, .. } = output;
        windows.into_iter().for_each(on_window);
        RunEnd::Finished(match (outcome, facts) {
            (Outcome::Done { mut result }, Some(facts)) => {
                result.guest = Some(of_guest(&asked, &facts));
                Outcome::Done { result }
            }
            (outcome, _) => outcome,
        })
    }
}

/// What was asked of a guest's machine.
#[derive(Debug, Clone)]
pub struct Asked {
    pub time: GuestTime,
    /// SHA-256 of image, configuration and modules, in hexadecimal.
    pub kernel_digest: String,
    /// Of the package that the kernel came in.
    pub package_version: Option<String>,
}

/// No kernel has timers between those that are programmed one by one and those of its ticks.
const COARSE_TIMERS_NS: u64 = 100_000;

fn of_guest(asked: &Asked, facts: &GuestFacts) -> Guest {
    let capacity = match asked.time {
        GuestTime::Real => Reading::Unknown("it is measured in virtual time only".to_string()),
        GuestTime::Exact | GuestTime::NotExact(_) => facts.capacity.clone(),
    };
    let resolution_ns = Some(facts.timer_resolution_ns);
    Guest {
        kernel: GuestKernel {
            release: Some(facts.kernel_release.clone()),
            version: asked.package_version.clone(),
            digest: Some(asked.kernel_digest.chars().take(DIGEST_LETTERS).collect()),
        },
        time: asked.time.clone(),
        capacity,
        coarse_timers_ns: resolution_ns.filter(|ns| *ns > COARSE_TIMERS_NS),
    }
}

/// Whether a guest's kernel found the machine that was configured. A kernel may leave parts out.
fn mismatch(lab: &LabTable, found: &Topology) -> Result<(), Mismatch> {
    let asked = topology(lab);
    let cpus = |cpus: &CpuSet| vec![cpus.clone()];
    let parts = [
        ("CPUs", cpus(&asked.online), cpus(&found.online)),
        ("cores", asked.cores, found.cores.clone()),
        ("last-level caches", asked.llcs, found.llcs.clone()),
        ("NUMA nodes", asked.numa_nodes, found.numa_nodes.clone()),
    ];
    let mut parts = parts.into_iter();
    match parts.find(|(_, asked, found)| !found.is_empty() && asked != found) {
        Some((what, asked, found)) => Err(Mismatch { what, asked, found }),
        None => Ok(()),
    }
}

/// A guest's machine, with any kernel.
fn environment(lab: &LabTable, time: Time, emulator: &str) -> Environment {
    let unknown = || Reading::Unknown("a lab guest: it has none".to_string());
    let clock = match time {
        Time::Virtual => format!("{} ns an instruction", lab.instruction_ns),
        Time::Real { kvm: true } => "KVM, real time".to_string(),
        Time::Real { kvm: false } => "emulated, real time".to_string(),
    };
    Environment {
        hostname: "lab".to_string(),
        cpu_model: Reading::Known(format!("{emulator}, {clock}")),
        topology: topology(lab),
        memory_bytes: Reading::Known(lab.memory_bytes),
        kernel_release: "of each variant".to_string(),
        kernel_version: String::new(),
        kernel_cmdline: unknown(),
        // Each guest is a copy of one and the same boot.
        boot_id: Reading::Known("lab".to_string()),
        virtualisation: Reading::Known("qemu".to_string()),
        cgroup_mode: "v2".to_string(),
        clock_source: Reading::Known("tsc".to_string()),
        smt: Reading::Known("off".to_string()),
        governor: unknown(),
        turbo: unknown(),
        load_average: unknown(),
        mitigations: Default::default(),
        tunables: Default::default(),
    }
}

fn topology(lab: &LabTable) -> Topology {
    let range = |first: u32, count: u32| (first..first + count).collect();
    let parts = |parts: u32| -> Vec<CpuSet> {
        let each = lab.cpus / parts;
        (0..parts).map(|part| range(part * each, each)).collect()
    };
    Topology {
        online: range(0, lab.cpus),
        allowed: range(0, lab.cpus),
        llcs: parts(lab.llcs),
        numa_nodes: parts(lab.nodes),
        cores: parts(lab.cpus),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{Placement, Variant, WIRE_VERSION, Work};

    /// A run of a variant of this name with this seed.
    pub fn spec(variant: &str, seed: u64) -> RunSpec {
        RunSpec {
            wire: WIRE_VERSION,
            cell: Cell {
                index: 3,
                variant: Variant { name: variant.to_string(), knobs: Default::default() },
                work: Work { name: "w".to_string(), axes: Vec::new(), sets: Vec::new() },
                placement: Placement::default(),
            },
            warmup_ns: 1_000_000_000,
            duration_ns: 2_000_000_000,
            window_ns: 500_000_000,
            probes: Vec::new(),
            limit_ns: 33_000_000_000,
            seed,
        }
    }

    #[test]
    fn a_guest_has_its_kernel_its_time_and_timers_where_they_are_coarse() {
        let mut facts = GuestFacts {
            wire: 1,
            kernel_release: "6.12".to_string(),
            kernel_version: String::new(),
            topology: topology(&LabTable::default()),
            quiet_at_ns: 0,
            capacity: Reading::Known(0.99),
            timer_resolution_ns: 1,
        };
        let asked = Asked {
            time: GuestTime::Exact,
            kernel_digest: "0123456789abcdef".to_string(),
            package_version: None,
        };
        let guest = of_guest(&asked, &facts);
        assert_eq!(guest.coarse_timers_ns, None);
        assert_eq!(guest.capacity, Reading::Known(0.99));
        assert_eq!(guest.kernel.to_string(), "6.12 (digest 0123456789ab)");
        facts.timer_resolution_ns = 4_000_000;
        let real = of_guest(&Asked { time: GuestTime::Real, ..asked }, &facts);
        assert_eq!(real.coarse_timers_ns, Some(4_000_000));
        assert!(matches!(real.capacity, Reading::Unknown(_)), "{:?}", real.capacity);
    }

    #[test]
    fn a_guest_on_another_machine_is_noticed() {
        let lab = LabTable { cpus: 8, sockets: 2, llcs: 4, nodes: 2, ..LabTable::default() };
        let sound = topology(&lab);
        let shown = |groups: &[CpuSet]| groups.iter().map(CpuSet::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&sound.llcs), ["0-1", "2-3", "4-5", "6-7"]);
        assert_eq!(shown(&sound.numa_nodes), ["0-3", "4-7"]);
        assert_eq!(mismatch(&lab, &sound), Ok(()));
        let unknown = Topology { llcs: Vec::new(), numa_nodes: Vec::new(), ..sound.clone() };
        assert_eq!(mismatch(&lab, &unknown), Ok(()), "unknown is no difference");
        let other = Topology { llcs: sound.numa_nodes.clone(), ..sound.clone() };
        let text = |found: &Topology| mismatch(&lab, found).unwrap_err().to_string();
        assert_eq!(
            text(&other),
            "the guest's last-level caches are 0-3 | 4-7, asked for 0-1 | 2-3 | 4-5 | 6-7"
        );
        let fewer = Topology { online: (0..7).collect(), ..sound.clone() };
        assert_eq!(text(&fewer), "the guest's CPUs are 0-6, asked for 0-7");
        let nodes = Topology { numa_nodes: sound.llcs.clone(), ..sound.clone() };
        assert!(text(&nodes).contains("NUMA nodes"));
        let cores = Topology { cores: sound.llcs.clone(), ..sound };
        assert!(text(&cores).contains("cores"));
    }
}
