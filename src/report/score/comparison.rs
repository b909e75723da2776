//! Two scoreboards side by side, as text and as JSON. Pure.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::analysis::{Change, PairChange, RowChange, ScoreComparison, ScoreSide, ScoreUnit};
use crate::model::{PairKind, Watched};
use crate::report::Options;
use crate::report::layout::{Align, Page, Table, Tone, clean, shortened};
use crate::report::numbers::{counted, significant};
use crate::report::phrases::one_line as reason;

use super::page::{NAME_COLUMNS, time};

pub fn json(comparison: &ScoreComparison, out: &mut dyn Write) -> io::Result<()> {
    super::json::write("schedlab-score-comparison", comparison, out)
}

/// `repeat`: the command that measures what is compared here more than once.
pub fn page(of: &ScoreComparison, top: usize, repeat: &str, options: &Options) -> String {
    let mut page = Page::new(options);
    side("before    ", &of.before, &mut page);
    side("after     ", &of.after, &mut page);
    length(of, &mut page);
    let text = format!("none, as there is one score of each. To know what is chance: {repeat}");
    page.wrapped(Tone::Plain, "verdict   ", &text);
    let changed = "what changed most first";
    let pairs = |kind| of.pairs.iter().filter(move |pair| pair.kind == kind).map(pair).collect();
    let sections = [
        (format!("tasks, {changed}"), row_blocks(&of.rows)),
        ("who ran while whom waited".to_string(), pairs(PairKind::Delayed)),
        ("who wakes whom".to_string(), pairs(PairKind::Woke)),
        ("last-level caches".to_string(), row_blocks(&of.llcs)),
        ("CPUs".to_string(), row_blocks(&of.cpus)),
        ("load balancing".to_string(), row_blocks(&of.domains)),
    ];
    tables(&sections, top, &mut page);
    legend(of, &mut page);
    for (label, lost) in [("before", &of.before.lost), ("after", &of.after.lost)] {
        for text in lost {
            page.wrapped(Tone::Warning, "missing   ", &format!("{label}: {}", reason(text)));
        }
    }
    page.text().to_string()
}

fn side(label: &str, side: &ScoreSide, page: &mut Page) {
    let tags = if side.tags.is_empty() {
        String::new()
    } else {
        format!(" ({})", clean(&side.tags.join(", ")))
    };
    let head = format!("{}{tags}: {}", clean(&side.id), clean(&side.watched.title()));
    page.wrapped(Tone::Bold, label, &head);
    let source = side
        .source
        .as_deref()
        .map_or("no source".to_string(), |source| format!("source {}", clean(source)));
    let text = format!(
        "{}, {source}, {}, {}, Linux {}",
        time(side.wall_ns),
        counted(side.cpus, "CPU"),
        clean(&side.hostname),
        clean(&side.kernel_release),
    );
    page.wrapped(Tone::Plain, "          ", &text);
}

fn length(of: &ScoreComparison, page: &mut Page) {
    let [before, after] = [of.before.wall_ns, of.after.wall_ns];
    let percent = 100.0 * (after as f64 / before.max(1) as f64 - 1.0);
    let mut text =
        format!("{} before, {} after, {}", time(before), time(after), percentage(percent));
    if of.per_second {
        text.push_str("; so counts and sums of times are per second");
    }
    page.wrapped(Tone::Plain, "length    ", &text);
    if of.before.source != of.after.source {
        let text = "two, which do not count alike: schedlab help score --all, Sources";
        page.wrapped(Tone::Warning, "sources   ", text);
    }
    let of_machine = |side: &ScoreSide| (side.hostname.clone(), side.cpus);
    if of_machine(&of.before) != of_machine(&of.after) {
        page.wrapped(Tone::Warning, "machines  ", "two: what differs may be theirs");
    }
    if matches!((&of.before.watched, &of.after.watched), (a, b) if is_system(a) != is_system(b)) {
        let text = "the whole system on one side alone: its other tasks are in one side only";
        page.wrapped(Tone::Warning, "watched   ", text);
    }
}

fn is_system(watched: &Watched) -> bool {
    *watched == Watched::System
}

/// A name and what changed of it.
struct Block<'a> {
    label: String,
    changes: &'a [Change],
}

fn row_blocks(rows: &[RowChange]) -> Vec<Block<'_>> {
    rows.iter().map(|row| Block { label: row.label.clone(), changes: &row.changes }).collect()
}

