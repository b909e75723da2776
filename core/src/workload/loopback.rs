//! `loopback`: clients and servers over the loopback interface, the shape of netperf's tests.
//!
//! Each client has a server of its own and a socket to it. Request and response (netperf's TCP_RR and UDP_RR): a
//! client has one request at a time under way. Each transaction is two wake-ups and two ways through the network
//! stack, whose receiving side runs as a softirq on the sender's CPU. Streams (TCP_STREAM, UDP_STREAM): a client
//! sends as fast as it can. TCP makes it wait where the server does not keep up; the kernel then drops some UDP
//! datagrams, so only messages count that the server received.
//!
//! All sockets are IPv4, bound to 127.0.0.1 with ports that the kernel chooses, and connected before any worker
//! exists.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::model::{
    Direction, Importance, Kind, Metric, MetricKind, MetricSpec, Params, Reading, Statistic, Unit,
    Value, fields, show_bytes,
};
use crate::sys::{clock, socket};

use super::channels::{Wanted, message};
use super::{
    Latency, Load, Measured, Request, Role, Spec, Worker, WorkerCounts, Workload, WorkloadError,
    params,
};

pub struct Loopback;

const CLIENT: usize = 0;
const SERVER: usize = 1;
const TRANSACTION: usize = 0;
/// Messages that a stream's client has sent.
const SENT: usize = 0;
/// Requests that were sent again.
const REPEATED: usize = 1;
const TESTS: [&str; 4] = ["tcp-rr", "udp-rr", "tcp-stream", "udp-stream"];
/// How long a client waits for an answer over UDP before it sends its request again.
const PATIENCE: Duration = Duration::from_millis(100);
const MAX_BYTES: u64 = 1 << 20;
/// 65,535 without the headers of IPv4 (20) and of UDP (8).
const MAX_DATAGRAM_BYTES: u64 = 65_507;
const TCP_MESSAGE_BYTES: u64 = 16 << 10;
const UDP_MESSAGE_BYTES: u64 = 1 << 10;
/// Port 0: one that is free.
const ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

const SPEC: Spec = Spec {
    name: "loopback",
    about: "clients and servers over the loopback interface (the shape of netperf's tests); one \
            worker of `count` is a client and its server",
    params: fields! {
        "test": Kind::Choice(&TESTS), "tcp-rr" =>
            "request and response, or a stream from the client to the server";
        "request": Kind::Size { min_bytes: 1, max_bytes: MAX_BYTES }, "1B" =>
            "bytes of each request; not of a stream";
        "response": Kind::Size { min_bytes: 1, max_bytes: MAX_BYTES }, "1B" =>
            "bytes of each response; not of a stream";
        "message": Kind::Size { min_bytes: 1, max_bytes: MAX_BYTES } =>
            "bytes of each message of a stream; unset: 16KiB over TCP, 1KiB over UDP";
        "socket-buffer": Kind::Size { min_bytes: 4 << 10, max_bytes: 1 << 30 } =>
            "bytes of the send and of the receive buffer of each socket; unset: as the kernel has \
             it, which sizes those of TCP as it goes";
    },
    roles: &[Role { name: "client", counts: false }, Role { name: "server", counts: true }],
    ops: "transactions",
    histograms: &[Latency::headline(
        "transaction",
        "from a client's sending of a request to its having the answer, also where it had \
         to send it again",
    )],
    counters: &["sent", "repeated"],
    metrics: &[BANDWIDTH, LOST],
    ..Spec::PLAIN
};

const BANDWIDTH: MetricSpec =
    MetricSpec::new("bandwidth", Unit::BytesPerS, Direction::HigherIsBetter, Statistic::Rate)
        .about("streams: bytes of messages that servers received, per second")
        .headline();

const LOST: MetricSpec =
    MetricSpec::new("lost", Unit::Ratio, Direction::LowerIsBetter, Statistic::Share).about(
        "UDP: the share of datagrams sent that no server received; of requests, the \
         share that had no answer within 100 ms and was sent again",
    );

