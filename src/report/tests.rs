//! Tests of all formats together: what each promises, and that no two disagree.

use std::collections::BTreeMap;
use std::io::{self, Write};

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::layout::is_active;
use super::testing::{self, HOSTILE, NEUTRAL, render};
use super::{Format, Options, Render, find, formats};
use crate::analysis::testing::{any_plan, of_variants};
use crate::analysis::{Analysis, Family, Note, Question, Row, analyse};
use crate::stats::Verdict;

const PAGE: &str = include_str!("../../docs/report-formats.md");

/// A format that is there once it has its line in `formats()`.
pub const DUMMY: Format = Format {
    name: "dummy",
    about: "the number of sides, for tests",
    explains: |_| true,
    render: Render::Each(|analysis, _, out| writeln!(out, "dummy: {}", analysis.sides.len())),
};

fn format_named(name: &str) -> &'static Format {
    find(name).unwrap_or_else(|| panic!("no format {name}"))
}

/// Every format but images.
fn texts() -> impl Iterator<Item = &'static Format> {
    formats().iter().copied().filter(|format| !format.is_binary())
}

fn all_options() -> impl Iterator<Item = Options> {
    (0..3).map(|verbose| Options { verbose, ..Options::default() })
}

fn analyses() -> [Analysis; 6] {
    [
        testing::nothing(),
        testing::sides_only(),
        testing::ordinary(),
        testing::explained(),
        testing::troubled(),
        testing::in_the_lab(2),
    ]
}

#[test]
fn every_format_is_named_once_described_and_has_a_line_for_nothing() {
    for format in texts() {
        let name = format.name;
        assert!(!format.about.is_empty() && !format.about.contains('\n'), "{name}");
        let same_name = formats().iter().filter(|other| other.name == name);
        assert_eq!(same_name.count(), 1, "{name}");
        assert_eq!(find(name).map(|found| found.name), Some(name));
        let mut out = Vec::new();
        format.render(&[], &Options::default(), &mut out).unwrap();
        assert!(out.ends_with(b"\n") && out.len() > 1, "{name}: {out:?}");
        for nothing in [testing::nothing(), testing::sides_only()] {
            let shown = render(format, &nothing, Options::default());
            assert!(shown.ends_with('\n') && shown.trim() != "", "{name}: {shown:?}");
        }
    }
    assert_eq!(find("pdf").map(|found| found.name), None);
}

#[test]
fn the_page_describes_every_format() {
    let names = formats().iter().map(|format| format.name);
    let names: Vec<&str> = names.filter(|name| *name != DUMMY.name).collect();
    let headings = PAGE.lines().filter_map(|line| line.strip_prefix("### "));
    assert_eq!(headings.collect::<Vec<_>>(), names);
}

#[test]
fn several_analyses_follow_each_other_and_each_is_whole() {
    let two = [testing::ordinary(), testing::troubled()];
    let mut out = Vec::new();
    format_named("text").render(&two, &Options::default(), &mut out).unwrap();
    let both = two.iter().map(|one| render(format_named("text"), one, Options::default()));
    assert_eq!(String::from_utf8(out).unwrap(), both.collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_same_analysis_gives_the_same_bytes() {
    for analysis in analyses() {
        for (format, options) in texts().flat_map(|f| all_options().map(move |o| (f, o))) {
            let once = render(format, &analysis, options);
            let twice = render(format, &analysis.clone(), options);
            assert!(once == twice, "{} differs from call to call", format.name);
        }
    }
}

#[test]
fn color_is_there_only_where_asked_for_and_changes_nothing_else() {
    for (format, options) in texts().flat_map(|f| all_options().map(move |o| (f, o))) {
        let plain = render(format, &testing::troubled(), options);
        assert!(!plain.contains('\x1b'), "{}", format.name);
        let colored = render(format, &testing::troubled(), Options { color: true, ..options });
        assert_eq!(testing::without_color(&colored), plain, "{}", format.name);
        assert_eq!(colored.contains('\x1b'), format.name == "text", "{}", format.name);
    }
}

/// Takes this many bytes, then fails.
struct Closing(usize);

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_an_error_and_no_panic() {
    for format in texts() {
        let bytes = render(format, &testing::ordinary(), Options::default()).len();
        for taken in [0, 1, bytes / 2, bytes - 1] {
            let (analysis, options) = (testing::ordinary(), Options::default());
            let result = format.render(&[analysis], &options, &mut Closing(taken));
            let kind = result.map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::BrokenPipe), "{} {taken}", format.name);
        }
    }
}

