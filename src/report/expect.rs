//! `schedlab test`: what plans claim, and whether it holds. Pure.

use std::cmp::Reverse;
use std::io::{self, Write};

use minijinja::{Value, context};
use serde::{Serialize, Serializer};

use crate::analysis::{Analysis, FindingOutcome, Note, Outcome, Place, Tested, TestedMetric};
use crate::model::{Claim, Direction, Finding, PlanEnd};
use crate::stats::{Effect, Rounds, Verdict};

use super::json::write_lines;
use super::junit;
use super::layout::{Page, Tone, clean};
use super::markdown::cell;
use super::numbers::{Change, counted, percent};
use super::phrases::{self, Needed};
use super::{Options, OtherFormats};

/// Metrics of one expectation that a line names, at most.
const MAX_METRICS: usize = 4;

/// A plan with what was tested of it.
#[derive(Default, Serialize)]
pub struct TestedPlan {
    /// As the command line names it; what is stored by its title and id.
    pub plan: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<TestedFinding>,
    pub tested: Vec<Tested>,
    /// Why nothing of it was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_tested: Option<String>,
    /// Planned measurements that are missing.
    not_measured: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<RoundsDone>,
    /// The command that tests the same values again.
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<String>,
    /// `None`: it was not run.
    #[serde(rename = "notes", serialize_with = "notes")]
    analysis: Option<Analysis>,
}

#[derive(Serialize)]
struct RoundsDone {
    done: u32,
    until_decided: bool,
    ended: Option<PlanEnd>,
}

/// The notes alone, as the `json` of a report has them.
fn notes<S: Serializer>(analysis: &Option<Analysis>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(analysis.iter().flat_map(|analysis| &analysis.notes))
}

/// A published finding and its outcome.
#[derive(Serialize)]
struct TestedFinding {
    outcome: FindingOutcome,
    #[serde(flatten)]
    finding: Finding,
}

impl TestedPlan {
    pub fn new(
        plan: String,
        finding: Option<Finding>,
        tested: Vec<Tested>,
        analysis: Analysis,
    ) -> Self {
        let outcome = FindingOutcome::from_tested(&tested);
        let finding = finding.map(|finding| TestedFinding { outcome, finding });
        let rounds = analysis.plan().map(|plan| RoundsDone {
            done: plan.rounds_done,
            until_decided: plan.measure.until_decided,
            ended: plan.ended,
        });
        let again = Some(clean(&analysis.command));
        let analysis = Some(analysis);
        let tested =
            TestedPlan { finding, tested, rounds, again, analysis, plan, ..TestedPlan::default() };
        let not_measured = gaps(&tested).into_iter().map(|(word, text)| format!("{word}: {text}"));
        TestedPlan { not_measured: not_measured.collect(), ..tested }
    }

    /// A finding that virtual time cannot show.
    pub fn not_run(plan: String, finding: Finding) -> Self {
        let finding = TestedFinding { outcome: FindingOutcome::NotModelled, finding };
        TestedPlan { finding: Some(finding), plan, ..TestedPlan::default() }
    }

    /// A plan that ended before it was tested, or before it began.
    pub fn not_tested(plan: String, why: &str) -> Self {
        TestedPlan { not_tested: Some(clean(why)), plan, ..TestedPlan::default() }
    }

    /// Planned measurements that are missing.
    pub fn gaps(&self) -> impl Iterator<Item = &Note> {
        let notes = self.analysis.iter().flat_map(|analysis| &analysis.notes);
        notes.filter(|note| note.is_gap())
    }
}

pub const FORMATS: &OtherFormats<[TestedPlan]> =
    &[("text", text), ("junit", junit), ("json", json), ("markdown", markdown)];

