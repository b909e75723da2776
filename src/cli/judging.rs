//! Shared by `run`, `report` and `compare`: which metrics are judged by which margins, and how an
//! analysis is made from the store and written.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::analysis::{self, Analysis, Note, Question, Selection, WithoutEffect};
use crate::model::{Judged, PlanHead, SampledPlan};
use crate::report::{self, Format, Options};
use crate::store::Store;
use crate::sys::remedy;
use crate::sys::replace::{self, NewFile};
use crate::variant;

use super::exit_code::Problem;
use super::help;
use super::names::UnknownName;
use super::pictures::pictures;
use super::text::quoted;
use super::{Database, Failure, named, terminal};
use crate::model::clean;

/// A/A plans that are read for what this machine resolves.
const MAX_FLOORS: usize = 5;
/// Plans that a hint names as sides.
const MAX_SIDES: usize = 4;
/// Margins are read and written in these many parts of a percent, so that the margin shown is the one that holds.
const MARGIN_PARTS: f64 = 1e4;
const MIN_MARGIN_PERCENT: f64 = 0.001;

#[derive(Args, Clone, Default)]
pub struct Judging {
    /// Call differences below this SAME: 2%, or for one metric throughput=1%; may be repeated. By
    /// default 2%, and 10% of tail latencies (p99 and beyond)
    #[arg(long, value_name = "PERCENT", value_parser = parse_margin)]
    margin: Vec<(Option<String>, f64)>,
    /// Judge these metrics instead of the headline ones: NAME, SET/NAME, WORK/NAME or
    /// WORK/SET/NAME, with * for anything; may be repeated. `all` judges every other metric too, as a
    /// second family with an error rate of its own, and shows it as -v does
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Compare runs of different backends or guests too: a host with the lab
    #[arg(long, help_heading = help::SELDOM)]
    mixed: bool,
}

/// In place of the name of a metric.
const ALL_METRICS: &str = "all";

impl Judging {
    /// Whether every other metric is judged too and shown as -v does, as a second family with an error
    /// rate of its own.
    pub fn all_metrics(&self) -> bool {
        self.metric.iter().any(|metric| metric == ALL_METRICS)
    }

    fn named_metrics(&self) -> impl Iterator<Item = &String> {
        self.metric.iter().filter(|metric| *metric != ALL_METRICS)
    }

    pub fn names_metrics(&self) -> bool {
        !self.metric.is_empty()
    }

    /// `explaining`: the report shows every metric.
    pub fn question(
        &self,
        sides: Vec<Selection>,
        command: String,
        explaining: bool,
        db: &Database,
    ) -> Question {
        let mut question = Question::new(sides, command);
        question.store = db.words();
        for (metric, margin) in &self.margin {
            match metric {
                None => (question.margin, question.tail_margin) = (*margin, *margin),
                Some(metric) => question.margins.push((metric.clone(), *margin)),
            }
        }
        question.metrics = self.named_metrics().cloned().collect();
        question.explaining = self.all_metrics() || explaining;
        question.mixed = self.mixed;
        question
    }

    /// As a plan keeps it.
    pub fn judged(&self) -> Judged {
        Judged {
            metrics: self.named_metrics().cloned().collect(),
            margins: self.margin.clone(),
            all_metrics: self.all_metrics(),
            mixed: self.mixed,
        }
    }

    /// The given options, or without any those that a plan was begun with.
    pub fn or(&self, begun: &Judged) -> Judging {
        if !self.judged().is_default() {
            return self.clone();
        }
        // A stored plan may come from outside.
        let is_margin = |(_, share): &&(Option<String>, f64)| *share > 0.0 && *share <= 1.0;
        let all = begun.all_metrics.then(|| ALL_METRICS.to_string());
        Judging {
            margin: begun.margins.iter().filter(is_margin).cloned().collect(),
            metric: begun.metrics.iter().cloned().chain(all).collect(),
            mixed: begun.mixed,
        }
    }

    /// As this one, judging these metrics.
    pub fn of_metrics(&self, metric: Vec<String>) -> Judging {
        Judging { metric, ..self.clone() }
    }

