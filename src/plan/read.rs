//! The top level of a plan, `[measure]`, `[placement]` and `[report]`.

use toml::de::DeValue;

use crate::model::{
    CpuSet, Lab, LookRule, MAX_CPU, Measure, MemoryPlacement, PLAN_SCHEMA, Params, Placement, Plan,
    ProbeSpec, Topology, Twin, Value, ValueError, Work,
};
use crate::workload::Pool;

use super::cgroups::Cgroups;
use super::document;
use super::draft::Draft;
use super::error::{Faults, PlanError, PlanErrors};
use super::expand::{self, Llcs};
use super::expect::expectations;
use super::fields::{
    MAX_CELLS, MAX_DECIDING_ROUNDS, MAX_RUNS, MAX_SCALES, MAX_TITLE_CHARS, MEASURE, PLACEMENT,
    SCALE, TOP_KEYS, Words, names, report,
};
use super::finding::finding;
use super::lab::lab;
use super::program::{is_program, with_own_programs};
use super::scale::scaled;
use super::similar::suggestion;
use super::solo;
use super::table::{self, Entry, Span, Spans, Table, fill_defaults, quoted_start, section};
use super::turns::turns_fit;
use super::variants::variants;

pub fn plan(
    source_name: &str,
    text: &str,
    machine: Option<&Topology>,
    words: Words,
) -> Result<Plan, PlanErrors> {
    document::read(source_name, text, document::Kind::Plan, |mut top, faults| {
        let scales = top.take(SCALE);
        let plan = read(source_name, top, machine, words.clone(), faults)?;
        if let Some(scales) = scales.filter(|_| faults.is_empty()) {
            check_scales((source_name, text), scales, machine, &words, faults);
        }
        Some(plan)
    })
}

/// The plan on this machine or, where it has no room, on another one: too large for this machine is no fault of the
/// plan.
pub fn plan_anywhere(
    source_name: &str,
    text: &str,
    machine: Option<&Topology>,
    words: &Words,
) -> Result<Plan, PlanErrors> {
    let on = |machine: Option<&Topology>| plan(source_name, text, machine, words.clone());
    let on_large = |cpus: u32| on(Some(&machine_of(cpus)));
    // One for so many CPUs as no machine has may yet be right, if it fits there.
    let on_largest = |errors| on_large(MAX_CPU + 1).map_err(|_| errors);
    on(machine).or_else(|_| on_large(LARGE_CPUS)).or_else(on_largest)
}

/// A machine of so many CPUs, and nothing else known of it.
pub fn machine_of(cpus: u32) -> Topology {
    let all: CpuSet = (0..cpus).collect();
    Topology { online: all.clone(), allowed: all, ..Topology::default() }
}

/// CPUs of a machine on which whatever grows with them has room in a plan.
const LARGE_CPUS: u32 = 1024;

/// Notes each scale that makes no plan, though nobody asks for it now.
fn check_scales(
    (source_name, text): (&str, &str),
    scales: Entry,
    machine: Option<&Topology>,
    words: &Words,
    faults: &mut Faults,
) {
    let Some(scales) = table::table_of(scales, faults) else { return };
    let (span, scales) = (scales.span.clone(), scales.into_entries());
    if scales.len() > MAX_SCALES {
        let message = format!("a plan has {MAX_SCALES} scales at most, not {}", scales.len());
        return faults.add(&span, message, "these", "leave scales out");
    }
    for Entry { key, key_span, .. } in scales {
        let fault = scaled(text, key).map(|text| {
            let errors = plan_anywhere(source_name, &text, machine, words).err()?;
            // Its places are in a text that nobody wrote.
            let PlanError { message, hint, .. } = errors.errors().first()?.clone();
            Some((format!("scale {}: {message}", quoted_start(key)), hint))
        });
        let fault = fault.unwrap_or_else(|error| Some((error.problem, error.hint)));
        let Some((message, hint)) = fault else { continue };
        faults.add(&key_span, message, "this scale", hint);
    }
}

