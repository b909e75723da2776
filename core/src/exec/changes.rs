//! Changes in mid-run: a thread that sleeps until the moments of the plan, and then changes cgroups and workers.
//!
//! All that one moment asks for is made at once: first CPUs, then cgroups, then each set's workers, to the knobs that they have
//! after it. It begins on the clock of the windows, counts as overhead, and ends with the first change that fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread::JoinHandle;

use crate::model::{
    CgroupPath, CgroupWrite, Disturbance, DisturbanceFact, KnobReading, Reading, RunSpec,
    SetChange, Value, WorkerSet, show_duration,
};
use crate::sys::host::error_text;
use crate::sys::{Host, clock, thread};
use crate::variant::{self, LiveSettings, Missing};
use crate::workload::{Control, Load, STEPS, Slot};

use super::ExecError;
use super::group::{Set, WorkerGroup};
use super::offline::{Turn, turns};

/// Later changes have a note.
const MAX_LATE_NS: u64 = 1_000_000;

/// The changes of a run that is about to start, in the order in which they are made.
pub struct Changes(Vec<Moment>);

struct Moment {
    /// The time since the begin of the measured section.
    at_ns: u64,
    cpus: Vec<Turn>,
    cgroups: Vec<CgroupWrite>,
    sets: Vec<SetStep>,
}

/// All that a moment asks of the workers of a set.
struct SetStep {
    set: String,
    /// With the place of each in its set.
    workers: Arc<[(usize, i32)]>,
    load: Arc<dyn Load>,
    /// The files of the cgroup that they move to.
    joins: Vec<PathBuf>,
    /// All knobs that they have from now on.
    settings: LiveSettings,
    moves_cpus: bool,
    sets_attributes: bool,
    /// How many of them there are from now on.
    count: Option<Count>,
}

struct Count {
    present: u32,
    control: &'static Control,
    slots: &'static [Slot],
}

/// A set's workers as they are while moments are gathered.
struct State<'s> {
    set: &'s WorkerSet,
    /// Before the first change.
    knobs: BTreeMap<String, Value>,
    cgroup: Option<CgroupPath>,
    workers: Arc<[(usize, i32)]>,
}

impl Changes {
    /// `group` waits at the barrier.
    pub fn gather(group: &WorkerGroup, spec: &RunSpec) -> Result<Changes, ExecError> {
        let sets = &spec.cell.work.sets;
        let of_sets = sets.iter().flat_map(|set| &set.changes).map(|change| change.at_ns);
        let of_cgroups = spec.cgroups.changes.iter().map(|change| change.at_ns);
        let cpus = turns(&spec.cell.work, spec.duration_ns);
        let of_cpus = cpus.iter().map(|turn| turn.at_ns);
        let mut moments: Vec<u64> = of_sets.chain(of_cgroups).chain(of_cpus).collect();
        moments.sort_unstable();
        moments.dedup();
        let mut states: Vec<State> = if moments.is_empty() {
            Vec::new()
        } else {
            sets.iter().enumerate().map(|(at, set)| State::begin(group, at, set, spec)).collect()
        };
        let moment = |at_ns| {
            let changes = spec.cgroups.changes.iter().filter(|change| change.at_ns == at_ns);
            let cgroups: Vec<CgroupWrite> = changes.cloned().collect();
            let steps = states.iter_mut().enumerate().map(|(position, state)| {
                state.step(at_ns, &cgroups, &group.sets()[position], spec)
            });
            let sets = steps.filter_map(Result::transpose).collect::<Result<_, ExecError>>()?;
            let cpus = cpus.iter().copied().filter(|turn| turn.at_ns == at_ns).collect();
            Ok(Moment { at_ns, cpus, cgroups, sets })
        };
        Ok(Changes(moments.into_iter().map(moment).collect::<Result<_, ExecError>>()?))
    }

