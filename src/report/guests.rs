//! What a report tells of lab guests: which kernel each variant ran on, whether time was exact,
//! and what speed the CPUs had. Input: a record. Pure.

use std::collections::BTreeMap;

use crate::model::{KnobReading, Outcome, Reading, Record};

use super::clean;

/// What is told of guests beside the knobs of variants, each read back as it is.
const KERNEL: &str = "kernel";
const TIME: &str = "time";
const CAPACITY: &str = "capacity";

/// Two lines for the head of a report; `None` for runs that no guest did.
pub struct Guests {
    pub kernels: String,
    pub time: String,
}

pub fn guests(record: &Record) -> Option<Guests> {
    let cells = &record.started.cells;
    let runs: Vec<(&str, &[KnobReading])> = record
        .runs
        .iter()
        .filter_map(|run| match &run.outcome {
            Outcome::Done { result } => {
                let variant = &cells.get(run.key.cell as usize)?.variant;
                Some((variant.name.as_str(), result.knobs.as_slice()))
            }
            _ => None,
        })
        .collect();
    let of = |knob: &'static str| {
        let readings = runs.iter().flat_map(move |(variant, knobs)| {
            knobs
                .iter()
                .filter(move |reading| reading.knob == knob)
                .map(move |r| (*variant, &r.got))
        });
        readings.collect::<Vec<_>>()
    };
    let kernels = of(KERNEL);
    if record.started.backend != "lab" || kernels.is_empty() {
        return None;
    }
    Some(Guests { kernels: releases(record, &kernels), time: time(&of(TIME), &of(CAPACITY)) })
}

/// One release, or each variant's own.
fn releases(record: &Record, told: &[(&str, &Reading<String>)]) -> String {
    let mut by_variant: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (variant, release) in told {
        let releases = by_variant.entry(variant).or_default();
        let release = clean(&shown(release));
        if !releases.contains(&release) {
            releases.push(release);
        }
    }
    let mut all: Vec<&Vec<String>> = by_variant.values().collect();
    all.dedup();
    if let [one] = all[..] {
        return format!("Linux {}", one.join(", then "));
    }
    let variants = record.started.plan.variants.iter();
    let lines = variants.filter_map(|variant| {
        let releases = by_variant.get(variant.name.as_str())?;
        Some(format!("{}: Linux {}", clean(&variant.name), releases.join(", then ")))
    });
    lines.collect::<Vec<_>>().join("; ")
}

fn time(times: &[(&str, &Reading<String>)], capacities: &[(&str, &Reading<String>)]) -> String {
    let inexact: Vec<&String> = times
        .iter()
        .filter_map(|(_, time)| match time {
            Reading::Unknown(why) => Some(why),
            Reading::Known(_) => None,
        })
        .collect();
    let mut text = match inexact.as_slice() {
        _ if times.is_empty() => "of the host: nothing is exact".to_string(),
        [] => format!("virtual, exact in all {} runs", times.len()),
        [why, ..] => {
            format!("NOT exact in {} of {} runs: {}", inexact.len(), times.len(), clean(why))
        }
    };
    let mut shares: Vec<String> =
        capacities.iter().map(|(_, capacity)| clean(&shown(capacity))).collect();
    shares.sort();
    if let (Some(least), Some(most)) = (shares.first(), shares.last()) {
        let range = if least == most { least.clone() } else { format!("{least} to {most}") };
        text.push_str(&format!("; CPUs had {range} of their speed before the runs"));
    }
    text
}

fn shown(reading: &Reading<String>) -> String {
    match reading {
        Reading::Known(text) => text.clone(),
        Reading::Unknown(why) => format!("unknown ({why})"),
    }
}
