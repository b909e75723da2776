//! Files that are not ours, disks that are full, streams that do not hold together.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use super::sample;
use super::*;
use crate::model::{
    Advice, CpuSet, CpuTimeOf, Direction, Disturbance, DisturbanceFact, MetricKind, NamedHistogram,
    Outcome, PlanEnd, PlanStarted, Reading, RunKey, RunResult, Statistic, Unit, WorkerWindow,
};

const KEY: RunKey = RunKey { round: 0, cell: 0 };

fn files_in(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn what_is_not_ours_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = |name: &str, sql: &str| {
        let path = folder.path().join(name);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    };
    fs::write(folder.path().join("text"), "[measure]\nrounds = 10\n".repeat(100)).unwrap();
    fs::write(folder.path().join("short"), "x").unwrap();
    foreign("other", "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    foreign("other-wal", "PRAGMA journal_mode = WAL; CREATE TABLE t (x)");
    foreign("other-id", "PRAGMA application_id = 7; CREATE TABLE t (x)");
    // Another program's database with a journal that its next start will need.
    let busy = rusqlite::Connection::open(folder.path().join("in-use")).unwrap();
    busy.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();

    let before = files_in(folder.path());
    let cases = [
        ("text", "not an SQLite file"),
        ("short", "not an SQLite file"),
        ("other", "its application id is 0x0"),
        ("other-wal", "its application id is 0x0"),
        ("other-id", "its application id is 0x7"),
        ("in-use", "its application id is 0x0"),
    ];
    for (name, why) in cases {
        let path = folder.path().join(name);
        for error in [Store::open(&path).unwrap_err(), Store::open_read_only(&path).unwrap_err()] {
            assert!(matches!(error, StoreError::Foreign { .. }), "{name}: {error:?}");
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
            assert_hint(&error, "--db");
        }
    }
    assert!(before == files_in(folder.path()), "a foreign file was touched");
}

#[test]
fn an_empty_file_is_a_new_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made-by-mktemp");
    fs::write(&path, "").unwrap();
    assert_eq!(Store::open(&path).unwrap().plan_heads().unwrap(), []);
}

/// Its version may still be in the journal alone.
#[test]
fn a_database_from_a_newer_version_is_refused() {
    let (folder, store) = fresh();
    let refuse = |path: &Path| {
        for error in [Store::open(path).unwrap_err(), Store::open_read_only(path).unwrap_err()] {
            let known = MIGRATIONS.len() as i64;
            let is_it =
                matches!(error, StoreError::Newer { found: 99, known: k, .. } if k == known);
            assert!(is_it, "{error:?}");
            assert_hint(&error, "update schedlab");
        }
    };
    store.conn.pragma_update(None, "user_version", 99).unwrap();
    refuse(store.path());

    // One that was killed keeps its journal for the version that can use it.
    checkpoint(&store);
    store.conn.execute_batch("CREATE TABLE novelty (x)").unwrap();
    let killed = folder.path().join("killed");
    let path = copy_as_killed(&store, &killed);
    let before = files_in(&killed);
    refuse(&path);
    assert!(before == files_in(&killed), "a newer database was touched");
}

fn checkpoint(store: &Store) {
    pragma(&store.conn, "wal_checkpoint(PASSIVE)").unwrap();
}

/// The files as they would lie if the process died now.
fn copy_as_killed(store: &Store, folder: &Path) -> std::path::PathBuf {
    fs::create_dir(folder).unwrap();
    for name in ["schedlab.db", "schedlab.db-wal", "schedlab.db-journal"] {
        let file = store.path().with_file_name(name);
        if file.exists() {
            fs::copy(file, folder.join(name)).unwrap();
        }
    }
    folder.join("schedlab.db")
}

