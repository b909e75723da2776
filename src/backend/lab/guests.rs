//! Makes guests: holds the emulator, the root archives, the folder of their files, and the cache
//! of results.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::exec;
use crate::model::{
    Cell, CpuClocks, GUEST_REHEARSAL_FILE, GUEST_SPEC_FILE, GUEST_WIRE, GuestBoot, GuestFacts,
    GuestMessage, GuestSize, GuestSpec, GuestTime, Lab, LabModel, Outcome, RunSpec, Value, Variant,
    Work,
};
use crate::sys::{self, Host, command, environment, scratch};
use crate::variant::{self, scx::Scheduler};
use crate::workload::{self, WorkloadError};

use super::answers::{self, Answers, SharedAnswer};
use super::asked::{
    Asked, GUEST_KERNEL, KERNEL, KERNEL_ARGUMENTS, OF_XEN, XEN, XEN_ARGUMENTS, mismatch,
};
use super::emulator::Emulator;
use super::error::{GuestError, GuestFault, LabError};
use super::files::{Folder, GuestFiles, PROOF, above, relative};
use super::first_domain;
use super::guest::{self, GuestOutput, Start, Starved};
use super::initrd::{self, Packed};
use super::kernel::{self, Kernel, KernelError};
use super::machine::{self, Files, From, Time};
use super::preload::{self, NoClocks};
use super::rehearsal::rehearsal;
use super::results::{self, Results, digest};
use super::saved::{MachineSummary, Quiet, SavedMachines};
use super::shared::SharedCache;
use super::template::Template;
use super::trial;
use super::xen_image;
use crate::backend::{BackendConfig, CacheReport, GuestMachine, Mode};

/// Numbers of the copies of a machine.
const FIRST: u8 = 1;
const SECOND: u8 = 2;
/// The knob whose value may be a program of this machine.
const SCX: &str = "scx";
/// The `grace` without a plan.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// The patience, in time that QEMU got of a CPU, for booting and becoming quiet: a multiple of the plan's
/// `grace`, for each four CPUs.
const PATIENCE_TO_BOOT: u32 = 6;
/// The part of it until the first process runs, which takes half of the time.
const PATIENCE_TO_START: u32 = 3;
/// A second of virtual time on one busy CPU takes about two of the host's, and more on a slow host.
const PATIENCE_PER_SECOND: u32 = 20;
/// The console until the kernel has its own.
const EARLY_CONSOLE: &str = "earlyprintk=ttyS0,115200";
/// Start offsets differ by up to this: several ticks of any kernel.
const MAX_OFFSET_NS: u64 = 20_000_000;
/// Files of a copy.
const SPEC: &str = "spec";
const REHEARSAL: &str = "rehearsal";
/// Machines that make copies take this part of the host's memory at most.
const PART_OF_MEMORY: u64 = 4;

pub struct GuestManager {
    /// Machines that make copies of themselves, by machine and rehearsal; `None`: it cannot.
    templates: Mutex<HashMap<String, Option<Arc<Template>>>>,
    lab: Lab,
    mode: Mode,
    time: Time,
    emulator: Emulator,
    folder: Folder,
    answers: Answers,
    /// This program as guests have it, and its digest.
    program: Vec<Packed>,
    program_digest: String,
    /// Root archives by their digests.
    roots: Mutex<HashMap<String, Arc<Root>>>,
    /// Kernels that exist by name: looking one up reads all of it.
    found: Mutex<HashMap<String, Found>>,
    /// Why guests could not run a cell, by machine and cell; it does not depend on the seed.
    skipped: Mutex<HashMap<String, String>>,
    /// Kernels by their names in plans, each with the path of the user's own hypervisor.
    kernels: Mutex<HashMap<[String; 2], Arc<Bootable>>>,
    /// Machines by the parts of a cell that they depend on.
    machines: Mutex<HashMap<String, GuestMachine>>,
    /// Snapshots by machine and number of the copy: `--verify` compares two.
    snapshots: Mutex<HashMap<(String, u8), SnapshotSlot>>,
    /// Machines of earlier processes; `None` if no run will be made.
    saved: Option<SavedMachines>,
    /// Why a booted machine could not be kept, until it is taken.
    not_kept: Mutex<Option<String>>,
    /// The library that is loaded into QEMU.
    library: File,
    /// Why virtual CPUs share one clock, if they should have their own.
    no_clocks: Option<NoClocks>,
    /// The folder for consoles of guests that failed.
    failed: PathBuf,
    /// Declared after `folder`, which lies in it, so that it is dropped later.
    _home: Home,
    guests: AtomicU64,
    /// The small share of a CPU that a guest recently got.
    starved: Starved,
    /// KVM worked in the trial and gave up in a guest: the others are emulated.
    kvm_gave_up: AtomicBool,
}

/// A kernel, copied at its first use.
pub struct Bootable {
    kernel: Kernel,
    /// A copy of the file that is booted: a user may build the kernel again at any time.
    image: PathBuf,
    /// A copy of the hypervisor below it.
    hypervisor: Option<PathBuf>,
    /// The digest of all files that are booted.
    digest: String,
}

/// Facts about a kernel that are known before it boots.
#[derive(Clone)]
struct Found {
    config: Option<Arc<str>>,
    has_hypervisor: bool,
}

/// A snapshot, once it was made, or why there is none.
type SnapshotSlot = Arc<Mutex<Option<Result<Arc<Snapshot>, GuestError>>>>;

struct Root {
    path: PathBuf,
    digest: String,
}

/// The place of files: the user's folder, or a temporary one if no run will be made.
enum Home {
    State(PathBuf),
    Scratch(scratch::Folder),
}

