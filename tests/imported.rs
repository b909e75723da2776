//! Result files of other tools, from the file to the verdict.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::home::Home;
use crate::support::{stderr, stdout};

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
    let home = Home::new();
    home.write("composite.xml", COMPOSITE);
    let import = home.ends(0, "import composite.xml");
    let said = stderr(&import);
    assert!(import.stdout.is_empty(), "{}", stdout(&import));
    assert!(said.contains("2 variants, 2 works; left out: 1 result (it has no Id"), "{said}");
    let id = said.split('`').nth(1).unwrap();
    assert!(said.ends_with(&format!("see: schedlab compare plan={id}\n")), "{said}");
    let again = home.says(0, "import composite.xml");
    assert!(again.starts_with(&format!("stored already as `{id}`: 2 variants")), "{again}");

    let listed = home.ok("list runs COLUMNS=200");
    for part in ["2024-03-01 09:30", "imported", "6.5.0-1-amd64, 6.6.1", "CFS, EEVDF", "complete"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let last = home.both(None, "report");
    assert!(last.contains("so none is `last`"), "{last}");
    for words in [format!("report {id}"), format!("compare plan={id}")] {
        let report = home.ok(format!("{words} COLUMNS=120"));
        let row = report.lines().find(|line| line.starts_with("Build Make: all")).expect(&report);
        assert!(row.contains("60.1 s") && row.contains("+10 %"), "{row}");
        assert!(row.ends_with("WORSE"), "{row}");
        for part in ["Total-Mop-per-s", "the test failed", "not measured in the same rounds"] {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert!(!report.contains("schedlab run"), "nothing can be added to it: {report}");
    }
    let shown = home.ok(&["show", id, "COLUMNS=200"]);
    assert!(shown.contains("imported: Example B1, Linux 6.6.1, 16 CPUs, Example 9000"), "{shown}");
    assert!(!shown.contains("resumed") && !shown.contains("warm-up"), "{shown}");

    let lines = home.ok(&["export", id]);
    home.write("lines", &lines);
    home.ok("import lines --db other.db");
    assert_eq!(home.ok(&["export", id, "--db", "other.db"]), lines);
    let plan = home.ok(format!("run plan={id} --print"));
    assert!(plan.contains("\"batch-run\", \"pts/build-1.0.0\""), "{plan}");
}

#[test]
fn a_file_that_is_refused_stores_nothing() {
    let home = Home::new();
    let cut = &COMPOSITE[..COMPOSITE.len() / 2];
    let bomb = format!("<!DOCTYPE x [<!ENTITY a \"ha\">]>{COMPOSITE}");
    let cases = [("cut", cut, "not XML"), ("bomb", &bomb, "DTD"), ("json", "[{}]", "_ResultData")];
    for (name, text, expected) in cases {
        home.write(name, text);
        let said = home.says(2, &["import", name]);
        assert!(said.contains(&format!("error: {name}: ")) && said.contains(expected), "{said}");
        assert!(said.contains("\nhint: "), "{said}");
    }
    assert!(!home.at(".local/share/schedlab/schedlab.db").exists());
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
    let home = Home::new();
    home.write("json", format!("[{}]", runs.join(",")));
    home.ok("import json");
    let report = home.ok(&[&["compare"], sides].concat());
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
    let home = Home::new();
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
    home.write("json", text);
    let said = home.says(0, "import json");
    assert!(
        said.contains("; not judged, as the file does not say what is better: 1 work"),
        "{said}"
    );
    let again = home.says(0, "import json");
    assert!(again.starts_with("stored already as `mmtests-"), "at another time: {again}");
    let report = home.ok("compare before after");
    let row = |name: &str| report.lines().find(|line| line.contains(name)).expect(&report);
    let throughput = row("dbench4 tput-4");
    assert!(throughput.contains("MB/s") && throughput.contains("+25 %"), "{throughput}");
    assert!(throughput.ends_with("BETTER"), "{throughput}");
    assert!(row("dbench4 lat99-4").ends_with("SAME"), "{report}");
    assert!(!report.contains("novelty-4"), "nobody says what is better: {report}");
    let all = home.ok("compare before after -v");
    let (_, novelty) = all.split_once("== dbench4 novelty-4").expect(&all);
    let novelty = novelty.split("==").next().unwrap_or_default();
    let words = ["BETTER", "WORSE", "MORE", "LESS"];
    assert!(novelty.contains("+9"), "it is shown: {all}");
    assert!(!words.iter().any(|word| novelty.contains(word)), "{novelty}");
}

#[test]
fn files_of_one_system_each_are_compared_under_the_names_of_these() {
    let home = Home::new();
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
        home.write(system, text);
        let said = home.says(0, &["import", system]);
        ids.push(said.split('`').nth(1).expect(&said).to_string());
    }
    for sides in [[ids[0].as_str(), ids[1].as_str()], ["6.12", "6.18"]] {
        let report = home.ok(&[&["compare"], &sides[..], &["--fail-on", "regression"]].concat());
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
        let home = Home::new();
        for (system, results) in [("before", before), ("after", after)] {
            home.write(system, of_arguments(system, title, results));
            home.ok(&["import", system]);
        }
        let said = home.both(None, "compare before after");
        assert!(said.contains("before") && !said.contains("WORSE"), "{said}");
    }
}

