//! Why a throughput differs, as far as a probe has counted it: how often the workers of each role
//! were switched, beside the baseline's. It explains: there are no verdicts of it. Pure.

use crate::model::{Direction, INVOLUNTARY, SampledPlan, Unit, VOLUNTARY};

use super::build::{cell, has_baseline_and_another};
use super::gather::{Series, Values};
use super::{Cell, Row, SetTable, Switches, WorkTable};

/// What switches are told beside.
const THROUGHPUT: &str = "throughput";

impl SetTable {
    /// What its switches explain.
    pub fn throughput(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric == THROUGHPUT)
    }
}

impl Row {
    /// The mean of each side over the baseline's. All runs of a work take the same time, so that
    /// of a rate it is the ratio of sums as well.
    pub fn normalised(&self) -> Vec<Option<f64>> {
        let means: Vec<Option<f64>> = self.cells.iter().map(|cell| cell.mean).collect();
        normalised(&means)
    }
}

impl Switches {
    /// As [`Row::normalised`], for the same work done.
    pub fn normalised_per_op(&self) -> Vec<Option<f64>> {
        normalised(&self.per_op)
    }
}

/// Over the first; unknown where that is 0.
fn normalised(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let baseline = values.first().copied().flatten().filter(|baseline| *baseline > 0.0);
    values.iter().map(|value| Some((*value)? / baseline?)).collect()
}

/// Of the set whose throughput stands in this table. `sides`: the values of its work.
pub fn of_set(table: &SetTable, sides: &[Option<&Values>]) -> Vec<Switches> {
    let Some(throughput) = table.throughput() else { return Vec::new() };
    let mut found: Vec<Switches> = Vec::new();
    for series in sides.iter().flatten().flat_map(|side| &side.series) {
        let known = found.iter().any(|own| own.row.metric == series.metric);
        let Some((role, is_voluntary)) = told(series).filter(|_| series.set == table.name) else {
            continue;
        };
        let own = sides.iter().map(|side| side.as_ref()?.series.iter().find(|s| s.is_of(series)));
        let own: Vec<Option<&Series>> = own.collect();
        if known || !has_baseline_and_another(&own) {
            continue;
        }
        let cells = own.iter().map(|own| cell(own.map_or(&[], |own| own.values.as_slice())));
        let cells: Vec<Cell> = cells.map(|cell| Cell { shapes: Vec::new(), ..cell }).collect();
        let per_op = cells.iter().zip(&throughput.cells).map(|(own, ops)| per_op(own, ops));
        found.push(Switches {
            role: role.to_string(),
            is_voluntary,
            per_op: per_op.collect(),
            row: Row {
                metric: series.metric.to_string(),
                unit: series.unit,
                direction: series.direction,
                cells,
            },
        });
    }
    found
}

/// The role whose switches these are, and whether it made them itself. Those of a whole set, which
/// every run counts, are of no role.
fn told<'a>(series: &Series<'a>) -> Option<(&'a str, bool)> {
    let of = |what: &str| series.metric.strip_suffix(what)?.strip_suffix('_');
    let is_rate = (series.unit, series.direction) == (Unit::PerS, Direction::Neutral);
    let own = of(VOLUNTARY).map(|role| (role, true));
    own.or_else(|| of(INVOLUNTARY).map(|role| (role, false))).filter(|_| is_rate)
}

/// Over the rounds that know both.
fn per_op(switches: &Cell, ops: &Cell) -> Option<f64> {
    let (mut switched, mut done) = (0.0, 0.0);
    for (round, per_s) in &switches.values {
        if let Some((_, ops_per_s)) = ops.values.iter().find(|(other, _)| other == round) {
            switched += per_s;
            done += ops_per_s;
        }
    }
    (done > 0.0).then(|| switched / done)
}

/// Said where a probe was to count them and there are none.
pub fn silent(plans: &[SampledPlan], tables: &[WorkTable]) -> Option<String> {
    let asked = plans.iter().find_map(|plan| plan.plan.probes.first())?;
    let mut sets = tables.iter().flat_map(|table| &table.sets);
    let is_untold = sets.any(|set| set.throughput().is_some() && set.switches.is_empty());
    is_untold.then(|| {
        format!(
            "of some sets the probe `{asked}` told no switches of the baseline and another side: \
             schedlab report has the reason of each run"
        )
    })
}
