//! Commands of the documents can be pasted as printed: a shell reads every block of them, the command line
//! accepts each `schedlab` in it, and those that need no kernel, privilege, network or other program are
//! executed, on a store of made-up results. Plans in them are plans.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::error::ErrorKind;
use serde_json::Value;

use super::{assert_none, read, tracked};
use crate::home::Home;
use crate::support::stderr;

/// Other programs that a block of commands may call: they are not executed. A line that begins with another
/// word is output and belongs in another block.
const OTHERS: &[&str] = &[
    "apt-get",
    "b4",
    "benchstat",
    "cargo",
    "chrt",
    "clang-19",
    "cp",
    "git",
    "ln",
    "make",
    "mkdir",
    "mktemp",
    "nproc",
    "parallel",
    "schbench",
    "seq",
    "sh",
    "sha256sum",
];

/// Options that only the lab has; commands are checked without them.
const LAB: &[&str] =
    &["--again", "--cache", "--kernel", "--kernel-args", "--machine", "--realtime", "--verify"];

/// `schedlab` and the other programs record their words. Words that are commands themselves (for `sh -c`,
/// `parallel`) are read, too.
const SHELL: &str = r#"
set -eu
exec 3>words
schedlab() { printf '%s\0' "$#" "$@" >&3; }
sudo() { "$@"; }
cd() { :; }
.ci/run() { :; }
command_not_found_handle() {
    printf '%s\0' 2 : "$1" >&3
    for word; do case $word in *"schedlab "*) eval "${word//\{\}/1}" ;; esac; done
}
"#;

/// A fenced block, or a span of code in a sentence.
struct Code<'a> {
    place: String,
    /// `None` for a span.
    language: Option<&'a str>,
    text: String,
}

impl Code<'_> {
    fn is_commands(&self) -> bool {
        match self.language {
            Some("sh") => true,
            Some("") => self.text.lines().any(|line| {
                let word = line.split(' ').next().unwrap_or_default();
                ["schedlab", "$", "sudo"].contains(&word) || OTHERS.contains(&word)
            }),
            Some(_) => false,
            None => self.text.starts_with("schedlab "),
        }
    }

    fn is_plan(&self) -> bool {
        self.language == Some("toml")
            && self.text.contains("schema = 1")
            && self.text.contains("[[workload]]")
    }
}

fn codes<'a>(path: &str, text: &'a str) -> Vec<Code<'a>> {
    let mut codes = Vec::new();
    let mut open: Option<Code> = None;
    let mut prose = (1, String::new());
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (Some(_), Some(_)) => codes.extend(open.take()),
            (Some(code), None) => code.text.push_str(&format!("{line}\n")),
            (None, Some(language)) => {
                codes.extend(spans(path, &std::mem::take(&mut prose)));
                let place = format!("{path}:{number}");
                open = Some(Code { place, language: Some(language), text: String::new() });
            }
            (None, None) if line.is_empty() => {
                codes.extend(spans(path, &std::mem::take(&mut prose)));
            }
            (None, None) => {
                if prose.1.is_empty() {
                    prose.0 = number;
                }
                prose.1.push_str(&format!("{line} "));
            }
        }
    }
    codes.extend(spans(path, &prose));
    codes
}

/// The texts between backticks of a paragraph.
fn spans(path: &str, (number, paragraph): &(usize, String)) -> Vec<Code<'static>> {
    let texts = paragraph.split('`').skip(1).step_by(2);
    let code = |text: &str| Code {
        place: format!("{path}:{number}: `{text}`"),
        language: None,
        text: text.to_string(),
    };
    texts.map(code).collect()
}

