//! The few modules that a guest can need, and the order in which they are loaded.
//!
//! Input: a folder of modules, as below /lib/modules/RELEASE or flat as in the cache.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::KernelError;
use super::walk::files_below;
use crate::sys::input;

/// Each module comes after those that it needs. Modules that are built into a kernel have no file and are not needed.
const FEW: &[&str] = &[
    // Devices of QEMU's machine.
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_console",
    "virtio_blk",
    "qemu_fw_cfg",
    // Folders of the host.
    "fuse",
    "virtiofs",
    "fscache",
    "netfs",
    "9pnet",
    "9pnet_virtio",
    "9p",
];
/// Modules by which the tools of Xen's first domain talk to the hypervisor.
const XEN: &[&str] = &["xen_privcmd", "xen_evtchn", "xen_gntdev", "xen_gntalloc", "xenfs"];
const ENDINGS: &[&str] = &[".ko", ".ko.xz", ".ko.zst", ".ko.gz"];
/// The longest chain of modules that need each other.
const MAX_DEPTH: usize = 16;

/// The modules of the list that exist, in an order in which they can be loaded: by depmod's `modules.dep` if
/// it exists, otherwise by the list.
pub fn few(folder: &Path) -> Result<Vec<PathBuf>, KernelError> {
    listed(folder, FEW)
}

/// The same for the modules that the first domain of Xen needs.
pub fn of_xen(folder: &Path) -> Result<Vec<PathBuf>, KernelError> {
    listed(folder, XEN)
}

fn listed(folder: &Path, names: &[&str]) -> Result<Vec<PathBuf>, KernelError> {
    let own_name = |path: &Path| name(&path.file_name()?.to_string_lossy());
    let files = files_below(folder)?.into_iter();
    let mut all: BTreeMap<String, PathBuf> =
        files.filter_map(|path| Some((own_name(&path)?, path))).collect();
    let needs = input::read_text_file(folder.join("modules.dep"), input::MAX_OWN_FILE_BYTES);
    let needs = dependencies(&needs.unwrap_or_default());
    let mut order = Vec::new();
    for name in names {
        add(name, &needs, &mut order, MAX_DEPTH);
    }
    Ok(order.iter().filter_map(|name| all.remove(name)).collect())
}

/// `virtio_pci` of `virtio_pci.ko.xz`. A dash and an underscore are the same to the kernel.
pub fn name(file: &str) -> Option<String> {
    let stem = ENDINGS.iter().find_map(|ending| file.strip_suffix(ending))?;
    Some(stem.replace('-', "_"))
}

/// Lines `kernel/a/x.ko: kernel/b/y.ko kernel/c/z.ko`; the last is needed first.
fn dependencies(text: &str) -> BTreeMap<String, Vec<String>> {
    let of_path = |path: &str| name(path.rsplit('/').next().unwrap_or(path));
    let rows = text.lines().filter_map(|line| {
        let (module, needs) = line.split_once(':')?;
        Some((of_path(module)?, needs.split_whitespace().rev().filter_map(of_path).collect()))
    });
    rows.collect()
}

/// A circle of modules cannot be loaded; `depth` ends it.
fn add(name: &str, needs: &BTreeMap<String, Vec<String>>, order: &mut Vec<String>, depth: usize) {
    if depth == 0 || order.iter().any(|known| known == name) {
        return;
    }
    for need in needs.get(name).into_iter().flatten() {
        add(need, needs, order, depth - 1);
    }
    if !order.iter().any(|known| known == name) {
        order.push(name.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "code").unwrap();
        }
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let few = few(folder).unwrap();
        few.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_few_are_taken_in_the_order_of_loading() {
        let tree = folder(&[
            "kernel/drivers/virtio/virtio_pci.ko",
            "kernel/drivers/virtio/virtio.ko",
            "kernel/drivers/virtio/virtio_ring.ko",
            "kernel/drivers/firmware/qemu_fw_cfg.ko.xz",
            "kernel/drivers/net/e1000.ko",
            "kernel/fs/9p/9p.ko.zst",
            "kernel/net/9p/9pnet.ko.zst",
            "modules.order",
        ]);
        let expected = [
            "virtio.ko",
            "virtio_ring.ko",
            "virtio_pci.ko",
            "qemu_fw_cfg.ko.xz",
            "9pnet.ko.zst",
            "9p.ko.zst",
        ];
        assert_eq!(names(tree.path()), expected);
        assert_eq!(names(folder(&[]).path()), [""; 0]);
    }

    #[test]
    fn dependencies_of_depmod_come_too_and_first() {
        let tree = folder(&["kernel/virtio_blk.ko", "kernel/t10-pi.ko", "kernel/crc64.ko"]);
        let text = "kernel/virtio_blk.ko: kernel/t10-pi.ko kernel/crc64.ko\nkernel/crc64.ko:\n\
                    kernel/t10-pi.ko: kernel/virtio_blk.ko\nnonsense\n";
        fs::write(tree.path().join("modules.dep"), text).unwrap();
        assert_eq!(names(tree.path()), ["crc64.ko", "t10-pi.ko", "virtio_blk.ko"]);
    }

    #[test]
    fn those_for_xen_are_a_list_of_their_own() {
        let tree = folder(&[
            "kernel/drivers/xen/xenfs/xenfs.ko",
            "kernel/drivers/xen/xen-evtchn.ko.xz",
            "kernel/drivers/xen/xen-privcmd.ko",
            "kernel/drivers/virtio/virtio.ko",
        ]);
        let of_xen = of_xen(tree.path()).unwrap();
        let names: Vec<_> = of_xen.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["xen-privcmd.ko", "xen-evtchn.ko.xz", "xenfs.ko"]);
        assert_eq!(super::few(tree.path()).unwrap().len(), 1);
    }

    #[test]
    fn links_are_not_followed() {
        let (tree, outside) = (folder(&["kernel/fuse.ko"]), folder(&["virtio.ko"]));
        std::os::unix::fs::symlink(outside.path(), tree.path().join("build")).unwrap();
        std::os::unix::fs::symlink(tree.path(), tree.path().join("kernel/up")).unwrap();
        assert_eq!(names(tree.path()), ["fuse.ko"]);
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let why = few(Path::new("nonesuch")).unwrap_err().to_string();
        assert!(why.starts_with("cannot read nonesuch: "), "{why}");
    }
}
