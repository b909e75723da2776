//! HTTP as far as pages need it: a request has one deadline, and who is slow makes way for who is not.
//!
//! Each connection has one request and a thread of its own. Where there are too many, the oldest ends, so that whoever
//! sends nothing or drips keeps nobody else waiting.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::sys::lock;

/// For a request as a whole.
const REQUEST_LIMIT: Duration = Duration::from_secs(3);
/// For an answer as a whole, which may be some megabytes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const MAX_CONNECTIONS: usize = 64;
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

/// Answers as long as the process lives. `respond` gets a request, or the status of what is none; each page
/// reads the store, so one is made at a time.
pub fn serve(
    listener: &TcpListener,
    respond: impl Fn(Result<&Request, Status>) -> Answer + Send + 'static,
) -> ! {
    let respond = Arc::new(Mutex::new(respond));
    let mut open: VecDeque<Weak<TcpStream>> = VecDeque::new();
    loop {
        // There may be no descriptor for one more, until others have ended.
        let Ok((stream, client)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        open.retain(|stream| stream.strong_count() > 0);
        if open.len() >= MAX_CONNECTIONS {
            // Its thread reads or writes no more, and ends.
            let oldest = open.pop_front().and_then(|oldest| oldest.upgrade());
            oldest.map(|oldest| oldest.shutdown(Shutdown::Both));
        }
        let (stream, respond) = (Arc::new(stream), Arc::clone(&respond));
        open.push_back(Arc::downgrade(&stream));
        // Where no thread can be had, the connection ends.
        _ = std::thread::Builder::new().name(client.to_string()).spawn(move || {
            // A client that has gone away needs no answer.
            _ = exchange(&stream, &respond);
        });
    }
}

fn exchange<R>(stream: &Arc<TcpStream>, respond: &Mutex<R>) -> io::Result<()>
where
    R: Fn(Result<&Request, Status>) -> Answer,
{
    stream.set_nodelay(true)?;
    let Some(request) = read_request(stream, Instant::now() + REQUEST_LIMIT)? else {
        return Ok(());
    };
    let respond = lock(respond);
    // It was ended while others had their turns: its place is gone.
    if Arc::weak_count(stream) == 0 {
        return Ok(());
    }
    let Answer { status, page } = respond(request.as_ref().map_err(|status| *status));
    drop(respond);
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
    write_all(stream, head.as_bytes(), deadline)?;
    write_all(stream, if is_head { b"" } else { page.as_bytes() }, deadline)?;
    // Bytes that are not read when a connection is closed reset it, and its answer may be lost.
    stream.shutdown(Shutdown::Write)?;
    let (mut rest, mut read) = ([0; 1024], 0);
    while read < MAX_REST_BYTES {
        match read_some(stream, &mut rest, deadline)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(())
}

/// `None`: the client went away, or sent nothing at all.
fn read_request(
    stream: &TcpStream,
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

fn read_some(mut stream: &TcpStream, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
    stream.set_read_timeout(Some(left(deadline)?))?;
    match stream.read(into) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
        read => read,
    }
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        bytes = &bytes[stream.write(bytes)?..];
    }
    Ok(())
}
