//! Why something cannot be counted here.

use std::io;

use crate::model::clean;
use crate::sys::FileError;
use crate::sys::host::error_text;
use crate::sys::perf::Place;

#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path}: `{}` is not what a kernel writes there", clean(.text))]
    Content { path: String, text: String },
    #[error("{0}")]
    Cpus(String),
    #[error("{folder}: no zone is called {zone}")]
    NoZone { folder: &'static str, zone: &'static str },
    /// `paranoid`: the highest kernel.perf_event_paranoid that lets everybody do it.
    #[error("perf_event_open: {}{}", error_text(.source), reason(.source, *.paranoid))]
    Refused { paranoid: i32, source: io::Error },
    #[error("perf events: {}", error_text(.0))]
    Read(io::Error),
}

impl CounterError {
    pub fn refused(place: Place, source: io::Error) -> CounterError {
        let paranoid = match place {
            Place::Task(_) => 1,
            Place::Cpu(_) => 0,
        };
        CounterError::Refused { paranoid, source }
    }
}

fn reason(error: &io::Error, paranoid: i32) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            ": neither CPU nor hypervisor shows such a counter".to_string()
        }
        Some(libc::EACCES) => format!(
            ": needs root (CAP_PERFMON) or a kernel.perf_event_paranoid of at most {paranoid}"
        ),
        Some(libc::EPERM) => {
            ": a container's filter of system calls or the kernel's lockdown refuses it".to_string()
        }
        Some(libc::EMFILE) => ": too few files may be open (hint: ulimit -n)".to_string(),
        _ => String::new(),
    }
}
