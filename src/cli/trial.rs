//! `schedlab try`: from a patch to a verdict. Builds the base and the patched kernel, runs a plan with
//! both and a control in the lab, and says what is better and what is worse.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::analysis::{Analysis, Selection};
use crate::backend::lab::kernel::build::{
    Base, BuildError, Outcome, Patch, PatchNote, Request as KernelRequest, trial_name,
};
use crate::backend::lab::kernel::{Cache, Difference, Wanted, differences};
use crate::model::{SampledPlan, clean_path};
use crate::plan::{self, KernelVariant};
use crate::report::trial::{Trial, TriedKernel};
use crate::report::{self, clean, shortened};
use crate::session::{
    self, LabRequest, MeasureRequest, PlanSource, PlanText, Preparation, Purpose, Request,
    SessionError, sides,
};
use crate::store::Store;

use super::judging::Judging;
use super::kernel_build::{self, BuildOptions};
use super::measuring::Shown;
use super::output::Output;
use super::report::{AnalysedPlan, analyse_plan};
use super::run::LabArgs;
use super::{Database, Failure, catch_termination, measuring, terminal};
use crate::model::quoted;
use crate::report::numbers::counted;

pub const BASE: &str = "base";
pub const PATCHED: &str = "patched";
const CONTROL: &str = "control";
/// Nothing reads it, and it moves every trajectory.
const CONTROL_WORD: &str = "schedlab.control";
const SOURCES: &str = "debian-source:";
const DEFAULT_BASE: &str = "debian-source:6.12";
const MAX_WIDTH: usize = 100;

#[derive(Args)]
#[command(override_usage = "schedlab try [OPTIONS] <PATCH>...
       schedlab try [OPTIONS] --tree <DIR> --base <BASE>
       schedlab try [OPTIONS] --tree <DIR> --bisect <GOOD> <BAD>")]
pub struct TryArgs {
    /// Diffs, mails or an mbox with a series, in this order; - is standard input
    #[arg(value_name = "PATCH", required_unless_present_any = ["tree", "bisect"])]
    patches: Vec<PathBuf>,
    /// The base of the patches: debian-source:6.18, a tree, or with --tree one of its revisions
    /// [default: debian-source:6.12, or the tree as it is]
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
    /// A tree of Linux. Without patches, what it has now is tried against --base
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// The symbol that enables the patches' change: it is on in the patched kernel, and the control is
    /// the patched kernel with it off
    #[arg(long, value_name = "CONFIG_X")]
    option: Option<String>,
    /// A built-in plan or a plan file without variants, in place of `try`
    #[arg(long, value_name = "PLAN", default_value = "try")]
    pub plan: String,
    /// In place of the plan's seeds: trajectories of each cell
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
    /// Add seeds until each workload's headline metrics are decided or the --budget ends
    #[arg(long)]
    until_decided: bool,
    /// Limit the time that measuring takes (with --bisect each step), as 10min; builds do not count. A seed that would end later does not
    /// begin, but the first one is always measured, with --until-decided the plan's seeds
    /// [default: no limit, with --until-decided 2min]
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Without patches: the commit of --tree that changed the metric whose change from GOOD to BAD is the clearest
    #[arg(long, num_args = 2, value_names = ["GOOD", "BAD"], requires = "tree",
        conflicts_with_all = ["patches", "base", "option", "until_decided"])]
    pub bisect: Option<Vec<String>>,
    /// In place of a plan: whether a case of `schedlab hunt` (schedlab list cases, or its file) is gone, still holds or is new, by
    /// the rules that it breaks; with --bisect the commit that brought or removed it
    #[arg(long, value_name = "CASE", conflicts_with_all = ["plan", "option", "until_decided", "budget", "margin",
        "metric", "mixed", "format", "output"])]
    pub case: Option<String>,
    /// Say which kernels would be built, and how much would run on them; do nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub build: BuildOptions,
    #[command(flatten)]
    lab: LabArgs,
    #[command(flatten)]
    judging: Judging,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub db: Database,
}

impl TryArgs {
    /// The tree to bisect, and its good and its bad revision.
    pub fn to_bisect(&self) -> Option<(&Path, &[String])> {
        Some((self.tree.as_deref()?, self.bisect.as_deref()?))
    }

    /// The lab, with this kernel in place of a plan's own.
    pub fn lab(&self, kernel: Option<String>) -> LabRequest {
        LabRequest { kernel, ..self.lab.request() }
    }

