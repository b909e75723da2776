//! The things that rt-app's language cannot hold, with the set and the key. Pure.

use std::fmt::Display;

use crate::model::{ValueError, show_duration};

/// An `int` of microseconds: rt-app makes longer times this one.
const MAX_US: u64 = i32::MAX as u64;

/// Where something stands in a plan: ``set `web` ``.
pub fn unheld(place: &str, key: &str, why: impl Display, hint: impl Into<String>) -> ValueError {
    let message = format!("{place}: rt-app cannot hold `{key}`: {why}");
    ValueError { message, hint: hint.into() }
}

/// In whole microseconds.
pub fn us(place: &str, key: &str, ns: u64) -> Result<u64, ValueError> {
    if ns / 1_000 > MAX_US {
        let why = format!("its times have 32 bits, and {} does not fit", show_duration(ns));
        return Err(unheld(place, key, why, format!("at most {}", show_duration(MAX_US * 1_000))));
    }
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
