//! Another size of a plan: `[scale.NAME]` holds the changes, by the names of the plan's tables. Pure.
//!
//! ```toml
//! [scale.small.measure]
//! duration = "1s"
//! [scale.small.workload.hackbench]     # the [[workload]] of this name
//! parameters = { groups = [1, 4] }
//! [scale.small]
//! without = ["kernel-build"]           # workloads that it leaves out
//! ```

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::fields::SCALE;
use super::similar::suggestion;
use crate::model::clean;

const WITHOUT: &str = "without";
const EXAMPLE: &str = "write: [scale.small], then without = [\"NAME\"], and [scale.small.workload.NAME] with its changes";

/// Why a plan's text cannot be changed for another size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ChangeError {
    pub problem: String,
    pub hint: String,
}

impl ChangeError {
    pub(super) fn new(problem: String, hint: impl Into<String>) -> ChangeError {
        ChangeError { problem, hint: hint.into() }
    }
}

/// The text of the plan at this size, without comments.
pub fn scaled(text: &str, name: &str) -> Result<String, ChangeError> {
    let shown = clean(name);
    let mut plan = table(text)?;
    let scales = match plan.remove(SCALE) {
        Some(Value::Table(scales)) => scales,
        _ => Table::new(),
    };
    let Some(scale) = scales.get(name).cloned() else {
        let known: Vec<&str> = scales.keys().map(String::as_str).collect();
        let hint = if known.is_empty() {
            "it has one size alone: leave --scale out".to_string()
        } else {
            suggestion(name, &known)
        };
        return Err(ChangeError::new(format!("the plan has no scale `{shown}`"), hint));
    };
    let place = format!("[{SCALE}.{shown}]");
    let mut scale: Table = of_kind(scale, &place, "a table")?;
    if scale.contains_key(SCALE) {
        let problem = format!("{place} has scales of its own");
        return Err(ChangeError::new(problem, format!("write each next to it: [{SCALE}.NAME]")));
    }
    let mut works = match plan.remove("workload") {
        Some(Value::Array(works)) => works,
        _ => Vec::new(),
    };
    let is_of = |work: &Value, name: &str| name_of(work) == Some(name);
    if let Some(without) = scale.remove(WITHOUT) {
        let names: Vec<String> =
            of_kind(without, &format!("`{WITHOUT}` of {place}"), "a list of names")?;
        for named in names {
            let before = works.len();
            works.retain(|work| !is_of(work, &named));
            if works.len() == before {
                return Err(no_work(&place, &named));
            }
        }
    }
    if let Some(changes) = scale.remove("workload") {
        let changes: Table = of_kind(changes, &format!("`workload` of {place}"), "a table")?;
        for (named, change) in changes {
            let Some(work) = works.iter_mut().find(|work| is_of(work, &named)) else {
                return Err(no_work(&place, &named));
            };
            merge(work, change);
        }
    }
    plan.insert("workload".to_string(), Value::Array(works));
    let mut plan = Value::Table(plan);
    merge(&mut plan, Value::Table(scale));
    toml::to_string(&plan).map_err(|error| ChangeError::new(error.to_string(), "leave --scale out"))
}

/// The plan as a table.
pub(super) fn table(text: &str) -> Result<Table, ChangeError> {
    text.parse().map_err(|error: toml::de::Error| {
        let hint = "schedlab run PLAN --dry-run says more";
        ChangeError::new(format!("the plan is not TOML: {}", error.message()), hint)
    })
}

/// The value as what `place` takes.
fn of_kind<T: DeserializeOwned>(value: Value, place: &str, kind: &str) -> Result<T, ChangeError> {
    let refused = |_| ChangeError::new(format!("{place} is not {kind}"), EXAMPLE);
    value.try_into().map_err(refused)
}

fn no_work(place: &str, named: &str) -> ChangeError {
    let problem = format!("{place} names no workload `{}`", clean(named));
    ChangeError::new(problem, "the `name` of a [[workload]], else what it uses")
}

pub(super) fn name_of(work: &Value) -> Option<&str> {
    work.get("name").or(work.get("use"))?.as_str()
}

