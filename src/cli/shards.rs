//! `--shard 3/16`: one part of a plan, on a machine or in a job of its own, and what `schedlab import` says when it has
//! joined parts.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::model::{Cut, PlanEnd, PlanHead, PlanStarted, Record, RunKey, Shard, Sharding};
use crate::report::clean;
use crate::store::{JoinedPlan, Store};

use super::exit_code::Problem;
use super::{Database, Failure, plural, terminal};

/// Missing parts that are named one by one.
const MAX_NAMED: usize = 10;

pub fn parse(text: &str) -> Result<Shard, Problem> {
    Shard::parse(text).map_err(|wrong| Problem::new(wrong.message, wrong.hint))
}

/// Makes a part of a plan that is about to begin. `has_guests`: its runs have machines of their own.
pub fn divide(started: &mut PlanStarted, shard: Shard, has_guests: bool) -> Result<(), Failure> {
    if started.plan.measure.until_decided {
        let text = "--shard: rounds until all is decided are no fixed ones that parts can share";
        return Err(Failure::usage(text, "--rounds 20, which fixes them beforehand"));
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
fn identity(started: &PlanStarted) -> Result<String, Failure> {
    let PlanStarted { backend, source, plan, judged, .. } = started;
    let common = (env!("CARGO_PKG_VERSION"), backend, source, plan, judged);
    let text = serde_json::to_vec(&common).map_err(std::io::Error::from)?;
    Ok(Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The stored state of a part that is to be run.
pub enum Begun {
    Nothing,
    /// It was begun, and has this id.
    Part(String),
    /// There is nothing to run, because of this.
    Done(String),
}

/// Whether the part was begun before: the same words may come again, from a launcher that starts what failed anew.
pub fn begun(db: &Database, started: &PlanStarted) -> Result<Begun, Failure> {
    let Some((sharding, shard)) = own_shard(started) else { return Ok(Begun::Nothing) };
    let division = sharding.division(&started.plan);
    if division.runs_of(shard.part) == 0 {
        let what = match sharding.cut {
            Cut::Rounds => format!(
                "{}, and a round is not divided",
                plural(u64::from(started.plan.measure.rounds), "round")
            ),
            Cut::Boots => plural(division.runs(), "run"),
        };
        return Ok(Begun::Done(format!(
            "part {shard} has no runs, and is not missed: the plan has {what}"
        )));
    }
    if !db.path()?.exists() {
        return Ok(Begun::Nothing);
    }
    let store = db.open_read_only()?;
    let heads = store.plan_heads()?;
    let find = |id: String| heads.iter().find(|head| head.id == id);
    if let Some(whole) = find(sharding.whole_id()) {
        cut_alike(whole, shard, db)?;
        let done = store.finished_runs(&whole.id)?;
        let own = done.iter().filter(|key| is_planned(started, **key));
        let own = own.filter(|key| division.part_of(**key) == Some(shard.part)).count() as u64;
        if own == division.runs_of(shard.part) {
            let text = format!("part {shard} is joined in {} already", whole.id);
            return Ok(Begun::Done(text + &anew(db)));
        }
    }
    Ok(match find(sharding.id()) {
        None => Begun::Nothing,
        Some(PlanHead { ended: Some(PlanEnd::Complete | PlanEnd::Budget), id, .. }) => {
            let text = format!("part {shard} is stored already, as {id}");
            Begun::Done(text + &anew(db))
        }
        Some(head) => Begun::Part(head.id.clone()),
    })
}

fn is_planned(started: &PlanStarted, key: RunKey) -> bool {
    key.round < started.plan.measure.rounds
}

fn anew(db: &Database) -> String {
    let list = db.command("list runs");
    format!(": nothing is run. To measure anew: another --seed, or another --db; {list}")
}

/// The sharding of a plan that is one part.
fn own_shard(started: &PlanStarted) -> Option<(&Sharding, Shard)> {
    let sharding = started.sharding.as_ref()?;
    Some((sharding, sharding.shard()?))
}

fn cut_alike(head: &PlanHead, shard: Shard, db: &Database) -> Result<(), Failure> {
    let parts = head.sharding.as_ref().map_or(shard.parts, |own| own.parts);
    if parts == shard.parts {
        return Ok(());
    }
    let (id, part) = (clean(&head.id), shard.part.min(parts));
    let text = format!("--shard {shard}: {id} is cut in {parts} parts");
    Err(Failure::usage(text, format!("--shard {part}/{parts}, or another --db than{}", shown(db))))
}

fn shown(db: &Database) -> String {
    let words = db.words();
    if words.is_empty() { " this one".to_string() } else { words }
}

/// The id of the stored plan that `--resume` with `--shard` goes on with: of a plan that parts were joined
/// in, its part where that was begun here.
pub fn resumed(
    heads: &[PlanHead],
    named: Option<&PlanHead>,
    shard: Shard,
    db: &Database,
) -> Result<String, Failure> {
    let is_part = |head: &&PlanHead| {
        head.sharding.as_ref().and_then(Sharding::shard) == Some(shard)
            && !matches!(head.ended, Some(PlanEnd::Complete | PlanEnd::Budget))
    };
    let head = named.or_else(|| heads.iter().find(is_part)).ok_or_else(|| {
        let text = format!("nothing to resume: no part {shard} that is stored was interrupted");
        Failure::usage(text, db.command("list runs"))
    })?;
    let id = clean(&head.id);
    let Some(own) = &head.sharding else {
        let text = format!("--shard {shard}: {id} is not a part of a plan");
        return Err(Failure::usage(text, db.command(&format!("run --resume {id}"))));
    };
    cut_alike(head, shard, db)?;
    match own.shard() {
        Some(other) if other != shard => {
            let text = format!("--shard {shard}: {id} is part {other}");
            Err(Failure::usage(text, db.command(&format!("run --resume {id}"))))
        }
        Some(_) => Ok(head.id.clone()),
        None => {
            let part = Sharding { part: Some(shard.part), ..own.clone() }.id();
            let begun = heads.iter().find(|head| head.id == part);
            Ok(begun.unwrap_or(head).id.clone())
        }
    }
}

/// Makes the part of a stored plan that parts were joined in; `record` keeps the runs of the part, those that are
/// joined already among them.
pub fn part_of(record: &mut Record, shard: Shard, store: &Store) -> Result<(), Failure> {
    let Some(sharding) = &mut record.started.sharding else { return Ok(()) };
    sharding.part = Some(shard.part);
    let whole = sharding.whole_id();
    if record.started.id == sharding.id() && store.plan_heads()?.iter().any(|own| own.id == whole) {
        record.runs.extend(store.sound_record(&whole)?.0.runs);
    }
    record.started.id = sharding.id();
    let division = sharding.division(&record.started.plan);
    let mut seen = BTreeSet::new();
    record.runs.retain(|run| division.part_of(run.key) == Some(shard.part) && seen.insert(run.key));
    Ok(())
}

/// Joins the part with the others if they are here. What is to be done with it.
pub fn ended(
    store: &mut Store,
    started: &PlanStarted,
    runs: usize,
    db: &Database,
) -> Result<Option<String>, Failure> {
    let Some((sharding, shard)) = own_shard(started) else { return Ok(None) };
    if let Some(joined) = store.join_stored(sharding)? {
        return Ok(Some(describe(&joined, db)));
    }
    let (id, file) = (&started.id, format!("part-{}of{}.jsonl", shard.part, shard.parts));
    let export = db.command(&format!("export {id}"));
    let import = format!("schedlab import part-*of{}.jsonl", shard.parts);
    Ok(Some(format!(
        "part {shard} of {}: {}\n\
         export  {export} > {file}\n\
         join    {import}",
        sharding.whole_id(),
        plural(runs as u64, "run"),
    )))
}

/// Describes the joined parts, the missing ones, and notes for the reader.
pub fn describe(joined: &JoinedPlan, db: &Database) -> String {
    let JoinedPlan { id, title, sharding, runs, planned, repeated, missing, .. } = joined;
    let there = sharding.parts as usize - missing.len();
    let parts = match missing.len() {
        0 => format!("all {} parts", sharding.parts),
        _ => format!("{there} of {} parts", sharding.parts),
    };
    let again = match repeated {
        0 => String::new(),
        again => format!("; {} with the same answers were there already", plural(*again, "run")),
    };
    let mut lines =
        vec![format!("{id}: {parts}, {runs} of {planned} runs{again}: {}", clean(title))];
    for part in missing.iter().take(MAX_NAMED) {
        let command = db.command(&format!("run --resume {id} --shard {}", part.shard));
        lines.push(format!("missing: {part}: {command}"));
    }
    if let Some(more) = missing.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        lines.push(format!("missing: {} more", plural(more as u64, "part")));
    }
    if !missing.is_empty() {
        let command = db.command(&format!("run --resume {id}"));
        lines.push(format!("all that is missing: {command}"));
    }
    lines.extend(warnings(joined));
    lines.push(format!("see: {}", db.command(&format!("report {id}"))));
    lines.join("\n")
}

fn warnings(joined: &JoinedPlan) -> Vec<String> {
    let mut warnings = Vec::new();
    let quoted = |texts: BTreeSet<String>| texts.into_iter().collect::<Vec<_>>().join("; ");
    let emulators: BTreeSet<String> =
        joined.places.iter().map(|place| clean(&place.cpu_model)).collect();
    match joined.sharding.cut {
        Cut::Rounds if joined.places.len() > 1 => {
            let places = joined.places.iter().map(|of| {
                clean(&format!("{} ({}, Linux {})", of.hostname, of.cpu_model, of.kernel_release))
            });
            warnings.push(format!(
                "warning: the parts are of {} machines or kernels: {}. A round is of one of them",
                joined.places.len(),
                quoted(places.collect())
            ));
        }
        Cut::Boots if emulators.len() > 1 => warnings.push(format!(
            "warning: the parts are of {} emulators, and a run is exact for its own: {}",
            emulators.len(),
            quoted(emulators)
        )),
        _ => {}
    }
    warnings.extend(joined.kernels.iter().map(|(variant, kernels)| {
        let kernels = kernels.iter().map(|kernel| clean(&kernel.to_string())).collect();
        format!("warning: variant `{}` had several kernels: {}", clean(variant), quoted(kernels))
    }));
    warnings
}

/// Says what an import joined.
pub fn say(joined: &[JoinedPlan], db: &Database) {
    joined.iter().for_each(|joined| terminal::message(&describe(joined, db)));
}
