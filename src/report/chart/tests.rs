//! Letters of every drawing lie inside it and on no others, and each chart says what it is of.

use super::*;
use crate::analysis::{Analysis, CountedRun, LatencyPicture, SideLatency};
use crate::model::{RunKey, Unit};
use crate::report::testing::{self, HIGHER, HOSTILE, LOWER, headline, values};
use crate::stats::Verdict;

/// A text and where it is: left, right, top and bottom.
type Letters = (String, [f64; 4]);

fn placed(text: &str, anchor: &str, x: f64, y: f64) -> Letters {
    let width = letters(text);
    let left = match anchor {
        "end" => x - width,
        "middle" => x - width / 2.0,
        _ => x,
    };
    (text.to_string(), [left, left + width, y - 10.0, y + 2.0])
}

/// A bold text is wider.
fn placed_text(of: &Text) -> Letters {
    let (text, [left, right, top, bottom]) = placed(&of.text, of.anchor, of.x, of.y);
    let by = if of.class.contains("bold") { 0.15 * (right - left) } else { 0.0 };
    (text, [left, right + by, top, bottom])
}

/// As the template writes them.
fn texts(drawing: &Drawing) -> Vec<Letters> {
    let Frame { left, right, top, bottom } = drawing.frame;
    let y =
        drawing.y.ticks.iter().map(|tick| placed(&tick.label, "end", left - 6.0, tick.at + 4.0));
    let x =
        drawing.x.ticks.iter().map(|tick| placed(&tick.label, "middle", tick.at, bottom + 16.0));
    let titles = [
        placed(&drawing.x.title, "end", right, drawing.height - 8.0),
        placed(&drawing.y.title, "start", left, top - 6.0),
    ];
    let own = drawing.texts.iter().map(placed_text);
    y.chain(x).chain(titles).chain(own).filter(|(text, _)| !text.is_empty()).collect()
}

fn assert_legible(chart: &Chart) {
    let rooms: Vec<Width> = chart.drawings.iter().map(|of| of.room).collect();
    assert!(rooms == Width::ALL || rooms == Width::IN_COLUMNS, "{rooms:?}");
    for drawing in &chart.drawings {
        let place = format!("{} {:?}", chart.title, drawing.room);
        assert_eq!(drawing.width, drawing.room.units(), "{place}");
        let texts = texts(drawing);
        for (at, (text, [left, right, top, bottom])) in texts.iter().enumerate() {
            let is_inside = *left >= -1.0 && *right <= drawing.width + 1.0;
            assert!(
                is_inside && *top >= 0.0 && *bottom <= drawing.height,
                "{place}: `{text}` {left} {right}"
            );
            for (other, [from, to, above, below]) in &texts[at + 1..] {
                let is_over =
                    left.max(*from) < right.min(*to) && top.max(*above) < bottom.min(*below);
                assert!(!is_over, "{place}: `{text}` and `{other}`");
            }
        }
        assert!(drawing.frame.left < drawing.frame.right, "{place}");
    }
}

fn names(analysis: &Analysis) -> Vec<String> {
    analysis.sides.iter().map(|side| clean(&side.label)).collect()
}

/// Two sets of one work, and a program over an axis, for sides of these names.
fn mixed(sides: &[&str]) -> Analysis {
    let mut analysis = testing::ordinary();
    analysis.sides = sides.iter().map(|name| testing::side(name)).collect();
    let cells = |centre: f64| -> Vec<_> {
        let other = |_: &&str| values(centre * 1.1, 0.02).judged(Verdict::Better, 1.1, 1.05, 1.16);
        [values(centre, 0.02)].into_iter().chain(sides[1..].iter().map(other)).collect()
    };
    let rows = |centre: f64| {
        vec![
            headline("throughput", Unit::OpsPerS, HIGHER, cells(centre)),
            headline("wakeup_p99", Unit::Ns, LOWER, cells(1e9 / centre)),
        ]
    };
    let point = |load: &str, centre| {
        testing::work("web", &[("load", load)], "web", "schbench", rows(centre))
    };
    let mut mix = testing::work("mix", &[], "heavy", "burnwait", rows(1e6));
    let mut light = mix.sets[0].clone();
    light.name = "light".to_string();
    mix.sets.push(light);
    analysis.works = vec![mix, point("2x", 4000.0), point("0.5x", 900.0), point("1x", 2000.0)];
    analysis
}

