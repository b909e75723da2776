//! `schedlab capture`, as a user runs it.

use std::fs;

use crate::support::{schedlab, skip, stderr, stdout};

#[test]
fn what_cannot_be_captured_is_refused_before_anything_is_recorded() {
    let home = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&[], "nothing to capture"),
        (&["--pid", "999999999"], "there is no process 999999999"),
        (&["--cgroup", "/no-such-group"], "there is no cgroup"),
        (&["--comm", "no-such-name"], "there is no thread with the name no-such-name"),
        (&["--for", "0s", "--", "true"], "--for: no time at all"),
        (&["--check", "--", "true"], "required arguments were not provided: -o <FILE>"),
        (&["--pid", "1", "--", "true"], "cannot be used with"),
    ];
    for (words, expected) in cases {
        let output = schedlab(home.path(), &[&["capture"], words].concat()).output().unwrap();
        let shown = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {shown}");
        assert!(shown.contains(expected) && shown.contains("hint: "), "{words:?}: {shown}");
    }
}

#[test]
fn a_command_becomes_a_plan_that_can_run() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("own.toml");
    let words = ["capture", "--for", "1min", "-o", file.to_str().unwrap(), "--"];
    let script = "i=0; while [ $i -lt 20 ]; do sleep 0.01; i=$((i+1)); done; exit 7";
    let command = ["sh", "-c", script];
    let output = schedlab(home.path(), &[&words[..], &command].concat()).output().unwrap();
    let shown = stderr(&output);
    if shown.contains("not seen without the source bpf") {
        assert!(!file.exists() && shown.contains("hint: "), "{shown}");
        return skip("capture", "privilege to load BPF programs");
    }
    assert_eq!(output.status.code(), Some(7), "the command's own: {shown}");
    assert!(shown.contains("cost: ") && shown.contains("run it: "), "{shown}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("sleep 0.01") && !text.contains("\"sh"), "names: {text}");
    let words = ["run", file.to_str().unwrap(), "--dry-run"];
    let output = schedlab(home.path(), &words).output().unwrap();
    assert!(output.status.success(), "{}\n{text}", stderr(&output));
    assert!(stdout(&output).contains("captured"), "{}", stdout(&output));
}
