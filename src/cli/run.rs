//! `schedlab run`: its arguments, as a request to a session.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::backend::Mode;
use crate::model::{SampledPlan, Shard};
use crate::plan;
use crate::report::clean;
use crate::session::{
    self, Database, LabRequest, MeasureRequest, PlanSource, PlanText, Preparation, Problem,
    Purpose, Request,
};
use crate::variant;

use super::command_plan::{self, CommandArgs};
use super::fleet::FleetArgs;
use super::gate::Gate;
use super::judging::Judging;
use super::measuring::{self, Shown};
use super::output::Output;
use super::shared_cache::CacheArgs;
use super::{Failure, help, install, offering, shards, terminal};

#[derive(Args, Clone, Default)]
pub struct RunArgs {
    /// A built-in plan by name, a plan file, or `last`, plan=ID, tag=NAME: the text of a stored one
    /// [default: quick]
    #[arg(conflicts_with = "resume")]
    plan: Option<String>,
    /// Go on with the newest plan, or the one with this id
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last")]
    pub resume: Option<String>,
    /// In the lab: the kernel of variants without one
    #[arg(long, value_name = "KERNEL", conflicts_with = "resume")]
    kernel: Option<String>,
    /// Words for every kernel's command line, as `preempt=none`; a variant's own follow
    /// them
    #[arg(long, value_name = "WORDS", conflicts_with = "resume", value_parser = parse_kernel_args,
        help_heading = help::LAB)]
    kernel_args: Option<String>,
    /// A machine that `schedlab twin` measured, in place of the plan's: a file, or `twin`, this one
    #[arg(long, value_name = "FILE", conflicts_with = "resume", help_heading = help::LAB)]
    machine: Option<String>,
    /// The plan at another size that it has, as `small`
    #[arg(long, value_name = "NAME", conflicts_with = "resume", help_heading = help::SELDOM)]
    scale: Option<String>,
    #[command(flatten)]
    lab: LabArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    command: CommandArgs,
    /// Print the plan's text and do nothing
    #[arg(long)]
    print: bool,
    /// Install the programs that the plan lacks here, after a question; with --dry-run only name them
    #[arg(long, conflicts_with_all = ["resume", "print"])]
    install: bool,
    /// Check the plan against this machine, print its cells and do nothing
    #[arg(long, conflicts_with = "resume")]
    pub dry_run: bool,
    /// Where to run: `schedlab list backends` [default: local; of findings and cases lab]
    #[arg(long, value_name = "NAME", conflicts_with = "resume", value_parser = offering::backend(),
        hide_possible_values = true)]
    backend: Option<String>,
    /// In place of the plan's rounds; +N with --resume adds N to a plan that is measured until it is decided
    #[arg(help_heading = help::EXTENT, long, value_name = "N")]
    rounds: Option<String>,
    /// Run one part alone, the third of 16, with what is missing of it; `schedlab import` joins the parts.
    /// A part has whole rounds, in the lab without turns the cells of few boots: schedlab help shards
    #[arg(
        long,
        value_name = "PART/PARTS",
        value_parser = shards::parse,
        conflicts_with_all = ["until_decided", "against", "fail_on", "output"],
        help_heading = help::CLUSTER
    )]
    shard: Option<Shard>,
    /// Replaces each duration of the plan: 5s
    #[arg(help_heading = help::EXTENT, long, value_name = "TIME", conflicts_with = "resume")]
    duration: Option<String>,
    /// In place of the plan's seed
    #[arg(long, value_name = "N", conflicts_with = "resume", help_heading = help::SELDOM)]
    seed: Option<i64>,
    /// No round begins that would end after this time, but the first is always made
    #[arg(help_heading = help::EXTENT, long, value_name = "TIME", conflicts_with = "resume")]
    budget: Option<String>,
    /// Count with this probe, next to the plan's own: `schedlab list probes`; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "resume", help_heading = help::SELDOM)]
    probe: Vec<String>,
    /// Measure each workload until its headline metrics (of a test: its expectations) are decided or --budget
    /// ends: the error rate holds whenever it stops
    #[arg(help_heading = help::EXTENT, long, conflicts_with_all = ["resume", "rounds"])]
    until_decided: bool,
    /// Run it in the lab too, as on the machine that `schedlab twin` measures, and print both answers next to
    /// each other; with --resume of a plan that has ended only in the lab
    #[arg(
        long,
        conflicts_with_all = ["backend", "shard", "against", "fail_on", "fleet", "events", "print"],
        help_heading = help::LAB
    )]
    pub and_lab: bool,
    /// Measure the first variant against itself: what this machine resolves
    #[arg(help_heading = help::EXTENT, long, conflicts_with_all = ["resume", "variant"])]
    aa: bool,
    /// Compare what was measured with this too, as `schedlab compare --against`
    #[arg(long, value_name = "SIDE", help_heading = help::SELDOM)]
    against: Option<String>,
    #[command(flatten)]
    pub judging: Judging,
    #[command(flatten)]
    gate: Gate,
    /// Fail (exit 3) where a cell cannot run here, or a run fails
    #[arg(long, help_heading = help::SELDOM)]
    strict: bool,
    /// No progress, and no report but to a file
    #[arg(help_heading = help::OUTPUT, short, long)]
    pub quiet: bool,
    /// On a terminal too: a line each round, not a view of the plan
    #[arg(long, help_heading = help::SELDOM)]
    plain: bool,
    /// Write the engine's events to this new file too, one line of JSON each
    #[arg(long, value_name = "FILE", help_heading = help::SELDOM)]
    events: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub db: Database,
}

