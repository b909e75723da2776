//! The source `procfs`: pictures of /proc, taken when counting begins, every 100 ms, and at the end. Needs no
//! privilege, and knows less: no histograms, no pairs, no wakeups.
//!
//! Watched tasks are read in each picture, because they may end before the next; other tasks only in the first and
//! the last. If nothing in particular is watched, everything is. Tasks are distinguished by their start time:
//! numbers are used again. A picture that takes long is followed by a longer pause, so that reading costs at most a
//! twentieth of one CPU's time.

mod task;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::model::{CpuScore, CpuSet, Reading, TaskScore, is_above_wall};
use crate::sys::load::{self, CpuTimes, Process};
use crate::sys::task::{Schedstat, TaskReader};
use crate::sys::{Host, cgroup, clock};

use super::family::processes;
use super::since::Since;
use super::{Counted, Session, SessionConfig, SourceError};
use task::{Task, Values};

const MIN_PAUSE_NS: u64 = 100_000_000;
/// The pause between pictures is this number of times the cost of the last one.
const PAUSE_PER_COST: u64 = 20;

pub fn open(config: &SessionConfig) -> Result<Box<dyn Session>, SourceError> {
    let host = Host::default();
    let own_pid = std::process::id() as i32;
    load::process(&host, own_pid).ok_or(SourceError::NoProc { own_pid })?;
    let (readings, totals) = (config.readings, config.totals);
    Ok(Box::new(Procfs { readings, totals, ..Procfs::new(host, own_pid) }))
}

struct Procfs {
    host: Host,
    reader: TaskReader,
    own_pid: i32,
    /// The kernel keeps run times and waits: zeros of a task are zeros.
    keeps: bool,
    /// Processes to be watched, with the start of each that exists.
    asked: BTreeMap<i32, Option<u64>>,
    children: bool,
    processes: HashMap<i32, Known>,
    tasks: HashMap<i32, Task>,
    ended: Vec<TaskScore>,
    /// Tasks that ended since the last reading.
    unread: Vec<TaskScore>,
    /// Ended ones are kept for the next reading, and until the end.
    readings: bool,
    totals: bool,
    since: Since,
    cpus: BTreeMap<u32, CpuTimes>,
    pace: Pace,
    missed: Missed,
    /// Number of the picture that is taken; 0: not begun.
    picture: u32,
}

/// When pictures were taken.
#[derive(Default)]
struct Pace {
    began_ns: u64,
    read_ns: u64,
    pause_ns: u64,
    longest_ns: u64,
}

/// Numbers that show how much was missed.
#[derive(Default)]
struct Missed {
    /// Made on the whole machine since boot, when counting began.
    forks: Option<u64>,
    /// Made since then and met.
    met: u64,
    /// Ended after their last picture, and did something unseen.
    cut: u64,
    unwatched: u64,
    hidden: bool,
}

struct Known {
    started_ns: u64,
    name: String,
    cgroup: Option<String>,
    watched: bool,
    /// Its tasks have been read.
    read: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Picture {
    First,
    Between,
    Last,
}

/// The results of one reading of /proc.
struct Found {
    present: HashSet<i32>,
    /// Processes that were read.
    processes: BTreeMap<i32, Process>,
}

impl Session for Procfs {
    fn watch(&mut self, pid: i32) -> Result<(), SourceError> {
        let started_ns = load::process(&self.host, pid).map(|process| process.started_ns);
        self.asked.insert(pid, started_ns);
        let is_known = self.processes.get_mut(&pid).filter(|known| {
            Some(known.started_ns) == started_ns // One that began before it was asked for.
        });
        if let Some(known) = is_known {
            known.watched = true;
            for tid in load::tids(&self.host, pid) {
                let values = Values::from_stats(&self.reader.stats(pid, tid));
                self.tasks.entry(tid).and_modify(|task| task.count_from(values));
            }
        }
        Ok(())
    }

    fn watch_children(&mut self) -> Result<(), SourceError> {
        self.children = true;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), SourceError> {
        let own = self.reader.schedstat(self.own_pid, self.own_pid);
        self.keeps = own.is_some_and(|own| own != Schedstat::default()); // This process has run.
        self.missed.forks = load::forks(&self.host);
        self.take(Picture::First)?;
        self.missed.hidden = !self.processes.contains_key(&1);
        self.cpus = load::cpu_times(&self.host).known().unwrap_or_default();
        self.pace.began_ns = clock::monotonic_ns();
        Ok(())
    }

