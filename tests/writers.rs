//! Commands that write, each with a home in which it has something to do, and the facts that a fault must leave as they
//! were before the command or as they are after it. tests/kill.rs kills them, tests/disk.rs breaks their disk.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use rusqlite::Connection;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::{plan_ids, schedlab, skip, stderr, stdout};
use crate::{earlier, kernels};

const STORE: &str = ".local/share/schedlab/schedlab.db";
const RESULTS: &str = ".cache/schedlab/results";
/// An earlier format of the store, which any command brings up to date.
const EARLIER: i64 = 3;

const PLAN: &str = "schema = 1\ntitle = \"faults\"\n[measure]\nrounds = 10\nduration = \"2s\"\nwarmup = \"1s\"\n\
    window = \"100ms\"\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n[[workload]]\nuse = \"schbench\"\n\
    [[expect]]\nmetric = \"throughput\"\nfrom = \"0.5x\"\nto = \"2x\"\n";
const CAPTURE: &[&str] = &["capture", "-o", "own.toml", "--", "sh", "-c", "sleep 0.05; sleep 0.05"];
const BENCH: &str = r#"{ "Input": {
  "WorkerPresets": { "A": { "Args": [ "burnwait", "70", "200000" ] } },
  "SimpleMatrix": { "Schedulers": [ "batch" ], "Workers": [ "A" ], "Count": [ 2, 3, 4 ] } },
  "WorkerType": 0 }"#;

/// How the facts change.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    /// All at once.
    Whole,
    /// One after the other, up to the same end.
    Fills,
    /// One after the other; each command adds to what those before it added.
    Grows,
}

pub struct Writer {
    pub name: &'static str,
    words: &'static [&'static str],
    effect: Effect,
    /// It runs programs, whose pipes and clocks are not part of the disk.
    pub runs: bool,
    lay: fn(&Home),
    facts: fn(&Home) -> Vec<String>,
}

const fn whole(
    name: &'static str,
    words: &'static [&'static str],
    lay: fn(&Home),
    facts: fn(&Home) -> Vec<String>,
) -> Writer {
    Writer { name, words, effect: Effect::Whole, runs: false, lay, facts }
}

