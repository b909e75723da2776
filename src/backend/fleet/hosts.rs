//! Hosts as a population: each measures the whole plan by itself, as if schedlab were called there, and
//! has a store of its own in the folder. A job of Slurm for each host; see docs/fleet.md.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::arrays::{LOOK_INTERVAL, MAX_LOOK_INTERVAL, end_of};
use super::config::{FleetConfig, User};
use super::error::FleetError;
use super::folder::{JobFolder, name_part, put};
use super::journal::Journal;
use super::slurm::{Slurm, Submission, in_brackets, is_host_name, one_line};
use crate::sys::input;

const TICK: Duration = Duration::from_millis(100);
/// An answer of Slurm may lack a job that it has not noted yet. A job is gone after this many such answers in a row.
const GONE_ANSWERS: u32 = 3;
const ASKED: &str = "hosts.json";
/// Slurm's variable with the name of the node.
const NODE_VARIABLE: &str = "SLURMD_NODENAME";

/// The request that all hosts got.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    hosts: Vec<String>,
    /// The arguments of `schedlab run` on each host, except its store.
    words: Vec<String>,
}

/// A host's job that has ended.
pub struct HostEnd {
    pub store: Option<PathBuf>,
    /// The end of its output, escaped.
    pub words: String,
}

struct Job {
    host: String,
    name: String,
    is_running: bool,
    reason: String,
    /// Answers of Slurm in a row that lack the job.
    missed: u32,
}

pub struct Hosts {
    slurm: Slurm,
    folder: JobFolder,
    journal: Journal,
    user: User,
    /// Jobs that have not ended.
    jobs: Vec<Job>,
    all: usize,
    next_look: Instant,
    interval: Duration,
    warned: String,
    news: String,
}

impl Hosts {
    /// Submits the plan to Slurm's nodes; `plan` is its file's name and text.
    pub fn begin(
        config: FleetConfig,
        plan: (&str, &str),
        words: Vec<String>,
    ) -> Result<Hosts, FleetError> {
        let slurm = Slurm::find(config.slurm.clone())?;
        let mut hosts = slurm.hosts()?;
        hosts.truncate(config.slurm.nodes.map_or(hosts.len(), |nodes| nodes as usize));
        let path = config.folder.join(name_part(&config.id));
        let folder = JobFolder::make(&path)?;
        let file = folder.0.join(plan.0);
        put(&file, plan.1.as_bytes())?;
        let words = [vec![file.display().to_string()], words].concat();
        let begun = write_asked(&folder, &Asked { hosts: hosts.clone(), words })
            .and_then(|()| Hosts::submit(config, slurm, folder, hosts));
        // Nothing was submitted, so nobody uses it.
        begun.inspect_err(|_| _ = fs::remove_dir_all(&path))
    }

    /// Continues with the hosts whose stores were not imported.
    pub fn resume(config: FleetConfig) -> Result<Hosts, FleetError> {
        let slurm = Slurm::find(config.slurm.clone())?;
        let path = config.folder.join(name_part(&config.id));
        let asked = read_asked(&path)?;
        let folder = JobFolder::make(&path)?;
        let mut journal = Journal::open(&config.state, &config.id);
        journal.cancel(&slurm)?;
        let mut hosts = asked.hosts;
        hosts.retain(|host| is_host_name(host) && !taken(&folder, host).exists());
        Hosts::submit(config, slurm, folder, hosts)
    }

    fn submit(
        config: FleetConfig,
        slurm: Slurm,
        folder: JobFolder,
        hosts: Vec<String>,
    ) -> Result<Hosts, FleetError> {
        let FleetConfig { id, state, user, .. } = config;
        let stores = folder.hosts();
        fs::create_dir_all(&stores).map_err(FleetError::io("make the folder", &stores))?;
        let now = Instant::now();
        let mut fleet = Hosts {
            journal: Journal::open(&state, &id),
            slurm,
            folder,
            user,
            jobs: Vec::new(),
            all: hosts.len(),
            next_look: now + LOOK_INTERVAL,
            interval: LOOK_INTERVAL,
            warned: String::new(),
            news: String::new(),
        };
        for (at, host) in hosts.into_iter().enumerate() {
            let name = format!("schedlab-{}.{}", name_part(&id), at + 1);
            let submission = fleet.submission(&host, &name);
            let submitted = match at {
                0 => fleet.slurm.check(&submission),
                _ => Ok(()),
            };
            let submitted = submitted
                .and_then(|()| fleet.journal.add(&name))
                .and_then(|()| fleet.slurm.submit(&submission));
            if let Err(error) = submitted {
                fleet.cancel();
                return Err(error);
            }
            let (is_running, reason) = (false, String::new());
            fleet.jobs.push(Job { host, name, is_running, reason, missed: 0 });
        }
        Ok(fleet)
    }

    fn submission(&self, host: &str, name: &str) -> Submission {
        Submission {
            name: name.to_string(),
            tasks: 1,
            output: self.output(host),
            script: self.folder.script(),
            arguments: vec![self.folder.0.clone().into(), "fleet-host".into()],
            exclude: BTreeSet::new(),
            host: Some(host.to_string()),
        }
    }

