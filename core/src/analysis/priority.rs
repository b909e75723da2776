//! The meaning of a worker set's knobs where sets compete for CPUs: a weight among fair tasks, or
//! a policy that is served before all fair tasks. Pure.

use crate::model::{Reading, Value, Variant, WorkerKind, WorkerSet, merged_knobs};
use crate::stats::Priority;

/// The kernel's load weights of nice -20 to 19 (`sched_prio_to_weight`). A step is a factor of
/// about 1.25: between two tasks on a CPU it moves about 10 % of the CPU.
const OF_NICE: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, //
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, //
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, //
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The kernel's load weight of SCHED_IDLE, and of an idle cgroup.
pub const OF_IDLE: u32 = 3;

/// Xen's weight of a guest that has none of its own, under credit and credit2.
const OF_GUEST: i64 = 256;

/// SCHED_DEADLINE is served before every real-time priority.
const DEADLINE_RANK: u32 = 100;

/// Whom the scheduler serves first, and in what proportion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedPriority {
    Fair { weight: u32 },
    // Served before every lower rank and before all fair tasks.
    Before { rank: u32, policy: String },
}

impl SchedPriority {
    /// From the knobs of the set under the variant; without any nice 0, as the runner starts.
    pub fn from_knobs(variant: &Variant, set: &WorkerSet) -> Self {
        let knobs = merged_knobs(&variant.knobs, &set.knobs);
        let number = |knob: &str| knobs.get(knob).and_then(Value::as_int);
        let before = |rank, policy: String| SchedPriority::Before { rank, policy };
        // All else acts within each guest.
        if set.kind == WorkerKind::Guests {
            let weight = number("xen-weight").unwrap_or(OF_GUEST);
            return SchedPriority::Fair { weight: weight.clamp(1, 65_535) as u32 };
        }
        match knobs.get("policy").and_then(Value::as_text) {
            Some("deadline") => before(DEADLINE_RANK, "deadline".to_string()),
            Some(policy @ ("fifo" | "rr")) => {
                let priority = number("priority").unwrap_or(1).clamp(1, 99);
                before(priority as u32, format!("{policy} of priority {priority}"))
            }
            Some("idle") => SchedPriority::Fair { weight: OF_IDLE },
            _ => {
                let nice = number("nice").unwrap_or(0).clamp(-20, 19);
                SchedPriority::Fair { weight: OF_NICE[(nice + 20) as usize] }
            }
        }
    }

    /// Workers of one rank share evenly where a policy is served before all weights.
    pub fn priority(&self) -> Priority {
        match self {
            SchedPriority::Fair { weight } => Priority { weight: f64::from(*weight), rank: 0 },
            SchedPriority::Before { rank, .. } => Priority { weight: 1.0, rank: *rank },
        }
    }

    /// Whether every other fair task takes its CPU when it wakes, at the same level of cgroups.
    pub fn is_idle(&self) -> bool {
        matches!(self, SchedPriority::Fair { weight: OF_IDLE })
    }