fn text(plans: &[TestedPlan], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(options);
    for (at, of) in plans.iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        heading(of, &mut page);
        for tested in &of.tested {
            expectation(of, tested, &mut page);
        }
        for (tone, word, text) in details(of) {
            let gap = if tone == Tone::Bad { ": " } else { "  " };
            page.wrapped(tone, &format!("{word}{gap}"), &text);
        }
    }
    if let Some(summary) = summary(plans) {
        page.gap();
        page.wrapped(Tone::Bold, "", &summary);
    }
    out.write_all(page.text().as_bytes())
}

/// For the page of a CI job: nothing from outside is markup.
pub fn markdown(plans: &[TestedPlan], _: &Options, out: &mut dyn Write) -> io::Result<()> {
    for of in plans {
        writeln!(out, "**{}**\n", cell(&headline(of).1))?;
        if !of.tested.is_empty() {
            writeln!(out, "| | expectation | measured |\n|---|---|---|")?;
        }
        for tested in &of.tested {
            let word = tested.outcome.word();
            let bold = if tested.outcome == Outcome::Holds { "" } else { "**" };
            let claimed = format!("{} {}", clean(&tested.expectation.variant), claim(tested));
            let why = tested.expectation.why.iter().map(|why| clean(why));
            let claimed = phrases::joined(std::iter::once(claimed).chain(why), "; ");
            let found = cell(&found(of.analysis.as_ref(), tested));
            writeln!(out, "| {bold}{word}{bold} | {} | {found} |", cell(&claimed))?;
        }
        writeln!(out)?;
        for (_, word, text) in details(of) {
            writeln!(out, "- {word}: {}", cell(&text))?;
        }
        writeln!(out)?;
    }
    summary(plans).map_or(Ok(()), |summary| writeln!(out, "{summary}"))
}

/// `plan.toml: 1 expectation: 1 HOLD`; of a finding its outcome and what was published.
fn heading(of: &TestedPlan, page: &mut Page) {
    let (tone, line) = headline(of);
    page.wrapped(tone, "", &line);
    if let Some(TestedFinding { finding, .. }) = &of.finding {
        page.wrapped(Tone::Plain, "published  ", &clean(&finding.published));
        page.wrapped(Tone::Plain, "source     ", &clean(&finding.source));
    }
}

fn headline(of: &TestedPlan) -> (Tone, String) {
    let name = clean(&of.plan);
    if let Some(why) = &of.not_tested {
        return (Tone::Bad, format!("{name}: not tested: {why}"));
    }
    let Some(TestedFinding { outcome, finding }) = &of.finding else {
        return (Tone::Bold, format!("{name}: {}", counts(&of.tested)));
    };
    let tone = match outcome {
        FindingOutcome::Reproduced => Tone::Bold,
        FindingOutcome::Open | FindingOutcome::NotModelled => Tone::Warning,
        FindingOutcome::Contradicted => Tone::Bad,
    };
    let of_expectations = match &finding.not_modelled {
        Some(why) => clean(why),
        None => counts(&of.tested),
    };
    (tone, format!("{name}: {}: {of_expectations}", outcome.word()))
}

/// The lines below the expectations, each with its first word.
fn details(of: &TestedPlan) -> Vec<(Tone, &'static str, String)> {
    let gaps = gaps(of).into_iter().map(|(word, text)| (Tone::Bad, word, text));
    let spoilt = spoilt(of).map(|(word, text)| (Tone::Bad, word, text));
    let plan = of.analysis.as_ref().and_then(Analysis::plan);
    let learned = of.finding.as_ref().and_then(|of| of.finding.learned.as_deref());
    let plain = [
        ("measured", plan.and_then(phrases::until_decided)),
        ("more", more(of)),
        ("learned", learned.map(clean)),
        ("again", of.again.clone()),
    ];
    let plain = plain.into_iter().filter_map(|(word, text)| Some((Tone::Plain, word, text?)));
    gaps.chain(spoilt).chain(plain).collect()
}

