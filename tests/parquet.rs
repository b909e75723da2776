//! Parquet files of stored plans, read back by the library that wrote them.

use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use crate::home::Home;
use crate::support::{checkout, metric, outcomes};

/// Names that a spreadsheet would take for a formula, or a shell for a command.
const PLAN: &str = r#"
schema = 1
title = "=1+1; $(x) \"quoted\""
[measure]
rounds = 3
duration = "1s"
seed = 5
[[variant]]
name = "a"
[[variant]]
name = "b"
policy = "batch"
[[workload]]
use = "schbench"
"#;

fn rows(file: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let about = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let version = about.iter().find(|pair| pair.key == "schedlab.parquet.version").unwrap();
    assert_eq!(version.value.as_deref(), Some("1"));
    let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap());
    rows.collect()
}

fn field<'r>(row: &'r Row, name: &str) -> &'r Field {
    row.get_column_iter().find(|(own, _)| *own == name).expect(name).1
}

fn text(row: &Row, name: &str) -> String {
    match field(row, name) {
        Field::Str(text) => text.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn what_is_stored_is_in_the_files_and_read_back() {
    let home = Home::with_plan(PLAN);
    home.ok("run plan.toml --backend null -q");
    home.ok("export --format parquet -o out --with histograms,windows");
    let folder = std::fs::read_dir(home.at("out")).unwrap().next().unwrap().unwrap();
    let id = folder.file_name().into_string().unwrap();
    let id = id.strip_prefix("plan=").unwrap();
    let read = |name: &str| rows(&folder.path().join(format!("{name}.parquet")));

    let runs = read("runs");
    assert_eq!(runs.len(), 6);
    for (at, row) in runs.iter().enumerate() {
        assert_eq!(text(row, "plan"), id);
        assert_eq!(text(row, "title"), "=1+1; $(x) \"quoted\"");
        assert_eq!(field(row, "round"), &Field::Int(at as i32 / 2));
        assert_eq!(text(row, "variant"), ["a", "b"][at % 2]);
        assert_eq!(text(row, "outcome"), "done");
        assert_eq!(field(row, "started_at"), &Field::Null, "an invented run has no time");
        assert_eq!(field(row, "reason"), &Field::Null);
    }
    let seed = 5 + 2 * 0x9e37_79b9_u64;
    assert_eq!(number(&runs[5], "seed"), seed, "of the round");

    let all = outcomes(home.path(), id);
    metrics_are(&read("metrics"), &all);
    let of_counts = |run: &Value| {
        let histograms = run["result"]["sets"][0]["histograms"].as_array().unwrap().clone();
        let counts = histograms.iter().flat_map(|own| own["counts"].as_array().unwrap().clone());
        counts.map(|pair| pair[1].as_u64().unwrap()).sum::<u64>()
    };
    let samples: u64 = read("histograms").iter().map(|row| number(row, "count")).sum();
    assert_eq!(samples, all.iter().map(of_counts).sum::<u64>());
    let windows = read("windows");
    assert!(windows.len() >= 6 && windows.iter().all(|row| text(row, "set") == "schbench"));
}

fn number(row: &Row, name: &str) -> u64 {
    match field(row, name) {
        Field::ULong(number) => *number,
        other => panic!("{name}: {other:?}"),
    }
}

fn metrics_are(rows: &[Row], runs: &[Value]) {
    let sets = runs.iter().map(|run| run["result"]["sets"][0]["metrics"].as_array().unwrap());
    assert_eq!(rows.len(), sets.map(Vec::len).sum::<usize>());
    let double = |row: &Row| match field(row, "value") {
        Field::Double(value) => *value,
        other => panic!("{other:?}"),
    };
    let throughput = rows.iter().filter(|row| text(row, "metric") == "throughput");
    let mut values: Vec<f64> = throughput.map(double).collect();
    let mut expected: Vec<f64> = runs.iter().map(|run| metric(run, 0, "throughput")).collect();
    values.sort_by(f64::total_cmp);
    expected.sort_by(f64::total_cmp);
    assert_eq!(values, expected);
    let mut unknown = rows.iter().filter(|row| *field(row, "value") == Field::Null);
    assert!(unknown.all(|row| !text(row, "unknown").is_empty()));
    let p99 = rows.iter().find(|row| text(row, "metric") == "wakeup_p99").unwrap();
    assert_eq!(text(p99, "statistic"), "quantile 990000");
}

#[test]
fn what_is_there_is_replaced_only_where_that_is_asked_for() {
    let home = Home::with_plan(PLAN);
    home.ok("run plan.toml --backend null -q");
    home.ok("export --format parquet -o out");
    let names = || {
        let folders = std::fs::read_dir(home.at("out")).unwrap();
        folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let [place] = &names()[..] else { panic!("{:?}", names()) };
    let file = home.at("out").join(place).join("runs.parquet");
    std::fs::write(&file, "mine").unwrap();
    // Another plan is not written, either.
    home.ok("run plan.toml --backend null -q --seed 6");
    let said = home.says(3, "export --format parquet -o out");
    assert!(said.contains("is there already\nhint: replace it: --overwrite"), "{said}");
    assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), names().len()), ("mine", 1));
    home.ok("export --format parquet -o out --overwrite");
    assert_eq!(
        (rows(&file).len(), names().len()),
        (6, 2),
        "and nothing else is left: {:?}",
        names()
    );
    for (words, hint) in [
        ("export --format parquet", "-o DIR"),
        ("export --format parquet -o out --with histogram", "did you mean `histograms`?"),
    ] {
        let said = home.says(2, words);
        assert!(said.contains(hint), "{words}: {said}");
    }
    home.write("file", "");
    home.ends(3, "export --format parquet -o file/x");
}

