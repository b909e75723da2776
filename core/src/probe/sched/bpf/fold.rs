//! Turns the counts of the BPF programs into a scoreboard's rows. Names stay numbers until the end, when the table
//! of names is read. A reading while counting goes on reads living tasks without changing them, and shows the
//! counts since the last one.

use std::collections::{BTreeMap, HashMap};

use libbpf_rs::{Map, MapCore, MapFlags};

use crate::model::{
    Bucket, CpuScore, Distances, IDLE, INTERRUPT, Migrations, OTHER, PairKind, PairScore,
    TaskScore, Times, Turn, WorstWait, task_name,
};
use crate::sys::{Host, cgroup, load};

use super::layout::{self, Counters, Cpu, Live, Pair, PairSum, Past, Stay, Task};
use crate::probe::sched::error::BpfError;
use crate::probe::sched::since::Since;
use crate::probe::sched::turns::Turns;
use crate::probe::sched::{Counted, Level, SessionConfig, buckets};

/// The largest number of ended tasks whose stays on CPUs are left in the kernel's map.
const MAX_ENDED: usize = 500;
/// Entries of a map that one call reads.
const BATCH: u32 = 4096;

pub struct Fold {
    level: Level,
    /// Ended tasks are kept until the end.
    totals: bool,
    tasks: Vec<TaskScore>,
    /// The number of each task's cgroup.
    cgroups: Vec<u64>,
    /// The paths of cgroups by number, of those that may have gone away since, too.
    paths: HashMap<u64, String>,
    /// Position in `tasks` by the task's number; `None`: it is not kept.
    by_number: HashMap<u32, Option<usize>>,
    /// Ended tasks whose stays are still in the map.
    ended: usize,
    pairs: Pairs,
    names: BTreeMap<u32, String>,
    readings: Option<Readings>,
}

/// Count and time by kind, actor and the one concerned.
type Pairs = BTreeMap<(u32, u32, u32), (u64, u64)>;

/// State that one reading leaves to the next.
struct Readings {
    since: Since,
    /// Tasks that something happened to since the last one, with their cgroups' numbers.
    tasks: Vec<(TaskScore, u64)>,
    /// The CPU of each.
    on: HashMap<i32, u32>,
    /// Tasks that live and were in a reading, by number.
    living: HashMap<u32, Seen>,
    /// Names of processes by pid, and cgroups by inode.
    processes: HashMap<i32, String>,
    cgroups: HashMap<u64, Option<String>>,
}

/// The last reading of a task.
struct Seen {
    name: u32,
    woken_by: [layout::Waker; layout::PARTNERS],
    delayed_by: [layout::Partner; layout::PARTNERS],
    /// The maxima of all readings.
    wait_max_ns: u64,
    slice_max_ns: u64,
}

/// The state of the machine when counting ends, or at a reading.
pub struct Now {
    pub online: Vec<u32>,
    /// Times of the monotonic clock, which the CPUs' idle times have too.
    pub began_ns: u64,
    pub at_ns: u64,
    /// Run-queue lengths were sampled.
    pub sampled: bool,
}

impl Fold {
    pub fn new(config: &SessionConfig) -> Fold {
        let readings = || Readings {
            since: Since::new(Some(layout::FULL_BUCKET)),
            tasks: Vec::new(),
            on: HashMap::new(),
            living: HashMap::new(),
            processes: HashMap::new(),
            cgroups: HashMap::new(),
        };
        Fold {
            level: config.level,
            totals: config.totals,
            tasks: Vec::new(),
            cgroups: Vec::new(),
            paths: HashMap::new(),
            by_number: HashMap::new(),
            ended: 0,
            pairs: Pairs::new(),
            names: BTreeMap::new(),
            readings: config.readings.then(readings),
        }
    }

    /// Learns the paths of the cgroups that are there.
    pub fn learn_cgroups(&mut self) {
        self.paths.extend(cgroup::paths_by_inode(&Host::default()));
    }

