//! `service-chain`: clients, a front server and the chain of services behind it.
//!
//! The shape of a web server before microservices. Each client sends a request and waits for its
//! answer, for as long as the run lasts. A front thread has an event loop over the sockets of its
//! clients and of its connections to the first service, as NGINX's workers have: it takes
//! requests, passes each on over a connection that has none, and relays the answers. A service
//! has a thread for each connection to it, as servers with a thread per connection have: it reads
//! a request, works, asks the next service, and answers.
//!
//! A front thread wakes a service for each request and a client for each answer. When the machine
//! is busy these wait on its own CPU, and whether they get it at once is up to the scheduler's
//! rules of wakeup preemption. A front thread that is switched out keeps all of its clients
//! waiting.
//!
//! All is over Unix stream socket pairs made beforehand. A connection carries one message at a
//! time, so no write ever waits. Work is in kilo-operations, an amount and not a time.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::model::{Kind, Params, fields};
use crate::sys::{Epoll, Ready, clock};

use super::burn::{Burner, Speed, Work};
use super::channels::{self, STAMP_BYTES, Wanted, message};
use super::contract::MAX_TASKS;
use super::{
    Latency, Load, Request, Role, Slot, Spec, UnderWay, WORK_TIME, Worker, Workload, WorkloadError,
    params,
};

pub struct ServiceChain;

const SERVICE: usize = 0;
const FRONT: usize = 1;
const CLIENT: usize = 2;
const REQUEST: usize = 0;
const ACCEPT: usize = 1;
/// Far below the capacity of a socket's buffer, whatever its settings.
const MAX_BYTES: u64 = 32 << 10;

const SPEC: Spec = Spec {
    name: "service-chain",
    about: "clients, a front server with an event loop and a chain of services over sockets; \
            one worker of `count` is one such installation",
    params: fields! {
        "clients": Kind::Int { min: 1, max: 10_000 }, "32" =>
            "clients, each with one request at a time";
        "think": Kind::Duration { min_ns: 0, max_ns: 60_000_000_000 }, "0ns" =>
            "a client's pause between an answer and its next request";
        "fronts": Kind::Int { min: 1, max: 1_000 }, "2" =>
            "threads of the front server, each with clients and connections of its own";
        "front-kops": Kind::Int { min: 0, max: 1_000_000 }, "4" =>
            "thousands of operations (burnwait's) of the front server for each message that it \
             passes on: twice a request";
        "front": WORK_TIME =>
            "the same work as a time on a CPU at full speed, in place of front-kops";
        "depth": Kind::Int { min: 1, max: 100 }, "3" =>
            "services in the chain, of which each but the last asks the next";
        "threads": Kind::Int { min: 1, max: 10_000 }, "8" =>
            "threads of each service, each with one request at a time; the front server keeps what \
             is more";
        "hop-kops": Kind::Int { min: 0, max: 1_000_000 }, "20" =>
            "thousands of operations of each service for each request";
        "hop": WORK_TIME => "the same work as a time on a CPU at full speed, in place of hop-kops";
        "size": Kind::Size { min_bytes: 8, max_bytes: MAX_BYTES }, "512B" =>
            "bytes of each request and of each answer";
    },
    roles: &[
        Role { name: "service", counts: false },
        Role { name: "front", counts: false },
        Role { name: "client", counts: true },
    ],
    ops: "requests",
    histograms: &[
        Latency::headline(
            "request",
            "from a client's sending of a request to its having the answer",
        ),
        Latency::explaining(
            "accept",
            "from a client's sending of a request to the front server's reading it",
        ),
    ],
    ..Spec::PLAIN
};

