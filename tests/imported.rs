//! Result files of other tools, from the file to the verdict.

use crate::support::{done, schedlab, stderr, stdout};

/// Made up: six runs of one kernel, seven of another, a test that failed, and a series.
const COMPOSITE: &str = r#"<?xml version="1.0"?>
<PhoronixTestSuite>
  <Generated><Title>EEVDF against CFS</Title></Generated>
  <System>
    <Identifier>CFS</Identifier>
    <Hardware>Processor: Example 9000 @ 3.40GHz (8 Cores / 16 Threads), Motherboard: Example B1</Hardware>
    <Software>OS: Example 1, Kernel: 6.5.0-1-amd64 (x86_64)</Software>
    <TimeStamp>2024-03-01 09:30:00</TimeStamp>
  </System>
  <System>
    <Identifier>EEVDF</Identifier>
    <Hardware>Processor: Example 9000 @ 3.40GHz (8 Cores / 16 Threads), Motherboard: Example B1</Hardware>
    <Software>OS: Example 1, Kernel: 6.6.1 (x86_64)</Software>
    <TimeStamp>2024-03-01 21:30:00</TimeStamp>
  </System>
  <Result>
    <Identifier>pts/build-1.0.0</Identifier><Title>Build</Title><Description>Make: all</Description>
    <Scale>Seconds</Scale><Proportion>LIB</Proportion><DisplayFormat>BAR_GRAPH</DisplayFormat>
    <Data>
      <Entry><Identifier>CFS</Identifier><Value>60.1</Value>
        <RawString>60.1:60.2:60.0:60.15:60.05:60.1</RawString></Entry>
      <Entry><Identifier>EEVDF</Identifier><Value>66.1</Value>
        <RawString>66.1:66.2:66.0:66.15:66.05:66.1:66.12</RawString></Entry>
    </Data>
  </Result>
  <Result>
    <Identifier>pts/solver-1.0.0</Identifier><Title>Solver</Title><Description></Description>
    <Scale>Total Mop/s</Scale><Proportion>HIB</Proportion><DisplayFormat>BAR_GRAPH</DisplayFormat>
    <Data>
      <Entry><Identifier>CFS</Identifier><Value>1000</Value><RawString></RawString></Entry>
      <Entry><Identifier>EEVDF</Identifier><Value></Value><RawString></RawString></Entry>
    </Data>
  </Result>
  <Result>
    <Identifier></Identifier><Title>Heat</Title><DisplayFormat>LINE_GRAPH</DisplayFormat>
    <Data><Entry><Identifier>CFS</Identifier><Value>40,41</Value></Entry></Data>
  </Result>
</PhoronixTestSuite>
"#;