    /// The patterns of metrics, each with its option.
    pub fn patterns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let margins = self.margin.iter().filter_map(|(metric, _)| metric.as_deref());
        let metrics = self.named_metrics().map(|metric| ("--metric", metric.as_str()));
        metrics.chain(margins.map(|metric| ("--margin", metric)))
    }

    /// As they stand on a command line, with a space before each.
    pub fn words(&self) -> String {
        self.options().iter().map(|word| format!(" {}", quoted(word))).collect()
    }

    /// The words of a command line.
    pub fn options(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (metric, margin) in &self.margin {
            let metric = metric.as_ref().map_or(String::new(), |metric| format!("{metric}="));
            let percent = format!("{}", (margin * 100.0 * MARGIN_PARTS).round() / MARGIN_PARTS);
            words.extend(["--margin".to_string(), format!("{metric}{percent}%")]);
        }
        for metric in &self.metric {
            words.extend(["--metric".to_string(), metric.clone()]);
        }
        words.extend(self.mixed.then(|| "--mixed".to_string()));
        words
    }
}

/// `2%` or `throughput=2%`: from 0.001 % to 100 %.
fn parse_margin(text: &str) -> Result<(Option<String>, f64), Problem> {
    let shown = clean(text);
    if text.contains("%,") {
        let repeated: Vec<String> =
            text.split(',').map(|part| format!("--margin {}", clean(part))).collect();
        let repeated = repeated.join(" ");
        let hint = format!("repeat the option: {repeated}");
        return Err(Problem::new(format!("`{shown}` is several margins"), hint));
    }
    let (metric, number) = match text.rsplit_once('=') {
        Some((metric, number)) => (Some(metric.to_string()), number),
        None => (None, text),
    };
    let wrong = || Problem::new(format!("`{shown}` is not a margin"), "2% or throughput=1%");
    let percent: f64 =
        number.strip_suffix('%').ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
    if !(percent > 0.0 && percent <= 100.0) || metric.as_deref() == Some("") {
        return Err(wrong());
    }
    if percent < MIN_MARGIN_PERCENT {
        let text = format!("`{shown}` is below the least margin, {MIN_MARGIN_PERCENT}%");
        return Err(text.into());
    }
    Ok((metric, (percent * MARGIN_PARTS).round() / MARGIN_PARTS / 100.0))
}

/// The variants of one plan.
pub fn variants(head: &PlanHead) -> Vec<Selection> {
    head.variants.iter().map(|variant| Selection::of_variant(&head.id, variant)).collect()
}

/// The variants that `side` takes of one plan. One alone has the plan's first one before it.
fn taken(side: &Selection, head: &PlanHead) -> Vec<Selection> {
    let is_taken = |name: &String| side.takes_variant(name);
    let is_alone = head.variants.iter().filter(|name| is_taken(name)).count() == 1;
    let named = head.variants.iter().enumerate();
    let shown = named.filter(|(at, name)| is_taken(name) || (*at == 0 && is_alone));
    shown.map(|(_, name)| Selection::of_variant(&head.id, name)).collect()
}

/// How an analysis is written.
#[derive(Args, Clone, Default)]
pub struct Output {
    /// In place of the plan's own format, or else text: `schedlab list formats`; -o says it, too
    #[arg(long, value_name = "NAME", value_parser = parse_format)]
    format: Option<&'static Format>,
    /// More detail; twice for all there is
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Write the report to this file, in the format that its ending says: page.html, report.md, chart.png
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    pub fn columns(&self) -> usize {
        terminal::width()
    }

