//! The table of tasks: folded into rows, filtered and ordered. Pure.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::model::{OTHER, TaskScore};
use crate::report::score::By;

use super::row::{Key, Row};

/// How rows are made and ordered.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub by: By,
    pub key: Key,
    /// The smallest first; names the other way round.
    pub reversed: bool,
    /// In lower case; empty: none.
    pub filter: String,
}

/// Rows of what these tasks did.
pub fn rows<'a>(tasks: impl Iterator<Item = &'a Row>, order: &Order) -> Vec<Row> {
    let tasks = tasks.filter(|task| order.filter.is_empty() || matches(task, &order.filter));
    let mut rows: Vec<Row> = match order.by {
        By::Task => tasks.cloned().collect(),
        by => folded(tasks, by),
    };
    rows.sort_by(|a, b| {
        let by_key = match order.key {
            Key::Name => a.task.name.cmp(&b.task.name),
            key => descending(key.value(a), key.value(b)),
        };
        let by_key = if order.reversed { by_key.reverse() } else { by_key };
        let waits = || descending(Key::Wait.value(a), Key::Wait.value(b));
        let runs = || descending(a.task.run_ns, b.task.run_ns);
        by_key.then_with(waits).then_with(runs).then_with(|| a.number.cmp(&b.number))
    });
    rows
}

fn matches(row: &Row, filter: &str) -> bool {
    let (task, number) = (&row.task, row.number.map(|number| number.to_string()));
    let texts = [
        task.name.as_str(),
        task.process.as_str(),
        task.cgroup.as_deref().unwrap_or_default(),
        number.as_deref().unwrap_or_default(),
    ];
    texts.iter().any(|text| text.to_lowercase().contains(filter))
}

fn descending(a: Option<u64>, b: Option<u64>) -> Ordering {
    b.cmp(&a)
}

fn folded<'a>(tasks: impl Iterator<Item = &'a Row>, by: By) -> Vec<Row> {
    let mut rows: HashMap<(String, Option<i32>), Row> = HashMap::new();
    for row in tasks {
        let task = &row.task;
        // A row that counts many tasks has no process.
        let pid = (by == By::Process && task.pid > 0).then_some(task.pid);
        let name = match by {
            // No task has this name: it counts many.
            _ if task.name == OTHER => task.name.clone(),
            By::Process => task.process.clone(),
            By::Cgroup => task.cgroup.clone().unwrap_or_else(|| "(unknown)".to_string()),
            By::Name | By::Task => task.name.clone(),
        };
        let fold = rows.entry((name.clone(), pid)).or_insert_with(|| {
            let task = TaskScore {
                name,
                process: task.process.clone(),
                pid: task.pid,
                cgroup: task.cgroup.clone(),
                ended: true,
                ..TaskScore::default()
            };
            Row { task, number: pid, ..Row::default() }
        });
        fold.add(row);
        fold.tasks += row.tasks;
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Times;

    fn task(name: &str, tid: i32, wait_ns: u64, run_ns: Option<u64>) -> Row {
        let wait = Times { count: 1, total_ns: wait_ns, ..Times::default() };
        Row::from_task(&TaskScore {
            tid,
            pid: tid / 10 * 10,
            name: name.to_string(),
            process: format!("P{}", tid / 10),
            cgroup: Some("/User.slice".to_string()),
            wait: Some(wait),
            run_ns,
            ..TaskScore::default()
        })
    }

    fn order() -> Order {
        Order { by: By::Task, key: Key::Wait, reversed: false, filter: String::new() }
    }

    fn names(tasks: &[Row], order: &Order) -> Vec<String> {
        rows(tasks.iter(), order).into_iter().map(|row| row.task.name).collect()
    }

    #[test]
    fn rows_are_ordered_by_the_key_and_those_without_it_come_last() {
        let tasks = [
            task("a", 10, 5, Some(7)),
            task("c", 11, 9, None),
            task("b", 20, 5, Some(8)),
            task("d", 21, 1, Some(1)),
        ];
        let cases = [
            (Key::Wait, false, ["c", "b", "a", "d"]),
            (Key::Run, false, ["b", "a", "d", "c"]),
            (Key::Run, true, ["c", "d", "a", "b"]),
            (Key::Name, false, ["a", "b", "c", "d"]),
            (Key::Name, true, ["d", "c", "b", "a"]),
        ];
        for (key, reversed, expected) in cases {
            assert_eq!(names(&tasks, &Order { key, reversed, ..order() }), expected, "{key:?}");
        }
    }

    #[test]
    fn a_filter_looks_at_names_numbers_processes_and_cgroups_in_any_case() {
        let tasks = [task("Web", 10, 5, None), task("db", 21, 9, None)];
        let cases: [(&str, &[&str]); 5] = [
            ("", &["db", "Web"]),
            ("web", &["Web"]),
            ("21", &["db"]),
            ("p1", &["Web"]),
            ("user.s", &["db", "Web"]),
        ];
        for (filter, expected) in cases {
            let order = Order { filter: filter.to_string(), ..order() };
            assert_eq!(names(&tasks, &order), expected, "{filter}");
        }
    }

    #[test]
    fn folded_rows_have_the_sums_of_their_tasks_and_have_ended_when_all_have() {
        let mut tasks =
            [task("w", 10, 5, Some(1)), task("w", 20, 6, Some(2)), task("x", 21, 1, None)];
        tasks[0].task.ended = true;
        let fold = |by| {
            let rows = rows(tasks.iter(), &Order { by, ..order() });
            let shown = |row: Row| {
                (
                    row.task.name.clone(),
                    row.number,
                    row.tasks,
                    row.task.ended,
                    Key::Wait.value(&row),
                )
            };
            rows.into_iter().map(shown).collect::<Vec<_>>()
        };
        let row = |name: &str, number, tasks, ended, wait| {
            (name.to_string(), number, tasks, ended, Some(wait))
        };
        assert_eq!(fold(By::Name), [row("w", None, 2, false, 11), row("x", None, 1, false, 1)]);
        let processes = [row("P2", Some(20), 2, false, 7), row("P1", Some(10), 1, true, 5)];
        assert_eq!(fold(By::Process), processes);
        assert_eq!(fold(By::Cgroup), [row("/User.slice", None, 3, false, 12)]);
        let [mut other, mut gone] = [task(OTHER, 0, 1, None), task("w", 10, 2, None)];
        (other.task.cgroup, gone.task.cgroup) = (None, None);
        let by_cgroup = Order { by: By::Cgroup, ..order() };
        assert_eq!(names(&[other, gone], &by_cgroup), ["(unknown)", OTHER]);
    }
}
