//! Renders how well the lab predicts a host: `schedlab compare --fidelity`. Pure.

use std::io::{self, Write};

use serde::Serialize;

use super::json::{Document, write_lines};
use super::layout::{Align, Page, Table, Tone, clean};
use super::numbers::{Change, Scale, counted};
use super::{Options, OtherFormats, answer, phrases};
use crate::analysis::fidelity::{NEAR_THROUGHPUT, NEAR_WAKEUP, Share, Summary};
use crate::analysis::{
    Analysis, Fidelity, FidelityRow, Instrument, Lone, Measured, Note, Only, Prediction,
};
use crate::model::Unit;
use crate::stats::{Distance, Verdict};

const VERSION: u32 = 1;

pub const FORMATS: &OtherFormats<Fidelity> =
    &[("text", text), ("markdown", markdown), ("csv", csv), ("json", json)];

/// Column heads of a row.
const HEADS: [&str; 9] = ["metric", "variant", "host", "", "", "lab", "", "", ""];
/// Behind a row in which the two disagree.
const MARK: &str = "<>";

fn text(fidelity: &Fidelity, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(options);
    for (name, analysis) in [("host      ", &fidelity.host), ("lab       ", &fidelity.lab)] {
        page.wrapped(Tone::Plain, name, &about(analysis));
    }
    page.gap();
    let shown: Vec<&FidelityRow> = rows_to_show(fidelity, options).collect();
    rows(fidelity, &shown, &mut page);
    if shown.iter().any(|row| row.disagrees) {
        page.wrapped(Tone::Plain, &format!("{MARK:9} "), "the host and the lab disagree");
    }
    let hidden = fidelity.rows.len() - shown.len();
    if hidden > 0 {
        let text = format!(
            "{} that the host calls SAME, or that neither decides: -v",
            counted(hidden, "further row")
        );
        page.wrapped(Tone::Plain, "more      ", &text);
        page.gap();
    }
    for only in &fidelity.only {
        page.wrapped(Tone::Warning, "only      ", &self::only(only));
    }
    for (instrument, tone, text) in notes(fidelity, options) {
        page.wrapped(tone, &format!("{instrument:9} "), &text);
    }
    if options.verbose > 0 {
        far(fidelity).for_each(|text| page.wrapped(Tone::Plain, "far       ", &text));
    }
    for (label, tone, text) in summary(&fidelity.summary) {
        page.wrapped(tone, &format!("{label:9} "), &text);
    }
    page.command("again", 10, &clean(&fidelity.host.command));
    out.write_all(page.text().as_bytes())
}

/// Describes the plan or the side that one instrument measured.
fn about(analysis: &Analysis) -> String {
    match analysis.plans.as_slice() {
        [plan] => format!("{}: {}", clean(&plan.id), phrases::plan(analysis, plan)),
        _ => {
            let first = analysis.sides.first();
            first.map(|side| phrases::about(analysis, side)).unwrap_or_default()
        }
    }
}

/// Rows in which the host sees a difference, or the lab another one than the host, and those that the lab alone
/// decides; with `-v` all.
fn rows_to_show<'a>(
    fidelity: &'a Fidelity,
    options: &Options,
) -> impl Iterator<Item = &'a FidelityRow> + use<'a> {
    let all = options.verbose > 0;
    fidelity.rows.iter().filter(move |row| {
        let differs = matches!(row.host.verdict, Some(Verdict::Better | Verdict::Worse));
        all || differs || row.disagrees || row.is_settled()
    })
}

fn place(work: &str, set: &Option<String>) -> String {
    clean(&set.as_ref().map_or(work.to_string(), |set| format!("{work} {set}")))
}

/// Change, interval and verdict of both, and the mark.
fn cells(fidelity: &Fidelity, row: &FidelityRow) -> [String; 7] {
    let both = [(&row.host, &fidelity.host), (&row.lab, &fidelity.lab)];
    let [host, lab] = both.map(|(found, analysis)| {
        let change = found.ratio.as_ref().map(Change::from_ratio);
        let [change, interval] =
            change.map_or_else(Default::default, |of| [of.change, of.interval]);
        (change, interval, verdict(analysis, row).unwrap_or_default())
    });
    let mark = if row.disagrees { MARK } else { "" };
    [host.0, host.1, host.2, lab.0, lab.1, lab.2, mark.to_string()]
}

/// The verdict of one instrument as its own report has it, with its bound and mark.
fn verdict(analysis: &Analysis, of: &FidelityRow) -> Option<String> {
    let (.., row) = analysis.rows().find(|(work, set, row)| {
        let is_set = of.set.as_ref().is_none_or(|name| set.name == *name);
        work.label == of.work && is_set && row.kind.name == of.metric
    })?;
    let side = analysis.sides.iter().position(|side| side.label == of.variant)?;
    phrases::verdict(analysis, row, row.cells.get(side)?)
}

fn tone(row: &FidelityRow) -> Tone {
    match row.prediction {
        Some(Prediction::Contradicts) => Tone::Bad,
        _ if row.disagrees => Tone::Warning,
        _ => Tone::Plain,
    }
}

