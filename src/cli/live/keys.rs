//! The effect of keys on the live view: which rows are shown, and whether help is. Pure.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

#[derive(Default)]
pub struct Keys {
    pub help: bool,
    /// The first row that is shown.
    first: usize,
    rows: usize,
    room: usize,
}

impl Keys {
    /// Takes a key in; whether it asks for an interruption.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        let page = self.room.max(1);
        let first = match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Char('?') => {
                self.help = !self.help;
                return false;
            }
            KeyCode::Esc => {
                self.help = false;
                return false;
            }
            KeyCode::Down | KeyCode::Char('j') => self.first + 1,
            KeyCode::Up | KeyCode::Char('k') => self.first.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.first + page,
            KeyCode::PageUp | KeyCode::Char('b') => self.first.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => self.rows,
            _ => return false,
        };
        self.first = first.min(self.rows.saturating_sub(self.room));
        false
    }

    /// The first row that is shown, of `rows` with room for `room`.
    pub fn page(&mut self, rows: usize, room: usize) -> usize {
        (self.rows, self.room) = (rows, room);
        self.first = self.first.min(rows.saturating_sub(room));
        self.first
    }

    /// `rows 1-14 of 22`, where not all are shown.
    pub fn shown(&self) -> Option<String> {
        let last = (self.first + self.room).min(self.rows);
        let text = || format!("rows {}-{last} of {}", self.first + 1, self.rows);
        (self.rows > self.room && !self.help).then(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_scroll_no_further_than_they_go() {
        let mut keys = Keys::default();
        assert_eq!((keys.page(22, 10), keys.shown().unwrap()), (0, "rows 1-10 of 22".to_string()));
        let cases = [
            (KeyCode::Up, 0),
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 11),
            (KeyCode::Char(' '), 12),
            (KeyCode::End, 12),
            (KeyCode::Char('k'), 11),
            (KeyCode::PageUp, 1),
            (KeyCode::Char('G'), 12),
            (KeyCode::Home, 0),
            (KeyCode::Char('x'), 0),
        ];
        for (code, expected) in cases {
            assert!(!keys.press(KeyEvent::from(code)));
            assert_eq!(keys.page(22, 10), expected, "{code:?}");
        }
        keys.press(KeyEvent::from(KeyCode::End));
        // A larger window shows more, and what it shows is full.
        assert_eq!((keys.page(22, 20), keys.page(22, 30), keys.shown()), (2, 0, None));
    }

    #[test]
    fn help_comes_and_goes_and_q_interrupts() {
        let mut keys = Keys::default();
        for (code, expected) in
            [(KeyCode::Char('?'), true), (KeyCode::Char('?'), false), (KeyCode::Esc, false)]
        {
            assert!(!keys.press(KeyEvent::from(code)));
            assert_eq!(keys.help, expected);
        }
        assert!(keys.press(KeyEvent::from(KeyCode::Char('q'))));
    }
}
