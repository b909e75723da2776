//! `csv`: one row per plan, work, set, variant, round and metric, for spreadsheets, R and
//! pandas. Runs that gave no numbers have one row with their reason. Columns are told in
//! docs/report-formats.md. Pure.

use std::collections::BTreeMap;
use std::io::{self, Write};

use csv::Writer;

use super::fairness::{VariantFairness, WorkFairness};
use super::json::{known_or_why, word};
use super::summary::{MetricSummary, Summary, summarise};
use super::{Format, Options};
use crate::model::{
    Cell, GuestTimes, Outcome, Record, RecordedRun, RunKey, SampledPlan, WorkerSet,
};

const COLUMNS: [&str; 17] = [
    "plan",
    "backend",
    "kernel",
    "work",
    "set",
    "workload",
    "background",
    "variant",
    "round",
    "status",
    "metric",
    "unit",
    "direction",
    "value",
    "reason",
    "time",
    "kernel_digest",
];

pub struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "one row per plan, work, set, variant, round and metric"
    }

    fn render(&self, records: &[Record], _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = Writer::from_writer(out);
        writer.write_record(COLUMNS).map_err(plain)?;
        for record in records {
            let summary = summarise(record);
            // Of several runs of one cell and round, fairness is that of the last.
            let places = record.runs.iter().enumerate().map(|(at, run)| (run.key, at));
            let last: BTreeMap<RunKey, usize> = places.collect();
            for (at, run) in record.runs.iter().enumerate() {
                let cell = record.started.cells.iter().find(|cell| cell.index == run.key.cell);
                let Some(cell) = cell else { continue };
                write_run(&mut writer, record, cell, run)?;
                if last.get(&run.key) == Some(&at)
                    && let Some(fairness) = fairness_of(&summary, cell)
                {
                    let common = common(record, cell, run);
                    write_fairness(&mut writer, &common, run.key.round, fairness)?;
                }
            }
        }
        writer.flush()
    }
}

/// What all rows of one run begin with.
struct Run<'a> {
    plan: &'a str,
    backend: &'a str,
    kernel: String,
    work: String,
    variant: &'a str,
    round: String,
    /// By what clock a guest of the lab lived; empty elsewhere.
    time: &'static str,
    kernel_digest: String,
}

fn common<'a>(record: &'a Record, cell: &'a Cell, run: &RecordedRun) -> Run<'a> {
    let started = &record.started;
    let environment = record.environments.get(run.environment as usize);
    let mut kernel = environment.unwrap_or(&started.environment).kernel_release.clone();
    let (mut times, mut kernel_digest) = (GuestTimes::default(), String::new());
    if started.backend == SampledPlan::LAB {
        // The environment has the kernels of all variants.
        kernel = started.plan.lab.kernel_of(&cell.variant).to_string();
        if let Outcome::Done { result } = &run.outcome {
            let guest = result.guest.clone().unwrap_or_default();
            times.add(&guest.time, 1);
            kernel = guest.kernel.release.unwrap_or(kernel);
            kernel_digest = guest.kernel.digest.unwrap_or_default();
        }
    }
    Run {
        plan: &started.id,
        backend: &started.backend,
        kernel,
        time: times.word().unwrap_or_default(),
        kernel_digest,
        work: cell.work.label(),
        variant: &cell.variant.name,
        round: run.key.round.to_string(),
    }
}

fn fairness_of<'s, 'a>(summary: &'s Summary<'a>, cell: &Cell) -> Option<&'s VariantFairness<'a>> {
    let told =
        summary.works.iter().filter_map(|found| Some((found.work, found.fairness.as_ref()?)));
    let mut told = told.filter(|(_, fairness)| !fairness.variants.is_empty());
    let (_, WorkFairness { variants, .. }) = told.find(|(work, _)| **work == cell.work)?;
    variants.iter().find(|found| found.variant.name == cell.variant.name)
}

/// What the run of this round has, compared with the solo runs of its sets: after its own.
fn write_fairness(
    writer: &mut Writer<&mut dyn Write>,
    run: &Run,
    round: u32,
    fairness: &VariantFairness,
) -> io::Result<()> {
    for metric in &fairness.metrics {
        write_compared(writer, run, round, None, metric)?;
    }
    for found in &fairness.sets {
        for metric in &found.metrics {
            write_compared(writer, run, round, Some(found.set), metric)?;
        }
    }
    Ok(())
}

