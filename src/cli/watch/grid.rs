//! CPUs by last-level cache: lines of what each did lately, in the largest of three sizes that has
//! room. Pure.

use std::collections::{BTreeMap, VecDeque};

use ratatui_core::style::Color;
use ratatui_core::text::{Line, Span};

use crate::cli::screen::Palette;
use crate::model::CpuSet;

use super::data::CpuPoint;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Columns of a line with numbers: ` 12 ▁▂▃▄▅▆▇█ 100 % ▁▂▃▄▅▆▇█ 12.5`.
const LARGE_POINTS: usize = 8;
const LARGE_COLUMNS: usize = 4 + LARGE_POINTS + 6 + 1 + LARGE_POINTS + 5;
/// `1012 ▁▂▃▄ ▁▂▃▄`.
const SMALL_POINTS: usize = 4;
const SMALL_COLUMNS: usize = 5 + 2 * SMALL_POINTS + 1;

type History = BTreeMap<u32, VecDeque<CpuPoint>>;

/// `room`: columns and lines.
pub fn lines(
    history: &History,
    llcs: &[CpuSet],
    room: (usize, usize),
    palette: Palette,
) -> Vec<Line<'static>> {
    let groups = groups(history, llcs);
    let drawn = Drawn { history, full: full(history), palette, columns: room.0 };
    let mut all = drawn.large(&groups);
    if all.len() > room.1 {
        all = drawn.small(&groups);
    }
    if all.len() > room.1 {
        all = drawn.least(&groups);
    }
    if all.len() <= room.1 {
        return all;
    }
    let more = all.len() - room.1 + 1;
    all.truncate(room.1.saturating_sub(1));
    all.push(Line::from(format!("... {more} more lines: a larger terminal")));
    all
}

/// CPUs that have been seen, by last-level cache, those of none last.
fn groups(history: &History, llcs: &[CpuSet]) -> Vec<(String, Vec<u32>)> {
    let seen = |cpus: &CpuSet| cpus.iter().filter(|cpu| history.contains_key(cpu)).collect();
    let mut groups: Vec<(String, Vec<u32>)> = llcs
        .iter()
        .enumerate()
        .map(|(at, cpus)| (format!("LLC {at}, CPUs {cpus}"), seen(cpus)))
        .collect();
    let is_placed = |cpu: &&u32| llcs.iter().any(|cpus| cpus.contains(**cpu));
    let others: Vec<u32> = history.keys().filter(|cpu| !is_placed(cpu)).copied().collect();
    groups.push(("of no known LLC".to_string(), others));
    groups.retain(|(_, cpus)| !cpus.is_empty());
    groups
}

/// The number of waiting tasks that fills a block: at least one.
fn full(history: &History) -> f64 {
    let waiting =
        history.values().flat_map(|points| points.iter().filter_map(|point| point.waiting));
    waiting.fold(1.0, f64::max)
}

struct Drawn<'a> {
    history: &'a History,
    full: f64,
    palette: Palette,
    columns: usize,
}

impl Drawn<'_> {
    /// The last points of a CPU as blocks, the newest on the right.
    fn busy(&self, cpu: u32, points: usize) -> Span<'static> {
        let text = blocks(self.last(cpu, points).map(|point| point.map(|point| point.busy)));
        Span::styled(text, self.palette.foreground(Color::Green))
    }

    fn waiting(&self, cpu: u32, points: usize) -> Span<'static> {
        let share = |point: CpuPoint| point.waiting.map(|waiting| waiting / self.full);
        let text = blocks(self.last(cpu, points).map(|point| point.map(share)));
        Span::styled(text, self.palette.foreground(Color::Red))
    }

    /// `None`: before the first.
    fn last(&self, cpu: u32, points: usize) -> impl Iterator<Item = Option<CpuPoint>> {
        let history = self.history.get(&cpu);
        let known = history.map_or(0, VecDeque::len);
        (0..points).map(move |at| {
            let at = (known + at).checked_sub(points)?;
            history?.get(at).copied()
        })
    }

    fn now(&self, cpu: u32) -> CpuPoint {
        self.history.get(&cpu).and_then(|points| points.back()).copied().unwrap_or_default()
    }

    fn large(&self, groups: &[(String, Vec<u32>)]) -> Vec<Line<'static>> {
        self.cells(groups, LARGE_COLUMNS + 1, |cpu| {
            let now = self.now(cpu);
            let busy = now.busy.map_or("-".to_string(), |busy| format!("{:.0} %", 100.0 * busy));
            let waiting = now.waiting.map_or("-".to_string(), |waiting| format!("{waiting:.1}"));
            vec![
                Span::raw(format!("{cpu:>3} ")),
                self.busy(cpu, LARGE_POINTS),
                Span::raw(format!("{busy:>6} ")),
                self.waiting(cpu, LARGE_POINTS),
                Span::raw(format!("{waiting:>5} ")),
            ]
        })
    }

    fn small(&self, groups: &[(String, Vec<u32>)]) -> Vec<Line<'static>> {
        self.cells(groups, SMALL_COLUMNS + 1, |cpu| {
            vec![
                Span::raw(format!("{cpu:>4} ")),
                self.busy(cpu, SMALL_POINTS),
                Span::raw(" "),
                self.waiting(cpu, SMALL_POINTS),
                Span::raw(" "),
            ]
        })
    }

    /// A line for each cache, and then as many CPUs in a line as have room.
    fn cells(
        &self,
        groups: &[(String, Vec<u32>)],
        columns: usize,
        cell: impl Fn(u32) -> Vec<Span<'static>>,
    ) -> Vec<Line<'static>> {
        let in_line = (self.columns / columns).max(1);
        let mut lines = Vec::new();
        for (name, cpus) in groups {
            lines.push(Line::from(name.clone()));
            let spans = cpus.chunks(in_line).map(|cpus| cpus.iter().flat_map(|cpu| cell(*cpu)));
            lines.extend(spans.map(|spans| Line::from(spans.collect::<Vec<_>>())));
        }
        lines
    }

    /// A line for each cache, a block for each CPU, and again for those that wait there; two lines
    /// where one has no room.
    fn least(&self, groups: &[(String, Vec<u32>)]) -> Vec<Line<'static>> {
        let begin = |text: String| std::iter::once(Span::raw(text));
        let mut lines = Vec::new();
        for (at, (_, cpus)) in groups.iter().enumerate() {
            if 8 + 2 * cpus.len() <= self.columns {
                let busy = cpus.iter().map(|cpu| self.busy(*cpu, 1));
                let waiting = cpus.iter().map(|cpu| self.waiting(*cpu, 1));
                let label = begin(format!("LLC {at:<3}"));
                lines
                    .push(label.chain(busy).chain(begin(" ".to_string())).chain(waiting).collect());
                continue;
            }
            let room = self.columns.saturating_sub(13).max(1);
            for (part, cpus) in cpus.chunks(room).enumerate() {
                let label = if part == 0 { format!("LLC {at:<3}") } else { " ".repeat(7) };
                let busy = cpus.iter().map(|cpu| self.busy(*cpu, 1));
                let waiting = cpus.iter().map(|cpu| self.waiting(*cpu, 1));
                lines.push(begin(format!("{label} busy ")).chain(busy).collect());
                lines.push(begin("        wait ".to_string()).chain(waiting).collect());
            }
        }
        lines
    }
}

