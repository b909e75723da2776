//! `at`, `for`, `ops`, `delay` and `steps` of worker sets: checks that they fit the run. Pure.

use crate::model::{Measure, Value, ValueError, WorkerSet, show_duration};
use crate::workload::{self, DELAY, RATE, STEPS, Step};

use super::error::Faults;
use super::fields::{AT, FOR, OPS};
use super::table::{Span, quoted_start};

/// The place of one of the keys, and the sets that it is for.
pub struct PhaseKey {
    key: &'static str,
    sets: Vec<usize>,
    span: Span,
}

impl PhaseKey {
    /// `None` for other keys.
    pub fn new(key: &'static str, sets: &[usize], span: &Span) -> Option<PhaseKey> {
        let (sets, span) = (sets.to_vec(), span.clone());
        [AT, FOR, OPS, DELAY, STEPS].contains(&key).then_some(PhaseKey { key, sets, span })
    }
}

/// A fault of a phase, and the key that causes it.
struct PhaseError {
    key: &'static str,
    label: &'static str,
    error: ValueError,
}

/// Checks the phases, and notes the first one that is outside the run or is a burst of programs.
pub fn check_phases(
    sets: &[WorkerSet],
    keys: &[PhaseKey],
    measure: &Measure,
    faults: &mut Faults,
) -> bool {
    let Some((index, PhaseError { key, label, error })) = wrong(sets, measure) else { return true };
    let mut of_set = keys.iter().filter(|of| of.sets.contains(&index));
    // A default is nobody's fault.
    let Some(of) = of_set.find(|of| of.key == key) else { return true };
    faults.add(&of.span, error.message, label, error.hint);
    false
}

/// Checks the phases of a plan whose duration is replaced.
pub fn phases_fit(sets: &[WorkerSet], measure: &Measure) -> Result<(), ValueError> {
    wrong(sets, measure).map_or(Ok(()), |(_, wrong)| Err(wrong.error))
}

/// The first fault, and its set.
fn wrong(sets: &[WorkerSet], measure: &Measure) -> Option<(usize, PhaseError)> {
    let is_timed = is_timed(sets);
    let mut all = sets.iter().enumerate();
    let of_phase = all.find_map(|(index, set)| Some((index, phase_error(set, measure, is_timed)?)));
    let measured = sets.iter().enumerate().filter(|(_, set)| !set.background);
    let idle = |(index, set)| Some((index, step_error(set, measure)?));
    // Another set may have its work done next to one that sleeps or burns to the end.
    let no_pass = || measured.map(idle).collect::<Option<Vec<_>>>()?.into_iter().next();
    of_phase.or_else(|| no_pass().filter(|_| is_timed))
}

/// Whether a run ends when its time is up: with programs that are measured it ends when they have ended.
fn is_timed(sets: &[WorkerSet]) -> bool {
    !sets.iter().any(|set| runs_programs(set) && !set.background)
}

fn phase_error(set: &WorkerSet, measure: &Measure, is_timed: bool) -> Option<PhaseError> {
    let duration_ns = measure.duration_ns;
    let Some(phase) = set.phase else {
        return delay_error(set, is_timed.then(|| runs_ns(set, measure))?);
    };
    let run = format!("a run has {}", show_duration(duration_ns));
    let (at_ns, end_ns) = (phase.at_ns, phase.end_ns().unwrap_or(phase.at_ns));
    let name = quoted_start(&set.name);
    let (key, label, message, hint) = if at_ns >= duration_ns {
        let message = format!("{name} begins at {}, and {run}", show_duration(at_ns));
        let hint = "begin earlier, or lengthen `duration`, which is without the warm-up";
        (AT, "not in the run", message, hint.to_string())
    } else if end_ns > duration_ns {
        let message = format!("{name} ends at {}, and {run}", show_duration(end_ns));
        let left = show_duration(duration_ns - at_ns);
        let hint = format!("at most \"{left}\"; without `{FOR}` it goes on to the end");
        (FOR, "beyond the run", message, hint)
    } else if phase.ops.is_some() && runs_programs(set) {
        let message = format!("`{OPS}` does not go with programs");
        let hint = format!("`{FOR}` says how long they are executed again: {FOR} = \"1s\"");
        (OPS, "not here", message, hint)
    } else {
        let is_known = is_timed || phase.for_ns.is_some();
        return delay_error(set, is_known.then(|| runs_ns(set, measure))?);
    };
    Some(PhaseError { key, label, error: ValueError { message, hint } })
}

