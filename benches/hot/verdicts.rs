//! Verdicts of thousands of made-up experiments with known truth: how often they are wrong, how often they
//! find a true difference, and the cost of a table. Seeded: the same figures each time.

use std::time::Instant;

use schedlab::model::Direction;
use schedlab::stats::{
    Comparison, Distance, Effect, Family, Interval, Judged, NoEffect, Schedule, Verdict, judge,
    paired_effect, replay, shapes, unpaired_effect,
};

use super::{Figure, Reach, Row, beyond, median, same};

use schedlab::stats::simulate::{Noise, Random, Setting, Simulated, experiment};

/// Experiments of a row.
const TABLES: u32 = 2_000;
const MARGIN: f64 = 0.02;

const fn held(name: &'static str, measure: fn() -> Figure) -> Row {
    Row::exact(name, Reach::AtLeast(93.0), measure)
}

const fn time(name: &'static str, max_ms: f64, measure: fn() -> Figure) -> Row {
    Row::once(name, "ms", Reach::Below(max_ms), measure)
}

pub const SAME: [Row; 16] = [
    same("A/A false alarms: normal, 6 rounds", || alarms(Noise::Normal, 6, 0.0)),
    same("A/A false alarms: normal, 10 rounds", || alarms(Noise::Normal, 10, 0.0)),
    same("A/A false alarms: normal, 20 rounds", || alarms(Noise::Normal, 20, 0.0)),
    same("A/A false alarms: normal, 20 rounds, correlated", || alarms(Noise::Normal, 20, 0.95)),
    same("A/A false alarms: log-normal, 6 rounds", || alarms(Noise::LogNormal, 6, 0.0)),
    same("A/A false alarms: log-normal, 10 rounds", || alarms(Noise::LogNormal, 10, 0.0)),
    same("A/A false alarms: log-normal, 20 rounds", || alarms(Noise::LogNormal, 20, 0.0)),
    same("A/A false alarms: log-normal, 20 rounds, correlated", || {
        alarms(Noise::LogNormal, 20, 0.95)
    }),
    same("A/A false alarms: heavy tails, 6 rounds", || alarms(Noise::HeavyTailed, 6, 0.0)),
    same("A/A false alarms: heavy tails, 10 rounds", || alarms(Noise::HeavyTailed, 10, 0.0)),
    same("A/A false alarms: heavy tails, 20 rounds", || alarms(Noise::HeavyTailed, 20, 0.0)),
    same("A/A false alarms: heavy tails, 20 rounds, correlated", || {
        alarms(Noise::HeavyTailed, 20, 0.95)
    }),
    same("A/A false alarms: two modes, 6 rounds", || alarms(Noise::Bimodal, 6, 0.0)),
    same("A/A false alarms: two modes, 10 rounds", || alarms(Noise::Bimodal, 10, 0.0)),
    same("A/A false alarms: two modes, 20 rounds", || alarms(Noise::Bimodal, 20, 0.0)),
    same("A/A false alarms: two modes, 20 rounds, correlated", || alarms(Noise::Bimodal, 20, 0.95)),
];

