//! The cache of answers that several users share: how it is asked for, by options and by the
//! configuration file, and the notes that a plan has of it. schedlab help shared-cache.

use crate::backend::{AnswerDifference, Backend, CacheReport};
use crate::model::{Advice, CacheUrl, OFF, Raw, SharedCache, clean_path};
use crate::plan::{self, Configuration};
use crate::report::shortened;
use crate::store::{Note, Store};
use crate::sys::{self, clock, remedy};

use super::text_file::read_text;
use super::{Notice, Request, SessionError};

/// In the configuration folder.
const FILE: &str = "config.toml";
/// Columns of a stranger's text in a message.
pub const MAX_SHOWN: usize = 300;

/// The cache that is asked for by the words of `--cache`, which win over the configuration file.
pub fn requested(option: Option<&str>) -> Result<Option<SharedCache>, SessionError> {
    let (mut url, mut may_write, mut trust) = (None, None, None);
    for part in option.iter().flat_map(|text| text.split(',')) {
        match part.split_once('=') {
            _ if part == OFF => return Ok(None),
            _ if part == SharedCache::READ_WRITE => may_write = Some(true),
            _ if part == SharedCache::READ_ONLY => may_write = Some(false),
            Some(("trust", text)) => trust = Some(trust_of(text)?),
            _ => {
                let parsed = part.parse::<CacheUrl>();
                url = Some(
                    parsed
                        .map_err(|why| wrong(&why.to_string(), &why.hint().unwrap_or_default()))?,
                );
            }
        }
    }
    let configured = configured()?;
    let Some(url) = url.or(configured.cache_url) else {
        let hint = "--cache URL,..., or url in the configuration file: schedlab help shared-cache";
        return match option {
            None => Ok(None),
            Some(_) => Err(wrong("no cache is named", hint)),
        };
    };
    Ok(Some(SharedCache {
        url,
        may_write: may_write.or(configured.cache_may_write).unwrap_or(true),
        trust_percent: trust
            .or(configured.cache_trust_percent)
            .unwrap_or(SharedCache::TRUST_PERCENT),
    }))
}

fn wrong(message: &str, hint: &str) -> SessionError {
    SessionError::usage(format!("--cache: {message}"), hint)
}

/// How many of the cache's answers are taken without running them again.
fn trust_of(text: &str) -> Result<f64, SessionError> {
    let value = plan::CACHE_TRUST.parse(&Raw::Text(text.to_string()));
    let value = value.map_err(|why| SessionError::option("--cache: trust", why))?;
    value.as_percent().ok_or_else(|| wrong("trust is a percentage", "--cache trust=100%"))
}

/// The configuration file; one that is not there says nothing.
fn configured() -> Result<Configuration, SessionError> {
    let Ok(folder) = sys::config_dir() else { return Ok(Configuration::default()) };
    let path = folder.join(FILE);
    let shown = clean_path(&path);
    match read_text(&path) {
        Ok(text) => Ok(plan::configuration(&shown, &text)?),
        Err(error) if sys::is_absent(&path, &error) => Ok(Configuration::default()),
        Err(error) => {
            let text = format!("cannot read the configuration {shown}: {error}");
            Err(SessionError::usage(text, remedy::read(&path, &error)))
        }
    }
}

/// Ends the use of a plan's cache: a notice of what it had, and notes of what differs.
pub(super) fn end(
    backend: &mut dyn Backend,
    store: &mut Store,
    plan: &str,
    request: &Request,
) -> Result<(), SessionError> {
    let Some(report) = backend.end_shared_cache() else { return Ok(()) };
    let is_quiet = request.quiet;
    request.db.notify(&Notice::Cache { report: &report, is_quiet });
    note(&report, store, plan)
}

/// Writes what differs to the plan, where whoever looks at it finds it.
fn note(report: &CacheReport, store: &mut Store, plan: &str) -> Result<(), SessionError> {
    let url = shortened(&report.url, MAX_SHOWN);
    for difference in &report.differences {
        let text = difference_text(&url, difference);
        store.add_note(plan, &Note { written_unix_ns: clock::unix_ns(), text })?;
    }
    Ok(())
}

pub fn difference_text(url: &str, difference: &AnswerDifference) -> String {
    let what = shortened(&difference.what, MAX_SHOWN);
    let kept = match &difference.kept {
        Some([theirs, ours]) => {
            let [theirs, ours] = [theirs, ours].map(|path| clean_path(path));
            format!("its answer is kept in {theirs}, this machine's in {ours}")
        }
        None => "neither could be kept".to_string(),
    };
    format!(
        "the cache {url} has another answer than this machine for {}: {what}; this machine's was \
         used; {kept}",
        difference.key
    )
}
