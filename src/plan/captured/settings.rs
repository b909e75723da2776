//! How threads were set, as the kernel said. Pure.

use crate::model::CpuSet;

/// How the threads of a role were set.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settings {
    pub policy: Option<&'static str>,
    pub slice_ns: Option<u64>,
    pub affinity: Option<CpuSet>,
}
