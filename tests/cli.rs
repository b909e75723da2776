//! The binary as a user calls it: exit codes, streams, files.

use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::home::Home;
use crate::support::{done, ended, joined, plan_ids, stderr, stdout, wait_for, write_script};

/// Plans of the null backend are `last` only where they are asked for.
const LAST: &str = "last,backend=null";
const BOTH: &str = "last:2,backend=null";

/// A home in which this ran, and what it printed.
fn after(words: &str) -> (Home, String) {
    let home = Home::new();
    let printed = home.ok(words);
    (home, printed)
}

#[test]
fn the_command_line_and_the_plan_are_checked_with_exit_code_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["run", "nonesuch"], "there is no built-in plan or file `nonesuch`"),
        (&["run", "--backend", "nonesuch"], "there is no backend `nonesuch`"),
        (&["run", "--duration", "5"], "has no unit"),
        (&["run", "--duration", "0s"], "--duration: 0s is below the least"),
        (&["run", "--rounds", "0"], "--rounds: 0 is below the least"),
        (&["run", "--resume"], "nothing to resume"),
        (&["run", "--resume", "--dry-run"], "cannot be used with"),
        (&["run", "--resume", "--rounds", "3"], "--rounds +20"),
        (&["run", "--rounds", "100001"], "--rounds: 100001 is above the most"),
        (&["run", "--duration", "18446744073709551615ns"], "is above the most"),
        (&["run", "/"], "cannot read the plan `/`"),
        (&["list", "workloads", "nonesuch"], "there is no workload `nonesuch`"),
        (&["list", "plans", "quik"], "did you mean `quick`?"),
        (&["list", "knobs", "nise"], "did you mean `nice`?"),
        (&["list", "knobs", "weight"], "did you mean `cgroup-weight`?"),
        (&["list", "workloads", "hackbenhc"], "did you mean `hackbench`?"),
        (&["list", "runs", "--since", "7d"], "hint: among what is selected: since=7d"),
        (&["run", "--width", "10"], "hint: COLUMNS=100"),
        (&["run", "--html", "x.html"], "hint: -o page.html"),
        (&["note", "last", "--clear"], "hint: --remove"),
        (&["kernel", "list", "--db", "x.db"], "--db: `schedlab kernel` touches no database"),
        (&["--db", "x.db", "twin"], "--db: `schedlab twin` touches no database"),
        (&["run", "quik"], "did you mean `quick`?"),
        (&["report", "--format", "jsn"], "did you mean `json`?"),
        (&["tag", "last", "a,b"], "`a,b` is not a tag"),
        (&["note", "last", " "], "a note has from 1"),
        (&["nonesuch"], "unrecognized subcommand"),
    ];
    for (arguments, expected) in cases {
        let output = Home::new().ends(2, *arguments);
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_command_that_is_missing_is_answered_with_the_commands() {
    let home = Home::new();
    for (words, begin) in [
        (&[][..], "schedlab: is one CPU scheduler better than another for this load"),
        (&["kernel"], "Fetch, build, list and remove kernels"),
    ] {
        let output = home.ends(2, words);
        assert_eq!(stdout(&output), "", "{words:?}");
        assert!(stderr(&output).starts_with(begin), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn a_name_that_is_not_utf8_is_said() {
    let home = Home::new();
    let name = std::ffi::OsStr::from_bytes(b"na\xffme.toml");
    let output = ended(home.command("run").arg(name), 2);
    let expected =
        "error: \"na\\xFFme.toml\" is not UTF-8, and `schedlab run` takes no other names\n";
    assert!(stderr(&output).starts_with(expected), "{}", stderr(&output));
}

/// Whatever the option is called, and whether it is a plan, a file to import, a machine or a database.
#[test]
fn a_path_that_leads_nowhere_is_a_wrong_command_line() {
    let home = Home::new();
    std::fs::create_dir(home.at("folder")).unwrap();
    home.write("file", "x");
    let run = "run smoke --backend null -q";
    let cases = [
        "run ./PATH",
        "test ./PATH",
        "import ./PATH",
        "import ./PATH ./PATH",
        "list workloads ./PATH.toml",
        "run smoke --backend lab --dry-run --machine ./PATH",
        "try ./PATH",
    ];
    for words in cases {
        for path in ["folder", "absent", "file/x"] {
            let words = words.replace("PATH", path);
            let said = home.says(2, &*words);
            assert!(said.contains("\nhint: "), "{words}: {said}");
        }
    }
    // A database that is not there has nothing yet, where it can be made.
    for (words, path, code) in [
        (run, "folder", 2),
        (run, "file/x.db", 2),
        ("list runs", "folder", 2),
        ("list runs", "absent", 3),
    ] {
        home.ends(code, format!("{words} --db {path}"));
    }
    // The own file of who mistyped an option is not to be written over.
    let said = home.both(None, "run smoke --backend lab --dry-run --machine ./file");
    assert!(!said.contains("-o ./file"), "{said}");
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let (home, _) = after("run smoke --backend null");
    home.write("file", "x");
    let cases: &[(&[&str], &str)] = &[
        (&["export", "-o", "/dev/full"], "cannot write /dev/full: "),
        (&["export", "--format", "parquet", "-o", "file"], "cannot write "),
        (&["run", "smoke", "--backend", "null", "--events", "file"], "cannot write file: "),
    ];
    for (words, expected) in cases {
        let said = home.says(3, *words);
        assert!(said.contains(expected) && said.contains("\nhint: "), "{words:?}: {said}");
        assert!(!said.contains("standard output") && !said.contains("--db"), "{words:?}: {said}");
    }
}

#[test]
fn what_measures_nothing_leaves_nothing_in_the_store() {
    let home = Home::new();
    let missing = home.ends(3, "run -- nosuch");
    let said = stderr(&missing);
    // Every run lacks it: no place has to be named.
    let (why, is_one) =
        ("error: no run of the plan can be made here: ", "`nosuch` cannot be executed");
    assert!(said.starts_with(why) && said.contains(is_one) && !said.contains(" / "), "{said}");
    assert!(said.contains("\nhint: give the path of a program"), "{said}");
    assert!(missing.stdout.is_empty(), "{missing:?}");
    assert!(!home.at(".local/share/schedlab").exists(), "nothing was stored");
    let fails = home.ends(3, "run --rounds 2 -- false");
    let report = stdout(&fails);
    assert!(report.contains("2 of 2 runs of false: "), "{report}");
    assert!(!report.contains("schedlab report"), "it cannot be had again: {report}");
    assert!(stderr(&fails).ends_with("nothing is stored: the report says why\n"), "{fails:?}");
    // Further runs of what fails at once are not made.
    let said = home.both(None, "run --rounds 40 --quiet -- false");
    assert!(said.contains("all 2 runs so far failed, so the plan ends"), "{said}");
    assert!(said.contains("`false` failed with exit status 1"), "{said}");
    let listed = home.both(None, "list runs");
    assert!(!listed.contains("false"), "{listed}");
}

#[test]
fn the_newest_plan_alone_is_resumed_without_an_id() {
    let home = Home::new();
    home.ok("run smoke --backend null --quiet");
    let export = home.ok("export");
    let begun: Vec<&str> = export.lines().filter(|line| !line.contains("plan_ended")).collect();
    home.write("killed", begun.join("\n"));
    home.ok("import killed --db o.db");
    home.ok("run smoke --backend null --quiet --db o.db");
    let said = home.says(2, "run --resume --db o.db");
    assert!(said.contains("nothing to resume: the newest plan, "), "{said}");
    let more = home.says(2, "run --resume --rounds +4 --db o.db");
    assert!(more.contains("cannot go on: all of its rounds are done"), "{more}");
    let command = said.rsplit_once("hint: schedlab ").expect("a command").1;
    let command: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(command[..2], ["run", "--resume"], "the older one: {said}");
    let said = home.says(0, &command);
    let goes_on = format!("goes on with {} (", command[2]);
    assert!(said.starts_with(&goes_on), "{said}");
}

#[test]
fn knobs_are_also_listed_by_their_former_name() {
    let list = |what| Home::new().ok(&["list", what]);
    assert!(list("knobs").contains("timer-slack"), "{}", list("knobs"));
    assert_eq!(list("variants"), list("knobs"));
}

#[test]
fn a_plan_on_the_null_backend_is_stored_reported_and_exported() {
    let (home, text) = after("run smoke --backend null");
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 80));
    let again = home.ok(&["report", LAST]);
    assert_eq!(again, text, "the stored report is the one that was printed");
    home.write("lines", home.ok("export"));
    home.ok("import lines --db other.db");
    let replayed = home.ok(&["report", LAST, "--db", "other.db"]);
    let replayed = replayed.replace(" --db other.db", "");
    assert_eq!(replayed, text, "replaying the events gives the same report");
}

/// Two plans: one measured here, then one whose figures are invented.
fn home_with_two_plans() -> (Home, Vec<String>) {
    let (home, _) = after("run smoke --quiet");
    home.ok("run smoke --backend null --quiet");
    let ids = plan_ids(&home.ok("export"));
    (home, ids)
}

#[test]
fn the_last_plan_is_one_that_was_measured() {
    let (home, ids) = home_with_two_plans();
    let shown = |id: &str| home.ok(&["show", id]);
    assert!(shown("last").contains(&ids[0]), "{}", shown("last"));
    assert!(shown(&ids[1]).contains(&ids[1]), "{}", shown(&ids[1]));
    let (home, _) = after("run smoke --backend null --quiet");
    for command in ["report", "show", "compare"] {
        let said = home.says(2, &[command, "last"]);
        assert!(said.contains("hint: name a plan by its id"), "{said}");
    }
}

#[test]
fn a_wrong_term_is_met_with_the_one_that_may_be_meant() {
    let (home, _) = home_with_two_plans();
    let listed = |more: &[&str]| home.ok(&[&["list", "runs"], more].concat());
    let titled = listed(&["title=DOES MEASURING"]);
    assert_eq!(titled.lines().count(), 3, "{titled}");
    assert_eq!(titled, listed(&["title=measuring work"]));
    home.ends(2, "list runs title=nonesuch");
    for (words, meant) in [
        (&["compare", "plna=x", "last"][..], "hint: did you mean `plan=x`? schedlab list runs"),
        (&["list", "runs", "sinse=7d"], "hint: did you mean `since=7d`? schedlab list runs"),
    ] {
        let said = home.says(2, words);
        assert!(said.contains(meant), "{said}");
    }
}

#[test]
fn stored_plans_are_listed_tagged_noted_and_removed() {
    let (home, ids) = home_with_two_plans();
    // An id is shortened as far as it stays unique, but at most to the minute.
    let rows = |filter: &[&str]| {
        let table = home.ok(&[&["list", "runs"], filter].concat());
        let listed = |id: &&String| {
            table.lines().any(|line| {
                line.starts_with(&id[..13]) && {
                    let shown = line.split_whitespace().next().unwrap();
                    id.starts_with(shown)
                }
            })
        };
        ids.iter().filter(listed).cloned().collect::<Vec<_>>()
    };
    assert_eq!(rows(&[]), ids);
    let first = home.ok("list runs").lines().nth(1).unwrap().to_string();
    assert!(first.contains(" null "), "newest first: {first}");
    home.ok(&["tag", "last", "before"]);
    assert_eq!(rows(&["tag=bef*"]), ids[..1]);
    assert_eq!(rows(&["backend=null"]), ids[1..]);
    assert_eq!(rows(&["since=1h"]), ids);
    assert_eq!((rows(&["since=yesterday"]), rows(&["since=7d"])), (ids.clone(), ids.clone()));
    assert_eq!(
        (rows(&["last:9"]), rows(&["since=7d,backend=null"])),
        (ids[..1].into(), ids[1..].into())
    );
    home.ends(2, "list runs until=7d");
    assert!(home.ok(&["report", "since=7d"]).contains("throughput"));
    let of = |side: &str| stderr(&home.call(&["compare", side]));
    let last = of("last");
    let (note, last) = last.split_once('\n').unwrap();
    assert!(note.starts_with("note: `last` leaves out plan "), "{note}");
    assert!(note.contains(&ids[1]) && note.ends_with("to have them: backend=null"), "{note}");
    assert_eq!(of("since=yesterday,backend=local"), last, "one plan, and the same");
    for width in ["40", "80", "100", "200"] {
        let table = home.ok(&["list", "runs", &format!("COLUMNS={width}")]);
        let fits = |line: &str| line.chars().count() <= width.parse().unwrap();
        assert!(table.lines().all(fits) && table.lines().count() == 3, "{width}: {table}");
    }
    home.ok(&["note", "last", "with the fan off"]);
    let shown = home.ok(&["show", "last"]);
    assert!(shown.contains("before") && shown.contains("with the fan off"), "{shown}");
    assert!(home.ok(&["report", "tag=before"]).contains("throughput"));
    home.ok(&["tag", "--remove", "last", "before"]);
    home.ends(2, "report tag=before");

    let refused = home.call(&["rm", &ids[0]]);
    assert_eq!(refused.status.code(), Some(2), "no terminal to ask on: {refused:?}");
    assert_eq!(home.call("rm --yes 2").status.code(), Some(2), "two plans begin so");
    assert_eq!(rows(&[]), ids);
    let removed = home.ok(&["rm", "--yes", &ids[0], &ids[1]]);
    assert!(ids.iter().all(|id| removed.contains(id)), "{removed}");
    assert_eq!(home.ok("list runs"), "");
}

#[test]
fn rounds_that_replace_spoilt_ones_are_counted_as_such() {
    let (home, _) = after("run smoke --backend null --quiet");
    let export = home.ok("export");
    let mut lines: Vec<&str> = export.lines().collect();
    let of_last: Vec<String> = lines
        .iter()
        .filter(|line| line.contains("\"event\":\"run_") && line.contains("\"round\":1,"))
        .map(|line| line.replace("\"round\":1,", "\"round\":2,"))
        .collect();
    let end = lines.pop().unwrap();
    lines.extend(of_last.iter().map(String::as_str));
    lines.push(end);
    home.write("more", lines.join("\n"));
    let call = |arguments: &[&str]| {
        let output = home.command(&[arguments, &["--db", "o.db"]].concat()).output();
        stdout(&output.unwrap())
    };
    call(&["import", "more"]);
    let listed = call(&["list", "runs"]);
    assert!(listed.contains(" 2/2 +1 "), "{listed}");
    let shown = call(&["show", "2"]);
    assert!(shown.contains("6 done, 0 failed, 0 skipped, of 4 asked for and 2 that"), "{shown}");
}

#[test]
fn what_is_laid_out_fits_the_width_that_is_asked_for_also_in_a_pipe() {
    let (home, _) = after("run smoke --backend null --quiet");
    let longest = |arguments: &[&str], columns: Option<&str>| {
        let mut command = home.command(arguments);
        columns.map(|columns| command.env("COLUMNS", columns));
        let text = stdout(&command.output().unwrap());
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    let commands: &[&[&str]] = &[
        &["report", LAST],
        &["show", "2"],
        &["list", "knobs"],
        &["list", "runs"],
        &["doctor"],
        &["run", "smoke", "--backend", "null"],
    ];
    for command in commands {
        for width in ["72", "120"] {
            let max = width.parse().unwrap();
            let variable = longest(command, Some(width));
            assert!(variable <= max, "{command:?} COLUMNS={width}: {variable}");
        }
        assert!(longest(command, Some("200")) > 40, "{command:?}: it is used");
    }
}

#[test]
fn a_plan_that_is_measured_is_not_removed() {
    let plan = "schema = 1\n[measure]\nrounds = 100000\nduration = \"10ms\"\nwarmup = \"0s\"\n\
        window = \"10ms\"\n[[variant]]\nname = \"a\"\n[[workload]]\nuse = \"spin\"\n";
    let home = Home::with_plan(plan);
    let quiet = ["run", "./plan.toml", "--quiet"];
    let mut running = home.command(&quiet).spawn().unwrap();
    let row = |arguments: &[&str]| {
        let output = home.call(arguments);
        stdout(&output).lines().nth(1).map(str::to_string)
    };
    let line = wait_for("the plan", || row(&["list", "runs"]));
    assert!(line.contains("running"), "{line}");
    let id = line.split_whitespace().next().unwrap();
    home.ends(3, &["rm", "--yes", id]);
    running.kill().unwrap();
    running.wait().unwrap();
    // A worker that it was just forking has its lock until it has seen that the parent is gone.
    let is_killed = || row(&["list", "runs"]).filter(|line| line.contains("killed"));
    wait_for("the end of its lock", is_killed);
    home.ok(&["rm", "--yes", id]);
}

#[test]
fn a_reader_that_goes_away_ends_an_export_quietly() {
    let (home, _) = after("run smoke --backend null --quiet");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = home.command("export");
    let child = command.stdout(writer).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn what_an_import_brings_cannot_act_on_the_terminal() {
    let (home, _) = after("run smoke --backend null --quiet");
    let export = home.ok("export");
    let mut hostile = String::new();
    for line in export.lines() {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] == "plan_started" {
            for place in ["/plan/title", "/environment/kernel_release", "/environment/hostname"] {
                *event.pointer_mut(place).unwrap() = "\u{1b}[2J\u{202e}evil".into();
            }
        }
        hostile.push_str(&format!("{event}\n"));
    }
    home.write("hostile", hostile);
    home.ok("import hostile --db o.db");
    for arguments in [&["list", "runs"][..], &["show", "2"], &["rm", "\u{1b}"]] {
        let text = home.both(None, &[arguments, &["--db", "o.db"]].concat());
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert!(text.contains("\\u{1b}"), "{text:?}");
    }
}

#[test]
fn a_bench_file_is_imported_as_a_plan_by_its_name_or_by_what_it_holds() {
    let home = Home::new();
    let bench = r#"{ "Input": { "WorkerPresets": { "A": { "Args": ["burnwait", "7", "2000"] } },
        "SimpleMatrix": { "Workers": ["A"], "Count": [3] } } }"#;
    let one_line = bench.replace('\n', " ");
    let files = [
        ("named.bench", "{}"),
        ("broken.bench", "{ \"Inp"),
        ("neither", bench),
        ("one-line", one_line.as_str()),
        ("broken", "{ \"Input\": {\n \"WorkerPresets\": 5 } }"),
        ("binary.bench", "{\u{0}"),
        ("null.bench", "null"),
        ("empty.bench", ""),
        ("mark.bench", "\u{feff}{\"Input\":{}}"),
        ("mark", "\u{feff}{\"Input\":{}}"),
        ("brace", "{"),
        ("null", "null\n"),
        ("pretty", "{\n\"a\": 1\n}"),
        ("empty", " \n"),
    ];
    for (name, text) in files {
        home.write(name, text);
    }
    home.write("binary.bench", b"{\xff");
    let import = |name: &str| home.call(&["import", name]);
    for name in ["neither", "one-line"] {
        let output = done(import(name));
        assert!(stdout(&output).contains("\"wait 2us\"]\ncount = 3\n"), "{}", stdout(&output));
        // The output is a plan that can be run.
        home.write("plan.toml", &output.stdout);
        home.ok("run ./plan.toml --dry-run");
    }
    let refused = [
        ("named.bench", "named.bench: `Input` is missing"),
        ("broken.bench", "broken.bench:1:"),
        ("broken", "broken:2:"),
        ("binary.bench", "binary.bench:1:2: not UTF-8"),
        ("missing.bench", "missing.bench: "),
        ("null.bench", "null.bench:1:4: invalid type: null, expected an object"),
        ("empty.bench", "empty.bench:1:1: the text is cut off"),
        ("mark.bench", "mark.bench: neither JSON lines of `schedlab export` nor a .bench file"),
        ("mark", "mark: neither JSON lines"),
        ("brace", "brace: neither JSON lines of `schedlab export` nor a .bench file"),
        ("null", "null: neither JSON lines"),
        ("pretty", "pretty: neither JSON lines"),
        (
            "empty",
            "empty: neither JSON lines of `schedlab export` nor a .bench file (a JSON object \
                   with `Input` or `Runs`), nor results of Phoronix or mmtests: it is empty",
        ),
    ];
    for (name, expected) in refused {
        let output = import(name);
        assert_eq!(output.status.code(), Some(2), "{name} {output:?}");
        assert!(stderr(&output).contains(expected), "{name}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{name}");
    }
    let store = home.at(".local/share/schedlab/schedlab.db");
    assert!(!store.exists(), "no store is made for it");
}

#[test]
fn standard_input_is_imported_by_what_it_holds() {
    let import = |text: &str| {
        let home = Home::new();
        home.write("input", text);
        let input = std::fs::File::open(home.at("input")).unwrap();
        home.command("import -").stdin(input).output().unwrap()
    };
    for text in ["{}", "{\"a\":1}\n{}\n"] {
        let output = import(text);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains("standard input: neither ") && text.contains("line 1 is not an"),
            "{text}"
        );
    }
    let output = ended(import(r#"{"Runs":[{"Label":"a","WorkerSets":[{"Count":0}]}]}"#), 2);
    assert!(stderr(&output).contains("standard input: run 0 `a`"), "{}", stderr(&output));
    let (home, _) = after("run smoke --backend null");
    let lines = home.ok("export");
    let output = done(import(&lines));
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
}

/// A table with its figures taken out, which the null backend invents anew with each change of a workload's
/// metrics: only the layout must stay.
fn without_figures(table: &str) -> String {
    let row = |line: &str| match line.split_at_checked("RPS    (count): 50.0th:".len()) {
        Some((label, cells)) if label.ends_with(':') => {
            let cells = cells.replace(|c: char| c.is_ascii_digit(), "#");
            format!("{label}{cells}\n")
        }
        _ => format!("{line}\n"),
    };
    table.lines().map(row).collect()
}

#[test]
fn the_plan_schbench_v1_is_reported_as_the_mail_shows_it_unless_another_format_is_asked_for() {
    let (home, printed) = after("run schbench-v1 --backend null --rounds 2");
    let shown = without_figures(&printed);
    let (blocks, _) = shown.split_once("Verdicts, batch against default:").expect("verdicts");
    insta::assert_snapshot!(blocks.trim_end(), @"
    F128 N1                  default      batch
    Wakeup  (usec): 99.0th:       ##         ##
    Request (usec): 99.0th:       ##         ##
    RPS    (count): 50.0th:    #,###      #,###
    RPS    (count):   mean:    #,###      #,###

    F128 N1 no-locking       default      batch
    Wakeup  (usec): 99.0th:       ##         ##
    Request (usec): 99.0th:       ##         ##
    RPS    (count): 50.0th:    #,###      #,###
    RPS    (count):   mean:    #,###      #,###

    F128 N10                 default      batch
    Wakeup  (usec): 99.0th:       ##         ##
    Request (usec): 99.0th:       ##         ##
    RPS    (count): 50.0th:    #,###      #,###
    RPS    (count):   mean:    #,###      #,###

    F128 N10 no-locking      default      batch
    Wakeup  (usec): 99.0th:       ##         ##
    Request (usec): 99.0th:       ##         ##
    RPS    (count): 50.0th:    #,###      #,###
    RPS    (count):   mean:    #,###      #,###

    F128 N20                 default      batch
    Wakeup  (usec): 99.0th:       ##         ##
    Request (usec): 99.0th:       ##         ##
    RPS    (count): 50.0th:    #,###      #,###
    RPS    (count):   mean:    #,###      #,###

    F128 N20 no-locking      default      batch
    Wakeup  (usec): 99.0th:       ##         ##
    Request (usec): 99.0th:       ##         ##
    RPS    (count): 50.0th:    #,###      #,###
    RPS    (count):   mean:    #,###      #,###

    Values are medians over runs.
    ");
    let report = |more: &[&str]| {
        let more = if more.first() == Some(&BOTH) { more } else { &[&[LAST], more].concat() };
        home.ok(&[&["report"], more].concat())
    };
    assert_eq!(report(&[]), printed, "what is stored knows its format");
    assert!(report(&["--format", "text"]).contains("wakeup_p99"));
    // Text shows explaining metrics only on request.
    assert!(!report(&["--format", "text"]).contains("rps_p50"));
    assert!(report(&["--format", "text", "-v"]).contains("rps_p50"));
    home.ok("run schbench-v1 --backend null --rounds 1 --quiet");
    let both = report(&[BOTH]);
    assert!(both.starts_with("F128 N1 ") && both.matches("F128 N20 ").count() >= 2, "{both}");
    home.ok("run smoke --backend null");
    let both = report(&[BOTH]);
    assert!(
        both.contains("\nmore ") && both.contains("wakeup_p99"),
        "plans that differ are text: {both}"
    );
    let table = report(&[BOTH, "--format", "schbench"]);
    assert!(table.contains("F128 N20 no-locking") && table.contains("No work here"), "{table}");
}

#[test]
fn a_plan_with_a_report_format_that_there_is_not_is_refused_with_its_place() {
    let plan = "schema = 1\n[report]\nformat = \"page\"\n[[workload]]\nuse = \"spin\"\n";
    let home = Home::with_plan(plan);
    let output = home.ends(2, "run ./plan.toml");
    assert!(output.stdout.is_empty(), "nothing has run");
    insta::assert_snapshot!(stderr(&output), @r#"
    error: `page` is not known here
     --> ./plan.toml:3:10
    2 | [report]
    3 | format = "page"
      |          ^^^^^^ this value
    4 | [[workload]]
    hint: one of "text", "lkml", "loads", "markdown", "html", "svg", "png", "schbench", "csv", "json", "gobench", "junit"
    "#);
}

#[test]
fn the_same_seed_gives_the_same_figures_on_the_null_backend() {
    let metrics = |seed: &str| {
        let (_, text) = after(&format!("run smoke --backend null --seed {seed} --format csv"));
        let mut rows = csv::Reader::from_reader(text.as_bytes());
        let value = |row: csv::StringRecord| row.iter().skip(2).collect::<Vec<_>>().join(",");
        rows.records().map(|row| value(row.unwrap())).collect::<Vec<_>>()
    };
    assert!(metrics("7").len() > 4);
    assert_eq!(metrics("7"), metrics("7"));
    assert_ne!(metrics("7"), metrics("8"));
}

#[test]
fn a_real_run_measures_and_leaves_no_process() {
    let (home, _) = after("run smoke");
    let export = home.ok("export");
    assert!(export.contains("run_ended"), "{export}");
    assert!(!export.contains("\"status\":\"failed\""), "{export}");
}

#[test]
fn every_built_in_plan_prints_and_dry_runs() {
    let (home, text) = after("list plans");
    let names: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"quick"), "{names:?}");
    for name in names {
        assert!(home.ok(&["run", "--print", name]).contains("schema = 1"), "{name}");
        let dry = joined(&home.ok(&["run", "--dry-run", name, "--backend", "null"]));
        let said = [" runs, at least ", " has time for no more), "];
        assert!(said.iter().any(|part| dry.contains(part)), "{name}");
    }
}

#[test]
fn what_is_no_plan_is_not_printed_as_one() {
    let home = Home::new();
    home.write("empty.toml", "");
    let ran = home.says(2, "run empty.toml");
    assert!(ran.contains("`schema` is missing"), "{ran}");
    assert_eq!(home.says(2, "run empty.toml --print"), ran);
}

#[test]
fn a_dry_run_counts_what_would_run() {
    let plan = "schema = 1\n[measure]\nrounds = 3\nduration = \"2s\"\nwarmup = \"1s\"\n\
        [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\naffinity = \"0-60000\"\n\
        [[workload]]\nuse = \"spin\"\n";
    let home = Home::with_plan(plan);
    let text = home.ok("run ./plan.toml --dry-run --backend null");
    assert!(text.contains("spin / a: ok\n"), "{text}");
    assert!(text.contains("skipped: spin / b: affinity 0-60000: this machine has CPUs"), "{text}");
    assert!(text.ends_with("\n3 runs, at least 9 s; 3 more are skipped\n"), "{text}");
    let narrow = home.ok("run ./plan.toml --dry-run --backend null COLUMNS=40");
    assert!(narrow.lines().all(|line| line.len() <= 40), "{narrow}");
}

#[test]
fn a_database_that_is_none_or_cannot_be_written_is_refused_before_the_run() {
    let home = Home::new();
    home.write("garbage.db", "this is not a database, and longer than a header of one");
    for path in ["garbage.db", "garbage.db/below.db"] {
        let said = home.says(2, format!("run smoke --backend null --db {path}"));
        assert!(said.contains("hint:"), "{said}");
    }
    assert!(home.read("garbage.db").starts_with("this is no"), "untouched");
}

#[test]
fn a_skipped_cell_fails_only_a_strict_run() {
    let home = Home::new();
    let plan = "schema = 1\ntitle = \"skips\"\n[measure]\nrounds = 1\nduration = \"20ms\"\n\
        warmup = \"0s\"\nwindow = \"20ms\"\n[[variant]]\nname = \"plain\"\n[[variant]]\n\
        name = \"absent\"\nsysctl = [\"sched_there_is_no_such=1\"]\n[[workload]]\nuse = \"spin\"\n";
    home.write("skips.toml", plan);
    let shown = home.ok("run ./skips.toml");
    assert!(shown.contains("sched_there_is_no_such"), "{shown}");
    home.ends(3, "run ./skips.toml --strict");
}

#[test]
fn a_variant_whose_runs_all_fail_fails_the_run_and_one_that_fails_once_does_not() {
    let home = Home::new();
    let run = |script: &str| {
        let plan = format!(
            "schema = 1\n[measure]\nrounds = 2\n[[variant]]\nname = \"plain\"\n[[variant]]\nname = \"slack\"\n\
             timer-slack = \"77us\"\n[[workload]]\nname = \"c\"\nuse = \"command\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n"
        );
        home.write("fails.toml", &plan);
        home.command("run ./fails.toml").output().unwrap()
    };
    let is_plain = "test $(cat /proc/self/timerslack_ns) != 77000";
    let output = ended(run(is_plain), 3);
    let said = stderr(&output);
    assert!(said.contains("error: c / slack: each run failed: "), "{said}");
    assert!(said.contains("\nhint: schedlab report "), "{said}");
    let once = run(&format!("{is_plain} || mkdir once || test -d again || ! mkdir again"));
    assert!(stdout(&done(once)).contains("failed    slack: 1 of "), "one failure is no end");
}

#[test]
fn a_schedulers_file_that_is_not_there_is_refused_before_anything_runs() {
    let home = Home::new();
    home.write("text", "no program");
    for (file, why) in [("./nope.bpf.o", "not there"), ("./text", "is not an executable file")] {
        let plan = format!(
            "schema = 1\n[[variant]]\nname = \"plain\"\n[[variant]]\nname = \"mine\"\nscx = \"{file}\"\n\
             [[workload]]\nuse = \"spin\"\n"
        );
        home.write("mine.toml", &plan);
        for dry in ["", " --dry-run"] {
            let said = stderr(&home.ends(2, format!("run ./mine.toml{dry}")));
            let expected = format!("error: spin / mine: {file}");
            assert!(said.contains(&expected) && said.contains(why), "{said}");
            assert!(said.contains("\nhint: give the path"), "{said}");
        }
    }
    assert!(!home.at(".local/share/schedlab").exists(), "nothing was stored");
}

#[test]
fn events_go_to_a_new_file_and_overwrite_nothing() {
    let home = Home::new();
    home.write("mine", "precious");
    home.ends(3, "run smoke --backend null --events mine");
    assert_eq!(home.read("mine"), "precious");
    home.ok("run smoke --backend null --events new");
    let events = home.read("new");
    assert!(events.lines().last().unwrap().contains("plan_ended"), "{events}");
}

#[test]
fn a_full_standard_error_and_output_stop_no_measurement() {
    let home = Home::new();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    done(home.command("run smoke --backend null").stderr(full()));
}

#[test]
fn a_full_device_is_an_error_with_a_hint_and_a_closed_pipe_is_none() {
    let (home, _) = after("run smoke --backend null");
    let formats = ["text", "lkml", "markdown", "schbench", "csv", "json", "gobench", "junit"];
    let reports = formats.map(|format| vec!["report", LAST, "--format", format]);
    for words in reports.into_iter().chain([vec!["export"], vec!["list", "runs"]]) {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let text = stderr(&ended(home.command(&words).stdout(full), 3));
        assert!(text.starts_with("error: cannot write to standard output: "), "{words:?}: {text}");
        assert!(text.contains("\nhint: ") && !text.contains("df -h ."), "{words:?}: {text}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(stderr(&done(home.command(&words).stdout(writer))), "");
    }
}

#[test]
fn a_report_takes_the_place_of_a_file_as_a_whole_and_is_written_to_a_stream_as_it_is() {
    use std::os::unix::fs::MetadataExt;

    let (home, ids) = home_with_two_plans();
    let printed = home.ok(&["report", &ids[0]]);
    let place = home.at("report.txt");
    let inode = || std::fs::metadata(&place).map_or(0, |found| found.ino());
    std::fs::write(&place, "old").unwrap();
    // A reader of the old file keeps reading the old one.
    let (old, before) = (std::fs::File::open(&place).unwrap(), inode());
    home.ok(&["report", &ids[0], "-o", "report.txt"]);
    assert_eq!(std::fs::read_to_string(&place).unwrap(), printed);
    assert_ne!(inode(), before);
    assert_eq!(std::io::read_to_string(old).unwrap(), "old");
    // A plan that is refused before it measures makes no files.
    let refused = home.call("run --rounds 0 -o none.txt");
    assert_eq!((refused.status.code(), home.at("none.txt").exists()), (Some(2), false));
    let one = ["run", "--backend", "null", "--events", "one", "-o", "one"];
    assert_eq!(home.call(&one).status.code(), Some(2), "the report would be written over");

    assert_eq!(home.ok(&["report", &ids[0], "-o", "/dev/stdout"]), printed);
    let log = std::fs::File::create(home.at("log")).unwrap();
    let mut report = home.command(&["report", &ids[0], "-o", "/dev/stdout"]);
    assert!(report.stdout(log).status().unwrap().success());
    assert_eq!(home.read("log"), printed);
    let pipe = home.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    home.ok(&["report", &ids[0], "-o", "pipe"]);
    assert_eq!(reader.join().unwrap(), printed);
}

#[test]
fn the_commands_of_hints_name_the_store_that_was_asked() {
    let home = Home::new();
    let output = |words: &[&str]| home.both(None, &[words, &["--db", "my results.db"]].concat());
    output(&["run", "quick", "--backend", "null", "--rounds", "6"]);
    // The fastest machine does not decide all of it in this time.
    output(&["run", "quick", "--backend", "null", "--budget", "1s", "--margin", "1%"]);
    let ids = plan_ids(&output(&["export"]));
    let [first, second] = ids.as_slice() else { panic!("{ids:?}") };
    let resume = format!("run --resume {second} --rounds +");
    let cases: &[(&[&str], String)] = &[
        (&["show", first], format!("report {first}")),
        (&["show", "nonesuch"], "list runs".to_string()),
        (&["export", "nonesuch"], "list runs".to_string()),
        (&["report", "nonesuch"], "list runs".to_string()),
        (&["compare", "nonesuch"], "list runs".to_string()),
        (&["report", "since=soon"], "list runs since=7d".to_string()),
        (&["compare", first, first], "list runs".to_string()),
        (&["tag", first, "x", "--remove"], format!("show {first}")),
        (&["note", first, "warm"], format!("show {first}")),
        (&["rm", first], format!("rm --yes {first}")),
        (&["run", "--resume", second], format!("{resume}20")),
        (&["report", second, "COLUMNS=1000"], resume),
    ];
    for (words, command) in cases {
        let text = output(words);
        let hinted = text.split_once(&format!("schedlab {command}"));
        let (_, rest) = hinted.unwrap_or_else(|| panic!("{words:?}: {command} in {text}"));
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(rest.starts_with(" --db 'my results.db'\n"), "{words:?}: {text}");
    }
}

#[test]
fn closed_output_is_no_error() {
    let home = Home::new();
    let command = format!("{} list workloads | true", env!("CARGO_BIN_EXE_schedlab"));
    let output = Command::new("sh")
        .args(["-c", &format!("set -o pipefail 2>/dev/null; {command}")])
        .env("HOME", home.path())
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn manual_and_completions_come_from_the_same_definitions() {
    let home = Home::new();
    home.ok("man pages");
    let page = home.read("pages/schedlab-run.1");
    assert!(page.contains("resume"));
    let own = home.both(None, "man");
    assert!(own.contains(".local/share/man/man1/schedlab.1"), "{own}");
    let of = |shell: &[&str]| {
        let mut command = home.command(&[&["completions"], shell].concat());
        command.env("SHELL", "/bin/bash").output().unwrap()
    };
    assert!(stdout(&of(&["bash"])).contains("schedlab"));
    assert_eq!(stdout(&of(&[])), stdout(&of(&["bash"])));
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&of(&[shell]));
        assert!(
            !script.contains("fleet-host") && script.contains("plan-power"),
            "{shell}: {script}"
        );
    }
}

#[test]
fn nothing_that_a_file_or_a_path_is_named_acts_on_the_terminal() {
    let home = Home::new();
    home.write("machine.toml", "version = 1\n\"\\u001b[2Jkey\" = 1\n");
    home.write("plan\u{1b}[2J.toml", "schema = \"\u{1b}[2J\"\n");
    home.write("bench\u{1b}[2J.bench", "{\"Input\":{\"\u{202e}\":[");
    let lab = ["run", "lab-quick", "--backend", "lab", "--dry-run", "--machine", "machine.toml"];
    let cases: &[&[&str]] = &[
        &lab,
        &["report", "--db", "store\u{1b}[2J.db"],
        &["import", "no\u{1b}[2J.jsonl"],
        &["import", "bench\u{1b}[2J.bench"],
        &["run", "plan\u{1b}[2J.toml"],
        &["list", "workloads", "no\u{1b}[2J.toml"],
        &["run", "--n\u{1b}[2J"],
        &["show", "\u{1b}[2J"],
        &["try", "no\u{1b}[2J.patch"],
        &["run", "quick", "--backend", "null", "-o", "no\u{1b}[2J/report"],
    ];
    for words in cases {
        let output = home.call(*words);
        assert_ne!(output.status.code(), Some(0), "{words:?}");
        let said = stderr(&output);
        assert!(!said.is_empty(), "{words:?}");
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!said.contains(acts), "{words:?}: {said:?}");
    }
}

/// A case is more than a line of a narrow terminal has.
#[test]
fn a_case_of_a_hunt_is_listed_whole() {
    let home = Home::new();
    home.ok("run smoke --backend null --quiet");
    let id = home.listed().remove(0);
    home.ok(&["tag", &id, "hunt"]);
    let text =
        format!("cases/hunt-1.toml, hunted with --seed 1: {}the end", "CPU 1 idles. ".repeat(30));
    home.ok(&["note", &id, &text]);
    let listed = home.ok("list hunts COLUMNS=80");
    assert!(joined(&listed).contains(&text), "{listed}");
    assert!(listed.lines().count() > 4 && listed.lines().all(|line| line.len() <= 80), "{listed}");
    home.ok(&["tag", &id, "hunt", "--remove"]);
    assert!(home.says(0, "list hunts").contains("no case is stored yet"));
}

#[test]
fn what_the_lab_keeps_is_listed_and_removed() {
    let home = Home::new();
    let cache = home.at(".cache/schedlab");
    for (name, bytes) in [("machines/abc1", 1000), ("machines/abd2", 500), ("results/e3", 30)] {
        let path = cache.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, vec![b'x'; bytes * 1000]).unwrap();
    }
    let listed = home.ok("cache");
    for line in [
        "booted machines  2       1.4 MiB of at most 4GiB",
        "abc1",
        "abd2",
        "ago, damaged",
        "cache rm stale",
    ] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    // Neither is waited for.
    for of in ["machines", "results"] {
        let fifo = cache.join(of).join("f1");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        std::os::unix::fs::symlink(&fifo, cache.join(of).join("f2")).unwrap();
        std::fs::create_dir(cache.join(of).join("f3")).unwrap();
    }
    let listed = home.ok("cache");
    for line in ["booted machines  2       1.4 MiB", "results of runs  1       0.0 MiB"] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    std::fs::write(cache.join("machines/.abc3.0.tmp"), "of a killed plan").unwrap();
    assert!(home.ok("doctor").contains("2 booted machines, 1.4 MiB"));
    let with_limit = |words: &str, limit: &str, code: i32| {
        let output = ended(home.command(words).env("SCHEDLAB_MACHINES", limit), code);
        stdout(&output) + &stderr(&output)
    };
    let listed = with_limit("cache", "1536MiB", 0);
    assert!(listed.contains(" of at most 1536MiB"), "{listed}");
    let none = with_limit("cache", "0", 0);
    assert!(none.contains(" 1.4 MiB; none is kept (SCHEDLAB_MACHINES)"), "{none}");
    for words in ["cache", "cache rm machines"] {
        let said = with_limit(words, "2", 2);
        assert!(said.contains("error: SCHEDLAB_MACHINES: `2` has no unit\nhint: "), "{said}");
    }
    assert!(with_limit("doctor", "2", 0).contains("SCHEDLAB_MACHINES: `2` has no unit"));
    // Nothing is removed where a word is not understood.
    for (wrong, why) in [("ab", "is 2 booted machines"), ("x", "no booted machine is called `x`")] {
        let said = home.says(2, &["cache", "rm", "abc", wrong]);
        assert!(said.contains(why), "{said}");
    }
    // QEMU is asked only for what is stale.
    let (bin, asked) = (home.at("bin"), home.at("asked"));
    std::fs::create_dir(&bin).unwrap();
    write_script(&bin.join("qemu-system-x86_64"), &format!(": >'{}'", asked.display()));
    let remove = |words: &str| stdout(&ended(home.command(words).env("PATH", &bin), 0));
    assert_eq!(remove("cache rm abc"), "removed 1 booted machine, 1.0 MiB\n");
    assert!(!asked.exists());
    assert!(!cache.join("machines/abc1").exists() && cache.join("machines/abd2").exists());
    let removed = remove("cache rm stale results");
    assert!(asked.exists());
    assert_eq!(removed, "removed 1 booted machine, 0.5 MiB\nremoved 1 result, 0.0 MiB\n");
    let left = ["machines", "results"].map(|of| std::fs::read_dir(cache.join(of)).unwrap().count());
    assert_eq!(left, [3, 3], "files of others");
    std::fs::remove_dir_all(cache.join("machines")).unwrap();
    std::fs::write(cache.join("machines"), "").unwrap();
    let said = home.says(3, "cache");
    assert!(said.contains("machines: Not a directory") && said.contains("hint: "), "{said}");
}

