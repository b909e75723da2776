//! The cache of answers that several users share: a server of a remote build cache over HTTP.
//!
//! An answer lies in `/cas/` by its SHA-256, packed; `/ac/KEY` names it. Every problem with the server is a
//! miss, and a fault in the report: no run waits long for it, and none fails because of it. All data from the
//! server is untrusted. docs/shared-cache.md describes its use.

mod action;
mod budget;
mod client;
mod error;
mod netrc;
mod packed;
mod salt;
mod sender;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::backend::{AnswerDifference, CacheFault, CacheReport, UnusableAnswer};
use crate::model;
use crate::sys::lock;

use super::kernel::sha256;
use budget::Budget;
use client::{Client, HttpFault, Kind, LookupFault};
use salt::Salt;
use sender::Sender;

pub use action::decode;
pub use error::CacheError;
pub use packed::unpack;

/// Total time that a plan waits for a server without getting answers.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer that comes sooner costs nothing: a guest takes several times as long.
const QUICK_ANSWER: Duration = Duration::from_millis(250);
/// A miss that comes sooner costs nothing, either.
const QUICK_MISS: Duration = Duration::from_millis(20);
/// Failed connections before the cache is not used any more.
const MAX_FAILURES: u32 = 3;
/// Maximum size of an entry of `/ac/`, which has some hundred bytes.
const MAX_RESULT_BYTES: u64 = 64 << 10;
/// Maximum size of a packed answer, which has some kilobytes.
const MAX_PACKED_BYTES: u64 = 16 << 20;
const MAX_ANSWER_BYTES: u64 = 64 << 20;

pub struct SharedCache {
    url: String,
    may_write: bool,
    trust_percent: f64,
    salt: Salt,
    client: Arc<Client>,
    budget: Budget,
    sender: Sender,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    answers: u64,
    checked: u64,
    failures: u32,
    /// The last of them.
    failure: Option<CacheFault>,
    /// Why the cache is not used any more.
    left: Option<CacheFault>,
    unusable: Option<(u64, UnusableAnswer)>,
    differences: Vec<AnswerDifference>,
}

impl SharedCache {
    /// Reads the settings; sends nothing yet.
    pub fn open(config: &model::SharedCache, state: &Path) -> Result<SharedCache, CacheError> {
        SharedCache::with_patience(config, state, PATIENCE)
    }

    fn with_patience(
        config: &model::SharedCache,
        state: &Path,
        patience: Duration,
    ) -> Result<SharedCache, CacheError> {
        let client = Arc::new(Client::new(&config.url)?);
        Ok(SharedCache {
            url: config.url.to_string(),
            may_write: config.may_write,
            trust_percent: config.trust_percent,
            salt: Salt::of_user(state),
            sender: Sender::new(Arc::clone(&client)),
            client,
            budget: Budget::new(patience),
            tally: Mutex::default(),
        })
    }

