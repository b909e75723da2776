//! Trees with their objects, kept between builds: `schedlab/builds` in the XDG cache folder.
//!
//! A slot has the sources of one base with some patches, and the objects compiled from them under one
//! configuration. A new slot begins as a copy of another: objects are copied, and sources are hard links to
//! the same files, which nothing writes to (`patch` and git replace files). Files that change after the copy
//! are newer than the copied objects, so `make` compiles only those.
//!
//! Objects name their sources by absolute paths. So a slot is moved to the same place, `.work`,
//! while it is used.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::super::config::Wanted;
use super::super::shelf::{Lock, Scratch, Shelf, remove_if_there, write_json};
use super::super::stamp::AppliedPatch;
use super::super::walk::files_below;
use super::super::{KernelError, digest};
use super::error::BuildError;
use super::make::OBJECTS;
use super::{run, space};
use crate::sys::input;

const SCHEMA: u32 = 1;
const RECORD: &str = "slot.json";
/// Made when the compiler starts, touched with each of its steps, removed when it has ended.
const COMPILING: &str = "compiling";
/// Margin before the last step: objects that are older than this are complete.
const STEP: Duration = Duration::from_secs(60);
const WORK: &str = ".work";
/// Each further slot takes some 200 MB, or 2 GB with another base.
const MAX_KEPT: usize = 8;

