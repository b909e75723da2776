//! Invented analyses for the tests of the formats.

mod notes;

use super::{Format, Options};
use crate::analysis::testing::{environment, measure, plan as sampled, rounds};
use crate::analysis::{
    Analysis, Cell, FairnessTable, Family, Method, Note, Pairing, PlanFacts, Question, Row,
    Selection, SetFairness, SetTable, Side, VariantFairness, WorkTable, Workers, analyse, fairness,
};
use crate::model::{
    Direction, GuestKernel, GuestTime, Importance, MetricKind, PlanEnd, Reading, Statistic, Unit,
    Value, Variant, WorkerKind,
};
use crate::stats::{Look, NoEffect, Rounds, Shape, Verdict, Why, cv, harmonic_mean, mean, median};

pub const TWO_MODES: Shape =
    Shape::TwoModes { low: 12e6, high: 31e6, in_high: 4, of: 10, separation: 9.0 };

pub const TREND: Shape = Shape::Trend { tau: 0.8, p_value: 0.002, last_over_first: 1.03 };

pub const OUTLIER: Shape = Shape::Outlier { round: 7, value: 9e6, median: 1e6, deviations: 30.0 };

pub use notes::notes;

pub use Direction::{HigherIsBetter as HIGHER, LowerIsBetter as LOWER, Neutral as NEUTRAL};

pub fn render(format: &Format, analysis: &Analysis, options: Options) -> String {
    let mut out = Vec::new();
    let analyses = std::slice::from_ref(analysis);
    format.render(analyses, &options, &mut out).expect("a Vec takes everything");
    String::from_utf8(out).expect("UTF-8")
}

pub fn without_color(text: &str) -> String {
    let sequences = ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m"];
    sequences.iter().fold(text.to_string(), |text, sequence| text.replace(sequence, ""))
}

/// One space between all words.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn side(label: &str) -> Side {
    Side {
        label: label.to_string(),
        variants: vec![Variant { name: label.to_string(), knobs: Default::default() }],
        kernels: vec!["6.18.5".to_string()],
        machines: vec!["epyc".to_string()],
        backends: vec!["local".to_string()],
        plans: vec!["20260203-1405".to_string()],
        boots: Some(1),
        runs: 40,
        ..Side::default()
    }
}

pub fn plan(id: &str) -> PlanFacts {
    let mut machine = environment("6.18.5", "epyc", Some("boot-1"));
    machine.topology.allowed = "0-7".parse().unwrap();
    machine.virtualisation = Reading::Known("kvm".to_string());
    PlanFacts {
        id: id.to_string(),
        title: "Default and batch on this machine".to_string(),
        backend: "local".to_string(),
        started_unix_ns: 1_770_127_500_000_000_000,
        took_ns: Some(98_000_000_000),
        ended: Some(PlanEnd::Complete),
        measure: measure(),
        rounds_done: 10,
        environments: vec![machine],
        ..PlanFacts::default()
    }
}

/// As [`ordinary`], in the lab; `not_exact` runs of the second side are not exact.
pub fn in_the_lab(not_exact: usize) -> Analysis {
    let mut analysis = ordinary();
    let asked = ["debian:6.1", "debian:6.18"];
    for ((side, asked), not_exact) in analysis.sides.iter_mut().zip(asked).zip([0, not_exact]) {
        let text = |text: &str| Some(text.to_string());
        let (release, digest) = (text("6.1.0-56-cloud-amd64"), text("0123456789ab"));
        let kernel = GuestKernel { release, version: None, digest, scheduler: None };
        side.kernels = vec![format!("{asked} ({kernel:#})")];
        (side.machines, side.backends) = (vec!["lab".to_string()], vec!["lab".to_string()]);
        side.boots = None;
        side.times.add(&GuestTime::Exact, side.runs - not_exact);
        if not_exact > 0 {
            side.times.add(&GuestTime::NotExact("out of step".to_string()), not_exact);
            let (side, why) = (side.label.clone(), "out of step".to_string());
            analysis.notes.push(Note::NotExact { side, runs: not_exact, of: 40, why });
        }
        side.guests = vec![(asked.to_string(), kernel)];
    }
    analysis.plans[0].backend = "lab".to_string();
    analysis
}

