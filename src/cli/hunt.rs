//! `schedlab hunt`: random scenarios in the lab, judged by the rules of [`crate::hunt`]. A case that breaks one is run
//! again, made smaller, explained and written as a plan.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;

use crate::backend::lab::kernel;
use crate::hunt::{Case, Generator, Machine, Shrinker, Target, plan_text, size};
use crate::model::{clean, duration_ns};
use crate::report::numbers::moment;
use crate::session::{PlanText, Problem, SessionError, WatchRequest, WatchedRun, Watcher};
use crate::sys::clock;
use crate::sys::replace::replace;
use crate::variant::SCHEDULER_FORM;
use crate::variant::scx::{self, Scheduler};

use super::hunt_differ::{Compared, Hit, contrast, differing};
use super::hunt_run::{Distances, Fault, Judged, NEAR, distances, judge, make, print, trace};
use super::hunt_store::{Progress, store_case};
use super::{Failure, catch_termination, hunt_confirm, terminal};
use crate::model::quoted;
use crate::report::numbers::counted;

/// Scenarios of one plan: so many are run before the time is looked at.
const BATCH: usize = 16;
/// Seeds with which each candidate of a smaller case is tried.
const TRY_SEEDS: u32 = 2;
/// A larger seed would not stay one when further ones are derived from it.
const MAX_SEED: i64 = 1 << 40;
/// Cases of one fault of a batch that are run alone until one holds.
const MAX_TRIES: u32 = 3;
/// A smaller case holds with so many seeds, or with as many as the one that it is made of.
const MIN_SEEDS: u32 = 2;
/// How near to a bound a case is that has a fault in one run, and too seldom to hold.
const ALMOST: f64 = 0.99;
/// The plans of scenarios that are not known to break a rule.
const TITLE: &str = "schedlab hunt";
const DEFAULT_KERNEL: &str = "debian:6.18";

#[derive(Args)]
pub struct HuntArgs {
    /// A kernel, as in plans [default: debian:6.18; with --confirm the plan's own]. Repeated: what differs among them is
    /// pursued, also where no rule is broken
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
    /// CPUs of the guests, and last-level caches that divide them; with 2 NUMA nodes and cores of 2 CPUs as 8x4n2t2. Several
    /// take turns
    #[arg(
        long,
        value_name = "CPUSxCACHES",
        default_value = "4x2,6x3,8x2t2",
        value_delimiter = ',',
        conflicts_with = "confirm"
    )]
    topology: Vec<Machine>,
    /// The folder for cases and pictures: hunt-1.toml, hunt-1.svg and so on [default: the current one; with --confirm
    /// that of the plan's file]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Say on which kernels a case (schedlab list cases), or any plan, breaks a rule
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
    check_once(
        &names,
        "several kernels are compared",
        "--kernel debian:6.12 --kernel debian:6.18",
    )?;
    let topologies: Vec<String> = args.topology.iter().map(Machine::to_string).collect();
    check_once(&topologies, "topologies take turns", "--topology 4x2,6x3,8x2t2")?;
    let scx = args.scx.as_deref();
    scx.map_or(Ok(()), check_scheduler)?;
    let machines = &args.topology;
    let target = |kernel| Target { kernel, scx, machine: machines[0] };
    let kernel = |name| HuntedKernel {
        target: target(name),
        watchers: machines.iter().map(|_| Watcher::default()).collect(),
        runs: 0,
        failed: 0,
    };
    let kernels: Vec<HuntedKernel> = names.into_iter().map(kernel).collect();
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from("."));
    make(&output)?;
    let arguments = format!("{}, {}, seed {}", shown(&kernels), topologies.join(","), args.seed);
    let progress = Progress::open(&output, arguments)?;
    let before = if args.resume { progress.done() } else { 0 };
    if before > 0 {
        let scenarios = counted(before, "scenario");
        terminal::message(&format!("this goes on after {scenarios}, and draws others"));
    }
    let generator = |machine| {
        let generator = Generator::new(args.seed, before, machine);
        if scx.is_some() { generator.for_sched_ext() } else { generator }
    };
    let mut hunt = Hunt {
        kernels,
        at: 0,
        progress,
        before,
        args,
        output,
        stop: &stop,
        generators: machines.iter().copied().map(generator).collect(),
        found: Vec::new(),
        counts: Counts::default(),
    };
    let ended = hunt.hunt();
    hunt.sum_up(ended)
}