fn latencies(sides: usize) -> LatencyPicture {
    let side = |at: usize| {
        let mut side = SideLatency::default();
        side.all.add(1_000 << at, 90_000);
        side.all.add(900_000, 90);
        side.rounds = (0..8).map(|round| (round, vec![(20 + at as u8, 10), (44, 1)])).collect();
        side
    };
    LatencyPicture {
        set: "light".into(),
        name: "wakeup".into(),
        sides: (0..sides).map(side).collect(),
    }
}

/// Every chart of an analysis.
fn charts(analysis: &mut Analysis) -> Vec<Chart> {
    let names = names(analysis);
    let run = |side: usize, round: u32| CountedRun {
        plan: 0,
        order: round as usize * names.len() + side,
        key: RunKey { round, cell: side as u32 },
        round,
    };
    for work in &mut analysis.works {
        let rounds = |side| (0..10).map(|round| run(side, round)).collect();
        work.runs = (0..names.len()).map(rounds).collect();
    }
    let mut charts: Vec<Chart> = forest(analysis, &names).into_iter().collect();
    charts.extend(loads(analysis, &names));
    charts.extend(super::values(analysis, &names));
    charts.extend(analysis.rows().filter_map(|place| rounds(analysis, place, &names)));
    let pictures = [latencies(names.len())];
    charts.extend(curves(&pictures[0], &pictures, "mix light", &names));
    charts.extend(heat(&pictures[0], &pictures, "mix light", &names));
    charts.extend(analysis.sets().flat_map(|(_, set)| switches(set, "web", &names, false)));
    charts.extend(fairness(&testing::fairness()));
    charts
}

#[test]
fn letters_are_inside_and_on_no_others_at_both_widths() {
    let long = "a scheduler with a name that is as long as some are, and then a bit longer";
    let nine = ["default", "b", "c", "d", "e", "f", "a longer one", "h", "i"];
    let mut analyses = vec![
        testing::ordinary(),
        testing::explained(),
        testing::in_the_lab(0),
        mixed(&["default", "batch"]),
        mixed(&["default", long, "another"]),
        mixed(&nine),
    ];
    analyses.extend(HOSTILE.map(testing::hostile));
    for analysis in &mut analyses {
        let charts = charts(analysis);
        assert!(charts.len() > 2);
        charts.iter().for_each(assert_legible);
    }
}

#[test]
fn each_chart_names_its_set_and_what_is_better_and_no_two_are_called_alike() {
    let mut analysis = mixed(&["default", "batch"]);
    let names = names(&analysis);
    let own: Vec<Chart> = super::values(&analysis, &names);
    let found = |title: &str| own.iter().find(|chart| chart.title == title).expect(title);
    assert_eq!(found("mix heavy: throughput").measure, "M requests/s, more is better");
    assert_eq!(found("mix light: wakeup_p99").measure, "us, less is better");
    let over = found("web: throughput over load");
    let points: Vec<&str> = over.data.rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(points[..3], ["0.5x", "1x", "2x"], "by size");
    let mut titles: Vec<String> =
        charts(&mut analysis).into_iter().map(|chart| chart.title).collect();
    let all = titles.len();
    titles.sort();
    titles.dedup();
    assert_eq!(titles.len(), all, "{titles:?}");
}

#[test]
fn names_of_sides_are_whole() {
    let long = "a scheduler with a name that is as long as some are, and then a bit longer";
    let analysis = mixed(&["default", long, "another"]);
    let chart = forest(&analysis, &names(&analysis)).unwrap();
    for drawing in &chart.drawings {
        let all: Vec<&str> = drawing.texts.iter().map(|text| text.text.as_str()).collect();
        assert!(all.join(" ").contains(long), "{all:?}");
    }
}

