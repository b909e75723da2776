//! `schedlab watch` on a terminal: keys, sizes, signals, and what it leaves behind.

use crate::home::Home;
use crate::pty::Pty;
use crate::support::{signal, skip, wait_for};
use crate::trace::switched_to;

/// Watches by snapshots of /proc, which need no privilege.
fn watch(home: &Home, arguments: &[&str]) -> Pty {
    let all = [&["watch", "--source", "procfs", "--interval", "100ms"], arguments].concat();
    Pty::start(home.command(&all), 80, 24)
}

#[test]
fn keys_change_the_view_and_q_gives_the_terminal_back() {
    let home = Home::new();
    let mut pty = watch(&home, &[]);
    let first = pty.wait_for("source procfs");
    assert!(pty.is_taken(), "{first}");
    assert!(first.contains("the whole machine") && first.contains("q quit"), "{first}");
    pty.wait_until("a row", |screen| screen.contains("tasks 1-"));
    pty.press("?");
    pty.wait_for("any key closes this");
    pty.press("x");
    pty.wait_until("no help", |screen| !screen.contains("any key closes"));
    pty.press("b");
    pty.wait_for("processes");
    pty.press("/nonesuch");
    pty.wait_for("filter: nonesuch");
    pty.press("\r");
    pty.wait_for("0-0 of 0");
    pty.press("\u{1b}");
    pty.wait_until("rows again", |screen| screen.contains("processes 1-"));
    pty.press(" ");
    pty.wait_for("PAUSED");
    pty.press("a");
    pty.wait_for("since start");
    pty.press("t");
    pty.wait_for("no trace: the source procfs has none");
    pty.press("q");
    assert_eq!(pty.wait().code(), Some(0));
    pty.wait_for("watched the whole machine for");
    assert!(pty.is_given_back(), "{}", pty.text());
}

#[test]
fn sizes_follow_the_terminal_and_one_that_is_too_small_says_so() {
    let home = Home::new();
    let mut pty = watch(&home, &[]);
    pty.wait_for("source procfs");
    pty.resize(40, 10);
    pty.wait_for("40x10 is too small");
    // A key that comes together with a new size has its effect at once.
    pty.resize(130, 40);
    pty.press("b");
    pty.wait_for("processes");
    let screen = pty.wait_until("the view", |screen| screen.contains("source procfs"));
    assert!(screen.lines().any(|line| line.chars().count() > 80), "{screen}");
    pty.press("q");
    assert_eq!(pty.wait().code(), Some(0));
}

#[test]
fn signals_give_the_terminal_back() {
    let home = Home::new();
    for name in ["-TERM", "-INT", "-HUP"] {
        let mut pty = watch(&home, &[]);
        pty.wait_for("source procfs");
        signal(pty.pid(), name);
        assert_eq!(pty.wait().code(), Some(0), "{name}");
        pty.wait_for("watched the whole machine for");
        assert!(pty.is_given_back(), "{name}: {}", pty.text());
    }
    let mut pty = watch(&home, &[]);
    pty.wait_for("source procfs");
    pty.press("\u{3}");
    assert_eq!(pty.wait().code(), Some(0), "Ctrl-C");
    // Its last output may still be on its way to the reader.
    pty.wait_for("watched the whole machine for");
    assert!(pty.is_given_back());
}

/// Job control needs a shell.
#[test]
fn it_can_be_stopped_and_goes_on_in_the_foreground() {
    let home = Home::new();
    let mut pty = Pty::shell(&home);
    pty.press("$RUN watch --source procfs --interval 100ms\n");
    pty.wait_until("the view", |screen| {
        screen.contains("source procfs") && screen.contains("q quit")
    });
    for _ in 0..2 {
        pty.press("\u{1a}");
        pty.wait_until("the shell", |screen| screen.contains("ready>"));
        assert!(pty.is_given_back() || !pty.is_taken(), "{}", pty.text());
        pty.press("fg\n");
        pty.wait_until("the view again", |screen| screen.contains("q quit"));
        assert!(pty.is_taken(), "{}", pty.text());
    }
    pty.press("q");
    pty.wait_for("watched the whole machine for");
    pty.press("exit\n");
    assert_eq!(pty.wait().code(), Some(0));
}