    /// By its name, else by the ending of the file's name.
    fn asked(&self) -> Option<&'static Format> {
        self.format.or_else(|| {
            let ending = self.ending()?;
            report::formats().iter().copied().find(|format| ending_of(format.name) == ending)
        })
    }

    /// The ending of the file's name, in small letters.
    fn ending(&self) -> Option<String> {
        Some(self.file()?.extension()?.to_string_lossy().to_lowercase())
    }

    /// Fails where the ending of the file's name has to say the format, and says none.
    fn check_ending(&self) -> Result<(), Failure> {
        let Some(ending) = self.ending().filter(|_| self.asked().is_none()) else { return Ok(()) };
        let known: Vec<&str> =
            report::formats().iter().map(|format| ending_of(format.name)).collect();
        let text = format!("no format has the ending `{}`", clean(&ending));
        let hint = format!("one of {}, or say it: --format text", known.join(", "));
        Err(Failure::usage(text, hint))
    }

    /// The usual report, where what goes to the file is a page or a picture.
    pub fn usual_report(&self, plans: &[SampledPlan]) -> Option<Output> {
        let is_drawn = self.file().is_some() && self.format_for(plans).draws();
        let format = Some(report::formats()[0]);
        is_drawn.then(|| Output { format, output: None, ..self.clone() })
    }

    /// Whether the report of these plans shows every metric.
    pub fn explains(&self, judging: &Judging, plans: &[SampledPlan]) -> bool {
        (self.format_for(plans).explains)(&self.options(judging))
    }

    /// The one that the user asks for, else the one that all of the plans ask for.
    fn format_for(&self, plans: &[SampledPlan]) -> &'static Format {
        let mut asked = plans.iter().map(|plan| plan.plan.report_format.as_deref());
        let first = asked.next().flatten();
        let agreed = first.filter(|first| asked.all(|other| other == Some(first)));
        // A plan may be stored by a later version that has more formats.
        let format = self.asked().or_else(|| agreed.and_then(report::find));
        format.unwrap_or(report::formats()[0])
    }

    /// `None`: standard output, also as `-`.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Says where the report is, unless it is on standard output.
    pub fn say_file(&self, is_wanted: bool) {
        if let Some(path) = self.file().filter(|_| is_wanted) {
            terminal::message(&format!("the report is in {}", clean(&path.display().to_string())));
        }
    }

    /// Fails where the file cannot be written or is one of `others`, before anything is measured.
    pub fn check_file<'p>(
        &self,
        others: impl IntoIterator<Item = &'p Path>,
    ) -> Result<(), Failure> {
        self.check_ending()?;
        let Some(path) = self.file() else { return Ok(()) };
        let meant = |path: &Path| replace::meant(path).ok().flatten();
        let own = meant(path);
        let is_it = |other: &&Path| own.is_some() && meant(other) == own;
        if let Some(other) = others.into_iter().find(is_it) {
            let shown = other.display().to_string();
            let text = format!("`{}` is needed, and would be written over", clean(&shown));
            return Err(Failure::usage(text, "name another file for what is written"));
        }
        // Who reads a pipe waits for the report.
        if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Ok(());
        }
        NewFile::begin(path).map(drop).map_err(|error| unwritten(path, &error))
    }

    /// Judged metrics are shown too.
    fn options(&self, judging: &Judging) -> Options {
        let color = self.file().is_none() && terminal::color(&io::stdout());
        let verbose = self.verbose.max(u8::from(judging.all_metrics()));
        Options { width: terminal::width(), color, verbose }
    }

    pub fn format_name(&self) -> &'static str {
        self.asked().unwrap_or(report::formats()[0]).name
    }

    /// Writes to the file, or to standard output.
    pub fn write_by(
        &self,
        judging: &Judging,
        render: impl FnOnce(&Options, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.check_ending()?;
        let options = self.options(judging);
        let Some(path) = self.file() else {
            let mut out = BufWriter::new(io::stdout().lock());
            render(&options, &mut out)?;
            return Ok(out.flush()?);
        };
        replace::replace(path, |out| render(&options, out)).map_err(|error| unwritten(path, &error))
    }

    /// Writes the analyses of these plans, with what charts are drawn from where the format has charts.
    pub fn write(
        &self,
        judging: &Judging,
        store: &Store,
        analyses: &mut [Analysis],
        plans: &[SampledPlan],
    ) -> Result<(), Failure> {
        let format = self.format_for(plans);
        if format.is_binary() && self.file().is_none() && io::stdout().is_terminal() {
            let hint = format!("write it to a file: -o chart.{}", format.name);
            return Err(Failure::usage("an image is nothing for a terminal", hint));
        }
        if format.draws() {
            for analysis in analyses.iter_mut() {
                analysis.pictures = pictures(store, analysis)?;
            }
        }
        self.write_by(judging, |options, out| format.render(analyses, options, out))
    }

    /// The words that make a command read the same store and write the same format; a terminal gets text in
    /// place of what went to a file.
    pub fn words(&self, db: &Database) -> String {
        let format = self.format.filter(|_| self.file().is_none()).map(|format| format.name);
        let format = format.filter(|format| *format != report::formats()[0].name);
        let format = format.map(|format| format!(" --format {}", quoted(format)));
        format!("{}{}", format.unwrap_or_default(), db.words())
    }
}