    /// Takes over a task, living or ended, and how long it has been waiting if it does. A task that nothing
    /// happened to is left out.
    pub fn task(&mut self, task: &Task, waiting_ns: u64) {
        let happened = task.waits
            + task.wakeups
            + task.voluntary
            + task.involuntary
            + task.run_ns
            + waiting_ns;
        // A task that ends while all are read comes twice, with the same counts.
        if self.by_number.contains_key(&task.number) {
            return;
        }
        // A watched task that lives has a row even if it has not run yet.
        let is_left = task.flags & (layout::WATCHED | layout::DEAD) == layout::WATCHED;
        if happened == 0 && !is_left {
            return;
        }
        add_partners(&mut self.pairs, task.name, &task.woken_by, &task.delayed_by);
        let is_ended = task.flags & layout::DEAD != 0;
        self.ended += usize::from(is_ended);
        let mut score = score(task, self.level);
        score.waiting_ns = (waiting_ns > 0).then_some(waiting_ns);
        if let Some(readings) = &mut self.readings {
            let seen = readings.living.remove(&task.number);
            if is_ended {
                readings.tasks.push((TaskScore { cpus: None, ..score.clone() }, task.cgroup));
                readings.on.insert(task.pid, task.cpu);
            }
            if let Some(seen) = seen {
                raise(&mut score, seen.wait_max_ns, seen.slice_max_ns);
            }
        }
        let is_kept = self.totals || !is_ended;
        self.by_number.insert(task.number, is_kept.then_some(self.tasks.len()));
        if is_kept {
            self.cgroups.push(task.cgroup);
            self.tasks.push(score);
        }
    }

    /// A task that counts on.
    pub fn living(&mut self, task: &Task, live: &Live) {
        let Some(readings) = &mut self.readings else { return };
        let mut score = score(task, self.level);
        let add = |to: &mut Option<u64>, now: u64, seen: u64| {
            *to = to.map(|count| count + now.saturating_sub(seen));
        };
        add(&mut score.run_ns, live.run, task.run_seen);
        add(&mut score.voluntary, live.voluntary, task.voluntary_seen);
        add(&mut score.involuntary, live.involuntary, task.involuntary_seen);
        for (times, max_ns) in
            [(&mut score.wait, live.wait_max_ns), (&mut score.slice, live.slice_max_ns)]
        {
            times.iter_mut().for_each(|times| times.max_ns = Some(max_ns));
        }
        score.waiting_ns = (live.waiting_ns > 0).then_some(live.waiting_ns);
        score.cpus = None;
        let before = readings.living.get(&task.number);
        let max = |of: fn(&Seen) -> u64, now: u64| before.map_or(0, of).max(now);
        let seen = Seen {
            name: task.name,
            woken_by: task.woken_by,
            delayed_by: task.delayed_by,
            wait_max_ns: max(|seen| seen.wait_max_ns, live.wait_max_ns),
            slice_max_ns: max(|seen| seen.slice_max_ns, live.slice_max_ns),
        };
        readings.living.insert(task.number, seen);
        readings.on.insert(task.pid, task.cpu);
        readings.tasks.push((score, task.cgroup));
    }

    /// The counts since the last reading.
    pub fn reading(
        &mut self,
        counters: &Counters,
        cpus: &[Cpu],
        now: &Now,
        spilled: &Map,
    ) -> Result<Counted, BpfError> {
        let Some(readings) = &mut self.readings else { return Ok(Counted::default()) };
        let (gone, mut tasks): (Vec<_>, Vec<_>) =
            readings.take_tasks().into_iter().partition(|task| task.ended);
        tasks.extend(other(counters, cpus).map(|task| TaskScore { cpus: None, ..task }));
        let mut pairs = None;
        if self.level == Level::Full {
            let mut all = self.pairs.clone();
            let living = readings.living.values();
            living.for_each(|seen| {
                add_partners(&mut all, seen.name, &seen.woken_by, &seen.delayed_by);
            });
            add_spilled(&mut all, spilled)?;
            pairs = Some(named_pairs(&all, &self.names));
        }
        let mut counted = self.counted(tasks, pairs, counters, cpus, now);
        if let Some(readings) = &mut self.readings {
            counted = readings.since.step(gone, counted);
            for task in &mut counted.tasks {
                let cpu = readings.on.get(&task.tid);
                task.cpus = cpu.zip(task.run_ns).map(|(cpu, ns)| vec![(*cpu, ns)]);
            }
            readings.on.clear();
        }
        Ok(counted)
    }

