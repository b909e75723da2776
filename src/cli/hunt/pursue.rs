//! A case that broke a rule: it is confirmed alone, made smaller, explained and written as a plan.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::backend::lab::kernel;
use crate::hunt::{
    Case, LONG_MS, Likeness, Machine, Place, Shrinker, plan_text, registry, size, smaller_machines,
};
use crate::model::{Outcome, clean, quoted};
use crate::plan::{self, Builtin};
use crate::report::numbers::{counted, moment};
use crate::session::{self, LabRequest, PlanText, SessionError, WatchRequest};
use crate::sys::clock;
use crate::sys::replace::replace;

use super::super::hunt_differ::{contrast, differing};
use super::super::hunt_run::{Fault, Judged, NEAR, distances, judge, print, trace, watcher};
use super::super::hunt_store::{Progress, Smallest, Unfinished, store_case, unlist};
use super::super::{Database, Failure, terminal};
use super::{Found, Hunt, TITLE};

/// Seeds with which each candidate of a smaller case is tried.
const TRY_SEEDS: u32 = 2;
/// A smaller case holds with so many seeds, or with as many as the one that it is made of.
const MIN_SEEDS: u32 = 2;

/// A case that holds, with what its first run shows that has the fault.
struct Held {
    text: String,
    judged: Judged,
    /// The number of seeds with which it has the fault, and of those that it ran with.
    seeds: u32,
    ran: u32,
    /// All runs of its plan have results, which the lab's cache has.
    is_cached: bool,
}

/// The smallest case that holds so far.
struct Least {
    case: Case,
    held: Held,
}

