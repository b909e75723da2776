//! Knobs: the settings that a variant applies, reads back and undoes.
//!
//! A knob is an entry of one of the tables in [`knobs`]; [`registry`] has them all. Help, `schedlab list knobs`,
//! the plan parser and the docs derive from its [`Field`]. It only translates its value into [`Action`]s. One place
//! each carries these out, reads them back and undoes them: [`task`] for settings of a worker thread by itself,
//! [`apply`] for cgroups, files of the machine and its scheduler ([`scx`]), which a [`Journal`] remembers until
//! they are undone. The pool of a cell ([`pool`]) is not a knob, but is applied and read back like the run's
//! cgroup.

mod apply;
mod cgroups;
mod change;
mod check;
mod contract;
mod error;
mod hints;
mod journal;
mod knobs;
mod live;
mod needs;
#[cfg(test)]
mod on_this_machine;
mod pool;
mod restore;
pub mod scx;
mod setting;
mod target;
mod task;
#[cfg(test)]
mod testing;
mod validate;
mod without_effect;

use std::collections::BTreeMap;

use crate::model::{Field, Value};
use crate::sys::Host;

pub use crate::model::merged_knobs as merged;
pub use apply::{Applied, ApplyError, UndoError, apply, is_not_attached};
pub use cgroups::{with_cpus, write_all as write_cgroup_files};
pub use change::Undone;
pub use check::{check, check_turns};
pub use contract::{Action, Knob, Missing, SCHEDULER_FORM, Scope};
pub use error::{PoolError, SettingError};
pub use journal::{CommandEntry, Journal};
pub use knobs::{all as registry, are_kernel_args};
pub use live::{LiveSettings, changed_knob};
pub use needs::lacking;
pub use pool::{Pool, find as find_pool};
pub use restore::{RestoreError, Restored, restore};
pub use setting::{CgroupSetting, TaskSetting, XenSetting};
pub use target::{Target, Wanted};
pub use task::{apply_to_self, read_task};
pub use validate::{Fault, validate};
pub use without_effect::{KnobWithoutEffect, WithoutEffect, without_effect};

/// Every knob's field.
pub fn fields() -> Vec<Field> {
    registry().map(|knob| knob.field).collect()
}

/// The fields of the knobs that each worker thread sets on itself.
pub fn task_fields() -> Vec<Field> {
    fields_of(&[Scope::Task])
}

/// The fields of the knobs that a worker set may have for itself.
pub fn set_fields() -> Vec<Field> {
    fields_of(&[Scope::Task, Scope::Guest])
}

fn fields_of(scopes: &[Scope]) -> Vec<Field> {
    let knobs = registry().filter(|knob| scopes.contains(&knob.scope()));
    knobs.map(|knob| knob.field).collect()
}

/// Whether the knob of this name can change on a running worker.
pub fn is_live(name: &str) -> bool {
    live_knobs().contains(&name)
}

pub fn live_knobs() -> Vec<&'static str> {
    registry().filter(|knob| knob.is_live).map(|knob| knob.field.name).collect()
}

/// The knobs that a plan can change on running workers: as in turns, and their CPUs.
pub fn changing_knobs() -> Vec<&'static str> {
    live_knobs().into_iter().chain([AFFINITY]).collect()
}

/// The knob that says which CPUs workers run on.
pub const AFFINITY: &str = "affinity";