#[test]
fn runs_of_parts_that_were_there_already_are_not_called_stored() {
    let plan = "schema = 1\n[measure]\nrounds = 8\nduration = \"1s\"\n[[variant]]\nname = \"a\"\n\
        [[variant]]\nname = \"b\"\npolicy = \"batch\"\n[[workload]]\nuse = \"spin\"\n";
    let home = Home::with_plan(plan);
    for part in ["1", "2"] {
        home.ok(format!("run plan.toml --backend null --shard {part}/2 -q --db {part}.db"));
        home.write(part, home.ok(format!("export --db {part}.db")));
    }
    home.ok("import 1 2 --db joined.db");
    let first = home.says(0, "import joined.db --db other.db");
    assert!(first.contains("stored: 1 plan, 16 runs"), "{first}");
    let second = home.says(0, "import joined.db --db other.db");
    assert!(second.contains("16 runs with the same answers were there already"), "{second}");
    assert!(second.contains("stored: 0 plans, 0 runs, 0 scores; 1 that were there"), "{second}");
    // One part is new, the other is not.
    home.ok("import 1 --db half.db");
    let rest = home.says(0, "import joined.db --db half.db");
    assert!(rest.contains("stored: 1 plan, 8 runs"), "{rest}");
}

#[test]
fn what_is_lost_of_an_imported_plan_is_imported_again_and_not_measured() {
    let home = Home::new();
    home.write("composite.xml", COMPOSITE);
    let said = home.says(0, "import composite.xml --db x.db");
    let id = said.split('`').nth(1).unwrap();
    let conn = rusqlite::Connection::open(home.at("x.db")).unwrap();
    conn.execute("UPDATE metric SET value = 2 * value WHERE run = 1", []).unwrap();
    drop(conn);
    let again = format!("hint: schedlab rm {id} --db x.db, then import it again\n");
    let noted = home.says(0, format!("report {id} --db x.db"));
    assert!(noted.ends_with(&format!("; {again}")), "{noted}");
    let refused = home.says(2, format!("run --resume {id} --db x.db"));
    assert!(refused.ends_with(&format!("\n{again}")), "{refused}");
    home.ok(format!("rm --yes {id} --db x.db"));
    home.ok("import composite.xml --db x.db");
    assert_eq!(home.says(0, format!("report {id} --db x.db")), "");
}

