//! `schedlab help book`: all pages of docs/ and the options of all commands as one page for a browser, which needs no
//! network and no other file. The browser's own search finds words in it. Pure.

use clap::Command;
use minijinja::HtmlEscape;

use super::help;
use super::markdown::{Block, blocks, link};

const BEGIN: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width\">\n<title>schedlab</title>\n<style>\n\
:root { color-scheme: light dark; font: 16px/1.5 sans-serif }\n\
body { margin: 0 auto; padding: 1rem; max-width: 50rem }\n\
nav { columns: 12rem }\nnav a { display: block }\n\
h1 { border-top: 1px solid; margin-top: 4rem; padding-top: 1rem }\n\
pre { overflow-x: auto; border: 1px solid; padding: .5rem; font-size: .8rem }\n\
table { display: block; overflow-x: auto; border-collapse: collapse }\n\
th, td { border: 1px solid; padding: .2rem .5rem; text-align: left; vertical-align: top }\n</style>\n";

/// `pages`: each with its name, in their order.
pub fn book(pages: &[(&str, &str)], schedlab: &Command) -> String {
    let names: Vec<&str> = pages.iter().map(|(name, _)| *name).collect();
    let commands = commands(schedlab);
    let mut html = format!("{BEGIN}<nav>\n");
    let mut entry = |id: &str, title: &str| {
        html.push_str(&format!("<a href=\"#{id}\">{}</a>\n", HtmlEscape(title)));
    };
    names.iter().for_each(|name| entry(name, name));
    commands.iter().for_each(|(path, _)| entry(&slug(path), path));
    html.push_str("</nav>\n");
    for (name, text) in pages {
        page(&mut html, name, text, &names);
    }
    for (path, help) in &commands {
        let (id, help) = (slug(path), HtmlEscape(help));
        html.push_str(&format!("<h1 id=\"{id}\">{}</h1>\n<pre>{help}</pre>\n", HtmlEscape(path)));
    }
    html
}

/// Each command with all of its options, and those within it.
fn commands(schedlab: &Command) -> Vec<(String, String)> {
    fn collect(command: &mut Command, found: &mut Vec<(String, String)>) {
        let shown = command.get_subcommands_mut().filter(|command| !command.is_hide_set());
        for command in shown {
            let path = command.get_bin_name().unwrap_or_default().to_string();
            found.push((
                path,
                help::lay_out(command.clone()).render_help().to_string().trim_end().to_string(),
            ));
            collect(command, found);
        }
    }
    let mut schedlab = schedlab.clone().disable_help_subcommand(true).term_width(100);
    schedlab.build();
    let mut found = Vec::new();
    collect(&mut schedlab, &mut found);
    found
}

fn page(html: &mut String, name: &str, text: &str, names: &[&str]) {
    let inline = |text: &str| inline(text, name, names);
    let mut list = None;
    for block in blocks(text) {
        let tag = match &block {
            Block::Item { mark: "-", .. } => Some("ul"),
            Block::Item { mark, .. } if *mark != ":" => Some("ol"),
            _ => None,
        };
        if tag != list {
            let [end, begin] = [(list, "/"), (tag, "")]
                .map(|(tag, sign)| tag.map(|tag| format!("<{sign}{tag}>\n")).unwrap_or_default());
            html.push_str(&(end + &begin));
            list = tag;
        }
        html.push_str(&match block {
            Block::Heading { level: 1, text } => {
                format!("<h1 id=\"{name}\">{}</h1>\n", inline(text))
            }
            Block::Heading { level, text } => {
                format!("<h{level} id=\"{name}-{}\">{}</h{level}>\n", slug(text), inline(text))
            }
            Block::Code(lines) => format!("<pre>{}</pre>\n", HtmlEscape(&lines.join("\n"))),
            Block::Table(rows) => table(&rows, inline),
            Block::Item { mark, text } => match mark.strip_suffix('.') {
                Some(number) => format!("<li value=\"{number}\">{}</li>\n", inline(&text)),
                None if mark == ":" => format!("<p>{}</p>\n", inline(&text)),
                None => format!("<li>{}</li>\n", inline(&text)),
            },
            Block::Paragraph(text) => format!("<p>{}</p>\n", inline(&text)),
            Block::Blank => String::new(),
        });
    }
    if let Some(tag) = list {
        html.push_str(&format!("</{tag}>\n"));
    }
}

