//! `schbench`: message threads hand out turns, workers sleep a little and multiply matrices
//! under a per-CPU lock. The semantics of schbench v1.0; where it measures and how it differs
//! is told at each place.
//!
//! A set is N copies of the whole; in each, every message thread has workers of its own.
//! Saturating (no `rps`): a worker enlists with its message thread, wakes it and sleeps; the
//! message thread posts all that are enlisted and sleeps until the next. With `rps`: the
//! message thread queues requests to its workers in turn as they arrive and wakes those that
//! sleep.

mod arrivals;
mod locks;
mod matrix;

use std::time::Duration;

use crate::model::{Field, Kind, Params, Value, WorkerKind};
use crate::sys::{clock, futex::Scope, shared};

use super::wakeup::Seat;
use super::{Latency, Load, Request, Role, Spec, Worker, Workload};
use arrivals::{Arrivals, Inbox, Pattern};
use locks::CpuLocks;
use matrix::Matrices;

pub struct Schbench;

const MESSAGE: usize = 0;
const WORKER: usize = 1;
const WAKEUP: usize = 0;
const REQUEST: usize = 1;
const DROPPED: usize = 0;

/// More would be a typing error; the kernel's own limit on threads is of this order.
const MAX_WORKERS: u64 = 1 << 17;
/// How long a message thread pauses after a request that found its worker's queue full.
const FULL_PAUSE: Duration = Duration::from_micros(100);

const SPEC: Spec = Spec {
    name: "schbench",
    about: "message and worker threads: a wake-up, a sleep and matrix math under a per-CPU \
            lock, as schbench v1.0",
    params: &[
        Field {
            name: "message-threads",
            kind: Kind::Int { min: 1, max: 4096 },
            default: Some("1"),
            about: "threads that hand out turns or requests, each to workers of its own",
        },
        Field {
            name: "threads",
            kind: Kind::Int { min: 1, max: 65_536 },
            default: None,
            about: "workers per message thread; unset: CPUs divided by message threads, rounded up",
        },
        Field {
            name: "cache-footprint",
            kind: Kind::Size { min_bytes: 0, max_bytes: 1 << 30 },
            default: Some("256KiB"),
            about: "size of the three matrices of a worker",
        },
        Field {
            name: "operations",
            kind: Kind::Int { min: 0, max: 1 << 32 },
            default: Some("5"),
            about: "matrix multiplications of one request",
        },
        Field {
            name: "sleep",
            kind: Kind::Duration { min_ns: 0, max_ns: 3_600_000_000_000 },
            default: Some("100us"),
            about: "sleep of each request, before the math: simulated network or disk",
        },
        Field {
            name: "no-locking",
            kind: Kind::Bool,
            default: Some("false"),
            about: "do not hold the current CPU's spinlock during the math, which makes preemption \
                    hurt",
        },
        Field {
            name: "calibrate",
            kind: Kind::Bool,
            default: Some("false"),
            about: "time the math alone: the request leaves out the sleep, and nothing is locked",
        },
        Field {
            name: "rps",
            kind: Kind::Int { min: 0, max: 100_000_000 },
            default: Some("0"),
            about: "requests per second that arrive at one copy; 0: as many as it can do",
        },
        Field {
            name: "arrivals",
            kind: Kind::Choice(&Pattern::WORDS),
            default: Some("burst"),
            about: "with rps: each second's requests at once, evenly spaced, or at random",
        },
        Field {
            name: "split",
            kind: Kind::Percent { min: 0.0, max: 100.0 },
            default: None,
            about: "share of footprint and operations on matrices of the worker's own; the rest \
                    is on matrices that all share; unset: all its own",
        },
    ],
    roles: &[Role { name: "message", counts: false }, Role { name: "worker", counts: true }],
    ops: "requests",
    histograms: &[
        Latency { name: "wakeup", about: "from the start of the waker's pass to running" },
        Latency { name: "request", about: "sleep and math; when calibrating, the math" },
    ],
    counters: &["dropped"],
    metrics: &[],
};

