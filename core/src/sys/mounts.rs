//! /proc/self/mountinfo: where cgroup hierarchies and debugfs are mounted, and the
//! directories of this process's own cgroup. Parsing is pure.

use std::path::{Component, Path, PathBuf};

use crate::model::Reading;

use super::Host;

/// One line of mountinfo, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The directory of the file system that is mounted: not `/` inside containers.
    pub root: PathBuf,
    pub point: PathBuf,
    pub filesystem: String,
    /// Options of the file system; for cgroup v1 they name the controllers.
    pub options: Vec<String>,
}

/// This process's cgroup in one hierarchy, and the mount that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCgroup {
    pub mount: PathBuf,
    pub directory: PathBuf,
    pub is_v2: bool,
}

impl OwnCgroup {
    /// Its own directory and every one above it, up to the mount point.
    pub fn with_ancestors(&self) -> impl Iterator<Item = &Path> {
        self.directory.ancestors().take_while(|path| path.starts_with(&self.mount))
    }
}

pub const MOUNTINFO: &str = "/proc/self/mountinfo";
/// File systems of cgroups.
pub const CGROUP_V1: &str = "cgroup";
pub const CGROUP_V2: &str = "cgroup2";

impl Mount {
    /// The folder of a cgroup of /proc/self/cgroup. Inside a container the mount shows a part of the tree; for a
    /// cgroup outside of it this returns the mount itself.
    pub fn cgroup_folder(&self, cgroup: &str) -> PathBuf {
        let inside = Path::new(cgroup).strip_prefix(&self.root).unwrap_or(Path::new(""));
        if inside.components().any(|part| part == Component::ParentDir) {
            self.point.clone()
        } else {
            self.point.join(inside).components().collect()
        }
    }
}

pub fn mounts(host: &Host) -> Reading<Vec<Mount>> {
    host.reading(MOUNTINFO).map(|text| parse_all(&text))
}

/// The text of [`MOUNTINFO`].
pub fn parse_all(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse).collect()
}

/// `v2`, `v1` or `hybrid` (controllers of v1 with a mounted v2).
pub fn cgroup_mode(mounts: &[Mount]) -> &'static str {
    let has = |kind: &str| mounts.iter().any(|mount| mount.filesystem == kind);
    match (has(CGROUP_V1), has(CGROUP_V2)) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    }
}

/// The cgroups that limit this process's CPU bandwidth: of the v1 `cpu` controller, and of v2. Hybrid machines have
/// both, and only one of them the controller: its files are absent in the other.
pub fn own_cpu_cgroups(host: &Host) -> Reading<Vec<OwnCgroup>> {
    mounts(host).and_then(|mounts| {
        let text = host.reading("/proc/self/cgroup");
        text.map(|text| text.lines().filter_map(|line| own_cpu_cgroup(line, &mounts)).collect())
    })
}

/// `HIERARCHY:CONTROLLERS:PATH` of /proc/self/cgroup.
fn own_cpu_cgroup(line: &str, mounts: &[Mount]) -> Option<OwnCgroup> {
    let mut parts = line.splitn(3, ':');
    let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let is_v2 = hierarchy == "0" && controllers.is_empty();
    let mount = if is_v2 {
        mounts.iter().find(|mount| mount.filesystem == CGROUP_V2)?
    } else {
        controllers.split(',').find(|controller| *controller == "cpu")?;
        mounts.iter().find(|mount| {
            mount.filesystem == CGROUP_V1 && mount.options.iter().any(|option| option == "cpu")
        })?
    };
    Some(OwnCgroup { mount: mount.point.clone(), directory: mount.cgroup_folder(path), is_v2 })
}

/// `ID PARENT MAJ:MIN ROOT POINT OPTIONS [OPTIONAL...] - TYPE SOURCE SUPER-OPTIONS`.
fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (filesystem, _source, options) = (right.next()?, right.next()?, right.next()?);
    Some(Mount {
        root: unescape(root).into(),
        point: unescape(point).into(),
        filesystem: filesystem.to_string(),
        options: options.split(',').map(str::to_string).collect(),
    })
}

/// The kernel writes space, tab, newline and backslash as `\040` and so on.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_string(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
30 31 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate";
    const V2: &str = "24 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
    const CONTAINER: &str =
        "24 1 0:22 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct";

    #[test]
    fn the_cgroup_mode_follows_from_what_is_mounted() {
        for (text, mode) in [(HYBRID, "hybrid"), (V2, "v2"), (CONTAINER, "v1"), ("", "none")] {
            assert_eq!(cgroup_mode(&parse_all(text)), mode, "{text}");
        }
    }

    #[test]
    fn the_own_cgroup_is_found_below_its_mount() {
        let cases = [
            (HYBRID, "4:cpu,cpuacct:/a/b", Some("/sys/fs/cgroup/cpu/a/b")),
            (HYBRID, "0::/user.slice", Some("/sys/fs/cgroup/unified/user.slice")),
            (HYBRID, "3:cpuset:/a", None),
            (HYBRID, "nonsense", None),
            (V2, "0::/", Some("/sys/fs/cgroup")),
            (V2, "4:cpu:/a", None),
            (CONTAINER, "4:cpu,cpuacct:/docker/abc/in", Some("/sys/fs/cgroup/cpu/in")),
            (CONTAINER, "4:cpu,cpuacct:/docker/abc", Some("/sys/fs/cgroup/cpu")),
            (CONTAINER, "4:cpu,cpuacct:/../other", Some("/sys/fs/cgroup/cpu")),
        ];
        for (mounts, line, expected) in cases {
            let got = own_cpu_cgroup(line, &parse_all(mounts)).map(|own| own.directory);
            assert_eq!(got, expected.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn ancestors_end_at_the_mount_point() {
        let own = own_cpu_cgroup("4:cpu:/a/b", &parse_all(HYBRID)).unwrap();
        let paths: Vec<_> = own.with_ancestors().map(|path| path.display().to_string()).collect();
        let expected = ["/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu"];
        assert_eq!(paths, expected);
    }

    #[test]
    fn malformed_lines_are_left_out_and_escapes_are_undone() {
        assert_eq!(parse_all("x\n1 2 3 - cgroup\n1 2 0:1 / - cgroup2 a rw"), []);
        assert_eq!(
            parse_all("1 2 0:1 / /a\\040b rw - ext4 dev rw")[0].point,
            PathBuf::from("/a b")
        );
    }
}
