//! `schedlab serve`: the store in a browser, for this machine alone and read-only.
//!
//! A request opens the store anew, so that what a run stores meanwhile is there. Only requests that name
//! this machine by a name of its own are answered: a page of somebody else that has a name of its
//! own point here learns nothing.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use oxhttp::Server;
use oxhttp::model::uri::Authority;
use oxhttp::model::{Body, Method, Request, Response, StatusCode, header};

use super::{Database, Failure, terminal};

mod pages;

use pages::{Answer, Pages};

/// A client that sends nothing for so long is gone.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Browsers keep connections that they do not use.
const MAX_CONNECTIONS: usize = 256;

#[derive(Args)]
pub struct ServeArgs {
    /// The port to listen on
    #[arg(long, value_name = "N", default_value_t = 7357, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The address to listen on: others than loopback let the network read the whole store
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: IpAddr,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    // What cannot be read is said here, not in a browser.
    let plans = args.db.open_read_only()?.plan_heads()?.len();
    let address = SocketAddr::new(args.listen, args.port);
    if !args.listen.is_loopback() {
        terminal::message(&format!(
            "warning: who reaches {address} reads the whole store, without a password"
        ));
    }
    let pages = Pages { db: args.db.clone() };
    let listen = args.listen;
    let server = Server::new(move |request| respond(&pages, listen, request))
        .with_global_timeout(TIMEOUT)
        .with_max_concurrent_connections(MAX_CONNECTIONS)
        .bind(address)
        .spawn();
    let server = server.map_err(|error| {
        let hint = format!("another port: {}", args.db.command("serve --port 7358"));
        Failure::here(format!("cannot listen on {address}: {error}"), hint)
    })?;
    terminal::message(&format!("{plans} plans at http://{address}/; Ctrl-C ends it"));
    server
        .join()
        .map_err(|error| Failure::here(format!("the server ended: {error}"), "schedlab serve"))
}

fn respond(pages: &Pages, listen: IpAddr, request: &mut Request<Body>) -> Response<Body> {
    let Answer { status, page } = answer(pages, listen, request);
    let is_head = request.method() == Method::HEAD;
    let body = if is_head { Body::empty() } else { Body::from(page) };
    let response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::REFERRER_POLICY, "no-referrer")
        .header(header::X_FRAME_OPTIONS, "DENY")
        .body(body);
    response.expect("constant headers are valid")
}

fn answer(pages: &Pages, listen: IpAddr, request: &Request<Body>) -> Answer {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| is_own(host, listen)) {
        return Answer::refused(
            StatusCode::MISDIRECTED_REQUEST,
            "this is not the host that was asked for",
        );
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Answer::refused(StatusCode::METHOD_NOT_ALLOWED, "the store is only read here");
    }
    let query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let query: Vec<(String, String)> = query.into_owned().collect();
    match request.uri().path() {
        "/" => pages.index(&query),
        "/compare" => pages.compare(&query),
        "/history" => pages.history(&query),
        path => match path.strip_prefix("/plan/") {
            Some(id) => pages.plan(id),
            None => Answer::refused(StatusCode::NOT_FOUND, "there is no such page"),
        },
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// Whether a request's `Host` is an address that is listened on, or a name of loopback. Where all
/// addresses are, any address.
fn is_own(host: &str, listen: IpAddr) -> bool {
    // Nothing but a host and a port: no user before it, nothing behind it.
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let is_port = |port: &str| port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
    if !host.strip_prefix(name).is_some_and(is_port) {
        return false;
    }
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match name.parse::<IpAddr>() {
        Ok(address) => address == listen || listen.is_unspecified() || address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_answered() {
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        let all: IpAddr = "0.0.0.0".parse().unwrap();
        let cases = [
            ("127.0.0.1:7357", local, true),
            ("localhost:7357", local, true),
            ("[::1]:7357", local, true),
            ("evil.example:7357", local, false),
            ("127.0.0.1.evil.example", local, false),
            ("127.0.0.1:7357@evil.example", local, false),
            ("evil.example@127.0.0.1:7357", local, false),
            ("[::1]evil.example", local, false),
            ("192.0.2.7:7357", local, false),
            ("192.0.2.7:7357", all, true),
            ("evil.example", all, false),
            ("", local, false),
        ];
        for (host, listen, expected) in cases {
            assert_eq!(is_own(host, listen), expected, "{host}");
        }
    }
}
