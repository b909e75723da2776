//! `schedlab try --bisect GOOD BAD`: the commit of a tree that changed a metric. Each step builds a
//! commit and measures it against the good one; every answer is kept, with its chance of error.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::analysis::Analysis;
use crate::analysis::bisect::{self, Found, MAX_LOOKS, Mark};
use crate::backend::lab::kernel::Cache;
use crate::backend::lab::kernel::build::history::{self, Commit};
use crate::backend::lab::kernel::build::{Base, BuildError, Request, trial_name};
use crate::model::Unit;
use crate::plan::{self, KernelVariant};
use crate::report::numbers::{Change, percent};
use crate::report::{clean, metric, shortened};
use crate::session::{self, PlanText, SessionError};
use crate::stats::Effect;

use super::trial::{self, TryArgs};
use super::{Failure, catch_termination, kernel_build, table, terminal};
use crate::report::numbers::counted;

const GOOD: &str = "good";
const BAD: &str = "bad";
const COMMIT: &str = "commit";
const DIGEST: usize = 12;
const TITLE_COLUMNS: usize = 100;

/// The result for a commit.
struct Answer {
    commit: Commit,
    change: String,
    found: Found,
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
    unit: Unit,
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
    let PlanText { name, text, .. } = session::load(&args.plan)?;
    let seeds = match args.seeds {
        Some(seeds) => seeds,
        None => plan::lab(&name, &text, None)?.seeds,
    };
    let cache = Cache::open()?;
    let mut bisection = Bisection {
        args,
        tree,
        name,
        text,
        seeds,
        cache,
        stop,
        good: String::new(),
        unit: Unit::Count,
    };
    bisection.good = bisection.kernel(&good.id)??;
    let name_of_bad = bisection.kernel(&bad.id)??;
    let analysis = bisection.measure(BAD, &name_of_bad, None, seeds)?;
    let Some((mark, place, effect)) = bisect::clearest_change(&analysis) else {
        let text = "the good and the bad revision do not differ in what is judged";
        let hint =
            "more --seeds, a --plan with the load in question, or --metric with what differs";
        return Err(Failure::here(text, hint));
    };
    bisection.unit = place.2.kind.unit;
    let change = format!("{} {}", metric(place), bisection.change(&effect));
    terminal::message(&format!("{}: {change}", part(&bad.id)));
    let answers = bisection.halve(&mark, &good, &bad)?;
    report(args, &change, [&good, &bad], &answers)
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
        let request = self.args.request(PlanText::new(self.name.clone(), text));
        let id = self.args.measure(request)?;
        let store = self.args.db.open_read_only()?;
        trial::against(self.args, &store, &id, [GOOD, variant])
    }

    /// The change of the metric that is looked for.
    fn change(&self, effect: &Effect) -> String {
        Change::from_effect(effect, self.unit).with_interval()
    }

    fn halve(&self, mark: &Mark, good: &Commit, bad: &Commit) -> Result<Vec<Answer>, Failure> {
        let (mut goods, mut bad) = (vec![good.id.clone()], bad.id.clone());
        let (mut skipped, mut answers) = (Vec::new(), Vec::new());
        loop {
            let left = history::left(self.tree, &goods, &bad, &skipped, self.stop)?;
            let Some(next) = left.next else { return Ok(answers) };
            let commit = history::commit(self.tree, &next, self.stop)?;
            let many = counted(left.commits, "commit");
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
                answer.found.word(),
                part(&answer.commit.id),
                answer.change
            ));
            answers.push(answer);
        }
    }

    fn test(&self, mark: &Mark, commit: Commit) -> Result<Answer, Failure> {
        let kernel = match self.kernel(&commit.id)? {
            Ok(kernel) => kernel,
            Err(error) if error.is_of_sources() => {
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
                Err(Failure::Session(SessionError::Missing(problem))) => {
                    let change = format!("not judged: {}", problem.message);
                    return Ok(Answer { commit, change, found: Found::Skipped });
                }
                measured => measured?,
            };
            let side = match mark.side(&analysis) {
                Ok(side) => side,
                Err(why) => {
                    return Ok(Answer { commit, change: why.to_string(), found: Found::Skipped });
                }
            };
            if let Some(found) = mark.answer(&side, look) {
                return Ok(Answer { commit, change: self.change(&side.effect), found });
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

/// Every step, and the first bad commit with how sure it is.
fn report(
    args: &TryArgs,
    change: &str,
    [good, bad]: [&Commit; 2],
    answers: &[Answer],
) -> Result<(), Failure> {
    let width = args.output.columns();
    let mut out = io::stdout().lock();
    let head = format!("{change} from good to bad:");
    write!(out, "{}", table::wrapped(&head, width))?;
    for (is, commit) in [(GOOD, good), (BAD, bad)] {
        write!(out, "{}", table::wrapped(&format!("{is:5} {}", named(commit)), width))?;
    }
    let row = |answer: &Answer| {
        let error = answer.found.error().map_or("-".to_string(), chance);
        let change = shortened(&answer.change, TITLE_COLUMNS);
        let title = shortened(&answer.commit.title, TITLE_COLUMNS);
        vec![answer.found.word().to_string(), part(&answer.commit.id), change, error, title]
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
    let error: f64 = answers.iter().filter_map(|answer| answer.found.error()).sum();
    let found = format!("first bad commit: {}", named(first_bad));
    write!(out, "{}", table::wrapped(&found, width))?;
    let sure = format!("the chances of error of all steps add up to {}", chance(error));
    write!(out, "{}", table::wrapped(&sure, width))?;
    if skipped > 0 {
        let text = format!(
            "{} could not be decided: one of them may be the first bad one, if it lies before this one",
            counted(skipped, "commit")
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
