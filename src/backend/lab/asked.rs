//! Compares the machine that a guest was given with the one that its kernel found. Pure.

use crate::model::{
    CpuClocks, CpuSet, Environment, Guest, GuestFacts, GuestKernel, GuestTime, Lab, LabModel,
    Reading, Topology,
};

use super::error::Mismatch;
use super::machine::Time;
use super::preload::NoClocks;

/// The knobs that a machine is booted with. Its agent does not see them.
pub const KERNEL: &str = "kernel";
pub const KERNEL_ARGUMENTS: &str = "kernel-args";
/// The next three are only for machines with a hypervisor.
pub const XEN: &str = "xen";
pub const XEN_ARGUMENTS: &str = "xen-args";
pub const GUEST_KERNEL: &str = "guest-kernel";
/// The scheduler of the pool of guests.
pub const XEN_SCHEDULER: &str = "xen-scheduler";
pub const OF_XEN: [&str; 3] = [XEN, XEN_ARGUMENTS, GUEST_KERNEL];

/// The properties of a guest's machine that the lab set.
#[derive(Debug, Clone)]
pub struct Asked {
    pub time: GuestTime,
    /// SHA-256 of image, configuration and modules, in hexadecimal.
    pub kernel_digest: String,
    /// The version of the kernel's package.
    pub package_version: Option<String>,
}

/// Letters of a kernel's digest in reports: enough to distinguish two builds of a release, and short
/// enough for a mail.
const DIGEST_LETTERS: usize = 12;

/// Kernels have either precise timers or timers as coarse as ticks; nothing is between.
const COARSE_TIMERS_NS: u64 = 100_000;

pub fn of_guest(asked: &Asked, facts: &GuestFacts) -> Guest {
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
            scheduler: Some(facts.scheduler.clone()),
        },
        time: asked.time.clone(),
        capacity,
        coarse_timers_ns: resolution_ns.filter(|ns| *ns > COARSE_TIMERS_NS),
    }
}

/// Whether a guest's kernel found the machine that was configured. A kernel may leave parts out.
pub fn mismatch(lab: &Lab, facts: &GuestFacts) -> Result<(), Mismatch> {
    let (asked, found) = (topology(lab), &facts.topology);
    let cpus = |cpus: &CpuSet| vec![cpus.clone()];
    let parts = [
        ("CPUs", cpus(&asked.online), cpus(&found.online)),
        ("cores", asked.cores, found.cores.clone()),
        ("last-level caches", asked.llcs, found.llcs.clone()),
        ("NUMA nodes", asked.numa_nodes, found.numa_nodes.clone()),
    ];
    let mut parts = parts.into_iter();
    if let Some((what, asked, found)) =
        parts.find(|(_, asked, found)| !found.is_empty() && asked != found)
    {
        return Err(Mismatch::Cpus { what, asked, found });
    }
    let numbers = [
        ("number of sockets", Some(lab.sockets), facts.sockets),
        ("distance between NUMA nodes", lab.node_distance, facts.node_distance),
    ];
    let known = numbers.into_iter().filter_map(|(what, asked, found)| Some((what, asked?, found?)));
    match known.into_iter().find(|(_, asked, found)| asked != found) {
        Some((what, asked, found)) => Err(Mismatch::Number { what, asked, found }),
        None => Ok(()),
    }
}

/// A guest's machine, with any kernel.
pub fn environment(
    lab: &Lab,
    time: Time,
    emulator: &str,
    no_clocks: Option<&NoClocks>,
) -> Environment {
    let clocks = match (lab.clocks, no_clocks) {
        (CpuClocks::Own, _) => "CPUs with clocks of their own".to_string(),
        (CpuClocks::Shared, None) => "one clock for all CPUs".to_string(),
        (CpuClocks::Shared, Some(why)) => format!("one clock for all CPUs: {why}"),
    };
    let model = match &lab.model {
        model if model.is_off() => String::new(),
        LabModel { twin: Some(twin), .. } => format!(", delays of {twin}"),
        LabModel { twin: None, .. } => ", delays of the plan".to_string(),
    };
    let clock = match time {
        Time::Virtual => format!("{} ns an instruction, {clocks}{model}", lab.instruction_ns()),
        Time::Real { kvm: true } => "KVM, real time".to_string(),
        Time::Real { kvm: false } => "emulated, real time".to_string(),
    };
    Environment {
        hostname: "lab".to_string(),
        cpu_model: Reading::Known(format!("{}, {clock}", emulator)),
        topology: topology(lab),
        memory_bytes: Reading::Known(lab.memory_bytes),
        kernel_release: "of each variant".to_string(),
        // Each guest is a copy of one and the same boot.
        boot_id: Reading::Known("lab".to_string()),
        virtualisation: Reading::Known("qemu".to_string()),
        cgroup_mode: "v2".to_string(),
        clock_source: Reading::Known("tsc".to_string()),
        smt: Reading::Known(if lab.threads > 1 { "on" } else { "off" }.to_string()),
        ..Environment::unknown("a lab guest: it has none")
    }
}