impl Workload for Loopback {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        Shape::from_params(request.params)?;
        Ok([CLIENT, SERVER].repeat(request.count as usize))
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let shape = Shape::from_params(request.params)?;
        let count = request.count as usize;
        let wanted = Wanted { what: "connection", count, files_each: 2, fewer: "pairs" };
        let pairs = wanted.open(|| Pair::new(&shape))?;
        if let (Some(asked), Some(pair)) = (shape.buffer, pairs.first()) {
            let got = socket::buffer_bytes(pair.server.as_fd())
                .map_err(|source| WorkloadError::system("read a socket's buffers", source))?;
            check_buffer(asked, got)?;
        }
        Ok(Box::new(Pairs { shape, pairs }))
    }

    fn ops(&self, params: &Params) -> &'static str {
        if is_stream(params) { "messages" } else { SPEC.ops }
    }

    fn throughput(&self, params: &Params) -> Importance {
        // A stream's throughput is its bandwidth in messages, which explains.
        if is_stream(params) { Importance::Explaining } else { SPEC.throughput }
    }

    fn histograms(&self, params: &Params) -> &'static [Latency] {
        if is_stream(params) { &[] } else { SPEC.histograms }
    }

    fn metrics(&self, params: &Params) -> Vec<MetricKind> {
        let test = Test::from_params(params).unwrap_or_default();
        test.metrics().iter().map(MetricSpec::kind).collect()
    }
}

/// Parameters without a test are of the default one.
fn is_stream(params: &Params) -> bool {
    Test::from_params(params).unwrap_or_default().is_stream
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Test {
    is_udp: bool,
    is_stream: bool,
}

impl Test {
    fn from_params(params: &Params) -> Result<Test, WorkloadError> {
        let word = params::text(params, "test")?;
        Ok(Test { is_udp: word.starts_with("udp"), is_stream: word.ends_with("stream") })
    }

    fn metrics(self) -> &'static [MetricSpec] {
        match (self.is_udp, self.is_stream) {
            (true, true) => &[BANDWIDTH, LOST],
            (true, false) => &[LOST],
            (false, true) => &[BANDWIDTH],
            (false, false) => &[],
        }
    }
}

/// The shape of every pair, in bytes.
struct Shape {
    test: Test,
    request: usize,
    response: usize,
    message: usize,
    buffer: Option<usize>,
}

impl Shape {
    fn from_params(params: &Params) -> Result<Shape, WorkloadError> {
        let test = Test::from_params(params)?;
        let optional = |name: &str| params.get(name).and_then(Value::as_bytes);
        let usual = if test.is_udp { UDP_MESSAGE_BYTES } else { TCP_MESSAGE_BYTES };
        let [request, response, message] = [
            params::bytes(params, "request")?,
            params::bytes(params, "response")?,
            optional("message").unwrap_or(usual),
        ];
        let sizes = [
            ("request", request, !test.is_stream),
            ("response", response, !test.is_stream),
            ("message", message, test.is_stream),
        ];
        let is_too_large = |(_, bytes, is_sent): &(&str, u64, bool)| {
            test.is_udp && *is_sent && *bytes > MAX_DATAGRAM_BYTES
        };
        let whole = show_bytes(MAX_DATAGRAM_BYTES);
        match sizes.into_iter().find(is_too_large) {
            Some((name, bytes, _)) => Err(WorkloadError::conflict(
                format!("{name} = {}: a UDP datagram holds at most {whole}", show_bytes(bytes)),
                format!("{name} = \"{whole}\", or a test over TCP"),
            )
            .at(name)),
            None => Ok(Shape {
                test,
                request: request as usize,
                response: response as usize,
                message: message as usize,
                buffer: optional("socket-buffer").map(|bytes| bytes as usize),
            }),
        }
    }
}

/// Whether the kernel gave a socket the buffer that it was asked for.
fn check_buffer(asked: usize, got: usize) -> Result<(), WorkloadError> {
    if got >= asked {
        return Ok(());
    }
    let [asked, got] = [asked, got].map(|bytes| show_bytes(bytes as u64));
    Err(WorkloadError::Param {
        param: "socket-buffer",
        value: asked,
        problem: format!("is more than this kernel gives: {got}"),
        hint: "less, or with higher limits: sysctl net.core.wmem_max net.core.rmem_max",
    })
}

