//! No file of the repository may contain control characters, paths of somebody's machine, hosts that no
//! reader needs, or marks of unfinished work.

use proc_macro2::TokenTree;

use super::{Source, assert_none, code_and_tests, is_punct, read, tracked, walk};
use crate::support::checkout;

/// Hosts that a reader may be sent to. Package registries and their mirrors have no place
/// in the repository: which one serves is the machine's business.
const HOSTS: &[&str] = &[
    // A name that nobody can own, for tests of foreign hosts.
    "evil.example",
    "127.0.0.1",
    "arxiv.org",
    "doi.org",
    "docs.kernel.org",
    "docs.rs",
    "example.org",
    "git.kernel.org",
    "github.com",
    "json-schema.org",
    "keepachangelog.com",
    "localhost",
    "lkml.iu.edu",
    "lore.kernel.org",
    "rustup.rs",
    "semver.org",
    "spdx.org",
    "specifications.freedesktop.org",
    "toml.io",
    "ui.perfetto.dev",
    "www.apache.org",
    "www.kernel.org",
    "www.sqlite.org",
    // Only the name of SVG, not an address to visit.
    "www.w3.org",
];
/// The source that a lock file names where no mirror stands in.
const LOCK_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Marks that git leaves in a file which two branches changed.
const MERGES: [&str; 2] = ["<<<<<<< ", ">>>>>>> "];
/// Folders in which people and build services keep their own files.
const PRIVATE_FOLDERS: &[&str] =
    &["root", "home", "Users", "work", "workspace", "workdir", "builds"];

#[test]
fn no_file_names_a_machine_or_hides_a_character() {
    let Some(paths) = tracked() else { return };
    let places = own_places();
    // Files that fuzzing found are made of odd characters.
    let is_object = |path: &&String| {
        [".o", ".ttf", ".gz"].iter().any(|end| path.ends_with(end))
            || path.starts_with("fuzz/corpus/")
    };
    let (objects, texts): (Vec<_>, Vec<_>) = paths.iter().partition(is_object);
    for path in objects {
        let bytes = std::fs::read(checkout().join(path)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!places.iter().any(|place| text.contains(place.as_str())), "{path}");
    }
    // Licences are quoted, with the hosts that they name.
    let ours = texts.iter().filter(|path| path.as_str() != "THIRD-PARTY.txt");
    let findings = ours.flat_map(|path| {
        let text = read(path);
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let found = lines.filter_map(|(at, line)| Some((at, fault(line, &places)?)));
        found.map(|(at, what)| format!("{path}:{at}: {what}")).collect::<Vec<_>>()
    });
    assert_none("a file contains what does not belong there:", findings.collect());
}

#[test]
fn the_lock_file_names_no_mirror() {
    let lock = read("Cargo.lock");
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let others = sources.filter(|source| source.trim_matches('"') != LOCK_SOURCE);
    assert_none("Cargo.lock names a source of its own:", others.map(str::to_string).collect());
}

#[test]
fn nothing_is_left_unfinished() {
    let findings = code_and_tests().iter().flat_map(unfinished).collect();
    assert_none("unfinished work (open an issue instead):", findings);
}

/// Folders of the machine that the tests run on, each with its slash.
fn own_places() -> Vec<String> {
    let parent = checkout().parent().and_then(|path| path.to_str()).unwrap_or("");
    let home = std::env::var("HOME").unwrap_or_default();
    // `/` and `/srv` are everybody's.
    let own = [parent, &home].into_iter().filter(|path| path.matches('/').count() >= 2);
    let private = PRIVATE_FOLDERS.iter().map(|name| format!("/{name}/"));
    own.map(|path| format!("{path}/")).chain(private).collect()
}

fn fault(line: &str, places: &[String]) -> Option<String> {
    if let Some(c) = line.chars().find(|c| is_hidden(*c)) {
        return Some(format!("the character {:?}", c.escape_unicode().to_string()));
    }
    if MERGES.iter().any(|mark| line.starts_with(mark)) {
        return Some("the mark of a merge".to_string());
    }
    if let Some(place) = places.iter().find(|place| names_folder(line, place)) {
        return Some(format!("a path of a machine, {place}"));
    }
    let host = hosts(line).into_iter().find(|host| !HOSTS.contains(host))?;
    Some(format!("the host {host}, which tests/house/text.rs does not list"))
}