    pub fn count(&self) -> usize {
        self.jobs.len()
    }

    fn output(&self, host: &str) -> PathBuf {
        self.folder.0.join("output").join(host)
    }

    /// Waits until a job has ended. `None` if all have ended or the wait was interrupted.
    pub fn next(&mut self, cancel: &AtomicBool) -> Option<(String, HostEnd)> {
        while !self.jobs.is_empty() && !cancel.load(Relaxed) {
            if Instant::now() < self.next_look {
                std::thread::sleep(TICK);
                continue;
            }
            self.look();
            self.interval = (self.interval * 2).min(MAX_LOOK_INTERVAL);
            if let Some(at) = self.jobs.iter().position(|job| job.missed >= GONE_ANSWERS) {
                let job = self.jobs.remove(at);
                return Some((one_line(&job.host), self.end_of(&job.host)));
            }
            // A job may be gone, so ask again soon.
            if self.jobs.iter().any(|job| job.missed > 0) {
                self.interval = LOOK_INTERVAL;
            }
            self.next_look = Instant::now() + self.interval;
        }
        None
    }

    fn look(&mut self) {
        let names: Vec<String> = self.jobs.iter().map(|job| job.name.clone()).collect();
        let tasks = match self.slurm.tasks(&names) {
            Ok(tasks) => tasks,
            Err(error) => {
                let text = format!("warning: {error}; waiting");
                if self.warned != text {
                    self.user.warn(&text);
                    self.warned = text;
                }
                return;
            }
        };
        self.warned.clear();
        for job in &mut self.jobs {
            let task = tasks.iter().find(|task| task.name == job.name && !task.is_held);
            job.missed = if task.is_some() { 0 } else { job.missed + 1 };
            (job.is_running, job.reason) = match task {
                Some(task) => (task.is_running, task.reason.clone()),
                None => (false, String::new()),
            };
        }
        let running = self.jobs.iter().filter(|job| job.is_running).count();
        let waiting = self.jobs.iter().filter(|job| !job.is_running && job.missed == 0);
        let why = in_brackets(waiting.clone().map(|job| job.reason.as_str()));
        let ended = self.all - self.jobs.len();
        let news = format!(
            "slurm: {running} of {} hosts measure, {} wait{why}; {ended} have ended",
            self.all,
            waiting.count()
        );
        if news != self.news {
            self.user.inform(&news);
            self.news = news;
        }
    }

    fn end_of(&self, host: &str) -> HostEnd {
        let store = Some(store_of(&self.folder, host)).filter(|store| store.exists());
        HostEnd { store, words: one_line(&end_of(&self.output(host)).unwrap_or_default()) }
    }

    /// Notes that a host's store was taken in; the file stays until the fleet has ended.
    pub fn took(&self, host: &str) -> Result<(), FleetError> {
        let store = store_of(&self.folder, host);
        fs::rename(&store, taken(&self.folder, host)).map_err(FleetError::io("rename", &store))
    }

    /// Jobs that wait do not begin, and those that run are asked to end.
    pub fn cancel(&mut self) {
        if let Err(error) = self.journal.cancel(&self.slurm) {
            self.user
                .warn(&format!("warning: jobs are not cancelled: {error}\nhint: schedlab restore"));
        }
    }

    /// All is taken.
    pub fn end(mut self) {
        self.cancel();
        _ = fs::remove_dir_all(&self.folder.0);
    }
}

fn store_of(folder: &JobFolder, host: &str) -> PathBuf {
    folder.hosts().join(format!("{host}.db"))
}

fn taken(folder: &JobFolder, host: &str) -> PathBuf {
    folder.hosts().join(format!("{host}.taken"))
}

fn write_asked(folder: &JobFolder, asked: &Asked) -> Result<(), FleetError> {
    let path = folder.0.join(ASKED);
    let text = serde_json::to_vec(asked)?;
    put(&path, &text)
}

fn read_asked(folder: &Path) -> Result<Asked, FleetError> {
    let path = folder.join(ASKED);
    let text =
        input::read_file(&path, input::MAX_OWN_FILE_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let id = folder.file_name().unwrap_or_default().to_string_lossy();
                FleetError::NoFleet { id: one_line(&id), path: path.clone() }
            }
            _ => FleetError::io("read", &path)(error),
        })?;
    serde_json::from_slice(&text).map_err(|source| FleetError::Rubbish { path, source })
}

/// On a host: the arguments that it was asked to run, and its store.
pub fn asked_of_host(folder: &Path) -> Result<(Vec<String>, PathBuf), FleetError> {
    let host = std::env::var(NODE_VARIABLE).unwrap_or_default();
    if !is_host_name(&host) {
        let text = format!("{NODE_VARIABLE} is not a host: this is for tasks of Slurm alone");
        return Err(FleetError::Task(text));
    }
    let words = read_asked(folder)?.words;
    Ok((words, store_of(&JobFolder(folder.to_path_buf()), &host)))
}
