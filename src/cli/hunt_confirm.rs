//! `schedlab hunt --confirm`: says on which kernels a case, or any plan, breaks a rule, and draws it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::backend::lab::kernel;
use crate::hunt::{WINDOW_MS, registry};
use crate::model::{Outcome, PlanEnd, Value, WorkerSet, clean, show_duration};
use crate::session::{self, LabRequest, PlanText, SessionError, WatchRequest, WatchedRun, Watcher};
use crate::stats::Count;

use super::hunt_run::{
    Fault, Judged, NEAR, SEEDS, broken, file_of_case, judge, make, print, trace, watcher,
};
use super::status_line::StatusLine;
use super::{Database, Failure, terminal};
use crate::report::numbers::counted;

/// The text of a case, or of any plan that the rules can judge. `elsewhere`: it runs on other kernels than its own.
pub fn load_case(case: &str, elsewhere: bool, db: &Database) -> Result<PlanText, Failure> {
    let text = session::load_case(case, db)?;
    check_case(&text, elsewhere)?;
    Ok(text)
}

/// Fails where the rules could not judge a plan, or would judge another kernel than the one they name.
fn check_case(text: &PlanText, elsewhere: bool) -> Result<(), Failure> {
    let plan = text.parse(None)?;
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
    let mut sets = plan.works.iter().flat_map(|work| &work.sets);
    if let Some((set, step)) = sets.find_map(|set| Some((set, moving_step(set)?))) {
        let text = format!(
            "set `{}` has the step `{}`, and the rules judge tasks by the CPUs, policy and cgroup of their set",
            clean(&set.name),
            clean(step.trim())
        );
        let hint =
            "[[workload.set.change]] moves tasks, which the rules see: schedlab help cookbook";
        return Err(Failure::usage(text, hint));
    }
    let named = plan.variants.iter().find(|variant| variant.knobs.contains_key("kernel"));
    if let Some(variant) = named.filter(|_| elsewhere) {
        let text = format!(
            "variant `{}` names a kernel, which --kernel does not replace",
            clean(&variant.name)
        );
        return Err(Failure::usage(text, "leave --kernel out, or the variant's kernel"));
    }
    Ok(())
}

/// A step of its workers that changes their own CPUs, policy, nice value or cgroup.
fn moving_step(set: &WorkerSet) -> Option<&str> {
    const WORDS: &[&str] = &["cpus", "policy", "priority", "cgroup"];
    let steps = set.params.get("steps").filter(|_| set.workload == "steps")?.as_list()?;
    let mut steps = steps.iter().filter_map(Value::as_text).flat_map(|text| text.split(','));
    steps.find(|step| step.split_whitespace().next().is_some_and(|word| WORDS.contains(&word)))
}

/// Says for each kernel with how many seeds a plan breaks which rules. Pictures go to `output`, or next to the case.
pub fn confirm(
    case: &str,
    kernels: &[String],
    output: Option<&Path>,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let names: Vec<&str> = kernels.iter().map(String::as_str).collect();
    let text = load_case(case, !names.is_empty(), &Database::default())?;
    for name in &names {
        kernel::find(name).map_err(|error| Failure::from_advice(&error))?;
    }
    let own = kernels.is_empty().then_some(None);
    let asked: Vec<Option<&str>> = names.into_iter().map(Some).chain(own).collect();
    let case = Path::new(case);
    let folder = output.unwrap_or(case.parent().unwrap_or(Path::new("")));
    if output.is_some() {
        make(folder)?;
    }
    let name = case.file_stem().unwrap_or_default().to_string_lossy();
    let (mut holds, mut watcher) = (0, watcher());
    for kernel in &asked {
        let stem = folder.join(file_stem(&name, *kernel));
        let lab = LabRequest { kernel: kernel.map(str::to_string), ..LabRequest::default() };
        let request = WatchRequest { text: text.clone(), lab, seeds: Some(SEEDS), traced: false };
        holds += u32::from(confirm_on(&mut watcher, request, &stem, &name, stop)?);
    }
    match holds {
        0 => Ok(()),
        _ => Err(Failure::Regression(format!(
            "a rule is broken on {holds} of {}",
            counted(asked.len() as u64, "kernel")
        ))),
    }
}