/// Control characters, and those that turn the direction of a text or have no width.
fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\t'
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        || c == '\u{feff}'
}

/// Whether `folder` (`/srv/lab/`) begins a path in the line, and is not the middle of one. A name of one
/// letter in it (`/srv/lab/x`) is an example.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let is_inside = before.is_some_and(|c| c.is_alphanumeric() || "._-/~}*)".contains(c));
        let name = line[at + folder.len()..].split(|c: char| !c.is_alphanumeric()).next();
        !is_inside && name.is_none_or(|name| name.len() != 1)
    })
}

/// The hosts of all URLs in a line; a part that a program fills in (`http://{host}/`) is not a host.
fn hosts(line: &str) -> Vec<&str> {
    let starts = line.match_indices("://").map(|(at, mark)| &line[at + mark.len()..]);
    starts
        .map(|rest| {
            let is_end = |c: char| !(c.is_ascii_alphanumeric() || ".-_@".contains(c));
            let authority = &rest[..rest.find(is_end).unwrap_or(rest.len())];
            authority.rsplit('@').next().unwrap_or(authority).trim_end_matches('.')
        })
        .filter(|host| !host.is_empty())
        .collect()
}

fn unfinished(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    walk(&source.tokens, &mut |siblings| {
        for (at, token) in siblings.iter().enumerate() {
            let TokenTree::Ident(name) = token else { continue };
            let named = ["todo", "unimplemented", "dbg"].iter().any(|mark| name == mark);
            if named && is_punct(siblings.get(at + 1), '!') {
                findings.push(source.finding(token.span().start().line, &format!("{name}!")));
            }
        }
    });
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    for (at, line) in source.text.lines().enumerate() {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        let mut words = comment.split(|c: char| !c.is_ascii_alphabetic());
        if let Some(mark) = words.find(|word| marks.contains(word)) {
            findings.push(source.finding(at + 1, mark));
        }
    }
    findings
}

#[test]
fn faults_of_a_line_are_found() {
    let places = ["/srv/lab/".to_string(), "/var/lab/".to_string()];
    let mirror = format!("cargo from sparse+https:{}index.mirror.test/x", "//");
    let login = format!("git+ssh:{}me@forge.test:22/x", "//");
    let cases: &[(&str, Option<&str>)] = &[
        ("\tplain text, \u{b5}s and \u{2014} dashes", None),
        ("a bell \u{7}", Some("the character \"\\\\u{7}\"")),
        ("a carriage return\r.", Some("the character \"\\\\u{d}\"")),
        (">>>>>>> a branch", Some("the mark of a merge")),
        ("a turned \u{202e}text", Some("the character \"\\\\u{202e}\"")),
        ("no width\u{200b}", Some("the character \"\\\\u{200b}\"")),
        ("see `/var/lab/ada`", Some("a path of a machine, /var/lab/")),
        ("--db=/srv/lab/all.db", Some("a path of a machine, /srv/lab/")),
        ("HOME=/srv/lab/x, /srv/lab/x/y", None),
        ("--db=/srv/lab/", Some("a path of a machine, /srv/lab/")),
        ("tests/srv/lab/xy, ~/srv/lab/xy, ${ROOT}/srv/lab/xy, /srv/laboratory", None),
        ("https://docs.kernel.org/scheduler/ and http://{address}:{port}/", None),
        (&mirror, Some("the host index.mirror.test, which tests/house/text.rs does not list")),
        (&login, Some("the host forge.test, which tests/house/text.rs does not list")),
    ];
    for (line, expected) in cases {
        assert_eq!(fault(line, &places).as_deref(), *expected, "{line}");
    }
}

#[test]
fn marks_of_unfinished_work_are_found() {
    let mark = concat!("TO", "DO");
    let cases: &[(String, &[&str])] = &[
        ("fn f() { todo!() }".to_string(), &["src/x.rs:1: todo!"]),
        ("fn f() {\n g(unimplemented!(\"x\")) }".to_string(), &["src/x.rs:2: unimplemented!"]),
        ("fn f() { dbg!(1); }".to_string(), &["src/x.rs:1: dbg!"]),
        (format!("fn f() {{}} // {mark}: more"), &[concat!("src/x.rs:1: TO", "DO")]),
        (format!("fn todo() {{ todo() }} const S: &str = \"{mark}\"; // done"), &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(unfinished(&Source::new("src/x.rs", text)), *expected, "{text}");
    }
}
