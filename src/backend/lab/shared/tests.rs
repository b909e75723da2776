//! The cache against servers of all kinds: good ones, and those that are slow, gone, full of rubbish or
//! hostile. Everything that a bad one does is a miss and a fault.

use super::*;
use crate::model::Advice;
use testing::{Reply, Server};

const ANSWER: &[u8] = b"{\"type\":\"started\"}\n{\"type\":\"ended\"}\n";
/// Instead of two seconds.
const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(3600);

fn key(number: u32) -> String {
    sha256(&number.to_le_bytes())
}

fn config(url: &str) -> model::SharedCache {
    model::SharedCache { url: url.parse().unwrap(), may_write: true, trust_percent: 100.0 }
}

/// Opens a cache with more patience than a busy machine needs.
fn open(url: &str) -> SharedCache {
    let state = std::env::temp_dir().join("no/such");
    SharedCache::with_patience(&config(url), &state, LONG).unwrap()
}

fn impatient(url: &str) -> SharedCache {
    let state = std::env::temp_dir().join("no/such");
    SharedCache::with_patience(&config(url), &state, SHORT).unwrap()
}

/// The entries of an answer under this key, with what a test makes wrong.
fn poison(server: &Server, key: &str, sha256: &str, bytes: u64, content: Vec<u8>) {
    let named = action::Named { sha256: sha256.to_string(), bytes };
    let mut entries = server.entries();
    entries.insert(format!("/ac/{key}"), action::encode(&named));
    entries.insert(format!("/cas/{sha256}"), content);
}

fn put_good(server: &Server, number: u32, answer: &[u8]) {
    let packed = packed::pack(answer).unwrap();
    poison(server, &key(number), &sha256(&packed), packed.len() as u64, packed);
}

#[test]
fn what_one_user_sends_another_one_finds() {
    let server = Server::kept();
    let url = format!("{}/a/team/", server.url);
    let first = open(&url);
    assert_eq!(first.get(&key(1)), None);
    first.put(&key(1), ANSWER);
    let report = first.end();
    assert_eq!((report.sent, report.not_sent, report.faults), (1, 0, Vec::new()));
    let second = open(&url);
    assert_eq!(second.get(&key(1)).as_deref(), Some(ANSWER));
    assert_eq!(second.get(&key(2)), None);
    second.used(false);
    let report = second.end();
    assert_eq!((report.answers, report.sent, report.faults), (1, 0, Vec::new()));
    let requests = server.requests();
    let contents = requests.iter().position(|request| request.starts_with("PUT /a/team/cas/"));
    let action = requests.iter().position(|request| request.starts_with("PUT /a/team/ac/"));
    assert!(contents.unwrap() < action.unwrap(), "nobody finds a name without it: {requests:?}");
}

#[test]
fn a_cache_that_is_only_read_is_sent_nothing() {
    let server = Server::kept();
    let read_only = model::SharedCache { may_write: false, ..config(&server.url) };
    let cache = SharedCache::open(&read_only, &std::env::temp_dir().join("no/such")).unwrap();
    assert_eq!(cache.get(&key(1)), None);
    cache.put(&key(1), ANSWER);
    let report = cache.end();
    assert_eq!((report.sent, report.not_sent), (0, 0));
    assert_eq!(server.requests(), [format!("GET /ac/{}", key(1))]);
}

#[test]
fn answers_are_chosen_for_a_check_by_how_much_is_trusted() {
    let server = Server::kept();
    for (trust_percent, expected) in [(100.0, false), (0.0, true)] {
        let config = model::SharedCache { trust_percent, ..config(&server.url) };
        let cache = SharedCache::open(&config, &std::env::temp_dir().join("no/such")).unwrap();
        assert!((0..200).all(|number| cache.is_to_check(&key(number)) == expected));
    }
    assert!(server.requests().is_empty());
}

