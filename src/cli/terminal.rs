//! What the terminal is: its width, whether it takes colour; and messages to it.

use std::io::{self, IsTerminal, Write};

use clap::Args;

use super::help;
use crate::model::clean_lines;
use crate::report::Options;
use crate::sys::{input, terminal_columns};

/// Columns when nothing says how many there are: what a mail takes.
const MAIL_COLUMNS: usize = 80;
const MAX_ANSWER_BYTES: u64 = 100;
/// A wider terminal is not filled, unless COLUMNS asks for it.
const MAX_COLUMNS: usize = 120;

/// How wide tables may be, for the subcommands that print them.
#[derive(Args, Clone, Copy, Default)]
pub struct Width {
    /// Columns of tables [default: COLUMNS, or the terminal's width, or 80]
    #[arg(long = "width", value_name = "COLUMNS", help_heading = help::SELDOM, value_parser = clap::value_parser!(u16).range(Options::MIN_WIDTH as i64..=Options::MAX_WIDTH as i64))]
    asked: Option<u16>,
}

impl Width {
    pub fn columns(self) -> usize {
        let environment = std::env::var("COLUMNS").ok();
        let of_terminal = || if io::stdout().is_terminal() { terminal_columns() } else { None };
        columns(self.asked.map(usize::from), environment.as_deref(), of_terminal)
    }
}

fn columns(
    asked: Option<usize>,
    environment: Option<&str>,
    of_terminal: impl Fn() -> Option<usize>,
) -> usize {
    let range = |columns: usize| columns.clamp(Options::MIN_WIDTH, Options::MAX_WIDTH);
    let environment = || environment?.trim().parse().ok().filter(|columns| *columns > 0);
    let wanted = asked.or_else(environment).map(range);
    wanted.unwrap_or_else(|| {
        of_terminal().map_or(MAIL_COLUMNS, |columns| range(columns).min(MAX_COLUMNS))
    })
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

/// Whether text may have more than ASCII, by the locale.
pub fn is_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|name| name.to_uppercase().replace('-', "").contains("UTF8"))
}

/// One message on standard error. If that is closed or full, nothing can be reported, and
/// what is being measured goes on.
/// Whatever the text names, from files, stores and guests, the terminal shows it and does not obey it.
pub fn message(text: &str) {
    _ = writeln!(io::stderr(), "{}", clean_lines(text));
}

/// Asks on the terminal.
pub fn agrees(question: &str) -> io::Result<bool> {
    write!(io::stderr(), "{} [y/N] ", clean_lines(question))?;
    let answer = input::lines(io::stdin().lock(), MAX_ANSWER_BYTES).next().transpose()?;
    let answer = answer.unwrap_or_default().trim().to_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_comes_from_the_option_then_columns_then_the_terminal() {
        let cases = [
            (Some(100), Some("90"), Some(70), 100),
            (None, Some("90"), Some(70), 90),
            (None, Some("300"), Some(70), 300),
            (None, Some("5"), None, Options::MIN_WIDTH),
            (None, Some("0"), Some(70), 70),
            (None, Some("wide"), None, MAIL_COLUMNS),
            (None, None, Some(70), 70),
            (None, None, Some(500), MAX_COLUMNS),
            (None, None, None, MAIL_COLUMNS),
        ];
        for (asked, environment, terminal, expected) in cases {
            assert_eq!(columns(asked, environment, || terminal), expected, "{environment:?}");
        }
    }
}
