//! Reading TOML tables against tables of fields: values, axes, unknown keys.
//!
//! Every function takes what it can and notes a fault for what it cannot; none stops.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::model::{Field, Kind, Params, Raw, Value, clean_start, is_active, quoted};
use crate::variant;

use super::error::Faults;
use super::fields::{
    MAX_NAME_CHARS, MEASURE, OF_TOP, PLACEMENT, TOP_KEYS, WORKERS, WORKLOAD, names, report,
};
use super::similar::{nearest, suggestion};

pub type Span = Range<usize>;
/// Places by the names of fields.
pub type Spans = BTreeMap<&'static str, Span>;

/// One key and its value.
#[derive(Clone)]
pub struct Entry<'t> {
    pub key: &'t str,
    pub key_span: Span,
    pub value: &'t Spanned<DeValue<'t>>,
}

/// A table whose keys are taken one by one; [`Table::finish`] refuses the rest.
pub struct Table<'t> {
    entries: Vec<Entry<'t>>,
    /// The place of its header.
    pub span: Span,
}

impl<'t> Table<'t> {
    pub fn new(table: &'t DeTable<'t>, span: Span) -> Self {
        let entries: Vec<Entry> = table
            .iter()
            .map(|(key, value)| Entry { key: key.get_ref(), key_span: key.span(), value })
            .collect();
        Table { entries, span }
    }

    pub fn has(&self, key: &str) -> bool {
        self.key_span(key).is_some()
    }

    pub fn key_span(&self, key: &str) -> Option<Span> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.key_span.clone())
    }

    pub fn value_span(&self, key: &str) -> Option<Span> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.value.span())
    }

    pub fn take(&mut self, key: &str) -> Option<Entry<'t>> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    pub fn into_entries(self) -> Vec<Entry<'t>> {
        self.entries
    }

    /// Takes `key` as a field's value. `None`: not written, or a fault was noted.
    pub fn take_value(&mut self, field: &Field, faults: &mut Faults) -> Option<(Value, Span)> {
        let entry = self.take(field.name)?;
        Some((value(&field.kind, entry.value, faults)?, entry.value.span()))
    }

    /// Every written field, without defaults.
    pub fn take_written(&mut self, fields: &[Field], faults: &mut Faults) -> Params {
        self.take_placed(fields, faults).0
    }

    /// Like [`Table::take_written`], with the places of the values.
    pub fn take_placed(&mut self, fields: &[Field], faults: &mut Faults) -> (Params, Spans) {
        let (mut params, mut spans) = (Params::new(), Spans::new());
        for field in fields {
            if let Some((value, span)) = self.take_value(field, faults) {
                params.insert(field.name.to_string(), value);
                spans.insert(field.name, span);
            }
        }
        (params, spans)
    }

    /// Takes a text that names something: printable, of a sane length.
    pub fn take_name(&mut self, key: &str, faults: &mut Faults) -> Option<(String, Span)> {
        let entry = self.take(key)?;
        let name = text(&entry, MAX_NAME_CHARS, faults)?;
        let span = entry.value.span();
        let wrong = match name {
            _ if name.starts_with('-') => {
                "begins with `-`, which a command line takes for an option"
            }
            _ if name.trim() != name => "begins or ends with a space",
            _ => return Some((name.to_string(), span)),
        };
        faults.refuse(&span, format!("{} {wrong}", quoted_start(name)), "not a name", NAME_HINT)
    }

    /// Refuses every key that was not taken. `known` is what `place` takes.
    pub fn finish(self, known: &[&str], place: &str, faults: &mut Faults) {
        for entry in self.entries {
            let message = format!("unknown key {} in {place}", quoted_start(entry.key));
            let report = report(&[]);
            let sections = [
                ("[measure]", MEASURE),
                ("[placement]", PLACEMENT),
                ("[report]", &report),
                ("[[workload]]", WORKLOAD),
            ];
            let elsewhere = sections
                .into_iter()
                .find(|(_, fields)| names(fields).contains(&entry.key))
                .map(|(section, _)| format!("`{}` belongs in {section}", entry.key));
            let is_of_top = known != TOP_KEYS && OF_TOP.contains(&entry.key);
            let top = is_of_top
                .then(|| format!("`{}` stands above the first [table] of the plan", entry.key));
            let is_knob = || variant::set_fields().iter().any(|field| field.name == entry.key);
            let knob = (known.contains(&"knobs") && is_knob())
                .then(|| format!("knobs = {{ {} = ... }}", entry.key));
            let hint = elsewhere.or(top).or(knob).unwrap_or_else(|| suggestion(entry.key, known));
            faults.add(&entry.key_span, message, "not known here", hint);
        }
    }
}