#[test]
fn a_result_file_of_phoronix_is_stored_once_compared_and_exported() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("composite.xml"), COMPOSITE).unwrap();
    let call = |arguments: &[&str]| schedlab(home.path(), arguments).output().unwrap();
    let ok = |arguments: &[&str]| {
        let output = call(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        output
    };
    let import = ok(&["import", "composite.xml"]);
    let said = stderr(&import);
    assert!(import.stdout.is_empty(), "{}", stdout(&import));
    assert!(said.contains("2 variants, 2 works; left out: 1 result (it has no Id"), "{said}");
    let id = said.split('`').nth(1).unwrap();
    assert!(said.ends_with(&format!("see: schedlab compare plan={id}\n")), "{said}");
    let again = stderr(&ok(&["import", "composite.xml"]));
    assert!(again.starts_with(&format!("stored already as `{id}`: 2 variants")), "{again}");

    let listed = stdout(&ok(&["list", "runs", "COLUMNS=200"]));
    for part in ["2024-03-01 09:30", "imported", "6.5.0-1-amd64, 6.6.1", "CFS, EEVDF", "complete"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let last = call(&["report"]);
    assert!(stderr(&last).contains("so none is `last`"), "{last:?}");
    for arguments in [&["report", id][..], &["compare", &format!("plan={id}")]] {
        let report = stdout(&ok(&[arguments, &["COLUMNS=120"]].concat()));
        let row = report.lines().find(|line| line.starts_with("Build Make: all")).expect(&report);
        assert!(row.contains("60.1 s") && row.contains("+10 %"), "{row}");
        assert!(row.ends_with("WORSE"), "{row}");
        for part in ["Total-Mop-per-s", "the test failed", "not measured in the same rounds"] {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert!(!report.contains("schedlab run"), "nothing can be added to it: {report}");
    }
    let shown = stdout(&ok(&["show", id, "COLUMNS=200"]));
    assert!(shown.contains("imported: Example B1, Linux 6.6.1, 16 CPUs, Example 9000"), "{shown}");
    assert!(!shown.contains("resumed") && !shown.contains("warm-up"), "{shown}");

    let lines = stdout(&ok(&["export", id]));
    std::fs::write(home.path().join("lines"), &lines).unwrap();
    ok(&["import", "lines", "--db", "other.db"]);
    assert_eq!(stdout(&ok(&["export", id, "--db", "other.db"])), lines);
    let plan = stdout(&ok(&["run", &format!("plan={id}"), "--print"]));
    assert!(plan.contains("\"batch-run\", \"pts/build-1.0.0\""), "{plan}");
}

#[test]
fn a_file_that_is_refused_stores_nothing() {
    let home = tempfile::tempdir().unwrap();
    let cut = &COMPOSITE[..COMPOSITE.len() / 2];
    let bomb = format!("<!DOCTYPE x [<!ENTITY a \"ha\">]>{COMPOSITE}");
    let cases = [("cut", cut, "not XML"), ("bomb", &bomb, "DTD"), ("json", "[{}]", "_ResultData")];
    for (name, text, expected) in cases {
        std::fs::write(home.path().join(name), text).unwrap();
        let output = schedlab(home.path(), &["import", name]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        let said = stderr(&output);
        assert!(said.contains(&format!("error: {name}: ")) && said.contains(expected), "{said}");
        assert!(said.contains("\nhint: "), "{said}");
    }
    assert!(!home.path().join(".local/share/schedlab/schedlab.db").exists());
}

/// A run of hackbench as mmtests has it.
fn mmtests(name: &str, unit: &str, values: &str) -> String {
    format!(
        r#"{{"_ModuleName":"ExtractShellpackhackbench","_TestName":"{name}",
        "_PreferredVal":"Lower","_PlotYaxis":"Time ({unit})",
        "_ResultData":{{"4":[{{"Values":[{values}]}}]}}}}"#
    )
}

/// The row of a comparison of these runs.
fn compared(runs: [String; 2], sides: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("json"), format!("[{}]", runs.join(","))).unwrap();
    done(schedlab(home.path(), &["import", "json"]));
    let compare = schedlab(home.path(), &[&["compare"], sides].concat()).output().unwrap();
    let report = stdout(&compare);
    let row = report.lines().find(|line| line.starts_with("hackbench 4"));
    row.expect(&report).to_string()
}

#[test]
fn json_of_mmtests_is_stored_and_compared() {
    let old = mmtests("6.5", "seconds", "1.5,1.51,1.49,1.5,1.52,1.48");
    let new = mmtests("6.6", "seconds", "1.2,1.21,1.19,1.2,1.22,1.18");
    let row = compared([old, new], &["plan=mmtests*"]);
    assert!(row.contains("1.50 s") && row.contains("-20 %") && row.ends_with("BETTER"), "{row}");
}

