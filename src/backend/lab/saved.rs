//! Machines that have booted, and those that have also loaded a plan's probes: they outlive this process, so that a
//! second plan does neither.
//!
//! A file has the name of its machine's digest, which is one of all that its state depends on: a line of
//! JSON, what it is of and [`Quiet`]; the state in blocks of LZ4, each with its lengths, the last one empty; a checksum of
//! the name and of all before it. A file that is cut off, has changed or is another machine's counts as missing and is
//! removed. Together they
//! have a limit: whichever was used longest ago goes first.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::error::LabError;
use super::results::{by_age, remove_if_there};
use crate::backend::NotSaved;
use crate::model::{GuestFacts, GuestTime, show_bytes, size_bytes};
use crate::sys::replace::replace;
use crate::sys::{self, input, remedy};

/// All saved machines of a user, unless [`LIMIT`] says otherwise. A machine of 512 MiB takes some 55 MB.
const MAX_BYTES: u64 = 2 << 30;
/// The variable with another limit: `SCHEDLAB_MACHINES=4GiB`. With 0 none is kept.
pub const LIMIT: &str = "SCHEDLAB_MACHINES";
const MAGIC: &[u8; 8] = b"MACHINE3";
const BLOCK_BYTES: usize = 1 << 20;
/// Facts of a guest with hundreds of CPUs are smaller.
const MAX_HEAD_BYTES: u32 = 1 << 20;

/// In the cache folder.
const FOLDER: &str = "machines";

/// A machine in the words of its user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineSummary {
    /// As plans name it.
    pub kernel: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    /// The variant's own arguments of the kernel.
    pub arguments: String,
    /// The probes that wait in it; `None`: it has only booted.
    #[serde(default)]
    pub probes: Option<Vec<String>>,
    /// The emulator's own line about its version.
    pub emulator: String,
    /// The program of its guests, which is schedlab itself.
    pub program_digest: String,
}

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

/// A machine that was booted and stopped when it was quiet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    pub facts: GuestFacts,
    /// Whether its time was exact.
    pub time: GuestTime,
    /// By the host's clock, until its first process was at work.
    pub started_after: Duration,
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
        let folder = self.folder.display();
        let remedy = match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(TooLarge { bytes, .. }) => {
                // A plan keeps two of each kernel, and the one with probes is a little larger.
                let enough = show_bytes((2 * bytes).next_power_of_two());
                format!("{LIMIT}={enough} or more in the environment, or 0 to keep none")
            }
            None => remedy::write_own("XDG_CACHE_HOME", &self.folder.join("x"), error),
        };
        NotSaved::NotKept(format!(
            "{folder}: {error}; hint: {remedy}; what is kept: schedlab cache"
        ))
    }

    /// The one that was used last comes first.
    pub fn list(&self) -> io::Result<Vec<SavedMachine>> {
        let files = match by_age(&self.folder) {
            Err(error) if sys::is_absent(&self.folder, &error) => return Ok(Vec::new()),
            files => files?,
        };
        let machine = |(used_at, bytes, path): (SystemTime, u64, PathBuf)| {
            let digest = path.file_name()?.to_str()?.to_string();
            let summary = File::open(&path).and_then(|file| read_head(&mut from(&file, &digest)));
            // Anything else is a file that is being written.
            let is_digest = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            let summary = summary.ok().map(|(summary, _)| summary);
            is_digest.then_some(SavedMachine { digest, bytes, used_at, summary })
        };
        Ok(files.into_iter().rev().filter_map(machine).collect())
    }

    pub fn remove(&self, machine: &SavedMachine) -> io::Result<()> {
        remove_if_there(&self.folder.join(&machine.digest))
    }

    /// Writes the state of the machine with this digest to `state`; `None` where none is saved or there is no room. One that
    /// is damaged is removed, and its path is the error.
    pub fn get(&self, digest: &str, state: &Path) -> Result<Option<Quiet>, PathBuf> {
        let path = self.folder.join(digest);
        let Ok(file) = File::open(&path) else { return Ok(None) };
        match read(from(&file, digest), state) {
            Ok(quiet) => {
                // The machine that was used last stays longest; without the mark the order is that of writing.
                _ = file.set_modified(SystemTime::now());
                Ok(Some(quiet))
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
            {
                _ = fs::remove_file(&path);
                Err(path)
            }
            Err(_) => Ok(None),
        }
    }

    /// Saves a machine whole, or not at all. Of two that save one machine at once either stays: copies of both do the same.
    pub fn put(
        &self,
        digest: &str,
        (summary, quiet): (&MachineSummary, &Quiet),
        state: &Path,
    ) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        replace(&self.folder.join(digest), |out| {
            let mut out = Summed::new(BufWriter::with_capacity(BLOCK_BYTES, out), digest);
            write(&mut out, (summary, quiet), &File::open(state)?)?;
            let sum = out.sum;
            out.inner.write_all(&sum.to_le_bytes())?;
            out.inner.flush()?;
            let (bytes, max) = (out.bytes + size_of_val(&sum) as u64, self.max_bytes);
            if bytes > max { Err(io::Error::other(TooLarge { bytes, max })) } else { Ok(()) }
        })?;
        self.make_room()
    }

    fn make_room(&self) -> io::Result<()> {
        let by_age = by_age(&self.folder)?;
        let mut bytes: u64 = by_age.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in by_age {
            if bytes <= self.max_bytes {
                break;
            }
            _ = fs::remove_file(path);
            bytes -= len;
        }
        Ok(())
    }
}