pub fn lab_alone(source_name: &str, text: &str, twin: Option<&Twin>) -> Result<Lab, PlanErrors> {
    let kind = document::Kind::Plan;
    document::read(source_name, text, kind, |mut top, faults| Some(lab(&mut top, twin, faults)))
}

/// `None` if nothing but the faults can be returned: another schema.
fn read(
    source_name: &str,
    mut top: Table,
    machine: Option<&Topology>,
    words: Words,
    faults: &mut Faults,
) -> Option<Plan> {
    if is_program(&top) {
        let name = source_name.rsplit('/').next().unwrap_or(source_name);
        let hint = format!(
            "a plan uses it: schema = 1, then [[workload]] with use = \"{name}\"; schedlab help commands"
        );
        faults.add_of_all("this is a program, not a plan", hint);
        return None;
    }
    schema(&mut top, faults)?;
    let words = &with_own_programs(words, &mut top, faults);
    let title = top.take("title").and_then(|entry| table::text(&entry, MAX_TITLE_CHARS, faults));
    let title = title.map_or_else(|| file_stem(source_name), str::to_string);
    let (measure, rounds_span, turns_span) = measure(&mut top, faults);
    let (placement, llcs) = placement(&mut top, machine.map(|machine| &machine.online), faults);
    let report_format = report_format(&mut top, words.known.formats, faults);
    let probes = probes(&mut top, words.known.probes, faults);
    let lab = lab(&mut top, None, faults);
    let variants = variants(&mut top, placement.cpus.as_ref(), words, faults);
    let cgroups = Cgroups::take(&mut top, placement.cpus.as_ref(), measure.duration_ns, faults);
    let drafts = expand::drafts(&mut top, words, (&cgroups, measure.duration_ns), llcs, faults);
    let expects = top.has("expect");
    let expectations = expectations(&mut top, &variants, faults);
    let finding = finding(&mut top, expects, faults);
    let variants = variants.all;
    top.finish(TOP_KEYS, "a plan", faults);

    check_size(&drafts, variants.len(), measure.rounds, &rounds_span, faults)?;
    // The CPUs of an existing pool are known only when the plan runs.
    let usable = machine.filter(|_| placement.pool.is_none()).map(Topology::usable);
    let cpus = placement.cpus.as_ref().or(usable).cloned().unwrap_or_default();
    let pool = |llcs: Option<u32>| {
        let placed = machine.zip(llcs).and_then(|(machine, of)| machine.first_llcs(of, &cpus).ok());
        // The NUMA nodes are known only when the plan runs.
        Pool::new(placed.unwrap_or_else(|| cpus.clone()), &[])
    };
    let mut works: Vec<Vec<Work>> = Vec::new();
    for draft in &drafts {
        draft.check_knobs(&variants, &placement, faults);
        works.push(draft.works(&pool, &measure, faults));
    }
    let works = solo::add(&drafts, works, &pool, measure.seed, faults);
    let plan = Plan {
        title,
        measure,
        variants,
        works,
        placement,
        report_format,
        probes,
        lab,
        has_lab_durations: false,
        expectations,
        finding,
        aa: false,
    };
    if let (Some(span), true, Err(error)) = (turns_span, faults.is_empty(), turns_fit(&plan)) {
        faults.add(&span, error.message, "not with these turns", error.hint);
    }
    Some(plan)
}

/// Check the version first: with another version every other message would be a guess.
fn schema(top: &mut Table, faults: &mut Faults) -> Option<()> {
    let Some(entry) = top.take("schema") else {
        let hint = format!("begin the plan with: schema = {PLAN_SCHEMA}");
        faults.add(&(0..0), "`schema` is missing", "before this", hint);
        return Some(());
    };
    let span = entry.value.span();
    let DeValue::Integer(version) = entry.value.get_ref() else {
        let message =
            format!("`schema` takes a number, not {}", table::kind_of(entry.value.get_ref()));
        faults.add(&span, message, "not a number", format!("write: schema = {PLAN_SCHEMA}"));
        return Some(());
    };
    if i64::from_str_radix(version.as_str(), version.radix()) == Ok(PLAN_SCHEMA) {
        return Some(());
    }
    let message = format!("a plan of schema {} cannot be read", quoted_start(&version.to_string()));
    let hint = format!("this version reads schema {PLAN_SCHEMA}; see: schedlab --version");
    faults.refuse(&span, message, "not known here", hint)
}

