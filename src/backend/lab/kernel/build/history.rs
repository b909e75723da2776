//! The commits of a user's repository between a good and a bad one: finds the one that `git bisect` would
//! check out next. The repository is only read.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::run;
use super::tree;

/// A commit, as a message may name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    /// The first line of its message.
    pub title: String,
}

/// The commits between the good ones and the bad one that may be to blame.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// The bad one among them.
    pub commits: usize,
    /// The next commit to test: the one that halves the rest best and is not skipped.
    pub next: Option<String>,
}

/// The commit of a revision.
pub fn commit(folder: &Path, revision: &str, stop: &AtomicBool) -> Result<Commit, BuildError> {
    let mut git = git(folder);
    git.args(["log", "-1", "--no-show-signature", "--format=%H %s", "--end-of-options", revision]);
    let mut found = None;
    let status = run::status(git, "read the revision", stop, &mut |line| {
        found = found.take().or_else(|| line.split_once(' ').map(of_line));
    })?;
    found.filter(|_| status.success()).ok_or_else(|| tree::no_revision(folder, revision))
}

fn of_line((id, title): (&str, &str)) -> Commit {
    Commit { id: id.to_string(), title: title.to_string() }
}

/// Finds the commits that may be to blame. All commits are given by their ids.
pub fn left(
    folder: &Path,
    good: &[String],
    bad: &str,
    skipped: &[String],
    stop: &AtomicBool,
) -> Result<Left, BuildError> {
    let mut git = git(folder);
    git.args(["rev-list", "--bisect-all", bad, "--not"]).args(good);
    let text = run::output(git, "read the history", stop)?;
    let ids: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    let is_open = |id: &&&str| **id != bad && !skipped.iter().any(|skipped| skipped == **id);
    let next = ids.iter().find(is_open).map(|id| id.to_string());
    Ok(Left { commits: ids.len(), next })
}

fn git(folder: &Path) -> Command {
    let mut git = run::program("git");
    git.arg("-C").arg(folder).env("GIT_OPTIONAL_LOCKS", "0");
    git
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_git(folder: &Path, words: &[&str]) -> String {
        let mut git = git(folder);
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(words);
        run::output(git, "test", &AtomicBool::new(false)).unwrap()
    }

    /// A repository with `commits` commits, titled by their numbers, and their ids.
    fn repository(commits: usize) -> (tempfile::TempDir, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        run_git(folder.path(), &["init", "--quiet"]);
        let ids = (0..commits).map(|number| {
            let title = format!("commit {number}");
            run_git(folder.path(), &["commit", "--quiet", "--allow-empty", "-m", &title]);
            run_git(folder.path(), &["rev-parse", "HEAD"]).trim().to_string()
        });
        let ids = ids.collect();
        (folder, ids)
    }

    #[test]
    fn halving_ends_with_each_first_bad_commit() {
        let (folder, ids) = repository(10);
        let stop = AtomicBool::new(false);
        for first_bad in 1..ids.len() {
            let (mut good, mut bad) = (vec![ids[0].clone()], ids[9].clone());
            let mut steps = 0;
            let last = loop {
                let left = left(folder.path(), &good, &bad, &[], &stop).unwrap();
                let Some(next) = left.next else { break left.commits };
                let at = ids.iter().position(|id| *id == next).unwrap();
                if at >= first_bad {
                    bad = next
                } else {
                    good.push(next)
                }
                steps += 1;
            };
            assert_eq!((last, &bad), (1, &ids[first_bad]));
            assert!(steps <= 4, "{steps}");
        }
    }

    #[test]
    fn what_is_skipped_is_not_next_and_stays_left() {
        let (folder, ids) = repository(4);
        let stop = AtomicBool::new(false);
        let of = |skipped: &[String]| left(folder.path(), &ids[..1], &ids[3], skipped, &stop);
        assert_eq!(of(&ids[1..2]).unwrap(), Left { commits: 3, next: Some(ids[2].clone()) });
        assert_eq!(of(&ids[1..3]).unwrap(), Left { commits: 3, next: None });
    }

    #[test]
    fn a_revision_has_an_id_and_a_title_or_is_not_there() {
        let (folder, ids) = repository(2);
        let stop = AtomicBool::new(false);
        let found = commit(folder.path(), "HEAD", &stop).unwrap();
        assert_eq!(found, Commit { id: ids[1].clone(), title: "commit 1".to_string() });
        for wrong in ["v9.9", "--all", ""] {
            let error = commit(folder.path(), wrong, &stop).unwrap_err();
            assert!(matches!(error, BuildError::NoRevision { .. }), "{wrong}: {error}");
        }
        let plain = tempfile::tempdir().unwrap();
        let error = commit(plain.path(), "HEAD", &stop).unwrap_err();
        assert!(matches!(error, BuildError::NoRepository { .. }), "{error}");
    }
}
