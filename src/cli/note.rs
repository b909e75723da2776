//! `schedlab note`: what there is to remember about a stored plan.

use std::io::{self, Write};

use clap::Args;

use crate::report::clean;
use crate::store::{self, Note};
use crate::sys::clock;

use super::{Database, Failure, plural};

#[derive(Args)]
pub struct NoteArgs {
    /// The stored plan: `last`, or the beginning of its id
    id: String,
    /// The note, added to those that the plan has
    #[arg(required_unless_present = "clear", conflicts_with = "clear")]
    text: Option<String>,
    /// Remove the plan's notes
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &NoteArgs) -> Result<(), Failure> {
    let text = args.text.as_deref().unwrap_or_default();
    if !args.clear {
        store::check_note(text).map_err(|wrong| {
            Failure::usage(wrong.to_string(), args.db.command("note last 'with the fan off'"))
        })?;
    }
    let mut store = args.db.open()?;
    let heads = store.plan_heads()?;
    let id = &args.db.plan(&args.id, &heads)?.id;
    let shown = clean(id);
    let done = match args.clear {
        true => format!("removed {} of {shown}", plural(store.remove_notes(id)? as u64, "note")),
        false => {
            let note = Note { written_unix_ns: clock::unix_ns(), text: text.to_string() };
            store.add_note(id, &note)?;
            format!("{shown} has the note; {}", args.db.command(&format!("show {shown}")))
        }
    };
    Ok(writeln!(io::stdout(), "{done}")?)
}
