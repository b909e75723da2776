//! Findings in plain words for a terminal. Pure.

use super::{Finding, Level};

/// The words of levels, all of one width, and their ANSI colour.
fn label(level: Level) -> (&'static str, &'static str) {
    match level {
        Level::Blocks => ("BLOCKS  ", "\x1b[1;31m"),
        Level::Disturbs => ("DISTURBS", "\x1b[33m"),
        Level::Note => ("NOTE    ", "\x1b[36m"),
        Level::Good => ("GOOD    ", "\x1b[32m"),
    }
}

const INDENT: &str = "          ";

/// Findings in the order given, at most `width` columns wide but for commands, which are
/// never broken so that they can be pasted. The first line is a count.
pub fn render(findings: &[Finding], width: usize, color: bool) -> String {
    let mut text = wrap(&count(findings), width + INDENT.len()).join("\n");
    text.push_str("\n\n");
    for finding in findings {
        let (word, ansi) = label(finding.level);
        let (on, off) = if color { (ansi, "\x1b[0m") } else { ("", "") };
        let mut lines = wrap(&format!("{}: {}", finding.name, finding.what), width).into_iter();
        let first = lines.next().unwrap_or_default();
        text.push_str(&format!("{on}{word}{off}  {first}\n"));
        let rest = lines.chain(wrap(&finding.why, width));
        rest.for_each(|line| text.push_str(&format!("{INDENT}{line}\n")));
        if let Some(command) = &finding.fix {
            text.push_str(&format!("{INDENT}$ {command}\n"));
        }
        if finding.level != Level::Good {
            text.push('\n');
        }
    }
    text
}

fn count(findings: &[Finding]) -> String {
    let of = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let blocks = match of(Level::Blocks) {
        0 => String::new(),
        some => format!("{some} in the way, "),
    };
    let disturbs = of(Level::Disturbs);
    let disturb = if disturbs == 1 { "disturbs" } else { "disturb" };
    let has_commands = findings.iter().any(|finding| finding.fix.is_some());
    let lasting = if has_commands { " Most commands last until the next boot." } else { "" };
    format!(
        "{blocks}{disturbs} {disturb}, {} to note, {} good.{lasting}",
        of(Level::Note),
        of(Level::Good)
    )
}

/// Breaks at spaces, so that a line with the indent fits; a longer word stays whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(INDENT.len()).max(20);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}
