//! `--fleet` of `schedlab run`, and the task that it has nodes make.

use std::path::PathBuf;

use clap::Args;

use crate::backend::fleet::{
    self, Fleet, FleetConfig, FleetError, HostsConfig, SlurmOptions, TaskEnd,
};
use crate::backend::{self, Backend, BackendError, Mode};
use crate::engine::Job;
use crate::sys;

use super::exit_code::Problem;
use super::help;
use super::running;
use super::{Failure, catch_termination, terminal};

#[derive(Args, Clone, Default)]
pub struct FleetArgs {
    /// Run on the nodes of a cluster: `slurm`; options of sbatch stand behind `--` (docs/fleet.md)
    #[arg(help_heading = help::CLUSTER, long, value_name = "NAME", value_parser = ["slurm"])]
    fleet: Option<String>,
    /// With --fleet: at most so many nodes at once
    #[arg(help_heading = help::CLUSTER, long, value_name = "N", requires = "fleet", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// With --fleet: Slurm's partition
    #[arg(help_heading = help::CLUSTER, long, value_name = "NAME", requires = "fleet")]
    partition: Option<String>,
    /// With --fleet: Slurm's account
    #[arg(help_heading = help::CLUSTER, long, value_name = "NAME", requires = "fleet")]
    account: Option<String>,
    /// With --fleet: a folder that nodes see, too [default: schedlab/fleet in the XDG state folder]
    #[arg(help_heading = help::CLUSTER, long, value_name = "DIR", requires = "fleet")]
    fleet_folder: Option<PathBuf>,
    /// With --fleet and the backend `local`: each host measures the whole plan, alone on its machine, and hosts
    /// are judged over
    #[arg(help_heading = help::CLUSTER, long, requires = "fleet", conflicts_with_all = [
        "shard", "against", "html", "events", "realtime", "verify", "again", "install"
    ])]
    exclusive: bool,
}

impl FleetArgs {
    pub fn is_given(&self) -> bool {
        self.fleet.is_some()
    }

    /// Whether hosts are what is measured.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// The end of a command that goes on with the same.
    pub fn words(&self) -> String {
        let mut words = String::new();
        if let Some(fleet) = &self.fleet {
            words.push_str(&format!(" --fleet {fleet}"));
        }
        if self.exclusive {
            words.push_str(" --exclusive");
        }
        if let Some(folder) = &self.fleet_folder {
            words.push_str(&format!(
                " --fleet-folder {}",
                super::text::quoted(&folder.display().to_string())
            ));
        }
        words
    }

    /// The backend, or a fleet before it. `more`: options of sbatch.
    pub fn over(
        &self,
        backend: Box<dyn Backend>,
        job: &Job,
        mode: Mode,
        quiet: bool,
        more: &[String],
    ) -> Result<Box<dyn Backend>, Failure> {
        if !self.is_given() {
            return Ok(backend);
        }
        let started = &job.started;
        let touches_machine =
            backend::find(&started.backend).is_none_or(|entry| entry.capabilities.touches_machine);
        if touches_machine {
            let text = "--fleet: a run of the backend `local` is of one host, which no other can \
                        answer for";
            let hint = "schedlab run PLAN --fleet slurm --exclusive measures each host";
            return Err(Failure::usage(text, hint));
        }
        if started.plan.lab.realtime {
            let text = "--fleet: real time is that of one host, and nodes would be mixed";
            return Err(Failure::usage(text, "the same without --realtime"));
        }
        let (state, folder) = (state()?, self.folder()?);
        let config = FleetConfig {
            plan: started.id.clone(),
            state,
            folder,
            backend: started.backend.clone(),
            lab: started.plan.lab.clone(),
            mode,
            slurm: self.slurm(more),
            say: Box::new(terminal::message),
            quiet,
        };
        Ok(Box::new(Fleet::new(backend, config).map_err(BackendError::from)?))
    }

    /// Where fleets have their folders.
    fn folder(&self) -> Result<PathBuf, Failure> {
        match &self.fleet_folder {
            Some(folder) => Ok(folder.clone()),
            None => Ok(fleet::default_folder().map_err(BackendError::from)?),
        }
    }

    fn slurm(&self, more: &[String]) -> SlurmOptions {
        SlurmOptions {
            nodes: self.nodes,
            partition: self.partition.clone(),
            account: self.account.clone(),
            more: more.to_vec(),
        }
    }

    /// Of a fleet whose hosts are measured; `more`: options of sbatch.
    pub fn hosts(&self, id: &str, quiet: bool, more: &[String]) -> Result<HostsConfig, Failure> {
        Ok(HostsConfig {
            id: id.to_string(),
            state: state()?,
            folder: self.folder()?,
            slurm: self.slurm(more),
            say: Box::new(terminal::message),
            quiet,
        })
    }
}

fn state() -> Result<PathBuf, Failure> {
    Ok(sys::state_dir()?)
}

/// Cancels the jobs of killed schedlabs; a line for each plan.
pub fn cancel_left() -> Result<Vec<String>, Failure> {
    let state = state()?;
    Ok(fleet::cancel_left(&state, &|plan| !running::is_running(&state, plan)))
}

/// Cancels what a killed schedlab left of a plan that goes on without a fleet, or is removed.
pub fn leave(id: &str) -> Result<(), Failure> {
    let state = state()?;
    let is_left = |plan: &str| plan == id && !running::is_running(&state, plan);
    fleet::cancel_left(&state, &is_left).iter().for_each(|line| terminal::message(line));
    Ok(())
}

/// What Slurm starts on a node.
#[derive(Args)]
pub struct TaskArgs {
    /// The folder of the plan
    folder: PathBuf,
    /// Which array
    array: u32,
}

pub fn task(args: &TaskArgs) -> Result<(), Failure> {
    let cancel = catch_termination()?;
    match fleet::run_task(&args.folder, args.array, &backend::find, &cancel)? {
        TaskEnd::Done => Ok(()),
        TaskEnd::Interrupted => {
            let text = "the task was asked to end; what it has answered is written";
            Err(Failure::Interrupted(Problem::from(text)))
        }
    }
}

/// Whether two answers of one run differ, which a plan's notes are to say.
pub fn alarm(error: &BackendError) -> Option<String> {
    match error {
        BackendError::Fleet(error @ FleetError::Differ { .. }) => Some(error.to_string()),
        _ => None,
    }
}