/// One table of all rows, so that columns stand below each other, with the places between them.
fn rows(fidelity: &Fidelity, rows: &[&FidelityRow], page: &mut Page) {
    if rows.is_empty() {
        return;
    }
    let columns = [
        (Align::Left, 0),
        (Align::Left, 2),
        (Align::Right, 2),
        (Align::Left, 1),
        (Align::Left, 1),
        (Align::Right, 2),
        (Align::Left, 1),
        (Align::Left, 1),
        (Align::Left, 1),
    ];
    let mut table = Table::new(columns.to_vec());
    table.row(Tone::Bold, HEADS.map(str::to_string).to_vec());
    for row in rows {
        let mut line = vec![clean(&row.metric), clean(&row.variant)];
        line.extend(cells(fidelity, row));
        table.row(tone(row), line);
    }
    let fits = table.width() <= page.width();
    let mut last: Option<String> = None;
    for (at, (tone, line)) in table.lines().into_iter().enumerate() {
        let row = at.checked_sub(1).map(|at| rows[at]);
        let place = row.map(|row| place(&row.work, &row.set));
        if let Some(place) = place.as_ref().filter(|place| last.as_ref() != Some(*place)) {
            page.wrapped(Tone::Bold, "== ", place);
        }
        match (fits, row) {
            (true, _) => page.line(tone, &line),
            (false, Some(_)) => {
                let words: Vec<&str> = line.split_whitespace().collect();
                page.wrapped(tone, "- ", &words.join(" "));
            }
            (false, None) => {}
        }
        last = place;
    }
    page.gap();
}

fn word(instrument: Instrument) -> &'static str {
    match instrument {
        Instrument::Host => "host",
        Instrument::Lab => "lab",
    }
}

/// `variant no-autogroup: on the lab alone; skipped on the host: ...`.
fn only(only: &Only) -> String {
    let what = match &only.what {
        Lone::Variant(name) => format!("variant {name}"),
        Lone::Work(label) => label.clone(),
        Lone::Cell { work, variant } => format!("{work} under {variant}"),
    };
    let (on, other) = match only.on {
        Instrument::Host => ("on the host", "in the lab"),
        Instrument::Lab => ("in the lab", "on the host"),
    };
    let reason = only.reason.as_ref();
    let reason = reason.map(|reason| format!("; skipped {other}: {}", phrases::one_line(reason)));
    clean(&format!("{what}: {on} alone{}", reason.unwrap_or_default()))
}

/// The notes of both instruments, except those that [`only`] covers.
fn notes(fidelity: &Fidelity, options: &Options) -> Vec<(&'static str, Tone, String)> {
    let mut said = Vec::new();
    let both = [(Instrument::Host, &fidelity.host), (Instrument::Lab, &fidelity.lab)];
    for (instrument, analysis) in both {
        let has_mark = phrases::has_spoilt(analysis, analysis.rows());
        let spoilt = phrases::spoilt(analysis, has_mark);
        said.extend(spoilt.map(|(_, text)| (word(instrument), Tone::Bad, text)));
        let is_said = |note: &&Note| {
            let is_elsewhere = matches!(note, Note::Skipped { .. } | Note::AllSpoilt { .. });
            answer::is_shown(note, options.verbose) && !is_elsewhere
        };
        for note in analysis.notes.iter().filter(is_said) {
            let tone = if note.is_gap() { Tone::Bad } else { Tone::Warning };
            said.push((word(instrument), tone, phrases::note(analysis, note).1));
        }
    }
    said
}

/// Absolute values of both that are not near each other.
fn far(fidelity: &Fidelity) -> impl Iterator<Item = String> {
    fidelity.absolutes.iter().filter(|of| !of.is_near).map(|of| {
        let scale = Scale::for_values(of.unit, Some(of.host));
        let [host, lab] = [of.host, of.lab].map(|value| scale.with_suffix(Some(value)));
        let (place, metric, variant) = (place(&of.work, &of.set), &of.metric, &of.variant);
        format!("{place} {}: {host}, in the lab {lab}", clean(&format!("{metric} {variant}")))
    })
}

fn share(share: Share) -> String {
    let percent = match share.of {
        0 => String::new(),
        of => format!(" ({:.0} %)", 100.0 * share.count as f64 / of as f64),
    };
    format!("{} of {}{percent}", share.count, share.of)
}

fn measured(measured: Measured) -> &'static str {
    match measured {
        Measured::Throughput => "throughput",
        Measured::P50 => "p50 of latencies",
        Measured::P99 => "p99 of latencies",
    }
}