/// An entry that cannot be used is a miss, others are found, and it is reported once.
#[test]
fn rubbish_counts_as_missing() {
    type Wrong = fn(&Server, &str);
    let cases: &[(Wrong, UnusableAnswer)] = &[
        (
            |server, key| {
                server.entries().insert(format!("/ac/{key}"), b"<html>hello</html>".to_vec());
            },
            UnusableAnswer::NoResult,
        ),
        (
            |server, key| poison(server, key, &sha256(b"x"), 5, b"other".to_vec()),
            UnusableAnswer::Digest,
        ),
        (
            |server, key| {
                let packed = packed::pack(ANSWER).unwrap();
                let (name, bytes) = (sha256(&packed), packed.len() as u64);
                poison(server, key, &name, bytes, packed[..10].to_vec());
            },
            UnusableAnswer::Cut { named: packed::pack(ANSWER).unwrap().len() as u64, found: 10 },
        ),
        (
            |server, key| poison(server, key, &sha256(b"text"), 4, b"text".to_vec()),
            UnusableAnswer::Packed,
        ),
        (
            |server, key| {
                let bomb = packed::pack(&vec![0; MAX_ANSWER_BYTES as usize + 1]).unwrap();
                poison(server, key, &sha256(&bomb), bomb.len() as u64, bomb);
            },
            UnusableAnswer::Large(MAX_ANSWER_BYTES),
        ),
        (
            |server, key| poison(server, key, &sha256(b"x"), MAX_PACKED_BYTES + 1, Vec::new()),
            UnusableAnswer::Large(MAX_PACKED_BYTES),
        ),
        (
            |server, key| {
                let entry = vec![0; MAX_RESULT_BYTES as usize + 1];
                server.entries().insert(format!("/ac/{key}"), entry);
            },
            UnusableAnswer::Large(MAX_RESULT_BYTES),
        ),
    ];
    for (wrong, expected) in cases {
        let server = Server::kept();
        wrong(&server, &key(1));
        let good = [ANSWER, ANSWER].concat();
        put_good(&server, 2, &good);
        let cache = open(&server.url);
        assert_eq!(cache.get(&key(1)), None, "{expected}");
        assert_eq!(cache.get(&key(1)), None, "{expected}");
        assert_eq!(cache.get(&key(2)), Some(good), "{expected}");
        let fault = CacheFault::Unusable { times: 2, first: expected.clone() };
        assert_eq!(cache.end().faults, [fault]);
    }
}

/// A server that cannot be used at all is left alone: no further request reaches it.
#[test]
fn a_server_that_is_no_cache_is_left_alone() {
    let redirect = "HTTP/1.1 302 Found\r\nLocation: http://example.org/\u{202e}\r\n\r\n";
    type Case = (&'static str, usize, fn(&CacheFault) -> bool);
    let cases: &[Case] = &[
        (redirect, 1, |fault| {
            matches!(fault, CacheFault::Redirects { to }
                if to.contains("example.org") && !to.contains('\u{202e}'))
        }),
        (
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\n\r\n",
            1,
            |fault| matches!(fault, CacheFault::Redirects { to } if to == "/elsewhere"),
        ),
        ("HTTP/1.1 401 Unauthorized\r\n\r\n", 1, |fault| *fault == CacheFault::Refuses(401)),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", 1, |fault| *fault == CacheFault::Refuses(403)),
        ("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", 1, |fault| {
            *fault == CacheFault::Status(500)
        }),
        ("SSH-2.0-OpenSSH_9.2\r\n", 3, |fault| matches!(fault, CacheFault::Gone(_))),
        ("", 3, |fault| matches!(fault, CacheFault::Gone(_))),
    ];
    for (reply, requests, is_expected) in cases {
        let server = Server::start(|_| Reply::raw(reply));
        let cache = open(&server.url);
        for number in 0..6 {
            assert_eq!(cache.get(&key(number)), None, "{reply}");
            cache.put(&key(number), ANSWER);
        }
        let report = cache.end();
        assert!(report.faults.len() == 1 && is_expected(&report.faults[0]), "{reply}: {report:?}");
        let asked = server.requests().iter().filter(|line| line.starts_with("GET")).count();
        assert_eq!(asked, *requests, "{reply}");
        assert!(report.faults[0].hint().is_some());
    }
}

#[test]
fn a_server_that_is_gone_is_asked_three_times() {
    let url = Server::kept().url.clone();
    let cache = open(&url);
    (0..6).for_each(|number| assert_eq!(cache.get(&key(number)), None));
    cache.put(&key(1), ANSWER);
    let report = cache.end();
    assert!(matches!(&report.faults[..], [CacheFault::Gone(_)]), "{report:?}");
    assert_eq!((report.sent, report.answers), (0, 0));
}

#[test]
fn an_answer_without_an_end_is_cut_off() {
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
    ] {
        let server = Server::start(move |request| {
            if request.contains("/ac/") { Reply::Endless(head) } else { Reply::Kept }
        });
        let cache = open(&server.url);
        assert_eq!(cache.get(&key(1)), None);
        let first = UnusableAnswer::Large(MAX_RESULT_BYTES);
        assert_eq!(cache.end().faults, [CacheFault::Unusable { times: 1, first }], "{head}");
    }
}

