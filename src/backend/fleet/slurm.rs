//! Slurm by its own programs. Their arguments are a vector, no shell sees them, and what they print is
//! escaped before it is shown.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::sys::{self, command};

use super::batches::Nodes;
use super::error::FleetError;
use crate::model::clean_start;

/// Time limit of one question; Slurm's own limits are some ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of output lines that are kept.
const MAX_LINES: usize = 200_000;
/// Characters of the output that a message quotes.
const MAX_WORDS: usize = 600;
/// Maximum tasks per array if Slurm reports no limit.
const MAX_TASKS: usize = 1000;
/// Options of sbatch that only schedlab may set.
const OWN: &[&str] = &[
    "--array",
    "-a",
    "--job-name",
    "-J",
    "--output",
    "-o",
    "--open-mode",
    "--parsable",
    "--wrap",
    "--wait",
    "-W",
    "--test-only",
    "--no-requeue",
];
/// The option that names nodes.
const NODE_LIST: [&str; 2] = ["--nodelist", "-w"];
/// A user who gives the CPUs of a task does not want whole nodes.
const SHARES: &[&str] =
    &["--cpus-per-task", "-c", "--ntasks", "-n", "--exclusive", "--oversubscribe", "-s"];
/// Messages of Slurm's programs that mean: slurmctld does not answer now, but may later.
const SILENT: &[&str] = &[
    "unable to contact slurm controller",
    "socket timed out",
    "zero bytes were transmitted",
    "connect failure",
    "connection failure",
    "connection refused",
    "connection timed out",
    "temporarily",
    "insane message length",
    "unexpected message received",
    "controller not responding",
    "backup controller",
    "munge",
    "protocol authentication error",
];

/// How jobs are submitted.
#[derive(Debug, Clone, Default)]
pub struct SlurmOptions {
    /// Maximum number of nodes in use at once.
    pub nodes: Option<u32>,
    pub partition: Option<String>,
    pub account: Option<String>,
    /// Options of sbatch as the user wrote them.
    pub more: Vec<String>,
}

/// A task that Slurm has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The name of its array.
    pub name: String,
    pub number: u32,
    pub is_running: bool,
    /// Slurm's word for why it does not run, escaped.
    pub reason: String,
    /// It waits for somebody to release it: nodes failed to start it.
    pub is_held: bool,
}

/// An array to be submitted.
pub struct Submission {
    pub name: String,
    pub tasks: usize,
    /// The path of the output, with `%a` for the number of a task.
    pub output: PathBuf,
    pub script: PathBuf,
    pub arguments: Vec<OsString>,
    /// Nodes that are not to be used.
    pub exclude: BTreeSet<String>,
    /// The node for the whole array, which has it exclusively.
    pub host: Option<String>,
}

pub struct Slurm {
    options: SlurmOptions,
    sbatch: PathBuf,
    squeue: PathBuf,
    scancel: PathBuf,
}

impl Slurm {
    pub fn find(options: SlurmOptions) -> Result<Slurm, FleetError> {
        if let Some(word) = options.more.first().filter(|word| !word.starts_with('-')) {
            return Err(FleetError::NoOption { word: one_line(word) });
        }
        if let Some(option) = options.more.iter().find_map(|word| is_one_of(word, OWN)) {
            return Err(FleetError::OwnOption { option: option.to_string() });
        }
        let [sbatch, squeue, scancel] = ["sbatch", "squeue", "scancel"].map(program);
        Ok(Slurm { options, sbatch: sbatch?, squeue: squeue?, scancel: scancel? })
    }

    /// Whether Slurm would take an array; nothing is submitted.
    pub fn check(&self, submission: &Submission) -> Result<(), FleetError> {
        let mut command = self.sbatch(submission);
        command.arg("--test-only");
        self.run("sbatch", with_script(command, submission)).map(drop)
    }

    pub fn submit(&self, submission: &Submission) -> Result<(), FleetError> {
        let command = with_script(self.sbatch(submission), submission);
        let lines = self.run("sbatch", command)?;
        // Options like --help succeed as well.
        if lines.iter().any(|line| is_job(line)) {
            Ok(())
        } else {
            let words = one_line(&lines.join(" "));
            let colon = if words.is_empty() { "" } else { ": " };
            Err(FleetError::NoJob { words: format!("{colon}{words}") })
        }
    }

