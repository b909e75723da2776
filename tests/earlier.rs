//! Stores, exports and plans that the programs of earlier formats wrote (tests/earlier/README.md): today's program
//! answers from them with the values that stand in them, and loses no row.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use rusqlite::Connection;
use serde_json::Value;

use crate::home::Home;
use crate::support::checkout;

/// The formats of the store before today's.
const FORMATS: std::ops::RangeInclusive<i64> = 1..=7;
/// The throughput of each store's first plan, the same in all: interval and verdict.
const JUDGED: (f64, f64, &str) = (0.985, 1.0256410256410256, "inconclusive");
/// Tables whose rows a migration keeps, whatever it does with their columns.
const TABLES: &[&str] = &[
    "plan",
    "environment",
    "cell",
    "run",
    "worker_set",
    "metric",
    "histogram",
    "worker",
    "worker_window",
    "knob_reading",
    "disturbance",
    "tag",
    "note",
    "program",
    "score",
    "score_tag",
    "score_note",
];

fn fixture(name: &str) -> String {
    let path = checkout().join("tests/earlier").join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// The store of a user of that format, in a home of its own.
pub fn store(home: &Path, format: i64) -> PathBuf {
    let folder = home.join(".local/share/schedlab");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("schedlab.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(&fixture(&format!("format-{format}.sql.gz"))).unwrap();
    assert_eq!(version(&conn), format);
    path
}

pub fn version(conn: &Connection) -> i64 {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// Rows of each table that there is.
pub fn rows(path: &Path) -> BTreeMap<&'static str, i64> {
    let conn = Connection::open(path).unwrap();
    let count = |table: &&'static str| {
        let sql = format!("SELECT count(*) FROM {table}");
        Some((*table, conn.query_row(&sql, [], |row| row.get(0)).ok()?))
    };
    TABLES.iter().filter_map(count).collect()
}

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether all that the older value says stands in the newer one, which may say more.
fn says_all(newer: &Value, older: &Value) -> bool {
    match (newer, older) {
        (Value::Object(newer), Value::Object(older)) => older
            .iter()
            .all(|(key, value)| newer.get(key).is_some_and(|newer| says_all(newer, value))),
        (Value::Array(newer), Value::Array(older)) => {
            newer.len() == older.len()
                && newer.iter().zip(older).all(|(new, old)| says_all(new, old))
        }
        _ => newer == older,
    }
}

/// The first plan, whose runs are made up.
struct MadeUp {
    id: String,
    /// Throughput by variant and round, as that program exported it.
    throughput: BTreeMap<(String, u64), f64>,
}

fn made_up(export: &[Value]) -> MadeUp {
    let start = &export[0];
    let variants: Vec<&str> = start["cells"].as_array().unwrap().iter().map(variant).collect();
    let rest = export[1..].iter().take_while(|event| event["event"] != "plan_started");
    let ended = rest.filter(|event| event["event"] == "run_ended");
    let throughput = ended.map(|event| {
        let metrics = event["outcome"]["result"]["sets"][0]["metrics"].as_array().unwrap();
        let metric = metrics.iter().find(|metric| metric["name"] == "throughput").unwrap();
        let cell = event["key"]["cell"].as_u64().unwrap() as usize;
        let key = (variants[cell].to_string(), event["key"]["round"].as_u64().unwrap());
        (key, metric["value"]["known"].as_f64().unwrap())
    });
    MadeUp { id: start["id"].as_str().unwrap().to_string(), throughput: throughput.collect() }
}

fn variant(cell: &Value) -> &str {
    cell["variant"]["name"].as_str().unwrap()
}

impl MadeUp {
    /// The geometric mean of the ratios within rounds.
    fn ratio(&self) -> f64 {
        let at = |variant: &str, round: u64| self.throughput[&(variant.to_string(), round)];
        let logs: f64 = (0..6).map(|round| (at("batch", round) / at("default", round)).ln()).sum();
        (logs / 6.0).exp()
    }

    fn check(&self, csv: &str) {
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let lines: Vec<BTreeMap<String, String>> =
            reader.deserialize().collect::<Result<_, _>>().unwrap();
        let lines = lines.iter().filter(|line| line["metric"] == "throughput");
        let (runs, rest): (Vec<_>, Vec<_>) = lines.partition(|line| line["kind"] == "run");
        let values = runs.iter().map(|line| {
            let key = (line["side"].clone(), line["round"].parse().unwrap());
            (key, line["value"].parse::<f64>().unwrap())
        });
        assert_eq!(values.collect::<BTreeMap<_, _>>(), self.throughput);
        let judged = rest.iter().find(|line| line["side"] == "batch").unwrap();
        let ratio: f64 = judged["ratio"].parse().unwrap();
        assert!((ratio - self.ratio()).abs() < 1e-12, "{ratio}, not {}", self.ratio());
        let (low, high, verdict) = JUDGED;
        for (column, expected) in [("low", low), ("high", high)] {
            let value: f64 = judged[column].parse().unwrap();
            assert!((value - expected).abs() < 1e-12, "{column}: {judged:?}");
        }
        assert_eq!((&judged["pairs"][..], &judged["verdict"][..]), ("6", verdict), "{judged:?}");
    }
}

#[test]
fn a_store_of_each_earlier_format_answers_and_keeps_its_rows() {
    for format in FORMATS {
        let home = Home::new();
        let path = store(home.path(), format);
        let before = rows(&path);
        assert!(before["run"] >= 12 && before["worker_window"] > 0, "{format}: {before:?}");
        let then = events(&fixture(&format!("format-{format}.jsonl.gz")));
        let plan = made_up(&then);
        let list = home.ok("COLUMNS=200 list runs all,backend=null");
        assert!(list.contains("6/6     complete"), "{format}: {list}");
        let show = home.ok(&["show", &plan.id]);
        assert!(show.contains("12 done, 0 failed, 0 skipped"), "{format}: {show}");
        let selected = format!("plan={}", plan.id);
        plan.check(&home.ok(&["report", &plan.id, "--format", "csv"]));
        plan.check(&home.ok(&["compare", &selected, "--format", "csv"]));

        let now = home.events("");
        check_events(format, &then, &now);
        let after = rows(&path);
        let kept: BTreeMap<_, _> =
            after.iter().filter(|(table, _)| before.contains_key(*table)).collect();
        assert_eq!(kept, before.iter().collect(), "{format}");
        assert!(version(&Connection::open(&path).unwrap()) > *FORMATS.end());
    }
}

/// Runs, workers, histograms and windows are those of the export that the old program made of the same store.
fn check_events(format: i64, then: &[Value], now: &[Value]) {
    let kinds =
        |events: &[Value]| events.iter().map(|event| event["event"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(now), kinds(then), "{format}");
    for (now, then) in now.iter().zip(then) {
        let (now, then) = match then["event"].as_str().unwrap() {
            "run_ended" => (&now["outcome"]["result"]["sets"], &then["outcome"]["result"]["sets"]),
            // Plans and machines are typed in other ways since.
            "plan_started" => (&now["source"], &then["source"]),
            _ => (now, then),
        };
        assert!(says_all(now, then), "{format}: not {then}\nbut {now}");
    }
}

/// An export says the same as the store that it was made of.
#[test]
fn an_export_of_each_earlier_format_is_imported() {
    for format in FORMATS {
        let [old, new] = [Home::new(), Home::new()];
        store(old.path(), format);
        let text = fixture(&format!("format-{format}.jsonl.gz"));
        new.write("old.jsonl", text);
        new.ok("import old.jsonl");
        let [stored, imported] = [&old, &new].map(|home| home.ok("export"));
        // Parts of a plan are joined by an import, so its name and end are others.
        let is_part = |line: &&str| line.contains(r#""sharding":"#) || line.contains("plan_ended");
        let whole = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !is_part(line)).map(str::to_string).collect()
        };
        assert!(whole(&stored) == whole(&imported), "{format}");
    }
}

/// A plan keeps its meaning: the made-up values depend on it and its seed alone.
#[test]
fn a_plan_as_the_first_version_wrote_it_is_measured() {
    let home = Home::new();
    let export = events(&fixture("format-1.jsonl.gz"));
    let plan = export[0]["source"].as_str().unwrap();
    home.write("plan.toml", plan);
    home.ok("run plan.toml --backend null -q");
    let again = home.events("");
    let (again, then) = (made_up(&again), made_up(&export));
    assert_eq!(again.throughput, then.throughput);
}
