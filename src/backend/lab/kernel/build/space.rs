//! Estimates the disk space of a build, from sizes that are known before it begins.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// File systems give files whole blocks.
const BLOCK_BYTES: u64 = 4096;
/// Size of unpacked sources relative to their package, for Linux 5.10 to 7.0.
const UNPACKED: u64 = 11;
/// Objects of one kernel in the lab's configuration.
pub const OBJECTS_BYTES: u64 = 200_000_000;
/// For small things: logs, an image, the objects of a few changed files.
pub const LITTLE_BYTES: u64 = 64_000_000;

/// Space for a package with sources until it has been compiled `times` times. The package and the archive in
/// it exist until the archive is unpacked.
pub fn of_package(package_bytes: u64, times: u64) -> u64 {
    let tree_bytes = package_bytes * UNPACKED;
    tree_bytes + (2 * package_bytes).max(times * OBJECTS_BYTES)
}

pub fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// Size of a file on the disk; 0 if it does not exist.
pub fn of_file(path: &Path) -> u64 {
    path.symlink_metadata().map_or(0, |found| on_disk(found.len()))
}

/// Size of a copy of a folder that shares its files by hard links.
pub fn of_links(folder: &Path) -> u64 {
    of_each(folder, &|_| 0)
}

/// Size of a full copy of a folder; 0 if it does not exist.
pub fn of_copy(folder: &Path) -> u64 {
    of_each(folder, &|entry| entry.metadata().map_or(0, |found| on_disk(found.size())))
}

fn of_each(folder: &Path, file: &dyn Fn(&fs::DirEntry) -> u64) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let one = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => of_each(&entry.path(), file),
        _ => file(&entry),
    };
    BLOCK_BYTES + entries.flatten().map(one).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_count_and_files_count_in_whole_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("x"), vec![0; 4097]).unwrap();
        fs::write(folder.path().join("y"), "1").unwrap();
        std::os::unix::fs::symlink("/usr", folder.path().join("link")).unwrap();
        assert_eq!(of_links(folder.path()), 3 * BLOCK_BYTES);
        assert_eq!(of_copy(folder.path()), (3 + 2 + 1 + 1) * BLOCK_BYTES);
        assert_eq!(of_copy(&folder.path().join("nonesuch")), 0);
        assert_eq!((of_file(&below.join("x")), of_file(&below.join("y"))), (2 * BLOCK_BYTES, 0));
    }
}
