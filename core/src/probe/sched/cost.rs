//! Measures the cost of telemetry: a ping-pong of two threads through pipes on one CPU, with and without, in turns.
//! Nothing switches more often, so it is the worst case: a program pays the same for each of its switches, and has
//! fewer of them.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};

use crate::model::{CpuSet, ProbeCost};
use crate::sys::sched::{self as policy, Attr, Policy};
use crate::sys::{clock, topology};

use super::{CostError, Session, SessionConfig};

/// Below schedlab's own measuring threads.
const PRIORITY: u32 = 50;

/// How much is measured: pairs of a plain batch and one with telemetry.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    pub pairs: u32,
    pub round_trips: u32,
}

/// Some seconds, for `--cost`.
pub const THOROUGH: Effort = Effort { pairs: 9, round_trips: 60_000 };
/// A second: once for each kernel, so that each report has it.
pub const SHORT: Effort = Effort { pairs: 3, round_trips: 20_000 };

/// One pair of batches: nanoseconds of a switch, plain and with telemetry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub plain_ns: f64,
    pub with_ns: f64,
}

/// Begins to count two tasks, which wait, and returns the function that ends it.
pub type Instrument<'a> = dyn Fn(&[i32]) -> Result<End, CostError> + 'a;
pub type End = Box<dyn FnOnce() -> Result<(), CostError>>;

/// Measures. Fails where the instrument cannot be had.
pub fn measure(instrument: &Instrument, effort: Effort) -> Result<Vec<Pair>, CostError> {
    let mut pairs = Vec::new();
    for _ in 0..effort.pairs {
        let plain_ns = ping_pong(effort.round_trips, &|_| Ok(Box::new(|| Ok(()))))?;
        let with_ns = ping_pong(effort.round_trips, instrument)?;
        pairs.push(Pair { plain_ns, with_ns });
    }
    Ok(pairs)
}

/// A source, counting.
pub fn session<'a>(
    config: &'a SessionConfig,
    source: &'a str,
) -> impl Fn(&[i32]) -> Result<End, CostError> + 'a {
    move |_| {
        let mut session = open(source, config)?;
        session.begin()?;
        Ok(Box::new(move || Ok(session.end().map(|_| ())?)))
    }
}

fn open(source: &str, config: &SessionConfig) -> Result<Box<dyn Session>, CostError> {
    match super::open(config, Some(source)) {
        Ok(opened) => Ok(opened.session),
        Err(missed) => Err(match missed.into_iter().next() {
            Some((_, error)) => CostError::Source(error),
            None => CostError::PingPong(io::Error::other(format!("there is no source {source}"))),
        }),
    }
}

/// The medians. `None` without pairs.
pub fn summary(pairs: &[Pair], unix_ns: u64) -> Option<ProbeCost> {
    let median = |of: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Some(ProbeCost {
        switch_ns: median(|pair| pair.with_ns - pair.plain_ns)?,
        slowdown: median(|pair| pair.with_ns / pair.plain_ns - 1.0)?,
        measured_unix_ns: unix_ns,
    })
}

/// Nanoseconds per switch of two threads that wake each other in turns on one CPU.
fn ping_pong(round_trips: u32, instrument: &Instrument) -> Result<f64, CostError> {
    let cpu = topology::affinity()?.iter().last().unwrap_or(0);
    let (ping_out, ping_in) = io::pipe()?;
    let (pong_out, pong_in) = io::pipe()?;
    let (begin, players) = channel();
    let one = Player { cpu, begin, start: Arc::new(Barrier::new(3)) };
    let (other, start) = (one.clone(), Arc::clone(&one.start));
    let other = std::thread::spawn(move || {
        other.settle();
        play(ping_out, pong_in, round_trips)
    });
    let one = std::thread::spawn(move || {
        one.settle();
        let start_ns = clock::monotonic_ns();
        rally(ping_in, pong_out, round_trips)?;
        Ok(clock::monotonic_ns() - start_ns)
    });
    let players: Vec<i32> = players.iter().take(2).collect();
    let end = instrument(&players);
    start.wait();
    let panicked = |_| io::Error::other("one of its threads panicked");
    let took_ns: io::Result<u64> = one.join().map_err(panicked)?;
    other.join().map_err(panicked)??;
    end?()?;
    Ok(took_ns? as f64 / (2.0 * f64::from(round_trips)))
}

fn play(mut from: PipeReader, mut to: PipeWriter, round_trips: u32) -> io::Result<()> {
    let mut ball = [0u8];
    for _ in 0..round_trips {
        from.read_exact(&mut ball)?;
        to.write_all(&ball)?;
    }
    Ok(())
}

fn rally(mut to: PipeWriter, mut from: PipeReader, round_trips: u32) -> io::Result<()> {
    let mut ball = [0u8];
    for _ in 0..round_trips {
        to.write_all(&ball)?;
        from.read_exact(&mut ball)?;
    }
    Ok(())
}

#[derive(Clone)]
struct Player {
    cpu: u32,
    /// Takes the player's task.
    begin: Sender<i32>,
    start: Arc<Barrier>,
}

impl Player {
    /// On one CPU, undisturbed by ordinary tasks where that is allowed, until the start.
    fn settle(self) {
        let cpus: CpuSet = std::iter::once(self.cpu).collect();
        let fifo = Attr { policy: Policy::Fifo.number(), priority: PRIORITY, ..Attr::default() };
        let _ = policy::set_affinity(0, &cpus);
        let _ = policy::set_attr(0, &fifo);
        let _ = self.begin.send(policy::own_tid());
        self.start.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_the_median_of_pairs() {
        let pair = |plain_ns, with_ns| Pair { plain_ns, with_ns };
        let pairs = [pair(1000.0, 1100.0), pair(2000.0, 2050.0), pair(1000.0, 1500.0)];
        let cost = summary(&pairs, 7).unwrap();
        assert!((cost.switch_ns - 100.0).abs() < 1e-9 && (cost.slowdown - 0.1).abs() < 1e-9);
        assert_eq!(cost.measured_unix_ns, 7);
        assert_eq!(summary(&[], 7), None);
    }

    #[test]
    fn a_ping_pong_switches_for_each_way() {
        let watched = |tids: &[i32]| {
            let status =
                |tid: &i32| std::fs::read_to_string(format!("/proc/self/task/{tid}/status"));
            assert!(tids.len() == 2 && tids.iter().all(|tid| status(tid).is_ok()), "{tids:?}");
            Ok(Box::new(|| Ok(())) as End)
        };
        let switch_ns = ping_pong(100, &watched).unwrap();
        assert!(switch_ns > 0.0 && switch_ns.is_finite(), "{switch_ns}");
        let none = |_: &[i32]| Err(CostError::PingPong(io::Error::other("none")));
        assert!(ping_pong(1, &none).is_err());
    }
}