/// Bytes that pass through are part of the checksum: XXH3 of each part, seeded by that of the parts before. The first
/// part is the name of the file, so that no machine is taken for another one.
struct Summed<T> {
    inner: T,
    sum: u64,
    bytes: u64,
}

impl<T> Summed<T> {
    fn new(inner: T, digest: &str) -> Summed<T> {
        Summed { inner, sum: XxHash3_64::oneshot(digest.as_bytes()), bytes: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.sum = XxHash3_64::oneshot_with_seed(self.sum, bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<T: Read> Summed<T> {
    fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.inner.read_exact(&mut bytes)?;
        self.add(&bytes);
        Ok(bytes)
    }

    /// A length that is at most `max`.
    fn length(&mut self, max: u32) -> io::Result<usize> {
        let bytes = self.bytes(4)?;
        let length = u32::from_le_bytes(bytes.try_into().map_err(|_| ErrorKind::InvalidData)?);
        if length > max { Err(ErrorKind::InvalidData.into()) } else { Ok(length as usize) }
    }
}

impl<T: Write> Summed<T> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add(bytes);
        self.inner.write_all(bytes)
    }

    fn put_length(&mut self, length: usize) -> io::Result<()> {
        let length = u32::try_from(length).map_err(|_| ErrorKind::InvalidInput)?;
        self.put(&length.to_le_bytes())
    }
}

fn write(
    out: &mut Summed<impl Write>,
    head: (&MachineSummary, &Quiet),
    state: &File,
) -> io::Result<()> {
    let head = serde_json::to_vec(&head)?;
    out.put(MAGIC)?;
    out.put_length(head.len())?;
    out.put(&head)?;
    loop {
        let block = input::read_start(state, BLOCK_BYTES as u64)?;
        let packed = lz4_flex::block::compress(&block);
        out.put_length(block.len())?;
        out.put_length(packed.len())?;
        out.put(&packed)?;
        if block.is_empty() {
            return Ok(());
        }
    }
}

fn from<'f>(file: &'f File, digest: &str) -> Summed<BufReader<&'f File>> {
    Summed::new(BufReader::with_capacity(BLOCK_BYTES, file), digest)
}

fn read_head(from: &mut Summed<impl Read>) -> io::Result<(MachineSummary, Quiet)> {
    if from.bytes(MAGIC.len())? != MAGIC {
        return Err(ErrorKind::InvalidData.into());
    }
    let length = from.length(MAX_HEAD_BYTES)?;
    Ok(serde_json::from_slice(&from.bytes(length)?)?)
}

