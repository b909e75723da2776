//! Applying to a made-up machine, reading back, and undoing.

use super::*;
use crate::variant::testing::{Machine, cell, pooled, variant};

const ALL: &[(&str, &str)] = &[
    ("autogroup", "false"),
    ("features", "NO_RUN_TO_PARITY,HRTICK"),
    ("base-slice", "1ms"),
    ("preempt", "lazy"),
    ("migration-cost", "100us"),
    ("nr-migrate", "8"),
    ("sysctl", "sched_rr_timeslice_ms=50"),
    ("cgroup-weight", "250"),
    ("cgroup-max", "150%"),
];

fn only_cgroup(machine: &Machine) -> PathBuf {
    let folder = std::fs::read_dir(machine.host.path("/sys/fs/cgroup")).unwrap();
    let mut names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.find(|name| name.starts_with(CGROUP_PREFIX)).expect("a cgroup");
    Path::new("/sys/fs/cgroup").join(name)
}

#[test]
fn knobs_are_applied_read_back_and_undone() {
    let machine = Machine::new();
    let before = machine.all();
    let applied = apply(&cell(variant(ALL), &[]), &machine.host, &machine.journal()).unwrap();

    let debugfs = "/sys/kernel/debug/sched";
    let expected = [
        ("/proc/sys/kernel/sched_autogroup_enabled", "0"),
        ("/proc/sys/kernel/sched_rr_timeslice_ms", "50"),
        (&format!("{debugfs}/features"), "PLACE_LAG HRTICK NO_RUN_TO_PARITY"),
        (&format!("{debugfs}/base_slice_ns"), "1000000"),
        (&format!("{debugfs}/preempt"), "none voluntary full (lazy)"),
        (&format!("{debugfs}/migration_cost_ns"), "100000"),
        (&format!("{debugfs}/nr_migrate"), "8"),
        ("/sys/fs/cgroup/cgroup.subtree_control", "memory cpu"),
    ];
    for (path, text) in expected {
        assert_eq!(machine.text(path), text, "{path}");
    }
    let cgroup = only_cgroup(&machine);
    let in_cgroup = |name: &str| machine.host.read(cgroup.join(name)).unwrap();
    assert_eq!(in_cgroup("cpu.weight"), "250");
    assert_eq!(in_cgroup("cpu.max"), "150000 100000");
    applied.adopt(4711).unwrap();
    assert_eq!(in_cgroup("cgroup.procs"), "4711");
    machine.host.write(cgroup.join("cgroup.procs"), "").unwrap();

    let readings = applied.readings();
    assert_eq!(readings.len(), ALL.len());
    for reading in &readings {
        assert_eq!(reading.got, Reading::Known(reading.asked.clone()), "{}", reading.knob);
    }
    assert_eq!(machine.journals(), 1);
    applied.undo().unwrap();
    assert_eq!(machine.all(), before);
    assert_eq!(machine.journals(), 0);
}

#[test]
fn settings_of_other_schedulers_and_of_old_releases_are_applied_and_undone() {
    let machine = Machine::new();
    let kernel = "/proc/sys/kernel";
    let own = ["interactive", "rr_interval", "yield_type", "sched_bore", "numa_balancing"];
    own.iter().for_each(|name| machine.lay(&format!("{kernel}/{name}"), "1\n"));
    let features = "/sys/kernel/debug/sched_features";
    std::fs::remove_file(machine.host.path("/sys/kernel/debug/sched/features")).unwrap();
    machine.lay(features, "HRTICK START_DEBIT\n");
    let before = machine.all();
    let list = own.map(|name| format!("kernel.{name}=2")).join(",");
    let knobs = [("sysctl", list.as_str()), ("features", "NO_START_DEBIT")];
    let wanted = cell(variant(&knobs), &[]);
    assert_eq!(crate::variant::check(&wanted, &machine.host), Ok(()));
    let applied = apply(&wanted, &machine.host, &machine.journal()).unwrap();
    for name in own {
        assert_eq!(machine.text(&format!("{kernel}/{name}")), "2", "{name}");
    }
    assert_eq!(machine.text(features), "HRTICK NO_START_DEBIT");
    assert!(applied.readings().iter().all(|own| !own.is_mismatch()));
    machine.lay(&format!("{kernel}/yield_type"), "0\n");
    let readings = applied.readings();
    let sysctl = readings.iter().find(|own| own.knob == "sysctl").unwrap();
    assert!(sysctl.is_mismatch(), "it is read back: {sysctl:?}");
    machine.lay(&format!("{kernel}/yield_type"), "2\n");
    applied.undo().unwrap();
    assert_eq!(machine.all(), before);
}

