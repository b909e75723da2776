//! A program that serves others: started before them, waited for, and ended after them.

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use regex::Regex;

use crate::sys::Output;
use crate::sys::command::Server;
use crate::workload::WorkloadError;

use super::patterns::regex;
use super::words::Places;
use crate::model::clean;

/// How long a server may take until it is ready.
/// Below the default grace of a run, which would end it without a word about the server.
const READY_LIMIT: Duration = Duration::from_secs(20);
const READY_POLL: Duration = Duration::from_millis(5);

/// How a server shows that it is ready.
#[derive(Debug)]
pub enum Readiness {
    /// Something listens at this port of 127.0.0.1.
    Tcp(u16),
    /// Something listens at this socket.
    Unix(String),
    /// The server is ready when its output matches.
    Output(Regex),
}

impl Readiness {
    pub fn parse(text: &str, places: &Places) -> Result<Readiness, WorkloadError> {
        let wrong = || WorkloadError::Param {
            param: "ready",
            value: text.to_string(),
            problem: "says nothing that can be waited for".to_string(),
            hint: "ready = \"tcp:{port}\", \"unix:{folder}/socket\" or \"output:REGULAR EXPRESSION\"",
        };
        let (kind, what) = text.split_once(':').ok_or_else(wrong)?;
        match kind {
            "tcp" => match places.fill(what).parse() {
                Ok(port @ 1..) => Ok(Readiness::Tcp(port)),
                _ => Err(wrong()),
            },
            // Programs may be executed in another folder than this process.
            "unix" => Some(places.fill(what))
                .filter(|path| path.starts_with('/'))
                .map(Readiness::Unix)
                .ok_or_else(wrong),
            "output" => regex("ready", what).map(Readiness::Output),
            _ => Err(wrong()),
        }
    }

    fn is_there(&self, output: &Output) -> bool {
        match self {
            Readiness::Tcp(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok(),
            Readiness::Unix(path) => UnixStream::connect(path).is_ok(),
            Readiness::Output(regex) => regex.is_match(&output.end()),
        }
    }

    /// Checks that no other server is there, which would be taken for the one that is about to start.
    pub fn check_absence(&self, output: &Output) -> Result<(), WorkloadError> {
        let there = match self {
            Readiness::Tcp(port) if self.is_there(output) => format!("127.0.0.1:{port}"),
            Readiness::Unix(path) if self.is_there(output) => {
                format!("`{}`", clean(path))
            }
            _ => return Ok(()),
        };
        let problem = format!("the server cannot start: something listens at {there} already");
        let hint = "end it, or let the server have a port of its own: {port}";
        Err(WorkloadError::conflict(problem, hint.to_string()))
    }

    /// Waits until the server is ready.
    pub fn wait(&self, server: &mut Server, output: &Output) -> Result<(), WorkloadError> {
        let deadline = Instant::now() + READY_LIMIT;
        while !self.is_there(output) {
            if let Some(ending) = server.ended() {
                return Err(WorkloadError::ServerEnded { ending, was_ready: false });
            }
            if Instant::now() > deadline {
                return Err(WorkloadError::ServerLate);
            }
            std::thread::sleep(READY_POLL);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Params;
    use crate::workload::Pool;

    #[test]
    fn readiness_is_a_port_a_socket_or_words() {
        let places = Places::new(&Params::new(), &Pool::default()).with("port", 7);
        let parse = |text: &str| Readiness::parse(text, &places);
        assert!(matches!(parse("tcp:{port}"), Ok(Readiness::Tcp(7))));
        assert!(matches!(parse("unix:/a:b"), Ok(Readiness::Unix(path)) if path == "/a:b"));
        assert!(matches!(parse("output:^up$"), Ok(Readiness::Output(_))));
        let wrongs = [
            "tcp",
            "tcp:",
            "tcp:0",
            "tcp:70000",
            "udp:1",
            "output:",
            "output:(",
            "unix:",
            "unix:socket",
        ];
        for wrong in wrongs {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
