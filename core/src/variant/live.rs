//! Settings of running workers, set by another thread: variants that take turns inside one run, and changes in
//! mid-run.
//!
//! One call sets all of them (two under SCHED_IDLE), so a worker keeps nothing that another variant has set: what this
//! one does not name is as in a thread without settings. They end with the worker.

use std::collections::BTreeMap;
use std::io;

use crate::model::{KnobReading, Value};
use crate::sys::sched::{self, Attr, Policy};

use super::Missing;
use super::task::{Wishes, affinity_refused, readings, settings};

/// Asks the kernel to take a utilisation clamp back.
const NO_CLAMP: u32 = u32::MAX;

#[derive(Debug)]
pub struct LiveSettings {
    knobs: BTreeMap<String, Value>,
    wishes: Wishes,
    attr: Attr,
}

impl LiveSettings {
    /// `knobs`: all task knobs of the worker, of its variant and its set. `others`: those of the variants that it
    /// takes turns with.
    pub fn new<'a>(
        knobs: &BTreeMap<String, Value>,
        others: impl Iterator<Item = &'a BTreeMap<String, Value>>,
    ) -> Result<LiveSettings, Missing> {
        let named = settings(knobs)?.into_iter().map(|(_, _, setting)| setting);
        let mut wishes = Wishes::from_settings(named);
        wishes.policy.get_or_insert(Policy::Other);
        wishes.nice.get_or_insert(0);
        let mut attr = wishes.attr(&Attr::default())?;
        // All variants that take turns set both clamps if one of them names one: else the other might be as the policy
        // before left it.
        let clamps = [("uclamp-min", sched::UTIL_CLAMP_MIN), ("uclamp-max", sched::UTIL_CLAMP_MAX)];
        let names_clamp = |knobs: &BTreeMap<String, Value>| {
            clamps.iter().any(|(knob, _)| knobs.contains_key(*knob))
        };
        let mut others = others.peekable();
        if others.peek().is_some() && (names_clamp(knobs) || others.any(names_clamp)) {
            for ((_, flag), clamp) in
                clamps.into_iter().zip([&mut attr.util_min, &mut attr.util_max])
            {
                if attr.flags & flag == 0 {
                    attr.flags |= flag;
                    *clamp = NO_CLAMP;
                }
            }
        }
        Ok(LiveSettings { knobs: knobs.clone(), wishes, attr })
    }

    /// Gives thread `tid` these settings. Allocates only where the kernel refuses them.
    pub fn apply(&self, tid: i32) -> Result<(), Missing> {
        if self.wishes.policy == Some(Policy::Idle) {
            // The kernel keeps nice value and slice of a thread that comes under SCHED_IDLE, and the slice has an effect
            // there. Who may not have nice 0 may not leave SCHED_IDLE either, and keeps them.
            let plain =
                Attr { policy: Policy::Other.number(), nice: 0, runtime_ns: 0, ..self.attr };
            _ = sched::set_attr(tid, &plain);
        }
        sched::set_attr(tid, &self.attr).map_err(|error| {
            let now = sched::attr(tid).unwrap_or_default();
            self.clamp_stays(&error).unwrap_or_else(|| self.wishes.attr_refused(&now, &error))
        })
    }

    /// The error of a kernel that cannot take a clamp back.
    fn clamp_stays(&self, error: &io::Error) -> Option<Missing> {
        let Attr { util_min, util_max, .. } = self.attr;
        let is_it =
            error.raw_os_error() == Some(libc::EINVAL) && [util_min, util_max].contains(&NO_CLAMP);
        let knob = if util_min == NO_CLAMP { "uclamp-min" } else { "uclamp-max" };
        is_it.then(|| Missing {
            knob: knob.to_string(),
            message: "this kernel takes no clamp back from a running thread, as Linux does from 5.11 on (EINVAL)".to_string(),
            hint: "give each variant both clamps, or leave out `turns`, or boot a newer kernel".to_string(),
        })
    }

    /// Whether the variant or the set has a value of its own for this knob.
    pub fn names(&self, knob: &str) -> bool {
        self.knobs.contains_key(knob)
    }

    /// Moves thread `tid` to the CPUs of its affinity, if it has one.
    pub fn apply_cpus(&self, tid: i32) -> Result<(), Missing> {
        let Some(cpus) = &self.wishes.affinity else { return Ok(()) };
        sched::set_affinity(tid, cpus).map_err(|error| affinity_refused(cpus, &error))
    }

    /// The knobs as a thread with these attributes has them.
    pub fn readings(&self, tid: i32, now: &Attr) -> Vec<KnobReading> {
        readings(&self.knobs, tid, Ok(now))
    }
}

