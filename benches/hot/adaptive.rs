//! Verdicts of plans whose works are measured until they are decided, as the engine does it:
//! thousands of made-up plans with known truth. Seeded: the same figures each time.

use schedlab::model::{Direction, LookRule};
use schedlab::stats::{Comparison, Family, Judged, Schedule, Verdict, judge, replay};

use super::verdicts::simulate::{Noise, Random};
use super::{Reach, Row};

/// Plans of a row.
const PLANS: u32 = 2_000;
/// Of a hundred: what is claimed.
const FALSE_ALARMS: Reach = Reach::Below(5.0);

/// A metric of a work: how much a run of it scatters, and the true change of each variant.
#[derive(Clone, Copy)]
struct Metric {
    work: usize,
    cv: f64,
    change: [f64; 2],
    margin: f64,
}

const fn metric(work: usize, cv: f64, change: [f64; 2], margin: f64) -> Metric {
    Metric { work, cv, change, margin }
}

/// Four works with eleven headline metrics, as the built-in plan `quick` has them: scatter and
/// changes as they were seen for batch and a short slice on a virtual machine with two CPUs.
/// Throughputs and 99th percentiles; runs of 0.4 s.
const LATENCY_MARGIN: f64 = 0.05;
const QUICK: [Metric; 11] = [
    metric(0, 0.020, [0.909, 0.982], 0.02),
    metric(0, 0.100, [1.71, 1.086], LATENCY_MARGIN),
    metric(0, 0.040, [0.88, 1.10], LATENCY_MARGIN),
    metric(1, 0.030, [1.069, 0.99], 0.02),
    metric(1, 0.080, [2.0, 0.75], LATENCY_MARGIN),
    metric(1, 0.025, [0.652, 1.056], 0.02),
    metric(1, 0.060, [1.5, 0.66], LATENCY_MARGIN),
    metric(2, 0.020, [1.046, 1.0], 0.02),
    metric(2, 0.060, [1.09, 1.0], LATENCY_MARGIN),
    metric(3, 0.015, [1.08, 1.0], 0.02),
    metric(3, 0.050, [0.93, 1.0], LATENCY_MARGIN),
];

/// A simulated plan of two variants besides the baseline.
#[derive(Clone, Copy)]
struct Simulation {
    metrics: &'static [Metric],
    works: usize,
    /// Whether the variants have the changes of the metrics, or none.
    is_changed: bool,
    noise: Noise,
    /// Of all scatter of the metrics.
    scatter: f64,
    /// Probability that load from outside spoils a run.
    spoilt: f64,
    rule: Rule,
}

#[derive(Clone, Copy)]
enum Rule {
    /// So many clean rounds, and one look.
    Fixed { rounds: u32 },
    /// Until it is decided, within so many rounds of all works.
    UntilDecided { looks: LookRule, budget: u32 },
}

impl Simulation {
    /// `(round, value)` of each metric and variant, the baseline first, and whether the round
    /// of a work is spoilt.
    fn rounds(
        &self,
        random: &mut Random,
        rounds: u32,
    ) -> (Vec<[Vec<(u32, f64)>; 3]>, Vec<Vec<bool>>) {
        let mut values = vec![[const { Vec::new() }; 3]; self.metrics.len()];
        let mut spoilt = vec![vec![false; rounds as usize]; self.works];
        let mut drift = 0.0;
        for round in 0..rounds {
            drift += 0.01 * random.normal();
            for (work, spoilt) in spoilt.iter_mut().enumerate() {
                for variant in 0..3 {
                    let shared = random.noise(self.noise);
                    let is_spoilt = random.uniform() < self.spoilt;
                    spoilt[round as usize] |= is_spoilt;
                    let lost = if is_spoilt { 0.3 * random.uniform() } else { 0.0 };
                    for (metric, values) in self.metrics.iter().zip(&mut values) {
                        if metric.work != work {
                            continue;
                        }
                        let own = random.noise(self.noise);
                        let noise = 0.3f64.sqrt() * shared + 0.7f64.sqrt() * own;
                        let change = match variant {
                            0 => 0.0,
                            _ if self.is_changed => metric.change[variant - 1].ln(),
                            _ => 0.0,
                        };
                        let log = change + drift - lost + self.scatter * metric.cv * noise;
                        values[variant].push((round, 1000.0 * log.exp()));
                    }
                }
            }
        }
        (values, spoilt)
    }