/// The words of each `schedlab` that a shell calls for this text, or why a shell cannot read it.
fn calls(folder: &Path, text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut shell = Command::new("/bin/bash");
    shell
        .args(["-c", &format!("{SHELL}{text}")])
        .env_clear()
        .env("HOME", folder)
        .env("PATH", "/none");
    let output = shell.current_dir(folder).stdin(Stdio::null()).output().expect("bash");
    if !output.status.success() || !output.stderr.is_empty() {
        return Err(format!("a shell says: {}", stderr(&output)));
    }
    let record = fs::read_to_string(folder.join("words")).expect("words in UTF-8");
    let mut words = record.split_terminator('\0').map(str::to_string);
    let mut calls = Vec::new();
    while let Some(count) = words.next() {
        let call: Vec<String> = words.by_ref().take(count.parse().expect("a number")).collect();
        match &call[..] {
            [mark, other] if mark == ":" => {
                if !OTHERS.contains(&other.as_str()) {
                    return Err(format!("`{other}` is not a command"));
                }
            }
            _ => calls.push(call),
        }
    }
    Ok(calls)
}

/// Whether the command line accepts these words. A span in a sentence may name a command without its
/// arguments: `schedlab kernel`.
fn accept(line: &mut clap::Command, words: &[String], is_span: bool) -> Result<(), String> {
    if !is_span && words.iter().any(|word| word == "...") {
        return Err("`...` is a word, too".to_string());
    }
    let words = std::iter::once("schedlab").chain(words.iter().map(String::as_str));
    let Err(error) = line.try_get_matches_from_mut(words) else { return Ok(()) };
    let text = error.to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(()),
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if is_span =>
        {
            Ok(())
        }
        ErrorKind::InvalidValue if is_span && text.contains("a value is required") => Ok(()),
        _ => Err(text.lines().next().unwrap_or_default().to_string()),
    }
}

/// The words with which a command can be executed here; `None` if it needs more than a store.
fn harmless(words: &[String]) -> Option<Vec<&str>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has = |option: &str| words.contains(&option);
    // Placeholders for something of the reader: `ID`, a path, an id, a score.
    let is_blank = |word: &&str| {
        let is_name = word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
        let is_id = word.len() > 8 && word.chars().take(8).all(|c| c.is_ascii_digit());
        let is_path = word.contains('/') || word.ends_with(".db") || word.contains("*of");
        is_name || is_id || is_path || word.contains("score=") || word.starts_with("plan=")
    };
    let own = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    if words[..own].iter().any(is_blank) {
        return None;
    }
    let measures = matches!(*words.first()?, "run" | "test");
    let runs = match words[0] {
        "run" | "test" => !LAB.iter().any(|option| has(option)) && !has("--resume"),
        "report" | "compare" | "show" | "export" | "tag" | "note" | "list" | "plan-power" => true,
        "import" => words[1..].iter().all(|word| word.ends_with(".jsonl")),
        "doctor" => !has("--lab"),
        "kernel" => words[1..] == ["list"],
        _ => false,
    };
    let is_dry = !measures || has("--print") || has("--dry-run");
    let dry: &[&str] = if is_dry { &[] } else { &["--dry-run"] };
    // The lab would boot, so only its plan is checked.
    let words: Vec<&str> =
        words.iter().map(|word| if *word == "lab" { "null" } else { word }).collect();
    runs.then(|| [&words[..1], dry, &words[1..]].concat())
}

/// A short plan whose runs the null backend invents. Most examples name its second variant.
const PLAN: &str = r#"
schema = 1
probes = ["counters", "sched"]
measure = { rounds = 3, duration = "1s", warmup = "0s", window = "1s" }
variant = [{ name = "default" }, { name = "batch", policy = "batch" }]
workload = [{ use = "schbench", threads = 1 }]
"#;

/// An export of the whole example store.
const EXPORT: &str = "example";

