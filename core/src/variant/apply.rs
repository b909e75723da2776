//! Machine and cgroup knobs: applied in the controller, read back, and undone.
//!
//! Each change is in the [`Journal`] before it is made and stays there until it is undone.
//! Where one step fails, those before it are undone. A setting that already is as wanted is
//! not written.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::model::{Advice, Cell, CpuSet, KnobReading, Reading, RunCgroups, Value, Variant};
use crate::sys::cgroup::{self, Controller, Place, Version};
use crate::sys::host::error_text;
use crate::sys::{FileError, Host};

use super::cgroups::{self, OfCgroup, RunCgroup, Written, set_in_cgroup};
use super::change::{CGROUP_PREFIX, Change, Undone};
use super::error::SettingError;
use super::journal::{Journal, Writer};
use super::pool::{self, Form, Pool};
use super::scx::{self, Attached, Limits, Scheduler, SchedulerError};
use super::target::{Target, Wanted, same};
use super::{Action, Asked, Missing, Scope, asked};

const SCX: &str = "scx";
/// The name, among the knobs' readings, of the kernel's counts under a scheduler.
const SCX_COUNTS: &str = "scx-counts";

#[derive(Debug, thiserror::Error)]
#[error("knob `{knob}`: {message}{}", left(still_changed))]
pub struct ApplyError {
    pub knob: String,
    pub message: String,
    pub hint: String,
    /// Whether what the knob names is at fault, and not a machine that lacks something.
    pub is_fault: bool,
    /// Changes made before that could not be undone; the journal keeps them.
    pub still_changed: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("not everything is as it was{}", left(&.0.what))]
pub struct UndoError(StillChanged);

/// Whether a run failed for this reason before it began: the scheduler of its variant could not be attached.
pub fn is_not_attached(reason: &str) -> bool {
    reason.strip_prefix("knob `").is_some_and(|rest| rest.starts_with(&format!("{SCX}`: ")))
}

/// Changes that were not undone.
#[derive(Debug, Default)]
struct StillChanged {
    /// Each with the reason.
    what: Vec<String>,
    /// The commands that undo them.
    commands: Vec<String>,
}

impl StillChanged {
    fn add(&mut self, why: String, command: Option<String>) {
        self.what.push(why);
        self.commands.extend(command.filter(|command| !self.commands.contains(command)));
    }

    /// The journal keeps it.
    fn add_open(&mut self, why: String) {
        self.add(why, Some("schedlab restore".to_string()));
    }
}

impl Advice for UndoError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        let commands = &self.0.commands;
        (!commands.is_empty()).then(|| commands.join("; ").into())
    }
}

fn left(what: &[String]) -> String {
    if what.is_empty() { String::new() } else { format!("; left changed: {}", what.join("; ")) }
}

impl From<Missing> for ApplyError {
    fn from(missing: Missing) -> Self {
        let Missing { knob, message, hint } = missing;
        ApplyError { knob, message, hint, is_fault: false, still_changed: Vec::new() }
    }
}

/// The settings of a knob, for reading them back.
#[derive(Debug)]
struct Check {
    knob: String,
    asked: Value,
    files: Vec<Expected>,
}

#[derive(Debug)]
enum Expected {
    Target(Wanted),
    /// A file of the run's cgroup.
    InCgroup(PathBuf, String),
}

/// The result of making a pool.
#[derive(Debug)]
enum Made {
    Affinity,
    V1 {
        not_exclusive: Option<String>,
    },
    V2 {
        /// The cpuset with the CPUs.
        folder: PathBuf,
        refused: Option<String>,
    },
}

/// A variant's machine and cgroup knobs and the cell's pool, in force until undone or dropped.
#[derive(Debug)]
pub struct Applied {
    host: Host,
    journal: Journal,
    open: Vec<(u64, Change)>,
    /// The run's cgroups, one in each hierarchy.
    cgroups: Vec<PathBuf>,
    /// The cgroups of worker sets.
    of_sets: RunCgroups,
    pool: Option<(Pool, Made)>,
    checks: Vec<Check>,
    scheduler: Option<(Scheduler, Attached)>,
}

