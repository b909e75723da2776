//! Makes guests: holds the emulator, the archives of their files, the folder of these, and the cache
//! of results.

mod config;
mod copies;
mod not_saved;
mod spec;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::exec;
use crate::model::{
    Advice, Cell, CpuClocks, GuestFacts, GuestMessage, GuestTime, Lab, Outcome, RunSpec,
};
use crate::sys::{self, lock, scratch};
use crate::variant;
use crate::variant::scx::{self, Scheduler};

use config::{Archive, Bootable, FIRST, MachineConfig, SECOND, Snapshot, path_of, with_files};
use not_saved::AllNotSaved;
use spec::{
    SCX, any_seed, check_xen, guest_spec, in_guest, programs, scheduler, text_of, user_files,
};

use super::answers::{self, Answers, SharedAnswer};
use super::asked::{Asked, GUEST_KERNEL, KERNEL_ARGUMENTS, XEN, XEN_ARGUMENTS};
use super::emulator::Emulator;
use super::error::{GuestError, GuestFault, LabError};
use super::files::Folder;
use super::first_domain;
use super::guest::{self, GuestOutput, SlowGuests};
use super::initrd::{self, Packed};
use super::kernel::{self, Kernel, KernelError};
use super::machine::Time;
use super::preload::{self, NoClocks};
use super::results::{self, Results, digest};
use super::saved::SavedMachines;
use super::shared::SharedCache;
use super::template::Template;
use super::trial;
use crate::backend::{BackendConfig, CacheReport, GuestMachine, Mode, NotSaved};

/// An archive of larger files is written before it is known whether a guest needs it.
const MAX_HELD_BYTES: u64 = 64 << 20;
/// QEMU counts the bytes of a file for its guest in 32 bits.
const MAX_ARCHIVE_BYTES: u64 = 3 << 30;

/// The machine that a template began in, and the template; `None` where none could be made.
type OwnTemplate = (Arc<Snapshot>, Option<Arc<Template>>);

pub struct GuestManager {
    /// Machines that make copies of themselves, by the digest of their state, and the snapshot that each began in; `None`:
    /// it cannot.
    templates: Mutex<HashMap<String, OwnTemplate>>,
    lab: Lab,
    mode: Mode,
    time: Time,
    emulator: Emulator,
    folder: Folder,
    answers: Answers,
    /// The number of runs that these answered.
    looked_up: AtomicUsize,
    /// This program as guests have it, and its digest.
    program: Vec<Arc<Packed>>,
    program_digest: String,
    /// Archives of files by their digests.
    archives: Mutex<HashMap<String, Arc<Archive>>>,
    /// Held while the files of a boot are written.
    writing: Mutex<()>,
    /// Kernels that exist by name: looking one up reads all of it.
    found: Mutex<HashMap<String, Found>>,
    /// Outcomes of runs that could not begin, by machine and cell, or machine and knobs; they do not depend on the seed.
    not_begun: Mutex<HashMap<String, Outcome>>,
    /// The first seeds with which schedulers could not be attached, by machine and knobs.
    not_attached: Mutex<HashMap<String, u64>>,
    /// Kernels by their names in plans, each with the path of the user's own hypervisor.
    kernels: Mutex<HashMap<[String; 2], Arc<Bootable>>>,
    /// Machines by the parts of a cell that they depend on.
    machines: Mutex<HashMap<String, GuestMachine>>,
    /// Snapshots by machine and number of the copy: `--verify` compares two.
    snapshots: Mutex<HashMap<(String, u8), SnapshotSlot>>,
    /// Machines of earlier processes; `None` if no run will be made.
    saved: Option<SavedMachines>,
    not_saved: Mutex<AllNotSaved>,
    /// The library that is loaded into QEMU.
    library: File,
    /// Why virtual CPUs share one clock, if they should have their own.
    no_clocks: Option<NoClocks>,
    /// The folder for consoles of guests that failed.
    failed: PathBuf,
    /// The place of files if no run will be made. Declared after `folder`, which lies in it, so that it is dropped
    /// later.
    _scratch: Option<scratch::Folder>,
    guests: AtomicU64,
    slow: SlowGuests,
    /// KVM worked in the trial and gave up in a guest: the others are emulated.
    kvm_gave_up: AtomicBool,
}