/// The first word and the sentence of what load from outside spoilt, where it spoilt most rounds.
fn spoilt(of: &TestedPlan) -> Option<(&'static str, String)> {
    let analysis = of.analysis.as_ref()?;
    let mut metrics = of
        .tested
        .iter()
        .flat_map(|tested| tested.metrics.iter().map(|metric| (metric, tested.expectation.claim)));
    phrases::spoilt(analysis, metrics.any(|(metric, claim)| is_marked(analysis, metric, claim)))
}

/// Whether the verdict on a metric is shown, and is one on rounds that load from outside spoilt.
fn is_marked(analysis: &Analysis, metric: &TestedMetric, claim: Claim) -> bool {
    let is_it = |(work, set, row): &Place| {
        work.label == metric.work && set.name == metric.set && row.kind.name == metric.metric
    };
    let verdict = metric.judged.map(|judged| judged.verdict);
    matches!(verdict, Some(Verdict::Better | Verdict::Worse | Verdict::Same))
        && claim.range().is_none()
        && analysis.rows().filter(is_it).any(|(.., row)| analysis.counts_spoilt(row))
}

/// `12 findings: 9 REPRODUCED, 3 CONTRADICTED`, where there are findings.
fn summary(plans: &[TestedPlan]) -> Option<String> {
    let outcomes: Vec<FindingOutcome> =
        plans.iter().filter_map(|of| Some(of.finding.as_ref()?.outcome)).collect();
    let counts = FindingOutcome::ALL.into_iter().filter_map(|outcome| {
        let count = outcomes.iter().filter(|own| **own == outcome).count();
        (count > 0).then(|| format!("{count} {}", outcome.word()))
    });
    let counts = phrases::joined(counts, ", ");
    (!outcomes.is_empty()).then(|| format!("{}: {counts}", counted(outcomes.len(), "finding")))
}

/// Planned measurements that are missing, in words.
fn gaps(of: &TestedPlan) -> Vec<(&'static str, String)> {
    let notes =
        of.analysis.iter().flat_map(|analysis| phrases::folded_notes(analysis, Note::is_gap));
    notes.map(|(_, word, text)| (word, text)).collect()
}

/// `3 expectations: 2 HOLD, 1 OPEN`.
fn counts(tested: &[Tested]) -> String {
    let of = |outcome| tested.iter().filter(|tested| tested.outcome == outcome).count();
    let words = [(Outcome::Holds, "HOLD"), (Outcome::Fails, "FAIL"), (Outcome::Open, "OPEN")];
    let counts = words.map(|(outcome, word)| (of(outcome), word));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    format!("{}: {}", counted(tested.len(), "expectation"), counts.join(", "))
}

/// Each expectation that fails, with the values that decided it.
pub fn failing(analysis: &Analysis, tested: &[Tested]) -> Vec<String> {
    let failing = tested.iter().filter(|tested| tested.outcome == Outcome::Fails);
    let line = |tested: &Tested| {
        let variant = clean(&tested.expectation.variant);
        format!("{variant} {}: {}", claim(tested), found(Some(analysis), tested))
    };
    failing.map(line).collect()
}

fn expectation(of: &TestedPlan, tested: &Tested, page: &mut Page) {
    let tone = match tested.outcome {
        Outcome::Holds => Tone::Plain,
        Outcome::Open => Tone::Warning,
        Outcome::Fails => Tone::Bad,
    };
    let label = format!("{:5}  ", tested.outcome.word());
    let variant = clean(&tested.expectation.variant);
    let found = found(of.analysis.as_ref(), tested);
    page.wrapped(tone, &label, &format!("{variant} {}: {found}", claim(tested)));
    if let Some(why) = &tested.expectation.why {
        page.wrapped(Tone::Plain, "       ", &clean(why));
    }
}

/// `wakeup_p99 is better`, `switches is 0.5x to 0.8x`.
fn claim(tested: &Tested) -> String {
    let expectation = &tested.expectation;
    clean(&format!("{} is {}", expectation.metric, expectation.claim))
}

