//! The results of the checks on laid-out machines.

use super::*;
use crate::model::{Disturbance, DisturbanceFact, Interference};
use crate::sys::environment::{Identity, environment_of};
use crate::sys::testing::Tree;

/// A server as it comes, seen by a user without privileges.
fn plain_server() -> Tree {
    let tree = Tree::with_files(&[
        ("/sys/devices/system/cpu/online", "0-1\n"),
        ("/sys/devices/system/cpu/isolated", "1\n"),
        ("/sys/devices/system/cpu/smt/active", "1\n"),
        ("/sys/devices/system/cpu/smt/control", "on\n"),
        ("/sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil\n"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133\n"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6\n"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0\n"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "900\n"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "1\n"),
        ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
        ("/sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
        (
            "/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow",
            "Vulnerable: Safe RET, no microcode\n",
        ),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet tsc \n"),
        ("/sys/devices/system/node/node0/cpulist", "0\n"),
        ("/sys/devices/system/node/node1/cpulist", "1\n"),
        ("/sys/fs/cgroup/user/cpu.max", "50000 100000\n"),
        ("/sys/fs/cgroup/user/me/cpu.max", "150000 100000\n"),
        ("/proc/self/mountinfo", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/user/me\n"),
        ("/proc/self/status", "CapEff:\t0000000000000000\n"),
        ("/proc/self/schedstat", "0 0 0\n"),
        ("/proc/stat", "cpu0 90 0 0 0 0 0 0 10\ncpu1 100 0 0 0 0 0 0 0\n"),
        ("/proc/loadavg", "1.00 0.50 0.25 1/96 12961\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always\n"),
        ("/proc/vmstat", "nr_free_pages 5\npswpin 7\npswpout 8\n"),
    ]);
    let settings = [
        ("sched_rt_runtime_us", "950000"),
        ("sched_rt_period_us", "1000000"),
        ("timer_migration", "1"),
        ("numa_balancing", "1"),
        ("sched_autogroup_enabled", "1"),
        ("soft_watchdog", "1"),
        ("nmi_watchdog", "1"),
        ("task_delayacct", "0"),
        ("perf_event_paranoid", "2"),
    ];
    settings.iter().for_each(|(name, value)| {
        tree.write(&format!("/proc/sys/kernel/{name}"), value);
    });
    tree
}

/// The same server, prepared for measuring, as root.
fn prepared_server() -> Tree {
    let tree = plain_server();
    let settled = [
        ("/sys/devices/system/cpu/isolated", "\n"),
        ("/sys/devices/system/cpu/smt/active", "0\n"),
        ("/sys/devices/system/cpu/cpufreq/boost", "0\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1\n"),
        ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Vulnerable\n"),
        ("/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow", "Vulnerable\n"),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("/sys/fs/cgroup/user/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/user/me/cpu.max", "max 100000\n"),
        ("/proc/self/status", "CapEff:\t000001ffffffffff\n"),
        ("/proc/self/schedstat", "66158 48944 2\n"),
        ("/proc/stat", "cpu0 90 0 0 0 0 0 0 0\n"),
        ("/proc/pressure/cpu", "some avg10=0.00\n"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
        ("/sys/kernel/debug/sched/features", "PLACE_LAG\n"),
        ("/sys/kernel/sched_ext/state", "disabled\n"),
        ("/sys/kernel/btf/vmlinux", "\n"),
        ("/sys/bus/event_source/devices/cpu/type", "4\n"),
        ("/sys/bus/event_source/devices/power/events/energy-pkg", "event=0x02\n"),
    ];
    settled.iter().for_each(|(path, text)| tree.write(path, text));
    let switches = [
        "timer_migration",
        "numa_balancing",
        "sched_autogroup_enabled",
        "soft_watchdog",
        "nmi_watchdog",
    ];
    switches.iter().for_each(|name| tree.write(&format!("/proc/sys/kernel/{name}"), "0\n"));
    tree
}

fn findings(tree: &Tree, hypervisor: Option<&str>, disturbances: Vec<Disturbance>) -> Vec<Finding> {
    let host = tree.host();
    let identity = Identity {
        hostname: "box".to_string(),
        kernel_release: "6.18.0".to_string(),
        kernel_version: "#1 SMP PREEMPT_DYNAMIC".to_string(),
        affinity: "0-1".parse().unwrap(),
        hypervisor: Reading::Known(hypervisor.map(str::to_string)),
    };
    let environment = environment_of(&host, identity);
    let swapped_pages = match disturbances.len() {
        0 => Reading::Known(0),
        _ => Reading::Known(15),
    };
    inspect(&Machine { host: &host, environment, disturbances, swapped_pages })
}

fn disturbed() -> Vec<Disturbance> {
    let who = Interference {
        who: "x\u{1b}".to_string(),
        pid: 46,
        is_kernel_thread: false,
        with_children: false,
        cpu_ns: 460_000_000,
        cpu_share: 0.46,
    };
    let load = DisturbanceFact::OutsideLoad {
        named_share: Some(0.23),
        interferences: vec![who],
        others: None,
        unnamed_share: None,
    };
    let steal = DisturbanceFact::Steal { share: 0.02, worst_cpu: 1, worst_cpu_share: 0.03 };
    vec![
        Disturbance { share: Some(0.02), fact: steal },
        Disturbance { share: Some(0.23), fact: load },
    ]
}

#[test]
fn a_server_as_it_comes() {
    let found = findings(&plain_server(), Some("KVMKVMKVM"), disturbed());
    insta::assert_snapshot!(render(&found, 80, false));
}

#[test]
fn a_machine_prepared_for_measuring_is_all_good() {
    let found = findings(&prepared_server(), None, Vec::new());
    insta::assert_snapshot!(render(&found, 80, false));
}

#[test]
fn a_machine_that_reports_nothing_is_not_called_good() {
    let tree = Tree::with_files(&[("/etc/nothing", "")]);
    let found = findings(&tree, None, Vec::new());
    let good: Vec<&str> = found.iter().filter(|f| f.level == Level::Good).map(|f| f.name).collect();
    // Only what the test itself passed in next to the tree.
    let expected = ["virtualisation", "cpus", "swap"];
    assert_eq!(good, expected);
    assert!(found.iter().all(|finding| finding.level <= Level::Note), "{found:?}");
}

#[test]
fn every_check_has_a_name_of_its_own_and_a_place_in_the_docs() {
    let docs = include_str!("../../../../docs/doctor.md");
    let mut seen = std::collections::BTreeSet::new();
    for name in names() {
        assert!(seen.insert(name), "{name} twice");
        assert!(docs.contains(&format!("| {name} |")), "docs/doctor.md does not describe {name}");
    }
}

#[test]
fn lines_fit_and_every_finding_that_is_not_good_says_why() {
    for (hypervisor, disturbances) in [(Some("KVMKVMKVM"), disturbed()), (None, Vec::new())] {
        let found = findings(&plain_server(), hypervisor, disturbances);
        for width in [60, 80, 120] {
            for line in render(&found, width, false).lines() {
                let is_command = line.starts_with("          $ ");
                let is_one_word = line.split_whitespace().count() == 1;
                assert!(line.chars().count() <= width || is_command || is_one_word, "{line}");
            }
        }
        for finding in &found {
            assert_eq!(finding.why.is_empty(), finding.level == Level::Good, "{finding:?}");
            assert!(!finding.what.contains(char::is_control), "{finding:?}");
            let command = finding.fix.as_deref().unwrap_or("");
            assert!(command.len() <= 100, "{command}");
        }
        let levels: Vec<Level> = found.iter().map(|finding| finding.level).collect();
        assert!(levels.is_sorted_by(|a, b| a >= b), "worst first: {levels:?}");
    }
}

#[test]
fn colour_is_only_where_it_was_asked_for() {
    let found = findings(&plain_server(), None, Vec::new());
    assert!(!render(&found, 80, false).contains('\u{1b}'));
    let coloured = render(&found, 80, true);
    let plain = ["\u{1b}[1;31m", "\u{1b}[33m", "\u{1b}[36m", "\u{1b}[32m", "\u{1b}[0m"]
        .iter()
        .fold(coloured.clone(), |text, code| text.replace(code, ""));
    assert_ne!(coloured, plain);
    assert_eq!(plain, render(&found, 80, false));
}

#[test]
fn a_cgroup_v1_quota_is_found_and_fixed_as_root_without_sudo() {
    let tree = prepared_server();
    tree.write("/proc/self/mountinfo", "1 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    tree.write("/proc/self/cgroup", "1:cpu:/box\n");
    tree.write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "150000\n");
    tree.write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
    tree.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    tree.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    let found = findings(&tree, None, Vec::new());
    assert_eq!((found[0].name, found[0].level), ("cgroup-quota", Level::Blocks));
    assert_eq!(found[0].what, "1.50 CPUs, by /sys/fs/cgroup/cpu/box/cpu.cfs_quota_us");
    let fix = "echo -1 | tee /sys/fs/cgroup/cpu/box/cpu.cfs_quota_us";
    assert_eq!(found[0].fix.as_deref(), Some(fix));
}

#[test]
fn a_loaded_sched_ext_scheduler_disturbs() {
    let tree = prepared_server();
    tree.write("/sys/kernel/sched_ext/state", "enabled\n");
    tree.write("/sys/kernel/sched_ext/root/ops", "lavd\n");
    let found = findings(&tree, None, Vec::new());
    assert_eq!((found[0].name, found[0].level), ("sched-ext", Level::Disturbs));
    assert_eq!(found[0].what, "lavd is enabled");
}

#[test]
fn this_machine_is_looked_at_whole() {
    let found = checkup_over(&Host::default(), 1);
    assert_eq!(found.len(), CHECKS.len());
    assert!(found.iter().all(|finding| !finding.what.is_empty()), "{found:?}");
}
