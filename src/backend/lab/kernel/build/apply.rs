//! Applies patches with `patch`, which must find all of each hunk's context, and reads its message on each hunk.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::super::KernelError;
use super::error::BuildError;
use super::failure::{FailureKind, PatchFailure, PatchNote};
use super::patch::{Patch, PatchedFile};
use super::run;

/// Changes the tree; after a failure it is neither the old nor the new one.
pub fn apply(
    patch: &Patch,
    base: &str,
    tree: &Path,
    scratch: &Path,
    stop: &AtomicBool,
) -> Result<Vec<PatchNote>, BuildError> {
    let input = scratch.join("patch");
    fs::write(&input, &patch.text).map_err(KernelError::io("write", &input))?;
    let mut command = run::program("patch");
    command.args(["--batch", "--forward", "--no-backup-if-mismatch", "--reject-file=-"]);
    // Other text than a unified diff is skipped: a script for `ed` would be run.
    command.args(["--fuzz=0", "--unified", "--quoting-style=literal"]);
    let level = level(patch, |name| tree.join(name).exists());
    command.arg(format!("--strip={level}"));
    command.arg("--directory").arg(tree).arg("--input").arg(&input);
    let mut reader = Reader::new(patch, level);
    let status = run::status(command, "apply the patch", stop, &mut |line| reader.line(line))?;
    if reader.failures.is_empty() && !status.success() {
        reader.fail(FailureKind::Other(reader.last.clone()));
    }
    match reader.failures.is_empty() {
        true => Ok(reader.notes),
        false => Err(BuildError::Rejected {
            patch: patch.name.clone(),
            base: base.to_string(),
            failures: reader.failures,
            made_for: patch.made_for.clone(),
        }),
    }
}

/// Leading folders of the names in the patch that are not in the tree: one, unless only the whole
/// names exist.
fn level(patch: &Patch, exists: impl Fn(&str) -> bool) -> u32 {
    // Names of git's renames have no leading folder.
    let files = patch.files.iter().filter(|file| !file.hunks.is_empty());
    // A new file does not exist yet, but its folder does.
    let known = files.filter_map(|file| match (&file.old, &file.new) {
        (Some(old), _) => Some(old.as_str()),
        (None, new) => new.as_deref()?.rsplit_once('/').map(|(folder, _)| folder),
    });
    let names: Vec<&str> = known.collect();
    let is_one_less = |name: &&str| name.split_once('/').is_some_and(|(_, rest)| exists(rest));
    let is_whole = |name: &&str| exists(name);
    u32::from(names.iter().any(is_one_less) || !names.iter().any(is_whole))
}

/// Hunks that only their line number places.
fn no_context(patch: &Patch, level: u32) -> impl Iterator<Item = PatchNote> {
    let changed = patch.files.iter().filter(|file| file.old.is_some());
    let named = changed.filter_map(|file| Some((file, file.new.as_deref()?)));
    let hunks = named.flat_map(|(file, name)| (1..).zip(&file.hunks).map(move |one| (name, one)));
    hunks.filter(|(_, (_, hunk))| !hunk.has_context()).map(move |(name, (hunk, _))| {
        let in_tree = name.split_once('/').filter(|_| level == 1).map_or(name, |(_, rest)| rest);
        PatchNote::NoContext { patch: patch.name.clone(), file: in_tree.to_string(), hunk }
    })
}

struct Reader<'a> {
    patch: &'a Patch,
    file: String,
    last: String,
    notes: Vec<PatchNote>,
    failures: Vec<PatchFailure>,
}