/// A home with a store that has everything the commands name: plans with these tags, kernels and machines, on
/// a host and in the lab, invented by the null backend.
fn example(all: &[&Vec<String>]) -> Home {
    let home = Home::with_plan(PLAN);
    home.ok("run plan.toml --backend null --quiet");
    let export = home.ok("export");
    let (first, rest) = export.split_once('\n').expect("events");
    let runs =
        rest.lines().filter(|line| !line.contains("\"window\"")).map(|line| format!("{line}\n"));
    let runs: String = runs.collect();
    let started: Value = serde_json::from_str(first).unwrap();
    let now_ns = started["started_unix_ns"].as_u64().expect("a time");
    let ten_days_ns = 10 * 86_400 * 1_000_000_000;
    let mut terms = BTreeSet::from([("backend", "lab"), ("backend", "local")]);
    let words = all.iter().copied().flatten().flat_map(|word| word.split(','));
    terms.extend(words.filter_map(|term| term.split_once('=')).filter(|(key, name)| {
        ["kernel", "machine", "tag"].contains(key) && !name.starts_with('/')
    }));
    let (mut lines, mut tags) = (String::new(), Vec::new());
    for (number, (key, name)) in terms.iter().enumerate() {
        let (id, name) = (format!("20260101-{number:06}"), name.replace('*', "0"));
        let began_ns = if *key == "backend" { now_ns } else { now_ns - ten_days_ns };
        let first = first.replacen(&started["id"].to_string(), &format!("\"{id}\""), 1).replacen(
            &now_ns.to_string(),
            &began_ns.to_string(),
            1,
        );
        let fields = [
            ("backend", "backend", "local"),
            ("kernel", "kernel_release", "6.18.1"),
            ("machine", "hostname", "host"),
        ];
        let first = fields.iter().fold(first, |first, (term, field, default)| {
            let value = if key == term { &name } else { *default };
            first.replacen(&format!("\"{field}\":\"null\""), &format!("\"{field}\":\"{value}\""), 1)
        });
        lines.push_str(&format!("{first}\n{runs}"));
        if *key == "tag" {
            tags.push([id, name]);
        }
    }
    home.write(EXPORT, lines);
    home.ok(&["import", EXPORT]);
    for [id, name] in &tags {
        home.ok(&["tag", id, name]);
    }
    home
}

