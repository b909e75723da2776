//! The figures of a run: of its worker sets, workers and windows, and how fair it was. Plain data
//! and the arithmetic on it; `results` makes them from reports. Pure.

use crate::model::Reading;

use super::file::Report;

/// Number of figures per worker set in a table of fairness.
pub(super) const FAIRNESS_FIGURES: usize = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Averages {
    /// From a worker's first report to its last.
    Right,
    /// The averages as the original computes them.
    Original,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunFigures {
    pub index: usize,
    pub label: String,
    pub completed: bool,
    pub sets: Vec<SetFigures>,
    /// Lines below the table: workers that are not in it, what disturbed the run. None with the
    /// original's averages. Not yet clean.
    pub notes: Vec<String>,
    /// The fairness, or why it could not be computed. `None` for a run that is not completed or has one
    /// worker, and with the original's averages, which have no fairness.
    pub fairness: Option<Reading<RunFairness>>,
}

/// Figures over the workers of a set that have a window. With the original's averages: over all workers, as
/// soon as one has reported; the others count as 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetFigures {
    pub args: Vec<String>,
    pub throughput: Spread,
    pub utilisation: Spread,
    /// `Count`, or 0 if it is negative.
    pub count: usize,
    /// Workers that have reported, by number.
    pub workers: Vec<WorkerFigures>,
}

/// Averages of workers, and the extremes of any window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    pub total: f64,
    /// NaN without workers.
    pub mean: f64,
    /// Standard deviation of the whole population.
    pub deviation: f64,
    pub of_means: MinMax,
    pub of_windows: MinMax,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerFigures {
    /// Its number within the set.
    pub id: usize,
    /// Since the worker began.
    pub kops: i64,
    /// From its first report to its last.
    pub time_ns: i64,
    /// `None` where it could not be read at the first report or at the last one.
    pub cputime_ns: Option<i64>,
    pub throughput: f64,
    pub utilisation: f64,
    pub throughputs: MinMax,
    pub utilisations: MinMax,
    pub reports: Vec<Report>,
    /// The last one that was read, while reports are added.
    pub(super) last_cputime_ns: Option<i64>,
}

/// 0 and 0 before the first value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MinMax {
    pub min: f64,
    pub max: f64,
    is_set: bool,
}

impl MinMax {
    /// A value is missing in it.
    pub(super) fn miss(&mut self) {
        if !self.is_set {
            (self.min, self.max) = (f64::NAN, f64::NAN);
        }
    }

    pub(super) fn update(&mut self, value: f64, averages: Averages) {
        if averages == Averages::Right && value.is_nan() {
            return;
        }
        let is_first = match averages {
            Averages::Right => !std::mem::replace(&mut self.is_set, true),
            Averages::Original => self.min == 0.0,
        };
        let starts = averages == Averages::Right && is_first;
        if starts || value > self.max {
            self.max = value;
        }
        if is_first || value < self.min {
            self.min = value;
        }
    }
}

impl Report {
    /// The CPU time from this report to a later one.
    pub(super) fn cputime_until(&self, later: &Report) -> Option<i64> {
        Some(later.cputime_ns? - self.cputime_ns?)
    }
}

/// Thousand operations a second.
pub fn throughput(from: &Report, to: &Report) -> f64 {
    (to.kops - from.kops) as f64 / ((to.now_ns - from.now_ns) as f64 / 1e9)
}

/// CPU time by time; NaN where a CPU time could not be read.
pub fn utilisation(from: &Report, to: &Report) -> f64 {
    let cputime_ns = from.cputime_until(to).map_or(f64::NAN, |ns| ns as f64);
    cputime_ns / (to.now_ns - from.now_ns) as f64
}

/// The fairness of a completed run of several workers, all of which have a solo run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFairness {
    /// CPUs of the pool.
    pub cpus: Reading<usize>,
    /// Want, entitled, got, got / entitled, rate / solo, max / min, window cv. `want`, `entitled` and `got`
    /// are CPUs, means over the set's workers; the others are ratios.
    pub sets: Vec<[Reading<f64>; FAIRNESS_FIGURES]>,
    /// Jain's index over got / entitled of all workers that are entitled to something; 0 to 1.
    pub jain: Reading<f64>,
    /// For each set, the disturbance of the solo run that its want is from.
    pub disturbed: Vec<Option<String>>,
}

impl SetFigures {
    /// Every worker of the set by its number, as soon as one has reported; those that have not
    /// are `None`.
    pub fn rows(&self) -> impl Iterator<Item = (usize, Option<&WorkerFigures>)> {
        let count = if self.workers.is_empty() { 0 } else { self.count };
        let mut reported = self.workers.iter().peekable();
        (0..count).map(move |id| (id, reported.next_if(|worker| worker.id == id)))
    }
}

impl WorkerFigures {
    pub fn has_window(&self) -> bool {
        self.reports.len() >= 2
    }

    pub(super) fn summarise(&mut self, averages: Averages) {
        let (Some(&first), Some(&last)) = (started(self, averages), self.reports.last()) else {
            return;
        };
        self.kops = last.kops;
        self.time_ns = last.now_ns - first.now_ns;
        self.cputime_ns = first.cputime_until(&last);
        let since = match averages {
            Averages::Right => first,
            Averages::Original => Report { kops: 0, ..first },
        };
        self.throughput = throughput(&since, &last);
        self.utilisation = utilisation(&first, &last);
        if averages == Averages::Right && self.has_window() && self.utilisation.is_nan() {
            self.utilisations.miss();
        }
    }
}

/// The report that a worker's averages begin at. The original takes a moment of 0 for none.
fn started(worker: &WorkerFigures, averages: Averages) -> Option<&Report> {
    let mut reports = worker.reports.iter();
    match averages {
        Averages::Right => reports.next(),
        Averages::Original => reports.find(|report| report.now_ns != 0).or(worker.reports.last()),
    }
}

impl Spread {
    /// Workers are missing in it: it has no total, and no extremes unless there are some of other workers.
    pub(super) fn miss(&mut self) {
        self.total = f64::NAN;
        self.of_means.miss();
        self.of_windows.miss();
    }

    pub(super) fn average(&mut self, values: &[f64]) {
        let count = values.len() as f64;
        self.total = values.iter().sum::<f64>() + 0.0;
        self.mean = self.total / count;
        let squares: f64 = values.iter().map(|value| (value - self.mean).powi(2)).sum();
        self.deviation = (squares / count).sqrt();
    }
}

/// Formats like Go's `%.2f`, which has its own names for infinity.
pub(super) fn fixed(value: f64, digits: usize) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_string();
    }
    format!("{value:.digits$}")
}
