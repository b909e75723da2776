//! The scheduler of ordinary tasks, as the running kernel's own files show it, and the files in which the kernel
//! keeps its settings. A release or a configuration is not evidence here: patches replace the scheduler of any
//! release.
//!
//! Input: files below the host's root. Nothing is changed.

use std::path::Path;

use crate::model::{self, Reading};

use super::Host;

/// A file that schedulers of one kind alone have; where a text is given, it holds that word.
struct Evidence {
    path: &'static str,
    word: Option<&'static str>,
    scheduler: &'static str,
}

impl Evidence {
    fn is_there(&self, host: &Host) -> bool {
        match (host.read(self.path), self.word) {
            (Ok(text), Some(word)) => text.split_whitespace().any(|found| found.ends_with(word)),
            (found, None) => found.is_ok(),
            (Err(_), Some(_)) => false,
        }
    }
}

const fn has(path: &'static str, scheduler: &'static str) -> Evidence {
    Evidence { path, word: None, scheduler }
}

const fn holds(path: &'static str, word: &'static str, scheduler: &'static str) -> Evidence {
    Evidence { path, word: Some(word), scheduler }
}

const MUQSS_EVIDENCE: Evidence = has("/proc/sys/kernel/rr_interval", MUQSS);

/// The first that is found decides: schedulers outside of mainline come first, since kernels with them keep
/// files of mainline's.
const EVIDENCE: &[Evidence] = &[
    MUQSS_EVIDENCE,
    // Only the configuration distinguishes these two.
    has("/proc/sys/kernel/yield_type", BMQ_OR_PDS),
    has("/proc/sys/kernel/sched_yield_type", BMQ_OR_PDS),
    has("/proc/sys/kernel/sched_bore", "BORE"),
    has("/sys/kernel/debug/sched/base_slice_ns", "EEVDF"),
    holds("/sys/kernel/debug/sched/features", "PLACE_LAG", "EEVDF"),
    // The kernel has it for every task since custom slices are there.
    holds("/proc/self/sched", "se.slice", "EEVDF"),
    has("/sys/kernel/debug/sched/min_granularity_ns", "CFS"),
    has("/proc/sys/kernel/sched_min_granularity_ns", "CFS"),
    holds("/sys/kernel/debug/sched/features", "GENTLE_FAIR_SLEEPERS", "CFS"),
    holds("/sys/kernel/debug/sched_features", "GENTLE_FAIR_SLEEPERS", "CFS"),
];

pub const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// The files in which kernels keep the features of mainline's scheduler: since Linux 5.13, and before.
pub const FEATURES: [&str; 2] =
    ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];

/// The place that this kernel has; `None`: neither can be seen.
pub fn features_file(host: &Host) -> Option<&'static str> {
    FEATURES.into_iter().find(|path| host.path(path).exists())
}

/// The beginnings of names below /proc/sys/kernel that are the scheduler's.
const SYSCTL_PREFIXES: [&str; 2] = ["sched_", "numa_balancing_"];
/// Other settings of the scheduler: mainline's, and those of MuQSS, some of which BMQ and PDS have too.
const OTHER_SYSCTLS: [&str; 5] =
    ["numa_balancing", "interactive", "iso_cpu", "rr_interval", "yield_type"];

/// Whether a file of /proc/sys/kernel sets the scheduler, by its name.
pub fn is_sysctl(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let rest = SYSCTL_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(letter))
        || OTHER_SYSCTLS.contains(&name)
}

/// The names that [`is_sysctl`] takes, for people.
pub fn sysctls() -> String {
    let prefixes = SYSCTL_PREFIXES.iter().map(|prefix| format!("{prefix}*"));
    let all: Vec<String> = prefixes.chain(OTHER_SYSCTLS.map(str::to_string)).collect();
    all.join(", ")
}

/// Whether ordinary tasks are not under mainline's fair scheduler or one that keeps all of its settings:
/// it then has no features, no custom slices and no CPU weights of cgroups.
pub fn is_foreign(scheduler: &str) -> bool {
    [MUQSS, BMQ_OR_PDS].contains(&scheduler)
}