/// The runs of a case on a kernel, as the rules judge them.
#[derive(Default)]
pub struct JudgedRuns {
    all: u32,
    /// The gravest rule that each breaks.
    found: Vec<Judged>,
    /// Runs that break each rule, whatever else they break.
    broken: BTreeMap<&'static str, u32>,
    /// How near the runs come to the bound of each rule.
    nearest: BTreeMap<&'static str, f64>,
    /// Why the first run without a result has none, where no rule is about that.
    failed: Option<String>,
    /// The rule that the first run without a result breaks, and how, where one is about that.
    gave_up: Option<(&'static str, String)>,
}

impl JudgedRuns {
    /// Calls `seen` with the number of runs after each.
    pub fn measure(
        watcher: &mut Watcher,
        request: WatchRequest,
        seen: &mut dyn FnMut(u32),
        stop: &AtomicBool,
    ) -> Result<JudgedRuns, Failure> {
        let mut runs = JudgedRuns::default();
        let end = watcher.watch(request, stop, &mut |run| {
            runs.add(&run);
            seen(runs.all);
        })?;
        if end == PlanEnd::Interrupted { Err(interrupted()) } else { Ok(runs) }
    }

    fn add(&mut self, run: &WatchedRun) {
        self.add_judged(judge(run), matches!(run.outcome, Outcome::Done { .. }));
    }

    /// `is_done`: the run has a result.
    fn add_judged(&mut self, judged: Result<Vec<Judged>, String>, is_done: bool) {
        self.all += 1;
        let judged = match judged {
            Ok(judged) => judged,
            Err(reason) => {
                self.failed.get_or_insert(reason);
                return;
            }
        };
        for own in &judged {
            let largest = self.nearest.entry(own.rule.name()).or_default();
            *largest = own.judgement.distance.max(*largest);
            *self.broken.entry(own.rule.name()).or_default() +=
                u32::from(own.judgement.is_broken());
        }
        let gravest = broken(judged);
        if let Some(own) = gravest.as_ref().filter(|_| !is_done) {
            self.gave_up.get_or_insert((own.rule.name(), own.text.clone()));
        }
        self.found.extend(gravest);
    }

    /// The rule that is the gravest broken one of most runs, and the gravest of these.
    pub fn main_rule(&self) -> Option<&'static str> {
        let count = |name: &&str| self.found.iter().filter(|own| own.rule.name() == *name).count();
        let names = registry().iter().rev().map(|rule| rule.name());
        names.filter(|name| count(name) > 0).max_by_key(count)
    }

    /// The runs that break this rule, whatever else they break. `Err`: why a run has no result, where the rule is not
    /// about that.
    pub fn count(&self, rule: &str) -> Result<Count, String> {
        let gave_up = self.gave_up.iter().find(|(own, _)| *own != rule).map(|(_, text)| text);
        match self.failed.as_ref().or(gave_up) {
            Some(reason) => Err(reason.clone()),
            None => {
                let held = self.broken.get(rule).copied().unwrap_or_default();
                Ok(Count { held, runs: self.all })
            }
        }
    }
}

/// `work conservation in 3 of 4 runs: for 1.8 s CPU 1 idles ...; fair shares comes to 0.48 of its bound`.
impl fmt::Display for JudgedRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&outcome(&self.found, &self.nearest, self.all))
    }
}

fn interrupted() -> Failure {
    SessionError::Interrupted("interrupted; nothing is written".into()).into()
}

