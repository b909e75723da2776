//! Draws a frame's cells on a terminal, in the sequences that every terminal emulator knows (ECMA-48).
//!
//! The application's side of `ratatui-core` alone: its own backends bring readers of keys and threads
//! for them, and [`super::keys`] reads keys.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};

use crate::sys::tty;

/// Bytes of a frame that are written at once.
const FRAME_BYTES: usize = 1 << 15;

pub struct Cells {
    out: BufWriter<File>,
    /// Where it was last put: nobody else moves it.
    cursor: Position,
}

impl Cells {
    pub fn new(out: File) -> Cells {
        let out = BufWriter::with_capacity(FRAME_BYTES, out);
        Cells { out, cursor: Position::ORIGIN }
    }
}

impl Backend for Cells {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        self.out.write_all(sequences(content).as_bytes())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[?25l")
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[?25h")
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor = position.into();
        write!(self.out, "\x1b[{};{}H", self.cursor.y + 1, self.cursor.x + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.out.write_all(match region {
            ClearType::All => b"\x1b[2J",
            ClearType::AfterCursor => b"\x1b[J",
            ClearType::BeforeCursor => b"\x1b[1J",
            ClearType::CurrentLine => b"\x1b[2K",
            ClearType::UntilNewLine => b"\x1b[K",
        })
    }

    fn size(&self) -> io::Result<Size> {
        let [columns, lines] = tty::size(self.out.get_ref())?;
        Ok(Size::new(columns, lines))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        // No view draws pixels.
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Moves where a cell does not follow the last one, and changes colours where they differ.
fn sequences<'a>(content: impl Iterator<Item = (u16, u16, &'a Cell)>) -> String {
    let mut text = String::new();
    let mut follows = None;
    let mut style = None;
    for (x, y, cell) in content {
        if follows != Some((x, y)) {
            _ = write!(text, "\x1b[{};{}H", y + 1, x + 1);
        }
        follows = Some((x + 1, y));
        if style != Some((cell.fg, cell.bg, cell.modifier)) {
            style = Some((cell.fg, cell.bg, cell.modifier));
            push_style(&mut text, cell);
        }
        text.push_str(cell.symbol());
    }
    if style.is_some() {
        text.push_str("\x1b[0m");
    }
    text
}

/// Begins anew, so that it needs not know what was there.
fn push_style(text: &mut String, cell: &Cell) {
    const MODIFIERS: [(Modifier, u8); 3] =
        [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::REVERSED, 7)];
    text.push_str("\x1b[0");
    for (modifier, number) in MODIFIERS {
        if cell.modifier.contains(modifier) {
            _ = write!(text, ";{number}");
        }
    }
    push_color(text, 30, cell.fg);
    push_color(text, 40, cell.bg);
    text.push('m');
}

/// `first`: 30 for the letters, 40 for the ground.
fn push_color(text: &mut String, first: u8, color: Color) {
    let number = match color {
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Cyan => 6,
        // Views use no other colours.
        _ => return,
    };
    _ = write!(text, ";{}", first + number);
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use ratatui_core::buffer::Buffer;
    use ratatui_core::layout::Rect;
    use ratatui_core::style::Style;

    use super::*;

    /// A terminal emulator understands what was drawn, and gets no more than what differs.
    #[test]
    fn a_terminal_shows_what_was_drawn() {
        let before = Buffer::empty(Rect::new(0, 0, 12, 3));
        let mut after = before.clone();
        after.set_string(1, 0, "ab", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        after.set_string(3, 0, "c", Style::new().bg(Color::Yellow));
        after.set_string(4, 2, "\u{6e2c}x", Style::new().fg(Color::Cyan));
        let text = sequences(before.diff(&after).into_iter());
        let [lines, columns] = [3, 12].map(|n| NonZero::new(n).expect("not zero"));
        let mut terminal = vt100::Parser::new(lines, columns, 0);
        terminal.process(text.as_bytes());
        let screen = terminal.screen();
        assert_eq!(screen.contents(), " abc\n\n    \u{6e2c}x");
        let cell = |line, column| screen.cell(line, column).expect("a cell");
        assert_eq!((cell(0, 1).fgcolor(), cell(0, 2).bold()), (vt100::Color::Idx(1), true));
        assert_eq!((cell(0, 3).bgcolor(), cell(0, 3).bold()), (vt100::Color::Idx(3), false));
        assert_eq!(cell(2, 4).fgcolor(), vt100::Color::Idx(6));
        assert_eq!(text.matches('H').count(), 3, "one move for each piece: {text:?}");
        assert_eq!(sequences(after.diff(&after).into_iter()), "");
    }
}
