//! `schedlab rm`: removes stored plans and scores.

use std::io::{self, IsTerminal, Write};

use clap::Args;

use crate::analysis;
use crate::report::clean;
use crate::report::numbers::counted;
use crate::session;
use crate::store::Damaged;
use crate::sys;

use super::score_saved::{self, Heads, PREFIX, Stored};
use super::{Database, Failure, selection, terminal};

#[derive(Args)]
pub struct RmArgs {
    /// Stored plans and scores, selected as by `compare`: ids or their beginnings, last, tag=NAME;
    /// score=last, score=TAG
    #[arg(required = true, value_name = "SELECT", value_parser = selection(),
        hide_possible_values = true)]
    selected: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &RmArgs) -> Result<(), Failure> {
    let mut store = args.db.open()?;
    let heads = (store.plan_heads()?, store.score_heads()?);
    let damaged = store.damaged()?;
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for text in &args.selected {
        let found = select(text, &heads, &damaged, &args.db)?;
        // A word that was cut short takes nothing with it unasked.
        if args.yes && found.len() > 1 && !analysis::is_selection(text) {
            let text = clean(text);
            let hint = args.db.command(&format!("rm {text}"));
            let text =
                format!("`{text}` is {} that are stored, and --yes asks for none", found.len());
            return Err(Failure::usage(text, hint));
        }
        for one in found {
            if !chosen.contains(&one) {
                chosen.push(one);
            }
        }
    }
    let state = sys::state_dir()?;
    if let Some(head) = chosen.iter().find(|head| session::running::is_running(&state, head.id())) {
        let id = clean(head.id());
        let text = format!("{id} is being measured at this moment, and nothing was removed");
        return Err(Failure::here(text, "end that schedlab first (Ctrl-C)"));
    }
    if !args.yes && !is_confirmed(&chosen, &args.db)? {
        terminal::message("nothing was removed");
        return Ok(());
    }
    for head in chosen {
        if head.is_plan() {
            session::fleet::leave(head.id(), &args.db)?;
        }
        match head {
            Chosen::Sound(Stored::Plan(head)) => store.remove(&head.id)?,
            Chosen::Sound(Stored::Score(head)) => store.remove_score(&head.id)?,
            Chosen::Damaged(own) => store.remove_damaged(own)?,
        }
        writeln!(io::stdout(), "removed {}", described(head))?;
    }
    match store.forget_missing()? {
        0 => {}
        gone => {
            let text = format!("no longer missed: {gone} of what was stored and is gone");
            terminal::message(&text);
        }
    }
    Ok(())
}

/// A thing that is to be removed.
#[derive(Clone, Copy, PartialEq)]
enum Chosen<'h> {
    Sound(Stored<'h>),
    Damaged(&'h Damaged),
}

impl<'h> Chosen<'h> {
    fn id(&self) -> &'h str {
        match self {
            Chosen::Sound(stored) => stored.id(),
            Chosen::Damaged(own) => &own.id,
        }
    }

    fn is_plan(&self) -> bool {
        match self {
            Chosen::Sound(stored) => matches!(stored, Stored::Plan(_)),
            Chosen::Damaged(own) => own.is_plan,
        }
    }
}

/// A damaged one is known by its id alone, and never taken for another.
fn select<'h>(
    text: &str,
    heads: &'h Heads,
    damaged: &'h [Damaged],
    db: &Database,
) -> Result<Vec<Chosen<'h>>, Failure> {
    let name = text.strip_prefix(PREFIX);
    let (is_score, name) = (name.is_some(), name.unwrap_or(text));
    let plans = heads.0.iter().filter(|_| !is_score).map(|head| head.id.as_str());
    let sound: Vec<&str> = plans.chain(heads.1.iter().map(|head| head.id.as_str())).collect();
    let begins = |own: &&Damaged| {
        !name.is_empty() && clean(&own.id).starts_with(name) && !(is_score && own.is_plan)
    };
    let found: Vec<&Damaged> = damaged.iter().filter(begins).collect();
    let exact = found.iter().find(|own| clean(&own.id) == name);
    let is_sound = sound.iter().any(|id| id.starts_with(name));
    match (exact, found.as_slice()) {
        (Some(own), _) => Ok(vec![Chosen::Damaged(own)]),
        (None, [own]) if !is_sound => Ok(vec![Chosen::Damaged(own)]),
        (None, [_, ..]) if !sound.contains(&name) => {
            let text = format!("several ids begin with `{}`, of damaged ones too", clean(name));
            Err(Failure::usage(text, db.command("rm WHOLE-ID")))
        }
        _ => {
            let sound = score_saved::select(text, heads, db)?;
            Ok(sound.into_iter().map(Chosen::Sound).collect())
        }
    }
}

fn described(chosen: Chosen<'_>) -> String {
    let head = match chosen {
        Chosen::Sound(Stored::Plan(head)) => head,
        Chosen::Sound(Stored::Score(head)) => return score_saved::described(head),
        Chosen::Damaged(own) => {
            let what = if own.is_plan { "plan" } else { "score" };
            return format!("{}  damaged {what}", clean(&own.id));
        }
    };
    let (id, title) = (clean(&head.id), clean(&head.title));
    format!("{id}  {title}, {}", counted(head.runs.stored(), "run"))
}

/// Asks on a terminal; elsewhere there is no answer, and `--yes` is needed.
fn is_confirmed(chosen: &[Chosen<'_>], db: &Database) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let plans = chosen.iter().filter(|head| head.is_plan()).count();
        let counts = [(plans, "plan"), (chosen.len() - plans, "score")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, noun)| counted(count, noun)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_one_is_found_by_its_id_and_is_never_another() {
        let own = |id: &str, is_plan| Damaged { id: id.to_string(), is_plan, number: 1 };
        let damaged = [own("20260101-aa", true), own("20260101-ab", true), own("20260102", false)];
        let (heads, db) = ((Vec::new(), Vec::new()), Database::default());
        let found = |text| match select(text, &heads, &damaged, &db).as_deref() {
            Ok([one]) => Some(one.id()),
            _ => None,
        };
        assert_eq!(found("20260101-aa"), Some("20260101-aa"));
        assert_eq!(found("20260101-ab"), Some("20260101-ab"));
        assert_eq!(found("20260101"), None, "two begin with it");
        assert_eq!(found("20260102"), Some("20260102"));
        assert_eq!(found("score=2026"), Some("20260102"), "plans are not meant");
        assert_eq!((found("20260103"), found("")), (None, None));
    }
}
