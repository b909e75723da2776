//! `schedlab rm`: removes stored plans and scores.

use std::io::{self, IsTerminal, Write};

use clap::Args;

use crate::report::clean;
use crate::sys;

use super::score_saved::{self, Stored};
use super::{Database, Failure, fleet, plural, running, terminal};

#[derive(Args)]
pub struct RmArgs {
    /// The stored plans and scores, each by its id or the beginning of it
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &RmArgs) -> Result<(), Failure> {
    let mut store = args.db.open()?;
    let heads = (store.plan_heads()?, store.score_heads()?);
    let mut chosen: Vec<Stored<'_>> = Vec::new();
    for id in &args.ids {
        if ["last", "score=last"].contains(&id.as_str()) {
            let list = if id == "last" { "list runs" } else { "list scores" };
            let text = format!("rm takes ids and tags, not `{id}`");
            return Err(Failure::usage(text, args.db.command(list)));
        }
        let head = score_saved::find(id, &heads, &args.db)?;
        if !chosen.contains(&head) {
            chosen.push(head);
        }
    }
    let state = sys::state_dir()?;
    if let Some(head) = chosen.iter().find(|head| running::is_running(&state, head.id())) {
        let id = clean(head.id());
        let text = format!("{id} is being measured at this moment, and nothing was removed");
        return Err(Failure::here(text, "end that schedlab first (Ctrl-C)"));
    }
    if !args.yes && !is_confirmed(&chosen, &args.db)? {
        terminal::message("nothing was removed");
        return Ok(());
    }
    for head in chosen {
        match head {
            Stored::Plan(head) => {
                fleet::leave(&head.id)?;
                store.remove(&head.id)?;
            }
            Stored::Score(head) => store.remove_score(&head.id)?,
        }
        writeln!(io::stdout(), "removed {}", described(head))?;
    }
    Ok(())
}

fn described(stored: Stored<'_>) -> String {
    let head = match stored {
        Stored::Plan(head) => head,
        Stored::Score(head) => return score_saved::described(head),
    };
    let (id, title) = (clean(&head.id), clean(&head.title));
    format!("{id}  {title}, {}", plural(head.runs.stored(), "run"))
}

/// Asks on a terminal; elsewhere there is no answer, and `--yes` is needed.
fn is_confirmed(chosen: &[Stored<'_>], db: &Database) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let plans = chosen.iter().filter(|stored| matches!(stored, Stored::Plan(_))).count();
        let counts = [(plans, "plan"), (chosen.len() - plans, "score")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, noun)| plural(count as u64, noun)).collect();
        let text = format!("{} would be removed, for good", counts.join(" and "));
        let ids: Vec<String> = chosen.iter().map(|head| clean(head.id())).collect();
        return Err(Failure::usage(text, db.command(&format!("rm --yes {}", ids.join(" ")))));
    }
    for head in chosen {
        terminal::message(&described(*head));
    }
    let which =
        if chosen.len() == 1 { "it".to_string() } else { format!("these {}", chosen.len()) };
    Ok(terminal::agrees(&format!("Remove {which} for good?"))?)
}
