//! `json` of a comparison: all of it for programs, versioned. The shape is told in
//! docs/report-formats.md; a test holds every key against that page. Pure.
//!
//! The structs below are the format, and give the order of its keys: a change of name, meaning
//! or type of a key raises [`VERSION`], a key more does not.

use std::io::{self, Write};

use serde::Serialize;

use super::words::Needed;
use super::{Format, words};
use crate::compare::{Cell, Comparison, Method, Pairing, Row, SetTable, Side, Switches, WorkTable};
use crate::model::{Direction, GuestKernel, GuestTimes, Unit};
use crate::report::Options;
use crate::stats::{Judged, Verdict, Why};

const VERSION: u32 = 1;

pub struct Json;

impl Format for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "one versioned document: sides, method, values by round, ratios, verdicts and reasons"
    }

    fn render(&self, comparison: &Comparison, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, &document(comparison))?;
        out.write_all(b"\n")
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    command: &'a str,
    method: MethodOut<'a>,
    sides: Vec<SideOut<'a>>,
    works: Vec<WorkOut<'a>>,
    refused: &'a [String],
    missing: &'a [String],
    remarks: &'a [String],
}

#[derive(Serialize)]
struct MethodOut<'a> {
    margin: f64,
    margins: Vec<MarginOut<'a>>,
    alpha: f64,
    family: usize,
    pairing: &'static str,
    floors: &'a [String],
    looks: Option<&'a [u32]>,
    seed: u64,
}

#[derive(Serialize)]
struct MarginOut<'a> {
    metric: &'a str,
    margin: f64,
}

#[derive(Serialize)]
struct SideOut<'a> {
    label: &'a str,
    baseline: bool,
    kernels: &'a [String],
    machines: &'a [String],
    backends: &'a [String],
    plans: &'a [String],
    boots: Option<usize>,
    runs: usize,
    time: Option<TimeOut<'a>>,
    guests: Vec<GuestOut<'a>>,
    tally: Option<TallyOut>,
}

#[derive(Serialize)]
struct TimeOut<'a> {
    clock: &'static str,
    exact: usize,
    not_exact: usize,
    real: usize,
    why: Option<&'a str>,
}

#[derive(Serialize)]
struct GuestOut<'a> {
    asked: &'a str,
    #[serde(flatten)]
    kernel: &'a GuestKernel,
}

#[derive(Serialize)]
struct TallyOut {
    better: usize,
    worse: usize,
    same: usize,
    inconclusive: usize,
    unjudged: usize,
    least_rounds: Option<u32>,
    #[serde(flatten)]
    rounds: RoundsOut,
}

#[derive(Serialize)]
struct WorkOut<'a> {
    label: &'a str,
    name: &'a str,
    axes: Vec<AxisOut<'a>>,
    sets: Vec<SetOut<'a>>,
}

#[derive(Serialize)]
struct AxisOut<'a> {
    axis: &'a str,
    point: &'a str,
}

#[derive(Serialize)]
struct SetOut<'a> {
    name: &'a str,
    workload: &'a str,
    ops: &'a str,
    metrics: Vec<RowOut<'a>>,
    switches: Vec<SwitchesOut<'a>>,
}

/// What explains the throughput: no verdicts.
#[derive(Serialize)]
struct SwitchesOut<'a> {
    role: &'a str,
    kind: &'static str,
    metric: &'a str,
    cells: Vec<SwitchedOut<'a>>,
}

#[derive(Serialize)]
struct SwitchedOut<'a> {
    side: Option<&'a str>,
    values: Vec<ValueOut>,
    mean: Option<f64>,
    cv: Option<f64>,
    normalised: Option<f64>,
    per_op: Option<f64>,
    normalised_per_op: Option<f64>,
}

#[derive(Serialize)]
struct RowOut<'a> {
    metric: &'a str,
    unit: Unit,
    direction: Direction,
    cells: Vec<CellOut<'a>>,
}

#[derive(Serialize)]
struct CellOut<'a> {
    side: Option<&'a str>,
    values: Vec<ValueOut>,
    mean: Option<f64>,
    hmean: Option<f64>,
    median: Option<f64>,
    cv: Option<f64>,
    shapes: Vec<String>,
    judged: Option<JudgedOut>,
}

#[derive(Serialize)]
struct ValueOut {
    round: u32,
    value: f64,
}

