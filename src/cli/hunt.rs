//! `schedlab hunt`: random scenarios in the lab, judged by the rules of [`crate::hunt`]. A case that breaks one is run
//! again, made smaller, explained and written as a plan.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;

use crate::hunt::{
    Case, Generator, Judgement, Machine, Rule, Seen, Shrinker, WINDOW_MS, broken, nearest,
    plan_text, registry, size,
};
use crate::model::{Outcome, PlanEnd, clean, clean_path, duration_ns, show_duration};
use crate::plan;
use crate::report::wrap;
use crate::session::{self, PlanText, Problem, SessionError, WatchedRun};
use crate::sys::remedy;
use crate::sys::replace::replace;

use super::text::{plural, quoted};
use super::{Failure, catch_termination, terminal};

/// Scenarios of one plan: so many are run before the time is looked at.
const BATCH: usize = 16;
/// Seeds with which a case is confirmed, and with which each candidate of a smaller one is tried.
const SEEDS: u32 = 4;
const TRY_SEEDS: u32 = 2;
/// A larger seed would not stay one when further ones are derived from it.
const MAX_SEED: i64 = 1 << 40;
const DEFAULT_KERNEL: &str = "debian:6.18";

#[derive(Args)]
pub struct HuntArgs {
    /// The kernel, as in plans [default: debian:6.18]. With --confirm it may be repeated [default: the plan's own]
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// No further scenarios begin after this time
    #[arg(long = "for", value_name = "TIME", default_value = "5min", value_parser = parse_time,
        conflicts_with = "confirm")]
    time: Duration,
    /// The scenarios are drawn from it
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(0..=MAX_SEED as u64),
        conflicts_with = "confirm")]
    seed: u64,
    /// CPUs of the guests, and last-level caches that divide them
    #[arg(long, value_name = "CPUSxCACHES", default_value = "4x2", conflicts_with = "confirm")]
    topology: Machine,
    /// The folder for the cases: hunt-1.toml and so on
    #[arg(short, long, value_name = "FOLDER", default_value = ".", conflicts_with = "confirm")]
    output: PathBuf,
    /// Say on which kernels a case, or any plan, breaks a rule
    #[arg(long, value_name = "CASE")]
    confirm: Option<String>,
}

fn parse_time(text: &str) -> Result<Duration, Problem> {
    let ns = duration_ns(text).map_err(|why| Problem::new(why.message, why.hint))?;
    Ok(Duration::from_nanos(ns))
}

pub fn run(args: &HuntArgs) -> Result<(), Failure> {
    let stop = catch_termination()?;
    if let Some(case) = &args.confirm {
        return confirm(case, &args.kernel, &stop);
    }
    let kernel = match args.kernel.as_slice() {
        [] => DEFAULT_KERNEL,
        [kernel] => kernel,
        _ => {
            let text = "a hunt has one kernel";
            let hint = "schedlab hunt --confirm hunt-1.toml --kernel A --kernel B";
            return Err(Failure::usage(text, hint));
        }
    };
    fs::create_dir_all(&args.output).map_err(|error| {
        let text = format!("cannot make {}: {error}", clean_path(&args.output));
        Failure::from(SessionError::unread(text, remedy::write(&args.output, &error), &error))
    })?;
    let mut hunt = Hunt {
        kernel,
        args,
        stop: &stop,
        generator: Generator::new(args.seed, args.topology),
        found: Vec::new(),
        counts: Counts::default(),
    };
    let ended = hunt.hunt();
    hunt.sum_up(ended)
}

/// A broken rule in a run.
struct Broken {
    rule: &'static dyn Rule,
    judgement: Judgement,
    /// In a sentence.
    text: String,
}

/// Judges a run. `Err`: it gave no result, and no rule is about that.
fn judge(run: &WatchedRun) -> Result<(Option<Broken>, f64), String> {
    let measure = &run.plan.measure;
    let seen = Seen::new(run.cell, run.plan.lab.cpus, measure.warmup_ns, run.windows, run.outcome);
    let found = broken(&seen).map(|(rule, judgement)| {
        let text = rule.explain(&seen, &judgement);
        Broken { rule, judgement, text }
    });
    match run.outcome {
        Outcome::Failed { reason } | Outcome::Skipped { reason } if found.is_none() => {
            Err(reason.clone())
        }
        _ => Ok((found, nearest(&seen))),
    }
}

