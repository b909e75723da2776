//! Machines that have booted, and those that have also loaded a plan's probes: they outlive this process, so that a
//! second plan does neither.
//!
//! A file has the name of its machine's digest, which is one of all that its state depends on. A file that is cut off,
//! has changed or is another machine's counts as missing and is removed. Together they have a limit, which counts no
//! holes: whichever was used longest ago goes first.

mod format;
mod watch;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use format::{MachineSummary, Quiet};
pub use watch::Watch;

use super::error::LabError;
use super::results::{by_age, not_kept, remove_if_there};
use crate::backend::NotSaved;
use crate::model::{show_bytes, size_bytes};
use crate::sys::replace::{self, NewFile};
use crate::sys::{self, input, remedy};

/// All saved machines of a user, unless [`LIMIT`] says otherwise. A machine of 512 MiB takes some 110 MiB.
const MAX_BYTES: u64 = 4 << 30;
/// The variable with another limit: `SCHEDLAB_MACHINES=4GiB`. With 0 none is kept.
pub const LIMIT: &str = "SCHEDLAB_MACHINES";

/// In the cache folder.
const FOLDER: &str = "machines";

/// A file of a saved machine.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedMachine {
    pub digest: String,
    pub bytes: u64,
    /// When it was saved or copied last.
    pub used_at: SystemTime,
    /// `None`: the file is damaged, or in the format of another schedlab.
    pub summary: Option<MachineSummary>,
}

/// The saved machines of one user, in a folder that is made when there is one.
pub struct SavedMachines {
    folder: PathBuf,
    max_bytes: u64,
}

/// A machine that is larger than all of them together may be.
#[derive(Debug, thiserror::Error)]
#[error("it has {}, all machines together at most {}", mebibytes(*bytes), mebibytes(*max))]
struct TooLarge {
    bytes: u64,
    max: u64,
}

/// `54.9 MiB`.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The user's limit, where [`LIMIT`] has one.
fn max_bytes(set: Option<OsString>) -> Result<u64, LabError> {
    match set.filter(|text| !text.is_empty()) {
        Some(text) if text == "0" => Ok(0),
        Some(text) => size_bytes(&text.to_string_lossy())
            .map_err(|why| LabError::MachineLimit { variable: LIMIT, why }),
        None => Ok(MAX_BYTES),
    }
}

impl SavedMachines {
    pub fn new(cache: &Path) -> Result<SavedMachines, LabError> {
        let max_bytes = max_bytes(std::env::var_os(LIMIT))?;
        Ok(SavedMachines { folder: cache.join(FOLDER), max_bytes })
    }

    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Why [`SavedMachines::put`] failed, with the way out.
    pub fn not_kept(&self, error: &io::Error) -> NotSaved {
        let too_large = error.get_ref().and_then(|error| error.downcast_ref());
        let remedy = too_large.map(|TooLarge { bytes, .. }| {
            // A plan keeps two of each kernel, and the one with probes is a little larger.
            let enough = show_bytes((2 * bytes).next_power_of_two());
            format!("{LIMIT}={enough} or more in the environment, or 0 to keep none")
        });
        NotSaved::NotKept(not_kept(&self.folder, error, remedy))
    }

    /// The one that was used last comes first.
    pub fn list(&self) -> io::Result<Vec<SavedMachine>> {
        let files = match self.files() {
            Err(error) if sys::is_absent(&self.folder, &error) => return Ok(Vec::new()),
            files => files?,
        };
        let machine = |(used_at, path): (SystemTime, PathBuf)| {
            let digest = path.file_name()?.to_str()?.to_string();
            let bytes = bytes_without_holes(&path);
            let file = input::open_file(&path, u64::MAX);
            let summary = file.and_then(|file| format::read_head(&file));
            let summary = summary.ok().map(|(summary, _)| summary);
            Some(SavedMachine { digest, bytes, used_at, summary })
        };
        Ok(files.into_iter().rev().filter_map(machine).collect())
    }

    pub fn remove(&self, machine: &SavedMachine) -> io::Result<()> {
        remove_if_there(&self.folder.join(&machine.digest))
    }

