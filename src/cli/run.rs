//! `schedlab run`: a plan from file to stored results and a table.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::Args;

use crate::analysis::{self, Analysis, Question, Selection};
use crate::backend::{self, Backend, BackendConfig, BackendError, Mode};
use crate::engine::{self, Emitted, Job, JobEnd, Poll};
use crate::model::{
    Cell, EVENT_SCHEMA, Environment, Event, Finding, Judged, Lab, LabModel, LookRule, Outcome,
    Plan, PlanEnd, PlanStarted, Raw, Record, SampledPlan, Shard, SharedCache, Window,
};
use crate::plan;
use crate::report::{self, clean};
use crate::stats::Schedule;
use crate::store::{Note, Store, StoreError};
use crate::sys::{self, clock, remedy};
use crate::variant;
use crate::workload;

use super::command_plan::{self, CommandArgs};
use super::exit_code::Problem;
use super::fleet::{self, FleetArgs};
use super::gate::Gate;
use super::help;
use super::judging::{self, Judging, Output};
use super::live::Display;
use super::names::UnknownName;
use super::shards::{self, Begun};
use super::shared_cache::{self, CacheArgs};
use super::text_file::{read_plan, read_text};
use super::{
    Database, Failure, catch_termination, expecting, few_rounds, few_samples, install, named,
    no_plan, plural, restore, running, table, terminal, twin,
};

#[derive(Args, Clone, Default)]
pub struct RunArgs {
    /// A built-in plan by name, a plan file, or `last`, plan=ID, tag=NAME: the text of a stored one
    /// [default: quick]
    #[arg(conflicts_with = "resume")]
    plan: Option<String>,
    /// Go on with what is missing of the newest plan, or of the one with this id
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last")]
    resume: Option<String>,
    /// In the lab: the kernel of variants that name none
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
    /// Install what programs of the plan are missing, by the distribution's packages, after a question;
    /// with --dry-run only say what
    #[arg(long, conflicts_with_all = ["resume", "print"])]
    install: bool,
    /// Check the plan against this machine, print its cells and do nothing
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// Where to run: `schedlab list backends` [default: local]
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    backend: Option<String>,
    /// In place of the plan's rounds, fixed beforehand; +N with --resume adds N to a plan that
    /// is measured until it is decided
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// Run one part alone, the third of 16, with what is missing of it; `schedlab import` joins the parts.
    /// On a host a part has whole rounds, in the lab the cells of few boots: schedlab help shards
    #[arg(
        long,
        value_name = "PART/PARTS",
        value_parser = shards::parse,
        conflicts_with_all = ["until_decided", "against", "fail_on"],
        help_heading = help::CLUSTER
    )]
    shard: Option<Shard>,
    /// In place of the plan's duration of each run, with its unit: 5s
    #[arg(long, value_name = "TIME", conflicts_with = "resume")]
    duration: Option<String>,
    /// In place of the plan's seed
    #[arg(long, value_name = "N", conflicts_with = "resume", help_heading = help::SELDOM)]
    seed: Option<i64>,
    /// In place of the plan's budget: no round begins that would end after this time
    #[arg(long, value_name = "TIME", conflicts_with = "resume", help_heading = help::SELDOM)]
    budget: Option<String>,
    /// Count with this probe, next to the plan's own: `schedlab list probes`; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "resume", help_heading = help::SELDOM)]
    probe: Vec<String>,
    /// Measure each workload until its headline metrics (of a test: its expectations) are decided or
    /// the budget ends, by a rule that is valid whenever it stops
    #[arg(long, conflicts_with_all = ["resume", "rounds"])]
    until_decided: bool,
    /// Measure the first variant against itself: what this machine resolves
    #[arg(long, conflicts_with = "resume")]
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
    /// No progress, and no report but to a file: store only
    #[arg(short, long)]
    quiet: bool,
    #[arg(skip)]
    asker: Asker,
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

/// The subcommand that runs a plan. All but `run` make a report of their own.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Asker {
    #[default]
    Run,
    /// The expectations have to be decided.
    Test,
    /// The plan's text is made anew with each call.
    Try,
}

impl RunArgs {
    /// Findings are of kernels: they run in the lab, unless another backend is named.
    pub fn of_findings(&self) -> RunArgs {
        let backend = self.backend.clone().unwrap_or_else(|| SampledPlan::LAB.to_string());
        RunArgs { backend: Some(backend), ..self.clone() }
    }

    pub fn backend(&self) -> &str {
        self.backend.as_deref().unwrap_or(SampledPlan::LOCAL)
    }

    /// The request to the hosts of a fleet, checked as far as it can be without them.
    #[cfg(feature = "fleet")]
    fn of_hosts(&self) -> Result<fleet::AskedHosts<'_>, Failure> {
        if entry(self.backend())?.capabilities.guests {
            let text = "`exclusive` measures hosts, and in the lab a run is the same on every host";
            return Err(Failure::usage(text, "--fleet slurm, without exclusive"));
        }
        let lab = &self.lab;
        let others = [
            (self.shard.is_some(), "--shard"),
            (self.against.is_some(), "--against"),
            (self.events.is_some(), "--events"),
            (lab.realtime, "--realtime"),
            (lab.verify, "--verify"),
            (lab.again, "--again"),
            (self.install, "--install"),
        ];
        if let Some((_, option)) = others.into_iter().find(|(is_given, _)| *is_given) {
            let text = format!("{option} is not for --fleet slurm,exclusive");
            return Err(Failure::usage(text, "--fleet slurm, or leave it out"));
        }
        let plan = match self.resume {
            Some(_) => None,
            None => {
                let (name, text) =
                    load_or_stored(self.plan.as_deref().unwrap_or("quick"), &self.db)?;
                let text = match &self.scale {
                    Some(scale) => plan::scaled(&text, scale)?,
                    None => text,
                };
                let mut parsed = plan::parse(&name, &text, None, super::known());
                override_measure(parsed.as_mut().map_err(|why| Failure::Plan(why.clone()))?, self)?;
                Some((name, text))
            }
        };
        Ok(fleet::AskedHosts {
            plan,
            resume: self.resume.as_deref(),
            words: self.words_on_hosts(),
            fleet: &self.fleet,
            of_sbatch: self.command.words(),
            judging: &self.judging,
            gate: &self.gate,
            output: &self.output,
            db: &self.db,
            quiet: self.quiet,
        })
    }

    /// The words of the same on a host, but for plan and store.
    #[cfg(feature = "fleet")]
    fn words_on_hosts(&self) -> Vec<String> {
        let given = [
            ("--backend", self.backend.clone()),
            ("--rounds", self.rounds.clone()),
            ("--duration", self.duration.clone()),
            ("--seed", self.seed.map(|seed| seed.to_string())),
            ("--budget", self.budget.clone()),
        ];
        let given = given.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let probes = self.probe.iter().map(|probe| ("--probe", probe.clone()));
        let mut words: Vec<String> =
            given.chain(probes).map(|(option, value)| format!("{option}={value}")).collect();
        let flags =
            [("--until-decided", self.until_decided), ("--aa", self.aa), ("--strict", self.strict)];
        words.extend(
            flags.iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_string()),
        );
        words.extend(self.judging.options());
        words.push("--quiet".to_string());
        words
    }

    /// The backend, with a fleet before it where one is asked for.
    fn over_fleet(
        &self,
        backend: Box<dyn Backend>,
        job: &Job,
    ) -> Result<Box<dyn Backend>, Failure> {
        if self.fleet.is_given() && !self.lab.cache.is_empty() {
            let text = "--cache: the nodes of a fleet do not ask a shared cache";
            return Err(Failure::usage(text, "leave it out, or run without --fleet"));
        }
        self.fleet.over(backend, job, self.lab.mode(), self.quiet, self.command.words())
    }
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
    /// The options to repeat where a plan is resumed; the time limit is the plan's own.
    fn words(&self) -> String {
        let verify = if self.verify { " --verify" } else { "" };
        format!("{verify}{}", self.cache.words())
    }

    /// Whether the lab is asked for something.
    fn is_asked(&self) -> bool {
        self.realtime || self.verify || self.again || !self.cache.is_empty()
    }

    /// With the cache that is asked for, where there are answers that can be shared.
    fn backend(&self, name: &str, lab: &Lab, will_run: bool) -> Result<Box<dyn Backend>, Failure> {
        let shares = entry(name)?.capabilities.guests && !lab.realtime;
        let cache = if shares { self.cache.asked()? } else { None };
        // Only what runs may cost the time of a slow one.
        make_backend(name, lab, self.mode(), cache.as_ref().filter(|_| will_run), will_run)
    }

    fn say_verified(&self, runs: usize) {
        if self.verify && runs > 0 {
            let text = format!("verified: {runs} runs, each done twice, the same to the last bit");
            terminal::message(&text);
        }
    }

    fn mode(&self) -> Mode {
        Mode { realtime: self.realtime, verify: self.verify, again: self.again }
    }
}

