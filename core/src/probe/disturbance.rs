//! Influences on a run from outside: steal, other load, throttling, changes of frequency limits, clocks and CPUs.
//!
//! A [`Watch`] takes one picture of the machine before the start barrier and one after the end, and compares them;
//! in between it does nothing. A picture costs one open, read and close for each process of the machine and a few
//! files for each CPU of the pool: about 3 ms on a machine with 100 processes, about 25 us for each further one.
//! Both fall outside the timed section. Files that cannot be read do not count as a disturbance.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    CpuSet, CpuTimeOf, Disturbance, DisturbanceFact, Interference, OtherProcesses, Reading,
    SettingChange, Throttled, ThrottledPart, XEN_GUEST, clean, clean_path, is_above_wall,
};
use crate::sys::load::{self, CpuTimes, Process};
use crate::sys::scheduler::counts_busy_twice;
use crate::sys::{Host, clock, environment, mounts, topology};

/// Share of the pool's CPU time below which other load is normal for an idle system (timers, journald, an ssh
/// session), and its effect drowns in the spread between rounds.
pub const OUTSIDE_LOAD_SHARE: f64 = 0.02;

/// The part of the pool's busy time that no process accounts for must be larger, as
/// /proc/stat is sampled at ticks on most kernels while CPU time of tasks is exact.
pub const UNNAMED_LOAD_SHARE: f64 = 0.05;

/// Steal is not sampled, and any of it is another machine's work on our CPUs.
pub const STEAL_SHARE: f64 = 0.005;

/// Times of /proc are rounded to ticks: a single one may be rounding.
pub const MIN_TICKS: u64 = 2;

/// The smallest step that counts: the reading of two clocks one after the other may itself be preempted. Slewing
/// needs no allowance, it moves the wall clock and the monotonic clock alike.
pub const CLOCK_STEP_NS: u64 = 1_000_000;

/// The processes that are named; the others are summed.
const MAX_NAMED: usize = 3;

/// The processes whose CPU time is not load from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Own {
    /// These and all their descendants.
    Families(BTreeSet<i32>),
    /// The machine is the run's alone: no process is looked at, nor the CPUs' busy time, which ticks sample. Timers of
    /// a guest whose clock is virtual stay aligned with them.
    Machine,
}

impl Own {
    /// This process and its descendants.
    pub fn family() -> Own {
        Own::Families(BTreeSet::from([std::process::id() as i32]))
    }
}

/// A picture of the machine, waiting for the second.
#[derive(Debug)]
pub struct Watch {
    host: Host,
    pool: CpuSet,
    own: Own,
    before: Picture,
}

impl Watch {
    /// Takes the first picture. `pool` are the CPUs that the run may use.
    pub fn begin(host: &Host, pool: &CpuSet, own: Own) -> Watch {
        let before = Picture::take(host, pool, &own);
        Watch { host: host.clone(), pool: pool.clone(), own, before }
    }

    /// Takes the second picture and compares. `own_cpu_ns` is the CPU time of the run itself between the two,
    /// including workers that have ended.
    pub fn end(self, own_cpu_ns: u64) -> Vec<Disturbance> {
        let after = Picture::take(&self.host, &self.pool, &self.own);
        let span = Span {
            before: &self.before,
            after: &after,
            pool: &self.pool,
            own: &self.own,
            own_cpu_ns,
            counts_all_steal: std::env::var_os(XEN_GUEST).is_some(),
        };
        span.disturbances()
    }
}

/// Two clocks' distances from the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clocks {
    monotonic_ns: u64,
    wall_offset_ns: i64,
    boot_offset_ns: i64,
}

