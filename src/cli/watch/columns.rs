//! The table of tasks as lines: the columns that have room. Pure.

use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use crate::cli::screen::Palette;
use crate::report::score::{By, time};
use crate::report::shortened;

use super::lines::{both_ends, count, heading, padded, percent, warning};
use super::row::{KEYS, Key, Row};
use super::state::State;

const NAME_COLUMNS: usize = 15;
const NUMBER_COLUMNS: usize = 8;

/// The columns that have room, the one that orders rows first.
fn shown_keys(state: &State, width: usize) -> Vec<Key> {
    let wanted = [
        state.order.key,
        Key::Wait,
        Key::Run,
        Key::Max,
        Key::Waits,
        Key::Preempted,
        Key::Switches,
        Key::Moves,
        Key::P99,
        Key::Wakeups,
    ];
    let mut room = width.saturating_sub(NUMBER_COLUMNS + 1 + name_columns(state));
    let mut shown: Vec<Key> = Vec::new();
    for key in wanted {
        if !shown.contains(&key) && key.columns() <= room {
            room -= key.columns();
            shown.push(key);
        }
    }
    KEYS.into_iter()
        .map(|(key, ..)| key)
        .filter(|key| *key != Key::Name && shown.contains(key))
        .collect()
}

fn name_columns(state: &State) -> usize {
    if state.order.by == By::Cgroup { 2 * NAME_COLUMNS } else { NAME_COLUMNS }
}

pub fn table(state: &State, palette: Palette, area: Rect) -> Vec<Line<'static>> {
    let width = usize::from(area.width);
    let keys = shown_keys(state, width);
    let mut lines = vec![table_title(state, palette, area.width), header(state, &keys, width)];
    let shown = state.rows.iter().skip(state.top).take(usize::from(area.height).saturating_sub(2));
    lines.extend(shown.map(|row| line(row, state, &keys, width)));
    if state.rows.is_empty() && state.shown().readings > 0 {
        let text = if state.order.filter.is_empty() {
            "nothing that is watched ran or waited"
        } else {
            "nothing fits the filter"
        };
        lines.push(Line::from(text));
    }
    lines
}

fn table_title(state: &State, palette: Palette, width: u16) -> Line<'static> {
    let by = match state.order.by {
        By::Task => "tasks",
        By::Process => "processes",
        By::Name => "names",
        By::Cgroup => "cgroups",
    };
    let rows = state.rows.len();
    let last = (state.top + state.page).min(rows);
    let first = if rows == 0 { 0 } else { state.top + 1 };
    let unit = if state.since_start { "" } else { ", per second" };
    let title = format!("{by} {first}-{last} of {rows}, {}{unit}", period(state));
    let mut right = Vec::new();
    if !state.order.filter.is_empty() {
        let filter = shortened(&state.order.filter, 20);
        right.push(Span::styled(format!("filter: {filter}"), warning(palette)));
    }
    both_ends(vec![Span::styled(title, heading(palette))], right, width)
}

fn header(state: &State, keys: &[Key], width: usize) -> Line<'static> {
    let number = match state.order.by {
        By::Task => "tid",
        By::Process => "pid",
        By::Name | By::Cgroup => "tasks",
    };
    // The order of the column: most first, or least.
    let mark = if state.order.reversed { "^" } else { "v" };
    let marked = |key: Key| {
        if key == state.order.key {
            format!("{}{mark}", key.header())
        } else {
            key.header().to_string()
        }
    };
    let mut text =
        format!("{number:>NUMBER_COLUMNS$} {}", padded(&marked(Key::Name), name_columns(state)));
    for key in keys {
        text.push_str(&format!("{:>1$}", marked(*key), key.columns()));
    }
    let text = padded(&text, width);
    Line::from(Span::styled(text, Style::new().add_modifier(Modifier::REVERSED)))
}

fn line(row: &Row, state: &State, keys: &[Key], width: usize) -> Line<'static> {
    let number = match (state.order.by, row.number) {
        (By::Task, Some(tid)) if row.task.ended => format!("{tid}x"),
        (By::Process, Some(pid)) if row.task.ended => format!("{pid}x"),
        (By::Task | By::Process, Some(number)) => number.to_string(),
        // The row stands for several tasks, so it has their count in place of a number.
        (By::Task | By::Process, None) => {
            format!("({}){}", row.tasks, if row.task.ended { "x" } else { "" })
        }
        _ => row.tasks.to_string() + if row.task.ended { "x" } else { "" },
    };
    let columns_of_name = name_columns(state);
    let name = padded(&shortened(&row.task.name, columns_of_name), columns_of_name);
    let mut text = format!("{number:>NUMBER_COLUMNS$} {name}");
    for key in keys {
        text.push_str(&format!("{:>1$}", cell_text(*key, row, state), key.columns()));
    }
    // The remaining room shows where the task belongs.
    let room = width.saturating_sub(text.chars().count() + 2);
    if room >= NAME_COLUMNS && state.order.by != By::Cgroup {
        let process =
            if row.task.process == row.task.name { "" } else { row.task.process.as_str() };
        let cgroup = row.task.cgroup.as_deref().unwrap_or_default();
        let more = [process, cgroup].into_iter().filter(|text| !text.is_empty());
        let more = more.collect::<Vec<_>>().join(" ");
        text.push_str(&format!("  {}", shortened(&more, room)));
    }
    Line::from(text)
}

fn cell_text(key: Key, row: &Row, state: &State) -> String {
    let Some(value) = key.value(row) else { return "-".to_string() };
    let wall_ns = state.sheet().wall_ns.max(1) as f64;
    match key {
        Key::Wait | Key::Run => percent(value as f64 / wall_ns),
        Key::P99 | Key::Max => time(value),
        _ if state.since_start => count(value),
        _ => count((value as f64 * 1e9 / wall_ns).round() as u64),
    }
}

/// The period that the lower parts cover.
pub fn period(state: &State) -> String {
    if state.since_start {
        format!("since start ({})", time(state.sheet().wall_ns))
    } else {
        format!("last {}", time(state.sheet().wall_ns))
    }
}