/// The sources and the configuration of a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    schema: u32,
    pub base: BaseRecord,
    pub patches: Vec<AppliedPatch>,
    /// All settings that were asked for.
    pub wanted: Vec<Wanted>,
    /// Whether an image was made of it.
    pub is_compiled: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaseRecord {
    /// `debian-source:6.12.117-1`, or the tree and its revision.
    pub name: String,
    /// The digest of the package with the sources, or git's id of the tree.
    pub digest: String,
    /// A newer base of the same origin replaces an older one.
    pub origin: BaseOrigin,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseOrigin {
    Package(String),
    Tree(PathBuf),
}

impl Record {
    pub fn new(base: BaseRecord, patches: Vec<AppliedPatch>, wanted: Vec<Wanted>) -> Record {
        Record { schema: SCHEMA, base, patches, wanted, is_compiled: false }
    }

    /// The name of its folder.
    fn key(&self) -> String {
        let wanted: String = self.wanted.iter().map(Wanted::line).collect();
        let patches = self.patches.iter().map(|patch| format!("patch {}\n", patch.digest));
        let patches: String = patches.collect();
        let text = format!("base {}\n{patches}{wanted}", self.base.digest);
        digest::of_bytes(text.as_bytes())[..20].to_string()
    }
}

/// All slots, locked.
pub struct Slots {
    shelf: Shelf,
    lock: Lock,
}

/// A slot in use; it goes back to its place when it is dropped.
pub struct Slot {
    pub record: Record,
    folder: PathBuf,
    place: PathBuf,
}

impl Slots {
    pub fn open(
        root: PathBuf,
        stop: &AtomicBool,
        waiting: &mut dyn FnMut(),
    ) -> Result<Slots, KernelError> {
        let shelf = Shelf::at(root);
        let lock = shelf.lock(stop, waiting)?;
        // A compiler that outlives a killed schedlab must not write below the next one.
        lock.share_with_children().map_err(KernelError::io("lock", shelf.folder()))?;
        let slots = Slots { shelf, lock };
        // A killed process leaves its slot in the working place.
        let work = slots.work();
        if work.exists() {
            match read(&work) {
                Some((record, _)) => {
                    slots.shelf.put(&work, &slots.place(&record), &slots.lock)?;
                }
                None => remove_if_there(&work)?,
            }
        }
        Ok(slots)
    }

    pub fn root(&self) -> &Path {
        self.shelf.folder()
    }

    fn work(&self) -> PathBuf {
        self.shelf.folder().join(WORK)
    }

    fn place(&self, record: &Record) -> PathBuf {
        self.shelf.folder().join(record.key())
    }

    /// The tree of a slot that is not in use.
    pub fn tree(&self, record: &Record) -> PathBuf {
        tree_of(&self.place(record))
    }

    /// All records; the most recently used comes first.
    pub fn records(&self) -> Result<Vec<Record>, KernelError> {
        Ok(self.by_use()?.into_iter().map(|(record, ..)| record).collect())
    }

    fn by_use(&self) -> Result<Vec<(Record, SystemTime, PathBuf)>, KernelError> {
        let folders = self.shelf.folders()?.into_iter();
        let mut all: Vec<_> = folders
            .filter_map(|folder| read(&folder).map(|(record, used)| (record, used, folder)))
            .collect();
        all.sort_by_key(|(_, used, _)| std::cmp::Reverse(*used));
        Ok(all)
    }

    pub fn has(&self, record: &Record) -> bool {
        read(&self.place(record)).is_some()
    }

    /// Moves the slot of this record to the place of work.
    pub fn take(&self, record: &Record) -> Result<Slot, KernelError> {
        let (place, folder) = (self.place(record), self.work());
        let found = read(&place).map(|(record, _)| record);
        fs::rename(&place, &folder).map_err(KernelError::io("rename", &place))?;
        let slot = Slot { record: found.unwrap_or_else(|| record.clone()), folder, place };
        slot.forget_unfinished()?;
        // The time of its last use.
        slot.write()?;
        Ok(slot)
    }

    /// A folder for a new slot, with an empty folder for its tree.
    pub fn scratch(&self) -> Result<Scratch, KernelError> {
        let scratch = self.shelf.scratch(&self.lock)?;
        let tree = tree_of(scratch.path());
        fs::create_dir(&tree).map_err(KernelError::io("make the folder", &tree))?;
        Ok(scratch)
    }

    /// Moves a filled folder to its place.
    pub fn put(&self, scratch: &Scratch, record: &Record) -> Result<(), KernelError> {
        write(scratch.path(), record)?;
        self.shelf.put(scratch.path(), &self.place(record), &self.lock)
    }

    pub fn remove(&self, record: &Record) -> Result<(), KernelError> {
        self.shelf.remove(&self.place(record), &self.lock)
    }

    /// Fills a new slot: sources are linked and objects are copied.
    pub fn copy(&self, from: &Record, into: &Scratch, stop: &AtomicBool) -> Result<(), BuildError> {
        let place = self.place(from);
        let (old, new) = (tree_of(&place), tree_of(into.path()));
        let cp = |options: &[&str], from: &[PathBuf], into: &Path| {
            let mut command = run::program("cp");
            command.args(options).args(from).arg(into);
            run::output(command, "copy the tree", stop).map(drop)
        };
        let entries = fs::read_dir(&old).map_err(KernelError::io("read", &old))?.flatten();
        let entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let (objects, sources): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|path| path.ends_with(OBJECTS));
        if !sources.is_empty() {
            cp(&["-al", "--"], &sources, &new)?;
        }
        if !objects.is_empty() {
            cp(&["-a", "--reflink=auto", "--"], &objects, &new)?;
        }
        let kept = [index_of(&place)].into_iter().chain([place.join(COMPILING)]);
        let kept: Vec<PathBuf> = kept.filter(|path| path.exists()).collect();
        if !kept.is_empty() {
            cp(&["-a", "--"], &kept, into.path())?;
        }
        Ok(())
    }

    /// Bytes that [`Slots::copy`] takes on the disk.
    pub fn copy_bytes(&self, from: &Record) -> u64 {
        let tree = self.tree(from);
        let objects = tree.join(OBJECTS);
        let folders = fs::read_dir(&tree).into_iter().flatten().flatten().map(|entry| entry.path());
        let sources = folders.filter(|path| *path != objects).map(|path| space::of_links(&path));
        sources.sum::<u64>() + space::of_copy(&objects)
    }

    /// Removes those that have not been used for the longest time.
    pub fn forget(&self) -> Result<(), KernelError> {
        let old = self.by_use()?.into_iter().skip(MAX_KEPT);
        old.map(|(.., folder)| folder).try_for_each(|folder| self.shelf.remove(&folder, &self.lock))
    }
}