/// Whether a rule is broken; the worst one is drawn.
fn confirm_on(
    watcher: &mut Watcher,
    request: WatchRequest,
    stem: &Path,
    name: &str,
    stop: &AtomicBool,
) -> Result<bool, Failure> {
    let kernel = request.lab.kernel.clone();
    let kernel = kernel.as_deref().unwrap_or("the plan's own kernel");
    let plan = request.text.parse(None)?;
    let cells = (plan.works.len() * plan.variants.len()) as u32;
    let (all, line) = (counted(u64::from(SEEDS * cells), "run"), StatusLine::new());
    let text = format!("{}: {all}", clean(kernel));
    if !line.passing(&text) {
        terminal::message(&text);
    }
    let mut seen = |ended: u32| _ = line.passing(&format!("{}: {ended} of {all}", clean(kernel)));
    let runs = JudgedRuns::measure(watcher, request.clone(), &mut seen, stop);
    line.clear();
    let mut runs = runs?;
    if let Some(reason) = &runs.failed {
        return Err(no_result(kernel, reason));
    }
    let found = &mut runs.found;
    if let Some(failed) = found.iter_mut().rev().find(|own| own.console.is_some()) {
        failed.keep_console(&file_of_case(stem, ".log"))?;
    }
    let mut text = format!("{kernel}: {runs}");
    if let Some(rule) = gravest(&runs.found) {
        let fault = Fault::Broken(rule);
        let title = format!("{name}: {rule} on {kernel}");
        let seed = plan.measure.seed;
        let traced =
            trace(watcher, request, cells, fault, stem, &title, stop)?.ok_or_else(interrupted)?;
        text += &format!(
            ". These runs have {} and no trace. With {} and the trace on, which changes their course, {rule} is broken in {} of \
             {} runs. {}",
            seeds_words(seed, SEEDS),
            seeds_words(seed, traced.runs / cells),
            traced.broken,
            traced.runs,
            traced.about
        );
    }
    print(&text)?;
    Ok(!runs.found.is_empty())
}

/// `seeds 1 to 4`.
fn seeds_words(first: u64, count: u32) -> String {
    match count {
        0 | 1 => format!("seed {first}"),
        _ => format!("seeds {first} to {}", first.saturating_add(u64::from(count) - 1)),
    }
}

pub fn no_result(kernel: &str, reason: &str) -> Failure {
    let text = format!("{kernel}: a run gave no result: {}", clean(reason));
    Failure::here(text, "schedlab doctor --lab")
}

/// Pictures of several kernels have its name in theirs.
fn file_stem(case: &str, kernel: Option<&str>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let Some(kernel) = kernel else { return case.to_string() };
    let kernel: String = kernel.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    format!("{case}-{kernel}")
}

/// The broken rule that comes first in the registry.
fn gravest(found: &[Judged]) -> Option<&'static str> {
    let mut names = registry().iter().map(|rule| rule.name());
    names.find(|name| found.iter().any(|broken| broken.rule.name() == *name))
}

