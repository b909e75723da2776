//! `text` of a scoreboard: for a terminal or a mail. Pure.

use std::collections::BTreeMap;

use crate::analysis::{BALANCE, IDLENESS, TaskRow, domain_sums, queue_mean, task_rows};
use crate::model::{
    CpuScore, Migrations, PairKind, PairScore, Score, TaskScore, Times, Turn, Watched, WorstWait,
};
use crate::report::Options;
use crate::report::layout::{Align, Page, Table, Tone, clean, shortened};
use crate::report::numbers::counted;
use crate::report::phrases::{first_of, one_line as reason};

use super::histogram;
use super::page::{Layout, NAME_COLUMNS, time};

pub fn page(score: &Score, layout: &Layout, options: &Options) -> String {
    let mut page = Page::new(options);
    head(score, &mut page);
    let is_all = score.watched == Watched::System;
    let (watched, others): (Vec<&TaskScore>, Vec<&TaskScore>) =
        score.tasks.iter().partition(|task| is_all || task.watched);
    let all = task_rows(watched.into_iter(), layout.by);
    let shown = &all[..all.len().min(layout.top)];
    table(&WAITS, shown, &mut page);
    if shown.iter().any(|row| row.sum.wait.is_some()) {
        page.wrapped(
            Tone::Plain,
            "",
            "waits: how often a task waited for a CPU; mean, p50, p99, max: of one wait",
        );
    }
    if let Some(worst) = &score.worst {
        longest(worst, &mut page);
    }
    still_waiting(&watched_waits(score), &mut page);
    if options.verbose > 0 {
        histogram::all(&all, &mut page);
    }
    if options.verbose > 1 {
        shown.iter().for_each(|row| histogram::of_row(row, &mut page));
    }
    table(&SWITCHES, shown, &mut page);
    switches_legend(shown, &mut page);
    places(shown, &mut page);
    if all.len() > shown.len() {
        let more = all.len() - shown.len();
        let rows = counted(more, "more row");
        page.wrapped(Tone::Plain, "", &format!("{rows}: --top {}", all.len()));
    }
    if !is_all {
        other_tasks(&others, &mut page);
    }
    if let Watched::Command(_) = score.watched {
        left_behind(score, &mut page);
    }
    cpus(score, &mut page);
    domains(score, &mut page);
    delays(score, layout.top, &mut page);
    wakeups(score, layout.top, &mut page);
    foot(score, &mut page);
    page.text().to_string()
}

fn head(score: &Score, page: &mut Page) {
    page.wrapped(Tone::Bold, "score of  ", &clean(&score.watched.title()));
    let source = match &score.source {
        Some(source) => format!("source {}", clean(source)),
        None => "no source of telemetry".to_string(),
    };
    let cpus = counted(score.cpus.len(), "CPU");
    let head = format!("{}, {source}, {}", time(score.wall_ns), cpus);
    page.wrapped(Tone::Plain, "          ", &head);
    for (source, why) in &score.missed {
        let text = format!("{}: {}", clean(source), reason(why));
        page.wrapped(Tone::Warning, "no source ", &text);
    }
}

/// When the longest wait was, and who had the CPU.
fn longest(worst: &WorstWait, page: &mut Page) {
    let named = |name: &str, tid: Option<i32>| match tid {
        None => clean(name),
        Some(tid) => format!("{} ({tid})", clean(name)),
    };
    let turn = |turn: &Turn| format!("{} for {}", named(&turn.name, turn.tid), time(turn.run_ns));
    let (who, wait) = (named(&worst.name, Some(worst.tid)), time(worst.wait_ns));
    let mut text = format!(
        "the longest wait, {wait}: {who}, until CPU {cpu} ran it at {}; just before, CPU {cpu} ran {}",
        time(worst.at_ns),
        turn(&worst.before),
        cpu = worst.cpu,
    );
    if worst.meanwhile.is_none() {
        text.push_str(" (who ran during the wait: without --light)");
    }
    if worst.meanwhile.as_ref().is_some_and(Vec::is_empty) {
        text.push_str("; who ran during the wait was not recorded");
    } else if let Some(turns) = &worst.meanwhile {
        let shown: Vec<String> = turns.iter().take(PLACES).map(turn).collect();
        text.push_str(&format!("; during the wait {}", shown.join(", ")));
        if turns.len() > PLACES {
            let rest: u64 = turns[PLACES..].iter().map(|turn| turn.run_ns).sum();
            let more = counted(turns.len() - PLACES, "other");
            text.push_str(&format!(" and {more} for {}", time(rest)));
        }
        if worst.known_ns + worst.tolerance_ns() < worst.wait_ns {
            let known = time(worst.known_ns);
            text.push_str(&format!(" (of which the last {known} are recorded)"));
        }
    }
    page.wrapped(Tone::Plain, "", &text);
}

