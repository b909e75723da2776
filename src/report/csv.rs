//! `csv`: one row per work, set, metric and side, then one per value of a run. Columns are
//! described in docs/report-formats.md. Pure.

use std::io::{self, Write};

use csv::Writer;
use serde::Serialize;

use crate::analysis::{Analysis, Cell, Family, Row, SetTable, Side, WorkTable};
use crate::stats::{Judged, Ratio};

use super::layout::clean;
use super::phrases::{self, Needed};
use super::{Format, Options};

/// A row of the file. What is not known is empty; `kind` is `summary`, `run`, `fairness` or
/// `note`.
#[derive(Default, Serialize)]
struct Line {
    kind: &'static str,
    plan: String,
    work: String,
    set: String,
    workload: String,
    metric: String,
    unit: String,
    ops: String,
    direction: String,
    family: String,
    side: String,
    baseline: Option<bool>,
    round: Option<u32>,
    value: Option<f64>,
    reason: String,
    n: Option<usize>,
    mean: Option<f64>,
    hmean: Option<f64>,
    median: Option<f64>,
    cv: Option<f64>,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    pairs: Option<usize>,
    verdict: String,
    why: String,
    rounds: String,
    p_difference: Option<f64>,
    p_same: Option<f64>,
    decided_at: Option<u32>,
    time: String,
    kernel: String,
}

pub struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "every summary, value and note in full precision, for spreadsheets, R and pandas"
    }

    fn render(&self, analyses: &[Analysis], _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = Writer::from_writer(out);
        if analyses.is_empty() {
            let reason = "nothing to report".to_string();
            writer.serialize(Line { kind: "note", reason, ..Line::default() }).map_err(plain)?;
        }
        analyses.iter().try_for_each(|analysis| write_lines(analysis, &mut writer))?;
        writer.flush()
    }
}

fn write_lines(analysis: &Analysis, writer: &mut Writer<&mut dyn Write>) -> io::Result<()> {
    let plans: Vec<&str> = analysis.plans.iter().map(|plan| plan.id.as_str()).collect();
    let plans = text(&plans.join(" "));
    let mut write =
        |line: Line| writer.serialize(Line { plan: plans.clone(), ..line }).map_err(plain);
    if analysis.works.is_empty() && analysis.notes.is_empty() {
        let reason = "nothing was measured".to_string();
        write(Line { kind: "note", reason, ..Line::default() })?;
    }
    for (work, set, row) in analysis.rows() {
        for (at, (side, cell)) in analysis.sides.iter().zip(&row.cells).enumerate() {
            let place = || place(work, set, row, side);
            let ratio = analysis.ratio(row, at).filter(|_| at > 0);
            write(summary(place(), cell, ratio, at == 0))?;
            for run in runs(&place, cell) {
                write(run)?;
            }
        }
    }
    for work in &analysis.works {
        for line in fairness(work) {
            write(line)?;
        }
    }
    for note in &analysis.notes {
        let (word, sentence) = phrases::note(analysis, note);
        let reason = text(&sentence);
        write(Line { kind: "note", metric: word.to_string(), reason, ..Line::default() })?;
    }
    Ok(())
}

fn plain(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A text from outside: clean, and never a formula that a spreadsheet would run.
fn text(text: &str) -> String {
    let text = clean(text);
    match text.starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text,
    }
}

/// The word that JSON has for it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn place(work: &WorkTable, set: &SetTable, row: &Row, side: &Side) -> Line {
    Line {
        work: text(&work.label),
        set: text(&set.name),
        workload: text(&set.workload),
        metric: text(&row.kind.name),
        unit: word(&row.kind.unit),
        ops: text(&set.ops),
        direction: word(&row.kind.direction),
        family: if row.family == Family::None { String::new() } else { word(&row.family) },
        side: text(&side.label),
        time: side.times.word().unwrap_or_default().to_string(),
        kernel: text(&side.kernels.join("; ")),
        ..Line::default()
    }
}

fn summary(place: Line, cell: &Cell, ratio: Option<Ratio>, baseline: bool) -> Line {
    let interval = ratio.and_then(|ratio| ratio.interval);
    let Cell { values, mean, hmean, median, cv, judged, .. } = cell;
    let line = Line {
        kind: "summary",
        baseline: Some(baseline),
        n: Some(values.len()),
        mean: *mean,
        hmean: *hmean,
        median: *median,
        cv: *cv,
        ratio: ratio.map(|ratio| ratio.ratio),
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        pairs: ratio.map(|ratio| ratio.pairs),
        ..place
    };
    let Some(Judged { verdict, p_difference, p_same, decided_at, .. }) = judged else {
        return line;
    };
    let (word, why) = phrases::keys(verdict);
    let rounds = phrases::rounds(verdict).map(|rounds| match rounds {
        Needed::About(rounds) => rounds.to_string(),
        bound => phrases::show_rounds(bound),
    });
    Line {
        verdict: word.to_string(),
        why: why.unwrap_or_default().to_string(),
        rounds: rounds.unwrap_or_default(),
        p_difference: *p_difference,
        p_same: *p_same,
        decided_at: *decided_at,
        ..line
    }
}

fn runs(place: &impl Fn() -> Line, cell: &Cell) -> Vec<Line> {
    let run = |round: &u32| Line { kind: "run", round: Some(*round), ..place() };
    let known = cell.values.iter().map(|(round, value)| Line { value: Some(*value), ..run(round) });
    let unknown = cell.unknown.iter().map(|(round, why)| Line { reason: text(why), ..run(round) });
    known.chain(unknown).collect()
}

/// One row per variant, set and figure: medians over rounds.
fn fairness(work: &WorkTable) -> Vec<Line> {
    let mut lines = Vec::new();
    for variant in work.fairness.iter().flat_map(|table| &table.variants) {
        let mut figure = |set: &str, metric: &str, reading: crate::model::Reading<f64>| {
            let (value, reason) = match reading {
                crate::model::Reading::Known(value) => (Some(value), String::new()),
                crate::model::Reading::Unknown(why) => (None, text(&why)),
            };
            lines.push(Line {
                kind: "fairness",
                work: text(&work.label),
                set: text(set),
                metric: metric.to_string(),
                side: text(&variant.variant),
                n: Some(variant.rounds.len()),
                median: value,
                reason,
                ..Line::default()
            });
        };
        figure("", "cpus", variant.cpus.median());
        figure("", "jain", variant.jain.median());
        for set in &variant.sets {
            for (metric, rounds) in set.figures() {
                figure(&set.set, metric, rounds.median());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests;
