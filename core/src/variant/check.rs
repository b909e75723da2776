//! Whether the knobs of a cell can be had on this machine, without changing it.
//!
//! Files are read and opened for writing. Whether a thread may have a policy, a nice
//! value or a slice is tried, not guessed: on a thread that ends at once.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;

use crate::model::{
    Advice, Cell, Cgroup, KnobReading, Reading, SetChange, Value, WorkerSet, clean, show_duration,
};
use crate::sys::cgroup::{self, CgroupError, Controller, Place, Version};
use crate::sys::host::error_text;
use crate::sys::sched::Policy;
use crate::sys::scheduler::is_foreign;
use crate::sys::thread::OrdinaryError;
use crate::sys::{Host, sched, scheduler, thread};

use super::error::{Cause, SettingError};
use super::hints::AS_ROOT;
use super::live::LiveSettings;
use super::pool::{Form, sets_cpu};
use super::setting::{NO_SLICE, policy_name};
use super::task::try_on_self;
use super::{
    Action, CGROUP_KNOB, CgroupSetting, Missing, Scope, Wanted, cgroups, find_pool, merged,
    read_task, registry, scx, task_fields,
};

/// A thread that cannot be made.
const SEE_LIMITS: &str = "see what limits threads: ulimit -u";
const NICE: &str = "nice";

/// All problems of `cell` here: of its pool and of its variant's knobs, in the order of the registry, then of its
/// worker sets.
pub fn check(cell: &Cell, host: &Host) -> Result<(), Vec<Missing>> {
    let knobs = &cell.variant.knobs;
    let mut missing = unknown(knobs);
    let pool = find_pool(cell, host).unwrap_or_else(|error| {
        missing.push(Missing::from_error(KnobReading::POOL, error));
        None
    });
    let cpu_place = || match pool.as_ref().map(|pool| (&pool.form, pool.has_cpu)) {
        Some((Form::Found(place) | Form::New(place), true)) => Ok(place.clone()),
        _ => cgroups::place_of_run(host, cell),
    };
    missing.extend(check_outside(knobs, host, &cpu_place));
    missing.extend(check_cgroups(cell, host, &cpu_place));
    let sets = &cell.work.sets;
    let of_pool = match pool.as_ref().map(|pool| &pool.form) {
        Some(Form::Found(place) | Form::New(place)) => Some(place.clone()),
        _ => None,
    };
    let of_cpu = || cpu_place().ok().filter(|_| sets_cpu(cell));
    let mut places = of_pool.into_iter().chain(of_cpu());
    let real_time = |place| sets.iter().find_map(|set| no_rt_runtime(cell, set, host, &place));
    missing.extend(places.find_map(real_time));
    if sets.iter().any(|set| set.knobs.is_empty()) {
        missing.extend(check_workers(knobs));
    }
    for set in sets.iter().filter(|set| !set.knobs.is_empty()) {
        missing.extend(check_set(knobs, set));
    }
    let has_knobs = |change: &SetChange| !change.knobs.is_empty() || change.cgroup.is_some();
    for set in sets.iter().filter(|set| set.changes.iter().any(has_knobs)) {
        missing.extend(check_changes(&merged(knobs, &set.knobs), set).err());
    }
    if missing.is_empty() { Ok(()) } else { Err(missing) }
}

/// The knobs that one set with knobs of its own cannot have, under the set's name.
fn check_set(variant: &BTreeMap<String, Value>, set: &WorkerSet) -> Vec<Missing> {
    let missing =
        unknown(&set.knobs).into_iter().chain(check_workers(&merged(variant, &set.knobs)));
    missing.map(|one| of_set(set, "", one)).collect()
}

fn of_set(set: &WorkerSet, when: &str, one: Missing) -> Missing {
    let message = format!("worker set `{}`{when}: {}", clean(&set.name), one.message);
    Missing { message, ..one }
}

