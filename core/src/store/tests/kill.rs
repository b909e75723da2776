//! SIGKILL at any moment: what was acknowledged is there, whole, and nothing twice.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};

use rand::{RngExt, SeedableRng};

use super::sample;
use super::*;
use crate::model::RunKey;

const PATH: &str = "SCHEDLAB_TEST_KILL";
const CELLS: u32 = 3;
const WORKERS: usize = 40;
const KILLS: usize = 12;

#[test]
fn a_kill_at_any_moment_loses_no_acknowledged_run() {
    if let Some(path) = std::env::var_os(PATH) {
        return store_runs_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(2);
    let mut acknowledged = BTreeSet::new();
    for kill in 0..KILLS {
        let path = folder.path().join("killed.db");
        let (child, said) = victim(&path);
        let acks = random.random_range(0..8);
        read_then_kill(child, said, acks, random.random_range(0..1_000_000), &mut acknowledged);
        check(&path, &acknowledged, kill + 1);
    }
    assert!(acknowledged.len() > KILLS, "too few runs were stored to mean anything");
}

/// The first open is where the file, its schema and its journal come to be.
#[test]
fn a_kill_while_the_database_is_made_leaves_one_that_opens() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    for kill in 0..KILLS {
        let path = folder.path().join(format!("{kill}.db"));
        let (child, said) = victim(&path);
        let mut acknowledged = BTreeSet::new();
        read_then_kill(child, said, 0, random.random_range(0..2_000_000), &mut acknowledged);
        check(&path, &acknowledged, 1);
    }
}

fn victim(path: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = myself("kill::a_kill_at_any_moment_loses_no_acknowledged_run")
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    (child, said)
}

/// Kills after `acks` runs and `spins` turns more; all that was said until then counts.
fn read_then_kill(
    mut child: Child,
    mut said: BufReader<ChildStdout>,
    acks: usize,
    spins: u32,
    acknowledged: &mut BTreeSet<RunKey>,
) {
    let mut line = String::new();
    let mut seen = None;
    while seen.is_none_or(|seen| seen < acks) {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "the child ended by itself");
        if line.starts_with("opening") {
            seen = Some(0);
        } else if let Some(key) = stored(&line) {
            acknowledged.insert(key);
            seen = seen.map(|seen| seen + 1);
        }
    }
    (0..spins).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged.extend(said.lines().filter_map(|line| stored(&line.unwrap())));
}

fn stored(line: &str) -> Option<RunKey> {
    let (round, cell) = line.trim().strip_prefix("stored ")?.split_once(' ')?;
    Some(RunKey { round: round.parse().ok()?, cell: cell.parse().ok()? })
}

/// At most one run of each victim was stored and not acknowledged.
fn check(path: &Path, acknowledged: &BTreeSet<RunKey>, victims: usize) {
    let store = Store::open(path).unwrap();
    assert_sound(&store);
    if store.plan_heads().unwrap().is_empty() {
        assert!(acknowledged.is_empty());
        return;
    }
    let finished = store.finished_runs("plan").unwrap();
    assert!(finished.is_superset(acknowledged), "lost: {:?}", acknowledged - &finished);
    assert!(finished.len() <= acknowledged.len() + victims);
    let record = store.record("plan").unwrap();
    assert_eq!(record.runs.len(), finished.len());
    for run in &record.runs {
        assert_eq!(run.outcome, sample::outcome(run.key, WORKERS), "{:?}", run.key);
    }
    let windows: i64 =
        store.conn.query_row("SELECT count(*) FROM worker_window", [], |row| row.get(0)).unwrap();
    assert_eq!(windows, (finished.len() * 2 * WORKERS) as i64);
    assert!(store.plan_heads().unwrap()[0].is_unfinished());
}

fn store_runs_until_killed(path: &Path) {
    let mut out = std::io::stdout();
    writeln!(out, "\nopening").unwrap();
    let mut store = Store::open(path).unwrap();
    store.apply(&sample::start("plan", CELLS)).unwrap();
    let finished = store.finished_runs("plan").unwrap();
    let keys = (0..).flat_map(|round| (0..CELLS).map(move |cell| RunKey { round, cell }));
    for key in keys.filter(|key| !finished.contains(key)) {
        apply_all(&mut store, &sample::run(key, 2, WORKERS));
        writeln!(out, "stored {} {}", key.round, key.cell).unwrap();
    }
}
