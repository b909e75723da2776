//! One `[[workload]]` as it was read, and the [`Work`]s that the points of its axes are.
//!
//! The works are checked here: knobs against variants, and each point by the workloads themselves.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeValue;

use crate::model::{
    Advice, Cgroup, CgroupPath, Measure, Offline, Params, Phase, Placement, Value, Variant, Work,
    WorkerKind, WorkerSet, cgroup_of_step,
};
use crate::workload::{Pool, Request, STEPS, Speed, Workload, WorkloadError};

use super::changes::SetChanges;
use super::error::Faults;
use super::fields::{AT, FOR, MAX_COUNT, MAX_WORKERS, OPS};
use super::knobs::Knobs;
use super::moments::changes_fit;
use super::offline::{check_affinity, check_work};
use super::phases::{PhaseKey, check_phases, phases_fit};
use super::table::{Points, Span, quoted_start};

/// One `[[workload]]`, checked except for what depends on the points of its axes.
pub struct Draft {
    pub name: String,
    /// The place for messages about the whole workload.
    pub span: Span,
    pub sets: Vec<Set>,
    /// The axes in the order written.
    pub axes: Vec<Axis>,
    pub loads: Vec<Load>,
    pub phases: Vec<PhaseKey>,
    /// The place of its numbers of last-level caches.
    pub llcs: Option<Span>,
    /// The lengths of its runs and of those in the lab, and their places.
    pub durations: [Option<(u64, Span)>; 2],
    /// CPUs that are taken off in mid-run, each with its place.
    pub offline: Vec<(Offline, Span)>,
    /// The cgroups that its sets need.
    pub cgroups: Vec<Cgroup>,
    /// Whether each set is to run alone, too.
    pub solo: bool,
    /// False: a fault was noted, so works are not made from it.
    pub sound: bool,
}

pub struct Set {
    pub name: String,
    pub workload: &'static dyn Workload,
    /// Parameters and [`SET`] fields that are not axes.
    pub fixed: Params,
    pub background: bool,
    pub knobs: Knobs,
    pub cgroup: Option<CgroupPath>,
    pub changes: SetChanges,
    pub written: Vec<Written>,
}

/// A key of a set, and where its value stands, for messages of the workload later.
pub struct Written {
    key: String,
    span: Span,
    /// The texts of a list, each with its place.
    items: Vec<(String, Span)>,
}

impl Written {
    pub fn new(key: &str, value: &Spanned<DeValue>) -> Written {
        let mut items = Vec::new();
        texts_of(value, &mut items);
        Written { key: key.to_string(), span: value.span(), items }
    }
}

/// The texts of a list, and of the lists in it.
fn texts_of(value: &Spanned<DeValue>, items: &mut Vec<(String, Span)>) {
    for item in value.get_ref().as_array().into_iter().flat_map(|items| items.iter()) {
        items.extend(item.get_ref().as_str().map(|text| (text.to_string(), item.span())));
        texts_of(item, items);
    }
}

pub struct Axis {
    pub label: String,
    /// The name of a field, or of one of the `parameters`.
    pub name: String,
    /// Indices of the sets whose field it moves; empty for the axis `llcs`.
    pub sets: Vec<usize>,
    pub points: Vec<Value>,
    pub written_at: usize,
}

/// The values of `load`, and where they are written.
pub struct Load {
    ratios: Vec<f64>,
    span: Span,
}

/// Keys that a set loses in its solo run, which has one of the set, active all the time.
const OF_NO_SOLO: [&str; 5] = ["count", "load", AT, FOR, OPS];

impl Load {
    /// Has no ratios if the values are not loads.
    pub fn new(points: &Points, span: Span) -> Load {
        let ratios = match points {
            Points::One(value) => value.as_times().into_iter().collect(),
            Points::Axis(values) => values.iter().filter_map(Value::as_times).collect(),
        };
        Load { ratios, span }
    }

