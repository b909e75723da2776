//! The traces of `schedlab capture --from`: files of other tools in place of a recording.

use std::collections::BTreeSet;
use std::path::Path;

use crate::compat::trace::{self, ForeignTrace};
use crate::model::{Trace, TracedTask, clean, clean_path, mistyped, quoted};
use crate::report::numbers::{counted, percent};
use crate::session::SessionError;
use crate::sys::{input, remedy};

use super::{Failure, terminal};

/// Names that an error shows next to the one of its command.
const SHOWN: usize = 5;

/// The trace of this file.
pub fn read(path: &Path) -> Result<Trace, Failure> {
    let bytes = input::read_named(path, trace::MAX_BYTES).map_err(|error| {
        let text = format!("cannot read the trace `{}`: {error}", clean_path(path));
        SessionError::unread(text, remedy::read(path, &error), &error)
    })?;
    let ForeignTrace { trace, knows_interrupts, is_cut_off, has_deadline, gaps } =
        trace::read(&bytes).map_err(|wrong| {
            Failure::usage(format!("{}: {}", clean_path(path), wrong.message), wrong.hint)
        })?;
    if is_cut_off {
        terminal::message(
            "note: the file ends within a line or a packet, which is left out: is it complete?",
        );
    }
    if gaps > 0.0 {
        terminal::message(&format!(
            "note: events of the trace are missing: {} of its switches do not fit the one before on their CPU",
            percent(gaps)
        ));
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
pub fn chosen(trace: &Trace, names: &[String], path: &Path) -> Result<Vec<TracedTask>, Failure> {
    let is_chosen = |task: &&TracedTask| {
        if names.is_empty() { !task.kernel_thread } else { names.contains(&task.name) }
    };
    let known: BTreeSet<&str> = trace.tasks.iter().map(|task| task.name.as_str()).collect();
    if let Some(gone) = names.iter().find(|name| !known.contains(name.as_str())) {
        let text = format!("the trace has no thread with the name {}", clean(gone));
        return Err(Failure::usage(text, other_name(gone, &known, path)));
    }
    let chosen: Vec<TracedTask> = trace.tasks.iter().filter(is_chosen).cloned().collect();
    if chosen.is_empty() && !known.is_empty() {
        let text = "all threads of the trace are the kernel's, which are left out unless --comm names them";
        return Err(Failure::usage(text, other_name("", &known, path)));
    }
    Ok(chosen)
}

/// The command with a name that the trace has: the one that was meant, or the first of all.
fn other_name(gone: &str, known: &BTreeSet<&str>, path: &Path) -> String {
    let names: Vec<&str> = known.iter().copied().filter(|name| !name.is_empty()).collect();
    let command = |name: &str| {
        let path = quoted(&path.display().to_string());
        clean(&format!("schedlab capture --from {path} --comm {}", quoted(name)))
    };
    match (mistyped(gone, names.iter().copied()), &names[..]) {
        (Some(name), _) => command(name),
        (None, [first, rest @ ..]) => {
            let shown: Vec<_> = rest.iter().take(SHOWN).map(|name| clean(name)).collect();
            let more = match rest.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {}", counted(more, "other name")),
            };
            let rest = format!("; it also has {}{more}", shown.join(", "));
            command(first) + if shown.is_empty() { "" } else { &rest }
        }
        (None, []) => "a trace that has threads: schedlab help capture".to_string(),
    }
}
