//! Tags, notes, and plans that are removed.

use super::*;
use crate::store::{Annotations, Note};

fn note(text: &str) -> Note {
    Note { written_unix_ns: 7, text: text.to_string() }
}

#[test]
fn tags_and_notes_are_kept_and_travel_with_an_export() {
    let (_folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("a", 1), sample::start("b", 1)]);
    assert!(store.tag("a", "new").unwrap() && store.tag("a", "before").unwrap());
    assert!(!store.tag("a", "new").unwrap(), "it has it already");
    assert!(store.tag("b", "new").unwrap() && store.untag("b", "new").unwrap());
    assert!(!store.untag("b", "new").unwrap());
    store.add_note("a", &note("first\nand more")).unwrap();
    store.add_note("a", &note("second")).unwrap();
    store.add_note("b", &note("gone")).unwrap();
    assert_eq!(store.remove_notes("b").unwrap(), 1);
    let expected = Annotations {
        tags: vec!["before".to_string(), "new".to_string()],
        notes: vec![note("first\nand more"), note("second")],
    };
    assert_eq!(store.annotations("a").unwrap(), expected);
    assert_eq!(store.annotations("b").unwrap(), Annotations::default());
    assert!(matches!(store.tag("c", "x"), Err(StoreError::UnknownPlan { .. })));
    assert!(store.tag("a", "x,y").is_err() && store.add_note("a", &note(" ")).is_err());

    let mut lines = Vec::new();
    store.export(None, &mut lines).unwrap();
    let (_other, mut copy) = fresh();
    assert_eq!(copy.import(lines.as_slice()).unwrap().plans, 2);
    assert_eq!(copy.annotations("a").unwrap(), expected);
    assert_eq!(copy.detail("a").unwrap(), store.detail("a").unwrap());
    let mut again = Vec::new();
    copy.export(None, &mut again).unwrap();
    assert_eq!(lines, again);
    let heads = copy.plan_heads().unwrap();
    let tags = heads.iter().map(|head| (head.id.as_str(), head.tags.len()));
    assert_eq!(tags.collect::<Vec<_>>(), [("b", 0), ("a", 2)]);
}

#[test]
fn what_is_known_takes_the_tags_and_notes_that_come() {
    let (_folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("a", 1)]);
    store.save_score(&scores::saved("s1", 5)).unwrap();
    let (_other, mut copy) = fresh();
    import(&mut copy, &export(&store)).unwrap();
    for (own, tag, text) in [(&mut store, "theirs", "fan off"), (&mut copy, "mine", "fan on")] {
        for subject in [Subject::Plan("a"), Subject::Score("s1")] {
            own.tag(subject, tag).unwrap();
            own.add_note(subject, &note(text)).unwrap();
        }
    }
    let (_third, mut third) = fresh();
    import(&mut third, &export(&copy)).unwrap();
    let expected = Annotations {
        tags: vec!["mine".to_string(), "theirs".to_string()],
        notes: vec![note("fan on"), note("fan off")],
    };
    for times in 1..=2 {
        assert_eq!(import(&mut copy, &export(&store)).unwrap().known, 2);
        assert_eq!(import_store(&mut third, &store).unwrap().known, 2);
        for own in [&copy, &third] {
            for subject in [Subject::Plan("a"), Subject::Score("s1")] {
                assert_eq!(own.annotations(subject).unwrap(), expected, "{subject:?}, {times}");
            }
            assert_eq!((own.damaged().unwrap(), reported(own)), (Vec::new(), Vec::new()));
        }
    }
}

#[test]
fn annotations_from_outside_are_checked() {
    let (_folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("stored", 1)]);
    let start = serde_json::to_string(&sample::start("a", 1)).unwrap();
    let line = |id: &str, tag: &str, text: &str| {
        let notes = serde_json::json!([{ "written_unix_ns": 1, "text": text }]);
        let line = serde_json::json!({ "event": "plan_annotated", "id": id, "tags": [tag],
            "notes": notes });
        format!("{start}\n{line}\n")
    };
    for (id, tag, text) in
        [("a", "x,y", "t"), ("a", "\u{1b}[2J", "t"), ("a", "x", ""), ("stored", "x", "t")]
    {
        let error = store.import(line(id, tag, text).as_bytes()).unwrap_err();
        assert!(matches!(error, StoreError::Line { line: 2, .. }), "{error:?}");
    }
    assert_eq!(store.plan_heads().unwrap().len(), 1, "nothing of a wrong stream is kept");
    store.import(line("a", "x", "t").as_bytes()).unwrap();
    assert_eq!(store.annotations("a").unwrap().tags, ["x"]);
}

#[test]
fn a_removed_plan_leaves_nothing() {
    let (_folder, mut store) = fresh();
    let key = RunKey { round: 0, cell: 0 };
    for id in ["a", "b"] {
        apply_all(&mut store, &[sample::start(id, 1)]);
        apply_all(&mut store, &sample::run(key, 1, 2));
        store.tag(id, "x").unwrap();
        store.add_note(id, &note("n")).unwrap();
    }
    let counts = |store: &Store| {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut names = store.conn.prepare(sql).unwrap();
        let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let count = |name: String| {
            let sql = format!("SELECT count(*) FROM {name}");
            let count = store.conn.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap();
            (name, count)
        };
        names.map(|name| count(name.unwrap())).collect::<Vec<_>>()
    };
    let both = counts(&store);
    store.remove("a").unwrap();
    assert_eq!(store.plan_heads().unwrap()[0].runs.done, 1);
    // Plans share the kinds of their metrics.
    let both = both.into_iter().zip(counts(&store)).filter(|((name, _), _)| name != "metric_kind");
    for ((name, before), (_, after)) in both {
        assert_eq!(after * 2, before, "{name}");
    }
    store.remove("b").unwrap();
    let left = counts(&store);
    let is_gone = |(name, count): &(String, i64)| *count == 0 || name == "metric_kind";
    assert!(left.iter().all(is_gone), "{left:?}");
    assert!(matches!(store.remove("a"), Err(StoreError::UnknownPlan { .. })));
}
