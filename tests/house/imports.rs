//! Imports point down only.
//!
//! Looks at tokens, not at lines: paths in macros, nested `use` trees and `super::` chains
//! are seen like any other.

use super::circles::modules;
use super::{Source, assert_none, below_src, code, read};

/// Each top-level module and what it may import, from the top of the house to the ground.
/// CONTRIBUTING.md has the same table for people, and a test holds the two together.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("main", &["cli", "compat", "guest", "exec"]),
    ("lib", &[]),
    (
        "cli",
        &[
            "compat", "hunt", "session", "engine", "backend", "guest", "exec", "plan", "workload",
            "variant", "probe", "store", "report", "analysis", "stats", "sys", "model",
        ],
    ),
    (
        "compat",
        &[
            "engine", "backend", "exec", "plan", "workload", "probe", "store", "report", "stats",
            "sys", "model",
        ],
    ),
    ("hunt", &["plan", "analysis", "stats", "model"]),
    (
        "session",
        &[
            "engine", "backend", "exec", "plan", "workload", "variant", "probe", "store", "report",
            "analysis", "stats", "sys", "model",
        ],
    ),
    ("engine", &["backend", "plan", "model"]),
    ("backend", &["exec", "workload", "variant", "probe", "stats", "sys", "model"]),
    ("guest", &["exec", "workload", "variant", "sys", "model"]),
    ("exec", &["workload", "variant", "probe", "stats", "sys", "model"]),
    ("plan", &["workload", "variant", "model"]),
    ("workload", &["stats", "sys", "model"]),
    ("variant", &["sys", "model"]),
    ("probe", &["stats", "sys", "model"]),
    ("store", &["stats", "sys", "model"]),
    ("report", &["analysis", "stats", "model"]),
    ("analysis", &["stats", "model"]),
    ("stats", &["model"]),
    ("sys", &["model"]),
    ("model", &[]),
];

#[test]
fn imports_point_down_only() {
    let findings = code().iter().flat_map(check).collect();
    assert_none("a module imports what is not below it (CONTRIBUTING.md, the house):", findings);
}

#[test]
fn the_table_itself_points_down_only() {
    for (at, (room, below)) in MAY_IMPORT.iter().enumerate() {
        for import in *below {
            let lower = MAY_IMPORT[at + 1..].iter().any(|(name, _)| name == import);
            assert!(lower, "`{room}` may import `{import}`, which does not stand below it");
        }
    }
}

/// Rows of the form ``| `src/engine/` | what it does | backend, plan, model |``.
#[test]
fn contributing_has_the_same_table() {
    let document = read("CONTRIBUTING.md");
    let rows: Vec<(&str, Vec<&str>)> = document
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, room, _, below, _] = cells[..] else { return None };
            let room = room.strip_prefix('`')?.strip_suffix("/`")?;
            let room = room.strip_prefix("core/src/").or(room.strip_prefix("src/"))?;
            Some((room, below.split(", ").filter(|name| *name != "nothing").collect()))
        })
        .collect();
    let folders = MAY_IMPORT.iter().filter(|(room, _)| !["main", "lib"].contains(room));
    let table: Vec<(&str, Vec<&str>)> =
        folders.map(|(room, below)| (*room, below.to_vec())).collect();
    assert_eq!(rows, table);
}

fn check(source: &Source) -> Vec<String> {
    let room = room(&source.path);
    let Some((_, below)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
        return vec![source.finding(1, &format!("`{room}` is no room of the house"))];
    };
    let mut findings = Vec::new();
    for (line, name) in reached(source) {
        if name == "*" {
            findings.push(source.finding(line, "the whole crate is named: name the module"));
        } else if name != room && !below.contains(&name.as_str()) {
            findings.push(source.finding(line, &format!("`{room}` may not import `{name}`")));
        }
    }
    findings
}

/// `engine` of `src/engine/order.rs` and of `src/engine.rs`.
fn room(path: &str) -> &str {
    let below = below_src(path);
    below.split('/').next().unwrap_or(below).trim_end_matches(".rs")
}

