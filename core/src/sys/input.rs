//! Files and streams from outside, read up to a limit: a wrong one takes no more memory than a right one, and is
//! refused by its size before it is read. `tests/house/inputs.rs` lets nobody else read one whole.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Take};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use flate2::bufread::GzDecoder;
use thiserror::Error;

use super::lock;
use super::signal::OpenWait;

/// More than any kernel writes into one of its own files.
pub const MAX_KERNEL_FILE_BYTES: u64 = 64 << 20;
/// Files of this program and of others: configurations, lists, journals.
pub const MAX_OWN_FILE_BYTES: u64 = 16 << 20;
/// Kernels, programs, libraries and firmware. A kernel with all of its debugging information is smaller.
pub const MAX_PROGRAM_BYTES: u64 = 1 << 30;

/// A fault of a file, whatever it holds.
#[derive(Debug, Error)]
pub enum InputFault {
    #[error("it has more than {}, the limit for such a file", size(*.0))]
    TooLarge(u64),
    #[error("it is not a regular file")]
    NoFile,
    #[error("it is a database or a part of one, and nothing else is written over it")]
    Database,
    #[error("it is not UTF-8 from byte {} on", .0)]
    NotUtf8(usize),
    #[error("it is packed with gzip, and damaged or cut")]
    Packed,
}

impl From<InputFault> for io::Error {
    fn from(fault: InputFault) -> Self {
        let kind = match fault {
            InputFault::TooLarge(_) => io::ErrorKind::FileTooLarge,
            InputFault::NoFile | InputFault::Database => io::ErrorKind::InvalidInput,
            InputFault::NotUtf8(_) | InputFault::Packed => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, fault)
    }
}

/// Whether the file itself is wrong, and not the machine.
pub fn is_wrong_file(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<InputFault>())
}

/// Whether it is packed, and cannot be unpacked to its end.
pub fn is_damaged_gzip(error: &io::Error) -> bool {
    let fault = error.get_ref().and_then(|source| source.downcast_ref());
    matches!(fault, Some(InputFault::Packed))
}

pub(super) fn is_not_utf8(error: &io::Error) -> bool {
    let fault = error.get_ref().and_then(|source| source.downcast_ref());
    matches!(fault, Some(InputFault::NotUtf8(_)))
}

/// Whether the machine lacks something that it may have later, so that the same may succeed another time.
pub fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    let of_now = [
        StorageFull,
        QuotaExceeded,
        OutOfMemory,
        Interrupted,
        WouldBlock,
        TimedOut,
        ResourceBusy,
        StaleNetworkFileHandle,
    ];
    of_now.contains(&error.kind())
        || matches!(
            error.raw_os_error(),
            Some(libc::EMFILE | libc::ENFILE | libc::EIO | libc::EFBIG)
        )
}

fn size(bytes: u64) -> String {
    match bytes {
        mib if mib >= 1 << 20 => format!("{} MiB", mib >> 20),
        _ => format!("{bytes} bytes"),
    }
}

/// The bytes of a regular file. A pipe or a device is refused: it may never end.
pub fn read_file(path: impl AsRef<Path>, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_open(&mut open_file(path, max_bytes)?, max_bytes)
}

/// Like [`read_file`], for a text.
pub fn read_text_file(path: impl AsRef<Path>, max_bytes: u64) -> io::Result<String> {
    text(read_file(path, max_bytes)?)
}

/// A file of the kernel's.
pub fn kernel_file(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_file(path, MAX_KERNEL_FILE_BYTES)
}

