//! `schedlab hunt --confirm`: says on which kernels a case, or any plan, breaks a rule, and draws it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::backend::lab::kernel;
use crate::hunt::{WINDOW_MS, registry};
use crate::model::{PlanEnd, clean, show_duration};
use crate::plan;
use crate::session::{self, PlanText, SessionError, WatchRequest, Watcher};

use super::hunt_run::{
    Fault, Judged, NEAR, SEEDS, broken, file_of_case, judge, make, print, trace,
};
use super::{Database, Failure};
use crate::report::numbers::counted;

/// Fails where the rules could not judge a plan, or would judge another kernel than the one they name.
fn check_case(text: &PlanText, kernels: &[String]) -> Result<(), Failure> {
    let plan = plan::parse(&text.name, &text.text, None, session::known())?;
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

/// Says for each kernel with how many seeds a plan breaks which rules. Pictures go to `output`, or next to the case.
pub fn confirm(
    case: &str,
    kernels: &[String],
    output: Option<&Path>,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let text = session::load_or_stored(case, &Database::default())?;
    check_case(&text, kernels)?;
    for name in kernels {
        kernel::find(name).map_err(|error| Failure::from_advice(&error))?;
    }
    let own = kernels.is_empty().then_some(None);
    let asked: Vec<Option<&str>> =
        kernels.iter().map(|kernel| Some(kernel.as_str())).chain(own).collect();
    let case = Path::new(case);
    let folder = output.unwrap_or(case.parent().unwrap_or(Path::new("")));
    if output.is_some() {
        make(folder)?;
    }
    let name = case.file_stem().unwrap_or_default().to_string_lossy();
    let (mut holds, mut watcher) = (0, Watcher::default());
    for kernel in &asked {
        let stem = folder.join(file_stem(&name, *kernel));
        let request =
            WatchRequest { text: text.clone(), kernel: *kernel, seeds: Some(SEEDS), traced: false };
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

/// Whether a rule is broken; the worst one is drawn.
fn confirm_on(
    watcher: &mut Watcher,
    request: WatchRequest,
    stem: &Path,
    name: &str,
    stop: &AtomicBool,
) -> Result<bool, Failure> {
    let (mut all, mut found, mut failed) = (0, Vec::new(), None);
    let mut nearest: BTreeMap<&str, f64> = BTreeMap::new();
    let end = watcher.watch(request.clone(), stop, &mut |run| {
        all += 1;
        match judge(&run) {
            Ok(judged) => {
                for own in &judged {
                    let largest = nearest.entry(own.rule.name()).or_default();
                    *largest = own.judgement.distance.max(*largest);
                }
                found.extend(broken(judged));
            }
            Err(reason) => _ = failed.get_or_insert(reason),
        }
    })?;
    let interrupted = || SessionError::Interrupted("interrupted; nothing is written".into());
    if end == PlanEnd::Interrupted {
        return Err(interrupted().into());
    }
    let kernel = request.kernel.unwrap_or("the plan's own kernel");
    if let Some(reason) = failed {
        let text = format!("{kernel}: a run gave no result: {}", clean(&reason));
        return Err(Failure::here(text, "schedlab doctor --lab"));
    }
    if let Some(failed) = found.iter_mut().rev().find(|own| own.console.is_some()) {
        failed.keep_console(&file_of_case(stem, ".log"))?;
    }
    let mut text = format!("{kernel}: {}", outcome(&found, &nearest, all));
    if let Some(rule) = gravest(&found) {
        let fault = Fault::Broken(rule);
        let title = format!("{name}: {rule} on {kernel}");
        let traced = trace(watcher, request, all / SEEDS, fault, stem, &title, stop)?
            .ok_or_else(interrupted)?;
        text += &format!(
            ". With the trace on in {} of {} runs. {}",
            traced.broken, traced.runs, traced.about
        );
    }
    print(&text)?;
    Ok(!found.is_empty())
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

    #[test]
    fn the_rules_can_judge_every_case() {
        for case in plan::cases() {
            let text = session::load(case.name).unwrap();
            let checked = check_case(&text, &["debian:6.18".to_string()]);
            assert!(checked.is_ok(), "{}: {}", case.name, checked.unwrap_err());
        }
    }

    #[test]
    fn a_plan_that_the_rules_cannot_judge_is_refused() {
        let check = |window: &str, turns: &str, knob: &str, kernels: &[&str]| {
            let text = format!(
                "schema = 1\n[measure]\nduration = \"2s\"\nwindow = \"{window}\"\n{turns}\n\
                 [[variant]]\nname = \"a\"\n{knob}\n[[workload]]\nuse = \"spin\"\n"
            );
            let text = PlanText::new("case.toml", text);
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