/// How long its workers run, where the run ends when its time is up.
fn runs_ns(set: &WorkerSet, measure: &Measure) -> u64 {
    match set.phase {
        None => measure.warmup_ns.saturating_add(measure.duration_ns),
        Some(phase) => phase.for_ns.unwrap_or(measure.duration_ns.saturating_sub(phase.at_ns)),
    }
}

/// Workers that come to a step in their first pass which lasts as long as they run end no pass.
fn step_error(set: &WorkerSet, measure: &Measure) -> Option<PhaseError> {
    let script = workload::step_script(&set.params).ok().filter(|_| set.workload == STEPS)?;
    let runs_ns = runs_ns(set, measure);
    // Workers share parts.
    let phase = script.phases.first().filter(|phase| phase.part.is_none())?;
    let mut steps = phase.steps.iter().map(Step::shortest_ns).zip(1..);
    let (takes_ns, number) = steps.find(|(takes_ns, _)| *takes_ns >= runs_ns)?;
    let message = format!(
        "step {number} of {} takes {}, and its workers have {} in all: no pass ends",
        quoted_start(&set.name),
        show_duration(takes_ns),
        show_duration(runs_ns)
    );
    let is_slowed =
        set.params.get(RATE.name).and_then(Value::as_times).is_some_and(|rate| rate < 1.0);
    let larger = if is_slowed { "a larger `rate`, " } else { "" };
    let hint = format!("{larger}a shorter step, or a longer `duration`");
    let error = ValueError { message, hint };
    Some(PhaseError { key: STEPS, label: "no pass would end", error })
}

/// Workers whose delay lasts as long as they run do nothing.
fn delay_error(set: &WorkerSet, runs_ns: u64) -> Option<PhaseError> {
    let delay_ns = set.params.get(DELAY).and_then(Value::as_duration_ns)?;
    if delay_ns < runs_ns {
        return None;
    }
    let (delay, runs) = (show_duration(delay_ns), show_duration(runs_ns));
    let from = if set.phase.is_some() { "`at`" } else { "the warm-up" };
    let message = format!(
        "{} sleeps for {delay} before its first step, and has {runs} in all",
        quoted_start(&set.name)
    );
    let longer =
        if set.phase.is_some_and(|phase| phase.for_ns.is_some()) { FOR } else { "duration" };
    let hint = format!("a shorter `{DELAY}`, which counts from {from} on, or a longer `{longer}`");
    let error = ValueError { message, hint };
    Some(PhaseError { key: DELAY, label: "it would never run", error })
}

fn runs_programs(set: &WorkerSet) -> bool {
    workload::find(&set.workload).is_some_and(|workload| workload.spec().runs_programs)
}

#[cfg(test)]
mod tests {
    use crate::model::testing::rows;
    use crate::model::{Phase, Plan, WorkerSet};
    use crate::plan::{Known, PlanErrors, parse};

    fn read(works: &str) -> Result<Plan, PlanErrors> {
        let text = format!("schema = 1\n[measure]\nduration = \"3s\"\n[[workload]]\n{works}\n");
        parse("p.toml", &text, None, Known::default())
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn phases_are_of_sets_and_may_be_axes() {
        let phases = |works: &str| -> Vec<(String, Vec<Option<Phase>>)> {
            let plan = read(works).expect(works);
            let of_sets = |sets: &[WorkerSet]| sets.iter().map(|set| set.phase).collect();
            plan.works.iter().map(|work| (work.label(), of_sets(&work.sets))).collect()
        };
        let phase = |at_ms: u64, for_ms: Option<u64>, ops| {
            Some(Phase { at_ns: at_ms * MS, for_ns: for_ms.map(|ms| ms * MS), ops })
        };
        let of = |label: &str, phases: &[Option<Phase>]| (label.to_string(), phases.to_vec());
        let cases = [
            ("use = \"spin\"", vec![of("spin", &[None])]),
            ("use = \"spin\"\nfor = \"1s\"", vec![of("spin", &[phase(0, Some(1000), None)])]),
            ("use = \"spin\"\nops = 5", vec![of("spin", &[phase(0, None, Some(5))])]),
            (
                "use = \"spin\"\nat = [\"1s\", \"2s\"]\nfor = \"1s\"",
                vec![
                    of("spin at=1s", &[phase(1000, Some(1000), None)]),
                    of("spin at=2s", &[phase(2000, Some(1000), None)]),
                ],
            ),
            (
                "name = \"m\"\nat = \"1s\"\nfor = \"1s\"\n[[workload.set]]\nuse = \"pipe\"\n\
                 [[workload.set]]\nuse = \"spin\"\nat = \"500ms\"\n\
                 [[workload.background]]\nuse = \"c-ray\"\nat = \"7ms\"",
                vec![of(
                    "m",
                    &[
                        phase(1000, Some(1000), None),
                        phase(500, Some(1000), None),
                        phase(7, None, None),
                    ],
                )],
            ),
        ];
        for (works, expected) in cases {
            assert_eq!(phases(works), expected, "{works}");
        }
    }

    /// A set's want while it is active does not depend on the time of its phase.
    #[test]
    fn a_solo_run_has_no_phase_and_is_made_once() {
        let plan = read("use = \"spin\"\ncount = 2\nsolo = true\nat = [\"2s\", \"1s\"]").unwrap();
        let works: Vec<_> =
            plan.works.iter().map(|work| (work.label(), work.sets[0].phase)).collect();
        let labels: Vec<&str> = works.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["spin solo spin", "spin at=2s", "spin at=1s"]);
        assert_eq!(works[0].1, None);
        assert!(plan.works[0].solo().is_some());
        let one = read("use = \"spin\"\nat = \"1s\"").unwrap();
        assert!(one.works[0].solo().is_none(), "it shows less than a solo run");
    }

