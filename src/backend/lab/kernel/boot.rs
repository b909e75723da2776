//! The file of a kernel that is booted: the ELF image inside if QEMU can enter it directly, which
//! saves the guest the firmware's loader and unpacking; otherwise the bzImage. Under a hypervisor
//! the first domain and its guests have the forms that are quickest there.
//!
//! The ELF image is kept as `vmlinux-IMAGE-OWN`, with the digests of its bzImage and of itself: a name always
//! means the same bytes. The image of a cached kernel is in the kernel's folder; that of a user's own kernel
//! is in `schedlab/vmlinux` in the cache folder. Every byte is checked when it is read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::model::words;
use crate::sys;
use crate::sys::replace::replace;

use super::image::Origin;
use super::shelf::{Lock, NEVER};
use super::{Cache, Entry, Kernel, KernelError, digest, payload, repack};
use crate::sys::input;

words! {
    /// A file that is made from a bzImage, and kept, with the beginning of its name. The last two are booted under Xen.
    enum Form {
        Vmlinux = "vmlinux-",
        FirstDomain = "first-domain-",
        Guest = "guest-",
    }
}

impl Form {
    fn make(self, image: &[u8]) -> Option<Vec<u8>> {
        match self {
            Form::Vmlinux => payload::vmlinux(image),
            Form::FirstDomain => repack::for_first_domain(image),
            Form::Guest => repack::for_guests(image),
        }
    }
}

/// Images of a user's own kernels that are kept: one build an hour must not fill the disk, and a run may
/// still need an older one.
const MAX_KEPT: usize = 8;

/// The file that is booted, and the digest that results are kept by.
#[derive(Clone, Debug, PartialEq)]
pub struct Boot {
    /// `None`: it is the bzImage.
    form: Option<Form>,
    /// SHA-256 of the file, in hexadecimal.
    pub file_digest: String,
    /// SHA-256 over the kernel's digest and that of the file: a kernel that boots otherwise behaves
    /// otherwise until it is quiet.
    pub digest: String,
}

impl Kernel {
    /// Unpacks the ELF image at the first call. Under a hypervisor: the kernel of the first domain.
    pub fn boot(&self) -> Result<Boot, KernelError> {
        let form = if self.hypervisor.is_none() { Form::Vmlinux } else { Form::FirstDomain };
        self.boot_in(&Cache::open()?, form)
    }

    /// The kernel of guests under a hypervisor, made at the first call.
    pub fn guest_bytes(&self) -> Result<Vec<u8>, KernelError> {
        let cache = Cache::open()?;
        self.bytes_in(&cache, &self.boot_in(&cache, Form::Guest)?)
    }

    /// The file that is booted. One that is damaged is made anew.
    pub fn bytes(&self, boot: &Boot) -> Result<Vec<u8>, KernelError> {
        self.bytes_in(&Cache::open()?, boot)
    }

    /// Xen itself unpacks a kernel in a packing that is not known here.
    fn boot_in(&self, cache: &Cache, form: Form) -> Result<Boot, KernelError> {
        let made = self.form_in(cache, form)?.map(|(_, own)| own);
        let named = match form {
            Form::Vmlinux => "vmlinux",
            Form::FirstDomain | Form::Guest => "first domain",
        };
        let digest = match &made {
            None if form == Form::Vmlinux => self.digest.clone(),
            own => {
                let own = own.as_deref().unwrap_or_default();
                digest::of_bytes(format!("kernel {}\n{named} {own}\n", self.digest).as_bytes())
            }
        };
        let form = made.is_some().then_some(form);
        Ok(Boot { form, file_digest: made.unwrap_or_else(|| self.image_digest.clone()), digest })
    }

    fn bytes_in(&self, cache: &Cache, boot: &Boot) -> Result<Vec<u8>, KernelError> {
        let Some(form) = boot.form else { return self.image_bytes() };
        let name = format!("{}{}-{}", form.word(), self.image_digest, boot.file_digest);
        let whole = read(&self.folder(cache).join(name));
        let whole = whole.ok().filter(|bytes| digest::of_bytes(bytes) == boot.file_digest);
        match whole {
            Some(bytes) => Ok(bytes),
            None => match self.make(cache, form)? {
                Some((_, own, made)) if own == boot.file_digest => Ok(made),
                _ => Err(self.changed()),
            },
        }
    }

    fn image_bytes(&self) -> Result<Vec<u8>, KernelError> {
        let bytes = read(&self.image)?;
        if digest::of_bytes(&bytes) == self.image_digest { Ok(bytes) } else { Err(self.changed()) }
    }

    fn changed(&self) -> KernelError {
        let source = io::Error::other("it has changed since the plan began");
        KernelError::Io { action: "boot", path: self.image.clone(), source }
    }

    /// The folder of its forms.
    fn folder(&self, cache: &Cache) -> PathBuf {
        let own = self.image.parent().filter(|folder| folder.is_dir());
        let own = own.filter(|_| self.origin != Origin::File);
        own.map_or_else(|| cache.vmlinux(), Path::to_path_buf)
    }

