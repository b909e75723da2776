//! `schedlab serve`: the store in a browser, for this machine alone and read-only.
//!
//! A request opens the store anew, so that what a run stores meanwhile is there. Only requests that name
//! this machine by a name of its own are answered: a page of somebody else that has a name of its
//! own point here learns nothing.

use std::net::{IpAddr, SocketAddr, TcpListener};

use clap::Args;

use super::{Database, Failure, terminal};

mod http;
mod pages;

use http::{Answer, Request, Status};
use pages::Pages;

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
    // An unreadable store is reported here, not in a browser.
    let plans = args.db.open_read_only()?.plan_heads()?.len();
    let address = SocketAddr::new(args.listen, args.port);
    if !args.listen.is_loopback() {
        terminal::message(&format!(
            "warning: who reaches {address} reads the whole store, without a password"
        ));
    }
    let pages = Pages { db: args.db.clone(), verdicts: Default::default() };
    let listen = args.listen;
    let listener = TcpListener::bind(address).map_err(|error| {
        let hint = format!("another port: {}", args.db.command("serve --port 7358"));
        Failure::here(format!("cannot listen on {address}: {error}"), hint)
    })?;
    terminal::message(&format!("{plans} plans at http://{address}/ until Ctrl-C"));
    http::serve(&listener, move |request| match request {
        Ok(request) => answer(&pages, listen, request),
        Err(status) => Answer::refused(status, "this is not a request that is answered here"),
    })
}

fn answer(pages: &Pages, listen: IpAddr, request: &Request) -> Answer {
    let is_own = |host: &str| is_own(host, listen);
    // A target may be a whole URL, which then says what is asked for, whatever `Host` says.
    let (named, target) = match request.target.strip_prefix("http://") {
        None => (None, request.target.as_str()),
        Some(rest) => {
            let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(host), if target.is_empty() { "/" } else { target })
        }
    };
    if !request.host.as_deref().is_some_and(is_own) || !named.is_none_or(is_own) {
        return Answer::refused(Status::MISDIRECTED, "this is not the host that was asked for");
    }
    if !["GET", "HEAD"].contains(&request.method.as_str()) {
        return Answer::refused(Status::METHOD_NOT_ALLOWED, "the store is only read here");
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = form_urlencoded::parse(query.as_bytes());
    let query: Vec<(String, String)> = query.into_owned().collect();
    match path {
        "/" => pages.index(&query),
        "/compare" => pages.compare(&query),
        "/history" => pages.history(&query),
        // Browsers ask for it, and write down that it is missing.
        "/favicon.ico" => Answer { status: Status::NO_CONTENT, page: String::new() },
        path => match path.strip_prefix("/plan/") {
            Some(id) => pages.plan(id),
            None if path.starts_with('/') => {
                Answer::refused(Status::NOT_FOUND, "there is no such page")
            }
            None => Answer::refused(Status::BAD_REQUEST, "this names no page"),
        },
    }
}

/// Whether a request's `Host` is an address that is listened on, or a name of loopback. Where all
/// addresses are, any address.
fn is_own(host: &str, listen: IpAddr) -> bool {
    // Nothing but a host and a port: no user before it, nothing behind it.
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_number = |port: &str| port.parse::<u16>().is_ok();
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_number) {
        return false;
    }
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
