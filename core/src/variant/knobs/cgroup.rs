//! Knobs of the cgroup that is made for a run.

use crate::model::Kind;

use super::super::contract::{Knob, Wants, knobs};
use super::super::setting::{CgroupSetting, PERIOD_US};

pub static KNOBS: [Knob; 3] = knobs! {
    "cgroup-weight": Kind::Int { min: 1, max: 10_000 } =>
        "cpu.weight of the cgroup against its siblings; 100 is usual (v1: cpu.shares, 1024 for \
         100)",
        Wants::Cgroup(|value| value.as_int()?.try_into().ok().map(CgroupSetting::Weight));
    "cgroup-max": Kind::Percent { min: 1.0, max: 100_000.0 } =>
        "cpu.max of the cgroup: CPU time per 100ms, as a percentage of one CPU",
        Wants::Cgroup(|value| {
            let quota_us = value.as_percent()? / 100.0 * PERIOD_US as f64;
            Some(CgroupSetting::MaxUs(quota_us.round() as u64))
        });
    "cgroup-idle": Kind::Bool => "cpu.idle of the cgroup: it runs when no other cgroup wants to",
        Wants::Cgroup(|value| value.as_bool().map(CgroupSetting::Idle));
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;
    use crate::sys::Host;
    use crate::sys::cgroup::Version;
    use crate::variant::Action;

    #[test]
    fn settings_are_written_as_each_version_wants_them() {
        let (v1, v2) = (Version::V1, Version::V2);
        type Files<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(CgroupSetting, Version, Files)] = &[
            (CgroupSetting::Weight(100), v2, &[("cpu.weight", "100")]),
            (CgroupSetting::Weight(100), v1, &[("cpu.shares", "1024")]),
            (CgroupSetting::Weight(1), v1, &[("cpu.shares", "10")]),
            (CgroupSetting::Weight(10_000), v1, &[("cpu.shares", "102400")]),
            (CgroupSetting::MaxUs(50_000), v2, &[("cpu.max", "50000 100000")]),
            (
                CgroupSetting::MaxUs(250_000),
                v1,
                &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "250000")],
            ),
            (CgroupSetting::Idle(true), v2, &[("cpu.idle", "1")]),
            (CgroupSetting::Idle(false), v1, &[("cpu.idle", "0")]),
        ];
        for (setting, version, expected) in cases {
            let files = setting.files(*version);
            let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
            assert_eq!(files, *expected, "{setting:?} {version:?}");
        }
        let max = KNOBS.iter().find(|knob| knob.field.name == "cgroup-max").unwrap();
        let half = max.actions(&Value::Percent(50.0), &Host::default());
        assert_eq!(half, Ok(vec![Action::Cgroup(CgroupSetting::MaxUs(50_000))]));
    }
}
