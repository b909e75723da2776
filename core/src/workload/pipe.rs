//! `pipe`: pairs of workers that pass a turn to and fro, by futex, pipe, eventfd or socket.
//!
//! One worker of a pair runs while the other sleeps, so a round trip is two wake-ups and
//! whatever the transfer costs. Over futexes that is two pairs of FUTEX_WAKE and FUTEX_WAIT.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use crate::model::{Kind, fields};
use crate::sys::{clock, eventfd, futex::Scope, shared};

use super::channels::Wanted;
use super::wakeup::Seat;
use super::{
    Latency, Load, Request, Role, Slot, Spec, UnderWay, Worker, Workload, WorkloadError, params,
};

pub struct Pipe;

const PING: usize = 0;
const PONG: usize = 1;
const WAKEUP: usize = 0;
const OVER: [&str; 4] = ["futex", "pipe", "eventfd", "socketpair"];

const SPEC: Spec = Spec {
    name: "pipe",
    about: "pairs of workers that pass a turn to and fro, one running while the other sleeps",
    params: fields! {
        "over": Kind::Choice(&OVER), "pipe" => "what passes the turn";
        "size": Kind::Size { min_bytes: 1, max_bytes: 1 << 20 }, "64B" =>
            "bytes per transfer; a futex passes them in shared memory, an eventfd always 8";
        "latency": Kind::Bool, "true" =>
            "time each wake-up, which costs two clock reads a transfer";
    },
    roles: &[Role { name: "ping", counts: true }, Role { name: "pong", counts: false }],
    ops: "round trips",
    histograms: &[Latency::headline(
        "wakeup",
        "from just before a transfer to the other side running, transfer included",
    )],
    ..Spec::PLAIN
};

impl Workload for Pipe {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        Ok([PING, PONG].repeat(request.count as usize))
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let over = params::text(request.params, "over")?;
        let size = params::bytes(request.params, "size")? as usize;
        let latency = params::flag(request.params, "latency")?;
        let count = request.count as usize;
        let wanted = Wanted { what: "channel pair", count, files_each: 4, fewer: "pairs" };
        let pairs = wanted.open(|| Pair::new(over, size, request.scope()))?;
        Ok(Box::new(Pairs { pairs, latency }))
    }
}

struct Pairs {
    pairs: Vec<Pair>,
    latency: bool,
}

/// Shared by two workers. Both sides' seats carry the time of the last transfer to them;
/// only over futexes do they also sleep there.
struct Pair {
    seats: &'static [Seat],
    medium: Medium,
}

enum Medium {
    Futex {
        bytes: &'static [AtomicU8],
        scope: Scope,
    },
    /// The files that each role reads from and writes to; and the bytes of one transfer.
    Files {
        ends: [Ends; 2],
        bytes: Vec<u8>,
    },
}

#[derive(Clone)]
struct Ends {
    from: Arc<File>,
    to: Arc<File>,
}

impl Pair {
    fn new(over: &str, size: usize, scope: Scope) -> io::Result<Pair> {
        let medium = match over {
            "futex" => Medium::Futex { bytes: shared::leak_slice(size)?, scope },
            "eventfd" => {
                let [there, back] = [eventfd()?, eventfd()?].map(file);
                let ends = crossed((there.clone(), there), (back.clone(), back));
                Medium::Files { ends, bytes: 1u64.to_ne_bytes().to_vec() }
            }
            "socketpair" => {
                let (ping, pong) = UnixStream::pair()?;
                let ends = [ping.into(), pong.into()].map(|end: OwnedFd| {
                    let end = file(end);
                    Ends { from: Arc::clone(&end), to: end }
                });
                Medium::Files { ends, bytes: vec![1; size] }
            }
            _ => {
                let pipe = || -> io::Result<(Arc<File>, Arc<File>)> {
                    let (from, to) = io::pipe()?;
                    Ok((file(from.into()), file(to.into())))
                };
                Medium::Files { ends: crossed(pipe()?, pipe()?), bytes: vec![1; size] }
            }
        };
        Ok(Pair { seats: shared::leak_slice(2)?, medium })
    }
}

fn file(fd: OwnedFd) -> Arc<File> {
    Arc::new(File::from(fd))
}

