//! Absolute values of each headline metric: medians over rounds with their intervals, over each axis of
//! the plan, over dates where each side is a plan of its own, else a row for each side. Pure.

use crate::analysis::{Analysis, Family, Place, Side, grouped};
use crate::model::Direction;
use crate::report::layout::clean;
use crate::report::numbers::{Scale, moment};
use crate::report::phrases;
use crate::stats::{self, Interval};

use super::estimate::Estimate;
use super::lines::Lines;
use super::plot::{OWN_AXIS, axis, common_end, extent, labels};
use super::strips::{Group, Row, Strips};
use super::{Chart, Data, Key, Width, measure};

/// The fewest sides, each a plan of its own, that make a history.
const HISTORY: usize = 3;
/// Charts over axes, of one metric: a plan of many axes has more than anyone looks at.
const MAX_CHARTS: usize = 6;

/// Whether each side is a plan of its own.
pub fn is_history(analysis: &Analysis) -> bool {
    let count = analysis.sides.len();
    count >= HISTORY
        && analysis.plans.len() == count
        && analysis.sides.iter().all(|side| side.plans.len() == 1)
}

/// The charts of each headline metric, in the order of the plan.
pub fn values<'a>(analysis: &'a Analysis, names: &[String]) -> Vec<Chart> {
    let named =
        |(work, set, row): Place<'a>| ((&work.name, &set.name, &row.kind.name), (work, set, row));
    let metrics = grouped(analysis.rows_of(Family::Headline).map(named));
    let is_history = is_history(analysis);
    let charts = metrics.iter().flat_map(|(_, places)| {
        let metric = Metric::new(analysis, names, places);
        if is_history { metric.over_sides().into_iter().collect() } else { metric.over_axes() }
    });
    charts.collect()
}

/// A metric of a worker set at all points of its work.
struct Metric<'a> {
    analysis: &'a Analysis,
    names: &'a [String],
    places: &'a [Place<'a>],
    scale: Scale,
}

