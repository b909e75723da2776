//! `schedlab report`: what is stored, in any format.

use clap::Args;

use crate::analysis::{Analysis, Selection};
use crate::model::{Judged, PlanHead, SampledPlan};
use crate::session::sides;
use crate::store::Store;

use super::judging::Judging;
use super::output::Output;
use super::{Database, Failure, selection};

#[derive(Args)]
pub struct ReportArgs {
    /// Stored plans: `last`, `last:N`, `all`, the beginning of an id, or terms with commas
    /// between: tag=NAME, since=7d, backend=lab
    #[arg(default_value = "last", value_parser = selection(), hide_possible_values = true)]
    select: String,
    #[command(flatten)]
    judging: Judging,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let asked = args.judging.judged();
    let mut shown = asked.clone();
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    let select = std::slice::from_ref(&args.select);
    let sides = args.db.select("", select, &heads)?;
    let (mut analyses, mut plans) = (Vec::new(), Vec::new());
    for (side, id) in sides.iter().flat_map(|side| side.plans.iter().map(move |id| (side, id))) {
        let Some(head) = heads.iter().find(|head| head.id == *id) else { continue };
        let AnalysedPlan { analysis, sampled, judged } =
            analyse_plan(&store, (side, head), &asked, &args.output, &args.db)?;
        analyses.push(analysis);
        plans.extend(sampled);
        shown.all_metrics |= judged.all_metrics;
    }
    args.output.write(&shown, &store, &mut analyses, &plans)
}

/// A plan with its analysis, and how it was judged.
pub struct AnalysedPlan {
    pub analysis: Analysis,
    pub sampled: Vec<SampledPlan>,
    judged: Judged,
}

/// Analyses the variants of one plan that `side` takes, one alone with its baseline. Where nothing is asked for, it is the table
/// again that ended the run.
pub fn analyse_plan(
    store: &Store,
    (side, head): (&Selection, &PlanHead),
    asked: &Judged,
    output: &Output,
    db: &Database,
) -> Result<AnalysedPlan, Failure> {
    let sides = sides::taken_variants(side, head);
    let sampled = sides::sampled(store, &sides)?;
    sides::check_named(asked, &sampled, &sides)?;
    let begun = store.plan_started(&head.id)?.judged;
    let judged = sides::asked_or_begun(asked, &begun, &sampled, &sides);
    let command = if sides.len() == head.variants.len() {
        sides::plan_command(&head.id, sides.len())
    } else {
        sides::command(&sides, false, std::slice::from_ref(head))
    };
    let command = command + &judged.words() + &output.words(db);
    let explaining = output.explains(&judged, &sampled);
    let question = sides::question(&judged, sides, command, explaining, db);
    let analysis = sides::analyse(store, &sampled, question)?;
    Ok(AnalysedPlan { analysis, sampled, judged })
}
