//! The effect of verdicts on the exit code: `--fail-on`.

use std::ffi::OsString;
use std::panic::{self, AssertUnwindSafe};

use clap::{Args, ValueEnum};

use crate::analysis::{Analysis, Cell, Difference, Family, Note, Row};
use crate::model::Direction;
use crate::report::{clean, note, place};
use crate::stats::{Unjudged, Verdict, Why};

use super::Failure;
use crate::session::Problem;

/// The most names of each kind in a message.
const MAX_NAMED: usize = 5;

#[derive(Args, Clone, Default)]
pub struct Gate {
    /// regression: exit with 1 where a metric is WORSE, with 3 where one could not be judged. bisect, for
    /// `git bisect run`: with 0 good, 1 bad (WORSE), 125 not decided or not measured
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    fail_on: Option<FailOn>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum FailOn {
    Regression,
    Bisect,
}

/// Whether the words of a command line ask for the exit codes of a bisection, or did before.
pub fn is_bisecting(mut words: impl Iterator<Item = OsString>) -> bool {
    let is_try = words.nth(1).is_some_and(|command| command == "try");
    // `try` bisects by itself.
    !is_try
        && words
            .any(|word| ["bisect", "--fail-on=bisect", "--bisect"].iter().any(|own| word == *own))
}

impl Gate {
    /// Whether the exit code is to say what the verdicts say.
    pub fn is_asked(&self) -> bool {
        self.fail_on.is_some()
    }

    fn bisects(&self) -> bool {
        self.fail_on == Some(FailOn::Bisect)
    }

    /// Turns the verdicts of all of these into an exit code. A regression anywhere goes
    /// first: it is known, even if other verdicts are not.
    pub fn judge(&self, analyses: &[Analysis]) -> Result<(), Failure> {
        if !self.is_asked() {
            return Ok(());
        }
        let with_verdict = |is: fn(&Verdict) -> bool| -> Vec<String> {
            let is = |_: &Row, _, cell: &Cell| cell.judged.is_some_and(|of| is(&of.verdict));
            analyses.iter().flat_map(|analysis| named(analysis, is)).collect()
        };
        let worse = with_verdict(|verdict| matches!(verdict, Verdict::Worse));
        if !worse.is_empty() {
            let (is, list) = (if worse.len() == 1 { "is" } else { "are" }, listed(&worse, ", "));
            return Err(Failure::Regression(format!("regression: {list} {is} WORSE")));
        }
        let mut missing: Vec<String> = analyses
            .iter()
            .flat_map(|analysis| {
                let gaps = analysis.notes.iter().filter(|note| note.is_gap());
                gaps.map(move |gap| note(analysis, gap))
            })
            .collect();
        if missing.is_empty() {
            let without =
                with_verdict(|verdict| matches!(verdict, Verdict::Unjudged(Unjudged::NoEffect(_))));
            missing.extend(without.into_iter().map(|place| format!("{place} cannot be compared")));
        }
        if !missing.is_empty() {
            let text = format!("not all could be judged: {}", listed(&missing, "; "));
            let hint = "--metric with what is to be judged";
            return Err(Failure::here(text, hint));
        }
        analyses.iter().try_for_each(any_verdict)?;
        let is_unjudged = |row: &Row, side, _: &Cell| row.lacks_verdict(side);
        let without: Vec<String> =
            analyses.iter().flat_map(|analysis| named(analysis, is_unjudged)).collect();
        if !without.is_empty() {
            let text = format!("not judged: {}", listed(&without, ", "));
            return Err(Failure::here(text, "--metric with what is to be judged"));
        }
        analyses.iter().try_for_each(enough_rounds)?;
        let open = with_verdict(|verdict| matches!(verdict, Verdict::Inconclusive { .. }));
        if self.bisects() && !open.is_empty() {
            let text = format!("not decided: {}", listed(&open, ", "));
            let problem = Problem::new(text, "more --rounds, a wider --margin, or --metric");
            return Err(Failure::Bisect { code: 125, text: problem.to_string() });
        }
        Ok(())
    }