/// Applies the machine and cgroup knobs of the cell's variant and makes its pool; task knobs
/// are for the workers.
pub fn apply(cell: &Cell, host: &Host, journal: &Journal) -> Result<Applied, ApplyError> {
    let Sorted { machine, cgroup, scheduler } = sorted(&cell.variant, host)?;
    let pool =
        pool::find(cell, host).map_err(|error| Missing::from_error(KnobReading::POOL, error))?;
    let mut applied = Applied {
        host: host.clone(),
        journal: journal.clone(),
        open: Vec::new(),
        cgroups: Vec::new(),
        of_sets: RunCgroups::default(),
        pool: None,
        checks: Vec::new(),
        scheduler: None,
    };
    // The scheduler comes last, and sees the machine as the run will.
    let all = applied.apply_all(machine, cgroup, pool, cell).map_err(ApplyError::from);
    match all.and_then(|()| scheduler.map_or(Ok(()), |one| applied.attach(one))) {
        Ok(()) => Ok(applied),
        Err(error) => {
            let still_changed = applied.undo_all().what;
            Err(ApplyError { still_changed, ..error })
        }
    }
}

/// The actions of the controller by scope: knob, value as asked, actions.
struct Sorted {
    machine: Vec<Asked<Wanted>>,
    cgroup: Vec<OfCgroup>,
    scheduler: Option<Scheduler>,
}

fn sorted(variant: &Variant, host: &Host) -> Result<Sorted, Missing> {
    let machine = asked(&variant.knobs, host, Scope::Machine, |action| match action {
        Action::Machine(wanted) => Some(wanted),
        _ => None,
    })?;
    let schedulers = asked(&variant.knobs, host, Scope::Machine, |action| match action {
        Action::Scheduler(scheduler) => Some(scheduler),
        _ => None,
    })?;
    let cgroup = cgroups::settings(&variant.knobs, host)?;
    let scheduler = schedulers.into_iter().find_map(|(_, _, own)| own.into_iter().next());
    Ok(Sorted { machine, cgroup, scheduler })
}

impl Applied {
    /// The run's cgroups, one in each hierarchy where a knob or the pool asked for one.
    #[cfg(test)]
    pub fn cgroups(&self) -> &[PathBuf] {
        &self.cgroups
    }

    /// The CPUs of the pool, where there is one.
    pub fn pool_cpus(&self) -> Option<&CpuSet> {
        self.pool.as_ref().map(|(pool, _)| &pool.cpus)
    }

    /// The cgroups of worker sets: how threads join them, and how they change in mid-run.
    pub fn cgroups_of_sets(&self) -> &RunCgroups {
        &self.of_sets
    }

    /// Puts a process, with all its threads, in the run's cgroups, if there are any. Processes that it forks later
    /// are born there.
    pub fn adopt(&self, pid: i32) -> io::Result<()> {
        let pid = pid.to_string();
        self.cgroups.iter().try_for_each(|path| self.host.write(path.join("cgroup.procs"), &pid))
    }

    /// Reads back the pool and each machine and cgroup knob at this moment.
    pub fn readings(&self) -> Vec<KnobReading> {
        let reading = |check: &Check| KnobReading {
            knob: check.knob.clone(),
            asked: check.asked.clone(),
            got: self.read_back(check),
        };
        let pool = self.pool.iter().map(|(pool, made)| pool.reading(self.read_pool(pool, made)));
        let scheduler = self.scheduler.iter().map(|(scheduler, attached)| KnobReading {
            knob: SCX.to_string(),
            asked: Value::Text(scheduler.to_string()),
            got: Reading::Known(Value::Text(
                attached.in_its_place().unwrap_or_else(|| scheduler.to_string()),
            )),
        });
        pool.chain(self.checks.iter().map(reading)).chain(scheduler).collect()
    }

    /// Detaches the scheduler of the knob `scx`, if there is one, and returns the kernel's counts under it. Fails
    /// if it did not last until now, or is still in force.
    pub fn end_scheduler(&mut self) -> Result<Option<KnobReading>, SchedulerError> {
        let Some((_, mut attached)) = self.scheduler.take() else { return Ok(None) };
        attached.check()?;
        let counted = Value::Text(attached.detach()?.to_string());
        // Counted, not asked for: no report is to call it a mismatch.
        let got = Reading::Known(counted.clone());
        Ok(Some(KnobReading { knob: SCX_COUNTS.to_string(), asked: counted, got }))
    }