#[test]
fn what_is_dropped_is_undone() {
    let machine = Machine::new();
    let before = machine.all();
    drop(apply(&cell(variant(ALL), &[]), &machine.host, &machine.journal()).unwrap());
    assert_eq!(machine.all(), before);
}

#[test]
fn a_tree_of_version_1_has_shares_and_a_quota() {
    let machine = Machine::new();
    machine.lay("/proc/self/mountinfo", "2 1 0:1 / /sys/fs/cgroup rw - cgroup none rw,cpu");
    machine.lay("/proc/self/cgroup", "1:cpu:/\n");
    std::fs::remove_file(machine.host.path("/sys/fs/cgroup/cgroup.controllers")).unwrap();
    let knobs = [("cgroup-weight", "250"), ("cgroup-max", "50%")];
    let applied = apply(&cell(variant(&knobs), &[]), &machine.host, &machine.journal()).unwrap();
    let cgroup = only_cgroup(&machine);
    let in_cgroup = |name: &str| machine.host.read(cgroup.join(name)).unwrap();
    assert_eq!(in_cgroup("cpu.shares"), "2560");
    assert_eq!(in_cgroup("cpu.cfs_quota_us"), "50000");
    applied.undo().unwrap();
    assert!(!machine.host.path(&cgroup).exists());
}

#[test]
fn what_is_as_wanted_is_not_written_but_read_back() {
    let machine = Machine::new();
    let same = [("nr-migrate", "32"), ("preempt", "full"), ("features", "PLACE_LAG")];
    let same = cell(variant(&same), &[]);
    crate::sys::fuse::set(Some(0));
    let applied = apply(&same, &machine.host, &machine.journal());
    crate::sys::fuse::set(None);
    let applied = applied.expect("nothing is to be changed");
    assert!(applied.readings().iter().all(|r| r.got == Reading::Known(r.asked.clone())));
    machine.lay("/sys/kernel/debug/sched/nr_migrate", "7\n");
    let got = applied.readings().into_iter().find(|r| r.knob == "nr-migrate").unwrap().got;
    let expected = "/sys/kernel/debug/sched/nr_migrate holds `7`".to_string();
    assert_eq!(got, Reading::Known(Value::Text(expected)));
    applied.undo().unwrap();
    assert_eq!(machine.text("/sys/kernel/debug/sched/nr_migrate"), "7", "not ours to undo");
}

#[test]
fn a_step_that_fails_undoes_those_before_it() {
    let machine = Machine::new();
    std::fs::remove_file(machine.host.path("/sys/kernel/debug/sched/nr_migrate")).unwrap();
    let before = machine.all();
    let error = apply(&cell(variant(ALL), &[]), &machine.host, &machine.journal()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "knob `nr-migrate`: /sys/kernel/debug/sched/nr_migrate cannot be read (ENOENT, this \
         kernel has no such setting)"
    );
    assert!(!error.hint.is_empty());
    assert_eq!(machine.all(), before);
    assert_eq!(machine.journals(), 0);
}

#[test]
fn what_the_kernel_refuses_or_rounds_is_reported_and_put_back() {
    let machine = Machine::new();
    machine.lay("/sys/kernel/debug/sched/preempt", "none (voluntary) full\n");
    let before = machine.all();
    let cases: &[(&str, &str, &str)] = &[
        (
            "preempt",
            "lazy",
            "knob `preempt`: /sys/kernel/debug/sched/preempt did not take `lazy` (EINVAL, \
             this kernel does not take that value)",
        ),
        (
            "sysctl",
            "sched_rr_timeslice_ms=55",
            "knob `sysctl`: /proc/sys/kernel/sched_rr_timeslice_ms took `50` where `55` was \
             written",
        ),
    ];
    for (knob, text, message) in cases {
        let knobs = cell(variant(&[("autogroup", "false"), (knob, text)]), &[]);
        let error = apply(&knobs, &machine.host, &machine.journal()).unwrap_err();
        assert_eq!(error.to_string(), *message);
        assert_eq!(machine.all(), before, "{knob}");
        assert_eq!(machine.journals(), 0, "{knob}");
    }
}

