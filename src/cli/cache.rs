//! The cache of answers that several users share: how it is asked for, by options and by the
//! configuration file, and what a plan had of it. schedlab help shared-cache.

use std::path::PathBuf;

use clap::Args;

use crate::backend::{AnswerDifference, Backend, CacheReport};
use crate::model::{CacheUrl, OFF, Raw, SharedCache, Value};
use crate::plan::{self, Configuration};
use crate::report::{clean, shortened};
use crate::store::{Note, Store};
use crate::sys::{self, clock};

use super::help;
use super::text::quoted;
use super::text_file::read_text;
use super::{Failure, plural, terminal};

/// In the configuration folder.
const FILE: &str = "config.toml";
/// Columns of a stranger's text in a message.
const MAX_SHOWN: usize = 300;

/// Options of every command with runs in the lab.
#[derive(Args, Clone, Default)]
pub struct CacheArgs {
    /// A cache of answers that several users share, over HTTP; `off`: none, whatever the
    /// configuration file says (schedlab help shared-cache)
    #[arg(help_heading = help::LAB, long, value_name = "URL")]
    cache: Option<String>,
    /// Whether new answers are sent to it: read-only or read-write [default: read-write]
    #[arg(help_heading = help::LAB, long, value_name = "MODE")]
    cache_mode: Option<String>,
    /// How many of its answers are taken without running them again [default: 98%]
    #[arg(help_heading = help::LAB, long, value_name = "PERCENT")]
    trust: Option<String>,
}

impl CacheArgs {
    pub fn is_empty(&self) -> bool {
        self.cache.is_none() && self.cache_mode.is_none() && self.trust.is_none()
    }

    /// As they stand on a command line, with a space before each.
    pub fn words(&self) -> String {
        let given =
            [("cache", &self.cache), ("cache-mode", &self.cache_mode), ("trust", &self.trust)];
        let words = given.into_iter().filter_map(|(name, value)| {
            value.as_ref().map(|value| format!(" --{name} {}", quoted(value)))
        });
        words.collect()
    }

    /// The cache that is asked for; an option wins over its line in the file.
    pub fn asked(&self) -> Result<Option<SharedCache>, Failure> {
        let wrong = |option: &str, message: String, hint: &str| {
            Failure::usage(format!("{option}: {message}"), hint)
        };
        let mode = self.value("--cache-mode", &self.cache_mode, plan::CACHE_MODE)?;
        let trust = self.value("--trust", &self.trust, plan::CACHE_TRUST)?;
        let url = match self.cache.as_deref() {
            Some(OFF) => return Ok(None),
            Some(url) => Some(
                url.parse::<CacheUrl>()
                    .map_err(|why| wrong("--cache", why.to_string(), why.hint()))?,
            ),
            None => None,
        };
        let configured = configured()?;
        let Some(url) = url.or(configured.cache_url) else {
            return match self.is_empty() {
                true => Ok(None),
                false => Err(Failure::usage(
                    "--cache-mode and --trust are of a cache, and none is named",
                    "--cache URL, or url in the configuration file: schedlab help shared-cache",
                )),
            };
        };
        let mode =
            mode.as_ref().and_then(Value::as_text).map(|mode| mode == SharedCache::READ_WRITE);
        let trust = trust.as_ref().and_then(Value::as_percent);
        Ok(Some(SharedCache {
            url,
            may_write: mode.or(configured.cache_may_write).unwrap_or(true),
            trust_percent: trust
                .or(configured.cache_trust_percent)
                .unwrap_or(SharedCache::TRUST_PERCENT),
        }))
    }

    fn value(
        &self,
        option: &str,
        given: &Option<String>,
        kind: crate::model::Kind,
    ) -> Result<Option<Value>, Failure> {
        let value = given.as_ref().map(|text| kind.parse(&Raw::Text(text.clone())));
        value.transpose().map_err(|wrong| Failure::option(option, wrong))
    }
}

/// The configuration file; one that is not there says nothing.
fn configured() -> Result<Configuration, Failure> {
    let Ok(folder) = sys::config_dir() else { return Ok(Configuration::default()) };
    let path: PathBuf = folder.join(FILE);
    let shown = clean(&path.display().to_string());
    match read_text(&path) {
        Ok(text) => plan::configuration(&shown, &text).map_err(Failure::Plan),
        Err(error) if sys::is_absent(&path, &error) => Ok(Configuration::default()),
        Err(error) => {
            let text = format!("cannot read the configuration {shown}: {error}");
            Err(Failure::usage(text, format!("ls -l {}", quoted(&shown))))
        }
    }
}

/// Ends the use of a plan's cache: warnings, what it had, and notes of what differs.
pub fn end(
    backend: &mut dyn Backend,
    is_quiet: bool,
    store: &mut Store,
    plan: &str,
) -> Result<(), Failure> {
    let Some(report) = backend.end_shared_cache() else { return Ok(()) };
    show(&report, is_quiet);
    note(&report, store, plan)
}

fn show(report: &CacheReport, is_quiet: bool) {
    let url = clean(&report.url);
    for difference in &report.differences {
        terminal::message(&format!("warning: {}", difference_text(&url, difference)));
    }
    for fault in &report.faults {
        let text = shortened(&fault.to_string(), MAX_SHOWN);
        terminal::message(&format!("warning: the cache {url} {text}\nhint: {}", fault.hint()));
    }
    if !is_quiet {
        terminal::message(&summary(&url, report));
    }
}

fn summary(url: &str, report: &CacheReport) -> String {
    let CacheReport { answers, checked, sent, not_sent, .. } = report;
    let answers = plural(*answers, "answer");
    let not_sent = match not_sent {
        0 => String::new(),
        left => format!(", {left} not sent"),
    };
    format!("cache: {answers} from {url}, {checked} checked again, {sent} sent{not_sent}")
}

/// Writes what differs to the plan, where whoever looks at it finds it.
fn note(report: &CacheReport, store: &mut Store, plan: &str) -> Result<(), Failure> {
    let url = shortened(&report.url, MAX_SHOWN);
    for difference in &report.differences {
        let text = difference_text(&url, difference);
        store.add_note(plan, &Note { written_unix_ns: clock::unix_ns(), text })?;
    }
    Ok(())
}

fn difference_text(url: &str, difference: &AnswerDifference) -> String {
    let what = shortened(&difference.what, MAX_SHOWN);
    let kept = match &difference.kept {
        Some([theirs, ours]) => {
            let [theirs, ours] = [theirs, ours].map(|path| clean(&path.display().to_string()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_answers() {
        let mut report = CacheReport { answers: 46, checked: 1, sent: 2, ..Default::default() };
        assert_eq!(
            summary("http://example.org", &report),
            "cache: 46 answers from http://example.org, 1 checked again, 2 sent"
        );
        report.answers = 1;
        report.not_sent = 3;
        let text = summary("http://example.org", &report);
        assert_eq!(
            text,
            "cache: 1 answer from http://example.org, 1 checked again, 2 sent, 3 not sent"
        );
    }

    #[test]
    fn options_go_on_with_the_plan() {
        let given = |text: &str| Some(text.to_string());
        let args = CacheArgs {
            cache: given("http://example.org"),
            cache_mode: None,
            trust: given("100%"),
        };
        assert_eq!(args.words(), " --cache http://example.org --trust 100%");
        assert!(CacheArgs::default().is_empty() && CacheArgs::default().words().is_empty());
    }
}
