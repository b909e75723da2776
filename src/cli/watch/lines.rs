//! Lines of a view, and numbers and styles in them. Pure.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

use crate::cli::screen::Palette;

pub fn heading(palette: Palette) -> Style {
    palette.foreground(Color::Cyan).add_modifier(Modifier::BOLD)
}

pub fn warning(palette: Palette) -> Style {
    palette.foreground(Color::Yellow).add_modifier(Modifier::BOLD)
}

/// One line: words on the left, and on the right where there is room.
pub fn both_ends(left: Vec<Span<'static>>, right: Vec<Span<'static>>, width: u16) -> Line<'static> {
    let used: usize = left.iter().chain(&right).map(Span::width).sum();
    let mut spans = left;
    if let Some(gap) = usize::from(width).checked_sub(used).filter(|gap| *gap > 0) {
        spans.push(Span::raw(" ".repeat(gap)));
        spans.extend(right);
    }
    Line::from(spans)
}

/// Pads to this many columns, however wide characters are.
pub fn padded(text: &str, columns: usize) -> String {
    let gap = columns.saturating_sub(Span::raw(text).width());
    format!("{text}{}", " ".repeat(gap))
}

pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 99.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// In at most six columns.
pub fn count(count: u64) -> String {
    match count {
        ..100_000 => count.to_string(),
        100_000..10_000_000 => format!("{}k", count / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}
