//! Grouped bars: each side over the baseline from light to heavy load, what worker sets want and get,
//! and the switches of roles. Pure.

use crate::analysis::{Analysis, Cell, FairnessTable, Row, SetTable};
use crate::model::{Reading, Statistic, Unit};
use crate::report::layout::clean;
use crate::report::loads::{self, Point};
use crate::report::{numbers, phrases};

use super::estimate::Estimate;
use super::forest::ABSENT;
use super::plot::{OWN_AXIS, Span, common_end, label, linear_ticks, round};
use super::{Axis, Chart, Data, Drawing, Key, LINE, Width, block, letters, lines_of, series};

/// The share of a group that its bars fill.
const FILL: f64 = 0.8;
/// So much of the axis is left for values above bars.
const HEADROOM: f64 = 1.08;
/// Bars are cut at this multiple of the baseline.
const MAX_RATIO: f64 = 8.0;

const LOADS: &str = "Bars are sides, lines their 95 % intervals, groups are loads. Above 1 is better than the \
                     baseline, of times too. + is BETTER, - WORSE, = SAME, no sign open.";
const CUT: &str = "Bars end at 8, where their values are larger, too.";

/// A group of bars; `None`: no value.
struct Group {
    label: String,
    bars: Vec<Option<Bar>>,
}

struct Bar {
    value: f64,
    /// As it is shown.
    text: String,
    /// A sign of the verdict, or nothing.
    sign: &'static str,
    /// 95 %.
    interval: Option<[f64; 2]>,
}

struct Bars<'a> {
    title: String,
    measure: String,
    about: String,
    x_title: &'a str,
    y_title: &'a str,
    /// The line that bars are compared with.
    one: Option<f64>,
    /// Each with its number as a series.
    names: Vec<(usize, String)>,
    groups: Vec<Group>,
}

/// For each work whose load is an axis, and each of its headline metrics.
pub fn loads(analysis: &Analysis, names: &[String]) -> Vec<Chart> {
    let bar = |point: &Point, side: usize| {
        let Some((better, interval, sign)) = point.better(analysis, side) else {
            let (text, sign) = point.difference(analysis, side)?;
            return Some(Bar { value: 0.0, text, sign, interval: None });
        };
        let interval = interval.map(|limits| limits.map(|limit| limit.min(MAX_RATIO)));
        Some(Bar { value: better.min(MAX_RATIO), text: numbers::ratio(better), sign, interval })
    };
    let lines = loads::lines(analysis).into_iter().filter(|(_, points)| points.len() > 1);
    let charts = lines.map(|(label, mut points)| {
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        let better =
            |point: &Point, side| point.better(analysis, side).map_or(0.0, |(better, ..)| better);
        let is_cut =
            points.iter().any(|point| (1..names.len()).any(|side| better(point, side) > MAX_RATIO));
        let lacks_ratio =
            |point: &Point| (1..names.len()).any(|side| point.difference(analysis, side).is_some());
        let absent = if points.iter().any(lacks_ratio) { ABSENT } else { "" };
        let group = |point: &Point| Group {
            label: format!("{}x", point.load),
            bars: (1..names.len()).map(|side| bar(point, side)).collect(),
        };
        Bars {
            title: format!("{} from light to heavy load", clean(&label)),
            measure: format!(
                "how many times as good as {}, whatever the metric's direction",
                names[0]
            ),
            about: phrases::joined(
                [LOADS, absent, if is_cut { CUT } else { "" }].map(str::to_string),
                " ",
            ),
            x_title: "load, times the CPUs",
            y_title: "times as good",
            one: Some(1.0),
            names: named(names, 1),
            groups: points.iter().map(group).collect(),
        }
    });
    draw(charts.collect())
}

