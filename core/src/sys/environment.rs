//! The machine and its state before a plan, for the store and the report.
//!
//! Input: files below the host's root, and facts from system calls and the processor alone ([`Identity`]). Nothing
//! is changed; a fact that cannot be read carries its reason. Takes a few milliseconds.

use std::collections::BTreeMap;
use std::ffi::CStr;

use sha2::{Digest, Sha256};

use crate::model::{CpuSet, Environment, Reading};

use super::host::Host;
use super::scheduler::{SCHED_EXT, features_file, is_sysctl, scheduler};
use super::virtualisation::{hypervisor_signature, virtualisation};
use super::{mounts, topology};
use crate::model::clean;

const CPUS: &str = "/sys/devices/system/cpu";
const DEBUG_SCHED: &str = "/sys/kernel/debug/sched";
/// Length of the digest that distinguishes machines.
const MACHINE_ID_BYTES: usize = 8;

/// Settings under /proc/sys/kernel that are not the scheduler's, but touch its work or the knowledge of it.
const KERNEL_TUNABLES: &[&str] = &["timer_migration", "task_delayacct"];

/// Files below debugfs `sched/` that print state and are long, not settings.
const NOT_TUNABLES: &[&str] = &["debug", "domains"];

/// Facts that the kernel and the processor report to the calling thread, and no file holds.
pub struct Identity {
    pub hostname: String,
    pub kernel_release: String,
    pub kernel_version: String,
    pub affinity: CpuSet,
    /// See [`hypervisor_signature`].
    pub hypervisor: Reading<Option<String>>,
}

impl Identity {
    pub fn here() -> Identity {
        // SAFETY: utsname is plain bytes, for which zero is valid.
        let mut names: libc::utsname = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is valid; on failure the names stay empty.
        unsafe { libc::uname(&mut names) };
        let word = |bytes: &[libc::c_char]| {
            // SAFETY: the kernel ends each name with a zero, and the struct began as zeros.
            unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_string_lossy().into_owned()
        };
        Identity {
            hostname: word(&names.nodename),
            kernel_release: word(&names.release),
            kernel_version: word(&names.version),
            affinity: topology::affinity().unwrap_or_default(),
            hypervisor: hypervisor_signature(),
        }
    }
}

pub fn environment(host: &Host) -> Environment {
    environment_of(host, Identity::here())
}

/// Like [`environment`]; facts that are not in files are passed in.
pub fn environment_of(host: &Host, identity: Identity) -> Environment {
    let topology = topology::topology(host, identity.affinity);
    let cgroup_mode = match mounts::mounts(host) {
        Reading::Known(mounts) => mounts::cgroup_mode(&mounts).to_string(),
        Reading::Unknown(why) => format!("unknown ({why})"),
    };
    Environment {
        hostname: identity.hostname,
        cpu_model: cpu_model(host),
        memory_bytes: memory_bytes(host),
        scheduler: Some(scheduler(host)),
        kernel_cmdline: host.reading("/proc/cmdline"),
        boot_id: host.reading("/proc/sys/kernel/random/boot_id"),
        machine_id: Some(machine_id(host)),
        virtualisation: virtualisation(host, &identity.hypervisor),
        cgroup_mode,
        clock_source: clock_source(host),
        smt: smt(host),
        governor: governor(host, &topology.online),
        turbo: turbo(host),
        load_average: load_average(host),
        mitigations: mitigations(host),
        tunables: tunables(host, &identity.kernel_version),
        calibration: None,
        calibration_at_end: None,
        kernel_release: identity.kernel_release,
        kernel_version: identity.kernel_version,
        topology,
    }
}

/// A digest of the machine's id. machine-id(5) asks for one where others see it: the id does not follow from it.
fn machine_id(host: &Host) -> Reading<String> {
    const PATH: &str = "/etc/machine-id";
    host.reading(PATH).and_then(|id| match id.as_str() {
        // The contents in images before they first boot.
        "" | "uninitialized" => Reading::Unknown(format!("{PATH}: has no id yet")),
        id => {
            let digest = Sha256::new_with_prefix(format!("schedlab {id}")).finalize();
            let bytes = digest.iter().take(MACHINE_ID_BYTES);
            Reading::Known(bytes.map(|byte| format!("{byte:02x}")).collect())
        }
    })
}