/// The sources below a slot's folder.
pub fn tree_of(folder: &Path) -> PathBuf {
    folder.join("tree")
}

/// Git's index of the tree's files.
pub fn index_of(folder: &Path) -> PathBuf {
    folder.join("index")
}

fn read(folder: &Path) -> Option<(Record, SystemTime)> {
    let path = folder.join(RECORD);
    let record: Record = {
        let text = input::read_file(&path, input::MAX_OWN_FILE_BYTES).ok()?;
        serde_json::from_slice(&text).ok()?
    };
    (record.schema == SCHEMA).then_some((record, path.metadata().ok()?.modified().ok()?))
}

fn write(folder: &Path, record: &Record) -> Result<(), KernelError> {
    write_json(&folder.join(RECORD), record)
}

impl Slot {
    pub fn tree(&self) -> PathBuf {
        tree_of(&self.folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self) -> Result<(), KernelError> {
        write(&self.folder, &self.record)
    }

    /// Runs the compiler; `run` calls its argument with each step. If everything is killed, unfinished
    /// objects are compiled again.
    pub fn compiling<T>(
        &mut self,
        run: impl FnOnce(&dyn Fn()) -> Result<T, BuildError>,
    ) -> Result<T, BuildError> {
        let marker = self.folder.join(COMPILING);
        let file = fs::File::create(&marker).map_err(KernelError::io("write", &marker))?;
        // If this fails, the time stays older, and more than necessary is compiled again.
        let end = run(&|| drop(file.set_modified(SystemTime::now())));
        fs::remove_file(&marker).map_err(KernelError::io("remove", &marker))?;
        let made = end?;
        self.record.is_compiled = true;
        self.write()?;
        Ok(made)
    }

    /// Removes objects that a killed compiler may have left half written.
    fn forget_unfinished(&self) -> Result<(), KernelError> {
        let marker = self.folder.join(COMPILING);
        let Ok(last) = marker.metadata().and_then(|metadata| metadata.modified()) else {
            return Ok(());
        };
        remove_newer(&self.tree().join(OBJECTS), last.checked_sub(STEP).unwrap_or(last))?;
        fs::remove_file(&marker).map_err(KernelError::io("remove", &marker))
    }
}

fn remove_newer(folder: &Path, time: SystemTime) -> Result<(), KernelError> {
    for path in files_below(folder)? {
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|modified| modified >= time) {
            fs::remove_file(&path).map_err(KernelError::io("remove", &path))?;
        }
    }
    Ok(())
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The next process does what this one could not.
        let _ = fs::rename(&self.folder, &self.place);
    }
}

