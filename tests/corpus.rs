//! Fuzzing found these worth keeping, in `fuzz/corpus`: each file goes through the function of its fuzz target.

use std::fs;

use crate::support::checkout;

#[path = "../fuzz/entries.rs"]
mod entries;

#[test]
fn all_that_is_kept_in_the_corpus_passes() {
    let corpus = checkout().join("fuzz/corpus");
    for (name, target) in entries::TARGETS {
        let folder = corpus.join(name);
        let files = fs::read_dir(&folder).unwrap_or_else(|why| panic!("{folder:?}: {why}"));
        let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 2, "{name} has {} files", files.len());
        for file in files {
            // A panic names its file.
            println!("{}", file.display());
            target(&fs::read(&file).unwrap());
        }
    }
    let folders = fs::read_dir(&corpus).unwrap().count();
    assert_eq!(folders, entries::TARGETS.len(), "each folder has its target");
}
