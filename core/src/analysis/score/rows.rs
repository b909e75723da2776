//! Tasks folded into rows: by name, process, cgroup, or not at all. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::TaskScore;

/// The property that tasks in one row share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Name,
    Process,
    Cgroup,
    Task,
}

/// The tasks of a row, and their sums.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskRow {
    pub label: String,
    pub tasks: usize,
    /// Its names and numbers are those of the first task.
    pub sum: TaskScore,
}

/// The rows, most run time first.
pub fn rows<'a>(tasks: impl Iterator<Item = &'a TaskScore>, by: By) -> Vec<TaskRow> {
    let mut sums: BTreeMap<(String, i32), (usize, TaskScore)> = BTreeMap::new();
    for task in tasks {
        let key = match by {
            // No task, but what is counted for many.
            _ if task.tid == 0 => (task.name.clone(), 0),
            By::Name => (folded(&task.name), 0),
            By::Process => (format!("{} ({})", task.process, task.pid), task.pid),
            By::Cgroup => (task.cgroup.clone().unwrap_or_else(|| "(unknown)".to_string()), 0),
            By::Task => (format!("{} ({})", task.name, task.tid), task.tid),
        };
        match sums.get_mut(&key) {
            Some((tasks, sum)) => {
                *tasks += 1;
                sum.add(task);
            }
            None => _ = sums.insert(key, (1, task.clone())),
        }
    }
    let rows = sums.into_iter().map(|((label, _), (tasks, sum))| TaskRow { label, tasks, sum });
    let mut rows: Vec<TaskRow> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.sum.run_ns));
    rows
}

/// Kernel workers are named after where they work: `kworker/1:2-events` is a `kworker`.
fn folded(name: &str) -> String {
    match name.split_once('/') {
        Some((
            head @ ("kworker" | "ksoftirqd" | "migration" | "cpuhp" | "irq" | "rcuop" | "rcuog"),
            _,
        )) => head.to_string(),
        _ => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, tid: i32, run_ns: Option<u64>) -> TaskScore {
        TaskScore {
            tid,
            pid: tid / 10 * 10,
            name: name.to_string(),
            process: "main".to_string(),
            cgroup: (tid % 2 == 0).then(|| "/a".to_string()),
            run_ns,
            voluntary: Some(1),
            cpus: Some(vec![(0, 1), (3, tid as u64)]),
            ..TaskScore::default()
        }
    }

    #[test]
    fn tasks_share_rows_by_what_is_asked() {
        let tasks = [
            task("kworker/0:1", 10, Some(1)),
            task("kworker/u8:2-ev", 11, Some(2)),
            task("web", 20, Some(9)),
            TaskScore { cgroup: None, ..task("(other)", 0, Some(0)) },
        ];
        let cases: &[(By, &[&str])] = &[
            (By::Name, &["web", "kworker", "(other)"]),
            (By::Process, &["main (20)", "main (10)", "(other)"]),
            (By::Cgroup, &["/a", "(unknown)", "(other)"]),
            (By::Task, &["web (20)", "kworker/u8:2-ev (11)", "kworker/0:1 (10)", "(other)"]),
        ];
        for (by, expected) in cases {
            let rows = rows(tasks.iter(), *by);
            let labels: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
            assert_eq!(labels, *expected, "{by:?}");
        }
        let row = rows(tasks.iter(), By::Name).remove(1);
        assert_eq!((row.tasks, row.sum.run_ns, row.sum.voluntary), (2, Some(3), Some(2)));
        assert_eq!(row.sum.cpus, Some(vec![(0, 2), (3, 21)]));
    }

    #[test]
    fn a_sum_with_an_unknown_part_is_unknown() {
        let rows = rows([task("a", 1, None), task("a", 2, Some(5))].iter(), By::Name);
        assert_eq!((rows.len(), rows[0].sum.run_ns, rows[0].sum.voluntary), (1, None, Some(2)));
    }
}
