//! Tests of the page: it stands alone, says what the text says, and lets nothing through.

use proptest::prelude::*;

use super::super::testing::{THREE_RUNS, parse};
use super::*;

fn page(source: &str, averages: Averages) -> String {
    let figures = parse(source).unwrap().figures(averages).unwrap();
    let mut out = Vec::new();
    write(&mut out, Path::new("a<b>.bench"), &figures, averages).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let page = page(THREE_RUNS, Averages::Right);
    assert_eq!(page.matches("<script>").count(), 1);
    for outside in ["http:", "https:", "<link", "<img", "@import", "url(", " src=", "javascript:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(
        page.contains("default-src &#x27;none&#x27;")
            && page.contains("prefers-color-scheme: dark")
    );
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</body>\n</html>\n"));
}

#[test]
fn each_run_has_its_table_and_its_charts() {
    let html = page(THREE_RUNS, Averages::Right);
    assert_eq!(html.matches("<section ").count(), 3);
    assert_eq!(
        html.matches("<svg class=\"chart wide\"").count(),
        4,
        "two of each run with windows"
    );
    assert_eq!(html.matches("<path class=\"worker ").count(), 2 * 2 * (1 + 4), "wide and narrow");
    assert!(
        html.contains("3 runs, 2 completed.") && html.contains("Averages of throughput (ttotal")
    );
    assert!(html.contains("Test [1] not run."));
    for cell in ["110017.96", "160843.12", "NaN"] {
        assert!(html.contains(&format!("<td>{cell}</td>")), "{cell}");
    }
    let original = page(THREE_RUNS, Averages::Original);
    assert!(original.contains("<td>161342.62</td>") && !original.contains("--original-averages"));
    for tag in ["section", "table", "tr", "td", "th", "svg", "figure", "details", "title", "ul"] {
        let open =
            html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn names_from_a_file_are_text_and_nothing_else() {
    let evil = r#"</style><script>alert('1')</script>\" onload=\"x\u0000\u001b"#;
    let source = format!(
        "{{\"Runs\":[{{\"Label\":\"{evil}\",\"WorkerSets\":[{{\"Params\":{{\"Args\":[\"{evil}\"]}},\"Count\":1}}],\
         \"Results\":{{\"Raw\":[{}]}}}}]}}",
        (1..4)
            .map(|at| format!("{{\"Id\":{{\"Set\":0,\"Id\":0}},\"Now\":{at}000000000,\"Kops\":{at},\"MaxDelta\":0,\"Cputime\":{at}}}"))
            .collect::<Vec<_>>()
            .join(",")
    );
    let page = page(&source, Averages::Right);
    assert_eq!(page.matches("<script").count(), 1, "its own");
    assert!(!page.contains("\" onload") && !page.contains("<b>"));
    assert!(!page.contains(['\0', '\u{1b}']));
    assert_eq!(
        page.matches("&lt;script&gt;").count(),
        19,
        "list, heading, words, eight of each picture"
    );
}

proptest! {
    #[test]
    fn lines_stay_in_their_picture(values in proptest::collection::vec(1i64..1_000_000, 3..20)) {
        let mut kops = 0;
        let reports = values.iter().zip(1i64..).map(|(more, at)| {
            kops += more;
            format!("{{\"Id\":{{\"Set\":0,\"Id\":0}},\"Now\":{},\"Kops\":{kops},\"MaxDelta\":0,\"Cputime\":0}}", at * more + at * 2_000_000)
        });
        let reports: Vec<String> = reports.collect();
        let source = format!("{{\"Runs\":[{{\"WorkerSets\":[{{\"Count\":1}}],\"Results\":{{\"Raw\":[{}]}}}}]}}", reports[..1].join(","));
        let none = parse(&source).unwrap().figures(Averages::Right).unwrap();
        prop_assert!(chart("", "", &none[0], throughput).is_none());
        let mut run = none[0].clone();
        let moments = values.iter().scan((0, 0), |(now_ns, kops), more| {
            (*now_ns, *kops) = (*now_ns + 1_000_000_000 + more, *kops + more * 7);
            Some(Report { set: 0, id: 0, now_ns: *now_ns, kops: *kops, max_delta_ns: 0, cputime_ns: Some(0) })
        });
        run.sets[0].workers[0].reports = moments.collect();
        let chart = chart("", "", &run, throughput).unwrap();
        for drawing in chart.drawings {
            let frame = drawing.frame;
            for point in drawing.marks[0].path.split(['M', 'L']).skip(1) {
                let (x, y) = point.split_once(' ').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                prop_assert!((frame.left..=frame.right).contains(&x), "{}", x);
                prop_assert!((frame.top..=frame.bottom).contains(&y), "{}", y);
            }
        }
    }
}
