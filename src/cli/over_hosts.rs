//! `schedlab compare --over hosts`: one plan on many machines, each of which is one draw.

use crate::analysis::{self, Selection};
use crate::model::{PlanHead, SampledPlan};
use crate::report::clean;
use crate::session::sides::{self, Comparison};
use crate::store::Store;

use super::{Database, Failure};
use crate::model::quoted;

const EXAMPLE: &str = "compare default batch --over hosts";

/// Variants, and the plans of all hosts: where one plan is meant, with all that are the same, on any
/// machine, and began no later.
pub fn asked(
    words: &[String],
    store: &Store,
    heads: &[PlanHead],
    db: &Database,
) -> Result<Comparison, Failure> {
    let last = ["last".to_string()];
    let words = if words.is_empty() { &last } else { words };
    let named = db.select("", words, heads)?;
    let of = |id: &String| heads.iter().find(|head| head.id == *id);
    // All sides measured the same plan, so the newest one stands for it.
    let Some(newest) = named[0].plans.last().and_then(of) else {
        return Err(Failure::usage("no plan is named", db.command(EXAMPLE)));
    };
    let names_plans = named.iter().any(|side| side.names_several);
    let (sides, command) = match named.as_slice() {
        [side] if !side.names_variants() => {
            let variants = newest.variants.iter().map(|variant| side.with_variant(variant));
            // The id of one plan stands for all that are like it.
            let word = if names_plans { words[0].clone() } else { side.words(heads) };
            let command = format!("schedlab compare {}", quoted(&word));
            (variants.collect(), command)
        }
        sides => (sides.to_vec(), sides::command(sides, false, heads)),
    };
    check(&sides, newest, db)?;
    let one = (sides[0].plans.len() == 1 && !names_plans).then_some(newest);
    let sides: Vec<Selection> = match one {
        Some(one) => {
            let same = heads.iter().rev().filter(|head| is_like(head, one));
            let same: Vec<String> = same.map(|head| head.id.clone()).collect();
            sides.iter().map(|side| side.with_plans(same.clone())).collect()
        }
        None => sides,
    };
    let plans = sides::sampled(store, &sides)?;
    let reference = one.map(|one| one.id.as_str());
    let (plans, refused) = analysis::alike(plans, &sides, reference);
    Ok(Comparison { sides, command: format!("{command} --over hosts"), plans, refused })
}

/// Whether a plan may be the same as another, which did not begin earlier; its head says no more.
fn is_like(head: &PlanHead, one: &PlanHead) -> bool {
    head.runs.done > 0
        && head.started_unix_ns <= one.started_unix_ns
        && (&head.title, &head.backend) == (&one.title, &one.backend)
        && head.variants == one.variants
}

/// Each host pairs variants within its rounds, and differs from others in what it is.
fn check(sides: &[Selection], newest: &PlanHead, db: &Database) -> Result<(), Failure> {
    let is_one_plan = sides.windows(2).all(|pair| pair[0].is_of_the_runs_of(&pair[1]));
    if !is_one_plan || !sides.iter().all(Selection::names_variants) {
        let text = "--over hosts compares variants that each host measured in the same rounds";
        return Err(Failure::usage(text, db.command(EXAMPLE)));
    }
    if let [side] = sides {
        let (label, id) = (clean(&side.label), quoted(&format!("plan={}", newest.id)));
        let text = format!("`{label}` is one side alone: nothing to compare");
        let (all, of) = (newest.variants.len(), clean(&newest.id));
        let hint = match all {
            1 => "measure a plan with a [[variant]] more on each host".to_string(),
            _ => format!(
                "all {all} variants of {of}: schedlab compare {id} --over hosts{}",
                db.words()
            ),
        };
        return Err(Failure::usage(text, hint));
    }
    sides::check_distinct(sides, db)?;
    let why = match newest.backend.as_str() {
        SampledPlan::LAB => "in the lab a run is the same on every host",
        SampledPlan::IMPORTED => "another tool measured it, and not in rounds",
        _ => return Ok(()),
    };
    let text = format!("there are no hosts to judge over in {}: {why}", clean(&newest.id));
    Err(Failure::usage(text, db.command(&format!("compare plan={}", quoted(&newest.id)))))
}
