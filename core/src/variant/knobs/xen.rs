//! Knobs of Xen: for the pool that a run's guests are in, and for the guests. Whoever starts the guests applies
//! them (`exec::xen`).

use crate::model::{Field, Kind};
use crate::sys::xen::Scheduler;

use super::super::contract::{Knob, Scope, Wants};
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

pub static KNOBS: [Knob; 9] = [
    Knob::new(
        Field::new("xen-scheduler", Kind::Choice(Scheduler::WORDS))
            .about("Xen's scheduler of the pool that guests are in; Xen's default unless given"),
        Wants::Xen(Scope::Hypervisor, |value| {
            Scheduler::from_word(value.as_text()?).map(XenSetting::Scheduler)
        }),
    ),
    Knob::new(
        Field::new("xen-timeslice", Kind::Duration { min_ns: MS, max_ns: S })
            .about("time slice of Xen's credit scheduler, in whole milliseconds; 30ms is usual"),
        Wants::Xen(Scope::Hypervisor, |value| {
            value.as_duration_ns().filter(|ns| is_timeslice(*ns)).map(XenSetting::TimesliceNs)
        }),
    ),
    Knob::new(
        Field::new("xen-ratelimit", Kind::Duration { min_ns: 0, max_ns: 500 * MS }).about(
            "how long a CPU of a guest runs at least, under credit and credit2, in whole \
             microseconds from 100us on; 1ms is usual, 0us: no limit",
        ),
        Wants::Xen(Scope::Hypervisor, |value| {
            value.as_duration_ns().filter(|ns| is_ratelimit(*ns)).map(XenSetting::RatelimitNs)
        }),
    ),
    Knob::new(
        Field::new("xen-weight", Kind::Int { min: 1, max: 65_535 })
            .about("weight of a guest under credit and credit2; 256 is usual"),
        Wants::Xen(Scope::Guest, |value| value.as_int()?.try_into().ok().map(XenSetting::Weight)),
    ),
    Knob::new(
        Field::new("xen-cap", Kind::Int { min: 0, max: 65_535 })
            .about("most CPU time of a guest, in percent of one CPU; 0: no cap"),
        Wants::Xen(Scope::Guest, |value| value.as_int()?.try_into().ok().map(XenSetting::Cap)),
    ),
    Knob::new(
        Field::new("xen-affinity", Kind::Cpus)
            .about("CPUs that a guest may run on (hard affinity)"),
        Wants::Xen(Scope::Guest, |value| value.as_cpus().cloned().map(XenSetting::Affinity)),
    ),
    Knob::new(
        Field::new("xen-soft-affinity", Kind::Cpus)
            .about("CPUs that a guest should run on (soft affinity)"),
        Wants::Xen(Scope::Guest, |value| value.as_cpus().cloned().map(XenSetting::SoftAffinity)),
    ),
    Knob::new(
        Field::new("guest-memory", Kind::Size { min_bytes: 128 << 20, max_bytes: 64 << 30 })
            .about("memory of a guest of Xen; 192MiB unless given"),
        Wants::Xen(Scope::Guest, |value| value.as_bytes().map(XenSetting::MemoryBytes)),
    ),
    Knob::new(
        Field::new("guest-cpus", Kind::Int { min: 1, max: 64 })
            .about("virtual CPUs of a guest of Xen; 1 unless given"),
        Wants::Xen(Scope::Guest, |value| value.as_int()?.try_into().ok().map(XenSetting::Cpus)),
    ),
];
