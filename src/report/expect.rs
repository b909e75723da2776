//! `schedlab test`: what plans claim, and whether it holds. Pure.

use std::io::{self, Write};

use minijinja::{Environment, Value, context};
use serde::Serialize;

use crate::analysis::{Analysis, FindingOutcome, Note, Outcome, Tested, TestedMetric};
use crate::model::Finding;
use crate::stats::Verdict;

use super::Options;
use super::json::escaped;
use super::layout::{Page, Tone, clean};
use super::numbers::{Change, counted};
use super::phrases;

/// A plan with what was tested of it.
#[derive(Serialize)]
pub struct TestedPlan<'a> {
    /// As the command line names it.
    pub plan: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<TestedFinding>,
    pub tested: Vec<Tested>,
    /// `None`: it was not run.
    #[serde(skip)]
    analysis: Option<Analysis>,
}

/// What was published, and what became of it.
#[derive(Serialize)]
struct TestedFinding {
    outcome: FindingOutcome,
    #[serde(flatten)]
    finding: Finding,
}

impl<'a> TestedPlan<'a> {
    pub fn new(
        plan: &'a str,
        finding: Option<Finding>,
        tested: Vec<Tested>,
        analysis: Analysis,
    ) -> Self {
        let outcome = FindingOutcome::of(&tested);
        let finding = finding.map(|finding| TestedFinding { outcome, finding });
        TestedPlan { plan, finding, tested, analysis: Some(analysis) }
    }

    /// A finding that virtual time cannot show.
    pub fn not_run(plan: &'a str, finding: Finding) -> Self {
        let finding = TestedFinding { outcome: FindingOutcome::NotModelled, finding };
        TestedPlan { plan, finding: Some(finding), tested: Vec::new(), analysis: None }
    }

    /// What was to be measured and was not.
    pub fn gaps(&self) -> impl Iterator<Item = &Note> + Clone {
        let notes = self.analysis.iter().flat_map(|analysis| &analysis.notes);
        notes.filter(|note| note.is_gap())
    }
}

type Render = fn(&[TestedPlan], &Options, &mut dyn Write) -> io::Result<()>;

/// By name, the default first.
pub const FORMATS: &[(&str, Render)] = &[("text", text), ("junit", junit), ("json", json)];

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
        for (word, text) in gaps(of) {
            page.wrapped(Tone::Bad, &format!("{word}: "), &text);
        }
        let plan = of.analysis.as_ref().and_then(Analysis::plan);
        if let Some(rounds) = plan.and_then(phrases::until_decided) {
            page.wrapped(Tone::Plain, "rounds ", &rounds);
        }
        if let Some(learned) = of.finding.as_ref().and_then(|of| of.finding.learned.as_ref()) {
            page.wrapped(Tone::Plain, "learned  ", &clean(learned));
        }
        if let Some(analysis) = &of.analysis {
            page.wrapped(Tone::Plain, "again  ", &clean(&analysis.command));
        }
    }
    if let Some(summary) = summary(plans) {
        page.gap();
        page.wrapped(Tone::Bold, "", &summary);
    }
    out.write_all(page.text().as_bytes())
}

