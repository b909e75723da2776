//! `csv`: one row per plan, work, set, variant, round and metric, for spreadsheets, R and
//! pandas. Runs that gave no numbers have one row with their reason. Columns are told in
//! docs/report-formats.md. Pure.

use std::io::{self, Write};

use csv::Writer;

use super::json::{known_or_why, word};
use super::{Format, Options};
use crate::model::{Cell, Outcome, Record, RecordedRun};

const COLUMNS: [&str; 15] = [
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
            for run in &record.runs {
                let cell = record.started.cells.iter().find(|cell| cell.index == run.key.cell);
                if let Some(cell) = cell {
                    write_run(&mut writer, record, cell, run)?;
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
    kernel: &'a str,
    work: String,
    variant: &'a str,
    round: String,
}

fn write_run(
    writer: &mut Writer<&mut dyn Write>,
    record: &Record,
    cell: &Cell,
    run: &RecordedRun,
) -> io::Result<()> {
    let started = &record.started;
    let environment = record.environments.get(run.environment as usize);
    let common = Run {
        plan: &started.id,
        backend: &started.backend,
        kernel: &environment.unwrap_or(&started.environment).kernel_release,
        work: cell.work.label(),
        variant: &cell.variant.name,
        round: run.key.round.to_string(),
    };
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
            let (unit, direction) = (word(&metric.unit), word(&metric.direction));
            let row: [&str; COLUMNS.len()] = [
                common.plan,
                common.backend,
                common.kernel,
                &common.work,
                &set.name,
                &set.workload,
                &background,
                common.variant,
                &common.round,
                "done",
                &metric.name,
                &unit,
                &direction,
                &value,
                &why.unwrap_or_default(),
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
    let Run { plan, backend, kernel, work, variant, round } = run;
    let row: [&str; COLUMNS.len()] =
        [plan, backend, kernel, work, "", "", "", variant, round, status, "", "", "", "", reason];
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
    use crate::report::testing::{self, PlanBuilder};
    use std::collections::BTreeMap;

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
