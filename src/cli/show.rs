//! `schedlab show`: one stored plan or score: what was measured, when and where, and how its runs ended.

use std::collections::BTreeSet;
use std::io::{self, Write};

use clap::Args;

use crate::analysis::once;
use crate::model::{
    Plan, PlanHead, ProgramRecord, RunCounts, SampledPlan, Sharding, Variant, Work, show_duration,
    times,
};
use crate::report::numbers::counted;
use crate::report::{changes, clean, guest, knobs, placement};
use crate::store::{KeptOutput, PlanDetail};

use super::labelled::{Line, labelled, laid_out, notes};
use super::score_saved::{self, Stored};
use super::stored::{end, moment};
use super::{Database, Failure, selection, terminal};

const GIB: f64 = (1u64 << 30) as f64;
#[derive(Args)]
pub struct ShowArgs {
    /// The stored plan or score, selected as by `compare`: last, the beginning of its id, tag=NAME;
    /// score=last, score=TAG
    #[arg(default_value = "last", value_name = "SELECT", value_parser = selection(),
        hide_possible_values = true)]
    id: String,
    /// Print the output of its programs: the last execution of each run
    #[arg(long)]
    program_output: bool,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &ShowArgs) -> Result<(), Failure> {
    if args.program_output { print_output(&args.db, &args.id) } else { print(&args.db, &args.id) }
}

fn print_output(db: &Database, id: &str) -> Result<(), Failure> {
    let store = db.open_read_only()?;
    let heads = store.plan_heads()?;
    let head = db.plan(id, &heads)?;
    let outputs = store.outputs(&head.id)?;
    if outputs.is_empty() {
        let text = format!("plan {} has no output: none of its runs executed a program", head.id);
        return Err(Failure::usage(text, "schedlab run -- COMMAND executes one"));
    }
    let mut out = io::stdout().lock();
    for KeptOutput { round, work, variant, set, record } in outputs {
        let ProgramRecord { version, output } = record;
        let version = version.iter().flat_map(|version| version.lines().next());
        let version: String = version.map(|line| format!(", version {line}")).collect();
        let head = format!("==> round {}, {work}, {variant}, {set}{version}", round + 1);
        writeln!(out, "{}", clean(&head))?;
        output.lines().try_for_each(|line| writeln!(out, "{}", clean(line)))?;
    }
    if let failed @ 1.. = head.runs.failed {
        let reasons = db.command(&format!("show {}", head.id));
        let text =
            format!("{} failed and kept its reason alone: {reasons}", counted(failed, "run"));
        terminal::message(&text);
    }
    Ok(())
}

fn print(db: &Database, id: &str) -> Result<(), Failure> {
    let store = db.open_read_only()?;
    let heads = (store.plan_heads()?, store.score_heads()?);
    let head = match score_saved::find(id, &heads, db)? {
        Stored::Plan(head) => head,
        Stored::Score(head) => return score_saved::print(&store, head, db),
    };
    let detail = store.detail(&head.id)?;
    let mut lines = lines(head, &detail, &end(head));
    lines.push(("report", db.command(&format!("report {}", head.id))));
    Ok(io::stdout().lock().write_all(laid_out(&lines, terminal::width()).as_bytes())?)
}

fn lines(head: &PlanHead, detail: &PlanDetail, end: &str) -> Vec<Line> {
    let mut lines = vec![
        ("plan", head.id.clone()),
        ("title", head.title.clone()),
        ("when", when(head, detail, end)),
    ];
    lines.extend(head.sharding.as_ref().map(|own| ("part", part(own))));
    lines.extend(labelled("where", places(head, detail)));
    if head.backend == SampledPlan::LAB {
        lines.push(("guest", guest(&detail.started.plan.lab)));
    }
    // How another tool measured is not in its file.
    let is_ours = head.backend != SampledPlan::IMPORTED;
    let plan = of_plan(&detail.started.plan).into_iter();
    lines.extend(plan.filter(|(label, _)| is_ours || *label != "measure"));
    lines.push(("runs", runs(&head.runs)));
    lines.extend(labelled(
        "",
        detail.unmeasured.iter().map(|unmeasured| {
            let runs = counted(unmeasured.runs, "run");
            // Some reasons carry a hint on a line of its own.
            let reason = unmeasured.reason.replace("\nhint: ", "; hint: ");
            format!("{} {runs}: {reason}", unmeasured.status)
        }),
    ));
    let kinds = detail.disturbed.iter().map(|(kind, runs)| format!("{} {runs}", kind.word()));
    let kinds: Vec<String> = kinds.collect();
    if !kinds.is_empty() {
        lines.push(("disturbed", format!("runs, by cause: {}", kinds.join(", "))));
    }
    if !detail.annotations.tags.is_empty() {
        lines.push(("tags", detail.annotations.tags.join(", ")));
    }
    lines.extend(notes(&detail.annotations.notes));
    lines
}

