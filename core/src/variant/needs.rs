//! The kernel configuration that a knob needs, so that a cell is skipped before its kernel is booted.
//!
//! Input: the text of the kernel's configuration. Pure. Needs that are not listed here are checked on the machine
//! itself: `check` reads its files there.

use std::collections::BTreeMap;

use crate::model::{Cell, Value};
use crate::sys::Host;

use super::{Action, CgroupSetting, Missing, Target, TaskSetting, registry};

/// A symbol of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// All releases that can have the knob have the symbol.
    On(&'static str),
    /// Some releases have the knob without the symbol: it counts where the configuration says that it is off.
    NotOff(&'static str),
}

impl Need {
    fn symbol(self) -> &'static str {
        let (Need::On(symbol) | Need::NotOff(symbol)) = self;
        symbol
    }

    fn is_met(self, config: &str) -> bool {
        let has = |line: String| config.lines().any(|own| own.trim_end() == line);
        match self {
            Need::On(symbol) => has(format!("{symbol}=y")),
            Need::NotOff(symbol) => !has(format!("# {symbol} is not set")),
        }
    }
}

/// The symbols that an action needs.
fn needs(action: &Action) -> &'static [Need] {
    const OF_DEBUGFS: &[Need] = &[Need::On("CONFIG_DEBUG_FS"), Need::NotOff("CONFIG_SCHED_DEBUG")];
    match action {
        Action::Task(TaskSetting::UclampMin(_) | TaskSetting::UclampMax(_)) => {
            &[Need::On("CONFIG_UCLAMP_TASK")]
        }
        Action::Cgroup(CgroupSetting::Weight(_) | CgroupSetting::Idle(_)) => {
            &[Need::On("CONFIG_FAIR_GROUP_SCHED")]
        }
        Action::Cgroup(CgroupSetting::MaxUs(_)) => &[Need::On("CONFIG_CFS_BANDWIDTH")],
        Action::Scheduler(_) => &[Need::On("CONFIG_SCHED_CLASS_EXT")],
        Action::Machine(wanted) => match &wanted.target {
            Target::Sysctl(name) if name == "sched_autogroup_enabled" => {
                &[Need::On("CONFIG_SCHED_AUTOGROUP")]
            }
            Target::Feature(_) => OF_DEBUGFS,
            Target::Preempt => &[Need::On("CONFIG_PREEMPT_DYNAMIC")],
            _ => &[],
        },
        Action::Task(_) | Action::Boot | Action::Xen(_) => &[],
    }
}

/// The knobs of a cell that a kernel of this configuration cannot have.
pub fn lacking(cell: &Cell, config: &str) -> Vec<Missing> {
    let sets = cell.work.sets.iter().map(|set| &set.knobs);
    let groups = cell.work.cgroups.iter().map(|group| &group.knobs);
    let all = [&cell.variant.knobs].into_iter().chain(sets).chain(groups);
    let mut missing: Vec<Missing> = Vec::new();
    for one in all.flat_map(|knobs| lacking_of(knobs, config)) {
        if !missing.contains(&one) {
            missing.push(one);
        }
    }
    missing
}

fn lacking_of(knobs: &BTreeMap<String, Value>, config: &str) -> Vec<Missing> {
    // No files of a machine: none is booted yet.
    let host = Host::below("/nonexistent");
    let mut missing = Vec::new();
    for knob in registry() {
        let name = knob.field.name;
        let Some(Ok(actions)) = knobs.get(name).map(|value| knob.actions(value, &host)) else {
            continue;
        };
        let mut needs = actions.iter().flat_map(needs);
        if let Some(need) = needs.find(|need| !need.is_met(config)) {
            missing.push(Missing {
                knob: name.to_string(),
                message: format!("`{name}` needs {}, and it was built without", need.symbol()),
                hint: "see which kernels there are: schedlab kernel list".to_string(),
            });
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::testing::{Group, cell, example, grouped, knobs, variant};

    fn names(cell: &Cell, config: &str) -> Vec<String> {
        lacking(cell, config).into_iter().map(|missing| missing.knob).collect()
    }

    #[test]
    fn what_a_kernel_was_built_without_is_named() {
        let all = [
            "uclamp-min",
            "cgroup-weight",
            "cgroup-max",
            "autogroup",
            "features",
            "preempt",
            "scx",
        ];
        let value = |name: &&str| {
            (name.to_string(), {
                let field = crate::variant::fields().into_iter().find(|field| field.name == *name);
                field.unwrap().kind.parse(&example(name)).unwrap()
            })
        };
        let mut wanted = cell(variant(&[("nice", "5"), ("policy", "batch")]), &[]);
        assert_eq!(names(&wanted, ""), [""; 0], "what needs nothing is never missing");
        wanted.variant.knobs.extend(all.iter().map(value));
        assert_eq!(names(&wanted, "# nothing\n"), all);
        let config = "CONFIG_UCLAMP_TASK=y\nCONFIG_FAIR_GROUP_SCHED=y\nCONFIG_CFS_BANDWIDTH=y\n\
                      CONFIG_SCHED_AUTOGROUP=y\nCONFIG_DEBUG_FS=y\nCONFIG_PREEMPT_DYNAMIC=y\n\
                      CONFIG_SCHED_CLASS_EXT=y\n";
        assert_eq!(names(&wanted, config), [""; 0]);
        let without = |line: &str| names(&wanted, &config.replace(line, ""));
        assert_eq!(without("CONFIG_CFS_BANDWIDTH=y\n"), ["cgroup-max"]);
        assert_eq!(without("CONFIG_FAIR_GROUP_SCHED=y\n"), ["cgroup-weight"]);
        // Linux 6.15 has features without the symbol.
        let off = format!("{config}# CONFIG_SCHED_DEBUG is not set\n");
        assert_eq!(names(&wanted, &off), ["features"]);
        assert!(lacking(&wanted, &off)[0].message.contains("CONFIG_SCHED_DEBUG"));
    }

    #[test]
    fn knobs_of_sets_and_of_their_cgroups_count() {
        let of_set = cell(variant(&[]), &[knobs(&[("uclamp-max", "50%")])]);
        assert_eq!(names(&of_set, ""), ["uclamp-max"]);
        let tree: [Group; 2] =
            [("a", &[("cgroup-weight", "50")], None), ("b", &[("cgroup-weight", "200")], None)];
        let tree = grouped(cell(variant(&[]), &[]), &tree);
        assert_eq!(names(&tree, ""), ["cgroup-weight"], "each once");
    }
}