    /// The request to measure its plan with these kernels.
    pub fn plan_request(&self, kernels: &[KernelVariant]) -> Result<Request, Failure> {
        let plan = session::load(&self.plan)?;
        // Its errors are those of the file, whose lines the text with kernels does not have.
        plan.check()?;
        let text = plan::with_kernels(&plan.text, kernels, self.seeds)?;
        Ok(self.request(PlanText { text, ..plan }))
    }

    /// The request to measure a plan of kernels in the lab.
    pub fn request(&self, plan: PlanText) -> Request {
        Request {
            plan: PlanSource::Text(plan),
            backend: Some(SampledPlan::LAB.to_string()),
            lab: self.lab(None),
            measure: MeasureRequest {
                budget: self.budget.clone(),
                until_decided: self.until_decided,
                ..MeasureRequest::default()
            },
            judged: self.judging.judged(),
            purpose: Purpose::Try,
            report_words: self.output.words(&self.db),
            db: self.db.clone(),
            ..Request::default()
        }
    }

    /// Measures a plan without a report; returns its id.
    pub fn measure(&self, request: Request) -> Result<String, Failure> {
        let (quiet, plain, output) = (false, false, &self.output);
        let shown = Shown { quiet, plain, events: None, needed: None, output, and_lab: false };
        match session::prepare(request)? {
            Preparation::Ready(prepared) => measuring::run_silently(*prepared, &shown),
            // The plan is not a part.
            Preparation::Done(why) => Err(SessionError::Here(why.into()).into()),
        }
    }
}

pub fn run(args: &TryArgs) -> Result<(), Failure> {
    let asked = Asked::from_args(args)?;
    let request = args.plan_request(&asked.variants())?;
    // Errors are reported before the compiler runs.
    session::check(&request)?;
    args.output.check_file(args.patches.iter().map(PathBuf::as_path))?;
    let stop = catch_termination()?;
    let kernels = asked.build(args, &stop)?;
    let id = args.measure(request)?;
    answer(args, &asked, &kernels, &id)?;
    all_measured(args, &id)
}

/// An error if there is no run of one of the kernels: nothing follows from the others alone.
fn all_measured(args: &TryArgs, id: &str) -> Result<(), Failure> {
    let plan = args.db.open_read_only()?.sampled(id)?;
    let has_run = |name: &str| {
        plan.runs.iter().any(|run| plan.cells[run.key.cell as usize].variant.name == name)
    };
    match [BASE, PATCHED, CONTROL].into_iter().find(|name| !has_run(name)) {
        None => Ok(()),
        Some(name) => {
            let text =
                format!("no run of the kernel `{name}` could be measured: there is no answer");
            Err(Failure::here(text, args.db.command(&format!("report {id}"))))
        }
    }
}

/// The kernels to build, the patched one first: what is wrong with a patch shows before its base is
/// compiled.
pub struct Asked {
    patched: KernelRequest,
    base: KernelRequest,
    /// The patched tree with its option off; `None`: the base again.
    off: Option<KernelRequest>,
}