#[test]
fn lines_of_an_export_are_known_in_any_order_and_a_wrong_one_is_named() {
    let home = Home::new();
    home.ok("run smoke --backend null --rounds 1 -q");
    let lines = home.ok("export");
    let import = |code: i32, name: &str, text: &str| {
        home.write(name, text);
        home.says(code, format!("import {name} --db {name}.db"))
    };
    let ends = "{\"event\":\"run_ended\"";
    let runs = lines.lines().filter(|line| line.starts_with(ends)).count();
    let mut ended = 0;
    let without_first = lines.split_inclusive('\n').filter(|line| {
        ended += usize::from(line.starts_with(ends));
        !(line.starts_with(ends) && ended == 1)
    });
    let said = import(0, "less", &without_first.collect::<String>());
    let expected = format!(" had {runs} runs, of which {} are in the file\n", runs - 1);
    assert!(said.contains(&expected), "{said}");
    // Works that are decided have no further runs, so none is missing.
    home.ok("run quick --backend null -q --db q.db");
    let decided = home.ok("export --db q.db");
    assert!(decided.matches(ends).count() < 480 && decided.contains("\"complete\""));
    let said = import(0, "decided", &decided);
    assert!(!said.contains(" are in the file"), "{said}");
    // As a tool writes them that sorts keys: `event` comes behind all cells.
    let sorted = |line: &str| {
        let fields: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        let (event, others): (Vec<_>, Vec<_>) =
            fields.into_iter().partition(|(key, _)| key == "event");
        let field = |(key, value)| format!("\"{key}\":{value}");
        let fields: Vec<String> = others.into_iter().chain(event).map(field).collect();
        format!("{{{}}}\n", fields.join(","))
    };
    let others: String = lines.lines().map(sorted).collect();
    assert!(!others.starts_with("{\"event\""), "{others}");
    let said = import(0, "sorted", &others);
    assert!(said.starts_with("stored: 1 plan, 2 runs"), "{said}");
    home.ok("import sorted sorted --db both.db");

    let (measured, wrong) = ("\"measured_ns\":", "\"measured_ns\":\"long\",\"was\":");
    let said = import(2, "typed", &lines.replacen(measured, wrong, 1));
    let at = lines.lines().position(|line| line.contains(measured)).unwrap() + 1;
    let expected = format!("error: typed: line {at} is not an event: invalid type: string");
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("\nhint: give what `schedlab export` wrote"), "{said}");

    let window = lines.lines().find(|line| line.contains("\"event\":\"window\"")).unwrap();
    let said = import(2, "twice", &lines.replacen(window, &format!("{window}\n{window}"), 1));
    assert!(said.contains("\nhint: give what `schedlab export` wrote"), "{said}");
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn packed_files_are_taken_and_cut_ones_are_named() {
    let home = Home::new();
    home.ok("run smoke --backend null --rounds 1 -q");
    let lines = home.ok("export");
    let import = |code: i32, name: &str, bytes: &[u8]| {
        home.write(name, bytes);
        home.says(code, format!("import {name} --db {name}.db"))
    };
    let gz = packed(lines.as_bytes());
    let said = import(0, "export.jsonl.gz", &gz);
    assert!(said.starts_with("stored: 1 plan, 2 runs"), "{said}");
    home.ok("import export.jsonl.gz export.jsonl.gz --db both.db");
    let said = import(0, "composite.xml.gz", &packed(COMPOSITE.as_bytes()));
    assert!(said.contains("2 variants, 2 works"), "{said}");

    let said = import(2, "cut.gz", &gz[..gz.len() / 2]);
    assert!(said.contains("it is packed with gzip, and damaged or cut"), "{said}");
    let store = std::fs::read(home.at("export.jsonl.gz.db")).unwrap();
    let said = import(2, "store.gz", &packed(&store));
    assert!(said.contains("hint: gzip -dc store.gz > OTHER.db; schedlab import"), "{said}");
    let said = import(2, "other.xz", b"\xfd7zXZ\0 and more");
    assert!(said.contains("other.xz: it is packed with xz\n"), "{said}");
    assert!(said.contains("hint: xz -dc other.xz | schedlab import -\n"), "{said}");

    // At any byte of its first line.
    let first = lines.find('\n').unwrap();
    for length in [1, 5, 12, 30, first / 2, first - 1] {
        let said = import(2, "cut", &lines.as_bytes()[..length]);
        assert!(said.contains("it ends before its JSON does"), "{length}: {said}");
        assert!(said.contains("is the file complete?"), "{length}: {said}");
    }
}
