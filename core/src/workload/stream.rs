//! `stream`: memory bandwidth, by the four kernels of STREAM.
//!
//! One operation is one pass of Copy (`c = a`), Scale (`b = s c`), Add (`c = a + b`) and Triad
//! (`a = b + s c`) over arrays of 64-bit floating-point numbers, which each worker has to itself and
//! has touched first. Bytes are counted as STREAM does (J. McCalpin, "Memory Bandwidth and Machine
//! Balance in Current High Performance Computers", IEEE TCCA Newsletter, December 1995): what a kernel
//! names is read or written once, and what the processor reads in order to write does not count.
//!
//! STREAM's factor makes numbers grow with each pass up to infinity; a run here has as many passes as
//! fit, so the factor is the one with which they stay. Copy is the C library's memcpy, as compilers
//! make of the original's loop, too.

use std::f64::consts::SQRT_2;
use std::io;

use crate::model::{
    Direction, Field, Importance, Kind, Metric, MetricSpec, Reading, Statistic, Unit, Value,
    show_bytes,
};
use crate::sys::environment::memory_bytes;
use crate::sys::topology::llc_bytes;
use crate::sys::{Host, clock, private};

use super::{Load, Measured, Request, Role, Spec, Worker, WorkerCounts, Workload, WorkloadError};

pub struct Stream;

/// Counters, in the order of their kernels: the time of passes.
const COUNTERS: [&str; KERNELS] = ["copy_ns", "scale_ns", "add_ns", "triad_ns"];
const KERNELS: usize = 4;
/// The arrays that each kernel reads or writes.
const ARRAYS_OF_KERNEL: [u64; KERNELS] = [2, 2, 3, 3];
const ARRAYS: u64 = 3;
/// With this factor `a` has the same values after each pass: 2 s + s^2 = 1.
const FACTOR: f64 = SQRT_2 - 1.0;

/// The benchmark's rule: each array at least so many times the last-level cache.
const CACHES_OF_ARRAY: u64 = 4;
/// Assumed size where the kernel names no cache.
const ASSUMED_LLC_BYTES: u64 = 32 << 20;
/// All arrays together take one part in so many of the memory, if the plan does not say more.
const MEMORY_PARTS: u64 = 8;
const MIN_BYTES: u64 = 4 << 10;
const MAX_BYTES: u64 = 1 << 40;

const SPEC: Spec = Spec {
    name: "stream",
    about: "memory bandwidth: STREAM's kernels copy, scale, add and triad over arrays of each \
            worker's own",
    params: &[Field::new("array", Kind::Size { min_bytes: MIN_BYTES, max_bytes: MAX_BYTES })
        .about(
            "size of each of a worker's three arrays; unset: 4 x the last-level cache (32 \
             MiB where that is not known), or less so that all arrays of the set together \
             take at most an eighth of the memory",
        )],
    roles: &[Role { name: "stream", counts: true }],
    ops: "passes",
    throughput: Importance::Explaining,
    counters: &COUNTERS,
    metrics: &METRICS,
    ..Spec::PLAIN
};

const METRICS: [MetricSpec; KERNELS + 1] = [
    bandwidth("copy", "c = a, 2 arrays: sum over workers of their bytes over their time in it"),
    bandwidth("scale", "b = s c, 2 arrays, likewise"),
    bandwidth("add", "c = a + b, 3 arrays, likewise"),
    bandwidth("triad", "a = b + s c, 3 arrays, likewise"),
    MetricSpec::new("array", Unit::Count, Direction::Neutral, Statistic::Count)
        .about("bytes of each array"),
];

const fn bandwidth(name: &'static str, about: &'static str) -> MetricSpec {
    MetricSpec::new(name, Unit::BytesPerS, Direction::HigherIsBetter, Statistic::Rate)
        .about(about)
        .headline()
}

impl Workload for Stream {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let host = Host::default();
        let memory_bytes = memory_bytes(&host).known();
        let workers = u64::from(request.count);
        let given = request.params.get("array").and_then(Value::as_bytes);
        let bytes = match given {
            Some(bytes) => fitting(bytes, memory_bytes, workers)?,
            None => default_bytes(llc_bytes(&host, &request.pool.cpus), memory_bytes, workers),
        };
        Ok(Box::new(Set { words: bytes as usize / size_of::<f64>() }))
    }
}

