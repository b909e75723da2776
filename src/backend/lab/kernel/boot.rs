//! The file of a kernel that is booted: the ELF image inside if QEMU can enter it directly, which
//! saves the guest the firmware's loader and unpacking; otherwise the bzImage. Under a hypervisor
//! the first domain and its guests have the forms that are quickest there.
//!
//! The ELF image is kept as `vmlinux-IMAGE-OWN`, with the digests of its bzImage and of itself: a name always
//! means the same bytes. The image of a cached kernel is in the kernel's folder; that of a user's own kernel
//! is in `schedlab/vmlinux` in the cache folder. Each use reads and checks every byte.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::sys;
use crate::sys::replace::replace;

use super::image::Origin;
use super::shelf::{Lock, NEVER};
use super::{Cache, Entry, Kernel, KernelError, digest, payload, repack};
use crate::sys::input;

/// A file that is made from a bzImage, and kept.
struct Form {
    /// The beginning of its name.
    prefix: &'static str,
    make: fn(&[u8]) -> Option<Vec<u8>>,
}

const VMLINUX: Form = Form { prefix: "vmlinux-", make: payload::vmlinux };
/// The two forms under Xen.
const FIRST_DOMAIN: Form = Form { prefix: "first-domain-", make: repack::for_first_domain };
const GUEST: Form = Form { prefix: "guest-", make: repack::for_guests };
const FORMS: &[Form] = &[VMLINUX, FIRST_DOMAIN, GUEST];
/// Images of a user's own kernels that are kept: one build an hour must not fill the disk, and a run may
/// still need an older one.
const MAX_KEPT: usize = 8;

/// The file that QEMU boots, and the digest that results are kept by.
#[derive(Clone, Debug, PartialEq)]
pub struct Boot {
    /// For `-kernel`.
    pub path: PathBuf,
    /// Whether it is the ELF image, and not the bzImage.
    pub is_vmlinux: bool,
    /// SHA-256 over the kernel's digest and the file that is booted, in hexadecimal: a kernel
    /// that boots otherwise behaves otherwise until it is quiet.
    pub digest: String,
}

impl Kernel {
    /// Unpacks the ELF image at the first call. Under a hypervisor: the kernel of the first domain.
    pub fn boot(&self) -> Result<Boot, KernelError> {
        if self.hypervisor.is_none() {
            return Ok(self.booted(self.vmlinux()?));
        }
        let made = self.form_in(&Cache::open()?, &FIRST_DOMAIN)?;
        Ok(self.under_xen(made))
    }

    /// The kernel of guests under a hypervisor, made at the first call.
    pub fn of_guests(&self) -> Result<PathBuf, KernelError> {
        let made = self.form_in(&Cache::open()?, &GUEST)?;
        Ok(made.map_or_else(|| self.image.clone(), |(path, _)| path))
    }

    /// Xen itself unpacks a kernel in a packing that is not known here.
    fn under_xen(&self, made: Option<(PathBuf, String)>) -> Boot {
        let (path, own) = made.unwrap_or_else(|| (self.image.clone(), String::new()));
        let text = format!("kernel {}\nfirst domain {own}\n", self.digest);
        Boot { path, is_vmlinux: false, digest: digest::of_bytes(text.as_bytes()) }
    }

    fn booted(&self, vmlinux: Option<(PathBuf, String)>) -> Boot {
        match vmlinux {
            Some((path, own)) => {
                let text = format!("kernel {}\nvmlinux {own}\n", self.digest);
                Boot { path, is_vmlinux: true, digest: digest::of_bytes(text.as_bytes()) }
            }
            None => {
                Boot { path: self.image.clone(), is_vmlinux: false, digest: self.digest.clone() }
            }
        }
    }

    /// The ELF image with its digest; `None` if the bzImage is booted.
    pub fn vmlinux(&self) -> Result<Option<(PathBuf, String)>, KernelError> {
        self.vmlinux_in(&Cache::open()?)
    }

    fn vmlinux_in(&self, cache: &Cache) -> Result<Option<(PathBuf, String)>, KernelError> {
        self.form_in(cache, &VMLINUX)
    }

