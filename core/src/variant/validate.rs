//! Checks which knobs may be combined. Pure: the plan parser calls it before anything is touched.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Value, clean, show_duration};
use crate::sys::sched::Policy;
use crate::sys::scheduler::sysctls;

use super::contract::SCHEDULER_FORM;
use super::knobs::{feature, is_ratelimit, is_timeslice, sysctl};
use super::scx::Scheduler;

/// Knob, message, hint.
pub type Fault = (String, String, String);

/// All that makes no sense in one variant's knobs. Values are of their fields' kinds.
pub fn validate(knobs: &BTreeMap<String, Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    policy_faults(knobs, &mut faults);
    deadline_faults(knobs, &mut faults);
    uclamp_faults(knobs, &mut faults);
    cgroup_faults(knobs, &mut faults);
    xen_faults(knobs, &mut faults);
    text_faults(knobs, &mut faults);
    faults
}

fn fault(knob: &str, message: impl Into<String>, hint: impl Into<String>) -> Fault {
    (knob.to_string(), message.into(), hint.into())
}

/// The policy that is named; a variant without one keeps the usual one, SCHED_OTHER.
fn policy(knobs: &BTreeMap<String, Value>) -> Policy {
    let word = knobs.get("policy").and_then(Value::as_text);
    word.and_then(Policy::from_word).unwrap_or(Policy::Other)
}

/// Knobs that mean nothing under the variant's policy.
fn policy_faults(knobs: &BTreeMap<String, Value>, faults: &mut Vec<Fault>) {
    let policy = policy(knobs);
    let is_deadline = policy == Policy::Deadline;
    let fair = "policy = \"other\" or \"batch\"";
    let any_fair = "policy = \"other\", \"batch\" or \"idle\"";
    let rules: [(&str, bool, &str); 11] = [
        ("priority", policy.takes_priority(), "policy = \"fifo\" or \"rr\""),
        ("runtime", is_deadline, "policy = \"deadline\""),
        ("deadline", is_deadline, "policy = \"deadline\""),
        ("period", is_deadline, "policy = \"deadline\""),
        ("nice", policy.takes_nice_and_slice(), fair),
        ("slice", policy.takes_nice_and_slice(), fair),
        // Real-time threads have no timer slack.
        ("timer-slack", policy.is_fair(), any_fair),
        // Utilisation of SCHED_DEADLINE is its bandwidth.
        ("uclamp-min", !is_deadline, "any policy but \"deadline\""),
        ("uclamp-max", !is_deadline, "any policy but \"deadline\""),
        ("cgroup-weight", policy.is_fair(), any_fair),
        ("cgroup-idle", policy.is_fair(), any_fair),
    ];
    // Bandwidth of the fair class, too; and with CONFIG_RT_GROUP_SCHED a real-time thread
    // cannot live in a new cgroup.
    let max = ("cgroup-max", policy.is_fair(), any_fair);
    for (knob, fits, instead) in rules.into_iter().chain([max]) {
        if knobs.contains_key(knob) && !fits {
            let message = format!("`{knob}` means nothing under policy `{}`", policy.word());
            faults.push(fault(knob, message, format!("it goes with {instead}")));
        }
    }
}

fn deadline_faults(knobs: &BTreeMap<String, Value>, faults: &mut Vec<Fault>) {
    if policy(knobs) != Policy::Deadline {
        return;
    }
    let time = |knob: &str| knobs.get(knob).and_then(Value::as_duration_ns);
    let example = "write runtime = \"2ms\", period = \"10ms\"";
    let (runtime, deadline, period) = (time("runtime"), time("deadline"), time("period"));
    let Some(runtime) = runtime else {
        return faults.push(fault("policy", "policy `deadline` needs `runtime`", example));
    };
    let Some(effective) = deadline.or(period) else {
        let message = "policy `deadline` needs `period` or `deadline`";
        return faults.push(fault("policy", message, example));
    };
    let order = "runtime <= deadline <= period";
    if runtime > effective {
        let within = if deadline.is_some() { "deadline" } else { "period" };
        faults.push(fault("runtime", format!("`runtime` is longer than `{within}`"), order));
    }
    if period.is_some_and(|period| effective > period) {
        faults.push(fault("deadline", "`deadline` is longer than `period`", order));
    }
}

fn uclamp_faults(knobs: &BTreeMap<String, Value>, faults: &mut Vec<Fault>) {
    let percent = |knob: &str| knobs.get(knob).and_then(Value::as_percent);
    if let (Some(min), Some(max)) = (percent("uclamp-min"), percent("uclamp-max"))
        && min > max
    {
        let message = format!("`uclamp-min` ({min}%) is above `uclamp-max` ({max}%)");
        faults.push(fault("uclamp-min", message, "uclamp-min <= uclamp-max"));
    }
}

fn cgroup_faults(knobs: &BTreeMap<String, Value>, faults: &mut Vec<Fault>) {
    let idle = knobs.get("cgroup-idle").and_then(Value::as_bool) == Some(true);
    if idle && knobs.contains_key("cgroup-weight") {
        let message = "an idle cgroup has no weight: `cgroup-weight` with `cgroup-idle = true`";
        faults.push(fault("cgroup-weight", message, "leave out one of the two"));
    }
}

/// Times that Xen cannot count.
fn xen_faults(knobs: &BTreeMap<String, Value>, faults: &mut Vec<Fault>) {
    let time = |knob: &str| knobs.get(knob).and_then(Value::as_duration_ns);
    if let Some(ns) = time("xen-timeslice").filter(|ns| !is_timeslice(*ns)) {
        let message =
            format!("`xen-timeslice` is {}: Xen has whole milliseconds", show_duration(ns));
        faults.push(fault("xen-timeslice", message, "xen-timeslice = \"5ms\""));
    }
    if let Some(ns) = time("xen-ratelimit").filter(|ns| !is_ratelimit(*ns)) {
        let of = "Xen has whole microseconds from 100us on, and 0us for no limit";
        let message = format!("`xen-ratelimit` is {}: {of}", show_duration(ns));
        faults.push(fault("xen-ratelimit", message, "xen-ratelimit = \"500us\""));
    }
}