/// The first change that a worker with `knobs` cannot go through: a policy may be one that cannot be left.
fn check_changes(knobs: &BTreeMap<String, Value>, set: &WorkerSet) -> Result<(), Missing> {
    let mut all = vec![LiveSettings::new(knobs, [].into_iter())?];
    for (change, after) in
        set.changes.iter().zip(SetChange::knobs_after(&set.changes, knobs.clone()))
    {
        let when = format!(" at {}", show_duration(change.at_ns));
        if let Some(one) = check_workers(&after).into_iter().next() {
            return Err(of_set(set, &when, one));
        }
        all.push(LiveSettings::new(&after, [].into_iter())?);
    }
    let own = sched::own_tid;
    let refused = on_trial_thread(move |_| {
        let apply = |one: &LiveSettings| one.apply_cpus(own()).and_then(|()| one.apply(own()));
        all.iter().find_map(|one| apply(one).err()).into_iter().collect()
    });
    refused.into_iter().next().map_or(Ok(()), |one| Err(of_set(set, " in mid-run", one)))
}

/// The knobs that workers set on themselves.
fn check_workers(knobs: &BTreeMap<String, Value>) -> Vec<Missing> {
    let mut tasks = knobs.clone();
    tasks.retain(|name, _| task_fields().iter().any(|field| field.name == name));
    if tasks.is_empty() { Vec::new() } else { trial(tasks) }
}

/// The knobs of cgroups and of the machine.
fn check_outside(
    knobs: &BTreeMap<String, Value>,
    host: &Host,
    cpu_place: &dyn Fn() -> Result<Place, CgroupError>,
) -> Vec<Missing> {
    let mut missing = Vec::new();
    for knob in registry().filter(|knob| knob.scope() != Scope::Task) {
        let name = knob.field.name;
        let Some(value) = knobs.get(name) else { continue };
        match knob.actions(value, host) {
            Err(misfit) => missing.push(misfit),
            Ok(actions) => missing.extend(actions.iter().find_map(|action| match action {
                Action::Machine(Wanted { target, value }) => {
                    target.check(host, value).err().map(|error| Missing::from_error(name, error))
                }
                Action::Cgroup(setting) => {
                    let place = cpu_place().map_err(SettingError::from);
                    let checked = place.and_then(|place| check_cgroup(host, &place, *setting));
                    checked.err().map(|error| Missing::from_error(name, error))
                }
                Action::Scheduler(scheduler) => {
                    scx::check(scheduler, host).err().map(|error| Missing::from_error(name, error))
                }
                Action::Task(_) => None,
                Action::Xen(_) => Some(Missing {
                    knob: name.to_string(),
                    message: format!("`{name}` is of workers that are guests of Xen"),
                    hint: "workers = \"guests\" in the worker set, and kernel = \"xen:4.17\" in the lab"
                        .to_string(),
                }),
                Action::Boot => Some(Missing {
                    knob: name.to_string(),
                    message: format!(
                        "`{name}` needs a machine that is booted for the run (--backend lab)"
                    ),
                    hint: "run this plan in the lab: --backend lab".to_string(),
                }),
            })),
        }
    }
    missing
}

/// The cgroups of worker sets.
fn check_cgroups(
    cell: &Cell,
    host: &Host,
    cpu_place: &dyn Fn() -> Result<Place, CgroupError>,
) -> Vec<Missing> {
    let groups = &cell.work.cgroups;
    if groups.is_empty() {
        return Vec::new();
    }
    let of_all = |error: CgroupError| vec![Missing::from_error("cgroup", error)];
    let place = match cpu_place() {
        Ok(place) => place,
        Err(error) => return of_all(error),
    };
    if cgroups::need_cpuset(groups) {
        let tree = cgroup::tree(host, Controller::Cpuset);
        let found = tree.and_then(|tree| cgroup::place(host, &tree, &[Controller::Cpuset]));
        if let Err(error) = found {
            return of_all(error);
        }
    }
    let check = |group: &Cgroup| {
        let changes = group.changes.iter().map(|change| &change.knobs);
        let settings = std::iter::once(&group.knobs).chain(changes);
        let settings = settings.map(|knobs| cgroups::settings(knobs, host));
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        let all = settings.iter().flatten();
        let mut all = all.flat_map(|(knob, _, of)| of.iter().map(move |of| (knob, of)));
        all.try_for_each(|(knob, setting)| {
            let name = format!("cgroup {}: {}", group.path, knob.trim_start_matches(CGROUP_KNOB));
            check_cgroup(host, &place, *setting).map_err(|error| {
                let missing = Missing::from_error(&name, error);
                Missing { message: format!("{name}: {}", missing.message), ..missing }
            })
        })
    };
    groups.iter().filter_map(|group| check(group).err()).collect()
}

