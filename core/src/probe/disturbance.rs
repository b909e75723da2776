//! Influences on a run from outside: steal, other load, throttling, changes of frequency limits, clocks and CPUs.
//!
//! A [`Watch`] takes one picture of the machine before the start barrier and one after the end, and compares them;
//! in between it does nothing. A picture costs one open, read and close for each process of the machine and a few
//! files for each CPU of the pool: about 3 ms on a machine with 100 processes, about 25 us for each further one.
//! Both fall outside the timed section. Files that cannot be read do not count as a disturbance.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    CpuSet, CpuTimeOf, Disturbance, DisturbanceFact, Interference, OtherProcesses, Reading,
    SettingChange, Throttled, ThrottledPart, XEN_GUEST, is_above_wall,
};
use crate::sys::load::{self, CpuTimes, Process};
use crate::sys::scheduler::counts_busy_twice;
use crate::sys::{Host, clock, environment, mounts, topology};

use super::printable;

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

/// Processes whose CPU time is not load from outside: these and all their descendants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    pub pids: BTreeSet<i32>,
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
        let before = Picture::take(host, pool);
        Watch { host: host.clone(), pool: pool.clone(), own, before }
    }

    /// Takes the second picture and compares. `own_cpu_ns` is the CPU time of the run itself between the two,
    /// including workers that have ended.
    pub fn end(self, own_cpu_ns: u64) -> Vec<Disturbance> {
        let after = Picture::take(&self.host, &self.pool);
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
    fn take(host: &Host, pool: &CpuSet) -> Picture {
        Picture {
            clocks: Clocks::read(),
            clock_source: environment::clock_source(host),
            online: topology::online(host),
            throttled: throttled(host, pool),
            frequency: frequency(host, pool),
            counts_busy_twice: counts_busy_twice(host),
            cpus: load::cpu_times(host),
            processes: load::processes(host),
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
            let part = ThrottledPart::Cgroup(printable(&directory.display().to_string()));
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
            who: printable(&process.name),
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
        let share = outside.total_ns as f64 / self.capacity_ns();
        let is_much = share > OUTSIDE_LOAD_SHARE && outside.total_ns >= MIN_TICKS * load::tick_ns();
        is_much.then_some(share)
    }

    /// A cross-check by CPU: busy time less our own time and that of processes. Finds processes too short-lived to
    /// be in a picture that nobody collected whom we see (a parent may ignore its children's end), and those that
    /// are hidden from us.
    fn unnamed_share(&self, outside: &Outside) -> Option<f64> {
        if self.after.counts_busy_twice || self.above_wall().is_some() {
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
        let family = |picture| load::family(picture, &self.own.pids);
        let own: BTreeSet<i32> = family(before).union(&family(after)).copied().collect();
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
                before: printable(before),
                after: printable(after),
            };
        let changes: Vec<SettingChange> = by_change.into_iter().map(change).collect();
        (!changes.is_empty()).then(|| unsized_fact(DisturbanceFact::FrequencyChange { changes }))
    }

    fn clock_source_change(&self) -> Option<Disturbance> {
        let before = self.before.clock_source.as_ref().known()?;
        let after = self.after.clock_source.as_ref().known()?;
        (before != after).then(|| {
            let (before, after) = (printable(before), printable(after));
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
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    const SECOND_NS: u64 = 1_000_000_000;
    const CPU: &str = "/sys/devices/system/cpu";
    const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

    /// Four CPUs, with the pool on the first two, our process 10 and a stranger, 99.
    fn machine() -> Tree {
        let tree = Tree::with_files(&[
            ("/sys/devices/system/cpu/online", "0-3\n"),
            (CLOCK_SOURCE, "tsc\n"),
            ("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n"),
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3600000\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "3600000\n"),
            ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq", "3600000\n"),
            ("/sys/devices/system/cpu/cpufreq/boost", "1\n"),
            ("/proc/self/mountinfo", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("/proc/self/cgroup", "0::/user/me\n"),
            ("/sys/fs/cgroup/user/cpu.stat", "usage_usec 5\nnr_throttled 3\n"),
        ]);
        process(&tree, 10, "schedlab", 1, 100, 0);
        process(&tree, 13, "child", 10, 0, 1);
        process(&tree, 99, "chrome", 1, 50, 1);
        process(&tree, 98, "cc1", 99, 60, 1);
        stat(&tree, [(0, 0); 4]);
        tree
    }

    /// Busy and stolen ticks of each CPU.
    fn stat(tree: &Tree, cpus: [(u64, u64); 4]) {
        let line = |(cpu, (busy, steal))| format!("cpu{cpu} {busy} 0 0 0 0 0 0 {steal} 0 0\n");
        let text: String = cpus.into_iter().enumerate().map(line).collect();
        tree.write("/proc/stat", &text);
    }

    fn process(tree: &Tree, pid: i32, name: &str, parent: i32, ticks: u64, last_cpu: u32) {
        process_with_ended(tree, pid, name, parent, (ticks, 0), last_cpu);
    }

    /// The ticks are the process's own and its collected children's.
    fn process_with_ended(
        tree: &Tree,
        pid: i32,
        name: &str,
        parent: i32,
        (ticks, children): (u64, u64),
        last_cpu: u32,
    ) {
        tree.write(
            &format!("/proc/{pid}/stat"),
            &format!(
                "{pid} ({name}) S {parent} {pid} {pid} 0 -1 0 1 2 3 4 {ticks} 0 {children} 0 20 0 1 0 \
                 {pid} 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 17 {last_cpu} 0 0\n"
            ),
        );
    }

    /// The disturbances found after `change`, `seconds` later, in a run that used 1 s of CPU time.
    fn found(seconds: u64, change: impl FnOnce(&Tree)) -> Vec<Disturbance> {
        found_with(seconds, change, |_| ())
    }

    fn found_with(
        seconds: u64,
        change: impl FnOnce(&Tree),
        retouch: impl FnOnce(&mut Picture),
    ) -> Vec<Disturbance> {
        let tree = machine();
        let pool: CpuSet = "0-1".parse().unwrap();
        let own = Own { pids: [10].into() };
        let before = Picture::take(&tree.host(), &pool);
        change(&tree);
        let mut after = Picture::take(&tree.host(), &pool);
        after.clocks = before.clocks;
        after.clocks.monotonic_ns += seconds * SECOND_NS;
        retouch(&mut after);
        let own_cpu_ns = SECOND_NS;
        let (before, after, pool, own) = (&before, &after, &pool, &own);
        let span = Span { before, after, pool, own, own_cpu_ns, counts_all_steal: false };
        span.disturbances()
    }

    fn only(found: Vec<Disturbance>) -> Disturbance {
        let [one] = found.try_into().expect("one disturbance");
        one
    }

    /// The interfering processes, in thousandths of a CPU; others; named and unnamed share in thousandths.
    type Load = (Vec<(String, i32, u64)>, Option<(u32, u64)>, Option<u64>, Option<u64>);

    fn load_of(found: Vec<Disturbance>) -> Load {
        let Disturbance { share, fact } = only(found);
        let DisturbanceFact::OutsideLoad { named_share, interferences, others, unnamed_share } =
            fact
        else {
            panic!("{fact:?}")
        };
        let sum = named_share.unwrap_or(0.0) + unnamed_share.unwrap_or(0.0);
        assert_eq!(share, Some(sum));
        let thousandths = |share: f64| (share * 1000.0).round() as u64;
        let who = interferences.into_iter().map(|own| {
            assert_eq!(own.cpu_share, own.cpu_ns as f64 / (10.0 * SECOND_NS as f64));
            let children = if own.with_children { "+" } else { "" };
            (format!("{}{children}", own.who), own.pid, thousandths(own.cpu_share))
        });
        (
            who.collect(),
            others.map(|others| (others.processes, thousandths(others.cpu_share))),
            named_share.map(thousandths),
            unnamed_share.map(thousandths),
        )
    }

    fn who(name: &str, pid: i32, thousandths: u64) -> (String, i32, u64) {
        (name.to_string(), pid, thousandths)
    }

    #[test]
    fn a_quiet_machine_disturbs_nothing() {
        assert_eq!(found(10, |_| ()), []);
        // Our own work, a stranger below the threshold, and one on CPUs outside the pool.
        let quiet = found(10, |tree| {
            process(tree, 10, "schedlab", 1, 1500, 0);
            process(tree, 11, "runner", 10, 300, 0);
            process(tree, 13, "child", 1, 300, 1); // orphaned meanwhile
            process(tree, 99, "chrome", 1, 50 + 40, 1);
            process(tree, 97, "elsewhere", 1, 900, 3);
            stat(tree, [(1000, 0), (1000, 0), (900, 0), (900, 900)]);
        });
        assert_eq!(quiet, []);
    }

    #[test]
    fn other_processes_are_named_largest_first() {
        let found = found(10, |tree| {
            process(tree, 99, "chrome", 1, 50 + 370, 1);
            process(tree, 20, "cc1", 1, 41, 0);
            process(tree, 21, "\u{1b}[31mred)", 1, 42, 0);
            process(tree, 22, "a", 1, 5, 0);
            process(tree, 23, "b", 1, 5, 1);
        });
        let named =
            vec![who("chrome", 99, 370), who("\u{fffd}[31mred)", 21, 42), who("cc1", 20, 41)];
        assert_eq!(load_of(found), (named, Some((2, 10)), Some(232), None));
    }

    #[test]
    fn short_lived_load_is_named_by_who_collected_it_and_nothing_counts_twice() {
        let found = found(10, |tree| {
            // The compiler of the first picture ended; of its 100 ticks 60 were used by then.
            tree.remove("/proc/98/stat");
            process_with_ended(tree, 99, "chrome", 1, (50, 100), 1);
            process_with_ended(tree, 20, "bash", 1, (10, 390), 0);
            process(tree, 21, "cc1", 20, 100, 0);
            // Time that our own family collected is its own.
            process_with_ended(tree, 10, "schedlab", 1, (100, 500), 0);
            // Busy 14.4 s: 1 s of it the run's by its own count, more by /proc.
            stat(tree, [(720, 0), (720, 0), (0, 0), (0, 0)]);
        });
        let named = vec![who("bash+", 20, 400), who("cc1", 21, 100), who("chrome+", 99, 40)];
        assert_eq!(load_of(found), (named, None, Some(270), Some(200)));
    }

    #[test]
    fn the_threshold_of_outside_load_is_a_share_of_the_pool_and_more_than_rounding() {
        let kinds = |seconds: u64, ticks: u64| {
            found(seconds, |tree| process(tree, 99, "chrome", 1, 50 + ticks, 1)).len()
        };
        assert_eq!(kinds(10, 40), 0, "2 % of two CPUs");
        assert_eq!(kinds(10, 41), 1);
        assert_eq!(kinds(0, 1), 0, "one tick may be rounding, however short the run");
        assert_eq!(kinds(0, 2), 1);
    }

    #[test]
    fn a_reused_pid_counts_from_its_own_start() {
        let found = found(10, |tree| {
            let text = "99 (new) S 1 99 99 0 -1 0 1 2 3 4 60 0 0 0 20 0 1 0 12345 1 2 3 \
                        0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0\n";
            tree.write("/proc/99/stat", text);
        });
        assert_eq!(load_of(found), (vec![who("new", 99, 60)], None, Some(30), None));
    }

    #[test]
    fn busy_time_that_no_process_shows_is_found() {
        // 20 s of CPU time, 1 s of it ours: 13 s unnamed. Sampling error at 2000 ticks: 3.4 %.
        let unnamed = found(10, |tree| stat(tree, [(700, 0), (700, 0), (0, 0), (0, 0)]));
        assert_eq!(load_of(unnamed), (vec![], None, None, Some(650)));
        let within_sampling = found(10, |tree| stat(tree, [(130, 0), (130, 0), (0, 0), (0, 0)]));
        assert_eq!(within_sampling, []);
        let muqss = found(10, |tree| {
            stat(tree, [(700, 0), (700, 0), (0, 0), (0, 0)]);
            tree.write("/proc/sys/kernel/rr_interval", "6\n");
        });
        assert_eq!(muqss, [], "busy time is counted twice there");
        // Under any scheduler: CPU 0 was busy for 19 of 10 seconds.
        let twice = only(found(10, |tree| stat(tree, [(1900, 0), (700, 0), (0, 0), (0, 0)])));
        let of = CpuTimeOf::Cpus;
        let fact = DisturbanceFact::CpuTimeAboveWall { of, counted_cpus: 1.9, cpus: 1 };
        assert_eq!(twice, unsized_fact(fact));
    }

    #[test]
    fn steal_counts_on_the_pool_only() {
        let found = only(found(10, |tree| stat(tree, [(0, 30), (0, 10), (0, 900), (0, 0)])));
        let fact = DisturbanceFact::Steal { share: 0.02, worst_cpu: 0, worst_cpu_share: 0.03 };
        assert_eq!(found, Disturbance { share: Some(0.02), fact });
    }

    #[test]
    fn throttling_frequency_and_clock_source() {
        let found = found(10, |tree| {
            tree.write(&format!("{CPU}/cpu0/thermal_throttle/core_throttle_count"), "9\n");
            tree.write("/sys/fs/cgroup/user/cpu.stat", "usage_usec 5\nnr_throttled 4\n");
            for cpu in [0, 1, 3] {
                let path = format!("{CPU}/cpu{cpu}/cpufreq/scaling_max_freq");
                tree.write(&path, "1200000\n");
            }
            tree.write(&format!("{CPU}/cpufreq/boost"), "0\n");
            tree.write(CLOCK_SOURCE, "hpet\n");
        });
        let cgroup = ThrottledPart::Cgroup("/sys/fs/cgroup/user".to_string());
        let throttled = vec![
            Throttled { part: ThrottledPart::Core(0), events: 2 },
            Throttled { part: cgroup, events: 1 },
        ];
        let change = |setting: &str, cpus: CpuSet, before: &str, after: &str| SettingChange {
            setting: setting.to_string(),
            cpus,
            before: before.to_string(),
            after: after.to_string(),
        };
        let changes = vec![
            change("cpufreq/boost", CpuSet::default(), "1", "0"),
            change("scaling_max_freq", "0-1".parse().unwrap(), "3600000", "1200000"),
        ];
        let (before, after) = ("tsc".to_string(), "hpet".to_string());
        let expected = [
            DisturbanceFact::Throttling { parts: throttled },
            DisturbanceFact::FrequencyChange { changes },
            DisturbanceFact::ClockSourceChange { before, after },
        ];
        assert_eq!(found, expected.map(unsized_fact));
    }

    #[test]
    fn hotplug_in_the_pool_has_a_share() {
        let hotplug = |pool: &str, elsewhere: &str, came: &str| DisturbanceFact::CpuHotplug {
            pool_cpus: 2,
            lost_from_pool: pool.parse().unwrap_or_default(),
            lost_elsewhere: elsewhere.parse().unwrap_or_default(),
            came: came.parse().unwrap_or_default(),
        };
        let lost = found(10, |tree| {
            tree.write(&format!("{CPU}/online"), "0,2-4\n");
            tree.write("/proc/stat", "cpu0 0 0 0 0 0 0 0 0\n");
        });
        let expected = Disturbance { share: Some(0.5), fact: hotplug("1", "", "4") };
        assert_eq!(only(lost), expected);
        let elsewhere = found(10, |tree| tree.write(&format!("{CPU}/online"), "0-1\n"));
        assert_eq!(only(elsewhere), unsized_fact(hotplug("", "2-3", "")));
    }

    #[test]
    fn clock_steps_and_suspends_are_distinguished() {
        let stepped = |wall_ns: i64, boot_ns: i64| {
            let retouch = |after: &mut Picture| {
                after.clocks.wall_offset_ns += wall_ns;
                after.clocks.boot_offset_ns += boot_ns;
            };
            found_with(10, |_| (), retouch)
        };
        let step = |stepped_ns, suspended_ns| {
            [unsized_fact(DisturbanceFact::ClockStep { stepped_ns, suspended_ns })]
        };
        assert_eq!(stepped(1_000_000, 0), []);
        assert_eq!(stepped(1_500_000, 0), step(1_500_000, 0));
        assert_eq!(stepped(-2_000_000, 0), step(-2_000_000, 0));
        assert_eq!(stepped(3_000_000_000, 3_000_000_000), step(0, 3_000_000_000));
    }

    #[test]
    fn what_cannot_be_read_is_no_disturbance() {
        let empty = Tree::with_files(&[("/etc/nothing", "")]);
        let pool: CpuSet = "0-1".parse().unwrap();
        assert_eq!(Watch::begin(&empty.host(), &pool, Own::default()).end(0), []);
        let tree = machine();
        let watch = Watch::begin(&tree.host(), &pool, Own::default());
        ["/proc/stat", CLOCK_SOURCE, "/sys/devices/system/cpu/online"]
            .iter()
            .for_each(|path| tree.remove(path));
        assert_eq!(watch.end(0), []);
    }

    /// A shell that works until the test ends, and no longer than half a minute or so if that
    /// cannot end it: a script whose children work must bound their number.
    struct Busy(std::process::Child);

    impl Busy {
        fn start(script: &str) -> Busy {
            let script = format!("ulimit -t 30; {script}");
            let child = std::process::Command::new("sh").args(["-c", &script]).spawn();
            Busy(child.expect("sh"))
        }

        fn pid(&self) -> i32 {
            self.0.id() as i32
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A process as an interference, if it is one.
    fn offence(before: &Picture, after: &Picture, own: &Own, pid: i32) -> Option<Interference> {
        let pool = after.online.clone().known().unwrap();
        let pool = &pool;
        let span = Span { before, after, pool, own, own_cpu_ns: 0, counts_all_steal: false };
        let outside = span.outside().expect("/proc can be read");
        let found = outside.offenders.iter().find(|offender| offender.process.pid == pid);
        found.map(|offender| span.interference(offender))
    }

    #[test]
    fn a_busy_process_is_found_and_our_own_is_not() {
        let host = Host::default();
        let pool = topology::online(&host).known().unwrap();
        let before = Picture::take(&host, &pool);
        let busy = Busy::start("while :; do :; done");
        let pid = busy.pid();
        while clock::process_cpu_ns(pid).expect("the busy process lives") < 100_000_000 {
            std::thread::yield_now();
        }
        let after = Picture::take(&host, &pool);
        let Interference { who, cpu_ns: used_ns, with_children, is_kernel_thread, .. } =
            offence(&before, &after, &Own::default(), pid).expect("an offender");
        assert_eq!((&*who, with_children, is_kernel_thread), ("sh", false, false));
        // Its time so far, rounded down to ticks: user and system time each.
        assert!(used_ns >= 100_000_000 - 2 * load::tick_ns(), "{used_ns}");
        assert_eq!(offence(&before, &after, &Own { pids: [pid].into() }, pid), None);
    }

    #[test]
    fn a_shell_whose_children_end_one_after_the_other_is_found_with_them() {
        let host = Host::default();
        let pool = topology::online(&host).known().unwrap();
        let busy = Busy::start(
            "for n in $(seq 2000); do (i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done); done",
        );
        let pid = busy.pid();
        let of_shell = |picture: &Picture| picture.processes.clone().known().unwrap()[&pid].clone();
        let before = Picture::take(&host, &pool);
        let earlier = of_shell(&before);
        let (after, later) = loop {
            let picture = Picture::take(&host, &pool);
            let shell = of_shell(&picture);
            if shell.children_ns >= earlier.children_ns + 100_000_000 {
                break (picture, shell);
            }
        };
        let Interference { who, cpu_ns: used_ns, with_children, .. } =
            offence(&before, &after, &Own::default(), pid).expect("an offender");
        assert_eq!((&*who, with_children), ("sh", true));
        let children_ns = later.children_ns - earlier.children_ns;
        // Less what a child had that the first picture has met in the middle of its life.
        let own = Own { pids: [pid].into() };
        assert_eq!(offence(&before, &after, &own, pid), None);
        let met_ns: u64 = before
            .processes
            .known()
            .unwrap()
            .values()
            .filter(|process| process.parent == pid)
            .map(|child| child.cpu_ns)
            .sum();
        assert_eq!(used_ns, later.cpu_ns - earlier.cpu_ns + children_ns - met_ns);
    }
}