/// Ends of two one-way channels, each given as (reading end, writing end): ping writes to
/// the first and reads from the second.
fn crossed(there: (Arc<File>, Arc<File>), back: (Arc<File>, Arc<File>)) -> [Ends; 2] {
    [Ends { from: back.0, to: there.1 }, Ends { from: there.0, to: back.1 }]
}

impl Load for Pairs {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let (pair, role) = (&self.pairs[index / 2], index % 2);
        let (own, other) = (&pair.seats[role], &pair.seats[1 - role]);
        match &pair.medium {
            Medium::Futex { bytes, scope } => {
                let channel = FutexChannel { own, other, bytes, value: 0, scope: *scope };
                self.play(role, Side { own, other, channel, worker })
            }
            Medium::Files { ends, bytes } => {
                let channel = FileChannel { ends: ends[role].clone(), bytes: bytes.clone() };
                self.play(role, Side { own, other, channel, worker })
            }
        }
        .map_err(|source| WorkloadError::system("pass the turn", source))
    }

    fn under_way(&self, index: usize, slot: &Slot, found: &mut UnderWay) {
        let seat = &self.pairs[index / 2].seats[index % 2];
        let posted = slot.begun().filter_map(|(histogram, waiting_ns)| {
            Some((histogram, seat.posted_since(waiting_ns)?))
        });
        posted.for_each(|(histogram, posted_ns)| found.add(histogram, posted_ns));
    }
}

impl Pairs {
    /// The timed section, compiled for each medium with and without the clock.
    fn play<C: Channel>(&self, role: usize, side: Side<C>) -> io::Result<()> {
        match (role, self.latency) {
            (PING, true) => side.ping::<true>(),
            (PING, false) => side.ping::<false>(),
            (_, true) => side.pong::<true>(),
            (_, false) => side.pong::<false>(),
        }
    }
}

/// One worker of a pair.
struct Side<'a, C> {
    own: &'a Seat,
    other: &'a Seat,
    channel: C,
    worker: &'a Worker,
}

impl<C: Channel> Side<'_, C> {
    fn ping<const LATENCY: bool>(mut self) -> io::Result<()> {
        self.worker.start();
        while self.worker.running() {
            self.send::<LATENCY>()?;
            self.receive::<LATENCY>()?;
            self.worker.add_ops(1);
        }
        Ok(())
    }

    fn pong<const LATENCY: bool>(mut self) -> io::Result<()> {
        let started_ns = self.worker.start();
        if LATENCY {
            self.worker.begin(WAKEUP, started_ns);
        }
        while self.worker.running() {
            self.receive::<LATENCY>()?;
            self.send::<LATENCY>()?;
        }
        Ok(())
    }

    #[inline]
    fn send<const LATENCY: bool>(&mut self) -> io::Result<()> {
        self.channel.fill();
        if LATENCY {
            let now_ns = clock::monotonic_ns();
            self.other.set_posted_ns(now_ns);
            // It waits from here on; the wake-up begins with the other side's transfer.
            self.worker.begin(WAKEUP, now_ns);
        }
        self.channel.send()
    }

    #[inline]
    fn receive<const LATENCY: bool>(&mut self) -> io::Result<()> {
        self.channel.receive()?;
        if LATENCY {
            let now_ns = clock::monotonic_ns();
            let latency_ns = now_ns.saturating_sub(self.own.posted_ns());
            self.worker.record(WAKEUP, now_ns, latency_ns);
            self.worker.note_delay(latency_ns);
        }
        Ok(())
    }
}

/// How the turn passes. Sending wakes the other side; receiving sleeps until woken.
trait Channel {
    /// Makes the bytes of the next transfer, where sending does not copy them.
    fn fill(&mut self) {}
    fn send(&mut self) -> io::Result<()>;
    fn receive(&mut self) -> io::Result<()>;
}

struct FutexChannel<'a> {
    own: &'a Seat,
    other: &'a Seat,
    bytes: &'static [AtomicU8],
    /// The byte of the next transfer.
    value: u8,
    scope: Scope,
}

impl Channel for FutexChannel<'_> {
    #[inline]
    fn fill(&mut self) {
        self.value = self.value.wrapping_add(1);
        if let Some(first) = self.bytes.first() {
            // SAFETY: only the side whose turn it is touches the bytes; the turn passes by
            // a release and an acquire of a seat's word.
            unsafe { first.as_ptr().write_bytes(self.value, self.bytes.len()) };
        }
    }

    #[inline]
    fn send(&mut self) -> io::Result<()> {
        self.other.post(self.scope);
        Ok(())
    }

    #[inline]
    fn receive(&mut self) -> io::Result<()> {
        self.own.wait(self.scope);
        Ok(())
    }
}

