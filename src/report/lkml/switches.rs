//! Why a throughput differs, in a mail: a table for each worker set whose switches a probe
//! counted, normalised as the throughput above it, without verdicts. Pure.

use crate::analysis::{Analysis, Row, SetTable, WorkTable};
use crate::report::layout::{Page, Tone};
use crate::report::phrases;

use super::mail::{
    Column, RULE, ascii, blocks, case, clock, first_of, laid_out, test_of, two_decimals,
};

pub fn show(analysis: &Analysis, names: &[String], page: &mut Page) {
    let time = phrases::analysis_time(analysis);
    for (work, set) in analysis.sets().filter(|(_, set)| set.switches().next().is_some()) {
        table(analysis, (work, set), (names, time.as_deref()), page);
        page.gap();
    }
}

fn table(
    analysis: &Analysis,
    (work, set): (&WorkTable, &SetTable),
    (names, time): (&[String], Option<&str>),
    page: &mut Page,
) {
    let rule = "=".repeat(RULE);
    let case = if work.axes.is_empty() { String::new() } else { format!(", {}", case(work)) };
    page.line(Tone::Plain, &rule);
    page.wrapped(Tone::Plain, "Test          : ", &format!("{}{case}", test_of(work, set)));
    let units = "Normalized switches per second, and per operation";
    page.line(Tone::Plain, &format!("Units         : {units}"));
    page.line(Tone::Plain, "Interpretation: Explains the throughput; has no verdicts");
    page.line(Tone::Plain, &format!("Statistic     : {}", super::statistic(analysis)));
    clock(time, page);
    page.line(Tone::Plain, &rule);
    let rows = rows(analysis, set);
    let column = |(side, name): (usize, &String)| {
        let cells = rows.iter().map(|(_, values)| shown(values.get(side).copied().flatten()));
        Column::new(format!("{name}[%diff]"), cells)
    };
    let columns: Vec<Column> = names.iter().enumerate().map(column).collect();
    let first = first_of("Switches:", rows.iter().map(|(name, _)| ascii(name)), &columns);
    for (at, block) in blocks(first.width, &columns).into_iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        laid_out(&first, &block, page, |_| "");
    }
}

/// The name of each row, and its values over the baseline's.
fn rows(analysis: &Analysis, set: &SetTable) -> Vec<(String, Vec<Option<f64>>)> {
    let of = |row: &Row| {
        let sides = 0..row.cells.len();
        let ratios = sides.map(|side| super::normalised(analysis, row, side)).collect();
        (row.kind.name.replace(' ', "_"), ratios)
    };
    set.throughput().into_iter().chain(set.switches()).map(of).collect()
}

/// `0.02 [-98%]`.
fn shown(normalised: Option<f64>) -> String {
    let Some(normalised) = normalised else { return "-".to_string() };
    let percent = format!("[{}%]", whole(100.0 * (normalised - 1.0)));
    format!("{} {percent:>7}", two_decimals(normalised))
}

/// Without a sign of zero.
fn whole(percent: f64) -> String {
    match percent.abs() < 1e6 {
        true => format!("{:.0}", percent.round() + 0.0),
        false => format!("{percent:.1e}"),
    }
}
