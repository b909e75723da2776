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
  <testsuite name="{{ suite.name }}" tests="{{ suite.cases | length + suite.gaps | length }}" failures="{{ suite.cases | selectattr('outcome', 'eq', 'worse') | list | length }}" errors="{{ suite.gaps | length }}" skipped="{{ suite.cases | selectattr('outcome', 'eq', 'open') | list | length }}">
{%- for case in suite.cases %}
    <testcase classname="{{ case.class }}" name="{{ case.name }}">
{%- if case.outcome == "worse" %}<failure message="{{ case.message }}"/>{% endif %}
{%- if case.outcome == "open" %}<skipped message="{{ case.message }}"/>{% endif %}
{%- if case.outcome == "fine" %}<system-out>{{ case.message }}</system-out>{% endif -%}
    </testcase>
{%- endfor %}
{%- for gap in suite.gaps %}
    <testcase classname="schedlab" name="{{ gap.name }}"><error message="{{ gap.message }}"/></testcase>
{%- endfor %}
  </testsuite>
{%- endfor %}
</testsuites>
"#;

pub const JUNIT: Format = Format {
    name: "junit",
    about: "JUnit XML for CI: WORSE fails, open is skipped, what is missing is an error",
    explains: |_| true,
    render: Render::All(write),
};

fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    let suites: Vec<Value> = analyses.iter().map(suite).collect();
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    let text = templates
        .render_named_str("junit.html", TEMPLATE, context! { suites })
        .map_err(io::Error::other)?;
    writeln!(out, "{text}")
}

fn suite(analysis: &Analysis) -> Value {
    let gap = |note| {
        let (word, message) = phrases::note(analysis, note);
        context! { name => format!("{word}: {message}"), message }
    };
    let gaps = analysis.notes.iter().filter(|note| note.is_gap());
    let gaps: Vec<Value> = gaps.map(gap).collect();
    let name = analysis.plan().map_or(String::new(), |plan| clean(&plan.title));
    context! { name, cases => cases(analysis), gaps }
}

/// A test case for each metric and side.
fn cases(analysis: &Analysis) -> Vec<Value> {
    let mut cases = Vec::new();
    for (work, set, row) in analysis.rows_of(Family::Headline) {
        for (side, cell) in analysis.sides.iter().zip(&row.cells).skip(1) {
            let Some(verdict) = cell.verdict() else { continue };
            let is_neutral = row.kind.direction == Direction::Neutral;
            let outcome = match verdict {
                Verdict::Better | Verdict::Worse if is_neutral => "fine",
                Verdict::Worse => "worse",
                Verdict::Better | Verdict::Same => "fine",
                Verdict::Inconclusive { .. } | Verdict::Unjudged(_) => "open",
            };
            let effect = cell.judged.as_ref().and_then(|judged| judged.effect.ok());
            let change =
                effect.map(|effect| Change::from_effect(&effect, row.kind.unit).with_interval());
            let word = phrases::verdict(row, cell).unwrap_or_default();
            let message = format!("{} {word}", change.unwrap_or_default());
            let class = format!("{}.{}", phrases::place(work, set), clean(&side.label));
            let name = clean(&row.kind.name);
            cases.push(context! { class, name, outcome, message });
        }
    }
    cases
}
