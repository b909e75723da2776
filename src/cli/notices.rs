//! The words of a session's notices, on standard error.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::analysis::Selection;
use crate::model::PlanHead;
use crate::report::clean;
use crate::session::Notice;
use crate::sys::lock;

use super::{restore, shared_cache, terminal};

/// Notes about damage that were made: a command opens a store more than once.
static DAMAGE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says a notice on standard error.
pub fn show(notice: &Notice) {
    match notice {
        Notice::Cache { report, is_quiet } => shared_cache::show(report, *is_quiet),
        _ => {
            if let Some(text) = describe(notice) {
                terminal::message(&text);
            }
        }
    }
}

/// `None`: it was said before, or there is nothing to say.
fn describe(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::Damaged { damage, remedy } => {
            let hint = remedy.as_ref().map(|remedy| format!("; hint: {remedy}"));
            let text = format!("{damage}{}", hint.unwrap_or_default());
            let mut said = lock(&DAMAGE);
            let is_new = said.insert(text.clone());
            return is_new.then(|| format!("note: the store is damaged: {}", clean(&text)));
        }
        Notice::PassedOver { side, heads } => return passed_over(side, heads),
        Notice::WholePlan { selected } => {
            format!("note: `{}` takes the plan with all of its variants", clean(selected))
        }
        Notice::Undone(leftover) => format!("restored: {}", restore::describe(leftover)),
        Notice::MeasuringMachine { dry_run } => {
            let verb = if *dry_run { "a run measures" } else { "measuring" };
            format!("{verb} this machine for machine = \"twin\": half a minute")
        }
        Notice::OtherLoad { cpus } => format!(
            "warning: others kept {cpus:.2} CPUs busy while the machine was measured, which \
             lengthens what was measured, and the lab leaves out its jitter; when it is quiet: \
             schedlab twin"
        ),
        Notice::SharedClock { instruction_ns, why } => format!(
            "warning: all virtual CPUs share one clock, at {instruction_ns} ns an instruction: \
             {why}; see schedlab help lab"
        ),
        Notice::Resumed { id, title, runs_done } => {
            let runs = match runs_done {
                1 => "1 run is stored".to_string(),
                runs => format!("{runs} runs are stored"),
            };
            format!("goes on with {} ({}): {runs}", clean(id), clean(title))
        }
        Notice::OtherMachine { id, begun_on } => {
            let (id, begun_on) = (clean(id), clean(begun_on));
            format!("warning: {id} was begun on machine {begun_on}, not on this one")
        }
        Notice::Fleet(line) => line.to_string(),
        Notice::Cache { .. } => return None,
    })
}

fn passed_over(side: &Selection, heads: &[PlanHead]) -> Option<String> {
    let [newest, more @ ..] = side.passed_over.as_slice() else { return None };
    let head = heads.iter().find(|head| head.id == *newest && head.runs.done > 0);
    let why = match head.map(|head| clean(&head.backend)) {
        Some(backend) => format!("of backend `{backend}`; to have them: backend={backend}"),
        None => "without a measured run; to have it: its id".to_string(),
    };
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    Some(format!("note: `{}` leaves out plan {newest}{more} {why}", side.label))
}
