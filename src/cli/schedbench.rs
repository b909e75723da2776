//! `schedlab schedbench`, and the binary called by the name `schedbench`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, ValueEnum};

use crate::compat::schedbench::{self, Averages, BenchFile, OnDisk, html, shown, text};
use crate::model::Variant;
use crate::plan;
use crate::sys::{self, signal};

use super::{Failure, finish, run, terminal};

/// Drop-in for gwd/schedbench: plans, runs and reports of .bench files
#[derive(Args)]
pub struct SchedbenchArgs {
    /// The file of plan and results
    #[arg(short, value_name = "FILE", default_value = "test.bench", overrides_with = "file")]
    file: PathBuf,
    /// With plan: a file whose plan is taken, and whose runs are left
    #[arg(short, value_name = "TEMPLATE", overrides_with = "template")]
    template: Option<PathBuf>,
    /// Of the report: 0 worker sets, 1 workers too, 2 their windows too
    #[arg(short, value_name = "N", default_value_t = 0, overrides_with = "verbosity")]
    verbosity: u32,
    /// With run: a plan, by file or name, whose variants may be named in `Schedulers`
    #[arg(long, value_name = "PLAN")]
    variants: Option<String>,
    /// Averages as the original computes them
    #[arg(long)]
    original_averages: bool,
    /// Where to run: `schedlab list backends`
    #[arg(long, default_value = "local")]
    backend: String,
    /// What to do, in this order
    #[arg(required = true, value_name = "ACTION")]
    actions: Vec<Action>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Action {
    /// Make runs of the file's matrix
    Plan,
    /// Do the runs that are not completed
    Run,
    /// Tell the results in text
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
    args.actions.iter().try_for_each(|action| match action {
        Action::Plan => plan(args),
        Action::Run => run_pending(args),
        Action::Report | Action::Htmlreport => report(args, *action),
    })
}

fn plan(args: &SchedbenchArgs) -> Result<(), Failure> {
    let source = args.template.as_ref().unwrap_or(&args.file);
    let text = schedbench::read_text(source)?;
    let mut file = BenchFile::parse(&text, source)?;
    if args.template.is_some() {
        file.clear_runs();
    }
    file.check_results()?;
    file.expand()?;
    if args.template.is_some() {
        check_replaceable(&args.file)?;
    }
    file.save(&args.file)?;
    Ok(writeln!(io::stdout(), "Created plan in {}", shown(&args.file))?)
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

fn run_pending(args: &SchedbenchArgs) -> Result<(), Failure> {
    // All of it is checked before the machine is touched.
    check(&BenchFile::parse(&schedbench::read_text(&args.file)?, &args.file)?)?;
    let variants = match &args.variants {
        Some(named) => variants_of(named)?,
        None => Vec::new(),
    };
    let mut backend = run::make_backend(&args.backend)?;
    // Read again, now that nobody else measures: who did until now has saved.
    let (mut disk, text) = OnDisk::read(&args.file, sys::state_dir().ok())?;
    let mut file = BenchFile::parse(&text, &args.file)?;
    check(&file)?;
    let cancel = signal::catch_termination()
        .map_err(|error| Failure::Here(format!("cannot catch signals: {error}")))?;
    let mut tell = |line: &str| terminal::tell(line);
    let tally =
        schedbench::run(&mut file, &mut disk, &variants, &mut *backend, &cancel, &mut tell)?;
    judge(&args.file, tally)
}

fn check(file: &BenchFile) -> Result<(), Failure> {
    file.pending()?;
    Ok(file.check_results()?)
}

fn variants_of(named: &str) -> Result<Vec<Variant>, Failure> {
    let (name, text) = run::load(named)?;
    Ok(plan::parse(&name, &text, None).map_err(Failure::Plan)?.variants)
}

fn judge(path: &Path, tally: schedbench::Tally) -> Result<(), Failure> {
    let schedbench::Tally { completed, skipped, failed, interrupted } = tally;
    let name = shown(path);
    if interrupted {
        return Err(Failure::Interrupted(format!(
            "interrupted; completed runs are in {name}\nhint: schedlab schedbench -f {name} run"
        )));
    }
    if failed > 0 || (skipped > 0 && completed == 0) {
        return Err(Failure::Here(format!(
            "of the runs of {name} that were to be done {completed} were completed, {skipped} \
             skipped, {failed} failed; the reasons are above\nhint: schedlab doctor"
        )));
    }
    Ok(())
}

fn report(args: &SchedbenchArgs, action: Action) -> Result<(), Failure> {
    let text = schedbench::read_text(&args.file)?;
    let file = BenchFile::parse(&text, &args.file)?;
    let averages = if args.original_averages { Averages::Original } else { Averages::Right };
    let figures = file.figures(averages)?;
    let mut out = BufWriter::new(io::stdout().lock());
    match action {
        Action::Htmlreport => html::write(&mut out, &args.file, &figures, averages)?,
        _ => text::write(&mut out, &figures, args.verbosity, averages)?,
    }
    Ok(out.flush()?)
}
