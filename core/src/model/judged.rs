//! The metrics and margins that a user asks to be judged. Pure.

use serde::{Deserialize, Serialize};

use super::quoted;

/// Margins are read and written in these many parts of a percent, so that the margin shown is the one that holds.
pub const MARGIN_PARTS: f64 = 1e4;
/// The option of [`Judged::patterns`] whose metrics may be any.
pub const MARGIN: &str = "--margin";
/// In place of the name of a metric.
const ALL_METRICS: &str = "all";

/// The command line's requests for judging. A plan that is resumed keeps to them, as its looks have spent a part of
/// the error rate on these metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Judged {
    /// Patterns in place of the headline metrics.
    pub metrics: Vec<String>,
    /// Margins as shares, each with the pattern of its metrics; `None`: of all.
    pub margins: Vec<(Option<String>, f64)>,
    /// Every other metric is judged too and shown as -v does, as a second family with an error rate of its own.
    pub all_metrics: bool,
    /// Runs of different backends are compared.
    pub mixed: bool,
}

impl Judged {
    /// `metrics` as they are written, where `all` stands for every other one.
    pub fn new(
        margins: Vec<(Option<String>, f64)>,
        mut metrics: Vec<String>,
        mixed: bool,
    ) -> Judged {
        let written = metrics.len();
        metrics.retain(|metric| metric != ALL_METRICS);
        Judged { all_metrics: metrics.len() < written, metrics, margins, mixed }
    }

    pub fn is_default(&self) -> bool {
        *self == Judged::default()
    }

    pub fn names_metrics(&self) -> bool {
        self.all_metrics || !self.metrics.is_empty()
    }

    /// This request, or the one that a plan was begun with if this one asks for nothing.
    pub fn or(&self, begun: &Judged) -> Judged {
        if !self.is_default() {
            return self.clone();
        }
        let mut begun = begun.clone();
        // A stored plan may come from outside.
        begun.margins.retain(|(_, share)| *share > 0.0 && *share <= 1.0);
        begun
    }

    /// The same margins for other metrics.
    pub fn with_metrics(&self, metrics: Vec<String>) -> Judged {
        Judged { metrics, all_metrics: false, ..self.clone() }
    }

    /// The patterns of metrics, each with its option.
    pub fn patterns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let margins = self.margins.iter().filter_map(|(metric, _)| metric.as_deref());
        let metrics = self.metrics.iter().map(|metric| ("--metric", metric.as_str()));
        metrics.chain(margins.map(|metric| (MARGIN, metric)))
    }

    /// The words of a command line.
    pub fn options(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (metric, margin) in &self.margins {
            let metric = metric.as_ref().map_or(String::new(), |metric| format!("{metric}="));
            let percent = (margin * 100.0 * MARGIN_PARTS).round() / MARGIN_PARTS;
            words.extend([MARGIN.to_string(), format!("{metric}{percent}%")]);
        }
        let all = self.all_metrics.then(|| ALL_METRICS.to_string());
        for metric in self.metrics.iter().cloned().chain(all) {
            words.extend(["--metric".to_string(), metric]);
        }
        words.extend(self.mixed.then(|| "--mixed".to_string()));
        words
    }

    /// The options as they stand on a command line, with a space before each.
    pub fn words(&self) -> String {
        self.options().iter().map(|word| format!(" {}", quoted(word))).collect()
    }
}