    #[test]
    fn what_does_not_go_with_the_run_is_refused_where_it_is_written() {
        let set =
            "name = \"m\"\n[[workload.set]]\nuse = \"pipe\"\n[[workload.set]]\nuse = \"spin\"\n";
        let command = "use = \"command\"\ncommand = [\"true\"]\n";
        let hold = |works: &str, expected: Option<&str>| {
            let errors = read(works).map_or_else(|errors| errors.to_string(), |_| String::new());
            match expected {
                None => assert_eq!(errors, "", "{works}"),
                Some(message) => {
                    assert!(errors.starts_with(&format!("p.toml:{message}")), "{works}\n{errors}");
                    assert_eq!(errors.lines().count(), 1, "{errors}");
                }
            }
        };
        let table = r#"
            use = "spin" | at = "3s" => 6:1: `spin` begins at 3s, and a run has 3s
            use = "spin" | at = ["1s", "4s"] => 6:1: `spin` begins at 4s
            use = "spin" | for = "4s" => 6:1: `spin` ends at 4s
            use = "spin" | at = 1 => 6:6: `1` has no unit
            use = "spin" | ops = 0 => 6:7: 0 is below the least
            use = "steps" | delay = "3999ms" =>
            use = "steps" | delay = "4s" => 6:1: `steps` sleeps for 4s before its first step, and has 4s in all
            use = "steps" | delay = ["0s", "1s"] | at = "2s"
              => 6:1: `steps` sleeps for 1s before its first step, and has 1s in all
            use = "steps" | delay = "1s" | for = "1s" => 6:1: `steps` sleeps for 1s
            use = "steps" | steps = ["burn 1ms", "sleep 4s|5s"]
              => 6:1: step 2 of `steps` takes 4s, and its workers have 4s in all
            use = "steps" | steps = ["timer 2h"] | at = "1s"
              => 6:1: step 1 of `steps` takes 2h, and its workers have 2s in all
            use = "steps" | steps = ["burn 3999ms|9s"] =>
            use = "steps" | steps = ["phase 1", "burn 1ms", "phase 1", "sleep 1h"] =>
            use = "steps" | steps = ["part a", "burn 1h"] | order = "a" =>
            name = "m" | [[workload.set]] | use = "steps" | delay = "9s" | [[workload.set]] | use = "command" | command = ["true"]
              =>
        "#;
        rows(table).iter().for_each(|(text, expected)| hold(text, expected.first().copied()));
        let cases = [
            (format!("{set}at = \"1s\"\nfor = \"2001ms\""), Some("11:1: `spin` ends at 3001ms")),
            (format!("{set}at = \"1s\"\nfor = \"2s\""), None),
            (format!("{command}ops = 1"), Some("7:1: `ops` does not go with programs")),
            (format!("{command}for = \"1s\""), None),
            (format!("{set}[[workload.set]]\nuse = \"steps\"\nsteps = [\"burn 1h\"]"), None),
        ];
        cases.iter().for_each(|(works, expected)| hold(works, *expected));
    }

    /// Older schedlabs wrote sets without phases; a set without a phase is still written like that.
    #[test]
    fn a_set_without_a_phase_is_stored_as_it_was() {
        let plan = read("use = \"spin\"").unwrap();
        let stored = serde_json::to_string(&plan).unwrap();
        assert!(!stored.contains("phase"), "{stored}");
        assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
        let phased = read("use = \"spin\"\nat = \"1s\"\nfor = \"1s\"\nops = 3").unwrap();
        let stored = serde_json::to_string(&phased).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), phased);
    }
}
