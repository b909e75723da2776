//! Parts of mails: ASCII, a head that describes the measurement, and tables whose columns stand in
//! as many blocks as fit. Pure.

use crate::analysis::{Analysis, Pairing, PlanFacts, SetTable, WorkTable};
use crate::model::{Environment, show_duration};
use crate::report::layout::{Page, Tone, clean, replaced};
use crate::report::numbers::counted;
use crate::report::phrases;

pub const COLUMNS: usize = 78;
const RULE: usize = 66;
const GAP: usize = 4;
/// Behind the numbers of a row.
const STAR: &str = " *";
/// Plans that the head of a mail describes.
const MAX_PLANS: usize = 3;

/// Clean, and ASCII: what is not shows as its Rust escape.
pub fn ascii(text: &str) -> String {
    replaced(&clean(text), |c| (!c.is_ascii()).then(|| c.escape_default().to_string()))
}

/// As [`ascii`], one word of a table's row.
pub fn word(text: &str) -> String {
    ascii(text).replace(' ', "_")
}

/// `threads=4,footprint=256KiB`; without axes the work's name.
pub fn case(work: &WorkTable) -> String {
    let points = work.axes.iter().map(|(axis, point)| format!("{}={}", word(axis), word(point)));
    let points: Vec<String> = points.collect();
    if points.is_empty() { word(&work.name) } else { points.join(",") }
}

/// `web`, and of which set where that is not the same word.
pub fn test_of(work: &WorkTable, set: &SetTable) -> String {
    let (work, set, workload) = (ascii(&work.name), ascii(&set.name), ascii(&set.workload));
    let mut said = vec![work.clone()];
    said.extend((set != work).then(|| format!("set {set}")));
    let own = workload != set && workload != work;
    said.extend(own.then_some(workload));
    said.join(", ")
}

/// The title, the rounds, the time and the processors of each plan.
pub fn plans(analysis: &Analysis, page: &mut Page) {
    for plan in analysis.plans.iter().take(MAX_PLANS) {
        let title = phrases::joined([plan.title.clone(), format!("({})", plan.id)], " ");
        let measure = &plan.measure;
        let warmup = show_duration(measure.warmup_ns);
        let [first, last] = [plan.durations_ns.first(), plan.durations_ns.last()];
        let [first, last] =
            [first, last].map(|ns| show_duration(*ns.unwrap_or(&measure.duration_ns)));
        let each = if first == last { first } else { format!("{first} to {last}") };
        let measured = phrases::plan(analysis, plan);
        let measured = format!("{measured}; each run {each} after {warmup} of warm-up");
        page.wrapped(Tone::Plain, "Plan          : ", &ascii(&title));
        page.wrapped(Tone::Plain, "Measured      : ", &ascii(&measured));
        page.wrapped(Tone::Plain, "CPUs          : ", &ascii(&processors(plan)));
        page.gap();
    }
    if let more @ 1.. = analysis.plans.len().saturating_sub(MAX_PLANS) {
        page.line(
            Tone::Plain,
            &format!("And {}; their ids stand below.", counted(more, "further plan")),
        );
        page.gap();
    }
}

/// `8, AMD EPYC 7543`, each machine of a plan once.
fn processors(plan: &PlanFacts) -> String {
    let processor = |of: &Environment| {
        let count = match of.topology.usable().len() {
            0 => "unknown".to_string(),
            count => count.to_string(),
        };
        let model = of.cpu_model.clone().known();
        format!("{count}, {}", model.as_deref().unwrap_or("processor unknown"))
    };
    let mut processors: Vec<String> = plan.environments.iter().map(processor).collect();
    processors.dedup();
    processors.join("; ")
}

pub fn two_decimals(value: f64) -> String {
    if value.abs() < 1e6 { format!("{value:.2}") } else { format!("{value:.1e}") }
}

pub struct Table {
    pub test: String,
    pub units: String,
    pub interpretation: &'static str,
    /// Above the cases, and behind the name of each side.
    pub heads: [&'static str; 2],
    /// The subject of each row.
    pub cases: Vec<String>,
    /// The cells of each side, one for each case, and whether a row that shows it has a star.
    pub cells: Vec<Vec<(String, bool)>>,
}

impl Table {
    /// With the gap before it.
    fn width(&self, side: usize, name: &str) -> usize {
        let cells = self.cells[side].iter().map(|(cell, _)| cell.len());
        GAP + cells.fold(name.len() + self.heads[1].len(), usize::max)
    }

