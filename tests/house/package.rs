//! `cargo package` of both packages: each has the files that its sources include, its licences, and no tests.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::files::TESTS;
use super::licences::cargo;
use super::{assert_none, sources};

#[test]
fn a_package_has_what_its_sources_include() {
    for (package, folder) in [("schedlab", ""), ("schedlab-core", "core/")] {
        let list = ["package", "--list", "--allow-dirty", "--locked", "--offline"];
        let list = cargo(&[&list[..], &["--package", package]].concat());
        let held: BTreeSet<String> = list.lines().map(|path| format!("{folder}{path}")).collect();
        let mut wanted: Vec<String> =
            ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| format!("{folder}{name}")).to_vec();
        let code = sources(&format!("{folder}src"));
        assert!(!code.is_empty(), "{package}: sources");
        for source in &code {
            let folder = Path::new(&source.path).parent().expect("a folder");
            wanted.push(source.path.clone());
            // Only tests may read files of the checkout that no package has.
            let code = source.text.split("#[cfg(test)]").next().unwrap_or_default();
            if !TESTS.iter().any(|name| source.path.contains(name)) {
                wanted.extend(included(code).iter().map(|path| plain(&folder.join(path))));
            }
        }
        let missing = wanted.into_iter().filter(|path| !held.contains(path)).collect();
        assert_none(&format!("the package {package} lacks (`include` in Cargo.toml):"), missing);
        let tests =
            held.iter().filter(|path| path.starts_with("tests/") || path.ends_with(".snap"));
        assert_none(&format!("the package {package} has tests:"), tests.cloned().collect());
    }
}

/// The files that `include_str!` and `include_bytes!` name as one literal.
fn included(text: &str) -> Vec<&str> {
    let calls = ["include_str!(\"", "include_bytes!(\""];
    let found = calls.iter().flat_map(|call| text.split(call).skip(1));
    found.filter_map(|rest| rest.split('"').next()).collect()
}

/// Without `..`.
fn plain(path: &Path) -> String {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = out.pop(),
            other => out.push(other),
        }
    }
    out.to_string_lossy().into_owned()
}

#[test]
fn included_files_are_found() {
    let text = "const A: &str = include_str!(\"../a.txt\"); f(include_bytes!(\"b/c.o\"), x)";
    assert_eq!(included(text), ["../a.txt", "b/c.o"]);
    assert_eq!(plain(Path::new("src/x/../a.txt")), "src/a.txt");
}