impl Home {
    fn new(state: Option<&Path>) -> Result<Home, LabError> {
        match state {
            Some(state) => Ok(Home::State(state.to_path_buf())),
            None => {
                let folder = scratch::Folder::new(None);
                let folder = folder.map_err(LabError::io("write to", &std::env::temp_dir()));
                Ok(Home::Scratch(folder?))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Home::State(path) => path,
            Home::Scratch(folder) => folder.path(),
        }
    }
}

/// The output of a guest, and the machine that it ran on.
pub struct Measured {
    pub output: GuestOutput,
    pub asked: Asked,
}

impl GuestManager {
    pub fn open(config: &BackendConfig) -> Result<GuestManager, LabError> {
        let emulator = Emulator::find()?;
        if !config.mode.realtime {
            emulator.check_age()?;
        }
        let cache = sys::cache_dir().map_err(|error| LabError::NoHome(error.to_string()))?;
        let open = |name: &str| match config.state {
            Some(_) => Results::open(&cache.join(name)).map_err(LabError::io("write to", &cache)),
            None => Ok(Results::read_only(&cache.join(name))),
        };
        let (results, emulators) = (open(results::FOLDER)?, open("emulators")?);
        let program = initrd::own_program()?;
        let home = Home::new(config.state)?;
        let state = home.path().join("lab");
        let folder = Folder::make(&state)?;
        let time = match config.mode.realtime {
            true => Time::Real { kvm: trial::kvm_works(&emulator.program, &folder.path) },
            false => Time::Virtual,
        };
        let path = folder.path.join("preload.so");
        let library = fs::write(&path, preload::LIBRARY)
            .and_then(|()| File::open(&path))
            .map_err(LabError::io("write", &path))?;
        let shared = match (time, config.shared_cache) {
            (Time::Virtual, Some(asked)) => Some(SharedCache::open(asked, home.path())?),
            _ => None,
        };
        let has_clocks = match (time, config.lab.clocks) {
            (Time::Virtual, CpuClocks::Own) => {
                clocks_work(&emulator, &folder, &library, (&emulators, shared.as_ref()))
            }
            _ => Ok(()),
        };
        let lab = match has_clocks {
            Ok(()) => config.lab.clone(),
            Err(_) => config.lab.with_shared_clock(),
        };
        Ok(GuestManager {
            templates: Mutex::default(),
            lab,
            no_clocks: has_clocks.err(),
            mode: config.mode,
            time,
            emulator,
            folder,
            answers: Answers::new(results, shared, answers::differing(home.path())),
            program_digest: initrd::digest_of(&program),
            program,
            roots: Mutex::default(),
            found: Mutex::default(),
            skipped: Mutex::default(),
            kernels: Mutex::default(),
            machines: Mutex::default(),
            snapshots: Mutex::default(),
            saved: config.state.map(|_| SavedMachines::new(&cache)),
            not_kept: Mutex::default(),
            library,
            failed: state.join("failed"),
            _home: home,
            guests: AtomicU64::new(0),
            starved: Starved::default(),
            kvm_gave_up: AtomicBool::new(false),
        })
    }

    pub fn time(&self) -> Time {
        match self.time {
            Time::Real { kvm } => Time::Real { kvm: kvm && !self.kvm_gave_up.load(Relaxed) },
            Time::Virtual => Time::Virtual,
        }
    }

    /// The small share of a CPU that the host recently gave a guest.
    pub fn starved(&self) -> Option<f64> {
        self.starved.take()
    }

    /// Why a booted machine could not be kept for later plans; once.
    pub fn take_not_kept(&self) -> Option<String> {
        lock(&self.not_kept).take()
    }

    pub fn emulator(&self) -> &str {
        &self.emulator.version
    }

    /// The machine of guests; it may be less than what was asked for.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Why virtual CPUs share one clock, if they should have their own.
    pub fn no_clocks(&self) -> Option<&NoClocks> {
        self.no_clocks.as_ref()
    }

    /// Whether at least one of the kernels of these cells exists.
    pub fn check_kernels(&self, cells: &[Cell]) -> Result<(), LabError> {
        let mut seen = BTreeSet::new();
        let names = cells.iter().map(|cell| cell.variant.kernel_in(&self.lab));
        let names = names.filter(|name| seen.insert(*name));
        one_exists(names.map(|name| (name, self.found(name).map(drop))))
    }

    /// The first call reads the whole kernel.
    fn found(&self, name: &str) -> Result<Found, KernelError> {
        let mut known = lock(&self.found);
        if let Some(found) = known.get(name) {
            return Ok(found.clone());
        }
        let kernel = kernel::find(name)?;
        let found = Found {
            config: kernel.config_text().map(Arc::from),
            has_hypervisor: kernel.hypervisor.is_some(),
        };
        known.insert(name.to_string(), found.clone());
        Ok(found)
    }

    /// Checks that this machine has all parts of a cell's guest, and that the kernel's configuration has what
    /// the knobs need. The guest itself reports anything else that its kernel lacks.
    pub fn check(&self, cell: &Cell) -> Result<(), LabError> {
        let kernel = cell.variant.kernel_in(&self.lab);
        let Found { config, has_hypervisor } = self.found(kernel)?;
        let missing = config.map_or(Vec::new(), |config| variant::lacking(cell, &config));
        if !missing.is_empty() {
            return Err(LabError::Lacking { kernel: kernel.to_string(), missing });
        }
        check_xen(cell, kernel, has_hypervisor)?;
        if has_hypervisor || cell.work.has_guests(false) {
            exec::check_guests(cell, has_hypervisor.then_some(&self.lab))?;
        }
        user_files(cell)?.iter().try_for_each(|path| initrd::check_user_file(path))?;
        match scheduler(cell) {
            Some(Scheduler::Program { path, .. }) if !path.is_file() => {
                Err(LabError::NoScheduler { path })
            }
            Some(Scheduler::Program { path, .. }) => initrd::check_user_file(&path),
            _ => Ok(()),
        }
    }

