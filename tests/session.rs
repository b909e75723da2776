//! A plan is measured through the library, without the command line.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use schedlab::analysis::Analysis;
use schedlab::model::{Event, PlanEnd};
use schedlab::session::{self, Database, Listener, PlanSource, Preparation, Request, SessionError};
use schedlab::store::Store;

/// Set where the test runs in a home of its own.
const HOME_OF_TEST: &str = "SCHEDLAB_TEST_SESSION";

// docs/design/structure.md shows this function.
fn measure(results: &Path) -> Result<Vec<Analysis>, SessionError> {
    let request = Request {
        plan: PlanSource::Named("smoke".to_string()),
        backend: Some("null".to_string()),
        aa: true,
        db: Database::new(Some(results.to_path_buf()), |_notice| ()),
        ..Request::default()
    };
    let Preparation::Ready(prepared) = session::prepare(request)? else { return Ok(Vec::new()) };
    let cancel = AtomicBool::new(false);
    let mut finished = session::execute(*prepared, &cancel, &mut ())?;
    finished.check()?;
    finished.analyses(false)
}

/// Cancels the plan at the third run.
struct Canceller<'a> {
    cancel: &'a AtomicBool,
    runs: usize,
}

impl Listener for Canceller<'_> {
    fn event(&mut self, event: &Event) -> Result<(), SessionError> {
        self.runs += usize::from(matches!(event, Event::RunEnded { .. }));
        self.cancel.store(self.runs == 3, Relaxed);
        Ok(())
    }
}

/// Measures a plan in two sessions; returns its id.
fn interrupt_and_resume(results: &Path) -> String {
    let request = |plan| Request {
        plan,
        backend: Some("null".to_string()),
        db: Database::new(Some(results.to_path_buf()), |_| ()),
        ..Request::default()
    };
    let prepare = |plan| match session::prepare(request(plan)).expect("the plan is right") {
        Preparation::Ready(prepared) => *prepared,
        Preparation::Done(why) => panic!("{why}"),
    };
    let cancel = AtomicBool::new(false);
    let mut canceller = Canceller { cancel: &cancel, runs: 0 };
    let prepared = prepare(PlanSource::Named("smoke".to_string()));
    let mut finished = session::execute(prepared, &cancel, &mut canceller).unwrap();
    assert_eq!((finished.end.end, finished.measured), (PlanEnd::Interrupted, 3));
    let error = finished.check().expect_err("it was cancelled");
    let id = finished.started.id.clone();
    assert!(matches!(error, SessionError::Interrupted(_)), "{error}");
    assert!(error.to_string().contains(&format!("schedlab run --resume {id} --db ")), "{error}");
    drop(finished);
    cancel.store(false, Relaxed);
    let prepared = prepare(PlanSource::Stored(None));
    assert_eq!(prepared.job.runs_done(), 3);
    let mut finished = session::execute(prepared, &cancel, &mut ()).unwrap();
    finished.check().expect("all was measured");
    assert_eq!(finished.started.id, id);
    assert_eq!(finished.plan.runs.len() as u64, finished.started.planned_runs());
    id
}

/// In a process of its own: a session locks its plan in the state folder of the home.
#[test]
fn a_plan_is_measured_without_the_command_line() {
    if std::env::var_os(HOME_OF_TEST).is_none() {
        let home = tempfile::tempdir().unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "session::a_plan_is_measured_without_the_command_line"])
            .args(["--nocapture", "--test-threads=1"])
            .env_clear()
            .env("HOME", home.path())
            .env(HOME_OF_TEST, home.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        // A session prints nothing.
        assert!(output.stderr.is_empty(), "{output:?}");
        return;
    }
    let home = std::env::var_os(HOME_OF_TEST).unwrap();
    let results = Path::new(&home).join("results.db");
    let analyses = measure(&results).expect("it is measured");
    assert!(analyses.len() == 1 && analyses[0].method.headline_verdicts > 0);
    let second = interrupt_and_resume(&results);
    let heads = Store::open_read_only(&results).unwrap().plan_heads().unwrap();
    assert_eq!((heads.len(), &heads[0].id), (2, &second));
}

#[test]
fn the_function_in_the_documents_is_the_one_that_is_tested() {
    let own = include_str!("session.rs");
    let begin = own.find("fn measure(").unwrap();
    let end = begin + own[begin..].find("\n}\n").unwrap();
    assert!(include_str!("../docs/design/structure.md").contains(&own[begin..end]));
}
