//! Plans that the null backend runs, for tests.

use crate::backend::{Backend, Null};
use crate::model::{EVENT_SCHEMA, Plan, PlanStarted};
use crate::plan;

/// The plan of a file with this text.
pub fn parsed(text: &str) -> Plan {
    let plan = plan::parse("test.toml", text, None, plan::Known::default());
    plan.unwrap_or_else(|errors| panic!("{}", errors.render()))
}

/// A plan of this text that begins.
pub fn started(plan: Plan, text: &str) -> PlanStarted {
    PlanStarted {
        schema: EVENT_SCHEMA,
        id: "test".to_string(),
        backend: "null".to_string(),
        started_unix_ns: 0,
        source: text.to_string(),
        cells: plan::cells(&plan),
        plan,
        judged: Default::default(),
        sharding: None,
        environment: Null::default().environment(),
    }
}