/// Like [`kernel_file`], for one whose contents may be gone before a second call of the kernel: a longer file is read by
/// several.
pub fn kernel_file_at_once(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    const AT_ONCE: usize = 256 << 10;
    let mut file = File::open(path)?;
    let mut bytes = vec![0; AT_ONCE];
    let length = file.read(&mut bytes)?;
    bytes.truncate(length);
    if length == AT_ONCE {
        file.take(MAX_KERNEL_FILE_BYTES).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Like [`kernel_file`], for a text.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    text(kernel_file(path)?)
}

/// The bytes of a file that a user named, which may be a pipe, too. A signal ends the process while its writer is
/// waited for.
pub fn read_named(path: impl AsRef<Path>, max_bytes: u64) -> io::Result<Vec<u8>> {
    let _wait = OpenWait::for_file(path.as_ref());
    read_open(&mut File::open(path)?, max_bytes)
}

/// Like [`read_named`], for standard input.
pub fn read_stdin(max_bytes: u64) -> io::Result<Vec<u8>> {
    let _wait = OpenWait::begin();
    read_all(io::stdin().lock(), max_bytes)
}

/// Opens a regular file of at most `max_bytes`.
pub fn open_file(path: impl AsRef<Path>, max_bytes: u64) -> io::Result<File> {
    // Opening a pipe without a writer would never end.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let about = file.metadata()?;
    match about.is_file() {
        false => Err(InputFault::NoFile.into()),
        true if about.len() > max_bytes => Err(InputFault::TooLarge(max_bytes).into()),
        true => Ok(file),
    }
}

/// Whether it is a database of SQLite, or a file that SQLite keeps next to one.
pub fn is_database(path: &Path) -> bool {
    const HEAD: &[u8] = b"SQLite format 3\0";
    let begins = |path: &Path| {
        let start = open_file(path, u64::MAX).and_then(|file| read_start(file, HEAD.len() as u64));
        start.is_ok_and(|start| start == HEAD)
    };
    let name = path.as_os_str().as_bytes();
    let of_one =
        [&b"-wal"[..], b"-shm", b"-journal"].iter().find_map(|end| name.strip_suffix(*end));
    begins(path) || of_one.is_some_and(|name| begins(Path::new(OsStr::from_bytes(name))))
}

/// The rest of an open file.
pub fn read_open(file: &mut File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let about = file.metadata()?;
    if about.is_file() && about.len() > max_bytes {
        return Err(InputFault::TooLarge(max_bytes).into());
    }
    // A byte more shows the end.
    let room = if about.is_file() { about.len() as usize + 1 } else { 0 };
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(room).map_err(|_| io::ErrorKind::OutOfMemory)?;
    read_into(bytes, file, max_bytes)
}

/// Reads all of a stream.
pub fn read_all(stream: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_into(Vec::new(), stream, max_bytes)
}

fn read_into(mut bytes: Vec<u8>, stream: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    stream.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        Err(InputFault::TooLarge(max_bytes).into())
    } else {
        Ok(bytes)
    }
}

/// The first bytes of a stream, at most `max_bytes`.
pub fn read_start(stream: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a stream to its end, or until it fails, and keeps the last bytes so far, at most `max_bytes`.
pub fn keep_end(mut stream: impl Read, max_bytes: usize, kept: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        let mut kept = lock(kept);
        kept.extend_from_slice(&chunk[..count]);
        let excess = kept.len().saturating_sub(max_bytes);
        kept.drain(..excess);
    }
}

/// The first bytes of what gzip packed.
pub const GZIP: &[u8] = &[0x1f, 0x8b];

/// Unpacks a stream of gzip; it fails once more than `max_bytes` come out.
pub fn unpacked(packed: impl BufRead, max_bytes: u64) -> impl Read {
    // A byte more shows the end.
    let stream = Members(Some(GzDecoder::new(packed))).take(max_bytes.saturating_add(1));
    Unpacked { stream, max_bytes }
}

/// Members of gzip, one after the other, each with or without zeros behind it, which fill the block of a tape; `None`:
/// the end.
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let has_more = skip_zeros(member.get_mut())?;
            self.0 = self.0.take().filter(|_| has_more).map(|own| GzDecoder::new(own.into_inner()));
        }
        Ok(0)
    }
}

/// Whether something else comes behind them.
fn skip_zeros(stream: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = stream.fill_buf()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let (is_end, has_other) = (bytes.is_empty(), zeros < bytes.len());
        stream.consume(zeros);
        if is_end || has_other {
            return Ok(has_other);
        }
    }
}

struct Unpacked<R> {
    stream: Take<Members<R>>,
    max_bytes: u64,
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer);
        if self.stream.limit() == 0 {
            return Err(InputFault::TooLarge(self.max_bytes).into());
        }
        // The decoder's own errors come from no call of the kernel.
        read.map_err(|error| match error.raw_os_error() {
            None if error.kind() != io::ErrorKind::Interrupted => InputFault::Packed.into(),
            _ => error,
        })
    }
}

pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|why| InputFault::NotUtf8(why.utf8_error().valid_up_to()).into())
}