/// `plans/web.toml` is called `web` if it has no title.
fn file_stem(source_name: &str) -> String {
    let file = source_name.rsplit('/').next().unwrap_or(source_name);
    let stem = file.strip_suffix(".toml").unwrap_or(file);
    quoted_start(stem).trim_matches('`').to_string()
}

/// Also returns the places for messages about a wrong number of runs, and about turns.
fn measure(top: &mut Table, faults: &mut Faults) -> (Measure, Span, Option<Span>) {
    let (mut given, mut places) = (Params::new(), Spans::new());
    if let Some(mut table) = section(top, "measure", faults) {
        (given, places) = table.take_placed(MEASURE, faults);
        places.insert("measure", table.span.clone());
        table.finish(&names(MEASURE), "[measure]", faults);
    }
    let window_given = given.get("window").and_then(Value::as_duration_ns);
    fill_defaults(&mut given, MEASURE);
    // Absent only if a fault was noted: the number is then never used.
    let ns = |name: &str| given.get(name).and_then(Value::as_duration_ns);
    let int = |name: &str| given.get(name).and_then(Value::as_int).unwrap_or_default();
    let duration_ns = ns("duration").unwrap_or_default();
    if let (Some(window_ns), Some(span)) = (window_given, places.get("window"))
        && window_ns > duration_ns
    {
        let hint = "a window lies inside a run: shorten it or lengthen `duration`";
        faults.add(span, "`window` is longer than `duration`", "longer than a run", hint);
    }
    let flag = |name: &str| given.get(name).and_then(Value::as_bool).unwrap_or_default();
    let until_decided = flag("until-decided");
    let are_rounds_given = places.contains_key("rounds");
    let measure = Measure {
        rounds: if until_decided && !are_rounds_given {
            MAX_DECIDING_ROUNDS
        } else {
            int("rounds") as u32
        },
        duration_ns,
        warmup_ns: ns("warmup").unwrap_or_default(),
        window_ns: ns("window").unwrap_or_default().min(duration_ns),
        seed: int("seed") as u64,
        budget_ns: ns("budget"),
        grace_ns: ns("grace").unwrap_or_default(),
        until_decided,
        looks: if until_decided { LookRule::Even } else { LookRule::default() },
        ends: Vec::new(),
        repeat_spoilt: flag("repeat-spoilt"),
        turns_ns: ns("turns"),
    };
    let rounds_span = places.get("rounds").or(places.get("measure")).cloned().unwrap_or(0..0);
    (measure, rounds_span, places.get("turns").cloned())
}

/// Also returns the axis of last-level caches.
fn placement(
    top: &mut Table,
    machine: Option<&CpuSet>,
    faults: &mut Faults,
) -> (Placement, Option<Llcs>) {
    let mut placement = Placement::default();
    let Some(mut table) = section(top, "placement", faults) else { return (placement, None) };
    let llcs = Llcs::take(&mut table, faults);
    for field in PLACEMENT {
        let Some((value, span)) = table.take_value(field, faults) else { continue };
        match (field.name, value) {
            ("cpus", Value::Cpus(cpus)) => {
                check_cpus(&cpus, machine, &span, faults);
                placement.cpus = Some(cpus);
            }
            ("pool", Value::Text(name)) => placement.pool = name.parse().ok(),
            ("memory", Value::Text(word)) => {
                placement.memory = MemoryPlacement::from_word(&word).unwrap_or_default();
            }
            _ => {}
        }
    }
    table.finish(&names(PLACEMENT), "[placement]", faults);
    (placement, llcs)
}

fn report_format(
    top: &mut Table,
    formats: &'static [&'static str],
    faults: &mut Faults,
) -> Option<String> {
    let mut table = section(top, "report", faults)?;
    let fields = report(formats);
    let given = table.take_written(&fields, faults);
    table.finish(&names(&fields), "[report]", faults);
    given.get("format").and_then(Value::as_text).map(str::to_string)
}

