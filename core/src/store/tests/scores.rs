//! Saved scoreboards: kept to the last number, with what people write about them.

use super::*;
use crate::model::{
    Bucket, ProbeCost, SavedScore, Score, TaskScore, Times, Turn, Watched, WorstWait,
};

pub(super) fn saved(id: &str, at: u64) -> SavedScore {
    let times = Times {
        count: 3,
        total_ns: u64::MAX,
        max_ns: Some(9),
        buckets: vec![Bucket { low_ns: 256, high_ns: 288, count: 3 }],
    };
    let turn = Turn { tid: Some(7), name: "web".to_string(), run_ns: 5 };
    SavedScore {
        id: id.to_string(),
        started_unix_ns: at,
        hostname: "big".to_string(),
        kernel_release: "6.18.1".to_string(),
        score: Score {
            source: Some("bpf".to_string()),
            missed: vec![("perf".to_string(), "why".to_string())],
            watched: Watched::Command(vec!["make".to_string(), "-j4".to_string()]),
            wall_ns: 5_000_000_000,
            tasks: vec![TaskScore { tid: 7, wait: Some(times), ..TaskScore::default() }],
            cpus: Vec::new(),
            pairs: Some(Vec::new()),
            llcs: Some(vec!["0-1".parse().unwrap()]),
            worst: Some(WorstWait {
                wait_ns: 9,
                at_ns: 8,
                cpu: 1,
                tid: 7,
                name: "web".to_string(),
                before: turn.clone(),
                meanwhile: Some(vec![turn]),
                known_ns: 5,
            }),
            domains: None,
            lost: vec!["something".to_string()],
            cost: Some(ProbeCost { switch_ns: 0.1, slowdown: 1.0 / 3.0, measured_unix_ns: 7 }),
        },
    }
}

fn ids(store: &Store) -> Vec<String> {
    store.score_heads().unwrap().into_iter().map(|head| head.id).collect()
}

#[test]
fn a_score_is_kept_and_travels_with_an_export() {
    let (_folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("a", 1)]);
    let (first, second) = (saved("s1", 5), saved("s2", 9));
    store.save_score(&second).unwrap();
    store.save_score(&first).unwrap();
    assert!(store.save_score(&first).is_err(), "an id is used once");
    assert_eq!(ids(&store), ["s2", "s1"], "newest first");
    assert_eq!(store.score("s1").unwrap(), first);
    let head = &store.score_heads().unwrap()[1];
    assert_eq!((head.title.as_str(), head.wall_ns), ("make -j4", 5_000_000_000));
    assert!(store.tag(Subject::Score("s1"), "before").unwrap());
    assert!(store.tag("a", "before").unwrap(), "a plan's tags are its own");
    let note = Note { written_unix_ns: 3, text: "fan off".to_string() };
    store.add_note(Subject::Score("s1"), &note).unwrap();
    let expected = Annotations { tags: vec!["before".to_string()], notes: vec![note] };
    assert_eq!(store.annotations(Subject::Score("s1")).unwrap(), expected);
    assert_eq!(store.score_heads().unwrap()[1].tags, ["before"]);
    assert!(matches!(store.score("a"), Err(StoreError::UnknownScore { .. })));

    let lines = export(&store);
    let (_other, mut copy) = fresh();
    let imported = import(&mut copy, &lines).unwrap();
    assert_eq!((imported.plans, imported.scores), (1, 2));
    assert_eq!((copy.score("s2").unwrap(), export(&copy)), (second, lines.clone()));
    assert_eq!(copy.annotations(Subject::Score("s1")).unwrap(), expected);
    let of_score = lines.lines().find(|line| line.contains("score_saved")).unwrap();
    let again = import(&mut copy, of_score).unwrap();
    assert_eq!((again.scores, again.known), (0, 1), "stored already");
    let other = of_score.replacen("-j4", "-j5", 1);
    let error = import(&mut copy, &other).unwrap_err();
    assert!(error.to_string().contains(" already, and is another"), "{error}");

    assert!(store.untag(Subject::Score("s1"), "before").unwrap());
    store.tag(Subject::Score("s1"), "again").unwrap();
    store.remove_score("s1").unwrap();
    assert_eq!(ids(&store), ["s2"]);
    let left: i64 = store
        .conn
        .query_row(
            "SELECT (SELECT count(*) FROM score_tag) + (SELECT count(*) FROM score_note)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
    assert_eq!(store.annotations("a").unwrap().tags, ["before"]);
    assert_sound(&store);
}

#[test]
fn a_score_that_is_damaged_is_named() {
    let (_folder, mut store) = fresh();
    store.save_score(&saved("s1", 5)).unwrap();
    store.conn.execute("UPDATE score SET json = x'00'", []).unwrap();
    let error = store.score("s1").unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { action, .. } if action.contains("s1")),
        "{error:?}"
    );
    assert_eq!(ids(&store), [""; 0]);
    assert_eq!(reported(&store), [Damage::Score { id: "s1".to_string() }]);
    forget_digests(&store);
    let error = store.score("s1").unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { why, .. } if why.contains("s1")), "{error:?}");
    assert_eq!(ids(&store), ["s1"], "it is still listed");
    store.remove_score("s1").unwrap();
}

#[test]
fn scores_from_outside_are_checked() {
    let (_folder, mut source) = fresh();
    source.save_score(&saved("s1", 5)).unwrap();
    source.tag(Subject::Score("s1"), "good").unwrap();
    let line = export(&source);
    for (from, to) in [("\"id\":\"s1\"", "\"id\":\"last\""), ("\"good\"", "\"x,y\"")] {
        let (_folder, mut store) = fresh();
        assert!(line.contains(from), "{line}");
        let error = import(&mut store, &line.replace(from, to)).unwrap_err();
        assert!(matches!(error, StoreError::Line { line: 1, .. }), "{error:?}");
        assert_eq!(ids(&store), [""; 0], "nothing is stored");
    }
}

#[test]
fn a_store_of_the_format_before_keeps_all_and_takes_scores() {
    let folder = tempfile::tempdir().unwrap();
    let path = super::migrate::of_format_1(folder.path());
    let mut store = Store::open(&path).unwrap();
    let before = store.record("old").unwrap();
    store.save_score(&saved("s1", 5)).unwrap();
    assert_eq!(store.record("old").unwrap(), before);
    assert_eq!(ids(&store), ["s1"]);
}