/// The live knob in which a thread's attributes differ from those that it had once it was set.
pub fn changed_knob(set: &Attr, now: &Attr) -> Option<&'static str> {
    let knobs = [
        ("policy", set.policy != now.policy),
        ("priority", set.priority != now.priority),
        ("nice", set.nice != now.nice),
        ("slice", set.runtime_ns != now.runtime_ns),
        ("uclamp-min", set.util_min != now.util_min),
        ("uclamp-max", set.util_max != now.util_max),
    ];
    knobs.into_iter().find_map(|(knob, is_changed)| is_changed.then_some(knob))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::model::{Field, Reading};
    use crate::sys::Host;
    use crate::variant::setting::NO_SLICE;
    use crate::variant::task::may_sys_nice;
    use crate::variant::testing::knobs;
    use crate::variant::{Action, Scope, is_live, registry};

    /// A value that differs from the default of each knob that can change on a running thread.
    const VALUES: [(&str, &str); 6] = [
        ("policy", "batch"),
        ("priority", "7"),
        ("nice", "4"),
        ("slice", "3ms"),
        ("uclamp-min", "25%"),
        ("uclamp-max", "50%"),
    ];

    /// Calls `body` with the tid of a thread that sleeps, at nice 0 whatever that of the tests is.
    fn with_thread(body: impl FnOnce(i32)) {
        let ((tid_in, tid_out), (end_in, end_out)) = (channel(), channel::<()>());
        std::thread::scope(|threads| {
            threads.spawn(move || {
                sched::set_nice(0, 0).unwrap();
                tid_in.send(sched::own_tid()).unwrap();
                let _ended = end_out.recv();
            });
            body(tid_out.recv().unwrap());
            drop(end_in);
        });
    }

    /// Linux 5.3 to 5.10 are such kernels.
    #[test]
    fn a_kernel_that_takes_no_clamp_back_is_named() {
        let own = knobs(&[("uclamp-max", "50%")]);
        let live = LiveSettings::new(&own, [&own].into_iter()).unwrap();
        let refused = |number| live.clamp_stays(&io::Error::from_raw_os_error(number));
        let missing = refused(libc::EINVAL).unwrap();
        assert!(missing.knob == "uclamp-min" && missing.message.contains("5.11"), "{missing:?}");
        assert!(refused(libc::EPERM).is_none());
        let both = knobs(&[("uclamp-min", "0%"), ("uclamp-max", "50%")]);
        let live = LiveSettings::new(&both, [&both].into_iter()).unwrap();
        assert!(live.clamp_stays(&io::Error::from_raw_os_error(libc::EINVAL)).is_none());
    }

    #[test]
    fn every_live_knob_changes_on_a_running_thread_and_goes_with_the_next_variant() {
        for knob in registry().filter(|knob| knob.is_live) {
            let Field { name, .. } = knob.field;
            assert_eq!(knob.scope(), Scope::Task, "{name}");
            let (_, text) = VALUES.iter().find(|(known, _)| *known == name).expect(name);
            let mut written = vec![(name, *text)];
            if name == "priority" {
                written.push(("policy", "fifo"));
            }
            let (own, none) = (knobs(&written), knobs(&[]));
            let actions = knob.actions(&own[name], &Host::default()).unwrap();
            assert!(matches!(actions.as_slice(), [Action::Task(_)]), "{name}");
            if !may_sys_nice(&Host::default()) {
                eprintln!("skipped: every_live_knob needs privilege CAP_SYS_NICE");
                return;
            }
            let on = LiveSettings::new(&own, [&none].into_iter()).unwrap();
            let off = LiveSettings::new(&none, [&own].into_iter()).unwrap();
            with_thread(|tid| {
                let before = sched::attr(tid).unwrap();
                if let Err(refused) = on.apply(tid) {
                    let is_known =
                        name.starts_with("uclamp") && refused.message.contains("EOPNOTSUPP");
                    assert!(is_known, "{refused:?}");
                    return;
                }
                let now = sched::attr(tid).unwrap();
                let mut is_known = true;
                for reading in on.readings(tid, &now) {
                    let got = reading.got.map(|got| got.to_string());
                    if matches!(&got, Reading::Unknown(why) if why == NO_SLICE) {
                        is_known = false;
                        continue;
                    }
                    assert_eq!(got, Reading::Known(reading.asked.to_string()), "{name}");
                }
                off.apply(tid).unwrap();
                assert_eq!(sched::attr(tid).unwrap(), before, "{name}");
                let first = if name == "priority" { "policy" } else { name };
                assert_eq!(changed_knob(&now, &before), is_known.then_some(first));
            });
        }
        assert_eq!(VALUES.iter().filter(|(name, _)| is_live(name)).count(), VALUES.len());
        assert!(
            ["affinity", "timer-slack", "scx", "sysctl", "cgroup-weight"]
                .iter()
                .all(|knob| !is_live(knob))
        );
    }

    #[test]
    fn a_thread_under_idle_keeps_nothing_of_the_variant_before() {
        if !may_sys_nice(&Host::default()) {
            eprintln!("skipped: a_thread_under_idle needs privilege CAP_SYS_NICE");
            return;
        }
        let idle = knobs(&[("policy", "idle")]);
        with_thread(|tid| {
            let under_idle = |before: &[(&str, &str)]| {
                let before = knobs(before);
                LiveSettings::new(&before, [&idle].into_iter()).unwrap().apply(tid).unwrap();
                LiveSettings::new(&idle, [&before].into_iter()).unwrap().apply(tid).unwrap();
                sched::attr(tid).unwrap()
            };
            let plain = under_idle(&[]);
            for before in [("slice", "3ms"), ("nice", "4"), ("policy", "idle")] {
                assert_eq!(under_idle(&[before]), plain, "{before:?}");
            }
        });
    }

    #[test]
    fn a_change_of_each_live_knob_is_seen_and_named() {
        let set = Attr { policy: 1, ..Attr::default() };
        let changed: Vec<Option<&str>> = [
            Attr { policy: 2, ..set },
            Attr { priority: 2, ..set },
            Attr { nice: 2, ..set },
            Attr { runtime_ns: 2, ..set },
            Attr { util_min: 2, ..set },
            Attr { util_max: 2, ..set },
        ]
        .iter()
        .map(|now| changed_knob(&set, now))
        .collect();
        assert_eq!(changed, VALUES.map(|(knob, _)| Some(knob)));
        assert_eq!(changed_knob(&set, &set), None);
    }

    #[test]
    fn variants_with_and_without_a_clamp_set_both() {
        let (own, none) = (knobs(&[("uclamp-max", "50%")]), knobs(&[]));
        let attr = |own: &_, other: &_| LiveSettings::new(own, [other].into_iter()).unwrap().attr;
        let both = sched::UTIL_CLAMP_MIN | sched::UTIL_CLAMP_MAX;
        let (with, without) = (attr(&own, &none), attr(&none, &own));
        assert_eq!((with.flags, with.util_min, with.util_max), (both, NO_CLAMP, 512));
        assert_eq!((without.flags, without.util_min, without.util_max), (both, NO_CLAMP, NO_CLAMP));
        assert_eq!(attr(&none, &none).flags, 0);
    }

    #[test]
    fn what_the_kernel_refuses_is_named_by_its_knob() {
        let settings = LiveSettings::new(&knobs(&[("policy", "batch")]), [].into_iter()).unwrap();
        let refused = settings.apply(i32::MAX).unwrap_err();
        assert_eq!(refused.knob, "policy");
    }
}