/// Two sides that were measured at different times, on a machine that does not drift.
pub const UNPAIRED: [Row; 32] = [
    same("A/A unpaired: normal, 10 runs a side", || unpaired(Noise::Normal, [10, 10], 1.0)),
    same("A/A unpaired: normal, 20 runs a side", || unpaired(Noise::Normal, [20, 20], 1.0)),
    same("A/A unpaired: normal, 10 against 20", || unpaired(Noise::Normal, [10, 20], 1.0)),
    same("A/A unpaired: log-normal, 10 runs a side", || unpaired(Noise::LogNormal, [10, 10], 1.0)),
    same("A/A unpaired: log-normal, 20 runs a side", || unpaired(Noise::LogNormal, [20, 20], 1.0)),
    same("A/A unpaired: log-normal, 10 against 20", || unpaired(Noise::LogNormal, [10, 20], 1.0)),
    same("A/A unpaired: heavy tails, 10 runs a side", || {
        unpaired(Noise::HeavyTailed, [10, 10], 1.0)
    }),
    same("A/A unpaired: heavy tails, 20 runs a side", || {
        unpaired(Noise::HeavyTailed, [20, 20], 1.0)
    }),
    same("A/A unpaired: heavy tails, 10 against 20", || {
        unpaired(Noise::HeavyTailed, [10, 20], 1.0)
    }),
    same("A/A unpaired: two modes, 10 runs a side", || unpaired(Noise::Bimodal, [10, 10], 1.0)),
    same("A/A unpaired: two modes, 20 runs a side", || unpaired(Noise::Bimodal, [20, 20], 1.0)),
    same("A/A unpaired: two modes, 10 against 20", || unpaired(Noise::Bimodal, [10, 20], 1.0)),
    same("A/A unpaired, sd 3 times: normal, 10 a side", || unpaired(Noise::Normal, [10, 10], 3.0)),
    same("A/A unpaired, sd 3 times: normal, 20 a side", || unpaired(Noise::Normal, [20, 20], 3.0)),
    same("A/A unpaired, sd 10 times: normal, 10 a side", || {
        unpaired(Noise::Normal, [10, 10], 10.0)
    }),
    same("A/A unpaired, sd 3 times of 20, against 10: normal", || {
        unpaired(Noise::Normal, [10, 20], 3.0)
    }),
    same("A/A unpaired, sd 3 times of 10, against 20: normal", || {
        unpaired(Noise::Normal, [10, 20], 1.0 / 3.0)
    }),
    same("A/A unpaired, sd 3 times: heavy tails, 20 a side", || {
        unpaired(Noise::HeavyTailed, [20, 20], 3.0)
    }),
    // Reported, not promised: a mean of few skewed values is itself skewed.
    beyond("A/A unpaired, sd 3 times: log-normal, 20 a side", || {
        unpaired(Noise::LogNormal, [20, 20], 3.0)
    }),
    beyond("A/A unpaired, drift of 1 sd from one time to the other", drifted),
    // Correlated runs are reported, not promised, either.
    beyond("A/A unpaired, autocorrelated 0.2: normal, 20 a side", || autocorrelated(0.2)),
    beyond("A/A unpaired, autocorrelated 0.5: normal, 20 a side", || autocorrelated(0.5)),
    beyond("A/A unpaired, autocorrelated 0.8: normal, 20 a side", || autocorrelated(0.8)),
    Row::exact(
        "unpaired, 3 % found at CV 2 %, 20 runs a side: one metric",
        Reach::AtLeast(95.0),
        || Ok(found_unpaired(20, 1)),
    ),
    beyond("unpaired, 3 % found at CV 2 %, 20 runs a side: 1 of 40 metrics", || {
        Ok(found_unpaired(20, 40))
    }),
    beyond("unpaired, 3 % found at CV 2 %, 28 runs a side: 1 of 40 metrics", || {
        Ok(found_unpaired(28, 40))
    }),
    Row::exact("unpaired, false SAME: all 40 differ by the margin", Reach::Below(2.5), || {
        let moved =
            Setting { effect_ln: 1.02f64.ln(), moved: 40, ..Setting::steady(20, Noise::Normal) };
        Ok(rate_unpaired(&moved, [20, 20], |judged| {
            judged.iter().any(|one| one.verdict == Verdict::Same)
        }))
    }),
    held("unpaired intervals that hold the truth: normal", || {
        coverage_unpaired(Noise::Normal, 1.0)
    }),
    held("unpaired intervals that hold the truth: log-normal", || {
        coverage_unpaired(Noise::LogNormal, 1.0)
    }),
    held("unpaired intervals that hold the truth: heavy tails", || {
        coverage_unpaired(Noise::HeavyTailed, 1.0)
    }),
    held("unpaired intervals that hold the truth: two modes", || {
        coverage_unpaired(Noise::Bimodal, 1.0)
    }),
    held("unpaired intervals that hold the truth: normal, sd 3 times", || {
        coverage_unpaired(Noise::Normal, 3.0)
    }),
];

