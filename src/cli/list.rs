//! `schedlab list`: what there is, from the registries, and what is stored.

use std::io::{self, Write};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::model::{PlanHead, ProbeSpec, Progress};
use crate::plan::Builtin;
use crate::report::{OtherFormats, clean, expect, fidelity, listed, shortened};
use crate::{backend, plan, probe, report, variant, workload};

use super::describe::{self, field_row, lack_of};
use super::stored::{end, moment};
use super::{
    Database, Failure, export, hunt_store, score_saved, selection, table, terminal, text_or_json,
};

/// A kernel's release and a tag are typed again, so they are cut last.
const MAX_NAME_COLUMNS: usize = 20;

#[derive(Args)]
pub struct ListArgs {
    /// Things to list
    #[arg(value_enum, default_value_t = What::Workloads)]
    what: What,
    /// The one of this name, in detail; for runs, hunts and scores, a selection as in `compare`: last:3,
    /// since=7d, tag=NAME
    #[arg(value_parser = selection(), hide_possible_values = true)]
    name: Option<String>,
    #[command(flatten)]
    db: Database,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum What {
    Workloads,
    /// Settings of a variant or a worker set
    #[value(alias = "variants")]
    Knobs,
    /// Telemetry next to the workloads
    Probes,
    Plans,
    /// Published results about schedulers, as plans: schedlab test --findings
    Findings,
    Backends,
    Formats,
    /// Stored plans. Rounds are those done of those asked for, and +N that replace others which
    /// load from outside spoilt
    Runs,
    /// Stored scoreboards: schedlab score --save
    Scores,
    /// Rules that stock kernels break, as plans: schedlab hunt --confirm NAME
    Cases,
    /// Stored cases of `schedlab hunt`
    Hunts,
}

pub fn run(args: &ListArgs) -> Result<(), Failure> {
    let columns = terminal::width();
    let text = match (args.what, &args.name) {
        (What::Scores, _) => scores(args)?,
        (What::Hunts, _) => hunts(args)?,
        (What::Runs, _) => runs(args)?,
        (What::Workloads, Some(name)) => describe::workload(name, columns)?,
        (What::Workloads, None) => table::names(workloads(), columns),
        (What::Probes, Some(name)) => describe::probe(name, columns)?,
        (What::Probes, None) => table::names(probes(), columns),
        (What::Knobs, Some(name)) => describe::knob(name, columns)?,
        (What::Knobs, None) => {
            let live = format!(
                "{}: changes on a running thread, so variants can take turns: schedlab help turns",
                LIVE.trim()
            );
            format!("{}\n{}", table::names(knobs(), columns), table::wrapped(&live, columns))
        }
        (What::Plans, Some(name)) => describe::plan("plans", name, columns)?,
        (What::Findings, Some(name)) => describe::plan("findings", name, columns)?,
        (What::Cases, Some(name)) => describe::plan("cases", name, columns)?,
        (What::Plans, None) => table::names(titles(plan::builtins()), columns),
        (What::Findings, None) => table::names(titles(plan::findings()), columns),
        (What::Cases, None) => table::names(titles(plan::cases()), columns),
        (What::Backends, name) => some(backends(), name, "backend", columns)?,
        (What::Formats, None) => {
            let (own, others) = (table::names(formats(), columns), other_formats());
            format!("{own}\n{}", table::wrapped(&others, columns))
        }
        (What::Formats, name) => some(formats(), name, "format", columns)?,
    };
    Ok(write!(io::stdout().lock(), "{text}")?)
}

/// All rows, or those of one name.
fn some(
    mut rows: Vec<Vec<String>>,
    name: &Option<String>,
    what: &'static str,
    columns: usize,
) -> Result<String, Failure> {
    if let Some(name) = name {
        let names: Vec<String> = rows.iter().map(|row| row[0].clone()).collect();
        rows.retain(|row| row[0] == *name);
        if rows.is_empty() {
            return Err(Failure::unknown(what, name, names.iter().map(String::as_str), ""));
        }
    }
    Ok(table::names(rows, columns))
}

pub(super) fn workloads() -> Vec<Vec<String>> {
    let rows = workload::registry().iter().map(|workload| workload.spec());
    let rows = rows.map(|spec| vec![spec.name.to_string(), spec.about.to_string()]);
    let programs = plan::programs().iter().map(|program| {
        let lack = lack_of(program).map(|hint| format!("; not here: {hint}")).unwrap_or_default();
        vec![program.name.clone(), format!("{}{lack}", program.about)]
    });
    rows.chain(programs).collect()
}

/// Behind a knob that can change on a running thread.
const LIVE: &str = " [live]";
pub(super) fn knobs() -> Vec<Vec<String>> {
    use variant::Scope::{Boot, Guest, Hypervisor};

    // Knobs of any machine stand before those of the lab and of Xen, and what most want before SCHED_DEADLINE's.
    let mut knobs = variant::registry().collect::<Vec<_>>();
    knobs.sort_by_key(|knob| {
        let is_seldom = ["runtime", "deadline", "period"].contains(&knob.field.name);
        (matches!(knob.scope(), Boot | Hypervisor | Guest), is_seldom)
    });
    let row = |knob: &&variant::Knob| {
        let mut row = field_row(&knob.field);
        if knob.is_live {
            row[1].push_str(LIVE);
        }
        row
    };
    knobs.iter().map(row).collect()
}

pub(super) fn probes() -> Vec<Vec<String>> {
    let about = |probe: &ProbeSpec| format!("{}; needs {}", probe.about, probe.needs);
    probe::specs().iter().map(|probe| vec![probe.name.to_string(), about(probe)]).collect()
}

/// Names, and what each is about; who says a finding may be an address of any length, and is on its own page.
fn titles(plans: &[Builtin]) -> Vec<Vec<String>> {
    plans.iter().map(|plan| vec![plan.name.to_string(), plan.title()]).collect()
}

fn backends() -> Vec<Vec<String>> {
    let rows = backend::registry().iter();
    rows.map(|entry| vec![entry.name.to_string(), entry.about.to_string()]).collect()
}

fn formats() -> Vec<Vec<String>> {
    let reports = report::formats().iter().map(|format| (format.name, format.about));
    let rows = reports.chain(export::FORMATS);
    rows.map(|(name, about)| vec![name.to_string(), about.to_string()]).collect()
}

/// The formats of commands that do not have all of [`formats`].
fn other_formats() -> String {
    fn names<T: ?Sized>(formats: &OtherFormats<T>) -> String {
        listed(&formats.iter().map(|(name, _)| *name).collect::<Vec<_>>())
    }
    let [test, fidelity] = [names(expect::FORMATS), names(fidelity::FORMATS)];
    let both = text_or_json::Format::value_variants().iter();
    let both: Vec<_> = both.filter_map(ValueEnum::to_possible_value).collect();
    let both = listed(&both.iter().map(PossibleValue::get_name).collect::<Vec<_>>());
    format!(
        "test has {test}; compare --fidelity has {fidelity}; score, kernel and compare of scores have {both}"
    )
}

/// The selected ones, or all, newest first.
fn runs(args: &ListArgs) -> Result<String, Failure> {
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    if heads.is_empty() && store.has_damage() {
        let text = "all that is stored is damaged";
        return Err(Failure::here(text, args.db.command("export")));
    }
    if heads.is_empty() {
        terminal::message("nothing is stored yet");
        return Ok(String::new());
    }
    Ok(runs_table(&selected(args, &heads)?, &heads, terminal::width()))
}

/// The plans that the words select, or all.
fn selected<'a>(args: &ListArgs, heads: &'a [PlanHead]) -> Result<Vec<&'a PlanHead>, Failure> {
    let sides = match &args.name {
        Some(text) => args.db.select_whole(text, heads)?,
        None => Vec::new(),
    };
    let is_chosen = |head: &&PlanHead| sides.iter().all(|side| side.plans.contains(&head.id));
    Ok(heads.iter().filter(is_chosen).collect())
}

