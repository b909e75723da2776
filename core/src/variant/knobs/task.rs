//! Knobs that each worker thread sets on itself.

use crate::model::{Kind, Value};
use crate::sys::sched::{Policy, UCLAMP_MAX as FULL};

use super::super::contract::{Knob, Wants, knobs};
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

pub static KNOBS: [Knob; 11] = knobs! {
    "policy": Kind::Choice(Policy::WORDS) =>
        "scheduling policy of every worker, as sched(7) names them",
        Wants::Task(|value| Policy::from_word(value.as_text()?).map(TaskSetting::Policy)), live;
    // Next to workers of the measuring thread's priority, windows are not read on time.
    "priority": Kind::Int { min: 1, max: 98 } =>
        "real-time priority under fifo and rr; 1 if not given (99 is schedlab's own measuring \
         thread's)",
        Wants::Task(|value| value.as_int()?.try_into().ok().map(TaskSetting::Priority)), live;
    "runtime": DEADLINE_TIME => "CPU time per period under policy deadline",
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::RuntimeNs));
    "deadline": DEADLINE_TIME =>
        "relative deadline under policy deadline; the period if not given",
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::DeadlineNs));
    "period": DEADLINE_TIME => "period under policy deadline; the deadline if not given",
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::PeriodNs));
    "nice": Kind::Int { min: -20, max: 19 } =>
        "nice value under other and batch; below the present one needs CAP_SYS_NICE",
        Wants::Task(|value| value.as_int()?.try_into().ok().map(TaskSetting::Nice)), live;
    "slice": Kind::Duration { min_ns: 100 * US, max_ns: 100 * MS } =>
        "custom slice under other and batch (sched_setattr's runtime; Linux 6.12)",
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::SliceNs)), live;
    "uclamp-min": PERCENT =>
        "least utilisation that is assumed, of full capacity: 50% is 512 of the kernel's 1024",
        Wants::Task(|value| utilisation(value).map(TaskSetting::UclampMin)), live;
    "uclamp-max": PERCENT =>
        "most utilisation that is assumed, of full capacity: 50% is 512 of the kernel's 1024",
        Wants::Task(|value| utilisation(value).map(TaskSetting::UclampMax)), live;
    "timer-slack": Kind::Duration { min_ns: 1, max_ns: 10 * S } =>
        "how late the kernel may fire a thread's timers to group them; usually 50us",
        Wants::Task(|value| value.as_duration_ns().map(TaskSetting::TimerSlackNs));
    "affinity": Kind::Cpus => "CPUs that each worker may run on",
        Wants::Task(|value| value.as_cpus().cloned().map(TaskSetting::Affinity));
};
