//! Sources that patches change and that a kernel's configuration does not compile.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::walk::files_below;
use super::make::OBJECTS;
use super::patch::Patch;
use crate::sys::input;

/// The sources of these patches that the compiler did not read, by what `make` notes next to each
/// object. Empty if it noted nothing.
pub fn unread<'a>(tree: &Path, patches: &'a [Patch]) -> Vec<&'a str> {
    let names =
        patches.iter().flat_map(|patch| &patch.files).filter_map(|file| file.new.as_deref());
    let in_tree = |name: &&str| tree.join(name).is_file();
    let names = names.filter_map(|name| {
        [name.split_once('/').map_or(name, |(_, rest)| rest), name].into_iter().find(in_tree)
    });
    let mut left: BTreeSet<&str> = names.filter(|name| is_source(name)).collect();
    let mut has_notes = false;
    let mut notes = notes_below(&tree.join(OBJECTS));
    while !left.is_empty()
        && let Some(text) = notes.next()
    {
        has_notes = true;
        left.retain(|name| !reads(&text, name));
    }
    if has_notes { left.into_iter().collect() } else { Vec::new() }
}

/// Makefiles, scripts and the configuration's own files act without being compiled.
fn is_source(name: &str) -> bool {
    name.starts_with("Documentation/") || [".c", ".h", ".S"].iter().any(|end| name.ends_with(end))
}

fn reads(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        before.ends_with('/') && after.starts_with(|next: char| next.is_ascii_whitespace())
    })
}

/// The text of each `.NAME.o.cmd`.
fn notes_below(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let is_note = |path: &PathBuf| path.as_os_str().as_encoded_bytes().ends_with(b".cmd");
    let notes = files_below(folder).unwrap_or_default().into_iter().filter(is_note);
    notes.filter_map(|path| input::read_text_file(path, input::MAX_OWN_FILE_BYTES).ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::patch::testing::diff;
    use super::*;

    #[test]
    fn sources_that_no_object_was_made_from_are_named() {
        let tree = tempfile::tempdir().unwrap();
        let names = [
            "kernel/fair.c",
            "kernel/ext.c",
            "kernel/xfair.c",
            "kernel/Makefile",
            "include/fair.h",
        ];
        for name in names {
            let path = tree.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let of = |names: &[&str]| {
            let text: String = names.iter().map(|name| diff(name, "a", "b")).collect();
            let patches = [Patch::parse("p", text.as_bytes()).unwrap().unwrap()];
            unread(tree.path(), &patches).join(" ")
        };
        assert_eq!(of(&names), "", "nothing is known");
        let objects = tree.path().join(OBJECTS).join("kernel");
        fs::create_dir_all(&objects).unwrap();
        let note =
            "source_kernel/fair.o := ../kernel/xfair.c\n\ndeps := \\\n  ../include/fair.h \\\n";
        fs::write(objects.join(".fair.o.cmd"), note).unwrap();
        assert_eq!(of(&names), "kernel/ext.c kernel/fair.c");
        assert_eq!(of(&["include/fair.h", "kernel/Makefile", "kernel/gone.c"]), "");
    }
}
