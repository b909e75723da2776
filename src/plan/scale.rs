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

use toml::{Table, Value};

use super::fields::SCALE;
use super::similar::suggestion;
use crate::model::clean;

const WITHOUT: &str = "without";

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
    let Some(Value::Table(mut scale)) = scales.get(name).cloned() else {
        let known: Vec<&str> = scales.keys().map(String::as_str).collect();
        let hint = if known.is_empty() {
            "it has one size alone: leave --scale out".to_string()
        } else {
            suggestion(name, &known)
        };
        return Err(ChangeError::new(format!("the plan has no scale `{shown}`"), hint));
    };
    let mut works = match plan.remove("workload") {
        Some(Value::Array(works)) => works,
        _ => Vec::new(),
    };
    let without = match scale.remove(WITHOUT) {
        Some(Value::Array(names)) => names,
        _ => Vec::new(),
    };
    let is_of = |work: &Value, name: &str| name_of(work) == Some(name);
    for named in without.iter().filter_map(Value::as_str) {
        let before = works.len();
        works.retain(|work| !is_of(work, named));
        if works.len() == before {
            return Err(no_work(&shown.to_string(), named));
        }
    }
    if let Some(Value::Table(changes)) = scale.remove("workload") {
        for (named, change) in changes {
            let Some(work) = works.iter_mut().find(|work| is_of(work, &named)) else {
                return Err(no_work(&shown.to_string(), &named));
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

fn no_work(scale: &str, named: &str) -> ChangeError {
    let problem = format!("[scale.{scale}] names no workload `{}`", clean(named));
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
        ];
        for (plan, name, says) in cases {
            let error = scaled(&plan, name).unwrap_err();
            assert!(error.problem.contains(says) && !error.hint.is_empty(), "{error:?}");
        }
    }
}
