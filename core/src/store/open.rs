//! Opening a database: whose it is, how old it is, and bringing it up to date.
//!
//! A file is first looked at without locks and without touching it or its journals, so
//! that what is not ours stays as it is. Ours carries [`APPLICATION_ID`] from its first
//! transaction on, and `user_version` counts its migrations.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::error::{Fault, StoreError};
use super::files::{self, BUSY_TIMEOUT};
use super::migrate::{MIGRATIONS, known_format};
use crate::model::MAX_LINE_BYTES;

/// The action that messages about opening name.
const OPEN: &str = "open the database";
/// "schL", in the header of each of our files (`file` and SQLite's own tools show it).
pub(super) const APPLICATION_ID: i64 = 0x7363_684c;

/// The longest text or blob in a database from elsewhere.
pub(super) const MAX_FOREIGN_BYTES: i32 = MAX_LINE_BYTES as i32;
/// It has what a transaction replaces in the file: until the database is a WAL one, or where it cannot be.
const ROLLBACK_JOURNAL: &str = "-journal";
/// A journal that a large import has grown is cut back to this.
const JOURNAL_LIMIT_BYTES: i64 = 64 << 20;

pub(super) fn for_writing(path: &Path) -> Result<(Connection, PathBuf), StoreError> {
    let path = absolute(path)?;
    if exists(&path)? {
        identify(&path)?;
    } else if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(StoreError::io("create the folder", folder))?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut conn = connect(&path, "", flags)?;
    let at = |fault: Fault| fault.at(OPEN, &path);
    if conn.is_readonly(rusqlite::MAIN_DB).map_err(|error| at(error.into()))? {
        let action = "store results".to_string();
        return Err(StoreError::ReadOnly { action, path });
    }
    migrate(&mut conn, &path).map_err(at)?;
    configure(&conn).map_err(|error| at(error.into()))?;
    Ok((conn, path))
}

pub(super) fn for_reading(path: &Path) -> Result<(Connection, PathBuf), StoreError> {
    let path = absolute(path)?;
    // An empty file is not a store yet, and reading does not make it one.
    let is_empty = |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() == 0);
    let is_there = exists(&path)?;
    if !is_there || (is_empty(&path) && journal_is_empty(&path)) {
        return Err(StoreError::Missing { path, is_there });
    }
    identify(&path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let mut conn = reader(&path)?;
    let mut found = pragma(&conn, "user_version");
    // A killed writer left a change half done, which only a writer takes back.
    if found.is_err() && !is_without(&path, ROLLBACK_JOURNAL) && for_writing(&path).is_ok() {
        conn = connect(&path, "?mode=ro", flags)?;
        found = pragma(&conn, "user_version");
    }
    // Where the folder cannot be written, SQLite cannot share a WAL database, but if no
    // journal is left over then the file is complete and nobody is writing it.
    if found.is_err() && journal_is_empty(&path) {
        conn = connect(&path, "?immutable=1", flags)?;
        found = pragma(&conn, "user_version");
    }
    let at = |error: rusqlite::Error| Fault::from(error).at("read the database", &path);
    let found = found.map_err(at)?;
    conn.busy_timeout(BUSY_TIMEOUT).map_err(at)?;
    check_not_newer(found, &path)?;
    if found < known_format() {
        drop(conn);
        return match for_writing(&path) {
            Ok(_) => for_reading(&path),
            Err(StoreError::ReadOnly { .. } | StoreError::Io { .. }) => {
                Err(StoreError::Older { path, found, known: known_format() })
            }
            Err(other) => Err(other),
        };
    }
    Ok((conn, path))
}

/// A database that anybody may have made: nothing in it is run, and no value may be larger than a line
/// of an export.
pub(super) fn for_import(path: &Path) -> Result<(Connection, PathBuf), StoreError> {
    let path = absolute(path)?;
    if !exists(&path)? {
        return Err(StoreError::Missing { path, is_there: false });
    }
    identify(&path)?;
    let at = |fault: Fault| fault.at("read the database", &path);
    let mut conn = reader(&path)?;
    if distrust(&conn).is_err() && journal_is_empty(&path) {
        conn = connect(&path, "?immutable=1", OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    }
    distrust(&conn).map_err(|error| at(error.into()))?;
    let found = pragma(&conn, "user_version").map_err(|error| at(error.into()))?;
    check_not_newer(found, &path)?;
    if found < known_format() {
        return Err(StoreError::OlderSource { path, found, known: known_format() });
    }
    let own = schema(&conn).map_err(at)?;
    let mut fresh = Connection::open_in_memory().map_err(|error| at(error.into()))?;
    migrate(&mut fresh, &path).map_err(at)?;
    if own != schema(&fresh).map_err(at)? {
        let why = format!("its tables are not those of format {found}");
        return Err(StoreError::Foreign { path, why });
    }
    Ok((conn, path))
}

/// A connection that changes nothing. To read a WAL database SQLite makes its journal and the journal's index, and only
/// a connection that may write removes them at its end: so one that finds an empty journal is such a one.
fn reader(path: &Path) -> Result<Connection, StoreError> {
    if !journal_is_empty(path) {
        return connect(path, "?mode=ro", OpenFlags::SQLITE_OPEN_READ_ONLY);
    }
    let conn = connect(path, "?mode=rw", OpenFlags::SQLITE_OPEN_READ_WRITE);
    conn.or_else(|_| connect(path, "?mode=ro", OpenFlags::SQLITE_OPEN_READ_ONLY))
}

fn distrust(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_FOREIGN_BYTES)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // It is opened by the first question.
    pragma(conn, "user_version").map(drop)
}

