//! The command line: one file per subcommand, each with its arguments and its `run`.

mod and_lab;
mod book;
mod cache;
mod capture;
mod capture_check;
mod capture_from;
mod capture_record;
mod cells;
mod command_plan;
mod compare;
mod database;
mod describe;
mod doctor;
mod exit_code;
mod expecting;
mod export;
#[cfg_attr(not(feature = "parquet"), path = "export_parquet_absent.rs")]
mod export_parquet;
mod export_rt_app;
#[cfg(test)]
mod extensions;
mod few_rounds;
mod fidelity;
mod findings;
#[cfg_attr(not(feature = "fleet"), path = "fleet_absent.rs")]
mod fleet;
mod gate;
mod help;
mod host_news;
mod hunt;
mod hunt_confirm;
mod hunt_differ;
mod hunt_run;
mod hunt_store;
mod import;
mod install;
mod intervals;
mod judging;
mod kernel;
mod kernel_build;
mod kernel_compare;
mod kernel_list;
mod kernel_progress;
mod keys;
mod labelled;
mod list;
mod live;
mod manual;
mod markdown;
mod measuring;
mod note;
mod notices;
mod offering;
mod output;
mod over_hosts;
mod pictures;
mod plan_power;
mod progress;
mod report;
mod restore;
mod rm;
mod run;
mod schbench;
mod schedbench;
mod score;
mod score_cost;
mod score_saved;
mod screen;
#[cfg_attr(not(feature = "serve"), path = "serve_absent.rs")]
mod serve;
mod shards;
mod shared_cache;
mod show;
mod signals;
mod status_line;
mod stored;
mod table;
mod tag;
mod terminal;
mod test;
mod text_or_json;
mod topics;
mod tracing;
mod trial;
mod trial_bisect;
mod trial_case;
mod trial_dry;
mod twin;
mod watch;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use exit_code::Failure;
pub use topics::is_topic;

use crate::session::{Database, Problem, SessionError};
use crate::sys;

use exit_code::finish;
use offering::{Offering, selection};
use signals::catch_termination;

/// A laboratory for CPU schedulers: is B better than A for this load, by how much, and can I
/// believe it?
#[derive(Parser)]
#[command(name = "schedlab", version, max_term_width = 100, after_help = exit_code::help(),
    disable_help_subcommand = true)]
