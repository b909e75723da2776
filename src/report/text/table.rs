//! The table of one worker set: variants down, metrics across, in as many tables one below
//! the other as the width asks for. Pure.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Row, Table, TableStyle};
use unicode_width::UnicodeWidthStr;

use crate::model::{Direction, Unit};
use crate::report::Options;
use crate::report::beside::MARK_COLUMNS;
use crate::report::show::{self, Scale, clean, reason, truncate};
use crate::report::summary::{MetricSummary, SetSummary};

/// No cell is wider, whatever it holds.
const CELL_COLUMNS: usize = 16;
const GAP: usize = 2;

/// How wide a variant's name may be, so that a column fits beside it and its marks.
pub fn name_columns(options: &Options) -> usize {
    let beside = MARK_COLUMNS + 1 + GAP + CELL_COLUMNS;
    options.columns().saturating_sub(beside).min(24)
}

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-'));

/// What a table is made from.
pub struct TableInput<'a> {
    pub set: &'a SetSummary<'a>,
    /// By row, clean and short.
    pub names: Vec<String>,
    /// By row, the letters of its marks; empty without.
    pub marks: Vec<String>,
    pub options: &'a Options,
}

/// Numbered remarks on cells, each text once.
#[derive(Default)]
pub struct Notes(Vec<String>);

impl Notes {
    /// The text's number in brackets.
    fn sign(&mut self, text: String) -> String {
        let at = self.0.iter().position(|note| *note == text).unwrap_or_else(|| {
            self.0.push(text);
            self.0.len() - 1
        });
        format!("[{}]", at + 1)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }
}

