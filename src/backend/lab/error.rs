//! Errors of the lab: before a guest starts ([`LabError`]), and with one guest ([`GuestError`]).

use std::borrow::Cow;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::backend::BackendError;
use crate::exec::XenError;
use crate::model::Advice;
use crate::model::{CpuSet, GuestFacts, ValueError, clean, quoted};
use crate::sys::child;
use crate::variant::Missing;
use crate::variant::scx::SchedulerError;
use crate::workload::WorkloadError;

use super::failed::ConsoleEnd;
use super::kernel::KernelError;
use super::machine::QEMU;
use super::shared::CacheError;
use crate::sys::{input, remedy};

/// Why a guest cannot be started. `action` completes "cannot ...".
#[derive(Debug, Error)]
pub enum LabError {
    /// A file of schedlab's own, or a program that it starts.
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A file that guests are made from, which plans name, too.
    #[error("cannot read {}: {source}", path.display())]
    Input { path: PathBuf, source: io::Error },
    #[error("{} cannot come into a guest: its kernel has a {folder} of its own", path.display())]
    KernelsFile { path: PathBuf, folder: &'static str },
    #[error(
        "the programs of a run and their files have {bytes} bytes; the guest has room for {limit}"
    )]
    TooMany { bytes: u64, limit: u64 },
    /// The system's reason why it knows no home folder.
    #[error("cannot find the folder of the cache: {0}")]
    NoHome(String),
    /// The value of a variable of the environment.
    #[error("{variable}: {}", why.message)]
    MachineLimit { variable: &'static str, why: ValueError },
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("{knob} is for a kernel with a hypervisor, as xen:4.17 is; {kernel} has none")]
    NoHypervisor { knob: String, kernel: String },
    #[error("this Xen has no parameter `{word}` (xen-args)")]
    NoXenWord { word: String },
    #[error("{} is not a hypervisor: {why}", path.display())]
    NotXen { path: PathBuf, why: &'static str },
    #[error("{kernel} cannot be a guest of Xen: it was built without CONFIG_XEN_PV")]
    NoXenPv { kernel: String },
    #[error(transparent)]
    Guests(#[from] XenError),
    #[error("kernels of the plan are not in the cache {}: {}", cache.display(), names.join(", "))]
    NoKernels { names: Vec<String>, cache: PathBuf },
    #[error("cannot pack {} for guests: {source}", path.display())]
    Program { path: PathBuf, source: ProgramError },
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    #[error("CPUs {cpus} cannot be taken off: {why}")]
    Offline { cpus: CpuSet, why: String },
    #[error("the kernel {kernel} cannot have it: {}", messages(missing))]
    Lacking { kernel: String, missing: Vec<Missing> },
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("cannot encode what a guest is sent: {0}")]
    Encode(#[from] serde_json::Error),
    #[error(transparent)]
    SharedCache(#[from] CacheError),
}

fn messages(missing: &[Missing]) -> String {
    missing.iter().map(|one| one.message.as_str()).collect::<Vec<_>>().join("; ")
}

impl LabError {
    /// Whether this machine is at fault, and the same may succeed another time.
    pub fn is_of_host(&self) -> bool {
        match self {
            // The output is too large, which is the guest's fault.
            Self::Io { source, .. } => !input::is_wrong_file(source),
            Self::Input { source, .. }
            | Self::Kernel(KernelError::Io { source, .. } | KernelError::Given { source, .. })
            | Self::Program { source: ProgramError::Loader { source, .. }, .. } => {
                input::may_pass(source)
            }
            _ => false,
        }
    }

    pub fn input(path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_path_buf();
        move |source| LabError::Input { path, source }
    }

    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_path_buf();
        move |source| LabError::Io { action, path, source }
    }
}

impl From<LabError> for BackendError {
    fn from(error: LabError) -> Self {
        BackendError::own(error)
    }
}

impl Advice for LabError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::Io { path, source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                let path = clean(&quoted(&path.to_string_lossy()));
                format!("a folder has to be there, or nothing: ls -ld {path}").into()
            }
            Self::Io { action: "write" | "make the folder", path, source } => {
                remedy::write(path, source).into()
            }
            Self::Io { path, source, .. } => remedy::read(path, source).into(),
            Self::Encode(_) => return None,
            Self::Input { path, source } => remedy::read(path, source).into(),
            Self::KernelsFile { .. } => "leave it out of `files`".into(),
            Self::TooMany { .. } => {
                "more memory (memory = \"2GiB\" in [lab]), or fewer `files`".into()
            }
            Self::NoHome(_) => "set HOME or XDG_CACHE_HOME".into(),
            Self::MachineLimit { why, .. } => why.hint.as_str().into(),
            Self::Emulator(error) => return error.hint(),
            Self::Kernel(error) => return error.hint(),
            Self::Offline { .. } => "others from 1 on, or `cpus` in [lab]".into(),
            Self::NoKernels { names, .. } => {
                format!("schedlab kernel get {}", names.join(" ")).into()
            }
            Self::Guests(XenError::NoXen) | Self::NoHypervisor { .. } => {
                "kernel = \"xen:4.17\", from: schedlab kernel get xen:4.17".into()
            }
            // They say it themselves.
            Self::Guests(_) => return None,
            Self::NoXenWord { .. } => {
                "the page xen-command-line of Xen's documentation has them".into()
            }
            Self::NotXen { .. } => {
                "xen takes the xen.gz or xen that a boot loader gets; leave it out for Debian's"
                    .into()
            }
            Self::NoXenPv { .. } => {
                "leave guest-kernel out, or name one of Debian's: debian:6.1".into()
            }
            Self::Program { path, source } => source.hint(path).into(),
            Self::Scheduler(error) => return error.hint(),
            Self::Lacking { missing, .. } => missing.first()?.hint.as_str().into(),
            Self::Workload(error) => return error.hint(),
            Self::SharedCache(error) => return error.hint(),
        })
    }

    fn is_usage(&self) -> bool {
        match self {
            Self::Kernel(error) => error.is_usage(),
            Self::SharedCache(_) | Self::MachineLimit { .. } => true,
            Self::Scheduler(error) => error.is_usage(),
            Self::Io { source, .. } => input::is_wrong_file(source),
            Self::Input { source, .. } => !input::may_pass(source),
            _ => false,
        }
    }
}

