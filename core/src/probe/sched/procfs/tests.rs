//! Pictures of laid-out /proc trees, and one of this machine.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::*;
use crate::model::{Migrations, Times};
use crate::sys::testing::Tree;

const OWN: i32 = 900;

fn stat(pid: i32, name: &str, parent: i32, threads: u32, started: u64, state: char) -> String {
    format!(
        "{pid} ({name}) {state} {parent} 1 1 0 -1 4194304 1 2 3 4 15 5 70 7 20 0 {threads} 0 \
         {started} 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0"
    )
}

/// A process of one thread.
fn put(tree: &Tree, pid: i32, name: &str, parent: i32, started: u64) {
    let text = stat(pid, name, parent, 1, started, 'S');
    tree.write(&format!("/proc/{pid}/stat"), &text);
    tree.write(&format!("/proc/{pid}/cgroup"), "3:cpu:/old\n0::/a/b\n");
    did(tree, pid, pid, [0; 5]);
}

/// Run time, wait, timeslices, voluntary and involuntary switches.
fn did(tree: &Tree, pid: i32, tid: i32, [run, wait, slices, nvcsw, nivcsw]: [u64; 5]) {
    let folder = format!("/proc/{pid}/task/{tid}");
    tree.write(&format!("{folder}/schedstat"), &format!("{run} {wait} {slices}\n"));
    let switches = format!("voluntary_ctxt_switches:\t{nvcsw}\nnonvoluntary_ctxt_switches:\t");
    tree.write(&format!("{folder}/status"), &format!("{switches}{nivcsw}\n"));
}

fn gone(tree: &Tree, pid: i32) {
    std::fs::remove_dir_all(tree.host().path(format!("/proc/{pid}"))).unwrap();
}

fn tree() -> Tree {
    let tree = Tree::with_files(&[("/proc/stat", "cpu0 1 1 1 9 1 1 1 1\nprocesses 100\n")]);
    put(&tree, 1, "init", 0, 1);
    put(&tree, OWN, "schedlab", 1, 50);
    did(&tree, OWN, OWN, [90, 0, 1, 1, 1]);
    tree
}

fn session(tree: &Tree) -> Procfs {
    Procfs::new(tree.host(), OWN)
}

fn find_task(counted: &Counted, tid: i32) -> Option<&TaskScore> {
    counted.tasks.iter().find(|task| task.tid == tid)
}

fn tids(counted: &Counted) -> Vec<(i32, bool)> {
    counted.tasks.iter().map(|task| (task.tid, task.watched)).collect()
}

#[test]
fn what_was_done_before_is_taken_off_and_what_is_born_counts_from_zero() {
    let tree = tree();
    put(&tree, 20, "old", 1, 60);
    did(&tree, 20, 20, [1000, 500, 10, 8, 3]);
    let mut session = session(&tree);
    session.watch(20).unwrap();
    session.begin().unwrap();
    did(&tree, 20, 20, [1700, 600, 14, 10, 4]);
    put(&tree, 30, "new\n\u{1b}[31m", 20, 70);
    did(&tree, 30, 30, [40, 30, 2, 1, 0]);
    tree.write("/proc/stat", "cpu0 3 1 1 9 1 1 1 1\nprocesses 105\n");
    let counted = session.end().unwrap();
    let old = find_task(&counted, 20).unwrap();
    let wait = Times { count: 4, total_ns: 100, ..Times::default() };
    assert_eq!((old.run_ns, &old.wait), (Some(700), &Some(wait)));
    assert_eq!((old.voluntary, old.involuntary), (Some(2), Some(1)));
    assert_eq!((old.migrations, old.wakeups, &old.slice, &old.cpus), (None, None, &None, &None));
    assert_eq!((old.cgroup.as_deref(), old.ended), (Some("/a/b"), false));
    let new = find_task(&counted, 30).unwrap();
    assert_eq!((new.run_ns, new.voluntary, new.involuntary), (Some(40), Some(1), Some(0)));
    assert_eq!((new.name.as_str(), new.process.as_str()), ("new\n\u{1b}[31m", "new\n\u{1b}[31m"));
    assert_eq!(tids(&counted), [(20, true), (30, true)], "idle ones are left out");
    const TWO_TICKS_NS: u64 = 20_000_000;
    let busy_ns = Some(counted.wall_ns.min(TWO_TICKS_NS));
    assert_eq!(counted.cpus[0].busy_ns, busy_ns, "two ticks, but no more than passed");
    assert_eq!((counted.pairs, counted.cpus[0].switches), (None, None));
    assert!(counted.lost[0].contains("4 of 5 tasks"), "{:?}", counted.lost);
}