#[test]
fn the_direction_is_that_of_the_operation_and_not_of_its_module() {
    let home = tempfile::tempdir().unwrap();
    // `extract-mmtests.pl --print-json` writes `Lower` and `Latency` for throughputs, too.
    let run = |name: &str, throughput: u32, count: u32| {
        let values = |middle: u32| {
            let values = [0, 3, 1, 2, 4, 1, 2, 3].map(|more| format!("\"{}\"", middle + more));
            values.join(",")
        };
        let [tput, latency, count] = [throughput, 1200, count].map(values);
        format!(
            r#"{{"_ModuleName":"ExtractShellpackdbench4","_PreferredVal":"Lower",
            "_PlotYaxis":"Latency","_TestName":"{name}","_ResultData":{{
            "tput-4":[{{"Values":[{tput}]}}],"lat99-4":[{{"Values":[{latency}]}}],
            "novelty-4":[{{"Values":[{count}]}}]}}}}"#
        )
    };
    let text = format!("[{},{}]", run("before", 512, 100), run("after", 640, 200));
    std::fs::write(home.path().join("json"), text).unwrap();
    let call = |words: &[&str]| schedlab(home.path(), words).output().unwrap();
    let said = stderr(&call(&["import", "json"]));
    assert!(
        said.contains("; not judged, as the file does not say what is better: 1 work"),
        "{said}"
    );
    let again = stderr(&call(&["import", "json"]));
    assert!(again.starts_with("stored already as `mmtests-"), "at another time: {again}");
    let report = stdout(&call(&["compare", "before", "after"]));
    let row = |name: &str| report.lines().find(|line| line.contains(name)).expect(&report);
    let throughput = row("dbench4 tput-4");
    assert!(throughput.contains("MB/s") && throughput.contains("+25 %"), "{throughput}");
    assert!(throughput.ends_with("BETTER"), "{throughput}");
    assert!(row("dbench4 lat99-4").ends_with("SAME"), "{report}");
    assert!(!report.contains("novelty-4"), "nobody says what is better: {report}");
    let all = stdout(&call(&["compare", "before", "after", "-v"]));
    let (_, novelty) = all.split_once("== dbench4 novelty-4").expect(&all);
    let novelty = novelty.split("==").next().unwrap_or_default();
    let words = ["BETTER", "WORSE", "MORE", "LESS"];
    assert!(novelty.contains("+9"), "it is shown: {all}");
    assert!(!words.iter().any(|word| novelty.contains(word)), "{novelty}");
}

#[test]
fn files_of_one_system_each_are_compared_under_the_names_of_these() {
    let home = tempfile::tempdir().unwrap();
    let call = |words: &[&str]| schedlab(home.path(), words).output().unwrap();
    let mut ids = Vec::new();
    for (system, seconds) in [("6.12", 10), ("6.18", 9)] {
        let runs: Vec<String> = (0..8).map(|run| format!("{seconds}.0{run}")).collect();
        let text = format!(
            "<PhoronixTestSuite><System><Identifier>{system}</Identifier><Software>Kernel: {system}.0\
             </Software></System><Result><Identifier>pts/x</Identifier><Title>X</Title><Scale>Seconds\
             </Scale><Proportion>LIB</Proportion><Data><Entry><Identifier>{system}</Identifier><Value>1\
             </Value><RawString>{}</RawString></Entry></Data></Result></PhoronixTestSuite>",
            runs.join(":")
        );
        std::fs::write(home.path().join(system), text).unwrap();
        let said = stderr(&call(&["import", system]));
        ids.push(said.split('`').nth(1).expect(&said).to_string());
    }
    for sides in [[ids[0].as_str(), ids[1].as_str()], ["6.12", "6.18"]] {
        let compare = call(&[&["compare"], &sides[..], &["--fail-on", "regression"]].concat());
        let report = stdout(&compare);
        assert_eq!(compare.status.code(), Some(0), "{report}{}", stderr(&compare));
        assert!(report.contains("  6.12  ") && report.contains("  6.18"), "{report}");
        let row = report.lines().find(|line| line.starts_with("X  ")).expect(&report);
        assert!(row.contains("-10 %") && row.ends_with("BETTER"), "{row}");
        let command = format!("plan={},variant=6.12", ids[0]);
        assert!(report.contains(&command), "{report}");
    }
}

#[test]
fn test_runs_of_other_units_are_converted() {
    let before = mmtests("before", "seconds", "1.00,1.01,1.02,1.03,1.04,1.05,1.06,1.07");
    let after = mmtests("after", "milliseconds", "1000,1010,1020,1030,1040,1050,1060,1070");
    let row = compared([before, after], &["before", "after"]);
    assert!(row.contains(" 0 % ") && !row.contains("WORSE"), "{row}");
}

