//! The page of a report in a real browser: hovered, toggled by key and by mouse, in both themes, on a
//! phone, printed, without a script, its charts taken alone, and looked over by axe.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::home::Home;
#[cfg(feature = "serve")]
use crate::serve::{Served, measure};
use crate::support::{checkout, skip, stderr};

const PLAN: &str = r#"
schema = 1
title = "<script>alert(1)</script> [31m"
[measure]
rounds = 10
duration = "1s"
[[variant]]
name = "default"
[[variant]]
name = "batch"
policy = "batch"
[[variant]]
name = "<b>idle</b>"
policy = "idle"
[[workload]]
name = "web"
use = "schbench"
threads = [2, 4]
"#;

/// The tools that drive a browser, or the missing one.
fn browser() -> Result<(PathBuf, &'static str), &'static str> {
    let modules = checkout().join("target/page");
    let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
    let Some(chromium) = chromium.into_iter().find(|path| Path::new(path).exists()) else {
        return Err("Chromium: sh scripts/need.sh page");
    };
    if modules.join("node_modules/playwright-core").is_dir() {
        Ok((modules, chromium))
    } else {
        Err("playwright-core: sh scripts/need.sh page")
    }
}

/// The observations of the page; `None` if no browser can be driven.
fn drive(test: &str, page: impl AsRef<OsStr>) -> Option<Value> {
    let (modules, chromium) = match browser() {
        Ok(found) => found,
        Err(needs) => {
            skip(needs);
            return None;
        }
    };
    let screenshots = checkout().join("target/page/screenshots").join(test);
    std::fs::create_dir_all(&screenshots).unwrap();
    let driven = Command::new("node")
        .arg(checkout().join("tests/page/drive.mjs"))
        .args([page.as_ref(), screenshots.as_ref()])
        .env("PAGE_MODULES", modules)
        .env("CHROMIUM", chromium)
        .output()
        .unwrap();
    assert!(driven.status.success(), "{}", stderr(&driven));
    Some(serde_json::from_slice(&driven.stdout).unwrap())
}

fn written(home: &Home, plan: &str, arguments: &[&str]) -> PathBuf {
    home.write("plan.toml", plan);
    let page = home.at("page.html");
    let words = ["run", "plan.toml", "--backend", "null", "-o", "page.html"];
    let said = home.both(None, &[&words[..], arguments].concat());
    assert!(page.exists(), "{said}");
    page
}

fn assert_sound(seen: &Value) {
    assert_eq!(seen["faults"], serde_json::json!([]), "errors of the page");
    assert_eq!(seen["serious"], serde_json::json!([]), "what axe finds");
    for width in ["overflow_1200", "overflow_400"] {
        assert!(seen[width].as_i64().unwrap() <= 0, "{width}: {}", seen[width]);
    }
    for place in ["at_1200", "at_400", "in_print"] {
        assert!(
            seen[place]["least"].as_f64() >= Some(9.0),
            "{place}: letters of {} px",
            seen[place]["least"]
        );
        assert_eq!(seen[place]["faults"], serde_json::json!([]), "{place}: letters of charts");
    }
    for (place, of_page, room) in
        [("at_1200", "full", "wide"), ("at_400", "narrow", "narrow"), ("in_print", "wide", "wide")]
    {
        let rooms = seen[place]["rooms"].as_array().unwrap();
        assert!(rooms.iter().all(|own| own == room || own == of_page), "{place}: {rooms:?}");
        // The list of a server has no answer.
        let is_visible = seen[place]["answer"].as_f64() <= Some(800.0);
        assert!(is_visible, "{place}: the answer ends at {}", seen[place]["answer"]);
    }
}

/// The first chart alone: a picture with its title and its subject, an image, and its numbers.
fn assert_taken(seen: &Value) {
    let taken = |kind: &str| [0, 1].map(|at| seen["taken"][kind][at].as_str().unwrap());
    let [name, text] = taken("SVG");
    assert_eq!(name, "Change-of-each-headline-metric-against-default.svg");
    let picture = roxmltree::Document::parse(text).expect("XML");
    let texts: Vec<&str> = picture.descendants().filter_map(|node| node.text()).collect();
    for word in
        ["Change of each headline metric", "<b>idle</b>", "web threads=2 throughput", "10 rounds"]
    {
        assert!(texts.iter().any(|text| text.contains(word)), "{word}: {texts:?}");
    }
    assert!(!text.contains("var(--"), "it has colours of its own");
    let [name, image] = taken("PNG");
    assert!(name.ends_with(".png") && image.starts_with("\u{89}PNG") && image.len() > 10_000);
    let [name, table] = taken("CSV");
    assert!(
        name.ends_with(".csv") && table.starts_with("\"metric\",\"better is\",\"side\""),
        "{table}"
    );
    // A change begins like a formula.
    assert!(table.contains("\"'-") || table.contains("\"'+"), "{table}");
}

#[test]
fn a_reader_can_hover_toggle_and_read_without_a_script() {
    let home = Home::new();
    let page = written(&home, PLAN, &[]);
    let Some(seen) = drive("page", &page) else { return };
    assert_sound(&seen);
    assert_taken(&seen);
    for place in ["at_1200", "at_400", "in_print"] {
        let share = seen[place]["share"].as_f64().unwrap();
        assert!(share > 0.99, "{place}: the chart of the answer takes {share} of the width");
    }
    let [label, tip] = [0, 1].map(|at| seen["hover"][at].as_str().unwrap());
    assert!(!label.is_empty() && label == tip, "{label} {tip}");
    let [first, second] = [0, 1].map(|at| seen["arrows"][at].as_str().unwrap());
    assert!(!first.is_empty() && !second.is_empty() && first != second, "{first} {second}");
    assert_eq!(seen["escaped"], "");
    assert_eq!(seen["toggle"], serde_json::json!(["visible", "hidden"]));
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("<script>alert(1)</script>") && text.contains("<b>idle</b>"), "{text}");
    assert!(seen["tables"].as_u64() > seen["charts"].as_u64() && seen["charts"].as_u64() > Some(4));
}

