//! The cache of answers that several users share: how it is asked for, by options and by the
//! configuration file, and what a plan had of it. schedlab help shared-cache.

use std::path::PathBuf;

use clap::Args;

use crate::backend::{AnswerDifference, Backend, CacheReport};
use crate::model::{CacheUrl, OFF, Raw, SharedCache};
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
    /// A cache of answers that several users share, over HTTP: URL,read-only,trust=100%, or any of the
    /// three; `off`: none, whatever the configuration file says (schedlab help shared-cache)
    #[arg(help_heading = help::LAB, long, value_name = "URL,...")]
    cache: Option<String>,
}

impl CacheArgs {
    pub fn is_empty(&self) -> bool {
        self.cache.is_none()
    }

    /// As it stands on a command line, with a space before it.
    pub fn words(&self) -> String {
        let cache = self.cache.as_ref();
        cache.map_or(String::new(), |cache| format!(" --cache {}", quoted(cache)))
    }

    /// The cache that is asked for; what the option says wins over the file.
    pub fn asked(&self) -> Result<Option<SharedCache>, Failure> {
        let (mut url, mut may_write, mut trust) = (None, None, None);
        for part in self.cache.iter().flat_map(|text| text.split(',')) {
            match part.split_once('=') {
                _ if part == OFF => return Ok(None),
                _ if part == SharedCache::READ_WRITE => may_write = Some(true),
                _ if part == SharedCache::READ_ONLY => may_write = Some(false),
                Some(("trust", text)) => trust = Some(trust_of(text)?),
                _ => {
                    let parsed = part.parse::<CacheUrl>();
                    url = Some(parsed.map_err(|why| wrong(&why.to_string(), why.hint()))?);
                }
            }
        }
        let configured = configured()?;
        let Some(url) = url.or(configured.cache_url) else {
            let hint =
                "--cache URL,..., or url in the configuration file: schedlab help shared-cache";
            return match self.is_empty() {
                true => Ok(None),
                false => Err(wrong("no cache is named", hint)),
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
}

fn wrong(message: &str, hint: &str) -> Failure {
    Failure::usage(format!("--cache: {message}"), hint)
}

/// How many of the cache's answers are taken without running them again.
fn trust_of(text: &str) -> Result<f64, Failure> {
    let value = plan::CACHE_TRUST.parse(&Raw::Text(text.to_string()));
    let value = value.map_err(|why| Failure::option("--cache: trust", why))?;
    value.as_percent().ok_or_else(|| wrong("trust is a percentage", "--cache trust=100%"))
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
        let args = CacheArgs { cache: given("http://example.org,trust=100%") };
        assert_eq!(args.words(), " --cache http://example.org,trust=100%");
        assert!(CacheArgs::default().is_empty() && CacheArgs::default().words().is_empty());
    }
}
