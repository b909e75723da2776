//! Grouped bars: each side over the baseline from light to heavy load, what worker sets want and get,
//! and the switches of roles. Pure.

use crate::analysis::{Analysis, Cell, FairnessTable, Row, SetTable};
use crate::model::{Reading, Statistic, Unit};
use crate::report::layout::{clean, shortened};
use crate::report::loads::{self, Point};
use crate::report::numbers;

use super::plot::{Span, label, linear_ticks, round};
use super::{Axis, Chart, Data, Frame, Key, Mark, Text, block, series};

const FRAME: Frame = Frame { left: 64.0, right: 630.0, top: 22.0, bottom: 210.0 };
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 250.0;
/// The share of a group that its bars fill.
const FILL: f64 = 0.8;
/// Values stand above bars that are as wide as they: units of a character.
const CHAR_WIDTH: f64 = 6.0;
const LABEL_CHARS: usize = 16;
/// So much of the axis is left for values above bars.
const HEADROOM: f64 = 1.08;
/// A bar is cut at so many times the baseline.
const MAX_RATIO: f64 = 8.0;

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
}

struct Bars<'a> {
    title: String,
    about: &'a str,
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
        let (better, sign) = point.better(analysis, side)?;
        Some(Bar { value: better.min(MAX_RATIO), text: numbers::ratio(better), sign })
    };
    let lines = loads::lines(analysis).into_iter().filter(|(_, points)| points.len() > 1);
    let charts = lines.map(|(label, mut points)| {
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        let group = |point: &Point| Group {
            label: format!("{}x", point.load),
            bars: (1..names.len()).map(|side| bar(point, side)).collect(),
        };
        let y_title = format!("times as good as {}", names[0]);
        Bars {
            title: clean(&label),
            about: "Bars are sides, groups are loads from light to heavy. Above 1 is better than the \
                    baseline, of times too. + is BETTER, - WORSE, = SAME, no sign open.",
            x_title: "load, times the CPUs",
            y_title: &y_title,
            one: Some(1.0),
            names: named(names, 1),
            groups: points.iter().map(group).collect(),
        }
        .draw()
    });
    charts.collect()
}

/// What workers of each set want, are entitled to and got: a chart for each side.
pub fn fairness(table: &FairnessTable) -> Vec<Chart> {
    let charts = table.variants.iter().map(|variant| {
        let bar = |reading: &Reading<f64>| {
            let value = reading.clone().known()?;
            Some(Bar { value, text: numbers::significant(value, 3), sign: "" })
        };
        let group = |set: &crate::analysis::SetFairness| Group {
            label: shortened(&set.set, LABEL_CHARS),
            bars: set.figures[..3].iter().map(|(_, rounds)| bar(&rounds.median())).collect(),
        };
        let names = ["wants", "entitled", "got"].map(str::to_string);
        Bars {
            title: format!("Fairness, {}", clean(&variant.variant)),
            about: "CPUs of one worker of each set: what it wants alone, what it is entitled to, what it got.",
            x_title: "",
            y_title: "CPUs of a worker",
            one: None,
            names: named(&names, 0),
            groups: variant.sets.iter().map(group).collect(),
        }
        .draw()
    });
    charts.collect()
}

/// Context switches of each role, per second: voluntary, and involuntary ones; none where they were not
/// counted.
pub fn switches(set: &SetTable, names: &[String]) -> Vec<Chart> {
    let kinds = [
        (
            Statistic::VoluntarySwitches,
            "Voluntary switches",
            "The worker waited. Medians over rounds.",
        ),
        (
            Statistic::InvoluntarySwitches,
            "Involuntary switches",
            "The scheduler took the worker's CPU. Medians over rounds.",
        ),
    ];
    let charts = kinds.into_iter().filter_map(|(statistic, title, about)| {
        let is_it = |row: &&Row| row.kind.statistic == statistic && row.kind.unit == Unit::PerS;
        let groups: Vec<Group> = set.rows.iter().filter(is_it).map(of_role).collect();
        let has_value = |group: &Group| group.bars.iter().flatten().any(|bar| bar.value > 0.0);
        let bars = Bars {
            title: format!("{title} per second"),
            about,
            x_title: "",
            y_title: "",
            one: None,
            names: named(names, 0),
            groups,
        };
        bars.groups.iter().any(has_value).then(|| bars.draw())
    });
    charts.collect()
}