    fn read_pool(&self, pool: &Pool, made: &Made) -> Reading<String> {
        let known = match (made, &pool.form) {
            (Made::V2 { folder, refused }, _) => {
                return pool::partition_state(&self.host, folder, refused.as_deref());
            }
            (Made::V1 { not_exclusive: Some(why) }, _) => {
                format!("cpuset v1, not exclusive: {why}")
            }
            (Made::Affinity, Form::Affinity(why)) => format!("affinity: {why}"),
            _ => "cpuset v1".to_string(),
        };
        Reading::Known(known)
    }

    /// The value as asked where all its files hold it; else the contents of the files that differ.
    fn read_back(&self, check: &Check) -> Reading<Value> {
        let mut others = Vec::new();
        for expected in &check.files {
            let (got, wanted, name) = match expected {
                Expected::Target(Wanted { target, value }) => {
                    (target.current(&self.host), value, target.to_string())
                }
                Expected::InCgroup(path, text) => {
                    let got = self.host.read(path);
                    let got = got.map_err(|source| FileError { path: path.clone(), source });
                    (got.map_err(SettingError::from), text, path.display().to_string())
                }
            };
            match got {
                Ok(got) if same(&got, wanted) => {}
                Ok(got) => others.push(format!("{name} holds `{got}`")),
                Err(error) => return Reading::Unknown(error.to_string()),
            }
        }
        Reading::Known(if others.is_empty() {
            check.asked.clone()
        } else {
            Value::Text(others.join(", "))
        })
    }

    /// Undoes everything, newest first. Changes that cannot be undone stay in the journal.
    pub fn undo(mut self) -> Result<(), UndoError> {
        let left = self.undo_all();
        if left.what.is_empty() { Ok(()) } else { Err(UndoError(left)) }
    }

    /// The changes that could not be undone.
    fn undo_all(&mut self) -> StillChanged {
        self.undo_down_to(0)
    }

    /// Like [`Applied::undo_all`], without the oldest changes.
    fn undo_down_to(&mut self, kept: usize) -> StillChanged {
        let mut left = StillChanged::default();
        // A scheduler is the newest change.
        if let Some(Err(error)) = self.scheduler.take().map(|(_, attached)| attached.detach()) {
            left.add_open(error.to_string());
        }
        while self.open.len() > kept
            && let Some((entry, change)) = self.open.pop()
        {
            match change.undo(&self.host) {
                Undone::PutBack | Undone::Ended(_) | Undone::NothingToDo | Undone::Rebooted => {}
                // A restore leaves it too; the caller reports it.
                Undone::LeftAlone { why, command } => left.add(why, command),
                Undone::Failed(why) => {
                    left.add_open(why);
                    continue;
                }
            }
            if let Err(error) = self.journal.end(entry) {
                left.add_open(SettingError::Journal(error).to_string());
            }
        }
        left
    }

    fn apply_all(
        &mut self,
        machine: Vec<Asked<Wanted>>,
        cgroup: Vec<OfCgroup>,
        pool: Option<Pool>,
        cell: &Cell,
    ) -> Result<(), Missing> {
        for (knob, asked, wanted) in machine {
            for Wanted { target, value } in &wanted {
                self.set(target, value).map_err(|error| Missing::from_error(knob, error))?;
            }
            let files = wanted.into_iter().map(Expected::Target).collect();
            self.checks.push(Check { knob: knob.to_string(), asked, files });
        }
        let shared = match pool {
            Some(pool) => self
                .make_pool(pool)
                .map_err(|error| Missing::from_error(KnobReading::POOL, error))?,
            None => None,
        };
        let groups = &cell.work.cgroups;
        if cgroup.is_empty() && groups.is_empty() {
            return Ok(());
        }
        let first = cgroup.first().map_or("cgroup", |(knob, ..)| *knob);
        let runs =
            self.run_cgroups(shared, cell).map_err(|error| Missing::from_error(first, error))?;
        self.fill_run(&runs, cgroup)?;
        let cgroups::Made { cgroups, set } = cgroups::make(&self.host, &runs, groups)?;
        self.of_sets = cgroups;
        self.checks.extend(set.into_iter().map(|Written { setting, asked, files }| {
            let files = files.into_iter().map(|(path, text)| Expected::InCgroup(path, text));
            Check { knob: setting, asked, files: files.collect() }
        }));
        Ok(())
    }

