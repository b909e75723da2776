//! Where guests are made: the emulator, the root archives, the folder of their files, and the
//! answers that are there already.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::{
    Cell, GUEST_WIRE, GuestBoot, GuestFacts, GuestMessage, GuestSpec, GuestTime, Lab, Outcome,
    RunSpec, Value, Variant, Work,
};
use crate::sys;
use crate::variant::scx::Scheduler;

use super::checkup::Quiet;
use super::emulator::{self, Emulator};
use super::files::{Folder, GuestFiles, PROOF, beside};
use super::guest::{self, Said, Start, Unanswered};
use super::initrd::{self, Packed};
use super::kernel::{self, Kernel, KernelError};
use super::kvm;
use super::lockstep;
use super::machine::{self, Files, From, Time};
use super::results::{Results, digest};
use super::{Asked, KERNEL, KERNEL_ARGUMENTS, misfit};
use crate::backend::{Ask, Mode};

/// Copies of a machine.
const FIRST: u8 = 1;
const SECOND: u8 = 2;
/// The knob whose value may be a program of this machine.
const SCX: &str = "scx";
/// A plan's `grace` where there is no plan.
const USUAL_GRACE: Duration = Duration::from_secs(30);
/// By the host's clock, for booting and being quiet: so many times the plan's `grace`, for each
/// part of a machine.
const PATIENCE_TO_BOOT: u32 = 6;
/// Of these, until the first process is at work, which takes half of the time.
const PATIENCE_TO_START: u32 = 3;
/// A second of virtual time on one busy CPU takes about two of the host's; on a host that is
/// loaded many times over it takes longer.
const PATIENCE_PER_SECOND: u32 = 20;
/// Start offsets differ by up to this: several ticks of any kernel.
const MAX_OFFSET_NS: u64 = 20_000_000;

pub struct GuestManager {
    lab: Lab,
    mode: Mode,
    time: Time,
    emulator: Emulator,
    folder: Folder,
    results: Results,
    /// This program as guests have it, and its digest.
    program: Vec<Packed>,
    program_digest: String,
    /// Root archives by their digests.
    roots: Mutex<HashMap<String, Arc<Root>>>,
    /// Names of kernels that are there: looking one up reads all of it.
    found: Mutex<HashSet<String>>,
    /// By the names under which plans know them.
    kernels: Mutex<HashMap<String, Arc<Bootable>>>,
    /// By machine, and the number of the copy: two must be alike, which --verify holds them to.
    snapshots: Mutex<HashMap<(String, u8), Place>>,
    /// The library that keeps QEMU in step.
    lockstep: File,
    /// Where consoles of guests that failed are kept.
    failed: PathBuf,
    guests: AtomicU64,
}

/// A kernel as it was when it was first asked for.
pub struct Bootable {
    kernel: Kernel,
    /// The form of it that is booted, among the workshop's files: a kernel of the user's own may be
    /// built anew at any time.
    image: PathBuf,
    /// Of that form's bytes.
    digest: String,
}

/// Where a snapshot will be, or is, or why there is none.
type Place = Arc<Mutex<Option<Result<Arc<Snapshot>, String>>>>;

struct Root {
    path: PathBuf,
    digest: String,
}

/// What came of a question.
pub enum Answer {
    Said { said: Said, asked: Asked },
    Failed(String),
    Cancelled,
}