    fn widths(&self, names: &[String]) -> Vec<usize> {
        names.iter().enumerate().map(|(side, name)| self.width(side, name)).collect()
    }

    /// For cases, next to the baseline and any one other side.
    fn room(&self, widths: &[usize]) -> usize {
        let others = widths.iter().skip(1).max().unwrap_or(&0);
        COLUMNS.saturating_sub(widths[0] + others + STAR.len())
    }

    /// The width of the first column. A case that has no room stands above its row.
    fn first(&self, room: usize) -> usize {
        let cases = self.cases.iter().map(String::len);
        cases.filter(|width| *width <= room).fold(self.heads[0].len(), usize::max)
    }

    /// Whether as many cases have room as where the sides have the `shortest` names.
    pub fn has_room(&self, names: &[String], shortest: &[String]) -> bool {
        let most = self.room(&self.widths(shortest));
        self.first(most) <= self.room(&self.widths(names))
    }

    pub fn show(&self, analysis: &Analysis, names: &[String], page: &mut Page) {
        self.head(analysis, page);
        let widths = self.widths(names);
        let first = self.first(self.room(&widths));
        let room = COLUMNS.saturating_sub(first + STAR.len());
        let used = |block: &[usize]| block.iter().map(|side| widths[*side]).sum::<usize>();
        // The baseline with as many others as fit next to it, at least one, and so on.
        let mut blocks = vec![vec![0]];
        for (side, width) in widths.iter().enumerate().skip(1) {
            match blocks.last_mut() {
                Some(block) if block.len() == 1 || used(block) + width <= room => {
                    block.push(side);
                }
                _ => blocks.push(vec![0, side]),
            }
        }
        for sides in blocks {
            let columns: Vec<(usize, usize)> =
                sides.iter().map(|side| (*side, widths[*side])).collect();
            self.block(&columns, names, first, page);
            page.gap();
        }
    }

    /// `columns`: the sides, and how wide each is.
    fn block(&self, columns: &[(usize, usize)], names: &[String], first: usize, page: &mut Page) {
        let head = |(side, width): &(usize, usize)| {
            format!("{:>width$}", format!("{}{}", names[*side], self.heads[1]))
        };
        let heads: String = columns.iter().map(head).collect();
        page.line(Tone::Plain, &format!("{:first$}{heads}", self.heads[0]));
        for (at, case) in self.cases.iter().enumerate() {
            let mut case = case.as_str();
            if case.len() > first {
                page.wrapped(Tone::Plain, "", case);
                case = "";
            }
            let cell =
                |(side, width): &(usize, usize)| format!("{:>width$}", self.cells[*side][at].0);
            let cells: String = columns.iter().map(cell).collect();
            let is_starred = columns.iter().any(|(side, _)| self.cells[*side][at].1);
            let star = if is_starred { STAR } else { "" };
            page.line(Tone::Plain, &format!("{case:>first$}{cells}{star}"));
        }
    }

    /// As a table may be mailed alone, it has all of it.
    fn head(&self, analysis: &Analysis, page: &mut Page) {
        // The normalised numbers are the estimate that the verdicts rest on.
        let statistic = match analysis.method.pairing {
            Pairing::WithinRounds => "GMean of the ratios within rounds",
            Pairing::OverHosts => "GMean of the hosts' ratios",
            Pairing::None => "Ratio of the GMeans",
        };
        let rule = "=".repeat(RULE);
        page.line(Tone::Plain, &rule);
        page.wrapped(Tone::Plain, "Test          : ", &self.test);
        page.wrapped(Tone::Plain, "Units         : ", &format!("Normalized {}", self.units));
        page.wrapped(Tone::Plain, "Interpretation: ", self.interpretation);
        page.wrapped(Tone::Plain, "Statistic     : ", statistic);
        if let Some(time) = phrases::analysis_time(analysis) {
            page.wrapped(Tone::Plain, "Time          : ", &ascii(&time));
        }
        page.line(Tone::Plain, &rule);
    }
}
