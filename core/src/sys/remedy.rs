//! Hints for a file or folder that cannot be read or written: by the cause that the system gave, not by the action.
//! Reads nothing.

use std::io::{self, ErrorKind::*};
use std::path::Path;

use super::input::{is_not_utf8, is_wrong_file};
use crate::model::{clean, quoted};

fn word(path: &Path) -> String {
    clean(&quoted(&path.to_string_lossy()))
}

/// The folder in which a file lies, as its path gives it.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The hint for a file that somebody named and that cannot be read.
pub fn read(path: &Path, error: &io::Error) -> String {
    let name = word(path);
    match error.raw_os_error() {
        _ if is_not_utf8(error) => to_utf8(path),
        _ if is_wrong_file(error) => format!("is it the right file? ls -ld {name}"),
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files: ulimit -n".to_string(),
        Some(libc::ELOOP) => format!("a link leads back to itself: readlink {name}"),
        _ => format!("ls -ld {name}"),
    }
}

/// A message names standard input so, in place of a file.
pub const STANDARD_INPUT: &str = "standard input";

/// The hint for a text in another encoding, or for what is no text.
pub fn to_utf8(path: &Path) -> String {
    let convert = "iconv -f latin1 -t utf-8";
    if path.as_os_str() == STANDARD_INPUT {
        return format!("{convert} makes it UTF-8, if it is latin1");
    }
    let name = word(path);
    format!(
        "file {name} names its encoding; if that is latin1: {convert} {name} > FILE makes it UTF-8"
    )
}

/// The hint for a file that somebody named and that cannot be written.
pub fn write(path: &Path, error: &io::Error) -> String {
    let folder = word(folder_of(path));
    match error.kind() {
        InvalidFilename => {
            "a shorter name; while it is written a name longer by 7 letters is next to it"
                .to_string()
        }
        NotFound => format!("its folder must be there: mkdir -p {folder}"),
        NotADirectory => format!("a file stands where a folder has to be: ls -ld {folder}"),
        StorageFull | QuotaExceeded => {
            format!("its folder must have room for a second copy: df -h {folder}")
        }
        PermissionDenied | ReadOnlyFilesystem => {
            format!("its folder must be writable: ls -ld {folder}")
        }
        FileTooLarge if !is_wrong_file(error) => {
            "raise the limit of file sizes: ulimit -f unlimited".to_string()
        }
        _ => read(path, error),
    }
}

/// The hint for a folder that somebody named and that cannot be made, with those above it.
pub fn make(folder: &Path, error: &io::Error) -> String {
    let above = word(folder_of(folder));
    match error.kind() {
        NotFound => format!("another folder: this file system has no new ones (df {above})"),
        AlreadyExists | NotADirectory => {
            format!("another folder: a file stands there (ls -ld {} {above})", word(folder))
        }
        PermissionDenied | ReadOnlyFilesystem => {
            format!("another folder, or rights to write the one above: ls -ld {above}")
        }
        StorageFull | QuotaExceeded => format!("another folder, or more room: df -h {above}"),
        _ => write(folder, error),
    }
}

/// Helps where schedlab chose the folder: `variable` moves it.
pub fn write_own(variable: &str, folder: &Path, error: &io::Error) -> String {
    match error.kind() {
        StorageFull | QuotaExceeded => {
            let folder = word(folder);
            format!("make room (df -h {folder}), or set {variable} to a folder with some")
        }
        PermissionDenied | ReadOnlyFilesystem | NotADirectory | AlreadyExists | Unsupported => {
            format!("set {variable} to a folder that you can write, and try again")
        }
        FileTooLarge => write(folder, error),
        _ => read(folder, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::input::InputFault;

    /// The remedies for reading, for writing a path that was named, and for writing one that schedlab chose.
    fn remedies(error: io::Error) -> [String; 3] {
        let path = Path::new("a b/c");
        [read(path, &error), write(path, &error), write_own("HERE", path, &error)]
    }

    #[test]
    fn a_remedy_follows_the_cause_and_not_the_operation() {
        for fault in [InputFault::TooLarge(5), InputFault::NoFile] {
            assert_eq!(remedies(fault.into()), ["is it the right file? ls -ld 'a b/c'"; 3]);
        }
        assert_eq!(remedies(io::Error::from_raw_os_error(libc::EIO)), ["ls -ld 'a b/c'"; 3]);
        for (number, part) in [(libc::EMFILE, "ulimit -n"), (libc::ELOOP, "readlink 'a b/c'")] {
            let all = remedies(io::Error::from_raw_os_error(number));
            assert!(all.iter().all(|remedy| remedy.ends_with(part)), "{all:?}");
        }
        let found = read(Path::new("a b"), &InputFault::NotUtf8(3).into());
        assert!(found.starts_with("file 'a b' ") && found.contains("iconv "), "{found}");
        for (kind, part) in [
            (NotFound, "has no new ones (df 'a b')"),
            (AlreadyExists, "a file stands there (ls -ld 'a b/c' 'a b')"),
            (NotADirectory, "a file stands there (ls -ld 'a b/c' 'a b')"),
            (PermissionDenied, "ls -ld 'a b'"),
            (StorageFull, "df -h 'a b'"),
        ] {
            let found = make(Path::new("a b/c"), &kind.into());
            assert!(found.starts_with("another folder") && found.ends_with(part), "{found}");
        }
        let all = [
            (
                NotADirectory,
                "ls -ld 'a b'",
                "set HERE to a folder that you can write, and try again",
            ),
            (NotFound, "mkdir -p 'a b'", "ls -ld 'a b/c'"),
            (FileTooLarge, "ulimit -f unlimited", "ulimit -f unlimited"),
            (StorageFull, "df -h 'a b'", "set HERE to a folder with some"),
            (
                PermissionDenied,
                "ls -ld 'a b'",
                "set HERE to a folder that you can write, and try again",
            ),
            (
                ReadOnlyFilesystem,
                "ls -ld 'a b'",
                "set HERE to a folder that you can write, and try again",
            ),
        ];
        for (kind, written, own) in all {
            let found = remedies(kind.into());
            assert_eq!(found[0], "ls -ld 'a b/c'");
            assert!(found[1].ends_with(written) && found[2].ends_with(own), "{found:?}");
        }
    }
}