    /// Applies the variant's knobs to the run's own cgroup.
    fn fill_run(&mut self, runs: &[RunCgroup], cgroup: Vec<OfCgroup>) -> Result<(), Missing> {
        let has_cpu = |run: &&RunCgroup| run.controllers.contains(&Controller::Cpu);
        let Some(RunCgroup { version, path, .. }) = runs.iter().find(has_cpu) else {
            return Ok(());
        };
        for (knob, asked, settings) in cgroup {
            let files = settings.iter().flat_map(|setting| setting.files(*version));
            let mut expected = Vec::new();
            for (name, text) in files {
                let file = path.join(name);
                set_in_cgroup(&self.host, &file, &text)
                    .map_err(|error| Missing::from_error(knob, error))?;
                expected.push(Expected::InCgroup(file, text));
            }
            self.checks.push(Check { knob: knob.to_string(), asked, files: expected });
        }
        Ok(())
    }

    /// Makes the run's cpuset. Returns the cgroup if it has the CPU controller too. A pool that cannot be made
    /// after all becomes one by affinity; an existing pool is never left.
    fn make_pool(&mut self, mut pool: Pool) -> Result<Option<(Version, PathBuf)>, SettingError> {
        let kept = self.open.len();
        let made = match pool.form.clone() {
            Form::Affinity(_) => None,
            Form::Found(place) => Some(self.make_cpuset(&place, &pool.cpus, true)?),
            Form::New(place) => match self.make_cpuset(&place, &pool.cpus, false) {
                Ok(made) => Some(made),
                Err(cause) => {
                    let left = self.undo_down_to(kept).what;
                    if !left.is_empty() {
                        return Err(SettingError::HalfUndone { cause: Box::new(cause), left });
                    }
                    pool.form = Form::Affinity(cause.to_string());
                    None
                }
            },
        };
        let Some((version, path, made)) = made else {
            self.pool = Some((pool, Made::Affinity));
            return Ok(None);
        };
        self.cgroups.push(path.clone());
        let shared = pool.has_cpu.then_some((version, path));
        self.pool = Some((pool, made));
        Ok(shared)
    }

    /// Makes the run's cpuset, which `inside` of an existing pool is a cgroup with the pool's CPUs.
    fn make_cpuset(
        &mut self,
        place: &Place,
        cpus: &CpuSet,
        inside: bool,
    ) -> Result<(Version, PathBuf, Made), SettingError> {
        let path = self.make_cgroup(place)?;
        let file = |name: &str| path.join(name);
        let made = match place.version {
            Version::V1 => {
                self.fill_v1(place, &path, cpus)?;
                let exclusive = (!inside)
                    .then(|| self.host.write(file("cpuset.cpu_exclusive"), "1"))
                    .transpose();
                Made::V1 { not_exclusive: exclusive.err().map(|error| error_text(&error)) }
            }
            Version::V2 if inside => Made::V2 { folder: place.parent.clone(), refused: None },
            Version::V2 => {
                set_in_cgroup(&self.host, &file("cpuset.cpus"), &cpus.to_string())?;
                let refused = self.make_partition(&file("cpuset.cpus.partition"));
                Made::V2 { folder: path.clone(), refused }
            }
        };
        Ok((place.version, path, made))
    }

    /// Returns why it did not become a partition, if so.
    fn make_partition(&self, file: &Path) -> Option<String> {
        let state = self.host.write(file, "root").and_then(|()| self.host.read(file));
        let refused = match state {
            Ok(state) if cgroup::is_partition(&state) => return None,
            Ok(state) => state,
            Err(error) => error_text(&error),
        };
        // It would become one in mid-run, once the obstacle is gone. A kernel without partitions has no such file.
        _ = self.host.write(file, "member");
        Some(refused)
    }

    /// A version 1 cpuset takes processes only once it has CPUs and memory nodes: it gets its parent's nodes, as
    /// version 2 does by itself.
    fn fill_v1(&self, place: &Place, path: &Path, cpus: &CpuSet) -> Result<(), SettingError> {
        let nodes = self.host.text(place.parent.join("cpuset.mems"))?;
        set_in_cgroup(&self.host, &path.join("cpuset.mems"), nodes.trim())?;
        let taken = self.host.write(path.join("cpuset.cpus"), &cpus.to_string());
        taken.map_err(|source| SettingError::CpusRefused {
            folder: place.parent.clone(),
            cpus: cpus.clone(),
            source,
        })
    }