/// Tables, indexes and whatever else there is, without blanks and quotes: versions of SQLite write them
/// differently.
fn schema(conn: &Connection) -> Result<BTreeSet<String>, Fault> {
    let mut select = conn.prepare(
        "SELECT type || name || ifnull(sql, '') FROM sqlite_schema
         WHERE substr(name, 1, 7) <> 'sqlite_' OR type NOT IN ('table', 'index')",
    )?;
    let texts = select.query_map([], |row| row.get::<_, String>(0))?;
    let plain = |text: String| text.replace([' ', '\n', '"'], "");
    Ok(texts.map(|text| text.map(plain)).collect::<Result<_, _>>()?)
}

fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(StoreError::io(OPEN, path))
}

/// A pipe or a device is refused here: opening one could wait forever.
fn exists(path: &Path) -> Result<bool, StoreError> {
    match fs::metadata(path) {
        Ok(file) if file.is_dir() => Err(cannot_open(path, io::ErrorKind::IsADirectory.into())),
        Ok(file) if !file.is_file() => {
            Err(cannot_open(path, io::Error::other("it is not a regular file")))
        }
        Ok(_) => Ok(true),
        // The folder's path leads through a file, so the store does not exist either.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(false)
        }
        Err(source) => Err(cannot_open(path, source)),
    }
}

fn cannot_open(path: &Path, source: io::Error) -> StoreError {
    StoreError::io(OPEN, path)(source)
}

/// Refuses what is not ours or is too new. `immutable` makes SQLite read the one file and
/// nothing else: no lock, no recovery of a foreign journal, no file left behind. So ours may
/// be seen while it grows, shorter than its header says (`writable_schema` allows that), and
/// its length is asked for first.
fn identify(path: &Path) -> Result<(), StoreError> {
    if fs::metadata(path).map_err(|source| cannot_open(path, source))?.len() == 0 {
        return Ok(());
    }
    let conn = connect(path, "?immutable=1", OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let foreign = |why: String| StoreError::Foreign { path: path.to_path_buf(), why };
    let refused = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => foreign("it is not an SQLite file".to_string()),
        _ => Fault::from(error).at("read the database", path),
    };
    conn.pragma_update(None, "writable_schema", true).map_err(refused)?;
    let header = |name| pragma(&conn, name).map_err(refused);
    if header("page_count")? == 0 {
        return Err(foreign("it is not an SQLite file".to_string()));
    }
    match header("application_id")? {
        APPLICATION_ID => check_not_newer(header("user_version")?, path),
        other => Err(foreign(format!("its application id is {other:#x}"))),
    }
}

fn check_not_newer(found: i64, path: &Path) -> Result<(), StoreError> {
    let known = known_format();
    if found > known {
        return Err(StoreError::Newer { path: path.to_path_buf(), found, known });
    }
    Ok(())
}

/// Opens with URI parameters.
pub(super) fn connect(
    path: &Path,
    parameters: &str,
    flags: OpenFlags,
) -> Result<Connection, StoreError> {
    files::open(path, parameters, flags).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) => why_not(path, flags)
            .map_or_else(|| Fault::from(error).at(OPEN, path), |why| cannot_open(path, why)),
        _ => Fault::from(error).at(OPEN, path),
    })
}

/// SQLite says only that it cannot open a file: asks the system for the reason.
fn why_not(path: &Path, flags: OpenFlags) -> Option<io::Error> {
    let write = flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
    let create = write && !path.exists();
    OpenOptions::new().read(true).write(write).create_new(create).open(path).err()
}

/// Whether the file alone is the database.
fn journal_is_empty(path: &Path) -> bool {
    is_without(path, "-wal") && is_without(path, ROLLBACK_JOURNAL)
}

/// SQLite has the journal next to the file to which a link leads.
fn is_without(path: &Path, journal: &str) -> bool {
    let mut name = fs::canonicalize(path).unwrap_or_else(|_| path.into()).into_os_string();
    name.push(journal);
    fs::metadata(name).map_or(true, |file| file.len() == 0)
}

pub(super) fn pragma(conn: &Connection, name: &str) -> rusqlite::Result<i64> {
    conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
}

/// All migrations that are missing, in one transaction, before the journal becomes a WAL:
/// so the file's own header says whose it is from the moment that it has one.
fn migrate(conn: &mut Connection, path: &Path) -> Result<(), Fault> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    check_not_newer(pragma(conn, "user_version")?, path)?;
    if pragma(conn, "user_version")? == known_format() {
        return Ok(());
    }
    // Another process may have come first: what counts is read under the lock.
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = pragma(&transaction, "user_version")?;
    check_not_newer(found, path)?;
    for migration in &MIGRATIONS[usize::try_from(found).unwrap_or(0)..] {
        let applied = migration.apply(&transaction);
        applied.map_err(|fault| fault.at(format!("apply {}", migration.name), path))?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known_format())?;
    Ok(transaction.commit()?)
}

fn configure(conn: &Connection) -> rusqlite::Result<()> {
    become_wal(conn)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "temp_store", "FILE")?;
    // The store writes its journal back where it has looked at the files.
    for setting in
        ["wal_autocheckpoint = 0", &format!("journal_size_limit = {JOURNAL_LIMIT_BYTES}")]
    {
        conn.query_row(&format!("PRAGMA {setting}"), [], |_| Ok(()))?;
    }
    Ok(())
}

/// A filesystem without shared memory keeps a rollback journal, which is as durable. The
/// change needs the file alone, and SQLite does not wait for that by itself: while another
/// process opens the same new file, its transaction is waited for, then it is tried again.
fn become_wal(conn: &Connection) -> rusqlite::Result<()> {
    let mut attempts = 100;
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())) {
            Err(error)
                if attempts > 0 && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) =>
            {
                attempts -= 1;
                conn.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
            }
            other => return other,
        }
    }
}
