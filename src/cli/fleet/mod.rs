//! `--fleet` of `schedlab run`, and the task that it has nodes make.

mod hosts;

use std::path::PathBuf;

use clap::Args;

use crate::backend;
use crate::backend::fleet::{self, TaskEnd};
use crate::model::clean;
use crate::session::{FleetRequest, Problem, SLURM, SessionError};

pub use hosts::{HostArgs, host, run as run_on_hosts};

use super::{Failure, catch_termination, help};

#[derive(Args, Clone, Default)]
pub struct FleetArgs {
    /// Run on the nodes of a cluster: `slurm`, and what is asked of it, as slurm,nodes=8,partition=batch,
    /// account=lab,folder=DIR; with `exclusive` each host measures the whole plan, and hosts are judged
    /// over. Options of sbatch stand behind `--` (schedlab help fleet)
    #[arg(help_heading = help::CLUSTER, long, value_name = "NAME,...", value_parser = parse)]
    fleet: Option<FleetRequest>,
}

fn parse(text: &str) -> Result<FleetRequest, Problem> {
    let shown = clean(text);
    let hint = "--fleet slurm,nodes=8,partition=NAME,account=NAME,folder=DIR,exclusive";
    let wrong = |part: &str| {
        Problem::new(format!("`{}` in `{shown}` is nothing that a fleet has", clean(part)), hint)
    };
    let mut parts = text.split(',');
    if parts.next() != Some(SLURM) {
        return Err(Problem::new(format!("`{shown}` is not a fleet: there is slurm"), hint));
    }
    let mut asked = FleetRequest::default();
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
    pub fn request(&self) -> Option<FleetRequest> {
        self.fleet.clone()
    }
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
            Err(SessionError::Interrupted(text.into()).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_one_word() {
        let asked = |text: &str| parse(text).map_err(|wrong| wrong.message);
        let all = asked("slurm,nodes=2,partition=a b,account=x,folder=/f,exclusive").unwrap();
        let expected = FleetRequest {
            nodes: Some(2),
            partition: Some("a b".to_string()),
            account: Some("x".to_string()),
            folder: Some("/f".into()),
            exclusive: true,
        };
        assert_eq!(all, expected);
        assert_eq!(all.words(), " --fleet slurm,exclusive,folder=/f");
        assert_eq!(asked("slurm").unwrap(), FleetRequest::default());
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