/// How the name of a file of this format ends.
fn ending_of(format: &str) -> &str {
    match format {
        "markdown" => "md",
        "text" => "txt",
        "junit" => "xml",
        name => name,
    }
}

/// A file that cannot be written.
pub fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot write {}: {error}", clean(&path.display().to_string()));
    Failure::here(text, remedy::write(path, error))
}

/// The command that compares the same sides again, however many plans are stored by then.
/// `against`: the first side is what the others are compared with by `--against`.
pub fn command(sides: &[Selection], against: bool, heads: &[PlanHead]) -> String {
    let whole = heads.iter().find(|head| variants(head) == sides);
    let mut words: Vec<String> = match whole {
        Some(head) => vec![format!("plan={}", head.id)],
        None => sides.iter().map(|side| side.words(heads)).collect(),
    };
    if against {
        let baseline = words.remove(0);
        words.extend(["--against".to_string(), baseline]);
    }
    let words = words.iter().map(|word| format!(" {}", quoted(word)));
    format!("schedlab compare{}", words.collect::<String>())
}

/// The sides and plans of a comparison.
pub struct Asked {
    pub sides: Vec<Selection>,
    /// See [`command`].
    pub command: String,
    /// The plans of all sides, oldest first.
    pub plans: Vec<SampledPlan>,
    /// Why further plans were refused.
    pub refused: Vec<Note>,
}

/// The error where one side is all that is named, with the command that compares what it has.
pub fn one_side(side: &Selection, heads: &[PlanHead], db: &Database) -> Failure {
    let is_own = |head: &&PlanHead| side.plans.contains(&head.id);
    let own: Vec<&PlanHead> = heads.iter().filter(is_own).collect();
    let label = clean(&side.label);
    let [plan] = own.as_slice() else {
        let newest = own.iter().take(MAX_SIDES).rev();
        let sides: Vec<Selection> =
            newest.map(|head| side.with_plans(vec![head.id.clone()])).collect();
        let which = if own.len() > MAX_SIDES { "the newest of its plans" } else { "its plans" };
        let command = command(&sides, false, heads) + &db.words();
        let text = format!("`{label}` is one side, of {} plans: nothing to compare", own.len());
        return Failure::usage(text, format!("{which} against each other: {command}"));
    };
    let id = quoted(&format!("plan={}", plan.id));
    let (hint, command) = match (plan.variants.len() > 1, heads.len() > 1) {
        (true, _) => ("all variants of that plan", format!("compare {id}")),
        (false, true) => ("with another plan", format!("compare {id} --against last")),
        (false, false) => ("measure it again, then compare both", format!("run {id}")),
    };
    let (of, command) = (clean(&plan.id), db.command(&command));
    let text = format!("`{label}` of {of} is one side alone: nothing to compare");
    Failure::usage(text, format!("{hint}: {command}"))
}

/// Refuses a side that stands twice.
pub fn each_once(sides: &[Selection], db: &Database) -> Result<(), Failure> {
    match (1..sides.len()).find(|&at| sides[..at].contains(&sides[at])) {
        None => Ok(()),
        Some(twice) => {
            let label = clean(&sides[twice].label);
            Err(Failure::usage(format!("`{label}` stands twice"), db.command("list runs")))
        }
    }
}

