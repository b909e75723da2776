//! Documents are right: sources have headers, links lead somewhere, the glossary points at types that exist,
//! and each dependency has a written reason.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::TokenTree;

use super::{Source, assert_none, code, code_and_tests, read, tracked, walk};
use crate::support::checkout;

#[test]
fn every_source_file_begins_with_its_purpose() {
    let findings = code_and_tests().iter().filter_map(missing_header).collect();
    assert_none("a file says nothing of its purpose:", findings);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let Some(paths) = tracked() else { return };
    let documents = paths.iter().filter(|path| path.ends_with(".md"));
    let broken = documents.flat_map(|path| {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let leads_nowhere = |target: &&str| !checkout().join(folder).join(target).exists();
        let text = read(path);
        let targets: Vec<&str> = links(&text).into_iter().map(|(_, target)| target).collect();
        let broken = targets.iter().filter(|target| leads_nowhere(target));
        broken.map(|target| format!("{path}: {target}")).collect::<Vec<_>>()
    });
    assert_none("a link leads nowhere:", broken.collect());
}

/// A link such as ``[`model::Cell`](../src/model/plan.rs)`` names an item of that file.
#[test]
fn items_that_documents_point_at_are_there() {
    let Some(paths) = tracked() else { return };
    let documents = paths.iter().filter(|path| path.ends_with(".md"));
    let mut seen = 0;
    let mut missing = Vec::new();
    for path in documents {
        let folder = checkout().join(path).parent().expect("a folder").to_path_buf();
        let text = read(path);
        for (label, target) in links(&text) {
            let (true, Some(item)) = (target.ends_with(".rs"), item(label)) else { continue };
            let source = std::fs::read_to_string(folder.join(target)).unwrap_or_default();
            seen += 1;
            if !defines(&source, item) {
                missing.push(format!("{path}: {target} has no `{item}`"));
            }
        }
    }
    assert_none("a document names an item that is not there:", missing);
    assert!(seen > 0, "the glossary points at types");
}

/// `cargo bench --bench hot -- --page` writes one of them anew.
#[test]
fn pages_of_figures_are_as_the_bench_writes_them() {
    let bench = read("benches/hot/page.rs");
    for path in ["docs/performance.md", "docs/simulations.md"] {
        let (_, page) =
            bench.split_once(&format!("file: \"{path}\",\n    head: \"\\\n")).expect(path);
        let (head, _) = page.split_once("\",\n").expect(path);
        assert!(read(path).starts_with(head), "{path} does not begin with its head in the bench");
    }
    let page = read("docs/performance.md");
    let missed = page.lines().filter_map(|line| line.strip_suffix(" | MISSED |"));
    let names = missed.map(|row| row.trim_start_matches("| ").split(" | ").next().expect("a name"));
    let unexplained = |name: &&str| {
        let lines = page.matches(&format!("\n| {name} | ")).count();
        lines < 2 || !bench.contains(&format!("\"{name}\""))
    };
    let findings = names.filter(unexplained).map(str::to_string).collect();
    assert_none("docs/performance.md and its bench do not say why these miss:", findings);
}

#[test]
fn every_dependency_has_its_reason_written_down() {
    let manifests: [toml::Table; 2] = ["Cargo.toml", "core/Cargo.toml"]
        .map(|path| read(path).parse().unwrap_or_else(|why| panic!("{path}: {why}")));
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = manifests
        .iter()
        .flat_map(|manifest| kinds.iter().filter_map(|kind| manifest.get(*kind)?.as_table()));
    let mut used: BTreeSet<&str> =
        tables.flat_map(|table| table.keys().map(String::as_str)).collect();
    assert!(used.remove("schedlab-core"), "the package above uses the one below");
    let document = read("docs/design/dependencies.md");
    let documented: BTreeSet<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name))
        .collect();
    assert_eq!(documented, used, "left: docs/design/dependencies.md, right: Cargo.toml");
}