/// The time of a table.
pub const TIMES: [Row; 7] = [
    time("verdicts of 40 comparisons, 20 rounds, 20,000 draws", 50.0, || {
        Ok(time_ms(&Setting::moved(20, 40, 1, 1.03), 9, true))
    }),
    time("verdicts of 40 comparisons, 5,000 rounds", 300.0, || Ok(time_ms(&long(), 3, true))),
    time("verdicts after 5,000 rounds of looks, 40 comparisons", 2_000.0, sequential_ms),
    time("verdicts of 100,000 runs: 10,000 comparisons, 20 rounds", 2_000.0, || {
        Ok(time_ms(&Setting { blocks: 2_500, ..Setting::moved(20, 4, 1, 1.03) }, 1, true))
    }),
    time("unpaired verdicts of 40 comparisons, 20 runs, 20,000 draws", 150.0, || {
        Ok(time_ms(&Setting { drift: 0.0, ..Setting::moved(20, 40, 1, 1.03) }, 9, false))
    }),
    time("unpaired verdicts of 40 comparisons, 5,000 runs a side", 300.0, || {
        Ok(time_ms(&long(), 3, false))
    }),
    time("unpaired verdicts of 100,000 runs: 10,000 comparisons", 4_000.0, || {
        let steady = Setting { drift: 0.0, ..Setting::moved(20, 4, 1, 1.03) };
        Ok(time_ms(&Setting { blocks: 2_500, ..steady }, 1, false))
    }),
];

pub const OTHERS: [Row; 31] = [
    same("A/A/A false alarms: three variants, heavy tails, 20 rounds", || {
        let setting = still(Setting::same(20, Noise::HeavyTailed, 0.0));
        Ok(rate(&setting, 3, 999, is_false_alarm))
    }),
    same("A/A false alarms: no drift within a round, two modes", || {
        Ok(rate(&still(Setting::same(20, Noise::Bimodal, 0.5)), 2, 999, is_false_alarm))
    }),
    same("A/A false alarms with a look at each of 8 to 100 rounds", sequential),
    // Equal means, but another noise: outside the null hypothesis, so reported, not promised.
    beyond("sd 3 times, equal means: normal, 20 rounds", || widened(Noise::Normal, 20)),
    beyond("sd 3 times, equal means: two modes, 20 rounds", || widened(Noise::Bimodal, 20)),
    beyond("sd 3 times, equal means: log-normal, 10 rounds", || widened(Noise::LogNormal, 10)),
    beyond("sd 3 times, equal means: log-normal, 20 rounds", || widened(Noise::LogNormal, 20)),
    beyond("A/A, two plans until decided, pooled as if fixed: one metric, CV 5 %", pooled),
    beyond("until decided: intervals that hold 3 %, CV 5 %, to 64 rounds", || {
        Ok(until_decided().held)
    }),
    beyond("until decided: the mean ratio less the true 3 %, CV 5 %", || {
        Ok(until_decided().too_large)
    }),
    beyond("plain tables with a shape named: 40 metrics, two variants, 20 rounds", shaped),
    Row::exact("3 % found at CV 2 %, 20 rounds: one metric", Reach::AtLeast(95.0), || {
        found(20, 1, 1)
    }),
    Row::exact(
        "3 % found at CV 2 %, 20 rounds: 40 metrics that all move",
        Reach::AtLeast(95.0),
        || found(20, 40, 40),
    ),
    beyond("3 % found at CV 2 %, 20 rounds: 1 of 40 metrics", || found(20, 40, 1)),
    Row::exact("3 % found at CV 2 %, 28 rounds: 1 of 40 metrics", Reach::AtLeast(95.0), || {
        found(28, 40, 1)
    }),
    same("A/A false alarms: counts with zeros, 8 rounds, two variants", || {
        let wrong = (0..TABLES).filter(|seed| is_false_alarm(&counts(u64::from(*seed), None)));
        Ok(wrong.count() as f64 / f64::from(TABLES) * 100.0)
    }),
    same("tables with a false bound: effects of 0 to 20 %, 8 rounds", || bounds(8, Noise::Normal)),
    same("tables with a false bound: 8 rounds, log-normal", || bounds(8, Noise::LogNormal)),
    same("tables with a false bound: 8 rounds, two modes", || bounds(8, Noise::Bimodal)),
    same("tables with a false bound: 21 rounds", || bounds(21, Noise::Normal)),
    same("tables with a false bound: 21 rounds, log-normal", || bounds(21, Noise::LogNormal)),
    same("tables with a false bound: 21 rounds, heavy tails", || bounds(21, Noise::HeavyTailed)),
    same("tables with a false bound: 21 rounds, two modes", || bounds(21, Noise::Bimodal)),
    Row::exact(
        "0 against 5 % of misses found, 8 rounds, two variants",
        Reach::AtLeast(95.0),
        || {
            let found = (0..TABLES).filter(|seed| {
                let judged = counts(u64::from(*seed), Some(0.05));
                judged.last().is_some_and(|one| one.verdict == Verdict::Worse)
            });
            Ok(found.count() as f64 / f64::from(TABLES) * 100.0)
        },
    ),
    Row::exact(
        "tables with a false SAME: all 40 differ by twice the margin",
        Reach::Below(2.5),
        || false_same(1.04),
    ),
    Row::exact("tables with a false SAME: all 40 differ by the margin", Reach::Below(2.5), || {
        false_same(1.02)
    }),
    beyond("SAME found where it is so, CV 1 %, 20 rounds: each of 40", same_found),
    Row::exact(
        "intervals that hold the truth: normal, worst of 5, 10, 20 rounds",
        Reach::AtLeast(94.0),
        || coverage(Noise::Normal),
    ),
    held("intervals that hold the truth: log-normal", || coverage(Noise::LogNormal)),
    held("intervals that hold the truth: heavy tails", || coverage(Noise::HeavyTailed)),
    held("intervals that hold the truth: two modes", || coverage(Noise::Bimodal)),
];