/// One metric of a work or of a set, if this round has it or tells why not.
fn write_compared(
    writer: &mut Writer<&mut dyn Write>,
    run: &Run,
    round: u32,
    set: Option<&WorkerSet>,
    metric: &MetricSummary,
) -> io::Result<()> {
    let at = metric.values.binary_search_by_key(&round, |(round, _)| *round);
    let value = at.ok().map(|at| metric.values[at].1.to_string());
    let why = metric.unknown.iter().find(|(_, rounds)| rounds.binary_search(&round).is_ok());
    if value.is_none() && why.is_none() {
        return Ok(());
    }
    let background = set.map_or(String::new(), |set| set.background.to_string());
    let (unit, direction) = (word(&metric.unit), word(&metric.direction));
    let row: [&str; COLUMNS.len()] = [
        run.plan,
        run.backend,
        &run.kernel,
        &run.work,
        set.map_or("", |set| &set.name),
        set.map_or("", |set| &set.workload),
        &background,
        run.variant,
        &run.round,
        "done",
        metric.name,
        &unit,
        &direction,
        &value.unwrap_or_default(),
        why.map_or("", |(why, _)| why),
        run.time,
        &run.kernel_digest,
    ];
    writer.write_record(row).map_err(plain)
}

fn write_run(
    writer: &mut Writer<&mut dyn Write>,
    record: &Record,
    cell: &Cell,
    run: &RecordedRun,
) -> io::Result<()> {
    let common = common(record, cell, run);
    let result = match &run.outcome {
        Outcome::Done { result } => result,
        Outcome::Failed { reason } => {
            return write_without_numbers(writer, &common, "failed", reason);
        }
        Outcome::Skipped { reason } => {
            return write_without_numbers(writer, &common, "skipped", reason);
        }
    };
    for set in &result.sets {
        for metric in &set.metrics {
            let (value, why) = known_or_why(&metric.value);
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            let background = set.background.to_string();
            let (unit, direction) = (word(&metric.kind.unit), word(&metric.kind.direction));
            let row: [&str; COLUMNS.len()] = [
                common.plan,
                common.backend,
                &common.kernel,
                &common.work,
                &set.name,
                &set.workload,
                &background,
                common.variant,
                &common.round,
                "done",
                &metric.kind.name,
                &unit,
                &direction,
                &value,
                &why.unwrap_or_default(),
                common.time,
                &common.kernel_digest,
            ];
            writer.write_record(row).map_err(plain)?;
        }
    }
    Ok(())
}

fn write_without_numbers(
    writer: &mut Writer<&mut dyn Write>,
    run: &Run,
    status: &str,
    reason: &str,
) -> io::Result<()> {
    let Run { plan, backend, kernel, work, variant, round, time, kernel_digest } = run;
    let row: [&str; COLUMNS.len()] = [
        plan,
        backend,
        kernel,
        work,
        "",
        "",
        "",
        variant,
        round,
        status,
        "",
        "",
        "",
        "",
        reason,
        time,
        kernel_digest,
    ];
    writer.write_record(row).map_err(plain)
}