    /// Numbers of tasks, and tasks.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.by_number.len() + self.tasks.len()
    }

    #[cfg(test)]
    pub fn has_ended(&self, tid: i32) -> bool {
        self.tasks.iter().any(|task| task.tid == tid && task.ended)
    }

    /// Takes over the run times of tasks on CPUs that they have left: of ended ones, where there are many, and of
    /// all at the end.
    pub fn take_stays(&mut self, map: &Map, all: bool) -> Result<(), BpfError> {
        if !all && self.ended < MAX_ENDED {
            return Ok(());
        }
        for (key, value) in entries(map)? {
            let stay: Stay = bytemuck::pod_read_unaligned(&key);
            let Some(at) = self.by_number.get(&stay.number) else { continue };
            if let Some(task) = at.map(|at| &mut self.tasks[at]) {
                if !task.ended && !all {
                    continue;
                }
                add(task, stay.cpu, bytemuck::pod_read_unaligned(&value));
            }
            map.delete(&key).map_err(BpfError::map("stays"))?;
        }
        self.ended = 0;
        self.by_number.retain(|_, at| at.is_some());
        Ok(())
    }

    pub fn take_pairs(&mut self, map: &Map) -> Result<(), BpfError> {
        add_spilled(&mut self.pairs, map)
    }

    pub fn take_names(&mut self, map: &Map) -> Result<(), BpfError> {
        for (key, value) in entries(map)? {
            self.names.insert(bytemuck::pod_read_unaligned(&value), task_name(&key));
        }
        Ok(())
    }

    /// Everything, with names in place of numbers.
    pub fn finish(&mut self, counters: &Counters, cpus: &[Cpu], now: &Now) -> Counted {
        let mut tasks = std::mem::take(&mut self.tasks);
        self.learn_cgroups();
        let processes: HashMap<i32, String> = tasks
            .iter()
            .filter(|task| task.tid == task.pid)
            .map(|task| (task.pid, task.name.clone()))
            .collect();
        for (task, cgroup) in tasks.iter_mut().zip(&self.cgroups) {
            task.process = processes.get(&task.pid).unwrap_or(&task.name).clone();
            task.cgroup = self.paths.get(cgroup).cloned();
        }
        tasks.extend(other(counters, cpus));
        let pairs = (self.level == Level::Full).then(|| named_pairs(&self.pairs, &self.names));
        self.counted(tasks, pairs, counters, cpus, now)
    }

    fn counted(
        &self,
        tasks: Vec<TaskScore>,
        pairs: Option<Vec<PairScore>>,
        counters: &Counters,
        cpus: &[Cpu],
        now: &Now,
    ) -> Counted {
        let cpus: Vec<(u32, &Cpu)> =
            now.online.iter().filter_map(|cpu| Some((*cpu, cpus.get(*cpu as usize)?))).collect();
        Counted {
            wall_ns: now.at_ns - now.began_ns,
            tasks,
            worst: self.worst(&cpus, now),
            trace: None,
            lost_tasks: counters.tasks_lost + counters.dead_lost,
            lost: lost(counters, &cpus),
            pairs,
            cpus: cpus.into_iter().map(|(number, cpu)| cpu_score(number, cpu, now)).collect(),
        }
    }

    /// The longest wait of all CPUs.
    fn worst(&self, cpus: &[(u32, &Cpu)], now: &Now) -> Option<WorstWait> {
        let (number, cpu) = cpus.iter().max_by_key(|(_, cpu)| cpu.worst_ns)?;
        let before = Turn {
            tid: (cpu.worst_prev_pid != 0).then_some(cpu.worst_prev_pid),
            name: name_of(cpu.worst_prev_name, &self.names),
            run_ns: u64::from(cpu.worst_slice_us) * 1000,
        };
        (cpu.worst_ns > 0).then(|| WorstWait {
            wait_ns: cpu.worst_ns,
            at_ns: cpu.worst_at.saturating_sub(now.began_ns),
            cpu: *number,
            tid: cpu.worst_pid,
            name: name_of(cpu.worst_name, &self.names),
            before,
            meanwhile: None,
            known_ns: 0,
        })
    }

    /// Fills in the tasks that had the CPU during the last piece of the longest wait. The kernel's record has names
    /// and no task numbers.
    pub fn meanwhile(&self, past: &Past, worst: &mut WorstWait) {
        let mut turns = Turns::default();
        for sum in &past.worst[..layout::WORST_HOLDERS.min(past.worst_count as usize)] {
            turns.add(None, name_of(sum.name, &self.names), sum.ns);
        }
        (worst.known_ns, worst.meanwhile) = turns.finish();
    }

    /// The names of tasks by number.
    pub fn names(&self) -> &BTreeMap<u32, String> {
        &self.names
    }
}