#[test]
fn what_someone_else_changed_is_left_and_reported() {
    let machine = Machine::new();
    let knobs = [("nr-migrate", "8"), ("base-slice", "1ms")];
    let applied = apply(&cell(variant(&knobs), &[]), &machine.host, &machine.journal()).unwrap();
    machine.lay("/sys/kernel/debug/sched/nr_migrate", "64\n");
    let error = applied.undo().unwrap_err();
    assert_eq!(
        error.to_string(),
        "not everything is as it was; left changed: /sys/kernel/debug/sched/nr_migrate now \
         holds `64`, set by someone else"
    );
    let command = "echo 32 > /sys/kernel/debug/sched/nr_migrate";
    assert_eq!(error.hint().as_deref(), Some(command), "a restore would leave it, too");
    assert_eq!(machine.text("/sys/kernel/debug/sched/nr_migrate"), "64");
    assert_eq!(machine.text("/sys/kernel/debug/sched/base_slice_ns"), "2800000");
    assert_eq!(machine.journals(), 0);
}

#[test]
fn the_cpu_controller_stays_where_others_have_come_to_use_it() {
    let machine = Machine::new();
    let knobs = cell(variant(&[("cgroup-weight", "250")]), &[]);
    let applied = apply(&knobs, &machine.host, &machine.journal()).unwrap();
    machine.lay("/sys/fs/cgroup/web/cpu.weight", "900\n");
    let error = applied.undo().unwrap_err().to_string();
    assert!(error.ends_with("serves /sys/fs/cgroup/web now"), "{error}");
    assert_eq!(machine.text("/sys/fs/cgroup/cgroup.subtree_control"), "memory cpu");
}

#[test]
fn cpusets_stay_where_others_have_come_to_use_them() {
    let machine = Machine::new();
    let pool = pooled(&[], "bench", Some("1"));
    let applied = apply(&pool, &machine.host, &machine.journal()).unwrap();
    machine.lay("/sys/fs/cgroup/web/cpuset.cpus", "2\n");
    let error = applied.undo().unwrap_err().to_string();
    assert!(error.ends_with("serves /sys/fs/cgroup/web now"), "{error}");
    assert_eq!(machine.text("/sys/fs/cgroup/cgroup.subtree_control"), "memory cpuset");
}

#[test]
fn only_changes_of_schedlab_are_taken_from_a_journal() {
    let cgroup = |path: &str| Change::Cgroup { path: path.into() }.is_known();
    assert!(cgroup("/sys/fs/cgroup/schedlab-1-2-3"));
    assert!(cgroup("/sys/fs/cgroup/bench/schedlab-1-2-3"));
    assert!(!cgroup("/sys/fs/cgroup/bench"));
    assert!(!cgroup("/sys/fs/cgroup/system.slice"));
    assert!(!cgroup("/sys/fs/cgroup/../schedlab-1-2-3"));
    assert!(!cgroup("schedlab-1-2-3"));
    let set = |target| Change::Set { target, before: String::new(), set: String::new() };
    assert!(set(Target::Debugfs("nr_migrate".to_string())).is_known());
    assert!(!set(Target::Debugfs("../../x".to_string())).is_known());
    assert!(!set(Target::CpuForChildren("/a/../b".into())).is_known());
}

#[test]
fn a_scheduler_that_was_not_attached_is_distinguished_from_one_that_did_not_last() {
    let error = |knob: &str| ApplyError {
        knob: knob.to_string(),
        message: "the scheduler fifo is refused by the kernel".to_string(),
        hint: String::new(),
        is_fault: true,
        still_changed: Vec::new(),
    };
    assert!(is_not_attached(&error(SCX).to_string()));
    for other in [&error("scx-counts").to_string(), "the scheduler fifo did not last: it ended", ""]
    {
        assert!(!is_not_attached(other), "{other}");
    }
}