/// Users who have only the binary have no folder `docs/`: texts name `schedlab help TOPIC`, and the topic exists.
#[test]
fn texts_name_topics_of_the_help_and_no_pages() {
    let mut findings = Vec::new();
    for source in code().iter().filter(|source| !source.path.contains("test")) {
        let mut texts = Vec::new();
        walk(&source.tokens, &mut |siblings| {
            texts.extend(siblings.iter().filter_map(|token| match token {
                TokenTree::Literal(literal) => {
                    Some((literal.span().start().line, literal.to_string()))
                }
                _ => None,
            }));
        });
        // Headers are for readers of the sources, who have the pages.
        let is_header = |line: usize| {
            source.text.lines().nth(line - 1).is_some_and(|text| text.starts_with("//!"))
        };
        for (line, text) in texts.into_iter().filter(|(line, _)| !is_header(*line)) {
            if text.contains("docs/") && text.contains(".md") && !text.contains("../docs/") {
                findings.push(source.finding(line, &text));
            }
            let named =
                text.match_indices("schedlab help ").map(|(at, mark)| &text[at + mark.len()..]);
            let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
            let names = named.map(|rest| rest.split(|c| !is_word(c)).next().unwrap_or_default());
            let missing = names.filter(|name| !name.is_empty() && !schedlab::cli::is_topic(name));
            findings.extend(missing.map(|name| source.finding(line, &format!("no topic {name}"))));
        }
    }
    assert_none("a text names a page, or a topic that is not there:", findings);
}

fn missing_header(source: &Source) -> Option<String> {
    let first = source.text.lines().next().unwrap_or("");
    let says = first.strip_prefix("//! ").is_some_and(|words| words.split(' ').count() > 1);
    (!says).then(|| source.finding(1, "the first line is no `//!` header"))
}

/// Label and target of each Markdown link into the repository, without its `#fragment`.
pub fn links(text: &str) -> Vec<(&str, &str)> {
    let closings = text.match_indices("](");
    closings
        .filter_map(|(at, mark)| {
            let label = text[..at].rsplit('[').next().unwrap_or("");
            let target = text[at + mark.len()..].split([')', '\n']).next()?;
            let target = target.split('#').next()?;
            (!target.is_empty() && !target.contains("://")).then_some((label, target))
        })
        .collect()
}

/// `Cell` of the label `` `model::Cell` ``; a label of other words names no item.
fn item(label: &str) -> Option<&str> {
    let path = label.strip_prefix('`')?.strip_suffix('`')?;
    let is_path = path.chars().all(|c| c.is_alphanumeric() || "_:".contains(c));
    (is_path && path.contains("::")).then(|| path.rsplit(':').next().unwrap_or(path))
}

fn defines(source: &str, item: &str) -> bool {
    let kinds = ["struct", "enum", "trait", "fn", "type", "const"];
    source.lines().any(|line| {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.any(|word| kinds.contains(&word))
            && line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == item)
    })
}

#[test]
fn headers_links_and_items_are_distinguished() {
    let headers = [
        ("//! What it is for.\nfn f() {}", true),
        ("// What it is for.\n", false),
        ("//!\nfn f() {}", false),
        ("//! x\n", false),
        ("use std::io;", false),
        ("", false),
    ];
    for (text, stands) in headers {
        assert_eq!(missing_header(&Source::new("src/x.rs", text)).is_none(), stands, "{text}");
    }
    let text = "See [a](b.md#c), [`m::T`](../m.rs), [web](https://docs.rs/x), [here](#there) \
                and [broken](d\n).";
    assert_eq!(links(text), [("a", "b.md"), ("`m::T`", "../m.rs"), ("broken", "d")]);
    assert_eq!(
        [item("`m::T`"), item("`T`"), item("m::T"), item("`m::T x`")][..],
        [Some("T"), None, None, None]
    );
    assert!(defines("pub struct Cell {", "Cell") && defines("pub trait Cell: Sync {", "Cell"));
    assert!(!defines("use x::Cell;", "Cell") && !defines("pub struct Cells;", "Cell"));
}
