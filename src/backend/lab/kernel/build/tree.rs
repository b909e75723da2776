//! A user's tree, which is only read. Git compares it with a slot and writes the files that differ, with our
//! own index and objects.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::super::KernelError;
use super::super::digest;
use super::error::BuildError;
use super::slots::{index_of, tree_of};
use super::{run, space};
use crate::model::clean as plain;

/// The folder, below that of builds, for objects of a tree that its repository lacks.
const STORE: &str = ".store";
/// Settings of git: files that another schedlab linked or copied count as unchanged, and none of the user's
/// hooks run.
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

/// Files that every tree of Linux has.
const FILES: [&str; 2] = ["Makefile", "Kconfig"];

/// The current files of a tree, or those of a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub folder: PathBuf,
    /// `linux@1a2b3c4d5e6f`, `+changes` for files that are in no commit.
    pub name: String,
    /// Git's id of the tree with all files.
    pub id: String,
    /// Files that differ from the commit.
    pub changed: usize,
    repository: Repository,
}

#[derive(Clone, Debug, PartialEq)]
struct Repository {
    folder: PathBuf,
    /// The objects of the user's repository.
    objects: Option<PathBuf>,
    store: PathBuf,
}

impl Tree {
    /// `room` checks the space for objects that are written to our store.
    pub fn read(
        folder: &Path,
        revision: Option<&str>,
        root: &Path,
        room: &dyn Fn(u64) -> Result<(), BuildError>,
        stop: &AtomicBool,
    ) -> Result<Tree, BuildError> {
        let full = folder.canonicalize().map_err(KernelError::io("read", folder));
        let full = full.map_err(KernelError::given)?;
        if revision.is_none()
            && let Some(file) = FILES.iter().find(|name| !full.join(name).is_file())
        {
            return Err(BuildError::NoTree { folder: full, file });
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
                return Err(no_revision(&full, revision));
            };
            let id = repository.tree_of(&commit, stop)?;
            if let Some(file) = repository.missing(&commit, stop)? {
                let folder = PathBuf::from(format!("{}@{revision}", full.display()));
                return Err(BuildError::NoTree { folder, file });
            }
            let name = plain(&format!("{base}@{}", part(&commit)));
            return Ok(Tree { folder: full, name, id, changed: 0, repository });
        }
        let id = repository.working_tree(&full, room, stop)?;
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

    /// Bytes that its files take on a disk.
    pub fn bytes(&self, stop: &AtomicBool) -> Result<u64, BuildError> {
        let mut git = self.repository.git();
        git.args(["ls-tree", "-r", "-l", "--full-tree", &self.id]);
        let text = run::output(git, "read the tree", stop)?;
        // Mode, kind, name, size.
        let sizes = text.lines().filter_map(|line| line.split_whitespace().nth(3)?.parse().ok());
        Ok(sizes.map(space::on_disk).sum())
    }

    /// Whether this commit of its repository has the same files.
    pub fn is_commit(&self, commit: &str, stop: &AtomicBool) -> Result<bool, BuildError> {
        let found = match &self.repository.objects {
            Some(_) => self.repository.commit(commit, stop)?,
            None => None,
        };
        let id = found.map(|commit| self.repository.tree_of(&commit, stop)).transpose()?;
        Ok(id.as_deref() == Some(&*self.id))
    }

    /// Writes its files of these names into an empty folder, and makes those that are folders.
    pub fn extract(
        &self,
        names: &BTreeSet<&str>,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), BuildError> {
        let mut git = self.repository.git();
        git.args(["ls-tree", "--full-tree", &self.id, "--"]).args(names);
        let mut files = Vec::new();
        // Mode, kind, id and, after a tab, the name.
        for line in run::output(git, "read the tree", stop)?.lines() {
            let Some((facts, name)) = line.split_once('\t') else { continue };
            match facts.split(' ').nth(1) {
                Some("tree") => {
                    let folder = into.join(name);
                    fs::create_dir_all(&folder)
                        .map_err(KernelError::io("make the folder", &folder))?;
                }
                _ => files.push(name.to_string()),
            }
        }
        for words in [vec!["read-tree", &self.id], vec!["checkout-index", "--force", "--"]] {
            let mut git = self.repository.git();
            git.env("GIT_WORK_TREE", into).env("GIT_INDEX_FILE", into.with_extension("index"));
            git.args(&words).current_dir(into);
            if words[0] == "checkout-index" {
                git.args(&files);
            }
            run::output(git, "read the tree", stop)?;
        }
        Ok(())
    }

