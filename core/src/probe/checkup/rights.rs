//! Checks of this process's rights, and of the gain from more rights.

use crate::model::Reading;
use crate::sys::scheduler::{FEATURES, features_file, is_foreign};
use crate::sys::{environment, scheduler};

use super::capabilities;
use super::finding::{Level, Seen};
use super::machine::Machine;

pub fn privileges(machine: &Machine) -> Seen {
    let why = "the variants that need these are skipped, with their reason; all else runs \
               without privileges";
    match capabilities::missing(machine.host) {
        Reading::Known(missing) if missing.is_empty() => Seen::good("all that can be used"),
        Reading::Known(missing) => {
            let gains: Vec<String> =
                missing.iter().map(|(_, name, gain)| format!("{name} ({gain})")).collect();
            Seen::new(Level::Note, format!("without {}", gains.join(", ")), why)
                .fix("sudo schedlab run".to_string())
        }
        Reading::Unknown(reason) => Seen::unknown(reason, why),
    }
}

pub fn debugfs(machine: &Machine) -> Seen {
    let why = "variants that set scheduler features, base slice or preemption model are skipped";
    if let Some(path) = features_file(machine.host) {
        return match machine.host.reading(path) {
            Reading::Known(_) => Seen::good("scheduler features can be read"),
            Reading::Unknown(reason) => Seen::new(
                Level::Note,
                reason,
                "variants that set scheduler features, base slice or preemption model are skipped; \
                 a refusal to root is kernel lockdown, see /sys/kernel/security/lockdown",
            ),
        };
    }
    match (environment::debugfs(machine.host), scheduler(machine.host)) {
        (_, Reading::Known(other)) if is_foreign(&other) => {
            Seen::new(Level::Note, format!("{other} has no features"), why)
        }
        (Reading::Unknown(reason), _) => {
            let seen = Seen::new(Level::Note, reason.clone(), why);
            if reason.contains("not mounted") {
                let mount = "mount -t debugfs none /sys/kernel/debug";
                seen.fix(format!("{}{mount}", machine.sudo()))
            } else {
                seen
            }
        }
        (Reading::Known(()), _) => {
            Seen::new(Level::Note, format!("{} is not there", FEATURES[0]), why)
        }
    }
}

/// Tracepoints of the kernel want -1, or the capability.
pub fn perf_events(machine: &Machine) -> Seen {
    const PERFMON: u32 = 38;
    let why = "perf, run during a plan, sees no scheduler events as this user, and the probe \
               `counters` nothing above 0; all else needs none";
    match machine.number("/proc/sys/kernel/perf_event_paranoid") {
        Reading::Known(level) if level < 0 || capabilities::has(machine.host, PERFMON) => {
            Seen::good(format!("open (perf_event_paranoid {level})"))
        }
        Reading::Known(level) => {
            Seen::new(Level::Note, format!("perf_event_paranoid is {level}"), why)
                .fix(machine.sysctl("kernel.perf_event_paranoid", -1))
        }
        Reading::Unknown(reason) => Seen::unknown(reason, why),
    }
}

pub fn btf(machine: &Machine) -> Seen {
    let path = "/sys/kernel/btf/vmlinux";
    if machine.host.path(path).exists() {
        return Seen::good("the kernel describes its types");
    }
    Seen::new(
        Level::Note,
        format!("{path} is not there"),
        "without the kernel's type information (CONFIG_DEBUG_INFO_BTF) no BPF program loads: `score`, \
         `watch` and the probe `sched` see what /proc shows, and there is no `scx`",
    )
}
