//! `schedlab capture`: what threads do for some seconds, or did in a trace, as a plan that does the same.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use clap::Args;

use crate::model::{Score, TaskScore, Trace, TracedTask, Watched};
use crate::plan::{self, Asked, Captured, Fit, Settings};
use crate::report::clean;
use crate::report::numbers::counted;
use crate::report::score::cost;
use crate::session::SessionError;
use crate::sys::replace::{self, NewFile};
use crate::sys::{Host, load};

use super::capture_record::{Recorded, interrupted, record};
use super::signals::catch_termination;
use super::{Failure, capture_check, capture_from, score, terminal};
use crate::model::{clean_path, quoted};

/// A name of a thread has no more bytes.
const MAX_NAME: usize = 15;
const MAX_THREADS: usize = 10_000;
/// A shorter recording has little but its own begin and end.
const MIN_PERIOD: &str = "10ms";
const MIN_PERIOD_NS: u64 = 10_000_000;
/// The part of all CPU time of which a role lacks less, and nothing is said of it.
const MIN_MISSING: f64 = 0.01;
/// A role with at least so much of all wakeups whose replay has no pause where the load has one is named.
const MIN_WAKEUPS: f64 = 0.1;
const MAX_PAUSED: f64 = 0.2;

#[derive(Args)]
pub struct CaptureArgs {
    /// A process that runs already, with all that descends from it; may be repeated
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "comm", "command"])]
    pid: Vec<i32>,
    /// All tasks of a cgroup and those below it, by its path: /system.slice/nginx.service
    #[arg(long, value_name = "PATH", conflicts_with_all = ["comm", "command"])]
    cgroup: Option<String>,
    /// All threads of this name; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    comm: Vec<String>,
    /// A trace in place of a recording, with sched_switch and sched_waking: of Perfetto, or the text of `perf sched
    /// script`, `perf script`, `trace-cmd report` or ftrace; --comm chooses threads
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "cgroup", "period", "command"])]
    from: Option<PathBuf>,
    /// How long; with a command: at most
    #[arg(long = "for", value_name = "TIME", default_value = "10s")]
    period: String,
    /// The plan goes to this file; else to standard output
    #[arg(short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Roles have the names of their processes and threads, and the plan that of the command or the file
    #[arg(long)]
    names: bool,
    /// Fit the plan to the load by five short replays here, run it for as long, and say how like the load it is; exits
    /// with 3 where it is not
    #[arg(long, requires = "output")]
    check: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: &CaptureArgs) -> Result<(), Failure> {
    let asked = catch_termination()?;
    if let Some(path) = &args.from {
        let trace = capture_from::read(path)?;
        let tasks = capture_from::chosen(&trace, &args.comm, path)?;
        check_count(tasks.len())?;
        let title = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let unseen = "none of these threads was seen at work from one sleep to the next";
        let (settings, said) = (BTreeMap::new(), Vec::new());
        let more = "a longer trace shows more";
        let source = Source { trace, tasks, settings, title, unseen, more, said };
        let file = args.file()?;
        return args.finish(&source, file, &asked);
    }
    let meant = Meant::new(args)?;
    let period_ns = score::time("--for", &Some(args.period.clone()))?.unwrap_or_default();
    if period_ns < MIN_PERIOD_NS {
        let text = format!("--for {}: less than {MIN_PERIOD} shows no load", clean(&args.period));
        return Err(Failure::usage(text, "for the usual time: --for 10s"));
    }
    let file = args.file()?;
    let shorter =
        |seen_ns: u64| format!("for a shorter time: --for {}ms", (seen_ns / 1_500_000).max(1));
    let check = |score: &Score| check_count(meant.tasks(score).count());
    let (recorded, ended) = record(&meant.watched, period_ns, &asked, check, shorter)?;
    let Trace { from_ns, to_ns, events, .. } = &recorded.trace;
    terminal::message(&format!(
        "recorded {:.1} s with {}: making the plan",
        to_ns.saturating_sub(*from_ns) as f64 / 1e9,
        counted(events.len(), "event")
    ));
    let source = Source::recorded(&meant, recorded, period_ns)?;
    ended.then(args.finish(&source, file, &asked), Ok(()))
}

/// Whether a plan there would replace something. An open file of a process, as /dev/stdout is, is written to and not
/// replaced.
fn has_text(path: &Path) -> bool {
    let meant = replace::meant(path).ok().flatten();
    let size =
        |path: PathBuf| fs::metadata(path).ok().filter(Metadata::is_file).map(|found| found.len());
    meant.and_then(size).is_some_and(|bytes| bytes > 0)
}

