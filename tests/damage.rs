//! Stores with flipped bits: each answer is right, has a note, or is an error.

use std::fs;
use std::path::Path;
use std::process::Output;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::support::{schedlab, stderr, stdout};

const FLIPS: u32 = 200;
/// Reports name it, so damaged stores have the same name.
const DB: &str = "results.db";
const NOTE: &str = "note: the store is damaged: ";

fn ask(home: &Path, plan: &str) -> [Output; 2] {
    let calls: [&[&str]; 2] = [&["export"], &["report", plan]];
    calls.map(|words| schedlab(home, &[words, &["--db", DB]].concat()).output().unwrap())
}

#[test]
fn no_flip_of_a_store_gives_a_wrong_answer_without_a_word() {
    let home = tempfile::tempdir().unwrap();
    let db = home.path().join(DB);
    let run = ["run", "smoke", "--rounds", "6", "--backend", "null", "-q", "--db", DB];
    assert!(schedlab(home.path(), &run).output().unwrap().status.success());
    let whole = fs::read(&db).unwrap();
    let export = schedlab(home.path(), &["export", "--db", DB]).output().unwrap();
    let begun: Value = serde_json::from_str(stdout(&export).lines().next().unwrap()).unwrap();
    let plan = begun["id"].as_str().unwrap();
    let answers = ask(home.path(), plan);
    for answer in &answers {
        assert!(answer.status.success() && !answer.stdout.is_empty(), "{answer:?}");
    }
    let mut random = ChaCha8Rng::seed_from_u64(200);
    let (mut noted, mut refused) = (0, 0);
    for _ in 0..FLIPS {
        let (at, bit) = (random.random_range(0..whole.len()), random.random_range(0..8));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        for end in ["-wal", "-shm"] {
            _ = fs::remove_file(home.path().join(format!("{DB}{end}")));
        }
        fs::write(&db, bytes).unwrap();
        for (answer, right) in ask(home.path(), plan).iter().zip(&answers) {
            let place = format!("bit {bit} of byte {at}: {}", stderr(answer));
            match answer.status.code() {
                Some(0) if stderr(answer).contains(NOTE) => noted += 1,
                Some(0) => assert!(answer.stdout == right.stdout, "{place}"),
                Some(code) => {
                    assert!(code < 100 && stderr(answer).contains("error: "), "{place}");
                    refused += 1;
                }
                None => panic!("{place}"),
            }
        }
    }
    println!(
        "of {FLIPS} flips in {} bytes: {noted} answers with a note, {refused} refused",
        whole.len()
    );
    assert!(noted > 0 && refused > 0, "the flips met nothing");
}
