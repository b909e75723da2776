//! Programs that people know, as data: each is what the table of a workload `command` holds unless a
//! plan says otherwise.
//!
//! A file of `programs/` has the keys of that table, and `about`. A value of `parameters` is the
//! default of one. A plan's own programs are tables `[program."NAME.toml"]` in it: what
//! [`with_files`] makes of files next to it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use toml::de::DeValue;

use super::document::document;
use super::error::{Faults, PlanErrors};
use super::expand::known_program;
use super::fields::{Known, MAX_TITLE_CHARS, OWN_PROGRAM, PROGRAMS, Program, Words};
use super::table::{self, Entry, Table, section, shown};

/// By name, with their text.
const TEXTS: &[(&str, &str)] = &[
    ("7zip", include_str!("../../programs/7zip.toml")),
    ("cyclictest", include_str!("../../programs/cyclictest.toml")),
    ("deathstarbench", include_str!("../../programs/deathstarbench.toml")),
    ("ffmpeg", include_str!("../../programs/ffmpeg.toml")),
    ("hackbench", include_str!("../../programs/hackbench.toml")),
    ("iperf3", include_str!("../../programs/iperf3.toml")),
    ("john", include_str!("../../programs/john.toml")),
    ("kernel-build", include_str!("../../programs/kernel-build.toml")),
    ("memcached", include_str!("../../programs/memcached.toml")),
    ("netperf", include_str!("../../programs/netperf.toml")),
    ("nginx", include_str!("../../programs/nginx.toml")),
    ("pgbench", include_str!("../../programs/pgbench.toml")),
    ("primesieve", include_str!("../../programs/primesieve.toml")),
    ("redis", include_str!("../../programs/redis.toml")),
    ("sockperf", include_str!("../../programs/sockperf.toml")),
    ("specjbb", include_str!("../../programs/specjbb.toml")),
    ("stress-ng", include_str!("../../programs/stress-ng.toml")),
    ("sysbench-cpu", include_str!("../../programs/sysbench-cpu.toml")),
    ("sysbench-threads", include_str!("../../programs/sysbench-threads.toml")),
    ("tbench", include_str!("../../programs/tbench.toml")),
];

/// Those that come with schedlab, by name. A test says that all can be read.
pub fn programs() -> &'static [Program] {
    static PROGRAMS: LazyLock<Vec<Program>> =
        LazyLock::new(|| TEXTS.iter().filter_map(|(name, text)| read(name, text).ok()).collect());
    &PROGRAMS
}

fn read(name: &str, text: &str) -> Result<Program, PlanErrors> {
    let mut faults = Faults::default();
    let words = Words::registered(Known::default(), &[]);
    let program = document(text, &mut faults).and_then(|document| {
        program(name, Table::new(document.get_ref(), 0..0), &words, &mut faults)
    });
    match program {
        Some(program) if faults.is_empty() => Ok(program),
        _ => Err(faults.into_errors(name, text)),
    }
}

fn program(name: &str, mut table: Table, words: &Words, faults: &mut Faults) -> Option<Program> {
    let about = table.take("about");
    let about = about.and_then(|entry| table::text(&entry, MAX_TITLE_CHARS, faults));
    let about = about.unwrap_or_default().to_string();
    let params = known_program(table, words, faults)?;
    Some(Program { name: name.to_string(), about, params })
}

/// Those in a plan.
pub fn own_programs(top: &mut Table, words: &Words, faults: &mut Faults) -> Vec<Program> {
    let mut own = Vec::new();
    let Some(tables) = section(top, PROGRAMS, faults) else { return own };
    for Entry { key, key_span, value } in tables.into_entries() {
        let DeValue::Table(table) = value.get_ref() else {
            let message = format!("{} is not a table", shown(key));
            faults.add(&key_span, message, "this one", "[program.\"mine.toml\"]");
            continue;
        };
        if !key.ends_with(OWN_PROGRAM) {
            let message = format!("{} is no name for a program of a plan", shown(key));
            faults.add(&key_span, message, "this name", "one that ends in `.toml`");
        }
        own.extend(program(key, Table::new(table, key_span), words, faults));
    }
    own
}

