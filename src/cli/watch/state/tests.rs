//! Tests of the state: readings and keys in, rows out.

use super::*;
use crate::cli::watch::data::{CpuPoint, HISTORY};
use crate::cli::watch::testing::{key, state, task};
use crate::model::{Bucket, CpuScore, PairKind, TaskScore, Times};

fn counted(tasks: Vec<TaskScore>) -> Counted {
    Counted { wall_ns: 1_000_000_000, tasks, ..Counted::default() }
}

fn names(state: &State) -> Vec<&str> {
    state.rows.iter().map(|row| row.task.name.as_str()).collect()
}

fn press(state: &mut State, keys: &str) {
    for c in keys.chars() {
        assert_eq!(state.key(key(c)), None, "{c}");
    }
}

#[test]
fn the_last_period_has_what_did_something_and_all_has_everything() {
    let mut state = state();
    state.add(counted(vec![task("a", 1, 5), task("b", 2, 9)]));
    assert_eq!(names(&state), ["b", "a"]);
    state.add(counted(vec![task("a", 1, 7)]));
    assert_eq!(names(&state), ["a"]);
    press(&mut state, "a");
    assert_eq!(names(&state), ["a", "b"]);
    assert_eq!(Key::Wait.value(&state.rows[0]), Some(12));
    assert_eq!(state.sheet().wall_ns, 2_000_000_000);
    assert_eq!(state.sheet().waits.as_ref().map(|waits| waits.count), Some(3));
}

#[test]
fn ended_tasks_share_a_row_with_those_of_their_name() {
    let mut state = state();
    state.add(counted(vec![task("make", 1, 5), task("cc", 2, 1)]));
    let ended = |tid, wait_ns| TaskScore { ended: true, ..task("cc", tid, wait_ns) };
    state.add(counted(vec![ended(2, 2), ended(3, 4)]));
    assert!(state.rows.iter().all(|row| row.task.ended), "they are shown once more");
    // The number is used again.
    state.add(counted(vec![task("sh", 2, 1)]));
    press(&mut state, "a");
    let rows: Vec<_> = state.rows.iter().map(|row| (row.task.name.as_str(), row.tasks)).collect();
    assert_eq!(rows, [("cc", 2), ("make", 1), ("sh", 1)]);
    assert_eq!(Key::Wait.value(&state.rows[0]), Some(7));
}

#[test]
fn a_paused_view_stands_still_and_counting_goes_on() {
    let mut state = state();
    state.add(counted(vec![task("a", 1, 5)]));
    press(&mut state, " ");
    state.add(counted(vec![task("b", 2, 9)]));
    assert_eq!((names(&state), state.shown().readings), (vec!["a"], 1));
    press(&mut state, "a");
    assert_eq!(names(&state), ["a"], "of when it was paused");
    press(&mut state, " ");
    assert_eq!((names(&state), state.shown().readings), (vec!["b", "a"], 2));
}

#[test]
fn a_filter_is_typed_kept_and_removed() {
    let mut state = state();
    state.add(counted(vec![task("web", 1, 5), task("quit", 2, 9)]));
    press(&mut state, "/");
    press(&mut state, "WQ");
    assert!(state.typing && names(&state).is_empty());
    state.key(Press::Backspace);
    state.key(Press::Enter);
    assert_eq!((state.typing, names(&state)), (false, vec!["web"]));
    state.key(Press::Esc);
    assert_eq!(names(&state), ["quit", "web"]);
    let control = Press::Control('q');
    assert_eq!(state.key(control), None);
    assert_eq!(state.key(key('q')), Some(Action::Quit));
    assert_eq!(state.key(key('t')), Some(Action::Trace));
}

#[test]
fn scrolling_stays_among_the_rows() {
    let mut state = state();
    state.page = 3;
    state.add(counted((1..=8).map(|tid| task("x", tid, tid as u64)).collect()));
    let mut at = |code| {
        state.key(code);
        state.top
    };
    assert_eq!(at(Press::Up), 0);
    assert_eq!(at(Press::Down), 1);
    assert_eq!(at(Press::PageDown), 4);
    assert_eq!(at(Press::PageDown), 5);
    assert_eq!(at(Press::PageUp), 2);
    assert_eq!(at(Press::End), 5);
    assert_eq!(at(Press::Home), 0);
    at(Press::End);
    state.add(counted(vec![task("x", 1, 1)]));
    assert_eq!(state.top, 0, "rows that are gone are not scrolled to");
}

