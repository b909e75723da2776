//! The page: it needs nothing from outside, has the tables' numbers, and lets nothing through.

use super::*;
use crate::analysis::{CountedRun, PictureBuilder};
use crate::model::{RunKey, Value, WorkerWindow, WorkerWindows};
use crate::report::Options;
use crate::report::testing::{self, HOSTILE, render};

/// With a histogram and windows for each run.
fn pictured(mut analysis: Analysis) -> Analysis {
    let sides = analysis.sides.len();
    for (at, work) in analysis.works.iter_mut().enumerate() {
        let run = |side: usize, round: u32| {
            let key = RunKey { round, cell: (at * sides + side) as u32 };
            CountedRun { plan: 0, order: round as usize * sides + side, key, round }
        };
        work.runs =
            (0..sides).map(|side| (0..10).map(|round| run(side, round)).collect()).collect();
    }
    let mut builder = PictureBuilder::new(&analysis);
    builder.take_source(0, "schema = 1 # <b>\u{1b}".to_string());
    for work in &analysis.works {
        for (side, run) in work
            .runs
            .iter()
            .enumerate()
            .flat_map(|(side, runs)| runs.iter().map(move |run| (side, run)))
        {
            let slower = 1 + side as u64;
            let counts = [(1_000 * slower, 900), (9_000 * slower, 90), (100_000, 10)];
            builder.take_latency(0, run.key, ("front", "wakeup"), &counts);
        }
    }
    let analysis_set =
        analysis.works.first().map_or(String::new(), |work| work.sets[0].name.clone());
    for wanted in 0..builder.wanted_timelines().len() {
        let window = |at: u64| WorkerWindow {
            end_at_ns: at * 1_000_000_000,
            wall_ns: 1_000_000_000,
            ops: 100 + at,
            cpu_ns: 500_000_000,
            peak_ns: 0,
        };
        let worker = |role: &str| WorkerWindows {
            set: analysis_set.clone(),
            role: role.to_string(),
            windows: (1..=5).map(window).collect(),
        };
        builder.take_timeline(wanted, vec![worker("worker"), worker("worker")]);
    }
    analysis.pictures = builder.finish();
    analysis
}

fn page(analysis: &Analysis) -> String {
    render(&HTML, analysis, Options::default())
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let page = page(&pictured(testing::ordinary()));
    for outside in ["http:", "https:", "<link", "<img", "@import", "url(", " src=", "javascript:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(
        page.contains("default-src &#x27;none&#x27;")
            && page.contains("prefers-color-scheme: dark")
    );
    for tag in ["section", "table", "tr", "svg", "figure", "details", "g", "dl", "ul", "main"] {
        let open =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn the_policy_is_of_what_the_page_has() {
    let page = page(&testing::ordinary());
    let between = |from: &str, to: &str| {
        let rest = &page[page.find(from).unwrap() + from.len()..];
        rest[..rest.find(to).unwrap()].to_string()
    };
    let (style, script) = (between("<style>", "</style>"), between("<script>", "</script>"));
    let policy = between("Security-Policy\" content=\"", "\">")
        .replace("&#x27;", "'")
        .replace("&#x2f;", "/");
    assert_eq!(policy, page::policy(&style, Some(&script), page::Forms::None));
}

#[test]
fn each_part_is_drawn_from_what_is_there() {
    let analysis = pictured(testing::explained());
    let page = page(&analysis);
    for title in [
        "Change of each headline metric against default",
        "web: throughput over threads",
        "web threads=2: wakeup latency, percentiles of all rounds",
        "web threads=2: wakeup latency, round by round",
        "web threads=2: throughput in the order measured",
        "web threads=2: throughput of each worker",
        "web threads=2: utilisation of each worker",
    ] {
        assert!(page.contains(&format!("<figcaption>{title}")), "{title}");
    }
    // This is the default's last sample counted with 9 us: the end of its bucket.
    assert!(page.contains("<td>9.02 us</td>"), "the data of the curve");
    assert!(page.contains("schema = 1 # &lt;b&gt;\\u{1b}"));
    assert!(page.contains(&format!("<code>{}</code>", analysis.command)));
    // Every verdict of the tables is in words.
    assert!(page.contains("BETTER") || page.contains("WORSE"));
}

/// The text between the first `<tag>` and its end.
fn inner<'p>(page: &'p str, tag: &str) -> &'p str {
    let rest = page.split(&format!("<{tag}>")).nth(1).unwrap();
    rest.split(&format!("</{tag}>")).next().unwrap()
}

