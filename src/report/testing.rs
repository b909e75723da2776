//! Invented comparisons for the tests of the formats.

use super::Format;
use crate::compare::{Cell, Comparison, Method, Pairing, Row, SetTable, Side, Switches, WorkTable};
use crate::model::{Direction, GuestKernel, GuestTime, GuestTimes, Params, Unit};
use crate::report::Options;
use crate::stats::{
    Interval, Judged, NoRatio, Ratio, Rounds, Shape, Unjudged, Verdict, Why, cv, mean, median,
};

pub const TWO_MODES: Shape =
    Shape::TwoModes { low: 12e6, high: 31e6, in_high: 4, of: 10, separation: 9.0 };

pub const TREND: Shape = Shape::Trend { tau: 0.8, p_value: 0.002, last_over_first: 1.03 };

pub use Direction::{HigherIsBetter as HIGHER, LowerIsBetter as LOWER, Neutral as NEUTRAL};

pub fn render(format: &dyn Format, comparison: &Comparison, options: Options) -> String {
    let mut out = Vec::new();
    format.render(comparison, &options, &mut out).expect("a Vec takes everything");
    String::from_utf8(out).expect("UTF-8")
}

pub fn without_colour(text: &str) -> String {
    let sequences = ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m"];
    sequences.iter().fold(text.to_string(), |text, sequence| text.replace(sequence, ""))
}

pub fn side(label: &str) -> Side {
    Side {
        label: label.to_string(),
        kernels: vec!["6.18.5".to_string()],
        machines: vec!["AMD EPYC 7713, 128 CPUs".to_string()],
        backends: vec!["local".to_string()],
        plans: vec!["2026-02-03-web-1".to_string()],
        boots: Some(1),
        runs: 40,
        times: GuestTimes::default(),
        guests: Vec::new(),
    }
}

/// As [`ordinary`], in the lab; so many runs of the second side are not exact.
pub fn in_the_lab(not_exact: usize) -> Comparison {
    let mut comparison = ordinary();
    let asked = ["debian:6.1", "debian:6.18"];
    for ((side, asked), not_exact) in comparison.sides.iter_mut().zip(asked).zip([0, not_exact]) {
        let text = |text: &str| Some(text.to_string());
        let (release, digest) = (text("6.1.0-56-cloud-amd64"), text("0123456789ab"));
        let kernel = GuestKernel { release, version: None, digest };
        side.kernels = vec![format!("{asked} ({kernel:#})")];
        (side.machines, side.backends) = (vec!["lab".to_string()], vec!["lab".to_string()]);
        side.boots = None;
        side.times.add(&GuestTime::Exact, side.runs - not_exact);
        if not_exact > 0 {
            side.times.add(&GuestTime::NotExact("out of step".to_string()), not_exact);
        }
        side.guests = vec![(asked.to_string(), kernel)];
    }
    comparison
}

/// Ten rounds around a centre.
pub fn values(centre: f64, spread: f64) -> Cell {
    const PATTERN: [f64; 10] = [0.3, -0.7, 1.0, -0.2, 0.1, -1.0, 0.6, 0.4, -0.9, 0.4];
    let values = PATTERN.iter().zip(0..).map(|(by, round)| (round, centre * (1.0 + spread * by)));
    cell(values.collect())
}

pub fn cell(values: Vec<(u32, f64)>) -> Cell {
    let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let inverse: Vec<f64> = plain.iter().map(|value| 1.0 / value).collect();
    let positive = plain.iter().all(|value| *value > 0.0);
    Cell {
        mean: mean(&plain),
        hmean: mean(&inverse).filter(|_| positive).map(|inverse| 1.0 / inverse),
        median: median(&plain),
        cv: cv(&plain),
        values,
        judged: None,
        shapes: Vec::new(),
    }
}

impl Cell {
    pub fn shaped(mut self, shape: Shape) -> Cell {
        self.shapes.push(shape);
        self
    }

