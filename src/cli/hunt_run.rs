//! Runs of a hunt: their judgement, and the files of one that is repeated with its trace.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::analysis::Timeline;
use crate::hunt::{Judgement, Rule, Seen, broken, describe, nearest, timeline};
use crate::model::{Outcome, PlanEnd, Trace, clean, clean_path};
use crate::report::{score, timeline as picture, wrap};
use crate::session::{SessionError, WatchRequest, WatchedRun, Watcher};
use crate::sys::remedy;
use crate::sys::replace::replace;

use super::{Failure, terminal};

/// Seeds with which a case is confirmed.
pub const SEEDS: u32 = 4;
/// Runs with the trace on: it changes the course of each, so that fewer may break the rule. Cells share them.
const TRACE_RUNS: u32 = 8;

/// A broken rule in a run.
pub struct Broken {
    pub rule: &'static dyn Rule,
    pub judgement: Judgement,
    /// In a sentence.
    pub text: String,
}

/// Judges a run, also by how near it came to a bound. `Err`: it gave no result, and no rule is about that.
pub fn judge(run: &WatchedRun) -> Result<(Option<Broken>, f64), String> {
    judged(run).map(|(found, nearest)| (found.map(|(broken, _)| broken), nearest))
}

/// A broken rule comes with the part of the run that breaks it.
fn judged(run: &WatchedRun) -> Result<(Option<(Broken, Seen)>, f64), String> {
    let measure = &run.plan.measure;
    let parts =
        Seen::parts(run.cell, run.plan.lab.cpus, measure.warmup_ns, run.windows, run.outcome);
    let nearest = nearest(&parts);
    let found = broken(&parts).map(|(rule, judgement, seen)| {
        let text = rule.explain(seen, &judgement);
        (Broken { rule, judgement, text }, seen.clone())
    });
    match run.outcome {
        Outcome::Failed { reason } | Outcome::Skipped { reason } if found.is_none() => {
            Err(reason.clone())
        }
        _ => Ok((found, nearest)),
    }
}

/// A run that breaks a rule, with its trace.
struct TracedRun {
    text: String,
    timeline: Timeline,
    trace: Box<Trace>,
    /// The middle of what broke the rule, in the timeline.
    close_ns: u64,
}

/// A case that was repeated with the trace on.
pub struct Traced {
    pub runs: u32,
    /// Runs that broke the rule.
    pub broken: u32,
    /// Why there is no picture, or what it shows and where it is.
    pub about: String,
}

/// Repeats a case of so many cells with the trace on. Files are named after `stem`, and `title` is of the picture. `None`: interrupted.
pub fn trace(
    watcher: &mut Watcher,
    request: WatchRequest,
    cells: u32,
    rule: &str,
    stem: &Path,
    title: &str,
    stop: &AtomicBool,
) -> Result<Option<Traced>, Failure> {
    let seeds = (TRACE_RUNS / cells.max(1)).max(1);
    let request = WatchRequest { seeds: Some(seeds), traced: true, ..request };
    let (mut runs, mut all_broken, mut first) = (0, 0, None::<TracedRun>);
    let end = watcher.watch(request, stop, &mut |run| {
        runs += 1;
        let Ok((Some((broken, seen)), _)) = judged(&run) else { return };
        if broken.rule.name() != rule {
            return;
        }
        all_broken += 1;
        if first.is_none() {
            first = traced_run(&run, broken, &seen);
        }
    })?;
    if end == PlanEnd::Interrupted {
        return Ok(None);
    }
    let about = match first {
        Some(run) => run.write(stem, title)?,
        None if all_broken > 0 => "There is no picture: the run has no trace, which needs a result, and a kernel with BTF \
                              from 5.11 on"
            .to_string(),
        None => "There is no picture".to_string(),
    };
    Ok(Some(Traced { runs, broken: all_broken, about }))
}

fn traced_run(run: &WatchedRun, broken: Broken, seen: &Seen) -> Option<TracedRun> {
    let Outcome::Done { result } = run.outcome else { return None };
    let trace = result.trace.clone()?;
    let timeline = timeline(seen, &trace);
    let Judgement { from_ns, to_ns, .. } = broken.judgement;
    // The trace ends with the run, and may begin later.
    let close_ns =
        (u64::midpoint(from_ns, to_ns) + timeline.length_ns).saturating_sub(seen.run_end_ns);
    Some(TracedRun { text: broken.text, timeline, trace, close_ns })
}

impl TracedRun {
    fn write(&self, stem: &Path, title: &str) -> Result<String, Failure> {
        let file = |extension: &str| {
            let mut name = stem.as_os_str().to_owned();
            name.push(extension);
            PathBuf::from(name)
        };
        let [svg, perfetto] = [".svg", ".pftrace"].map(file);
        let draw = |out: &mut dyn Write| {
            picture::write(title, &self.text, &self.timeline, self.close_ns, out)
        };
        replace(&svg, draw).map_err(|error| SessionError::unwritten(&svg, &error))?;
        replace(&perfetto, |out| score::perfetto(&self.trace, out))
            .map_err(|error| SessionError::unwritten(&perfetto, &error))?;
        let shown = describe(&self.timeline);
        let [svg, perfetto] = [&svg, &perfetto].map(|path| clean_path(path));
        Ok(format!("The trace shows: {shown}. Picture: {svg}; for ui.perfetto.dev: {perfetto}"))
    }
}

pub fn print(text: &str) -> Result<(), Failure> {
    let lines = wrap(&clean(text), terminal::width()).join("\n");
    Ok(writeln!(io::stdout().lock(), "{lines}")?)
}

pub fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| {
        let text = format!("cannot make {}: {error}", clean_path(folder));
        SessionError::unread(text, remedy::write(folder, &error), &error).into()
    })
}
