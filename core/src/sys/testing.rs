//! Fixture trees: a machine laid out as files below a temporary folder.

use std::path::Path;

use super::Host;

pub struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    pub fn with_files<T: AsRef<str>>(files: &[(T, &str)]) -> Tree {
        let tree = Tree { folder: tempfile::tempdir().expect("a temporary folder") };
        for (path, text) in files {
            tree.write(path.as_ref(), text);
        }
        tree
    }

    pub fn host(&self) -> Host {
        Host::below(self.folder.path())
    }

    /// Makes or replaces a file and the folders above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.host().path(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    pub fn remove(&self, path: &str) {
        std::fs::remove_file(self.host().path(path)).expect("a file to remove");
    }

    /// CPUs as /sys shows them: for each CPU its core, its last-level cache and its node.
    pub fn add_cpus(&self, cpus: &[(u32, &str, &str)]) {
        for (cpu, core, llc) in cpus {
            let cpu = format!("/sys/devices/system/cpu/cpu{cpu}");
            self.write(&format!("{cpu}/topology/core_cpus_list"), &format!("{core}\n"));
            for (index, level, shared) in [(0, 1, core), (1, 1, core), (2, 2, core), (3, 3, llc)] {
                self.write(&format!("{cpu}/cache/index{index}/level"), &format!("{level}\n"));
                let list = format!("{cpu}/cache/index{index}/shared_cpu_list");
                self.write(&list, &format!("{shared}\n"));
            }
        }
    }
}