    pub fn judged(mut self, verdict: Verdict, ratio: f64, low: f64, high: f64) -> Cell {
        let decided = matches!(verdict, Verdict::Better | Verdict::Worse | Verdict::Same);
        let pairs = self.values.len();
        self.judged = Some(Judged {
            ratio: Ok(Ratio { ratio, interval: Some(Interval { low, high }), pairs }),
            verdict,
            p_difference: Some(if decided { 0.00123 } else { 0.18 }),
            p_same: Some(if verdict == Verdict::Same { 0.0024 } else { 1.0 }),
            decided_at: decided.then_some(10),
        });
        self
    }

    /// As [`Cell::judged`], with only one pair.
    pub fn single(self, verdict: Verdict, ratio: f64) -> Cell {
        let mut cell = self.judged(verdict, ratio, 0.0, 0.0);
        let judged = cell.judged.as_mut().expect("just set");
        judged.ratio = Ok(Ratio { ratio, interval: None, pairs: 1 });
        (judged.p_difference, judged.p_same) = (None, None);
        cell
    }

    pub fn without_ratio(mut self, why: NoRatio) -> Cell {
        let verdict = Verdict::Unjudged(Unjudged::NoRatio(why));
        let (p_difference, p_same, decided_at) = (None, None, None);
        self.judged = Some(Judged { ratio: Err(why), verdict, p_difference, p_same, decided_at });
        self
    }
}

pub fn open(why: Why, rounds: Rounds) -> Verdict {
    Verdict::Inconclusive { why, rounds }
}

pub fn row(metric: &str, unit: Unit, direction: Direction, cells: Vec<Cell>) -> Row {
    Row { metric: metric.to_string(), unit, direction, cells }
}

/// One work of one set.
pub fn work(
    name: &str,
    axes: &[(&str, &str)],
    set: &str,
    workload: &str,
    rows: Vec<Row>,
) -> WorkTable {
    let axes: Vec<(String, String)> =
        axes.iter().map(|(axis, point)| (axis.to_string(), point.to_string())).collect();
    let points: String = axes.iter().map(|(axis, point)| format!(" {axis}={point}")).collect();
    let set = SetTable {
        name: set.to_string(),
        workload: workload.to_string(),
        params: Params::new(),
        ops: "requests".to_string(),
        rows,
        switches: Vec::new(),
    };
    WorkTable { label: format!("{name}{points}"), name: name.to_string(), axes, sets: vec![set] }
}

pub fn nothing() -> Comparison {
    let method = Method {
        margin: 0.02,
        margins: Vec::new(),
        alpha: 0.05,
        family: 0,
        pairing: Pairing::WithinRounds,
        floors: Vec::new(),
        looks: None,
        seed: 1,
    };
    let command = "schedlab compare default batch".to_string();
    let (sides, works, missing) = (Vec::new(), Vec::new(), Vec::new());
    let (refused, remarks) = (Vec::new(), Vec::new());
    Comparison { sides, method, works, refused, missing, remarks, command }
}

pub fn sides_only() -> Comparison {
    let mut comparison = nothing();
    comparison.sides = vec![side("default"), side("batch")];
    comparison
}