    /// Starts the thread, if there is something to change. Moments count from `from_ns`.
    pub fn start(self, from_ns: u64) -> Result<Changing, ExecError> {
        let moments: Vec<u64> = self.0.iter().map(|moment| moment.at_ns).collect();
        let made: Arc<[Made]> = moments.iter().map(|_| Made::default()).collect();
        if moments.is_empty() {
            return Ok(Changing { thread: None, moments, made });
        }
        let notes = Arc::clone(&made);
        let body = move || {
            thread::serve_promptly();
            for (moment, note) in self.0.iter().zip(notes.iter()) {
                clock::sleep_until(from_ns + moment.at_ns);
                let cpus_ns = moment.make()?;
                note.cpus_ns.store(cpus_ns, Relaxed);
                note.cpu_ns.store(clock::own_thread_cpu_ns(), Relaxed);
                note.at_ns.store(clock::monotonic_ns() - from_ns, Release);
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("schedlab-change".to_string()).spawn(body);
        let thread = Some(thread.map_err(ExecError::system("start the thread of changes"))?);
        Ok(Changing { thread, moments, made })
    }
}

impl<'s> State<'s> {
    fn begin(
        group: &WorkerGroup,
        position: usize,
        set: &'s WorkerSet,
        spec: &RunSpec,
    ) -> State<'s> {
        let mut knobs = variant::merged(&spec.cell.variant.knobs, &set.knobs);
        if let Some(cpus) = &spec.cell.placement.cpus {
            let of_pool = || Value::Cpus(cpus.clone());
            knobs.entry(variant::AFFINITY.to_string()).or_insert_with(of_pool);
        }
        let members = group.members().iter().filter(|member| member.set == position);
        let workers = members.map(|member| (member.index, member.slot.tid())).collect();
        State { set, knobs, cgroup: set.cgroup.clone(), workers }
    }

    /// Takes the set through a moment. `None`: it asks nothing of its workers.
    fn step(
        &mut self,
        at_ns: u64,
        cgroups: &[CgroupWrite],
        prepared: &Set,
        spec: &RunSpec,
    ) -> Result<Option<SetStep>, ExecError> {
        let own: Vec<&SetChange> =
            self.set.changes.iter().filter(|change| change.at_ns == at_ns).collect();
        let target = own.iter().rev().find_map(|change| change.cgroup.clone());
        if target.is_some() {
            self.cgroup.clone_from(&target);
        }
        let joins = target.and_then(|target| spec.cgroups.joins.get(&target).cloned());
        let joins = joins.unwrap_or_default();
        let is_around = |write: &CgroupWrite| {
            let is_of_set = self.cgroup.as_ref().is_some_and(|own| own.is_within(&write.cgroup));
            write.setting == CgroupWrite::CPUS && is_of_set
        };
        // Before Linux 6.2 a thread has all CPUs of a cpuset that it moves to or that changes. Steps have CPUs of
        // their own.
        let loses_cpus =
            self.set.workload != STEPS && (!joins.is_empty() || cgroups.iter().any(is_around));
        let mut named = own.iter().flat_map(|change| change.knobs.keys());
        let moves_cpus = loses_cpus || named.clone().any(|knob| knob == variant::AFFINITY);
        let sets_attributes = named.any(|knob| knob != variant::AFFINITY);
        let count = own.iter().rev().find_map(|change| change.count);
        if joins.is_empty() && !moves_cpus && !sets_attributes && count.is_none() {
            return Ok(None);
        }
        let failed = |missing| ExecError::Change { at_ns, missing };
        let by_then = self.set.changes.iter().take_while(|change| change.at_ns <= at_ns).count();
        let by_then = &self.set.changes[..by_then];
        let knobs = SetChange::knobs_after(by_then, self.knobs.clone()).last();
        let knobs = knobs.as_ref().unwrap_or(&self.knobs);
        // Workers of which nothing else changes may have what cannot be taken in mid-run.
        let none = BTreeMap::new();
        let knobs = if moves_cpus || sets_attributes { knobs } else { &none };
        Ok(Some(SetStep {
            set: self.set.name.clone(),
            workers: Arc::clone(&self.workers),
            load: Arc::clone(&prepared.load),
            joins,
            settings: LiveSettings::new(knobs, [].into_iter()).map_err(failed)?,
            moves_cpus,
            sets_attributes,
            count: count.map(|present| Count {
                present,
                control: prepared.control,
                slots: prepared.slots,
            }),
        }))
    }
}

impl Moment {
    /// The time that the kernel took for CPUs.
    fn make(&self) -> Result<u64, ExecError> {
        let host = Host::default();
        let failed = |missing| ExecError::Change { at_ns: self.at_ns, missing };
        let begun_ns = clock::monotonic_ns();
        self.cpus.iter().try_for_each(|turn| turn.make(&host)).map_err(failed)?;
        let cpus_ns = clock::monotonic_ns() - begun_ns;
        for CgroupWrite { cgroup, setting, files, .. } in &self.cgroups {
            let name = format!("cgroup {cgroup}: {setting}");
            variant::write_cgroup_files(&host, &name, files).map_err(failed)?;
        }
        for step in &self.sets {
            step.make(&host).map_err(|missing| {
                let message = format!("worker set `{}`: {}", step.set, missing.message);
                ExecError::Change { at_ns: self.at_ns, missing: Missing { message, ..missing } }
            })?;
        }
        Ok(if self.cpus.is_empty() { 0 } else { cpus_ns })
    }
}

impl SetStep {
    fn make(&self, host: &Host) -> Result<(), Missing> {
        for (index, tid) in self.workers.iter() {
            for file in &self.joins {
                host.write(file, &tid.to_string()).map_err(|error| Missing {
                    knob: "cgroup".to_string(),
                    message: format!("{} takes no thread ({})", file.display(), error_text(&error)),
                    hint: "see who removed it: dmesg, journalctl".to_string(),
                })?;
            }
            // A workload that pins its workers keeps them there.
            if self.moves_cpus && self.load.cpus(*index).is_none() {
                self.settings.apply_cpus(*tid)?;
            }
            if self.sets_attributes {
                self.settings.apply(*tid)?;
            }
        }
        if let Some(Count { present, control, slots }) = &self.count {
            control.set_present(*present, slots);
        }
        Ok(())
    }
}

/// When a moment's changes had all been made, and the CPU time of the thread by then; 0: they have not.
#[derive(Default)]
struct Made {
    at_ns: AtomicU64,
    cpu_ns: AtomicU64,
    /// The time that the kernel took for CPUs.
    cpus_ns: AtomicU64,
}

/// The thread that makes the changes of a run that goes on.
pub struct Changing {
    thread: Option<JoinHandle<Result<(), ExecError>>>,
    moments: Vec<u64>,
    made: Arc<[Made]>,
}

impl Changing {
    /// Fails if a change has failed.
    pub fn check(&mut self) -> Result<(), ExecError> {
        let ended = self.thread.take_if(|thread| thread.is_finished());
        ended.map_or(Ok(()), joined)
    }