impl GuestManager {
    pub fn open(ask: &Ask) -> Result<GuestManager, String> {
        let emulator = Emulator::find()?;
        let cache = sys::cache_dir()?;
        let results = Results::open(&cache)
            .map_err(|error| format!("{} cannot be written to: {error}", cache.display()))?;
        let program = initrd::program()?;
        let parts: Vec<&[u8]> = program.iter().map(|file| file.bytes.as_slice()).collect();
        let lab = ask.state.join("lab");
        let folder = Folder::make(&lab)?;
        let time = match ask.mode.realtime {
            true => Time::Real { kvm: kvm::works(&emulator.program, &folder.path) },
            false => Time::Virtual,
        };
        let library = folder.path.join("lockstep.so");
        let lockstep =
            fs::write(&library, lockstep::LIBRARY)
                .and_then(|()| File::open(&library))
                .map_err(|error| format!("{} cannot be written: {error}", library.display()))?;
        Ok(GuestManager {
            lab: ask.lab.clone(),
            mode: ask.mode,
            time,
            emulator,
            folder,
            results,
            program_digest: digest(&parts),
            program,
            roots: Mutex::default(),
            found: Mutex::default(),
            kernels: Mutex::default(),
            snapshots: Mutex::default(),
            lockstep,
            failed: lab.join("failed"),
            guests: AtomicU64::new(0),
        })
    }

    pub fn time(&self) -> Time {
        self.time
    }

    pub fn emulator(&self) -> &str {
        &self.emulator.version
    }

    /// What is missing on this side of a cell's machine. What its kernel lacks, the guest says.
    pub fn check(&self, cell: &Cell) -> Result<(), String> {
        let name = self.lab.kernel_of(&cell.variant);
        let mut found = lock(&self.found);
        if !found.contains(name) {
            kernel::find(name).map_err(told)?;
            found.insert(name.to_string());
        }
        match scheduler(cell) {
            Some(Scheduler::Program { path, .. }) if !path.is_file() => Err(format!(
                "the scheduler's program {} is not there; hint: `scx` takes fifo, vtime, bad or a path",
                path.display()
            )),
            _ => Ok(()),
        }
    }

    /// The kernel that a cell is to run on.
    fn kernel_of(&self, cell: &Cell) -> Result<Arc<Bootable>, String> {
        let name = self.lab.kernel_of(&cell.variant);
        let mut kernels = lock(&self.kernels);
        if let Some(kernel) = kernels.get(name) {
            return Ok(Arc::clone(kernel));
        }
        let found = kernel::find(name).and_then(|kernel| kernel.boot().map(|boot| (kernel, boot)));
        let (kernel, boot) = found.map_err(told)?;
        let bytes = initrd::read(&boot.path)?;
        let image = self.folder.path.join(format!("kernel-{}", kernels.len()));
        fs::write(&image, &bytes)
            .map_err(|error| format!("{} cannot be written: {error}", image.display()))?;
        let digest = digest(&[boot.digest.as_bytes(), &bytes]);
        let bootable = Arc::new(Bootable { kernel, image, digest });
        kernels.insert(name.to_string(), Arc::clone(&bootable));
        Ok(bootable)
    }

    /// Asks a guest, or finds what it said.
    pub fn answer(&self, spec: &RunSpec, cancel: &AtomicBool) -> Answer {
        match self.ask(spec, cancel) {
            Ok(answer) => answer,
            Err(Unanswered::Failed(why)) => Answer::Failed(why),
            Err(Unanswered::Cancelled) => Answer::Cancelled,
        }
    }

    fn ask(&self, spec: &RunSpec, cancel: &AtomicBool) -> Result<Answer, Unanswered> {
        let order = self.order(&spec.cell).map_err(Unanswered::Failed)?;
        let text = serde_json::to_vec(&guest_spec(spec))
            .map_err(|error| Unanswered::Failed(error.to_string()))?;
        let key = order.key(&text);
        if let Some(found) = self.found(&key) {
            return Ok(Answer::Said { said: found, asked: order.asked(GuestTime::Exact) });
        }
        let (said, time) = self.guest(&order, &text, spec, cancel, FIRST)?;
        if self.mode.verify {
            let (again, _) = self.guest(&order, &text, spec, cancel, SECOND)?;
            let difference = guest::difference(&said, &again);
            let wrong = |difference| Unanswered::Failed(format!("not exact: {difference}"));
            difference.map_or(Ok(()), |difference| Err(wrong(difference)))?;
        }
        let asked = order.asked(time);
        self.keep(&key, &said, &asked).map_err(Unanswered::Failed)?;
        Ok(Answer::Said { said, asked })
    }

