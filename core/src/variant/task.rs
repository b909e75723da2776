//! Task knobs: a worker thread sets them on itself, first thing, and they die with it.

use std::collections::BTreeMap;
use std::io;

use crate::model::{CpuSet, KnobReading, Reading, Value, show_duration};
use crate::sys::Host;
use crate::sys::cgroup::own_rt_runtime;
use crate::sys::host::error_text;
use crate::sys::sched::{self, Attr, Policy};

use super::hints::AS_ROOT;
use super::setting::{TaskSetting, policy_name};
use super::{Action, Missing, Scope, asked};

/// All knobs that the kernel refused a thread.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct Refused(pub Vec<Missing>);

fn lines(refused: &[Missing]) -> String {
    let lines = refused.iter().map(|one| format!("knob `{}`: {}", one.knob, one.message));
    lines.collect::<Vec<_>>().join("; ")
}

/// Applies the task knobs to the calling thread.
pub fn apply_to_self(knobs: &BTreeMap<String, Value>) -> Result<(), Refused> {
    let refused = try_on_self(knobs);
    if refused.is_empty() { Ok(()) } else { Err(Refused(refused)) }
}

/// Like [`apply_to_self`]; returns all refusals, by knob.
pub(super) fn try_on_self(knobs: &BTreeMap<String, Value>) -> Vec<Missing> {
    let settings = match settings(knobs) {
        Ok(settings) => settings,
        Err(misfit) => return vec![misfit],
    };
    let wishes = Wishes::from_settings(settings.into_iter().map(|(_, _, setting)| setting));
    let mut refused = Vec::new();
    // Affinity and slack first: a SCHED_DEADLINE thread may change neither.
    if let Some(cpus) = &wishes.affinity
        && let Err(error) = sched::set_affinity(0, cpus)
    {
        refused.push(affinity_refused(cpus, &error));
    }
    if let Some(slack_ns) = wishes.timer_slack_ns
        && let Err(error) = sched::set_own_timer_slack_ns(slack_ns)
    {
        let message = format!("{} was refused ({})", show_duration(slack_ns), error_text(&error));
        refused.push(missing("timer-slack", message, SEE_LIST));
    }
    refused.extend(wishes.apply_attr().err());
    refused
}

/// Reads each task knob back on a thread (0: the caller), from any other thread.
pub fn read_task(knobs: &BTreeMap<String, Value>, tid: i32) -> Vec<KnobReading> {
    let attr = sched::attr(tid);
    readings(knobs, tid, attr.as_ref())
}

/// Like [`read_task`], of a thread whose attributes are known.
pub(super) fn readings(
    knobs: &BTreeMap<String, Value>,
    tid: i32,
    attr: Result<&Attr, &io::Error>,
) -> Vec<KnobReading> {
    let Ok(settings) = settings(knobs) else { return Vec::new() };
    let reading = |(knob, asked, setting): (&'static str, Value, TaskSetting)| {
        let got = match setting.read(tid, attr) {
            Ok(got) if got == setting => Reading::Known(asked.clone()),
            Ok(got) => Reading::Known(got.value()),
            Err(error) => Reading::Unknown(error.to_string()),
        };
        KnobReading { knob: knob.to_string(), asked, got }
    };
    settings.into_iter().map(reading).collect()
}

/// The task settings that a variant's knobs ask for: knob, value as asked, setting.
pub(super) fn settings(
    knobs: &BTreeMap<String, Value>,
) -> Result<Vec<(&'static str, Value, TaskSetting)>, Missing> {
    let all = asked(knobs, &Host::default(), Scope::Task, |action| match action {
        Action::Task(setting) => Some(setting),
        _ => None,
    })?;
    let each = all.into_iter().flat_map(|(name, asked, settings)| {
        settings.into_iter().map(move |setting| (name, asked.clone(), setting))
    });
    Ok(each.collect())
}