pub fn run(args: &RunArgs) -> Result<(), Failure> {
    args.gate.translate(|| run_plan(args))
}

fn run_plan(args: &RunArgs) -> Result<(), Failure> {
    #[cfg(feature = "fleet")]
    if args.fleet.is_exclusive() && !args.print && !args.dry_run {
        return fleet::run_on_hosts(&args.of_hosts()?);
    }
    if args.resume.is_some() {
        let (args, job, backend) = resumed(args)?;
        if let Some(shard) = args.shard.filter(|_| job.runs_done() >= job.total_runs()) {
            terminal::message(&format!("part {shard} lacks nothing: nothing is run"));
            return Ok(());
        }
        return execute(&args, job, backend);
    }
    let Some((job, backend)) = prepared(args)? else { return Ok(()) };
    if args.dry_run {
        return dry_run(args, &job, &*backend);
    }
    match shards::begun(&args.db, &job.started)? {
        Begun::Nothing => {}
        Begun::Done(why) => {
            terminal::message(&why);
            return Ok(());
        }
        Begun::Part(id) => {
            // It holds the machine.
            drop(backend);
            let (args, job, backend) = resumed(&RunArgs { resume: Some(id), ..args.clone() })?;
            return execute(&args, job, backend);
        }
    }
    execute(args, job, backend)
}

/// The outcome of a plan that is to be tested.
pub enum Measured {
    /// The id of the stored plan.
    Stored(String),
    /// A finding that virtual time cannot show: nothing was run.
    NotModelled(Box<Finding>),
    /// Its text or its cells, as was asked for.
    Printed,
}

/// The plan that a test begins or resumes.
pub enum Tested<'a> {
    Plan(&'a str),
    /// The plan that `--resume` names.
    Stored,
}

/// Runs a plan without a report, if what it expects can be tested.
pub fn measure(args: &RunArgs, what: Tested) -> Result<Measured, Failure> {
    refuse_for_test(args)?;
    let (mut args, job, backend) = match what {
        Tested::Stored => resumed(&RunArgs { asker: Asker::Test, ..args.clone() })?,
        Tested::Plan(plan) => {
            let args = of_test(args, plan);
            let Some((job, backend)) = prepared(&args)? else { return Ok(Measured::Printed) };
            (args, job, backend)
        }
    };
    let PlanStarted { id, plan, .. } = &job.started;
    if let Some(finding) = plan.finding.as_ref().filter(|finding| finding.not_modelled.is_some()) {
        return Ok(Measured::NotModelled(Box::new(finding.clone())));
    }
    if plan.expectations.is_empty() {
        return Err(expecting::nothing(&plan.title));
    }
    if args.dry_run {
        return dry_run(&args, &job, &*backend).map(|()| Measured::Printed);
    }
    // The live view shows the metrics of the expectations.
    args.judging = args.judging.of_metrics(analysis::expected_metrics(&plan.expectations));
    let id = id.clone();
    execute(&args, job, backend)?;
    Ok(Measured::Stored(id))
}

/// A plan of kernels that `schedlab try` makes.
pub struct Tried<'a> {
    /// The name of the text in messages.
    pub name: &'a str,
    pub text: String,
    pub lab: &'a LabArgs,
    pub budget: Option<&'a str>,
    pub until_decided: bool,
    pub plain: bool,
    pub judging: &'a Judging,
    pub output: &'a Output,
    pub db: &'a Database,
}

impl Tried<'_> {
    fn args(&self) -> RunArgs {
        RunArgs {
            backend: Some(SampledPlan::LAB.to_string()),
            lab: self.lab.clone(),
            budget: self.budget.map(str::to_string),
            until_decided: self.until_decided,
            plain: self.plain,
            judging: self.judging.clone(),
            output: self.output.clone(),
            db: self.db.clone(),
            asker: Asker::Try,
            ..RunArgs::default()
        }
    }

    /// Fails where the plan or what is asked of it is wrong; nothing runs.
    pub fn check(&self) -> Result<(), Failure> {
        let args = self.args();
        let lab = lab_of(&args, self.name, &self.text)?;
        let topology = args.lab.backend(args.backend(), &lab, false)?.environment().topology;
        let mut plan = plan::parse(self.name, &self.text, Some(&topology), super::known())
            .map_err(Failure::Plan)?;
        override_measure(&mut plan, &args)?;
        let cells = plan::cells(&plan);
        let own = expecting::Text { name: self.name, text: &self.text };
        expecting::check(&plan, &cells, &args.judging, &own)?;
        named::check(args.judging.patterns(), || named::places(&cells, &plan.probes, &[], false))
    }

    /// Runs it without a report; returns its id.
    pub fn measure(self) -> Result<String, Failure> {
        let args = self.args();
        let (job, backend) = prepared_text(&args, self.name, self.text)?;
        let id = job.started.id.clone();
        execute(&args, job, backend)?;
        Ok(id)
    }
}

/// A plan of the lab whose runs are read as they end. Nothing of it is stored.
pub struct Watched<'a> {
    /// The name of the text in messages.
    pub name: &'a str,
    pub text: String,
    /// In place of the plan's.
    pub kernel: Option<&'a str>,
    /// In place of the plan's seeds.
    pub seeds: Option<u32>,
}

/// One ended run of it.
pub struct WatchedRun<'a> {
    pub plan: &'a Plan,
    pub cell: &'a Cell,
    pub round: u32,
    pub windows: &'a [Window],
    pub outcome: &'a Outcome,
}