    /// Does the work. In a bisection no failure may be taken for a bad commit, nor a panic.
    pub fn translate(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.bisects() {
            return work();
        }
        match panic::catch_unwind(AssertUnwindSafe(work)) {
            Err(_) => {
                let text = "a fault of schedlab itself: nothing is known of this commit";
                Err(Failure::Bisect { code: 125, text: text.to_string() })
            }
            Ok(Err(failure @ (Failure::Here(_) | Failure::Missing(_) | Failure::Store(_)))) => {
                Err(Failure::Bisect { code: 125, text: failure.to_string() })
            }
            Ok(Err(failure @ (Failure::Usage(_) | Failure::Plan(_)))) => {
                Err(Failure::Bisect { code: 255, text: failure.to_string() })
            }
            Ok(done) => done,
        }
    }
}

/// Fails where no data of so few rounds could decide: such a gate would pass whatever is measured.
fn enough_rounds(analysis: &Analysis) -> Result<(), Failure> {
    let rows = analysis.sets().flat_map(|(_, set)| judged(&set.rows));
    let verdicts = rows.flat_map(|row| row.cells.iter().filter_map(Cell::verdict));
    let least = verdicts.filter_map(|verdict| match verdict {
        Verdict::Inconclusive { why: Why::TooFewRounds { least }, .. } => Some(least),
        _ => None,
    });
    match least.max() {
        None => Ok(()),
        Some(least) => Err(Failure::here(
            format!("too few rounds for any verdict: it takes at least {least}"),
            format!("--rounds {least}, or more"),
        )),
    }
}

/// Fails without a single verdict: a gate must not pass on nothing.
fn any_verdict(analysis: &Analysis) -> Result<(), Failure> {
    let rows = analysis.sets().flat_map(|(_, set)| judged(&set.rows));
    let mut verdicts = rows.flat_map(|row| &row.cells).filter_map(Cell::verdict);
    if verdicts.any(|verdict| !matches!(verdict, Verdict::Unjudged(_))) {
        return Ok(());
    }
    if is_shown(analysis) {
        let text = "what was compared explains, and has no verdicts";
        return Err(Failure::here(text, "--metric throughput as well"));
    }
    let is_other_place = |note: &Note| {
        let Note::NotSameWork { why, .. } = note else { return false };
        matches!(why, Difference::Backend(..) | Difference::Guests)
    };
    let hint = match analysis.notes.iter().any(is_other_place) {
        true => format!("{} --mixed", analysis.command),
        false => format!("schedlab list runs{}", analysis.store),
    };
    Err(Failure::here("nothing of it can be compared; the reasons are above", hint))
}

/// Fails where there is nothing to see.
pub fn anything(analysis: &Analysis) -> Result<(), Failure> {
    if is_shown(analysis) { Ok(()) } else { any_verdict(analysis) }
}

/// Whether there are rows of what explains, which need no verdict.
fn is_shown(analysis: &Analysis) -> bool {
    let mut sets = analysis.works.iter().flat_map(|work| &work.sets);
    sets.any(|set| set.rows.iter().any(|row| row.kind.direction == Direction::Neutral))
}

fn named(analysis: &Analysis, is: impl Fn(&Row, usize, &Cell) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for work in &analysis.works {
        for set in &work.sets {
            for row in judged(&set.rows) {
                for (at, (side, cell)) in analysis.sides.iter().zip(&row.cells).enumerate() {
                    if is(row, at, cell) {
                        let (place, label) = (place(work, set), clean(&side.label));
                        found.push(format!("{place} {} of {label}", clean(&row.kind.name)));
                    }
                }
            }
        }
    }
    found
}

fn listed(names: &[String], between: &str) -> String {
    match names.len() {
        0..=MAX_NAMED => names.join(between),
        count => {
            let more = count - MAX_NAMED;
            format!("{} and {more} more", names[..MAX_NAMED].join(between))
        }
    }
}

/// Rows whose verdicts a gate goes by.
fn judged(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(|row| row.family == Family::Headline && row.kind.direction != Direction::Neutral)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Method, Pairing, SetTable, Side, WorkTable};
    use crate::model::{MetricKind, Params, Statistic, Unit};
    use crate::stats::{Judged, NoEffect, Rounds, Why};

    const OPEN: Verdict = Verdict::Inconclusive { why: Why::Noise, rounds: Rounds::Number(20) };
    const ZERO: Verdict = Verdict::Unjudged(Unjudged::NoEffect(NoEffect::NoPairs));
    const NEUTRAL: Verdict = Verdict::Unjudged(Unjudged::Neutral);

