//! `schedlab help TOPIC`: the pages of docs/ are in the binary, since who has it alone has no folder of
//! them, nor has it SECURITY.md. Of a page its first section is printed, or all of it.

use std::io::{self, IsTerminal, Write};

use clap::builder::StringValueParser;
use clap::{Args, Command};

use super::book::book;
use super::markdown::{Block, blocks, link};
use super::{Failure, Offering, help, terminal};
use crate::report::{paragraph, wrap};

macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../docs/", $name, ".md")))),*]
    };
}

/// Each page of docs/, by the name of its file.
const PAGES: &[(&str, &str)] = pages![
    "bisect",
    "capture",
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
    "performance",
    "reliability",
    "report-formats",
    "rt-app",
    "schbench",
    "schedbench",
    "score",
    "scx",
    "select",
    "shards",
    "shared-cache",
    "simulations",
    "stability",
    "try",
    "turns",
    "tutorial",
    "twin",
    "verdict",
    "verdicts",
    "watch",
    "xen",
];

/// It stands where those look for it who have the sources.
const SECURITY: (&str, &str) = ("security", include_str!("../../SECURITY.md"));

/// Other words for them.
const ALIASES: &[(&str, &str)] = &[
    ("bounds", "verdict"),
    ("ci", "expect"),
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
/// The word for all pages and commands as one page for a browser.
const BOOK: &str = "book";
/// Pages that a newcomer reads first.
const FIRST: [&str; 6] = ["tutorial", "verdict", "try", "noise", "cookbook", "coming-from"];
/// A first section of fewer lines goes on to the end of the next.
const FEW_LINES: usize = 8;

#[derive(Args)]
pub struct HelpArgs {
    /// A topic or a command; `topics` lists them
    #[arg(value_name = "TOPIC", value_parser = topic(), hide_possible_values = true)]
    topic: Vec<String>,
    /// The whole page, not its first section
    #[arg(long)]
    all: bool,
}

/// Whether `help` has a text of this name.
pub fn is_topic(name: &str) -> bool {
    name == TOPICS || name == BOOK || page(name).is_some()
}

fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGES.iter().copied().chain([SECURITY])
}

/// The pages as the book has them.
pub fn in_order() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut others: Vec<_> = pages().filter(|(name, _)| !FIRST.contains(name)).collect();
    others.sort_unstable();
    FIRST.into_iter().filter_map(page).chain(others)
}

fn page(name: &str) -> Option<(&'static str, &'static str)> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, page)| page);
    pages().find(|(page, _)| *page == name)
}

/// The name of a topic, of which some have several words.
fn topic() -> Offering<StringValueParser> {
    Offering { parser: StringValueParser::new(), words: || pages().map(|(name, _)| name).collect() }
}