fn begin(path: &Path) -> Result<NewFile, Failure> {
    Ok(NewFile::begin(path).map_err(|error| SessionError::unwritten(path, &error))?)
}

/// Keeps a capture whose file another program wrote meanwhile: its load may not come again.
fn keep_next_to(path: &Path, captured: &Captured) -> Result<(), Failure> {
    let written = replace::write_numbered(path, |out| out.write_all(captured.text.as_bytes()));
    let other = written.map_err(|error| SessionError::unwritten(path, &error))?;
    let text = format!(
        "{} was written meanwhile, and is not replaced: this capture is in {}",
        clean_path(path),
        clean_path(&other)
    );
    let run = format!("schedlab run {}", quoted(&other.to_string_lossy()));
    Err(Failure::here(text, run))
}

fn write_whole(path: &Path, mut file: NewFile, captured: &Captured) -> Result<(), Failure> {
    let written = file.write_all(captured.text.as_bytes()).and_then(|()| file.finish());
    Ok(written.map_err(|error| SessionError::unwritten(path, &error))?)
}

/// The tasks that are asked for.
struct Meant<'a> {
    args: &'a CaptureArgs,
    watched: Watched,
    cgroup: Option<String>,
}

impl Meant<'_> {
    fn new(args: &CaptureArgs) -> Result<Meant<'_>, Failure> {
        let watched = match () {
            () if !args.command.is_empty() => Watched::Command(args.command.clone()),
            () if !args.pid.is_empty() => Watched::Processes(args.pid.clone()),
            () if args.cgroup.is_some() || !args.comm.is_empty() => Watched::System,
            () => {
                let text = "nothing to capture: a command, --pid, --cgroup, --comm or --from";
                return Err(Failure::usage(text, "schedlab capture -o make.toml -- make -j4"));
            }
        };
        score::check_pids(&args.pid)?;
        let host = Host::default();
        let cgroup = args.cgroup.as_ref().map(|path| score::known_cgroup(path, "systemd-cgls"));
        let cgroup = cgroup.transpose()?;
        let is_there = |name: &&String| threads_of_all(&host).any(|comm| comm == **name);
        if let Some(gone) = args.comm.iter().find(|name| !is_there(name)) {
            let text = format!("there is no thread with the name `{}`", clean(gone));
            let mut ends = (0..=MAX_NAME.min(gone.len())).rev();
            let end = ends.find(|at| gone.is_char_boundary(*at)).unwrap_or(0);
            let short = gone[..end].to_string();
            let hint = if short != *gone && is_there(&&short) {
                format!("names have at most {MAX_NAME} bytes: --comm {}", quoted(&short))
            } else {
                "ps -eLo comm | sort -u".to_string()
            };
            return Err(Failure::usage(text, hint));
        }
        Ok(Meant { args, watched, cgroup })
    }

    fn tasks<'s>(&'s self, score: &'s Score) -> impl Iterator<Item = &'s TaskScore> {
        score.tasks.iter().filter(|task| self.has(task))
    }

    fn has(&self, task: &TaskScore) -> bool {
        let in_cgroup = |path: &String| score::is_in_cgroup(task, path);
        let is_named = self.args.comm.is_empty() || self.args.comm.contains(&task.name);
        let is_own = task.pid == std::process::id() as i32;
        let is_watched = self.watched == Watched::System || task.watched;
        is_watched
            && !task.kernel_thread
            && !is_own
            && task.tid > 0
            && is_named
            && self.cgroup.iter().all(in_cgroup)
    }
}

/// The names of all threads.
fn threads_of_all(host: &Host) -> impl Iterator<Item = String> {
    let pids = load::pids(host).known().unwrap_or_default();
    let tids = pids.into_iter().flat_map(|pid| {
        load::tids(host, pid).into_iter().map(move |tid| format!("/proc/{pid}/task/{tid}/comm"))
    });
    tids.filter_map(|path| Some(host.read(path).ok()?.trim_end().to_string()))
}

fn check_count(threads: usize) -> Result<(), Failure> {
    if threads > MAX_THREADS {
        let text = format!("{threads} threads: at most {MAX_THREADS} are captured");
        return Err(Failure::here(
            text,
            "a part of them: schedlab capture --comm NAME, or --cgroup PATH",
        ));
    }
    Ok(())
}

