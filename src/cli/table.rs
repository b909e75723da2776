//! Tables of the subcommands that list things. Pure.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, TableStyle};

/// Names and what they are: as many lines as the text needs.
pub fn names(rows: Vec<Vec<String>>, width: usize) -> String {
    let mut table = empty(width);
    table.add_rows(rows);
    lines(&table)
}

/// One line for each row; `fixed` columns keep their width, the others are cut where they must be.
pub fn rows(header: &[&str], rows: Vec<Vec<String>>, fixed: &[&str], width: usize) -> String {
    let mut table = empty(width);
    let one_line = |cells: Vec<String>| {
        let mut row = Row::from(cells);
        row.max_height(1);
        row
    };
    table.set_header(one_line(header.iter().map(|name| name.to_string()).collect()));
    table.add_rows(rows.into_iter().map(one_line)).set_truncation_indicator("…");
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_padding((0, 2));
        if fixed.contains(name) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    lines(&table)
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
