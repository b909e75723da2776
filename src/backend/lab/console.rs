//! A guest's console: a file that QEMU appends to, read as it grows for a kernel that gives up,
//! and told of in the reason of a failure. Input: that file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::failed;

/// What a kernel says when it gives up. Its QEMU may go on for ever.
const GIVING_UP: &[u8] = b"Kernel panic - not syncing";
/// Of the end of the console, in the reason of a failure: so many lines.
const LINES: usize = 6;
/// And looked for in so many bytes.
const END_BYTES: u64 = 64 << 10;
/// More than any guest has to say. One that repeats itself would fill the disk.
const MAX_BYTES: u64 = 16 << 20;

pub struct Console {
    path: PathBuf,
    /// So far it was read.
    read_bytes: u64,
    /// The last line, which may not be whole yet.
    line: Vec<u8>,
    /// A panicking kernel's own words, where it has said them.
    gave_up: Option<String>,
}

impl Console {
    pub fn new(path: PathBuf) -> Console {
        Console { path, read_bytes: 0, line: Vec::new(), gave_up: None }
    }

    /// Reads what is new. Why the guest is to be given up: its kernel does, or says too much.
    pub fn look(&mut self) -> Option<String> {
        // No file yet, or nothing new: the next look sees it.
        let new = from(&self.path, self.read_bytes, MAX_BYTES).unwrap_or_default();
        self.read_bytes += new.len() as u64;
        self.line.extend(new);
        if self.gave_up.is_none() {
            let whole = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let rest = self.line.split_off(whole);
            let lines = std::mem::replace(&mut self.line, rest);
            self.gave_up = lines.split(|byte| *byte == b'\n').find_map(giving_up);
        }
        if let Some(words) = &self.gave_up {
            return Some(format!("the guest's kernel gave up: {words}"));
        }
        (self.read_bytes >= MAX_BYTES)
            .then(|| format!("the guest's console says more than {} MiB", MAX_BYTES >> 20))
    }

    /// Keeps it in `folder` for who wants all of it, and tells its last lines as the end of a
    /// sentence.
    pub fn told(&self, folder: &Path) -> String {
        let kept = match failed::keep(folder, &self.path) {
            Ok(Some(path)) => format!("; all of it: {}", path.display()),
            Ok(None) => String::new(),
            Err(error) => format!("; it cannot be kept: {error}"),
        };
        self.last_lines() + &kept
    }

    fn last_lines(&self) -> String {
        let text = end(&self.path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            return "; its console is empty".to_string();
        }
        let kept = lines[lines.len().saturating_sub(LINES)..].join("\n");
        format!("; the end of its console: {}", one_line(&kept))
    }
}

/// The words with which a kernel gives up, where this line has them.
fn giving_up(line: &[u8]) -> Option<String> {
    let at = line.windows(GIVING_UP.len()).position(|words| words == GIVING_UP)?;
    Some(one_line(&String::from_utf8_lossy(&line[at..])))
}

/// The last bytes of a file that others write.
pub fn end(path: &Path) -> io::Result<Vec<u8>> {
    let size = File::open(path)?.metadata()?.len();
    from(path, size.saturating_sub(END_BYTES), END_BYTES)
}

fn from(path: &Path, at: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What others wrote, on one line and without a terminal's commands.
pub fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.escape_debug().to_string()).collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn the_console_tells_why_a_kernel_gave_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console");
        let mut console = Console::new(path.clone());
        assert_eq!(console.look(), None);
        assert_eq!(console.last_lines(), "; its console is empty");
        let mut file = File::create(&path).unwrap();
        for part in ["[1] x\r\n[2] Kernel pa", "nic - not syncing: no in"] {
            file.write_all(part.as_bytes()).unwrap();
            assert_eq!(console.look(), None, "the line is not whole");
        }
        file.write_all(b"it\x1b[31m\r\n[3] more\r\n").unwrap();
        let why = r"the guest's kernel gave up: Kernel panic - not syncing: no init\u{1b}[31m";
        assert_eq!(console.look().as_deref(), Some(why));
        assert_eq!(console.look().as_deref(), Some(why), "it stays so");
        let told = console.told(&dir.path().join("failed"));
        assert!(told.contains("[1] x / [2] Kernel panic"), "{told}");
        assert!(told.contains("; all of it: ") && !told.contains('\u{1b}'), "{told}");
    }

    #[test]
    fn of_a_console_without_end_the_last_lines_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console");
        let line = "the same again\n";
        fs::write(&path, line.repeat((MAX_BYTES as usize).div_ceil(line.len()))).unwrap();
        let mut console = Console::new(path);
        assert_eq!(console.look().unwrap(), "the guest's console says more than 16 MiB");
        let told = console.last_lines();
        assert_eq!(told.matches("the same again").count(), LINES, "{told}");
    }
}