/// Settings gathered, since one system call takes most of them together.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    pub policy: Option<Policy>,
    priority: Option<u32>,
    runtime_ns: Option<u64>,
    deadline_ns: Option<u64>,
    period_ns: Option<u64>,
    pub nice: Option<i32>,
    slice_ns: Option<u64>,
    uclamp_min: Option<u32>,
    uclamp_max: Option<u32>,
    timer_slack_ns: Option<u64>,
    pub affinity: Option<CpuSet>,
}

impl Wishes {
    pub fn from_settings(settings: impl Iterator<Item = TaskSetting>) -> Wishes {
        let mut wishes = Wishes::default();
        for setting in settings {
            match setting {
                TaskSetting::Policy(policy) => wishes.policy = Some(policy),
                TaskSetting::Priority(priority) => wishes.priority = Some(priority),
                TaskSetting::RuntimeNs(ns) => wishes.runtime_ns = Some(ns),
                TaskSetting::DeadlineNs(ns) => wishes.deadline_ns = Some(ns),
                TaskSetting::PeriodNs(ns) => wishes.period_ns = Some(ns),
                TaskSetting::Nice(nice) => wishes.nice = Some(nice),
                TaskSetting::SliceNs(ns) => wishes.slice_ns = Some(ns),
                TaskSetting::UclampMin(clamp) => wishes.uclamp_min = Some(clamp),
                TaskSetting::UclampMax(clamp) => wishes.uclamp_max = Some(clamp),
                TaskSetting::TimerSlackNs(ns) => wishes.timer_slack_ns = Some(ns),
                TaskSetting::Affinity(cpus) => wishes.affinity = Some(cpus),
            }
        }
        wishes
    }

    fn apply_attr(&self) -> Result<(), Missing> {
        let clamps = self.uclamp_min.is_some() || self.uclamp_max.is_some();
        if self.policy.is_none() && self.slice_ns.is_none() && !clamps {
            let Some(nice) = self.nice else { return Ok(()) };
            // Not sched_setattr: it would also reset the slice.
            return sched::set_nice(0, nice).map_err(|error| nice_refused(nice, &error));
        }
        let now = sched::attr(0).map_err(|error| {
            missing("policy", format!("sched_getattr: {}", error_text(&error)), SEE_LIST)
        })?;
        sched::set_attr(0, &self.attr(&now)?).map_err(|error| self.attr_refused(&now, &error))
    }

    /// The attributes for sched_setattr, for a thread whose attributes are `now`.
    pub fn attr(&self, now: &Attr) -> Result<Attr, Missing> {
        let mut attr = Attr { nice: self.nice.unwrap_or(now.nice), ..Attr::default() };
        if let Some(util) = self.uclamp_min {
            attr.flags |= sched::UTIL_CLAMP_MIN;
            attr.util_min = util;
        }
        if let Some(util) = self.uclamp_max {
            attr.flags |= sched::UTIL_CLAMP_MAX;
            attr.util_max = util;
        }
        if self.policy.is_none() && self.slice_ns.is_none() && self.nice.is_none() {
            attr.policy = now.policy;
            attr.flags |= sched::KEEP_POLICY | sched::KEEP_PARAMS;
            return Ok(attr);
        }
        let policy = self.policy.or(Policy::from_number(now.policy)).ok_or_else(|| {
            let message = format!("the thread runs under {}", policy_name(now.policy));
            missing("slice", message, "name the policy, too: policy = \"other\"")
        })?;
        if self.slice_ns.is_some() && !policy.takes_nice_and_slice() {
            let message = format!("the thread runs under {}", policy_name(now.policy));
            return Err(missing("slice", message, "name the policy, too: policy = \"other\""));
        }
        attr.policy = policy.number();
        attr.runtime_ns = self.slice_ns.unwrap_or(0);
        if policy.takes_priority() {
            attr.priority = self.priority.unwrap_or(1);
        }
        if policy == Policy::Deadline {
            // The kernel takes a period of 0 for the deadline, but no deadline of 0.
            attr.runtime_ns = self.runtime_ns.unwrap_or(0);
            attr.deadline_ns = self.deadline_ns.or(self.period_ns).unwrap_or(0);
            attr.period_ns = self.period_ns.unwrap_or(attr.deadline_ns);
        }
        Ok(attr)
    }

