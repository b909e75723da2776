//! `schedlab restore`: undo what an interrupted run left changed. `run` does it by itself.

use std::io::Write;

use crate::sys::{self, Host};
use crate::variant::{self, Restored, Undone};

use super::Failure;

pub fn run() -> Result<(), Failure> {
    let told = undo_leftovers()?;
    let mut out = std::io::stdout().lock();
    if told.is_empty() {
        writeln!(out, "nothing to restore: no interrupted run has left anything changed")?;
    }
    for line in told {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn tell(restored: &Restored) -> String {
    let became = match &restored.outcome {
        Undone::PutBack => "put back".to_string(),
        Undone::NothingToDo => "nothing to do: never made, or undone already".to_string(),
        Undone::Rebooted => "gone with the boot that it was made in".to_string(),
        Undone::LeftAlone(why) => format!("left alone: {why}"),
        Undone::Failed(why) => format!("NOT put back: {why}"),
    };
    let Restored { change, pid, .. } = restored;
    format!("{change} (process {pid}): {became}")
}

/// Undoes what processes that are dead left changed; says what was done, a line each.
pub fn undo_leftovers() -> Result<Vec<String>, Failure> {
    let state = sys::state_dir().map_err(|why| Failure::Here(why.into()))?;
    let restored = variant::restore(&state, &Host::default())
        .map_err(|error| Failure::Here(error.to_string().into()))?;
    Ok(restored.iter().map(tell).collect())
}