impl Readings {
    /// Tasks that something happened to since the last reading, with all that they did.
    fn take_tasks(&mut self) -> Vec<TaskScore> {
        let host = Host::default();
        let mut taken = std::mem::take(&mut self.tasks);
        for (task, _) in taken.iter().filter(|(task, _)| task.tid == task.pid) {
            self.processes.insert(task.pid, task.name.clone());
        }
        if taken.iter().any(|(_, cgroup)| !self.cgroups.contains_key(cgroup)) {
            let paths = cgroup::paths_by_inode(&host);
            self.cgroups.extend(paths.into_iter().map(|(inode, path)| (inode, Some(path))));
        }
        for (task, cgroup) in &mut taken {
            task.cgroup = self.cgroups.entry(*cgroup).or_default().clone();
            task.process = match self.processes.get(&task.pid) {
                Some(name) => name.clone(),
                None => {
                    let process = load::process(&host, task.pid);
                    let name = process.map_or_else(|| task.name.clone(), |process| process.name);
                    self.processes.entry(task.pid).or_insert(name).clone()
                }
            };
        }
        for (task, _) in taken.iter().filter(|(task, _)| task.ended && task.tid == task.pid) {
            self.processes.remove(&task.pid);
        }
        taken.into_iter().map(|(task, _)| task).collect()
    }
}

fn name_of(number: u32, names: &BTreeMap<u32, String>) -> String {
    match number {
        layout::INTERRUPT_NAME => INTERRUPT.to_string(),
        layout::IDLE_NAME => IDLE.to_string(),
        layout::UNWATCHED_NAME => PairScore::UNWATCHED.to_string(),
        number => names.get(&number).map_or(OTHER, String::as_str).to_string(),
    }
}

fn named_pairs(pairs: &Pairs, names: &BTreeMap<u32, String>) -> Vec<PairScore> {
    let name = |number| name_of(number, names);
    let pair = |(&(kind, by, to), &(count, ns)): (&(u32, u32, u32), &(u64, u64))| {
        let is_woken = kind == layout::PAIR_WOKEN;
        PairScore {
            kind: if is_woken { PairKind::Woke } else { PairKind::Delayed },
            by: name(by),
            name: name(to),
            count,
            lost_ns: (!is_woken).then_some(ns),
        }
    };
    pairs.iter().map(pair).collect()
}

/// Kind, who and whom.
fn add_pair(pairs: &mut Pairs, (kind, by, whom): (u32, u32, u32), PairSum { count, ns }: PairSum) {
    if count > 0 || ns > 0 {
        let whom = if by == layout::UNWATCHED_NAME { by } else { whom };
        let sum = pairs.entry((kind, by, whom)).or_default();
        sum.0 += count;
        sum.1 += ns;
    }
}

/// Adds the partners that lie next to a task's counts.
fn add_partners(
    pairs: &mut Pairs,
    name: u32,
    woken_by: &[layout::Waker],
    delayed_by: &[layout::Partner],
) {
    for by in woken_by {
        let sum = PairSum { count: u64::from(by.count), ns: 0 };
        add_pair(pairs, (layout::PAIR_WOKEN, by.name, name), sum);
    }
    for by in delayed_by {
        let sum = PairSum { count: u64::from(by.count), ns: by.ns };
        add_pair(pairs, (layout::PAIR_DELAYED, by.name, name), sum);
    }
}

