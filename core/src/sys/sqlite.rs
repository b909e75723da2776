//! A setting of SQLite that counts for the whole process.

use std::sync::Once;

use rusqlite::ffi;

/// A statement that is undone takes back the pages that it changed. SQLite keeps them in memory up to this size, and
/// beyond it in a file of the folder for temporary files.
const ALWAYS_IN_MEMORY: i32 = -1;

/// Keeps the journals of statements in memory: a file of them would stay where a kill comes between its making and its
/// removal. Does nothing after the first database of the process was opened.
pub fn keep_journals_in_memory() {
    static FIRST: Once = Once::new();
    // SAFETY: SQLite takes an int with this option, and refuses it once it is initialised.
    FIRST.call_once(|| {
        _ = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_STMTJRNL_SPILL, ALWAYS_IN_MEMORY) }
    });
}