#[derive(Serialize)]
struct JudgedOut {
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    pairs: Option<usize>,
    verdict: &'static str,
    why: Option<&'static str>,
    note: Option<String>,
    least_rounds: Option<u32>,
    #[serde(flatten)]
    rounds: RoundsOut,
    p_difference: Option<f64>,
    p_same: Option<f64>,
    decided_at: Option<u32>,
}

/// At most one of the two is a number.
#[derive(Serialize)]
struct RoundsOut {
    rounds: Option<u32>,
    rounds_more_than: Option<u32>,
}

fn document(comparison: &Comparison) -> Document<'_> {
    let Comparison { sides, method, works, refused, missing, remarks, command } = comparison;
    Document {
        schema: "schedlab-comparison",
        version: VERSION,
        command,
        method: method_out(method),
        sides: sides.iter().enumerate().map(|(at, found)| side(comparison, at, found)).collect(),
        works: works.iter().map(|found| work(found, comparison)).collect(),
        refused,
        missing,
        remarks,
    }
}

fn method_out(method: &Method) -> MethodOut<'_> {
    let Method { margin, margins, alpha, family, pairing, floors, looks, seed } = method;
    MethodOut {
        margin: *margin,
        margins: margins
            .iter()
            .map(|(metric, margin)| MarginOut { metric, margin: *margin })
            .collect(),
        alpha: *alpha,
        family: *family,
        pairing: match pairing {
            Pairing::WithinRounds => "within_rounds",
            Pairing::None => "none",
        },
        floors,
        looks: looks.as_deref(),
        seed: *seed,
    }
}

/// `None` where no run is of the lab.
fn time(times: &GuestTimes) -> Option<TimeOut<'_>> {
    let GuestTimes { exact, not_exact, real, why } = times;
    let (exact, not_exact, real) = (*exact, *not_exact, *real);
    times.word().map(|clock| TimeOut { clock, exact, not_exact, real, why: why.as_deref() })
}

fn side<'a>(comparison: &Comparison, at: usize, side: &'a Side) -> SideOut<'a> {
    let Side { label, kernels, machines, backends, plans, boots, runs, times, guests } = side;
    let tally = (at > 0).then(|| {
        let words::Tally { better, worse, same, inconclusive, unjudged, rounds } =
            words::Tally::of(comparison, at);
        let least_rounds = match rounds {
            Some(Needed::AtLeast(rounds)) => Some(rounds),
            _ => None,
        };
        let rounds = rounds_out(rounds);
        TallyOut { better, worse, same, inconclusive, unjudged, least_rounds, rounds }
    });
    let (baseline, boots, runs) = (at == 0, *boots, *runs);
    let time = time(times);
    let guests = guests.iter().map(|(asked, kernel)| GuestOut { asked, kernel }).collect();
    SideOut {
        label,
        baseline,
        kernels,
        machines,
        backends,
        plans,
        boots,
        runs,
        time,
        guests,
        tally,
    }
}

fn work<'a>(work: &'a WorkTable, comparison: &'a Comparison) -> WorkOut<'a> {
    let WorkTable { label, name, axes, sets } = work;
    WorkOut {
        label,
        name,
        axes: axes.iter().map(|(axis, point)| AxisOut { axis, point }).collect(),
        sets: sets.iter().map(|found| set(found, comparison)).collect(),
    }
}

fn set<'a>(set: &'a SetTable, comparison: &'a Comparison) -> SetOut<'a> {
    let SetTable { name, workload, params: _, ops, rows, switches } = set;
    let metrics = rows.iter().map(|found| row(found, comparison)).collect();
    let switches = switches.iter().map(|found| switches_out(found, comparison)).collect();
    SetOut { name, workload, ops, metrics, switches }
}

fn switches_out<'a>(switches: &'a Switches, comparison: &'a Comparison) -> SwitchesOut<'a> {
    let Switches { role, is_voluntary: _, row, per_op } = switches;
    let (over, over_per_op) = (row.normalised(), switches.normalised_per_op());
    let cells = row.cells.iter().zip(per_op).enumerate().map(|(at, (cell, per_op))| SwitchedOut {
        side: comparison.sides.get(at).map(|side| &*side.label),
        values: values(cell),
        mean: cell.mean,
        cv: cell.cv,
        normalised: over[at],
        per_op: *per_op,
        normalised_per_op: over_per_op[at],
    });
    SwitchesOut { role, kind: words::kind(switches), metric: &row.metric, cells: cells.collect() }
}