/// Adds the partners that had no room there.
fn add_spilled(pairs: &mut Pairs, map: &Map) -> Result<(), BpfError> {
    for (key, value) in entries(map)? {
        let Pair { name, by, kind } = bytemuck::pod_read_unaligned(&key);
        add_pair(pairs, (kind, by, name), bytemuck::pod_read_unaligned(&value));
    }
    Ok(())
}

/// Maxima that readings have taken are maxima of the whole.
fn raise(score: &mut TaskScore, wait_max_ns: u64, slice_max_ns: u64) {
    for (times, max_ns) in [(&mut score.wait, wait_max_ns), (&mut score.slice, slice_max_ns)] {
        times.iter_mut().for_each(|times| times.max_ns = times.max_ns.max(Some(max_ns)));
    }
}

/// Key and value.
type Entry = (Vec<u8>, Vec<u8>);

/// A map's entries, as they are at some moment of the reading.
fn entries(map: &Map) -> Result<Vec<Entry>, BpfError> {
    let batch = map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
    Ok(batch.map_err(BpfError::map(&map.name().to_string_lossy()))?.collect())
}

/// Up to the first NUL, whatever bytes the name has.
fn score(task: &Task, level: Level) -> TaskScore {
    let (full, counts) = (level == Level::Full, level != Level::Events);
    let [within_llc, across_llc, across_node] = task.migrations.map(u64::from);
    let mut score = TaskScore {
        tid: task.pid,
        pid: task.tgid,
        name: task_name(&task.comm),
        process: String::new(),
        cgroup: None,
        watched: task.flags & layout::WATCHED != 0,
        kernel_thread: task.flags & layout::KERNEL_THREAD != 0,
        ended: task.flags & layout::DEAD != 0,
        run_ns: Some(task.run_ns),
        wait: counts.then(|| Times {
            count: task.waits,
            total_ns: task.wait_ns,
            max_ns: Some(task.wait_max_ns),
            buckets: buckets::counted(&task.wait, buckets::WAIT_BITS),
        }),
        slice: full.then(|| Times {
            count: task.slices,
            total_ns: task.run_ns,
            max_ns: Some(task.slice_max_ns),
            buckets: buckets::counted(&task.slice, buckets::SLICE_BITS),
        }),
        voluntary: Some(task.voluntary),
        involuntary: Some(task.involuntary),
        wakeups: full.then_some(task.wakeups),
        migrations: full.then_some(Migrations {
            total: within_llc + across_llc + across_node,
            by_distance: Some(Distances { within_llc, across_llc, across_node }),
        }),
        cpus: counts.then(Vec::new),
        waiting_ns: None,
    };
    if counts && task.run_here_ns > 0 {
        add_stay(&mut score, task.cpu, task.run_here_ns);
    }
    score
}

/// An entry of the map `stays`: run time on a CPU, or samples that had no room in the task.
fn add(task: &mut TaskScore, key: u32, value: u64) {
    let (times, bits) = match key {
        _ if key & layout::STAY_WAIT != 0 => (&mut task.wait, buckets::WAIT_BITS),
        _ if key & layout::STAY_SLICE != 0 => (&mut task.slice, buckets::SLICE_BITS),
        cpu => return add_stay(task, cpu, value),
    };
    let bucket = key & !(layout::STAY_WAIT | layout::STAY_SLICE);
    let (low_ns, high_ns) = buckets::bucket_range(bucket as usize, bits);
    let buckets = vec![Bucket { low_ns, high_ns, count: value }];
    if let Some(times) = times {
        times.merge(&Times { buckets, ..Times::default() });
    }
}

fn add_stay(task: &mut TaskScore, cpu: u32, ns: u64) {
    let stays = task.cpus.get_or_insert_default();
    match stays.binary_search_by_key(&cpu, |(cpu, _)| *cpu) {
        Ok(at) => stays[at].1 += ns,
        Err(at) => stays.insert(at, (cpu, ns)),
    }
}

