//! `schedlab try --dry-run`: which kernels would be built, and what would run on them. Builds and runs nothing.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::analysis::bisect::MAX_LOOKS;
use crate::backend::lab::kernel;
use crate::backend::lab::kernel::build::{Base, history};
use crate::model::{Plan, clean, show_duration};
use crate::plan;
use crate::report::numbers::counted;
use crate::report::rough_time;
use crate::session;

use super::hunt_confirm::load_case;
use super::trial::{Asked, TryArgs};
use super::trial_bisect::{self, BAD, GOOD};
use super::{Failure, catch_termination, table, trial_case};

pub fn run(args: &TryArgs) -> Result<(), Failure> {
    let mut lines = Vec::new();
    let stop = &*catch_termination()?;
    let kernels = match args.to_bisect() {
        Some((tree, ends)) => bisected(tree, ends, stop, &mut lines)?,
        None => {
            let asked = Asked::from_args(args)?;
            for (_, request) in asked.requests() {
                if let Base::Tree { folder, revision: Some(revision) } = &request.base {
                    history::commit(folder, revision, stop)?;
                }
            }
            lines.extend(asked.requests().map(|(variant, request)| {
                let name = request.name.to_string();
                match kernel::find(&name) {
                    Ok(_) => format!(
                        "{variant}: {name}, in the cache; built again if its sources changed"
                    ),
                    Err(_) => format!("{variant}: {name}, to be built"),
                }
            }));
            2
        }
    };
    lines.push(match &args.case {
        Some(case) => of_case(args, case, kernels)?,
        None => of_plan(args)?,
    });
    let width = args.output.columns();
    let mut out = io::stdout().lock();
    for line in &lines {
        write!(out, "{}", table::wrapped(&clean(line), width))?;
    }
    Ok(())
}

/// The ends of a bisection and what lies between them. Returns how many kernels are measured at most.
fn bisected(
    tree: &Path,
    ends: &[String],
    stop: &AtomicBool,
    lines: &mut Vec<String>,
) -> Result<u32, Failure> {
    let [good, bad] = ends else {
        return Err(Failure::usage("--bisect takes two revisions", "--bisect v6.12 HEAD"));
    };
    let (good, bad) = (history::commit(tree, good, stop)?, history::commit(tree, bad, stop)?);
    let left = trial_bisect::between(tree, &good, &bad, stop)?;
    let steps = u64::BITS - (left.commits.saturating_sub(1) as u64).leading_zeros();
    lines.push(format!("good: {} {}", good.id, good.title));
    lines.push(format!("bad: {} {}", bad.id, bad.title));
    let commits = counted(left.commits as u64, "commit");
    lines.push(format!("{commits} may be the one: both ends are built, and about {steps} between"));
    Ok(2 + steps)
}

fn of_case(args: &TryArgs, case: &str, kernels: u32) -> Result<String, Failure> {
    let plan = session::check(&args.request(load_case(case, true, &args.db)?))?;
    let cells = plan::cells(&plan).len() as u64;
    let seeds = |look| trial_case::seeds(args, look);
    let runs = |look| cells * u64::from(kernels) * u64::from(seeds(look));
    Ok(format!(
        "{case}: {kernels} kernels with {}: {}; where that does not decide, with {} at most: {}",
        counted(seeds(1), "seed"),
        runs_words(runs(1), &plan),
        seeds(MAX_LOOKS),
        runs_words(runs(MAX_LOOKS), &plan),
    ))
}

/// With `--bisect` of the ends alone: a step has one workload.
fn of_plan(args: &TryArgs) -> Result<String, Failure> {
    let variants = match args.bisect {
        Some(_) => [GOOD, BAD].map(|end| trial_bisect::variant_of(end, end)).to_vec(),
        None => Asked::from_args(args)?.variants().to_vec(),
    };
    let plan = session::check(&args.plan_request(&variants)?)?;
    let seeds = plan.lab.seeds;
    let runs = plan::cells(&plan).len() as u64 * u64::from(seeds);
    let ends = if args.bisect.is_some() { " of both ends" } else { "" };
    let (seeds, runs) = (counted(seeds, "seed"), runs_words(runs, &plan));
    Ok(format!("plan {} with {seeds}{ends}: {runs}", args.plan))
}

fn runs_words(runs: u64, plan: &Plan) -> String {
    let time = match runs.saturating_mul(plan.mean_run_ns()) {
        ns @ ..1_000_000_000 => show_duration(ns),
        ns => rough_time(ns),
    };
    format!("{}, {time} of virtual time", counted(runs, "run"))
}
