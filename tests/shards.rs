//! A plan in parts: each run alone, exported, and joined into what one run of the plan gives.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::home::Home;
use crate::support::{joined, plan_ids, signal, skip, stdout, wait_for};

const PLAN: &str = r#"
schema = 1
title = "In parts"
[measure]
rounds = 10
duration = "1s"
[[variant]]
name = "a"
[[variant]]
name = "b"
policy = "batch"
[[workload]]
use = "spin"
count = [1, 2]
[[workload]]
use = "schbench"
"#;

/// The message and its hint.
fn fails(home: &Home, code: i32, words: &str) -> String {
    let said = home.says(code, words);
    assert!(said.contains("hint: "), "{words}: {said}");
    said
}

fn run_part(home: &Home, shard: &str) -> String {
    home.both(0, format!("run plan.toml --backend null --shard {shard}"))
}

/// Runs a part in a separate store, and exports it to a file.
fn part(home: &Home, file: &str, shard: &str, more: &str) -> String {
    let db = format!("{file}.db");
    home.ok(format!("run plan.toml --backend null --shard {shard} --db {db} -q{more}"));
    let lines = stored(home, &db);
    home.write(file, &lines);
    lines
}

/// The events of a store, which may not be there.
fn stored(home: &Home, db: &str) -> String {
    stdout(&home.call(format!("export --db {db}")))
}

/// All exported events of each run, by round and cell.
fn runs(home: &Home, db: &str) -> BTreeMap<(u64, u64), Vec<Value>> {
    let mut runs: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for event in home.events(&format!("--db {db}")) {
        let key = ["round", "cell"].map(|key| event["key"][key].as_u64());
        if let [Some(round), Some(cell)] = key {
            runs.entry((round, cell)).or_default().push(event);
        }
    }
    runs
}

/// The id in the output of an import.
fn joined_id(said: &str) -> String {
    said.split(':').next().unwrap().to_string()
}

#[test]
fn joined_parts_are_what_one_run_of_the_plan_gives() {
    let home = Home::with_plan(PLAN);
    home.ok("run plan.toml --backend null -q --db one.db");
    for number in 1..=4 {
        part(&home, &format!("p{number}"), &format!("{number}/4"), "");
    }
    // Parts may come in any order, and one of them twice.
    let said = home.both(0, "import p3 p1 p4 p2 p3 --db joined.db");
    assert!(said.contains("all 4 parts, 60 of 60 runs; 12 runs with the same answers"), "{said}");
    let id = joined_id(&said);
    assert!(said.contains(&format!("see: schedlab report {id} --db joined.db")), "{said}");
    assert_eq!(runs(&home, "joined.db"), runs(&home, "one.db"));
    let [joined, one] = ["joined.db", "one.db"].map(|db| {
        let id = &plan_ids(&stored(&home, db))[0];
        let report = home.ok(format!("report {id} -v --db {db}"));
        // Names of other lengths wrap lines at other places.
        let report = report.replace(id, "ID").replace(db, "DB").replace('\\', "");
        joined(&report)
    });
    assert_eq!(joined, one);
    let list = home.ok("list runs --db joined.db");
    assert!(list.contains("10/10") && list.contains("complete"), "{list}");
    assert_eq!(list.matches("parts-").count(), 1, "parts are no plans of their own: {list}");
    // Once more, from the store itself: it has all parts already.
    let before = stored(&home, "joined.db");
    home.write("whole", &before);
    home.ok("import whole p1 --db joined.db");
    assert_eq!(stored(&home, "joined.db"), before);
}

#[test]
fn a_missing_part_is_named_with_the_command_that_runs_it() {
    let home = Home::with_plan(PLAN);
    home.ok("run plan.toml --backend null -q --db one.db");
    for number in [1, 2, 4] {
        part(&home, &format!("p{number}"), &format!("{number}/4"), "");
    }
    let said = home.both(0, "import p1 p2 p4 --db joined.db");
    let id = joined_id(&said);
    assert!(said.contains("3 of 4 parts, 48 of 60 runs"), "{said}");
    let command = format!("schedlab run --resume {id} --shard 3/4 --db joined.db");
    assert!(said.contains(&format!("missing: part 3/4, 12 runs: {command}\n")), "{said}");
    let report = joined(&home.ok(format!("report {id} --db joined.db COLUMNS=100")));
    assert!(report.contains(&format!("; missing: part 3/4, 12 runs: {command}")), "{report}");
    let said = home.both(0, command.trim_start_matches("schedlab "));
    assert!(said.contains("all 4 parts, 60 of 60 runs"), "{said}");
    assert_eq!(runs(&home, "joined.db"), runs(&home, "one.db"));
    let said = home.both(0, format!("run --resume {id} --shard 3/4 --db joined.db"));
    assert!(said.contains("part 3/4 lacks nothing"), "{said}");
    // Without `--shard`, everything that is missing is run.
    home.ok("import p1 p4 --db other.db");
    let report = joined(&home.ok(format!("report {id} --db other.db COLUMNS=100")));
    let both = "part 2/4, 18 runs, part 3/4, 12 runs";
    let all = format!("; missing: {both}: schedlab run --resume {id} --db other.db");
    assert!(report.contains(&all), "{report}");
    home.ok(format!("run --resume {id} --db other.db -q"));
    assert_eq!(runs(&home, "other.db"), runs(&home, "one.db"));
    let said = fails(&home, 2, &format!("run --resume {id} --shard 1/8 --db other.db"));
    assert!(said.contains("is cut in 4 parts"), "{said}");
}

