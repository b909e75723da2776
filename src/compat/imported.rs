//! Turns the results of another tool into a stored plan that has ended.
//!
//! Input: [`Results`], read from a file of that tool, and the bytes of the file, whose digest is the
//! plan's id. Output: the lines that `Store::import` takes. Pure.
//!
//! Each system is a variant and a session of its own, each result a work, each value a round. No fact is
//! taken from this machine: facts that the file lacks are unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::model::{
    CpuSet, Direction, EVENT_SCHEMA, Environment, Event, Importance, Judged, OUTPUT_UNITS, Outcome,
    OutputMetric, OutputPlace, PLAN_SCHEMA, PlanEnd, PlanStarted, Reading, RunKey, RunResult,
    SampledPlan, SetResult, Topology, Unit,
};
use crate::plan::{self, toml_text as quoted};
use crate::report::clean;
use crate::sys::remedy;
use crate::workload;

use super::CompatError;

/// Larger files are refused: no result file that a person reads is as large.
pub const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of values in a file, and of works.
const MAX_VALUES: usize = 100_000;
/// Maximum number of cells; each session has the cells of the whole plan.
const MAX_CELLS: usize = 200_000;
/// The largest value in our units, so that sums and squares stay finite.
const MAX_VALUE: f64 = 1e100;
/// Maximum characters of a text that becomes a name, and of one that is kept unchanged.
const MAX_TEXT_CHARS: usize = 1_000;
const MAX_FACT_CHARS: usize = 10_000;
const MAX_NAME_CHARS: usize = 64;
/// Room for ` (100000)`.
const MAX_NUMBER_CHARS: usize = 9;
const MAX_TITLE_CHARS: usize = 200;
/// Bytes of the file's SHA-256 that are in the plan's id.
const ID_BYTES: usize = 6;
const UNSAID: &str = "imported: the file does not say";
const WORKLOAD: &str = "command";

pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The contents of a file.
pub struct Results {
    /// Begins the plan's id.
    pub tool: &'static str,
    pub title: String,
    pub started_unix_ns: u64,
    /// The first is the baseline.
    pub systems: Vec<System>,
    pub works: Vec<WorkResults>,
    /// Why results are not taken, with their numbers.
    pub left_out: BTreeMap<String, usize>,
}

/// The system that the results of one column were measured on.
pub struct System {
    pub name: String,
    pub environment: Environment,
}

/// One row: a test with its options.
pub struct WorkResults {
    pub name: String,
    /// The unit as the file writes it.
    pub scale: String,
    pub direction: Direction,
    /// The command that would measure it.
    pub command: Vec<String>,
    /// Where the command writes the value, if it does.
    pub pattern: Option<&'static str>,
    /// By system. `None` if the file has nothing; an error says why it was not measured.
    pub values: Vec<Option<Result<Vec<f64>, String>>>,
}

/// A plan to be stored.
pub struct Imported {
    pub id: String,
    pub variants: usize,
    pub works: usize,
    /// Works that are shown and not judged: the file does not say which direction is better.
    pub unjudged: usize,
    pub left_out: BTreeMap<String, usize>,
    /// Events, as `schedlab export` writes them.
    pub lines: Vec<u8>,
}

impl Results {
    /// `file`: its name, for messages. Fails if the results cannot be a plan.
    pub fn into_plan(self, file: &str, bytes: &[u8]) -> Result<Imported, CompatError> {
        let values = self.works.iter().flat_map(|work| &work.values).flatten().flatten();
        let count: usize = values.map(Vec::len).sum();
        if count == 0 {
            let left_out =
                describe_left_out(&self.left_out).unwrap_or("there is no result".to_string());
            let text = format!("{file}: nothing in it can be compared: {left_out}");
            return Err(CompatError::usage(text, HINT));
        }
        if count > MAX_VALUES {
            let text = format!("{file}: it has {count} values");
            let hint = format!("at most {MAX_VALUES} of one file are taken: import a part of it");
            return Err(CompatError::usage(text, hint));
        }
        self.check_values(file)?;
        let id = id(self.tool, bytes);
        let (source, plan) = self.plan(file)?;
        let lines = self.lines(&id, &source, &plan).map_err(|why| {
            CompatError::here(format!("{file}: its events cannot be written: {why}"), HINT)
        })?;
        let (variants, works) = (plan.variants.len(), plan.works.len());
        let unjudged =
            self.works.iter().filter(|work| work.direction == Direction::Neutral).count();
        Ok(Imported { id, variants, works, unjudged, left_out: self.left_out, lines })
    }