/// Tables are merged; anything else is put in place.
fn merge(value: &mut Value, change: Value) {
    match (value, change) {
        (Value::Table(table), Value::Table(changes)) => {
            for (key, change) in changes {
                match table.get_mut(&key) {
                    Some(old) => merge(old, change),
                    None => _ = table.insert(key, change),
                }
            }
        }
        (value, change) => *value = change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    const PLAN: &str = "schema = 1\n[measure]\nrounds = 9\nduration = \"5s\"\n\
        [[workload]]\nuse = \"hackbench\"\nparameters = { groups = [1, 16], loops = 9 }\n\
        [[workload]]\nname = \"mix\"\nuse = \"spin\"\n[[workload]]\nuse = \"pipe\"\n\
        [scale.small]\nwithout = [\"pipe\"]\nmeasure = { duration = \"1s\" }\n\
        [scale.small.workload]\nhackbench.parameters.groups = [1]\nmix.count = 2\n";

    #[test]
    fn a_size_changes_what_it_names_alone() {
        let parse = |text: &str| plan::parse("p", text, None, Default::default()).unwrap();
        let (plain, small) = (parse(PLAN), parse(&scaled(PLAN, "small").unwrap()));
        assert_eq!((plain.works.len(), small.works.len()), (4, 2));
        assert_eq!((small.measure.rounds, small.measure.duration_ns), (9, 1_000_000_000));
        assert_eq!(small.works[0].sets[0].params["loops"].as_int(), Some(9));
        assert_eq!((small.works[1].name.as_str(), small.works[1].sets[0].count), ("mix", 2));
    }

    #[test]
    fn every_size_of_a_built_in_plan_is_one() {
        for builtin in plan::builtins() {
            let whole: Table = builtin.text.parse().unwrap();
            let scales = whole.get(SCALE).and_then(Value::as_table).cloned().unwrap_or_default();
            for name in scales.keys() {
                let text = scaled(builtin.text, name).unwrap();
                let cpus: crate::model::CpuSet = (0..4).collect();
                let (online, allowed) = (cpus.clone(), cpus);
                let machine = crate::model::Topology { online, allowed, ..Default::default() };
                let plan = plan::parse("p", &text, Some(&machine), Default::default());
                assert!(plan.is_ok(), "{} {name}: {plan:?}", builtin.name);
            }
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let cases = [
            (PLAN.to_string(), "large", "no scale `large`"),
            ("schema = 1".to_string(), "small", "no scale `small`"),
            (PLAN.replace("mix.count", "max.count"), "small", "names no workload `max`"),
            (PLAN.replace("[\"pipe\"]", "[\"tube\"]"), "small", "names no workload `tube`"),
            ("=".to_string(), "small", "not TOML"),
            ("scale.small = 3".to_string(), "small", "[scale.small] is not a table"),
            (
                "scale.small.without = \"a\"".to_string(),
                "small",
                "`without` of [scale.small] is not a list",
            ),
            (
                "scale.small.workload = 3".to_string(),
                "small",
                "`workload` of [scale.small] is not a table",
            ),
            ("scale.small.scale.a = {}".to_string(), "small", "scales of its own"),
        ];
        for (plan, name, says) in cases {
            let error = scaled(&plan, name).unwrap_err();
            assert!(error.problem.contains(says) && !error.hint.is_empty(), "{error:?}");
        }
    }

    #[test]
    fn a_size_for_a_larger_machine_is_no_fault_here() {
        let one: crate::model::CpuSet = "0".parse().unwrap();
        let machine =
            crate::model::Topology { online: one.clone(), allowed: one, ..Default::default() };
        let read = |text: &str| plan::parse("p", text, Some(&machine), Default::default());
        let text = format!("{PLAN}[scale.large.placement]\ncpus = \"0-4095\"\n");
        assert!(read(&text).is_ok());
        assert!(read(&scaled(&text, "large").unwrap()).is_err());
    }

    #[test]
    fn a_size_that_nobody_asks_for_is_checked_where_it_is_written() {
        let many: String = (0..17).map(|at| format!("[scale.a{at}]\n")).collect();
        let cases = [
            (PLAN.to_string(), None),
            (PLAN.replace("mix.count", "max.count"), Some("13:8: [scale.small] names no")),
            (PLAN.replace("1s", "1"), Some("13:8: scale `small`: `1` has no unit")),
            (
                PLAN.replace("measure = {", "measur = {"),
                Some("13:8: scale `small`: unknown key `measur`"),
            ),
            (format!("{PLAN}[scale.odd]\nwithout = 3\n"), Some("19:8: `without` of [scale.odd]")),
            (
                format!("scale = 3\n{}", PLAN.split("[scale").next().unwrap_or_default()),
                Some("1:9: `scale` is a number, not a table"),
            ),
            (
                PLAN.replace("[scale.small]", &format!("{many}[scale.small]")),
                Some("13:2: a plan has 16 scales"),
            ),
        ];
        for (text, expected) in cases {
            let found = plan::parse("p", &text, None, Default::default());
            let found = found.err().map(|errors| errors.to_string());
            match (&found, expected) {
                (None, None) => {}
                (Some(found), Some(start)) => {
                    assert!(found.starts_with(&format!("p:{start}")), "{found}");
                    assert_eq!(found.lines().count(), 1, "{found}");
                }
                _ => panic!("{text}: {found:?}"),
            }
        }
    }
}
