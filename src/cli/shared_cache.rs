//! `--cache`: the cache of answers that several users share, and what a plan had of it.
//! schedlab help shared-cache.

use clap::Args;

use crate::backend::CacheReport;
use crate::model::{Advice, Problem};
use crate::report::numbers::counted;
use crate::report::{clean, shortened};
use crate::session::shared_cache::{MAX_SHOWN, difference_text};

use super::{help, terminal};

/// Options of every command with runs in the lab.
#[derive(Args, Clone, Default)]
pub struct CacheArgs {
    /// A cache of answers that several users share, over HTTP: URL,read-only,trust=100%, or any of the
    /// three; `off`: none, whatever the configuration file says (schedlab help shared-cache)
    #[arg(help_heading = help::LAB, long, value_name = "URL,...")]
    pub cache: Option<String>,
}

/// Warnings, and what the cache gave.
pub fn show(report: &CacheReport, is_quiet: bool) {
    let url = clean(&report.url);
    for difference in &report.differences {
        terminal::message(&format!("warning: {}", difference_text(&url, difference)));
    }
    for fault in &report.faults {
        let text = shortened(&fault.to_string(), MAX_SHOWN);
        let problem = Problem { message: format!("the cache {url} {text}"), ..fault.problem() };
        terminal::message(&format!("warning: {problem}"));
    }
    if !is_quiet {
        terminal::message(&summary(&url, report));
    }
}

fn summary(url: &str, report: &CacheReport) -> String {
    let CacheReport { answers, checked, sent, not_sent, .. } = report;
    let answers = counted(*answers, "answer");
    let not_sent = match not_sent {
        0 => String::new(),
        left => format!(", {left} not sent"),
    };
    format!("cache: {answers} from {url}, {checked} checked again, {sent} sent{not_sent}")
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
}
