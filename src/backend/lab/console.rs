//! A guest's console: a file that QEMU appends to. It is read as it grows for a kernel that gives
//! up, and its end goes into the reason of a failure. Input: that file.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::GuestFault;
use super::failed::{self, ConsoleEnd, Kept};
use crate::model::clean_on_one_line;
use crate::sys::input;

/// Beginning of a line that shows that the kernel gave up. Its QEMU may run permanently then.
const GIVING_UP: &[u8] = b"Kernel panic - not syncing";
/// Lines of the console's end in the reason of a failure.
const LINES: usize = 6;
/// The end of the file in which these lines are looked for.
const END_BYTES: u64 = 64 << 10;
/// More than any guest prints. A guest that repeats itself would fill the disk.
const MAX_BYTES: u64 = 16 << 20;

pub struct Console {
    path: PathBuf,
    read_bytes: u64,
    /// The last line, which may not be complete yet.
    line: Vec<u8>,
    /// The line on which the kernel gave up.
    gave_up: Option<String>,
}

impl Console {
    pub fn new(path: PathBuf) -> Console {
        Console { path, read_bytes: 0, line: Vec::new(), gave_up: None }
    }

    /// Reads what is new. An error if the guest must be ended: its kernel gave up, or its console
    /// is too long.
    pub fn poll(&mut self) -> Result<(), GuestFault> {
        // No file yet, or nothing new: the next poll sees it.
        let new = from(&self.path, self.read_bytes, MAX_BYTES).unwrap_or_default();
        self.read_bytes += new.len() as u64;
        self.line.extend(new);
        if self.gave_up.is_none() {
            let whole = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let rest = self.line.split_off(whole);
            let lines = std::mem::replace(&mut self.line, rest);
            self.gave_up = lines.split(|byte| *byte == b'\n').find_map(giving_up);
        }
        match &self.gave_up {
            Some(words) => Err(GuestFault::KernelPanic(words.clone())),
            None if self.read_bytes >= MAX_BYTES => {
                Err(GuestFault::ConsoleFull { mib: MAX_BYTES >> 20 })
            }
            None => Ok(()),
        }
    }

    /// Its last lines. Keeps the whole console in `folder`.
    pub fn end(&self, folder: &Path) -> ConsoleEnd {
        let kept = match failed::keep(folder, &self.path) {
            Ok(Some(path)) => Kept::At(path),
            Ok(None) => Kept::Nowhere,
            Err(error) => Kept::Failed(Arc::new(error)),
        };
        ConsoleEnd { last_lines: self.last_lines(), kept }
    }

    fn last_lines(&self) -> String {
        let text = end(&self.path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        clean_on_one_line(&lines[lines.len().saturating_sub(LINES)..].join("\n"))
    }
}

/// The rest of a line from the words with which a kernel gives up.
fn giving_up(line: &[u8]) -> Option<String> {
    let at = line.windows(GIVING_UP.len()).position(|words| words == GIVING_UP)?;
    Some(clean_on_one_line(&String::from_utf8_lossy(&line[at..])))
}

/// The last bytes of a file that others write.
pub fn end(path: &Path) -> io::Result<Vec<u8>> {
    let size = File::open(path)?.metadata()?.len();
    from(path, size.saturating_sub(END_BYTES), END_BYTES)
}

fn from(path: &Path, at: u64, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(at))?;
    input::read_start(file, max_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn the_console_shows_why_a_kernel_gave_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console");
        let mut console = Console::new(path.clone());
        let fault = |console: &mut Console| console.poll().err().map(|fault| fault.to_string());
        assert_eq!(fault(&mut console), None);
        let folder = dir.path().join("failed");
        assert_eq!(console.end(&folder).to_string(), "; its console is empty");
        let mut file = File::create(&path).unwrap();
        for part in ["[1] x\r\n[2] Kernel pa", "nic - not syncing: no in"] {
            file.write_all(part.as_bytes()).unwrap();
            assert_eq!(fault(&mut console), None, "the line is not complete");
        }
        file.write_all(b"it\x1b[31m\r\n[3] more\r\n").unwrap();
        let why = r"the guest's kernel gave up: Kernel panic - not syncing: no init\u{1b}[31m";
        assert_eq!(fault(&mut console).as_deref(), Some(why));
        assert_eq!(fault(&mut console).as_deref(), Some(why), "it stays so");
        let end = console.end(&folder);
        let kept = end.path().unwrap().to_path_buf();
        assert_eq!(fs::read(&kept).unwrap(), fs::read(&path).unwrap());
        let end = end.to_string();
        assert!(end.contains("[1] x / [2] Kernel panic"), "{end}");
        assert!(end.ends_with(&kept.display().to_string()) && !end.contains('\u{1b}'), "{end}");
    }

    #[test]
    fn an_endless_console_ends_the_guest_and_its_last_lines_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console");
        let line = "the same again\n";
        fs::write(&path, line.repeat((MAX_BYTES as usize).div_ceil(line.len()))).unwrap();
        let mut console = Console::new(path);
        let fault = console.poll().unwrap_err();
        assert!(matches!(fault, GuestFault::ConsoleFull { mib: 16 }), "{fault}");
        let lines = console.last_lines();
        assert_eq!(lines.matches("the same again").count(), LINES, "{lines}");
    }
}