    fn form_in(
        &self,
        cache: &Cache,
        form: &Form,
    ) -> Result<Option<(PathBuf, String)>, KernelError> {
        let own =
            self.image.parent().filter(|folder| self.origin != Origin::File && folder.is_dir());
        let folder = own.map_or_else(|| cache.vmlinux(), Path::to_path_buf);
        let bytes = input::read_file(&self.image, input::MAX_PROGRAM_BYTES)
            .map_err(KernelError::io("read", &self.image))?;
        let of = digest::of_bytes(&bytes);
        if let Some(found) = kept(&folder, form, &of)? {
            return Ok(Some(found));
        }
        let Some(made) = (form.make)(&bytes) else { return Ok(None) };
        let held = cache.lock(&NEVER, &mut || ())?;
        let put = put(&folder, form, &of, &made, &held)?;
        if own.is_none() {
            forget(&folder, &held)?;
        }
        Ok(Some(put))
    }
}

impl Entry {
    /// The size of the files that are made from its image; 0 before the first boot.
    pub fn unpacked_bytes(&self) -> u64 {
        size_of(&self.folder)
    }
}

/// The image that was unpacked from this bzImage, if it has not changed since.
fn kept(folder: &Path, form: &Form, of: &str) -> Result<Option<(PathBuf, String)>, KernelError> {
    let begin = format!("{}{of}-", form.prefix);
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(own) = name.strip_prefix(&begin) else { continue };
        if digest::of_file(&path)? == own {
            // Notes the time of the last use. If that fails, the file's own time will do.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(Some((path.clone(), own.to_string())));
        }
    }
    Ok(None)
}

/// Writes the file and renames it when it is complete; replaces a damaged one.
fn put(
    folder: &Path,
    form: &Form,
    of: &str,
    made: &[u8],
    _held: &Lock,
) -> Result<(PathBuf, String), KernelError> {
    fs::create_dir_all(folder).map_err(KernelError::io("make the folder", folder))?;
    let own = digest::of_bytes(made);
    let path = folder.join(format!("{}{of}-{own}", form.prefix));
    replace(&path, |out| out.write_all(made)).map_err(KernelError::io("write", &path))?;
    Ok((path, own))
}

/// Removes those that have not been used for the longest time.
fn forget(folder: &Path, _held: &Lock) -> Result<(), KernelError> {
    let used = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let mut all = files(folder)?;
    all.sort_by_key(|path| std::cmp::Reverse(used(path)));
    for path in all.iter().skip(MAX_KEPT) {
        fs::remove_file(path).map_err(KernelError::io("remove", path))?;
    }
    Ok(())
}