/// The plans of all sides, oldest first.
pub fn sampled(store: &Store, sides: &[Selection]) -> Result<Vec<SampledPlan>, Failure> {
    let mut ids: Vec<&String> = sides.iter().flat_map(|side| &side.plans).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut plans: Vec<SampledPlan> =
        ids.into_iter().map(|id| store.sampled(id)).collect::<Result<_, _>>()?;
    plans.sort_by_key(|plan| plan.started_unix_ns);
    Ok(plans)
}

/// Whether the metrics that are named are there in these plans.
pub fn check_named(
    judging: &Judging,
    plans: &[SampledPlan],
    sides: &[Selection],
) -> Result<(), Failure> {
    let by_variant = !sides.iter().any(Selection::names_variants);
    named::check(judging.patterns(), || {
        plans.iter().flat_map(|plan| {
            named::places(&plan.cells, &plan.plan.probes, &plan.metrics, by_variant)
        })
    })
}

/// The analysis that `question` asks for; `plans` are those of its sides.
pub fn analyse(
    store: &Store,
    plans: &[SampledPlan],
    question: Question,
) -> Result<Analysis, Failure> {
    if let Some((runs, sides)) = analysis::overlap(plans, &question.sides) {
        let [first, other] = sides.map(|side| clean(&question.sides[side].label));
        let text = format!(
            "`{first}` and `{other}` have {runs} runs in common, which cannot be compared with \
             themselves"
        );
        let command = format!("schedlab compare last --against last:10{}", question.store);
        return Err(Failure::usage(text, command));
    }
    // The resolution of one machine says nothing about the mean of many.
    let floors = match question.ratios_alone || question.over_hosts {
        true => Vec::new(),
        false => floors(store, &store.plan_heads()?, plans)?,
    };
    let without_effect = without_effect(plans, &question.sides);
    Ok(analysis::analyse(plans, &floors, &Question { without_effect, ..question }))
}

/// The knobs that cannot make a difference in the cells of these sides, each once.
fn without_effect(plans: &[SampledPlan], sides: &[Selection]) -> Vec<WithoutEffect> {
    let mut all = Vec::new();
    for side in sides {
        let plans = plans.iter().filter(|plan| side.plans.contains(&plan.id));
        let cells = plans.flat_map(|plan| plan.cells.iter().map(move |cell| (plan, cell)));
        let cells = cells.filter(|(plan, cell)| {
            side.takes_variant(&cell.variant.name) && !plan.plan.is_solo_run(&cell.work)
        });
        for (_, cell) in cells {
            let Some(found) = variant::without_effect(cell) else { continue };
            let (side, knob) = (side.label.clone(), found.knob.to_string());
            let scheduler = match found.why {
                variant::WithoutEffect::Scheduler => cell.variant.scx().map(str::to_string),
                _ => None,
            };
            let found = WithoutEffect { side, knob, work: cell.work.label(), scheduler };
            if !all.contains(&found) {
                all.push(found);
            }
        }
    }
    all
}

/// The command that gives the analysis of a plan of so many variants again: one alone has nothing to be
/// compared with.
pub fn again(id: &str, variants: usize) -> String {
    match variants {
        1 => format!("schedlab report {id}"),
        _ => format!("schedlab compare plan={id}"),
    }
}

/// The variants of one plan that `side` takes, one alone with its baseline, and the plan.
pub fn analyse_plan(
    store: &Store,
    (side, head): (&Selection, &PlanHead),
    judging: &Judging,
    output: &Output,
    db: &Database,
) -> Result<(Analysis, Vec<SampledPlan>), Failure> {
    let sides = taken(side, head);
    let plans = sampled(store, &sides)?;
    check_named(judging, &plans, &sides)?;
    let command = match sides.len() == head.variants.len() {
        true => again(&head.id, sides.len()),
        false => command(&sides, false, std::slice::from_ref(head)),
    };
    let command = command + &judging.words() + &output.words(db);
    let explaining = output.explains(judging, &plans);
    let question = judging.question(sides, command, explaining, db);
    Ok((analyse(store, &plans, question)?, plans))
}

