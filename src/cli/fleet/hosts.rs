//! `schedlab run --fleet slurm,exclusive`: what all hosts say is compared over hosts; and the command that Slurm
//! starts on each of them.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::backend::BackendError;
use crate::backend::fleet::asked_of_host;
use crate::model::PlanHead;
use crate::report::clean;
use crate::session::{FleetRequest, Request, SessionError, hosts};
use crate::store::Store;
use crate::sys::scratch;

use crate::cli::compare::{self, CompareArgs};
use crate::cli::gate::Gate;
use crate::cli::judging::Judging;
use crate::cli::output::Output;
use crate::cli::{Failure, catch_termination};

/// Measures the plan on hosts, and compares them.
pub fn run(
    request: &Request,
    fleet: &FleetRequest,
    judging: &Judging,
    gate: &Gate,
    output: &Output,
) -> Result<(), Failure> {
    let end = hosts::measure(request, fleet, &*catch_termination()?)?;
    if let Some(tag) = end.tag.as_ref().filter(|_| !request.quiet) {
        let (judging, gate, output) = (judging.clone(), gate.clone(), output.clone());
        let side = format!("tag={tag}");
        compare::run(&CompareArgs::over_hosts(side, judging, gate, output, request.db.clone()))?;
    }
    Ok(end.check()?)
}

/// The arguments of the command that Slurm starts on a host.
#[derive(Args)]
pub struct HostArgs {
    /// The folder of the fleet
    folder: PathBuf,
}

/// Becomes the `schedlab run` of this host. A job that Slurm has started again goes on.
pub fn host(args: &HostArgs) -> Result<(), Failure> {
    let (words, path) = asked_of_host(&args.folder).map_err(BackendError::from)?;
    let heads = if path.exists() { Store::open(&path)?.plan_heads()? } else { Vec::new() };
    let is_begun = !heads.is_empty();
    let words = match heads.into_iter().find(PlanHead::is_unfinished) {
        Some(plan) => vec!["--resume".to_string(), plan.id, "--quiet".to_string()],
        None if is_begun => return Ok(()),
        None => words,
    };
    // The journal of changes to this machine does not belong in a home that others share.
    let state = scratch::of_machine().map_err(|error| {
        Failure::here(
            format!("there is no folder of this machine alone: {error}"),
            "ls -ld /var/tmp",
        )
    })?;
    let own = std::env::current_exe()?;
    let mut command = Command::new(own);
    command.arg("run").args(words).arg("--db").arg(path).env("XDG_STATE_HOME", state);
    let error = command.exec();
    let text = format!("cannot start schedlab: {}", clean(&error.to_string()));
    Err(SessionError::Here(text.into()).into())
}
