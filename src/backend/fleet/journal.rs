//! The arrays that Slurm may have. Each is noted before it is submitted, so that the next schedlab can cancel
//! what a killed one left. So is the folder of a plan before it is made, until something is submitted.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sys::replace::replace;

use super::error::FleetError;
use super::folder::name_part;
use super::slurm::{Slurm, SlurmOptions, one_line};
use crate::sys::input;

const FOLDER: &str = "arrays";

/// The arrays of one plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct Journal {
    pub plan: String,
    /// Names of jobs.
    pub names: Vec<String>,
    /// It is nobody's yet: no task was submitted that uses it.
    #[serde(default)]
    unused: Option<PathBuf>,
    #[serde(skip)]
    path: PathBuf,
}

impl Journal {
    /// Opens a plan's journal with the names that are already in it.
    pub fn open(state: &Path, plan: &str) -> Journal {
        let path = state.join(FOLDER).join(name_part(plan));
        let (plan_id, names, unused) = (plan.to_string(), Vec::new(), None);
        let new = || Journal { plan: plan_id, names, unused, path: path.clone() };
        read(&path).filter(|journal| journal.plan == plan).unwrap_or_else(new)
    }

    /// Notes the folder that is made next.
    pub fn begin(&mut self, folder: &Path) -> Result<(), FleetError> {
        self.unused = std::path::absolute(folder).ok();
        self.write()
    }

    /// Adds a name; the journal is on the disk when this returns.
    pub fn add(&mut self, name: &str) -> Result<(), FleetError> {
        if !self.names.iter().any(|noted| noted == name) {
            self.names.push(name.to_string());
        }
        self.unused = None;
        self.write()
    }

    fn write(&self) -> Result<(), FleetError> {
        let text = serde_json::to_vec(&self)?;
        fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))
            .and_then(|()| replace(&self.path, |out| out.write_all(&text)))
            .map_err(FleetError::io("write", &self.path))
    }

    /// Cancels all of them, and forgets them then.
    pub fn cancel(&mut self, slurm: &Slurm) -> Result<(), FleetError> {
        self.names.iter().try_for_each(|name| slurm.cancel(name))?;
        self.names.clear();
        self.forget();
        Ok(())
    }

    /// If the file stays, its jobs are cancelled once more.
    pub fn forget(&mut self) {
        self.unused = None;
        _ = fs::remove_file(&self.path);
    }
}

fn read(path: &Path) -> Option<Journal> {
    let mut journal: Journal = {
        let text = input::read_file(path, input::MAX_OWN_FILE_BYTES).ok()?;
        serde_json::from_slice(&text).ok()?
    };
    journal.path = path.to_path_buf();
    Some(journal)
}

/// Cancels the arrays of killed schedlabs, and removes the folders of those that had submitted nothing, if `is_left` holds
/// for their plan. Returns a line for each plan.
pub fn cancel_left(state: &Path, is_left: &dyn Fn(&str) -> bool) -> Vec<String> {
    let files = fs::read_dir(state.join(FOLDER)).into_iter().flatten().flatten();
    let left = files.filter_map(|file| read(&file.path()));
    left.filter(|journal| is_left(&journal.plan))
        .map(|mut journal| {
            if let Some(folder) = journal.unused.take() {
                _ = fs::remove_dir_all(&folder);
                _ = fs::remove_file(&journal.path);
                let folder = one_line(&folder.display().to_string());
                return format!("{folder} of a killed run that had submitted nothing: removed");
            }
            let names = one_line(&journal.names.join(", "));
            let ended =
                Slurm::find(SlurmOptions::default()).and_then(|slurm| journal.cancel(&slurm));
            match ended {
                Ok(()) => format!("jobs {names} of a killed run: cancelled"),
                Err(error) => format!("jobs {names} of a killed run: NOT cancelled: {error}"),
            }
        })
        .collect()
}
