//! Changes to the machine's files, below the root of a [`Host`]. Nothing else in the
//! program writes to /proc, /sys or a cgroup tree.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Host;
use super::call::checked;

impl Host {
    /// Writes to an existing file, in one write as the kernel's files want it.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> io::Result<()> {
        #[cfg(test)]
        fuse::step()?;
        let path = self.path(path);
        #[cfg(test)]
        let (path, text) = &fake::stored(self, path, text)?;
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(text.as_bytes())
    }

    /// Whether a file could be written: opens it for writing and closes it again.
    pub fn can_write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path(path)).map(drop)
    }

    /// Whether entries could be made in a folder, with the rights of this process.
    pub fn can_make_in(&self, folder: impl AsRef<Path>) -> io::Result<()> {
        let path = CString::new(self.path(folder).as_os_str().as_bytes())?;
        let (mode, flags) = (libc::W_OK | libc::X_OK, libc::AT_EACCESS);
        // SAFETY: the path is a valid C string.
        checked(unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, flags) })
    }

    /// Makes a cgroup: a folder that the kernel fills with files.
    pub fn make_cgroup(&self, path: impl AsRef<Path>) -> io::Result<()> {
        #[cfg(test)]
        fuse::step()?;
        std::fs::create_dir(self.path(&path))?;
        #[cfg(test)]
        fake::fill(self, path.as_ref())?;
        Ok(())
    }

    /// Removes a cgroup that holds neither processes nor cgroups.
    pub fn remove_cgroup(&self, path: impl AsRef<Path>) -> io::Result<()> {
        #[cfg(test)]
        fuse::step()?;
        #[cfg(test)]
        fake::empty(self, path.as_ref())?;
        std::fs::remove_dir(self.path(path))
    }
}

/// A crash for tests: after a number of changes no further one reaches the machine, from this thread, as if the
/// process had been killed.
#[cfg(test)]
pub mod fuse {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
        static REFUSED: Cell<u32> = const { Cell::new(0) };
    }

    pub fn set(changes_left: Option<u32>) {
        LEFT.set(changes_left);
        REFUSED.set(0);
    }

    /// How many changes have been refused since the fuse was set.
    pub fn refused() -> u32 {
        REFUSED.get()
    }

    pub fn step() -> io::Result<()> {
        match LEFT.get() {
            None => Ok(()),
            Some(0) => {
                REFUSED.set(REFUSED.get() + 1);
                Err(io::Error::other("crashed, says the test"))
            }
            Some(left) => {
                LEFT.set(Some(left - 1));
                Ok(())
            }
        }
    }
}

/// The kernel's behaviour on writes and in cgroup trees, for laid-out trees in tests.
#[cfg(test)]
mod fake {
    use super::*;
    use crate::model::CpuSet;
    use std::fs;
    use std::path::PathBuf;

    fn laid_out(host: &Host) -> bool {
        host.path("/") != Path::new("/")
    }

