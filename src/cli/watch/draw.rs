//! From the state to the cells of a terminal. Pure: the same state, size and colours give the same
//! cells.

use std::borrow::Cow;

use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span, Text};

use crate::cli::screen::Palette;
use crate::report::score::time;
use crate::report::{clean, shortened};

use super::columns::{period, table};
use super::lines::{both_ends, count, heading, padded, warning};
use super::row::longest_ns;
use super::state::State;
use super::{grid, waits};

/// Below this there is a line that says so.
/// With fewer a figure would be cut, and read as another.
const MIN_COLUMNS: u16 = 78;
const MIN_LINES: u16 = 16;
/// From this width on the pairs have a column of their own.
const WIDE_COLUMNS: u16 = 120;

/// The size decides how many rows a page has, which the state has to know before it is drawn.
pub fn page(size: Rect) -> usize {
    parts(size).map_or(1, |parts| usize::from(parts.table.height.saturating_sub(2)).max(1))
}

struct Parts {
    head: Rect,
    cpus: Rect,
    waits: Rect,
    pairs: Rect,
    table: Rect,
    foot: Rect,
}

fn parts(size: Rect) -> Option<Parts> {
    if size.width < MIN_COLUMNS || size.height < MIN_LINES {
        return None;
    }
    // By hand: a solver of constraints took most of the view's time.
    let is_wide = size.width >= WIDE_COLUMNS;
    let upper = (size.height / 3).clamp(6, 20);
    let below = if is_wide { 0 } else { (size.height / 6).clamp(3, 6) };
    let area = |x: u16, y: u16, width, height| Rect::new(size.x + x, size.y + y, width, height);
    let share = |percent: u32| (u32::from(size.width) * percent / 100) as u16;
    let (left, middle) = if is_wide { (share(40), share(30)) } else { (share(54), share(46)) };
    let [from, right] = [left, left + middle].map(|x| x.min(size.width));
    let rows = 2 + upper + below;
    Some(Parts {
        head: area(0, 0, size.width, 2),
        cpus: area(0, 2, from - 1, upper),
        waits: area(from, 2, (right - from).saturating_sub(u16::from(is_wide)), upper),
        pairs: if is_wide {
            area(right, 2, size.width - right, upper)
        } else {
            area(0, 2 + upper, size.width, below)
        },
        table: area(0, rows, size.width, size.height - rows - 1),
        foot: area(0, size.height - 1, size.width, 1),
    })
}

pub fn draw(frame: &mut Frame, state: &State, palette: Palette) {
    let size = frame.area();
    let Some(parts) = parts(size) else { return too_small(frame, size) };
    let place = |frame: &mut Frame, lines: Vec<Line<'static>>, area: Rect| {
        frame.render_widget(Text::from(lines), area);
    };
    place(frame, head(state, palette, parts.head), parts.head);
    place(frame, cpus(state, palette, parts.cpus), parts.cpus);
    place(frame, histogram(state, palette, parts.waits), parts.waits);
    place(frame, pairs(state, palette, parts.pairs), parts.pairs);
    place(frame, table(state, palette, parts.table), parts.table);
    place(frame, vec![foot(state, palette)], parts.foot);
    if state.help {
        help(frame, state, palette);
    }
}

fn too_small(frame: &mut Frame, size: Rect) {
    let text = format!(
        "{}x{} is too small: {MIN_COLUMNS}x{MIN_LINES} is the least. q quits.",
        size.width, size.height
    );
    frame.render_widget(Text::from_iter(wrapped(&text, size.width)), size);
}

fn head(state: &State, palette: Palette, area: Rect) -> Vec<Line<'static>> {
    let what = clean(&state.about.what);
    let first = vec![Span::styled("schedlab watch ", heading(palette)), Span::raw(what)];
    let mut right = Vec::new();
    if state.is_paused() {
        let style = warning(palette).add_modifier(Modifier::REVERSED);
        right.extend([Span::styled(" PAUSED ", style), Span::raw(" ")]);
    }
    let seconds = state.data.total.wall_ns / 1_000_000_000;
    right.push(Span::raw(format!("{}:{:02}", seconds / 60, seconds % 60)));
    vec![
        both_ends(first, right, area.width),
        both_ends(origin(state, palette), cost(state), area.width),
    ]
}