/// One metric as a column: its header, then for each row its lines.
pub struct Column {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Column {
    pub fn width(&self) -> usize {
        let cells = self.rows.iter().flatten().chain(&self.header);
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    }
}

/// The tables as lines.
pub fn tables(input: &TableInput, notes: &mut Notes) -> Vec<Vec<String>> {
    let first = first_column(input);
    let metrics = match input.set.rows.first() {
        Some(row) => order(&row.metrics, input.options.verbose),
        None => Vec::new(),
    };
    let columns: Vec<Column> = metrics.iter().map(|&metric| column(input, metric, notes)).collect();
    let width = input.options.columns();
    bands(first.width(), &columns, width).into_iter().map(|band| lines(&first, band)).collect()
}

/// Positions of the metrics to show, in reading order: throughput, the first latency,
/// fairness, other latencies, the workload's own, and where asked what only explains.
fn order(metrics: &[MetricSummary], verbose: u8) -> Vec<usize> {
    let latency = |name: &str| -> Option<usize> {
        let (base, suffix) = name.rsplit_once('_')?;
        let median = format!("{base}_p50");
        let known = ["p50", "p99", "p99.9", "max", "mean"].contains(&suffix);
        let is_it = |metric: &MetricSummary| metric.name == median && metric.unit == Unit::Ns;
        metrics.iter().position(is_it).filter(|_| known)
    };
    let first_latency = metrics.iter().filter_map(|metric| latency(metric.name)).min();
    let rank = |metric: &MetricSummary| {
        let explains = metric.direction == Direction::Neutral
            || ["spread", "window_cv", "rps_p20", "rps_p50", "rps_p90"].contains(&metric.name)
            || latency(metric.name).is_some() && metric.name.ends_with(['x', 'n']);
        match (metric.name, latency(metric.name)) {
            _ if explains => (5, 0),
            ("throughput", _) => (0, 0),
            ("fairness", _) => (2, 0),
            (_, Some(at)) if Some(at) == first_latency => (1, at),
            (_, Some(at)) => (3, at),
            (_, None) => (4, 0),
        }
    };
    let mut order: Vec<usize> = (0..metrics.len()).collect();
    order.retain(|&at| verbose > 0 || rank(&metrics[at]).0 < 5);
    order.sort_by_key(|&at| rank(&metrics[at]));
    order
}

/// As many lines per row as [`column`] gives.
fn first_column(input: &TableInput) -> Column {
    let mut header = vec![String::new(); 4];
    header[2] = "variant".to_string();
    header[3] = "better".to_string();
    let rows = input.set.rows.iter().zip(input.names.iter().zip(&input.marks));
    let rows = rows.map(|(row, (name, marks))| {
        let head = match truncate(marks, MARK_COLUMNS).as_str() {
            "" => name.clone(),
            marks => format!("{name} {marks}"),
        };
        let mut lines = vec![head];
        if input.options.verbose > 0 {
            lines.push("  variation".to_string());
        }
        if row.metrics.iter().any(|metric| metric.ratio.is_some()) {
            lines.extend(["  ratio".to_string(), "  95 % interval".to_string()]);
        }
        lines
    });
    Column { header, rows: rows.collect() }
}

fn column(input: &TableInput, at: usize, notes: &mut Notes) -> Column {
    let of_rows: Vec<&MetricSummary> = input.set.rows.iter().map(|row| &row.metrics[at]).collect();
    // The baseline comes first where it was measured; its unit serves all.
    let (ops, multiple) = match of_rows[0].unit {
        Unit::OpsPerS => show::operations(input.set.ops),
        _ => ("", 1.0),
    };
    let typical = of_rows.iter().find_map(|metric| metric.median);
    let scale = Scale::of(of_rows[0].unit, typical.map(|typical| multiple * typical));
    let cells = of_rows.iter().map(|metric| {
        let median = metric.median.map(|median| scale.show(multiple * median));
        let mut lines = vec![noted(median, metric, notes)];
        if input.options.verbose > 0 {
            lines.push(metric.cv.map_or("-".to_string(), |cv| format!("{:.1} %", 100.0 * cv)));
        }
        lines.extend(ratio(metric, notes));
        lines.iter().map(|line| truncate(line, CELL_COLUMNS)).collect()
    });
    let rows = cells.collect();
    Column { header: header(of_rows[0], ops, &scale), rows }
}

/// Four lines, the name's last words lowest: name, name, unit, which direction is better.
fn header(metric: &MetricSummary, ops: &str, scale: &Scale) -> Vec<String> {
    let name = clean(metric.name).replace('_', " ");
    let (upper, lower) = match (metric.unit, name.rsplit_once(' ')) {
        (Unit::OpsPerS, None) if !ops.is_empty() => (name.as_str(), clean(ops)),
        (_, Some((upper, lower))) => (upper, lower.to_string()),
        (_, None) => ("", name.clone()),
    };
    let better = match metric.direction {
        Direction::HigherIsBetter => "higher",
        Direction::LowerIsBetter => "lower",
        Direction::Neutral => "",
    };
    [upper, &lower, scale.suffix, better].map(|line| truncate(line, CELL_COLUMNS)).to_vec()
}

/// The median as shown, with a note where rounds have no value.
pub fn noted(median: Option<String>, metric: &MetricSummary, notes: &mut Notes) -> String {
    let mut cell = median.unwrap_or("-".to_string());
    for (why, rounds) in &metric.unknown {
        let why = reason(why);
        let note = match (metric.median, metric.unknown.len()) {
            (None, 1) => why,
            _ => format!("unknown in {}: {why}", show::rounds(rounds)),
        };
        cell.push_str(&format!(" {}", notes.sign(note)));
    }
    cell
}

/// The lines of the ratio and of its interval; none where a ratio says nothing.
fn ratio(metric: &MetricSummary, notes: &mut Notes) -> Vec<String> {
    let none = "-".to_string();
    match metric.ratio {
        None => Vec::new(),
        // The median's own note says why there is nothing.
        Some(Err(_)) if metric.values.is_empty() => vec![none.clone(), none],
        Some(Err(why)) => vec![format!("- {}", notes.sign(why.to_string())), none],
        Some(Ok(ratio)) => {
            let interval = match ratio.interval {
                Some(interval) => {
                    format!("{}-{}", show::ratio(interval.low), show::ratio(interval.high))
                }
                None => {
                    let why = "one round has both: a ratio, but no interval";
                    format!("- {}", notes.sign(why.to_string()))
                }
            };
            vec![show::ratio(ratio.ratio), interval]
        }
    }
}

/// Columns that fit beside the first, in order, at least one a band.
pub fn bands(first: usize, columns: &[Column], width: usize) -> Vec<&[Column]> {
    let mut bands = Vec::new();
    let mut begin = 0;
    let mut used = first;
    for (at, column) in columns.iter().enumerate() {
        let needs = GAP + column.width();
        if used + needs > width && at > begin {
            bands.push(&columns[begin..at]);
            begin = at;
            used = first;
        }
        used += needs;
    }
    if begin < columns.len() {
        bands.push(&columns[begin..]);
    }
    bands
}

pub fn lines(first: &Column, band: &[Column]) -> Vec<String> {
    let all = || std::iter::once(first).chain(band);
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    let header: Row = all().map(|column| column.header.join("\n")).collect::<Vec<_>>().into();
    table.set_header(header);
    for at in 0..first.rows.len() {
        // The first column names the lines of all tables; this one may have fewer.
        let height = band.iter().map(|column| column.rows[at].len()).max().unwrap_or(0);
        let cell = |column: &Column| {
            column.rows[at].iter().take(height).map(String::as_str).collect::<Vec<_>>().join("\n")
        };
        table.add_row(Row::from(all().map(cell).collect::<Vec<_>>()));
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        let (padding, alignment) = match at {
            0 => (0, CellAlignment::Left),
            _ => (GAP as u16, CellAlignment::Right),
        };
        column.set_padding((padding, 0));
        column.set_cell_alignment(alignment);
    }
    let lines = table.lines().map(|line| line.trim_end().to_string());
    lines.filter(|line| !line.is_empty()).collect()
}
