//! The metrics that every worker set has, computed from the counts of its workers.
//!
//! Input: one run's merged histograms and workers. Output: metrics in the order of the report; a value that cannot
//! be computed carries its reason. Pure.

use crate::model::{
    ABOVE_WALL, Direction, Importance, Metric, MetricKind, Reading, Statistic, Unit, WorkerResult,
    is_above_wall,
};

use super::{Histogram, cv, jain};

pub struct StandardInput<'a> {
    /// The importance of `throughput`.
    pub throughput: Importance,
    pub workers: Vec<StandardWorker<'a>>,
    pub latencies: Vec<StandardLatency<'a>>,
    /// The sum of each window over the workers that count.
    pub window_ops_per_s: &'a [f64],
    /// In a burst, the operations that each worker that counts does once.
    pub burst_ops: Option<u64>,
}

pub struct StandardWorker<'a> {
    /// Whether operations of its role count for throughput and fairness.
    pub counts: bool,
    pub result: &'a WorkerResult,
}

pub struct StandardLatency<'a> {
    pub name: &'a str,
    /// Merged over workers.
    pub histogram: &'a Histogram,
    /// The importance of its 99th percentile; its other metrics explain.
    pub importance: Importance,
}

/// The metric that is computed from the CPU time of workers.
pub const CPUS: &str = "cpus";

/// The standard metrics: `throughput`; `NAME_p50`, `_p99`, `_p99.9`, `_max`, `_mean` of each histogram; `fairness`;
/// `spread`; `window_cv`; `cpus`; `voluntary_switches`, `involuntary_switches`, `migrations`. A burst has `time`
/// first, and its throughput says the same again.
///
/// A rate of the set is the sum of its workers' rates, each over the worker's own wall time: workers are read one
/// after the other, and one common time would falsify both ends.
pub fn standard_metrics(input: &StandardInput) -> Vec<Metric> {
    use Direction::{HigherIsBetter, LowerIsBetter, Neutral};
    let kind = |name: &str, unit, direction, of| MetricKind::explaining(name, unit, direction, of);
    let rate = kind("throughput", Unit::OpsPerS, HigherIsBetter, Statistic::Rate);
    let time = input.burst_ops.map(|ops| {
        let time = kind("time", Unit::Ns, LowerIsBetter, Statistic::Max);
        time.with_importance(Importance::Headline).reading(burst_time(input, ops))
    });
    let importance = if time.is_some() { Importance::Explaining } else { input.throughput };
    let mut metrics: Vec<Metric> = time.into_iter().collect();
    metrics.push(rate.with_importance(importance).reading(throughput(input)));
    metrics.extend(input.latencies.iter().flat_map(latency_metrics));
    let fairness_kind = kind("fairness", Unit::Ratio, HigherIsBetter, Statistic::Share);
    let variation = |name| kind(name, Unit::Ratio, LowerIsBetter, Statistic::Variation);
    metrics.extend([
        fairness_kind.reading(fairness(input)),
        variation("spread").reading(spread(input)),
        variation("window_cv").reading(window_cv(input)),
        kind(CPUS, Unit::Cpus, Neutral, Statistic::Count).reading(cpus(input)),
    ]);
    type Counter = fn(&WorkerResult) -> &Reading<u64>;
    let counters: [(&str, Statistic, Counter); 3] = [
        ("voluntary_switches", Statistic::VoluntarySwitches, |worker| &worker.voluntary_switches),
        ("involuntary_switches", Statistic::InvoluntarySwitches, |worker| {
            &worker.involuntary_switches
        }),
        ("migrations", Statistic::Count, |worker| &worker.migrations),
    ];
    for (name, statistic, counter) in counters {
        let value = counter_rate(input, counter);
        metrics.push(kind(name, Unit::PerS, Neutral, statistic).reading(value));
    }
    metrics
}

/// Where variants take turns: the throughput in the late halves of a variant's blocks to that in the early ones. If
/// it differs between variants, the time of a block is too short for what they change.
pub fn late_to_early() -> MetricKind {
    MetricKind::explaining(LATE_TO_EARLY, Unit::Ratio, Direction::Neutral, Statistic::Mean)
}

/// The name of [`late_to_early`].
pub const LATE_TO_EARLY: &str = "late_to_early";