fn scores(args: &ListArgs) -> Result<String, Failure> {
    // Behind `--` the store would be a word of the program.
    let makes = format!("schedlab score --save{} -- COMMAND", args.db.words());
    let heads = args.db.open_read_only_for(makes.clone())?.score_heads()?;
    if heads.is_empty() {
        terminal::message(&format!("no score is stored yet: {makes}"));
        return Ok(String::new());
    }
    let chosen = match &args.name {
        Some(text) => {
            let text = text.strip_prefix(score_saved::PREFIX).unwrap_or(text);
            args.db.scores(text, &heads)?
        }
        None => heads.iter().collect(),
    };
    Ok(score_saved::list(&chosen, terminal::width()))
}

/// The stored plans that are cases, each with the note about it.
fn hunts(args: &ListArgs) -> Result<String, Failure> {
    let store = args.db.open_read_only_for(args.db.command("hunt"))?;
    let heads = store.plan_heads()?;
    let digits = id_length(&heads);
    let is_case = |head: &&PlanHead| head.tags.iter().any(|tag| tag == hunt_store::TAG);
    if !heads.iter().any(|head| is_case(&head)) {
        terminal::message("no case is stored yet: schedlab hunt");
        return Ok(String::new());
    }
    let row = |head: &PlanHead| {
        let notes = store.annotations(head.id.as_str())?.notes;
        let text = notes.first().map(|note| clean(&note.text)).unwrap_or_default();
        let id = shortened(&head.id.chars().take(digits).collect::<String>(), 40);
        Ok(vec![id, format!("{}\n{text}", clean(&head.title))])
    };
    let chosen = selected(args, &heads)?.into_iter().filter(is_case);
    let rows = chosen.map(row).collect::<Result<Vec<Vec<String>>, Failure>>()?;
    if rows.is_empty() {
        terminal::message("no case is among the selected plans");
    }
    Ok(table::names(rows, terminal::width()))
}

