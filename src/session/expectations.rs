//! The expectations of a plan: whether they can be tested, before anything runs, and whether the
//! stored values meet them.

use crate::analysis::{self, Analysis, Question, Tested};
use crate::model::{Cell, Expectation, Judged, Plan, PlanHead, ProbeSpec, clean};
use crate::plan::Faults;
use crate::probe;
use crate::store::Store;

use super::metrics::{self, Added, Place};
use super::{Database, PlanText, SessionError, sides};

/// Fails where an expectation names no metric, wants what a counter cannot be, or contradicts another
/// one on a metric that both name.
pub fn check(
    plan: &Plan,
    cells: &[Cell],
    judged: &Judged,
    text: &PlanText,
) -> Result<(), SessionError> {
    find_fault(plan, cells, judged)
        .map_err(|faults| SessionError::Plan(faults.into_errors(&text.name, &text.text)))
}

fn find_fault(plan: &Plan, cells: &[Cell], judged: &Judged) -> Result<(), Faults> {
    let all = &plan.expectations;
    let of_one_variant = &plan.cells_of_baseline(cells);
    let places = || metrics::places(of_one_variant, Added::by(plan), &[], false);
    if let Some(of) = all.iter().find(|of| !places().any(|place| place.is_taken_by(&of.metric))) {
        let message = format!("`{}` names no metric of this plan", clean(&of.metric));
        let by_probe = probe_of(&of.metric, of_one_variant);
        let hint = by_probe.unwrap_or_else(|| metrics::hint(&of.metric, places()));
        return Err(Faults::one(&of.at, message, "this expectation", hint));
    }
    let mut has_place = vec![false; all.len()];
    for place in places() {
        let is_meant = |at: &usize| {
            let Expectation { metric, claim, .. } = &all[*at];
            place.is_taken_by(metric) && claim.is_of(place.kind.direction)
        };
        let meant: Vec<usize> = (0..all.len()).filter(is_meant).collect();
        meant.iter().for_each(|at| has_place[*at] = true);
        agree(&place, meant.iter().map(|at| &all[*at]), judged)?;
    }
    match has_place.iter().position(|has_place| !has_place) {
        None => Ok(()),
        Some(at) => Err(undirected(&all[at])),
    }
}

/// The hint where a probe that the plan does not have counts such a metric.
fn probe_of(metric: &str, cells: &[Cell]) -> Option<String> {
    let counts = |probe: &&&ProbeSpec| {
        let own = [probe.name.to_string()];
        let added = Added { probes: &own, ..Added::default() };
        metrics::places(cells, added, &[], false).any(|place| place.is_taken_by(metric))
    };
    let probe = probe::specs().iter().find(counts)?;
    Some(format!("a probe counts it: write probes = [\"{}\"] at the plan's top", probe.name))
}

/// Whether all of these can hold of the metric that stands there.
fn agree<'e>(
    place: &Place,
    expectations: impl Iterator<Item = &'e Expectation>,
    judged: &Judged,
) -> Result<(), Faults> {
    let question = Question::new(Vec::new(), String::new()).judging(judged);
    let margin = question.margin_of(&place.work, &place.set, &place.kind);
    let mut before: Vec<&Expectation> = Vec::new();
    for one in expectations {
        let of_one = before.iter().filter(|other| other.variant == one.variant);
        let mut others = of_one
            .filter(|other| !other.claim.agrees_with(&one.claim, place.kind.direction, margin));
        if let Some(other) = others.next() {
            let Place { work, set, kind, .. } = place;
            let metric = format!("{work}/{set}/{}", kind.name);
            let text = format!(
                "`{}` of `{}` cannot be {} (metric `{}`) and {} (metric `{}`)",
                clean(&metric),
                clean(&one.variant),
                other.claim,
                clean(&other.metric),
                one.claim,
                clean(&one.metric)
            );
            let hint = "leave one of the two expectations out";
            return Err(Faults::one(&one.at, text, "contradicts the other", hint));
        }
        before.push(one);
    }
    Ok(())
}

fn undirected(of: &Expectation) -> Faults {
    let text = format!(
        "`{}` cannot be {}: more of it is neither better nor worse",
        clean(&of.metric),
        of.claim
    );
    let hint =
        "write is = \"more\" or is = \"less\", or a range: from = \"0.9x\"; schedlab help expect";
    Faults::one(&of.at, text, "neither better nor worse", hint)
}

/// Tests the expectations of a stored plan, and returns the analysis as well. Options that were not given are
/// those that the plan was begun with.
pub fn test(
    store: &Store,
    head: &PlanHead,
    judged: &Judged,
    db: &Database,
) -> Result<(Vec<Tested>, Analysis), SessionError> {
    let judged = judged.or(&store.plan_started(&head.id)?.judged);
    let variants = sides::variants(head);
    let plans = sides::sampled(store, &variants)?;
    let expectations = plans.iter().flat_map(|plan| &plan.plan.expectations).cloned();
    let expectations: Vec<Expectation> = expectations.collect();
    if expectations.is_empty() {
        return Err(nothing(&head.title));
    }
    let command = db.command(&format!("test plan={}", head.id)) + &judged.words();
    let mut question = sides::question(&judged, variants, command, false, db);
    question.metrics = analysis::expected_metrics(&expectations);
    let analysis = sides::analyse(store, &plans, question)?;
    Ok((analysis::test(&analysis, &expectations), analysis))
}

/// The plan expects nothing.
pub fn nothing(title: &str) -> SessionError {
    let text = format!("the plan `{}` expects nothing", clean(title));
    let hint = "add [[expect]] with metric = \"throughput\", is = \"better\": schedlab help expect";
    SessionError::usage(text, hint)
}
