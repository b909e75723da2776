//! The rehearsal of a machine: a short run without a result, after which the code that runs execute is in memory,
//! and in that of QEMU translated. Copies begin after it. Pure.

use crate::model::{
    Cell, GUEST_SETTLE_NS, GUEST_WIRE, GuestSpec, Params, Placement, RunSpec, Value, Variant, Work,
    WorkerSet,
};

/// Enough for each path to be executed some times.
const DURATION_NS: u64 = 3_000_000;
const LIMIT_NS: u64 = 10_000_000_000;

/// It depends on nothing but the probes: all of a machine's copies with the same probes begin alike.
pub fn rehearsal(probes: &[String]) -> GuestSpec {
    let text = |text: &str| Value::Text(text.to_string());
    let sets = vec![
        set("spin", [("batch", Value::Int(1000)), ("work", Value::DurationNs(100_000))]),
        set(
            "pipe",
            [("over", text("futex")), ("size", Value::Bytes(64)), ("latency", Value::Bool(true))],
        ),
    ];
    let variant = Variant { name: "lab".to_string(), knobs: Default::default() };
    let work = Work { name: "lab".to_string(), sets, ..Default::default() };
    let cell = Cell { index: 0, variant, work, placement: Placement::default() };
    let run = RunSpec {
        warmup_ns: DURATION_NS,
        duration_ns: 2 * DURATION_NS,
        window_ns: DURATION_NS,
        limit_ns: LIMIT_NS,
        probes: probes.to_vec(),
        kop_ps: Some(1_000_000),
        ..RunSpec::new(cell)
    };
    GuestSpec { wire: GUEST_WIRE, run, offset_ns: GUEST_SETTLE_NS }
}

/// Two workers.
fn set<const N: usize>(workload: &str, params: [(&str, Value); N]) -> WorkerSet {
    let params: Params =
        params.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    let [name, workload] = [workload; 2].map(str::to_string);
    WorkerSet { name, workload, params, count: 2, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn probes_make_another_rehearsal() {
        assert_ne!(rehearsal(&["sched".to_string()]), rehearsal(&[]));
    }

    #[test]
    fn a_rehearsal_has_all_parameters_of_its_workloads() {
        for set in rehearsal(&[]).run.cell.work.sets {
            let fields = workload::find(&set.workload).unwrap().spec().params;
            let mut names: Vec<&str> = fields.iter().map(|field| field.name).collect();
            names.sort_unstable();
            assert_eq!(set.params.keys().collect::<Vec<_>>(), names, "{}", set.workload);
        }
    }
}