fn still(setting: Setting) -> Setting {
    Setting { drift_within: 0.0, ..setting }
}

fn comparisons(table: &[Simulated], variant: usize) -> Vec<Comparison<'_>> {
    let metrics = table.iter().map(|metric| Comparison {
        block: metric.block,
        paired: true,
        baseline: &metric.variants[0],
        variant: &metric.variants[variant],
        direction: Direction::HigherIsBetter,
        margin: MARGIN,
        floor: None,
    });
    metrics.collect()
}

fn family(variants: usize, draws: u32, seed: u64) -> Family {
    Family { draws, ..Family::new(variants, seed) }
}

/// A different seed for each row: rows with the same random numbers would err together.
fn seed(setting: &Setting, table: u32) -> u64 {
    let row = u64::from(setting.rounds) << 8
        | u64::from(setting.spread != 1.0) << 3
        | u64::from(setting.drift == 0.0) << 2
        | (setting.noise as u64) << 4
        | u64::from(setting.common > 0.0) << 1
        | u64::from(setting.drift_within > 0.0);
    row << 32 | u64::from(table)
}

/// Percentage of tables in which the verdicts on any variant fulfil `what`.
fn rate(setting: &Setting, variants: usize, draws: u32, what: fn(&[Judged]) -> bool) -> f64 {
    let hits = (0..TABLES).filter(|table| {
        let seed = seed(setting, *table);
        let table = experiment(setting, variants, &mut Random::new(seed));
        let family = family(variants - 1, draws, seed);
        (1..variants).any(|variant| what(&judge(&comparisons(&table, variant), &family)))
    });
    hits.count() as f64 / f64::from(TABLES) * 100.0
}

fn is_false_alarm(judged: &[Judged]) -> bool {
    judged.iter().any(|one| matches!(one.verdict, Verdict::Better | Verdict::Worse))
}

fn alarms(noise: Noise, rounds: u32, common: f64) -> Figure {
    Ok(rate(&Setting::same(rounds, noise, common), 2, 999, is_false_alarm))
}

/// Only ten metrics, because looks at many rounds draw more and would take hours.
fn sequential() -> Figure {
    let setting =
        Setting { blocks: 2, metrics_per_block: 5, ..Setting::same(100, Noise::HeavyTailed, 0.0) };
    let hits = (0..TABLES).filter(|table| {
        let seed = u64::from(*table);
        let table = experiment(&setting, 2, &mut Random::new(seed));
        let family = family(1, 999, seed);
        is_false_alarm(&replay(&comparisons(&table, 1), &family, &Schedule::default(), 100, true))
    });
    Ok(hits.count() as f64 / f64::from(TABLES) * 100.0)
}

/// A variant that changes the noise, and no mean.
fn widened(noise: Noise, rounds: u32) -> Figure {
    let setting = Setting { spread: 3.0, ..Setting::same(rounds, noise, 0.0) };
    Ok(rate(&setting, 2, 999, is_false_alarm))
}

