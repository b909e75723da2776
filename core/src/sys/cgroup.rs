//! Finds the place where this process may make a cgroup with a CPU or cpuset controller, version 1 or 2, and ends a
//! cgroup: its processes are killed, and it is removed.
//!
//! Input: /proc/self/mountinfo, /proc/self/cgroup and the trees that they name.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::call::descriptor;
use super::mounts::{self, CGROUP_V1, CGROUP_V2, MOUNTINFO, Mount};
use super::{FileError, Host, clock, host::error_text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// The controllers of cgroups that schedlab uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    Cpu,
    Cpuset,
}

impl Controller {
    /// The kernel's name of it, in files.
    pub fn word(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Cpuset => "cpuset",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Controller::Cpu => "CPU",
            Controller::Cpuset => "cpuset",
        }
    }
}

/// The mounted hierarchy that a controller is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    pub version: Version,
    pub root: PathBuf,
    /// The folder of this process's cgroup.
    pub own: PathBuf,
}

/// The place for a new cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub version: Version,
    /// The folder in which a cgroup can be made.
    pub parent: PathBuf,
    /// Children of `parent` have these controllers only once `+NAME` is written to its
    /// `cgroup.subtree_control` (version 2 only).
    pub enable: Vec<Controller>,
}

/// Why no cgroup can be made.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("no cgroup tree with a {} controller is mounted", .0.title())]
    NoTree(Controller),
    #[error("no cgroup can be made in {}: {}", .folder.display(), error_text(.source))]
    Refused { folder: PathBuf, source: io::Error },
    #[error(
        "the cgroup tree at {} has no {} controller for this process",
        .root.display(), titles(.wanted)
    )]
    NoController { root: PathBuf, wanted: Vec<Controller> },
}

fn titles(controllers: &[Controller]) -> String {
    let names: Vec<&str> = controllers.iter().map(|controller| controller.title()).collect();
    names.join(" and ")
}

/// The hierarchy of a controller: of version 1 where one is mounted for it, else version 2,
/// which may still lack it.
pub fn tree(host: &Host, controller: Controller) -> Result<Tree, CgroupError> {
    let mounts = mounts::parse_all(&host.text(MOUNTINFO)?);
    let own = host.text("/proc/self/cgroup")?;
    let of = |version, mount: &Mount, own: &str| {
        let (root, own) = (mount.point.clone(), mount.cgroup_folder(own));
        Tree { version, root, own }
    };
    if let Some(mount) = mounts.iter().find(|mount| is_v1_of(mount, controller)) {
        let own = own_path(&own, |names| is_among(controller, names));
        return Ok(of(Version::V1, mount, own));
    }
    let unified = mounts.iter().find(|mount| mount.filesystem == CGROUP_V2);
    let unified = unified.map(|mount| of(Version::V2, mount, own_path(&own, str::is_empty)));
    unified.ok_or(CgroupError::NoTree(controller))
}

/// Finds the nearest place, from this process's own cgroup upwards, where a cgroup with all
/// of these controllers can be made and processes put in. For a cpuset, places where it can
/// be a partition go before others. The error says why there is none.
pub fn place(host: &Host, tree: &Tree, wanted: &[Controller]) -> Result<Place, CgroupError> {
    if tree.version == Version::V2 {
        return in_unified_tree(host, tree, wanted);
    }
    let parent = tree.own.clone();
    match can_host(host, &parent) {
        Ok(()) => Ok(Place { version: Version::V1, parent, enable: Vec::new() }),
        Err(source) => Err(CgroupError::Refused { folder: parent, source }),
    }
}

