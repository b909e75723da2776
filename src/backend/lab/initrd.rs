//! The guests' root: this program, the libraries that it is linked with, and files that cells
//! need, as a newc archive.
//!
//! The program is packed without the parts of its file that no kernel loads (symbols, debugging information).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use object::elf::{FileHeader64, PT_INTERP, PT_LOAD};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::model::GUEST_INIT;

use super::error::{LabError, ProgramError};
use super::results::digest;
use crate::model::clean;
use crate::sys::input;
use crate::sys::ramdisk::Ramdisk;

/// More than the headers of a program's file take, and the name of its loader behind them.
const HEADER_BYTES: u64 = 1 << 16;

/// One file of the archive, by its absolute path in the guest.
pub struct Packed {
    pub name: PathBuf,
    pub bytes: Vec<u8>,
}

/// This program and the libraries that it is linked with.
pub fn own_program() -> Result<Vec<Packed>, LabError> {
    let own = std::env::current_exe()
        .map_err(LabError::io("find this program", Path::new("/proc/self/exe")))?;
    let file =
        input::open_file(&own, input::MAX_PROGRAM_BYTES).map_err(LabError::io("read", &own))?;
    let read = |bytes| input::read_start(&file, bytes).map_err(LabError::io("read", &own));
    let mut bytes = read(HEADER_BYTES)?;
    let image = Image::read(&own, &bytes)?;
    // Debugging information may be longer than all before it.
    bytes.extend(read(image.end as u64 - bytes.len().min(image.end) as u64)?);
    let mut files = linked_with(&own, &image)?;
    files.push(Packed { name: GUEST_INIT.into(), bytes: image.loaded(bytes) });
    Ok(files)
}

/// The digest of the bytes of all files.
pub fn digest_of(files: &[Packed]) -> String {
    digest(&files.iter().map(|file| file.bytes.as_slice()).collect::<Vec<&[u8]>>())
}

/// A user's program, unchanged, by its name in the guest, and the libraries that it is linked
/// with.
pub fn user_program(path: &Path, name: PathBuf) -> Result<Vec<Packed>, LabError> {
    let bytes = read(path)?;
    let mut files = linked_with(path, &Image::read(path, &bytes)?)?;
    files.push(Packed { name, bytes });
    Ok(files)
}

/// The files in which programs look up the names of users.
pub fn names_of_users() -> [Packed; 2] {
    [("/etc/passwd", PASSWD), ("/etc/group", GROUP)]
        .map(|(name, text)| Packed { name: name.into(), bytes: text.into() })
}

/// Folders whose files each kernel makes itself.
const KERNELS: [&str; 2] = ["/proc", "/sys"];

const PASSWD: &str = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// A file of this machine by its own name, and if it is a program, the libraries that it is linked with. A
/// folder gives all files in it.
pub fn user_file(path: &Path) -> Result<Vec<Packed>, LabError> {
    let mut packed = Vec::new();
    for file in files_in(path)? {
        let bytes = read(&file)?;
        match Image::parse(&bytes) {
            Ok(_) => packed.extend(user_program(&file, file.clone())?),
            Err(_) => packed.push(Packed { name: file, bytes }),
        }
    }
    Ok(packed)
}

/// Checks that [`user_file`] can read everything, as far as that shows without reading it.
pub fn check_user_file(path: &Path) -> Result<(), LabError> {
    if let Some(folder) = KERNELS.iter().find(|folder| path.starts_with(folder)) {
        return Err(LabError::KernelsFile { path: path.to_path_buf(), folder });
    }
    let opened = files_in(path).and_then(|files| {
        let mut files = files.iter();
        files.try_for_each(|file| {
            let opened = input::open_file(file, input::MAX_PROGRAM_BYTES);
            opened.map(drop).map_err(LabError::input(file))
        })
    });
    match opened {
        // The run tries again.
        Err(error) if error.is_of_host() => Ok(()),
        opened => opened,
    }
}