/// The first page of a longer database is written before the others.
#[test]
fn a_kill_while_the_journal_is_written_back_leaves_a_database_that_opens() {
    let (folder, mut store) = begun(1);
    checkpoint(&store);
    apply_all(&mut store, &sample::run(KEY, 3, 1000));
    let writer = copy_as_killed(&store, &folder.path().join("writer"));
    let reader = copy_as_killed(&store, &folder.path().join("reader"));
    checkpoint(&store);
    let whole = fs::read(store.path()).unwrap();
    for path in [&writer, &reader] {
        let mut file = fs::read(path).unwrap();
        assert!(file.len() < whole.len());
        file[..4096].copy_from_slice(&whole[..4096]);
        fs::write(path, file).unwrap();
    }
    let store = Store::open(&writer).unwrap();
    assert_sound(&store);
    assert_eq!(store.record("plan").unwrap().runs.len(), 1);
    assert_eq!(Store::open_read_only(&reader).unwrap().record("plan").unwrap().runs.len(), 1);
}

/// As in a migration, or where a WAL cannot be: the file has a part of what a killed writer changed.
#[test]
fn a_reader_takes_back_what_a_killed_writer_left_half_done() {
    let (folder, mut store) = begun(1);
    apply_all(&mut store, &sample::run(KEY, 3, 1000));
    store
        .conn
        .execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 5; BEGIN; DELETE FROM run;
             CREATE TABLE novelty AS WITH RECURSIVE n (i) AS
                 (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n;",
        )
        .unwrap();
    let killed = copy_as_killed(&store, &folder.path().join("killed"));
    assert!(fs::metadata(killed.with_extension("db-journal")).unwrap().len() > 0);
    let foreign = copy_as_killed(&store, &folder.path().join("foreign"));
    assert!(Store::open_foreign(&foreign).is_err(), "nothing is read of what is half there");
    let read = Store::open_read_only(&killed).unwrap();
    assert_sound(&read);
    assert_eq!(read.record("plan").unwrap().runs.len(), 1);
}

#[test]
fn where_no_database_can_be_the_reason_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let cases = [
        (file.join("schedlab.db"), "file: File exists"),
        (file.join("below/schedlab.db"), "Not a directory"),
        (folder.path().to_path_buf(), "is a directory"),
        ("/dev/null".into(), "not a regular file"),
        ("/proc/self/schedlab.db".into(), "No such file"),
    ];
    for (path, why) in cases {
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert_hint(&error, "--db");
    }
    let missing = Store::open_read_only(&folder.path().join("missing.db")).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { is_there: false, .. }), "{missing:?}");
    let empty = Store::open_read_only(&file).unwrap_err();
    assert!(matches!(empty, StoreError::Missing { is_there: true, .. }), "{empty:?}");
    assert!(!empty.to_string().contains("does not exist"), "{empty}");
    assert_eq!(files_in(folder.path()), [("file".to_string(), Vec::new())]);
}

/// Permissions do not bite root, so root runs this once more as nobody.
#[test]
fn a_read_only_database_can_be_read_and_not_measured_into() {
    const FOLDER: &str = "SCHEDLAB_TEST_READ_ONLY";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return as_one_who_may_not_write(Path::new(&folder));
    }
    let (folder, mut store) = begun(1);
    apply_all(&mut store, &sample::run(KEY, 1, 1));
    let data = store.path().parent().unwrap().to_path_buf();
    let old = super::migrate::of_format_1(&data);
    for path in [store.path(), &old] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
    }
    drop(store);
    fs::set_permissions(&data, fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return as_one_who_may_not_write(&data);
    }
    let mut nobody = myself("faults::a_read_only_database_can_be_read_and_not_measured_into");
    match nobody.env(FOLDER, &data).uid(65534).gid(65534).current_dir("/").output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        }
        Err(why) => eprintln!(
            "skipped: a_read_only_database_can_be_read_and_not_measured_into needs a test binary that user nobody can execute ({why})"
        ),
    }
}