    /// A row `m0`, `m1` ... of the headline family for each verdict, and a gap for each reason.
    fn analysis(verdicts: &[Verdict], gaps: &[&str]) -> Analysis {
        let side = |label: &str| Side { label: label.to_string(), ..Side::default() };
        let row = |(at, verdict): (usize, &Verdict)| {
            let direction = match *verdict {
                NEUTRAL => Direction::Neutral,
                _ => Direction::HigherIsBetter,
            };
            let (name, unit) = (format!("m{at}"), Unit::OpsPerS);
            let judged = Judged {
                effect: Err(NoEffect::NoPairs),
                verdict: *verdict,
                p_difference: None,
                p_same: None,
                bound: None,
                excluded: Default::default(),
                decided_at: None,
            };
            Row {
                kind: MetricKind::explaining(name, unit, direction, Statistic::Rate),
                family: Family::Headline,
                cells: vec![Cell::default(), Cell { judged: Some(judged), ..Cell::default() }],
            }
        };
        let judged = |verdict: &&Verdict| !matches!(verdict, Verdict::Unjudged(_));
        let gap = |reason: &&str| Note::Skipped {
            sides: vec!["batch".to_string()],
            works: vec!["web".to_string()],
            reason: reason.to_string(),
        };
        Analysis {
            plans: Vec::new(),
            sides: vec![side("default"), side("batch")],
            hosts: Vec::new(),
            method: Method {
                margin: 0.02,
                tail_margin: 0.1,
                margins: Vec::new(),
                alpha: 0.05,
                headline_verdicts: verdicts.iter().filter(judged).count(),
                explaining_verdicts: 0,
                pairing: Pairing::WithinRounds,
                floors: Vec::new(),
                looks: None,
                seed: 1,
            },
            works: vec![WorkTable {
                label: "web threads=4".to_string(),
                name: "web".to_string(),
                axes: Vec::new(),
                sets: vec![SetTable {
                    name: "web".to_string(),
                    workload: "schbench".to_string(),
                    params: Params::new(),
                    workers: None,
                    knobs: Default::default(),
                    cgroups: Vec::new(),
                    ops: "requests".to_string(),
                    rows: verdicts.iter().enumerate().map(row).collect(),
                }],
                fairness: None,
                runs: Vec::new(),
            }],
            notes: gaps.iter().map(gap).collect(),
            command: String::new(),
            store: String::new(),
            pictures: Default::default(),
        }
    }

    fn gate(fail_on: bool, bisect: bool) -> Gate {
        let fail_on = fail_on.then_some(FailOn::Regression);
        Gate { fail_on: if bisect { Some(FailOn::Bisect) } else { fail_on } }
    }

    /// The exit code, 0 for none, and what is said.
    fn end(gate: &Gate, analyses: &[Analysis]) -> (u8, String) {
        match gate.translate(|| gate.judge(analyses)) {
            Ok(()) => (0, String::new()),
            Err(failure) => {
                let code = match failure {
                    Failure::Regression(_) => 1,
                    Failure::Here(_) => 3,
                    Failure::Bisect { code, .. } => code,
                    _ => panic!("{failure}"),
                };
                (code, failure.to_string())
            }
        }
    }

    #[test]
    fn what_could_not_be_judged_is_not_good() {
        use Verdict::{Better, Same, Worse};
        // Verdicts, gaps, and the exit codes of a regression and of a bisection.
        let cases: &[(&[Verdict], &[&str], u8, u8)] = &[
            (&[Same, Better, NEUTRAL], &[], 0, 0),
            (&[Same, OPEN], &[], 0, 125),
            (&[Same, Worse], &[], 1, 1),
            (&[Worse, ZERO, OPEN], &["web: failed"], 1, 1),
            (&[Same], &["web: failed"], 3, 125),
            (&[Same, ZERO], &[], 3, 125),
            (&[ZERO], &[], 3, 125),
            (&[NEUTRAL], &[], 3, 125),
            (&[], &["web: failed"], 3, 125),
            (&[], &[], 3, 125),
        ];
        for (verdicts, gaps, fail_on, bisect) in cases {
            let analysis = [analysis(verdicts, gaps)];
            assert_eq!(end(&gate(false, false), &analysis).0, 0);
            assert_eq!(end(&gate(true, false), &analysis).0, *fail_on, "{verdicts:?} {gaps:?}");
            for both in [false, true] {
                let (code, _) = end(&gate(both, true), &analysis);
                assert_eq!(code, *bisect, "{verdicts:?} {gaps:?}");
            }
        }
    }

    #[test]
    fn what_explains_is_worth_a_look_and_no_gate() {
        let [neutral, nothing, zero] =
            [&[NEUTRAL][..], &[], &[ZERO]].map(|verdicts| analysis(verdicts, &[]));
        assert!(anything(&neutral).is_ok());
        assert!(anything(&nothing).is_err());
        assert!(anything(&zero).is_err());
        let (code, text) = end(&gate(true, false), std::slice::from_ref(&neutral));
        assert_eq!(code, 3);
        assert!(text.contains("has no verdicts") && text.contains("--metric"), "{text}");
        // An event that never happened on one side has no ratio, so no verdict is missing.
        let mut never = analysis(&[Verdict::Same, ZERO], &[]);
        never.works[0].sets[0].rows[1].kind.direction = Direction::Neutral;
        assert_eq!(end(&gate(true, false), &[never]).0, 0);
    }

