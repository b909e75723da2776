//! Chains of services with real threads, and their parameters.

use super::*;
use crate::model::{Params, Raw, WorkerKind};
use crate::workload::Recorders;
use crate::workload::testing::{SetMemory, WorkerGroup, params, request};
use std::sync::Arc;

fn given(ints: &[(&str, i64)], texts: &[(&str, &str)]) -> Params {
    let ints = ints.iter().map(|&(name, value)| (name, Raw::Int(value)));
    let texts = texts.iter().map(|&(name, text)| (name, Raw::Text(text.to_string())));
    params(&ServiceChain, &ints.chain(texts).collect::<Vec<_>>())
}

fn small(clients: i64, fronts: i64, depth: i64, threads: i64) -> Params {
    let shape = [("clients", clients), ("fronts", fronts), ("depth", depth), ("threads", threads)];
    given(&[&shape[..], &[("front-kops", 0), ("hop-kops", 0)]].concat(), &[])
}

fn layout(params: &Params, count: u32) -> Result<Vec<usize>, WorkloadError> {
    ServiceChain.layout(&request(params, count))
}

fn shape(params: &Params) -> Shape {
    Shape::from_request(&request(params, 1)).unwrap()
}

#[test]
fn installations_follow_each_other_and_answerers_come_before_those_that_ask() {
    let params = small(3, 2, 2, 2);
    let once = [SERVICE, SERVICE, SERVICE, SERVICE, FRONT, FRONT, CLIENT, CLIENT, CLIENT];
    assert_eq!(layout(&params, 2).unwrap(), once.repeat(2));
    let shape = shape(&params);
    let service = |hop, lane| Seat::Service { hop, lane };
    let seats = [
        service(1, 0),
        service(1, 1),
        service(0, 0),
        service(0, 1),
        Seat::Front(0),
        Seat::Front(1),
        Seat::Client(0),
        Seat::Client(1),
        Seat::Client(2),
    ];
    for site in 0..2 {
        for (member, &seat) in seats.iter().enumerate() {
            assert_eq!(shape.seat(site * seats.len() + member), (site, seat));
        }
    }
    assert_eq!(shape.sockets(), 3 + 2 * 2);
}

#[test]
fn shapes_that_cannot_be_are_refused_in_words() {
    let cases: &[(Params, u32, Option<&str>)] = &[
        (small(1, 1, 1, 1), 1, None),
        (small(2, 2, 1, 2), 1, None),
        (small(1, 2, 1, 2), 1, Some("clients = 1 leaves some of 2 front threads")),
        (small(9, 3, 1, 2), 1, Some("threads = 2 leaves some of 3 front threads")),
        (small(10_000, 1, 100, 10_000), 5, Some("make 5050005 workers, more than")),
        (small(1, 1, 1, 1), u32::MAX, Some("make 12884901885 workers, more than")),
    ];
    for (params, count, expected) in cases {
        match (layout(params, *count), expected) {
            (Ok(_), None) => {}
            (Err(why), Some(part)) if why.to_string().contains(part) => {}
            (got, _) => panic!("{expected:?}: {:?}", got.map(|roles| roles.len())),
        }
    }
}

/// A front thread whose clients and first service the test plays.
struct Played {
    sites: Arc<Sites>,
    front: std::thread::JoinHandle<io::Result<()>>,
    recorders: Recorders,
}

fn play(params: &Params) -> Played {
    let shape = shape(params);
    let sites =
        Arc::new(Sites { sites: Site::all(&shape, 1).unwrap(), shape, speed: Speed::default() });
    let memory = SetMemory::opened(1, 2, 0);
    let own = Arc::clone(&sites);
    // Not a scoped thread: if an assertion fails, the front waits without end.
    let front = std::thread::spawn(move || {
        Front::new(&own.shape, &own.sites[0], 0, Speed::default())?
            .relay_all(&own.shape, &memory.worker(0))
    });
    Played { sites, front, recorders: memory.recorders }
}

fn write(mut to: &UnixStream, tag: u8) {
    to.write_all(&[tag; 512]).unwrap();
}

fn read(mut from: &UnixStream) -> u8 {
    // A message that never comes fails the test; nothing else waits this long.
    from.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut message = [0; 512];
    from.read_exact(&mut message).unwrap();
    assert!(message.iter().all(|&byte| byte == message[0]));
    message[0]
}

