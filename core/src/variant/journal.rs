//! Changes of this process to the machine that are not yet undone. Each is on disk before it is made, so that a
//! later process can undo it after a crash.
//!
//! One file per living [`Journal`], `journal.v1.BOOT_ID.PID.START.N`, where START is the process's start time in
//! clock ticks (field 22 of /proc/PID/stat): a re-used pid or a reboot is recognised. The file is locked (flock)
//! while its writer or a restorer lives. A line of JSON each: a change before it is made, `end` after it was
//! undone. A line that a crash cut off was never acted on: changes begin after fsync. No open change, no file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::sys::signal::OpenChange;
use crate::sys::{Host, abandoned, input, load, lock};

use super::change::Change;

/// How long a restorer waits for another one, or for the rest of the writer.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Says which process wrote a journal: it is permanently unique on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    pub boot_id: String,
    pub pid: i32,
    pub start_ticks: u64,
}

impl Writer {
    pub fn this_process() -> io::Result<Writer> {
        let host = Host::default();
        let pid = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let own = load::process(&host, pid)
            .ok_or_else(|| io::Error::other("/proc/self/stat cannot be understood"))?;
        let start_ticks = own.started_ns / load::tick_ns();
        Ok(Writer { boot_id: boot_id(&host)?, pid, start_ticks })
    }

    /// Whether the process lives: same pid, same start, and no zombie.
    pub fn lives(&self, host: &Host) -> bool {
        load::process(host, self.pid).is_some_and(|process| {
            process.started_ns / load::tick_ns() == self.start_ticks && !process.has_ended
        })
    }
}