const NAME_HINT: &str = "a name has 1 to 64 printable characters and does not begin with `-`";

/// A text of 1 to `max_chars` printable characters.
pub fn text<'t>(entry: &Entry<'t>, max_chars: usize, faults: &mut Faults) -> Option<&'t str> {
    let span = entry.value.span();
    let DeValue::String(text) = entry.value.get_ref() else {
        let message =
            format!("`{}` takes a text, not {}", entry.key, kind_of(entry.value.get_ref()));
        let hint = format!("write it in quotes: {} = \"...\"", entry.key);
        return faults.refuse(&span, message, "not a text", hint);
    };
    let chars = text.chars().count();
    if chars == 0 || chars > max_chars {
        let message = format!("`{}` has {chars} characters", entry.key);
        return faults.refuse(&span, message, "wrong length", format!("from 1 to {max_chars}"));
    }
    check_printable(text, &span, faults)?;
    Some(text)
}

/// The tables of `[[name]]` below `table`, each with the place that messages point at. `path` is the name in
/// the brackets. Empty if no such table is written.
pub fn sections<'t>(
    table: &mut Table<'t>,
    name: &str,
    path: &str,
    faults: &mut Faults,
) -> Vec<Table<'t>> {
    let Some(entry) = table.take(name) else { return Vec::new() };
    let hint = format!("write it with two brackets: [[{path}]]");
    let DeValue::Array(items) = entry.value.get_ref() else {
        let message =
            format!("`{name}` is {}, not a list of tables", kind_of(entry.value.get_ref()));
        faults.add(&entry.key_span, message, "one is not a list", &hint);
        return Vec::new();
    };
    if items.is_empty() {
        faults.add(&entry.value.span(), format!("`{name}` is empty"), "no tables", &hint);
    }
    let mut tables = Vec::new();
    for item in items.iter() {
        match item.get_ref() {
            DeValue::Table(inner) => tables.push(Table::new(inner, item.span())),
            other => {
                let message = format!("`{name}` holds {}, not a table", kind_of(other));
                faults.add(&item.span(), message, "not a table", &hint);
            }
        }
    }
    tables
}

/// Names that must differ.
#[derive(Default)]
pub struct Names(BTreeSet<String>);

impl Names {
    pub fn claim(&mut self, name: &str, span: &Span, what: &str, faults: &mut Faults) {
        if !self.0.insert(name.to_string()) {
            let message = format!("a second {what} is named {}", quoted_start(name));
            let mut others = (2..).map(|number| format!("{name}-{number}"));
            let free = others.find(|other| !self.0.contains(other));
            let free = free.unwrap_or_default();
            let other = toml_text(&free);
            let option = match what {
                "variant" if !name.contains(':') => {
                    format!(" (--variant {})", quoted(&format!("{free}:KNOB=VALUE")))
                }
                _ => String::new(),
            };
            let hint = format!("give each {what} a name of its own: name = {other}{option}");
            faults.add(span, message, "taken", hint);
        }
    }
}

