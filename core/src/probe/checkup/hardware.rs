//! Checks of the processor, its clock and the hypervisor or container around it.

use std::collections::BTreeMap;

use crate::model::{CpuSet, DisturbanceFact, DisturbanceKind, Reading};
use crate::probe::counters;
use crate::sys::load;

use super::finding::{Level, Seen};
use super::machine::Machine;

const CPUS: &str = "/sys/devices/system/cpu";

/// Clock sources that are read in user space, without a system call.
const QUICK_CLOCKS: &[&str] =
    &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase", "xen"];

/// Waking from a state with more exit latency than this shows in a wakeup histogram.
const DEEP_IDLE_US: u64 = 20;

/// A share of steal since boot that is worth a word.
const STEAL_SINCE_BOOT: f64 = 0.005;

pub fn governor(machine: &Machine) -> Seen {
    let why = "the frequency follows the load, so a variant that sleeps more runs slower, and \
               the first milliseconds after each idle spell run slowest";
    match machine.environment.governor.as_ref() {
        Reading::Known(governor) if governor == "performance" => Seen::good(governor),
        Reading::Known(governor) => {
            let every = format!("{CPUS}/cpu*/cpufreq/scaling_governor");
            Seen::new(Level::Disturbs, governor, why).fix(machine.echo("performance", &every))
        }
        Reading::Unknown(reason) => Seen::unknown(
            reason,
            "the hypervisor or the firmware decides on the frequency, unseen from here",
        ),
    }
}

pub fn turbo(machine: &Machine) -> Seen {
    let why = "the frequency depends on temperature and on how many cores are busy, so a \
               variant that spreads its load wider has slower cores";
    match machine.environment.turbo.as_ref() {
        Reading::Known(state) if state == "off" => Seen::good("off"),
        Reading::Known(_) => {
            let intel = format!("{CPUS}/intel_pstate/no_turbo");
            let fix = if machine.host.path(&intel).exists() {
                machine.echo("1", &intel)
            } else {
                machine.echo("0", &format!("{CPUS}/cpufreq/boost"))
            };
            Seen::new(Level::Disturbs, "on", why).fix(fix)
        }
        Reading::Unknown(reason) => Seen::unknown(reason, why),
    }
}

pub fn smt(machine: &Machine) -> Seen {
    let why = "two threads share a core, so a worker's speed depends on what runs next to it; \
               leave it on only if that is what you study";
    match machine.environment.smt.as_ref() {
        Reading::Known(state) if state.starts_with("off") => Seen::good(state),
        Reading::Known(state) => Seen::new(Level::Disturbs, state, why)
            .fix(machine.echo("off", &format!("{CPUS}/smt/control"))),
        Reading::Unknown(reason) => Seen::unknown(reason, why),
    }
}

pub fn virtualisation(machine: &Machine) -> Seen {
    match machine.environment.virtualisation.as_ref() {
        Reading::Known(found) if found == "none" => Seen::good("none, bare metal"),
        Reading::Known(found) if !found.contains("machine") && !found.contains("Xen") => Seen::new(
            Level::Note,
            found,
            "a container shares its kernel: what else runs there cannot be seen from inside",
        ),
        Reading::Known(found) => Seen::new(
            Level::Disturbs,
            found,
            "the hypervisor schedules these CPUs below this kernel: timer interrupts and \
             wakeups between CPUs cost exits, and topology may be made up; trust ratios \
             within this machine, not its absolute times",
        ),
        Reading::Unknown(reason) => {
            Seen::unknown(reason, "under a hypervisor absolute times are not the kernel's alone")
        }
    }
}

pub fn steal(machine: &Machine) -> Seen {
    let why = "the hypervisor gave this machine's CPUs to others while they wanted to run: \
               rounds touched by it are marked in reports, only a quieter host helps";
    if let Some(now) = just_now(machine, DisturbanceKind::Steal) {
        return Seen::new(Level::Disturbs, now, why);
    }
    let times = match load::cpu_times(machine.host) {
        Reading::Known(times) => times,
        Reading::Unknown(reason) => return Seen::unknown(reason, why),
    };
    let sum = |of: fn(&load::CpuTimes) -> u64| times.values().map(of).map(u128::from).sum::<u128>();
    let steal_ns = sum(|times| times.steal_ns);
    let all_ns = sum(|times| times.task_ns)
        + sum(|times| times.interrupt_ns)
        + sum(|times| times.idle_ns)
        + steal_ns;
    let share = steal_ns as f64 / all_ns.max(1) as f64;
    let what = format!("{:.2} % since boot, none just now", share * 100.0);
    if share > STEAL_SINCE_BOOT { Seen::new(Level::Note, what, why) } else { Seen::good(what) }
}

pub fn load(machine: &Machine) -> Seen {
    let why = "load from outside is not noise, it is another experiment: it can turn a verdict \
               round; stop it, or keep it off the CPUs that you measure on";
    let average = match machine.environment.load_average.as_ref() {
        Reading::Known(average) => format!("load average {average}"),
        Reading::Unknown(reason) => return Seen::unknown(reason, why),
    };
    match just_now(machine, DisturbanceKind::OutsideLoad) {
        Some(now) => Seen::new(Level::Disturbs, format!("{now}; {average}"), why)
            .fix("ps -eo pid,user,pcpu,etime,comm --sort=-pcpu | head".to_string()),
        None => Seen::good(format!("quiet just now; {average}")),
    }
}

