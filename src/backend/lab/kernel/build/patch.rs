//! Unified diffs: the files and hunks of a patch. Pure.
//!
//! A patch that names a file outside of the tree, a link or a binary file is refused before it is used. Names
//! are checked in every line where `patch` looks for them.

use std::collections::BTreeSet;

use thiserror::Error;

use super::super::digest;
use crate::model::clean as plain;

/// One patch that can be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The name of its file, with its title if it is one of several.
    pub name: String,
    pub text: Vec<u8>,
    /// SHA-256 of the text, in hexadecimal.
    pub digest: String,
    pub files: Vec<PatchedFile>,
    /// All file names in it, unchanged.
    pub names: BTreeSet<String>,
    pub made_for: Option<MadeFor>,
}

/// The commit that a series was made on, as `git format-patch --base` writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeFor {
    pub commit: String,
    /// Patches between this commit and the first one of the series.
    pub prerequisites: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatchedFile {
    /// The name in its header, `None` for /dev/null.
    pub old: Option<String>,
    pub new: Option<String>,
    pub hunks: Vec<Hunk>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hunk {
    /// The line of its header in the patch, from 1.
    pub line: usize,
    pub text: String,
}

impl Hunk {
    /// Whether it has lines around what it changes, which say where that is.
    pub fn has_context(&self) -> bool {
        self.text.lines().skip(1).any(|line| !line.starts_with(['+', '-', '\\']))
    }
}

#[derive(Debug, PartialEq, Eq, Error)]
pub enum PatchFault {
    #[error("it names `{}`, which is outside of the tree", plain(.0))]
    Outside(String),
    #[error("it names `{}`; names with quotation marks or backslashes are not supported", plain(.0))]
    Quoted(String),
    #[error("it makes or changes the link `{}`", plain(.0))]
    Link(String),
    #[error("`{}` is a binary file, or the diff is of a merge", plain(.0))]
    Binary(String),
    #[error("the hunk in its line {0} ends too early: the text was cut or wrapped")]
    Truncated(usize),
    #[error("the hunk in its line {0} has more lines than it says")]
    TooLong(usize),
    #[error("it names `{}` and changes nothing in it: the text was cut", plain(.0))]
    NoHunk(String),
}

impl Patch {
    /// `Ok(None)` for a text without a diff.
    pub fn parse(name: &str, text: &[u8]) -> Result<Option<Patch>, PatchFault> {
        let Reader { files, names, .. } = Reader::default().read(&String::from_utf8_lossy(text))?;
        Ok((!files.is_empty()).then(|| Patch {
            name: name.to_string(),
            text: text.to_vec(),
            digest: digest::of_bytes(text),
            files,
            names,
            made_for: None,
        }))
    }

    /// Its hunks by file, regardless of the place of the patch in a mail.
    pub fn changes(&self) -> Vec<(Option<String>, Vec<String>)> {
        let hunks = |file: &PatchedFile| file.hunks.iter().map(|hunk| hunk.text.clone()).collect();
        self.files.iter().map(|file| (file.new.clone(), hunks(file))).collect()
    }
}

impl MadeFor {
    /// `None` if the text of a mail does not say it.
    pub fn read(text: &[u8]) -> Option<MadeFor> {
        let text = String::from_utf8_lossy(text);
        let is_id = |id: &&str| id.len() >= 7 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut ids = text.lines().filter_map(|line| line.strip_prefix("base-commit: "));
        let commit = ids.next().map(str::trim).filter(is_id)?.to_string();
        let prerequisites = text.lines().filter(|line| line.starts_with("prerequisite-patch-id: "));
        Some(MadeFor { commit, prerequisites: prerequisites.count() })
    }
}

#[derive(Default)]
struct Reader {
    files: Vec<PatchedFile>,
    /// The name in the last `---` line.
    old: Option<Option<String>>,
    /// The name in the last `diff --git` line, until a hunk or a rename gives another.
    named: String,
    names: BTreeSet<String>,
}

impl Reader {
    fn read(mut self, text: &str) -> Result<Reader, PatchFault> {
        let lines: Vec<&str> = text.lines().collect();
        let mut at = 0;
        while at < lines.len() {
            match counts(lines[at]).filter(|_| !self.files.is_empty() && self.old.is_none()) {
                Some(counts) => at = self.hunk(&lines, at, counts)?,
                None => {
                    let known = self.files.len();
                    self.header(lines[at])?;
                    at += 1;
                    let has_hunk = lines.get(at).is_some_and(|line| counts(line).is_some());
                    if lines[at - 1].starts_with("+++ ") && self.files.len() > known && !has_hunk {
                        return Err(PatchFault::NoHunk(lines[at - 1][4..].to_string()));
                    }
                }
            }
        }
        Ok(self)
    }

    /// Returns the line after the hunk.
    fn hunk(
        &mut self,
        lines: &[&str],
        at: usize,
        (mut old, mut new): (u64, u64),
    ) -> Result<usize, PatchFault> {
        let mut end = at + 1;
        while old > 0 || new > 0 {
            let line = lines.get(end).ok_or(PatchFault::Truncated(at + 1))?;
            let (less_old, less_new) = match line.as_bytes().first() {
                Some(b'+') => (0, 1),
                Some(b'-') => (1, 0),
                Some(b'\\') => (0, 0),
                // Mail programs cut the blank of an empty line.
                Some(b' ' | b'\t') | None => (1, 1),
                Some(_) => return Err(PatchFault::Truncated(at + 1)),
            };
            let counted = (old.checked_sub(less_old), new.checked_sub(less_new));
            let (Some(left_old), Some(left_new)) = counted else {
                return Err(PatchFault::Truncated(at + 1));
            };
            (old, new, end) = (left_old, left_new, end + 1);
        }
        // `patch` would skip these lines.
        let next = lines[end..].iter().find(|line| !line.starts_with(' '));
        let is_change = |line: &&&str| {
            line.starts_with('+') || line.starts_with('-') && !line.starts_with("--")
        };
        if next.filter(is_change).is_some() {
            return Err(PatchFault::TooLong(at + 1));
        }
        if let Some(file) = self.files.last_mut() {
            file.hunks.push(Hunk { line: at + 1, text: lines[at..end].join("\n") });
        }
        Ok(end)
    }

    fn header(&mut self, line: &str) -> Result<(), PatchFault> {
        if let Some(names) = line.strip_prefix("diff --git ") {
            self.named = names.to_string();
            names.split_whitespace().try_for_each(|name| self.inside(name).map(drop))?;
        } else if line == "GIT binary patch"
            || line.starts_with("Binary files ") && line.ends_with(" differ")
            || line.starts_with("diff --cc ")
        {
            return Err(PatchFault::Binary(self.named.clone()));
        } else if line.ends_with(" 120000")
            && ["index ", "new ", "old ", "deleted "].iter().any(|word| line.starts_with(word))
        {
            return Err(PatchFault::Link(self.named.clone()));
        } else if let Some(name) = line.strip_prefix("Index: ") {
            self.inside(name.trim())?;
        } else if let Some(name) = git_name(line).filter(|_| !self.named.is_empty()) {
            let old = Some(self.inside(name)?);
            if line.starts_with("rename from ") {
                self.files.push(PatchedFile { old, ..PatchedFile::default() });
            }
        } else if let Some(name) = line.strip_prefix("--- ") {
            self.old = Some(self.file_name(name)?);
        } else if let Some(name) = line.strip_prefix("+++ ")
            && let Some(old) = self.old.take()
        {
            let new = self.file_name(name)?;
            self.files.push(PatchedFile { old, new, hunks: Vec::new() });
        } else {
            // The `---` above a mail's diffstat.
            self.old = None;
        }
        Ok(())
    }

    /// The name in a header: what follows a tab is a date. `None` for /dev/null.
    fn file_name(&mut self, text: &str) -> Result<Option<String>, PatchFault> {
        match text.split('\t').next().unwrap_or("").trim() {
            "/dev/null" => Ok(None),
            name => self.inside(name).map(Some),
        }
    }

    fn inside(&mut self, name: &str) -> Result<String, PatchFault> {
        let name = name.to_string();
        if name.contains(['"', '\\']) {
            return Err(PatchFault::Quoted(name));
        }
        if name.starts_with('/') && name != "/dev/null" || name.split('/').any(|part| part == "..")
        {
            return Err(PatchFault::Outside(name));
        }
        self.names.insert(name.clone());
        Ok(name)
    }
}

/// The name in a git header line. Only valid below `diff --git`: a mail's text may begin with such words too.
fn git_name(line: &str) -> Option<&str> {
    ["rename from ", "rename to ", "copy from ", "copy to "]
        .iter()
        .find_map(|words| line.strip_prefix(words))
}

/// Numbers of lines of the old and the new text in `@@ -1,7 +1,9 @@`.
fn counts(line: &str) -> Option<(u64, u64)> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => range.parse::<u64>().ok().map(|_| 1),
    };
    Some((count(old)?, count(new)?))
}

