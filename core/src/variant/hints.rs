//! Hints that more than one kind of error gives.

pub const AS_ROOT: &str = "run as root: sudo schedlab run PLAN";