/// One metric whose rounds go on to the first look that decides it, or to the last.
fn decided(seed: u64, setting: &Setting) -> (Simulated, u32) {
    let mut table = experiment(setting, 2, &mut Random::new(seed));
    let looks = Schedule::default().looks_at(setting.rounds, true);
    let end = looks.iter().find_map(|look| {
        let has_ended = look.rounds == setting.rounds;
        let family = family(1, 999, seed);
        let judged =
            replay(&comparisons(&table, 1), &family, &Schedule::default(), look.rounds, has_ended);
        judged[0].decided_at.is_some().then_some(look.rounds)
    });
    let done = end.unwrap_or(setting.rounds);
    let mut one = table.remove(0);
    one.variants.iter_mut().for_each(|values| values.truncate(done as usize));
    (one, done)
}

/// Two plans that ended when they were decided, put together and judged as if their rounds had
/// been fixed.
fn pooled() -> Figure {
    let setting = still(Setting { drift: 0.0, cv: 0.05, ..Setting::moved(29, 1, 0, 1.0) });
    let hits = (0..TABLES).filter(|table| {
        let seed = u64::from(*table) * 2;
        let (mut first, done) = decided(seed, &setting);
        let (second, _) = decided(seed + 1, &setting);
        for (values, more) in first.variants.iter_mut().zip(second.variants) {
            values.extend(more.into_iter().map(|(round, value)| (round + done, value)));
        }
        is_false_alarm(&judge(&comparisons(&[first], 1), &family(1, 999, seed)))
    });
    Ok(hits.count() as f64 / f64::from(TABLES) * 100.0)
}

struct UntilDecided {
    /// Intervals of all rounds that hold the truth, of a hundred.
    held: f64,
    /// The geometric mean of ratios, less the true one, in hundredths.
    too_large: f64,
}

fn until_decided() -> UntilDecided {
    let true_ratio = 1.03;
    let setting = Setting { cv: 0.05, drift: 0.0, ..Setting::moved(64, 1, 1, true_ratio) };
    let (mut held, mut sum_ln) = (0, 0.0);
    for table in 0..TABLES {
        let (one, _) = decided(u64::from(table), &setting);
        let effect = paired_effect(&one.variants[0], &one.variants[1]);
        let Some(ratio) = effect.ok().and_then(|effect| effect.ratio()) else { continue };
        sum_ln += ratio.ratio.ln();
        held += u32::from(holds(effect, true_ratio));
    }
    let tables = f64::from(TABLES);
    UntilDecided {
        held: f64::from(held) / tables * 100.0,
        too_large: ((sum_ln / tables).exp() - true_ratio) * 100.0,
    }
}

/// Normal noise of 2 %, without drift: every reported difference is chance.
fn shaped() -> Figure {
    let hits = (0..TABLES).filter(|table| {
        let steady = Setting::steady(20, Noise::Normal);
        let table = experiment(&steady, 2, &mut Random::new(u64::from(*table)));
        table.iter().flat_map(|one| &one.variants).any(|values| !shapes(values).is_empty())
    });
    Ok(hits.count() as f64 / f64::from(TABLES) * 100.0)
}

/// Percentage of moved metrics that are BETTER.
fn found(rounds: u32, metrics: usize, moved: usize) -> Figure {
    Ok(share_of(&Setting::moved(rounds, metrics, moved, 1.03), moved, Verdict::Better))
}

fn same_found() -> Figure {
    let setting = Setting { cv: 0.01, ..Setting::moved(20, 40, 0, 1.0) };
    Ok(share_of(&setting, 40, Verdict::Same))
}

fn share_of(setting: &Setting, among: usize, verdict: Verdict) -> f64 {
    let hits = (0..TABLES).map(|table| {
        let seed = u64::from(table);
        let table = experiment(setting, 2, &mut Random::new(seed));
        let judged = judge(&comparisons(&table, 1), &family(1, 4_999, seed));
        judged[..among].iter().filter(|one| one.verdict == verdict).count()
    });
    hits.sum::<usize>() as f64 / (f64::from(TABLES) * among as f64) * 100.0
}

fn false_same(ratio: f64) -> Figure {
    let setting = Setting { noise: Noise::LogNormal, ..Setting::moved(20, 40, 40, ratio) };
    Ok(rate(&setting, 2, 999, |judged| judged.iter().any(|one| one.verdict == Verdict::Same)))
}

fn holds(effect: Result<Effect, NoEffect>, truth: f64) -> bool {
    let interval: Option<Interval> = effect.ok().and_then(|effect| effect.interval());
    interval.is_some_and(|one| one.low <= truth && truth <= one.high)
}

