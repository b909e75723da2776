//! Files of rt-app, as a user runs them.

use serde_json::Value;

use crate::home::Home;
use crate::support::metric;

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

fn home() -> Home {
    let home = Home::new();
    home.write("app.json", FILE);
    home
}

#[test]
fn a_file_runs_as_the_plan_that_print_shows() {
    let home = home();
    let text = home.ok("run app.json --print");
    assert!(text.contains("steps = [\n  \"burn 100us\",\n  \"post s\",\n"), "{text}");
    home.ok("run app.json -q --rounds 1 --events events");
    let events = home.read("events");
    let ended = events.lines().find(|line| line.contains("\"event\":\"run_ended\"")).unwrap();
    let outcome = serde_json::from_str::<Value>(ended).unwrap()["outcome"].clone();
    let ops = |set: usize| outcome["result"]["sets"][set]["workers"][0]["ops"].as_u64().unwrap();
    // A busy machine may do less of it, and none does more.
    assert!((1..=51).contains(&ops(0)), "{outcome}");
    assert!(ops(1) <= 3, "its loops: {outcome}");
    assert_eq!(ops(2), 0, "nobody resumes it: {outcome}");
    assert!(!outcome["result"]["disturbances"].to_string().contains("starved"), "{outcome}");
    assert!(metric(&outcome, 0, "pass_max") >= 19e6 && metric(&outcome, 0, "miss_ratio") < 1.0);
    assert_eq!(home.ok("run last --print"), text, "{}", home.both(None, "show last --plan"));
}

#[test]
fn variants_are_compared_with_the_file_as_it_is() {
    let home = home();
    let variants = ["--variant", "batch:policy=batch", "--variant", "low:nice=5,slice=1ms"];
    let words = [&["run", "app.json", "--backend", "null"], &variants[..]].concat();
    let report = home.ok(&words);
    for word in ["as-found", "batch", "low", "producer", "consumer"] {
        assert!(report.contains(word), "{word}: {report}");
    }
    // Without a plan it is the default one, with its own variants.
    let text = home.ok("run --variant a:nice=1 --print");
    assert!(text.contains("\"slice-100us\"") && text.contains("\"a\""), "{text}");
}

#[test]
fn a_plan_names_a_file_next_to_it() {
    let home = home();
    std::fs::create_dir(home.at("sub")).unwrap();
    std::fs::rename(home.at("app.json"), home.at("sub/app.json")).unwrap();
    let plan = "schema = 1\n[measure]\nduration = \"200ms\"\nwarmup = \"0s\"\n[[workload]]\nname = \"mine\"\n\
                use = \"app.json\"\n";
    home.write("sub/plan.toml", plan);
    home.ok("run sub/plan.toml -q --rounds 1");
    let stored = home.ok("run last --print");
    assert!(stored.contains("name = \"producer\"") && !stored.contains("app.json"), "{stored}");
    std::fs::remove_file(home.at("sub/app.json")).unwrap();
    let said = home.says(2, "run sub/plan.toml");
    assert!(said.contains("cannot read the file of rt-app `sub/app.json`"), "{said}");
}

#[test]
fn a_wrong_file_is_refused_with_the_place() {
    let home = Home::new();
    home.write("app.json", "{\n  \"tasks\" : { \"a\" : { \"run\" : 1, \"slep\" : 2 } } }\n");
    let message = home.says(2, "run app.json");
    assert!(message.contains("unknown key `slep` in a task\n --> app.json:2:"), "{message}");
    assert!(message.contains("did you mean `sleep`?"), "{message}");
}

#[test]
fn a_plan_becomes_a_file_and_what_cannot_is_refused() {
    let home = home();
    let plan = home.ok("run app.json --print");
    home.write("app.toml", &plan);
    let export = "export app.toml --format rt-app -o again.json";
    assert_eq!(home.says(0, export), "");
    let again = home.ok("run again.json --print");
    assert_eq!(again.replace("again", "app"), plan);
    // A stored plan, to standard output.
    home.ok("run app.json --backend null -q");
    let stored = home.ok("export backend=null --format rt-app");
    assert_eq!(stored, home.read("again.json"));
    let batch =
        plan.replace("[[workload]]", "[[variant]]\nname = \"b\"\npolicy = \"batch\"\n[[workload]]");
    home.write("app.toml", batch);
    let message = home.both(None, export);
    assert!(message.contains("--variant b:policy=batch"), "{message}");
    home.write("app.toml", plan.replace("100us", "100us|1ms"));
    let message = home.says(2, "export app.toml --format rt-app -o other.json");
    assert!(message.contains("set `producer`: rt-app cannot hold `steps`"), "{message}");
    assert!(message.contains("hint: ") && !home.at("other.json").exists(), "{message}");
    home.write("app.toml", plan.replace("post s", "post s 10000"));
    let message = home.both(None, export);
    assert!(message.contains("the plan is too long: 10002 events"), "{message}");
    let nothing = home.both(None, "export --format rt-app");
    assert!(nothing.contains("needs a plan"), "{nothing}");
    assert!(home.ok("list formats").contains("rt-app"));
}
