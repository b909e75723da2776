//! The report of a large `.bench` file: 1,000 runs of 100 workers with 10 windows each.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use schedlab::compat::CompatError;
use schedlab::compat::schedbench::{Averages, BenchFile, read_text, text};

use crate::{Figures, Reach, Row, Shared, alone, of_status};

pub const TIME: Row =
    Row::once("schedbench: a file of 1,000,000 windows, reported", "s", Reach::Below(1.0), || {
        Ok(measured()?[0])
    });

pub const MEMORY: Row =
    Row::once("schedbench: peak memory of that", "MB", Reach::Below(300.0), || Ok(measured()?[1]));

const RUNS: usize = 1_000;
const WORKERS: usize = 100;
/// A window lies between two of them.
const REPORTS: u64 = 11;

pub const LARGE: &str = "a large .bench file";

fn measured() -> Figures {
    static MEASURED: Shared<Result<Vec<f64>, String>> = Shared::empty();
    MEASURED.get(|| alone(LARGE))
}

/// Seconds and peak megabytes of reading the file from the page cache and reporting it.
pub fn large() -> Figures {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = scratch.path().join("large.bench");
    generate(&path).map_err(|error| error.to_string())?;
    // Resets the peak, which was that of writing it.
    fs::write("/proc/self/clear_refs", "5").map_err(|error| error.to_string())?;
    let began = Instant::now();
    report(&path).map_err(|error| error.to_string())?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(vec![seconds, peak_megabytes().ok_or("no VmHWM in /proc/self/status")?])
}

fn report(path: &Path) -> Result<(), CompatError> {
    let source = read_text(path)?;
    let figures = BenchFile::parse(&source, path)?.figures(Averages::Right)?;
    let written = text::write(&mut io::sink(), &figures, 0, Averages::Right);
    written.map_err(|error| CompatError::here(error.to_string(), ""))
}

pub fn peak_megabytes() -> Option<f64> {
    of_status("self", "VmHWM:").map(|kib| kib * 1024.0 / 1e6)
}

/// Laid out as the original lays it out.
fn generate(path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let set = "{\"Params\":{\"Args\":[\"burnwait\",\"70\",\"200000\"]},\
               \"Config\":{\"Pool\":\"\",\"SoftAffinity\":\"\"},\"Count\":50}";
    write!(out, "{{\"Pool\":\"\",\"SoftAffinity\":\"\",\"RunConfig\":{{\"Scheduler\":\"\",")?;
    write!(out, "\"Pool\":\"\",\"Cpus\":null}},\"Runs\":[")?;
    for run in 0..RUNS {
        let comma = if run == 0 { "" } else { "," };
        write!(out, "{comma}{{\"Label\":\"run {run}\",\"WorkerSets\":[{set},{set}],")?;
        write!(out, "\"SoftAffinity\":\"\",\"Scheduler\":\"credit\",\"Cpus\":null,")?;
        write!(out, "\"RuntimeSeconds\":10,\"Completed\":true,\"Results\":{{\"Raw\":[")?;
        for at in 0..REPORTS {
            for worker in 0..WORKERS {
                let comma = if at == 0 && worker == 0 { "" } else { "," };
                let (set, id) = (worker / 50, worker % 50);
                let now_ns = 1_000_123_456 * at + 12_345 * worker as u64 + 1;
                let (kops, cputime_ns) = (70_000 * at, 654_321_987 * at);
                write!(out, "{comma}{{\"Id\":{{\"Set\":{set},\"Id\":{id}}},\"Now\":{now_ns},")?;
                write!(out, "\"Kops\":{kops},\"MaxDelta\":123456,\"Cputime\":{cputime_ns}}}")?;
            }
        }
        write!(out, "]}}}}")?;
    }
    write!(out, "]}}")?;
    out.flush()
}
