//! `schedlab rm`: removes stored plans and scores.

use std::io::{self, IsTerminal, Write};

use clap::Args;

use crate::model::{PlanHead, ScoreHead};
use crate::report::clean;
use crate::store::Damaged;
use crate::sys;

use super::score_saved::{self, PREFIX, Stored};
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
    let damaged = store.damaged()?;
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for id in &args.ids {
        if ["last", "score=last"].contains(&id.as_str()) {
            let list = if id == "last" { "list runs" } else { "list scores" };
            let text = format!("rm takes ids and tags, not `{id}`");
            return Err(Failure::usage(text, args.db.command(list)));
        }
        let head = find(id, &heads, &damaged, &args.db)?;
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
        if head.is_plan() {
            fleet::leave(head.id())?;
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
fn find<'h>(
    text: &str,
    heads: &'h (Vec<PlanHead>, Vec<ScoreHead>),
    damaged: &'h [Damaged],
    db: &Database,
) -> Result<Chosen<'h>, Failure> {
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
        (Some(own), _) => Ok(Chosen::Damaged(own)),
        (None, [own]) if !is_sound => Ok(Chosen::Damaged(own)),
        (None, [_, ..]) if !sound.contains(&name) => {
            let text = format!("several ids begin with `{}`, of damaged ones too", clean(name));
            Err(Failure::usage(text, db.command("rm WHOLE-ID")))
        }
        _ => Ok(Chosen::Sound(score_saved::find(text, heads, db)?)),
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
    format!("{id}  {title}, {}", plural(head.runs.stored(), "run"))
}

/// Asks on a terminal; elsewhere there is no answer, and `--yes` is needed.
fn is_confirmed(chosen: &[Chosen<'_>], db: &Database) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let plans = chosen.iter().filter(|head| head.is_plan()).count();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_one_is_found_by_its_id_and_is_never_another() {
        let own = |id: &str, is_plan| Damaged { id: id.to_string(), is_plan, number: 1 };
        let damaged = [own("20260101-aa", true), own("20260101-ab", true), own("20260102", false)];
        let (heads, db) = ((Vec::new(), Vec::new()), Database::default());
        let found = |text| find(text, &heads, &damaged, &db).ok().map(|chosen| chosen.id());
        assert_eq!(found("20260101-aa"), Some("20260101-aa"));
        assert_eq!(found("20260101-ab"), Some("20260101-ab"));
        assert_eq!(found("20260101"), None, "two begin with it");
        assert_eq!(found("20260102"), Some("20260102"));
        assert_eq!(found("score=2026"), Some("20260102"), "plans are not meant");
        assert_eq!((found("20260103"), found("")), (None, None));
    }
}
