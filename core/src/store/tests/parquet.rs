//! Tables for other programs: how many there are, and what they say of a run that is damaged.

use std::fs::File;

use ::parquet::file::reader::{FileReader, SerializedFileReader};

use super::*;
use crate::model::{Disturbance, DisturbanceFact, DisturbanceKind, Outcome};

fn target(folder: &Path) -> ParquetTarget {
    ParquetTarget { folder: folder.to_path_buf(), overwrite: false, with: Vec::new() }
}

/// A column of the table of runs.
fn of_runs(folder: &Path, column: &str) -> Vec<String> {
    let file = File::open(folder.join("plan=plan/runs.parquet")).unwrap();
    let rows = SerializedFileReader::new(file).unwrap();
    let value = |row: ::parquet::record::Row| {
        let mut columns = row.get_column_iter();
        columns.find(|(name, _)| *name == column).expect("a column").1.to_string()
    };
    rows.get_row_iter(None).unwrap().map(|row| value(row.unwrap())).collect()
}

#[test]
fn plans_and_rows_are_counted_and_a_run_has_its_disturbances_unless_it_is_damaged() {
    let (folder, mut store) = begun(1);
    for round in 0..2 {
        let mut events = sample::run(RunKey { round, cell: 0 }, 1, 1);
        let kinds = [DisturbanceKind::Steal, DisturbanceKind::OutsideLoad];
        let fact = |kind| DisturbanceFact::Text { kind, detail: String::new() };
        let disturbances = kinds.map(|kind| Disturbance { share: None, fact: fact(kind) });
        if let Some(Event::RunEnded { outcome: Outcome::Done { result }, .. }) = events.last_mut() {
            result.disturbances = disturbances.to_vec();
        }
        apply_all(&mut store, &events);
    }
    apply_all(&mut store, &[sample::start("other", 1)]);
    let whole = folder.path().join("whole");
    let written = store.export_parquet(None, &target(&whole)).unwrap();
    assert_eq!(written.plans, 2);
    assert!(written.rows > 2, "{written:?}");
    assert_eq!(of_runs(&whole, "disturbances"), ["2", "2"]);
    let left = std::fs::read_dir(&whole).unwrap().count();
    assert_eq!(left, 2, "nothing but the plans");
    // The first run has no time, as if it was invented.
    assert_eq!(of_runs(&whole, "started_at")[0], "null");
    assert_ne!(of_runs(&whole, "started_at")[1], "null");
    assert!(store.export_parquet(None, &target(&whole)).is_err(), "it is there");
    store.export_parquet(None, &ParquetTarget { overwrite: true, ..target(&whole) }).unwrap();
    assert_eq!(std::fs::read_dir(&whole).unwrap().count(), 2, "nothing of what was replaced");
    let changed = "UPDATE run SET measured_ns = measured_ns + 1 WHERE round = 1";
    store.conn.execute_batch(changed).unwrap();
    let damaged = folder.path().join("damaged");
    store.export_parquet(None, &target(&damaged)).unwrap();
    assert_eq!(of_runs(&damaged, "disturbances"), ["2", "0"]);
    // An id becomes the name of a folder.
    forget_digests(&store);
    store.conn.execute_batch("UPDATE plan SET id = 'x/../../out' WHERE id = 'other'").unwrap();
    let refused = folder.path().join("refused");
    assert!(store.export_parquet(None, &target(&refused)).is_err() && !refused.exists());
}
