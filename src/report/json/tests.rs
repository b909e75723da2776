//! The json: derived from the types, with a version, and the page describes every key.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::report::Options;
use crate::report::testing::{self, HOSTILE, render};

const PAGE: &str = include_str!("../../../docs/report-formats.md");

fn parsed(analysis: &Analysis) -> Value {
    let text = render(&JSON, analysis, Options::default());
    serde_json::from_str(&text).expect("JSON")
}

/// The only analysis of the document.
fn json(analysis: &Analysis) -> Value {
    parsed(analysis)["analyses"][0].clone()
}

#[test]
fn the_document_begins_with_its_version() {
    let text = render(&JSON, &testing::ordinary(), Options::default());
    let begin = "{\n  \"schema\": \"schedlab-analysis\",\n  \"version\": 2,\n  \"analyses\": [";
    assert!(text.starts_with(begin), "{text}");
    let mut out = Vec::new();
    JSON.render(&[], &Options::default(), &mut out).unwrap();
    let nothing: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(nothing["analyses"], json!([]));
}

#[test]
fn sides_method_and_plans_are_there() {
    let found = json(&testing::troubled());
    assert_eq!(
        found["method"],
        json!({"margin": 0.02, "tail_margin": 0.1, "margins": [["wakeup_p99", 0.05]], "alpha": 0.05,
               "headline_verdicts": 4, "explaining_verdicts": 0, "pairing": "none",
               "floors": ["20261120-010203-aaaa"], "looks": [6, 9, 14], "seed": 7})
    );
    assert_eq!(found["sides"][0]["kernels"], json!(["6.6.87", "6.6.88"]));
    assert_eq!(found["sides"][1]["boots"], Value::Null);
    assert_eq!(found["works"][0]["axes"][1], json!(["footprint", "256KiB"]));
    let paired = json(&testing::ordinary());
    assert_eq!(paired["method"]["pairing"], "within_rounds");
    assert_eq!(paired["method"]["looks"], Value::Null);
    assert_eq!(paired["plans"][0]["id"], "20260203-1405");
    assert_eq!(paired["plans"][0]["took_ns"], 98_000_000_000u64);
}

#[test]
fn a_metric_says_what_it_is_and_a_cell_what_is_known() {
    let found = json(&testing::troubled());
    let rows = &found["works"][0]["sets"][0]["rows"];
    let kind = ["name", "unit", "direction", "subject", "statistic", "importance", "family"];
    assert_eq!(
        json!(kind.map(|key| &rows[1][key])),
        json!(["wakeup_p99", "ns", "lower_is_better", "wakeup", {"quantile": 990_000}, "headline",
               "headline"])
    );
    let unknown = &rows[2]["cells"][2];
    assert_eq!(
        *unknown,
        json!({"values": [], "unknown": [], "mean": null, "hmean": null, "median": null,
               "cv": null, "shapes": [], "judged": {
                   "ratio": {"none": "no_pairs"}, "verdict": {"unjudged": {"no_ratio": "no_pairs"}},
                   "p_difference": null, "p_same": null, "bound": null, "decided_at": null}})
    );
    assert_eq!(rows[1]["cells"][2]["unknown"][0], json!([1, "no sample in the window"]));
    assert_eq!(rows[2]["cells"][0]["values"][2], json!([2, 0.0]));
    let few = &rows[1]["cells"][2]["judged"]["verdict"]["inconclusive"];
    assert_eq!(*few, json!({"why": {"too_few_rounds": {"least": 6}}, "rounds": {"number": 6}}));
    let ratio = &rows[0]["cells"][1]["judged"]["ratio"];
    let interval = json!({"low": 0.9511, "high": 0.9685});
    assert_eq!(*ratio, json!({"ratio": 0.9598, "interval": interval, "pairs": 10}));
    assert_eq!(rows[0]["cells"][0]["judged"], Value::Null, "the baseline");
    assert!(rows[1]["cells"][0]["shapes"][0]["two_modes"]["low"].is_number());
}

#[test]
fn notes_are_facts_with_a_tag() {
    let found = json(&testing::troubled());
    let notes = found["notes"].as_array().unwrap();
    assert_eq!(notes.len(), testing::troubled().notes.len());
    assert!(notes.iter().all(|note| note["note"].is_string()), "{notes:?}");
    let failed = notes.iter().find(|note| note["note"] == "failed").unwrap();
    assert_eq!((&failed["runs"], &failed["of"]), (&json!(3), &json!(10)));
}

#[test]
fn a_side_in_the_lab_has_its_time_and_its_kernels() {
    let found = json(&testing::in_the_lab(2));
    let side = &found["sides"][1];
    assert_eq!((&side["times"]["exact"], &side["times"]["not_exact"]), (&38.into(), &2.into()));
    assert_eq!(side["guests"][0][0], "debian:6.18");
    assert_eq!(side["guests"][0][1]["digest"], "0123456789ab");
}

#[test]
fn names_read_back_as_they_are() {
    for name in HOSTILE {
        let found = json(&testing::hostile(name));
        assert_eq!(found["sides"][0]["label"], *name);
        assert_eq!(found["works"][0]["label"], *name);
    }
}

fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            found.insert(key.clone());
            // Names of knobs, parameters and settings are not keys of the format.
            let is_named = ["knobs", "params", "environments"].contains(&key.as_str());
            if !is_named {
                keys(value, found);
            }
        }),
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_is_described() {
    let (_, page) = PAGE.split_once("\n### json\n").expect("a section");
    let page = page.split("\n### ").next().unwrap();
    let mut found = BTreeSet::new();
    let mut troubled = testing::troubled();
    troubled.notes = testing::notes("x");
    let all = [testing::in_the_lab(2), troubled, testing::explained(), testing::of_hosts("n2")];
    for analysis in all {
        keys(&parsed(&analysis), &mut found);
    }
    assert!(found.len() > 100);
    let missing: Vec<&String> =
        found.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/report-formats.md lacks {missing:?}");
}
