//! `json`: all of a report for programs, versioned. The shape is told in
//! docs/report-formats.md; a test holds every key against that page. Pure.
//!
//! The structs below are the format: a change of name, meaning or type of a key raises
//! [`VERSION`], a key more does not.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::fairness::{SetFairness, VariantFairness, WorkFairness};
use super::summary::{
    Failure, Mark, MarkKind, MetricSummary, RowSummary, SetSummary, Skip, Summary, Touched,
    WorkSummary, summarise,
};
use super::{Format, Options};
use crate::model::{
    Direction, Disturbance, Environment, Guest, KnobReading, Measure, Metric, MetricKind, Outcome,
    PlanEnd, PoolName, Reading, Record, RecordedRun, RunResult, SetResult, Unit, Value, Variant,
    Work,
};

const SCHEMA: &str = "schedlab-report";
const VERSION: u32 = 1;

pub struct Json;

impl Format for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "one versioned document: every run's metrics, medians and ratios with intervals"
    }

    fn render(&self, records: &[Record], _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let summaries: Vec<Summary> = records.iter().map(summarise).collect();
        let plans = records.iter().zip(&summaries);
        let plans = plans.map(|(record, summary)| plan(record, summary)).collect();
        let document = Document { schema: SCHEMA, version: VERSION, plans };
        serde_json::to_writer_pretty(&mut *out, &document)?;
        out.write_all(b"\n")
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'a str,
    version: u32,
    plans: Vec<PlanOut<'a>>,
}

#[derive(Serialize)]
struct PlanOut<'a> {
    id: &'a str,
    title: &'a str,
    backend: &'a str,
    started_unix_ns: u64,
    ended: Option<PlanEnd>,
    rounds_planned: u32,
    rounds_done: u32,
    measure: &'a Measure,
    placement: Option<String>,
    pool: Option<&'a str>,
    memory: &'static str,
    baseline: Option<&'a str>,
    variants: Vec<VariantOut<'a>>,
    environments: &'a [Environment],
    works: Vec<WorkOut<'a>>,
    runs: Vec<RunOut<'a>>,
}

#[derive(Serialize)]
struct VariantOut<'a> {
    name: &'a str,
    knobs: BTreeMap<&'a str, String>,
}

#[derive(Serialize)]
struct WorkOut<'a> {
    label: String,
    name: &'a str,
    axes: BTreeMap<&'a str, &'a str>,
    background: Vec<&'a str>,
    sets: Vec<SetOut<'a>>,
    skipped: Vec<SkipOut<'a>>,
    failed: Vec<FailureOut<'a>>,
    marks: Vec<MarkOut<'a>>,
    fairness: Option<FairnessOut<'a>>,
}

#[derive(Serialize)]
struct FairnessOut<'a> {
    variants: Vec<FairRowOut<'a>>,
    missing: Vec<&'a str>,
    incomplete: Vec<&'a str>,
    assumed: Vec<&'a str>,
}

#[derive(Serialize)]
struct FairRowOut<'a> {
    variant: &'a str,
    rounds: &'a [u32],
    metrics: Vec<SummaryOut<'a>>,
    sets: Vec<FairSetOut<'a>>,
}

#[derive(Serialize)]
struct FairSetOut<'a> {
    name: &'a str,
    background: bool,
    metrics: Vec<SummaryOut<'a>>,
}

#[derive(Serialize)]
struct SetOut<'a> {
    name: &'a str,
    workload: &'a str,
    ops: &'a str,
    workers: Option<usize>,
    params: BTreeMap<&'a str, String>,
    knobs: BTreeMap<&'a str, String>,
    variants: Vec<RowOut<'a>>,
}

#[derive(Serialize)]
struct RowOut<'a> {
    variant: &'a str,
    baseline: bool,
    rounds: &'a [u32],
    metrics: Vec<SummaryOut<'a>>,
}

#[derive(Serialize)]
struct SummaryOut<'a> {
    name: &'a str,
    unit: Unit,
    direction: Direction,
    known: usize,
    median: Option<f64>,
    mean: Option<f64>,
    cv: Option<f64>,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    ratio_pairs: usize,
    no_ratio: Option<String>,
}

#[derive(Serialize)]
struct SkipOut<'a> {
    variant: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct FailureOut<'a> {
    variant: &'a str,
    reason: &'a str,
    rounds: &'a [u32],
}

#[derive(Serialize)]
struct MarkOut<'a> {
    kind: String,
    detail: &'a str,
    worst_of_several: bool,
    touched: Vec<TouchedOut<'a>>,
}