fn as_one_who_may_not_write(folder: &Path) {
    let path = folder.join("schedlab.db");
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert_hint(&error, "ls -ld");
    let error = Store::open(&folder.join("new.db")).unwrap_err();
    assert!(error.to_string().contains("Permission denied"), "{error}");

    let error = Store::open_read_only(&folder.join("old.db")).unwrap_err();
    let newest = MIGRATIONS.len() as i64;
    assert!(
        matches!(error, StoreError::Older { found: 1, known, .. } if known == newest),
        "{error:?}"
    );

    let mut store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.record("plan").unwrap().runs.len(), 1);
    assert_eq!(export(&store).lines().count(), 4);
    let error = store.apply(&sample::start("plan", 1)).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
}

#[test]
fn a_full_disk_costs_nothing_that_was_stored_and_the_run_can_be_stored_later() {
    let (_folder, mut store) = begun(1);
    apply_all(&mut store, &sample::run(KEY, 1, 10));
    let before = store.record("plan").unwrap();
    let pages = pragma(&store.conn, "page_count").unwrap();
    let limit = |store: &Store, pages: i64| {
        pragma(&store.conn, &format!("max_page_count = {pages}")).unwrap();
    };
    limit(&store, pages + 4);

    let key = RunKey { round: 1, cell: 0 };
    let run = sample::run(key, 3, 1000);
    let (end, until_end) = run.split_last().unwrap();
    apply_all(&mut store, until_end);
    for _ in 0..2 {
        let error = store.apply(end).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        assert!(error.to_string().contains("round 1 of cell 0"), "{error}");
        assert_hint(&error, "df -h ");
        assert_eq!(store.record("plan").unwrap(), before);
        assert_sound(&store);
    }
    limit(&store, 1 << 30);
    store.apply(end).unwrap();
    let windows: i64 = store
        .conn
        .query_row("SELECT count(*) FROM worker_window WHERE run = 2", [], |row| row.get(0))
        .unwrap();
    assert_eq!(windows, 3000, "what waited for the run's end was kept");
    assert_sound(&store);
}

#[test]
fn no_run_is_stored_twice() {
    let (_folder, mut store) = begun(1);
    apply_all(&mut store, &sample::run(KEY, 1, 1));
    let before = export(&store);
    let again = Event::RunEnded { key: KEY, outcome: Outcome::Failed { reason: "x".into() } };
    let error = store.apply(&again).unwrap_err();
    assert!(matches!(error, StoreError::RunStored { key: KEY, .. }), "{error:?}");
    assert_eq!(export(&store), before);
}

