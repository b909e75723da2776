//! Tags and notes that people write about stored plans, and the checks that refuse some. Pure.

use crate::model::clean;
use serde::{Deserialize, Serialize};

pub const MAX_TAG_CHARS: usize = 40;

pub const MAX_NOTE_BYTES: usize = 16 << 10;

/// The tags and notes of one plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    /// In the order of the alphabet.
    pub tags: Vec<String>,
    /// In the order in which they were written.
    pub notes: Vec<Note>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub written_unix_ns: u64,
    pub text: String,
}

/// Fails with the reason. Nothing that a selection reads as something else (`,`, `*`, `=`) or that a terminal acts on.
pub fn check_tag(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_alphanumeric() || "-_.:/+@".contains(c);
    let count = name.chars().count();
    // `last` is the newest, whatever its tags.
    if name == "last" || name.starts_with("last:") || name == "all" {
        return Err(format!(
            "`{}` is not a tag: it has a meaning of its own in selections",
            clean(name)
        ));
    }
    if (1..=MAX_TAG_CHARS).contains(&count) && name.chars().all(fits) {
        Ok(())
    } else {
        Err(format!(
            "`{}` is not a tag: letters, digits and -_.:/+@, at most {MAX_TAG_CHARS} of them",
            clean(name)
        ))
    }
}

pub fn check_note(text: &str) -> Result<(), String> {
    if !text.trim().is_empty() && text.len() <= MAX_NOTE_BYTES {
        Ok(())
    } else {
        let bytes = text.trim().len();
        Err(format!("a note has from 1 to {MAX_NOTE_BYTES} bytes, and this one has {bytes}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_words_that_no_selection_misreads() {
        for name in ["before-patch", "v1.2", "a/b", "größe", &"x".repeat(MAX_TAG_CHARS)] {
            assert_eq!(check_tag(name), Ok(()), "{name}");
        }
        for name in ["", "a,b", "a*", "a=b", "a b", "\u{1b}[2J", &"x".repeat(MAX_TAG_CHARS + 1)] {
            assert!(check_tag(name).is_err(), "{name}");
        }
        for name in ["last", "last:2", "all"] {
            let why = check_tag(name).unwrap_err();
            assert!(why.contains(name) && why.contains("selections"), "{why}");
        }
        assert!(check_note(" \n").is_err() && check_note("why").is_ok());
        assert!(check_note(&"x".repeat(MAX_NOTE_BYTES + 1)).is_err());
    }
}