    /// The kernel of a cell, ready to be booted.
    fn kernel_of(&self, cell: &Cell) -> Result<Arc<Bootable>, LabError> {
        let name = cell.variant.kernel_in(&self.lab);
        let own_xen = text_of(cell, XEN);
        let known = [name, own_xen.unwrap_or_default()].map(str::to_string);
        let mut kernels = lock(&self.kernels);
        if let Some(kernel) = kernels.get(&known) {
            return Ok(Arc::clone(kernel));
        }
        let kernel = kernel::find(name)?;
        let boot = kernel.boot()?;
        let (image, bytes) = self.copy("kernel", initrd::read(&boot.path)?)?;
        let mut digest_of_all = digest(&[boot.digest.as_bytes(), &bytes]);
        let mut hypervisor = None;
        if let Some(below) = &kernel.hypervisor {
            let bytes = match own_xen {
                Some(path) => first_domain::hypervisor(Path::new(path))?,
                None => initrd::read(&below.image)?,
            };
            let (copied, bytes) = self.copy("xen", bytes)?;
            let firmware = self.emulator.digest_of_multiboot.as_bytes();
            digest_of_all = digest(&[digest_of_all.as_bytes(), &bytes, firmware]);
            hypervisor = Some(copied);
        }
        let bootable = Arc::new(Bootable { kernel, image, hypervisor, digest: digest_of_all });
        kernels.insert(known, Arc::clone(&bootable));
        Ok(bootable)
    }

    /// A copy of a file, whose name says what is in it: a hypervisor reads the names of its modules.
    fn copy(&self, kind: &str, bytes: Vec<u8>) -> Result<(PathBuf, Vec<u8>), LabError> {
        let to = self.folder.path.join(format!("{kind}-{}", short(&digest(&[&bytes]))));
        // A guest may be reading it.
        if !to.exists() {
            fs::write(&to, &bytes).map_err(LabError::io("write", &to))?;
        }
        Ok((to, bytes))
    }

    /// Describes the machine of a cell's guests. The first call for a machine reads all of its files.
    pub fn guest_machine(&self, cell: &Cell) -> Result<GuestMachine, LabError> {
        let knob = |name| cell.variant.knobs.get(name);
        let knobs = [KERNEL_ARGUMENTS, XEN_ARGUMENTS, SCX].map(knob);
        let what = format!("{:?}", (cell.variant.kernel_in(&self.lab), knobs, user_files(cell)?));
        if let Some(known) = lock(&self.machines).get(&what) {
            return Ok(known.clone());
        }
        let machine = self.machine_config(cell)?;
        let clocks = match &self.no_clocks {
            None => format!("{:?}", self.lab.clocks),
            Some(why) => why.to_string(),
        };
        let parts = [
            ("QEMU", format!("{} ({})", self.emulator.version, short(&self.emulator.digest))),
            (
                "kernel",
                format!("{} ({})", machine.kernel.kernel.release, short(&machine.kernel.digest)),
            ),
            ("programs and libraries", short(&machine.root.digest).to_string()),
            ("clocks", clocks),
        ];
        let parts = parts.map(|(what, which)| (what.to_string(), which)).to_vec();
        let made = GuestMachine { digest: machine.digest, parts };
        lock(&self.machines).insert(what, made.clone());
        Ok(made)
    }

    /// Runs a guest, or finds its output in the cache.
    pub fn measure(&self, spec: &RunSpec, cancel: &AtomicBool) -> Result<Measured, GuestError> {
        let machine = self.machine_config(&spec.cell)?;
        let spec_of_guest = guest_spec(spec, &self.lab).map_err(LabError::Workload)?;
        let text = serde_json::to_vec(&spec_of_guest).map_err(LabError::Encode)?;
        let key = machine.key(&text);
        if let Some(output) = self.cached(&key) {
            let asked = machine.asked(GuestTime::Exact);
            return Ok(Measured { output, asked });
        }
        let cell = machine.key(&any_seed(&spec_of_guest)?);
        if let Some(reason) = lock(&self.skipped).get(&cell).cloned() {
            let asked = machine.asked(GuestTime::Exact);
            return Ok(Measured { output: GuestOutput::skipped(reason), asked });
        }
        let theirs = if self.may_look_up() { self.answers.shared(&key) } else { None };
        let theirs = match theirs {
            Some(SharedAnswer { output, is_to_check: false }) => {
                let asked = machine.asked(GuestTime::Exact);
                return Ok(Measured { output, asked });
            }
            to_check => to_check,
        };
        let (output, time) = self.run_guest(&machine, &text, spec, cancel, FIRST)?;
        if self.mode.verify {
            let (again, _) = self.run_guest(&machine, &text, spec, cancel, SECOND)?;
            if let Some(difference) = guest::difference(&output, &again) {
                return Err(GuestFault::NotExact(difference).into());
            }
        }
        if let Outcome::Skipped { reason } = &output.outcome {
            lock(&self.skipped).insert(cell, reason.clone());
        }
        let asked = machine.asked(time);
        self.keep(&key, &output, &asked, theirs.as_ref())?;
        Ok(Measured { output, asked })
    }

    /// Caches the output if another run would give the same. `theirs` is the answer in the shared cache.
    fn keep(
        &self,
        key: &str,
        output: &GuestOutput,
        asked: &Asked,
        theirs: Option<&SharedAnswer>,
    ) -> Result<(), LabError> {
        // Real time is not exact either.
        if asked.time != GuestTime::Exact {
            return Ok(());
        }
        let (Outcome::Done { .. }, Some(facts)) = (&output.outcome, &output.facts) else {
            self.answers.not_answered(key, output, theirs);
            return Ok(());
        };
        // The output of a copy lacks the facts of its boot, so they are put before it.
        let mut bytes =
            serde_json::to_vec(&GuestMessage::Ready(Box::new(GuestFacts::clone(facts))))?;
        bytes.push(b'\n');
        bytes.extend(&output.bytes);
        self.answers.keep(key, &bytes, theirs).map_err(LabError::Cache)
    }

