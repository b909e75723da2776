//! What the knobs of a set's workers make of them where they compete for CPUs: their weight
//! among fair tasks, or that they go before all of these. Pure.

use std::collections::BTreeMap;

use crate::model::{Reading, Value, Variant, WorkerSet, merged_knobs};
use crate::stats::Claim;

/// The kernel's load weights of nice -20 to 19 (`sched_prio_to_weight`): a step is a factor of
/// about 1.25, so that of two tasks on a CPU it moves about 10 % from one to the other.
const OF_NICE: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, //
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, //
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, //
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The kernel's load weight of SCHED_IDLE.
const OF_IDLE: u32 = 3;

/// SCHED_DEADLINE goes before every real-time priority.
const DEADLINE_RANK: u32 = 100;

/// How the workers of a set stand to the others of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedPriority {
    Fair {
        weight: u32,
    },
    /// Served before all with a lower rank, and all that are fair.
    Before {
        rank: u32,
        policy: String,
    },
}

impl SchedPriority {
    /// By the knobs that hold for the set under the variant. Without any it is nice 0, which
    /// the runner starts with.
    pub fn of(variant: &Variant, set: &WorkerSet) -> Self {
        SchedPriority::by(&merged_knobs(&variant.knobs, &set.knobs))
    }

    fn by(knobs: &BTreeMap<String, Value>) -> Self {
        let number = |knob: &str| knobs.get(knob).and_then(Value::as_int);
        let before = |rank, policy: String| SchedPriority::Before { rank, policy };
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

    /// Of a worker that wants so many CPUs. Those that go before others share evenly with
    /// their like.
    pub fn claim(&self, want: f64) -> Claim {
        match self {
            SchedPriority::Fair { weight } => Claim { want, weight: f64::from(*weight), rank: 0 },
            SchedPriority::Before { rank, .. } => Claim { want, weight: 1.0, rank: *rank },
        }
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
    use super::*;
    use crate::model::{Params, WorkerKind};

    fn knobs(pairs: &[(&str, Value)]) -> BTreeMap<String, Value> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }

    fn standing(variant: &[(&str, Value)], own: &[(&str, Value)]) -> SchedPriority {
        let variant = Variant { name: "v".to_string(), knobs: knobs(variant) };
        let set = WorkerSet {
            name: "s".to_string(),
            workload: "spin".to_string(),
            params: Params::new(),
            count: 1,
            kind: WorkerKind::Threads,
            background: false,
            knobs: knobs(own),
        };
        SchedPriority::of(&variant, &set)
    }

    #[test]
    fn each_step_of_nice_is_about_a_quarter_and_0_is_1024() {
        for (nice, weight) in [(-20, 88761), (-1, 1277), (0, 1024), (1, 820), (5, 335), (19, 15)] {
            let told = standing(&[("nice", Value::Int(nice))], &[]);
            assert_eq!(told, SchedPriority::Fair { weight }, "{nice}");
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
    fn the_sets_knobs_win_and_one_with_its_own_policy_takes_no_nice_of_the_variant() {
        let (nice, text) = (|n| ("nice", Value::Int(n)), |t: &str| Value::Text(t.to_string()));
        let policy = |word: &str| ("policy", text(word));
        let fair = |weight| SchedPriority::Fair { weight };
        assert_eq!(standing(&[], &[]), fair(1024));
        assert_eq!(standing(&[nice(5)], &[]), fair(335));
        assert_eq!(standing(&[nice(5)], &[nice(0)]), fair(1024));
        assert_eq!(standing(&[nice(5)], &[policy("batch")]), fair(1024));
        assert_eq!(standing(&[nice(5)], &[policy("batch"), nice(1)]), fair(820));
        assert_eq!(standing(&[policy("batch"), nice(5)], &[nice(19)]), fair(15));
        assert_eq!(standing(&[policy("batch"), nice(5)], &[]), fair(335));
        assert_eq!(standing(&[policy("idle")], &[]), fair(3));
        assert_eq!(standing(&[nice(-20)], &[policy("idle")]), fair(3));
    }

    #[test]
    fn deadline_goes_before_real_time_by_priority_and_that_before_all_weights() {
        let policy = |word: &str| ("policy", Value::Text(word.to_string()));
        let priority = |n| ("priority", Value::Int(n));
        let rank = |own: &[(&str, Value)]| standing(&[], own).claim(0.5).rank;
        let ranks = [
            rank(&[policy("deadline")]),
            rank(&[policy("fifo"), priority(98)]),
            rank(&[policy("rr"), priority(2)]),
            rank(&[policy("fifo")]),
            rank(&[policy("other")]),
        ];
        assert_eq!(ranks, [100, 98, 2, 1, 0]);
        let why = "policy rr of priority 2 is served before any weight";
        let told = standing(&[priority(7)], &[policy("rr"), priority(2)]).weight();
        assert_eq!(told, Reading::Unknown(why.to_string()));
        // The variant's priority is not that of a set with its own policy.
        assert_eq!(standing(&[policy("rr"), priority(7)], &[policy("rr")]).claim(1.0).rank, 1);
        let claim = Claim { want: 0.5, weight: 335.0, rank: 0 };
        assert_eq!(standing(&[("nice", Value::Int(5))], &[]).claim(0.5), claim);
    }
}
