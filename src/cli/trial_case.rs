//! `schedlab try --case`: whether a case of `schedlab hunt` holds on the base and on the patched kernel, and with
//! `--bisect` on each commit.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use crate::analysis::bisect::{CaseMark, Found, MAX_LOOKS};
use crate::model::{clean, quoted};
use crate::session::{PlanText, WatchRequest, Watcher};
use crate::stats::Count;

use super::hunt_confirm::{JudgedRuns, load_case, no_result};
use super::hunt_run::watcher;
use super::trial::{self, Asked, TryArgs};
use super::{Failure, catch_termination, kernel_build, table, terminal};

/// Runs of each kernel at the first look, unless `--seeds` says otherwise.
pub const SEEDS: u32 = 8;
const MAX_SEEDS: u32 = 1000;

/// A case and what measures it.
pub struct CaseRuns<'a> {
    args: &'a TryArgs,
    text: PlanText,
    stop: &'a AtomicBool,
    watcher: Watcher,
    /// The rule that the case breaks, once it is known.
    rule: Option<&'static str>,
}

/// The runs of a case on two kernels.
pub struct Ends {
    pub mark: CaseMark,
    /// The answer of the last look; `None`: no run holds.
    differs: Option<Found>,
    /// The runs of each kernel, in a sentence.
    shown: [String; 2],
}

/// Seeds of the look of this number, from 1.
pub fn seeds(args: &TryArgs, look: u32) -> u32 {
    (args.seeds.unwrap_or(SEEDS) << (look - 1)).min(MAX_SEEDS)
}

impl<'a> CaseRuns<'a> {
    pub fn load(
        args: &'a TryArgs,
        case: &str,
        stop: &'a AtomicBool,
    ) -> Result<CaseRuns<'a>, Failure> {
        let text = load_case(case, true, &args.db)?;
        Ok(CaseRuns { args, text, stop, watcher: watcher(), rule: None })
    }

    fn measure(&mut self, kernel: &str, look: u32) -> Result<JudgedRuns, Failure> {
        let seeds = seeds(self.args, look);
        let lab = self.args.lab(Some(kernel.to_string()));
        let request =
            WatchRequest { text: self.text.clone(), lab, seeds: Some(seeds), traced: false };
        JudgedRuns::measure(&mut self.watcher, request, &mut |_| (), self.stop)
    }

    /// Measures two kernels, each with its name in messages, until they differ or neither has the case. Where both have
    /// it, the commit between them is still to be found, but a patch is answered.
    pub fn ends(&mut self, kernels: [(&str, &str); 2]) -> Result<Ends, Failure> {
        let mut look = 1;
        loop {
            let [good, bad] = kernels.map(|(_, kernel)| kernel);
            let runs = [self.measure(good, look)?, self.measure(bad, look)?];
            let rule = runs.iter().find_map(JudgedRuns::main_rule);
            self.rule = rule;
            let mut counts = [Count::default(); 2];
            for ((count, runs), (name, _)) in counts.iter_mut().zip(&runs).zip(kernels) {
                *count =
                    runs.count(rule.unwrap_or_default()).map_err(|why| no_result(name, &why))?;
            }
            let [good, bad] = counts;
            let mark = CaseMark { good, bad };
            let differs = rule.and_then(|_| mark.differs(look));
            let is_answered = self.args.bisect.is_none() && good.held > 0 && bad.held > 0;
            if rule.is_none() || is_answered || differs.is_some() {
                return Ok(Ends { mark, differs, shown: runs.map(|runs| runs.to_string()) });
            }
            look += 1;
            terminal::message(&format!("not decided; now {} seeds", seeds(self.args, look)));
        }
    }

    /// Whether a commit has the case as the good or as the bad end, and its runs in words.
    pub fn commit(&mut self, ends: &CaseMark, kernel: &str) -> Result<(Found, String), Failure> {
        let rule = self.rule.unwrap_or_default();
        let mut shown = String::new();
        for look in 1..=MAX_LOOKS {
            let count = match self.measure(kernel, look)?.count(rule) {
                Ok(count) => count,
                Err(why) => return Ok((Found::Skipped, format!("no result: {}", clean(&why)))),
            };
            shown = format!("{rule} in {}", runs_words(count));
            if let Some(found) = ends.answer(count, look) {
                return Ok((found, shown));
            }
        }
        Ok((Found::Skipped, shown))
    }

    /// The rule of the case, and how often it is broken on both ends.
    pub fn change(&self, ends: &CaseMark) -> String {
        let rule = self.rule.unwrap_or_default();
        format!("{rule} in {} on good, {} on bad", runs_words(ends.good), runs_words(ends.bad))
    }
}

