//! HTTP as far as pages need it: a request has one deadline, and who is slow makes way for who is not.
//!
//! Each connection has one request and a thread of its own. Where there are too many, the one ends that
//! has waited longest for its client, of the client that has most: a request that is there at once is
//! answered, whoever sends nothing or drips.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For a request as a whole.
const REQUEST_LIMIT: Duration = Duration::from_secs(3);
/// For an answer as a whole, which may be some megabytes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Connections that wait for their clients.
const MAX_WAITING: usize = 64;
/// Pages that are made at once: each reads the store.
const MAX_ANSWERING: usize = 4;
const PAUSE: Duration = Duration::from_millis(10);
const MAX_HEAD_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 100;
/// So much of what a client still sends is read, so that it gets to read its answer.
const MAX_REST_BYTES: usize = 64 << 10;

/// A client's request; it is not trusted.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// A whole URL, or the path alone.
    pub target: String,
    pub host: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(u16, &'static str);

impl Status {
    pub const OK: Status = Status(200, "OK");
    pub const NO_CONTENT: Status = Status(204, "No Content");
    pub const BAD_REQUEST: Status = Status(400, "Bad Request");
    pub const NOT_FOUND: Status = Status(404, "Not Found");
    pub const METHOD_NOT_ALLOWED: Status = Status(405, "Method Not Allowed");
    pub const TIMEOUT: Status = Status(408, "Request Timeout");
    pub const MISDIRECTED: Status = Status(421, "Misdirected Request");
    pub const TOO_LARGE: Status = Status(431, "Request Header Fields Too Large");
    pub const INTERNAL: Status = Status(500, "Internal Server Error");

    pub fn reason(self) -> &'static str {
        self.1
    }
}

/// The answer is a page of HTML.
pub struct Answer {
    pub status: Status,
    pub page: String,
}

/// Answers as long as the process lives. `respond` gets a request, or the status of what is none.
pub fn serve(
    listener: &TcpListener,
    respond: impl Fn(Result<&Request, Status>) -> Answer + Send + Sync + 'static,
) -> ! {
    let (respond, open) = (Arc::new(respond), Arc::new(Open::default()));
    loop {
        // There may be no descriptor for one more, until others have ended.
        let Ok((stream, client)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        let Ok(place) = Open::enter(&open, client.ip(), &stream) else { continue };
        let respond = Arc::clone(&respond);
        // Where no thread can be had, the connection ends.
        _ = std::thread::Builder::new().name(client.to_string()).spawn(move || {
            // A client that has gone away needs no answer.
            _ = exchange(stream, place, &*respond);
        });
    }
}

fn exchange(
    mut stream: TcpStream,
    place: Place,
    respond: &dyn Fn(Result<&Request, Status>) -> Answer,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let request = match read_request(&mut stream, Instant::now() + REQUEST_LIMIT)? {
        Some(request) => request,
        None => return Ok(()),
    };
    let Some(answering) = place.answer() else { return Ok(()) };
    let Answer { status, page } = respond(request.as_ref().map_err(|status| *status));
    let _place = answering.wait(&stream)?;
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\r\n",
        status.0,
        status.1,
        page.len()
    );
    let is_head = request.is_ok_and(|request| request.method == "HEAD");
    let deadline = Instant::now() + ANSWER_LIMIT;
    write_all(&mut stream, head.as_bytes(), deadline)?;
    write_all(&mut stream, if is_head { b"" } else { page.as_bytes() }, deadline)?;
    // Bytes that are not read when a connection is closed reset it, and its answer may be lost.
    stream.shutdown(Shutdown::Write)?;
    let (mut rest, mut read) = ([0; 1024], 0);
    while read < MAX_REST_BYTES {
        match read_some(&mut stream, &mut rest, deadline)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(())
}

/// `None`: the client went away, or sent nothing at all.
fn read_request(
    stream: &mut TcpStream,
    deadline: Instant,
) -> io::Result<Option<Result<Request, Status>>> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let read = match read_some(stream, &mut chunk, deadline) {
            Err(error) if error.kind() == ErrorKind::TimedOut && !head.is_empty() => {
                return Ok(Some(Err(Status::TIMEOUT)));
            }
            read => read?,
        };
        if read == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&chunk[..read]);
        match parse(&head) {
            Ok(None) if head.len() > MAX_HEAD_BYTES => {
                return Ok(Some(Err(Status::TOO_LARGE)));
            }
            Ok(None) => {}
            Ok(Some(request)) => return Ok(Some(Ok(request))),
            Err(status) => return Ok(Some(Err(status))),
        }
    }
}