    /// A form of it and the form's digest, which its name has; `None` if the bzImage has none.
    fn form_in(&self, cache: &Cache, form: Form) -> Result<Option<(PathBuf, String)>, KernelError> {
        match kept(&self.folder(cache), form, &self.image_digest)? {
            Some(found) => Ok(Some(found)),
            None => Ok(self.make(cache, form)?.map(|(path, own, _)| (path, own))),
        }
    }

    /// Makes a form of it, in the place of one that is there: its path, its digest and its bytes.
    fn make(
        &self,
        cache: &Cache,
        form: Form,
    ) -> Result<Option<(PathBuf, String, Vec<u8>)>, KernelError> {
        let Some(made) = form.make(&self.image_bytes()?) else { return Ok(None) };
        let folder = self.folder(cache);
        let held = cache.shelf().lock(&NEVER, &mut || ())?;
        let (path, own) = put(&folder, form, &self.image_digest, &made, &held)?;
        if folder == cache.vmlinux() {
            forget(&folder, &held)?;
        }
        Ok(Some((path, own, made)))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KernelError> {
    input::read_file(path, input::MAX_PROGRAM_BYTES).map_err(KernelError::io("read", path))
}

impl Entry {
    /// The size of the files that are made from its image; 0 before the first boot.
    pub fn unpacked_bytes(&self) -> u64 {
        size_of(&self.folder)
    }
}

/// The form that was made of this bzImage.
fn kept(folder: &Path, form: Form, of: &str) -> Result<Option<(PathBuf, String)>, KernelError> {
    let begin = format!("{}{of}-", form.word());
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(own) = name.strip_prefix(&begin).map(str::to_string) else { continue };
        // Notes the time of the last use. If that fails, the file's own time will do.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        return Ok(Some((path, own)));
    }
    Ok(None)
}

/// Writes the file and renames it when it is complete; replaces a damaged one.
fn put(
    folder: &Path,
    form: Form,
    of: &str,
    made: &[u8],
    _held: &Lock,
) -> Result<(PathBuf, String), KernelError> {
    fs::create_dir_all(folder).map_err(KernelError::io("make the folder", folder))?;
    let own = digest::of_bytes(made);
    let path = folder.join(format!("{}{of}-{own}", form.word()));
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
        Form::ALL.iter().any(|form| name.to_string_lossy().starts_with(form.word()))
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
            self.kernel(image).form_in(&self.cache, Form::Vmlinux).unwrap()
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
    fn it_is_unpacked_once_and_checked_when_it_is_read() {
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
        let kernel = place.kernel(&image("6.1.1"));
        let boot = kernel.boot_in(&place.cache, Form::Vmlinux).unwrap();
        assert_eq!(boot.file_digest, own);
        assert_eq!(kernel.bytes_in(&place.cache, &boot).unwrap(), elf(b"Xen\0", 18), "anew");
        assert_eq!(fs::read(&path).unwrap(), elf(b"Xen\0", 18));
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
        let (path, _) = kernel.form_in(&place.cache, Form::Vmlinux).unwrap().unwrap();
        assert_eq!(path.parent(), Some(place.folder.path()));
        assert_eq!(size_of(place.folder.path()), elf(b"Xen\0", 18).len() as u64);
    }

    #[test]
    fn the_digest_is_of_what_is_booted() {
        let place = Place::new();
        let without = place.kernel(&carrying("6.1.1", b"nothing"));
        let boot = |kernel: &Kernel| kernel.boot_in(&place.cache, Form::Vmlinux).unwrap();
        let bare = boot(&without);
        assert_eq!((bare.form, &bare.file_digest), (None, &without.image_digest));
        assert_eq!(bare.digest, without.digest);
        assert_eq!(without.bytes_in(&place.cache, &bare).unwrap(), carrying("6.1.1", b"nothing"));
        assert_eq!(place.names(), [""; 0], "nothing is kept of it");
        let with = place.kernel(&image("6.1.1"));
        let booted = boot(&with);
        assert!(
            booted.form.is_some() && booted.digest != with.digest && booted.digest != bare.digest
        );
        // A file with the name of another form of it.
        let (path, own) = with.form_in(&place.cache, Form::Vmlinux).unwrap().unwrap();
        let other = own.replace(|_| true, "0");
        fs::rename(&path, path.with_file_name(format!("vmlinux-{}-{other}", with.image_digest)))
            .unwrap();
        assert_ne!(boot(&with).digest, booted.digest);
    }

    #[test]
    fn an_image_that_has_changed_is_not_booted() {
        let place = Place::new();
        let kernel = place.kernel(&carrying("6.1.1", b"nothing"));
        let boot = kernel.boot_in(&place.cache, Form::Vmlinux).unwrap();
        fs::write(&kernel.image, image("6.1.1")).unwrap();
        let error = kernel.bytes_in(&place.cache, &boot).unwrap_err();
        assert!(error.to_string().ends_with("it has changed since the plan began"), "{error}");
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_an_error() {
        let place = Place::new();
        fs::write(place.folder.path().join("schedlab"), "a file").unwrap();
        let kernel = place.kernel(&image("6.1.1"));
        let error = kernel.form_in(&place.cache, Form::Vmlinux).unwrap_err();
        assert!(error.hint().unwrap().contains("XDG_CACHE_HOME"), "{error}");
    }
}