#[derive(Default)]
struct Counts {
    scenarios: u64,
    /// Scenarios that broke a rule.
    broken: u64,
    /// Scenarios without a result, and why the first of them has none.
    failed: u64,
    first_failure: Option<String>,
}

/// A case as it is written.
struct Found {
    rule: &'static str,
    case: Case,
}

struct Hunt<'a> {
    kernel: &'a str,
    args: &'a HuntArgs,
    stop: &'a AtomicBool,
    generator: Generator,
    found: Vec<Found>,
    counts: Counts,
}

/// A case that holds, with what its first broken run shows.
struct Held {
    text: String,
    broken: Broken,
    /// The number of the [`SEEDS`] with which it breaks the rule.
    seeds: u32,
}

impl Hunt<'_> {
    /// `false`: it was interrupted.
    fn hunt(&mut self) -> Result<bool, Failure> {
        let begun = Instant::now();
        for batch in 0.. {
            if self.stop.load(Relaxed) {
                return Ok(false);
            }
            if begun.elapsed() >= self.args.time && batch > 0 {
                break;
            }
            let cases: Vec<Case> = (0..BATCH).map(|_| self.generator.next_case()).collect();
            let mut broken = self.try_batch(&cases)?;
            let counts = &self.counts;
            terminal::message(&format!(
                "{}: {} broke a rule, {} found, {} s",
                plural(counts.scenarios, "scenario"),
                counts.broken,
                plural(self.found.len() as u64, "case"),
                begun.elapsed().as_secs()
            ));
            // The smallest case of each rule alone: the others of a batch are mostly the same fault.
            broken.sort_by_key(|(at, _)| size(&cases[*at]));
            let mut rules: Vec<&str> = Vec::new();
            for (at, rule) in broken {
                if !rules.contains(&rule) && !self.stop.load(Relaxed) {
                    rules.push(rule);
                    self.pursue(&cases[at], rule)?;
                }
            }
        }
        Ok(!self.stop.load(Relaxed))
    }

    /// Runs new scenarios; returns those that break a rule.
    fn try_batch(&mut self, cases: &[Case]) -> Result<Vec<(usize, &'static str)>, Failure> {
        let text = plan_text(self.kernel, self.args.topology, cases, self.args.seed, 1);
        let mut all = Vec::new();
        watched(text, self.stop, &mut |run| {
            all.push((run.cell.index as usize, judge(&run)));
        })?;
        let mut found = Vec::new();
        for (at, judged) in all {
            self.counts.scenarios += 1;
            match judged {
                Ok((Some(broken), _)) => found.push((at, broken.rule.name())),
                Ok((None, distance)) => self.generator.came_near(&cases[at], distance),
                Err(reason) => {
                    self.counts.failed += 1;
                    self.counts.first_failure.get_or_insert(reason);
                }
            }
        }
        self.counts.broken += found.len() as u64;
        Ok(found)
    }

    /// Confirms a case, writes it, makes it smaller and writes that.
    fn pursue(&mut self, case: &Case, rule: &'static str) -> Result<(), Failure> {
        let Some(held) = self.confirmed(case, rule)? else { return Ok(()) };
        let path = self.args.output.join(self.file_name()?);
        write(&path, &held, case)?;
        let mut shrinker = Shrinker::new(case.clone());
        let mut least = (case.clone(), held);
        let mut is_least = false;
        while !self.stop.load(Relaxed) {
            let candidates = shrinker.candidates();
            if candidates.is_empty() {
                is_least = true;
                break;
            }
            for case in self.breaking(&candidates, rule)? {
                // In a plan of its own it may take another way.
                if let Some(held) = self.confirmed(&case, rule)? {
                    shrinker.take(case.clone());
                    least = (case, held);
                    break;
                }
            }
        }
        let (case, held) = least;
        if self.found.iter().any(|found| found.rule == rule && found.case == case) {
            return remove(&path);
        }
        write(&path, &held, &case)?;
        self.found.push(Found { rule, case: case.clone() });
        let shown = quoted(&path.to_string_lossy());
        let text = format!(
            "{}: {} on {}: {}. It holds with {} of {SEEDS} seeds. It needs {}; on {} CPUs in {}. Repeat it: \
             schedlab run {shown} --backend lab; judge it: schedlab hunt --confirm {shown} --kernel {}{}",
            path.file_name().unwrap_or_default().to_string_lossy(),
            held.broken.rule.name(),
            self.kernel,
            held.broken.text,
            held.seeds,
            case,
            self.args.topology.cpus,
            plural(u64::from(self.args.topology.llcs), "last-level cache"),
            quoted(self.kernel),
            if is_least { "" } else { ". It was interrupted while it was made smaller" },
        );
        print(&text)
    }

    /// A name that no file of the folder has.
    fn file_name(&self) -> Result<String, Failure> {
        let names = (1..).map(|number| format!("hunt-{number}.toml"));
        let mut free = names.filter(|name| !self.args.output.join(name).exists());
        free.next().ok_or_else(|| Failure::here("the folder is full of cases", "-o FOLDER"))
    }

    /// The candidates that break the rule with any seed, in their order.
    fn breaking(&self, cases: &[Case], rule: &str) -> Result<Vec<Case>, Failure> {
        let text = plan_text(self.kernel, self.args.topology, cases, self.args.seed, TRY_SEEDS);
        let mut breaks = vec![false; cases.len()];
        watched(text, self.stop, &mut |run| {
            if let Ok((Some(broken), _)) = judge(&run) {
                breaks[run.cell.index as usize] |= broken.rule.name() == rule;
            }
        })?;
        let broken = cases.iter().zip(breaks).filter(|(_, breaks)| *breaks);
        Ok(broken.map(|(case, _)| case.clone()).collect())
    }

    /// Runs a case alone, as it is written: the plan with the first seed with which it breaks the rule.
    fn confirmed(&self, case: &Case, rule: &str) -> Result<Option<Held>, Failure> {
        let text = |seed, seeds| {
            plan_text(self.kernel, self.args.topology, std::slice::from_ref(case), seed, seeds)
        };
        let (mut first, mut seeds) = (None::<(u64, Broken)>, 0);
        watched(text(self.args.seed, SEEDS), self.stop, &mut |run| {
            let Ok((Some(broken), _)) = judge(&run) else { return };
            if broken.rule.name() == rule {
                seeds += 1;
                first.get_or_insert((run.plan.measure.seed_of(run.round), broken));
            }
        })?;
        Ok(first.map(|(seed, broken)| Held { text: text(seed, 1), broken, seeds }))
    }

    fn sum_up(&self, ended: Result<bool, Failure>) -> Result<(), Failure> {
        let counts = &self.counts;
        if let Some(reason) = &counts.first_failure {
            let failed = plural(counts.failed, "scenario");
            terminal::message(&format!("{failed} gave no result; the first: {reason}"));
        }
        let found = self.found.len() as u64;
        let text = format!(
            "{} on {}, {} of which broke a rule: {} found",
            plural(counts.scenarios, "scenario"),
            self.kernel,
            counts.broken,
            plural(found, "case")
        );
        match ended {
            Ok(false) => Err(Failure::Interrupted(format!("interrupted; {text}").into())),
            Err(failure) => Err(failure),
            Ok(true) if counts.scenarios > 0 && counts.failed == counts.scenarios => {
                Err(Failure::here("no scenario gave a result", "schedlab doctor --lab"))
            }
            Ok(true) if found > 0 => Err(Failure::Regression(text)),
            Ok(true) => print(&text),
        }
    }
}