/// Demand, entitlement and CPU time of each set's workers: a chart for each side.
pub fn fairness(table: &FairnessTable) -> Vec<Chart> {
    let charts = table.variants.iter().map(|variant| {
        let bar = |reading: &Reading<f64>| {
            let value = reading.clone().known()?;
            Some(Bar { value, text: numbers::significant(value, 3), sign: "", interval: None })
        };
        let group = |set: &crate::analysis::SetFairness| Group {
            label: clean(&set.set),
            bars: set.figures[..3].iter().map(|(_, rounds)| bar(&rounds.median())).collect(),
        };
        let names = ["wants", "entitled", "got"].map(str::to_string);
        Bars {
            title: format!("{}: fairness, {}", clean(&table.work), clean(&variant.variant)),
            measure: "CPUs of a worker; fair is got as much as entitled".to_string(),
            about: "CPUs of one worker of each set: what it wants alone, what it is entitled to, what it got."
                .to_string(),
            x_title: "",
            y_title: "CPUs of a worker",
            one: None,
            names: named(&names, 0),
            groups: variant.sets.iter().map(group).collect(),
        }
    });
    draw(charts.collect())
}

/// Context switches of each role, per second: voluntary, and involuntary ones; none where they were not
/// counted. `place`: the work and the set.
pub fn switches(set: &SetTable, place: &str, names: &[String], is_exact: bool) -> Vec<Chart> {
    let kinds = [
        (
            Statistic::VoluntarySwitches,
            "voluntary switches",
            "The worker waited. Medians over rounds, lines are 95 % intervals.",
        ),
        (
            Statistic::InvoluntarySwitches,
            "involuntary switches",
            "The scheduler took the worker's CPU. Medians over rounds, lines are 95 % intervals.",
        ),
    ];
    let charts = kinds.into_iter().filter_map(|(statistic, title, about)| {
        let is_it = |row: &&Row| row.kind.statistic == statistic && row.kind.unit == Unit::PerS;
        let of_role = |row| of_role(row, is_exact);
        let groups: Vec<Group> = set.rows.iter().filter(is_it).map(of_role).collect();
        let has_value = |group: &Group| group.bars.iter().flatten().any(|bar| bar.value > 0.0);
        let bars = Bars {
            title: format!("{place}: {title}"),
            measure: "per second".to_string(),
            about: about.to_string(),
            x_title: "",
            y_title: "/s",
            one: None,
            names: named(names, 0),
            groups,
        };
        bars.groups.iter().any(has_value).then_some(bars)
    });
    draw(charts.collect())
}

/// The switches of one role on all sides.
fn of_role(row: &Row, is_exact: bool) -> Group {
    let bar = |cell: &Cell| {
        let Estimate { value, interval, .. } = Estimate::new(cell, is_exact)?;
        Some(Bar { value, text: numbers::significant(value, 3), sign: "", interval })
    };
    let role = row.kind.subject.as_deref().unwrap_or("all workers");
    Group { label: clean(role), bars: row.cells.iter().map(bar).collect() }
}

fn named(names: &[String], from: usize) -> Vec<(usize, String)> {
    names.iter().cloned().enumerate().skip(from).collect()
}

/// Charts that stand next to each other.
fn draw(charts: Vec<Bars>) -> Vec<Chart> {
    let common = common_end(charts.iter().map(Bars::end));
    charts.iter().map(|bars| bars.draw(common)).collect()
}