#[test]
fn the_axis_of_changes_is_as_wide_as_they_are_and_in_percent() {
    let analysis = mixed(&["default", "batch"]);
    let chart = forest(&analysis, &names(&analysis)).unwrap();
    for drawing in &chart.drawings {
        let labels: Vec<&str> = drawing.x.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert!(labels.contains(&"0") && labels.contains(&"+10 %"), "{labels:?}");
        let Frame { left, right, .. } = drawing.frame;
        let highest = drawing.x.ticks.iter().map(|tick| tick.at).fold(0.0, f64::max);
        let none = drawing.x.ticks.iter().find(|tick| tick.label == "0").unwrap().at;
        // All changes are upwards: the axis has little room below the band of no change.
        assert!(none - left < (right - left) * 0.6 && highest > none, "{none} {left} {right}");
        assert_eq!(drawing.marks.iter().filter(|mark| mark.class == "arrow").count(), 10);
    }
}

#[test]
fn values_loads_and_switches_have_intervals_unless_they_are_exact() {
    let intervals = |charts: &[Chart]| {
        let marks = charts.iter().flat_map(|chart| &chart.drawings).flat_map(|of| &of.marks);
        marks.filter(|mark| mark.class.starts_with("interval")).count()
    };
    let (mut analysis, explained) = (mixed(&["default", "batch"]), testing::explained());
    let names = names(&analysis);
    assert!(intervals(&super::values(&analysis, &names)) > 0);
    assert!(intervals(&loads(&analysis, &names)) > 0);
    let of_sets = |is_exact| -> Vec<Chart> {
        let sets = explained.sets();
        sets.flat_map(|(_, set)| switches(set, "web", &self::names(&explained), is_exact)).collect()
    };
    assert!(intervals(&of_sets(false)) > 0);
    assert_eq!(intervals(&of_sets(true)), 0);
    analysis.sides.iter_mut().for_each(|side| side.times.exact = side.runs);
    assert!(analysis.is_exact());
    assert_eq!(
        intervals(&[super::values(&analysis, &names), loads(&analysis, &names)].concat()),
        0
    );
}

#[test]
fn plans_over_dates_are_a_line_over_plans() {
    let mut analysis = mixed(&["monday", "tuesday", "friday"]);
    let plans = ["monday", "tuesday", "friday"].map(testing::plan);
    for (side, plan) in analysis.sides.iter_mut().zip(&plans) {
        side.plans = vec![plan.id.clone()];
    }
    analysis.plans = plans.to_vec();
    let charts = super::values(&analysis, &names(&analysis));
    let chart = charts.iter().find(|chart| chart.title == "web: throughput over plans").unwrap();
    // The names of the points: when, and on which kernel.
    for name in ["2026-02-03 14:05", "6.18.5"] {
        assert!(chart.drawings[0].texts.iter().any(|text| text.text == name), "{chart:?}");
    }
    let series: Vec<&str> = chart.keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(series, ["load=2x", "load=0.5x", "load=1x"]);
    charts.iter().for_each(assert_legible);
}

/// The labels and the title of the axis of values, for each drawing.
fn axes(charts: &[Chart]) -> Vec<[(Vec<String>, String); 2]> {
    let axis = |drawing: &Drawing| {
        let labels = drawing.y.ticks.iter().map(|tick| tick.label.clone()).collect();
        (labels, drawing.y.title.clone())
    };
    charts.iter().map(|chart| [0, 1].map(|room| axis(&chart.drawings[room]))).collect()
}

