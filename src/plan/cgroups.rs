//! `[cgroup.NAME]` of a plan: a tree of cgroups that worker sets can name. Pure.
//!
//! ```toml
//! [cgroup.web]
//! weight = 200
//! [cgroup.web.front]        # a set says: cgroup = "web/front"
//! max = "50%"
//! [[cgroup.web.change]]     # so no cgroup in another has this name
//! at = "1s"
//! weight = 400
//! ```

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::model::{
    Cgroup, CgroupChange, CgroupPath, CpuSet, MAX_CGROUP_DEPTH, MAX_CGROUP_NAME_BYTES, Value,
};
use crate::variant::{self, CGROUP_KNOB as KNOB};

use super::error::Faults;
use super::fields::{AT, CGROUP, CGROUP_CPUS, MAX_CGROUPS, cgroup_fields, names};
use super::knobs::Knobs;
use super::moments::changes;
use super::similar::suggestion;
use super::table::{Entry, Span, Table, kind_of, known_keys, quoted_start, section, text};

/// All cgroups of a plan, each after its parent.
#[derive(Default)]
pub struct Cgroups {
    all: Vec<Cgroup>,
    /// The places of their names.
    spans: Vec<Span>,
}

/// The parent of a cgroup's table.
#[derive(Clone, Copy)]
struct Above<'a> {
    path: Option<&'a CgroupPath>,
    /// `None` if not known here.
    cpus: Option<&'a CpuSet>,
    /// The changes of these CPUs.
    changes: &'a [CgroupChange],
    /// The length of a run.
    duration_ns: u64,
}

impl Above<'_> {
    /// The CPUs from that moment on.
    fn cpus_at(&self, at_ns: u64) -> Option<&CpuSet> {
        let changes = self.changes.iter().rev().filter(|change| change.at_ns <= at_ns);
        changes.filter_map(|change| change.cpus.as_ref()).next().or(self.cpus)
    }
}

impl Cgroups {
    /// `cpus` are those of the placement, if it names some.
    pub fn take(
        top: &mut Table,
        cpus: Option<&CpuSet>,
        duration_ns: u64,
        faults: &mut Faults,
    ) -> Cgroups {
        let mut cgroups = Cgroups::default();
        let Some(table) = section(top, CGROUP, faults) else { return cgroups };
        for entry in table.into_entries() {
            cgroups.add(entry, Above { path: None, cpus, changes: &[], duration_ns }, faults);
        }
        if let Some(span) = cgroups.spans.get(MAX_CGROUPS) {
            let message = format!("{} cgroups", cgroups.all.len());
            faults.add(span, message, "too many", format!("at most {MAX_CGROUPS}"));
        }
        cgroups
    }

    /// One table and those in it.
    fn add(&mut self, entry: Entry, above: Above, faults: &mut Faults) {
        let DeValue::Table(inner) = entry.value.get_ref() else {
            return refuse_value(&entry, above.path.is_some(), faults);
        };
        let path = match above.path {
            Some(above) => format!("{above}/{}", entry.key),
            None => entry.key.to_string(),
        };
        let path = path.parse::<CgroupPath>().ok().filter(|path| path.name() == entry.key);
        let Some(path) = path else { return refuse_name(&entry, faults) };
        let mut table = Table::new(inner, entry.key_span.clone());
        let fields = cgroup_fields();
        let mut written = Knobs::take(&mut table, &fields, faults);
        let (knobs, cpus) = settings(&mut written, above.cpus, faults);
        refuse_conflicts(&written, &BTreeMap::new(), &knobs, faults);
        let changes = take_changes(&mut table, &path, &knobs, above, faults);
        let has_own = cpus.is_some() || changes.iter().any(|change| change.cpus.is_some());
        let below = Above {
            path: Some(&path),
            cpus: cpus.as_ref().or(above.cpus),
            changes: if has_own { &changes } else { above.changes },
            duration_ns: above.duration_ns,
        };
        self.spans.push(entry.key_span);
        let (path, cpus, changes) = (path.clone(), cpus.clone(), changes.clone());
        self.all.push(Cgroup { path, knobs, cpus, changes });
        for entry in table.into_entries() {
            self.add(entry, below, faults);
        }
    }

    /// Takes `cgroup` of a worker set.
    pub fn take_of_set(&self, set: &mut Table, faults: &mut Faults) -> Option<CgroupPath> {
        let entry = set.take(CGROUP)?;
        let name = text(&entry, (MAX_CGROUP_NAME_BYTES + 1) * MAX_CGROUP_DEPTH, faults)?;
        self.named(name, &entry.value.span(), faults)
    }

    /// The cgroup of this path.
    pub fn named(&self, name: &str, span: &Span, faults: &mut Faults) -> Option<CgroupPath> {
        let known: Vec<&str> = self.all.iter().map(|cgroup| cgroup.path.as_str()).collect();
        let found = self.all.iter().find(|cgroup| cgroup.path.as_str() == name);
        if found.is_none() {
            let message = format!("there is no cgroup {}", quoted_start(name));
            let hint = if known.is_empty() {
                "a plan that has one: [cgroup.web] with weight = 200".to_string()
            } else {
                suggestion(name, &known)
            };
            faults.add(span, message, "not in this plan", hint);
        }
        found.map(|cgroup| cgroup.path.clone())
    }

