//! The live view of `schedlab run` in a pseudo-terminal.

use crate::home::Home;
use crate::pty::Pty;
use crate::support::signal;

/// Invented runs that last longer than any of these tests.
const PLAN: &str = "schema = 1\ntitle = \"a long plan\"\n[measure]\nrounds = 5000\n\
    duration = \"1s\"\n[[variant]]\nname = \"default\"\n[[variant]]\nname = \"batch\"\n\
    [[workload]]\nname = \"web\"\nuse = \"schbench\"\nthreads = [1, 2, 3, 4, 5, 6, 7, 8]\n";

/// A part of the last line of every view.
const VIEW: &str = "interrupt";
const ENTER: &str = "\x1b[?1049h";

/// The view of the plan.
fn view(home: &Home) -> Pty {
    let pty = Pty::start(home.command("run ./plan.toml --backend null"), 80, 60);
    pty.wait_for(VIEW);
    assert!(pty.is_taken(), "{}", pty.text());
    pty
}

/// The plan was interrupted, and the terminal is as it was.
fn assert_interrupted(pty: &mut Pty) {
    assert_eq!(pty.wait().code(), Some(130));
    // Its last output may still be on its way to the reader.
    pty.wait_until("the terminal as it was", |_| pty.is_given_back());
    assert_eq!(pty.written().matches(ENTER).count(), 1, "{}", pty.text());
}

#[test]
fn the_view_answers_keys_and_gives_the_terminal_back() {
    let home = Home::with_plan(PLAN);
    let mut pty = view(&home);
    pty.press("?");
    pty.wait_for("logarithmic");
    pty.press("q");
    assert_interrupted(&mut pty);
    let report = pty.wait_for("--resume");
    assert!(report.contains("a long plan"), "{report}");
}

#[test]
fn the_view_stops_and_goes_on() {
    let home = Home::with_plan(PLAN);
    let mut pty = Pty::shell(&home);
    pty.press("$RUN run plan.toml --backend null\n");
    pty.wait_for(VIEW);
    pty.press("\x1a");
    pty.wait_for("ready>");
    assert!(pty.is_given_back(), "{}", pty.text());
    pty.press("fg; echo co''de=$?\n");
    pty.wait_for(VIEW);
    assert!(pty.is_taken(), "{}", pty.text());
    // Ctrl-C, as without a view.
    pty.press("\x03");
    pty.wait_for("code=130");
    assert!(pty.is_given_back(), "{}", pty.text());
}

#[test]
fn a_signal_that_ends_the_view_gives_the_terminal_back() {
    let home = Home::with_plan(PLAN);
    for ends in [&["-TERM"][..], &["-HUP", "-INT"]] {
        let mut pty = view(&home);
        ends.iter().for_each(|name| signal(pty.pid(), name));
        assert_interrupted(&mut pty);
    }
}

#[test]
fn what_is_asked_to_be_plain_or_runs_in_the_background_has_lines() {
    let home = Home::with_plan(PLAN);
    let mut pty = Pty::shell(&home);
    for (more, line) in [("2 --plain", "of 32 runs"), ("3 & wait", "of 48 runs")] {
        pty.press(&format!(
            "$RUN run plan.toml --backend null --rounds {more}; echo co''de$?{}\n",
            &more[..1]
        ));
        pty.wait_for(&format!("code0{}", &more[..1]));
        let written = pty.written();
        assert!(!written.contains(ENTER) && written.contains(line), "{written}");
    }
}
