//! `schedlab rm`: removes stored plans.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;

use crate::model::PlanHead;
use crate::report::clean;
use crate::sys;

use super::{Database, Failure, plural, running, terminal};

#[derive(Args)]
pub struct RmArgs {
    /// The stored plans, each by its id or the beginning of it
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
    let heads = store.plan_heads()?;
    let mut chosen: Vec<&PlanHead> = Vec::new();
    for id in &args.ids {
        if id == "last" {
            return Err(Failure::usage("rm takes ids, not `last`", args.db.command("list runs")));
        }
        let head = args.db.plan(id, &heads)?;
        if !chosen.contains(&head) {
            chosen.push(head);
        }
    }
    let state = sys::state_dir().map_err(|why| Failure::Here(why.to_string().into()))?;
    if let Some(head) = chosen.iter().find(|head| running::is_running(&state, &head.id)) {
        let id = clean(&head.id);
        let text = format!("{id} is being measured at this moment, and nothing was removed");
        return Err(Failure::here(text, "end that schedlab first (Ctrl-C)"));
    }
    if !args.yes && !is_confirmed(&chosen, &args.db)? {
        terminal::message("nothing was removed");
        return Ok(());
    }
    for head in chosen {
        store.remove(&head.id)?;
        writeln!(io::stdout(), "removed {}", described(head))?;
    }
    Ok(())
}

fn described(head: &PlanHead) -> String {
    let (id, title) = (clean(&head.id), clean(&head.title));
    format!("{id}  {title}, {}", plural(head.runs.stored(), "run"))
}

/// Asks on a terminal; elsewhere there is no answer, and `--yes` is needed.
fn is_confirmed(chosen: &[&PlanHead], db: &Database) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let text = format!("{} would be removed, for good", plural(chosen.len() as u64, "plan"));
        let ids: Vec<String> = chosen.iter().map(|head| clean(&head.id)).collect();
        return Err(Failure::usage(text, db.command(&format!("rm --yes {}", ids.join(" ")))));
    }
    for head in chosen {
        terminal::message(&described(head));
    }
    let which =
        if chosen.len() == 1 { "it".to_string() } else { format!("these {}", chosen.len()) };
    write!(io::stderr(), "Remove {which} for good? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