/// `work conservation in 3 of 4 runs: for 1.8 s CPU 1 idles ...; fair shares comes to 0.48 of its bound`. `nearest`: how
/// near the runs come to the bound of each rule.
fn outcome(found: &[Judged], nearest: &BTreeMap<&str, f64>, runs: u32) -> String {
    let rules = registry().iter().filter_map(|rule| {
        let name = rule.name();
        let own: Vec<&Judged> = found.iter().filter(|broken| broken.rule.name() == name).collect();
        let worst = own
            .iter()
            .max_by(|left, right| left.judgement.distance.total_cmp(&right.judgement.distance));
        let part = nearest.get(name).filter(|part| **part >= NEAR);
        match worst {
            Some(worst) => Some(format!("{name} in {} of {runs} runs: {}", own.len(), worst.text)),
            None => part.map(|part| format!("{name} comes to {part:.2} of its bound")),
        }
    });
    let none = format!("no rule is broken in {}", counted(u64::from(runs), "run"));
    let none = found.is_empty().then_some(none);
    none.into_iter().chain(rules).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    /// A run that breaks these rules, and comes near the bound of another one.
    fn breaks(rules: &[&str]) -> Result<Vec<Judged>, String> {
        let judged = registry().iter().filter_map(|rule| {
            let distance = match rule.name() {
                name if rules.contains(&name) => 1.2,
                "accounting" => 0.9,
                _ => return None,
            };
            let mut own = Judged::invented(distance);
            own.rule = *rule;
            Some(own)
        });
        Ok(judged.collect())
    }

    #[test]
    fn a_run_that_breaks_a_graver_rule_too_still_counts() {
        let runs_of = |rules: &[&str]| {
            let mut runs = JudgedRuns::default();
            (0..8).for_each(|_| runs.add_judged(breaks(rules), true));
            runs
        };
        let [base, patched] = [&["fair shares"][..], &["starvation", "fair shares"]].map(runs_of);
        let rule = base.main_rule().unwrap();
        assert_eq!((rule, patched.main_rule()), ("fair shares", Some("starvation")));
        let all = Ok(Count { held: 8, runs: 8 });
        assert_eq!([&base, &patched].map(|runs| runs.count(rule)), [all.clone(), all.clone()]);
        assert_eq!(patched.count("starvation"), all);
        let none = Ok(Count { held: 0, runs: 8 });
        assert_eq!(
            ["accounting", "bandwidth"].map(|rule| patched.count(rule)),
            [none.clone(), none]
        );
        let text = "accounting comes to 0.90 of its bound; starvation in 8 of 8 runs";
        assert!(patched.to_string().starts_with(text), "{patched}");
    }

    #[test]
    fn runs_have_seeds_from_the_first_on() {
        assert_eq!(seeds_words(3, 4), "seeds 3 to 6");
        assert_eq!(seeds_words(3, 1), "seed 3");
    }

    #[test]
    fn a_run_without_a_result_counts_for_the_rule_that_is_about_it() {
        let mut runs = JudgedRuns::default();
        runs.add_judged(breaks(&["kernel words"]), false);
        assert_eq!(runs.count("kernel words"), Ok(Count { held: 1, runs: 1 }));
        assert!(runs.count("fair shares").is_err());
        let mut runs = JudgedRuns::default();
        runs.add_judged(Err("no guest".to_string()), false);
        assert_eq!(runs.count("kernel words"), Err("no guest".to_string()));
    }

    #[test]
    fn the_rules_can_judge_every_case() {
        for case in plan::cases() {
            let text = session::load(case.name).unwrap();
            let checked = check_case(&text, true);
            assert!(checked.is_ok(), "{}: {}", case.name, checked.unwrap_err());
        }
    }

    #[test]
    fn a_plan_whose_steps_move_their_tasks_is_refused() {
        let check = |steps: &str| {
            let text = format!(
                "schema = 1\n[measure]\nduration = \"2s\"\nwindow = \"100ms\"\n[cgroup.low]\nweight = 25\n\
                 [[variant]]\nname = \"a\"\n[[workload]]\nname = \"w\"\n[[workload.set]]\nname = \"mover\"\n\
                 use = \"steps\"\ncgroup = \"low\"\nsteps = [{steps}]\n"
            );
            check_case(&PlanText::new("case.toml", text), true).map_err(|why| why.to_string())
        };
        assert_eq!(check("\"burn 1ms\", \"sleep 1ms\""), Ok(()));
        for (steps, step) in [
            ("\"cgroup /\", \"burn 1ms\"", "cgroup /"),
            ("\"burn 1ms, cpus 0\"", "cpus 0"),
            ("\"burn 1ms\", \"policy batch\"", "policy batch"),
            ("\"burn 1ms\", \"priority 5\"", "priority 5"),
        ] {
            let error = check(steps).unwrap_err();
            assert!(error.contains(&format!("set `mover` has the step `{step}`")), "{error}");
        }
    }

    #[test]
    fn a_plan_that_the_rules_cannot_judge_is_refused() {
        let check = |window: &str, turns: &str, knob: &str, elsewhere: bool| {
            let text = format!(
                "schema = 1\n[measure]\nduration = \"2s\"\nwindow = \"{window}\"\n{turns}\n\
                 [[variant]]\nname = \"a\"\n{knob}\n[[workload]]\nuse = \"spin\"\n"
            );
            let text = PlanText::new("case.toml", text);
            check_case(&text, elsewhere).map_err(|failure| failure.to_string())
        };
        let kernel = "kernel = \"debian:6.12\"";
        assert!(check("100ms", "", "", true).is_ok());
        assert!(check("100ms", "", kernel, false).is_ok());
        for (window, turns, knob, expected) in [
            ("1s", "", "", "windows of 1s"),
            ("100ms", "turns = \"100ms\"", "", "turns"),
            ("100ms", "", kernel, "variant `a` names a kernel"),
        ] {
            let error = check(window, turns, knob, true).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