    /// Writes the state of the machine with this digest to `state`, and returns the file that begins with its memory;
    /// `None` where none is saved. The error says why one cannot be taken; if it is damaged, it is removed.
    pub fn get(
        &self,
        digest: &str,
        state: &Path,
    ) -> Result<Option<(Quiet, File, Watch)>, NotSaved> {
        let path = self.folder.join(digest);
        let mut state_failed = false;
        let mut read = || {
            let file = input::open_file(&path, u64::MAX)?;
            // The machine that was used last stays longest; without the mark the order is that of writing.
            _ = file.set_modified(SystemTime::now());
            // Whoever writes to it from here on changes its time.
            let stamp = watch::stamp(&file)?;
            let out = File::create_new(state).inspect_err(|_| state_failed = true)?;
            let mut out = ToState { out, failed: &mut state_failed };
            let quiet = format::read(&file, digest, &mut out)?;
            Ok((quiet, file, stamp))
        };
        match read() {
            Ok((quiet, file, stamp)) => {
                // It may have been saved under a larger limit. Nobody needs the room at once.
                _ = self.make_room(&path, bytes_without_holes(&path));
                let watch = Watch::new(path, digest, stamp);
                Ok(Some((quiet, file, watch)))
            }
            Err(error) if state_failed => {
                let remedy = remedy::write(state, &error);
                Err(NotSaved::Unreadable(format!("{}: {error}; hint: {remedy}", state.display())))
            }
            Err(error) if sys::is_absent(&path, &error) => Ok(None),
            Err(error) if is_damage(&error) => {
                _ = fs::remove_file(&path);
                Err(NotSaved::Damaged(path))
            }
            Err(error) => {
                let remedy = remedy::read(&path, &error);
                Err(NotSaved::Unreadable(format!("{}: {error}; hint: {remedy}", path.display())))
            }
        }
    }

    /// Saves a machine whole, or not at all. Of two that save one machine at once either stays: copies of both do the same.
    pub fn put(
        &self,
        digest: &str,
        head: (&MachineSummary, &Quiet),
        state_and_memory: (&Path, &File),
    ) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(digest);
        self.remove_abandoned()?;
        // Writing into a pipe would wait for a reader.
        if fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            remove_if_there(&path)?;
        }
        let mut out = NewFile::begin(&path)?;
        let written = format::write(&mut out, digest, head, state_and_memory)?;
        // The checksum finds what a power failure left half written.
        out.finish_unsynced()?;
        // Some file systems have no holes, and some count blocks only when they are on the disk.
        let (bytes, max) = (bytes_without_holes(&path).max(written), self.max_bytes);
        if bytes > max {
            remove_if_there(&path)?;
            return Err(io::Error::other(TooLarge { bytes, max }));
        }
        self.make_room(&path, bytes)
    }

    /// Removes others until all are within the limit. `used`, of `used_bytes`, stays. Whoever uses another one has it mapped.
    fn make_room(&self, used: &Path, used_bytes: u64) -> io::Result<()> {
        let files = self.files()?.into_iter().map(|(_, path)| path);
        let others: Vec<(u64, PathBuf)> = files
            .filter(|path| path != used)
            .map(|path| (bytes_without_holes(&path), path))
            .collect();
        let mut bytes = used_bytes + others.iter().map(|(bytes, _)| bytes).sum::<u64>();
        for (own_bytes, path) in others {
            if bytes <= self.max_bytes {
                break;
            }
            if remove_if_there(&path).is_ok() {
                bytes -= own_bytes;
            }
        }
        Ok(())
    }

    /// Files with the name of a digest; the one used longest ago comes first.
    fn files(&self) -> io::Result<Vec<(SystemTime, PathBuf)>> {
        let is_digest = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        let files = by_age(&self.folder)?.into_iter().map(|(used_at, _, path)| (used_at, path));
        Ok(files.filter(|(_, path)| is_digest(path)).collect())
    }

    /// Removes the files of saves that were killed.
    pub fn remove_abandoned(&self) -> io::Result<()> {
        replace::remove_abandoned(&self.folder)
    }
}

/// Notes whether an error is one of the copy of a state, and not of the machine.
struct ToState<'a> {
    out: File,
    failed: &'a mut bool,
}