/// The share of memory is rounded down to a power of two: kernels differ a little in how much they use themselves,
/// and their arrays should not.
fn default_bytes(llc_bytes: Option<u64>, memory_bytes: Option<u64>, workers: u64) -> u64 {
    let wanted = CACHES_OF_ARRAY * llc_bytes.unwrap_or(ASSUMED_LLC_BYTES);
    let all = memory_bytes.map_or(MAX_BYTES, |bytes| bytes / MEMORY_PARTS);
    let share = (all / ARRAYS / workers).max(MIN_BYTES);
    wanted.max(MIN_BYTES).min(1 << share.ilog2())
}

/// Returns `bytes` if all arrays fit into memory.
fn fitting(bytes: u64, memory_bytes: Option<u64>, workers: u64) -> Result<u64, WorkloadError> {
    let arrays = ARRAYS * workers;
    match memory_bytes.filter(|&all| bytes.saturating_mul(arrays) > all) {
        None => Ok(bytes),
        Some(all) => Err(WorkloadError::conflict(
            format!("{arrays} arrays of {} do not fit into memory", show_bytes(bytes)),
            format!("array = \"{}B\" or less, or leave it out", all / MEMORY_PARTS / arrays),
        )
        .at("array")),
    }
}

struct Arrays {
    a: &'static mut [f64],
    b: &'static mut [f64],
    c: &'static mut [f64],
}

impl Arrays {
    /// Touched, and filled as STREAM does it.
    fn new(words: usize) -> io::Result<Arrays> {
        let filled = |value| {
            let array = private::leak_slice_mut::<f64>(words)?;
            array.fill(value);
            io::Result::Ok(array)
        };
        Ok(Arrays { a: filled(1.0)?, b: filled(2.0)?, c: filled(0.0)? })
    }

    /// The kernel of this counter.
    #[inline(never)]
    fn run(&mut self, kernel: usize) {
        let Arrays { a, b, c } = self;
        match kernel {
            0 => c.copy_from_slice(a),
            1 => b.iter_mut().zip(&**c).for_each(|(b, c)| *b = FACTOR * c),
            2 => c.iter_mut().zip(&**a).zip(&**b).for_each(|((c, a), b)| *c = a + b),
            _ => a.iter_mut().zip(&**b).zip(&**c).for_each(|((a, b), c)| *a = b + FACTOR * c),
        }
    }
}

struct Set {
    /// Words of each array.
    words: usize,
}

impl Load for Set {
    fn work(&self, _index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let mut arrays = Arrays::new(self.words)
            .map_err(|source| WorkloadError::system("allocate a worker's arrays", source))?;
        worker.start();
        while worker.running() {
            let mut taken_ns = [0; KERNELS];
            let mut began_ns = clock::monotonic_ns();
            for (kernel, taken_ns) in taken_ns.iter_mut().enumerate() {
                arrays.run(kernel);
                let ended_ns = clock::monotonic_ns();
                *taken_ns = ended_ns - std::mem::replace(&mut began_ns, ended_ns);
            }
            // Together, so that at any moment times and passes are of the same ones.
            (0..KERNELS).for_each(|kernel| worker.count(kernel, taken_ns[kernel]));
            worker.add_ops(1);
        }
        Ok(())
    }

    fn metrics(&self, measured: &Measured) -> Vec<Metric> {
        let bytes = (self.words * size_of::<f64>()) as u64;
        let rates = ARRAYS_OF_KERNEL.iter().enumerate();
        let rates = rates.map(|(kernel, arrays)| rate(&measured.workers, kernel, arrays * bytes));
        let values = rates.chain([Reading::Known(bytes as f64)]);
        METRICS.iter().zip(values).map(|(spec, value)| spec.reading(value)).collect()
    }
}

