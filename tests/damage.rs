//! Stores with flipped bits: each answer is right, has a note, or is an error.

use std::fs;
use std::path::Path;
use std::process::Output;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::support::{schedlab, stderr, stdout};

const FLIPS: u32 = 200;
/// Reports name the file of the store, so damaged stores have the same name.
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

#[test]
fn runs_that_are_lost_are_named_left_out_and_made_again() {
    let home = tempfile::tempdir().unwrap();
    let call = |words: &[&str]| {
        let output = schedlab(home.path(), &[words, &["--db", DB]].concat()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        (stdout(&output), stderr(&output))
    };
    call(&["run", "smoke", "--rounds", "6", "--backend", "null", "-q"]);
    let ended = |lines: &str| lines.matches("\"event\":\"run_ended\"").count();
    let (whole, _) = call(&["export"]);
    let begun: Value = serde_json::from_str(whole.lines().next().unwrap()).unwrap();
    let plan = begun["id"].as_str().unwrap();
    let conn = rusqlite::Connection::open(home.path().join(DB)).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = ON; DELETE FROM run WHERE round = 2 AND cell = 0;
         UPDATE metric SET value = value + 1
         WHERE run = (SELECT run FROM run WHERE round = 4 AND cell = 0)",
    )
    .unwrap();
    drop(conn);
    let hint = format!("; hint: schedlab run --resume {plan} --db {DB}\n");
    let gone = format!("1 run stored of plan `{plan}` is not there: round 2 of cell 0");
    for words in [&["report", plan][..], &["export"]] {
        let (out, said) = call(words);
        assert!(said.contains(&format!("{NOTE}{gone}{hint}")), "{words:?}: {said}");
        assert!(said.contains("round 4 of cell 0 of plan "), "{words:?}: {said}");
        assert!(out.contains("store is damaged"), "{words:?}: {out}");
    }
    let (_, said) = call(&["run", "--resume", plan, "-q"]);
    assert!(said.contains(&gone), "{said}");
    let (again, said) = call(&["export"]);
    assert_eq!((ended(&again), said.as_str()), (ended(&whole), ""));
    assert!(!again.contains("\"status\":\"failed\""), "{again}");
    let (_, said) = call(&["report", plan]);
    assert!(!said.contains(NOTE), "{said}");
}