impl RunArgs {
    /// Whether the plan is a finding or a case.
    pub fn is_of_kernels(&self) -> bool {
        self.plan.as_deref().is_some_and(plan::is_of_kernels)
    }

    /// Findings and cases are of kernels: they run in the lab, unless another backend is named.
    pub fn in_lab(&self) -> RunArgs {
        let backend = self.backend.clone().unwrap_or_else(|| SampledPlan::LAB.to_string());
        RunArgs { backend: Some(backend), ..self.clone() }
    }

    pub fn backend(&self) -> &str {
        self.backend.as_deref().unwrap_or(SampledPlan::LOCAL)
    }

    /// The plan, the command or the stored plan that the arguments name.
    pub fn plan_source(&self) -> Result<PlanSource, Failure> {
        // With a fleet these words are sbatch's.
        let command = if self.fleet.request().is_some() { None } else { self.command.plan()? };
        if let Some(stored) = self.stored_source() {
            if command.is_some() {
                let text = "--resume goes on with a plan, and takes no command";
                return Err(Failure::usage(text, "one of them: schedlab run -- COMMAND"));
            }
            return Ok(stored);
        }
        self.check_command()?;
        match (command, &self.plan) {
            (Some(text), None) => Ok(PlanSource::Text(PlanText::new(command_plan::SOURCE, text))),
            (Some(_), Some(plan)) => {
                let text = format!("the plan `{}` and a command", clean(plan));
                Err(Failure::usage(text, "one of them: schedlab run -- COMMAND"))
            }
            (None, plan) if self.command.has_variants() => {
                let plan = plan.as_deref().unwrap_or(session::DEFAULT_PLAN);
                let read = session::load_or_stored(plan, &self.db)?;
                let name = format!("{} with --variant", read.name);
                let text = self.command.added_to(&read.text)?;
                Ok(PlanSource::Text(PlanText { name, text, ..read }))
            }
            (None, Some(plan)) => Ok(PlanSource::Named(plan.clone())),
            (None, None) => Ok(PlanSource::default()),
        }
    }