    /// Notes an unknown pool, and a load of more workers than `count` takes.
    fn check(&self, pool: &Pool, faults: &mut Faults) {
        let Some(max) = self.ratios.iter().copied().max_by(f64::total_cmp) else { return };
        if pool.cpus.is_empty() {
            let hint = "write `count`, or the CPUs: [placement] with cpus = \"0-3\"";
            faults.add(&self.span, "of how many CPUs is not known here", "this ratio", hint);
        } else if pool.times(max) > MAX_COUNT as f64 {
            let cpus = pool.count();
            let message = format!("{max}x of {cpus} CPUs are more workers than a set takes");
            let hint = format!("at most {MAX_COUNT}: \"{}x\"", MAX_COUNT / i64::from(cpus));
            faults.add(&self.span, message, "this ratio", hint);
        }
    }
}

pub fn own_cgroups(sets: &[Set]) -> Vec<CgroupPath> {
    let of_set = |set: &Set| {
        let of_steps = set.step_cgroups().filter_map(|(path, _)| path.parse().ok());
        set.changes.cgroups().chain(&set.cgroup).cloned().chain(of_steps).collect::<Vec<_>>()
    };
    sets.iter().flat_map(of_set).collect()
}

impl Draft {
    /// The number of works that it makes. Saturates.
    pub fn points(&self) -> u128 {
        self.axes.iter().fold(1, |product, axis| product.saturating_mul(axis.points.len() as u128))
    }

    /// Notes knobs that conflict with a variant, the placement or the last-level caches.
    pub fn check_knobs(&self, variants: &[Variant], placement: &Placement, faults: &mut Faults) {
        for set in &self.sets {
            let (own, cpus) = (&set.knobs, placement.cpus.as_ref());
            own.check_merged(variants, faults);
            own.check_affinity(cpus, faults);
            set.changes.check_knobs(&own.values, variants, cpus, faults);
        }
        let knobs = variants.iter().map(|variant| &variant.knobs);
        check_affinity(&self.offline, knobs, placement.cpus.as_ref(), faults);
        let Some(span) = &self.llcs else { return };
        let knobs = variants.iter().map(|variant| &variant.knobs);
        let mut knobs = knobs.chain(self.sets.iter().flat_map(Set::all_knobs));
        let other = match &placement.pool {
            Some(_) => "pool",
            None if knobs.any(|knobs| knobs.contains_key("affinity")) => "affinity",
            None => return,
        };
        let message = format!("`llcs` and `{other}` both say which CPUs workers have");
        faults.add(span, message, "one of them", "leave one of them out");
    }

    /// The cross product of the axes, each point checked with the workloads themselves. The caller has
    /// bounded [`Draft::points`]. `pool` returns the pool with a number of last-level caches.
    pub fn works(
        &self,
        pool: &dyn Fn(Option<u32>) -> Pool,
        measure: &Measure,
        faults: &mut Faults,
    ) -> Vec<Work> {
        if !self.sound {
            return Vec::new();
        }
        let before = faults.len();
        let all = pool(None);
        self.loads.iter().for_each(|load| load.check(&all, faults));
        if faults.len() > before {
            return Vec::new();
        }
        let mut works = Vec::new();
        for point in 0..self.points() as u64 {
            let work = self.work(point, pool);
            // One point of a workload is enough: the others mostly fail the same way.
            if !self.fits_runs(&work, measure, faults)
                || !self.check_kinds(&work, faults)
                || !check_work(&self.offline, &work, faults)
                || !self.fits(&work, &pool(work.llcs), measure.seed, faults)
            {
                return Vec::new();
            }
            works.push(work);
        }
        works
    }

    /// Whether phases and changes lie within a run, here and in the lab.
    fn fits_runs(&self, work: &Work, measure: &Measure, faults: &mut Faults) -> bool {
        let [own, in_lab] = &self.durations;
        let duration_ns = own.as_ref().map_or(measure.duration_ns, |(duration_ns, _)| *duration_ns);
        let own_measure = Measure { duration_ns, ..measure.clone() };
        let places = [
            (own, "too short", "a longer `duration`, or none: it is then that of [measure]"),
            (
                in_lab,
                "too short in the lab",
                "a longer `lab-duration`, or none: it is then as long as on a host",
            ),
        ];
        if !check_phases(&work.sets, &self.phases, &own_measure, faults) {
            return false;
        }
        for (duration, label, hint) in places {
            let Some((duration_ns, span)) = duration else { continue };
            let measure = Measure { duration_ns: *duration_ns, ..measure.clone() };
            let fits =
                phases_fit(&work.sets, &measure).and_then(|()| changes_fit(work, *duration_ns));
            if let Err(error) = fits {
                faults.add(span, error.message, label, hint);
                return false;
            }
        }
        true
    }

