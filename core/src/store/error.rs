//! The errors of a store, with the file and a way out.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_CONSTRAINT_FOREIGNKEY, SQLITE_IOERR_SHMSIZE};
use thiserror::Error;

use super::damage::Damage;
use super::files;
use super::place::{Kept, Loss, default_path};
use crate::model::Advice;
use crate::model::{RunKey, clean_start, quoted};

/// `action` completes "cannot ...".
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("cannot find where results belong: {why}")]
    NoHome { why: String },
    #[error(
        "no results are stored: {} {}", path.display(),
        if *is_there { "is empty" } else { "does not exist" }
    )]
    Missing { path: PathBuf, is_there: bool },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: String, path: PathBuf, source: io::Error },
    #[error("{} is not a schedlab database: {why}", path.display())]
    Foreign { path: PathBuf, why: String },
    #[error(
        "{} was written by a newer schedlab: it has format {found}, and this one knows formats up to {known}",
        path.display()
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{} was written by an older schedlab (format {found}, now {known}) and cannot be brought up to date here",
        path.display()
    )]
    Older { path: PathBuf, found: i64, known: i64 },
    #[error("cannot {action}: {} is read-only", path.display())]
    ReadOnly { action: String, path: PathBuf },
    #[error("cannot {action}: no space is left for {}; what was stored before is intact", path.display())]
    Full { action: String, path: PathBuf },
    /// `measured`: a plan was, and can go on.
    #[error("{}: {}", describe_loss(path, lost), describe_kept(kept))]
    Lost { path: PathBuf, lost: Loss, kept: Kept, measured: bool },
    #[error("cannot {action}: another process holds {}", path.display())]
    Busy { action: String, path: PathBuf },
    /// `id`: of the plan or score that is, where the rest of the file can be read.
    #[error("cannot {action}: {} is damaged: {why}", path.display())]
    Damaged { action: String, path: PathBuf, why: String, id: Option<String> },
    /// The disk did not give a part of the file, of which all that it gives is sound.
    #[error("cannot {action} in {}: disk I/O error in a read", path.display())]
    Unread { action: String, path: PathBuf },
    /// Something that was stored is not there.
    #[error("{} is damaged: {gone}", path.display())]
    Incomplete { path: PathBuf, gone: Damage },
    #[error("cannot {action} in {}: {}", path.display(), without_statement(source))]
    Sqlite { action: String, path: PathBuf, source: rusqlite::Error },
    #[error("no plan `{id}` is stored in {}", path.display())]
    UnknownPlan { id: String, path: PathBuf },
    #[error("no score `{id}` is stored in {}", path.display())]
    UnknownScore { id: String, path: PathBuf },
    #[error("score `{id}` is stored in {} already, and is another", path.display())]
    ScoreStored { id: String, path: PathBuf },
    #[error("plan `{id}` is stored in {} already, and is not the same", path.display())]
    PlanStored { id: String, path: PathBuf },
    #[error("plan `{id}` cannot be resumed: {what} differs from what is stored in {}", path.display())]
    PlanDiffers { id: String, what: &'static str, path: PathBuf },
    #[error("round {} of cell {} of plan `{id}` is stored in {} already", key.round, key.cell, path.display())]
    RunStored { id: String, key: RunKey, path: PathBuf },
    /// The stream of events does not hold together.
    #[error("cannot {action} in {}: {why}", path.display())]
    Event { action: String, path: PathBuf, why: String },
    #[error("the event stream has version {found}, and this schedlab knows versions up to {known}")]
    Schema { found: u64, known: u32 },
    #[error("line {line} is not an event: {why}")]
    Malformed { line: u64, why: String },
    #[error(
        "line {line} has the event `{}`, which this schedlab does not know",
        clean_start(event, 60)
    )]
    UnknownEvent { line: u64, event: String },
    /// A plan, a run or a note that comes from outside cannot be one of ours.
    #[error("{0}")]
    Unsound(String),
    #[error("line {line} cannot be imported: {source}")]
    Line { line: u64, source: Box<StoreError> },
    /// An error in one of several files.
    #[error("{name}: {source}")]
    Source { name: String, source: Box<StoreError> },
    #[error("{} and {} are not parts of one plan: {what} differs", parts[0], parts[1])]
    PartsOfOthers { parts: Box<[String; 2]>, what: String },
    #[error("{} and {} do not fit: one plan was cut in different numbers of parts", parts[0], parts[1])]
    PartsCutOtherwise { parts: Box<[String; 2]> },
    #[error("{part} has round {} of cell {}, which is of another part", key.round, key.cell)]
    NotOfPart { part: String, key: RunKey },
    #[error("{} and {} have different answers to the same run: round {} of {cell}", parts[0], parts[1], key.round)]
    AnswersDiffer { parts: Box<[String; 2]>, key: RunKey, cell: String },
    #[error(
        "{} was written by an older schedlab: it has format {found}, and format {known} is imported",
        path.display()
    )]
    OlderSource { path: PathBuf, found: i64, known: i64 },
    #[error("cannot read line {line} of the event stream: {source}")]
    Input { line: u64, source: io::Error },
    #[error("{} is there already", path.display())]
    Exists { path: PathBuf },
    #[error("cannot write {}: {why}", path.display())]
    Parquet { path: PathBuf, why: String },
    #[error("cannot write the event stream: {0}")]
    Output(io::Error),
}

