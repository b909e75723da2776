//! `html`: one page that needs no network, with charts, their numbers and the tables. Without a script
//! all of it is there; with it marks say what they are. Pure.

use std::io::{self, Write};

use minijinja::value::Serde;
use minijinja::{Value, context};
use sha2::{Digest, Sha256};

use crate::analysis::{Analysis, Row, SetTable, SideTimeline, WorkPictures, WorkTable};
use crate::model::{
    Direction, Environment, PREEMPTED_BY, Reading, Unit, WAITED_FOR, WorkerWindow, is_above_wall,
    partner,
};

use super::answer::{self, View};
use super::chart::{self, Chart, Data, Figure, Line, measure};
use super::hosts;
use super::layout::{Tone, clean};
use super::numbers::{Scale, counted};
use super::text::{detail, rows};
use super::{Format, Render, page, phrases, svg};

pub const HTML: Format = Format {
    name: "html",
    about: "one page with charts and tables, which needs no network",
    explains: |_| true,
    render: Render::Page(write),
};

/// Selects the operations or the CPU time of a window to draw.
type OfWindow = fn(&WorkerWindow) -> Option<f64>;
/// Workers that are drawn of a side; the table of a store has all.
const MAX_WORKERS: usize = 48;
/// Digits of a digest that are shown: as many as git shows twice over.
const DIGEST_CHARS: usize = 16;

fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    page_of(analyses, None, out)
}

/// `home`: where a page that is served leads back to.
pub fn page_of(
    analyses: &[Analysis],
    home: Option<&'static str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let own = [("page.html", include_str!("page/page.html"))];
    let templates = page::templates(&own).map_err(io::Error::other)?;
    let style = page::style();
    let title = match analyses {
        [] => "schedlab".to_string(),
        [one] => format!("{}: schedlab", title(one)),
        many => format!("{} and {} more: schedlab", title(&many[0]), many.len() - 1),
    };
    let page = context! {
        title,
        policy => page::policy(&style, Some(page::SCRIPT), page::Forms::None),
        style,
        script => page::SCRIPT,
        home,
        analyses => analyses.iter().enumerate().map(section).collect::<Vec<_>>(),
    };
    page::render(out, &templates, "page.html", &page)
}

fn title(analysis: &Analysis) -> String {
    let title = match analysis.plans.as_slice() {
        [plan] => clean(&plan.title),
        plans => {
            let mut titles: Vec<String> = plans.iter().map(|plan| clean(&plan.title)).collect();
            titles.dedup();
            let names = phrases::names(&analysis.sides, usize::MAX, clean, "…");
            format!("{}: {}", phrases::first_of(&titles, 3), compared(&names))
        }
    };
    if title.is_empty() { "schedlab".to_string() } else { title }
}

fn section((number, analysis): (usize, &Analysis)) -> Value {
    let names = phrases::names(&analysis.sides, usize::MAX, clean, "…");
    let view = View { analysis, names: &names };
    let nothing = Default::default();
    let works = analysis.works.iter().enumerate().map(|(at, work)| {
        let pictures = analysis.pictures.works.get(at).unwrap_or(&nothing);
        of_work(view, format!("work{number}-{at}"), work, pictures)
    });
    // The notes that the answer has are left out.
    let notes = phrases::folded_notes(analysis, |note| answer::is_shown(note, 2)).into_iter();
    let notes = notes.map(|(note, word, text)| {
        let tone = if note.is_gap() { Tone::Bad } else { Tone::Warning };
        context! { tone => Serde(tone), word, text }
    });
    let sources = analysis.plans.iter().zip(&analysis.pictures.sources);
    let source = |(plan, text): (&crate::analysis::PlanFacts, &String)| {
        let text = text.lines().map(clean).collect::<Vec<_>>().join("\n");
        context! { id => clean(&plan.id), text }
    };
    // Plans of hosts are one plan.
    let is_of_hosts = !analysis.hosts.is_empty();
    let most = if is_of_hosts { 1 } else { usize::MAX };
    let sources = sources.filter(|(_, text)| !text.is_empty()).map(source).take(most);
    // The tables above have the facts of hosts.
    let environments = if is_of_hosts { Vec::new() } else { environments(analysis) };
    context! {
        title => title(analysis),
        // Each plan has one.
        ids => phrases::joined(analysis.plans.iter().map(|plan| clean(&plan.id)), ", "),
        plan => about(analysis),
        // Below a picture that is taken out of the page.
        caption => svg::caption(analysis),
        answer => Serde(answer::short(view)),
        notes => notes.collect::<Vec<_>>(),
        sides => Serde(sides(view)),
        digest => digest(analysis),
        forest => Serde(chart::forest(analysis, &names)),
        loads => Serde(chart::loads(analysis, &names)),
        values => Serde(chart::values(analysis, &names)),
        // Whether they come first.
        is_history => chart::is_history(analysis),
        hosts => Serde(hosts::grids(view, true)),
        works => works.collect::<Vec<_>>(),
        environments => Serde(environments),
        method => phrases::method(analysis).join("; "),
        sources => sources.collect::<Vec<_>>(),
        command => clean(&analysis.command),
    }
}

