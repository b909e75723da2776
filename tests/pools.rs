//! Pools, with real processes: the workers' share of the CPUs, the remains of a killed run, and pools that
//! exist already.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::home::Home;
use crate::support::{metric, outcomes, skip};

/// Holds off other tests that make cpusets: exclusive ones of the same CPUs refuse each other.
fn turn() -> File {
    let path = std::env::temp_dir().join("schedlab-test-turn.lock");
    // Another user's file can be opened, but not created.
    let file = File::open(&path).or_else(|_| File::create(&path)).unwrap();
    file.lock().unwrap();
    file
}

fn plan(home: &Home, placement: &str, duration: &str) {
    let text = format!(
        "schema = 1\n[measure]\nrounds = 1\nwarmup = \"100ms\"\nduration = \"{duration}\"\n\
         [placement]\n{placement}\n[[workload]]\nuse = \"burnwait\"\ncount = 4\n\
         workers = \"processes\"\n"
    );
    home.write("plan.toml", text);
}

/// The outcome of the first run of a plan with this placement.
fn run(home: &Home, placement: &str) -> Value {
    plan(home, placement, "500ms");
    let output = home.call("run ./plan.toml --quiet");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    // The newest, whether or not it measured anything.
    let listed = home.ok("list runs");
    let id = listed.lines().nth(1).and_then(|row| row.split_whitespace().next()).unwrap();
    outcomes(home.path(), id).swap_remove(0)
}

fn reading(run: &Value, knob: &str) -> String {
    let readings = run["result"]["knobs"].as_array().unwrap();
    let found = readings.iter().find(|reading| reading["knob"] == knob).unwrap();
    found["got"]["known"]["text"].as_str().unwrap().to_string()
}

const ROOTS: [&str; 3] = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The cpusets that this process has made.
fn cpusets(maker: u32) -> Vec<PathBuf> {
    let entries = ROOTS.iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
    let prefix = format!("schedlab-{maker}-");
    let made =
        |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
    let paths = entries.map(|entry| entry.path()).filter(made);
    paths.filter(|path| path.join("cpuset.cpus").exists()).collect()
}

#[test]
fn workers_have_the_cpus_of_their_pool_and_no_others() {
    let _turn = turn();
    let home = Home::new();
    let run = run(&home, "pool = \"one\"\ncpus = \"0\"\nmemory = \"interleave\"");
    assert_eq!(run["status"], "done", "{run}");
    let cpus = metric(&run, 0, "cpus");
    assert!(cpus > 0.0 && cpus < 1.05, "four workers on one CPU used {cpus}");
    let form = reading(&run, "pool");
    let forms = ["cgroup v2 partition", "cgroup v2 cpuset", "cpuset v1", "affinity: "];
    assert!(forms.iter().any(|known| form.starts_with(known)), "{form}");
    if Path::new("/sys/devices/system/node/node0").exists() {
        assert_eq!(reading(&run, "memory"), "interleave");
    }
}

#[test]
fn a_pool_without_cpus_that_is_not_there_ends_the_plan() {
    let home = Home::new();
    plan(&home, "pool = \"schedlab-test-none\"", "500ms");
    let said = home.says(3, "run ./plan.toml");
    assert!(said.contains("there is no pool `schedlab-test-none`"), "{said}");
}

#[test]
fn a_name_that_leads_elsewhere_is_refused_with_its_place() {
    let home = Home::new();
    plan(&home, "cpus = \"0\"\npool = \"../init\"", "1s");
    let said = home.says(2, "run ./plan.toml");
    insta::assert_snapshot!(said, @r#"
    error: `../init` is not the name of a pool
     --> ./plan.toml:8:8
    7 | cpus = "0"
    8 | pool = "../init"
      |        ^^^^^^^^^ this value
    9 | [[workload]]
    hint: 1 to 64 of A-Z a-z 0-9 _ . - in quotes, not beginning with a dot, no `..`
    "#);
}

const KILLED: &str = "pool = \"killed\"\ncpus = \"0\"";

/// Whether this process may make a cpuset, found out without the program.
pub fn may_make_a_cpuset() -> bool {
    let name = format!("schedlab-test-{}", std::process::id());
    ROOTS.iter().map(|root| Path::new(root).join(&name)).any(|folder| {
        let is_made = std::fs::create_dir(&folder).is_ok();
        let is_cpuset = folder.join("cpuset.cpus").exists();
        if is_made {
            std::fs::remove_dir(&folder).unwrap();
        }
        is_cpuset
    })
}

/// Whether this machine lacks what a cpuset needs. Any other reason for having none is a fault.
fn lacks_cpusets(home: &Home) -> bool {
    let form = reading(&run(home, KILLED), "pool");
    let Some(why) = form.strip_prefix("affinity: ") else { return false };
    assert!(!may_make_a_cpuset(), "a cpuset can be made here, and the program made none: {why}");
    let lacks = ["EPERM", "EACCES", "EROFS", "cpuset controller", "ENOENT"];
    assert!(lacks.iter().any(|word| why.contains(word)), "no cpuset was made: {why}");
    true
}

/// A run that goes on, once its cpuset has members.
fn running(home: &Home) -> (Child, PathBuf) {
    plan(home, KILLED, "600s");
    let mut command = home.command("run ./plan.toml --quiet");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
        for path in cpusets(child.id()) {
            let members = std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            // The runner and its four workers.
            if members.lines().count() == 5 {
                return (child, path);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    end(child);
    home.call("restore");
    panic!("no cpuset with the run's processes in it was made");
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_a_killed_run_leaves_is_restored() {
    let _turn = turn();
    let home = Home::new();
    if lacks_cpusets(&home) {
        return skip("privilege to make a cpuset");
    }
    let (child, cpuset) = running(&home);
    let maker = child.id();
    end(child);
    let left = cpuset.exists();
    let restored = home.ok("restore");
    assert!(left, "SIGKILL leaves it, or this tests nothing");
    assert!(restored.contains("schedlab-"), "{restored}");
    assert!(!cpuset.exists());
    assert_eq!(cpusets(maker), Vec::<PathBuf>::new());
}

#[test]
fn the_next_run_restores_by_itself() {
    let _turn = turn();
    let home = Home::new();
    if lacks_cpusets(&home) {
        return skip("privilege to make a cpuset");
    }
    let (child, cpuset) = running(&home);
    end(child);
    assert_eq!(run(&home, "cpus = \"0\"")["status"], "done");
    assert!(!cpuset.exists());
}
