//! Results are saved whose database is no longer where it was opened.
//!
//! A file that was removed or renamed takes what is stored as before, and nobody would find it. Another file
//! in its place is never written to: SQLite writes to the file that it has opened. But it would read the
//! journal next to it as its own, so that is emptied first.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::connection::{Store, place_of};
use super::error::{Fault, StoreError};
use super::open::{BUSY_TIMEOUT, pragma};
use super::place::{Kept, Loss, Place};

/// Where a copy goes whose own folder is gone.
const REFUGE: &str = "/var/tmp";
const MAX_COPIES: u32 = 1000;

impl Store {
    /// Fails where what was stored is not at the path of the store, and says where it is. What was committed
    /// before is in the files that are open.
    pub fn check_place(&mut self) -> Result<(), StoreError> {
        let Some(lost) = self.place.as_ref().and_then(Place::loss) else { return Ok(()) };
        if matches!(lost, Loss::Journal(_)) && self.renew_journal().is_ok() {
            return Ok(());
        }
        let path = self.path.clone();
        let kept = self.rescue(&lost).map_err(|fault| fault.at("copy what is stored", &path));
        let kept = kept.map_or_else(|why| Kept::Nowhere(why.to_string()), Kept::At);
        // A second report would say nothing new.
        self.place = None;
        Err(StoreError::Lost { path, lost, kept, measured: self.measured })
    }

    /// Writes the journal back and begins another one, if nobody else has the database open: he may have
    /// begun one already.
    fn renew_journal(&mut self) -> Result<(), Fault> {
        let mode = |mode: &str| -> rusqlite::Result<String> {
            self.conn.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0))
        };
        // The write-back needs the file alone.
        self.conn.busy_timeout(Duration::ZERO)?;
        let renewed = mode("DELETE").and_then(|_| mode("WAL"));
        self.conn.busy_timeout(BUSY_TIMEOUT)?;
        renewed?;
        pragma(&self.conn, "user_version")?;
        self.place = Some(place_of(&self.path)?);
        Ok(())
    }

    fn rescue(&self, lost: &Loss) -> Result<PathBuf, Fault> {
        if let Some(place) = self.place.as_ref().filter(|_| !matches!(lost, Loss::Journal(_))) {
            // The file in its place would take the journal for its own.
            let is_left = pragma(&self.conn, "wal_checkpoint(TRUNCATE)")?;
            if let Some(renamed) = place.renamed().filter(|_| is_left == 0) {
                return Ok(renamed);
            }
        }
        // SQLite takes names in UTF-8.
        let is_usable = |folder: &&Path| folder.is_dir() && folder.to_str().is_some();
        let folder = self.path.parent().filter(is_usable);
        copy_into(&self.conn, folder.unwrap_or(Path::new(REFUGE)), &self.path)
    }
}

/// Copies the database to a name that is free.
fn copy_into(conn: &Connection, folder: &Path, path: &Path) -> Result<PathBuf, Fault> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let io = |path: &Path, source: io::Error| {
        let (action, path) = ("write".to_string(), path.to_path_buf());
        Fault::from(StoreError::Io { action, path, source })
    };
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
