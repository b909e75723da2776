//! Runs of a hunt: their judgement, and the files of one that is repeated with its trace.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::analysis::Timeline;
use crate::engine::HostNews;
use crate::hunt::{Judgement, Rule, Seen, describe, judgements, registry, timeline};
use crate::model::{Outcome, PlanEnd, Trace, clean, clean_path};
use crate::report::{score, timeline as picture, wrap};
use crate::session::{SessionError, WatchRequest, WatchedRun, Watcher};
use crate::sys::remedy;
use crate::sys::replace::replace;

use super::status_line::StatusLine;
use super::{Failure, host_news, terminal};

/// Seeds with which a case is confirmed.
pub const SEEDS: u32 = 4;
/// Runs with the trace on: it changes the course of each, so that fewer may break the rule. Cells share them.
const TRACE_RUNS: u32 = 8;

/// Interval between looks at the time while a plan runs.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs a plan with a flag that ends it: set as soon as `stop` is, and from a moment on.
pub fn until<T>(
    stop: &AtomicBool,
    moment: Option<Instant>,
    run: impl FnOnce(&AtomicBool) -> T,
) -> T {
    let Some(moment) = moment else { return run(stop) };
    let is_over = AtomicBool::new(false);
    // A plan that ends, also by a panic, drops its end of the channel.
    let (plan, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if stop.load(Relaxed) || Instant::now() >= moment {
                    is_over.store(true, Relaxed);
                }
            }
        });
        let _plan = plan;
        run(is_over)
    })
}

/// Runs something, and does another thing once as soon as `flag` is set.
pub fn act_once_set<T>(
    flag: &AtomicBool,
    then: impl FnOnce() + Send,
    run: impl FnOnce() -> T,
) -> T {
    let (running, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if flag.load(Relaxed) {
                    return then();
                }
            }
        });
        let _running = running;
        run()
    })
}

/// Runs plans of hunts, and says what is waited for.
pub fn watcher() -> Watcher {
    Watcher::new(|news, started| {
        if let HostNews::SlowBoot(_) = news {
            let text = host_news::describe(news, &started.cells);
            let kernel = clean(&started.plan.lab.kernel);
            StatusLine::new().lasting(&format!("{kernel}: {text}"));
        }
    })
}

/// A rule's judgement of a run.
pub struct Judged {
    pub rule: &'static dyn Rule,
    pub judgement: Judgement,
    /// In a sentence.
    pub text: String,
    /// The lab's own copy of the console of the guest, where the run failed.
    pub console: Option<PathBuf>,
    /// The part of the run that it is about.
    seen: Seen,
}

impl Judged {
    /// Copies its console, and names the copy: the lab removes its own.
    pub fn keep_console(&mut self, copy: &Path) -> Result<(), Failure> {
        let Some(console) = self.console.take() else { return Ok(()) };
        let old = console.display().to_string();
        let new = match fs::copy(&console, copy) {
            Ok(_) => copy.display().to_string(),
            // Another schedlab removed it; a console that is there is a larger case's.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                _ = fs::remove_file(copy);
                "removed meanwhile".to_string()
            }
            Err(error) => return Err(SessionError::unwritten(copy, &error).into()),
        };
        self.text = self.text.replace(&old, &new);
        Ok(())
    }
}

#[cfg(test)]
impl Judged {
    /// A judgement at a distance, of a run that nobody made.
    pub fn invented(distance: f64) -> Judged {
        let judgement = Judgement { distance, ..Judgement::default() };
        let seen = crate::hunt::seen(1, &[("a", "0", 1)], &[[0]]);
        Judged { rule: registry()[0], judgement, text: String::new(), console: None, seen }
    }
}