#[test]
fn events_that_do_not_hold_together_are_refused_with_the_reason() {
    let ended = |outcome| Event::RunEnded { key: KEY, outcome };
    let result = |change: &dyn Fn(&mut crate::model::SetResult)| {
        let Outcome::Done { mut result } = sample::outcome(KEY, 1) else { unreachable!() };
        change(&mut result.sets[0]);
        ended(Outcome::Done { result })
    };
    let not_finite = result(&|set: &mut crate::model::SetResult| {
        set.metrics[0].value = Reading::Known(f64::NAN);
    });
    let descending = result(&|set: &mut crate::model::SetResult| {
        set.histograms = vec![NamedHistogram { name: "h".into(), counts: vec![(2, 1), (1, 1)] }];
    });
    let outside = RunKey { round: 0, cell: 1 };
    let mut misnumbered = sample::started("other", 1);
    misnumbered.cells[0].index = 1;
    let cases = [
        (not_finite, "metric `throughput` is NaN"),
        (descending, "histogram `h`: values do not ascend"),
        (Event::RunStarted { key: outside }, "cell 1 is not one of the 1 cells of plan `plan`"),
        (Event::PlanStarted(Box::new(misnumbered)), "cell 1 stands at position 0"),
        (Event::RunStarted { key: KEY }, "no plan has been started"),
        (
            Event::PlanEnded { reason: PlanEnd::Complete, calibration: None },
            "no plan has been started",
        ),
    ];
    let (_folder, mut store) = begun(1);
    let before = export(&store);
    for (event, why) in cases {
        let error = store.apply(&event).unwrap_err();
        assert!(matches!(error, StoreError::Event { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(export(&store), before, "{why}");
    }
}

#[test]
fn another_plan_cannot_pass_for_the_one_that_is_resumed() {
    type Change = fn(&mut crate::model::PlanStarted);
    let cases: [(Change, &str); 4] = [
        (|it| it.backend = "lab".into(), "the backend"),
        (|it| it.source.push('\n'), "the plan"),
        (|it| it.plan.measure.rounds += 1, "the plan"),
        (|it| it.cells[0].variant.name = "b".into(), "the list of cells"),
    ];
    let (_folder, mut store) = fresh();
    for (change, what) in cases {
        apply_all(&mut store, &[sample::start("plan", 1)]);
        let mut other = sample::started("plan", 1);
        change(&mut other);
        let before = export(&store);
        let error = store.apply(&Event::PlanStarted(Box::new(other))).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(matches!(error, StoreError::PlanDiffers { .. }), "{error:?}");
        assert!(store.apply(&Event::RunStarted { key: KEY }).is_err(), "no plan is begun");
        assert_eq!(export(&store), before);
    }
}

#[test]
fn a_wrong_line_is_named_and_nothing_is_imported() {
    let (_folder, mut store) = begun(1);
    apply_all(&mut store, &sample::run(KEY, 1, 1));
    let good = export(&store);
    let lines: Vec<&str> = good.lines().collect();
    let newer = lines[0].replacen("\"schema\":2", "\"schema\":3", 1);
    let future = r#"{"event":"plan_started","schema":3,"novelty":true}"#;
    let cases = [
        (format!("{good}{{\n"), "line 5 is not an event: it ends before its JSON does"),
        (format!("{good}\n"), "line 5 is not an event: it is empty"),
        ("{\"event\":\"dance\"}\n".to_string(), "line 1 has the event `dance`"),
        (
            format!("{}\n{{\"event\":\"plan_ended\",\"reason\":\"bored\"}}\n", lines[0]),
            "line 2 is not an event: unknown variant `bored`",
        ),
        (
            format!("{}\n{{\"event\":\"score_saved\"}}\n", lines[0]),
            "line 2 is not an event: unknown variant `score_saved`",
        ),
        (format!("{}\n{{\"happened\":\"dance\"}}\n", lines[0]), "line 2 is not an event: missing"),
        (
            format!("{}\n{{\"event\":\"dance\",\"schema\":3}}\n", lines[0]),
            "line 2 cannot be imported: the event stream has version 3",
        ),
        (format!("{good}{}\n", lines[3]), "line 5 cannot be imported: round 0 of cell 0"),
        (
            format!("{good}{}\n{}\n", lines[2], lines[2]),
            "line 6 cannot be imported: cannot store round 0 of cell 0",
        ),
        (lines[1].to_string(), "line 1 cannot be imported: cannot store round 0 of cell 0"),
        (format!("{newer}\n"), "line 1 cannot be imported: the event stream has version 3"),
        (format!("{future}\n"), "line 1 cannot be imported: the event stream has version 3"),
    ];
    let (_folder, mut copy) = fresh();
    for (text, why) in cases {
        let error = import(&mut copy, &text).unwrap_err();
        assert!(error.to_string().starts_with(why), "{error}");
        let hint = error.problem().hint.unwrap();
        assert!(hint.contains("schedlab export") || hint.contains("update"), "{error}: {hint}");
        assert_eq!(copy.plan_heads().unwrap(), [], "{why}");
    }
    let error = copy.import(BufReader::new(&b"{\"event\":\"\xff"[..])).unwrap_err();
    assert!(matches!(error, StoreError::Input { line: 1, .. }), "{error:?}");
    assert!(error.is_usage(), "{error:?}");
    // Import stops at the first line after an export that is not an event, and does not read it to its end.
    let tail = std::io::repeat(0).take(3 << 30);
    let mut input = BufReader::new(good.as_bytes().chain(tail));
    let error = copy.import(&mut input).unwrap_err();
    assert!(matches!(error, StoreError::Malformed { line: 5, .. }), "{error:?}");
    let left = input.get_ref().get_ref().1.limit();
    assert!(left + (1 << 20) > 3 << 30, "{left} bytes are left");

    let imported = import(&mut copy, &good).unwrap();
    assert_eq!((imported.plans, imported.runs), (1, 1));
    assert_eq!(export(&copy), good);
}

#[test]
fn what_is_stored_already_is_left_out_and_another_plan_of_its_name_is_refused() {
    let (_folder, mut store) = fresh();
    for (id, offset) in [("one", 1), ("two", 2)] {
        apply_all(&mut store, &[sample::start(id, 1)]);
        apply_all(&mut store, &sample::run(KEY, offset, 3));
    }
    let all = export(&store);
    let at = all.match_indices("{\"event\":\"plan_started\"").nth(1).unwrap().0;
    let (one, two) = all.split_at(at);
    let (_folder, mut copy) = fresh();
    import(&mut copy, one).unwrap();
    let file = |name: &str, text: &str| Source {
        name: name.to_string(),
        content: Content::Lines(Box::new(std::io::Cursor::new(text.to_string()))),
    };
    // One of several hosts was imported before, and one file is named twice.
    let both = copy.import_all([file("a", one), file("b", two), file("b", two)]).unwrap();
    assert_eq!((both.plans, both.runs, both.known), (1, 1, 2));
    assert_eq!(export(&copy), all);
    assert_sound(&copy);
    let tagged = format!(
        "{one}{{\"event\":\"plan_annotated\",\"id\":\"one\",\"tags\":[\"x\"],\"notes\":[]}}\n"
    );
    assert_eq!(import(&mut copy, &tagged).unwrap().known, 1);
    assert_eq!(copy.annotations("one").unwrap().tags, ["x"]);

    let other = two.replace("\"id\":\"two\"", "\"id\":\"one\"");
    let before = export(&copy);
    let refused = copy.import_all([file("a", two), file("b", &other)]).unwrap_err();
    assert!(refused.to_string().starts_with("b: plan `one` is stored in "), "{refused}");
    assert_hint(&refused, "--db NEW.db");
    assert_eq!(export(&copy), before);
}

#[test]
fn an_import_that_the_disk_has_no_room_for_is_not_to_be_resumed() {
    let (_folder, mut store) = begun(1);
    apply_all(&mut store, &sample::run(KEY, 3, 1000));
    let (_folder, mut copy) = fresh();
    let pages = pragma(&copy.conn, "page_count").unwrap();
    pragma(&copy.conn, &format!("max_page_count = {}", pages + 2)).unwrap();
    let error = import(&mut copy, &export(&store)).unwrap_err();
    let hint = error.problem().hint.unwrap();
    assert!(hint.contains("df -h") && !hint.contains("--resume"), "{error}: {hint}");
    assert_eq!(copy.plan_heads().unwrap(), []);
    let lines = export(&store);
    let twice = format!("{lines}{}\n", lines.lines().last().unwrap());
    let (_folder, mut copy) = fresh();
    let hint = import(&mut copy, &twice).unwrap_err().problem().hint.unwrap();
    assert!(!hint.contains("--resume"), "{hint}");
}

#[test]
fn windows_that_count_more_than_their_run_are_counted() {
    let imported = |change: fn(&mut WorkerWindow)| {
        let (_folder, mut store) = begun(1);
        for mut event in sample::run(KEY, 6, 2) {
            if let Event::Window { window, .. } = &mut event {
                change(&mut window.workers[1]);
            }
            store.apply(&event).unwrap();
        }
        let (_folder, mut copy) = fresh();
        import(&mut copy, &export(&store)).unwrap().contradicting
    };
    // The first second is the warm-up, and five windows of 1 s make the whole.
    assert_eq!(imported(|_| ()), 0);
    assert_eq!(imported(|own| own.ops += u64::from(own.end_at_ns == 1_000_000_000) * 1000), 0);
    // The last one may be read later than the whole; one of many times its size is none of that.
    assert_eq!(imported(|own| own.ops += u64::from(own.end_at_ns == 6_000_000_000) * 600), 0);
    assert_eq!(imported(|own| own.ops += u64::from(own.end_at_ns == 6_000_000_000) * 3000), 1);
    assert_eq!(imported(|own| own.ops += u64::from(own.end_at_ns == 4_000_000_000) * 1000), 1);
    assert_eq!(imported(|own| own.wall_ns *= u64::from(own.end_at_ns == 6_000_000_000) * 3 + 1), 1);
    assert_eq!(imported(|own| own.ops += u64::from(own.end_at_ns > 3_000_000_000) * 1000), 1);
    assert_eq!(imported(|own| own.cpu_ns *= 2), 1);
    assert_eq!(imported(|own| own.cpu_ns = u64::MAX / 2), 1);
}

/// Imports a plan with one run whose result was changed.
fn imported_result(change: impl Fn(&mut RunResult)) -> Result<Imported, StoreError> {
    let (_folder, store) = begun(1);
    let mut run = sample::run(KEY, 1, 1);
    if let Some(Event::RunEnded { outcome: Outcome::Done { result }, .. }) = run.last_mut() {
        change(result);
    }
    let lines = run.iter().map(|event| serde_json::to_string(event).unwrap() + "\n");
    let lines = export(&store) + &lines.collect::<String>();
    let (_folder, mut copy) = fresh();
    let imported = import(&mut copy, &lines);
    assert_eq!(copy.plan_heads().unwrap().is_empty(), imported.is_err(), "{imported:?}");
    imported
}

#[test]
fn an_imported_run_has_no_value_that_cannot_be() {
    let metric = |name: &str, unit, statistic, value| {
        let kind = MetricKind::explaining(name, unit, Direction::LowerIsBetter, statistic);
        kind.reading(Reading::Known(value))
    };
    let imported = |metrics: &[(&str, Unit, Statistic, f64)]| {
        let metrics =
            metrics.iter().map(|(name, unit, of, value)| metric(name, *unit, *of, *value));
        imported_result(|result| result.sets[0].metrics.extend(metrics.clone()))
    };
    let (p50, p99) = (Statistic::Quantile(500_000), Statistic::Quantile(990_000));
    let latencies = |p50_ns, p99_ns, max_ns| {
        [
            ("wakeup_p50", Unit::Ns, p50, p50_ns),
            ("wakeup_max", Unit::Ns, Statistic::Max, max_ns),
            ("wakeup_p99", Unit::Ns, p99, p99_ns),
            ("other_max", Unit::Ns, Statistic::Max, 1.0),
        ]
    };
    let executions = |mean| {
        [
            ("time", Unit::Ns, Statistic::Mean, mean),
            ("time_min", Unit::Ns, Statistic::Quantile(0), 10.0),
        ]
    };
    let refused: &[(&[_], &str)] = &[
        (
            &[("miss_ratio", Unit::Ratio, Statistic::Share, -0.3)],
            "`web/miss_ratio`: -0.3 is not a share from 0 to 1",
        ),
        (&[("rate", Unit::OpsPerS, Statistic::Rate, -1.0)], "`web/rate`: -1 is below 0"),
        (&latencies(200.0, 100.0, 300.0), "`web/wakeup_p50` is 200, above `web/wakeup_p99`, 100"),
        (&latencies(100.0, 300.0, 200.0), "`web/wakeup_p99` is 300, above `web/wakeup_max`, 200"),
        (
            &[&[("wakeup", Unit::Ns, Statistic::Mean, 9e6)], &latencies(1.0, 2.0, 3.0)[..]]
                .concat(),
            "`web/wakeup` is 9000000, above `web/wakeup_max`, 3",
        ),
        (&executions(-3.0), "`web/time_min` is 10, above `web/time`, -3"),
    ];
    let refusal = |imported: Result<Imported, StoreError>, why: &str| {
        let error = imported.unwrap_err();
        let expected = format!("line 4 cannot be imported: round 0 of cell 0: {why}");
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert!(
            error.is_usage() && error.problem().hint.unwrap().contains("help formats"),
            "{error:?}"
        );
    };
    for (metrics, why) in refused {
        refusal(imported(metrics), why);
    }
    // A few long ones lift a mean above most quantiles.
    let skewed = [("wakeup", Unit::Ns, Statistic::Mean, 250.0)];
    imported(&[&skewed[..], &latencies(100.0, 200.0, 9000.0)[..]].concat()).unwrap();
    refusal(imported_result(|result| result.measured_ns = 0), "measured_ns is 0");
    refusal(imported_result(|result| result.sets.clear()), "it has no worker set");
    let doubled = imported_result(|result| {
        let metrics = &mut result.sets[0].metrics;
        metrics.push(metrics[0].clone());
    });
    refusal(doubled, "`web/throughput` stands twice");
    let taken = [latencies(100.0, 100.0, 99.0), latencies(100.0, 200.0, 300.0)];
    taken.iter().for_each(|metrics| assert_eq!(imported(metrics).unwrap().runs, 1));
    assert_eq!(imported(&executions(10.0)).unwrap().runs, 1);

    // Some schedulers count CPU time twice: that is taken, and said.
    let doubled = |result: &mut RunResult| result.sets[0].workers[0].cpu_ns *= 2;
    assert_eq!(imported_result(|_| ()).unwrap().above_wall, 0);
    assert_eq!(imported_result(doubled).unwrap().above_wall, 1);
    let said = imported_result(|result| {
        doubled(result);
        let (of, counted_cpus, cpus) = (CpuTimeOf::Workers, 2.0, 1);
        let fact = DisturbanceFact::CpuTimeAboveWall { of, counted_cpus, cpus };
        result.disturbances.push(Disturbance { share: None, fact });
    });
    assert_eq!(said.unwrap().above_wall, 0);
}

/// Why an import of `started` is refused; nothing of it is stored.
fn refusal(started: PlanStarted) -> String {
    let (_folder, mut store) = fresh();
    let line = serde_json::to_string(&Event::PlanStarted(Box::new(started))).unwrap();
    let error = import(&mut store, &line).unwrap_err();
    assert_eq!(store.plan_heads().unwrap(), [], "{error}");
    assert_hint(&error, "schedlab help formats");
    let text = error.to_string();
    text.strip_prefix("line 1 cannot be imported: ").expect(&text).to_string()
}

#[test]
fn an_imported_plan_has_an_id_that_a_selection_can_name() {
    let long = "a".repeat(65);
    let cases = [
        ("", "the plan's id `` is not 1 to 64 letters"),
        ("a b", "the plan's id `a b` is not"),
        ("../x", "the plan's id `../x` is not"),
        ("last:2", "the plan's id `last:2` is not"),
        ("a\u{1b}[2J", "the plan's id `a\\u{1b}[2J` is not"),
        ("ä", "the plan's id `ä` is not"),
        (&long, "the plan's id `aaa"),
        ("last", "the plan's id `last` has a meaning of its own"),
        ("all", "the plan's id `all` has a meaning of its own"),
    ];
    for (id, why) in cases {
        let refused = refusal(sample::started(id, 1));
        assert!(refused.starts_with(why), "{refused}");
    }
    for id in ["20261121-012345-3f9a", "Z", &long[..64], "lasting"] {
        let (_folder, mut store) = fresh();
        let line = serde_json::to_string(&sample::start(id, 1)).unwrap();
        assert_eq!(import(&mut store, &line).unwrap().plans, 1);
    }
}

#[test]
fn an_imported_plan_holds_together() {
    type Change = fn(&mut PlanStarted);
    let cases: &[(Change, &str)] = &[
        (|it| it.plan.measure.rounds = 0, "the plan has 0 rounds, not 1 to 100000"),
        (|it| it.plan.measure.rounds = 100_001, "the plan has 100001 rounds, not 1 to 100000"),
        (|it| it.plan.measure.duration_ns = 0, "the plan's duration_ns is 0"),
        (|it| it.plan.measure.window_ns = 0, "the plan's window_ns is 0"),
        (|it| it.plan.works[0].duration_ns = Some(0), "the plan's duration_ns is 0"),
        (|it| it.plan.works[0].lab_duration_ns = Some(0), "the plan's lab_duration_ns is 0"),
        (|it| it.cells.truncate(2), "the plan has 2 cells for 3 works and 1 variants"),
        (|it| it.plan.works.clear(), "the plan has 3 cells for 0 works and 1 variants"),
        (
            |it| (it.cells, it.plan.variants) = (Vec::new(), Vec::new()),
            "the plan has 0 cells for 3 works and 0 variants",
        ),
        (|it| it.cells[1].index = 2, "cell 1 is not what the plan has in its place"),
        (|it| it.cells.swap(1, 2), "cell 1 is not what the plan has in its place"),
        (|it| it.cells[2].work.name.push('x'), "cell 2 is not what the plan has in its place"),
        (|it| it.cells[0].variant.name.push('x'), "cell 0 is not what the plan has in its place"),
        (
            |it| it.cells[0].placement.cpus = Some(CpuSet::from_iter([0])),
            "cell 0 is not what the plan has in its place",
        ),
    ];
    for (change, why) in cases {
        let mut started = sample::started("plan", 3);
        change(&mut started);
        assert_eq!(refusal(started), *why);
    }
}

#[test]
fn damage_is_reported_as_damage() {
    let cases = [
        "UPDATE histogram SET hdr = x'00'",
        "UPDATE metric_kind SET unit = 'furlong'",
        "UPDATE metric_kind SET statistic = 'guess'",
        "UPDATE histogram SET samples = samples + 1",
        "UPDATE environment SET json = '{'",
        "UPDATE worker SET worker_set = 9",
        "UPDATE worker SET unknown = NULL",
        "UPDATE histogram SET exact = '[[5,1]]'",
        "UPDATE environment SET ended = 'never'",
    ];
    for sql in cases {
        let (_folder, mut store) = begun(1);
        apply_all(&mut store, &sample::run(KEY, 1, 1));
        store.conn.execute_batch(sql).unwrap();
        // Either the plan or the run is gone.
        match store.record("plan") {
            Ok(record) => super::digests::assert_run_is_lost(&store, &record.runs[0]),
            Err(error) => {
                assert!(matches!(error, StoreError::Damaged { .. }), "{sql}: {error:?}");
            }
        }
        forget_digests(&store);
        let error = store.record("plan").unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{sql}: {error:?}");
    }
}

#[test]
fn an_unknown_plan_is_named() {
    let (_folder, store) = fresh();
    for error in [
        store.record("nope").unwrap_err(),
        store.finished_runs("nope").unwrap_err(),
        store.export(Some(&["nope".to_string()]), &mut Vec::new()).unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::UnknownPlan { id, .. } if id == "nope"), "{error:?}");
    }
}

/// A pipe that closes is the caller's to judge: it gets the system's error.
#[test]
fn a_closed_output_is_an_error_of_its_own() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (_folder, store) = begun(1);
    match store.export(None, &mut Closed).unwrap_err() {
        StoreError::Output(why) => assert_eq!(why.kind(), std::io::ErrorKind::BrokenPipe),
        other => panic!("{other:?}"),
    }
}
