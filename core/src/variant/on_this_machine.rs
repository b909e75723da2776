//! Knobs on the machine that the tests run on: real files, real cgroups, real processes.
//! Everything is put back; one test at a time, whichever checkout it is of.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use crate::model::{Cell, Reading, Variant};
use crate::sys::cgroup::Version;
use crate::sys::{Host, fuse, sched};

use super::journal::{Journal, Writer};
use super::pool::Form;
use super::testing::{cell, pooled, variant};
use super::{Applied, Undone, apply, apply_to_self, check, find_pool, restore};

const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";
const BANDWIDTH: &str = "/proc/sys/kernel/sched_cfs_bandwidth_slice_us";

/// Holds other tests of this kind off, in other processes, too.
struct Turn(#[allow(dead_code, reason = "held for its lock")] File);

fn turn() -> Turn {
    let path = std::env::temp_dir().join("schedlab-test-turn.lock");
    // Another user's file can be opened, but not made anew.
    let file = File::open(&path).or_else(|_| File::create(&path)).unwrap();
    file.lock().unwrap();
    Turn(file)
}

/// A variant that differs from the machine's settings; `None`, loudly, if it cannot be had.
fn another(test: &str, host: &Host) -> Option<Variant> {
    let now = host.read(BANDWIDTH).ok().and_then(|text| text.parse::<u64>().ok());
    let (Ok(autogroup), Some(slice_us)) = (host.read(AUTOGROUP), now) else {
        eprintln!("skipped: {test} needs {AUTOGROUP} and {BANDWIDTH}");
        return None;
    };
    let autogroup = if autogroup == "1" { "false" } else { "true" };
    let slice_us = slice_us + 1000;
    let variant = variant(&[
        ("autogroup", autogroup),
        ("sysctl", &format!("sched_cfs_bandwidth_slice_us={slice_us}")),
        ("cgroup-weight", "250"),
        ("cgroup-max", "50%"),
    ]);
    match check(&cell(variant.clone(), &[]), host) {
        Ok(()) => Some(variant),
        Err(missing) => {
            eprintln!("skipped: {test} needs privileges: {}", missing[0].message);
            None
        }
    }
}

fn values(host: &Host) -> [String; 2] {
    [host.read(AUTOGROUP).unwrap(), host.read(BANDWIDTH).unwrap()]
}

/// A cell with a pool of the first CPU and a cgroup knob; `None`, loudly, where this process
/// can make no cpuset of version 1.
fn pool_of_v1(test: &str, host: &Host) -> Option<Cell> {
    let cell = pooled(&[("cgroup-weight", "250")], "schedlab-test", Some("0"));
    let found = find_pool(&cell, host).unwrap().unwrap();
    let why = match (found.form, check(&cell, host)) {
        (Form::New(place), Ok(())) if place.version == Version::V1 => return Some(cell),
        (Form::Affinity(why), _) => why,
        (_, Err(missing)) => missing[0].message.clone(),
        _ => "cpusets of version 1".to_string(),
    };
    eprintln!("skipped: {test} needs privilege or a kernel with other cpusets: {why}");
    None
}

fn member_pool(host: &Host, child: &Child) -> (String, String) {
    let of = |file: &str, key: &str| {
        let text = host.read(format!("/proc/{}/{file}", child.id())).unwrap();
        text.lines().find_map(|line| Some(line.split_once(key)?.1.trim().to_string())).unwrap()
    };
    (of("cgroup", ":cpuset:"), of("status", "Cpus_allowed_list:"))
}

#[test]
fn a_pool_of_version_1_holds_its_members_next_to_a_cgroup_with_a_weight() {
    let (_turn, host) = (turn(), Host::default());
    let Some(cell) = pool_of_v1("a_pool_of_version_1_holds", &host) else { return };
    let dir = tempfile::tempdir().unwrap();
    let applied = apply(&cell, &host, &Journal::open(dir.path()).unwrap()).unwrap();
    let mut child = member(&applied, &host);
    let (cpuset, cpus) = member_pool(&host, &child);
    let (readings, cgroups) = (applied.readings(), applied.cgroups().to_vec());
    applied.undo().unwrap();
    assert!(cpuset.contains("/schedlab-"), "{cpuset}");
    assert_eq!(cpus, "0");
    let got = |knob: &str| readings.iter().find(|r| r.knob == knob).unwrap().got.clone();
    let got = |knob: &str| got(knob).known().map(|value| value.to_string());
    // It is not exclusive next to cpusets of others, as those of containers.
    assert!(got("pool").unwrap().starts_with("cpuset v1"));
    assert_eq!(got("cgroup-weight").as_deref(), Some("250"));
    assert!(cgroups.iter().all(|path| !path.exists()), "{cgroups:?}");
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL), "its cpuset has gone");
}

/// A cpuset that the test has made, removed however the test ends.
struct OwnPool(PathBuf);

