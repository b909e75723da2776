//! Verdicts over hosts: thousands of made-up fleets with known truth. A fleet runs a plan like `quick`
//! on each host, whose true ratios differ from host to host. Seeded: the same figures each time.

use schedlab::model::Direction;
use schedlab::stats::{
    Comparison, Draw, Family, Interval, Judged, Verdict, differing, further, judge, ratio_from_logs,
};

use super::adaptive::{MARGINS, QUICK, VARIANTS};
use super::{Figure, Reach, Row, beyond, same};
use schedlab::stats::simulate::{Noise, Random};

/// Fleets of a row.
const FLEETS: u32 = 2_000;
/// The part of the scatter between hosts that all metrics of a variant share.
const COMMON: f64 = 0.5;
/// With margins this small nothing is SAME; SAME would hide a false BETTER.
const NO_MARGINS: [f64; 2] = [1e-5; 2];
/// Factor on the scatter of a bursty host's runs.
const BURSTY: f64 = 5.0;

#[derive(Clone, Copy)]
struct Fleet {
    hosts: u32,
    /// The least and the most rounds of a host.
    rounds: [u32; 2],
    /// Scatter of the true ratios between hosts: standard deviation of their logarithms.
    between: f64,
    population: Noise,
    /// The distribution of runs.
    noise: Noise,
    /// Whether every fifth host is bursty.
    has_bursty: bool,
    /// The true ratio of all metrics, over hosts.
    ratio: f64,
    /// Factor on the ratio of the first host.
    odd: f64,
    /// Margins for throughputs, and for latencies.
    margins: [f64; 2],
}

const ALIKE: Fleet = Fleet {
    hosts: 20,
    rounds: [10, 10],
    between: 0.0,
    population: Noise::Normal,
    noise: Noise::Normal,
    has_bursty: false,
    ratio: 1.0,
    odd: 1.0,
    margins: MARGINS,
};
const DIFFER: Fleet = Fleet { between: 0.02, ..ALIKE };
const UNEVEN: Fleet = Fleet { has_bursty: true, rounds: [3, 21], ..DIFFER };
const MOVED: Fleet = Fleet { ratio: 1.03, ..ALIKE };

const fn held(name: &'static str, measure: fn() -> Figure) -> Row {
    Row::exact(name, Reach::AtLeast(94.0), measure)
}

