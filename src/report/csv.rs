//! `csv`: one row per work, set, metric and side, then one per value of a run. Columns are
//! described in docs/report-formats.md. Pure.

use std::io::{self, Write};

use csv::Writer;
use serde::Serialize;

use crate::analysis::{Analysis, Cell, Family, Row, SetTable, Side, WorkTable};
use crate::model::Reading;
use crate::stats::{Distance, Effect, MeanDifference};

use super::layout::clean;
use super::phrases::{self, Needed, key};
use super::{Format, Render};

/// A row. What is not known is empty; `kind` is `summary`, `run`, `fairness` or `note`.
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
    difference: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    pairs: Option<usize>,
    verdict: String,
    why: String,
    rounds: String,
    p_difference: Option<f64>,
    p_same: Option<f64>,
    bound: Option<f64>,
    decided_at: Option<u32>,
    time: &'static str,
    kernel: String,
    host: String,
    differs: Option<bool>,
}

pub const CSV: Format = Format {
    name: "csv",
    about: "every summary, value and note in full precision, for spreadsheets, R and pandas",
    explains: |_| true,
    render: Render::All(write),
};

fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer::from_writer(out);
    if analyses.is_empty() {
        writer.serialize(note("", "nothing to report")).map_err(io_error)?;
    }
    for analysis in analyses {
        let plans: Vec<&str> = analysis.plans.iter().map(|plan| plan.id.as_str()).collect();
        let plans = text(&plans.join(" "));
        for line in lines(analysis) {
            writer.serialize(Line { plan: plans.clone(), ..line }).map_err(io_error)?;
        }
    }
    writer.flush()
}

/// In the order of the file.
fn lines(analysis: &Analysis) -> impl Iterator<Item = Line> {
    let is_empty = analysis.works.is_empty() && analysis.notes.is_empty();
    let nothing = is_empty.then(|| note("", "nothing was measured"));
    let cells = analysis.rows().flat_map(move |(work, set, row)| {
        let sides = analysis.sides.iter().zip(&row.cells).enumerate();
        sides.flat_map(move |(at, (side, cell))| {
            let place = move || place(work, set, row, side);
            let effect = analysis.effect(row, at).filter(|_| at > 0);
            let summary = std::iter::once(summary(place(), cell, effect, at == 0));
            let is_of_hosts = !analysis.hosts.is_empty();
            let runs = (!is_of_hosts).then(|| runs(place, cell)).into_iter().flatten();
            summary.chain(runs).chain(hosts(analysis, place, cell))
        })
    });
    let notes = analysis.notes.iter().map(|note| phrases::note(analysis, note));
    let notes = notes.map(|(word, sentence)| note(word, &sentence));
    nothing.into_iter().chain(cells).chain(analysis.works.iter().flat_map(fairness)).chain(notes)
}

fn note(word: &str, sentence: &str) -> Line {
    Line { kind: "note", metric: word.to_string(), reason: text(sentence), ..Line::default() }
}

pub(super) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A text from outside: clean, and never a formula that a spreadsheet would run.
pub(super) fn text(text: &str) -> String {
    let text = clean(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

fn place(work: &WorkTable, set: &SetTable, row: &Row, side: &Side) -> Line {
    Line {
        work: text(&work.label),
        set: text(&set.name),
        workload: text(&set.workload),
        metric: text(&row.kind.name),
        unit: key(&row.kind.unit),
        ops: text(&set.ops),
        direction: key(&row.kind.direction),
        family: if row.family == Family::None { String::new() } else { key(&row.family) },
        side: text(&side.label),
        time: side.times.word().unwrap_or_default(),
        kernel: text(&side.kernels.join("; ")),
        ..Line::default()
    }
}

fn summary(place: Line, cell: &Cell, effect: Option<Effect>, baseline: bool) -> Line {
    let interval = effect.and_then(|effect| effect.interval());
    let difference = match effect {
        Some(Effect::Difference(MeanDifference { difference, .. })) => Some(difference),
        _ => None,
    };
    let judged = cell.judged.as_ref();
    let verdict = judged.map(|judged| &judged.verdict);
    let (word, why) = verdict.map(phrases::keys).unwrap_or_default();
    let rounds = judged.and_then(phrases::rounds).map(|rounds| match rounds {
        Needed::About(rounds) => rounds.to_string(),
        bound => phrases::show_rounds(bound),
    });
    Line {
        kind: "summary",
        baseline: Some(baseline),
        n: Some(cell.values.len()),
        mean: cell.mean,
        hmean: cell.hmean,
        median: cell.median,
        cv: cell.cv,
        ratio: effect.and_then(|effect| effect.ratio()).map(|ratio| ratio.ratio),
        difference,
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        pairs: effect.map(|effect| effect.pairs()),
        verdict: word,
        why: why.unwrap_or_default(),
        rounds: rounds.unwrap_or_default(),
        p_difference: judged.and_then(|judged| judged.p_difference),
        p_same: judged.and_then(|judged| judged.p_same),
        bound: judged.and_then(|judged| judged.bound).map(Distance::value),
        decided_at: judged.and_then(|judged| judged.decided_at),
        ..place
    }
}

fn runs(place: impl Fn() -> Line, cell: &Cell) -> impl Iterator<Item = Line> {
    let known = cell.values.iter().map(|(round, value)| (round, Some(*value), String::new()));
    let unknown = cell.unknown.iter().map(|(round, why)| (round, None, text(why)));
    known.chain(unknown).map(move |(round, value, reason)| Line {
        kind: "run",
        round: Some(*round),
        value,
        reason,
        ..place()
    })
}

/// A line for each host's ratio, then one for the interval of a further host.
fn hosts(analysis: &Analysis, place: impl Fn() -> Line, cell: &Cell) -> Vec<Line> {
    let over = cell.over_hosts.as_ref();
    let own = over.into_iter().flat_map(|over| &over.hosts).map(|own| Line {
        kind: "host",
        host: analysis.hosts.get(own.host).map(|host| text(&host.name)).unwrap_or_default(),
        ratio: Some(own.ratio.ratio),
        low: own.ratio.interval.map(|of| of.low),
        high: own.ratio.interval.map(|of| of.high),
        pairs: Some(own.ratio.pairs),
        differs: Some(own.differs),
        ..place()
    });
    let further = over.and_then(|over| over.further).map(|of| Line {
        kind: "further_host",
        low: Some(of.low),
        high: Some(of.high),
        ..place()
    });
    own.chain(further).collect()
}

/// One row per variant, set and figure: medians over rounds.
fn fairness(work: &WorkTable) -> impl Iterator<Item = Line> {
    work.fairness.iter().flat_map(|table| &table.variants).flat_map(|variant| {
        let of_all = [("", ("cpus", &variant.cpus)), ("", ("jain", &variant.jain))];
        let of_sets = variant
            .sets
            .iter()
            .flat_map(|set| set.figures.iter().map(|(name, rounds)| (&*set.set, (*name, rounds))));
        of_all.into_iter().chain(of_sets).map(|(set, (metric, rounds))| {
            let (median, reason) = match rounds.median() {
                Reading::Known(median) => (Some(median), String::new()),
                Reading::Unknown(why) => (None, text(&why)),
            };
            Line {
                kind: "fairness",
                work: text(&work.label),
                set: text(set),
                metric: metric.to_string(),
                side: text(&variant.variant),
                n: Some(variant.rounds.len()),
                median,
                reason,
                ..Line::default()
            }
        })
    })
}

#[cfg(test)]
mod tests;
