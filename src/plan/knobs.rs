//! Knobs of variants and of worker sets: what is written, and what does not go together.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::model::{CpuSet, Field, Value, Variant};
use crate::variant;

use super::error::Faults;
use super::fields::{Words, names};
use super::table::{Span, Table, kind_of, shown};

/// Knobs as written, with their places.
#[derive(Default)]
pub struct Knobs {
    pub values: BTreeMap<String, Value>,
    /// Of the keys.
    spans: BTreeMap<&'static str, Span>,
    /// Where messages about a knob point that is not written here.
    place: Span,
}

impl Knobs {
    /// Takes the knobs of these fields from a table.
    pub fn take(table: &mut Table, fields: &[Field], faults: &mut Faults) -> Knobs {
        let spans = fields.iter().filter_map(|knob| Some((knob.name, table.key_span(knob.name)?)));
        let spans = spans.collect();
        Knobs { spans, place: table.span.clone(), values: table.take_written(fields, faults) }
    }

    /// Takes the table `knobs` of a worker set. Not written: none.
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
            // What is left of the known ones acts on a cgroup or on the machine.
            if let Some(entry) = table.take(knob.name) {
                let message = format!("`{}` acts on more than one worker set", knob.name);
                let hint = "it belongs in [[variant]]: it holds for the whole cell";
                faults.add(&entry.key_span, message, "not of a set", hint);
            }
        }
        table.finish(&names(&words.task_knobs), "the knobs of a worker set", faults);
        own
    }

    /// Notes conflicts within one variant.
    pub fn check(&self, faults: &mut Faults) {
        for (knob, message, hint) in variant::validate(&self.values) {
            faults.add(self.span(&knob), message, "not in this variant", hint);
        }
    }

    /// Notes conflicts in what these knobs of a worker set make of each variant. One that
    /// several variants share is noted once, with the first of them.
    pub fn check_merged(&self, variants: &[Variant], faults: &mut Faults) {
        if self.values.is_empty() {
            return;
        }
        let mut found: BTreeMap<(String, String, String), (&str, usize)> = BTreeMap::new();
        for variant in variants {
            let of_variant = variant::validate(&variant.knobs);
            let merged = variant::validate(&variant::merged(&variant.knobs, &self.values));
            for fault in merged.into_iter().filter(|fault| !of_variant.contains(fault)) {
                found.entry(fault).or_insert((&variant.name, 0)).1 += 1;
            }
        }
        for ((knob, message, hint), (first, count)) in found {
            let everywhere = count == variants.len();
            let with = if everywhere { "" } else { &format!("with variant {}: ", shown(first)) };
            faults.add(self.span(&knob), format!("{with}{message}"), "not in this set", hint);
        }
    }

    /// Workers stay within the placement, so an affinity that leaves it asks for two things.
    pub fn check_affinity(&self, placement: Option<&CpuSet>, faults: &mut Faults) {
        let affinity = self.values.get("affinity").and_then(Value::as_cpus);
        let (Some(affinity), Some(placement)) = (affinity, placement) else { return };
        let outside = affinity.minus(placement);
        let noun = match outside.len() {
            0 => return,
            1 => "CPU",
            _ => "CPUs",
        };
        let message = format!("`affinity` has {noun} {outside}, which the placement leaves out");
        let hint = format!("[placement] has CPUs {placement}: choose among them, or add to them");
        faults.add(self.span("affinity"), message, "outside of the placement", hint);
    }

    fn span(&self, knob: &str) -> &Span {
        self.spans.get(knob).unwrap_or(&self.place)
    }
}