/// A result of Phoronix, one a tuple of its arguments and its seconds.
fn of_arguments(system: &str, title: &str, results: &[(&str, u32)]) -> String {
    let results = results.iter().map(|(arguments, seconds)| {
        let runs: Vec<String> = (0..8).map(|run| format!("{seconds}.0{run}")).collect();
        format!(
            "<Result><Identifier>pts/x</Identifier><Title>{title}</Title>\
             <Arguments>{arguments}</Arguments><Description>D</Description><Scale>Seconds</Scale>\
             <Proportion>LIB</Proportion><Data><Entry><Identifier>{system}</Identifier>\
             <Value>1</Value><RawString>{}</RawString></Entry></Data></Result>",
            runs.join(":")
        )
    });
    format!("<PhoronixTestSuite>{}</PhoronixTestSuite>", results.collect::<String>())
}

#[test]
fn results_of_other_arguments_are_not_compared() {
    let long = "Long ".repeat(20);
    let cases = [
        // Names that are alike within one file, in both files, and names that are cut.
        ("X", &[("-j1", 5), ("-j2", 9)][..], &[("-j2", 9)][..]),
        ("X", &[("-j1", 5)], &[("-j2", 9)]),
        (&long, &[("-j1", 5), ("-j2", 9)], &[("-j2", 9)]),
    ];
    for (title, before, after) in cases {
        let home = tempfile::tempdir().unwrap();
        for (system, results) in [("before", before), ("after", after)] {
            std::fs::write(home.path().join(system), of_arguments(system, title, results)).unwrap();
            done(schedlab(home.path(), &["import", system]));
        }
        let compare = schedlab(home.path(), &["compare", "before", "after"]).output().unwrap();
        let said = stdout(&compare) + &stderr(&compare);
        assert!(said.contains("before") && !said.contains("WORSE"), "{said}");
    }
}

#[test]
fn runs_of_parts_that_were_there_already_are_not_called_stored() {
    let home = tempfile::tempdir().unwrap();
    let plan = "schema = 1\n[measure]\nrounds = 8\nduration = \"1s\"\n[[variant]]\nname = \"a\"\n\
        [[variant]]\nname = \"b\"\npolicy = \"batch\"\n[[workload]]\nuse = \"spin\"\n";
    std::fs::write(home.path().join("plan.toml"), plan).unwrap();
    let ok = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let output = schedlab(home.path(), &words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        stdout(&output) + &stderr(&output)
    };
    for part in ["1", "2"] {
        ok(&format!("run plan.toml --backend null --shard {part}/2 -q --db {part}.db"));
        let lines = ok(&format!("export --db {part}.db"));
        std::fs::write(home.path().join(part), lines).unwrap();
    }
    ok("import 1 2 --db joined.db");
    let first = ok("import joined.db --db other.db");
    assert!(first.contains("stored: 1 plan, 16 runs"), "{first}");
    let second = ok("import joined.db --db other.db");
    assert!(second.contains("16 runs with the same answers were there already"), "{second}");
    assert!(second.contains("stored: 0 plans, 0 runs, 0 scores; 1 that were there"), "{second}");
    // One part is new, the other is not.
    ok("import 1 --db half.db");
    let rest = ok("import joined.db --db half.db");
    assert!(rest.contains("stored: 1 plan, 8 runs"), "{rest}");
}