impl Watched<'_> {
    pub fn watch(
        self,
        cancel: &AtomicBool,
        on_run: &mut dyn FnMut(WatchedRun),
    ) -> Result<PlanEnd, Failure> {
        let args = RunArgs {
            backend: Some(SampledPlan::LAB.to_string()),
            kernel: self.kernel.map(str::to_string),
            rounds: self.seeds.map(|seeds| seeds.to_string()),
            ..RunArgs::default()
        };
        let (job, mut backend) = prepared_text(&args, self.name, self.text)?;
        let PlanStarted { plan, cells, .. } = job.started.clone();
        let mut windows = Vec::new();
        let end = engine::execute(
            job,
            &mut *backend,
            cancel,
            &mut |emitted: Emitted| {
                match emitted {
                    Emitted::Event(Event::RunStarted { .. }) => windows.clear(),
                    Emitted::Event(Event::Window { window, .. }) => windows.push(window.clone()),
                    Emitted::Event(Event::RunEnded { key, outcome }) => {
                        let cell = &cells[key.cell as usize];
                        on_run(WatchedRun {
                            plan: &plan,
                            cell,
                            round: key.round,
                            windows: &windows,
                            outcome,
                        });
                    }
                    _ => {}
                }
                Ok::<(), Failure>(())
            },
            &mut |_| None,
        )?;
        backend.conclude(end.end)?;
        Ok(end.end)
    }
}

/// Fails where a plan cannot be tested; nothing runs.
pub fn check_test(args: &RunArgs, plan: &str) -> Result<(), Failure> {
    refuse_for_test(args)?;
    let args = RunArgs { dry_run: true, install: false, ..of_test(args, plan) };
    match prepared(&args)? {
        Some((job, _)) if job.started.plan.expectations.is_empty() => {
            Err(expecting::nothing(&job.started.plan.title))
        }
        _ => Ok(()),
    }
}

fn of_test(args: &RunArgs, plan: &str) -> RunArgs {
    RunArgs { plan: Some(plan.to_string()), asker: Asker::Test, ..args.clone() }
}

/// The options of a run that have no meaning for a test, by their ids; [`refuse_for_test`] refuses
/// them.
pub const NOT_OF_TEST: &[&str] = &[
    "aa",
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

fn refuse_for_test(args: &RunArgs) -> Result<(), Failure> {
    let given = [
        (args.aa, "--aa"),
        (args.shard.is_some(), "--shard"),
        (args.against.is_some(), "--against"),
        (args.gate.is_asked(), "--fail-on"),
        (args.judging.names_metrics(), "--metric"),
        (!args.command.is_empty() && !args.fleet.is_given(), "a command"),
    ];
    match given.into_iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) => {
            let text = format!("test does not take {option}: a plan says what it expects");
            Err(Failure::usage(text, "schedlab test PLAN; schedlab help expect"))
        }
    }
}

impl RunArgs {
    /// The first option that has a meaning only where something runs.
    pub fn asks_to_run(&self) -> Option<&'static str> {
        let given = [
            (self.backend.is_some(), "--backend"),
            (self.fleet.is_given(), "--fleet"),
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
        let own_file = self.own_file().map(|option| (true, option));
        let given = given.into_iter().chain(own_file).find(|(is_given, _)| *is_given);
        given.map(|(_, option)| option)
    }