/// Whether the scheduler is known to count the busy time of CPUs twice in /proc/stat.
pub fn counts_busy_twice(host: &Host) -> bool {
    // MuQSS has no sched_ext, and its evidence alone decides. To ask for the others costs as much as some requests.
    MUQSS_EVIDENCE.is_there(host)
}

const MUQSS: &str = "MuQSS";
const BMQ_OR_PDS: &str = "BMQ or PDS";

/// The name of the sched_ext scheduler that is in charge, if one is.
pub fn sched_ext(host: &Host) -> Option<String> {
    let state = host.read(format!("{SCHED_EXT}/state")).ok()?;
    let name = host.read(Path::new(SCHED_EXT).join("root").join("ops")).ok()?;
    (state.trim() != "disabled" && !name.trim().is_empty()).then(|| name.trim().to_string())
}

/// The scheduler's name, or why it is not known.
pub fn scheduler(host: &Host) -> Reading<String> {
    if let Some(name) = sched_ext(host) {
        return Reading::Known(format!("{}{name}", model::SCHED_EXT));
    }
    let found = EVIDENCE.iter().find(|evidence| evidence.is_there(host));
    let found = found.map(|evidence| evidence.scheduler.to_string());
    Reading::from_option(
        found,
        "no file of the kernel shows it; debugfs may not be mounted or readable",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_settings_are_known_by_their_names() {
        let own = [
            "sched_rr_timeslice_ms",
            "sched_bore",
            "sched_burst_penalty_scale",
            "numa_balancing",
            "numa_balancing_scan_delay_ms",
            "interactive",
            "iso_cpu",
            "rr_interval",
            "yield_type",
        ];
        assert!(own.into_iter().all(is_sysctl), "{own:?}");
        let others = [
            "panic",
            "pid_max",
            "core_pattern",
            "sched_",
            "sched_../panic",
            "Sched_x",
            "interactive_",
            "numa_balancing_",
            "hung_task_timeout_secs",
            "",
        ];
        assert!(!others.into_iter().any(is_sysctl), "{others:?}");
        for name in OTHER_SYSCTLS {
            assert!(sysctls().contains(name), "{name}");
        }
    }

    #[test]
    fn the_kernels_files_show_the_scheduler() {
        let features = "/sys/kernel/debug/sched/features";
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>);
        let cases: &[Case] = &[
            (&[], None),
            (&[(features, "HRTICK TTWU_QUEUE\n")], None),
            (&[(features, "PLACE_LAG NO_HRTICK\n")], Some("EEVDF")),
            (&[(features, "NO_PLACE_LAG HRTICK\n")], Some("EEVDF")),
            (&[(features, "NO_GENTLE_FAIR_SLEEPERS\n")], Some("CFS")),
            (&[("/sys/kernel/debug/sched_features", "GENTLE_FAIR_SLEEPERS\n")], Some("CFS")),
            (&[("/proc/self/sched", "x (1)\nse.slice : 3000000\n")], Some("EEVDF")),
            (&[("/proc/self/sched", "x (1)\nse.vruntime : 1\n")], None),
            // A kernel with another scheduler keeps what mainline has.
            (&[(features, "PLACE_LAG\n"), ("/proc/sys/kernel/sched_bore", "1\n")], Some("BORE")),
            (&[("/proc/sys/kernel/rr_interval", "6\n")], Some("MuQSS")),
            (&[("/proc/sys/kernel/yield_type", "1\n")], Some("BMQ or PDS")),
            (
                &[
                    ("/sys/kernel/sched_ext/state", "enabled\n"),
                    ("/sys/kernel/sched_ext/root/ops", "bpfland\n"),
                    (features, "PLACE_LAG\n"),
                ],
                Some("sched_ext bpfland"),
            ),
        ];
        for (files, expected) in cases {
            let dir = tempfile::tempdir().unwrap();
            let host = Host::below(dir.path());
            for (path, text) in *files {
                std::fs::create_dir_all(host.path(path).parent().unwrap()).unwrap();
                std::fs::write(host.path(path), text).unwrap();
            }
            assert_eq!(scheduler(&host).known().as_deref(), *expected, "{files:?}");
        }
    }
}