#[derive(Serialize)]
struct TouchedOut<'a> {
    variant: &'a str,
    rounds: &'a [u32],
}

#[derive(Serialize)]
struct RunOut<'a> {
    round: u32,
    cell: u32,
    variant: Option<&'a str>,
    work: Option<String>,
    environment: u32,
    status: &'static str,
    reason: Option<&'a str>,
    #[serde(flatten)]
    result: Option<ResultOut<'a>>,
}

#[derive(Serialize)]
struct ResultOut<'a> {
    run_started_unix_ns: u64,
    measured_ns: u64,
    overhead_cpu_ns: Option<u64>,
    knobs: &'a [KnobReading],
    disturbances: &'a [Disturbance],
    #[serde(skip_serializing_if = "Option::is_none")]
    guest: Option<&'a Guest>,
    sets: Vec<RunSetOut<'a>>,
}

#[derive(Serialize)]
struct RunSetOut<'a> {
    name: &'a str,
    workload: &'a str,
    background: bool,
    metrics: Vec<MetricOut<'a>>,
}

#[derive(Serialize)]
struct MetricOut<'a> {
    name: &'a str,
    unit: Unit,
    direction: Direction,
    value: Option<f64>,
    unknown: Option<String>,
}

fn plan<'a>(record: &'a Record, summary: &'a Summary<'a>) -> PlanOut<'a> {
    let started = &record.started;
    PlanOut {
        id: &started.id,
        title: &started.plan.title,
        backend: &started.backend,
        started_unix_ns: started.started_unix_ns,
        ended: record.ended,
        rounds_planned: summary.rounds_planned,
        rounds_done: summary.rounds_done,
        measure: &started.plan.measure,
        placement: started.plan.placement.cpus.as_ref().map(ToString::to_string),
        pool: started.plan.placement.pool.as_ref().map(PoolName::as_str),
        memory: started.plan.placement.memory.word(),
        baseline: started.plan.variants.first().map(|variant| &*variant.name),
        variants: started.plan.variants.iter().map(variant).collect(),
        environments: &record.environments,
        works: summary.works.iter().map(|found| work(found, summary)).collect(),
        runs: record.runs.iter().map(|found| run(record, found)).collect(),
    }
}

fn variant(variant: &Variant) -> VariantOut<'_> {
    VariantOut { name: &variant.name, knobs: knobs(&variant.knobs) }
}

fn knobs(knobs: &BTreeMap<String, Value>) -> BTreeMap<&str, String> {
    knobs.iter().map(|(knob, value)| (&**knob, value.to_string())).collect()
}

/// For programs every work tells all its skips, also those that hold everywhere.
fn work<'a>(found: &'a WorkSummary<'a>, summary: &'a Summary<'a>) -> WorkOut<'a> {
    let Work { name, axes, sets, .. } = found.work;
    let skips = summary.skipped_everywhere.iter().chain(&found.skipped);
    WorkOut {
        label: found.work.label(),
        name,
        axes: axes.iter().map(|(axis, point)| (&**axis, &**point)).collect(),
        background: sets.iter().filter(|set| set.background).map(|set| &*set.name).collect(),
        sets: found.sets.iter().map(set).collect(),
        skipped: skips
            .map(|Skip { variant, reason }| SkipOut { variant: &variant.name, reason })
            .collect(),
        failed: found
            .failed
            .iter()
            .map(|Failure { variant, reason, rounds }| FailureOut {
                variant: &variant.name,
                reason,
                rounds,
            })
            .collect(),
        marks: found.marks.iter().map(mark).collect(),
        fairness: found.fairness.as_ref().map(fairness),
    }
}

fn fairness<'a>(found: &'a WorkFairness<'a>) -> FairnessOut<'a> {
    FairnessOut {
        variants: found.variants.iter().map(fair_row).collect(),
        missing: found.missing.iter().map(|set| &*set.name).collect(),
        incomplete: found.incomplete.iter().map(|variant| &*variant.name).collect(),
        assumed: found.assumed.iter().map(|set| &*set.name).collect(),
    }
}

fn fair_row<'a>(row: &'a VariantFairness<'a>) -> FairRowOut<'a> {
    let set = |found: &'a SetFairness<'a>| FairSetOut {
        name: &found.set.name,
        background: found.set.background,
        metrics: found.metrics.iter().map(metric_summary).collect(),
    };
    FairRowOut {
        variant: &row.variant.name,
        rounds: &row.rounds,
        metrics: row.metrics.iter().map(metric_summary).collect(),
        sets: row.sets.iter().map(set).collect(),
    }
}