    #[test]
    fn what_could_not_be_judged_is_named() {
        let named = end(&gate(true, false), &[analysis(&[ZERO, Verdict::Same], &["a\u{1b}"])]).1;
        assert!(named.contains("batch (web): a\\u{1b}") && named.contains("\nhint: "), "{named}");
        let many = end(&gate(true, false), &[analysis(&[ZERO; 8], &[])]).1;
        assert!(many.contains("m4 of batch cannot be compared and 3 more\n"), "{many}");
    }

    /// Values that are missing, or nothing done on both sides; zero misses on both are as they should be.
    #[test]
    fn a_headline_metric_without_a_verdict_is_not_good() {
        let zeros = || Cell { values: vec![(0, 0.0)], ..Cell::default() };
        let some = || Cell { values: vec![(0, 1.0)], ..Cell::default() };
        let (higher, lower) = (Direction::HigherIsBetter, Direction::LowerIsBetter);
        let cases = [
            (lower, [some(), Cell::default()], 3),
            (higher, [zeros(), zeros()], 3),
            (lower, [zeros(), zeros()], 0),
        ];
        for (direction, cells, code) in cases {
            let mut missing = analysis(&[Verdict::Same, Verdict::Same], &[]);
            let row = &mut missing.works[0].sets[0].rows[1];
            (row.kind.direction, row.cells) = (direction, cells.to_vec());
            let (found, text) = end(&gate(true, false), &[missing]);
            assert_eq!((found, text.contains("m1 of batch")), (code, code == 3), "{text}");
        }
    }

    /// Explaining metrics are judged for readers, not for a gate.
    #[test]
    fn a_gate_goes_by_headline_metrics() {
        let mut explained = analysis(&[Verdict::Same, Verdict::Worse], &[]);
        explained.works[0].sets[0].rows[1].family = Family::Explaining;
        let mut open = analysis(&[Verdict::Same, OPEN], &[]);
        open.works[0].sets[0].rows[1].family = Family::Explaining;
        let mut counter = analysis(&[Verdict::Same, Verdict::Worse], &[]);
        counter.works[0].sets[0].rows[1].kind.direction = Direction::Neutral;
        for analysis in [explained, open, counter] {
            let analyses = [analysis];
            assert_eq!(end(&gate(true, false), &analyses).0, 0);
            assert_eq!(end(&gate(false, true), &analyses).0, 0);
        }
    }

    /// It would pass whatever is measured.
    #[test]
    fn a_gate_needs_rounds_that_can_decide() {
        let few = |least| Verdict::Inconclusive {
            why: Why::TooFewRounds { least },
            rounds: Rounds::MoreThan(1000),
        };
        let (code, text) = end(&gate(true, false), &[analysis(&[Verdict::Same, few(6)], &[])]);
        assert!(code == 3 && text.contains("at least 6"), "{code} {text}");
        assert_eq!(end(&gate(true, false), &[analysis(&[few(6), Verdict::Worse], &[])]).0, 1);
    }

    #[test]
    fn a_regression_in_any_comparison_goes_first() {
        let both = [
            analysis(&[OPEN, ZERO], &["web: failed"]),
            analysis(&[Verdict::Worse], &[]),
            analysis(&[], &[]),
        ];
        for gate in [gate(true, false), gate(false, true)] {
            let (code, text) = end(&gate, &both);
            assert_eq!(
                (code, text.as_str()),
                (1, "regression: web threads=4 m0 of batch is WORSE")
            );
        }
    }

    #[test]
    fn a_fault_of_ours_is_no_bad_commit() {
        type Work = fn() -> Result<(), Failure>;
        let cases: &[(Work, u8)] = &[
            (|| panic!("a fault"), 125),
            (|| Err(Failure::Here("".into())), 125),
            (|| Err(Failure::Missing("".into())), 125),
            (|| Err(Failure::Usage("".into())), 255),
        ];
        for (work, expected) in cases {
            let done = gate(false, true).translate(work);
            assert!(matches!(done, Err(Failure::Bisect { code, .. }) if code == *expected));
        }
        assert!(matches!(gate(false, false).translate(cases[1].0), Err(Failure::Here(_))));
    }
}