    /// Checks that the store takes each value in our unit.
    fn check_values(&self, file: &str) -> Result<(), CompatError> {
        for work in &self.works {
            let OutputMetric { unit, scale, .. } = work.metric().0;
            let is_amount = matches!(unit, Unit::Ns | Unit::OpsPerS | Unit::BytesPerS)
                || ["latency", "time"].iter().any(|time| work.scale.eq_ignore_ascii_case(time));
            let fault = |value: f64| match value * scale {
                own if !(own.is_finite() && own.abs() <= MAX_VALUE) => Some("too large"),
                own if own < 0.0 && is_amount => Some("below 0, which it cannot be"),
                _ => None,
            };
            for (system, values) in self.systems.iter().zip(&work.values) {
                let mut values = values.iter().flatten().flatten();
                if let Some((value, why)) = values.find_map(|value| Some((value, fault(*value)?))) {
                    let [work_name, system] = [&work.name, &system.name].map(|name| cut(name, 60));
                    let text = format!(
                        "{file}: `{work_name}`, `{system}`: {value:e} {} is {why}",
                        cut(&work.scale, 60)
                    );
                    return Err(CompatError::usage(text, HINT));
                }
            }
        }
        Ok(())
    }

    fn plan(&self, file: &str) -> Result<(String, crate::model::Plan), CompatError> {
        let tool = self.tool;
        let mut text = format!(
            "# From a result file of {tool}, by `schedlab import`: its systems are the variants,\n\
             # which no knob makes; to measure anew, give them knobs.\n\
             schema = {PLAN_SCHEMA}\ntitle = {}\n\n[measure]\nrounds = {}\nduration = \"500ms\"\n\
             warmup = \"0s\"\nwindow = \"500ms\"\ngrace = \"24h\"\n",
            quoted(&cut(&self.title, MAX_TITLE_CHARS)),
            self.works.iter().map(WorkResults::rounds).max().unwrap_or(1),
        );
        for name in names(self.systems.iter().map(|system| system.name.as_str())) {
            text += &format!("\n[[variant]]\nname = {}\n", quoted(&name));
        }
        let works = names(self.works.iter().map(|work| work.name.as_str()));
        self.works.iter().zip(works).for_each(|(work, name)| text += &work.text(&name));
        let wrong = |why: String| {
            let text = format!("{file}: its results make no plan: {why}");
            CompatError::usage(
                text,
                "import a part of it; schedlab help formats --all says what is taken",
            )
        };
        match plan::parse("plan.toml", &text, None, plan::Known::default()) {
            Ok(plan) => Ok((text, plan)),
            Err(errors) => {
                let first = errors.errors().first().map(|error| error.one_line());
                Err(wrong(first.unwrap_or_default()))
            }
        }
    }

    fn lines(
        &self,
        id: &str,
        source: &str,
        plan: &crate::model::Plan,
    ) -> serde_json::Result<Vec<u8>> {
        let mut lines = Lines(Vec::new());
        let cells = plan::cells(plan);
        for (at, system) in self.systems.iter().enumerate() {
            lines.put(&Event::PlanStarted(Box::new(PlanStarted {
                schema: EVENT_SCHEMA,
                id: id.to_string(),
                backend: SampledPlan::IMPORTED.to_string(),
                started_unix_ns: self.started_unix_ns,
                source: source.to_string(),
                plan: plan.clone(),
                cells: cells.clone(),
                judged: Judged::default(),
                sharding: None,
                environment: system.environment.clone(),
            })))?;
            for (work_at, work) in self.works.iter().enumerate() {
                let cell = (work_at * self.systems.len() + at) as u32;
                for (round, outcome) in work.outcomes(at, self.started_unix_ns).enumerate() {
                    let key = RunKey { round: round as u32, cell };
                    lines.put(&Event::RunStarted { key })?;
                    lines.put(&Event::RunEnded { key, outcome })?;
                }
            }
            lines.put(&Event::PlanEnded { reason: PlanEnd::Complete, calibration: None })?;
        }
        Ok(lines.0)
    }
}