impl Metric<'_> {
    fn new<'a>(analysis: &'a Analysis, names: &'a [String], places: &'a [Place<'a>]) -> Metric<'a> {
        let cells = places.iter().flat_map(|(.., row)| &row.cells).filter_map(|cell| cell.median);
        let typical = stats::median(&cells.collect::<Vec<f64>>());
        Metric { analysis, names, places, scale: Scale::for_values(places[0].2.kind.unit, typical) }
    }

    fn estimate(&self, (.., row): &Place, side: usize) -> Option<Estimate> {
        Estimate::new(row.cells.get(side)?, self.analysis.is_exact())
    }

    /// For each axis with several points a chart at each point of the others; without one, rows.
    fn over_axes(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (name, _) in &self.places[0].0.axes {
            let others = |place: &Place| -> String {
                let others = place.0.axes.iter().filter(|(own, _)| own != name);
                others.map(|(own, value)| format!(" {own}={value}")).collect()
            };
            let mut groups = grouped(self.places.iter().map(|place| (others(place), place)));
            groups.retain(|(_, places)| places.len() > 1);
            let groups: Vec<(String, Lines)> = groups
                .into_iter()
                .map(|(others, places)| (others, self.over(name, places)))
                .collect();
            let common = common_extent(&groups);
            let work = &self.places[0].0.name;
            let over = format!(" over {}", clean(name));
            charts.extend(groups.into_iter().filter_map(|(others, mut lines)| {
                let own = lines.extent()?;
                if common.is_none() {
                    lines.unit = format!("{}, {OWN_AXIS}", lines.unit);
                }
                let work = clean(&format!("{work}{others}"));
                Some(self.chart(work, &over, lines, common.unwrap_or(own)))
            }));
        }
        charts.truncate(MAX_CHARTS);
        if charts.is_empty() {
            self.places.iter().filter_map(|place| self.rows(place)).collect()
        } else {
            charts
        }
    }

    fn over(&self, axis: &str, mut places: Vec<&Place>) -> Lines {
        let point = |place: &Place| {
            let found = place.0.axes.iter().find(|(own, _)| own == axis);
            found.map_or("", |(_, value)| value.as_str()).to_string()
        };
        // Points that are numbers of one unit ascend.
        let numbers: Option<Vec<(f64, String)>> =
            places.iter().map(|of| number(&point(of))).collect();
        let is_joined = numbers.is_some_and(|all| all.windows(2).all(|two| two[0].1 == two[1].1));
        let size = |place: &&Place| number(&point(place)).map_or(0.0, |(size, _)| size);
        if is_joined {
            places.sort_by(|a, b| size(a).total_cmp(&size(b)));
        }
        let sizes: Vec<f64> = places.iter().map(size).collect();
        let steps = || sizes.windows(2).map(|two| two[1] - two[0]);
        // Points are at equal distances, whatever their sizes.
        let is_uneven = is_joined && steps().zip(steps().skip(1)).any(|(a, b)| a != b);
        let uneven = if is_uneven { "not to scale" } else { "" };
        let value = |side: usize| places.iter().map(|of| self.estimate(of, side)).collect();
        Lines {
            x_name: clean(axis),
            x_title: phrases::joined([clean(axis), uneven.to_string()], ", "),
            is_joined,
            points: places.iter().map(|of| clean(&point(of))).collect(),
            series: self.names.to_vec(),
            values: (0..self.names.len()).map(value).collect(),
            scale: self.scale,
            unit: self.unit(),
        }
    }

    /// A line for each point of the work, over the sides.
    fn over_sides(&self) -> Option<Chart> {
        let label = |(work, ..): &Place| {
            let label = work.label.strip_prefix(&work.name).unwrap_or(&work.label).trim();
            clean(if label.is_empty() { &work.name } else { label })
        };
        // When it was measured, and on which kernels.
        let point = |(name, side): (&String, &Side)| {
            let plan = self.analysis.plans.iter().find(|plan| side.plans.contains(&plan.id));
            let moment = plan.map(|plan| moment(plan.started_unix_ns));
            let moment = moment.unwrap_or_else(|| name.clone());
            let kernels: Vec<String> = side.kernels.iter().map(|kernel| clean(kernel)).collect();
            format!("{moment}\n{}", kernels.join(", "))
        };
        let sides = 0..self.names.len();
        let lines = Lines {
            x_name: "plans".to_string(),
            x_title: "plans in order, not to scale".to_string(),
            is_joined: true,
            points: self.names.iter().zip(&self.analysis.sides).map(point).collect(),
            series: self.places.iter().map(label).collect(),
            values: self
                .places
                .iter()
                .map(|place| sides.clone().map(|side| self.estimate(place, side)).collect())
                .collect(),
            scale: self.scale,
            unit: self.unit(),
        };
        let values = lines.extent()?;
        Some(self.chart(clean(&self.places[0].0.name), " over plans", lines, values))
    }

    fn chart(&self, work: String, over: &str, lines: Lines, values: [f64; 2]) -> Chart {
        let drawings = lines.draw(values);
        let mut rows = Vec::new();
        for (series, values) in lines.series.iter().zip(&lines.values) {
            for (point, value) in lines.points.iter().zip(values) {
                let cells = Estimate::cells(value.as_ref(), &self.scale);
                rows.push(
                    [series.clone(), point.replace('\n', ", ")].into_iter().chain(cells).collect(),
                );
            }
        }
        let mut chart = self.described(work, over, ["series", &lines.x_name], rows, drawings);
        chart.keys = lines.series.iter().enumerate().map(|(at, name)| Key::dot(at, name)).collect();
        chart
    }

    /// A row for each side.
    fn rows(&self, place: &Place) -> Option<Chart> {
        let sides = self.names.iter().enumerate();
        let found =
            sides.filter_map(|(side, name)| Some((side, name, self.estimate(place, side)?)));
        let found: Vec<(usize, &String, Estimate)> = found.collect();
        let [low, high] = extent(found.iter().flat_map(|(.., of)| of.reach()))?;
        let (span, ticks) = axis(low, high, [0.0, 1.0]);
        let row = |(side, name, of): &(usize, &String, Estimate)| Row {
            label: name.to_string(),
            text: of.said(&self.scale),
            said: format!("{name}: {}", of.said(&self.scale)),
            series: *side,
            value: Some(of.value),
            interval: of.interval.map(|[low, high]| Interval { low, high }),
            each: of.each.iter().map(|(_, value)| (String::new(), *value)).collect(),
            is_hollow: false,
        };
        let group = Group {
            heading: String::new(),
            better: Direction::Neutral,
            band: None,
            rows: found.iter().map(row).collect(),
        };
        let strips = Strips {
            ends: span.ends(),
            is_log: span.is_log(),
            ticks: ticks.iter().copied().zip(labels(&ticks, &self.scale)).collect(),
            one: None,
            x_title: self.unit(),
            groups: vec![group],
        };
        let data = found.iter().map(|(_, name, of)| {
            let cells = Estimate::cells(Some(of), &self.scale);
            [name.to_string()].into_iter().chain(cells).collect()
        });
        let drawings = strips.draw(&Width::IN_COLUMNS);
        Some(self.described(clean(&place.0.label), "", ["side"], data.collect(), drawings))
    }

    fn unit(&self) -> String {
        let (_, set, row) = self.places[0];
        measure(row.kind.unit, self.scale.suffix, &set.ops, Direction::Neutral)
    }

    fn described<const N: usize>(
        &self,
        work: String,
        over: &str,
        first: [&str; N],
        rows: Vec<Vec<String>>,
        drawings: Vec<super::Drawing>,
    ) -> Chart {
        let (of, set, row) = self.places[0];
        let set_name =
            if of.sets.len() > 1 { format!(" {}", clean(&set.name)) } else { String::new() };
        let unit = self.unit();
        let median = if unit.is_empty() { "median".to_string() } else { format!("median, {unit}") };
        let head = first.map(str::to_string).into_iter();
        Chart {
            title: format!("{work}{set_name}: {}{over}", clean(&row.kind.name)),
            measure: measure(row.kind.unit, self.scale.suffix, &set.ops, row.kind.direction),
            about: self.about(),
            keys: Vec::new(),
            data: Data {
                head: head.chain([median, "from".to_string(), "to".to_string()]).collect(),
                rows,
            },
            drawings,
        }
    }

    fn about(&self) -> String {
        let each = phrases::each(self.analysis);
        if self.analysis.is_exact() {
            format!("Medians over {each}s; each {each} is a tick, and exact.")
        } else {
            format!(
                "Medians over {each}s with their 95 % intervals; where {each}s are too few for one, each is a tick."
            )
        }
    }
}

/// The range of one axis that all these charts of a metric can share; `None`: each has its own.
fn common_extent(groups: &[(String, Lines)]) -> Option<[f64; 2]> {
    let extents = || groups.iter().filter_map(|(_, lines)| lines.extent());
    let all = extent(extents().flatten())?;
    let is_alike = axis(all[0], all[1], all).0.is_log()
        || common_end(extents().map(|[_, high]| high)).is_some();
    is_alike.then_some(all)
}

/// A number and its unit: `16`, `0.5x`, `256KiB`.
fn number(text: &str) -> Option<(f64, String)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].to_string()))
}
