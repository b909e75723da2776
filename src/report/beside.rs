//! What stands beside numbers, in the words that the formats for people share: names that
//! fit, marks with their legend, skips and failures, how far a plan came. Pure.

use crate::model::{DisturbanceKind, Environment, Plan, PlanEnd, Record, Variant, show_duration};

use super::page::{Page, Tone};
use super::show::{self, clean, reason};
use super::summary::{Interference, MAX_TAKEN, Mark, Summary, Touched, WorkSummary};

/// The letters of a variant's marks are no wider.
pub const MARK_COLUMNS: usize = 8;

/// The variants' names as tables show them.
pub struct Names<'a> {
    variants: &'a [Variant],
    columns: usize,
}

impl<'a> Names<'a> {
    /// Names of at most `columns`, of which there are enough for the sign of a cut.
    pub fn new(plan: &'a Plan, columns: usize) -> Self {
        Names { variants: &plan.variants, columns }
    }

    /// Clean and short. What is cut ends in its number in the plan's list, so that two long
    /// names never look alike.
    pub fn short(&self, variant: &Variant) -> String {
        let name = clean(&variant.name);
        if !self.cuts(variant) {
            return name;
        }
        let place = self.variants.iter().position(|other| other.name == variant.name);
        let number = format!("#{}", place.map_or(0, |place| place + 1));
        let columns = self.columns.saturating_sub(number.len());
        format!("{}{number}", show::truncate(&name, columns))
    }

    /// Whether the name is too long to be shown in full.
    pub fn cuts(&self, variant: &Variant) -> bool {
        let name = clean(&variant.name);
        show::truncate(&name, self.columns) != name
    }
}

/// How many rounds are done, how long a run is, and why there are no more.
pub fn progress(record: &Record, summary: &Summary) -> String {
    let Summary { rounds_done, rounds_planned, .. } = summary;
    let measure = &record.started.plan.measure;
    let end = match record.ended {
        Some(PlanEnd::Complete) => "",
        Some(PlanEnd::Decided) => "; all was decided",
        Some(PlanEnd::Budget) => "; the budget left no time for more",
        Some(PlanEnd::Interrupted) => "; interrupted, go on with `schedlab run --resume`",
        None => "; has not ended: running, or killed",
    };
    format!(
        "{rounds_done} of {rounds_planned} done, each run {} after {} of warm-up{end}",
        show_duration(measure.duration_ns),
        show_duration(measure.warmup_ns),
    )
}

/// The version names the build and the preemption model.
pub fn kernel(environment: &Environment) -> String {
    let Environment { kernel_release, kernel_version, .. } = environment;
    clean(&format!("Linux {kernel_release} {kernel_version}"))
}

/// For the top of a report: whoever reads no further has read this.
pub fn warning(taker: &Interference) -> String {
    let who = match taker.kind {
        DisturbanceKind::Steal => "the hypervisor (steal time)",
        _ => "load from outside",
    };
    let Interference { worst_share, runs, measured, .. } = taker;
    format!(
        "warning: {who} took up to {:.0} % of the pool (more than {:.0} % in {runs} of {measured} \
         runs): these figures are of another experiment; see the marks below",
        100.0 * worst_share,
        100.0 * MAX_TAKEN,
    )
}

/// The legend of a work's marks.
pub fn marks(work: &WorkSummary, names: &Names, page: &mut Page) {
    let told = |mark: &Mark| {
        let worst = if mark.worst_of_several { "at worst: " } else { "" };
        format!("{worst}{}", clean(&mark.detail))
    };
    for (letter, mark) in lettered(&work.marks) {
        let text = format!("{}: {}", told(mark), extent(mark, names));
        page.wrapped(Tone::Warning, &format!("  {letter}  "), &text);
    }
    for mark in work.marks.iter().filter(|mark| mark.of_all_rows) {
        page.wrapped(Tone::Warning, "  every run: ", &told(mark));
    }
}

/// The marks that set rows apart, each with its letter.
fn lettered<'m, 'a>(marks: &'m [Mark<'a>]) -> impl Iterator<Item = (String, &'m Mark<'a>)> {
    let marks = marks.iter().filter(|mark| !mark.of_all_rows);
    marks.enumerate().map(|(at, mark)| (letter(at), mark))
}

/// Why variants of a work have no numbers, or fewer.
pub fn outcomes(work: &WorkSummary, names: &Names, page: &mut Page) {
    for skip in &work.skipped {
        let text = format!("{}: {}", names.short(skip.variant), reason(skip.reason));
        page.wrapped(Tone::Warning, "  skipped ", &text);
    }
    for failure in &work.failed {
        let name = names.short(failure.variant);
        let rounds = show::rounds(&failure.rounds);
        let text = format!("{name} in {rounds}: {}", reason(failure.reason));
        page.wrapped(Tone::Bad, "  failed  ", &text);
    }
}

/// Which runs a mark touches.
fn extent(mark: &Mark, names: &Names) -> String {
    if mark.every_run {
        return "every run".to_string();
    }
    let told = |Touched { variant, rounds, every_round }: &Touched| {
        let rounds = if *every_round { "every round".to_string() } else { show::rounds(rounds) };
        format!("{} in {rounds}", names.short(variant))
    };
    mark.touched.iter().map(told).collect::<Vec<_>>().join("; ")
}

/// The letters of all marks that touch a variant and not just all rows.
pub fn letters_of(variant: &Variant, marks: &[Mark]) -> String {
    let touching = lettered(marks).filter(|(_, mark)| {
        mark.touched.iter().any(|touched| touched.variant.name == variant.name)
    });
    touching.map(|(letter, _)| letter).collect::<Vec<_>>().join(",")
}

/// a to z, then aa, ab and so on.
pub fn letter(mut at: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'a' + (at % 26) as u8));
        if at < 26 {
            return letters.iter().rev().collect();
        }
        at = at / 26 - 1;
    }
}