#[test]
fn charts_next_to_each_other_have_one_axis_or_say_that_each_has_its_own() {
    let mut table = testing::fairness();
    table.variants.truncate(1);
    let mut other = table.variants[0].clone();
    other.sets.iter_mut().flat_map(|set| &mut set.figures).for_each(|(_, rounds)| {
        rounds.0.iter_mut().for_each(|own| *own = own.clone().map(|value| value / 2.0));
    });
    table.variants.push(other);
    let alike = axes(&fairness(&table));
    assert!(alike.len() == 2 && alike[0] == alike[1], "{alike:?}");
    let at = |threads: &str, load: &str, centre| {
        let cells = vec![values(centre, 0.02), values(centre, 0.02)];
        let rows = vec![headline("throughput", Unit::OpsPerS, HIGHER, cells)];
        testing::work("web", &[("threads", threads), ("load", load)], "web", "schbench", rows)
    };
    let mut analysis = mixed(&["default", "batch"]);
    for (far, is_one) in [(3000.0, true), (9000.0, false)] {
        analysis.works = vec![
            at("1", "1x", 1000.0),
            at("1", "2x", 1000.0),
            at("4", "1x", far),
            at("4", "2x", far),
        ];
        let charts = super::values(&analysis, &names(&analysis));
        let over_load: Vec<Chart> =
            charts.into_iter().filter(|chart| chart.title.ends_with("over load")).collect();
        let found = axes(&over_load);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0][0].0 == found[1][0].0, is_one, "{found:?}");
        let says = found.iter().flatten().all(|(_, title)| title.contains(OWN_AXIS));
        assert_eq!(says, !is_one, "{found:?}");
    }
}

#[test]
fn an_axis_that_is_not_even_says_so() {
    let analysis = mixed(&["default", "batch"]);
    let names = names(&analysis);
    let forest = forest(&analysis, &names).unwrap();
    assert!(forest.drawings.iter().all(|own| own.x.title.ends_with("log scale")), "{forest:?}");
    let pictures = [latencies(2)];
    let curves = curves(&pictures[0], &pictures, "web", &names).unwrap();
    assert!(curves.drawings.iter().all(|own| own.y.title == "log scale"), "{curves:?}");
    let charts = super::values(&analysis, &names);
    let over = charts.iter().find(|chart| chart.title == "web: throughput over load").unwrap();
    // From 0.5x to 1x to 2x.
    assert_eq!(over.drawings[0].x.title, "load, not to scale");
}

#[test]
fn the_answer_has_a_drawing_for_a_whole_page_and_says_what_it_cuts() {
    let mut analysis = mixed(&["default", "batch"]);
    let names = names(&analysis);
    let chart = forest(&analysis, &names).unwrap();
    let rooms: Vec<Width> = chart.drawings.iter().map(|own| own.room).collect();
    assert_eq!(rooms, Width::ALL);
    assert!(!chart.about.contains("at the edge"), "{}", chart.about);
    for cell in &mut analysis.works[0].sets[0].rows[0].cells[1..] {
        *cell = values(1e6, 0.02).judged(Verdict::Better, 30.0, 28.0, 32.0);
    }
    assert!(forest(&analysis, &names).unwrap().about.contains("at the edge"));
}

/// As the table says it: a change of which there is no ratio is not left out.
#[test]
fn a_side_without_a_ratio_stands_in_words() {
    let mut analysis = mixed(&["default", "batch", "idle"]);
    let names = names(&analysis);
    for work in &mut analysis.works {
        let cell = &mut work.sets[0].rows[0].cells[2];
        *cell = values(0.0, 0.0).differing(Verdict::Worse, -999.0, -1001.0, -997.0);
    }
    let forest = forest(&analysis, &names).unwrap();
    for drawing in &forest.drawings {
        let texts = drawing.texts.iter().filter(|text| text.text == "-999 /s +-2 WORSE");
        assert_eq!(texts.count(), 4, "{drawing:?}");
        let said = |mark: &&Mark| mark.label.ends_with(", idle: -999 /s +-2 WORSE");
        assert_eq!(drawing.marks.iter().filter(said).count(), 4);
    }
    assert!(forest.about.contains("no ratio"), "{}", forest.about);
    let rows = forest.data.rows.iter().filter(|row| row[3] == "-999 /s");
    assert_eq!(rows.filter(|row| row[6..].iter().all(String::is_empty)).count(), 4);
    let loads = loads(&analysis, &names);
    let load = loads.iter().find(|chart| chart.title.contains("throughput")).unwrap();
    assert!(load.drawings[0].marks.iter().any(|mark| mark.label == "2x, idle: -999 /s -"));
    assert!(load.about.contains("no ratio"), "{}", load.about);
    assert!(load.data.rows.iter().all(|row| row[3] == "-999 /s -"), "{:?}", load.data);
    charts(&mut analysis).iter().for_each(assert_legible);
    // Where all changes are such, a chart of the values says more.
    let rows =
        analysis.works.iter_mut().flat_map(|work| &mut work.sets).flat_map(|set| &mut set.rows);
    rows.for_each(|row| {
        let zero = || values(0.0, 0.0).differing(Verdict::Worse, -999.0, -1001.0, -997.0);
        row.cells[1..].iter_mut().for_each(|cell| *cell = zero());
    });
    assert_eq!(super::forest(&analysis, &names), None);
}

