//! The table of a work's fairness: each variant with its sets below it, and what its words
//! mean. Pure.

use crate::model::Unit;
use crate::report::Options;
use crate::report::beside::Names;
use crate::report::fairness::{SetFairness, VariantFairness, WorkFairness};
use crate::report::page::{Page, Tone};
use crate::report::show::{self, clean, truncate};
use crate::report::summary::MetricSummary;

use super::table::{Column, Notes, bands, lines, name_columns, noted};

/// Metrics of a set as columns, each with its header; the first where sets differ in it.
const COLUMNS: [(&str, [&str; 2]); 6] = [
    ("weight", ["", "weight"]),
    ("want", ["want", "CPUs"]),
    ("entitled", ["entitled", "CPUs"]),
    ("got", ["got", "CPUs"]),
    ("got_over_entitled", ["got /", "entitled"]),
    ("throughput_vs_solo", ["rate /", "solo"]),
];

const LEGEND: &str =
    "want: CPUs of a worker alone; entitled: max-min fair share; rate: operations/s";
const WEIGHTED: &str = "want: CPUs of a worker alone; entitled: max-min fair share in \
                        proportion to weight; weight: 1024 at nice 0; rate: operations/s";

/// The table where there is one, and why there is none to who asks for all.
pub fn show(
    fairness: &WorkFairness,
    names: &Names,
    options: &Options,
    notes: &mut Notes,
    page: &mut Page,
) {
    if !fairness.variants.is_empty() {
        page.gap();
        page.wrapped(Tone::Plain, "", &heading(&fairness.variants));
        for (at, lines) in tables(fairness, names, options, notes).into_iter().enumerate() {
            if at > 0 {
                page.gap();
            }
            lines.iter().for_each(|line| page.line(Tone::Plain, line));
        }
        let legend = if weights_differ(fairness) { WEIGHTED } else { LEGEND };
        page.wrapped(Tone::Plain, "", legend);
        for set in &fairness.assumed {
            let text = "is taken to want a CPU a worker, as it has no solo run, and is not in \
                        Jain's index";
            page.wrapped(Tone::Plain, "", &format!("background {} {text}", clean(&set.name)));
        }
    }
    if options.verbose == 0 {
        return;
    }
    if !fairness.missing.is_empty() {
        page.gap();
        let sets: Vec<String> = fairness.missing.iter().map(|set| clean(&set.name)).collect();
        let text = format!("no solo run of {}: `solo = true` adds them", sets.join(", "));
        page.wrapped(Tone::Plain, "fairness: ", &text);
    }
    if !fairness.incomplete.is_empty() {
        page.gap();
        let variants = fairness.incomplete.iter().map(|variant| names.short(variant));
        let variants = variants.collect::<Vec<_>>().join(", ");
        let text = format!("no round of {variants} has its solo runs, too");
        page.wrapped(Tone::Plain, "fairness: ", &text);
    }
}

/// Within a variant: a weight that all workers have changes nothing.
fn weights_differ(fairness: &WorkFairness) -> bool {
    fairness.variants.iter().any(|variant| {
        let weight = |found: &SetFairness| {
            let metric = found.metric("weight");
            metric.map(|metric| (metric.median, metric.unknown.clone()))
        };
        variant.sets.windows(2).any(|pair| weight(&pair[0]) != weight(&pair[1]))
    })
}

/// A variant's affinity may leave it fewer CPUs than others have.
fn heading(variants: &[VariantFairness]) -> String {
    let cpus = |variant: &VariantFairness| variant.metric("cpus").and_then(|cpus| cpus.median);
    let each: Option<Vec<f64>> = variants.iter().map(cpus).collect();
    let each = each.unwrap_or_default();
    let least = each.iter().copied().reduce(f64::min);
    match least.zip(each.iter().copied().reduce(f64::max)) {
        Some((1.0, 1.0)) => "fairness on 1 CPU".to_string(),
        Some((least, most)) if least == most => format!("fairness on {most} CPUs"),
        Some((least, most)) => format!("fairness on {least} to {most} CPUs, by the variant"),
        None => "fairness".to_string(),
    }
}

fn tables(
    fairness: &WorkFairness,
    names: &Names,
    options: &Options,
    notes: &mut Notes,
) -> Vec<Vec<String>> {
    let own = |variant: &VariantFairness| {
        let sets = variant.sets.iter().enumerate();
        let sets = sets.map(|(at, found)| set_name(found, at, name_columns(options)));
        std::iter::once(names.short(variant.variant)).chain(sets).collect()
    };
    let rows = fairness.variants.iter().map(own).collect();
    let first = Column { header: header(["variant", "  set"]), rows };
    let mut columns: Vec<Column> = Vec::new();
    let told = if weights_differ(fairness) { &COLUMNS[..] } else { &COLUMNS[1..] };
    for &(name, title) in told {
        let rows = fairness.variants.iter().map(|variant| {
            let cells = variant.sets.iter().map(|found| {
                // A line below the table says why.
                let assumed = name != "weight"
                    && fairness.assumed.iter().any(|set| set.name == found.set.name);
                match found.metric(name) {
                    Some(MetricSummary { median: None, .. }) if assumed => "-".to_string(),
                    metric => cell(metric, notes),
                }
            });
            std::iter::once(String::new()).chain(cells).collect()
        });
        columns.push(Column { rows: rows.collect(), header: header(title) });
    }
    let rows = fairness.variants.iter().map(|variant| vec![cell(variant.metric("jain"), notes)]);
    columns.push(Column { rows: rows.collect(), header: header(["Jain's", "index"]) });
    let bands = bands(first.width(), &columns, options.columns());
    bands.into_iter().map(|band| lines(&first, band)).collect()
}

fn header(title: [&str; 2]) -> Vec<String> {
    title.map(str::to_string).to_vec()
}

/// Below its variant. What is cut ends in the number of the set, as variants do.
fn set_name(found: &SetFairness, at: usize, columns: usize) -> String {
    let name = clean(&found.set.name);
    let columns = columns.saturating_sub(2);
    if truncate(&name, columns) == name {
        return format!("  {name}");
    }
    let number = format!("#{}", at + 1);
    format!("  {}{number}", truncate(&name, columns.saturating_sub(number.len())))
}

fn cell(metric: Option<&MetricSummary>, notes: &mut Notes) -> String {
    let shown = |value: f64| match metric {
        _ if value == 0.0 => "0".to_string(),
        Some(metric) if metric.unit == Unit::Count => value.to_string(),
        _ => show::ratio(value),
    };
    metric.map_or(String::new(), |metric| noted(metric.median.map(shown), metric, notes))
}