#[test]
fn what_is_lost_of_an_imported_plan_is_imported_again_and_not_measured() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("composite.xml"), COMPOSITE).unwrap();
    let call = |words: &str| {
        let words: Vec<&str> = words.split(' ').chain(["--db", "x.db"]).collect();
        let output = schedlab(home.path(), &words).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let (_, said) = call("import composite.xml");
    let id = said.split('`').nth(1).unwrap();
    let conn = rusqlite::Connection::open(home.path().join("x.db")).unwrap();
    conn.execute("UPDATE metric SET value = 2 * value WHERE run = 1", []).unwrap();
    drop(conn);
    let again = format!("hint: schedlab rm {id} --db x.db, then import it again\n");
    let (code, noted) = call(&format!("report {id}"));
    assert_eq!((code, noted.ends_with(&format!("; {again}"))), (Some(0), true), "{noted}");
    let (code, refused) = call(&format!("run --resume {id}"));
    assert_eq!((code, refused.ends_with(&format!("\n{again}"))), (Some(2), true), "{refused}");
    assert_eq!(call(&format!("rm --yes {id}")).0, Some(0));
    assert_eq!(call("import composite.xml").0, Some(0));
    assert_eq!(call(&format!("report {id}")), (Some(0), String::new()));
}

#[test]
fn lines_of_an_export_are_known_in_any_order_and_a_wrong_one_is_named() {
    let home = tempfile::tempdir().unwrap();
    let call = |arguments: &[&str]| schedlab(home.path(), arguments).output().unwrap();
    assert!(call(&["run", "smoke", "--backend", "null", "--rounds", "1", "-q"]).status.success());
    let lines = stdout(&call(&["export"]));
    let import = |name: &str, text: &str| {
        std::fs::write(home.path().join(name), text).unwrap();
        let output = call(&["import", name, "--db", &format!("{name}.db")]);
        (output.status.code(), stderr(&output))
    };
    let ends = "{\"event\":\"run_ended\"";
    let runs = lines.lines().filter(|line| line.starts_with(ends)).count();
    let mut ended = 0;
    let without_first = lines.split_inclusive('\n').filter(|line| {
        ended += usize::from(line.starts_with(ends));
        !(line.starts_with(ends) && ended == 1)
    });
    let (status, said) = import("less", &without_first.collect::<String>());
    let expected = format!(" had {runs} runs, of which {} are in the file\n", runs - 1);
    assert!(status == Some(0) && said.contains(&expected), "{said}");
    // Works that are decided have no further runs, so none is missing.
    assert!(call(&["run", "quick", "--backend", "null", "-q", "--db", "q.db"]).status.success());
    let decided = stdout(&call(&["export", "--db", "q.db"]));
    assert!(decided.matches(ends).count() < 480 && decided.contains("\"complete\""));
    let (status, said) = import("decided", &decided);
    assert!(status == Some(0) && !said.contains(" are in the file"), "{said}");
    // As a tool writes them that sorts keys: `event` comes behind all cells.
    let sorted = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let serde_json::Value::Object(fields) = value else { panic!("{line}") };
        let (event, others): (Vec<_>, Vec<_>) =
            fields.into_iter().partition(|(key, _)| key == "event");
        let field = |(key, value)| format!("\"{key}\":{value}");
        let fields: Vec<String> = others.into_iter().chain(event).map(field).collect();
        format!("{{{}}}\n", fields.join(","))
    };
    let others: String = lines.lines().map(sorted).collect();
    assert!(!others.starts_with("{\"event\""), "{others}");
    let (status, said) = import("sorted", &others);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("stored: 1 plan, 2 runs"), "{said}");
    done(call(&["import", "sorted", "sorted", "--db", "both.db"]));

    let (measured, wrong) = ("\"measured_ns\":", "\"measured_ns\":\"long\",\"was\":");
    let (code, said) = import("typed", &lines.replacen(measured, wrong, 1));
    let at = lines.lines().position(|line| line.contains(measured)).unwrap() + 1;
    let expected = format!("error: line {at} is not an event: invalid type: string");
    assert_eq!((code, said.starts_with(&expected)), (Some(2), true), "{said}");
    assert!(said.contains("\nhint: give what `schedlab export` wrote"), "{said}");

    let window = lines.lines().find(|line| line.contains("\"event\":\"window\"")).unwrap();
    let (code, said) = import("twice", &lines.replacen(window, &format!("{window}\n{window}"), 1));
    assert_eq!((code, said.contains("\nhint: give what `schedlab export` wrote")), (Some(2), true));
}