impl Workload for ServiceChain {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        let shape = Shape::from_request(request)?;
        let workers = shape.workers() as u64 * u64::from(request.count);
        if workers > MAX_TASKS {
            let Shape { clients, fronts, depth, threads, .. } = shape;
            let what = format!(
                "{} times {clients} clients, {fronts} front threads and {depth} services of \
                 {threads} threads",
                request.count
            );
            return Err(WorkloadError::TooMany { what, workers, max: MAX_TASKS });
        }
        Ok((0..workers as usize).map(|worker| shape.seat(worker).1.role()).collect())
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let shape = Shape::from_request(request)?;
        let sites = Site::all(&shape, request.count as usize)?;
        Ok(Box::new(Sites { shape, sites, speed: request.speed }))
    }

    fn max_samples_per_s(&self, request: &Request) -> Option<f64> {
        let Shape { clients, think, front, depth, hop, .. } = Shape::from_request(request).ok()?;
        let work_ns = 2 * front.ns() + depth as u64 * hop.ns();
        let clients = clients as u64 * u64::from(request.count);
        request.max_per_s(clients, work_ns, think.as_nanos() as u64)
    }

    fn is_timed(&self, params: &Params) -> bool {
        ["front", "hop"].iter().any(|time| params.contains_key(*time))
    }

    fn is_counted(&self, params: &Params) -> bool {
        let works =
            [params::work(params, "front", "front-kops"), params::work(params, "hop", "hop-kops")];
        works.into_iter().flatten().any(Work::is_counted)
    }
}

/// The shape of every installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    clients: usize,
    think: Duration,
    fronts: usize,
    front: Work,
    depth: usize,
    threads: usize,
    hop: Work,
    bytes: usize,
}

/// A worker's place in its installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seat {
    /// Thread `lane` of the service `hop`: asked by, and asking, those of the same lane.
    Service {
        hop: usize,
        lane: usize,
    },
    Front(usize),
    Client(usize),
}

impl Seat {
    fn role(self) -> usize {
        match self {
            Seat::Service { .. } => SERVICE,
            Seat::Front(_) => FRONT,
            Seat::Client(_) => CLIENT,
        }
    }
}

impl Shape {
    fn from_request(request: &Request) -> Result<Self, WorkloadError> {
        let given = request.params;
        let shape = Shape {
            clients: params::count(given, "clients")?,
            think: Duration::from_nanos(params::duration_ns(given, "think")?),
            fronts: params::count(given, "fronts")?,
            front: params::work(given, "front", "front-kops")?,
            depth: params::count(given, "depth")?,
            threads: params::count(given, "threads")?,
            hop: params::work(given, "hop", "hop-kops")?,
            bytes: params::bytes(given, "size")? as usize,
        };
        let fronts = shape.fronts;
        for (name, value) in [("clients", shape.clients), ("threads", shape.threads)] {
            if value < fronts {
                return Err(WorkloadError::conflict(
                    format!("{name} = {value} leaves some of {fronts} front threads without any"),
                    format!("{name} = {fronts}, or fronts = {value}"),
                )
                .at(name));
            }
        }
        Ok(shape)
    }

    fn workers(&self) -> usize {
        self.depth * self.threads + self.fronts + self.clients
    }

    /// Pairs of one installation.
    fn sockets(&self) -> usize {
        self.depth * self.threads + self.clients
    }

    /// The installation of a worker, and its place in it. The last service comes first and clients last, so that
    /// each is there for those that ask it.
    fn seat(&self, worker: usize) -> (usize, Seat) {
        let (site, member) = (worker / self.workers(), worker % self.workers());
        let services = self.depth * self.threads;
        let seat = if member < services {
            let (from_end, lane) = (member / self.threads, member % self.threads);
            Seat::Service { hop: self.depth - 1 - from_end, lane }
        } else if member < services + self.fronts {
            Seat::Front(member - services)
        } else {
            Seat::Client(member - services - self.fronts)
        };
        (site, seat)
    }
}

/// The two ends of a connection.
struct Link {
    asking: UnixStream,
    answering: UnixStream,
}

/// The sockets of one installation.
struct Site {
    /// One link for each client.
    clients: Vec<Link>,
    /// Links by service, then lane.
    hops: Vec<Vec<Link>>,
}