/// A kernel that was built, by its variant.
pub type Built = (&'static str, Outcome);

impl Asked {
    pub fn from_args(args: &TryArgs) -> Result<Asked, Failure> {
        let patches = kernel_build::patches(&args.patches, &args.build)?;
        let wishes = args.build.wishes()?;
        let (base, patched) = bases(args, patches.is_empty())?;
        let request = |base: &Base, patches: &[Patch], more: Option<Wanted>| {
            let wishes: Vec<Wanted> = wishes.iter().cloned().chain(more).collect();
            KernelRequest {
                name: trial_name(base, patches, &wishes),
                base: base.clone(),
                patches: patches.to_vec(),
                wishes,
                jobs: args.build.jobs(),
                allow_unlike: args.build.allow_unlike,
                allow_undefined: patches.is_empty() && !args.patches.is_empty(),
            }
        };
        let option = |symbol: &String| {
            let on = kernel_build::wish("--option", &format!("{symbol}=y"), Wanted::parse)?;
            let off = kernel_build::wish("--option", symbol, Wanted::off)?;
            Ok::<_, Failure>((on, off))
        };
        let (on, off) = args.option.as_ref().map(option).transpose()?.unzip();
        Ok(Asked {
            patched: request(&patched, &patches, on),
            base: request(&base, &[], None),
            off: off.map(|off| request(&patched, &patches, Some(off))),
        })
    }

    /// The names of base and patched kernel in the cache.
    pub fn kernels(&self) -> [String; 2] {
        [&self.base, &self.patched].map(|request| request.name.to_string())
    }

    /// The kernels to build, by their variants.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, &KernelRequest)> {
        let off = self.off.as_ref().map(|off| (CONTROL, off));
        [(BASE, &self.base), (PATCHED, &self.patched)].into_iter().chain(off)
    }

    pub fn variants(&self) -> [KernelVariant; 3] {
        let variant = |name, request: &KernelRequest, kernel_args| KernelVariant {
            name,
            kernel: request.name.to_string(),
            kernel_args,
        };
        let control = match &self.off {
            Some(off) => variant(CONTROL, off, None),
            None => variant(CONTROL, &self.base, Some(CONTROL_WORD)),
        };
        [variant(BASE, &self.base, None), variant(PATCHED, &self.patched, None), control]
    }

    pub fn build(&self, args: &TryArgs, stop: &AtomicBool) -> Result<Vec<Built>, Failure> {
        let cache = Cache::open()?;
        let build = |name, request: &KernelRequest| {
            Ok::<_, Failure>((name, kernel_build::built(&cache, request, stop)?))
        };
        let mut built = if self.patched.patches.is_empty() {
            vec![build(BASE, &self.base)?, build(PATCHED, &self.patched)?]
        } else {
            let patched = build(PATCHED, &self.patched)?;
            vec![build(BASE, &self.base)?, patched]
        };
        if let Some(off) = &self.off {
            built.push(build(CONTROL, off)?);
        }
        let unlike: Vec<Difference> =
            unlike(&built).into_iter().filter(Difference::is_unlike).collect();
        if unlike.is_empty() || args.build.allow_unlike {
            Ok(built)
        } else {
            Err(BuildError::Unlike(unlike).into())
        }
    }
}

/// The base's sources and the patched one's.
fn bases(args: &TryArgs, no_patches: bool) -> Result<(Base, Base), Failure> {
    let tree = |folder: &PathBuf, revision: Option<&String>| Base::Tree {
        folder: folder.clone(),
        revision: revision.cloned(),
    };
    let base = match (&args.tree, &args.base) {
        (Some(folder), None) if no_patches => {
            let folder = quoted(&folder.to_string_lossy());
            let hint = format!("schedlab try --tree {folder} --base v6.12, or with patches");
            return Err(Failure::usage("the tree is tried against nothing", hint));
        }
        (Some(folder), revision) => tree(folder, revision.as_ref()),
        (None, None) => kernel_build::sources(DEFAULT_BASE)?,
        (None, Some(base)) if base.starts_with(SOURCES) => kernel_build::sources(base)?,
        (None, Some(base)) if Path::new(base).is_dir() => tree(&PathBuf::from(base), None),
        (None, Some(base)) => {
            let text = format!(
                "{} is not a base: neither {SOURCES}VERSION nor a folder, and a revision needs --tree",
                clean(base)
            );
            return Err(Failure::usage(text, "schedlab try --help"));
        }
    };
    if let Some(folder) = args.tree.as_ref().filter(|folder| !folder.is_dir()) {
        let text = format!("--tree {}: there is no such folder", clean_path(folder));
        return Err(Failure::usage(text, "--tree DIR, with the kernel's Makefile"));
    }
    let patched = match (&args.tree, no_patches) {
        (Some(folder), true) => tree(folder, None),
        _ => base.clone(),
    };
    Ok((base, patched))
}

/// The differences between the configurations of base and patched kernel that matter to scheduling.
fn unlike(built: &[Built]) -> Vec<Difference> {
    let configuration =
        |wanted| built.iter().find(|(name, _)| *name == wanted)?.1.kernel.configuration();
    let both = configuration(BASE).zip(configuration(PATCHED));
    let all = both.map(|(base, patched)| differences(&base, &patched)).unwrap_or_default();
    all.into_iter().filter(|one| one.topic.is_some()).collect()
}

