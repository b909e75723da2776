//! Which scheduler ordinary tasks run under, as the running kernel's own files show it. What a release or
//! a configuration would suggest is no evidence here: patches replace the scheduler of any release.
//!
//! Input: files below the host's root. Nothing is changed.

use std::path::Path;

use crate::model::Reading;

use super::Host;

/// A file that schedulers of one kind alone have; where a text is given, it holds that word.
struct Evidence {
    path: &'static str,
    word: Option<&'static str>,
    scheduler: &'static str,
}

const fn has(path: &'static str, scheduler: &'static str) -> Evidence {
    Evidence { path, word: None, scheduler }
}

const fn holds(path: &'static str, word: &'static str, scheduler: &'static str) -> Evidence {
    Evidence { path, word: Some(word), scheduler }
}

/// The first that is found decides: schedulers outside of mainline come first, since kernels with them keep
/// files of mainline's.
const EVIDENCE: &[Evidence] = &[
    has("/proc/sys/kernel/rr_interval", "MuQSS"),
    // Which of the two is seen in the configuration alone.
    has("/proc/sys/kernel/yield_type", "BMQ or PDS"),
    has("/proc/sys/kernel/sched_yield_type", "BMQ or PDS"),
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

/// The name of the sched_ext scheduler that is in charge, if one is.
pub fn sched_ext(host: &Host) -> Option<String> {
    let state = host.read(format!("{SCHED_EXT}/state")).ok()?;
    let name = host.read(Path::new(SCHED_EXT).join("root").join("ops")).ok()?;
    (state.trim() != "disabled" && !name.trim().is_empty()).then(|| name.trim().to_string())
}

/// Its name, or why it is not known.
pub fn scheduler(host: &Host) -> Reading<String> {
    if let Some(name) = sched_ext(host) {
        return Reading::Known(format!("sched_ext {name}"));
    }
    let is_there = |evidence: &&Evidence| match (host.read(evidence.path), evidence.word) {
        (Ok(text), Some(word)) => text.split_whitespace().any(|found| found.ends_with(word)),
        (found, None) => found.is_ok(),
        (Err(_), Some(_)) => false,
    };
    let found = EVIDENCE.iter().find(is_there).map(|evidence| evidence.scheduler.to_string());
    Reading::of(found, "no file of the kernel shows it; debugfs may not be mounted or readable")
}

#[cfg(test)]
mod tests {
    use super::*;

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