#[test]
fn names_from_outside_act_on_no_terminal() {
    for name in HOSTILE {
        let hostile = testing::hostile(name);
        for (format, options) in texts().flat_map(|f| all_options().map(move |o| (f, o))) {
            let shown = render(format, &hostile, options);
            let found = shown.chars().find(|c| *c != '\n' && is_active(*c));
            assert_eq!(found, None, "{} {name:?}: {shown}", format.name);
        }
    }
}

#[test]
fn no_name_is_a_formula_of_a_spreadsheet() {
    for name in HOSTILE {
        for row in csv_rows(&testing::hostile(name)) {
            for (column, cell) in row {
                let is_formula = cell.trim_start().starts_with(['=', '+', '-', '@']);
                assert!(!is_formula || cell.parse::<f64>().is_ok(), "{column}: {cell:?}");
            }
        }
    }
}

#[test]
fn no_name_is_markup_in_markdown() {
    for name in HOSTILE {
        let shown = render(format_named("markdown"), &testing::hostile(name), Options::default());
        let lines: Vec<&str> = shown.lines().collect();
        let fence = lines.iter().find(|line| line.starts_with("```")).expect("a fence");
        let fences: Vec<usize> =
            (0..lines.len()).filter(|at| lines[*at].starts_with(fence)).collect();
        assert_eq!(fences.len(), 2, "no name closes the fence: {shown}");
        assert_eq!(fences[1], lines.len() - 1);
        let outside = lines[..fences[0]].join("\n");
        let unescaped = |sign: char| {
            let mut escaped = false;
            outside
                .chars()
                .filter(|c| {
                    let found = *c == sign && !escaped;
                    escaped = *c == '\\' && !escaped;
                    found
                })
                .count()
        };
        for sign in ['<', '`', '[', ']', '_', '~', '@'] {
            assert_eq!(unescaped(sign), 0, "{sign} of {name:?}: {outside}");
        }
        let rows: Vec<&&str> = lines.iter().filter(|line| line.starts_with("| ")).collect();
        // Place, metric and two sides.
        assert!(rows.iter().all(|row| cells_of(row).len() == 4), "{rows:?}");
    }
}

/// The cells of a row of a table in Markdown.
fn cells_of(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in row.chars() {
        if c == '|' && !escaped {
            cells.push(String::new())
        } else {
            cells.last_mut().unwrap().push(c)
        }
        escaped = c == '\\' && !escaped;
    }
    let inner = cells[1..cells.len() - 1].iter();
    inner.map(|cell| cell.trim().to_string()).collect()
}

/// An XML element: its name, attributes and text.
#[derive(Debug)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
}

/// Every element of a document, in the order in which they begin. Panics where it is not well formed.
fn elements(xml: &str) -> Vec<Element> {
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"), "a prolog: {xml}");
    let document = roxmltree::Document::parse(xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    let nodes = document.descendants().filter(roxmltree::Node::is_element);
    let element = |node: roxmltree::Node| Element {
        name: node.tag_name().name().to_string(),
        attributes: (node.attributes())
            .map(|of| (of.name().to_string(), of.value().to_string()))
            .collect(),
        text: node.children().filter_map(|part| part.text()).collect(),
    };
    nodes.map(element).collect()
}

#[test]
fn junit_is_well_formed_whatever_names_hold() {
    for name in HOSTILE {
        let hostile = testing::hostile(name);
        let found = elements(&render(format_named("junit"), &hostile, Options::default()));
        let clean = super::clean(name);
        let has = |attribute: &str| {
            found
                .iter()
                .any(|of| of.attributes.get(attribute).is_some_and(|is| is.contains(&clean)))
        };
        for attribute in ["name", "classname", "message"] {
            assert!(has(attribute), "{attribute} {name:?} {found:?}");
        }
    }
}

/// The rows of the csv, by column.
pub fn csv_rows(analysis: &Analysis) -> Vec<BTreeMap<String, String>> {
    let text = render(format_named("csv"), analysis, Options::default());
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.expect("a row of the header's length")).collect()
}

