//! Guesses what a user meant by an unknown word: a name of another tool, a part of a name, or a typing error. Pure.

use crate::model::mistyped;

/// Words of other tools and of the kernel, and their names in plans. A target counts only if it is known there.
const ALIASES: &[(&str, &str)] = &[
    // Workloads.
    ("sched-messaging", "messaging"),
    ("perf-bench-sched-messaging", "messaging"),
    ("sched-pipe", "pipe"),
    ("perf-bench-sched-pipe", "pipe"),
    ("pipe-test", "pipe"),
    ("lat-ctx", "pipe"),
    ("context1", "pipe"),
    ("netperf", "loopback"),
    ("tcp-rr", "loopback"),
    ("udp-rr", "loopback"),
    ("iperf", "loopback"),
    ("iperf3", "loopback"),
    ("sockperf", "loopback"),
    ("stress", "spin"),
    ("stress-ng-cpu", "stress-ng"),
    ("sysbench", "sysbench-cpu"),
    ("busy", "spin"),
    ("busy-loop", "spin"),
    ("hog", "spin"),
    ("rt-app", "steps"),
    ("periodic", "deadline"),
    ("lat-proc", "forkexec"),
    ("spawn", "forkexec"),
    ("fork", "forkexec"),
    ("exec", "forkexec"),
    ("vfork", "forkexec"),
    ("schedbench", "burnwait"),
    ("adrestia", "schbench"),
    ("web", "schbench"),
    ("rpc", "service-chain"),
    ("microservices", "service-chain"),
    // Knobs.
    ("weight", "cgroup-weight"),
    ("cpu-weight", "cgroup-weight"),
    ("cpu-shares", "cgroup-weight"),
    ("shares", "cgroup-weight"),
    ("cpu-max", "cgroup-max"),
    ("quota", "cgroup-max"),
    ("bandwidth", "cgroup-max"),
    ("cpu-idle", "cgroup-idle"),
    ("scheduler", "policy"),
    ("class", "policy"),
    ("sched-policy", "policy"),
    ("prio", "priority"),
    ("rtprio", "priority"),
    ("rt-priority", "priority"),
    ("niceness", "nice"),
    ("cpus", "affinity"),
    ("cpuset", "affinity"),
    ("taskset", "affinity"),
    ("pin", "affinity"),
    ("timeslice", "slice"),
    ("time-slice", "slice"),
    ("sched-runtime", "slice"),
    ("base-slice-ns", "base-slice"),
    ("min-granularity", "base-slice"),
    ("min-granularity-ns", "base-slice"),
    ("sched-features", "features"),
    ("sched-feat", "features"),
    ("preemption", "preempt"),
    ("preempt-dynamic", "preempt"),
    ("migration-cost-ns", "migration-cost"),
    ("sched-ext", "scx"),
    ("bpf", "scx"),
    ("cmdline", "kernel-args"),
    ("append", "kernel-args"),
    ("bzimage", "kernel"),
    // Keys of worker sets and their workloads.
    ("workload", "use"),
    ("type", "use"),
    ("groups", "count"),
    ("instances", "count"),
    ("copies", "count"),
    ("jobs", "count"),
    ("pairs", "count"),
    ("message-size", "size"),
    ("data-size", "size"),
    ("bytes", "size"),
    ("worker-threads", "threads"),
    ("wss", "cache-footprint"),
    ("processes", "workers"),
    ("kind", "workers"),
    ("requests-per-second", "rps"),
    ("rate", "rps"),
    ("interval", "period"),
    ("queues", "queue"),
    // Values of knobs, as the kernel has them.
    ("normal", "other"),
    ("cfs", "other"),
    ("eevdf", "other"),
    ("none", "other"),
    // Words about metrics that a command prints.
    ("less", "lower"),
    ("smaller", "lower"),
    ("more", "higher"),
    ("larger", "higher"),
    ("msec", "ms"),
    ("usec", "us"),
    ("sec", "s"),
    ("seconds", "s"),
    ("ops/s", "1/s"),
    ("req/s", "1/s"),
    // Keys of sections.
    ("title", "name"),
    ("label", "name"),
    ("repeat", "rounds"),
    ("repetitions", "rounds"),
    ("iterations", "rounds"),
    ("runs", "rounds"),
    ("runtime", "duration"),
    ("time", "duration"),
    ("timeout", "budget"),
    ("variants", "variant"),
    ("workloads", "workload"),
    ("vcpus", "cpus"),
    ("mem", "memory"),
];