    /// The option that names a file of one plan's own.
    pub fn own_file(&self) -> Option<&'static str> {
        self.events.as_ref().map(|_| "--events")
    }

    pub fn is_resumed(&self) -> bool {
        self.resume.is_some()
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// A job, and the backend that is ready for it.
type Prepared = (Job, Box<dyn Backend>);

/// `None`: the plan's text was printed.
fn prepared(args: &RunArgs) -> Result<Option<Prepared>, Failure> {
    if args.command.is_empty() && std::env::args_os().next_back().is_some_and(|word| word == "--") {
        return Err(Failure::usage("no command stands behind `--`", "schedlab run -- make -j4"));
    }
    // With a fleet these words are sbatch's.
    let command = if args.fleet.is_given() { None } else { args.command.plan()? };
    let (name, text) = match (command, &args.plan) {
        (Some(text), None) => (command_plan::SOURCE.to_string(), text),
        (Some(_), Some(plan)) => {
            let text = format!("the plan `{}` and a command", clean(plan));
            return Err(Failure::usage(text, "one of them: schedlab run -- COMMAND"));
        }
        (None, plan) => load_or_stored(plan.as_deref().unwrap_or("quick"), &args.db)?,
    };
    let text = match &args.scale {
        Some(scale) => plan::scaled(&text, scale)?,
        None => text,
    };
    if args.print {
        write!(io::stdout().lock(), "{text}")?;
        return Ok(None);
    }
    prepared_text(args, &name, text).map(Some)
}

fn prepared_text(args: &RunArgs, name: &str, text: String) -> Result<Prepared, Failure> {
    let lab = lab_of(args, name, &text)?;
    let backend = args.lab.backend(args.backend(), &lab, !args.dry_run)?;
    let mut environment = backend.environment();
    let mut plan = plan::parse(name, &text, Some(&environment.topology), super::known())
        .map_err(Failure::Plan)?;
    let capabilities = entry(args.backend())?.capabilities;
    if capabilities.guests {
        plan.lab = machine_of(&*backend).unwrap_or(lab);
        of_seeds(&mut plan, args);
    }
    if capabilities.own_kernels {
        environment.kernel_release = kernels_of(&plan);
    }
    override_measure(&mut plan, args)?;
    for probe in &args.probe {
        plan::add_probe(&mut plan, probe, super::known())
            .map_err(|wrong| Failure::option("--probe", wrong))?;
    }
    if args.aa {
        against_itself(&mut plan);
    }
    let cells = plan::cells(&plan);
    expecting::check(&plan, &cells, &args.judging, &expecting::Text { name, text: &text })?;
    if args.install {
        install::missing(&cells, args.dry_run)?;
    }
    if !args.dry_run && cells.iter().any(workload::is_timed) {
        environment.calibration = backend.calibrate();
    }
    let started_unix_ns = clock::unix_ns();
    let mut started = PlanStarted {
        schema: EVENT_SCHEMA,
        id: running::execution_id(started_unix_ns),
        backend: args.backend().to_string(),
        started_unix_ns,
        source: text,
        plan,
        cells,
        judged: args.judging.judged(),
        sharding: None,
        environment,
    };
    if let Some(shard) = args.shard {
        shards::divide(&mut started, shard, capabilities.guests)?;
    }
    let mut job = Job::new(started);
    set_rounds(&mut job)?;
    backend.prepare(&job.started.cells)?;
    if !args.dry_run {
        check_any(&job, &*backend)?;
    }
    Ok((job, backend))
}

/// Fails where not one cell can run here, before anything is stored.
fn check_any(job: &Job, backend: &dyn Backend) -> Result<(), Failure> {
    let (cells, machine) = (&job.started.cells, &job.started.environment.topology);
    let mut reasons = Vec::new();
    for cell in cells {
        match engine::check(backend, cell, machine) {
            Ok(_) => return Ok(()),
            Err(why) => reasons.push((why, cell.place())),
        }
    }
    let reasons = analysis::grouped(reasons);
    let lines =
        reasons.iter().map(|(why, places)| format!("{}: {}", places.join(", "), why.message()));
    let text =
        format!("no run of the plan can be made here: {}", lines.collect::<Vec<_>>().join("; "));
    let hint = reasons.iter().find_map(|(why, _)| why.hint()).map(str::to_string);
    Err(Failure::Here(Problem { message: clean(&text), hint }))
}

/// In the lab rounds are seeds.
fn of_seeds(plan: &mut Plan, args: &RunArgs) {
    let measure = &mut plan.measure;
    if !measure.until_decided {
        measure.rounds = plan.lab.seeds;
    } else if args.rounds.is_some() {
        // It is that of rounds that are not fixed.
        measure.budget_ns = None;
    }
}

/// The id of the plan that `--resume` names.
fn resumed_id(args: &RunArgs, store: &Store) -> Result<String, Failure> {
    let named = args.resume.as_deref().filter(|id| *id != "last");
    match (named, args.shard) {
        (_, Some(shard)) => {
            let heads = store.plan_heads()?;
            let named = named.map(|id| args.db.plan(id, &heads)).transpose()?;
            shards::resumed(&heads, named, shard, &args.db)
        }
        (Some(prefix), None) => Ok(args.db.plan(prefix, &store.plan_heads()?)?.id.clone()),
        (None, None) => newest_unfinished(store, &args.db),
    }
}

/// The id of the newest plan, if it can go on or the store has lost runs of it: an older one is gone on with by its
/// id alone.
fn newest_unfinished(store: &Store, db: &Database) -> Result<String, Failure> {
    let heads = store.plan_heads()?;
    let mut own = heads.iter().filter(|head| head.backend != SampledPlan::IMPORTED);
    let text = match own.next() {
        Some(newest) if newest.is_unfinished() || !store.sound_record(&newest.id)?.1 => {
            return Ok(newest.id.clone());
        }
        Some(newest) => {
            let (id, title) = (clean(&newest.id), clean(&newest.title));
            format!("nothing to resume: the newest plan, {id} ({title}), was not interrupted")
        }
        None => "nothing to resume: no plan is stored".to_string(),
    };
    let command = match own.find(|head| head.is_unfinished()) {
        Some(older) => format!("run --resume {}", clean(&older.id)),
        None => "list runs".to_string(),
    };
    Err(Failure::usage(text, db.command(&command)))
}

/// Returns [`Store::sound_record`], or an error if the plan cannot be measured here.
fn own_record(store: &Store, id: &str, db: &Database) -> Result<(Record, bool), Failure> {
    let found = store.sound_record(id)?;
    if found.0.started.backend != SampledPlan::IMPORTED {
        return Ok(found);
    }
    let text = format!("another tool measured {id}, and what it lacks cannot be measured here");
    let again = format!("{}, then import it again", db.command(&format!("rm {id}")));
    Err(Failure::usage(text, again))
}

/// The missing runs of the stored plan that `--resume` names, with its original options.
fn resumed(args: &RunArgs) -> Result<(RunArgs, Job, Box<dyn Backend>), Failure> {
    if !args.command.is_empty() && !args.fleet.is_given() {
        let text = "--resume goes on with a plan, and takes no command";
        return Err(Failure::usage(text, "one of them: schedlab run -- COMMAND"));
    }
    let more = args.rounds.as_deref().map(added_rounds).transpose()?;
    let store = args.db.open()?;
    let id = resumed_id(args, &store)?;
    let (mut record, is_whole) = own_record(&store, &id, &args.db)?;
    if let Some(shard) = args.shard {
        shards::part_of(&mut record, shard, &store)?;
    }
    let Record { mut started, ended, runs, .. } = record;
    drop(store);
    let rounds_done = runs.iter().map(|run| run.key.round + 1).max().unwrap_or(0);
    if is_whole || more.is_some() {
        may_go_on(&started, ended, more, &args.db)?;
    }
    if !args.fleet.is_given() {
        fleet::leave(&id)?;
    }
    if let Some(more) = more {
        started.plan = started.plan.extended(rounds_done, more);
    }
    let is_real = started.plan.lab.realtime;
    if args.lab.realtime && !is_real || args.lab.verify && is_real {
        let (asked, is) = match is_real {
            true => ("--verify", "real"),
            false => ("--realtime", "virtual"),
        };
        let text = format!("the plan {id} was begun in {is} time, and {asked} does not fit it");
        return Err(Failure::usage(text, args.db.command(&format!("run --resume {id}"))));
    }
    if started.cells != plan::cells(&started.plan) {
        let text = format!("the stored plan {id} does not fit its own cells");
        return Err(Failure::usage(text, "schedlab run with the plan's file"));
    }
    let backend = args.lab.backend(&started.backend, &started.plan.lab, true)?;
    if let Some(lab) = machine_of(&*backend)
        && lab != started.plan.lab
    {
        let text =
            format!("the plan {id} was begun with clocks that this QEMU cannot give its CPUs");
        return Err(Failure::usage(text, "schedlab doctor --lab"));
    }
    // Work that is given as times stays what it was.
    let calibration = started.environment.calibration;
    let here = Environment { calibration, ..backend.environment() };
    is_of_here(args, &started, &here)?;
    started.environment = here;
    if entry(&started.backend)?.capabilities.own_kernels {
        started.environment.kernel_release = kernels_of(&started.plan);
    }
    let done = runs.iter().map(|run| (run.key, run.outcome.is_spoilt()));
    let mut job = Job::resumed(started, done);
    say_resumed(args, &job);
    set_rounds(&mut job)?;
    backend.prepare(&job.started.cells)?;
    if more.is_some() {
        // The user asked for these rounds, however long they take.
        job.budget = None;
    }
    let judging = args.judging.or(&job.started.judged);
    Ok((RunArgs { judging, ..args.clone() }, job, backend))
}

fn say_resumed(args: &RunArgs, job: &Job) {
    if !args.quiet {
        let PlanStarted { id, plan, .. } = &job.started;
        let runs = match job.runs_done() {
            1 => "1 run is stored".to_string(),
            runs => format!("{runs} runs are stored"),
        };
        terminal::message(&format!("goes on with {} ({}): {runs}", clean(id), clean(&plan.title)));
    }
}

/// Rounds of a plan until it is decided that are done whatever its budget: the seeds of a lab, whose
/// answer then depends on the time only where they are not enough. And those without which nothing can be
/// said.
fn set_rounds(job: &mut Job) -> Result<(), Failure> {
    let has_seeds = entry(&job.started.backend)?.capabilities.guests;
    let plan = &job.started.plan;
    if plan.measure.until_decided && has_seeds {
        job.min_rounds = plan.lab.seeds.min(plan.measure.rounds);
    }
    job.needed_rounds = analysis::needed_rounds(plan);
    Ok(())
}

/// Runs of two machines under one plan are what a user asks for by its id alone.
fn is_of_here(args: &RunArgs, begun: &PlanStarted, here: &Environment) -> Result<(), Failure> {
    let begun_on = &begun.environment.hostname;
    if *begun_on == here.hostname {
        return Ok(());
    }
    let (id, begun_on) = (clean(&begun.id), clean(begun_on));
    if args.resume.as_deref() == Some("last") {
        let text = format!("the last interrupted plan, {id}, was begun on machine {begun_on}");
        let again = args.db.command(&format!("run --resume {id}"));
        return Err(Failure::usage(text, format!("to go on with it on this one: {again}")));
    }
    terminal::message(&format!("warning: {id} was begun on machine {begun_on}, not on this one"));
    Ok(())
}

/// The machine of guests, with a warning where it is less than what was asked for.
fn machine_of(backend: &dyn Backend) -> Option<Lab> {
    let (lab, why) = backend.guests()?;
    if let Some(why) = why {
        let ns = lab.instruction_ns();
        terminal::message(&format!(
            "warning: all virtual CPUs share one clock, at {ns} ns an instruction: {why}; see \
             schedlab help lab"
        ));
    }
    Some(lab)
}

/// `+20`: 20 rounds more.
fn added_rounds(text: &str) -> Result<u32, Failure> {
    let number = text.strip_prefix('+').and_then(|number| number.parse().ok());
    number.filter(|more| (1..=plan::MAX_DECIDING_ROUNDS).contains(more)).ok_or_else(|| {
        let (shown, max) = (clean(text), plan::MAX_DECIDING_ROUNDS);
        let text = format!("--rounds {shown}: with --resume it says how many to add, 1 to {max}");
        Failure::usage(text, "--rounds +20")
    })
}

/// An interrupted plan can be resumed. After an end rounds may be added where its look left part of
/// the error rate to spend: a plan of fixed rounds has spent it all, as has one by the early
/// rule, and a further look would come on top of it.
fn may_go_on(
    started: &PlanStarted,
    ended: Option<PlanEnd>,
    more: Option<u32>,
    db: &Database,
) -> Result<(), Failure> {
    let (measure, id) = (&started.plan.measure, clean(&started.id));
    let can_add = measure.leaves_a_look();
    let why = match (ended, more) {
        (None | Some(PlanEnd::Interrupted), None) => return Ok(()),
        (None | Some(PlanEnd::Interrupted), Some(_)) => {
            let text = format!("{id} was interrupted: finish it before rounds are added");
            return Err(Failure::usage(text, db.command(&format!("run --resume {id}"))));
        }
        (Some(PlanEnd::Complete | PlanEnd::Budget), Some(_)) if can_add => return Ok(()),
        (Some(PlanEnd::Complete), None) if !measure.until_decided => return Ok(()),
        (Some(PlanEnd::Budget), None) if !measure.until_decided => return Ok(()),
        (Some(PlanEnd::Decided), _) => "all of it is decided",
        (Some(PlanEnd::Budget), _) => "its budget is used up",
        (Some(PlanEnd::Complete), _) => "all of its rounds are done",
    };
    Err(match can_add && ended != Some(PlanEnd::Decided) {
        true => Failure::usage(
            format!("{id} cannot go on: {why}"),
            db.command(&format!("run --resume {id} --rounds +20")),
        ),
        false => Failure::usage(
            format!("{id} cannot go on: {why}, and no further look at its verdicts is left"),
            "run the plan again, --until-decided with a larger --budget",
        ),
    })
}

/// Whether a plan is named by what is stored, and is neither built in nor a file.
pub fn is_stored(named: &str, db: &Database) -> bool {
    let begins_id = || {
        let heads = db.open_read_only().and_then(|store| Ok(store.plan_heads()?));
        heads.is_ok_and(|heads| heads.iter().any(|head| head.id.starts_with(named)))
    };
    let is_other = plan::builtin(named).is_some() || Path::new(named).exists();
    !is_other && !named.is_empty() && (analysis::is_selection(named) || begins_id())
}

/// As [`load`], or the text of a stored plan.
pub fn load_or_stored(named: &str, db: &Database) -> Result<(String, String), Failure> {
    if !is_stored(named, db) {
        return load(named);
    }
    let store = db.open_read_only()?;
    let id = db.plan(named, &store.plan_heads()?)?.id.clone();
    let text = store.source(&id)?;
    Ok((format!("plan={id}"), text))
}

/// The plan's name for messages and its text: a built-in by name, else a file.
pub fn load(named: &str) -> Result<(String, String), Failure> {
    if let Some(builtin) = plan::builtin(named) {
        return Ok((format!("built-in plan {}", builtin.name), builtin.text.to_string()));
    }
    let shown = clean(named);
    let read = read_plan(Path::new(named));
    let text = read.map_err(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            let text = format!("cannot read the plan `{shown}`: {error}");
            return Failure::unread(text, remedy::read(Path::new(named), &error), &error);
        }
        no_plan::failure(named)
    });
    Ok((named.to_string(), with_programs(named, text?)?))
}

