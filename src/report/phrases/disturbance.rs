//! Disturbances in English. Pure.

use crate::model::{
    CpuSet, CpuTimeOf, DisturbanceFact, Interference, OtherProcesses, SettingChange, Throttled,
    ThrottledPart, show_duration, times,
};

use crate::report::layout::clean;
use crate::report::numbers::Scale;

use super::words::{joined, listed};

/// One line, clean, without a full stop.
pub fn disturbance(fact: &DisturbanceFact) -> String {
    let text = match fact {
        DisturbanceFact::Steal { share, worst_cpu, worst_cpu_share } => format!(
            "the hypervisor took {} of the pool's CPU time (most from CPU {worst_cpu}: {})",
            percent(*share),
            percent(*worst_cpu_share),
        ),
        DisturbanceFact::OutsideLoad { named_share, interferences, others, unnamed_share } => {
            let others = others.iter().map(|OtherProcesses { processes, cpu_share, .. }| {
                let word = if *processes == 1 { "other" } else { "others" };
                format!("{processes} {word} {}", percent(*cpu_share))
            });
            let all = joined(interferences.iter().map(interference).chain(others), ", ");
            let named = named_share.map(percent).map(|share| {
                format!("other processes used {share} of the pool: {all} (of one CPU each)")
            });
            let unnamed = unnamed_share.map(percent).map(|share| {
                format!(
                    "processes that no list shows used {share} of the pool: they were short-lived \
                     or hidden"
                )
            });
            joined(named.into_iter().chain(unnamed), "; ")
        }
        DisturbanceFact::Throttling { parts } => {
            format!("throttled: {}", joined(parts.iter().map(throttled), ", "))
        }
        DisturbanceFact::FrequencyChange { changes } => {
            joined(changes.iter().map(setting_change), "; ")
        }
        DisturbanceFact::ClockSourceChange { before, after } => {
            format!("the clock source changed from {before} to {after}")
        }
        DisturbanceFact::ClockStep { stepped_ns, suspended_ns } => {
            clock_step(*stepped_ns, *suspended_ns)
        }
        DisturbanceFact::CpuHotplug { pool_cpus, lost_from_pool, lost_elsewhere, came } => {
            hotplug(*pool_cpus, lost_from_pool, lost_elsewhere, came)
        }
        DisturbanceFact::StarvedWorkers { set, idle, workers } => {
            format!("{idle} of {workers} workers of `{set}` completed nothing")
        }
        DisturbanceFact::UnderWay { set, latency, under_way, of, oldest_ns, bounds, .. } => {
            let begun = format!("{under_way} of {of} latencies `{latency}` of `{set}`");
            counted_with_age(&begun, *oldest_ns, bounds)
        }
        DisturbanceFact::Cut { set, latency, cut, of, longest_ns, bounds } => {
            cut_by_switches(set, latency.as_deref(), (*cut, *of), *longest_ns, bounds)
        }
        DisturbanceFact::CountedWork { sets } => counted_work(sets),
        DisturbanceFact::CpuTimeAboveWall { of, counted_cpus, cpus } => {
            cpu_time(*of, *counted_cpus, *cpus)
        }
        DisturbanceFact::ProbeSource { probe, source, missed } => {
            let missed = missed.iter().map(|one| format!("{}: {}", one.source, one.why));
            format!("{probe} counted by {source}, since {}", joined(missed, "; "))
        }
        DisturbanceFact::LateChange { at_ns, late_ns } => late_change(*at_ns, *late_ns),
        DisturbanceFact::LateBlocks { shorter, left_out, of } => format!(
            "{left_out} of a variant's {of} blocks did not count, and {shorter} lost over a tenth of the time that \
             counts, since the measuring thread ran late or a switch took long: longer `turns` lose less"
        ),
        DisturbanceFact::Text { detail, .. } => detail.clone(),
    };
    clean(&text)
}

fn counted_with_age(begun: &str, oldest_ns: u64, bounds: &[String]) -> String {
    format!(
        "{begun} had begun and not ended when the run ended, the oldest {} ago; they count with that \
         age, so {}",
        Scale::time(oldest_ns as f64),
        lower_bounds(bounds),
    )
}

fn cut_by_switches(
    set: &str,
    latency: Option<&str>,
    (cut, all): (u64, u64),
    longest_ns: u64,
    bounds: &[String],
) -> String {
    let (things, longest) = match latency {
        Some(latency) => (
            format!("latencies `{latency}`"),
            format!(", the longest {}", Scale::time(longest_ns as f64)),
        ),
        None => ("operations".to_string(), String::new()),
    };
    format!(
        "{cut} of {all} {things} of `{set}` began before a switch between variants and ended after it{longest}; they \
         count for no variant, so {}",
        lower_bounds(bounds),
    )
}

fn counted_work(sets: &[String]) -> String {
    format!(
        "the work of {} is an amount of operations, which take another time in the lab than on a machine, \
         so it is another load here: give it as a time (schedlab help lab)",
        listed(sets),
    )
}

