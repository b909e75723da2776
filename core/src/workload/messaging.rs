//! `messaging`: groups of senders and receivers, hackbench's shape.
//!
//! A group has one channel (socket pair or pipe) per receiver, and each of its senders
//! writes one message to each of the group's receivers in turn, for as long as the run
//! lasts. Most writes find a receiver asleep or a queue that is filling up, so the load is
//! wakeups, blocking and migration; groups do not talk to each other. hackbench times a fixed
//! number of messages; this counts messages over a fixed time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::model::{Kind, Params, fields, show_bytes};
use crate::sys::clock;

use super::burn::{Burner, Speed, Work};
use super::channels::{self, STAMP_BYTES, Wanted};
use super::contract::MAX_TASKS;
use super::{
    Latency, Load, Request, Role, Slot, Spec, UnderWay, WORK_TIME, Worker, Workload, WorkloadError,
    params,
};

pub struct Messaging;

const RECEIVER: usize = 0;
const SENDER: usize = 1;
const WAKEUP: usize = 0;
const DELIVERY: usize = 1;
/// Messages of several senders to one pipe stay whole up to here (PIPE_BUF).
const PIPE_ATOMIC_BYTES: u64 = 4 << 10;
/// ... and to one stream socket while the kernel puts each into one buffer of its own.
const SOCKET_ATOMIC_BYTES: u64 = 32 << 10;

const SPEC: Spec = Spec {
    name: "messaging",
    about: "groups of senders that each write to every receiver of their group (hackbench's \
            shape, for a time); one worker of `count` is one group",
    params: fields! {
        "senders": Kind::Int { min: 1, max: 10_000 }, "20" => "senders in each group";
        "receivers": Kind::Int { min: 1, max: 10_000 }, "20" =>
            "receivers in each group, each with a channel of its own";
        "over": Kind::Choice(&["socket", "pipe"]), "socket" =>
            "channels are Unix stream socket pairs or pipes";
        "size": Kind::Size { min_bytes: 8, max_bytes: SOCKET_ATOMIC_BYTES }, "100B" =>
            "bytes of each message; the first 8 carry the time of sending";
        "work": WORK_TIME =>
            "CPU time at full speed that a receiver works on each message; unset: none";
    },
    roles: &[Role { name: "receiver", counts: true }, Role { name: "sender", counts: false }],
    ops: "messages",
    histograms: &[
        Latency::headline(
            "wakeup",
            "from sending to the receiver's next instruction, for messages sent after their \
             receiver had begun to wait: those that found its channel empty",
        ),
        Latency::explaining(
            "delivery",
            "from sending to receiving, for all messages: also their time in the queue",
        ),
    ],
    ..Spec::PLAIN
};

impl Workload for Messaging {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        let shape = Shape::from_request(request)?;
        let group = shape.senders + shape.receivers;
        let workers = group as u64 * u64::from(request.count);
        if workers > MAX_TASKS {
            let Shape { senders, receivers, .. } = shape;
            let what =
                format!("{} groups of {senders} senders and {receivers} receivers", request.count);
            return Err(WorkloadError::TooMany { what, workers, max: MAX_TASKS });
        }
        Ok((0..workers as usize).map(|worker| shape.seat(worker).role()).collect())
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let shape = Shape::from_request(request)?;
        let wanted = Wanted {
            what: if shape.over == Over::Pipe { "pipe" } else { "socket pair" },
            count: request.count as usize * shape.receivers,
            files_each: 2,
            fewer: "groups or receivers",
        };
        let channels = wanted.open(|| Channel::new(shape.over))?;
        let work = params::optional_work(request.params, "work");
        Ok(Box::new(Groups { shape, channels, work, speed: request.speed }))
    }

    fn max_samples_per_s(&self, request: &Request) -> Option<f64> {
        let receivers =
            Shape::from_request(request).ok()?.receivers as u64 * u64::from(request.count);
        request.max_per_s(receivers, params::optional_work(request.params, "work")?.ns(), 0)
    }

    fn is_timed(&self, params: &Params) -> bool {
        params.contains_key("work")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Socket,
    Pipe,
}

/// The shape of every group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    senders: usize,
    receivers: usize,
    over: Over,
    bytes: usize,
}

/// A worker's place. Channels are numbered over all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seat {
    Receiver { channel: usize },
    Sender { channels: std::ops::Range<usize> },
}

impl Seat {
    fn role(&self) -> usize {
        match self {
            Seat::Receiver { .. } => RECEIVER,
            Seat::Sender { .. } => SENDER,
        }
    }
}