/// `plan.toml: 1 expectation: 1 HOLD`; of a finding its outcome and what was published.
fn heading(of: &TestedPlan, page: &mut Page) {
    let name = clean(of.plan);
    let Some(TestedFinding { outcome, finding }) = &of.finding else {
        return page.wrapped(Tone::Bold, "", &format!("{name}: {}", counts(&of.tested)));
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
    page.wrapped(tone, "", &format!("{name}: {}: {of_expectations}", outcome.word()));
    page.wrapped(Tone::Plain, "published  ", &clean(&finding.published));
    page.wrapped(Tone::Plain, "source     ", &clean(&finding.source));
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

/// What was to be measured and was not, in words.
fn gaps(of: &TestedPlan) -> Vec<(&'static str, String)> {
    let Some(analysis) = &of.analysis else { return Vec::new() };
    of.gaps().map(|note| phrases::note(analysis, note)).collect()
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

fn expectation(of: &TestedPlan, tested: &Tested, page: &mut Page) {
    let tone = match tested.outcome {
        Outcome::Holds => Tone::Plain,
        Outcome::Open => Tone::Warning,
        Outcome::Fails => Tone::Bad,
    };
    let label = format!("{:5}  ", tested.outcome.word());
    let variant = clean(&tested.expectation.variant);
    page.wrapped(tone, &label, &format!("{variant} {}: {}", claim(tested), found(of, tested)));
    if let Some(why) = &tested.expectation.why {
        page.wrapped(Tone::Plain, "       ", &clean(why));
    }
}

/// `wakeup_p99 is better`, `switches is 0.5x to 0.8x`.
fn claim(tested: &Tested) -> String {
    let expectation = &tested.expectation;
    clean(&format!("{} is {}", expectation.metric, expectation.claim))
}

/// What was measured of each metric; those that the outcome is of come first.
fn found(of: &TestedPlan, tested: &Tested) -> String {
    let mut metrics: Vec<&TestedMetric> = tested.metrics.iter().collect();
    metrics.sort_by_key(|metric| metric.outcome != tested.outcome);
    let shown: Vec<String> = metrics.iter().map(|metric| measured(of, metric)).collect();
    if shown.is_empty() {
        "nothing was measured of it".to_string()
    } else {
        phrases::first_of(&shown, 4)
    }
}

fn measured(of: &TestedPlan, metric: &TestedMetric) -> String {
    let place = match metric.work == metric.set {
        true => format!("{} {}", metric.work, metric.metric),
        false => format!("{} {} {}", metric.work, metric.set, metric.metric),
    };
    // That a verdict is open matters where the expectation is.
    let is_open = |of: &Verdict| matches!(of, Verdict::Inconclusive { .. });
    let verdict = metric.judged.map(|judged| judged.verdict);
    let verdict = verdict.filter(|of| metric.outcome == Outcome::Open || !is_open(of));
    let rows = of.analysis.iter().flat_map(Analysis::rows);
    let direction = rows
        .filter(|(work, set, row)| {
            (&work.label, &set.name, &row.kind.name) == (&metric.work, &metric.set, &metric.metric)
        })
        .map(|(.., row)| row.kind.direction)
        .next();
    let word = verdict.zip(direction).map(|(of, direction)| phrases::verdict_on(direction, of));
    let change = metric.ratio.as_ref().map(|ratio| Change::of(ratio).with_interval());
    let rounds = verdict.as_ref().filter(|of| is_open(of));
    let rounds =
        rounds.and_then(phrases::rounds).map(|needed| format!("; {}", phrases::decides(needed)));
    let parts = [Some(clean(&place)), change, word.map(str::to_string)];
    phrases::joined(parts.into_iter().flatten(), " ") + &rounds.unwrap_or_default()
}

const TEMPLATE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
{%- for suite in suites %}
  <testsuite name="{{ suite.name }}" tests="{{ suite.cases | length + suite.gaps | length }}" failures="{{ suite.cases | selectattr('outcome', 'eq', 'FAILS') | list | length }}" errors="{{ suite.gaps | length }}" skipped="{{ suite.cases | selectattr('outcome', 'eq', 'OPEN') | list | length }}">
{%- for case in suite.cases %}
    <testcase classname="{{ case.class }}" name="{{ case.name }}">
{%- if case.outcome == "FAILS" %}<failure message="{{ case.message }}"/>{% endif %}
{%- if case.outcome == "OPEN" %}<skipped message="{{ case.message }}"/>{% endif %}
{%- if case.outcome == "HOLDS" %}<system-out>{{ case.message }}</system-out>{% endif -%}
    </testcase>
{%- endfor %}
{%- for gap in suite.gaps %}
    <testcase classname="schedlab" name="{{ gap }}"><error message="{{ gap }}"/></testcase>
{%- endfor %}
  </testsuite>
{%- endfor %}
</testsuites>
"#;

fn junit(plans: &[TestedPlan], _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let suite = |of: &TestedPlan| {
        let case = |tested: &Tested| {
            let class = clean(&tested.expectation.variant);
            context! { class, name => claim(tested), outcome => tested.outcome.word(), message => found(of, tested) }
        };
        let mut cases: Vec<Value> = of.tested.iter().map(case).collect();
        if let Some(finding) = of.finding.as_ref().filter(|_| of.analysis.is_none()) {
            let why = finding.finding.not_modelled.as_deref().unwrap_or_default();
            let outcome = Outcome::Open.word();
            let message = format!("{}: {}", finding.outcome.word(), clean(why));
            cases.push(context! { class => "finding", name => clean(of.plan), outcome, message });
        }
        let gaps: Vec<String> =
            gaps(of).into_iter().map(|(word, text)| format!("{word}: {text}")).collect();
        context! { name => clean(of.plan), cases, gaps }
    };
    let suites: Vec<Value> = plans.iter().map(suite).collect();
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    let text = templates
        .render_named_str("expect.html", TEMPLATE, context! { suites })
        .map_err(io::Error::other)?;
    writeln!(out, "{text}")
}

fn json(plans: &[TestedPlan], _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let json = serde_json::to_string_pretty(plans)?;
    writeln!(out, "{}", escaped(&json))
}