    /// Only what will be the same again is kept.
    fn keep(&self, key: &str, said: &Said, asked: &Asked) -> Result<(), String> {
        let is_done = matches!(said.outcome, Outcome::Done { .. });
        // Real time is not exact either.
        if !is_done || asked.time != GuestTime::Exact {
            return Ok(());
        }
        let Some(facts) = &said.facts else { return Ok(()) };
        // As a guest that was booted for it would have said it.
        let mut words = serde_json::to_vec(&GuestMessage::Ready(GuestFacts::clone(facts)))
            .map_err(|error| error.to_string())?;
        words.push(b'\n');
        words.extend(&said.bytes);
        self.results.put(key, &words).map_err(|error| {
            let hint = "make room, or set XDG_CACHE_HOME to a folder with some";
            format!("the result cannot be kept in the cache: {error}; hint: {hint}")
        })
    }

    fn found(&self, key: &str) -> Option<Said> {
        if self.mode.again || self.mode.verify || self.time != Time::Virtual {
            return None;
        }
        guest::understand(self.results.get(key)?).ok()
    }

    /// The root archive for a kernel and a scheduler's program, made when first asked for.
    fn root(&self, kernel: &Kernel, cell: &Cell) -> Result<Arc<Root>, String> {
        let mut more = Vec::new();
        if let Some(config) = &kernel.config {
            let name = format!("/boot/config-{}", kernel.release).into();
            more.push(Packed { name, bytes: initrd::read(config)? });
        }
        if let Some(Scheduler::Program { path, .. }) = scheduler(cell) {
            let files = initrd::program_of_the_user(&path, in_guest(&path))?;
            let is_new = |file: &Packed| self.program.iter().all(|own| own.name != file.name);
            more.extend(files.into_iter().filter(is_new));
        }
        let mut parts = vec![self.program_digest.as_bytes()];
        parts.extend(more.iter().map(|file| file.bytes.as_slice()));
        parts.extend(more.iter().map(|file| file.name.as_os_str().as_encoded_bytes()));
        let digest = digest(&parts);
        let mut roots = lock(&self.roots);
        if let Some(root) = roots.get(&digest) {
            return Ok(Arc::clone(root));
        }
        let path = self.folder.path.join(format!("root-{}.cpio", roots.len()));
        let files: Vec<&Packed> = self.program.iter().chain(&more).collect();
        initrd::write(&path, &files)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        let root = Arc::new(Root { path, digest: digest.clone() });
        roots.insert(digest, Arc::clone(&root));
        Ok(root)
    }

    /// One guest: a copy of the machine that was booted and stopped, or in real time a machine
    /// of its own. Also says whether its time was exact from the boot on.
    fn guest(
        &self,
        order: &Order,
        text: &[u8],
        spec: &RunSpec,
        cancel: &AtomicBool,
        copy: u8,
    ) -> Result<(Said, GuestTime), Unanswered> {
        let files = self.files(&[("spec", text)]).map_err(Unanswered::Failed)?;
        let patience = patience(spec, self.lab.cpus);
        if let Time::Real { .. } = self.time {
            let boot = self.boot_files().map_err(Unanswered::Failed)?;
            let from = order.boot(&boot);
            let start = self.start(from, Some(&files.path("spec")), &files, patience);
            let (said, _) = guest::run(&start, cancel)?;
            if let Some(facts) = &said.facts {
                self.fits(facts)?;
            }
            return Ok((said, GuestTime::Real));
        }
        let snapshot = self.snapshot(order, grace(spec), cancel, copy)?;
        let state = beside(&snapshot.state);
        let from = From::State(&state);
        let start = self.start(from, Some(&files.path("spec")), &files, patience);
        let (mut said, pid) = guest::run(&start, cancel)?;
        said.facts = Some(Box::new(snapshot.quiet.facts.clone()));
        let time = match (&snapshot.quiet.time, files.in_step(pid)) {
            (GuestTime::Exact, in_step) => in_step,
            (not, _) => not.clone(),
        };
        Ok((said, time))
    }