impl Workload for Schbench {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, String> {
        let shape = Shape::of(request)?;
        let mut group = vec![WORKER; shape.threads + 1];
        group[0] = MESSAGE;
        Ok(group.repeat(shape.groups * shape.copies))
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, String> {
        let shape = Shape::of(request)?;
        let rules = Rules::of(request.params)?;
        let scope = match request.kind {
            WorkerKind::Threads => Scope::Private,
            WorkerKind::Processes => Scope::Shared,
        };
        let copies = (0..shape.copies)
            .map(|_| Instance::new(&shape, &rules, scope))
            .collect::<std::io::Result<_>>()
            .map_err(|error| format!("no memory for what schbench's workers share: {error}"))?;
        Ok(Box::new(Running { shape, rules, scope, copies }))
    }
}

/// How many of each.
struct Shape {
    copies: usize,
    /// Message threads of one copy.
    groups: usize,
    /// Workers of one message thread.
    threads: usize,
}

impl Shape {
    fn of(request: &Request) -> Result<Shape, String> {
        let groups = int(request.params, "message-threads")?;
        let threads = match request.params.get("threads") {
            Some(_) => int(request.params, "threads")?,
            None => u64::from(request.pool.count()).div_ceil(groups),
        };
        let workers = u64::from(request.count) * groups * (1 + threads);
        if workers > MAX_WORKERS {
            return Err(format!(
                "count = {}, message-threads = {groups} and threads = {threads} make {workers} \
                 workers; at most {MAX_WORKERS} are accepted",
                request.count
            ));
        }
        let (rps, arrivals) = (int(request.params, "rps")?, pattern(request.params)?);
        if rps == 0 && arrivals != Pattern::Burst {
            return Err(format!(
                "arrivals = {:?} needs a rate: set rps, the requests per second",
                Pattern::WORDS[arrivals as usize]
            ));
        }
        if rps > 0 && rps < groups {
            return Err(format!(
                "rps = {rps} leaves some of message-threads = {groups} without a request a second"
            ));
        }
        Ok(Shape {
            copies: request.count as usize,
            groups: groups as usize,
            threads: threads as usize,
        })
    }

    /// Copy, message thread within it, and the worker of that (`None`: the message thread
    /// itself) of worker `index` of the set.
    fn place(&self, index: usize) -> (usize, usize, Option<usize>) {
        let group = index / (self.threads + 1);
        (group / self.groups, group % self.groups, (index % (self.threads + 1)).checked_sub(1))
    }
}

/// What a request is and when it arrives.
struct Rules {
    own_width: usize,
    shared_width: usize,
    own_operations: u64,
    shared_operations: u64,
    sleep: Duration,
    locking: bool,
    calibrate: bool,
    /// `None`: saturate.
    rate_per_s: Option<u64>,
    arrivals: Pattern,
}

impl Rules {
    fn of(params: &Params) -> Result<Rules, String> {
        let footprint = value(params, "cache-footprint", Value::as_bytes)?;
        let operations = int(params, "operations")?;
        let calibrate = value(params, "calibrate", Value::as_bool)?;
        let mut rules = Rules {
            own_width: matrix::width(footprint),
            shared_width: 0,
            own_operations: operations,
            shared_operations: 0,
            sleep: Duration::from_nanos(value(params, "sleep", Value::as_duration_ns)?),
            locking: !value(params, "no-locking", Value::as_bool)? && !calibrate,
            calibrate,
            rate_per_s: Some(int(params, "rps")?).filter(|&rps| rps > 0),
            arrivals: pattern(params)?,
        };
        if let Some(own) = params.get("split").and_then(Value::as_percent) {
            // In whole KiB and whole operations, rounded down, as schbench does.
            let kib = |percent: f64| ((footprint >> 10) as f64 * percent / 100.0) as u64;
            rules.own_width = matrix::width(kib(own) << 10);
            rules.shared_width = matrix::width(kib(100.0 - own) << 10);
            rules.own_operations = (operations as f64 * own / 100.0) as u64;
            rules.shared_operations = operations - rules.own_operations;
        }
        Ok(rules)
    }
}

fn int(params: &Params, name: &str) -> Result<u64, String> {
    value(params, name, |value| value.as_int().and_then(|int| u64::try_from(int).ok()))
}

fn pattern(params: &Params) -> Result<Pattern, String> {
    value(params, "arrivals", |value| value.as_text().and_then(Pattern::named))
}

fn value<T>(params: &Params, name: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
    params.get(name).and_then(read).ok_or_else(|| format!("parameter `{name}` is not set"))
}

/// One copy: what its workers share.
struct Instance {
    /// Message thread after message thread: its own seat, then its workers'.
    seats: &'static [Seat],
    /// One a worker; empty when saturating.
    inboxes: &'static [Inbox],
    locks: Option<CpuLocks>,
    shared: Matrices,
}

impl Instance {
    fn new(shape: &Shape, rules: &Rules, scope: Scope) -> std::io::Result<Instance> {
        let workers = shape.groups * shape.threads;
        Ok(Instance {
            seats: shared::leak_slice(shape.groups + workers)?,
            inboxes: shared::leak_slice(rules.rate_per_s.map_or(0, |_| workers))?,
            locks: rules.locking.then(CpuLocks::new).transpose()?,
            shared: match scope {
                Scope::Private => Matrices::private(rules.shared_width)?,
                Scope::Shared => Matrices::shared(rules.shared_width)?,
            },
        })
    }
}

struct Running {
    shape: Shape,
    rules: Rules,
    scope: Scope,
    copies: Vec<Instance>,
}

/// One message thread's part of a copy.
struct Group<'a> {
    message: &'a Seat,
    seats: &'a [Seat],
    inboxes: &'a [Inbox],
}

