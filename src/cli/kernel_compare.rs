//! `schedlab kernel compare`: how the configurations of two kernels differ.

use std::io::{self, Write};

use clap::Args;
use serde_json::json;

use crate::backend::lab::kernel::{self, Configuration, Difference, Topic, differences};
use crate::report::shortened;

use super::text_or_json::Format;
use super::{Failure, table, terminal};

#[derive(Args)]
pub struct CompareArgs {
    /// Names of the cache, or paths of a bzImage with its configuration next to it
    #[arg(value_name = "NAME|PATH")]
    first: String,
    #[arg(value_name = "NAME|PATH")]
    second: String,
    /// Also symbols that do not matter to scheduling
    #[arg(long)]
    all: bool,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (first, second) = (configuration(&args.first)?, configuration(&args.second)?);
    let all = differences(&first, &second);
    let (shown, more): (Vec<&Difference>, Vec<&Difference>) =
        all.iter().partition(|one| args.all || one.topic.is_some());
    let mut out = io::stdout().lock();
    if args.format == Format::Json {
        let one = |one: &&Difference| {
            json!({
                "symbol": one.symbol,
                "topic": one.topic.map(Topic::word),
                "unlike": one.is_unlike(),
                "first": one.first,
                "second": one.second,
            })
        };
        let shown: Vec<_> = shown.iter().map(one).collect();
        let document = json!({ "schema": 1, "differences": shown, "others": more.len() });
        return Ok(writeln!(out, "{document:#}")?);
    }
    if !shown.is_empty() {
        writeln!(out, "{}", table::names(rows(&shown, args), terminal::width()))?;
    }
    writeln!(out, "{}", summary(&shown, more.len()))?;
    Ok(())
}

fn configuration(name: &str) -> Result<Configuration, Failure> {
    let kernel = kernel::find(name)?;
    kernel.configuration().ok_or_else(|| {
        let name = shortened(name, 100);
        let hint = "put its .config next to the image";
        Failure::here(format!("the configuration of {name} is not known"), hint)
    })
}

fn rows(shown: &[&Difference], args: &CompareArgs) -> Vec<Vec<String>> {
    let [about, symbol] = ["about", "symbol"].map(str::to_string);
    let header = vec![about, symbol, shortened(&args.first, 40), shortened(&args.second, 40)];
    let row = |one: &&Difference| {
        vec![
            one.topic.map_or("other", Topic::word).to_string(),
            shortened(&one.symbol, 80),
            shortened(&one.first.to_string(), 80),
            shortened(&one.second.to_string(), 80),
        ]
    };
    std::iter::once(header).chain(shown.iter().map(row)).collect()
}

fn summary(shown: &[&Difference], others: usize) -> String {
    let mut unlike: Vec<&str> = shown
        .iter()
        .filter(|one| one.is_unlike())
        .filter_map(|one| one.topic)
        .map(Topic::word)
        .collect();
    unlike.dedup();
    let matters = match (unlike.is_empty(), shown.is_empty()) {
        (false, _) => {
            format!("unlike in {}: what is measured is not the patch alone", unlike.join(" and "))
        }
        (true, false) => "alike in tick and preemption".to_string(),
        (true, true) => "no difference matters to scheduling".to_string(),
    };
    match others {
        0 => matters,
        others => format!("{matters}; {others} other differences: --all"),
    }
}
