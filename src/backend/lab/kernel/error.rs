//! Errors of kernels, each with the value seen and a hint.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::name::{Name, NameFault};
use super::stamp::Damage;
use crate::model::Advice;
use crate::model::clean as plain;
use crate::sys::{input, remedy};

/// `action` completes "cannot ..."; apt's own words cannot drive a terminal.
#[derive(Debug, Error)]
pub enum KernelError {
    #[error("`{}` names no kernel: {why}", plain(name))]
    Name { name: String, why: NameFault },
    #[error("{} is not a kernel that the lab can boot: {why}", shown(path))]
    Image { path: PathBuf, why: HeaderFault },
    #[error("the kernel `{name}` is not in the cache {}, which {}", shown(cache), has(others))]
    NotCached { name: String, cache: PathBuf, others: Vec<String> },
    #[error("the kernel in {} is damaged: {why}", shown(folder))]
    Damaged { name: String, is_built: bool, folder: PathBuf, why: Damage },
    /// The system's reason why it knows no home folder.
    #[error("cannot find the folder of the cache: {0}")]
    NoHome(String),
    #[error("cannot {action} {}: {source}", shown(path))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A file or folder that a user named.
    #[error("cannot read {}: {source}", shown(path))]
    Given { path: PathBuf, source: io::Error },
    #[error("guests are x86-64, and this program, which is their first process, is for {0}")]
    Architecture(&'static str),
    #[error("cannot fetch kernels: there is no `{program}` on this machine")]
    NoApt { program: String },
    #[error("cannot fetch kernels: apt has no Debian archive among its sources ({})", list(files))]
    NoMirror { files: Vec<PathBuf> },
    #[error("cannot fetch kernels: the keys of Debian's archive are not there: {}", shown(path))]
    NoKeyring { path: PathBuf },
    #[error("cannot fetch kernels: no suite could be read; {first}")]
    NoSuite { first: String },
    #[error("no suite ({suites}) has the kernel `{name}`{others}")]
    NotOffered { name: String, suites: String, others: String },
    #[error("cannot {action}: {why}")]
    Apt { action: String, why: String },
    #[error("interrupted")]
    Interrupted,
    #[error("the package {package} is not what it should be: {why}")]
    Package { package: String, why: PackageFault },
}

/// Why the lab cannot boot a file.
#[derive(Debug, PartialEq, Error)]
pub enum HeaderFault {
    #[error("it is an ELF file (vmlinux?), and the lab boots arch/x86/boot/bzImage")]
    Elf,
    #[error("it has no `HdrS` at 0x202, where a bzImage has it")]
    NoMagic,
    #[error("its boot protocol is older than 2.12 (Linux 3.8)")]
    OldProtocol,
    #[error("it is a 32-bit kernel")]
    Bits32,
    #[error("its header has no version")]
    NoVersion,
    #[error("its header ends before its version")]
    Truncated,
    #[error("its version is empty")]
    EmptyVersion,
    #[error("it has {bytes} bytes of at least {wanted}: a copy that was cut off")]
    CutOff { bytes: u64, wanted: u64 },
}

/// Faults of a fetched package.
#[derive(Debug, Error)]
pub enum PackageFault {
    #[error("apt reports success, and there is no file")]
    NoFile,
    #[error("its SHA-256 is {found}, and the list says {}", plain(listed))]
    Digest { found: String, listed: String },
    #[error("it has no vmlinuz")]
    NoImage,
    #[error("its image calls itself {}", plain(.0))]
    OtherRelease(String),
    #[error("it has no hypervisor that is an ELF file")]
    NoHypervisor,
    #[error("neither it nor those that it needs have {}", plain(.0))]
    NoFileIn(String),
    #[error("it has no linux-source-*.tar.xz")]
    NoSources,
    #[error("it is not in the cache after it was put there")]
    NotKept,
}

impl KernelError {
    /// Whether the disk is full, as the system or apt reports it (in the locale C).
    pub fn is_full(&self) -> bool {
        let says = |text: &str| text.contains("No space left on device");
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Apt { why, .. } => says(why),
            Self::NoSuite { first } => says(first),
            _ => false,
        }
    }

    /// A file that cannot be read is one that a user named.
    pub(super) fn given(self) -> KernelError {
        match self {
            Self::Io { action: "read", path, source } => Self::Given { path, source },
            other => other,
        }
    }

    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KernelError {
        let path = path.to_path_buf();
        move |source| KernelError::Io { action, path, source }
    }
}