/// Under CONFIG_RT_GROUP_SCHED a cgroup of version 1 that is made for the run has no real-time runtime.
fn no_rt_runtime(cell: &Cell, set: &WorkerSet, host: &Host, place: &Place) -> Option<Missing> {
    let file = place.parent.join("cpu.rt_runtime_us");
    // -1: real-time tasks have no limit anywhere.
    let is_free = host.read("/proc/sys/kernel/sched_rt_runtime_us").is_ok_and(|text| text == "-1");
    if place.version == Version::V2 || is_free || host.read(&file).is_err() {
        return None;
    }
    let begin = merged(&cell.variant.knobs, &set.knobs);
    let policy = |knobs: BTreeMap<String, Value>| {
        let policy = Policy::from_word(knobs.get("policy")?.as_text()?)?;
        policy.takes_priority().then_some(policy)
    };
    let mut all = once(begin.clone()).chain(SetChange::knobs_after(&set.changes, begin));
    let message = format!(
        "{} is not for cgroups that are made for a run: with {} (CONFIG_RT_GROUP_SCHED) they have \
         no real-time runtime",
        policy_name(all.find_map(policy)?.number()),
        file.display()
    );
    let hint = "leave out [cgroup], pool and cgroup-*, or run this plan in the lab: \
                schedlab run PLAN --backend lab";
    Some(of_set(set, "", Missing { knob: "policy".to_string(), message, hint: hint.to_string() }))
}

fn unknown(knobs: &BTreeMap<String, Value>) -> Vec<Missing> {
    let names: BTreeSet<&str> = registry().map(|knob| knob.field.name).collect();
    let unknown = knobs.keys().filter(|name| !names.contains(name.as_str()));
    let missing = unknown.map(|name| Missing {
        knob: name.clone(),
        message: format!("there is no knob `{}`", clean(name)),
        hint: "see which there are: schedlab list knobs".to_string(),
    });
    missing.collect()
}

/// Whether a cgroup made there has the setting's files, where that can be seen before.
fn check_cgroup(host: &Host, place: &Place, setting: CgroupSetting) -> Result<(), SettingError> {
    if place.version == Version::V2 {
        return check_kernel(host, setting);
    }
    setting.check_v1()?;
    for (name, _) in setting.files(place.version) {
        let path = place.parent.join(name);
        if let Err(error) = host.read(&path) {
            let cause = Cause::from_error(host, &path, error);
            return Err(SettingError::Unreadable { path, cause });
        }
    }
    Ok(())
}

/// The root of a version 2 tree has no cpu.weight, cpu.max or cpu.idle, so that only files
/// elsewhere show whether cgroups below it would have them.
fn check_kernel(host: &Host, setting: CgroupSetting) -> Result<(), SettingError> {
    const BANDWIDTH: &str = "/proc/sys/kernel/sched_cfs_bandwidth_slice_us";
    match setting {
        CgroupSetting::MaxUs(_) if !host.path(BANDWIDTH).exists() => {
            Err(SettingError::NotInKernel {
                what: "CPU bandwidth control (CONFIG_CFS_BANDWIDTH)",
                path: BANDWIDTH.into(),
            })
        }
        CgroupSetting::MaxUs(_) => Ok(()),
        CgroupSetting::Weight(_) | CgroupSetting::Idle(_) => match scheduler(host) {
            // BMQ and PDS have the files, and nothing behind them.
            Reading::Known(scheduler) if is_foreign(&scheduler) => {
                Err(SettingError::NoGroups { scheduler })
            }
            _ => Ok(()),
        },
    }
}

/// Applies task knobs in a thread made for it, which reads them back and ends.
fn trial(tasks: BTreeMap<String, Value>) -> Vec<Missing> {
    on_trial_thread(move |_| {
        let refused = try_on_self(&tasks);
        let knobs: BTreeSet<&String> = refused.iter().map(|missing| &missing.knob).collect();
        let readings = if refused.is_empty() { read_task(&tasks, 0) } else { Vec::new() };
        let not_taken = readings.into_iter().filter(|r| !knobs.contains(&r.knob));
        let not_taken: Vec<Missing> = not_taken.filter_map(not_taken_as_asked).collect();
        refused.into_iter().chain(not_taken).collect()
    })
}

