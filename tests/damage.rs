//! Stores with flipped bits: each answer is right, has a note, or is an error.

use std::fs;
use std::process::Output;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::home::Home;
use crate::support::{campaign, done, plan_ids, stderr, stdout};

/// Reports name the file of the store, so damaged stores have the same name.
const DB: &str = "results.db";
const NOTE: &str = "note: the store is damaged: ";

const PLAN: &str = "schema = 1\ntitle = \"damage\"\n[measure]\nrounds = 6\nduration = \"2s\"\nwarmup = \"1s\"\n\
    [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n[[workload]]\nuse = \"schbench\"\n\
    [[expect]]\nmetric = \"throughput\"\nfrom = \"0.5x\"\nto = \"2x\"\n";

fn ask(home: &Home, words: &str) -> Output {
    home.call(format!("{words} --db {DB}"))
}

/// Commands that ask a store: an undamaged one is asked by all, each flip by two.
fn questions(plan: &str) -> Vec<String> {
    let all = [
        "export",
        "report PLAN",
        "export PLAN",
        "list runs",
        "export",
        "show PLAN",
        "export PLAN",
        "compare plan=PLAN",
        "export",
        "test plan=PLAN",
        // Runs that are gone are made again, with the same values.
        "run --resume PLAN --quiet",
        "report PLAN",
    ];
    all.map(|words| words.replace("PLAN", plan)).to_vec()
}

/// The id of the plan that is measured into a new store.
fn measured(home: &Home) -> String {
    home.write("plan.toml", PLAN);
    done(ask(home, "run plan.toml --backend null --quiet"));
    plan_ids(&stdout(&ask(home, "export"))).remove(0)
}

#[test]
fn no_flip_of_a_store_gives_a_wrong_answer_without_a_word() {
    let home = Home::new();
    let db = home.at(DB);
    let questions = questions(&measured(&home));
    let whole = fs::read(&db).unwrap();
    let answer = |words: &String| (words.clone(), ask(&home, words));
    let answers: Vec<_> = questions.iter().map(answer).collect();
    for (words, answer) in &answers {
        let is_silent = words.contains("--quiet");
        assert!(answer.status.success() && answer.stdout.is_empty() == is_silent, "{answer:?}");
    }
    let mut random = ChaCha8Rng::seed_from_u64(200);
    let (flips, mut noted, mut refused) = (campaign(200), 0, 0);
    let pairs = || questions.chunks(2).zip(answers.chunks(2)).cycle();
    for (questions, answers) in pairs().take(flips as usize) {
        let (at, bit) = (random.random_range(0..whole.len()), random.random_range(0..8));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        for end in ["-wal", "-shm"] {
            _ = fs::remove_file(home.at(format!("{DB}{end}")));
        }
        fs::write(&db, bytes).unwrap();
        for ((words, answer), (_, right)) in questions.iter().map(answer).zip(answers) {
            let said = stderr(&answer);
            let place = format!("bit {bit} of byte {at}: {words}: {said}");
            match answer.status.code() {
                Some(0) if said.contains(NOTE) => noted += 1,
                Some(0) => assert!(answer.stdout == right.stdout, "{place}{}", stdout(&answer)),
                Some(code) => {
                    assert!(code < 100 && said.contains("error: "), "{place}");
                    refused += 1;
                    // A resumption that failed is one of the plan all the same.
                    if words.contains("--resume") {
                        break;
                    }
                }
                None => panic!("{place}"),
            }
        }
    }
    println!(
        "of {flips} flips in {} bytes: {noted} answers with a note, {refused} refused",
        whole.len()
    );
    assert!(noted > 0 && refused > 0, "the flips met nothing");
}

#[test]
fn runs_that_are_lost_are_named_left_out_and_made_again() {
    let home = Home::new();
    let call = |words: &str| {
        let output = done(ask(&home, words));
        (stdout(&output), stderr(&output))
    };
    let plan = &measured(&home);
    let ended = |lines: &str| lines.matches("\"event\":\"run_ended\"").count();
    let (whole, _) = call("export");
    let conn = rusqlite::Connection::open(home.at(DB)).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = ON; DELETE FROM run WHERE round = 2 AND cell = 0;
         UPDATE metric SET value = value + 1
         WHERE run = (SELECT run FROM run WHERE round = 4 AND cell = 0)",
    )
    .unwrap();
    drop(conn);
    let report = format!("report {plan}");
    let hint = format!("; hint: schedlab run --resume {plan} --db {DB}\n");
    let gone = format!("1 run stored of plan `{plan}` is not there: round 2 of cell 0");
    for words in [&report[..], "export"] {
        let (out, said) = call(words);
        assert!(said.contains(&format!("{NOTE}{gone}{hint}")), "{words:?}: {said}");
        assert!(said.contains("round 4 of cell 0 of plan "), "{words:?}: {said}");
        assert!(out.contains("store is damaged"), "{words:?}: {out}");
    }
    let said = stderr(&ask(&home, &format!("test plan={plan}")));
    assert_eq!((said.matches(NOTE).count(), said.matches(&gone).count()), (2, 1), "{said}");
    // It is the newest plan, and lacks runs.
    let (_, said) = call("run --resume -q");
    assert_eq!((said.matches(NOTE).count(), said.matches(&gone).count()), (2, 1), "{said}");
    let (again, said) = call("export");
    assert_eq!((ended(&again), said.as_str()), (ended(&whole), ""));
    assert!(!again.contains("\"status\":\"failed\""), "{again}");
    let (_, said) = call(&report);
    assert!(!said.contains(NOTE), "{said}");
}