impl Site {
    fn all(shape: &Shape, count: usize) -> Result<Vec<Site>, WorkloadError> {
        let wanted = Wanted {
            what: "socket pair",
            count: count * shape.sockets(),
            files_each: 2,
            fewer: "clients or threads",
        };
        let pair = || UnixStream::pair().map(|(asking, answering)| Link { asking, answering });
        let mut links = wanted.open(pair)?.into_iter();
        let mut site = || {
            let clients = links.by_ref().take(shape.clients).collect();
            let hop = |_| links.by_ref().take(shape.threads).collect();
            Site { clients, hops: (0..shape.depth).map(hop).collect() }
        };
        Ok((0..count).map(|_| site()).collect())
    }
}

struct Sites {
    shape: Shape,
    sites: Vec<Site>,
    speed: Speed,
}

impl Load for Sites {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let (site, seat) = self.shape.seat(index);
        let site = &self.sites[site];
        let result = match seat {
            Seat::Service { hop, lane } => self.serve(site, hop, lane, worker),
            Seat::Front(front) => Front::new(&self.shape, site, front, self.speed)
                .and_then(|mut front| front.relay_all(&self.shape, worker)),
            Seat::Client(client) => self.ask(&site.clients[client].asking, worker),
        };
        result.map_err(|source| WorkloadError::system("pass a message", source))
    }

    /// A client's request that it noted, and whether its front thread has read it.
    fn under_way(&self, index: usize, slot: &Slot, found: &mut UnderWay) {
        let (site, Seat::Client(client)) = self.shape.seat(index) else { return };
        slot.begun().for_each(|(histogram, sent_ns)| found.add(histogram, sent_ns));
        let unread = self.sites[site].clients[client].answering.as_fd();
        let unread = channels::waiting(unread, self.shape.bytes);
        unread.into_iter().for_each(|sent_ns| found.add(ACCEPT, sent_ns));
    }
}

impl Sites {
    /// A client.
    fn ask(&self, mut front: &UnixStream, worker: &Worker) -> io::Result<()> {
        let mut message = message(self.shape.bytes);
        let think = self.shape.think;
        worker.start();
        if !think.is_zero() {
            std::thread::sleep(Duration::from_nanos(worker.phase_ns(think.as_nanos() as u64)));
        }
        while worker.running() {
            let sent_ns = clock::monotonic_ns();
            message[..STAMP_BYTES].copy_from_slice(&sent_ns.to_le_bytes());
            worker.begin(REQUEST, sent_ns);
            front.write_all(&message)?;
            front.read_exact(&mut message)?;
            let answered_ns = clock::monotonic_ns();
            worker.record(REQUEST, answered_ns, answered_ns - sent_ns);
            worker.add_ops(1);
            if !think.is_zero() {
                std::thread::sleep(think);
            }
        }
        Ok(())
    }

    /// Runs one thread of a service.
    fn serve(&self, site: &Site, hop: usize, lane: usize, worker: &Worker) -> io::Result<()> {
        let mut asked = &site.hops[hop][lane].answering;
        let next = site.hops.get(hop + 1).map(|links| &links[lane].asking);
        let mut message = message(self.shape.bytes);
        let mut burner = Burner::new(self.speed);
        worker.start();
        while worker.running() {
            asked.read_exact(&mut message)?;
            burner.burn(self.shape.hop);
            if let Some(mut next) = next {
                next.write_all(&message)?;
                next.read_exact(&mut message)?;
            }
            asked.write_all(&message)?;
        }
        Ok(())
    }
}

/// One front thread: every `fronts`th client and connection is its own.
struct Front<'a> {
    epoll: Epoll,
    burner: Burner,
    clients: Vec<Caller<'a>>,
    lanes: Vec<Lane<'a>>,
    /// Lanes without a request, the one that is taken next at the end.
    free: Vec<usize>,
    /// Clients whose requests wait for a lane, first come, first served. Each waits at most once.
    waiting: VecDeque<usize>,
}

