//! Undoes changes that ended processes have left: `schedlab restore`, and the start of every run.

use std::io;
use std::path::{Path, PathBuf};

use crate::sys::host::error_text;
use crate::sys::{self, Host};

use super::change::Undone;
use super::journal::{self, Left};

/// One change of a process that has ended, and the result of undoing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The change, in words.
    pub change: String,
    /// The process that made it.
    pub pid: i32,
    pub outcome: Undone,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot undo what an earlier process left: {path}: {}", error_text(.source))]
pub struct RestoreError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Undoes, newest first, the open changes of every process that has ended and left a
/// journal in `state_dir`. Journals of living processes are not touched. A folder that is
/// not there holds nothing to undo.
pub fn restore(state_dir: &Path, host: &Host) -> Result<Vec<Restored>, RestoreError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| RestoreError { path, source }
    };
    let entries = match std::fs::read_dir(state_dir) {
        Err(error) if sys::is_absent(state_dir, &error) => return Ok(Vec::new()),
        entries => entries.map_err(failed(state_dir))?,
    };
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut paths = paths.map_err(failed(state_dir))?;
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    paths.sort();
    let boot_id = journal::boot_id(host).map_err(failed(Path::new("boot_id")))?;
    let mut restored = Vec::new();
    for path in paths {
        if let Some(left) = Left::take(&path, host, &boot_id).map_err(failed(&path))? {
            restore_one(left, host, &boot_id, &mut restored).map_err(failed(&path))?;
        }
    }
    Ok(restored)
}

