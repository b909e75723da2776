//! `schedlab try`: what a patch does to a scheduler, as a text for a mail. Pure.

use std::io::{self, Write};

use crate::analysis::{Analysis, Family, Place};
use crate::stats::Verdict;

use super::Options;
use super::answer::{self, Changed, View};
use super::layout::{Page, Tone, clean};
use super::numbers::counted;
use super::phrases::{self, Tally};
use super::text;

/// Columns of a mail.
const MAX_COLUMNS: usize = 76;
const LABEL_COLUMNS: usize = 10;
/// Metrics that the line about the trade-off names of each kind.
const NAMED: usize = 2;

/// A patch that was tried.
pub struct Trial {
    /// The patch and its base.
    pub title: String,
    /// How kernels were made that differ in more than the patch, a sentence each.
    pub notes: Vec<String>,
    pub kernels: Vec<TriedKernel>,
    /// The control, as the subject of a sentence.
    pub control: String,
    /// The command that gives the same bits anywhere.
    pub command: String,
    /// The patched kernel against the base.
    pub patched: Analysis,
    /// The control against the base.
    pub control_analysis: Analysis,
}

pub struct TriedKernel {
    /// The variant's name.
    pub name: &'static str,
    /// Sources, patches and configuration.
    pub about: String,
}

/// The side that is not the baseline.
const OTHER: usize = 1;

pub fn write(trial: &Trial, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let analysis = &trial.patched;
    let width = options.width.min(MAX_COLUMNS);
    let mut page = Page::new(&Options { width, ..*options });
    page.wrapped(Tone::Bold, "", &clean(&trial.title));
    if let Some(plan) = analysis.plan() {
        page.wrapped(
            Tone::Plain,
            "",
            &format!("{}: {}", clean(&plan.title), phrases::plan(analysis, plan)),
        );
    }
    page.gap();
    if is_identical(analysis) {
        labelled(&mut page, Tone::Bold, "patched", IDENTICAL)
    } else {
        verdicts(analysis, options, &mut page)
    }
    let (tone, control) = control(trial);
    labelled(&mut page, tone, "control", &control);
    page.gap();
    for note in &trial.notes {
        labelled(&mut page, Tone::Warning, "note", &clean(note));
    }
    for (kernel, booted) in trial.kernels.iter().map(|kernel| (kernel, booted(trial, kernel))) {
        let text = format!("{}{booted}", clean(&kernel.about));
        labelled(&mut page, Tone::Plain, kernel.name, &text);
    }
    labelled(&mut page, Tone::Plain, "machine", &machine(analysis));
    page.command("again", LABEL_COLUMNS + 2, &clean(&trial.command));
    out.write_all(page.text().as_bytes())
}

/// Runs of the lab are exact: kernels that do the same give the same values, and any verdict on these
/// would be one on the number of seeds.
const IDENTICAL: &str = "every value is the base's, to the last bit";

fn is_identical(analysis: &Analysis) -> bool {
    let mut rows = analysis.rows_of(Family::Headline).peekable();
    let is_same = |(.., row): Place| {
        row.cells.first().map(|cell| &cell.values) == row.cells.get(OTHER).map(|cell| &cell.values)
    };
    rows.peek().is_some() && rows.all(is_same)
}

/// The table, and what it says in words.
fn verdicts(analysis: &Analysis, options: &Options, page: &mut Page) {
    let names = phrases::names(&analysis.sides, LABEL_COLUMNS, clean, "~");
    let view = View { analysis, names: &names };
    text::body(view, options, page);
    page.gap();
    for line in answer::verdicts(view) {
        labelled(page, line.tone, &line.label, &line.text);
    }
    if let Some(trade_off) = trade_off(analysis) {
        labelled(page, Tone::Plain, "trade-off", &trade_off);
    }
}

fn labelled(page: &mut Page, tone: Tone, label: &str, text: &str) {
    page.wrapped(tone, &format!("{label:LABEL_COLUMNS$}  "), text);
}

/// Sets BETTER against WORSE in a sentence; `None` if nothing was judged.
fn trade_off(analysis: &Analysis) -> Option<String> {
    let changes = answer::changed(analysis, OTHER);
    let of = |verdict: Verdict| -> Vec<String> {
        let of = changes.iter().filter(|changed| changed.verdict == verdict && !changed.is_neutral);
        of.map(describe_change).collect()
    };
    let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
    let tally = Tally::count(analysis.rows_of(Family::Headline), OTHER);
    let rest = format!("{} the same, {}", tally.same, tally.undecided());
    (tally.judged() > 0).then(|| match (better.is_empty(), worse.is_empty()) {
        (true, true) => format!("nothing is better or worse: {rest}"),
        (false, true) => format!("{}, and nothing is worse: {rest}", first(&better)),
        (true, false) => format!("{}, and nothing is better: {rest}", first(&worse)),
        (false, false) => format!("{}; for that {}", first(&better), first(&worse)),
    })
}

fn describe_change(changed: &Changed) -> String {
    let change = changed.change.as_ref().map(|change| change.change.clone());
    phrases::joined([Some(changed.metric.clone()), change].into_iter().flatten(), " ")
}

/// The largest, and how many more.
fn first(changes: &[String]) -> String {
    phrases::first_of(changes, NAMED)
}

