//! The names in registries that the plan's parser cannot see.

use std::sync::LazyLock;

use crate::plan::Known;
use crate::{probe, report};

/// Every probe and every report format.
pub fn known() -> Known {
    static FORMATS: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| report::formats().iter().map(|format| format.name).collect());
    Known { probes: probe::specs(), formats: &FORMATS }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::cli::list;
    use crate::model::{Reading, Value};
    use crate::plan;
    use crate::probe::{Role, Telemetry};

    const PLAN: &str = "schema = 1\nprobes = [\"dummy\", \"sched\"]\n[[variant]]\nname = \"a\"\n\
        dummy = true\n[[workload]]\nuse = \"spin\"\n";

    /// The registries have one line more in tests: a dummy probe and a dummy knob. Nothing else
    /// names them.
    #[test]
    fn a_line_in_a_registry_is_all_that_a_probe_or_a_knob_needs() {
        for rows in [list::probes(), list::knobs()] {
            assert!(rows.iter().any(|row| row[0] == "dummy"), "{rows:?}");
        }
        let plan = plan::parse("p.toml", PLAN, None, known()).unwrap();
        assert_eq!(plan.probes, ["dummy", "sched"]);
        assert_eq!(plan.variants[0].knobs["dummy"], Value::Bool(true));

        let schema = plan::json_schema(known());
        let probes = schema.pointer("/properties/probes/items/enum").unwrap();
        assert!(probes.as_array().unwrap().contains(&"dummy".into()), "{probes}");
        assert!(schema.pointer("/properties/variant/items/properties/dummy").is_some());

        let mut telemetry = Telemetry::open(&["dummy".to_string()], &[1]);
        telemetry.poll();
        telemetry.begin();
        telemetry.poll();
        telemetry.poll();
        telemetry.end();
        let role = Role { thread: "spin-worker", tids: BTreeSet::from([1]) };
        let names = BTreeMap::from([("spin-worker", "worker")]);
        let (metrics, _) = telemetry.measured(&[role], &names);
        let named = probe::find("dummy").unwrap().spec().metrics_of("worker", &["worker"]);
        assert_eq!(named.iter().map(|kind| &kind.name).collect::<Vec<_>>(), ["worker_polls"]);
        assert_eq!((metrics.len(), metrics[0].kind.name.as_str()), (1, "worker_polls"));
        assert_eq!(metrics[0].value, Reading::Known(2.0));
    }
    #[test]
    fn a_sysctl_given_as_a_table_is_refused_with_the_right_form() {
        let text = "schema = 1\n[[variant]]\nname = \"a\"\nsysctl = { sched_x = 5 }\n\
            [[workload]]\nuse = \"spin\"\n";
        let errors = plan::parse("p.toml", text, None, known()).unwrap_err();
        let hint = &errors.errors()[0].hint;
        assert!(hint.contains("[\"sched_x=5\"]"), "{hint}");
    }
}