fn lower_bounds(metrics: &[String]) -> String {
    let verb = if metrics.len() == 1 { "is a lower bound" } else { "are lower bounds" };
    format!("{} {verb}", listed(metrics))
}

fn cpu_time(of: CpuTimeOf, counted_cpus: f64, cpus: u32) -> String {
    let (who, left_out) = match of {
        CpuTimeOf::Cpus => ("/proc/stat", "what /proc/stat says of load is left out"),
        CpuTimeOf::Workers => {
            ("the clocks of workers", "their CPU time, utilisation and shares are left out")
        }
    };
    let plural = if cpus == 1 { "" } else { "s" };
    format!(
        "{who} counted {counted_cpus:.2} s of CPU time a second on {cpus} CPU{plural}, as schedulers do \
         that count twice (MuQSS): {left_out}"
    )
}

fn late_change(at_ns: u64, late_ns: Option<u64>) -> String {
    let at = show_duration(at_ns);
    let Some(late_ns) = late_ns else { return format!("the run ended before its change at {at}") };
    format!("the change at {at} was made {} late", Scale::time(late_ns as f64))
}

fn interference(one: &Interference) -> String {
    let Interference { who, pid, is_kernel_thread, with_children, cpu_share, .. } = one;
    let kernel = if *is_kernel_thread { "kernel thread, " } else { "" };
    let children = if *with_children { " and its ended children" } else { "" };
    format!("{who}{children} ({kernel}pid {pid}) {}", percent(*cpu_share))
}

fn throttled(Throttled { part, events }: &Throttled) -> String {
    let times = times(*events);
    match part {
        ThrottledPart::Core(cpu) => format!("CPU {cpu}'s core {times}"),
        ThrottledPart::Package(cpu) => format!("CPU {cpu}'s package {times}"),
        ThrottledPart::Cgroup(path) => format!("cgroup {path} {times}"),
    }
}

fn setting_change(change: &SettingChange) -> String {
    let SettingChange { setting, cpus: on, before, after } = change;
    let on = if on.is_empty() { String::new() } else { format!(" of {}", cpus(on)) };
    format!("{setting}{on} changed from {before} to {after}")
}

fn clock_step(stepped_ns: i64, suspended_ns: i64) -> String {
    let milliseconds = |ns: i64| format!("{:.1} ms", ns as f64 / 1e6);
    let suspended = (suspended_ns != 0)
        .then(|| format!("the machine was suspended for {}", milliseconds(suspended_ns)));
    let stepped = (stepped_ns != 0).then(|| {
        let direction = if stepped_ns > 0 { "forwards" } else { "backwards" };
        let size = milliseconds(stepped_ns.saturating_abs());
        format!("the wall clock was stepped {direction} by {size}")
    });
    joined(suspended.into_iter().chain(stepped), "; ")
}

fn hotplug(pool_cpus: u32, lost: &CpuSet, elsewhere: &CpuSet, came: &CpuSet) -> String {
    let left = (pool_cpus as usize).saturating_sub(lost.len());
    let left = format!("{left} of {pool_cpus} CPUs were left, do not use this run");
    let parts = [
        (lost, format!("of the pool went offline: {left}")),
        (elsewhere, "outside the pool went offline".to_string()),
        (came, "came online".to_string()),
    ];
    let parts = parts.iter().filter(|(set, _)| !set.is_empty());
    joined(parts.map(|(set, what)| format!("{} {what}", cpus(set))), "; ")
}

fn cpus(set: &CpuSet) -> String {
    if set.len() == 1 { format!("CPU {set}") } else { format!("CPUs {set}") }
}