/// With the runs and scores that are stored as its facts.
const fn grows(name: &'static str, words: &'static [&'static str]) -> Writer {
    Writer { name, words, effect: Effect::Grows, runs: false, lay: stored, facts: results }
}

pub const WRITERS: &[Writer] = &[
    grows("run", &["run", "plan.toml", "--backend", "null", "-q"]),
    Writer {
        runs: true,
        ..grows(
            "run -- CMD",
            &["run", "-q", "--rounds", "3", "--duration", "10ms", "--", "sh", "-c", "cd $TMPDIR"],
        )
    },
    grows("test", &["test", "plan.toml", "--backend", "null", "-q"]),
    Writer {
        runs: true,
        ..grows("score --save", &["score", "--source", "procfs", "--save", "--", "true"])
    },
    whole("import", &["import", "other.jsonl"], stored, lines),
    whole("import of a store", &["import", "other.db"], stored, lines),
    whole("import of parts", &["import", "1.jsonl", "2.jsonl"], parts, lines),
    whole("export -o", &["export", "-o", "old.jsonl"], stored, |home| home.file("old.jsonl")),
    #[cfg(feature = "parquet")]
    whole(
        "export --format parquet",
        &[
            "export",
            "PLAN",
            "--format",
            "parquet",
            "-o",
            "rows",
            "--overwrite",
            "--with",
            "windows",
        ],
        stored,
        parquet,
    ),
    whole("report -o", &["report", "PLAN", "--format", "csv", "-o", "old.csv"], stored, |home| {
        home.file("old.csv")
    }),
    whole(
        "compare -o",
        &[
            "compare",
            "backend=null,variant=a",
            "backend=null,variant=b",
            "--format",
            "csv",
            "-o",
            "old.csv",
        ],
        stored,
        |home| home.file("old.csv"),
    ),
    whole("tag", &["tag", "PLAN", "name"], stored, lines),
    whole("note", &["note", "PLAN", "with the fan off"], stored, lines),
    whole("rm", &["rm", "--yes", "PLAN"], stored, lines),
    whole("an older store", &["list", "runs"], older, format_and_rows),
    Writer { runs: true, ..whole("capture -o", CAPTURE, cost_known, captured) },
    whole(
        "schedbench plan",
        &["schedbench", "-t", "sample.bench", "-f", "test.bench", "plan"],
        bench,
        |home| home.file("test.bench"),
    ),
    Writer {
        effect: Effect::Fills,
        ..whole(
            "schedbench run",
            &["schedbench", "-f", "planned.bench", "--backend", "null", "run"],
            bench,
            completed,
        )
    },
    Writer {
        runs: true,
        ..whole(
            "schbench -j",
            &["schbench", "-r", "1", "-m", "1", "-t", "1", "-j", "out.json"],
            bare,
            |home| home.valid("out.json", &|text| serde_json::from_str::<Value>(text).is_ok()),
        )
    },
    whole("kernel get", &["kernel", "get", "debian:6.18"], bare, kernel_list),
    whole("kernel rm", &["kernel", "rm", "debian:6.18"], fetched, kernel_list),
    Writer {
        effect: Effect::Fills,
        ..whole("cache rm", &["cache", "rm", "results"], cached, removed)
    },
    Writer {
        effect: Effect::Fills,
        ..whole("man", &["man", "pages"], bare, |home| home.tree("pages"))
    },
];

/// A home, with the stubs of an apt in front of the system's programs.
pub struct Home {
    folder: TempDir,
    apt: Rc<kernels::Machine>,
}

impl Home {
    fn new(apt: &Rc<kernels::Machine>) -> Home {
        let home = Home { folder: tempfile::tempdir().unwrap(), apt: Rc::clone(apt) };
        fs::create_dir(home.at("tmp")).unwrap();
        home
    }

    pub fn at(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    pub fn copy(&self) -> Home {
        let copy = Home { folder: tempfile::tempdir().unwrap(), apt: Rc::clone(&self.apt) };
        let mut command = Command::new("cp");
        command.arg("-a").arg(self.at(".")).arg(copy.folder.path());
        assert!(command.status().unwrap().success());
        copy
    }

    pub fn command<W: AsRef<OsStr>>(&self, words: &[W]) -> Command {
        let mut command = schedlab(self.folder.path(), &[]);
        command.args(words).env("TMPDIR", self.at("tmp"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.apt.path("bin").display()));
        command
    }

    /// The output of a command that must succeed and must not know of any damage.
    fn call(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success() && !said.contains("damaged"), "{words:?}: {said}");
        stdout(&output)
    }

    fn file(&self, name: &str) -> Vec<String> {
        vec![fs::read_to_string(self.at(name)).unwrap_or_default()]
    }

    /// A file whose contents differ each time: not there, or whole.
    fn valid(&self, name: &str, is_valid: &dyn Fn(&str) -> bool) -> Vec<String> {
        let Ok(text) = fs::read_to_string(self.at(name)) else { return Vec::new() };
        assert!(is_valid(&text), "{name} is not whole: {text}");
        vec![name.to_string()]
    }

    /// The files of a folder with their digests, without those that are hidden.
    fn tree(&self, below: &str) -> Vec<String> {
        let all = names(&self.at(below));
        let seen =
            all.into_iter().filter(|name| !name.split('/').any(|part| part.starts_with('.')));
        let digest = |name: &String| {
            let bytes = fs::read(self.at(below).join(name)).unwrap();
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        seen.map(|name| format!("{name} {}", digest(&name))).collect()
    }
}

/// The files below a folder, in their order.
fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            names.extend(self::names(&entry.path()).iter().map(|below| format!("{name}/{below}")));
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}

fn bare(_: &Home) {}

/// A home whose first capture has measured what telemetry costs: under strace that takes 20 s.
fn cost_known(home: &Home) {
    home.call(CAPTURE);
    fs::remove_file(home.at("own.toml")).unwrap();
}

/// Two stored plans, and what a third one is in other forms.
fn stored(home: &Home) {
    fs::write(home.at("plan.toml"), PLAN).unwrap();
    let run = ["run", "plan.toml", "--backend", "null", "-q"];
    home.call(&run);
    fs::write(home.at("old.jsonl"), home.call(&["export"])).unwrap();
    fs::write(home.at("old.csv"), "old").unwrap();
    home.call(&run);
    let id = &plan_ids(&home.call(&["export"])).pop().unwrap();
    fs::write(home.at("plan-id"), id).unwrap();
    #[cfg(feature = "parquet")]
    home.call(&["export", id, "--format", "parquet", "-o", "rows"]);
    home.call(&[&run[..], &["--db", "other.db"]].concat());
    fs::write(home.at("other.jsonl"), home.call(&["export", "--db", "other.db"])).unwrap();
}

fn parts(home: &Home) {
    stored(home);
    for (part, name) in [("1/2", "1"), ("2/2", "2")] {
        let db = format!("{name}.db");
        let run = ["run", "plan.toml", "--backend", "null", "-q", "--shard", part, "--db", &db];
        home.call(&run);
        fs::write(home.at(&format!("{name}.jsonl")), home.call(&["export", "--db", &db])).unwrap();
    }
}

fn older(home: &Home) {
    earlier::store(home.folder.path(), EARLIER);
}

fn bench(home: &Home) {
    fs::write(home.at("sample.bench"), BENCH).unwrap();
    home.call(&["schedbench", "-t", "sample.bench", "-f", "planned.bench", "plan"]);
}

fn fetched(home: &Home) {
    home.call(&["kernel", "get", "debian:6.18"]);
}

fn cached(home: &Home) {
    fs::create_dir_all(home.at(RESULTS)).unwrap();
    (0..300).for_each(|number| fs::write(home.at(&format!("{RESULTS}/{number:03}")), "x").unwrap());
}

/// All that an export says, without the moment of a note.
fn lines(home: &Home) -> Vec<String> {
    let moment = "\"written_unix_ns\":";
    let without_moment = |line: &str| match line.split_once(moment) {
        None => line.to_string(),
        Some((before, rest)) => {
            format!("{before}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
    };
    home.call(&["export"]).lines().map(without_moment).collect()
}

/// The runs and scores that are stored, each once, whatever is still to come of their plan.
fn results(home: &Home) -> Vec<String> {
    let (mut plan, mut rounds, mut found) = (String::new(), 0, Vec::new());
    for line in home.call(&["export"]).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["event"].as_str().unwrap() {
            "plan_started" => {
                plan = event["id"].to_string();
                rounds = event["plan"]["measure"]["rounds"].as_u64().unwrap();
            }
            // On a busy machine rounds are measured again: how many is not the command's to say.
            "run_ended" if event["key"]["round"].as_u64().unwrap() >= rounds => {}
            "run_ended" => found.push(format!("{plan} {} {}", event["key"], event["outcome"])),
            "score_saved" => found.push(event["saved"].to_string()),
            _ => {}
        }
    }
    let keys = |fact: &String| fact.split_once("\"status\"").map(|(key, _)| key.to_string());
    let mut runs: Vec<_> = found.iter().filter_map(keys).collect();
    runs.sort();
    assert!(runs.windows(2).all(|pair| pair[0] != pair[1]), "a run is stored twice");
    found
}

/// A migration keeps the runs, whether it is done or not. A copy is read: the store itself is left to schedlab as the
/// fault left it.
fn format_and_rows(home: &Home) -> Vec<String> {
    let copy = home.copy();
    let rows = earlier::rows(&copy.at(STORE));
    let conn = Connection::open(copy.at(STORE)).unwrap();
    let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    vec![format!("format {}: {:?}", earlier::version(&conn), rows.get("run"))]
}

/// An export finds a plan that another one had moved aside before it was killed, and here refuses to replace it.
#[cfg(feature = "parquet")]
fn parquet(home: &Home) -> Vec<String> {
    let words = ["export", "all,backend=null", "--format", "parquet", "-o", "rows"];
    let output = home.command(&words).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    home.tree("rows")
}

/// The kernels that a guest could boot, with the digests of their files.
fn kernel_list(home: &Home) -> Vec<String> {
    let output = home.command(&["kernel", "list", "--format", "json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let kernels = list["kernels"].as_array().map_or(&[][..], Vec::as_slice).iter();
    kernels.map(|kernel| format!("{} {}", kernel["name"], kernel["digest"])).collect()
}

fn captured(home: &Home) -> Vec<String> {
    let is_plan = |text: &str| {
        fs::write(home.at("tmp/copy.toml"), text).unwrap();
        home.call(&["run", "tmp/copy.toml", "--dry-run"]);
        fs::remove_file(home.at("tmp/copy.toml")).unwrap();
        true
    };
    home.valid("own.toml", &is_plan)
}

fn completed(home: &Home) -> Vec<String> {
    let text = fs::read_to_string(home.at("planned.bench")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let runs = file["Runs"].as_array().unwrap().iter().enumerate();
    runs.filter(|(_, run)| run["Completed"] == true)
        .map(|(at, run)| format!("{at} {}", run["Results"]))
        .collect()
}

fn removed(home: &Home) -> Vec<String> {
    let left = names(&home.at(RESULTS));
    let all = (0..300).map(|number| format!("{number:03}"));
    all.filter(|name| !left.contains(name)).collect()
}

/// A writer that has been seen without a fault.
pub struct Trial {
    pub writer: &'static Writer,
    laid: Home,
    before: Vec<String>,
    after: Vec<String>,
    /// All files once it has ended.
    tidy: Vec<String>,
}

impl Trial {
    /// One for each writer that can run here.
    pub fn all() -> Vec<Trial> {
        Trial::some(|_| true)
    }

    pub fn named(name: &str) -> Trial {
        Trial::some(|writer| writer.name == name).pop().expect("a writer that can run anywhere")
    }

    fn some(wanted: impl Fn(&Writer) -> bool) -> Vec<Trial> {
        let apt = Rc::new(kernels::Machine::with_one_kernel());
        let is_amd64 = kernels::is_amd64();
        let here = WRITERS.iter().filter(|writer| is_amd64 || !writer.name.starts_with("kernel"));
        here.filter(|writer| wanted(writer)).filter_map(|writer| Trial::new(writer, &apt)).collect()
    }

    fn new(writer: &'static Writer, apt: &Rc<kernels::Machine>) -> Option<Trial> {
        let laid = Home::new(apt);
        (writer.lay)(&laid);
        let before = (writer.facts)(&laid);
        let [after, tidy] = [Vec::new(), Vec::new()];
        let mut trial = Trial { writer, laid, before, after, tidy };
        let home = trial.laid.copy();
        let output = trial.command(&home).output().unwrap();
        if stderr(&output).contains("not seen without the source bpf") {
            skip("privilege to load BPF programs");
            return None;
        }
        assert!(output.status.success(), "{}: {}", writer.name, stderr(&output));
        trial.after = (writer.facts)(&home);
        assert_ne!(trial.before, trial.after, "{} writes nothing", writer.name);
        restore(&home);
        trial.tidy = names(home.folder.path());
        Some(trial)
    }

    /// `PLAN` in its words is the id of the newest plan of [`stored`].
    pub fn command(&self, home: &Home) -> Command {
        let word = |word: &&str| match *word {
            "PLAN" => fs::read_to_string(home.at("plan-id")).unwrap(),
            word => word.to_string(),
        };
        home.command(&self.writer.words.iter().map(word).collect::<Vec<_>>())
    }

    pub fn home(&self) -> (Home, Vec<String>) {
        (self.laid.copy(), self.before.clone())
    }

    /// Checks the facts after a fault. `facts`: those before it. `said`: what the command wrote to standard error.
    /// Returns whether the command has done all that it does.
    pub fn check(&self, home: &Home, facts: &mut Vec<String>, said: &str) -> bool {
        let name = self.writer.name;
        assert!(!said.contains("panicked"), "{name}: {said}");
        let now = (self.writer.facts)(home);
        let is_done = match self.writer.effect {
            Effect::Whole => {
                assert!(now == self.before || now == self.after, "{name}: half done: {now:?}");
                now == self.after
            }
            Effect::Fills => now.len() == self.after.len(),
            Effect::Grows => now.len() >= facts.len() + self.after.len() - self.before.len(),
        };
        if self.writer.effect != Effect::Whole {
            let lost = facts.iter().find(|fact| !now.contains(fact));
            assert_eq!(lost, None, "{name}: lost");
        }
        *facts = now;
        is_done
    }

    /// Runs the command without a fault where faults left it: it does what it does, and nothing of them is left.
    pub fn finish(&self, home: &Home, mut facts: Vec<String>) {
        // Some writers refuse to do all again, others do it to something else.
        if self.is_used_up(&facts) {
            return;
        }
        let name = self.writer.name;
        let output = self.command(home).output().unwrap();
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let is_done = self.check(home, &mut facts, &stderr(&output));
        assert!(
            is_done,
            "{name}: {} facts, {} before, {} after",
            facts.len(),
            self.before.len(),
            self.after.len()
        );
        restore(home);
        let mut left = names(home.folder.path());
        // Results that a disk did not take are kept under a name that the message says.
        left.retain(|file| !file.contains("/unsaved.bench-"));
        assert_eq!(left, self.tidy, "{name}: left behind");
    }

    /// Whether all was done before the fault came: the next one gets a new home.
    pub fn is_used_up(&self, facts: &[String]) -> bool {
        match self.writer.effect {
            Effect::Whole => facts == self.after,
            Effect::Fills => facts.len() == self.after.len(),
            Effect::Grows => false,
        }
    }

    pub fn folder<'h>(&self, home: &'h Home) -> &'h Path {
        home.folder.path()
    }
}

/// `schedlab restore` undoes all at once: a second one has nothing to do.
fn restore(home: &Home) {
    home.call(&["restore"]);
    let said = home.call(&["restore"]);
    assert!(said.starts_with("nothing to restore"), "{said}");
}