/// Describes a plan, stored or not.
pub fn of_plan(plan: &Plan) -> Vec<Line> {
    let mut lines = labelled("variants", plan.variants.iter().enumerate().map(variant));
    lines.extend(labelled("works", plan.works.iter().map(work)));
    let place = placement(&plan.placement);
    if !place.is_empty() {
        lines.push(("placement", place));
    }
    if !plan.probes.is_empty() {
        lines.push(("probes", plan.probes.join(", ")));
    }
    lines.push(("measure", measure(plan)));
    lines
}

fn when(head: &PlanHead, detail: &PlanDetail, end: &str) -> String {
    let mut text = format!("{} UTC, {end}", moment(head.started_unix_ns));
    if head.backend == SampledPlan::IMPORTED {
        return text;
    }
    let sessions = detail.sessions.len() as u64;
    if sessions > 1 && head.sharding.as_ref().is_some_and(|own| own.part.is_none()) {
        text.push_str(&format!(", in {sessions} sessions"));
    } else if sessions > 1 {
        text.push_str(&format!(", resumed {}", times(sessions - 1)));
    }
    // A guest's clock is not the host's.
    let is_lab = head.backend == SampledPlan::LAB;
    if let Some(until) = detail.measured_until_unix_ns.filter(|_| !is_lab) {
        let seconds = until.saturating_sub(head.started_unix_ns).div_ceil(1_000_000_000);
        text.push_str(&format!(", last run ended {} after the start", span(seconds)));
    }
    text
}

/// `3/16 of parts-0123456789ab`, or what parts were joined in it.
fn part(sharding: &Sharding) -> String {
    match sharding.shard() {
        Some(shard) => format!("{shard} of {}", sharding.whole_id()),
        None => format!("joined, of {}", counted(sharding.parts, "part")),
    }
}

pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Each machine and kernel once.
fn places(head: &PlanHead, detail: &PlanDetail) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    let places: Vec<String> = detail
        .sessions
        .iter()
        .map(|session| {
            let at = &session.environment;
            let known = |reading: &crate::model::Reading<String>| reading.clone().known();
            let memory = at.memory_bytes.clone().known();
            let machine = known(&at.virtualisation).filter(|name| name != "none");
            let parts = [
                Some(format!("{}: {}", head.backend, at.hostname)),
                Some(format!("Linux {}", at.kernel_release)),
                Some(counted(at.topology.online.len(), "CPU")),
                known(&at.cpu_model),
                memory.map(|bytes| format!("{:.1} GiB of memory", bytes as f64 / GIB)),
                machine,
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        })
        .filter(|place| seen.insert(place.clone()))
        .collect();
    places.into_iter()
}

fn variant((at, variant): (usize, &Variant)) -> String {
    let baseline = (at == 0).then(|| "baseline".to_string());
    let knobs = Some(knobs(&variant.knobs)).filter(|knobs| !knobs.is_empty());
    let about: Vec<String> = [baseline, knobs].into_iter().flatten().collect();
    if about.is_empty() {
        variant.name.clone()
    } else {
        format!("{}: {}", variant.name, about.join(", "))
    }
}

fn work(work: &Work) -> String {
    let sets = work.sets.iter().map(|set| {
        let own = knobs(&set.knobs);
        let count = if set.count == 1 { String::new() } else { format!("{} x ", set.count) };
        let background = if set.background { " in the background" } else { "" };
        let with = if own.is_empty() { String::new() } else { format!(" with {own}") };
        format!("{count}{}{background}{with}", set.workload)
    });
    let sets = sets.collect::<Vec<_>>().join(", ");
    let changes = changes(work).map_or(String::new(), |changes| format!("; {changes}"));
    format!("{}: {sets}{changes}", work.label())
}

fn measure(plan: &Plan) -> String {
    let measure = &plan.measure;
    let budget = measure.budget_ns.map(|ns| format!(", budget {}", show_duration(ns)));
    let decided = if measure.until_decided { " at most, until all is decided" } else { "" };
    let turns =
        measure.turns_ns.map(|ns| format!(" for each variant in turns of {}", show_duration(ns)));
    let others = |prefix: &str, duration_ns: fn(&Work) -> Option<u64>| {
        let others = plan.works.iter().filter_map(|work| {
            Some(format!("{} of {}", show_duration(duration_ns(work)?), work.name))
        });
        let mut own = Vec::new();
        others.for_each(|other| once(&mut own, other));
        Some(format!("{prefix}{}", own.join(", "))).filter(|_| !own.is_empty())
    };
    let others =
        [others("", |work| work.duration_ns), others("in the lab ", |work| work.lab_duration_ns)];
    let others: Vec<String> = others.into_iter().flatten().collect();
    let others =
        if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
    format!(
        "{}{decided}, each run {}{others}{} after {} of warm-up, seed {}{}",
        counted(measure.rounds, "round"),
        show_duration(measure.duration_ns),
        turns.unwrap_or_default(),
        show_duration(measure.warmup_ns),
        measure.seed,
        budget.unwrap_or_default()
    )
}

fn runs(runs: &RunCounts) -> String {
    let RunCounts { done, failed, skipped, total, .. } = runs;
    let counts = format!("{done} done, {failed} failed, {skipped} skipped, of {total} asked for");
    match runs.repeated() {
        0 => counts,
        more => format!("{counts} and {more} that replace those of rounds that were spoilt"),
    }
}
