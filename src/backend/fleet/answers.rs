//! Files of answers: a task appends a line for each run, and the controller reads new lines. An incomplete
//! line does not count: each line begins with its digest.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::folder::{Copy, JobFolder};
use super::wire::{Line, Subject};
use crate::model::MAX_LINE_BYTES;

/// Number of bytes per read.
const CHUNK_BYTES: usize = 1 << 20;
/// A line on a network file system may look damaged at first and be complete a little later.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file of one copy of a task, which alone writes it.
pub struct AnswerWriter {
    path: PathBuf,
    file: Option<File>,
    /// Length of the complete lines in bytes.
    end: u64,
}

impl AnswerWriter {
    pub fn new(path: PathBuf) -> AnswerWriter {
        AnswerWriter { path, file: None, end: 0 }
    }

    /// Appends a line. After each fault, such as a full disk, `again` decides whether to try again.
    pub fn append(
        &mut self,
        line: &[u8],
        again: &mut dyn FnMut(&io::Error) -> bool,
    ) -> io::Result<()> {
        loop {
            match self.try_append(line) {
                Ok(()) => {
                    self.end += line.len() as u64;
                    return Ok(());
                }
                Err(error) if !again(&error) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Overwrites what a failed attempt left.
    fn try_append(&mut self, line: &[u8]) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?,
        };
        file.write_all_at(line, self.end)?;
        file.sync_data()?;
        self.file = Some(file);
        Ok(())
    }
}

/// Makes the file of a copy that begins. Slurm's count of restarts is not unique: a slurmctld that was killed
/// may start a task again with the same count. Such a copy takes the next free number.
pub fn claim(
    folder: &JobFolder,
    mut copy: Copy,
    again: &mut dyn FnMut(&io::Error) -> bool,
) -> io::Result<Copy> {
    loop {
        match File::create_new(folder.answers_of(copy)) {
            Ok(_) => return Ok(copy),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => copy.restart += 1,
            Err(error) if !again(&error) => return Err(error),
            Err(_) => {}
        }
    }
}

/// Where an answer is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The position of its file.
    pub file: usize,
    offset: u64,
    bytes: usize,
}

/// All files of a plan's answers.
pub struct AnswerReader {
    folder: JobFolder,
    files: Vec<Tailed>,
    by_copy: HashMap<Copy, usize>,
}

struct Tailed {
    copy: Copy,
    /// Lines before this offset have been read.
    offset: u64,
    /// Since when the next line has been damaged.
    stuck: Option<Instant>,
}

impl AnswerReader {
    pub fn new(folder: JobFolder) -> AnswerReader {
        AnswerReader { folder, files: Vec::new(), by_copy: HashMap::new() }
    }

    /// The copy of a task that wrote the file at this position.
    pub fn copy(&self, file: usize) -> Copy {
        self.files[file].copy
    }

    pub fn path(&self, file: usize) -> PathBuf {
        self.folder.answers_of(self.files[file].copy)
    }

    /// Reads the new lines. A file that cannot be read now is read the next time. `rubbish` gets the path of
    /// each file with a line that is not an answer; that line is skipped.
    pub fn scan(
        &mut self,
        on_line: &mut dyn FnMut(Place, Line),
        rubbish: &mut dyn FnMut(&Path),
    ) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.answers())?.flatten() {
            let name = entry.file_name();
            let Some(copy) = name.to_str().and_then(Copy::parse) else { continue };
            let next = self.files.len();
            let at = *self.by_copy.entry(copy).or_insert(next);
            if at == next {
                self.files.push(Tailed { copy, offset: 0, stuck: None });
            }
            let file = &mut self.files[at];
            let has_more = entry.metadata().is_ok_and(|about| about.len() > file.offset);
            if has_more && let Ok(open) = File::open(entry.path()) {
                file.read(at, &open, on_line, &mut || rubbish(&entry.path()));
            }
        }
        Ok(())
    }

    /// The line at a place, once more.
    pub fn read(&self, place: &Place) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; place.bytes];
        File::open(self.path(place.file))?.read_exact_at(&mut bytes, place.offset)?;
        Ok(bytes)
    }
}

/// The subjects of a file's complete lines.
pub fn subjects_in(path: &Path) -> io::Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    let copy = Copy { array: 0, restart: 0, task: 0 };
    let mut all = Tailed { copy, offset: 0, stuck: None };
    let mut on_line = |_: Place, line: Line| subjects.push(line.subject);
    all.read(0, &File::open(path)?, &mut on_line, &mut || ());
    Ok(subjects)
}