/// The quantiles of each latency, in parts per million.
const QUANTILES: [(&str, u32); 3] = [("p50", 500_000), ("p99", 990_000), ("p99.9", 999_000)];
/// The quantile of a latency that is a headline metric, if one of it is.
pub const HEADLINE_QUANTILE: Statistic = Statistic::Quantile(990_000);
const MAX: &str = "max";
const MEAN: &str = "mean";
/// The share by which a quantile may be longer and still counts as exact: buckets are as wide. A maximum and a mean
/// count as exact if the latencies that have not ended are at most this share of all, by number and by time.
const MAX_SHORT: f64 = 0.01;

/// The metrics of a latency whose values may be too low, as `ages` are of latencies that have not ended yet.
pub fn lower_bounds(ended: &Histogram, ages: &Histogram) -> Vec<&'static str> {
    let (mut counted, mut endless) = (ended.clone(), ended.clone());
    counted.add_all(ages);
    endless.add(u64::MAX, ages.total());
    // Endless latencies make any maximum and mean endless, too.
    let is_much = |part: f64, all: f64| part > MAX_SHORT * all;
    let are_many = is_much(ages.total() as f64, counted.total() as f64);
    let time_ns = |histogram: &Histogram| {
        histogram.mean_ns().map_or(0.0, |mean_ns| mean_ns * histogram.total() as f64)
    };
    let max = are_many || ages.max_ns() > ended.max_ns();
    let mean = are_many || is_much(time_ns(ages), time_ns(&counted));
    bounds([&counted, &endless], max, mean)
}

/// The metrics of a latency whose values are too low, as `cut` are latencies that ended and could not be counted.
pub fn bounds_without(ended: &Histogram, cut: &Histogram) -> Vec<&'static str> {
    let mut all = ended.clone();
    all.add_all(cut);
    let is_mean_short = is_longer(all.mean_ns(), ended.mean_ns());
    bounds([ended, &all], cut.max_ns() > ended.max_ns(), is_mean_short)
}

fn is_longer(all_ns: Option<f64>, counted_ns: Option<f64>) -> bool {
    all_ns > counted_ns.map(|ns| ns * (1.0 + MAX_SHORT))
}

/// The quantiles of `counted` that are shorter than those of `longer`; the maximum and the mean where they are bounds.
fn bounds([counted, longer]: [&Histogram; 2], max: bool, mean: bool) -> Vec<&'static str> {
    let is_bound = |(_, ppm): &&(&str, u32)| {
        if Statistic::Quantile(*ppm).too_few(counted.total(), "").is_some() {
            return false;
        }
        let [low, high] = [counted, longer].map(|histogram| quantile_ns(histogram, *ppm));
        is_longer(high, low)
    };
    let quantiles = QUANTILES.iter().filter(is_bound).map(|(suffix, _)| *suffix);
    quantiles.chain(max.then_some(MAX)).chain(mean.then_some(MEAN)).collect()
}

fn quantile_ns(histogram: &Histogram, ppm: u32) -> Option<f64> {
    histogram.quantile_ns(f64::from(ppm) / 1e6)
}

fn latency_metrics(latency: &StandardLatency) -> [Metric; 5] {
    let histogram = latency.histogram;
    let [p50, p99, p999] = QUANTILES
        .map(|(suffix, ppm)| (suffix, Statistic::Quantile(ppm), quantile_ns(histogram, ppm)));
    [
        p50,
        p99,
        p999,
        (MAX, Statistic::Max, histogram.max_ns().map(|max_ns| max_ns as f64)),
        (MEAN, Statistic::Mean, histogram.mean_ns()),
    ]
    .map(|(suffix, statistic, value)| {
        let name = format!("{}_{suffix}", latency.name);
        let kind = MetricKind::explaining(name, Unit::Ns, Direction::LowerIsBetter, statistic);
        let importance = match statistic {
            HEADLINE_QUANTILE => latency.importance,
            _ => Importance::Explaining,
        };
        let value = match statistic.too_few(histogram.total(), "samples") {
            Some(why) => Reading::Unknown(why),
            None => Reading::from_option(value, "no samples in the measured section"),
        };
        kind.with_subject(latency.name).with_importance(importance).reading(value)
    })
}

/// `count` per second of the time in which the worker was counted.
fn per_second(count: u64, wall_ns: u64, worker: &WorkerResult) -> Reading<f64> {
    match wall_ns {
        0 => Reading::Unknown(format!("worker {} was measured for no time", worker.tid)),
        wall_ns => Reading::Known(count as f64 * 1e9 / wall_ns as f64),
    }
}

