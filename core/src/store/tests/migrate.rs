//! Stores and exports of older formats are read as if they had been written today.

use rusqlite::Connection;

use super::sample;
use super::*;
use crate::model::{
    CpuSet, Direction, Disturbance, DisturbanceFact, DisturbanceKind, Guest, GuestKernel,
    GuestTime, Importance, KnobReading, Metric, MetricKind, Outcome, Reading, RunKey, RunResult,
    Statistic, Unit, Value,
};

const KEY: RunKey = RunKey { round: 0, cell: 0 };

/// A store of format 1 with two done runs, as schedlab wrote it then.
pub(super) fn of_format_1(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("old.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(MIGRATIONS[0].sql).unwrap();
    conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
    let started = sample::started("old", 1);
    conn.execute(
        "INSERT INTO plan VALUES (1, 'old', 1, 'A plan', 'lab', 7, 10, 'schema = 1', ?1)",
        [json(&started.plan)],
    )
    .unwrap();
    conn.execute(
        "INSERT INTO environment VALUES
         (1, 0, 7, 'complete', 'first', NULL, '6.18.1', '#1', 'b0', NULL, ?1)",
        [json(&started.environment)],
    )
    .unwrap();
    conn.execute("INSERT INTO cell VALUES (1, 0, 'default', 'web', ?1)", [json(&started.cells[0])])
        .unwrap();
    conn.execute_batch(
        "INSERT INTO run VALUES (1, 1, 0, 0, 0, 'done', NULL, 5, 6, 1, NULL);
         INSERT INTO run VALUES (2, 1, 0, 1, 0, 'done', NULL, 8, 9, 1, NULL);
         INSERT INTO worker_set VALUES (1, 0, 'web', 'schbench', 'requests', 0);
         INSERT INTO worker_set VALUES (2, 0, 'web', 'deadline', 'jobs', 0);
         INSERT INTO metric VALUES
             (1, 0, 0, 'throughput', 'ops_per_s', 'higher_is_better', 3.5, NULL),
             (1, 0, 1, 'wakeup_p99.9', 'ns', 'lower_is_better', NULL, 'no samples'),
             (1, 0, 2, 'worker_preempted_by_others', 'per_s', 'neutral', 2.0, NULL),
             (2, 0, 0, 'throughput', 'ops_per_s', 'higher_is_better', 4.5, NULL);
         INSERT INTO disturbance VALUES (1, 0, 'steal', 0.25, 'the \"hypervisor\" took it');
         INSERT INTO knob_reading VALUES
             (1, 0, 'nice', '5', '5', NULL),
             (1, 1, 'slice', '1ms', NULL, 'ENOSYS'),
             (1, 2, 'pool', 'bench', 'cpuset v1, CPUs 0-1', NULL),
             (1, 3, 'kernel', '6.12', '6.12', NULL),
             (1, 4, 'kernel-digest', 'ab', 'ab', NULL),
             (1, 5, 'time', 'exact', NULL, 'out of step'),
             (1, 6, 'capacity', '99.9%', '99.9%', NULL),
             (2, 0, 'policy', 'batch', 'other', NULL);",
    )
    .unwrap();
    path
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap()
}

fn knob(knob: &str, asked: &str, got: Result<&str, &str>) -> KnobReading {
    let text = |text: &str| Value::Text(text.to_string());
    let got = match got {
        Ok(got) => Reading::Known(text(got)),
        Err(why) => Reading::Unknown(why.to_string()),
    };
    KnobReading { knob: knob.to_string(), asked: text(asked), got }
}

fn results(record: &Record) -> Vec<&RunResult> {
    let results = record.runs.iter().map(|run| match &run.outcome {
        Outcome::Done { result } => &**result,
        other => panic!("{other:?}"),
    });
    results.collect()
}

/// Checks the content of the store of format 1, in today's types.
fn check(record: &Record) {
    let [first, second] = results(record)[..] else { panic!("{record:?}") };
    let kind = |name: &str, unit, direction, of: Option<&str>, statistic, importance| MetricKind {
        name: name.to_string(),
        unit,
        direction,
        subject: of.map(str::to_string),
        statistic,
        importance,
    };
    let (ops, up) = (Unit::OpsPerS, Direction::HigherIsBetter);
    let explaining = Importance::Explaining;
    let p999 = Statistic::Quantile(999_000);
    let expected: [Metric; 3] = [
        kind("throughput", ops, up, None, Statistic::Rate, Importance::Headline)
            .reading(Reading::Known(3.5)),
        kind("wakeup_p99.9", Unit::Ns, Direction::LowerIsBetter, Some("wakeup"), p999, explaining)
            .reading(Reading::Unknown("no samples".to_string())),
        kind(
            "worker_preempted_by_others",
            Unit::PerS,
            Direction::Neutral,
            Some("worker"),
            Statistic::Count,
            explaining,
        )
        .reading(Reading::Known(2.0)),
    ];
    assert_eq!(first.sets[0].metrics, expected);
    let of_deadline = kind("throughput", ops, up, None, Statistic::Rate, explaining);
    assert_eq!(second.sets[0].metrics, [of_deadline.reading(Reading::Known(4.5))]);

    let detail = "the \"hypervisor\" took it".to_string();
    let fact = DisturbanceFact::Text { kind: DisturbanceKind::Steal, detail };
    assert_eq!(first.disturbances, [Disturbance { share: Some(0.25), fact }]);
    let readings = [
        knob("nice", "5", Ok("5")),
        knob("slice", "1ms", Err("ENOSYS")),
        knob("pool", "bench", Ok("cpuset v1, CPUs 0-1")),
    ];
    assert_eq!(first.knobs, readings);
    assert_eq!(first.pool_cpus, Some("0-1".parse::<CpuSet>().unwrap()));
    let known = |text: &str| Some(text.to_string());
    let guest = Guest {
        kernel: GuestKernel {
            release: known("6.12"),
            version: None,
            digest: known("ab"),
            scheduler: None,
        },
        time: GuestTime::NotExact("out of step".to_string()),
        capacity: Reading::Known(0.999),
        coarse_timers_ns: None,
    };
    assert_eq!(first.guest, Some(guest));
    assert_eq!((&second.guest, &second.pool_cpus), (&None, &None));
    assert_eq!(second.knobs, [knob("policy", "batch", Ok("other"))]);
}

#[test]
fn a_store_of_format_1_is_read_and_measured_into() {
    let folder = tempfile::tempdir().unwrap();
    let path = of_format_1(folder.path());
    let mut store = Store::open(&path).unwrap();
    check(&store.record("old").unwrap());
    assert_eq!(store.sampled("old").unwrap(), record::sampled(&store.record("old").unwrap()));
    assert_sound(&store);
    let kinds: i64 =
        store.conn.query_row("SELECT count(*) FROM metric_kind", [], |row| row.get(0)).unwrap();
    assert_eq!(kinds, 4, "each once");

    apply_all(&mut store, &[sample::start("new", 1)]);
    apply_all(&mut store, &sample::run(KEY, 1, 1));
    let throughput = &store.sampled("new").unwrap().metrics[0];
    assert_eq!(*throughput, store.sampled("old").unwrap().metrics[0], "old and new compare");
}

#[test]
fn a_reader_brings_a_store_of_format_1_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = of_format_1(folder.path());
    check(&Store::open_read_only(&path).unwrap().record("old").unwrap());
}