impl Advice for StoreError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        let elsewhere = "name another file: --db results.db";
        Some(Cow::from(match self {
            Self::NoHome { .. } => format!("set HOME or XDG_DATA_HOME, or {elsewhere}"),
            Self::Missing { path, .. } => format!("measure something first: schedlab run{}", named(path)),
            Self::Io { .. } | Self::Foreign { .. } => elsewhere.to_string(),
            Self::Newer { .. } => {
                format!("update schedlab, or leave that file alone and {elsewhere}")
            }
            Self::Older { path, .. } | Self::ReadOnly { path, .. } => {
                format!("make it and its folder writable: ls -ld {}; or {elsewhere}", file_and_folder(path))
            }
            Self::Full { action, path } => full_hint(action, path),
            Self::Lost { kept: Kept::At(kept), measured, .. } => kept_hint(kept, *measured),
            Self::Lost { .. } => elsewhere.to_string(),
            Self::Busy { path, .. } => format!("see who does: fuser -v {}", word(path)),
            Self::Damaged { path, id: Some(id), .. } => damaged_hint(path, id),
            Self::Incomplete { path, .. } => rest_hint(path),
            Self::Sqlite { path, source, .. }
                if source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) =>
            {
                let folder = word(path.parent().unwrap_or(path));
                format!("is the disk full, or a file limited in size? df -h {folder}; ulimit -f; or {elsewhere}")
            }
            Self::Unread { .. } => format!("does the disk fail? dmesg | tail; or {elsewhere}"),
            Self::Damaged { path, .. } | Self::Sqlite { path, .. } => {
                let path = word(path);
                format!("look at it: sqlite3 {path} 'PRAGMA integrity_check'; or {elsewhere}")
            }
            Self::UnknownPlan { path, .. } => {
                format!("see what is stored: schedlab list runs{}", named(path))
            }
            Self::UnknownScore { path, .. } => {
                format!("see what is stored: schedlab list scores{}", named(path))
            }
            Self::PlanStored { id, path } | Self::ScoreStored { id, path } => format!(
                "nothing was stored; look at the stored one: schedlab show {id} --db {path}; to keep both: schedlab \
                 import FILE --db NEW.db; in its place: schedlab rm {id} --db {path}, then import",
                path = word(path)
            ),
            Self::PlanDiffers { .. } => "start it anew: schedlab run PLAN".to_string(),
            Self::Event { .. } => {
                "events begin with plan_started; schedlab help formats --all has their order".to_string()
            }
            Self::Schema { .. } => "update schedlab: schedlab --version".to_string(),
            Self::RunStored { .. }
            | Self::Malformed { .. }
            | Self::UnknownEvent { .. }
            | Self::Unsound(_) => {
                FORMAT_HINT.to_string()
            }
            Self::Line { source, .. } if source.is_of_events() => FORMAT_HINT.to_string(),
            Self::Line { source, .. } | Self::Source { source, .. } => return source.hint(),
            Self::PartsOfOthers { .. } => {
                "nothing was stored; import the parts of each plan by themselves".to_string()
            }
            Self::PartsCutOtherwise { .. } => {
                "nothing was stored; run all parts with one number behind the slash: --shard 1/16".to_string()
            }
            Self::NotOfPart { .. } => {
                "nothing was stored; give what `schedlab export` wrote of the part".to_string()
            }
            Self::AnswersDiffer { .. } => {
                "nothing was stored; a host measures anew each time: import one of them, or run the plan again with \
                 another --seed. Answers of the lab are exact: schedlab run PLAN --backend lab --verify"
                    .to_string()
            }
            Self::OlderSource { path, .. } => {
                format!("bring it up to date first: schedlab list runs --db {}", word(path))
            }
            Self::Input { .. } => "is the whole file there? wc -l FILE".to_string(),
            Self::Exists { .. } => "replace it: --overwrite; or another folder: -o DIR".to_string(),
            Self::Parquet { path, .. } => {
                let folder = path.parent().unwrap_or(path);
                format!("write to a folder on a disk with space: df -h {}", word(folder))
            }
            Self::Output(_) => "write to a file on a disk with space: df -h".to_string(),
        }))
    }

    fn is_usage(&self) -> bool {
        match self {
            Self::Foreign { .. }
            | Self::Malformed { .. }
            | Self::UnknownEvent { .. }
            | Self::Unsound(_) => true,
            Self::Input { source, .. } => source.kind() == io::ErrorKind::InvalidData,
            Self::Line { source, .. } => source.is_of_events() || source.is_usage(),
            Self::Source { source, .. } => source.is_usage(),
            _ => false,
        }
    }
}