/// Known only where every part is.
fn all(parts: impl Iterator<Item = Reading<f64>>) -> Reading<Vec<f64>> {
    let mut known = Vec::new();
    let mut unknown: Option<String> = None;
    let mut missing = 0;
    for part in parts {
        match part {
            Reading::Known(value) => known.push(value),
            Reading::Unknown(why) => {
                missing += 1;
                unknown.get_or_insert(why);
            }
        }
    }
    match unknown {
        None if known.is_empty() => Reading::Unknown("no worker counts here".to_string()),
        None => Reading::Known(known),
        Some(why) if known.is_empty() => Reading::Unknown(why),
        Some(why) => {
            let workers = missing + known.len();
            Reading::Unknown(format!("{missing} of {workers} workers: {why}"))
        }
    }
}

/// Operations per second of each worker that counts.
fn op_rates(input: &StandardInput) -> Reading<Vec<f64>> {
    let counting = input.workers.iter().filter(|worker| worker.counts);
    all(counting.map(|worker| per_second(worker.result.ops, worker.result.wall_ns, worker.result)))
}

/// From the begin of a burst to the end of its last worker's last operation.
fn burst_time(input: &StandardInput, ops: u64) -> Reading<f64> {
    let counting = || input.workers.iter().filter(|worker| worker.counts).map(|own| own.result);
    let open: Vec<u64> = counting().map(|own| own.ops).filter(|&done| done < ops).collect();
    match (open.iter().min(), counting().map(|own| own.wall_ns).max()) {
        (Some(least), _) => Reading::Unknown(format!(
            "{} of {} workers had not done their {ops} operations by the end; the slowest did {least}",
            open.len(),
            counting().count()
        )),
        (None, Some(time_ns)) => Reading::Known(time_ns as f64),
        (None, None) => Reading::Unknown("no worker counts here".to_string()),
    }
}

fn throughput(input: &StandardInput) -> Reading<f64> {
    op_rates(input).map(|rates| rates.iter().sum())
}

fn fairness(input: &StandardInput) -> Reading<f64> {
    op_rates(input).and_then(|rates| match rates.len() {
        1 => Reading::Unknown("one worker: nothing to compare".to_string()),
        _ => Reading::from_option(jain(&rates), NO_OPS),
    })
}

const NO_OPS: &str = "no operations in the measured section";

/// How far the workers differ: the coefficient of variation of their rates.
fn spread(input: &StandardInput) -> Reading<f64> {
    op_rates(input).and_then(|rates| match rates.len() {
        1 => Reading::Unknown("one worker: nothing to compare".to_string()),
        _ => Reading::from_option(cv(&rates), NO_OPS),
    })
}

/// How steady the set is within a run: the coefficient of variation of its rate in windows.
fn window_cv(input: &StandardInput) -> Reading<f64> {
    match input.window_ops_per_s {
        [] | [_] => Reading::Unknown("fewer than two windows: nothing to compare".to_string()),
        rates => Reading::from_option(cv(rates), NO_OPS),
    }
}

/// CPUs kept busy: per worker at most one.
fn cpus(input: &StandardInput) -> Reading<f64> {
    let shares = input.workers.iter().map(|worker| {
        let WorkerResult { cpu_ns, wall_ns, .. } = *worker.result;
        if is_above_wall(cpu_ns, wall_ns, 1) {
            return Reading::Unknown(ABOVE_WALL.to_string());
        }
        per_second(cpu_ns, wall_ns, worker.result).map(|ns_per_s| ns_per_s / 1e9)
    });
    all(shares).map(|shares| shares.iter().sum())
}

