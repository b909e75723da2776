//! `schedlab help TOPIC`: the pages of docs/ are in the binary, since who has it alone has no folder of
//! them. Of a page its first section is printed, or all of it.

use std::io::{self, Write};

use clap::Args;

use super::{Failure, terminal};
use crate::report::wrap;
use crate::session::UnknownName;

macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../docs/", $name, ".md")))),*]
    };
}

/// Each page of docs/, by the name of its file.
const PAGES: &[(&str, &str)] = pages![
    "bisect",
    "coming-from",
    "commands",
    "compare",
    "cookbook",
    "doctor",
    "expect",
    "fidelity",
    "findings",
    "fleet",
    "formats",
    "glossary",
    "hunt",
    "kernel-build",
    "lab",
    "method",
    "muqss",
    "noise",
    "parquet",
    "report-formats",
    "schbench",
    "schedbench",
    "score",
    "scx",
    "select",
    "shards",
    "shared-cache",
    "stability",
    "try",
    "tutorial",
    "twin",
    "verdict",
    "verdicts",
    "watch",
    "xen",
];

/// Other words for them.
const ALIASES: &[(&str, &str)] = &[
    ("bounds", "verdict"),
    ("expectations", "expect"),
    ("fairness", "method"),
    ("kernels", "kernel-build"),
    ("last", "select"),
    ("plan", "tutorial"),
    ("probes", "score"),
    ("rounds", "noise"),
    ("selection", "select"),
    ("since", "select"),
    ("too-few", "verdict"),
];

/// The word that lists the names of all pages.
const TOPICS: &str = "topics";
/// A first section of fewer lines goes on to the end of the next.
const FEW_LINES: usize = 8;

#[derive(Args)]
pub struct HelpArgs {
    /// A topic or a command; `topics` lists them
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
    /// The whole page, not its first section
    #[arg(long)]
    all: bool,
}

/// Whether `help` has a text of this name.
pub fn is_topic(name: &str) -> bool {
    name == TOPICS || page(name).is_some()
}

fn page(name: &str) -> Option<(&'static str, &'static str)> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, page)| page);
    PAGES.iter().copied().find(|(page, _)| *page == name)
}

/// `commands`: what has a help of its own.
pub fn run(args: &HelpArgs, commands: &[String]) -> Result<(), Failure> {
    let name = args.topic.join(" ");
    let mut out = io::stdout().lock();
    if name == TOPICS {
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        writeln!(out, "{}", wrap(&names.join(", "), terminal::width()).join("\n"))?;
        writeln!(out, "Each command is a topic, too: its options are printed")?;
        return Ok(());
    }
    let Some((page, text)) = page(&name) else {
        let known = PAGES.iter().chain(ALIASES).map(|(name, _)| *name);
        let known = known.chain(commands.iter().map(String::as_str));
        return Err(
            UnknownName::new("topic or command", &name, known, "schedlab help topics").into()
        );
    };
    let (shown, is_all) = if args.all { (text, true) } else { first_section(text) };
    write!(out, "{}", plain(shown, terminal::width()))?;
    if !is_all {
        writeln!(out, "\nThe whole page: schedlab help {page} --all")?;
    }
    if commands.contains(&name) {
        writeln!(out, "Its options: schedlab {name} --help")?;
    }
    Ok(())
}

/// The text before the second heading, and whether that is all.
fn first_section(text: &str) -> (&str, bool) {
    let headings = text.match_indices("\n## ").map(|(at, _)| at + 1);
    let long = headings.into_iter().find(|at| text[..*at].lines().count() > FEW_LINES);
    long.map_or((text, true), |end| (&text[..end], false))
}

/// Markdown as a terminal shows it.
fn plain(text: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    let mut is_code = false;
    // The first cell of the row before.
    let mut subject = String::new();
    let end = |paragraph: &mut String, lines: &mut Vec<String>| {
        lines.extend(filled(&without_links(&std::mem::take(paragraph)), columns));
    };
    let mut all = text.lines().peekable();
    while let Some(line) = all.next() {
        let begins = line.starts_with(['#', '|']) || is_item(line);
        if line.starts_with("```") || is_code || begins || line.trim().is_empty() {
            end(&mut paragraph, &mut lines);
        }
        match line {
            _ if line.starts_with("```") => is_code = !is_code,
            _ if is_code => lines.push(format!("  {line}").trim_end().to_string()),
            _ if line.starts_with("|--") => {}
            _ if line.starts_with('|') => {
                let is_header = all.peek().is_some_and(|next| next.starts_with("|--"));
                paragraph = row(line, is_header, &mut subject);
            }
            _ if line.starts_with('#') => {
                lines.push(line.trim_start_matches('#').trim().replace('`', ""));
            }
            _ if line.trim().is_empty() => lines.push(String::new()),
            _ if paragraph.is_empty() => paragraph = line.trim_end().to_string(),
            _ => paragraph += &format!(" {}", line.trim()),
        }
    }
    end(&mut paragraph, &mut lines);
    lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
    lines.join("\n").trim_end().to_string() + "\n"
}

