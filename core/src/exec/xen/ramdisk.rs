//! The root of a guest: this program and the libraries that it is linked with, as an archive in memory that a
//! kernel unpacks.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use cpio::newc::{Builder, trailer};

use crate::model::GUEST_INIT;
use crate::sys::input;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;
/// `/dev/console`.
const CONSOLE: (u32, u32) = (5, 1);

/// Writes it.
pub fn write(at: &Path) -> io::Result<()> {
    let own = fs::read_link("/proc/self/exe")?;
    let mut files = vec![(PathBuf::from(GUEST_INIT), own.clone())];
    files.extend(libraries(&own)?.into_iter().map(|path| (path.clone(), path)));
    let mut out = BufWriter::new(File::create(at)?);
    let mut number = 0;
    let mut entry = |name: &Path, mode: u32, bytes: &[u8]| -> io::Result<()> {
        number += 1;
        let name = name.strip_prefix("/").unwrap_or(name).to_string_lossy();
        let mut builder = Builder::new(&name).mode(mode).ino(number).nlink(1);
        if mode == DEVICE {
            builder = builder.rdev_major(CONSOLE.0).rdev_minor(CONSOLE.1);
        }
        let mut writer = builder.write(&mut out, bytes.len() as u32);
        writer.write_all(bytes)?;
        writer.finish().map(drop)
    };
    let mut folders: BTreeSet<&Path> =
        ["/dev", "/proc", "/sys", "/tmp"].map(Path::new).into_iter().collect();
    folders.extend(files.iter().flat_map(|(name, _)| name.ancestors().skip(1)));
    for folder in folders.into_iter().filter(|folder| *folder != Path::new("/")) {
        entry(folder, FOLDER, &[])?;
    }
    entry(Path::new("/dev/console"), DEVICE, &[])?;
    for (name, path) in &files {
        entry(name, PROGRAM, &input::read_file(path, input::MAX_PROGRAM_BYTES)?)?;
    }
    trailer(&mut out)?;
    out.flush()
}

/// The files that are mapped into this process to be executed: the loader and the libraries.
fn libraries(own: &Path) -> io::Result<BTreeSet<PathBuf>> {
    Ok(mapped(&input::kernel_text("/proc/self/maps")?, own))
}

/// The files of code in the lines of `/proc/PID/maps`: `ADDRESSES r-xp OFFSET DEVICE INODE PATH`.
fn mapped(maps: &str, own: &Path) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let mut words = line.split_whitespace();
        let is_code = words.nth(1)?.contains('x');
        let path = PathBuf::from(words.nth(3)?);
        (is_code && path.is_absolute() && path != own).then_some(path)
    };
    maps.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_executed_is_packed() {
        let maps = "5500-5600 r-xp 00001000 fe:00 12 /schedlab-guest\n\
                    7f00-7f10 r--p 00000000 fe:00 13 /lib/x86_64-linux-gnu/libc.so.6\n\
                    7f10-7f20 r-xp 00001000 fe:00 13 /lib/x86_64-linux-gnu/libc.so.6\n\
                    7f30-7f40 r-xp 00000000 00:00 0 [vdso]\n\
                    7f50-7f60 rw-p 00000000 00:00 0\n";
        let files = mapped(maps, Path::new("/schedlab-guest"));
        assert_eq!(files, [PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6")].into());
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("root.cpio");
        write(&at).unwrap();
        let bytes = fs::read(&at).unwrap();
        assert!(bytes.starts_with(b"070701"), "a newc archive");
        let name = GUEST_INIT.trim_start_matches('/').as_bytes();
        assert!(bytes.windows(name.len()).any(|window| window == name));
    }
}