    /// The verdicts of both variants at the end, and how many rounds of all works it took.
    fn run(&self, seed: u64) -> ([Vec<Judged>; 2], f64) {
        let mut random = Random::new(seed);
        let (looks, budget, wanted) = match self.rule {
            Rule::Fixed { rounds } => (None, rounds * 2, rounds),
            Rule::UntilDecided { looks, budget } => (Some(looks), budget, u32::MAX),
        };
        let longest = if looks.is_some() { budget * 3 } else { budget };
        let (mut values, spoilt) = self.rounds(&mut random, longest);
        for (metric, values) in self.metrics.iter().zip(&mut values) {
            let is_clean = |(round, _): &(u32, f64)| !spoilt[metric.work][*round as usize];
            values.iter_mut().for_each(|values| values.retain(is_clean));
        }
        let schedule = Schedule { rule: looks.unwrap_or_default(), ends: Vec::new() };
        let mut stops = vec![u32::MAX; self.works];
        let (mut done, mut cost) = (0, 0);
        loop {
            let open = |(work, stop): (usize, &u32)| {
                let clean = spoilt[work][..done as usize].iter().filter(|spoilt| !**spoilt);
                *stop == u32::MAX && (clean.count() as u32) < wanted
            };
            let open: usize = stops.iter().enumerate().filter(|one| open(*one)).count();
            cost += open;
            if open == 0 || done == longest || cost > budget as usize * self.works {
                cost -= open;
                break;
            }
            if looks.is_none() {
                for (work, stop) in stops.iter_mut().enumerate() {
                    let clean = spoilt[work][..=done as usize].iter().filter(|spoilt| !**spoilt);
                    if *stop == u32::MAX && clean.count() as u32 >= wanted {
                        *stop = done + 1;
                    }
                }
            }
            done += 1;
            if looks.is_some() && schedule.is_look(done) {
                let judged = self.judged(&values, &stops, (seed, &schedule), (done, false));
                for (work, stop) in
                    stops.iter_mut().enumerate().filter(|(_, stop)| **stop == u32::MAX)
                {
                    let own = |at: &usize| self.metrics[*at].work == work;
                    let mut all = (0..self.metrics.len()).filter(own);
                    let is_decided = |one: &Judged| one.decided_at.is_some();
                    if all.all(|at| judged.iter().all(|judged| is_decided(&judged[at]))) {
                        *stop = done;
                    }
                }
            }
        }
        let is_all = stops.iter().all(|stop| *stop != u32::MAX);
        let judged = match looks {
            None => self.judged(&values, &stops, (seed, &schedule), (u32::MAX, true)),
            Some(_) => self.judged(&values, &stops, (seed, &schedule), (done, !is_all)),
        };
        (judged, cost as f64 / self.works as f64)
    }

    fn judged(
        &self,
        values: &[[Vec<(u32, f64)>; 3]],
        stops: &[u32],
        (seed, schedule): (u64, &Schedule),
        (done, has_ended): (u32, bool),
    ) -> [Vec<Judged>; 2] {
        let family = Family { draws: 999, ..Family::new(2, seed) };
        let up_to = |values: &Vec<(u32, f64)>, stop: u32| {
            let end = values.partition_point(|(round, _)| *round < stop.min(done));
            values[..end].to_vec()
        };
        let of = |variant: usize| {
            let cut: Vec<[Vec<(u32, f64)>; 2]> = self
                .metrics
                .iter()
                .zip(values)
                .map(|(metric, values)| {
                    let stop = stops[metric.work];
                    [up_to(&values[0], stop), up_to(&values[variant], stop)]
                })
                .collect();
            let comparisons: Vec<Comparison> = self
                .metrics
                .iter()
                .zip(&cut)
                .map(|(metric, [baseline, variant])| Comparison {
                    block: metric.work,
                    paired: true,
                    baseline,
                    variant,
                    direction: Direction::HigherIsBetter,
                    margin: metric.margin,
                    floor: 0.0,
                })
                .collect();
            match self.rule {
                Rule::Fixed { .. } => judge(&comparisons, &family),
                Rule::UntilDecided { .. } => {
                    replay(&comparisons, &family, schedule, done, has_ended)
                }
            }
        };
        [of(1), of(2)]
    }

    /// Of a hundred plans, those with a difference that is not there.
    fn false_alarms(&self, plans: u32) -> f64 {
        let hits = (0..plans).filter(|plan| {
            let (judged, _) = self.run(u64::from(*plan));
            let is_false = |one: &Judged| matches!(one.verdict, Verdict::Better | Verdict::Worse);
            judged.iter().flatten().any(is_false)
        });
        hits.count() as f64 / f64::from(plans) * 100.0
    }

    /// Of a hundred comparisons, those that are decided; and rounds.
    fn decided(&self, plans: u32) -> (f64, f64) {
        let (mut decided, mut all, mut cost) = (0, 0, 0.0);
        for plan in 0..plans {
            let (judged, rounds) = self.run(u64::from(plan));
            cost += rounds;
            for one in judged.iter().flatten() {
                all += 1;
                decided += usize::from(one.decided_at.is_some());
            }
        }
        (decided as f64 / all as f64 * 100.0, cost / f64::from(plans))
    }
}

pub fn tune() {
    let plans = std::env::var("PLANS").ok().and_then(|v| v.parse().ok()).unwrap_or(200);
    let scatter = std::env::var("SCATTER").ok().and_then(|v| v.parse().ok()).unwrap_or(1.0);
    let rounds = std::env::var("ROUNDS").ok().and_then(|v| v.parse().ok()).unwrap_or(19);
    let base = Simulation {
        metrics: &QUICK,
        works: 4,
        is_changed: true,
        noise: Noise::Normal,
        scatter,
        spoilt: 0.0,
        rule: Rule::Fixed { rounds },
    };
    for (name, rule) in [
        ("fixed", Rule::Fixed { rounds }),
        ("early", Rule::UntilDecided { looks: LookRule::Early, budget: rounds }),
        ("even", Rule::UntilDecided { looks: LookRule::Even, budget: rounds }),
    ] {
        if std::env::var("ONLY").is_ok_and(|only| only != name) {
            continue;
        }
        let s = Simulation { rule, ..base };
        let (d, c) = s.decided(plans);
        print!("{name}: decided {d:.1} cost {c:.1}");
        if std::env::var("AA").is_ok() {
            for (n, noise) in [
                ("normal", Noise::Normal),
                ("t3", Noise::HeavyTailed),
                ("lognormal", Noise::LogNormal),
            ] {
                print!(
                    " aa {n} {:.2}",
                    Simulation { is_changed: false, noise, ..s }.false_alarms(plans)
                );
            }
        }
        println!();
    }
}
