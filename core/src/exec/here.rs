//! One run on the machine that this process runs on: the host's, or a lab guest's.
//!
//! Order of a run: apply the variant's cgroup and machine knobs and make the pool (journalled),
//! start the runner, put it into its cgroups, begin to watch for disturbances, give it the run,
//! take its messages, kill the rest of its process group and wait until it is gone, end the watch,
//! detach the variant's scheduler if it has one (it must have lasted until now), undo the knobs.

use std::fmt::Display;
use std::sync::atomic::AtomicBool;

use crate::model::{
    Advice, Cell, CpuSet, Disturbance, DisturbanceFact, KnobReading, MEANWHILE, MemoryPlacement,
    Outcome, RunEnd, RunSpec, Window,
};
use crate::probe::disturbance::Watch;
use crate::sys::xen::is_control;
use crate::sys::{self, Host, clock, topology};
use crate::variant::{self, Journal};
use crate::workload;

use super::child::{Runner, failed};
use super::offline::put_back;
use super::xen;
use super::{ExecError, Own};

/// The longest time that beginning a watch takes.
const WATCH_BEFORE_NS: u64 = 20_000_000;

/// Why the cell cannot run on this machine; changes nothing.
pub fn check_here(cell: &Cell, host: &Host) -> Result<(), ExecError> {
    if cell.work.has_guests(is_control(host)) {
        return xen::check(cell, host).map_err(ExecError::refused);
    }
    let pool = variant::find_pool(cell, host).map_err(ExecError::refused)?;
    let in_cpuset = pool.as_ref().is_some_and(|pool| pool.is_cpuset());
    if let (Some(cpus), false) = (&cell.placement.cpus, in_cpuset) {
        let allowed = topology::affinity().map_err(ExecError::system("read the CPU affinity"))?;
        let missing = cpus.minus(&allowed);
        if !missing.is_empty() {
            return Err(ExecError::CpusNotAllowed(missing));
        }
    }
    for group in &cell.work.cgroups {
        let later = group.changes.iter().map(|change| &change.cpus);
        let mut wanted = later.chain([&group.cpus]).flatten();
        wanted.try_for_each(|cpus| check_cpus(group.path.as_str(), cpus, host))?;
    }
    if cell.placement.memory == MemoryPlacement::Interleave {
        let cpus = pool.map(|pool| pool.cpus).or_else(|| cell.placement.cpus.clone());
        let cpus = cpus.or_else(|| topology::affinity().ok()).unwrap_or_default();
        sys::can_interleave(topology::node_numbers(host, &cpus)).map_err(ExecError::refused)?;
    }
    for set in &cell.work.sets {
        let named = |source| ExecError::Workload { set: set.name.clone(), source };
        let workload = workload::find(&set.workload);
        workload.map_or(Ok(Vec::new()), |of| of.programs(&set.params)).map_err(named)?;
    }
    variant::check(cell, host).map_err(|missing| {
        let reasons: Vec<String> = missing.iter().map(|knob| knob.message.clone()).collect();
        ExecError::refused(reasons.join("; "))
    })
}

/// Refuses CPUs of a cgroup that the kernel refuses, and those of which none is online: tasks would run on others.
fn check_cpus(path: &str, cpus: &CpuSet, host: &Host) -> Result<(), ExecError> {
    let (online, possible) = (topology::online(host).known(), topology::possible(host).known());
    let lacks =
        |has: &Option<CpuSet>| has.as_ref().map_or_else(CpuSet::default, |has| cpus.minus(has));
    let (offline, missing) = (lacks(&online), lacks(&possible));
    let shown = |cpus: Option<CpuSet>| cpus.unwrap_or_default();
    let why = if !missing.is_empty() {
        format!("this machine has no CPUs {missing}, only {}", shown(possible))
    } else if !cpus.is_empty() && offline == *cpus {
        format!("CPUs {cpus} are not online: {} are", shown(online))
    } else {
        return Ok(());
    };
    Err(ExecError::refused(format!("cgroup {path}: {why}")))
}