/// The counts of all tasks together that there was no room for. If the command had more tasks than there is room,
/// they are among these.
fn other(counters: &Counters, cpus: &[Cpu]) -> Option<TaskScore> {
    let sum = |of: fn(&Cpu) -> u64| cpus.iter().map(of).sum::<u64>();
    let by_cpu = cpus.iter().zip(0..).filter(|(cpu, _)| cpu.other_run_ns > 0);
    let is_any = cpus.iter().any(|cpu| cpu.untracked > 0);
    is_any.then(|| TaskScore {
        name: OTHER.to_string(),
        process: OTHER.to_string(),
        watched: counters.tasks_lost > 0,
        run_ns: Some(sum(|cpu| cpu.other_run_ns)),
        voluntary: Some(sum(|cpu| cpu.other_voluntary)),
        involuntary: Some(sum(|cpu| cpu.other_involuntary)),
        cpus: Some(by_cpu.map(|(cpu, number)| (number, cpu.other_run_ns)).collect()),
        ..TaskScore::default()
    })
}

/// `None` where nothing is known of a CPU: it never switched and was never sampled.
fn busy_ns(cpu: &Cpu, now: &Now) -> Option<u64> {
    let wall_ns = now.at_ns - now.began_ns;
    if cpu.switches == 0 && cpu.idle_since == 0 {
        let is_idle = cpu.lengths.iter().skip(1).all(|count| *count == 0);
        return now.sampled.then_some(if is_idle { 0 } else { wall_ns });
    }
    let idles_still_ns = match cpu.idle_since {
        0 => 0,
        since_ns => now.at_ns.saturating_sub(since_ns.max(now.began_ns)),
    };
    Some(wall_ns.saturating_sub(cpu.idle_ns + idles_still_ns))
}

fn cpu_score(number: u32, cpu: &Cpu, now: &Now) -> CpuScore {
    CpuScore {
        cpu: number,
        busy_ns: busy_ns(cpu, now),
        switches: Some(cpu.switches),
        idle_entries: Some(cpu.idle_entries),
        lengths: now.sampled.then(|| {
            let longest = cpu.lengths.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
            cpu.lengths[..longest].to_vec()
        }),
    }
}

/// The events that there was no room for, a sentence each.
fn lost(counters: &Counters, cpus: &[(u32, &Cpu)]) -> Vec<String> {
    let untracked: u64 = cpus.iter().map(|(_, cpu)| cpu.untracked).sum();
    let cases = [
        (counters.tasks_lost, "tasks without room (score has --max-tasks)"),
        (
            untracked,
            "switches to tasks without room or that the kernel does not list, counted as (other)",
        ),
        (counters.dead_lost, "ended tasks that could not be handed over"),
        (counters.names_lost, "names without room, counted as (other)"),
        (counters.pairs_lost, "wakeups or preemptions without room among the pairs"),
        (counters.stays_lost, "stays on a CPU without room, so that run times by CPU are too low"),
        (counters.samples_lost, "waits or slices without room in their histograms"),
    ];
    let lost = cases.into_iter().filter(|(count, _)| *count > 0);
    lost.map(|(count, what)| format!("{what}: {count}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn a_cpu_is_busy_when_it_does_not_idle_also_at_the_ends() {
        let now = |sampled| Now { online: vec![0], began_ns: 1_000, at_ns: 2_000, sampled };
        let cpu =
            |switches, idle_ns, idle_since| Cpu { switches, idle_ns, idle_since, ..Cpu::zeroed() };
        let cases = [
            (cpu(0, 0, 500), Some(0), "idle from before the beginning on"),
            (cpu(2, 300, 1_600), Some(300), "idle since 1,600, and 300 before"),
            (cpu(2, 300, 0), Some(700), "busy at the end"),
            (cpu(0, 0, 0), None, "never seen"),
        ];
        for (cpu, busy, why) in cases {
            assert_eq!(busy_ns(&cpu, &now(false)), busy, "{why}");
        }
        let mut sampled = cpu(0, 0, 0);
        sampled.lengths[0] = 9;
        assert_eq!(busy_ns(&sampled, &now(true)), Some(0));
        sampled.lengths[1] = 1;
        assert_eq!(busy_ns(&sampled, &now(true)), Some(1_000));
    }
}
