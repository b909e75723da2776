//! Tables of the subcommands that list things. Pure.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{ContentArrangement, Table, TableStyle};
use unicode_width::UnicodeWidthStr;

use crate::report::numbers::percent;
use crate::report::{distinct_names, shortened, wrap};

/// Names and what they are: as many lines as the text needs.
pub fn names(rows: Vec<Vec<String>>, width: usize) -> String {
    let mut table = empty(width);
    table.add_rows(rows);
    lines(&table)
}

/// A text in as many lines as it needs.
pub fn wrapped(text: &str, width: usize) -> String {
    wrap(text, width).iter().map(|line| format!("{line}\n")).collect()
}

/// The chance of an error.
pub fn chance(error: f64) -> String {
    match error {
        error if error < 1e-4 => "under 0.01 %".to_string(),
        error => percent(error),
    }
}

/// How columns of a table share its width.
#[derive(Default)]
pub struct Columns<'a> {
    /// They are never cut. Of the others the widest is.
    pub fixed: &'a [&'a str],
    /// It is cut only when it is twice as wide as the others, and below twice the least room only where
    /// no other can be left out.
    pub main: &'a str,
    /// They are left out, the first one first, where the others have no room.
    pub spare: &'a [&'a str],
}

/// One line for each row. Columns without any text are left out.
pub fn rows(header: &[&str], rows: Vec<Vec<String>>, columns: &Columns, width: usize) -> String {
    const GAP: usize = 2;
    const MIN_CUT: usize = 3;
    /// With less of a text a column of another kind is left out.
    const ROOM: usize = 12;
    let has_text = |at: &usize| rows.is_empty() || rows.iter().any(|row| !row[*at].is_empty());
    let mut taken: Vec<usize> = (0..header.len()).filter(has_text).collect();
    let header_row: Vec<String> = header.iter().map(|name| name.to_string()).collect();
    let all: Vec<Vec<String>> = std::iter::once(header_row).chain(rows).collect();
    let of_column = |at: usize| all.iter().map(|row| row[at].width()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..header.len()).map(of_column).collect();
    let is_fixed = |at: usize| columns.fixed.contains(&header[at]);
    for name in columns.spare {
        let room = |at: &usize| match header[*at] {
            _ if is_fixed(*at) => widths[*at],
            name if name == columns.main => widths[*at].min(2 * ROOM),
            _ => widths[*at].min(ROOM),
        };
        if taken.iter().map(|at| room(at) + GAP).sum::<usize>() > width + GAP {
            taken.retain(|at| header[*at] != *name);
        }
    }
    while taken.iter().map(|at| widths[*at] + GAP).sum::<usize>() > width + GAP {
        let may_be_cut = |at: &usize| !is_fixed(*at) && widths[*at] > MIN_CUT;
        let widest = taken.iter().copied().filter(may_be_cut).max_by_key(|at| {
            if header[*at] == columns.main { widths[*at] / 2 } else { widths[*at] }
        });
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
    }
    let cut: Vec<BTreeMap<&str, String>> =
        (0..widths.len()).map(|at| distinct(&all, at, widths[at])).collect();
    let line = |row: &Vec<String>| {
        let cells = taken.iter().map(|&at| {
            let (text, width) = (&row[at], widths[at]);
            let cut = cut[at].get(text.as_str()).cloned();
            let text = cut.unwrap_or_else(|| shortened(text, width));
            let fill = width + GAP - text.width();
            format!("{text}{:fill$}", "")
        });
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    all.iter().map(line).collect()
}

/// Texts of a column that would be shown alike, with what is shown of them.
fn distinct(rows: &[Vec<String>], column: usize, width: usize) -> BTreeMap<&str, String> {
    // Each is compared with each.
    const MAX_ALIKE: usize = 50;
    let mut alike: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for text in rows.iter().map(|row| row[column].as_str()) {
        alike.entry(shortened(text, width)).or_default().insert(text);
    }
    let alike = alike.into_values().filter(|texts| (2..=MAX_ALIKE).contains(&texts.len()));
    let texts = alike.map(|texts| texts.into_iter().collect::<Vec<_>>());
    texts.flat_map(|texts| texts.clone().into_iter().zip(distinct_names(&texts, width))).collect()
}

fn empty(width: usize) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    table
}

/// Without the blanks that fill the last column.
fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Titles differ where they end.
    #[test]
    fn what_begins_alike_is_cut_where_it_is_alike() {
        let titles =
            ["The web server under load, nice", "The web server under load, batch", "Other"];
        let own = titles.map(|title| vec![title.to_string(), "complete".to_string()]).to_vec();
        let columns = Columns { fixed: &["end"], main: "title", spare: &[] };
        let table = rows(&["title", "end"], own, &columns, 30);
        let shown: Vec<&str> = table.lines().skip(1).collect();
        assert!(shown[0].contains("nice") && shown[1].contains("batch"), "{table}");
        assert!(shown[0].contains('…') && shown.iter().all(|line| line.width() <= 30), "{table}");
        assert!(shown[2].starts_with("Other "), "{table}");
    }

    #[test]
    fn the_widest_columns_are_cut_until_the_table_fits() {
        let row = ["20261122", "a long title of many words", "6.18.44", "", "complete"];
        let row: Vec<String> = row.iter().map(|cell| cell.to_string()).collect();
        let columns = Columns { fixed: &["id", "end"], main: "kernel", spare: &["kernel"] };
        let header = ["id", "title", "kernel", "tag", "end"];
        let table = |width| rows(&header, vec![row.clone()], &columns, width);
        assert_eq!(
            table(80).lines().nth(1),
            Some("20261122  a long title of many words  6.18.44  complete")
        );
        assert_eq!(table(41).lines().nth(1), Some("20261122  a long titl…  6.18.44  complete"));
        assert_eq!(table(40).lines().nth(1), Some("20261122  a long title of man…  complete"));
        // A column goes before a title is cut to less than two of its words.
        let long = [
            "20261122",
            "a long title of many words that goes on",
            "6.18.44-cloud",
            "",
            "complete",
        ];
        let long: Vec<String> = long.iter().map(|cell| cell.to_string()).collect();
        let titled = Columns { main: "title", ..columns };
        let found = rows(&header, vec![long], &titled, 50);
        assert_eq!(
            found.lines().nth(1),
            Some("20261122  a long title of many words th…  complete")
        );
        for width in 30..80 {
            let table = table(width);
            assert!(table.lines().all(|line| line.width() <= width), "{width}: {table}");
        }
    }
}
