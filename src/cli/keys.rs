//! Keys from the bytes that a terminal sends for them. Pure.
//!
//! Crossterm's own reader spins at the end of its input, and keeps a key back that comes together
//! with a change of size; its words for keys are used.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const ESCAPE: u8 = 0x1b;

/// The keys of one reading. A sequence comes in one piece; an escape with nothing behind it is the
/// key Esc, and what is not known is left out.
pub fn keys(bytes: &[u8]) -> Vec<KeyEvent> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let (key, left) = match (*first, after) {
            (ESCAPE, [b'[', sequence @ ..]) => control_sequence(sequence),
            (ESCAPE, [b'O', letter, left @ ..]) => (named(*letter), left),
            (ESCAPE, [c @ 0x20..0x7f, left @ ..]) => {
                (Some(KeyEvent::new(KeyCode::Char(char::from(*c)), KeyModifiers::ALT)), left)
            }
            (byte @ ..0x80, left) => (Some(plain(byte)), left),
            _ => character(rest),
        };
        keys.extend(key);
        rest = left;
    }
    keys
}

type Parsed<'a> = (Option<KeyEvent>, &'a [u8]);

/// Parses the rest of a sequence after `ESC [`: digits and semicolons, and a letter or a tilde.
fn control_sequence(sequence: &[u8]) -> Parsed<'_> {
    let is_end = |byte: &u8| (0x40..0x7f).contains(byte);
    let Some(end) = sequence.iter().position(is_end) else { return (None, &[]) };
    let (parameters, left) = (&sequence[..end], &sequence[end + 1..]);
    let number = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
    let key = match (sequence[end], number) {
        (b'~', b"1" | b"7") => Some(KeyCode::Home.into()),
        (b'~', b"4" | b"8") => Some(KeyCode::End.into()),
        (b'~', b"5") => Some(KeyCode::PageUp.into()),
        (b'~', b"6") => Some(KeyCode::PageDown.into()),
        (b'~', b"3") => Some(KeyCode::Delete.into()),
        (letter, _) => named(letter),
    };
    (key, left)
}

fn named(letter: u8) -> Option<KeyEvent> {
    Some(match letter {
        b'A' => KeyCode::Up.into(),
        b'B' => KeyCode::Down.into(),
        b'C' => KeyCode::Right.into(),
        b'D' => KeyCode::Left.into(),
        b'H' => KeyCode::Home.into(),
        b'F' => KeyCode::End.into(),
        _ => return None,
    })
}

fn plain(byte: u8) -> KeyEvent {
    match byte {
        ESCAPE => KeyCode::Esc.into(),
        b'\r' | b'\n' => KeyCode::Enter.into(),
        b'\t' => KeyCode::Tab.into(),
        0x08 | 0x7f => KeyCode::Backspace.into(),
        byte @ ..0x20 => {
            let letter = char::from(byte | 0x60);
            KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)
        }
        byte => KeyCode::Char(char::from(byte)).into(),
    }
}

/// One character of several bytes. A byte that begins none is left out.
fn character(bytes: &[u8]) -> Parsed<'_> {
    let whole = (2..=4.min(bytes.len()))
        .find_map(|end| Some((std::str::from_utf8(&bytes[..end]).ok()?.chars().next()?, end)));
    match whole {
        Some((c, end)) => (Some(KeyCode::Char(c).into()), &bytes[end..]),
        None => (None, &bytes[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_usual_terminals_are_known_and_others_are_left_out() {
        let code = |code: KeyCode| KeyEvent::from(code);
        let c = |c: char| code(KeyCode::Char(c));
        let with = |c, modifiers| KeyEvent::new(KeyCode::Char(c), modifiers);
        let cases: &[(&[u8], &[KeyEvent])] = &[
            (b"", &[]),
            (b"q/", &[c('q'), c('/')]),
            (b"\x1b", &[code(KeyCode::Esc)]),
            (
                b"\x1b[A\x1bOB\x1b[1;5C\x1b[D",
                &[
                    code(KeyCode::Up),
                    code(KeyCode::Down),
                    code(KeyCode::Right),
                    code(KeyCode::Left),
                ],
            ),
            (b"\x1b[5~\x1b[6~", &[code(KeyCode::PageUp), code(KeyCode::PageDown)]),
            (b"\x1b[H\x1b[4~", &[code(KeyCode::Home), code(KeyCode::End)]),
            (b"\r\x7f\t", &[code(KeyCode::Enter), code(KeyCode::Backspace), code(KeyCode::Tab)]),
            (b"\x01", &[with('a', KeyModifiers::CONTROL)]),
            (b"\x1bx", &[with('x', KeyModifiers::ALT)]),
            ("\u{e4}\u{20ac}".as_bytes(), &[c('\u{e4}'), c('\u{20ac}')]),
            (b"\xffa\xc3", &[c('a')]),
            (b"\x1b[200~a\x1b[99", &[c('a')]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(keys(bytes), *expected, "{bytes:?}");
        }
    }
}