fn answer(args: &TryArgs, asked: &Asked, built: &[Built], id: &str) -> Result<(), Failure> {
    let judged = args.judging.judged();
    let store = args.db.open_read_only()?;
    if args.output.format_name() != report::formats()[0].name {
        let heads = store.plan_heads()?;
        let head = args.db.plan(id, &heads)?;
        let side = (&Selection::of_plan(id), head);
        let AnalysedPlan { analysis, sampled, .. } =
            analyse_plan(&store, side, &judged, &args.output, &args.db)?;
        return args.output.write(&judged, &store, &mut [analysis], &sampled);
    }
    let trial = Trial {
        title: title(asked, built),
        notes: notes(built),
        kernels: built.iter().map(of_built).collect(),
        control: match &asked.off {
            Some(_) => "the patched kernel with its option off".to_string(),
            None => format!("the base again, moved by a word that nothing reads ({CONTROL_WORD})"),
        },
        command: command(args, built),
        patched: against(args, &store, id, [BASE, PATCHED])?,
        control_analysis: against(args, &store, id, [BASE, CONTROL])?,
    };
    args.output.write_by(&judged, |options, out| report::trial::write(&trial, options, out))?;
    let more = args.db.command(&format!("report {id} -v"));
    terminal::message(&format!("every metric of all kernels: {more}"));
    Ok(())
}

/// The second variant of a stored plan against the first.
pub fn against(
    args: &TryArgs,
    store: &Store,
    id: &str,
    variants: [&str; 2],
) -> Result<Analysis, Failure> {
    let sides = variants.map(|name| Selection::of_variant(id, name)).to_vec();
    let plans = sides::sampled(store, &sides)?;
    let judged = args.judging.judged();
    let explaining = args.output.explains(&judged, &plans);
    let question = sides::question(&judged, sides, String::new(), explaining, &args.db);
    Ok(sides::analyse(store, &plans, question)?)
}

fn find_built<'a>(built: &'a [Built], wanted: &str) -> Option<&'a Outcome> {
    built.iter().find(|(name, _)| *name == wanted).map(|(_, outcome)| outcome)
}

/// `base-slice.patch on debian-source:6.12.117-1`.
pub fn title(asked: &Asked, built: &[Built]) -> String {
    let base =
        |name| find_built(built, name).map(|outcome| shortened(&outcome.built.base, MAX_WIDTH));
    let what: Vec<String> =
        asked.patched.patches.iter().map(|patch| shortened(&patch.name, MAX_WIDTH)).collect();
    let what = if what.is_empty() { base(PATCHED).unwrap_or_default() } else { what.join(", ") };
    format!("{what} on {}", base(BASE).unwrap_or_default())
}

fn of_built((name, outcome): &Built) -> TriedKernel {
    TriedKernel { name, about: kernel_build::sources_of(&outcome.built) }
}

pub fn notes(built: &[Built]) -> Vec<String> {
    let differ: Vec<String> = unlike(built).iter().map(ToString::to_string).collect();
    let mut notes = Vec::new();
    if !differ.is_empty() {
        notes.push(format!("the kernels also differ in {}", differ.join(", ")));
    }
    if let Some(patched) = find_built(built, PATCHED) {
        let is_moved = |note: &&PatchNote| matches!(note, PatchNote::Moved { .. });
        let moved = patched.findings.patches.iter().filter(is_moved).count() as u64;
        if moved > 0 {
            notes.push(format!("{} at other lines than the patch names", counted(moved, "hunk")));
        }
        notes.extend(kernel_build::not_compiled(&patched.findings));
    }
    let digest = |name| find_built(built, name).map(|outcome| &outcome.kernel.digest);
    if digest(BASE) == digest(PATCHED) {
        notes.push("the patch changes no byte of the kernel".to_string());
    }
    notes
}

/// With the exact version of a package's sources, which a series has many of.
fn command(args: &TryArgs, built: &[Built]) -> String {
    let mut words = "schedlab try".to_string();
    let path = |path: &PathBuf| quoted(&path.to_string_lossy());
    words.extend(args.patches.iter().map(|patch| format!(" {}", path(patch))));
    words.extend(args.tree.iter().map(|tree| format!(" --tree {}", path(tree))));
    let exact = find_built(built, BASE).map(|outcome| &outcome.built.base);
    let exact = exact.filter(|base| base.starts_with(SOURCES));
    words.extend(exact.or(args.base.as_ref()).map(|base| format!(" --base {}", quoted(base))));
    words.extend(args.option.iter().map(|option| format!(" --option {}", quoted(option))));
    words.push_str(&args.build.words());
    if args.plan != "try" {
        words.push_str(&format!(" --plan {}", quoted(&args.plan)));
    }
    words.extend(args.seeds.map(|seeds| format!(" --seeds {seeds}")));
    words.extend(args.until_decided.then_some(" --until-decided"));
    words.extend(args.budget.iter().map(|budget| format!(" --budget {}", quoted(budget))));
    words + &args.judging.judged().words()
}
