//! The table of synthetic records, as a reader of a mail sees it.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::model::{DisturbanceKind, Event, PlanEnd, Reading};
use crate::report::testing::{self, PlanBuilder, RunBuilder};

fn table(plan: PlanBuilder, options: Options) -> String {
    testing::render(&Schbench, &[plan.record()], options)
}

/// The blocks, without the footer.
fn blocks(plan: PlanBuilder) -> String {
    let shown = table(plan, Options::default());
    let end = shown.find("\nrounds  ").unwrap_or_else(|| panic!("no footer in\n{shown}"));
    shown[..end].trim_end().to_string()
}

/// A plan of one work for each number of operations, with and without locking.
fn plan(rounds: u32, variants: &[&str], operations: &[i64]) -> PlanBuilder {
    let mut plan = PlanBuilder::without_works(rounds, variants);
    for (at, count) in operations.iter().enumerate() {
        for no_locking in [false, true] {
            let (work, count_shown) = (2 * at + usize::from(no_locking), count.to_string());
            let axes = [
                ("operations", &*count_shown),
                ("no-locking", if no_locking { "true" } else { "false" }),
            ];
            plan = plan
                .work("schbench", &axes, &[("schbench", "schbench", false)])
                .param(work, "cache-footprint", Value::Bytes(128 << 10))
                .param(work, "operations", Value::Int(*count))
                .param(work, "no-locking", Value::Bool(no_locking));
        }
    }
    plan
}

fn values(run: RunBuilder, wakeup_us: f64, request_us: f64, rps: f64) -> RunBuilder {
    run.metric("throughput", rps)
        .metric("wakeup_p99", 1e3 * wakeup_us)
        .metric("request_p99", 1e3 * request_us)
        .metric("rps_p50", rps)
}

/// One work, all variants with the same values in each round.
fn even(rounds: u32, variants: &[&str]) -> PlanBuilder {
    let mut plan = PlanBuilder::without_works(rounds, variants).work(
        "schbench",
        &[],
        &[("schbench", "schbench", false)],
    );
    for round in 0..rounds {
        for variant in variants {
            plan.done(round, variant, |run| values(run, 755.0, 25_632.0, 4_280.0));
        }
    }
    plan
}

