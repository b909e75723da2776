//! Digests: SHA-256 of files, and of a kernel as a whole.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::KernelError;
use crate::sys::input;

/// The digest of bytes, in hexadecimal.
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// The digest of one file, in hexadecimal.
pub fn of_file(path: &Path) -> Result<String, KernelError> {
    hash(path).map_err(KernelError::io("read", path))
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = input::open_file(path, input::MAX_PROGRAM_BYTES)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(hexadecimal(hasher)),
            Ok(read) => hasher.update(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hexadecimal(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digests of a kernel, in hexadecimal.
#[derive(Debug, PartialEq)]
pub struct KernelDigests {
    pub whole: String,
    pub image: String,
}

/// The digest of all files that a guest's behaviour depends on, and that of the image: it hashes a line for each file with its kind,
/// its name if the guest sees that, and its digest. The folders of the files do not matter. `more` are the
/// files of a hypervisor by the names that they have in its folder.
pub fn of_kernel(
    image: &Path,
    config: Option<&Path>,
    modules: &[PathBuf],
    more: &[(String, PathBuf)],
) -> Result<KernelDigests, KernelError> {
    let own = of_file(image)?;
    let mut hasher = Sha256::new_with_prefix(format!("image  {own}\n"));
    let mut add = |kind: &str, path: &Path, name: &str| -> Result<(), KernelError> {
        hasher.update(format!("{kind} {name} {}\n", of_file(path)?));
        Ok(())
    };
    if let Some(config) = config {
        add("config", config, "")?;
    }
    for module in modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        add("module", module, &name)?;
    }
    for (name, path) in more {
        add("hypervisor", path, name)?;
    }
    Ok(KernelDigests { whole: hexadecimal(hasher), image: own })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn digests_of_files_are_those_of_the_standard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let long = "a".repeat(1_000_000);
        let cases = [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (&long, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ];
        for (text, expected) in cases {
            fs::write(&path, text).unwrap();
            assert_eq!(of_file(&path).unwrap(), expected);
            assert_eq!(of_bytes(text.as_bytes()), expected);
        }
    }

    #[test]
    fn every_part_of_a_kernel_counts_and_its_folder_does_not() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |folder: &Path, name: &str, text: &str| {
            fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        };
        let kernel =
            |folder: &Path, image: &str, config: Option<&str>, modules: &[(&str, &str)]| {
                let image = write(folder, "image", image);
                let config = config.map(|text| write(folder, "config", text));
                let modules: Vec<PathBuf> =
                    modules.iter().map(|(name, text)| write(folder, name, text)).collect();
                of_kernel(&image, config.as_deref(), &modules, &[]).unwrap().whole
            };
        let base = kernel(one.path(), "i", Some("c"), &[("a.ko", "a"), ("b.ko", "b")]);
        let same = kernel(two.path(), "i", Some("c"), &[("a.ko", "a"), ("b.ko", "b")]);
        assert_eq!(base, same);
        let others = [
            kernel(one.path(), "j", Some("c"), &[("a.ko", "a"), ("b.ko", "b")]),
            kernel(one.path(), "i", Some("d"), &[("a.ko", "a"), ("b.ko", "b")]),
            kernel(one.path(), "i", None, &[("a.ko", "a"), ("b.ko", "b")]),
            kernel(one.path(), "i", Some("c"), &[("a.ko", "a"), ("b.ko", "x")]),
            kernel(one.path(), "i", Some("c"), &[("a.ko", "a"), ("c.ko", "b")]),
            kernel(one.path(), "i", Some("c"), &[("b.ko", "b"), ("a.ko", "a")]),
            kernel(one.path(), "i", Some("c"), &[("a.ko", "a")]),
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(*other, base, "{at}");
        }
        let image = write(one.path(), "image", "i");
        let under = |name: &str, text: &str| {
            let more = [(name.to_string(), write(two.path(), "more", text))];
            of_kernel(&image, None, &[], &more).unwrap().whole
        };
        let known = under("xen", "x");
        for other in [under("xen", "y"), under("xen-tools/bin/xl", "x")] {
            assert_ne!(other, known);
        }
        let alone = of_kernel(&image, None, &[], &[]).unwrap();
        assert_eq!(alone.image, of_bytes(b"i"));
        assert_ne!(alone.whole, known);
    }
}