#[cfg(test)]
pub mod testing {
    /// A diff of one file that turns one line into another.
    pub fn diff(path: &str, from: &str, to: &str) -> String {
        format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{from}\n+{to}\n")
    }

    /// A mail of an mbox; `more` are headers.
    pub fn message(subject: &str, more: &str, body: &str) -> String {
        format!(
            "From mboxrd@z Thu Jan  1 00:00:00 1970\nFrom: A <a@example.org>\nSubject: {subject}\n\
             {more}\n{body}\n\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::testing::diff;
    use super::*;

    fn parse(text: &str) -> Result<Option<Patch>, PatchFault> {
        Patch::parse("x", text.as_bytes())
    }

    #[test]
    fn files_and_hunks_are_found() {
        let text = "A title\n---\n kernel/a.c | 3 +--\n\ndiff --git a/kernel/a.c b/kernel/a.c\n\
                    --- a/kernel/a.c\t2026-01-01\n+++ b/kernel/a.c\n@@ -1,3 +1,2 @@ int x\n one\n\n\
                    -three\n@@ -10 +9 @@\n-@@ -1 +1 @@\n+--- a/../b\n\\ No newline\n\
                    --- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+x\n-- \n2.39\n";
        let patch = parse(text).unwrap().unwrap();
        assert_eq!(patch.files.len(), 2);
        let first = &patch.files[0];
        assert_eq!(
            (first.old.as_deref(), first.new.as_deref()),
            (Some("a/kernel/a.c"), Some("b/kernel/a.c"))
        );
        assert_eq!(first.hunks.iter().map(|hunk| hunk.line).collect::<Vec<_>>(), [8, 12]);
        assert_eq!(first.hunks[1].text, "@@ -10 +9 @@\n-@@ -1 +1 @@\n+--- a/../b");
        assert_eq!((patch.files[1].old.as_deref(), patch.files[1].hunks.len()), (None, 1));
        assert_eq!(parse("no diff\n---\n+++ at all\n").map(|patch| patch.is_none()), Ok(true));
        assert_eq!(parse("A cover letter\n\n--- \n").unwrap(), None);
        let named: Vec<&str> = patch.names.iter().map(String::as_str).collect();
        assert_eq!(named, ["a/kernel/a.c", "b/kernel/a.c", "b/new.c"]);
        for more in
            ["-- \n2.39\n", "--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", " words\n", "\n- A\n"]
        {
            assert!(parse(&(diff("x", "a", "b") + more)).is_ok(), "{more}");
        }
    }

    #[test]
    fn what_could_leave_the_tree_is_refused() {
        let cases = [
            (diff("../x", "a", "b"), PatchFault::Outside("a/../x".to_string())),
            (
                "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n".to_string(),
                PatchFault::Outside("/etc/passwd".to_string()),
            ),
            (
                "diff --git a/a b/b\nrename from a\nrename to ../../b\n".to_string(),
                PatchFault::Outside("../../b".to_string()),
            ),
            ("diff --git a/x b/../x\n".to_string(), PatchFault::Outside("b/../x".to_string())),
            (
                "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n".to_string(),
                PatchFault::Link("a/x b/x".to_string()),
            ),
            (
                "diff --git a/a b/b\ncopy from /etc/shadow\ncopy to b\n".to_string(),
                PatchFault::Outside("/etc/shadow".to_string()),
            ),
            (
                diff("x", "a", "b") + "Index: ../../y\n@@ -1 +1 @@\n-a\n+b\n",
                PatchFault::Outside("../../y".to_string()),
            ),
            (
                diff("x", "a", "b").replace("a/x", "\"a/\\056\\056/x\""),
                PatchFault::Quoted("\"a/\\056\\056/x\"".to_string()),
            ),
            (
                "diff --git a/x b/x\nindex 01..02 120000\n--- a/x\n+++ b/x\n".to_string(),
                PatchFault::Link("a/x b/x".to_string()),
            ),
            (
                "diff --git a/x b/x\nGIT binary patch\n".to_string(),
                PatchFault::Binary("a/x b/x".to_string()),
            ),
            ("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n".to_string(), PatchFault::Truncated(3)),
            (
                "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\nwrapped\n".to_string(),
                PatchFault::Truncated(3),
            ),
            (
                "--- a/x\n+++ b/x\n@@ -1,1 +1,2 @@\n one\n-two\n".to_string(),
                PatchFault::Truncated(3),
            ),
            ("--- a/x\n+++ b/x\n".to_string(), PatchFault::NoHunk("b/x".to_string())),
            (
                format!("--- a/y\n+++ b/y\n\n{}", diff("x", "a", "b")),
                PatchFault::NoHunk("b/y".to_string()),
            ),
            (diff("x", "a", "b") + "+c\n", PatchFault::TooLong(3)),
            (diff("x", "a", "b") + " d\n-e\n", PatchFault::TooLong(3)),
        ];
        for (text, fault) in cases {
            assert_eq!(parse(&text).unwrap_err(), fault, "{text}");
        }
    }

    #[test]
    fn a_digest_is_of_the_text() {
        let digest = |to: &str| parse(&diff("x", "a", to)).unwrap().unwrap().digest;
        assert_eq!(digest("b"), digest("b"));
        assert_ne!(digest("b"), digest("c"));
    }
}