/// Ten rounds around a centre.
pub fn values(centre: f64, spread: f64) -> Cell {
    const PATTERN: [f64; 10] = [0.3, -0.7, 1.0, -0.2, 0.1, -1.0, 0.6, 0.4, -0.9, 0.4];
    let values = PATTERN.iter().zip(0..).map(|(by, round)| (round, centre * (1.0 + spread * by)));
    cell(values.collect())
}

pub fn cell(values: Vec<(u32, f64)>) -> Cell {
    let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    Cell {
        mean: mean(&plain),
        hmean: harmonic_mean(&plain),
        median: median(&plain),
        cv: cv(&plain),
        values,
        ..Cell::default()
    }
}

pub fn open(why: Why, rounds: Rounds) -> Verdict {
    Verdict::Inconclusive { why, rounds }
}

/// Works of one metric each with these verdicts, one per side after the baseline.
pub fn judged(sides: &[&str], works: &[(String, Vec<(Verdict, f64)>)]) -> Analysis {
    let mut analysis = sides_only();
    analysis.sides = sides.iter().map(|side| self::side(side)).collect();
    let work = |(name, verdicts): &(String, Vec<(Verdict, f64)>)| {
        let judged = verdicts.iter().map(|(verdict, ratio)| {
            values(1000.0 * ratio, 0.01).judged(*verdict, *ratio, 0.98 * ratio, 1.02 * ratio)
        });
        let cells = std::iter::once(values(1000.0, 0.01)).chain(judged).collect();
        let row = throughput(cells);
        self::work(name, &[], name, "spin", vec![row])
    };
    analysis.works = works.iter().map(work).collect();
    analysis.method.headline_verdicts = works.len() * (sides.len() - 1);
    analysis
}

/// A row of a headline metric or of one that explains, by its name.
pub fn row(metric: &str, unit: Unit, direction: Direction, cells: Vec<Cell>) -> Row {
    const HEADLINES: [&str; 3] = ["throughput", "wakeup_p99", "request_p99"];
    let ends: [(&str, Statistic); 8] = [
        ("throughput", Statistic::Rate),
        ("_p50", Statistic::Quantile(500_000)),
        ("_p99", Statistic::Quantile(990_000)),
        ("_p99.9", Statistic::Quantile(999_000)),
        ("_max", Statistic::Max),
        ("_mean", Statistic::Mean),
        ("_involuntary_switches", Statistic::InvoluntarySwitches),
        ("_voluntary_switches", Statistic::VoluntarySwitches),
    ];
    let end = ends.iter().find(|(end, _)| metric.trim_end_matches("_per_op").ends_with(end));
    let statistic = end.map_or(Statistic::Count, |(_, statistic)| *statistic);
    let kind = MetricKind::explaining(metric, unit, direction, statistic);
    let kind = match metric.split_once('_').filter(|_| end.is_some()) {
        Some((subject, _)) => kind.with_subject(subject),
        None => kind,
    };
    let (importance, family) = match (HEADLINES.contains(&metric), direction) {
        (true, _) => (Importance::Headline, Family::Headline),
        (_, NEUTRAL) => (Importance::Explaining, Family::None),
        _ => (Importance::Explaining, Family::Explaining),
    };
    Row { kind: kind.with_importance(importance), family, cells }
}

fn throughput(cells: Vec<Cell>) -> Row {
    row("throughput", Unit::OpsPerS, HIGHER, cells)
}

fn wakeup(cells: Vec<Cell>) -> Row {
    row("wakeup_p99", Unit::Ns, LOWER, cells)
}

fn request(cells: Vec<Cell>) -> Row {
    row("request_p99", Unit::Ns, LOWER, cells)
}

