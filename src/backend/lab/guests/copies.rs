//! Machines are booted and saved, and runs are made on copies of them.

use std::cell::OnceCell;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::exec;
use crate::model::{
    Cell, CpuClocks, GUEST_FILES_FILE, GUEST_REHEARSAL_FILE, GUEST_SPEC_FILE, GUEST_WIRE,
    GuestBoot, GuestTime, Lab, RunSpec,
};
use crate::sys::{Host, environment, lock};

use super::GuestManager;
use super::config::{FIRST, MachineConfig, Snapshot, booted, machine_digest, path_of, with_files};
use super::spec::{PATIENCE_TO_BOOT, grace, patience, text_of};
use crate::backend::NotSaved;
use crate::backend::lab::asked::{KERNEL_ARGUMENTS, XEN_ARGUMENTS, mismatch};
use crate::backend::lab::error::{GuestError, LabError};
use crate::backend::lab::files::{GuestFiles, PROOF, above, relative};
use crate::backend::lab::guest::{self, GuestOutput, Start};
use crate::backend::lab::machine::{self, Files, From, Time};
use crate::backend::lab::memory;
use crate::backend::lab::preload;
use crate::backend::lab::rehearsal::rehearsal;
use crate::backend::lab::results::digest;
use crate::backend::lab::saved::{MachineSummary, Quiet, SavedMachines, Watch};
use crate::backend::lab::template::Template;

/// The `grace` without a plan.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// The part of it until the first process runs, which takes half of the time.
const PATIENCE_TO_START: u32 = 3;
/// The console until the kernel has its own.
const EARLY_CONSOLE: &str = "earlyprintk=ttyS0,115200";
/// A boot for the messages alone has this part of the patience.
const LOUD_PART: u32 = 3;
/// Files of a guest.
const SPEC: &str = "spec";
const REHEARSAL: &str = "rehearsal";
const STATE: &str = "state";
const MEMORY: &str = "memory";
/// Machines that make copies take this part of the host's memory at most.
const PART_OF_MEMORY: u64 = 4;

/// The run of a guest, and the files that it needs in addition.
fn run_documents(machine: &MachineConfig, files: &GuestFiles) -> Vec<(&'static str, PathBuf)> {
    let more = machine.files.iter().map(|more| (GUEST_FILES_FILE, above(&more.path)));
    [(GUEST_SPEC_FILE, relative(&files.path(SPEC)))].into_iter().chain(more).collect()
}

fn encoded_rehearsal(probes: &[String]) -> Result<Vec<u8>, LabError> {
    serde_json::to_vec(&rehearsal(probes)).map_err(LabError::Encode)
}

impl GuestManager {
    /// Runs one guest: a copy of the machine that was booted and stopped, or in real time a new machine. Also
    /// returns whether its time was exact from the boot on.
    pub(super) fn run_guest(
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
        let snapshot = self.snapshot(machine, spec, cancel, copy)?;
        let files = self.copy_files(machine, text)?;
        self.write_files(machine)?;
        let start = self.start_copy(machine, &snapshot, &files, patience);
        // The second copy is started by itself: it shows that the first one did the same.
        let is_copied = copy == FIRST && self.can_copy();
        let template = if is_copied { self.template(machine, &snapshot) } else { None };
        let copied = template.and_then(|template| template.copy(&files.0, patience, cancel));
        let ended = match copied {
            Some(copied) => guest::run_copy(copied, &start, cancel),
            None => guest::run(&start, cancel),
        };
        snapshot.check()?;
        let (mut output, pid) = ended?;
        output.coverage = files.coverage();
        output.facts = Some(Box::new(snapshot.quiet.facts.clone()));
        let time = match (&snapshot.quiet.time, files.in_step(pid)) {
            (GuestTime::Exact, in_step) => in_step,
            (not, _) => not.clone(),
        };
        Ok((output, time))
    }

    /// Whether a QEMU can fork for each run.
    fn can_copy(&self) -> bool {
        self.lab.clocks == CpuClocks::Own
    }

    /// Whether a machine's copies execute a run without a result first.
    fn can_rehearse(&self, machine: &MachineConfig) -> bool {
        self.can_copy() && machine.kernel.hypervisor.is_none()
    }

    /// Whether they do so with guests of Xen, which have waited for it since they booted: nothing is loaded before it.
    fn has_guests_to_rehearse(&self, machine: &MachineConfig) -> bool {
        self.can_copy() && !machine.guests.is_empty()
    }