fn table(rows: &[Vec<String>], inline: impl Fn(&str) -> String) -> String {
    let row = |(at, cells): (usize, &Vec<String>)| {
        let tag = if at == 0 { "th" } else { "td" };
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", inline(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    format!("<table>\n{}</table>\n", rows.iter().enumerate().map(row).collect::<String>())
}

/// Links, code, bold and emphasis of a text.
fn inline(text: &str, page: &str, names: &[&str]) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some((before, label, target, after)) = link(rest) {
        html.push_str(&escaped(before));
        html.push_str(&match href(target, page, names) {
            Some(href) => format!("<a href=\"{}\">{}</a>", HtmlEscape(&href), escaped(label)),
            None => escaped(label),
        });
        rest = after;
    }
    html.push_str(&escaped(rest));
    toggled(&toggled(&html, "**", "b"), "*", "em").replace('\u{1}', "*")
}

/// A text without links. Marks of emphasis stay, those in code are put out of the way.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => HtmlEscape(&part.replace('\\', "")).to_string(),
        _ => format!("<code>{}</code>", HtmlEscape(&part.replace('*', "\u{1}"))),
    });
    parts.collect()
}

/// Every second `mark` ends what the one before begins.
fn toggled(html: &str, mark: &str, tag: &str) -> String {
    let mut parts = html.split(mark).enumerate();
    let first = parts.next().map_or("", |(_, part)| part).to_string();
    parts.fold(first, |html, (at, part)| {
        let sign = if at % 2 == 1 { "" } else { "/" };
        format!("{html}<{sign}{tag}>{part}")
    })
}

/// Where a link of a page leads within the book, or to a site; files of the repository are not in it.
fn href(target: &str, page: &str, names: &[&str]) -> Option<String> {
    if target.contains("://") {
        return Some(target.to_string());
    }
    let (path, place) = target.split_once('#').unwrap_or((target, ""));
    let path = path.strip_prefix("docs/").unwrap_or(path);
    let name = if path.is_empty() { page } else { path.strip_suffix(".md")? };
    let id = if place.is_empty() { name.to_string() } else { format!("{name}-{place}") };
    names.contains(&name).then(|| format!("#{id}"))
}

/// A heading as the hosts of repositories make a place in a page of it.
fn slug(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_page_becomes_html() {
        let text = "# T\n\nSee **[`[a]`](#b-c) <x>** and `<*>`:\n- *one*\n- [s](../src/x.rs)\n\n## B, c\n2. n\n\n| h |\n|---|\n| `1` |\n";
        let mut html = String::new();
        page(&mut html, "p", text, &["p"]);
        let expected = "<h1 id=\"p\">T</h1>\n\
            <p>See <b><a href=\"#p-b-c\"><code>[a]</code></a> &lt;x&gt;</b> and <code>&lt;*&gt;</code>:</p>\n\
            <ul>\n<li><em>one</em></li>\n<li>s</li>\n</ul>\n<h2 id=\"p-b-c\">B, c</h2>\n<ol>\n<li value=\"2\">n</li>\n</ol>\n\
            <table>\n<tr><th>h</th></tr>\n<tr><td><code>1</code></td></tr>\n</table>\n";
        assert_eq!(html, expected);
    }

    #[test]
    fn every_link_of_the_book_leads_somewhere() {
        let pages: Vec<_> = crate::cli::topics::in_order().collect();
        let html = book(&pages, &crate::cli::command());
        let values = |name: &str| -> Vec<&str> {
            let parts = html.split(name).skip(1);
            parts.filter_map(|rest| rest.split('"').next()).collect()
        };
        let ids = values(" id=\"");
        let places: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(places.len(), ids.len(), "two places have one name");
        assert!(!places.contains(""), "a place has no name");
        let broken: Vec<_> =
            values("href=\"#").into_iter().filter(|to| !places.contains(to)).collect();
        assert!(broken.is_empty(), "{broken:?}");
        for wanted in ["tutorial", "security", "schedlab-kernel-get", "lab-what-can-go-wrong"] {
            assert!(places.contains(wanted), "{wanted}");
        }
        for tag in ["b", "em", "code", "ul", "ol", "table", "p"] {
            let [begun, ended] =
                ["", "/"].map(|sign| html.matches(&format!("<{sign}{tag}>")).count());
            assert_eq!(begun, ended, "{tag}");
        }
    }
}