    fn cached(&self, key: &str) -> Option<GuestOutput> {
        if self.may_look_up() { self.answers.own(key) } else { None }
    }

    fn may_look_up(&self) -> bool {
        !self.mode.again && !self.mode.verify && self.time == Time::Virtual
    }

    pub fn end_shared_cache(&self) -> Option<CacheReport> {
        self.answers.end()
    }

    /// The root archive for a kernel and a scheduler's program, made at its first use.
    fn root(&self, kernel: &Kernel, cell: &Cell) -> Result<Arc<Root>, LabError> {
        let mut more = self.files_for(kernel, cell)?;
        let program = match &kernel.hypervisor {
            Some(_) => first_domain::of_one_library(&self.program, &mut more),
            None => self.program.iter().collect(),
        };
        let mut names: BTreeSet<PathBuf> = program.iter().map(|file| file.name.clone()).collect();
        more.retain(|file| names.insert(file.name.clone()));
        let mut parts = vec![self.program_digest.as_bytes()];
        parts.extend(more.iter().map(|file| file.bytes.as_slice()));
        parts.extend(more.iter().map(|file| file.name.as_os_str().as_encoded_bytes()));
        let digest = digest(&parts);
        let mut roots = lock(&self.roots);
        if let Some(root) = roots.get(&digest) {
            return Ok(Arc::clone(root));
        }
        let path = self.folder.path.join(format!("root-{}.cpio", short(&digest)));
        let files: Vec<&Packed> = program.into_iter().chain(&more).collect();
        initrd::write(&path, &files).map_err(LabError::io("write", &path))?;
        let root = Arc::new(Root { path, digest: digest.clone() });
        roots.insert(digest, Arc::clone(&root));
        Ok(root)
    }

    /// The files of a root in addition to this program.
    fn files_for(&self, kernel: &Kernel, cell: &Cell) -> Result<Vec<Packed>, LabError> {
        let mut more = Vec::new();
        if let Some(config) = &kernel.config {
            let name = format!("/boot/config-{}", kernel.release).into();
            more.push(Packed { name, bytes: initrd::read(config)? });
        }
        if let Some(hypervisor) = &kernel.hypervisor {
            let guests = text_of(cell, GUEST_KERNEL).map(kernel::find).transpose()?;
            more.extend(first_domain::files(
                kernel,
                hypervisor,
                guests.as_ref().unwrap_or(kernel),
            )?);
        }
        if let Some(Scheduler::Program { path, .. }) = scheduler(cell) {
            let files = initrd::user_program(&path, in_guest(&path))?;
            more.extend(files);
        }
        if !programs(cell)?.is_empty() {
            more.extend(initrd::names_of_users());
        }
        for path in user_files(cell)? {
            more.extend(initrd::user_file(&path)?);
        }
        Ok(more)
    }

    /// Runs one guest: a copy of the machine that was booted and stopped, or in real time a new machine. Also
    /// returns whether its time was exact from the boot on.
    fn run_guest(
        &self,
        machine: &MachineConfig,
        text: &[u8],
        spec: &RunSpec,
        cancel: &AtomicBool,
        copy: u8,
    ) -> Result<(GuestOutput, GuestTime), GuestError> {
        if let Time::Real { .. } = self.time {
            return match self.run_real(machine, text, spec, cancel) {
                // A host that is a guest itself may have a KVM that fails after a while.
                Err(error) if error.is_of_kvm() => {
                    self.kvm_gave_up.store(true, Relaxed);
                    self.run_real(machine, text, spec, cancel)
                }
                done => done,
            };
        }
        let patience = patience(spec, self.lab.cpus);
        let snapshot = self.snapshot(machine, grace(spec), cancel, copy)?;
        let rehearsal = match self.can_rehearse(machine) {
            true => {
                Some(serde_json::to_vec(&rehearsal(spec, &self.lab)).map_err(LabError::Encode)?)
            }
            false => None,
        };
        let files = self.copy_files(text, rehearsal.as_deref())?;
        let start = self.start_copy(machine, &snapshot, &files, patience);
        // The second copy is started by itself: it shows that the first one did the same.
        let template = rehearsal
            .filter(|_| copy == FIRST)
            .and_then(|rehearsal| self.template(machine, &snapshot, &rehearsal));
        let copied = template.and_then(|template| template.copy(&files.0, patience, cancel));
        let (mut output, pid) = match copied {
            Some(copied) => guest::run_copy(copied, &start, cancel)?,
            None => guest::run(&start, cancel)?,
        };
        output.facts = Some(Box::new(snapshot.quiet.facts.clone()));
        let time = match (&snapshot.quiet.time, files.in_step(pid)) {
            (GuestTime::Exact, in_step) => in_step,
            (not, _) => not.clone(),
        };
        Ok((output, time))
    }

    /// Whether a machine's copies execute a run without a result first.
    fn can_rehearse(&self, machine: &MachineConfig) -> bool {
        self.lab.clocks == CpuClocks::Own && machine.kernel.hypervisor.is_none()
    }

    fn copy_files(&self, spec: &[u8], rehearsal: Option<&[u8]>) -> Result<GuestFiles, LabError> {
        let rehearsal = rehearsal.map(|text| (REHEARSAL, text));
        self.files(&[Some((SPEC, spec)), rehearsal].into_iter().flatten().collect::<Vec<_>>())
    }