/// `None`: it has no end yet.
fn parse(head: &[u8]) -> Result<Option<Request>, Status> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Err(_) => return Err(Status::BAD_REQUEST),
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(bytes)) if bytes > MAX_HEAD_BYTES => {
            return Err(Status::TOO_LARGE);
        }
        Ok(httparse::Status::Complete(_)) => {}
    }
    let mut hosts = request.headers.iter().filter(|own| own.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().map(|host| String::from_utf8_lossy(host.value).into_owned());
    let (Some(method), Some(target), None) = (request.method, request.path, hosts.next()) else {
        return Err(Status::BAD_REQUEST);
    };
    Ok(Some(Request { method: method.to_string(), target: target.to_string(), host }))
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn read_some(stream: &mut TcpStream, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
    stream.set_read_timeout(Some(left(deadline)?))?;
    match stream.read(into) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
        read => read,
    }
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        bytes = &bytes[stream.write(bytes)?..];
    }
    Ok(())
}

/// The connections that are open.
#[derive(Default)]
struct Open {
    all: Mutex<Connections>,
    /// A page was made.
    made: Condvar,
}

#[derive(Default)]
struct Connections {
    next: u64,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    answering: usize,
}

/// A connection that waits for its client.
struct Waiting {
    number: u64,
    client: IpAddr,
    stream: TcpStream,
}

impl Open {
    fn all(&self) -> MutexGuard<'_, Connections> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(open: &Arc<Open>, client: IpAddr, stream: &TcpStream) -> io::Result<Place> {
        let stream = stream.try_clone()?;
        let mut all = open.all();
        if all.waiting.len() >= MAX_WAITING {
            all.end_one();
        }
        all.next += 1;
        let number = all.next;
        all.waiting.push_back(Waiting { number, client, stream });
        Ok(Place { open: Arc::clone(open), number, client })
    }
}

impl Connections {
    /// Its thread reads or writes no more, and ends.
    fn end_one(&mut self) {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.waiting.iter().for_each(|one| *counts.entry(one.client).or_default() += 1);
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client);
        let oldest = self.waiting.iter().position(|one| Some(one.client) == most);
        if let Some(one) = oldest.and_then(|at| self.waiting.remove(at)) {
            _ = one.stream.shutdown(Shutdown::Both);
        }
    }

    /// False where it was ended.
    fn leave(&mut self, number: u64) -> bool {
        let at = self.waiting.iter().position(|one| one.number == number);
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }
}

/// The place of a connection which waits for its client.
struct Place {
    open: Arc<Open>,
    number: u64,
    client: IpAddr,
}

impl Place {
    /// Waits for its turn to have a page made; `None` where it was ended.
    fn answer(self) -> Option<Answering> {
        let (open, client) = (Arc::clone(&self.open), self.client);
        let all = open.all();
        let is_full = |all: &mut Connections| all.answering >= MAX_ANSWERING;
        let mut all = open.made.wait_while(all, is_full).unwrap_or_else(PoisonError::into_inner);
        if !all.leave(self.number) {
            return None;
        }
        all.answering += 1;
        drop(all);
        Some(Answering { open, client })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.all().leave(self.number);
    }
}

/// A page is made.
struct Answering {
    open: Arc<Open>,
    client: IpAddr,
}

impl Answering {
    /// For the client to read it.
    fn wait(self, stream: &TcpStream) -> io::Result<Place> {
        Open::enter(&self.open, self.client, stream)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.open.all().answering -= 1;
        self.open.made.notify_one();
    }
}