/// The switches of one role on all sides.
fn of_role(row: &Row) -> Group {
    let bar = |cell: &Cell| {
        let value = cell.median?;
        Some(Bar { value, text: numbers::significant(value, 3), sign: "" })
    };
    let role = row.kind.subject.as_deref().unwrap_or("all");
    Group { label: shortened(role, LABEL_CHARS), bars: row.cells.iter().map(bar).collect() }
}

fn named(names: &[String], from: usize) -> Vec<(usize, String)> {
    names.iter().cloned().enumerate().skip(from).collect()
}

impl Bars<'_> {
    fn draw(self) -> Chart {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let max = bars().flatten().map(|bar| bar.value).chain(self.one).fold(0.0, f64::max);
        let (ticks, decimals) = linear_ticks(0.0, (max * HEADROOM).max(1e-9));
        let end = ticks.last().copied().unwrap_or(1.0);
        let span = Span::linear([0.0, end], [FRAME.bottom, FRAME.top]);
        let mut chart = Chart {
            title: self.title.clone(),
            about: self.about.to_string(),
            width: WIDTH,
            height: HEIGHT,
            x: Axis { title: self.x_title.to_string(), ticks: Vec::new() },
            y: Axis {
                title: self.y_title.to_string(),
                ticks: ticks.iter().map(|tick| span.tick(*tick, label(*tick, decimals))).collect(),
            },
            frame: FRAME,
            marks: Vec::new(),
            texts: Vec::new(),
            keys: self.names.iter().map(|(at, name)| Key::area(*at, name)).collect(),
            data: Data { head: self.head(), rows: Vec::new() },
        };
        let group_width = (FRAME.right - FRAME.left) / self.groups.len().max(1) as f64;
        for (at, group) in self.groups.iter().enumerate() {
            let left = FRAME.left + group_width * at as f64;
            self.draw_group(group, (left, group_width), span, &mut chart);
        }
        if let Some(one) = self.one {
            let y = round(span.place(one));
            let path = format!("M{} {y}H{}", FRAME.left, FRAME.right);
            chart.marks.push(Mark { class: "one".to_string(), path, label: String::new() });
        }
        chart
    }

    fn head(&self) -> Vec<String> {
        let first = if self.x_title.is_empty() { "of" } else { self.x_title };
        [first.to_string()]
            .into_iter()
            .chain(self.names.iter().map(|(_, name)| name.clone()))
            .collect()
    }

    fn draw_group(&self, group: &Group, (left, width): (f64, f64), span: Span, chart: &mut Chart) {
        let bar_width = width * FILL / group.bars.len().max(1) as f64;
        let chars = |bar: &Bar| (bar.text.len() + bar.sign.len()) as f64;
        let widest = group.bars.iter().flatten().map(chars).fold(0.0, f64::max);
        let is_labelled = bar_width >= CHAR_WIDTH * widest;
        for (at, (bar, (number, name))) in group.bars.iter().zip(&self.names).enumerate() {
            let Some(bar) = bar else { continue };
            let x = left + width * (1.0 - FILL) / 2.0 + bar_width * at as f64;
            let y = span.place(bar.value);
            let label = format!("{}, {name}: {} {}", group.label, bar.text, bar.sign);
            chart.marks.push(Mark {
                class: format!("bar {}", series(*number)),
                path: block(x, y, (bar_width - 1.0).max(0.5), FRAME.bottom - y),
                label: label.trim_end().to_string(),
            });
            let text = if is_labelled {
                format!("{}{}", bar.text, bar.sign)
            } else {
                bar.sign.to_string()
            };
            let (x, y) = (round(x + bar_width / 2.0), round(y - 4.0));
            chart.texts.push(Text { class: "value small", x, y, anchor: "middle", text });
        }
        let tick = super::Tick { at: round(left + width / 2.0), label: group.label.clone() };
        chart.x.ticks.push(tick);
        let cells = group.bars.iter().map(|bar| {
            bar.as_ref().map_or("-".to_string(), |bar| {
                format!("{} {}", bar.text, bar.sign).trim_end().to_string()
            })
        });
        chart.data.rows.push([group.label.clone()].into_iter().chain(cells).collect());
    }
}
