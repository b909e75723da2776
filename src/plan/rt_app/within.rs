//! Files of rt-app that a plan names: their sets take the place of `use = "app.json"`. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::plan::error::{Faults, PlanErrors};
use crate::plan::fields::MAX_TEXT_BYTES;

use super::{RT_APP, groups, read, set_text};

/// The files of rt-app that the workloads of a plan name, each once.
pub fn rt_app_files(plan: &str) -> BTreeSet<String> {
    uses(plan).into_iter().map(|(file, _)| file).collect()
}

/// The plan with the sets of these files where it names them, in one line: errors show the lines of the plan.
pub fn with_rt_app_files(plan: &str, files: &[(String, String)]) -> Result<String, PlanErrors> {
    let mut cgroups: BTreeSet<String> = BTreeSet::new();
    let mut tables: BTreeMap<&str, String> = BTreeMap::new();
    for (name, text) in files {
        let (_, sets) = read(name, text)?;
        let own = sets.iter().map(|set| set_text(set, false));
        tables.insert(name, format!("set = [{}]", own.collect::<Vec<_>>().join(", ")));
        cgroups.extend(groups(&sets).into_iter().map(str::to_string));
    }
    let uses = uses(plan);
    let added = uses.iter().filter_map(|(name, _)| Some(tables.get(name.as_str())?.len()));
    let length = plan.len() + added.sum::<usize>();
    if length > MAX_TEXT_BYTES {
        let mut faults = Faults::default();
        let hint =
            format!("at most {MAX_TEXT_BYTES}: fewer `use = \"app.json\"`, or smaller files");
        faults.add_of_all(format!("with its files of rt-app the plan has {length} bytes"), hint);
        return Err(faults.into_errors("the plan", plan));
    }
    let mut whole = plan.to_string();
    // From the end on, so that the places before stay.
    for (name, span) in uses.into_iter().rev() {
        if let Some(tables) = tables.get(name.as_str()) {
            whole.replace_range(span, tables);
        }
    }
    for path in &cgroups {
        whole = with_cgroup(whole, path);
    }
    Ok(whole)
}

/// The plan with this cgroup, if it does not have it. What is written in braces takes no table of its own behind it.
fn with_cgroup(plan: String, path: &str) -> String {
    let names: Vec<&str> = std::iter::once("cgroup").chain(path.split('/')).collect();
    let place = DeTable::parse(&plan).ok().and_then(|document| {
        let mut at = (document.get_ref(), 0..0);
        for (depth, name) in names.iter().enumerate() {
            match at.0.get(*name).map(|value| (value.get_ref(), value.span())) {
                Some((DeValue::Table(table), span)) => at = (table, span),
                _ => return Some((depth, at.1, at.0.is_empty())),
            }
        }
        None
    });
    let Some((depth, span, is_empty)) = place else { return plan };
    if plan[span.clone()].starts_with('{') {
        let (before, after) = plan.split_at(span.start + 1);
        let comma = if is_empty { "" } else { "," };
        return format!("{before} {} = {{}}{comma}{after}", names[depth..].join("."));
    }
    format!("{}\n\n[{}]\n", plan.trim_end(), names.join("."))
}

/// Each file, and the place of the key that names it.
fn uses(plan: &str) -> Vec<(String, Range<usize>)> {
    let Ok(plan) = DeTable::parse(plan) else { return Vec::new() };
    let Some(DeValue::Array(works)) = plan.get_ref().get("workload").map(|of| of.get_ref()) else {
        return Vec::new();
    };
    // A workload with sets of its own too is refused as it stands.
    let tables = works.iter().filter_map(|work| match work.get_ref() {
        DeValue::Table(table) if !table.contains_key("set") => {
            table.iter().find(|(key, _)| key.get_ref() == "use")
        }
        _ => None,
    });
    let named = tables.filter_map(|(key, value)| match value.get_ref() {
        DeValue::String(name) if name.ends_with(RT_APP) => {
            Some((name.to_string(), key.span().start..value.span().end))
        }
        _ => None,
    });
    named.collect()
}
