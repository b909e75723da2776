//! `schedlab report`: what is stored, in any format.

use std::io::{self, BufWriter, Write};

use clap::Args;

use crate::compare::Comparison;
use crate::model::{Plan, Record};
use crate::report::compare as comparisons;
use crate::report::{self, Format, Options};
use crate::store::Store;

use super::{Database, Failure, judging, terminal};

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

fn parse_format(name: &str) -> Result<&'static dyn Format, String> {
    report::find(name).ok_or_else(|| {
        let names: Vec<&str> = report::formats().iter().map(|format| format.name()).collect();
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
    let Some(count) = count(text)? else { return Ok(vec![find(store, text)?]) };
    let mut ids: Vec<String> = store.plans()?.into_iter().take(count).map(|plan| plan.id).collect();
    if ids.is_empty() {
        let hint = "hint: schedlab run quick";
        return Err(Failure::Usage(format!("nothing is stored yet\n{hint}")));
    }
    ids.reverse();
    Ok(ids)
}

/// How many of the newest plans a selection names; `None` where it is the beginning of an id.
fn count(text: &str) -> Result<Option<usize>, Failure> {
    let number = match text {
        "last" => return Ok(Some(1)),
        "all" => return Ok(Some(usize::MAX)),
        _ => text.strip_prefix("last:"),
    };
    let Some(number) = number else { return Ok(None) };
    match number.parse() {
        Ok(count @ 1..) => Ok(Some(count)),
        _ => Err(Failure::Usage(format!(
            "`last:{}` names no number of plans, which is from 1 up\nhint: schedlab report last:3",
            number.escape_default()
        ))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_selection_counts() {
        let cases = [
            ("last", Some(Some(1))),
            ("all", Some(Some(usize::MAX))),
            ("last:1", Some(Some(1))),
            ("last:12", Some(Some(12))),
            ("20261121-01", Some(None)),
            ("lasting", Some(None)),
            ("last:", None),
            ("last:0", None),
            ("last:-1", None),
            ("last:x", None),
            ("last: 1", None),
            ("last:99999999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(count(text).ok(), expected, "{text}");
        }
        let told = count("last:\u{1b}").unwrap_err().to_string();
        assert!(told.contains("`last:\\u{1b}`") && told.contains("\nhint: "), "{told}");
    }
}