fn watched(
    text: String,
    stop: &AtomicBool,
    on_run: &mut dyn FnMut(WatchedRun),
) -> Result<(), Failure> {
    let text = PlanText { name: "schedlab hunt".to_string(), text };
    Ok(session::watch(text, None, None, stop, on_run).map(drop)?)
}

/// Writes the plan of a case with what it shows.
fn write(path: &Path, held: &Held, case: &Case) -> Result<(), Failure> {
    let (name, text) = (held.broken.rule.name(), clean(&held.broken.text));
    let head = format!("# {name}: {text}\n# {case}\n");
    replace(path, |out| out.write_all((head + &held.text).as_bytes()))
        .map_err(|error| SessionError::unwritten(path, &error).into())
}

fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| SessionError::unwritten(path, &error).into())
}

fn print(text: &str) -> Result<(), Failure> {
    let lines = wrap(&clean(text), terminal::width()).join("\n");
    Ok(writeln!(io::stdout().lock(), "{lines}")?)
}

/// Fails where the rules could not judge a plan, or would judge another kernel than the one they name.
fn check_case(text: &PlanText, kernels: &[String]) -> Result<(), Failure> {
    let plan =
        plan::parse(&text.name, &text.text, None, session::known()).map_err(Failure::Plan)?;
    let window_ms = u64::from(WINDOW_MS);
    if plan.measure.window_ns != window_ms * 1_000_000 {
        let window = show_duration(plan.measure.window_ns);
        return Err(Failure::usage(
            format!(
                "the rules read windows of {window_ms}ms, and the plan has windows of {window}"
            ),
            format!("window = \"{window_ms}ms\" under [measure]"),
        ));
    }
    if plan.measure.turns_ns.is_some() {
        let text = "turns divide a window among variants, and the rules read whole windows";
        return Err(Failure::usage(text, "leave `turns` out of the plan"));
    }
    let named = plan.variants.iter().find(|variant| variant.knobs.contains_key("kernel"));
    if let Some(variant) = named.filter(|_| !kernels.is_empty()) {
        let text = format!(
            "variant `{}` names a kernel, which --kernel does not replace",
            clean(&variant.name)
        );
        return Err(Failure::usage(text, "leave --kernel out, or the variant's kernel"));
    }
    Ok(())
}