/// A row of the headline family, whatever its name.
pub fn headline(metric: &str, unit: Unit, direction: Direction, cells: Vec<Cell>) -> Row {
    Row { family: Family::Headline, ..row(metric, unit, direction, cells) }
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
        workers: Some(Workers { count: 1, kind: WorkerKind::Processes }),
        ops: "requests".to_string(),
        rows,
        ..SetTable::default()
    };
    let label = format!("{name}{points}");
    WorkTable { label, name: name.to_string(), axes, sets: vec![set], ..WorkTable::default() }
}

pub fn nothing() -> Analysis {
    let method =
        Method { margin: 0.02, tail_margin: 0.1, alpha: 0.05, seed: 1, ..Method::default() };
    let command = "schedlab compare plan=20260203-1405".to_string();
    Analysis { method, command, ..Analysis::default() }
}

pub fn sides_only() -> Analysis {
    let sides = vec![side("default"), side("batch")];
    Analysis { plans: vec![plan("20260203-1405")], sides, ..nothing() }
}

/// Two variants of one plan.
pub fn ordinary() -> Analysis {
    let mut analysis = sides_only();
    analysis.method.headline_verdicts = 6;
    analysis.method.explaining_verdicts = 1;
    let us = 1e3;
    let two = vec![
        throughput(vec![
            values(4376.0, 0.004),
            values(4381.0, 0.005).judged(Verdict::Same, 1.0011, 0.9968, 1.0053),
        ]),
        wakeup(vec![
            values(1266.0 * us, 0.06),
            values(755.0 * us, 0.05).judged(Verdict::Better, 0.5964, 0.5721, 0.6216),
        ]),
        request(vec![
            values(22304.0 * us, 0.03),
            values(22416.0 * us, 0.04)
                .judged(open(Why::Noise, Rounds::Number(31)), 1.005, 0.9788, 1.0319)
                .bounded(0.0611),
        ]),
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
        throughput(vec![
            values(37696.0, 0.006),
            values(41664.0, 0.007).judged(Verdict::Better, 1.1053, 1.0996, 1.1109),
        ]),
        wakeup(vec![
            values(355.0 * us, 0.05),
            values(555.0 * us, 0.12).judged(Verdict::Worse, 1.5634, 1.4012, 1.7443),
        ]),
        request(vec![
            values(2620.0 * us, 0.03),
            values(2715.0 * us, 0.03).judged(
                open(Why::OnlyAlone, Rounds::Number(14)),
                1.0362,
                1.0061,
                1.0672,
            ),
        ]),
        row("switches", Unit::PerS, NEUTRAL, vec![values(81_200.0, 0.01), values(64_100.0, 0.01)]),
    ];
    analysis.works = vec![
        work("web", &[("threads", "2")], "web", "schbench", two),
        work("web", &[("threads", "4")], "web", "schbench", four),
    ];
    analysis
}

/// As [`ordinary`], with a probe that counted the switches of two roles, as in the mail of 25
/// March 2024; of one nothing happened on the baseline.
pub fn explained() -> Analysis {
    let mut analysis = ordinary();
    let switches = |name: &str, unit, means: [f64; 2]| {
        row(name, unit, NEUTRAL, means.map(|mean| values(mean, 0.02)).to_vec())
    };
    let of = |role: &str, kind: &str, per_s: [f64; 2], per_op: [f64; 2]| {
        let name = format!("{role}_{kind}_switches");
        let row = switches(&name, Unit::PerS, per_s);
        [row, switches(&format!("{name}_per_op"), Unit::Count, per_op)]
    };
    analysis.works[0].sets[0].rows.extend(
        [
            of("worker", "voluntary", [8752.0, 175.0], [2.0, 0.04]),
            of("worker", "involuntary", [500.0, 1600.0], [0.1143, 0.3652]),
            of("message", "voluntary", [4400.0, 4376.0], [1.0055, 0.9989]),
            of("message", "involuntary", [0.0, 12.0], [0.0, 0.0027]),
        ]
        .into_iter()
        .flatten(),
    );
    analysis
}