    fn sbatch(&self, submission: &Submission) -> Command {
        let options = &self.options;
        let Submission { name, tasks, output, exclude, host, .. } = submission;
        let throttle = options.nodes.map_or_else(String::new, |nodes| format!("%{nodes}"));
        let mut command = Command::new(&self.sbatch);
        let is_list = |word: &&String| host.is_some() && is_one_of(word, &NODE_LIST).is_some();
        command.args(options.more.iter().filter(|word| !is_list(word)));
        for (option, value) in
            [("--partition", &options.partition), ("--account", &options.account)]
        {
            if let Some(value) = value {
                command.arg(format!("{option}={value}"));
            }
        }
        let shares = options.more.iter().any(|word| is_one_of(word, SHARES).is_some());
        if !shares || host.is_some() {
            command.args(["--nodes=1", "--ntasks=1", "--exclusive"]);
        }
        if let Some(host) = host {
            command.arg(format!("--nodelist={host}"));
        }
        if !exclude.is_empty() {
            let nodes: Vec<&str> = exclude.iter().map(String::as_str).collect();
            command.arg(format!("--exclude={}", nodes.join(",")));
        }
        command.args([
            format!("--array=0-{}{throttle}", tasks.saturating_sub(1)),
            format!("--job-name={name}"),
            "--open-mode=append".to_string(),
            "--requeue".to_string(),
            "--parsable".to_string(),
        ]);
        let mut to = OsString::from("--output=");
        to.push(output);
        command.arg(to);
        command
    }

    /// The tasks that Slurm has of the arrays with these names.
    pub fn tasks(&self, names: &[String]) -> Result<Vec<Task>, FleetError> {
        let mut command = Command::new(&self.squeue);
        command.args(["--noheader", "--array", "--format=%j|%K|%t|%r"]);
        command.arg(format!("--name={}", names.join(",")));
        let lines = self.run("squeue", command)?;
        Ok(lines.iter().filter_map(|line| task(line)).collect())
    }

    /// Cancels all tasks of an array: waiting ones do not begin, running ones are asked to end.
    pub fn cancel(&self, name: &str) -> Result<(), FleetError> {
        let mut command = Command::new(&self.scancel);
        command.arg(format!("--name={name}"));
        self.run("scancel", command).map(drop)
    }

    /// The names of nodes that a job can run on, in Slurm's order, each once. If the user gave a list, only those.
    pub fn hosts(&self) -> Result<Vec<String>, FleetError> {
        if let Some(option) = self.options.more.iter().find_map(|word| is_one_of(word, SHARES)) {
            return Err(FleetError::OwnOption { option: option.to_string() });
        }
        let mut command = Command::new(program("sinfo")?);
        command.args(["--noheader", "--Node", "--format=%N|%t"]);
        if let Some(partition) = &self.options.partition {
            command.arg(format!("--partition={partition}"));
        }
        let is_list = |word: &&String| is_one_of(word, &NODE_LIST).is_some();
        for word in self.options.more.iter().filter(is_list) {
            let (_, list) = word
                .split_once('=')
                .ok_or_else(|| FleetError::NodeList { word: one_line(word) })?;
            command.arg(format!("--nodes={list}"));
        }
        let hosts = host_names(&self.run("sinfo", command)?);
        if hosts.is_empty() {
            let of = self.options.partition.as_ref();
            let of =
                of.map_or(String::new(), |name| format!(" of the partition {}", one_line(name)));
            return Err(FleetError::NoHosts { of });
        }
        Ok(hosts)
    }