/// Sets the time of a file, for tests of what is newer.
#[cfg(test)]
fn set_time(path: &Path, time: SystemTime) {
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

#[cfg(test)]
mod tests {
    use super::super::super::shelf::NEVER;
    use super::*;

    fn record(name: &str, patches: &[&str]) -> Record {
        let base = BaseRecord {
            name: name.to_string(),
            digest: name.to_string(),
            origin: BaseOrigin::Package("6.12.1-1".to_string()),
        };
        let patch = |text: &&str| AppliedPatch { name: text.to_string(), digest: text.to_string() };
        Record::new(base, patches.iter().map(patch).collect(), Vec::new())
    }

    fn slots() -> (tempfile::TempDir, Slots) {
        let folder = tempfile::tempdir().unwrap();
        let slots = Slots::open(folder.path().join("builds"), &NEVER, &mut || ()).unwrap();
        (folder, slots)
    }

    fn make(slots: &Slots, record: &Record) {
        let scratch = slots.scratch().unwrap();
        let tree = tree_of(scratch.path());
        fs::create_dir_all(tree.join(OBJECTS).join("kernel")).unwrap();
        fs::write(tree.join("Makefile"), "all:\n").unwrap();
        fs::write(tree.join(OBJECTS).join("kernel/a.o"), "object").unwrap();
        slots.put(&scratch, record).unwrap();
    }

    #[test]
    fn what_counts_makes_another_slot() {
        let mut asked = record("a", &["1"]);
        asked.wanted.push(Wanted::parse("CONFIG_X=y").unwrap());
        let others = [
            record("a", &[]),
            record("a", &["1"]),
            record("a", &["1", "2"]),
            record("a", &["2", "1"]),
            record("b", &["1"]),
            asked,
        ];
        let keys: std::collections::BTreeSet<String> = others.iter().map(Record::key).collect();
        assert_eq!(keys.len(), others.len());
        let compiled = Record { is_compiled: true, ..record("a", &[]) };
        assert_eq!(compiled.key(), record("a", &[]).key());
    }

    #[test]
    fn a_slot_goes_back_when_it_was_used_and_after_a_kill() {
        let (_folder, slots) = slots();
        let one = record("a", &[]);
        make(&slots, &one);
        let mut slot = slots.take(&one).unwrap();
        assert!(!slots.has(&one) && slot.tree().join("Makefile").is_file());
        slot.compiling(|_| Ok(())).unwrap();
        drop(slot);
        assert!(slots.has(&one) && slots.records().unwrap()[0].is_compiled);

        let killed = slots.take(&one).unwrap();
        std::mem::forget(killed);
        let root = slots.root().to_path_buf();
        drop(slots);
        assert!(Slots::open(root, &NEVER, &mut || ()).unwrap().has(&one));
    }

    #[test]
    fn a_copy_shares_sources_and_not_objects() {
        let (_folder, slots) = slots();
        let (one, other) = (record("a", &[]), record("a", &["1"]));
        make(&slots, &one);
        let scratch = slots.scratch().unwrap();
        slots.copy(&one, &scratch, &NEVER).unwrap();
        slots.put(&scratch, &other).unwrap();
        let number = |record: &Record, name: &str| {
            let path = tree_of(&slots.place(record)).join(name);
            std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap())
        };
        assert_eq!(number(&one, "Makefile"), number(&other, "Makefile"));
        let object = "objects/kernel/a.o";
        assert_ne!(number(&one, object), number(&other, object));
    }

    #[test]
    fn objects_of_a_killed_compiler_are_made_again() {
        let (_folder, slots) = slots();
        let one = record("a", &[]);
        make(&slots, &one);
        let folder = slots.place(&one);
        let object = |name: &str| tree_of(&folder).join(OBJECTS).join("kernel").join(name);
        fs::write(object("b.o"), "half").unwrap();
        fs::write(folder.join(COMPILING), "").unwrap();
        let now = SystemTime::now();
        set_time(&object("a.o"), now - 2 * STEP);
        set_time(&folder.join(COMPILING), now);
        set_time(&object("b.o"), now - STEP / 2);
        drop(slots.take(&one).unwrap());
        assert!(object("a.o").exists() && !object("b.o").exists());
        assert!(!folder.join(COMPILING).exists());
        let mut slot = slots.take(&one).unwrap();
        let failed = slot.compiling(|_| Err::<(), _>(BuildError::Interrupted));
        assert!(failed.is_err() && !slot.path(COMPILING).exists(), "make has removed its own");

        // Each step proves progress: objects that were made long before the last step stay.
        let marker = slot.path(COMPILING);
        slot.compiling(|alive| {
            set_time(&marker, now - 2 * STEP);
            alive();
            assert!(marker.metadata().unwrap().modified().unwrap() >= now);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn slots_that_were_not_used_for_longest_are_removed() {
        let (_folder, slots) = slots();
        let records: Vec<Record> = (0..=MAX_KEPT).map(|at| record(&at.to_string(), &[])).collect();
        for (at, one) in records.iter().enumerate() {
            make(&slots, one);
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(at as u64);
            set_time(&slots.place(one).join(RECORD), time);
        }
        drop(slots.take(&records[0]).unwrap());
        slots.forget().unwrap();
        assert!(slots.has(&records[0]) && !slots.has(&records[1]) && slots.has(&records[2]));
    }
}
