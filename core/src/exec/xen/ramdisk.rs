//! The root of a guest: this program and the libraries that it is linked with, as an archive in memory that a
//! kernel unpacks.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::model::GUEST_INIT;
use crate::sys::input;
use crate::sys::ramdisk::Ramdisk;

/// Writes it.
pub fn write(at: &Path) -> io::Result<()> {
    let own = fs::read_link("/proc/self/exe")?;
    let mut files = vec![(PathBuf::from(GUEST_INIT), own.clone())];
    files.extend(libraries(&own)?.into_iter().map(|path| (path.clone(), path)));
    let mut ramdisk =
        Ramdisk::begin(File::create(at)?, files.iter().map(|(name, _)| name.as_path()))?;
    for (name, path) in &files {
        ramdisk.add(name, &input::read_file(path, input::MAX_PROGRAM_BYTES)?)?;
    }
    ramdisk.finish()
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