#[test]
fn parts_that_do_not_fit_are_refused_and_nothing_is_stored() {
    let home = Home::with_plan(PLAN);
    let first = part(&home, "p1", "1/4", "");
    part(&home, "seed", "2/4", " --seed 7");
    part(&home, "eight", "2/8", "");
    part(&home, "rounds", "2/4", " --rounds 4");
    let part = first.lines().next().unwrap().replace("-1of4", "-2of4");
    let part = part.replace("\"part\":1", "\"part\":2");
    let other = first.replacen(first.lines().next().unwrap(), &part, 1);
    home.write("of-another", other);
    home.write("unsound", first.replace("-1of4", "-2of4"));
    let at = first.find("\"known\":").unwrap() + 8;
    let changed = format!("{}1{}", &first[..at], &first[at..]);
    home.write("changed", changed);
    home.write("text", "no export\n");
    let cases = [
        ("p1 seed", 3, "`p1`, part 1/4 and `seed`, part 2/4 are not parts of one plan: the seed ("),
        ("p1 eight", 3, "`p1`, part 1/4 and `eight`, part 2/8 do not fit: one plan was cut in d"),
        ("p1 rounds", 3, "the number of rounds (10 and 4) differs"),
        ("of-another", 3, "part 2/4 has round 0 of cell"),
        ("p1 unsound", 2, "unsound: line 1 cannot be imported: the plan `parts-"),
        ("p1 changed", 3, "`p1`, part 1/4 and `changed`, part 1/4 have different answers to the s"),
        ("p1 text", 2, "text: neither JSON lines of `schedlab export` nor a store"),
        ("p1 gone", 2, "cannot read gone"),
    ];
    for (files, code, expected) in cases {
        let said = fails(&home, code, &format!("import {files} --db joined.db"));
        assert!(said.contains(expected), "{files}: {said}");
        assert_eq!(stored(&home, "joined.db"), "", "{files}");
    }
    // A refused import does not change the store.
    home.ok("import p1 --db joined.db");
    let before = stored(&home, "joined.db");
    for files in ["changed", "eight"] {
        fails(&home, 3, &format!("import {files} --db joined.db"));
        assert_eq!(stored(&home, "joined.db"), before, "{files}");
    }
}

#[test]
fn words_that_are_no_part_are_usage_errors() {
    let home = Home::with_plan(PLAN);
    for (word, hint) in [("0/4", "1/4 to 4/4"), ("5/4", "1/4 to 4/4"), ("x", "3/16")] {
        let said = fails(&home, 2, &format!("run plan.toml --backend null --shard {word}"));
        assert!(said.contains(hint), "{word}: {said}");
    }
    home.write("open.toml", {
        PLAN.replace("rounds = 10", "until-decided = true\nbudget = \"1min\"")
    });
    let said = fails(&home, 2, "run open.toml --backend null --shard 1/2");
    assert!(said.contains("--rounds 20"), "{said}");
}

#[test]
fn a_part_that_is_asked_for_again_is_not_run_again() {
    let home = Home::with_plan(PLAN);
    let said = run_part(&home, "12/16");
    assert!(
        said.contains("part 12/16 has no runs, and is not missed: the plan has 10 rounds"),
        "{said}"
    );
    let said = run_part(&home, "2/4");
    assert!(said.contains("part 2/4 of parts-") && said.contains("18 runs\n"), "{said}");
    assert!(said.contains("-2of4 > part-2of4.jsonl\n"), "{said}");
    let id = said.split("schedlab export ").nth(1).unwrap().split(' ').next().unwrap();
    let shown = home.ok(format!("show {id} COLUMNS=120"));
    assert!(shown.contains("2/4 of parts-"), "{shown}");
    let before = stored(&home, ".local/share/schedlab/schedlab.db");
    let said = run_part(&home, "2/4");
    assert!(said.contains("part 2/4 is stored already"), "{said}");
    assert_eq!(stored(&home, ".local/share/schedlab/schedlab.db"), before);
    // The other parts, in the same store: the last one joins all.
    run_part(&home, "1/4");
    run_part(&home, "3/4");
    let said = run_part(&home, "4/4");
    assert!(said.contains("all 4 parts, 60 of 60 runs"), "{said}");
    let said = run_part(&home, "2/4");
    assert!(said.contains("part 2/4 is joined in parts-"), "{said}");
    let dry = home.both(0, "run plan.toml --backend null --shard 2/4 --dry-run");
    assert!(dry.contains("18 runs, at least"), "{dry}");
}