impl Hunt<'_> {
    /// Confirms a case, writes it, makes it smaller and writes that; one that was interrupted keeps its file. `false`: it
    /// does not hold alone.
    pub(super) fn pursue(&mut self, case: &Case, fault: Fault) -> Result<bool, Failure> {
        let first = self.target().place;
        let own = Unfinished {
            number: 0,
            rule: fault.rule().to_string(),
            differs: matches!(fault, Fault::Differs(_)),
            kernel: self.target().kernel.to_string(),
            machine: first.machine.to_string(),
            case: case.clone(),
            smallest: None,
            stored: None,
        };
        let known = self.progress.known(&own);
        let mut holds = false;
        if let Some(known) = &known {
            terminal::message(&format!("this goes on with hunt-{}.toml", known.number));
            holds = self.pursue_from(known, fault)?;
            if !holds && !self.stop.load(Relaxed) {
                terminal::message(&format!("hunt-{}.toml does not hold here", known.number));
                self.progress.finish(known)?;
            }
        }
        // As it was found it may hold where the smaller one does not; that one's file stays.
        let is_other = known.is_none_or(|known| known.smallest.is_some());
        if !holds && is_other && !self.stop.load(Relaxed) {
            self.enter(first);
            let number = free_number(&self.output, &self.progress)?;
            holds = self.pursue_from(&Unfinished { number, ..own }, fault)?;
        }
        self.enter(first);
        Ok(holds)
    }

    /// The same, from the smallest case that is kept.
    fn pursue_from(&mut self, own: &Unfinished, fault: Fault) -> Result<bool, Failure> {
        let (machine, case) = own.begin();
        let Ok(machine) = machine.parse() else { return Ok(false) };
        self.enter(Place::new(machine));
        let Some(mut held) = self.alone(case, fault)? else { return Ok(false) };
        // Some of its seeds may be missing here, and its file has them all.
        if self.stop.load(Relaxed) && self.progress.known(own).is_some() {
            return Ok(true);
        }
        let path = self.output.join(format!("hunt-{}.toml", own.number));
        self.write(&path, &mut held, case, fault)?;
        self.progress.keep(own.clone())?;
        self.tried = 0;
        let least = self.least(Least { case: case.clone(), held }, fault, &path, own)?;
        self.line.clear();
        self.finish(least, fault, &path, own)?;
        Ok(true)
    }

    /// Goes on with the cases that the same hunt was making smaller when it was interrupted.
    pub(super) fn go_on(&mut self) -> Result<(), Failure> {
        for own in self.progress.unfinished() {
            let rule = registry().iter().map(|rule| rule.name()).find(|name| *name == own.rule);
            let at = self.kernels.iter().position(|other| other.target.kernel == own.kernel);
            let (Some(rule), Some(at), Ok(machine)) = (rule, at, own.machine.parse()) else {
                continue;
            };
            let fault = if own.differs { Fault::Differs(rule) } else { Fault::Broken(rule) };
            let first = self.target().place;
            self.at = at;
            self.enter(Place::new(machine));
            let holds = self.pursue(&own.case, fault)?;
            self.enter(first);
            if self.stop.load(Relaxed) {
                return Ok(());
            }
            if !holds {
                self.progress.finish(&own)?;
            }
        }
        Ok(())
    }

    /// Says how far a case is: on a terminal in a line that goes on, elsewhere where it has become smaller.
    fn show_steps(&self, path: &Path, case: &Case, is_smaller: bool) {
        let (tasks, _, events, _) = size(case);
        let text = format!(
            "making {} smaller: {} tried, now {} and {} on {}",
            path.display(),
            counted(self.tried, "case"),
            counted(u64::from(tasks), "task"),
            counted(u64::from(events), "event"),
            place_words(self.target().place.machine)
        );
        if !self.line.passing(&text) && is_smaller {
            terminal::message(&text);
        }
    }

    /// Makes a case smaller, and then its guest, until neither is possible or it is interrupted.
    fn least(
        &mut self,
        mut least: Least,
        fault: Fault,
        path: &Path,
        own: &Unfinished,
    ) -> Result<Least, Failure> {
        loop {
            self.show_steps(path, &least.case, true);
            let mut shrinker = Shrinker::new(least.case.clone());
            while let Some(smaller) = self.smaller_case(&mut shrinker, &least, fault, path)? {
                self.show_steps(path, &smaller.case, true);
                shrinker.take(smaller.case.clone());
                least = smaller;
                self.keep(&mut least, fault, path, own)?;
            }
            match self.smaller_place(&least, fault)? {
                Some(smaller) => least = smaller,
                None => return Ok(least),
            }
            self.keep(&mut least, fault, path, own)?;
        }
    }

    /// Keeps a case that became smaller: the hunt goes on with it, however it ends.
    fn keep(
        &mut self,
        least: &mut Least,
        fault: Fault,
        path: &Path,
        own: &Unfinished,
    ) -> Result<(), Failure> {
        self.write(path, &mut least.held, &least.case, fault)?;
        let machine = self.target().place.machine.to_string();
        let smallest = Some(Smallest { machine, case: least.case.clone() });
        self.progress.keep(Unfinished { smallest, ..own.clone() })
    }

    /// The next case that is smaller and holds.
    fn smaller_case(
        &mut self,
        shrinker: &mut Shrinker,
        least: &Least,
        fault: Fault,
        path: &Path,
    ) -> Result<Option<Least>, Failure> {
        while !self.stop.load(Relaxed) {
            let candidates = shrinker.candidates();
            if candidates.is_empty() {
                break;
            }
            let breaking = self.breaking(&candidates, fault)?;
            self.tried += candidates.len() as u64;
            self.show_steps(path, &least.case, false);
            for case in breaking {
                // It may take another way in a plan of its own.
                if let Some(held) = self.held_as(least, &case, fault)? {
                    return Ok(Some(Least { case, held }));
                }
            }
        }
        Ok(None)
    }

    /// The case on a smaller guest, if it holds there. The hunt stays at that place.
    fn smaller_place(&mut self, least: &Least, fault: Fault) -> Result<Option<Least>, Failure> {
        let before = self.target().place;
        for (machine, case) in smaller_machines(before.machine, &least.case) {
            self.enter(Place { machine, ..before });
            match self.held_as(least, &case, fault) {
                Ok(Some(held)) => return Ok(Some(Least { case, held })),
                Ok(None) => {}
                // The case holds without this guest.
                Err(why) => {
                    self.line.lasting(&format!("the case is not tried on {machine}: {why}"));
                }
            }
        }
        self.enter(before);
        Ok(None)
    }

    /// A sentence about the case in longer runs.
    fn for_longer(&mut self, case: &Case, fault: Fault) -> Result<String, Failure> {
        let before = self.target().place;
        self.enter(Place { duration_ms: LONG_MS, ..before });
        let held = self.alone(case, fault);
        self.enter(before);
        let runs = format!("runs of {} s", LONG_MS / 1000);
        Ok(match held? {
            // Some of its seeds are missing.
            _ if self.stop.load(Relaxed) => format!("It was not tried in all {runs}."),
            Some(held) => {
                let text = &held.judged.text;
                format!("In {runs} with {} of {} seeds: {text}.", held.seeds, held.ran)
            }
            None => format!("It does not hold in {runs}."),
        })
    }

    /// The case alone, if it holds with enough seeds.
    fn held_as(
        &mut self,
        least: &Least,
        case: &Case,
        fault: Fault,
    ) -> Result<Option<Held>, Failure> {
        let enough = least.held.seeds.min(MIN_SEEDS);
        Ok(self.alone(case, fault)?.filter(|held| held.seeds >= enough))
    }

    /// Goes on at this place. A guest of another kind takes its machine from the cache, or boots it.
    fn enter(&mut self, place: Place) {
        for kernel in &mut self.kernels {
            if kernel.target.place.machine != place.machine {
                kernel.watchers[0] = watcher();
            }
            kernel.target.place = place;
        }
    }

    /// Writes and stores the smallest case, and says what it is.
    fn finish(
        &mut self,
        least: Least,
        fault: Fault,
        path: &Path,
        own: &Unfinished,
    ) -> Result<(), Failure> {
        let Least { case, mut held } = least;
        let is_least = !self.stop.load(Relaxed);
        let unlist_last =
            || own.stored.as_deref().map_or(Ok(()), |id| unlist(id, &Database::default()));
        let found = Found { fault, case, place: self.target().place };
        if self.found.contains(&found) {
            remove(path)?;
            unlist_last()?;
            return self.progress.finish(own);
        }
        let case = found.case.clone();
        self.found.push(found);
        self.write(path, &mut held, &case, fault)?;
        let (file, seed) = (path.display(), self.args.seed);
        let end = if is_least { "" } else { ", interrupted while it was made smaller" };
        let text = &held.judged.text;
        let note = format!("{file}, hunted with --seed {seed}{end}: {text}. It needs {case}");
        // An interrupted hunt keeps what it has found, but makes no runs, which may hang.
        let never = AtomicBool::new(false);
        let stop = if held.is_cached { &never } else { self.stop };
        let stored = store_case(held.text.clone(), note, stop)?;
        let is_stored = stored.is_some();
        match is_least {
            true => self.progress.finish(own)?,
            false => self.progress.keep(own.stored_again(stored))?,
        }
        if is_stored {
            unlist_last()?;
        }
        print(&self.report(path, &held, &case, fault)?)?;
        // Lines that can be pasted.
        for command in self.commands(path) {
            writeln!(io::stdout().lock(), "  {}", clean(&command))?;
        }
        if is_least {
            return Ok(());
        }
        print("It was interrupted while it was made smaller. The same hunt goes on with it:")?;
        Ok(writeln!(io::stdout().lock(), "  {}", clean(&self.resume_command()))?)
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
        let text = PlanText::new("schedlab hunt", held.text.clone());
        let lab = LabRequest::default();
        let request = WatchRequest { text, lab, seeds: None, traced: true };
        let watcher = &mut self.kernels[self.at].watchers[0];
        let traced = match trace(watcher, request, 1, fault, &stem, &title, self.stop)? {
            Some(traced) if traced.broken > 0 => match fault {
                Fault::Broken(_) => format!(
                    "It also holds in {} of {} runs with tracing, which changes their course. {}",
                    traced.broken, traced.runs, traced.about
                ),
                Fault::Differs(_) => format!(
                    "With tracing, which changes their course, {} of {} runs come to {NEAR} of the bound. {}",
                    traced.broken, traced.runs, traced.about
                ),
            },
            Some(_) => "It does not hold with tracing, so there is no picture".to_string(),
            None => "Tracing was interrupted".to_string(),
        };
        let longer = self.for_longer(case, fault)?;
        let known = known_words(&like_known(fault.rule(), &held.text));
        Ok(format!(
            "{name}: {fault_title} on {}: {}. It holds with {} of {} seeds. {longer} It needs {case}; on {}.{known} {traced}. \
             Repeat it and judge it:",
            self.target(),
            held.judged.text,
            held.seeds,
            held.ran,
            place_words(self.target().place.machine),
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

    /// Runs a case alone, as it is written, and keeps the first run that has the fault.
    fn alone(&mut self, case: &Case, fault: Fault) -> Result<Option<Held>, Failure> {
        let (mut shown, mut judged, mut others) = (Vec::new(), 0, 0.0_f64);
        let mut is_cached = true;
        for seed in fault.first_seeds(self.args.seed) {
            let (mut own, runs, done) = self.shown_alone(case, fault, seed)?;
            judged += runs;
            is_cached &= done == fault.seeds();
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
        let Some(mut first) = shown.into_iter().next() else {
            return Ok(None);
        };
        if matches!(fault, Fault::Differs(_)) {
            let own = first.judgement.distance;
            first.text = format!(
                "{own:.2} of the rule's bound, and on other kernels {others:.2} at most: {}",
                first.text
            );
        }
        // `hunt --confirm` counts the same runs of a broken rule. A difference had those of other first seeds, too.
        let text = self.text_alone(case, fault, self.args.seed);
        Ok(Some(Held { text, judged: first, seeds, ran: judged, is_cached }))
    }

    fn text_alone(&self, case: &Case, fault: Fault, seed: u64) -> String {
        let title = format!("{} on {}", fault.title(), self.target());
        plan_text(&self.target(), &title, std::slice::from_ref(case), seed, fault.seeds())
    }

    /// The runs of a case that show the fault, the number of those that were judged, and of those with a result.
    fn shown_alone(
        &mut self,
        case: &Case,
        fault: Fault,
        seed: u64,
    ) -> Result<(Vec<Judged>, u32, u32), Failure> {
        let (mut shown, mut judged, mut done) = (Vec::new(), 0, 0);
        self.watch(self.text_alone(case, fault, seed), &mut |run| {
            let judgement = judge(&run);
            judged += u32::from(judgement.is_ok());
            done += u32::from(matches!(run.outcome, Outcome::Done { .. }));
            shown.extend(judgement.ok().and_then(|judged| fault.shown(judged)));
        })?;
        Ok((shown, judged, done))
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
}

/// The number of a plan that the folder has not, nor a console next to it, and that no unfinished case has: a hunt goes
/// on in its file, also where that was moved away.
fn free_number(folder: &Path, progress: &Progress) -> Result<u32, Failure> {
    let taken: BTreeSet<u32> = progress.numbers().collect();
    let is_free = |number: &u32| {
        let exists = |end: &&str| folder.join(format!("hunt-{number}.{end}")).exists();
        !taken.contains(number) && !["toml", "log"].iter().any(exists)
    };
    (1..).find(is_free).ok_or_else(|| Failure::here("the folder is full of cases", "-o FOLDER"))
}

/// The cases that come with schedlab, break this rule and are like a plan.
fn like_known(rule: &str, text: &str) -> Vec<&'static str> {
    let likeness = |rule: &str, text: &str| {
        let plan = plan::parse("case", text, None, session::known()).ok();
        plan.map(|plan| Likeness::new(rule, &plan))
    };
    let own = likeness(rule, text);
    let is_like = |known: &&Builtin| {
        rule_of_case(known.text) == Some(rule) && likeness(rule, known.text) == own
    };
    let cases = plan::cases().iter().filter(|_| own.is_some());
    cases.filter(is_like).map(|known| known.name).collect()
}

/// The rule that a case breaks, which its head begins with.
fn rule_of_case(text: &str) -> Option<&str> {
    text.strip_prefix("# ")?.split_once(": ").map(|(rule, _)| rule)
}

fn known_words(known: &[&str]) -> String {
    match known {
        [] => String::new(),
        known => format!(
            " It looks like {} (schedlab list cases): the same rule, and sets of the same kinds.",
            known.join(" and ")
        ),
    }
}

/// `8 CPUs in 4 last-level caches, in 2 nodes, in cores of 2`.
fn place_words(machine: Machine) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_nodes_and_cores() {
        let text = |machine: &str| place_words(machine.parse().unwrap());
        assert_eq!(text("4x2"), "4 CPUs in 2 last-level caches");
        assert_eq!(text("8x4n2t2"), "8 CPUs in 4 last-level caches, in 2 nodes, in cores of 2");
    }

    #[test]
    fn a_case_looks_like_known_ones_of_its_rule_with_sets_of_the_same_kinds() {
        for known in plan::cases() {
            let rule = rule_of_case(known.text).expect("a rule");
            assert!(registry().iter().any(|own| own.name() == rule), "{}: {rule}", known.name);
            assert_eq!(like_known(rule, known.text), [known.name], "all of them differ");
        }
        let known = plan::builtin("idle-own-cpu").unwrap().text;
        let rule = "work conservation";
        let other = known.replace("count = 4", "count = 3").replace("\"1,3\"", "\"0,3\"");
        assert_ne!(other, known);
        assert_eq!(like_known(rule, &other), ["idle-own-cpu"]);
        assert_eq!(like_known("fair shares", &other), [""; 0]);
        let one = known.replace("\"1,3\"", "\"3\"");
        assert_ne!(one, known);
        assert_eq!(
            like_known(rule, &one),
            [""; 0],
            "of idle-smt, whose guest has cores of two CPUs"
        );
        let smt = one.replace("llcs = 2", "llcs = 2\nthreads = 2");
        assert_eq!(like_known(rule, &smt), ["idle-smt"]);
        assert_eq!(like_known(rule, "no plan"), [""; 0]);
        let words = known_words(&["a", "b"]);
        assert!(words.starts_with(" It looks like a and b (schedlab list cases): "), "{words}");
    }

    #[test]
    fn a_case_is_not_like_one_whose_number_of_tasks_or_of_cpus_changes() {
        let known = plan::builtin("idle-own-cpu").unwrap().text;
        let rule = "work conservation";
        let offline = format!("{known}[[workload.offline]]\nat = \"500ms\"\ncpus = \"2\"\n");
        let set = format!(
            "{known}[[workload.set]]\nuse = \"spin\"\nname = \"more\"\ncount = 2\nknobs = {{ affinity = \"0-3\" }}\n"
        );
        let count = format!("{set}[[workload.set.change]]\nat = \"500ms\"\ncount = 1\n");
        let likeness = |text: &str| {
            Likeness::new(rule, &plan::parse("case", text, None, session::known()).unwrap())
        };
        assert_ne!(likeness(known), likeness(&offline));
        assert_ne!(likeness(&set), likeness(&count));
        assert_eq!(likeness(&count), likeness(&count.replace("count = 2", "count = 3")));
    }

    #[test]
    fn a_new_case_takes_no_number_of_an_unfinished_one_of_any_hunt() {
        let dir = tempfile::tempdir().unwrap();
        let open = |arguments: &str| Progress::open(dir.path(), arguments.to_string()).unwrap();
        open("seed 1").keep(Unfinished::invented(1, "starvation")).unwrap();
        open("seed 2").keep(Unfinished::invented(3, "bandwidth")).unwrap();
        assert_eq!(free_number(dir.path(), &open("seed 2")).unwrap(), 2);
        fs::write(dir.path().join("hunt-2.toml"), "").unwrap();
        fs::write(dir.path().join("hunt-4.log"), "").unwrap();
        assert_eq!(free_number(dir.path(), &open("seed 3")).unwrap(), 5);
    }

    #[test]
    fn the_figures_of_a_case_are_those_of_a_build() {
        let mut judged = Judged::invented(1.0);
        judged.text = "CPU 1 idles".to_string();
        let held = Held { text: String::new(), judged, seeds: 3, ran: 4, is_cached: true };
        let case = Case { sets: Vec::new(), offline: None };
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
