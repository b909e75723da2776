//! `schedlab report`: what is stored, in any format.

use std::io::{self, BufWriter, Write};

use clap::Args;

use crate::compare::{self, Comparison};
use crate::model::{Plan, Record};
use crate::report::compare as comparisons;
use crate::report::{self, Format, Options};
use crate::sys::clock;

use super::names::UnknownName;
use super::{Database, Failure, judging, terminal};

#[derive(Args)]
pub struct ReportArgs {
    /// What to report: `last`, `last:N`, `all`, the beginning of an id, or terms with commas
    /// between: tag=NAME, since=7d, backend=lab
    #[arg(default_value = "last")]
    select: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    db: Database,
}

/// How a report is written.
#[derive(Args)]
pub struct Output {
    /// In place of the plan's own format, or else text: `schedlab list formats`
    #[arg(long, value_name = "NAME", value_parser = parse_format)]
    format: Option<&'static dyn Format>,
    /// More detail; twice for all there is
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Output {
    /// How verdicts are written; `None` in a format that has none.
    pub fn of_comparisons(&self, plan: &Plan) -> Option<&'static dyn comparisons::Format> {
        let own = self.format.map(|format| format.name());
        let name = own.or(plan.report_format.as_deref()).unwrap_or("text");
        // Formats of the same name for machines hold the record and nothing besides.
        if matches!(name, "text" | "lkml") { comparisons::find(name) } else { None }
    }

    pub fn write_comparison(
        &self,
        comparison: &Comparison,
        format: &'static dyn comparisons::Format,
    ) -> Result<(), Failure> {
        judging::write(comparison, Some(format), self.verbose)
    }

    pub fn write(&self, records: &[Record]) -> Result<(), Failure> {
        let options = Options {
            width: terminal::width(),
            color: terminal::color(&io::stdout()),
            verbose: self.verbose,
        };
        let mut out = BufWriter::new(io::stdout().lock());
        self.format.unwrap_or_else(|| chosen(records)).render(records, &options, &mut out)?;
        Ok(out.flush()?)
    }
}

/// The format that all of the plans ask for; without such a one the default.
fn chosen(records: &[Record]) -> &'static dyn Format {
    let mut asked = records.iter().map(|record| record.started.plan.report_format.as_deref());
    let first = asked.next().flatten();
    let agreed = first.filter(|first| asked.all(|other| other == Some(first)));
    // A plan may be stored by a later version that has more formats.
    agreed.and_then(report::find).unwrap_or(report::formats()[0])
}

fn parse_format(name: &str) -> Result<&'static dyn Format, UnknownName> {
    let names = || report::formats().iter().map(|format| format.name());
    report::find(name).ok_or_else(|| UnknownName::new("format", name, names(), ""))
}

pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    let selected = compare::select(std::slice::from_ref(&args.select), &heads, clock::unix_ns())?;
    let ids = selected.iter().flat_map(|side| &side.plans);
    let records: Vec<Record> = ids.map(|id| store.record(id)).collect::<Result<_, _>>()?;
    args.output.write(&records)
}