    /// The machine of a cell, booted, quiet and stopped: what it said, and whether it was exact.
    pub fn boot_only(&self, cell: &Cell, cancel: &AtomicBool) -> Result<Quiet, Unanswered> {
        let order = self.order(cell).map_err(Unanswered::Failed)?;
        let files = self.boot_files().map_err(Unanswered::Failed)?;
        Ok(self.make_snapshot(&order, files, USUAL_GRACE, cancel)?.quiet)
    }

    fn files(&self, named: &[(&str, &[u8])]) -> Result<GuestFiles, String> {
        GuestFiles::make(&self.folder.path, self.guests.fetch_add(1, Relaxed), named)
    }

    fn boot_files(&self) -> Result<GuestFiles, String> {
        let boot = GuestBoot {
            wire: GUEST_WIRE,
            instruction_fs: self.lab.instruction_fs(),
            is_virtual: self.time == Time::Virtual,
        };
        let text = serde_json::to_vec(&boot).map_err(|error| error.to_string())?;
        self.files(&[("boot", &text)])
    }

    /// The machine of an order, booted, quiet and stopped: made when it is first asked for.
    fn snapshot(
        &self,
        order: &Order,
        grace: Duration,
        cancel: &AtomicBool,
        copy: u8,
    ) -> Result<Arc<Snapshot>, Unanswered> {
        let place = {
            let mut snapshots = lock(&self.snapshots);
            Arc::clone(snapshots.entry((order.machine.clone(), copy)).or_default())
        };
        // Others that want the same wait here.
        let mut place = lock(&place);
        if let Some(made) = place.as_ref() {
            return made.clone().map_err(Unanswered::Failed);
        }
        let files = self.boot_files().map_err(Unanswered::Failed)?;
        match self.make_snapshot(order, files, grace, cancel) {
            Ok(snapshot) => {
                let snapshot = Arc::new(snapshot);
                *place = Some(Ok(Arc::clone(&snapshot)));
                Ok(snapshot)
            }
            Err(Unanswered::Failed(why)) => {
                let complaint = emulator::too_old(&self.emulator.version);
                let why = why + &complaint.map_or(String::new(), |old| format!("; {old}"));
                *place = Some(Err(why.clone()));
                Err(Unanswered::Failed(why))
            }
            Err(cancelled) => Err(cancelled),
        }
    }

    fn make_snapshot(
        &self,
        order: &Order,
        files: GuestFiles,
        grace: Duration,
        cancel: &AtomicBool,
    ) -> Result<Snapshot, Unanswered> {
        let parts = self.lab.cpus.div_ceil(4);
        let mut start =
            self.start(order.boot(&files), None, &files, grace * PATIENCE_TO_BOOT * parts);
        start.patience_to_start = Some(grace * PATIENCE_TO_START * parts);
        let state = beside(&files.path("state"));
        let booted = guest::stop_and_save(&start, &state, cancel)?;
        self.fits(&booted.facts)?;
        let time = files.in_step(booted.pid);
        let quiet = Quiet { facts: booted.facts, time, started_after: booted.started_after };
        Ok(Snapshot { state: files.path("state"), quiet, _files: files })
    }

    /// A guest on another machine than was asked for would measure that.
    fn fits(&self, facts: &GuestFacts) -> Result<(), Unanswered> {
        match misfit(&self.lab, &facts.topology) {
            Some(why) => Err(Unanswered::Failed(why)),
            None => Ok(()),
        }
    }

