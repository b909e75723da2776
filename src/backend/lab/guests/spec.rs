//! The spec of a run as a guest has it, and the files and the patience that the run takes. Pure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::{Cell, GUEST_WIRE, GuestSpec, Lab, RunSpec, Value, Variant, Work};
use crate::sys::command;
use crate::variant::scx::Scheduler;
use crate::workload::{self, WorkloadError};

use crate::backend::lab::asked::{GUEST_KERNEL, KERNEL, KERNEL_ARGUMENTS, OF_XEN};
use crate::backend::lab::error::LabError;
use crate::backend::lab::{first_domain, kernel, xen_image};

/// The knob whose value may be a program of this machine.
pub const SCX: &str = "scx";
/// The patience, in time that QEMU got of a CPU, for booting and becoming quiet: a multiple of the plan's
/// `grace`, for each four CPUs.
pub const PATIENCE_TO_BOOT: u32 = 6;
/// A second of virtual time on one busy CPU takes about two of the host's, and more on a slow host.
const PATIENCE_PER_SECOND: u32 = 20;
/// Start offsets differ by up to this: several ticks of any kernel.
const MAX_OFFSET_NS: u64 = 20_000_000;

/// A program that a worker set of a cell runs.
pub struct SetProgram {
    /// The position of the set.
    pub set: usize,
    /// The parameter whose first word it is.
    pub param: &'static str,
    pub path: PathBuf,
}

pub fn programs(cell: &Cell) -> Result<Vec<SetProgram>, WorkloadError> {
    let mut programs = Vec::new();
    for (position, set) in cell.work.sets.iter().enumerate() {
        let Some(workload) = workload::find(&set.workload) else { continue };
        let own = workload.programs(&set.params)?.into_iter();
        programs.extend(own.map(|(param, path)| SetProgram { set: position, param, path }));
    }
    Ok(programs)
}

/// The programs of a cell, and the other files that they need.
pub fn user_files(cell: &Cell) -> Result<Vec<PathBuf>, WorkloadError> {
    let programs = programs(cell)?.into_iter().map(|program| program.path);
    let lists = cell.work.sets.iter().filter_map(|set| set.params.get("files")?.as_list());
    let paths = lists.flatten().filter_map(|file| file.as_text());
    let paths =
        paths.map(|path| command::matching(path).into_iter().next().unwrap_or_else(|| path.into()));
    Ok(programs.chain(paths).collect())
}

/// The spec for the guest, without the variant's name and the cell's position: cells that differ only in
/// these are equal.
pub fn guest_spec(spec: &RunSpec, lab: &Lab) -> Result<GuestSpec, WorkloadError> {
    let mut knobs = spec.cell.variant.knobs.clone();
    let of_machine =
        |knob: &str| [KERNEL, KERNEL_ARGUMENTS].iter().chain(&OF_XEN).any(|one| *one == knob);
    knobs.retain(|knob, _| !of_machine(knob));
    if let Some(scheduler) = scheduler(&spec.cell)
        && let Some(path) = scheduler.path().map(in_guest)
    {
        knobs.insert(SCX.to_string(), Value::Text(scheduler.moved(path).to_string()));
    }
    let variant = Variant { name: "lab".to_string(), knobs };
    // Worker sets keep their names: results have them.
    let mut sets = spec.cell.work.sets.clone();
    for SetProgram { set, param, path } in programs(&spec.cell)? {
        // A guest has no PATH.
        if let Some(Value::List(words)) = sets[set].params.get_mut(param)
            && let Some(first) = words.first_mut()
        {
            *first = Value::Text(path.display().to_string());
        }
    }
    let mut turns = spec.turns.clone();
    for variant in turns.iter_mut().flat_map(|turns| &mut turns.variants) {
        variant.name = "lab".to_string();
        variant.knobs.retain(|knob, _| !of_machine(knob));
    }
    let Work { cgroups, offline, .. } = spec.cell.work.clone();
    let work = Work { name: "lab".to_string(), cgroups, offline, sets, ..Default::default() };
    let cell = Cell { index: 0, variant, work, placement: spec.cell.placement.clone() };
    Ok(GuestSpec {
        wire: GUEST_WIRE,
        offset_ns: spec.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MAX_OFFSET_NS,
        run: RunSpec { cell, model: lab.model.run_model(lab), turns, ..spec.clone() },
    })
}

/// The spec of a cell's guests without seed and offset.
pub fn any_seed(spec: &GuestSpec) -> Result<Vec<u8>, LabError> {
    let run = RunSpec { seed: 0, ..spec.run.clone() };
    Ok(serde_json::to_vec(&GuestSpec { offset_ns: 0, run, ..spec.clone() })?)
}

