//! A state, tasks and keys for tests of the view.

use crate::cli::keys::Press;

use crate::model::{Bucket, TaskScore, Times};

use super::state::{About, State};

pub fn state() -> State {
    let about = About {
        what: "the whole machine".to_string(),
        llcs: vec!["0-1".parse().expect("a list")],
        interval_ns: 1_000_000_000,
        trace_ns: 5_000_000_000,
        ..About::default()
    };
    let mut state = State::new(about);
    state.begin("bpf", &Vec::new());
    state
}

/// One that waited once.
pub fn task(name: &str, tid: i32, wait_ns: u64) -> TaskScore {
    let low_ns = if wait_ns == 0 { 0 } else { 1 << wait_ns.ilog2() };
    let bucket = Bucket { low_ns, high_ns: (2 * low_ns).max(1), count: 1 };
    let wait = Times { count: 1, total_ns: wait_ns, max_ns: Some(wait_ns), buckets: vec![bucket] };
    TaskScore {
        tid,
        pid: tid,
        name: name.to_string(),
        process: name.to_string(),
        wait: Some(wait),
        ..TaskScore::default()
    }
}

pub fn key(c: char) -> Press {
    Press::Char(c)
}