/// Tasks that were asked for and that waited when counting ended, the longest wait first.
fn watched_waits(score: &Score) -> Vec<(&TaskScore, u64)> {
    let is_all = score.watched == Watched::System;
    let watched = score.tasks.iter().filter(|task| is_all || task.watched);
    let mut waits: Vec<(&TaskScore, u64)> =
        watched.filter_map(|task| Some((task, task.waiting_ns?))).collect();
    waits.sort_by_key(|(task, ns)| (std::cmp::Reverse(*ns), task.tid));
    waits
}

/// Waits that had not ended are in no column, and may be the longest of all.
fn still_waiting(waits: &[(&TaskScore, u64)], page: &mut Page) {
    if waits.is_empty() {
        return;
    }
    let one = |(task, ns): &(&TaskScore, u64)| {
        format!("{} ({}) for {}", clean(&task.name), task.tid, time(*ns))
    };
    let named = first_of(&waits.iter().map(one).collect::<Vec<_>>(), PLACES);
    let text = format!("still waiting when counting ended, in no column: {named}");
    page.wrapped(Tone::Plain, "", &text);
}

/// Explains the headers that the second table has.
fn switches_legend(rows: &[TaskRow], page: &mut Page) {
    let mut parts = Vec::new();
    if rows.iter().any(|row| row.sum.voluntary.is_some()) {
        parts.push("volunt., invol.: context switches because it slept, because it was preempted");
    }
    if rows.iter().any(|row| row.sum.slice.is_some()) {
        parts.push("slice: time on a CPU without a switch");
    }
    if rows.iter().any(|row| row.sum.migrations.is_some_and(|moves| moves.by_distance.is_some())) {
        parts.push("moves: within a last-level cache / across caches / across NUMA nodes");
    }
    if !parts.is_empty() {
        page.wrapped(Tone::Plain, "", &parts.join("; "));
    }
}