fn read(mut from: Summed<impl Read>, state: &Path) -> io::Result<Quiet> {
    let (_, quiet) = read_head(&mut from)?;
    let mut out = File::create_new(state)?;
    loop {
        let length = from.length(BLOCK_BYTES as u32)?;
        let packed = from.length(lz4_flex::block::get_maximum_output_size(BLOCK_BYTES) as u32)?;
        let packed = from.bytes(packed)?;
        if length == 0 {
            break;
        }
        let block = lz4_flex::block::decompress(&packed, length)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        if block.len() != length {
            return Err(ErrorKind::InvalidData.into());
        }
        out.write_all(&block)?;
    }
    let mut sum = [0; 8];
    from.inner.read_exact(&mut sum)?;
    if u64::from_le_bytes(sum) == from.sum { Ok(quiet) } else { Err(ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Advice, GUEST_WIRE, Reading, Topology};

    fn quiet() -> Quiet {
        let unknown = || Reading::Unknown("a test".to_string());
        let facts = GuestFacts {
            wire: GUEST_WIRE,
            kernel_release: "6.18".to_string(),
            kernel_version: "#1".to_string(),
            scheduler: unknown(),
            topology: Topology::default(),
            sockets: None,
            node_distance: None,
            quiet_at_ns: 7,
            capacity: Reading::Known(0.1 + 0.2),
            timer_resolution_ns: 1,
        };
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
            program_digest: "p".to_string(),
        }
    }

    /// More than two blocks, of which one packs well and one does not.
    fn state() -> Vec<u8> {
        let mut random = 1u32;
        let noise = std::iter::repeat_with(|| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        });
        [vec![0; BLOCK_BYTES], noise.take(BLOCK_BYTES).collect(), b"end".to_vec()].concat()
    }

    struct Bench {
        _dir: tempfile::TempDir,
        saved: SavedMachines,
        state: PathBuf,
        copy: PathBuf,
    }

    impl Bench {
        /// Into a file that is not there.
        fn get(&self, digest: &str) -> Option<Quiet> {
            _ = fs::remove_file(&self.copy);
            self.saved.get(digest, &self.copy).ok().flatten()
        }

        fn put(&self, digest: &str) -> io::Result<()> {
            self.saved.put(digest, (&summary(), &quiet()), &self.state)
        }
    }

    fn bench(max_bytes: u64) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let [folder, state, copy] = ["machines", "state", "copy"].map(|name| dir.path().join(name));
        fs::write(&state, self::state()).unwrap();
        Bench { _dir: dir, saved: SavedMachines { folder, max_bytes }, state, copy }
    }

    #[test]
    fn a_machine_comes_back_as_it_was_saved() {
        let bench = bench(MAX_BYTES);
        assert_eq!(bench.get("a"), None);
        bench.put("a").unwrap();
        assert_eq!(bench.get("b"), None);
        assert_eq!(bench.get("a"), Some(quiet()));
        assert!(fs::read(&bench.copy).unwrap() == state(), "its bytes");
        let packed = fs::metadata(bench.saved.folder.join("a")).unwrap().len();
        assert!(packed < state().len() as u64 * 6 / 10, "{packed} bytes");
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
        let mut wrong: Vec<Vec<u8>> =
            [0, 9, 30, whole.len() / 2, whole.len() - 20, whole.len() - 1].map(flipped).into();
        wrong.extend([0, 8, 40, whole.len() - 1].map(|length| whole[..length].to_vec()));
        for (number, bytes) in wrong.iter().enumerate() {
            fs::write(&path, bytes).unwrap();
            _ = fs::remove_file(&bench.copy);
            assert!(bench.saved.get("a", &bench.copy).is_err(), "{number}");
            assert!(!path.exists(), "{number}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(bench.get("a"), Some(quiet()));
        let nowhere = bench.copy.join("no folder");
        assert_eq!(bench.saved.get("a", &nowhere), Ok(None), "the state has no place");
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
        let one = fs::metadata(path("a")).unwrap().len();
        let small = SavedMachines { folder: bench.saved.folder.clone(), max_bytes: 2 * one };
        small.put("c", (&summary(), &quiet()), &bench.state).unwrap();
        assert_eq!(["a", "b", "c"].map(|name| path(name).exists()), [true, false, true]);
        let none = SavedMachines { folder: bench.saved.folder.clone(), max_bytes: one - 1 };
        let error = none.put("d", (&summary(), &quiet()), &bench.state).unwrap_err();
        let text = format!("it has {0}, all machines together at most {0}", mebibytes(one));
        assert_eq!(error.to_string(), text);
        let NotSaved::NotKept(text) = none.not_kept(&error) else { panic!("another note") };
        assert!(text.contains("; hint: SCHEDLAB_MACHINES=4MiB or more in"), "{text}");
        assert_eq!(fs::read_dir(&none.folder).unwrap().count(), 2, "others stay");
    }

    #[test]
    fn the_limit_is_a_size_with_its_unit() {
        let limit = |text: &str| max_bytes(Some(text.into()));
        assert_eq!(max_bytes(None).unwrap(), 2 << 30);
        assert_eq!(limit("").unwrap(), 2 << 30);
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
        fs::write(bench.saved.folder.join(".d.1.tmp"), "half of one").unwrap();
        let listed = bench.saved.list().unwrap();
        let names: Vec<&str> = listed.iter().map(|own| own.digest.as_str()).collect();
        assert_eq!(names, ["c", "a", "b"], "the one used last first");
        assert_eq!(
            [0, 1, 2].map(|at| listed[at].summary.clone()),
            [None, Some(summary()), Some(summary())]
        );
        assert_eq!(listed[2].used_at, old);
        assert_eq!(listed[1].bytes, fs::metadata(bench.saved.folder.join("a")).unwrap().len());
        // One that is gone already is no fault.
        (0..2).for_each(|_| bench.saved.remove(&listed[1]).unwrap());
        assert_eq!((bench.get("a"), bench.get("b")), (None, Some(quiet())));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_nothing_is_found() {
        let bench = bench(MAX_BYTES);
        fs::write(&bench.saved.folder, "a file in its place").unwrap();
        assert!(bench.put("a").is_err());
        assert_eq!(bench.get("a"), None);
    }
}