    /// Whether no set changes whose workers cannot.
    fn check_kinds(&self, work: &Work, faults: &mut Faults) -> bool {
        self.sets.iter().zip(&work.sets).all(|(set, made)| set.changes.check_kind(made, faults))
    }

    /// Asks each workload for its workers, as a run will, and notes where that fails.
    pub fn fits(&self, work: &Work, pool: &Pool, seed: u64, faults: &mut Faults) -> bool {
        let Err(Refused { why, hint, span }) = self.check_layout(work, pool, seed) else {
            return true;
        };
        let hint = hint.as_deref().unwrap_or("change the parameters that do not go together");
        match span {
            Some(span) => faults.add(&span, why, "this value", hint),
            None => {
                let message = format!("{} cannot be run: {why}", quoted_start(&work.label()));
                faults.add(&self.span, message, "this workload", hint);
            }
        }
        false
    }

    fn check_layout(&self, work: &Work, pool: &Pool, seed: u64) -> Result<(), Refused> {
        let mut workers = 0_usize;
        for made in &work.sets {
            let WorkerSet { params, kind, .. } = made;
            let (count, speed) = (made.max_count(), Speed::default());
            let request = Request { params, count, kind: *kind, pool, seed, speed };
            let Some(set) = self.sets.iter().find(|set| set.name == made.name) else { continue };
            let roles = set.workload.layout(&request).map_err(|error| set.refused(&error))?;
            workers = workers.saturating_add(roles.len());
        }
        if workers > MAX_WORKERS {
            return Err(self.too_many(work, workers));
        }
        Ok(())
    }

    /// The largest `count` is the one to change.
    fn too_many(&self, work: &Work, workers: usize) -> Refused {
        let why =
            |who: &str| format!("{who} has {workers} workers, and one cell at most {MAX_WORKERS}");
        let most = work.sets.iter().max_by_key(|made| made.max_count());
        let most = most.and_then(|most| self.sets.iter().find(|set| set.name == most.name));
        match most.and_then(|set| set.written("count")) {
            Some(count) => Refused {
                why: why(&quoted_start(&work.label())),
                hint: Some("a smaller `count`".to_string()),
                span: Some(count.span.clone()),
            },
            None => Refused { why: why("it"), hint: None, span: None },
        }
    }

    /// For each set in the foreground, the axes that its solo runs also have: all that change more than its
    /// number and its time.
    pub fn solo_axes(&self) -> impl Iterator<Item = (usize, Vec<bool>)> + '_ {
        let foreground = self.sets.iter().enumerate().filter(|(_, set)| !set.background);
        foreground.map(|(index, _)| {
            let own = |axis: &Axis| {
                axis.sets.is_empty()
                    || axis.sets.contains(&index) && !OF_NO_SOLO.contains(&axis.name.as_str())
            };
            (index, self.axes.iter().map(own).collect())
        })
    }

    /// The number of points of each axis.
    pub fn axis_sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.axes.iter().map(|axis| axis.points.len())
    }

    /// The work at `point`: its digits, the first axis slowest, choose from each axis.
    fn work(&self, point: u64, pool: &dyn Fn(Option<u32>) -> Pool) -> Work {
        let mut llcs = None;
        let mut params: Vec<Params> = self.sets.iter().map(|set| set.fixed.clone()).collect();
        let mut axes = Vec::with_capacity(self.axes.len());
        let mut rest = point;
        for axis in self.axes.iter().rev() {
            let size = axis.points.len() as u64;
            let value = &axis.points[(rest % size) as usize];
            rest /= size;
            if axis.sets.is_empty() {
                llcs = value.as_int().map(|count| count as u32);
            }
            for &index in &axis.sets {
                params[index].insert(axis.name.clone(), value.clone());
            }
            axes.push((axis.label.clone(), value.to_string()));
        }
        axes.reverse();
        let pool = pool(llcs);
        let sets = self.sets.iter().zip(params).map(|(set, params)| set.worker_set(params, &pool));
        let cgroups = self.cgroups.clone();
        let durations_ns = self.durations.each_ref().map(|duration| Some(duration.as_ref()?.0));
        let [duration_ns, lab_duration_ns] = durations_ns;
        let sets = sets.collect();
        let offline = self.offline.iter().map(|(offline, _)| offline.clone()).collect();
        Work {
            name: self.name.clone(),
            axes,
            llcs,
            duration_ns,
            lab_duration_ns,
            cgroups,
            offline,
            sets,
        }
    }
}