#[test]
fn a_front_keeps_what_has_no_connection_and_gives_each_client_its_own_answer() {
    let played = play(&small(3, 1, 1, 2));
    let site = &played.sites.sites[0];
    let (clients, lanes) = (&site.clients, &site.hops[0]);
    // One after the other, so that each client's connection is known.
    for client in 0..2 {
        write(&clients[client].asking, client as u8);
        assert_eq!(read(&lanes[client].answering), client as u8);
    }
    write(&clients[2].asking, 2);
    // Not before a connection is free again: the second answer comes first.
    write(&lanes[1].answering, 101);
    assert_eq!(read(&clients[1].asking), 101);
    assert_eq!(read(&lanes[1].answering), 2);
    write(&lanes[1].answering, 102);
    assert_eq!(read(&clients[2].asking), 102);
    write(&lanes[0].answering, 100);
    assert_eq!(read(&clients[0].asking), 100);
    // Both are free: the one that was used last is taken first.
    write(&clients[1].asking, 3);
    assert_eq!(read(&lanes[0].answering), 3);
    assert_eq!(played.recorders.merged(ACCEPT).total(), 4);
    assert_eq!(played.recorders.merged(REQUEST).total(), 0);
    for link in clients.iter().chain(lanes) {
        link.asking.shutdown(std::net::Shutdown::Both).unwrap();
    }
    let end = played.front.join().unwrap().unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_request_is_under_way_and_not_accepted_until_its_front_has_read_it() {
    let shape = shape(&small(1, 1, 1, 1));
    let sites = Sites { sites: Site::all(&shape, 1).unwrap(), shape, speed: Speed::default() };
    let memory = SetMemory::opened(3, 2, 1);
    let client = memory.worker(2);
    let ages = || {
        let ages = memory.under_way(&sites, 100);
        ages.iter().map(crate::stats::Histogram::max_ns).collect::<Vec<_>>()
    };
    assert_eq!(ages(), [None, None]);
    client.begin(REQUEST, 40);
    let mut message = [0; 512];
    message[..STAMP_BYTES].copy_from_slice(&40u64.to_le_bytes());
    let Link { asking, answering } = &sites.sites[0].clients[0];
    (&mut &*asking).write_all(&message).unwrap();
    assert_eq!(ages(), [Some(60), Some(60)]);
    (&mut &*answering).read_exact(&mut message).unwrap();
    assert_eq!(ages(), [Some(60), None]);
}

#[test]
fn each_front_has_clients_and_connections_of_its_own() {
    let shape = shape(&small(5, 2, 2, 3));
    let site = &Site::all(&shape, 1).unwrap()[0];
    for (front, clients, lanes) in [(0, vec![0, 2, 4], vec![0, 2]), (1, vec![1, 3], vec![1])] {
        let own = Front::new(&shape, site, front, Speed::default()).unwrap();
        let place = |links: &[Link], socket: &UnixStream| {
            links.iter().position(|link| {
                std::ptr::eq(&link.answering, socket) || std::ptr::eq(&link.asking, socket)
            })
        };
        let of = own.clients.iter().filter_map(|own| place(&site.clients, own.socket));
        assert_eq!(of.collect::<Vec<_>>(), clients);
        let of = own.lanes.iter().filter_map(|own| place(&site.hops[0], own.socket));
        assert_eq!(of.collect::<Vec<_>>(), lanes);
    }
}

#[test]
fn a_service_asks_the_next_of_its_lane_before_it_answers() {
    let shape = shape(&small(1, 1, 2, 2));
    let sites =
        Arc::new(Sites { sites: Site::all(&shape, 1).unwrap(), shape, speed: Speed::default() });
    let memory = SetMemory::opened(2, 2, 0);
    for hop in 0..2 {
        let own = Arc::clone(&sites);
        std::thread::spawn(move || own.serve(&own.sites[0], hop, 1, &memory.worker(hop)));
        if hop == 0 {
            let hops = &sites.sites[0].hops;
            write(&hops[0][1].asking, 7);
            assert_eq!(read(&hops[1][1].answering), 7);
            write(&hops[1][1].answering, 8);
            assert_eq!(read(&hops[0][1].asking), 8);
        }
    }
    let hops = &sites.sites[0].hops;
    write(&hops[0][1].asking, 9);
    assert_eq!(read(&hops[0][1].asking), 9, "through both");
}

#[test]
fn every_client_of_every_installation_gets_answers() {
    let crowded = [("clients", 7), ("fronts", 2), ("depth", 3), ("threads", 2)];
    let work = [("front-kops", 1), ("hop-kops", 1)];
    let cases = [
        (small(7, 2, 3, 2), WorkerKind::Threads),
        (small(7, 2, 3, 2), WorkerKind::Processes),
        (given(&[&crowded[..], &work[..]].concat(), &[("size", "32KiB")]), WorkerKind::Threads),
        (given(&crowded, &[("size", "8B"), ("think", "100us")]), WorkerKind::Threads),
    ];
    for (params, kind) in cases {
        let group = WorkerGroup::start_as(&ServiceChain, &params, 2, kind);
        let roles = layout(&params, 2).unwrap();
        group.wait_until("answers for everybody", |group| {
            let mut workers = group.slots().iter().zip(&roles);
            workers.all(|(slot, &role)| role != CLIENT || slot.ops() >= 20)
        });
        group.stop();
        let measured = group.measured();
        let workers = group.slots().iter().zip(&roles);
        assert!(workers.filter(|(_, role)| **role != CLIENT).all(|(slot, _)| slot.ops() == 0));
        let [requests, accepts] = [REQUEST, ACCEPT].map(|i| &measured.histograms[i]);
        assert!(accepts.total() + 1 >= 20 * 14 && requests.total() + 1 >= 20 * 14);
        // A wrong stamp would show as an age of the machine.
        assert!(accepts.max_ns() < Some(60_000_000_000));
        assert!(accepts.min_ns() <= requests.min_ns(), "part of the request");
    }
}