/// A disturbance of this kind just now: its share of the CPUs, and who interferes most.
fn just_now(machine: &Machine, kind: DisturbanceKind) -> Option<String> {
    let found = machine.disturbances.iter().find(|found| found.kind() == kind)?;
    let percent = 100.0 * found.share.unwrap_or(0.0);
    let DisturbanceFact::OutsideLoad { interferences, .. } = &found.fact else {
        return Some(format!("the hypervisor took {percent:.1} % of the pool's CPU time"));
    };
    let mut text = format!("other processes used {percent:.0} % of the pool");
    for (at, one) in interferences.iter().enumerate() {
        let comma = if at == 0 { ":" } else { "," };
        text.push_str(&format!("{comma} {} (pid {})", one.who, one.pid));
    }
    Some(text)
}

pub fn idle_states(machine: &Machine) -> Seen {
    let why = "waking a CPU from a deep idle state takes that long, and a variant that idles \
               more pays it more often";
    let folder = format!("{CPUS}/cpu0/cpuidle");
    let mut slowest: Option<(u64, String)> = None;
    for index in 0.. {
        let state = format!("{folder}/state{index}");
        let Ok(latency) = machine.host.read(format!("{state}/latency")) else { break };
        let is_off = machine.host.read(format!("{state}/disable")).is_ok_and(|text| text != "0");
        let Ok(latency_us) = latency.parse::<u64>() else { continue };
        if is_off || slowest.as_ref().is_some_and(|(slower_us, _)| *slower_us >= latency_us) {
            continue;
        }
        let name = machine.host.read(format!("{state}/name")).unwrap_or(format!("state{index}"));
        slowest = Some((latency_us, name));
    }
    match slowest {
        None => Seen::unknown(format!("{folder}: names no idle state"), why),
        Some((us, name)) if us <= DEEP_IDLE_US => {
            Seen::good(format!("the deepest, {name}, is left in {us} us"))
        }
        Some((us, name)) => {
            Seen::new(Level::Disturbs, format!("{name} takes {us} us to leave"), why)
                .fix(format!("{}cpupower idle-set -D {DEEP_IDLE_US}", machine.sudo()))
        }
    }
}

pub fn clock_source(machine: &Machine) -> Seen {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let why = "every clock read is a system call, and of a slow device: a latency sample costs \
               a microsecond or more, and workers wait for each other at the device";
    match machine.environment.clock_source.as_ref() {
        Reading::Known(source) if QUICK_CLOCKS.contains(&source.as_str()) => Seen::good(source),
        Reading::Known(source) => {
            let seen = Seen::new(Level::Disturbs, source, why);
            let others = machine.host.read(format!("{folder}/available_clocksource"));
            if others.is_ok_and(|others| others.split_ascii_whitespace().any(|name| name == "tsc"))
            {
                seen.fix(machine.echo("tsc", &format!("{folder}/current_clocksource")))
            } else {
                seen
            }
        }
        Reading::Unknown(reason) => Seen::unknown(reason, "a slow clock makes samples dear"),
    }
}

pub fn allowed_cpus(machine: &Machine) -> Seen {
    let topology = &machine.environment.topology;
    let (online, allowed) = (&topology.online, &topology.allowed);
    if allowed == online {
        return Seen::good(format!("all of {online} may be used"));
    }
    Seen::new(
        Level::Note,
        format!("only {allowed} of {online} may be used"),
        "plans are confined to these; the affinity mask or a cpuset of whoever started this \
         shell says so",
    )
    .fix(format!("taskset -pc {online} $$"))
}

pub fn isolated_cpus(machine: &Machine) -> Seen {
    let path = format!("{CPUS}/isolated");
    let allowed = &machine.environment.topology.allowed;
    match crate::sys::topology::cpu_list(machine.host, &path) {
        Reading::Unknown(reason) => Seen::unknown(reason, "isolated CPUs are not balanced"),
        Reading::Known(isolated) => {
            let used: CpuSet = isolated.iter().filter(|cpu| allowed.contains(*cpu)).collect();
            if used.is_empty() {
                return Seen::good("none that may be used");
            }
            Seen::new(
                Level::Disturbs,
                format!("{used} (boot argument isolcpus, or an isolated cpuset)"),
                "the scheduler does not balance load on isolated CPUs: workers stay where they \
                 were started; name other CPUs in the plan's placement",
            )
        }
    }
}

pub fn mitigations(machine: &Machine) -> Seen {
    let known: &BTreeMap<String, String> = &machine.environment.mitigations;
    if known.is_empty() {
        let reason = format!("{CPUS}/vulnerabilities: nothing there");
        return Seen::unknown(reason, "mitigations make system calls and switches dearer");
    }
    let active: Vec<&str> = known
        .iter()
        // `Vulnerable: Safe RET, no microcode` costs as much.
        .filter(|(_, state)| state.starts_with("Mitigation") || state.contains("Safe RET"))
        .map(|(name, _)| name.as_str())
        .collect();
    if active.is_empty() {
        return Seen::good("none at work");
    }
    Seen::new(
        Level::Note,
        active.join(", "),
        "they make system calls and context switches dearer, for all variants alike: compare \
         only machines that have the same; the boot argument mitigations=off is for machines \
         that run nothing else",
    )
}

/// The events that the probe `counters` can count; another check covers its rights.
pub fn counters(machine: &Machine) -> Seen {
    let why = "the probe `counters` has page faults, switches and migrations all the same; of \
               what is not shown its metrics are unknown";
    let shown = [
        (!counters::cpu_units(machine.host).is_empty(), "counters of the CPU"),
        (counters::is_metered(machine.host), "meters of energy"),
    ];
    let named = |wanted: bool| {
        let names = shown.iter().filter(|(is_shown, _)| *is_shown == wanted);
        names.map(|(_, name)| *name).collect::<Vec<_>>()
    };
    match named(false).join(" and no ") {
        none if none.is_empty() => Seen::good(named(true).join(", ")),
        hidden => Seen::new(Level::Note, format!("this machine shows no {hidden}"), why),
    }
}
