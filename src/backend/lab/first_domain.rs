//! The files in the root of Xen's first domain, in addition to this program: the tools that make guests, the
//! modules by which they talk to the hypervisor, and the kernel of guests.
//!
//! Tools and this program are linked with the same C library in different versions, and a root has
//! one loader: the newer library serves both, as glibc promises, with all that stands next to it.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;
use object::{Object, ObjectSegment};

use super::error::LabError;
use super::initrd::{self, Packed};
use super::kernel::{Hypervisor, Kernel};
use crate::sys::input;

/// Modules in the order of loading, as `NN-NAME.ko`.
const MODULES: &str = "/xen/modules";
/// The kernel of guests, an ELF file.
const GUEST_KERNEL: &str = "/xen/guest-kernel";
const C_LIBRARY: &str = "libc.so.6";
const LOADER: &str = "ld-linux-x86-64.so.2";
const VERSION_AFTER: &[u8] = b"release version ";

/// Maximum size of an unpacked hypervisor; Debian's has 3 MiB.
const MAX_HYPERVISOR_BYTES: u64 = 64 << 20;
const ELF: &[u8] = b"\x7fELF";
const GZIP: &[u8] = b"\x1f\x8b";
/// The magic number among the first words of each kernel that a multiboot loader can start.
const MULTIBOOT: [u8; 4] = 0x1bad_b002_u32.to_le_bytes();
const MULTIBOOT_BYTES: usize = 8192;
const PARAVIRTUAL: &str = "CONFIG_XEN_PV=y";

/// A user's own hypervisor, unpacked.
pub fn hypervisor(path: &Path) -> Result<Vec<u8>, LabError> {
    let is_not = |why| LabError::NotXen { path: path.to_path_buf(), why };
    if !path.is_file() {
        return Err(is_not("there is no such file"));
    }
    let bytes = initrd::read(path)?;
    let bytes = match bytes.starts_with(GZIP) {
        true => {
            let unpacked = input::read_all(GzDecoder::new(&*bytes), MAX_HYPERVISOR_BYTES);
            unpacked
                .map_err(|_| is_not("its gzip data is damaged or unpacks to more than 64 MiB"))?
        }
        false => bytes,
    };
    if bytes.is_empty() {
        return Err(is_not("it is empty"));
    }
    let Ok(elf) = object::File::parse(&*bytes) else {
        return Err(if bytes.starts_with(ELF) {
            is_not("it is an ELF file that is damaged or cut")
        } else {
            is_not("it is not an ELF file, nor one packed with gzip")
        });
    };
    if elf.segments().any(|segment| segment.data().is_err()) {
        return Err(is_not("its end is missing"));
    }
    let mut words = bytes[..bytes.len().min(MULTIBOOT_BYTES)].chunks_exact(4);
    if words.any(|word| word == MULTIBOOT) {
        Ok(bytes)
    } else {
        Err(is_not("it has no multiboot header"))
    }
}

/// Checks that a kernel can run in a guest of Xen, as far as its configuration is known.
pub fn check_guest(kernel: &Kernel) -> Result<(), LabError> {
    match kernel.config_text() {
        Some(text) if !text.lines().any(|line| line == PARAVIRTUAL) => {
            Err(LabError::NoXenPv { kernel: kernel.name.clone() })
        }
        _ => Ok(()),
    }
}

/// The files of a kernel that boots under this hypervisor, and of the kernel of its guests.
pub fn files(
    kernel: &Kernel,
    hypervisor: &Hypervisor,
    guests: &Kernel,
) -> Result<Vec<Packed>, LabError> {
    let mut files = Vec::new();
    for (name, path) in hypervisor.tools()? {
        files.push(Packed { name, bytes: initrd::read(&path)? });
    }
    for (at, path) in kernel.modules_of_xen()?.iter().enumerate() {
        let module = path.file_name().unwrap_or_default().to_string_lossy();
        let name = PathBuf::from(MODULES).join(format!("{at:02}-{module}"));
        files.push(Packed { name, bytes: initrd::read(path)? });
    }
    let bytes = guests.guest_bytes()?;
    files.push(Packed { name: GUEST_KERNEL.into(), bytes });
    Ok(files)
}

/// Leaves out the libraries that both this program and the others have: the ones that belong to the older C library.
pub fn of_one_library(own: &[Arc<Packed>], others: &mut Vec<Packed>) -> Vec<Arc<Packed>> {
    let (Some(of_own), Some(of_others)) = (c_library(own), c_library(others)) else {
        return own.to_vec();
    };
    let (of_own, mine, theirs) = (of_own >= of_others, libraries(own), libraries(others));
    if of_own {
        others.retain(|file| !is_one_of(file, &mine))
    } else {
        return own.iter().filter(|file| !is_one_of(file, &theirs)).cloned().collect();
    }
    own.to_vec()
}

fn is_one_of(file: &Packed, names: &BTreeSet<OsString>) -> bool {
    file.name.file_name().is_some_and(|name| names.contains(name))
}

/// The names of the loader and of shared libraries.
fn libraries(files: &[impl Borrow<Packed>]) -> BTreeSet<OsString> {
    let names = files.iter().filter_map(|file| file.borrow().name.file_name());
    let is_library = |name: &&OsStr| name.to_string_lossy().contains(".so");
    names.filter(is_library).map(OsStr::to_os_string).collect()
}