impl Tailed {
    fn read(
        &mut self,
        number: usize,
        file: &File,
        on_line: &mut dyn FnMut(Place, Line),
        rubbish: &mut dyn FnMut(),
    ) {
        let mut bytes = Vec::new();
        loop {
            let from = self.offset + bytes.len() as u64;
            let Ok(more) = chunk(file, from) else { return };
            if more.is_empty() {
                return;
            }
            bytes.extend(more);
            let mut done = 0;
            while let Some(end) = bytes[done..].iter().position(|byte| *byte == b'\n') {
                let text = &bytes[done..done + end];
                let place =
                    Place { file: number, offset: self.offset + done as u64, bytes: text.len() };
                match Line::parse(text) {
                    Some(line) => on_line(place, line),
                    None if self.stuck.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {
                        self.offset += done as u64;
                        return;
                    }
                    None => rubbish(),
                }
                self.stuck = None;
                done += end + 1;
            }
            self.offset += done as u64;
            bytes.drain(..done);
            if bytes.len() as u64 > MAX_LINE_BYTES {
                rubbish();
                self.offset += bytes.len() as u64;
                bytes.clear();
            }
        }
    }
}

fn chunk(file: &File, from: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; CHUNK_BYTES];
    let read = file.read_at(&mut bytes, from)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fleet::wire::{self, RunName};

    fn made() -> (tempfile::TempDir, JobFolder) {
        let temporary = tempfile::tempdir().unwrap();
        let folder = JobFolder(temporary.path().to_path_buf());
        fs::create_dir(folder.answers()).unwrap();
        (temporary, folder)
    }

    fn line(seed: u64) -> Vec<u8> {
        let name = RunName { spec: 5, seed };
        wire::line(Subject::Run(name), &"an answer".repeat(seed as usize)).unwrap()
    }

    /// The seeds of the lines that are new, and the files with rubbish.
    fn scan(reader: &mut AnswerReader) -> (Vec<u64>, usize) {
        let (mut seeds, mut rubbish) = (Vec::new(), 0);
        let mut places = Vec::new();
        let mut on_line = |place: Place, line: Line| {
            if let Subject::Run(name) = line.subject {
                seeds.push(name.seed);
                places.push((place, line.json.to_vec()));
            }
        };
        reader.scan(&mut on_line, &mut |_| rubbish += 1).unwrap();
        for (place, json) in places {
            let again = reader.read(&place).unwrap();
            assert_eq!(Line::parse(&again).unwrap().json, json);
        }
        seeds.sort();
        (seeds, rubbish)
    }

    #[test]
    fn lines_are_read_once_when_they_are_whole() {
        let (_temporary, folder) = made();
        let at = |restart| folder.answers_of(Copy { array: 1, restart, task: 0 });
        let mut reader = AnswerReader::new(folder.clone());
        assert_eq!(scan(&mut reader).0, [0; 0]);
        let mut first = AnswerWriter::new(at(0));
        first.append(&line(1), &mut |_| false).unwrap();
        assert_eq!(scan(&mut reader).0, [1]);
        assert_eq!(scan(&mut reader).0, [0; 0]);
        // Half a line, as a node that died leaves it.
        let (second, end) = (line(2), first.end);
        let file = OpenOptions::new().write(true).open(at(0)).unwrap();
        file.write_all_at(&second[..40], end).unwrap();
        AnswerWriter::new(at(1)).append(&line(300_000), &mut |_| false).unwrap();
        fs::write(folder.answers().join("other"), line(9)).unwrap();
        assert_eq!(scan(&mut reader).0, [300_000]);
        first.append(&second, &mut |_| false).unwrap();
        assert_eq!(scan(&mut reader).0, [2]);
    }

    #[test]
    fn two_copies_with_one_restart_count_have_files_of_their_own() {
        let (_temporary, folder) = made();
        let copy = Copy { array: 1, restart: 2, task: 0 };
        let restarts = [(); 3].map(|()| claim(&folder, copy, &mut |_| false).unwrap().restart);
        assert_eq!(restarts, [2, 3, 4]);
    }

    #[test]
    fn a_line_that_stays_wrong_is_left_out_after_a_while() {
        let (_temporary, folder) = made();
        let file = folder.answers_of(Copy { array: 1, restart: 0, task: 0 });
        fs::write(&file, [&line(1), &b"rubbish\n"[..], &line(2)].concat()).unwrap();
        let mut reader = AnswerReader::new(folder);
        assert_eq!(scan(&mut reader), (vec![1], 0));
        assert_eq!(scan(&mut reader), (vec![], 0));
        reader.files[0].stuck = Instant::now().checked_sub(PATIENCE);
        assert_eq!(scan(&mut reader), (vec![2], 1));
    }

    #[test]
    fn a_full_disk_is_waited_for() {
        let (_temporary, folder) = made();
        fs::remove_dir(folder.answers()).unwrap();
        let missing = folder.answers();
        let mut writer = AnswerWriter::new(missing.join("1-0.0"));
        let mut faults = 0;
        let mut again = |_: &io::Error| {
            faults += 1;
            if faults == 3 {
                fs::create_dir(&missing).unwrap();
            }
            true
        };
        writer.append(&line(1), &mut again).unwrap();
        assert_eq!(faults, 3);
        assert_eq!(scan(&mut AnswerReader::new(folder)).0, [1]);
    }
}
