//! Lines, tables and wrapped text of bounded width, clean and coloured where that is wanted. Pure.
//!
//! Names and reasons may come from outside (a plan that was sent, a database, a guest), so
//! [`clean`] stands between them and the terminal.

pub use comfy_table::CellAlignment as Align;
use comfy_table::{ContentArrangement, Table as Grid, TableStyle};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

pub use crate::model::{clean, is_active, replaced};

use super::Options;

/// A name from outside for a table: clean, and at most `columns` wide.
pub fn shortened(text: &str, columns: usize) -> String {
    clean(&cut(text, columns, clean, "…"))
}

/// The longest beginning of a text that fits `columns` once it is `plain`, followed by `sign` where
/// something is missing. It is not plain yet: a cut through what is would divide an escape.
pub fn cut(text: &str, columns: usize, plain: fn(&str) -> String, sign: &str) -> String {
    let fits = |text: &str| plain(text).width() <= columns;
    if fits(text) {
        return text.to_string();
    }
    let heads = text.char_indices().map(|(end, _)| format!("{}{sign}", &text[..end]));
    heads.take_while(|head| fits(head)).last().unwrap_or_default()
}

/// Lines of at most `columns`, broken at spaces but not before `%`; longer words break inside.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    paragraph("", 0, text, columns)
}

/// As [`wrap`], behind a label; the lines below it begin at column `indent`.
pub fn paragraph(label: &str, indent: usize, text: &str, columns: usize) -> Vec<String> {
    const NO_BREAK: &str = "\u{a0}%";
    let text = text.replace(" %", NO_BREAK);
    let [first, others] = [label.width(), indent].map(|columns| " ".repeat(columns));
    let options = textwrap::Options::new(columns.max(2))
        .initial_indent(&first)
        .subsequent_indent(&others)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let mut lines = textwrap::wrap(&text, options).into_iter();
    let first = lines.next().unwrap_or_default();
    let first = format!("{label}{}", first.get(label.width()..).unwrap_or_default());
    let lines = std::iter::once(first).chain(lines.map(String::from));
    lines.map(|line| line.replace(NO_BREAK, " %")).collect()
}

/// A command that a shell reads whole, also where it takes several lines. Where a word has no room behind the
/// label, it stands below it. One that is wider than the page is cut as by [`paragraph`].
pub fn command(label: &str, indent: usize, text: &str, columns: usize) -> Vec<String> {
    const BELOW: usize = 2;
    let below = || {
        let mut lines = vec![label.trim_end().to_string()];
        lines.extend(command_lines(&" ".repeat(BELOW), BELOW, text, columns));
        lines
    };
    let fits = |lines: &Vec<String>| lines.iter().all(|line| line.width() <= columns);
    let found = Some(command_lines(label, indent, text, columns)).filter(fits);
    let found = found.or_else(|| Some(below()).filter(fits));
    found.unwrap_or_else(|| paragraph(label, indent, text, columns))
}

/// A command in lines of `columns` behind a label, broken with `\` outside of quotes; longer words stand alone.
pub fn command_lines(label: &str, indent: usize, command: &str, columns: usize) -> Vec<String> {
    const GOES_ON: &str = " \\";
    let mut lines: Vec<String> = Vec::new();
    for word in shell_words(command) {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() + GOES_ON.len() <= columns => {
                line.extend([" ", word]);
            }
            Some(line) => {
                line.push_str(GOES_ON);
                lines.push(format!("{:indent$}{word}", ""));
            }
            None => lines.push(format!("{label}{word}")),
        }
    }
    lines
}

/// Words as they are written, quotes and all.
fn shell_words(command: &str) -> impl Iterator<Item = &str> {
    let (mut quote, mut escaped) = (None, false);
    let ends = move |c: char| {
        let is_plain = !escaped;
        escaped = c == '\\' && !escaped && quote != Some('\'');
        match quote {
            Some(open) if c == open && is_plain => quote = None,
            None if is_plain && (c == '\'' || c == '"') => quote = Some(c),
            None => return c == ' ' && is_plain,
            _ => {}
        }
        false
    };
    command.split(ends).filter(|word| !word.is_empty())
}

/// How a line is coloured, where lines are; as JSON the class that it has in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Tone {
    #[serde(rename = "")]
    Plain,
    #[serde(rename = "bold")]
    Bold,
    /// Something bears on the numbers.
    #[serde(rename = "bold")]
    Warning,
    /// Worse, or not measured.
    #[serde(rename = "bad")]
    Bad,
}