#[test]
fn a_page_of_one_run_and_a_page_of_failures_alone_are_sound() {
    let one = Home::new();
    let plan = "schema = 1\n[[variant]]\nname = \"default\"\n[[workload]]\nuse = \"spin\"\n";
    let page = written(&one, plan, &["--rounds", "1"]);
    let Some(seen) = drive("one", &page) else { return };
    assert_sound(&seen);
    let plan = "schema = 1\n[[variant]]\nname = \"default\"\n[[variant]]\nname = \"other\"\nnice = 1\n\
                [[workload]]\nuse = \"command\"\ncommand = [\"false\"]\n";
    let none = Home::with_plan(plan);
    let said = none.both(None, "run plan.toml --rounds 1 --duration 10ms -o page.html");
    let page = none.at("page.html");
    assert!(page.exists(), "{said}");
    let Some(seen) = drive("failed", &page) else { return };
    assert_sound(&seen);
    assert!(seen["text"].as_str().unwrap().contains("failed"));
}

#[test]
fn the_same_store_gives_the_same_page() {
    let home = Home::new();
    written(&home, PLAN, &[]);
    let again = |name: &str| {
        let report = home.ok(format!("report all,backend=null --format html -o {name}"));
        assert_eq!(report, "");
        home.read(name)
    };
    let (one, two) = (again("one.html"), again("two.html"));
    assert_eq!(one.replace("one.html", ""), two.replace("two.html", ""));
    let said = home.says(3, "report all,backend=null --format html -o no/such/x.html");
    assert!(said.contains("cannot write no/such/x.html"), "{said}");
    let plan = home.read("plan.toml");
    for file in ["plan.toml", "./plan.toml"] {
        let words = format!("run plan.toml --backend null --format text -o {file}");
        let said = home.says(2, words);
        assert!(said.contains("written over"), "{said}");
    }
    assert_eq!(home.read("plan.toml"), plan);
}

#[cfg(feature = "serve")]
#[test]
fn the_pages_of_a_server_are_sound() {
    let home = Home::new();
    (0..3).for_each(|_| measure(&home, "A title of several words that the list shows whole"));
    let served = Served::start(&home);
    let title = "A%20title%20of%20several%20words%20that%20the%20list%20shows%20whole";
    for (name, path) in
        [("served", "/".to_string()), ("history", format!("/history?title={title}"))]
    {
        let Some(seen) = drive(name, format!("http://localhost:{}{path}", served.port)) else {
            return;
        };
        assert_sound(&seen);
    }
}