/// Says for each kernel with how many seeds a plan breaks which rules.
fn confirm(case: &str, kernels: &[String], stop: &AtomicBool) -> Result<(), Failure> {
    let text = session::load(case)?;
    check_case(&text, kernels)?;
    let own = kernels.is_empty().then_some(None);
    let kernels: Vec<Option<&str>> =
        kernels.iter().map(|kernel| Some(kernel.as_str())).chain(own).collect();
    let mut holds = 0;
    for kernel in &kernels {
        let (mut all, mut found, mut failed) = (0, Vec::new(), None);
        let end = session::watch(text.clone(), *kernel, Some(SEEDS), stop, &mut |run| {
            all += 1;
            match judge(&run) {
                Ok((broken, _)) => found.extend(broken),
                Err(reason) => _ = failed.get_or_insert(reason),
            }
        })?;
        if end == PlanEnd::Interrupted {
            return Err(Failure::Interrupted("interrupted; nothing is written".into()));
        }
        let kernel = kernel.unwrap_or("the plan's own kernel");
        if let Some(reason) = failed {
            let text = format!("{kernel}: a run gave no result: {}", clean(&reason));
            return Err(Failure::here(text, "schedlab doctor --lab"));
        }
        holds += u32::from(!found.is_empty());
        print(&format!("{kernel}: {}", outcome(&found, all)))?;
    }
    match holds {
        0 => Ok(()),
        _ => Err(Failure::Regression(format!(
            "a rule is broken on {holds} of {}",
            plural(kernels.len() as u64, "kernel")
        ))),
    }
}

/// `work conservation in 3 of 4 runs: for 1.8 s CPU 1 idles ...`.
fn outcome(found: &[Broken], runs: u32) -> String {
    let rules = registry().iter().filter_map(|rule| {
        let own: Vec<&Broken> =
            found.iter().filter(|broken| broken.rule.name() == rule.name()).collect();
        let worst = own
            .iter()
            .max_by(|left, right| left.judgement.distance.total_cmp(&right.judgement.distance))?;
        Some(format!("{} in {} of {runs} runs: {}", rule.name(), own.len(), worst.text))
    });
    let rules: Vec<String> = rules.collect();
    if rules.is_empty() {
        format!("no rule is broken in {}", plural(u64::from(runs), "run"))
    } else {
        rules.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_the_rules_cannot_judge_is_refused() {
        let check = |window: &str, turns: &str, knob: &str, kernels: &[&str]| {
            let text = format!(
                "schema = 1\n[measure]\nduration = \"2s\"\nwindow = \"{window}\"\n{turns}\n\
                 [[variant]]\nname = \"a\"\n{knob}\n[[workload]]\nuse = \"spin\"\n"
            );
            let text = PlanText { name: "case.toml".to_string(), text };
            let kernels: Vec<String> = kernels.iter().map(|kernel| kernel.to_string()).collect();
            check_case(&text, &kernels).map_err(|failure| failure.to_string())
        };
        let kernel = "kernel = \"debian:6.12\"";
        assert!(check("100ms", "", "", &["debian:6.18"]).is_ok());
        assert!(check("100ms", "", kernel, &[]).is_ok());
        for (window, turns, knob, expected) in [
            ("1s", "", "", "windows of 1s"),
            ("100ms", "turns = \"100ms\"", "", "turns"),
            ("100ms", "", kernel, "variant `a` names a kernel"),
        ] {
            let error = check(window, turns, knob, &["debian:6.18"]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