/// The id of the plan that is made of a file.
pub fn id(tool: &str, bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}"));
    format!("{tool}-{}", digits.collect::<String>())
}

struct Lines(Vec<u8>);

impl Lines {
    fn put(&mut self, event: &Event) -> serde_json::Result<()> {
        serde_json::to_writer(&mut self.0, event)?;
        self.0.push(b'\n');
        Ok(())
    }
}

impl WorkResults {
    /// At least 1.
    fn rounds(&self) -> usize {
        let counts = self.values.iter().flatten().flatten().map(Vec::len);
        counts.max().unwrap_or(1).max(1)
    }

    /// Its table in a plan.
    fn text(&self, name: &str) -> String {
        let (metric, unit) = self.metric();
        let better = match metric.direction {
            Direction::HigherIsBetter => "higher",
            Direction::LowerIsBetter => "lower",
            Direction::Neutral => "neither",
        };
        let headline = metric.importance == Importance::Headline;
        // Two that are cut may be alike.
        let is_cut = self.name.chars().count() > MAX_NAME_CHARS;
        let about = is_cut.then(|| ["env".to_string(), format!("RESULT={}", self.name)]);
        // A name in braces would be a place in a plan's command.
        let words = about.iter().flatten().chain(&self.command);
        let words: Vec<String> = words.map(|word| quoted(&word.replace('{', "{{"))).collect();
        let mut text = format!(
            "\n[[workload]]\nname = {}\nuse = \"{WORKLOAD}\"\ncommand = [{}]\n",
            quoted(name),
            words.join(", ")
        );
        if let Some(pattern) = self.pattern {
            text += &format!(
                "\n[[workload.metric]]\nname = {}\npattern = {}\nunit = \"{unit}\"\n\
                 better = \"{better}\"\nheadline = {headline}\n",
                quoted(&metric.name),
                quoted(pattern)
            );
        }
        text
    }

    /// The metric of its values, and the unit as a plan writes it. A scale that is not one of our units
    /// becomes the name of a count.
    fn metric(&self) -> (OutputMetric, &'static str) {
        let (word, unit, scale) = output_unit(&self.scale).unwrap_or(("count", Unit::Count, 1.0));
        let name = match unit {
            Unit::Ns => "duration".to_string(),
            Unit::OpsPerS | Unit::BytesPerS => "rate".to_string(),
            _ => metric_name(&self.scale),
        };
        let importance = match self.direction {
            Direction::Neutral => Importance::Explaining,
            _ => Importance::Headline,
        };
        let place = OutputPlace::Pattern(self.pattern.unwrap_or_default().to_string());
        let direction = self.direction;
        (OutputMetric { name, place, unit, scale, direction, importance }, word)
    }

    /// The outcomes of one system's runs, in the order of rounds.
    fn outcomes(&self, system: usize, started_unix_ns: u64) -> impl Iterator<Item = Outcome> {
        let (metric, _) = self.metric();
        let (values, reason) = match self.values.get(system) {
            Some(Some(Ok(values))) => (values.as_slice(), None),
            Some(Some(Err(reason))) => (&[][..], Some(reason.clone())),
            _ => (&[][..], None),
        };
        let done = values.iter().map(move |value| {
            let value = Reading::Known(value * metric.scale);
            let set = SetResult {
                name: WORKLOAD.to_string(),
                workload: WORKLOAD.to_string(),
                ops: "executions".to_string(),
                metrics: vec![metric.kind().reading(value)],
                ..SetResult::default()
            };
            let result = RunResult { started_unix_ns, ..RunResult::new(0, vec![set], unsaid()) };
            let result = Box::new(result);
            Outcome::Done { result }
        });
        done.chain(reason.map(|reason| Outcome::Failed { reason }))
    }
}

/// The environment of a machine about which little is known.
pub fn environment(hostname: String, kernel_release: String, cpus: CpuSet) -> Environment {
    Environment {
        hostname,
        topology: Topology { online: cpus, ..Topology::default() },
        kernel_release,
        kernel_version: UNKNOWN.to_string(),
        cgroup_mode: UNKNOWN.to_string(),
        ..Environment::unknown(UNSAID)
    }
}