pub fn run(args: &TryArgs, case: &str) -> Result<(), Failure> {
    let asked = Asked::from_args(args)?;
    let kernels = asked.kernels();
    let kernels = [kernels[0].as_str(), kernels[1].as_str()];
    let stop = &*catch_termination()?;
    // Errors are reported before the compiler runs.
    let mut runs = CaseRuns::load(args, case, stop)?;
    let built = asked.build(args, stop)?;
    let ends = runs.ends([(trial::BASE, kernels[0]), (trial::PATCHED, kernels[1])])?;
    let answer = ends.answer();
    let width = args.output.columns();
    let line = |text: String| write!(io::stdout(), "{}", table::wrapped(&clean(&text), width));
    line(format!("{case}: {}", trial::title(&asked, &built)))?;
    for note in trial::notes(&built) {
        line(note)?;
    }
    for (name, shown) in [trial::BASE, trial::PATCHED].iter().zip(&ends.shown) {
        line(format!("{name}: {shown}"))?;
    }
    line(answer.text())?;
    for (name, outcome) in &built {
        line(format!("{name} {}", kernel_build::sources_of(&outcome.built)))?;
    }
    // A line that can be pasted.
    let (case, [base, patched]) = (clean(&quoted(case)), kernels.map(quoted));
    let command = format!("schedlab hunt --confirm {case} --kernel {base} --kernel {patched}");
    writeln!(io::stdout(), "pictures: {command}")?;
    answer.ended(args.seeds.unwrap_or(SEEDS))
}

fn runs_words(Count { held, runs }: Count) -> String {
    format!("{held} of {runs} runs")
}

/// A case on a base and on a patched kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    Gone { error: f64 },
    New { error: f64 },
    Stays,
    Nowhere,
    Open,
}

impl Ends {
    fn answer(&self) -> Answer {
        let CaseMark { good, bad } = self.mark;
        let error = self.differs.and_then(Found::error);
        match (good.held > 0, bad.held > 0, error) {
            (false, false, _) => Answer::Nowhere,
            (true, true, _) => Answer::Stays,
            (_, _, None) => Answer::Open,
            (true, false, Some(error)) => Answer::Gone { error },
            (false, true, Some(error)) => Answer::New { error },
        }
    }

    /// The chance that the ends are alike. Fails where no commit between them brings or removes the case.
    pub fn chance_of_error(&self) -> Result<f64, Failure> {
        match self.differs.and_then(Found::error) {
            Some(error) => Ok(error),
            None => {
                let [good, bad] = &self.shown;
                let text = format!(
                    "the good and the bad revision do not differ in the case: {good}; {bad}"
                );
                Err(Failure::here(text, "more --seeds, or another case"))
            }
        }
    }

    /// The commit that a bisection finds.
    pub fn commit_words(&self) -> &'static str {
        if self.mark.is_above() {
            "first commit with the case"
        } else {
            "first commit without the case"
        }
    }
}

impl Answer {
    fn text(self) -> String {
        let sure = |error: f64| format!("chance of error {}", table::chance(error));
        match self {
            Answer::Gone { error } => format!("the case is gone: {}", sure(error)),
            Answer::New { error } => format!("the case is new: {}", sure(error)),
            Answer::Stays => "the case still holds".to_string(),
            Answer::Nowhere => "the case holds on neither".to_string(),
            Answer::Open => {
                "open: too few runs break the rule to decide between the kernels".to_string()
            }
        }
    }

    /// The exit codes of `test`.
    fn ended(self, seeds: u32) -> Result<(), Failure> {
        match self {
            Answer::Gone { .. } => Ok(()),
            Answer::New { .. } | Answer::Stays => Err(Failure::Regression(self.text())),
            Answer::Nowhere | Answer::Open => {
                let hint = format!("more trajectories: --seeds {}", (4 * seeds).min(MAX_SEEDS));
                Err(Failure::here(self.text(), hint))
            }
        }
    }
}