impl Clocks {
    /// Reads all clocks a few times and takes the attempt that was least interrupted.
    fn read() -> Clocks {
        let attempt = || {
            let start_ns = clock::monotonic_ns();
            let (wall_ns, boot_ns) = (clock::unix_ns(), clock::boot_ns());
            let took_ns = clock::monotonic_ns() - start_ns;
            let offset = |other_ns: u64| other_ns as i64 - start_ns as i64;
            let clocks = Clocks {
                monotonic_ns: start_ns,
                wall_offset_ns: offset(wall_ns),
                boot_offset_ns: offset(boot_ns),
            };
            (took_ns, clocks)
        };
        let attempts = [attempt(), attempt(), attempt()];
        attempts
            .into_iter()
            .min_by_key(|(took_ns, _)| *took_ns)
            .map_or_else(|| attempt().1, |a| a.1)
    }
}

#[derive(Debug, Clone)]
struct Picture {
    clocks: Clocks,
    clock_source: Reading<String>,
    online: Reading<CpuSet>,
    cpus: Reading<BTreeMap<u32, CpuTimes>>,
    /// The scheduler is one that counts busy time twice in /proc/stat: nothing is concluded from it, also
    /// where there is too little of it to be seen.
    counts_busy_twice: bool,
    processes: Reading<BTreeMap<i32, Process>>,
    /// Events since boot, by the throttled part.
    throttled: BTreeMap<ThrottledPart, u64>,
    /// Value of a frequency setting, by its name and CPU (`None`: of the machine).
    frequency: BTreeMap<(&'static str, Option<u32>), String>,
}

impl Picture {
    fn take(host: &Host, pool: &CpuSet, own: &Own) -> Picture {
        let processes = match own {
            Own::Machine => Reading::Known(BTreeMap::new()),
            Own::Families(_) => load::processes(host),
        };
        Picture {
            clocks: Clocks::read(),
            clock_source: environment::clock_source(host),
            online: topology::online(host),
            throttled: throttled(host, pool),
            frequency: frequency(host, pool),
            counts_busy_twice: counts_busy_twice(host),
            cpus: load::cpu_times(host),
            processes,
        }
    }
}

/// Thermal events of the pool's cores and packages, and of the cgroups we are in.
fn throttled(host: &Host, pool: &CpuSet) -> BTreeMap<ThrottledPart, u64> {
    let count = |path: &str| host.read(path).ok()?.parse::<u64>().ok();
    let mut found = BTreeMap::new();
    for cpu in pool.iter() {
        for (name, part) in
            [("core", ThrottledPart::Core(cpu)), ("package", ThrottledPart::Package(cpu))]
        {
            let path =
                format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{name}_throttle_count");
            found.extend(count(&path).map(|events| (part, events)));
        }
    }
    for own in mounts::own_cpu_cgroups(host).known().unwrap_or_default() {
        for directory in own.with_ancestors() {
            let Ok(text) = host.read(directory.join("cpu.stat")) else { continue };
            let events = text.lines().find_map(|line| line.strip_prefix("nr_throttled "));
            let events = events.and_then(|events| events.trim().parse().ok());
            let part = ThrottledPart::Cgroup(clean_path(directory));
            found.extend(events.map(|events| (part, events)));
        }
    }
    found
}

/// Limits and settings. The frequency itself (scaling_cur_freq) moves all the time and does not show what the run
/// got.
fn frequency(host: &Host, pool: &CpuSet) -> BTreeMap<(&'static str, Option<u32>), String> {
    const PER_CPU: [&str; 3] = ["scaling_max_freq", "scaling_min_freq", "scaling_governor"];
    const GLOBAL: [&str; 2] = ["intel_pstate/no_turbo", "cpufreq/boost"];
    let mut found = BTreeMap::new();
    for cpu in pool.iter() {
        for name in PER_CPU {
            let value = host.read(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}"));
            found.extend(value.ok().map(|value| ((name, Some(cpu)), value)));
        }
    }
    for name in GLOBAL {
        let value = host.read(format!("/sys/devices/system/cpu/{name}"));
        found.extend(value.ok().map(|value| ((name, None), value)));
    }
    found
}

/// Two pictures and the time between. All below is pure.
struct Span<'a> {
    before: &'a Picture,
    after: &'a Picture,
    pool: &'a CpuSet,
    own: &'a Own,
    own_cpu_ns: u64,
    /// A guest of Xen that is a worker: stolen time is being measured there, and any of it counts.
    counts_all_steal: bool,
}