fn values(cell: &Cell) -> Vec<ValueOut> {
    cell.values.iter().map(|(round, value)| ValueOut { round: *round, value: *value }).collect()
}

fn row<'a>(row: &'a Row, comparison: &'a Comparison) -> RowOut<'a> {
    let Row { metric, unit, direction, cells } = row;
    let cells = cells.iter().enumerate();
    let cells = cells.map(|(at, found)| {
        let side = comparison.sides.get(at).map(|side| &*side.label);
        cell(side, found, row, comparison)
    });
    RowOut { metric, unit: *unit, direction: *direction, cells: cells.collect() }
}

fn cell<'a>(
    side: Option<&'a str>,
    cell: &'a Cell,
    row: &Row,
    comparison: &Comparison,
) -> CellOut<'a> {
    let Cell { values: _, mean, hmean, median, cv, judged, shapes: _ } = cell;
    CellOut {
        side,
        values: values(cell),
        mean: *mean,
        hmean: *hmean,
        median: *median,
        cv: *cv,
        shapes: words::shapes(comparison, row, cell),
        judged: judged.as_ref().map(|judged| judged_out(judged, &comparison.method)),
    }
}

fn judged_out(judged: &Judged, method: &Method) -> JudgedOut {
    let Judged { ratio, verdict, p_difference, p_same, decided_at } = judged;
    let ratio = ratio.ok();
    let interval = ratio.and_then(|ratio| ratio.interval);
    let (word, why) = words::keys(verdict);
    JudgedOut {
        ratio: ratio.map(|ratio| ratio.ratio),
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        pairs: ratio.map(|ratio| ratio.pairs),
        verdict: word,
        why,
        note: words::why(verdict, method),
        least_rounds: match verdict {
            Verdict::Inconclusive { why: Why::TooFewRounds { least }, .. } => Some(*least),
            _ => None,
        },
        rounds: rounds_out(words::rounds(verdict)),
        p_difference: *p_difference,
        p_same: *p_same,
        decided_at: *decided_at,
    }
}

