//! `[[expect]]` of a plan: what it claims of its variants. Pure.

use crate::model::{Claim, Expectation, Value, Variant};

use super::error::Faults;
use super::fields::{EXPECT, MAX_NAME_CHARS, MAX_TITLE_CHARS};
use super::similar::suggestion;
use super::table::{Span, Table, known_keys, sections, text};

/// In the order written.
pub fn expectations(
    top: &mut Table,
    variants: &[Variant],
    faults: &mut Faults,
) -> Vec<Expectation> {
    let mut found: Vec<Expectation> = Vec::new();
    for mut table in sections(top, "expect", "expect", faults) {
        let header = table.span.clone();
        let expectation = expectation(&mut table, &header, variants, faults);
        table.finish(&known_keys(&["variant", "metric", "why"], &[EXPECT]), "[[expect]]", faults);
        let Some(expectation) = expectation else { continue };
        let is_of_one = |other: &&Expectation| {
            (&other.variant, &other.metric) == (&expectation.variant, &expectation.metric)
        };
        let mut others = found.iter().filter(is_of_one);
        if let Some(other) = others.find(|other| !other.claim.agrees_with(&expectation.claim)) {
            let message = format!(
                "`{}` of `{}` is also expected to be {}",
                expectation.metric, expectation.variant, other.claim
            );
            faults.add(&header, message, "contradicts it", "leave one of the two out");
        }
        found.push(expectation);
    }
    found
}

fn expectation(
    table: &mut Table,
    header: &Span,
    variants: &[Variant],
    faults: &mut Faults,
) -> Option<Expectation> {
    let variant = variant(table, header, variants, faults);
    let metric = table.take("metric");
    if metric.is_none() {
        let hint = "metric = \"throughput\", \"web/wakeup_p99\": schedlab run PLAN --dry-run";
        faults.add(header, "the expectation has no `metric`", "this expectation", hint);
    }
    let metric = metric.and_then(|entry| text(&entry, MAX_NAME_CHARS * 3, faults));
    let why = table.take("why").and_then(|entry| text(&entry, MAX_TITLE_CHARS, faults));
    let is_written = EXPECT.iter().any(|field| table.has(field.name));
    let given = table.take_written(EXPECT, faults);
    let word = given.get("is").and_then(Value::as_text);
    let [from, to] = ["from", "to"].map(|name| given.get(name).and_then(Value::as_times));
    let claim = match (word.and_then(Claim::from_word), from.or(to)) {
        (Some(claim), None) => claim,
        (None, Some(_)) if from.zip(to).is_some_and(|(from, to)| from > to) => {
            faults.add(header, "`from` is above `to`", "no ratio lies there", "exchange the two");
            return None;
        }
        (None, Some(_)) => Claim::Ratio { from, to },
        (Some(_), Some(_)) => {
            let message = "`is` and a range of ratios are two expectations";
            faults.add(header, message, "both", "write two [[expect]]");
            return None;
        }
        // What is wrong with the value was said.
        (None, None) if is_written => return None,
        (None, None) => {
            let hint = "write: is = \"better\", or from = \"0.8x\" and to = \"1.1x\"";
            faults.add(header, "the expectation expects nothing", "this expectation", hint);
            return None;
        }
    };
    let (variant, metric) = (variant?, metric?.to_string());
    Some(Expectation { variant, metric, claim, why: why.map(str::to_string) })
}

/// The one that is named; where there is one alone to compare, that one.
fn variant(
    table: &mut Table,
    header: &Span,
    variants: &[Variant],
    faults: &mut Faults,
) -> Option<String> {
    let others: Vec<&str> = variants.iter().skip(1).map(|variant| variant.name.as_str()).collect();
    let Some((name, span)) = table.take_name("variant", faults) else {
        if let [one] = others.as_slice() {
            return Some(one.to_string());
        }
        let hint = match others.as_slice() {
            [] => "a plan with a second [[variant]] has something to compare".to_string(),
            many => format!("write: variant = {:?}", many[0]),
        };
        faults.add(header, "which variant is meant is not said", "this expectation", hint);
        return None;
    };
    if others.contains(&name.as_str()) {
        return Some(name);
    }
    let (message, hint) = match variants.first().is_some_and(|baseline| baseline.name == name) {
        true => {
            ("the baseline is what others are compared with", "name another variant".to_string())
        }
        false => ("no variant has this name", suggestion(&name, &others)),
    };
    faults.add(&span, message, "this name", hint);
    None
}