/// A list of names, no two of which report the same metric.
fn probes(top: &mut Table, known: &[&ProbeSpec], faults: &mut Faults) -> Vec<String> {
    let Some(entry) = top.take("probes") else { return Vec::new() };
    let names: Vec<&str> = known.iter().map(|probe| probe.name).collect();
    let first = names.first().copied().unwrap_or("NAME");
    let hint = format!("write: probes = [\"{first}\"]: schedlab list probes");
    let DeValue::Array(items) = entry.value.get_ref() else {
        let message = format!("`probes` is {}, not a list", table::kind_of(entry.value.get_ref()));
        faults.add(&entry.value.span(), message, "not a list", hint);
        return Vec::new();
    };
    let mut probes: Vec<&ProbeSpec> = Vec::new();
    for item in items.iter() {
        match item.get_ref() {
            DeValue::String(name) => match probe_next_to(&probes, name, known) {
                Ok(probe) => probes.push(probe),
                Err(ValueError { message, hint }) => {
                    faults.add(&item.span(), message, "cannot be had", hint);
                }
            },
            other => {
                let message = format!("a probe is a name, not {}", table::kind_of(other));
                faults.add(&item.span(), message, "not a name", hint.clone());
            }
        }
    }
    probes.iter().map(|probe| probe.name.to_string()).collect()
}

/// The probe of this name, unless it reports a metric that one of `probes` reports.
pub fn probe_next_to<'a>(
    probes: &[&ProbeSpec],
    name: &str,
    known: &[&'a ProbeSpec],
) -> Result<&'a ProbeSpec, ValueError> {
    let names: Vec<&str> = known.iter().map(|probe| probe.name).collect();
    let wrong = |message, hint| Err(ValueError { message, hint });
    let Some(probe) = known.iter().find(|probe| probe.name == name) else {
        return wrong(
            format!("there is no probe {}", quoted_start(name)),
            suggestion(name, &names),
        );
    };
    match probes.iter().find(|other| other.overlaps(probe)) {
        None => Ok(probe),
        Some(other) => wrong(
            format!("`{}` reports metrics that `{name}` reports too", other.name),
            "one of them: schedlab list probes".to_string(),
        ),
    }
}

fn check_cpus(cpus: &CpuSet, machine: Option<&CpuSet>, span: &Span, faults: &mut Faults) {
    let Some(machine) = machine else { return };
    let missing = cpus.minus(machine);
    let noun = match missing.len() {
        0 => return,
        1 => "CPU",
        _ => "CPUs",
    };
    let message = format!("{noun} {missing} not on this machine");
    faults.add(span, message, "not there", format!("this machine has CPUs {machine}"));
}

/// Counts cells and runs before any is made. `None`: too many.
fn check_size(
    drafts: &[Draft],
    variants: usize,
    rounds: u32,
    rounds_span: &Span,
    faults: &mut Faults,
) -> Option<()> {
    let mut cells: u128 = 0;
    for draft in drafts {
        let works = draft.points().saturating_add(solo::max_works(draft));
        cells = cells.saturating_add(works.saturating_mul(variants as u128));
        if cells > u128::from(MAX_CELLS) {
            let message = format!("the plan has {} cells up to here", many(cells));
            let hint = format!(
                "at most {MAX_CELLS}: fewer points on the axes of {}, or fewer variants",
                quoted_start(&draft.name)
            );
            return faults.refuse(&draft.span, message, "too many cells", hint);
        }
    }
    let runs = cells * u128::from(rounds);
    if runs > u128::from(MAX_RUNS) {
        let message = format!("{cells} cells in {rounds} rounds are {runs} runs");
        let hint = format!("at most {MAX_RUNS}: fewer rounds, variants or points on axes");
        return faults.refuse(rounds_span, message, "too many runs", hint);
    }
    Some(())
}

fn many(count: u128) -> String {
    if count > 1_000_000_000_000 { "more than 10^12".to_string() } else { count.to_string() }
}