/// The files of programs that a plan names and does not hold, each once. A text that is no plan has
/// none: what is wrong with it is for the parser to say.
pub fn files(text: &str) -> Vec<String> {
    let Ok(plan) = text.parse::<toml::Table>() else { return Vec::new() };
    let held = plan.get(PROGRAMS).and_then(toml::Value::as_table);
    let tables = |of: &toml::Table, name: &str| -> Vec<toml::Table> {
        let all = of.get(name).and_then(toml::Value::as_array).cloned().unwrap_or_default();
        all.into_iter().filter_map(|value| value.as_table().cloned()).collect()
    };
    let workloads = tables(&plan, "workload").into_iter().flat_map(|of| {
        let sets = [tables(&of, "set"), tables(&of, "background")].concat();
        std::iter::once(of).chain(sets)
    });
    let used = workloads.filter_map(|of| of.get("use")?.as_str().map(str::to_string));
    let own = used.filter(|name| name.ends_with(OWN_PROGRAM));
    own.filter(|name| held.is_none_or(|held| !held.contains_key(name)))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// A plan with the texts of these files in it, so that it is whole wherever it is stored. An error
/// where one is no program.
pub fn with_files(plan: &str, files: &[(String, String)]) -> Result<String, PlanErrors> {
    let mut whole = plan.to_string();
    for (name, text) in files {
        read(name, text)?;
        let table: toml::Table = text.parse().unwrap_or_default();
        let named = toml::Table::from_iter([(name.clone(), toml::Value::Table(table))]);
        let own = toml::Table::from_iter([(PROGRAMS.to_string(), toml::Value::Table(named))]);
        whole = format!("{}\n\n# {}\n{own}", whole.trim_end(), name.escape_default());
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    #[test]
    fn every_program_can_be_read_and_used() {
        for (name, text) in TEXTS {
            let program = read(name, text).unwrap_or_else(|wrong| panic!("{wrong:?}"));
            assert!(!program.about.is_empty(), "{name}");
            let text = format!("schema = 1\n[[workload]]\nuse = \"{name}\"\n");
            let plan = plan::parse("p.toml", &text, None, Default::default()).expect(name);
            let set = &plan.works[0].sets[0];
            assert_eq!(
                (plan.works[0].name.as_str(), set.workload.as_str()),
                (*name, super::super::fields::PROGRAM)
            );
            let metrics = set.params.get("metric").map_or(0, |metrics| metrics.as_outputs().len());
            assert!(metrics > 0 || *name == "kernel-build", "{name}: what counts is its time");
        }
        let files = std::fs::read_dir("programs").unwrap().map(|file| file.unwrap().file_name());
        let files: BTreeSet<String> =
            files.map(|file| file.into_string().unwrap().replace(".toml", "")).collect();
        let known: BTreeSet<String> = TEXTS.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(files, known);
    }

    #[test]
    fn a_file_next_to_a_plan_is_part_of_it() {
        let plan = "schema = 1\n[[workload]]\nuse = \"a/mine.toml\"\nparameters = { n = [1, 2] }\n\
                    [[workload.background]]\nuse = \"other.toml\"\n[[workload]]\nname = \"b\"\n\
                    [[workload.set]]\nuse = \"a/mine.toml\"\n";
        assert_eq!(files(plan), ["a/mine.toml", "other.toml"]);
        let mine = "command = [\"echo\", \"{n}\"]\nparameters = { n = 3 }\n\
                    [[metric]]\nname = \"n\"\npattern = '^(\\d)$'\nunit = \"count\"\nbetter = \"higher\"\n";
        let both = [("a/mine.toml", mine), ("other.toml", "command = \"true\"")]
            .map(|(name, text)| (name.to_string(), text.to_string()));
        let whole = with_files(plan, &both).unwrap();
        assert_eq!(files(&whole), Vec::<String>::new());
        let parsed = plan::parse("p.toml", &whole, None, Default::default()).unwrap();
        let labels: Vec<String> = parsed.works.iter().map(|work| work.label()).collect();
        assert_eq!(labels, ["mine n=1", "mine n=2", "b"]);
        assert_eq!(parsed.works[2].sets[0].params["n"].as_int(), Some(3));
        let wrong = ("mine.toml".to_string(), "command = 3\n".to_string());
        let error = with_files(plan, &[wrong]).unwrap_err().to_string();
        assert!(error.contains("mine.toml:1:11"), "{error}");
        let unnamed = "schema = 1\n[program.x]\ncommand = \"true\"\n[[workload]]\nuse = \"spin\"\n";
        let error = plan::parse("p.toml", unnamed, None, Default::default()).unwrap_err();
        assert!(error.to_string().contains("no name for a program"), "{error}");
    }

    #[test]
    fn a_plan_replaces_what_a_program_says() {
        let text = "schema = 1\n[[workload]]\nuse = \"hackbench\"\nwarmups = 2\ncount = [1, 2]\n\
                    command = [\"hackbench\", \"-T\", \"-g\", \"{groups}\", \"-l\", \"{loops}\"]\n\
                    parameters = { groups = [1, 4] }\n";
        let plan = plan::parse("p.toml", text, None, Default::default()).unwrap();
        let labels: Vec<String> = plan.works.iter().map(|work| work.label()).collect();
        let expected =
            ["count=1 groups=1", "count=1 groups=4", "count=2 groups=1", "count=2 groups=4"];
        assert_eq!(labels, expected.map(|axes| format!("hackbench {axes}")));
        let params = &plan.works[0].sets[0].params;
        assert_eq!(params["loops"].to_string(), "1000");
        assert_eq!(params["warmups"].as_int(), Some(2));
        assert!(params["command"].to_string().contains("-T"));
        let unknown = text.replace("groups = [1, 4]", "group = 3");
        let errors = plan::parse("p.toml", &unknown, None, Default::default()).unwrap_err();
        assert!(errors.to_string().contains("has the parameter `group`"), "{errors}");
    }
}
