//! Measures this machine for the lab, in half a minute: the cost of a system call, a switch, a wake, a timer and a
//! migration, and the parts that CPUs share.
//!
//! Input: the machine, which should do nothing else meanwhile. Output: a [`Twin`]; each value that could not be
//! measured has its reason. Threads are pinned, and nothing is allocated while time is measured. Changes nothing
//! that outlives its own threads.

mod calls;
mod migration;
mod pinned;
mod samples;
mod timer;
mod wake;
mod work;

use std::collections::BTreeMap;

use crate::model::{Cost, CpuSet, Reading, TWIN_VERSION, Topology, Twin, TwinTopology};
use crate::sys::host::error_text;
use crate::sys::{Host, clock, environment, load, sched, thread, topology};

use super::ExecError;
use pinned::{Pair, joined};
use samples::rounded;

/// How often each time is measured: half a minute in all where nothing else runs.
const SAMPLES: usize = 2_000;

/// Measures this machine. Fails where threads cannot be pinned.
pub fn measure_twin(host: &Host) -> Result<Twin, ExecError> {
    measure(host, SAMPLES)
}

fn measure(host: &Host, samples: usize) -> Result<Twin, ExecError> {
    let about = environment(host);
    let others = OtherLoad::begin(host);
    let groups = &about.topology;
    let near = near(groups);
    let far = far(groups);
    let mut costs = BTreeMap::new();
    let one = groups.usable().iter().next().unwrap_or_default();
    calls::measure(one, samples / 5, &mut costs)?;
    timer::measure(one, samples, &mut costs)?;
    // Samples are many, so that they contain the interference of others on this machine.
    work::measure(one, groups.usable(), 5 * samples, &mut costs)?;
    for (pair, is_near) in [(near, true), (far, false)] {
        match pair {
            Reading::Known(pair) => {
                wake::measure(pair, is_near, samples, &mut costs)?;
                migration::measure(pair, is_near, samples / 5, &mut costs)?;
            }
            Reading::Unknown(why) => {
                for cost in of_pair(is_near) {
                    costs.insert(*cost, Reading::Unknown(why.clone()));
                }
            }
        }
    }
    Ok(Twin {
        version: TWIN_VERSION,
        cpu_model: about.cpu_model.clone(),
        kernel_release: about.kernel_release.clone(),
        virtualisation: about.virtualisation.clone(),
        tick_hz: Reading::from_option(clock::tick_hz(), "the coarse clock has no resolution"),
        preemption: preemption(&about.tunables),
        timer_slack_ns: workers_timer_slack_ns(),
        other_load: others.end(host),
        topology: counts(host, groups, &about.virtualisation),
        costs,
    })
}

/// The timer slack of workers that do not set their own.
fn workers_timer_slack_ns() -> Reading<u64> {
    let worker = || {
        thread::become_ordinary().map_err(|error| error.to_string())?;
        sched::own_timer_slack_ns()
            .map_err(|error| format!("PR_GET_TIMERSLACK: {}", error_text(&error)))
    };
    std::thread::scope(|threads| joined(threads.spawn(worker)))
        .map_or_else(Reading::Unknown, Reading::Known)
}

fn preemption(tunables: &BTreeMap<String, Reading<String>>) -> Reading<String> {
    let missing = || Reading::Unknown("the kernel does not say".to_string());
    tunables.get("preemption").cloned().unwrap_or_else(missing)
}

/// The costs that are measured between two CPUs. The order of near and far is that of the cost's names.
fn of_pair(is_near: bool) -> &'static [Cost] {
    if is_near {
        &[
            Cost::WakeBusyNear,
            Cost::WakeIdleNear,
            Cost::WakeIdleShort,
            Cost::IdleExitShort,
            Cost::IpiNear,
            Cost::MigrationNear,
        ]
    } else {
        &[Cost::WakeBusyFar, Cost::WakeIdleFar, Cost::IpiFar, Cost::MigrationFar]
    }
}

/// Two CPUs of one last-level cache, of different cores if there are such.
fn near(groups: &Topology) -> Reading<Pair> {
    let usable = groups.usable();
    if groups.llcs.is_empty() {
        return Reading::Unknown("the kernel does not say which CPUs share a cache".to_string());
    }
    let core = |cpu: u32| groups.cores.iter().position(|core| core.contains(cpu));
    let pairs = groups.llcs.iter().filter_map(|llc| {
        let cpus: Vec<u32> = llc.iter().filter(|cpu| usable.contains(*cpu)).collect();
        let from = *cpus.first()?;
        let other = cpus[1..].iter().find(|cpu| core(**cpu) != core(from) || core(from).is_none());
        Some(Pair { from, to: *other.or(cpus.get(1))? })
    });
    let why = "no two of its CPUs share a last-level cache";
    Reading::from_option({ pairs }.next(), why)
}

