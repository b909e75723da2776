//! The nodes of a cluster that a session may use, and what killed sessions left there.

use std::path::PathBuf;

use crate::backend::fleet::{self, Fleet, FleetConfig, FleetError, HostsConfig, SlurmOptions};
use crate::backend::{self, Backend, BackendError};
use crate::engine::Job;
use crate::sys;

use super::request::{FleetRequest, Request};
use super::{Database, Notice, SessionError, running};

impl FleetRequest {
    /// Where fleets have their folders.
    fn folder(&self) -> Result<PathBuf, SessionError> {
        match &self.folder {
            Some(folder) => Ok(folder.clone()),
            None => Ok(fleet::default_folder().map_err(BackendError::from)?),
        }
    }

    fn slurm(&self, sbatch: &[String]) -> SlurmOptions {
        let FleetRequest { nodes, partition, account, .. } = self.clone();
        SlurmOptions { nodes, partition, account, more: sbatch.to_vec() }
    }

    /// The configuration of a fleet whose hosts are measured.
    pub(super) fn hosts(&self, id: &str, request: &Request) -> Result<HostsConfig, SessionError> {
        Ok(HostsConfig {
            id: id.to_string(),
            state: sys::state_dir()?,
            folder: self.folder()?,
            slurm: self.slurm(&request.sbatch),
            say: teller(&request.db),
            quiet: request.quiet,
        })
    }
}

fn teller(db: &Database) -> Box<dyn Fn(&str)> {
    let db = db.clone();
    Box::new(move |line| db.notify(&Notice::Fleet(line)))
}

/// The backend, or the fleet that is asked for before it.
pub(super) fn over(
    request: &Request,
    backend: Box<dyn Backend>,
    job: &Job,
) -> Result<Box<dyn Backend>, SessionError> {
    let Some(asked) = &request.fleet else { return Ok(backend) };
    if request.lab.cache.is_some() {
        let text = "--cache: the nodes of a fleet do not ask a shared cache";
        return Err(SessionError::usage(text, "leave it out, or run without --fleet"));
    }
    let started = &job.started;
    let touches_machine =
        backend::find(&started.backend).is_none_or(|entry| entry.capabilities.touches_machine);
    if touches_machine {
        let text = "--fleet: a run of the backend `local` is of one host, which no other can \
                    answer for";
        let hint = "schedlab run PLAN --fleet slurm,exclusive measures each host";
        return Err(SessionError::usage(text, hint));
    }
    if started.plan.lab.realtime {
        let text = "--fleet: real time is that of one host, and nodes would be mixed";
        return Err(SessionError::usage(text, "the same without --realtime"));
    }
    let config = FleetConfig {
        plan: started.id.clone(),
        state: sys::state_dir()?,
        folder: asked.folder()?,
        backend: started.backend.clone(),
        lab: started.plan.lab.clone(),
        mode: request.lab.mode,
        slurm: asked.slurm(&request.sbatch),
        say: teller(&request.db),
        quiet: request.quiet,
    };
    Ok(Box::new(Fleet::new(backend, config).map_err(BackendError::from)?))
}

/// Cancels the jobs of killed schedlabs; a line for each plan.
pub fn cancel_left() -> Result<Vec<String>, SessionError> {
    let state = sys::state_dir()?;
    Ok(fleet::cancel_left(&state, &|plan| !running::is_running(&state, plan)))
}

/// Cancels what a killed schedlab left of a plan that goes on without a fleet, or is removed.
pub fn leave(id: &str, db: &Database) -> Result<(), SessionError> {
    let state = sys::state_dir()?;
    let is_left = |plan: &str| plan == id && !running::is_running(&state, plan);
    let lines = fleet::cancel_left(&state, &is_left);
    lines.iter().for_each(|line| db.notify(&Notice::Fleet(line)));
    Ok(())
}

/// The note of a plan whose runs have two answers that differ.
pub(super) fn alarm(error: &BackendError) -> Option<String> {
    match error {
        BackendError::Fleet(error @ FleetError::Differ { .. }) => Some(error.to_string()),
        _ => None,
    }
}