/// Distances by the names of rules: 1 and more breaks one.
pub type Distances = Vec<(&'static str, f64)>;

/// Judges a run by each rule that has something to say of it, the gravest first. `Err`: it gave no result, and no rule
/// is about that.
pub fn judge(run: &WatchedRun) -> Result<Vec<Judged>, String> {
    let measure = &run.plan.measure;
    let parts =
        Seen::parts(run.cell, run.plan.lab.cpus, measure.warmup_ns, run.windows, run.outcome);
    let judged = judgements(&parts).into_iter().map(|(rule, judgement, seen)| {
        let text = rule.explain(seen, &judgement);
        let console = run.console.map(Path::to_path_buf);
        Judged { rule, judgement, text, console, seen: seen.clone() }
    });
    let judged: Vec<Judged> = judged.collect();
    match run.outcome {
        Outcome::Failed { reason } | Outcome::Skipped { reason }
            if !judged.iter().any(|own| own.judgement.is_broken()) =>
        {
            Err(reason.clone())
        }
        _ => Ok(judged),
    }
}

/// The distance of a run from the bound of each rule that could judge it, the gravest first.
pub fn distances(run: &WatchedRun) -> Result<Distances, String> {
    let judged = judge(run)?;
    let is_done = matches!(run.outcome, Outcome::Done { .. });
    let distance = |rule: &&'static dyn Rule| {
        let own = judged.iter().find(|own| own.rule.name() == rule.name());
        let silent = (is_done && rule.silence_is_far()).then_some(0.0);
        Some((rule.name(), own.map(|own| own.judgement.distance).or(silent)?))
    };
    Ok(registry().iter().filter_map(distance).collect())
}

/// The gravest rule that a run breaks.
pub fn broken(judged: Vec<Judged>) -> Option<Judged> {
    judged.into_iter().find(|own| own.judgement.is_broken())
}

/// The faults that a hunt is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A run breaks the rule, and none that is graver.
    Broken(&'static str),
    /// Runs on one kernel come near the bound of the rule, and those on others do not.
    Differs(&'static str),
}

/// Added to the seed of a hunt.
const OTHER_SEEDS: u64 = 1_000_000;
/// Runs that come no nearer to a bound are not compared.
pub const NEAR: f64 = 0.4;

impl Fault {
    pub fn rule(self) -> &'static str {
        match self {
            Fault::Broken(rule) | Fault::Differs(rule) => rule,
        }
    }

    /// As the head of a case.
    pub fn title(self) -> String {
        match self {
            Fault::Broken(rule) => rule.to_string(),
            Fault::Differs(rule) => format!("a difference in {rule}"),
        }
    }

    /// The first of the seeds with which a case is run alone, as many each time as [`Fault::seeds`] says. Of many
    /// differences the clearest may be one by chance, so other seeds than those that chose it decide, too.
    pub fn first_seeds(self, seed: u64) -> Vec<u64> {
        match self {
            Fault::Broken(_) => vec![seed],
            Fault::Differs(_) => vec![seed, seed + OTHER_SEEDS],
        }
    }

    pub fn seeds(self) -> u32 {
        match self {
            Fault::Broken(_) => SEEDS,
            Fault::Differs(_) => 2 * SEEDS,
        }
    }

    /// The judgement that shows the fault, as far as one run can.
    pub fn shown(self, judged: Vec<Judged>) -> Option<Judged> {
        let is_own = |own: &Judged| own.rule.name() == self.rule();
        match self {
            Fault::Broken(_) => broken(judged).filter(is_own),
            Fault::Differs(_) => {
                judged.into_iter().find(|own| is_own(own) && own.judgement.distance >= NEAR)
            }
        }
    }
}

/// A file next to a case's plan. Its name may have dots.
pub fn file_of_case(stem: &Path, end: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
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
    /// Runs that show the fault.
    pub broken: u32,
    /// Why there is no picture, or what it shows and where it is.
    pub about: String,
}

