//! The effect of keys on the live view: which rows are shown, and whether help is. Pure.

use crate::cli::keys::Press;

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
    pub fn press(&mut self, key: Press) -> bool {
        let page = self.room.max(1);
        let first = match key {
            Press::Char('q') => return true,
            Press::Char('?') => {
                self.help = !self.help;
                return false;
            }
            Press::Esc => {
                self.help = false;
                return false;
            }
            Press::Down | Press::Char('j') => self.first + 1,
            Press::Up | Press::Char('k') => self.first.saturating_sub(1),
            Press::PageDown | Press::Char(' ') => self.first + page,
            Press::PageUp | Press::Char('b') => self.first.saturating_sub(page),
            Press::Home | Press::Char('g') => 0,
            Press::End | Press::Char('G') => self.rows,
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
            (Press::Up, 0),
            (Press::Down, 1),
            (Press::PageDown, 11),
            (Press::Char(' '), 12),
            (Press::End, 12),
            (Press::Char('k'), 11),
            (Press::PageUp, 1),
            (Press::Char('G'), 12),
            (Press::Home, 0),
            (Press::Char('x'), 0),
        ];
        for (code, expected) in cases {
            assert!(!keys.press(code));
            assert_eq!(keys.page(22, 10), expected, "{code:?}");
        }
        keys.press(Press::End);
        // A larger window shows more, and what it shows is full.
        assert_eq!((keys.page(22, 20), keys.page(22, 30), keys.shown()), (2, 0, None));
    }

    #[test]
    fn help_comes_and_goes_and_q_interrupts() {
        let mut keys = Keys::default();
        for (code, expected) in
            [(Press::Char('?'), true), (Press::Char('?'), false), (Press::Esc, false)]
        {
            assert!(!keys.press(code));
            assert_eq!(keys.help, expected);
        }
        assert!(keys.press(Press::Char('q')));
    }
}
