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
    use super::*;
    use crate::plan;

    #[test]
    fn a_sysctl_given_as_a_table_is_refused_with_the_right_form() {
        let text = "schema = 1\n[[variant]]\nname = \"a\"\nsysctl = { sched_x = 5 }\n\
            [[workload]]\nuse = \"spin\"\n";
        let errors = plan::parse("p.toml", text, None, known()).unwrap_err();
        let hint = &errors.errors()[0].hint;
        assert!(hint.contains("[\"sched_x=5\"]"), "{hint}");
    }
}
