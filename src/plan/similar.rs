//! Guesses what a user meant by an unknown word: a name of another tool, a part of a name, or a typing error. Pure.

use crate::model::mistyped;

/// Names in plans, and words of other tools and of the kernel for each. A name counts only if it is known there.
const ALIASES: &[(&str, &[&str])] = &[
    // Workloads.
    ("messaging", &["sched-messaging", "perf-bench-sched-messaging"]),
    ("pipe", &["sched-pipe", "perf-bench-sched-pipe", "pipe-test", "lat-ctx", "context1"]),
    ("loopback", &["netperf", "tcp-rr", "udp-rr", "iperf", "iperf3", "sockperf"]),
    ("spin", &["stress", "busy", "busy-loop", "hog"]),
    ("stress-ng", &["stress-ng-cpu"]),
    ("sysbench-cpu", &["sysbench"]),
    ("steps", &["rt-app"]),
    ("deadline", &["periodic"]),
    ("forkexec", &["lat-proc", "spawn", "fork", "exec", "vfork"]),
    ("burnwait", &["schedbench"]),
    ("schbench", &["adrestia", "web"]),
    ("service-chain", &["rpc", "microservices"]),
    // Knobs.
    ("cgroup-weight", &["weight", "cpu-weight", "cpu-shares", "shares"]),
    ("cgroup-max", &["cpu-max", "quota", "bandwidth"]),
    ("cgroup-idle", &["cpu-idle"]),
    ("policy", &["scheduler", "class", "sched-policy"]),
    ("priority", &["prio", "rtprio", "rt-priority"]),
    ("nice", &["niceness"]),
    ("affinity", &["cpus", "cpuset", "taskset", "pin"]),
    ("slice", &["timeslice", "time-slice", "sched-runtime"]),
    ("base-slice", &["base-slice-ns", "min-granularity", "min-granularity-ns"]),
    ("features", &["sched-features", "sched-feat"]),
    ("preempt", &["preemption", "preempt-dynamic"]),
    ("migration-cost", &["migration-cost-ns"]),
    ("scx", &["sched-ext", "bpf"]),
    ("kernel-args", &["cmdline", "append"]),
    ("kernel", &["bzimage"]),
    // Keys of worker sets and their workloads.
    ("use", &["workload", "type"]),
    ("count", &["groups", "instances", "copies", "jobs", "pairs"]),
    ("size", &["message-size", "data-size", "bytes"]),
    ("threads", &["worker-threads"]),
    ("cache-footprint", &["wss"]),
    ("workers", &["processes", "kind"]),
    ("rps", &["requests-per-second", "rate"]),
    ("period", &["interval"]),
    ("queue", &["queues"]),
    // Values of knobs, as the kernel has them.
    ("other", &["normal", "cfs", "eevdf", "none"]),
    // Words about metrics that a command prints.
    ("lower", &["less", "smaller"]),
    ("higher", &["more", "larger"]),
    ("ms", &["msec"]),
    ("us", &["usec"]),
    ("s", &["sec", "seconds"]),
    ("1/s", &["ops/s", "req/s"]),
    // Keys of sections.
    ("name", &["title", "label"]),
    ("rounds", &["repeat", "repetitions", "iterations", "runs"]),
    ("duration", &["runtime", "time"]),
    ("budget", &["timeout"]),
    ("variant", &["variants"]),
    ("workload", &["workloads"]),
    ("cpus", &["vcpus"]),
    ("memory", &["mem"]),
];

/// Words for what the place of the first one cannot have, and why.
const ABSENT: &[(&str, &[&str], &str)] = &[(
    "seeds",
    &["capacities", "capacity", "cpu-capacities", "cpu-capacity"],
    "no key gives the CPUs of an x86 guest unequal capacities: schedlab help lab --all",
)];

/// Suggests the word that was probably meant, or says that there is no such thing, or lists all known words.
pub fn suggestion(word: &str, known: &[&str]) -> String {
    let is_meant = |(place, words, _): &&(&str, &[&str], &str)| {
        known.contains(place) && words.contains(&word.to_lowercase().replace('_', "-").as_str())
    };
    if let Some((.., why)) = ABSENT.iter().find(is_meant) {
        return why.to_string();
    }
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
    let (name, _) = ALIASES.iter().find(|(_, aliases)| aliases.contains(&word))?;
    known.iter().copied().find(|known| known == name)
}

/// The known word that has `word` as a part between dashes, if it is the only one.
fn part<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let padded = format!("-{word}-");
    let mut found = known.iter().filter(|known| format!("-{known}-").contains(&padded));
    found.next().copied().filter(|_| !word.is_empty() && found.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        let mut seen = BTreeSet::new();
        for (target, aliases) in ALIASES {
            assert!(known.contains(target), "there is no {target}");
            for alias in *aliases {
                assert_eq!(alias.to_lowercase().replace(['_', ' ', '.'], "-"), *alias);
                assert!(seen.insert(alias), "{alias} twice");
            }
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