/// The command that measures what is open with enough rounds: the most that [`found`] names.
fn more(of: &TestedPlan) -> Option<String> {
    let all = of.tested.iter().flat_map(|tested| tested.metrics.iter().map(move |of| (tested, of)));
    let most = all.filter_map(|(tested, metric)| needed(tested, metric)).reduce(phrases::later)?;
    phrases::more_rounds(of.analysis.as_ref()?, most)
}

/// Metrics that may still decide the expectation: one that fails is decided, whatever is open of it.
fn rounds(tested: &Tested, metric: &TestedMetric) -> Option<Rounds> {
    metric.rounds.filter(|_| tested.outcome == Outcome::Open)
}

fn needed(tested: &Tested, metric: &TestedMetric) -> Option<Needed> {
    let needed = rounds(tested, metric)?;
    let of_verdict = metric.judged.filter(|judged| match judged.verdict {
        Verdict::Inconclusive { rounds, .. } => rounds == needed,
        _ => false,
    });
    match (of_verdict, needed) {
        (Some(judged), _) => phrases::rounds(&judged),
        (None, Rounds::Number(rounds)) => Some(Needed::About(rounds)),
        (None, Rounds::MoreThan(rounds)) => Some(Needed::MoreThan(rounds)),
    }
}

/// The results of each metric; those that decide the outcome come first, the one that takes most rounds before all,
/// and all of them are listed where it fails.
fn found(analysis: Option<&Analysis>, tested: &Tested) -> String {
    let mut metrics: Vec<&TestedMetric> = tested.metrics.iter().collect();
    metrics.sort_by_key(|of| (of.outcome != tested.outcome, Reverse(rounds(tested, of))));
    let failing = metrics.iter().filter(|metric| metric.outcome == Outcome::Fails).count();
    let shown: Vec<String> =
        metrics.iter().map(|metric| measured(analysis, metric, tested)).collect();
    if shown.is_empty() {
        "nothing was measured of it".to_string()
    } else {
        phrases::first_of(&shown, failing.max(MAX_METRICS))
    }
}

fn measured(analysis: Option<&Analysis>, metric: &TestedMetric, tested: &Tested) -> String {
    let claim = tested.expectation.claim;
    let place = if metric.work == metric.set {
        format!("{} {}", metric.work, metric.metric)
    } else {
        format!("{} {} {}", metric.work, metric.set, metric.metric)
    };
    // An open verdict matters only where the expectation is open, too.
    let is_open = |of: &Verdict| matches!(of, Verdict::Inconclusive { .. });
    let verdict = metric.judged.map(|judged| judged.verdict);
    let verdict = verdict.filter(|of| metric.outcome == Outcome::Open || !is_open(of));
    let is_marked = analysis.is_some_and(|analysis| is_marked(analysis, metric, claim));
    let mark = if is_marked { phrases::SPOILT } else { "" };
    let word = verdict.map(|of| format!("{}{mark}", phrases::verdict_on(metric.direction, of)));
    let is_range = claim.range().is_some();
    let change = metric.effect.map(|effect| match effect {
        Effect::Ratio(ratio) if is_range => Change::times(&ratio).with_interval(),
        _ => Change::from_effect(&effect, metric.unit).with_interval(),
    });
    let zero = metric.is_all_zero.then(|| {
        if is_range && metric.outcome == Outcome::Open {
            "0 on both sides, which says nothing about such a ratio".to_string()
        } else if metric.direction == Direction::HigherIsBetter {
            "0 on both sides: nothing was done".to_string()
        } else {
            "0 on both sides".to_string()
        }
    });
    let word = word.filter(|_| !is_range).map(|word| match verdict {
        // A table judges more metrics, and may have no SAME where this has one.
        Some(Verdict::Same) if !metric.is_all_zero => {
            format!(
                "{word} among the expected alone (within the margin of {})",
                percent(metric.margin)
            )
        }
        _ => word,
    });
    let family = analysis.map_or(0, |analysis| analysis.method.headline_verdicts);
    let why = metric.judged.filter(|judged| matches!(judged.verdict, Verdict::Unjudged(_)));
    let why = why.and_then(|judged| phrases::why(&judged.verdict, metric.unit, family, "round"));
    let nothing = [&change, &zero, &why].iter().all(|part| part.is_none());
    let nothing = nothing.then(|| match metric.outcome {
        Outcome::Fails => "has no value, since each run of the variant failed".to_string(),
        _ => "was not measured on both sides".to_string(),
    });
    let parts = [Some(clean(&place)), change, zero, word, why, nothing];
    let rounds = needed(tested, metric)
        .zip(analysis)
        .map(|(needed, analysis)| format!("; {} may decide it", phrases::in_all(analysis, needed)));
    phrases::joined(parts.into_iter().flatten(), " ") + &rounds.unwrap_or_default()
}

