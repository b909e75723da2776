//! Real kernels in QEMU under virtual time: each run is a guest of its own, a copy of a machine
//! that was booted once and stopped when it was quiet.
//!
//! Guests cannot touch each other's numbers, so as many are at work as the host has CPUs: runs
//! that are announced are begun in order, and [`Backend::run`] waits for its own. A guest that
//! was asked the same before is not asked again. How a guest is made: docs/lab.md.

pub mod checkup;
mod console;
mod emulator;
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

use super::{Ask, Backend};
use guest::Said;
use guests::{Answer, GuestManager};
use machine::Time;
use run_queue::RunQueue;

/// The knobs that a machine is booted with, and that its agent does not see.
const KERNEL: &str = "kernel";
const KERNEL_ARGUMENTS: &str = "kernel-args";

/// Of a kernel's digest: enough to distinguish two builds of a release, and short enough for a
/// mail.
const DIGEST_LETTERS: usize = 12;

pub struct Lab {
    table: LabTable,
    workshop: Arc<GuestManager>,
    offers: RunQueue,
}

impl Lab {
    pub fn new(ask: &Ask) -> Result<Lab, String> {
        let workshop = Arc::new(GuestManager::open(ask)?);
        let asked = Arc::clone(&workshop);
        let offers = RunQueue::begin(Box::new(move |spec, cancel| asked.answer(spec, cancel)));
        Ok(Lab { table: ask.lab.clone(), workshop, offers })
    }
}

impl Backend for Lab {
    fn environment(&self) -> Environment {
        environment(&self.table, self.workshop.time(), self.workshop.emulator())
    }

    fn check(&self, cell: &Cell) -> Result<(), String> {
        self.workshop.check(cell)
    }

    fn announce(&mut self, specs: Vec<RunSpec>) {
        self.offers.add(specs);
    }

    fn run(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> RunEnd {
        let answer = self.offers.await_answer(spec, cancel);
        let (said, asked) = match answer {
            Answer::Said { said, asked } => (said, asked),
            Answer::Failed(reason) => return RunEnd::Finished(Outcome::Failed { reason }),
            Answer::Cancelled => return RunEnd::Interrupted,
        };
        let Said { facts, windows, outcome, .. } = said;
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

/// Where a guest's kernel found another machine than the one that was asked for. What it does not
/// tell is not held against it.
fn misfit(lab: &LabTable, found: &Topology) -> Option<String> {
    let asked = topology(lab);
    let list =
        |groups: &[CpuSet]| groups.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" | ");
    let cpus = |cpus: &CpuSet| vec![cpus.clone()];
    let parts = [
        ("CPUs", cpus(&asked.online), cpus(&found.online)),
        ("cores", asked.cores, found.cores.clone()),
        ("last-level caches", asked.llcs, found.llcs.clone()),
        ("NUMA nodes", asked.numa_nodes, found.numa_nodes.clone()),
    ];
    let other =
        |(_, asked, found): &&(_, Vec<CpuSet>, Vec<CpuSet>)| !found.is_empty() && asked != found;
    parts.iter().find(other).map(|(what, asked, found)| {
        format!("the guest's {what} are {}, asked for {}", list(found), list(asked))
    })
}

/// A guest as its machine is made, whichever kernel it boots.
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
mod tests {
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
        assert_eq!(misfit(&lab, &sound), None);
        let untold = Topology { llcs: Vec::new(), numa_nodes: Vec::new(), ..sound.clone() };
        assert_eq!(misfit(&lab, &untold), None, "unknown is not other");
        let other = Topology { llcs: sound.numa_nodes.clone(), ..sound.clone() };
        assert_eq!(
            misfit(&lab, &other).unwrap(),
            "the guest's last-level caches are 0-3 | 4-7, asked for 0-1 | 2-3 | 4-5 | 6-7"
        );
        let fewer = Topology { online: (0..7).collect(), ..sound.clone() };
        assert_eq!(misfit(&lab, &fewer).unwrap(), "the guest's CPUs are 0-6, asked for 0-7");
        let nodes = Topology { numa_nodes: sound.llcs.clone(), ..sound.clone() };
        assert!(misfit(&lab, &nodes).unwrap().contains("NUMA nodes"));
        let cores = Topology { cores: sound.llcs.clone(), ..sound };
        assert!(misfit(&lab, &cores).unwrap().contains("cores"));
    }
}