fn origin(state: &State, palette: Palette) -> Vec<Span<'static>> {
    let source = match &state.source {
        Some(source) => format!("source {}", clean(source)),
        None => "source: opening".to_string(),
    };
    let lost = &state.data.lost;
    let lost = match lost.first() {
        None => Span::raw(", nothing lost"),
        Some(_) => Span::styled(format!(", lost: {} (?)", lost.len()), warning(palette)),
    };
    vec![Span::raw(source), lost]
}

fn cost(state: &State) -> Vec<Span<'static>> {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let own = state
        .cost
        .own
        .map_or("being measured".to_string(), |own| format!("{} of a CPU", percent(own)));
    let programs = match (&state.source, state.cost.programs) {
        (_, Some(programs)) => format!(" + {} in the kernel", percent(programs)),
        (Some(source), None) if source == "bpf" => " + its BPF programs".to_string(),
        _ => String::new(),
    };
    vec![Span::raw(format!("cost {own}{programs}"))]
}

fn cpus(state: &State, palette: Palette, area: Rect) -> Vec<Line<'static>> {
    let room = (usize::from(area.width), usize::from(area.height.saturating_sub(1)));
    let mut lines = vec![Line::from(Span::styled("CPUs: busy, waiting tasks", heading(palette)))];
    lines.extend(grid::lines(&state.shown().cpus, &state.about.llcs, room, palette));
    lines
}

fn histogram(state: &State, palette: Palette, area: Rect) -> Vec<Line<'static>> {
    let waits = state.sheet().waits.as_ref();
    let number = waits.map_or(String::new(), |waits| format!("{} ", count(waits.count)));
    let title = format!("{number}waits, {}", period(state));
    let mut lines = vec![Line::from(Span::styled(title, heading(palette)))];
    let Some(waits) = waits else {
        lines.push(Line::from(if state.shown().readings == 0 { "" } else { "none" }));
        return lines;
    };
    let known = |ns: Option<u64>| ns.map_or("-".to_string(), time);
    let mean = waits.mean_ns().map(|mean| mean as u64);
    let summary = if waits.buckets.is_empty() {
        format!("mean {}; no histogram", known(mean))
    } else {
        format!(
            "p50 {}, p99 {}, max {}",
            known(waits.quantile_ns(0.5)),
            known(waits.quantile_ns(0.99)),
            known(longest_ns(waits)),
        )
    };
    lines.push(Line::from(summary));
    let bars = waits::bars(waits, usize::from(area.height.saturating_sub(2)));
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
    let room = usize::from(area.width).saturating_sub(7 + 7);
    for bar in &bars {
        let label = match bar.low_ns {
            0 => "0".to_string(),
            ns => octave(ns),
        };
        let (drawn, left) = grid::bar(bar.count, most, room);
        lines.push(Line::from(vec![
            Span::raw(format!("{label:>6} ")),
            Span::styled(drawn, palette.foreground(Color::Green)),
            Span::raw(format!("{}{:>6}", " ".repeat(left), count(bar.count))),
        ]));
    }
    lines
}

/// A power of two as the eye reads it: `64us`, `2ms`.
fn octave(ns: u64) -> String {
    match ns.ilog2() {
        ..10 => format!("{ns}ns"),
        bits @ 10..20 => format!("{}us", 1u64 << (bits - 10)),
        bits @ 20..30 => format!("{}ms", 1u64 << (bits - 20)),
        bits => format!("{}s", 1u64 << (bits - 30)),
    }
}

fn pairs(state: &State, palette: Palette, area: Rect) -> Vec<Line<'static>> {
    let title = Span::styled("who ran while whom waited: for, preempted", heading(palette));
    let mut lines = vec![Line::from(title)];
    let Some(pairs) = &state.pairs else {
        let text = if state.shown().readings == 0 { "" } else { "not seen by this source" };
        lines.push(Line::from(text));
        return lines;
    };
    if pairs.is_empty() {
        lines.push(Line::from("nobody"));
    }
    let width = (usize::from(area.width).saturating_sub(20) / 2).clamp(6, 18);
    for pair in pairs.iter().take(usize::from(area.height.saturating_sub(1))) {
        let [by, name] = [&pair.by, &pair.name].map(|name| shortened(name, width));
        let text = format!(
            "{} > {} {:>7} {:>6}x",
            padded(&by, width),
            padded(&name, width),
            time(pair.lost_ns.unwrap_or(0)),
            count(pair.count)
        );
        lines.push(Line::from(text));
    }
    lines
}