/// Three kernels, measured at different times, with all that can be odd.
pub fn troubled() -> Analysis {
    let mut analysis = nothing();
    analysis.plans = ["20260203-1405", "20260204-1405", "20260205-1405"].map(plan).to_vec();
    analysis.sides =
        ["6.6.87-cfs", "6.18.5-eevdf-with-a-long-name", "6.18.5-lavd"].map(side).to_vec();
    analysis.sides[0].kernels = vec!["6.6.87".to_string(), "6.6.88".to_string()];
    analysis.sides[0].boots = Some(4);
    analysis.sides[1].boots = None;
    analysis.sides[2].plans = (1..9).map(|plan| format!("plan-{plan}")).collect();
    analysis.method = Method {
        margin: 0.02,
        tail_margin: 0.1,
        margins: vec![("wakeup_p99".to_string(), 0.05)],
        alpha: 0.05,
        headline_verdicts: 4,
        pairing: Pairing::None,
        floors: vec!["20261120-010203-aaaa".to_string()],
        looks: Some([6, 9, 14].map(|rounds| Look { rounds, share: 0.1 }).to_vec()),
        seed: 7,
        ..Method::default()
    };
    analysis.works = vec![troubled_work()];
    analysis.notes = notes("web threads=4");
    analysis.command = "schedlab compare kernel=6.6.87-cfs kernel=6.18.5-eevdf-with-a-long-name \
                        kernel=6.18.5-lavd --margin 2% --metric 'wakeup_*'"
        .to_string();
    analysis
}

fn troubled_work() -> WorkTable {
    let few = Why::TooFewRounds { least: 6 };
    let rows = vec![
        throughput(vec![
            values(4376.0, 0.01),
            values(4200.0, 0.01).judged(Verdict::Worse, 0.9598, 0.9511, 0.9685),
            values(4390.0, 0.02).judged(
                open(Why::SameOnlyAlone, Rounds::MoreThan(1000)),
                1.0032,
                0.9886,
                1.018,
            ),
        ]),
        wakeup(vec![
            values(21e6, 0.3).shaped(TWO_MODES).shaped(OUTLIER),
            values(21e6, 0.2).shaped(TREND).judged(
                open(Why::Noise, Rounds::Number(88)),
                1.01,
                0.75,
                1.36,
            ),
            cell(vec![(0, 12e6)])
                .unknown(1, "no sample in the window")
                .unknown(2, "no sample in the window")
                .single(open(few, Rounds::Number(6)), 0.571),
        ]),
        headline(
            "misses",
            Unit::Count,
            LOWER,
            vec![
                cell(vec![(0, 3.0), (1, 5.0), (2, 0.0)]),
                cell(vec![(0, 13.0), (1, 14.0), (2, 11.0)]).differing(
                    Verdict::Worse,
                    10.0,
                    9.0,
                    11.0,
                ),
                cell(Vec::new()).not_compared(NoEffect::NoPairs),
            ],
        ),
        headline(
            "busy",
            Unit::Cpus,
            NEUTRAL,
            vec![
                values(1.98, 0.001),
                values(1.57, 0.001).judged(Verdict::Better, 0.795, 0.794, 0.796),
                values(2.57, 0.001).judged(Verdict::Worse, 1.295, 1.294, 1.296),
            ],
        ),
    ];
    let axes = [("threads", "4"), ("footprint", "256KiB")];
    WorkTable { fairness: Some(fairness()), ..work("web", &axes, "front", "schbench", rows) }
}

pub fn fairness() -> FairnessTable {
    let known = |value: f64| fairness::PerRound(vec![Reading::Known(value); 10]);
    let set = |name: &str, got: f64| SetFairness {
        set: name.to_string(),
        workload: "schbench".to_string(),
        background: false,
        figures: [
            ("want", known(0.5)),
            ("entitled", known(0.4)),
            ("got", known(got)),
            ("got_over_entitled", known(got / 0.4)),
            ("throughput_vs_solo", known(got / 0.5)),
            ("max_over_min", known(1.25)),
            ("weight", known(1024.0)),
        ],
    };
    let variant = |name: &str| VariantFairness {
        variant: name.to_string(),
        rounds: (0..10).collect(),
        spoilt: 0,
        cpus: known(4.0),
        jain: known(0.97),
        sets: vec![set("front", 0.35), set("back", 0.45)],
    };
    FairnessTable {
        work: "web threads=4".to_string(),
        variants: vec![variant("default"), variant("batch")],
        ..FairnessTable::default()
    }
}