    fn start(
        &self,
        from: From,
        spec: Option<&Path>,
        files: &GuestFiles,
        patience: Duration,
    ) -> Start<'_> {
        let (results, console) = (files.path("results"), files.path("console"));
        let spec = spec.map(beside);
        let named = Files {
            from,
            spec: spec.as_deref(),
            results: &beside(&results),
            console: &beside(&console),
        };
        let arguments = machine::arguments(&self.lab, self.time, &named);
        let environment = match self.time {
            Time::Virtual => vec![
                ("LD_PRELOAD", preload(&self.lockstep)),
                (lockstep::PROOF_VARIABLE, files.path(PROOF).into_os_string()),
            ],
            Time::Real { .. } => Vec::new(),
        };
        let (program, failed) = (self.emulator.program.as_path(), self.failed.as_path());
        let folder = files.0.clone();
        Start {
            program,
            arguments,
            environment,
            folder,
            results,
            console,
            failed,
            patience,
            patience_to_start: None,
        }
    }

    /// What a cell's machine is booted from.
    fn order(&self, cell: &Cell) -> Result<Order, String> {
        let kernel = self.kernel_of(cell)?;
        let root = self.root(&kernel.kernel, cell)?;
        let knob = cell.variant.knobs.get(KERNEL_ARGUMENTS).and_then(Value::as_text);
        let arguments = knob.unwrap_or_default().to_string();
        let machine = machine_digest(
            [&kernel.digest, &root.digest, &self.emulator.digest],
            &self.lab,
            &arguments,
        )?;
        Ok(Order { kernel, root, arguments, machine })
    }
}

fn told(error: KernelError) -> String {
    format!("{error}; hint: {}", error.hint())
}

/// The digest of all that the state of a machine depends on; `digests` of its kernel, its root and
/// its emulator.
fn machine_digest(digests: [&str; 3], lab: &Lab, arguments: &str) -> Result<String, String> {
    // The kernel is one of the digests, and seeds are of the runs.
    let lab = Lab { kernel: String::new(), seeds: 0, ..lab.clone() };
    let lab = serde_json::to_vec(&lab).map_err(|error| error.to_string())?;
    let [kernel, root, emulator] = digests.map(str::as_bytes);
    Ok(digest(&[kernel, root, emulator, lockstep::LIBRARY, &lab, arguments.as_bytes()]))
}

/// The spec as the guest has it: what a variant is called or where its cell stands must not
/// tell two cells apart that are the same.
fn guest_spec(spec: &RunSpec) -> GuestSpec {
    let mut knobs = spec.cell.variant.knobs.clone();
    knobs.retain(|knob, _| ![KERNEL, KERNEL_ARGUMENTS].contains(&knob.as_str()));
    if let Some(Scheduler::Program { path, words }) = scheduler(&spec.cell) {
        let program = in_guest(&path).display().to_string();
        let text = [&[program], words.as_slice()].concat().join(" ");
        knobs.insert(SCX.to_string(), Value::Text(text));
    }
    let variant = Variant { name: "lab".to_string(), knobs };
    // Results are by worker sets, which keep their names.
    let work =
        Work { name: "lab".to_string(), axes: Vec::new(), sets: spec.cell.work.sets.clone() };
    let cell = Cell { index: 0, variant, work, placement: spec.cell.placement.clone() };
    GuestSpec {
        wire: GUEST_WIRE,
        offset_ns: spec.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MAX_OFFSET_NS,
        run: RunSpec { cell, ..spec.clone() },
    }
}

/// The sched_ext scheduler that a cell asks for.
fn scheduler(cell: &Cell) -> Option<Scheduler> {
    Scheduler::parse(cell.variant.knobs.get(SCX)?.as_text()?)
}

/// Where a program of this machine lies in a guest.
fn in_guest(path: &Path) -> PathBuf {
    Path::new("/scx").join(path.file_name().unwrap_or_default())
}

/// A machine as it is to be booted.
struct Order {
    kernel: Arc<Bootable>,
    root: Arc<Root>,
    arguments: String,
    /// The digest of all that its state depends on.
    machine: String,
}

impl Order {
    fn key(&self, spec: &[u8]) -> String {
        digest(&[self.machine.as_bytes(), spec])
    }

    fn asked(&self, time: GuestTime) -> Asked {
        let kernel = &self.kernel.kernel;
        Asked {
            time,
            kernel_digest: kernel.digest.clone(),
            package_version: kernel.package.as_ref().map(|package| package.version.clone()),
        }
    }