/// The newest A/A plans whose floors may hold for these plans, oldest first.
pub fn floors(
    store: &Store,
    heads: &[PlanHead],
    plans: &[SampledPlan],
) -> Result<Vec<SampledPlan>, Failure> {
    let heads = analysis::with_floors(heads, plans).into_iter().take(MAX_FLOORS);
    let mut floors: Vec<SampledPlan> =
        heads.map(|head| store.sampled(&head.id)).collect::<Result<_, _>>()?;
    floors.reverse();
    Ok(floors)
}

fn parse_format(name: &str) -> Result<&'static Format, UnknownName> {
    let names = || report::formats().iter().map(|format| format.name);
    report::find(name).ok_or_else(|| UnknownName::new("format", name, names(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EnvironmentHead, Reading, RunCounts};

    #[test]
    fn margins_are_percents_of_all_or_of_one_metric() {
        assert_eq!(parse_margin("2%"), Ok((None, 0.02)));
        assert_eq!(parse_margin("a/b=0.5 %"), Ok((Some("a/b".to_string()), 0.005)));
        assert_eq!(parse_margin("0.001%"), Ok((None, 0.00001)));
        assert_eq!(parse_margin("1.23456789%"), Ok((None, 0.012346)));
        for wrong in ["2", "%", "0%", "-1%", "101%", "nan%", "=2%", "x=y", "", "1e-300%", "0.0009%"]
        {
            assert!(parse_margin(wrong).is_err(), "{wrong}");
        }
        let text = parse_margin("a/b=1%,fairness=2%").unwrap_err().to_string();
        assert!(
            text.ends_with("repeat the option: --margin a/b=1% --margin fairness=2%"),
            "{text}"
        );
    }

    #[test]
    fn margins_are_written_back_as_they_hold() {
        for text in ["2%", "0.001%", "throughput=0.0015%", "7%", "100%", "1.2346%"] {
            let margin = vec![parse_margin(text).unwrap()];
            let words = Judging { margin, metric: Vec::new(), mixed: false }.words();
            assert_eq!(words, format!(" --margin {text}"));
        }
    }

    fn output(format: Option<&'static str>, file: &str) -> Output {
        let format = format.and_then(report::find);
        Output { format, verbose: 0, output: Some(PathBuf::from(file)) }
    }

    #[test]
    fn the_ending_of_a_file_says_its_format_in_any_case_or_is_refused() {
        for (file, expected) in [
            ("page.HTML", "html"),
            ("a.b/report.Md", "markdown"),
            ("results.xml", "junit"),
            ("x.txt", "text"),
            ("report", "text"),
            ("-", "text"),
        ] {
            let own = output(None, file);
            assert_eq!(own.format_name(), expected, "{file}");
            assert!(own.check_ending().is_ok(), "{file}");
        }
        for wrong in ["x.pdf", "x.foo", "x.jsonl", "x.HTM"] {
            let said = output(None, wrong).check_ending().unwrap_err().to_string();
            assert!(said.contains("md, html") && said.contains("--format text"), "{said}");
            assert!(output(Some("text"), wrong).check_ending().is_ok());
        }
    }

    #[test]
    fn a_command_again_puts_no_page_on_a_terminal() {
        let db = Database::default();
        for (format, file, expected) in [
            (None, "host.html", ""),
            (Some("html"), "host.html", ""),
            (Some("html"), "-", " --format html"),
            (Some("text"), "-", ""),
        ] {
            assert_eq!(output(format, file).words(&db), expected, "{format:?} {file}");
        }
    }

    fn head(id: &str, second: u64, variants: &[&str]) -> PlanHead {
        PlanHead {
            id: id.to_string(),
            title: String::new(),
            backend: "local".to_string(),
            started_unix_ns: second * 1_000_000_000,
            ended: None,
            environments: vec![EnvironmentHead {
                hostname: "big".to_string(),
                kernel_release: "6.1.7".to_string(),
                boot_id: Reading::Unknown("invented".to_string()),
            }],
            variants: variants.iter().map(|name| name.to_string()).collect(),
            aa: false,
            sharding: None,
            runs: RunCounts { done: 1, ..RunCounts::default() },
            booted: Vec::new(),
            tags: Vec::new(),
        }
    }

    #[test]
    fn a_report_of_variants_has_these_and_one_alone_its_baseline() {
        let heads = [head("p", 1, &["default", "batch", "idle"])];
        for (text, expected) in [
            ("p", &["default", "batch", "idle"][..]),
            ("variant=idle", &["default", "idle"]),
            ("variant=*a*", &["default", "batch"]),
            ("variant=b*,all", &["default", "batch"]),
        ] {
            let side = selected(&[text], &heads).remove(0);
            let labels: Vec<String> =
                taken(&side, &heads[0]).into_iter().map(|side| side.label).collect();
            assert_eq!(labels, expected, "{text}");
        }
    }

    /// Newest first.
    fn heads() -> [PlanHead; 3] {
        [
            head("p3", 3, &["default", "batch", "x,y"]),
            head("p2", 2, &["default"]),
            head("p1", 1, &["default"]),
        ]
    }

    fn selected(words: &[&str], heads: &[PlanHead]) -> Vec<Selection> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        analysis::select(&words, heads, 3_600_000_000_000).unwrap()
    }

    /// The suggested command has the ids of the selected plans.
    #[test]
    fn one_side_alone_has_the_command_that_compares_what_it_has() {
        let heads = heads();
        for (word, count, expected) in [
            ("last:2", 3, "its plans against each other: schedlab compare plan=p2 plan=p3"),
            (
                "variant=default,since=1970-01-01",
                3,
                "schedlab compare plan=p1,variant=default plan=p2,variant=default \
                 plan=p3,variant=default",
            ),
            ("variant=batch", 3, "all variants of that plan: schedlab compare plan=p3"),
            ("p2", 3, "with another plan: schedlab compare plan=p2 --against last"),
            ("default", 1, "measure it again, then compare both: schedlab run plan=p1"),
        ] {
            let heads = &heads[3 - count..];
            let side = selected(&[word], heads).remove(0);
            let said = one_side(&side, heads, &Database::default()).to_string();
            let hint = said.split_once("hint: ").map(|(_, hint)| hint.to_string());
            assert!(hint.is_some_and(|hint| hint.ends_with(expected)), "{word}: {said}");
        }
        let many: Vec<PlanHead> =
            (1..=9).rev().map(|at| head(&format!("p{at}"), at, &["default"])).collect();
        let said = one_side(&selected(&["all"], &many)[0], &many, &Database::default());
        let newest = "the newest of its plans against each other: schedlab compare plan=p6 plan=p7 \
                      plan=p8 plan=p9";
        assert!(said.to_string().ends_with(newest), "{said}");
    }

    #[test]
    fn the_command_names_what_it_was_about_when_it_ran() {
        let heads = heads();
        let select = |words: &[&str]| selected(words, &heads);
        let cases: &[(Vec<Selection>, bool, &str)] = &[
            (variants(&heads[0]), false, "plan=p3"),
            (select(&["default", "batch"]), false, "plan=p3,variant=default plan=p3,variant=batch"),
            (select(&["p1", "last"]), false, "plan=p1 plan=p3"),
            (select(&["last", "p1"]), true, "plan=p1 --against plan=p3"),
            (
                select(&["last:2", "6.1.*"]),
                false,
                "last:2,until=1970-01-01T00:00:03.000000001 \
                 '6.1.*,until=1970-01-01T00:00:03.000000001'",
            ),
            (
                select(&["all,until=1970-01-02", "last,6.1.7"]),
                false,
                "all,until=1970-01-02 plan=p3,kernel=6.1.7",
            ),
        ];
        for (sides, against, expected) in cases {
            assert_eq!(command(sides, *against, &heads), format!("schedlab compare {expected}"));
        }
        let again = select(&["last:2,until=1970-01-01T00:00:03.000000001"]);
        assert_eq!(again[0].plans, select(&["last:2"])[0].plans);
    }
}
