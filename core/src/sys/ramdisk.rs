//! A guest's root: a newc archive in memory that a kernel unpacks, with a console and the agent's mount points.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use cpio::newc::{Builder, trailer};

/// `S_IFDIR`, `S_IFREG` and `S_IFCHR`, with permissions.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

/// An archive that is being written.
pub struct Ramdisk {
    out: BufWriter<File>,
    entries: u32,
}

impl Ramdisk {
    /// Begins an empty file with the folders of these files, parents first. Names are absolute paths in the guest.
    pub fn begin<'a>(out: File, files: impl Iterator<Item = &'a Path>) -> io::Result<Ramdisk> {
        let mut ramdisk = Ramdisk { out: BufWriter::new(out), entries: 0 };
        let mut folders: BTreeSet<&Path> = ["/dev", "/proc", "/sys", "/tmp"].map(Path::new).into();
        folders.extend(files.flat_map(|name| name.ancestors().skip(1)));
        for folder in folders.into_iter().filter(|folder| *folder != Path::new("/")) {
            ramdisk.entry(folder, FOLDER, &[])?;
        }
        ramdisk.entry(Path::new("/dev/console"), DEVICE, &[])?;
        Ok(ramdisk)
    }

    pub fn add(&mut self, name: &Path, bytes: &[u8]) -> io::Result<()> {
        self.entry(name, PROGRAM, bytes)
    }

    pub fn finish(mut self) -> io::Result<()> {
        trailer(&mut self.out)?;
        self.out.flush()
    }

    fn entry(&mut self, name: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let name = name.strip_prefix("/").unwrap_or(name).to_string_lossy();
        let mut builder = Builder::new(&name).mode(mode).ino(self.entries).nlink(1);
        if mode == DEVICE {
            builder = builder.rdev_major(5).rdev_minor(1);
        }
        let mut writer = builder.write(&mut self.out, bytes.len() as u32);
        writer.write_all(bytes)?;
        writer.finish().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_folders_before_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("root.cpio");
        let files =
            [("/a/b/c", &b"12345"[..]), ("/d", b"")].map(|(name, own)| (Path::new(name), own));
        let mut ramdisk =
            Ramdisk::begin(File::create(&at).unwrap(), files.iter().map(|(name, _)| *name))
                .unwrap();
        files.iter().for_each(|(name, bytes)| ramdisk.add(name, bytes).unwrap());
        ramdisk.finish().unwrap();
        let bytes = std::fs::read(&at).unwrap();
        let mut rest = &bytes[..];
        let mut seen = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let entry = reader.entry();
            seen.push((entry.name().to_string(), entry.mode(), entry.file_size()));
            io::copy(&mut reader, &mut io::sink()).unwrap();
            rest = reader.finish().unwrap();
        }
        let names: Vec<&str> = seen.iter().map(|(name, ..)| name.as_str()).collect();
        let expected = ["a", "a/b", "dev", "proc", "sys", "tmp", "dev/console", "a/b/c", "d"];
        assert_eq!(names, expected);
        assert!(seen.contains(&("a/b/c".to_string(), PROGRAM, 5)));
    }
}