    fn poll(&mut self) -> Result<(), SourceError> {
        let is_due = clock::monotonic_ns() >= self.pace.read_ns + self.pace.pause_ns;
        if self.picture > 0 && is_due { self.take(Picture::Between) } else { Ok(()) }
    }

    fn reading(&mut self) -> Result<Counted, SourceError> {
        // If reading /proc takes long, the last picture serves until the pause after it is over.
        match self.pace.pause_ns {
            0..=MIN_PAUSE_NS => self.take(Picture::Between)?,
            _ => self.poll()?,
        }
        let wall_ns = clock::monotonic_ns().saturating_sub(self.pace.began_ns);
        let cpus = load::cpu_times(&self.host).known().unwrap_or_default();
        let unread = std::mem::take(&mut self.unread);
        let so_far = self.counted(wall_ns, Vec::new(), &cpus);
        Ok(self.since.step(unread, so_far))
    }

    fn end(&mut self) -> Result<Counted, SourceError> {
        let wall_ns = clock::monotonic_ns().saturating_sub(self.pace.began_ns);
        let cpus = load::cpu_times(&self.host).known().unwrap_or_default();
        self.take(Picture::Last)?;
        let ended = std::mem::take(&mut self.ended);
        Ok(self.counted(wall_ns, ended, &cpus))
    }
}

impl Procfs {
    fn new(host: Host, own_pid: i32) -> Procfs {
        Procfs {
            reader: TaskReader::new(host.clone()),
            host,
            own_pid,
            keeps: false,
            asked: BTreeMap::new(),
            children: false,
            processes: HashMap::new(),
            tasks: HashMap::new(),
            ended: Vec::new(),
            unread: Vec::new(),
            readings: false,
            totals: true,
            since: Since::default(),
            cpus: BTreeMap::new(),
            pace: Pace::default(),
            missed: Missed::default(),
            picture: 0,
        }
    }

    /// The counts since counting began, for living and ended tasks.
    fn counted(
        &self,
        wall_ns: u64,
        mut tasks: Vec<TaskScore>,
        cpus: &BTreeMap<u32, CpuTimes>,
    ) -> Counted {
        let forks = load::forks(&self.host);
        for task in self.tasks.values() {
            let known = self.processes.get(&task.pid);
            let process = known.map_or(&task.name, |known| &known.name);
            let cgroup = known.and_then(|known| known.cgroup.clone());
            tasks.extend(task.score(process).map(|score| TaskScore { cgroup, ..score }));
        }
        tasks.sort_by_key(|task| (task.pid, task.tid));
        let both: Vec<(u32, &CpuTimes, &CpuTimes)> =
            self.cpus.iter().filter_map(|(cpu, from)| Some((*cpu, from, cpus.get(cpu)?))).collect();
        let mut lost = self.missed.describe(forks, self.pace.longest_ns);
        lost.extend(twice(&both, wall_ns));
        let score = |(cpu, from, to): &(u32, &CpuTimes, &CpuTimes)| CpuScore {
            cpu: *cpu,
            busy_ns: busy_ns(from, to, wall_ns),
            ..CpuScore::default()
        };
        let cpus = both.iter().map(score).collect();
        Counted { wall_ns, tasks, cpus, lost, ..Counted::default() }
    }

    fn take(&mut self, picture: Picture) -> Result<(), SourceError> {
        let now_ns = clock::monotonic_ns();
        if picture != Picture::First {
            self.pace.longest_ns = self.pace.longest_ns.max(now_ns - self.pace.read_ns);
        }
        self.picture += 1;
        let found = self.find(picture)?;
        self.meet(&found.processes, picture);
        for process in found.processes.values() {
            if picture != Picture::Between || self.is_full(process.pid) {
                self.read_tasks(process, picture);
            }
        }
        self.part(&found);
        self.pace.read_ns = now_ns;
        let cost_ns = clock::monotonic_ns() - now_ns;
        self.pace.pause_ns = MIN_PAUSE_NS.max(cost_ns.saturating_mul(PAUSE_PER_COST));
        Ok(())
    }

    /// Everything counts where nothing in particular was asked for.
    fn is_everything(&self) -> bool {
        self.asked.is_empty() && !self.children
    }

    /// Whether all numbers of this process are wanted.
    fn is_full(&self, pid: i32) -> bool {
        self.is_everything() || self.processes.get(&pid).is_some_and(|known| known.watched)
    }