/// The ends of a connection. Reading and writing pass datagrams whole.
struct Pair {
    client: File,
    server: File,
}

impl Pair {
    fn new(shape: &Shape) -> io::Result<Pair> {
        let [client, server] = if shape.test.is_udp { udp(shape)? } else { tcp(shape)? };
        if let Some(bytes) = shape.buffer {
            socket::set_buffers(client.as_fd(), bytes)?;
            socket::set_buffers(server.as_fd(), bytes)?;
        }
        Ok(Pair { client: client.into(), server: server.into() })
    }
}

/// Client and server.
fn tcp(shape: &Shape) -> io::Result<[OwnedFd; 2]> {
    let listener = TcpListener::bind(ADDRESS)?;
    if let Some(bytes) = shape.buffer {
        // How far a server's window can grow is settled when it is connected to.
        socket::set_buffers(listener.as_fd(), bytes)?;
    }
    let client = TcpStream::connect(listener.local_addr()?)?;
    let own = client.local_addr()?;
    // Others on this machine may connect, too.
    let server = loop {
        let (server, peer) = listener.accept()?;
        if peer == own {
            break server;
        }
    };
    if !shape.test.is_stream {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
    }
    Ok([client.into(), server.into()])
}

/// A client and a server. Each receives only from the other.
fn udp(shape: &Shape) -> io::Result<[OwnedFd; 2]> {
    let (client, server) = (UdpSocket::bind(ADDRESS)?, UdpSocket::bind(ADDRESS)?);
    client.connect(server.local_addr()?)?;
    server.connect(client.local_addr()?)?;
    if !shape.test.is_stream {
        client.set_read_timeout(Some(PATIENCE))?;
    }
    Ok([client.into(), server.into()])
}

struct Pairs {
    shape: Shape,
    pairs: Vec<Pair>,
}

impl Load for Pairs {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let pair = &self.pairs[index / 2];
        let result = match (index % 2, self.shape.test.is_stream) {
            (CLIENT, false) => self.ask(&pair.client, worker),
            (CLIENT, true) => self.send(&pair.client, worker),
            (_, false) => self.answer(&pair.server, worker),
            (_, true) => self.receive(&pair.server, worker),
        };
        result.map_err(|source| WorkloadError::system("pass a message", source))
    }

    fn metrics(&self, measured: &Measured) -> Vec<Metric> {
        let specs = self.shape.test.metrics().iter();
        let value = |spec: &MetricSpec| {
            if *spec == LOST {
                self.lost(measured)
            } else {
                received_per_s(measured).map(|rate| rate * self.shape.message as f64)
            }
        };
        specs.map(|spec| spec.reading(value(spec))).collect()
    }
}

/// The first byte of a request and of its answer is the number of the transaction: a repeated message is recognised
/// by it.
impl Pairs {
    fn ask(&self, mut server: &File, worker: &Worker) -> io::Result<()> {
        let (mut request, mut response) =
            (message(self.shape.request), message(self.shape.response));
        worker.start();
        while worker.running() {
            request[0] = request[0].wrapping_add(1);
            let sent_ns = clock::monotonic_ns();
            worker.begin(TRANSACTION, sent_ns);
            server.write_all(&request)?;
            while !is_answered(server, &mut response, request[0])? {
                if !worker.running() {
                    return Ok(());
                }
                worker.count(REPEATED, 1);
                server.write_all(&request)?;
            }
            let answered_ns = clock::monotonic_ns();
            worker.record(TRANSACTION, answered_ns, answered_ns - sent_ns);
            worker.note_delay(answered_ns - sent_ns);
        }
        Ok(())
    }

    fn answer(&self, mut client: &File, worker: &Worker) -> io::Result<()> {
        let (mut request, mut response) =
            (message(self.shape.request), message(self.shape.response));
        worker.start();
        while worker.running() {
            client.read_exact(&mut request)?;
            let is_new = response[0] != request[0];
            response[0] = request[0];
            client.write_all(&response)?;
            worker.add_ops(u64::from(is_new));
        }
        Ok(())
    }

    fn send(&self, mut server: &File, worker: &Worker) -> io::Result<()> {
        let message = message(self.shape.message);
        worker.start();
        while worker.running() {
            server.write_all(&message)?;
            worker.count(SENT, 1);
        }
        Ok(())
    }

