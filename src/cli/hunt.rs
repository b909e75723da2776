//! `schedlab hunt`: random scenarios in the lab, judged by the rules of [`crate::hunt`]. A case that breaks one is run
//! again, made smaller, explained and written as a plan.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;

use crate::backend::Mode;
use crate::backend::lab::kernel::{self, Kernel, Setting};
use crate::hunt::{Case, Generator, Machine, Place, Reached, Target, plan_text, size};
use crate::model::{Coverage, clean, clean_path, duration_ns, quoted, show_duration};
use crate::session::{
    LabRequest, PlanText, Problem, SessionError, WatchRequest, WatchedRun, Watcher,
};
use crate::variant::SCHEDULER_FORM;
use crate::variant::scx::{self, Scheduler};

use super::hunt_differ::{Compared, Hit};
use super::hunt_run::{Distances, Fault, act_once_set, distances, make, print, until, watcher};
use super::hunt_store::{Progress, hold};
use super::status_line::StatusLine;
use super::{Failure, catch_termination, hunt_confirm, terminal};
use crate::report::numbers::counted;

mod pursue;
mod summary;

use summary::{Counts, Summary};

/// Scenarios of one plan. The first so many are run whatever the time.
const BATCH: usize = 16;
/// A larger seed would not stay one when further ones are derived from it.
const MAX_SEED: i64 = 1 << 40;
/// Cases of one fault of a batch that are run alone until one holds.
const MAX_TRIES: u32 = 3;
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
    /// No further scenarios begin after this time, but the first 16 run in any case; making cases smaller comes on top
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
        default_value = "4x2,6x3,8x2t2,6x1",
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
    check_once(&topologies, "topologies take turns", "--topology 4x2,6x3,8x2t2,6x1")?;
    let scx = args.scx.as_deref();
    scx.map_or(Ok(()), check_scheduler)?;
    let machines = &args.topology;
    let target = |kernel| Target { kernel, scx, place: Place::new(machines[0]) };
    let kernel = |name| HuntedKernel {
        target: target(name),
        watchers: machines.iter().map(|_| watcher()).collect(),
        runs: 0,
        failed: 0,
        reached: Reached::default(),
    };
    let found = names.iter().map(|name| kernel::find(name)).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| Failure::from_advice(&error))?;
    let all_have = |has: fn(&Kernel) -> bool| found.iter().all(has);
    let has_slices = all_have(|own| has_slices(&own.release));
    let has_clamps = all_have(|own| {
        own.configuration().is_some_and(|own| *own.setting("CONFIG_UCLAMP_TASK") == Setting::Yes)
    });
    let kernels: Vec<HuntedKernel> = names.into_iter().map(kernel).collect();
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from("."));
    let arguments = format!("{}, {}, seed {}", shown(&kernels), topologies.join(","), args.seed);
    if !args.resume {
        make(&output)?;
    }
    let _held = hold(&output)?;
    let (progress, before) = begin(args, &output, arguments)?;
    terminal::message(&format!(
        "this hunts on {} for {}, in guests of {}; a line follows after each {BATCH} scenarios",
        shown(&kernels),
        show_duration(args.time.as_nanos() as u64),
        topologies.join(", ")
    ));
    let generator = |machine| {
        let generator = Generator::new(args.seed, before, machine);
        match scx {
            Some(_) => generator.for_sched_ext(),
            None => with_knobs(generator, has_slices, has_clamps),
        }
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
        line: StatusLine::new(),
        tried: 0,
    };
    let ended = announce_end(&stop, &hunt.output.clone(), || hunt.hunt());
    hunt.sum_up(ended)
}

/// Hunts, and says as soon as `stop` is set that it ends: runs that have begun may take seconds to.
fn announce_end<T>(stop: &AtomicBool, folder: &Path, hunt: impl FnOnce() -> T) -> T {
    let said = || {
        StatusLine::new().lasting(&format!(
            "interrupted: this ends as soon as what has begun does; the cases of {} stay, as small as they are by now",
            clean_path(folder)
        ));
    };
    act_once_set(stop, said, hunt)
}

/// How far hunts into the folder are, and the scenarios of those that this one goes on with.
fn begin(args: &HuntArgs, output: &Path, arguments: String) -> Result<(Progress, u64), Failure> {
    let mut progress = Progress::open(output, arguments)?;
    let before = if args.resume { progress.to_go_on()? } else { 0 };
    if args.resume {
        let scenarios = counted(before, "scenario");
        terminal::message(&format!("this goes on after {scenarios}, and draws others"));
    }
    // A folder that cannot be written is an error before anything runs.
    progress.write(before)?;
    Ok((progress, before))
}