/// As in a kill between two migrations: all of it, or nothing.
#[test]
fn a_migration_that_fails_leaves_the_store_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = of_format_1(folder.path());
    let conn = Connection::open(&path).unwrap();
    conn.execute("UPDATE metric SET unit = 'miles' WHERE metric = 2", []).unwrap();
    drop(conn);
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    let conn = Connection::open(&path).unwrap();
    assert_eq!(pragma(&conn, "user_version").unwrap(), 1);
    conn.execute("UPDATE metric SET unit = 'per_s' WHERE metric = 2", []).unwrap();
    drop(conn);
    check(&Store::open(&path).unwrap().record("old").unwrap());
}

/// Lines as schedlab exported them with version 1 of the stream.
#[test]
fn an_export_of_version_1_is_imported() {
    let mut started = sample::started("old", 1);
    (started.schema, started.backend) = (1, "lab".to_string());
    let start = serde_json::to_string(&Event::PlanStarted(Box::new(started))).unwrap();
    let run = |round: u32, set: &str, knobs: &str, disturbances: &str| {
        format!(
            r#"{{"event":"run_ended","key":{{"round":{round},"cell":0}},"outcome":{{"status":"done","result":{{"started_unix_ns":5,"measured_ns":6,"sets":[{set}],"knobs":[{knobs}],"disturbances":[{disturbances}],"overhead_cpu_ns":{{"known":1}}}}}}}}"#
        )
    };
    let set = |workload: &str, metrics: &str| {
        format!(
            r#"{{"name":"web","workload":"{workload}","ops":"requests","background":false,"metrics":[{metrics}],"histograms":[],"workers":[]}}"#
        )
    };
    let metrics = r#"{"name":"throughput","unit":"ops_per_s","direction":"higher_is_better","value":{"known":3.5}},{"name":"wakeup_p99.9","unit":"ns","direction":"lower_is_better","value":{"unknown":"no samples"}},{"name":"worker_preempted_by_others","unit":"per_s","direction":"neutral","value":{"known":2.0}}"#;
    let of_deadline = r#"{"name":"throughput","unit":"ops_per_s","direction":"higher_is_better","value":{"known":4.5}}"#;
    let knobs = r#"{"knob":"nice","asked":"5","got":{"known":"5"}},{"knob":"slice","asked":"1ms","got":{"unknown":"ENOSYS"}},{"knob":"pool","asked":"bench","got":{"known":"cpuset v1, CPUs 0-1"}},{"knob":"kernel","asked":"6.12","got":{"known":"6.12"}},{"knob":"kernel-digest","asked":"ab","got":{"known":"ab"}},{"knob":"time","asked":"exact","got":{"unknown":"out of step"}},{"knob":"capacity","asked":"99.9%","got":{"known":"99.9%"}}"#;
    let policy = r#"{"knob":"policy","asked":"batch","got":{"known":"other"}}"#;
    let steal = r#"{"kind":"steal","share":0.25,"detail":"the \"hypervisor\" took it"}"#;
    let lines = [
        start,
        run(0, &set("schbench", metrics), knobs, steal),
        run(1, &set("deadline", of_deadline), policy, ""),
    ];
    let (_folder, mut store) = fresh();
    import(&mut store, &lines.map(|line| line + "\n").concat()).unwrap();
    check(&store.record("old").unwrap());
    let again = export(&store);
    assert!(again.starts_with(r#"{"event":"plan_started","schema":2,"#), "{again}");
}
