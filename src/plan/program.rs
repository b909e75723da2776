//! Well-known programs as data: each has default values for the table of a workload `command`.
//!
//! A file of `programs/` has the keys of that table, and `about`. A value of `parameters` is the default of
//! one. A plan's own programs are tables `[program."NAME.toml"]` in it, which [`with_files`] makes of files
//! next to it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use toml::de::DeValue;

use super::document;
use super::error::{Faults, PlanErrors};
use super::expand::known_program;
use super::fields::{Known, MAX_TITLE_CHARS, OWN_PROGRAM, PROGRAMS, Program, Words};
use super::table::{self, Entry, Table, quoted_start, section};
use crate::model::clean;

/// The names of programs, with their texts.
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

/// The programs that come with schedlab, by name. A test checks that all can be read.
pub fn programs() -> &'static [Program] {
    static PROGRAMS: LazyLock<Vec<Program>> =
        LazyLock::new(|| TEXTS.iter().filter_map(|(name, text)| read(name, text).ok()).collect());
    &PROGRAMS
}

/// The program of a file.
pub fn read(name: &str, text: &str) -> Result<Program, PlanErrors> {
    let words = Words::registered(Known::default(), &[]);
    let read = |table: Table, faults: &mut Faults| program(name, table, &words, faults);
    document::read(name, text, document::Kind::Plan, read)
}

fn program(name: &str, mut table: Table, words: &Words, faults: &mut Faults) -> Option<Program> {
    let about = table.take("about");
    let about = about.and_then(|entry| table::text(&entry, MAX_TITLE_CHARS, faults));
    let about = about.unwrap_or_default().to_string();
    let params = known_program(table, words, faults)?;
    Some(Program { name: name.to_string(), about, params })
}

/// Adds those in a plan.
pub fn with_own_programs(mut words: Words, top: &mut Table, faults: &mut Faults) -> Words {
    let Some(tables) = section(top, PROGRAMS, faults) else { return words };
    for Entry { key, key_span, value } in tables.into_entries() {
        let DeValue::Table(table) = value.get_ref() else {
            let message = format!("{} is not a table", quoted_start(key));
            faults.add(&key_span, message, "this one", "[program.\"mine.toml\"]");
            continue;
        };
        if !key.ends_with(OWN_PROGRAM) {
            let message = format!("{} is not a name for a program of a plan", quoted_start(key));
            faults.add(&key_span, message, "this name", "one that ends in `.toml`");
        }
        match program(key, Table::new(table, key_span), &words, faults) {
            Some(program) => words.programs.push(program),
            None => words.refused.push(key.to_string()),
        }
    }
    words
}

/// The program files that a plan names and does not hold, each once, and the other names that its workloads
/// use. Both are empty if the text is not a plan; the parser reports its faults.
pub fn used(text: &str) -> (Vec<String>, Vec<String>) {
    let Ok(plan) = text.parse::<toml::Table>() else { return Default::default() };
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
    used.filter(|name| held.is_none_or(|held| !held.contains_key(name)))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .partition(|name| name.ends_with(OWN_PROGRAM))
}

/// Whether a text is a program's file that somebody takes for a plan.
pub fn is_program(top: &Table) -> bool {
    top.has("command") && !["schema", "workload", "measure"].iter().any(|key| top.has(key))
}

/// Adds the texts of these files to a plan, so that it is complete wherever it is stored. An error if one is
/// not a program.
pub fn with_files(plan: &str, files: &[(String, String)]) -> Result<String, PlanErrors> {
    let mut whole = plan.to_string();
    for (name, text) in files {
        read(name, text)?;
        let table: toml::Table = text.parse().unwrap_or_default();
        let named = toml::Table::from_iter([(name.clone(), toml::Value::Table(table))]);
        let own = toml::Table::from_iter([(PROGRAMS.to_string(), toml::Value::Table(named))]);
        whole = format!("{}\n\n# {}\n{own}", whole.trim_end(), clean(name));
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
        assert_eq!(used(plan).0, ["a/mine.toml", "other.toml"]);
        let mine = "command = [\"echo\", \"{n}\"]\nparameters = { n = 3 }\n\
                    [[metric]]\nname = \"n\"\npattern = '^(\\d)$'\nunit = \"count\"\nbetter = \"higher\"\n";
        let both = [("a/mine.toml", mine), ("other.toml", "command = \"true\"")]
            .map(|(name, text)| (name.to_string(), text.to_string()));
        let whole = with_files(plan, &both).unwrap();
        assert_eq!(used(&whole).0, Vec::<String>::new());
        assert_eq!(used(&plan.replace("other.toml", "other")).1, ["other"]);
        let parsed = plan::parse("p.toml", &whole, None, Default::default()).unwrap();
        let labels: Vec<String> = parsed.works.iter().map(|work| work.label()).collect();
        assert_eq!(labels, ["mine n=1", "mine n=2", "b"]);
        assert_eq!(parsed.works[2].sets[0].params["n"].as_int(), Some(3));
        let wrong = ("mine.toml".to_string(), "command = 3\n".to_string());
        let error = with_files(plan, &[wrong]).unwrap_err().to_string();
        assert!(error.contains("mine.toml:1:11"), "{error}");
        let unnamed = "schema = 1\n[program.x]\ncommand = \"true\"\n[[workload]]\nuse = \"spin\"\n";
        let error = plan::parse("p.toml", unnamed, None, Default::default()).unwrap_err();
        assert!(error.to_string().contains("not a name for a program"), "{error}");
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

    #[test]
    fn a_program_that_is_taken_for_a_plan_or_is_wrong_has_one_error() {
        let errors = |text: &str| {
            let errors = plan::parse("mine.toml", text, None, Default::default()).unwrap_err();
            errors
                .errors()
                .iter()
                .map(|of| (of.message.clone(), of.hint.clone()))
                .collect::<Vec<_>>()
        };
        let program = "about = \"mine\"\ncommand = \"true\"\nunknown = 3\n";
        let [(message, hint)] = errors(program).try_into().unwrap();
        assert_eq!(message, "this is a program, not a plan");
        assert!(hint.contains("use = \"mine.toml\""), "{hint}");
        let own = "schema = 1\n[[workload]]\nuse = \"x.toml\"\n[program.\"x.toml\"]\n\
                   command = \"true\"\nunknown = 3\n";
        let [(message, _)] = errors(own).try_into().unwrap();
        assert_eq!(message, "unknown key `unknown` in a program");
    }

    #[test]
    fn a_program_with_other_words_needs_none_of_its_parameters() {
        let parse = |more: &str| {
            let text = format!("schema = 1\n[[workload]]\nuse = \"hackbench\"\n{more}");
            let plan = plan::parse("p.toml", &text, None, Default::default());
            plan.map(|plan| plan.works[0].sets[0].params.clone())
        };
        let params = parse("command = [\"hackbench\", \"-g\", \"{groups}\"]\n").unwrap();
        assert!(params.contains_key("groups") && !params.contains_key("loops"), "{params:?}");
        let given = "command = \"hackbench\"\nparameters = { loops = 3 }\n";
        let error = parse(given).unwrap_err().to_string();
        assert!(error.contains("has the parameter `loops`"), "{error}");
    }
}
