//! The capabilities that schedlab can use, and whether each is in effect. Reads.

use crate::model::Reading;
use crate::sys::Host;

/// Capability number, name, and its use here.
const WANTED: &[(u32, &str, &str)] = &[
    (23, "CAP_SYS_NICE", "policies fifo, rr and deadline, negative nice"),
    (21, "CAP_SYS_ADMIN", "cgroups, debugfs"),
    (1, "CAP_DAC_OVERRIDE", "scheduler features, sysctls"),
];

/// Whether every capability that anything here asks for is in effect.
pub fn has_all(host: &Host) -> bool {
    missing(host).known().is_some_and(|missing| missing.is_empty())
}

pub fn has(host: &Host, number: u32) -> bool {
    host.capabilities().known().is_some_and(|mask| mask >> number & 1 == 1)
}

pub fn missing(host: &Host) -> Reading<Vec<&'static (u32, &'static str, &'static str)>> {
    host.capabilities()
        .map(|mask| WANTED.iter().filter(|(number, ..)| mask >> number & 1 == 0).collect())
}