/// Suggests the word that was probably meant, or lists all known words.
pub fn suggestion(word: &str, known: &[&str]) -> String {
    if let Some(near) = nearest(word, known) {
        return format!("did you mean `{near}`?");
    }
    let known: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    format!("known here: {}", known.join(", "))
}

/// The known word that was probably meant.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // No known word is as long, and the distance takes the product of both lengths.
    const MAX_BYTES: usize = 100;
    if word.len() > MAX_BYTES {
        return None;
    }
    let word = word.to_lowercase().replace(['_', ' ', '.'], "-");
    // The kernel's constants have a prefix: SCHED_BATCH.
    let of_kernel = || nearest(word.strip_prefix("sched-")?, known);
    alias(&word, known)
        .or_else(|| mistyped(&word, known.iter().copied()))
        .or_else(|| part(&word, known))
        .or_else(of_kernel)
}

fn alias<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let targets = ALIASES.iter().filter(|(alias, _)| *alias == word);
    targets.filter_map(|(_, target)| known.iter().copied().find(|known| known == target)).next()
}

/// The known word that has `word` as a part between dashes, if it is the only one.
fn part<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let padded = format!("-{word}-");
    let mut found = known.iter().filter(|known| format!("-{known}-").contains(&padded));
    found.next().copied().filter(|_| !word.is_empty() && found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;
    use crate::plan::fields::{
        LAB, LAB_MODEL, MEASURE, OUTPUT, PLACEMENT, SET, SET_KEYS, TOP_KEYS, names,
    };
    use crate::plan::programs;
    use crate::{variant, workload};

    #[test]
    fn aliases_are_spelt_as_they_are_compared_and_lead_to_what_there_is() {
        let mut known = [TOP_KEYS, SET_KEYS].concat();
        known.extend([MEASURE, PLACEMENT, LAB, LAB_MODEL, SET].into_iter().flat_map(names));
        known.extend(variant::fields().iter().map(|knob| knob.name));
        for workload in workload::registry() {
            known.push(workload.spec().name);
            known.extend(names(workload.spec().params));
        }
        known.extend(programs().iter().map(|program| program.name.as_str()));
        let fields = [variant::fields().as_slice(), OUTPUT].concat();
        known.extend(fields.iter().flat_map(|field| match field.kind {
            Kind::Choice(words) => words,
            _ => &[],
        }));
        for (at, (alias, target)) in ALIASES.iter().enumerate() {
            assert!(known.contains(target), "{alias}: there is no {target}");
            assert_eq!(alias.to_lowercase().replace(['_', ' ', '.'], "-"), *alias);
            assert!(!ALIASES[..at].iter().any(|(other, _)| other == alias), "{alias} twice");
        }
    }

    #[test]
    fn the_nearest_word_is_an_alias_a_typing_error_or_a_part() {
        let workloads: Vec<&str> =
            workload::registry().iter().map(|workload| workload.spec().name).collect();
        let fields = variant::fields();
        let knobs = names(&fields);
        let cases: &[(&str, &[&str], Option<&str>)] = &[
            ("lat_ctx", &workloads, Some("pipe")),
            ("Lat-Ctx", &workloads, Some("pipe")),
            ("perf bench sched pipe", &workloads, Some("pipe")),
            ("schebnch", &workloads, Some("schbench")),
            ("chain", &workloads, Some("service-chain")),
            ("TCP_RR", &workloads, Some("loopback")),
            ("postgres", &workloads, None),
            ("weight", &knobs, Some("cgroup-weight")),
            ("cpu.weight", &knobs, Some("cgroup-weight")),
            ("uclamp_min", &knobs, Some("uclamp-min")),
            ("uclamp", &knobs, None),
            ("cost", &knobs, Some("migration-cost")),
            ("priorty", &knobs, Some("priority")),
            ("SCHED_BATCH", &["other", "batch"], Some("batch")),
            ("SCHED_NORMAL", &["other", "batch"], Some("other")),
            ("msec", &["ns", "ms"], Some("ms")),
            ("sched_", &["other"], None),
            ("", &knobs, None),
            // An alias counts only where its target is known.
            ("lat-ctx", &knobs, None),
        ];
        for (word, known, expected) in cases {
            assert_eq!(nearest(word, known), *expected, "{word}");
        }
        assert_eq!(nearest(&"n".repeat(1 << 20), &knobs), None);
    }
}
