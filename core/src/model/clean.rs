//! Text from outside that a terminal is to show and not to obey. Pure.

use std::path::Path;

/// `text` with a Rust escape for each character that a terminal acts on or that hides others: see [`is_active`].
pub fn clean(text: &str) -> String {
    replaced(text, |c| is_active(c).then(|| c.escape_default().to_string()))
}

/// `text` with what stands in for some of its characters.
pub fn replaced(text: &str, stands_in: impl Fn(char) -> Option<String>) -> String {
    let mut replaced = String::with_capacity(text.len());
    for c in text.chars() {
        match stands_in(c) {
            Some(text) => replaced.push_str(&text),
            None => replaced.push(c),
        }
    }
    replaced
}

/// Does the same as [`clean`] with a text of several lines.
pub fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// The lines of a text with slashes between them, as [`clean`] gives them; empty ones are left out.
pub fn clean_on_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(clean).collect::<Vec<_>>().join(" / ")
}

/// The beginning of a text as [`clean`] gives it, with dots where the rest is missing.
pub fn clean_start(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}...", clean(&text[..end])),
        None => clean(text),
    }
}

/// A path as a terminal may show it.
pub fn clean_path(path: &Path) -> String {
    clean(&path.to_string_lossy())
}

/// Whether a terminal acts on it, or it hides other characters: control characters, Unicode's
/// Default_Ignorable_Code_Point and format (Cf) sets, the line and paragraph separators.
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
        0x00ad | 0x034f | 0x0600..=0x0605 | 0x061c | 0x06dd | 0x070f | 0x0890..=0x0891 | 0x08e2
        | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
        | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0
        | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3
        | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_words_stay_as_they_are() {
        let cases = [
            ("a \"b\" 'c' \\ grün", "a \"b\" 'c' \\ grün"),
            ("\u{1b}[2J\u{202e}x\ty\n", "\\u{1b}[2J\\u{202e}x\\ty\\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text), expected);
        }
        assert_eq!(clean_start("\u{1b}äb", 2), "\\u{1b}ä...");
        assert_eq!(clean_start("äb", 2), "äb");
        assert_eq!(clean_path(Path::new("a/\u{202e}b")), "a/\\u{202e}b");
        assert_eq!(clean_lines("a\u{9b}\r\nb\n"), "a\\u{9b}\\r\nb\n");
    }
}