    /// In between, only new processes, and watched ones, as a task takes its counts with it when it ends.
    fn find(&self, picture: Picture) -> Result<Found, SourceError> {
        if picture != Picture::Between {
            let processes = processes(&self.host)?;
            return Ok(Found { present: processes.keys().copied().collect(), processes });
        }
        let pids = match load::pids(&self.host) {
            Reading::Known(pids) => pids,
            Reading::Unknown(why) => return Err(SourceError::Processes(why)),
        };
        let is_wanted = |pid: &&i32| !self.processes.contains_key(pid) || self.is_full(**pid);
        let wanted = pids.iter().filter(is_wanted);
        let processes = wanted.filter_map(|pid| Some((*pid, load::process(&self.host, *pid)?)));
        Ok(Found { processes: processes.collect(), present: pids.iter().copied().collect() })
    }

    /// Adds new processes, and finds out whether they are watched.
    fn meet(&mut self, found: &BTreeMap<i32, Process>, picture: Picture) {
        let is_new = |process: &&Process| {
            let known = self.processes.get(&process.pid);
            known.is_none_or(|known| known.started_ns != process.started_ns)
        };
        // The oldest first, so that parents come before children but where a clock tick has both.
        let mut new: Vec<&Process> = found.values().filter(is_new).collect();
        new.sort_by_key(|process| (process.started_ns, process.pid));
        for process in &new {
            let watched = self.asked.get(&process.pid).is_some_and(|started_ns| {
                started_ns.is_none_or(|started_ns| started_ns == process.started_ns)
            });
            let known = Known {
                started_ns: process.started_ns,
                name: process.name.clone(),
                cgroup: None,
                watched,
                read: false,
            };
            if self.processes.contains_key(&process.pid) {
                self.depart(process.pid);
            }
            self.processes.insert(process.pid, known);
        }
        if picture != Picture::First {
            self.adopt(&new);
        }
        for process in found.values() {
            let is_full = self.is_full(process.pid);
            let Some(known) = self.processes.get_mut(&process.pid) else { continue };
            known.name.clone_from(&process.name);
            if is_full && (known.cgroup.is_none() || picture == Picture::Last) {
                known.cgroup = cgroup::path_of(&self.host, process.pid).or(known.cgroup.take());
            }
        }
    }

    /// New processes are watched if their parents are; several rounds where these are new, too.
    fn adopt(&mut self, new: &[&Process]) {
        loop {
            let is_child = |process: &&&Process| {
                let of_us = self.children && process.parent == self.own_pid;
                let parent = self.processes.get(&process.parent);
                let is_watched = self.processes[&process.pid].watched;
                !is_watched && (of_us || parent.is_some_and(|parent| parent.watched))
            };
            let children: Vec<i32> = new.iter().filter(is_child).map(|child| child.pid).collect();
            for child in &children {
                self.processes.entry(*child).and_modify(|known| known.watched = true);
            }
            if children.is_empty() {
                return;
            }
        }
    }

    fn read_tasks(&mut self, process: &Process, picture: Picture) {
        let tids = match process.threads {
            0 | 1 => vec![process.pid],
            _ => load::tids(&self.host, process.pid),
        };
        for tid in tids {
            self.read_task(process, tid, picture);
        }
        self.processes.entry(process.pid).and_modify(|known| known.read = true);
    }

    fn read_task(&mut self, process: &Process, tid: i32, picture: Picture) {
        let (pid, is_full) = (process.pid, self.is_full(process.pid));
        let stat = if self.keeps { self.reader.schedstat(pid, tid) } else { None };
        if let (Picture::Between, Some(task)) = (picture, self.tasks.get_mut(&tid))
            && task.is_unchanged(pid, stat)
        {
            task.picture = self.picture;
            return;
        }
        let identity =
            if tid == pid { Some(process.clone()) } else { self.reader.identity(pid, tid) };
        let run = stat.map_or_else(Values::default, Values::of_schedstat);
        let values = if is_full || stat.is_none() {
            Values::from_stats(&self.reader.stats(pid, tid)).or(run)
        } else {
            run
        };
        // A task that has ended meanwhile keeps its last values.
        let Some(identity) = identity.filter(|_| !values.is_empty()) else { return };
        let watched = self.processes[&pid].watched;
        let number = self.picture;
        match self.tasks.get_mut(&tid).filter(|task| task.is_same(pid, &identity)) {
            Some(task) => task.update(&identity, values, stat, number),
            None => {
                let is_first = picture == Picture::First;
                let base = if is_first { values } else { Values::ZERO };
                self.missed.met += u64::from(!is_first);
                let task = Task::new(pid, tid, &identity, (base, values), stat, number);
                if let Some(old) = self.tasks.insert(tid, task) {
                    self.retire(old);
                }
            }
        }
        self.tasks.entry(tid).and_modify(|task| task.watched = watched);
    }