    fn start_copy(
        &self,
        machine: &MachineConfig,
        snapshot: &Snapshot,
        files: &GuestFiles,
        patience: Duration,
    ) -> Start<'_> {
        let state = relative(&snapshot.state);
        let has_hypervisor = machine.kernel.hypervisor.is_some();
        let documents: &[&str] =
            if self.can_rehearse(machine) { &[SPEC, REHEARSAL] } else { &[SPEC] };
        self.start(From::State { state: &state, has_hypervisor }, documents, files, patience)
    }

    /// The machine that has rehearsed this; `None`: it cannot be, or memory does not suffice.
    fn template(
        &self,
        machine: &MachineConfig,
        snapshot: &Snapshot,
        rehearsal: &[u8],
    ) -> Option<Arc<Template>> {
        let mut templates = lock(&self.templates);
        let key = digest(&[machine.digest.as_bytes(), rehearsal]);
        if let Some(known) = templates.get(&key) {
            return known.clone();
        }
        let memory_bytes = environment::memory_bytes(&Host::default()).known()?;
        if (templates.len() as u64 + 1) * self.lab.memory_bytes > memory_bytes / PART_OF_MEMORY {
            return None;
        }
        let start = || {
            // The spec is only a place for that of each copy.
            let files = self.copy_files(b"{}", Some(rehearsal)).ok()?;
            let mut start = self.start_copy(machine, snapshot, &files, Duration::MAX);
            start.environment.push((preload::COPIES_VARIABLE, "1".into()));
            let command = guest::command(&start).ok()?;
            Template::start(command, files).map(Arc::new)
        };
        templates.entry(key).or_insert_with(start).clone()
    }

    /// Runs a guest in a new machine, by the host's clock.
    fn run_real(
        &self,
        machine: &MachineConfig,
        text: &[u8],
        spec: &RunSpec,
        cancel: &AtomicBool,
    ) -> Result<(GuestOutput, GuestTime), GuestError> {
        let files = self.files(&[(SPEC, text)])?;
        let boot = self.boot_files(machine)?;
        let from = machine.boot(&boot);
        let patience = patience(spec, self.lab.cpus);
        let start = self.start(from, &[SPEC], &files, patience);
        let (output, _) = guest::run(&start, cancel)?;
        if let (Some(facts), None) = (&output.facts, &machine.kernel.hypervisor) {
            mismatch(&self.lab, &facts.topology)?;
        }
        Ok((output, GuestTime::Real))
    }

    /// Boots the machine of a cell, and stops it when it is quiet.
    pub fn boot_only(&self, cell: &Cell, cancel: &AtomicBool) -> Result<Quiet, GuestError> {
        let machine = self.machine_config(cell)?;
        let files = self.boot_files(&machine)?;
        Ok(self.make_snapshot(&machine, files, DEFAULT_GRACE, cancel)?.quiet)
    }

    fn files(&self, named: &[(&str, &[u8])]) -> Result<GuestFiles, LabError> {
        GuestFiles::make(&self.folder.path, self.guests.fetch_add(1, Relaxed), named)
    }

    fn boot_files(&self, machine: &MachineConfig) -> Result<GuestFiles, LabError> {
        let boot = GuestBoot {
            guests: machine.guests.clone(),
            is_virtual: self.time == Time::Virtual,
            wire: GUEST_WIRE,
            instruction_ps: self.lab.instruction_ps.into(),
        };
        self.files(&[("boot", &serde_json::to_vec(&boot)?)])
    }

    /// A booted, quiet and stopped machine, made at its first use. If the host ended it, it is booted once more.
    fn snapshot(
        &self,
        machine: &MachineConfig,
        grace: Duration,
        cancel: &AtomicBool,
        copy: u8,
    ) -> Result<Arc<Snapshot>, GuestError> {
        let slot = {
            let mut snapshots = lock(&self.snapshots);
            Arc::clone(snapshots.entry((machine.booted_digest.clone(), copy)).or_default())
        };
        // Other threads that need the same snapshot wait here.
        let mut slot = lock(&slot);
        if let Some(made) = slot.as_ref() {
            return made.clone();
        }
        // The second copy is compared with the first, so it is always booted.
        let saved = self.saved.as_ref().filter(|_| copy == FIRST);
        let make = || {
            let files = self.boot_files(machine)?;
            let state = files.path("state");
            let found = saved.and_then(|saved| saved.get(&machine.booted_digest, &state));
            if let Some(quiet) = found {
                return Ok(Snapshot { state, quiet, _files: files });
            }
            let made = self.make_snapshot(machine, files, grace, cancel)?;
            if let (Some(saved), GuestTime::Exact) = (saved, &made.quiet.time)
                && let Err(error) = saved.put(
                    &machine.booted_digest,
                    (&self.summary(machine), &made.quiet),
                    &made.state,
                )
            {
                *lock(&self.not_kept) = Some(error.to_string());
            }
            Ok(made)
        };
        let made = make();
        let is_of_host = made.as_ref().is_err_and(GuestError::is_of_host);
        let made = if is_of_host { make() } else { made };
        let made =
            made.map_err(|error| self.explained(error, machine, grace, cancel)).map(Arc::new);
        // If the host ended it, the next caller tries again.
        let is_to_stay =
            |error: &GuestError| !matches!(error, GuestError::Cancelled) && !error.is_of_host();
        if made.as_ref().err().is_none_or(is_to_stay) {
            *slot = Some(made.clone());
        }
        made
    }

    fn summary(&self, machine: &MachineConfig) -> MachineSummary {
        MachineSummary {
            kernel: machine.kernel.kernel.name.clone(),
            cpus: self.lab.cpus,
            memory_bytes: self.lab.memory_bytes,
            arguments: machine.arguments.clone(),
            emulator: self.emulator.version.clone(),
            program_digest: self.program_digest.clone(),
        }
    }

