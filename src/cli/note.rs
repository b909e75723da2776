//! `schedlab note`: what there is to remember about a stored plan or score.

use std::io::{self, Write};

use clap::Args;

use crate::report::clean;
use crate::report::numbers::counted;
use crate::store::{self, Note};
use crate::sys::clock;

use super::{Database, Failure, score_saved, selection};

#[derive(Args)]
pub struct NoteArgs {
    /// The stored plan or score, selected as by `compare`: last, the beginning of its id, tag=NAME;
    /// score=last, score=TAG
    #[arg(value_name = "SELECT", value_parser = selection(), hide_possible_values = true)]
    id: String,
    /// The note, added to those that are there
    #[arg(required_unless_present = "remove", conflicts_with = "remove")]
    text: Option<String>,
    /// Remove all of its notes
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &NoteArgs) -> Result<(), Failure> {
    let text = args.text.as_deref().unwrap_or_default();
    if !args.remove {
        store::check_note(text).map_err(|wrong| {
            Failure::usage(wrong.to_string(), args.db.command("note last 'with the fan off'"))
        })?;
    }
    let mut store = args.db.open()?;
    let heads = (store.plan_heads()?, store.score_heads()?);
    let stored = score_saved::find(&args.id, &heads, &args.db)?;
    let (id, subject) = (stored.id(), stored.subject());
    let shown = clean(id);
    let done = if args.remove {
        format!("removed {} of {shown}", counted(store.remove_notes(subject)? as u64, "note"))
    } else {
        let note = Note { written_unix_ns: clock::unix_ns(), text: text.to_string() };
        store.add_note(subject, &note)?;
        format!("{shown} has the note; {}", args.db.command(&format!("show {shown}")))
    };
    Ok(writeln!(io::stdout(), "{done}")?)
}
