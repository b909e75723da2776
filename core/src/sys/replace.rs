//! Writing a file so that neither the old one nor the new one can be half there.
//!
//! Input: a path, and a function that writes the contents. Effect: one file is replaced, or stays as it was: at
//! each moment, whatever is killed or loses power, the old file or the new one is there, whole, with the old one's
//! permissions. A symbolic link stays one. A pipe, a terminal or a device has no old contents, and is written to
//! directly.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::input::{self, InputFault};
use super::remedy::folder_of;
use super::signal::OpenWait;

/// The end of a file's name while it is written.
const TEMPORARY: &str = ".tmp";
/// Links that are followed one after the other: the kernel's own limit.
const MAX_LINKS: u32 = 40;

/// A file that takes its place when it is finished; dropped before that, it leaves nothing.
pub struct NewFile {
    out: BufWriter<File>,
    /// `None`: it is written to directly.
    place: Option<Box<Place>>,
}

struct Place {
    target: PathBuf,
    /// The name that it has while it is written.
    temporary: PathBuf,
    old: Option<Metadata>,
    mode: Option<u32>,
}

impl NewFile {
    /// Fails where the file could not be written: nothing has changed then, nor after a success.
    pub fn begin(path: &Path) -> io::Result<NewFile> {
        let found = metadata(path)?;
        if found.as_ref().is_some_and(Metadata::is_dir) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let target = meant(path)?;
        if found.as_ref().is_some_and(Metadata::is_file)
            && target.as_deref().is_some_and(input::is_database)
        {
            return Err(InputFault::Database.into());
        }
        let (Some(target), None) = (target, found.as_ref().filter(|found| !found.is_file())) else {
            let _wait = OpenWait::for_file(path);
            let file = OpenOptions::new().append(true).open(path)?;
            return Ok(NewFile { out: BufWriter::with_capacity(1 << 16, file), place: None });
        };
        // Until it has the old one's permissions nobody else may read it.
        let (file, temporary) = create(&target, if found.is_some() { 0o600 } else { 0o666 })?;
        let place = Some(Box::new(Place { target, temporary, old: found, mode: None }));
        Ok(NewFile { out: BufWriter::with_capacity(1 << 16, file), place })
    }

    /// Leaves out so many bytes, which are zeros: a hole, if something is written behind it.
    pub fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match i64::try_from(bytes).map_err(|_| ErrorKind::InvalidInput)? {
            0 => Ok(()),
            bytes => self.out.seek_relative(bytes),
        }
    }

    /// With permissions of its own, whatever the old one had.
    pub fn with_mode(mut self, mode: u32) -> NewFile {
        if let Some(place) = &mut self.place {
            place.mode = Some(mode);
        }
        self
    }

    /// All that was written is on the disk, and not in its place.
    pub fn sync(&mut self) -> io::Result<()> {
        self.complete()?;
        if self.place.is_some() { self.out.get_ref().sync_all() } else { Ok(()) }
    }

    /// Puts it in its place, where it stays after a power failure.
    pub fn finish(mut self) -> io::Result<()> {
        self.sync()?;
        self.put()?.map_or(Ok(()), |target| sync_folder(&target))
    }

    /// Puts it in its place, if nobody made a file there since it was begun: else the kind of the error is `AlreadyExists`.
    pub fn finish_new(mut self) -> io::Result<()> {
        self.sync()?;
        if let Some(Place { target, temporary, old: None, .. }) = self.place.as_deref() {
            match fs::hard_link(temporary, target) {
                Ok(()) => return sync_folder(target),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
                // Some file systems have no links.
                Err(_) => {}
            }
        }
        self.finish()
    }

    /// Puts it in its place without waiting for the disk. After a power failure it may have other contents, which whoever
    /// reads it has to notice.
    pub fn finish_unsynced(mut self) -> io::Result<()> {
        self.complete()?;
        self.put().map(drop)
    }

    /// All that was written is the system's, with the permissions of the file.
    fn complete(&mut self) -> io::Result<()> {
        self.out.flush()?;
        match &self.place {
            Some(place) => place.permit(self.out.get_ref()),
            None => Ok(()),
        }
    }

    /// Its place; `None` where it was written to directly.
    fn put(&mut self) -> io::Result<Option<PathBuf>> {
        let Some(place) = &self.place else { return Ok(None) };
        fs::rename(&place.temporary, &place.target)?;
        Ok(self.place.take().map(|place| place.target))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            // A file that stays is removed by the next one that writes this file.
            _ = fs::remove_file(&place.temporary);
        }
    }
}