#[test]
fn the_table_of_the_mail_that_announced_schbench() {
    let variants = ["EEVDF", "Linus"];
    let mut plan = plan(1, &variants, &[1, 10, 20]);
    let mail = [
        [(355.0, 2_620.0, 37_696.0), (555.0, 1_906.0, 41_664.0)],
        [(295.0, 1_890.0, 37_824.0), (545.0, 1_758.0, 41_920.0)],
        [(755.0, 25_632.0, 4_280.0), (1_266.0, 22_304.0, 4_376.0)],
        [(823.0, 17_184.0, 4_440.0), (1_118.0, 14_192.0, 4_456.0)],
        [(901.0, 51_136.0, 2_132.0), (1_806.0, 46_016.0, 2_196.0)],
        [(905.0, 32_832.0, 2_212.0), (1_902.0, 30_496.0, 2_212.0)],
    ];
    for (work, row) in mail.iter().enumerate() {
        for (variant, (wakeup, request, rps)) in variants.iter().zip(row) {
            plan.done_in(work, 0, variant, |run| values(run, *wakeup, *request, *rps));
        }
    }
    assert_snapshot!(table(plan, Options::default()), @"
    F128 N1                   EEVDF      Linus
    Wakeup  (usec): 99.0th:     355        555
    Request (usec): 99.0th:   2,620      1,906
    RPS    (count): 50.0th:  37,696     41,664

    F128 N1 no-locking        EEVDF      Linus
    Wakeup  (usec): 99.0th:     295        545
    Request (usec): 99.0th:   1,890      1,758
    RPS    (count): 50.0th:  37,824     41,920

    F128 N10                  EEVDF      Linus
    Wakeup  (usec): 99.0th:     755      1,266
    Request (usec): 99.0th:  25,632     22,304
    RPS    (count): 50.0th:   4,280      4,376

    F128 N10 no-locking       EEVDF      Linus
    Wakeup  (usec): 99.0th:     823      1,118
    Request (usec): 99.0th:  17,184     14,192
    RPS    (count): 50.0th:   4,440      4,456

    F128 N20                  EEVDF      Linus
    Wakeup  (usec): 99.0th:     901      1,806
    Request (usec): 99.0th:  51,136     46,016
    RPS    (count): 50.0th:   2,132      2,196

    F128 N20 no-locking       EEVDF      Linus
    Wakeup  (usec): 99.0th:     905      1,902
    Request (usec): 99.0th:  32,832     30,496
    RPS    (count): 50.0th:   2,212      2,212

    rounds  1 of 1 done, each run 5s after 1s of warm-up
    kernel  Linux 6.18.5-cloud-amd64
    Values are medians over rounds and no verdicts.
    ");
}

#[test]
fn columns_make_room_for_long_names_and_what_does_not_fit_stands_below() {
    let three = ["default", "batch", "slice-100us"];
    assert_snapshot!(blocks(even(1, &three)), @"
    F256 N5                      default        batch  slice-100us
    Wakeup  (usec): 99.0th:          755          755          755
    Request (usec): 99.0th:       25,632       25,632       25,632
    RPS    (count): 50.0th:        4,280        4,280        4,280
    ");
    let six: Vec<String> =
        (1..=6).map(|at| format!("scx_bpfland-with-a-long-list-of-arguments-{at}")).collect();
    let six: Vec<&str> = six.iter().map(String::as_str).collect();
    assert_snapshot!(table(even(1, &six), Options::default()), @"
    F256 N5                  scx_bpfland-with-a-lo…#1  scx_bpfland-with-a-lo…#2
    Wakeup  (usec): 99.0th:                       755                       755
    Request (usec): 99.0th:                    25,632                    25,632
    RPS    (count): 50.0th:                     4,280                     4,280

    F256 N5                  scx_bpfland-with-a-lo…#3  scx_bpfland-with-a-lo…#4
    Wakeup  (usec): 99.0th:                       755                       755
    Request (usec): 99.0th:                    25,632                    25,632
    RPS    (count): 50.0th:                     4,280                     4,280

    F256 N5                  scx_bpfland-with-a-lo…#5  scx_bpfland-with-a-lo…#6
    Wakeup  (usec): 99.0th:                       755                       755
    Request (usec): 99.0th:                    25,632                    25,632
    RPS    (count): 50.0th:                     4,280                     4,280

    #1 scx_bpfland-with-a-long-list-of-arguments-1
    #2 scx_bpfland-with-a-long-list-of-arguments-2
    #3 scx_bpfland-with-a-long-list-of-arguments-3
    #4 scx_bpfland-with-a-long-list-of-arguments-4
    #5 scx_bpfland-with-a-long-list-of-arguments-5
    #6 scx_bpfland-with-a-long-list-of-arguments-6
    rounds  1 of 1 done, each run 5s after 1s of warm-up
    kernel  Linux 6.18.5-cloud-amd64
    Values are medians over rounds and no verdicts.
    ");
}

#[test]
fn an_ordinary_plan_with_other_workloads() {
    assert_snapshot!(table(testing::ordinary(), Options::default()), @"
    F256 N5 threads=4            default  slice-100us        batch
    Wakeup  (usec): 99.0th:        1,266          763        1,764
    Request (usec): 99.0th:       22,750       22,750       22,750
    RPS    (count): 50.0th:            ?            ?            ?
      ?  RPS of every variant: the run does not report it

    not shown: pipe, burnwait, spin (background); hint: --format text
    rounds  10 of 10 done, each run 5s after 1s of warm-up
    kernel  Linux 6.18.5-cloud-amd64
    Values are medians over rounds and no verdicts.
    ");
}

#[test]
fn a_plan_with_all_that_can_go_wrong() {
    assert_snapshot!(table(testing::troubled(), Options::default()), @"
    F256 N5 threads=4             default a  slice-50us b,c           batch
    Wakeup  (usec): 99.0th:           1,260             895               ?
    Request (usec): 99.0th:          22,639          22,750               ?
    RPS    (count): 50.0th:               ?               ?               ?

    F256 N5 threads=4                  fifo
    Wakeup  (usec): 99.0th:               -
    Request (usec): 99.0th:               -
    RPS    (count): 50.0th:               -
      ?  Wakeup of batch: no samples in the measured section
      ?  Request of batch: the run does not report it
      ?  RPS of every variant: the run does not report it
      a  at worst: 3.1 % of the measured time was stolen: default in rounds 0, 2
      b  others used 0.8 CPUs (cc1): slice-50us in round 2
      c  slice asked 50us, kernel took 100us: slice-50us in every round
      failed  batch in rounds 1, 2: worker 3 (tid 4711) died: SIGSEGV
      runs    default 4 of 4, slice-50us 3 of 4, batch 1 of 4

    skipped fifo: policy fifo: sched_setattr: EPERM, not permitted (needs
            CAP_SYS_NICE)
    not shown: spin; hint: --format text
    rounds  3 of 4 done, each run 5s after 1s of warm-up; interrupted, go on with
            `schedlab run --resume`
    kernel  Linux 6.18.5-cloud-amd64
    Values are medians over rounds and no verdicts.
    ");
}

#[test]
fn values_are_medians_over_rounds_in_whole_usec() {
    let mut plan = plan(3, &["a"], &[1]);
    for (round, (wakeup, request, rps)) in
        [(0.4, 999.4, 999.5), (1_000_000.0, 1.5, 12.0), (0.6, 1_234_567.5, 1e6)].iter().enumerate()
    {
        plan.done(round as u32, "a", |run| values(run, *wakeup, *request, *rps));
        plan.done_in(1, round as u32, "a", |run| values(run, 0.4, 1e12, *rps));
    }
    assert_snapshot!(blocks(plan), @"
    F128 N1                        a
    Wakeup  (usec): 99.0th:        1
    Request (usec): 99.0th:      999
    RPS    (count): 50.0th:    1,000

    F128 N1 no-locking             a
    Wakeup  (usec): 99.0th:        0
    Request (usec): 99.0th:  1.00e12
    RPS    (count): 50.0th:    1,000
    ");
}

#[test]
fn unknown_values_are_told_with_their_reasons() {
    let mut plan = even(2, &["default", "batch", "old"]);
    for round in 0..2 {
        plan.done(round, "batch", |run| {
            let run = run.metric("request_p99", 2e6).unknown("wakeup_p99", "no samples");
            match round {
                0 => run.unknown("rps_p50", "a run of less than a window\nhint: duration = 2s"),
                _ => run.metric("rps_p50", 17.0),
            }
        });
        plan.done(round, "old", |run| match round {
            0 => run.metric("throughput", 17.0),
            _ => run.unknown("rps_p50", "no window"),
        });
    }
    assert_snapshot!(blocks(plan), @"
    F256 N5                  default      batch        old
    Wakeup  (usec): 99.0th:      755          ?          ?
    Request (usec): 99.0th:   25,632      2,000          ?
    RPS    (count): 50.0th:    4,280         17          ?
      ?  Wakeup of batch: no samples
      ?  Wakeup, Request of old: the run does not report it
      ?  RPS of batch in round 0: a run of less than a window; hint: duration = 2s
      ?  RPS of old in round 0: the run does not report it
      ?  RPS of old in round 1: no window
    ");
    let mut one = PlanBuilder::new(1, &["default"]);
    one.done(0, "default", |run| run.metric("wakeup_p99", 5e3).metric("request_p99", 6e3));
    assert!(blocks(one).ends_with("\n  ?  RPS of default: the run does not report it"));
    let mut none = PlanBuilder::new(1, &["default", "batch"]);
    for variant in ["default", "batch"] {
        none.done(0, variant, |run| run.metric("wakeup_p99", 5e3).metric("request_p99", 6e3));
    }
    assert_snapshot!(blocks(none), @"
    F256 N5 threads=4        default      batch
    Wakeup  (usec): 99.0th:        5          5
    Request (usec): 99.0th:        6          6
    RPS    (count): 50.0th:        ?          ?
      ?  RPS of every variant: the run does not report it
    ");
}

#[test]
fn missing_runs_are_counted() {
    let mut plan = plan(3, &["default", "batch", "fifo"], &[1]);
    for round in 0..2 {
        plan.done(round, "default", |run| values(run, 1.0, 2.0, 3.0));
        plan.failed(round, "batch", "worker 3 (tid 4711) died: SIGSEGV");
        plan.skipped(round, "fifo", "not here");
    }
    let shown = table(plan.ended(Some(PlanEnd::Interrupted)), Options::default());
    assert_snapshot!(shown, @"
    F128 N1                  default      batch       fifo
    Wakeup  (usec): 99.0th:        1          -          -
    Request (usec): 99.0th:        2          -          -
    RPS    (count): 50.0th:        3          -          -
      failed  batch in rounds 0, 1: worker 3 (tid 4711) died: SIGSEGV
      runs    default 2 of 3, batch 0 of 3

    F128 N1 no-locking       default      batch       fifo
    Wakeup  (usec): 99.0th:        -          -          -
    Request (usec): 99.0th:        -          -          -
    RPS    (count): 50.0th:        -          -          -
      runs    default 0 of 3, batch 0 of 3

    skipped fifo: not here
    rounds  0 of 3 done, each run 5s after 1s of warm-up; interrupted, go on with
            `schedlab run --resume`
    kernel  Linux 6.18.5-cloud-amd64
    Values are medians over rounds and no verdicts.
    ");
}

#[test]
fn the_response_is_shown_where_requests_arrive_at_a_rate() {
    let with = |name: &str, value: Value| {
        let mut plan = plan(1, &["default"], &[10]).param(0, name, value);
        plan.done(0, "default", |run| {
            values(run, 1.0, 2.0, 3.0).metric("response_p99", 4_000_000.0)
        });
        blocks(plan)
    };
    let row = "Request (usec): 99.0th:        2\n\
               Response(usec): 99.0th:    4,000\n\
               RPS    (count): 50.0th:        3\n";
    assert!(with("rps", Value::Int(500)).contains(row), "{}", with("rps", Value::Int(500)));
    assert!(with("auto-rps", Value::Percent(50.0)).contains(row));
    assert!(!with("rps", Value::Int(0)).contains("Response"), "a rate of 0 is none");
    // A run that was stored before there was this metric.
    let mut without = plan(1, &["default"], &[10]).param(0, "rps", Value::Int(500));
    without.done(0, "default", |run| values(run, 1.0, 2.0, 3.0));
    assert!(!blocks(without).contains("Response"));
}

#[test]
fn labels_tell_works_and_sets_apart() {
    let web = [("web", "schbench", false), ("db", "schbench", false), ("hog", "schbench", true)];
    let axes = [("web.operations", "7"), ("db.operations", "8"), ("count", "3")];
    let mut plan = PlanBuilder::without_works(1, &["a"])
        .work("plain", &[], &[("schbench", "schbench", false)])
        .work("mix", &axes, &web)
        .work("also-plain", &[], &[("schbench", "schbench", false)])
        .param(2, "cache-footprint", Value::Bytes(256 << 10))
        .param(0, "threads", Value::Int(3));
    for work in 0..3 {
        plan.done_in(work, 0, "a", |run| values(run, 1.0, 2.0, 3.0));
    }
    let shown = blocks(plan);
    let blocks = shown.split("\n\n");
    let labels: Vec<&str> = blocks.filter_map(|block| block.lines().next()).collect();
    let expected = [
        "F256 N5 (plain)               a",
        "F256 N5 db.operations=8 count=3 (web)",
        "F256 N5 web.operations=7 count=3 (db)",
        "F256 N5 (also-plain)          a",
        "not shown: schbench (background); hint: --format text",
    ];
    assert_eq!(labels, expected, "{shown}");
}

#[test]
fn a_record_without_schbench_says_so_in_one_line() {
    let mut plan =
        PlanBuilder::without_works(1, &["a"]).work("solo", &[], &[("solo", "spin", false)]);
    plan.done(0, "a", |run| run.metric("throughput", 1.0));
    let said = "no work here uses schbench; hint: schedlab report --format text\n";
    assert_eq!(table(plan.clone(), Options::default()), said);
    assert_eq!(
        testing::render(&Schbench, &[], Options::default()),
        "nothing is stored that was asked for\n"
    );
    let records = [plan.record(), even(1, &["a", "b"]).record()];
    assert_snapshot!(testing::render(&Schbench, &records, Options::default()), @"
    Does a shorter slice help a web-like load?

    no work here uses schbench; hint: schedlab report --format text

    Does a shorter slice help a web-like load?

    F256 N5                       a          b
    Wakeup  (usec): 99.0th:     755        755
    Request (usec): 99.0th:  25,632     25,632
    RPS    (count): 50.0th:   4,280      4,280

    rounds  1 of 1 done, each run 5s after 1s of warm-up
    kernel  Linux 6.18.5-cloud-amd64
    Values are medians over rounds and no verdicts.
    ");
}

#[test]
fn others_that_had_much_of_the_pool_and_another_kernel_are_told() {
    let mut plan = even(1, &["a"]);
    plan.done(0, "a", |run| values(run, 1.0, 2.0, 3.0).took(DisturbanceKind::OutsideLoad, 0.5));
    let mut record = plan.record();
    let mut again = record.started.clone();
    record.apply(&Event::PlanStarted(Box::new(again.clone())));
    again.environment.kernel_release = "6.19.0".to_string();
    record.apply(&Event::PlanStarted(Box::new(again)));
    assert_snapshot!(testing::render(&Schbench, &[record], Options::default()), @"
    warning: load from outside took up to 50 % of the pool (more than 25 % in 1 of 1
    runs): these figures are of another experiment; see the marks below

    F256 N5                     a a
    Wakeup  (usec): 99.0th:       1
    Request (usec): 99.0th:       2
    RPS    (count): 50.0th:       3
      a  50 % of the pool: a in round 0

    rounds  1 of 1 done, each run 5s after 1s of warm-up; has not ended: running, or
            killed
    kernel  Linux 6.18.5-cloud-amd64, then 6.19.0
    Values are medians over rounds and no verdicts.
    ");
}

#[test]
fn names_from_outside_act_on_nothing() {
    let escape = "\x1b[2J\x1b]0;owned\x07\u{9b}31m\r\n\u{202e}gpj";
    assert_snapshot!(table(testing::hostile(escape), Options::default()), @r"
    F256 N5 threads=4        \u{1b}[2J\u{1b}]0;own…#1 a  \u{1b}[2J\u{1b}]0;own…#2 a
    Wakeup  (usec): 99.0th:                           ?                           ?
    Request (usec): 99.0th:                           ?                           ?
    RPS    (count): 50.0th:                           ?                           ?

    F256 N5 threads=4                              gone
    Wakeup  (usec): 99.0th:                           -
    Request (usec): 99.0th:                           -
    RPS    (count): 50.0th:                           -
      ?  Wakeup, Request, RPS of every variant: the run does not report it
      a  \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj: every run
      every run: \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj asked
                 \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj, kernel took
                 else
      every run: \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj asked b, not
                 read back: \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj
      failed  gone in rounds 0, 1:
              \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj
      runs    \u{1b}[2J\u{1b}]0;own…#1 2 of 2, \u{1b}[2J\u{1b}]0;own…#2 2 of 2, gone
              0 of 2

    #1 \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj
    #2 \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj2
    not shown: \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj,
               \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj (background);
               hint: --format text
    rounds  2 of 2 done, each run 5s after 1s of warm-up
    kernel  Linux \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}gpj
    Values are medians over rounds and no verdicts.
    ");
}

#[test]
fn colour_is_there_only_where_asked_for_and_changes_nothing_else() {
    let plain = table(testing::troubled(), Options::default());
    let mut coloured = table(testing::troubled(), Options { color: true, ..Options::default() });
    assert!(!plain.contains('\x1b') && coloured.contains("\x1b[1mF256 N5"));
    for sequence in ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m"] {
        coloured = coloured.replace(sequence, "");
    }
    assert_eq!(coloured, plain);
}

#[test]
fn thousands_are_separated() {
    let cases = [
        (0.0, "0"),
        (-0.4, "0"),
        (0.5, "1"),
        (999.4, "999"),
        (999.5, "1,000"),
        (37_696.0, "37,696"),
        (100_020.0, "100,020"),
        (-1_234_567.0, "-1,234,567"),
        (99_999_999_999.0, "99,999,999,999"),
        (99_999_999_999.6, "1.00e11"),
        (-1e300, "-1.00e300"),
    ];
    for (value, expected) in cases {
        assert_eq!(grouped(value), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_line_is_wider_than_asked(
        name in any::<String>(),
        values in proptest::collection::vec(proptest::num::f64::ANY, 4),
        width in Options::MIN_WIDTH..140usize,
    ) {
        let mut plan = testing::hostile(&name);
        let variants = [name.clone(), format!("{name}2")];
        for (at, value) in values.iter().enumerate() {
            plan.done(at as u32 / 2, &variants[at % 2], |run| {
                run.metric("wakeup_p99", *value)
                    .metric("rps_p50", value.abs())
                    .reading("request_p99", Reading::Known(-value.abs()))
                    .disturbed(DisturbanceKind::Steal, &name)
            });
        }
        let shown = table(plan, Options { width, ..Options::default() });
        for line in shown.lines() {
            prop_assert!(line.width() <= width, "wider than {}: {}", width, line);
            prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
        }
    }
}
