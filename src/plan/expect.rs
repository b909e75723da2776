//! `[[expect]]` of a plan: claims about its variants. Pure.

use crate::model::{Claim, Direction, Expectation, Value};

use super::error::Faults;
use super::fields::{EXPECT, MAX_NAME_CHARS, MAX_TITLE_CHARS};
use super::similar::suggestion;
use super::table::{Span, Table, known_keys, quoted_start, sections, text, toml_text};
use super::variants::Variants;

/// The largest margin that a command line may ask for.
const MAX_MARGIN: f64 = 1.0;

/// The expectations in the order written.
pub fn expectations(top: &mut Table, variants: &Variants, faults: &mut Faults) -> Vec<Expectation> {
    let mut found: Vec<Expectation> = Vec::new();
    for mut table in sections(top, "expect", "expect", faults) {
        let header = table.span.clone();
        let made = of_table(&mut table, &header, variants, faults);
        table.finish(&known_keys(&["variant", "metric", "why"], &[EXPECT]), "[[expect]]", faults);
        for expectation in made {
            check_against(&found, &expectation, &header, faults);
            found.push(expectation);
        }
    }
    found
}

/// Notes an earlier expectation that contradicts this one.
fn check_against(
    found: &[Expectation],
    expectation: &Expectation,
    header: &Span,
    faults: &mut Faults,
) {
    let is_of_one = |other: &&Expectation| {
        (&other.variant, &other.metric) == (&expectation.variant, &expectation.metric)
    };
    let mut others = found.iter().filter(is_of_one);
    // The metrics of a pattern and their better direction are known only when the plan runs.
    let agrees = |other: &Expectation| {
        let directions = [Direction::HigherIsBetter, Direction::LowerIsBetter];
        let agrees = |of| expectation.claim.agrees_with(&other.claim, of, MAX_MARGIN);
        directions.into_iter().any(agrees)
    };
    if let Some(other) = others.find(|other| !agrees(other)) {
        let message = format!(
            "`{}` of `{}` is also expected to be {}",
            expectation.metric, expectation.variant, other.claim
        );
        faults.add(header, message, "contradicts it", "leave one of the two out");
    }
}

/// The claims of one `[[expect]]`, for each variant that it names.
fn of_table(
    table: &mut Table,
    header: &Span,
    variants: &Variants,
    faults: &mut Faults,
) -> Vec<Expectation> {
    let compared = compared(table, header, variants, faults);
    let metric = table.take("metric");
    if metric.is_none() {
        let hint = "metric = \"throughput\", \"web/wakeup_p99\": schedlab run PLAN --dry-run";
        faults.add(header, "the expectation has no `metric`", "this expectation", hint);
    }
    let metric = metric.and_then(|entry| text(&entry, MAX_NAME_CHARS * 3, faults));
    let why = table.take("why").and_then(|entry| text(&entry, MAX_TITLE_CHARS, faults));
    let claim = claim(table, header, faults);
    let (Some(metric), Some(claim)) = (metric, claim) else { return Vec::new() };
    let of = |variant: String| {
        let (metric, why) = (metric.to_string(), why.map(str::to_string));
        Expectation { variant, metric, claim, why, at: header.clone() }
    };
    compared.into_iter().map(of).collect()
}

/// `None`: a fault was noted.
fn claim(table: &mut Table, header: &Span, faults: &mut Faults) -> Option<Claim> {
    let is_written = EXPECT.iter().any(|field| table.has(field.name));
    let given = table.take_written(EXPECT, faults);
    let word = given.get("is").and_then(Value::as_text);
    let [from, to] = ["from", "to"].map(|name| given.get(name).and_then(Value::as_times));
    match (word.and_then(Claim::from_word), from.or(to)) {
        (Some(claim), None) => Some(claim),
        (None, Some(_)) if from.zip(to).is_some_and(|(from, to)| from > to) => {
            faults.refuse(header, "`from` is above `to`", "no ratio lies there", "exchange the two")
        }
        (None, Some(_)) => Some(Claim::Ratio { from, to }),
        (Some(_), Some(_)) => {
            let message = "`is` and a range of ratios are two expectations";
            faults.refuse(header, message, "both", "write two [[expect]]")
        }
        // The fault of the value was noted before.
        (None, None) if is_written => None,
        (None, None) => {
            let hint = "write: is = \"better\", or from = \"0.8x\" and to = \"1.1x\"";
            faults.refuse(header, "the expectation expects nothing", "this expectation", hint)
        }
    }
}

/// The named variants. Without names, those of the only table that is compared with the baseline.
fn compared(
    table: &mut Table,
    header: &Span,
    variants: &Variants,
    faults: &mut Faults,
) -> Vec<String> {
    let points = |name: &str| -> Vec<String> {
        let points = variants.named(name).filter(|point| !variants.is_baseline(point));
        points.map(|point| point.name.clone()).collect()
    };
    let others = variants.compared();
    let Some((name, span)) = table.take_name("variant", faults) else {
        if let Some(only) = variants.only_compared() {
            return points(only);
        }
        let hint = match others.as_slice() {
            [] => "a plan with a second [[variant]] has something to compare".to_string(),
            many => format!("write: variant = {}", toml_text(many[0])),
        };
        faults.add(header, "which variant is meant is not said", "this expectation", hint);
        return Vec::new();
    };
    let points = points(&name);
    if points.is_empty() {
        let (message, hint) = match variants.named(&name).next() {
            Some(_) => (
                "the baseline is what others are compared with".to_string(),
                "name another variant".to_string(),
            ),
            None => {
                (format!("no variant is named {}", quoted_start(&name)), suggestion(&name, &others))
            }
        };
        faults.add(&span, message, "this name", hint);
    }
    points
}
