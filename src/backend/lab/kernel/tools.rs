//! Keeps the hypervisor and its tools out of the unpacked packages: the programs that make guests,
//! and the libraries that they load.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use object::elf::{DT_NEEDED, FileHeader64};
use object::endian::LittleEndian;
use object::read::elf::{Dyn, FileHeader};

use super::KernelError;
use super::error::PackageFault;
use super::hypervisor::{IMAGE, TOOLS};
use crate::sys::input;

/// In `/usr/lib/xen-SERIES/bin`.
const PROGRAMS: &[&str] = &["xl", "xenstored", "xenconsoled", "xen-init-dom0"];
const XENSTORE: &str = "usr/bin/xenstore";
/// Debian's folders of libraries; all libraries are kept in the first.
const LIBRARIES: &[&str] = &["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
const LOADER: &str = "ld-linux-x86-64.so.2";
/// The path of the loader in programs.
const LOADER_IN: &str = "lib64/ld-linux-x86-64.so.2";
/// Loaded when a thread ends.
const LOADED_LATE: &str = "libgcc_s.so.1";
const MAX_BYTES: u64 = 64 << 20;

/// Puts the hypervisor of this series and its tools, of the packages in `tree`, into `new`.
pub fn keep(series: &str, tree: &Path, new: &Path) -> Result<(), KernelError> {
    let wrong = |why| {
        let package = format!("xen-hypervisor-{series}-amd64");
        KernelError::Package { package, why }
    };
    let packed = tree.join(format!("boot/xen-{series}-amd64.gz"));
    let image = unpacked(&packed).map_err(KernelError::io("unpack", &packed))?;
    if !image.starts_with(b"\x7fELF") {
        return Err(wrong(PackageFault::NoHypervisor));
    }
    let path = new.join(IMAGE);
    fs::write(&path, image).map_err(KernelError::io("write", &path))?;
    let tools = new.join(TOOLS);
    let mut needed = BTreeSet::from([LOADED_LATE.to_string()]);
    let programs = PROGRAMS.iter().map(|name| format!("usr/lib/xen-{series}/bin/{name}"));
    for program in programs.chain([XENSTORE.to_string()]) {
        let found = file(&tree.join(&program));
        let found = found.ok_or_else(|| wrong(PackageFault::NoFileIn(program.clone())))?;
        needed.extend(copy(&found, &tools.join(&program))?);
    }
    let mut kept = BTreeSet::new();
    while let Some(name) = needed.pop_first() {
        if !kept.insert(name.clone()) {
            continue;
        }
        let found = library(tree, &name);
        let found = found.ok_or_else(|| wrong(PackageFault::NoFileIn(name.clone())))?;
        let to = match name.as_str() {
            LOADER => LOADER_IN.to_string(),
            name => format!("{}/{name}", LIBRARIES[0]),
        };
        needed.extend(copy(&found, &tools.join(to))?);
    }
    Ok(())
}

fn unpacked(packed: &Path) -> io::Result<Vec<u8>> {
    input::read_all(GzDecoder::new(input::open_file(packed, MAX_BYTES)?), MAX_BYTES)
}

/// A link could point out of the tree.
fn file(path: &Path) -> Option<PathBuf> {
    path.symlink_metadata().is_ok_and(|found| found.is_file()).then(|| path.to_path_buf())
}

/// The file of a library. Its name may be a link to another name in the same folder.
fn library(tree: &Path, name: &str) -> Option<PathBuf> {
    let is_name = |name: &Path| name.components().count() == 1 && !name.starts_with("..");
    if !is_name(Path::new(name)) {
        return None;
    }
    LIBRARIES.iter().find_map(|folder| {
        let path = tree.join(folder).join(name);
        match fs::read_link(&path) {
            Ok(other) if is_name(&other) => file(&tree.join(folder).join(other)),
            Ok(_) => None,
            Err(_) => file(&path),
        }
    })
}

/// Copies an ELF file, and returns the names of the libraries that it needs.
fn copy(from: &Path, to: &Path) -> Result<Vec<String>, KernelError> {
    let bytes = input::read_file(from, MAX_BYTES).map_err(KernelError::io("read", from))?;
    let needs = needs(&bytes).map_err(|error| {
        KernelError::io("read", from)(io::Error::new(io::ErrorKind::InvalidData, error))
    })?;
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).map_err(KernelError::io("make the folder", folder))?;
    fs::write(to, bytes).map_err(KernelError::io("write", to))?;
    Ok(needs)
}

fn needs(bytes: &[u8]) -> Result<Vec<String>, object::Error> {
    let header = FileHeader64::<LittleEndian>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, bytes, link)?;
    let needed = entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
    let names = needed.map(|entry| entry.string(endian, strings));
    names.map(|name| Ok(String::from_utf8_lossy(name?).into_owned())).collect()
}
