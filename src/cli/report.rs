//! `schedlab report`: what is stored, in any format.

use std::io::{self, BufWriter, Write};

use clap::Args;

use crate::model::Record;
use crate::report::{self, Format, Options};
use crate::store::Store;

use super::{Database, Failure, terminal};

#[derive(Args)]
pub struct ReportArgs {
    /// What to report: `last`, `last:N`, `all`, or the beginning of a plan's id
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
    /// text, json or csv
    #[arg(long, default_value = "text", value_parser = parse_format)]
    format: &'static dyn Format,
    /// More detail; twice for all there is
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Output {
    pub fn write(&self, records: &[Record]) -> Result<(), Failure> {
        let options = Options {
            width: terminal::width(),
            color: terminal::color(&io::stdout()),
            verbose: self.verbose,
        };
        let mut out = BufWriter::new(io::stdout().lock());
        self.format.render(records, &options, &mut out)?;
        Ok(out.flush()?)
    }
}

fn parse_format(name: &str) -> Result<&'static dyn Format, String> {
    let formats = report::formats();
    formats.iter().copied().find(|format| format.name() == name).ok_or_else(|| {
        let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let store = args.db.open_read_only()?;
    let ids = select(&store, &args.select)?;
    let records: Vec<Record> = ids.iter().map(|id| store.record(id)).collect::<Result<_, _>>()?;
    args.output.write(&records)
}

/// The ids that a selection names, oldest first.
fn select(store: &Store, text: &str) -> Result<Vec<String>, Failure> {
    let count = match text {
        "last" => Some(1),
        "all" => Some(usize::MAX),
        _ => text.strip_prefix("last:").and_then(|count| count.parse().ok()),
    };
    let Some(count) = count else { return Ok(vec![find(store, text)?]) };
    let mut ids: Vec<String> = store.plans()?.into_iter().take(count).map(|plan| plan.id).collect();
    if ids.is_empty() {
        let hint = "hint: schedlab run quick";
        return Err(Failure::Usage(format!("nothing is stored yet\n{hint}")));
    }
    ids.reverse();
    Ok(ids)
}

/// The one stored plan whose id begins with `prefix`.
pub fn find(store: &Store, prefix: &str) -> Result<String, Failure> {
    let found: Vec<String> = store
        .plans()?
        .into_iter()
        .map(|plan| plan.id)
        .filter(|id| id.starts_with(prefix))
        .collect();
    let hint = "hint: schedlab list runs";
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Failure::Usage(format!(
            "no stored plan's id begins with `{}`\n{hint}",
            prefix.escape_default()
        ))),
        many => Err(Failure::Usage(format!(
            "{} stored plans' ids begin with `{}`\n{hint}",
            many.len(),
            prefix.escape_default()
        ))),
    }
}