/// Repeats a case of so many cells with the trace on. Files are named after `stem`, and `title` is of the picture. `None`: interrupted.
pub fn trace(
    watcher: &mut Watcher,
    request: WatchRequest,
    cells: u32,
    fault: Fault,
    stem: &Path,
    title: &str,
    stop: &AtomicBool,
) -> Result<Option<Traced>, Failure> {
    let seeds = (TRACE_RUNS / cells.max(1)).max(1);
    let request = WatchRequest { seeds: Some(seeds), traced: true, ..request };
    let (mut runs, mut all_broken) = (0, 0);
    // The run that breaks the rule most, of those with a trace if any has one.
    let mut worst: Option<(f64, Result<TracedRun, &'static str>)> = None;
    let end = watcher.watch(request, stop, &mut |run| {
        runs += 1;
        let Some(judged) = judge(&run).ok().and_then(|judged| fault.shown(judged)) else { return };
        all_broken += 1;
        let distance = judged.judgement.distance;
        let is_worse = worst.as_ref().is_none_or(|(most, of)| of.is_err() || distance > *most);
        if is_worse {
            let traced = traced_run(run.outcome, judged);
            if traced.is_ok() || worst.is_none() {
                worst = Some((distance, traced));
            }
        }
    })?;
    if end == PlanEnd::Interrupted {
        return Ok(None);
    }
    let about = match worst {
        Some((_, Ok(run))) => run.write(stem, title)?,
        Some((_, Err(why))) => format!("There is no picture: {why}"),
        None => "There is no picture".to_string(),
    };
    Ok(Some(Traced { runs, broken: all_broken, about }))
}

/// `Err`: why there is none.
fn traced_run(outcome: &Outcome, judged: Judged) -> Result<TracedRun, &'static str> {
    let Outcome::Done { result } = outcome else { return Err("the run has no result") };
    let trace = result.trace.clone();
    let trace = trace.ok_or("the run has no trace, which takes a kernel with BTF from 5.11 on")?;
    let Judged { text, judgement: Judgement { from_ns, to_ns, .. }, seen, .. } = judged;
    let timeline = timeline(&seen, &trace);
    // The trace ends with the run, and may begin later.
    let close_ns =
        (u64::midpoint(from_ns, to_ns) + timeline.length_ns).saturating_sub(seen.run_end_ns);
    Ok(TracedRun { text, timeline, trace, close_ns })
}

impl TracedRun {
    fn write(&self, stem: &Path, title: &str) -> Result<String, Failure> {
        let [svg, perfetto] = [".svg", ".pftrace"].map(|end| file_of_case(stem, end));
        let draw = |out: &mut dyn Write| {
            picture::write(title, &self.text, &self.timeline, self.close_ns, out)
        };
        replace(&svg, draw).map_err(|error| SessionError::unwritten(&svg, &error))?;
        replace(&perfetto, |out| score::perfetto(&self.trace, out))
            .map_err(|error| SessionError::unwritten(&perfetto, &error))?;
        let shown = describe(&self.timeline, &self.trace.domains);
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
        SessionError::unread(text, remedy::make(folder, &error), &error).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Reading, RunResult};

    #[test]
    fn what_follows_a_flag_happens_while_the_work_goes_on() {
        let (flag, (said, heard)) = (AtomicBool::new(false), mpsc::channel());
        let say = move || said.send(()).unwrap();
        let heard = act_once_set(&flag, say, || {
            flag.store(true, Relaxed);
            heard.recv_timeout(Duration::from_secs(60))
        });
        assert_eq!(heard, Ok(()));
        act_once_set(&AtomicBool::new(false), || panic!("the flag was not set"), || ());
    }

    #[test]
    fn a_plan_ends_at_its_moment_and_when_the_hunt_is_stopped() {
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        let wait = |is_over: &AtomicBool| {
            while !is_over.load(Relaxed) {
                thread::yield_now();
            }
        };
        let now = Instant::now();
        until(&go, Some(now), wait);
        until(&stop, Some(now + Duration::from_secs(3600)), wait);
        until(&stop, None, wait);
        let is_over = |is_over: &AtomicBool| is_over.load(Relaxed);
        assert!(!until(&go, Some(now + Duration::from_secs(3600)), is_over));
        let panic = std::panic::catch_unwind(|| until(&go, Some(now), |_| panic!("ends")));
        assert!(panic.is_err());
    }

    #[test]
    fn a_case_lacks_its_picture_for_one_reason() {
        let result = RunResult::new(1, Vec::new(), Reading::Unknown("invented".to_string()));
        let why = |outcome| traced_run(&outcome, Judged::invented(1.0)).err().unwrap_or_default();
        let no_trace = why(Outcome::Done { result: Box::new(result) });
        assert!(no_trace.contains("BTF") && !no_trace.contains("result"), "{no_trace}");
        assert_eq!(why(Outcome::Failed { reason: "Oops".to_string() }), "the run has no result");
    }
}
