//! `gobench`: its values in the Go benchmark data format, so that `benchstat`
//! can check the verdicts. One line per run; sides differ in the configuration line `variant`.
//!
//! Source: the Go project's "Proposal: Go Benchmark Data Format" (14313) and the unit metadata
//! of issue 43744. How to call benchstat: docs/report-formats.md. Pure.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::analysis::{Analysis, SetTable, WorkTable};
use crate::model::{Direction, MetricKind, Unit};

use super::layout::{clean, command_lines, replaced};
use super::phrases;
use super::{Format, Options, Render};

pub const GOBENCH: Format = Format {
    name: "gobench",
    about: "values of every run for Go's benchstat: benchstat -col variant FILE",
    explains: |_| true,
    render: Render::Each(write),
};

fn write(analysis: &Analysis, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    // Lines that begin with # are comments. What differs from side to side has to be one:
    // benchstat would take a second configuration line for another table.
    for line in command_lines("", 4, &clean(&analysis.command), usize::MAX) {
        text.push_str(&format!("# {line}\n"));
    }
    for (unit, better) in units(analysis) {
        text.push_str(&format!("Unit {unit} better={better}\n"));
    }
    let names = phrases::names(&analysis.sides, usize::MAX, clean, "");
    for (side, name) in names.iter().enumerate() {
        let about = phrases::about(analysis, &analysis.sides[side]);
        text.push_str(&format!("\n# {about}\nvariant: {name}\n"));
        analysis.sets().for_each(|(work, set)| runs(work, set, side, &mut text));
    }
    out.write_all(text.as_bytes())
}

/// The better direction of each unit that has the same one everywhere.
fn units(analysis: &Analysis) -> BTreeMap<String, &'static str> {
    let mut units: BTreeMap<String, Option<&str>> = BTreeMap::new();
    for (_, set, row) in analysis.rows() {
        let better = match row.kind.direction {
            Direction::HigherIsBetter => Some("higher"),
            Direction::LowerIsBetter => Some("lower"),
            Direction::Neutral => None,
        };
        let known = units.entry(unit(&row.kind, set)).or_insert(better);
        *known = known.filter(|known| Some(*known) == better);
    }
    units.into_iter().filter_map(|(unit, better)| Some((unit, better?))).collect()
}

/// A line per round, with all that is known of it.
fn runs(work: &WorkTable, set: &SetTable, side: usize, text: &mut String) {
    let mut measured: BTreeMap<u32, String> = BTreeMap::new();
    for row in &set.rows {
        let values = row.cells.get(side).into_iter().flat_map(|cell| &cell.values);
        for (round, value) in values.filter(|(_, value)| value.is_finite()) {
            let measured = measured.entry(*round).or_default();
            measured.push_str(&format!(" {value} {}", unit(&row.kind, set)));
        }
    }
    let name = name(work, set);
    measured.values().for_each(|measured| text.push_str(&format!("{name} 1{measured}\n")));
}

/// `BenchmarkSchedlab/work=web/set=web/threads=4`: keys that `-row` and `-filter` know.
fn name(work: &WorkTable, set: &SetTable) -> String {
    let mut name = format!("BenchmarkSchedlab/work={}/set={}", word(&work.name), word(&set.name));
    for (axis, point) in &work.axes {
        name.push_str(&format!("/{}={}", word(axis), word(point)));
    }
    name
}

/// `wakeup_p99-ns`: what is in front of the dash names the metric, as in `p99-latency-ns` of Go's
/// own benchmarks. benchstat shows ns as seconds.
fn unit(kind: &MetricKind, set: &SetTable) -> String {
    // A dash or a star would be a separator of the unit.
    let word = |text: &str| word(text).replace(['-', '*'], "_");
    let metric = word(&kind.name);
    match kind.unit {
        Unit::Ns => format!("{metric}-ns"),
        Unit::OpsPerS if set.ops.is_empty() => format!("{metric}-ops/s"),
        Unit::OpsPerS => format!("{metric}-{}/s", word(&set.ops)),
        Unit::BytesPerS => format!("{metric}-B/s"),
        Unit::PerS => format!("{metric}/s"),
        Unit::Cpus => format!("{metric}-CPUs"),
        Unit::Joules => format!("{metric}-J"),
        Unit::Ratio | Unit::Count => metric,
    }
}

/// One word of a name: what separates or hides is percent-encoded, so that names stay distinct.
fn word(text: &str) -> String {
    let is_free = |c: char| c.is_alphanumeric() || "._+-:,@*".contains(c);
    let encoded = |c: char| c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    let word = replaced(text, |c| (!is_free(c)).then(|| encoded(c)));
    // Some letters have no form: they are hidden, too.
    match clean(&word).replace(['{', '}', '\\'], "%") {
        empty if empty.is_empty() => "%".to_string(),
        word => word,
    }
}

#[cfg(test)]
mod tests;
