//! `schedlab try --bisect GOOD BAD`: the commit of a tree that changed a metric. Each step builds a
//! commit and measures it against the good one; every answer is kept, with its chance of error.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::analysis::Analysis;
use crate::analysis::bisect::{self, Found, MAX_LOOKS, Mark};
use crate::backend::lab::kernel::Cache;
use crate::backend::lab::kernel::build::history::{self, Commit, Left};
use crate::backend::lab::kernel::build::{Base, BuildError, Request, trial_name};
use crate::model::Unit;
use crate::plan::{self, KernelVariant};
use crate::report::numbers::Change;
use crate::report::{clean, metric, shortened};
use crate::session::{self, PlanText, SessionError};
use crate::stats::Effect;

use super::trial::{self, TryArgs};
use super::trial_case::CaseRuns;
use super::{Failure, catch_termination, kernel_build, table, terminal};
use crate::report::numbers::counted;

pub const GOOD: &str = "good";
pub const BAD: &str = "bad";
const COMMIT: &str = "commit";
const DIGEST: usize = 12;
const TITLE_COLUMNS: usize = 100;

/// The result for a commit.
struct Answer {
    commit: Commit,
    change: String,
    found: Found,
}

/// The words of a report, and how sure its ends are.
struct Words<'a> {
    /// The difference of the ends.
    change: &'a str,
    /// The header of the column that has the change of each answer.
    column: &'static str,
    /// The commit that is looked for.
    commit: &'static str,
    /// The chance that the ends are alike, where it is part of the sum.
    ends_error: Option<f64>,
}

struct Bisection<'a> {
    args: &'a TryArgs,
    tree: &'a Path,
    cache: Cache,
    stop: &'a AtomicBool,
}

/// The answer for a kernel, in words too.
type Test<'t> = dyn FnMut(&str) -> Result<(Found, String), Failure> + 't;

pub fn run(args: &TryArgs, tree: &Path, ends: &[String]) -> Result<(), Failure> {
    let [good, bad] = ends else {
        return Err(Failure::usage("--bisect takes two revisions", "--bisect v6.12 HEAD"));
    };
    let stop = &*catch_termination()?;
    let (good, bad) = (history::commit(tree, good, stop)?, history::commit(tree, bad, stop)?);
    between(tree, &good, &bad, stop)?;
    let bisection = Bisection { args, tree, cache: Cache::open()?, stop };
    match &args.case {
        Some(case) => by_case(&bisection, case, [&good, &bad]),
        None => by_metric(&bisection, [&good, &bad]),
    }
}

/// The commits between both ends, of which there is one at least.
pub fn between(
    tree: &Path,
    good: &Commit,
    bad: &Commit,
    stop: &AtomicBool,
) -> Result<Left, Failure> {
    let left = history::left(tree, std::slice::from_ref(&good.id), &bad.id, &[], stop)?;
    if left.commits == 0 {
        let (good, bad) = (part(&good.id), part(&bad.id));
        let text = format!("no commit lies between {good} and {bad}");
        return Err(Failure::usage(text, "the good revision is the older one: --bisect GOOD BAD"));
    }
    Ok(left)
}

/// The commit that brought or removed a case.
fn by_case(bisection: &Bisection, case: &str, commits: [&Commit; 2]) -> Result<(), Failure> {
    let [good, bad] = commits;
    let mut runs = CaseRuns::load(bisection.args, case, bisection.stop)?;
    let kernels = [bisection.kernel(&good.id)??, bisection.kernel(&bad.id)??];
    let ends = runs.ends([(GOOD, &kernels[0]), (BAD, &kernels[1])])?;
    let ends_error = Some(ends.chance_of_error()?);
    let change = runs.change(&ends.mark);
    terminal::message(&change);
    let answers = bisection.halve(good, bad, &mut |kernel| runs.commit(&ends.mark, kernel))?;
    let words = Words {
        change: &change,
        column: "runs with the case",
        commit: ends.commit_words(),
        ends_error,
    };
    report(bisection.args, &words, commits, &answers)
}