    /// The cgroups that sets in these ones need.
    pub fn needed(&self, used: &[CgroupPath]) -> Vec<Cgroup> {
        Cgroup::needed(&self.all, used)
    }

    /// Notes each cgroup without a set: a set was forgotten, or is in another cgroup.
    pub fn refuse_unused(&self, used: &[CgroupPath], faults: &mut Faults) {
        let needed = self.needed(used);
        for (cgroup, span) in self.all.iter().zip(&self.spans) {
            if !needed.contains(cgroup) {
                let message = format!(
                    "no worker set is in the cgroup {}",
                    quoted_start(cgroup.path.as_str())
                );
                let hint = format!("a set says: cgroup = \"{}\"", cgroup.path);
                faults.add(span, message, "without effect", hint);
            }
        }
    }
}

/// The settings of a cgroup by the names of knobs, and its CPUs, which lie within those above it.
fn settings(
    written: &mut Knobs,
    above: Option<&CpuSet>,
    faults: &mut Faults,
) -> (BTreeMap<String, Value>, Option<CpuSet>) {
    let mut given = std::mem::take(&mut written.values);
    let cpus = given.remove(CGROUP_CPUS.name).and_then(|value| value.as_cpus().cloned());
    if let (Some(own), Some(all)) = (&cpus, above) {
        check_cpus(own, all, written.span(CGROUP_CPUS.name), faults);
    }
    (given.into_iter().map(|(name, value)| (format!("{KNOB}{name}"), value)).collect(), cpus)
}

/// The changes of a cgroup that begins with `knobs`, in the order in which they happen.
fn take_changes(
    cgroup: &mut Table,
    path: &CgroupPath,
    knobs: &BTreeMap<String, Value>,
    above: Above,
    faults: &mut Faults,
) -> Vec<CgroupChange> {
    let name = format!("{CGROUP}.{}", path.as_str().replace('/', "."));
    let timed = changes(cgroup, &name, above.duration_ns, faults);
    let mut now = knobs.clone();
    let change = |(at_ns, mut table): (u64, Table)| {
        let fields = cgroup_fields();
        let (place, mut written) = (table.span.clone(), Knobs::take(&mut table, &fields, faults));
        let known = known_keys(&[AT], &[&fields]);
        let before = faults.len();
        table.finish(&known, "a change of a cgroup", faults);
        if !written.has_keys() && faults.len() == before {
            let hint = "say what changes: weight = 200";
            faults.add(&place, "a change of nothing", "this one", hint);
        }
        let (knobs, cpus) = settings(&mut written, above.cpus_at(at_ns), faults);
        if knobs.get(IDLE) == Some(&Value::Bool(true)) {
            // The kernel gives it the weight of idle tasks, and 100 when it is no longer idle.
            now.remove(WEIGHT);
        }
        let after = now.clone().into_iter().chain(knobs.clone()).collect();
        refuse_conflicts(&written, &now, &after, faults);
        now = after;
        CgroupChange { at_ns, knobs, cpus }
    };
    timed.into_iter().map(change).collect()
}

const IDLE: &str = "cgroup-idle";
const WEIGHT: &str = "cgroup-weight";

/// Notes settings that do not go together, unless the same is wrong with those of `before`.
fn refuse_conflicts(
    written: &Knobs,
    before: &BTreeMap<String, Value>,
    knobs: &BTreeMap<String, Value>,
    faults: &mut Faults,
) {
    let known = variant::validate(before);
    let found = variant::validate(knobs).into_iter().filter(|fault| !known.contains(fault));
    for (knob, message, hint) in found {
        let name = knob.trim_start_matches(KNOB);
        faults.add(written.span(name), message, "not in this cgroup", hint);
    }
}

fn refuse_value(entry: &Entry, in_cgroup: bool, faults: &mut Faults) {
    let (message, hint) = if in_cgroup {
        (
            format!("unknown key {} in a cgroup", quoted_start(entry.key)),
            suggestion(entry.key, &names(&cgroup_fields())),
        )
    } else {
        (
            format!(
                "{} is {}, not a cgroup",
                quoted_start(entry.key),
                kind_of(entry.value.get_ref())
            ),
            "write: [cgroup.web] with weight = 200".to_string(),
        )
    };
    faults.add(&entry.key_span, message, "not known here", hint);
}

fn refuse_name(entry: &Entry, faults: &mut Faults) {
    let hint = if entry.key.contains('/') {
        "a cgroup in another is a table in its table: [cgroup.web.front]".to_string()
    } else {
        format!(
            "A-Z a-z 0-9 - _, at most {MAX_CGROUP_NAME_BYTES}, and {MAX_CGROUP_DEPTH} within each other"
        )
    };
    let message = format!("{} is not a name for a cgroup", quoted_start(entry.key));
    faults.add(&entry.key_span, message, "this name", hint);
}

fn check_cpus(own: &CpuSet, all: &CpuSet, span: &Span, faults: &mut Faults) {
    let outside = own.minus(all);
    if !outside.is_empty() {
        let message = format!("CPUs {outside} are not among those above it");
        faults.add(span, message, "not there", format!("there are CPUs {all}"));
    }
}
