//! The nodes of a cluster that a session may use, and what killed sessions left there.

use crate::backend::fleet::{self, Fleet, FleetConfig, FleetError, SlurmOptions, User};
use crate::backend::{self, Backend, BackendError};
use crate::engine::Job;
use crate::sys;

use super::request::{FleetRequest, Request};
use super::{Database, Notice, SessionError, running};

impl FleetRequest {
    /// The configuration of a fleet with this id.
    pub(super) fn config(&self, id: &str, request: &Request) -> Result<FleetConfig, SessionError> {
        let FleetRequest { nodes, partition, account, folder, .. } = self.clone();
        let folder = folder.map_or_else(fleet::default_folder, Ok).map_err(BackendError::from)?;
        let (db, more) = (request.db.clone(), request.sbatch.clone());
        Ok(FleetConfig {
            id: id.to_string(),
            state: sys::state_dir()?,
            folder,
            slurm: SlurmOptions { nodes, partition, account, more },
            user: User {
                say: Box::new(move |line| db.notify(&Notice::Fleet(line))),
                quiet: request.quiet,
            },
        })
    }
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
    let config = asked.config(&started.id, request)?;
    let (name, lab) = (started.backend.clone(), started.plan.lab.clone());
    let fleet = Fleet::new(backend, config, name, lab, request.lab.mode);
    Ok(Box::new(fleet.map_err(BackendError::from)?))
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
    let error = error.downcast::<FleetError>()?;
    matches!(error, FleetError::Differ { .. }).then(|| error.to_string())
}
