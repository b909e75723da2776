//! Counts in messages. Pure.

/// `1 run`, `2 runs`.
pub fn plural(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}