impl Advice for KernelError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        let own = "or name a kernel of your own by its path: arch/x86/boot/bzImage";
        Some(Cow::from(match self {
            Self::Name { why: NameFault::SourceVersion, .. } => {
                "schedlab kernel build debian-source:6.12 --name NAME, or --tree DIR".to_string()
            }
            Self::Name { why: NameFault::Built(_), .. } => "--name my-kernel".to_string(),
            Self::Name { name, .. } if Name::meant(name).is_some() => {
                let meant = Name::meant(name).unwrap_or_default();
                format!("did you mean `{meant}`? schedlab kernel list --available")
            }
            Self::Name { .. } => {
                "names are like debian:6.18, debian:6.18.15, debian:6.1-amd64, xen:4.17, or a path: \
                 schedlab kernel list --available"
                    .to_string()
            }
            Self::Image { .. } => "build one: make bzImage; or: schedlab kernel list".to_string(),
            Self::Damaged { name, is_built: true, .. } => {
                format!("build it again: schedlab kernel build BASE --name {name}")
            }
            Self::NotCached { name, .. } if !name.contains(':') => {
                "schedlab kernel list".to_string()
            }
            Self::NotCached { name, .. } | Self::Damaged { name, .. } => {
                format!("schedlab kernel get {name}")
            }
            Self::NoHome(_) => "set HOME or XDG_CACHE_HOME".to_string(),
            _ if self.is_full() => {
                "make room, or set XDG_CACHE_HOME to a folder with 300 MB free; \
                 schedlab kernel list shows the size of the cached kernels"
                    .to_string()
            }
            Self::Io { action: "read", path, source } | Self::Given { path, source } => {
                remedy::read(path, source)
            }
            Self::Io { path, source, .. } => remedy::write_own("XDG_CACHE_HOME", path, source),
            Self::Architecture(_) => {
                "measure this machine: --backend local; the lab needs an x86-64 one".to_string()
            }
            Self::NoApt { .. } => format!(
                "fetch on a Debian machine (apt-get install apt dpkg) and copy its folder of \
                 kernels, {own}"
            ),
            Self::NoMirror { .. } => {
                format!("give apt a source with a Debian suite and the component main, {own}")
            }
            Self::NoKeyring { .. } => "apt-get install debian-archive-keyring".to_string(),
            Self::NoSuite { .. } | Self::Apt { .. } => {
                "see whether apt reaches its mirror: apt-get update".to_string()
            }
            Self::NotOffered { .. } => "schedlab kernel list --available".to_string(),
            Self::Package { .. } => format!("try again later; {own}"),
            Self::Interrupted => "the same command begins again".to_string(),
        }))
    }

    fn is_usage(&self) -> bool {
        match self {
            Self::Name { .. } => true,
            Self::Io { source, .. } => input::is_wrong_file(source),
            Self::Given { source, .. } => !input::may_pass(source),
            _ => false,
        }
    }
}

fn shown(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

fn has(kernels: &[String]) -> String {
    if kernels.is_empty() { "is empty".to_string() } else { format!("has {}", kernels.join(", ")) }
}

fn list(files: &[PathBuf]) -> String {
    if files.is_empty() {
        "no list could be read".to_string()
    } else {
        files.iter().map(|file| shown(file)).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_drive_a_terminal() {
        assert_eq!(plain("E: \u{1b}[2Jgone\u{202e}é 'x'"), "E: \\u{1b}[2Jgone\\u{202e}é 'x'");
        let image = KernelError::Image { path: "a\u{7}b".into(), why: HeaderFault::Bits32 };
        assert!(image.to_string().starts_with("a\\u{7}b is not a kernel that the lab can boot: "));
    }

    #[test]
    fn a_full_disk_and_a_folder_without_permission_have_different_hints() {
        let hint_of = |action: &'static str, error: io::Error| {
            KernelError::io(action, Path::new("x"))(error).problem().hint.unwrap()
        };
        let hint = |kind: io::ErrorKind| hint_of("write", kind.into());
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied] {
            assert_eq!(hint_of("read", kind.into()), "ls -ld x");
        }
        let too_large = || input::InputFault::TooLarge(1 << 30).into();
        for action in ["read", "copy"] {
            assert_eq!(hint_of(action, too_large()), "is it the right file? ls -ld x");
        }
        let apt = |why: &str| KernelError::Apt { action: "x".to_string(), why: why.to_string() };
        assert!(
            apt("write (28: No space left on device)").hint().unwrap().starts_with("make room")
        );
        assert!(
            apt("connect (111: Connection refused)").hint().unwrap().contains("apt-get update")
        );
        assert!(hint(io::ErrorKind::StorageFull).starts_with("make room"));
        assert!(hint(io::ErrorKind::PermissionDenied).starts_with("set XDG_CACHE_HOME"));
    }
}
