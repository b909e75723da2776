//! A user's tree, which is only read. Git compares it with what a slot has and writes the files
//! that differ, with an index and objects of our own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::super::digest;
use super::super::{KernelError, plain};
use super::error::BuildError;
use super::run;
use super::slots::{index_of, tree_of};

/// Below the folder of builds: what a tree has and its repository has not.
const STORE: &str = ".store";
/// Files that another schedlab linked and copied are the same to git; nothing of the user's runs.
const SETTINGS: &[&str] = &[
    "core.trustctime=false",
    "core.checkStat=minimal",
    "core.sparseCheckout=false",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.hooksPath=/dev/null",
    "core.compression=0",
    "gc.auto=0",
];

/// A tree as it is now, or as it was in a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub folder: PathBuf,
    /// `linux@1a2b3c4d5e6f`, `+changes` for files that are in no commit.
    pub name: String,
    /// Git's own, of all files.
    pub id: String,
    /// Files that differ from the commit.
    pub changed: usize,
    repository: Repository,
}

#[derive(Clone, Debug, PartialEq)]
struct Repository {
    folder: PathBuf,
    /// Of the user's own repository.
    objects: Option<PathBuf>,
    store: PathBuf,
}

impl Tree {
    pub fn read(
        folder: &Path,
        revision: Option<&str>,
        root: &Path,
        stop: &AtomicBool,
    ) -> Result<Tree, BuildError> {
        let full = folder.canonicalize().map_err(KernelError::io("read", folder))?;
        if let Some(file) =
            ["Makefile", "Kconfig"].into_iter().find(|name| !full.join(name).is_file())
        {
            // A bare revision may still have it.
            if revision.is_none() {
                return Err(BuildError::NoTree { folder: full, file });
            }
        }
        let store = root.join(STORE);
        if !store.join("HEAD").is_file() {
            let mut init = run::program("git");
            init.args(["init", "--quiet", "--bare"]).arg(&store);
            run::output(init, "make a folder for git", stop)?;
        }
        let own = own_repository(&full, stop)?;
        let base = full.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let part = |id: &str| id.get(..12).unwrap_or(id).to_string();
        let (repository, head) = match own {
            Some((folder, objects)) => {
                let repository = Repository { folder, objects: Some(objects), store };
                let head = repository.commit(revision.unwrap_or("HEAD"), stop)?;
                (repository, head)
            }
            None => (Repository { folder: store.clone(), objects: None, store }, None),
        };
        if let Some(revision) = revision {
            let Some(commit) = head else {
                let revision = revision.to_string();
                return Err(BuildError::NoRevision { folder: full, revision });
            };
            let id = repository.tree_of(&commit, stop)?;
            let name = format!("{base}@{}", part(&commit));
            return Ok(Tree { folder: full, name, id, changed: 0, repository });
        }
        let id = repository.working_tree(&full, stop)?;
        let (name, changed) = match head {
            None => (format!("{base}@{}", part(&id)), 0),
            Some(commit) => {
                let changed = repository.changed(&commit, &id, stop)?;
                let more = if changed > 0 { "+changes" } else { "" };
                (format!("{base}@{}{more}", part(&commit)), changed)
            }
        };
        Ok(Tree { folder: full, name: plain(&name), id, changed, repository })
    }

    /// Makes the tree of a slot this one; files that are the same stay as they are.
    pub fn write(&self, slot: &Path, stop: &AtomicBool) -> Result<(), BuildError> {
        let mut git = self.repository.git();
        git.env("GIT_WORK_TREE", tree_of(slot)).env("GIT_INDEX_FILE", index_of(slot));
        git.args(["read-tree", "-u", "--reset", &self.id]).current_dir(tree_of(slot));
        run::output(git, "write the tree", stop).map(drop)
    }
}

/// The repository whose top folder this is, with its objects.
fn own_repository(
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Option<(PathBuf, PathBuf)>, BuildError> {
    if !folder.join(".git").exists() {
        return Ok(None);
    }
    let ask = |question: &[&str]| {
        let mut git = run::program("git");
        git.arg("-C").arg(folder).args(["rev-parse", "--path-format=absolute"]).args(question);
        let text = run::output(git, "read the repository", stop)?;
        Ok::<PathBuf, BuildError>(PathBuf::from(text.trim_end()))
    };
    Ok(Some((ask(&["--absolute-git-dir"])?, ask(&["--git-path", "objects"])?)))
}

impl Repository {
    fn git(&self) -> Command {
        let mut git = run::program("git");
        for setting in SETTINGS {
            git.args(["-c", setting]);
        }
        git.env("GIT_DIR", &self.folder).env("GIT_OPTIONAL_LOCKS", "0");
        if let Some(objects) = &self.objects {
            git.env("GIT_OBJECT_DIRECTORY", self.store.join("objects"));
            git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects);
        }
        git
    }

    /// `None` if there is no such commit.
    fn commit(&self, revision: &str, stop: &AtomicBool) -> Result<Option<String>, BuildError> {
        let mut git = self.git();
        git.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
        git.arg(format!("{revision}^{{commit}}"));
        let mut found = None;
        let status = run::status(git, "read the revision", stop, &mut |line| {
            found = Some(line.to_string());
        })?;
        Ok(found.filter(|_| status.success()))
    }

    fn tree_of(&self, commit: &str, stop: &AtomicBool) -> Result<String, BuildError> {
        let mut git = self.git();
        git.args(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]);
        Ok(run::output(git, "read the revision", stop)?.trim().to_string())
    }

    /// The tree of all files that git does not ignore, written to our store.
    fn working_tree(&self, folder: &Path, stop: &AtomicBool) -> Result<String, BuildError> {
        let of = digest::of_bytes(folder.as_os_str().as_encoded_bytes());
        let index = self.store.join(format!("index-{}", &of[..20]));
        let own = self.folder.join("index");
        // With the user's index git reads only files that changed since.
        if self.objects.is_some() && own.is_file() {
            std::fs::copy(&own, &index).map_err(KernelError::io("copy", &own))?;
        }
        let git = |words: &[&str]| {
            let mut git = self.git();
            git.env("GIT_WORK_TREE", folder).env("GIT_INDEX_FILE", &index);
            git.args(words).current_dir(folder);
            run::output(git, "read the tree", stop)
        };
        git(&["add", "--all"])?;
        let text = git(&["write-tree"])?;
        Ok(text.trim().to_string())
    }

    fn changed(&self, commit: &str, id: &str, stop: &AtomicBool) -> Result<usize, BuildError> {
        let mut git = self.git();
        git.args(["diff-tree", "-r", "--name-only", commit, id]);
        Ok(run::output(git, "compare the tree", stop)?.lines().count())
    }
}
