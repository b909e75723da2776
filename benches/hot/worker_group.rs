//! Runs one worker set in threads of this process for a while.

use std::time::Duration;

use schedlab::exec::Live;
use schedlab::model::Advice;
use schedlab::model::{Params, Placement, Raw, WorkerSet};
use schedlab::stats::Histogram;
use schedlab::workload::find;

/// The figures of a set for its measured section.
pub struct Done {
    pub ops_per_s: f64,
    /// Merged over workers, in the workload's order.
    pub histograms: Vec<Histogram>,
}

const WARMUP: Duration = Duration::from_millis(30);

/// Measures one set of `workload` for `section`, on CPU `cpu` if one is given. Its threads
/// end or sleep without end afterwards.
pub fn run(
    workload: &str,
    given: &[(&str, Raw)],
    cpu: Option<u32>,
    section: Duration,
) -> Result<Done, String> {
    let set = WorkerSet {
        name: workload.to_string(),
        workload: workload.to_string(),
        params: params(find(workload).ok_or("no such workload")?.spec().params, given)?,
        count: 1,
        ..Default::default()
    };
    let placement =
        Placement { cpus: cpu.map(|cpu| [cpu].into_iter().collect()), ..Placement::default() };
    // Measure in a separate thread, because it is moved out of the workers' way and served first.
    let measure = move || {
        let mut live = Live::start(set, placement, 1).map_err(|error| error.reason())?;
        std::thread::sleep(WARMUP);
        live.zero();
        let first = live.poll().map_err(|error| error.reason())?;
        std::thread::sleep(section);
        let last = live.poll().map_err(|error| error.reason())?;
        live.finish(|| true);
        let (ops, ns) = (last.ops - first.ops, last.at_ns - first.at_ns);
        let histograms = live.histograms().into_iter().map(|(_, histogram)| histogram).collect();
        Ok(Done { ops_per_s: ops as f64 / ns as f64 * 1e9, histograms })
    };
    std::thread::spawn(measure).join().map_err(|_| "the measuring thread panicked".to_string())?
}

fn params(fields: &[schedlab::model::Field], given: &[(&str, Raw)]) -> Result<Params, String> {
    let mut params = Params::new();
    for field in fields {
        let value = match given.iter().find(|(name, _)| *name == field.name) {
            Some((_, raw)) => Some(field.kind.parse(raw).map_err(|error| error.message)?),
            None => field.default_value(),
        };
        params.extend(value.map(|value| (field.name.to_string(), value)));
    }
    Ok(params)
}
