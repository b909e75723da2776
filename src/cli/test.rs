//! `schedlab test`: runs plans, and says of each thing that they expect whether it holds.

use std::path::Path;

use clap::Args;

use crate::analysis::{self, Outcome};
use crate::report::expect::{self, TestedPlan};

use super::Failure;
use super::exit_code::Problem;
use super::findings;
use super::judging;
use super::names::UnknownName;
use super::run::{self, Measured, RunArgs};
use super::terminal;

// Options are those of `run`, whose one plan is no argument here.
#[derive(Args)]
#[command(mut_arg("plan", |plan| plan.long("one-plan").hide(true)))]
pub struct TestArgs {
    /// Built-in plans by name, plan files, or plan=ID, the text of a stored one
    #[arg(required_unless_present = "findings", value_name = "PLAN")]
    plans: Vec<String>,
    /// What was published about schedulers, in the lab: the findings of these names, or all; see
    /// `schedlab list findings`
    #[arg(long)]
    findings: bool,
    #[command(flatten)]
    run: RunArgs,
}

pub fn run(args: &TestArgs) -> Result<(), Failure> {
    let name = args.run.output.format_name();
    let formats = expect::FORMATS;
    let (_, render) = formats.iter().find(|(own, _)| *own == name).ok_or_else(|| {
        UnknownName::new("format of test", name, formats.iter().map(|(name, _)| *name), "")
    })?;
    args.run.output.check_file(args.plans.iter().map(Path::new))?;
    let (findings, run) = match args.findings {
        true => (findings::named(&args.plans)?, &args.run.of_findings()),
        false => (Vec::new(), &args.run),
    };
    findings::check_kernels(&findings, run.backend())?;
    let asked: Vec<&str> = match args.findings {
        true => findings.iter().map(|(name, _)| *name).collect(),
        false => args.plans.iter().map(String::as_str).collect(),
    };
    let (mut tested, mut failed) = (Vec::new(), None);
    for (at, plan) in asked.iter().enumerate() {
        if args.findings {
            terminal::message(&format!("{plan}: {} of {}", at + 1, asked.len()));
        }
        match test(run, plan) {
            Ok(of) => tested.extend(of),
            // What the others gave is reported all the same.
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        }
    }
    if !tested.is_empty() {
        args.run
            .output
            .write_by(&args.run.judging, |options, out| render(&tested, options, out))?;
    }
    failed.map_or_else(|| ended(&tested), Err)
}

/// Runs one plan, and tests what it expects.
fn test<'a>(args: &RunArgs, plan: &'a str) -> Result<Option<TestedPlan<'a>>, Failure> {
    let id = match run::measure(args, plan)? {
        Measured::Stored(id) => id,
        Measured::NotModelled(finding) => return Ok(Some(TestedPlan::not_run(plan, *finding))),
        Measured::Printed => return Ok(None),
    };
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    let head = args.db.plan(&id, &heads)?;
    let sides = judging::variants(head);
    let plans = judging::sampled(&store, &sides)?;
    let expectations = plans.iter().flat_map(|plan| &plan.plan.expectations).cloned();
    let expectations: Vec<_> = expectations.collect();
    let command = judging::again(&id, sides.len()) + &args.db.words();
    let mut question = args.judging.question(sides, command, false, &args.db);
    question.metrics = analysis::expected_metrics(&expectations);
    let analysis = judging::analyse(&store, &plans, question)?;
    let tested = analysis::test(&analysis, &expectations);
    let finding = plans.iter().find_map(|plan| plan.plan.finding.clone());
    Ok(Some(TestedPlan::new(plan, finding, tested, analysis)))
}

/// 1 where one fails, 3 where one is open.
fn ended(plans: &[TestedPlan]) -> Result<(), Failure> {
    let outcomes = || plans.iter().flat_map(|plan| &plan.tested).map(|tested| tested.outcome);
    let of = |outcome| outcomes().filter(|own| *own == outcome).count();
    let gaps = plans.iter().flat_map(TestedPlan::gaps);
    match (of(Outcome::Fails), of(Outcome::Open)) {
        (0, 0) if gaps.clone().next().is_none() => Ok(()),
        (0, 0) => Err(Failure::here(
            format!("all expectations hold of what was measured, {} was not", gaps.count()),
            "the report says what and why",
        )),
        (0, open) => Err(Failure::Here(Problem::new(
            format!("{open} of {} expectations are open", outcomes().count()),
            "the report says what more rounds would decide, and what was not measured",
        ))),
        (fails, _) => {
            Err(Failure::Regression(format!("{fails} of {} expectations fail", outcomes().count())))
        }
    }
}
