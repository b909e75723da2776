//! Why a source of telemetry cannot be had, or failed while it counted.

use std::io;

use crate::sys::FileError;
use crate::sys::host::plain;
use crate::sys::schedstat::SchedstatError;
use crate::sys::tracefs::TracefsError;

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot list processes: {0}")]
    Processes(String),
    #[error("/proc/{own_pid}/stat cannot be read: is /proc mounted?")]
    NoProc { own_pid: i32 },
    #[error("{0}")]
    CpusOnline(String),
    #[error("kernel: tracepoints number tasks otherwise than this container (pid namespace)")]
    PidNamespace,
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("{what}: {}, CPU {cpu}", plain(.source))]
    PerfEvent { what: &'static str, cpu: u32, cpus: usize, source: io::Error },
    #[error("perf events: {}", plain(.0))]
    PerfEnable(io::Error),
    #[error("no thread that reads perf records: {}", plain(.0))]
    NoReader(io::Error),
    #[error("the thread that reads perf records has ended")]
    ReaderEnded,
    #[cfg(feature = "bpf")]
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// A tracepoint of this kernel without a field that the probe reads.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    #[error("{tracepoint}: `{field}` has {bytes} bytes")]
    Size { tracepoint: &'static str, field: &'static str, bytes: usize },
    #[error("{tracepoint}: this kernel's tracepoint has no field `{field}`")]
    None { tracepoint: &'static str, field: &'static str },
}

#[cfg(feature = "bpf")]
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    #[error("needs root (CAP_BPF and CAP_PERFMON): {what}: EPERM")]
    NotPermitted { what: &'static str },
    #[error("refused to root, as by kernel lockdown or in a container: {what}: EPERM")]
    RefusedToRoot { what: &'static str },
    #[error("this kernel has no BTF: {path} is not there (built without CONFIG_DEBUG_INFO_BTF)")]
    NoBtf { path: &'static str },
    #[error("the BTF of this kernel cannot be read: {path}: {source}")]
    Btf { path: &'static str, source: libbpf_rs::Error },
    #[error("this kernel has no tracepoints for BPF (built without CONFIG_BPF_EVENTS)")]
    NoEvents,
    #[error("this kernel has no storage of tasks for BPF (Linux 5.11 has)")]
    NoTaskStorage,
    #[error("this kernel has no BPF (built without CONFIG_BPF_SYSCALL)")]
    NoSyscall,
    /// `log`: what libbpf wrote about it, in brackets.
    #[error("{what}: {source}{log}")]
    Load { what: &'static str, source: libbpf_rs::Error, log: String },
    #[error("cannot attach `{program}`: {source}")]
    Attach { program: String, source: libbpf_rs::Error },
    #[error("cannot read or write the map `{map}`: {source}")]
    Map { map: String, source: libbpf_rs::Error },
    #[error("cannot walk through the tasks: {0}")]
    Walk(libbpf_rs::Error),
    #[error("cannot read the tasks: {0}")]
    Read(io::Error),
    /// The programs and this code do not belong together.
    #[error("the BPF programs have no {what} `{name}`")]
    Lacks { what: &'static str, name: String },
}

#[cfg(feature = "bpf")]
impl BpfError {
    pub fn map(name: &str) -> impl FnOnce(libbpf_rs::Error) -> BpfError {
        let map = name.to_string();
        move |source| BpfError::Map { map, source }
    }
}

/// Too many open files, in this process.
const EMFILE: i32 = 24;
const EACCES: i32 = 13;

impl SourceError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SourceError::PerfEvent { cpus, source, .. }
                if source.raw_os_error() == Some(EMFILE) =>
            {
                Some(format!("ulimit -n {}", 8 * cpus + 256))
            }
            SourceError::Tracefs(error) => error.hint().map(str::to_string),
            SourceError::PerfEvent { source, .. } if source.raw_os_error() == Some(EACCES) => {
                Some("sysctl kernel.perf_event_paranoid=-1, or as root".to_string())
            }
            _ => None,
        }
    }

    /// The error on one line, with the hint.
    pub fn describe(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self} (hint: {hint})"),
            None => self.to_string(),
        }
    }
}

/// Why load balancing is not counted.
#[derive(Debug, thiserror::Error)]
pub enum DomainsError {
    #[error("load balancing is not counted: {0}")]
    File(#[from] FileError),
    #[error(
        "load balancing is not counted: {switch} is 0 (hint: sysctl kernel.sched_schedstats=1)"
    )]
    Off { switch: &'static str },
    #[error("load balancing is not counted: {file}: {source}")]
    Content { file: &'static str, source: SchedstatError },
    #[error("load balancing is not counted: {0}")]
    Rebuilt(SchedstatError),
}

/// Why the cost of a source is not known.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    #[error("{}", .0.describe())]
    Source(#[from] SourceError),
    #[error("no ping-pong: {0}")]
    PingPong(#[from] io::Error),
}