impl Load for Running {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), String> {
        let (copy, group_index, seat) = self.shape.place(index);
        let copy = &self.copies[copy];
        let per_group = self.shape.threads + 1;
        let (message, seats) = copy.seats[group_index * per_group..][..per_group]
            .split_first()
            .ok_or("a message thread without a seat")?;
        let first = (group_index * self.shape.threads).min(copy.inboxes.len());
        let inboxes = &copy.inboxes[first..][..self.shape.threads.min(copy.inboxes.len())];
        let group = Group { message, seats, inboxes };
        match (seat, self.rules.rate_per_s) {
            (None, None) => self.hand_out_turns(&group, worker),
            (None, Some(rate)) => self.hand_out_requests(&group, group_index as u64, rate, worker),
            (Some(seat), rate) => {
                let own = Matrices::private(self.rules.own_width)
                    .map_err(|error| format!("no memory for a worker's matrices: {error}"))?;
                own.prefault();
                copy.shared.prefault();
                let job = Job { rules: &self.rules, own, copy };
                match rate {
                    None => self.take_turns(&group, seat, &job, worker),
                    Some(_) => self.take_requests(&group, seat, &job, worker),
                }
            }
        }
    }
}

impl Running {
    /// The message thread, saturating: posts all who have enlisted, and sleeps.
    fn hand_out_turns(&self, group: &Group, worker: &Worker) -> Result<(), String> {
        worker.start();
        while worker.running() {
            group.message.block();
            group.message.post_list(group.seats, self.scope, clock::monotonic_ns);
            group.message.wait(self.scope);
        }
        Ok(())
    }

    /// The worker, saturating: asks for a turn, sleeps until it has it, does a request.
    fn take_turns(
        &self,
        group: &Group,
        index: usize,
        job: &Job,
        worker: &Worker,
    ) -> Result<(), String> {
        let seat = &group.seats[index];
        worker.start();
        while worker.running() {
            seat.block();
            group.message.enlist(group.seats, index);
            group.message.post(self.scope);
            seat.wait(self.scope);
            record_wakeup(seat, worker);
            job.request(worker)?;
        }
        Ok(())
    }

    /// The message thread at a fixed rate: sleeps until the next arrival and queues it to the
    /// next worker. What comes to a full queue is dropped and counted, as schbench drops it.
    fn hand_out_requests(
        &self,
        group: &Group,
        index: u64,
        rate_per_s: u64,
        worker: &Worker,
    ) -> Result<(), String> {
        let of = self.shape.groups as u64;
        let mut arrivals = Arrivals::new(self.rules.arrivals, rate_per_s, index, of, worker.seed());
        let mut turns = (0..group.seats.len()).cycle();
        let started_ns = worker.start();
        while worker.running() {
            let arrives_ns = started_ns + arrivals.next_ns();
            if clock::monotonic_ns() < arrives_ns {
                clock::sleep_until(arrives_ns);
            }
            let next = turns.next().ok_or("a message thread without workers")?;
            let now_ns = clock::monotonic_ns();
            if group.inboxes[next].push(arrives_ns) {
                group.seats[next].post_at(now_ns, self.scope);
            } else {
                worker.count(DROPPED, 1);
                std::thread::sleep(FULL_PAUSE);
            }
        }
        Ok(())
    }

    /// The worker at a fixed rate: does all that is queued, and sleeps when nothing is.
    fn take_requests(
        &self,
        group: &Group,
        index: usize,
        job: &Job,
        worker: &Worker,
    ) -> Result<(), String> {
        let (seat, inbox) = (&group.seats[index], &group.inboxes[index]);
        inbox.prefault();
        worker.start();
        while worker.running() {
            // Blocked before the look, so that a request that comes after it is a post.
            seat.block();
            let requests = inbox.take();
            if requests.len() == 0 {
                seat.wait(self.scope);
                record_wakeup(seat, worker);
                continue;
            }
            seat.resume();
            for _arrived_ns in requests {
                job.request(worker)?;
            }
        }
        Ok(())
    }
}

#[inline]
fn record_wakeup(seat: &Seat, worker: &Worker) {
    let now_ns = clock::monotonic_ns();
    let latency_ns = now_ns.saturating_sub(seat.posted_ns());
    worker.record(WAKEUP, now_ns, latency_ns);
    worker.note_delay(latency_ns);
}

/// What a worker does for each request.
struct Job<'a> {
    rules: &'a Rules,
    own: Matrices,
    copy: &'a Instance,
}

impl Job<'_> {
    /// Returns when it ended.
    #[inline]
    fn request(&self, worker: &Worker) -> Result<u64, String> {
        let mut begin_ns = clock::monotonic_ns();
        if !self.rules.sleep.is_zero() {
            std::thread::sleep(self.rules.sleep);
        }
        if self.rules.calibrate {
            begin_ns = clock::monotonic_ns();
        }
        let held = self.copy.locks.as_ref().map(CpuLocks::hold).transpose()?;
        (0..self.rules.shared_operations).for_each(|_| self.copy.shared.multiply());
        (0..self.rules.own_operations).for_each(|_| self.own.multiply());
        drop(held);
        let end_ns = clock::monotonic_ns();
        worker.record(REQUEST, end_ns, end_ns - begin_ns);
        worker.add_ops(1);
        Ok(end_ns)
    }
}

#[cfg(test)]
mod tests;