/// Describes the control's verdicts and how serious they are.
fn control(trial: &Trial) -> (Tone, String) {
    let analysis = &trial.control_analysis;
    let tally = Tally::count(analysis.rows_of(Family::Headline), OTHER);
    let verdicts = tally.judged();
    let moved = answer::changed(analysis, OTHER);
    let subject = clean(&trial.control);
    if verdicts == 0 {
        return (Tone::Bad, format!("{subject}: not measured"));
    }
    if is_identical(analysis) {
        return (Tone::Plain, format!("{subject}: {IDENTICAL}"));
    }
    if moved.is_empty() {
        return (
            Tone::Plain,
            format!("{subject}: none of {} is BETTER or WORSE", counted(verdicts, "verdict")),
        );
    }
    let moved: Vec<String> = moved.iter().map(describe_change).collect();
    let text = format!(
        "{subject}: {} of {verdicts} differ: {}",
        moved.len(),
        phrases::first_of(&moved, 4)
    );
    (Tone::Bad, text)
}

/// `, digest d283ce476439, EEVDF`, of the guests.
fn booted(trial: &Trial, kernel: &TriedKernel) -> String {
    let sides = trial.patched.sides.iter().chain(&trial.control_analysis.sides);
    let side = sides.into_iter().find(|side| side.label == kernel.name);
    let kernels = side.map(|side| phrases::listed(&side.kernels));
    kernels.filter(|kernels| !kernels.is_empty()).map_or(String::new(), |text| format!(": {text}"))
}

/// The programs whose versions must be equal for the same bits.
fn machine(analysis: &Analysis) -> String {
    let emulator = analysis.plan().and_then(|plan| plan.environments.last());
    let emulator = emulator.and_then(|environment| environment.cpu_model.as_ref().known());
    let emulator = emulator.map_or("QEMU unknown".to_string(), |name| clean(name));
    format!("schedlab {}, {emulator}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{self, words};
    use crate::stats::{Rounds, Why};

    /// Works of one metric each, with the verdict on a side and its ratio.
    fn analysis(other: &str, works: Works) -> Analysis {
        let work = |(name, verdict, ratio): &(&str, Verdict, f64)| {
            (name.to_string(), vec![(*verdict, *ratio)])
        };
        testing::judged(&["base", other], &works.iter().map(work).collect::<Vec<_>>())
    }

    const BETTER: Verdict = Verdict::Better;
    const WORSE: Verdict = Verdict::Worse;
    const SAME: Verdict = Verdict::Same;

    type Works<'a> = &'a [(&'a str, Verdict, f64)];

    fn trial(patched: Works, control: Works) -> String {
        let kernel = |name| TriedKernel { name, about: format!("sources of {name}") };
        let trial = Trial {
            title: "fix.patch on 6.12\u{1b}[2J".to_string(),
            notes: vec!["the tick differs".to_string()],
            kernels: ["base", "patched"].map(kernel).into(),
            control: "the base again".to_string(),
            command: "schedlab try fix.patch".to_string(),
            patched: analysis("patched", patched),
            control_analysis: analysis("control", control),
        };
        let mut out = Vec::new();
        let options = Options { width: 200, ..Options::default() };
        write(&trial, &options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_better_stands_against_what_is_worse() {
        let cases: [(Works, &str); 4] = [
            (
                &[("a", BETTER, 1.1), ("b", BETTER, 2.0), ("c", BETTER, 1.2), ("d", WORSE, 0.5)],
                "b throughput +100 %, c throughput +20 % and 1 more; for that d throughput -50 %",
            ),
            (&[("a", BETTER, 1.1), ("b", SAME, 1.0)], "and nothing is worse: 1 the same, 0 open"),
            (&[("a", WORSE, 0.5), ("b", SAME, 1.0)], "and nothing is better: 1 the same, 0 open"),
            (&[("a", SAME, 1.001)], "nothing is better or worse: 1 the same, 0 open"),
        ];
        for (patched, said) in cases {
            let text = words(&trial(patched, &[("a", SAME, 1.001)]));
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    #[test]
    fn kernels_that_do_the_same_get_no_verdict() {
        let open = Verdict::Inconclusive { why: Why::Noise, rounds: Rounds::Number(10) };
        let text = words(&trial(&[("a", open, 1.0)], &[("a", SAME, 1.001)]));
        assert!(text.contains("patched every value is the base's, to the last bit"), "{text}");
        assert!(!text.contains("open") && !text.contains("trade-off"), "{text}");
    }

    #[test]
    fn a_control_that_differs_is_named() {
        let patched = [("a", BETTER, 1.1), ("b", SAME, 1.0)];
        let calm = words(&trial(&patched, &[("a", SAME, 1.001), ("b", SAME, 0.999)]));
        assert!(calm.contains("the base again: none of 2 verdicts is BETTER or WORSE"), "{calm}");
        let moved = words(&trial(&patched, &[("a", WORSE, 0.9), ("b", SAME, 0.999)]));
        assert!(moved.contains("the base again: 1 of 2 differ: a throughput -10 %"), "{moved}");
        let missing = words(&trial(&patched, &[]));
        assert!(missing.contains("the base again: not measured"), "{missing}");
    }

    #[test]
    fn it_fits_a_mail_and_holds_no_escape_sequence() {
        let text = trial(&[("a", BETTER, 1.1)], &[("a", SAME, 1.001)]);
        assert!(text.lines().all(|line| line.chars().count() <= MAX_COLUMNS), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        for part in ["note", "the tick differs", "sources of patched", "schedlab try fix.patch"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
