//! A published claim about a scheduler, which a plan puts to the test. Plain data.

use serde::{Deserialize, Serialize};

/// `[finding]` of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A commit, a message's id or an address.
    pub source: String,
    /// The figures.
    pub published: String,
    /// The published load, and the form that it has here.
    pub load: String,
    /// The kernels on which it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<String>,
    /// The lesson from a difference between the publication and the results here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<String>,
    /// Why virtual time cannot show it: such a finding is not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_modelled: Option<String>,
}
