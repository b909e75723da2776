//! A kernel that can be booted, and how a user's own is found by the path of its image.

use std::path::{Path, PathBuf};

use crate::model::Reading;

use super::config::Configuration;
use super::error::KernelError;
use super::hypervisor::Hypervisor;
use super::stamp::Built;
use super::{bzimage, digest, modules, scheduler};
use crate::sys::input;

/// A kernel that can be booted, with all its files checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// `debian:6.18.15`, the name that a built one was given, or a path.
    pub name: String,
    /// The release that `uname -r` prints.
    pub release: String,
    /// The whole version line of the image.
    pub version: String,
    pub origin: Origin,
    pub image: PathBuf,
    pub config: Option<PathBuf>,
    pub modules: Option<PathBuf>,
    /// The hypervisor that is booted below the kernel. The first domain and the guests then run the kernel.
    pub hypervisor: Option<Hypervisor>,
    /// SHA-256 over image, configuration, the modules that a guest could need and the files
    /// of the hypervisor: kernels with the same digest behave alike. In hexadecimal.
    pub digest: String,
    /// SHA-256 of the image alone.
    pub image_digest: String,
}

/// Where a kernel came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A user's own image.
    File,
    Package(Package),
    Built(Built),
}

/// The package of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    pub name: String,
    pub version: String,
}

impl Kernel {
    /// The modules that the tools of a hypervisor's first domain need, in the order of loading.
    pub fn modules_of_xen(&self) -> Result<Vec<PathBuf>, KernelError> {
        self.modules.as_deref().map_or(Ok(Vec::new()), modules::of_xen)
    }

    pub fn package(&self) -> Option<&Package> {
        match &self.origin {
            Origin::Package(package) => Some(package),
            Origin::File | Origin::Built(_) => None,
        }
    }

    /// The configuration of the kernel, if it is known.
    pub fn configuration(&self) -> Option<Configuration> {
        Some(Configuration::parse(&self.config_text()?))
    }

    /// The scheduler of ordinary tasks, by version and configuration.
    pub fn scheduler(&self) -> Reading<&'static str> {
        scheduler::family(&self.release, self.config_text().as_deref())
    }

    /// Whether schedulers can be loaded as BPF programs.
    pub fn sched_ext(&self) -> Reading<bool> {
        scheduler::sched_ext(self.config_text().as_deref())
    }

    pub fn config_text(&self) -> Option<String> {
        let bytes = input::read_file(self.config.as_ref()?, input::MAX_OWN_FILE_BYTES).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A user's own kernel. Without `config` and `modules`, those next to it: `.config`,
/// `config-RELEASE`, `config` or the build tree's `.config`, and a folder `modules`.
pub fn image(
    path: &Path,
    config: Option<&Path>,
    modules: Option<&Path>,
) -> Result<Kernel, KernelError> {
    let header = bzimage::read(path).map_err(KernelError::given)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let config = match config {
        Some(given) => Some(given.to_path_buf()),
        None => config_next_to(folder, &header.release),
    };
    let modules = match modules {
        Some(given) => Some(given.to_path_buf()),
        None => Some(folder.join("modules")).filter(|folder| folder.is_dir()),
    };
    let few = modules.as_deref().map_or(Ok(Vec::new()), modules::few);
    let digests = few.and_then(|few| digest::of_kernel(path, config.as_deref(), &few, &[]));
    let digests = digests.map_err(KernelError::given)?;
    Ok(Kernel {
        name: path.to_string_lossy().into_owned(),
        release: header.release,
        version: header.version,
        origin: Origin::File,
        image: path.to_path_buf(),
        config,
        modules,
        hypervisor: None,
        digest: digests.whole,
        image_digest: digests.image,
    })
}

fn config_next_to(folder: &Path, release: &str) -> Option<PathBuf> {
    let names = [".config".to_string(), format!("config-{release}"), "config".to_string()];
    let configs = names.iter().map(|name| folder.join(name));
    let is_build_tree = folder.ends_with("arch/x86/boot") || folder.ends_with("arch/x86_64/boot");
    let root = is_build_tree.then(|| folder.join("../../../.config"));
    configs.chain(root).find(|path| path.is_file())
}
