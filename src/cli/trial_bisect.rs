//! `schedlab try --bisect GOOD BAD`: the commit of a tree that changed a metric. Each step builds a
//! commit and measures it against the good one; every answer is kept, with its chance of error.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::analysis::{Analysis, Family};
use crate::backend::lab::kernel::Cache;
use crate::backend::lab::kernel::build::history::{self, Commit};
use crate::backend::lab::kernel::build::{Base, BuildError, Request, trial_name};
use crate::plan::{self, KernelVariant};
use crate::report::numbers::{Change, percent};
use crate::report::{clean, place, shortened};
use crate::stats::{self, Verdict};

use super::kernel_build;
use super::run;
use super::text::plural;
use super::trial::{self, TryArgs};
use super::{Failure, catch_termination, table, terminal};

const GOOD: &str = "good";
const BAD: &str = "bad";
const COMMIT: &str = "commit";
/// A step with a larger chance of error gets more seeds.
const MAX_ERROR: f64 = 0.005;
/// Of these the chance of error of a step is the sum.
const MAX_LOOKS: u32 = 3;
/// With a larger one after the last look a commit is skipped.
const MAX_ERROR_IN_THE_END: f64 = 0.1;
const DIGEST: usize = 12;
const TITLE_COLUMNS: usize = 100;

/// The metric that is not the same in good and bad commits.
struct Mark {
    work: String,
    /// The workload's name in the plan.
    workload: String,
    set: String,
    metric: String,
    /// With its place, for people.
    shown: String,
    /// Of the bad commit to the good one.
    change: String,
    /// Half of the way from good to bad, as a logarithm.
    threshold: f64,
    is_above: bool,
}

/// What became of a commit.
struct Answer {
    commit: Commit,
    change: String,
    found: Found,
}

#[derive(Clone, Copy)]
enum Found {
    Good { error: f64 },
    Bad { error: f64 },
    Skipped,
}

struct Bisection<'a> {
    args: &'a TryArgs,
    tree: &'a Path,
    name: String,
    text: String,
    seeds: u32,
    cache: Cache,
    stop: &'a AtomicBool,
    good: String,
}

pub fn run(args: &TryArgs, tree: &Path, ends: &[String]) -> Result<(), Failure> {
    let [good, bad] = ends else {
        return Err(Failure::usage("--bisect takes two revisions", "--bisect v6.12 HEAD"));
    };
    let stop = &*catch_termination()?;
    let (good, bad) = (history::commit(tree, good, stop)?, history::commit(tree, bad, stop)?);
    let left = history::left(tree, std::slice::from_ref(&good.id), &bad.id, &[], stop)?;
    if left.commits == 0 {
        let (good, bad) = (part(&good.id), part(&bad.id));
        let text = format!("no commit lies between {good} and {bad}");
        return Err(Failure::usage(text, "the good revision is the older one: --bisect GOOD BAD"));
    }
    let (name, text) = run::load(&args.plan)?;
    let seeds = args.seeds.map_or_else(|| plan::lab(&name, &text, None).map(|lab| lab.seeds), Ok);
    let seeds = seeds.map_err(Failure::Plan)?;
    let cache = Cache::open()?;
    let mut bisection =
        Bisection { args, tree, name, text, seeds, cache, stop, good: String::new() };
    bisection.good = bisection.kernel(&good.id)?.to_string();
    let name_of_bad = bisection.kernel(&bad.id)?.to_string();
    let analysis = bisection.measure(BAD, &name_of_bad, None, seeds)?;
    let mark = mark(&analysis)?;
    terminal::message(&format!("{}: {} {}", part(&bad.id), mark.shown, mark.change));
    let answers = bisection.halve(&mark, &good, &bad)?;
    report(args, &mark, [&good, &bad], &answers)
}

