//! An extension takes one file and one line: a workload that only tests have is in the registry, and all
//! the rest has to follow from that.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::backend::{Backend, Null};
use crate::exec::Live;
use crate::model::{Cell, Outcome, Placement, Plan, RunEnd, RunSpec, WIRE_VERSION};
use crate::plan::PlanErrors;
use crate::{plan, workload};

use super::list;

fn parse(lines: &str) -> Result<Plan, PlanErrors> {
    plan::parse(
        "p.toml",
        &format!("schema = 1\n[[workload]]\nuse = \"dummy\"\n{lines}"),
        None,
        crate::cli::known(),
    )
}

/// The messages and hints about a wrong plan.
fn refusal(lines: &str) -> String {
    parse(lines).expect_err(lines).render()
}

fn cells(lines: &str) -> Vec<Cell> {
    plan::cells(&parse(lines).unwrap())
}

#[test]
fn a_registered_workload_is_listed_with_its_parameters() {
    assert!(workload::find("dummy").is_some());
    let rows = list::workloads();
    let row = rows.iter().find(|row| row[0] == "dummy").expect("a row");
    assert!(row[1].contains("counts up"), "{row:?}");
    let schema = plan::json_schema(crate::cli::known()).to_string();
    assert!(schema.contains("\"dummy\"") && schema.contains("\"step\""), "not in the schema");
}

#[test]
fn a_plan_may_use_a_registered_workload_within_its_ranges() {
    assert_eq!(cells("step = [1, 2]\ncount = [1, 4]").len(), 4, "two axes");
    assert_eq!(cells("")[0].work.sets[0].params["step"].as_int(), Some(3), "the default");
    for (lines, expected) in [("step = 11", "11"), ("stp = 1", "step"), ("step = \"1s\"", "step")] {
        let error = refusal(lines);
        assert!(error.contains(expected), "{lines}: {error}");
    }
    let error = refusal("step = 7");
    assert!(error.contains("7 is odd") && error.contains("step = 6"), "{error}");
}

#[test]
fn the_null_backend_runs_a_registered_workload() {
    let spec = RunSpec {
        wire: WIRE_VERSION,
        cell: cells("count = 2").remove(0),
        warmup_ns: 0,
        duration_ns: 1_000_000_000,
        window_ns: 500_000_000,
        limit_ns: 2_000_000_000,
        seed: 1,
        probes: Vec::new(),
        kop_ps: None,
        executed: false,
        model: Default::default(),
        start_unix_ns: None,
        cgroups: Default::default(),
    };
    let end = Null::default().run(&spec, &AtomicBool::new(false), &mut |_| {});
    let RunEnd::Finished(Outcome::Done { result }) = end else { panic!("{end:?}") };
    let set = &result.sets[0];
    assert_eq!((set.workload.as_str(), set.ops.as_str(), set.workers.len()), ("dummy", "steps", 2));
    assert!(set.metrics.iter().any(|metric| metric.kind.name == "throughput"));
}

#[test]
fn workers_of_a_registered_workload_run_on_this_machine() {
    let set = cells("count = 2\nstep = 5").remove(0).work.sets.remove(0);
    // A thread of its own, as the one that measures is served before all others from then on.
    let run = || {
        let live = Live::start(set, Placement::default(), 1).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while live.poll().unwrap().ops == 0 {
            assert!(Instant::now() < deadline, "waited a minute for an operation");
            std::thread::sleep(Duration::from_millis(1));
        }
        live.finish(|| true);
        (live.workers("dummy"), live.poll().unwrap().ops % 5)
    };
    assert_eq!(std::thread::spawn(run).join().unwrap(), (2, 0));
}