    fn copy_files(&self, machine: &MachineConfig, spec: &[u8]) -> Result<GuestFiles, LabError> {
        let rehearsal = encoded_rehearsal(&[])?;
        let rehearsal = self.has_guests_to_rehearse(machine).then_some((REHEARSAL, &*rehearsal));
        self.files(&[(SPEC, spec)].into_iter().chain(rehearsal).collect::<Vec<_>>())
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
        let memory = path_of(&snapshot.memory).into();
        let from = From::State { state: &state, memory, has_hypervisor, stops: false };
        let mut documents = run_documents(machine, files);
        if self.has_guests_to_rehearse(machine) {
            documents.push((GUEST_REHEARSAL_FILE, relative(&files.path(REHEARSAL))));
        }
        let mut start = self.start(from, documents, files, patience);
        let code = preload::covered_code(&snapshot.quiet.facts.sched_code);
        let code = code.filter(|_| self.mode.covers && self.can_rehearse(machine));
        let variable = code.map(|code| (preload::COVERED_VARIABLE, code.into()));
        start.environment.extend(variable);
        start
    }

    /// The machine whose copies begin in this state; `None`: it cannot be, or memory does not suffice.
    fn template(&self, machine: &MachineConfig, snapshot: &Arc<Snapshot>) -> Option<Arc<Template>> {
        let mut templates = lock(&self.templates);
        let key = machine.template_key(snapshot);
        // A machine that has changed while it was used may have been made again.
        match templates.get(&key) {
            Some((of, known)) if Arc::ptr_eq(of, snapshot) => return known.clone(),
            _ => _ = templates.remove(&key),
        }
        let memory_bytes = environment::memory_bytes(&Host::default()).known()?;
        let guest_mib = machine::memory_mib(&self.lab, machine.kernel.hypervisor.is_some());
        let own_bytes = (guest_mib << 20) + machine.files.as_ref().map_or(0, |files| files.bytes);
        let others = templates.values().filter_map(|(_, template)| template.as_ref());
        let others = others.map(|template| template.memory_bytes);
        if others.sum::<u64>() + own_bytes > memory_bytes / PART_OF_MEMORY {
            return None;
        }
        let start = || {
            // The spec is only a place for that of each copy.
            let files = self.copy_files(machine, b"{}").ok()?;
            let mut start = self.start_copy(machine, snapshot, &files, Duration::MAX);
            start.environment.push((preload::COPIES_VARIABLE, "1".into()));
            let command = guest::command(&start).ok()?;
            Template::start(command, files, own_bytes).map(Arc::new)
        };
        let made = start();
        templates.insert(key, (Arc::clone(snapshot), made.clone()));
        made
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
        self.write_files(machine)?;
        let boot = self.boot_files(machine)?;
        let from = machine.boot(&boot);
        let patience = patience(spec, self.lab.cpus);
        let start = self.start(from, run_documents(machine, &files), &files, patience);
        let (output, _) = guest::run(&start, cancel)?;
        if let (Some(facts), None) = (&output.facts, &machine.kernel.hypervisor) {
            mismatch(&self.lab, facts)?;
        }
        Ok((output, GuestTime::Real))
    }

    /// Boots the machine of a cell, and stops it when it is quiet.
    pub fn boot_only(&self, cell: &Cell, cancel: &AtomicBool) -> Result<Quiet, GuestError> {
        let machine = self.machine_config(cell)?;
        let files = self.boot_files(&machine)?;
        Ok(self.boot(&machine, files, DEFAULT_GRACE, cancel)?.0)
    }

    fn files(&self, named: &[(&str, &[u8])]) -> Result<GuestFiles, LabError> {
        GuestFiles::make(&self.folder.path, self.guests.fetch_add(1, Relaxed), named)
    }

    /// Writes the files that a run of this machine brings, at its first one.
    fn write_files(&self, machine: &MachineConfig) -> Result<(), LabError> {
        let _one_at_a_time = lock(&self.writing);
        machine.files.as_ref().map_or(Ok(()), |files| files.write())
    }

    fn boot_files(&self, machine: &MachineConfig) -> Result<GuestFiles, LabError> {
        self.write_booted(machine)?;
        let boot = GuestBoot {
            guests: machine.guests.clone(),
            is_virtual: self.time == Time::Virtual,
            wire: GUEST_WIRE,
            instruction_ps: self.lab.instruction_ps.into(),
        };
        self.files(&[("boot", &serde_json::to_vec(&boot)?)])
    }