/// Executes one run. `on_window` gets each window as it closes. `cancel` is polled often. `ahead`: a process that
/// waits for it. `own`: the processes that do not disturb it.
pub fn run_here(
    spec: &RunSpec,
    ahead: Option<Runner>,
    own: &Own,
    host: &Host,
    journal: &Journal,
    cancel: &AtomicBool,
    on_window: &mut dyn FnMut(Window),
) -> RunEnd {
    if spec.cell.work.has_guests(is_control(host)) {
        return xen::run(spec, cancel, on_window);
    }
    let mut applied = match variant::apply(&spec.cell, host, journal) {
        Ok(applied) => applied,
        // Nothing is changed, and nothing has run.
        Err(error) if error.still_changed.is_empty() && !error.is_fault => {
            let reason = ExecError::refused(error).reason();
            return RunEnd::Finished(Outcome::Skipped { reason });
        }
        Err(error) => return failed(&ExecError::refused(error)),
    };
    let mut knobs = applied.readings();
    let mut spec = spec.clone();
    if let Some(cpus) = applied.pool_cpus() {
        // Workers take all of them, whatever affinity schedlab was started with.
        spec.cell.placement.cpus = Some(cpus.clone());
    }
    spec.cgroups = applied.cgroups_of_sets().clone();
    let (spec, pool) = (&spec, cpus(&spec));
    let steady = pool.minus(&spec.cell.work.offline_cpus());
    let mut offline = CpuSet::default();
    let mut on_window = |window| {
        if let Some(online) = topology::online(host).known() {
            offline = offline.iter().chain(steady.minus(&online).iter()).collect();
        }
        on_window(window);
    };
    let watching = || Watch::begin(host, &pool, own.clone());
    let mut watch = watching();
    let mut on_started = || {
        // The run begins after the wait for others that begin at the same moment.
        if let Some(start_unix_ns) = spec.start_unix_ns {
            let start_ns = clock::monotonic_at(start_unix_ns);
            clock::sleep_until(start_ns.saturating_sub(WATCH_BEFORE_NS));
            watch = watching();
        }
    };
    let of_ahead_ns = ahead.as_ref().and_then(|runner| clock::process_cpu_ns(runner.pid()));
    let self_before_ns = clock::own_process_cpu_ns();
    let family_before_ns = clock::family_cpu_ns() + of_ahead_ns.unwrap_or(0);
    let given = ahead.map_or_else(Runner::start, Ok).and_then(|mut runner| {
        runner.give(spec, |pid| applied.adopt(pid))?;
        Ok(runner)
    });
    let ended = match given {
        Ok(mut runner) => {
            let ended = runner.attend(spec, cancel, &mut on_started, &mut on_window);
            runner.end();
            with_cpus_back(ended, spec, host)
        }
        Err(error) => failed(&error),
    };
    let used = Used {
        overhead_ns: clock::own_process_cpu_ns() - self_before_ns,
        family_ns: clock::family_cpu_ns().saturating_sub(family_before_ns),
    };
    let ended = match ended {
        RunEnd::Finished(_) if !offline.is_empty() => failed(&ExecError::CpusOffline(offline)),
        ended => finish(ended, watch, &mut knobs, applied.pool_cpus().cloned(), &used),
    };
    let ended = with_scheduler(ended, applied.end_scheduler().map_err(|error| error.to_string()));
    match applied.undo() {
        Ok(()) => ended,
        Err(error) => failed(&ExecError::Undo(error)),
    }
}

/// Puts CPUs back that the run has taken off.
fn with_cpus_back(ended: RunEnd, spec: &RunSpec, host: &Host) -> RunEnd {
    let put_back = put_back(&spec.cell.work.offline_cpus(), host);
    put_back.map_or_else(|error| failed(&error), |()| ended)
}

/// The CPUs of a run whose pool, if it has one, has been made.
fn cpus(spec: &RunSpec) -> CpuSet {
    let placement = &spec.cell.placement.cpus;
    placement.clone().unwrap_or_else(|| topology::affinity().unwrap_or_default())
}

/// CPU time of a run.
struct Used {
    /// The time of schedlab itself: windows, events, the store.
    overhead_ns: u64,
    /// The time of schedlab, the runner and all its workers, start to end.
    family_ns: u64,
}

