//! `schedlab test`: runs plans, and says of each thing that they expect whether it holds.

use std::path::Path;

use clap::{Arg, Args};

use crate::analysis::Outcome;
use crate::report::expect::{self, TestedPlan};

use super::Failure;
use super::exit_code::Problem;
use super::findings;
use super::names::UnknownName;
use super::run::{self, Measured, RunArgs, Tested};
use super::text::quoted;
use super::{expecting, terminal};
use crate::model::clean;

#[derive(Args)]
#[command(mut_args(of_run))]
pub struct TestArgs {
    /// Built-in plans by name, plan files, or what is stored, selected as by `compare`: last, plan=ID,
    /// tag=NAME
    #[arg(
        required_unless_present_any = ["findings", "resume"],
        conflicts_with = "resume",
        value_name = "PLAN"
    )]
    plans: Vec<String>,
    /// Findings published about schedulers, in the lab: those of these names, or all; see
    /// `schedlab list findings`
    #[arg(long, conflicts_with = "resume")]
    findings: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// An option of `run` as it is here, where the plan is not an argument of it.
fn of_run(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "plan" => arg.long("one-plan").hide(true),
        "format" => arg.help("In place of text: junit or json"),
        "output" => arg.help("Write the results to this file, in the format that its ending says: results.xml, results.json"),
        "quiet" => arg.help("No progress"),
        "budget" => arg.help(
            "In place of each plan's budget: none of its rounds begins that would end after this time",
        ),
        id if run::NOT_OF_TEST.contains(&id) => arg.hide(true),
        _ => arg,
    }
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
    let named = match args.findings {
        true => findings.iter().map(|(name, _)| name.to_string()).collect(),
        false => named(&args.plans, run)?,
    };
    let mut asked: Vec<&str> = named.iter().map(String::as_str).collect();
    check(&asked, run)?;
    // Without a name it is what `--resume` goes on with.
    asked.extend(run.is_resumed().then_some("resumed"));
    let (mut tested, mut failed) = (Vec::new(), None);
    for (at, plan) in asked.iter().enumerate() {
        if asked.len() > 1 && !run.is_quiet() {
            terminal::message(&format!("{plan}: {} of {}", at + 1, asked.len()));
        }
        match test(run, plan) {
            Ok(of) => tested.extend(of),
            // The results of the others are reported all the same.
            Err(failure) => {
                // A run that the host ended is missing in one plan only.
                let goes_on = matches!(failure, Failure::Missing(_));
                if asked.len() > 1 {
                    tested.push(TestedPlan::not_tested(plan.to_string(), &reason(&failure)));
                    tested.extend(if goes_on { Vec::new() } else { not_begun(&asked[at + 1..]) });
                }
                failed = Some(failure);
                if !goes_on {
                    break;
                }
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

/// Those after the one that ended the test, and the command for them.
fn not_begun(plans: &[&str]) -> Vec<TestedPlan> {
    let names: Vec<String> = plans.iter().map(|plan| quoted(plan)).collect();
    if !names.is_empty() {
        let names = names.join(" ");
        terminal::message(&format!(
            "not begun: {names}; with the same options: schedlab test {names}"
        ));
    }
    let of =
        |plan: &&str| TestedPlan::not_tested(plan.to_string(), "the one before it ended the test");
    plans.iter().map(of).collect()
}

/// Why a plan was not tested, in a line.
fn reason(failure: &Failure) -> String {
    let text = failure.to_string();
    match failure {
        Failure::Interrupted(_) => "interrupted".to_string(),
        _ => text.trim_start_matches("error: ").lines().next().unwrap_or_default().to_string(),
    }
}

/// Fails where one of several plans cannot be tested, before the first of them runs.
fn check(plans: &[&str], args: &RunArgs) -> Result<(), Failure> {
    if plans.len() < 2 {
        return Ok(());
    }
    if let Some(option) = args.own_file() {
        let text = format!("{option} is a file of one plan, and there are {}", plans.len());
        return Err(Failure::usage(text, "test the plans one by one, or -o FILE for all of them"));
    }
    for plan in plans {
        match stored(args, plan)? {
            Some(_) => {}
            None => run::check_test(args, plan)?,
        }
    }
    Ok(())
}

/// Each stored plan that is selected by its own id, and all others as they are written.
fn named(plans: &[String], args: &RunArgs) -> Result<Vec<String>, Failure> {
    let mut named = Vec::new();
    for plan in plans {
        if run::is_stored(plan, &args.db) {
            let heads = args.db.open_read_only()?.plan_heads()?;
            let sides = args.db.select("", std::slice::from_ref(plan), &heads)?;
            named.extend(sides.iter().flat_map(|side| &side.plans).map(|id| format!("plan={id}")));
        } else {
            named.push(plan.clone());
        }
    }
    Ok(named)
}

/// The id that `plan=ID` names: what is stored of it is tested, and nothing runs.
fn stored(args: &RunArgs, plan: &str) -> Result<Option<String>, Failure> {
    if !run::is_stored(plan, &args.db) {
        return Ok(None);
    }
    if let Some(option) = args.asks_to_run() {
        let text = format!("{option}: `{}` is measured, and nothing runs", clean(plan));
        let again = args.db.command(&format!("run {plan}"));
        return Err(Failure::usage(text, format!("to run its text again: {again}")));
    }
    let store = args.db.open_read_only()?;
    Ok(Some(args.db.plan(plan, &store.plan_heads()?)?.id.clone()))
}

/// Runs one plan, unless it is stored, and tests what it expects.
fn test(args: &RunArgs, plan: &str) -> Result<Option<TestedPlan>, Failure> {
    let stored = stored(args, plan)?;
    let is_named = stored.is_none() && !args.is_resumed();
    let what = if args.is_resumed() { Tested::Stored } else { Tested::Plan(plan) };
    let id = match stored {
        None => match run::measure(args, what)? {
            Measured::Stored(id) => id,
            Measured::NotModelled(finding) => {
                return Ok(Some(TestedPlan::not_run(plan.to_string(), *finding)));
            }
            Measured::Printed => return Ok(None),
        },
        Some(stored) => stored,
    };
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    let head = args.db.plan(&id, &heads)?;
    let (tested, analysis) = expecting::tested(&store, head, &args.judging, &args.db)?;
    let finding = store.plan_started(&head.id)?.plan.finding;
    let name = match is_named {
        true => plan.to_string(),
        false => format!("{} ({})", head.title, head.id),
    };
    Ok(Some(TestedPlan::new(name, finding, tested, analysis)))
}

/// 1 where one fails, 3 where one is open.
fn ended(plans: &[TestedPlan]) -> Result<(), Failure> {
    let tested = || plans.iter().flat_map(|plan| &plan.tested);
    let of = |outcome| tested().filter(|own| own.outcome == outcome).count();
    let counts = || format!("expectations: {}", expecting::counts(tested()));
    let gaps = plans.iter().flat_map(TestedPlan::gaps);
    match (of(Outcome::Fails), of(Outcome::Open)) {
        (0, 0) if gaps.clone().next().is_none() => Ok(()),
        (0, 0) => Err(Failure::here(
            format!("all expectations hold of what was measured, {} was not", gaps.count()),
            "the report says what and why",
        )),
        (0, _) => Err(Failure::Here(Problem::new(
            counts(),
            "the report says what more rounds would decide, and what was not measured",
        ))),
        (_, _) => Err(Failure::Regression(counts())),
    }
}
