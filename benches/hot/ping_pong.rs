//! Futex ping-pong of two threads on one CPU: through the `pipe` workload, against a bare loop of the same
//! two futex calls. Slices of both alternate, so that drift cancels.

use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

use schedlab::model::Raw;
use schedlab::sys::futex::{self, Scope};
use schedlab::sys::sched;

use super::{Figure, Figures, Reach, Row, alternating, median, worker_group};

pub const BARE_LATENCY: Row =
    Row::once("futex ping-pong, bare loop: one round trip on one CPU", "ns", Reach::None, || {
        let rates: Vec<f64> = (0..5).map(|_| bare()).collect::<Result<_, _>>()?;
        Ok(1e9 / median(&rates))
    });

pub const RATIO: Row =
    Row::pairs("futex ping-pong: workload `pipe` / bare loop", "", Reach::AtLeast(0.97), || {
        ratio(false)
    });

pub const RATIO_TIMED: Row =
    Row::pairs("futex ping-pong: the same, timing each wake-up", "", Reach::None, || ratio(true));

const CPU: u32 = 0;
const SLICE: Duration = Duration::from_millis(150);
const PAIRS: usize = 15;

/// The ratio of the workload's rate to the bare loop's, for each pair of slices.
fn ratio(latency: bool) -> Figures {
    let given = [
        ("over", Raw::Text("futex".to_string())),
        ("size", Raw::Text("1B".to_string())),
        ("latency", Raw::Bool(latency)),
    ];
    let workload =
        || worker_group::run("pipe", &given, Some(CPU), SLICE).map(|done| done.ops_per_s);
    alternating(PAIRS, workload, bare)
}

/// A word on separate cache lines.
#[repr(align(128))]
struct Word(AtomicU32);

/// Round trips per second of two threads that only wake and wait.
pub fn bare() -> Figure {
    let words = [Word(AtomicU32::new(0)), Word(AtomicU32::new(0))];
    let rounds = AtomicU64::new(0);
    let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let post = |other: usize| {
        words[other].0.store(1, Release);
        futex::wake(&words[other].0, 1, Scope::Private);
    };
    let wait = |own: usize| {
        while words[own].0.load(Acquire) == 0 {
            futex::wait(&words[own].0, 0, None, Scope::Private);
        }
        words[own].0.store(0, Relaxed);
    };
    std::thread::scope(|threads| {
        let pong = threads.spawn(|| {
            pin()?;
            loop {
                wait(1);
                if ended.load(Relaxed) {
                    return Ok(());
                }
                post(0);
            }
        });
        let ping = threads.spawn(|| {
            pin()?;
            while !stop.load(Relaxed) {
                post(1);
                wait(0);
                rounds.store(rounds.load(Relaxed) + 1, Relaxed);
            }
            ended.store(true, Relaxed);
            post(1);
            Ok(())
        });
        std::thread::sleep(Duration::from_millis(30));
        let (begin, from) = (Instant::now(), rounds.load(Relaxed));
        std::thread::sleep(SLICE);
        let rate = (rounds.load(Relaxed) - from) as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Relaxed);
        let ended: [Result<(), String>; 2] = [ping, pong]
            .map(|thread| thread.join().map_err(|_| "a thread panicked".to_string())?);
        ended.into_iter().collect::<Result<(), String>>().map(|()| rate)
    })
}

/// Keeps the calling thread on [`CPU`].
fn pin() -> Result<(), String> {
    sched::set_affinity(0, &[CPU].into_iter().collect())
        .map_err(|error| format!("cannot pin to CPU {CPU}: {error}"))
}