/// Bytes a second of a kernel that moves so many in each pass: of each worker over its passes, so
/// their harmonic mean; the sum over workers.
fn rate(workers: &[WorkerCounts], kernel: usize, bytes: u64) -> Reading<f64> {
    let rate = |worker: &WorkerCounts| match (worker.ops, worker.counters[kernel]) {
        (0, _) | (_, 0) => None,
        (passes, ns) => Some(passes as f64 * bytes as f64 * 1e9 / ns as f64),
    };
    let sum = workers.iter().map(rate).sum::<Option<f64>>();
    Reading::from_option(sum, "a worker ended no pass: measure for longer, or smaller arrays")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Advice;
    use crate::model::Raw;
    use crate::workload::MAX_COUNTERS;
    use crate::workload::testing::{WorkerGroup, params, request};

    #[test]
    fn passes_do_all_four_kernels_on_every_number_and_stay_finite() {
        let mut arrays = Arrays::new(1_001).unwrap();
        let (mut a, mut b, mut c) = (1.0, 2.0, 0.0);
        for _ in 0..1_000 {
            (0..KERNELS).for_each(|kernel| arrays.run(kernel));
            c = a;
            b = FACTOR * c;
            c = a + b;
            a = b + FACTOR * c;
        }
        assert!(arrays.a.iter().all(|&got| got == a));
        assert!(arrays.b.iter().all(|&got| got == b));
        assert!(arrays.c.iter().all(|&got| got == c));
        assert!((a - 1.0).abs() < 1e-9, "{a}");
    }

    #[test]
    fn the_default_is_four_caches_and_leaves_most_of_the_memory() {
        const MIB: u64 = 1 << 20;
        let cases = [
            // Last-level cache and memory in MiB, workers, and each array's MiB.
            (Some(32), Some(24 << 10), 1, 128),
            (Some(36), Some(64 << 10), 8, 144),
            (None, None, 64, 128),
            (None, Some(1 << 20), 1, 128),
            (Some(32), Some(24 << 10), 64, 16),
            (Some(16), Some(512), 1, 16),
            (Some(16), Some(480), 4, 4),
        ];
        for (llc, memory, workers, expected) in cases {
            let got = default_bytes(llc.map(|m| m * MIB), memory.map(|m| m * MIB), workers);
            assert_eq!(got, expected * MIB, "{llc:?} {memory:?} {workers}");
        }
        assert_eq!(default_bytes(None, Some(1), u64::from(u32::MAX)), MIN_BYTES);
    }

    #[test]
    fn arrays_that_do_not_fit_into_memory_are_refused() {
        assert_eq!(fitting(100, Some(600), 2).unwrap(), 100);
        assert_eq!(fitting(MAX_BYTES, None, 2).unwrap(), MAX_BYTES);
        let why = fitting(101 << 20, Some(600 << 20), 2).unwrap_err();
        assert_eq!(why.to_string(), "6 arrays of 101MiB do not fit into memory");
        assert!(why.hint().is_some_and(|hint| hint.contains("array = ")), "{why}");
        let params = params(&Stream, &[("array", Raw::Text("1024GiB".into()))]);
        assert!(Stream.prepare(&request(&params, 1_000)).is_err());
    }

    #[test]
    fn bandwidth_is_bytes_over_time_of_each_worker_and_their_sum() {
        let worker = |ops, counters: [u64; MAX_COUNTERS]| WorkerCounts {
            wall_ns: 1_000_000_000,
            ops,
            counters,
        };
        let workers = |list: &[WorkerCounts]| Measured {
            measured_ns: 1_000_000_000,
            workers: list.to_vec(),
            ..Measured::default()
        };
        let of = |list: &[WorkerCounts]| -> Vec<Reading<f64>> {
            let metrics = Set { words: 125 }.metrics(&workers(list));
            metrics.into_iter().map(|metric| metric.value).collect()
        };
        let (one, two) = (worker(4, [8_000, 4_000, 12_000, 6_000, 0]), worker(1, [500; 5]));
        let gb_per_s = [1.0 + 4.0, 2.0 + 4.0, 1.0 + 6.0, 2.0 + 6.0].map(|gb| gb * 1e9);
        let expected = gb_per_s.into_iter().chain([1_000.0]).map(Reading::Known);
        assert_eq!(of(&[one, two]), expected.collect::<Vec<_>>());
        let silent = of(&[one, worker(0, [0; 5])]);
        assert!(silent[..KERNELS].iter().all(|value| matches!(value, Reading::Unknown(_))));
    }

    #[test]
    fn every_worker_makes_passes_whose_time_is_counted_kernel_by_kernel() {
        let params = params(&Stream, &[("array", Raw::Text("64KiB".into()))]);
        let group = WorkerGroup::start(&Stream, &params, 2);
        group.wait_until("passes", |group| group.slots().iter().all(|slot| slot.ops() >= 3));
        group.stop();
        let metrics = group.load().metrics(&group.measured());
        assert!(metrics.iter().all(|metric| metric.value.clone().known() > Some(0.0)));
    }
}
