//! `schedlab tag`: names for stored plans and scores, by which they are selected.

use std::io::{self, Write};

use clap::Args;

use crate::report::clean;
use crate::store;

use super::{Database, Failure, score_saved, selection};

#[derive(Args)]
pub struct TagArgs {
    /// The stored plan or score, selected as by `compare`: last, the beginning of its id, title=TEXT;
    /// score=last
    #[arg(value_name = "SELECT", value_parser = selection(), hide_possible_values = true)]
    id: String,
    /// Letters, digits and -_.:/+@. Several may have one tag: compare tag=old tag=new
    name: String,
    /// Take the tag from it
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &TagArgs) -> Result<(), Failure> {
    let example = || args.db.command("tag last before-patch");
    store::check_tag(&args.name).map_err(|wrong| Failure::usage(wrong.to_string(), example()))?;
    let mut store = args.db.open()?;
    let heads = (store.plan_heads()?, store.score_heads()?);
    let stored = score_saved::find(&args.id, &heads, &args.db)?;
    let (id, subject) = (stored.id(), stored.subject());
    let (shown, name) = (clean(id), &args.name);
    let done = match args.remove {
        true if store.untag(subject, name)? => format!("{shown} no longer has the tag {name}"),
        true => {
            let text = format!("{shown} does not have the tag `{name}`");
            return Err(Failure::usage(text, args.db.command(&format!("show {shown}"))));
        }
        false if store.tag(subject, name)? => format!("{shown} has the tag {name}"),
        false => format!("{shown} has the tag {name} already"),
    };
    Ok(writeln!(io::stdout(), "{done}")?)
}