/// Whose verdict it is: work, set, metric and side.
type Place = [String; 4];

/// The verdict on each cell of the headline family, as the analysis has it: BETTER, WORSE, SAME,
/// open, LESS or MORE, or - where there is no ratio.
fn verdicts(analysis: &Analysis) -> BTreeMap<Place, &'static str> {
    let mut found = BTreeMap::new();
    for (work, set, row) in analysis.rows().filter(|(.., row)| row.family == Family::Headline) {
        for (side, cell) in analysis.sides.iter().zip(&row.cells).skip(1) {
            if let Some(judged) = &cell.judged {
                let place = [&work.label, &set.name, &row.kind.name, &side.label];
                found.insert(place.map(String::clone), word(row, &judged.verdict));
            }
        }
    }
    found
}

fn word(row: &Row, verdict: &Verdict) -> &'static str {
    match (verdict, row.kind.direction == NEUTRAL) {
        (Verdict::Better, false) => "BETTER",
        (Verdict::Worse, false) => "WORSE",
        (Verdict::Better, true) => "LESS",
        (Verdict::Worse, true) => "MORE",
        (Verdict::Same, _) => "SAME",
        (Verdict::Inconclusive { .. }, _) => "open",
        (Verdict::Unjudged(_), _) => "-",
    }
}

/// How often each word stands in a list.
fn counts<'a>(words: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for word in words.into_iter().map(plain).filter(|word| WORDS.contains(word)) {
        *counts.entry(word.to_string()).or_default() += 1;
    }
    counts
}

/// Without why it is open, or how far, or that load spoilt its rounds.
fn plain(word: &str) -> &str {
    let word = word.trim_end_matches(crate::report::phrases::SPOILT);
    if ["too-few", "maybe"].contains(&word) || word.starts_with('<') || word.starts_with("&lt;") {
        "open"
    } else {
        word
    }
}

const WORDS: [&str; 6] = ["BETTER", "WORSE", "SAME", "open", "LESS", "MORE"];

/// A text whose rows have one word each: `maybe` has a bound behind it.
fn without_second_words(text: &str) -> String {
    text.replace("maybe <", "maybe ").replace("maybe &lt;", "maybe ")
}

/// The words of a text in which no name is one.
fn counts_in(text: &str) -> BTreeMap<String, usize> {
    counts(
        without_second_words(text)
            .split_whitespace()
            .map(|word| word.trim_matches(['*', ',', ';'])),
    )
}

/// The headline table and the answer of a text without `-v`.
fn table_and_answer(text: &str) -> (&str, &str) {
    let (rest, answer) = text.trim_end().rsplit_once("\n\n").expect("an answer");
    // Its head begins with the place of no row.
    let is_table = |part: &&str| part.starts_with("  ");
    let table = rest.split("\n\n").filter(is_table).last().unwrap_or_default();
    (table, answer)
}