struct FileChannel {
    ends: Ends,
    bytes: Vec<u8>,
}

impl Channel for FileChannel {
    #[inline]
    fn send(&mut self) -> io::Result<()> {
        (&*self.ends.to).write_all(&self.bytes)
    }

    #[inline]
    fn receive(&mut self) -> io::Result<()> {
        (&*self.ends.from).read_exact(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SetMemory, WorkerGroup, params, request};
    use super::*;
    use crate::model::{Raw, WorkerKind};
    use std::sync::atomic::Ordering::Relaxed;

    fn given(over: &str, size: &str, latency: bool) -> crate::model::Params {
        let text = |text: &str| Raw::Text(text.to_string());
        params(
            &Pipe,
            &[("over", text(over)), ("size", text(size)), ("latency", Raw::Bool(latency))],
        )
    }

    #[test]
    fn every_pair_goes_round_over_every_medium() {
        // Sizes beyond the capacity of a pipe or a socket, too: both sides must then read as they go.
        for (over, size, latency) in OVER
            .into_iter()
            .flat_map(|over| [(over, "1B", true), (over, "64B", false), (over, "1MiB", true)])
        {
            let group = WorkerGroup::start(&Pipe, &given(over, size, latency), 2);
            group.wait_until(&format!("round trips over {over}"), |group| {
                group.slots().iter().step_by(2).all(|ping| ping.ops() >= 50)
            });
            group.stop();
            assert!(group.slots().iter().skip(1).step_by(2).all(|pong| pong.ops() == 0));
            let wakeups = group.measured().histograms[WAKEUP].total();
            assert_eq!(wakeups >= 2 * 2 * 49, latency, "{wakeups} over {over}");
            assert!(latency || wakeups == 0);
        }
    }

    #[test]
    fn pairs_of_processes_go_round_over_every_medium() {
        for over in OVER {
            let params = given(over, "64B", true);
            let group = WorkerGroup::start_as(&Pipe, &params, 2, WorkerKind::Processes);
            group.wait_until(&format!("round trips of processes over {over}"), |group| {
                group.slots().iter().step_by(2).all(|ping| ping.ops() >= 50)
            });
            group.stop();
            assert!(group.measured().histograms[WAKEUP].total() >= 2 * 2 * 49, "{over}");
        }
    }

    #[test]
    fn a_pair_is_a_ping_that_counts_and_a_pong_that_does_not() {
        let params = given("pipe", "64B", true);
        let roles = Pipe.layout(&request(&params, 2)).unwrap();
        assert_eq!(roles, [PING, PONG, PING, PONG]);
        assert!(SPEC.roles[PING].counts && !SPEC.roles[PONG].counts);
    }

    #[test]
    fn a_side_that_waits_has_a_latency_once_the_other_has_sent() {
        let pairs = vec![Pair::new("pipe", 1, Scope::Private).unwrap()];
        let seats = pairs[0].seats;
        let pairs = Pairs { pairs, latency: true };
        let played = SetMemory::opened(2, 1, 1);
        let pong = played.worker(1);
        let oldest_ns = || played.under_way(&pairs, 1_000)[WAKEUP].max_ns();
        pong.begin(WAKEUP, 500);
        seats[1].set_posted_ns(300);
        assert_eq!(oldest_ns(), None, "it was woken by that before");
        seats[1].set_posted_ns(600);
        assert_eq!(oldest_ns(), Some(400));
        pong.record(WAKEUP, 700, 100);
        assert_eq!(oldest_ns(), None);
    }

    #[test]
    fn a_futex_pair_passes_all_bytes_in_memory() {
        let pair = Pair::new("futex", 100, Scope::Private).unwrap();
        let Medium::Futex { bytes, scope } = pair.medium else { panic!("not a futex") };
        let [own, other] = pair.seats else { panic!("not two seats") };
        let mut channel = FutexChannel { own, other, bytes, value: 0, scope };
        for expected in [1, 2] {
            channel.fill();
            assert!(bytes.iter().all(|byte| byte.load(Relaxed) == expected));
        }
    }
}