/// The size of all unpacked images in this folder.
fn size_of(folder: &Path) -> u64 {
    let all = files(folder).unwrap_or_default();
    all.iter().filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, KernelError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if sys::is_absent(folder, &error) => return Ok(Vec::new()),
        entries => entries.map_err(KernelError::io("read", folder))?,
    };
    let is_one = |name: &std::ffi::OsStr| {
        FORMS.iter().any(|form| name.to_string_lossy().starts_with(form.prefix))
    };
    let paths = entries.flatten().filter(|entry| is_one(&entry.file_name()));
    Ok(paths.map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::payload::testing::{Packing, carrying, elf, packed};
    use super::*;
    use crate::model::Advice;

    struct Place {
        folder: tempfile::TempDir,
        cache: Cache,
    }

    impl Place {
        fn new() -> Place {
            let folder = tempfile::tempdir().unwrap();
            let cache = Cache::at(&folder.path().join("schedlab"));
            Place { folder, cache }
        }

        /// A kernel of the user's own.
        fn kernel(&self, image: &[u8]) -> Kernel {
            let path = self.folder.path().join("bzImage");
            fs::write(&path, image).unwrap();
            super::super::image(&path, None, None).unwrap()
        }

        fn vmlinux(&self, image: &[u8]) -> Option<(PathBuf, String)> {
            self.kernel(image).vmlinux_in(&self.cache).unwrap()
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.cache.vmlinux()).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
        }
    }

    fn image(version: &str) -> Vec<u8> {
        carrying(version, &packed(&elf(b"Xen\0", 18), Packing::Lz4))
    }

    #[test]
    fn it_is_unpacked_once_and_checked_each_time() {
        let place = Place::new();
        let (path, own) = place.vmlinux(&image("6.1.1")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), elf(b"Xen\0", 18));
        assert_eq!(own, digest::of_file(&path).unwrap());
        assert!(path.starts_with(place.cache.vmlinux()));
        let old = SystemTime::UNIX_EPOCH;
        let number = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
        let first = number(&path);
        File::open(&path).unwrap().set_modified(old).unwrap();
        assert_eq!(place.vmlinux(&image("6.1.1")), Some((path.clone(), own.clone())));
        assert_eq!(number(&path), first, "the same file");
        assert!(path.metadata().unwrap().modified().unwrap() > old, "it was used");

        fs::write(&path, "gone bad").unwrap();
        assert_eq!(place.vmlinux(&image("6.1.1")), Some((path.clone(), own)));
        assert_eq!(fs::read(&path).unwrap(), elf(b"Xen\0", 18), "anew");
        assert_eq!(place.names().len(), 1);
    }

    #[test]
    fn each_bzimage_has_its_own_image() {
        let place = Place::new();
        let one = place.vmlinux(&image("6.1.1")).unwrap();
        let other = place.vmlinux(&image("6.1.2")).unwrap();
        assert_ne!(one.0, other.0);
        assert!(one.0.exists(), "a run may still need it");
    }

    #[test]
    fn images_that_were_not_used_for_longest_are_removed() {
        let place = Place::new();
        let at = |second: u64| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
        let mut paths = Vec::new();
        for number in 0..MAX_KEPT as u64 {
            let (path, _) = place.vmlinux(&image(&format!("6.1.{number}"))).unwrap();
            File::open(&path).unwrap().set_modified(at(number + 1)).unwrap();
            paths.push(path);
        }
        place.vmlinux(&image("6.1.0")).unwrap();
        let (new, _) = place.vmlinux(&image("6.1.100")).unwrap();
        assert!(paths[0].exists() && new.exists());
        assert!(!paths[1].exists(), "the second was used longest ago");
        assert_eq!(place.names().len(), MAX_KEPT);
    }

    #[test]
    fn the_image_of_a_cached_kernel_is_in_the_kernels_folder() {
        let place = Place::new();
        let mut kernel = place.kernel(&image("6.1.1"));
        let package = super::super::Package { name: "p".to_string(), version: "6".to_string() };
        kernel.origin = Origin::Package(package);
        let (path, _) = kernel.vmlinux_in(&place.cache).unwrap().unwrap();
        assert_eq!(path.parent(), Some(place.folder.path()));
        assert_eq!(size_of(place.folder.path()), elf(b"Xen\0", 18).len() as u64);
    }

    #[test]
    fn the_digest_is_of_what_is_booted() {
        let place = Place::new();
        let without = place.kernel(&carrying("6.1.1", b"nothing"));
        assert_eq!(without.vmlinux_in(&place.cache).unwrap(), None);
        let bare = without.booted(None);
        assert_eq!((bare.path, bare.is_vmlinux), (without.image.clone(), false));
        assert_eq!(bare.digest, without.digest);
        let booted = |own: &str| without.booted(Some(("v".into(), own.to_string())));
        assert_eq!(booted("1"), booted("1"));
        assert!(booted("1").is_vmlinux && booted("1").path == Path::new("v"));
        assert_ne!(booted("1").digest, booted("2").digest);
        assert_ne!(booted("1").digest, without.digest);
        assert_eq!(place.names(), [""; 0], "nothing is kept of it");
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_an_error() {
        let place = Place::new();
        fs::write(place.folder.path().join("schedlab"), "a file").unwrap();
        let error = place.kernel(&image("6.1.1")).vmlinux_in(&place.cache).unwrap_err();
        assert!(error.hint().unwrap().contains("XDG_CACHE_HOME"), "{error}");
    }
}
