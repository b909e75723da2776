//! `--shard 3/16`: one part of a plan, on a machine or in a job of its own.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::model::{Cut, PlanEnd, PlanHead, PlanStarted, Shard, Sharding, clean};
use crate::report::numbers::counted;
use crate::store::{Store, StoreError, StoredRuns};

use super::{Database, SessionError};

/// Makes a part of a plan that is about to begin. `has_guests`: its runs have machines of their own.
pub fn divide(
    started: &mut PlanStarted,
    shard: Shard,
    has_guests: bool,
) -> Result<(), SessionError> {
    if started.plan.measure.until_decided {
        let text = "--shard: parts share a fixed number of rounds, and this plan measures until all is decided";
        return Err(SessionError::usage(text, "--rounds 20, which fixes them beforehand"));
    }
    // By the host's clock runs are compared with others of the same machine.
    let is_exact = has_guests && !started.plan.lab.realtime;
    let has_turns = started.plan.measure.turns_ns.is_some();
    let cut = if is_exact && !has_turns { Cut::Boots } else { Cut::Rounds };
    let Shard { part, parts } = shard;
    let sharding = Sharding { plan: identity(started)?, parts, part: Some(part), cut };
    started.id = sharding.id();
    started.sharding = Some(sharding);
    Ok(())
}

/// The digest of what all parts of a plan have in common, whatever machine runs them.
fn identity(started: &PlanStarted) -> Result<String, SessionError> {
    let PlanStarted { backend, source, plan, judged, .. } = started;
    let common = (env!("CARGO_PKG_VERSION"), backend, source, plan, judged);
    let text = serde_json::to_vec(&common)
        .map_err(|error| SessionError::Here(error.to_string().into()))?;
    Ok(Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The stored state of a part that is to be run.
pub enum PartState {
    New,
    /// It was begun, and has this id.
    Begun(String),
    /// There is nothing to run, because of this.
    Done(String),
}

/// Whether the part was begun before: the same words may come again, from a launcher that starts what failed anew.
pub fn state(db: &Database, started: &PlanStarted) -> Result<PartState, SessionError> {
    let Some((sharding, shard)) = own_shard(started) else { return Ok(PartState::New) };
    let division = sharding.division(&started.plan);
    if division.runs_of(shard.part) == 0 {
        let what = match sharding.cut {
            Cut::Rounds => format!(
                "{}, and a round is not divided",
                counted(started.plan.measure.rounds, "round")
            ),
            Cut::Boots => counted(division.runs(), "run"),
        };
        return Ok(PartState::Done(format!(
            "part {shard} has no runs, and is not missed: the plan has {what}"
        )));
    }
    // Another part may have made the file just now.
    let store = match db.open_read_only() {
        Err(SessionError::Store(StoreError::Missing { .. })) => return Ok(PartState::New),
        store => store?,
    };
    let heads = store.plan_heads()?;
    let find = |id: String| heads.iter().find(|head| head.id == id);
    if let Some(whole) = find(sharding.whole_id()) {
        check_division(whole, shard, db)?;
        let done = store.finished_runs(&whole.id)?;
        let own = done.iter().filter(|key| key.round < started.plan.measure.rounds);
        let own = own.filter(|key| division.part_of(**key) == Some(shard.part)).count() as u64;
        if own == division.runs_of(shard.part) {
            let text = format!("part {shard} is joined in {} already", whole.id);
            return Ok(PartState::Done(text + &measure_anew(db)));
        }
    }
    Ok(match find(sharding.id()) {
        None => PartState::New,
        Some(PlanHead { ended: Some(PlanEnd::Complete | PlanEnd::Budget), id, .. }) => {
            let text = format!("part {shard} is stored already, as {id}");
            PartState::Done(text + &measure_anew(db))
        }
        Some(head) => PartState::Begun(head.id.clone()),
    })
}

fn measure_anew(db: &Database) -> String {
    let list = db.command("list runs");
    format!(": nothing is run. To measure anew: another --seed, or another --db; {list}")
}

/// The sharding of a plan that is one part.
pub fn own_shard(started: &PlanStarted) -> Option<(&Sharding, Shard)> {
    let sharding = started.sharding.as_ref()?;
    Some((sharding, sharding.shard()?))
}

fn check_division(head: &PlanHead, shard: Shard, db: &Database) -> Result<(), SessionError> {
    let parts = head.sharding.as_ref().map_or(shard.parts, |own| own.parts);
    if parts == shard.parts {
        return Ok(());
    }
    let (id, part) = (clean(&head.id), shard.part.min(parts));
    let text = format!("--shard {shard}: {id} is cut in {parts} parts");
    Err(SessionError::usage(
        text,
        format!("--shard {part}/{parts}, or another --db than{}", database_words(db)),
    ))
}

fn database_words(db: &Database) -> String {
    let words = db.words();
    if words.is_empty() { " this one".to_string() } else { words }
}

/// The id of the stored plan that `--resume` with `--shard` goes on with: of a plan that parts were joined
/// in, its part where that was begun here.
pub fn stored_id(
    heads: &[PlanHead],
    named: Option<&PlanHead>,
    shard: Shard,
    db: &Database,
) -> Result<String, SessionError> {
    let is_part = |head: &&PlanHead| {
        head.sharding.as_ref().and_then(Sharding::shard) == Some(shard)
            && !matches!(head.ended, Some(PlanEnd::Complete | PlanEnd::Budget))
    };
    let head = named.or_else(|| heads.iter().find(is_part)).ok_or_else(|| {
        let text = format!("nothing to resume: no part {shard} that is stored was interrupted");
        SessionError::usage(text, db.command("list runs"))
    })?;
    let id = clean(&head.id);
    let Some(own) = &head.sharding else {
        let text = format!("--shard {shard}: {id} is not a part of a plan");
        return Err(SessionError::usage(text, db.command(&format!("run --resume {id}"))));
    };
    check_division(head, shard, db)?;
    match own.shard() {
        Some(other) if other != shard => {
            let text = format!("--shard {shard}: {id} is part {other}");
            Err(SessionError::usage(text, db.command(&format!("run --resume {id}"))))
        }
        Some(_) => Ok(head.id.clone()),
        None => {
            let part = Sharding { part: Some(shard.part), ..own.clone() }.id();
            let begun = heads.iter().find(|head| head.id == part);
            Ok(begun.unwrap_or(head).id.clone())
        }
    }
}

/// Makes the part of a stored plan that parts were joined in; `stored` keeps the runs of the part, those that are
/// joined already among them.
pub fn part_of(stored: &mut StoredRuns, shard: Shard, store: &Store) -> Result<(), SessionError> {
    let Some(sharding) = &mut stored.started.sharding else { return Ok(()) };
    sharding.part = Some(shard.part);
    let whole = sharding.whole_id();
    if stored.started.id == sharding.id() && store.plan_heads()?.iter().any(|own| own.id == whole) {
        stored.runs.extend(store.stored_runs(&whole)?.runs);
    }
    stored.started.id = sharding.id();
    let division = sharding.division(&stored.started.plan);
    let mut seen = BTreeSet::new();
    stored.runs.retain(|(key, _)| division.part_of(*key) == Some(shard.part) && seen.insert(*key));
    Ok(())
}
