//! `schedlab serve` over a real socket: stored plans, for this machine only, and read only.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::home::Home;
use crate::support::{signal, wait_for};

pub(crate) struct Served {
    child: Child,
    pub(crate) port: u16,
}

impl Served {
    pub(crate) fn start(home: &Home) -> Served {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = home.command(format!("serve --port {port}"));
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        wait_for("the server to listen", || TcpStream::connect(("127.0.0.1", port)).ok());
        Served { child, port }
    }

    /// The status and the whole answer.
    fn ask(&self, method: &str, path: &str, host: &str) -> (u16, String) {
        let mut stream = self.connect();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let answer = String::from_utf8(bytes).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), answer)
    }

    /// A request that is never answered must fail the test, not block it.
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, &format!("localhost:{}", self.port))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        signal(self.child.id(), "-TERM");
        let _ = self.child.wait();
    }
}

pub(crate) fn measure(home: &Home, title: &str) {
    let plan = format!(
        "schema = 1\ntitle = '{title}'\n[[variant]]\nname = \"default\"\n[[variant]]\nname = \"other\"\nnice = 1\n\
         [[workload]]\nuse = \"spin\"\n"
    );
    home.write("plan.toml", plan);
    home.ok("run plan.toml --backend null --rounds 6 -q");
}

#[test]
fn the_store_is_browsed_and_compared() {
    let home = Home::new();
    let title = "<script>alert(1)</script> & more";
    measure(&home, title);
    measure(&home, title);
    let [second, first] = home.listed().try_into().unwrap();
    let served = Served::start(&home);
    let (status, index) = served.get("/");
    assert_eq!(status, 200);
    assert!(index.contains("2 of 2 stored plans") && index.contains(&first), "{index}");
    assert!(!index.contains("<script>") && index.contains("&lt;script&gt;"), "{index}");
    // The verdicts of both, on one headline metric.
    wait_for("verdicts", || (served.get("/").1.matches("other: 1 ").count() == 2).then_some(()));
    for (words, found) in [("SCRIPT%20other", 2), ("nothing-like-it", 0), (second.as_str(), 1)] {
        let (status, page) = served.get(&format!("/?search={words}"));
        assert!(
            status == 200 && page.contains(&format!("{found} of 2 stored plans")),
            "{words} {page}"
        );
    }
    let (status, plan) = served.get(&format!("/plan/{first}"));
    assert!(status == 200 && plan.contains("<h2>Answer</h2>") && plan.contains("svg"), "{plan}");
    let (status, sides) =
        served.get(&format!("/compare?against={first}&side={second}&side={first}"));
    assert!(status == 200 && sides.contains(&second), "{status} {sides}");
    let history = "/history?title=%3Cscript%3Ealert(1)%3C/script%3E%20%26%20more";
    let (status, over_dates) = served.get(history);
    assert!(status == 200 && over_dates.contains(&second), "{status} {over_dates}");
    let (status, none) = served.get("/?machine=nowhere");
    assert!(status == 200 && none.contains("0 of 2 stored plans"), "{none}");
}

#[test]
fn what_is_not_to_be_answered_is_refused() {
    let home = Home::new();
    measure(&home, "one");
    let id = home.listed().remove(0);
    let served = Served::start(&home);
    let cases = [
        ("GET", "/", "evil.example", 421),
        ("POST", "/", "localhost", 405),
        ("DELETE", "/plan/x", "localhost", 405),
        ("GET", "/plan/no-such-id", "localhost", 404),
        ("GET", "/plan/..%2f..%2fetc%2fpasswd", "localhost", 404),
        ("GET", "/etc/passwd", "localhost", 404),
        ("GET", "/compare", "localhost", 400),
        ("GET", "/history?title=nothing", "localhost", 404),
        ("GET", "http://evil.example/", "localhost", 421),
        ("GET", "http://localhost@evil.example/", "localhost", 421),
        ("GET", "http://localhost", "evil.example", 421),
        ("GET", "https://localhost/", "localhost", 400),
        ("GET", "*", "localhost", 400),
        ("GET", "/", "localhost\r\nHost: localhost", 400),
        ("GET", "/", &format!("localhost\r\nx: {}", "y".repeat(9000)), 431),
        ("no request", "", "", 400),
    ];
    for (method, path, host, expected) in cases {
        let (status, answer) = served.ask(method, path, host);
        assert_eq!(status, expected, "{method} {path} {host}: {answer}");
        assert!(!answer.contains(&id) || host == "localhost", "{answer}");
    }
    let (status, page) = served.ask("GET", "http://localhost/", "localhost");
    assert!(status == 200 && page.contains(&id), "its own name: {page}");
    let (status, head) = served.ask("HEAD", "/", "localhost");
    assert!(status == 200 && head.ends_with("\r\n\r\n"), "no page: {head}");
    let said = home.says(3, format!("serve --port {}", served.port));
    assert!(said.contains("hint: another port"), "{said}");
}

/// Sets the flag even if the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Requests that never end, a byte now and then: each of them has one deadline, and other clients are
/// answered meanwhile.
#[test]
fn who_drips_keeps_nobody_else_waiting_and_is_ended() {
    let home = Home::new();
    measure(&home, "one");
    let served = Served::start(&home);
    let drip = |stream: &TcpStream| {
        let mut stream = stream;
        stream.write_all(b"GET / HTTP/1.1\r\nx: ")
    };
    let all: Vec<TcpStream> = (0..300).map(|_| served.connect()).collect();
    all.iter().for_each(|stream| _ = drip(stream));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = End(&is_over);
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                all.iter().for_each(|mut stream| _ = stream.write(b"y"));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let (status, page) = served.get("/");
        // It is the only connection, so only its deadline can end it.
        let mut last = &all[all.len() - 1];
        let ended = last.read(&mut [0; 16]);
        // The first had to make way: at its deadline it would get an answer.
        let first = (&all[0]).read(&mut [0; 16]);
        drop(end);
        assert!(!matches!(first, Ok(1..)), "it is answered");
        assert!(status == 200 && page.contains("1 of 1 stored plans"), "{status} {page}");
        let why = ended.as_ref().err().map(std::io::Error::kind);
        assert_ne!(why, Some(std::io::ErrorKind::WouldBlock), "it is still open");
    });
}
