//! The cgroups of a cell's worker sets, below the run's own.
//!
//! In version 2 they are threaded: workers are threads of one process, and a process may have threads in several
//! cgroups only within a threaded tree. A worker puts itself into its cgroup, by a file that is named here. All of
//! them end with the run's own cgroup, which is in the journal.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::{Cell, Cgroup, CgroupPath, CgroupWrite, CpuSet, RunCgroups, Value};
use crate::sys::Host;
use crate::sys::cgroup::{self, CgroupError, Controller, Place, Version};

use super::error::{Cause, SettingError};
use super::target::same;
use super::{Action, Asked, CgroupSetting, Missing, Scope, asked};

/// The run's own cgroup in one hierarchy.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCgroup {
    pub version: Version,
    pub path: PathBuf,
    pub controllers: Vec<Controller>,
}

/// A setting of a cgroup of worker sets and the files that hold it.
#[derive(Debug)]
pub struct Written {
    /// `weight`; once it is made, `cgroup web/front: weight`.
    pub setting: String,
    pub asked: Value,
    pub files: Vec<(PathBuf, String)>,
}

const IDLE: &str = "idle";

/// The cgroups of worker sets that were made.
#[derive(Debug, Default)]
pub struct Made {
    pub cgroups: RunCgroups,
    pub set: Vec<Written>,
}

pub fn need_cpuset(groups: &[Cgroup]) -> bool {
    with_cpus(groups).is_some()
}

/// The first cgroup that has CPUs of its own at some moment.
pub fn with_cpus(groups: &[Cgroup]) -> Option<&Cgroup> {
    let is_changed = |group: &Cgroup| group.changes.iter().any(|change| change.cpus.is_some());
    groups.iter().find(|group| group.cpus.is_some() || is_changed(group))
}

/// The place where the run's cgroup of the CPU controller can be made. Cgroups in it have cpusets, too, if these
/// are in the same tree.
pub fn place_of_run(host: &Host, cell: &Cell) -> Result<Place, CgroupError> {
    let cpu = cgroup::tree(host, Controller::Cpu)?;
    let both = need_cpuset(&cell.work.cgroups)
        && cgroup::tree(host, Controller::Cpuset).is_ok_and(|cpuset| cpuset.root == cpu.root);
    let wanted = [Controller::Cpu, Controller::Cpuset];
    cgroup::place(host, &cpu, if both { &wanted } else { &wanted[..1] })
}

pub type OfCgroup = Asked<CgroupSetting>;

/// The settings of cgroups that knobs ask for.
pub fn settings(knobs: &BTreeMap<String, Value>, host: &Host) -> Result<Vec<OfCgroup>, Missing> {
    asked(knobs, host, Scope::Cgroup, |action| match action {
        Action::Cgroup(setting) => Some(setting),
        _ => None,
    })
}

