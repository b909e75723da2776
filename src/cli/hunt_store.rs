//! Memory of hunts: cases as stored plans with a tag, and for `--resume` how far each hunt of a folder is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::model::{SampledPlan, clean_path};
use crate::session::{self, PlanSource, PlanText, Preparation, Request, SessionError};
use crate::store::Note;
use crate::sys::replace::replace;
use crate::sys::{clock, input};

use super::Failure;

/// Stored plans that are cases of hunts have it.
pub const TAG: &str = "hunt";
const FILE: &str = "hunts.json";
const MAX_BYTES: u64 = 1 << 20;

/// Measures a case as a plan that is stored, tagged, with a note: its runs are cached, so that this takes no time.
pub fn store_case(text: String, note: String) -> Result<(), Failure> {
    let text = PlanText::new("schedlab hunt", text);
    let backend = Some(SampledPlan::LAB.to_string());
    let request = Request { plan: PlanSource::Text(text), backend, ..Request::default() };
    let Preparation::Ready(prepared) = session::prepare(request)? else { return Ok(()) };
    // An interrupted hunt keeps what it has found.
    let mut finished = session::execute(*prepared, &AtomicBool::new(false), &mut ())?;
    let id = finished.started.id.as_str();
    finished.store.tag(id, TAG)?;
    let note = Note { written_unix_ns: clock::unix_ns(), text: note };
    Ok(finished.store.add_note(id, &note)?)
}

/// Scenarios that hunts into a folder have had, by their arguments.
pub struct Progress {
    path: PathBuf,
    arguments: String,
    done: BTreeMap<String, u64>,
}

impl Progress {
    pub fn open(folder: &Path, arguments: String) -> Result<Progress, Failure> {
        let path = folder.join(FILE);
        let done = match input::read_file(&path, MAX_BYTES) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|why| {
                let text = format!("{} does not say how far hunts are: {why}", clean_path(&path));
                Failure::here(text, format!("rm {}", crate::model::quoted(&path.to_string_lossy())))
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                let text = format!("cannot read {}: {error}", clean_path(&path));
                return Err(Failure::here(text, "-o FOLDER"));
            }
        };
        Ok(Progress { path, arguments, done })
    }

    /// Scenarios of the hunts of the same arguments before.
    pub fn done(&self) -> u64 {
        self.done.get(&self.arguments).copied().unwrap_or(0)
    }

    /// A hunt that begins anew has fewer for a while.
    pub fn write(&mut self, done: u64) -> Result<(), Failure> {
        self.done.insert(self.arguments.clone(), done.max(self.done()));
        let written = replace(&self.path, |out| {
            serde_json::to_writer_pretty(&mut *out, &self.done)?;
            out.write_all(b"\n")
        });
        written.map_err(|error| SessionError::unwritten(&self.path, &error).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunt_goes_on_where_the_last_one_of_the_same_arguments_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let open = |arguments: &str| Progress::open(dir.path(), arguments.to_string());
        let mut first = open("debian:6.18, 4x2, seed 1").unwrap();
        assert_eq!(first.done(), 0);
        first.write(16).unwrap();
        first.write(32).unwrap();
        first.write(16).unwrap();
        assert_eq!(open("debian:6.18, 4x2, seed 1").unwrap().done(), 32);
        assert_eq!(open("debian:6.18, 4x2, seed 2").unwrap().done(), 0);
        std::fs::write(dir.path().join(FILE), "no").unwrap();
        let error = open("x").err().unwrap().to_string();
        assert!(error.contains("does not say how far") && error.contains("rm "), "{error}");
    }
}
