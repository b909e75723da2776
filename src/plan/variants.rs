//! `[[variant]]`: its knobs, and if some are axes, a variant for each point. Pure.
//!
//! A list where a knob takes one value is an axis, as of a workload's parameters; the axes of a
//! variant are crossed in the order written, the first slowest. A point is named
//! `NAME slice=100us`: the written name, and its value on each axis.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{CpuSet, Value, Variant};

use super::error::Faults;
use super::fields::{MAX_CELLS, MAX_NAME_CHARS, VARIANT_KEYS, Words};
use super::knobs::Knobs;
use super::table::{Names, Span, Table, known_keys, quoted_start, sections};

/// The variants that a plan compares.
#[derive(Default)]
pub struct Variants {
    /// All variants in the order written, with the points of one table next to each other; the first is the baseline.
    pub all: Vec<Variant>,
    /// The name of the table of each variant.
    written: Vec<String>,
}

impl Variants {
    /// The variants that `name` means: one, or all points of the table with this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Variant> {
        let all = self.all.iter().zip(&self.written);
        let is_meant = move |(variant, written): &(&Variant, &String)| {
            variant.name == name || written.as_str() == name
        };
        all.filter(is_meant).map(|(variant, _)| variant)
    }

    pub fn is_baseline(&self, variant: &Variant) -> bool {
        self.all.first().is_some_and(|first| first.name == variant.name)
    }

    /// The names of everything that is compared with the baseline: tables, then points.
    pub fn compared(&self) -> Vec<&str> {
        let written = self.written.iter().skip(1);
        let points = self.all.iter().skip(1).map(|variant| &variant.name);
        let mut seen = BTreeSet::new();
        written.chain(points).map(String::as_str).filter(|name| seen.insert(*name)).collect()
    }

    /// The table that is compared with the baseline, if there is only one.
    pub fn only_compared(&self) -> Option<&str> {
        let (first, rest) = self.written.get(1..)?.split_first()?;
        rest.iter().all(|name| name == first).then_some(first)
    }

    fn add(&mut self, written: &str, name: String, knobs: BTreeMap<String, Value>) {
        self.written.push(written.to_string());
        self.all.push(Variant { name, knobs });
    }
}

/// If none is written, one variant without knobs: a measurement without comparison.
pub fn variants(
    top: &mut Table,
    placement: Option<&CpuSet>,
    words: &Words,
    faults: &mut Faults,
) -> Variants {
    let tables = sections(top, "variant", "variant", faults);
    let mut variants = Variants::default();
    if tables.is_empty() {
        variants.add("default", "default".to_string(), BTreeMap::new());
        return variants;
    }
    let mut taken = Names::default();
    for mut table in tables {
        let (name, span) = name(&mut table, &mut taken, faults);
        let before = faults.len();
        let knobs = Knobs::take_with_axes(&mut table, &words.knobs, faults);
        table.finish(&known_keys(VARIANT_KEYS, &[&words.knobs]), "a variant", faults);
        let is_sound = faults.len() == before && !name.is_empty();
        let from = variants.all.len();
        for (point, values) in points(&name, &span, &knobs, faults) {
            if is_sound && point != name {
                claim(&point, &span, &mut taken, faults);
            }
            variants.add(&name, point, values);
        }
        knobs.check(&variants.all[from..], faults);
        knobs.check_affinity(placement, faults);
    }
    variants
}

/// The name of a variant, and where messages about it point. Empty: a fault was noted.
fn name(table: &mut Table, taken: &mut Names, faults: &mut Faults) -> (String, Span) {
    let had_name = table.has("name");
    match table.take_name("name", faults) {
        Some((name, span)) => {
            taken.claim(&name, &span, "variant", faults);
            (name, span)
        }
        None => {
            if !had_name {
                let hint = "every variant has one: name = \"default\"";
                faults.add(&table.span, "the variant has no `name`", "this variant", hint);
            }
            (String::new(), table.span.clone())
        }
    }
}

/// Claims the name of a point. It must be valid in commands, and no other variant may have it.
fn claim(point: &str, span: &Span, taken: &mut Names, faults: &mut Faults) {
    let chars = point.chars().count();
    if chars > MAX_NAME_CHARS {
        let message = format!("{} has {chars} characters", quoted_start(point));
        let hint =
            format!("at most {MAX_NAME_CHARS}: shorten `name`, or write a [[variant]] for each");
        faults.add(span, message, "too long with its points", hint);
    }
    taken.claim(point, span, "variant", faults);
}

/// The name and the knobs of each point; the variant itself where nothing is an axis. None: a fault
/// was noted, more than any plan may have.
fn points(
    name: &str,
    span: &Span,
    knobs: &Knobs,
    faults: &mut Faults,
) -> Vec<(String, BTreeMap<String, Value>)> {
    let sizes = knobs.axes.iter().map(|axis| axis.points.len() as u64);
    let count = sizes.fold(1, u64::saturating_mul);
    if count > MAX_CELLS {
        let message = format!("the knobs of {} have {count} points", quoted_start(name));
        let hint = format!("at most {MAX_CELLS} cells in a plan: fewer points on its axes");
        faults.add(span, message, "too many cells", hint);
        return Vec::new();
    }
    let mut points = vec![(name.to_string(), knobs.values.clone())];
    for axis in &knobs.axes {
        let next = |(name, knobs): &(String, BTreeMap<String, Value>)| {
            let at = |value: &Value| {
                let mut knobs = knobs.clone();
                knobs.insert(axis.knob.to_string(), value.clone());
                (format!("{name} {}={value}", axis.knob), knobs)
            };
            axis.points.iter().map(at).collect::<Vec<_>>()
        };
        points = points.iter().flat_map(next).collect();
    }
    points
}