struct Cli {
    /// The database of results [default: schedlab/schedlab.db in the XDG data folder]
    #[arg(long = database::OPTION, value_name = "FILE", global = true, hide = true)]
    db: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a plan, store every result, print what was found
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Run plans, and say whether what they expect holds: for CI
    Test(Box<test::TestArgs>),
    /// Print what is stored
    Report(report::ReportArgs),
    /// Say which differences between stored runs are real, with verdicts
    Compare(compare::CompareArgs),
    /// Say how many rounds a plan needs to find a difference here
    ///
    /// How much each metric of the plan scatters on this machine is known from stored plans of
    /// the same work with two variants or more: A/A plans where there are any (schedlab run PLAN
    /// --aa --rounds 10), else others, and in the lab others alone. From that follow the smallest difference that the plan's
    /// own rounds find, and the rounds and the time that it takes to call a difference BETTER or
    /// WORSE, and SAME what does not differ. Nothing is measured. Exits with 3 where nothing is
    /// known of any work of the plan.
    PlanPower(plan_power::PlanPowerArgs),
    /// Run a command, and say what the scheduler did to each task
    Score(score::ScoreArgs),
    /// Record what threads do, as a plan that does the same
    ///
    /// Threads alike become a worker set: their work, their waits and whom they wake, without the time in which
    /// they waited for a CPU. Needs the source bpf: schedlab help capture.
    Capture(capture::CaptureArgs),
    /// Browse what is stored in a browser on this machine
    Serve(serve::ServeArgs),
    /// Show waits for a CPU, live: by CPU and task, and who ran then
    ///
    /// The whole machine by default. In the view, the key ? explains the others.
    Watch(watch::WatchArgs),
    /// Write stored plans as JSON lines
    Export(export::ExportArgs),
    /// Read exports, stores, results of Phoronix, mmtests, schedbench
    Import(import::ImportArgs),
    // Its help is its own first line.
    #[command(name = "schbench")]
    Schbench(crate::compat::schbench::SchbenchArgs),
    Schedbench(schedbench::SchedbenchArgs),
    /// Say what a patch does to the scheduler: builds, runs, compares
    ///
    /// Builds the base and the patched kernel, runs a plan with both in virtual time, and says what is
    /// better, what is worse and what stays the same, as a text for a mail. Needs no root and no
    /// reboot; nothing outside the cache is written, and the same command gives the same answer.
    Try(Box<trial::TryArgs>),
    /// Hunt for faults of a kernel's scheduler by random scenarios
    ///
    /// Each scenario is run in virtual time and judged by rules that every scheduler keeps. A case that breaks one is
    /// run again with other seeds, made as small as it goes, explained in a paragraph and written as a plan. Exits with
    /// 1 where one was found. The same seed gives the same scenarios.
    Hunt(hunt::HuntArgs),
    /// Fetch, build, list and remove kernels
    Kernel(kernel::KernelArgs),
    /// Show what the lab keeps for later plans, and remove it
    ///
    /// Booted machines, which a plan takes in place of a boot, results of exact runs, which are not run
    /// again, and kernels. All of it can be made again.
    Cache(cache::CacheArgs),
    /// Say what this machine can measure, and what disturbs it
    Doctor(doctor::DoctorArgs),
    /// Measure what calls, switches and wakes take here, for the lab
    Twin(twin::TwinArgs),
    /// List workloads, knobs, plans, findings, cases, stored runs
    List(list::ListArgs),
    /// Show a stored plan or score: what was measured, and how it ended
    Show(show::ShowArgs),
    /// Remove stored plans and scores
    Rm(rm::RmArgs),
    /// Give a stored plan or score a name: compare tag=old tag=new
    Tag(tag::TagArgs),
    /// Write a note about a stored plan or score
    Note(note::NoteArgs),
    /// Undo what an interrupted run left changed
    Restore,
    /// Explain a topic, as verdict, expect or lab, or a command
    Help(topics::HelpArgs),
    /// Print completions for a shell, by default yours
    Completions(manual::CompletionsArgs),
    /// Write the man pages
    Man(manual::ManArgs),
    /// Make the runs of a task of `run --fleet slurm`: Slurm starts it on a node
    #[cfg(feature = "fleet")]
    #[command(hide = true)]
    FleetTask(fleet::TaskArgs),
    /// Measure the whole plan on this host of `run --fleet slurm,exclusive`: Slurm starts it
    #[cfg(feature = "fleet")]
    #[command(hide = true)]
    FleetHost(fleet::HostArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  schedlab run plan.toml --dry-run
  schedlab run --variant batch:policy=batch -- ./my-program --its-option";

/// Parses the command line, does what it says, and maps the end to an exit code. Called by
/// the name of a tool that it stands in for, it is that tool.
pub fn main() -> ExitCode {
    sys::signal::report_file_limit();
    let name = std::env::args_os().next();
    match name.as_deref().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str) {
        Some("schbench") => schbench::main(),
        Some("schedbench") => schedbench::main(),
        _ => match parse() {
            Ok(cli) => finish(dispatch(cli.command)),
            Err(why) => misread(why),
        },
    }
}

/// The whole command line, for what only reads it: no command is carried out.
pub fn command() -> clap::Command {
    Cli::command()
}

/// The command line cannot be carried out.
enum Misread {
    Clap(clap::Error),
    Other(Problem),
}

impl From<clap::Error> for Misread {
    fn from(error: clap::Error) -> Misread {
        Misread::Clap(error)
    }
}

fn parse() -> Result<Cli, Misread> {
    let (command, words) = help::asked(Cli::command(), std::env::args_os(), topics::is_topic);
    let matches = command.try_get_matches_from(words)?;
    let cli = Cli::from_arg_matches(&matches)?;
    if let (Some(_), Some(name)) = (&cli.db, matches.subcommand_name())
        && help::WITHOUT_STORE.contains(&name)
    {
        let text = format!("--db: `schedlab {name}` touches no database of results");
        return Err(Misread::Other(Problem::new(text, format!("schedlab {name} --help"))));
    }
    Ok(cli)
}

/// Help, or the error of the command line, which `git bisect run` must not take for a bad commit.
fn misread(why: Misread) -> ExitCode {
    let problem = match why {
        Misread::Clap(error) if error.exit_code() == 0 => {
            // Help has colours; if standard output is closed, nobody reads it.
            _ = error.print();
            return ExitCode::SUCCESS;
        }
        // `schedlab` and `schedlab kernel` alone.
        Misread::Clap(error)
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            _ = error.print();
            return ExitCode::from(2);
        }
        Misread::Clap(error) => {
            let words: Vec<_> = std::env::args_os().collect();
            help::as_problem(&error, &Cli::command(), &words)
        }
        Misread::Other(problem) => problem,
    };
    let code = finish(Err(SessionError::Usage(problem).into()));
    if gate::is_bisecting(std::env::args_os()) { ExitCode::from(255) } else { code }
}

/// The option of the store among those of each command.
fn with_database() -> clap::Command {
    Cli::command().mut_arg(database::OPTION, |arg| arg.hide(false))
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) if args.and_lab => and_lab::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::PlanPower(args) => plan_power::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Export(args) => export::export(&args),
        Command::Import(args) => import::run(&args),
        Command::Schbench(args) => schbench::run(args),
        Command::Schedbench(args) => schedbench::run(&args),
        Command::Try(args) => match (args.to_bisect(), &args.case) {
            _ if args.dry_run => trial_dry::run(&args),
            (Some((tree, ends)), _) => trial_bisect::run(&args, tree, ends),
            (None, Some(case)) => trial_case::run(&args, case),
            (None, None) => trial::run(&args),
        },
        Command::Hunt(args) => hunt::run(&args),
        Command::Kernel(args) => kernel::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Twin(args) => twin::run(&args),
        Command::List(args) => list::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Rm(args) => rm::run(&args),
        Command::Tag(args) => tag::run(&args),
        Command::Note(args) => note::run(&args),
        Command::Restore => restore::run(),
        Command::Help(args) => topics::run(&args, &with_database()),
        Command::Completions(args) => manual::completions(&args, with_database()),
        Command::Man(args) => manual::man(&args, with_database()),
        #[cfg(feature = "fleet")]
        Command::FleetTask(args) => fleet::task(&args),
        #[cfg(feature = "fleet")]
        Command::FleetHost(args) => fleet::host(&args),
    }
}