impl<'a> Reader<'a> {
    fn new(patch: &'a Patch, level: u32) -> Reader<'a> {
        let (notes, failures) = (no_context(patch, level).collect(), Vec::new());
        Reader { patch, file: String::new(), last: String::new(), notes, failures }
    }

    fn fail(&mut self, why: FailureKind) {
        self.failures.push(PatchFailure { file: self.file.clone(), why });
    }

    fn line(&mut self, line: &str) {
        self.last = line.to_string();
        if let Some(file) = line.strip_prefix("patching file ") {
            self.file = file.split(" (renamed from ").next().unwrap_or(file).to_string();
        } else if let Some(rest) = line.strip_prefix("Hunk #") {
            self.hunk(rest);
        } else if line.starts_with("Reversed (or previously applied) patch detected") {
            self.fail(FailureKind::AlreadyApplied);
        } else if let Some(rest) = line.strip_prefix("The next patch would create the file ") {
            self.file = rest.trim_end_matches(',').to_string();
            self.fail(FailureKind::Exists);
        } else if line.starts_with("can't find file to patch") {
            self.file = String::new();
        } else if line.starts_with("|+++ ") && self.file.is_empty() {
            self.file =
                line.trim_start_matches("|+++ ").split('\t').next().unwrap_or("").to_string();
            self.fail(FailureKind::NoFile);
        } else if line.starts_with("patch: ****") || line.contains("refusing to patch") {
            self.fail(FailureKind::Other(line.to_string()));
        }
    }

    /// `2 FAILED at 123.`, `2 succeeded at 80 (offset 3 lines).`
    fn hunk(&mut self, text: &str) {
        let mut words = text.split_whitespace().map(|word| word.trim_matches(['(', ')', '.']));
        let number: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let end = words.next().unwrap_or("");
        let rest: Vec<&str> = words.collect();
        let after = |name: &str| {
            let at = rest.iter().position(|word| *word == name)?;
            rest.get(at + 1)?.parse::<i64>().ok()
        };
        let line = after("at").and_then(|line| line.try_into().ok()).unwrap_or(0);
        if end != "succeeded" {
            let hunk = self.patched().and_then(|file| file.hunks.get(number.checked_sub(1)?));
            let hunk = hunk.cloned();
            return self.fail(FailureKind::Hunk { number, line, hunk });
        }
        let offset = after("offset").unwrap_or(0);
        let (patch, file) = (self.patch.name.clone(), self.file.clone());
        self.notes.push(PatchNote::Moved { patch, file, hunk: number, line, offset });
    }

    fn patched(&self) -> Option<&PatchedFile> {
        let is_it = |name: &Option<String>| {
            name.as_deref().is_some_and(|name| {
                name == self.file || name.split_once('/').is_some_and(|(_, rest)| rest == self.file)
            })
        };
        self.patch.files.iter().find(|file| is_it(&file.new) || is_it(&file.old))
    }
}

#[cfg(test)]
mod tests {
    use super::super::patch::testing::diff;
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join("tree").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn run(folder: &Path, text: &str) -> Result<Vec<PatchNote>, BuildError> {
        let patch = Patch::parse("p", text.as_bytes()).unwrap().unwrap();
        apply(&patch, "base", &folder.join("tree"), folder, &AtomicBool::new(false))
    }

    #[test]
    fn a_patch_changes_its_files_and_nothing_through_a_link() {
        let folder = tree(&[("kernel/a.c", "one\n")]);
        let (here, other) = (folder.path().join("tree/kernel/a.c"), folder.path().join("same"));
        fs::hard_link(&here, &other).unwrap();
        run(folder.path(), &diff("kernel/a.c", "one", "two")).unwrap();
        assert_eq!(fs::read_to_string(&here).unwrap(), "two\n");
        assert_eq!(fs::read_to_string(&other).unwrap(), "one\n", "the base shares files");
        let bare = "--- kernel/a.c\n+++ kernel/a.c\n@@ -1 +1 @@\n-two\n+three\n";
        run(folder.path(), bare).unwrap();
        assert_eq!(fs::read_to_string(&here).unwrap(), "three\n");
    }

    #[test]
    fn files_are_made_renamed_and_removed() {
        let folder = tree(&[("kernel/a.c", "one\n"), ("kernel/b.c", "two\n")]);
        let rename = "diff --git a/kernel/a.c b/kernel/c.c\nsimilarity index 100%\n\
                      rename from kernel/a.c\nrename to kernel/c.c\n";
        assert_eq!(run(folder.path(), rename).unwrap(), []);
        let made = "--- /dev/null\n+++ kernel/d.c\n@@ -0,0 +1 @@\n+new\n";
        assert_eq!(run(folder.path(), made).unwrap(), []);
        let removed = "--- a/kernel/b.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n";
        assert_eq!(run(folder.path(), removed).unwrap(), []);
        let is_there = |name: &str| folder.path().join("tree/kernel").join(name).exists();
        assert_eq!(["a.c", "b.c", "c.c", "d.c"].map(is_there), [false, false, true, true]);
    }

