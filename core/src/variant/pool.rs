//! The pool of a cell: the cpuset that its run's processes are put into.
//!
//! An existing cpuset of that name is used without changes: it must have the CPUs that the plan names, and the run
//! has a cgroup inside of it. Else one is made for the run. Finding changes nothing; [`super::apply()`] makes,
//! fills and removes the pool that is found here.

use std::path::{Path, PathBuf};

use crate::model::{Cell, CpuSet, KnobReading, Reading, Value};
use crate::sys::Host;
use crate::sys::cgroup::{
    self, Controller, Place, Tree, Version, can_host, controllers_missing, is_partition,
};
use crate::sys::host::error_text;

use super::error::PoolError;
use super::{Scope, registry};

#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    pub cpus: CpuSet,
    /// The name, and CPUs where the plan gives them.
    asked: String,
    /// Whether the plan names no CPUs, so that the reading shows them.
    shows_cpus: bool,
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
        let cpus = if self.shows_cpus { format!(", CPUs {}", self.cpus) } else { String::new() };
        let got = got.map(|form| Value::Text(format!("{form}{cpus}")));
        let asked = Value::Text(self.asked.clone());
        KnobReading { knob: KnobReading::POOL.to_string(), asked, got }
    }
}

/// The pool of a cell on this machine, `None` if it asks for none. The error is the reason why the cell cannot run.
pub fn find(cell: &Cell, host: &Host) -> Result<Option<Pool>, PoolError> {
    let Some(name) = &cell.placement.pool else { return Ok(None) };
    let cpus = cell.placement.cpus.as_ref();
    let pool = |cpus: &CpuSet, has_cpu, form| {
        let given = cell.placement.cpus.as_ref().map(|cpus| format!(" {cpus}"));
        let shows_cpus = given.is_none();
        let asked = format!("{name}{}", given.unwrap_or_default());
        Ok(Some(Pool { cpus: cpus.clone(), asked, shows_cpus, has_cpu, form }))
    };
    let none = |why: String| PoolError::None { name: name.clone(), why };
    let tree = match cgroup::tree(host, Controller::Cpuset) {
        Ok(tree) => tree,
        Err(error) => {
            let why = error.to_string();
            return pool(cpus.ok_or_else(|| none(why.clone()))?, false, Form::Affinity(why));
        }
    };
    let has_cpu = sets_cpu(cell) && is_tree_of_cpu(host, &tree);
    let wanted = [Controller::Cpuset, Controller::Cpu];
    let wanted = if has_cpu { &wanted[..] } else { &wanted[..1] };
    let place = cgroup::place(host, &tree, wanted);
    let parents = place.iter().map(|place| &place.parent).chain([&tree.own, &tree.root]);
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in parents.map(|parent| parent.join(name.as_str())) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    if let Some(folder) = folders.iter().find(|folder| is_cpuset(host, folder)) {
        let its_cpus = cpus_of(host, folder)?;
        check_found(host, folder, &its_cpus, cpus)?;
        let form = Form::Found(inside(host, &tree, folder, has_cpu)?);
        return pool(&its_cpus, has_cpu, form);
    }
    let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let cpus = cpus.ok_or_else(|| none(format!("no {}", shown.join(", no "))))?;
    match place.map_err(PoolError::from).and_then(|place| check_new(host, cpus, place)) {
        Ok(place) => pool(cpus, has_cpu, Form::New(place)),
        Err(error) => pool(cpus, false, Form::Affinity(error.to_string())),
    }
}

/// Whether the variant sets something in the CPU controller of the run's cgroup, or worker sets have
/// cgroups in it.
pub fn sets_cpu(cell: &Cell) -> bool {
    let of_cgroups = registry().filter(|knob| knob.scope() == Scope::Cgroup);
    !cell.work.cgroups.is_empty()
        || of_cgroups.map(|knob| knob.field.name).any(|name| cell.variant.knobs.contains_key(name))
}

fn is_tree_of_cpu(host: &Host, tree: &Tree) -> bool {
    cgroup::tree(host, Controller::Cpu).is_ok_and(|cpu| cpu.root == tree.root)
}

