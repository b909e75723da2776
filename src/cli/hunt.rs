//! `schedlab hunt`: random scenarios in the lab, judged by the rules of [`crate::hunt`]. A case that breaks one is run
//! again, made smaller, explained and written as a plan.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;

use crate::hunt::{Case, Generator, Machine, Shrinker, Target, plan_text, size};
use crate::model::{clean, duration_ns};
use crate::session::{PlanText, Problem, SessionError, WatchRequest, WatchedRun, Watcher};
use crate::sys::replace::replace;

use super::hunt_run::{Broken, SEEDS, judge, make, print, trace};
use super::hunt_store::{Progress, store_case};
use super::text::{plural, quoted};
use super::{Failure, catch_termination, hunt_confirm, terminal};

/// Scenarios of one plan: so many are run before the time is looked at.
const BATCH: usize = 16;
/// Seeds with which each candidate of a smaller case is tried.
const TRY_SEEDS: u32 = 2;
/// A larger seed would not stay one when further ones are derived from it.
const MAX_SEED: i64 = 1 << 40;
/// The plans of scenarios that are not known to break a rule.
const TITLE: &str = "schedlab hunt";
const DEFAULT_KERNEL: &str = "debian:6.18";

#[derive(Args)]
pub struct HuntArgs {
    /// A kernel, as in plans [default: debian:6.18; with --confirm the plan's own]. Repeated: each scenario runs on each
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Under this sched_ext scheduler, as in plans: fifo, or ./my_sched
    #[arg(long, value_name = "SCHEDULER", conflicts_with = "confirm")]
    scx: Option<String>,
    /// No further scenarios begin after this time
    #[arg(long = "for", value_name = "TIME", default_value = "5min", value_parser = parse_time,
        conflicts_with = "confirm")]
    time: Duration,
    /// The scenarios are drawn from it
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(0..=MAX_SEED as u64),
        conflicts_with = "confirm")]
    seed: u64,
    /// Go on where the last hunt of the same kernel, scheduler, topology, seed and folder ended
    #[arg(long, conflicts_with = "confirm")]
    resume: bool,
    /// CPUs of the guests, and last-level caches that divide them
    #[arg(long, value_name = "CPUSxCACHES", default_value = "4x2", conflicts_with = "confirm")]
    topology: Machine,
    /// The folder for cases and pictures: hunt-1.toml, hunt-1.svg and so on [default: the current one; with --confirm
    /// the case's own]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Say on which kernels a case, or any plan, breaks a rule
    #[arg(long, value_name = "CASE")]
    confirm: Option<String>,
}

fn parse_time(text: &str) -> Result<Duration, Problem> {
    let ns = duration_ns(text).map_err(|why| Problem::new(why.message, why.hint))?;
    if ns == 0 {
        return Err(Problem::new("0 leaves no time for a scenario", "--for 5min"));
    }
    Ok(Duration::from_nanos(ns))
}

pub fn run(args: &HuntArgs) -> Result<(), Failure> {
    let stop = catch_termination()?;
    if let Some(case) = &args.confirm {
        return hunt_confirm::confirm(case, &args.kernel, args.output.as_deref(), &stop);
    }
    let mut names: Vec<&str> = args.kernel.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.push(DEFAULT_KERNEL);
    }
    let scx = args.scx.as_deref();
    let target = |kernel| Target { kernel, scx, machine: args.topology };
    let kernel = |name| HuntedKernel {
        target: target(name),
        watcher: Watcher::default(),
        runs: 0,
        failed: 0,
    };
    let kernels: Vec<HuntedKernel> = names.into_iter().map(kernel).collect();
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from("."));
    make(&output)?;
    let arguments = format!("{}, {}, seed {}", shown(&kernels), args.topology, args.seed);
    let progress = Progress::open(&output, arguments)?;
    let before = if args.resume { progress.done() } else { 0 };
    let generator = Generator::new(args.seed, before, args.topology);
    let mut hunt = Hunt {
        kernels,
        at: 0,
        progress,
        before,
        args,
        output,
        stop: &stop,
        generator: if scx.is_some() { generator.for_sched_ext() } else { generator },
        found: Vec::new(),
        counts: Counts::default(),
    };
    let ended = hunt.hunt();
    hunt.sum_up(ended)
}