    /// Writes this tree into a slot; equal files are not touched.
    pub fn write(&self, slot: &Path, stop: &AtomicBool) -> Result<(), BuildError> {
        let mut git = self.repository.git();
        git.env("GIT_WORK_TREE", tree_of(slot)).env("GIT_INDEX_FILE", index_of(slot));
        git.args(["read-tree", "-u", "--reset", &self.id]).current_dir(tree_of(slot));
        run::output(git, "write the tree", stop).map(drop)
    }
}

/// Whether this is the top folder of a repository, or a bare one.
fn is_repository(folder: &Path) -> bool {
    let is_bare = folder.join("HEAD").is_file() && folder.join("objects").is_dir();
    is_bare || folder.join(".git").exists()
}

/// Why a folder has no such revision.
pub fn no_revision(folder: &Path, revision: &str) -> BuildError {
    let (has_any, folder) = (is_repository(folder), folder.to_path_buf());
    let revision = revision.to_string();
    if has_any {
        BuildError::NoRevision { folder, revision }
    } else {
        BuildError::NoRepository { folder, revision }
    }
}

/// The repository whose top folder this is, or that this folder is, with its objects.
fn own_repository(
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Option<(PathBuf, PathBuf)>, BuildError> {
    if !is_repository(folder) {
        return Ok(None);
    }
    let ask = |question: &[&str]| {
        let mut git = run::program("git");
        git.arg("-C").arg(folder).args(["rev-parse", "--path-format=absolute"]).args(question);
        match run::output(git, "read the repository", stop) {
            Err(BuildError::Program { why, .. }) if why.contains("dubious ownership") => {
                Err(BuildError::Foreign { folder: folder.to_path_buf() })
            }
            text => Ok(PathBuf::from(text?.trim_end())),
        }
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

    /// The id of a commit; `None` if it does not exist.
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

    /// The first file of [`FILES`] that a commit lacks.
    fn missing(&self, commit: &str, stop: &AtomicBool) -> Result<Option<&'static str>, BuildError> {
        let mut git = self.git();
        git.args(["ls-tree", "--name-only", commit, "--"]).args(FILES);
        let text = run::output(git, "read the revision", stop)?;
        Ok(FILES.iter().copied().find(|name| !text.lines().any(|line| line == *name)))
    }

    /// The tree of all files that git does not ignore, written to our store.
    fn working_tree(
        &self,
        folder: &Path,
        room: &dyn Fn(u64) -> Result<(), BuildError>,
        stop: &AtomicBool,
    ) -> Result<String, BuildError> {
        let of = digest::of_bytes(folder.as_os_str().as_encoded_bytes());
        // An index needs the objects that it names. A repository's objects may exist only there, and the
        // folder may cease to be a repository, so each kind has its own index.
        let kind = if self.objects.is_some() { "repository" } else { "folder" };
        let index = self.store.join(format!("index-{kind}-{}", &of[..20]));
        let own = self.folder.join("index");
        // With a copy of the user's index, git reads only files that have changed since.
        if self.objects.is_some() {
            if own.is_file() {
                copy_with_time(&own, &index).map_err(KernelError::io("copy", &own))?;
            } else if index.is_file() {
                fs::remove_file(&index).map_err(KernelError::io("remove", &index))?;
            }
        }
        let git = |words: &[&str]| {
            let mut git = self.git();
            git.env("GIT_WORK_TREE", folder).env("GIT_INDEX_FILE", &index);
            git.args(words).current_dir(folder);
            run::output(git, "read the tree", stop)
        };
        if !index.is_file() {
            let names = git(&["ls-files", "--others", "--exclude-standard"])?;
            room(names.lines().map(|name| space::of_file(&folder.join(name))).sum())?;
        }
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

/// Git takes the time of an index into account: a file that was changed in the same second may
/// have changed after it.
fn copy_with_time(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(from.metadata()?.modified()?)
}