pub fn boot_id(host: &Host) -> io::Result<String> {
    host.read("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string())
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begin { entry: u64, change: Change },
    End { entry: u64 },
}

/// The journal of this process. Clones are the same journal.
#[derive(Debug, Clone)]
pub struct Journal {
    writer: Writer,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    path: PathBuf,
    /// The file exists while an entry is open.
    file: Option<File>,
    /// A command is not a change, and ends with this process.
    open: Vec<(u64, Option<OpenChange>)>,
    next_entry: u64,
}

impl Journal {
    /// Makes `state_dir` if it is not there. The file itself comes with the first change.
    pub fn open(state_dir: &Path) -> io::Result<Journal> {
        Journal::with_writer(state_dir, Writer::this_process()?)
    }

    pub(super) fn with_writer(state_dir: &Path, writer: Writer) -> io::Result<Journal> {
        static JOURNALS: AtomicU32 = AtomicU32::new(0);
        let number = JOURNALS.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(state_dir)?;
        let Writer { boot_id, pid, start_ticks } = &writer;
        let path = state_dir.join(format!("{PREFIX}{boot_id}.{pid}.{start_ticks}.{number}"));
        let state = State { path, file: None, open: Vec::new(), next_entry: 1 };
        Ok(Journal { writer, state: Arc::new(Mutex::new(state)) })
    }

    pub(super) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Puts a change on disk. It may be made when this has returned.
    pub(super) fn begin(&self, change: &Change) -> io::Result<u64> {
        let mut state = lock(&self.state);
        if state.file.is_none() {
            state.file = Some(create(&state.path)?);
        }
        let entry = state.next_entry;
        state.next_entry += 1;
        // Before the change is made, so that no signal comes between.
        let open = (!matches!(change, Change::Command { .. })).then(OpenChange::begin);
        let line = Line::Begin { entry, change: change.clone() };
        if let Some(file) = &mut state.file {
            append(file, &line)?;
        }
        state.open.push((entry, open));
        Ok(entry)
    }

    /// Notes that a change is undone (or was not made, or is left to whoever changed it
    /// since). With the last one the file goes.
    pub(super) fn end(&self, entry: u64) -> io::Result<()> {
        let mut state = lock(&self.state);
        if let Some(file) = &mut state.file {
            append(file, &Line::End { entry })?;
        }
        state.open.retain(|(open, _)| *open != entry);
        if state.open.is_empty() {
            state.file = None;
            remove(&state.path)?;
        }
        Ok(())
    }
}

/// A command that this process runs for the user is in a journal as long as this lives: if this process is killed,
/// the next one ends the command's processes.
#[derive(Debug)]
pub struct CommandEntry {
    journal: Journal,
    entry: u64,
}

impl CommandEntry {
    pub fn begin(state_dir: &Path) -> io::Result<CommandEntry> {
        let journal = Journal::open(state_dir)?;
        let entry = journal.begin(&Change::Command { mark: abandoned::own_mark() })?;
        Ok(CommandEntry { journal, entry })
    }
}

impl Drop for CommandEntry {
    fn drop(&mut self) {
        // A thing that cannot be noted is looked for by the next process, which finds nothing.
        _ = self.journal.end(self.entry);
    }
}

const PREFIX: &str = "journal.v1.";

fn create(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    crate::sys::fuse::step()?;
    let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    lock_file(&file)?;
    sync_folder(path)?;
    Ok(file)
}

fn remove(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    crate::sys::fuse::step()?;
    fs::remove_file(path)?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn append(file: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_string(line).map_err(io::Error::other)? + "\n";
    // After a line that was cut off, begin a new one.
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != *b"\n" {
        text.insert(0, '\n');
    }
    #[cfg(test)]
    if let Err(crash) = crate::sys::fuse::step() {
        if crate::sys::fuse::refused() == 1 {
            file.write_all(&text.as_bytes()[..text.len() / 2])?;
        }
        return Err(crash);
    }
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

/// Takes the lock of a journal; `WouldBlock` while another holds it. File systems without
/// locks leave the writer's pid and start time as the only guard.
fn lock_file(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The journal of a process that has ended, held by the lock against other restorers.
#[derive(Debug)]
pub struct Left {
    pub writer: Writer,
    /// Changes not yet undone, newest first.
    pub open: Vec<(u64, Change)>,
    /// Lines that a crash cut off: their changes were never made.
    pub torn_lines: usize,
    path: PathBuf,
    file: File,
}

impl Left {
    /// Reads the journal at `path`; `None`: it is not a journal, its writer lives, or another process is at it or
    /// has finished with it.
    pub fn take(path: &Path, host: &Host, boot_id: &str) -> io::Result<Option<Left>> {
        let Some(writer) = writer_of(path) else { return Ok(None) };
        if writer.boot_id == boot_id && writer.lives(host) {
            return Ok(None);
        }
        let mut file = match OpenOptions::new().read(true).append(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        // A child of the dead writer holds its lock until it has executed its program.
        let deadline = Instant::now() + LOCK_PATIENCE;
        while lock_file(&file).is_err() {
            if Instant::now() > deadline {
                return Ok(None);
            }
            std::thread::sleep(LOCK_PATIENCE / 200);
        }
        if file.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        let text = input::read_open(&mut file, input::MAX_OWN_FILE_BYTES)?;
        let (open, torn_lines) = open_changes(&String::from_utf8_lossy(&text));
        Ok(Some(Left { writer, open, torn_lines, path: path.to_path_buf(), file }))
    }

    /// See [`Journal::end`].
    pub fn end(&mut self, entry: u64) -> io::Result<()> {
        append(&mut self.file, &Line::End { entry })?;
        self.open.retain(|(open, _)| *open != entry);
        Ok(())
    }

    /// Removes the file once nothing is open.
    pub fn close(self) -> io::Result<()> {
        if self.open.is_empty() { remove(&self.path) } else { Ok(()) }
    }
}

/// The writer in a journal's name.
fn writer_of(path: &Path) -> Option<Writer> {
    let mut parts = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split('.');
    let boot_id = parts.next()?.to_string();
    let (pid, start_ticks) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?.parse::<u32>().ok()?;
    parts.next().is_none().then_some(Writer { boot_id, pid, start_ticks })
}

/// Changes begun and not ended, newest first, and how many lines could not be understood.
fn open_changes(text: &str) -> (Vec<(u64, Change)>, usize) {
    let (mut open, mut torn_lines) = (Vec::new(), 0);
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Begin { entry, change }) if change.is_known() => open.push((entry, change)),
            Ok(Line::End { entry }) => open.retain(|(begun, _)| *begun != entry),
            Ok(Line::Begin { .. }) | Err(_) => torn_lines += 1,
        }
    }
    open.reverse();
    (open, torn_lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::Target;

    fn change(set: &str) -> Change {
        let target = Target::Sysctl("sched_x".to_string());
        Change::Set { target, before: "1".to_string(), set: set.to_string() }
    }

    fn line(line: &Line) -> String {
        serde_json::to_string(line).unwrap()
    }

    #[test]
    fn what_is_open_is_read_newest_first_whatever_is_cut_off() {
        let begin = |entry, set| line(&Line::Begin { entry, change: change(set) });
        let end = |entry| line(&Line::End { entry });
        let outside = Change::Set {
            target: Target::Sysctl("../panic".to_string()),
            before: "0".to_string(),
            set: "1".to_string(),
        };
        let outside = line(&Line::Begin { entry: 9, change: outside });
        let cases: &[(String, &[u64], usize)] = &[
            (String::new(), &[], 0),
            (begin(1, "2"), &[1], 0),
            ([begin(1, "2"), begin(2, "3")].join("\n"), &[2, 1], 0),
            ([begin(1, "2"), begin(2, "3"), end(1)].join("\n"), &[2], 0),
            ([begin(1, "2"), end(1)].join("\n"), &[], 0),
            ([begin(1, "2"), begin(2, "3")[..20].to_string()].join("\n"), &[1], 1),
            ([begin(1, "2")[..9].to_string(), begin(2, "3")].join("\n"), &[2], 1),
            (outside, &[], 1),
        ];
        for (text, expected, torn) in cases {
            let (open, torn_lines) = open_changes(text);
            assert_eq!(
                open.iter().map(|(entry, _)| *entry).collect::<Vec<_>>(),
                *expected,
                "{text}"
            );
            assert_eq!(torn_lines, *torn, "{text}");
        }
    }

    #[test]
    fn the_file_is_there_exactly_while_something_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let files = || fs::read_dir(dir.path()).unwrap().count();
        let journal = Journal::open(dir.path()).unwrap();
        assert_eq!(files(), 0);
        let (first, second) =
            (journal.begin(&change("2")).unwrap(), journal.begin(&change("3")).unwrap());
        journal.end(first).unwrap();
        assert_eq!(files(), 1);
        journal.end(second).unwrap();
        assert_eq!(files(), 0);
        journal.begin(&change("4")).unwrap();
        assert_eq!(files(), 1);
    }

    #[test]
    fn a_line_cut_off_does_not_swallow_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        journal.begin(&change("2")).unwrap();
        crate::sys::fuse::set(Some(0));
        assert!(journal.begin(&change("3")).is_err(), "as on a full disk");
        crate::sys::fuse::set(None);
        journal.begin(&change("4")).unwrap();
        drop(journal);
        let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        let left = Left::take(&path, &Host::default(), "another boot").unwrap().unwrap();
        let open: Vec<Change> = left.open.iter().map(|(_, change)| change.clone()).collect();
        assert_eq!((open, left.torn_lines), (vec![change("4"), change("2")], 1));
    }

    #[test]
    fn only_the_journal_of_a_dead_process_is_taken_and_by_one_only() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::default();
        let me = Writer::this_process().unwrap();
        let take = |boot_id: &str| {
            let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
            Left::take(&path, &host, boot_id).unwrap()
        };
        let journal = Journal::open(dir.path()).unwrap();
        journal.begin(&change("2")).unwrap();
        assert!(take(&me.boot_id).is_none(), "its writer lives");
        assert!(take("another boot").is_none(), "its writer holds the lock");
        drop(journal);
        let taken = take("another boot").expect("the machine was rebooted");
        assert_eq!(taken.open, [(1, change("2"))]);
        assert!(take("another boot").is_none(), "a restorer holds the lock");
        drop(taken);
        fs::remove_file(fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path()).unwrap();

        let earlier = Writer { start_ticks: me.start_ticks - 1, ..me.clone() };
        Journal::with_writer(dir.path(), earlier).unwrap().begin(&change("2")).unwrap();
        assert!(take(&me.boot_id).is_some(), "its pid was used again");
    }
}
