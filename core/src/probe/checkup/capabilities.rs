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
    effective(host).known().is_some_and(|mask| mask >> number & 1 == 1)
}

pub fn missing(host: &Host) -> Reading<Vec<&'static (u32, &'static str, &'static str)>> {
    effective(host)
        .map(|mask| WANTED.iter().filter(|(number, ..)| mask >> number & 1 == 0).collect())
}

/// The effective capabilities as a bit mask.
fn effective(host: &Host) -> Reading<u64> {
    let path = "/proc/self/status";
    host.reading(path).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let mask = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        Reading::from_option(mask, format!("{path}: no `CapEff:` with a hexadecimal mask"))
    })
}
