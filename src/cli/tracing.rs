//! `schedlab score --trace`: the options, and the file.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::model::{Trace, clean_path, duration_ns, show_bytes};
use crate::report::score;
use crate::session::SessionError;
use crate::sys::remedy;
use crate::sys::replace::NewFile;

use super::{Failure, terminal};

#[derive(Args)]
pub struct TraceArgs {
    /// Writes the last seconds, event by event, as a trace for the Perfetto UI
    /// (https://ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// How far back the trace goes
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "trace")]
    trace_for: String,
}

/// The file that a trace goes to.
pub struct TraceFile {
    file: NewFile,
    path: String,
    pub trace_ns: u64,
}

impl TraceArgs {
    /// `None`: none is wanted.
    pub fn open(&self) -> Result<Option<TraceFile>, Failure> {
        let Some(path) = &self.trace else { return Ok(None) };
        let trace_ns = duration_ns(&self.trace_for)
            .map_err(|wrong| SessionError::option("--trace-for", wrong))?;
        if trace_ns == 0 {
            let text = "--trace-for: 0 leaves nothing to trace";
            return Err(Failure::usage(text, "--trace-for 10s"));
        }
        Ok(Some(TraceFile { file: begin(path)?, path: clean_path(path), trace_ns }))
    }
}

/// The file of `--trace`, before anything is counted.
pub fn begin(path: &Path) -> Result<NewFile, Failure> {
    NewFile::begin(path).map_err(|error| {
        let text = format!("--trace: cannot write {}: {error}", clean_path(path));
        Failure::here(text, remedy::write(path, &error))
    })
}

impl TraceFile {
    /// Writes the trace, and reports what is in it or why there is none.
    pub fn write(mut self, trace: Option<&Trace>, source: Option<&str>) -> Result<(), Failure> {
        let path = &self.path;
        let Some(trace) = trace else {
            let why = match source {
                Some(source) => format!("the source {source} has none"),
                None => "nothing was counted".to_string(),
            };
            terminal::message(&format!("warning: no trace, {path} is not written: {why}"));
            return Ok(());
        };
        let written = score::perfetto(trace, &mut self.file).and_then(|()| self.file.finish());
        written.map_err(|error| {
            let text = format!("cannot write the trace {path}: {error}");
            Failure::here(text, remedy::write(Path::new(path), &error))
        })?;
        let seconds = (trace.to_ns - trace.from_ns) as f64 / 1e9;
        let events = trace.events.len();
        let memory = show_bytes(trace.recorder_bytes);
        terminal::message(&format!(
            "trace     {path}: {events} events of {seconds:.3} s, kept in {memory} of memory; for \
             https://ui.perfetto.dev"
        ));
        Ok(())
    }
}