/// Why no emulator can be used.
#[derive(Debug, Error)]
pub enum EmulatorError {
    #[error("{QEMU} cannot be started: it is in no folder of PATH")]
    NotFound,
    #[error("{} cannot be started: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("{QEMU} --version prints nothing")]
    NoVersion,
    #[error("{QEMU} {question} does not end in {} s of CPU time", patience.as_secs_f64())]
    Hangs { question: String, patience: Duration },
    #[error("{QEMU} {question} ended with {status}")]
    Failed { question: String, status: ExitStatus },
    #[error("QEMU {version} is too old: it cannot write a machine's state to a file")]
    TooOld { version: String },
}

impl Advice for EmulatorError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(
            "install it: apt-get install qemu-system-x86 (version 8.2 or newer; on Debian 12 from \
         bookworm-backports)",
        ))
    }
}

/// Why a program cannot be packed.
#[derive(Debug, Error)]
pub enum ProgramError {
    #[error("it is not a 64-bit ELF program: {0}")]
    NotElf(object::Error),
    #[error("the loader {} cannot be started: {source}", loader.display())]
    Loader { loader: PathBuf, source: io::Error },
    /// With the loader's own line.
    #[error("a library is missing: {0}")]
    NoLibrary(String),
    #[error("{} --list ended with {status}: {complaint}", loader.display())]
    NotLoaded { loader: PathBuf, status: ExitStatus, complaint: String },
}