/// One checked value of a field. `None`: a fault was noted.
pub fn value(kind: &Kind, spanned: &Spanned<DeValue>, faults: &mut Faults) -> Option<Value> {
    let span = spanned.span();
    if let (Kind::List(inner), DeValue::Array(items)) = (kind, spanned.get_ref())
        && !items.is_empty()
    {
        // Parse each element, so that the caret stands below the wrong one.
        let values: Vec<Option<Value>> =
            items.iter().map(|item| value(inner, item, faults)).collect();
        return values.into_iter().collect::<Option<Vec<_>>>().map(Value::List);
    }
    if let DeValue::Table(table) = spanned.get_ref() {
        return faults.refuse(
            &span,
            "a table does not fit here",
            "this value",
            form_of(kind, table),
        );
    }
    let may_have_lines = matches!(kind, Kind::Word | Kind::List(Kind::Word));
    let raw = raw(spanned, may_have_lines, faults)?;
    match kind.parse(&raw) {
        Ok(value) => Some(value),
        Err(misfit) => {
            let one_value = matches!(raw, Raw::List(_)) && !kind.takes_list();
            let one_value = one_value.then(|| {
                let of = "only parameters of workloads and knobs of variants make axes";
                format!("one value here: {of}; {}", misfit.hint)
            });
            let hint = one_value.or(nearest_choice(kind, &raw)).unwrap_or(misfit.hint);
            faults.refuse(&span, misfit.message, "this value", hint)
        }
    }
}

/// An example of the right form, for a value that was written as a table.
fn form_of(kind: &Kind, table: &DeTable) -> String {
    let Kind::List(Kind::Text) = kind else { return kind.example() };
    let mut texts = Vec::new();
    texts_of(table, "", &mut texts);
    let printable = |text: &String| !text.chars().any(is_active);
    let texts: Vec<String> =
        texts.iter().filter(|text| printable(text)).map(|text| toml_text(text)).collect();
    format!("write a list of texts: [{}]", texts.join(", "))
}

/// `NAME=VALUE` for each entry; a switch is on as `NAME`, off as `NO_NAME`.
fn texts_of(table: &DeTable, parent: &str, texts: &mut Vec<String>) {
    for (key, value) in table.iter() {
        // sysctl(8) writes `kernel.sched_...`.
        let name = format!("{parent}{}", key.get_ref());
        let name = name.strip_prefix("kernel.").unwrap_or(&name);
        texts.push(match value.get_ref() {
            DeValue::Boolean(true) => name.to_string(),
            DeValue::Boolean(false) => format!("NO_{name}"),
            DeValue::Integer(number) => format!("{name}={number}"),
            DeValue::String(text) => format!("{name}={text}"),
            DeValue::Table(inner) => {
                texts_of(inner, &format!("{name}."), texts);
                continue;
            }
            _ => continue,
        });
    }
}

/// The points of an axis, or the one value: a list where the field takes one value.
pub enum Points {
    One(Value),
    Axis(Vec<Value>),
}

/// Like [`value`], for a field that may be an axis.
pub fn points(kind: &Kind, spanned: &Spanned<DeValue>, faults: &mut Faults) -> Option<Points> {
    let is_array = |value: &Spanned<DeValue>| value.get_ref().is_array();
    let DeValue::Array(items) = spanned.get_ref() else {
        return value(kind, spanned, faults).map(Points::One);
    };
    let is_axis = !kind.takes_list() || (!items.is_empty() && items.iter().all(is_array));
    if !is_axis {
        return value(kind, spanned, faults).map(Points::One);
    }
    if items.is_empty() {
        let hint = format!("give it at least one point, or leave it out; {}", kind.example());
        return faults.refuse(&spanned.span(), "the axis is empty", "no points", hint);
    }
    let parsed: Vec<(Option<Value>, Span)> =
        items.iter().map(|item| (value(kind, item, faults), item.span())).collect();
    let mut seen = BTreeSet::new();
    for (point, span) in &parsed {
        // Equal values print the same, and a point is named by what is printed.
        if let Some(point) = point
            && !seen.insert(point.to_string())
        {
            let message = format!("`{point}` is twice on this axis");
            faults.add(span, message, "again here", "name each point of an axis once");
        }
    }
    let values: Vec<Value> = parsed.into_iter().filter_map(|(point, _)| point).collect();
    Some(Points::Axis(values))
}