fn foot(state: &State, palette: Palette) -> Line<'static> {
    if state.typing {
        let text =
            format!("filter: {}_   Enter keeps it, Esc removes it", clean(&state.order.filter));
        return Line::from(Span::styled(text, warning(palette)));
    }
    if let Some(message) = &state.message {
        return Line::from(Span::styled(clean(message), warning(palette)));
    }
    let keys = [
        ("q", "quit"),
        ("space", if state.is_paused() { "go on" } else { "pause" }),
        ("/", "filter"),
        ("s", "sort"),
        ("r", "turn"),
        ("b", "fold"),
        ("a", if state.since_start { "last" } else { "all" }),
        ("t", "trace"),
        ("?", "help"),
    ];
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let spans = keys
        .into_iter()
        .flat_map(|(key, what)| [Span::styled(key, bold), Span::raw(format!(" {what}  "))]);
    Line::from(spans.collect::<Vec<_>>())
}

fn help(frame: &mut Frame, state: &State, palette: Palette) {
    let size = frame.area();
    let mut texts: Vec<String> = HELP.iter().map(|line| line.to_string()).collect();
    let trace = match state.about.trace_ns {
        0 => "t          (no trace: --trace-for was 0s)".to_string(),
        ns => format!("t          writes a trace of the last {} for the Perfetto UI", time(ns)),
    };
    texts.insert(7, trace);
    texts.extend(state.missed.iter().map(|why| clean(why)));
    texts.extend(state.data.lost.iter().map(|lost| format!("lost: {}", clean(lost))));
    let [width, height] = [size.width.saturating_sub(4), size.height.saturating_sub(2)];
    let area = Rect::new(2, 1, width, height);
    let title = Span::styled(" schedlab watch: any key closes this ", heading(palette));
    frame.render_widget(Text::from(boxed(title, &texts, area)).style(Style::reset()), area);
}

/// The lines of a box over all of `area`, whatever stood there.
fn boxed(title: Span<'static>, texts: &[String], area: Rect) -> Vec<Line<'static>> {
    let inner = area.width.saturating_sub(2);
    let rule = |columns: usize| "\u{2500}".repeat(columns);
    let after_title = rule(usize::from(inner).saturating_sub(title.width()));
    let mut rows = texts.iter().flat_map(|text| wrapped(text, inner));
    let mut lines =
        vec![Line::from(vec![Span::raw("\u{250c}"), title, Span::raw(after_title + "\u{2510}")])];
    lines.extend((2..area.height).map(|_| {
        let row = padded(&rows.next().unwrap_or_default(), inner.into());
        Line::from(format!("\u{2502}{row}\u{2502}"))
    }));
    lines.push(Line::from(format!("\u{2514}{}\u{2518}", rule(inner.into()))));
    lines
}

fn wrapped(text: &str, columns: u16) -> Vec<String> {
    textwrap::wrap(text, usize::from(columns.max(1))).into_iter().map(Cow::into_owned).collect()
}

/// One line about all that was seen.
pub fn summary(state: &State) -> String {
    let total = &state.data.total;
    let what = clean(&state.about.what);
    let seconds = total.wall_ns as f64 / 1e9;
    let Some(waits) = &total.waits else {
        return format!("watched {what} for {seconds:.1} s: no waits were counted");
    };
    let known = |ns: Option<u64>| ns.map_or("-".to_string(), time);
    format!(
        "watched {what} for {seconds:.1} s: {} waits for a CPU, p50 {}, p99 {}, longest {}",
        waits.count,
        known(waits.quantile_ns(0.5)),
        known(waits.quantile_ns(0.99)),
        known(longest_ns(waits))
    )
}

const HELP: &[&str] = &[
    "q, Ctrl-C  ends; a command that was started with the view is asked to end",
    "space      pauses what is shown; counting goes on",
    "/          filters by name, process, cgroup, number",
    "s or > <   orders by the next column, the one before",
    "r          turns the order round",
    "b          folds: by task, process, name, cgroup",
    "a          all since the start, or the last period",
    "arrows, j k, PgUp PgDn, Home End: scroll",
    "wait%      time spent waiting for a CPU, of the period; run%: on a CPU",
    "waits      how often it got a CPU; p99, max: of one wait, until it got one",
    "switch     context switches; preempt: those in which it lost the CPU",
    "x          ended; (3)x: three of that name. CPUs: waiting tasks on average",
];

#[cfg(test)]
mod tests;
