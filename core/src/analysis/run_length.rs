//! The length of a work's runs that gives the narrowest intervals in a given time, from the windows of stored runs.
//! Pure. Method: docs/method.md, "Long runs or many rounds".

use std::collections::BTreeMap;

use super::question::RunWindows;

/// The time that a run takes beyond its warm-up and its measured section: its processes start and end.
const START_NS: u64 = 10_000_000;
/// From fewer runs what differs between them is a guess.
const MIN_FREEDOM: usize = 10;
/// A smaller gain is not worth another length.
const MIN_GAIN: f64 = 0.05;
/// Longer runs than so many of the planned ones were never seen.
const MAX_TIMES: u64 = 10;

/// The advice on the length of a work's runs, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum LengthAdvice {
    Better(RunLength),
    /// No other length is worth it.
    AsPlanned {
        planned_ns: u64,
    },
    /// More than one run in 20 of a cell has too few samples for a p99, and no length that was seen has them.
    LacksSamples {
        planned_ns: u64,
    },
    /// Variants take turns inside one run.
    Turns,
    /// The noise within a run shows from two windows on.
    OneWindow {
        duration_ns: u64,
    },
    /// Too few stored runs have a throughput in all of their windows.
    FewRuns,
}

/// A better length of runs, by the throughput of worker sets.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLength {
    /// The set that differs most between runs.
    pub set: String,
    /// The standard deviation of its throughput's logarithm between runs, and of a second of one run as a share of it.
    pub between: f64,
    pub within: f64,
    pub planned_ns: u64,
    pub best_ns: u64,
    /// The width of intervals in the same time, to that of the planned length.
    pub interval: f64,
    /// Shorter runs would be better, but have too few samples of a latency for its percentile.
    pub needs_samples: bool,
}

/// The times of the runs that are planned.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub duration_ns: u64,
    pub warmup_ns: u64,
    pub window_ns: u64,
}

/// Variances: of logarithms between runs, and of a second of one run as a share of its mean.
#[derive(Debug, Clone, Copy)]
struct Variances {
    between: f64,
    within: f64,
}

impl Variances {
    /// The variance of a mean of runs of this length, for each second that they take.
    fn of_length(self, length_ns: u64, overhead_ns: u64) -> f64 {
        let [length, overhead] = [length_ns, overhead_ns].map(|ns| ns as f64 / 1e9);
        (self.between + self.within / length) * (length + overhead)
    }
}

/// `runs` are of one work, each group of one plan and cell; `samples_needed`: what the judged percentile takes.
pub fn run_length(groups: &[Vec<&RunWindows>], times: Times, samples_needed: u64) -> LengthAdvice {
    let planned_ns = times.duration_ns;
    if planned_ns / times.window_ns.max(1) < 2 {
        return LengthAdvice::OneWindow { duration_ns: planned_ns };
    }
    let sets = variances(groups, times);
    let most = |one: &&(&str, Variances), other: &&(&str, Variances)| {
        one.1.between.total_cmp(&other.1.between)
    };
    let Some((set, worst)) = sets.iter().max_by(most) else { return LengthAdvice::FewRuns };
    let overhead_ns = times.warmup_ns.saturating_add(START_NS);
    let width = |length_ns: u64| {
        let ratio = |(_, set): &(&str, Variances)| {
            set.of_length(length_ns, overhead_ns) / set.of_length(planned_ns, overhead_ns)
        };
        (sets.iter().map(|set| ratio(set).ln()).sum::<f64>() / 2.0 / sets.len() as f64).exp()
    };
    let best = |min_ns: u64| {
        let all = lengths_ns().skip_while(move |ns| *ns < min_ns.max(times.window_ns));
        let all = all.take_while(|ns| *ns <= planned_ns.saturating_mul(MAX_TIMES));
        all.min_by(|one, other| width(*one).total_cmp(&width(*other)))
    };
    let samples = groups.iter().map(|group| group.iter().filter_map(|run| run.judged_samples));
    let fewest = samples.filter_map(usual_fewest).min();
    // A quarter more, since runs are not alike.
    let part = fewest.map(|fewest| 1.25 * samples_needed as f64 / fewest.max(1) as f64);
    let min_ns = part.map_or(0, |part| (planned_ns as f64 * part) as u64);
    let found = best(min_ns).map(|best_ns| (best_ns, width(best_ns)));
    let Some((best_ns, interval)) = found.filter(|(_, interval)| *interval <= 1.0 - MIN_GAIN)
    else {
        return match fewest {
            Some(fewest) if fewest < samples_needed => LengthAdvice::LacksSamples { planned_ns },
            _ => LengthAdvice::AsPlanned { planned_ns },
        };
    };
    LengthAdvice::Better(RunLength {
        set: set.to_string(),
        between: worst.between.sqrt(),
        within: worst.within.sqrt(),
        planned_ns,
        best_ns,
        interval,
        needs_samples: best(0).is_some_and(|ns| ns < best_ns),
    })
}