impl Bars<'_> {
    /// The greatest value of its axis.
    fn end(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|group| group.bars.iter().flatten());
        let high = |bar: &Bar| bar.interval.map_or(bar.value, |[_, high]| high.max(bar.value));
        bars.map(high).chain(self.one).fold(0.0, f64::max)
    }

    /// `common`: the end of the axis that all charts next to it have.
    fn draw(&self, common: Option<f64>) -> Chart {
        let head = [if self.x_title.is_empty() { "of" } else { self.x_title }.to_string()];
        let names = self.names.iter().flat_map(|(_, name)| [name.clone(), "95 %".to_string()]);
        Chart {
            title: self.title.clone(),
            measure: self.measure.clone(),
            about: self.about.clone(),
            keys: self.names.iter().map(|(at, name)| Key::area(*at, name)).collect(),
            data: Data {
                head: head.into_iter().chain(names).collect(),
                rows: self.groups.iter().map(Group::cells).collect(),
            },
            drawings: Width::IN_COLUMNS.map(|room| self.drawing(room, common)).into(),
        }
    }

    fn drawing(&self, room: Width, common: Option<f64>) -> Drawing {
        let max = common.unwrap_or_else(|| self.end());
        let (ticks, decimals) = linear_ticks(0.0, (max * HEADROOM).max(1e-9));
        let labels: Vec<String> = ticks.iter().map(|tick| label(*tick, decimals)).collect();
        let frame = room.frame(labels.iter().map(String::as_str));
        let width = (frame.right - frame.left) / self.groups.len().max(1) as f64;
        let names: Vec<Vec<String>> =
            self.groups.iter().map(|group| lines_of(&group.label, width - 4.0)).collect();
        let mut drawing = Drawing::new(room, frame);
        drawing.height +=
            LINE * (names.iter().map(Vec::len).max().unwrap_or(1).max(1) as f64 - 1.0);
        let end = ticks.last().copied().unwrap_or(1.0);
        let span = Span::linear([0.0, end], [frame.bottom, frame.top]);
        let ticks = ticks.iter().zip(labels).map(|(tick, label)| span.tick(*tick, label)).collect();
        let own = if common.is_none() { OWN_AXIS } else { "" };
        let title = phrases::joined([self.y_title, own].map(str::to_string), ", ");
        drawing.y = Axis { title, ticks };
        drawing.x.title = self.x_title.to_string();
        for (at, (group, names)) in self.groups.iter().zip(names).enumerate() {
            let left = frame.left + width * at as f64;
            self.draw_group(group, (left, width), span, &mut drawing);
            for (line, name) in names.iter().enumerate() {
                let y = frame.bottom + LINE * (line as f64 + 1.0);
                drawing.text("label", (left + width / 2.0, y), "middle", name);
            }
        }
        if let Some(one) = self.one {
            let y = round(span.place(one));
            drawing.mark("one", format!("M{} {y}H{}", frame.left, frame.right), "");
        }
        drawing
    }

    fn draw_group(
        &self,
        group: &Group,
        (left, width): (f64, f64),
        span: Span,
        drawing: &mut Drawing,
    ) {
        let bar_width = width * FILL / group.bars.len().max(1) as f64;
        let widest = group.bars.iter().flatten().map(Bar::signed_text).map(|text| letters(&text));
        let is_labelled = bar_width >= widest.fold(0.0, f64::max);
        for (at, (bar, (number, name))) in group.bars.iter().zip(&self.names).enumerate() {
            let Some(bar) = bar else { continue };
            let x = left + width * (1.0 - FILL) / 2.0 + bar_width * at as f64;
            let (y, middle) = (span.place(bar.value), x + bar_width / 2.0);
            let label = format!("{}, {name}: {} {}", group.label, bar.text, bar.sign);
            drawing.mark(
                format!("bar {}", series(*number)),
                block(x, y, (bar_width - 1.0).max(0.5), drawing.frame.bottom - y),
                label.trim_end(),
            );
            let mut top = y;
            if let Some([low, high]) = bar.interval {
                let [from, to] = [low, high].map(|value| span.place(value));
                top = top.min(to);
                drawing.mark("interval", format!("M{middle:.1} {from:.1}V{to:.1}"), "");
            }
            let text = if is_labelled { bar.signed_text() } else { bar.sign.to_string() };
            if !text.is_empty() {
                drawing.text("value", (middle, top - 4.0), "middle", &text);
            }
        }
    }
}

impl Bar {
    fn signed_text(&self) -> String {
        format!("{}{}", self.text, self.sign)
    }
}

impl Group {
    /// For each bar its value with the sign of its verdict, and its interval.
    fn cells(&self) -> Vec<String> {
        let bar = |bar: &Option<Bar>| {
            let Some(bar) = bar else { return ["-".to_string(), String::new()] };
            let limit = |limit| numbers::significant(limit, 4);
            let interval =
                bar.interval.map(|[low, high]| format!("{} to {}", limit(low), limit(high)));
            [
                format!("{} {}", bar.text, bar.sign).trim_end().to_string(),
                interval.unwrap_or_default(),
            ]
        };
        [self.label.clone()].into_iter().chain(self.bars.iter().flat_map(bar)).collect()
    }
}
