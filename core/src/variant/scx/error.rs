//! Why a sched_ext scheduler cannot be attached, did not last or does not go.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::Advice;
use crate::sys::host::error_text;
use crate::sys::{FileError, input};
use crate::variant::hints::AS_ROOT;

use super::scheduler::{BTF, Exit, STATE, Scheduler};

#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    #[error("this kernel has no sched_ext ({0})")]
    NoSchedExt(FileError),
    #[error("sched_ext is {state} already: {ops}")]
    Another { state: String, ops: String },
    #[error("a sched_ext scheduler needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN")]
    NotPermitted,
    #[error("this schedlab was built without BPF, so it cannot load {0}")]
    NotBuilt(Scheduler),
    #[error("this kernel has no BTF ({BTF})")]
    NoBtf,
    #[error(transparent)]
    NoFile(FileError),
    #[error("{} is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    #[error("{scheduler}: {}", error_text(.source))]
    NotStarted { scheduler: Scheduler, source: io::Error },
    /// `log`: the last line that libbpf wrote about it, in brackets.
    #[cfg(feature = "bpf")]
    #[error("the scheduler {scheduler} {what}: {source}{log}")]
    NotLoaded { scheduler: Scheduler, what: &'static str, source: libbpf_rs::Error, log: String },
    #[cfg(feature = "bpf")]
    #[error("{0} needs one `struct sched_ext_ops`, and no other operations")]
    NoOperations(Scheduler),
    #[cfg(feature = "bpf")]
    #[error("the kernel threw {scheduler} out while it began{}", kernel(.exit.as_deref()))]
    ThrownOut { scheduler: Scheduler, exit: Option<Box<Exit>> },
    #[error("{scheduler} ended before it was attached ({how})")]
    EndedEarly { scheduler: Scheduler, how: String },
    #[error("{scheduler} is not attached after {} s: {STATE} is {state}", .limit.as_secs_f64())]
    Late { scheduler: Scheduler, limit: Duration, state: String },
    /// `left`: it could not be detached either.
    #[error("{cause}{}{}", wrote(.output), after(.left.as_deref()))]
    NotAttached { cause: Box<SchedulerError>, output: String, left: Option<Box<SchedulerError>> },
    #[error(
        "the scheduler {name} did not last: {what}{}{}",
        kernel(.exit.as_deref()), wrote(.output)
    )]
    DidNotLast { name: String, what: String, exit: Option<Box<Exit>>, output: String },
    #[error("sched_ext is still {state} after {} s: {ops}", .after.as_secs_f64())]
    Still { state: String, ops: String, after: Duration },
}

impl SchedulerError {
    pub fn no_file(path: &Path, source: io::Error) -> SchedulerError {
        SchedulerError::NoFile(FileError { path: path.to_path_buf(), source })
    }
}

fn wrote(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; it wrote: {output}") }
}

fn after(left: Option<&SchedulerError>) -> String {
    left.map_or(String::new(), |left| format!("; {left}"))
}

fn kernel(exit: Option<&Exit>) -> String {
    exit.map_or(String::new(), |exit| format!("; the kernel: {exit}"))
}

impl Advice for SchedulerError {
    fn is_usage(&self) -> bool {
        match self {
            SchedulerError::NoFile(error) => !input::may_pass(&error.source),
            SchedulerError::NotExecutable(_) => true,
            _ => false,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            SchedulerError::NoSchedExt(_) | SchedulerError::NoBtf => {
                "run under a kernel that has it: schedlab kernel get debian:6.18"
            }
            SchedulerError::Another { .. } | SchedulerError::Still { .. } => {
                "stop the program that attached it, or Alt-SysRq-S"
            }
            SchedulerError::NotPermitted => AS_ROOT,
            #[cfg(feature = "bpf")]
            SchedulerError::ThrownOut { .. } => "its reason: dmesg | grep sched_ext",
            SchedulerError::NotBuilt(_) => "cargo build --release --features bpf",
            SchedulerError::NotAttached { cause, .. } => return cause.hint(),
            #[cfg(feature = "bpf")]
            SchedulerError::NotLoaded { scheduler: Scheduler::Own(_), .. } => {
                "on which kernels it was tried: schedlab help lab"
            }
            #[cfg(feature = "bpf")]
            SchedulerError::NotLoaded { .. } | SchedulerError::NoOperations(_) => {
                "how such a file is made: schedlab help scx"
            }
            _ => {
                "give the path of a program that attaches a sched_ext scheduler until SIGINT, or of a *.bpf.o"
            }
        }))
    }
}