impl Shape {
    fn from_request(request: &Request) -> Result<Self, WorkloadError> {
        let given = request.params;
        let senders = params::count(given, "senders")?;
        let receivers = params::count(given, "receivers")?;
        let size = params::bytes(given, "size")?;
        let over = match params::text(given, "over")? {
            "pipe" => Over::Pipe,
            _ => Over::Socket,
        };
        if over == Over::Pipe && senders > 1 && size > PIPE_ATOMIC_BYTES {
            let whole = show_bytes(PIPE_ATOMIC_BYTES);
            return Err(WorkloadError::conflict(
                format!(
                    "messages of {} from {senders} senders would mix in a pipe, which keeps \
                     messages whole up to {whole}",
                    show_bytes(size)
                ),
                format!("over = \"socket\", or size = \"{whole}\""),
            )
            .at("size"));
        }
        Ok(Shape { senders, receivers, over, bytes: size as usize })
    }

    /// Groups one after the other; in each, receivers first, so that they wait already when
    /// the first message comes.
    fn seat(&self, worker: usize) -> Seat {
        let group = worker / (self.senders + self.receivers);
        let member = worker % (self.senders + self.receivers);
        let first = group * self.receivers;
        if member < self.receivers {
            Seat::Receiver { channel: first + member }
        } else {
            Seat::Sender { channels: first..first + self.receivers }
        }
    }
}

/// One receiver's, written to by all senders of its group.
struct Channel {
    reader: File,
    writer: File,
}

impl Channel {
    fn new(over: Over) -> io::Result<Self> {
        let (reader, writer): (OwnedFd, OwnedFd) = match over {
            Over::Socket => UnixStream::pair().map(|(one, other)| (one.into(), other.into()))?,
            Over::Pipe => io::pipe().map(|(reader, writer)| (reader.into(), writer.into()))?,
        };
        Ok(Channel { reader: reader.into(), writer: writer.into() })
    }

    /// Writes `message` with `sent_ns` in its first bytes.
    #[inline]
    fn send(&self, message: &mut [u8], sent_ns: u64) -> io::Result<()> {
        message[..STAMP_BYTES].copy_from_slice(&sent_ns.to_le_bytes());
        (&self.writer).write_all(message)
    }

    /// Reads one whole message and returns when it was sent.
    #[inline]
    fn receive(&self, message: &mut [u8]) -> io::Result<u64> {
        (&self.reader).read_exact(message)?;
        Ok(channels::stamp(message))
    }
}

struct Groups {
    shape: Shape,
    channels: Vec<Channel>,
    work: Option<Work>,
    speed: Speed,
}

impl Load for Groups {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let mut message = channels::message(self.shape.bytes);
        let result = match self.shape.seat(index) {
            Seat::Receiver { channel } => {
                let mut burner = self.work.map(|work| (Burner::new(self.speed), work));
                let burner = burner.as_mut();
                receive(&self.channels[channel], &mut message, burner, worker)
            }
            Seat::Sender { channels } => send(&self.channels[channels], &mut message, worker),
        };
        result.map_err(|source| WorkloadError::system("pass a message", source))
    }

    /// Senders begin them: a receiver notes only since when it waits.
    fn under_way(&self, index: usize, slot: &Slot, found: &mut UnderWay) {
        let Seat::Receiver { channel } = self.shape.seat(index) else { return };
        let sent = channels::waiting(self.channels[channel].reader.as_fd(), self.shape.bytes);
        sent.iter().for_each(|sent_ns| found.add(DELIVERY, *sent_ns));
        for (histogram, waiting_ns) in slot.begun() {
            let first = sent.iter().find(|sent_ns| **sent_ns >= waiting_ns);
            first.into_iter().for_each(|sent_ns| found.add(histogram, *sent_ns));
        }
    }
}

fn send(channels: &[Channel], message: &mut [u8], worker: &Worker) -> io::Result<()> {
    worker.start();
    while worker.running() {
        for channel in channels {
            channel.send(message, clock::monotonic_ns())?;
        }
    }
    Ok(())
}