    /// The last change was due.
    pub fn end(self) -> Result<Changed, ExecError> {
        self.thread.map_or(Ok(()), joined)?;
        let cpu_ns = self.made.iter().map(|made| made.cpu_ns.load(Relaxed)).max().unwrap_or(0);
        let moment = |(at_ns, made): (u64, &Made)| {
            let made_ns = Some(made.at_ns.load(Acquire)).filter(|at_ns| *at_ns > 0);
            EndedMoment { at_ns, made_ns, cpus_ns: made.cpus_ns.load(Relaxed) }
        };
        Ok(Changed {
            moments: self.moments.into_iter().zip(&*self.made).map(moment).collect(),
            cpu_ns,
        })
    }
}

fn joined(thread: JoinHandle<Result<(), ExecError>>) -> Result<(), ExecError> {
    let panicked = |_| Err(ExecError::system("make the changes")("the thread panicked"));
    thread.join().unwrap_or_else(panicked)
}

struct EndedMoment {
    at_ns: u64,
    /// When its changes had been made; `None`: the run ended before.
    made_ns: Option<u64>,
    /// The kernel takes tens of milliseconds for a CPU that goes or comes: that is no delay.
    cpus_ns: u64,
}

impl EndedMoment {
    fn late_ns(&self) -> Option<u64> {
        Some((self.made_ns? - self.at_ns).saturating_sub(self.cpus_ns))
    }
}

/// The changes of a run that has ended.
#[derive(Default)]
pub struct Changed {
    moments: Vec<EndedMoment>,
    /// CPU time of the thread.
    pub cpu_ns: u64,
}

impl Changed {
    /// The moments, as knobs are read back: measured, not asked for.
    pub fn readings(&self) -> impl Iterator<Item = KnobReading> {
        self.moments.iter().filter_map(|moment| {
            let asked = Value::DurationNs(moment.made_ns?);
            let knob = format!("change at {}", show_duration(moment.at_ns));
            Some(KnobReading { knob, got: Reading::Known(asked.clone()), asked })
        })
    }

