//! The name of a pool: it becomes a part of paths, so it can lead nowhere else. Pure.

use std::str::FromStr;

use super::checked_text::checked_text;
use super::clean;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub const MAX_POOL_NAME_BYTES: usize = 64;

/// 1 to 64 of `A-Z a-z 0-9 _ . -`, no dot first and no two dots in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PoolName(String);

/// `shown` is the beginning of the text that is not a name, printable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{shown}` is not the name of a pool")]
pub struct PoolNameError {
    shown: String,
}

impl PoolName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PoolName {
    type Err = PoolNameError;

    fn from_str(text: &str) -> Result<Self, PoolNameError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        let length = 1..=MAX_POOL_NAME_BYTES;
        let fits = length.contains(&text.len()) && text.bytes().all(plain);
        if !fits || text.starts_with('.') || text.contains("..") {
            let start = text.chars().take(MAX_POOL_NAME_BYTES);
            return Err(PoolNameError { shown: clean(&start.collect::<String>()) });
        }
        Ok(PoolName(text.to_string()))
    }
}

checked_text!(PoolName, PoolNameError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_no_other_folder() {
        let longest = "x".repeat(MAX_POOL_NAME_BYTES);
        for name in ["bench", "a.b-c_9", "A", "-", "0", &longest] {
            assert_eq!(name.parse::<PoolName>().map(String::from).as_deref(), Ok(name));
        }
        let too_long = "x".repeat(MAX_POOL_NAME_BYTES + 1);
        let bad = ["", ".", "..", ".a", "a..b", "a/b", "/", "a b", "a\n", "\u{1b}[1m", "ä"];
        for name in bad.into_iter().chain([too_long.as_str()]) {
            let refused = name.parse::<PoolName>().unwrap_err().to_string();
            assert!(!refused.contains(['\u{1b}', '\n']), "{refused}");
            let stored = serde_json::to_string(name).unwrap();
            assert!(serde_json::from_str::<PoolName>(&stored).is_err(), "{name}");
        }
    }
}
