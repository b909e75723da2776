//! Knobs of a set as rt-app's keys. Pure.

use std::collections::BTreeMap;

use crate::model::{Value, ValueError};
use crate::plan::rt_app::task::{FULL_CAPACITY, policy_name};

use super::events::cpu_list;
use super::text::{Members, number, text};
use super::unheld::{unheld, us};

/// Knobs with the defaults that they have here and not in rt-app.
pub fn complete(knobs: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mut all = knobs.clone();
    if matches!(knobs.get("policy").and_then(Value::as_text), Some("fifo" | "rr")) {
        all.entry("priority".to_string()).or_insert(Value::Int(1));
    }
    for (key, other) in [("deadline", "period"), ("period", "deadline")] {
        if let Some(value) = all.get(other).cloned() {
            all.entry(key.to_string()).or_insert(value);
        }
    }
    for key in ["uclamp-min", "uclamp-max"] {
        if let Some(value) = all.get_mut(key) {
            *value = Value::Int(utilisation(value));
        }
    }
    all
}

/// As the kernel counts it.
fn utilisation(value: &Value) -> i64 {
    (value.as_percent().unwrap_or_default() / 100.0 * FULL_CAPACITY as f64).round() as i64
}

pub fn members(place: &str, knobs: &BTreeMap<String, Value>) -> Result<Members, ValueError> {
    let mut members = Members::default();
    for (knob, value) in &complete(knobs) {
        let (key, value) = match (knob.as_str(), value) {
            ("policy", Value::Text(word)) => ("policy", text(policy_name(word))),
            ("priority" | "nice", Value::Int(priority)) => ("priority", number(priority)),
            // Where a thread has no deadline, its runtime is its slice.
            ("runtime" | "slice", Value::DurationNs(ns)) => {
                ("dl-runtime", number(us(place, knob, *ns)?))
            }
            ("deadline", Value::DurationNs(ns)) => ("dl-deadline", number(us(place, knob, *ns)?)),
            ("period", Value::DurationNs(ns)) => ("dl-period", number(us(place, knob, *ns)?)),
            ("uclamp-min", Value::Int(util)) => ("util_min", number(util)),
            ("uclamp-max", Value::Int(util)) => ("util_max", number(util)),
            ("affinity", Value::Cpus(cpus)) => ("cpus", cpu_list(cpus)),
            _ => {
                let hint = format!("without it, or by --variant own:{knob}=VALUE when it runs");
                return Err(unheld(place, knob, "it is none of its settings", hint));
            }
        };
        members.add(key, value);
    }
    Ok(members)
}