#[test]
fn what_a_killed_export_left_is_removed_by_the_next_one() {
    let home = Home::with_plan(PLAN);
    let out = home.at("out");
    home.ok("run plan.toml --backend null -q");
    home.ok("export --format parquet -o out");
    let names = || -> Vec<String> {
        let folders = std::fs::read_dir(&out).unwrap();
        folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect()
    };
    let [place] = &names()[..] else { panic!("{:?}", names()) };
    let id = place.strip_prefix("plan=").unwrap();
    // A writer was killed between its two renames: the old folder has neither name.
    std::fs::rename(out.join(place), out.join(format!(".replaced-{id}-7"))).unwrap();
    std::fs::create_dir_all(out.join(format!(".unfinished-{id}-7"))).unwrap();
    std::fs::write(out.join(format!(".unfinished-{id}-7/runs.parquet")), "half").unwrap();
    // A folder that is being written, and a file of somebody else.
    let writing = out.join(".unfinished-other-8");
    std::fs::create_dir(&writing).unwrap();
    let lock = File::open(&writing).unwrap();
    lock.lock().unwrap();
    std::fs::create_dir(out.join("mine")).unwrap();
    home.ends(3, "export --format parquet -o out");
    let mut left = names();
    left.sort();
    assert_eq!(left, [".unfinished-other-8", "mine", place.as_str()]);
    assert_eq!(rows(&out.join(place).join("runs.parquet")).len(), 6, "it is back");
    drop(lock);
    home.ok("export --format parquet -o out --overwrite");
    assert!(!writing.exists());
}

#[test]
fn the_document_has_every_column_of_every_table() {
    let document = std::fs::read_to_string(checkout().join("docs/parquet.md")).unwrap();
    for table in schedlab::store::PARQUET_TABLES {
        assert!(document.contains(&format!("`{}`", table.name)), "{}", table.name);
        assert!(document.contains(table.about), "{}", table.about);
        let schema = table.schema();
        for line in schema.lines().filter(|line| line.ends_with(';')) {
            let name = line.split_whitespace().nth(2).unwrap().trim_end_matches(';');
            assert!(document.contains(&format!("`{name}`")), "{}: {name}", table.name);
        }
    }
}