const FORMAT_HINT: &str = "give what `schedlab export` wrote; schedlab help formats describes it";
/// An import does this, in a message.
pub(super) const IMPORT: &str = "import";
pub(super) const JOIN: &str = "join the parts of a plan";

impl StoreError {
    /// A conversion for `map_err`.
    pub(super) fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let (action, path) = (action.to_string(), path.to_path_buf());
        move |source| StoreError::Io { action, path, source }
    }

    /// Whether events do not fit what came before them: in a file that is imported, the file is wrong.
    fn is_of_events(&self) -> bool {
        matches!(self, Self::PlanDiffers { .. } | Self::RunStored { .. } | Self::Event { .. })
    }

    /// The error of an event that was imported: nothing that was measured is to be stored.
    pub(super) fn in_import(self) -> StoreError {
        match self {
            StoreError::Full { path, .. } => StoreError::Full { action: IMPORT.to_string(), path },
            other => other,
        }
    }

    /// Where it came from, if there is a name.
    pub(super) fn in_source(self, name: &str) -> StoreError {
        if name.is_empty() {
            self
        } else {
            StoreError::Source { name: name.to_string(), source: Box::new(self) }
        }
    }
}

fn describe_loss(path: &Path, lost: &Loss) -> String {
    let path = path.display();
    match lost {
        Loss::Removed => format!("{path} was removed or renamed while results were stored in it"),
        Loss::Replaced => format!(
            "another file has taken the place of {path} while results were stored there; it was not written to"
        ),
        Loss::Overwritten => format!(
            "another program wrote to {path} or its journal while results were stored there; the file is not sound"
        ),
        Loss::Journal(journal) => {
            format!("{} was removed while results were stored in {path}", journal.display())
        }
    }
}

fn describe_kept(kept: &Kept) -> String {
    match kept {
        Kept::At(kept) => format!("all that was stored until now is in {}", kept.display()),
        Kept::Nowhere(why) => format!("what was stored is lost: {why}"),
    }
}

fn kept_hint(kept: &Path, measured: bool) -> String {
    let db = word(kept);
    let then = if measured {
        format!("go on: schedlab run --resume --db {db}")
    } else {
        format!("or: schedlab list scores --db {db}")
    };
    format!("see what is there: schedlab list runs --db {db}; {then}")
}

fn damaged_hint(path: &Path, id: &str) -> String {
    let (id, db) = (quoted(id), word(path));
    format!("remove it: schedlab rm {id} --db {db}; then import it again, or measure it again")
}

fn rest_hint(path: &Path) -> String {
    let db = word(path);
    format!(
        "take what is left: schedlab export --db {db} > left.jsonl; then: schedlab import left.jsonl"
    )
}

/// An import is stored whole or not at all; what was measured goes on.
fn full_hint(action: &str, path: &Path) -> String {
    let folder = word(path.parent().unwrap_or(path));
    let then = match action {
        IMPORT | JOIN => "give the command again: nothing that came is stored".to_string(),
        _ => format!(
            "give the command again; a plan that was measured goes on with what is missing: schedlab run \
             --resume --db {}",
            word(path)
        ),
    };
    format!("free some space (df -h {folder} /var/tmp), then {then}")
}

/// The file and its folder, for `ls -ld`.
fn file_and_folder(path: &Path) -> String {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => format!("{} {}", word(folder), word(path)),
        None => word(path),
    }
}

/// The words that name a store, with a space before them; none for the default one.
fn named(path: &Path) -> String {
    if default_path().is_ok_and(|default| default == path) {
        String::new()
    } else {
        format!(" --db {}", word(path))
    }
}