/// The top-level module that each path of a file names, or `*` for the crate as a whole, with the line.
fn reached(source: &Source) -> Vec<(usize, String)> {
    let modules = modules(source);
    let paths = modules.iter().flat_map(|(at, module)| {
        module.named().map(move |(path, line)| (line, top(at.len(), path)))
    });
    let mut reached: Vec<_> = paths.filter_map(|(line, top)| Some((line, top?))).collect();
    reached.dedup();
    reached
}

/// Follows a path from a module `depth` levels below the root; `None`: it stays inside of a top-level module, or is
/// of another crate.
fn top(mut depth: usize, path: &[String]) -> Option<String> {
    for (at, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" | "schedlab" if at == 0 => depth = 0,
            "super" => depth = depth.saturating_sub(1),
            "self" => {}
            name => return (at > 0 && depth == 0).then(|| name.to_string()),
        }
    }
    (depth == 0).then(|| "*".to_string())
}

#[test]
fn paths_are_followed_to_their_room() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("src/a/mod.rs", "use crate::model::Plan;", &["model"]),
        ("src/a/mod.rs", "use crate::{model::{Plan, Cell}, sys};", &["model", "sys"]),
        ("src/a/mod.rs", "use {crate::model, std::io};", &["model"]),
        ("src/a/mod.rs", "fn f() { println!(\"{}\", crate::engine::x()) }", &["engine"]),
        ("src/a/mod.rs", "macro_rules! m { () => { $crate::cli::x() } }", &["cli"]),
        ("src/a/mod.rs", "fn f(plan: crate::model::Plan) -> super::sys::T {}", &["model", "sys"]),
        ("src/a/mod.rs", "use super::engine;", &["engine"]),
        ("src/a/b.rs", "use super::engine;", &[]),
        ("src/a/b.rs", "use super::super::{engine, b::c};", &["engine", "b"]),
        ("src/a/b.rs", "use super::{c, super::engine};", &["engine"]),
        ("src/a/b.rs", "mod tests { use super::super::super::engine; }", &["engine"]),
        ("src/a/b.rs", "mod tests { use super::super::engine; use super::*; }", &[]),
        ("src/a/b.rs", "use self::engine::x; impl T { fn f(&self) {} }", &[]),
        ("src/a/b.rs", "pub(crate) fn f() {} // crate::engine\nconst S: &str = \"crate::x\";", &[]),
        ("src/a/b.rs", "use std::engine::crate_;", &[]),
        ("src/a/b.rs", "use crate as lab; use crate::*; use super::super as lab;", &["*"]),
        ("src/a/mod.rs", "use super::*;", &["*"]),
        ("src/main.rs", "fn main() { schedlab::cli::main() }", &["cli"]),
        ("src/lib.rs", "pub mod model; use self::model::Plan;", &["model"]),
    ];
    for (path, text, expected) in cases {
        let reached = reached(&Source::new(path, text));
        let names: Vec<String> = reached.into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, *expected, "{path}: {text}");
    }
}

#[test]
fn an_upward_import_is_found_with_its_place() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "core/src/model/plan.rs",
            "use std::io;\nuse crate::sys::Host;",
            &["core/src/model/plan.rs:2: `model` may not import `sys`"],
        ),
        ("core/src/sys/host.rs", "use crate::model::Reading;\nuse crate::sys::clock;", &[]),
        (
            "core/src/stats/mod.rs",
            "#[cfg(test)]\nmod tests {\n use crate::store;\n}",
            &["core/src/stats/mod.rs:3: `stats` may not import `store`"],
        ),
        ("src/attic/mod.rs", "", &["src/attic/mod.rs:1: `attic` is no room of the house"]),
        (
            "core/src/exec/mod.rs",
            "use crate::*;",
            &["core/src/exec/mod.rs:1: the whole crate is named: name the module"],
        ),
        ("src/cli/run.rs", "use crate::Plan;", &["src/cli/run.rs:1: `cli` may not import `Plan`"]),
    ];
    for (path, text, expected) in cases {
        assert_eq!(check(&Source::new(path, text)), *expected, "{path}");
    }
}