/// Stands for a name that the file lacks.
pub const UNKNOWN: &str = "unknown";

pub(super) const HINT: &str =
    "schedlab help formats --all says what is taken of result files; nothing was stored";

pub fn unsaid<T>() -> Reading<T> {
    Reading::Unknown(UNSAID.to_string())
}

/// The text of a file.
pub fn text<'t>(bytes: &'t [u8], file: &str) -> Result<&'t str, CompatError> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|why| {
        let text = format!("{file}: not UTF-8 from byte {} on", why.valid_up_to());
        CompatError::usage(text, remedy::to_utf8(Path::new(file)))
    })
}

/// A text that may become a name, with its white space in single blanks. `place`: where it stands.
pub fn name(place: &str, text: &str) -> Result<String, CompatError> {
    short(place, text, MAX_TEXT_CHARS)
}

/// A text that is kept as a fact.
pub fn fact(place: &str, text: &str) -> Result<String, CompatError> {
    short(place, text, MAX_FACT_CHARS)
}

fn short(place: &str, text: &str, max_chars: usize) -> Result<String, CompatError> {
    let chars = text.chars().count();
    if chars > max_chars {
        let text = format!("{place}: it has {chars} characters");
        return Err(CompatError::usage(text, format!("at most {max_chars}: {HINT}")));
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = clean(&text);
    if shown == text {
        return Ok(text);
    }
    let text = format!("{place}: `{}` holds characters that cannot be shown", cut(&shown, 60));
    Err(CompatError::usage(text, "names and texts reach terminals: take them out of the file"))
}

/// A number as it stands in the file.
pub fn number(place: &str, text: &str) -> Result<f64, CompatError> {
    let value: Option<f64> = text.trim().parse().ok();
    value.filter(|value| value.is_finite()).ok_or_else(|| {
        let shown = cut(&clean(text.trim()), 60);
        CompatError::usage(format!("{place}: `{shown}` is not a number"), HINT)
    })
}

/// `3 results (reason), 1 result (reason)`. `None`: nothing was left out.
pub fn describe_left_out(left_out: &BTreeMap<String, usize>) -> Option<String> {
    let each = left_out.iter().map(|(why, count)| match count {
        1 => format!("1 result ({why})"),
        _ => format!("{count} results ({why})"),
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join(", "))
}

/// Names as a plan takes them, each once.
fn names<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    // The next number for each beginning of a name.
    let mut next_number: BTreeMap<String, usize> = BTreeMap::new();
    let mut unique = |text: &str| {
        let text = text.trim_start_matches('-').trim();
        let text = if text.is_empty() { UNKNOWN } else { text };
        let mut name = cut(text, MAX_NAME_CHARS);
        let head = cut(text, MAX_NAME_CHARS - MAX_NUMBER_CHARS);
        while !taken.insert(name.clone()) {
            let number = next_number.entry(head.clone()).or_insert(2);
            name = format!("{head} ({number})");
            *number += 1;
        }
        name
    };
    texts.map(&mut unique).collect()
}

/// Cuts a text to this many characters; a longer one ends with three dots.
pub fn cut(text: &str, max_chars: usize) -> String {
    match text.chars().nth(max_chars) {
        Some(_) => {
            text.chars().take(max_chars - 3).collect::<String>().trim_end().to_string() + "..."
        }
        None => text.to_string(),
    }
}

/// Turns `Mop/s` into `Mop-per-s`: in options `/` separates a work from its metric.
fn metric_name(scale: &str) -> String {
    let name = scale.replace('/', "-per-").replace(|c: char| c.is_whitespace() || c == ',', "-");
    let name = cut(name.trim_matches('-'), MAX_NAME_CHARS - 10);
    let own = workload::find(WORKLOAD).map_or(&[][..], |command| command.spec().metrics);
    match name.as_str() {
        "" => "result".to_string(),
        taken if own.iter().any(|metric| metric.name == taken) => format!("{taken}-result"),
        _ => name,
    }
}

/// Scales of other tools, in lower case, by the unit that a plan has for them.
const SCALES: &[(&str, &[&str])] = &[
    ("s", &["s", "sec", "secs", "second", "seconds", "time (seconds)"]),
    ("ms", &["ms", "msec", "millisecond", "milliseconds", "time (milliseconds)"]),
    ("us", &["us", "usec", "µs", "microsecond", "microseconds", "time (microseconds)"]),
    ("ns", &["ns", "nsec", "nanosecond", "nanoseconds", "time (nanoseconds)"]),
    ("1/s", &["iops", "tps", "fps", "qps", "rps"]),
    ("K/s", &["kiloops/sec", "kilooperations/sec", "kiops"]),
    ("B/s", &["b/s", "byte/s", "bytes/s", "bytes/sec", "bytes/second", "bytes per second"]),
    ("KB/s", &["kb/s", "kb/sec", "kilobytes/sec", "kilobytes/second", "kilobytes per second"]),
    ("MB/s", &["mb/s", "mb/sec", "megabytes/sec", "megabytes/second", "megabytes per second"]),
    ("GB/s", &["gb/s", "gb/sec", "gigabytes/sec", "gigabytes/second", "gigabytes per second"]),
    ("KiB/s", &["kib/s", "kib/sec", "kibibytes/second"]),
    ("MiB/s", &["mib/s", "mib/sec", "mebibytes/second"]),
    ("GiB/s", &["gib/s", "gib/sec", "gibibytes/second"]),
    ("Mbit/s", &["mbit/s", "mbits/s", "mbits/sec", "megabits/sec", "megabits/second"]),
    ("Gbit/s", &["gbit/s", "gbits/s", "gbits/sec", "gigabits/sec", "gigabits/second"]),
    ("%", &["%", "percent", "percentage"]),
];

/// Things that are counted per second one by one, so `Mop` is not among them.
const COUNTED: &[&str] = &[
    "bogo ops",
    "bogoops",
    "bogooperations",
    "burns",
    "calls",
    "connections",
    "events",
    "files",
    "frames",
    "images",
    "iterations",
    "messages",
    "nodes",
    "op",
    "operations",
    "ops",
    "queries",
    "records",
    "req",
    "requests",
    "rows",
    "samples",
    "switches",
    "tokens",
    "transactions",
];
const PER_SECOND: [&str; 5] = [" per second", "/second", "/sec", "/s", " per sec"];

/// The better direction of values in this scale: lower for times, higher for rates. `None` if the scale does not say.
pub fn direction_of(scale: &str) -> Option<Direction> {
    match output_unit(scale)?.1 {
        Unit::Ns => Some(Direction::LowerIsBetter),
        Unit::OpsPerS | Unit::BytesPerS => Some(Direction::HigherIsBetter),
        _ => None,
    }
}

/// The factor that turns values of one scale into values of the other. `None` if it is not known.
pub fn conversion(from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(1.0);
    }
    let [(_, own, own_scale), (_, other, other_scale)] = [output_unit(from)?, output_unit(to)?];
    (own == other).then_some(own_scale / other_scale)
}