/// The commit that changed the metric with the clearest change.
fn by_metric(bisection: &Bisection, commits: [&Commit; 2]) -> Result<(), Failure> {
    let ([good, bad], args) = (commits, bisection.args);
    let plan = session::load(&args.plan)?;
    plan.check()?;
    let seeds = match args.seeds {
        Some(seeds) => seeds,
        None => plan::lab(&plan.name, &plan.text, None)?.seeds,
    };
    let kernel = bisection.kernel(&good.id)??;
    let kernel_of_bad = bisection.kernel(&bad.id)??;
    let mut measured = Measured { args, plan, seeds, good: kernel, unit: Unit::Count };
    let analysis = measured.measure(BAD, &kernel_of_bad, None, seeds)?;
    let Some((mark, place, effect)) = bisect::clearest_change(&analysis) else {
        let text = "the good and the bad revision do not differ in what is judged";
        let hint =
            "more --seeds, a --plan with the load in question, or --metric with what differs";
        return Err(Failure::here(text, hint));
    };
    measured.unit = place.2.kind.unit;
    let change = format!("{} {}", metric(place), measured.change(&effect));
    terminal::message(&format!("{}: {change}", part(&bad.id)));
    let answers = bisection.halve(good, bad, &mut |kernel| measured.test(&mark, kernel))?;
    let words = Words {
        change: &format!("{change} from good to bad"),
        column: "against good",
        commit: "first bad commit",
        ends_error: None,
    };
    report(args, &words, commits, &answers)
}

impl Bisection<'_> {
    /// Builds a commit; its name in the cache, or why it has no kernel.
    fn kernel(&self, id: &str) -> Result<Result<String, BuildError>, Failure> {
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
        let built = kernel_build::built(&self.cache, &request, self.stop);
        Ok(built.map(|_| request.name.to_string()))
    }

    fn halve(&self, good: &Commit, bad: &Commit, test: &mut Test) -> Result<Vec<Answer>, Failure> {
        let (mut goods, mut bad) = (vec![good.id.clone()], bad.id.clone());
        let (mut skipped, mut answers) = (Vec::new(), Vec::new());
        loop {
            let left = history::left(self.tree, &goods, &bad, &skipped, self.stop)?;
            let Some(next) = left.next else { return Ok(answers) };
            let commit = history::commit(self.tree, &next, self.stop)?;
            let many = counted(left.commits, "commit");
            let title = shortened(&commit.title, TITLE_COLUMNS);
            terminal::message(&format!("{many} left; next {} {title}", part(&commit.id)));
            let answer = self.answer(commit, test)?;
            match answer.found {
                Found::Good { .. } => goods.push(next),
                Found::Bad { .. } => bad = next,
                Found::Skipped => skipped.push(next),
            }
            terminal::message(&format!(
                "{} {}: {}",
                answer.found.word(),
                part(&answer.commit.id),
                answer.change
            ));
            answers.push(answer);
        }
    }

    fn answer(&self, commit: Commit, test: &mut Test) -> Result<Answer, Failure> {
        let (found, change) = match self.kernel(&commit.id)? {
            Ok(kernel) => test(&kernel)?,
            Err(error) if error.is_of_sources() => {
                let why = error.to_string();
                (Found::Skipped, why.lines().next().unwrap_or_default().to_string())
            }
            Err(other) => return Err(other.into()),
        };
        Ok(Answer { commit, change, found })
    }
}

/// A plan with the good kernel and another one.
struct Measured<'a> {
    args: &'a TryArgs,
    plan: PlanText,
    seeds: u32,
    good: String,
    unit: Unit,
}

pub fn variant_of(name: &'static str, kernel: &str) -> KernelVariant {
    KernelVariant { name, kernel: kernel.to_string(), kernel_args: None }
}

impl Measured<'_> {
    /// A kernel against the good one, in one workload or in all.
    fn measure(
        &self,
        variant: &'static str,
        kernel: &str,
        workload: Option<&str>,
        seeds: u32,
    ) -> Result<Analysis, Failure> {
        let kernels = [variant_of(GOOD, &self.good), variant_of(variant, kernel)];
        let text = plan::with_kernels(&self.plan.text, &kernels, Some(seeds))?;
        let text = match workload {
            Some(workload) => plan::with_workload(&text, workload)?,
            None => text,
        };
        let request = self.args.request(PlanText { text, ..self.plan.clone() });
        let id = self.args.measure(request)?;
        let store = self.args.db.open_read_only()?;
        trial::against(self.args, &store, &id, [GOOD, variant])
    }

    /// The change of the metric that is looked for.
    fn change(&self, effect: &Effect) -> String {
        Change::from_effect(effect, self.unit).with_interval()
    }

    /// The answer for a kernel in the workload of the mark.
    fn test(&self, mark: &Mark, kernel: &str) -> Result<(Found, String), Failure> {
        let mut seeds = self.seeds;
        for look in 1..=MAX_LOOKS {
            let measured = self.measure(COMMIT, kernel, Some(&mark.workload), seeds);
            let analysis = match measured {
                // Fewer seeds than asked for do not answer, and another boot may have them.
                Err(Failure::Session(SessionError::Missing(problem))) => {
                    return Ok((Found::Skipped, format!("not judged: {}", problem.message)));
                }
                measured => measured?,
            };
            let side = match mark.side(&analysis) {
                Ok(side) => side,
                Err(why) => return Ok((Found::Skipped, why.to_string())),
            };
            if let Some(found) = mark.answer(&side, look) {
                return Ok((found, self.change(&side.effect)));
            }
            seeds *= 2;
        }
        unreachable!("the last look answers")
    }
}

