//! `junit`: one test case per headline metric and side, for CI servers: WORSE is a failure, a
//! metric without a verdict is skipped, a gap is an error. The layout is that of the JUnit XML
//! files which Jenkins and GitLab read. Pure.

use std::io::{self, Write};

use minijinja::{Environment, Value, context};

use crate::analysis::{Analysis, Family};
use crate::model::Direction;
use crate::stats::Verdict;

use super::layout::clean;
use super::numbers::Change;
use super::phrases;
use super::{Format, Render};

const TEMPLATE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
{%- for suite in suites %}
  <testsuite name="{{ suite.name }}" tests="{{ suite.cases | length + suite.errors | length }}" failures="{{ suite.cases | selectattr('end', 'eq', 'failure') | list | length }}" errors="{{ suite.errors | length }}" skipped="{{ suite.cases | selectattr('end', 'eq', 'skipped') | list | length }}">
{%- if suite.properties %}
    <properties>
{%- for name, value in suite.properties %}
      <property name="{{ name }}" value="{{ value }}"/>
{%- endfor %}
    </properties>
{%- endif %}
{%- for case in suite.cases %}
    <testcase classname="{{ case.class }}" name="{{ case.name }}">
{%- if case.end == "failure" %}<failure message="{{ case.message }}"/>
{%- elif case.end == "skipped" %}<skipped message="{{ case.message }}"/>
{%- else %}<system-out>{{ case.message }}</system-out>
{%- endif -%}
    </testcase>
{%- endfor %}
{%- for error in suite.errors %}
    <testcase classname="schedlab" name="{{ error.name }}"><error message="{{ error.message }}"/></testcase>
{%- endfor %}
  </testsuite>
{%- endfor %}
</testsuites>
"#;

/// The ends of a [`case`].
pub const FAILURE: &str = "failure";
pub const SKIPPED: &str = "skipped";
pub const PASSED: &str = "passed";

/// Writes suites. Each has a `name`, `cases` and `errors`, which have a `name` and a `message`; it may have
/// `properties`, pairs of a name and a value.
pub fn write_suites(suites: &[Value], out: &mut dyn Write) -> io::Result<()> {
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    let text = templates
        .render_named_str("junit.html", TEMPLATE, context! { suites })
        .map_err(io::Error::other)?;
    writeln!(out, "{text}")
}

/// The error for what was not measured, if anything was not: one name, so that a CI server knows it again.
pub fn all_measured(gaps: Vec<String>) -> Vec<Value> {
    let error = (!gaps.is_empty()).then(|| {
        context! { name => "all is measured", message => phrases::joined(gaps, "; ") }
    });
    error.into_iter().collect()
}

pub fn case(class: &str, name: &str, end: &str, message: &str) -> Value {
    context! { class, name, end, message }
}

pub const JUNIT: Format = Format {
    name: "junit",
    about: "JUnit XML for CI: WORSE fails, open is skipped, what is missing is an error",
    explains: |_| true,
    render: Render::All(write),
};

fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    write_suites(&analyses.iter().map(suite).collect::<Vec<Value>>(), out)
}

fn suite(analysis: &Analysis) -> Value {
    let errors = all_measured(phrases::gaps(analysis));
    let name = analysis.plan().map_or(String::new(), |plan| clean(&plan.title));
    let has_mark = phrases::has_spoilt(analysis, analysis.rows_of(Family::Headline));
    let properties: Vec<_> = phrases::spoilt(analysis, has_mark).into_iter().collect();
    context! { name, cases => cases(analysis), errors, properties }
}

/// A test case for each metric and side.
fn cases(analysis: &Analysis) -> Vec<Value> {
    let mut cases = Vec::new();
    for (work, set, row) in analysis.rows_of(Family::Headline) {
        for (side, cell) in analysis.sides.iter().zip(&row.cells).skip(1) {
            let Some(verdict) = cell.verdict() else { continue };
            let is_neutral = row.kind.direction == Direction::Neutral;
            let end = match verdict {
                Verdict::Better | Verdict::Worse if is_neutral => PASSED,
                Verdict::Worse => FAILURE,
                Verdict::Better | Verdict::Same => PASSED,
                Verdict::Inconclusive { .. } | Verdict::Unjudged(_) => SKIPPED,
            };
            let effect = cell.judged.as_ref().and_then(|judged| judged.effect.ok());
            let change =
                effect.map(|effect| Change::from_effect(&effect, row.kind.unit).with_interval());
            let word = phrases::verdict(analysis, row, cell).unwrap_or_default();
            let message = format!("{} {word}", change.unwrap_or_default());
            let class = format!("{}.{}", phrases::place(work, set), clean(&side.label));
            let name = clean(&row.kind.name);
            cases.push(case(&class, &name, end, &message));
        }
    }
    cases
}