fn check_text(analysis: &Analysis) -> Result<(), TestCaseError> {
    let expected = counts(verdicts(analysis).into_values());
    for options in all_options() {
        let shown = render(format_named("text"), analysis, Options { width: 1000, ..options });
        let (table, answer) = table_and_answer(&shown);
        if options.verbose == 0 {
            prop_assert_eq!(&counts_in(table), &expected, "{}", shown);
        }
        // Each row has its own words, in the order of the sides: in a line, or in one for each side.
        for (work, _, row) in analysis.rows().filter(|(.., row)| row.family == Family::Headline) {
            let own = row.cells.iter().skip(1).filter_map(|cell| cell.judged);
            let own: Vec<&str> = own.map(|judged| word(row, &judged.verdict)).collect();
            let own: Vec<&str> = own.into_iter().filter(|word| WORDS.contains(word)).collect();
            let label = &work.label;
            let (begin, name, lines) = match options.verbose {
                0 => (label.clone(), format!(" {} ", row.kind.name), 1),
                _ => (format!("== {label}"), format!("\n{} ", row.kind.name), row.cells.len()),
            };
            let (_, section) = shown.split_once(&format!("\n{begin}")).expect("a section");
            let (_, of_row) = section.split_once(&name).expect("a row");
            let of_row: String = of_row.lines().take(lines).collect();
            let of_row = without_second_words(&of_row);
            let found = of_row.split_whitespace().map(plain).filter(|word| WORDS.contains(word));
            prop_assert_eq!(found.collect::<Vec<_>>(), own, "{} {}", label, name);
        }
        let cells = analysis.rows_of(Family::Headline).flat_map(|(.., row)| {
            row.cells.iter().filter(|cell| crate::report::phrases::bound(row, cell).is_none())
        });
        let is_open = |verdict: Verdict| matches!(verdict, Verdict::Inconclusive { .. });
        let open = cells
            .filter_map(crate::analysis::Cell::verdict)
            .filter(|verdict| is_open(*verdict))
            .count();
        let said = answer.lines().find_map(|line| line.strip_prefix("open "));
        let said = said.and_then(|line| line.split_whitespace().next()?.parse().ok());
        prop_assert_eq!(said.unwrap_or(0), open, "{}", answer);
    }
    Ok(())
}

fn check_markdown(analysis: &Analysis) -> Result<(), TestCaseError> {
    let shown = render(format_named("markdown"), analysis, Options::default());
    let rows: Vec<Vec<String>> =
        shown.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells_of).collect();
    let words = rows.iter().flat_map(|cells| {
        // A bound has a unit behind it.
        let word = |cell: &'_ String| {
            let words: Vec<&str> = cell.split_whitespace().collect();
            let bound = words.iter().find(|word| plain(word) == "open");
            // The mark of spoilt rounds is escaped.
            bound.or(words.last()).map(|word| word.trim_matches('*').replace('\\', ""))
        };
        cells.iter().skip(3).filter_map(word).collect::<Vec<String>>()
    });
    let words: Vec<String> = words.collect();
    let words = counts(words.iter().map(String::as_str));
    prop_assert_eq!(words, counts(verdicts(analysis).into_values()), "{}", shown);
    Ok(())
}