impl Place {
    fn permit(&self, file: &File) -> io::Result<()> {
        if let Some(old) = &self.old {
            own_as(file, old)?;
        }
        if let Some(mode) = self.mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

/// Replaces a file by the output of `write`.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = NewFile::begin(path)?;
    write(&mut file)?;
    file.finish()
}

/// Writes a file that is not there yet, with the permissions of `like` where it is given.
pub fn write_new(
    path: &Path,
    like: Option<&Metadata>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let file = open_new(path, if like.is_some() { 0o600 } else { 0o666 })?;
    let fill = || {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        write(&mut out)?;
        let file = out.into_inner()?;
        like.map_or(Ok(()), |like| own_as(&file, like))?;
        file.sync_all()
    };
    fill().inspect_err(|_| _ = fs::remove_file(path))?;
    sync_folder(path)
}

/// Writes a file that is not there yet: where one is, with a number before the end of its name. Returns its path.
pub fn write_numbered(
    path: &Path,
    write: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let [stem, end] = [path.file_stem(), path.extension()]
        .map(|part| part.unwrap_or_default().to_string_lossy().into_owned());
    let end = if end.is_empty() { end } else { format!(".{end}") };
    let mut at = path.to_path_buf();
    let mut number = 1;
    loop {
        match write_new(&at, None, &write) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                at = path.with_file_name(format!("{stem}-{number}{end}"));
                number += 1;
            }
            written => return written.map(|()| at),
        }
    }
}