/// The sched_ext scheduler that a cell asks for.
pub fn scheduler(cell: &Cell) -> Option<Scheduler> {
    Scheduler::parse(cell.variant.knobs.get(SCX)?.as_text()?)
}

/// The path in a guest of a program of this machine.
pub fn in_guest(path: &Path) -> PathBuf {
    Path::new("/scx").join(path.file_name().unwrap_or_default())
}

/// The value of a knob of the cell's variant that is a text.
pub fn text_of<'a>(cell: &'a Cell, knob: &str) -> Option<&'a str> {
    cell.variant.knobs.get(knob).and_then(Value::as_text)
}

fn is_of_xen(knob: &str) -> bool {
    OF_XEN.contains(&knob) || knob.starts_with("xen-")
}

/// Checks that this kernel can give a cell what it wants from Xen.
pub fn check_xen(cell: &Cell, kernel: &str, has_hypervisor: bool) -> Result<(), LabError> {
    if has_hypervisor {
        xen_image::check(cell, kernel)?;
    } else if let Some(knob) = cell.variant.knobs.keys().find(|knob| is_of_xen(knob)) {
        let [knob, kernel] = [knob, kernel].map(str::to_string);
        return Err(LabError::NoHypervisor { knob, kernel });
    }
    let guests = text_of(cell, GUEST_KERNEL).map(kernel::find).transpose()?;
    guests.map_or(Ok(()), |kernel| first_domain::check_guest(&kernel))
}

pub fn patience(spec: &RunSpec, cpus: u32) -> Duration {
    let section = Duration::from_nanos(spec.warmup_ns.saturating_add(spec.duration_ns));
    grace(spec) * PATIENCE_TO_BOOT * cpus.div_ceil(8) + section * PATIENCE_PER_SECOND * cpus
}

/// The plan's `grace`: the part of a run's limit beyond its section.
pub fn grace(spec: &RunSpec) -> Duration {
    let section_ns = spec.warmup_ns.saturating_add(spec.duration_ns);
    Duration::from_nanos(spec.limit_ns.saturating_sub(section_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::lab::asked::XEN;
    use crate::backend::lab::tests::spec;

    fn text(change: impl FnOnce(&mut RunSpec)) -> String {
        let mut spec = spec("v", 7);
        change(&mut spec);
        serde_json::to_string(&guest_spec(&spec, &Lab::default()).unwrap()).unwrap()
    }

    fn knob(name: &'static str) -> impl FnOnce(&mut RunSpec) {
        move |spec| {
            let knobs = &mut spec.cell.variant.knobs;
            knobs.insert(name.to_string(), Value::Text("x".to_string()));
        }
    }

    #[test]
    fn knobs_of_xen_are_refused_on_a_kernel_without_a_hypervisor() {
        for name in [XEN, GUEST_KERNEL, "xen-scheduler", "xen-timeslice", "xen-weight", "nice"] {
            let mut spec = spec("v", 7);
            knob(name)(&mut spec);
            match check_xen(&spec.cell, "debian:6.12", false) {
                Ok(()) => assert_eq!(name, "nice"),
                Err(LabError::NoHypervisor { knob, .. }) => assert_eq!(knob, name),
                Err(other) => panic!("{name}: {other}"),
            }
        }
    }

    #[test]
    fn a_guests_spec_has_only_what_can_change_its_run() {
        let plain = text(|_| ());
        assert_eq!(text(|spec| spec.cell.variant.name = "other".to_string()), plain);
        assert_eq!(text(|spec| spec.cell.index = 9), plain);
        assert_eq!(text(knob(KERNEL)), plain, "the machine has it");
        assert_eq!(text(knob(KERNEL_ARGUMENTS)), plain, "the machine has them");
        let others = [
            text(|spec| spec.seed = 8),
            text(|spec| spec.duration_ns += 1),
            text(|spec| spec.window_ns += 1),
            text(|spec| spec.probes.push("sched".to_string())),
            text(knob("nice")),
        ];
        others.iter().for_each(|other| assert_ne!(*other, plain));
    }

    #[test]
    fn seeds_start_at_different_times() {
        let offset = |seed| guest_spec(&spec("v", seed), &Lab::default()).unwrap().offset_ns;
        let offsets: std::collections::BTreeSet<u64> = (0..16).map(offset).collect();
        assert!(offsets.len() == 16 && offsets.iter().all(|offset| *offset < MAX_OFFSET_NS));
        assert!(offsets.last().unwrap() - offsets.first().unwrap() > 4_000_000, "{offsets:?}");
    }

    #[test]
    fn patience_comes_from_the_plans_grace_and_from_the_work() {
        let seconds = |cpus| patience(&spec("v", 7), cpus).as_secs();
        assert_eq!(grace(&spec("v", 7)), Duration::from_secs(30));
        assert_eq!((seconds(1), seconds(8), seconds(16)), (240, 660, 1320));
    }
}