    /// The knob that the kernel refused, as far as its errno shows, and why.
    pub fn attr_refused(&self, now: &Attr, error: &io::Error) -> Missing {
        let clamp = if self.uclamp_min.is_some() { "uclamp-min" } else { "uclamp-max" };
        match (error.raw_os_error(), self.policy) {
            (Some(libc::EOPNOTSUPP | libc::E2BIG), _) => missing(
                clamp,
                "the kernel has no utilisation clamps (EOPNOTSUPP, built without \
                 CONFIG_UCLAMP_TASK)",
                OTHER_KERNEL,
            ),
            (_, Some(policy)) if !policy.is_fair() => self.policy_refused(policy, error),
            (Some(libc::EPERM | libc::EACCES), _) if self.nice.is_some_and(|n| n < now.nice) => {
                let mut refused = nice_refused(self.nice.unwrap_or(now.nice), error);
                refused.message += &format!(", and the thread has nice {}", now.nice);
                refused
            }
            (Some(libc::EPERM), _) if self.uclamp_min.or(self.uclamp_max).is_some() => missing(
                clamp,
                "a utilisation clamp was refused (EPERM, raising one needs CAP_SYS_NICE)",
                AS_ROOT,
            ),
            (_, policy) => {
                let name = policy_name(policy.map_or(now.policy, Policy::number));
                let knob = if policy.is_some() { "policy" } else { "slice" };
                let why = match error.raw_os_error() {
                    Some(libc::EPERM) => {
                        "EPERM, leaving the policy that this thread has needs CAP_SYS_NICE"
                            .to_string()
                    }
                    _ => error_text(error),
                };
                missing(knob, format!("{name} was refused ({why})"), AS_ROOT)
            }
        }
    }

    fn policy_refused(&self, policy: Policy, error: &io::Error) -> Missing {
        let host = Host::default();
        let refused = |why: String, hint: &str| {
            let name = policy_name(policy.number());
            missing("policy", format!("{name} was refused ({why})"), hint)
        };
        match (error.raw_os_error(), policy) {
            (Some(libc::EPERM), _) if !may_sys_nice(&host) => {
                refused("EPERM, it needs CAP_SYS_NICE".to_string(), AS_ROOT)
            }
            (Some(libc::EPERM), Policy::Deadline) => refused(
                "EPERM, the thread may not use every CPU of its root domain".to_string(),
                "let the workers use every CPU: no affinity, no placement, no taskset",
            ),
            (Some(libc::EPERM), _) => no_rt_runtime(&host, &refused),
            (Some(libc::EBUSY), Policy::Deadline) => refused(
                "EBUSY, the CPUs have no room for runtime/period of every worker".to_string(),
                "shorten the runtime, or see /proc/sys/kernel/sched_rt_runtime_us",
            ),
            (_, policy) if !policy.is_known_here() => missing(
                "policy",
                format!("this kernel has no {}", policy_name(policy.number())),
                "run this plan under a kernel that has it; this one: uname -r",
            ),
            (Some(libc::EINVAL), Policy::Deadline) => refused(
                "EINVAL, the period is outside of /proc/sys/kernel/\
                 sched_deadline_period_{min,max}_us"
                    .to_string(),
                "choose a period that lies within: cat /proc/sys/kernel/sched_deadline_period_*_us",
            ),
            _ => refused(error_text(error), SEE_LIST),
        }
    }
}

const SEE_LIST: &str = "see what a knob takes: schedlab list knobs";
const OTHER_KERNEL: &str =
    "run this plan under a kernel with CONFIG_UCLAMP_TASK; this one: uname -r";

fn missing(knob: &str, message: impl Into<String>, hint: &str) -> Missing {
    Missing { knob: knob.to_string(), message: message.into(), hint: hint.to_string() }
}