fn mark<'a>(mark: &'a Mark<'a>) -> MarkOut<'a> {
    let kind = match mark.kind {
        MarkKind::Knob(_) => "knob".to_string(),
        MarkKind::Disturbance(kind) => word(&kind),
    };
    let touched = mark.touched.iter();
    let touched = touched
        .map(|Touched { variant, rounds, .. }| TouchedOut { variant: &variant.name, rounds });
    MarkOut {
        kind,
        detail: &mark.detail,
        worst_of_several: mark.worst_of_several,
        touched: touched.collect(),
    }
}

/// A word of the model as it is written in JSON.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn set<'a>(found: &'a SetSummary<'a>) -> SetOut<'a> {
    let params = found.set.params.iter().map(|(name, value)| (&**name, value.to_string()));
    SetOut {
        name: &found.set.name,
        workload: &found.set.workload,
        ops: found.ops,
        workers: found.workers,
        params: params.collect(),
        knobs: knobs(&found.set.knobs),
        variants: found.rows.iter().map(row).collect(),
    }
}

fn row<'a>(row: &'a RowSummary<'a>) -> RowOut<'a> {
    RowOut {
        variant: &row.variant.name,
        baseline: row.baseline,
        rounds: &row.rounds,
        metrics: row.metrics.iter().map(metric_summary).collect(),
    }
}

fn metric_summary<'a>(metric: &MetricSummary<'a>) -> SummaryOut<'a> {
    let ratio = metric.ratio.and_then(Result::ok);
    let interval = ratio.and_then(|ratio| ratio.interval);
    SummaryOut {
        name: metric.name,
        unit: metric.unit,
        direction: metric.direction,
        known: metric.values.len(),
        median: metric.median,
        mean: metric.mean,
        cv: metric.cv,
        ratio: ratio.map(|ratio| ratio.ratio),
        ratio_low: interval.map(|interval| interval.low),
        ratio_high: interval.map(|interval| interval.high),
        ratio_pairs: ratio.map_or(0, |ratio| ratio.pairs),
        no_ratio: metric.ratio.and_then(Result::err).map(|why| why.to_string()),
    }
}

fn run<'a>(record: &'a Record, run: &'a RecordedRun) -> RunOut<'a> {
    let cell = record.started.cells.iter().find(|cell| cell.index == run.key.cell);
    let (status, reason, done) = match &run.outcome {
        Outcome::Done { result } => ("done", None, Some(result)),
        Outcome::Failed { reason } => ("failed", Some(reason.as_str()), None),
        Outcome::Skipped { reason } => ("skipped", Some(reason.as_str()), None),
    };
    RunOut {
        round: run.key.round,
        cell: run.key.cell,
        variant: cell.map(|cell| &*cell.variant.name),
        work: cell.map(|cell| cell.work.label()),
        environment: run.environment,
        status,
        reason,
        result: done.map(|found| result(found)),
    }
}

fn result(result: &RunResult) -> ResultOut<'_> {
    ResultOut {
        run_started_unix_ns: result.started_unix_ns,
        measured_ns: result.measured_ns,
        overhead_cpu_ns: result.overhead_cpu_ns.clone().known(),
        knobs: &result.knobs,
        disturbances: &result.disturbances,
        guest: result.guest.as_ref(),
        sets: result.sets.iter().map(run_set).collect(),
    }
}

fn run_set(set: &SetResult) -> RunSetOut<'_> {
    RunSetOut {
        name: &set.name,
        workload: &set.workload,
        background: set.background,
        metrics: set.metrics.iter().map(metric).collect(),
    }
}

fn metric(metric: &Metric) -> MetricOut<'_> {
    let (value, unknown) = known_or_why(&metric.value);
    let MetricKind { name, unit, direction, .. } = &metric.kind;
    MetricOut { name, unit: *unit, direction: *direction, value, unknown }
}