/// Two variants of one plan.
pub fn ordinary() -> Comparison {
    let mut comparison = sides_only();
    comparison.method.family = 7;
    let us = 1e3;
    let two = vec![
        row(
            "throughput",
            Unit::OpsPerS,
            HIGHER,
            vec![
                values(4376.0, 0.004),
                values(4381.0, 0.005).judged(Verdict::Same, 1.0011, 0.9968, 1.0053),
            ],
        ),
        row(
            "wakeup_p99",
            Unit::Ns,
            LOWER,
            vec![
                values(1266.0 * us, 0.06),
                values(755.0 * us, 0.05).judged(Verdict::Better, 0.5964, 0.5721, 0.6216),
            ],
        ),
        row(
            "request_p99",
            Unit::Ns,
            LOWER,
            vec![
                values(22304.0 * us, 0.03),
                values(22416.0 * us, 0.04).judged(
                    open(Why::Noise, Rounds::Number(31)),
                    1.005,
                    0.9788,
                    1.0319,
                ),
            ],
        ),
        row(
            "fairness",
            Unit::Ratio,
            HIGHER,
            vec![
                values(0.9991, 0.0002),
                values(0.9990, 0.0002).judged(Verdict::Same, 0.9999, 0.9997, 1.0001),
            ],
        ),
    ];
    let four = vec![
        row(
            "throughput",
            Unit::OpsPerS,
            HIGHER,
            vec![
                values(37696.0, 0.006),
                values(41664.0, 0.007).judged(Verdict::Better, 1.1053, 1.0996, 1.1109),
            ],
        ),
        row(
            "wakeup_p99",
            Unit::Ns,
            LOWER,
            vec![
                values(355.0 * us, 0.05),
                values(555.0 * us, 0.12).judged(Verdict::Worse, 1.5634, 1.4012, 1.7443),
            ],
        ),
        row(
            "request_p99",
            Unit::Ns,
            LOWER,
            vec![
                values(2620.0 * us, 0.03),
                values(2715.0 * us, 0.03).judged(
                    open(Why::OnlyAlone, Rounds::Number(14)),
                    1.0362,
                    1.0061,
                    1.0672,
                ),
            ],
        ),
        row(
            "switches",
            Unit::PerS,
            NEUTRAL,
            vec![
                values(81_200.0, 0.01),
                values(64_100.0, 0.01).judged(
                    Verdict::Unjudged(Unjudged::Neutral),
                    0.7894,
                    0.7831,
                    0.7958,
                ),
            ],
        ),
    ];
    comparison.works = vec![
        work("web", &[("threads", "2")], "web", "schbench", two),
        work("web", &[("threads", "4")], "web", "schbench", four),
    ];
    comparison
}

/// As [`ordinary`], with a probe that counted the switches of two roles, as in the mail of 25
/// March 2024; of one nothing happened on the baseline.
pub fn explained() -> Comparison {
    let mut comparison = ordinary();
    let switches = |role: &str, is_voluntary: bool, means: [f64; 2], per_op: [Option<f64>; 2]| {
        let kind = if is_voluntary { "voluntary" } else { "involuntary" };
        let cells = means.map(|mean| values(mean, 0.02)).to_vec();
        let row = row(&format!("{role}_{kind}_switches"), Unit::PerS, NEUTRAL, cells);
        Switches { role: role.to_string(), is_voluntary, row, per_op: per_op.to_vec() }
    };
    comparison.works[0].sets[0].switches = vec![
        switches("worker", true, [8752.0, 175.0], [Some(2.0), Some(0.04)]),
        switches("worker", false, [500.0, 1600.0], [Some(0.1143), Some(0.3652)]),
        switches("message", true, [4400.0, 4376.0], [Some(1.0055), None]),
        switches("message", false, [0.0, 12.0], [Some(0.0), Some(0.0027)]),
    ];
    comparison
}

/// Three kernels, measured at different times, with all that can be odd.
pub fn troubled() -> Comparison {
    let mut comparison = nothing();
    comparison.sides =
        ["6.6.87-cfs", "6.18.5-eevdf-with-a-long-name", "6.18.5-lavd"].map(side).to_vec();
    comparison.sides[0].kernels = vec!["6.6.87".to_string(), "6.6.88".to_string()];
    comparison.sides[0].boots = Some(4);
    comparison.sides[1].boots = None;
    comparison.sides[2].kernels.clear();
    comparison.sides[2].plans = (1..9).map(|plan| format!("plan-{plan}")).collect();
    comparison.method = Method {
        margin: 0.02,
        margins: vec![("wakeup_p99".to_string(), 0.05)],
        alpha: 0.05,
        family: 12,
        pairing: Pairing::None,
        floors: vec!["20261120-010203-aaaa".to_string()],
        looks: Some(vec![6, 9, 14]),
        seed: 7,
    };
    comparison.works = vec![troubled_work()];
    comparison.missing =
        vec!["6.18.5-lavd: 3 of 10 runs of `web` failed: a worker hung".to_string()];
    comparison.refused = vec![
        "web threads=8: 6.18.5-lavd has no run of it".to_string(),
        "burn: its parameter `period` is 1 ms on one side and 2 ms on the other".to_string(),
    ];
    comparison.remarks = vec![
        "all runs of 6.6.87-cfs are from other boots than those of 6.18.5-lavd: variation from \
         boot to boot is not covered; reboot between rounds to cover it"
            .to_string(),
    ];
    comparison.command = "schedlab compare kernel:6.6.87-cfs kernel:6.18.5-eevdf-with-a-long-name \
                          kernel:6.18.5-lavd --margin 2% --title 'three kernels'"
        .to_string();
    comparison
}