    /// The nodes of the partition; one node of this machine's size if Slurm reports none.
    pub fn nodes(&self) -> Nodes {
        let ask = |name: &'static str, words: &[&str]| {
            let mut command = Command::new(program(name).ok()?);
            command.args(words);
            if let (Some(partition), "sinfo") = (&self.options.partition, name) {
                command.arg(format!("--partition={partition}"));
            }
            self.run(name, command).ok()
        };
        let lines = ask("sinfo", &["--noheader", "--format=%D %c %t"]).unwrap_or_default();
        let config = ask("scontrol", &["show", "config"]).unwrap_or_default();
        let here = std::thread::available_parallelism().map_or(1, usize::from);
        let mut nodes = nodes_of(&lines, here);
        nodes.max_tasks = max_tasks(&config);
        if let Some(limit) = self.options.nodes {
            nodes.count = nodes.count.min(limit as usize).max(1);
        }
        nodes
    }

    /// Runs a program and returns its lines if it succeeds in time.
    fn run(&self, name: &'static str, command: Command) -> Result<Vec<String>, FleetError> {
        let began = Instant::now();
        let mut lines = Vec::new();
        let ended = sys::tool::run_until(command, &|| began.elapsed() > PATIENCE, &mut |line| {
            if lines.len() < MAX_LINES {
                lines.push(line.to_string());
            }
        });
        let ended = ended.map_err(|source| FleetError::Start { program: name, source })?;
        let Some(status) = ended else {
            let words = format!("{name} does not end in {} s", PATIENCE.as_secs());
            return Err(FleetError::Silent { words });
        };
        if status.success() {
            return Ok(lines);
        }
        let words = if lines.iter().all(|line| line.trim().is_empty()) {
            format!("{name}: {status}")
        } else {
            one_line(&lines.join(" "))
        };
        let lower = words.to_lowercase();
        Err(if SILENT.iter().any(|text| lower.contains(text)) {
            FleetError::Silent { words }
        } else {
            FleetError::Refused { words }
        })
    }
}

fn with_script(mut command: Command, submission: &Submission) -> Command {
    command.arg(&submission.script).args(&submission.arguments);
    command
}

/// The option of a list that a word is: `--array=1`, `-a1`.
fn is_one_of(word: &str, options: &'static [&'static str]) -> Option<&'static str> {
    let name = word.split('=').next().unwrap_or(word);
    options.iter().copied().find(|option| {
        if option.starts_with("--") {
            name == *option
        } else {
            word.starts_with(option) && !word.starts_with("--")
        }
    })
}

/// Text from outside for messages, on one line.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clean_start(&words.join(" "), MAX_WORDS)
}

/// A clause with the reasons why tasks wait; empty if there is none.
pub fn in_brackets<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let reasons: BTreeSet<&str> = reasons.filter(|reason| !reason.is_empty()).collect();
    let reasons: Vec<&str> = reasons.into_iter().collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
}

fn program(name: &'static str) -> Result<PathBuf, FleetError> {
    command::find(name).map_err(|_| FleetError::NotInstalled(name))
}

/// Whether a line of `sbatch --parsable` names a submitted job: `12`, `12;cluster`.
fn is_job(line: &str) -> bool {
    let number = line.trim().split(';').next().unwrap_or_default();
    number.parse::<u64>().is_ok()
}

/// `NAME|NUMBER|STATE|REASON`. Other lines are warnings.
fn task(line: &str) -> Option<Task> {
    let mut fields = line.split('|');
    let (name, number, state) = (fields.next()?, fields.next()?, fields.next()?);
    let reason = fields.next().unwrap_or_default();
    let lower = reason.to_lowercase();
    Some(Task {
        name: name.trim().to_string(),
        number: number.trim().parse().ok()?,
        is_running: ["R", "CG", "CF"].contains(&state.trim()),
        reason: one_line(reason),
        is_held: lower.contains("launch failed") || lower.contains("jobholdmaxrequeue"),
    })
}

/// Whether nodes in this state take jobs, now or later.
fn works(state: &str) -> bool {
    ["idle", "mix", "alloc", "comp"].iter().any(|is| state.starts_with(is))
}

/// Parses lines `NAME|STATE`, one for each partition that a node is in. The names become file names.
fn host_names(lines: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in lines {
        let Some((name, state)) = line.trim().split_once('|') else { continue };
        // The state of a node that does not answer ends with a star.
        let is_there = works(state) && !state.ends_with('*');
        if is_there && is_host_name(name) && !names.iter().any(|known| known == name) {
            names.push(name.to_string());
        }
    }
    names
}

/// Letters, digits, and within `-`, `_`, `.`.
pub fn is_host_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