fn pair(pair: &PairChange) -> Block<'_> {
    let [by, name] = [&pair.by, &pair.name].map(|name| shortened(name, NAME_COLUMNS));
    Block { label: format!("{by} > {name}"), changes: &pair.changes }
}

/// One table for each, all with the same columns where the page is wide enough.
fn tables(sections: &[(String, Vec<Block<'_>>)], top: usize, page: &mut Page) {
    let sections = sections.iter().filter(|(_, blocks)| !blocks.is_empty());
    let tables: Vec<(Vec<Row>, usize)> = sections
        .map(|(title, blocks)| (section(title, &blocks[..blocks.len().min(top)]), blocks.len()))
        .collect();
    let widest = |at: usize| {
        let rows = tables.iter().flat_map(|(rows, _)| rows);
        rows.map(|(_, cells)| cells[at].width()).max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3, 4].map(widest);
    let is_wide = widths.iter().sum::<usize>() + GAP * (widths.len() - 1) <= page.width();
    for (rows, all) in tables {
        page.gap();
        let columns = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right];
        let gap = |at: usize| if at == 0 { 0 } else { GAP as u16 };
        let columns = columns.into_iter().enumerate().map(|(at, align)| (align, gap(at)));
        let mut table = Table::new(columns.collect());
        for (at, (tone, mut cells)) in rows.into_iter().enumerate() {
            // The header is as wide as any cell of any table.
            if at == 0 && is_wide {
                let missing = widths[0] - cells[0].width();
                cells[0].push_str(&" ".repeat(missing));
                for (cell, width) in cells.iter_mut().zip(widths).skip(1) {
                    *cell = " ".repeat(width - cell.width()) + cell;
                }
            }
            table.row(tone, cells);
        }
        page.table(&table);
        if all > top {
            let text = format!("{} more: --top {all}, or --format json", all - top);
            page.wrapped(Tone::Plain, "", &text);
        }
    }
}

/// A line of a table.
type Row = (Tone, Vec<String>);

const GAP: usize = 2;

fn section(title: &str, blocks: &[Block<'_>]) -> Vec<Row> {
    let header = [title, "before", "after", "difference", "change"];
    let mut rows = vec![(Tone::Bold, header.map(str::to_string).to_vec())];
    for block in blocks {
        let mut name = vec![shortened(&block.label, 2 * NAME_COLUMNS + 3)];
        name.resize(header.len(), String::new());
        rows.push((Tone::Plain, name));
        rows.extend(block.changes.iter().map(|change| (Tone::Plain, line(change))));
    }
    rows
}

fn line(change: &Change) -> Vec<String> {
    let show = |value: Option<f64>| {
        value.map_or("-".to_string(), |value| format_value(value, change.unit))
    };
    let difference = change.difference.map_or("-".to_string(), |difference| match change.unit {
        _ if difference == 0.0 => "0".to_string(),
        ScoreUnit::Share => format!("{:+.1} points", 100.0 * difference),
        unit => {
            let sign = if difference < 0.0 { "-" } else { "+" };
            format!("{sign}{}", format_value(difference.abs(), unit))
        }
    });
    let relative = match (change.relative, change.before, change.after) {
        (Some(relative), ..) => percentage(100.0 * relative),
        (None, Some(0.0), Some(after)) if after > 0.0 => "new".to_string(),
        (None, Some(_), Some(_)) => "0 %".to_string(),
        _ => "-".to_string(),
    };
    vec![
        format!("  {}", change.name),
        show(change.before),
        show(change.after),
        difference,
        relative,
    ]
}

fn format_value(value: f64, unit: ScoreUnit) -> String {
    match unit {
        ScoreUnit::Count => format!("{value:.0}"),
        ScoreUnit::CountPerS => format!("{}/s", significant(value, 3)),
        ScoreUnit::Ns => time(value.round() as u64),
        ScoreUnit::NsPerS => format!("{}/s", time(value.round() as u64)),
        ScoreUnit::Share => format!("{:.1} %", 100.0 * value),
        ScoreUnit::Mean => format!("{value:.2}"),
    }
}

/// `+12 %`; from ten times on `x 12`.
fn percentage(percent: f64) -> String {
    match percent {
        p if p.abs() < 0.05 => "0 %".to_string(),
        p if p <= -99.95 => "gone".to_string(),
        p if p.abs() < 10.0 => format!("{p:+.1} %"),
        p if p < 900.0 => format!("{p:+.0} %"),
        p => format!("x {}", significant(p / 100.0 + 1.0, 3)),
    }
}

/// Explains the words that the table has.
fn legend(of: &ScoreComparison, page: &mut Page) {
    page.gap();
    let mut parts = vec![
        "waits: how often a task waited for a CPU; waited: all waits together; wait p50, p99, max: of \
         one wait",
        "voluntary, involuntary: context switches because it slept, because it was preempted",
    ];
    if of.pairs.iter().any(|pair| pair.kind == PairKind::Delayed) {
        parts.push("A > B: A ran while B waited for that CPU; preempted: A took the CPU from B");
    }
    if of.per_second {
        parts.push("a time per second of 1s/s is one CPU's, or one task that waits all the time");
    }
    page.wrapped(Tone::Plain, "", &parts.join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{By, compare_scores};
    use crate::model::{CpuScore, PairScore, SavedScore, Score, TaskScore, Times};

    /// One of `threads` tasks, each of which waits for all others.
    fn saved(id: &str, wall_ns: u64, threads: u64, command: &str) -> SavedScore {
        let task = |name: &str, run_ns: u64| TaskScore {
            name: name.to_string(),
            watched: true,
            run_ns: Some(run_ns),
            wait: Some(Times {
                count: 1000 * threads,
                total_ns: threads * run_ns,
                max_ns: Some(3_000_000 * threads),
                buckets: Vec::new(),
            }),
            voluntary: Some(900 * threads),
            involuntary: Some(7),
            ..TaskScore::default()
        };
        let pair = PairScore {
            kind: PairKind::Delayed,
            by: "web\u{1b}[2J".to_string(),
            name: "db".to_string(),
            count: threads,
            lost_ns: Some(threads * 1_000_000),
        };
        let cpu =
            CpuScore { busy_ns: Some(wall_ns / 2), switches: Some(5000), ..CpuScore::default() };
        SavedScore {
            id: id.to_string(),
            started_unix_ns: 1,
            hostname: "big".to_string(),
            kernel_release: "6.18.1".to_string(),
            score: Score {
                source: Some("bpf".to_string()),
                watched: Watched::Command(vec![command.to_string(), "-g".to_string()]),
                wall_ns,
                tasks: vec![task("web\u{1b}[2J", 1_000_000_000), task("db", 500_000_000)],
                cpus: vec![cpu],
                pairs: Some(vec![pair]),
                llcs: Some(vec!["0".parse().unwrap()]),
                lost: vec!["tasks without room: 3".to_string()],
                ..Score::default()
            },
        }
    }

    fn shown(after_ns: u64, top: usize, width: usize) -> String {
        let [before, after] = [
            saved("20261123-a", 2_000_000_000, 1, "bench"),
            saved("20261123-b", after_ns, 12, "bench"),
        ];
        let tags = ["small".to_string()];
        let of = compare_scores(&before, &after, [&tags, &[]], By::Name);
        page(&of, top, "schedlab run -- bench -g", &Options { width, ..Options::default() })
    }

    #[test]
    fn a_comparison_says_what_changed_and_no_verdict() {
        insta::assert_snapshot!(shown(2_000_000_000, 5, 80), @r#"
before    20261123-a (small): bench -g
          2.00s, source bpf, 1 CPU, big, Linux 6.18.1
after     20261123-b: bench -g
          2.00s, source bpf, 1 CPU, big, Linux 6.18.1
length    2.00s before, 2.00s after, 0 %
verdict   none, as there is one score of each. To know what is chance: schedlab
          run -- bench -g

tasks, what changed most first  before   after  difference  change
web\u{1b}[2J
  run                            1.00s   1.00s           0     0 %
  waits                           1000   12000      +11000  x 12.0
  waited                         1.00s   12.0s      +11.0s  x 12.0
  wait max                      3.00ms  36.0ms     +33.0ms  x 12.0
  voluntary                        900   10800       +9900  x 12.0
  involuntary                        7       7           0     0 %
db
  run                            500ms   500ms           0     0 %
  waits                           1000   12000      +11000  x 12.0
  waited                         500ms   6.00s      +5.50s  x 12.0
  wait max                      3.00ms  36.0ms     +33.0ms  x 12.0
  voluntary                        900   10800       +9900  x 12.0
  involuntary                        7       7           0     0 %

who ran while whom waited       before   after  difference  change
web\u{1b}[2J > db
  ran                           1.00ms  12.0ms     +11.0ms  x 12.0
  preempted                          1      12         +11  x 12.0

last-level caches               before   after  difference  change
cache of CPUs 0
  busy                          50.0 %  50.0 %           0     0 %

CPUs                            before   after  difference  change
CPU 0
  busy                          50.0 %  50.0 %           0     0 %
  switches                        5000    5000           0     0 %

waits: how often a task waited for a CPU; waited: all waits together; wait p50,
p99, max: of one wait; voluntary, involuntary: context switches because it
slept, because it was preempted; A > B: A ran while B waited for that CPU;
preempted: A took the CPU from B
missing   before: tasks without room: 3
missing   after: tasks without room: 3
"#);
    }

    #[test]
    fn unlike_lengths_are_named_and_what_is_left_out_is_counted() {
        insta::assert_snapshot!(shown(4_000_000_000, 1, 80), @r#"
before    20261123-a (small): bench -g
          2.00s, source bpf, 1 CPU, big, Linux 6.18.1
after     20261123-b: bench -g
          4.00s, source bpf, 1 CPU, big, Linux 6.18.1
length    2.00s before, 4.00s after, +100 %; so counts and sums of times are per
          second
verdict   none, as there is one score of each. To know what is chance: schedlab
          run -- bench -g

tasks, what changed most first   before     after  difference  change
web\u{1b}[2J
  run                           500ms/s   250ms/s    -250ms/s   -50 %
  waits                           500/s    3000/s     +2500/s  +500 %
  waited                        500ms/s   3.00s/s    +2.50s/s  +500 %
  wait max                       3.00ms    36.0ms     +33.0ms  x 12.0
  voluntary                       450/s    2700/s     +2250/s  +500 %
  involuntary                    3.50/s    1.75/s     -1.75/s   -50 %
1 more: --top 2, or --format json

who ran while whom waited        before     after  difference  change
web\u{1b}[2J > db
  ran                           500us/s  3.00ms/s   +2.50ms/s  +500 %
  preempted                     0.500/s    3.00/s     +2.50/s  +500 %

last-level caches                before     after  difference  change
cache of CPUs 0
  busy                           50.0 %    50.0 %           0     0 %

CPUs                             before     after  difference  change
CPU 0
  busy                           50.0 %    50.0 %           0     0 %
  switches                       2500/s    1250/s     -1250/s   -50 %

waits: how often a task waited for a CPU; waited: all waits together; wait p50,
p99, max: of one wait; voluntary, involuntary: context switches because it
slept, because it was preempted; A > B: A ran while B waited for that CPU;
preempted: A took the CPU from B; a time per second of 1s/s is one CPU's, or one
task that waits all the time
missing   before: tasks without room: 3
missing   after: tasks without room: 3
"#);
    }

    #[test]
    fn no_page_is_wider_than_asked_and_no_name_acts_on_the_terminal() {
        for width in [40, 60, 80, 120] {
            let text = shown(3_000_000_000, 5, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
            for word in ["BETTER", "WORSE", "SAME", "significant"] {
                assert!(!text.contains(word), "{text}");
            }
        }
    }

    #[test]
    fn changes_are_shown_as_shares_until_they_are_factors() {
        let cases = [
            (0.01, "0 %"),
            (-4.25, "-4.2 %"),
            (12.4, "+12 %"),
            (899.0, "+899 %"),
            (900.0, "x 10.0"),
            (-100.0, "gone"),
        ];
        for (percent, expected) in cases {
            assert_eq!(percentage(percent), expected);
        }
    }

    #[test]
    fn json_has_all_of_it_with_a_version() {
        let [a, b] = [saved("a", 2, 1, "x"), saved("b", 2, 2, "x")];
        let of = compare_scores(&a, &b, [&[], &[]], By::Process);
        let mut out = Vec::new();
        json(&of, &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (&value["schema"], &value["version"]),
            (&"schedlab-score-comparison".into(), &2.into())
        );
        let waits = &value["rows"][0]["changes"][1];
        assert_eq!(waits["name"], "waits");
        assert_eq!((&waits["difference"], &waits["relative"]), (&2000.0.into(), &1.0.into()));
        assert_eq!((&value["by"], &value["before"]["id"]), (&"process".into(), &"a".into()));
    }
}
