//! `schedlab test`: runs plans, and says of each thing that they expect whether it holds.

use std::path::{Path, PathBuf};

use clap::{Arg, Args};

use crate::analysis::Outcome;
use crate::model::{Finding, clean};
use crate::report::expect::{self, TestedPlan};

use crate::session::{
    self, PlanSource, Preparation, Purpose, Request, SessionError, expectations, is_stored,
};

use super::output::Output;
use super::run::{self, RunArgs};
use super::{Failure, expecting, findings, help, measuring, terminal};
use crate::model::quoted;

#[derive(Args)]
#[command(mut_args(for_test))]
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
    /// Also write a table of what holds to this file, as Markdown: for the page of a CI job
    #[arg(help_heading = help::OUTPUT, long, value_name = "FILE")]
    summary: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
}

/// An option of `run` as it is here, where the plan is not an argument of it.
fn for_test(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "plan" => arg.long("one-plan").hide(true),
        "format" => arg.help("In place of text: junit, json or markdown"),
        "output" => arg.help("Write the results to this file, in the format that its ending says: results.xml, results.json"),
        "quiet" => arg.help("No progress"),
        "budget" => arg.help(
            "In place of each plan's budget: none of its rounds begins that would end after this time, but the first is always made",
        ),
        // `run --print` is the one to know.
        "print" => arg.hide(true),
        id if run::NOT_OF_TEST.contains(&id) => arg.hide(true),
        _ => arg,
    }
}

pub fn run(args: &TestArgs) -> Result<(), Failure> {
    let render = args.run.output.other("format of test", expect::FORMATS)?;
    let summary = args.summary.as_deref().map(|file| Output::to_file("markdown", file));
    let plans = args.plans.iter().map(Path::new);
    args.run.output.check_file(plans.clone().chain(args.summary.as_deref()))?;
    summary.as_ref().map_or(Ok(()), |summary| summary.check_file(plans))?;
    let (findings, run) = if args.findings {
        (findings::named(&args.plans)?, &args.run.in_lab())
    } else {
        (Vec::new(), &args.run)
    };
    findings::check_kernels(&findings, run.backend())?;
    let named = if args.findings {
        findings.iter().map(|(name, _)| name.to_string()).collect()
    } else {
        named(&args.plans, run)?
    };
    let mut asked: Vec<&str> = named.iter().map(String::as_str).collect();
    check(&asked, run)?;
    // Without a name it is what `--resume` goes on with.
    asked.extend(run.resume.is_some().then_some("resumed"));
    let (mut tested, mut failed) = (Vec::new(), None);
    for (at, plan) in asked.iter().enumerate() {
        if asked.len() > 1 && !run.quiet {
            terminal::message(&format!("{plan}: {} of {}", at + 1, asked.len()));
        }
        match test(run, plan) {
            Ok(of) => tested.extend(of),
            // The results of the others are reported all the same.
            Err(failure) => {
                // A run that the host ended is missing in one plan only.
                let goes_on = matches!(failure, Failure::Session(SessionError::Missing(_)));
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
        let judged = args.run.judging.judged();
        args.run.output.write_by(&judged, |options, out| render(&tested, options, out))?;
        if let Some(summary) = &summary {
            summary.write_by(&judged, |options, out| expect::markdown(&tested, options, out))?;
        }
    }
    failed.map_or_else(|| ended(&tested), Err)
}

/// The plans after the one that ended the test, and the command for them.
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
        Failure::Session(SessionError::Interrupted(_)) => "interrupted".to_string(),
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
            None => check_new(args, plan)?,
        }
    }
    Ok(())
}

/// Each stored plan that is selected by its own id, and all others as they are written.
fn named(plans: &[String], args: &RunArgs) -> Result<Vec<String>, Failure> {
    let mut named = Vec::new();
    for plan in plans {
        if is_stored(plan, &args.db) {
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
    if !is_stored(plan, &args.db) {
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

/// Fails where a plan that is not stored cannot be tested; nothing runs.
fn check_new(args: &RunArgs, plan: &str) -> Result<(), Failure> {
    run::refuse_for_test(args)?;
    let request = args.request(PlanSource::Named(plan.to_string()), Purpose::Test);
    if args.prints_text() {
        return measuring::print_text(&request);
    }
    match session::prepare(Request { dry_run: true, find_programs: None, ..request })? {
        Preparation::Ready(of) if of.job.started.plan.expectations.is_empty() => {
            Err(expectations::nothing(&of.job.started.plan.title).into())
        }
        Preparation::Ready(of) => Ok(of.check_files()?),
        Preparation::Done(_) => Ok(()),
    }
}

/// A plan that is not stored yet came to this.
enum Measured {
    /// The id of the stored plan.
    Stored(String),
    /// A finding that virtual time cannot show: nothing was run.
    NotModelled(Box<Finding>),
    /// Its text or its cells, as was asked for.
    Printed,
}

/// Runs a plan without a report, if what it expects can be tested.
fn measure(args: &RunArgs, plan: PlanSource) -> Result<Measured, Failure> {
    run::refuse_for_test(args)?;
    let request = args.request(plan, Purpose::Test);
    if args.prints_text() {
        return measuring::print_text(&request).map(|()| Measured::Printed);
    }
    let prepared = match session::prepare(request)? {
        Preparation::Ready(prepared) => prepared,
        // A test has no parts.
        Preparation::Done(why) => return Err(SessionError::Here(why.into()).into()),
    };
    let plan = &prepared.job.started.plan;
    if let Some(finding) = plan.finding.as_ref().filter(|finding| finding.not_modelled.is_some()) {
        return Ok(Measured::NotModelled(Box::new(finding.clone())));
    }
    if plan.expectations.is_empty() {
        return Err(expectations::nothing(&plan.title).into());
    }
    if args.dry_run {
        return measuring::dry_run(&prepared, &args.output).map(|()| Measured::Printed);
    }
    measuring::run_silently(*prepared, &args.shown()).map(Measured::Stored)
}

/// Runs one plan, unless it is stored, and tests what it expects.
fn test(args: &RunArgs, plan: &str) -> Result<Option<TestedPlan>, Failure> {
    let stored = stored(args, plan)?;
    let is_named = stored.is_none() && args.resume.is_none();
    let source = match args.stored_source() {
        Some(stored) => stored,
        None => PlanSource::Named(plan.to_string()),
    };
    let id = match stored {
        None => match measure(args, source)? {
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
    let (tested, analysis) = expectations::test(&store, head, &args.judging.judged(), &args.db)?;
    let finding = store.plan_started(&head.id)?.plan.finding;
    let name = if is_named { plan.to_string() } else { format!("{} ({})", head.title, head.id) };
    Ok(Some(TestedPlan::new(name, finding, tested, analysis)))
}

/// 1 where one fails, 3 where one is open.
fn ended(plans: &[TestedPlan]) -> Result<(), Failure> {
    let tested = || plans.iter().flat_map(|plan| &plan.tested);
    let of = |outcome| tested().filter(|own| own.outcome == outcome).count();
    let counts = || format!("expectations: {}", expecting::counts(tested()));
    let mut gaps = plans.iter().flat_map(TestedPlan::gaps);
    match (of(Outcome::Fails), of(Outcome::Open)) {
        (0, 0) if gaps.next().is_none() => Ok(()),
        (0, 0) => Err(Failure::here(
            "all expectations hold of what was measured, and not all was",
            "the report says what is missing and why",
        )),
        (0, _) => Err(Failure::here(
            counts(),
            "the report says what more rounds would decide, and what was not measured",
        )),
        (_, _) => Err(Failure::Regression(counts())),
    }
}
