//! Commands under a `schedlab score` that is killed: they end, and `restore` knows what they started.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::home::Home;
use crate::support::{assert_gone, signal, stdout, wait_for};

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

#[test]
fn a_command_ends_with_its_killed_score_and_restore_ends_what_it_started() {
    let home = Home::new();
    // The number of a shell, and of a program that leaves its group.
    let command = "echo $$; setsid sh -c 'echo $$; exec sleep 1000' & wait; :";
    let mut score = home.command(&["score", "--source", "procfs", "--", "sh", "-c", command]);
    let mut score = score.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(score.stdout.take().unwrap()).lines();
    let [shell, left] = [0, 1].map(|_| lines.next().unwrap().unwrap().parse::<u32>().unwrap());
    let restore = || stdout(&home.call("restore"));
    assert!(restore().starts_with("nothing to restore"), "its schedlab lives");
    assert!(is_alive(shell) && is_alive(left));
    score.kill().unwrap();
    score.wait().unwrap();
    assert_gone(shell);
    assert!(is_alive(left), "the kernel ends the command alone");
    let name = || std::fs::read_to_string(format!("/proc/{left}/comm")).unwrap_or_default();
    wait_for("the program to be executed", || (name().trim() == "sleep").then_some(()));
    let said = restore();
    assert!(said.contains(&format!("ended sleep ({left})")), "{said}");
    assert_gone(left);
    assert!(restore().starts_with("nothing to restore"), "once is enough");
}

#[test]
fn what_a_command_leaves_behind_when_it_ends_by_itself_lives_on() {
    let home = Home::new();
    let command = "sleep 1000 >/dev/null 2>&1 & echo $!";
    let mut score = home.command(&["score", "--source", "procfs", "--", "sh", "-c", command]);
    let output = score.output().unwrap();
    let left: u32 = stdout(&output).trim().parse().unwrap();
    let said = stdout(&home.call("restore"));
    let lives = is_alive(left);
    signal(left, "-KILL");
    assert!(lives && said.starts_with("nothing to restore"), "{said}");
}