/// Lists of texts: each item's form, and no setting twice.
fn text_faults(knobs: &BTreeMap<String, Value>, faults: &mut Vec<Fault>) {
    let scx = knobs.get("scx").and_then(Value::as_text);
    if let Some(text) = scx.filter(|text| Scheduler::parse(text).is_none()) {
        let message = format!("there is no scheduler `{}`", clean(text));
        faults.push(fault("scx", message, SCHEDULER_FORM));
    }
    let mut seen = BTreeSet::new();
    if knobs.contains_key("autogroup") {
        seen.insert("/proc/sys/kernel/sched_autogroup_enabled".to_string());
    }
    let of_sysctl = format!(
        "\"NAME=VALUE\" with a setting of the scheduler in /proc/sys/kernel: {}",
        sysctls()
    );
    let lists = [
        ("features", feature as fn(&str) -> _, "NAME or NO_NAME, as \"NO_RUN_TO_PARITY\""),
        ("sysctl", sysctl, &of_sysctl),
    ];
    for (knob, parse, form) in lists {
        for item in knobs.get(knob).and_then(Value::as_list).unwrap_or_default() {
            let text = item.as_text().unwrap_or_default();
            match parse(text) {
                None => {
                    let message = format!("`{}` is not understood", clean(text));
                    faults.push(fault(knob, message, format!("write {form}")));
                }
                Some(wanted) if !seen.insert(wanted.target.to_string()) => {
                    let message = format!("{} is set twice", wanted.target);
                    faults.push(fault(knob, message, "leave out one of the two"));
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::testing::knobs;

    #[test]
    fn knobs_that_make_no_sense_together_are_reported() {
        type Written<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Written, &[&str])] = &[
            (&[], &[]),
            (&[("slice", "100us"), ("nice", "5")], &[]),
            (&[("policy", "batch"), ("slice", "100us"), ("nice", "5")], &[]),
            (&[("policy", "fifo"), ("priority", "50")], &[]),
            (&[("policy", "rr")], &[]),
            (&[("priority", "50")], &["priority"]),
            (&[("policy", "batch"), ("priority", "50")], &["priority"]),
            (&[("policy", "fifo"), ("nice", "5"), ("slice", "1ms")], &["nice", "slice"]),
            (&[("policy", "idle"), ("nice", "5"), ("slice", "1ms")], &["nice", "slice"]),
            (&[("policy", "rr"), ("timer-slack", "1ms")], &["timer-slack"]),
            (&[("policy", "fifo"), ("cgroup-weight", "50")], &["cgroup-weight"]),
            (&[("policy", "deadline")], &["policy"]),
            (&[("policy", "deadline"), ("runtime", "1ms")], &["policy"]),
            (&[("policy", "deadline"), ("runtime", "1ms"), ("period", "10ms")], &[]),
            (&[("policy", "deadline"), ("runtime", "1ms"), ("deadline", "10ms")], &[]),
            (&[("policy", "deadline"), ("runtime", "11ms"), ("period", "10ms")], &["runtime"]),
            (
                &[
                    ("policy", "deadline"),
                    ("runtime", "1ms"),
                    ("deadline", "3ms"),
                    ("period", "2ms"),
                ],
                &["deadline"],
            ),
            (&[("runtime", "1ms"), ("period", "10ms")], &["runtime", "period"]),
            (&[("uclamp-min", "50%"), ("uclamp-max", "40%")], &["uclamp-min"]),
            (&[("uclamp-min", "50%"), ("uclamp-max", "50%")], &[]),
            (&[("cgroup-weight", "50"), ("cgroup-idle", "true")], &["cgroup-weight"]),
            (&[("cgroup-weight", "50"), ("cgroup-idle", "false")], &[]),
            (&[("features", "NO_A,B,A")], &["features"]),
            (&[("features", "no_a")], &["features"]),
            (&[("sysctl", "sched_x=1,sched_y=2")], &[]),
            (&[("sysctl", "sched_x=1,sched_x=2")], &["sysctl"]),
            (&[("sysctl", "kernel.interactive=0,rr_interval=6")], &[]),
            (&[("sysctl", "kernel.interactive=0,interactive=1")], &["sysctl"]),
            (&[("sysctl", "panic=1")], &["sysctl"]),
            (&[("autogroup", "true"), ("sysctl", "sched_autogroup_enabled=0")], &["sysctl"]),
            (&[("xen-timeslice", "5ms"), ("xen-ratelimit", "0us")], &[]),
            (&[("xen-ratelimit", "100us")], &[]),
            (
                &[("xen-timeslice", "1500us"), ("xen-ratelimit", "99us")],
                &["xen-timeslice", "xen-ratelimit"],
            ),
            (&[("xen-ratelimit", "100500ns")], &["xen-ratelimit"]),
            (&[("scx", "vtime")], &[]),
            (&[("scx", "./scx_lavd --performance")], &[]),
            (&[("scx", "scx_lavd")], &["scx"]),
            (&[("scx", "")], &["scx"]),
        ];
        for (written, expected) in cases {
            let faults = validate(&knobs(written));
            let names: Vec<&str> = faults.iter().map(|(knob, ..)| knob.as_str()).collect();
            assert_eq!(names, *expected, "{written:?}: {faults:?}");
        }
    }
}