#[test]
fn a_command_is_watched_to_its_end_and_its_output_is_elsewhere() {
    let home = Home::new();
    let script = "echo LOUD; while [ ! -e go ]; do :; done; exit 7";
    let mut pty = watch(&home, &["--command-output", "out", "--", "sh", "-c", script]);
    let screen = pty.wait_until("its row", |screen| {
        screen.lines().any(|line| line.contains(" sh ") && !line.contains("sh -c"))
    });
    assert!(screen.contains("schedlab watch sh -c") && !screen.starts_with("LOUD"), "{screen}");
    home.write("go", "");
    assert_eq!(pty.wait().code(), Some(7));
    pty.wait_for("sh: exit status: 7");
    assert_eq!(home.read("out"), "LOUD\n");
}

#[test]
fn the_last_seconds_are_written_while_counting_goes_on() {
    let home = Home::new();
    let script = "while [ ! -e go ]; do sleep 0.01; done";
    let arguments =
        ["watch", "--interval", "100ms", "--trace", "t.pftrace", "--", "sh", "-c", script];
    let mut pty = Pty::start(home.command(&arguments), 80, 24);
    let screen = pty.wait_until("a reading", |screen| screen.contains("tasks 1-"));
    if !screen.contains("source bpf") {
        return skip("privilege to load BPF programs");
    }
    pty.wait_for("in the kernel");
    let first = std::iter::once("t.pftrace".to_string());
    let mut has_command = |file: &String| {
        pty.press("t");
        pty.wait_for(&format!("trace: {file}: "));
        let names = switched_to(&std::fs::read(home.at(file)).unwrap());
        names.contains("sleep") && names.contains("sh")
    };
    // A ping-pong of another test on one CPU may leave no room for anything else.
    let files = first.chain((1..200).map(|number| format!("t-{number}.pftrace")));
    assert_eq!(files.filter(|file| has_command(file)).take(2).count(), 2);
    pty.press("b");
    pty.wait_until("rows", |screen| screen.contains("processes 1-") && screen.contains(" sleep "));
    home.write("go", "");
    assert_eq!(pty.wait().code(), Some(0));
    pty.wait_for("waits for a CPU, p50");
}

#[test]
fn a_command_is_asked_to_end_with_the_view() {
    let home = Home::new();
    let script = "trap 'echo asked > asked; exit' TERM; : > there; while :; do sleep 0.01; done";
    let mut pty = watch(&home, &["--", "sh", "-c", script]);
    wait_for("the command", || home.at("there").exists().then_some(()));
    pty.press("q");
    assert_eq!(pty.wait().code(), Some(0));
    assert_eq!(home.read("asked"), "asked\n");
}

#[test]
fn what_cannot_be_watched_is_refused_before_the_terminal_is_taken() {
    let home = Home::new();
    for (words, expected) in [
        ("watch", "hint: schedlab score --system --interval 1s"),
        ("watch --pid 999999999", "there is no process 999999999"),
        ("watch --interval 1ms", "--interval: 1ms is below the least"),
        ("watch --interval 5", "has no unit"),
        ("watch --source nonesuch", "there is no source `nonesuch`"),
        ("watch --pid 1 -- true", "cannot be used with"),
    ] {
        let said = home.says(2, words);
        assert!(said.contains(expected), "{words}: {said}");
    }
    for (option, file) in [
        ("--trace", "nodir/x"),
        ("--trace", "."),
        ("--command-output", "nodir/x"),
        ("--command-output", "."),
    ] {
        let mut pty = watch(&home, &[option, file, "--", "touch", "begun"]);
        pty.wait_for(&format!("error: {option}: cannot write {file}: "));
        assert_eq!((pty.wait().code(), home.at("begun").exists()), (Some(3), false), "{option}");
    }
    let mut pty = watch(&home, &["--", "/nonesuch"]);
    assert_eq!(pty.wait().code(), Some(127));
    pty.wait_for("cannot run `/nonesuch`");
    assert!(pty.is_given_back());
}