/// Ten rounds on each of eight hosts with two kernels, of which one differs from the others. The name
/// of the second host and of the processors is `name`.
pub fn of_hosts(name: &str) -> Analysis {
    let factors = [1.05, 1.06, 1.045, 1.055, 0.6, 1.048, 1.052, 1.05];
    let of = |(factor, at): (&f64, u64)| {
        let plan = sampled(&format!("p{at}"), at, &["default", "batch"]);
        let mut plan = rounds(plan, 0..10, &[1.0, *factor]);
        let host = if at == 2 { name.to_string() } else { format!("n{at}") };
        let kernel = if at < 4 { "6.1.0" } else { "6.12.0" };
        plan.environments = vec![environment(kernel, &host, Some(&format!("boot {at}")))];
        plan.environments[0].cpu_model = Reading::Known(name.to_string());
        plan
    };
    let plans: Vec<_> = factors.iter().zip(1..).map(of).collect();
    let ids = || plans.iter().map(|plan| plan.id.clone()).collect();
    let side = |name| Selection::of_variant("p8", name).with_plans(ids());
    let sides = ["default", "batch"].map(side).to_vec();
    let command = "schedlab compare plan=p8 --over hosts".to_string();
    let question = Question { over_hosts: true, ..Question::new(sides, command) };
    analyse(&plans, &[], &question)
}

/// Everything that has a name has this one.
pub fn hostile(name: &str) -> Analysis {
    let mut analysis = explained();
    let text = name;
    let name = || name.to_string();
    for plan in &mut analysis.plans {
        (plan.id, plan.title, plan.backend) = (name(), name(), name());
        let machine = &mut plan.environments[0];
        (machine.kernel_release, machine.hostname) = (name(), name());
        machine.virtualisation = Reading::Known(name());
    }
    for side in &mut analysis.sides {
        side.label = name();
        side.variants[0].name = name();
        side.variants[0].knobs.insert(name(), Value::Text(name()));
        for list in [&mut side.kernels, &mut side.machines, &mut side.backends, &mut side.plans] {
            *list = vec![name()];
        }
    }
    analysis.method.margins = vec![(name(), 0.5)];
    analysis.method.floors = vec![name()];
    analysis.notes = notes(text);
    analysis.command = format!("schedlab compare {}", name());
    for work in &mut analysis.works {
        (work.name, work.label) = (name(), name());
        work.axes = vec![(name(), name())];
        let mut fairness = fairness();
        for variant in &mut fairness.variants {
            variant.variant = name();
            variant.sets.iter_mut().for_each(|set| set.set = name());
        }
        work.fairness = Some(fairness);
        for set in &mut work.sets {
            (set.name, set.workload, set.ops) = (name(), name(), name());
            set.params.insert(name(), Value::Text(name()));
            for row in &mut set.rows {
                // The throughput is found by its name.
                if row.kind.name != "throughput" {
                    row.kind.name = name();
                    row.kind.subject = row.kind.subject.take().map(|_| name());
                }
                row.cells[0].unknown = vec![(11, name())];
            }
        }
    }
    analysis
}

/// Names that act on something if they are written as they are.
pub const HOSTILE: [&str; 14] = [
    "a\x1b[2J\r\n\u{202e}\u{9b}b \t`c`",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "<script>alert(1)</script>",
    "]]><a b='c\" d=\"e\">&amp;&#x1b;",
    "```\n# a\n````",
    "a | b \\| c",
    "\"quoted\", 'twice'\\",
    "\u{ffff}\u{fffe}\u{0}",
    "\u{200b}\u{feff}",
    "漢字漢字漢字漢字",
    "[link](http://example.org) ![i](y) *b* _i_ ~~s~~ #1 @me",
];
