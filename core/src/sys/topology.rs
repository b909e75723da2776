//! The CPUs of the machine and the parts that they share, from /sys/devices/system.
//!
//! Each list of groups partitions the online CPUs whose group the kernel knows; CPUs whose group it does not know
//! are in none. Parsing is pure; only [`affinity`] makes a call.

use std::collections::BTreeSet;
use std::io;

use crate::model::{CpuSet, Reading, Topology};

use super::{Host, sched};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Groups of CPUs; `affinity`: the CPUs that the caller may run on.
pub fn topology(host: &Host, affinity: CpuSet) -> Topology {
    let online = online(host).known().unwrap_or_else(|| affinity.clone());
    let core = |cpu: u32| {
        let topology = format!("{CPUS}/cpu{cpu}/topology");
        cpu_list(host, &format!("{topology}/core_cpus_list"))
            .known()
            // The name until Linux 5.2.
            .or_else(|| cpu_list(host, &format!("{topology}/thread_siblings_list")).known())
    };
    Topology {
        llcs: partition(&online, |cpu| Some(last_level_cache(host, cpu)?.1)),
        numa_nodes: numa_nodes(host, &online),
        cores: partition(&online, core),
        allowed: affinity.iter().filter(|cpu| online.contains(*cpu)).collect(),
        online,
    }
}

/// How many sockets the CPUs are of, as far as the kernel says; 0: it says nothing.
pub fn packages(host: &Host, cpus: &CpuSet) -> usize {
    cpus.iter().filter_map(|cpu| package(host, cpu)).collect::<BTreeSet<_>>().len()
}

fn package(host: &Host, cpu: u32) -> Option<String> {
    host.read(format!("{CPUS}/cpu{cpu}/topology/physical_package_id")).ok()
}

/// The CPUs that are online: from /sys, or from /proc/stat where /sys is not mounted.
pub fn online(host: &Host) -> Reading<CpuSet> {
    match cpu_list(host, &format!("{CPUS}/online")) {
        Reading::Known(cpus) if !cpus.is_empty() => Reading::Known(cpus),
        Reading::Known(_) => Reading::Unknown(format!("{CPUS}/online: holds no CPU")),
        Reading::Unknown(why) => {
            let cpus: CpuSet = super::load::cpu_times(host)
                .known()
                .map(|times| times.into_keys().collect())
                .unwrap_or_default();
            if cpus.is_empty() { Reading::Unknown(why) } else { Reading::Known(cpus) }
        }
    }
}

/// The CPUs that the kernel has room for, online or not.
pub fn possible(host: &Host) -> Reading<CpuSet> {
    cpu_list(host, &format!("{CPUS}/possible"))
}

/// A file that holds a list of CPUs as the kernel writes it; empty is a valid list.
pub fn cpu_list(host: &Host, path: &str) -> Reading<CpuSet> {
    host.reading(path).and_then(|text| match CpuSet::try_from(text.trim().to_string()) {
        Ok(cpus) => Reading::Known(cpus),
        Err(why) => Reading::Unknown(format!("{path}: {why}")),
    })
}

/// Groups CPUs by their own files. Lists that contradict each other (seen with faulty firmware) are cut so that no
/// CPU is in two groups.
fn partition(online: &CpuSet, group_of: impl Fn(u32) -> Option<CpuSet>) -> Vec<CpuSet> {
    let mut placed = CpuSet::default();
    let mut groups = Vec::new();
    for cpu in online.iter() {
        if placed.contains(cpu) {
            continue;
        }
        let Some(group) = group_of(cpu) else { continue };
        let fits = |other: &u32| online.contains(*other) && !placed.contains(*other);
        let group: CpuSet = group.iter().filter(fits).chain([cpu]).collect();
        placed = placed.iter().chain(group.iter()).collect();
        groups.push(group);
    }
    groups
}

/// The bytes of the largest last-level cache that one of these CPUs has, as far as the kernel says.
pub fn llc_bytes(host: &Host, cpus: &CpuSet) -> Option<u64> {
    let bytes = |cpu| {
        let (cache, _) = last_level_cache(host, cpu)?;
        let kib =
            host.read(format!("{cache}/size")).ok()?.strip_suffix('K')?.parse::<u64>().ok()?;
        kib.checked_mul(1024)
    };
    cpus.iter().filter_map(bytes).max()
}

/// The cache of the highest level that this CPU has: its folder, and the CPUs that share it.
fn last_level_cache(host: &Host, cpu: u32) -> Option<(String, CpuSet)> {
    let caches = host.path(format!("{CPUS}/cpu{cpu}/cache"));
    let mut highest: Option<(u32, (String, CpuSet))> = None;
    for entry in std::fs::read_dir(caches).ok()?.flatten() {
        let Ok(index) = entry.file_name().into_string() else { continue };
        if !index.starts_with("index") {
            continue;
        }
        let cache = format!("{CPUS}/cpu{cpu}/cache/{index}");
        let level = host.read(format!("{cache}/level")).ok().and_then(|text| text.parse().ok());
        let shared = cpu_list(host, &format!("{cache}/shared_cpu_list")).known();
        let (Some(level), Some(shared)) = (level, shared) else { continue };
        if highest.as_ref().is_none_or(|(top, _)| level > *top) {
            highest = Some((level, (cache, shared)));
        }
    }
    highest.map(|(_, cache)| cache)
}

/// CPUs by NUMA node; memory-only nodes are left out, having none.
pub fn numa_nodes(host: &Host, online: &CpuSet) -> Vec<CpuSet> {
    let nodes = nodes(host);
    let of = |cpu| nodes.iter().map(|(_, node)| node).find(|node| node.contains(cpu)).cloned();
    partition(online, of)
}