    /// The answer under this key, complete and unpacked.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        if self.tally().left.is_some() {
            return None;
        }
        let Some(exchange) = self.budget.begin() else {
            self.leave(CacheFault::Slow { limit_ms: PATIENCE.as_millis() as u64 });
            return None;
        };
        let found = self.fetch(key, &exchange);
        exchange.end(if matches!(found, Ok(Some(_))) { QUICK_ANSWER } else { QUICK_MISS });
        match found {
            Ok(found) => found,
            Err(LookupFault::Unusable(why)) => {
                self.unusable(why);
                None
            }
            Err(LookupFault::Http(fault)) => {
                self.failed(fault);
                None
            }
        }
    }

    fn fetch(
        &self,
        key: &str,
        exchange: &budget::Exchange,
    ) -> Result<Option<Vec<u8>>, LookupFault> {
        let get = |kind, name: &str, limit| self.client.get(kind, name, limit, exchange.left());
        let Some(result) = get(Kind::Action, key, MAX_RESULT_BYTES)? else { return Ok(None) };
        let named = action::decode(&result).ok_or(UnusableAnswer::NoResult)?;
        if named.bytes > MAX_PACKED_BYTES {
            return Err(UnusableAnswer::Large(MAX_PACKED_BYTES).into());
        }
        // The content is gone: the server removed an old entry.
        let Some(packed) = get(Kind::Content, &named.sha256, MAX_PACKED_BYTES)? else {
            return Ok(None);
        };
        let found = packed.len() as u64;
        if found != named.bytes {
            return Err(UnusableAnswer::Cut { named: named.bytes, found }.into());
        }
        if sha256(&packed) != named.sha256 {
            return Err(UnusableAnswer::Digest.into());
        }
        match packed::unpack(&packed, MAX_ANSWER_BYTES) {
            Ok(Some(answer)) => Ok(Some(answer)),
            Ok(None) => Err(UnusableAnswer::Large(MAX_ANSWER_BYTES).into()),
            Err(_) => Err(UnusableAnswer::Packed.into()),
        }
    }

    /// Whether the answer for this key must be run again: for one user always the same answers, for another
    /// user others.
    pub fn is_to_check(&self, key: &str) -> bool {
        self.salt.part_of(key) >= self.trust_percent / 100.0
    }

    /// Counts a good answer. `is_checked`: it was run again.
    pub fn used(&self, is_checked: bool) {
        let mut tally = self.tally();
        tally.answers += 1;
        tally.checked += u64::from(is_checked);
    }

    /// Counts an answer that cannot be used.
    pub fn unusable(&self, why: UnusableAnswer) {
        let mut tally = self.tally();
        tally.unusable.get_or_insert((0, why)).0 += 1;
    }

    /// Records that a run gave another answer than the cache. The cache is not used any more.
    pub fn differs(&self, difference: AnswerDifference) {
        self.tally().differences.push(difference);
        self.leave(CacheFault::Differs);
    }

    /// Sends an answer in the background.
    pub fn put(&self, key: &str, answer: &[u8]) {
        let is_left = self.tally().left.is_some();
        if !self.may_write || is_left || answer.len() as u64 > MAX_ANSWER_BYTES {
            return;
        }
        // Memory alone can fail it.
        let Ok(packed) = packed::pack(answer) else { return };
        if packed.len() as u64 <= MAX_PACKED_BYTES {
            let named = action::Named { sha256: sha256(&packed), bytes: packed.len() as u64 };
            self.sender.send(key.to_string(), named, packed);
        }
    }

    /// Waits a little for what is still to be sent, and reports.
    pub fn end(&self) -> CacheReport {
        let is_left = self.tally().left.is_some();
        let patience = self.budget.begin().filter(|_| !is_left);
        let patience = patience.map_or(Duration::ZERO, |exchange| exchange.left());
        let sent = self.sender.end(patience);
        let tally = self.tally();
        let mut faults: Vec<CacheFault> =
            tally.left.as_ref().or(tally.failure.as_ref()).cloned().into_iter().collect();
        // One warning will do for a server that is gone.
        if faults.is_empty() {
            faults.extend(sent.refused.map(CacheFault::TakesNothing));
        }
        if let Some((times, first)) = tally.unusable.clone() {
            faults.push(CacheFault::Unusable { times, first });
        }
        CacheReport {
            url: self.url.clone(),
            answers: tally.answers,
            checked: tally.checked,
            sent: sent.done,
            not_sent: sent.left,
            faults,
            differences: tally.differences.clone(),
        }
    }

    fn failed(&self, fault: HttpFault) {
        let fault = match fault {
            HttpFault::Late => CacheFault::Slow { limit_ms: PATIENCE.as_millis() as u64 },
            HttpFault::Gone(why) => {
                let mut tally = self.tally();
                tally.failures += 1;
                let fault = CacheFault::Gone(why);
                tally.failure = Some(fault.clone());
                if tally.failures < MAX_FAILURES {
                    return;
                }
                fault
            }
            HttpFault::Redirects(to) => CacheFault::Redirects { to },
            HttpFault::Status(status @ (401 | 403 | 407)) => CacheFault::Refuses(status),
            HttpFault::Status(status) => CacheFault::Status(status),
        };
        self.leave(fault);
    }

    /// The first reason counts.
    fn leave(&self, fault: CacheFault) {
        self.tally().left.get_or_insert(fault);
        self.sender.stop();
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }
}