    fn attach(&mut self, scheduler: Scheduler) -> Result<(), ApplyError> {
        // Before the journal has it: another's scheduler is not to be waited for.
        let refused = |error| Missing::from_error(SCX, error);
        scx::check(&scheduler, &self.host).map_err(refused)?;
        let change = Change::Scheduler { asked: scheduler.to_string() };
        self.make(change).map_err(|error| Missing::from_error(SCX, error))?;
        let attached = scx::attach(&scheduler, &self.host, Limits::default())
            .map_err(|error| ApplyError { is_fault: true, ..refused(error).into() })?;
        self.scheduler = Some((scheduler, attached));
        Ok(())
    }

    fn set(&mut self, target: &Target, value: &str) -> Result<(), SettingError> {
        let before = target.current(&self.host)?;
        if same(&before, value) {
            return Ok(());
        }
        self.make(Change::Set { target: target.clone(), before, set: value.to_string() })
    }

    fn make(&mut self, change: Change) -> Result<(), SettingError> {
        let entry = self.journal.begin(&change).map_err(SettingError::Journal)?;
        // Open before it is made: a half-made change is undone, too.
        self.open.push((entry, change.clone()));
        change.make(&self.host)
    }

    /// The run's cgroups that have a controller of the CPU, and of cpusets where worker sets need it. `shared`: the
    /// pool's cgroup, where it has both.
    fn run_cgroups(
        &mut self,
        shared: Option<(Version, PathBuf)>,
        cell: &Cell,
    ) -> Result<Vec<RunCgroup>, SettingError> {
        let has_pool = self.pool.as_ref().is_some_and(|(_, made)| !matches!(made, Made::Affinity));
        let of_pool = self.cgroups.first().filter(|_| has_pool).cloned();
        let (version, path) = match shared {
            Some(shared) => shared,
            None => {
                let place = cgroups::place_of_run(&self.host, cell)?;
                let path = self.make_cgroup(&place)?;
                self.cgroups.push(path.clone());
                (place.version, path)
            }
        };
        let mut cpu = RunCgroup { version, path, controllers: vec![Controller::Cpu] };
        if !cgroups::need_cpuset(&cell.work.cgroups) {
            return Ok(vec![cpu]);
        }
        let tree = cgroup::tree(&self.host, Controller::Cpuset)?;
        if cpu.path.starts_with(&tree.root) {
            cpu.controllers.push(Controller::Cpuset);
            return Ok(vec![cpu]);
        }
        let path = match of_pool {
            Some(path) => path,
            None => {
                let place = cgroup::place(&self.host, &tree, &[Controller::Cpuset])?;
                let path = self.make_cgroup(&place)?;
                if place.version == Version::V1 {
                    let cpus = self.host.text(place.parent.join("cpuset.cpus"))?;
                    let cpus = cpus.trim().to_string().try_into().unwrap_or_default();
                    self.fill_v1(&place, &path, &cpus)?;
                }
                self.cgroups.push(path.clone());
                path
            }
        };
        let cpuset =
            RunCgroup { version: tree.version, path, controllers: vec![Controller::Cpuset] };
        Ok(vec![cpu, cpuset])
    }

    fn make_cgroup(&mut self, place: &Place) -> Result<PathBuf, SettingError> {
        static CGROUPS: AtomicU32 = AtomicU32::new(0);
        for controller in &place.enable {
            let target = Target::for_children(*controller, &place.parent);
            self.set(&target, &format!("+{}", controller.word()))?;
        }
        let Writer { pid, start_ticks, .. } = self.journal.writer();
        let number = CGROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{CGROUP_PREFIX}{pid}-{start_ticks}-{number}");
        let path = place.parent.join(name);
        self.make(Change::Cgroup { path: path.clone() })?;
        Ok(path)
    }
}

impl Drop for Applied {
    /// Best effort; changes that are left stay in the journal for `schedlab restore`.
    fn drop(&mut self) {
        self.undo_all();
    }
}