pub fn clock_source(host: &Host) -> Reading<String> {
    host.reading("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// x86 has a name; ARM has numbers, kept as they are.
fn cpu_model(host: &Host) -> Reading<String> {
    host.reading("/proc/cpuinfo").and_then(|text| {
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
        };
        let name = ["model name", "cpu model", "cpu"].iter().find_map(|key| value(key));
        let numbers = || value("CPU implementer").zip(value("CPU part"));
        let name = name
            .map(str::to_string)
            .or_else(|| numbers().map(|(maker, part)| format!("implementer {maker}, part {part}")));
        Reading::from_option(name, "/proc/cpuinfo: names no processor")
    })
}

/// All of this machine's memory that the kernel has.
pub fn memory_bytes(host: &Host) -> Reading<u64> {
    host.reading("/proc/meminfo").and_then(|text| {
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse().ok());
        let bytes = kib.and_then(|kib: u64| kib.checked_mul(1024));
        Reading::from_option(bytes, "/proc/meminfo: no `MemTotal: N kB`")
    })
}

/// `on (control: on)`, `off (control: notsupported)`.
fn smt(host: &Host) -> Reading<String> {
    let control = host.read(format!("{CPUS}/smt/control"));
    let path = format!("{CPUS}/smt/active");
    let state = host.reading(&path).and_then(|text| on_or_off(&path, &text, "1"));
    state.map(|state| match control {
        Ok(control) => format!("{state} (control: {control})"),
        Err(_) => state,
    })
}