/// The nodes by number, each with its CPUs as the kernel has them.
fn nodes(host: &Host) -> Vec<(u32, CpuSet)> {
    let Ok(entries) = std::fs::read_dir(host.path(NODES)) else { return Vec::new() };
    let mut numbers: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let nodes =
        |node: u32| Some((node, cpu_list(host, &format!("{NODES}/node{node}/cpulist")).known()?));
    numbers.into_iter().filter_map(nodes).collect()
}

/// How many sockets have CPUs that are online. `None`: the kernel does not say it of all of these.
pub fn sockets(host: &Host) -> Option<u32> {
    let online = online(host).known()?;
    let sockets: Option<BTreeSet<String>> = online.iter().map(|cpu| package(host, cpu)).collect();
    sockets.map(|sockets| sockets.len() as u32)
}

/// The largest distance between two NUMA nodes, where each is 10 from itself. `None`: there is one.
pub fn node_distance(host: &Host) -> Option<u32> {
    let row = |node: u32| host.read(format!("{NODES}/node{node}/distance")).ok();
    let nodes = nodes(host);
    let rows: Vec<String> = nodes.iter().map(|(node, _)| row(*node)).collect::<Option<_>>()?;
    let words = rows.iter().flat_map(|row| row.split_whitespace());
    words.filter_map(|word| word.parse().ok()).max().filter(|_| nodes.len() > 1)
}

/// The numbers of the NUMA nodes that have some of these CPUs.
pub fn node_numbers(host: &Host, cpus: &CpuSet) -> Vec<u32> {
    nodes(host)
        .into_iter()
        .filter(|(_, node)| node.iter().any(|cpu| cpus.contains(cpu)))
        .map(|(number, _)| number)
        .collect()
}

/// How many CPUs the kernel is set up for, offline ones included; at least 1.
pub fn configured_cpus() -> usize {
    // SAFETY: no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(cpus).unwrap_or(1).max(1)
}

/// CPUs by last-level cache.
pub fn llcs() -> Vec<CpuSet> {
    topology(&Host::default(), affinity().unwrap_or_default()).llcs
}

/// The CPUs that the calling thread may run on.
pub fn affinity() -> io::Result<CpuSet> {
    sched::affinity(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    #[test]
    fn the_largest_last_level_cache_counts_and_one_of_unknown_size_does_not() {
        let size = |cpu: u32, index: u32| format!("{CPUS}/cpu{cpu}/cache/index{index}/size");
        let tree = Tree::with_files(&[
            (&size(0, 2), "2048K\n"),
            (&size(0, 3), "1024K\n"),
            (&size(1, 3), "32768K\n"),
            (&size(2, 3), "64M\n"),
        ]);
        tree.add_cpus(&[(0, "0", "0"), (1, "1", "1"), (2, "2", "2")]);
        let cases = [("0", Some(1 << 20)), ("0-2", Some(32 << 20)), ("2", None), ("7", None)];
        for (cpus, expected) in cases {
            assert_eq!(llc_bytes(&tree.host(), &cpus.parse().unwrap()), expected, "{cpus}");
        }
    }

    #[test]
    fn the_first_last_level_caches_are_those_of_given_cpus() {
        let tree = Tree::with_files(&[("/sys/devices/system/cpu/online", "0-7\n")]);
        let llcs = ["0-1,4-5", "2-3,6-7"];
        let cpu = |cpu: u32| (cpu, "", llcs[cpu as usize / 2 % 2]);
        tree.add_cpus(&[0, 1, 2, 3, 4, 5, 6, 7].map(cpu));
        let machine = |allowed: &str| topology(&tree.host(), allowed.parse().unwrap());
        let first = |count, allowed| {
            let machine = machine(allowed);
            machine.first_llcs(count, machine.usable()).map(|cpus| cpus.to_string())
        };
        assert_eq!(first(1, "0-7"), Ok("0-1,4-5".to_string()));
        assert_eq!(first(2, "0-7"), Ok("0-7".to_string()));
        assert_eq!(first(1, "1-3"), Ok("1".to_string()));
        assert_eq!(first(1, "3,6"), Ok("3,6".to_string()));
        assert_eq!((first(2, "3,6"), first(3, "0-7")), (Err(1), Err(2)));
        let unknown = Topology { llcs: Vec::new(), ..machine("0-7") };
        assert_eq!(unknown.first_llcs(1, &unknown.online), Err(0));
    }

    #[test]
    fn sockets_are_counted_and_the_furthest_nodes_give_the_distance() {
        let socket = |cpu: u32| format!("{CPUS}/cpu{cpu}/topology/physical_package_id");
        let node = |node: u32, file: &str| format!("{NODES}/node{node}/{file}");
        let tree = Tree::with_files(&[
            (&*format!("{CPUS}/online"), "0-2\n"),
            (&socket(0), "0\n"),
            (&socket(1), "0\n"),
            (&socket(2), "1\n"),
            (&node(0, "cpulist"), "0-1\n"),
            (&node(0, "distance"), "10 21\n"),
        ]);
        assert_eq!((sockets(&tree.host()), node_distance(&tree.host())), (Some(2), None));
        tree.write(&node(1, "cpulist"), "2\n");
        assert_eq!(node_distance(&tree.host()), None, "the kernel does not say");
        tree.write(&node(1, "distance"), "31 10\n");
        assert_eq!(node_distance(&tree.host()), Some(31));
        assert_eq!(sockets(&Tree::with_files::<&str>(&[]).host()), None);
    }
}