/// The list of verdicts below the tables, and their counts.
fn check_lkml(analysis: &Analysis) -> Result<(), TestCaseError> {
    let shown = testing::words(&render(format_named("lkml"), analysis, Options::default()));
    for (at, side) in analysis.sides.iter().enumerate().skip(1) {
        let is_own = |(place, _): &(Place, &str)| place[3] == side.label;
        let own = counts(verdicts(analysis).into_iter().filter(is_own).map(|(_, word)| word));
        let begin = format!("Verdicts, {} against {}:", side.label, analysis.sides[0].label);
        let (_, section) = shown.split_once(&begin).expect("a section of the side");
        let section = section.split("Method:").next().unwrap_or_default();
        let section = section.split("Verdicts,").next().unwrap_or_default();
        let section = section.replace("!:", ":");
        let count = |word: &str| own.get(word).copied().unwrap_or(0);
        // As the text counts them: what has a bound of use is not open.
        let cells = analysis.rows_of(Family::Headline).filter_map(|(.., row)| {
            let cell = row.cells.get(at)?;
            let is_open = matches!(cell.verdict()?, Verdict::Inconclusive { .. });
            (is_open && crate::report::phrases::bound(row, cell).is_some()).then_some(())
        });
        let bounded = cells.count();
        let shown = if bounded > 0 { format!("{bounded} bounded, ") } else { String::new() };
        let tally = format!(
            "{} BETTER, {} WORSE, {} SAME, {shown}{} open",
            count("BETTER"),
            count("WORSE"),
            count("SAME"),
            count("open") - bounded
        );
        prop_assert!(section.contains(&tally), "{} is not in {}", tally, section);
        // A judged explaining metric is listed too.
        let judged = |is: fn(&Verdict) -> bool| {
            let rows = analysis.rows().filter(|(.., row)| row.kind.direction != NEUTRAL);
            let cells = rows.filter_map(|(.., row)| row.cells.get(at)?.judged);
            cells.filter(|judged| is(&judged.verdict)).count()
        };
        prop_assert_eq!(
            section.matches("BETTER:").count(),
            judged(|verdict| matches!(verdict, Verdict::Better))
        );
        prop_assert_eq!(
            section.matches("WORSE:").count(),
            judged(|verdict| matches!(verdict, Verdict::Worse))
        );
    }
    Ok(())
}

fn check_csv(analysis: &Analysis) -> Result<(), TestCaseError> {
    let mut found = BTreeMap::new();
    let rows = csv_rows(analysis).into_iter();
    let is_own = |row: &BTreeMap<String, String>| {
        row["kind"] == "summary" && row["family"] == "headline" && !row["verdict"].is_empty()
    };
    for row in rows.filter(is_own) {
        let place = ["work", "set", "metric", "side"].map(|column| row[column].clone());
        found.insert(place, key_word(&row["direction"], &row["verdict"]));
    }
    prop_assert_eq!(found, verdicts(analysis));
    Ok(())
}

/// The word that people read for a key.
fn key_word(direction: &str, key: &str) -> &'static str {
    match (key, direction == "neutral") {
        ("better", false) => "BETTER",
        ("worse", false) => "WORSE",
        ("better", true) => "LESS",
        ("worse", true) => "MORE",
        ("same", _) => "SAME",
        ("inconclusive", _) => "open",
        ("unjudged", _) => "-",
        other => panic!("{other:?}"),
    }
}

fn check_json(analysis: &Analysis) -> Result<(), TestCaseError> {
    let text = render(format_named("json"), analysis, Options::default());
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let analysis_of = &document["analyses"][0];
    let list = |value: &serde_json::Value| value.as_array().expect("a list").clone();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_string();
    let mut found = BTreeMap::new();
    for work in list(&analysis_of["works"]) {
        for (set, row) in list(&work["sets"])
            .iter()
            .flat_map(|set| list(&set["rows"]).into_iter().map(move |row| (set.clone(), row)))
            .filter(|(_, row)| row["family"] == "headline")
        {
            for (side, cell) in list(&analysis_of["sides"]).iter().zip(list(&row["cells"])) {
                let verdict = &cell["judged"]["verdict"];
                let key = match verdict {
                    serde_json::Value::Null => continue,
                    serde_json::Value::String(key) => key.clone(),
                    other => other.as_object().expect("one key").keys().next().unwrap().clone(),
                };
                let place = [&work["label"], &set["name"], &row["name"], &side["label"]].map(text);
                found.insert(place, key_word(&text(&row["direction"]), &key));
            }
        }
    }
    prop_assert_eq!(found, verdicts(analysis));
    Ok(())
}