impl CaptureArgs {
    /// The file of `-o`. The load of another time may not come again, nor what somebody wrote into the plan.
    fn file(&self) -> Result<Option<NewFile>, Failure> {
        let Some(path) = &self.output else { return Ok(None) };
        if path.as_os_str() == "-" {
            let text = "- names no file";
            return Err(Failure::usage(text, "without -o the plan goes to standard output"));
        }
        if has_text(path) {
            let text = format!("{} is there already", clean_path(path));
            let hint = format!(
                "name another file, or remove this one: rm {}",
                quoted(&path.to_string_lossy())
            );
            return Err(Failure::usage(text, hint));
        }
        begin(path).map(Some)
    }

    /// Writes the plan, and checks it where that is asked for.
    fn finish(
        &self,
        source: &Source,
        file: Option<NewFile>,
        asked: &AtomicBool,
    ) -> Result<(), Failure> {
        let captured = source.plan(self.names, &[])?;
        let is_new = self.write(&captured, file)?;
        self.say(&captured, &source.said, is_new);
        match &self.output {
            Some(path) if !is_new => keep_next_to(path, &captured),
            Some(_) if self.check && asked.load(SeqCst) => Err(interrupted(
                "interrupted: the plan of what was seen is written, and not checked",
            )),
            Some(path) if self.check => {
                capture_check::find_room(path, &captured, &source.trace)?;
                let wall_ns = source.trace.to_ns.saturating_sub(source.trace.from_ns);
                let write = |path: &Path, fits: &[Fit]| {
                    let captured = source.plan(self.names, fits)?;
                    write_whole(path, begin(path)?, &captured)
                };
                capture_check::check(path, &captured, wall_ns, source.more, asked, write)
            }
            _ => Ok(()),
        }
    }

    /// False where another program wrote the file meanwhile, which stays.
    fn write(&self, captured: &Captured, file: Option<NewFile>) -> Result<bool, Failure> {
        let text = captured.text.as_bytes();
        let (Some(mut file), Some(path)) = (file, &self.output) else {
            io::stdout().lock().write_all(text)?;
            return Ok(true);
        };
        if has_text(path) {
            return Ok(false);
        }
        match file.write_all(text).and_then(|()| file.finish_new()) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            written => {
                Ok(written.map(|()| true).map_err(|error| SessionError::unwritten(path, &error))?)
            }
        }
    }

    /// Prints the roles that were captured, and what there is to say of the recording.
    fn say(&self, captured: &Captured, said: &[String], is_written: bool) {
        for role in &captured.roles {
            let profile = &role.profile;
            terminal::message(&format!(
                "{:<15} {:>14} {:>8.3} CPUs {:>10.1} wakeups/s {:>10.1} switches/s",
                profile.name,
                counted(role.threads, "thread"),
                profile.cpus,
                profile.wakeups_per_s,
                profile.switches_per_s
            ));
        }
        let all = captured.roles.iter().map(|role| role.profile.cpus).sum::<f64>()
            + captured.left_out_cpus;
        let is_much = |cpus: f64| cpus >= all * MIN_MISSING;
        let lacks = |kept: f64, cpus: f64| kept < plan::MIN_KEPT && is_much(cpus * (1.0 - kept));
        for role in captured.roles.iter().filter(|role| lacks(role.kept, role.profile.cpus)) {
            terminal::message(&format!(
                "missing: {:.0} % of the CPU time of {}: stretches of work that did not begin and end in this time, or that threads \
                 did once, from their birth on. A longer --for sees more of them",
                100.0 * (1.0 - role.kept),
                role.profile.name
            ));
        }
        if is_much(captured.left_out_cpus) {
            terminal::message(&format!(
                "missing: {:.0} % of all CPU time, that of threads without a role: too little was seen of them, or there are \
                 more kinds than a plan has sets. --comm NAME captures some",
                100.0 * captured.left_out_cpus / all
            ));
        }
        say_paused(captured);
        said.iter().for_each(|line| terminal::message(line));
        // A device has nothing to run.
        if let Some(path) = self.output.as_ref().filter(|path| is_written && path.is_file()) {
            let path = quoted(&path.display().to_string());
            terminal::message(&format!("run it: schedlab run {path} --variant batch:policy=batch"));
        }
    }
}

/// Names roles that paused, as where the load ended before the recording did.
fn say_paused(captured: &Captured) {
    let all: f64 = captured.roles.iter().map(|role| role.profile.wakeups_per_s).sum();
    for role in &captured.roles {
        if role.paused > MAX_PAUSED && role.profile.wakeups_per_s >= all * MIN_WAKEUPS {
            terminal::message(&format!(
                "paused: {} did nothing before or after its work, in {:.0} % of the time, and its replay has no such pause: \
                 capture it while the load is there",
                role.profile.name,
                100.0 * role.paused
            ));
        }
    }
}

