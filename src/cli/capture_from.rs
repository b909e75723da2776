//! The traces of `schedlab capture --from`: files of other tools in place of a recording.

use std::path::Path;

use crate::compat::trace::{self, ForeignTrace};
use crate::model::{Trace, TracedTask, clean, clean_path};
use crate::report::numbers::counted;
use crate::session::SessionError;
use crate::sys::{input, remedy};

use super::{Failure, terminal};

/// The trace of this file.
pub fn read(path: &Path) -> Result<Trace, Failure> {
    let bytes = input::read_named(path, trace::MAX_BYTES).map_err(|error| {
        let text = format!("cannot read the trace `{}`: {error}", clean_path(path));
        SessionError::unread(text, remedy::read(path, &error), &error)
    })?;
    let ForeignTrace { trace, knows_interrupts, is_cut_off, has_deadline } = trace::read(&bytes)
        .map_err(|wrong| {
            Failure::usage(format!("{}: {}", clean_path(path), wrong.message), wrong.hint)
        })?;
    if is_cut_off {
        terminal::message(
            "note: the file ends within a line or a packet, which is left out: is it complete?",
        );
    }
    if !knows_interrupts {
        let text = "note: the trace does not show interrupts: what they woke counts as woken by the task that they \
                    interrupted; text of trace-cmd and ftrace shows them";
        terminal::message(text);
    }
    if has_deadline {
        terminal::message(
            "note: the trace has threads of SCHED_DEADLINE, whose runtime and period it does not show: in the plan \
             they are ordinary ones",
        );
    }
    Ok(trace)
}

/// The threads of these names; without names all but those of the kernel.
pub fn chosen(trace: &Trace, names: &[String]) -> Result<Vec<TracedTask>, Failure> {
    let is_chosen = |task: &&TracedTask| {
        if names.is_empty() { !task.kernel_thread } else { names.contains(&task.name) }
    };
    let is_there = |name: &&String| trace.tasks.iter().any(|task| task.name == **name);
    if let Some(gone) = names.iter().find(|name| !is_there(name)) {
        let text = format!("the trace has no thread with the name {}", clean(gone));
        let count = counted(trace.tasks.len(), "thread");
        return Err(Failure::usage(
            text,
            format!("it has {count}; without --comm all become roles"),
        ));
    }
    Ok(trace.tasks.iter().filter(is_chosen).cloned().collect())
}