fn check_junit(analysis: &Analysis) -> Result<(), TestCaseError> {
    let found = elements(&render(format_named("junit"), analysis, Options::default()));
    let said = |of: &Element| match of.name.as_str() {
        "system-out" => Some(of.text.clone()),
        "failure" | "skipped" => of.attributes.get("message").cloned(),
        _ => None,
    };
    let words = found.iter().filter_map(said).map(|text| without_second_words(&text));
    let words: Vec<String> = words.collect();
    let words = counts(words.iter().flat_map(|text| text.split_whitespace()));
    let expected = counts(verdicts(analysis).into_values());
    prop_assert_eq!(&words, &expected);
    let count = |name: &str| found.iter().filter(|of| of.name == name).count();
    prop_assert_eq!(count("failure"), expected.get("WORSE").copied().unwrap_or(0));
    // All gaps are one case, whose name stays.
    let gaps = usize::from(analysis.notes.iter().any(Note::is_gap));
    prop_assert_eq!(count("error"), gaps);
    prop_assert_eq!(count("testcase"), verdicts(analysis).len() + gaps);
    let suite = &found[1].attributes;
    for (attribute, element) in [
        ("tests", "testcase"),
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ] {
        prop_assert_eq!(&suite[attribute], &count(element).to_string());
    }
    Ok(())
}

/// A verdict on spoilt rounds is as much about the load, wherever it is read.
#[test]
fn a_verdict_on_spoilt_rounds_has_its_mark_where_people_read_it() {
    let mut analysis = testing::ordinary();
    let works = vec![(analysis.works[0].label.clone(), 9, 10)];
    for notes in [Vec::new(), vec![Note::AllSpoilt { works }]] {
        analysis.notes = notes;
        for format in ["text", "markdown", "html", "svg", "junit", "lkml", "schbench"] {
            let found = render(format_named(format), &analysis, Options::default());
            // Markdown escapes the mark.
            let found = testing::words(&found.replace('\\', ""));
            let is_marked = !analysis.notes.is_empty();
            assert_eq!(found.contains("BETTER!"), is_marked, "{format}: {found}");
            let has_reason = found.contains("spoilt most rounds") || format == "svg";
            assert_eq!(has_reason, is_marked || format == "svg", "{format}: {found}");
        }
    }
}

