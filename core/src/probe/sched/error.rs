//! Why a source of telemetry cannot be had, or failed while it counted.

use std::io;

use crate::sys::FileError;
use crate::sys::schedstat::SchedstatError;

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot list processes: {0}")]
    Processes(String),
    #[error("/proc/{own_pid}/stat cannot be read: is /proc mounted?")]
    NoProc { own_pid: i32 },
    #[cfg(feature = "bpf")]
    #[error(transparent)]
    Bpf(#[from] BpfError),
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
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("no ping-pong: {0}")]
    PingPong(#[from] io::Error),
}