    /// The stopped machine from which runs like this one begin: it has booted, is quiet, and has loaded the probes unless
    /// it is one that cannot rehearse.
    fn snapshot(
        &self,
        machine: &MachineConfig,
        spec: &RunSpec,
        cancel: &AtomicBool,
        copy: u8,
    ) -> Result<Arc<Snapshot>, GuestError> {
        let grace = grace(spec);
        let boot = || {
            let files = self.boot_files(machine)?;
            let booted = self.boot(machine, files, grace, cancel);
            booted.map_err(|error| self.explained(error, machine, grace, cancel))
        };
        // A machine whose boot failed twice is not booted again when its probes are to be loaded again; one that has
        // changed meanwhile is.
        let failed = OnceCell::new();
        let booted = || {
            if let Some(error) = failed.get() {
                return Err(GuestError::clone(error));
            }
            let made = self.kept(machine, (&machine.booted_digest, copy), None, &boot);
            made.inspect_err(|error| _ = failed.set(error.clone()))
        };
        if !self.can_rehearse(machine) {
            return booted();
        }
        let rehearsal = encoded_rehearsal(&spec.probes)?;
        let digest = digest(&[machine.booted_digest.as_bytes(), &rehearsal]);
        let load = || {
            let booted = booted()?;
            let files = self.files(&[(REHEARSAL, &rehearsal)])?;
            let state = relative(&booted.state);
            let memory = path_of(&booted.memory).into();
            let from = From::State { state: &state, memory, has_hypervisor: false, stops: true };
            let documents = vec![(GUEST_REHEARSAL_FILE, relative(&files.path(REHEARSAL)))];
            let start = self.start(from, documents, &files, self.patience_to_boot(grace, machine));
            let stopped = self.stop(&start, machine, &files, cancel);
            booted.check()?;
            let mut quiet = stopped?;
            if booted.quiet.time != GuestTime::Exact {
                quiet.time = booted.quiet.time.clone();
            }
            quiet.started_after = booted.quiet.started_after;
            Ok((quiet, files))
        };
        self.kept(machine, (&digest, copy), Some(&spec.probes), &load)
    }

    /// The stopped machine with this digest: one that is known or saved, or else the one that `make` makes. If the host
    /// ended it, it is made once more.
    fn kept(
        &self,
        machine: &MachineConfig,
        (digest, copy): (&str, u8),
        probes: Option<&[String]>,
        make: &dyn Fn() -> Result<(Quiet, GuestFiles), GuestError>,
    ) -> Result<Arc<Snapshot>, GuestError> {
        let slot = {
            let mut snapshots = lock(&self.snapshots);
            Arc::clone(snapshots.entry((digest.to_string(), copy)).or_default())
        };
        // Other threads that need the same snapshot wait here.
        let mut slot = lock(&slot);
        let has_changed =
            |made: &Arc<Snapshot>| made.watch.as_ref().is_some_and(Watch::has_changed);
        if let Some(made) = slot.as_ref().filter(|made| !made.as_ref().is_ok_and(has_changed)) {
            return made.clone();
        }
        // The second copy is compared with the first, so it is always made.
        let saved = self.saved.as_ref().filter(|_| copy == FIRST);
        let snapshot = |quiet, memory, watch, files: GuestFiles| {
            let (digest, state) = (digest.to_string(), files.path(STATE));
            Arc::new(Snapshot { digest, state, memory, watch, quiet, _files: files })
        };
        if let Some(saved) = saved {
            let files = self.files(&[])?;
            match saved.get(digest, &files.path(STATE)) {
                Ok(Some((quiet, memory, watch))) => {
                    let found = snapshot(quiet, memory, Some(watch), files);
                    *slot = Some(Ok(Arc::clone(&found)));
                    return Ok(found);
                }
                Ok(None) => {}
                Err(why) => self.note(why),
            }
        }
        let made = make();
        let made = if made.as_ref().is_err_and(GuestError::is_of_host) { make() } else { made };
        let made = made.and_then(|(quiet, files)| {
            let path = files.path(MEMORY);
            let memory = File::open(&path).map_err(LabError::io("read", &path))?;
            Ok(snapshot(quiet, memory, None, files))
        });
        if let (Some(saved), Ok(made)) = (saved, &made)
            && made.quiet.time == GuestTime::Exact
        {
            self.save(saved, &self.summary(machine, probes), made);
        }
        // If the host ended it, the next caller tries again.
        let is_to_stay =
            |error: &GuestError| !matches!(error, GuestError::Cancelled) && !error.is_of_host();
        if made.as_ref().err().is_none_or(is_to_stay) {
            *slot = Some(made.clone());
        }
        made
    }