/// With the programs that it names by files next to it.
fn with_programs(named: &str, text: String) -> Result<String, Failure> {
    let read = |file: String| {
        let path = twin::next_to(named, &file);
        read_text(&path).map(|program| (file, program)).map_err(|error| {
            let text = format!(
                "cannot read the program `{}`: {error}",
                clean(&path.display().to_string())
            );
            let hint = "use = \"mine.toml\" is a file next to the plan; schedlab help commands";
            Failure::unread(text, hint, &error)
        })
    };
    let (files, others) = plan::used(&text);
    let is_known = |name: &String| {
        workload::find(name).is_some() || plan::programs().iter().any(|known| known.name == *name)
    };
    for name in others.iter().filter(|name| !is_known(name)) {
        let file = format!("{name}.toml");
        if twin::next_to(named, &file).is_file() {
            let shown = clean(name);
            let text = format!("there is no workload `{shown}`, but a file `{shown}.toml`");
            return Err(Failure::usage(text, format!("use = \"{shown}.toml\"")));
        }
    }
    let files = files.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    plan::with_program_files(&text, &files).map_err(Failure::Plan)
}

/// The guests of a plan for the lab; elsewhere the plan's own will do.
fn lab_of(args: &RunArgs, name: &str, text: &str) -> Result<Lab, Failure> {
    let boots = args.kernel.is_some() || args.kernel_args.is_some() || args.machine.is_some();
    let asks = boots || args.lab.is_asked();
    if !entry(args.backend())?.capabilities.guests {
        return match asks {
            true => Err(Failure::usage(
                format!(
                    "--kernel, --kernel-args, --machine, --realtime, --verify, --again and --cache \
                     are for the lab, not for `{}`",
                    clean(args.backend())
                ),
                "--backend lab",
            )),
            false => Ok(Lab::default()),
        };
    }
    let mut lab = twin::lab_of_plan(name, text, args.machine.as_deref())?;
    if let Some(kernel) = &args.kernel {
        lab.kernel.clone_from(kernel);
    }
    if let Some(words) = &args.kernel_args {
        lab.kernel_args.clone_from(words);
    }
    lab.realtime = args.lab.realtime;
    if lab.realtime {
        lab.model = LabModel::default();
    }
    Ok(lab)
}