fn part(id: &str) -> String {
    clean(id.get(..DIGEST).unwrap_or(id))
}

fn named(commit: &Commit) -> String {
    format!("{} {}", part(&commit.id), shortened(&commit.title, TITLE_COLUMNS))
}

/// Every step, and the commit that is looked for with how sure it is.
fn report(
    args: &TryArgs,
    words: &Words,
    [good, bad]: [&Commit; 2],
    answers: &[Answer],
) -> Result<(), Failure> {
    let width = args.output.columns();
    let mut out = io::stdout().lock();
    let head = format!("{}:", words.change);
    write!(out, "{}", table::wrapped(&head, width))?;
    for (is, commit) in [(GOOD, good), (BAD, bad)] {
        write!(out, "{}", table::wrapped(&format!("{is:5} {}", named(commit)), width))?;
    }
    let row = |answer: &Answer| {
        let error = answer.found.error().map_or("-".to_string(), table::chance);
        let change = shortened(&answer.change, TITLE_COLUMNS);
        let title = shortened(&answer.commit.title, TITLE_COLUMNS);
        vec![answer.found.word().to_string(), part(&answer.commit.id), change, error, title]
    };
    let rows: Vec<Vec<String>> = answers.iter().map(row).collect();
    if !rows.is_empty() {
        let header = ["is", "commit", words.column, "chance of error", "title"];
        let layout = table::Columns {
            fixed: &["is", "commit", "chance of error"],
            main: "title",
            spare: &["chance of error"],
        };
        write!(out, "\n{}\n", table::rows(&header, rows, &layout, width))?;
    }
    let last_bad = answers.iter().rfind(|answer| matches!(answer.found, Found::Bad { .. }));
    let first_bad = last_bad.map_or(bad, |answer| &answer.commit);
    let found: Vec<Found> = answers.iter().map(|answer| answer.found).collect();
    for line in words.lines(&named(first_bad), &found) {
        write!(out, "{}", table::wrapped(&line, width))?;
    }
    Ok(())
}

impl Words<'_> {
    /// The commit that was found, how sure it is, and which others it may be.
    fn lines(&self, commit: &str, answers: &[Found]) -> Vec<String> {
        let steps: f64 = answers.iter().filter_map(|found| found.error()).sum();
        let error = table::chance(steps + self.ends_error.unwrap_or_default());
        let of = if self.ends_error.is_some() { "the ends and of all steps" } else { "all steps" };
        let mut lines = vec![
            format!("{}: {commit}", self.commit),
            format!("the chances of error of {of} add up to {error}"),
        ];
        let skipped = answers.iter().filter(|found| matches!(found, Found::Skipped)).count();
        if skipped > 0 {
            let which = if skipped == 1 { "it" } else { "one of them" };
            lines.push(format!(
                "{} could not be decided: {which} may be the {}, if it lies before this one",
                counted(skipped as u64, "commit"),
                self.commit
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_adds_the_ends_of_a_case_and_names_the_commit_that_is_looked_for() {
        let found = [Found::Good { error: 0.001 }, Found::Skipped, Found::Bad { error: 0.002 }];
        let metric = Words { change: "", column: "", commit: "first bad commit", ends_error: None };
        let commit = "first commit without the case";
        let case = Words { commit, ends_error: Some(0.06), ..metric };
        assert_eq!(
            metric.lines("1a", &found)[1],
            "the chances of error of all steps add up to 0.3 %"
        );
        assert_eq!(
            case.lines("1a", &found),
            [
                "first commit without the case: 1a",
                "the chances of error of the ends and of all steps add up to 6.3 %",
                "1 commit could not be decided: it may be the first commit without the case, if it lies before this one",
            ]
        );
        assert_eq!(case.lines("1a", &found[..1]).len(), 2);
        let two = metric.lines("1a", &[Found::Skipped; 2]);
        assert!(two[2].contains(": one of them may be the first bad commit, if"), "{two:?}");
    }
}
