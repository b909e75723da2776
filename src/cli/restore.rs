//! `schedlab restore`: undoes the changes of an interrupted run, and ends what it left. `run` does it by itself.

use std::io::Write;

use crate::report::clean;
use crate::session::{self, Leftover};
use crate::sys::scratch;
use crate::variant::{Restored, Undone};

use super::Failure;

pub fn run() -> Result<(), Failure> {
    let mut lines: Vec<String> = session::undo_leftovers()?.iter().map(describe).collect();
    lines.extend(session::fleet::cancel_left()?);
    // After the processes that write into them. A run removes these without a word.
    let removed = scratch::remove_abandoned();
    lines.extend(removed.iter().map(|path| format!("{} of a killed run: removed", path.display())));
    let mut out = std::io::stdout().lock();
    if lines.is_empty() {
        writeln!(out, "nothing to restore: no interrupted run has left anything changed")?;
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

pub fn describe(leftover: &Leftover) -> String {
    let restored = match leftover {
        Leftover::Change(restored) => restored,
        Leftover::Process { name, pid } => {
            return format!("{} (process {pid}) of a killed run: ended", clean(name));
        }
    };
    let outcome = match &restored.outcome {
        Undone::PutBack => "put back".to_string(),
        Undone::Ended(processes) => {
            let named = processes.iter().map(|(name, pid)| format!("{} ({pid})", clean(name)));
            format!("ended {}", named.collect::<Vec<_>>().join(", "))
        }
        Undone::NothingToDo => "nothing to do: never made, or undone already".to_string(),
        Undone::Rebooted => "gone with the boot that it was made in".to_string(),
        Undone::LeftAlone { why, command } => {
            let command = command.as_ref().map(|command| format!("; to undo it: {command}"));
            format!("left alone: {why}{}", command.unwrap_or_default())
        }
        Undone::Failed(why) => format!("NOT put back: {why}"),
    };
    let Restored { change, pid, .. } = restored;
    format!("{change} (process {pid}): {outcome}")
}