/// Makes `groups`, each after the one that it lies in, and applies their settings. The run's cgroups hold no
/// process yet.
pub fn make(host: &Host, runs: &[RunCgroup], groups: &[Cgroup]) -> Result<Made, Missing> {
    let mut made = Made::default();
    if groups.is_empty() {
        return Ok(made);
    }
    for run in runs.iter().filter(|run| run.version == Version::V2) {
        let of_run = |error| Missing::from_error("cgroup", error);
        give_controllers(host, run, &run.path).map_err(of_run)?;
    }
    for group in groups {
        let is_above = groups.iter().any(|other| other.path.parent().as_ref() == Some(&group.path));
        for run in runs {
            let folder = run.path.join(group.path.as_path());
            let missing = |error| Missing::from_error(&format!("cgroup {}", group.path), error);
            make_one(host, run, &folder, is_above).map_err(missing)?;
            let file = if run.version == Version::V1 { "tasks" } else { "cgroup.threads" };
            made.cgroups.joins.entry(group.path.clone()).or_default().push(folder.join(file));
        }
        made.set.extend(fill(host, runs, group)?);
        for change in &group.changes {
            let written = written(host, runs, &group.path, &change.knobs, change.cpus.as_ref())?;
            let written = written.into_iter().map(|Written { setting, files, .. }| CgroupWrite {
                at_ns: change.at_ns,
                cgroup: group.path.clone(),
                setting,
                files,
            });
            made.cgroups.changes.extend(written);
        }
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

/// The settings in the order in which they are written: a cgroup that is idle takes no weight.
fn written(
    host: &Host,
    runs: &[RunCgroup],
    path: &CgroupPath,
    knobs: &BTreeMap<String, Value>,
    cpus: Option<&CpuSet>,
) -> Result<Vec<Written>, Missing> {
    let of = |controller: Controller| runs.iter().find(|run| run.controllers.contains(&controller));
    let mut all = Vec::new();
    if let Some(run) = of(Controller::Cpu) {
        let folder = run.path.join(path.as_path());
        for (knob, asked, settings) in settings(knobs, host)? {
            let files = settings.iter().flat_map(|setting| setting.files(run.version));
            let files = files.map(|(name, text)| (folder.join(name), text)).collect();
            let setting = knob.trim_start_matches(super::CGROUP_KNOB).to_string();
            all.push(Written { setting, asked, files });
        }
        all.sort_by_key(|one| one.setting != IDLE);
    }
    if let (Some(run), Some(cpus)) = (of(Controller::Cpuset), cpus) {
        let file = run.path.join(path.as_path()).join("cpuset.cpus");
        let (asked, files) = (Value::Cpus(cpus.clone()), vec![(file, cpus.to_string())]);
        all.push(Written { setting: CgroupWrite::CPUS.to_string(), asked, files });
    }
    Ok(all)
}

/// Applies the settings of one cgroup.
fn fill(host: &Host, runs: &[RunCgroup], group: &Cgroup) -> Result<Vec<Written>, Missing> {
    let written = written(host, runs, &group.path, &group.knobs, group.cpus.as_ref())?;
    let put = |Written { setting, asked, files }| {
        let name = format!("cgroup {}: {setting}", group.path);
        write_all(host, &name, &files)?;
        Ok(Written { setting: name, asked, files })
    };
    written.into_iter().map(put).collect()
}

/// Writes files of the cgroups of a run; `name` is that of the setting.
pub fn write_all(host: &Host, name: &str, files: &[(PathBuf, String)]) -> Result<(), Missing> {
    let written = files.iter().try_for_each(|(file, text)| set_in_cgroup(host, file, text));
    written.map_err(|error| Missing::from_error(name, error))
}

fn write(host: &Host, file: &Path, text: &str) -> Result<(), SettingError> {
    host.write(file, text).map_err(|error| SettingError::Refused {
        path: file.to_path_buf(),
        value: text.to_string(),
        cause: Cause::from_error(host, file, error),
    })
}

/// Settings within the run's own cgroup end with it and need no journal.
pub fn set_in_cgroup(host: &Host, file: &Path, text: &str) -> Result<(), SettingError> {
    let unreadable = |error: io::Error| SettingError::Unreadable {
        path: file.to_path_buf(),
        cause: Cause::from_error(host, file, error),
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

#[cfg(test)]
mod tests {
    use crate::model::CgroupChange;
    use crate::sys::fuse;
    use crate::variant::testing::{Group, Machine, cell, grouped, knobs, variant};
    use crate::variant::{Applied, apply, write_cgroup_files};

    const TREE: &[Group] = &[
        ("web", &[("cgroup-weight", "200")], Some("0-1")),
        ("web/front", &[("cgroup-max", "50%")], Some("1")),
        ("db", &[("cgroup-idle", "true")], None),
    ];

    /// The text of a file in the cgroup that lies in the tree at `root`.
    fn text(machine: &Machine, applied: &Applied, root: &str, file: &str) -> String {
        let run = applied.cgroups().iter().find(|path| path.starts_with(root)).unwrap();
        machine.host.read(run.join(file)).unwrap().trim().to_string()
    }

    fn readings(applied: &Applied) -> Vec<(String, bool)> {
        let readings = applied.readings().into_iter();
        readings.map(|reading| (reading.knob.clone(), reading.is_mismatch())).collect()
    }

    const SETTINGS: [&str; 5] = [
        "cgroup web: weight",
        "cgroup web: cpus",
        "cgroup web/front: max",
        "cgroup web/front: cpus",
        "cgroup db: idle",
    ];

    #[test]
    fn a_tree_of_version_2_is_threaded_and_goes_with_the_run() {
        let machine = Machine::new();
        let before = machine.all();
        let tree = grouped(cell(variant(&[]), &[]), TREE);
        let applied = apply(&tree, &machine.host, &machine.journal()).unwrap();
        let root = "/sys/fs/cgroup";
        for (file, expected) in [
            ("cgroup.subtree_control", "+cpu +cpuset"),
            ("cgroup.type", "domain"),
            ("web/cgroup.type", "threaded"),
            ("web/cgroup.subtree_control", "+cpu +cpuset"),
            ("web/cpu.weight", "200"),
            ("web/front/cgroup.type", "threaded"),
            ("web/front/cgroup.subtree_control", ""),
            ("web/front/cpu.max", "50000 100000"),
            ("web/front/cpuset.cpus", "1"),
            ("db/cpu.idle", "1"),
            ("db/cpuset.cpus", ""),
        ] {
            let got = text(&machine, &applied, root, file).replace("cpu cpuset", "+cpu +cpuset");
            assert_eq!(got, expected, "{file}");
        }
        assert_eq!(readings(&applied), SETTINGS.map(|name| (name.to_string(), false)));
        let joins = &applied.cgroups_of_sets().joins[&"web/front".parse().unwrap()];
        assert!(joins.len() == 1 && joins[0].ends_with("web/front/cgroup.threads"), "{joins:?}");
        applied.undo().unwrap();
        assert_eq!(machine.all(), before);
    }

    #[test]
    fn trees_of_version_1_take_a_thread_each() {
        let machine = Machine::new();
        machine.lay(
            "/proc/self/mountinfo",
            "2 1 0:1 / /v1/cpu rw - cgroup none rw,cpu\n3 1 0:2 / /v1/cpuset rw - cgroup none rw,cpuset",
        );
        machine.lay("/proc/self/cgroup", "1:cpu:/\n2:cpuset:/\n");
        for name in
            ["cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.idle", "cgroup.procs"]
        {
            machine.lay(&format!("/v1/cpu/{name}"), "0\n");
        }
        for (name, text) in [("cpuset.cpus", "0-3"), ("cpuset.mems", "0"), ("cgroup.procs", "")] {
            machine.lay(&format!("/v1/cpuset/{name}"), text);
        }
        let before = machine.all();
        let tree = grouped(cell(variant(&[]), &[]), TREE);
        assert_eq!(crate::variant::check(&tree, &machine.host), Ok(()));
        let applied = apply(&tree, &machine.host, &machine.journal()).unwrap();
        for (root, file, expected) in [
            ("/v1/cpu", "web/cpu.shares", "2048"),
            ("/v1/cpu", "web/front/cpu.cfs_quota_us", "50000"),
            ("/v1/cpu", "db/cpu.idle", "1"),
            ("/v1/cpuset", "web/cpuset.cpus", "0-1"),
            ("/v1/cpuset", "web/front/cpuset.cpus", "1"),
            // Without CPUs of its own it has those above it.
            ("/v1/cpuset", "db/cpuset.cpus", "0-3"),
            ("/v1/cpuset", "db/cpuset.mems", "0"),
        ] {
            assert_eq!(text(&machine, &applied, root, file), expected, "{file}");
        }
        assert_eq!(readings(&applied), SETTINGS.map(|name| (name.to_string(), false)));
        let joins = &applied.cgroups_of_sets().joins[&"web/front".parse().unwrap()];
        assert!(joins.len() == 2 && joins.iter().all(|file| file.ends_with("web/front/tasks")));
        applied.undo().unwrap();
        assert_eq!(machine.all(), before);
        let light = grouped(cell(variant(&[]), &[]), &[("web", &[("cgroup-weight", "1")], None)]);
        let missing = crate::variant::check(&light, &machine.host).unwrap_err();
        assert!(missing[0].message.contains("cannot hold the weight 1"), "{missing:?}");
        machine.lay("/v1/cpu/cpu.rt_runtime_us", "950000\n");
        assert_eq!(crate::variant::check(&tree, &machine.host), Ok(()));
        let rr = grouped(cell(variant(&[]), &[knobs(&[("policy", "rr")])]), TREE);
        let missing = crate::variant::check(&rr, &machine.host).unwrap_err();
        let message = "worker set `s`: SCHED_RR is not for cgroups that are made for a run: with \
                       /v1/cpu/cpu.rt_runtime_us (CONFIG_RT_GROUP_SCHED)";
        assert!(missing.iter().any(|one| one.message.starts_with(message)), "{missing:?}");
        machine.lay("/proc/sys/kernel/sched_rt_runtime_us", "-1\n");
        assert_eq!(crate::variant::check(&rr, &machine.host), Ok(()));
    }

    /// A cgroup that is idle takes no weight: it is written after the cgroup ceases to be idle.
    #[test]
    fn changes_have_their_files_and_texts_before_the_run() {
        let machine = Machine::new();
        let mut tree =
            grouped(cell(variant(&[]), &[]), &[("web", &[("cgroup-idle", "true")], None)]);
        let change = |at_ns, written: &[(&str, &str)], cpus: Option<&str>| CgroupChange {
            at_ns,
            knobs: knobs(written),
            cpus: cpus.map(|cpus| cpus.parse().unwrap()),
        };
        let busy = [("cgroup-weight", "300"), ("cgroup-idle", "false"), ("cgroup-max", "50%")];
        tree.work.cgroups[0].changes = vec![change(5, &busy, None), change(7, &[], Some("1"))];
        let applied = apply(&tree, &machine.host, &machine.journal()).unwrap();
        let cgroups = applied.cgroups_of_sets();
        let changes = cgroups.changes.iter().flat_map(|change| {
            let texts = change.files.iter().map(|(file, text)| {
                (change.at_ns, file.file_name().unwrap().to_str().unwrap(), text.as_str())
            });
            texts.collect::<Vec<_>>()
        });
        let expected = [
            (5, "cpu.idle", "0"),
            (5, "cpu.weight", "300"),
            (5, "cpu.max", "50000 100000"),
            (7, "cpuset.cpus", "1"),
        ];
        assert_eq!(changes.collect::<Vec<_>>(), expected);
        for change in &cgroups.changes {
            write_cgroup_files(&machine.host, "web", &change.files).unwrap();
        }
        assert_eq!(text(&machine, &applied, "/sys/fs/cgroup", "web/cpu.weight"), "300");
        let files = cgroups.changes[0].files.clone();
        applied.undo().unwrap();
        let gone = write_cgroup_files(&machine.host, "cgroup web: idle", &files).unwrap_err();
        assert!(gone.message.contains("ENOENT"), "{gone:?}");
    }

    #[test]
    fn a_tree_that_cannot_be_finished_is_removed() {
        for changes in 0.. {
            let machine = Machine::new();
            let before = machine.all();
            let tree = grouped(cell(variant(&[]), &[]), TREE);
            fuse::set(Some(changes));
            let failed = apply(&tree, &machine.host, &machine.journal()).err();
            let refused = fuse::refused();
            fuse::set(None);
            if failed.is_none() && refused == 0 {
                assert!(changes > 10, "{changes} changes are too few to be all");
                break;
            }
            crate::variant::restore(&machine.state_dir(), &machine.host).unwrap();
            assert_eq!(machine.all(), before, "after {changes}");
        }
    }
}
