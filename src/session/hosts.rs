//! Hosts as a population: each host of a fleet measures the whole plan, and its store is taken in when it has
//! ended. All of their plans have one tag.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::backend::BackendError;
use crate::backend::fleet::{Hosts, name_part};
use crate::model::PlanHead;
use crate::report::numbers::counted;
use crate::store::{Content, Source, Store};
use crate::sys::clock;

use super::backends::entry;
use super::prepare::override_measure;
use super::request::{FleetRequest, PlanSource, Request};
use super::{Database, Notice, PlanText, Problem, SessionError, plan_text, running};

/// Fewer cannot be judged: schedlab help verdicts.
const MIN_HOSTS: usize = 6;
/// The name of a plan's file in the folder of the fleet where its own name is not valid.
const PLAN: &str = "plan";

/// The end of a fleet's plan.
pub struct HostsEnd {
    /// The tag of the hosts' plans; `None`: no host has measured anything.
    pub tag: Option<String>,
    /// The hosts that have not finished.
    failed: Vec<String>,
    /// The command that goes on.
    resume: String,
}

/// Has each host of the fleet measure the plan.
pub fn measure(
    request: &Request,
    fleet: &FleetRequest,
    cancel: &AtomicBool,
) -> Result<HostsEnd, SessionError> {
    if entry(request.backend())?.capabilities.guests {
        let text = "`exclusive` measures hosts, and in the lab a run is the same on every host";
        return Err(SessionError::usage(text, "--fleet slurm, without exclusive"));
    }
    let (id, plan) = named(request)?;
    let mut store = request.db.open()?;
    let _running = running::hold(&id)?;
    let config = fleet.config(&id, request)?;
    let hosts = match &plan {
        Some(PlanText { name, text, .. }) => {
            Hosts::begin(config, (&file_name(name), text), words_on_hosts(request))
        }
        None => Hosts::resume(config),
    };
    let mut hosts = hosts.map_err(BackendError::from)?;
    let all = hosts.count();
    if !request.quiet {
        let say = |text: &str| request.db.notify(&Notice::Fleet(text));
        say(&format!("fleet {id}: {} measure the plan, each alone", counted(all, "host")));
        if plan.is_some() && all < MIN_HOSTS {
            let text = "hosts; of fewer the ratios are shown";
            say(&format!("a verdict over hosts takes {MIN_HOSTS} {text}"));
        }
    }
    let tag = format!("fleet-{}", name_part(&id));
    let failed = collect(&mut hosts, &mut store, &tag, cancel, request)?;
    let resume = request.db.command(&format!("run --resume {id}")) + &fleet.words();
    if cancel.load(Relaxed) {
        hosts.cancel();
        let text = format!("interrupted: {} have not ended", counted(hosts.count(), "host"));
        return Err(SessionError::Interrupted(Problem::new(text, resume)));
    }
    match failed.is_empty() {
        true => hosts.end(),
        // With the outputs of jobs.
        false => hosts.cancel(),
    }
    let has_any = failed.len() < all || plan.is_none();
    Ok(HostsEnd { tag: has_any.then_some(tag), failed, resume })
}

impl HostsEnd {
    /// Fails where a host has not measured to the end.
    pub fn check(&self) -> Result<(), SessionError> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let text = format!("not measured to the end: {}", self.failed.join(", "));
        Err(SessionError::here(text, &self.resume))
    }
}

/// The id of the fleet, and the plan that it begins; `None`: it goes on.
fn named(request: &Request) -> Result<(String, Option<PlanText>), SessionError> {
    match &request.plan {
        PlanSource::Stored(None) => {
            let text = "--resume with `exclusive` takes the id of a fleet";
            let hint = "schedlab run --resume ID --fleet slurm,exclusive";
            Err(SessionError::usage(text, hint))
        }
        PlanSource::Stored(Some(id)) => Ok((id.clone(), None)),
        PlanSource::Named(_) | PlanSource::Text(_) => {
            let text = plan_text(request)?;
            let mut plan = text.parse(None)?;
            override_measure(&mut plan, &request.measure)?;
            Ok((running::execution_id(clock::unix_ns()), Some(text)))
        }
    }
}

/// The words of the same request on a host, but for plan and store.
fn words_on_hosts(request: &Request) -> Vec<String> {
    let measure = &request.measure;
    let given = [
        ("--backend", request.backend.clone()),
        ("--rounds", measure.rounds.clone()),
        ("--duration", measure.duration.clone()),
        ("--seed", measure.seed.map(|seed| seed.to_string())),
        ("--budget", measure.budget.clone()),
    ];
    let given = given.into_iter().filter_map(|(option, value)| Some((option, value?)));
    let probes = request.probes.iter().map(|probe| ("--probe", probe.clone()));
    let mut words: Vec<String> =
        given.chain(probes).map(|(option, value)| format!("{option}={value}")).collect();
    let flags = [
        ("--until-decided", measure.until_decided),
        ("--aa", request.aa),
        ("--strict", request.strict),
    ];
    words.extend(flags.iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_string()));
    words.extend(request.judged.options());
    words.push("--quiet".to_string());
    words
}

/// Takes in what hosts have measured, until all have ended or it is interrupted; returns those that have
/// not finished.
fn collect(
    hosts: &mut Hosts,
    store: &mut Store,
    tag: &str,
    cancel: &AtomicBool,
    request: &Request,
) -> Result<Vec<String>, SessionError> {
    let say = |text: &str| request.db.notify(&Notice::Fleet(text));
    let mut failed = Vec::new();
    while let Some((host, end)) = hosts.next(cancel) {
        let taken = match &end.store {
            Some(path) => take(store, path, tag, &request.db)?,
            None => Taken::Nothing,
        };
        match taken {
            Taken::Runs(runs) => {
                hosts.took(&host).map_err(BackendError::from)?;
                if !request.quiet {
                    say(&format!("{host}: {}", counted(runs, "run")));
                }
            }
            Taken::Unfinished => {
                let text = "its job ended before its plan";
                say(&format!("warning: {host} has not finished: {text}"));
                failed.push(host);
            }
            Taken::Nothing => {
                say(&format!("warning: {host} has measured nothing: {}", end.words));
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

fn take(store: &mut Store, path: &Path, tag: &str, db: &Database) -> Result<Taken, SessionError> {
    let theirs = db.at(path).reporting(Store::open_foreign(path)?);
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
    format!("{}.toml", name_part(stem))
}