/// The error of the file below: its kind tells a closed pipe from a full disk.
fn plain(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("csv: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{self, PlanBuilder, RunBuilder};

    /// Rows by column name, as a reader of the format gets them.
    fn parsed(records: &[Record]) -> Vec<BTreeMap<String, String>> {
        let text = testing::render(&Csv, records, Options::default());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        reader.deserialize().map(|row| row.expect("a row of the header's length")).collect()
    }

    #[test]
    fn one_row_per_metric_and_one_per_run_without() {
        let record = testing::troubled().record();
        let rows = parsed(std::slice::from_ref(&record));
        let expected: usize = record
            .runs
            .iter()
            .map(|run| match &run.outcome {
                Outcome::Done { result } => result.sets.iter().map(|set| set.metrics.len()).sum(),
                Outcome::Failed { .. } | Outcome::Skipped { .. } => 1,
            })
            .sum();
        assert_eq!(rows.len(), expected);
        let unknown =
            rows.iter().find(|row| row["metric"] == "wakeup_p99" && row["value"].is_empty());
        assert_eq!(unknown.unwrap()["reason"], "no samples in the measured section");
        let failed = rows.iter().find(|row| row["status"] == "failed").unwrap();
        assert_eq!((&*failed["variant"], &*failed["round"]), ("batch", "1"));
        assert_eq!(failed["reason"], "worker 3 (tid 4711) died: SIGSEGV");
    }

    #[test]
    fn a_run_with_solo_runs_has_rows_of_its_fairness() {
        let rows = parsed(&[testing::competing().record()]);
        let value = |work: &str, set: &str, round: &str, metric: &str| {
            let found = rows.iter().filter(|row| {
                let own = [&*row["work"], &row["set"], &row["variant"], &row["round"]];
                own == [work, set, "default", round] && row["metric"] == metric
            });
            let values: Vec<&str> = found.map(|row| &*row["value"]).collect();
            values.join(" ")
        };
        assert_eq!(value("mix load=2x", "a", "0", "want"), "0.5");
        assert_eq!(value("mix load=2x", "a", "1", "want"), "0.5");
        assert_eq!(value("mix load=2x", "a", "0", "weight"), "1024");
        assert_eq!(value("mix load=2x", "", "0", "cpus"), "4");
        assert_eq!(value("mix load=2x", "", "0", "jain"), "1");
        assert_eq!(value("mix load=2x", "", "2", "jain"), "", "no solo run in this round");
        assert_eq!(value("mix solo a", "a", "0", "want"), "", "a solo run itself");
        let unknown =
            rows.iter().find(|row| row["set"] == "hog" && row["metric"] == "throughput_vs_solo");
        assert_eq!(unknown.unwrap()["reason"], "it has no solo run");
        // A run that a later one of its round replaced has none.
        let mut record = testing::competing().record();
        let first = record.runs.iter().find(|run| run.key.cell == 4).unwrap().clone();
        record.runs.insert(0, first);
        assert_eq!(parsed(&[record]).iter().filter(|row| row["metric"] == "jain").count(), 4);
    }

    #[test]
    fn names_with_separators_and_line_ends_read_back() {
        let hostile = "a,\"b\"\n\x1b[2J=1+1";
        let mut plan = PlanBuilder::new(1, &[hostile]);
        plan.done(0, hostile, |run| run.metric("throughput", 0.1));
        let rows = parsed(&[plan.record()]);
        assert_eq!(rows.len(), 1);
        let told =
            ["variant", "value", "unit", "direction", "work"].map(|column| &*rows[0][column]);
        assert_eq!(told, [hostile, "0.1", "ops_per_s", "higher_is_better", "web threads=4"]);
    }

    #[test]
    fn a_run_in_the_lab_has_its_own_kernel_and_clock() {
        let mut plan = PlanBuilder::new(3, &["v"]).in_the_lab();
        let guest = |not| move |run: RunBuilder| run.metric("x", 1.0).guest("6.18.15", "b1", not);
        plan.done(0, "v", guest(None));
        plan.done(1, "v", guest(Some("out of step")));
        plan.failed(2, "v", "panicked");
        let rows = parsed(&[plan.record()]);
        let told = |row: &BTreeMap<String, String>| {
            ["kernel", "kernel_digest", "time"].map(|column| row[column].clone()).join(" ")
        };
        assert_eq!(
            rows.iter().map(told).collect::<Vec<_>>(),
            ["6.18.15 b1 exact", "6.18.15 b1 not_exact", "debian:6.18  "]
        );
        let mut host = PlanBuilder::new(1, &["v"]);
        host.done(0, "v", |run| run.metric("x", 1.0));
        let row = &parsed(&[host.record()])[0];
        assert_eq!((row["time"].as_str(), row["kernel_digest"].as_str()), ("", ""));
    }

    #[test]
    fn every_column_is_documented() {
        let page = include_str!("../../docs/report-formats.md");
        for column in COLUMNS {
            assert!(
                page.contains(&format!("`{column}`")),
                "docs/report-formats.md lacks `{column}`"
            );
        }
    }
}