    /// Saves a machine for other plans, or says why not.
    fn save(&self, saved: &SavedMachines, summary: &MachineSummary, made: &Snapshot) {
        let Snapshot { digest, quiet, state, memory, .. } = made;
        let why = match self.emulator.replaced() {
            Some(why) => Some(NotSaved::NotKept(why)),
            None => {
                let put = saved.put(digest, (summary, quiet), (state, memory));
                put.err().map(|error| saved.not_kept(&error))
            }
        };
        why.into_iter().for_each(|why| self.note(why));
    }

    pub(super) fn note(&self, why: NotSaved) {
        lock(&self.not_saved).add(why);
    }

    fn summary(&self, machine: &MachineConfig, probes: Option<&[String]>) -> MachineSummary {
        MachineSummary {
            kernel: machine.kernel.kernel.name.clone(),
            cpus: self.lab.cpus,
            memory_bytes: self.lab.memory_bytes,
            arguments: machine.arguments.clone(),
            probes: probes.map(<[String]>::to_vec),
            emulator: self.emulator.version.clone(),
            emulator_digest: self.emulator.digest.clone(),
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
        // An early console prints at once, or not at all.
        let grace = grace / LOUD_PART;
        let again = files.and_then(|files| self.boot(&loud, files, grace, cancel));
        again.err().filter(|again| !again.is_silent()).unwrap_or(error).before_the_boot()
    }

    /// Boots a machine until it is quiet.
    fn boot(
        &self,
        machine: &MachineConfig,
        files: GuestFiles,
        grace: Duration,
        cancel: &AtomicBool,
    ) -> Result<(Quiet, GuestFiles), GuestError> {
        let patience = self.patience_to_boot(grace, machine);
        let mut start = self.start(machine.boot(&files), Vec::new(), &files, patience);
        start.patience_to_start = Some(patience / PATIENCE_TO_BOOT * PATIENCE_TO_START);
        let quiet = self.stop(&start, machine, &files, cancel)?;
        // A first domain always has one CPU.
        if machine.kernel.hypervisor.is_none() {
            mismatch(&self.lab, &quiet.facts)?;
        }
        Ok((quiet, files))
    }

    fn patience_to_boot(&self, grace: Duration, machine: &MachineConfig) -> Duration {
        let parts = self.lab.cpus.div_ceil(4) + machine.guests.len() as u32;
        grace * PATIENCE_TO_BOOT * parts
    }

    /// Runs a guest until it stops its machine, whose state and memory are then in their files.
    fn stop(
        &self,
        start: &Start,
        machine: &MachineConfig,
        files: &GuestFiles,
        cancel: &AtomicBool,
    ) -> Result<Quiet, GuestError> {
        let whole = files.path("whole");
        let stopped = guest::stop_and_save(start, &relative(&whole), cancel)?;
        let time = files.in_step(stopped.pid);
        let parts = machine::memory_parts(&self.lab, machine.kernel.hypervisor.is_some());
        let [state, memory] = [STATE, MEMORY].map(|name| files.path(name));
        memory::divide(&whole, &parts, [&state, &memory])
            .map_err(LabError::io("divide", &whole))?;
        Ok(Quiet { facts: stopped.facts, time, started_after: stopped.started_after })
    }

    fn start(
        &self,
        from: From,
        documents: Vec<(&'static str, PathBuf)>,
        files: &GuestFiles,
        patience: Duration,
    ) -> Start<'_> {
        let (results, console) = (files.path("results"), files.path("console"));
        let lab = match &from {
            From::State { stops: false, .. } => self.lab.clone(),
            _ => booted(&self.lab),
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
            slow: &self.slow,
        }
    }

    /// The machine of a cell.
    pub(super) fn machine_config(&self, cell: &Cell) -> Result<MachineConfig, LabError> {
        let kernel = self.kernel_of(cell)?;
        let (root, files) = self.archives(&kernel.kernel, cell)?;
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
        let booted_digest = digest(&booted(&self.lab))?;
        let digest = with_files(&digest(&self.lab)?, files.as_deref());
        Ok(MachineConfig {
            kernel,
            root,
            files,
            arguments,
            xen_arguments,
            guests,
            booted_digest,
            digest,
        })
    }
}
