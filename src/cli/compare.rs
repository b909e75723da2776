//! `schedlab compare`: verdicts between selections of what is stored.

use clap::{Args, ValueEnum};

use crate::analysis::{Question, Selection};
use crate::model::PlanHead;
use crate::session::sides::{self, Comparison};
use crate::store::Store;

use super::fidelity::Fidelity;
use super::gate::{self, Gate};
use super::judging::Judging;
use super::output::Output;
use super::score_saved::{self, CompareScoresArgs};
use super::{Database, Failure, over_hosts, selection};

#[derive(Args)]
pub struct CompareArgs {
    /// Sides to compare, the baseline first: variants, kernels, machines, plans (ids, last,
    /// last:10, all), or terms with commas between: kernel=6.1.*,variant=default,since=2026-11-01.
    /// One plan, or nothing for the newest: its variants. Or two saved scores, by tag, id or last:
    /// score=before score=last
    #[arg(value_parser = selection(), hide_possible_values = true)]
    sides: Vec<String>,
    /// The baseline, from other plans than those of the sides: --against last:10
    #[arg(long, value_name = "SIDE")]
    against: Option<String>,
    /// How well the lab predicts a host: two sides, plans of a host and plans of the lab, of the same
    /// works and variants. Each is judged for itself, and the verdicts are compared
    #[arg(long, conflicts_with_all = ["against", "mixed", "fail_on"])]
    fidelity: bool,
    /// Judge over machines: every host that ran the same plan is one draw, so verdicts and intervals hold
    /// for hosts like these. Sides are variants, the plans those of all hosts
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["against", "mixed", "fidelity"])]
    over: Option<Over>,
    #[command(flatten)]
    scores: CompareScoresArgs,
    #[command(flatten)]
    judging: Judging,
    #[command(flatten)]
    gate: Gate,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    db: Database,
}

#[derive(Clone, Copy, ValueEnum)]
enum Over {
    Hosts,
}

impl CompareArgs {
    /// The variants of the plans that a term selects, judged over their hosts.
    #[cfg(feature = "fleet")]
    pub fn over_hosts(
        side: String,
        judging: Judging,
        gate: Gate,
        output: Output,
        db: Database,
    ) -> CompareArgs {
        CompareArgs {
            sides: vec![side],
            against: None,
            fidelity: false,
            over: Some(Over::Hosts),
            scores: CompareScoresArgs::default(),
            judging,
            gate,
            output,
            db,
        }
    }
}

pub fn run(args: &CompareArgs) -> Result<(), Failure> {
    args.gate.translate(|| compare(args))
}

fn compare(args: &CompareArgs) -> Result<(), Failure> {
    if args.sides.iter().any(|side| side.starts_with(score_saved::PREFIX)) {
        return compare_scores(args);
    }
    if args.scores.is_asked() {
        let text = "--by and --top are for scores";
        return Err(Failure::usage(text, args.db.command("compare score=A score=B")));
    }
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    if heads.is_empty() {
        return Err(Failure::here("nothing is stored yet", args.db.command("run quick")));
    }
    if args.fidelity {
        let CompareArgs { sides, judging, output, db, .. } = args;
        return Fidelity { sides, judged: &judging.judged(), output, db }.run(&store, &heads);
    }
    let Comparison { sides, command, plans, refused } = match args.over {
        Some(Over::Hosts) => over_hosts::asked(&args.sides, &store, &heads, &args.db)?,
        None => asked(args, &store, &heads)?,
    };
    let judged = args.judging.judged();
    sides::check_named(&judged, &plans, &sides)?;
    let command = command + &judged.words() + &args.output.words(&args.db);
    let explaining = args.output.explains(&judged, &[]);
    let question = sides::question(&judged, sides, command, explaining, &args.db);
    let against = args.against.is_some();
    let question = Question { over_hosts: args.over.is_some(), against, refused, ..question };
    let mut analysis = sides::analyse(&store, &plans, question)?;
    let analyses = std::slice::from_mut(&mut analysis);
    match args.output.write(&judged, &store, analyses, &[]) {
        // Whoever asks for the exit code gets it, whether or not all was read.
        Err(Failure::OutputClosed) if args.gate.is_asked() => {}
        written => written?,
    }
    args.gate.judge(std::slice::from_ref(&analysis))?;
    gate::anything(&analysis)
}

/// The sides as they are written, and the plans of all of them.
fn asked(args: &CompareArgs, store: &Store, heads: &[PlanHead]) -> Result<Comparison, Failure> {
    let sides = sides(args, heads)?;
    if sides.len() < 2 {
        return Err(sides::one_side(&sides[0], heads, &args.db).into());
    }
    let plans = sides::sampled(store, &sides)?;
    let command = sides::command(&sides, args.against.is_some(), heads);
    Ok(Comparison { sides, command, plans, refused: Vec::new() })
}

/// Shows the changes between two scores: there is nothing to judge.
fn compare_scores(args: &CompareArgs) -> Result<(), Failure> {
    let is_json = match args.output.format_name() {
        "text" => false,
        "json" => true,
        other => {
            let text = format!("two scores cannot be written as {other}");
            return Err(Failure::usage(text, "--format json"));
        }
    };
    let judges = !args.judging.judged().is_default() || args.gate.is_asked();
    if judges || args.fidelity || args.over.is_some() || args.against.is_some() {
        let text = "one score each is one sample: there is no verdict to ask about";
        let hint = "schedlab run --probe sched -- COMMAND measures in rounds, which are judged";
        return Err(Failure::usage(text, hint));
    }
    args.scores.run(&args.sides, is_json, (&args.output, &args.judging.judged()), &args.db)
}

fn sides(args: &CompareArgs, heads: &[PlanHead]) -> Result<Vec<Selection>, Failure> {
    let last = ["last".to_string()];
    let written = if args.sides.is_empty() { &last } else { args.sides.as_slice() };
    let mut sides = args.db.select("", written, heads)?;
    if let ([side], None) = (sides.as_slice(), &args.against)
        && let ([plan], false) = (side.plans.as_slice(), side.names_variants())
    {
        let head = heads.iter().find(|head| head.id == *plan);
        return Ok(head.map(sides::variants).unwrap_or_default());
    }
    if let Some(against) = &args.against {
        let is_other = |head: &&PlanHead| !sides.iter().any(|side| side.plans.contains(&head.id));
        let others: Vec<PlanHead> = heads.iter().filter(is_other).cloned().collect();
        if others.is_empty() {
            return Err(no_other(&sides, &args.db));
        }
        let place = "--against, without the plans of the other sides: ";
        let baseline = args.db.select(place, std::slice::from_ref(against), &others)?;
        sides.splice(0..0, baseline);
    }
    sides::check_distinct(&sides, &args.db)?;
    Ok(sides)
}

/// --against has nothing to choose from.
fn no_other(sides: &[Selection], db: &Database) -> Failure {
    let text = "--against: no other plan is stored than those of the sides";
    let hint = if sides.iter().any(Selection::names_variants) {
        let command = db.command("compare default batch");
        format!("two variants of one plan, the baseline first: {command}")
    } else {
        format!("measure again, and compare: {}", db.command("run quick"))
    };
    Failure::usage(text, hint)
}
