//! The symbols that a tree's Kconfig files define.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::KernelError;
use crate::sys::input;

/// Folders in folders; Linux has 12.
const MAX_DEPTH: usize = 20;

/// The defined symbols, without their prefix.
pub fn defined(tree: &Path) -> Result<BTreeSet<String>, KernelError> {
    let mut all = BTreeSet::new();
    collect(tree, MAX_DEPTH, &mut all)?;
    Ok(all)
}

fn collect(folder: &Path, depth: usize, all: &mut BTreeSet<String>) -> Result<(), KernelError> {
    let entries = fs::read_dir(folder).map_err(KernelError::io("read", folder))?;
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) && depth > 0 {
            collect(&path, depth - 1, all)?;
        } else if entry.file_name().to_string_lossy().starts_with("Kconfig")
            && kind.is_ok_and(|kind| kind.is_file())
        {
            let bytes = input::read_file(&path, input::MAX_OWN_FILE_BYTES)
                .map_err(KernelError::io("read", &path))?;
            all.extend(symbols(&String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(())
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
