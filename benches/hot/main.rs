//! `cargo bench`: the figures that the hot loops must reach, measured and printed.
//!
//! A row is one [`Row`] below. Words on the command line choose rows by part of their name:
//! `cargo bench -- ping-pong`. Nothing fails here: numbers of a busy machine are for people.

mod adaptive;
mod burnwait;
mod drop_in;
mod hosts;
mod ping_pong;
mod plan;
mod sample;
mod samples;
mod schbench;
mod schedbench;
mod score;
mod verdicts;
mod worker_group;

/// One line of the table.
pub struct Row {
    pub name: &'static str,
    pub unit: &'static str,
    pub reach: Reach,
    /// The measured number, or why there is none.
    pub measure: fn() -> Result<f64, String>,
}

pub enum Reach {
    Below(f64),
    AtLeast(f64),
    /// At most this far from 1, on either side.
    NearOne(f64),
    /// For comparison only.
    None,
}

const ROWS: &[Row] = &[
    sample::TIME,
    sample::ALLOCATIONS,
    ping_pong::BARE_LATENCY,
    ping_pong::RATIO,
    ping_pong::RATIO_TIMED,
    schbench::OPERATION,
    drop_in::CALIBRATE,
    drop_in::CALIBRATE_128,
    drop_in::CALIBRATE_32,
    drop_in::SATURATED,
    drop_in::SATURATED_NO_LOCKING,
    drop_in::PIPE,
    drop_in::MEMORY,
    drop_in::MEMORY_OF_THE_PROGRAM,
    drop_in::MANY,
    drop_in::MANY_OF_THE_PROGRAM,
    burnwait::CALIBRATION,
    burnwait::CALIBRATION_TO_THE_PROGRAM,
    burnwait::CPU_TIME,
    burnwait::CPU_TIME_OF_THE_FAMILY,
    burnwait::OVERCOMMITTED,
    burnwait::OVERCOMMITTED_SAMPLE,
    schedbench::TIME,
    schedbench::MEMORY,
    score::RATE,
    score::LOST,
    score::MEMORY,
    score::MEMORY_AND_FILES,
    samples::TIME,
    samples::MEMORY,
    samples::VERDICTS,
    samples::VERDICTS_MEMORY,
    samples::EXPORT,
    samples::EXPORT_MEMORY,
    samples::HEADS,
    plan::OVERHEAD,
    plan::MEMORY,
    plan::CONSTANT_MEMORY,
    plan::MANY,
    plan::QUICK,
];

impl Reach {
    fn show(&self) -> String {
        match self {
            Reach::Below(most) => format!("< {most}"),
            Reach::AtLeast(least) => format!(">= {least}"),
            Reach::NearOne(far) => format!("1 +- {far}"),
            Reach::None => String::new(),
        }
    }

    fn verdict(&self, value: f64) -> &'static str {
        let reached = match self {
            Reach::Below(most) => value < *most,
            Reach::AtLeast(least) => value >= *least,
            Reach::NearOne(far) => (value - 1.0).abs() <= *far,
            Reach::None => return "",
        };
        if reached { "reached" } else { "MISSED" }
    }
}

/// The middle of the numbers; 0 for none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!("{:<58} {:>10} {:>12} unit", "what", "reach", "measured");
    let verdicts = verdicts::SAME.iter().chain(&verdicts::UNPAIRED).chain(&verdicts::OTHERS);
    for row in ROWS.iter().chain(verdicts).chain(&adaptive::ROWS).chain(&hosts::ROWS) {
        if !chosen.is_empty() && !chosen.iter().any(|word| row.name.contains(word.as_str())) {
            continue;
        }
        let (name, reach) = (row.name, row.reach.show());
        match (row.measure)() {
            Ok(value) => {
                let verdict = row.reach.verdict(value);
                println!("{name:<58} {reach:>10} {value:>12.3} {:<6} {verdict}", row.unit);
            }
            Err(why) => println!("{name:<58} {reach:>10} {:>12} {why}", "left out:"),
        }
    }
}
