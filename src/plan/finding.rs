//! `[finding]` of a plan: the published result that it repeats. Pure.

use crate::model::{Finding, Value};

use super::error::Faults;
use super::fields::{FINDING, REQUIRED_OF_FINDING};
use super::table::{Table, known_keys, section};

/// `None` if none is written or a fault was noted.
pub fn finding(top: &mut Table, expects: bool, faults: &mut Faults) -> Option<Finding> {
    let mut table = section(top, "finding", faults)?;
    let header = table.span.clone();
    let written: Vec<&str> =
        FINDING.iter().map(|field| field.name).filter(|name| table.has(name)).collect();
    for name in REQUIRED_OF_FINDING.iter().filter(|name| !written.contains(name)) {
        let hint = "it has source, published and load: schedlab help findings";
        faults.add(&header, format!("the finding has no `{name}`"), "this finding", hint);
    }
    let mut given = table.take_written(FINDING, faults);
    for (name, _) in given.iter().filter(|(_, value)| value.as_text() == Some("")) {
        faults.add(
            &header,
            format!("`{name}` is empty"),
            "in this finding",
            "say it, or leave it out",
        );
    }
    table.finish(&known_keys(&[], &[FINDING]), "[finding]", faults);
    if !expects && !given.contains_key("not-modelled") {
        let hint = "add [[expect]], or not-modelled = \"why virtual time cannot show it\"";
        faults.add(&header, "the finding expects nothing", "this finding", hint);
    }
    let mut text = |name: &str| match given.remove(name) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    };
    Some(Finding {
        source: text("source")?,
        published: text("published")?,
        load: text("load")?,
        kernels: text("kernels"),
        learned: text("learned"),
        not_modelled: text("not-modelled"),
    })
}
