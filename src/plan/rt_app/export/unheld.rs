//! The things that rt-app's language cannot hold, with the set and the key. Pure.

use std::fmt::Display;

use crate::model::{ValueError, show_duration};

/// Where something stands in a plan: ``set `web` ``.
pub fn unheld(place: &str, key: &str, why: impl Display, hint: impl Into<String>) -> ValueError {
    let message = format!("{place}: rt-app cannot hold `{key}`: {why}");
    ValueError { message, hint: hint.into() }
}

/// In whole microseconds.
pub fn us(place: &str, key: &str, ns: u64) -> Result<u64, ValueError> {
    if ns.is_multiple_of(1_000) {
        return Ok(ns / 1_000);
    }
    let why = format!("its times are whole microseconds, not {}", show_duration(ns));
    Err(unheld(
        place,
        key,
        why,
        format!("{} in its place", show_duration(ns.div_ceil(1_000) * 1_000)),
    ))
}