#[test]
fn a_cpu_is_not_busy_for_longer_than_the_time_that_passed() {
    let times = |task_ns| CpuTimes { task_ns, ..CpuTimes::default() };
    let cases = [
        (0, 900_000_000, Some(900_000_000)),
        (0, 1_010_000_000, Some(1_000_000_000)),
        (0, 1_900_000_000, None),
        (5, 3, None),
    ];
    for (from, to, expected) in cases {
        let (from, to) = (times(from), times(to));
        assert_eq!(busy_ns(&from, &to, 1_000_000_000), expected, "{from:?} {to:?}");
        let lost = twice(&[(3, &from, &to)], 1_000_000_000);
        let is_twice = to.task_ns == 1_900_000_000;
        assert_eq!(lost.is_some_and(|lost| lost.contains("CPUs 3")), is_twice, "{to:?}");
    }
}

#[test]
fn what_descends_is_watched_and_what_does_not_has_its_run_time() {
    let tree = tree();
    put(&tree, 20, "early", OWN, 60);
    put(&tree, 21, "other", 1, 60);
    let mut session = session(&tree);
    session.watch_children().unwrap();
    session.begin().unwrap();
    // One picture shows a child, and its child with a lower number in the same clock tick.
    put(&tree, 30, "child", OWN, 70);
    put(&tree, 25, "grandchild", 30, 70);
    session.take(Picture::Between).unwrap();
    // Its parent ends, and init adopts it.
    gone(&tree, 30);
    put(&tree, 25, "grandchild", 1, 70);
    put(&tree, 40, "other", 21, 80);
    [20, 21, 25, 40].iter().for_each(|pid| did(&tree, *pid, *pid, [7, 0, 1, 1, 0]));
    put(&tree, 26, "grand-grandchild", 25, 90);
    did(&tree, 26, 26, [7, 0, 1, 1, 0]);
    let counted = session.end().unwrap();
    let expected = [(20, false), (21, false), (25, true), (26, true), (40, false)];
    assert_eq!(tids(&counted), expected);
    let other = find_task(&counted, 40).unwrap();
    assert_eq!((other.run_ns, other.voluntary), (Some(7), None), "not read is not zero");
}

#[test]
fn a_task_that_ends_keeps_what_it_was_last_seen_with() {
    let tree = tree();
    put(&tree, 20, "zombie", 1, 60);
    put(&tree, 30, "cut", 1, 60);
    put(&tree, 40, "other", 1, 60);
    let mut session = session(&tree);
    session.watch(20).unwrap();
    session.watch(30).unwrap();
    session.begin().unwrap();
    did(&tree, 20, 20, [5, 0, 1, 1, 0]);
    did(&tree, 30, 30, [6, 2, 3, 3, 0]);
    session.take(Picture::Between).unwrap();
    gone(&tree, 30);
    gone(&tree, 40);
    did(&tree, 20, 20, [9, 0, 2, 2, 0]);
    tree.write("/proc/20/stat", &stat(20, "zombie", 1, 1, 60, 'Z'));
    let counted = session.end().unwrap();
    let seen = |tid| {
        let task = find_task(&counted, tid).unwrap();
        (task.run_ns, task.voluntary, task.ended, task.cgroup.as_deref())
    };
    assert_eq!(seen(20), (Some(9), Some(2), true, Some("/a/b")));
    assert_eq!(seen(30), (Some(6), Some(3), true, Some("/a/b")));
    assert!(
        counted.lost[1].starts_with("tasks that ended") && counted.lost[1].ends_with(": 1"),
        "{:?}",
        counted.lost
    );
    assert!(counted.lost[2].ends_with("ended meanwhile: 1"), "{:?}", counted.lost);
}

#[test]
fn a_number_that_is_used_again_is_another_task() {
    let tree = tree();
    put(&tree, 20, "first", 1, 60);
    did(&tree, 20, 20, [1000, 0, 10, 10, 0]);
    let mut session = session(&tree);
    session.watch(20).unwrap();
    session.begin().unwrap();
    did(&tree, 20, 20, [1100, 0, 11, 11, 0]);
    session.take(Picture::Between).unwrap();
    put(&tree, 20, "second", 1, 99);
    did(&tree, 20, 20, [2000, 0, 20, 20, 0]);
    session.take(Picture::Between).unwrap();
    let counted = session.end().unwrap();
    let seen: Vec<(&str, bool, Option<u64>)> =
        counted.tasks.iter().map(|task| (task.name.as_str(), task.watched, task.run_ns)).collect();
    assert_eq!(seen, [("first", true, Some(100)), ("second", false, Some(2000))]);
}