/// The baseline, which is the first, stands last, as in a sentence.
fn compared(names: &[String]) -> String {
    match names {
        [baseline, others @ ..] if (1..=2).contains(&others.len()) => {
            format!("{} against {baseline}", others.join(" and "))
        }
        [one] => one.clone(),
        many => counted(many.len(), "side"),
    }
}

/// The plan, or what all of them have in common.
fn about(analysis: &Analysis) -> Vec<String> {
    let plan = match analysis.plans.as_slice() {
        [plan] => Some(phrases::plan(analysis, plan)),
        _ => None,
    };
    plan.into_iter().chain(phrases::over_hosts(analysis)).collect()
}

/// The name of each side, and what it is.
fn sides(View { analysis, names }: View) -> Vec<[String; 2]> {
    let sides = analysis.sides.iter().zip(names);
    sides.map(|(side, name)| [name.clone(), detail::about(analysis, side)]).collect()
}

/// The digest of exact results: with the same kernels anybody gets the same one.
fn digest(analysis: &Analysis) -> Option<String> {
    if !analysis.is_exact() {
        return None;
    }
    let mut digest = Sha256::new();
    for (work, set, row) in analysis.rows() {
        for cell in &row.cells {
            digest.update(format!("{}\0{}\0{}\0", work.label, set.name, row.kind.name));
            for (round, value) in &cell.values {
                digest.update(round.to_le_bytes());
                digest.update(value.to_bits().to_le_bytes());
            }
        }
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let seeds = analysis.works.iter().flat_map(|work| &work.runs).map(Vec::len).max().unwrap_or(0);
    Some(format!(
        "Every run is exact: intervals are over {}, not over noise. Digest of all values: {}.",
        counted(seeds, "seed"),
        &digest[..DIGEST_CHARS]
    ))
}

fn of_work(view: View, id: String, work: &WorkTable, pictures: &WorkPictures) -> Value {
    let View { analysis, names } = view;
    let sets = work.sets.iter().map(|set| {
        context! {
            name => phrases::place(work, set),
            about => clean(&phrases::set(set)),
            table => Serde(metrics(view, set)),
        }
    });
    let latencies = pictures.latencies.iter();
    let latencies = latencies.flat_map(|of| {
        let place = phrases::place_of(work, &of.set);
        let all = &pictures.latencies;
        [chart::curves(of, all, &place, names), chart::heat(of, all, &place, names)]
    });
    let headline =
        |(.., row): &(&WorkTable, &SetTable, &Row)| row.family == crate::analysis::Family::Headline;
    // A host has one value.
    let has_rounds = analysis.hosts.is_empty();
    let rounds = work
        .rows()
        .filter(|row| has_rounds && headline(row))
        .map(|place| chart::rounds(analysis, place, names));
    let mut charts: Vec<Chart> = latencies.chain(rounds).flatten().collect();
    charts.extend(timelines(work, &pictures.timelines, names));
    charts.extend(work.fairness.iter().flat_map(chart::fairness));
    let is_exact = analysis.is_exact();
    charts.extend(
        work.sets
            .iter()
            .flat_map(|set| chart::switches(set, &phrases::place(work, set), names, is_exact)),
    );
    let fairness = work.fairness.as_ref().filter(|table| !table.variants.is_empty());
    let fairness = fairness.map(|table| {
        let rows = table.variants.iter().flat_map(detail::fairness_rows);
        Data { head: detail::FAIRNESS_HEAD.map(str::to_string).to_vec(), rows: rows.collect() }
    });
    context! {
        id,
        label => clean(&work.label),
        sets => sets.collect::<Vec<_>>(),
        charts => Serde(charts),
        matrices => work.sets.iter().flat_map(|set| matrices(set, names)).collect::<Vec<_>>(),
        fairness => Serde(fairness),
        spoilt_fairness => work.fairness.as_ref().and_then(phrases::spoilt_fairness),
    }
}

/// Every metric of a set, with a row for each side.
fn metrics(View { analysis, names }: View, set: &SetTable) -> Data {
    let row = |row: &Row| -> Vec<Vec<String>> {
        let scale = Scale::of_row(row);
        let side = |(side, name): (usize, &String)| {
            let value = scale.with_suffix(row.cells[side].median);
            let change = match side {
                0 => Default::default(),
                _ => rows::change(analysis, row, side, Default::default()),
            };
            [clean(&row.kind.name), name.clone(), value].into_iter().chain(change).collect()
        };
        names.iter().enumerate().map(side).collect()
    };
    let head = ["metric", "side", "median", "change", "95 %", "verdict"].map(str::to_string);
    Data { head: head.to_vec(), rows: detail::ordered(set).into_iter().flat_map(row).collect() }
}

/// Throughput and utilisation of each worker, of one run of each side: a chart for each set.
fn timelines(work: &WorkTable, timelines: &[SideTimeline], names: &[String]) -> Vec<Chart> {
    let throughput: OfWindow = |window| Some(window.ops as f64);
    let utilisation: OfWindow = |window| {
        let is_known = !is_above_wall(window.cpu_ns, window.wall_ns, 1);
        is_known.then_some(window.cpu_ns as f64 / 1e9)
    };
    let per_second =
        |set: &SetTable| measure(Unit::OpsPerS, "/s", &set.ops, Direction::HigherIsBetter);
    let rounds = timelines.iter().map(|of| format!("{} round {}", names[of.side], of.round + 1));
    let rounds = rounds.collect::<Vec<_>>().join(", ");
    let about = format!("One line a worker, of the run nearest to the median: {rounds}.");
    let charts = |title: &str, unit: &str, measure: &dyn Fn(&SetTable) -> String, value| {
        let figures = work.sets.iter().map(|set| {
            let own = timelines.iter();
            let lines = own.flat_map(|of| lines(of, &set.name, &names[of.side], value)).collect();
            let figure = Figure {
                title: format!("{}: {title} of each worker", phrases::place(work, set)),
                measure: measure(set),
                about: about.clone(),
                unit: unit.to_string(),
                end: None,
                names: names.to_vec(),
            };
            (figure, lines)
        });
        alike(figures.collect())
    };
    let mut all = charts("throughput", "/s", &per_second, throughput);
    all.extend(charts("utilisation", "CPUs", &|_| "CPUs".to_string(), utilisation));
    all
}

/// Timelines of sets next to each other have one axis, unless they say that it is their own.
fn alike(figures: Vec<(Figure, Vec<Line>)>) -> Vec<Chart> {
    let is_one = figures.windows(2).all(|two| two[0].0.measure == two[1].0.measure);
    let ends = || figures.iter().map(|(_, lines)| chart::end(lines));
    let common = if is_one { chart::common_end(ends()) } else { None };
    let charts = figures.into_iter().filter_map(|(mut figure, lines)| {
        figure.end = common;
        if common.is_none() {
            figure.unit = format!("{}, {}", figure.unit, chart::OWN_AXIS);
        }
        chart::timeline(figure, &lines)
    });
    charts.collect()
}

/// The value of each window is its `value` per second; windows without one have no point.
fn lines(of: &SideTimeline, set: &str, name: &str, value: OfWindow) -> Vec<Line> {
    let workers = of.workers.iter().filter(|worker| worker.set == set).take(MAX_WORKERS);
    let lines = workers.enumerate().map(|(at, worker)| {
        let windows = worker.windows.iter().filter(|window| window.wall_ns > 0);
        let point = |window: &WorkerWindow| {
            let seconds = window.wall_ns as f64 / 1e9;
            Some((window.end_at_ns as f64 / 1e9, value(window)? / seconds))
        };
        Line {
            name: format!("{name}, {} {}", clean(&worker.role), at + 1),
            series: of.side,
            points: windows.filter_map(point).collect(),
        }
    });
    lines.collect()
}

/// A matrix for each side of who ran while whom waited, and of who preempts whom.
fn matrices(set: &SetTable, names: &[String]) -> Vec<Value> {
    let kinds = [
        (WAITED_FOR, "Waited while another ran, each second", "waited"),
        (PREEMPTED_BY, "Preempted by", "preempted"),
    ];
    kinds.iter().flat_map(|kind| matrices_of(*kind, set, names)).collect()
}

fn matrices_of(
    (metric, title, verb): (&str, &str, &str),
    set: &SetTable,
    names: &[String],
) -> Vec<Value> {
    let pairs: Vec<(&str, &str, &Row)> = set
        .rows
        .iter()
        .filter_map(|row| Some((row.kind.subject.as_deref()?, partner(&row.kind, metric)?, row)))
        .collect();
    let mut by: Vec<&str> = pairs.iter().map(|(_, by, _)| *by).collect();
    by.sort_unstable();
    by.dedup();
    let mut roles: Vec<&str> = Vec::new();
    pairs.iter().for_each(|(role, ..)| {
        if !roles.contains(role) {
            roles.push(role)
        }
    });
    let matrix = |(side, name): (usize, &String)| {
        let cell = |role: &str, of: &str| {
            let found = pairs.iter().find(|(own, by, _)| (*own, *by) == (role, of));
            let value = found.and_then(|(.., row)| Some((row, row.cells.get(side)?.median?)));
            value.map_or("-".to_string(), |(row, value)| {
                Scale::for_values(row.kind.unit, Some(value)).with_suffix(Some(value))
            })
        };
        let row = |role: &&str| {
            [clean(role)].into_iter().chain(by.iter().map(|of| cell(role, of))).collect()
        };
        let head = [verb.to_string()].into_iter();
        let table = Data {
            head: head.chain(by.iter().map(|of| format!("by {}", clean(of)))).collect(),
            rows: roles.iter().map(row).collect(),
        };
        context! { title => format!("{title}: {name}"), table => Serde(table) }
    };
    if pairs.is_empty() { Vec::new() } else { names.iter().enumerate().map(matrix).collect() }
}

/// A table for each machine, what it is and how it was set.
fn environments(analysis: &Analysis) -> Vec<Data> {
    let mut tables = Vec::new();
    for plan in &analysis.plans {
        for environment in &plan.environments {
            let rows = facts(environment);
            let head = vec!["machine".to_string(), clean(&environment.hostname)];
            let table = Data { head, rows };
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
    }
    tables
}

fn facts(of: &Environment) -> Vec<Vec<String>> {
    let shown = |reading: &Reading<String>| match reading {
        Reading::Known(text) => clean(text),
        Reading::Unknown(why) => format!("unknown: {}", clean(why)),
    };
    let gib = |bytes: &u64| format!("{:.1} GiB", *bytes as f64 / f64::from(1 << 30));
    let memory = match &of.memory_bytes {
        Reading::Known(bytes) => gib(bytes),
        Reading::Unknown(why) => format!("unknown: {}", clean(why)),
    };
    let topology = &of.topology;
    let cpus = format!(
        "{}, {}, {}",
        counted(topology.usable().len(), "CPU"),
        counted(topology.llcs.len(), "last-level cache"),
        counted(topology.numa_nodes.len(), "NUMA node")
    );
    let mut facts = vec![
        ("kernel", clean(&format!("{} {}", of.kernel_release, of.kernel_version))),
        ("scheduler", of.scheduler.as_ref().map_or("not stored".to_string(), shown)),
        ("command line", shown(&of.kernel_cmdline)),
        ("processor", shown(&of.cpu_model)),
        ("CPUs", cpus),
        ("memory", memory),
        ("virtualisation", shown(&of.virtualisation)),
        ("SMT", shown(&of.smt)),
        ("governor", shown(&of.governor)),
        ("turbo", shown(&of.turbo)),
        ("clock source", shown(&of.clock_source)),
        ("load before", shown(&of.load_average)),
    ];
    let tunables = of.tunables.iter().map(|(path, value)| format!("{path} {}", shown(value)));
    let tunables: Vec<String> = tunables.map(|text| clean(&text)).collect();
    facts.extend((!tunables.is_empty()).then(|| ("tunables", tunables.join("; "))));
    facts.into_iter().map(|(what, value)| vec![what.to_string(), value]).collect()
}

#[cfg(test)]
mod tests;