/// Label and text of each line.
fn summary(summary: &Summary) -> Vec<(&'static str, Tone, String)> {
    let Summary { decided, agree, contradict, differ, open, signs, .. } = summary;
    let tone = if *contradict > 0 { Tone::Bad } else { Tone::Bold };
    let verdicts = format!(
        "of {} that the host decides the lab agrees in {agree}, contradicts in {contradict}; in \
         {differ} one says SAME and the other does not, {open} are open in the lab",
        counted(*decided, "row")
    );
    let signs = format!("the same in {} rows that are BETTER or WORSE on the host", share(*signs));
    let mut lines = vec![("signs", Tone::Bold, signs), ("verdicts", tone, verdicts)];
    if summary.settled.of > 0 {
        let text =
            format!("the lab decides {} rows that the host does not", share(summary.settled));
        lines.push(("undecided", Tone::Plain, text));
    }
    let deviations = summary.deviations.iter().map(|of| {
        format!("{} {:.3} ({})", measured(of.measured), of.median_abs_ln, counted(of.rows, "row"))
    });
    let deviations = phrases::joined(deviations, ", ");
    if !deviations.is_empty() {
        let text = format!("median of |ln(lab / host)| over these rows: {deviations}");
        lines.push(("ratios", Tone::Plain, text));
    }
    let absolute = format!(
        "throughput within {:.0} % in {} cells, wakeup p50 within a factor of {NEAR_WAKEUP} in {}",
        100.0 * (NEAR_THROUGHPUT - 1.0),
        share(summary.throughput),
        share(summary.wakeup_p50)
    );
    lines.push(("absolute", Tone::Plain, absolute));
    lines
}

fn markdown(fidelity: &Fidelity, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    use super::markdown::cell;
    for (at, row) in rows_to_show(fidelity, options).enumerate() {
        if at == 0 {
            writeln!(out, "| | metric | variant | host | | lab | | |")?;
            writeln!(out, "|---|---|---|---:|---|---:|---|---|")?;
        }
        let [change, interval, host, in_lab, lab_interval, lab, mark] = cells(fidelity, row);
        let place = place(&row.work, &row.set);
        let mut line = vec![place, row.metric.clone(), row.variant.clone()];
        line.extend([format!("{change} {interval}"), host]);
        line.extend([format!("{in_lab} {lab_interval}"), lab, mark]);
        let line: Vec<String> = line.iter().map(|text| cell(text.trim_end())).collect();
        writeln!(out, "| {} |", line.join(" | "))?;
    }
    writeln!(out)?;
    for (name, analysis) in [("host", &fidelity.host), ("lab", &fidelity.lab)] {
        writeln!(out, "- {name}: {}", cell(&about(analysis)))?;
    }
    for of in &fidelity.only {
        writeln!(out, "- only: {}", cell(&only(of)))?;
    }
    for (instrument, _, text) in notes(fidelity, options) {
        writeln!(out, "- {instrument}: {}", cell(&text))?;
    }
    for (label, _, text) in summary(&fidelity.summary) {
        writeln!(out, "- {label}: {}", cell(&text))?;
    }
    writeln!(out, "- again: `{}`", clean(&fidelity.host.command).replace('`', "'"))
}

/// A row of every metric; what is not known is empty.
#[derive(Serialize)]
struct Line {
    work: String,
    set: String,
    metric: String,
    unit: Unit,
    variant: String,
    host_median: Option<f64>,
    host_ratio: Option<f64>,
    host_low: Option<f64>,
    host_high: Option<f64>,
    host_verdict: String,
    host_bound: Option<f64>,
    lab_median: Option<f64>,
    lab_ratio: Option<f64>,
    lab_low: Option<f64>,
    lab_high: Option<f64>,
    lab_verdict: String,
    lab_bound: Option<f64>,
    prediction: Option<Prediction>,
    disagrees: bool,
}

fn csv(fidelity: &Fidelity, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    use super::csv::{io_error, text};
    let mut writer = csv::Writer::from_writer(out);
    for row in &fidelity.rows {
        let ratio = |ratio: Option<crate::stats::Ratio>| {
            let interval = ratio.and_then(|ratio| ratio.interval);
            (ratio.map(|of| of.ratio), interval.map(|of| of.low), interval.map(|of| of.high))
        };
        let [host, lab] = [row.host, row.lab].map(|found| ratio(found.ratio));
        let word = |verdict: Option<Verdict>| {
            verdict.map(|verdict| phrases::keys(&verdict).0).unwrap_or_default()
        };
        let line = Line {
            work: text(&row.work),
            set: text(row.set.as_deref().unwrap_or_default()),
            metric: text(&row.metric),
            unit: row.unit,
            variant: text(&row.variant),
            host_median: row.host.median,
            host_ratio: host.0,
            host_low: host.1,
            host_high: host.2,
            host_verdict: word(row.host.verdict),
            host_bound: row.host.bound.map(Distance::value),
            lab_median: row.lab.median,
            lab_ratio: lab.0,
            lab_low: lab.1,
            lab_high: lab.2,
            lab_verdict: word(row.lab.verdict),
            lab_bound: row.lab.bound.map(Distance::value),
            prediction: row.prediction,
            disagrees: row.disagrees,
        };
        writer.serialize(line).map_err(io_error)?;
    }
    writer.flush()
}

fn json(fidelity: &Fidelity, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let document = Document { schema: "schedlab-fidelity", version: VERSION, of: fidelity };
    write_lines(&document, out)
}

#[cfg(test)]
mod tests;
