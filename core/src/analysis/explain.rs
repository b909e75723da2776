//! Why a throughput differs: how often workers of each role were switched per operation. Pure.

use crate::model::{MetricKind, Statistic, Unit};

use super::metrics::THROUGHPUT;
use super::{Cell, Family, Row, SetTable};

impl SetTable {
    pub fn throughput(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind.name == THROUGHPUT)
    }

    /// The switches of each role, per second and for each operation; not those of the whole set.
    pub fn switches(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_switches())
    }
}

impl Row {
    fn is_switches(&self) -> bool {
        use Statistic::{InvoluntarySwitches, VoluntarySwitches};
        self.kind.subject.is_some()
            && matches!(self.kind.statistic, VoluntarySwitches | InvoluntarySwitches)
    }
}

/// Adds to each rate of switches a row of switches for each operation of the set.
pub fn with_switches_per_op(set: &mut SetTable) {
    let Some(throughput) = set.throughput().cloned() else { return };
    let rows = std::mem::take(&mut set.rows);
    for row in rows {
        let per_op = row.is_switches().then(|| per_op(&row, &throughput));
        set.rows.push(row);
        set.rows.extend(per_op);
    }
}

fn per_op(switches: &Row, throughput: &Row) -> Row {
    let kind = MetricKind {
        name: format!("{}_per_op", switches.kind.name),
        unit: Unit::Count,
        ..switches.kind.clone()
    };
    let cells = switches.cells.iter().zip(&throughput.cells);
    let cells = cells.map(|(switches, throughput)| {
        let of_round = |(round, per_s): &(u32, f64)| {
            let (_, ops_per_s) = throughput.values.iter().find(|(other, _)| other == round)?;
            (*ops_per_s > 0.0).then(|| (*round, per_s / ops_per_s))
        };
        let values = switches.values.iter().filter_map(of_round).collect();
        Cell { values, ..Cell::default() }.with_statistics()
    });
    Row { kind, family: Family::None, cells: cells.collect() }
}