    /// A kernel that ends before it has a console prints nothing: it is booted again with an early console,
    /// only for its messages.
    fn explained(
        &self,
        error: GuestError,
        machine: &MachineConfig,
        grace: Duration,
        cancel: &AtomicBool,
    ) -> GuestError {
        if !error.is_silent() || error.is_of_host() || machine.kernel.hypervisor.is_some() {
            return error;
        }
        let arguments = format!("{} {EARLY_CONSOLE}", machine.arguments).trim().to_string();
        let loud = MachineConfig { arguments, ..machine.clone() };
        let files = self.boot_files(machine).map_err(GuestError::from);
        let again = files.and_then(|files| self.make_snapshot(&loud, files, grace, cancel));
        again.err().filter(|again| !again.is_silent()).unwrap_or(error).before_the_boot()
    }

    fn make_snapshot(
        &self,
        machine: &MachineConfig,
        files: GuestFiles,
        grace: Duration,
        cancel: &AtomicBool,
    ) -> Result<Snapshot, GuestError> {
        let parts = self.lab.cpus.div_ceil(4) + machine.guests.len() as u32;
        let mut start =
            self.start(machine.boot(&files), &[], &files, grace * PATIENCE_TO_BOOT * parts);
        start.patience_to_start = Some(grace * PATIENCE_TO_START * parts);
        let state = relative(&files.path("state"));
        let booted = guest::stop_and_save(&start, &state, cancel)?;
        // A first domain always has one CPU.
        if machine.kernel.hypervisor.is_none() {
            mismatch(&self.lab, &booted.facts.topology)?;
        }
        let time = files.in_step(booted.pid);
        let quiet = Quiet { facts: booted.facts, time, started_after: booted.started_after };
        Ok(Snapshot { state: files.path("state"), quiet, _files: files })
    }

    fn start(
        &self,
        from: From,
        documents: &[&str],
        files: &GuestFiles,
        patience: Duration,
    ) -> Start<'_> {
        let (results, console) = (files.path("results"), files.path("console"));
        let document = |name: &&str| {
            let of_firmware = if *name == SPEC { GUEST_SPEC_FILE } else { GUEST_REHEARSAL_FILE };
            (of_firmware, relative(&files.path(name)))
        };
        let documents: Vec<_> = documents.iter().map(document).collect();
        let lab = match &from {
            From::Kernel { .. } => booted(&self.lab),
            From::State { .. } => self.lab.clone(),
        };
        let named = Files {
            from,
            documents: &documents,
            results: &relative(&results),
            console: &relative(&console),
        };
        let arguments = machine::arguments(&lab, self.time(), &named);
        let environment = match self.time {
            Time::Virtual => vec![
                ("LD_PRELOAD", path_of(&self.library)),
                (preload::PROOF_VARIABLE, files.path(PROOF).into_os_string()),
            ],
            Time::Real { .. } => Vec::new(),
        };
        let clocks = (self.time == Time::Virtual && self.lab.clocks == CpuClocks::Own)
            .then(|| (preload::CLOCKS_VARIABLE, preload::clocks(&lab).into()));
        let environment = environment.into_iter().chain(clocks).collect();
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
            starved: &self.starved,
        }
    }

    /// The machine of a cell.
    fn machine_config(&self, cell: &Cell) -> Result<MachineConfig, LabError> {
        let kernel = self.kernel_of(cell)?;
        let root = self.root(&kernel.kernel, cell)?;
        let knob = |name| text_of(cell, name).unwrap_or_default();
        let words = [self.lab.kernel_args.as_str(), knob(KERNEL_ARGUMENTS)];
        let arguments = words.join(" ").trim().to_string();
        let xen_arguments = knob(XEN_ARGUMENTS).to_string();
        let has_hypervisor = kernel.hypervisor.is_some();
        let guests = if has_hypervisor { exec::guest_sizes(cell) } else { Vec::new() };
        let digest = |lab: &Lab| {
            let digests = [&*kernel.digest, &root.digest, &self.emulator.digest];
            machine_digest(digests, lab, [&arguments, &xen_arguments], &guests)
        };
        let (booted_digest, digest) = (digest(&booted(&self.lab))?, digest(&self.lab)?);
        Ok(MachineConfig { kernel, root, arguments, xen_arguments, guests, booted_digest, digest })
    }
}