fn runs_table(chosen: &[&PlanHead], heads: &[PlanHead], columns: usize) -> String {
    let digits = id_length(heads);
    let rows = chosen.iter().map(|head| {
        let mut kernels: Vec<&str> =
            head.environments.iter().map(|of| of.kernel_release.as_str()).collect();
        kernels.dedup();
        vec![
            shortened(&head.id.chars().take(digits).collect::<String>(), 40),
            moment(head.started_unix_ns),
            clean(&head.title),
            clean(&head.backend),
            clean(&head.variants.join(", ")),
            shortened(&kernels.join(", "), MAX_NAME_COLUMNS),
            rounds(head),
            end(head),
            shortened(&head.tags.join(", "), MAX_NAME_COLUMNS),
        ]
    });
    let header =
        ["id", "date (UTC)", "title", "backend", "variants", "kernel", "rounds", "end", "tag"];
    // Ids begin with the date. A backend that all have says least.
    let spare = if chosen.iter().all(|head| head.backend == chosen[0].backend) {
        ["date (UTC)", "variants", "kernel", "backend", "tag", "rounds"]
    } else {
        ["date (UTC)", "variants", "kernel", "tag", "rounds", "backend"]
    };
    let layout = table::Columns {
        fixed: &["id", "date (UTC)", "backend", "kernel", "rounds", "end", "tag"],
        main: "title",
        spare: &spare,
    };
    table::rows(&header, rows.collect(), &layout, columns)
}

/// Characters of the beginnings of ids that keep all plans distinct: to the
/// minute at least.
fn id_length(heads: &[PlanHead]) -> usize {
    const MINUTE: usize = "20261122-0519".len();
    let longest = heads.iter().map(|head| head.id.chars().count()).max().unwrap_or(MINUTE);
    let are_unique = |length: &usize| {
        let mut seen = std::collections::BTreeSet::new();
        heads.iter().all(|head| seen.insert(head.id.chars().take(*length).collect::<String>()))
    };
    (MINUTE..longest).find(are_unique).unwrap_or(longest)
}

/// `3/9`: of the rounds that the plan asks for those that were begun; `9/9 +2` where more replace
/// spoilt ones. As reports count them.
fn rounds(head: &PlanHead) -> String {
    match head.progress() {
        Progress::Runs { done, total } => format!("{done}/{total} runs"),
        Progress::Rounds { asked: Some(asked), .. } if head.runs.done == 0 => format!("0/{asked}"),
        Progress::Rounds { begun, asked: None, .. } => begun.to_string(),
        Progress::Rounds { begun, asked: Some(asked), repeated: 0 } => format!("{begun}/{asked}"),
        Progress::Rounds { begun, asked: Some(asked), repeated } => {
            format!("{begun}/{asked} +{repeated}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_of_runs_has_backends_where_they_differ() {
        let head = |second: &str, backend: &str| PlanHead {
            id: format!("20261122-0519{second}"),
            title: "A title of many words that goes on".to_string(),
            backend: backend.to_string(),
            tags: vec!["before-the-change-of-x".to_string()],
            ..PlanHead::default()
        };
        for (backends, is_there) in [(["local", "lab"], true), (["lab", "lab"], false)] {
            let heads = [head("07", backends[0]), head("08", backends[1])];
            let table = runs_table(&heads.iter().collect::<Vec<_>>(), &heads, 80);
            let header = table.lines().next().unwrap();
            assert_eq!(header.contains("backend"), is_there, "{table}");
        }
    }
}