/// All that a plan is made of.
struct Source {
    trace: Trace,
    tasks: Vec<TracedTask>,
    /// How those are set that are still there.
    settings: BTreeMap<i32, Settings>,
    title: String,
    /// Why there may be nothing.
    unseen: &'static str,
    /// How more is seen.
    more: &'static str,
    /// The cost of the recording, and what is missing of it.
    said: Vec<String>,
}

impl Source {
    fn recorded(
        meant: &Meant,
        Recorded { trace, score, settings }: Recorded,
        period_ns: u64,
    ) -> Result<Source, Failure> {
        let tasks: Vec<&TaskScore> = meant.tasks(&score).collect();
        let gone = meant.cgroup.as_deref().filter(|path| score::known_cgroup(path, "").is_err());
        let unseen = match meant.watched {
            Watched::Command(_) => "nothing was seen of the command: it ended at once",
            _ if gone.is_some() => "nothing was seen of this cgroup before it was removed",
            _ => "nothing was seen of these tasks: they slept all the time, or ended at once",
        };
        let more = match gone {
            Some(_) => "a shorter --for, while the cgroup is there, sees its tasks alone",
            None => more(&meant.watched, score.wall_ns >= period_ns),
        };
        let gone = gone.map(|path| {
            let path = clean(path);
            format!("note: the cgroup {path} was removed meanwhile: the plan has the time after it, too; {more}")
        });
        let missing = score.lost.iter().map(|lost| format!("missing: {}", clean(lost)));
        let cost = format!("cost: {}", cost(&score));
        let said = std::iter::once(cost).chain(missing).chain(gone).collect();
        let tasks = tasks.into_iter().map(traced).collect();
        Ok(Source { trace, tasks, settings, title: meant.watched.title(), unseen, more, said })
    }

    fn plan(&self, is_named: bool, fits: &[Fit]) -> Result<Captured, Failure> {
        let Source { trace, tasks, settings, title, .. } = self;
        let title = if is_named { title.as_str() } else { "captured" };
        let asked = Asked { trace, tasks, settings, title, is_named, fits };
        plan::captured(&asked).ok_or_else(|| {
            Failure::here(self.unseen, format!("{}, and other threads may do more", self.more))
        })
    }
}

/// How more is seen of what was recorded, to the end of `--for` or of itself.
fn more(watched: &Watched, is_to_end: bool) -> &'static str {
    match watched {
        _ if is_to_end => "a longer --for sees more",
        Watched::Command(_) => "a command that runs for longer shows more",
        _ => "processes that run for longer show more",
    }
}

fn traced(task: &TaskScore) -> TracedTask {
    let TaskScore { tid, pid, name, process, kernel_thread, .. } = task.clone();
    TracedTask { tid, pid, name, process, kernel_thread }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn a_capture_whose_file_another_one_wrote_meanwhile_is_kept_next_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.toml");
        let command = CaptureArgs::augment_args(clap::Command::new("capture"));
        let words = ["capture", "-o", path.to_str().unwrap()];
        let args = CaptureArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
        let captured = Captured { text: "own".to_string(), ..Captured::default() };
        for (other, is_new) in [(None, true), (Some(""), false), (Some("other"), false)] {
            let file = args.file().unwrap();
            other.into_iter().for_each(|text| fs::write(&path, text).unwrap());
            assert_eq!(args.write(&captured, file).unwrap(), is_new, "{other:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), other.unwrap_or("own"));
            if !is_new {
                let said = keep_next_to(&path, &captured).unwrap_err().to_string();
                assert!(said.contains("hint: schedlab run "), "{said}");
                let next = folder.path().join("web-1.toml");
                assert!(said.contains("web-1.toml"), "{said}");
                assert_eq!(fs::read_to_string(&next).unwrap(), "own");
                fs::remove_file(next).unwrap();
            }
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_longer_time_is_asked_for_where_it_would_be_used() {
        let command = Watched::Command(vec!["true".to_string()]);
        let cases = [
            (&command, true, true),
            (&command, false, false),
            (&Watched::Processes(vec![1]), false, false),
            (&Watched::System, true, true),
        ];
        for (watched, is_to_end, expected) in cases {
            assert_eq!(more(watched, is_to_end).contains("--for"), expected, "{watched:?}");
        }
    }
}
