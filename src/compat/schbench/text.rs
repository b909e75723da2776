//! Prints what schbench prints to stderr, in its layout, so that programs that read its text can read this.
//!
//! Input: figures. Output: lines. Pure. Latencies have percentiles from the 50th on (in pipe mode
//! from the 20th), requests per second up to the 90th.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use crate::model::Reading;
use crate::stats::Histogram;

use super::figures::{Block, PERMILLES, microseconds};
use super::{Closing, Delays, Figures, Mode};

/// Indices into [`PERMILLES`].
const FROM_20TH: RangeInclusive<usize> = 0..=4;
const FROM_50TH: RangeInclusive<usize> = 1..=4;
const UP_TO_90TH: RangeInclusive<usize> = 0..=2;
const STAR_50TH: usize = 1;
const STAR_99TH: usize = 3;

/// The figures every `--intervaltime` seconds, `seconds` after the start. Not in pipe mode.
pub fn interval(
    out: &mut dyn Write,
    figures: &Figures,
    seconds: u64,
    delays: &Reading<Delays>,
    current_rps: f64,
) -> io::Result<()> {
    blocks(out, figures, seconds)?;
    sched_delay(out, delays)?;
    writeln!(out, "current rps: {current_rps:.2}")
}

/// The figures at the end.
pub fn summary(out: &mut dyn Write, figures: &Figures, closing: &Closing) -> io::Result<()> {
    let seconds = closing.seconds;
    if let Some(dropped @ 1..) = closing.dropped {
        writeln!(out, "dropped: {dropped} requests found a full queue")?;
    }
    if let under_way @ 1.. = closing.under_way {
        writeln!(out, "under way: {under_way} latencies had not ended and count with their age")?;
    }
    if let Mode::Pipe { bytes } = closing.mode {
        latencies(out, "Wakeup", &figures.wakeup, seconds, FROM_20TH)?;
        let ops = closing.worker_ops_per_s;
        let (size, unit) = pretty_size(ops * bytes as f64);
        return writeln!(out, "avg worker transfer: {ops:.2} ops/sec {size:.2}{unit}/s");
    }
    blocks(out, figures, seconds)?;
    match closing.goal {
        Some(goal) => writeln!(out, "final rps goal was {goal}")?,
        None => writeln!(out, "average rps: {:.2}", closing.average_rps)?,
    }
    sched_delay(out, &closing.delays)
}

fn blocks(out: &mut dyn Write, figures: &Figures, seconds: u64) -> io::Result<()> {
    if let Some(histogram) = &figures.response {
        response(out, histogram)?;
    }
    latencies(out, "Wakeup", &figures.wakeup, seconds, FROM_50TH)?;
    latencies(out, "Request", &figures.request, seconds, FROM_50TH)?;
    let rates = Block::of_rates(&figures.rps);
    block(out, "RPS percentiles (requests)", &rates, seconds, UP_TO_90TH, STAR_50TH)
}

/// Prints before schbench's blocks and in another form: a search for schbench's percentiles, or for its last
/// line, still finds those.
fn response(out: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    let Block { samples, rows, max, .. } = Block::of_latencies(histogram);
    let [_, p50, p90, p99, p999] = rows.map(|row| row.value);
    writeln!(
        out,
        "response (usec, from the intended arrival): p50 {p50}, p90 {p90}, p99 {p99}, \
         p99.9 {p999}, max {max} ({samples} samples)"
    )
}

fn latencies(
    out: &mut dyn Write,
    name: &str,
    histogram: &Histogram,
    seconds: u64,
    shown: RangeInclusive<usize>,
) -> io::Result<()> {
    let title = format!("{name} Latencies percentiles (usec)");
    block(out, &title, &Block::of_latencies(histogram), seconds, shown, STAR_99TH)
}

fn block(
    out: &mut dyn Write,
    title: &str,
    block: &Block,
    seconds: u64,
    shown: RangeInclusive<usize>,
    star: usize,
) -> io::Result<()> {
    writeln!(out, "{title} runtime {seconds} (s) ({} total samples)", block.samples)?;
    for at in shown {
        let (mark, row) = (if at == star { "* " } else { "  " }, block.rows[at]);
        let percent = f64::from(PERMILLES[at]) / 10.0;
        writeln!(out, "\t{mark}{percent:.1}th: {:<10} ({} samples)", row.value, row.samples)?;
    }
    writeln!(out, "\t  min={}, max={}", block.min, block.max)
}

fn sched_delay(out: &mut dyn Write, delays: &Reading<Delays>) -> io::Result<()> {
    match delays {
        Reading::Known(Delays { message_ns, worker_ns }) => {
            let (message, worker) = (microseconds(*message_ns), microseconds(*worker_ns));
            writeln!(out, "sched delay: message {message} (usec) worker {worker} (usec)")
        }
        Reading::Unknown(reason) => writeln!(out, "sched delay: unknown: {reason}"),
    }
}

/// Scales by powers of 1024, with schbench's names for them.
fn pretty_size(bytes: f64) -> (f64, &'static str) {
    let (mut size, mut unit) = (bytes, "B");
    for next in ["KB", "MB", "GB", "TB", "PB", "EB"] {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, next);
    }
    (size, unit)
}

#[cfg(test)]
mod tests;
