//! Tables of hosts: where a further one would lie, of what kinds they are, and what each shows. Empty
//! where verdicts are not over hosts. Pure.

use crate::analysis::{Analysis, Family, Host, HostRatio, OverHosts};
use crate::model::Reading;
use crate::stats::{Interval, Ratio};

use super::answer::View;
use super::layout::{Data, Page, clean};
use super::numbers::Change;
use super::phrases;

/// With more headline ratios than this, those of each host are shown only in more detail.
const FEW: usize = 4;

/// A headline metric of a side.
struct Column<'a> {
    /// Place, metric, and the side where there are several.
    names: [String; 3],
    over: &'a OverHosts,
}

/// All tables; `all`: with the ratios of each host however many they are.
pub fn grids(view: View, all: bool) -> Vec<Data> {
    let columns = columns(view);
    let shown = if all || columns.len() <= FEW { &columns[..] } else { &[] };
    tables(view.analysis, &columns, &[shown])
}

pub fn write(view: View, verbose: u8, page: &mut Page) {
    let columns = columns(view);
    let shown = if verbose > 0 || columns.len() <= FEW { &columns[..] } else { &[] };
    let chunks = |size: usize| -> Vec<&[Column]> {
        if shown.is_empty() { vec![shown] } else { shown.chunks(size).collect() }
    };
    let tables = |size| tables(view.analysis, &columns, &chunks(size));
    let fits = |size: &usize| tables(*size).iter().all(|grid| grid.table().width() <= page.width());
    let size = (1..=shown.len()).rev().find(fits).unwrap_or(1);
    for grid in tables(size) {
        page.gap();
        page.table(&grid.table());
    }
}

fn columns(View { analysis, names }: View<'_>) -> Vec<Column<'_>> {
    let rows = analysis.rows_of(Family::Headline);
    let columns = rows.flat_map(|(work, set, row)| {
        row.cells.iter().zip(names).filter_map(move |(cell, name)| {
            let over = cell.over_hosts.as_ref()?;
            let side = if names.len() > 2 { name.clone() } else { String::new() };
            let names = [phrases::place(work, set), clean(&row.kind.name), side];
            Some(Column { names, over })
        })
    });
    columns.collect()
}

/// `chunks`: the columns that stand next to each other in tables of hosts.
fn tables(analysis: &Analysis, columns: &[Column], chunks: &[&[Column]]) -> Vec<Data> {
    if analysis.hosts.is_empty() {
        return Vec::new();
    }
    let spread = (!columns.is_empty()).then(|| spread(analysis, columns));
    let kinds: Vec<&[Host]> = analysis.hosts.chunk_by(|a, b| a.kind() == b.kind()).collect();
    let of_kinds = chunks.iter().take(if kinds.len() > 1 { usize::MAX } else { 1 });
    let of_kinds = of_kinds.map(|columns| kinds_grid(&kinds, columns));
    let of_hosts = chunks.iter().map(|columns| hosts_grid(analysis, &kinds, columns));
    spread.into_iter().chain(of_kinds).chain(of_hosts).collect()
}

/// Where a further host would lie, and the hosts at both ends.
fn spread(analysis: &Analysis, columns: &[Column]) -> Data {
    let sides = columns.iter().any(|column| !column.names[2].is_empty());
    let mut head = vec!["".to_string(), "metric".to_string()];
    head.extend(sides.then(|| "side".to_string()));
    head.extend(["a further host (95 %)", "lowest", "highest"].map(str::to_string));
    let rows = columns.iter().map(|Column { names, over }| {
        let order = |a: &&HostRatio, b: &&HostRatio| a.ratio.ratio.total_cmp(&b.ratio.ratio);
        let show = |of: Option<&HostRatio>| {
            let shown =
                of.map(|of| format!("{} {}", name(analysis, of.host), alone(of.ratio.ratio)));
            shown.unwrap_or_else(|| "-".to_string())
        };
        let further = over.further.map_or("-".to_string(), range);
        let mut row: Vec<String> = names[..if sides { 3 } else { 2 }].to_vec();
        let hosts = over.hosts.iter();
        row.extend([further, show(hosts.clone().min_by(order)), show(hosts.max_by(order))]);
        row
    });
    Data { rows: rows.collect(), head }
}

/// A row for each kind, with the ratio over its hosts.
fn kinds_grid(kinds: &[&[Host]], columns: &[Column]) -> Data {
    let mut head = ["kind", "processor", "kernel", "hosts"].map(str::to_string).to_vec();
    let is_one = kinds.len() == 1;
    head.extend(columns.iter().filter(|_| !is_one).map(Column::title));
    let row = |(at, kind): (usize, &&[Host])| {
        let processor = match &kind[0].cpu_model {
            Reading::Known(model) => clean(model),
            Reading::Unknown(_) => "-".to_string(),
        };
        let kernels = clean(&kind[0].kernels.join(", "));
        let mut row = vec![(at + 1).to_string(), processor, kernels, kind.len().to_string()];
        let ratios = columns.iter().filter(|_| !is_one);
        row.extend(ratios.map(|column| {
            let ratio = column.over.kinds.get(at).copied().flatten();
            ratio.map_or("-".to_string(), |ratio| Change::from_ratio(&ratio).with_interval())
        }));
        row
    };
    Data { head, rows: kinds.iter().enumerate().map(row).collect() }
}

/// A row for each host, with its ratios; those that differ from the others say so.
fn hosts_grid(analysis: &Analysis, kinds: &[&[Host]], columns: &[Column]) -> Data {
    let mut head = ["host", "kind", "rounds"].map(str::to_string).to_vec();
    head.extend(columns.iter().map(Column::title));
    let kind_of = kinds.iter().zip(1..).flat_map(|(kind, at)| std::iter::repeat_n(at, kind.len()));
    let row = |((at, host), kind): ((usize, &Host), usize)| {
        let mut row = vec![clean(&host.name), kind.to_string(), host.rounds.to_string()];
        row.extend(columns.iter().map(|column| {
            let own = column.over.hosts.iter().find(|own| own.host == at);
            own.map_or("-".to_string(), |own| {
                let differs = if own.differs { " differs" } else { "" };
                Change::from_ratio(&own.ratio).with_interval() + differs
            })
        }));
        row
    };
    Data { head, rows: analysis.hosts.iter().enumerate().zip(kind_of).map(row).collect() }
}

impl Column<'_> {
    fn title(&self) -> String {
        let [place, metric, side] = &self.names;
        let side = if side.is_empty() { String::new() } else { format!(" ({side})") };
        format!("{place} {metric}{side}")
    }
}

fn name(analysis: &Analysis, host: usize) -> String {
    analysis.hosts.get(host).map(|host| clean(&host.name)).unwrap_or_default()
}

/// `-8.1 %`.
fn alone(ratio: f64) -> String {
    Change::from_ratio(&Ratio { ratio, interval: None, pairs: 1 }).change
}

/// `-8.1 % to +3 %`.
fn range(interval: Interval) -> String {
    format!("{} to {}", alone(interval.low), alone(interval.high))
}

#[cfg(test)]
mod tests;