/// Writes the files that the command reads: the page's plan, a file of rt-app, and an export.
fn prepare(home: &Home, words: &[&str], plan: &str) {
    for word in words.iter().filter(|word| !word.contains('/')) {
        if word.ends_with(".toml") {
            home.write(word, plan);
        } else if word.ends_with(".json") && words[0] == "run" {
            home.write(word, r#"{ "tasks" : { "a" : { "run" : 1000, "sleep" : 9000 } } }"#);
        } else if word.ends_with(".jsonl") && words[0] == "import" {
            home.write(word, home.read(EXPORT));
        }
    }
}

/// `None` if the command succeeded or reported that this machine lacks something.
fn carry_out(home: &Home, words: &[&str]) -> Option<String> {
    let output = home.command(words).stdin(Stdio::null()).output().unwrap();
    let is_plan = matches!(words[0], "run" | "test" | "plan-power");
    match output.status.code() {
        Some(0) => None,
        Some(3) if is_plan => None,
        code => Some(format!("{words:?} exits with {code:?}: {}", stderr(&output))),
    }
}

/// Commands and plans of the pages, and their errors.
struct Found {
    line: clap::Command,
    /// Each with its place and the plan of its page.
    commands: Vec<(String, Vec<String>, String)>,
    spans: usize,
    plans: Vec<(String, String)>,
    wrong: Vec<String>,
}

impl Found {
    fn new() -> Found {
        let (commands, plans, wrong) = (Vec::new(), Vec::new(), Vec::new());
        Found { line: schedlab::cli::command(), commands, spans: 0, plans, wrong }
    }

    fn read_page(&mut self, folder: &Path, path: &str, text: &str, default_plan: &str) {
        let codes = codes(path, text);
        let plan = codes.iter().find(|code| code.is_plan()).map(|code| code.text.clone());
        let plan = plan.unwrap_or_else(|| default_plan.to_string());
        for code in codes {
            if code.is_plan() {
                self.plans.push((code.place, code.text));
            } else if code.is_commands() {
                self.read_commands(folder, &code, &plan);
            } else if code.language == Some("toml")
                && let Err(why) = code.text.parse::<toml::Table>()
            {
                self.wrong.push(format!("{}: {}", code.place, why.message()));
            }
        }
    }

    fn read_commands(&mut self, folder: &Path, code: &Code, plan: &str) {
        let is_span = code.language.is_none();
        let calls = match calls(folder, &code.text) {
            Ok(calls) => calls,
            Err(why) => return self.wrong.push(format!("{}: {why}", code.place)),
        };
        for words in calls {
            match accept(&mut self.line, &words, is_span) {
                Err(why) => self.wrong.push(format!("{}: {words:?}: {why}", code.place)),
                Ok(()) if is_span => self.spans += 1,
                Ok(()) => self.commands.push((code.place.clone(), words, plan.to_string())),
            }
        }
    }
}

#[test]
fn commands_of_documents_can_be_pasted() {
    let Some(paths) = tracked() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let readme = read("README.md");
    let default_plan = codes("README.md", &readme).into_iter().find(Code::is_plan).expect("a plan");
    let mut found = Found::new();
    // The changelog names old commands.
    for path in paths.iter().filter(|path| path.ends_with(".md") && *path != "CHANGELOG.md") {
        found.read_page(scratch.path(), path, &read(path), &default_plan.text);
    }
    assert_none("a command of a document cannot be pasted:", found.wrong);

    let home = example(&found.commands.iter().map(|(_, words, _)| words).collect::<Vec<_>>());
    let mut wrong = Vec::new();
    let mut done = BTreeSet::new();
    for (place, words, plan) in &found.commands {
        let Some(words) = harmless(words) else { continue };
        if !done.insert((words.clone(), plan)) {
            continue;
        }
        prepare(&home, &words, plan);
        wrong.extend(carry_out(&home, &words).map(|why| format!("{place}: {why}")));
    }
    for (place, text) in &found.plans {
        fs::write(home.path().join("page.toml"), text).unwrap();
        let words = ["run", "page.toml", "--dry-run", "--backend", "null"];
        wrong.extend(carry_out(&home, &words).map(|why| format!("{place}: {why}")));
    }
    let (commands, plans) = (found.commands.len(), found.plans.len());
    let spans = found.spans;
    println!("{commands} commands and {spans} in sentences, {} done; {plans} plans", done.len());
    assert_none("a command or a plan of a document fails:", wrong);
}

#[test]
fn a_command_that_cannot_be_pasted_is_found() {
    let cases: &[(&str, usize)] = &[
        ("```sh\nschedlab run --dry-run  # the cells\nschedlab \\\n  doctor\n```", 0),
        ("```\nschedlab run   the plan quick\n```", 1),
        ("```sh\nschedlab show <ID>\n```", 1),
        ("```sh\nschedlab run --rounds 3 ...\n```", 1),
        ("```sh\nschedlab list rnus\n```", 1),
        ("```sh\n$ schedlab list\n```", 1),
        ("```sh\nschedlab list\nspin   40 runs\n```", 1),
        ("```sh\nmake -j4\nsudo schedlab run | parallel 'schedlab nonesuch' ::: 1\n```", 1),
        ("```text\nschedlab says <this>\n```", 0),
        ("```toml\na = 1\nb = ...\n```", 1),
        ("Say `schedlab kernel` or `schedlab run\nnone two`.", 1),
    ];
    let scratch = tempfile::tempdir().unwrap();
    for (text, wrong) in cases {
        let mut found = Found::new();
        found.read_page(scratch.path(), "p.md", text, "");
        assert_eq!(found.wrong.len(), *wrong, "{text}: {:?}", found.wrong);
    }
}