fn restore_one(
    mut left: Left,
    host: &Host,
    boot_id: &str,
    restored: &mut Vec<Restored>,
) -> io::Result<()> {
    let pid = left.writer.pid;
    for _ in 0..left.torn_lines {
        let change = "a line of the journal that was cut off".to_string();
        restored.push(Restored { change, pid, outcome: Undone::NothingToDo });
    }
    let rebooted = left.writer.boot_id != boot_id;
    for (entry, change) in left.open.clone() {
        let outcome = if rebooted { Undone::Rebooted } else { change.undo(host) };
        if !matches!(outcome, Undone::Failed(_)) {
            left.end(entry)?;
        }
        restored.push(Restored { change: change.to_string(), pid, outcome });
    }
    left.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fuse;
    use crate::variant::apply;
    use crate::variant::journal::{Journal, Writer};
    use crate::variant::testing::{Group, Machine, cell, grouped, pooled, variant};
    use proptest::prelude::*;

    const KNOBS: &[(&str, &str)] = &[
        ("autogroup", "false"),
        ("features", "NO_RUN_TO_PARITY,HRTICK,NO_PLACE_LAG"),
        ("base-slice", "1ms"),
        ("preempt", "lazy"),
        ("nr-migrate", "8"),
        ("sysctl", "sched_rr_timeslice_ms=50"),
        ("cgroup-weight", "250"),
        ("cgroup-max", "150%"),
    ];

    /// Applies and undoes `written` in a pool and crashes after `changes` changes. Whether it
    /// did.
    fn crashes(machine: &Machine, written: &[(&str, &str)], changes: u32) -> bool {
        fuse::set(Some(changes));
        let cgroups: [Group; 2] =
            [("web", &[("cgroup-weight", "200")], None), ("web/front", &[], Some("1"))];
        let cell = grouped(pooled(written, "bench", Some("1-2")), &cgroups);
        if let Ok(applied) = apply(&cell, &machine.host, &machine.journal()) {
            drop(applied.undo());
        }
        let crashed = fuse::refused() > 0;
        fuse::set(None);
        crashed
    }

    fn restored(machine: &Machine) -> Vec<Restored> {
        restore(&machine.state_dir(), &machine.host).unwrap()
    }

    #[test]
    fn a_crash_after_any_change_is_undone() {
        for changes in 0.. {
            let machine = Machine::new();
            let before = machine.all();
            let crashed = crashes(&machine, KNOBS, changes);
            let outcomes = restored(&machine);
            assert_eq!(machine.all(), before, "after {changes}: {outcomes:?}");
            assert_eq!(machine.journals(), 0, "after {changes}: {outcomes:?}");
            assert_eq!(restored(&machine), [], "once is enough");
            if !crashed {
                assert!(changes > 40, "{changes} changes are too few to be all");
                break;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// And so is a crash of the restorer, after any variant.
        #[test]
        fn a_crash_while_restoring_is_undone_too(
            written in proptest::sample::subsequence(KNOBS, 1..=KNOBS.len()),
            changes in 0u32..60,
            again in 0u32..20,
        ) {
            let machine = Machine::new();
            let before = machine.all();
            crashes(&machine, &written, changes);
            fuse::set(Some(again));
            let _crashed = restore(&machine.state_dir(), &machine.host);
            fuse::set(None);
            restored(&machine);
            prop_assert_eq!(machine.all(), before);
            prop_assert_eq!(machine.journals(), 0);
        }
    }

    /// A journal that a process has left behind, after applying `written`.
    fn left(machine: &Machine, written: &[(&str, &str)], writer: Writer) {
        let journal = Journal::with_writer(&machine.state_dir(), writer).unwrap();
        let applied = apply(&cell(variant(written), &[]), &machine.host, &journal).unwrap();
        fuse::set(Some(0));
        drop(applied);
        fuse::set(None);
    }

    #[test]
    fn each_change_is_reported_with_what_became_of_it() {
        let machine = Machine::new();
        let knobs = [("nr-migrate", "8"), ("base-slice", "1ms"), ("autogroup", "false")];
        left(&machine, &knobs, Writer::this_process().unwrap());
        machine.lay("/sys/kernel/debug/sched/nr_migrate", "64\n");
        let slice = machine.host.path("/sys/kernel/debug/sched/base_slice_ns");
        std::fs::remove_file(&slice).unwrap();
        let debugfs = "/sys/kernel/debug/sched";
        let slice_change = format!("{debugfs}/base_slice_ns from `2800000` to `1000000`");
        let expected = [
            (
                format!("{debugfs}/nr_migrate from `32` to `8`"),
                Undone::LeftAlone {
                    why: format!("{debugfs}/nr_migrate now holds `64`, set by someone else"),
                    command: Some(format!("echo 32 > {debugfs}/nr_migrate")),
                },
            ),
            (
                slice_change.clone(),
                Undone::Failed(format!(
                    "{debugfs}/base_slice_ns cannot be read (ENOENT, this kernel has no such \
                     setting)"
                )),
            ),
            (
                "/proc/sys/kernel/sched_autogroup_enabled from `1` to `0`".to_string(),
                Undone::PutBack,
            ),
        ];
        let outcomes: Vec<_> =
            restored(&machine).into_iter().map(|r| (r.change, r.outcome)).collect();
        assert_eq!(outcomes, expected);
        assert_eq!(machine.text("/sys/kernel/debug/sched/nr_migrate"), "64");

        std::fs::write(&slice, "1000000\n").unwrap();
        let outcomes: Vec<_> =
            restored(&machine).into_iter().map(|r| (r.change, r.outcome)).collect();
        assert_eq!(outcomes, [(slice_change, Undone::PutBack)], "what failed stays in the journal");
        assert_eq!(machine.journals(), 0);
    }

    #[test]
    fn after_a_reboot_nothing_is_written() {
        let machine = Machine::new();
        let earlier = Writer { boot_id: "earlier".to_string(), pid: 1, start_ticks: 1 };
        left(&machine, &[("nr-migrate", "8")], earlier);
        let before = machine.all();
        let outcomes = restored(&machine);
        assert_eq!(outcomes.iter().map(|r| &r.outcome).collect::<Vec<_>>(), [&Undone::Rebooted]);
        assert_eq!(machine.all(), before, "8 may be what the system sets at boot");
        assert_eq!(machine.journals(), 0);
    }

    #[test]
    fn the_changes_of_a_living_process_stay() {
        let machine = Machine::new();
        let me = Writer::this_process().unwrap();
        let stat = Host::default().read("/proc/self/stat").unwrap();
        machine.lay(&format!("/proc/{}/stat", me.pid), &stat);
        left(&machine, &[("nr-migrate", "8")], me);
        assert_eq!(restored(&machine), []);
        assert_eq!(machine.text("/sys/kernel/debug/sched/nr_migrate"), "8");
        assert_eq!(machine.journals(), 1);
    }

    #[test]
    fn other_files_and_no_folder_are_no_journals() {
        let machine = Machine::new();
        assert_eq!(restored(&machine), []);
        std::fs::create_dir_all(machine.state_dir()).unwrap();
        std::fs::write(machine.state_dir().join("results.db"), "x").unwrap();
        assert_eq!(restored(&machine), []);
        assert_eq!(machine.journals(), 1, "it is not removed");
    }
}
