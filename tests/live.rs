//! The live view of `schedlab run` in a pseudo-terminal, which `script` makes.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::support::{signal, wait_for};

/// Invented runs that last longer than any of these tests.
const PLAN: &str = "schema = 1\ntitle = \"a long plan\"\n[measure]\nrounds = 5000\n\
    duration = \"1s\"\n[[variant]]\nname = \"default\"\n[[variant]]\nname = \"batch\"\n\
    [[workload]]\nname = \"web\"\nuse = \"schbench\"\nthreads = [1, 2, 3, 4, 5, 6, 7, 8]\n";

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// A part of the last line of every view.
const VIEW: &str = "interrupt";

/// An interactive shell on a new terminal, 80x24.
struct Shell {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Shell {
    fn start(home: &Path) -> Shell {
        std::fs::write(home.join("plan.toml"), PLAN).unwrap();
        let mut command = Command::new("script");
        command.args(["-qfc", "bash --norc --noprofile -i", "/dev/null"]);
        command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").env("TERM", "xterm");
        command.env("PS1", "ready> ").env("RUN", env!("CARGO_BIN_EXE_schedlab"));
        command.current_dir(home).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("script, of every distribution");
        let keys = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                own.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        let mut shell = Shell { child, keys, seen };
        shell.await_text("ready> ");
        shell.press("stty rows 24 cols 80; PS1='ok''> '\n");
        shell.await_text("ok> ");
        shell
    }

    /// Begins the plan and waits for its view. Returns the process.
    fn run(&mut self) -> u32 {
        let run = "echo pi''d=$$.; exec $RUN run plan.toml --backend null";
        self.press(&format!("sh -c \"{}\"; echo co''de=$?\n", run.replace('$', "\\$")));
        self.await_text("pid=");
        let pid = self.await_text(".").trim_end_matches('.').parse().expect("a number");
        self.await_text(ENTER);
        self.await_text(VIEW);
        pid
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until this text is seen. Returns everything up to it, and forgets that.
    fn await_text(&mut self, text: &str) -> String {
        wait_for(&format!("{text:?}"), || {
            let mut seen = self.seen.lock().unwrap();
            let at = seen.windows(text.len()).position(|part| part == text.as_bytes())?;
            let before: Vec<u8> = seen.drain(..at + text.len()).collect();
            Some(String::from_utf8_lossy(&before).into_owned())
        })
    }

    /// The terminal takes lines, and shows what is typed.
    fn assert_restored(&mut self) {
        self.press("stty -a; echo en''d\n");
        let settings = self.await_text("end");
        let words: Vec<&str> = settings.split_whitespace().collect();
        for word in ["icanon", "echo", "isig", "icrnl", "ixon"] {
            assert!(words.contains(&word), "{word}: {settings}");
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The terminal goes with `script`, and all that runs on it gets SIGHUP.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn the_view_answers_keys_and_gives_the_terminal_back() {
    let home = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(home.path());
    shell.run();
    shell.press("?");
    shell.await_text("logarithmic");
    shell.press("q");
    shell.await_text(LEAVE);
    let report = shell.await_text("code=130");
    assert!(report.contains("a long plan") && report.contains("--resume"), "{report}");
    assert!(!report.contains(ENTER), "{report}");
    shell.assert_restored();
}

#[test]
fn the_view_stops_and_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(home.path());
    shell.run();
    shell.press("\x1a");
    shell.await_text(LEAVE);
    shell.await_text("ok> ");
    shell.assert_restored();
    shell.press("fg; echo co''de=$?\n");
    shell.await_text(ENTER);
    shell.await_text(VIEW);
    // Ctrl-C, as without a view.
    shell.press("\x03");
    shell.await_text(LEAVE);
    shell.await_text("code=130");
    shell.assert_restored();
}

#[test]
fn a_signal_that_ends_the_view_gives_the_terminal_back() {
    let home = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(home.path());
    for ends in [&["-TERM"][..], &["-HUP", "-INT"]] {
        let pid = shell.run();
        ends.iter().for_each(|name| signal(pid, name));
        shell.await_text(LEAVE);
        shell.await_text("code=130");
        shell.assert_restored();
    }
}

#[test]
fn what_is_asked_to_be_plain_or_runs_in_the_background_has_lines() {
    let home = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(home.path());
    shell.press("$RUN run plan.toml --backend null --rounds 2 --plain; echo co''de=$?\n");
    let plain = shell.await_text("code=0");
    assert!(!plain.contains(ENTER) && plain.contains("of 32 runs"), "{plain}");
    shell.press("$RUN run plan.toml --backend null --rounds 3 & wait; echo co''de=$?\n");
    let background = shell.await_text("code=0");
    assert!(!background.contains(ENTER) && background.contains("of 48 runs"), "{background}");
}
