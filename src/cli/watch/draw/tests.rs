//! Tests of the drawing: what stands where, at which size, and that names are data.

use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Cell;
use ratatui_core::terminal::Terminal;

use super::*;
use crate::cli::watch::lines::percent;
use crate::cli::watch::row::Key;
use crate::cli::watch::state::Cost;
use crate::cli::watch::testing::{key, state, task};
use crate::model::{CpuScore, PairKind, PairScore, TaskScore};
use crate::probe::sched::Counted;

const PLAIN: Palette = Palette { color: false };

fn busy_machine() -> State {
    let mut state = state();
    for busy_ms in [100, 900] {
        let cpu = |cpu| CpuScore {
            cpu,
            busy_ns: Some((busy_ms + u64::from(cpu)) * 1_000_000),
            switches: Some(1000),
            lengths: Some(vec![5, 40, 50, 5]),
            ..CpuScore::default()
        };
        let some = |name: &str, tid, wait_ms: u64| TaskScore {
            run_ns: Some(300_000_000),
            voluntary: Some(120),
            involuntary: Some(34),
            cgroup: Some("/system.slice".to_string()),
            ..task(name, tid, wait_ms * 1_000_000)
        };
        let mut tasks: Vec<TaskScore> =
            (1..=20).map(|n| some(&format!("worker-{n}"), 1000 + n, n as u64)).collect();
        tasks.push(TaskScore { ended: true, ..some("\u{1b}[31mred", 4194304, 400) });
        let pair = |by: &str, name: &str, lost_ms: u64| PairScore {
            kind: PairKind::Delayed,
            by: by.to_string(),
            name: name.to_string(),
            count: 34,
            lost_ns: Some(lost_ms * 1_000_000),
        };
        let pairs =
            Some(vec![pair("worker-1", "\u{1b}[31mred", 40), pair("kworker/0:1", "worker-2", 3)]);
        let cpus = vec![cpu(0), cpu(1)];
        state.add(Counted { wall_ns: 1_000_000_000, tasks, cpus, pairs, ..Counted::default() });
    }
    state.cost = Cost { own: Some(0.0031), programs: Some(0.0005) };
    state
}

fn drawn(state: &mut State, columns: u16, lines: u16, palette: Palette) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a terminal");
    let draw = |frame: &mut Frame| {
        state.page = page(frame.area());
        draw(frame, state, palette);
    };
    terminal.draw(draw).expect("a frame");
    terminal
}

fn text(state: &mut State, columns: u16, lines: u16) -> String {
    let terminal = drawn(state, columns, lines, PLAIN);
    let cells = terminal.backend().buffer();
    let line = |y| (0..columns).map(|x| cells[(x, y)].symbol()).collect::<String>();
    (0..lines).map(|y| line(y).trim_end().to_string() + "\n").collect()
}