#[test]
fn an_interrupted_part_goes_on() {
    let home = Home::with_plan(PLAN);
    let plan = PLAN.replace("1s", "100ms").replace("[measure]", "[measure]\nwarmup = \"10ms\"");
    home.write("plan.toml", plan);
    let words = ["run", "plan.toml", "--shard", "2/5", "-q", "--events", "events"];
    let mut running = home.command(&words).spawn().unwrap();
    let ended = || {
        let events = std::fs::read_to_string(home.at("events")).unwrap_or_default();
        events.matches("\"run_ended\"").count()
    };
    wait_for("a run to end", || (ended() > 0).then_some(()));
    signal(running.id(), "-INT");
    let code = running.wait().unwrap().code();
    let before = ended();
    if before < 12 {
        assert_eq!(code, Some(130));
    }
    let said = home.both(0, "run plan.toml --shard 2/5");
    let done = if before < 12 { "part 2/5 of parts-" } else { "is stored already" };
    assert!(said.contains(done), "{said}");
    let runs = runs(&home, ".local/share/schedlab/schedlab.db");
    let rounds: std::collections::BTreeSet<u64> = runs.keys().map(|(round, _)| *round).collect();
    // Rounds that others spoilt are measured again, in rounds of this part.
    assert!(rounds.contains(&1) && rounds.contains(&6), "{rounds:?}");
    assert!(rounds.iter().all(|round| round % 5 == 1), "{rounds:?}");
    assert!(runs.len() >= 12 && runs.len().is_multiple_of(2), "{}", runs.len());
}

#[test]
fn gnu_parallel_runs_the_parts_of_a_plan() {
    let home = Home::with_plan(PLAN);
    if !Path::new("/usr/bin/parallel").exists() {
        return skip("GNU parallel (package parallel)");
    }
    let ours = Path::new(env!("CARGO_BIN_EXE_schedlab"));
    let run =
        format!("{} run plan.toml --backend null --shard {{}}/4 --db {{}}.db -q", ours.display());
    let mut parallel = std::process::Command::new("/usr/bin/parallel");
    parallel.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    let done = parallel.current_dir(home.path()).args([&run, ":::", "1", "2", "3", "4"]).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = home.both(0, "import 1.db 2.db 3.db 4.db --db joined.db");
    assert!(said.contains("all 4 parts, 60 of 60 runs"), "{said}");
}

#[test]
fn plans_of_another_store_are_taken_once() {
    let home = Home::with_plan(PLAN);
    for db in ["a.db", "b.db"] {
        home.ok(format!("run plan.toml --backend null -q --db {db}"));
    }
    let id = |db: &str| plan_ids(&stored(&home, db)).remove(0);
    home.ok(format!("tag {} kept --db b.db", id("b.db")));
    let bytes = |db: &str| std::fs::read(home.at(db)).unwrap();
    let before = bytes("b.db");
    let said = home.both(0, "import b.db --db a.db");
    assert!(said.contains("stored: 1 plan, 60 runs, 0 scores\n"), "{said}");
    assert_eq!(bytes("b.db"), before, "nothing is written to it");
    let of_b = home.ok(format!("export {} --db a.db", id("b.db")));
    assert_eq!(of_b, stored(&home, "b.db"), "with its tag");
    let said = home.both(0, "import b.db b.db --db a.db");
    assert!(said.contains("stored: 0 plans, 0 runs, 0 scores; 2 that were there"), "{said}");
}

#[test]
fn a_database_that_is_none_of_ours_is_refused() {
    let home = Home::with_plan(PLAN);
    home.ok("run plan.toml --backend null -q --db good.db");
    let change = |name: &str, sql: &str| {
        std::fs::copy(home.at("good.db"), home.at(name)).unwrap();
        let conn = rusqlite::Connection::open(home.at(name)).unwrap();
        conn.execute_batch(sql).unwrap();
    };
    change("trigger", "CREATE TRIGGER t AFTER DELETE ON run BEGIN SELECT 1; END");
    change("view", "DROP TABLE note; CREATE VIEW note AS SELECT * FROM plan");
    change("foreign", "PRAGMA application_id = 7");
    change("older", "PRAGMA user_version = 1");
    change("newer", "PRAGMA user_version = 1000");
    change("words", "UPDATE plan SET id = '../../etc'; DELETE FROM plan_digest");
    change("damaged", "UPDATE plan SET json = '{}'");
    let mut cut = std::fs::read(home.at("good.db")).unwrap();
    cut.truncate(40_000);
    home.write("cut", cut);
    let cases = [
        ("trigger", 2, "its tables are not those of format"),
        ("view", 2, "its tables are not those of format"),
        ("foreign", 2, "is not a schedlab database"),
        ("older", 3, "was written by an older schedlab"),
        ("newer", 3, "was written by a newer schedlab"),
        ("words", 2, "is not 1 to 64 letters, digits and hyphens"),
        ("damaged", 3, "is damaged"),
        ("cut", 3, ""),
    ];
    for (name, code, expected) in cases {
        let said = fails(&home, code, &format!("import {name} --db joined.db"));
        assert!(said.contains(expected), "{name}: {said}");
        assert_eq!(stored(&home, "joined.db"), "", "{name}");
    }
}
