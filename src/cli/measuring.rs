//! A plan that `run`, `test` or `try` measures, for people: how it goes on, and what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::analysis::{self, Analysis};
use crate::engine::{self, HostNews, Job};
use crate::model::{CpuClocks, Event, Judged, Plan, Work, clean, show_duration};
use crate::report;
use crate::report::numbers::counted;
use crate::session::{
    self, Database, Finished, Listener, Prepared, Purpose, Request, SessionError, few_samples,
    is_virtual,
};
use crate::{variant, workload};

use super::gate::Gate;
use super::live::Display;
use super::output::Output;
use super::{Failure, catch_termination, expecting, few_rounds, shards, table, terminal};

/// How a plan that runs is shown, and the files that it needs or writes.
pub struct Shown<'a> {
    pub quiet: bool,
    /// A line each round, not a view.
    pub plain: bool,
    /// The file that gets the events.
    pub events: Option<&'a Path>,
    /// A file that the report must not replace.
    pub needed: Option<&'a Path>,
    pub output: &'a Output,
    /// The lab's answer follows, so no report has to name it.
    pub and_lab: bool,
}

pub fn print_text(request: &Request) -> Result<(), Failure> {
    let plan = session::plan_text(request)?;
    // A run is refused in the same words. What another machine may have is not asked here.
    plan.check()?;
    Ok(write!(io::stdout().lock(), "{}", plan.text)?)
}

/// Runs a plan, and prints its report.
pub fn run(prepared: Prepared, shown: &Shown, gate: &Gate) -> Result<(), Failure> {
    let mut finished = measure(prepared, shown)?;
    if finished.is_part() {
        return end_part(finished);
    }
    let analyses = report(&finished, shown)?;
    finished.check()?;
    show_expected(&finished)?;
    gate.judge(&analyses)?;
    check_missing(&finished, shown)
}

/// Runs a plan without a report; returns its id.
pub fn run_silently(prepared: Prepared, shown: &Shown) -> Result<String, Failure> {
    let mut finished = measure(prepared, shown)?;
    finished.check()?;
    if finished.request.purpose != Purpose::Test {
        show_expected(&finished)?;
    }
    check_missing(&finished, shown)?;
    Ok(finished.started.id)
}

/// Fails where runs are missing that had to be there. Two instruments are compared though one lacks a variant, and a test
/// has its own words for it.
fn check_missing(finished: &Finished, shown: &Shown) -> Result<(), Failure> {
    if finished.request.purpose == Purpose::Run && !shown.and_lab {
        finished.check_variants()?;
    }
    Ok(finished.check_strict()?)
}

fn measure(prepared: Prepared, shown: &Shown) -> Result<Finished, Failure> {
    let cancel = catch_termination()?;
    let (judged, db) = (prepared.judged(), prepared.request.db.clone());
    let mut view =
        View { shown, cancel: cancel.clone(), judged, db, display: Display::None, events: None };
    let finished = session::execute(prepared, &cancel, &mut view)?;
    if finished.request.lab.mode.verify && finished.measured > 0 {
        let runs = counted(finished.measured, "run");
        terminal::message(&format!("verified: {runs}, each done twice, the same to the last bit"));
    }
    Ok(finished)
}

/// Prints the report, and writes the one that a file gets, where the usual one is printed, too.
fn report(finished: &Finished, shown: &Shown) -> Result<Vec<Analysis>, Failure> {
    let Finished { store, plan, request, .. } = finished;
    let (plans, judged) = (slice::from_ref(plan), &request.judged);
    let write = |output: &Output, is_wanted: bool| {
        let mut analyses = finished.analyses(output.explains(judged, plans))?;
        if shown.and_lab {
            let plans = analyses.iter_mut().flat_map(|analysis| &mut analysis.plans);
            plans.for_each(|plan| plan.in_lab_ns = None);
        }
        if is_wanted {
            output.write(judged, store, &mut analyses, plans).map(|()| analyses)
        } else {
            Ok(analyses)
        }
    };
    let text = shown.output.usual_report(plans);
    if text.is_some() {
        write(shown.output, true)?;
    }
    let output = text.as_ref().unwrap_or(shown.output);
    let analyses = match write(output, !shown.quiet || output.file().is_some()) {
        // The exit code is that of the measurement, whether or not all was read.
        Err(Failure::OutputClosed) => finished.analyses(output.explains(judged, plans))?,
        written => written?,
    };
    shown.output.say_file(!shown.quiet);
    Ok(analyses)
}

/// A part alone gives no answer: instructions stand in place of a report.
fn end_part(mut finished: Finished) -> Result<(), Failure> {
    finished.check()?;
    finished.check_strict()?;
    let joined = finished.join()?;
    let Finished { request, started, plan, .. } = &finished;
    let text = match joined {
        Some(joined) => Some(shards::describe(&joined, &request.db)),
        None => shards::describe_part(started, plan.runs.len(), &request.db),
    };
    match text.filter(|_| !request.quiet) {
        Some(text) => Ok(writeln!(io::stdout().lock(), "{text}")?),
        None => Ok(()),
    }
}