/// A column: its header, and what it shows of a row; `None`: not counted.
type Column = (&'static str, fn(&TaskRow) -> Option<String>);

const WAITS: [Column; 8] = [
    ("tasks", |row| Some(row.tasks.to_string())),
    ("run", |row| row.sum.run_ns.map(time)),
    ("waits", |row| row.sum.wait.as_ref().map(|wait| wait.count.to_string())),
    ("waited", |row| row.sum.wait.as_ref().map(|wait| time(wait.total_ns))),
    ("mean", |row| row.sum.wait.as_ref()?.mean_ns().map(|mean| time(mean as u64))),
    ("p50", |row| quantile(row.sum.wait.as_ref(), 0.5)),
    ("p99", |row| quantile(row.sum.wait.as_ref(), 0.99)),
    ("max", |row| row.sum.wait.as_ref()?.max_ns.map(time)),
];

const SWITCHES: [Column; 7] = [
    ("volunt.", |row| row.sum.voluntary.map(|count| count.to_string())),
    ("invol.", |row| row.sum.involuntary.map(|count| count.to_string())),
    ("wakeups", |row| row.sum.wakeups.map(|count| count.to_string())),
    ("moves", |row| row.sum.migrations.as_ref().map(moves)),
    ("slice p50", |row| quantile(row.sum.slice.as_ref(), 0.5)),
    ("p99", |row| quantile(row.sum.slice.as_ref(), 0.99)),
    ("max", |row| row.sum.slice.as_ref()?.max_ns.map(time)),
];

/// One row for each name. A column that the source does not count is left out.
fn table(columns: &[Column], rows: &[TaskRow], page: &mut Page) {
    let counted: Vec<&Column> =
        columns.iter().filter(|(_, show)| rows.iter().any(|row| show(row).is_some())).collect();
    if rows.is_empty() || counted.is_empty() {
        return;
    }
    let mut lines = vec![vec!["name".to_string()]];
    lines[0].extend(counted.iter().map(|(name, _)| name.to_string()));
    for row in rows {
        let mut line = vec![shortened(&row.label, NAME_COLUMNS)];
        line.extend(counted.iter().map(|(_, show)| show(row).unwrap_or("-".to_string())));
        lines.push(line);
    }
    page.gap();
    laid_out(&lines, 1, page);
}

/// Processes of the command that were alive when it ended, or when `--for` was over.
fn left_behind(score: &Score, page: &mut Page) {
    let alive = score.tasks.iter().filter(|task| task.watched && !task.ended && task.tid > 0);
    let alive: BTreeMap<i32, &str> = alive.map(|task| (task.pid, task.process.as_str())).collect();
    if alive.is_empty() {
        return;
    }
    let named = alive.iter().map(|(pid, name)| format!("{} ({pid})", clean(name)));
    let named = first_of(&named.collect::<Vec<_>>(), PLACES);
    let text = format!("{named}: alive when counting ended, counted until then");
    page.wrapped(Tone::Warning, "left      ", &text);
}

/// How many CPUs each row names.
const PLACES: usize = 4;

/// On which CPUs each row ran: how many, and the first with their shares.
fn places(rows: &[TaskRow], page: &mut Page) {
    let mut lines = vec![vec!["name".to_string(), "ran on".to_string()]];
    for row in rows {
        let cpus = row.sum.cpus.iter().flatten().copied();
        let mut cpus: Vec<(u32, u64)> = cpus.filter(|cpu| cpu.1 > 0).collect();
        if cpus.is_empty() {
            continue;
        }
        cpus.sort_by_key(|(cpu, ns)| (std::cmp::Reverse(*ns), *cpu));
        let all: u64 = cpus.iter().map(|(_, ns)| ns).sum();
        let share =
            |(cpu, ns): &(u32, u64)| format!("CPU {cpu} {:.0} %", 100.0 * *ns as f64 / all as f64);
        let shares: Vec<String> = cpus.iter().take(PLACES).map(share).collect();
        let mut ran_on = shares.join(", ");
        if cpus.len() > PLACES {
            let rest: u64 = cpus[PLACES..].iter().map(|(_, ns)| ns).sum();
            let percent = 100.0 * rest as f64 / all as f64;
            ran_on.push_str(&format!(", {} more {percent:.0} %", cpus.len() - PLACES));
        }
        lines.push(vec![shortened(&row.label, NAME_COLUMNS), ran_on]);
    }
    if lines.len() > 1 {
        page.gap();
        laid_out(&lines, 2, page);
    }
}

/// The first line is the header, which names each cell where the page is too narrow. The first
/// columns hold names, all others numbers.
fn laid_out(lines: &[Vec<String>], names: usize, page: &mut Page) {
    let column =
        |at| (if at < names { Align::Left } else { Align::Right }, if at == 0 { 0 } else { 2 });
    let mut table = Table::ruled((0..lines[0].len()).map(column).collect());
    lines.iter().for_each(|line| table.row(Tone::Plain, line.clone()));
    page.table(&table);
}

/// Within the last-level cache, across it, across nodes.
fn moves(migrations: &Migrations) -> String {
    match migrations.by_distance {
        Some(by) => format!("{}/{}/{}", by.within_llc, by.across_llc, by.across_node),
        None => migrations.total.to_string(),
    }
}

fn quantile(times: Option<&Times>, q: f64) -> Option<String> {
    times?.quantile_ns(q).map(time)
}

fn other_tasks(tasks: &[&TaskScore], page: &mut Page) {
    let run_ns: u64 = tasks.iter().filter_map(|task| task.run_ns).sum();
    if run_ns > 0 {
        let tasks = counted(tasks.len(), "other task");
        page.wrapped(Tone::Plain, "", &format!("{tasks} ran for {}", time(run_ns)));
    }
}

fn cpus(score: &Score, page: &mut Page) {
    if score.cpus.is_empty() {
        return;
    }
    let header = ["cpu", "busy", "switches", "idle entries", "queue mean", "queue max"];
    let mut lines = vec![header.map(str::to_string).to_vec()];
    for cpu in &score.cpus {
        let count = |count: Option<u64>| count.map_or("-".to_string(), |count| count.to_string());
        let busy = cpu.busy_ns.map(|busy| 100.0 * busy as f64 / score.wall_ns.max(1) as f64);
        let (mean, max) = lengths(cpu).unwrap_or(("-".to_string(), "-".to_string()));
        lines.push(vec![
            cpu.cpu.to_string(),
            busy.map_or("-".to_string(), |busy| format!("{busy:.1} %")),
            count(cpu.switches),
            count(cpu.idle_entries),
            mean,
            max,
        ]);
    }
    // Columns that the source does not count are left out.
    let is_counted = |at: usize| at == 0 || lines[1..].iter().any(|line| line[at] != "-");
    let columns: Vec<usize> = (0..header.len()).filter(|at| is_counted(*at)).collect();
    for line in &mut lines {
        *line = columns.iter().map(|at| line[*at].clone()).collect();
    }
    page.gap();
    laid_out(&lines, 1, page);
}

/// Load balancing, summed over the CPUs: a row for each kind of domain and of idleness.
fn domains(score: &Score, page: &mut Page) {
    let sums = domain_sums(score);
    if sums.is_empty() {
        return;
    }
    let header = ["domain", "cpu was"].iter().chain(&BALANCE).map(|name| name.to_string());
    let mut lines = vec![header.collect::<Vec<_>>()];
    for ((number, name), sums) in sums {
        let label = format!("domain{number} {}", name.unwrap_or_default());
        for (idleness, sum) in IDLENESS.into_iter().zip(sums) {
            let mut line = vec![shortened(label.trim_end(), NAME_COLUMNS), idleness.to_string()];
            line.extend(sum.map(|count| count.to_string()));
            lines.push(line);
        }
    }
    page.gap();
    laid_out(&lines, 2, page);
}

/// Mean and largest run-queue length seen.
fn lengths(cpu: &CpuScore) -> Option<(String, String)> {
    let longest = cpu.lengths.as_ref()?.len().saturating_sub(1);
    Some((format!("{:.2}", queue_mean(cpu)?), longest.to_string()))
}

/// The tasks that ran while others waited. Scoreboards of an earlier schedlab know who took a CPU, not for how long.
fn delays(score: &Score, top: usize, page: &mut Page) {
    let pairs =
        largest_pairs(score.pairs.iter().flatten().filter(|pair| pair.kind != PairKind::Woke));
    let line = |pair: &PairScore| {
        let ran = pair.delay_ns().map_or("-".to_string(), time);
        vec![ran, pair.count.to_string()]
    };
    if pair_table(["who ran", "while whom waited", "for", "preempted"], &pairs, top, line, page) {
        let text = "for: how long it had the CPU that the other waited for; preempted: how often it \
                    took the CPU from the other";
        page.wrapped(Tone::Plain, "", text);
        more_pairs(pairs.len(), top, page);
    }
}

fn wakeups(score: &Score, top: usize, page: &mut Page) {
    let pairs =
        largest_pairs(score.pairs.iter().flatten().filter(|pair| pair.kind == PairKind::Woke));
    let line = |pair: &PairScore| vec![pair.count.to_string()];
    if pair_table(["who wakes", "whom", "times"], &pairs, top, line, page) {
        more_pairs(pairs.len(), top, page);
    }
}

/// The largest first. Last comes what is folded: no task of those that were asked for is in it.
pub fn largest_pairs<'p>(pairs: impl Iterator<Item = &'p PairScore>) -> Vec<&'p PairScore> {
    let mut pairs: Vec<&PairScore> = pairs.collect();
    let is_folded =
        |pair: &PairScore| [&pair.by, &pair.name].iter().all(|name| *name == PairScore::UNWATCHED);
    pairs.sort_by_key(|pair| {
        let largest_first = std::cmp::Reverse((pair.delay_ns(), pair.count));
        (is_folded(pair), largest_first, &pair.by, &pair.name)
    });
    pairs
}

