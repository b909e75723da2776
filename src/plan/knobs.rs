//! Knobs of variants and of worker sets: reads them and finds conflicts.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::model::{CpuSet, Field, Value, Variant};
use crate::variant;

use super::error::Faults;
use super::fields::{Words, names};
use super::table::{self, Points, Span, Table, kind_of, quoted_start};

type Values = BTreeMap<String, Value>;

/// Knobs as written, with their places.
#[derive(Default)]
pub struct Knobs {
    pub values: Values,
    /// The axes in the order written; only a variant has some.
    pub axes: Vec<Axis>,
    /// The places of the keys.
    spans: BTreeMap<&'static str, Span>,
    /// The place for messages about a knob that is not written here.
    place: Span,
}

/// A knob with several values, each of which makes a variant.
pub struct Axis {
    pub knob: &'static str,
    pub points: Vec<Value>,
}

impl Knobs {
    /// Takes the knobs of these fields from a table, one value of each.
    pub fn take(table: &mut Table, fields: &[Field], faults: &mut Faults) -> Knobs {
        let mut knobs = Knobs::at(table, fields);
        knobs.values = table.take_written(fields, faults);
        knobs
    }

    /// Like [`Knobs::take`], but a list is an axis.
    pub fn take_with_axes(table: &mut Table, fields: &[Field], faults: &mut Faults) -> Knobs {
        let mut knobs = Knobs::at(table, fields);
        for field in fields {
            let Some(entry) = table.take(field.name) else { continue };
            match table::points(&field.kind, entry.value, faults) {
                None => {}
                Some(Points::One(value)) => {
                    knobs.values.insert(field.name.to_string(), value);
                }
                Some(Points::Axis(points)) => knobs.axes.push(Axis { knob: field.name, points }),
            }
        }
        let Knobs { axes, spans, .. } = &mut knobs;
        axes.sort_by_key(|axis| spans[axis.knob].start);
        knobs
    }

    /// The places of the knobs of these fields.
    fn at(table: &Table, fields: &[Field]) -> Knobs {
        let spans = fields.iter().filter_map(|knob| Some((knob.name, table.key_span(knob.name)?)));
        Knobs { spans: spans.collect(), place: table.span.clone(), ..Knobs::default() }
    }

    /// Takes the table `knobs` of a worker set. Empty if it is not written.
    pub fn take_of_set(set: &mut Table, words: &Words, faults: &mut Faults) -> Knobs {
        let Some(entry) = set.take("knobs") else { return Knobs::default() };
        let DeValue::Table(inner) = entry.value.get_ref() else {
            let message = format!("`knobs` is {}, not a table", kind_of(entry.value.get_ref()));
            let hint = "write: knobs = { nice = 5 }";
            faults.add(&entry.value.span(), message, "not a table", hint);
            return Knobs::default();
        };
        let mut table = Table::new(inner, entry.key_span);
        let own = Knobs::take(&mut table, &words.task_knobs, faults);
        for knob in &words.knobs {
            // The known knobs that are left act on a cgroup or on the machine.
            if let Some(entry) = table.take(knob.name) {
                let message = format!("`{}` acts on more than one worker set", knob.name);
                let hint = "it belongs in [[variant]]: it holds for the whole cell";
                faults.add(&entry.key_span, message, "not of a set", hint);
            }
        }
        table.finish(&names(&words.task_knobs), "the knobs of a worker set", faults);
        own
    }

    /// Notes conflicts within the variants that these knobs make, one for each point.
    pub fn check(&self, points: &[Variant], faults: &mut Faults) {
        let found = points.iter().map(|point| (point, variant::validate(&point.knobs)));
        self.note(found, "here", faults);
    }

    /// Notes conflicts of these knobs of a worker set with each variant.
    pub fn check_merged(&self, variants: &[Variant], faults: &mut Faults) {
        let merged = variants.iter().map(|variant| variant::merged(&variant.knobs, &self.values));
        let merged: Vec<_> = merged.collect();
        let steps = variants.iter().zip(&merged);
        self.check_steps(steps.map(|(variant, after)| (variant, &variant.knobs, after)), faults);
    }

    /// Notes conflicts that come with these knobs of a worker set: by variant, all of its knobs before and after.
    pub fn check_steps<'v>(
        &self,
        steps: impl ExactSizeIterator<Item = (&'v Variant, &'v Values, &'v Values)>,
        faults: &mut Faults,
    ) {
        if self.values.is_empty() {
            return;
        }
        let found = steps.map(|(variant, before, after)| {
            let known = variant::validate(before);
            let mut merged = variant::validate(after);
            merged.retain(|fault| !known.contains(fault));
            (variant, merged)
        });
        self.note(found, "not in this set", faults);
    }

    /// A fault that several variants share is noted once, with the first of them.
    fn note<'v>(
        &self,
        found: impl ExactSizeIterator<Item = (&'v Variant, Vec<variant::Fault>)>,
        label: &'static str,
        faults: &mut Faults,
    ) {
        let all = found.len();
        let mut first_of: BTreeMap<variant::Fault, (&str, usize)> = BTreeMap::new();
        for (variant, wrong) in found {
            for fault in wrong {
                first_of.entry(fault).or_insert((&variant.name, 0)).1 += 1;
            }
        }
        for ((knob, message, hint), (first, count)) in first_of {
            let with = if count == all {
                String::new()
            } else {
                format!("with variant {}: ", quoted_start(first))
            };
            faults.add(self.span(&knob), format!("{with}{message}"), label, hint);
        }
    }

    /// Workers stay within the placement, so an affinity outside it contradicts it.
    pub fn check_affinity(&self, placement: Option<&CpuSet>, faults: &mut Faults) {
        let Some(placement) = placement else { return };
        let axes = self.axes.iter().filter(|axis| axis.knob == "affinity");
        let written = self.values.get("affinity").into_iter();
        let written = written.chain(axes.flat_map(|axis| &axis.points)).filter_map(Value::as_cpus);
        for outside in written.map(|affinity| affinity.minus(placement)) {
            let noun = match outside.len() {
                0 => continue,
                1 => "CPU",
                _ => "CPUs",
            };
            let message =
                format!("`affinity` has {noun} {outside}, which the placement leaves out");
            let hint =
                format!("[placement] has CPUs {placement}: choose among them, or add to them");
            faults.add(self.span("affinity"), message, "outside of the placement", hint);
        }
    }

    /// Whether one is written, right or wrong.
    pub fn has_keys(&self) -> bool {
        !self.spans.is_empty()
    }

    pub fn span(&self, knob: &str) -> &Span {
        self.spans.get(knob).unwrap_or(&self.place)
    }
}