/// As a user may ask, of variants of a drawn plan.
fn any_analysis() -> impl Strategy<Value = Analysis> {
    (any_plan(), any::<bool>(), any::<bool>()).prop_map(|(plan, explaining, counters)| {
        let mut question = Question { explaining, ..of_variants(&plan) };
        if counters {
            question.metrics = vec!["switches".to_string(), "*_p99".to_string()];
        }
        analyse(&[plan], &[], &question)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_format_can_disagree_with_another(analysis in any_analysis()) {
        check_text(&analysis)?;
        check_markdown(&analysis)?;
        check_lkml(&analysis)?;
        check_csv(&analysis)?;
        check_json(&analysis)?;
        check_junit(&analysis)?;
    }

    #[test]
    fn counts_of_one_are_singular(analysis in any_analysis()) {
        for (format, options) in texts().flat_map(|f| all_options().map(move |o| (f, o))) {
            check_singular(format.name, &render(format, &analysis, options))?;
        }
    }

    #[test]
    fn no_line_of_text_is_wider_than_asked(
        analysis in any_analysis(),
        name in any::<String>(),
        width in Options::MIN_WIDTH..140usize,
        verbose in 0u8..3,
        color: bool,
    ) {
        let options = Options { width, color, verbose };
        for analysis in [analysis, testing::hostile(&name), testing::troubled()] {
            check_width(&analysis, options)?;
        }
    }
}

fn check_width(analysis: &Analysis, options: Options) -> Result<(), TestCaseError> {
    let shown = testing::without_color(&render(format_named("text"), analysis, options));
    for line in shown.lines() {
        prop_assert!(line.width() <= options.width, "wider than {}: {}", options.width, line);
        prop_assert!(!line.chars().any(is_active), "{:?}", line);
        prop_assert_eq!(line, line.trim_end());
    }
    Ok(())
}

#[test]
fn no_name_widens_the_text() {
    for name in HOSTILE {
        for (width, verbose) in [(40, 0), (40, 1), (40, 2), (80, 0), (80, 1), (80, 2), (139, 1)] {
            let options = Options { width, verbose, color: false };
            check_width(&testing::hostile(name), options).unwrap();
            check_width(&testing::of_hosts(name), options).unwrap();
        }
    }
}

/// Fewer columns than the least are taken for the least.
#[test]
fn a_page_has_never_fewer_than_forty_columns() {
    let of = |width| {
        render(format_named("text"), &testing::ordinary(), Options { width, ..Options::default() })
    };
    assert_eq!(of(0), of(Options::MIN_WIDTH));
    assert_eq!(of(usize::MAX), of(Options::MAX_WIDTH));
}

fn check_singular(format: &str, text: &str) -> Result<(), TestCaseError> {
    const PLURALS: [&str; 12] = [
        "runs", "rounds", "metrics", "verdicts", "boots", "values", "pairs", "CPUs", "sides",
        "plans", "works", "rows",
    ];
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.windows(2) {
        let plural = pair[1].trim_matches([',', ';', '.', ':', ')']);
        let is_one = pair[0].trim_start_matches('(') == "1";
        prop_assert!(!is_one || !PLURALS.contains(&plural), "{}: {} {}", format, pair[0], pair[1]);
    }
    Ok(())
}

#[test]
fn notes_about_one_are_singular() {
    let mut analysis = testing::troubled();
    analysis.notes = testing::notes("x");
    for (format, options) in texts().flat_map(|f| all_options().map(move |o| (f, o))) {
        check_singular(format.name, &render(format, &analysis, options)).unwrap();
    }
}

/// A reader of a table that was mailed has to know by which clock it was measured.
#[test]
fn every_format_says_by_which_clock_the_lab_measured() {
    for format in texts().filter(|format| format.name != DUMMY.name) {
        let name = format.name;
        let shown = |analysis| testing::words(&render(format, &analysis, Options::default()));
        let [exact, not] = [0, 2].map(|wrong| shown(testing::in_the_lab(wrong)));
        let (all, some) = match name {
            "json" => ("\"not_exact\": 0", "\"not_exact\": 2"),
            "csv" => (",exact,", ",not_exact,"),
            "junit" => continue,
            _ => ("exact in all", "NOT exact"),
        };
        assert!(exact.contains(all) && !exact.contains(some), "{name}: {exact}");
        assert!(not.contains(some), "{name}: {not}");
        if name != "json" {
            let on_a_host = shown(testing::ordinary());
            assert!(!on_a_host.contains(all) && !on_a_host.contains(some), "{name}: {on_a_host}");
        }
    }
}

/// A list of plans has nothing but the counts.
#[test]
fn counts_name_the_notes_that_speak_against_them() {
    let mut analysis = testing::ordinary();
    let before = super::counts(&analysis);
    analysis.notes = testing::notes("web");
    let after = super::counts(&analysis);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()..], ["see its notes: failed, knob, missing, skipped, spoilt"]);
    assert!(!before.is_empty() && super::counts(&testing::nothing()).is_empty());
}

/// One round has no spread to estimate from.
#[test]
fn of_one_round_no_format_estimates_more_than_the_least() {
    use crate::model::Unit;
    use crate::stats::{Rounds, Why};
    let mut analysis = testing::sides_only();
    let few = testing::open(Why::TooFewRounds { least: 6 }, Rounds::MoreThan(1000));
    let cells = vec![testing::cell(vec![(0, 1.0)]), testing::cell(vec![(0, 2.0)]).single(few, 2.0)];
    let row = testing::row("wakeup_p99", Unit::Ns, testing::LOWER, cells);
    analysis.works = vec![testing::work("w", &[], "w", "w", vec![row])];
    analysis.method.headline_verdicts = 1;
    for (format, options) in texts().flat_map(|f| all_options().map(move |o| (f, o))) {
        let shown = render(format, &analysis, options);
        // The json has the estimate of the statistics as it is.
        let is_typed = format.name == "json";
        assert!(is_typed || !shown.contains("1000"), "{}: {shown}", format.name);
    }
}
