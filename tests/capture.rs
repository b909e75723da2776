//! `schedlab capture`, as a user runs it.

use std::fs;

use crate::support::{done, schedlab, skip, stderr, stdout};

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
        return skip("privilege to load BPF programs");
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

/// Ten passes: a timer wakes the first thread, which works for 2 ms, and halfway wakes the second, which works for 3 ms.
fn trace() -> String {
    let line = |us: u64, running: &str, event: &str, fields: &str| {
        format!(
            "{running:>16} [000] d..2. {}.{:06}: {event}: {fields}\n",
            us / 1_000_000,
            us % 1_000_000
        )
    };
    let switch = |from: &str, left: &str, to: &str| {
        let (name, pid) = from.split_once('-').unwrap();
        let (to, to_pid) = to.split_once('-').unwrap();
        format!(
            "prev_comm={name} prev_pid={pid} prev_prio=120 prev_state={left} ==> next_comm={to} next_pid={to_pid} next_prio=120"
        )
    };
    let waking = |name: &str, pid: u32| format!("comm={name} pid={pid} prio=120 target_cpu=000");
    let pass = |at_us: u64| {
        [
            line(at_us, "<idle>-0", "sched_waking", &waking("front", 12)),
            line(at_us, "<idle>-0", "sched_switch", &switch("swapper/0-0", "R", "front-12")),
            line(at_us + 1_000, "front-12", "sched_waking", &waking("back", 20)),
            line(at_us + 2_000, "front-12", "sched_switch", &switch("front-12", "S", "back-20")),
            line(at_us + 5_000, "back-20", "sched_switch", &switch("back-20", "S", "swapper/0-0")),
        ]
    };
    (0..40).flat_map(|number| pass(10_000_000 + number * 20_000)).collect()
}

/// A thread that is woken at the end of the trace, and gets no CPU.
fn trace_end(name: &str, pid: u32) -> String {
    format!(
        "        <idle>-0 [000] d..2. 11.000000: sched_waking: comm={name} pid={pid} prio=120 target_cpu=000\n"
    )
}

#[test]
fn a_trace_of_another_tool_becomes_a_plan() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("trace.txt"), trace()).unwrap();
    let capture = |more: &[&str]| {
        let words = [&["capture", "--from", "trace.txt"], more].concat();
        schedlab(home.path(), &words).output().unwrap()
    };
    let output = done(capture(&["--names", "-o", "own.toml"]));
    assert!(stderr(&output).contains("run it: "), "{}", stderr(&output));
    let text = fs::read_to_string(home.path().join("own.toml")).unwrap();
    for word in
        ["title = \"trace\"", "timer 20ms", "burn 999us", "post back", "take back", "burn 3ms"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    done(schedlab(home.path(), &["run", "own.toml", "--dry-run"]));
    let chosen = stdout(&capture(&["--comm", "back"]));
    assert!(chosen.contains("role-1") && !chosen.contains("role-2"), "{chosen}");
    assert!(!chosen.contains("back") && !chosen.contains("trace"), "names: {chosen}");
    let other = capture(&["--comm", "none"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("no thread with the name none"), "{}", stderr(&other));
    assert!(!stderr(&other).contains("note: "), "{}", stderr(&other));
    let deadline = trace().replace("next_prio=120", "next_prio=-1");
    fs::write(home.path().join("trace.txt"), deadline).unwrap();
    let noted = done(capture(&[]));
    assert!(stderr(&noted).contains("threads of SCHED_DEADLINE"), "{}", stderr(&noted));
    let asleep = format!("{}{}", trace(), trace_end("late", 30));
    fs::write(home.path().join("trace.txt"), asleep).unwrap();
    let unseen = stderr(&capture(&["--comm", "late"]));
    assert!(unseen.contains("none of these threads was seen at work"), "{unseen}");
    assert!(unseen.contains("hint: a longer trace") && !unseen.contains("--for"), "{unseen}");
    fs::write(home.path().join("trace.txt"), trace().replace(" 10.0", " 10,0")).unwrap();
    let refused = capture(&["-o", "other.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    let shown = stderr(&refused);
    assert!(shown.contains("line 1: a wakeup whose task, CPU or time is not"), "{shown}");
    let none = trace().replace("sched_waking", "sched_wakeup");
    fs::write(home.path().join("trace.txt"), none).unwrap();
    let refused = capture(&["-o", "other.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("no wakeups (sched_waking)"), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--show-lost-events"), "{}", stderr(&refused));
    assert!(!home.path().join("other.toml").exists());
}