/// Facts about a kernel that are known before it boots.
#[derive(Clone)]
struct Found {
    config: Option<Arc<str>>,
    has_hypervisor: bool,
}

/// A snapshot, once it was made, or why there is none.
type SnapshotSlot = Arc<Mutex<Option<Result<Arc<Snapshot>, GuestError>>>>;

/// The output of a guest, and the machine that it ran on.
pub struct Measured {
    pub output: GuestOutput,
    pub asked: Asked,
}

impl GuestManager {
    pub fn open(config: &BackendConfig) -> Result<GuestManager, LabError> {
        kernel::check_host()?;
        let emulator = Emulator::find()?;
        if !config.mode.realtime {
            emulator.check_age()?;
        }
        let cache = sys::cache_dir().map_err(|error| LabError::NoHome(error.to_string()))?;
        let open = |name: &str| {
            let folder = cache.join(name);
            match config.state {
                Some(_) => Results::open(&folder).map_err(LabError::io("write to", &folder)),
                None => Ok(Results::read_only(&folder)),
            }
        };
        let (results, emulators) = (open(results::FOLDER)?, open("emulators")?);
        let saved = config.state.map(|_| SavedMachines::new(&cache)).transpose()?;
        let saved = saved.filter(|saved| saved.max_bytes() > 0);
        let program = initrd::own_program()?;
        let scratch = match config.state {
            Some(_) => None,
            None => Some(
                scratch::Folder::new(None)
                    .map_err(LabError::io("write to", &std::env::temp_dir()))?,
            ),
        };
        let own = scratch.as_ref().map(scratch::Folder::path);
        let home = config.state.or(own).unwrap_or(Path::new("")).to_path_buf();
        let state = home.join("lab");
        let folder = Folder::make(&state)?;
        let time = if config.mode.realtime {
            Time::Real { kvm: trial::kvm_works(&emulator.program, &folder.path) }
        } else {
            Time::Virtual
        };
        let path = folder.path.join("preload.so");
        let library = fs::write(&path, preload::LIBRARY)
            .and_then(|()| File::open(&path))
            .map_err(LabError::io("write", &path))?;
        let shared = match (time, config.shared_cache) {
            (Time::Virtual, Some(asked)) => Some(SharedCache::open(asked, &home)?),
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
            answers: Answers::new(results, shared, answers::differing(&home)),
            looked_up: AtomicUsize::new(0),
            program_digest: initrd::digest_of(&program),
            program: program.into_iter().map(Arc::new).collect(),
            archives: Mutex::default(),
            writing: Mutex::default(),
            found: Mutex::default(),
            not_begun: Mutex::default(),
            not_attached: Mutex::default(),
            kernels: Mutex::default(),
            machines: Mutex::default(),
            snapshots: Mutex::default(),
            saved,
            not_saved: Mutex::default(),
            library,
            failed: state.join("failed"),
            _scratch: scratch,
            guests: AtomicU64::new(0),
            slow: SlowGuests::default(),
            kvm_gave_up: AtomicBool::new(false),
        })
    }

    pub fn time(&self) -> Time {
        match self.time {
            Time::Real { kvm } => Time::Real { kvm: kvm && !self.kvm_gave_up.load(Relaxed) },
            Time::Virtual => Time::Virtual,
        }
    }

    pub fn slow(&self) -> &SlowGuests {
        &self.slow
    }

    /// Why machines and results are of no use to other plans; once.
    pub fn take_not_saved(&self) -> Vec<NotSaved> {
        lock(&self.not_saved).take()
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

    /// Whether at least one of the kernels of these cells exists, or all of them.
    pub fn check_kernels(&self, cells: &[Cell], needs_all: bool) -> Result<(), LabError> {
        let mut seen = BTreeSet::new();
        let names = cells.iter().map(|cell| cell.variant.kernel_in(&self.lab));
        let names = names.filter(|name| seen.insert(*name));
        check_exist(names.map(|name| (name, self.found(name).map(drop))), needs_all)
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
        self.check_offline(cell, has_hypervisor)?;
        check_xen(cell, kernel, has_hypervisor)?;
        if has_hypervisor || cell.work.has_guests(false) {
            exec::check_guests(cell, has_hypervisor.then_some(&self.lab))?;
        }
        user_files(cell)?.iter().try_for_each(|path| initrd::check_user_file(path))?;
        let scheduler = scheduler(cell);
        match scheduler.as_ref().map(scx::check_file) {
            Some(Err(error)) if error.is_usage() => return Err(error.into()),
            // The run tries again where the fault may pass.
            _ => {}
        }
        scheduler.as_ref().and_then(Scheduler::path).map_or(Ok(()), initrd::check_user_file)
    }

    fn check_offline(&self, cell: &Cell, has_hypervisor: bool) -> Result<(), LabError> {
        let (wanted, has) = (cell.work.offline_cpus(), self.lab.cpus);
        let missing = wanted.minus(&(0..has).collect());
        let why = match () {
            () if wanted.is_empty() => return Ok(()),
            () if has_hypervisor => "they are the hypervisor's".to_string(),
            () if missing.is_empty() => return Ok(()),
            () => format!("the guest has CPUs 0 to {}", has - 1),
        };
        let cpus = if missing.is_empty() { wanted } else { missing };
        Err(LabError::Offline { cpus, why })
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
        let image = self.folder.path.join(format!("kernel-{}", short(&boot.file_digest)));
        let mut digest_of_all = boot.digest.clone();
        let mut hypervisor = None;
        if let Some(below) = &kernel.hypervisor {
            let bytes = match own_xen {
                Some(path) => first_domain::hypervisor(Path::new(path))?,
                None => initrd::read(&below.image)?,
            };
            let copied = self.folder.path.join(format!("xen-{}", short(&digest(&[&bytes]))));
            let firmware = self.emulator.digest_of_multiboot.as_bytes();
            digest_of_all = digest(&[digest_of_all.as_bytes(), &bytes, firmware]);
            hypervisor = Some((copied, bytes));
        }
        let bootable =
            Arc::new(Bootable { kernel, boot, image, hypervisor, digest: digest_of_all });
        kernels.insert(known, Arc::clone(&bootable));
        Ok(bootable)
    }

    /// Writes what a machine boots, at its first boot.
    fn write_booted(&self, machine: &MachineConfig) -> Result<(), LabError> {
        let Bootable { kernel, boot, image, hypervisor, .. } = &*machine.kernel;
        let root = &machine.root;
        let put = |path: &Path, bytes: &[u8]| {
            write_once(path, || fs::write(path, bytes).map_err(LabError::io("write", path)))
        };
        // Two machines may have one root or one kernel.
        let _one_at_a_time = lock(&self.writing);
        if !image.exists() {
            put(image, &kernel.bytes(boot)?)?;
        }
        if let Some((path, bytes)) = hypervisor {
            put(path, bytes)?;
        }
        root.write()
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
        let programs = with_files(&machine.root.digest, machine.files.as_deref());
        let programs = short(&programs).to_string();
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
            ("programs and libraries", programs),
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
        let exact = |output| Ok(Measured { output, asked: machine.asked(GuestTime::Exact) });
        let may_look_up = !self.mode.again && !self.mode.verify && self.time == Time::Virtual;
        if may_look_up && let Some(output) = self.answers.own(&key, self.mode.covers) {
            self.looked_up.fetch_add(1, Relaxed);
            return exact(output);
        }
        let cell = machine.key(&any_seed(&spec_of_guest)?);
        // `--verify` compares the two runs of each seed.
        let scheduler = scheduler(&spec.cell).filter(|_| !self.mode.verify);
        let knobs = || format!("{:?}", spec.cell.variant.knobs);
        let scheduler = scheduler.map(|_| machine.key(knobs().as_bytes()));
        let known = [Some(&cell), scheduler.as_ref()].into_iter().flatten();
        if let Some(outcome) =
            known.filter_map(|key| lock(&self.not_begun).get(key).cloned()).next()
        {
            return exact(GuestOutput::not_started(outcome));
        }
        // Shared answers say nothing of the code.
        let may_share = may_look_up && !self.mode.covers;
        let theirs = if may_share { self.answers.shared(&key) } else { None };
        let theirs = match theirs {
            Some(SharedAnswer { output, is_to_check: false }) => {
                self.looked_up.fetch_add(1, Relaxed);
                return exact(output);
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
        let of = match &output.outcome {
            Outcome::Skipped { .. } => Some(cell),
            Outcome::Failed { reason } => scheduler.filter(|own| {
                variant::is_not_attached(reason)
                    && is_another_seed(&mut lock(&self.not_attached), own, spec.seed)
            }),
            Outcome::Done { .. } => None,
        };
        of.map(|of| lock(&self.not_begun).insert(of, output.outcome.clone()));
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
        if let Some(why) = self.emulator.replaced() {
            self.note(NotSaved::NoResult(why));
            return Ok(());
        }
        // The output of a copy lacks the facts of its boot, so they are put before it.
        let mut bytes =
            serde_json::to_vec(&GuestMessage::Ready(Box::new(GuestFacts::clone(facts))))?;
        bytes.push(b'\n');
        bytes.extend(&output.bytes);
        let keep_code = |coverage| self.answers.keep_coverage(key, coverage);
        if let Err(error) = output.coverage.as_ref().map_or(Ok(()), keep_code) {
            self.note(NotSaved::NoCoverage(self.answers.not_kept(&error)));
        }
        if let Err(error) = self.answers.keep(key, &bytes, theirs) {
            self.note(NotSaved::NoResult(self.answers.not_kept(&error)));
        }
        Ok(())
    }

    pub fn looked_up(&self) -> usize {
        self.looked_up.load(Relaxed)
    }

    pub fn end_shared_cache(&self) -> Option<CacheReport> {
        self.answers.end()
    }

    /// The root of a kernel's guests, and the files that a cell needs in addition. Under a hypervisor the root has all, since
    /// programs share one C library with the tools there.
    fn archives(
        &self,
        kernel: &Kernel,
        cell: &Cell,
    ) -> Result<(Arc<Archive>, Option<Arc<Archive>>), LabError> {
        let (mut booted, mut brought) = (kernel_files(kernel, cell)?, run_files(cell)?);
        let program = match &kernel.hypervisor {
            Some(_) => {
                booted.append(&mut brought);
                first_domain::of_one_library(&self.program, &mut booted)
            }
            None => self.program.clone(),
        };
        let mut names: BTreeSet<PathBuf> = program.iter().map(|file| file.name.clone()).collect();
        for files in [&mut booted, &mut brought] {
            files.retain(|file| names.insert(file.name.clone()));
        }
        let root = self.archive(&self.program_digest, program, booted)?;
        // Half of a guest's memory is for files.
        let limit = (self.lab.memory_bytes / 2).saturating_sub(root.bytes).min(MAX_ARCHIVE_BYTES);
        let bytes = brought.iter().map(|file| file.bytes.len() as u64).sum();
        if bytes > limit {
            return Err(LabError::TooMany { bytes, limit });
        }
        let brings = !brought.is_empty();
        let files = brings.then(|| self.archive("", Vec::new(), brought)).transpose()?;
        Ok((root, files))
    }

    /// An archive of files with this digest and of others, which is written before its first use.
    fn archive(
        &self,
        known_digest: &str,
        known: Vec<Arc<Packed>>,
        more: Vec<Packed>,
    ) -> Result<Arc<Archive>, LabError> {
        let mut parts = vec![known_digest.as_bytes()];
        parts.extend(more.iter().map(|file| file.bytes.as_slice()));
        parts.extend(more.iter().map(|file| file.name.as_os_str().as_encoded_bytes()));
        let digest = digest(&parts);
        let mut archives = lock(&self.archives);
        if let Some(archive) = archives.get(&digest) {
            return Ok(Arc::clone(archive));
        }
        let path = self.folder.path.join(format!("files-{}.cpio", short(&digest)));
        let files: Vec<Arc<Packed>> =
            known.into_iter().chain(more.into_iter().map(Arc::new)).collect();
        let bytes = files.iter().map(|file| file.bytes.len() as u64).sum();
        let files = Mutex::new(files);
        let archive = Arc::new(Archive { path, digest: digest.clone(), bytes, files });
        if bytes > MAX_HELD_BYTES {
            archive.write()?;
        }
        archives.insert(digest, Arc::clone(&archive));
        Ok(archive)
    }
}

/// Whether the first seed of this key, which it remembers, is another one: one run may fail by chance, as where a program
/// is too slow, and hardly two of different seeds.
fn is_another_seed(first: &mut HashMap<String, u64>, key: &str, seed: u64) -> bool {
    *first.entry(key.to_string()).or_insert(seed) != seed
}

/// The files that a kernel and its hypervisor need when they boot.
fn kernel_files(kernel: &Kernel, cell: &Cell) -> Result<Vec<Packed>, LabError> {
    let mut files = Vec::new();
    if let Some(config) = &kernel.config {
        let name = format!("/boot/config-{}", kernel.release).into();
        files.push(Packed { name, bytes: initrd::read(config)? });
    }
    if let Some(hypervisor) = &kernel.hypervisor {
        let guests = text_of(cell, GUEST_KERNEL).map(kernel::find).transpose()?;
        files.extend(first_domain::files(kernel, hypervisor, guests.as_ref().unwrap_or(kernel))?);
    }
    Ok(files)
}

/// The programs of a cell, and the files that they need.
fn run_files(cell: &Cell) -> Result<Vec<Packed>, LabError> {
    let mut files = Vec::new();
    match scheduler(cell) {
        Some(Scheduler::Program { path, .. }) => {
            files.extend(initrd::user_program(&path, in_guest(&path))?);
        }
        // Whoever loads it says what is wrong with it.
        Some(Scheduler::Object(path)) => {
            files.push(Packed { name: in_guest(&path), bytes: initrd::read(&path)? });
        }
        Some(Scheduler::Own(_)) | None => {}
    }
    if !programs(cell)?.is_empty() {
        files.extend(initrd::names_of_users());
    }
    for path in user_files(cell)? {
        files.extend(initrd::user_file(&path)?);
    }
    Ok(files)
}

impl Archive {
    fn write(&self) -> Result<(), LabError> {
        let (path, mut files) = (&self.path, lock(&self.files));
        write_once(path, || initrd::write(path, &files).map_err(LabError::io("write", path)))?;
        files.clear();
        Ok(())
    }
}

/// Writes a file that is not there, whole or not at all.
fn write_once(path: &Path, write: impl FnOnce() -> Result<(), LabError>) -> Result<(), LabError> {
    if path.exists() {
        return Ok(());
    }
    let written = write();
    if written.is_err() {
        _ = fs::remove_file(path);
    }
    written
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

/// Returns an error if none of these kernels exists, or not all do: with the names of those that can be fetched, else
/// with the first one's fault. One kernel is enough to run a plan.
fn check_exist<'a>(
    kernels: impl Iterator<Item = (&'a str, Result<(), KernelError>)>,
    needs_all: bool,
) -> Result<(), LabError> {
    let (mut names, mut folder, mut first) = (Vec::new(), None, None);
    for (name, found) in kernels {
        match found {
            Ok(()) if needs_all => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_fails_for_all_seeds_once_it_failed_with_two() {
        let mut first = HashMap::new();
        for (key, seed, expected) in
            [("a", 1, false), ("a", 1, false), ("b", 2, false), ("a", 2, true), ("b", 2, false)]
        {
            assert_eq!(is_another_seed(&mut first, key, seed), expected, "{key} {seed}");
        }
    }

    #[test]
    fn a_plan_without_any_of_its_kernels_cannot_run_and_a_test_needs_all() {
        let missing = |name: &str| KernelError::NotCached {
            name: name.to_string(),
            cache: "/c".into(),
            others: Vec::new(),
        };
        let wrong = || KernelError::Architecture("riscv64");
        let (a, b) = ("debian:6.1", "debian:6.12");
        let one =
            |needs_all| check_exist([(b, Ok(())), (a, Err(missing(a)))].into_iter(), needs_all);
        assert!(one(false).is_ok());
        let error = one(true).unwrap_err();
        assert!(matches!(&error, LabError::NoKernels { names, .. } if *names == [a]), "{error}");
        assert!(check_exist([(a, Ok(())), (b, Ok(()))].into_iter(), true).is_ok());
        let none = check_exist(
            [(a, Err(missing(a))), ("x", Err(wrong())), (b, Err(missing(b)))].into_iter(),
            false,
        );
        let error = none.unwrap_err();
        assert!(matches!(&error, LabError::NoKernels { names, .. } if *names == [a, b]), "{error}");
        let error = check_exist([("x", Err(wrong()))].into_iter(), false).unwrap_err();
        assert!(matches!(error, LabError::Kernel(KernelError::Architecture(_))), "{error}");
    }
}