/// Runs of one kernel are the same to the last bit, so it does not differ from itself; a machine that is there twice has
/// no other turns.
fn check_once(names: &[impl AsRef<str>], why: &str, hint: &str) -> Result<(), Failure> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    let Some((_, name)) = twice else { return Ok(()) };
    Err(Failure::usage(format!("{why}, and `{}` is there twice", clean(name)), hint))
}

#[derive(Default)]
struct Counts {
    scenarios: u64,
    /// Scenarios that broke a rule, or that kernels differ in.
    hits: u64,
    /// Why the first run without a result has none.
    first_failure: Option<String>,
}

/// A case as it is written.
struct Found {
    fault: Fault,
    case: Case,
}

struct HuntedKernel<'a> {
    target: Target<'a>,
    /// One for each machine, in the order of the generators.
    watchers: Vec<Watcher>,
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
    /// Each for a machine. They take turns, and the first one's has its.
    generators: Vec<Generator>,
    found: Vec<Found>,
    counts: Counts,
}

/// A case that holds, with what its first run shows that has the fault.
struct Held {
    text: String,
    judged: Judged,
    /// The number of seeds with which it has the fault, and of those that it ran with.
    seeds: u32,
    ran: u32,
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
            if batch > 0 {
                self.take_next_machine();
            }
            let generator = &mut self.generators[0];
            let cases: Vec<Case> = (0..BATCH).map(|_| generator.next_case()).collect();
            let mut hits = self.try_batch(&cases)?;
            // An interrupted batch is run again.
            if !self.stop.load(Relaxed) {
                self.progress.write(self.before + self.counts.scenarios)?;
            }
            let counts = &self.counts;
            terminal::message(&format!(
                "{}: {}, {} found, {} s",
                counted(counts.scenarios, "scenario"),
                match self.compares() {
                    true => format!("kernels differ in {}", counts.hits),
                    false => format!("{} broke a rule", counts.hits),
                },
                counted(self.found.len() as u64, "case"),
                begun.elapsed().as_secs()
            ));
            hits.sort_by_key(|hit| size(&cases[hit.case]));
            self.pursue_hits(&cases, hits)?;
        }
        Ok(!self.stop.load(Relaxed))
    }

    /// Pursues the first case that holds of each fault and kernel: the others of a batch are
    /// mostly the same fault.
    fn pursue_hits(&mut self, cases: &[Case], hits: Vec<Hit>) -> Result<(), Failure> {
        let mut tries: HashMap<(Fault, usize), u32> = HashMap::new();
        for Hit { case, fault, at } in hits {
            let tried = tries.entry((fault, at)).or_default();
            if *tried >= MAX_TRIES || self.stop.load(Relaxed) {
                continue;
            }
            self.at = at;
            if self.pursue(&cases[case], fault)? {
                *tried = MAX_TRIES;
            } else {
                *tried += 1;
                self.generators[0].came_near(&cases[case], ALMOST);
            }
        }
        Ok(())
    }

    /// Runs new scenarios on each kernel; returns those that have a fault.
    fn try_batch(&mut self, cases: &[Case]) -> Result<Vec<Hit>, Failure> {
        let mut runs: Vec<Vec<Option<Distances>>> = Vec::new();
        for at in 0..self.kernels.len() {
            self.at = at;
            runs.push(self.run_batch(cases)?);
        }
        // An interrupted batch counts the scenarios that every kernel has run.
        let done = self.kernels.iter().map(|kernel| kernel.runs);
        self.counts.scenarios = done.min().unwrap_or(0);
        let mut hits = Vec::new();
        for (at, case) in cases.iter().enumerate() {
            let kernels = runs.iter_mut().map(|own| own[at].take()).collect();
            let compared = Compared { case: at, kernels };
            let (own, nearest) = match self.compares() {
                true => (compared.differing(), compared.nearest_difference()),
                false => (compared.broken(), compared.nearest()),
            };
            if own.is_empty() {
                self.generators[0].came_near(case, nearest);
            } else {
                self.counts.hits += 1;
            }
            hits.extend(own);
        }
        Ok(hits)
    }

    /// The distances of each case; `None`: its run gave no result.
    fn run_batch(&mut self, cases: &[Case]) -> Result<Vec<Option<Distances>>, Failure> {
        let text = plan_text(&self.target(), TITLE, cases, self.args.seed, 1);
        let mut all = Vec::new();
        self.watch(text, &mut |run| {
            all.push((run.cell.index as usize, distances(&run)));
        })?;
        let mut by_case = vec![None; cases.len()];
        for (case, distances) in all {
            self.kernels[self.at].runs += 1;
            match distances {
                Ok(distances) => by_case[case] = Some(distances),
                Err(reason) => {
                    self.kernels[self.at].failed += 1;
                    self.counts.first_failure.get_or_insert(reason);
                }
            }
        }
        Ok(by_case)
    }

    /// Whether what differs among kernels is pursued, and not what breaks a rule.
    fn compares(&self) -> bool {
        self.kernels.len() > 1
    }

    fn hopeless(&self) -> Option<&HuntedKernel<'_>> {
        self.kernels.iter().find(|kernel| kernel.is_hopeless())
    }

    fn take_next_machine(&mut self) {
        self.generators.rotate_left(1);
        let machine = self.generators[0].machine();
        for kernel in &mut self.kernels {
            kernel.target.machine = machine;
            kernel.watchers.rotate_left(1);
        }
    }

    fn target(&self) -> Target<'_> {
        self.kernels[self.at].target
    }

    fn watch(&mut self, text: String, on_run: &mut dyn FnMut(WatchedRun)) -> Result<(), Failure> {
        let text = PlanText { name: "schedlab hunt".to_string(), text };
        let request = WatchRequest { text, kernel: None, seeds: None, traced: false };
        let watcher = &mut self.kernels[self.at].watchers[0];
        Ok(watcher.watch(request, self.stop, on_run).map(drop)?)
    }

    /// Confirms a case, writes it, makes it smaller and writes that. `false`: it does not hold alone.
    fn pursue(&mut self, case: &Case, fault: Fault) -> Result<bool, Failure> {
        let Some(mut held) = self.alone(case, fault)? else { return Ok(false) };
        let path = self.output.join(self.file_name()?);
        self.write(&path, &mut held, case, fault)?;
        let shrinks = |case: &Case| {
            let tasks = counted(u64::from(size(case).0), "task");
            terminal::message(&format!("making {} smaller: {tasks}", path.display()));
        };
        shrinks(case);
        let mut shrinker = Shrinker::new(case.clone());
        let mut least = (case.clone(), held);
        let mut is_least = false;
        while !self.stop.load(Relaxed) {
            let candidates = shrinker.candidates();
            if candidates.is_empty() {
                is_least = true;
                break;
            }
            for case in self.breaking(&candidates, fault)? {
                // In a plan of its own it may take another way.
                let enough = least.1.seeds.min(MIN_SEEDS);
                if let Some(held) = self.alone(&case, fault)?.filter(|held| held.seeds >= enough) {
                    shrinks(&case);
                    shrinker.take(case.clone());
                    least = (case, held);
                    break;
                }
            }
        }
        let (case, mut held) = least;
        if self.found.iter().any(|found| found.fault == fault && found.case == case) {
            return remove(&path).map(|()| true);
        }
        self.write(&path, &mut held, &case, fault)?;
        self.found.push(Found { fault, case: case.clone() });
        let (file, seed) = (path.display(), self.args.seed);
        store_case(
            held.text.clone(),
            format!("{file}, hunted with --seed {seed}: {}. It needs {case}", held.judged.text),
        )?;
        print(&self.report(&path, &held, &case, fault)?)?;
        // Lines that can be pasted.
        for command in self.commands(&path) {
            writeln!(io::stdout().lock(), "  {}", clean(&command))?;
        }
        if !is_least {
            print(
                "It was interrupted while it was made smaller. The same hunt without --resume makes it smaller: its \
                 runs are cached.",
            )?;
        }
        Ok(true)
    }

    /// Writes the plan of a case with what it shows.
    fn write(
        &self,
        path: &Path,
        held: &mut Held,
        case: &Case,
        fault: Fault,
    ) -> Result<(), Failure> {
        held.judged.keep_console(&path.with_extension("log"))?;
        let name = self.target().kernel;
        let kernel = kernel::find(name).map_or(name.to_string(), |kernel| kernel.release);
        let text = header(held, case, fault, &kernel) + &held.text;
        replace(path, |out| out.write_all(text.as_bytes()))
            .map_err(|error| SessionError::unwritten(path, &error).into())
    }

    /// A paragraph about a case, with what its trace shows.
    fn report(
        &mut self,
        path: &Path,
        held: &Held,
        case: &Case,
        fault: Fault,
    ) -> Result<String, Failure> {
        let fault_title = fault.title();
        let stem = path.with_extension("");
        let name = stem.file_name().unwrap_or_default().to_string_lossy();
        let title = format!("{name}: {fault_title} on {}", self.target());
        let text = PlanText { name: "schedlab hunt".to_string(), text: held.text.clone() };
        let request = WatchRequest { text, kernel: None, seeds: None, traced: true };
        let watcher = &mut self.kernels[self.at].watchers[0];
        let traced = match trace(watcher, request, 1, fault, &stem, &title, self.stop)? {
            Some(traced) if traced.broken > 0 => match fault {
                Fault::Broken(_) => format!("It holds with and without tracing. {}", traced.about),
                Fault::Differs(_) => format!(
                    "With tracing {} of {} runs come to {NEAR} of the bound. {}",
                    traced.broken, traced.runs, traced.about
                ),
            },
            Some(_) => "It does not hold with tracing, so there is no picture".to_string(),
            None => "Tracing was interrupted".to_string(),
        };
        Ok(format!(
            "{name}: {fault_title} on {}: {}. It holds with {} of {} seeds. It needs {case}; on {}. {traced}. \
             Repeat it and judge it:",
            self.target(),
            held.judged.text,
            held.seeds,
            held.ran,
            place(self.target().machine),
        ))
    }

    /// The commands that repeat a case, and that judge it on all kernels.
    fn commands(&self, path: &Path) -> [String; 2] {
        let shown = quoted(&path.to_string_lossy());
        let kernels = self.kernels.iter().map(|kernel| kernel.target.kernel);
        let judged_on: String = kernels.map(|name| format!(" --kernel {}", quoted(name))).collect();
        [
            format!("schedlab run {shown} --backend lab"),
            format!("schedlab hunt --confirm {shown}{judged_on}"),
        ]
    }

    /// A name that no plan of the folder has, nor a console next to it.
    fn file_name(&self) -> Result<String, Failure> {
        let is_free = |number: &u32| {
            ["toml", "log"]
                .iter()
                .all(|end| !self.output.join(format!("hunt-{number}.{end}")).exists())
        };
        let free = (1..).find(is_free).map(|number| format!("hunt-{number}.toml"));
        free.ok_or_else(|| Failure::here("the folder is full of cases", "-o FOLDER"))
    }

    /// The candidates that have the fault with any seed, in their order.
    fn breaking(&mut self, cases: &[Case], fault: Fault) -> Result<Vec<Case>, Failure> {
        let text = plan_text(&self.target(), TITLE, cases, self.args.seed, TRY_SEEDS);
        let mut most = vec![None; cases.len()];
        self.watch(text, &mut |run| {
            if let Some(own) = judge(&run).ok().and_then(|judged| fault.shown(judged)) {
                let distance: &mut Option<f64> = &mut most[run.cell.index as usize];
                *distance = Some(distance.unwrap_or(0.0).max(own.judgement.distance));
            }
        })?;
        let shown = cases.iter().zip(most).filter_map(|(case, most)| Some((case.clone(), most?)));
        let (cases, most): (Vec<Case>, Vec<f64>) = shown.unzip();
        let Fault::Differs(rule) = fault else { return Ok(cases) };
        let others = self.largest_elsewhere(&cases, rule, self.args.seed, TRY_SEEDS)?;
        let differs =
            cases.into_iter().zip(most).zip(others).filter_map(|((case, own), others)| {
                others.filter(|others| contrast(own, *others) >= 1.0).map(|_| case)
            });
        Ok(differs.collect())
    }

    /// Runs a case alone, as it is written: the plan with the first seed with which it has the fault.
    fn alone(&mut self, case: &Case, fault: Fault) -> Result<Option<Held>, Failure> {
        let (mut shown, mut judged, mut others) = (Vec::new(), 0, 0.0_f64);
        for seed in fault.first_seeds(self.args.seed) {
            let (mut own, runs) = self.shown_alone(case, fault, seed)?;
            judged += runs;
            if let Fault::Differs(rule) = fault {
                own = differing(own, runs, 0.0);
                let is_whole = runs == fault.seeds() && !own.is_empty();
                let most = match is_whole {
                    true => {
                        self.largest_elsewhere(std::slice::from_ref(case), rule, seed, runs)?[0]
                    }
                    false => None,
                };
                own = most.map_or(Vec::new(), |most| differing(own, runs, most));
                if own.is_empty() {
                    return Ok(None);
                }
                others = others.max(most.unwrap_or_default());
            }
            shown.extend(own);
        }
        let seeds = shown.len() as u32;
        let Some((seed, mut first)) = shown.into_iter().next() else {
            return Ok(None);
        };
        if matches!(fault, Fault::Differs(_)) {
            let own = first.judgement.distance;
            first.text = format!(
                "{own:.2} of the rule's bound, and on other kernels {others:.2} at most: {}",
                first.text
            );
        }
        let text = self.text_alone(case, fault, seed, 1);
        Ok(Some(Held { text, judged: first, seeds, ran: judged }))
    }

    fn text_alone(&self, case: &Case, fault: Fault, seed: u64, seeds: u32) -> String {
        let title = format!("{} on {}", fault.title(), self.target());
        plan_text(&self.target(), &title, std::slice::from_ref(case), seed, seeds)
    }

    /// The runs of a case, each with its seed, that show the fault, and the number of those that were judged.
    fn shown_alone(
        &mut self,
        case: &Case,
        fault: Fault,
        seed: u64,
    ) -> Result<(Vec<(u64, Judged)>, u32), Failure> {
        let (mut shown, mut judged) = (Vec::new(), 0);
        self.watch(self.text_alone(case, fault, seed, fault.seeds()), &mut |run| {
            let judgement = judge(&run);
            judged += u32::from(judgement.is_ok());
            if let Some(own) = judgement.ok().and_then(|judged| fault.shown(judged)) {
                shown.push((run.plan.measure.seed_of(run.round), own));
            }
        })?;
        Ok((shown, judged))
    }

    /// The largest distance that each case comes to by a rule on the kernels other than the one that runs plans;
    /// `None`: the rule could not judge a run.
    fn largest_elsewhere(
        &mut self,
        cases: &[Case],
        rule: &str,
        seed: u64,
        seeds: u32,
    ) -> Result<Vec<Option<f64>>, Failure> {
        let (own, mut most, mut runs) = (self.at, vec![0.0_f64; cases.len()], vec![0; cases.len()]);
        let others = (0..self.kernels.len()).filter(|at| *at != own && !cases.is_empty());
        for at in others {
            self.at = at;
            let text = plan_text(&self.target(), TITLE, cases, seed, seeds);
            let watched = self.watch(text, &mut |run| {
                let case = run.cell.index as usize;
                let distances = distances(&run).unwrap_or_default();
                let distance = distances.into_iter().find(|(name, _)| *name == rule);
                let Some((_, distance)) = distance else { return };
                runs[case] += 1;
                most[case] = distance.max(most[case]);
            });
            self.at = own;
            watched?;
        }
        let wanted = seeds * (self.kernels.len() as u32 - 1);
        let most = most.into_iter().zip(runs);
        Ok(most.map(|(most, runs)| Some(most).filter(|_| runs == wanted)).collect())
    }

    fn sum_up(&self, ended: Result<bool, Failure>) -> Result<(), Failure> {
        let counts = &self.counts;
        if let Some(reason) = &counts.first_failure {
            let failed = self.kernels.iter().map(|kernel| kernel.failed).sum::<u64>();
            let failed = counted(failed, "run");
            terminal::message(&format!("{failed} gave no result; the first: {reason}"));
        }
        let found = self.found.len() as u64;
        let text = format!(
            "{} on {}, {}: {} found",
            counted(counts.scenarios, "scenario"),
            shown(&self.kernels),
            match self.compares() {
                true => format!("which differ in {} of them", counts.hits),
                false => format!("{} of which broke a rule", counts.hits),
            },
            counted(found, "case")
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

/// `8 CPUs in 4 last-level caches, in 2 nodes, in cores of 2`.
fn place(machine: Machine) -> String {
    let caches = counted(u64::from(machine.llcs), "last-level cache");
    let mut text = format!("{} CPUs in {caches}", machine.cpus);
    if machine.nodes > 1 {
        text += &format!(", in {} nodes", machine.nodes);
    }
    if machine.threads > 1 {
        text += &format!(", in cores of {}", machine.threads);
    }
    text
}

/// The comment above the plan of a case. `on`: the build of the kernel.
fn header(held: &Held, case: &Case, fault: Fault, on: &str) -> String {
    let (title, text, date) = (fault.title(), clean(&held.judged.text), moment(clock::unix_ns()));
    format!(
        "# {title}: {text}\n# {case}\n# It held with {} of {} seeds on {date}, kernel {}, schedlab {}: \
         other builds have other figures.\n",
        held.seeds,
        held.ran,
        clean(on),
        env!("CARGO_PKG_VERSION")
    )
}

/// Removes the plan of a case, and its console if it has one.
fn remove(path: &Path) -> Result<(), Failure> {
    _ = fs::remove_file(path.with_extension("log"));
    fs::remove_file(path).map_err(|error| SessionError::unwritten(path, &error).into())
}

/// Fails without a scheduler of this name, and without its program: the plans of a hunt are not the user's.
fn check_scheduler(text: &str) -> Result<(), Failure> {
    let wrong = match Scheduler::parse(text) {
        None => "there is no scheduler of this name".to_string(),
        Some(own) => match scx::check_file(&own) {
            Ok(()) => return Ok(()),
            Err(error) => clean(&error.to_string()),
        },
    };
    Err(Failure::usage(format!("--scx {}: {wrong}", clean(text)), SCHEDULER_FORM))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_place_has_nodes_and_cores() {
        let text = |machine: &str| place(machine.parse().unwrap());
        assert_eq!(text("4x2"), "4 CPUs in 2 last-level caches");
        assert_eq!(text("8x4n2t2"), "8 CPUs in 4 last-level caches, in 2 nodes, in cores of 2");
    }

    #[test]
    fn what_is_there_twice_is_refused() {
        let check = |names: &[&str]| {
            check_once(names, "kernels are compared", "hint").map_err(|failure| failure.to_string())
        };
        assert!(check(&["a", "b", "c"]).is_ok());
        assert!(check(&["a"]).is_ok());
        assert!(check(&["a", "b", "a"]).unwrap_err().contains("`a` is there twice"));
    }

    #[test]
    fn a_scheduler_is_one_of_our_own_or_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        fs::write(file("own"), "").unwrap();
        fs::set_permissions(file("own"), fs::Permissions::from_mode(0o755)).unwrap();
        for (text, wrong) in [
            ("fifo".to_string(), None),
            (file("own --slice 1"), None),
            (file("nope"), Some("nope: ENOENT, not there")),
            (file(""), Some("is not an executable file")),
            ("nope".to_string(), Some("--scx nope: there is no scheduler of this name")),
        ] {
            let error = check_scheduler(&text).err().map(|failure| failure.to_string());
            assert_eq!(error.is_some(), wrong.is_some(), "{error:?}");
            assert!(error.unwrap_or_default().contains(wrong.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn the_figures_of_a_case_are_those_of_a_build() {
        let mut judged = Judged::invented(1.0);
        judged.text = "CPU 1 idles".to_string();
        let held = Held { text: String::new(), judged, seeds: 3, ran: 4 };
        let case = Case { sets: Vec::new() };
        let header = header(&held, &case, Fault::Broken("work conservation"), "6.18.15");
        assert!(header.starts_with("# work conservation: CPU 1 idles\n"), "{header}");
        assert!(header.contains("\n# It held with 3 of 4 seeds on 20"), "{header}");
        assert!(header.contains(", kernel 6.18.15, schedlab "), "{header}");
    }

    #[test]
    fn a_case_keeps_the_console_that_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let (console, path) = (dir.path().join("lab.log"), dir.path().join("hunt-1.toml"));
        fs::write(&console, "Oops").unwrap();
        fs::write(&path, "").unwrap();
        let mut judged = Judged::invented(1.0);
        judged.text = format!("it gave up; all of it: {}", console.display());
        judged.console = Some(console.clone());
        let own = dir.path().join("hunt-1.log");
        judged.keep_console(&own).unwrap();
        assert_eq!(judged.text, format!("it gave up; all of it: {}", own.display()));
        fs::remove_file(&console).unwrap();
        judged.keep_console(&own).unwrap();
        assert_eq!(fs::read_to_string(&own).unwrap(), "Oops");
        let mut smaller = Judged::invented(1.0);
        smaller.text = format!("it gave up; all of it: {}", console.display());
        smaller.console = Some(console);
        smaller.keep_console(&own).unwrap();
        assert_eq!(
            (smaller.text.as_str(), own.exists()),
            ("it gave up; all of it: removed meanwhile", false)
        );
        fs::write(&own, "").unwrap();
        remove(&path).unwrap();
        assert!(!own.exists() && !path.exists());
    }
}
