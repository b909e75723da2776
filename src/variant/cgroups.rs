//! The cgroups of a cell's worker sets, below that of the run.
//!
//! In version 2 they are threaded: workers are threads of one process, and a process may have threads in
//! several cgroups only within a threaded tree. A worker puts itself into its cgroup, by a file that is
//! named here. All of them end with the run's own cgroup, which is in the journal.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::{Cell, Cgroup, CgroupPath, Value};
use crate::sys::Host;
use crate::sys::cgroup::{self, CgroupError, Controller, Place, Version};

use super::error::{Cause, SettingError};
use super::target::same;
use super::{Action, CgroupSetting, Missing, registry};

/// The run's own cgroup in one hierarchy.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCgroup {
    pub version: Version,
    pub path: PathBuf,
    pub controllers: Vec<Controller>,
}

/// What was set in a cgroup of worker sets, for reading it back.
#[derive(Debug)]
pub struct Set {
    /// `cgroup web/front: weight`.
    pub name: String,
    pub asked: Value,
    pub files: Vec<(PathBuf, String)>,
}

/// The cgroups of worker sets as they were made.
#[derive(Debug, Default)]
pub struct Made {
    /// The files that take a thread which is to be in a cgroup, one in each hierarchy.
    pub joins: BTreeMap<CgroupPath, Vec<PathBuf>>,
    pub set: Vec<Set>,
}

pub fn need_cpuset(groups: &[Cgroup]) -> bool {
    groups.iter().any(|group| group.cpus.is_some())
}

/// Where the run's cgroup of the CPU controller can be made, so that cgroups in it have cpusets, too, if
/// these are in the same tree.
pub fn place_of_run(host: &Host, cell: &Cell) -> Result<Place, CgroupError> {
    let cpu = cgroup::tree(host, Controller::Cpu)?;
    let both = need_cpuset(&cell.work.cgroups)
        && cgroup::tree(host, Controller::Cpuset).is_ok_and(|cpuset| cpuset.root == cpu.root);
    let wanted = [Controller::Cpu, Controller::Cpuset];
    cgroup::place(host, &cpu, if both { &wanted } else { &wanted[..1] })
}

/// A knob, its value, and what that asks for.
pub type OfCgroup = (String, Value, Vec<CgroupSetting>);

/// Those of the knobs that act on a cgroup.
pub fn settings(knobs: &BTreeMap<String, Value>, host: &Host) -> Result<Vec<OfCgroup>, Missing> {
    let mut all = Vec::new();
    for knob in registry() {
        let name = knob.field().name;
        let Some(value) = knobs.get(name) else { continue };
        let of_cgroup = knob.actions(value, host)?.into_iter().filter_map(|action| match action {
            Action::Cgroup(setting) => Some(setting),
            _ => None,
        });
        let of_cgroup: Vec<CgroupSetting> = of_cgroup.collect();
        if !of_cgroup.is_empty() {
            all.push((name.to_string(), value.clone(), of_cgroup));
        }
    }
    Ok(all)
}

/// Makes `groups`, each after the one that it lies in, and sets what they have. The run's cgroups hold no
/// process yet.
pub fn make(host: &Host, runs: &[RunCgroup], groups: &[Cgroup]) -> Result<Made, Missing> {
    let mut made = Made::default();
    if groups.is_empty() {
        return Ok(made);
    }
    for run in runs.iter().filter(|run| run.version == Version::V2) {
        let of_run = |error| Missing::of("cgroup", error);
        give_controllers(host, run, &run.path).map_err(of_run)?;
    }
    for group in groups {
        let is_above = groups.iter().any(|other| other.path.parent().as_ref() == Some(&group.path));
        for run in runs {
            let folder = run.path.join(group.path.as_path());
            let missing = |error| Missing::of(&format!("cgroup {}", group.path), error);
            make_one(host, run, &folder, is_above).map_err(missing)?;
            let file = if run.version == Version::V1 { "tasks" } else { "cgroup.threads" };
            made.joins.entry(group.path.clone()).or_default().push(folder.join(file));
        }
        made.set.extend(fill(host, runs, group)?);
    }
    Ok(made)
}

