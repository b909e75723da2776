//! Knobs of the whole machine: files below /proc/sys/kernel and debugfs `sched/`.

use crate::model::{Kind, Value};
use crate::sys::Host;

use super::super::contract::{Knob, Wants, knobs};
use super::super::target::{Target, Wanted};
use super::units::{S, US};

fn one(target: Target, value: impl ToString) -> Option<Vec<Wanted>> {
    Some(vec![Wanted { target, value: value.to_string() }])
}

fn each(value: &Value, parse: fn(&str) -> Option<Wanted>) -> Option<Vec<Wanted>> {
    value.as_list()?.iter().map(|item| parse(item.as_text()?)).collect()
}

/// A tunable of debugfs; kernels before 5.13 keep it in /proc/sys/kernel.
fn tunable(host: &Host, name: &str, old_name: &str) -> Target {
    let (new, old) = (Target::Debugfs(name.to_string()), Target::Sysctl(old_name.to_string()));
    if new.current(host).is_err() && old.current(host).is_ok() { old } else { new }
}

/// `NAME` switches a scheduler feature on, `NO_NAME` off.
pub fn feature(text: &str) -> Option<Wanted> {
    let name = text.strip_prefix("NO_").unwrap_or(text);
    let target = Target::Feature(name.to_string());
    target.is_known().then(|| Wanted { target, value: text.to_string() })
}

/// `NAME=VALUE` of a file of /proc/sys/kernel, also with its folder, as sysctl(8) names it: `kernel.NAME=VALUE`.
pub fn sysctl(text: &str) -> Option<Wanted> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let name = name.strip_prefix("kernel.").unwrap_or(name);
    let plain = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase() || b == b'-' || b == b' ';
    let target = Target::Sysctl(name.to_string());
    let fits = target.is_known() && !value.is_empty() && value.bytes().all(plain);
    fits.then(|| Wanted { target, value: value.to_string() })
}

pub static KNOBS: [Knob; 7] = knobs! {
    "autogroup": Kind::Bool =>
        "whether each session is a group of its own to the scheduler, for the whole machine",
        Wants::Machine(|value, _| {
            one(Target::Sysctl("sched_autogroup_enabled".to_string()), u8::from(value.as_bool()?))
        });
    "features": Kind::List(&Kind::Text) =>
        "scheduler features of debugfs (sched/features, before 5.13 sched_features): NAME on, \
         NO_NAME off",
        Wants::Machine(|value, _| each(value, feature));
    "base-slice": Kind::Duration { min_ns: 100 * US, max_ns: S } =>
        "slice of all who ask for none: debugfs sched/base_slice_ns (EEVDF, Linux 6.6)",
        Wants::Machine(|value, _| {
            one(Target::Debugfs("base_slice_ns".to_string()), value.as_duration_ns()?)
        });
    "preempt": Kind::Choice(&["none", "voluntary", "full", "lazy"]) =>
        "preemption model: debugfs sched/preempt (kernels with PREEMPT_DYNAMIC; lazy: 6.13)",
        Wants::Machine(|value, _| one(Target::Preempt, value.as_text()?));
    "migration-cost": Kind::Duration { min_ns: 0, max_ns: 4 * S } =>
        "for how long a task counts as cache-hot: debugfs sched/migration_cost_ns",
        Wants::Machine(|value, host| {
            let target = tunable(host, "migration_cost_ns", "sched_migration_cost_ns");
            one(target, value.as_duration_ns()?)
        });
    "nr-migrate": Kind::Int { min: 1, max: i32::MAX as i64 } =>
        "most tasks that one round of load balancing moves: debugfs sched/nr_migrate",
        Wants::Machine(|value, host| {
            one(tunable(host, "nr_migrate", "sched_nr_migrate"), value.as_int()?)
        });
    "sysctl": Kind::List(&Kind::Text) =>
        "any setting of the scheduler in /proc/sys/kernel, also MuQSS's, BMQ's and PDS's: \
         [\"sched_rr_timeslice_ms=50\", \"interactive=0\"]",
        Wants::Machine(|value, _| each(value, sysctl));
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_could_leave_its_file_is_refused() {
        let cases: &[(&str, Option<&str>)] = &[
            ("sched_rt_runtime_us=950000", Some("950000")),
            ("sched_rt_runtime_us = -1", Some("-1")),
            ("sched_x=a b 1", Some("a b 1")),
            ("interactive=0", Some("0")),
            ("kernel.interactive=0", Some("0")),
            ("kernel.sched_bore = 1", Some("1")),
            ("rr_interval=6", Some("6")),
            ("yield_type=2", Some("2")),
            ("kernel.panic=1", None),
            ("kernel.kernel.interactive=1", None),
            ("kernel/interactive=1", None),
            ("vm.sched_x=1", None),
            ("sched_x=", None),
            ("sched_x", None),
            ("sched_=1", None),
            ("panic=1", None),
            ("sched_../panic=1", None),
            ("sched_x/../panic=1", None),
            ("Sched_x=1", None),
            ("sched_x=1;2", None),
            ("sched_x=1\n2", None),
            ("sched_x=$(id)", None),
        ];
        for (text, expected) in cases {
            let got = sysctl(text).map(|wanted| wanted.value);
            assert_eq!(got.as_deref(), *expected, "{text}");
        }
        let cases: &[(&str, Option<&str>)] = &[
            ("RUN_TO_PARITY", Some("RUN_TO_PARITY")),
            ("NO_RUN_TO_PARITY", Some("RUN_TO_PARITY")),
            ("NO_", None),
            ("", None),
            ("run_to_parity", None),
            ("A B", None),
            ("../A", None),
            ("A\n", None),
        ];
        for (text, expected) in cases {
            let got = feature(text).map(|wanted| wanted.target);
            let expected = expected.map(|name| Target::Feature(name.to_string()));
            assert_eq!(got, expected, "{text}");
        }
    }
}
