//! Units of time, in nanoseconds, for the tables of knobs. Pure.

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