impl Write for ToState<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).inspect_err(|_| *self.failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

/// 0 for a file that is gone.
fn bytes_without_holes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.blocks() * 512)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, symlink};
    use std::process::Command;
    use std::time::Duration;

    use super::format::BLOCK_BYTES;
    use super::*;
    use crate::model::testing::guest_facts;
    use crate::model::{Advice, GuestFacts, GuestTime, Reading};

    fn quiet() -> Quiet {
        let capacity = Reading::Known(0.1 + 0.2);
        let facts = GuestFacts { quiet_at_ns: 7, capacity, ..guest_facts("6.18") };
        Quiet { facts, time: GuestTime::Exact, started_after: Duration::from_nanos(1_000_000_007) }
    }

    fn summary() -> MachineSummary {
        MachineSummary {
            kernel: "debian:6.18".to_string(),
            cpus: 4,
            memory_bytes: 512 << 20,
            arguments: String::new(),
            probes: Some(vec!["sched".to_string()]),
            emulator: "QEMU emulator version 10.0.2".to_string(),
            emulator_digest: "e".to_string(),
            program_digest: "p".to_string(),
        }
    }

    /// Between and behind holes, with a last block that is not whole.
    fn memory() -> Vec<u8> {
        let mut bytes = vec![0; 40 * BLOCK_BYTES + 100];
        bytes[3 * BLOCK_BYTES + 5] = 7;
        bytes[9 * BLOCK_BYTES..11 * BLOCK_BYTES].fill(1);
        bytes[40 * BLOCK_BYTES + 99] = 9;
        bytes
    }

    pub struct Bench {
        _dir: tempfile::TempDir,
        pub saved: SavedMachines,
        state: PathBuf,
        memory: File,
        pub copy: PathBuf,
    }

    impl Bench {
        /// Into a file that is not there.
        pub fn get(&self, digest: &str) -> Option<Quiet> {
            _ = fs::remove_file(&self.copy);
            self.saved.get(digest, &self.copy).ok().flatten().map(|(quiet, ..)| quiet)
        }

        pub fn put(&self, digest: &str) -> io::Result<()> {
            self.put_in(&self.saved, digest)
        }

        fn put_in(&self, saved: &SavedMachines, digest: &str) -> io::Result<()> {
            saved.put(digest, (&summary(), &quiet()), (&self.state, &self.memory))
        }
    }

    pub fn bench(max_bytes: u64) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let [folder, state, memory, copy] =
            ["machines", "state", "memory", "copy"].map(|name| dir.path().join(name));
        fs::write(&state, "the state").unwrap();
        fs::write(&memory, self::memory()).unwrap();
        let memory = File::open(memory).unwrap();
        Bench { _dir: dir, saved: SavedMachines { folder, max_bytes }, state, memory, copy }
    }

    #[test]
    fn a_machine_comes_back_as_it_was_saved() {
        let bench = bench(MAX_BYTES);
        assert_eq!(bench.get("a"), None);
        bench.put("a").unwrap();
        assert_eq!(bench.get("b"), None);
        let (found, file, _) = bench.saved.get("a", &bench.copy).unwrap().unwrap();
        assert_eq!(found, quiet());
        assert_eq!(fs::read(&bench.copy).unwrap(), b"the state");
        let mut memory = vec![1; self::memory().len()];
        file.read_exact_at(&mut memory, 0).unwrap();
        assert!(memory == self::memory(), "its bytes");
        let bytes = bytes_without_holes(&bench.saved.folder.join("a"));
        assert!(bytes < memory.len() as u64 / 4, "{bytes} bytes");
    }

    #[test]
    fn a_file_that_is_cut_off_has_changed_or_is_another_machines_counts_as_missing_and_goes() {
        let bench = bench(MAX_BYTES);
        bench.put("a").unwrap();
        let path = bench.saved.folder.join("a");
        let whole = fs::read(&path).unwrap();
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            bytes
        };
        let mut wrong: Vec<Vec<u8>> = [
            0,
            memory().len() - 1,
            memory().len(),
            whole.len() - 45,
            whole.len() - 40,
            whole.len() - 1,
        ]
        .map(flipped)
        .into();
        wrong.extend((2..5).map(|word| flipped(whole.len() - 8 * word)));
        wrong.extend([0, 8, 40, whole.len() - 1].map(|length| whole[..length].to_vec()));
        for (number, bytes) in wrong.iter().enumerate() {
            fs::write(&path, bytes).unwrap();
            _ = fs::remove_file(&bench.copy);
            let why = bench.saved.get("a", &bench.copy).err();
            assert_eq!(why, Some(NotSaved::Damaged(path.clone())), "{number}");
            assert!(!path.exists(), "{number}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(bench.get("a"), Some(quiet()));
        let nowhere = bench.copy.join("no folder");
        let why = bench.saved.get("a", &nowhere).err();
        let is_of_state = |why: &NotSaved, state: &Path| {
            let text = format!("{}: ", state.display());
            matches!(why, NotSaved::Unreadable(why) if why.starts_with(&text))
        };
        assert!(is_of_state(&why.unwrap(), &nowhere), "the state has no place");
        let mut failed = false;
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut out = ToState { out: full, failed: &mut failed };
        let error = format::read(&File::open(&path).unwrap(), "a", &mut out).unwrap_err();
        assert!(failed && error.kind() == ErrorKind::StorageFull, "the state has no room: {error}");
        assert!(path.exists(), "it is whole");
        let other = bench.saved.folder.join("b");
        fs::write(&other, whole).unwrap();
        assert_eq!(bench.get("b"), None, "another machine's");
        assert!(!other.exists());
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let bench = bench(MAX_BYTES);
        let path = |name: &str| bench.saved.folder.join(name);
        for name in ["a", "b"] {
            bench.put(name).unwrap();
            let old = SystemTime::now() - Duration::from_secs(1000);
            File::open(path(name)).unwrap().set_modified(old).unwrap();
        }
        assert!(bench.get("a").is_some());
        let one = bytes_without_holes(&path("a"));
        let small = SavedMachines { folder: bench.saved.folder.clone(), max_bytes: 2 * one };
        bench.put_in(&small, "c").unwrap();
        assert_eq!(["a", "b", "c"].map(|name| path(name).exists()), [true, false, true]);
        small.make_room(&path("c"), one + 1).unwrap();
        assert_eq!(
            ["a", "c"].map(|name| path(name).exists()),
            [false, true],
            "bytes to be written"
        );
        bench.put("a").unwrap();
        let none = SavedMachines { folder: bench.saved.folder.clone(), max_bytes: one / 2 };
        let error = bench.put_in(&none, "d").unwrap_err();
        let text = format!(", all machines together at most {}", mebibytes(one / 2));
        assert!(error.to_string().ends_with(&text), "{error}");
        let NotSaved::NotKept(text) = none.not_kept(&error) else { panic!("another note") };
        assert!(text.contains("; hint: SCHEDLAB_MACHINES=512KiB or more in"), "{text}");
        assert_eq!(fs::read_dir(&none.folder).unwrap().count(), 2, "others stay");
    }

    #[test]
    fn a_lower_limit_holds_once_a_machine_is_used_which_stays_with_those_that_cannot_go() {
        let bench = bench(MAX_BYTES);
        let path = |name: &str| bench.saved.folder.join(name);
        let there = || ["a", "b", "c"].map(|name| path(name).exists());
        for (name, age_s) in [("a", 3000), ("b", 2000), ("c", 1000)] {
            bench.put(name).unwrap();
            let used_at = SystemTime::now() - Duration::from_secs(age_s);
            File::open(path(name)).unwrap().set_modified(used_at).unwrap();
        }
        let one = bytes_without_holes(&path("a"));
        let bench_of = |max_bytes| SavedMachines { folder: bench.saved.folder.clone(), max_bytes };
        let get = |saved: &SavedMachines, name: &str| {
            _ = fs::remove_file(&bench.copy);
            saved.get(name, &bench.copy).unwrap()
        };
        let (.., of_another, watch) = get(&bench.saved, "b").unwrap();
        assert_eq!(there(), [true; 3], "all have room");
        assert!(get(&bench_of(2 * one), "a").is_some());
        assert_eq!(
            there(),
            [true, true, false],
            "the one used last stays, and the one that is used"
        );
        assert!(get(&bench_of(one), "d").is_none());
        assert_eq!(there(), [true, true, false], "none is used");
        assert!(get(&bench_of(one / 2), "a").is_some());
        assert_eq!(there(), [true, false, false], "the one that is used is larger than the limit");
        let mut memory = vec![1; self::memory().len()];
        of_another.read_exact_at(&mut memory, 0).unwrap();
        assert!(watch.check(&of_another) && memory == self::memory(), "whoever has it goes on");
        // A mark of the future makes no other one newer than the one that is used.
        bench.put("b").unwrap();
        let ahead = SystemTime::now() + Duration::from_secs(1000);
        File::open(path("b")).unwrap().set_modified(ahead).unwrap();
        bench.put_in(&bench_of(one), "c").unwrap();
        assert_eq!(there(), [false, false, true]);
    }

    #[test]
    fn the_limit_is_a_size_with_its_unit() {
        let limit = |text: &str| max_bytes(Some(text.into()));
        assert_eq!(max_bytes(None).unwrap(), 4 << 30);
        assert_eq!(limit("").unwrap(), 4 << 30);
        assert_eq!(limit("100MiB").unwrap(), 100 << 20);
        assert_eq!(limit("0B").unwrap(), 0);
        assert_eq!(limit("0").unwrap(), 0);
        for wrong in ["4", "4 gigabytes", "-1GiB", "nan", "99999999999999GiB"] {
            let error = limit(wrong).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!("{LIMIT}: `{wrong}` ")), "{text}");
            assert!(error.is_usage() && error.hint().is_some(), "{text}");
        }
    }

    #[test]
    fn machines_are_listed_with_what_they_are_and_removed() {
        let bench = bench(MAX_BYTES);
        assert_eq!(bench.saved.list().unwrap(), [], "no folder");
        ["a", "b"].iter().for_each(|name| bench.put(name).unwrap());
        let old = SystemTime::now() - Duration::from_secs(1000);
        File::open(bench.saved.folder.join("b")).unwrap().set_modified(old).unwrap();
        fs::write(bench.saved.folder.join("c"), b"MACHINE1\x02\0\0\0{}").unwrap();
        let _writer = NewFile::begin(&bench.saved.folder.join("d")).unwrap();
        fs::create_dir(bench.saved.folder.join("e")).unwrap();
        let fifo = bench.saved.folder.join("f");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        symlink(&fifo, bench.saved.folder.join("0")).unwrap();
        for name in ["e", "f", "0"] {
            let why = bench.saved.get(name, &bench.copy).err();
            let text =
                format!("{}: it is not a regular file", bench.saved.folder.join(name).display());
            assert!(
                matches!(&why, Some(NotSaved::Unreadable(why)) if why.starts_with(&text)),
                "{why:?}"
            );
        }
        let listed = bench.saved.list().unwrap();
        let names: Vec<&str> = listed.iter().map(|own| own.digest.as_str()).collect();
        assert_eq!(names, ["c", "a", "b"], "the one used last first");
        assert_eq!(
            [0, 1, 2].map(|at| listed[at].summary.clone()),
            [None, Some(summary()), Some(summary())]
        );
        assert_eq!(listed[2].used_at, old);
        assert_eq!(listed[1].bytes, bytes_without_holes(&bench.saved.folder.join("a")));
        // One that is gone already is no fault.
        (0..2).for_each(|_| bench.saved.remove(&listed[1]).unwrap());
        assert_eq!((bench.get("a"), bench.get("b")), (None, Some(quiet())));
        // A machine takes the place of a pipe, and nobody waits for a reader.
        for name in ["0", "f"] {
            bench.put(name).unwrap();
            assert_eq!(bench.get(name), Some(quiet()), "{name}");
        }
    }

    #[test]
    fn files_of_killed_writers_go_and_those_of_living_ones_stay_and_count_for_nothing() {
        let bench = bench(MAX_BYTES);
        bench.put("a").unwrap();
        let folder = &bench.saved.folder;
        let one = bytes_without_holes(&folder.join("a"));
        let mut writer = NewFile::begin(&folder.join("b")).unwrap();
        writer.write_all(&vec![1; 2 * one as usize]).unwrap();
        let [killed, living] = [".c.0.tmp", ".b.0.tmp"].map(|name| folder.join(name));
        fs::write(&killed, "half of one").unwrap();
        let small = SavedMachines { folder: folder.clone(), max_bytes: 2 * one };
        bench.put_in(&small, "d").unwrap();
        assert_eq!([&killed, &living].map(|path| path.exists()), [false, true]);
        writer.finish_unsynced().unwrap();
        assert!(["a", "d"].iter().all(|name| folder.join(name).exists()));
    }

    #[test]
    fn two_that_save_one_machine_at_once_leave_a_whole_one() {
        let bench = bench(MAX_BYTES);
        std::thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| bench.put("a")));
            both.into_iter().for_each(|one| one.join().unwrap().unwrap());
        });
        assert_eq!(bench.get("a"), Some(quiet()));
        assert_eq!(fs::read_dir(&bench.saved.folder).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_nothing_is_found() {
        let bench = bench(MAX_BYTES);
        fs::write(&bench.saved.folder, "a file in its place").unwrap();
        assert!(bench.put("a").is_err());
        assert_eq!(bench.get("a"), None);
    }
}
