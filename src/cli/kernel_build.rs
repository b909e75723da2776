//! `schedlab kernel build`: from sources and patches to a kernel of the cache.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::backend::lab::kernel::build::{
    self, Base, BuildError, Findings, Outcome, Patch, Request, Series,
};
use crate::backend::lab::kernel::{
    self, AppliedPatch, Built, BuiltName, Cache, KernelError, Name, Wanted, WantedFault, plain,
};
use crate::model::Advice;
use crate::report::{first_of, shortened};
use crate::session::SessionError;

use super::kernel_progress::Show;
use super::{Failure, catch_termination, terminal};
use crate::model::quoted;
use crate::sys::{input, remedy};

const MAX_WIDTH: usize = 200;
/// Letters of a digest that distinguish enough.
const DIGEST: usize = 12;
/// More files that are not compiled, and more patches, than this are counted.
const MAX_UNREAD: usize = 5;
const MAX_PATCHES: usize = 3;

#[derive(Args)]
pub struct BuildArgs {
    /// debian-source:6.12, the newest of that series: its sources in the cache, else on this
    /// machine's package mirror; debian-source:6.12.117 is that version
    #[arg(value_name = "BASE", required_unless_present = "tree", conflicts_with = "tree")]
    base: Option<String>,
    /// A tree of Linux instead, as it is now, with changes that are in no commit
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// A revision of that tree's repository
    #[arg(long, value_name = "REV")]
    rev: Option<String>,
    /// Diffs, mails or an mbox with a series, applied in this order; - is standard input
    #[arg(long = "patch", value_name = "FILE", num_args = 1..)]
    patches: Vec<PathBuf>,
    /// The name of the new kernel, in place of one that had it
    #[arg(long, value_name = "NAME")]
    name: String,
    #[command(flatten)]
    options: BuildOptions,
}

/// How kernels are built.
#[derive(Args, Clone)]
pub struct BuildOptions {
    /// A symbol of the configuration, on top of the lab's
    #[arg(long = "set", value_name = "CONFIG_X=y", num_args = 1..)]
    set: Vec<String>,
    /// A symbol that is to be off
    #[arg(long, value_name = "CONFIG_X", num_args = 1..)]
    unset: Vec<String>,
    /// Compilers at once [default: one for each CPU]
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Also build a kernel whose tick or preemption differs from its base's
    #[arg(long)]
    pub allow_unlike: bool,
    /// Also apply a series of which patches are missing
    #[arg(long)]
    allow_part: bool,
}

impl BuildOptions {
    pub fn wishes(&self) -> Result<Vec<Wanted>, Failure> {
        let set = self.set.iter().map(|text| wish("--set", text, Wanted::parse));
        let unset = self.unset.iter().map(|text| wish("--unset", text, Wanted::off));
        let mut wishes: Vec<Wanted> = set.chain(unset).collect::<Result<_, _>>()?;
        // The same kernel, in whatever order they were written.
        wishes.sort_by(|a, b| a.symbol.cmp(&b.symbol));
        Ok(wishes)
    }

    pub fn jobs(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        self.jobs.map_or_else(cpus, usize::from)
    }

    /// As they stand on a command line, with a space before each.
    pub fn words(&self) -> String {
        let of =
            |option: &'static str| move |symbol: &String| format!(" {option} {}", quoted(symbol));
        let symbols = self.set.iter().map(of("--set")).chain(self.unset.iter().map(of("--unset")));
        let unlike = if self.allow_unlike { " --allow-unlike" } else { "" };
        let part = if self.allow_part { " --allow-part" } else { "" };
        symbols.collect::<String>() + unlike + part
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        if error.is_interrupted() {
            return SessionError::Interrupted(error.problem()).into();
        }
        Failure::from_advice(&error)
    }
}

pub fn run(args: &BuildArgs) -> Result<(), Failure> {
    kernel::check_host()?;
    let request = request(args)?;
    let stop = catch_termination()?;
    let outcome = built(&Cache::open()?, &request, &stop)?;
    let kernel = &outcome.kernel;
    let image = shortened(&kernel.image.to_string_lossy(), MAX_WIDTH);
    let release = shortened(&kernel.release, MAX_WIDTH);
    let digest = part(&kernel.digest);
    let (name, built) = (&kernel.name, description(&outcome.built));
    Ok(writeln!(io::stdout().lock(), "{name}: {release}, {digest}, {image}\n  {built}")?)
}

/// Builds, with progress and what is worth knowing on standard error.
pub fn built(cache: &Cache, request: &Request, stop: &AtomicBool) -> Result<Outcome, BuildError> {
    let mut show = Show::new();
    let outcome = build::build(cache, request, stop, &mut |event| show.event(&event));
    show.clear();
    let outcome = outcome?;
    notes(&outcome.findings).iter().for_each(|note| terminal::message(note));
    Ok(outcome)
}