fn junit(plans: &[TestedPlan], _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let suite = |of: &TestedPlan| {
        let case = |tested: &Tested| {
            let class = clean(&tested.expectation.variant);
            let why = tested.expectation.why.iter().map(|why| clean(why));
            let message = phrases::joined(
                std::iter::once(found(of.analysis.as_ref(), tested)).chain(why),
                "; ",
            );
            let end = match tested.outcome {
                Outcome::Holds => junit::PASSED,
                Outcome::Fails => junit::FAILURE,
                Outcome::Open => junit::SKIPPED,
            };
            junit::case(&class, &claim(tested), end, &message)
        };
        let mut cases: Vec<Value> = of.tested.iter().map(case).collect();
        if let Some(finding) = of.finding.as_ref().filter(|_| of.analysis.is_none()) {
            let why = finding.finding.not_modelled.as_deref().unwrap_or_default();
            let message = format!("{}: {}", finding.outcome.word(), clean(why));
            cases.push(junit::case("finding", &clean(&of.plan), junit::SKIPPED, &message));
        }
        let finding = of.finding.iter().flat_map(|TestedFinding { outcome, finding }| {
            let texts = [("published", &finding.published), ("source", &finding.source)];
            let texts = texts.map(|(name, text)| (name, clean(text)));
            [("outcome", outcome.word().to_string())].into_iter().chain(texts)
        });
        let properties: Vec<_> = finding.chain(spoilt(of)).collect();
        let gaps = of.not_tested.iter().chain(&of.not_measured).cloned();
        let errors = junit::all_measured(gaps.collect());
        context! { name => clean(&of.plan), cases, properties, errors }
    };
    junit::write_suites(&plans.iter().map(suite).collect::<Vec<Value>>(), out)
}

