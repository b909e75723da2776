//! Homes that cannot be written to, and files that may not grow: commands that need neither work, and the
//! others report why they fail.

use std::path::Path;
use std::process::{Command, Output};

use crate::home::Home;
use crate::support::{done, ended, stderr};

const NO_FOLDER: &str = "/dev/null/home";

/// Runs a script under a limit of file sizes, in blocks of 512 bytes.
fn limited(home: &Path, blocks: u32, script: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_schedlab");
    let script = format!("ulimit -f {blocks}; {}", script.replace("schedlab", program));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin");
    shell.current_dir(home).output().unwrap()
}

#[test]
fn what_only_looks_needs_no_home() {
    let cwd = Home::new();
    for command in [
        "doctor",
        "list",
        "list plans",
        "kernel list",
        "cache",
        "cache rm machines results",
        "run quick --dry-run",
        "run quick --backend null --dry-run",
        "run --dry-run -- true",
    ] {
        done(cwd.command(command).env("HOME", NO_FOLDER));
    }
    for command in ["list runs", "report last"] {
        let said = stderr(&ended(cwd.command(command).env("HOME", NO_FOLDER), 3));
        assert!(said.contains("no results are stored"), "{said}");
    }
    // The lab reports that it lacks kernels or QEMU.
    let mut lab = cwd.command("run lab-quick --backend lab --dry-run");
    let output = lab.env("HOME", NO_FOLDER).output().unwrap();
    let said = stderr(&output);
    assert!(!said.contains("cannot write") && !said.contains("cannot read"), "{said}");
}

#[test]
fn a_dry_run_makes_nothing() {
    let home = Home::new();
    for command in ["run quick --dry-run", "doctor", "list", "cache"] {
        home.ok(command);
        let made: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
        assert!(made.is_empty(), "{command} made {made:?}");
    }
}

#[test]
fn a_limit_of_file_sizes_is_an_error_with_a_reason() {
    let home = Home::new();
    let output = ended(limited(home.path(), 1, "exec schedlab list knobs >out"), 3);
    let said = stderr(&output);
    assert!(said.contains("cannot write to standard output: File too large"), "{said}");
    assert!(said.contains("hint: raise the limit of file sizes: ulimit -f"), "{said}");
    // The store does not fit, either.
    let output =
        ended(limited(home.path(), 8, "exec schedlab run smoke --backend null --rounds 2"), 3);
    let said = stderr(&output);
    assert!(said.contains("error: ") && said.contains("ulimit -f"), "{said}");
}

/// The signal ends the command as it would without schedlab: 128 + 25.
#[test]
fn commands_have_the_usual_limit_of_file_sizes() {
    let home = Home::new();
    let write = "while :; do echo 0123456789; done >big";
    let script = format!("exec schedlab score --source procfs -o /dev/null -- sh -c '{write}'");
    let output = limited(home.path(), 4, &script);
    assert_eq!(output.status.code(), Some(128 + 25), "{output:?}");
    assert_eq!(std::fs::metadata(home.at("big")).unwrap().len(), 4 * 512);
    // A command in a run is killed, too, and the run fails with that reason.
    let script = format!("exec schedlab run --rounds 1 --db none.db -- sh -c '{write}'");
    let output = limited(home.path(), 20_000, &script);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    assert!(said.contains("25"), "{said}");
}