/// SQLite makes a journal where it reads, which only a connection that may write removes.
#[test]
fn reading_a_store_leaves_nothing_next_to_it() {
    let home = Home::new();
    home.ok("run smoke -q --backend null --rounds 1 --db own.db");
    for words in ["list runs", "report all,backend=null", "export", "import own.db"] {
        let db = if words.starts_with("import") { "other.db" } else { "own.db" };
        home.ok(format!("{words} --db {db}"));
        for left in ["own.db-wal", "own.db-shm"] {
            assert!(!home.at(left).exists(), "{words}: {left}");
        }
    }
}

#[test]
fn a_list_of_nothing_names_the_command_that_makes_such_entries() {
    let home = Home::new();
    for (list, makes) in [("hunts", "hunt"), ("scores", "score --save -- COMMAND"), ("runs", "run")]
    {
        let said = home.says(3, format!("list {list}"));
        let hint = said.lines().last().unwrap_or_default();
        assert!(hint.ends_with(&format!("schedlab {makes}")), "{list}: {said}");
        // Behind `--` it would be a word of the program.
        let said = home.says(3, format!("list {list} --db none.db"));
        let (words, program) = makes.split_at(makes.find(" -- ").unwrap_or(makes.len()));
        assert!(said.contains(&format!("schedlab {words} --db ")), "{said}");
        assert!(said.ends_with(&format!("none.db{program}\n")), "{said}");
    }
}

#[test]
fn a_hunt_says_what_it_does_once_its_kernel_is_there() {
    let home = Home::new();
    let said = home.says(2, "hunt --kernel ./nosuch --output here");
    assert!(said.starts_with("error: ") && !home.at("here").exists(), "{said}");
}

#[test]
fn a_stored_plan_that_runs_again_keeps_its_title() {
    let plan = "schema = 1\n[measure]\nduration = \"1s\"\n[[workload]]\nuse = \"spin\"\n";
    let home = Home::with_plan(plan);
    home.ok("run plan.toml -q --backend null --rounds 1");
    let first = home.listed().remove(0);
    home.ok(format!("run plan={first} -q --backend null --rounds 1"));
    let titles: Vec<_> = home
        .events("")
        .iter()
        .filter_map(|event| Some(event["plan"]["title"].as_str()?.to_string()))
        .collect();
    assert_eq!(titles, ["plan", "plan"]);
}
