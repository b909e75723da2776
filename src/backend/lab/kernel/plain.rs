//! Text from outside for a terminal. Pure.

/// Text from outside, without characters that a terminal would act on.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || hides {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}