fn receive(
    channel: &Channel,
    message: &mut [u8],
    mut burner: Option<&mut (Burner, Work)>,
    worker: &Worker,
) -> io::Result<()> {
    worker.start();
    let mut waiting_since_ns = clock::monotonic_ns();
    while worker.running() {
        worker.begin(WAKEUP, waiting_since_ns);
        let sent_ns = channel.receive(message)?;
        let received_ns = clock::monotonic_ns();
        let delay_ns = received_ns.saturating_sub(sent_ns);
        worker.record(DELIVERY, received_ns, delay_ns);
        if sent_ns >= waiting_since_ns {
            worker.note_delay(delay_ns);
            worker.record(WAKEUP, received_ns, delay_ns);
        } else {
            worker.forget(WAKEUP);
        }
        waiting_since_ns = match &mut burner {
            None => received_ns,
            Some((burner, work)) => {
                burner.burn(*work);
                clock::monotonic_ns()
            }
        };
        worker.add_ops(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Params, Raw};
    use crate::stats::Histogram;
    use crate::workload::testing::{SetMemory, WorkerGroup, params, request};
    use std::sync::Arc;

    fn given(senders: i64, receivers: i64, over: &str, size: &str) -> Params {
        let text = |text: &str| Raw::Text(text.to_string());
        let pairs = [
            ("senders", Raw::Int(senders)),
            ("receivers", Raw::Int(receivers)),
            ("over", text(over)),
            ("size", text(size)),
        ];
        params(&Messaging, &pairs)
    }

    fn layout(params: &Params, count: u32) -> Result<Vec<usize>, WorkloadError> {
        Messaging.layout(&request(params, count))
    }

    #[test]
    fn groups_follow_each_other_receivers_first_and_share_no_channel() {
        let params = given(1, 2, "pipe", "8B");
        let (r, s) = (RECEIVER, SENDER);
        assert_eq!(layout(&params, 2).unwrap(), [r, r, s, r, r, s]);
        let shape = Shape { senders: 1, receivers: 2, over: Over::Pipe, bytes: 8 };
        let seats: Vec<Seat> = (0..6).map(|worker| shape.seat(worker)).collect();
        let expected = [
            Seat::Receiver { channel: 0 },
            Seat::Receiver { channel: 1 },
            Seat::Sender { channels: 0..2 },
            Seat::Receiver { channel: 2 },
            Seat::Receiver { channel: 3 },
            Seat::Sender { channels: 2..4 },
        ];
        assert_eq!(seats, expected);
    }

    #[test]
    fn shapes_that_cannot_be_are_refused_in_words() {
        let cases: &[(Params, u32, Option<&str>)] = &[
            (given(20, 20, "pipe", "4KiB"), 1, None),
            (given(1, 20, "pipe", "32KiB"), 1, None),
            (given(2, 20, "socket", "32KiB"), 1, None),
            (given(2, 20, "pipe", "4097B"), 1, Some("messages of 4097B from 2 senders would mix")),
            (given(10_000, 10_000, "pipe", "8B"), 210, Some("make 4200000 workers, more than")),
            (given(20, 20, "pipe", "8B"), u32::MAX, Some("make 171798691800 workers, more than")),
        ];
        for (params, count, expected) in cases {
            match (layout(params, *count), expected) {
                (Ok(_), None) => {}
                (Err(why), Some(part)) if why.to_string().contains(part) => {}
                (got, _) => panic!("{expected:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_channel_keeps_messages_whole_in_order_and_with_their_time() {
        for over in [Over::Socket, Over::Pipe] {
            for bytes in [8, 9, 100, 4096] {
                let channel = Channel::new(over).unwrap();
                let (mut sent, mut got) = (vec![7; bytes], vec![0; bytes]);
                for time_ns in [1, u64::MAX] {
                    channel.send(&mut sent, time_ns).unwrap();
                }
                assert_eq!(channel.receive(&mut got).unwrap(), 1, "{over:?} {bytes}");
                assert_eq!(channel.receive(&mut got).unwrap(), u64::MAX, "{over:?} {bytes}");
                assert_eq!(got, sent);
            }
        }
    }

    #[test]
    fn a_message_that_arrives_in_pieces_is_received_whole() {
        let channel = Arc::new(Channel::new(Over::Pipe).unwrap());
        // More than a pipe holds, so that no single read gets it all. Not a scoped thread: if
        // the assertion fails, the sender waits without end.
        let sender = Arc::clone(&channel);
        std::thread::spawn(move || sender.send(&mut vec![7; 1 << 20], 42).unwrap());
        let mut got = vec![0; 1 << 20];
        assert_eq!(channel.receive(&mut got).unwrap(), 42);
        assert!(got[STAMP_BYTES..].iter().all(|&byte| byte == 7));
    }

    #[test]
    fn a_wakeup_is_a_message_sent_after_its_receiver_came_back_for_it() {
        let memory = SetMemory::opened(1, 2, 0);
        let SetMemory { slots, recorders, .. } = memory;
        let channel = Arc::new(Channel::new(Over::Socket).unwrap());
        let received = || -> [Histogram; 2] { std::array::from_fn(|kind| recorders.merged(kind)) };
        // Not a scoped thread: if an assertion fails, the receiver waits without end.
        let reader = Arc::clone(&channel);
        let receiver =
            std::thread::spawn(move || receive(&reader, &mut [0; 8], None, &memory.worker(0)));
        let send = |sent_ns: u64| {
            let ops = slots[0].ops();
            channel.send(&mut [0; 8], sent_ns).unwrap();
            while slots[0].ops() == ops {
                assert!(!receiver.is_finished());
                std::thread::yield_now();
            }
            received().map(|histogram| histogram.total())
        };
        assert_eq!(send(1), [0, 1], "older than the receiver");
        // The exact moment at which it was received.
        let received_ns = 1 + received()[DELIVERY].max_ns().unwrap();
        assert_eq!(send(received_ns - 1), [0, 2], "sent before the receiver came back");
        assert_eq!(send(clock::monotonic_ns()), [1, 3], "the receiver was there");
        let writer = UnixStream::from(OwnedFd::from(channel.writer.try_clone().unwrap()));
        writer.shutdown(std::net::Shutdown::Write).unwrap();
        let end = receiver.join().unwrap().unwrap_err();
        assert_eq!((end.kind(), slots[0].ops()), (io::ErrorKind::UnexpectedEof, 3));
    }

    #[test]
    fn messages_that_wait_are_under_way_and_the_first_one_wakes_a_receiver_that_waits() {
        for over in [Over::Socket, Over::Pipe] {
            let shape = Shape { senders: 1, receivers: 1, over, bytes: 100 };
            let channels = vec![Channel::new(over).unwrap()];
            let groups = Groups { shape, channels, work: None, speed: Speed::default() };
            let memory = SetMemory::opened(2, 2, 1);
            let receiver = memory.worker(0);
            let ages = || {
                let ages = memory.under_way(&groups, 1_000);
                ages.iter().map(Histogram::sparse).collect::<Vec<_>>()
            };
            assert_eq!(ages(), [vec![], vec![]]);
            let mut message = [0; 100];
            for sent_ns in [300, 600, 910] {
                groups.channels[0].send(&mut message, sent_ns).unwrap();
            }
            // Buckets are exact to 128 ns.
            let (n300, n600) = (700, 400);
            let delivery = vec![(90, 1), (n600, 1), (n300, 1)];
            assert_eq!(ages()[DELIVERY].len(), 3, "{over:?}");
            assert_eq!(ages()[WAKEUP], [], "no receiver waits");
            receiver.begin(WAKEUP, 500);
            assert_eq!(
                (ages()[WAKEUP].as_slice(), &ages()[DELIVERY]),
                (&[(n600, 1)][..], &delivery)
            );
            // Nothing was taken.
            assert_eq!(groups.channels[0].receive(&mut message).unwrap(), 300, "{over:?}");
            assert_eq!(ages()[DELIVERY].len(), 2);
        }
    }

    #[test]
    fn every_receiver_of_every_group_gets_messages_and_senders_count_none() {
        for (over, size) in [("socket", "100B"), ("socket", "32KiB"), ("pipe", "4KiB")] {
            let group = WorkerGroup::start(&Messaging, &given(3, 2, over, size), 2);
            let roles = layout(&given(3, 2, over, size), 2).unwrap();
            group.wait_until("messages everywhere", |group| {
                let mut workers = group.slots().iter().zip(&roles);
                workers.all(|(slot, &role)| role == SENDER || slot.ops() >= 50)
            });
            group.wait_until("a receiver that had to wait", |group| {
                group.measured().histograms[WAKEUP].total() > 0
            });
            group.stop();
            let measured = group.measured();
            let workers = group.slots().iter().zip(&roles);
            assert!(workers.filter(|(_, role)| **role == SENDER).all(|(slot, _)| slot.ops() == 0));
            let [wakeups, deliveries] = [WAKEUP, DELIVERY].map(|i| &measured.histograms[i]);
            assert!(wakeups.total() <= deliveries.total() + 4);
            // A wrong stamp would show as an age of the machine.
            assert!(deliveries.max_ns() < Some(60_000_000_000), "{over} {size}");
        }
    }
}
