//! The symbols that a tree's Kconfig files define.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use super::super::KernelError;
use super::super::walk::files_below;
use crate::sys::input;

/// The defined symbols, without their prefix.
pub fn defined(tree: &Path) -> Result<BTreeSet<String>, KernelError> {
    let mut all = BTreeSet::new();
    let is_kconfig = |name: &OsStr| name.to_string_lossy().starts_with("Kconfig");
    for path in files_below(tree)? {
        if path.file_name().is_some_and(is_kconfig) {
            let bytes = input::read_file(&path, input::MAX_OWN_FILE_BYTES)
                .map_err(KernelError::io("read", &path))?;
            all.extend(symbols(&String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(all)
}

fn symbols(text: &str) -> Vec<String> {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let is_definition = matches!(words.next(), Some("config" | "menuconfig"));
        words.next().filter(|_| is_definition).map(str::to_string)
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn symbols_are_found_in_every_folder() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("kernel/sched");
        fs::create_dir_all(&below).unwrap();
        fs::write(folder.path().join("Kconfig"), "config A\n\tbool\nmenuconfig B\n").unwrap();
        fs::write(below.join("Kconfig.hz"), "choice\n\tconfig HZ_250\n\t\tbool \"config NO\"\n")
            .unwrap();
        fs::write(below.join("fair.c"), "config C\n").unwrap();
        let found: Vec<String> = defined(folder.path()).unwrap().into_iter().collect();
        assert_eq!(found, ["A", "B", "HZ_250"]);
    }
}
