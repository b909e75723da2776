//! Knobs of Xen: for the pool that a run's guests are in, and for the guests. Whoever starts the guests applies
//! them (`exec::xen`).

use crate::model::{Field, Kind, Value};
use crate::sys::{Host, xen::Scheduler};
use crate::variant::{Action, Knob, Missing, Scope, XenSetting};

use super::{MS, S, US, field, misfit};

pub struct XenKnob {
    field: Field,
    scope: Scope,
    setting: fn(&Value) -> Option<XenSetting>,
}

impl Knob for XenKnob {
    fn field(&self) -> Field {
        self.field
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn actions(&self, value: &Value, _host: &Host) -> Result<Vec<Action>, Missing> {
        let setting = (self.setting)(value).ok_or_else(|| misfit(&self.field, value))?;
        Ok(vec![Action::Xen(setting)])
    }
}

const fn of_pool(field: Field, setting: fn(&Value) -> Option<XenSetting>) -> XenKnob {
    XenKnob { field, scope: Scope::Hypervisor, setting }
}

const fn of_guest(field: Field, setting: fn(&Value) -> Option<XenSetting>) -> XenKnob {
    XenKnob { field, scope: Scope::Guest, setting }
}

pub static XEN_SCHEDULER: XenKnob = of_pool(
    field(
        "xen-scheduler",
        Kind::Choice(Scheduler::WORDS),
        "Xen's scheduler of the pool that guests are in; Xen's default unless given",
    ),
    |value| Scheduler::from_word(value.as_text()?).map(XenSetting::Scheduler),
);

pub static XEN_TIMESLICE: XenKnob = of_pool(
    field(
        "xen-timeslice",
        Kind::Duration { min_ns: MS, max_ns: S },
        "time slice of Xen's credit scheduler, in whole milliseconds; 30ms is usual",
    ),
    |value| value.as_duration_ns().filter(|ns| is_timeslice(*ns)).map(XenSetting::TimesliceNs),
);

pub static XEN_RATELIMIT: XenKnob = of_pool(
    field(
        "xen-ratelimit",
        Kind::Duration { min_ns: 0, max_ns: 500 * MS },
        "how long a CPU of a guest runs at least, under credit and credit2, in whole microseconds from 100us \
         on; 1ms is usual, 0us: no limit",
    ),
    |value| value.as_duration_ns().filter(|ns| is_ratelimit(*ns)).map(XenSetting::RatelimitNs),
);

/// Xen counts it in milliseconds.
pub fn is_timeslice(ns: u64) -> bool {
    ns.is_multiple_of(MS)
}

/// Xen counts it in microseconds, and refuses values between 0 and 100.
pub fn is_ratelimit(ns: u64) -> bool {
    ns.is_multiple_of(US) && (ns == 0 || ns >= 100 * US)
}

pub static XEN_WEIGHT: XenKnob = of_guest(
    field(
        "xen-weight",
        Kind::Int { min: 1, max: 65_535 },
        "weight of a guest under credit and credit2; 256 is usual",
    ),
    |value| value.as_int()?.try_into().ok().map(XenSetting::Weight),
);

pub static XEN_CAP: XenKnob = of_guest(
    field(
        "xen-cap",
        Kind::Int { min: 0, max: 65_535 },
        "most CPU time of a guest, in percent of one CPU; 0: no cap",
    ),
    |value| value.as_int()?.try_into().ok().map(XenSetting::Cap),
);

pub static XEN_AFFINITY: XenKnob = of_guest(
    field("xen-affinity", Kind::Cpus, "CPUs that a guest may run on (hard affinity)"),
    |value| value.as_cpus().cloned().map(XenSetting::Affinity),
);

pub static XEN_SOFT_AFFINITY: XenKnob = of_guest(
    field("xen-soft-affinity", Kind::Cpus, "CPUs that a guest should run on (soft affinity)"),
    |value| value.as_cpus().cloned().map(XenSetting::SoftAffinity),
);

pub static GUEST_MEMORY: XenKnob = of_guest(
    field(
        "guest-memory",
        Kind::Size { min_bytes: 128 << 20, max_bytes: 64 << 30 },
        "memory of a guest of Xen; 192MiB unless given",
    ),
    |value| value.as_bytes().map(XenSetting::MemoryBytes),
);

pub static GUEST_CPUS: XenKnob = of_guest(
    field(
        "guest-cpus",
        Kind::Int { min: 1, max: 64 },
        "virtual CPUs of a guest of Xen; 1 unless given",
    ),
    |value| value.as_int()?.try_into().ok().map(XenSetting::Cpus),
);
