//! Results are saved whose database is no longer where it was opened.
//!
//! A file that was removed or renamed takes what is stored as before, and nobody would find it. Another file
//! in its place is never written to: SQLite writes to the file that it has opened. But it would read the
//! journal next to it as its own, so that is emptied first. Nor is a database that somebody else wrote to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::connection::{Store, place_of};
use super::error::{Fault, StoreError};
use super::files::{self, BUSY_TIMEOUT};
use super::open::pragma;
use super::place::{Kept, Loss, Place};

/// Where a copy goes whose own folder is gone.
const REFUGE: &str = "/var/tmp";
const MAX_COPIES: u32 = 1000;
/// A larger journal is written back.
const CHECKPOINT_BYTES: u64 = 4 << 20;

impl Store {
    /// Fails where what was stored is not at the path of the store, and says where it is. What was committed
    /// before is in the files that are open.
    pub fn check_place(&mut self) -> Result<(), StoreError> {
        match self.place.as_ref().and_then(Place::loss) {
            None => self.check_files(true).and_then(|()| self.keep_journal_short()),
            Some(Loss::Journal(_)) if self.renew_journal().is_ok() => Ok(()),
            Some(lost) => Err(self.lose(lost)),
        }
    }

    /// As [`Store::check_place`], before this process writes.
    pub(super) fn check_written(&mut self) -> Result<(), StoreError> {
        match self.place.as_ref().and_then(Place::loss) {
            // All that is written yet is in the files that are open.
            Some(_) => Ok(()),
            None => self.check_files(false),
        }
    }

    /// As [`Store::check_place`], and reads all that is stored: for the end of a plan.
    pub fn check_whole(&mut self) -> Result<(), StoreError> {
        self.check_place()?;
        if self.place.is_none() || self.files_are_sound() {
            Ok(())
        } else {
            Err(self.lose(Loss::Overwritten))
        }
    }

    /// Fails where somebody else wrote to the files, and they are sound no longer.
    fn check_files(&mut self, has_committed: bool) -> Result<(), StoreError> {
        let Some(place) = &self.place else { return Ok(()) };
        if place.is_as_left(has_committed) {
            return Ok(());
        }
        if !self.files_are_sound() {
            return Err(self.lose(Loss::Overwritten));
        }
        self.place.as_mut().map(Place::accept);
        Ok(())
    }

    fn lose(&mut self, lost: Loss) -> StoreError {
        let path = self.path.clone();
        let kept = self.rescue(&lost).map_err(|fault| fault.at("copy what is stored", &path));
        let kept = kept.map_or_else(|why| Kept::Nowhere(why.to_string()), Kept::At);
        // A second report would say nothing new.
        self.place = None;
        StoreError::Lost { path, lost, kept, measured: self.measured }
    }

    /// Whether the files are one sound database for whoever opens them now. A file that cannot be looked at at the moment
    /// is not called damaged.
    fn files_are_sound(&self) -> bool {
        // SQLite would remove the journal next to an empty file.
        if fs::metadata(&self.path).is_ok_and(|file| file.len() == 0) {
            return false;
        }
        !files::are_damaged(&self.path)
    }

    /// Writes a long journal back here, where the files have just been looked at: SQLite by itself would write into
    /// whatever they have become.
    fn keep_journal_short(&mut self) -> Result<(), StoreError> {
        let Some(place) = &mut self.place else { return Ok(()) };
        if place.accept() < CHECKPOINT_BYTES {
            return Ok(());
        }
        // Where somebody reads, the rest follows with a later commit.
        let written =
            without_waiting(&self.conn, || pragma(&self.conn, "wal_checkpoint(TRUNCATE)"));
        place.accept();
        written.map(drop).map_err(|fault| fault.at("store runs", &self.path))
    }

    /// Writes the journal back and begins another one, if nobody else has the database open: he may have
    /// begun one already.
    fn renew_journal(&mut self) -> Result<(), Fault> {
        let mode = |mode: &str| -> rusqlite::Result<String> {
            self.conn.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0))
        };
        // The write-back needs the file alone.
        without_waiting(&self.conn, || mode("DELETE").and_then(|_| mode("WAL")))?;
        pragma(&self.conn, "user_version")?;
        self.place = Some(place_of(&self.path)?);
        Ok(())
    }

    fn rescue(&self, lost: &Loss) -> Result<PathBuf, Fault> {
        let is_moved = matches!(lost, Loss::Removed | Loss::Replaced);
        if let Some(place) = self.place.as_ref().filter(|_| is_moved) {
            // The file in its place would take the journal for its own.
            let is_left = pragma(&self.conn, "wal_checkpoint(TRUNCATE)")?;
            if let Some(renamed) = place.renamed().filter(|_| is_left == 0) {
                return Ok(renamed);
            }
        }
        // SQLite takes names in UTF-8.
        let is_usable = |folder: &&Path| folder.is_dir() && folder.to_str().is_some();
        let folder = self.path.parent().filter(is_usable);
        let folder = folder.unwrap_or(Path::new(REFUGE));
        if *lost != Loss::Overwritten {
            return copy_into(&self.conn, folder, &self.path);
        }
        // The file is another's now, or nobody's: only its journal is written to.
        if !self.conn.is_autocommit() {
            self.conn.execute_batch("COMMIT")?;
        }
        self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let copy = copy_into(&self.conn, folder, &self.path)?;
        if let Some(journal) = self.place.as_ref().and_then(Place::journal) {
            let emptied = OpenOptions::new().write(true).open(journal);
            _ = emptied.and_then(|file| file.set_len(0));
        }
        Ok(copy)
    }
}

/// Calls `ask`, which fails or does less where another process holds the database.
fn without_waiting<T>(
    conn: &Connection,
    ask: impl FnOnce() -> rusqlite::Result<T>,
) -> Result<T, Fault> {
    conn.busy_timeout(Duration::ZERO)?;
    let answer = ask();
    conn.busy_timeout(BUSY_TIMEOUT)?;
    Ok(answer?)
}

/// Copies the database to a name that is free.
fn copy_into(conn: &Connection, folder: &Path, path: &Path) -> Result<PathBuf, Fault> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let io = |path, source| Fault::from(StoreError::io("write", path)(source));
    for number in 1..=MAX_COPIES {
        let copy = folder.join(format!("{stem}.kept-{number}.db"));
        match File::create_new(&copy) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(io(&copy, error)),
        }
        let copied = conn
            .execute("VACUUM INTO ?1", [copy.to_string_lossy()])
            .map_err(Fault::from)
            .and_then(|_| {
                let synced = File::open(&copy).and_then(|file| file.sync_all());
                synced.map_err(|error| io(&copy, error))
            });
        if copied.is_err() {
            _ = fs::remove_file(&copy);
        }
        return copied.map(|()| copy);
    }
    Err(io(folder, io::ErrorKind::AlreadyExists.into()))
}
