//! GET and PUT of one entry. Nothing is followed, retried or read without a limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body, Error, RequestBuilder};

use crate::backend::UnusableAnswer;
use crate::model::{CacheUrl, clean_on_one_line};

use super::error::CacheError;
use super::netrc;

/// Characters of a stranger's text in a message.
const MAX_SHOWN: usize = 160;
/// The library takes a duration of 0 as no limit.
const MIN_PATIENCE: Duration = Duration::from_millis(1);
const USER_AGENT: &str = concat!("schedlab/", env!("CARGO_PKG_VERSION"));

pub struct Client {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

/// The two kinds of entries.
#[derive(Clone, Copy)]
pub enum Kind {
    Action,
    Content,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Kind::Action => "ac",
            Kind::Content => "cas",
        }
    }
}

/// Why a request got no answer. Texts are printable and short.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpFault {
    #[error("no answer in time")]
    Late,
    #[error("{0}")]
    Gone(String),
    #[error("it leads to {0}")]
    Redirects(String),
    #[error("HTTP status {0}")]
    Status(u16),
}

#[derive(Debug, thiserror::Error)]
pub enum LookupFault {
    #[error(transparent)]
    Http(#[from] HttpFault),
    #[error(transparent)]
    Unusable(#[from] UnusableAnswer),
}

impl Client {
    pub fn new(url: &CacheUrl) -> Result<Client, CacheError> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(USER_AGENT);
        if url.is_https() {
            config = config.tls_config(tls());
        }
        let authorization = netrc::authorization(url)?;
        Ok(Client { agent: config.build().new_agent(), url: url.to_string(), authorization })
    }

    /// An entry; `None` if there is none.
    pub fn get(
        &self,
        kind: Kind,
        name: &str,
        limit: u64,
        patience: Duration,
    ) -> Result<Option<Vec<u8>>, LookupFault> {
        let request = self.prepared(self.agent.get(self.place(kind, name)), patience);
        let mut response = request.call().map_err(fault)?;
        match response.status() {
            StatusCode::OK => read(response.body_mut(), limit),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            _ => Err(refused(&response).into()),
        }
    }

    pub fn put(
        &self,
        kind: Kind,
        name: &str,
        bytes: &[u8],
        patience: Duration,
    ) -> Result<(), HttpFault> {
        let request = self.agent.put(self.place(kind, name));
        let request = self.prepared(request.content_type("application/octet-stream"), patience);
        let response = request.send(bytes).map_err(fault)?;
        if response.status().is_success() { Ok(()) } else { Err(refused(&response)) }
    }

    fn prepared<B>(&self, request: RequestBuilder<B>, patience: Duration) -> RequestBuilder<B> {
        let request = match &self.authorization {
            Some(authorization) => request.header("Authorization", authorization),
            None => request,
        };
        request.config().timeout_global(Some(patience.max(MIN_PATIENCE))).build()
    }

    fn place(&self, kind: Kind, name: &str) -> String {
        format!("{}/{}/{name}", self.url, kind.folder())
    }
}

/// Servers are checked against the system's certificates. If these cannot be read, no server is trusted.
fn tls() -> TlsConfig {
    let found = rustls_native_certs::load_native_certs().certs;
    let roots = found.iter().map(|root| Certificate::from_der(root).to_owned());
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::from(roots))
        .build()
}

fn read(body: &mut Body, limit: u64) -> Result<Option<Vec<u8>>, LookupFault> {
    if body.content_length().is_some_and(|bytes| bytes > limit) {
        return Err(UnusableAnswer::Large(limit).into());
    }
    match body.with_config().limit(limit).read_to_vec() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::BodyExceedsLimit(_)) => Err(UnusableAnswer::Large(limit).into()),
        Err(error) => Err(match fault(error) {
            HttpFault::Late => HttpFault::Late.into(),
            why => UnusableAnswer::Broken(why.to_string()).into(),
        }),
    }
}

fn refused(response: &Response<Body>) -> HttpFault {
    let status = response.status();
    let to = response.headers().get("Location").filter(|_| status.is_redirection());
    match to {
        Some(to) => HttpFault::Redirects(shown(&String::from_utf8_lossy(to.as_bytes()))),
        None => HttpFault::Status(status.as_u16()),
    }
}

fn fault(error: Error) -> HttpFault {
    match error {
        Error::Timeout(_) => HttpFault::Late,
        Error::Io(error)
            if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) =>
        {
            HttpFault::Late
        }
        Error::Io(error) => HttpFault::Gone(shown(&error.to_string())),
        Error::HostNotFound => HttpFault::Gone("there is no machine of this name".to_string()),
        error => HttpFault::Gone(shown(&error.to_string())),
    }
}

fn shown(text: &str) -> String {
    clean_on_one_line(text).chars().take(MAX_SHOWN).collect()
}