/// A finite value, or why there is none.
pub(super) fn known_or_why(reading: &Reading<f64>) -> (Option<f64>, Option<String>) {
    match reading {
        Reading::Known(value) if value.is_finite() => (Some(*value), None),
        Reading::Known(value) => (None, Some(format!("{value} is not a finite number"))),
        Reading::Unknown(why) => (None, Some(why.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{self, PlanBuilder};
    use serde_json::Value;

    fn parsed(records: &[Record]) -> Value {
        serde_json::from_str(&testing::render(&Json, records, Options::default())).unwrap()
    }

    #[test]
    fn medians_and_ratios_stand_where_the_page_says() {
        let document = parsed(&[testing::ordinary().record()]);
        assert_eq!(document["schema"], "schedlab-report");
        assert_eq!(document["version"], 1);
        let row = &document["plans"][0]["works"][0]["sets"][0]["variants"][1];
        assert_eq!(row["variant"], "slice-100us");
        let metrics = row["metrics"].as_array().unwrap();
        let p99 = metrics.iter().find(|metric| metric["name"] == "wakeup_p99").unwrap();
        assert!((p99["ratio"].as_f64().unwrap() - 0.6).abs() < 0.01, "{p99}");
        assert!(p99["ratio_low"].as_f64() < p99["ratio"].as_f64());
        assert!(p99["ratio"].as_f64() < p99["ratio_high"].as_f64());
        assert_eq!(p99["ratio_pairs"], 10);
        let neutral = metrics.iter().find(|metric| metric["name"] == "migrations").unwrap();
        assert_eq!((&neutral["median"], &neutral["ratio"]), (&12.0.into(), &Value::Null));
        assert_eq!((&p99["unit"], &p99["direction"]), (&"ns".into(), &"lower_is_better".into()));
    }

    #[test]
    fn every_run_is_there_with_what_came_of_it() {
        let record = testing::troubled().record();
        let document = parsed(std::slice::from_ref(&record));
        let runs = document["plans"][0]["runs"].as_array().unwrap();
        assert_eq!(runs.len(), record.runs.len());
        let count = |status: &str| runs.iter().filter(|run| run["status"] == status).count();
        assert_eq!((count("done"), count("failed"), count("skipped")), (14, 2, 9));
        let failed = runs.iter().find(|run| run["status"] == "failed").unwrap();
        assert_eq!(failed["reason"], "worker 3 (tid 4711) died: SIGSEGV");
        assert!(failed.get("sets").is_none());
    }

    #[test]
    fn fairness_stands_with_its_work_and_not_with_solo_runs() {
        let document = parsed(&[testing::competing().record()]);
        let works = &document["plans"][0]["works"];
        assert_eq!(works[0]["fairness"], Value::Null);
        let fairness = &works[2]["fairness"];
        assert_eq!(fairness["assumed"][0], "hog");
        let greedy = &fairness["variants"][1];
        assert_eq!((&greedy["variant"], &greedy["rounds"][1]), (&"greedy".into(), &1.into()));
        assert_eq!(
            (&greedy["metrics"][0]["name"], &greedy["metrics"][0]["median"]),
            (&"cpus".into(), &4.0.into())
        );
        let a = &greedy["sets"][0];
        let median = |name: &str| {
            let metrics = a["metrics"].as_array().unwrap();
            let found = metrics.iter().find(|metric| metric["name"] == name).unwrap();
            found["median"].as_f64().unwrap()
        };
        assert_eq!((&a["name"], median("want")), (&"a".into(), 0.5));
        assert!((median("got_over_entitled") - 0.6).abs() < 1e-9);
        assert_eq!(median("weight"), 1024.0);
    }

    #[test]
    fn what_is_not_finite_or_unknown_is_null_with_its_reason() {
        let mut plan = PlanBuilder::new(1, &["base", "other"]);
        let infinite = |run: testing::RunBuilder| run.metric("throughput", f64::INFINITY);
        plan.done(0, "base", infinite);
        plan.done(0, "other", |run| run.unknown("throughput", "not read"));
        let document = parsed(&[plan.record()]);
        let metric = |run: usize| &document["plans"][0]["runs"][run]["sets"][0]["metrics"][0];
        assert_eq!(metric(0)["value"], Value::Null);
        assert_eq!(metric(0)["unknown"], "inf is not a finite number");
        assert_eq!(metric(1)["unknown"], "not read");
        let row = &document["plans"][0]["works"][0]["sets"][0]["variants"][1]["metrics"][0];
        assert_eq!(row["ratio"], Value::Null);
        assert_eq!(row["no_ratio"], "no round has a value of both");
    }

    fn keys(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(entries) => entries.iter().for_each(|(key, value)| {
                found.push(key.clone());
                // Keys below these are names of the plan or of the machine.
                if !["knobs", "params", "axes", "environments"].contains(&key.as_str()) {
                    keys(value, found);
                }
            }),
            Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../docs/report-formats.md");
        let mut found = Vec::new();
        keys(
            &parsed(&[
                testing::ordinary().record(),
                testing::troubled().record(),
                testing::competing().record(),
            ]),
            &mut found,
        );
        assert!(found.len() > 100);
        for key in found {
            assert!(page.contains(&format!("`{key}`")), "docs/report-formats.md lacks `{key}`");
        }
    }
}