/// Counts of rare misses, which are often 0: eight rounds of 250 frames, in four works next to a throughput
/// each. `often`: the share that the variant of the last work misses.
fn counts(seed: u64, often: Option<f64>) -> Vec<Judged> {
    const SHARES: [f64; 4] = [0.0005, 0.002, 0.01, 0.0];
    let mut random = Random::new(seed);
    let mut misses = |share: f64| -> Vec<(u32, f64)> {
        let one = |random: &mut Random| (0..250).filter(|_| random.uniform() < share).count();
        (0..8).map(|round| (round, one(&mut random) as f64 / 250.0)).collect()
    };
    let counts: Vec<[Vec<(u32, f64)>; 2]> = (0..4)
        .map(|at| [misses(SHARES[at]), misses(often.filter(|_| at == 3).unwrap_or(SHARES[at]))])
        .collect();
    let setting = Setting { blocks: 4, metrics_per_block: 1, ..Setting::moved(8, 4, 0, 1.0) };
    let rates = experiment(&setting, 2, &mut random);
    let mut all = comparisons(&rates, 1);
    let first = all[0];
    all.extend(counts.iter().enumerate().map(|(block, [baseline, variant])| Comparison {
        block,
        baseline,
        variant,
        direction: Direction::LowerIsBetter,
        ..first
    }));
    judge(&all, &family(2, 999, seed))
}

/// Percentage of tables in which the true effect of a row lies beyond its bound. Each of eleven metrics of four
/// works differs by its own share of 0 to 20 %, up or down, in both variants, and scatters by 1 to 10 %.
fn bounds(rounds: u32, noise: Noise) -> Figure {
    let wrong = (0..TABLES).filter(|table| {
        let seed = u64::from(rounds) << 40 | (noise as u64) << 36 | u64::from(*table);
        let mut random = Random::new(seed);
        let mut effects = Vec::new();
        let mut all: Vec<Simulated> = Vec::new();
        for at in 0..11 {
            let share = 0.2 * random.uniform() * if random.uniform() < 0.3 { 0.0 } else { 1.0 };
            let effect_ln = share.ln_1p() * if random.uniform() < 0.5 { 1.0 } else { -1.0 };
            let cv = 0.01 + 0.09 * random.uniform();
            let moved = Setting { noise, cv, ..Setting::moved(rounds, 1, 1, effect_ln.exp()) };
            all.extend(
                experiment(&moved, 3, &mut random)
                    .into_iter()
                    .map(|one| Simulated { block: at % 4, ..one }),
            );
            effects.push(effect_ln);
        }
        (1..=2).any(|variant| {
            let judged = judge(&comparisons(&all, variant), &family(2, 999, seed));
            judged.iter().zip(&effects).any(|(one, effect_ln)| exceeds(one.bound, *effect_ln))
        })
    });
    Ok(wrong.count() as f64 / f64::from(TABLES) * 100.0)
}

/// Whether a true effect, as a logarithm, lies beyond a bound.
pub fn exceeds(bound: Option<Distance>, effect_ln: f64) -> bool {
    match bound {
        Some(Distance::Ratio(bound)) => effect_ln.abs().exp_m1() > bound,
        Some(Distance::Difference(_)) => panic!("all values are positive"),
        None => false,
    }
}

/// The worst of three numbers of rounds; 40,000 intervals each.
fn coverage(noise: Noise) -> Figure {
    let true_ratio = 1.1;
    let of = |rounds| {
        let setting = Setting { noise, ..Setting::moved(rounds, 1, 1, true_ratio) };
        let mut random = Random::new(u64::from(rounds));
        let held = (0..20 * TABLES).filter(|_| {
            let table = experiment(&setting, 2, &mut random);
            holds(paired_effect(&table[0].variants[0], &table[0].variants[1]), true_ratio)
        });
        held.count() as f64 / f64::from(20 * TABLES) * 100.0
    };
    Ok([5, 10, 20].into_iter().map(of).fold(100.0, f64::min))
}

/// Tables of sides that share no rounds, with these numbers of runs of the baseline and the variant.
fn rate_unpaired(setting: &Setting, runs: [u32; 2], what: fn(&[Judged]) -> bool) -> f64 {
    let hits = (0..TABLES).filter(|table| {
        let seed = u64::from(runs[0]) << 56 | seed(setting, *table);
        let table = experiment(setting, 2, &mut Random::new(seed));
        what(&judge(&sides(&table, runs), &family(1, 999, seed)))
    });
    hits.count() as f64 / f64::from(TABLES) * 100.0
}