    fn check_command(&self) -> Result<(), Failure> {
        let is_last = std::env::args_os().next_back().is_some_and(|word| word == "--");
        if self.command.is_empty() && is_last {
            Err(Failure::usage("no command stands behind `--`", "schedlab run -- make -j4"))
        } else {
            Ok(())
        }
    }

    /// The plan that `--resume` names.
    pub fn stored_source(&self) -> Option<PlanSource> {
        let id = self.resume.as_ref()?;
        Some(PlanSource::Stored(Some(id.clone()).filter(|id| id != "last")))
    }

    /// The request of `plan`, for `schedlab run` or `test`.
    pub fn request(&self, plan: PlanSource, purpose: Purpose) -> Request {
        Request {
            plan,
            scale: self.scale.clone(),
            backend: self.backend.clone(),
            lab: LabRequest {
                kernel: self.kernel.clone(),
                kernel_args: self.kernel_args.clone(),
                machine: self.machine.clone(),
                ..self.lab.request()
            },
            measure: MeasureRequest {
                rounds: self.rounds.clone(),
                duration: self.duration.clone(),
                seed: self.seed,
                budget: self.budget.clone(),
                until_decided: self.until_decided,
            },
            probes: self.probe.clone(),
            aa: self.aa,
            shard: self.shard,
            against: self.against.clone(),
            judged: self.judging.judged(),
            needs_verdicts: self.gate.is_asked(),
            purpose,
            dry_run: self.dry_run,
            strict: self.strict,
            quiet: self.quiet,
            find_programs: match (self.install, self.dry_run) {
                (false, _) => None,
                (true, true) => Some(|cells| install::install_missing(cells, true)),
                (true, false) => Some(|cells| install::install_missing(cells, false)),
            },
            fleet: self.fleet.request(),
            sbatch: self.command.words().to_vec(),
            report_words: self.output.words(&self.db),
            db: self.db.clone(),
        }
    }

    /// How a plan that runs is shown.
    pub fn shown(&self) -> Shown<'_> {
        Shown {
            quiet: self.quiet,
            // A fleet has messages of its own.
            plain: self.plain || self.fleet.request().is_some(),
            events: self.events.as_deref(),
            needed: self.plan.as_deref().map(Path::new),
            output: &self.output,
            and_lab: self.and_lab,
        }
    }

    /// The first option that has a meaning only where something runs.
    pub fn asks_to_run(&self) -> Option<&'static str> {
        let given = [
            (self.backend.is_some(), "--backend"),
            (self.fleet.request().is_some(), "--fleet"),
            (self.rounds.is_some(), "--rounds"),
            (self.duration.is_some(), "--duration"),
            (self.seed.is_some(), "--seed"),
            (self.budget.is_some(), "--budget"),
            (self.until_decided, "--until-decided"),
            (self.kernel.is_some() || self.kernel_args.is_some(), "--kernel"),
            (self.machine.is_some(), "--machine"),
            (self.scale.is_some(), "--scale"),
            (!self.probe.is_empty(), "--probe"),
            (self.install, "--install"),
            (self.strict, "--strict"),
            (self.print || self.dry_run, "--print or --dry-run"),
        ];
        first_given(&given).or_else(|| self.own_file())
    }

    /// The option that names a file of one plan's own.
    pub fn own_file(&self) -> Option<&'static str> {
        self.events.as_ref().map(|_| "--events")
    }

    /// Whether the plan's text is all that is asked for.
    pub fn prints_text(&self) -> bool {
        self.print && self.resume.is_none()
    }
}