/// Lines without their ends; a longer one comes in pieces.
pub fn lines(mut reader: impl BufRead, max_bytes: u64) -> impl Iterator<Item = io::Result<String>> {
    let mut bytes = Vec::new();
    std::iter::from_fn(move || {
        bytes.clear();
        match reader.by_ref().take(max_bytes).read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => {
                let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                Some(Ok(String::from_utf8_lossy(line).into_owned()))
            }
            Err(error) => Some(Err(error)),
        }
    })
}

/// Reads the output of a program without input. A program that writes more loses its reader.
pub fn output(command: &mut Command, max_bytes: u64) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stderr = std::thread::spawn(move || {
        stderr.map_or(Ok(Vec::new()), |stream| read_all(stream, max_bytes))
    });
    let stdout = stdout.map_or(Ok(Vec::new()), |stream| read_all(stream, max_bytes));
    let stderr = stderr.join().unwrap_or_else(|_| Ok(Vec::new()));
    Ok(Output { status: child.wait()?, stdout: stdout?, stderr: stderr? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs;
    use std::io::Write;

    fn message<T>(result: io::Result<T>) -> String {
        let Err(error) = result else { panic!("it was read") };
        assert!(is_wrong_file(&error), "{error}");
        error.to_string()
    }

    #[test]
    fn what_is_too_large_or_may_not_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read_file(&path, 5).unwrap(), b"12345");
        assert_eq!(
            message(read_file(&path, 4)),
            "it has more than 4 bytes, the limit for such a file"
        );
        File::options().write(true).open(&path).unwrap().set_len(3 << 30).unwrap();
        assert!(message(read_file(&path, 2 << 20)).starts_with("it has more than 2 MiB"));
        assert!(message(read_named(&path, 2 << 20)).starts_with("it has more than 2 MiB"));
        assert!(message(read_file("/dev/zero", 1 << 20)).contains("not a regular file"));
        assert!(message(read_file(folder.path(), 1 << 20)).contains("not a regular file"));
        assert!(message(read_named("/dev/zero", 1 << 20)).starts_with("it has more than 1 MiB"));
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(message(read_file(&pipe, 5)).contains("not a regular file"), "without waiting");
        assert!(!read_file("/proc/self/stat", MAX_KERNEL_FILE_BYTES).unwrap().is_empty());
        let other = text(b"a\xff".to_vec()).unwrap_err();
        assert_eq!(other.to_string(), "it is not UTF-8 from byte 1 on");
    }

    #[test]
    fn what_is_packed_comes_out_up_to_its_limit() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&[b'x'; 100_000]).unwrap();
        let packed = packer.finish().unwrap();
        let out = |packed: &[u8], max_bytes| read_all(unpacked(packed, max_bytes), u64::MAX);
        assert!(packed.starts_with(GZIP));
        assert_eq!(out(&packed, 100_000).unwrap().len(), 100_000);
        assert_eq!(out(&packed.repeat(2), 200_000).unwrap().len(), 200_000, "one after the other");
        let padded = [packed.as_slice(), &[0; 20_000]].concat();
        assert_eq!(out(&padded, 100_000).unwrap().len(), 100_000, "zeros behind it");
        assert_eq!(out(&padded.repeat(2), 200_000).unwrap().len(), 200_000, "and between two");
        let other = [padded.as_slice(), b"other"].concat();
        assert!(message(out(&other, 1 << 20)).contains("damaged or cut"));
        assert!(message(out(&packed, 99_999)).starts_with("it has more than 99999 bytes"));
        for length in [2, 12, packed.len() / 2, packed.len() - 1] {
            assert!(
                message(out(&packed[..length], 1 << 20)).contains("damaged or cut"),
                "{length}"
            );
        }
        let mut damaged = packed.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(message(out(&damaged, 1 << 20)).contains("damaged or cut"));
    }

    #[test]
    fn long_lines_come_in_pieces_and_programs_lose_their_reader() {
        let all: Vec<String> = lines(&b"abcdef\ng\xff\r\n\nh"[..], 4).map(Result::unwrap).collect();
        assert_eq!(all, ["abcd", "ef", "g\u{fffd}", "", "h"]);
        let wordy = output(Command::new("cat").arg("/dev/zero"), 1 << 20);
        assert!(message(wordy).starts_with("it has more than 1 MiB"));
        let quiet =
            output(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"]), 10).unwrap();
        assert_eq!((quiet.stdout, quiet.stderr), (b"a\n".to_vec(), b"b\n".to_vec()));
        assert_eq!(quiet.status.code(), Some(3));
    }
}