/// Version 2: processes live in leaves only (except for the root), so a cgroup next to them is made in an ancestor
/// whose children have the controllers, or could have them.
fn in_unified_tree(host: &Host, tree: &Tree, wanted: &[Controller]) -> Result<Place, CgroupError> {
    let folders = tree.own.ancestors().take_while(|folder| folder.starts_with(&tree.root));
    let first = |folder: &&Path| !wanted.contains(&Controller::Cpuset) || parts(host, folder);
    let (first, rest): (Vec<&Path>, Vec<&Path>) = folders.partition(first);
    let found = |parent: &Path, enable| {
        Ok(Place { version: Version::V2, parent: parent.to_path_buf(), enable })
    };
    let mut refused = None;
    for folders in [first, rest] {
        let missing =
            |folder: &Path, file: &str| controllers_missing(host, &folder.join(file), wanted);
        let enabled = |f: &&&Path| missing(f, "cgroup.subtree_control").is_empty();
        for folder in folders.iter().filter(enabled) {
            match can_host(host, folder) {
                Ok(()) => return found(folder, Vec::new()),
                Err(source) => refused = Some((folder.to_path_buf(), source)),
            }
        }
        for folder in folders.iter().filter(|f| missing(f, "cgroup.controllers").is_empty()) {
            // Only the root may have both processes and children with controllers.
            let is_empty = host.read(folder.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty());
            let control = host.can_write(folder.join("cgroup.subtree_control"));
            match control.and_then(|()| can_host(host, folder)) {
                Ok(()) if is_root(host, folder) || is_empty => {
                    return found(folder, missing(folder, "cgroup.subtree_control"));
                }
                Ok(()) => {}
                Err(source) => refused = Some((folder.to_path_buf(), source)),
            }
        }
    }
    Err(match refused {
        Some((folder, source)) => CgroupError::Refused { folder, source },
        None => CgroupError::NoController { root: tree.root.clone(), wanted: wanted.to_vec() },
    })
}

/// The controllers of `wanted` that a file of controllers does not name.
pub fn controllers_missing(host: &Host, file: &Path, wanted: &[Controller]) -> Vec<Controller> {
    let text = host.read(file).unwrap_or_default();
    let named = |wanted: &Controller| text.split_whitespace().any(|word| word == wanted.word());
    wanted.iter().copied().filter(|controller| !named(controller)).collect()
}

/// The root of a version 2 tree has no `cgroup.type`.
fn is_root(host: &Host, folder: &Path) -> bool {
    host.read(folder.join("cgroup.type")).is_err()
}

/// Whether cpusets in this cgroup can be partitions: only a child of a partition can, and the root counts as one.
fn parts(host: &Host, folder: &Path) -> bool {
    match host.read(folder.join("cpuset.cpus.partition")) {
        Ok(state) => is_partition(&state),
        Err(_) => is_root(host, folder),
    }
}

/// Whether `cpuset.cpus.partition` shows a partition in effect.
pub fn is_partition(state: &str) -> bool {
    matches!(state.trim(), "root" | "isolated")
}

/// The file with the real-time runtime of the calling thread's own cgroup and its contents, where the kernel gives
/// cgroups one (CONFIG_RT_GROUP_SCHED; version 1 only).
pub fn own_rt_runtime(host: &Host) -> Option<(PathBuf, String)> {
    let mounts = mounts::parse_all(&host.read(MOUNTINFO).ok()?);
    let mount = mounts.iter().find(|mount| is_v1_of(mount, Controller::Cpu))?;
    let own = host.read("/proc/thread-self/cgroup").ok()?;
    let own = own_path(&own, |names| is_among(Controller::Cpu, names));
    let path = mount.cgroup_folder(own).join("cpu.rt_runtime_us");
    let runtime_us = host.read(&path).ok()?;
    Some((path, runtime_us))
}

fn is_v1_of(mount: &Mount, controller: Controller) -> bool {
    mount.filesystem == CGROUP_V1 && mount.options.iter().any(|name| name == controller.word())
}

/// Whether a list with commas names the controller.
fn is_among(controller: Controller, names: &str) -> bool {
    names.split(',').any(|name| name == controller.word())
}

/// Whether a cgroup can be made in `folder` and processes put in it.
pub fn can_host(host: &Host, folder: &Path) -> io::Result<()> {
    host.can_make_in(folder)?;
    host.can_write(folder.join("cgroup.procs"))
}

/// A cgroup that no task is found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotKnown {
    Absent,
    /// Tasks are found by their cgroups of version 2.
    V1,
}

