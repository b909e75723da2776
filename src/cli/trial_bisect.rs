//! `schedlab try --bisect GOOD BAD`: the commit of a tree that changed a metric. Each step builds a
//! commit and measures it against the good one; every answer is kept, with its chance of error.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::analysis::{Analysis, Family, Row};
use crate::backend::lab::kernel::Cache;
use crate::backend::lab::kernel::build::history::{self, Commit};
use crate::backend::lab::kernel::build::{Base, BuildError, Request, trial_name};
use crate::plan::{self, KernelVariant};
use crate::report::numbers::{Change, percent};
use crate::report::{clean, place, shortened};
use crate::stats::{self, Effect, NoEffect, Verdict};

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
/// The looks of a step; the chance of error of the step is their sum.
const MAX_LOOKS: u32 = 3;
/// A commit with a larger chance of error after the last look is skipped.
const MAX_ERROR_IN_THE_END: f64 = 0.1;
const NOT_MEASURED: &str = "not measured: it does not boot, or its runs fail";
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
    /// The change from the good commit to the bad one.
    change: String,
    /// Half of the way from good to bad, as a logarithm; `None` if good and bad have no ratio.
    half_log_ratio: Option<f64>,
    /// The same in the metric's unit, for commits without a ratio to good; `None` where it does
    /// not have the direction of the ratio.
    half_difference: Option<f64>,
    /// Whether bad commits lie above.
    is_above: bool,
}

/// A commit against the good one, on the scale of the comparison and as differences, by seed.
struct Compared {
    effect: Effect,
    /// `None` where a value has no logarithm: the comparison is one of differences.
    log_ratios: Option<Vec<f64>>,
    differences: Vec<f64>,
}

/// How a commit lies to the half of the way from good to bad.
#[derive(Debug, PartialEq)]
struct Seen {
    change: String,
    is_above: bool,
    /// The chance that it lies on the other side.
    error: f64,
}