struct Caller<'a> {
    socket: &'a UnixStream,
    /// The last request.
    message: Vec<u8>,
}

struct Lane<'a> {
    socket: &'a UnixStream,
    /// The client whose request it carries, if it is not free.
    caller: usize,
    /// The last answer.
    message: Vec<u8>,
}

impl<'a> Front<'a> {
    /// Clients are numbered from 0 in the event loop, lanes behind them.
    fn new(shape: &Shape, site: &'a Site, front: usize, speed: Speed) -> io::Result<Front<'a>> {
        let message = || message(shape.bytes);
        let own = |links: &'a [Link]| links.iter().skip(front).step_by(shape.fronts);
        let callers =
            own(&site.clients).map(|link| Caller { socket: &link.answering, message: message() });
        let lanes = own(&site.hops[0]).map(|link| Lane {
            socket: &link.asking,
            caller: 0,
            message: message(),
        });
        let (clients, lanes): (Vec<Caller>, Vec<Lane>) = (callers.collect(), lanes.collect());
        let epoll = Epoll::new()?;
        let sockets = clients.iter().map(|client| client.socket);
        for (number, socket) in sockets.chain(lanes.iter().map(|lane| lane.socket)).enumerate() {
            epoll.add(socket.as_fd(), number as u64)?;
        }
        // With room for all of them, which is touched here: see `message`.
        let mut waiting = VecDeque::from(vec![usize::MAX; clients.len()]);
        waiting.clear();
        Ok(Front {
            epoll,
            burner: Burner::new(speed),
            free: (0..lanes.len()).rev().collect(),
            waiting,
            clients,
            lanes,
        })
    }

    fn relay_all(&mut self, shape: &Shape, worker: &Worker) -> io::Result<()> {
        let mut ready = Ready::new(self.clients.len() + self.lanes.len());
        worker.start();
        while worker.running() {
            self.epoll.wait(&mut ready)?;
            for number in ready.numbers() {
                let number = number as usize;
                match number.checked_sub(self.clients.len()) {
                    None => self.take(number, shape.front, worker)?,
                    Some(lane) => self.relay(lane, shape.front)?,
                }
            }
        }
        Ok(())
    }

    /// A request: passed on if a connection is free.
    #[inline]
    fn take(&mut self, number: usize, work: Work, worker: &Worker) -> io::Result<()> {
        let client = &mut self.clients[number];
        let mut socket = client.socket;
        socket.read_exact(&mut client.message)?;
        let taken_ns = clock::monotonic_ns();
        let delay_ns = taken_ns.saturating_sub(channels::stamp(&client.message));
        worker.record(ACCEPT, taken_ns, delay_ns);
        worker.note_delay(delay_ns);
        self.burner.burn(work);
        match self.free.pop() {
            Some(lane) => self.pass_on(number, lane),
            None => {
                self.waiting.push_back(number);
                Ok(())
            }
        }
    }

    /// An answer: to the client whose request it was. The connection takes the next one.
    #[inline]
    fn relay(&mut self, number: usize, work: Work) -> io::Result<()> {
        let lane = &mut self.lanes[number];
        let mut socket = lane.socket;
        socket.read_exact(&mut lane.message)?;
        self.burner.burn(work);
        let mut client = self.clients[lane.caller].socket;
        client.write_all(&lane.message)?;
        match self.waiting.pop_front() {
            Some(waiting) => self.pass_on(waiting, number),
            None => {
                self.free.push(number);
                Ok(())
            }
        }
    }

    #[inline]
    fn pass_on(&mut self, client: usize, lane: usize) -> io::Result<()> {
        self.lanes[lane].caller = client;
        let mut socket = self.lanes[lane].socket;
        socket.write_all(&self.clients[client].message)
    }
}

#[cfg(test)]
mod tests;