/// Whether there are any.
fn pair_table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    pairs: &[&PairScore],
    top: usize,
    line: impl Fn(&PairScore) -> Vec<String>,
    page: &mut Page,
) -> bool {
    let mut lines = vec![header.map(str::to_string).to_vec()];
    for pair in pairs.iter().take(top) {
        let mut cells = [&pair.by, &pair.name].map(|name| shortened(name, NAME_COLUMNS)).to_vec();
        cells.extend(line(pair));
        lines.push(cells);
    }
    if lines.len() > 1 {
        page.gap();
        laid_out(&lines, 2, page);
    }
    lines.len() > 1
}

fn more_pairs(all: usize, top: usize, page: &mut Page) {
    if all > top {
        let more = counted(all - top, "more pair");
        page.wrapped(Tone::Plain, "", &format!("{more}: --top {all}, or --format json"));
    }
}

fn foot(score: &Score, page: &mut Page) {
    if score.source.as_deref() != Some("procfs") {
        page.gap();
        page.wrapped(Tone::Plain, "cost      ", &cost(score));
    }
    if !score.lost.is_empty() {
        page.gap();
    }
    for text in &score.lost {
        page.wrapped(Tone::Warning, "missing   ", &reason(text));
    }
}

/// The telemetry's own cost, from the cost of a switch on this kernel.
pub fn cost(score: &Score) -> String {
    let Some(cost) = score.cost else { return "not measured here: schedlab score --cost".into() };
    if cost.switch_ns <= 0.0 {
        return "less than the noise of this machine: schedlab score --cost".into();
    }
    let switches: u64 = score.cpus.iter().filter_map(|cpu| cpu.switches).sum();
    let cpu_ns = score.wall_ns.saturating_mul(score.cpus.len() as u64).max(1);
    let share = 100.0 * cost.switch_ns * switches as f64 / cpu_ns as f64;
    format!(
        "about {:.0} ns for each switch, {share:.2} % of the CPUs for these {switches} (a \
         ping-pong here: {:+.1} %)",
        cost.switch_ns,
        100.0 * cost.slowdown,
    )
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::analysis::By;
    use crate::model::{Balance, DomainScore};

    fn score(cpus: Vec<CpuScore>, domains: Option<Vec<DomainScore>>) -> Score {
        let source = Some("procfs".to_string());
        Score { source, wall_ns: 2_000_000_000, cpus, domains, ..Score::default() }
    }

    fn shown(score: &Score) -> String {
        shown_in(score, 120)
    }

    fn shown_in(score: &Score, width: usize) -> String {
        let options = Options { width, ..Options::default() };
        page(score, &Layout { by: By::Name, top: 5 }, &options)
    }

    #[test]
    fn the_longest_wait_names_who_had_the_cpu_and_for_how_much_of_it() {
        let turn = |tid, run_ns| Turn { tid: Some(tid), name: format!("task\u{1b}{tid}"), run_ns };
        let mut score = score(Vec::new(), None);
        let mut worst = WorstWait {
            wait_ns: 12_000_000,
            at_ns: 1_500_000_000,
            cpu: 3,
            tid: 7,
            name: "web".to_string(),
            before: Turn { tid: None, name: "(idle)".to_string(), run_ns: 2_000 },
            meanwhile: None,
            known_ns: 0,
        };
        let sentence = |text: &str| {
            let text = text.split_once("the longest wait").map_or("", |(_, text)| text);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        score.worst = Some(worst.clone());
        assert_eq!(
            sentence(&shown(&score)),
            ", 12.0ms: web (7), until CPU 3 ran it at 1.50s; just before, CPU 3 ran (idle) for \
             2.00us (who ran during the wait: without --light)"
        );
        worst.meanwhile = Some((1..=6).map(|tid| turn(tid, 1_000_000)).collect());
        worst.known_ns = 6_000_000;
        score.worst = Some(worst.clone());
        let text = sentence(&shown(&score));
        let end = "task\\u{1b}4 (4) for 1.00ms and 2 others for 2.00ms (of which the last 6.00ms are \
                   recorded)";
        assert!(text.ends_with(end), "{text}");
        (worst.meanwhile, worst.known_ns) = (Some(Vec::new()), 0);
        score.worst = Some(worst);
        let text = sentence(&shown(&score));
        assert!(text.ends_with("who ran during the wait was not recorded"), "{text}");
    }

    /// The culprit is named by how long it ran, not by how often it took the CPU, and a task that got none is
    /// not left out.
    #[test]
    fn who_ran_while_whom_waited_comes_by_time_and_what_still_waits_is_named() {
        let pair = |kind, by: &str, count, lost_ns| PairScore {
            kind,
            by: by.to_string(),
            name: "victim".to_string(),
            count,
            lost_ns: Some(lost_ns),
        };
        let mut score = score(Vec::new(), None);
        score.pairs = Some(vec![
            pair(PairKind::Delayed, "bell", 10, 4_000_000),
            pair(PairKind::Delayed, "thief", 0, 2_000_000_000),
            pair(PairKind::Preempted, "old", 7, 9_000_000_000),
        ]);
        let starved =
            TaskScore { tid: 9, name: "starved".into(), waiting_ns: Some(5), ..Default::default() };
        score.tasks = vec![starved];
        let text = shown(&score);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_ascii_whitespace().collect())
            .filter(|line: &Vec<&str>| line.get(1) == Some(&"victim"))
            .collect();
        let expected = [["thief", "victim", "2.00s", "0"], ["bell", "victim", "4.00ms", "10"]];
        assert_eq!(rows[..2], expected, "{text}");
        assert_eq!(rows[2], ["old", "victim", "-", "7"], "what was stored before: {text}");
        assert!(text.contains("in no column: starved (9) for 5ns"), "{text}");
    }

    #[test]
    fn load_balancing_is_summed_by_domain_and_idleness() {
        let busy = Balance { lb_count: 7, lb_gained: 1, ..Balance::default() };
        let newly_idle = Balance {
            lb_count: 900,
            lb_balanced: 800,
            lb_failed: 70,
            lb_gained: 30,
            lb_hot_gained: 2,
            ..Balance::default()
        };
        let domain = |cpu, domain, name: &str| DomainScore {
            cpu,
            domain,
            name: Some(name.to_string()),
            busy,
            newly_idle,
            ..DomainScore::default()
        };
        let all = vec![domain(0, 0, "MC"), domain(1, 0, "MC"), domain(0, 1, "NU\u{1b}[1m")];
        let text = shown(&score(Vec::new(), Some(all.clone())));
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
        let row = |words: &[&str]| lines.iter().any(|line| line == words);
        assert!(
            row(&["domain0", "MC", "newly", "idle", "1800", "1600", "140", "60", "4"]),
            "{text}"
        );
        assert!(row(&["domain0", "MC", "idle", "0", "0", "0", "0", "0"]), "{text}");
        assert!(row(&["domain0", "MC", "busy", "14", "0", "0", "2", "0"]), "{text}");
        assert!(text.contains("domain1 NU") && !text.contains('\u{1b}'), "{text}");
        let narrow = shown_in(&score(Vec::new(), Some(all)), 40);
        let words: Vec<&str> = narrow.split_whitespace().collect();
        assert!(words.join(" ").contains("lb_gained 60, lb_hot_gained 4"), "{narrow}");
        assert!(narrow.lines().all(|line| line.width() <= 40), "{narrow}");
    }

    #[test]
    fn columns_of_cpus_that_are_not_counted_are_left_out() {
        let cpu = CpuScore { cpu: 3, busy_ns: Some(500_000_000), ..CpuScore::default() };
        let text = shown(&score(vec![cpu], None));
        assert!(text.contains("25.0 %") && !text.contains("switches"), "{text}");
        assert!(!text.contains("domain"), "{text}");
    }
}
