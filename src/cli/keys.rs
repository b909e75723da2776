//! Keys from the bytes that a terminal sends for them. Pure.
//!
//! Libraries' readers spin at the end of their input, or keep a key back that comes together with a
//! change of size.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Press {
    Char(char),
    /// With Ctrl, or with Alt: no view has a use for them.
    Control(char),
    Alt(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Delete,
    Enter,
    Tab,
    Backspace,
    Esc,
}

const ESCAPE: u8 = 0x1b;

/// The keys of one reading. A sequence comes in one piece; an escape with nothing behind it is the
/// key Esc, and what is not known is left out.
pub fn keys(bytes: &[u8]) -> Vec<Press> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let (key, left) = match (*first, after) {
            (ESCAPE, [b'[', sequence @ ..]) => control_sequence(sequence),
            (ESCAPE, [b'O', letter, left @ ..]) => (named(*letter), left),
            (ESCAPE, [c @ 0x20..0x7f, left @ ..]) => (Some(Press::Alt(char::from(*c))), left),
            (byte @ ..0x80, left) => (Some(plain(byte)), left),
            _ => character(rest),
        };
        keys.extend(key);
        rest = left;
    }
    keys
}

type Parsed<'a> = (Option<Press>, &'a [u8]);

/// Parses the rest of a sequence after `ESC [`: digits and semicolons, and a letter or a tilde.
fn control_sequence(sequence: &[u8]) -> Parsed<'_> {
    let is_end = |byte: &u8| (0x40..0x7f).contains(byte);
    let Some(end) = sequence.iter().position(is_end) else { return (None, &[]) };
    let (parameters, left) = (&sequence[..end], &sequence[end + 1..]);
    let number = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
    let key = match (sequence[end], number) {
        (b'~', b"1" | b"7") => Some(Press::Home),
        (b'~', b"4" | b"8") => Some(Press::End),
        (b'~', b"5") => Some(Press::PageUp),
        (b'~', b"6") => Some(Press::PageDown),
        (b'~', b"3") => Some(Press::Delete),
        (letter, _) => named(letter),
    };
    (key, left)
}

fn named(letter: u8) -> Option<Press> {
    Some(match letter {
        b'A' => Press::Up,
        b'B' => Press::Down,
        b'C' => Press::Right,
        b'D' => Press::Left,
        b'H' => Press::Home,
        b'F' => Press::End,
        _ => return None,
    })
}

fn plain(byte: u8) -> Press {
    match byte {
        ESCAPE => Press::Esc,
        b'\r' | b'\n' => Press::Enter,
        b'\t' => Press::Tab,
        0x08 | 0x7f => Press::Backspace,
        byte @ ..0x20 => Press::Control(char::from(byte | 0x60)),
        byte => Press::Char(char::from(byte)),
    }
}

/// One character of several bytes. A byte that begins none is left out.
fn character(bytes: &[u8]) -> Parsed<'_> {
    let whole = (2..=4.min(bytes.len()))
        .find_map(|end| Some((std::str::from_utf8(&bytes[..end]).ok()?.chars().next()?, end)));
    match whole {
        Some((c, end)) => (Some(Press::Char(c)), &bytes[end..]),
        None => (None, &bytes[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_usual_terminals_are_known_and_others_are_left_out() {
        let c = Press::Char;
        let cases: &[(&[u8], &[Press])] = &[
            (b"", &[]),
            (b"q/", &[c('q'), c('/')]),
            (b"\x1b", &[Press::Esc]),
            (b"\x1b[A\x1bOB\x1b[1;5C\x1b[D", &[Press::Up, Press::Down, Press::Right, Press::Left]),
            (b"\x1b[5~\x1b[6~", &[Press::PageUp, Press::PageDown]),
            (b"\x1b[H\x1b[4~", &[Press::Home, Press::End]),
            (b"\r\x7f\t", &[Press::Enter, Press::Backspace, Press::Tab]),
            (b"\x01", &[Press::Control('a')]),
            (b"\x1bx", &[Press::Alt('x')]),
            ("\u{e4}\u{20ac}".as_bytes(), &[c('\u{e4}'), c('\u{20ac}')]),
            (b"\xffa\xc3", &[c('a')]),
            (b"\x1b[200~a\x1b[99", &[c('a')]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(keys(bytes), *expected, "{bytes:?}");
        }
    }
}
