//! `schedlab tag`: names for stored plans, by which they are selected.

use std::io::{self, Write};

use clap::Args;

use crate::report::clean;
use crate::store;

use super::{Database, Failure};

#[derive(Args)]
pub struct TagArgs {
    /// The stored plan: `last`, or the beginning of its id
    id: String,
    /// Letters, digits and -_.:/+@. Several plans may have one tag: compare tag=old tag=new
    name: String,
    /// Take the tag from the plan
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &TagArgs) -> Result<(), Failure> {
    let example = || args.db.command("tag last before-patch");
    store::check_tag(&args.name).map_err(|wrong| Failure::usage(wrong.to_string(), example()))?;
    let mut store = args.db.open()?;
    let heads = store.plan_heads()?;
    let id = &args.db.plan(&args.id, &heads)?.id;
    let (shown, name) = (clean(id), &args.name);
    let done = match args.remove {
        true if store.untag(id, name)? => format!("{shown} no longer has the tag {name}"),
        true => {
            let text = format!("{shown} does not have the tag `{name}`");
            return Err(Failure::usage(text, args.db.command(&format!("show {shown}"))));
        }
        false if store.tag(id, name)? => format!("{shown} has the tag {name}"),
        false => format!("{shown} has the tag {name} already"),
    };
    Ok(writeln!(io::stdout(), "{done}")?)
}
