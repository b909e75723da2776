//! Knobs that each worker thread sets on itself.

use crate::model::{Field, Kind, Value};
use crate::sys::sched::{Policy, UCLAMP_MAX as FULL};

use super::super::contract::{Knob, Wants};
use super::super::setting::TaskSetting;
use super::units::{MS, S, US};

const PERCENT: Kind = Kind::Percent { min: 0.0, max: 100.0 };

/// The kernel refuses a SCHED_DEADLINE runtime below 1024 ns, and a period above `sched_deadline_period_max_us`
/// (4.2 s unless changed).
const DEADLINE_TIME: Kind = Kind::Duration { min_ns: 1024, max_ns: 60 * S };

fn utilisation(value: &Value) -> Option<u32> {
    let percent = value.as_percent()?;
    Some((percent / 100.0 * f64::from(FULL)).round() as u32)
}

pub static KNOBS: [Knob; 11] = [
    Knob::new(
        Field::new("policy", Kind::Choice(&["other", "batch", "idle", "fifo", "rr", "deadline"]))
            .about("scheduling policy of every worker, as sched(7) names them"),
        Wants::Task(|value| Policy::from_word(value.as_text()?).map(TaskSetting::Policy)),
    )
    .live(),
    Knob::new(
        // Next to workers of the measuring thread's priority, windows are not read on time.
        Field::new("priority", Kind::Int { min: 1, max: 98 }).about(
            "real-time priority under fifo and rr; 1 if not given (99 is schedlab's own \
             measuring thread's)",
        ),
        Wants::Task(|value| value.as_int()?.try_into().ok().map(TaskSetting::Priority)),
    )
    .live(),
    Knob::new(
        Field::new("runtime", DEADLINE_TIME).about("CPU time per period under policy deadline"),
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::RuntimeNs)),
    ),
    Knob::new(
        Field::new("deadline", DEADLINE_TIME)
            .about("relative deadline under policy deadline; the period if not given"),
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::DeadlineNs)),
    ),
    Knob::new(
        Field::new("period", DEADLINE_TIME)
            .about("period under policy deadline; the deadline if not given"),
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::PeriodNs)),
    ),
    Knob::new(
        Field::new("nice", Kind::Int { min: -20, max: 19 })
            .about("nice value under other and batch; below the present one needs CAP_SYS_NICE"),
        Wants::Task(|value| value.as_int()?.try_into().ok().map(TaskSetting::Nice)),
    )
    .live(),
    Knob::new(
        Field::new("slice", Kind::Duration { min_ns: 100 * US, max_ns: 100 * MS })
            .about("custom slice under other and batch (sched_setattr's runtime; Linux 6.12)"),
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::SliceNs)),
    )
    .live(),
    Knob::new(
        Field::new("uclamp-min", PERCENT).about(
            "least utilisation that is assumed, of full capacity: 50% is 512 of the kernel's 1024",
        ),
        Wants::Task(|value| utilisation(value).map(TaskSetting::UclampMin)),
    )
    .live(),
    Knob::new(
        Field::new("uclamp-max", PERCENT).about(
            "most utilisation that is assumed, of full capacity: 50% is 512 of the kernel's 1024",
        ),
        Wants::Task(|value| utilisation(value).map(TaskSetting::UclampMax)),
    )
    .live(),
    Knob::new(
        Field::new("timer-slack", Kind::Duration { min_ns: 1, max_ns: 10 * S })
            .about("how late the kernel may fire a thread's timers to group them; usually 50us"),
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::TimerSlackNs)),
    ),
    Knob::new(
        Field::new("affinity", Kind::Cpus).about("CPUs that each worker may run on"),
        Wants::Task(|value| value.as_cpus().cloned().map(TaskSetting::Affinity)),
    ),
];
