//! Runs one worker set in threads of this process for a while, as a runner would.

use std::sync::Arc;
use std::time::Duration;

use schedlab::model::{Params, Raw, WorkerKind};
use schedlab::stats::{Histogram, Recorder};
use schedlab::sys::{clock, shared};
use schedlab::workload::{Control, Load, Pool, Request, Slot, Worker, find};

/// What a set did while it was measured.
pub struct Done {
    pub ops_per_s: f64,
    /// Merged over workers, in the workload's order.
    pub histograms: Vec<Histogram>,
}

const WARMUP: Duration = Duration::from_millis(30);

/// Measures one set of `workload` for `section`, each thread on CPU `cpu` if one is given.
/// Its threads end or sleep for ever afterwards.
pub fn run(
    workload: &str,
    given: &[(&str, Raw)],
    cpu: Option<usize>,
    section: Duration,
) -> Result<Done, String> {
    let workload = find(workload).ok_or("no such workload")?;
    let params = params(workload.spec().params, given)?;
    let kind = WorkerKind::Threads;
    let pool = Pool::new([0].into_iter().collect(), &[]);
    let request = Request { params: &params, count: 1, kind, pool: &pool, seed: 1 };
    let workers = workload.layout(&request)?.len();
    let load: Arc<dyn Load> = workload.prepare(&request)?.into();
    let memory = |error: std::io::Error| format!("no memory: {error}");
    let control: &'static Control = shared::leak().map_err(memory)?;
    let slots: &'static [Slot] = shared::leak_slice(workers).map_err(memory)?;
    let per_worker = workload.histograms(&params).len();
    let recorders: &'static [Recorder] =
        shared::leak_slice(workers * per_worker).map_err(memory)?;
    for (index, slot) in slots.iter().enumerate() {
        let (load, own) = (Arc::clone(&load), &recorders[index * per_worker..][..per_worker]);
        std::thread::spawn(move || {
            let worker = Worker::new(control, slot, own, index as u64);
            let done = cpu.map_or(Ok(()), pin).and_then(|()| load.work(index, &worker));
            done.unwrap_or_else(|why| slot.fail(&why));
        });
    }
    while (control.arrived() as usize) < workers {
        control.wait_for_arrival(control.arrived(), 10_000_000);
        failure(slots)?;
    }
    let now_ns = clock::monotonic_ns();
    control.open(now_ns, now_ns + WARMUP.as_nanos() as u64, u64::MAX);
    let ops = || slots.iter().map(Slot::ops).sum::<u64>();
    std::thread::sleep(WARMUP);
    let (from_ns, from_ops) = (clock::monotonic_ns(), ops());
    std::thread::sleep(section);
    let (until_ns, until_ops) = (clock::monotonic_ns(), ops());
    control.stop();
    failure(slots)?;
    let histograms = (0..per_worker)
        .map(|index| {
            let mut merged = Histogram::default();
            recorders.iter().skip(index).step_by(per_worker).for_each(|own| merged.merge(own));
            merged
        })
        .collect();
    let ops_per_s = (until_ops - from_ops) as f64 / (until_ns - from_ns) as f64 * 1e9;
    Ok(Done { ops_per_s, histograms })
}

fn params(fields: &[schedlab::model::Field], given: &[(&str, Raw)]) -> Result<Params, String> {
    let mut params = Params::new();
    for field in fields {
        let value = match given.iter().find(|(name, _)| *name == field.name) {
            Some((_, raw)) => Some(field.kind.parse(raw).map_err(|misfit| misfit.message)?),
            None => field.default_value(),
        };
        params.extend(value.map(|value| (field.name.to_string(), value)));
    }
    Ok(params)
}

fn failure(slots: &[Slot]) -> Result<(), String> {
    slots.iter().find_map(Slot::failure).map_or(Ok(()), Err)
}

/// Keeps the calling thread on one CPU.
pub fn pin(cpu: usize) -> Result<(), String> {
    // SAFETY: an all-zero set is an empty set; `cpu` is checked by the macro's bounds; the
    // call reads the set only.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) != 0
    };
    if failed {
        return Err(format!("cannot pin to CPU {cpu}: {}", std::io::Error::last_os_error()));
    }
    Ok(())
}