/// Shows in a line which of the plan's expectations hold.
fn show_expected(finished: &Finished) -> Result<(), Failure> {
    let Finished { request, plan, .. } = finished;
    if request.quiet || plan.plan.expectations.is_empty() {
        return Ok(());
    }
    let (tested, analysis) = finished.expectations()?;
    let command = request.db.command(&format!("test plan={}", plan.id));
    terminal::message(&format!("expectations: {}: {command}", expecting::counts(tested.iter())));
    let failing = report::expect::failing(&analysis, &tested);
    failing.iter().for_each(|line| terminal::message(&format!("fails: {line}")));
    Ok(())
}

/// Prints the planned cells and why some cannot run, each reason once.
pub fn dry_run(prepared: &Prepared, output: &Output) -> Result<(), Failure> {
    let Prepared { request, job, backend } = prepared;
    let started = &job.started;
    session::check_question(request, request.db.open_read_only().ok().as_ref(), started)?;
    let columns = output.columns();
    let mut out = io::stdout().lock();
    let (mut ok, mut skipped, mut not_run) = (Vec::new(), Vec::new(), BTreeSet::new());
    for cell in &started.cells {
        let place = cell.place();
        match engine::check(&**backend, cell, &started.environment.topology) {
            Ok(cell) => ok.push(match variant::without_effect(&cell).as_slice() {
                [] => format!("{place}: ok"),
                all => {
                    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                    format!("{place}: ok, but {}", all.join("; "))
                }
            }),
            Err(reason) => {
                not_run.insert(cell.index);
                skipped.push((reason, place));
            }
        }
    }
    let changes = started.plan.works.iter().filter_map(|work| Some((work, report::changes(work)?)));
    ok.extend(changes.map(|(work, changes)| format!("{}: {changes}", work.label())));
    let skipped = analysis::grouped(skipped).into_iter();
    ok.extend(skipped.map(|(why, places)| format!("skipped: {}: {why}", places.join(", "))));
    ok.extend(own_lengths(&started.plan));
    ok.extend(report::in_turns(&started.plan.measure, &started.plan.durations_ns()));
    if is_virtual(started)? {
        ok.extend(executed(&started.plan));
    }
    ok.extend(few_samples::find(started).iter().map(ToString::to_string));
    let power = session::power::power(started, &request.judged, &request.db);
    let few = few_rounds::describe(job, is_virtual(started)?, power.as_ref());
    ok.extend(few.or_else(|| power.as_ref().and_then(report::power::in_short)));
    for line in &ok {
        write!(out, "{}", table::wrapped(&clean(line), columns))?;
    }
    let all = few_rounds::all_runs(job, &not_run, is_virtual(started)?);
    write!(out, "{}", table::wrapped(&all, columns))?;
    Ok(prepared.check_cells()?)
}

/// `runs of web, mix have 5s, of batch 2s, of others 10s`; `None`: all are as long as `[measure]` says.
fn own_lengths(plan: &Plan) -> Option<String> {
    let usual_ns = plan.measure.duration_ns;
    let mut lengths: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for work in plan.works.iter().filter(|work| plan.duration_ns(work) != usual_ns) {
        let names = lengths.entry(plan.duration_ns(work)).or_default();
        if !names.contains(&work.name.as_str()) {
            names.push(&work.name);
        }
    }
    let own = lengths.iter().map(|(ns, names)| (names.join(", "), *ns));
    let others = plan.durations_ns().contains(&usual_ns).then(|| ("others".to_string(), usual_ns));
    let mut parts = own.chain(others).map(|(names, ns)| (names, show_duration(ns)));
    let (names, length) = parts.next().filter(|_| !lengths.is_empty())?;
    let rest = parts.map(|(names, length)| format!(", of {names} {length}")).collect::<String>();
    Some(format!("runs of {names} have {length}{rest}"))
}

/// Lines for work that the lab executes, though it can skip work that is given as a time.
fn executed(plan: &Plan) -> Vec<String> {
    let why = match plan.lab.clocks {
        CpuClocks::Shared => "since all CPUs share one clock",
        CpuClocks::Own => "by burn = \"executed\" in [lab]",
    };
    if plan.lab.executed {
        return vec![format!("all work is executed, {why}: some 300 times as slowly as skipped")];
    }
    let line = |work: &Work| {
        let counted = workload::executed(work);
        (!counted.is_empty()).then(|| {
            format!(
                "{}: the work of {} is an amount, so it is executed; given as a time it is skipped: schedlab help \
                 cookbook",
                work.label(),
                counted.join(", ")
            )
        })
    };
    plan.works.iter().filter_map(line).collect()
}