/// The file itself, or all files in a folder.
fn files_in(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut names: Vec<PathBuf> = fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(LabError::input(path))?;
    // The archive must not depend on the order on the disk.
    names.sort();
    // Leave out pipes, broken links, and links to folders, which may form a circle.
    names.retain(|name| name.is_file() || name.is_dir() && !name.is_symlink());
    let files = names.iter().map(|name| files_in(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(files.into_iter().flatten().collect())
}

/// The loader and the libraries of a program, by their names here; empty for a static one.
fn linked_with(path: &Path, image: &Image) -> Result<Vec<Packed>, LabError> {
    let Some(loader) = &image.loader else { return Ok(Vec::new()) };
    let mut files = vec![Packed { name: loader.clone(), bytes: read(loader)? }];
    let wrong = |source| LabError::Program { path: path.to_path_buf(), source };
    for library in libraries(loader, path).map_err(wrong)? {
        files.push(Packed { bytes: read(&library)?, name: library });
    }
    Ok(files)
}

/// A file of a guest, with the path in the error.
pub fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    input::read_file(path, input::MAX_PROGRAM_BYTES).map_err(LabError::input(path))
}

/// The parts of an ELF file that matter for running it.
struct Image {
    loader: Option<PathBuf>,
    /// The position in the file at which the last segment ends.
    end: usize,
}

impl Image {
    fn read(path: &Path, bytes: &[u8]) -> Result<Image, LabError> {
        let wrong = |error| {
            let source = ProgramError::NotElf(error);
            LabError::Program { path: path.to_path_buf(), source }
        };
        Image::parse(bytes).map_err(wrong)
    }

    fn parse(bytes: &[u8]) -> Result<Image, object::Error> {
        let header = FileHeader64::<LittleEndian>::parse(bytes)?;
        let endian = header.endian()?;
        let mut image = Image { loader: None, end: 0 };
        for segment in header.program_headers(endian, bytes)? {
            let (at, size) = segment.file_range(endian);
            if segment.p_type(endian) == PT_LOAD {
                image.end = image.end.max(at.saturating_add(size) as usize);
            }
            if segment.p_type(endian) == PT_INTERP
                && let Ok(Some(name)) = segment.interpreter(endian, bytes)
            {
                image.loader = Some(String::from_utf8_lossy(name).into_owned().into());
            }
        }
        Ok(image)
    }

    /// The file up to the end of its last loaded segment, without its table of sections.
    fn loaded(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.truncate(self.end);
        // e_shoff; e_shentsize, e_shnum and e_shstrndx.
        for range in [0x28..0x30, 0x3a..0x40] {
            bytes[range].fill(0);
        }
        bytes
    }
}

/// The files that the loader loads for a program, as the loader itself lists them: the program
/// is not executed.
fn libraries(loader: &Path, program: &Path) -> Result<Vec<PathBuf>, ProgramError> {
    let mut command = Command::new(loader);
    let listed = input::output(command.arg("--list").arg(program), input::MAX_OWN_FILE_BYTES)
        .map_err(|source| ProgramError::Loader { loader: loader.to_path_buf(), source })?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let plain = |text: &str| clean(text.trim());
    if let Some(missing) = text.lines().find(|line| line.ends_with("=> not found")) {
        return Err(ProgramError::NoLibrary(plain(missing)));
    }
    if !listed.status.success() {
        let complaint = plain(&String::from_utf8_lossy(&listed.stderr));
        let (loader, status) = (loader.to_path_buf(), listed.status);
        return Err(ProgramError::NotLoaded { loader, status, complaint });
    }
    Ok(text.lines().filter_map(library).collect())
}

/// Parses `NAME => PATH (ADDRESS)`; the vDSO has no path and is not a file.
fn library(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once(" => ")?;
    let path = rest.rsplit_once(" (").map_or(rest, |(path, _)| path).trim();
    path.starts_with('/').then(|| path.into())
}

/// Writes the archive.
pub fn write(at: &Path, files: &[Arc<Packed>]) -> io::Result<()> {
    let mut ramdisk =
        Ramdisk::begin(File::create(at)?, files.iter().map(|file| file.name.as_path()))?;
    for file in files {
        ramdisk.add(&file.name, &file.bytes)?;
    }
    ramdisk.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Advice;

    #[test]
    fn the_loaders_lines_name_files() {
        let cases: &[(&str, Option<&str>)] = &[
            (
                "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)",
                Some("/lib/x86_64-linux-gnu/libc.so.6"),
            ),
            ("\tlinux-vdso.so.1 (0x00007ffd)", None),
            ("\tlibx.so => not found", None),
            ("\tlibx.so => /odd (folder)/libx.so (0x1)", Some("/odd (folder)/libx.so")),
        ];
        for (line, path) in cases {
            assert_eq!(library(line), path.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn this_program_can_be_executed_when_it_is_packed() {
        let files = own_program().unwrap();
        let init = files.iter().find(|file| file.name == Path::new(GUEST_INIT)).unwrap();
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(init.bytes.len() < own.len(), "debugging information is left out");
        let dir = tempfile::tempdir().unwrap();
        let packed = dir.path().join("packed");
        fs::write(&packed, &init.bytes).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&packed, mode).unwrap();
        let listed = Command::new(&packed).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("executed_when_it_is_packed"));
    }

    #[test]
    fn a_users_program_brings_its_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let error = user_program(&script, "/scx/script".into()).err().unwrap();
        let is_script = |source: &ProgramError| matches!(source, ProgramError::NotElf(_));
        assert!(
            matches!(&error, LabError::Program { path, source } if *path == script && is_script(source)),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("guests have no shell"), "{error}");
        let shell = Path::new("/bin/sh");
        let files = user_program(shell, "/scx/sh".into()).unwrap();
        let bytes = |wanted: &str| {
            let mut files = files.iter();
            files.find(|file| file.name.ends_with(wanted)).map(|file| file.bytes.as_slice())
        };
        assert_eq!(bytes("/scx/sh"), Some(&fs::read(shell).unwrap()[..]), "unchanged");
        if let Some(loader) = Image::parse(&fs::read(shell).unwrap()).unwrap().loader {
            assert!(bytes(loader.to_str().unwrap()).is_some(), "{loader:?}");
            let library = libraries(&loader, shell).unwrap().pop().unwrap();
            assert!(bytes(library.to_str().unwrap()).is_some(), "{library:?}");
            let error = libraries(&loader, &script).unwrap_err();
            assert!(matches!(error, ProgramError::NotLoaded { .. }), "{error}");
            assert!(error.hint(&script).contains("build it static"), "{error}");
        }
    }

    #[test]
    fn a_folder_is_packed_with_all_that_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/c")).unwrap();
        fs::write(dir.path().join("b/c/file"), "1").unwrap();
        fs::write(dir.path().join("a"), "2").unwrap();
        std::os::unix::fs::symlink("/no/such", dir.path().join("link")).unwrap();
        let files = user_file(dir.path()).unwrap();
        let names: Vec<PathBuf> = files.into_iter().map(|file| file.name).collect();
        assert_eq!(names, [dir.path().join("a"), dir.path().join("b/c/file")]);
    }

    #[test]
    fn what_cannot_be_packed_shows_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/file"), "1").unwrap();
        assert!(
            check_user_file(dir.path()).is_ok() && check_user_file(Path::new("/bin/sh")).is_ok()
        );
        let reason = |path: &Path| check_user_file(path).unwrap_err().to_string();
        let own = reason(Path::new("/proc/cpuinfo"));
        assert!(own.contains("/proc/cpuinfo cannot come into a guest"), "{own}");
        let missing = reason(&dir.path().join("none"));
        assert!(missing.contains("No such file or directory"), "{missing}");
        assert!(reason(Path::new("/dev/zero")).contains("not a regular file"));
        let large = File::create(dir.path().join("a/large")).unwrap();
        large.set_len(input::MAX_PROGRAM_BYTES + 1).unwrap();
        let large = reason(dir.path());
        assert!(large.contains("a/large: it has more than 1024 MiB"), "{large}");
    }
}