pub const ROWS: [Row; 33] = [
    same("over hosts A/A: 20 alike, normal", || ALIKE.alarms(1)),
    same("over hosts A/A: 20 alike, log-normal", || {
        Fleet { noise: Noise::LogNormal, ..ALIKE }.alarms(2)
    }),
    same("over hosts A/A: 20 alike, heavy tails", || {
        Fleet { noise: Noise::HeavyTailed, ..ALIKE }.alarms(3)
    }),
    same("over hosts A/A: 20 alike, two modes", || {
        Fleet { noise: Noise::Bimodal, ..ALIKE }.alarms(4)
    }),
    same("over hosts A/A: 20 that differ by 2 %, normal", || DIFFER.alarms(5)),
    same("over hosts A/A: 20 that differ by 4 %, heavy tails", || {
        Fleet { between: 0.04, population: Noise::HeavyTailed, ..ALIKE }.alarms(6)
    }),
    same("over hosts A/A: 20, every fifth bursty, 3 to 21 rounds", || UNEVEN.alarms(7)),
    same("over hosts A/A: 7 that differ by 2 %, normal", || Fleet { hosts: 7, ..DIFFER }.alarms(8)),
    same("over hosts A/A: 8 that differ by 4 %, heavy tails", || {
        Fleet { hosts: 8, between: 0.04, population: Noise::HeavyTailed, ..ALIKE }.alarms(9)
    }),
    same("over hosts A/A: 100 that differ by 2 %, normal", || {
        Fleet { hosts: 100, ..DIFFER }.alarms(10)
    }),
    // A few hosts are far off on one side, and the mean over all hosts is unchanged: reported, not promised.
    beyond("over hosts A/A: 20 that differ by 2 %, two modes", || {
        Fleet { population: Noise::Bimodal, ..DIFFER }.alarms(11)
    }),
    beyond("over hosts A/A: 20 that differ by 2 %, log-normal", || {
        Fleet { population: Noise::LogNormal, ..DIFFER }.alarms(12)
    }),
    Row::exact("over hosts: tables of 5 hosts with any verdict, 3 %", Reach::Below(0.001), || {
        Fleet { hosts: 5, ..MOVED }.rate(13, |judged| judged.iter().any(is_decided))
    }),
    beyond("over hosts, 3 % found: 20 that differ by 1 %, throughput", || {
        Fleet { between: 0.01, ..MOVED }.found(14, false)
    }),
    beyond("over hosts, 3 % found: 20 that differ by 2 %, throughput", || {
        Fleet { between: 0.02, ..MOVED }.found(15, false)
    }),
    beyond("over hosts, 3 % found: 20 that differ by 4 %, throughput", || {
        Fleet { between: 0.04, ..MOVED }.found(16, false)
    }),
    beyond("over hosts, 15 % found: 20 that differ by 2 %, p99", || {
        Fleet { ratio: 1.15, ..DIFFER }.found(32, true)
    }),
    beyond("over hosts, 15 % found: 20 that differ by 4 %, p99", || {
        Fleet { ratio: 1.15, between: 0.04, ..ALIKE }.found(33, true)
    }),
    beyond("over hosts, 3 % found: 20 uneven that differ by 2 %, throughput", || {
        Fleet { ratio: 1.03, ..UNEVEN }.found(17, false)
    }),
    beyond("over hosts, 3 % found: 20 of heavy tails, 2 %, throughput", || {
        Fleet { between: 0.02, population: Noise::HeavyTailed, ..MOVED }.found(18, false)
    }),
    beyond("over hosts, 3 % found: 8 that differ by 1 %, throughput", || {
        Fleet { hosts: 8, between: 0.01, ..MOVED }.found(19, false)
    }),
    beyond("over hosts, 3 % found: 100 that differ by 4 %, throughput", || {
        Fleet { hosts: 100, between: 0.04, ..MOVED }.found(20, false)
    }),
    held("over hosts: intervals that hold 3 %: 3 hosts, 2 %", || {
        Fleet { hosts: 3, between: 0.02, ..MOVED }.held(21)
    }),
    held("over hosts: intervals that hold 3 %: 5 hosts, 2 %", || {
        Fleet { hosts: 5, between: 0.02, ..MOVED }.held(22)
    }),
    held("over hosts: intervals that hold 3 %: 20 hosts, 4 %, heavy tails", || {
        Fleet { between: 0.04, population: Noise::HeavyTailed, ..MOVED }.held(23)
    }),
    held("over hosts: intervals that hold 3 %: 20 uneven hosts", || {
        Fleet { ratio: 1.03, ..UNEVEN }.held(24)
    }),
    held("over hosts: a further host where it says: 5 hosts, 2 %", || {
        Fleet { hosts: 5, ..DIFFER }.foreseen(25)
    }),
    held("over hosts: a further host where it says: 20 hosts, 4 %", || {
        Fleet { between: 0.04, ..ALIKE }.foreseen(26)
    }),
    beyond("over hosts: a further host where it says: 20, heavy tails", || {
        Fleet { between: 0.04, population: Noise::HeavyTailed, ..ALIKE }.foreseen(27)
    }),
    same("over hosts: tables that name a host, 20 that differ by 2 %", || DIFFER.names(28)),
    same("over hosts: tables that name a host, 20 uneven ones", || UNEVEN.names(29)),
    beyond("over hosts: tables that name a host, heavy tails of 2 %", || {
        Fleet { population: Noise::HeavyTailed, ..DIFFER }.names(30)
    }),
    beyond("over hosts: one of 20 that is 10 % off is named, throughput", || {
        Fleet { odd: 0.9, between: 0.01, ..ALIKE }.odd_found(31)
    }),
];

/// The draws of each host, by variant and metric.
type Measured = Vec<Vec<Vec<Draw>>>;

impl Fleet {
    fn measure(&self, random: &mut Random) -> Measured {
        let mut measured = vec![vec![Vec::new(); QUICK.len()]; VARIANTS];
        for host in 0..self.hosts {
            let [least, most] = self.rounds;
            let rounds = least + (random.uniform() * f64::from(most - least + 1)) as u32;
            let burst = if self.has_bursty && host % 5 == 4 { BURSTY } else { 1.0 };
            let odd = if host == 0 { self.odd.ln() } else { 0.0 };
            let shared = [(); VARIANTS].map(|()| random.noise(self.population));
            for (at, metric) in QUICK.iter().enumerate() {
                let own = [(); VARIANTS].map(|()| random.noise(self.population));
                let mut logs = [const { Vec::new() }; VARIANTS];
                for round in 0..rounds {
                    let baseline = random.noise(self.noise);
                    for (variant, logs) in logs.iter_mut().enumerate() {
                        let place =
                            COMMON.sqrt() * shared[variant] + (1.0 - COMMON).sqrt() * own[variant];
                        let noise = burst * metric.cv * (random.noise(self.noise) - baseline);
                        let log = self.ratio.ln() + odd + self.between * place + noise;
                        logs.push((round, log));
                    }
                }
                for (measured, logs) in measured.iter_mut().zip(&logs) {
                    measured[at].extend(Draw::from_logs(logs));
                }
            }
        }
        measured
    }

    fn fleets(self, seed: u64) -> impl Iterator<Item = (u64, Measured)> {
        (0..FLEETS).map(move |fleet| {
            let seed = seed << 32 | u64::from(fleet);
            (seed, self.measure(&mut Random::new(seed)))
        })
    }