/// CPU time of other processes on the pool, largest first.
struct Outside<'a> {
    offenders: Vec<Offender<'a>>,
    total_ns: u64,
    /// The time of schedlab's own processes that still live, and of those that they have collected.
    own_ns: u64,
}

/// A process and its CPU time, with that of the children that it has collected.
struct Offender<'a> {
    process: &'a Process,
    used_ns: u64,
    with_children: bool,
}

impl Span<'_> {
    fn disturbances(&self) -> Vec<Disturbance> {
        let found = [
            self.hotplug(),
            self.steal(),
            self.outside_load(),
            self.above_wall(),
            self.throttling(),
            self.frequency_change(),
            self.clock_source_change(),
            self.clock_step(),
        ];
        found.into_iter().flatten().collect()
    }

    fn wall_ns(&self) -> u64 {
        self.after.clocks.monotonic_ns.saturating_sub(self.before.clocks.monotonic_ns).max(1)
    }

    /// CPU time that the pool had.
    fn capacity_ns(&self) -> f64 {
        self.wall_ns() as f64 * self.pool.len().max(1) as f64
    }

    /// The time of each CPU of the pool in between; CPUs that came or went are left out.
    fn pool_times(&self, of: fn(&CpuTimes) -> u64) -> Option<BTreeMap<u32, u64>> {
        let before = self.before.cpus.as_ref().known()?;
        let after = self.after.cpus.as_ref().known()?;
        let delta = |cpu| Some((cpu, of(after.get(&cpu)?).saturating_sub(of(before.get(&cpu)?))));
        Some(self.pool.iter().filter_map(delta).collect())
    }

    /// The share is the part of its CPUs that the pool has lost.
    fn hotplug(&self) -> Option<Disturbance> {
        let before = self.before.online.as_ref().known()?;
        let after = self.after.online.as_ref().known()?;
        let (gone, came) = (before.minus(after), after.minus(before));
        if gone.is_empty() && came.is_empty() {
            return None;
        }
        let lost_from_pool: CpuSet = gone.iter().filter(|cpu| self.pool.contains(*cpu)).collect();
        let lost = lost_from_pool.len() as f64 / self.pool.len().max(1) as f64;
        let share = (!lost_from_pool.is_empty()).then_some(lost);
        let lost_elsewhere = gone.minus(&lost_from_pool);
        let pool_cpus = self.pool.len() as u32;
        let fact = DisturbanceFact::CpuHotplug { pool_cpus, lost_from_pool, lost_elsewhere, came };
        Some(Disturbance { share, fact })
    }

    fn steal(&self) -> Option<Disturbance> {
        let steal = self.pool_times(|times| times.steal_ns)?;
        let total_ns: u64 = steal.values().sum();
        let share = total_ns as f64 / self.capacity_ns();
        let is_little = share <= STEAL_SHARE || total_ns < MIN_TICKS * load::tick_ns();
        if total_ns == 0 || is_little && !self.counts_all_steal {
            return None;
        }
        let (worst_cpu, worst_ns) = steal.into_iter().max_by_key(|(_, steal_ns)| *steal_ns)?;
        let worst_cpu_share = self.cpu_share(worst_ns);
        let fact = DisturbanceFact::Steal { share, worst_cpu, worst_cpu_share };
        Some(Disturbance { share: Some(share), fact })
    }

    /// The load of other processes, and the load that only the CPUs' own times show.
    fn outside_load(&self) -> Option<Disturbance> {
        let outside = self.outside()?;
        let named_share = self.named_share(&outside);
        let unnamed_share = self.unnamed_share(&outside);
        let share = match (named_share, unnamed_share) {
            (None, None) => return None,
            (named, unnamed) => named.unwrap_or(0.0) + unnamed.unwrap_or(0.0),
        };
        let named = if named_share.is_some() { outside.offenders.as_slice() } else { &[] };
        let (named, others) = named.split_at(named.len().min(MAX_NAMED));
        let others = (!others.is_empty()).then(|| {
            let cpu_ns: u64 = others.iter().map(|offender| offender.used_ns).sum();
            let (processes, cpu_share) = (others.len() as u32, self.cpu_share(cpu_ns));
            OtherProcesses { processes, cpu_ns, cpu_share }
        });
        let interferences = named.iter().map(|offender| self.interference(offender)).collect();
        let fact =
            DisturbanceFact::OutsideLoad { named_share, interferences, others, unnamed_share };
        Some(Disturbance { share: Some(share), fact })
    }

    fn interference(&self, offender: &Offender) -> Interference {
        let process = offender.process;
        Interference {
            who: clean(&process.name),
            pid: process.pid,
            is_kernel_thread: process.is_kernel_thread,
            with_children: offender.with_children,
            cpu_ns: offender.used_ns,
            cpu_share: self.cpu_share(offender.used_ns),
        }
    }

    /// The share of one CPU's time.
    fn cpu_share(&self, cpu_ns: u64) -> f64 {
        cpu_ns as f64 / self.wall_ns() as f64
    }

    fn named_share(&self, outside: &Outside) -> Option<f64> {
        // Ticks are rounded, and processes are read at other moments than the clock.
        let share = (outside.total_ns as f64 / self.capacity_ns()).min(1.0);
        let is_much = share > OUTSIDE_LOAD_SHARE && outside.total_ns >= MIN_TICKS * load::tick_ns();
        is_much.then_some(share)
    }

    /// A cross-check by CPU: busy time less our own time and that of processes. Finds processes too short-lived to
    /// be in a picture that nobody collected whom we see (a parent may ignore its children's end), and those that
    /// are hidden from us.
    fn unnamed_share(&self, outside: &Outside) -> Option<f64> {
        let is_alone = matches!(self.own, Own::Machine);
        if is_alone || self.after.counts_busy_twice || self.above_wall().is_some() {
            return None;
        }
        let busy_ns: u64 = self.pool_times(|times| times.task_ns)?.values().sum();
        let known_ns = self.own_cpu_ns.max(outside.own_ns).saturating_add(outside.total_ns);
        let unnamed_ns = busy_ns.saturating_sub(known_ns);
        let share = unnamed_ns as f64 / self.capacity_ns();
        // Busy time is counted by sampling: three standard errors of a share that is sampled
        // once a tick, at its widest (one half).
        let samples = (self.capacity_ns() / load::tick_ns() as f64).max(1.0);
        let sampling_error = 3.0 * 0.5 / samples.sqrt();
        (share > UNNAMED_LOAD_SHARE + sampling_error).then_some(share)
    }

    /// /proc/stat counted a CPU of the pool to be busy for longer than the time that passed.
    fn above_wall(&self) -> Option<Disturbance> {
        let busy = |times: &CpuTimes| times.task_ns + times.interrupt_ns + times.steal_ns;
        let busy = self.pool_times(busy)?;
        let above = busy.values().filter(|busy_ns| is_above_wall(**busy_ns, self.wall_ns(), 1));
        let (cpus, counted_ns) =
            above.fold((0, 0), |(cpus, all), busy_ns| (cpus + 1, all + busy_ns));
        let counted_cpus = self.cpu_share(counted_ns);
        let of = CpuTimeOf::Cpus;
        (cpus > 0)
            .then(|| unsized_fact(DisturbanceFact::CpuTimeAboveWall { of, counted_cpus, cpus }))
    }

    fn outside(&self) -> Option<Outside<'_>> {
        let before = self.before.processes.as_ref().known()?;
        let after = self.after.processes.as_ref().known()?;
        let own: BTreeSet<i32> = match self.own {
            Own::Families(pids) => {
                let family = |picture| load::family(picture, pids);
                family(before).union(&family(after)).copied().collect()
            }
            Own::Machine => BTreeSet::new(),
        };
        let ended = load::ended_children_ns(before, after);
        // A pool that is all of the machine needs no guess at where a process ran. Elsewhere
        // the guess for children is the CPU of who collected them.
        let online = self.after.online.as_ref().known();
        let is_whole = online.is_some_and(|online| online.minus(self.pool).is_empty());
        let mut outside = Outside { offenders: Vec::new(), total_ns: 0, own_ns: 0 };
        for process in after.values() {
            let earlier = load::same(before, process);
            let children_ns = ended.get(&process.pid).copied().unwrap_or(0);
            let itself_ns = process.cpu_ns.saturating_sub(earlier.map_or(0, |e| e.cpu_ns));
            let used_ns = itself_ns.saturating_add(children_ns);
            let last_cpus = [Some(process), earlier].into_iter().flatten().map(|p| p.last_cpu);
            if own.contains(&process.pid) {
                outside.own_ns += used_ns;
            } else if used_ns > 0
                && (is_whole || last_cpus.into_iter().any(|cpu| self.pool.contains(cpu)))
            {
                outside.total_ns += used_ns;
                let with_children = children_ns > 0;
                outside.offenders.push(Offender { process, used_ns, with_children });
            }
        }
        outside
            .offenders
            .sort_by_key(|found| (std::cmp::Reverse(found.used_ns), found.process.pid));
        Some(outside)
    }

    fn throttling(&self) -> Option<Disturbance> {
        let more = |(part, after): (&ThrottledPart, &u64)| {
            let events = after.saturating_sub(*self.before.throttled.get(part)?);
            (events > 0).then(|| Throttled { part: part.clone(), events })
        };
        let parts: Vec<Throttled> = self.after.throttled.iter().filter_map(more).collect();
        (!parts.is_empty()).then(|| unsized_fact(DisturbanceFact::Throttling { parts }))
    }

    fn frequency_change(&self) -> Option<Disturbance> {
        let mut by_change: BTreeMap<(&str, &str, &str), Vec<u32>> = BTreeMap::new();
        for ((name, cpu), after) in &self.after.frequency {
            let before = self.before.frequency.get(&(*name, *cpu));
            if let Some(before) = before.filter(|before| *before != after) {
                by_change.entry((*name, before, after)).or_default().extend(*cpu);
            }
        }
        let change =
            |((name, before, after), cpus): ((&str, &str, &str), Vec<u32>)| SettingChange {
                setting: name.to_string(),
                cpus: cpus.into_iter().collect(),
                before: clean(before),
                after: clean(after),
            };
        let changes: Vec<SettingChange> = by_change.into_iter().map(change).collect();
        (!changes.is_empty()).then(|| unsized_fact(DisturbanceFact::FrequencyChange { changes }))
    }

    fn clock_source_change(&self) -> Option<Disturbance> {
        let before = self.before.clock_source.as_ref().known()?;
        let after = self.after.clock_source.as_ref().known()?;
        (before != after).then(|| {
            let (before, after) = (clean(before), clean(after));
            unsized_fact(DisturbanceFact::ClockSourceChange { before, after })
        })
    }

    fn clock_step(&self) -> Option<Disturbance> {
        let moved = |of: fn(&Clocks) -> i64| of(&self.after.clocks) - of(&self.before.clocks);
        let relevant = |ns: i64| if ns.unsigned_abs() > CLOCK_STEP_NS { ns } else { 0 };
        let suspended_ns = moved(|clocks| clocks.boot_offset_ns);
        let stepped_ns = relevant(moved(|clocks| clocks.wall_offset_ns) - suspended_ns);
        let suspended_ns = relevant(suspended_ns);
        (stepped_ns != 0 || suspended_ns != 0)
            .then(|| unsized_fact(DisturbanceFact::ClockStep { stepped_ns, suspended_ns }))
    }
}

fn unsized_fact(fact: DisturbanceFact) -> Disturbance {
    Disturbance { share: None, fact }
}

#[cfg(test)]
mod tests;
