//! Programs that people know, as data: each is what the table of a workload `command` holds unless a
//! plan says otherwise.
//!
//! A file of `programs/` has the keys of that table, and `about`. A value of `parameters` is the
//! default of one.

use std::sync::LazyLock;

use super::error::{Faults, PlanErrors};
use super::expand::known_program;
use super::fields::{Known, MAX_TITLE_CHARS, Program, Words};
use super::read::document;
use super::table::{self, Table};

/// By name, with their text.
const TEXTS: &[(&str, &str)] = &[
    ("7zip", include_str!("../../programs/7zip.toml")),
    ("cyclictest", include_str!("../../programs/cyclictest.toml")),
    ("hackbench", include_str!("../../programs/hackbench.toml")),
    ("primesieve", include_str!("../../programs/primesieve.toml")),
    ("stress-ng", include_str!("../../programs/stress-ng.toml")),
    ("sysbench-cpu", include_str!("../../programs/sysbench-cpu.toml")),
    ("sysbench-threads", include_str!("../../programs/sysbench-threads.toml")),
];

/// Those that come with schedlab, by name. A test says that all can be read.
pub fn programs() -> &'static [Program] {
    static PROGRAMS: LazyLock<Vec<Program>> =
        LazyLock::new(|| TEXTS.iter().filter_map(|(name, text)| read(name, text).ok()).collect());
    &PROGRAMS
}

fn read(name: &str, text: &str) -> Result<Program, PlanErrors> {
    let mut faults = Faults::default();
    let program = document(text, &mut faults).and_then(|document| {
        let mut top = Table::new(document.get_ref(), 0..0);
        let about = top.take("about");
        let about = about.and_then(|entry| table::text(&entry, MAX_TITLE_CHARS, &mut faults));
        let about = about.unwrap_or_default().to_string();
        let words = Words::registered(Known::default(), &[]);
        let params = known_program(top, &words, &mut faults)?;
        Some(Program { name: name.to_string(), about, params })
    });
    match program {
        Some(program) if faults.is_empty() => Ok(program),
        _ => Err(faults.into_errors(&format!("{name}.toml"), text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use std::collections::BTreeSet;

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
            assert!(!set.params["metric"].as_outputs().is_empty(), "{name}");
        }
        let files = std::fs::read_dir("programs").unwrap().map(|file| file.unwrap().file_name());
        let files: BTreeSet<String> =
            files.map(|file| file.into_string().unwrap().replace(".toml", "")).collect();
        let known: BTreeSet<String> = TEXTS.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(files, known);
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