impl Drop for OwnPool {
    fn drop(&mut self) {
        _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_pool_of_version_1_that_is_there_outlives_the_run() {
    let (_turn, host) = (turn(), Host::default());
    let Some(mut cell) = pool_of_v1("a_pool_of_version_1_that_is_there", &host) else { return };
    let found = find_pool(&cell, &host).unwrap().unwrap();
    let Form::New(place) = found.form else { panic!("{found:?}") };
    let name = format!("schedlab-test-{}", std::process::id());
    let pool = OwnPool(place.parent.join(&name));
    std::fs::create_dir(&pool.0).unwrap();
    let mems = std::fs::read(place.parent.join("cpuset.mems")).unwrap();
    std::fs::write(pool.0.join("cpuset.mems"), mems).unwrap();
    std::fs::write(pool.0.join("cpuset.cpus"), "0").unwrap();
    cell.placement.pool = Some(name.parse().unwrap());
    cell.placement.cpus = None;
    let dir = tempfile::tempdir().unwrap();
    let applied = apply(&cell, &host, &Journal::open(dir.path()).unwrap()).unwrap();
    let mut child = member(&applied, &host);
    let (cpuset, cpus) = member_pool(&host, &child);
    let undone = applied.undo();
    cell.placement.cpus = Some("0-1".parse().unwrap());
    let other_cpus = check(&cell, &host);
    let left = std::fs::read_to_string(pool.0.join("cpuset.cpus"));
    undone.unwrap();
    assert!(cpuset.contains(&format!("/{name}/schedlab-")), "{cpuset}");
    assert_eq!((cpus.as_str(), left.unwrap().trim()), ("0", "0"));
    assert!(other_cpus.unwrap_err()[0].message.contains("has CPUs 0, not 0-1"));
    child.wait().unwrap();
}

/// A process in the run's cgroup.
fn member(applied: &Applied, host: &Host) -> Child {
    let child = Command::new("sleep").arg("60").spawn().unwrap();
    applied.adopt(child.id() as i32).unwrap();
    let cgroups = host.read(format!("/proc/{}/cgroup", child.id())).unwrap();
    assert!(cgroups.contains("/schedlab-"), "{cgroups}");
    child
}

#[test]
fn a_variant_holds_and_the_machine_is_as_it_was() {
    let (_turn, host) = (turn(), Host::default());
    let Some(variant) = another("a_variant_holds", &host) else { return };
    let (before, dir) = (values(&host), tempfile::tempdir().unwrap());
    let applied = apply(&cell(variant, &[]), &host, &Journal::open(dir.path()).unwrap()).unwrap();
    let mut child = member(&applied, &host);
    let readings = applied.readings();
    let now = values(&host);
    applied.undo().unwrap();
    assert_eq!(readings.len(), 4);
    for reading in readings {
        assert_eq!(reading.got, Reading::Known(reading.asked), "{}", reading.knob);
    }
    assert!(now[0] != before[0] && now[1] != before[1], "{now:?}");
    assert_eq!(values(&host), before);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL), "its cgroup has gone");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_a_dead_process_left_is_put_back() {
    let (_turn, host) = (turn(), Host::default());
    let Some(variant) = another("what_a_dead_process_left", &host) else { return };
    let (before, dir) = (values(&host), tempfile::tempdir().unwrap());
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let me = Writer::this_process().unwrap();
    let dead = Writer { pid: ended.id() as i32, ..me };
    let applied =
        apply(&cell(variant, &[]), &host, &Journal::with_writer(dir.path(), dead).unwrap())
            .unwrap();
    let mut child = member(&applied, &host);
    fuse::set(Some(0));
    drop(applied);
    fuse::set(None);
    let left = values(&host);
    let restored = restore(dir.path(), &host).unwrap();
    assert_eq!(values(&host), before);
    assert_ne!(left, before, "nothing was undone before");
    assert!(
        restored.len() >= 3 && restored.iter().all(|one| one.outcome == Undone::PutBack),
        "{restored:?}"
    );
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn a_cgroup_without_real_time_runtime_is_named() {
    let (_turn, host) = (turn(), Host::default());
    let test = "a_cgroup_without_real_time_runtime_is_named";
    if crate::sys::cgroup::own_rt_runtime(&host).is_none() {
        eprintln!("skipped: {test} needs a version 1 CPU controller and CONFIG_RT_GROUP_SCHED");
        return;
    }
    let weight = variant(&[("cgroup-weight", "100")]);
    if let Err(missing) = check(&cell(weight.clone(), &[]), &host) {
        eprintln!("skipped: {test} needs privileges: {}", missing[0].message);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let applied = apply(&cell(weight, &[]), &host, &Journal::open(dir.path()).unwrap()).unwrap();
    let tasks = applied.cgroups()[0].join("tasks");
    let fifo = std::thread::spawn(move || {
        std::fs::write(&tasks, sched::own_tid().to_string()).unwrap();
        let refused = apply_to_self(&variant(&[("policy", "fifo")]).knobs);
        // Out again: the cgroup's members are killed.
        let outside = tasks.parent().and_then(std::path::Path::parent).unwrap().join("tasks");
        std::fs::write(outside, sched::own_tid().to_string()).unwrap();
        refused
    });
    let refused = fifo.join().unwrap().unwrap_err().to_string();
    applied.undo().unwrap();
    assert!(refused.contains("SCHED_FIFO was refused (EPERM, /sys/fs/cgroup"), "{refused}");
    assert!(refused.contains("cpu.rt_runtime_us is 0: under CONFIG_RT_GROUP_SCHED"), "{refused}");
}