/// The first problem of a thread that goes from the knobs of each of these cells to the next and back to the first: a
/// policy may be one that cannot be left. The cells are the variants of one work.
pub fn check_turns(cells: &[Cell]) -> Result<(), Missing> {
    let sets = cells.first().map(|cell| cell.work.sets.as_slice()).unwrap_or_default();
    for set in sets {
        let settings = cells.iter().map(|cell| {
            let others = cells.iter().map(|other| &other.variant.knobs);
            LiveSettings::new(&merged(&cell.variant.knobs, &set.knobs), others)
        });
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        let refused = on_trial_thread(move |begun| {
            if let Err(kept @ OrdinaryError::Kept { .. }) = begun {
                let hint = kept.hint().map(String::from).unwrap_or_default();
                return vec![Missing { knob: NICE.to_string(), message: kept.to_string(), hint }];
            }
            let round = settings.iter().chain(settings.first());
            round.filter_map(|one| one.apply(sched::own_tid()).err()).collect()
        });
        if let Some(mut first) = refused.into_iter().next() {
            if first.knob == NICE && first.hint == AS_ROOT {
                first.hint += "; or leave out `turns`: each run then begins at its own nice";
            }
            return Err(first);
        }
    }
    Ok(())
}

/// `attempt` hears whether the thread begins as workers do.
fn on_trial_thread(
    attempt: impl FnOnce(Result<(), OrdinaryError>) -> Vec<Missing> + Send + 'static,
) -> Vec<Missing> {
    // Some schedulers (MuQSS) let threads inherit a real-time policy although they must not.
    let attempt = move || attempt(thread::become_ordinary());
    let thread = std::thread::Builder::new().name("knob-trial".to_string()).spawn(attempt);
    let failed = |why: String| {
        let (message, hint) = (format!("a thread to try it on {why}"), SEE_LIMITS.to_string());
        vec![Missing { knob: "policy".to_string(), message, hint }]
    };
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(missing)) => missing,
        Ok(Err(_)) => failed("ended early".to_string()),
        Err(error) => failed(format!("cannot be made ({})", error_text(&error))),
    }
}