#[test]
fn the_heading_of_a_comparison_names_the_baseline_last() {
    for (names, expected) in [
        (&["old", "new"][..], "new against old"),
        (&["old", "new", "newer"], "new and newer against old"),
        (&["a", "b", "c", "d"], "4 sides"),
    ] {
        let mut analysis = testing::nothing();
        analysis.plans = ["monday", "tuesday"].map(testing::plan).to_vec();
        analysis.sides = names.iter().map(|name| testing::side(name)).collect();
        let page = page(&analysis);
        assert!(inner(&page, "h1").ends_with(&format!(": {expected}")), "{}", inner(&page, "h1"));
    }
}

#[test]
fn several_plans_have_an_index_and_one_has_none() {
    let mut out = Vec::new();
    let analyses = [testing::ordinary(), testing::troubled()];
    HTML.render(&analyses, &Options::default(), &mut out).unwrap();
    let several = String::from_utf8(out).unwrap();
    let index = inner(&several, "ol");
    for (at, analysis) in analyses.iter().enumerate() {
        let place = format!("plan{}", at + 1);
        assert!(index.contains(&format!("<a href=\"#{place}\">")), "{index}");
        assert_eq!(several.matches(&format!("<article id=\"{place}\"")).count(), 1);
        assert!(analysis.plans.iter().all(|plan| index.contains(&plan.id)), "{index}");
    }
    assert!(!page(&analyses[0]).contains("\"#plan1\""));
}

#[test]
fn a_side_says_its_kernel_once() {
    let mut analysis = testing::ordinary();
    let side = &mut analysis.sides[1];
    side.kernels = vec!["debian:6.1 (6.1.0-49-amd64)".to_string()];
    for (knob, value) in [("kernel", "debian:6.1"), ("policy", "batch")] {
        side.variants[0].knobs.insert(knob.to_string(), Value::Text(value.to_string()));
    }
    let said = detail::about(&analysis, &analysis.sides[1]);
    assert_eq!(said.matches("kernel").count(), 1, "{said}");
    assert!(said.starts_with("policy batch; kernel debian:6.1 (6.1.0-49-amd64)"), "{said}");
    analysis.sides[1].kernels = vec!["6.18.5".to_string()];
    let said = detail::about(&analysis, &analysis.sides[1]);
    assert!(said.contains("kernel debian:6.1, policy batch; kernel 6.18.5"), "{said}");
}

#[test]
fn names_in_sentences_are_code_and_no_backtick_is_left() {
    let mut analysis = testing::ordinary();
    analysis.notes = testing::notes("a `b`");
    let page = page(&analysis);
    let notes = page.split("<ul class=\"notes\">").nth(1).unwrap().split("</ul>").next().unwrap();
    assert!(notes.contains("<code>") && !notes.contains('`'), "{notes}");
}

#[test]
fn a_page_without_pictures_has_its_tables() {
    for analysis in
        [testing::nothing(), testing::sides_only(), testing::ordinary(), testing::troubled()]
    {
        let page = page(&analysis);
        assert!(page.contains("<h2>Answer</h2>") && page.ends_with("</html>\n"));
        assert!(!page.contains("percentiles of all rounds"));
    }
    let mut out = Vec::new();
    HTML.render(&[], &Options::default(), &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("Nothing to report."));
}

#[test]
fn exact_results_have_seeds_and_a_digest_and_no_interval() {
    let exact = page(&pictured(testing::in_the_lab(0)));
    assert!(exact.contains("Digest of all values: ") && exact.contains("of 10 seeds)"));
    assert!(exact.contains("In brackets: how many seeds changed in the same direction"));
    assert!(!exact.contains("class=\"interval"));
    let mut other = pictured(testing::in_the_lab(0));
    other.works[0].sets[0].rows[0].cells[0].values[0].1 += 1e-9;
    let digest =
        |page: &str| page.split("Digest of all values: ").nth(1).unwrap()[..16].to_string();
    assert_ne!(digest(&exact), digest(&page(&other)));
    let measured = page(&pictured(testing::ordinary()));
    assert!(measured.contains("class=\"interval") && !measured.contains("Digest of all values"));
}

#[test]
fn names_from_outside_are_text() {
    let evil = "</style><script>alert(1)</script>\" onload=\"x\u{1b}[31m";
    for name in HOSTILE.into_iter().chain([evil]) {
        let page = page(&pictured(testing::hostile(name)));
        assert_eq!(page.matches("<script>").count(), 1, "{name}");
        assert!(!page.contains("\" onload") && !page.contains(['\u{1b}', '\0']), "{name}");
    }
}

#[test]
fn the_same_analysis_gives_the_same_bytes() {
    let analysis = pictured(testing::explained());
    assert_eq!(page(&analysis), page(&analysis.clone()));
}