/// The file that a path leads to, in the one way to write it: links are followed, also to a file that is not there
/// yet. `None`: an open file of a process, as `/dev/stdout` is, whose name must not be replaced.
pub fn meant(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut target = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let folder = fs::canonicalize(folder_of(&target))?;
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_symlink() => {
                if folder.starts_with("/proc") {
                    return Ok(None);
                }
                target = folder.join(fs::read_link(&target)?);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {
                let name = target.file_name().ok_or(ErrorKind::InvalidInput)?;
                return Ok(Some(folder.join(name)));
            }
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// `None`: there is nothing.
fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(folder_of(path))?.sync_all() {
        // Some file systems cannot.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// A new file next to `target`, locked while its writer lives. A file that a killed writer left is removed.
fn create(target: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let name = target.file_name().ok_or(ErrorKind::InvalidInput)?;
    let mut number = 0;
    loop {
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{number}{TEMPORARY}"));
        let temporary = folder_of(target).join(temporary);
        match open_new(&temporary, mode) {
            Ok(file) => {
                // A file system without locks keeps the files of killed writers.
                _ = file.lock();
                // Before it was locked it looked as if its writer was gone.
                let there = fs::symlink_metadata(&temporary);
                if there.is_ok_and(|there| is_it(&there, &file)) {
                    return Ok((file, temporary));
                }
            }
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Err(_) if remove_if_abandoned(&temporary) => {}
            Err(_) => number += 1,
        }
    }
}

fn open_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

fn is_it(there: &Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

/// Removes a file whose writer is gone. Whoever removes one holds its lock, so that by then it is not another writer's.
fn remove_if_abandoned(temporary: &Path) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(temporary);
    file.is_ok_and(|file| {
        file.try_lock().is_ok()
            && fs::symlink_metadata(temporary).is_ok_and(|there| is_it(&there, &file))
            && fs::remove_file(temporary).is_ok()
    })
}

/// Whether a file of this name is being written, or its writer was killed.
pub fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(TEMPORARY.as_bytes())
}

/// Removes all files that killed writers left in a folder.
pub fn remove_abandoned(folder: &Path) -> io::Result<()> {
    for file in fs::read_dir(folder)? {
        let file = file?;
        if is_temporary(&file.file_name()) {
            remove_if_abandoned(&file.path());
        }
    }
    Ok(())
}

/// Gives a file the owner and the permissions of another one.
fn own_as(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // Only root may give a file away; without that it is the writer's.
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn write(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |out| out.write_all(text.as_bytes()))
    }

    #[test]
    fn a_file_keeps_permissions_and_links_and_leaves_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real", &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));
        NewFile::begin(&real).unwrap().with_mode(0o755).finish().unwrap();
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o7777, 0o755);
        let mut unsynced = NewFile::begin(&link).unwrap();
        unsynced.write_all(b"unsynced").unwrap();
        unsynced.finish_unsynced().unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "unsynced");
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o7777, 0o755);

        // A link to a file that is not there yet makes that file.
        symlink("to", folder.path().join("dangling")).unwrap();
        write(&folder.path().join("dangling"), "made").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("to")).unwrap(), "made");
        assert_eq!(names(folder.path()), ["dangling", "link", "real", "to"]);
    }

    #[test]
    fn a_database_and_what_belongs_to_it_are_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let [store, wal, link] = ["a.db", "a.db-wal", "link"].map(|name| dir.path().join(name));
        fs::write(&store, b"SQLite format 3\0 and more").unwrap();
        fs::write(&wal, "").unwrap();
        std::os::unix::fs::symlink(&store, &link).unwrap();
        for path in [&store, &wal, &link] {
            let refused = NewFile::begin(path).map(drop).unwrap_err();
            assert!(refused.to_string().contains("it is a database"), "{refused}");
        }
        let other = dir.path().join("b.db-wal");
        fs::write(&other, "").unwrap();
        write(&other, "a file of this name alone").unwrap();
    }

    #[test]
    fn what_is_not_finished_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let half_way = |out: &mut dyn Write| {
            out.write_all(b"half")?;
            out.flush()?;
            assert_eq!(fs::read_to_string(&path).unwrap(), "old", "written to another file");
            Err(io::Error::other("disk full"))
        };
        replace(&path, half_way).unwrap_err();
        let mut rehearsed = NewFile::begin(&path).unwrap();
        rehearsed.write_all(b"new").unwrap();
        rehearsed.sync().unwrap();
        drop(rehearsed);
        write_new(&path, None, |out| out.write_all(b"new")).unwrap_err();
        write_new(&folder.path().join("b"), None, half_way).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["a"]);

        symlink("circle", folder.path().join("circle")).unwrap();
        let why = write(&folder.path().join("circle"), "new").unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::ELOOP));
        assert_eq!(write(folder.path(), "new").unwrap_err().kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn a_file_that_came_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let finish = |path: &Path, meanwhile: &dyn Fn()| {
            let mut file = NewFile::begin(path).unwrap();
            file.write_all(b"own").unwrap();
            meanwhile();
            file.finish_new()
        };
        let [new, there] = ["new", "there"].map(|name| folder.path().join(name));
        finish(&new, &|| ()).unwrap();
        fs::write(&there, "").unwrap();
        finish(&there, &|| ()).unwrap();
        let other = folder.path().join("other");
        let refused = finish(&other, &|| fs::write(&other, "").unwrap()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(names(folder.path()), ["new", "other", "there"]);
        let text = |path| fs::read_to_string(path).unwrap();
        assert_eq!([&new, &there, &other].map(text), ["own", "own", ""]);
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_and_what_another_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(folder.path().join(".a.0.tmp"), "left").unwrap();
        let mut first = NewFile::begin(&path).unwrap();
        assert_eq!(names(folder.path()), [".a.0.tmp"]);
        write(&path, "second").unwrap();
        first.write_all(b"first").unwrap();
        first.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(names(folder.path()), ["a"]);

        let living = NewFile::begin(&path).unwrap();
        for left in [".a.1.tmp", ".b.0.tmp", "c.tmp"] {
            fs::write(folder.path().join(left), "left").unwrap();
        }
        remove_abandoned(folder.path()).unwrap();
        assert_eq!(names(folder.path()), [".a.0.tmp", "a", "c.tmp"]);
        living.finish().unwrap();
    }

    #[test]
    fn what_has_no_old_contents_is_written_to_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        write(&PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd())), "piped").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "piped");
        write(Path::new("/dev/null"), "nothing").unwrap();

        // As with `-o /dev/stdout >> log`, which appends to the existing text.
        let log = folder.path().join("log");
        fs::write(&log, "before, ").unwrap();
        let open = OpenOptions::new().append(true).open(&log).unwrap();
        symlink(format!("/proc/self/fd/{}", open.as_raw_fd()), folder.path().join("out")).unwrap();
        write(&folder.path().join("out"), "behind").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "before, behind");
        assert_eq!(names(folder.path()), ["log", "out"]);
    }
}