/// Enough of a digest for the name of a file.
fn short(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

/// Checks that virtual CPUs can have their own clocks. An emulator that passed is not tried again, by this
/// user or by others.
fn clocks_work(
    emulator: &Emulator,
    folder: &Folder,
    library: &File,
    (emulators, shared): (&Results, Option<&SharedCache>),
) -> Result<(), NoClocks> {
    const WORK: &[u8] = b"each virtual CPU can have a clock of its own";
    let key = digest(&[b"clocks", emulator.digest.as_bytes(), preload::LIBRARY]);
    if emulators.get(&key).is_none() {
        if shared.and_then(|shared| shared.get(&key)).as_deref() != Some(WORK) {
            trial::clocks_work(&emulator.program, &folder.path, path_of(library))?;
            shared.inspect(|shared| shared.put(&key, WORK));
        }
        // If the cache fails, the next process tries again.
        _ = emulators.put(&key, WORK);
    }
    Ok(())
}

/// Returns an error if none of these kernels exists: with the names of those that can be fetched, else with
/// the first one's fault. One kernel is enough to run a plan.
fn one_exists<'a>(
    kernels: impl Iterator<Item = (&'a str, Result<(), KernelError>)>,
) -> Result<(), LabError> {
    let (mut names, mut folder, mut first) = (Vec::new(), None, None);
    for (name, found) in kernels {
        match found {
            Ok(()) => return Ok(()),
            Err(KernelError::NotCached { cache, .. }) => {
                names.push(name.to_string());
                folder = Some(cache);
            }
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    match (folder, first) {
        (Some(cache), _) => Err(LabError::NoKernels { names, cache }),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Ok(()),
    }
}

/// The value of a knob of the cell's variant that is a text.
fn text_of<'a>(cell: &'a Cell, knob: &str) -> Option<&'a str> {
    cell.variant.knobs.get(knob).and_then(Value::as_text)
}

fn is_of_xen(knob: &str) -> bool {
    OF_XEN.contains(&knob) || knob.starts_with("xen-")
}

/// Checks that this kernel can give a cell what it wants from Xen.
fn check_xen(cell: &Cell, kernel: &str, has_hypervisor: bool) -> Result<(), LabError> {
    if has_hypervisor {
        xen_image::check(cell, kernel)?;
    } else if let Some(knob) = cell.variant.knobs.keys().find(|knob| is_of_xen(knob)) {
        let [knob, kernel] = [knob, kernel].map(str::to_string);
        return Err(LabError::NoHypervisor { knob, kernel });
    }
    let guests = text_of(cell, GUEST_KERNEL).map(kernel::find).transpose()?;
    guests.map_or(Ok(()), |kernel| first_domain::check_guest(&kernel))
}

/// The machine that is booted for this one: delays and the way to work belong to runs.
fn booted(lab: &Lab) -> Lab {
    Lab { model: LabModel::default(), executed: false, ..lab.clone() }
}

/// The digest of everything that the state of a machine depends on. `digests` are those of its kernel, its
/// root and its emulator.
fn machine_digest(
    digests: [&str; 3],
    lab: &Lab,
    arguments: [&str; 2],
    guests: &[GuestSize],
) -> Result<String, serde_json::Error> {
    // The kernel has its own digest, seeds belong to runs, and the name of the measured machine changes nothing.
    let model = LabModel { twin: None, ..lab.model.clone() };
    let lab = Lab { kernel: String::new(), seeds: 0, model, ..lab.clone() };
    let lab = serde_json::to_vec(&lab)?;
    let [kernel, root, emulator] = digests.map(str::as_bytes);
    let mut parts = vec![kernel, root, emulator, preload::LIBRARY, &lab];
    let guests = serde_json::to_vec(guests)?;
    parts.push(&guests);
    // Empty arguments of Xen add no part.
    parts.extend(
        arguments
            .iter()
            .enumerate()
            .filter_map(|(at, words)| (at == 0 || !words.is_empty()).then_some(words.as_bytes())),
    );
    Ok(digest(&parts))
}

/// A program that a worker set of a cell runs.
struct SetProgram {
    /// The position of the set.
    set: usize,
    /// The parameter whose first word it is.
    param: &'static str,
    path: PathBuf,
}

fn programs(cell: &Cell) -> Result<Vec<SetProgram>, WorkloadError> {
    let mut programs = Vec::new();
    for (position, set) in cell.work.sets.iter().enumerate() {
        let Some(workload) = workload::find(&set.workload) else { continue };
        let own = workload.programs(&set.params)?.into_iter();
        programs.extend(own.map(|(param, path)| SetProgram { set: position, param, path }));
    }
    Ok(programs)
}

/// The programs of a cell, and the other files that they need.
fn user_files(cell: &Cell) -> Result<Vec<PathBuf>, WorkloadError> {
    let programs = programs(cell)?.into_iter().map(|program| program.path);
    let lists = cell.work.sets.iter().filter_map(|set| set.params.get("files")?.as_list());
    let paths = lists.flatten().filter_map(|file| file.as_text());
    let paths =
        paths.map(|path| command::matching(path).into_iter().next().unwrap_or_else(|| path.into()));
    Ok(programs.chain(paths).collect())
}

/// The spec for the guest, without the variant's name and the cell's position: cells that differ only in
/// these are equal.
fn guest_spec(spec: &RunSpec, lab: &Lab) -> Result<GuestSpec, WorkloadError> {
    let mut knobs = spec.cell.variant.knobs.clone();
    let of_machine =
        |knob: &str| [KERNEL, KERNEL_ARGUMENTS].iter().chain(&OF_XEN).any(|one| *one == knob);
    knobs.retain(|knob, _| !of_machine(knob));
    if let Some(Scheduler::Program { path, words }) = scheduler(&spec.cell) {
        let program = in_guest(&path).display().to_string();
        let text = [&[program], words.as_slice()].concat().join(" ");
        knobs.insert(SCX.to_string(), Value::Text(text));
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
    let cgroups = spec.cell.work.cgroups.clone();
    let work = Work { name: "lab".to_string(), cgroups, sets, ..Default::default() };
    let cell = Cell { index: 0, variant, work, placement: spec.cell.placement.clone() };
    Ok(GuestSpec {
        wire: GUEST_WIRE,
        offset_ns: spec.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MAX_OFFSET_NS,
        run: RunSpec { cell, model: lab.model.run_model(lab), turns, ..spec.clone() },
    })
}

/// The spec of a cell's guests without seed and offset.
fn any_seed(spec: &GuestSpec) -> Result<Vec<u8>, LabError> {
    let run = RunSpec { seed: 0, ..spec.run.clone() };
    Ok(serde_json::to_vec(&GuestSpec { offset_ns: 0, run, ..spec.clone() })?)
}

/// The sched_ext scheduler that a cell asks for.
fn scheduler(cell: &Cell) -> Option<Scheduler> {
    Scheduler::parse(cell.variant.knobs.get(SCX)?.as_text()?)
}

/// The path in a guest of a program of this machine.
fn in_guest(path: &Path) -> PathBuf {
    Path::new("/scx").join(path.file_name().unwrap_or_default())
}

/// A machine and what it boots.
#[derive(Clone)]
struct MachineConfig {
    kernel: Arc<Bootable>,
    root: Arc<Root>,
    /// The variant's own kernel arguments.
    arguments: String,
    /// The variant's own arguments of Xen; none without Xen.
    xen_arguments: String,
    /// The guests that it boots; none without Xen.
    guests: Vec<GuestSize>,
    /// The digest of everything that its state depends on when it has booted.
    booted_digest: String,
    /// The digest of that and of what its runs bring.
    digest: String,
}

impl MachineConfig {
    fn key(&self, spec: &[u8]) -> String {
        digest(&[self.digest.as_bytes(), spec])
    }

    fn asked(&self, time: GuestTime) -> Asked {
        let kernel = &self.kernel.kernel;
        Asked {
            time,
            kernel_digest: kernel.digest.clone(),
            package_version: kernel.package().map(|package| package.version.clone()),
        }
    }

    fn boot<'a>(&'a self, files: &'a GuestFiles) -> From<'a> {
        let Bootable { image, hypervisor, .. } = &*self.kernel;
        // A hypervisor reads the names, so they must be the same on every machine.
        let named = |path: &Path| match hypervisor {
            Some(_) => above(path),
            None => path.to_path_buf(),
        };
        From::Kernel {
            image: named(image),
            initrd: named(&self.root.path),
            boot: relative(&files.path("boot")),
            more: &self.arguments,
            hypervisor: hypervisor.as_deref().map(|path| (above(path), &*self.xen_arguments)),
        }
    }
}

/// The state of a quiet machine, from which its copies go on.
struct Snapshot {
    state: PathBuf,
    quiet: Quiet,
    /// Removed with it.
    _files: GuestFiles,
}

/// Ignores poison: no thread leaves a change half done when it panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn patience(spec: &RunSpec, cpus: u32) -> Duration {
    let section = Duration::from_nanos(spec.warmup_ns.saturating_add(spec.duration_ns));
    grace(spec) * PATIENCE_TO_BOOT * cpus.div_ceil(8) + section * PATIENCE_PER_SECOND * cpus
}

/// A path of the open library without blanks and colons, at which `LD_PRELOAD` would split it and
/// which a folder's path may have.
fn path_of(library: &File) -> OsString {
    format!("/proc/{}/fd/{}", std::process::id(), library.as_raw_fd()).into()
}

/// The plan's `grace`: the part of a run's limit beyond its section.
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
    fn the_digest_of_a_machine_covers_all_that_its_state_depends_on() {
        let (lab, digests) = (Lab::default(), ["kernel", "root", "emulator"]);
        let known = machine_digest(digests, &lab, ["nohz=off", ""], &[]).unwrap();
        let same = Lab { kernel: "debian:6.1".to_string(), seeds: 3, ..lab.clone() };
        assert_eq!(machine_digest(digests, &same, ["nohz=off", ""], &[]).unwrap(), known);
        let cpus = Lab { cpus: 2, ..lab.clone() };
        let slow = |ns| LabModel { idle_exit_ns: Some(ns), ..LabModel::default() };
        let models = [5, 6].map(|ns| Lab { model: slow(ns), ..lab.clone() });
        let twin = LabModel { twin: Some("a machine".to_string()), ..slow(5) };
        assert_eq!(
            machine_digest(digests, &Lab { model: twin, ..lab.clone() }, ["", ""], &[]).unwrap(),
            machine_digest(digests, &models[0], ["", ""], &[]).unwrap(),
            "whatever machine it was"
        );
        let boots = models.each_ref().map(booted);
        assert_eq!(boots, [booted(&lab), lab.clone()], "delays belong to runs");
        assert_eq!(booted(&Lab { executed: true, ..lab.clone() }), lab);
        assert_ne!(booted(&cpus), lab);
        let one = [GuestSize { memory_bytes: 1 << 27, cpus: 1 }];
        let others = [
            machine_digest(["other", "root", "emulator"], &lab, ["nohz=off", ""], &[]),
            machine_digest(["kernel", "other", "emulator"], &lab, ["nohz=off", ""], &[]),
            machine_digest(["kernel", "root", "other"], &lab, ["nohz=off", ""], &[]),
            machine_digest(digests, &cpus, ["nohz=off", ""], &[]),
            machine_digest(digests, &models[0], ["nohz=off", ""], &[]),
            machine_digest(digests, &models[1], ["nohz=off", ""], &[]),
            machine_digest(digests, &lab, ["nohz=on", ""], &[]),
            machine_digest(digests, &lab, ["nohz=off", ""], &one),
        ];
        others.into_iter().for_each(|other| assert_ne!(other.unwrap(), known));
    }

    #[test]
    fn patience_comes_from_the_plans_grace_and_from_the_work() {
        let seconds = |cpus| patience(&spec("v", 7), cpus).as_secs();
        assert_eq!(grace(&spec("v", 7)), Duration::from_secs(30));
        assert_eq!((seconds(1), seconds(8), seconds(16)), (240, 660, 1320));
    }

    #[test]
    fn a_plan_without_any_of_its_kernels_cannot_run() {
        let missing = |name: &str| KernelError::NotCached {
            name: name.to_string(),
            cache: "/c".into(),
            others: Vec::new(),
        };
        let wrong = || KernelError::Architecture("riscv64");
        let (a, b) = ("debian:6.1", "debian:6.12");
        assert!(one_exists([(a, Err(missing(a))), (b, Ok(()))].into_iter()).is_ok());
        let none = one_exists(
            [(a, Err(missing(a))), ("x", Err(wrong())), (b, Err(missing(b)))].into_iter(),
        );
        let error = none.unwrap_err();
        assert!(matches!(&error, LabError::NoKernels { names, .. } if *names == [a, b]), "{error}");
        let error = one_exists([("x", Err(wrong()))].into_iter()).unwrap_err();
        assert!(matches!(error, LabError::Kernel(KernelError::Architecture(_))), "{error}");
    }
}