#[test]
fn a_named_percentile_lies_on_its_curve() {
    let pictures = [latencies(1)];
    let chart = curves(&pictures[0], &pictures, "web", &["default".to_string()]).unwrap();
    let marks = &chart.drawings[0].marks;
    let line = &marks.iter().find(|mark| mark.class.starts_with("line")).unwrap().path;
    for dot in marks.iter().filter(|mark| mark.class.starts_with("dot")) {
        // A circle begins 3 left of its middle.
        let (x, rest) = dot.path[1..].split_once(' ').unwrap();
        let y = rest.split('a').next().unwrap();
        let middle = format!("{:.1} {y}", x.parse::<f64>().unwrap() + 3.0);
        assert!(line.contains(&middle), "{middle} {line}");
    }
}

#[test]
fn a_run_under_a_second_has_no_timeline() {
    let figure = || Figure {
        title: "web: throughput".to_string(),
        measure: "/s".to_string(),
        about: String::new(),
        unit: "/s".to_string(),
        end: None,
        names: vec!["default".to_string()],
    };
    let line = |ends: &[f64]| Line {
        name: "worker".to_string(),
        series: 0,
        points: ends.iter().map(|end| (*end, 5.0)).collect(),
    };
    for none in [&[][..], &[0.2], &[0.2, 0.4, 0.6], &[5.0], &[1.3, 1.4]] {
        assert!(timeline(figure(), &[line(none)]).is_none(), "{none:?}");
    }
    assert_legible(&timeline(figure(), &[line(&[1.0, 2.0])]).unwrap());
}

/// Units of a label in DejaVu Sans, which is wide, at 12 units.
fn width_in_a_wide_font(label: &str) -> f64 {
    let width = |c: char| match c {
        '+' => 10.1,
        '%' => 11.4,
        ' ' => 3.9,
        '-' => 4.4,
        '.' => 3.9,
        _ => 7.7,
    };
    label.chars().map(width).sum()
}

/// A label at an edge is whole or left out, wherever the greatest change ends the axis.
#[test]
fn ticks_of_the_answer_are_inside() {
    let mut analysis = mixed(&["default", "batch"]);
    analysis.works.truncate(1);
    let names = names(&analysis);
    for (named, step) in [1.05f64, 1.2, 1.5, 2.0, 3.0, 0.5, 0.8]
        .iter()
        .flat_map(|named| (0..40).map(move |step| (named, f64::from(step))))
    {
        let ratio = named.powf(0.97 + step / 1000.0);
        for row in analysis.works[0].sets.iter_mut().flat_map(|set| &mut set.rows) {
            row.cells[1] = values(1e6, 0.0).judged(Verdict::Better, ratio, ratio, ratio);
        }
        for drawing in &forest(&analysis, &names).unwrap().drawings {
            for tick in &drawing.x.ticks {
                let half = width_in_a_wide_font(&tick.label) / 2.0;
                let is_inside = tick.at >= half && tick.at + half <= drawing.width;
                assert!(is_inside, "{ratio} {:?} {tick:?}", drawing.room);
            }
        }
    }
}