fn parse_kernel_args(text: &str) -> Result<String, Problem> {
    let wrong =
        || Problem::new("no words of a kernel's command line", "--kernel-args preempt=none");
    variant::are_kernel_args(text).then(|| text.to_string()).ok_or_else(wrong)
}

/// The kernels of a plan's guests: by them comparisons distinguish plans.
fn kernels_of(plan: &Plan) -> String {
    let kernels = plan.variants.iter().map(|variant| variant.kernel_in(&plan.lab));
    kernels.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

fn entry(name: &str) -> Result<&'static backend::Entry, Failure> {
    backend::find(name).ok_or_else(|| {
        let names = backend::registry().iter().map(|entry| entry.name);
        UnknownName::new("backend", name, names, "schedlab list backends").into()
    })
}

/// Makes a backend. If it will make runs, the machine is as it was before any killed schedlab; else nothing is
/// changed, and no folder of the user's is needed.
pub fn make_backend(
    name: &str,
    lab: &Lab,
    mode: Mode,
    shared_cache: Option<&SharedCache>,
    will_run: bool,
) -> Result<Box<dyn Backend>, Failure> {
    let entry = entry(name)?;
    if will_run && entry.capabilities.touches_machine {
        for line in restore::undo_leftovers()? {
            terminal::message(&format!("restored: {line}"));
        }
    }
    let state = if will_run { Some(sys::state_dir()?) } else { None };
    let mode = Mode { realtime: lab.realtime, ..mode };
    Ok((entry.make)(&BackendConfig { state: state.as_deref(), lab, mode, shared_cache })?)
}

/// Applies the options of the command line to the plan, within the plan format's own limits.
fn override_measure(plan: &mut Plan, args: &RunArgs) -> Result<(), Failure> {
    let given = [
        ("rounds", args.rounds.as_deref().map(raw_rounds)),
        ("duration", args.duration.clone().map(Raw::Text)),
        ("seed", args.seed.map(Raw::Int)),
        ("budget", args.budget.clone().map(Raw::Text)),
    ];
    for (name, raw) in given {
        let Some(raw) = raw else { continue };
        plan::set_measure(plan, name, &raw)
            .map_err(|wrong| Failure::option(&format!("--{name}"), wrong))?;
    }
    if args.rounds.is_some() {
        plan.measure.until_decided = false;
    }
    if args.until_decided {
        plan.measure.until_decided = true;
        plan.measure.looks = LookRule::Even;
        if plan.measure.budget_ns.is_none() {
            let text = "--until-decided needs a budget: some differences are never decided";
            return Err(Failure::usage(text, "--budget 20min"));
        }
        let rounds = plan::MAX_DECIDING_ROUNDS.min(plan::max_rounds(plan));
        plan::set_measure(plan, "rounds", &Raw::Int(i64::from(rounds)))
            .map_err(|wrong| Failure::option("--until-decided", wrong))?;
    }
    Ok(())
}

/// Keeps text that is not a number: the error shows it as it was written.
fn raw_rounds(text: &str) -> Raw {
    match text.starts_with('+') {
        true => Raw::Text(text.to_string()),
        false => text.parse().map_or_else(|_| Raw::Text(text.to_string()), Raw::Int),
    }
}

/// Prints the planned cells and why some cannot run, each reason once.
fn dry_run(args: &RunArgs, job: &Job, backend: &dyn Backend) -> Result<(), Failure> {
    check_question(args, args.db.open_read_only().ok().as_ref(), &job.started)?;
    let columns = args.output.columns();
    let mut out = io::stdout().lock();
    let started = &job.started;
    let (mut ok, mut skipped, mut not_run) = (Vec::new(), Vec::new(), BTreeSet::new());
    for cell in &started.cells {
        let place = cell.place();
        match engine::check(backend, cell, &started.environment.topology) {
            Ok(cell) => ok.push(match variant::without_effect(&cell) {
                Some(found) => format!("{place}: ok, but {found}"),
                None => format!("{place}: ok"),
            }),
            Err(reason) => {
                not_run.insert(cell.index);
                skipped.push((reason, place));
            }
        }
    }
    let skipped = analysis::grouped(skipped).into_iter();
    ok.extend(skipped.map(|(why, places)| format!("skipped: {}: {why}", places.join(", "))));
    ok.extend(few_samples::find(started).iter().map(ToString::to_string));
    let power = few_rounds::known(started, &args.judging, &args.db);
    let few = few_rounds::describe(job, is_virtual(started)?, power.as_ref());
    ok.extend(few.or_else(|| power.as_ref().and_then(report::power::in_short)));
    for line in &ok {
        write!(out, "{}", table::wrapped(&clean(line), columns))?;
    }
    let all = few_rounds::all_runs(job, &not_run, is_virtual(started)?);
    write!(out, "{}", table::wrapped(&all, columns))?;
    check_any(job, backend)
}

/// Whether its time is not the host's.
fn is_virtual(started: &PlanStarted) -> Result<bool, Failure> {
    Ok(entry(&started.backend)?.capabilities.virtual_time && !started.plan.lab.realtime)
}

/// Runs the job with all its sinks, then prints the report and judges the end.
fn execute(args: &RunArgs, job: Job, backend: Box<dyn Backend>) -> Result<(), Failure> {
    let mut store = args.db.open()?;
    let started = job.started.clone();
    check_question(args, Some(&store), &started)?;
    check_output(args)?;
    let mut events = args.events.as_deref().map(EventFile::create).transpose()?;
    let cancel = catch_termination()?;
    let _running = running::hold(&job.started.id)?;
    let mut backend = args.over_fleet(backend, &job)?;
    let display = RefCell::new(display(args, &job, &cancel));
    let store_cell = RefCell::new(&mut store);
    let mut done = 0;
    let end = engine::execute(
        job,
        &mut *backend,
        &cancel,
        &mut |emitted: Emitted| {
            if let Emitted::Host(news) = emitted {
                display.borrow_mut().host(news);
            }
            let Some(event) = stored(&mut store_cell.borrow_mut(), emitted)? else { return Ok(()) };
            if let Some(events) = &mut events {
                events.write(event)?;
            }
            display.borrow_mut().show(event);
            done += usize::from(is_done(event));
            Ok::<(), Failure>(())
        },
        &mut |poll| {
            open_works(args, &started, &store_cell.borrow(), &mut display.borrow_mut(), poll)
        },
    );
    drop(display);
    let end = end.map_err(|failure| can_go_on(args, &store, &started, failure))?;
    let concluded = conclude(args, &mut *backend, end.stored(), &mut store, &started.id)?;
    args.lab.say_verified(done);
    let plan = store.sampled(&started.id)?;
    if started.sharding.as_ref().is_some_and(|own| own.part.is_some()) {
        concluded?;
        return part_ended(args, &mut store, &started, &plan, &end);
    }
    let plans = std::slice::from_ref(&plan);
    let reports = args.asker == Asker::Run;
    let text = args.output.usual_report(plans).filter(|_| reports);
    if text.is_some() {
        write_file(args, &store, &started, plans)?;
    }
    let output = text.as_ref().unwrap_or(&args.output);
    let mut analyses = analyses(args, &store, &started, output.explains(&args.judging, plans))?;
    let written = match reports && (!args.quiet || output.file().is_some()) {
        true => output.write(&args.judging, &store, &mut analyses, plans),
        false => Ok(()),
    };
    // The exit code is that of the measurement, whether or not all was read.
    if !matches!(written, Err(Failure::OutputClosed)) {
        written?;
    }
    args.output.say_file(reports && !args.quiet);
    concluded?;
    measured(args, &mut store, &plan, &end, &started.judged)?;
    show_expected(args, &store, &plan)?;
    args.gate.judge(&analyses)?;
    all_measured(args, &plan)
}