#[test]
fn a_cgroup_has_those_below_it_and_no_others() {
    let of =
        |cgroup: Option<&str>| TaskScore { cgroup: cgroup.map(str::to_string), ..task("x", 1, 1) };
    let scope = Scope::Cgroup("/user.slice".to_string());
    let cases = [
        (Some("/user.slice"), true),
        (Some("/user.slice/a/b"), true),
        (Some("/user.slices"), false),
        (Some("/"), false),
        (None, false),
    ];
    for (cgroup, expected) in cases {
        assert_eq!(scope.has(&of(cgroup)), expected, "{cgroup:?}");
    }
    assert!(Scope::Cgroup("/".to_string()).has(&of(Some("/a"))));
    assert!(!Scope::Watched.has(&of(None)));
}

#[test]
fn pairs_are_summed_since_the_start_most_lost_first() {
    let mut state = state();
    let pair = |kind, by: &str, name: &str, lost_ns| PairScore {
        kind,
        by: by.to_string(),
        name: name.to_string(),
        count: 2,
        lost_ns: Some(lost_ns),
    };
    let delayed = PairKind::Delayed;
    let all = [
        pair(delayed, "(unwatched)", "(unwatched)", 99),
        pair(delayed, "a", "b", 5),
        pair(delayed, "c", "b", 7),
        pair(PairKind::Woke, "c", "b", 100),
    ];
    state.add(Counted { pairs: Some(all.to_vec()), ..counted(vec![task("b", 1, 1)]) });
    state.add(Counted { pairs: Some(vec![all[1].clone()]), ..counted(Vec::new()) });
    let shown = |state: &State| {
        let pairs = state.pairs.iter().flatten();
        pairs.map(|pair| (pair.by.clone(), pair.lost_ns.unwrap())).collect::<Vec<_>>()
    };
    let row = |by: &str, lost_ns| (by.to_string(), lost_ns);
    assert_eq!(shown(&state), [row("a", 5)]);
    press(&mut state, "a");
    assert_eq!(shown(&state), [row("a", 10), row("c", 7), row("(unwatched)", 99)]);
}

#[test]
fn cpus_have_their_share_and_the_tasks_that_waited() {
    let mut state = state();
    let lengths = Some(vec![10, 50, 20, 20]);
    let cpu = CpuScore { cpu: 3, busy_ns: Some(250_000_000), lengths, ..CpuScore::default() };
    let unknown = CpuScore { cpu: 4, ..CpuScore::default() };
    state.add(Counted { cpus: vec![cpu, unknown], ..counted(Vec::new()) });
    let point = |cpu| *state.shown().cpus[&cpu].back().expect("a point");
    assert_eq!(point(3), CpuPoint { busy: Some(0.25), waiting: Some(0.6) });
    assert_eq!(point(4), CpuPoint::default());
    let mut many = state.clone();
    for _ in 0..2 * HISTORY {
        let cpu = CpuScore { cpu: 3, ..CpuScore::default() };
        many.add(Counted { cpus: vec![cpu], ..counted(Vec::new()) });
    }
    assert_eq!(many.shown().cpus[&3].len(), HISTORY);
}

#[test]
fn a_task_that_still_waits_shows_how_long() {
    let mut state = state();
    let bucket = Bucket { low_ns: 1024, high_ns: 2048, count: 1 };
    let wait = Times { count: 1, total_ns: 1500, max_ns: Some(1500), buckets: vec![bucket] };
    let starved = TaskScore { wait: Some(wait), waiting_ns: Some(9_000), ..task("s", 1, 0) };
    state.add(counted(vec![starved]));
    assert_eq!(Key::Max.value(&state.rows[0]), Some(9_000));
}

#[test]
fn a_wait_counts_in_each_period_that_it_lasts_in() {
    let mut state = state();
    let waits = |waiting_ns| TaskScore { waiting_ns, ..task("s", 1, 0) };
    let waited = |state: &State| Key::Wait.value(&state.rows[0]);
    state.add(counted(vec![waits(Some(400))]));
    assert_eq!(waited(&state), Some(400));
    state.add(counted(vec![waits(Some(1_400))]));
    assert_eq!(waited(&state), Some(1_000), "not what it waited before");
    let bucket = Bucket { low_ns: 1024, high_ns: 2048, count: 1 };
    let wait = Times { count: 1, total_ns: 1_500, max_ns: Some(1_500), buckets: vec![bucket] };
    state.add(counted(vec![TaskScore { wait: Some(wait), ..waits(None) }]));
    assert_eq!(waited(&state), Some(100), "it ended in this period");
}
