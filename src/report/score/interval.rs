//! A line for each interval of a count that goes on: for logs, and as JSON. Pure.

use crate::analysis::Interval;

use super::json;
use super::page::time;

/// The header above the lines.
pub fn header() -> String {
    let names = ["time", "waits", "p50", "p99", "max", "waiting", "switches", "CPUs used"];
    line(names.map(str::to_string))
}

fn line([at, waits, p50, p99, max, waiting, switches, cpus]: [String; 8]) -> String {
    format!("{at:>8}{waits:>9}{p50:>9}{p99:>9}{max:>9}{waiting:>9}{switches:>10}{cpus:>11}\n")
}

pub fn page(interval: &Interval, as_json: bool) -> String {
    if as_json {
        // Numbers and fixed names are always JSON.
        return json::line("schedlab-score-interval", interval).unwrap_or_default();
    }
    let known = |value: Option<u64>| value.map_or("-".to_string(), |value| value.to_string());
    let of_time = |value: Option<u64>| value.map_or("-".to_string(), time);
    line([
        time(interval.at_ns),
        known(interval.waits),
        of_time(interval.wait_p50_ns),
        of_time(interval.wait_p99_ns),
        of_time(interval.wait_max_ns),
        interval.waiting.to_string(),
        known(interval.switches),
        interval.cpus.map_or("-".to_string(), |cpus| format!("{cpus:.2}")),
    ])
}