impl ProgramError {
    pub fn hint(&self, program: &Path) -> String {
        let program = program.display();
        match self {
            Self::NotElf(_) => format!("guests have no shell and no interpreters: file {program}"),
            _ => format!("build it static, or see: ldd {program}"),
        }
    }
}

/// Why a guest gave no result. Copies of a machine that could not be booted share the reason.
#[derive(Debug, Clone, Error)]
pub enum GuestError {
    #[error("cancelled")]
    Cancelled,
    #[error("{fault}{}", end_of(console))]
    Failed { fault: Arc<GuestFault>, console: Option<ConsoleEnd> },
}

impl<F: Into<GuestFault>> From<F> for GuestError {
    fn from(fault: F) -> Self {
        GuestError::Failed { fault: Arc::new(fault.into()), console: None }
    }
}

impl GuestError {
    /// Where its console is kept.
    pub fn console(&self) -> Option<&Path> {
        match self {
            GuestError::Failed { console, .. } => console.as_ref()?.path(),
            GuestError::Cancelled => None,
        }
    }

    /// Whether there is nothing on its console.
    pub fn is_silent(&self) -> bool {
        let is_empty = |end: &ConsoleEnd| end.last_lines.is_empty();
        matches!(self, GuestError::Failed { console: Some(end), .. } if is_empty(end))
    }

    /// The same of a kernel that had not started its first process.
    pub fn before_the_boot(self) -> GuestError {
        match self {
            GuestError::Failed { fault, console } => {
                GuestError::Failed { fault: Arc::new(GuestFault::NotBooted(fault)), console }
            }
            GuestError::Cancelled => self,
        }
    }

    /// Whether this host is at fault: the same guest may run another time.
    pub fn is_of_host(&self) -> bool {
        matches!(self, GuestError::Failed { fault, .. } if fault.is_of_host())
    }

    /// Whether KVM is at fault: the same guest may run emulated.
    pub fn is_of_kvm(&self) -> bool {
        matches!(self, GuestError::Failed { fault, .. } if matches!(**fault, GuestFault::Kvm { .. }))
    }
}

fn end_of(console: &Option<ConsoleEnd>) -> String {
    console.as_ref().map(ConsoleEnd::to_string).unwrap_or_default()
}

