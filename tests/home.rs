//! A home of its own for the program under test: its files, and calls of the program in it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{schedlab, stderr, stdout};

pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    /// With this text as `plan.toml`.
    pub fn with_plan(text: impl AsRef<[u8]>) -> Home {
        let home = Home::new();
        home.write("plan.toml", text);
        home
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        std::fs::write(self.at(name), text).unwrap();
    }

    pub fn read(&self, name: impl AsRef<Path>) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    pub fn command(&self, words: impl Words) -> Command {
        let words = words.list();
        schedlab(self.path(), &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The program without privileges: root drops them, with a copy that everybody can read.
    pub fn unprivileged(&self) -> Command {
        // A copy by this process itself could be open for writing when another thread forks.
        let copied = Command::new("/bin/sh")
            .args(["-c", "cp -f \"$1\" \"$2/schedlab\" && chmod -R 777 \"$2\"", "sh"])
            .args([env!("CARGO_BIN_EXE_schedlab").as_ref(), self.path()])
            .status();
        assert!(copied.unwrap().success());
        let mut command = Command::new("env");
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.arg(self.at("schedlab")).env("HOME", self.path()).current_dir(self.path());
        command
    }

    pub fn call(&self, words: impl Words) -> Output {
        self.command(words).output().unwrap()
    }

    /// The output of a command that has to end with this code.
    pub fn ends(&self, code: i32, words: impl Words) -> Output {
        let words = words.list();
        let output = self.call(&words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        output
    }

    /// The standard output of a command that has to succeed.
    pub fn ok(&self, words: impl Words) -> String {
        stdout(&self.ends(0, words))
    }

    /// The messages of a command that has to end with this code.
    pub fn says(&self, code: i32, words: impl Words) -> String {
        stderr(&self.ends(code, words))
    }

    /// Both streams of a command that has to end with this code, or with any.
    pub fn both(&self, code: impl Into<Option<i32>>, words: impl Words) -> String {
        let output = match code.into() {
            Some(code) => self.ends(code, words),
            None => self.call(words),
        };
        stdout(&output) + &stderr(&output)
    }

    /// The document that a command prints, which ends well.
    pub fn json(&self, words: impl Words) -> Value {
        serde_json::from_str(&self.ok(words)).unwrap()
    }

    /// The document in a file.
    pub fn document(&self, name: impl AsRef<Path>) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// The ids of the stored plans as `schedlab list runs` shows them, the newest first.
    pub fn listed(&self) -> Vec<String> {
        let list = self.ok("list runs");
        let ids = list.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        ids.map(str::to_string).collect()
    }

    /// The events of `schedlab export` with these words behind it.
    pub fn events(&self, of: &str) -> Vec<Value> {
        let export = self.ok(format!("export {of}"));
        export.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The words of a command line: a list, or a text as it is typed, without quotes.
pub trait Words {
    fn list(self) -> Vec<String>;
}

impl Words for &str {
    fn list(self) -> Vec<String> {
        self.split_whitespace().map(str::to_string).collect()
    }
}

impl Words for String {
    fn list(self) -> Vec<String> {
        self.as_str().list()
    }
}

impl<W: AsRef<str>> Words for &[W] {
    fn list(self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().to_string()).collect()
    }
}

impl<W: AsRef<str>, const N: usize> Words for &[W; N] {
    fn list(self) -> Vec<String> {
        self[..].list()
    }
}

impl<W: AsRef<str>> Words for &Vec<W> {
    fn list(self) -> Vec<String> {
        self[..].list()
    }
}