    /// Tasks and processes that were not found any more.
    fn part(&mut self, found: &Found) {
        let number = self.picture;
        let is_gone = |task: &Task| {
            let was_read = found.processes.contains_key(&task.pid) && task.picture != number;
            was_read || !found.present.contains(&task.pid)
        };
        let gone: Vec<i32> =
            self.tasks.iter().filter(|(_, task)| is_gone(task)).map(|(tid, _)| *tid).collect();
        for task in gone.iter().filter_map(|tid| self.tasks.remove(tid)).collect::<Vec<_>>() {
            self.retire(task);
        }
        let gone = self.processes.keys().filter(|pid| !found.present.contains(*pid));
        for pid in gone.copied().collect::<Vec<_>>() {
            self.forget(pid);
        }
    }

    /// Keeps the counts of a task that has ended.
    fn retire(&mut self, mut task: Task) {
        if !self.is_everything() && !task.watched {
            return;
        }
        self.missed.cut += u64::from(!task.has_ended);
        task.has_ended = true;
        let known = self.processes.get(&task.pid);
        let name = known.map_or(task.name.clone(), |known| known.name.clone());
        let cgroup = known.and_then(|known| known.cgroup.clone());
        let Some(score) = task.score(&name).map(|score| TaskScore { cgroup, ..score }) else {
            return;
        };
        if self.readings {
            self.unread.push(score.clone());
        }
        if self.totals {
            self.ended.push(score);
        }
    }

    /// A process has ended: so have its tasks that are still here.
    fn depart(&mut self, pid: i32) {
        let of_it: Vec<i32> =
            self.tasks.values().filter(|task| task.pid == pid).map(|task| task.tid).collect();
        for task in of_it.iter().filter_map(|tid| self.tasks.remove(tid)).collect::<Vec<_>>() {
            self.retire(task);
        }
        self.forget(pid);
    }

    fn forget(&mut self, pid: i32) {
        let is_unwatched = !self.is_full(pid);
        if let Some(known) = self.processes.remove(&pid).filter(|_| is_unwatched) {
            self.missed.unwatched += 1;
            self.missed.met += u64::from(!known.read);
        }
    }
}

impl Missed {
    /// A sentence each.
    fn describe(&self, forks: Option<u64>, longest_ns: u64) -> Vec<String> {
        let made = forks.zip(self.forks).map(|(now, then)| now.saturating_sub(then));
        let unseen = made.map_or(String::new(), |made| {
            let unseen = made.saturating_sub(self.met);
            format!("; not seen: {unseen} of {made} tasks that this machine started meanwhile")
        });
        let longest_ms = longest_ns.div_ceil(1_000_000);
        let mut lost = vec![format!(
            "tasks that live between two readings of /proc (at most {longest_ms} ms){unseen}"
        )];
        let cases = [
            (self.cut, "tasks that ended, after their last reading"),
            (self.unwatched, "processes that are not watched and ended meanwhile"),
        ];
        let counted = cases.iter().filter(|(count, _)| *count > 0);
        lost.extend(counted.map(|(count, what)| format!("{what}: {count}")));
        if self.hidden {
            let text = "/proc shows no process 1: processes of other users are hidden (hidepid)";
            lost.push(text.to_string());
        }
        lost
    }
}

/// Never above the wall time: /proc/stat counts in ticks, which may come to some milliseconds more.
/// `None` where the CPU went offline and its counts fell, and where the kernel counts twice.
fn busy_ns(from: &CpuTimes, to: &CpuTimes, wall_ns: u64) -> Option<u64> {
    let busy_ns = counted_ns(from, to)?;
    (!is_above_wall(busy_ns, wall_ns, 1)).then_some(busy_ns.min(wall_ns))
}

fn counted_ns(from: &CpuTimes, to: &CpuTimes) -> Option<u64> {
    let sum = |times: &CpuTimes| times.task_ns + times.interrupt_ns + times.steal_ns;
    sum(to).checked_sub(sum(from))
}

fn twice(cpus: &[(u32, &CpuTimes, &CpuTimes)], wall_ns: u64) -> Option<String> {
    let of = |(_, from, to): &(u32, &CpuTimes, &CpuTimes)| {
        counted_ns(from, to).is_some_and(|busy_ns| is_above_wall(busy_ns, wall_ns, 1))
    };
    let twice: CpuSet = cpus.iter().filter(|cpu| of(cpu)).map(|(cpu, ..)| *cpu).collect();
    (!twice.is_empty()).then(|| {
        format!(
            "busy time of CPUs {twice}: /proc/stat counts more than the time that passed, as MuQSS \
             does"
        )
    })
}

#[cfg(test)]
mod tests;