    /// Trees of users have links; a patch must not write through one.
    #[test]
    fn nothing_outside_of_the_tree_is_changed() {
        let folder = tree(&[("kernel/a.c", "one\n")]);
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("x.c"), "one\n").unwrap();
        let tree = folder.path().join("tree");
        std::os::unix::fs::symlink("../outside", tree.join("away")).unwrap();
        std::os::unix::fs::symlink("../outside/x.c", tree.join("file.c")).unwrap();
        for name in ["away/x.c", "file.c"] {
            run(folder.path(), &diff(name, "one", "two")).unwrap_err();
        }
        let made = "--- /dev/null\n+++ b/away/y.c\n@@ -0,0 +1 @@\n+new\n";
        run(folder.path(), made).unwrap_err();
        let script = format!(
            "{}--- a/kernel/a.c\n+++ b/kernel/a.c\n1c\n!touch {}/ran\n.\n",
            diff("kernel/a.c", "one", "two"),
            outside.display()
        );
        let mut patch =
            Patch::parse("p", diff("kernel/a.c", "one", "two").as_bytes()).unwrap().unwrap();
        patch.text = script.into_bytes();
        drop(apply(&patch, "base", &tree, folder.path(), &AtomicBool::new(false)));
        let left: Vec<_> = fs::read_dir(&outside).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(fs::read_to_string(outside.join("x.c")).unwrap(), "one\n");
    }

    #[test]
    fn a_hunk_may_have_moved_and_needs_all_of_its_context() {
        let lines = "\n\n\na\nb\nc\nd\ne\nf\n";
        let patch = "--- a/f.c\n+++ b/f.c\n@@ -1,6 +1,6 @@\n a\n b\n c\n-d\n+D\n e\n f\n";
        let moved = |hunk, line, offset| {
            let [patch, file] = ["p", "f.c"].map(str::to_string);
            PatchNote::Moved { patch, file, hunk, line, offset }
        };
        assert_eq!(run(tree(&[("f.c", lines)]).path(), patch).unwrap(), [moved(1, 4, 3)]);
        // By default `patch` would ignore the first and the last line.
        for (from, to) in [("\na\n", "\nX\n"), ("\nc\n", "\nX\n"), ("\nf\n", "\nX\n")] {
            let folder = tree(&[("f.c", &lines.replace(from, to))]);
            let error = run(folder.path(), patch).unwrap_err().to_string();
            assert!(error.contains("f.c: hunk 1 does not fit at line 1"), "{to}: {error}");
        }
    }

    #[test]
    fn a_hunk_that_only_its_line_number_places_is_reported() {
        let folder = tree(&[("f.c", "a\nb\nc\n")]);
        let bare = "--- a/f.c\n+++ b/f.c\n@@ -2 +2 @@\n-b\n+B\n";
        let [patch, file] = ["p", "f.c"].map(str::to_string);
        assert_eq!(
            run(folder.path(), bare).unwrap(),
            [PatchNote::NoContext { patch, file, hunk: 1 }]
        );
    }

    #[test]
    fn what_does_not_fit_is_named_with_file_and_hunk() {
        let cases = [
            (
                diff("f.c", "other", "new"),
                "f.c: hunk 1 does not fit at line 1 (line 3 of the patch)\n    @@ -1 +1 @@\n    -other\n    +new",
            ),
            (diff("f.c", "zero", "one"), "f.c: it is applied already, or reversed"),
            (diff("g.c", "one", "two"), "b/g.c: there is no such file"),
            (
                "--- /dev/null\n+++ b/f.c\n@@ -0,0 +1 @@\n+x\n".to_string(),
                "f.c: the file to be made is there already",
            ),
        ];
        for (text, expected) in cases {
            let folder = tree(&[("f.c", "one\n")]);
            let Err(BuildError::Rejected { failures, .. }) = run(folder.path(), &text) else {
                panic!("{text}");
            };
            assert!(failures[0].to_string().starts_with(expected), "{}", failures[0]);
        }
    }
}