/// The error for a kernel that ignores slices, or for an affinity with CPUs that do not exist. A slice that the
/// kernel rounded counts as taken; its reading shows its value.
fn not_taken_as_asked(reading: KnobReading) -> Option<Missing> {
    let KnobReading { knob, asked, got } = reading;
    match got {
        Reading::Unknown(why) if why == NO_SLICE => Some(Missing {
            knob,
            message: why,
            hint: "run this plan under Linux 6.12 or later; this one: uname -r".to_string(),
        }),
        Reading::Known(got) if got != asked && knob == "affinity" => Some(Missing {
            knob,
            message: format!("of CPUs {asked} only {got} are online and allowed here"),
            hint: "see which there are: cat /sys/devices/system/cpu/online".to_string(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::sched::{self, Attr};
    use crate::variant::testing::{Machine, cell, knobs, variant};

    fn messages(written: &[(&str, &str)], host: &Host) -> Vec<(String, String)> {
        let missing = check(&cell(variant(written), &[]), host).err().unwrap_or_default();
        assert!(missing.iter().all(|one| !one.hint.is_empty()), "{missing:?}");
        missing.into_iter().map(|one| (one.knob, one.message)).collect()
    }

    #[test]
    fn what_can_be_had_is_not_missing_and_nothing_changes() {
        let machine = Machine::new();
        let before = machine.all();
        let all = [
            ("nice", "19"),
            ("timer-slack", "1ms"),
            ("autogroup", "false"),
            ("features", "NO_RUN_TO_PARITY"),
            ("preempt", "lazy"),
            ("base-slice", "1ms"),
            ("nr-migrate", "8"),
            ("sysctl", "sched_rr_timeslice_ms=50"),
            ("cgroup-weight", "200"),
            ("cgroup-max", "50%"),
        ];
        assert_eq!(messages(&all, &machine.host), []);
        assert_eq!(machine.all(), before);
    }

    #[test]
    fn what_is_missing_is_reported_with_path_errno_and_cause() {
        let machine = Machine::new();
        let cases: &[(&str, &str, &str)] = &[
            (
                "features",
                "NO_TURBO",
                "/sys/kernel/debug/sched/features has no feature TURBO in this kernel",
            ),
            (
                "sysctl",
                "sched_latency_ns=1",
                "/proc/sys/kernel/sched_latency_ns cannot be read (ENOENT, this kernel has no \
                 such setting)",
            ),
            ("affinity", "0,60000", "of CPUs 0,60000 only 0 are online and allowed here"),
            (
                "affinity",
                "60000",
                "CPUs 60000 were refused (EINVAL, none of these CPUs is online and allowed by \
                 the cpuset)",
            ),
        ];
        for (knob, text, message) in cases {
            let got = messages(&[(knob, text)], &machine.host);
            assert_eq!(got, [(knob.to_string(), message.to_string())]);
        }
        machine.lay("/sys/kernel/debug/sched/preempt", "none (voluntary) full\n");
        assert_eq!(
            messages(&[("preempt", "lazy")], &machine.host)[0].1,
            "/sys/kernel/debug/sched/preempt offers `none (voluntary) full`, not `lazy`"
        );
    }

    const FEATURES: &str = "/sys/kernel/debug/sched/features";

    #[test]
    fn features_are_where_the_release_has_them_and_the_reason_is_true() {
        let machine = Machine::new();
        let wanted = [("features", "NO_GENTLE_FAIR_SLEEPERS")];
        let old = "/sys/kernel/debug/sched_features";
        std::fs::remove_dir_all(machine.host.path("/sys/kernel/debug/sched")).unwrap();
        machine.lay(old, "GENTLE_FAIR_SLEEPERS HRTICK\n");
        assert_eq!(messages(&wanted, &machine.host), []);
        let no = "this kernel has no scheduler features (/sys/kernel/debug/sched/features and \
                  /sys/kernel/debug/sched_features are not there): ";
        // Something else is in debugfs.
        std::fs::rename(machine.host.path(old), machine.host.path("/sys/kernel/debug/x")).unwrap();
        let reason = |expected: &str| {
            let got = messages(&wanted, &machine.host);
            assert_eq!(got, [("features".to_string(), format!("{no}{expected}"))]);
        };
        reason("it has another scheduler than mainline's, or was built without CONFIG_SCHED_DEBUG");
        machine.lay("/proc/self/sched", "se.slice : 3\n");
        reason("it was built without CONFIG_SCHED_DEBUG");
        machine.lay("/proc/sys/kernel/rr_interval", "6\n");
        reason("it runs MuQSS");
        std::fs::remove_dir_all(machine.host.path("/sys/kernel/debug")).unwrap();
        let got = messages(&wanted, &machine.host);
        let expected = format!("{FEATURES} cannot be read (ENOENT, debugfs is not mounted)");
        assert_eq!(got, [("features".to_string(), expected)]);
    }

    #[test]
    fn cgroups_have_weights_only_under_a_scheduler_that_has_them() {
        let machine = Machine::new();
        let weight = [("cgroup-weight", "200")];
        for (file, scheduler) in [("yield_type", "BMQ or PDS"), ("rr_interval", "MuQSS")] {
            assert_eq!(messages(&weight, &machine.host).len(), usize::from(file == "rr_interval"));
            machine.lay(&format!("/proc/sys/kernel/{file}"), "1\n");
            let expected =
                format!("this kernel has no CPU weights of cgroups: it runs {scheduler}");
            let got = messages(&weight, &machine.host);
            assert_eq!(got, [("cgroup-weight".to_string(), expected)]);
        }
        std::fs::remove_file(machine.host.path("/proc/sys/kernel/sched_cfs_bandwidth_slice_us"))
            .unwrap();
        let got = messages(&[("cgroup-max", "50%")], &machine.host);
        assert!(got[0].1.contains("CONFIG_CFS_BANDWIDTH"), "{got:?}");
    }

    #[test]
    fn several_missing_knobs_are_all_reported() {
        let bare = Host::below("/nonexistent");
        let got = messages(
            &[("base-slice", "1ms"), ("autogroup", "true"), ("cgroup-max", "50%"), ("nice", "19")],
            &bare,
        );
        let expected = [
            ("cgroup-max", "/proc/self/mountinfo: ENOENT, not there"),
            (
                "autogroup",
                "/proc/sys/kernel/sched_autogroup_enabled cannot be read (ENOENT, this kernel \
                 has no such setting)",
            ),
            (
                "base-slice",
                "/sys/kernel/debug/sched/base_slice_ns cannot be read (ENOENT, debugfs is not \
                 mounted)",
            ),
        ];
        let expected = expected.map(|(knob, message)| (knob.to_string(), message.to_string()));
        assert_eq!(got, expected);
    }

    #[test]
    fn an_unknown_knob_is_missing() {
        let mut odd = variant(&[]);
        odd.knobs.insert("turbo".to_string(), Value::Bool(true));
        assert_eq!(check(&cell(odd, &[]), &Host::default()).unwrap_err()[0].knob, "turbo");
    }

    #[test]
    fn each_set_is_checked_with_what_it_makes_of_the_variant() {
        let lost = [("affinity", "60000")];
        let message = "CPUs 60000 were refused (EINVAL, none of these CPUs is online and allowed \
                       by the cpuset)";
        let of_set = format!("worker set `s`: {message}");
        type Written<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Written, &[Written], &[&str])] = &[
            (&lost, &[&[]], &[message]),
            (&[], &[&[], &lost], &[&of_set]),
            (&lost, &[&[], &[("nice", "19")]], &[message, &of_set]),
            // Nobody is left to have the variant's.
            (&lost, &[&[("affinity", "0")]], &[]),
            (&[], &[&[("nice", "19")]], &[]),
        ];
        for (of_variant, of_sets, expected) in cases {
            let sets: Vec<_> = of_sets.iter().map(|written| knobs(written)).collect();
            let missing = check(&cell(variant(of_variant), &sets), &Host::default());
            let missing = missing.err().unwrap_or_default();
            let got: Vec<&str> = missing.iter().map(|one| one.message.as_str()).collect();
            assert_eq!(got, *expected, "{of_variant:?} {of_sets:?}");
        }
    }

    #[test]
    fn a_change_that_a_worker_cannot_go_through_is_named_with_its_moment() {
        let mut changed = cell(variant(&[]), &[]);
        let change = |at_ns, written: &[(&str, &str)]| SetChange {
            at_ns,
            knobs: knobs(written),
            cgroup: None,
            count: None,
        };
        let changes =
            [change(1, &[("nice", "19")]), change(2_000_000_000, &[("affinity", "60000")])];
        let check = |changes: &[SetChange], cell: &mut Cell| {
            cell.work.sets[0].changes = changes.to_vec();
            let missing = check(cell, &Host::default()).err().unwrap_or_default();
            missing.into_iter().map(|one| one.message).collect::<Vec<_>>()
        };
        assert_eq!(check(&changes[..1], &mut changed), [""; 0]);
        let refused = check(&changes, &mut changed);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].starts_with("worker set `s` at 2s: CPUs 60000 were refused (EINVAL"));
    }

    /// The agent's threads look like this under a scheduler that lets threads inherit its policy.
    #[test]
    fn a_trial_begins_as_workers_do_whatever_thread_asks_for_it() {
        let asked = std::thread::spawn(|| {
            let fifo = Attr { policy: Policy::Fifo.number(), priority: 1, ..Attr::default() };
            sched::set_attr(0, &fifo).map(|()| messages(&[("nice", "19")], &Host::default()))
        });
        match asked.join().unwrap() {
            // A nice value alone would be taken by a FIFO thread, too; its slice would not.
            Ok(missing) => assert_eq!(missing, []),
            Err(error) => {
                eprintln!("skipped: a_trial_begins_as_workers_do needs privilege: {error}");
                return;
            }
        }
        let fifo = std::thread::spawn(|| {
            let fifo = Attr { policy: Policy::Fifo.number(), priority: 1, ..Attr::default() };
            sched::set_attr(0, &fifo).unwrap();
            messages(&[("slice", "1ms")], &Host::default())
        });
        let missing = fifo.join().unwrap();
        assert!(missing.is_empty() || missing[0].1 == NO_SLICE, "{missing:?}");
    }

    /// On any real machine `check` and `apply_to_self` give the same answer.
    #[test]
    fn a_trial_knows_what_workers_will_meet() {
        for written in [
            &[("policy", "fifo")][..],
            &[("nice", "-20")],
            &[("uclamp-min", "10%")],
            &[("policy", "deadline"), ("runtime", "1ms"), ("period", "10ms")],
        ] {
            let missing = messages(written, &Host::default());
            let knobs = variant(written).knobs;
            let applied = std::thread::spawn(move || crate::variant::apply_to_self(&knobs));
            let applied = applied.join().unwrap();
            assert_eq!(missing.is_empty(), applied.is_ok(), "{missing:?} {applied:?}");
        }
    }
}