    /// The text that a file has after a write, where it differs from the text written.
    pub fn stored(host: &Host, path: PathBuf, text: &str) -> io::Result<(PathBuf, String)> {
        if !laid_out(host) {
            return Ok((path, text.to_string()));
        }
        let old = fs::read_to_string(&path)?;
        let words = old.split_whitespace();
        let einval = || io::Error::from_raw_os_error(libc::EINVAL);
        let text = match path.file_name().and_then(|name| name.to_str()) {
            Some("features" | "sched_features") => {
                let name = text.strip_prefix("NO_").unwrap_or(text);
                if !words.clone().any(|word| word.strip_prefix("NO_").unwrap_or(word) == name) {
                    return Err(einval());
                }
                let new = words.map(|word| {
                    if word.strip_prefix("NO_").unwrap_or(word) == name { text } else { word }
                });
                new.collect::<Vec<_>>().join(" ") + "\n"
            }
            Some("preempt") => {
                let plain = words.map(|word| word.trim_matches(['(', ')']));
                if !plain.clone().any(|word| word == text) {
                    return Err(einval());
                }
                let new = plain
                    .map(|word| if word == text { format!("({word})") } else { word.to_string() });
                new.collect::<Vec<_>>().join(" ") + "\n"
            }
            Some("cgroup.subtree_control") => match text.split_at_checked(1) {
                Some(("+", name)) => format!("{} {name}\n", old.trim()),
                Some(("-", name)) => words.filter(|w| *w != name).collect::<Vec<_>>().join(" "),
                _ => return Err(einval()),
            },
            Some("cpuset.cpus.partition") if text == "root" => partition(&path)?,
            Some("cpuset.cpus") if of_v1(&path) => {
                fits_v1(&path, text)?;
                format!("{text}\n")
            }
            Some("cgroup.procs") if of_v1(&path) && cpus(&path, "cpuset.cpus").is_empty() => {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            // Kept in ticks of 10 ms.
            Some("sched_rr_timeslice_ms") => {
                let ms = text.parse::<u64>().map_err(|_| einval())?;
                format!("{}\n", ms / 10 * 10)
            }
            _ => format!("{text}\n"),
        };
        Ok((path, text))
    }

    /// Whether a file is one of a version 1 cpuset.
    fn of_v1(path: &Path) -> bool {
        let sibling = |name: &str| path.with_file_name(name).exists();
        sibling("cpuset.cpus") && !sibling("cgroup.controllers")
    }

    /// The CPUs of a file next to `path`.
    fn cpus(path: &Path, name: &str) -> CpuSet {
        let text = fs::read_to_string(path.with_file_name(name)).unwrap_or_default();
        CpuSet::try_from(text.trim().to_string()).unwrap_or_default()
    }

    /// A partition lies in a partition, and leaves it a CPU.
    fn partition(path: &Path) -> io::Result<String> {
        let outer = path.parent().and_then(Path::parent).unwrap_or(path).join("x");
        let state = fs::read_to_string(outer.with_file_name("cpuset.cpus.partition"));
        Ok(if state.is_ok_and(|state| state.trim() != "root") {
            "root invalid (Parent is not a partition root)\n".to_string()
        } else if cpus(&outer, "cpuset.cpus.effective").minus(&cpus(path, "cpuset.cpus")).is_empty()
        {
            "root invalid (Parent unable to distribute cpu downstream)\n".to_string()
        } else {
            "root\n".to_string()
        })
    }

    /// A version 1 cpuset lies within its parent and shares no CPU with exclusive ones.
    fn fits_v1(path: &Path, text: &str) -> io::Result<()> {
        let wanted = CpuSet::try_from(text.to_string()).unwrap_or_default();
        let folder = path.parent().unwrap_or(path);
        let outer = folder.parent().unwrap_or(folder);
        if !wanted.minus(&cpus(&outer.join("x"), "cpuset.cpus")).is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        for sibling in fs::read_dir(outer)?.flatten().map(|entry| entry.path()) {
            let exclusive = fs::read_to_string(sibling.join("cpuset.cpu_exclusive"));
            let its_cpus = cpus(&sibling.join("x"), "cpuset.cpus");
            if sibling != folder
                && exclusive.is_ok_and(|on| on.trim() == "1")
                && wanted.minus(&its_cpus) != wanted
            {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
        }
        Ok(())
    }

    /// The files of a new cgroup, by version of the tree and the controllers that its parent gives.
    pub fn fill(host: &Host, path: &Path) -> io::Result<()> {
        if !laid_out(host) {
            return Ok(());
        }
        let folder = host.path(path);
        let parent = folder.parent().unwrap_or(&folder);
        let given = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        let gives = |name: &str| given.split_whitespace().any(|word| word == name);
        let v2 = parent.join("cgroup.controllers").exists();
        let has = |name: &str| parent.join(name).exists();
        let effective = fs::read_to_string(parent.join("cpuset.cpus.effective"));
        let effective = effective.unwrap_or_default();
        let mut files: Vec<(&str, &str)> = vec![("cgroup.procs", "")];
        if v2 {
            files.extend([("cgroup.controllers", &*given), ("cgroup.subtree_control", "")]);
            files.extend([("cgroup.type", "domain"), ("cgroup.threads", "")]);
        }
        if v2 && gives("cpu") {
            files.extend([("cpu.weight", "100"), ("cpu.max", "max 100000"), ("cpu.idle", "0")]);
        }
        if v2 && gives("cpuset") {
            files.extend([("cpuset.cpus", ""), ("cpuset.mems", "")]);
            files.extend([("cpuset.cpus.effective", &*effective)]);
            files.extend([("cpuset.cpus.partition", "member\n")]);
        }
        if !v2 {
            files.push(("tasks", ""));
        }
        if !v2 && has("cpuset.cpus") {
            files.extend([("cpuset.cpus", ""), ("cpuset.mems", "")]);
            files.extend([("cpuset.cpu_exclusive", "0")]);
        }
        if !v2 && (has("cpu.shares") || !has("cpuset.cpus")) {
            files.extend([("cpu.shares", "1024"), ("cpu.cfs_quota_us", "-1")]);
            files.extend([("cpu.cfs_period_us", "100000"), ("cpu.idle", "0")]);
        }
        files.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))
    }

    /// cgroupfs removes a folder with its files, if no folder is in it.
    pub fn empty(host: &Host, path: &Path) -> io::Result<()> {
        if laid_out(host) {
            for entry in fs::read_dir(host.path(path))? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }
}
