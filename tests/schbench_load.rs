//! The workload `schbench` in a runner: where its workers run, the metrics of its windows.

use std::collections::BTreeMap;

use crate::faults::{endless, runner, start};
use crate::home::Home;
use crate::support::{metric, outcomes, skip, wait_for};

/// The CPUs that threads may run on, by their names.
fn allowed(pid: u32) -> Option<BTreeMap<String, String>> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let read = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_string())
        };
        Some((field("Name:")?, field("Cpus_allowed_list:")?))
    };
    Some(tasks.flatten().filter_map(read).collect())
}

#[test]
fn workers_run_on_the_cpus_of_their_role() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skip("hardware: two CPUs");
    }
    let home = Home::new();
    let workload = "use = \"schbench\"\nmessage-cpus = \"auto\"\nauto-rps = \"50%\"";
    let plan = format!("{}[placement]\ncpus = \"0-1\"\n", endless(workload));
    let mut schedlab = start(&home, &plan);
    let runner = runner(schedlab.id(), 4);
    let expected = [("schbench-msg", "0"), ("schbench-worker", "1"), ("schbench-rate", "0-1")];
    wait_for("all roles on their CPUs", || {
        let allowed = allowed(runner)?;
        let there = |(role, cpus): &(&str, &str)| allowed.get(*role).is_some_and(|own| own == cpus);
        expected.iter().all(there).then_some(())
    });
    schedlab.kill().unwrap();
    schedlab.wait().unwrap();
}

#[test]
fn requests_per_second_are_those_of_the_windows() {
    let text = "schema = 1\n[measure]\nrounds = 1\nwarmup = \"0s\"\nduration = \"1500ms\"\n\
                window = \"50ms\"\n[[workload]]\nuse = \"schbench\"\ncache-footprint = \"16KiB\"\n";
    let home = Home::with_plan(text);
    home.ok("run ./plan.toml");
    let run = outcomes(home.path(), "last").swap_remove(0);
    let value = |name: &str| metric(&run, 0, name);
    // It is over thirty windows; the throughput is over all.
    let (slow, median, fast) = (value("rps_p20"), value("rps_p50"), value("rps_p90"));
    assert!(0.0 <= slow && slow <= median && median <= fast, "{run}");
    // A tenth of them may be faster, and four fifths are at least that fast.
    let throughput = value("throughput");
    assert!(throughput >= 0.8 * slow * 0.99 && fast > 0.0, "{throughput}: {run}");
}