/// Runs of one kernel are the same to the last bit, so it does not differ from itself; a machine that is there twice has
/// no other turns.
fn check_once(names: &[impl AsRef<str>], why: &str, hint: &str) -> Result<(), Failure> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    let Some((_, name)) = twice else { return Ok(()) };
    Err(Failure::usage(format!("{why}, and `{}` is there twice", clean(name)), hint))
}

/// A kernel may have either without the other: clamps came in Linux 5.3, slices in 6.12.
fn with_knobs(mut generator: Generator, has_slices: bool, has_clamps: bool) -> Generator {
    if has_slices {
        generator = generator.with_slices();
    }
    if has_clamps {
        generator = generator.with_clamps();
    }
    generator
}

/// Whether tasks can have slices of their own under a kernel of this release.
fn has_slices(release: &str) -> bool {
    let numbers = release.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    numbers.take(2).collect::<Vec<u32>>() >= vec![6, 12]
}

/// A scenario's number, its distances, and the code that it executed.
type EndedRun = (usize, Result<Distances, String>, Option<Coverage>);

/// A case as it is written.
#[derive(PartialEq)]
struct Found {
    fault: Fault,
    case: Case,
    place: Place,
}

struct HuntedKernel<'a> {
    target: Target<'a>,
    /// One for each machine, in the order of the generators.
    watchers: Vec<Watcher>,
    /// Runs of scenarios, and those without a result.
    runs: u64,
    failed: u64,
    /// By all of its scenarios.
    reached: Reached,
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
    /// Shows how far a case is that is made smaller.
    line: StatusLine,
    /// Cases that were tried while one is made smaller.
    tried: u64,
}

