//! What the terminal is: its width, whether it takes colour; and messages to it.

use std::io::{self, IsTerminal, Write};

use crate::plan::PlanErrors;
use crate::report::Options;
use crate::sys::terminal_columns;

/// Columns when the output is not a terminal: what a mail takes.
const MAIL_COLUMNS: usize = 80;
const MAX_COLUMNS: usize = 120;

/// Columns for tables on standard output.
pub fn width() -> usize {
    let columns = if io::stdout().is_terminal() { terminal_columns() } else { None };
    columns.map_or(MAIL_COLUMNS, |columns| columns.clamp(Options::MIN_WIDTH, MAX_COLUMNS))
}

/// Whether `stream` takes colour: a terminal, and neither NO_COLOR nor TERM=dumb.
pub fn color(stream: &impl IsTerminal) -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    redraws(stream) && !no_color
}

/// Whether `stream` takes escape sequences: a terminal that is not TERM=dumb.
pub fn redraws(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// One message on standard error. If that is closed or full there is nobody to tell, and
/// what is being measured goes on.
pub fn tell(message: &str) {
    _ = writeln!(io::stderr(), "{message}");
}

pub fn render_plan_errors(errors: &PlanErrors) -> String {
    errors.render(width(), color(&io::stderr()))
}
