//! SIGKILL at up to 50 random moments of a running plan, then resume: no finished run is lost, none is stored
//! twice, every knob has its old value.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::{schedlab, stderr, stdout};

const KILLS: u32 = 50;
const ROUNDS: usize = 100;
/// A round runs two variants.
const RUNS: usize = 2 * ROUNDS;
/// A knob that the kernel of any distribution has, and that does not affect this test.
const KNOB: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

#[test]
fn kills_lose_nothing_and_leave_the_machine_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let before = std::fs::read_to_string(KNOB).unwrap();
    let knob = knob_line(&before);
    let plan = home.path().join("plan.toml");
    std::fs::write(&plan, plan_text(&knob)).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(50);
    let mut finished: BTreeSet<String> = BTreeSet::new();
    let mut start = vec!["run", plan.to_str().unwrap()];
    let mut makers = Vec::new();
    for _ in 0..KILLS {
        let child = spawn(home.path(), &start);
        makers.push(child.id());
        std::thread::sleep(Duration::from_millis(random.random_range(1..250)));
        kill(child);
        let now = stored_runs(home.path());
        assert!(finished.is_subset(&now), "lost: {:?}", finished.difference(&now));
        finished = now;
        if finished.len() == RUNS {
            break;
        }
        if !finished.is_empty() {
            start = vec!["run", "--resume"];
        }
    }
    assert!(!finished.is_empty(), "no run was finished before any of the kills");
    let restore = schedlab(home.path(), &["restore"]).output().unwrap();
    assert!(restore.status.success(), "{restore:?}");
    assert_eq!(std::fs::read_to_string(KNOB).unwrap(), before, "after restore");
    if finished.len() < RUNS {
        let end = schedlab(home.path(), &["run", "--resume"]).output().unwrap();
        assert!(end.status.success(), "{end:?}");
    }
    let all = stored_runs(home.path());
    assert!(finished.is_subset(&all));
    assert_eq!(all.len(), RUNS, "every run of the plan is stored once");
    assert_eq!(std::fs::read_to_string(KNOB).unwrap(), before, "at the end");
    assert_eq!(cgroups_of(&makers), Vec::<String>::new(), "left behind");
}

/// Another value than the current one, where this process may set it.
fn knob_line(before: &str) -> String {
    let writable = std::fs::OpenOptions::new().write(true).open(KNOB).is_ok();
    if !writable {
        eprintln!("skipped: the knob part of the kill test needs privilege");
        return String::new();
    }
    let other = if before.trim() == "90" { "80" } else { "90" };
    format!("sysctl = [\"sched_rr_timeslice_ms={other}\"]\ncgroup-weight = 50\n")
}

fn plan_text(knob: &str) -> String {
    format!(
        "schema = 1\ntitle = \"killed\"\n\
         [measure]\nrepeat-spoilt = false\nrounds = {ROUNDS}\nduration = \"10ms\"\nwarmup = \"0s\"\nwindow = \"10ms\"\n\
         [[variant]]\nname = \"plain\"\n[[variant]]\nname = \"knobs\"\n{knob}\
         [[workload]]\nuse = \"spin\"\n"
    )
}

fn spawn(home: &Path, arguments: &[&str]) -> Child {
    schedlab(home, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The runs in the store, as `round cell`; panics if one is stored twice.
fn stored_runs(home: &Path) -> BTreeSet<String> {
    let export = schedlab(home, &["export"]).output().unwrap();
    let mut runs = BTreeSet::new();
    for line in stdout(&export).lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] == "run_ended" {
            let run = format!("{} {}", event["key"]["round"], event["key"]["cell"]);
            assert_eq!(event["outcome"]["status"], "done", "{line}");
            assert!(runs.insert(run), "stored twice: {line}");
        }
    }
    runs
}

/// Cgroups that one of these processes has made.
fn cgroups_of(makers: &[u32]) -> Vec<String> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"];
    let folders = roots.iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
    let names = folders.map(|folder| folder.file_name().to_string_lossy().into_owned());
    let made =
        |name: &String| makers.iter().any(|maker| name.starts_with(&format!("schedlab-{maker}-")));
    names.filter(made).collect()
}

/// The measured command itself removes the store or replaces it by another one.
#[test]
fn a_store_that_vanishes_while_results_are_stored_ends_the_plan_and_all_of_it_is_kept() {
    let cases = [
        ("rm -f results.db", "results.db was removed or renamed", "results.kept-1.db"),
        ("rm -f results.db*", "results.db was removed or renamed", "results.kept-1.db"),
        ("mv results.db away.db 2>&-", "results.db was removed or renamed", "away.db"),
        ("mv other.db results.db 2>&-", "another file has taken the place", "results.kept-1.db"),
    ];
    for (command, why, kept) in cases {
        let home = tempfile::tempdir().unwrap();
        let place = |name: &str| home.path().join(name);
        let call = |words: &[&str]| schedlab(home.path(), words).output().unwrap();
        let other = ["run", "smoke", "--backend", "null", "-q", "--db", "other.db"];
        assert!(call(&other).status.success());
        let other = std::fs::read(place("other.db")).unwrap();
        let script = format!("cd {}; {command}; true", home.path().display());
        let run = ["run", "--db", "results.db", "--rounds", "3", "--", "sh", "-c", &script];
        let run = call(&run);
        let text = stderr(&run);
        assert_eq!(run.status.code(), Some(3), "{command}: {text}");
        assert!(text.contains(why) && text.contains(kept), "{command}: {text}");
        assert!(run.stdout.is_empty(), "{command}: no report of what is not stored: {run:?}");
        if place("results.db").exists() {
            assert!(std::fs::read(place("results.db")).unwrap() == other, "{command}");
        }
        let resumed = call(&["run", "--resume", "--db", kept]);
        assert_eq!(resumed.status.code(), Some(0), "{command}: {}", stderr(&resumed));
        let listed = call(&["list", "runs", "--db", kept]);
        let (listed, is_whole) = (stdout(&listed), |text: &str| text.contains("  3/3"));
        assert!(is_whole(&listed) && listed.contains("complete"), "{command}: {listed}");
    }
}
