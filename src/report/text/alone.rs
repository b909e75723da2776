//! One side, with nothing to compare: means, spreads and ranges over its rounds, and of a command its CPU
//! times and how often it was executed. Pure.

use crate::analysis::{Analysis, Cell, Family, Row, SetTable};
use crate::report::layout::{Align, Page, Table, Tone, clean};
use crate::report::numbers::{Scale, counted, significant};
use crate::report::phrases::place;

use super::rows::nothing;

/// The metrics of a command, [`EXECUTIONS`] and the ends of the range of `time`, by their names.
const COMMAND: &str = "command";
const TIME: &str = "time";
const CPU_TIMES: [&str; 2] = ["user", "system"];
const EXECUTIONS: &str = "executions";

pub fn write(analysis: &Analysis, page: &mut Page) {
    use Align::{Left, Right};
    let columns = [(Left, 0), (Left, 2), (Right, 2), (Left, 1), (Left, 2), (Left, 2)];
    let mut table = Table::new(columns.to_vec());
    table.row(
        Tone::Bold,
        ["work", "metric", "mean", "sd", "range", "of"].map(str::to_string).into(),
    );
    let (mut count, mut has_executions) = (0, false);
    for (work, set) in analysis.sets() {
        let shown = set.rows.iter().filter(|row| is_shown(set, row) && !row.cells.is_empty());
        for (at, row) in shown.enumerate() {
            let cell = &row.cells[0];
            let place = if at == 0 { place(work, set) } else { String::new() };
            let name = clean(&row.kind.name);
            let mut cells = vec![place, name];
            cells.extend(figures(set, row, cell));
            table.row(Tone::Plain, cells);
            count += 1;
            has_executions |= executions(set).is_some();
        }
    }
    if count == 0 {
        return page.wrapped(Tone::Plain, "", nothing(analysis));
    }
    page.table(&table);
    let of = if has_executions { "; range of time: of single executions" } else { "" };
    page.wrapped(Tone::Plain, "", &format!("sd: the standard deviation between rounds{of}"));
}

fn is_shown(set: &SetTable, row: &Row) -> bool {
    let is_cpu_time = || set.workload == COMMAND && CPU_TIMES.contains(&row.kind.name.as_str());
    row.family == Family::Headline || is_cpu_time()
}

fn of_name<'s>(set: &'s SetTable, name: &str) -> Option<&'s Cell> {
    let found = set.rows.iter().find(|row| set.workload == COMMAND && row.kind.name == name);
    found.and_then(|row| row.cells.first())
}

fn executions(set: &SetTable) -> Option<usize> {
    let cell = of_name(set, EXECUTIONS)?;
    Some(cell.values.iter().map(|(_, value)| *value).sum::<f64>() as usize)
}

/// Mean, standard deviation, range, and of how many values.
fn figures(set: &SetTable, row: &Row, cell: &Cell) -> [String; 4] {
    let scale = Scale::for_values(row.kind.unit, cell.mean);
    let sd = cell
        .cv
        .zip(cell.mean)
        .map(|(cv, mean)| format!("+-{}", significant(scale.scaled(cv * mean.abs()), 2)));
    let [shortest, longest] = ["min", "max"].map(|end| {
        let end = of_name(set, &format!("{TIME}_{end}")).filter(|_| row.kind.name == TIME);
        end.unwrap_or(cell).values.iter().map(|(_, value)| *value)
    });
    let range = shortest.reduce(f64::min).zip(longest.reduce(f64::max));
    let range =
        range.map(|(low, high)| format!("{}..{}", scale.show(low), scale.with_suffix(Some(high))));
    let of = match executions(set) {
        Some(executions) if row.kind.name == TIME => counted(executions, "execution"),
        _ => counted(cell.values.len(), "round"),
    };
    [scale.with_suffix(cell.mean), sd.unwrap_or_default(), range.unwrap_or_default(), of]
}