/// One word where all online CPUs agree, else each with its CPUs:
/// `performance on 0-3, powersave on 4-7`.
fn governor(host: &Host, online: &CpuSet) -> Reading<String> {
    let mut by_name: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut first_reason = None;
    for cpu in online.iter() {
        match host.reading(format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor")) {
            Reading::Known(name) => by_name.entry(name).or_default().push(cpu),
            Reading::Unknown(why) => {
                first_reason.get_or_insert(why);
            }
        }
    }
    let known: usize = by_name.values().map(Vec::len).sum();
    match (by_name.len(), first_reason) {
        (0, Some(why)) => Reading::Unknown(format!("{why} (no frequency driver)")),
        (0, None) => Reading::Unknown("no CPU is known to be online".to_string()),
        (1, _) if known == online.len() => {
            Reading::Known(by_name.into_keys().next().unwrap_or_default())
        }
        _ => {
            let parts = by_name
                .into_iter()
                .map(|(name, cpus)| format!("{name} on {}", cpus.into_iter().collect::<CpuSet>()));
            Reading::Known(parts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// `on` or `off`: intel_pstate says it negated, other drivers as `boost`.
fn turbo(host: &Host) -> Reading<String> {
    let no_turbo = format!("{CPUS}/intel_pstate/no_turbo");
    let boost = format!("{CPUS}/cpufreq/boost");
    let (path, text, on) = match (host.read(&no_turbo), host.reading(&boost)) {
        (Ok(text), _) => (no_turbo, text, "0"),
        (Err(_), Reading::Known(text)) => (boost, text, "1"),
        (Err(_), Reading::Unknown(why)) => {
            return Reading::Unknown(format!("{why}, nor is intel_pstate/no_turbo"));
        }
    };
    on_or_off(&path, &text, on)
}

fn on_or_off(path: &str, text: &str, on: &str) -> Reading<String> {
    match text {
        "0" | "1" => Reading::Known(if text == on { "on" } else { "off" }.to_string()),
        other => Reading::Unknown(format!("{path}: `{}` is neither 0 nor 1", clean(other))),
    }
}

fn load_average(host: &Host) -> Reading<String> {
    host.reading("/proc/loadavg").and_then(|text| {
        let words: Vec<&str> = text.split_ascii_whitespace().take(3).collect();
        if words.len() == 3 && words.iter().all(|word| word.parse::<f64>().is_ok()) {
            Reading::Known(words.join(" "))
        } else {
            let text = clean(&text);
            Reading::Unknown(format!("/proc/loadavg: `{text}` does not begin with three loads"))
        }
    })
}

fn mitigations(host: &Host) -> BTreeMap<String, String> {
    let folder = format!("{CPUS}/vulnerabilities");
    names(host, &folder)
        .into_iter()
        .flatten()
        .filter_map(|name| Some((name.clone(), host.read(format!("{folder}/{name}")).ok()?)))
        .collect()
}

fn tunables(host: &Host, kernel_version: &str) -> BTreeMap<String, Reading<String>> {
    let mut found = BTreeMap::new();
    let mut read = |path: String| {
        let reading = host.reading(&path);
        found.insert(path, reading);
    };
    for name in names(host, "/proc/sys/kernel").unwrap_or_default() {
        let path = format!("/proc/sys/kernel/{name}");
        let wanted = is_sysctl(&name) || KERNEL_TUNABLES.contains(&name.as_str());
        // `sched_domain` is a folder on kernels before 5.13.
        if wanted && !host.path(&path).is_dir() {
            read(path);
        }
    }
    let debug = names(host, DEBUG_SCHED);
    for name in debug.iter().flatten().filter(|name| !NOT_TUNABLES.contains(&name.as_str())) {
        let path = format!("{DEBUG_SCHED}/{name}");
        match names(host, &path) {
            Ok(inner) if name == "numa_balancing" => {
                inner.into_iter().for_each(|inner| read(format!("{path}/{inner}")));
            }
            Ok(_) => {}
            Err(_) => read(path),
        }
    }
    for name in ["state", "switch_all", "nr_rejected", "root/ops"] {
        read(format!("{SCHED_EXT}/{name}"));
    }
    if debug.is_err()
        && let Some(path) = features_file(host)
    {
        found.insert(path.to_string(), host.reading(path));
    } else if debug.is_err() {
        found.insert(DEBUG_SCHED.to_string(), debugfs(host).map(|()| String::new()));
    }
    found.insert("preemption".to_string(), preemption(host, kernel_version));
    found
}

/// Whether debugfs `sched/` can be entered; the reason names the obstacle.
pub fn debugfs(host: &Host) -> Reading<()> {
    match std::fs::read_dir(host.path(DEBUG_SCHED)) {
        Ok(_) => Reading::Known(()),
        Err(error) => {
            let mounted = mounts::mounts(host)
                .known()
                .is_some_and(|mounts| mounts.iter().any(|mount| mount.filesystem == "debugfs"));
            let why = super::host::error_text(&error);
            let cause = if mounted { "" } else { " (debugfs is not mounted)" };
            Reading::Unknown(format!("{DEBUG_SCHED}: {why}{cause}"))
        }
    }
}

/// The preemption model in force: `none`, `voluntary`, `full`, `lazy`, `rt`. With
/// PREEMPT_DYNAMIC it is chosen at boot, and debugfs marks it in parentheses.
fn preemption(host: &Host, kernel_version: &str) -> Reading<String> {
    let path = format!("{DEBUG_SCHED}/preempt");
    let debug = host.reading(&path);
    if let Reading::Known(text) = &debug {
        let marked = text.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        return match marked {
            Some((model, _)) => Reading::Known(model.to_string()),
            None => Reading::Unknown(format!("{path}: `{}` marks none", clean(text))),
        };
    }
    let flags: Vec<&str> = kernel_version.split_ascii_whitespace().collect();
    if flags.contains(&"PREEMPT_RT") {
        return Reading::Known("rt".to_string());
    }
    if flags.contains(&"PREEMPT_DYNAMIC") {
        let asked = host.read("/proc/cmdline").ok().and_then(|line| {
            line.split_ascii_whitespace()
                .filter_map(|word| word.strip_prefix("preempt="))
                .next_back()
                .map(str::to_string)
        });
        return match (asked, debug) {
            (Some(asked), _) => Reading::Known(asked),
            (None, Reading::Unknown(why)) => Reading::Unknown(format!(
                "PREEMPT_DYNAMIC with its built-in default, which only debugfs shows: {why}"
            )),
            (None, known) => known,
        };
    }
    if flags.contains(&"PREEMPT") {
        return Reading::Known("full".to_string());
    }
    Reading::Unknown("none or voluntary: the kernel version does not distinguish these".to_string())
}

/// The names in a folder, in order.
fn names(host: &Host, folder: &str) -> std::io::Result<Vec<String>> {
    let entries = std::fs::read_dir(host.path(folder))?;
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    fn identity(affinity: &str) -> Identity {
        Identity {
            hostname: "box".to_string(),
            kernel_release: "6.18.0".to_string(),
            kernel_version: "#1 SMP PREEMPT_DYNAMIC".to_string(),
            affinity: affinity.parse().unwrap(),
            hypervisor: Reading::Known(None),
        }
    }

    fn shown(sets: &[CpuSet]) -> Vec<String> {
        sets.iter().map(CpuSet::to_string).collect()
    }

    /// Two sockets of two cores with two threads each: siblings are N and N + 4.
    fn intel() -> Tree {
        let tree = Tree::with_files(&[
            ("/sys/devices/system/cpu/online", "0-7\n"),
            ("/sys/devices/system/cpu/smt/active", "1\n"),
            ("/sys/devices/system/cpu/smt/control", "on\n"),
            ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
            ("/sys/devices/system/cpu/vulnerabilities/l1tf", "Not affected\n"),
            ("/sys/devices/system/node/node0/cpulist", "0-1,4-5\n"),
            ("/sys/devices/system/node/node1/cpulist", "2-3,6-7\n"),
            ("/sys/devices/system/node/node2/cpulist", "\n"),
            ("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\n"),
            ("/proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n"),
            ("/proc/loadavg", "0.10 0.20 0.30 1/96 12961\n"),
            ("/proc/cmdline", "quiet preempt=full preempt=lazy\n"),
            ("/proc/self/mountinfo", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("/proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("/proc/sys/kernel/sched_domain/cpu0/flags", "1\n"),
            ("/proc/sys/kernel/timer_migration", "1\n"),
            ("/proc/sys/kernel/panic", "0\n"),
            ("/sys/kernel/debug/sched/features", "PLACE_LAG NO_HRTICK\n"),
            ("/sys/kernel/debug/sched/debug", "long\n"),
            ("/sys/kernel/debug/sched/preempt", "none voluntary (full) lazy\n"),
            ("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", "1000\n"),
        ]);
        let cpus: Vec<(u32, String, &str)> = (0..8)
            .map(|cpu| {
                let llc = if cpu % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" };
                (cpu, format!("{},{}", cpu % 4, cpu % 4 + 4), llc)
            })
            .collect();
        tree.add_cpus(&cpus.iter().map(|(c, core, llc)| (*c, &core[..], *llc)).collect::<Vec<_>>());
        for cpu in 0..8 {
            let governor = if cpu < 6 { "performance" } else { "powersave" };
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
            tree.write(&path, governor);
        }
        tree
    }

    #[test]
    fn two_sockets_with_threads() {
        let tree = intel();
        let read = environment_of(&tree.host(), identity("0-3,9"));
        assert_eq!(shown(&read.topology.cores), ["0,4", "1,5", "2,6", "3,7"]);
        assert_eq!(shown(&read.topology.llcs), ["0-1,4-5", "2-3,6-7"]);
        assert_eq!(shown(&read.topology.numa_nodes), ["0-1,4-5", "2-3,6-7"]);
        assert_eq!(read.topology.online.to_string(), "0-7");
        assert_eq!(read.topology.allowed.to_string(), "0-3", "CPU 9 is not online");
        let known = |text: &str| Reading::Known(text.to_string());
        assert_eq!(read.smt, known("on (control: on)"));
        assert_eq!(read.turbo, known("on"));
        assert_eq!(read.governor, known("performance on 0-5, powersave on 6-7"));
        assert_eq!(read.cpu_model, known("Intel(R) Xeon(R)"));
        assert_eq!(read.memory_bytes, Reading::Known(16 << 20));
        assert_eq!(read.load_average, known("0.10 0.20 0.30"));
        assert_eq!(read.cgroup_mode, "v2");
        assert_eq!(read.virtualisation, known("none"));
        assert_eq!(read.mitigations["meltdown"], "Mitigation: PTI");
        assert_eq!(read.mitigations.len(), 2);
        let tunables: Vec<&str> = read.tunables.keys().map(String::as_str).collect();
        let expected = [
            "/proc/sys/kernel/sched_rt_runtime_us",
            "/proc/sys/kernel/timer_migration",
            "/sys/kernel/debug/sched/features",
            "/sys/kernel/debug/sched/numa_balancing/scan_delay_ms",
            "/sys/kernel/debug/sched/preempt",
            "/sys/kernel/sched_ext/nr_rejected",
            "/sys/kernel/sched_ext/root/ops",
            "/sys/kernel/sched_ext/state",
            "/sys/kernel/sched_ext/switch_all",
            "preemption",
        ];
        assert_eq!(tunables, expected);
        assert_eq!(read.tunables["preemption"], known("full"), "debugfs has the last word");
    }

    #[test]
    fn one_socket_with_two_last_level_caches_and_a_cpu_offline() {
        let tree = Tree::with_files(&[
            ("/sys/devices/system/cpu/online", "0-2,4-7\n"),
            ("/sys/devices/system/cpu/cpufreq/boost", "0\n"),
            ("/sys/devices/system/cpu/smt/active", "0\n"),
            ("/sys/devices/system/node/node0/cpulist", "0-2,4-7\n"),
        ]);
        let cpu = |cpu: u32| (cpu, cpu.to_string(), if cpu < 4 { "0-3" } else { "4-7" });
        let cpus: Vec<_> = (0..8).map(cpu).collect();
        tree.add_cpus(&cpus.iter().map(|(c, core, llc)| (*c, &core[..], *llc)).collect::<Vec<_>>());
        // The name of older kernels.
        let topology = "/sys/devices/system/cpu/cpu7/topology";
        tree.remove(&format!("{topology}/core_cpus_list"));
        tree.write(&format!("{topology}/thread_siblings_list"), "7\n");
        let read = environment_of(&tree.host(), identity("0-7"));
        assert_eq!(shown(&read.topology.llcs), ["0-2", "4-7"]);
        assert_eq!(read.topology.cores.len(), 7);
        assert_eq!(shown(&read.topology.numa_nodes), ["0-2,4-7"]);
        assert_eq!(read.turbo, Reading::Known("off".to_string()));
        assert_eq!(read.smt, Reading::Known("off".to_string()));
    }

    #[test]
    fn a_machine_is_known_by_a_digest_of_its_id() {
        let of = |id: &str| {
            let tree = Tree::with_files(&[("/etc/machine-id", id)]);
            environment_of(&tree.host(), identity("0")).machine_id.unwrap()
        };
        let id = "0123456789abcdef0123456789abcdef\n";
        let Reading::Known(digest) = of(id) else { panic!("{:?}", of(id)) };
        assert!(digest.len() == 16 && !id.contains(&digest[..4]), "{digest}");
        assert_eq!((of(id) == of(id), of(id) == of("f\n")), (true, false));
        for none in ["", "\n", "uninitialized\n"] {
            assert!(matches!(of(none), Reading::Unknown(_)), "{none:?}");
        }
    }

    #[test]
    fn a_machine_that_reports_nothing_gives_reasons() {
        let tree =
            Tree::with_files(&[("/proc/stat", "cpu0 1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 1\n")]);
        let read = environment_of(
            &tree.host(),
            Identity {
                hypervisor: Reading::Unknown("no such instruction".to_string()),
                ..identity("0")
            },
        );
        assert_eq!(read.topology.online.to_string(), "0-1", "from /proc/stat");
        assert_eq!(read.topology.allowed.to_string(), "0");
        assert!(read.topology.llcs.is_empty() && read.topology.cores.is_empty());
        assert!(read.topology.numa_nodes.is_empty());
        let unknown = [
            read.cpu_model,
            read.memory_bytes.map(|bytes| bytes.to_string()),
            read.kernel_cmdline,
            read.boot_id,
            read.virtualisation,
            read.clock_source,
            read.smt,
            read.governor,
            read.turbo,
            read.load_average,
            read.tunables["preemption"].clone(),
            read.tunables["/sys/kernel/debug/sched"].clone(),
        ];
        for reading in unknown {
            let Reading::Unknown(why) = reading else { panic!("known: {reading:?}") };
            assert!(why.contains("ENOENT") || why.contains("not there"), "{why}");
        }
        assert!(read.cgroup_mode.starts_with("unknown (/proc/self/mountinfo: ENOENT"));
    }

    #[test]
    fn malformed_files_are_unknown_and_never_a_zero() {
        let tree = Tree::with_files(&[
            ("/sys/devices/system/cpu/online", "0-1\n"),
            ("/sys/devices/system/cpu/cpu0/topology/core_cpus_list", "1-0\n"),
            ("/sys/devices/system/cpu/cpu0/cache/index0/level", "x\n"),
            ("/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0\n"),
            ("/sys/devices/system/cpu/cpu1/cache/index0/level", "2\n"),
            ("/sys/devices/system/cpu/cpu1/cache/index0/shared_cpu_list", "nonsense\n"),
            ("/sys/devices/system/cpu/smt/active", "2\n"),
            ("/sys/devices/system/cpu/intel_pstate/no_turbo", "yes\n"),
            ("/sys/devices/system/node/node0/cpulist", "0-\n"),
            ("/proc/meminfo", "MemTotal: many kB\n"),
            ("/proc/loadavg", "idle\n"),
            ("/proc/cpuinfo", "\n"),
            ("/sys/kernel/debug/sched/preempt", "full\n"),
        ]);
        let read = environment_of(&tree.host(), identity("0-1"));
        let Environment { topology, .. } = &read;
        assert_eq!((&topology.cores[..], &topology.llcs[..]), (&[][..], &[][..]));
        assert!(topology.numa_nodes.is_empty());
        let because = |reading: Reading<String>, why: &str| match reading {
            Reading::Unknown(got) => assert!(got.contains(why), "{got}"),
            Reading::Known(value) => panic!("known: {value}"),
        };
        because(read.smt, "`2` is neither 0 nor 1");
        because(read.turbo, "`yes` is neither 0 nor 1");
        because(read.memory_bytes.map(|bytes| bytes.to_string()), "MemTotal");
        because(read.load_average, "`idle`");
        because(read.cpu_model, "names no processor");
        because(read.tunables["preemption"].clone(), "`full` marks none");
    }

    #[test]
    fn the_preemption_model_is_reported_only_where_it_is_known() {
        let with_cmdline = |text| Tree::with_files(&[("/proc/cmdline", text)]);
        let cases = [
            ("#1 SMP PREEMPT_DYNAMIC", "quiet preempt=lazy", Some("lazy")),
            ("#1 SMP PREEMPT_DYNAMIC", "quiet", None),
            ("#1 SMP PREEMPT_RT", "", Some("rt")),
            ("#1 SMP PREEMPT", "", Some("full")),
            ("#1 SMP", "", None),
        ];
        for (version, cmdline, expected) in cases {
            let got = preemption(&with_cmdline(cmdline).host(), version).known();
            assert_eq!(got.as_deref(), expected, "{version} {cmdline}");
        }
    }

    #[test]
    fn lists_that_contradict_each_other_still_partition() {
        let tree = Tree::with_files(&[("/sys/devices/system/cpu/online", "0-3\n")]);
        tree.add_cpus(&[(0, "0-1", "0-2"), (1, "0-1", "1-3"), (2, "3", "0-3"), (3, "2-3", "2-3")]);
        let topology = topology::topology(&tree.host(), identity("0").affinity);
        assert_eq!(shown(&topology.llcs), ["0-2", "3"]);
        assert_eq!(shown(&topology.cores), ["0-1", "2-3"]);
    }

    #[test]
    fn this_machine_reads_plausibly() {
        let read = environment(&Host::default());
        let Environment { topology, .. } = &read;
        assert!(!topology.online.is_empty() && !topology.allowed.is_empty(), "{topology:?}");
        assert!(topology.allowed.minus(&topology.online).is_empty(), "{topology:?}");
        for groups in [&topology.llcs, &topology.cores, &topology.numa_nodes] {
            let all: CpuSet = groups.iter().flat_map(CpuSet::iter).collect();
            let members: usize = groups.iter().map(CpuSet::len).sum();
            assert_eq!(members, all.len(), "no CPU twice: {topology:?}");
            assert!(groups.is_empty() || all == topology.online, "{topology:?}");
        }
        assert!(!read.hostname.is_empty() && !read.kernel_release.is_empty());
        assert!(read.memory_bytes.known().is_none_or(|bytes| bytes > 1 << 20));
        let osrelease = Host::default().reading("/proc/sys/kernel/osrelease");
        assert_eq!(osrelease.known().unwrap_or(read.kernel_release.clone()), read.kernel_release);
    }
}