fn troubled_work() -> WorkTable {
    let few = Why::TooFewRounds { least: 6 };
    let negative = NoRatio::NotPositive { round: 2, value: 0.0 };
    let rows = vec![
        row(
            "throughput",
            Unit::OpsPerS,
            HIGHER,
            vec![
                values(4376.0, 0.01),
                values(4200.0, 0.01).judged(Verdict::Worse, 0.9598, 0.9511, 0.9685),
                values(4390.0, 0.02).judged(
                    open(Why::SameOnlyAlone, Rounds::MoreThan(1000)),
                    1.0032,
                    0.9886,
                    1.018,
                ),
            ],
        ),
        row(
            "wakeup_p99",
            Unit::Ns,
            LOWER,
            vec![
                values(21e6, 0.3).shaped(TWO_MODES),
                values(21e6, 0.2).shaped(TREND).judged(
                    open(Why::Noise, Rounds::Number(88)),
                    1.01,
                    0.75,
                    1.36,
                ),
                cell(vec![(0, 12e6)]).single(open(few, Rounds::Number(6)), 0.571),
            ],
        ),
        row(
            "misses",
            Unit::Count,
            LOWER,
            vec![
                cell(vec![(0, 3.0), (1, 5.0), (2, 0.0)]),
                cell(vec![(0, 3.0), (1, 4.0), (2, 1.0)]).without_ratio(negative),
                cell(Vec::new()).without_ratio(NoRatio::NoPairs),
            ],
        ),
        row(
            "busy",
            Unit::Cpus,
            NEUTRAL,
            vec![
                values(1.98, 0.001),
                values(1.97, 0.001).judged(
                    Verdict::Unjudged(Unjudged::Neutral),
                    0.995,
                    0.994,
                    0.996,
                ),
                cell(Vec::new()).without_ratio(NoRatio::NoPairs),
            ],
        ),
    ];
    work("web", &[("threads", "4"), ("footprint", "256KiB")], "front", "schbench", rows)
}

/// Everything that has a name has this one.
pub fn hostile(name: &str) -> Comparison {
    let mut comparison = explained();
    let name = || name.to_string();
    for side in &mut comparison.sides {
        side.label = name();
        for list in [&mut side.kernels, &mut side.machines, &mut side.backends, &mut side.plans] {
            *list = vec![name()];
        }
    }
    comparison.method.margins = vec![(name(), 0.5)];
    comparison.refused = vec![name()];
    comparison.remarks = vec![name()];
    comparison.command = format!("schedlab compare {}", name());
    for work in &mut comparison.works {
        (work.name, work.label) = (name(), name());
        work.axes = vec![(name(), name())];
        for set in &mut work.sets {
            (set.name, set.workload, set.ops) = (name(), name(), name());
            for row in &mut set.rows {
                row.metric = name();
            }
            // What switches stand beside is known by its name.
            if let Some(row) = set.rows.first_mut().filter(|_| !set.switches.is_empty()) {
                row.metric = "throughput".to_string();
            }
            for own in &mut set.switches {
                (own.role, own.row.metric) = (name(), name());
            }
        }
    }
    comparison
}