/// A cgroup's path below the root of the version 2 tree, as the kernel writes it. `path` may be that of its folder.
pub fn known_path(host: &Host, path: &str) -> Result<String, NotKnown> {
    let mounts = mounts::mounts(host).known().unwrap_or_default();
    let points = |filesystem| {
        mounts.iter().filter(move |mount| mount.filesystem == filesystem).map(|mount| &mount.point)
    };
    let below = |point: &PathBuf| Some(Path::new(path).strip_prefix(point).ok()?.to_path_buf());
    let inside = points(CGROUP_V2).find_map(below);
    let inside = inside.map(|inside| inside.display().to_string());
    let shown = inside.as_deref().unwrap_or(path);
    let shown = shown.strip_prefix("/sys/fs/cgroup").unwrap_or(shown).trim_matches('/');
    let known = paths_by_inode(host);
    let shown = format!("/{shown}");
    if shown == "/" || known.values().any(|known| *known == shown) {
        return Ok(shown);
    }
    let folder = |point: &PathBuf| point.join(below(point).unwrap_or(shown[1..].into()));
    if points(CGROUP_V1).any(|point| host.path(folder(point)).is_dir()) {
        return Err(NotKnown::V1);
    }
    // Where none can be listed, tasks may have theirs all the same.
    if known.is_empty() { Ok(shown) } else { Err(NotKnown::Absent) }
}

/// The cgroups of the version 2 tree by the number that the kernel has for each, which is its
/// folder's inode. Empty where no such tree is mounted.
pub fn paths_by_inode(host: &Host) -> HashMap<u64, String> {
    let mounts = mounts::mounts(host).known().unwrap_or_default();
    let Some(tree) = mounts.iter().find(|mount| mount.filesystem == CGROUP_V2) else {
        return HashMap::new();
    };
    let mut found = HashMap::new();
    let mut left = vec![(host.path(&tree.point), String::new())];
    while let Some((folder, path)) = left.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())) {
            let name = entry.file_name();
            left.push((folder.join(&name), format!("{path}/{}", name.to_string_lossy())));
        }
        let inode = fs::metadata(&folder).map(|of| of.ino());
        let shown = if path.is_empty() { "/".to_string() } else { path };
        found.extend(inode.ok().map(|inode| (inode, shown)));
    }
    found
}

/// The cgroup of a process in the version 2 tree. `None`: the cgroup or the process does not exist.
pub fn path_of(host: &Host, pid: i32) -> Option<String> {
    let text = host.read(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_string)
}

/// The cgroup of the line `ID:CONTROLLERS:PATH` whose controllers fit; else the root.
fn own_path(proc_cgroup: &str, fits: impl Fn(&str) -> bool) -> &str {
    let parse = |line: &'_ str| -> Option<(usize, usize)> {
        let first = line.find(':')? + 1;
        let second = first + line[first..].find(':')?;
        Some((first, second))
    };
    let mut lines = proc_cgroup.lines();
    lines
        .find_map(|line| {
            let (first, second) = parse(line)?;
            fits(&line[first..second]).then(|| &line[second + 1..])
        })
        .unwrap_or("/")
}

/// How long killed processes get to leave their cgroup.
const LEAVE_NS: u64 = 5_000_000_000;

/// Kills every process in the cgroup at `path` and below, and removes it.
pub fn end(host: &Host, path: &Path) -> io::Result<()> {
    let deadline_ns = clock::monotonic_ns() + LEAVE_NS;
    loop {
        // In a threaded tree only the top cgroup lists the processes.
        kill_members(host, path, deadline_ns)?;
        for child in std::fs::read_dir(host.path(path))? {
            let child = child?;
            if child.file_type()?.is_dir() {
                end(host, &path.join(child.file_name()))?;
            }
        }
        match host.remove_cgroup(path) {
            // A member forked while it was being killed, or has not quite left.
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY)
                    && clock::monotonic_ns() < deadline_ns =>
            {
                clock::sleep_until(clock::monotonic_ns() + 1_000_000);
            }
            result => return result,
        }
    }
}

/// Kills the members of one cgroup and waits until they have ended. A process is held by a
/// pidfd and its membership read again before it is killed, so that a re-used pid is safe.
/// This process, if it was put in there, is spared; the cgroup then stays.
fn kill_members(host: &Host, path: &Path, deadline_ns: u64) -> io::Result<()> {
    let members = match host.read(path.join("cgroup.procs")) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(()),
        members => members?,
    };
    for pid in members.lines().filter_map(|line| line.trim().parse::<i32>().ok()) {
        if pid == std::process::id() as i32 {
            continue;
        }
        let Ok(process) = pidfd(pid) else { continue };
        let again = host.read(path.join("cgroup.procs"))?;
        if !again.lines().any(|line| line.trim().parse() == Ok(pid)) {
            continue;
        }
        // SAFETY: a valid pidfd; no siginfo is passed.
        unsafe {
            let none = std::ptr::null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, none, 0)
        };
        let left_ms = deadline_ns.saturating_sub(clock::monotonic_ns()) / 1_000_000;
        let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut poll, 1, left_ms as libc::c_int) };
    }
    Ok(())
}

fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes plain numbers, and the descriptor is new.
    unsafe { descriptor(libc::syscall(libc::SYS_pidfd_open, pid, 0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const V1: &str = "28 24 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        30 28 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
        29 28 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        31 28 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    const V2: &str = "31 28 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate";

    /// Folders, each with its files and their text.
    type Folders<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];

    /// A laid-out machine: mounts, this process's cgroups, folders with their files.
    fn machine(mounts: &str, own: &str, tree: Folders) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::below(dir.path());
        fs::create_dir_all(host.path("/proc/self")).unwrap();
        fs::write(host.path("/proc/self/mountinfo"), mounts).unwrap();
        fs::write(host.path("/proc/self/cgroup"), own).unwrap();
        for (folder, files) in tree {
            fs::create_dir_all(host.path(folder)).unwrap();
            fs::write(host.path(folder).join("cgroup.procs"), "").unwrap();
            for (name, text) in *files {
                fs::write(host.path(folder).join(name), text).unwrap();
            }
        }
        (dir, host)
    }

    const ENABLED: &[(&str, &str)] =
        &[("cgroup.controllers", "cpuset cpu io"), ("cgroup.subtree_control", "cpu io")];
    const POSSIBLE: &[(&str, &str)] =
        &[("cgroup.controllers", "cpu"), ("cgroup.subtree_control", "memory")];
    const BUSY: &[(&str, &str)] = &[
        ("cgroup.controllers", "cpu"),
        ("cgroup.subtree_control", ""),
        ("cgroup.type", "domain"),
        ("cgroup.procs", "17\n"),
    ];
    const LEAF: &[(&str, &str)] = &[("cgroup.controllers", ""), ("cgroup.subtree_control", "")];

    fn cpu_controller(host: &Host) -> Result<Place, CgroupError> {
        place(host, &tree(host, Controller::Cpu)?, &[Controller::Cpu])
    }

    #[test]
    fn the_nearest_cgroup_that_can_have_children_is_found() {
        type Case<'a> = (&'a str, &'a str, Folders<'a>, &'a str, bool);
        let root = "/sys/fs/cgroup";
        let cases: &[Case] = &[
            // v1: in one's own cgroup.
            (
                V1,
                "9:cpu,cpuacct:/a\n0::/",
                &[("/sys/fs/cgroup/cpu,cpuacct/a", &[])],
                "/sys/fs/cgroup/cpu,cpuacct/a",
                false,
            ),
            // v1 in a container: the mount does not show the cgroup that /proc names.
            (
                V1,
                "9:cpu,cpuacct:/../x\n",
                &[("/sys/fs/cgroup/cpu,cpuacct", &[])],
                "/sys/fs/cgroup/cpu,cpuacct",
                false,
            ),
            // v2: next to one's own leaf.
            (
                V2,
                "0::/user/leaf",
                &[
                    (root, ENABLED),
                    ("/sys/fs/cgroup/user", ENABLED),
                    ("/sys/fs/cgroup/user/leaf", LEAF),
                ],
                "/sys/fs/cgroup/user",
                false,
            ),
            // v2: an ancestor that has the controller is better than a nearer one without.
            (
                V2,
                "0::/user/leaf",
                &[
                    (root, ENABLED),
                    ("/sys/fs/cgroup/user", POSSIBLE),
                    ("/sys/fs/cgroup/user/leaf", LEAF),
                ],
                root,
                false,
            ),
            // v2: nobody uses it yet.
            (V2, "0::/busy", &[(root, POSSIBLE), ("/sys/fs/cgroup/busy", BUSY)], root, true),
        ];
        for (mounts, own, tree, parent, enable) in cases {
            let (_dir, host) = machine(mounts, own, tree);
            let found = cpu_controller(&host).unwrap();
            let enabled = !found.enable.is_empty();
            assert_eq!((found.parent.to_str().unwrap(), enabled), (*parent, *enable), "{own}");
        }
    }

    #[test]
    fn a_cpuset_is_made_where_it_can_be_a_partition() {
        let in_root = [("cgroup.controllers", "cpuset cpu"), ("cgroup.subtree_control", "cpu")];
        let both = [Controller::Cpuset, Controller::Cpu];
        let found = |root: &[(&str, &str)], state: &str, wanted: &[Controller]| {
            let user: &[(&str, &str)] = &[
                ("cgroup.controllers", "cpuset cpu"),
                ("cgroup.subtree_control", "cpuset cpu"),
                ("cgroup.type", "domain"),
                ("cpuset.cpus.partition", state),
            ];
            let tree: Folders = &[("/sys/fs/cgroup", root), ("/sys/fs/cgroup/user", user)];
            let (_dir, host) = machine(V2, "0::/user", tree);
            let place = place(&host, &super::tree(&host, Controller::Cpuset).unwrap(), wanted);
            place.map(|place| (place.parent.display().to_string(), place.enable)).unwrap()
        };
        let (root, user) = ("/sys/fs/cgroup".to_string(), "/sys/fs/cgroup/user".to_string());
        assert_eq!(found(&in_root, "member", &both), (root, vec![Controller::Cpuset]));
        assert_eq!(found(&in_root, "root", &both), (user.clone(), vec![]));
        let without = [("cgroup.controllers", "cpu"), ("cgroup.subtree_control", "cpu")];
        assert_eq!(found(&without, "member", &both[..1]), (user.clone(), vec![]));
        assert_eq!(found(&in_root, "member", &both[1..]), (user, vec![]), "no cpuset is wanted");
    }

    #[test]
    fn a_cgroup_of_version_2_is_found_by_its_path_and_by_its_folder() {
        let folders: Folders = &[
            ("/sys/fs/cgroup/unified/a/b", &[]),
            ("/sys/fs/cgroup/cpu,cpuacct/a", &[]),
            ("/sys/fs/cgroup/cpu,cpuacct/old", &[]),
        ];
        let (_dir, host) = machine(V1, "0::/", folders);
        let cases = [
            ("/a/b/", Ok("/a/b")),
            ("/sys/fs/cgroup/a", Ok("/a")),
            ("/sys/fs/cgroup/unified/a/b", Ok("/a/b")),
            ("/sys/fs/cgroup/unified", Ok("/")),
            ("/old", Err(NotKnown::V1)),
            ("/sys/fs/cgroup/cpu,cpuacct/a", Err(NotKnown::V1)),
            ("/sys/fs/cgroup/cpu,cpuacct/none", Err(NotKnown::Absent)),
            ("/sys/fs/cgroup/unified/none", Err(NotKnown::Absent)),
        ];
        for (path, expected) in cases {
            assert_eq!(known_path(&host, path), expected.map(str::to_string), "{path}");
        }
        let (_dir, host) = machine(V2, "0::/", &[("/sys/fs/cgroup/a", &[])]);
        assert_eq!(known_path(&host, "/sys/fs/cgroup/a"), Ok("/a".to_string()));
    }

    #[test]
    fn why_there_is_none_is_reported() {
        let cases: &[(&str, Folders, &str)] = &[
            ("", &[], "no cgroup tree with a CPU controller is mounted"),
            (
                V2,
                &[("/sys/fs/cgroup", LEAF)],
                "the cgroup tree at /sys/fs/cgroup has no CPU controller for this process",
            ),
            (
                V2,
                &[("/sys/fs/cgroup", BUSY)],
                "the cgroup tree at /sys/fs/cgroup has no CPU controller for this process",
            ),
            (V1, &[], "no cgroup can be made in /sys/fs/cgroup/cpu,cpuacct: ENOENT, not there"),
        ];
        for (mounts, tree, why) in cases {
            let (_dir, host) = machine(mounts, "0::/", tree);
            assert_eq!(cpu_controller(&host).unwrap_err().to_string(), *why);
        }
    }

    #[test]
    fn a_container_mount_and_odd_paths_are_understood() {
        let line = "1 0 0:1 /docker/ab /mnt/my\\040tree rw - cgroup2 none rw";
        let mounts = mounts::parse_all(line);
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].cgroup_folder("/docker/ab/x"), Path::new("/mnt/my tree/x"));
        assert_eq!(mounts[0].cgroup_folder("/elsewhere"), Path::new("/mnt/my tree"));
        assert_eq!(own_path("2:cpuacct:/no\n1:cpu:/a:b\n0::/c", |c| c == "cpu"), "/a:b");
        assert_eq!(own_path("1:cpu:/a\n0::/c", str::is_empty), "/c");
    }
}