fn topology(lab: &Lab) -> Topology {
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
        cores: parts(lab.cpus / lab.threads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::guest_facts;

    fn facts(topology: &Topology) -> GuestFacts {
        let (topology, capacity) = (topology.clone(), Reading::Known(0.99));
        GuestFacts { topology, capacity, ..guest_facts("6.12") }
    }

    #[test]
    fn a_guest_has_its_kernel_its_time_and_timers_where_they_are_coarse() {
        let mut facts = facts(&topology(&Lab::default()));
        let asked = Asked {
            time: GuestTime::Exact,
            kernel_digest: "0123456789abcdef".to_string(),
            package_version: None,
        };
        let guest = of_guest(&asked, &facts);
        assert_eq!(guest.coarse_timers_ns, None);
        assert_eq!(guest.capacity, Reading::Known(0.99));
        assert_eq!(guest.kernel.to_string(), "6.12, EEVDF (digest 0123456789ab)");
        facts.timer_resolution_ns = 4_000_000;
        let real = of_guest(&Asked { time: GuestTime::Real, ..asked }, &facts);
        assert_eq!(real.coarse_timers_ns, Some(4_000_000));
        assert!(matches!(real.capacity, Reading::Unknown(_)), "{:?}", real.capacity);
    }

    #[test]
    fn a_guest_on_another_machine_is_noticed() {
        let lab = Lab { cpus: 8, sockets: 2, llcs: 4, nodes: 2, ..Lab::default() };
        let sound = topology(&lab);
        let shown = |groups: &[CpuSet]| groups.iter().map(CpuSet::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&sound.llcs), ["0-1", "2-3", "4-5", "6-7"]);
        assert_eq!(shown(&sound.numa_nodes), ["0-3", "4-7"]);
        let siblings = topology(&Lab { threads: 2, ..lab.clone() });
        assert_eq!(shown(&siblings.cores), ["0-1", "2-3", "4-5", "6-7"]);
        assert_eq!(mismatch(&lab, &facts(&sound)), Ok(()));
        let unknown = Topology { llcs: Vec::new(), numa_nodes: Vec::new(), ..sound.clone() };
        assert_eq!(mismatch(&lab, &facts(&unknown)), Ok(()), "unknown is no difference");
        let other = Topology { llcs: sound.numa_nodes.clone(), ..sound.clone() };
        let text = |found: &Topology| mismatch(&lab, &facts(found)).unwrap_err().to_string();
        assert_eq!(
            text(&other),
            "the guest's last-level caches are 0-3 | 4-7, asked for 0-1 | 2-3 | 4-5 | 6-7"
        );
        let fewer = Topology { online: (0..7).collect(), ..sound.clone() };
        assert_eq!(text(&fewer), "the guest's CPUs are 0-6, asked for 0-7");
        let nodes = Topology { numa_nodes: sound.llcs.clone(), ..sound.clone() };
        assert!(text(&nodes).contains("NUMA nodes"));
        let cores = Topology { cores: sound.llcs.clone(), ..sound.clone() };
        assert!(text(&cores).contains("cores"));
        let far = Lab { node_distance: Some(31), ..lab.clone() };
        let seen = |sockets, node_distance| {
            let facts = GuestFacts { sockets, node_distance, ..facts(&sound) };
            mismatch(&far, &facts).map_err(|error| error.to_string())
        };
        assert_eq!((seen(Some(2), Some(31)), seen(None, None)), (Ok(()), Ok(())));
        let number = "the guest's number of sockets is 1, asked for 2";
        assert_eq!(seen(Some(1), Some(31)).unwrap_err(), number);
        let near = "the guest's distance between NUMA nodes is 20, asked for 31";
        assert_eq!(seen(Some(2), Some(20)).unwrap_err(), near);
    }
}