fn first_given(options: &[(bool, &'static str)]) -> Option<&'static str> {
    options.iter().find(|(is_given, _)| *is_given).map(|(_, option)| *option)
}

/// How the lab answers.
#[derive(Args, Clone, Default)]
pub struct LabArgs {
    /// By the host's clock, with KVM where it works; nothing is exact
    #[arg(help_heading = help::LAB, long, conflicts_with_all = ["verify", "cache"])]
    realtime: bool,
    /// Run everything twice, and fail at the first bit that differs
    #[arg(help_heading = help::LAB, long)]
    verify: bool,
    /// Run again what the cache of results has
    #[arg(help_heading = help::LAB, long)]
    again: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl LabArgs {
    pub fn request(&self) -> LabRequest {
        let LabArgs { realtime, verify, again, cache } = self.clone();
        let mode = Mode { realtime, verify, again, covers: false };
        LabRequest { mode, cache: cache.cache, ..LabRequest::default() }
    }
}

pub fn run(args: &RunArgs) -> Result<(), Failure> {
    args.gate.translate(|| run_plan(args))
}

fn run_plan(args: &RunArgs) -> Result<(), Failure> {
    let in_lab = args.is_of_kernels().then(|| args.in_lab());
    let args = in_lab.as_ref().unwrap_or(args);
    let request = args.request(args.plan_source()?, Purpose::Run);
    if args.prints_text() {
        return measuring::print_text(&request);
    }
    #[cfg(feature = "fleet")]
    if let Some(fleet) = request.fleet.as_ref().filter(|fleet| fleet.exclusive && !args.dry_run) {
        refuse_for_hosts(args)?;
        let RunArgs { judging, gate, output, .. } = args;
        return super::fleet::run_on_hosts(&request, fleet, judging, gate, output);
    }
    match session::prepare(request)? {
        Preparation::Done(why) => terminal::message(&why),
        Preparation::Ready(prepared) if args.dry_run => {
            measuring::dry_run(&prepared, &args.output)?;
        }
        Preparation::Ready(prepared) => measuring::run(*prepared, &args.shown(), &args.gate)?,
    }
    Ok(())
}

/// The options that have no meaning where each host measures the plan.
#[cfg(feature = "fleet")]
fn refuse_for_hosts(args: &RunArgs) -> Result<(), Failure> {
    let given = [
        (args.shard.is_some(), "--shard"),
        (args.against.is_some(), "--against"),
        (args.events.is_some(), "--events"),
        (args.lab.realtime, "--realtime"),
        (args.lab.verify, "--verify"),
        (args.lab.again, "--again"),
        (args.install, "--install"),
    ];
    match first_given(&given) {
        None => Ok(()),
        Some(option) => {
            let text = format!("{option} is not for --fleet slurm,exclusive");
            Err(Failure::usage(text, "--fleet slurm, or leave it out"))
        }
    }
}

/// The options of a run that have no meaning for a test, by their ids; [`refuse_for_test`] refuses
/// them.
pub const NOT_OF_TEST: &[&str] = &[
    "aa",
    "and_lab",
    "shard",
    "against",
    "fail_on",
    "metric",
    "variant",
    "parameter",
    "prepare",
    "cleanup",
    "warmup",
    "command",
];

pub fn refuse_for_test(args: &RunArgs) -> Result<(), Failure> {
    let given = [
        (args.aa, "--aa"),
        (args.and_lab, "--and-lab"),
        (args.shard.is_some(), "--shard"),
        (args.against.is_some(), "--against"),
        (args.gate.is_asked(), "--fail-on"),
        (args.judging.judged().names_metrics(), "--metric"),
        (!args.command.is_empty() && args.fleet.request().is_none(), "a command"),
    ];
    match first_given(&given) {
        None => args.check_command(),
        Some(option) => {
            let text = format!("test does not take {option}: a plan says what it expects");
            Err(Failure::usage(text, "schedlab test PLAN; schedlab help expect"))
        }
    }
}

fn parse_kernel_args(text: &str) -> Result<String, Problem> {
    let wrong = || {
        Problem::new(
            "expected words of letters, digits and _-=.,:;/+@%",
            "--kernel-args preempt=none",
        )
    };
    variant::are_kernel_args(text).then(|| text.to_string()).ok_or_else(wrong)
}