/// Shares from 0 to 1. A dot: not known; a space: not yet.
fn blocks(shares: impl Iterator<Item = Option<Option<f64>>>) -> String {
    let block = |share: Option<Option<f64>>| match share {
        None => ' ',
        Some(None) => '·',
        Some(Some(share)) => {
            let at = (share.clamp(0.0, 1.0) * BLOCKS.len() as f64).ceil() as usize;
            BLOCKS[at.saturating_sub(1).min(BLOCKS.len() - 1)]
        }
    };
    shares.map(block).collect()
}

/// A bar of a share of `columns`, in eighths of one, and the columns that are left. Something is
/// never drawn as nothing.
pub fn bar(part: u64, whole: u64, columns: usize) -> (String, usize) {
    let eighths = (part as u128 * columns as u128 * 8).div_ceil(u128::from(whole.max(1))) as usize;
    let (full, rest) = ((eighths / 8).min(columns), eighths % 8);
    let mut bar = "█".repeat(full);
    if rest > 0 && full < columns {
        bar.push(PARTS[rest]);
        return (bar, columns - full - 1);
    }
    (bar, columns - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Palette = Palette { color: false };

    fn history(cpus: u32, points: &[(Option<f64>, Option<f64>)]) -> History {
        let points: VecDeque<CpuPoint> =
            points.iter().map(|&(busy, waiting)| CpuPoint { busy, waiting }).collect();
        (0..cpus).map(|cpu| (cpu, points.clone())).collect()
    }

    fn drawn(history: &History, llcs: &[&str], room: (usize, usize)) -> Vec<String> {
        let llcs: Vec<CpuSet> = llcs.iter().map(|cpus| cpus.parse().unwrap()).collect();
        lines(history, &llcs, room, PLAIN).iter().map(|line| line.to_string()).collect()
    }

    #[test]
    fn the_largest_size_that_has_room_is_drawn() {
        let points =
            [(Some(0.0), Some(0.0)), (Some(0.5), None), (None, Some(2.0)), (Some(1.0), Some(1.0))];
        let history = history(4, &points);
        let large = drawn(&history, &["0-1", "2"], (40, 9));
        let cell = "  2     ▁▄·█ 100 %     ▁·█▄  1.0 ";
        assert_eq!(large[3..5], ["LLC 1, CPUs 2", cell]);
        assert_eq!(large[5], "of no known LLC");
        let small = drawn(&history, &["0-3"], (40, 3));
        let two = "   0 ▁▄·█ ▁·█▄    1 ▁▄·█ ▁·█▄ ";
        assert_eq!(small[..2], ["LLC 0, CPUs 0-3", two]);
        assert_eq!(drawn(&history, &["0-1", "2-3"], (40, 3)), ["LLC 0  ██ ▄▄", "LLC 1  ██ ▄▄"]);
        let [busy, wait] = ["        busy ██", "        wait ▄▄"];
        let parted = drawn(&history, &["0-3"], (15, 4));
        assert_eq!(parted, ["LLC 0   busy ██", wait, busy, wait]);
        let cut = drawn(&history, &["0-3"], (15, 3));
        assert_eq!(cut[1..], [wait, "... 2 more lines: a larger terminal"]);
    }

    #[test]
    fn bars_are_as_long_as_their_share_and_something_is_not_nothing() {
        let cases = [
            ((0, 100, 4), ("", 4)),
            ((1, 1_000_000, 4), ("▏", 3)),
            ((50, 100, 4), ("██", 2)),
            ((60, 100, 4), ("██▌", 1)),
            ((100, 100, 4), ("████", 0)),
            ((0, 0, 4), ("", 4)),
        ];
        for ((part, whole, columns), (text, left)) in cases {
            assert_eq!(bar(part, whole, columns), (text.to_string(), left), "{part}/{whole}");
        }
    }
}
