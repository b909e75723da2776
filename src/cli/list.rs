//! `schedlab list`: what there is. Everything derives from the registries.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use comfy_table::{ContentArrangement, Table, TableStyle};

use crate::model::{Field, PlanEnd, ProbeSpec, Unit};
use crate::{backend, plan, probe, report, variant, workload};

use super::{Database, Failure, terminal};

#[derive(Args)]
pub struct ListArgs {
    /// What to list
    #[arg(value_enum, default_value_t = What::Workloads)]
    what: What,
    /// The one of this name, with all that it takes
    name: Option<String>,
    #[command(flatten)]
    db: Database,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum What {
    Workloads,
    /// What a variant or a worker set sets
    #[value(alias = "variants")]
    Knobs,
    /// Telemetry beside the workloads
    Probes,
    Plans,
    Backends,
    Formats,
    Runs,
}

pub fn run(args: &ListArgs) -> Result<(), Failure> {
    let rows = match (args.what, &args.name) {
        (What::Workloads, Some(name)) => return describe_workload(name),
        (What::Workloads, None) => workloads(),
        (What::Probes, Some(name)) => return describe_probe(name),
        (What::Probes, None) => probes(),
        (What::Knobs, _) => knobs(),
        (What::Plans, _) => plans(),
        (What::Backends, _) => backends(),
        (What::Formats, _) => formats(),
        (What::Runs, _) => runs(&args.db)?,
    };
    let rows: Vec<Vec<String>> = match &args.name {
        Some(name) => rows.into_iter().filter(|row| row[0] == *name).collect(),
        None => rows,
    };
    if let (true, Some(name)) = (rows.is_empty(), &args.name) {
        return Err(Failure::Usage(format!("there is nothing named `{}`", name.escape_default())));
    }
    Ok(write!(io::stdout().lock(), "{}", table(rows))?)
}

pub(super) fn workloads() -> Vec<Vec<String>> {
    let rows = workload::registry().iter().map(|workload| workload.spec());
    rows.map(|spec| vec![spec.name.to_string(), spec.about.to_string()]).collect()
}

pub(super) fn knobs() -> Vec<Vec<String>> {
    variant::fields().iter().map(field_row).collect()
}

pub(super) fn probes() -> Vec<Vec<String>> {
    let about = |probe: &ProbeSpec| format!("{}; needs {}", probe.about, probe.needs);
    probe::specs().iter().map(|probe| vec![probe.name.to_string(), about(probe)]).collect()
}

fn plans() -> Vec<Vec<String>> {
    let rows = plan::builtins().iter();
    rows.map(|builtin| vec![builtin.name.to_string(), builtin.title.to_string()]).collect()
}

fn backends() -> Vec<Vec<String>> {
    let rows = backend::registry().iter();
    rows.map(|entry| vec![entry.name.to_string(), entry.about.to_string()]).collect()
}

fn formats() -> Vec<Vec<String>> {
    let of_records = report::formats().iter().map(|format| (format.name(), format.about().into()));
    let of_comparisons = report::compare::formats()
        .iter()
        .map(|format| (format.name(), format!("(compare) {}", format.about())));
    let rows = of_records.chain(of_comparisons);
    rows.map(|(name, about): (&str, String)| vec![name.to_string(), about]).collect()
}

fn runs(db: &Database) -> Result<Vec<Vec<String>>, Failure> {
    let plans = db.open_read_only()?.plans()?;
    let rows = plans.into_iter().map(|plan| {
        let (id, title) = (report::shortened(&plan.id, 64), report::shortened(&plan.title, 100));
        let (done, total) = (plan.runs_done, plan.runs_total);
        let state = match plan.ended {
            Some(PlanEnd::Complete) => format!("{done} of {total} runs"),
            // No more are wanted than were made.
            Some(PlanEnd::Decided) => format!("{done} runs, all decided"),
            Some(PlanEnd::Budget) => format!("{done} runs, budget used up"),
            Some(PlanEnd::Interrupted) => format!("{done} of {total} runs, interrupted"),
            None => format!("{done} of {total} runs, not ended"),
        };
        vec![id, format!("{title} ({state})")]
    });
    Ok(rows.collect())
}

fn describe_workload(name: &str) -> Result<(), Failure> {
    let Some(workload) = workload::find(name) else {
        let name = name.escape_default();
        return Err(Failure::Usage(format!(
            "there is no workload `{name}`\nhint: schedlab list workloads"
        )));
    };
    let spec = workload.spec();
    let mut out = io::stdout().lock();
    writeln!(out, "{}: {}\n\nparameters:", spec.name, spec.about)?;
    write!(out, "{}", table(spec.params.iter().map(field_row).collect()))?;
    writeln!(out, "\nmeasures: throughput ({} per second)", spec.ops)?;
    let latencies = spec.histograms.iter().map(|latency| (latency.name, latency.about));
    let metrics = spec.metrics.iter().map(|metric| (metric.name, metric.about));
    let rows = latencies.chain(metrics);
    let rows = rows.map(|(name, about)| vec![name.to_string(), about.to_string()]).collect();
    Ok(write!(out, "{}", table(rows))?)
}

fn describe_probe(name: &str) -> Result<(), Failure> {
    let Some(probe) = probe::find(name).map(|probe| probe.spec()) else {
        let name = name.escape_default();
        return Err(Failure::Usage(format!(
            "there is no probe `{name}`\nhint: schedlab list probes"
        )));
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{}: {}\nneeds {}\n", probe.name, probe.about, probe.needs)?;
    writeln!(out, "of each role of each worker set, explaining and not judged:")?;
    let rows = probe.metrics.iter().map(|metric| {
        let partner = if metric.by_partner { "_OTHER" } else { "" };
        let unit = if metric.unit == Unit::PerS { "per second" } else { "ns" };
        vec![format!("ROLE_{}{partner}", metric.name), format!("{} ({unit})", metric.about)]
    });
    Ok(write!(out, "{}", table(rows.collect()))?)
}

fn field_row(field: &Field) -> Vec<String> {
    let default = field.default.map_or(String::new(), |default| format!(" [default: {default}]"));
    vec![field.name.to_string(), format!("{} ({}){default}", field.about, field.kind.example())]
}

/// Names and what they are, in the terminal's width.
fn table(rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(terminal::width() as u16).add_rows(rows);
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_backend_is_listed() {
        let rows = backends();
        for name in ["local", "lab", "null", "dummy"] {
            assert!(rows.iter().any(|row| row[0] == name), "{name}: {rows:?}");
        }
    }
}