impl Hunt<'_> {
    /// `false`: it was interrupted.
    fn hunt(&mut self) -> Result<bool, Failure> {
        if self.args.resume {
            self.go_on()?;
            self.counts.resumed = self.found.len() as u64;
        }
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
            let end = begun.checked_add(self.args.time).filter(|_| batch > 0);
            let (scenarios, hits) = (self.counts.scenarios, self.counts.hits);
            let Some(mut found) = self.try_batch(&cases, end)? else { return Ok(false) };
            self.progress.write(self.before + self.counts.scenarios)?;
            let last = [self.counts.hits - hits, self.counts.scenarios - scenarios];
            terminal::message(&self.summary().after_plan(last, begun.elapsed()));
            found.sort_by_key(|hit| size(&cases[hit.case]));
            self.pursue_hits(&cases, found)?;
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

    /// Runs new scenarios on each kernel, up to a moment; returns those that have a fault. `None`: it was interrupted.
    fn try_batch(
        &mut self,
        cases: &[Case],
        end: Option<Instant>,
    ) -> Result<Option<Vec<Hit>>, Failure> {
        let mut runs: Vec<Vec<Option<Distances>>> = Vec::new();
        let mut new_bytes = vec![0; cases.len()];
        for at in 0..self.kernels.len() {
            self.at = at;
            runs.push(self.run_batch(cases, end, &mut new_bytes)?);
        }
        // Scenarios that every kernel has run.
        let done = self.kernels.iter().map(|kernel| kernel.runs).min().unwrap_or(0);
        if self.stop.load(Relaxed) {
            self.counts.interrupted = done - self.counts.scenarios;
            return Ok(None);
        }
        self.counts.scenarios = done;
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
                if new_bytes[at] > 0 {
                    self.generators[0].reached_new_code(case);
                }
            } else {
                self.counts.hits += 1;
            }
            hits.extend(own);
        }
        Ok(Some(hits))
    }

    /// The distances of each case; `None`: its run gave no result. Adds to `new_bytes` of each the code that it is the first
    /// to execute.
    fn run_batch(
        &mut self,
        cases: &[Case],
        end: Option<Instant>,
        new_bytes: &mut [u64],
    ) -> Result<Vec<Option<Distances>>, Failure> {
        let text = plan_text(&self.target(), TITLE, cases, self.args.seed, 1);
        let (mut all, line) = (Vec::<EndedRun>::new(), StatusLine::new());
        let on = format!("of {} scenarios on {}", cases.len(), self.target());
        line.passing(&format!("0 {on}"));
        let watched = self.watch_until(text, end, &mut |run| {
            all.push((run.cell.index as usize, distances(&run), run.coverage.cloned()));
            line.passing(&format!("{} {on}", all.len()));
        });
        line.clear();
        watched?;
        let mut by_case = vec![None; cases.len()];
        all.sort_by_key(|(case, ..)| *case);
        let kernel = &mut self.kernels[self.at];
        for (case, distances, coverage) in all {
            kernel.runs += 1;
            new_bytes[case] += coverage.map_or(0, |coverage| kernel.reached.add(&coverage));
            match distances {
                Ok(distances) => by_case[case] = Some(distances),
                Err(reason) => {
                    kernel.failed += 1;
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
            kernel.target.place = Place::new(machine);
            kernel.watchers.rotate_left(1);
        }
    }

    fn target(&self) -> Target<'_> {
        self.kernels[self.at].target
    }

    fn watch(&mut self, text: String, on_run: &mut dyn FnMut(WatchedRun)) -> Result<(), Failure> {
        self.watch_until(text, None, on_run)
    }

    fn watch_until(
        &mut self,
        text: String,
        end: Option<Instant>,
        on_run: &mut dyn FnMut(WatchedRun),
    ) -> Result<(), Failure> {
        let text = PlanText::new("schedlab hunt", text);
        let mode = Mode { covers: true, ..Mode::default() };
        let lab = LabRequest { mode, ..LabRequest::default() };
        let request = WatchRequest { text, lab, seeds: None, traced: false };
        let watcher = &mut self.kernels[self.at].watchers[0];
        Ok(until(self.stop, end, |stop| watcher.watch(request, stop, on_run)).map(drop)?)
    }

    fn summary(&self) -> Summary<'_> {
        Summary {
            kernels: shown(&self.kernels),
            reached: self.reached(),
            compares: self.compares(),
            counts: &self.counts,
            before: self.before,
            cases: self.found.len() as u64,
        }
    }

    /// How much code was executed, on each kernel.
    fn reached(&self) -> String {
        let described = self.kernels.iter().filter_map(|kernel| {
            let on = if self.compares() { format!(" on {}", kernel.target) } else { String::new() };
            Some(format!("; {}{on}", kernel.reached.describe()?))
        });
        described.collect()
    }

    /// The command that goes on with this hunt.
    fn resume_command(&self) -> String {
        let HuntArgs { scx, time, seed, topology, output, .. } = self.args;
        let mut text = "schedlab hunt".to_string();
        let mut add = |name: &str, value: &str| text += &format!(" {name} {}", quoted(value));
        self.kernels.iter().for_each(|kernel| add("--kernel", kernel.target.kernel));
        scx.iter().for_each(|scx| add("--scx", scx));
        add("--for", &show_duration(time.as_nanos() as u64));
        add("--seed", &seed.to_string());
        let topology: Vec<String> = topology.iter().map(Machine::to_string).collect();
        add("--topology", &topology.join(","));
        output.iter().for_each(|output| add("-o", &output.to_string_lossy()));
        text + " --resume"
    }

    fn sum_up(&self, ended: Result<bool, Failure>) -> Result<(), Failure> {
        let counts = &self.counts;
        if let Some(reason) = &counts.first_failure {
            let failed = self.kernels.iter().map(|kernel| kernel.failed).sum::<u64>();
            let failed = counted(failed, "run");
            terminal::message(&format!("{failed} gave no result; the first: {reason}"));
        }
        let found = self.found.len() as u64;
        let text = self.summary().at_end();
        match ended {
            Ok(false) => {
                let text = format!("interrupted; {text}");
                let problem = Problem::new(text, clean(&self.resume_command()));
                Err(SessionError::Interrupted(problem).into())
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
    fn slices_are_of_the_version_and_not_of_the_name() {
        for (release, expected) in [
            ("6.12.118+deb13-cloud-amd64", true),
            ("6.12", true),
            ("7.0.1", true),
            ("6.11.10", false),
            ("6.1.0-57-cloud-amd64", false),
            ("custom", false),
        ] {
            assert_eq!(has_slices(release), expected, "{release}");
        }
    }

    #[test]
    fn a_kernel_with_clamps_need_not_have_slices() {
        for (has_slices, has_clamps) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let generator = Generator::new(5, 0, "4x2".parse().unwrap());
            let mut generator = with_knobs(generator, has_slices, has_clamps);
            let cases: Vec<Case> = (0..100).map(|_| generator.next_case()).collect();
            let sets = || cases.iter().flat_map(|case| &case.sets);
            let mut changes = sets().filter_map(|set| set.change.as_ref());
            let slices = sets().any(|set| set.slice_us.is_some())
                || changes.any(|change| change.slice_us.is_some());
            let clamps = sets().any(|set| set.clamp.is_some());
            assert_eq!((slices, clamps), (has_slices, has_clamps));
        }
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
}