/// The fewest samples of 19 in 20 runs of a cell: one slow run says little of the others.
fn usual_fewest(samples: impl Iterator<Item = u64>) -> Option<u64> {
    let mut samples: Vec<u64> = samples.collect();
    samples.sort_unstable();
    samples.get(samples.len() / 20).copied()
}

/// Lengths that a person would choose: 10, 20, 50, 100 ms and so on.
fn lengths_ns() -> impl Iterator<Item = u64> {
    let powers = (7..14).map(|power| 10u64.pow(power));
    powers.flat_map(|power| [power, 2 * power, 5 * power])
}

/// The variances of each set, by the mean squares between and within runs (one-way analysis of variance). Only runs
/// with all of their windows count.
fn variances<'a>(groups: &[Vec<&'a RunWindows>], times: Times) -> Vec<(&'a str, Variances)> {
    let count = (times.duration_ns / times.window_ns.max(1)) as usize;
    let mut sets: BTreeMap<&str, Squares> = BTreeMap::new();
    for group in groups {
        let mut own: BTreeMap<&str, Vec<&[f64]>> = BTreeMap::new();
        for (set, rates) in group.iter().flat_map(|run| &run.sets) {
            // A shorter last window is left out.
            own.entry(set).or_default().extend(rates.get(..count));
        }
        own.into_iter().for_each(|(set, runs)| sets.entry(set).or_default().add(&runs));
    }
    let window = times.window_ns as f64 / 1e9;
    let known = |(set, squares): (&'a str, Squares)| Some((set, squares.variances(count, window)?));
    sets.into_iter().filter_map(known).collect()
}

/// Sums of squares and their degrees of freedom: of the logarithms of runs' means, since verdicts are of their ratios,
/// and of windows as shares of their run's mean.
#[derive(Debug, Default)]
struct Squares {
    between: f64,
    between_freedom: usize,
    within: f64,
    within_freedom: usize,
}

impl Squares {
    fn add(&mut self, runs: &[&[f64]]) {
        // A run that did nothing has no logarithm.
        let runs = runs.iter().map(|run| (*run, mean(run))).filter(|(_, mean)| *mean > 0.0);
        let (runs, means): (Vec<&[f64]>, Vec<f64>) = runs.unzip();
        if means.len() < 2 {
            return;
        }
        let count = runs[0].len();
        let logs: Vec<f64> = means.iter().map(|mean| mean.ln()).collect();
        self.between += count as f64 * squares(&logs, mean(&logs));
        self.between_freedom += means.len() - 1;
        let shares = runs.iter().zip(&means).map(|(run, mean)| squares(run, *mean) / mean.powi(2));
        self.within += shares.sum::<f64>();
        self.within_freedom += means.len() * (count - 1);
    }

    fn variances(&self, count: usize, window: f64) -> Option<Variances> {
        if self.between_freedom < MIN_FREEDOM || self.within_freedom < MIN_FREEDOM {
            return None;
        }
        let within = self.within / self.within_freedom as f64;
        let between = (self.between / self.between_freedom as f64 - within) / count as f64;
        // The variance between runs is never taken as 0.
        let least = within / count as f64 / self.between_freedom as f64;
        Some(Variances { between: between.max(least), within: within * window })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn squares(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RunKey;
    use crate::stats::simulate::Random;

    const MS: u64 = 1_000_000;
    const TIMES: Times = Times { duration_ns: 400 * MS, warmup_ns: 50 * MS, window_ns: 100 * MS };

    fn runs(between: f64, within: f64, samples: Option<u64>) -> Vec<RunWindows> {
        let mut random = Random::new(7);
        let mut run = |round| {
            let own = 1000.0 * (1.0 + between * random.normal());
            // A window is a tenth of a second.
            let mut window = || own + 1000.0 * within * 10f64.sqrt() * random.normal();
            let sets = vec![("s".to_string(), (0..4).map(|_| window()).collect())];
            let key = RunKey { round, cell: 0 };
            RunWindows { plan: "p".to_string(), key, sets, judged_samples: samples }
        };
        (0..400).map(&mut run).collect()
    }

    fn advice(runs: &[RunWindows], times: Times) -> LengthAdvice {
        run_length(&[runs.iter().collect()], times, 300)
    }

    fn better(advice: LengthAdvice) -> RunLength {
        let LengthAdvice::Better(length) = advice else { panic!("{advice:?}") };
        length
    }

    fn length(runs: &[RunWindows]) -> RunLength {
        better(advice(runs, TIMES))
    }

    #[test]
    fn lengths_are_those_that_a_person_would_choose() {
        let lengths: Vec<u64> = lengths_ns().map(|ns| ns / MS).collect();
        assert_eq!(lengths[..5], [10, 20, 50, 100, 200]);
        assert!(lengths.is_sorted() && lengths.len() == 21 && lengths[20] == 50_000_000);
    }

    #[test]
    fn runs_that_differ_are_short_and_many() {
        let length = length(&runs(0.052, 0.015, None));
        assert!((length.between - 0.052).abs() < 0.004, "{length:?}");
        assert!((length.within - 0.015).abs() < 0.001, "{length:?}");
        // The least of (0.052^2 + 0.015^2 / L) (L + 0.06) is at 71 ms, and no length below a window was seen.
        assert_eq!((length.best_ns, length.planned_ns), (100 * MS, 400 * MS));
        assert!((length.interval - 0.73).abs() < 0.02, "{length:?}");
        assert!(!length.needs_samples && length.set == "s", "{length:?}");
    }

    #[test]
    fn each_set_counts_as_much_as_another() {
        let mut two = runs(0.052, 0.015, None);
        for run in &mut two {
            let own = run.sets[0].1.clone();
            run.sets.push(("t".to_string(), own));
        }
        let (one, two) = (length(&runs(0.052, 0.015, None)), length(&two));
        assert!((one.interval - two.interval).abs() < 1e-9, "{one:?} {two:?}");
    }

    #[test]
    fn a_run_in_another_state_weighs_by_its_ratio_to_the_others() {
        let mut one = runs(0.052, 0.015, None);
        one[200].sets[0].1.iter_mut().for_each(|rate| *rate *= 5.0);
        // The square root of 0.052^2 and ln(5)^2 / 400; as shares of the mean it would be 0.2.
        let length = length(&one);
        assert!((length.between - 0.096).abs() < 0.004, "{length:?}");
        assert!((length.within - 0.015).abs() < 0.001, "{length:?}");
    }

    #[test]
    fn a_run_whose_noise_is_its_own_is_long() {
        let runs = runs(0.001, 0.05, None);
        let times = Times { warmup_ns: 500 * MS, ..TIMES };
        let length = better(advice(&runs, times));
        assert!(length.best_ns >= 1000 * MS && length.best_ns <= 4000 * MS, "{length:?}");
        // Runs of 2 s: the square root of (0.05^2 / 2 * 2.51) / (0.05^2 / 0.4 * 0.91).
        assert!((length.interval - 0.74).abs() < 0.05, "{length:?}");
    }

    #[test]
    fn a_percentile_has_its_samples() {
        let own = length(&runs(0.052, 0.015, Some(1000)));
        // 375 of 1000 samples take 150 ms.
        assert_eq!((own.best_ns, own.needs_samples), (200 * MS, true));
        assert_eq!(
            advice(&runs(0.052, 0.015, Some(400)), TIMES),
            LengthAdvice::AsPlanned { planned_ns: TIMES.duration_ns },
            "the planned length has hardly enough"
        );
        assert_eq!(
            advice(&runs(0.052, 0.015, Some(10)), TIMES),
            LengthAdvice::LacksSamples { planned_ns: TIMES.duration_ns }
        );
    }

    #[test]
    fn a_few_slow_runs_do_not_make_all_runs_longer() {
        let mut slow = runs(0.052, 0.015, Some(1000));
        slow[..20].iter_mut().for_each(|run| run.judged_samples = Some(10));
        assert_eq!(length(&slow).best_ns, 200 * MS);
        let lacks = LengthAdvice::LacksSamples { planned_ns: TIMES.duration_ns };
        // These are a cell of their own: all of it is slow.
        let (own, others) = slow.split_at(20);
        let groups = [own.iter().collect(), others.iter().collect()];
        assert_eq!(run_length(&groups, TIMES, 300), lacks);
        slow[20].judged_samples = Some(10);
        assert_eq!(advice(&slow, TIMES), lacks);
    }

    #[test]
    fn without_a_better_length_there_is_a_reason() {
        let planned = LengthAdvice::AsPlanned { planned_ns: TIMES.duration_ns };
        assert_eq!(advice(&runs(0.014, 0.014, None), TIMES), planned);
        let differing = runs(0.052, 0.015, None);
        let few = LengthAdvice::FewRuns;
        assert_eq!(advice(&differing[..10], TIMES), few, "nine degrees of freedom");
        length(&differing[..11]);
        for window_ns in [201 * MS, 400 * MS, 500 * MS] {
            let one = LengthAdvice::OneWindow { duration_ns: TIMES.duration_ns };
            assert_eq!(advice(&differing, Times { window_ns, ..TIMES }), one, "{window_ns}");
        }
        better(advice(&differing, Times { window_ns: 200 * MS, ..TIMES }));
        let mut cut = runs(0.052, 0.015, None);
        cut.iter_mut().for_each(|run| run.sets[0].1.truncate(3));
        assert_eq!(advice(&cut, TIMES), few, "each run lacks a window");
        let mut idle = runs(0.0, 0.0, None);
        idle.iter_mut().for_each(|run| run.sets[0].1.fill(0.0));
        assert_eq!(advice(&idle, TIMES), few, "no throughput");
    }
}
