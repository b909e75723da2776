//! Telemetry: what touches a run's numbers from outside, and what this machine is fit for.
//! Probes read; they change nothing.

pub mod checkup;
pub mod disturbance;
pub mod sched;

/// Text that others chose (process names, firmware strings), safe for a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