fn output_unit(scale: &str) -> Option<(&'static str, Unit, f64)> {
    let word = unit_word(scale)?;
    OUTPUT_UNITS.iter().find(|(known, ..)| *known == word).copied()
}

/// Fails if there is more than a plan may have, before the whole file is read.
pub fn check_size(file: &str, works: usize, systems: usize) -> Result<(), CompatError> {
    let most = MAX_VALUES.min(MAX_CELLS / systems.saturating_mul(systems).max(1));
    if works <= most {
        return Ok(());
    }
    let text = format!("{file}: it has {works} works or more, of {systems} systems");
    let hint = format!("at most {most} of so many systems are taken: import a part of it");
    Err(CompatError::usage(text, hint))
}

/// `None` if it is not one of our units.
fn unit_word(scale: &str) -> Option<&'static str> {
    let scale = scale.trim().to_lowercase();
    let known = SCALES.iter().find(|(_, scales)| scales.contains(&scale.as_str()));
    let counted = || {
        let mut of = PER_SECOND.iter().filter_map(|end| scale.strip_suffix(end));
        of.any(|counted| COUNTED.contains(&counted.trim())).then_some("1/s")
    };
    known.map(|(unit, _)| *unit).or_else(counted)
}

#[cfg(test)]
mod tests;