fn counter_rate(
    input: &StandardInput,
    counter: fn(&WorkerResult) -> &Reading<u64>,
) -> Reading<f64> {
    let rates = input.workers.iter().map(|worker| {
        let WorkerResult { counted_wall_ns, .. } = *worker.result;
        let count = counter(worker.result).clone();
        count.and_then(|count| per_second(count, counted_wall_ns, worker.result))
    });
    all(rates).map(|rates| rates.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::worker_result;

    fn worker(ops: u64, wall_ns: u64) -> WorkerResult {
        WorkerResult {
            counted_wall_ns: wall_ns * 2,
            voluntary_switches: Reading::Known(20),
            migrations: Reading::Unknown("/proc/7/sched: ENOENT, not there".to_string()),
            ..worker_result(ops, wall_ns, wall_ns / 4)
        }
    }

    fn metrics(workers: &[(bool, WorkerResult)], latency: &Histogram) -> Vec<Metric> {
        metrics_over(workers, latency, &[300.0, 500.0])
    }

    fn metrics_over(
        workers: &[(bool, WorkerResult)],
        latency: &Histogram,
        windows: &[f64],
    ) -> Vec<Metric> {
        let workers =
            workers.iter().map(|(counts, result)| StandardWorker { counts: *counts, result });
        standard_metrics(&StandardInput {
            workers: workers.collect(),
            throughput: Importance::Headline,
            latencies: vec![StandardLatency {
                name: "wakeup",
                histogram: latency,
                importance: Importance::Headline,
            }],
            window_ops_per_s: windows,
            burst_ops: None,
        })
    }

    fn value(metrics: &[Metric], name: &str) -> Result<f64, String> {
        match &metrics.iter().find(|metric| metric.kind.name == name).expect(name).value {
            Reading::Known(value) => Ok(*value),
            Reading::Unknown(why) => Err(why.clone()),
        }
    }

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn names_units_and_directions_in_report_order() {
        let metrics = metrics(&[(true, worker(1, SECOND_NS))], &Histogram::default());
        let lines: Vec<String> = metrics
            .iter()
            .map(|Metric { kind, .. }| {
                let MetricKind { name, unit, direction, subject, statistic, importance } = kind;
                let of = subject.as_deref().unwrap_or("-");
                format!("{name} {unit:?} {direction:?} {of} {statistic:?} {importance:?}")
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        throughput OpsPerS HigherIsBetter - Rate Headline
        wakeup_p50 Ns LowerIsBetter wakeup Quantile(500000) Explaining
        wakeup_p99 Ns LowerIsBetter wakeup Quantile(990000) Headline
        wakeup_p99.9 Ns LowerIsBetter wakeup Quantile(999000) Explaining
        wakeup_max Ns LowerIsBetter wakeup Max Explaining
        wakeup_mean Ns LowerIsBetter wakeup Mean Explaining
        fairness Ratio HigherIsBetter - Share Explaining
        spread Ratio LowerIsBetter - Variation Explaining
        window_cv Ratio LowerIsBetter - Variation Explaining
        cpus Cpus Neutral - Count Explaining
        voluntary_switches PerS Neutral - VoluntarySwitches Explaining
        involuntary_switches PerS Neutral - InvoluntarySwitches Explaining
        migrations PerS Neutral - Count Explaining
        ");
    }

    #[test]
    fn rates_are_summed_over_workers_each_by_its_own_time() {
        let latency = (1..=100).map(|ns| (ns, 30)).collect();
        let workers = [
            (true, worker(100, SECOND_NS)),
            (true, worker(600, 2 * SECOND_NS)),
            (false, worker(5, SECOND_NS)),
        ];
        let metrics = metrics(&workers, &latency);
        let cases: &[(&str, Result<f64, &str>)] = &[
            ("throughput", Ok(400.0)),
            ("wakeup_p50", Ok(50.0)),
            ("wakeup_p99", Ok(99.0)),
            ("wakeup_p99.9", Ok(100.0)),
            ("wakeup_max", Ok(100.0)),
            ("wakeup_mean", Ok(50.5)),
            ("fairness", Ok(0.8)), // rates 100 and 300: 400^2 / (2 * 100000)
            ("spread", Ok(0.5_f64.sqrt())), // deviation 100 * sqrt 2 of a mean of 200
            ("window_cv", Ok(0.125_f64.sqrt())), // and of a mean of 400
            ("cpus", Ok(0.75)),
            ("voluntary_switches", Ok(25.0)),
            ("involuntary_switches", Ok(0.0)),
            ("migrations", Err("/proc/7/sched: ENOENT, not there")),
        ];
        for (name, expected) in cases {
            match (value(&metrics, name), expected) {
                (Ok(got), Ok(value)) => assert!((got - value).abs() < 1e-9, "{name}: {got}"),
                (got, expected) => assert_eq!(got, expected.map_err(str::to_string), "{name}"),
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_unknown_and_says_why() {
        let none = Histogram::default();
        let one = metrics(&[(true, worker(0, SECOND_NS))], &none);
        assert_eq!(value(&one, "throughput"), Ok(0.0));
        assert_eq!(value(&one, "fairness"), Err("one worker: nothing to compare".to_string()));
        assert_eq!(value(&one, "spread"), Err("one worker: nothing to compare".to_string()));
        for windows in [&[] as &[f64], &[300.0]] {
            let one = metrics_over(&[(true, worker(0, SECOND_NS))], &none, windows);
            let why = "fewer than two windows: nothing to compare";
            assert_eq!(value(&one, "window_cv"), Err(why.to_string()));
        }
        let samples = Err("no samples in the measured section".to_string());
        for name in ["wakeup_p50", "wakeup_p99", "wakeup_p99.9", "wakeup_max", "wakeup_mean"] {
            assert_eq!(value(&one, name), samples, "{name}");
        }
        let idle = metrics(&[(true, worker(0, SECOND_NS)), (true, worker(0, SECOND_NS))], &none);
        let no_ops = Err("no operations in the measured section".to_string());
        assert_eq!(value(&idle, "fairness"), no_ops);
        assert_eq!(value(&idle, "spread"), no_ops);
        let still = metrics_over(&[(true, worker(0, SECOND_NS))], &none, &[0.0, 0.0]);
        assert_eq!(value(&still, "window_cv"), no_ops);
        let no_time = metrics(&[(true, worker(0, 0)), (true, worker(9, SECOND_NS))], &none);
        let why = Err("1 of 2 workers: worker 7 was measured for no time".to_string());
        for name in ["throughput", "fairness", "spread", "cpus", "voluntary_switches"] {
            assert_eq!(value(&no_time, name), why, "{name}");
        }
        let idle = metrics(&[(false, worker(9, SECOND_NS))], &none);
        assert_eq!(value(&idle, "throughput"), Err("no worker counts here".to_string()));
    }

    #[test]
    fn a_quantile_of_too_few_samples_is_unknown_and_never_the_maximum() {
        let of = |samples: u64, ns: fn(u64) -> u64| {
            let latency = (1..=samples).map(|at| (ns(at), 1)).collect();
            metrics(&[(true, worker(1, SECOND_NS))], &latency)
        };
        // A dozen samples gave three equal figures.
        let dozen = of(12, |at| at);
        assert_eq!(value(&dozen, "wakeup_p50"), Ok(6.0));
        let too_few = |needed: &str, times: u32| {
            let longer = format!("a duration {times} times as long has them");
            Err(format!("12 samples, and a {needed}: {longer}"))
        };
        assert_eq!(value(&dozen, "wakeup_p99"), too_few("p99 takes 300", 32));
        assert_eq!(value(&dozen, "wakeup_p99.9"), too_few("p99.9 takes 3000", 313));
        assert_eq!(
            (value(&dozen, "wakeup_max"), value(&dozen, "wakeup_mean")),
            (Ok(12.0), Ok(6.5))
        );
        for (needed, name) in [(6, "wakeup_p50"), (300, "wakeup_p99"), (3000, "wakeup_p99.9")] {
            assert!(value(&of(needed - 1, |at| at), name).is_err(), "{name}");
            // The largest are far from each other: no two of them are in one bucket.
            let values = of(needed, |at| 1_000_000_000 / at);
            let (own, max) = (value(&values, name).unwrap(), value(&values, "wakeup_max").unwrap());
            assert!(own < 0.5 * max, "{name}: {own} of {max}");
        }
    }

    #[test]
    fn metrics_are_bounds_where_what_has_not_ended_could_make_them_longer() {
        let histogram = |samples: &[(u64, u64)]| samples.iter().copied().collect::<Histogram>();
        const MS: u64 = 1_000_000;
        let many = &[(MS, 9_000), (2 * MS, 950), (3 * MS, 49), (4 * MS, 1)];
        // Ended, under way, the bounds.
        type Samples<'a> = &'a [(u64, u64)];
        let cases: &[(Samples, Samples, &[&str])] = &[
            (many, &[], &[]),
            (&[], &[], &[]),
            // A few among many change nothing.
            (many, &[(10, 4), (2 * MS, 4)], &[]),
            // But where one is the longest, or they have much of the time.
            (many, &[(5 * MS, 4)], &["max"]),
            (many, &[(900 * MS, 4)], &["max", "mean"]),
            (many, &[(MS / 2, 30)], &["p99.9"]),
            (many, &[(MS / 2, 5_000)], &["p99", "p99.9", "max", "mean"]),
            // Older than all that ended: the age stands for the unknown latency.
            (many, &[(900 * MS, 150)], &["p99", "p99.9", "max", "mean"]),
            // A lock convoy: 34 samples do not give a p99.
            (&[(1_500 * MS, 2)], &[(2_900 * MS, 32)], &["p50", "max", "mean"]),
            (&[], &[(2_900 * MS, 300)], &["p50", "p99", "max", "mean"]),
            // No quantile has enough samples.
            (&[(MS, 2)], &[(900 * MS, 3)], &["max", "mean"]),
            (&[(MS, 2)], &[(10, 3)], &["max", "mean"]),
        ];
        for (ended, ages, expected) in cases {
            let bounds = lower_bounds(&histogram(ended), &histogram(ages));
            assert_eq!(bounds, *expected, "{ended:?} {ages:?}");
        }
    }
}