    /// The first change that was not made, or the latest one that was made late.
    pub fn late(&self) -> Option<Disturbance> {
        let late = self.moments.iter().map(|moment| (moment.at_ns, moment.late_ns()));
        let missed = late.clone().find(|(_, late_ns)| late_ns.is_none());
        let worst = || late.max_by_key(|(_, late_ns)| *late_ns);
        let is_noted = |late_ns: Option<u64>| late_ns.is_none_or(|late_ns| late_ns > MAX_LATE_NS);
        let (at_ns, late_ns) = missed.or_else(worst).filter(|(_, late_ns)| is_noted(*late_ns))?;
        Some(Disturbance { share: None, fact: DisturbanceFact::LateChange { at_ns, late_ns } })
    }
}

#[cfg(test)]
mod tests {
    use super::super::group::testing::{spinning, waiting};
    use super::*;
    use crate::sys::sched;

    fn spec(changes: Vec<SetChange>) -> RunSpec {
        let name = "s".to_string();
        let set = WorkerSet { name, count: 2, changes, ..Default::default() };
        RunSpec {
            duration_ns: 1,
            window_ns: 1,
            limit_ns: 60_000_000_000,
            seed: 1,
            ..RunSpec::new(spinning(set))
        }
    }

    fn change(at_ns: u64, knobs: &[(&str, Value)]) -> SetChange {
        let knobs = knobs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        SetChange { at_ns, knobs, cgroup: None, count: None }
    }

    /// The second change of a moment replaces the first, and one that does not name a knob keeps it.
    #[test]
    fn workers_have_what_each_moment_asks_for() {
        let own = sched::affinity(0).unwrap();
        let one = own.iter().take(1).collect::<crate::model::CpuSet>();
        let batch = Value::Text("batch".to_string());
        let spec = spec(vec![
            change(5, &[("nice", Value::Int(18))]),
            change(5, &[("nice", Value::Int(17))]),
            change(9, &[("affinity", Value::Cpus(one.clone()))]),
            change(11, &[("nice", Value::Int(19)), ("policy", batch)]),
        ]);
        let group = waiting(&spec.cell, &spec.cgroups.joins);
        let is = |nice, policy, cpus: &crate::model::CpuSet| {
            for member in group.members() {
                let tid = member.slot.tid();
                let attr = sched::attr(tid).unwrap();
                assert_eq!((attr.nice, attr.policy), (nice, policy));
                assert_eq!(&sched::affinity(tid).unwrap(), cpus);
            }
        };
        let changes = Changes::gather(&group, &spec).unwrap();
        let [first, second, third] = &changes.0[..] else { panic!("three moments") };
        // Workers inherit the nice of the tests.
        is(sched::attr(0).unwrap().nice, 0, &own);
        first.make().unwrap();
        is(17, 0, &own);
        second.make().unwrap();
        is(17, 0, &one);
        third.make().unwrap();
        is(19, 3, &one);
        group.stop();
    }

