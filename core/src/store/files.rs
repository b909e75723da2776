//! A database's files: a connection to them, and whether they are sound.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::ffi::{SQLITE_IOERR, SQLITE_IOERR_SHORT_READ};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::sys::sqlite;

/// The longest wait for another process's transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const LOOKS: u32 = 2;

/// Opens with URI parameters. Every byte that a URI could misread is escaped.
pub(super) fn open(
    path: &Path,
    parameters: &str,
    flags: OpenFlags,
) -> rusqlite::Result<Connection> {
    let mut uri = "file://".to_string();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str(parameters);
    sqlite::keep_journals_in_memory();
    let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags)
}

/// Whether they are no sound database for whoever opens them now. A file that cannot be looked at at the moment is not
/// called damaged. SQLite calls a page that the disk does not give damaged, too: what the first look says, a second one
/// has to say.
pub(super) fn are_damaged(path: &Path) -> bool {
    (0..LOOKS).all(|_| look(path) == Look::Damaged)
}

/// Whether they are sound, or would be if the disk gave all of them.
pub(super) fn are_sound(path: &Path) -> bool {
    look(path) == Look::Sound
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Sound,
    Damaged,
    /// Another process has them, or they cannot be opened.
    Unknown,
}

fn look(path: &Path) -> Look {
    let check = || -> rusqlite::Result<String> {
        let conn = open(path, "?mode=ro", OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
    };
    match check() {
        Ok(said) if said == "ok" || is_of_the_disk(&said) => Look::Sound,
        Ok(_) => Look::Damaged,
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Look::Damaged,
            _ => Look::Unknown,
        },
    }
}

/// Whether a fault that `integrity_check` found is a page that could not be read: it gives SQLite's extended error code.
fn is_of_the_disk(said: &str) -> bool {
    let code =
        said.rsplit_once("error code=").and_then(|(_, code)| code.trim().parse::<i32>().ok());
    // A file that was cut off gives too little, and the disk is sound.
    code.is_some_and(|code| code & 0xff == SQLITE_IOERR && code != SQLITE_IOERR_SHORT_READ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_disk_does_not_give_is_no_damage() {
        let said = |code| {
            format!(
                "*** in database main ***\nTree 2 page 2: unable to get the page. error code={code}"
            )
        };
        assert!([10, 266, 8458].into_iter().all(|code| is_of_the_disk(&said(code))));
        assert!(![11, SQLITE_IOERR_SHORT_READ].into_iter().any(|code| is_of_the_disk(&said(code))));
        assert!(!is_of_the_disk("*** in database main ***\nFreelist: size is 3 but should be 4"));
    }
}