/// The result for a commit.
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
                // Fewer seeds than asked for do not answer, and another boot may have them.
                Err(Failure::Missing(problem)) => {
                    let change = format!("not judged: {}", problem.message);
                    return Ok(Answer { commit, change, found: Found::Skipped });
                }
                measured => measured?,
            };
            let Seen { change, is_above, error } = match seen(&analysis, mark) {
                Ok(seen) => seen,
                Err(change) => return Ok(Answer { commit, change, found: Found::Skipped }),
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

fn compared(row: &Row) -> Result<Compared, NoEffect> {
    let [good, other] = [0, 1].map(|side| row.cells.get(side).map_or(&[][..], |cell| &cell.values));
    let effect = stats::paired_effect(good, other)?;
    let logs = stats::log_ratios(good, other);
    let log_ratios = logs.map(|logs| logs.into_iter().map(|(_, log)| log).collect());
    Ok(Compared { effect, log_ratios, differences: stats::differences(good, other) })
}

impl Compared {
    /// On the scale of the comparison.
    fn values(&self) -> &[f64] {
        self.log_ratios.as_ref().unwrap_or(&self.differences)
    }

    fn change(&self, row: &Row) -> String {
        Change::from_effect(&self.effect, row.kind.unit).with_interval()
    }
}

/// The metric whose change is the clearest, of those with a verdict BETTER or WORSE.
fn mark(analysis: &Analysis) -> Result<Mark, Failure> {
    let mut best: Option<(f64, f64, Mark)> = None;
    for (work, set, row) in analysis.rows_of(Family::Headline) {
        let verdict = row.cells.get(1).and_then(|cell| cell.judged).map(|judged| judged.verdict);
        if !matches!(verdict, Some(Verdict::Better | Verdict::Worse)) {
            continue;
        }
        let Ok(compared) = compared(row) else { continue };
        let Some((is_above, error)) = stats::side_of(compared.values(), 0.0) else { continue };
        let size = compared.effect.size();
        let is_clearer = best
            .as_ref()
            .is_none_or(|(other, size_of_other, _)| (error, -size) < (*other, -size_of_other));
        if is_clearer {
            let half = |values: &[f64]| stats::mean(values).map(|mean| mean / 2.0);
            let mark = Mark {
                work: work.label.clone(),
                workload: work.name.clone(),
                set: set.name.clone(),
                metric: row.kind.name.clone(),
                shown: format!("{} {}", place(work, set), clean(&row.kind.name)),
                change: compared.change(row),
                half_log_ratio: compared.log_ratios.as_deref().and_then(half),
                half_difference: half(&compared.differences)
                    .filter(|half| (*half > 0.0) == is_above),
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

/// An error says why a commit is not on either side.
fn seen(analysis: &Analysis, mark: &Mark) -> Result<Seen, String> {
    let mut rows = analysis.rows();
    let row = rows.find(|(work, set, row)| {
        work.label == mark.work && set.name == mark.set && row.kind.name == mark.metric
    });
    let (.., row) = row.ok_or(NOT_MEASURED)?;
    let compared = compared(row).map_err(|why| match why {
        NoEffect::NoPairs | NoEffect::NoRuns => not_measured(row),
        NoEffect::NotFinite { .. } => format!("not compared: {why}"),
    })?;
    let (values, half) = match (&compared.log_ratios, mark.half_log_ratio) {
        (Some(log_ratios), Some(half)) => (log_ratios, Some(half)),
        _ => (&compared.differences, mark.half_difference),
    };
    let half =
        half.ok_or("not compared: a value has no logarithm, and differences go the other way")?;
    let (is_above, error) =
        stats::side_of(values, half).ok_or("not compared: one seed alone has a value of both")?;
    Ok(Seen { change: compared.change(row), is_above, error })
}

/// With the reason that a run gave for having no value, if one did.
fn not_measured(row: &Row) -> String {
    let mut reasons = row.cells.iter().rev().flat_map(|cell| &cell.unknown);
    match reasons.next() {
        Some((_, reason)) => format!("not measured: {}", clean(reason)),
        None => NOT_MEASURED.to_string(),
    }
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
        let layout = table::Columns {
            fixed: &["is", "commit", "chance of error"],
            main: "title",
            spare: &["chance of error"],
        };
        write!(out, "\n{}\n", table::rows(&header, rows, &layout, width))?;
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

/// Formats the chance of an error for people.
fn chance(error: f64) -> String {
    match error {
        error if error < 1e-4 => "under 0.01 %".to_string(),
        error => percent(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::{analysed, lose, plan, run_of, unknown};
    use crate::model::SampledPlan;

    /// The metric `wakeup_p99` of the good and of another commit in ten seeds: by seed.
    fn measured(values: impl Fn(u32) -> [f64; 2]) -> SampledPlan {
        let mut plan = plan("p1", 1, &[GOOD, COMMIT]);
        for round in 0..10 {
            for (cell, value) in (0..).zip(values(round)) {
                run_of(&mut plan, round, cell, &[("wakeup_p99", value)]);
            }
        }
        plan
    }

    fn analysis(plan: SampledPlan) -> Analysis {
        analysed(&[plan], &[GOOD, COMMIT])
    }

    fn mark_of(values: impl Fn(u32) -> [f64; 2]) -> Mark {
        mark(&analysis(measured(values))).map_err(|failure| failure.to_string()).unwrap()
    }

    /// Whether a commit is bad, if that is known.
    fn is_bad(mark: &Mark, values: impl Fn(u32) -> [f64; 2]) -> Option<bool> {
        let seen = seen(&analysis(measured(values)), mark).unwrap();
        let is_sure = seen.error * f64::from(MAX_LOOKS) <= MAX_ERROR;
        is_sure.then_some(seen.is_above == mark.is_above)
    }

    /// Never more than one part in fifty.
    fn noise(seed: u32) -> f64 {
        1.0 + 0.005 * f64::from(seed * 7 % 5)
    }

    #[test]
    fn from_never_to_often_is_a_mark_and_commits_lie_on_either_side_of_its_half() {
        let mark = mark_of(|seed| [0.0, 800.0 * noise(seed)]);
        assert!(mark.is_above && mark.half_log_ratio.is_none());
        assert!(mark.half_difference.is_some_and(|half| (400.0..410.0).contains(&half)));
        assert_eq!(is_bad(&mark, |_| [0.0, 0.0]), Some(false));
        assert_eq!(is_bad(&mark, |seed| [0.0, 300.0 * noise(seed)]), Some(false));
        assert_eq!(is_bad(&mark, |seed| [0.0, 500.0 * noise(seed)]), Some(true));
        assert_eq!(is_bad(&mark, |seed| [0.0, 100.0 + 150.0 * f64::from(seed % 5)]), None);
        // More seeds than the mark had may have no 0 left.
        assert_eq!(is_bad(&mark, |seed| [1.0, 700.0 * noise(seed)]), Some(true));
        // From often to never.
        let mark = mark_of(|seed| [800.0 * noise(seed), 0.0]);
        assert!(!mark.is_above);
        assert_eq!(is_bad(&mark, |seed| [800.0 * noise(seed), 700.0]), Some(false));
        assert_eq!(is_bad(&mark, |seed| [800.0 * noise(seed), 100.0]), Some(true));
    }

    #[test]
    fn a_commit_with_a_zero_is_compared_with_a_ratio_by_its_differences() {
        let mark = mark_of(|seed| [100.0, 200.0 * noise(seed)]);
        assert!(mark.half_log_ratio.is_some());
        let with_zero = |value: f64| {
            move |seed: u32| match seed {
                3 => [100.0, 0.0],
                _ => [100.0, value * noise(seed)],
            }
        };
        assert_eq!(is_bad(&mark, with_zero(100.0)), Some(false));
        assert_eq!(is_bad(&mark, with_zero(400.0)), Some(true));
        // Half of the way is a factor where there are ratios: 141, not 150.
        assert_eq!(is_bad(&mark, |seed| [100.0, 145.0 * noise(seed)]), Some(true));
    }

    #[test]
    fn a_commit_that_cannot_be_compared_says_why() {
        let mark = mark_of(|seed| [100.0, 200.0 * noise(seed)]);
        let why = |plan| seen(&analysis(plan), &mark).unwrap_err();
        let infinite = measured(|seed| [100.0, if seed == 3 { f64::INFINITY } else { 100.0 }]);
        assert_eq!(why(infinite), "not compared: round 3 has inf");
        let good_alone = |other: fn(&mut SampledPlan, u32)| {
            let mut plan = plan("p1", 1, &[GOOD, COMMIT]);
            for round in 0..10 {
                run_of(&mut plan, round, 0, &[("wakeup_p99", 100.0)]);
                other(&mut plan, round);
            }
            plan
        };
        let lost = good_alone(|plan, round| lose(plan, round, 1, false, "it does not boot"));
        assert_eq!(why(lost), NOT_MEASURED);
        let few = good_alone(|plan, round| {
            run_of(plan, round, 1, &[]);
            unknown(plan, "wakeup_p99", "12 samples");
        });
        assert_eq!(why(few), "not measured: 12 samples");
    }
}