fn is_cpuset(host: &Host, folder: &Path) -> bool {
    host.read(folder.join("cpuset.cpus")).is_ok()
}

/// The CPUs that a cpuset has in effect.
fn cpus_of(host: &Host, folder: &Path) -> Result<CpuSet, PoolError> {
    // Version 2, version 1, and kernels of version 1 without the difference.
    let names = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
    let read = |name: &&str| host.read(folder.join(name)).ok();
    let text = names.iter().find_map(read).unwrap_or_default();
    let cpus: Result<CpuSet, _> = text.trim().to_string().try_into();
    cpus.map_err(|error| PoolError::NoCpuList {
        folder: folder.to_path_buf(),
        why: error.to_string(),
    })
}

/// Whether an existing pool has the CPUs that are asked for, and any at all.
fn check_found(
    host: &Host,
    folder: &Path,
    its_cpus: &CpuSet,
    asked: Option<&CpuSet>,
) -> Result<(), PoolError> {
    let folder = folder.to_path_buf();
    match asked {
        Some(asked) if asked != its_cpus => {
            let (has, asked) = (its_cpus.clone(), asked.clone());
            Err(PoolError::OtherCpus { folder, has, asked })
        }
        _ if its_cpus.is_empty() => Err(PoolError::NoCpus(folder)),
        _ => can_host(host, &folder).map_err(|source| PoolError::Closed { folder, source }),
    }
}

/// The place inside of an existing pool, which is not changed: the controllers are those that it gives its children
/// already.
fn inside(host: &Host, tree: &Tree, folder: &Path, has_cpu: bool) -> Result<Place, PoolError> {
    let file = folder.join("cgroup.subtree_control");
    let lacks_cpu = || !controllers_missing(host, &file, &[Controller::Cpu]).is_empty();
    if tree.version == Version::V2 && has_cpu && lacks_cpu() {
        return Err(PoolError::NoCpuController(file));
    }
    Ok(Place { version: tree.version, parent: folder.to_path_buf(), enable: Vec::new() })
}

/// A cpuset has no CPUs that its parent lacks.
fn check_new(host: &Host, cpus: &CpuSet, place: Place) -> Result<Place, PoolError> {
    let outside = cpus.minus(&cpus_of(host, &place.parent)?);
    if outside.is_empty() {
        return Ok(place);
    }
    Err(PoolError::Outside { folder: place.parent, outside })
}