/// Two CPUs of different last-level caches.
fn far(groups: &Topology) -> Reading<Pair> {
    let usable = groups.usable();
    let first = |llc: &CpuSet| llc.iter().find(|cpu| usable.contains(*cpu));
    let mut firsts = groups.llcs.iter().filter_map(first);
    let pair = firsts.next().zip(firsts.next_back()).map(|(from, to)| Pair { from, to });
    Reading::from_option(pair, "its CPUs share one last-level cache")
}

fn counts(host: &Host, groups: &Topology, virtualisation: &Reading<String>) -> TwinTopology {
    // Parts that the kernel does not report count as one.
    let count = |parts: usize| parts.max(1) as u32;
    let is_virtual = virtualisation.as_ref().known().is_some_and(|name| name != "none");
    let threads_per_core = match groups.cores.iter().map(CpuSet::len).max() {
        Some(1) if is_virtual => {
            let why = "the hypervisor may hide them";
            Reading::Unknown(why.to_string())
        }
        Some(threads) => Reading::Known(threads as u32),
        None => Reading::Unknown("the kernel does not say which CPUs share a core".to_string()),
    };
    TwinTopology {
        cpus: count(groups.online.len()),
        sockets: count(topology::packages(host, &groups.online)),
        llcs: count(groups.llcs.len()),
        nodes: count(groups.numa_nodes.len()),
        threads_per_core,
    }
}

/// The CPU time of others while something is measured.
struct OtherLoad {
    all_ns: Reading<u64>,
    own_ns: u64,
    began_ns: u64,
}

impl OtherLoad {
    fn begin(host: &Host) -> OtherLoad {
        OtherLoad {
            all_ns: busy_ns(host),
            own_ns: clock::family_cpu_ns(),
            began_ns: clock::monotonic_ns(),
        }
    }

    /// Returns the CPUs that others used.
    fn end(self, host: &Host) -> Reading<f64> {
        let own_ns = clock::family_cpu_ns() - self.own_ns;
        let wall_ns = (clock::monotonic_ns() - self.began_ns).max(1);
        self.all_ns.and_then(|before_ns| {
            busy_ns(host).map(|after_ns| {
                let others_ns = after_ns.saturating_sub(before_ns).saturating_sub(own_ns);
                rounded(others_ns as f64 / wall_ns as f64)
            })
        })
    }
}

fn busy_ns(host: &Host) -> Reading<u64> {
    let of = |times: &load::CpuTimes| times.task_ns + times.interrupt_ns + times.steal_ns;
    load::cpu_times(host).map(|cpus| cpus.values().map(of).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(texts: &[&str]) -> Vec<CpuSet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn groups(allowed: &str, llcs: &[&str], cores: &[&str]) -> Topology {
        Topology {
            online: "0-7".parse().unwrap(),
            allowed: allowed.parse().unwrap(),
            llcs: sets(llcs),
            numa_nodes: sets(&["0-7"]),
            cores: sets(cores),
        }
    }

    #[test]
    fn two_cpus_are_near_or_far_by_their_last_level_cache() {
        let cores = ["0-1", "2-3", "4-5", "6-7"];
        let pair = |pair: Reading<Pair>| pair.known().map(|Pair { from, to }| (from, to));
        let two = groups("0-7", &["0-3", "4-7"], &cores);
        assert_eq!((pair(near(&two)), pair(far(&two))), (Some((0, 2)), Some((0, 4))));
        let siblings = groups("1,0,4", &["0-3", "4-7"], &cores);
        assert_eq!((pair(near(&siblings)), pair(far(&siblings))), (Some((0, 1)), Some((0, 4))));
        let one = groups("4-5", &["0-7"], &[]);
        assert_eq!((pair(near(&one)), pair(far(&one))), (Some((4, 5)), None));
        let split = groups("3,4", &["0-3", "4-7"], &cores);
        assert_eq!((pair(near(&split)), pair(far(&split))), (None, Some((3, 4))));
        let unknown = groups("0-7", &[], &[]);
        assert_eq!((pair(near(&unknown)), pair(far(&unknown))), (None, None));
    }

    /// Values are the machine's; that each is known or has its reason is not.
    #[test]
    fn this_machine_is_measured() {
        let twin = measure(&Host::default(), 50).unwrap();
        assert_eq!(Twin::parse(&twin.text()), Ok(twin.clone()));
        assert_eq!(twin.costs.len(), crate::model::COSTS.len(), "{:?}", twin.costs);
        for cost in [Cost::SystemCall, Cost::Switch, Cost::TimerIdle, Cost::IdleExit] {
            let spread = twin.cost(cost).known().unwrap();
            assert!(spread.samples > 0, "{cost:?}: {spread:?}");
        }
        assert!(twin.median_ns(Cost::SystemCall).unwrap() > 1.0);
        assert!(twin.tick_hz.known().is_some_and(|hz| (100..=1000).contains(&hz)));
    }
}
