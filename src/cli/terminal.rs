//! What the terminal is: its width, whether it takes colour.

use std::io::{self, IsTerminal, Write};

use crate::plan::PlanErrors;
use crate::sys::terminal_columns;

/// Columns when the output is not a terminal: what a mail takes.
const MAIL_COLUMNS: usize = 80;
const LEAST_COLUMNS: usize = 60;
const MOST_COLUMNS: usize = 120;

/// Columns for tables on standard output.
pub fn width() -> usize {
    let columns = if io::stdout().is_terminal() { terminal_columns() } else { None };
    columns.map_or(MAIL_COLUMNS, |columns| columns.clamp(LEAST_COLUMNS, MOST_COLUMNS))
}

/// Whether `stream` takes colour: a terminal, and neither NO_COLOR nor TERM=dumb.
pub fn color(stream: &impl IsTerminal) -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !no_color && !dumb
}

/// A line on standard error; one that is closed or full loses it, and nothing else.
pub fn tell(line: &str) {
    _ = writeln!(io::stderr().lock(), "{line}");
}

pub fn render_plan_errors(errors: &PlanErrors) -> String {
    errors.render(width(), color(&io::stderr()))
}