/// Parses lines `COUNT CPUS STATE`; a state may end with signs.
fn nodes_of(lines: &[String], here: usize) -> Nodes {
    let parsed = lines.iter().filter_map(|line| {
        let mut words = line.split_whitespace();
        let count: usize = words.next()?.parse().ok()?;
        // `4+`: different nodes.
        let cpus: usize = words.next()?.trim_end_matches('+').parse().ok()?;
        Some((count, cpus, words.next()?.to_string()))
    });
    let all: Vec<(usize, usize, String)> = parsed.collect();
    let mut usable: Vec<_> = all.iter().filter(|(_, _, state)| works(state)).collect();
    if usable.is_empty() {
        usable = all.iter().collect();
    }
    Nodes {
        count: usable.iter().map(|(count, ..)| count).sum::<usize>().max(1),
        cpus: usable.iter().map(|(_, cpus, _)| *cpus).min().unwrap_or(here).max(1),
        max_tasks: MAX_TASKS,
    }
}

/// The highest number of a task is below `MaxArraySize`.
fn max_tasks(config: &[String]) -> usize {
    let value = config.iter().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "MaxArraySize").then(|| value.trim().parse::<usize>().ok())?
    });
    value.unwrap_or(MAX_TASKS).clamp(1, MAX_TASKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_sbatch_that_are_our_own_are_refused() {
        for (word, own) in [
            ("--array=1-3", Some("--array")),
            ("-a1", Some("-a")),
            ("--wrap=true", Some("--wrap")),
            ("--test-only", Some("--test-only")),
            ("--time=1:00", None),
            ("--constraint=a", None),
            ("-A", None),
            ("-pfast", None),
        ] {
            assert_eq!(is_one_of(word, OWN), own, "{word}");
        }
        let refused = |word: &str| {
            let more = vec![word.to_string()];
            Slurm::find(SlurmOptions { more, ..Default::default() }).err().unwrap().to_string()
        };
        assert_eq!(refused("evil.sh"), "`evil.sh` is not an option of sbatch");
        assert_eq!(refused("-Jx"), "schedlab sets sbatch's option -J itself");
    }

    #[test]
    fn lines_of_squeue_are_tasks_and_others_are_none() {
        let task = |line: &str| task(line).map(|task| (task.number, task.is_running, task.is_held));
        assert_eq!(task("schedlab-x.1|7|R|None"), Some((7, true, false)));
        assert_eq!(task("schedlab-x.1|0|PD|Resources"), Some((0, false, false)));
        assert_eq!(task("x|0|PD|launch failed requeued held"), Some((0, false, true)));
        for other in ["", "squeue: error: x", "a|b|c|d", "x|N/A|R|None"] {
            assert_eq!(task(other), None, "{other}");
        }
    }

    #[test]
    fn nodes_that_work_count() {
        let lines = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect::<Vec<_>>();
        let of = |of: &[&str]| {
            let nodes = nodes_of(&lines(of), 5);
            (nodes.count, nodes.cpus)
        };
        assert_eq!(of(&["3 2 idle", "1 64 down*", "2 8+ mix"]), (5, 2));
        assert_eq!(of(&["3 2 down*"]), (3, 2));
        assert_eq!(of(&["sinfo: error"]), (1, 5));
        let config = lines(&["MaxJobCount             = 10000", "MaxArraySize            = 33"]);
        assert_eq!((max_tasks(&config), max_tasks(&[])), (33, 1000));
    }

    #[test]
    fn hosts_are_nodes_that_take_jobs_each_once() {
        let lines = "n1|idle\nn1|idle\nn2|alloc\nn3|down\nn4|idle*\n../x|idle\n-w|idle\n\
                     n5-b.example_1|mix\nsinfo: error";
        let lines: Vec<String> = lines.lines().map(str::to_string).collect();
        assert_eq!(host_names(&lines), ["n1", "n2", "n5-b.example_1"]);
    }

    #[test]
    fn a_job_is_known_by_its_number() {
        for line in ["12", "12;cluster", " 7 "] {
            assert!(is_job(line), "{line}");
        }
        for line in ["", "Usage: sbatch [OPTIONS]", "slurm-wlm 22.05.8", ";3", "-1"] {
            assert!(!is_job(line), "{line}");
        }
    }

    #[test]
    fn what_slurm_prints_is_escaped_and_short() {
        assert_eq!(one_line("a\u{1b}[2Jb\n c"), "a\\u{1b}[2Jb c");
        assert_eq!(one_line(&"x".repeat(10_000)).len(), MAX_WORDS + 3);
    }
}