/// Whether a line begins an item of a list: `- `, `: ` or `1. `.
fn is_item(line: &str) -> bool {
    let (mark, rest) = line.split_once(' ').unwrap_or_default();
    let is_number = mark.strip_suffix('.').is_some_and(|of| of.parse::<u32>().is_ok());
    !rest.is_empty() && (mark == "-" || mark == ":" || is_number)
}

/// A row of a table: its first cell, then the others. A row without a first cell is of the subject before, and a header
/// without one names the columns.
fn row(line: &str, is_header: bool, subject: &mut String) -> String {
    let cells = line.trim().trim_matches('|').replace("\\|", "\u{1}");
    let mut cells = cells.split('|').map(|cell| cell.trim().replace('\u{1}', "|"));
    let first = cells.next().unwrap_or_default();
    let others = cells.collect::<Vec<_>>();
    match () {
        () if is_header && first.is_empty() && others.iter().all(String::is_empty) => {
            return String::new();
        }
        () if is_header && first.is_empty() => *subject = "columns".to_string(),
        () if !first.is_empty() => *subject = first,
        () => {}
    }
    format!("- {subject}: {}", others.join("; "))
}

/// A paragraph in lines; those below an item's first are indented.
fn filled(text: &str, columns: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let (mark, rest) = match is_item(text) {
        true => text.split_at(text.find(' ').map_or(0, |at| at + 1)),
        false => ("", text),
    };
    let lines = wrap(rest, columns.saturating_sub(mark.len())).into_iter().enumerate();
    let indent = " ".repeat(mark.len());
    lines.map(|(at, line)| format!("{}{line}", if at == 0 { mark } else { &indent })).collect()
}

/// `[text](method.md#place)` is `text (schedlab help method)`, another link its text; nothing is bold.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain += before;
        let Some((label, target)) = link.split_once("](").filter(|(label, _)| !label.contains('['))
        else {
            plain.push('[');
            rest = link;
            continue;
        };
        let (target, after) = target.split_once(')').unwrap_or((target, ""));
        let page = target.split('#').next().and_then(|target| target.strip_suffix(".md"));
        let page = page.filter(|name| page_of(name));
        match page {
            Some(name) if label.trim_end_matches(".md") == name => {
                plain += &format!("schedlab help {name}");
            }
            Some(name) => plain += &format!("{label} (schedlab help {name})"),
            None => plain += label,
        }
        rest = after;
    }
    (plain + rest).replace("**", "")
}

fn page_of(name: &str) -> bool {
    PAGES.iter().any(|(page, _)| *page == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_plain_in_a_terminal() {
        let text = "# Title\n\nSee [lab.md](lab.md#x), [the rest](verdicts.md) and [a site](https://example.org) \
                    **now**.\n\n```toml\n[a]\n```\n| | |\n|---|---|\n| `k` | a \\| b |\n\n- one\n  item\n- two\n";
        let expected = "Title\n\nSee schedlab help lab, the rest\n(schedlab help verdicts) and a\nsite now.\n\n  [a]\n- `k`: a | b\n\n\
                        - one item\n- two\n";
        assert_eq!(plain(text, 32), expected);
        let table = "| | fifo | vtime |\n|---|---|---|\n| web | 1 | 2 |\n| | 3 | 4 |\n\n| load | share |\n|---|---|\n| a | b |\n";
        let expected =
            "- columns: fifo; vtime\n- web: 1; 2\n- web: 3; 4\n\n- load: share\n- a: b\n";
        assert_eq!(plain(table, 80), expected);
    }

    #[test]
    fn a_section_ends_before_the_next_heading_unless_it_is_short() {
        assert_eq!(first_section("# T\nx\n## A\ny\n"), ("# T\nx\n## A\ny\n", true));
        let long = format!("# T\n{}## A\ny\n", "x\n".repeat(FEW_LINES));
        assert_eq!(first_section(&long), (&long[..long.len() - "## A\ny\n".len()], false));
    }

    #[test]
    fn every_page_has_a_topic_whose_text_fits_a_screen() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");
        let files = std::fs::read_dir(docs).unwrap().map(|file| file.unwrap().file_name());
        let files = files.filter_map(|name| name.to_str()?.strip_suffix(".md").map(str::to_string));
        let mut files: Vec<String> = files.collect();
        files.sort();
        assert_eq!(PAGES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), files);
        for (alias, name) in ALIASES {
            assert!(page(name).is_some() && !files.contains(&alias.to_string()), "{alias}");
        }
        for (name, text) in PAGES {
            let shown = plain(first_section(text).0, 80);
            assert!(shown.lines().count() > 4, "{name}: {shown}");
            assert!(!shown.contains("]("), "{name}: {shown}");
        }
    }
}