    pub fn weight(&self) -> Reading<f64> {
        match self {
            SchedPriority::Fair { weight } => Reading::Known(f64::from(*weight)),
            SchedPriority::Before { policy, .. } => {
                Reading::Unknown(format!("policy {policy} is served before any weight"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn knobs(pairs: &[(&str, Value)]) -> BTreeMap<String, Value> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }

    fn sched_priority(variant: &[(&str, Value)], own: &[(&str, Value)]) -> SchedPriority {
        let variant = Variant { name: "v".to_string(), knobs: knobs(variant) };
        let set = WorkerSet {
            name: "s".to_string(),
            workload: "spin".to_string(),
            count: 1,
            knobs: knobs(own),
            ..Default::default()
        };
        SchedPriority::from_knobs(&variant, &set)
    }

    #[test]
    fn each_step_of_nice_is_about_a_quarter_and_0_is_1024() {
        let cases =
            [(-21, 88761), (-20, 88761), (-1, 1277), (0, 1024), (1, 820), (19, 15), (20, 15)];
        for (nice, weight) in cases {
            let found = sched_priority(&[("nice", Value::Int(nice))], &[]);
            assert_eq!(found, SchedPriority::Fair { weight }, "{nice}");
        }
        for (at, pair) in OF_NICE.windows(2).enumerate() {
            let step = f64::from(pair[0]) / f64::from(pair[1]);
            assert!((1.19..1.31).contains(&step), "{step} after nice {}", at as i64 - 20);
        }
        // By the rule, rounded: no figure is far from it.
        for (at, weight) in OF_NICE.iter().enumerate() {
            let ruled = 1024.0 * 1.25f64.powi(20 - at as i32);
            let off = (f64::from(*weight) / ruled - 1.0).abs();
            assert!(off < 0.05, "nice {}: {weight}, not {ruled}", at as i64 - 20);
        }
    }

    #[test]
    fn knobs_of_the_set_win_and_its_own_policy_drops_the_variants_nice() {
        let (nice, text) = (|n| ("nice", Value::Int(n)), |t: &str| Value::Text(t.to_string()));
        let policy = |word: &str| ("policy", text(word));
        let fair = |weight| SchedPriority::Fair { weight };
        assert_eq!(sched_priority(&[], &[]), fair(1024));
        assert_eq!(sched_priority(&[nice(5)], &[]), fair(335));
        assert_eq!(sched_priority(&[nice(5)], &[nice(0)]), fair(1024));
        assert_eq!(sched_priority(&[nice(5)], &[policy("batch")]), fair(1024));
        assert_eq!(sched_priority(&[nice(5)], &[policy("batch"), nice(1)]), fair(820));
        assert_eq!(sched_priority(&[policy("batch"), nice(5)], &[nice(19)]), fair(15));
        assert_eq!(sched_priority(&[policy("batch"), nice(5)], &[]), fair(335));
        assert_eq!(sched_priority(&[policy("idle")], &[]), fair(3));
        assert_eq!(sched_priority(&[nice(-20)], &[policy("idle")]), fair(3));
    }

    #[test]
    fn a_guest_has_its_weight_of_xen_whatever_its_tasks_have() {
        let set = |own: &[(&str, Value)]| WorkerSet {
            kind: WorkerKind::Guests,
            knobs: knobs(own),
            ..Default::default()
        };
        let none = Variant { name: "v".to_string(), knobs: knobs(&[("nice", Value::Int(5))]) };
        let of = |own: &[(&str, Value)]| SchedPriority::from_knobs(&none, &set(own));
        assert_eq!(of(&[]), SchedPriority::Fair { weight: 256 });
        assert_eq!(of(&[("xen-weight", Value::Int(512))]), SchedPriority::Fair { weight: 512 });
        let fifo = ("policy", Value::Text("fifo".to_string()));
        assert_eq!(of(&[fifo]), SchedPriority::Fair { weight: 256 });
    }

    #[test]
    fn deadline_is_served_before_real_time_and_real_time_before_all_weights() {
        let policy = |word: &str| ("policy", Value::Text(word.to_string()));
        let priority = |n| ("priority", Value::Int(n));
        let rank = |own: &[(&str, Value)]| sched_priority(&[], own).priority().rank;
        let ranks = [
            rank(&[policy("deadline")]),
            rank(&[policy("fifo"), priority(98)]),
            rank(&[policy("rr"), priority(2)]),
            rank(&[policy("fifo")]),
            rank(&[policy("other")]),
        ];
        assert_eq!(ranks, [100, 98, 2, 1, 0]);
        let why = "policy rr of priority 2 is served before any weight";
        let found = sched_priority(&[priority(7)], &[policy("rr"), priority(2)]).weight();
        assert_eq!(found, Reading::Unknown(why.to_string()));
        // The variant's priority is not that of a set with its own policy.
        assert_eq!(
            sched_priority(&[policy("rr"), priority(7)], &[policy("rr")]).priority().rank,
            1
        );
        let nice_5 = Priority { weight: 335.0, rank: 0 };
        assert_eq!(sched_priority(&[("nice", Value::Int(5))], &[]).priority(), nice_5);
    }
}
