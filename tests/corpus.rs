//! The inputs worth keeping, in `fuzz/corpus`: each file goes through the function of its fuzz target.

use std::collections::BTreeSet;
use std::fs;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::{campaign, checkout};

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

/// Files of the corpus with faults at random places: no input may make a target panic. It is no match for a fuzzer, which
/// sees what an input reaches.
#[test]
fn what_is_kept_in_the_corpus_passes_with_faults_too() {
    let mut random = ChaCha8Rng::seed_from_u64(40);
    for (name, target) in entries::TARGETS {
        let files = fs::read_dir(checkout().join("fuzz/corpus").join(name)).unwrap();
        let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let files: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        let begun = std::time::Instant::now();
        let times = campaign(20);
        for _ in 0..times {
            let input = with_faults(&files, &mut random);
            if std::panic::catch_unwind(|| target(&input)).is_err() {
                let kept = std::env::temp_dir().join(format!("schedlab-{name}"));
                fs::write(&kept, input).unwrap();
                panic!("{name}: the input is {}", kept.display());
            }
        }
        println!("{name}: {times} inputs in {:?}", begun.elapsed());
    }
}

/// A file of these in which bytes are others, left out, repeated, or of another file.
fn with_faults(files: &[Vec<u8>], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut input = files.choose(random).unwrap().clone();
    for _ in 0..random.random_range(1..6) {
        let from = random.random_range(0..=input.len());
        let to = (from + random.random_range(0..40)).min(input.len());
        let other = files.choose(random).unwrap();
        let there = random.random_range(0..=other.len());
        let piece = &other[there..(there + random.random_range(0..40)).min(other.len())];
        let new = match random.random_range(0..5) {
            0 => Vec::new(),
            1 => input[from..to].repeat(random.random_range(2..20)),
            2 => piece.to_vec(),
            3 => (from..to).map(|_| random.random()).collect(),
            _ => random.random_range(0..u64::MAX).to_string().into_bytes(),
        };
        input.splice(from..to, new);
    }
    input
}

/// The targets have a lock file of their own, which no other command brings up to date.
#[test]
fn the_lock_file_of_the_targets_is_up_to_date() {
    let read = |path: &str| -> toml::Table {
        let text = fs::read_to_string(checkout().join(path)).unwrap();
        text.parse().unwrap_or_else(|why| panic!("{path}: {why}"))
    };
    let lock = read("fuzz/Cargo.lock");
    for (name, path) in [("schedlab", "Cargo.toml"), ("schedlab-core", "core/Cargo.toml")] {
        let manifest = read(path);
        let kinds = ["dependencies", "build-dependencies"].into_iter();
        let tables = kinds.filter_map(|kind| manifest.get(kind)?.as_table());
        let all: Vec<_> = tables.flatten().collect();
        let packages = lock["package"].as_array().unwrap().iter();
        let own = packages.filter(|package| package["name"].as_str() == Some(name));
        let locked = own.flat_map(|package| package["dependencies"].as_array().unwrap());
        // `base64 0.22.1`, where there are several versions.
        let locked = locked.map(|needed| needed.as_str().unwrap().split(' ').next().unwrap());
        let locked: BTreeSet<&str> = locked.collect();
        let is_optional = |needed: &toml::Value| needed.get("optional").is_some();
        let missing = all
            .iter()
            .find(|(name, needed)| !is_optional(needed) && !locked.contains(name.as_str()));
        let left = locked.iter().find(|locked| all.iter().all(|(name, _)| name != *locked));
        assert_eq!((missing, left), (None, None), "cd fuzz && cargo update -p {name}");
    }
}