/// The reason for EPERM in spite of CAP_SYS_NICE: with CONFIG_RT_GROUP_SCHED a cgroup has real-time time of its
/// own, and a new one has 0.
fn no_rt_runtime(host: &Host, refused: &dyn Fn(String, &str) -> Missing) -> Missing {
    match own_rt_runtime(host) {
        Some((path, runtime_us)) => refused(
            format!(
                "EPERM, {} is {runtime_us}: under CONFIG_RT_GROUP_SCHED this cgroup has no \
                 real-time runtime",
                path.display()
            ),
            &format!("give it some: echo 100000 > {}", path.display()),
        ),
        None => refused(
            "EPERM, this cgroup has no real-time runtime (CONFIG_RT_GROUP_SCHED)".to_string(),
            "start schedlab from the root cgroup, or the kernel with rt_group_sched=0",
        ),
    }
}

/// CAP_SYS_NICE (23) in the effective set, from /proc/self/status.
pub(super) fn may_sys_nice(host: &Host) -> bool {
    host.capabilities().known().is_some_and(|bits| bits >> 23 & 1 == 1)
}

fn nice_refused(nice: i32, error: &io::Error) -> Missing {
    let why = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            format!("{}, it needs CAP_SYS_NICE or RLIMIT_NICE", errno_name(error))
        }
        _ => error_text(error),
    };
    missing("nice", format!("nice {nice} was refused ({why})"), AS_ROOT)
}

fn errno_name(error: &io::Error) -> &'static str {
    if error.raw_os_error() == Some(libc::EACCES) { "EACCES" } else { "EPERM" }
}