/// Why a workload refuses a set. `span` is the place of the wrong value, if there is one.
struct Refused {
    why: String,
    hint: Option<String>,
    span: Option<Span>,
}

impl Set {
    /// The cgroups that steps of its workers move to, as they are written, each with its place.
    pub fn step_cgroups(&self) -> impl Iterator<Item = (&str, &Span)> {
        let has_steps = self.workload.spec().name == STEPS;
        let steps = self.written.iter().filter(move |own| has_steps && own.key == STEPS);
        let texts = steps.flat_map(|own| &own.items);
        let texts = texts.flat_map(|(text, span)| text.split(',').map(move |one| (one, span)));
        texts.filter_map(|(text, span)| Some((cgroup_of_step(text)?, span)))
    }

    /// Its knobs, and those of its changes in mid-run.
    fn all_knobs(&self) -> impl Iterator<Item = &BTreeMap<String, Value>> {
        self.changes.knobs().chain([&self.knobs.values])
    }

    /// The key as the plan has it.
    fn written(&self, key: &str) -> Option<&Written> {
        self.written.iter().find(|written| written.key == key)
    }

    fn refused(&self, error: &WorkloadError) -> Refused {
        let span = error.place().and_then(|(key, value)| {
            let written = self.written(key)?;
            let item = written.items.iter().find(|(text, _)| Some(text.as_str()) == value);
            Some(item.map_or(&written.span, |(_, span)| span).clone())
        });
        let why = match span {
            Some(_) => error.to_string(),
            None => format!("set {}: {error}", quoted_start(&self.name)),
        };
        Refused { why, hint: error.problem().hint, span }
    }

    fn worker_set(&self, mut params: Params, pool: &Pool) -> WorkerSet {
        let written = params.remove("count").and_then(|value| value.as_int()).unwrap_or(1);
        // If both are here, the count is the default.
        let load = params.remove("load").and_then(|value| value.as_times());
        let count = load.map_or(written as u32, |ratio| pool.times(ratio) as u32);
        let phase = phase(&mut params);
        let kind = params.remove("workers");
        let kind = match kind.as_ref().and_then(Value::as_text) {
            Some("processes") => WorkerKind::Processes,
            Some("guests") => WorkerKind::Guests,
            Some("guests-or-processes") => WorkerKind::GuestsOrProcesses,
            _ => WorkerKind::Threads,
        };
        WorkerSet {
            name: self.name.clone(),
            workload: self.workload.spec().name.to_string(),
            params,
            count,
            kind,
            phase,
            background: self.background,
            knobs: self.knobs.values.clone(),
            cgroup: self.cgroup.clone(),
            changes: self.changes.all(),
        }
    }
}

/// Takes the phase out of the parameters. A set with an end also has a begin.
fn phase(params: &mut Params) -> Option<Phase> {
    let [at_ns, for_ns] =
        [AT, FOR].map(|key| params.remove(key).and_then(|value| value.as_duration_ns()));
    let ops = params.remove(OPS).and_then(|value| value.as_int()).map(|ops| ops as u64);
    let is_phased = at_ns.is_some() || for_ns.is_some() || ops.is_some();
    is_phased.then(|| Phase { at_ns: at_ns.unwrap_or(0), for_ns, ops })
}
