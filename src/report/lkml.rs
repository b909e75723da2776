//! `lkml`: the variants of each record, compared and laid out as for a mail to a kernel list.
//!
//! Input: records. The verdicts are those of `schedlab compare` without the machine's A/A plans,
//! which a record does not bring along. Pure.

use std::io::{self, Write};

use super::compare::Format as _;
use super::page::{Page, Tone};
use super::show::clean;
use super::{Format, Options, compare as formats};
use crate::compare::{self, Comparison, Question, Selection};
use crate::model::{Record, SampledPlan};

pub struct Lkml;

impl Format for Lkml {
    fn name(&self) -> &'static str {
        "lkml"
    }

    fn about(&self) -> &'static str {
        "the variants compared, as tables for a mail to a kernel list, with verdicts below"
    }

    fn render(&self, records: &[Record], options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Page::new(options);
        if records.is_empty() {
            page.line(Tone::Plain, "nothing is stored that was asked for");
        }
        out.write_all(page.text().as_bytes())?;
        for (at, record) in records.iter().enumerate() {
            let mut page = Page::new(options);
            if at > 0 {
                page.gap();
            }
            let title = clean(&record.started.plan.title);
            if records.len() > 1 {
                page.wrapped(Tone::Plain, "", &title);
                page.gap();
            }
            let comparison = comparison(record);
            if comparison.is_none() {
                let text = format!(
                    "`{title}` has one variant: there is nothing to compare it with; hint: \
                     schedlab compare, with two plans, or --format text"
                );
                page.wrapped(Tone::Plain, "", &text);
            }
            out.write_all(page.text().as_bytes())?;
            if let Some(comparison) = comparison {
                formats::lkml::Lkml.render(&comparison, options, out)?;
            }
        }
        Ok(())
    }
}

/// All variants against the first; `None` where there is but one.
fn comparison(record: &Record) -> Option<Comparison> {
    let started = &record.started;
    let variants = started.plan.variants.iter();
    let sides: Vec<Selection> =
        variants.map(|variant| Selection::of_variant(&started.id, &variant.name)).collect();
    if sides.len() < 2 {
        return None;
    }
    let command = format!("schedlab report {} --format lkml", word(&started.id));
    let question = Question::new(sides, command);
    Some(compare::compare(&[SampledPlan::of(record)], &[], &question))
}

/// A word that a shell takes back as it is: ids of stored plans come from outside, too.
fn word(id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    match !id.is_empty() && id.chars().all(is_plain) {
        true => id.to_string(),
        false => format!("'{}'", id.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{self, PlanBuilder, render};

    /// Ten rounds; the variant's wakeups take twice as long.
    fn plan(variants: &[&str]) -> PlanBuilder {
        let mut plan = PlanBuilder::new(10, variants);
        for round in 0..10 {
            for (at, variant) in variants.iter().enumerate() {
                let noise = 1.0 + 0.001 * f64::from((round * 7 + at as u32 * 3) % 10);
                plan.done(round, variant, |run| {
                    run.metric("throughput", 4000.0 * noise)
                        .metric("wakeup_p99", 1e6 * noise * (1 + at) as f64)
                });
            }
        }
        plan
    }

    #[test]
    fn the_variants_of_a_record_are_compared() {
        let shown = render(&Lkml, &[plan(&["default", "batch"]).record()], Options::default());
        for part in [
            "Units         : Normalized 99th percentile wakeup latency in ms\n",
            "Verdicts, batch against default:\n",
            "  WORSE: web threads=4, wakeup_p99, ratio 2.0",
            "  0 BETTER, 1 WORSE, 1 SAME, 0 INCONCLUSIVE\n",
            "  schedlab report 20261121T012600-5a3f --format lkml\n",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }

    #[test]
    fn a_record_of_one_variant_has_nothing_to_compare() {
        let alone = plan(&["default"]).record();
        let shown = render(&Lkml, std::slice::from_ref(&alone), Options::default());
        assert!(shown.contains("has one variant") && shown.contains("hint:"), "{shown}");
        assert!(!shown.contains("Verdicts"), "{shown}");
        let both = [alone, plan(&["default", "batch"]).record()];
        let shown = render(&Lkml, &both, Options::default());
        assert!(shown.contains("has one variant") && shown.contains("Verdicts,"), "{shown}");
        assert_eq!(shown.matches(&both[0].started.plan.title).count(), 3, "{shown}");
    }

    #[test]
    fn names_from_outside_act_on_no_terminal_and_no_shell() {
        let mut record = testing::ordinary().retold("$(x)'\x1b[2J\n").record();
        record.started.plan.title = "\x1b[2J".to_string();
        let shown = render(&Lkml, &[record.clone(), record], Options::default());
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown}");
        assert!(
            shown.contains("schedlab report '$(x)'\\''\\u{1b}[2J\\n' --format lkml"),
            "{shown}"
        );
    }
}