#[derive(Debug, Error)]
pub enum GuestFault {
    #[error("{}", .0.reason())]
    Lab(#[from] LabError),
    #[error("QEMU has no pipes")]
    NoPipes,
    #[error("cannot wait for QEMU: {0}")]
    Wait(io::Error),
    /// With QEMU's own last words, on one line.
    #[error("QEMU ended with {status}{}", after_colon(complaint))]
    Ended { status: ExitStatus, complaint: String },
    /// With QEMU's own words.
    #[error("KVM cannot run the guest: {complaint}")]
    Kvm { complaint: String },
    /// The fault came before the first process.
    #[error("the kernel does not boot: {0}")]
    NotBooted(Arc<GuestFault>),
    /// With the kernel's own words.
    #[error("the guest's kernel gave up: {0}")]
    KernelPanic(String),
    #[error("the guest's console has more than {mib} MiB")]
    ConsoleFull { mib: u64 },
    #[error("the guest did not {what} within {} s of CPU time", limit.as_secs())]
    Late { what: &'static str, limit: Duration },
    #[error("this host gave QEMU next to no CPU for {minutes} min")]
    NoCpu { minutes: u64 },
    /// With QEMU's own words.
    #[error("cannot save the machine's state: {0}")]
    NotSaved(String),
    #[error("the saved machine {} changed while it was used", .0.display())]
    Changed(PathBuf),
    #[error("line {line} of the guest's output: {}", clean(&source.to_string()))]
    Line { line: usize, source: serde_json::Error },
    #[error("the guest speaks wire version {0}")]
    Wire(u32),
    #[error("the guest's output has no end")]
    NoEnd,
    #[error("the guest stopped before it was ready")]
    NotReady,
    /// A guest ended instead of stopping, with the agent's own reason.
    #[error("{}", clean(.0))]
    Agent(String),
    #[error("the guest had a run before it had a spec")]
    UnexpectedRun,
    #[error("not exact: {0}")]
    NotExact(Difference),
    #[error(transparent)]
    OtherMachine(#[from] Mismatch),
}

/// QEMU prints this when it is asked to end.
const TERMINATING: &str = "terminating on signal";

impl GuestFault {
    /// Whether this host ended the guest or had no room for it: neither the plan nor the kernel is at fault.
    fn is_of_host(&self) -> bool {
        match self {
            Self::Lab(error) => error.is_of_host(),
            Self::NoPipes | Self::Wait(_) | Self::NoCpu { .. } => true,
            Self::NotSaved(_) | Self::Changed(_) => true,
            Self::Ended { status, complaint } => {
                // It maps the memory of its guest from a file, which a disk may fail to read.
                child::is_ended_from_outside(*status)
                    || status.signal() == Some(libc::SIGBUS)
                    || complaint.contains(TERMINATING)
            }
            Self::NotBooted(fault) => fault.is_of_host(),
            _ => false,
        }
    }
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// The first difference between two guests that should be equal.
#[derive(Debug, PartialEq, Error)]
pub enum Difference {
    /// The facts of both machines at the time when they were quiet.
    #[error("two boots differ: {:?} and {:?}", .0[0], .0[1])]
    Boots([Option<Box<GuestFacts>>; 2]),
    /// The position where their output differs, and the text around it.
    #[error(
        "two runs differ at byte {byte} (line {line}): `{}` and `{}`", around[0], around[1]
    )]
    Output { byte: usize, line: usize, around: [String; 2] },
}

/// A guest's kernel found a machine that differs from the configured one.
#[derive(Debug, PartialEq, Error)]
pub enum Mismatch {
    #[error("the guest's {what} are {}, asked for {}", list(found), list(asked))]
    Cpus { what: &'static str, asked: Vec<CpuSet>, found: Vec<CpuSet> },
    #[error("the guest's {what} is {found}, asked for {asked}")]
    Number { what: &'static str, asked: u32, found: u32 },
}

fn list(groups: &[CpuSet]) -> String {
    groups.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_missing_are_fetched_by_one_command() {
        let names = ["debian:6.1", "debian:6.12"].map(str::to_string).to_vec();
        let error = LabError::NoKernels { names, cache: "/c".into() };
        assert_eq!(error.hint().unwrap(), "schedlab kernel get debian:6.1 debian:6.12");
        assert!(error.to_string().ends_with("/c: debian:6.1, debian:6.12"), "{error}");
        assert!(!error.is_usage());
    }

    #[test]
    fn what_a_plan_names_is_no_fault_of_the_host() {
        use io::ErrorKind::{FileTooLarge, NotFound, PermissionDenied};
        let is_of_host = |error: LabError| GuestError::from(error).is_of_host();
        let path = Path::new("/file");
        for kind in [NotFound, PermissionDenied, FileTooLarge] {
            assert!(!is_of_host(LabError::input(path)(kind.into())), "{kind:?}");
            assert!(is_of_host(LabError::io("write", path)(kind.into())), "{kind:?}");
        }
        let passing = [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::EINTR, libc::EAGAIN];
        for errno in passing {
            let error = io::Error::from_raw_os_error(errno);
            assert!(is_of_host(LabError::input(path)(error)), "{errno}");
        }
    }

    #[test]
    fn a_guest_that_failed_says_why_and_what_to_do() {
        let fault = LabError::input(Path::new("/file"))(io::ErrorKind::NotFound.into());
        let text = GuestError::from(fault).to_string();
        assert!(text.starts_with("cannot read /file: "), "{text}");
        assert!(text.contains("; hint: "), "{text}");
    }
}