/// `[2, 36]` of glibc 2.36; `None` if these files need none, or a loader of another kind.
fn c_library(files: &[impl Borrow<Packed>]) -> Option<Vec<u32>> {
    let files = files.iter().map(Borrow::borrow);
    let named = |name: &str| files.clone().find(|file| file.name.ends_with(Path::new(name)));
    let bytes = &named(LOADER).and(named(C_LIBRARY))?.bytes;
    let at = bytes.windows(VERSION_AFTER.len()).position(|part| part == VERSION_AFTER)?;
    let text = &bytes[at + VERSION_AFTER.len()..];
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let text = String::from_utf8_lossy(&text[..end]);
    Some(text.split('.').map_while(|part| part.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &str) -> Packed {
        Packed { name: name.into(), bytes: bytes.into() }
    }

    fn linked(folder: &str, version: &str, more: &str) -> Vec<Packed> {
        vec![
            file("/lib64/ld-linux-x86-64.so.2", version),
            file(&format!("{folder}/libc.so.6"), &format!("stable release version {version}.\n")),
            file(&format!("{folder}/libz.so.1"), version),
            file(&format!("{folder}/{more}"), version),
        ]
    }

    /// The names of the files that stay, each with its version.
    fn kept(own: Vec<Packed>, mut others: Vec<Packed>) -> Vec<(String, String)> {
        let own: Vec<Arc<Packed>> = own.into_iter().map(Arc::new).collect();
        let kept = of_one_library(&own, &mut others);
        let text = |file: &Packed| String::from_utf8_lossy(&file.bytes).into_owned();
        let all = kept.into_iter().chain(others.into_iter().map(Arc::new));
        let all = all.filter(|file| !file.name.ends_with(C_LIBRARY));
        all.map(|file| (file.name.display().to_string(), text(&file))).collect()
    }

    #[test]
    fn the_newer_c_library_serves_both() {
        let own = |version| linked("/lib/x86_64-linux-gnu", version, "libelf.so.1");
        let tools = |version| linked("/usr/lib/x86_64-linux-gnu", version, "libxenctrl.so.4.17");
        let names = |rows: &[(&str, &str)]| -> Vec<(String, String)> {
            rows.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect()
        };
        for newer in ["2.36", "2.41"] {
            let expected = [
                ("/lib64/ld-linux-x86-64.so.2", newer),
                ("/lib/x86_64-linux-gnu/libz.so.1", newer),
                ("/lib/x86_64-linux-gnu/libelf.so.1", newer),
                ("/usr/lib/x86_64-linux-gnu/libxenctrl.so.4.17", "2.36"),
            ];
            assert_eq!(kept(own(newer), tools("2.36")), names(&expected));
        }
        let expected = [
            ("/lib/x86_64-linux-gnu/libelf.so.1", "2.9"),
            ("/lib64/ld-linux-x86-64.so.2", "2.36"),
            ("/usr/lib/x86_64-linux-gnu/libz.so.1", "2.36"),
            ("/usr/lib/x86_64-linux-gnu/libxenctrl.so.4.17", "2.36"),
        ];
        assert_eq!(kept(own("2.9"), tools("2.36")), names(&expected));
    }

    #[test]
    fn a_hypervisor_is_an_elf_file_packed_or_not() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let found = |bytes: &[u8]| {
            let path = folder.path().join("xen");
            std::fs::write(&path, bytes).unwrap();
            hypervisor(&path).map_err(|error| error.to_string())
        };
        let image = elf(&MULTIBOOT);
        let packed = |bytes: &[u8]| {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        };
        assert_eq!(found(&image).unwrap(), image);
        assert_eq!(found(&packed(&image)).unwrap(), image);
        let mut cut = packed(&image);
        cut.truncate(cut.len() - 9);
        let cases = [
            (b"MZ".to_vec(), "not an ELF file"),
            (packed(b"MZ"), "not an ELF file"),
            (Vec::new(), "it is empty"),
            (cut, "gzip data is damaged"),
            (image[..image.len() - 9].to_vec(), "its end is missing"),
            (elf(b"else"), "no multiboot header"),
            (image[..60].to_vec(), "damaged or cut"),
        ];
        for (bytes, why) in cases {
            assert!(found(&bytes).unwrap_err().contains(why), "{why}: {:?}", found(&bytes));
        }
    }

    #[test]
    fn what_is_no_file_is_no_hypervisor() {
        let folder = tempfile::tempdir().unwrap();
        for path in
            [folder.path(), &folder.path().join("none"), Path::new("/dev/zero"), Path::new("")]
        {
            let error = hypervisor(path).unwrap_err().to_string();
            assert!(error.contains("no such file"), "{error}");
        }
    }

    /// A program of 32 bits with one segment, which begins with a word.
    fn elf(word: &[u8]) -> Vec<u8> {
        const HEADERS: u32 = 52 + 32;
        let mut bytes = b"\x7fELF\x01\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend([2, 0, 3, 0]);
        let words = [1, 0, 52, 0, 0];
        words.iter().for_each(|word: &u32| bytes.extend(word.to_le_bytes()));
        [52, 32, 1, 40, 0, 0].iter().for_each(|word: &u16| bytes.extend(word.to_le_bytes()));
        let segment = [1, HEADERS, 0, 0, 64, 64, 5, 4];
        segment.iter().for_each(|word: &u32| bytes.extend(word.to_le_bytes()));
        bytes.extend(word);
        bytes.resize(HEADERS as usize + 64, 7);
        bytes
    }

    #[test]
    fn a_static_program_has_no_libraries_to_share() {
        let own = [file("/schedlab-guest", "static")];
        let all = kept(own.into(), linked("/usr/lib", "2.36", "libxenctrl.so.4.17"));
        assert_eq!(all.len(), 4, "{all:?}");
    }
}