#[derive(Default)]
struct Counts {
    scenarios: u64,
    /// Scenarios that broke a rule.
    broken: u64,
    /// Why the first run without a result has none.
    first_failure: Option<String>,
}

/// A case as it is written.
struct Found {
    rule: &'static str,
    case: Case,
}

struct HuntedKernel<'a> {
    target: Target<'a>,
    watcher: Watcher,
    /// Runs of scenarios, and those without a result.
    runs: u64,
    failed: u64,
}

impl HuntedKernel<'_> {
    /// Further scenarios would give no result, either.
    fn is_hopeless(&self) -> bool {
        self.runs > 0 && self.failed == self.runs
    }
}

/// `debian:6.12, debian:6.18`.
fn shown(kernels: &[HuntedKernel]) -> String {
    let names = kernels.iter().map(|kernel| kernel.target.to_string());
    names.collect::<Vec<_>>().join(", ")
}

/// A scenario that breaks a rule on these kernels, by their positions.
struct Hit {
    case: usize,
    rule: &'static str,
    kernels: Vec<usize>,
}

struct Hunt<'a> {
    kernels: Vec<HuntedKernel<'a>>,
    /// The kernel that runs plans.
    at: usize,
    args: &'a HuntArgs,
    output: PathBuf,
    progress: Progress,
    /// Scenarios of the hunts that this one goes on with.
    before: u64,
    stop: &'a AtomicBool,
    generator: Generator,
    found: Vec<Found>,
    counts: Counts,
}

/// A case that holds, with what its first broken run shows.
struct Held {
    text: String,
    broken: Broken,
    /// The number of seeds with which it breaks the rule, and of those that it ran with.
    seeds: u32,
    ran: u32,
}

/// A case that was run alone.
struct Alone {
    held: Option<Held>,
    /// Runs that were judged.
    judged: u32,
}