/// Shows a plan that runs, and writes its events.
struct View<'a> {
    shown: &'a Shown<'a>,
    cancel: Arc<AtomicBool>,
    judged: Judged,
    db: Database,
    display: Display,
    events: Option<EventFile>,
}

impl Listener for View<'_> {
    /// Says first which metrics and verdicts the plan cannot have.
    fn begin(&mut self, job: &Job) -> Result<(), SessionError> {
        let Shown { quiet, plain, events, needed, output, .. } = *self.shown;
        output.check_file(needed.into_iter().chain(events))?;
        self.events = events.map(EventFile::create).transpose()?;
        if !quiet {
            let few = few_samples::find(&job.started);
            few.iter().for_each(|few| terminal::message(&clean(&few.to_string())));
            let describe = |power: Option<&_>| {
                few_rounds::describe(job, is_virtual(&job.started).ok()?, power)
            };
            if describe(None).is_some() {
                let power = session::power::power(&job.started, &self.judged, &self.db);
                describe(power.as_ref()).iter().for_each(|few| terminal::message(few));
            }
        }
        self.display = Display::new(job, &self.cancel, quiet, plain);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), SessionError> {
        if let Some(events) = &mut self.events {
            events.write(event)?;
        }
        self.display.show(event);
        Ok(())
    }

    fn host(&mut self, news: &HostNews) {
        self.display.host(news);
    }

    fn wants_ratios(&self) -> bool {
        self.display.wants_answer()
    }

    fn ratios(&mut self, analysis: &Analysis, look: Option<u32>, took: Duration) {
        self.display.answer(analysis, look, took);
    }

    fn end(&mut self) {
        self.display = Display::None;
    }
}

/// The engine's events as lines of JSON, as they happen.
struct EventFile {
    file: File,
    path: PathBuf,
}

impl EventFile {
    fn create(path: &Path) -> Result<EventFile, SessionError> {
        let file = File::create_new(path).map_err(|error| SessionError::unwritten(path, &error))?;
        Ok(EventFile { file, path: path.to_path_buf() })
    }

    fn write(&mut self, event: &Event) -> Result<(), SessionError> {
        let line = serde_json::to_vec(event).map_err(io::Error::from);
        let written = line.and_then(|line| self.file.write_all(&[&line[..], b"\n"].concat()));
        written.map_err(|error| SessionError::unwritten(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::parsed;

    #[test]
    fn work_that_is_executed_though_it_need_not_be_is_said() {
        let lines = |lab: &str, work: &str| {
            executed(&parsed(&format!("schema = 1\n{lab}\n[[workload]]\nname = \"w\"\n{work}")))
        };
        assert_eq!(lines("", "use = \"spin\"\nwork = \"1ms\"").len(), 0);
        assert_eq!(lines("", "use = \"pipe\"").len(), 0, "its work is its messages");
        assert_eq!(lines("", "use = \"spin\"").len(), 1, "it spins for a number of operations");
        let amount = lines("", "use = \"burnwait\"\nqueue = [\"burn 60\", \"wait 1ms\"]");
        assert!(amount.len() == 1 && amount[0].starts_with("w: the work of "), "{amount:?}");
        let all = lines("[lab]\nburn = \"executed\"", "use = \"spin\"\nwork = \"1ms\"");
        assert!(all.len() == 1 && all[0].contains("by burn"), "{all:?}");
        let shared = lines("[lab]\nclocks = \"shared\"\nspeed = \"1ns\"", "use = \"pipe\"");
        assert!(shared.len() == 1 && shared[0].contains("share one clock"), "{shared:?}");
    }

    #[test]
    fn a_dry_run_says_how_long_runs_of_works_with_their_own_duration_are() {
        let lengths = |works: &[(&str, &str)]| {
            let works = works.iter().map(|(name, own)| {
                format!("[[workload]]\nname = \"{name}\"\nuse = \"spin\"\n{own}\n")
            });
            let text =
                format!("schema = 1\n[measure]\nduration = \"9s\"\n{}", works.collect::<String>());
            let mut plan = parsed(&text);
            let on_host = own_lengths(&plan);
            plan.has_lab_durations = true;
            [on_host, own_lengths(&plan)].map(Option::unwrap_or_default)
        };
        assert_eq!(lengths(&[("a", "")]), ["", ""]);
        let five = "duration = \"5s\"";
        assert_eq!(lengths(&[("a", five)]), ["runs of a have 5s"; 2]);
        let text = "runs of c have 2s, of a, b 5s, of others 9s";
        let all = [("a", five), ("b", five), ("c", "duration = \"2s\""), ("d", "")];
        assert_eq!(lengths(&all), [text; 2]);
        let in_lab = lengths(&[("a", "lab-duration = \"1s\"")]);
        assert_eq!(in_lab, ["", "runs of a have 1s"]);
    }
}