/// A written value before it has a meaning. Unprintable text is refused here, because all text of a plan
/// reaches terminals.
fn raw(spanned: &Spanned<DeValue>, may_have_lines: bool, faults: &mut Faults) -> Option<Raw> {
    let span = spanned.span();
    let refused = |faults: &mut Faults, message: String, hint: &str| {
        faults.refuse(&span, message, "this value", hint)
    };
    match spanned.get_ref() {
        DeValue::Boolean(value) => Some(Raw::Bool(*value)),
        DeValue::String(text) => {
            let shown =
                if may_have_lines { text.replace(['\n', '\t'], " ") } else { text.to_string() };
            check_printable(&shown, &span, faults)?;
            Some(Raw::Text(text.to_string()))
        }
        DeValue::Integer(value) => match i64::from_str_radix(value.as_str(), value.radix()) {
            Ok(value) => Some(Raw::Int(value)),
            Err(_) => refused(faults, format!("`{value}` is too large"), "use a 64-bit number"),
        },
        DeValue::Float(value) => match value.as_str().parse() {
            Ok(value) => Some(Raw::Float(value)),
            Err(_) => refused(faults, format!("`{value}` is not understood"), "use a number"),
        },
        DeValue::Array(items) => {
            let items: Vec<Option<Raw>> =
                items.iter().map(|item| raw(item, may_have_lines, faults)).collect();
            items.into_iter().collect::<Option<Vec<_>>>().map(Raw::List)
        }
        other => {
            let message = format!("{} does not fit here", kind_of(other));
            refused(faults, message, "no key of a plan takes that")
        }
    }
}

fn check_printable(text: &str, span: &Span, faults: &mut Faults) -> Option<()> {
    let bad = text.chars().find(|&c| is_active(c));
    let Some(bad) = bad else { return Some(()) };
    let message =
        format!("{} holds `{}`, which cannot be shown", quoted_start(text), bad.escape_default());
    faults.refuse(span, message, "not printable", "names and texts reach terminals: leave it out")
}

pub fn kind_of(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A text in the quotes that it has in a plan.
pub fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A text in back quotes, without what steers terminals, cut where it is long.
pub fn quoted_start(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    format!("`{}`", clean_start(text, MAX_CHARS))
}

fn nearest_choice(kind: &Kind, raw: &Raw) -> Option<String> {
    match (kind, raw) {
        (Kind::Choice(words), Raw::Text(text)) => {
            nearest(text, words).map(|near| format!("did you mean \"{near}\"?"))
        }
        (kind, Raw::Int(count)) if *kind == WORKERS => {
            Some(format!("count = {count} is their number; workers is {}", kind.example()))
        }
        _ => None,
    }
}

/// Fills the defaults of `fields` in where nothing was written.
pub fn fill_defaults(params: &mut Params, fields: &[Field]) {
    for field in fields {
        if !params.contains_key(field.name)
            && let Some(value) = field.default_value()
        {
            params.insert(field.name.to_string(), value);
        }
    }
}

/// Takes a top-level table of this name from `top`. `None` if it is missing or not a table.
pub fn section<'t>(top: &mut Table<'t>, name: &str, faults: &mut Faults) -> Option<Table<'t>> {
    table_of(top.take(name)?, faults)
}

/// The table that this entry is. `None`: it is none, which was noted.
pub fn table_of<'t>(entry: Entry<'t>, faults: &mut Faults) -> Option<Table<'t>> {
    match entry.value.get_ref() {
        DeValue::Table(inner) => Some(Table::new(inner, entry.key_span)),
        other => {
            let name = entry.key;
            let message = format!("`{name}` is {}, not a table", kind_of(other));
            faults.refuse(&entry.value.span(), message, "not a table", format!("write: [{name}]"))
        }
    }
}

/// The names of fields after the keys of their table.
pub fn known_keys(keys: &[&'static str], fields: &[&[Field]]) -> Vec<&'static str> {
    let fields = fields.iter().flat_map(|fields| names(fields));
    keys.iter().copied().chain(fields).collect()
}