    /// There are as many from the start as there ever are.
    #[test]
    fn a_set_has_as_many_workers_as_each_moment_asks_for() {
        let count = |at_ns, count| SetChange { count: Some(count), ..change(at_ns, &[]) };
        let spec = spec(vec![count(5, 4), count(9, 7), count(9, 3)]);
        let group = waiting(&spec.cell, &spec.cgroups.joins);
        let changes = Changes::gather(&group, &spec).unwrap();
        let rest = || {
            let now_ns = clock::monotonic_ns();
            let grows = |slot: &Slot| slot.rested_ns(now_ns + 1) > slot.rested_ns(now_ns);
            group.members().iter().map(|member| grows(member.slot)).collect::<Vec<_>>()
        };
        let after = |there: usize| (0..7).map(|at| at >= there).collect::<Vec<_>>();
        assert_eq!(rest(), after(2));
        changes.0[0].make().unwrap();
        assert_eq!(rest(), after(4));
        // It sees at its next operation that there are fewer again.
        changes.0[1].make().unwrap();
        assert_eq!(rest(), after(4));
        group.stop();
    }

    #[test]
    fn a_change_of_policy_keeps_what_the_set_has() {
        let text = |word: &str| Value::Text(word.to_string());
        let mut spec = spec(vec![
            change(5, &[("policy", text("batch"))]),
            change(7, &[("nice", Value::Int(18))]),
            change(9, &[("policy", text("other"))]),
        ]);
        spec.cell.work.sets[0].knobs.insert("nice".to_string(), Value::Int(17));
        let group = waiting(&spec.cell, &spec.cgroups.joins);
        let changes = Changes::gather(&group, &spec).unwrap();
        for (moment, expected) in changes.0.iter().zip([(3, 17), (3, 18), (0, 18)]) {
            moment.make().unwrap();
            for member in group.members() {
                let attr = sched::attr(member.slot.tid()).unwrap();
                assert_eq!((attr.policy, attr.nice), expected, "at {}", moment.at_ns);
            }
        }
        group.stop();
    }

    #[test]
    fn a_change_that_fails_ends_the_run_with_its_moment_and_its_cause() {
        let mut spec = spec(Vec::new());
        spec.cgroups.changes.push(CgroupWrite {
            at_ns: 7,
            cgroup: "web".parse().unwrap(),
            setting: "weight".to_string(),
            files: vec![("/nonexistent/cpu.weight".into(), "5".to_string())],
        });
        let group = waiting(&spec.cell, &spec.cgroups.joins);
        let changing =
            Changes::gather(&group, &spec).unwrap().start(clock::monotonic_ns()).unwrap();
        let failed = changing.end().map(|_| ()).unwrap_err().to_string();
        let expected = "the change at 7ns failed: knob `cgroup web: weight`: \
                        /nonexistent/cpu.weight cannot be read (ENOENT";
        assert!(failed.starts_with(expected), "{failed}");
        group.stop();
    }

    #[test]
    fn a_moment_is_late_after_a_millisecond_and_one_that_never_came_is_named() {
        let late_with = |moments: &[(u64, Option<u64>)], cpus_ns| {
            let moments = moments.iter();
            let moments =
                moments.map(|&(at_ns, made_ns)| EndedMoment { at_ns, made_ns, cpus_ns }).collect();
            Changed { moments, cpu_ns: 0 }.late().map(|late| late.fact)
        };
        let late = |moments: &[(u64, Option<u64>)]| late_with(moments, 0);
        assert_eq!(late(&[]), None);
        assert_eq!(late(&[(5, Some(1_000_005))]), None);
        let fact = |at_ns, late_ns| Some(DisturbanceFact::LateChange { at_ns, late_ns });
        assert_eq!(late(&[(5, Some(1_000_006)), (6, Some(7))]), fact(5, Some(1_000_001)));
        assert_eq!(late(&[(5, Some(9_000_000)), (6, None)]), fact(6, None));
        // A CPU that goes takes the kernel 40 ms.
        assert_eq!(late_with(&[(5, Some(40_500_005))], 40_000_000), None);
        let begun_late = late_with(&[(5, Some(42_000_005))], 40_000_000);
        assert_eq!(begun_late, fact(5, Some(2_000_000)));
    }

    #[test]
    fn a_run_without_changes_has_no_thread() {
        let spec = spec(Vec::new());
        let group = waiting(&spec.cell, &spec.cgroups.joins);
        let changing = Changes::gather(&group, &spec).unwrap().start(0).unwrap();
        assert!(changing.thread.is_none());
        assert_eq!(changing.end().unwrap().readings().count(), 0);
        group.stop();
    }
}