pub struct Page {
    width: usize,
    color: bool,
    text: String,
}

impl Page {
    pub fn new(options: &Options) -> Self {
        let width = options.width.clamp(Options::MIN_WIDTH, Options::MAX_WIDTH);
        Page { width, color: options.color, text: String::new() }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// One line that fits: to cut it here would lose numbers without a word.
    pub fn line(&mut self, tone: Tone, line: &str) {
        let sequence = match tone {
            _ if !self.color || line.is_empty() => "",
            Tone::Plain => "",
            Tone::Bold => "\x1b[1m",
            Tone::Warning => "\x1b[33m",
            Tone::Bad => "\x1b[31m",
        };
        let reset = if sequence.is_empty() { "" } else { "\x1b[0m" };
        self.text.push_str(&format!("{sequence}{line}{reset}\n"));
    }

    /// `label`, then `text` in as many lines as it takes, indented by the label.
    pub fn wrapped(&mut self, tone: Tone, label: &str, text: &str) {
        self.paragraph(tone, label, label.width(), text);
    }

    /// As [`paragraph`].
    pub fn paragraph(&mut self, tone: Tone, label: &str, indent: usize, text: &str) {
        for line in paragraph(label, indent, text, self.width) {
            self.line(tone, line.trim_end());
        }
    }

    /// As [`command`], with its label.
    pub fn command(&mut self, label: &str, indent: usize, text: &str) {
        let label = format!("{label:indent$}");
        for line in command(&label, indent, text, self.width) {
            self.line(Tone::Plain, line.trim_end());
        }
    }

    pub fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Where it is too wide, a paragraph for each row, in which the head names each cell.
    pub fn table(&mut self, table: &Table) {
        let lines = table.lines();
        if lines.iter().all(|(_, line)| line.width() <= self.width) {
            return lines.iter().for_each(|(tone, line)| self.line(*tone, line));
        }
        let Some(((_, head), rows)) = table.rows.split_first() else { return };
        rows.iter().for_each(|(tone, cells)| self.stacked(*tone, head, cells));
    }

    /// A row of a table that is too wide.
    pub fn stacked(&mut self, tone: Tone, head: &[String], cells: &[String]) {
        let cells = head.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
        let said: Vec<String> = cells.map(|(head, cell)| format!("{head} {cell}")).collect();
        self.wrapped(tone, "- ", &said.join(", "));
    }
}

/// A table of clean texts, wherever it is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Data {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Data {
    pub fn table(&self) -> Table {
        let columns = (0..self.head.len()).map(|at| (Align::Left, if at == 0 { 0 } else { 2 }));
        let mut table = Table::new(columns.collect());
        table.row(Tone::Bold, self.head.clone());
        self.rows.iter().for_each(|row| table.row(Tone::Plain, row.clone()));
        table
    }
}

/// The only table that reports lay out. Cells are clean and have one line.
#[derive(Default)]
pub struct Table {
    /// With a rule below its head.
    is_ruled: bool,
    /// The alignment of each column, and the spaces before it.
    columns: Vec<(Align, u16)>,
    rows: Vec<(Tone, Vec<String>)>,
}

impl Table {
    pub fn new(columns: Vec<(Align, u16)>) -> Table {
        Table { columns, ..Table::default() }
    }

    pub fn ruled(columns: Vec<(Align, u16)>) -> Table {
        Table { is_ruled: true, ..Table::new(columns) }
    }

    pub fn row(&mut self, tone: Tone, cells: Vec<String>) {
        self.rows.push((tone, cells));
    }

    pub fn lines(&self) -> Vec<(Tone, String)> {
        let mut grid = Grid::new();
        grid.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
        for (_, cells) in &self.rows {
            grid.add_row(cells.clone());
        }
        for (column, (align, gap)) in grid.column_iter_mut().zip(&self.columns) {
            column.set_padding((*gap, 0));
            column.set_cell_alignment(*align);
        }
        let lines = grid.lines().map(|line| line.trim_end().to_string());
        let mut lines: Vec<_> = self.rows.iter().map(|(tone, _)| *tone).zip(lines).collect();
        if self.is_ruled && !lines.is_empty() {
            let widest = lines.iter().map(|(_, line)| line.width()).max().unwrap_or(0);
            lines.insert(1, (Tone::Plain, "-".repeat(widest)));
        }
        lines
    }

    pub fn width(&self) -> usize {
        self.lines().iter().map(|(_, line)| line.width()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
