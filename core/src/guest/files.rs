//! The files that a run brings to a machine that has booted: an archive as that of the root.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cpio::newc;

use super::error::AgentError;

/// The bits of a mode that say what an entry is.
const SORT: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

/// Makes the folders and the files of an archive below `root`.
pub fn unpack(archive: impl Read, root: &Path) -> Result<(), AgentError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| AgentError::File { path, source }
    };
    let mut rest = archive;
    let mut last = PathBuf::from("the archive of files");
    loop {
        let mut reader = newc::Reader::new(rest).map_err(failed(&last))?;
        let entry = reader.entry();
        if entry.is_trailer() {
            return Ok(());
        }
        let (path, mode) = (root.join(entry.name()), entry.mode());
        let put = |reader: &mut dyn Read| match mode & SORT {
            FOLDER => fs::create_dir_all(&path),
            FILE => write(&path, mode, reader),
            // A root has devices of its own.
            _ => Ok(()),
        };
        put(&mut reader).map_err(failed(&path))?;
        rest = reader.finish().map_err(failed(&path))?;
        last = path;
    }
}

fn write(path: &Path, mode: u32, bytes: &mut dyn Read) -> io::Result<()> {
    // This program may have the old file in its memory.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(mode & !SORT).open(path)?;
    io::copy(bytes, &mut file).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ramdisk::Ramdisk;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_of_an_archive_come_into_their_folders_and_a_cut_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("files.cpio");
        let long = vec![7; 100_001];
        let files = [("/a/b/program", &long[..]), ("/data", b"12345"), ("/empty", b"")];
        let files = files.map(|(name, bytes)| (Path::new(name), bytes));
        let mut ramdisk =
            Ramdisk::begin(File::create(&at).unwrap(), files.iter().map(|(name, _)| *name))
                .unwrap();
        files.iter().for_each(|(name, bytes)| ramdisk.add(name, bytes).unwrap());
        ramdisk.finish().unwrap();
        let archive = fs::read(&at).unwrap();

        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("data"), "what was there before, which is longer").unwrap();
        let mut mapped = File::open(root.join("data")).unwrap();
        unpack(&archive[..], &root).unwrap();
        for (name, bytes) in files {
            let path = root.join(name.strip_prefix("/").unwrap());
            assert!(fs::read(&path).unwrap() == bytes, "{name:?}");
        }
        let mode = fs::metadata(root.join("a/b/program")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "a program can be started");
        assert!(!root.join("dev/console").exists());
        let mut before = String::new();
        mapped.read_to_string(&mut before).unwrap();
        assert!(before.starts_with("what was"), "who has the old file keeps it: {before}");

        let cut = unpack(&archive[..archive.len() / 2], &root).unwrap_err();
        assert!(cut.to_string().contains("a/b/program"), "{cut}");
    }
}
