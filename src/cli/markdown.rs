//! Markdown as the pages of docs/ use it, in blocks: for a terminal (`topics`) and for a browser (`book`). Pure.

/// A part of a page; its text still has the marks of Markdown within a line.
#[derive(Debug, PartialEq)]
pub enum Block<'a> {
    Heading {
        level: usize,
        text: &'a str,
    },
    Code(Vec<&'a str>),
    /// The first row is the head.
    Table(Vec<Vec<String>>),
    /// An item of a list behind its mark: `-`, `:` or `1.`.
    Item {
        mark: &'a str,
        text: String,
    },
    Paragraph(String),
    Blank,
}

pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let block = match (line, blocks.last_mut()) {
            _ if line.starts_with("```") => {
                Block::Code(lines.by_ref().take_while(|line| !line.starts_with("```")).collect())
            }
            (line, Some(Block::Table(rows))) if line.starts_with('|') => {
                if !line.starts_with("|--") {
                    rows.push(cells(line));
                }
                continue;
            }
            _ if line.starts_with('|') => Block::Table(vec![cells(line)]),
            _ if line.starts_with('#') => {
                let text = line.trim_start_matches('#');
                Block::Heading { level: line.len() - text.len(), text: text.trim() }
            }
            _ if line.trim().is_empty() => Block::Blank,
            (line, last) => match (item(line), last) {
                (Some((mark, text)), _) => Block::Item { mark, text: text.to_string() },
                (None, Some(Block::Item { text, .. } | Block::Paragraph(text))) => {
                    text.push(' ');
                    text.push_str(line.trim());
                    continue;
                }
                _ => Block::Paragraph(line.trim_end().to_string()),
            },
        };
        blocks.push(block);
    }
    blocks
}

/// The mark and the text of a line that begins an item of a list.
fn item(line: &str) -> Option<(&str, &str)> {
    let (mark, text) = line.split_once(' ')?;
    let is_number = mark.strip_suffix('.').is_some_and(|number| number.parse::<u32>().is_ok());
    (!text.is_empty() && (mark == "-" || mark == ":" || is_number)).then_some((mark, text))
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim().replace("\\|", "\u{1}");
    let line = line.strip_prefix('|').unwrap_or(&line);
    let cells = line.strip_suffix('|').unwrap_or(line).split('|');
    cells.map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// `before [label](target) after` in its four parts, at the first link; code has none.
pub fn link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (mut is_code, mut begin) = (false, None);
    for (at, c) in text.char_indices() {
        match c {
            '`' => is_code = !is_code,
            '[' if !is_code => begin = Some(at),
            ']' if !is_code => {
                let rest = text[at..].strip_prefix("](").and_then(|rest| rest.split_once(')'));
                if let (Some(begin), Some((target, after))) = (begin.take(), rest) {
                    return Some((&text[..begin], &text[begin + 1..at], target, after));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_blocks() {
        let text = "# T\none\n two\n- a\n  b\n2. c\n\n```sh\n# x\n```\n| h |\n|---|\n| a \\| b |\n";
        let paragraph = |text: &str| text.to_string();
        let expected = [
            Block::Heading { level: 1, text: "T" },
            Block::Paragraph(paragraph("one two")),
            Block::Item { mark: "-", text: paragraph("a b") },
            Block::Item { mark: "2.", text: paragraph("c") },
            Block::Blank,
            Block::Code(vec!["# x"]),
            Block::Table(vec![vec![paragraph("h")], vec![paragraph("a | b")]]),
        ];
        assert_eq!(blocks(text), expected);
        assert_eq!(link("`[a]`, [`[b]`](c) d"), Some(("`[a]`, ", "`[b]`", "c", " d")));
        assert_eq!(link("[a] (b), `[c](d)`"), None);
    }
}
