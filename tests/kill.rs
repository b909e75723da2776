//! SIGKILL at any moment of commands that write: nothing that was stored is lost, none is there twice, every knob has
//! its old value, and nothing is left behind. `SCHEDLAB_CAMPAIGN` says how often.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use serde_json::Value;

use crate::home::Home;
use crate::strace;
use crate::support::{campaign, stderr, stdout};
use crate::writers::Trial;

const ROUNDS: usize = 100;
/// A round runs two variants.
const RUNS: usize = 2 * ROUNDS;
/// A knob that the kernel of any distribution has, and that does not affect this test.
const KNOB: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

/// Kills by command.
type Kills = BTreeMap<&'static str, u32>;

#[test]
fn kills_lose_nothing_and_leave_the_machine_as_it_was() {
    let before = std::fs::read_to_string(KNOB).unwrap();
    let knob = knob_line(&before);
    let mut random = ChaCha8Rng::seed_from_u64(50);
    let (all, mut kills) = (campaign(30), Kills::new());
    while kills.values().sum::<u32>() < all {
        kill_until_whole(&knob, &before, all, &mut random, &mut kills);
        println!("kills: {kills:?}");
    }
}

/// Kills a plan, its resumptions and `restore` until the plan is whole, or there were enough kills.
fn kill_until_whole(
    knob: &str,
    before: &str,
    all: u32,
    random: &mut ChaCha8Rng,
    kills: &mut Kills,
) {
    let home = Home::with_plan(plan_text(knob));
    let mut finished: BTreeSet<String> = BTreeSet::new();
    let mut makers = Vec::new();
    while finished.len() < RUNS && kills.values().sum::<u32>() < all {
        let (name, words) = match finished.is_empty() {
            true => ("run", "run plan.toml"),
            false => ("run --resume", "run --resume"),
        };
        let mut victims = vec![(name, words, 250)];
        if random.random_range(0..4) == 0 {
            victims.push(("restore", "restore", 20));
        }
        for (name, words, within_ms) in victims {
            let moment = Duration::from_millis(random.random_range(1..within_ms));
            let victim = kill(home.command(words), moment);
            assert!(!victim.said.contains("panicked"), "{name}: {}", victim.said);
            *kills.entry(name).or_default() += u32::from(victim.is_met);
            makers.push(victim.pid);
        }
        let now = stored_runs(&home);
        assert!(finished.is_subset(&now), "lost: {:?}", finished.difference(&now));
        finished = now;
    }
    home.ok("restore");
    assert_eq!(std::fs::read_to_string(KNOB).unwrap(), before, "after restore");
    if finished.len() < RUNS {
        home.ok(if finished.is_empty() { "run plan.toml" } else { "run --resume" });
    }
    let all = stored_runs(&home);
    assert!(finished.is_subset(&all));
    assert_eq!(all.len(), RUNS, "every run of the plan is stored once");
    assert_eq!(std::fs::read_to_string(KNOB).unwrap(), before, "at the end");
    assert_eq!(cgroups_of(&makers), Vec::<String>::new(), "left behind");
}

/// System calls that change what is stored.
const WRITES: &[&str] = &[
    "copy_file_range",
    "fallocate",
    "fdatasync",
    "fsync",
    "ftruncate",
    "linkat",
    "mkdir",
    "mkdirat",
    "pwrite64",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "unlink",
    "unlinkat",
    "write",
];

/// Each command that writes, killed as it enters such a call; then killed once more where that left it.
#[test]
fn a_command_that_is_killed_is_done_or_is_not() {
    if !strace::works() {
        return;
    }
    let trials = Trial::all();
    let wanted = campaign(trials.len() as u32).div_ceil(trials.len() as u32) as usize;
    let (mut random, mut all) = (ChaCha8Rng::seed_from_u64(41), 0);
    for trial in &trials {
        let (calls, mut kills, name) = (strace::calls(trial, WRITES), 0, trial.writer.name);
        for first in calls.sample(&mut random, wanted) {
            let (home, mut facts) = trial.home();
            for call in [first, calls.choose(&mut random).unwrap()] {
                let (victim, _) = strace::inject(trial, &home, call, "signal=SIGKILL");
                kills += u32::from(victim.status.signal().is_some());
                trial.check(&home, &mut facts, &format!("killed at {call}: {}", stderr(&victim)));
                if trial.is_used_up(&facts) {
                    break;
                }
            }
            trial.finish(&home, facts);
        }
        println!(
            "{kills} kills of {name}, at {} of {} calls",
            wanted.min(calls.len()),
            calls.len()
        );
        all += kills;
    }
    assert!(all > 0, "every command had made fewer calls than when it was traced");
}

struct Victim {
    pid: u32,
    /// Its messages.
    said: String,
    /// It still ran.
    is_met: bool,
}

/// Starts a command and kills it after a while.
fn kill(mut command: Command, after: Duration) -> Victim {
    let mut messages = tempfile::NamedTempFile::new().unwrap();
    let own = Stdio::from(messages.reopen().unwrap());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(own).spawn().unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    let is_met = child.wait().unwrap().signal().is_some();
    let mut said = String::new();
    messages.read_to_string(&mut said).unwrap();
    Victim { pid: child.id(), said, is_met }
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

/// The runs in the store, as `round cell`; panics if one is stored twice.
fn stored_runs(home: &Home) -> BTreeSet<String> {
    let mut runs = BTreeSet::new();
    // Nothing is stored yet where the first kill came early.
    let export = stdout(&home.call("export"));
    let events = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    for event in events.filter(|event| event["event"] == "run_ended") {
        let run = format!("{} {}", event["key"]["round"], event["key"]["cell"]);
        assert_eq!(event["outcome"]["status"], "done", "{event}");
        assert!(runs.insert(run), "stored twice: {event}");
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
        let home = Home::new();
        home.ok("run smoke --backend null -q --db other.db");
        let other = std::fs::read(home.at("other.db")).unwrap();
        let script = format!("cd {}; {command}; true", home.path().display());
        let run = ["run", "--db", "results.db", "--rounds", "3", "--", "sh", "-c", &script];
        let run = home.ends(3, &run);
        let text = stderr(&run);
        assert!(text.contains(why) && text.contains(kept), "{command}: {text}");
        assert!(run.stdout.is_empty(), "{command}: no report of what is not stored: {run:?}");
        if home.at("results.db").exists() {
            assert!(std::fs::read(home.at("results.db")).unwrap() == other, "{command}");
        }
        home.ok(&["run", "--resume", "--db", kept]);
        let listed = home.ok(&["list", "runs", "--db", kept]);
        assert!(listed.contains("  3/3") && listed.contains("complete"), "{command}: {listed}");
    }
}