/// The state of a cpuset of version 2 at this moment. `refused`: why the kernel did not make it a partition, if it
/// said so.
pub fn partition_state(host: &Host, folder: &Path, refused: Option<&str>) -> Reading<String> {
    let file = folder.join("cpuset.cpus.partition");
    let why = match host.read(&file) {
        Ok(state) if is_partition(&state) => return Reading::Known("cgroup v2 partition".into()),
        Ok(state) => refused.map_or(state, str::to_string),
        Err(error) => format!("{}: {}", file.display(), error_text(&error)),
    };
    Reading::Known(format!("cgroup v2 cpuset, no partition: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WorkerSet;
    use crate::variant::testing::{Machine, knobs, pooled};
    use crate::variant::{Applied, apply, check};

    const ROOT: &str = "/sys/fs/cgroup";
    const WEIGHT: (&str, &str) = ("cgroup-weight", "250");

    fn put(machine: &Machine, cell: &Cell) -> Applied {
        check(cell, &machine.host).unwrap();
        apply(cell, &machine.host, &machine.journal()).unwrap()
    }

    fn got(applied: &Applied) -> (String, String) {
        let pool = applied.readings().into_iter().find(|reading| reading.knob == "pool").unwrap();
        (pool.asked.to_string(), pool.got.known().unwrap().to_string())
    }

    /// Why a cell cannot be had, which is so for `check` and for `apply`, and changes nothing.
    fn refused(machine: &Machine, cell: &Cell) -> String {
        let before = machine.all();
        let missing = check(cell, &machine.host).unwrap_err();
        let error = apply(cell, &machine.host, &machine.journal()).unwrap_err();
        assert_eq!((missing[0].knob.as_str(), error.knob.as_str()), ("pool", "pool"));
        assert_eq!(missing[0].message, error.message);
        assert_eq!(machine.all(), before);
        error.message
    }

    /// An existing pool, in version 2.
    fn lay_pool(machine: &Machine, for_children: &str) {
        machine.lay("/sys/fs/cgroup/cgroup.subtree_control", "cpuset cpu memory\n");
        for (name, text) in [
            ("cgroup.controllers", "cpuset cpu\n"),
            ("cgroup.subtree_control", for_children),
            ("cgroup.procs", "\n"),
            ("cpuset.cpus", "1-2\n"),
            ("cpuset.cpus.effective", "1-2\n"),
            ("cpuset.cpus.partition", "member\n"),
        ] {
            machine.lay(&format!("{ROOT}/bench/{name}"), text);
        }
    }

    /// CPU and cpuset in hierarchies of their own.
    fn lay_v1(machine: &Machine) {
        let mounts = "2 1 0:1 / /v1/cpu rw - cgroup none rw,cpu,cpuacct\n\
                      3 1 0:2 / /v1/cpuset rw - cgroup none rw,cpuset";
        machine.lay("/proc/self/mountinfo", mounts);
        machine.lay("/proc/self/cgroup", "2:cpu,cpuacct:/\n3:cpuset:/own\n");
        machine.lay("/v1/cpu/cgroup.procs", "1\n");
        machine.lay("/v1/cpu/cpu.shares", "1024\n");
        for folder in ["/v1/cpuset", "/v1/cpuset/own"] {
            machine.lay(&format!("{folder}/cgroup.procs"), "1\n");
            machine.lay(&format!("{folder}/cpuset.cpus"), "0-3\n");
            machine.lay(&format!("{folder}/cpuset.mems"), "0-1\n");
        }
    }

    #[test]
    fn one_cgroup_of_version_2_is_a_partition_and_has_the_knobs() {
        let machine = Machine::new();
        let before = machine.all();
        let applied = put(&machine, &pooled(&[WEIGHT], "bench", Some("1-2")));
        assert_eq!(got(&applied), ("bench 1-2".to_string(), "cgroup v2 partition".to_string()));
        assert_eq!(applied.pool_cpus().map(CpuSet::to_string).as_deref(), Some("1-2"));
        let [cgroup] = applied.cgroups() else { panic!("{:?}", applied.cgroups()) };
        let text = |name: &str| machine.host.read(cgroup.join(name)).unwrap();
        assert_eq!(cgroup.parent(), Some(Path::new(ROOT)));
        assert_eq!((text("cpuset.cpus"), text("cpu.weight")), ("1-2".into(), "250".into()));
        assert_eq!(text("cpuset.cpus.partition"), "root");
        assert_eq!(machine.text("/sys/fs/cgroup/cgroup.subtree_control"), "memory cpuset cpu");
        applied.undo().unwrap();
        assert_eq!(machine.all(), before);
        assert_eq!(machine.journals(), 0);
    }

    #[test]
    fn a_cpuset_that_becomes_no_partition_stays_one_and_says_why() {
        let machine = Machine::new();
        let before = machine.all();
        let applied = put(&machine, &pooled(&[], "bench", Some("0-3")));
        let why = "root invalid (Parent unable to distribute cpu downstream)";
        assert_eq!(got(&applied).1, format!("cgroup v2 cpuset, no partition: {why}"));
        let state = applied.cgroups()[0].join("cpuset.cpus.partition");
        assert_eq!(machine.host.read(state).unwrap(), "member", "nor does it in mid-run");
        applied.undo().unwrap();
        assert_eq!(machine.all(), before);
    }

    #[test]
    fn a_pool_that_is_there_is_entered_and_not_changed() {
        for (knobs, for_children, cpus) in
            [(&[][..], "", None), (&[], "", Some("1-2")), (&[WEIGHT], "cpu\n", Some("1-2"))]
        {
            let machine = Machine::new();
            lay_pool(&machine, for_children);
            let before = machine.all();
            let applied = put(&machine, &pooled(knobs, "bench", cpus));
            let (asked, form) = got(&applied);
            let state = "cgroup v2 cpuset, no partition: member";
            match cpus {
                Some(cpus) => assert_eq!((asked, form), (format!("bench {cpus}"), state.into())),
                None => assert_eq!((asked, form), ("bench".into(), format!("{state}, CPUs 1-2"))),
            }
            let [cgroup] = applied.cgroups() else { panic!("{:?}", applied.cgroups()) };
            assert_eq!(cgroup.parent(), Some(Path::new("/sys/fs/cgroup/bench")));
            let mut now = machine.all();
            now.retain(|path, _| !path.starts_with(machine.host.path(cgroup)));
            assert_eq!(now, before, "all but the run's own cgroup is as it was");
            machine.lay("/sys/fs/cgroup/bench/cpuset.cpus.partition", "root\n");
            assert!(got(&applied).1.starts_with("cgroup v2 partition"));
            machine.lay("/sys/fs/cgroup/bench/cpuset.cpus.partition", "member\n");
            applied.undo().unwrap();
            assert_eq!(machine.all(), before);
        }
    }

    #[test]
    fn a_pool_that_does_not_fit_is_reported_and_left() {
        let machine = Machine::new();
        assert_eq!(
            refused(&machine, &pooled(&[], "bench", None)),
            "there is no pool `bench` (no /sys/fs/cgroup/bench, no /sys/fs/cgroup/user/leaf/bench); \
             with `cpus` one is made for each run"
        );
        lay_pool(&machine, "");
        for cpus in ["1", "1-3", "0"] {
            assert_eq!(
                refused(&machine, &pooled(&[], "bench", Some(cpus))),
                format!("the pool {ROOT}/bench has CPUs 1-2, not {cpus}; it is left as it is")
            );
        }
        let message = refused(&machine, &pooled(&[WEIGHT], "bench", Some("1-2")));
        assert!(message.contains("cgroup.subtree_control does not name `cpu`"), "{message}");
        machine.lay("/sys/fs/cgroup/bench/cpuset.cpus.effective", "\n");
        machine.lay("/sys/fs/cgroup/bench/cpuset.cpus", "\n");
        let message = refused(&machine, &pooled(&[], "bench", None));
        assert_eq!(message, "the pool /sys/fs/cgroup/bench has no CPUs");
    }

    #[test]
    fn where_no_cpuset_can_be_had_the_affinity_is_left_and_says_why() {
        let machine = Machine::new();
        let applied = put(&machine, &pooled(&[WEIGHT], "bench", Some("3-4")));
        let why = "no cpuset in /sys/fs/cgroup can have CPUs 4";
        assert_eq!(got(&applied).1, format!("affinity: {why}"));
        assert_eq!(applied.cgroups().len(), 1, "the knobs have theirs all the same");
        applied.undo().unwrap();

        machine.lay("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        let applied = put(&machine, &pooled(&[], "bench", Some("1")));
        let why = "the cgroup tree at /sys/fs/cgroup has no cpuset controller for this process";
        assert_eq!(got(&applied).1, format!("affinity: {why}"));
        assert!(applied.cgroups().is_empty());

        machine.lay("/proc/self/mountinfo", "");
        let message = refused(&machine, &pooled(&[], "bench", None));
        assert!(message.contains("no cgroup tree with a cpuset controller"), "{message}");
    }

    #[test]
    fn version_1_has_a_folder_in_each_hierarchy() {
        let machine = Machine::new();
        lay_v1(&machine);
        let before = machine.all();
        let applied = put(&machine, &pooled(&[WEIGHT], "bench", Some("1-2")));
        assert_eq!(got(&applied).1, "cpuset v1");
        let [cpuset, cpu] = applied.cgroups() else { panic!("{:?}", applied.cgroups()) };
        let text = |folder: &Path, name: &str| machine.host.read(folder.join(name)).unwrap();
        assert_eq!(cpuset.parent(), Some(Path::new("/v1/cpuset/own")));
        assert_eq!(
            (text(cpuset, "cpuset.cpus"), text(cpuset, "cpuset.mems")),
            ("1-2".into(), "0-1".into())
        );
        assert_eq!(
            (text(cpuset, "cpuset.cpu_exclusive"), text(cpu, "cpu.shares")),
            ("1".into(), "2560".into())
        );
        applied.adopt(4711).unwrap();
        for folder in applied.cgroups() {
            assert_eq!(text(folder, "cgroup.procs"), "4711");
            machine.lay(&folder.join("cgroup.procs").display().to_string(), "");
        }
        applied.undo().unwrap();
        assert_eq!(machine.all(), before);
    }

    /// Where both controllers are in one hierarchy of version 1, the cgroup of a pool has no real-time runtime.
    #[test]
    fn real_time_policies_are_not_for_pools_of_version_1_that_limit_real_time() {
        let machine = Machine::new();
        let mounts = "2 1 0:1 / /v1 rw - cgroup none rw,cpuset,cpu,cpuacct";
        machine.lay("/proc/self/mountinfo", mounts);
        machine.lay("/proc/self/cgroup", "2:cpuset,cpu,cpuacct:/\n");
        for (name, text) in [
            ("cgroup.procs", "1\n"),
            ("cpuset.cpus", "0-3\n"),
            ("cpuset.mems", "0\n"),
            ("cpu.shares", "1024\n"),
        ] {
            machine.lay(&format!("/v1/{name}"), text);
        }
        let mut plain = pooled(&[], "bench", Some("1-2"));
        plain.work.sets.push(WorkerSet::default());
        let mut fifo = plain.clone();
        fifo.work.sets[0].knobs = knobs(&[("policy", "fifo"), ("priority", "1")]);
        let no_runtime = |cell: &Cell| {
            let missing = check(cell, &machine.host).err().unwrap_or_default();
            missing.iter().any(|one| one.message.contains("/v1/cpu.rt_runtime_us"))
        };
        assert!(!no_runtime(&fifo), "the kernel has no CONFIG_RT_GROUP_SCHED");
        machine.lay("/v1/cpu.rt_runtime_us", "950000\n");
        assert!(no_runtime(&fifo) && !no_runtime(&plain));
        machine.lay("/proc/sys/kernel/sched_rt_runtime_us", "-1\n");
        assert!(!no_runtime(&fifo), "real-time tasks have no limit");
    }

    #[test]
    fn a_pool_of_version_1_is_found_at_the_root_and_next_to_an_exclusive_one_none_is_made() {
        let machine = Machine::new();
        lay_v1(&machine);
        for (name, text) in [
            ("cgroup.procs", ""),
            ("cpuset.cpus", "2-3"),
            ("cpuset.mems", "1"),
            ("cpuset.cpu_exclusive", "1"),
        ] {
            machine.lay(&format!("/v1/cpuset/bench/{name}"), text);
            machine.lay(&format!("/v1/cpuset/own/web/{name}"), text);
        }
        let before = machine.all();
        let applied = put(&machine, &pooled(&[], "bench", None));
        assert_eq!(got(&applied).1, "cpuset v1, CPUs 2-3");
        let own = &applied.cgroups()[0];
        assert_eq!(own.parent(), Some(Path::new("/v1/cpuset/bench")));
        let text = |name: &str| machine.host.read(own.join(name)).unwrap();
        assert_eq!((text("cpuset.cpus"), text("cpuset.mems")), ("2-3".into(), "1".into()));
        applied.undo().unwrap();
        assert_eq!(machine.all(), before);

        let applied = put(&machine, &pooled(&[], "another", Some("1-2")));
        let why = "no cpuset in /v1/cpuset/own can have CPUs 1-2 (another cpuset has some of them \
                   for itself)";
        assert_eq!(got(&applied).1, format!("affinity: {why}"));
        assert_eq!(machine.all(), before, "what was begun is undone at once");
    }
}