impl Hunt<'_> {
    /// `false`: it was interrupted.
    fn hunt(&mut self) -> Result<bool, Failure> {
        let begun = Instant::now();
        for batch in 0.. {
            if self.stop.load(Relaxed) {
                return Ok(false);
            }
            let is_over = begun.elapsed() >= self.args.time || self.hopeless().is_some();
            if is_over && batch > 0 {
                break;
            }
            let cases: Vec<Case> = (0..BATCH).map(|_| self.generator.next_case()).collect();
            let mut broken = self.try_batch(&cases)?;
            // An interrupted batch is run again.
            if !self.stop.load(Relaxed) {
                self.progress.write(self.before + self.counts.scenarios)?;
            }
            let counts = &self.counts;
            terminal::message(&format!(
                "{}: {} broke a rule, {} found, {} s",
                plural(counts.scenarios, "scenario"),
                counts.broken,
                plural(self.found.len() as u64, "case"),
                begun.elapsed().as_secs()
            ));
            // The others of a batch are mostly the same fault: the smallest case of each rule and of the kernels that
            // break it will do.
            broken.sort_by_key(|hit| size(&cases[hit.case]));
            let mut pursued: Vec<(&str, Vec<usize>)> = Vec::new();
            for Hit { case, rule, kernels } in broken {
                let at = kernels[0];
                let fault = (rule, kernels);
                if !pursued.contains(&fault) && !self.stop.load(Relaxed) {
                    pursued.push(fault);
                    self.at = at;
                    self.pursue(&cases[case], rule)?;
                }
            }
        }
        Ok(!self.stop.load(Relaxed))
    }

    /// Runs new scenarios on each kernel; returns those that break a rule.
    fn try_batch(&mut self, cases: &[Case]) -> Result<Vec<Hit>, Failure> {
        let mut hits: Vec<Hit> = Vec::new();
        for at in 0..self.kernels.len() {
            self.at = at;
            for (case, rule) in self.run_batch(cases)? {
                match hits.iter_mut().find(|hit| hit.case == case && hit.rule == rule) {
                    Some(hit) => hit.kernels.push(at),
                    None => hits.push(Hit { case, rule, kernels: vec![at] }),
                }
            }
        }
        // An interrupted batch counts the scenarios that every kernel has run.
        let runs = self.kernels.iter().map(|kernel| kernel.runs);
        self.counts.scenarios = runs.min().unwrap_or(0);
        let broken = (0..cases.len()).filter(|at| hits.iter().any(|hit| hit.case == *at));
        self.counts.broken += broken.count() as u64;
        Ok(hits)
    }

    fn run_batch(&mut self, cases: &[Case]) -> Result<Vec<(usize, &'static str)>, Failure> {
        let text = plan_text(&self.target(), TITLE, cases, self.args.seed, 1);
        let mut all = Vec::new();
        self.watch(text, &mut |run| {
            all.push((run.cell.index as usize, judge(&run)));
        })?;
        let mut found = Vec::new();
        for (at, judged) in all {
            self.kernels[self.at].runs += 1;
            match judged {
                Ok((Some(broken), _)) => found.push((at, broken.rule.name())),
                Ok((None, distance)) => self.generator.came_near(&cases[at], distance),
                Err(reason) => {
                    self.kernels[self.at].failed += 1;
                    self.counts.first_failure.get_or_insert(reason);
                }
            }
        }
        Ok(found)
    }

    fn hopeless(&self) -> Option<&HuntedKernel<'_>> {
        self.kernels.iter().find(|kernel| kernel.is_hopeless())
    }

    fn target(&self) -> Target<'_> {
        self.kernels[self.at].target
    }

    fn watch(&mut self, text: String, on_run: &mut dyn FnMut(WatchedRun)) -> Result<(), Failure> {
        let text = PlanText { name: "schedlab hunt".to_string(), text };
        let request = WatchRequest { text, kernel: None, seeds: None, traced: false };
        let watcher = &mut self.kernels[self.at].watcher;
        Ok(watcher.watch(request, self.stop, on_run).map(drop)?)
    }

    /// Confirms a case, writes it, makes it smaller and writes that.
    fn pursue(&mut self, case: &Case, rule: &'static str) -> Result<(), Failure> {
        let Some(held) = self.alone(case, rule)?.held else { return Ok(()) };
        let path = self.output.join(self.file_name()?);
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
                if let Some(held) = self.alone(&case, rule)?.held {
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
        let (file, seed) = (path.display(), self.args.seed);
        store_case(
            held.text.clone(),
            format!("{file}, hunted with --seed {seed}: {}. It needs {case}", held.broken.text),
        )?;
        print(&self.report(&path, &held, &case)?)?;
        if !is_least {
            print("It was interrupted while it was made smaller.")?;
        }
        Ok(())
    }

    /// A paragraph about a case, with what its trace shows.
    fn report(&mut self, path: &Path, held: &Held, case: &Case) -> Result<String, Failure> {
        let rule = held.broken.rule.name();
        let stem = path.with_extension("");
        let name = stem.file_name().unwrap_or_default().to_string_lossy();
        let title = format!("{name}: {rule} on {}", self.target());
        let text = PlanText { name: "schedlab hunt".to_string(), text: held.text.clone() };
        let request = WatchRequest { text, kernel: None, seeds: None, traced: true };
        let watcher = &mut self.kernels[self.at].watcher;
        let traced = match trace(watcher, request, 1, rule, &stem, &title, self.stop)? {
            Some(traced) if traced.broken > 0 => {
                format!("It holds with and without tracing. {}", traced.about)
            }
            Some(_) => "It does not hold with tracing, so there is no picture".to_string(),
            None => "Tracing was interrupted".to_string(),
        };
        let (shown, machine) = (quoted(&path.to_string_lossy()), self.args.topology);
        let others = self.on_others(case, rule)?;
        Ok(format!(
            "{name}: {rule} on {}: {}. It holds with {} of {} seeds{others}. It needs {case}; on {} CPUs in {}. \
             {traced}. Repeat it: schedlab run {shown} --backend lab; judge it: schedlab hunt --confirm {shown} \
             --kernel {}",
            self.target(),
            held.broken.text,
            held.seeds,
            held.ran,
            machine.cpus,
            plural(u64::from(machine.llcs), "last-level cache"),
            quoted(self.target().kernel),
        ))
    }

    /// `, on debian:6.12 with 0`: the seeds with which a case breaks the rule on the other kernels.
    fn on_others(&mut self, case: &Case, rule: &'static str) -> Result<String, Failure> {
        let (own, mut text) = (self.at, String::new());
        for at in (0..self.kernels.len()).filter(|at| *at != own) {
            self.at = at;
            let alone = self.alone(case, rule)?;
            let on = format!(", on {}", self.target());
            if self.stop.load(Relaxed) {
                break;
            }
            text += &match alone {
                Alone { judged: 0, .. } => format!("{on} no run has a result"),
                Alone { held, .. } => format!("{on} with {}", held.map_or(0, |held| held.seeds)),
            };
        }
        self.at = own;
        Ok(text)
    }

    /// A name that no file of the folder has.
    fn file_name(&self) -> Result<String, Failure> {
        let names = (1..).map(|number| format!("hunt-{number}.toml"));
        let mut free = names.filter(|name| !self.output.join(name).exists());
        free.next().ok_or_else(|| Failure::here("the folder is full of cases", "-o FOLDER"))
    }

    /// The candidates that break the rule with any seed, in their order.
    fn breaking(&mut self, cases: &[Case], rule: &str) -> Result<Vec<Case>, Failure> {
        let text = plan_text(&self.target(), TITLE, cases, self.args.seed, TRY_SEEDS);
        let mut breaks = vec![false; cases.len()];
        self.watch(text, &mut |run| {
            if let Ok((Some(broken), _)) = judge(&run) {
                breaks[run.cell.index as usize] |= broken.rule.name() == rule;
            }
        })?;
        let broken = cases.iter().zip(breaks).filter(|(_, breaks)| *breaks);
        Ok(broken.map(|(case, _)| case.clone()).collect())
    }

    /// Runs a case alone, as it is written: the plan with the first seed with which it breaks the rule.
    fn alone(&mut self, case: &Case, rule: &str) -> Result<Alone, Failure> {
        let target = self.kernels[self.at].target;
        let title = format!("{rule} on {target}");
        let text =
            |seed, seeds| plan_text(&target, &title, std::slice::from_ref(case), seed, seeds);
        let (mut first, mut seeds, mut judged) = (None::<(u64, Broken)>, 0, 0);
        self.watch(text(self.args.seed, SEEDS), &mut |run| {
            let judgement = judge(&run);
            judged += u32::from(judgement.is_ok());
            let Ok((Some(broken), _)) = judgement else { return };
            if broken.rule.name() == rule {
                seeds += 1;
                first.get_or_insert((run.plan.measure.seed_of(run.round), broken));
            }
        })?;
        let held = first.map(|(seed, broken)| {
            let text = text(seed, 1);
            Held { text, broken, seeds, ran: judged }
        });
        Ok(Alone { held, judged })
    }

    fn sum_up(&self, ended: Result<bool, Failure>) -> Result<(), Failure> {
        let counts = &self.counts;
        if let Some(reason) = &counts.first_failure {
            let failed = self.kernels.iter().map(|kernel| kernel.failed).sum();
            let failed = plural(failed, "run");
            terminal::message(&format!("{failed} gave no result; the first: {reason}"));
        }
        let found = self.found.len() as u64;
        let text = format!(
            "{} on {}, {} of which broke a rule: {} found",
            plural(counts.scenarios, "scenario"),
            shown(&self.kernels),
            counts.broken,
            plural(found, "case")
        );
        match ended {
            Ok(false) => {
                Err(SessionError::Interrupted(format!("interrupted; {text}").into()).into())
            }
            Err(failure) => Err(failure),
            Ok(true) if self.hopeless().is_some() => {
                let on = self.hopeless().map_or(String::new(), |own| format!(" on {}", own.target));
                let text = format!("no scenario gave a result{on}");
                Err(Failure::here(text, "schedlab doctor --lab"))
            }
            Ok(true) if found > 0 => Err(Failure::Regression(text)),
            Ok(true) => print(&text),
        }
    }
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