fn rounds_out(rounds: Option<Needed>) -> RoundsOut {
    match rounds {
        None | Some(Needed::AtLeast(_)) => RoundsOut { rounds: None, rounds_more_than: None },
        Some(Needed::About(rounds)) => RoundsOut { rounds: Some(rounds), rounds_more_than: None },
        Some(Needed::MoreThan(rounds)) => {
            RoundsOut { rounds: None, rounds_more_than: Some(rounds) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::testing;
    use serde_json::{Value, json};

    fn parsed(comparison: &Comparison) -> Value {
        let text = testing::render(&Json, comparison, Options::default());
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn the_document_begins_with_its_version_and_has_all_of_the_sides_and_the_method() {
        let text = testing::render(&Json, &testing::troubled(), Options::default());
        let begin = "{\n  \"schema\": \"schedlab-comparison\",\n  \"version\": 1,\n  \"command\":";
        assert!(text.starts_with(begin), "{text}");
        let found = parsed(&testing::troubled());
        assert_eq!(
            found["method"],
            json!({"margin": 0.02, "margins": [{"metric": "wakeup_p99", "margin": 0.05}],
                   "alpha": 0.05, "family": 12, "pairing": "none",
                   "floors": ["20261120-010203-aaaa"], "looks": [6, 9, 14], "seed": 7})
        );
        assert_eq!(found["sides"][0]["tally"], Value::Null);
        assert_eq!(found["sides"][0]["kernels"], json!(["6.6.87", "6.6.88"]));
        assert_eq!(found["sides"][1]["boots"], Value::Null);
        assert_eq!(
            found["sides"][2]["tally"],
            json!({"better": 0, "worse": 0, "same": 0, "inconclusive": 2, "unjudged": 2,
                   "least_rounds": null, "rounds": null, "rounds_more_than": 1000})
        );
        assert_eq!(found["works"][0]["axes"][1], json!({"axis": "footprint", "point": "256KiB"}));
        assert_eq!(found["refused"].as_array().map(Vec::len), Some(2));
        assert_eq!(found["remarks"].as_array().map(Vec::len), Some(1));
        let paired = parsed(&testing::ordinary());
        assert_eq!(paired["method"]["pairing"], "within_rounds");
        assert_eq!(paired["method"]["looks"], Value::Null);
    }

    #[test]
    fn what_is_not_known_is_null_with_its_reason() {
        let found = parsed(&testing::troubled());
        let metrics = &found["works"][0]["sets"][0]["metrics"];
        let unknown = &metrics[2]["cells"][2];
        assert_eq!(
            *unknown,
            json!({"side": "6.18.5-lavd", "values": [], "mean": null, "hmean": null,
                   "median": null, "cv": null, "shapes": [], "judged": {
                       "ratio": null, "low": null, "high": null, "pairs": null,
                       "verdict": "unjudged", "why": "no_ratio",
                       "note": "no ratio: no round has a value of both",
                       "least_rounds": null, "rounds": null, "rounds_more_than": null,
                       "p_difference": null, "p_same": null, "decided_at": null}})
        );
        let few = &metrics[1]["cells"][2]["judged"];
        let told = ["ratio", "low", "pairs", "why", "least_rounds", "rounds"].map(|key| &few[key]);
        assert_eq!(json!(told), json!([0.571, null, 1, "too_few_rounds", 6, 6]));
        assert_eq!(metrics[0]["cells"][2]["judged"]["rounds_more_than"], 1000);
        assert_eq!(metrics[2]["cells"][0]["values"][2], json!({"round": 2, "value": 0.0}));
        assert_eq!(
            metrics[1]["cells"][0]["shapes"],
            json!(["two modes, 12.0 ms and 31.0 ms (4 of 10 values)"])
        );
        assert_eq!(metrics[0]["cells"][0]["judged"], Value::Null, "the baseline");
    }

    #[test]
    fn switches_stand_beside_the_metrics_of_their_set() {
        let found = parsed(&testing::explained());
        let switches = &found["works"][0]["sets"][0]["switches"];
        assert_eq!(switches.as_array().map(Vec::len), Some(4));
        let of = |at: usize, side: usize, keys: &[&str]| {
            let cell = &switches[at]["cells"][side];
            json!(keys.iter().map(|key| &cell[*key]).collect::<Vec<_>>())
        };
        let keys = ["side", "per_op", "normalised_per_op"];
        assert_eq!(of(0, 1, &keys), json!(["batch", 0.04, 0.02]));
        assert_eq!(of(0, 0, &["normalised"]), json!([1.0]));
        assert_eq!(of(2, 1, &keys), json!(["batch", null, null]));
        assert_eq!(of(3, 1, &["normalised", "per_op"]), json!([null, 0.0027]));
        assert_eq!(of(0, 0, &["values"])[0].as_array().map(Vec::len), Some(10));
        let named = ["role", "kind", "metric"].map(|key| &switches[1][key]);
        assert_eq!(json!(named), json!(["worker", "involuntary", "worker_involuntary_switches"]));
        assert_eq!(found["works"][1]["sets"][0]["switches"], json!([]));
    }

    fn keys(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.push(key.clone());
                keys(value, found);
            }),
            Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }

    #[test]
    fn a_side_in_the_lab_tells_its_time_and_its_kernels() {
        let told = parsed(&testing::in_the_lab(2));
        let side = &told["sides"][1];
        assert_eq!(side["time"]["clock"], "not_exact");
        assert_eq!((&side["time"]["exact"], &side["time"]["not_exact"]), (&38.into(), &2.into()));
        assert_eq!(side["guests"][0]["asked"], "debian:6.18");
        assert_eq!(side["guests"][0]["digest"], "0123456789ab");
        assert_eq!(told["sides"][0]["time"]["clock"], "exact");
        assert!(parsed(&testing::ordinary())["sides"][0]["time"].is_null());
    }

    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../../docs/report-formats.md");
        let (_, page) = page.split_once("### json of a comparison").unwrap();
        let mut found = Vec::new();
        keys(&parsed(&testing::in_the_lab(2)), &mut found);
        keys(&parsed(&testing::troubled()), &mut found);
        keys(&parsed(&testing::explained()), &mut found);
        assert!(found.len() > 100);
        for key in found {
            assert!(page.contains(&format!("`{key}`")), "docs/report-formats.md lacks `{key}`");
        }
    }
}
