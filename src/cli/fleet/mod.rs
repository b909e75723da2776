//! `--fleet` of `schedlab run`, and the task that it has nodes make.

mod hosts;

use std::path::PathBuf;

use clap::Args;

use crate::backend::fleet::{
    self, Fleet, FleetConfig, FleetError, HostsConfig, SlurmOptions, TaskEnd,
};
use crate::backend::{self, Backend, BackendError, Mode};
use crate::engine::Job;
use crate::model::clean;
use crate::sys;

pub use hosts::{AskedHosts, HostArgs, host, run as run_on_hosts};

use super::exit_code::Problem;
use super::help;
use super::running;
use super::text::quoted;
use super::{Failure, catch_termination, terminal};

#[derive(Args, Clone, Default)]
pub struct FleetArgs {
    /// Run on the nodes of a cluster: `slurm`, and what is asked of it, as slurm,nodes=8,partition=batch,
    /// account=lab,folder=DIR; with `exclusive` each host measures the whole plan, and hosts are judged
    /// over. Options of sbatch stand behind `--` (schedlab help fleet)
    #[arg(help_heading = help::CLUSTER, long, value_name = "NAME,...", value_parser = parse)]
    fleet: Option<AskedFleet>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct AskedFleet {
    /// The most nodes at once.
    nodes: Option<u32>,
    partition: Option<String>,
    account: Option<String>,
    /// One that nodes see, too.
    folder: Option<PathBuf>,
    /// Hosts are what is measured.
    exclusive: bool,
}

const SLURM: &str = "slurm";

fn parse(text: &str) -> Result<AskedFleet, Problem> {
    let shown = clean(text);
    let hint = "--fleet slurm,nodes=8,partition=NAME,account=NAME,folder=DIR,exclusive";
    let wrong = |part: &str| {
        Problem::new(format!("`{}` in `{shown}` is nothing that a fleet has", clean(part)), hint)
    };
    let mut parts = text.split(',');
    if parts.next() != Some(SLURM) {
        return Err(Problem::new(format!("`{shown}` is not a fleet: there is slurm"), hint));
    }
    let mut asked = AskedFleet::default();
    for part in parts {
        match part.split_once('=') {
            None if part == "exclusive" => asked.exclusive = true,
            Some(("nodes", count)) => {
                let count = count.parse().ok().filter(|count| *count > 0);
                asked.nodes = Some(count.ok_or_else(|| wrong(part))?);
            }
            Some((key, value)) if !value.is_empty() => match key {
                "partition" => asked.partition = Some(value.to_string()),
                "account" => asked.account = Some(value.to_string()),
                "folder" => asked.folder = Some(value.into()),
                _ => return Err(wrong(part)),
            },
            _ => return Err(wrong(part)),
        }
    }
    Ok(asked)
}

impl FleetArgs {
    pub fn is_given(&self) -> bool {
        self.fleet.is_some()
    }

    /// Whether hosts are what is measured.
    pub fn is_exclusive(&self) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.exclusive)
    }

    /// The end of a command that goes on with the same.
    pub fn words(&self) -> String {
        let Some(fleet) = &self.fleet else { return String::new() };
        let mut word = SLURM.to_string();
        if fleet.exclusive {
            word.push_str(",exclusive");
        }
        if let Some(folder) = &fleet.folder {
            word.push_str(&format!(",folder={}", folder.display()));
        }
        format!(" --fleet {}", quoted(&word))
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
            let hint = "schedlab run PLAN --fleet slurm,exclusive measures each host";
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
        match self.fleet.as_ref().and_then(|fleet| fleet.folder.as_ref()) {
            Some(folder) => Ok(folder.clone()),
            None => Ok(fleet::default_folder().map_err(BackendError::from)?),
        }
    }

    fn slurm(&self, more: &[String]) -> SlurmOptions {
        let AskedFleet { nodes, partition, account, .. } = self.fleet.clone().unwrap_or_default();
        SlurmOptions { nodes, partition, account, more: more.to_vec() }
    }

    /// The configuration of a fleet whose hosts are measured; `more`: options of sbatch.
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

/// The arguments of the command that Slurm starts on a node.
#[derive(Args)]
pub struct TaskArgs {
    /// The folder of the plan
    folder: PathBuf,
    /// The number of the array
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_one_word() {
        let asked = |text: &str| parse(text).map_err(|wrong| wrong.message);
        let all = asked("slurm,nodes=2,partition=a b,account=x,folder=/f,exclusive").unwrap();
        let expected = AskedFleet {
            nodes: Some(2),
            partition: Some("a b".to_string()),
            account: Some("x".to_string()),
            folder: Some("/f".into()),
            exclusive: true,
        };
        assert_eq!(all, expected);
        assert_eq!(FleetArgs { fleet: Some(all) }.words(), " --fleet slurm,exclusive,folder=/f");
        assert_eq!(asked("slurm").unwrap(), AskedFleet::default());
        for (text, part) in [
            ("pbs", "`pbs` is not a fleet"),
            ("", "`` is not a fleet"),
            ("slurm,nodes=0", "`nodes=0` in"),
            ("slurm,node=1", "`node=1` in"),
            ("slurm,partition=", "`partition=` in"),
            ("slurm,\u{1b}", "`\\u{1b}` in"),
        ] {
            assert!(asked(text).unwrap_err().contains(part), "{text:?}");
        }
    }
}