    fn boot<'a>(&'a self, files: &'a GuestFiles) -> From<'a> {
        From::Kernel {
            image: &self.kernel.image,
            initrd: &self.root.path,
            boot: beside(&files.path("boot")),
            more: &self.arguments,
        }
    }
}

/// A machine that was booted and stopped when it was quiet.
struct Snapshot {
    state: PathBuf,
    quiet: Quiet,
    /// Removed with it.
    _files: GuestFiles,
}

/// What a second thread that panicked left is whole: nothing is changed in steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn patience(spec: &RunSpec, cpus: u32) -> Duration {
    let section = Duration::from_nanos(spec.warmup_ns.saturating_add(spec.duration_ns));
    grace(spec) * PATIENCE_TO_BOOT * cpus.div_ceil(8) + section * PATIENCE_PER_SECOND * cpus
}

/// A name of the open library without what `LD_PRELOAD` takes for the end of one: blanks and
/// colons, which the path of a folder may have.
fn preload(library: &File) -> OsString {
    format!("/proc/{}/fd/{}", std::process::id(), library.as_raw_fd()).into()
}

/// The plan's, which is what a run's limit leaves beyond its section.
fn grace(spec: &RunSpec) -> Duration {
    let section_ns = spec.warmup_ns.saturating_add(spec.duration_ns);
    Duration::from_nanos(spec.limit_ns.saturating_sub(section_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::lab::tests::spec;

    fn text(change: impl FnOnce(&mut RunSpec)) -> String {
        let mut spec = spec("v", 7);
        change(&mut spec);
        serde_json::to_string(&guest_spec(&spec)).unwrap()
    }

    fn knob(name: &'static str) -> impl FnOnce(&mut RunSpec) {
        move |spec| {
            let knobs = &mut spec.cell.variant.knobs;
            knobs.insert(name.to_string(), Value::Text("x".to_string()));
        }
    }

    #[test]
    fn a_guest_is_told_what_can_change_its_run_and_nothing_else() {
        let plain = text(|_| ());
        assert_eq!(text(|spec| spec.cell.variant.name = "other".to_string()), plain);
        assert_eq!(text(|spec| spec.cell.index = 9), plain);
        assert_eq!(text(knob(KERNEL)), plain, "the machine has it");
        assert_eq!(text(knob(KERNEL_ARGUMENTS)), plain, "as above");
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
        let offset = |seed| guest_spec(&spec("v", seed)).offset_ns;
        let offsets: std::collections::BTreeSet<u64> = (0..16).map(offset).collect();
        assert!(offsets.len() == 16 && offsets.iter().all(|offset| *offset < MAX_OFFSET_NS));
        assert!(offsets.last().unwrap() - offsets.first().unwrap() > 4_000_000, "{offsets:?}");
    }

    #[test]
    fn a_machine_is_known_by_all_that_its_state_depends_on() {
        let (lab, digests) = (Lab::default(), ["kernel", "root", "emulator"]);
        let known = machine_digest(digests, &lab, "nohz=off").unwrap();
        let alike = Lab { kernel: "debian:6.1".to_string(), seeds: 3, ..lab.clone() };
        assert_eq!(machine_digest(digests, &alike, "nohz=off").unwrap(), known);
        let cpus = Lab { cpus: 2, ..lab.clone() };
        let others = [
            machine_digest(["other", "root", "emulator"], &lab, "nohz=off"),
            machine_digest(["kernel", "other", "emulator"], &lab, "nohz=off"),
            machine_digest(["kernel", "root", "other"], &lab, "nohz=off"),
            machine_digest(digests, &cpus, "nohz=off"),
            machine_digest(digests, &lab, "nohz=on"),
        ];
        others.into_iter().for_each(|other| assert_ne!(other.unwrap(), known));
    }

    #[test]
    fn patience_comes_from_the_plans_grace_and_from_the_work() {
        let seconds = |cpus| patience(&spec("v", 7), cpus).as_secs();
        assert_eq!(grace(&spec("v", 7)), Duration::from_secs(30));
        assert_eq!((seconds(1), seconds(8), seconds(16)), (240, 660, 1320));
    }
}