/// Percentage of tables of `metrics` in which the first metric, moved by 3 %, is BETTER.
fn found_unpaired(runs: u32, metrics: usize) -> f64 {
    let moved = Setting { drift: 0.0, ..Setting::moved(runs, metrics, 1, 1.03) };
    rate_unpaired(&moved, [runs, runs], |all| all[0].verdict == Verdict::Better)
}

fn sides(table: &[Simulated], runs: [u32; 2]) -> Vec<Comparison<'_>> {
    let comparisons = comparisons(table, 1).into_iter().map(|one| Comparison {
        paired: false,
        baseline: &one.baseline[..runs[0] as usize],
        variant: &one.variant[..runs[1] as usize],
        ..one
    });
    comparisons.collect()
}

fn unpaired(noise: Noise, runs: [u32; 2], spread: f64) -> Figure {
    let setting = Setting { spread, ..Setting::steady(runs[0].max(runs[1]), noise) };
    Ok(rate_unpaired(&setting, runs, is_false_alarm))
}

/// A case that permutations do not cover: all metrics of the later side are a little higher.
fn drifted() -> Figure {
    let steady = Setting::steady(20, Noise::Normal);
    let setting = Setting { effect_ln: steady.cv, moved: 40, ..steady };
    Ok(rate_unpaired(&setting, [20, 20], is_false_alarm))
}

/// Forty metrics, each a series with this correlation between successive runs.
fn autocorrelated(correlation: f64) -> Figure {
    let hits = (0..TABLES).filter(|table| {
        let mut random = Random::new(u64::from(*table));
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut series = || {
            let mut now = random.normal();
            let mut values = Vec::new();
            for round in 0..20 {
                values.push((round, 1000.0 * (0.02 * now).exp()));
                now = correlation * now + fresh * random.normal();
            }
            values
        };
        let metric = |block| Simulated { block, variants: vec![series(), series()] };
        let simulated: Vec<Simulated> = (0..40).map(metric).collect();
        is_false_alarm(&judge(&sides(&simulated, [20, 20]), &family(1, 999, u64::from(*table))))
    });
    Ok(hits.count() as f64 / f64::from(TABLES) * 100.0)
}

/// The worst of 5, 10 and 20 runs a side, and 10 against 20; 40,000 intervals each.
fn coverage_unpaired(noise: Noise, spread: f64) -> Figure {
    let true_ratio = 1.1;
    let of = |runs: [u32; 2]| {
        let moved = Setting::moved(runs[1], 1, 1, true_ratio);
        let setting = Setting { noise, spread, drift: 0.0, ..moved };
        let mut random = Random::new(u64::from(runs[0] + runs[1]));
        let held = (0..20 * TABLES).filter(|_| {
            let table = experiment(&setting, 2, &mut random);
            let [baseline, variant] = [&table[0].variants[0], &table[0].variants[1]];
            holds(unpaired_effect(&baseline[..runs[0] as usize], variant), true_ratio)
        });
        held.count() as f64 / f64::from(20 * TABLES) * 100.0
    };
    Ok([[5, 5], [10, 10], [20, 20], [10, 20]].into_iter().map(of).fold(100.0, f64::min))
}

/// No drift: over this many rounds it would leave the range of numbers.
fn long() -> Setting {
    Setting { drift: 0.0, ..Setting::moved(5_000, 40, 1, 1.001) }
}

/// Time for looks that are all computed again.
fn sequential_ms() -> Figure {
    let table = experiment(&long(), 2, &mut Random::new(1));
    let begin = Instant::now();
    let family = Family::new(1, 1);
    let judged = replay(&comparisons(&table, 1), &family, &Schedule::default(), 5_000, true);
    std::hint::black_box(judged);
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn time_ms(setting: &Setting, times: u32, paired: bool) -> f64 {
    let table = experiment(setting, 2, &mut Random::new(1));
    let times = (0..times).map(|_| {
        let begin = Instant::now();
        let all = comparisons(&table, 1).into_iter();
        let all: Vec<Comparison> = all.map(|one| Comparison { paired, ..one }).collect();
        std::hint::black_box(judge(&all, &Family::new(1, 1)));
        begin.elapsed().as_secs_f64() * 1e3
    });
    median(&times.collect::<Vec<_>>())
}
