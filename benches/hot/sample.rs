//! One latency sample: two clock reads and the record.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use schedlab::sys::{clock, shared};
use schedlab::workload::{Control, Opening, Recorders, Slot, Worker};

use super::{Reach, Row, median};

pub const TIME: Row = Row::once(
    "one latency sample: two clock reads and the record",
    "ns",
    Reach::Below(100.0),
    || measure().map(|(ns, _)| ns),
);

pub const ALLOCATIONS: Row =
    Row::once("allocations in a million latency samples", "", Reach::Below(1.0), || {
        measure().map(|(_, allocations)| allocations as f64)
    });

const BATCHES: usize = 1_000;
const BATCH: u32 = 1_000;

/// The median time of a sample over all batches, and the allocations of all.
fn measure() -> Result<(f64, u64), String> {
    let memory = |error: std::io::Error| format!("no memory: {error}");
    let control: &'static Control = shared::leak().map_err(memory)?;
    let slot: &'static Slot = shared::leak().map_err(memory)?;
    let recorders = Recorders::new(1).map_err(memory)?;
    let worker = Worker::new(control, slot, recorders, 1);
    control.open(&Opening::endless(0));
    let mut batches_ns = Vec::with_capacity(BATCHES);
    let allocated = ALLOCATED.load(Relaxed);
    for _ in 0..BATCHES {
        let begin_ns = clock::monotonic_ns();
        for _ in 0..BATCH {
            sample(black_box(&worker));
        }
        batches_ns.push((clock::monotonic_ns() - begin_ns) as f64 / f64::from(BATCH));
    }
    let allocations = ALLOCATED.load(Relaxed) - allocated;
    let counted = recorders.merged(0);
    if counted.total() != BATCHES as u64 * u64::from(BATCH) {
        return Err(format!("only {} samples were counted", counted.total()));
    }
    Ok((median(&batches_ns), allocations))
}

/// Takes a sample like a hot loop.
fn sample(worker: &Worker) {
    let begin_ns = clock::monotonic_ns();
    let end_ns = clock::monotonic_ns();
    worker.record(0, end_ns, end_ns - begin_ns);
}

/// The system's allocator, with a count of all requests.
struct Counting;

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(1, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(start, layout) }
    }
}
