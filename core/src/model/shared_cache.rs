//! A cache of answers that several users share, as the command line asks for it. Pure.

use super::Advice;
use super::clean;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

/// Characters of a wrong URL that a message shows.
const MAX_SHOWN: usize = 60;

/// The place of the cache and its use.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedCache {
    pub url: CacheUrl,
    /// Whether new answers are sent there.
    pub may_write: bool,
    /// How many of its answers are taken without running them again.
    pub trust_percent: f64,
}

impl SharedCache {
    pub const READ_ONLY: &str = "read-only";
    pub const READ_WRITE: &str = "read-write";
    /// Share of answers that are trusted: one in fifty is run again.
    pub const TRUST_PERCENT: f64 = 98.0;
}

/// The address of a server, and the path below which its entries lie, without a slash at the end.
/// It holds no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheUrl {
    text: String,
    host: String,
    is_https: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CacheUrlError {
    #[error("`{0}` is not a URL of http or https")]
    Scheme(String),
    #[error("a URL with a user or a password: others see it in the list of processes")]
    Credentials,
    #[error("`{0}` names no machine, or no port of one")]
    Host(String),
    #[error("`{0}` has more than a machine and a path")]
    Path(String),
}

impl Advice for CacheUrlError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            Self::Credentials => {
                "a line in ~/.netrc: machine HOST login USER password PASSWORD; \
                 schedlab help shared-cache"
            }
            _ => "https://example.org/path, or http://127.0.0.1:8080",
        }))
    }
}

impl CacheUrl {
    /// The host in lower case, without the port.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Whether others cannot read the data on the way: TLS, or this machine itself.
    pub fn is_private(&self) -> bool {
        let is_loopback = || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        self.is_https || self.host == "localhost" || is_loopback()
    }
}

impl fmt::Display for CacheUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for CacheUrl {
    type Err = CacheUrlError;

    fn from_str(text: &str) -> Result<Self, CacheUrlError> {
        let shown = || clean(&text.chars().take(MAX_SHOWN).collect::<String>());
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let is_https = scheme.eq_ignore_ascii_case("https");
        let authority = rest.split('/').next().unwrap_or_default();
        // This is refused before any of it is shown.
        if authority.contains('@') {
            return Err(CacheUrlError::Credentials);
        }
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            return Err(CacheUrlError::Scheme(shown()));
        }
        let host = host(authority).ok_or_else(|| CacheUrlError::Host(shown()))?;
        let path = &rest[authority.len()..];
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%+:=,@".contains(&byte);
        if !path.bytes().all(fits) {
            return Err(CacheUrlError::Path(shown()));
        }
        let scheme = if is_https { "https" } else { "http" };
        let text = format!("{scheme}://{authority}{}", path.trim_end_matches('/'));
        Ok(CacheUrl { text, host, is_https })
    }
}

/// The machine of `machine:port`; an address of IPv6 stands in brackets.
fn host(authority: &str) -> Option<String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if host.is_empty() || !host.bytes().all(fits) {
                return None;
            }
            (host, port)
        }
    };
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    let has_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    has_port.then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_machine_and_a_path_and_nothing_else() {
        for (text, kept, host, is_private) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "127.0.0.1", true),
            ("HTTPS://example.org/a/b//", "https://example.org/a/b", "example.org", true),
            ("http://example.org/", "http://example.org", "example.org", false),
            ("http://[::1]:9/x@y", "http://[::1]:9/x@y", "::1", true),
        ] {
            let url: CacheUrl = text.parse().unwrap();
            assert_eq!((&*url.text, url.host(), url.is_private()), (kept, host, is_private));
        }
        let error = |text: &str| text.parse::<CacheUrl>().unwrap_err();
        for text in
            ["", "example.org", "ftp://example.org", "//example.org", "grpc://example.org:9"]
        {
            assert!(matches!(error(text), CacheUrlError::Scheme(_)), "{text}");
        }
        for text in [
            "http://",
            "http:///x",
            "http://example.org:0",
            "http://example.org:99999",
            "http://example.org b",
            "http://[::1",
        ] {
            assert!(matches!(error(text), CacheUrlError::Host(_)), "{text}");
        }
        for text in [
            "http://example.org/?q",
            "http://example.org/#f",
            "http://example.org/b c",
            "http://example.org/\u{1b}[2J",
        ] {
            assert!(matches!(error(text), CacheUrlError::Path(_)), "{text}");
        }
        let long = format!("http://{}", "\u{1b}".repeat(500));
        assert!(
            error(&long).to_string().len() < 600 && !error(&long).to_string().contains('\u{1b}')
        );
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for text in [
            "http://example.org:secret@example.org/",
            "https://secret@example.org",
            "secret@a",
            "ftp://example.org:secret@example.org",
        ] {
            let error = text.parse::<CacheUrl>().unwrap_err();
            assert_eq!(error, CacheUrlError::Credentials, "{text}");
            assert!(
                !error.to_string().contains("secret") && error.hint().unwrap().contains(".netrc")
            );
        }
    }
}