#[test]
fn an_answer_whose_connection_ends_is_missing() {
    let server = Server::start(|_| {
        Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nthese are not ninety")
    });
    let cache = open(&server.url);
    assert_eq!(cache.get(&key(1)), None);
    let faults = cache.end().faults;
    let is_broken = |fault: &CacheFault| {
        matches!(fault, CacheFault::Unusable { times: 1, first: UnusableAnswer::Broken(_) })
    };
    assert!(matches!(&faults[..], [fault] if is_broken(fault)), "{faults:?}");
}

#[test]
fn a_server_that_never_answers_is_asked_once() {
    let silent = Server::start(|_| Reply::Silence);
    let cache = impatient(&silent.url);
    (0..6).for_each(|number| assert_eq!(cache.get(&key(number)), None));
    cache.put(&key(1), ANSWER);
    let report = cache.end();
    assert!(matches!(&report.faults[..], [CacheFault::Slow { .. }]), "{report:?}");
    // A busy machine may not have sent it in time.
    assert!(silent.requests().len() <= 1, "{:?}", silent.requests());
}

#[test]
fn misses_that_take_long_use_the_time_up() {
    let server = Server::start(|_| Reply::Late(Duration::from_millis(40)));
    let cache = impatient(&server.url);
    (0..30).for_each(|number| assert_eq!(cache.get(&key(number)), None));
    let report = cache.end();
    assert!(matches!(&report.faults[..], [CacheFault::Slow { .. }]), "{report:?}");
    assert!(server.requests().len() <= 4, "{:?}", server.requests());
}

#[test]
fn a_server_that_takes_nothing_is_read_all_the_same() {
    for (reply, says) in [
        ("HTTP/1.1 405 Method Not Allowed\r\n\r\n", "HTTP status 405"),
        ("HTTP/1.1 507 Insufficient Storage\r\n\r\n", "HTTP status 507"),
        (
            "HTTP/1.1 308 Permanent Redirect\r\nLocation: http://example.org/\r\n\r\n",
            "it leads to http://example.org/",
        ),
    ] {
        let server =
            Server::start(
                move |request| {
                    if request.starts_with("PUT") { Reply::raw(reply) } else { Reply::Kept }
                },
            );
        put_good(&server, 7, ANSWER);
        let cache = open(&server.url);
        cache.put(&key(1), ANSWER);
        let sent = cache.sender.end(LONG);
        assert_eq!((sent.done, sent.left), (0, 1));
        cache.put(&key(2), ANSWER);
        assert_eq!(cache.get(&key(7)).as_deref(), Some(ANSWER), "{reply}");
        assert_eq!(cache.end().faults, [CacheFault::TakesNothing(says.to_string())]);
        let puts = server.requests().iter().filter(|line| line.starts_with("PUT")).count();
        assert_eq!(puts, 1, "{reply}");
    }
}

#[test]
fn the_end_does_not_wait_for_a_server_that_takes_long() {
    let server =
        Server::start(
            |request| if request.starts_with("PUT") { Reply::Silence } else { Reply::Kept },
        );
    let cache = impatient(&server.url);
    (0..5).for_each(|number| cache.put(&key(number), ANSWER));
    let report = cache.end();
    assert_eq!((report.sent, report.not_sent), (0, 5));
}

#[test]
fn after_a_difference_no_more_is_taken_or_sent() {
    let server = Server::kept();
    put_good(&server, 1, ANSWER);
    let cache = open(&server.url);
    assert!(cache.get(&key(1)).is_some());
    let difference = AnswerDifference { key: key(1), what: "byte 3".to_string(), kept: None };
    cache.differs(difference.clone());
    assert_eq!(cache.get(&key(1)), None);
    cache.put(&key(2), ANSWER);
    let report = cache.end();
    assert_eq!(report.faults, [CacheFault::Differs]);
    assert_eq!(report.differences, [difference]);
    assert!(server.requests().iter().all(|request| request.starts_with("GET")));
}
