//! The terminal's width and colours, and messages to it.

use std::io::{self, IsTerminal, Write};

use unicode_width::UnicodeWidthStr;

use crate::model::clean_lines;
use crate::report::{Options, shortened, wrap};
use crate::sys::signal::OpenWait;
use crate::sys::{input, terminal_columns, tty};

/// Columns when nothing says how many there are: what a mail takes.
const MAIL_COLUMNS: usize = 80;
const MAX_ANSWER_BYTES: u64 = 100;
/// A wider terminal is not filled, unless COLUMNS asks for it.
const MAX_COLUMNS: usize = 120;

fn columns(environment: Option<&str>, of_terminal: impl Fn() -> Option<usize>) -> usize {
    let range = |columns: usize| columns.clamp(Options::MIN_WIDTH, Options::MAX_WIDTH);
    let asked = environment.and_then(|columns| columns.trim().parse().ok());
    asked.filter(|columns| *columns > 0).map(range).unwrap_or_else(|| {
        of_terminal().map_or(MAIL_COLUMNS, |columns| range(columns).min(MAX_COLUMNS))
    })
}

/// Columns for tables on standard output: COLUMNS, the terminal or 80.
pub fn width() -> usize {
    let environment = std::env::var("COLUMNS").ok();
    let of_terminal = || if io::stdout().is_terminal() { terminal_columns() } else { None };
    columns(environment.as_deref(), of_terminal)
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
    let columns = tty::size(&io::stderr()).map(|[columns, _]| columns.into()).ok();
    _ = writeln!(io::stderr(), "{}", wrapped(&clean_lines(text), columns));
}

/// The lines of a message in so many columns. A line with a command stays whole: the terminal breaks it, and it can be
/// pasted.
fn wrapped(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|columns| *columns > 0) else { return text.to_string() };
    let has_command = |line: &str| line.starts_with("hint: ") || line.contains("schedlab ");
    let lines =
        text.split('\n').flat_map(|line| match line.width() > columns && !has_command(line) {
            true => wrap(line, columns),
            false => vec![line.to_string()],
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces the line of standard error in which the cursor is; for terminals that redraw.
pub fn status(text: &str) {
    let columns = tty::size(&io::stderr()).map_or(MAIL_COLUMNS, |[columns, _]| columns.into());
    _ = write!(io::stderr(), "\r\x1b[2K{}", shortened(text, columns.saturating_sub(1)));
}

/// Asks on the terminal.
pub fn agrees(question: &str) -> io::Result<bool> {
    write!(io::stderr(), "{} [y/N] ", clean_lines(question))?;
    let _wait = OpenWait::begin();
    let answer = input::lines(io::stdin().lock(), MAX_ANSWER_BYTES).next().transpose()?;
    let answer = answer.unwrap_or_default().trim().to_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_wide_as_its_terminal_and_a_command_stays_whole() {
        let text = "error: a text that is long\nhint: schedlab run --backend lab";
        let expected = "error: a text that\nis long\nhint: schedlab run --backend lab";
        assert_eq!(wrapped(text, Some(20)), expected);
        assert_eq!(wrapped(text, None), text);
        assert_eq!(wrapped("see: schedlab help topics", Some(9)), "see: schedlab help topics");
    }

    #[test]
    fn the_width_comes_from_columns_then_the_terminal() {
        let cases = [
            (Some("90"), Some(70), 90),
            (Some("300"), Some(70), 300),
            (Some("5"), None, Options::MIN_WIDTH),
            (Some("0"), Some(70), 70),
            (Some("wide"), None, MAIL_COLUMNS),
            (None, Some(70), 70),
            (None, Some(500), MAX_COLUMNS),
            (None, None, MAIL_COLUMNS),
        ];
        for (environment, terminal, expected) in cases {
            assert_eq!(columns(environment, || terminal), expected, "{environment:?}");
        }
    }
}