pub fn run(args: &HelpArgs, schedlab: &Command) -> Result<(), Failure> {
    let name = args.topic.join(" ");
    let commands = help::commands(schedlab);
    let mut out = io::stdout().lock();
    if name == BOOK && out.is_terminal() {
        return Err(Failure::usage("the book is HTML", "schedlab help book > schedlab.html"));
    }
    if name == BOOK {
        return Ok(write!(out, "{}", book(&in_order().collect::<Vec<_>>(), schedlab))?);
    }
    if name == TOPICS {
        let mut names: Vec<&str> = pages().map(|(name, _)| name).collect();
        names.sort_unstable();
        writeln!(out, "{}", wrap(&names.join(", "), terminal::width()).join("\n"))?;
        writeln!(out, "Each command is a topic, too: its options are printed")?;
        writeln!(out, "All of it for a browser: schedlab help book > schedlab.html")?;
        return Ok(());
    }
    let Some((page, text)) = page(&name) else {
        let known = pages().chain(ALIASES.iter().copied()).map(|(name, _)| name);
        let known = known.chain(commands.iter().map(String::as_str));
        return Err(Failure::unknown("topic or command", &name, known, "schedlab help topics"));
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
    for block in blocks(text) {
        match block {
            Block::Heading { text, .. } => lines.push(text.replace('`', "")),
            Block::Code(lines_of_code) => {
                lines.extend(lines_of_code.iter().flat_map(|line| code(line, columns)));
            }
            Block::Table(rows) => lines.extend(table(&rows, columns)),
            Block::Item { mark, text } => lines.extend(item(mark, &without_links(&text), columns)),
            Block::Paragraph(text) => lines.extend(wrap(&without_links(&text), columns)),
            Block::Blank => lines.push(String::new()),
        }
    }
    lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
    lines.join("\n").trim_end().to_string() + "\n"
}

/// A comment without room behind its code stands above it.
fn code(line: &str, columns: usize) -> Vec<String> {
    let line = format!("  {line}").trim_end().to_string();
    match line.rsplit_once(" # ") {
        Some((code, comment)) if line.chars().count() > columns && !code.trim().is_empty() => {
            let above = wrap(comment, columns.saturating_sub(4));
            let above = above.into_iter().map(|text| format!("  # {text}"));
            above.chain([code.trim_end().to_string()]).collect()
        }
        _ => vec![line],
    }
}

/// The lines below the first are indented by the mark.
fn item(mark: &str, text: &str, columns: usize) -> Vec<String> {
    paragraph(&format!("{mark} "), mark.len() + 1, text, columns)
}

/// In columns where they fit, else an item for each row. The head names the cells of rows that have more than two.
fn table(rows: &[Vec<String>], columns: usize) -> Vec<String> {
    const GAP: &str = "  ";
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| without_links(cell)).collect()).collect();
    let Some((head, others)) = rows.split_first() else { return Vec::new() };
    let shown = if head.iter().all(String::is_empty) { others } else { &rows };
    let cells = |at: usize| shown.iter().filter_map(move |row| row.get(at));
    let widths = (0..head.len()).map(|at| cells(at).map(|cell| cell.chars().count()).max());
    let widths: Vec<usize> = widths.map(Option::unwrap_or_default).collect();
    if widths.iter().sum::<usize>() + GAP.len() * (head.len() - 1) <= columns {
        let in_columns = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join(GAP).trim_end().to_string()
        };
        return shown.iter().map(in_columns).collect();
    }
    let mut lines = Vec::new();
    if let [first, second] = &head[..] {
        lines.extend(wrap(format!("{first}: {second}").trim_start_matches(": "), columns));
    }
    let mut subject = "";
    for row in others {
        // A row without a first cell is of the subject before.
        if let Some(first) = row.first().filter(|first| !first.is_empty()) {
            subject = first;
        }
        let mut named = head.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty());
        if head.len() <= 2 {
            let cell = named.next().map_or("", |(_, cell)| cell);
            lines.extend(item("-", &format!("{subject}: {cell}"), columns));
            continue;
        }
        lines.extend(item("-", subject, columns));
        lines.extend(named.flat_map(|(name, cell)| {
            let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
            paragraph("  ", 4, &format!("{name}{cell}"), columns)
        }));
    }
    lines
}

/// `[text](method.md#place)` is `text (schedlab help method)`, another link its text; nothing is bold.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, label, target, after)) = link(rest) {
        plain += before;
        let path = target.split('#').next().unwrap_or_default();
        let name = path.strip_prefix("docs/").unwrap_or(path).strip_suffix(".md");
        plain += &match name.filter(|name| pages().any(|(page, _)| page == *name)) {
            Some(name) if label.trim_end_matches(".md") == name => format!("schedlab help {name}"),
            Some(name) => format!("{label} (schedlab help {name})"),
            None => label.to_string(),
        };
        rest = after;
    }
    (plain + rest).replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_plain_in_a_terminal() {
        let text = "# Title\n\nSee [lab.md](lab.md#x), [the rest](verdicts.md) and [a site](https://example.org) \
                    **now**.\n\n```toml\n[a]\n```\n| | |\n|---|---|\n| `k` | a \\| b |\n\n- one\n  item\n- two\n";
        let expected = "Title\n\nSee schedlab help lab, the rest\n(schedlab help verdicts) and a\nsite now.\n\n  [a]\n`k`  a | b\n\n\
                        - one item\n- two\n";
        assert_eq!(plain(text, 32), expected);
    }

    #[test]
    fn a_comment_stands_above_code_behind_which_it_has_no_room() {
        let text = "```\nrun it   # now and here\n\n```\n";
        assert_eq!(plain(text, 40), "  run it   # now and here\n");
        assert_eq!(plain(text, 16), "  # now and here\n  run it\n");
    }

    #[test]
    fn a_table_has_columns_or_an_item_for_each_row_with_the_names_of_its_cells() {
        let text = "| | never | later |\n|---|---|---|\n| [web](lab.md) | 1 | |\n| | 3 | 4 |\n";
        let blank = " ".repeat(25);
        let columns = format!("{blank}never  later\nweb (schedlab help lab)  1\n{blank}3      4\n");
        let items = "- web (schedlab help lab)\n  never: 1\n- web (schedlab help lab)\n  never: 3\n  later: 4\n";
        assert_eq!(plain(text, 80), columns);
        assert_eq!(plain(text, 30), items);
        let text = "| load | share |\n|---|---|\n| a | so much of it |\n";
        assert_eq!(plain(text, 12), "load: share\n- a: so much\n  of it\n");
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
        for (name, text) in pages() {
            let shown = plain(first_section(text).0, 80);
            assert!(shown.lines().count() > 4, "{name}: {shown}");
            assert!(!shown.contains("]("), "{name}: {shown}");
            let wide = shown.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{name}");
        }
    }
}
