//! Knobs that each worker thread sets on itself.

use crate::model::{Field, Kind, Value};
use crate::sys::Host;
use crate::sys::sched::{Policy, UCLAMP_MAX as FULL};
use crate::variant::{Action, Knob, Missing, Scope, TaskSetting};

use super::{MS, S, US, field, misfit};

pub struct TaskKnob {
    field: Field,
    setting: fn(&Value) -> Option<TaskSetting>,
    live: bool,
}

impl Knob for TaskKnob {
    fn field(&self) -> Field {
        self.field
    }

    fn scope(&self) -> Scope {
        Scope::Task
    }

    fn is_live(&self) -> bool {
        self.live
    }

    fn actions(&self, value: &Value, _host: &Host) -> Result<Vec<Action>, Missing> {
        let setting = (self.setting)(value).ok_or_else(|| misfit(&self.field, value))?;
        Ok(vec![Action::Task(setting)])
    }
}

const PERCENT: Kind = Kind::Percent { min: 0.0, max: 100.0 };

/// The kernel refuses a SCHED_DEADLINE runtime below 1024 ns, and a period above `sched_deadline_period_max_us`
/// (4.2 s unless changed).
const DEADLINE_TIME: Kind = Kind::Duration { min_ns: 1024, max_ns: 60 * S };

pub static POLICY: TaskKnob = TaskKnob {
    field: field(
        "policy",
        Kind::Choice(&["other", "batch", "idle", "fifo", "rr", "deadline"]),
        "scheduling policy of every worker, as sched(7) names them",
    ),
    setting: |value| Policy::from_word(value.as_text()?).map(TaskSetting::Policy),
    live: true,
};

pub static PRIORITY: TaskKnob = TaskKnob {
    field: field(
        "priority",
        // Next to workers of the measuring thread's priority, windows are not read on time.
        Kind::Int { min: 1, max: 98 },
        "real-time priority under fifo and rr; 1 if not given (99 is schedlab's own measuring \
         thread's)",
    ),
    setting: |value| value.as_int()?.try_into().ok().map(TaskSetting::Priority),
    live: true,
};

pub static RUNTIME: TaskKnob = TaskKnob {
    field: field("runtime", DEADLINE_TIME, "CPU time per period under policy deadline"),
    setting: |value| value.as_duration_ns().map(TaskSetting::RuntimeNs),
    live: false,
};

pub static DEADLINE: TaskKnob = TaskKnob {
    field: field(
        "deadline",
        DEADLINE_TIME,
        "relative deadline under policy deadline; the period if not given",
    ),
    setting: |value| value.as_duration_ns().map(TaskSetting::DeadlineNs),
    live: false,
};

pub static PERIOD: TaskKnob = TaskKnob {
    field: field(
        "period",
        DEADLINE_TIME,
        "period under policy deadline; the deadline if not given",
    ),
    setting: |value| value.as_duration_ns().map(TaskSetting::PeriodNs),
    live: false,
};

pub static NICE: TaskKnob = TaskKnob {
    field: field(
        "nice",
        Kind::Int { min: -20, max: 19 },
        "nice value under other and batch; below the present one needs CAP_SYS_NICE",
    ),
    setting: |value| value.as_int()?.try_into().ok().map(TaskSetting::Nice),
    live: true,
};

pub static SLICE: TaskKnob = TaskKnob {
    field: field(
        "slice",
        Kind::Duration { min_ns: 100 * US, max_ns: 100 * MS },
        "custom slice under other and batch (sched_setattr's runtime; Linux 6.12)",
    ),
    setting: |value| value.as_duration_ns().map(TaskSetting::SliceNs),
    live: true,
};

fn utilisation(value: &Value) -> Option<u32> {
    let percent = value.as_percent()?;
    Some((percent / 100.0 * f64::from(FULL)).round() as u32)
}

pub static UCLAMP_MIN: TaskKnob = TaskKnob {
    field: field(
        "uclamp-min",
        PERCENT,
        "least utilisation that is assumed, of full capacity: 50% is 512 of the kernel's 1024",
    ),
    setting: |value| utilisation(value).map(TaskSetting::UclampMin),
    live: true,
};

pub static UCLAMP_MAX: TaskKnob = TaskKnob {
    field: field(
        "uclamp-max",
        PERCENT,
        "most utilisation that is assumed, of full capacity: 50% is 512 of the kernel's 1024",
    ),
    setting: |value| utilisation(value).map(TaskSetting::UclampMax),
    live: true,
};

pub static TIMER_SLACK: TaskKnob = TaskKnob {
    field: field(
        "timer-slack",
        Kind::Duration { min_ns: 1, max_ns: 10 * S },
        "how late the kernel may fire a thread's timers to group them; usually 50us",
    ),
    setting: |value| value.as_duration_ns().map(TaskSetting::TimerSlackNs),
    live: false,
};

pub static AFFINITY: TaskKnob = TaskKnob {
    field: field("affinity", Kind::Cpus, "CPUs that each worker may run on"),
    setting: |value| value.as_cpus().cloned().map(TaskSetting::Affinity),
    live: false,
};