pub(super) fn affinity_refused(cpus: &CpuSet, error: &io::Error) -> Missing {
    let why = match error.raw_os_error() {
        Some(libc::EINVAL) => {
            "EINVAL, none of these CPUs is online and allowed by the cpuset".to_string()
        }
        _ => error_text(error),
    };
    let hint = "see which there are: cat /sys/devices/system/cpu/online";
    missing("affinity", format!("CPUs {cpus} were refused ({why})"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::setting::NO_SLICE;
    use crate::variant::testing::knobs;

    /// Reads the knobs back from outside of a thread that has applied them.
    fn applied(written: &[(&str, &str)]) -> Result<Vec<(String, Reading<String>)>, Refused> {
        let knobs = knobs(written);
        let (tid_in, tid_out) = std::sync::mpsc::channel();
        let (end_in, end_out) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|threads| {
            let knobs = &knobs;
            let body = move || {
                let refused = apply_to_self(knobs);
                tid_in.send(refused.map(|()| sched::own_tid())).unwrap();
                let _ended = end_out.recv();
            };
            threads.spawn(body);
            let tid = tid_out.recv().unwrap();
            let readings = tid.map(|tid| read_task(knobs, tid));
            drop(end_in);
            let shown =
                |reading: KnobReading| (reading.knob, reading.got.map(|got| got.to_string()));
            Ok(readings?.into_iter().map(shown).collect())
        })
    }

    fn read_back_as_asked(written: &[(&str, &str)]) {
        let expected: Vec<_> = written
            .iter()
            .map(|(knob, text)| (knob.to_string(), Reading::Known(text.to_string())))
            .collect();
        assert_eq!(applied(written).unwrap(), expected, "{written:?}");
    }

    #[test]
    fn what_needs_no_privilege_reads_back() {
        read_back_as_asked(&[("policy", "batch"), ("nice", "7")]);
        read_back_as_asked(&[("policy", "idle")]);
        read_back_as_asked(&[("nice", "19"), ("affinity", "0")]);
    }

    #[test]
    fn a_slice_reads_back_and_outlives_no_other_knob() {
        let slice = applied(&[("slice", "300us")]).unwrap();
        if matches!(&slice[0].1, Reading::Unknown(why) if why == NO_SLICE) {
            eprintln!("skipped: a_slice_reads_back needs Linux 6.12");
            return;
        }
        read_back_as_asked(&[("slice", "300us")]);
        read_back_as_asked(&[("policy", "batch"), ("nice", "3"), ("slice", "100ms")]);
        // A nice value alone leaves the slice that the thread has.
        std::thread::scope(|threads| {
            threads.spawn(|| {
                apply_to_self(&knobs(&[("slice", "300us")])).unwrap();
                apply_to_self(&knobs(&[("nice", "3")])).unwrap();
                let attr = sched::attr(0).unwrap();
                assert_eq!((attr.runtime_ns, attr.nice), (300_000, 3));
            });
        });
    }

    #[test]
    fn what_needs_privileges_reads_back() {
        if !may_sys_nice(&Host::default()) {
            eprintln!("skipped: what_needs_privileges_reads_back needs CAP_SYS_NICE");
            return;
        }
        read_back_as_asked(&[("policy", "fifo"), ("priority", "3")]);
        read_back_as_asked(&[("policy", "rr"), ("priority", "1")]);
        read_back_as_asked(&[("nice", "-5")]);
        // Read from outside, a slack needs the privilege; setting it does not.
        read_back_as_asked(&[("timer-slack", "1ms")]);
        let times = [("runtime", "1ms"), ("deadline", "8ms"), ("period", "20ms")];
        read_back_as_asked(&[&[("policy", "deadline")], &times[..]].concat());
        let got = applied(&[("policy", "deadline"), ("runtime", "1ms"), ("period", "20ms")]);
        assert!(got.is_ok(), "the deadline is the period: {got:?}");
    }

    #[test]
    fn a_refusal_names_knob_and_errno() {
        let absent = applied(&[("affinity", "60000")]).unwrap_err().to_string();
        assert!(absent.contains("knob `affinity`: CPUs 60000 were refused (EINVAL"), "{absent}");
        if may_sys_nice(&Host::default()) {
            let slow = applied(&[("policy", "deadline"), ("runtime", "1ms"), ("period", "59s")]);
            let slow = slow.unwrap_err().to_string();
            assert!(slow.contains("SCHED_DEADLINE was refused (EINVAL, the period"), "{slow}");
        } else {
            let fifo = applied(&[("policy", "fifo")]).unwrap_err().to_string();
            assert!(fifo.contains("SCHED_FIFO was refused (EPERM"), "{fifo}");
        }
    }

    #[test]
    fn one_call_carries_what_was_asked_and_keeps_the_rest() {
        let now = Attr::default();
        let attr = |written: &[(&str, &str)]| {
            let settings = settings(&knobs(written)).unwrap();
            Wishes::from_settings(settings.into_iter().map(|(_, _, setting)| setting)).attr(&now)
        };
        let clamps = attr(&[("uclamp-min", "25%"), ("uclamp-max", "100%")]).unwrap();
        assert_eq!((clamps.flags, clamps.util_min, clamps.util_max), (0x78, 256, 1024));
        let both = attr(&[("uclamp-max", "50%"), ("policy", "batch")]).unwrap();
        assert_eq!((both.flags, both.policy, both.util_max), (0x40, 3, 512));
        let deadline = attr(&[("policy", "deadline"), ("runtime", "1ms"), ("deadline", "2ms")]);
        let deadline = deadline.unwrap();
        assert_eq!((deadline.deadline_ns, deadline.period_ns), (2_000_000, 2_000_000));
        assert_eq!(attr(&[("policy", "fifo")]).unwrap().priority, 1);
        let fifo = Attr { policy: 1, priority: 5, ..now };
        let slice = Wishes { slice_ns: Some(300_000), ..Wishes::default() };
        assert_eq!(slice.attr(&fifo).unwrap_err().message, "the thread runs under SCHED_FIFO");
    }

    #[test]
    fn a_thread_that_has_ended_is_unknown_and_not_zero() {
        let readings = read_task(&knobs(&[("nice", "5"), ("affinity", "0")]), i32::MAX);
        assert_eq!(readings.len(), 2);
        assert!(readings.iter().all(|reading| matches!(reading.got, Reading::Unknown(_))));
    }
}