/// Checks that the report takes the place of neither the plan nor the events.
fn check_output(args: &RunArgs) -> Result<(), Failure> {
    let plan = args.plan.as_deref().map(Path::new);
    args.output.check_file(plan.into_iter().chain(args.events.as_deref()))
}

/// Writes the report that a file gets, where the usual one is printed, too.
fn write_file(
    args: &RunArgs,
    store: &Store,
    started: &PlanStarted,
    plans: &[SampledPlan],
) -> Result<(), Failure> {
    let explaining = args.output.explains(&args.judging, plans);
    let mut analyses = analyses(args, store, started, explaining)?;
    args.output.write(&args.judging, store, &mut analyses, plans)
}

/// Says first which metrics and verdicts the plan cannot have.
fn display(args: &RunArgs, job: &Job, cancel: &Arc<AtomicBool>) -> Display {
    if !args.quiet {
        let few = few_samples::find(&job.started);
        few.iter().for_each(|few| terminal::message(&clean(&few.to_string())));
        let describe =
            |power: Option<&_>| few_rounds::describe(job, is_virtual(&job.started).ok()?, power);
        if describe(None).is_some() {
            let power = few_rounds::known(&job.started, &args.judging, &args.db);
            describe(power.as_ref()).iter().for_each(|few| terminal::message(few));
        }
    }
    // A fleet has messages of its own.
    let plain = args.plain || args.fleet.is_given();
    Display::new(job, cancel, args.quiet, plain)
}

/// The event, once it is stored; `None`: what is stored was settled.
fn stored<'e>(store: &mut Store, emitted: Emitted<'e>) -> Result<Option<&'e Event>, Failure> {
    let Emitted::Event(event) = emitted else {
        store.settle()?;
        return Ok(None);
    };
    store.apply_in_group(event)?;
    Ok(Some(event))
}

fn is_done(event: &Event) -> bool {
    matches!(event, Event::RunEnded { outcome: Outcome::Done { .. }, .. })
}

/// Ends the backend, whose errors no outcome of a run shows; an alarm is also a note of the plan.
fn conclude(
    args: &RunArgs,
    backend: &mut dyn Backend,
    end: PlanEnd,
    store: &mut Store,
    id: &str,
) -> Result<Result<(), BackendError>, Failure> {
    shared_cache::end(backend, args.quiet, store, id)?;
    let concluded = backend.conclude(end);
    if let Some(text) = concluded.as_ref().err().and_then(fleet::alarm) {
        store.add_note(id, &Note { written_unix_ns: clock::unix_ns(), text })?;
    }
    Ok(concluded)
}

/// A part alone gives no answer: instructions stand in place of a report.
fn part_ended(
    args: &RunArgs,
    store: &mut Store,
    started: &PlanStarted,
    plan: &SampledPlan,
    end: &JobEnd,
) -> Result<(), Failure> {
    measured(args, store, plan, end, &started.judged)?;
    all_measured(args, plan)?;
    let text = shards::ended(store, started, plan.runs.len(), &args.db)?;
    match text.filter(|_| !args.quiet) {
        Some(text) => Ok(writeln!(io::stdout().lock(), "{text}")?),
        None => Ok(()),
    }
}

/// Shows in a line which of the plan's expectations hold; a test has a report of them.
fn show_expected(args: &RunArgs, store: &Store, plan: &SampledPlan) -> Result<(), Failure> {
    if args.asker == Asker::Test || args.quiet || plan.plan.expectations.is_empty() {
        return Ok(());
    }
    let heads = store.plan_heads()?;
    let head = args.db.plan(&plan.id, &heads)?;
    let (tested, analysis) = expecting::tested(store, head, &args.judging, &args.db)?;
    let command = args.db.command(&format!("test plan={}", plan.id));
    terminal::message(&format!("expectations: {}: {command}", expecting::counts(tested.iter())));
    let failing = report::expect::failing(&analysis, &tested);
    failing.iter().for_each(|line| terminal::message(&format!("fails: {line}")));
    Ok(())
}

/// The works with a comparison that the looks so far have not decided, after rounds of a look.
/// Shows the verdicts, and the ratios after other rounds.
fn open_works(
    args: &RunArgs,
    started: &PlanStarted,
    store: &Store,
    display: &mut Display,
    poll: Poll,
) -> Option<BTreeSet<usize>> {
    let measure = &started.plan.measure;
    let may_look = poll.is_resumed || Schedule::from_measure(measure).is_look(poll.rounds_done);
    let look = (measure.until_decided && may_look).then_some(poll.rounds_done);
    if look.is_none() && !display.wants_answer() {
        return None;
    }
    let begun = Instant::now();
    let during = Some((poll.rounds_done, look.is_none()));
    // An unreadable store decides nothing: the rounds go on, and the end reports the fault.
    let analysis = analyse_variants(args, store, started, during, false).ok()?;
    display.answer(&analysis, look, begun.elapsed());
    // Nothing to judge is nothing decided.
    let is_judged = look.is_some() && analysis.method.headline_verdicts > 0;
    let plan = &started.plan;
    is_judged.then(|| match args.asker {
        Asker::Test => analysis::undecided_works(&analysis, plan, &plan.expectations),
        Asker::Run | Asker::Try => analysis::open_works(&analysis, plan),
    })
}

/// `during`: of a plan that runs, the rounds that count, and whether ratios alone are asked for.
fn analyse_variants(
    args: &RunArgs,
    store: &Store,
    started: &PlanStarted,
    during: Option<(u32, bool)>,
    explaining: bool,
) -> Result<Analysis, Failure> {
    let variants = started.plan.variants.iter();
    let sides: Vec<Selection> =
        variants.map(|variant| Selection::of_variant(&started.id, &variant.name)).collect();
    let command = judging::again(&started.id, sides.len()) + &asked_how(args);
    let plans = judging::sampled(store, &sides)?;
    let question = args.judging.question(sides, command, explaining, &args.db);
    let (rounds_done, ratios_alone) = during.unzip();
    let ratios_alone = ratios_alone.unwrap_or_default();
    judging::analyse(store, &plans, Question { rounds_done, ratios_alone, ..question })
}

/// The end of the command that gives an analysis of this run again.
fn asked_how(args: &RunArgs) -> String {
    args.judging.words() + &args.output.words(&args.db)
}

/// All that the run's verdicts stand in.
fn analyses(
    args: &RunArgs,
    store: &Store,
    started: &PlanStarted,
    explaining: bool,
) -> Result<Vec<Analysis>, Failure> {
    let mut analysis = analyse_variants(args, store, started, None, explaining)?;
    if analysis.plan().is_none_or(|plan| plan.rounds_done == 0) {
        // It will not be stored.
        analysis.command.clear();
    }
    let mut analyses = vec![analysis];
    if let Some(against) = &args.against {
        analyses.push(analyse_against(args, store, started, against, explaining)?);
    }
    Ok(analyses)
}