#[test]
fn threads_come_and_go_and_their_numbers_are_used_again() {
    let tree = tree();
    let thread = |tid: i32, started: u64, run: u64| {
        let text = stat(tid, &format!("t{started}"), 1, 3, started, 'S');
        tree.write(&format!("/proc/20/task/{tid}/stat"), &text);
        did(&tree, 20, tid, [run, 0, run, run, 0]);
    };
    put(&tree, 20, "main", 1, 60);
    tree.write("/proc/20/stat", &stat(20, "main", 1, 3, 60, 'S'));
    thread(21, 60, 500);
    thread(22, 60, 500);
    let mut session = session(&tree);
    session.watch(20).unwrap();
    session.begin().unwrap();
    thread(21, 60, 510);
    session.take(Picture::Between).unwrap();
    thread(21, 77, 3);
    std::fs::remove_dir_all(tree.host().path("/proc/20/task/22")).unwrap();
    thread(23, 78, 4);
    let counted = session.end().unwrap();
    let seen: Vec<(i32, &str, Option<u64>, bool)> = counted
        .tasks
        .iter()
        .map(|task| (task.tid, task.name.as_str(), task.voluntary, task.ended))
        .collect();
    let expected =
        [(21, "t60", Some(10), true), (21, "t77", Some(3), false), (23, "t78", Some(4), false)];
    assert_eq!(seen, expected);
    assert!(counted.tasks.iter().all(|task| task.process == "main" && task.watched));
}

#[test]
fn without_schedstats_the_wait_is_unknown_and_with_nothing_asked_everything_is_read() {
    let tree = tree();
    did(&tree, OWN, OWN, [0, 0, 0, 9, 9]);
    put(&tree, 20, "a", 1, 60);
    put(&tree, 21, "b", 1, 60);
    let sched = |run, switches| {
        let run = format!("se.sum_exec_runtime : 0.0000{run}\nse.nr_migrations : 3\n");
        let switches = format!("nr_voluntary_switches : {switches}\nnr_involuntary_switches : 1\n");
        tree.write("/proc/20/task/20/sched", &format!("{run}{switches}"));
    };
    let mut session = session(&tree);
    sched(50, 4);
    session.begin().unwrap();
    sched(90, 6);
    did(&tree, 21, 21, [0, 0, 0, 3, 0]);
    session.take(Picture::Between).unwrap();
    gone(&tree, 20);
    let counted = session.end().unwrap();
    let task = find_task(&counted, 20).unwrap();
    assert_eq!((task.run_ns, task.voluntary, task.involuntary), (Some(40), Some(2), Some(0)));
    assert_eq!((task.wait.as_ref(), task.watched), (None, false));
    assert_eq!(task.migrations, Some(Migrations { total: 0, by_distance: None }));
    let task = find_task(&counted, 21).unwrap();
    assert_eq!((task.run_ns, task.voluntary, &task.wait), (None, Some(3), &None));
}

#[test]
fn a_process_that_ran_before_it_was_asked_for_counts_from_then() {
    let tree = tree();
    put(&tree, 20, "late", 1, 60);
    did(&tree, 20, 20, [100, 0, 5, 5, 5]);
    let mut session = session(&tree);
    session.watch_children().unwrap();
    session.begin().unwrap();
    did(&tree, 20, 20, [200, 0, 9, 9, 9]);
    session.watch(20).unwrap();
    did(&tree, 20, 20, [250, 0, 10, 10, 9]);
    let counted = session.end().unwrap();
    let task = find_task(&counted, 20).unwrap();
    assert_eq!((task.watched, task.voluntary, task.involuntary), (true, Some(1), Some(0)));
}

#[test]
fn hidden_processes_and_a_proc_that_is_not_there_are_reported() {
    let tree = tree();
    gone(&tree, 1);
    let mut session = session(&tree);
    session.begin().unwrap();
    assert!(session.end().unwrap().lost[1].contains("hidepid"));
    let empty = Tree::with_files::<&str>(&[]);
    let error = Procfs::new(empty.host(), OWN).begin().unwrap_err();
    assert!(error.to_string().ends_with("/proc: ENOENT, not there"), "{error}");
}

/// A `cat` that echoes a byte blocks before each: 50 times at least, once for the end of file.
#[test]
fn a_real_child_has_the_switches_that_its_own_status_says() {
    let mut session = open(&SessionConfig::default()).unwrap();
    session.watch_children().unwrap();
    session.begin().unwrap();
    let mut cat = Command::new("cat");
    let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id() as i32;
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let host = Host::default();
    let is_asleep = || host.read(format!("/proc/{pid}/stat")).unwrap().contains(") S ");
    for _ in 0..50 {
        to.write_all(b"x").unwrap();
        from.read_exact(&mut [0]).unwrap();
        while !is_asleep() {
            std::thread::yield_now();
        }
    }
    let counted = session.end().unwrap();
    let status = host.read(format!("/proc/{pid}/status")).unwrap();
    let switches = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    drop(to);
    child.wait().unwrap();
    let task = find_task(&counted, pid).unwrap();
    assert!(task.watched && !task.ended && task.name == "cat", "{task:?}");
    assert!(task.voluntary >= Some(50), "{task:?}");
    assert_eq!(task.voluntary, Some(switches("voluntary_ctxt_switches:")));
    assert_eq!(task.involuntary, Some(switches("nonvoluntary_ctxt_switches:")));
    assert!(counted.tasks.iter().all(|task| task.watched == (task.pid == pid)), "{counted:?}");
}
