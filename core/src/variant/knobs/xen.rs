//! Knobs of Xen: for the pool that a run's guests are in, and for the guests. Whoever starts the guests applies
//! them (`exec::xen`).

use crate::model::Kind;
use crate::sys::xen::Scheduler;

use super::super::contract::{Knob, Scope, Wants, knobs};
use super::super::setting::XenSetting;
use super::units::{MS, S, US};

/// Xen counts it in milliseconds.
pub fn is_timeslice(ns: u64) -> bool {
    ns.is_multiple_of(MS)
}

/// Xen counts it in microseconds, and refuses values between 0 and 100.
pub fn is_ratelimit(ns: u64) -> bool {
    ns.is_multiple_of(US) && (ns == 0 || ns >= 100 * US)
}

pub static KNOBS: [Knob; 9] = knobs! {
    "xen-scheduler": Kind::Choice(Scheduler::WORDS) =>
        "Xen's scheduler of the pool that guests are in; Xen's default unless given",
        Wants::Xen(Scope::Hypervisor, |value| {
            Scheduler::from_word(value.as_text()?).map(XenSetting::Scheduler)
        });
    "xen-timeslice": Kind::Duration { min_ns: MS, max_ns: S } =>
        "time slice of Xen's credit scheduler, in whole milliseconds; 30ms is usual",
        Wants::Xen(Scope::Hypervisor, |value| {
            value.as_duration_ns().filter(|ns| is_timeslice(*ns)).map(XenSetting::TimesliceNs)
        });
    "xen-ratelimit": Kind::Duration { min_ns: 0, max_ns: 500 * MS } =>
        "how long a CPU of a guest runs at least, under credit and credit2, in whole microseconds \
         from 100us on; 1ms is usual, 0us: no limit",
        Wants::Xen(Scope::Hypervisor, |value| {
            value.as_duration_ns().filter(|ns| is_ratelimit(*ns)).map(XenSetting::RatelimitNs)
        });
    "xen-weight": Kind::Int { min: 1, max: 65_535 } =>
        "weight of a guest under credit and credit2; 256 is usual",
        Wants::Xen(Scope::Guest, |value| value.as_int()?.try_into().ok().map(XenSetting::Weight));
    "xen-cap": Kind::Int { min: 0, max: 65_535 } =>
        "most CPU time of a guest, in percent of one CPU; 0: no cap",
        Wants::Xen(Scope::Guest, |value| value.as_int()?.try_into().ok().map(XenSetting::Cap));
    "xen-affinity": Kind::Cpus => "CPUs that a guest may run on (hard affinity)",
        Wants::Xen(Scope::Guest, |value| value.as_cpus().cloned().map(XenSetting::Affinity));
    "xen-soft-affinity": Kind::Cpus => "CPUs that a guest should run on (soft affinity)",
        Wants::Xen(Scope::Guest, |value| value.as_cpus().cloned().map(XenSetting::SoftAffinity));
    "guest-memory": Kind::Size { min_bytes: 128 << 20, max_bytes: 64 << 30 } =>
        "memory of a guest of Xen; 192MiB unless given",
        Wants::Xen(Scope::Guest, |value| value.as_bytes().map(XenSetting::MemoryBytes));
    "guest-cpus": Kind::Int { min: 1, max: 64 } =>
        "virtual CPUs of a guest of Xen; 1 unless given",
        Wants::Xen(Scope::Guest, |value| value.as_int()?.try_into().ok().map(XenSetting::Cpus));
};