impl Bisection<'_> {
    /// Builds a commit; its name in the cache.
    fn kernel(&self, id: &str) -> Result<String, BuildOrFailure> {
        let base = Base::Tree { folder: self.tree.to_path_buf(), revision: Some(id.to_string()) };
        let wishes = self.args.build.wishes()?;
        let request = Request {
            name: trial_name(&base, &[], &wishes),
            base,
            patches: Vec::new(),
            wishes,
            jobs: self.args.build.jobs(),
            allow_unlike: self.args.build.allow_unlike,
            allow_undefined: false,
        };
        kernel_build::built(&self.cache, &request, self.stop).map_err(BuildOrFailure::Build)?;
        Ok(request.name.to_string())
    }

    /// A kernel against the good one, in one workload or in all.
    fn measure(
        &self,
        variant: &'static str,
        kernel: &str,
        workload: Option<&str>,
        seeds: u32,
    ) -> Result<Analysis, Failure> {
        let variant_of = |name, kernel: &str| KernelVariant {
            name,
            kernel: kernel.to_string(),
            kernel_args: None,
        };
        let kernels = [variant_of(GOOD, &self.good), variant_of(variant, kernel)];
        let text = plan::with_kernels(&self.text, &kernels, Some(seeds))?;
        let text = match workload {
            Some(workload) => plan::with_workload(&text, workload)?,
            None => text,
        };
        let id = trial::tried(self.args, &self.name, text).measure()?;
        let store = self.args.db.open_read_only()?;
        trial::against(self.args, &store, &id, [GOOD, variant])
    }

    fn halve(&self, mark: &Mark, good: &Commit, bad: &Commit) -> Result<Vec<Answer>, Failure> {
        let (mut goods, mut bad) = (vec![good.id.clone()], bad.id.clone());
        let (mut skipped, mut answers) = (Vec::new(), Vec::new());
        loop {
            let left = history::left(self.tree, &goods, &bad, &skipped, self.stop)?;
            let Some(next) = left.next else { return Ok(answers) };
            let commit = history::commit(self.tree, &next, self.stop)?;
            let many = plural(left.commits as u64, "commit");
            let title = shortened(&commit.title, TITLE_COLUMNS);
            terminal::message(&format!("{many} left; next {} {title}", part(&commit.id)));
            let answer = self.test(mark, commit)?;
            match answer.found {
                Found::Good { .. } => goods.push(next),
                Found::Bad { .. } => bad = next,
                Found::Skipped => skipped.push(next),
            }
            terminal::message(&format!(
                "{} {}: {}",
                word(answer.found),
                part(&answer.commit.id),
                answer.change
            ));
            answers.push(answer);
        }
    }

    fn test(&self, mark: &Mark, commit: Commit) -> Result<Answer, Failure> {
        let kernel = match self.kernel(&commit.id) {
            Ok(kernel) => kernel,
            Err(BuildOrFailure::Build(error)) if error.is_of_sources() => {
                let why = error.to_string();
                let change = why.lines().next().unwrap_or_default().to_string();
                return Ok(Answer { commit, change, found: Found::Skipped });
            }
            Err(other) => return Err(other.into()),
        };
        let mut seeds = self.seeds;
        for look in 1..=MAX_LOOKS {
            let measured = self.measure(COMMIT, &kernel, Some(&mark.workload), seeds);
            let analysis = match measured {
                // Fewer seeds than were asked for are no answer, and another boot may have them.
                Err(Failure::Missing(problem)) => {
                    let change = format!("not judged: {}", problem.message);
                    return Ok(Answer { commit, change, found: Found::Skipped });
                }
                measured => measured?,
            };
            let Some((change, is_above, error)) = seen(&analysis, mark) else {
                let change = "not measured: it does not boot, or its runs fail".to_string();
                return Ok(Answer { commit, change, found: Found::Skipped });
            };
            // Each look at the same seeds may be wrong.
            let error = (error * f64::from(MAX_LOOKS)).min(1.0);
            let is_last = look == MAX_LOOKS;
            if error <= MAX_ERROR || is_last && error <= MAX_ERROR_IN_THE_END {
                let found = match is_above == mark.is_above {
                    true => Found::Bad { error },
                    false => Found::Good { error },
                };
                return Ok(Answer { commit, change, found });
            }
            if is_last {
                return Ok(Answer { commit, change, found: Found::Skipped });
            }
            seeds *= 2;
        }
        unreachable!("the last look answers")
    }
}

/// Why a commit has no kernel.
enum BuildOrFailure {
    Build(BuildError),
    Other(Failure),
}

impl From<Failure> for BuildOrFailure {
    fn from(failure: Failure) -> Self {
        BuildOrFailure::Other(failure)
    }
}

impl From<BuildOrFailure> for Failure {
    fn from(why: BuildOrFailure) -> Self {
        match why {
            BuildOrFailure::Build(error) => error.into(),
            BuildOrFailure::Other(failure) => failure,
        }
    }
}

/// Logarithms of the ratios of one seed each.
fn ratios(analysis: &Analysis, row: &crate::analysis::Row) -> Option<(Vec<f64>, String)> {
    let [good, other] = [row.cells.first()?, row.cells.get(1)?];
    let pairs = stats::log_ratios(&good.values, &other.values)?;
    let change = analysis.ratio(row, 1).map(|ratio| Change::of(&ratio).with_interval())?;
    Some((pairs.into_iter().map(|(_, log)| log).collect(), change))
}

