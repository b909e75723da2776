//! An HTTP server on loopback that keeps entries, or answers as badly as a test wants.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of an answer that has no end, in all.
const ENDLESS: usize = 1 << 30;

/// How a request is answered.
pub enum Reply {
    /// The server keeps entries, as a cache does.
    Kept,
    /// The same after a while.
    Late(Duration),
    /// A whole answer, or a part of one, as it goes over the wire; then the connection is closed.
    Raw(Vec<u8>),
    /// Nothing is sent until the client gives up.
    Silence,
    /// The head of an answer, then a gigabyte.
    Endless(&'static str),
}

impl Reply {
    pub fn raw(text: &str) -> Reply {
        Reply::Raw(text.as_bytes().to_vec())
    }
}

pub struct Server {
    pub url: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

type Answer = dyn Fn(&str) -> Reply + Send + Sync;

struct Shared {
    /// The entries by their paths.
    entries: Mutex<HashMap<String, Vec<u8>>>,
    /// First lines: method and path.
    requests: Mutex<Vec<String>>,
    has_ended: AtomicBool,
    answer: Box<Answer>,
}

impl Server {
    pub fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            entries: Mutex::default(),
            requests: Mutex::default(),
            has_ended: AtomicBool::new(false),
            answer: Box::new(answer),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if own.has_ended.load(Relaxed) {
                    return;
                }
                let own = Arc::clone(&own);
                std::thread::spawn(move || own.serve(stream));
            }
        });
        Server { url, shared, thread: Some(thread) }
    }

    pub fn kept() -> Server {
        Server::start(|_| Reply::Kept)
    }

    pub fn entries(&self) -> MutexGuard<'_, HashMap<String, Vec<u8>>> {
        self.shared.entries.lock().unwrap()
    }

    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Relaxed);
        // The thread waits for a connection.
        _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    /// The requests of one connection, until the client closes it.
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some((request, body)) = request(&mut reader) {
            self.requests.lock().unwrap().push(request.clone());
            let reply = match (self.answer)(&request) {
                Reply::Late(after) => {
                    std::thread::sleep(after);
                    Reply::Kept
                }
                reply => reply,
            };
            match reply {
                Reply::Kept | Reply::Late(_) => {
                    let (status, found) = self.kept(&request, body);
                    let length = found.len();
                    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
                    _ = stream.write_all(&[head.into_bytes(), found].concat());
                }
                Reply::Raw(bytes) => {
                    _ = stream.write_all(&bytes);
                    return;
                }
                Reply::Silence => {
                    _ = reader.read(&mut [0]);
                    return;
                }
                Reply::Endless(head) => {
                    _ = stream.write_all(head.as_bytes());
                    let zeros = vec![0; 1 << 20];
                    let parts = ENDLESS / zeros.len();
                    _ = (0..parts).try_for_each(|_| stream.write_all(&zeros));
                    return;
                }
            }
        }
    }

    fn kept(&self, request: &str, body: Vec<u8>) -> (&'static str, Vec<u8>) {
        let (method, path) = request.split_once(' ').unwrap();
        let mut entries = self.entries.lock().unwrap();
        match (method, entries.get(path)) {
            ("PUT", _) => {
                entries.insert(path.to_string(), body);
                ("201 Created", Vec::new())
            }
            (_, Some(entry)) => ("200 OK", entry.clone()),
            (_, None) => ("404 Not Found", b"not here".to_vec()),
        }
    }
}

/// Method and path of the next request, and its body.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let request = line.rsplit_once(' ')?.0.to_string();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        match line.trim_end().split_once(": ") {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((request, body))
}
