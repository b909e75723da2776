//! The pool of a cell: the cpuset that its run's processes are put into.
//!
//! A cpuset of that name that is there already is used as it is: it must have the CPUs that
//! the plan names, and the run has a cgroup inside of it. Else one is made for the run.
//! Finding changes nothing; [`super::apply()`] makes, fills and removes what is found here.

use std::path::{Path, PathBuf};

use crate::model::{Cell, CpuSet, KnobReading, Reading};
use crate::sys::Host;
use crate::sys::cgroup::{
    self, Controller, Place, Tree, Version, can_host, controllers_missing, is_partition,
};
use crate::sys::host::plain;

use super::{Scope, registry};

#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    pub cpus: CpuSet,
    /// The name, and CPUs where the plan gives them.
    asked: String,
    /// Whether the plan names no CPUs: which they are is then to be told.
    tell_cpus: bool,
    /// Whether the cgroup made here serves for the variant's CPU settings too.
    pub has_cpu: bool,
    pub form: Form,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// There already; the run's cgroup is made inside of it.
    Found(Place),
    /// To be made.
    New(Place),
    /// Each worker is held to the CPUs by its affinity, because of this.
    Affinity(String),
}

impl Pool {
    /// Whether a cpuset holds the workers, so that this process's own affinity means nothing.
    pub fn is_cpuset(&self) -> bool {
        !matches!(self.form, Form::Affinity(_))
    }

    pub fn reading(&self, got: Reading<String>) -> KnobReading {
        let cpus = if self.tell_cpus { format!(", CPUs {}", self.cpus) } else { String::new() };
        let got = got.map(|form| format!("{form}{cpus}"));
        KnobReading { knob: super::POOL.to_string(), asked: self.asked.clone(), got }
    }
}

/// The pool of a cell on this machine, `None` where it asks for none. The error is why the
/// cell cannot run.
pub fn find(cell: &Cell, host: &Host) -> Result<Option<Pool>, String> {
    let Some(name) = &cell.placement.pool else { return Ok(None) };
    let cpus = cell.placement.cpus.as_ref();
    let pool = |cpus: &CpuSet, has_cpu, form| {
        let given = cell.placement.cpus.as_ref().map(|cpus| format!(" {cpus}"));
        let tell_cpus = given.is_none();
        let asked = format!("{name}{}", given.unwrap_or_default());
        Ok(Some(Pool { cpus: cpus.clone(), asked, tell_cpus, has_cpu, form }))
    };
    let none = |why: &str| {
        format!("there is no pool `{name}` ({why}); with `cpus` one is made for each run")
    };
    let tree = match cgroup::tree(host, Controller::Cpuset) {
        Ok(tree) => tree,
        Err(why) => {
            return pool(cpus.ok_or_else(|| none(&why))?, false, Form::Affinity(why));
        }
    };
    let has_cpu = sets_cpu(cell) && is_tree_of_cpu(host, &tree);
    let wanted = [Controller::Cpuset, Controller::Cpu];
    let wanted = if has_cpu { &wanted[..] } else { &wanted[..1] };
    let place = cgroup::place(host, &tree, wanted);
    let parents = place.iter().map(|place| &place.parent).chain([&tree.own, &tree.root]);
    let mut folders: Vec<PathBuf> = parents.map(|parent| parent.join(name.as_str())).collect();
    folders.dedup();
    if let Some(folder) = folders.iter().find(|folder| is_cpuset(host, folder)) {
        let its_cpus = cpus_of(host, folder)?;
        check_found(host, folder, &its_cpus, cpus)?;
        let form = Form::Found(inside(host, &tree, folder, has_cpu)?);
        return pool(&its_cpus, has_cpu, form);
    }
    let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let cpus = cpus.ok_or_else(|| none(&format!("no {}", shown.join(", no "))))?;
    match place.and_then(|place| check_new(host, cpus, place)) {
        Ok(place) => pool(cpus, has_cpu, Form::New(place)),
        Err(why) => pool(cpus, false, Form::Affinity(why)),
    }
}

/// Whether the variant sets something in the CPU controller of the run's cgroup.
fn sets_cpu(cell: &Cell) -> bool {
    let of_cgroups = registry().iter().filter(|knob| knob.scope() == Scope::Cgroup);
    of_cgroups.map(|knob| knob.field().name).any(|name| cell.variant.knobs.contains_key(name))
}

fn is_tree_of_cpu(host: &Host, tree: &Tree) -> bool {
    cgroup::tree(host, Controller::Cpu).is_ok_and(|cpu| cpu.root == tree.root)
}

fn is_cpuset(host: &Host, folder: &Path) -> bool {
    host.read(folder.join("cpuset.cpus")).is_ok()
}

/// The CPUs that a cpuset has in effect.
fn cpus_of(host: &Host, folder: &Path) -> Result<CpuSet, String> {
    // Version 2, version 1, and kernels of version 1 without the difference.
    let names = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
    let read = |name: &&str| host.read(folder.join(name)).ok();
    let text = names.iter().find_map(read).unwrap_or_default();
    text.trim().to_string().try_into().map_err(|why| format!("{}: {why}", folder.display()))
}

/// Whether a pool that is there has the CPUs that are asked for, and any at all.
fn check_found(
    host: &Host,
    folder: &Path,
    its_cpus: &CpuSet,
    asked: Option<&CpuSet>,
) -> Result<(), String> {
    let path = folder.display();
    match asked {
        Some(asked) if asked != its_cpus => {
            let its_cpus =
                if its_cpus.is_empty() { "none".to_string() } else { its_cpus.to_string() };
            Err(format!("the pool {path} has CPUs {its_cpus}, not {asked}; it is left as it is"))
        }
        _ if its_cpus.is_empty() => Err(format!("the pool {path} has no CPUs")),
        _ => can_host(host, folder).map_err(|why| format!("no run can be put into {path}: {why}")),
    }
}

/// The place inside of a pool that is there, of which nothing is changed: its controllers are
/// those that it gives its children already.
fn inside(host: &Host, tree: &Tree, folder: &Path, has_cpu: bool) -> Result<Place, String> {
    let file = folder.join("cgroup.subtree_control");
    let lacks_cpu = || !controllers_missing(host, &file, &[Controller::Cpu]).is_empty();
    if tree.version == Version::V2 && has_cpu && lacks_cpu() {
        return Err(format!(
            "{} does not name `cpu`, so the variant's cgroup knobs cannot be had inside of this \
             pool; it is left as it is",
            file.display()
        ));
    }
    Ok(Place { version: tree.version, parent: folder.to_path_buf(), enable: Vec::new() })
}

/// A cpuset has no CPUs that its parent lacks.
fn check_new(host: &Host, cpus: &CpuSet, place: Place) -> Result<Place, String> {
    let outside = cpus.minus(&cpus_of(host, &place.parent)?);
    if outside.is_empty() {
        return Ok(place);
    }
    Err(format!("no cpuset in {} can have CPUs {outside}", place.parent.display()))
}

/// What a cpuset of version 2 is at this moment. `refused`: why it is no partition, where
/// that was told when it was made.
pub fn partition_state(host: &Host, folder: &Path, refused: Option<&str>) -> Reading<String> {
    let file = folder.join("cpuset.cpus.partition");
    let why = match host.read(&file) {
        Ok(state) if is_partition(&state) => return Reading::Known("cgroup v2 partition".into()),
        Ok(state) => refused.map_or(state, str::to_string),
        Err(error) => format!("{}: {}", file.display(), plain(&error)),
    };
    Reading::Known(format!("cgroup v2 cpuset, no partition: {why}"))
}
