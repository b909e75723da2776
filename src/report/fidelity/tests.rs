//! One table of both instruments, in every format that has it.

use insta::assert_snapshot;
use serde_json::Value;

use super::*;
use crate::analysis::{self, Fidelity, Note};
use crate::report::layout::is_active;
use crate::report::testing;

fn both(change: impl FnOnce(&mut Analysis)) -> Fidelity {
    let mut lab = testing::in_the_lab(0);
    for (side, own) in lab.sides.iter_mut().zip(&testing::ordinary().sides) {
        side.label.clone_from(&own.label);
    }
    change(&mut lab);
    analysis::fidelity(testing::ordinary(), lab)
}

/// Turns every BETTER of the lab into WORSE, and the reverse.
fn reversed(lab: &mut Analysis) {
    let rows = lab.works.iter_mut().flat_map(|work| &mut work.sets).flat_map(|set| &mut set.rows);
    for judged in rows.flat_map(|row| &mut row.cells).filter_map(|cell| cell.judged.as_mut()) {
        judged.verdict = match judged.verdict {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            other => other,
        };
    }
}

fn rendered(format: &str, fidelity: &Fidelity, options: Options) -> String {
    let (_, render) = FORMATS.iter().find(|(name, _)| *name == format).unwrap();
    let mut out = Vec::new();
    render(fidelity, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text_has_both_verdicts_of_a_row_and_the_sum() {
    let options = Options { verbose: 1, ..Options::default() };
    assert_snapshot!(rendered("text", &both(reversed), options));
}

#[test]
fn markdown_has_the_same() {
    assert_snapshot!(rendered("markdown", &both(|_| ()), Options::default()));
}

/// As in each instrument's own report.
#[test]
fn a_verdict_on_spoilt_rounds_has_its_mark_and_one_sentence() {
    let mut fidelity = both(reversed);
    for is_spoilt in [false, true] {
        if is_spoilt {
            let works = vec![(fidelity.host.works[0].label.clone(), 9, 10)];
            fidelity.host.notes = vec![Note::AllSpoilt { works }];
        }
        for format in ["text", "markdown"] {
            let found = rendered(format, &fidelity, Options::default()).replace('\\', "");
            let found = testing::words(&found);
            let legend = found.matches("verdicts with ! are about that load, too").count();
            assert_eq!(legend, usize::from(is_spoilt), "{format}: {found}");
            let is_marked = ["BETTER!", "WORSE!"].iter().any(|word| found.contains(word));
            assert_eq!(is_marked, is_spoilt, "{format}: {found}");
        }
    }
}

#[test]
fn lines_keep_to_the_width() {
    for (width, verbose) in [(40, 0), (60, 1), (80, 0), (80, 2)] {
        let options = Options { width, verbose, ..Options::default() };
        let text = rendered("text", &both(reversed), options);
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{longest:?} of {width}: {text}");
    }
}

#[test]
fn a_short_report_has_differences_and_disputes_alone() {
    let fidelity = both(|_| ());
    let rows =
        |verbose| rows_to_show(&fidelity, &Options { verbose, ..Options::default() }).count();
    assert_eq!(rows(1), fidelity.rows.len());
    assert!((1..rows(1)).contains(&rows(0)), "{} of {}", rows(0), rows(1));
    let text = rendered("text", &fidelity, Options::default());
    assert!(text.contains("further row"), "{text}");
}

/// Also where the host has no verdict: by the intervals.
#[test]
fn rows_in_which_the_two_disagree_have_a_mark() {
    let marks = |fidelity: &Fidelity| {
        let options = Options { verbose: 1, ..Options::default() };
        let text = rendered("text", fidelity, options);
        assert_eq!(
            text.contains("the host and the lab disagree"),
            text.contains(" <>\n"),
            "{text}"
        );
        text.lines().filter(|line| line.ends_with(" <>")).count()
    };
    let agreed = both(|_| ());
    assert_eq!(marks(&agreed), 0);
    let contradicted = both(reversed);
    assert_eq!(marks(&contradicted), contradicted.summary.contradict);
    let undecided = agreed.rows.iter().filter(|row| row.prediction.is_none()).count();
    let far = both(|lab| {
        let rows =
            lab.works.iter_mut().flat_map(|work| &mut work.sets).flat_map(|set| &mut set.rows);
        for judged in rows.flat_map(|row| &mut row.cells).filter_map(|cell| cell.judged.as_mut()) {
            if matches!(judged.verdict, Verdict::Inconclusive { .. }) {
                judged.verdict = Verdict::Better;
                judged.effect = testing::values(1.0, 0.0)
                    .judged(Verdict::Better, 9.0, 8.0, 10.0)
                    .judged
                    .unwrap()
                    .effect;
            }
        }
    });
    assert!(undecided > 0 && marks(&far) == undecided, "{} of {undecided}", marks(&far));
    assert_eq!((far.summary.settled.count, far.summary.settled.of), (undecided, undecided));
    let without_detail = rendered("text", &far, Options::default());
    assert!(without_detail.contains(" <>\n"), "{without_detail}");
}

#[test]
fn programs_get_every_row() {
    let fidelity = both(reversed);
    let csv = rendered("csv", &fidelity, Options::default());
    assert_eq!(csv.lines().count(), 1 + fidelity.rows.len());
    let contradicted = csv.lines().filter(|line| line.ends_with(",contradicts,true")).count();
    assert_eq!(contradicted, fidelity.summary.contradict);
    assert!(contradicted > 0, "{csv}");
    let bound = |row: &FidelityRow| [row.host, row.lab].map(|of| of.bound.map(Distance::value));
    let bounds: Vec<_> = fidelity.rows.iter().map(bound).collect();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let at = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let cell = |record: &csv::StringRecord, name| record[at(name)].parse::<f64>().ok();
    let own = reader.records().map(|line| line.unwrap());
    let own: Vec<_> =
        own.map(|line| ["host_bound", "lab_bound"].map(|name| cell(&line, name))).collect();
    assert_eq!(own, bounds);
    assert!(bounds.iter().flatten().any(Option::is_some), "no row with a bound");
    let json: Value =
        serde_json::from_str(&rendered("json", &fidelity, Options::default())).unwrap();
    assert_eq!((&json["schema"], &json["version"]), (&"schedlab-fidelity".into(), &1.into()));
    assert_eq!(json["rows"].as_array().unwrap().len(), fidelity.rows.len());
    assert_eq!(json["summary"]["contradict"], contradicted);
}

#[test]
fn no_name_reaches_a_terminal_as_it_is() {
    let hostile = || testing::hostile("=\u{1b}[2Jx|`\u{202e}");
    let mut fidelity = analysis::fidelity(hostile(), hostile());
    let what = Lone::Work("\u{1b}[2J".to_string());
    let reason = Some("\u{202e}\n".to_string());
    fidelity.only.push(Only { on: Instrument::Host, what, reason });
    assert!(!fidelity.rows.is_empty());
    for (format, _) in FORMATS {
        let text = rendered(format, &fidelity, Options { verbose: 2, ..Options::default() });
        assert!(!text.chars().any(|c| c != '\n' && is_active(c)), "{format}: {text:?}");
    }
}
