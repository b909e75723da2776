//! `schedlab run --fleet slurm,exclusive`: hosts as a population. Each host measures the whole plan, its
//! store is taken in when it has ended, and what all of them say is compared over hosts.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use clap::Args;

use crate::backend::BackendError;
use crate::backend::fleet::{Hosts, asked_of_host, plain};
use crate::model::PlanHead;
use crate::report::clean;
use crate::store::{Content, Source, Store};
use crate::sys::{clock, scratch};

use super::FleetArgs;
use crate::cli::compare::{self, CompareArgs};
use crate::cli::exit_code::Problem;
use crate::cli::gate::Gate;
use crate::cli::judging::{Judging, Output};
use crate::cli::{Database, Failure, catch_termination, plural, running, terminal};

/// Fewer cannot be judged: schedlab help verdicts.
const MIN_HOSTS: usize = 6;
/// The name of a plan's file in the folder of the fleet where its own name is not valid.
const PLAN: &str = "plan";

/// The user's request.
pub struct AskedHosts<'a> {
    /// Name and text; `None`: a fleet that was interrupted goes on.
    pub plan: Option<(String, String)>,
    pub resume: Option<&'a str>,
    /// See [`asked_of_host`].
    pub words: Vec<String>,
    pub fleet: &'a FleetArgs,
    pub of_sbatch: &'a [String],
    pub judging: &'a Judging,
    pub gate: &'a Gate,
    pub output: &'a Output,
    pub db: &'a Database,
    pub quiet: bool,
}

pub fn run(asked: &AskedHosts) -> Result<(), Failure> {
    let id = match asked.resume {
        Some("last") => {
            let text = "--resume with `exclusive` takes the id of a fleet";
            return Err(Failure::usage(text, "schedlab run --resume ID --fleet slurm,exclusive"));
        }
        Some(id) => id.to_string(),
        None => running::execution_id(clock::unix_ns()),
    };
    let cancel = catch_termination()?;
    let mut store = asked.db.open()?;
    let _running = running::hold(&id)?;
    let config = asked.fleet.hosts(&id, asked.quiet, asked.of_sbatch)?;
    let hosts = match &asked.plan {
        Some((name, text)) => Hosts::begin(config, (&file_name(name), text), asked.words.clone()),
        None => Hosts::resume(config),
    };
    let mut hosts = hosts.map_err(BackendError::from)?;
    let say = |text: &str| {
        if !asked.quiet {
            terminal::message(text);
        }
    };
    say(&format!(
        "fleet {id}: {} measure the plan, each alone",
        plural(hosts.count() as u64, "host")
    ));
    if asked.plan.is_some() && hosts.count() < MIN_HOSTS {
        say(&format!(
            "a verdict over hosts takes {MIN_HOSTS} hosts; of fewer the ratios are shown"
        ));
    }
    let tag = format!("fleet-{}", plain(&id));
    let all = hosts.count();
    let failed = collect(&mut hosts, &mut store, &tag, &cancel, asked.quiet)?;
    if cancel.load(Relaxed) {
        hosts.cancel();
        let hint = asked.db.command(&format!("run --resume {id}")) + &asked.fleet.words();
        let text = format!("interrupted: {} have not ended", plural(hosts.count() as u64, "host"));
        return Err(Failure::Interrupted(Problem::new(text, hint)));
    }
    match failed.is_empty() {
        true => hosts.end(),
        // With the outputs of jobs.
        false => hosts.cancel(),
    }
    drop(store);
    let has_any = failed.len() < all || asked.resume.is_some();
    if has_any && !asked.quiet {
        let (judging, gate) = (asked.judging.clone(), asked.gate.clone());
        let (output, db) = (asked.output.clone(), asked.db.clone());
        compare::run(&CompareArgs::over_hosts(format!("tag={tag}"), judging, gate, output, db))?;
    }
    match failed.as_slice() {
        [] => Ok(()),
        hosts => {
            let text = format!("not measured to the end: {}", hosts.join(", "));
            let hint = asked.db.command(&format!("run --resume {id}")) + &asked.fleet.words();
            Err(Failure::here(text, &hint))
        }
    }
}

/// Takes in what hosts have measured, until all have ended or it is interrupted; returns those that have
/// not finished.
fn collect(
    hosts: &mut Hosts,
    store: &mut Store,
    tag: &str,
    cancel: &AtomicBool,
    quiet: bool,
) -> Result<Vec<String>, Failure> {
    let mut failed = Vec::new();
    while let Some((host, end)) = hosts.next(cancel) {
        let taken = match &end.store {
            Some(path) => take(store, path, tag)?,
            None => Taken::Nothing,
        };
        match taken {
            Taken::Runs(runs) => {
                hosts.took(&host).map_err(BackendError::from)?;
                if !quiet {
                    terminal::message(&format!("{host}: {}", plural(runs as u64, "run")));
                }
            }
            Taken::Unfinished => {
                let text = "its job ended before its plan";
                terminal::message(&format!("warning: {host} has not finished: {text}"));
                failed.push(host);
            }
            Taken::Nothing => {
                let text = format!("warning: {host} has measured nothing: {}", end.words);
                terminal::message(&text);
                failed.push(host);
            }
        }
    }
    Ok(failed)
}

/// Runs that were taken from a host's store, or why there are none.
enum Taken {
    /// The number of runs.
    Runs(usize),
    /// It can go on.
    Unfinished,
    /// A plan of which nothing was measured does not stay in a store.
    Nothing,
}

fn take(store: &mut Store, path: &Path, tag: &str) -> Result<Taken, Failure> {
    let theirs = Database::at(path).reporting(Store::open_foreign(path)?);
    let heads = theirs.plan_heads()?;
    if heads.is_empty() {
        return Ok(Taken::Nothing);
    }
    if heads.iter().any(PlanHead::is_unfinished) {
        return Ok(Taken::Unfinished);
    }
    let ids: Vec<String> = heads.into_iter().map(|head| head.id).collect();
    let content = Content::Store(Box::new(theirs));
    let name = path.display().to_string();
    let imported = store.import_all([Source { name, content }])?;
    for id in &ids {
        store.tag(id.as_str(), tag)?;
    }
    Ok(Taken::Runs(imported.runs))
}

/// The name of a plan that has no title is that of its file.
fn file_name(name: &str) -> String {
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(PLAN);
    format!("{}.toml", plain(stem))
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
    Err(Failure::Here(text.into()))
}
