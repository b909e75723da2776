//! Words for a shell. Pure.

/// A word for a shell to take back: data from outside stays one word.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell_stay_one_word() {
        for (word, expected) in [
            ("last:10", "last:10"),
            ("kernel=6.1.*", "'kernel=6.1.*'"),
            ("a b", "'a b'"),
            ("it's;rm", "'it'\\''s;rm'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