    fn receive(&self, mut client: &File, worker: &Worker) -> io::Result<()> {
        let mut message = message(self.shape.message);
        worker.start();
        while worker.running() {
            client.read_exact(&mut message)?;
            worker.add_ops(1);
        }
        Ok(())
    }

    /// The share of messages that were lost. For a stream it is computed from rates, as a client and its server are
    /// not read at one moment; messages in a socket at one end of the measured section do not count as lost.
    fn lost(&self, measured: &Measured) -> Reading<f64> {
        if !self.shape.test.is_stream {
            let repeated = measured.counters[REPEATED] as f64;
            let sent = measured.ops as f64 + repeated;
            return Reading::from_option((sent > 0.0).then(|| repeated / sent), NOTHING_SENT);
        }
        let sent = per_s(measured, |worker| worker.counters[SENT]);
        sent.and_then(|sent| {
            if sent > 0.0 {
                received_per_s(measured).map(|received| (1.0 - received / sent).max(0.0))
            } else {
                Reading::Unknown(NOTHING_SENT.to_string())
            }
        })
    }
}

const NOTHING_SENT: &str = "nothing was sent in the measured section";

/// Whether the transaction of this number is answered. Only a socket of UDP gives up waiting.
#[inline]
fn is_answered(mut server: &File, response: &mut [u8], number: u8) -> io::Result<bool> {
    loop {
        match server.read_exact(response) {
            Ok(()) if response[0] == number => return Ok(true),
            // The second answer to a request that was sent again.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// The sum of the workers' rates, each over its own time.
fn per_s(measured: &Measured, count: impl Fn(&WorkerCounts) -> u64) -> Reading<f64> {
    let is_timed = measured.workers.iter().all(|worker| worker.wall_ns > 0);
    let rate = |worker: &WorkerCounts| count(worker) as f64 * 1e9 / worker.wall_ns as f64;
    let sum = is_timed.then(|| measured.workers.iter().map(rate).sum());
    Reading::from_option(sum, "a worker was measured for no time")
}

fn received_per_s(measured: &Measured) -> Reading<f64> {
    per_s(measured, |worker| worker.ops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Advice;
    use crate::model::{Raw, WorkerKind};
    use crate::workload::MAX_COUNTERS;
    use crate::workload::testing::{SetMemory, WorkerGroup, params, request};

    fn given(pairs: &[(&str, &str)]) -> Params {
        let raw: Vec<(&str, Raw)> =
            pairs.iter().map(|(name, text)| (*name, Raw::Text(text.to_string()))).collect();
        params(&Loopback, &raw)
    }

    fn assert_goes_on(pairs: &[(&str, &str)], kind: WorkerKind) {
        let params = given(pairs);
        let group = WorkerGroup::start_as(&Loopback, &params, 2, kind);
        group.wait_until(&format!("operations of {pairs:?}"), |group| {
            group.slots().iter().skip(1).step_by(2).all(|server| server.ops() >= 50)
        });
        group.stop();
        assert!(group.slots().iter().step_by(2).all(|client| client.ops() == 0));
        let measured = group.measured();
        match is_stream(&params) {
            true => assert!(measured.histograms.is_empty()),
            // The answer to each server's last request may not have been received yet.
            false => assert!(measured.histograms[TRANSACTION].total() >= 2 * 49, "{pairs:?}"),
        }
        let metrics = group.load().metrics(&measured);
        for Metric { kind, value } in metrics {
            let value = value.known().expect(&kind.name);
            let is_right = match kind.name.as_str() {
                "lost" => (0.0..1.0).contains(&value),
                // In the second that `measured` assumes.
                _ => {
                    value
                        == (measured.ops * Shape::from_params(&params).unwrap().message as u64)
                            as f64
                }
            };
            assert!(is_right, "{} {value}", kind.name);
        }
    }

    #[test]
    fn every_test_goes_on_at_every_size() {
        for test in TESTS {
            assert_goes_on(&[("test", test)], WorkerKind::Threads);
        }
        // Larger than a socket's buffer: both sides must then read as they go.
        let sizes = |test, bytes| {
            [("test", test), ("request", bytes), ("response", bytes), ("message", bytes)]
        };
        for (test, bytes) in [("tcp-rr", "1MiB"), ("tcp-stream", "1MiB"), ("udp-rr", "65507B")] {
            assert_goes_on(&sizes(test, bytes), WorkerKind::Threads);
        }
        assert_goes_on(&sizes("udp-stream", "65507B"), WorkerKind::Threads);
        assert_goes_on(&[("test", "tcp-stream"), ("socket-buffer", "8KiB")], WorkerKind::Threads);
    }

    #[test]
    fn processes_pass_messages_in_every_test() {
        for test in TESTS {
            assert_goes_on(&[("test", test)], WorkerKind::Processes);
        }
    }

    #[test]
    fn a_message_of_a_stream_has_the_size_that_is_usual_for_its_protocol() {
        let message = |pairs: &[_]| Shape::from_params(&given(pairs)).unwrap().message;
        assert_eq!(message(&[("test", "tcp-stream")]), 16 << 10);
        assert_eq!(message(&[("test", "udp-stream")]), 1 << 10);
        assert_eq!(message(&[("test", "udp-stream"), ("message", "2B")]), 2);
    }

    #[test]
    fn what_no_datagram_holds_is_refused_where_it_is_sent_as_one() {
        let large = "65508B";
        let cases: &[(&str, &str, bool)] = &[
            ("udp-rr", "request", true),
            ("udp-rr", "response", true),
            ("udp-rr", "message", false),
            ("udp-stream", "message", true),
            ("udp-stream", "request", false),
            ("tcp-rr", "request", false),
            ("tcp-stream", "message", false),
        ];
        for (test, name, is_refused) in cases {
            let params = given(&[("test", test), (name, large)]);
            let result = Loopback.layout(&request(&params, 1));
            assert_eq!(result.is_err(), *is_refused, "{test} {name}");
            let Err(error) = result else { continue };
            assert!(error.to_string().contains(&format!("{name} = 65508B")), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("65507B")), "{error}");
        }
    }

    #[test]
    fn a_buffer_that_the_kernel_does_not_give_is_an_error_with_both_sizes() {
        assert!(check_buffer(4096, 4096).is_ok() && check_buffer(4096, 8192).is_ok());
        let error = check_buffer(1 << 20, 208 << 10).unwrap_err();
        for part in ["socket-buffer", "1MiB", "208KiB"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(error.hint().is_some_and(|hint| hint.contains("net.core.rmem_max")));
    }

    /// Clients, servers and ports of this machine alone.
    #[test]
    fn both_ends_are_on_the_loopback_interface_and_wait_for_no_more_data() {
        for is_stream in [false, true] {
            let mut shape = Shape::from_params(&given(&[("socket-buffer", "64KiB")])).unwrap();
            shape.test.is_stream = is_stream;
            let [client, server] = tcp(&shape).unwrap().map(TcpStream::from);
            assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
            assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
            for end in [&client, &server] {
                assert_eq!(end.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
                assert_eq!(end.nodelay().unwrap(), !is_stream);
            }
            assert_eq!(socket::buffer_bytes(server.as_fd()).unwrap(), 64 << 10);
            let [client, server] = udp(&shape).unwrap().map(UdpSocket::from);
            assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
            assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
            let patience = client.read_timeout().unwrap();
            assert_eq!(patience, (!is_stream).then_some(PATIENCE));
        }
    }

    /// One worker of a UDP pair at work, and the other end for the test.
    struct Half {
        memory: SetMemory,
        other: File,
    }

    impl Half {
        /// Not a scoped thread: if an assertion fails, the worker goes on.
        fn start(role: usize) -> Half {
            let memory = SetMemory::opened(1, 1, 0);
            let shape = Shape::from_params(&given(&[("test", "udp-rr")])).unwrap();
            let pair = Pair::new(&shape).unwrap();
            let other = if role == CLIENT { &pair.server } else { &pair.client };
            let other = other.try_clone().unwrap();
            let load = Pairs { shape, pairs: vec![pair] };
            std::thread::spawn(move || {
                if let Err(why) = load.work(role, &memory.worker(0)) {
                    memory.slots[0].fail(&why.to_string());
                }
            });
            Half { memory, other }
        }

        fn send(&self, number: u8) {
            assert_eq!((&self.other).write(&[number]).unwrap(), 1);
        }

        fn receive(&self) -> u8 {
            let mut number = [0];
            loop {
                match (&self.other).read_exact(&mut number) {
                    Ok(()) => return number[0],
                    // A client's socket on a busy machine.
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
        }
    }

    #[test]
    fn a_request_without_an_answer_is_sent_again_and_its_second_answer_is_ignored() {
        let client = Half::start(CLIENT);
        let first = client.receive();
        assert_eq!(client.receive(), first, "nobody answered");
        assert_eq!(client.memory.recorders.merged(TRANSACTION).total(), 0);
        client.send(first);
        client.send(first);
        // On a busy machine it may have been sent more often.
        let mut next = client.receive();
        while next == first {
            next = client.receive();
        }
        assert_eq!(next, first.wrapping_add(1));
        assert_eq!(client.memory.recorders.merged(TRANSACTION).total(), 1);
        assert_eq!(client.receive(), next, "the second answer to the first one is none to this");
        let transactions = client.memory.recorders.merged(TRANSACTION);
        assert_eq!(transactions.total(), 1);
        // From the first request. The kernel rounds the time to its ticks.
        assert!(transactions.min_ns() >= Some(PATIENCE.as_nanos() as u64 / 2));
        assert!(client.memory.slots[0].counters()[REPEATED] >= 2);
        client.memory.stop();
    }

    #[test]
    fn a_request_that_comes_twice_is_answered_twice_and_counts_once() {
        let server = Half::start(SERVER);
        for number in [1, 1, 2, 1, 1, 2] {
            server.send(number);
            assert_eq!(server.receive(), number);
        }
        // The server counts its answers.
        while server.memory.slots[0].ops() < 4 {
            assert_eq!(server.memory.slots[0].failure(), None);
            std::thread::yield_now();
        }
        assert_eq!(server.memory.slots[0].ops(), 4);
        server.memory.stop();
    }

    #[test]
    fn rates_are_over_each_workers_own_time_and_no_loss_is_below_zero() {
        let pairs = |words: &[_]| Pairs {
            shape: Shape::from_params(&given(words)).unwrap(),
            pairs: vec![],
        };
        let worker = |wall_ns, ops, sent, repeated| {
            let mut counters = [0; MAX_COUNTERS];
            (counters[SENT], counters[REPEATED]) = (sent, repeated);
            WorkerCounts { wall_ns, ops, counters }
        };
        let measured = |workers: Vec<WorkerCounts>| {
            let sum = |index| workers.iter().map(|worker| worker.counters[index]).sum();
            Measured {
                measured_ns: 1,
                ops: workers.iter().map(|worker| worker.ops).sum(),
                counters: std::array::from_fn(sum),
                workers,
                ..Measured::default()
            }
        };
        let values = |words: &[_], workers: Vec<WorkerCounts>| -> Vec<Option<f64>> {
            let metrics = pairs(words).metrics(&measured(workers));
            metrics.into_iter().map(|metric| metric.value.known()).collect()
        };
        const S: u64 = 1_000_000_000;
        let stream = [("test", "udp-stream"), ("message", "100B")];
        let [client, server] = [worker(2 * S, 0, 400, 0), worker(S, 150, 0, 0)];
        assert_eq!(values(&stream, vec![client, server]), [Some(15_000.0), Some(0.25)]);
        assert_eq!(values(&stream, vec![client, worker(S, 201, 0, 0)])[1], Some(0.0));
        assert_eq!(values(&stream, vec![worker(S, 0, 0, 0)]), [Some(0.0), None]);
        assert_eq!(values(&stream, vec![worker(0, 0, 1, 0), server]), [None, None]);
        let rr = [("test", "udp-rr")];
        assert_eq!(values(&rr, vec![worker(S, 0, 0, 1), worker(S, 3, 0, 0)]), [Some(0.25)]);
        assert_eq!(values(&rr, vec![worker(S, 0, 0, 0)]), [None]);
        assert_eq!(values(&[("test", "tcp-rr")], vec![client]), []);
    }
}
