//! `schedlab schedbench`, and the binary called by the name `schedbench`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, ValueEnum};

use crate::backend::Mode;
use crate::compat::schedbench::{self, Averages, BenchFile, OnDisk, html, text};
use crate::model::{Variant, clean_path};
use crate::session::{self, Database, Problem, SessionError, make_backend};
use crate::sys;

use super::{Failure, catch_termination, finish, notices, offering, terminal};

/// Drop-in for gwd/schedbench: plans, runs, reports of .bench files
#[derive(Args)]
struct Words {
    /// The file of plan and results [default: test.bench]
    #[arg(short, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// With plan: a file whose plan is taken, and whose runs are left
    #[arg(short, value_name = "TEMPLATE")]
    template: Vec<PathBuf>,
    /// Detail of the report: 0 worker sets, 1 workers too, 2 their windows too [default: 0]
    #[arg(short, value_name = "N")]
    verbosity: Vec<u32>,
    /// With run: a plan, by file or name, whose variants may be named in `Schedulers`
    #[arg(long, value_name = "PLAN")]
    variants: Option<String>,
    /// Averages as the original computes them
    #[arg(long)]
    original_averages: bool,
    /// Where to run: `schedlab list backends`
    #[arg(long, default_value = "local", value_parser = offering::backend(), hide_possible_values = true)]
    backend: String,
    /// Actions, in this order; -f, -t and -v hold for those that follow them
    #[arg(required = true, value_name = "ACTION")]
    actions: Vec<Action>,
}

/// The words of the command line, read in their order as the original reads them.
pub struct SchedbenchArgs {
    words: Words,
    /// The places of each action's words.
    places: Vec<Places>,
}

/// Where the words that one action needs stand among their kind.
struct Places {
    file: Option<usize>,
    template: Option<usize>,
    verbosity: Option<usize>,
}

impl FromArgMatches for SchedbenchArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let words = Words::from_arg_matches(matches)?;
        let indices = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<_>>();
        let [files, templates, verbosities] = ["file", "template", "verbosity"].map(indices);
        let places = indices("actions").into_iter().map(|action| Places {
            file: place(&files, action),
            template: place(&templates, action),
            verbosity: place(&verbosities, action),
        });
        Ok(SchedbenchArgs { words, places: places.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SchedbenchArgs {
    fn augment_args(command: Command) -> Command {
        Words::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Words::augment_args_for_update(command)
    }
}

/// The last of `options` before the action; where all stand behind it, the first.
fn place(options: &[usize], action: usize) -> Option<usize> {
    let before = options.iter().filter(|&&option| option < action).count();
    (!options.is_empty()).then(|| before.saturating_sub(1))
}

/// An action, with what the words say of it.
struct Step<'a> {
    action: Action,
    file: &'a Path,
    template: Option<&'a Path>,
    verbosity: u32,
    words: &'a Words,
}

impl SchedbenchArgs {
    fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let words = &self.words;
        self.words.actions.iter().zip(&self.places).map(move |(action, at)| Step {
            action: *action,
            file: at.file.map_or(Path::new("test.bench"), |at| &words.file[at]),
            template: at.template.map(|at| &*words.template[at]),
            verbosity: at.verbosity.map_or(0, |at| words.verbosity[at]),
            words,
        })
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Action {
    /// Make runs of the file's matrix
    Plan,
    /// Do the runs that are not completed
    Run,
    /// Show the results as text
    Report,
    /// Write the results as one page
    Htmlreport,
}

#[derive(Parser)]
#[command(name = "schedbench", version, max_term_width = 100)]
struct Alone {
    #[command(flatten)]
    args: SchedbenchArgs,
}

/// The whole program under the name `schedbench`.
pub fn main() -> ExitCode {
    finish(run(&Alone::parse().args))
}

pub fn run(args: &SchedbenchArgs) -> Result<(), Failure> {
    args.steps().try_for_each(|step| match step.action {
        Action::Plan => plan(&step),
        Action::Run => run_pending(&step),
        Action::Report | Action::Htmlreport => report(&step),
    })
}

fn plan(step: &Step) -> Result<(), Failure> {
    let source = step.template.unwrap_or(step.file);
    let text = schedbench::read_text(source)?;
    let mut file = BenchFile::parse(&text, source)?;
    if step.template.is_some() {
        file.clear_runs();
    }
    file.check_results()?;
    file.expand()?;
    if step.template.is_some() {
        check_replaceable(step.file)?;
    }
    file.save(step.file)?;
    Ok(writeln!(io::stdout(), "Created plan in {}", clean_path(step.file))?)
}

/// A plan from a template is written over a plan without results, or where there is no file, or
/// an empty one.
fn check_replaceable(path: &Path) -> Result<(), Failure> {
    if !path.try_exists().unwrap_or(true) {
        return Ok(());
    }
    let text = schedbench::read_text(path)?;
    if text.is_empty() {
        return Ok(());
    }
    Ok(BenchFile::parse(&text, path)?.check_replaceable(&text)?)
}

fn run_pending(step: &Step) -> Result<(), Failure> {
    // All of it is checked before the machine is touched.
    let text = schedbench::read_text(step.file)?;
    let file = BenchFile::parse(&text, step.file)?;
    check(&file)?;
    let lab = schedbench::machine(&file)?;
    let variants = match &step.words.variants {
        Some(named) => variants_of(named)?,
        None => Vec::new(),
    };
    let db = Database::new(None, notices::show);
    let mut backend = make_backend(&step.words.backend, &lab, Mode::default(), None, true, &db)?;
    // Read again under the lock: another process may have saved it until now.
    let (mut disk, text) = OnDisk::read(step.file, sys::state_dir().ok())?;
    let mut file = BenchFile::parse(&text, step.file)?;
    check(&file)?;
    let cancel = catch_termination()?;
    let mut report = |line: &str| terminal::message(line);
    let tally =
        schedbench::run(&mut file, &mut disk, &variants, &mut *backend, &cancel, &mut report)?;
    judge(step.file, tally)
}

fn check(file: &BenchFile) -> Result<(), Failure> {
    file.check_kind()?;
    file.pending()?;
    Ok(file.check_results()?)
}

fn variants_of(named: &str) -> Result<Vec<Variant>, Failure> {
    Ok(session::load(named)?.parse(None)?.variants)
}

fn judge(path: &Path, tally: schedbench::Tally) -> Result<(), Failure> {
    let schedbench::Tally { completed, skipped, failed, interrupted } = tally;
    let name = clean_path(path);
    if interrupted {
        return Err(SessionError::Interrupted(Problem::new(
            format!("interrupted; completed runs are in {name}"),
            format!("schedlab schedbench -f {name} run"),
        ))
        .into());
    }
    if failed > 0 || (skipped > 0 && completed == 0) {
        let text = format!(
            "runs of {name}: {completed} completed, {skipped} skipped, {failed} failed; the reasons \
             are above"
        );
        return Err(Failure::here(text, format!("schedlab schedbench -f {name} run")));
    }
    Ok(())
}

fn report(step: &Step) -> Result<(), Failure> {
    let text = schedbench::read_text(step.file)?;
    let file = BenchFile::parse(&text, step.file)?;
    file.check_kind()?;
    let averages = if step.words.original_averages { Averages::Original } else { Averages::Right };
    let figures = file.figures(averages)?;
    let mut out = BufWriter::new(io::stdout().lock());
    match step.action {
        Action::Htmlreport => html::write(&mut out, step.file, &figures, averages)?,
        _ => text::write(&mut out, &figures, step.verbosity, averages)?,
    }
    Ok(out.flush()?)
}
