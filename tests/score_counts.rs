//! Switch counts of `schedlab score` against the kernel's own, of a program with threads.
//!
//! The test starts itself again as these programs: the environment says which one it is.

use std::process::Command;
use std::sync::mpsc::channel;

use serde_json::Value;

use schedlab::sys::clock;

use crate::home::Home;
use crate::support::{skip, stdout};

const ROLE: &str = "SCHEDLAB_TEST_ROLE";
const THIS: &str = "score_counts::switches_of_all_threads_are_those_that_rusage_reports";
const PAIRS: usize = 4;

/// The test binary, in a role.
fn myself(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([THIS, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

/// Threads that wait for each other and end at different times.
fn play() {
    let pairs = (0..PAIRS).flat_map(|pair| {
        let ((ping, pinged), (pong, ponged)) = (channel(), channel());
        let times = 100 * (pair + 1);
        let first = move || {
            for _ in 0..times {
                ping.send(0u8).unwrap();
                ponged.recv().unwrap();
            }
        };
        let second = move || (0..times).for_each(|_| pong.send(pinged.recv().unwrap()).unwrap());
        [std::thread::spawn(first), std::thread::spawn(second)]
    });
    let threads: Vec<_> = pairs.collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Starts the players, collects them and prints what the kernel counted of them.
fn collect() {
    let mut players = myself("play").spawn().unwrap();
    assert!(players.wait().unwrap().success());
    let (voluntary, involuntary) = clock::ended_children_switches();
    println!("\nrusage {} {voluntary} {involuntary}", players.id());
}

#[test]
fn switches_of_all_threads_are_those_that_rusage_reports() {
    match std::env::var(ROLE).as_deref() {
        Ok("play") => return play(),
        Ok(_) => return collect(),
        Err(_) => {}
    }
    let home = Home::new();
    let mut score = home.command("score --format json --output score.json --");
    let output = score.arg(myself("").get_program()).args(myself("").get_args());
    let output = output.env(ROLE, "collect").output().unwrap();
    let score = home.document("score.json");
    if score["source"] != "bpf" {
        return skip("privilege to load BPF programs");
    }
    let text = stdout(&output);
    let rusage = text.lines().find_map(|line| line.strip_prefix("rusage ")).expect(&text);
    let rusage: Vec<u64> = rusage.split(' ').map(|word| word.parse().unwrap()).collect();
    let [pid, voluntary, involuntary] = rusage[..] else { panic!("{text}") };
    let tasks = score["tasks"].as_array().unwrap().iter();
    let tasks: Vec<&Value> = tasks.filter(|task| task["pid"] == pid).collect();
    assert!(tasks.len() > 2 * PAIRS, "{tasks:?}");
    assert!(tasks.iter().all(|task| task["watched"] == true && task["ended"] == true));
    let sum = |key: &str| tasks.iter().map(|task| task[key].as_u64().unwrap()).sum::<u64>();
    // The kernel adds a thread's counts before the switch in which it ends.
    let more = sum("voluntary") + sum("involuntary") - voluntary - involuntary;
    assert!(more <= tasks.len() as u64, "{more} more of {}", tasks.len());
    assert!(sum("voluntary") - voluntary <= tasks.len() as u64, "{voluntary}");
    assert!(sum("involuntary") - involuntary <= tasks.len() as u64, "{involuntary}");
    assert!(voluntary > 100 * PAIRS as u64, "{voluntary}");
    // Also the command itself, which is read after its end and before it is collected.
    let all = score["tasks"].as_array().unwrap().iter().filter(|task| task["watched"] == true);
    let mut numbers: Vec<String> =
        all.map(|task| format!("{}/{}", task["pid"], task["tid"])).collect();
    numbers.sort();
    let count = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "a task has two rows: {numbers:?}");
}
