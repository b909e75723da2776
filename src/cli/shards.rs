//! `--shard 3/16`: its argument, and the text about a part that has ended and about parts that were joined.

use std::collections::BTreeSet;

use crate::model::{Cut, PlanStarted, Shard};
use crate::report::clean;
use crate::report::numbers::counted;
use crate::session::{Database, Problem, shards};
use crate::store::JoinedPlan;

use super::terminal;

/// Missing parts that are named one by one.
const MAX_NAMED: usize = 10;

pub fn parse(text: &str) -> Result<Shard, Problem> {
    Shard::parse(text).map_err(|wrong| Problem::new(wrong.message, wrong.hint))
}

/// The commands that a user needs after a part has ended.
pub fn describe_part(started: &PlanStarted, runs: usize, db: &Database) -> Option<String> {
    let (sharding, shard) = shards::own_shard(started)?;
    let (id, file) = (&started.id, format!("part-{}of{}.jsonl", shard.part, shard.parts));
    let export = db.command(&format!("export {id}"));
    let import = format!("schedlab import part-*of{}.jsonl", shard.parts);
    Some(format!(
        "part {shard} of {}: {}\n\
         export  {export} > {file}\n\
         join    {import}",
        sharding.whole_id(),
        counted(runs, "run"),
    ))
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
        again => format!("; {} with the same answers were there already", counted(*again, "run")),
    };
    let mut lines =
        vec![format!("{id}: {parts}, {runs} of {planned} runs{again}: {}", clean(title))];
    for part in missing.iter().take(MAX_NAMED) {
        let command = db.command(&format!("run --resume {id} --shard {}", part.shard));
        lines.push(format!("missing: {part}: {command}"));
    }
    if let Some(more) = missing.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        lines.push(format!("missing: {} more", counted(more, "part")));
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