/// Two digits that say something: `0.7 %`, `3.1 %`, `37 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DisturbanceKind, MissedSource};

    fn process(who: &str, pid: i32, cpu_share: f64) -> Interference {
        Interference {
            who: who.to_string(),
            pid,
            is_kernel_thread: false,
            with_children: false,
            cpu_ns: 0,
            cpu_share,
        }
    }

    #[test]
    fn every_fact_has_its_line() {
        let kernel_thread = Interference { is_kernel_thread: true, ..process("kswapd0", 7, 0.1) };
        let parent = Interference { with_children: true, ..process("ba\u{1b}sh", 20, 0.401) };
        let set = |text: &str| text.parse::<CpuSet>().unwrap_or_default();
        let change = |cpus: &str| SettingChange {
            setting: "scaling_max_freq".to_string(),
            cpus: set(cpus),
            before: "2".to_string(),
            after: "1".to_string(),
        };
        let throttled = |part, events| Throttled { part, events };
        let cases = [
            (
                DisturbanceFact::Steal { share: 0.02, worst_cpu: 3, worst_cpu_share: 0.126 },
                "the hypervisor took 2.0 % of the pool's CPU time (most from CPU 3: 13 %)",
            ),
            (
                DisturbanceFact::OutsideLoad {
                    named_share: Some(0.27),
                    interferences: vec![parent, kernel_thread],
                    others: Some(OtherProcesses { processes: 1, cpu_ns: 0, cpu_share: 0.05 }),
                    unnamed_share: Some(0.2),
                },
                "other processes used 27 % of the pool: ba\\u{1b}sh and its ended children (pid 20) \
                 40 %, kswapd0 (kernel thread, pid 7) 10 %, 1 other 5.0 % (of one CPU each); \
                 processes that no list shows used 20 % of the pool: they were short-lived or hidden",
            ),
            (
                DisturbanceFact::Throttling {
                    parts: vec![
                        throttled(ThrottledPart::Core(0), 2),
                        throttled(ThrottledPart::Cgroup("/sys/fs/cgroup/a".to_string()), 1),
                    ],
                },
                "throttled: CPU 0's core 2 times, cgroup /sys/fs/cgroup/a once",
            ),
            (
                DisturbanceFact::FrequencyChange { changes: vec![change(""), change("0-1")] },
                "scaling_max_freq changed from 2 to 1; scaling_max_freq of CPUs 0-1 changed from 2 \
                 to 1",
            ),
            (
                DisturbanceFact::ClockSourceChange { before: "tsc".into(), after: "hpet".into() },
                "the clock source changed from tsc to hpet",
            ),
            (
                DisturbanceFact::ClockStep { stepped_ns: -2_000_000, suspended_ns: 3_000_000_000 },
                "the machine was suspended for 3000.0 ms; the wall clock was stepped backwards by \
                 2.0 ms",
            ),
            (
                DisturbanceFact::CpuHotplug {
                    pool_cpus: 2,
                    lost_from_pool: set("1"),
                    lost_elsewhere: set("2-3"),
                    came: set("4"),
                },
                "CPU 1 of the pool went offline: 1 of 2 CPUs were left, do not use this run; CPUs \
                 2-3 outside the pool went offline; CPU 4 came online",
            ),
            (
                DisturbanceFact::StarvedWorkers { set: "web".into(), idle: 1, workers: 4 },
                "1 of 4 workers of `web` completed nothing",
            ),
            (
                DisturbanceFact::UnderWay {
                    set: "web".into(),
                    latency: "request".into(),
                    under_way: 30,
                    of: 34,
                    oldest_ns: 2_940_000_000,
                    bounds: vec!["request_p50".into(), "request_max".into()],
                    ages: Vec::new(),
                },
                "30 of 34 latencies `request` of `web` had begun and not ended when the run ended, the \
                 oldest 2.94 s ago; they count with that age, so request_p50 and request_max are lower \
                 bounds",
            ),
            (
                DisturbanceFact::Cut {
                    set: "web".into(),
                    latency: Some("request".into()),
                    cut: 3,
                    of: 300,
                    longest_ns: 70_000_000,
                    bounds: vec!["request_p99".into()],
                },
                "3 of 300 latencies `request` of `web` began before a switch between variants and ended \
                 after it, the longest 70.0 ms; they count for no variant, so request_p99 is a lower bound",
            ),
            (
                DisturbanceFact::Cut {
                    set: "web".into(),
                    latency: None,
                    cut: 3,
                    of: 150,
                    longest_ns: 0,
                    bounds: vec!["throughput".into()],
                },
                "3 of 150 operations of `web` began before a switch between variants and ended after it; \
                 they count for no variant, so throughput is a lower bound",
            ),
            (
                DisturbanceFact::CountedWork { sets: vec!["front".into(), "db".into()] },
                "the work of front and db is an amount of operations, which take another time in the \
                 lab than on a machine, so it is another load here: give it as a time (schedlab help lab)",
            ),
            (
                DisturbanceFact::CpuTimeAboveWall {
                    of: CpuTimeOf::Workers,
                    counted_cpus: 3.99,
                    cpus: 2,
                },
                "the clocks of workers counted 3.99 s of CPU time a second on 2 CPUs, as schedulers do \
                 that count twice (MuQSS): their CPU time, utilisation and shares are left out",
            ),
            (
                DisturbanceFact::LateChange { at_ns: 1_500_000_000, late_ns: Some(5_400_000) },
                "the change at 1500ms was made 5.40 ms late",
            ),
            (
                DisturbanceFact::LateChange { at_ns: 2_000_000_000, late_ns: None },
                "the run ended before its change at 2s",
            ),
            (
                DisturbanceFact::LateBlocks { shorter: 3, left_out: 1, of: 20 },
                "1 of a variant's 20 blocks did not count, and 3 lost over a tenth of the time that counts, \
                 since the measuring thread ran late or a switch took long: longer `turns` lose less",
            ),
            (
                DisturbanceFact::ProbeSource {
                    probe: "sched".into(),
                    source: "procfs".into(),
                    missed: [("bpf", "no B\u{1b}TF"), ("perf", "EACCES")]
                        .map(|(source, why)| MissedSource {
                            source: source.into(),
                            why: why.into(),
                        })
                        .into(),
                },
                "sched counted by procfs, since bpf: no B\\u{1b}TF; perf: EACCES",
            ),
            (
                DisturbanceFact::Text { kind: DisturbanceKind::Steal, detail: "\u{7}x".into() },
                "\\u{7}x",
            ),
        ];
        for (fact, line) in cases {
            assert_eq!(disturbance(&fact), line);
        }
    }
}