/// Everything is read and checked before anything is done.
fn request(args: &BuildArgs) -> Result<Request, Failure> {
    let wrong = |name: &str, why| KernelError::Name { name: name.to_string(), why };
    if let (Some(rev), None) = (&args.rev, &args.tree) {
        let text = format!("--rev {} is of a tree, and none is named", plain(rev));
        return Err(Failure::usage(text, "--tree DIR, or debian-source:VERSION alone"));
    }
    let base = match (&args.base, &args.tree) {
        (_, Some(folder)) => Base::Tree { folder: folder.clone(), revision: args.rev.clone() },
        (base, None) => sources(base.as_deref().unwrap_or(""))?,
    };
    let name = BuiltName::parse(&args.name).map_err(|why| wrong(&args.name, why.into()))?;
    let patches = patches(&args.patches, &args.options)?;
    let (wishes, jobs) = (args.options.wishes()?, args.options.jobs());
    let allow_unlike = args.options.allow_unlike;
    Ok(Request { base, patches, wishes, name, jobs, allow_unlike, allow_undefined: false })
}

/// `debian-source:6.12`.
pub fn sources(text: &str) -> Result<Base, Failure> {
    let wrong = |why| KernelError::Name { name: text.to_string(), why };
    Ok(Base::Debian(Name::parse_sources(text).map_err(wrong)?))
}

/// The patches of these files; what is worth knowing of them on standard error.
pub fn patches(files: &[PathBuf], options: &BuildOptions) -> Result<Vec<Patch>, Failure> {
    let files = files.iter().map(|file| bytes(file)).collect::<Result<Vec<_>, _>>()?;
    let Series { patches, notes } =
        build::series(&files, options.allow_part).map_err(BuildError::from)?;
    notes.iter().for_each(|note| terminal::message(&format!("note: {note}")));
    Ok(patches)
}

pub fn wish(
    option: &str,
    text: &str,
    parse: fn(&str) -> Result<Wanted, WantedFault>,
) -> Result<Wanted, Failure> {
    let hint = "--set CONFIG_HZ_1000=y CONFIG_NR_CPUS=8 --unset CONFIG_PSI";
    parse(text).map_err(|why| Failure::usage(format!("{option} {}: {why}", plain(text)), hint))
}

/// With the name that is shown.
fn bytes(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    if path == Path::new("-") {
        let bytes = input::read_stdin(build::MAX_PATCH_BYTES);
        let bytes = bytes.map_err(|error| {
            SessionError::unread(
                format!("cannot read standard input: {error}"),
                "--patch FILE",
                &error,
            )
        })?;
        return Ok(("standard input".to_string(), bytes));
    }
    let shown = plain(&path.to_string_lossy());
    let name =
        path.file_name().map_or_else(|| shown.clone(), |name| plain(&name.to_string_lossy()));
    match input::read_named(path, build::MAX_PATCH_BYTES) {
        Ok(bytes) => Ok((name, bytes)),
        Err(error) => {
            let text = format!("cannot read the patch {shown}: {error}");
            Err(SessionError::unread(text, remedy::read(path, &error), &error).into())
        }
    }
}

/// Patched sources that the compiler did not read.
pub fn not_compiled(findings: &Findings) -> Option<String> {
    let names = &findings.unread;
    let shown = first_of(&names.iter().map(|name| plain(name)).collect::<Vec<_>>(), MAX_UNREAD);
    (!names.is_empty())
        .then(|| format!("the patch changes {shown}, which this configuration does not compile"))
}

/// Remarks about a kernel whose build succeeded.
fn notes(findings: &Findings) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(not_compiled(findings).map(|text| format!("note: {text}")));
    if !findings.lost.is_empty() {
        let lost = findings.lost.iter().map(|lost| plain(&lost.wanted.symbol));
        let lost: Vec<String> = lost.collect();
        notes.push(format!("note: the lab asks for what this kernel has not: {}", lost.join(", ")));
    }
    let matters = findings.differences.iter().filter(|one| one.topic.is_some());
    let matters: Vec<String> = matters.map(ToString::to_string).collect();
    if !matters.is_empty() {
        notes.push(format!("note: the base is configured differently: {}", matters.join(", ")));
    }
    notes
}

/// One line: base, patches and configuration, and when it was built.
pub fn description(built: &Built) -> String {
    format!("{}, built {}", sources_of(built), shortened(&built.built_at, MAX_WIDTH))
}

/// One line: base, patches and configuration.
pub fn sources_of(built: &Built) -> String {
    let each = built.patches.iter().map(|patch| {
        format!(", patch {} {}", shortened(&patch.name, MAX_WIDTH), part(&patch.digest))
    });
    let patches = match built.patches.len() {
        0..=MAX_PATCHES => each.collect::<String>(),
        many => format!(", {many} patches of {}", files_of(&built.patches).join(" and ")),
    };
    let wishes =
        built.wishes.iter().map(|wish| format!(", {}={}", plain(&wish.symbol), wish.setting));
    format!(
        "{}{}{}, configuration {}",
        shortened(&built.base, MAX_WIDTH),
        patches,
        wishes.collect::<String>(),
        part(&built.config_digest)
    )
}

/// The files that patches came in, each once: a patch of a series is named after its file and its subject.
fn files_of(patches: &[AppliedPatch]) -> Vec<String> {
    let file = |patch: &AppliedPatch| match patch.name.split_once(": ") {
        Some((file, _)) => shortened(file, MAX_WIDTH),
        None => shortened(&patch.name, MAX_WIDTH),
    };
    let mut files: Vec<String> = patches.iter().map(file).collect();
    files.dedup();
    files
}

/// As much of a digest as distinguishes.
pub fn part(digest: &str) -> String {
    plain(digest.get(..DIGEST).unwrap_or(digest))
}