/// A knob, its value as asked, and the settings that it stands for.
type Asked<T> = (&'static str, Value, Vec<T>);

/// The settings of one kind that knobs of a scope ask for, in the order of the registry.
fn asked<T>(
    knobs: &BTreeMap<String, Value>,
    host: &Host,
    scope: Scope,
    pick: fn(Action) -> Option<T>,
) -> Result<Vec<Asked<T>>, Missing> {
    let mut all = Vec::new();
    for knob in registry().filter(|knob| knob.scope() == scope) {
        let name = knob.field.name;
        let Some(value) = knobs.get(name) else { continue };
        let own: Vec<T> = knob.actions(value, host)?.into_iter().filter_map(pick).collect();
        if !own.is_empty() {
            all.push((name, value.clone(), own));
        }
    }
    Ok(all)
}

/// The settings of Xen that knobs ask for, each with its name and value, in the order of the registry.
pub fn of_xen(knobs: &BTreeMap<String, Value>) -> Vec<(&'static str, Value, XenSetting)> {
    let host = Host::below("/nonexistent");
    let of = |knob: &Knob| {
        let name = knob.field.name;
        let value = knobs.get(name)?;
        let setting =
            knob.actions(value, &host).ok()?.into_iter().find_map(|action| match action {
                Action::Xen(setting) => Some(setting),
                _ => None,
            });
        Some((name, value.clone(), setting?))
    };
    registry().filter_map(of).collect()
}

/// The prefix of knobs of [`Scope::Cgroup`]. A cgroup of worker sets may have them, each by its name without this
/// prefix.
pub const CGROUP_KNOB: &str = "cgroup-";

pub fn cgroup_fields() -> Vec<Field> {
    let knobs = registry().filter(|knob| knob.scope() == Scope::Cgroup);
    let field = |knob: &Knob| {
        let field = knob.field;
        let name = field.name.strip_prefix(CGROUP_KNOB).unwrap_or(field.name);
        Field { name, ..field }
    };
    knobs.map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SetChange;
    use crate::sys::sched::Policy;

    #[test]
    fn every_knob_is_described_once_and_acts_in_its_scope() {
        let machine = testing::Machine::new();
        for knob in registry() {
            let field = knob.field;
            assert!(!field.about.is_empty(), "{}", field.name);
            let well_named = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(field.name.chars().all(well_named), "{}", field.name);
            assert!(field.default.is_none(), "{}: a knob not written is not touched", field.name);
            let same_name = fields().iter().filter(|other| other.name == field.name).count();
            assert_eq!(same_name, 1, "{} is registered twice", field.name);

            let value = field.kind.parse(&testing::example(field.name)).unwrap();
            let actions = knob.actions(&value, &machine.host).unwrap();
            assert!(!actions.is_empty(), "{}", field.name);
            for action in actions {
                let scope = match action {
                    Action::Task(_) => Scope::Task,
                    Action::Cgroup(_) => Scope::Cgroup,
                    Action::Machine(_) | Action::Scheduler(_) => Scope::Machine,
                    Action::Boot => Scope::Boot,
                    Action::Xen(_) => knob.scope(),
                };
                assert_eq!(scope, knob.scope(), "{}", field.name);
            }
        }
    }

    #[test]
    fn a_set_replaces_the_variants_knobs_one_by_one() {
        let variant = testing::knobs(&[("policy", "batch"), ("nice", "3"), ("preempt", "lazy")]);
        let own = testing::knobs(&[("nice", "5"), ("slice", "1ms")]);
        let expected = [("policy", "batch"), ("nice", "5"), ("preempt", "lazy"), ("slice", "1ms")];
        assert_eq!(merged(&variant, &own), testing::knobs(&expected));
        assert_eq!(merged(&variant, &BTreeMap::new()), variant);
        let other_policy = testing::knobs(&[("policy", "idle")]);
        let expected = [("policy", "idle"), ("preempt", "lazy")];
        assert_eq!(merged(&variant, &other_policy), testing::knobs(&expected));
    }

    /// The model has the policies of each knob, too.
    #[test]
    fn a_change_of_policy_leaves_no_knob_that_it_does_not_take() {
        let all = [
            ("priority", "3"),
            ("nice", "3"),
            ("slice", "1ms"),
            ("runtime", "1ms"),
            ("deadline", "2ms"),
            ("period", "3ms"),
        ];
        for policy in Policy::ALL {
            let own = testing::knobs(&[("policy", policy.word())]);
            let change = SetChange { at_ns: 0, knobs: own, cgroup: None, count: None };
            let after = SetChange::knobs_after(&[change], testing::knobs(&all)).last().unwrap();
            assert_eq!(validate(&after), [], "{policy:?}");
            let kept = after.len() - 1;
            let expected = match policy {
                Policy::Other | Policy::Batch => 2,
                Policy::Idle => 0,
                Policy::Fifo | Policy::Rr => 1,
                Policy::Deadline => 3,
            };
            assert_eq!(kept, expected, "{policy:?}");
        }
    }

    #[test]
    fn a_value_of_another_kind_is_refused_and_no_panic() {
        let machine = testing::Machine::new();
        for knob in registry() {
            let misfit = knob.actions(&Value::Times(2.0), &machine.host).unwrap_err();
            assert_eq!(misfit.knob, knob.field.name);
        }
    }
}