/// The metric whose change is the clearest, of those with a verdict BETTER or WORSE.
fn mark(analysis: &Analysis) -> Result<Mark, Failure> {
    let mut best: Option<(f64, f64, Mark)> = None;
    for (work, set, row) in analysis.rows_of(Family::Headline) {
        let verdict = row.cells.get(1).and_then(|cell| cell.judged).map(|judged| judged.verdict);
        if !matches!(verdict, Some(Verdict::Better | Verdict::Worse)) {
            continue;
        }
        let Some((logs, change)) = ratios(analysis, row) else { continue };
        let Some((is_above, error)) = stats::side_of(&logs, 0.0) else { continue };
        let size = stats::mean(&logs).unwrap_or(0.0);
        let is_clearer = best.as_ref().is_none_or(|(other, size_of_other, _)| {
            (error, -size.abs()) < (*other, -size_of_other.abs())
        });
        if is_clearer {
            let mark = Mark {
                work: work.label.clone(),
                workload: work.name.clone(),
                set: set.name.clone(),
                metric: row.kind.name.clone(),
                shown: format!("{} {}", place(work, set), clean(&row.kind.name)),
                change,
                threshold: size / 2.0,
                is_above,
            };
            best = Some((error, size, mark));
        }
    }
    best.map(|(.., mark)| mark).ok_or_else(|| {
        let text = "the good and the bad revision do not differ in what is judged";
        let hint =
            "more --seeds, a --plan with the load in question, or --metric with what differs";
        Failure::here(text, hint)
    })
}

/// The change, whether it is above half of the way from good to bad, and the chance of error.
fn seen(analysis: &Analysis, mark: &Mark) -> Option<(String, bool, f64)> {
    let mut rows = analysis.rows();
    let (.., row) = rows.find(|(work, set, row)| {
        work.label == mark.work && set.name == mark.set && row.kind.name == mark.metric
    })?;
    let (logs, change) = ratios(analysis, row)?;
    let (is_above, error) = stats::side_of(&logs, mark.threshold)?;
    Some((change, is_above, error))
}

fn word(found: Found) -> &'static str {
    match found {
        Found::Good { .. } => "good",
        Found::Bad { .. } => "bad",
        Found::Skipped => "skipped",
    }
}

fn part(id: &str) -> String {
    clean(id.get(..DIGEST).unwrap_or(id))
}

fn named(commit: &Commit) -> String {
    format!("{} {}", part(&commit.id), shortened(&commit.title, TITLE_COLUMNS))
}

/// Every step, and the first bad commit with how sure it is.
fn report(
    args: &TryArgs,
    mark: &Mark,
    [good, bad]: [&Commit; 2],
    answers: &[Answer],
) -> Result<(), Failure> {
    let width = args.output.columns();
    let mut out = io::stdout().lock();
    let head = format!("{} {} from good to bad:", mark.shown, mark.change);
    write!(out, "{}", table::wrapped(&head, width))?;
    for (is, commit) in [(GOOD, good), (BAD, bad)] {
        write!(out, "{}", table::wrapped(&format!("{is:5} {}", named(commit)), width))?;
    }
    let error_of = |found| match found {
        Found::Good { error } | Found::Bad { error } => Some(error),
        Found::Skipped => None,
    };
    let row = |answer: &Answer| {
        let error = error_of(answer.found).map_or("-".to_string(), chance);
        let change = shortened(&answer.change, TITLE_COLUMNS);
        let title = shortened(&answer.commit.title, TITLE_COLUMNS);
        vec![word(answer.found).to_string(), part(&answer.commit.id), change, error, title]
    };
    let rows: Vec<Vec<String>> = answers.iter().map(row).collect();
    if !rows.is_empty() {
        let header = ["is", "commit", "against good", "chance of error", "title"];
        let fixed = ["is", "commit", "chance of error"];
        write!(out, "\n{}\n", table::rows(&header, rows, &fixed, "title", width))?;
    }
    let last_bad = answers.iter().rfind(|answer| matches!(answer.found, Found::Bad { .. }));
    let first_bad = last_bad.map_or(bad, |answer| &answer.commit);
    let skipped = answers.iter().filter(|answer| matches!(answer.found, Found::Skipped)).count();
    let error: f64 = answers.iter().filter_map(|answer| error_of(answer.found)).sum();
    let found = format!("first bad commit: {}", named(first_bad));
    write!(out, "{}", table::wrapped(&found, width))?;
    let sure = format!("the chances of error of all steps add up to {}", chance(error));
    write!(out, "{}", table::wrapped(&sure, width))?;
    if skipped > 0 {
        let text = format!(
            "{} could not be decided: one of them may be the first bad one, if it lies before this one",
            plural(skipped as u64, "commit")
        );
        write!(out, "{}", table::wrapped(&text, width))?;
    }
    Ok(())
}

/// Of an error, as people read it.
fn chance(error: f64) -> String {
    match error {
        error if error < 1e-4 => "under 0.01 %".to_string(),
        error => percent(error),
    }
}