fn json(plans: &[TestedPlan], _: &Options, out: &mut dyn Write) -> io::Result<()> {
    write_lines(plans, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Expectation;
    use crate::report::testing;

    #[test]
    fn a_verdict_on_spoilt_rounds_has_its_mark_and_one_sentence_in_every_format() {
        let of = |metric: &str| Expectation {
            variant: "batch".to_string(),
            metric: metric.to_string(),
            claim: Claim::Worse,
            why: None,
            at: 0..0,
        };
        let mut analysis = testing::ordinary();
        analysis.sides[1].label = "batch".to_string();
        let work = analysis.works[0].label.clone();
        for is_spoilt in [true, false] {
            let works = vec![(work.clone(), 9, 10)];
            analysis.notes = if is_spoilt { vec![Note::AllSpoilt { works }] } else { Vec::new() };
            let tested = crate::analysis::test(&analysis, &[of("throughput"), of("wakeup_p99")]);
            let plan = TestedPlan::new("p".to_string(), None, tested, analysis.clone());
            for (format, render) in FORMATS {
                let mut out = Vec::new();
                render(std::slice::from_ref(&plan), &Options::default(), &mut out).unwrap();
                // Markdown escapes the mark.
                let found = testing::words(&String::from_utf8(out).unwrap()).replace('\\', "");
                if *format == "json" {
                    assert_eq!(found.contains(r#""note": "all_spoilt""#), is_spoilt, "{found}");
                    continue;
                }
                assert_eq!(found.contains("BETTER!"), is_spoilt, "{format}: {found}");
                let sentences = found.matches("(9 of 10)").count();
                assert_eq!(sentences, usize::from(is_spoilt), "{format}: {found}");
                let legend = found.contains("verdicts with ! are about that load");
                assert_eq!(legend, is_spoilt, "{format}: {found}");
            }
        }
    }

    #[test]
    fn the_command_for_more_rounds_has_a_number_that_a_line_above_it_has() {
        let analysis = testing::ordinary();
        let of_all = Expectation {
            variant: analysis.sides[1].label.clone(),
            metric: "*".to_string(),
            claim: Claim::Same,
            why: None,
            at: 0..0,
        };
        let all = crate::analysis::test(&analysis, &[of_all]).remove(0);
        let open = |rounds: u32| TestedMetric {
            outcome: Outcome::Open,
            rounds: Some(Rounds::Number(rounds)),
            ..all.metrics[0].clone()
        };
        let metrics: Vec<TestedMetric> = (100..107).map(open).collect();
        let fails =
            TestedMetric { outcome: Outcome::Fails, rounds: None, ..all.metrics[0].clone() };
        // An expectation that fails is decided, and no command is for it.
        let failing = [fails, open(900)].to_vec();
        let open = Tested { outcome: Outcome::Open, metrics, ..all.clone() };
        let fails = Tested { outcome: Outcome::Fails, metrics: failing, ..all };
        let plan = TestedPlan::new("p".to_string(), None, vec![open, fails], analysis);
        let mut out = Vec::new();
        text(&[plan], &Options::default(), &mut out).unwrap();
        let shown = testing::words(&String::from_utf8(out).unwrap());
        assert!(shown.contains("--rounds 106") && shown.contains("about 106 rounds"), "{shown}");
        assert!(!shown.contains("900"), "{shown}");
    }

    #[test]
    fn one_round_says_the_least_that_decide_and_no_limit_of_the_search() {
        let analysis = testing::ordinary();
        let claim = Expectation {
            variant: analysis.sides[1].label.clone(),
            metric: "*".to_string(),
            claim: Claim::Same,
            why: None,
            at: 0..0,
        };
        let mut tested = crate::analysis::test(&analysis, &[claim]).remove(0);
        tested.outcome = Outcome::Open;
        let rounds = Rounds::MoreThan(1000);
        let why = crate::stats::Why::TooFewRounds { least: 6 };
        let mut metric = TestedMetric { rounds: Some(rounds), ..tested.metrics[0].clone() };
        assert_eq!(needed(&tested, &metric), Some(Needed::MoreThan(1000)));
        metric.judged.as_mut().unwrap().verdict = Verdict::Inconclusive { why, rounds };
        assert_eq!(needed(&tested, &metric), Some(Needed::AtLeast(6)));
    }

    #[test]
    fn a_same_that_fails_names_its_family_and_its_margin() {
        let analysis = testing::ordinary();
        let of = |metric: &str| Expectation {
            variant: analysis.sides[1].label.clone(),
            metric: metric.to_string(),
            claim: Claim::Worse,
            why: None,
            at: 0..0,
        };
        let tested = crate::analysis::test(&analysis, &[of("throughput"), of("wakeup_p99")]);
        let lines = failing(&analysis, &tested);
        let same = |line: &str| line.contains("SAME among the expected alone (within the margin");
        assert!(lines.len() == 2 && same(&lines[0]), "{lines:?}");
        assert!(lines[0].contains("margin of 2 %") && lines[1].contains("BETTER"), "{lines:?}");
    }
}