/// Whether there will be something to answer: it is too late to ask after the night.
/// `store`: `None` where there is none yet.
fn check_question(
    args: &RunArgs,
    store: Option<&Store>,
    started: &PlanStarted,
) -> Result<(), Failure> {
    if let Some(against) = &args.against {
        others(args, store, started, against)?;
    }
    let by_variant = args.against.is_some();
    named::check(args.judging.patterns(), || {
        named::places(&started.cells, &started.plan.probes, &[], by_variant)
    })?;
    let is_lone = started.plan.variants.len() < 2;
    let wants = match () {
        () if !is_lone => return Ok(()),
        () if started.plan.measure.until_decided => "--until-decided",
        () if args.against.is_none() && args.gate.is_asked() => "--fail-on",
        () => return Ok(()),
    };
    Err(Failure::usage(
        format!("the plan has one variant alone: there will be no verdict for {wants}"),
        "a plan with a [[variant]] more, or --aa, or --against last:10",
    ))
}

/// The plans that --against names, without this one.
fn others(
    args: &RunArgs,
    store: Option<&Store>,
    started: &PlanStarted,
    against: &str,
) -> Result<Vec<Selection>, Failure> {
    let mut others = store.map(Store::plan_heads).transpose()?.unwrap_or_default();
    let is_first = others.is_empty();
    others.retain(|head| head.id != started.id);
    if others.is_empty() && !is_first {
        let text = "--against: no other plan is stored than this one";
        return Err(Failure::usage(text, args.db.command("list runs")));
    }
    args.db.select("--against: ", &[against.to_string()], &others)
}

/// This plan's runs against others that are stored.
fn analyse_against(
    args: &RunArgs,
    store: &Store,
    started: &PlanStarted,
    against: &str,
    explaining: bool,
) -> Result<Analysis, Failure> {
    let mut sides = others(args, Some(store), started, against)?;
    sides.push(Selection::of_plan(&started.id));
    let command = judging::command(&sides, true, &store.plan_heads()?) + &asked_how(args);
    let plans = judging::sampled(store, &sides)?;
    let question = args.judging.question(sides, command, explaining, &args.db);
    judging::analyse(store, &plans, question)
}

/// The baseline twice, under two names.
fn against_itself(plan: &mut Plan) {
    plan.variants.truncate(1);
    let mut again = plan.variants[0].clone();
    again.name.push_str("-again");
    plan.variants.push(again);
    // Nothing is claimed of a variant against itself.
    plan.expectations.clear();
    plan.aa = true;
}

/// Fails where there is nothing to judge, or not all that was asked for. A plan of which nothing was measured
/// does not stay in the store.
fn measured(
    args: &RunArgs,
    store: &mut Store,
    plan: &SampledPlan,
    JobEnd { end, host_ended }: &JobEnd,
    judged: &Judged,
) -> Result<(), Failure> {
    store.check_whole()?;
    if *end == PlanEnd::Interrupted {
        return Err(Failure::Interrupted(Problem::new(
            "interrupted; what was measured is stored",
            going_on(args, &plan.id, judged),
        )));
    }
    if let Some(first) = host_ended.first() {
        let missing = match host_ended.len() {
            1 => "1 run is missing".to_string(),
            runs => format!("{runs} runs are missing"),
        };
        let text = format!("{missing}, tried again in vain; the first: {}", clean(first));
        return Err(Failure::Missing(Problem::new(text, going_on(args, &plan.id, judged))));
    }
    let all = plan.runs.len() + plan.issues.unmeasured.len();
    let lost = all.saturating_sub(store.finished_runs(&plan.id)?.len());
    if lost > 0 {
        let runs = plural(lost as u64, "run");
        let text = format!(
            "{runs} that had been stored are damaged or gone: something else wrote to the store"
        );
        return Err(Failure::Missing(Problem::new(text, going_on(args, &plan.id, judged))));
    }
    if !plan.runs.is_empty() {
        return Ok(());
    }
    store.remove(&plan.id)?;
    let shown = !args.quiet && args.asker == Asker::Run;
    let why = match plan.issues.unmeasured.first() {
        Some(first) if !shown => first.reason.clone(),
        _ => "the report says why".to_string(),
    };
    let runs = plan.issues.unmeasured.len();
    let message = match runs < plan.cells.len() * plan.plan.measure.rounds as usize {
        // The engine makes no further ones.
        true => format!("all {runs} runs so far failed, so the plan ends and nothing is stored"),
        false => "no run could be measured, so nothing is stored".to_string(),
    };
    let message = format!("{message}: {}", clean(&why));
    let is_finding = plan.plan.finding.is_some() && plan.backend == SampledPlan::LOCAL;
    let hint = is_finding
        .then(|| "findings are of kernels, and run in the lab: --backend lab".to_string());
    Err(Failure::Here(Problem { message, hint }))
}

/// A full disk leaves a plan that can go on once there is room.
fn can_go_on(args: &RunArgs, store: &Store, started: &PlanStarted, failure: Failure) -> Failure {
    match failure {
        Failure::Store(error @ StoreError::Full { .. })
            if store.plan_started(&started.id).is_ok() =>
        {
            let command = going_on(args, &started.id, &started.judged);
            Failure::here(error.to_string(), format!("{}; then: {command}", error.hint()))
        }
        other => other,
    }
}

/// The command that goes on with an interrupted plan.
fn going_on(args: &RunArgs, id: &str, judged: &Judged) -> String {
    let (command, asked) = match args.asker {
        Asker::Run => ("run", args.judging.clone()),
        // A test has metrics of its own.
        Asker::Test => ("test", args.judging.of_metrics(judged.metrics.clone())),
        Asker::Try => return "the same command goes on".to_string(),
    };
    let words = match asked.judged() == *judged {
        true => String::new(),
        false => asked.words(),
    };
    let how = [args.db.words(), args.lab.words().to_string(), args.fleet.words()].concat();
    format!("schedlab {command} --resume {id}{how}{words}")
}

fn all_measured(args: &RunArgs, plan: &SampledPlan) -> Result<(), Failure> {
    let missing = plan.issues.unmeasured.len();
    if args.strict && missing > 0 {
        let all = plan.runs.len() + missing;
        let text = format!("{missing} of {all} runs were not measured (--strict)");
        return Err(Failure::here(text, args.db.command(&format!("report {}", plan.id))));
    }
    Ok(())
}

/// The engine's events as lines of JSON, as they happen.
struct EventFile {
    file: File,
    path: PathBuf,
}

impl EventFile {
    fn create(path: &Path) -> Result<EventFile, Failure> {
        let file = File::create_new(path).map_err(|error| judging::unwritten(path, &error))?;
        Ok(EventFile { file, path: path.to_path_buf() })
    }

    fn write(&mut self, event: &Event) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(event).map_err(io::Error::from)?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| judging::unwritten(&self.path, &error))
    }
}