/// Adds observations from outside the runner to its result, or to the reason for having none.
fn finish(
    ended: RunEnd,
    watch: Watch,
    knobs: &mut Vec<KnobReading>,
    pool_cpus: Option<CpuSet>,
    used: &Used,
) -> RunEnd {
    let disturbances = watch.end(used.family_ns);
    match ended {
        RunEnd::Interrupted | RunEnd::HostEnded { .. } => ended,
        RunEnd::Finished(Outcome::Done { mut result }) => {
            if let Some(cpus) = disturbances.iter().find_map(lost_cpus) {
                return failed(&ExecError::CpusOffline(cpus));
            }
            result.disturbances.extend(disturbances);
            result.knobs.append(knobs);
            result.pool_cpus = pool_cpus;
            let measurer = result.overhead_cpu_ns;
            result.overhead_cpu_ns = measurer.map(|measurer_ns| measurer_ns + used.overhead_ns);
            RunEnd::Finished(Outcome::Done { result })
        }
        RunEnd::Finished(Outcome::Failed { mut reason }) => {
            for disturbance in disturbances {
                // Without its share: runs that failed alike have one reason.
                reason.push_str(&format!("{MEANWHILE}{}", disturbance.kind().word()));
            }
            RunEnd::Finished(Outcome::Failed { reason })
        }
        RunEnd::Finished(skipped) => RunEnd::Finished(skipped),
    }
}

/// The CPUs of its pool that a run lost: it is of no use then.
fn lost_cpus(disturbance: &Disturbance) -> Option<CpuSet> {
    match &disturbance.fact {
        DisturbanceFact::CpuHotplug { lost_from_pool, .. } if !lost_from_pool.is_empty() => {
            Some(lost_from_pool.clone())
        }
        _ => None,
    }
}

/// Adds the reading of the variant's scheduler, or why it did not last.
fn with_scheduler(ended: RunEnd, scheduler: Result<Option<KnobReading>, impl Display>) -> RunEnd {
    match (ended, scheduler) {
        (RunEnd::Finished(Outcome::Done { mut result }), Ok(reading)) => {
            result.knobs.extend(reading);
            RunEnd::Finished(Outcome::Done { result })
        }
        (RunEnd::Finished(Outcome::Done { .. }), Err(why)) => {
            RunEnd::Finished(Outcome::Failed { reason: why.to_string() })
        }
        (RunEnd::Finished(Outcome::Failed { reason }), Err(why)) => {
            RunEnd::Finished(Outcome::Failed { reason: format!("{reason}; {why}") })
        }
        (ended, _) => ended,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{Cgroup, CgroupChange, Placement, Variant, Work};

    #[test]
    fn cpus_of_a_cgroup_that_are_not_there_are_found_before_the_run() {
        let absent: CpuSet = "60000".parse().unwrap();
        let (path, knobs) = ("a".parse().unwrap(), BTreeMap::new());
        let group = Cgroup { path, knobs, cpus: Some(absent.clone()), changes: Vec::new() };
        let change = CgroupChange { at_ns: 1, knobs: BTreeMap::new(), cpus: Some(absent) };
        let later = Cgroup { cpus: None, changes: vec![change], ..group.clone() };
        for group in [group, later] {
            let work = Work { cgroups: vec![group], ..Work::default() };
            let variant = Variant { name: "v".to_string(), knobs: BTreeMap::new() };
            let cell = Cell { index: 0, variant, work, placement: Placement::default() };
            let error = check_here(&cell, &Host::default()).unwrap_err().to_string();
            let expected = "cgroup a: this machine has no CPUs 60000, only 0";
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn one_cpu_of_a_cgroup_is_online() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::below(dir.path());
        let folder = host.path("/sys/devices/system/cpu");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("online"), "0-1\n").unwrap();
        std::fs::write(folder.join("possible"), "0-7\n").unwrap();
        let check = |cpus: &str| check_cpus("a", &cpus.parse().unwrap(), &host);
        let refused = |cpus: &str| check(cpus).unwrap_err().to_string();
        assert_eq!(refused("1,8"), "cgroup a: this machine has no CPUs 8, only 0-7");
        assert_eq!(refused("4-5"), "cgroup a: CPUs 4-5 are not online: 0-1 are");
        check("1,4").unwrap();
    }
}