/// One cgroup in one hierarchy, ready to take threads.
fn make_one(
    host: &Host,
    run: &RunCgroup,
    folder: &Path,
    is_above: bool,
) -> Result<(), SettingError> {
    let not_made = |source| SettingError::NotMade { path: folder.to_path_buf(), source };
    host.make_cgroup(folder).map_err(not_made)?;
    if run.version == Version::V2 {
        write(host, &folder.join("cgroup.type"), "threaded")?;
        if is_above {
            give_controllers(host, run, folder)?;
        }
    } else if run.controllers.contains(&Controller::Cpuset) {
        // A version 1 cpuset takes threads only once it has both.
        let above = folder.parent().unwrap_or(folder);
        for name in ["cpuset.mems", "cpuset.cpus"] {
            let text = host.text(above.join(name))?;
            set_in_cgroup(host, &folder.join(name), text.trim())?;
        }
    }
    Ok(())
}

fn give_controllers(host: &Host, run: &RunCgroup, folder: &Path) -> Result<(), SettingError> {
    run.controllers.iter().try_for_each(|controller| {
        write(host, &folder.join("cgroup.subtree_control"), &format!("+{}", controller.word()))
    })
}

/// Sets what one cgroup has.
fn fill(host: &Host, runs: &[RunCgroup], group: &Cgroup) -> Result<Vec<Set>, Missing> {
    let of = |controller: Controller| runs.iter().find(|run| run.controllers.contains(&controller));
    let named = |setting: &str| format!("cgroup {}: {setting}", group.path);
    let mut all = Vec::new();
    let mut put = |name: String, asked: Value, files: Vec<(PathBuf, String)>| {
        let written = files.iter().try_for_each(|(file, text)| set_in_cgroup(host, file, text));
        written.map_err(|error| Missing::of(&name, error))?;
        all.push(Set { name, asked, files });
        Ok::<(), Missing>(())
    };
    if let Some(run) = of(Controller::Cpu) {
        let folder = run.path.join(group.path.as_path());
        for (knob, asked, settings) in settings(&group.knobs, host)? {
            let files = settings.iter().flat_map(|setting| setting.files(run.version));
            let files = files.map(|(name, text)| (folder.join(name), text)).collect();
            put(named(knob.trim_start_matches(super::CGROUP_KNOB)), asked, files)?;
        }
    }
    if let (Some(run), Some(cpus)) = (of(Controller::Cpuset), &group.cpus) {
        let file = run.path.join(group.path.as_path()).join("cpuset.cpus");
        put(named("cpus"), Value::Cpus(cpus.clone()), vec![(file, cpus.to_string())])?;
    }
    Ok(all)
}

fn write(host: &Host, file: &Path, text: &str) -> Result<(), SettingError> {
    host.write(file, text).map_err(|error| SettingError::Refused {
        path: file.to_path_buf(),
        value: text.to_string(),
        cause: Cause::of(host, file, error),
    })
}

/// Settings within the run's own cgroup end with it and need no journal.
pub fn set_in_cgroup(host: &Host, file: &Path, text: &str) -> Result<(), SettingError> {
    let unreadable = |error: io::Error| SettingError::Unreadable {
        path: file.to_path_buf(),
        cause: Cause::of(host, file, error),
    };
    if same(&host.read(file).map_err(unreadable)?, text) {
        return Ok(());
    }
    write(host, file, text)?;
    let got = host.read(file).map_err(unreadable)?;
    if same(&got, text) {
        return Ok(());
    }
    let (target, wanted) = (file.display().to_string(), text.to_string());
    Err(SettingError::TookAnother { target, got, wanted })
}