#[test]
fn at_80_by_24_everything_has_its_place() {
    insta::assert_snapshot!(text(&mut busy_machine(), 80, 24), @r"
    schedlab watch the whole machine                                            0:02
    source bpf, nothing lost             cost 0.31 % of a CPU + 0.05 % in the kernel
    CPUs: busy, waiting tasks                  21 waits, last 1.00s
    LLC 0, CPUs 0-1                            p50 11.5ms, p99 400ms, max 400ms
      0       ▁█  90 %       ▅▅  0.6            512us ███▊                       2
      1       ▁█  90 %       ▅▅  0.6              2ms ███████████                6
                                                  8ms ██████████████████████    12
                                                 32ms                            0
                                                128ms █▉                         1

    who ran while whom waited: for, preempted
    worker-1           > \u{1b}[31mred       40.0ms     34x
    kworker/0:1        > worker-2            3.00ms     34x

    tasks 1-7 of 21, last 1.00s, per second
         tid name           wait%v  waits     p99     max  run% switch preempt moves
    4194304x \u{1b}[31mred    40.0      1   400ms   400ms  30.0    154      34     -
        1020 worker-20         2.0      1  20.0ms  20.0ms  30.0    154      34     -
        1019 worker-19         1.9      1  19.0ms  19.0ms  30.0    154      34     -
        1018 worker-18         1.8      1  18.0ms  18.0ms  30.0    154      34     -
        1017 worker-17         1.7      1  17.0ms  17.0ms  30.0    154      34     -
        1016 worker-16         1.6      1  16.0ms  16.0ms  30.0    154      34     -
        1015 worker-15         1.5      1  15.0ms  15.0ms  30.0    154      34     -
    q quit  space pause  / filter  s sort  r turn  b fold  a all  t trace  ? help
    ");
}

#[test]
fn a_wide_terminal_has_pairs_in_a_column_and_says_where_tasks_belong() {
    insta::assert_snapshot!(text(&mut busy_machine(), 140, 30), @r"
    schedlab watch the whole machine                                                                                                        0:02
    source bpf, nothing lost                                                                         cost 0.31 % of a CPU + 0.05 % in the kernel
    CPUs: busy, waiting tasks                               21 waits, last 1.00s                      who ran while whom waited: for, preempted
    LLC 0, CPUs 0-1                                         p50 11.5ms, p99 400ms, max 400ms          worker-1    > \u{1b}[31m…  40.0ms     34x
      0       ▁█  90 %       ▅▅  0.6                         512us ████▌                           2  kworker/0:1 > worker-2     3.00ms     34x
      1       ▁█  90 %       ▅▅  0.6                           2ms █████████████▌                  6
                                                               8ms ███████████████████████████    12
                                                              32ms                                 0
                                                             128ms ██▎                             1



    tasks 1-15 of 21, last 1.00s, per second
         tid name           wait%v  waits     p99     max  run% switch preempt moves wakeups
    4194304x \u{1b}[31mred    40.0      1   400ms   400ms  30.0    154      34     -       -  /system.slice
        1020 worker-20         2.0      1  20.0ms  20.0ms  30.0    154      34     -       -  /system.slice
        1019 worker-19         1.9      1  19.0ms  19.0ms  30.0    154      34     -       -  /system.slice
        1018 worker-18         1.8      1  18.0ms  18.0ms  30.0    154      34     -       -  /system.slice
        1017 worker-17         1.7      1  17.0ms  17.0ms  30.0    154      34     -       -  /system.slice
        1016 worker-16         1.6      1  16.0ms  16.0ms  30.0    154      34     -       -  /system.slice
        1015 worker-15         1.5      1  15.0ms  15.0ms  30.0    154      34     -       -  /system.slice
        1014 worker-14         1.4      1  14.0ms  14.0ms  30.0    154      34     -       -  /system.slice
        1013 worker-13         1.3      1  13.0ms  13.0ms  30.0    154      34     -       -  /system.slice
        1012 worker-12         1.2      1  12.0ms  12.0ms  30.0    154      34     -       -  /system.slice
        1011 worker-11         1.1      1  11.0ms  11.0ms  30.0    154      34     -       -  /system.slice
        1010 worker-10         1.0      1  10.0ms  10.0ms  30.0    154      34     -       -  /system.slice
        1009 worker-9          0.9      1  9.00ms  9.00ms  30.0    154      34     -       -  /system.slice
        1008 worker-8          0.8      1  8.00ms  8.00ms  30.0    154      34     -       -  /system.slice
        1007 worker-7          0.7      1  7.00ms  7.00ms  30.0    154      34     -       -  /system.slice
    q quit  space pause  / filter  s sort  r turn  b fold  a all  t trace  ? help
    ");
}

#[test]
fn before_the_first_reading_the_view_is_there() {
    let mut state = State::new(state().about);
    let shown = text(&mut state, 80, 24);
    assert!(shown.contains("source: opening") && shown.contains("q quit"), "{shown}");
}

#[test]
fn nothing_is_said_by_colour_alone_and_no_color_has_none() {
    let mut state = busy_machine();
    state.key(key(' '));
    let plain = drawn(&mut state, 80, 24, PLAIN);
    let colored = drawn(&mut state, 80, 24, Palette { color: true });
    let cells = |terminal: &Terminal<TestBackend>| terminal.backend().buffer().content.clone();
    assert!(cells(&plain).iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(cells(&colored).iter().any(|cell| cell.fg != Color::Reset));
    let texts = |terminal| cells(terminal).iter().map(|cell| cell.symbol().to_string()).collect();
    let (plain, colored): (String, String) = (texts(&plain), texts(&colored));
    assert_eq!(plain, colored);
    assert!(plain.contains("PAUSED"), "{plain}");
}

#[test]
fn names_are_data() {
    let mut state = busy_machine();
    state.about.what = "pid \u{1b}]0;x\u{7}".to_string();
    for columns in [78, 80, 200] {
        let shown = text(&mut state, columns, 24);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown}");
        assert!(shown.contains("\\u{1b}[31mred"), "{shown}");
    }
}

#[test]
fn what_is_too_small_says_so_and_nothing_panics_at_any_size() {
    let mut state = busy_machine();
    let shown = text(&mut state, 40, 10);
    assert!(shown.contains("40x10 is too small: 78x16 is the least."), "{shown}");
    for help in [false, true] {
        state.help = help;
        for columns in [1, 2, 10, 77, 78, 79, 119, 120, 300] {
            for lines in [1, 2, 15, 16, 17, 25, 90] {
                drawn(&mut state, columns, lines, PLAIN);
            }
        }
    }
}

#[test]
fn a_key_that_has_no_column_gets_one() {
    let mut state = busy_machine();
    assert!(!text(&mut state, 80, 24).contains("wakeups"));
    state.order.key = Key::Wakeups;
    assert!(text(&mut state, 80, 24).contains("wakeupsv"));
}

#[test]
fn a_source_that_sees_less_says_so() {
    let mut state = state();
    let waits = Some(crate::model::Times { count: 4, total_ns: 4000, ..Default::default() });
    let task = TaskScore { wait: waits, ..task("x", 1, 1) };
    state.add(Counted { wall_ns: 1_000_000_000, tasks: vec![task], ..Counted::default() });
    let shown = text(&mut state, 80, 24);
    assert!(shown.contains("mean 1.00us; no histogram"), "{shown}");
    assert!(shown.contains("not seen by this source"), "{shown}");
}

#[test]
fn the_help_names_every_key_and_what_was_lost() {
    let mut state = busy_machine();
    state.add(Counted { lost: vec!["names: 3\u{7}".to_string()], ..Counted::default() });
    state.help = true;
    insta::assert_snapshot!(text(&mut state, 80, 24), @r"
    schedlab watch the whole machine                                            0:02
    so┌ schedlab watch: any key closes this ─────────────────────────────────────┐el
    CP│q, Ctrl-C  ends; a command that was started with the view is asked to end │
    LL│space      pauses what is shown; counting goes on                         │
      │/          filters by name, process, cgroup, number                       │
      │s or > <   orders by the next column, the one before                      │
      │r          turns the order round                                          │
      │b          folds: by task, process, name, cgroup                          │
      │a          all since the start, or the last period                        │
      │t          writes a trace of the last 5.00s for the Perfetto UI           │
    wh│arrows, j k, PgUp PgDn, Home End: scroll                                  │
    no│wait%      time spent waiting for a CPU, of the period; run%: on a CPU    │
      │waits      how often it got a CPU; p99, max: of one wait, until it got one│
      │switch     context switches; preempt: those in which it lost the CPU      │
    ta│x          ended; (3)x: three of that name. CPUs: waiting tasks on average│
      │lost: names: 3\u{7}                                                       │es
    no│                                                                          │
      │                                                                          │
      │                                                                          │
      │                                                                          │
      │                                                                          │
      │                                                                          │
      └──────────────────────────────────────────────────────────────────────────┘
    q quit  space pause  / filter  s sort  r turn  b fold  a all  t trace  ? help
    ");
    // The view's colours do not shine through.
    let terminal = drawn(&mut state, 80, 24, Palette { color: true });
    let buffer = terminal.backend().buffer();
    let inside = (2..23).flat_map(|y| (3..77).map(move |x| (x, y)));
    assert!(inside.into_iter().all(|at| buffer[at].style() == Cell::EMPTY.style()));
}

#[test]
fn the_summary_is_one_line_about_everything() {
    let expected = "watched the whole machine for 2.0 s: 42 waits for a CPU, p50 11.0ms, p99 400ms, longest 400ms";
    assert_eq!(summary(&busy_machine()), expected);
}

#[test]
fn numbers_have_at_most_six_columns() {
    let cases = [
        (0, "0"),
        (99_999, "99999"),
        (100_000, "100k"),
        (9_999_999, "9999k"),
        (10_000_000, "10M"),
        (u64::MAX / 1_000_000_000, "18G"),
    ];
    for (number, expected) in cases {
        assert_eq!(count(number), expected);
    }
    assert_eq!(percent(0.9994), "99.9");
    assert_eq!(percent(0.9996), "100");
}