/// A path in a command.
fn word(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A fault inside the store, before the file and the action are known.
#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Event(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Fault {
    /// Whether it is content that was never written, and the file itself can be read.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Fault::Damaged(_) => true,
            Fault::Sqlite(source) => is_unexpected_content(source),
            _ => false,
        }
    }

    /// As [`Fault::at`], where only what is stored of one plan or score was read.
    pub(super) fn within(self, id: &str, action: impl Into<String>, path: &Path) -> StoreError {
        let is_damage = self.is_damage();
        match self.at(action, path) {
            StoreError::Damaged { action, path, why, .. } if is_damage => {
                StoreError::Damaged { action, path, why, id: Some(id.to_string()) }
            }
            other => other,
        }
    }

    pub(super) fn at(self, action: impl Into<String>, path: &Path) -> StoreError {
        let (action, path) = (action.into(), path.to_path_buf());
        let extended = match &self {
            Fault::Sqlite(source) => source.sqlite_error().map(|error| error.extended_code),
            _ => None,
        };
        match self {
            Fault::Store(error) => error,
            Fault::Damaged(why) => StoreError::Damaged { action, path, why, id: None },
            Fault::Event(why) => StoreError::Event { action, path, why },
            Fault::Sqlite(source) => match source.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation)
                    if extended == Some(SQLITE_CONSTRAINT_FOREIGNKEY) =>
                {
                    let why = "its plan was removed meanwhile".to_string();
                    StoreError::Damaged { action, path, why, id: None }
                }
                // Only events can: a window twice, for example.
                Some(ErrorCode::ConstraintViolation) => {
                    let why = format!("it is there already: {}", without_statement(&source));
                    StoreError::Event { action, path, why }
                }
                Some(ErrorCode::DiskFull) => StoreError::Full { action, path },
                // The WAL's index is a file next to it, and fails to grow first.
                Some(ErrorCode::SystemIoFailure) if extended == Some(SQLITE_IOERR_SHMSIZE) => {
                    StoreError::Full { action, path }
                }
                Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { action, path },
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    StoreError::Busy { action, path }
                }
                Some(ErrorCode::DatabaseCorrupt) if files::are_sound(&path) => {
                    StoreError::Unread { action, path }
                }
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    StoreError::Damaged { action, path, why: without_statement(&source), id: None }
                }
                _ if is_unexpected_content(&source) => {
                    StoreError::Damaged { action, path, why: source.to_string(), id: None }
                }
                _ => StoreError::Sqlite { action, path, source },
            },
        }
    }
}

/// SQLite's words about a fault, without the statement, which helps no reader.
fn without_statement(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// A column that holds what this program never writes there.
fn is_unexpected_content(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
    };
    matches!(
        error,
        FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | Utf8Error(..)
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn faults_of_sqlite_are_what_a_user_can_do_something_about() {
        let named = |error: &StoreError| match error {
            StoreError::Damaged { why, .. } if why.starts_with("its plan was removed") => "removed",
            StoreError::Damaged { .. } => "damaged",
            StoreError::Event { .. } => "event",
            StoreError::Full { .. } => "full",
            StoreError::ReadOnly { .. } => "read-only",
            StoreError::Busy { .. } => "busy",
            StoreError::Sqlite { .. } => "sqlite",
            other => panic!("{other:?}"),
        };
        let at = |error| Fault::from(error).at("store runs", Path::new("/no/such.db"));
        for (code, expected) in [
            (ffi::SQLITE_CONSTRAINT_FOREIGNKEY, "removed"),
            (ffi::SQLITE_CONSTRAINT_PRIMARYKEY, "event"),
            (ffi::SQLITE_FULL, "full"),
            (ffi::SQLITE_IOERR_SHMSIZE, "full"),
            (ffi::SQLITE_IOERR_READ, "sqlite"),
            (ffi::SQLITE_READONLY_DBMOVED, "read-only"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "busy"),
            (ffi::SQLITE_LOCKED, "busy"),
            (ffi::SQLITE_CORRUPT, "damaged"),
            (ffi::SQLITE_NOTADB, "damaged"),
            (ffi::SQLITE_NOMEM, "sqlite"),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = at(error);
            assert_eq!(named(&error), expected, "{code}");
            let is_io = code == ffi::SQLITE_IOERR_READ;
            let hint = error.problem().hint.unwrap_or_default();
            assert_eq!(hint.contains("ulimit -f"), is_io, "{code}: {hint}");
        }
        assert_eq!(named(&at(rusqlite::Error::IntegralValueOutOfRange(0, 7))), "damaged");
        assert_eq!(named(&at(rusqlite::Error::QueryReturnedNoRows)), "sqlite");
    }
}
