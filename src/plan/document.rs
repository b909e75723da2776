//! Text -> TOML -> what it means. Pure.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;

use super::error::{Faults, PlanErrors};
use super::fields::MAX_TEXT_BYTES;
use super::table::Table;

/// Tables of which a plan has several.
const LISTS: [&str; 7] = ["variant", "workload", "expect", "set", "background", "metric", "change"];

/// The kind of a text, for messages.
#[derive(Clone, Copy)]
pub enum Kind {
    Plan,
    Configuration,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Plan => "plan",
            Kind::Configuration => "configuration",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Kind::Plan => "schedlab run --print quick",
            Kind::Configuration => "schedlab help shared-cache",
        }
    }
}

/// Reads a text: `read` takes the keys of its table. An error if a fault was noted.
pub fn read<T>(
    source_name: &str,
    text: &str,
    kind: Kind,
    read: impl FnOnce(Table, &mut Faults) -> Option<T>,
) -> Result<T, PlanErrors> {
    let mut faults = Faults::default();
    let document = document(text, kind, &mut faults);
    let top = document.as_ref().map(|document| Table::new(document.get_ref(), 0..0));
    match top.and_then(|top| read(top, &mut faults)) {
        Some(found) if faults.is_empty() => Ok(found),
        _ => Err(faults.into_errors(source_name, text)),
    }
}

/// `None`: a fault was noted.
fn document<'t>(text: &'t str, kind: Kind, faults: &mut Faults) -> Option<Spanned<DeTable<'t>>> {
    let name = kind.name();
    if text.len() > MAX_TEXT_BYTES {
        let message = format!("the {name} has {} bytes", text.len());
        let hint = format!("at most {MAX_TEXT_BYTES} bytes are read: is this the right file?");
        faults.add_of_all(message, hint);
        return None;
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let example = kind.example();
        let hint = second_table(text, &span, error.message()).unwrap_or_else(|| {
            format!("a {name} is written in TOML (https://toml.io); see: {example}")
        });
        faults.add(&span, format!("not TOML: {}", error.message()), "here", hint);
    }
    errors.is_empty().then_some(document)
}

/// How tables of one name are written, where a second one is what is wrong.
fn second_table(text: &str, span: &Range<usize>, message: &str) -> Option<String> {
    let begin = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let header = text[begin..].lines().next()?.trim().strip_prefix('[')?;
    let header = header.trim_start_matches('[').split(']').next()?.trim();
    let is_list = LISTS.contains(&header.rsplit('.').next()?);
    message.starts_with("duplicate key").then(|| {
        if is_list {
            format!("write each of several with two brackets, the first one too: [[{header}]]")
        } else {
            format!("one [{header}] has all of its keys")
        }
    })
}