    /// Percentage of fleets whose verdicts fulfil `what`; they are in the order of variants.
    fn rate(self, seed: u64, what: fn(&[Judged]) -> bool) -> Figure {
        let hits = self.fleets(seed);
        let hits = hits.filter(|(seed, measured)| what(&self.judged(measured, *seed)));
        Ok(hits.count() as f64 / f64::from(FLEETS) * 100.0)
    }

    fn alarms(self, seed: u64) -> Figure {
        let strict = Fleet { margins: NO_MARGINS, ..self };
        strict.rate(seed, |judged| judged.iter().any(is_different))
    }

    /// Percentage of comparisons of throughputs, or of latencies, that are BETTER.
    fn found(self, seed: u64, latencies: bool) -> Figure {
        let (mut found, mut all) = (0, 0);
        for (seed, measured) in self.fleets(seed) {
            let judged = self.judged(&measured, seed);
            let own = judged.iter().zip(QUICK.iter().cycle());
            for (one, _) in own.filter(|(_, metric)| metric.is_latency == latencies) {
                found += u32::from(one.verdict == Verdict::Better);
                all += 1;
            }
        }
        Ok(f64::from(found) / f64::from(all) * 100.0)
    }

    /// Percentage of intervals that contain the true ratio.
    fn held(self, seed: u64) -> Figure {
        let truth = self.ratio.ln();
        self.holds(seed, |draws| Some((ratio_from_logs(&logs(draws))?.interval, truth)))
    }

    /// Percentage of cases in which the last host lies in the interval that the others predict.
    fn foreseen(self, seed: u64) -> Figure {
        let more = Fleet { hosts: self.hosts + 1, ..self };
        more.holds(seed, |draws| {
            let (last, others) = draws.split_last()?;
            Some((further(others), last.mean_ln))
        })
    }

    fn holds(self, seed: u64, of: impl Fn(&[Draw]) -> Option<(Option<Interval>, f64)>) -> Figure {
        let (mut held, mut all) = (0, 0);
        for (_, measured) in self.fleets(seed) {
            for draws in measured.iter().flatten() {
                let Some((Some(interval), truth)) = of(draws) else { continue };
                held += u32::from(interval.low.ln() <= truth && truth <= interval.high.ln());
                all += 1;
            }
        }
        Ok(f64::from(held) / f64::from(all) * 100.0)
    }

    /// Percentage of fleets in which some host is reported to differ.
    fn names(self, seed: u64) -> Figure {
        let tests = VARIANTS * QUICK.len();
        let named = self.fleets(seed).filter(|(_, measured)| {
            measured.iter().flatten().any(|draws| !differing(draws, tests).is_empty())
        });
        Ok(named.count() as f64 / f64::from(FLEETS) * 100.0)
    }

    /// Percentage of throughputs for which only the first host is reported to differ.
    fn odd_found(self, seed: u64) -> Figure {
        let tests = VARIANTS * QUICK.len();
        let (mut found, mut all) = (0, 0);
        for (_, measured) in self.fleets(seed) {
            let rows = measured.iter().flat_map(|rows| rows.iter().zip(&QUICK));
            for (draws, _) in rows.filter(|(_, metric)| !metric.is_latency) {
                found += u32::from(differing(draws, tests) == [0]);
                all += 1;
            }
        }
        Ok(f64::from(found) / f64::from(all) * 100.0)
    }

    /// The verdicts on the first variant, then those on the second, as the program makes them.
    fn judged(&self, measured: &Measured, seed: u64) -> Vec<Judged> {
        let hosts = measured[0][0].len() as u32;
        let ones: Vec<(u32, f64)> = (0..hosts).map(|host| (host, 1.0)).collect();
        let family = Family { draws: 999, ..Family::new(VARIANTS, seed) };
        let of_variant = |rows: &Vec<Vec<Draw>>| {
            let ratios = rows.iter().map(|draws| {
                logs(draws).into_iter().map(|(host, log)| (host, log.exp())).collect()
            });
            let ratios: Vec<Vec<(u32, f64)>> = ratios.collect();
            let comparisons = ratios.iter().zip(&QUICK).map(|(ratios, metric)| Comparison {
                block: 0,
                paired: true,
                baseline: &ones,
                variant: ratios,
                direction: Direction::HigherIsBetter,
                margin: self.margins[usize::from(metric.is_latency)],
                floor: None,
            });
            judge(&comparisons.collect::<Vec<_>>(), &family)
        };
        measured.iter().flat_map(of_variant).collect()
    }
}

fn is_different(one: &Judged) -> bool {
    matches!(one.verdict, Verdict::Better | Verdict::Worse)
}

fn is_decided(one: &Judged) -> bool {
    one.decided_at.is_some()
}

fn logs(draws: &[Draw]) -> Vec<(u32, f64)> {
    (0..).zip(draws.iter().map(|draw| draw.mean_ln)).collect()
}
