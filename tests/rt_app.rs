//! Files of rt-app, as a user runs them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{done, metric, schedlab, stderr, stdout};

/// A task that works by a timer, and one that it wakes.
const FILE: &str = r#"
/* A pair. */
{
    "global" : { "duration" : 1, "calibration" : "CPU0", "gnuplot" : true, },
    "tasks" : {
        "producer" : { "run" : 100, "sem_post" : "s", "timer" : { "ref" : "unique", "period" : 20000 } },
        "consumer" : { "loop" : 3, "sem_wait" : "s", "run" : 100, "run" : 100 },
        "asleep" : { "suspend", "run" : 100 },
    }
}"#;

fn write(home: &Path, text: &str) {
    std::fs::write(home.join("app.json"), text).unwrap();
}

#[test]
fn a_file_runs_as_the_plan_that_print_shows() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), FILE);
    let run = |more: &[&str]| {
        schedlab(home.path(), &[&["run", "app.json"], more].concat()).output().unwrap()
    };
    let printed = run(&["--print"]);
    let text = stdout(&printed);
    assert!(text.contains("steps = [\n  \"burn 100us\",\n  \"post s\",\n"), "{text}");
    done(run(&["-q", "--rounds", "1", "--events", "events"]));
    let events = std::fs::read_to_string(home.path().join("events")).unwrap();
    let ended = events.lines().find(|line| line.contains("\"event\":\"run_ended\"")).unwrap();
    let outcome = serde_json::from_str::<Value>(ended).unwrap()["outcome"].clone();
    let ops = |set: usize| outcome["result"]["sets"][set]["workers"][0]["ops"].as_u64().unwrap();
    // A busy machine may do less of it, and none does more.
    assert!((1..=51).contains(&ops(0)), "{outcome}");
    assert!(ops(1) <= 3, "its loops: {outcome}");
    assert_eq!(ops(2), 0, "nobody resumes it: {outcome}");
    assert!(!outcome["result"]["disturbances"].to_string().contains("starved"), "{outcome}");
    assert!(metric(&outcome, 0, "pass_max") >= 19e6 && metric(&outcome, 0, "miss_ratio") < 1.0);
    let shown = schedlab(home.path(), &["show", "last", "--plan"]).output().unwrap();
    let stored = schedlab(home.path(), &["run", "last", "--print"]).output().unwrap();
    assert_eq!(stdout(&stored), text, "{shown:?}");
}

#[test]
fn variants_are_compared_with_the_file_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), FILE);
    let variants = ["--variant", "batch:policy=batch", "--variant", "low:nice=5,slice=1ms"];
    let words = [&["run", "app.json", "--backend", "null"], &variants[..]].concat();
    let output = done(schedlab(home.path(), &words));
    let report = stdout(&output);
    for word in ["as-found", "batch", "low", "producer", "consumer"] {
        assert!(report.contains(word), "{word}: {report}");
    }
    let alone = schedlab(home.path(), &["run", "--variant", "a:nice=1"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    assert!(stderr(&alone).contains("neither a plan nor a command"), "{alone:?}");
}

#[test]
fn a_wrong_file_is_refused_with_the_place() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "{\n  \"tasks\" : { \"a\" : { \"run\" : 1, \"slep\" : 2 } } }\n");
    let output = schedlab(home.path(), &["run", "app.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("unknown key `slep` in a task\n --> app.json:2:"), "{message}");
    assert!(message.contains("did you mean `sleep`?"), "{message}");
}

#[test]
fn a_plan_becomes_a_file_and_what_cannot_is_refused() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), FILE);
    let call = |words: &[&str]| schedlab(home.path(), words).output().unwrap();
    let plan = stdout(&call(&["run", "app.json", "--print"]));
    fs::write(home.path().join("app.toml"), &plan).unwrap();
    let export = ["export", "app.toml", "--format", "rt-app", "-o", "again.json"];
    let done = call(&export);
    assert!(done.status.success() && stderr(&done).is_empty(), "{}", stderr(&done));
    let again = stdout(&call(&["run", "again.json", "--print"]));
    assert_eq!(again.replace("again", "app"), plan);
    // A stored plan, to standard output.
    assert!(call(&["run", "app.json", "--backend", "null", "-q"]).status.success());
    let stored = stdout(&call(&["export", "backend=null", "--format", "rt-app"]));
    assert_eq!(stored, fs::read_to_string(home.path().join("again.json")).unwrap());
    let batch =
        plan.replace("[[workload]]", "[[variant]]\nname = \"b\"\npolicy = \"batch\"\n[[workload]]");
    fs::write(home.path().join("app.toml"), batch).unwrap();
    assert!(stderr(&call(&export)).contains("--variant b:policy=batch"), "{:?}", call(&export));
    fs::write(home.path().join("app.toml"), plan.replace("100us", "100us|1ms")).unwrap();
    let refused = call(&["export", "app.toml", "--format", "rt-app", "-o", "other.json"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = stderr(&refused);
    assert!(message.contains("set `producer`: rt-app cannot hold `steps`"), "{message}");
    assert!(message.contains("hint: ") && !home.path().join("other.json").exists(), "{message}");
    fs::write(home.path().join("app.toml"), plan.replace("post s", "post s 10000")).unwrap();
    let message = stderr(&call(&export));
    assert!(message.contains("the plan is too long: 10002 events"), "{message}");
    let nothing = call(&["export", "--format", "rt-app"]);
    assert!(stderr(&nothing).contains("needs a plan"), "{}", stderr(&nothing));
    assert!(stdout(&call(&["list", "formats"])).contains("rt-app"));
}
